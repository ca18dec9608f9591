"""The whole ingestion: documents in, a corpus folder out.

Pages are read by worker processes and go straight to disk, so that memory does not grow with the number of pages. A
file or page that can't be read is named in the report, and the rest goes in."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from rag import corpus_files as files
from rag.corpus import check_target, save_corpus
from rag.errors import DocumentError, UsageError
from rag.ingest.chunk import fold_whitespace, windows
from rag.ingest.text import read_records
from rag.types import Chunk, Crop, Document, Page, Region, Triple, Word

if TYPE_CHECKING:
    import pymupdf
    from PIL.Image import Image

    from rag.encoders import TextEncoder
    from rag.ingest.pdf import PageContent

Kind = Literal["auto", "pdf", "text"]

PAGE_DPI, PAGE_QUALITY = 110, 75
CROP_DPI, CROP_QUALITY = 200, 80
PAGES_PER_TASK = 4
MAX_STEM_CHARS = 100
_WEBP_MAX_SIDE = 16_383
_TEXT_SUFFIXES = (".jsonl", ".jsonl.gz")
# What MuPDF, the layout model and Pillow raise on a page they can't make sense of; one page must not cost the document.
_PAGE_FAULTS = (RuntimeError, ValueError, OSError, MemoryError, ArithmeticError, LookupError)
_SPAWN = multiprocessing.get_context("spawn")  # threads of onnxruntime and faiss don't survive a fork


@dataclass(slots=True)
class Report:
    """What went in and what did not. ``refused`` names files, lines and pages that were left out, with the reason;
    ``notes`` names pages that went in with something missing."""

    folder: Path
    counts: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """A few lines for the person."""
        lines = [f"{self.folder}: " + ", ".join(f"{count:,} {name}" for name, count in self.counts.items())]
        lines += [f"left out: {reason}" for reason in self.refused]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Task:
    """Pages of one PDF for a worker; ``pages`` count from 0."""

    path: str
    document: str
    pages: tuple[int, ...]
    images: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """What one page adds to the tables."""

    page: Page
    regions: tuple[Region, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    crops: tuple[Crop, ...] = ()
    words: tuple[Word, ...] = ()
    note: str = ""


_Read = Callable[[_Task], "list[_Rows | str]"]


def ingest(
    sources: Sequence[Path | str],
    out: Path | str,
    *,
    kind: Kind = "auto",
    name: str = "",
    limit: int | None = None,
    triples_file: Path | str | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    encoder: TextEncoder | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Report:
    """Build a corpus from PDF files, folders of them, or JSON lines.

    Args:
        sources: files and folders; of a folder, all PDFs (``kind`` pdf or auto) or JSON-lines files (``kind`` text)
        in it. out: the corpus folder to write; it appears when all is done. kind: what the files are; ``auto`` goes
        by the suffix. name: name of the corpus; by default that of the folder. limit: at most this many pages in all.
        triples_file: JSON lines of ``chunk_md5`` and ``triples``, taken instead of extracting. workers: processes
        that read pages; by default one a core, two at most. overwrite: replace a corpus that is in ``out``. encoder:
        text encoder of the index; by default the embedded one. progress: told a line at every step.

    Raises:
        UsageError: a source does not exist or is of no known kind; ``out`` can't be written.
        DocumentError: nothing could be read from any source; gives the reasons.
        CorpusError: ``out`` is taken.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers can't read anything; give at least 1.")
    report = Report(Path(out))
    found = _files(sources, kind, report)
    out, staging = _stage_for(Path(out), overwrite)
    with staging as folder:
        stage = Path(folder)
        reader = _Reader(stage, report, progress, limit, workers or min(2, os.cpu_count() or 1))
        documents = reader.read(found)
        if not report.counts["chunks"]:
            reasons = " ".join([*report.refused, *report.notes][:5])
            raise DocumentError(f"No text could be read from {', '.join(str(s) for s in sources)}. {reasons}".rstrip())
        progress(f"extracting triples from {report.counts['chunks']:,} chunks")
        report.counts["triples"] = files.write_table(
            stage, "triples", _triples(stage, None if triples_file is None else Path(triples_file))
        )
        tables = {table: files.read_table(stage, table) for table in files.TABLES}
        save_corpus(
            out,
            name=name or out.name,
            kind="+".join(sorted({kind for _, kind in found})),
            documents=documents,
            words=files.read_words(stage),
            images=stage,
            encoder=encoder,
            overwrite=overwrite,
            progress=progress,
            **tables,
        )
    return report


