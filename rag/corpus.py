"""A corpus: documents, pages, regions, chunks, crops and triples, with the indices that search them.

``open_corpus`` checks everything that a later lookup relies on; ``save_corpus`` writes to a temporary folder and
renames. The files are described in ``rag.corpus_files``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from rag import corpus_files as files
from rag.corpus_files import IndexEntry, Manifest, PageWords
from rag.encoders import (
    CLIP_WEIGHTS,
    MINILM,
    SENTENCE_TRANSFORMERS_PREFIX,
    TEXT_ENCODERS,
    MiniLM,
    TextEncoder,
    Vectors,
    text_encoder,
)
from rag.errors import CorpusError
from rag.graph import Graph
from rag.ingest.chunk import STEP, WINDOW, fold_whitespace, windows
from rag.mentions import mentions
from rag.search import Ranked, VectorIndex, WordIndex
from rag.types import Chunk, Crop, Document, Page, Progress, Region, Triple, Word

if TYPE_CHECKING:
    from rag.encoders import ImageEncoder

Scored = list[tuple[str, float]]
"""(item id, score), best first."""

METRIC = "inner product of unit vectors (cosine)"
KNOWN_DIMENSIONS: dict[str, int] = {MINILM: MiniLM.dimension, **dict.fromkeys(CLIP_WEIGHTS, 512)}
TOOLS = ("faiss-cpu", "bm25s", "onnxruntime", "tokenizers", "pymupdf", "pymupdf-layout", "spacy", "pillow")
MAX_IMAGE_PIXELS = 40_000_000
_ENCODE_AT_ONCE = 256
_IMAGE_FORMATS = ("WEBP",)
_IMAGE_FAULTS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


def proxy_texts(crop: Crop) -> tuple[str, ...]:
    """The texts under which a crop is found by words: caption and read-off text, in windows that each start with the
    caption, because the encoder reads 256 word pieces and a table may hold thousands."""
    caption, read = fold_whitespace(crop.captions), fold_whitespace(crop.ocr_text)
    parts = [window for _, window in windows(read)] or [""]
    return tuple(text for part in parts if (text := f"{caption} {part}".strip()))


def open_image(path: Path) -> Image.Image:
    """A WebP file as RGB; its size is looked at before its pixels are unpacked.

    Raises:
        CorpusError: it is missing, damaged, no WebP, or larger than ``MAX_IMAGE_PIXELS``.
    """
    try:
        with Image.open(path, formats=_IMAGE_FORMATS) as opened:
            _check_pixels(path, opened.size)
            return opened.convert("RGB")
    except _IMAGE_FAULTS as error:
        raise CorpusError(f"{path} can't be read as an image; {files.REBUILD}") from error


def image_size(path: Path) -> tuple[int, int]:
    """Width and height in pixels, from the header.

    Raises:
        CorpusError: as ``open_image``, but for damage behind the header.
    """
    try:
        with Image.open(path, formats=_IMAGE_FORMATS) as opened:
            _check_pixels(path, opened.size)
            return opened.size
    except _IMAGE_FAULTS as error:
        raise CorpusError(f"{path} can't be read as an image; {files.REBUILD}") from error


def _check_pixels(path: Path, size: tuple[int, int]) -> None:
    width, height = size
    if width * height > MAX_IMAGE_PIXELS:
        raise CorpusError(
            f"{path} has {width} x {height} pixels, and an image has at most {MAX_IMAGE_PIXELS:,}; {files.REBUILD}"
        )


@dataclass(frozen=True, eq=False)
class Corpus:
    """An open corpus. Mappings keep the order of the tables; ``triples`` are indexed by ``Fact.triple_ids``."""

    root: Path
    manifest: Manifest
    documents: Mapping[str, Document]
    pages: Mapping[str, Page]
    regions: Mapping[str, Region]
    chunks: Mapping[str, Chunk]
    crops: Mapping[str, Crop]
    triples: tuple[Triple, ...]
    indices: Mapping[tuple[str, str], VectorIndex] = field(repr=False)
    text_encoder_id: str = MINILM

    @property
    def id(self) -> str:
        """Name and short digest."""
        return self.manifest.id

    @cached_property
    def graph(self) -> Graph:
        """The knowledge graph over ``triples``."""
        return Graph(self.triples)

    # --- by page ---

    @cached_property
    def _chunks_by_page(self) -> Mapping[str, tuple[Chunk, ...]]:
        return _by_page(self.chunks.values())

    @cached_property
    def _crops_by_page(self) -> Mapping[str, tuple[Crop, ...]]:
        return _by_page(self.crops.values())

    @cached_property
    def _regions_by_page(self) -> Mapping[str, tuple[Region, ...]]:
        return _by_page(self.regions.values())

    def chunks_on(self, page_id: str) -> tuple[Chunk, ...]:
        """The page's chunks in order."""
        return self._chunks_by_page.get(page_id, ())

    def crops_on(self, page_id: str) -> tuple[Crop, ...]:
        """The page's crops in order."""
        return self._crops_by_page.get(page_id, ())

    def regions_on(self, page_id: str) -> tuple[Region, ...]:
        """The page's regions in reading order."""
        return tuple(sorted(self._regions_by_page.get(page_id, ()), key=lambda region: region.order))

    def page_text(self, page_id: str) -> str:
        """The page's folded text, put together again from its chunks."""
        text = ""
        for chunk in self.chunks_on(page_id):
            text = text[: chunk.start] + chunk.text if chunk.start + len(chunk.text) > len(text) else text
        return text

    @cached_property
    def _words_offsets(self) -> Mapping[str, int]:
        return files.words_offsets(self.root) if files.WORDS in self.manifest.files else {}

    def words_on(self, page_id: str) -> tuple[Word, ...]:
        """Where the words of ``page_text`` stand on the page, in its order; none where the corpus doesn't know. Read from
        the file each time, as the words of all pages would fill the memory.

        Raises:
            CorpusError: the table of words is damaged.
        """
        start = self._words_offsets.get(page_id)
        if start is None:
            return ()
        file = files.check_name(files.WORDS, self.root)
        try:
            with file.open("rb") as lines:
                lines.seek(start)
                return files.words_from(lines.readline(), f"{file}, page {files.shown(page_id)}").words
        except OSError as error:
            raise CorpusError(f"{file} can't be read ({type(error).__name__}); {files.REBUILD}") from error

    # --- images ---

    def image_path(self, name: str) -> Path:
        """The file of a page image or crop.

        Raises:
            CorpusError: the corpus has no such image.
        """
        if name not in self.manifest.files or not name.startswith(("pages/", "crops/")):
            raise CorpusError(f"{self.root} has no image {name!r}; {files.REBUILD}")
        return files.check_name(name, self.root)

    def image(self, name: str) -> Image.Image:
        """A page image or crop as RGB.

        Raises:
            CorpusError: no such image, or it is damaged or larger than ``MAX_IMAGE_PIXELS``.
        """
        return open_image(self.image_path(name))

    def image_size(self, name: str) -> tuple[int, int]:
        """Width and height in pixels; reads the header only."""
        return image_size(self.image_path(name))

    def digest(self, name: str) -> str:
        """sha256 of a file of the corpus, from the manifest.

        Raises:
            CorpusError: the corpus has no such file.
        """
        try:
            return self.manifest.files[name]
        except KeyError:
            raise CorpusError(f"{self.root} has no file {name!r}; {files.REBUILD}") from None

    # --- search: (item id, score) best first, at most n, every id exists ---

    @cached_property
    def _chunk_ids(self) -> tuple[str, ...]:
        return tuple(self.chunks)

    @cached_property
    def _chunk_rows(self) -> Mapping[str, int]:
        return {chunk: row for row, chunk in enumerate(self.chunks)}

    @cached_property
    def _crop_ids(self) -> tuple[str, ...]:
        return tuple(self.crops)

    @cached_property
    def _chunk_words(self) -> WordIndex:
        return WordIndex([chunk.text for chunk in self.chunks.values()])

    @cached_property
    def _crop_words(self) -> WordIndex:
        return WordIndex([f"{crop.captions} {crop.ocr_text}" for crop in self.crops.values()])

    @cached_property
    def _mentioned_crop_words(self) -> WordIndex:
        documents = {page.id: page.document for page in self.pages.values()}
        said = mentions(
            ((crop, documents[crop.page_id]) for crop in self.crops.values()),
            ((page.document, self.page_text(page.id)) for page in self.pages.values()),
        )
        return WordIndex([f"{crop.captions} {crop.ocr_text} {said.get(crop.id, '')}" for crop in self.crops.values()])

    @property
    def text_encoder(self) -> TextEncoder:
        """The encoder of the open text index.

        Raises:
            EncoderUnavailable: it can't be loaded here.
            CorpusError: its vectors have another dimension than the index.
        """
        encoder = text_encoder(self.text_encoder_id)
        entry = self.entry("text", self.text_encoder_id)
        if entry is not None and encoder.dimension != entry.dimension:
            raise CorpusError(
                f"{self.root}: {entry.file} has dimension {entry.dimension}, and {encoder.id} gives "
                f"{encoder.dimension}; {files.REBUILD}"
            )
        return encoder

    def entry(self, purpose: str, encoder_id: str = "") -> IndexEntry | None:
        """The manifest's line on the first index of this purpose (and encoder), or None."""
        for entry in self.manifest.indices:
            if entry.purpose == purpose and encoder_id in ("", entry.encoder):
                return entry
        return None

    @property
    def visual_encoder_ids(self) -> tuple[str, ...]:
        """Image encoders that the crops were indexed with."""
        return tuple(entry.encoder for entry in self.manifest.indices if entry.purpose == "visual")

    def search_text(self, vector: Vectors, n: int) -> Scored:
        """Chunks by cosine of a question vector (dimension,) (eq. 1)."""
        return self._search("text", self.text_encoder_id, vector, n, self._chunk_ids)

    def search_text_words(self, question: str, n: int) -> Scored:
        """Chunks by BM25."""
        return _named(self._chunk_words.search(question, n), self._chunk_ids)

    def text_scores(self, vector: Vectors, chunks: Sequence[str]) -> Scored:
        """These chunks by cosine of a question vector (dimension,)."""
        index = self.indices.get(("text", self.text_encoder_id))
        if index is None:
            return []
        scores = index.scores(vector, [self._chunk_rows[chunk] for chunk in chunks])
        return sorted(zip(chunks, scores, strict=True), key=lambda scored: -scored[1])

    def search_proxy(self, vector: Vectors, n: int) -> Scored:
        """Crops by cosine of a question vector and the nearest window of their words."""
        return self._search("proxy", self.text_encoder_id, vector, n, self._crop_ids)

    def search_proxy_words(self, question: str, n: int) -> Scored:
        """Crops by BM25 of their words."""
        return _named(self._crop_words.search(question, n), self._crop_ids)

    def search_proxy_mentions(self, question: str, n: int) -> Scored:
        """Crops by BM25 of their words and the sentences of their document that mention them."""
        return _named(self._mentioned_crop_words.search(question, n), self._crop_ids)

    def search_visual(self, vector: Vectors, n: int, encoder_id: str) -> Scored:
        """Crops by cosine of a CLIP vector of a text or image (eq. 2)."""
        return self._search("visual", encoder_id, vector, n, self._crop_ids)

    def _search(self, purpose: str, encoder_id: str, vector: Vectors, n: int, ids: Sequence[str]) -> Scored:
        index = self.indices.get((purpose, encoder_id))
        return [] if index is None else _named(index.search(vector, n), ids)

    def warm(self) -> None:
        """Build now what would otherwise be built by the first question: word indices, the graph, the text encoder."""
        _ = self._chunk_words, self._crop_words, self._mentioned_crop_words, self.graph
        self.text_encoder.encode(["warm"])


