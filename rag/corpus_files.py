"""A corpus folder's files: the manifest, the JSON-lines tables, digests, safe paths. No pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rag.errors import CorpusError
from rag.types import Chunk, Crop, Document, Page, Region, Triple, Word

FORMAT = 1
MANIFEST = "manifest.json"
REBUILD = "build it again: python -m rag ingest SOURCES --out FOLDER --overwrite"
REBUILD_ELSEWHERE = "build it again in a new folder: python -m rag ingest SOURCES --out FOLDER"
"""The remedy where the manifest is damaged: --overwrite replaces only what is known to be a corpus."""

MAX_NUMBER = 1e6
"""No coordinate, size or page number is larger."""
MAX_COUNT = 10**9
MAX_NAME_BYTES = 255
"""What file systems take as one name."""
PURPOSES = ("text", "proxy", "visual")

T = TypeVar("T")

TABLES: dict[str, type] = {"pages": Page, "regions": Region, "chunks": Chunk, "crops": Crop, "triples": Triple}
"""Table name -> row; the file is ``NAME.jsonl``."""
WORDS = "words.jsonl"
"""Where the words of each page stand; optional, and never read as a whole."""

_SAFE_FILE = re.compile(
    rf"(?:pages|crops)/[^/\\\x00-\x1f\ud800-\udfff]+\.webp|index/[\w.-]+\.faiss|(?:{'|'.join(TABLES)}|words)\.jsonl",
)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One vector index. ``purpose`` is text (chunks), proxy (crops, by their words) or visual (crops, by their pixels);
    ``rows`` says how many vectors each crop has, in table order, where that is not one each."""

    purpose: str
    encoder: str
    file: str
    dimension: int
    metric: str
    count: int
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What manifest.json says. ``id`` is the name and a short digest of tables and images, the same after an index
    was added."""

    format: int
    name: str
    id: str
    created: str
    kind: str
    documents: tuple[Document, ...]
    counts: Mapping[str, int]
    chunking: Mapping[str, int]
    indices: tuple[IndexEntry, ...]
    tools: Mapping[str, str]
    files: Mapping[str, str]


# --- manifest --------------------------------------------------------------------------------------------------------


def read_manifest(root: Path) -> Manifest:
    """The manifest of the corpus in ``root``, every field checked.

    Raises:
        CorpusError: there is none, it is damaged, of another format version, or names a file outside the corpus.
    """
    file = root / MANIFEST
    if not _is_file(file):
        raise CorpusError(f"{shown(root)} holds no corpus (no {MANIFEST}); {REBUILD_ELSEWHERE}")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{file} can't be read ({type(error).__name__}); {REBUILD_ELSEWHERE}") from error
    found = value.get("format") if isinstance(value, dict) else None
    if type(found) is not int or found != FORMAT:  # true and 1.0 equal 1
        raise CorpusError(
            f"{file} is of format {shown(repr(found))}, and this Fusebox reads format {FORMAT}; {REBUILD_ELSEWHERE}"
        )
    if not all(is_text(text) for text in _strings(value)):
        raise CorpusError(f"{file} holds a NUL or a lone surrogate, which is no text; {REBUILD_ELSEWHERE}")
    manifest = _manifest(value, file)
    for name in manifest.files:
        check_name(name, root)
    _check_lists(manifest, file)
    return manifest


def _check_lists(manifest: Manifest, file: Path) -> None:
    """Every table has a digest, and so has every index, of which there is one for each purpose and encoder."""
    for table in TABLES:
        if f"{table}.jsonl" not in manifest.files:
            raise CorpusError(f"{file} lists the table {table}.jsonl without a digest; {REBUILD}")
    seen: set[tuple[str, str]] = set()
    for entry in manifest.indices:
        if entry.purpose not in PURPOSES:
            wanted = ", ".join(PURPOSES)
            raise CorpusError(
                f"{file}: {shown(entry.file)} is an index for {shown(repr(entry.purpose))}, not for one of {wanted}; "
                f"{REBUILD}"
            )
        if entry.file not in manifest.files or not entry.file.startswith("index/"):
            raise CorpusError(f"{file} lists the index {shown(repr(entry.file))} without a digest; {REBUILD}")
        if (entry.purpose, entry.encoder) in seen:
            raise CorpusError(f"{file} lists two {entry.purpose} indices of {shown(entry.encoder)}; {REBUILD}")
        seen.add((entry.purpose, entry.encoder))


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name that no file system takes
        return False


def _strings(value: object) -> Iterator[str]:
    """All strings in a JSON value, keys too."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item


