"""The whole ingestion: documents in, a corpus folder out.

Pages are read by worker processes and go straight to disk, so that memory does not grow with the number of pages. A
file or page that can't be read is named in the report, and the rest goes in. A run that was killed can be gone on with.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag import corpus_files as files
from rag.corpus import TOOLS, save_corpus
from rag.errors import DocumentError, Stopped, UsageError
from rag.ingest.languages import USUAL, check_languages
from rag.ingest.limits import Limits
from rag.ingest.models import Answers, Models, consulted
from rag.ingest.pages import OpenTable, PageTask, Rows
from rag.ingest.report import PageReport, Report
from rag.ingest.sources import Kind, Plan, Source, find_sources
from rag.ingest.stage import Journal, stage, target
from rag.ingest.workers import Item, in_order, mapped
from rag.types import Chunk, Document, Progress, Region, Triple

if TYPE_CHECKING:
    from rag.encoders import TextEncoder

PAGE_TABLES = ("pages", "regions", "chunks", "crops")
_PAGES_PER_BLOCK = 32
"""Pages whose triples are extracted, and then kept, together."""


def ingest(
    sources: Sequence[Path | str],
    out: Path | str,
    *,
    kind: Kind = "auto",
    name: str = "",
    limit: int | None = None,
    languages: str = USUAL,
    limits: Limits | None = None,
    triples_file: Path | str | None = None,
    models: Models | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    encoder: TextEncoder | None = None,
    progress: Callable[[Progress], None] = lambda event: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """Build a corpus from PDF files, page images, annotated page images, JSON lines, or folders of them.

    Args:
        sources: files and folders; of a folder, all files of ``kind`` in it. out: the corpus folder to write; it appears
        when all is done. kind: what the files are; ``auto`` goes by the suffix. name: name of the corpus; by default
        that of the folder. limit: at most this many pages in all. languages: what OCR reads, in Tesseract's names
        (``eng+deu``). limits: what is refused. triples_file: JSON lines of ``chunk_md5`` and ``triples``, taken instead of
        extracting. models: who captions the crops, and extracts the triples instead of the grammar, and for how much.
        workers: processes that read pages; by default one a core, two at most. overwrite: replace a corpus that is in
        ``out``. resume: go on where a run with the same sources and options was cut off, if there is one, and keep what
        is finished should this one be. encoder: text encoder of the index; by default the embedded one. progress: told of
        every step. stopped: asked several times a second while pages are read, and between steps.

    Raises:
        UsageError: a source does not exist or is of no known kind; ``out`` can't be written; models would cost too much.
        GeneratorError: a model can't be asked.
        DocumentError: nothing could be read from any source; gives the reasons.
        CorpusError: ``out`` is taken.
        OcrUnavailable: ``languages`` are others than ``eng`` and not installed.
        Stopped: ``stopped`` said so; nothing is left behind.
    """
    _check_wanted(workers, languages, models, triples_file)
    limits, watch = limits or Limits(), _Watch(progress, stopped)
    report = Report(Path(out))
    found = find_sources(sources, kind, report)
    out = target(Path(out), overwrite)
    given_triples = "" if triples_file is None else Source(Path(triples_file), "text").fingerprint()
    processes = workers or min(2, os.cpu_count() or 1)
    with stage(out, _digest(found, (limit, languages, limits, given_triples)), resume) as folder:
        plan = Plan(folder, report.refused.append, languages, limit, limits, report.notes.append)
        _read_pages(folder, plan, found, report, processes, watch)
        if not report.counts["chunks"]:
            reasons = " ".join([*report.refused, *report.notes][:5])
            raise DocumentError(f"No text could be read from {', '.join(str(s) for s in sources)}. {reasons}".rstrip())
        with consulted(models, folder, watch.tell, watch.look, report.notes.append) as answers:
            report.counts["triples"] = (
                answers.write_triples()
                if models is not None and models.extractor is not None
                else _find_triples(folder, triples_file, report.counts, processes, watch)
            )
            kinds = "+".join(sorted({source.kind for source in found}))
            documents = tuple(plan.documents.values())
            _save(folder, out, name or out.name, kinds, documents, answers, encoder, overwrite, watch)
            report.uncaptioned = answers.bare
    return report


@dataclass(frozen=True, slots=True)
class _Watch:
    """Who is told of every step, and may end the work at each."""

    progress: Callable[[Progress], None]
    stopped: Callable[[], bool]

    def look(self) -> None:
        if self.stopped():
            raise Stopped("The documents were not taken in: it was stopped.")

    def tell(self, event: Progress) -> None:
        self.progress(event)
        self.look()


def _check_wanted(workers: int | None, languages: str, models: Models | None, triples_file: Path | str | None) -> None:
    """Refuse at once what would else fail, or be met at every page."""
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers can't read anything; give at least 1.")
    if models is not None:
        models.check()
        if models.extractor is not None and triples_file is not None:
            raise UsageError("Triples come from a file or from a model; leave out --triples or --triple-extractor.")
    if languages != USUAL:  # where all is well, nothing need be installed for it
        check_languages(languages)


def _save(
    folder: Path,
    out: Path,
    name: str,
    kind: str,
    documents: Sequence[Document],
    answers: Answers,
    encoder: TextEncoder | None,
    overwrite: bool,
    watch: _Watch,
) -> None:
    """Make the corpus of the tables and images in the folder."""
    tables = {table: files.read_table(folder, table) for table in files.TABLES}
    save_corpus(
        out,
        name=name,
        kind=kind,
        documents=documents,
        words=files.read_words(folder),
        images=folder,
        encoder=encoder,
        overwrite=overwrite,
        progress=watch.tell,
        **tables | {"crops": answers.captioned(tables["crops"])},
    )


def _digest(sources: Sequence[Source], options: Sequence[object]) -> str:
    """Changes with all that the finished part of a corpus depends on."""
    tools = [(tool, metadata.version(tool)) for tool in TOOLS]
    value = repr(([source.fingerprint() for source in sources], [str(option) for option in options], tools))
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()


# --- pages -----------------------------------------------------------------------------------------------------------


def _read_pages(
    folder: Path,
    plan: Plan,
    sources: Sequence[Source],
    report: Report,
    workers: int,
    watch: _Watch,
) -> None:
    """Read all pages into tables and images in the folder; those that its journal knows are not read again."""
    counts = report.counts
    counts.update(dict.fromkeys(("documents", *files.TABLES), 0))
    for images in ("pages", "crops"):
        (folder / images).mkdir(exist_ok=True)
    with ExitStack() as stack:
        journal = Journal(folder, "pages", (*PAGE_TABLES, "words"), stack)
        finished: dict[tuple[str, int], None] = {}
        open_table: OpenTable | None = None
        for entry in journal.entries:
            page = PageReport(**entry["page"])
            report.add(page)
            finished[page.document, page.number] = None
            open_table = OpenTable.from_json(entry["table"]) if entry.get("table") else None
            for table, count in entry["rows"].items():
                counts[table] += count
        items = (item for item in plan.items(sources) if _key(item) not in finished)
        results = stack.enter_context(closing(in_order(items, workers, plan.limits.page_seconds, watch.look)))
        if finished:
            watch.tell(_pages_read(len(finished), plan, counts, "read before: {} pages"))
        for done, (item, result) in enumerate(results, start=len(finished) + 1):
            result, open_table = _with_table(item, result, open_table)
            _keep(journal, folder, item, result, report, open_table)
            if done % 10 == 0 or done == plan.total:
                watch.tell(_pages_read(done, plan, counts))
    counts["documents"] = len(plan.documents)


def _with_table(item: Item, result: Rows | str, before: OpenTable | None) -> tuple[Rows | str, OpenTable | None]:
    """The page, with a table that goes on from the page before; and the one that is open at its foot."""
    if isinstance(result, str) or isinstance(item, Rows) or result.content is None:
        return result, None
    from rag.ingest.continued import joined  # it needs what reads PDFs, which few processes have loaded

    return joined(item, result, before)


def _key(item: Item) -> tuple[str, int]:
    return (item.document, item.number) if isinstance(item, PageTask) else (item.page.document, item.page.number)


def _pages_read(done: int, plan: Plan, counts: Mapping[str, int], line: str = "read {} pages") -> Progress:
    how_many = f"{done:,} of {plan.total:,}" if plan.total else f"{done:,}"
    return Progress("pages", done, plan.total or 0, line.format(how_many), dict(counts))


def _keep(
    journal: Journal, folder: Path, item: Item, result: Rows | str, report: Report, open_table: OpenTable | None
) -> None:
    """Write a page down, or why there is none; with the table that is open at its foot, for a run that goes on from here."""
    document, number = _key(item)
    if isinstance(result, str):
        page, rows = PageReport(document, number, "refused", result), {}
        if isinstance(item, PageTask):
            _remove_images(folder, item.page_id)
    else:
        page = PageReport(document, number, result.status, result.note, result.languages)
        rows = {table: [files.line_of(row) for row in getattr(result, table)] for table in PAGE_TABLES[1:]}
        rows["pages"] = [files.line_of(result.page)]
        rows["words"] = [files.words_line(files.PageWords(result.page.id, result.words))] if result.words else []
    written = {table: len(rows.get(table, ())) for table in PAGE_TABLES}
    journal.add({"page": asdict(page), "rows": written, "table": asdict(open_table) if open_table else None}, rows)
    report.add(page)
    for table, count in written.items():
        report.counts[table] += count


def _remove_images(folder: Path, page_id: str) -> None:
    """What a page's reader had saved before it failed."""
    (folder / "pages" / f"{page_id}.webp").unlink(missing_ok=True)
    for kind in ("figure", "table"):
        number = 0
        while (file := folder / "crops" / f"{page_id}_{kind}{number}.webp").exists():
            file.unlink()
            number += 1