def _by_page(rows: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.page_id, []).append(row)
    return {page: tuple(items) for page, items in found.items()}


def _named(ranked: Ranked, ids: Sequence[str]) -> Scored:
    return [(ids[row], score) for row, score in ranked]


# --- opening and checking --------------------------------------------------------------------------------------------


def open_corpus(path: Path | str, encoder_id: str = "") -> Corpus:
    """Open the corpus in the folder ``path``; ``encoder_id`` picks a text index where there are several.

    Raises:
        CorpusError: it is missing, damaged, of another format, or has no index of that encoder; names file and remedy.
    """
    root = Path(path)
    manifest = files.read_manifest(root)
    _raise_first(files.digest_problems(root, manifest.files, cached=True))
    corpus = _load(root, manifest, encoder_id)
    _raise_first(_encoder_problems(root, [corpus.text_encoder_id]))
    _raise_first(_reference_problems(corpus))
    return corpus


def check_corpus(path: Path | str) -> list[str]:
    """Every problem of the corpus in ``path``, one sentence each; empty if all is well. Reads every file anew."""
    root = Path(path)
    try:
        manifest = files.read_manifest(root)
        problems = list(files.digest_problems(root, manifest.files, cached=False))
    except CorpusError as error:
        return [str(error)]
    problems += _stray_files(root, manifest)
    problems += _encoder_problems(root, [entry.encoder for entry in manifest.indices if entry.purpose == "text"])
    try:
        corpus = _load(root, manifest, "")
        problems += _reference_problems(corpus)
        problems += _word_problems(corpus)
        problems += _image_problems(corpus)
    except CorpusError as error:
        problems.append(str(error))
    return problems