def shown(value: object) -> str:
    """What a message quotes of a path or a value: no sentence has thousands of characters."""
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _manifest(value: dict[str, Any], file: Path) -> Manifest:
    strings = {"name": str, "id": str, "created": str, "kind": str}
    shapes: dict[str, type] = strings | dict.fromkeys(("counts", "chunking", "tools", "files"), dict)
    shapes |= {"documents": list, "indices": list}
    for key, kind in shapes.items():
        if not isinstance(value.get(key), kind):
            raise CorpusError(f"{file}: {key!r} is missing or of the wrong type; {REBUILD_ELSEWHERE}")
    for key, check in {"counts": "int", "chunking": "int", "tools": "str", "files": "str"}.items():
        if not all(_CHECKS[check](item) for item in value[key].values()):
            raise CorpusError(f"{file}: {key!r} holds a value of the wrong type; {REBUILD_ELSEWHERE}")
    return Manifest(
        format=FORMAT,
        **{key: value[key] for key in (*strings, "counts", "chunking", "tools", "files")},
        documents=tuple(_rows(Document, value["documents"], f"{file}, documents")),
        indices=tuple(_rows(IndexEntry, value["indices"], f"{file}, indices")),
    )


def _rows(row: type[T], values: list[Any], where: str) -> Iterator[T]:
    for number, value in enumerate(values, start=1):
        yield row_from(row, value, f"{where}, row {number}")


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Write manifest.json, through a second file, so that a reader never sees half of it."""
    temporary = root / f".{MANIFEST}.new"
    value = asdict(manifest) | {"files": dict(sorted(manifest.files.items()))}
    temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(root / MANIFEST)


def corpus_id(name: str, files: Mapping[str, str]) -> str:
    """The name and the first 10 hex digits of a digest over tables and images. Indices and the places of words don't
    count: what is found in a corpus, and what its traces name, is the same with and without them."""
    digest = hashlib.sha256()
    for file, sha256 in sorted(files.items()):
        if not file.startswith("index/") and file != WORDS:
            digest.update(f"{file} {sha256}\n".encode())
    return f"{name}-{digest.hexdigest()[:10]}"


def check_name(name: str, root: Path) -> Path:
    """The path of a file that a manifest or a table names.

    Raises:
        CorpusError: the name is none that a corpus uses, or a link leads out of the folder.
    """
    base = name.rpartition("/")[2]
    if not _SAFE_FILE.fullmatch(name) or ".." in name.split("/") or len(base.encode()) > MAX_NAME_BYTES:
        raise CorpusError(f"{root} names the file {shown(repr(name))}, which no corpus holds; don't use this corpus.")
    path = root / name
    if path.is_symlink() or path.parent.is_symlink():
        raise CorpusError(f"{root}: {name} is a link; a corpus holds files only.")
    return path


def index_file(purpose: str, encoder: str) -> str:
    """Where the index of an encoder lives: ``index/text.all-MiniLM-L6-v2-int8.faiss``."""
    return f"index/{purpose}.{re.sub(r'[^A-Za-z0-9.-]', '_', encoder)}.faiss"


# --- tables ----------------------------------------------------------------------------------------------------------


_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")


def is_text(value: object) -> bool:
    """A string that every sink can carry: no NUL, no lone surrogate."""
    return isinstance(value, str) and not _NO_TEXT.search(value)


def _is_number(value: object) -> bool:
    # Compared, not converted: NaN is no smaller than anything, and 10**400 is no float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def _is_size(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value >= 0


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_bbox(value: object) -> bool:
    if not (isinstance(value, list) and len(value) == 4 and all(map(_is_number, value))):
        return False
    x0, y0, x1, y1 = value
    return bool(x0 <= x1 and y0 <= y1)


def _tuple_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


_CHECKS: dict[str, Callable[[object], bool]] = {
    "str": is_text,
    "int": _is_count,
    "float": _is_size,
    "BBox": _is_bbox,
    "CropKind": lambda value: value in ("figure", "table"),
    "tuple[str, ...]": _tuple_of(is_text),
    "tuple[int, ...]": _tuple_of(_is_count),
}
"""Annotation of a field -> what JSON must hold there."""

_ROW_CHECKS: dict[type, tuple[tuple[Callable[[Any], bool], str], ...]] = {
    Page: (
        (lambda page: 1 <= page.number <= MAX_NUMBER, "'number' is not from 1 to 1,000,000"),
        (lambda page: not page.image or min(page.width_pt, page.height_pt) > 0, "a page with an image has no size"),
    ),
    Crop: (
        (lambda crop: bool(crop.image), "'image' is empty, and a crop is an image"),
        (
            lambda crop: bool(crop.model_caption) == bool(crop.captioned_by),
            "a model's caption and its name go together",
        ),
    ),
}
"""Row -> what must hold of it as a whole, and the fault where it doesn't."""