# --- triples ---------------------------------------------------------------------------------------------------------


def _find_triples(
    folder: Path,
    file: Path | str | None,
    counts: Mapping[str, int],
    workers: int,
    watch: _Watch,
) -> int:
    """Write the triples of all chunks, block by block of pages; blocks that the journal knows are passed over."""
    watch.tell(
        Progress("triples", 0, counts["pages"], f"extracting triples from {counts['chunks']:,} chunks", dict(counts))
    )
    with ExitStack() as stack:
        journal = Journal(folder, "triples", ("triples",), stack)
        pages, found = (sum(int(entry[what]) for entry in journal.entries) for what in ("pages", "triples"))
        blocks = islice(_blocks(folder), len(journal.entries), None)
        if file is None:  # in processes of their own: the parser takes 600 MB, and this one may go on to serve the page
            results: Iterator[tuple[int, list[Triple]]] = stack.enter_context(
                closing(mapped(_extracted, blocks, workers, watch.look))
            )
        else:
            results = map(_looked_up(Path(file)), blocks)
        for size, triples in results:
            journal.add({"pages": size, "triples": len(triples)}, {"triples": map(files.line_of, triples)})
            found, pages = found + len(triples), pages + size
            line = f"extracted triples from {pages:,} of {counts['pages']:,} pages"
            watch.tell(Progress("triples", pages, counts["pages"], line, {**counts, "triples": found}))
    return found