def _raise_first(problems: Iterator[str]) -> None:
    for problem in problems:
        raise CorpusError(problem)


def _load(root: Path, manifest: Manifest, encoder_id: str) -> Corpus:
    tables = {name: list(files.read_table(root, name)) for name in files.TABLES}
    for name, rows in tables.items():
        if manifest.counts.get(name) != len(rows):
            raise CorpusError(
                f"{root}: {name}.jsonl has {len(rows)} rows, and {files.MANIFEST} says {manifest.counts.get(name)}; "
                f"{files.REBUILD}"
            )
    text = [entry.encoder for entry in manifest.indices if entry.purpose == "text"]
    if not text or (encoder_id and encoder_id not in text):
        raise CorpusError(
            f"{root} has no text index of {encoder_id or 'any encoder'} (it has {', '.join(text) or 'none'}); "
            f"{files.REBUILD}"
        )
    return Corpus(
        root=root,
        manifest=manifest,
        documents=_by_id(manifest.documents, root, "documents"),
        **{name: _by_id(tables[name], root, name) for name in files.TABLES if name != "triples"},
        triples=tuple(tables["triples"]),
        indices=_read_indices(root, manifest, tables),
        text_encoder_id=encoder_id or text[0],
    )


def _encoder_problems(root: Path, encoder_ids: Iterable[str]) -> Iterator[str]:
    """A sentence for every text index that no encoder here could search."""
    for encoder_id in encoder_ids:
        if encoder_id not in TEXT_ENCODERS and not encoder_id.startswith(SENTENCE_TRANSFORMERS_PREFIX):
            yield (
                f"{root}: the text index is of the encoder {files.shown(repr(encoder_id))}, which this Fusebox doesn't "
                f"have (it has {', '.join(TEXT_ENCODERS)}); {files.REBUILD}"
            )