_OPTIONAL: dict[type, tuple[str, ...]] = {
    Page: ("source", "note"),
    Crop: ("model_caption", "captioned_by", "continues"),
}
"""Row -> texts that a table leaves out where they are empty, as corpora made before there were such fields do."""

_FIELDS: dict[type, tuple[tuple[str, Callable[[object], bool]], ...]] = {}


def _fields(row: type) -> tuple[tuple[str, Callable[[object], bool]], ...]:
    if row not in _FIELDS:
        _FIELDS[row] = tuple((field.name, _CHECKS[str(field.type)]) for field in fields(row))
    return _FIELDS[row]


def row_from(row: type[T], value: object, where: str) -> T:
    """A row of a table from its JSON object.

    Raises:
        CorpusError: a field is missing, unknown, of the wrong type, or holds what can't be (a lone surrogate, a box
            inside out, a number beyond all bounds); names it after ``where``.
    """
    if not isinstance(value, dict):
        raise CorpusError(f"{where}: not an object; {REBUILD}")
    checks = _fields(row)
    value = dict.fromkeys(_OPTIONAL.get(row, ()), "") | value
    for name, right in checks:
        if name not in value or not right(value[name]):
            raise CorpusError(f"{where}: {name!r} is missing, of the wrong type or out of range; {REBUILD}")
    if len(value) != len(checks):
        unknown = sorted(set(value) - {name for name, _ in checks})
        raise CorpusError(f"{where}: unknown field {shown(repr(unknown[0]))}; {REBUILD}")
    made = row(*(tuple(v) if isinstance(v := value[name], list) else v for name, _ in checks))
    for holds, fault in _ROW_CHECKS.get(row, ()):
        if not holds(made):
            raise CorpusError(f"{where}: {fault}; {REBUILD}")
    return made


def read_table(root: Path, name: str) -> Iterator[Any]:
    """The rows of ``NAME.jsonl``, in order.

    Raises:
        CorpusError: a line is damaged; names file and line.
    """
    file, row = root / f"{name}.jsonl", TABLES[name]
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                where = f"{file}, line {number}"
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise CorpusError(f"{where}: not JSON; {REBUILD}") from error
                yield row_from(row, value, where)
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{file} can't be read ({type(error).__name__}); {REBUILD}") from error


def line_of(row: Any) -> str:
    """One line of a table. NUL and lone surrogates, which no reader takes, become U+FFFD, one for one."""
    value = {name: getattr(row, name) for name, _ in _fields(type(row))}
    for name in _OPTIONAL.get(type(row), ()):
        if not value[name]:
            del value[name]
    for name, text in value.items():
        if isinstance(text, str) and not is_text(text):
            value[name] = _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    return json.dumps(value, ensure_ascii=False) + "\n"


# --- words -----------------------------------------------------------------------------------------------------------


class PageWords(NamedTuple):
    """A line of the words table: the words of one page in the order of its text."""

    page_id: str
    words: tuple[Word, ...]


_WORDS_START = '{"page_id": '