def _stage_for(given: Path, overwrite: bool) -> tuple[Path, tempfile.TemporaryDirectory[str]]:
    """``out`` in full and a new folder beside it to work in. What fails here would else fail after all the work."""
    try:
        out = given.resolve()
        check_target(out, overwrite)
        if out.is_mount():
            raise UsageError(f"{given} is a mount point and can't be replaced; give a folder inside it with --out.")
        out.parent.mkdir(parents=True, exist_ok=True)
        _sweep(out)
        return out, tempfile.TemporaryDirectory(prefix=f".{out.name}.stage.{os.getpid()}.", dir=out.parent)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{given} lies under a file, not a folder; give another folder with --out.") from error
    except (OSError, RuntimeError, ValueError) as error:  # resolve: RuntimeError for a loop of links
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{_shortened(str(given))} can't be written ({reason}); give another with --out.") from error


def _shortened(text: str, length: int = 100) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _sweep(out: Path) -> None:
    """Remove the stage folders that runs left behind which were killed."""
    pattern = re.compile(rf"\.{re.escape(out.name)}\.stage\.(\d+)\.\w+")
    for folder in out.parent.iterdir():
        stage = pattern.fullmatch(folder.name)
        if stage and not _runs(int(stage[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another person's
        return True
    return True


# --- sources ---------------------------------------------------------------------------------------------------------


def _files(sources: Sequence[Path | str], kind: Kind, report: Report) -> list[tuple[Path, str]]:
    """(file, kind) of every source, folders opened, in order, each file once."""
    found: dict[Path, tuple[Path, str]] = {}
    for source in map(Path, sources):
        for file, file_kind in _opened_source(source, kind):
            if file.resolve() in found:
                report.notes.append(f"{file.name} was given twice and taken once.")
            else:
                found[file.resolve()] = file, file_kind
    return list(found.values())


def _opened_source(source: Path, kind: Kind) -> list[tuple[Path, str]]:
    try:
        if not source.exists():
            raise UsageError(f"{source} does not exist; check the path.")
        inside = sorted(source.iterdir()) if source.is_dir() else None
    except OSError as error:
        raise UsageError(f"{_shortened(str(source))} can't be read ({error.strerror}); check the path.") from error
    if inside is None:
        file_kind = _kind(source, kind)
        if file_kind is None:
            raise UsageError(f"{source.name} is no PDF and no JSON-lines file; say what it is with --kind.")
        return [(source, file_kind)]
    kinds = [(file, _kind(file, "auto")) for file in inside if file.is_file()]
    taken = [(file, k) for file, k in kinds if k is not None and kind in ("auto", k)]
    if not taken:
        raise UsageError(f"The folder {source} holds no PDF and no JSON-lines file.")
    return taken


def _kind(file: Path, kind: Kind) -> str | None:
    if kind != "auto":
        return kind
    name = file.name.lower()
    return "pdf" if name.endswith(".pdf") else "text" if name.endswith(_TEXT_SUFFIXES) else None


def document_id(file: Path) -> str:
    """The file's stem, without what can't stand in a file name."""
    stem = re.sub(r"[\x00-\x1f\x7f/\\]", "_", file.stem).encode("utf-8", "replace").decode("utf-8")
    return stem[:MAX_STEM_CHARS] or "document"


def read_descriptions(folder: Path) -> dict[str, dict[str, str]]:
    """``documents.json`` of a folder of documents: file name -> title, authors, year, licence, copyright, source.

    Raises:
        UsageError: the file is damaged.
    """
    file = folder / "documents.json"
    if not file.is_file():
        return {}
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return {row["file"]: {k: _described(v) for k, v in row.items() if k in _DESCRIBED} for row in rows}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(
            f'{file} must be a JSON list of objects with a "file" each and texts or numbers as {", ".join(_DESCRIBED)}; '
            "mend or delete it."
        ) from error


def _described(value: object) -> str:
    """A text or number as a text, null as none; other values are a ValueError."""
    if value is None:
        return ""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a number")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("neither text nor number")
    return _clean(str(value))


def _clean(text: str) -> str:
    """On one line, and without lone surrogates, which can't be written as UTF-8."""
    return fold_whitespace(text.encode("utf-8", "replace").decode("utf-8"))


_DESCRIBED = ("title", "authors", "year", "licence", "copyright", "source")


# --- reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads sources into tables and images in the folder ``stage``."""

    def __init__(
        self, stage: Path, report: Report, progress: Callable[[str], None], limit: int | None, workers: int
    ) -> None:
        self._stage, self._report, self._progress = stage, report, progress
        self._left = limit if limit is not None else 10**9
        self._workers = workers
        self._tables: dict[str, IO[str]] = {}
        for folder in ("pages", "crops"):
            (stage / folder).mkdir()

    def read(self, found: Sequence[tuple[Path, str]]) -> list[Document]:
        """Read all files; the documents in order."""
        counts = self._report.counts
        counts.update(dict.fromkeys(("documents", *files.TABLES), 0))
        documents: dict[str, Document] = {}
        with ExitStack() as stack:
            for table in ("pages", "regions", "chunks", "crops"):
                opened = (self._stage / f"{table}.jsonl").open("w", encoding="utf-8", newline="\n")
                self._tables[table] = stack.enter_context(opened)
            self._words = stack.enter_context((self._stage / files.WORDS).open("w", encoding="utf-8", newline="\n"))
            tasks: list[_Task] = []
            for file, kind in found:
                try:
                    if kind == "text":
                        self._read_text(file, documents)
                    else:
                        tasks += self._plan(file, documents)
                except DocumentError as error:
                    self._refuse(str(error))
            self._read_pages(tasks)
        counts["documents"] = len(documents)
        return list(documents.values())

    def _refuse(self, reason: str) -> None:
        self._report.refused.append(reason)

    def _add(self, rows: _Rows) -> None:
        for table, items in (
            ("pages", (rows.page,)),
            ("regions", rows.regions),
            ("chunks", rows.chunks),
            ("crops", rows.crops),
        ):
            self._tables[table].writelines(map(files.line_of, items))
            self._report.counts[table] += len(items)
        if rows.words:
            self._words.write(files.words_line(files.PageWords(rows.page.id, rows.words)))
        if rows.note:
            self._report.notes.append(f"{rows.page.document}, p. {rows.page.number}: {rows.note}")

    def _read_text(self, file: Path, documents: dict[str, Document]) -> None:
        for record in read_records(file, lambda error: self._refuse(str(error))):
            if self._left <= 0:
                return
            if record.source in documents:
                self._refuse(f"{file.name}: the source {record.source!r} is in another file too.")
                continue
            digest = hashlib.sha256(record.text.encode()).hexdigest()
            documents[record.source] = Document(record.source, Path(record.source).stem, _clean(file.name), 1, digest)
            page = Page(record.source, record.source, 1, 0.0, 0.0, "")
            chunks = tuple(_chunks(page.id, record.text, {}))
            self._add(_Rows(page, chunks=chunks, note="" if chunks else "The text is empty."))
            self._left -= 1
            if self._report.counts["pages"] % 1000 == 0:
                self._progress(f"read {self._report.counts['pages']:,} documents")

    def _plan(self, file: Path, documents: dict[str, Document]) -> list[_Task]:
        """Open a PDF and share its pages out."""
        from rag.ingest.pdf import open_pdf

        name = document_id(file)
        if name in documents:
            raise DocumentError(f"{file.name}: another document is called {name!r} already; rename one of the files.")
        if self._left <= 0:
            return []
        with open_pdf(file) as pdf:
            pages = min(pdf.page_count, self._left)
            title = _clean(str((pdf.metadata or {}).get("title") or ""))
        described = {"title": title, **read_descriptions(file.parent).get(file.name, {})}
        documents[name] = Document(
            id=name, file=_clean(file.name), pages=pages, sha256=files.sha256_of(file), **described
        )
        self._left -= pages
        return [
            _Task(str(file), name, tuple(range(start, min(start + PAGES_PER_TASK, pages))), str(self._stage))
            for start in range(0, pages, PAGES_PER_TASK)
        ]

    def _read_pages(self, tasks: Sequence[_Task]) -> None:
        total = sum(len(task.pages) for task in tasks)
        with closing(_in_processes(tasks, self._workers)) as results:
            for done, result in enumerate(results, start=1):
                if isinstance(result, str):
                    self._refuse(result)
                else:
                    self._add(result)
                if done % 10 == 0 or done == total:
                    self._progress(f"read {done:,} of {total:,} pages")


def _in_processes(
    tasks: Sequence[_Task], workers: int, read: _Read | None = None
) -> Generator[_Rows | str, None, None]:
    """The pages of all tasks in order, read by worker processes. A page that kills its worker is tried once more
    alone, and then left out."""
    read = read or _read_task
    pending = list(tasks)
    while pending:
        with _pool(workers) as pool:
            done = 0
            try:
                for results in _ahead(pool, read, pending, 2 * workers):
                    yield from results
                    done += 1
            except BrokenProcessPool:
                pass
        pending = pending[done:]
        if pending:
            yield from _one_by_one(pending.pop(0), read)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that end with this block, however it is left, and with this process."""
    lifeline, end = _SPAWN.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=_SPAWN, initializer=_watch, initargs=(lifeline,))
    try:
        yield pool
        pool.shutdown()
    finally:
        end.close()
        pool.shutdown(cancel_futures=True)
        lifeline.close()


def _ahead(pool: ProcessPoolExecutor, read: _Read, tasks: Iterable[_Task], ahead: int) -> Iterator[list[_Rows | str]]:
    """Results in order, with only a few tasks handed out at a time, so that results don't pile up."""
    source = iter(tasks)
    waiting: list[Future[list[_Rows | str]]] = [pool.submit(read, task) for task in islice(source, ahead)]
    while waiting:
        yield waiting.pop(0).result()
        waiting += [pool.submit(read, task) for task in islice(source, 1)]


def _one_by_one(task: _Task, read: _Read) -> Iterator[_Rows | str]:
    for number in task.pages:
        single = _Task(task.path, task.document, (number,), task.images)
        with _pool(1) as pool:
            try:
                yield from pool.submit(read, single).result()
            except BrokenProcessPool:
                yield f"page {number + 1} of {task.document} could not be read (its reader died) and was left out."


# --- in the worker ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _opened(path: str) -> tuple[pymupdf.Document, frozenset[str]]:
    from rag.ingest.pdf import document_vocabulary, open_pdf

    pdf = open_pdf(path)
    return pdf, document_vocabulary(pdf)


def _watch(lifeline: Connection) -> None:
    """End this worker as soon as the other end of `lifeline` is closed: the run has been stopped, or its process is
    gone. A thread waits for it, as the worker itself may be busy or waiting for work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the run says what is to be done

    def wait_for_the_end() -> None:
        multiprocessing.connection.wait([lifeline])
        os._exit(1)

    threading.Thread(target=wait_for_the_end, daemon=True).start()


def _read_task(task: _Task) -> list[_Rows | str]:
    """What the pages add, or why they don't; every fault becomes a sentence, as not every error can be sent home."""
    from rag.ingest.pdf import MUPDF_ERRORS, load_page, read_page

    results: list[_Rows | str] = []
    for number in task.pages:
        try:
            pdf, vocabulary = _opened(task.path)
            page = load_page(pdf, number, task.document)
            content = read_page(page, task.document, vocabulary)
            results.append(_rows(page, content, Path(task.images)))
        except DocumentError as error:
            results.append(str(error))
        except (*_PAGE_FAULTS, *MUPDF_ERRORS) as error:
            fault = f"{type(error).__name__}: {error}"
            results.append(f"page {number + 1} of {task.document} is damaged and was left out ({fault}).")
    return results


def _rows(page: pymupdf.Page, content: PageContent, images: Path) -> _Rows:
    from rag.ingest.pdf import render
    from rag.ingest.words import align

    page_id = f"{content.document}_p{content.number:03d}"
    image = f"pages/{page_id}.webp"
    _save(render(page, dpi=PAGE_DPI), images / image, PAGE_QUALITY)
    regions = tuple(
        Region(f"{page_id}_r{i:02d}", page_id, region.kind, region.bbox, region.text, region.order)
        for i, region in enumerate(content.regions)
    )
    crops = []
    seen = {"figure": 0, "table": 0}
    for crop in content.crops:
        crop_id = f"{page_id}_{crop.kind}{seen[crop.kind]}"
        seen[crop.kind] += 1
        file = f"crops/{crop_id}.webp"
        _save(render(page, crop.bbox, dpi=CROP_DPI), images / file, CROP_QUALITY)
        crops.append(Crop(crop_id, page_id, crop.kind, crop.bbox, file, crop.caption, crop.ocr_text))
    text = fold_whitespace(content.text)
    spans = _spans(text, regions)
    tables = [(region.bbox, spans[region.id]) for region in regions if region.kind == "table" and region.id in spans]
    return _Rows(
        Page(page_id, content.document, content.number, content.width_pt, content.height_pt, image),
        regions,
        tuple(_chunks(page_id, text, spans)),
        tuple(crops),
        align(text, content.words, tables),
        content.note,
    )


def _chunks(page_id: str, text: str, spans: Mapping[str, tuple[int, int]]) -> Iterator[Chunk]:
    for i, (start, window) in enumerate(windows(text)):
        end = start + len(window)
        touched = tuple(region for region, (low, high) in spans.items() if low < end and high > start)
        yield Chunk(f"{page_id}_c{i:02d}", page_id, window, start, touched)


def _spans(text: str, regions: Sequence[Region]) -> dict[str, tuple[int, int]]:
    """Region id -> (start, end) in the page's folded text, for the regions whose text is part of it, in reading
    order."""
    spans: dict[str, tuple[int, int]] = {}
    position = 0
    for region in regions:
        part = fold_whitespace(region.text)
        if part and text.startswith(part, position):
            spans[region.id] = (position, position + len(part))
            position += len(part) + 1
    return spans


def _save(image: Image, file: Path, quality: int) -> None:
    if max(image.size) > _WEBP_MAX_SIDE:
        image.thumbnail((_WEBP_MAX_SIDE, _WEBP_MAX_SIDE))
    image.save(file, "WEBP", quality=quality, method=4)


# --- triples ---------------------------------------------------------------------------------------------------------


def _triples(stage: Path, file: Path | None) -> Iterator[Triple]:
    from rag.ingest.triples import extract, load_triples

    chunks: Iterator[Chunk] = files.read_table(stage, "chunks")
    if file is None:
        yield from extract(chunks, files.read_table(stage, "regions"))
        return
    by_md5 = load_triples(file)
    # The study's counts (36,447 edges on HotpotQA) take a text that stands in several chunks once for each.
    for chunk in chunks:
        md5 = hashlib.md5(chunk.text.encode(), usedforsecurity=False).hexdigest()
        for triple in by_md5.get(md5, ()):
            yield replace(triple, chunk_id=chunk.id, page_id=chunk.page_id)