def _by_id(rows: Iterable[Any], root: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in rows:
        if row.id in found:
            raise CorpusError(f"{root}: the id {row.id!r} comes twice in {name}; {files.REBUILD}")
        found[row.id] = row
    return found


def _read_indices(
    root: Path, manifest: Manifest, tables: Mapping[str, list[Any]]
) -> dict[tuple[str, str], VectorIndex]:
    indices: dict[tuple[str, str], VectorIndex] = {}
    for entry in manifest.indices:
        table = "chunks" if entry.purpose == "text" else "crops"
        items = len(tables[table])
        if (len(entry.rows) not in (0, items)) or (sum(entry.rows) if entry.rows else items) != entry.count:
            raise CorpusError(f"{root}: {entry.file} has {entry.count} vectors for {items} {table}; {files.REBUILD}")
        _check_rows(root, entry, tables["crops"])
        index = VectorIndex.read(files.check_name(entry.file, root), entry.rows)
        wanted = KNOWN_DIMENSIONS.get(entry.encoder, entry.dimension)
        if (index.dimension, index.rows) != (wanted, entry.count) or entry.dimension != wanted:
            raise CorpusError(
                f"{root}: {entry.file} holds {index.rows} vectors of dimension {index.dimension}, not {entry.count} of "
                f"dimension {wanted} as {entry.encoder} gives; {files.REBUILD}"
            )
        indices[entry.purpose, entry.encoder] = index
    return indices


def _check_rows(root: Path, entry: IndexEntry, crops: Sequence[Crop]) -> None:
    """Only crops found by words have other than one vector each, and only a crop without words has none."""
    if entry.rows and entry.purpose != "proxy":
        raise CorpusError(f"{root}: {entry.file} is an index for {entry.purpose}, which has no 'rows'; {files.REBUILD}")
    for crop, rows in zip(crops, entry.rows, strict=False):
        if not rows and proxy_texts(crop):
            raise CorpusError(f"{root}: {entry.file} has no vector for {crop.id}, which has words; {files.REBUILD}")


def _reference_problems(corpus: Corpus) -> Iterator[str]:
    """A sentence for every id that leads nowhere."""
    pages, chunks, regions = corpus.pages, corpus.chunks, corpus.regions
    for page in pages.values():
        if page.document not in corpus.documents:
            yield _dangling(corpus, "pages", page.id, "document", page.document)
        yield from _image_reference(corpus, "pages", page.id, page.image)
    for name, rows in (("regions", regions), ("chunks", chunks), ("crops", corpus.crops)):
        for row in rows.values():
            if row.page_id not in pages:
                yield _dangling(corpus, name, row.id, "page", row.page_id)
    for chunk in chunks.values():
        for region in chunk.region_ids:
            if region not in regions:
                yield _dangling(corpus, "chunks", chunk.id, "region", region)
    for crop in corpus.crops.values():
        yield from _image_reference(corpus, "crops", crop.id, crop.image)
    for i, triple in enumerate(corpus.triples):
        home = chunks.get(triple.chunk_id)
        if home is None or home.page_id != triple.page_id:
            yield _dangling(corpus, "triples", f"triple:{i}", "chunk", triple.chunk_id)


def _dangling(corpus: Corpus, table: str, row: str, kind: str, target: str) -> str:
    return f"{corpus.root}: {row} in {table} names the {kind} {target!r}, which does not exist; {files.REBUILD}"


def _image_reference(corpus: Corpus, table: str, row: str, image: str) -> Iterator[str]:
    if image and (image not in corpus.manifest.files or not image.startswith(f"{table}/")):
        yield _dangling(corpus, table, row, "image", image)


def _word_problems(corpus: Corpus) -> Iterator[str]:
    """A sentence for every page whose words lie outside its text or beside it, and for a page that does not exist."""
    files.words_offsets(corpus.root)
    for page_id, words in files.read_words(corpus.root):
        page = corpus.pages.get(page_id)
        if page is None:
            yield _dangling(corpus, "words", files.shown(page_id), "page", files.shown(page_id))
            continue
        text = corpus.page_text(page_id)
        if any(
            word.end > len(text) or text[word.start : word.end] != text[word.start : word.end].strip() for word in words
        ):
            yield f"{corpus.root}: {files.WORDS} places words of {page_id} outside its text; {files.REBUILD}"


def _image_problems(corpus: Corpus) -> Iterator[str]:
    for name in corpus.manifest.files:
        if name.startswith(("pages/", "crops/")):
            try:
                corpus.image(name)
            except CorpusError as error:
                yield str(error)


def _stray_files(root: Path, manifest: Manifest) -> list[str]:
    strange = (name for name in _strangers(root, manifest) if name != "README.md")
    return [f"{root}: {name} is not in {files.MANIFEST}; delete it." for name in strange]


def _strangers(root: Path, manifest: Manifest) -> Iterator[str]:
    """Names of the files and links in the folder that saving a corpus does not make."""
    known = {files.MANIFEST, "LICENSES.md", *manifest.files}
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if name not in known and (file.is_symlink() or not file.is_dir()):
            yield name


def describe(corpus: Corpus) -> dict[str, object]:
    """What the corpus holds, as plain values, for the command line and the page."""
    manifest = corpus.manifest
    return {
        "name": manifest.name,
        "id": manifest.id,
        "created": manifest.created,
        "kind": manifest.kind,
        "counts": {"documents": len(manifest.documents), **manifest.counts},
        "chunking": dict(manifest.chunking),
        "indices": [f"{e.purpose}: {e.encoder}, {e.count} x {e.dimension}, {e.metric}" for e in manifest.indices],
        "origins": sorted({triple.origin for triple in corpus.triples}),
        "captioned by": sorted({crop.captioned_by for crop in corpus.crops.values() if crop.captioned_by}),
        "tools": dict(manifest.tools),
        "documents": [
            f"{d.id}: {d.title or d.file} ({d.pages} pages; {d.licence or 'licence not stated'})"
            for d in manifest.documents
        ],
    }


# --- saving ----------------------------------------------------------------------------------------------------------


def save_corpus(
    out: Path,
    *,
    name: str,
    kind: str,
    documents: Sequence[Document],
    pages: Iterable[Page] = (),
    regions: Iterable[Region] = (),
    chunks: Iterable[Chunk] = (),
    crops: Iterable[Crop] = (),
    triples: Iterable[Triple] = (),
    words: Iterable[PageWords] = (),
    images: Path | None = None,
    encoder: TextEncoder | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] = lambda event: None,
) -> Path:
    """Write a corpus to the folder ``out``: tables, the images of the folder ``images`` (its ``pages`` and ``crops``,
    which stay there), and the text and proxy indices of ``encoder`` (the embedded one by default). Everything is written to
    a temporary folder beside ``out``, which takes its place at the end.

    Raises:
        CorpusError: ``out`` exists and is no corpus, or is one and ``overwrite`` is false.
    """
    out = Path(out)
    check_target(out, overwrite)
    if not files.is_text(name):
        raise CorpusError(f"The name {name!r} holds what is no text; give the corpus another with --name.")
    encoder = encoder or text_encoder(MINILM)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Named as a stage, so that the next run removes it should this one be killed.
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.stage.{os.getpid()}.", dir=out.parent))
    try:
        rows = {"pages": pages, "regions": regions, "chunks": chunks, "crops": crops, "triples": triples}
        counts = {table: files.write_table(temporary, table, rows[table]) for table in files.TABLES}
        files.write_words(temporary, words)
        for folder in ("pages", "crops"):
            if images is not None and (images / folder).is_dir():
                shutil.copytree(images / folder, temporary / folder, copy_function=_linked)
        (temporary / "index").mkdir()
        indices = tuple(_write_indices(temporary, counts, encoder, progress))
        digests = _digests(temporary)
        manifest = Manifest(
            format=files.FORMAT,
            name=name,
            id=files.corpus_id(name, digests),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            kind=kind,
            documents=tuple(documents),
            counts=counts,
            chunking={"characters": WINDOW, "step": STEP},
            indices=indices,
            tools=_tool_versions(),
            files=digests,
        )
        files.write_manifest(temporary, manifest)
        (temporary / "LICENSES.md").write_text(licences_text(documents), encoding="utf-8")
        temporary.chmod(0o755)
        _replace_folder(temporary, out, overwrite)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return out