def words_line(row: PageWords) -> str:
    """One line of the words table; boxes are rounded to a tenth of a point."""
    words = [[word.start, word.end, *(round(side, 1) for side in word.bbox)] for word in row.words]
    page_id = json.dumps(_NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", row.page_id), ensure_ascii=False)
    return f'{_WORDS_START}{page_id}, "words": {json.dumps(words, separators=(",", ":"))}}}\n'


def words_from(line: bytes, where: str) -> PageWords:
    """A line of the words table.

    Raises:
        CorpusError: it is damaged, or a word ends before it starts or has a box that can't be; named after ``where``.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{where}: not JSON; {REBUILD}") from error
    if not (isinstance(value, dict) and is_text(value.get("page_id")) and isinstance(value.get("words"), list)):
        raise CorpusError(f"{where}: not an object with 'page_id' and 'words'; {REBUILD}")
    if not all(map(_is_word, value["words"])):
        raise CorpusError(f"{where}: a word is not [start, end, x0, y0, x1, y1]; {REBUILD}")
    words = tuple(Word(start, end, tuple(box)) for start, end, *box in value["words"])
    return PageWords(value["page_id"], words)


def _is_word(value: object) -> bool:
    if not (isinstance(value, list) and len(value) == 6 and _is_count(value[0]) and _is_count(value[1])):
        return False
    return value[0] < value[1] and _is_bbox(value[2:])


def words_offsets(root: Path) -> dict[str, int]:
    """Page id -> where its line of the words table begins, in bytes; empty where the corpus has no such table.

    Raises:
        CorpusError: a line does not start as one of the words table, or a page has two.
    """
    found: dict[str, int] = {}
    decoder, start = json.JSONDecoder(), 0
    file = root / WORDS
    if not _is_file(file):
        return found
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                head = line[: len(_WORDS_START) + 6 * MAX_NAME_BYTES].decode("utf-8", "ignore")
                page_id, _ = decoder.raw_decode(head, len(_WORDS_START)) if head.startswith(_WORDS_START) else (None, 0)
                if not isinstance(page_id, str) or page_id in found:
                    raise CorpusError(f"{file}, line {number}: no page, or one that came before; {REBUILD}")
                found[page_id] = start
                start += len(line)
    except (OSError, ValueError) as error:
        raise CorpusError(f"{file} can't be read ({type(error).__name__}); {REBUILD}") from error
    return found


# --- digests ---------------------------------------------------------------------------------------------------------


def sha256_of(file: Path) -> str:
    """Hex digest of a file's content."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def digest_problems(root: Path, files: Mapping[str, str], *, cached: bool) -> Iterator[str]:
    """A sentence for every file that is missing or differs from its digest. With ``cached``, a file whose size and
    time of change are those of its last good check is not read again; the notes lie in the user's cache folder, not
    in the corpus."""
    notes_file = _notes_file(root)
    notes = _read_notes(notes_file) if cached else {}
    kept: dict[str, list[object]] = {}
    for name, expected in files.items():
        path = check_name(name, root)
        try:
            stat = path.stat()
            note: list[object] = [stat.st_size, stat.st_mtime_ns, expected]
            right = notes.get(name) == note or sha256_of(path) == expected
        except OSError:
            yield f"{root}: {name} is missing or can't be read; {REBUILD}"
            continue
        if right:
            kept[name] = note
        else:
            yield f"{root}: {name} differs from its digest in {MANIFEST}; {REBUILD}"
    if cached and kept != notes:
        _write_notes(notes_file, kept)


def _notes_file(root: Path) -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    return folder / "fusebox" / "digests" / f"{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:20]}.json"


def _read_notes(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write_notes(file: Path, notes: Mapping[str, list[object]]) -> None:
    temporary = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(notes), encoding="utf-8")
        temporary.replace(file)
    except OSError:
        return  # no cache to write to: the next start reads the files again


# --- writing ---------------------------------------------------------------------------------------------------------


def write_table(root: Path, name: str, rows: Iterable[Any]) -> int:
    """Write ``NAME.jsonl``; the number of rows.

    Raises:
        CorpusError: a row that could not be read again.
    """
    count = 0
    with (root / f"{name}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            count += 1
            line = line_of(row)
            row_from(TABLES[name], json.loads(line), f"{name}.jsonl, line {count}")
            file.write(line)
    return count


def write_words(root: Path, rows: Iterable[PageWords]) -> None:
    """Write the words table; no file where there are no words.

    Raises:
        CorpusError: a row that could not be read again.
    """
    written = False
    with (root / WORDS).open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            line = words_line(row)
            words_from(line.encode(), f"{WORDS}, page {row.page_id}")
            file.write(line)
            written = True
    if not written:
        (root / WORDS).unlink()


def read_words(root: Path) -> Iterator[PageWords]:
    """The rows of the words table, in order; none where there is no such table.

    Raises:
        CorpusError: a line is damaged; names file and line.
    """
    file = root / WORDS
    if not _is_file(file):
        return
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield words_from(line, f"{file}, line {number}")
    except OSError as error:
        raise CorpusError(f"{file} can't be read ({type(error).__name__}); {REBUILD}") from error