@dataclass(frozen=True, slots=True)
class _Block:
    """So many consecutive pages with their rows."""

    pages: int
    chunks: list[Chunk]
    regions: list[Region]


def _blocks(folder: Path) -> Iterator[_Block]:
    """The corpus in blocks; all three tables have the same order of pages."""
    pages = (page.id for page in files.read_table(folder, "pages"))
    chunks_of, regions_of = (
        _by_page(groupby(files.read_table(folder, table), key=lambda row: str(row.page_id)))
        for table in ("chunks", "regions")
    )
    while block := list(islice(pages, _PAGES_PER_BLOCK)):
        chunks = [chunk for page in block for chunk in chunks_of(page)]
        yield _Block(len(block), chunks, [region for page in block for region in regions_of(page)])


def _by_page(groups: Iterator[tuple[str, Iterable[Any]]]) -> Callable[[str], list[Any]]:
    """Gives the rows of a page, for pages in the order of the table, some of which have none."""
    ahead: list[tuple[str, list[Any]]] = []

    def rows(page: str) -> list[Any]:
        if not ahead:
            ahead.extend((key, list(group)) for key, group in islice(groups, 1))
        return ahead.pop()[1] if ahead and ahead[0][0] == page else []

    return rows


def _extracted(block: _Block) -> tuple[int, list[Triple]]:
    from rag.ingest.triples import extract

    return block.pages, list(extract(block.chunks, block.regions))


def _looked_up(file: Path) -> Callable[[_Block], tuple[int, list[Triple]]]:
    from rag.ingest.triples import load_triples

    by_md5 = load_triples(file)

    # The study's counts (36,447 edges on HotpotQA) take a text that stands in several chunks once for each.
    def find(chunks: Sequence[Chunk]) -> Iterator[Triple]:
        for chunk in chunks:
            md5 = hashlib.md5(chunk.text.encode(), usedforsecurity=False).hexdigest()
            for triple in by_md5.get(md5, ()):
                yield replace(triple, chunk_id=chunk.id, page_id=chunk.page_id)

    return lambda block: (block.pages, list(find(block.chunks)))