def _linked(source: str, target: str) -> None:
    """A second name for the file, or a copy where the file system has no such thing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def licences_text(documents: Sequence[Document]) -> str:
    """The corpus's LICENSES.md: whose licence each row and image carries."""
    rows = [
        " ".join(filter(None, (f"- `{d.id}`:", *map(_sentence, _licence_parts(d)), d.copyright, d.source)))
        for d in documents
    ]
    return (
        "# Licences\n\nEverything here was derived from the documents below, and each page image, crop, row and vector carries the licence "
        "of its own\ndocument: the ids of rows and the names of images begin with the document's id. The documents are only aggregated.\n\n"
        + "\n".join(" ".join(row.split()) for row in rows)
        + "\n"
    )


def _licence_parts(document: Document) -> tuple[str, str, str]:
    made = f"{document.authors} {document.year}".strip()
    return document.title or document.file, made, f"Licence: {document.licence or 'not stated'}"


def _sentence(text: str) -> str:
    """With a full stop, unless it ends in a mark of its own or is empty."""
    text = text.strip()
    return f"{text}." if text and text[-1] not in ".!?" else text


def check_target(out: Path, overwrite: bool) -> None:
    """Refuse to write over anything but a corpus and its own files, and over a corpus only when told to.

    Raises:
        CorpusError: see above.
    """
    try:
        if not out.exists() or (out.is_dir() and not any(out.iterdir())):
            return
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CorpusError(f"{files.shown(out)} can't be used ({reason}); choose another folder with --out.") from error
    try:
        manifest = files.read_manifest(out)
    except CorpusError as error:
        raise CorpusError(f"{out} exists and is no corpus; choose another folder with --out. ({error})") from error
    if not overwrite:
        raise CorpusError(f"{out} already holds a corpus; add --overwrite to replace it, or choose another folder.")
    for name in _strangers(out, manifest):
        raise CorpusError(
            f"{out} holds {files.shown(repr(name))}, which is no part of its corpus and would be lost; choose another "
            "folder with --out."
        )


