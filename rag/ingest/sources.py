"""What is to be read: files, folders and shards, opened into documents and pages."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from rag import corpus_files as files
from rag.errors import DocumentError, UsageError
from rag.ingest import page_images
from rag.ingest.chunk import fold_whitespace
from rag.ingest.limits import VARIABLES, Limits
from rag.ingest.pages import PageTask, page_id, text_rows
from rag.ingest.report import Report
from rag.ingest.stage import shortened
from rag.ingest.text import drop_controls, read_records
from rag.ingest.workers import Item
from rag.types import Document

if TYPE_CHECKING:
    from rag.ingest.publaynet import AnnotatedImage

Kind = Literal["auto", "pdf", "text", "image", "publaynet"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_STEM_CHARS = 100

_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "pdf": (".pdf",),
    "text": (".jsonl", ".jsonl.gz"),
    "image": page_images.SUFFIXES,
    "publaynet": (".tar", ".tar.gz", ".tgz"),
}
_WANTED = "PDF, image (PNG, JPEG, TIFF), JSON-lines file or tar shard"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Source:
    """A file, a folder of annotated pages, or (where ``is_hub``) the name of a dataset on the hub."""

    path: Path
    kind: Kind
    is_hub: bool = False

    def fingerprint(self) -> str:
        """Changes when the file does, as far as its size and time tell; of a folder, those of its files."""
        if self.is_hub:
            return f"{self.kind} {self.path}"
        inside = sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]
        stats = [(file.name, file.stat()) for file in inside]
        return f"{self.kind} {self.path.resolve()} {[(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]}"


def find_sources(given: Sequence[Path | str], kind: Kind, report: Report) -> list[Source]:
    """Every source, folders opened, in order, each file once.

    Raises:
        UsageError: one does not exist or is of no known kind.
    """
    found: dict[Path, Source] = {}
    for path in map(Path, given):
        for source in _opened_source(path, kind):
            place = source.path.resolve()
            if place in found:
                report.notes.append(f"{source.path.name} was given twice and taken once.")
            else:
                found[place] = source
    return list(found.values())


def _opened_source(path: Path, kind: Kind) -> list[Source]:
    from rag.ingest import publaynet

    try:
        if not path.exists():
            if kind == "publaynet" and _HUB_NAME.fullmatch(str(path)):
                return [Source(path, kind, is_hub=True)]
            raise UsageError(f"{path} does not exist; check the path.")
        inside = sorted(path.iterdir()) if path.is_dir() else None
        if inside is not None and kind in ("auto", "publaynet") and publaynet.is_folder(path):
            return [Source(path, "publaynet")]
    except OSError as error:
        raise UsageError(f"{shortened(str(path))} can't be read ({error.strerror}); check the path.") from error
    if inside is None:
        file_kind = kind_of(path) if kind == "auto" else kind
        if file_kind is None:
            raise UsageError(f"{path.name} is no {_WANTED}; say what it is with --kind.")
        return [Source(path, file_kind)]
    kinds = [(file, kind_of(file)) for file in inside if file.is_file()]
    taken = [Source(file, k) for file, k in kinds if k is not None and kind in ("auto", k)]
    if not taken:
        raise UsageError(f"The folder {path} holds no {_WANTED if kind == 'auto' else f'{kind} file'}.")
    return taken


def kind_of(file: Path) -> Kind | None:
    """What a file is, by its suffix."""
    name = file.name.lower()
    return next((kind for kind, suffixes in _SUFFIXES.items() if name.endswith(suffixes)), None)


def document_id(file: Path) -> str:
    """The file's stem, without what can't stand in a file name."""
    stem = re.sub(r"[\x00-\x1f\x7f/\\]", "_", file.stem).encode("utf-8", "replace").decode("utf-8")
    return stem[:MAX_STEM_CHARS] or "document"


# --- descriptions ----------------------------------------------------------------------------------------------------


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
    """On one line, and without control characters and lone surrogates."""
    return fold_whitespace(drop_controls(text))


_DESCRIBED = ("title", "authors", "year", "licence", "copyright", "source")


# --- documents and pages ---------------------------------------------------------------------------------------------


@dataclass
class Plan:
    """Opens sources into pages. ``documents`` fills up as the pages of streams are handed out; ``refuse`` is told what can't be
    taken, and why; ``note`` what is odd about the rest."""

    images: Path
    refuse: Callable[[str], None]
    languages: str = "eng"
    limit: int | None = None
    limits: Limits = field(default_factory=Limits)
    note: Callable[[str], None] = lambda line: None
    documents: dict[str, Document] = field(default_factory=dict)
    total: int | None = 0
    """Pages in all; None where a stream doesn't say."""
    _files: dict[str, str] = field(default_factory=dict)
    """SHA-256 -> name of a file taken."""
    _taken: int = 0
    _said: bool = False
    _beyond: int = 0
    """Pages beyond ``limit``; where ``_is_stream_cut``, there may be more."""
    _is_stream_cut: bool = False

    def items(self, sources: Sequence[Source]) -> Iterator[Item]:
        """The pages of all sources in order. PDFs and images are opened at once, so that ``total`` is known and a damaged
        file is named before hours of reading; text and annotated pages come as a stream."""
        opened = []
        for source in self._within_limits(sources):
            try:
                opened.append(_OPENERS[source.kind](self, source))
            except DocumentError as error:
                self.refuse(str(error))
        return self._chained(opened)

    def _chained(self, opened: Sequence[Iterator[Item]]) -> Iterator[Item]:
        for items in opened:
            try:
                yield from items
            except DocumentError as error:
                self.refuse(str(error))
        if self.limit is not None and self._beyond:
            pages, least = f"{self.limit:,} page{'s' * (self.limit != 1)}", "at least " * self._is_stream_cut
            self.note(f"Limited to {pages}; {least}{self._beyond:,} more were not read.")

    def _within_limits(self, sources: Sequence[Source]) -> Iterator[Source]:
        left = math.inf if self.limits.mb is None else self.limits.mb * 1_000_000
        for count, source in enumerate(sources, start=1):
            size = source.path.stat().st_size if source.path.is_file() else 0
            if self.limits.files is not None and count > self.limits.files:
                self.refuse(f"{source.path.name}: at most {self.limits.files} files are taken ({VARIABLES['files']}).")
            elif size > left:
                limit = f"at most {self.limits.mb:,} MB are taken in all ({VARIABLES['mb']})"
                self.refuse(f"{source.path.name} has {size / 1e6:,.1f} MB; {limit}.")
            else:
                left -= size
                yield source

    def _room(self, pages: int, file: str) -> int:
        """How many of so many more pages may be taken; what is beyond the limit of the place is refused."""
        wanted = pages if self.limit is None else min(pages, self.limit - self._taken)
        self._beyond += pages - wanted
        most = self.limits.pages
        room = wanted if most is None else min(wanted, most - self._taken)
        if room < wanted and not self._said:
            self._said = pages == 1  # of a stream it is said once
            self.refuse(
                f"{file}: {wanted - room:,} pages were left out; at most {most:,} are taken ({VARIABLES['pages']})."
            )
        self._taken += room
        return room

    def _leave(self, rest: Iterator[object] | None) -> None:
        """Count what follows in a stream beyond ``limit``; ``None`` where all of it would have to be read for that."""
        if self._beyond and rest is not None:
            self._beyond += sum(1 for _ in rest)
        self._is_stream_cut |= rest is None

    def _add(self, document: Document, file: str) -> None:
        if document.id in self.documents:
            raise DocumentError(f"{file}: another document is called {document.id!r} already; rename one of the files.")
        self.documents[document.id] = document

    def _document(self, file: Path, pages: int, title: str) -> Document | None:
        """The document of a file of so many pages, if there is room for any of them."""
        digest = files.sha256_of(file)
        if twin := self._files.get(digest):
            self.note(f"{file.name} has the same content as {twin} and was left out.")
            return None
        name = document_id(file)
        if name in self.documents:
            other = self.documents[name]
            raise DocumentError(
                f"{file.name} (pages: {pages:,}): another document is called {name!r} already ({other.file}, pages: "
                f"{other.pages:,}), with other content; rename one of the files."
            )
        room = self._room(pages, file.name)
        if not room:
            return None
        described = {"title": title, **read_descriptions(file.parent).get(file.name, {})}
        self._add(Document(id=name, file=_clean(file.name), pages=room, sha256=digest, **described), file.name)
        self._files[digest] = file.name
        self.total = None if self.total is None else self.total + room
        return self.documents[name]

    def _tasks(self, document: Document | None, file: Path, kind: Literal["pdf", "image"]) -> Iterator[Item]:
        for number in range(1, document.pages + 1) if document else ():
            assert document is not None
            yield self._task(kind, str(file), file.name, document.id, number, page_id(document.id, number))

    def _task(
        self, kind: Literal["pdf", "image"], source: str | bytes, file: str, document: str, number: int, page: str
    ) -> PageTask:
        return PageTask(
            kind, source, file, document, number, page, str(self.images), self.languages, self.limits.pixels
        )

    # --- one opener a kind ---

    def pdf(self, source: Source) -> Iterator[Item]:
        """The pages of a PDF."""
        from rag.ingest.pdf import open_pdf

        with open_pdf(source.path) as pdf:
            pages, title = pdf.page_count, _clean(str((pdf.metadata or {}).get("title") or ""))
            is_repaired = pdf.is_repaired
        if is_repaired:
            self.note(
                f"{source.path.name} is damaged and was read as far as it goes; pages, or parts of them, may be missing."
            )
        return self._tasks(self._document(source.path, pages, title), source.path, "pdf")

    def image(self, source: Source) -> Iterator[Item]:
        """The page of an image file, or those of a TIFF."""
        pages = page_images.page_count(source.path)
        return self._tasks(self._document(source.path, pages, ""), source.path, "image")

    def text(self, source: Source) -> Iterator[Item]:
        """The records of a JSON-lines file, a page each."""
        self.total = None
        for record in read_records(source.path, lambda error: self.refuse(str(error))):
            if record.source in self.documents:
                self.refuse(f"{source.path.name}: the source {record.source!r} is in another file too.")
                continue
            if not self._room(1, source.path.name):
                self._leave(None)
                return
            digest = hashlib.sha256(record.text.encode()).hexdigest()
            title = Path(record.source).stem
            self._add(Document(record.source, title, _clean(source.path.name), 1, digest), record.source)
            yield text_rows(record.source, record.text)

    def publaynet(self, source: Source) -> Iterator[Item]:
        """Annotated page images, each a document whose only page has the same id: the stem of its file."""
        from rag.ingest import publaynet

        self.total = None

        def refuse(error: DocumentError) -> None:
            if not self._beyond:  # what is not read has no faults
                self.refuse(str(error))

        if source.is_hub:
            pages = publaynet.read_hub(source.path.as_posix(), refuse=refuse)
        elif source.path.is_dir():
            pages = publaynet.read_folder(source.path, refuse=refuse)
        else:
            pages = publaynet.read_shards([source.path], refuse=refuse)
        for page in pages:
            if not self._room(1, page.file):
                self._leave(pages if source.path.is_dir() else None)
                return
            content = page.image if isinstance(page.image, bytes) else page.image.read_bytes()
            try:
                self._add(Document(page.stem, page.stem, page.file, 1, hashlib.sha256(content).hexdigest()), page.file)
            except DocumentError as error:
                self.refuse(str(error))
                continue
            image = page.image if isinstance(page.image, bytes) else str(page.image)
            yield self._annotated(image, page)

    def _annotated(self, image: str | bytes, page: AnnotatedImage) -> PageTask:
        return replace(self._task("image", image, page.file, page.stem, 1, page.stem), annotations=page.annotations)


_OPENERS: dict[Kind, Callable[[Plan, Source], Iterator[Item]]] = {
    "pdf": Plan.pdf,
    "image": Plan.image,
    "text": Plan.text,
    "publaynet": Plan.publaynet,
}