def _replace_folder(new: Path, out: Path, overwrite: bool) -> None:
    check_target(out, overwrite)  # once more: building took a while, and somebody may have put a file there
    if not out.exists():
        new.replace(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    out.replace(old / "corpus")
    new.replace(out)
    shutil.rmtree(old, ignore_errors=True)


def _write_indices(
    root: Path, counts: Mapping[str, int], encoder: TextEncoder, progress: Callable[[Progress], None]
) -> Iterator[IndexEntry]:
    def encoded(done: int) -> None:
        line = f"encoded {done:,} of {counts['chunks']:,} chunks"
        progress(Progress("chunk index", done, counts["chunks"], line, counts))

    texts = (chunk.text for chunk in files.read_table(root, "chunks"))
    yield _write_text_index(root, "text", encoder, texts, (), encoded)
    if counts["crops"]:
        windowed = [proxy_texts(crop) for crop in files.read_table(root, "crops")]
        rows = tuple(len(texts) for texts in windowed)
        flat = (text for texts in windowed for text in texts)

        def encoded_crops(done: int) -> None:
            line = f"encoded {done:,} of {sum(rows):,} crop texts"
            progress(Progress("crop index", done, sum(rows), line, counts))

        yield _write_text_index(root, "proxy", encoder, flat, rows, encoded_crops)


def _write_text_index(
    root: Path,
    purpose: str,
    encoder: TextEncoder,
    texts: Iterable[str],
    rows: tuple[int, ...],
    encoded: Callable[[int], None],
) -> IndexEntry:
    index = VectorIndex(encoder.dimension)
    for batch in _batches(texts, _ENCODE_AT_ONCE):
        index.add(encoder.encode(batch))
        encoded(index.rows)
    file = files.index_file(purpose, encoder.id)
    index.write(root / file)
    return IndexEntry(purpose, encoder.id, file, encoder.dimension, METRIC, index.rows, rows)


def _batches(items: Iterable[str], size: int) -> Iterator[list[str]]:
    batch: list[str] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _digests(root: Path) -> dict[str, str]:
    found = (file.relative_to(root).as_posix() for file in sorted(root.rglob("*")) if file.is_file())
    return {name: files.sha256_of(root / name) for name in found}


def _tool_versions() -> dict[str, str]:
    versions = {}
    for tool in ("fusebox", *TOOLS):
        try:
            versions[tool] = metadata.version(tool)
        except metadata.PackageNotFoundError:
            continue
    return versions


# --- the visual index ------------------------------------------------------------------------------------------------


def build_visual_index(
    corpus: Corpus, encoder: ImageEncoder, progress: Callable[[str], None] = lambda line: None
) -> Corpus:
    """Index the crops' pixels with a CLIP encoder, add the index to the corpus folder and open the corpus again.

    Raises:
        CorpusError: a crop has no image, or the folder can't be written to.
    """
    rows: list[Vectors] = []
    crops = list(corpus.crops.values())
    for start in range(0, len(crops), 16):
        rows.append(encoder.encode_images([corpus.image(crop.image) for crop in crops[start : start + 16]]))
        progress(f"encoded {min(start + 16, len(crops))} of {len(crops)} crops")
    vectors = np.vstack(rows) if rows else np.empty((0, encoder.dimension), dtype=np.float32)
    return add_visual_index(corpus, encoder.id, vectors)


def add_visual_index(corpus: Corpus, encoder_id: str, vectors: Vectors) -> Corpus:
    """Add (crops, dimension) unit vectors of an image encoder, in table order, and open the corpus again.

    Raises:
        CorpusError: not one vector a crop, or the folder can't be written to.
    """
    if len(vectors) != len(corpus.crops):
        raise CorpusError(f"{corpus.root} has {len(corpus.crops)} crops; {len(vectors)} vectors don't fit them.")
    index = VectorIndex(vectors.shape[1])
    index.add(vectors)
    name = files.index_file("visual", encoder_id)
    temporary = corpus.root / f"{name}.new"
    try:
        index.write(temporary)
        temporary.replace(corpus.root / name)
    except (OSError, RuntimeError) as error:
        raise CorpusError(f"{corpus.root} can't be written to; copy the corpus to a folder of yours first.") from error
    entry = IndexEntry("visual", encoder_id, name, index.dimension, METRIC, index.rows)
    others = tuple(e for e in corpus.manifest.indices if e.file != name)
    digests = {**corpus.manifest.files, name: files.sha256_of(corpus.root / name)}
    files.write_manifest(corpus.root, replace(corpus.manifest, indices=(*others, entry), files=digests))
    return open_corpus(corpus.root, corpus.text_encoder_id)


# --- another text encoder --------------------------------------------------------------------------------------------


def add_text_index(
    path: Path | str, encoder: TextEncoder, progress: Callable[[Progress], None] = lambda event: None
) -> Corpus:
    """Index chunks and crops' words with another text encoder, beside those that are there, and open the corpus with it. The
    corpus's id stays, so that its traces still fit.

    Raises:
        CorpusError: the folder holds no whole corpus, or can't be written to.
    """
    root = Path(path)
    manifest = files.read_manifest(root)
    _raise_first(files.digest_problems(root, manifest.files, cached=True))
    if any(entry.encoder == encoder.id for entry in manifest.indices):
        return open_corpus(root, encoder.id)
    entries: tuple[IndexEntry, ...] = ()
    try:
        entries = tuple(_write_indices(root, manifest.counts, encoder, progress))
        digests = {**manifest.files, **{entry.file: files.sha256_of(root / entry.file) for entry in entries}}
        files.write_manifest(root, replace(manifest, indices=(*manifest.indices, *entries), files=digests))
    except (OSError, RuntimeError) as error:
        entries = ()
        raise CorpusError(f"{root} can't be written to; copy the corpus to a folder of yours first.") from error
    finally:
        if not entries:  # stopped or failed: nothing half done stays behind
            for purpose in ("text", "proxy"):
                (root / files.index_file(purpose, encoder.id)).unlink(missing_ok=True)
    return open_corpus(root, encoder.id)
