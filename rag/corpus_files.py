"""A corpus folder's files: the manifest, the JSON-lines tables, digests, safe paths. No pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from rag.errors import CorpusError
from rag.types import Chunk, Crop, Document, Page, Region, Triple

FORMAT = 1
MANIFEST = "manifest.json"
REBUILD = "build it again: python -m rag ingest SOURCES --out FOLDER --overwrite"

T = TypeVar("T")

TABLES: dict[str, type] = {"pages": Page, "regions": Region, "chunks": Chunk, "crops": Crop, "triples": Triple}
"""Table name -> row; the file is ``NAME.jsonl``."""

_SAFE_FILE = re.compile(
    rf"(?:pages|crops)/[^/\\\x00-\x1f]+\.webp|index/[\w.-]+\.faiss|(?:{'|'.join(TABLES)})\.jsonl",
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
    if not file.is_file():
        raise CorpusError(f"{root} holds no corpus (no {MANIFEST}); {REBUILD}")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{file} can't be read ({type(error).__name__}); {REBUILD}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else None
        raise CorpusError(f"{file} is of format {found!r}, and this Fusebox reads format {FORMAT}; {REBUILD}")
    manifest = _manifest(value, file)
    for name in manifest.files:
        check_name(name, root)
    for entry in manifest.indices:
        if entry.file not in manifest.files:
            raise CorpusError(f"{file} lists the index {entry.file!r} without a digest; {REBUILD}")
    return manifest


def _manifest(value: dict[str, Any], file: Path) -> Manifest:
    strings = {"name": str, "id": str, "created": str, "kind": str}
    shapes: dict[str, type] = strings | dict.fromkeys(("counts", "chunking", "tools", "files"), dict)
    shapes |= {"documents": list, "indices": list}
    for key, kind in shapes.items():
        if not isinstance(value.get(key), kind):
            raise CorpusError(f"{file}: {key!r} is missing or of the wrong type; {REBUILD}")
    for key, kind in {"counts": int, "chunking": int, "tools": str, "files": str}.items():
        if not all(isinstance(item, kind) for item in value[key].values()):
            raise CorpusError(f"{file}: {key!r} holds a value of the wrong type; {REBUILD}")
    return Manifest(
        format=FORMAT,
        **{key: value[key] for key in (*strings, "counts", "chunking", "tools", "files")},
        documents=tuple(row_from(Document, item, f"{file}, documents") for item in value["documents"]),
        indices=tuple(row_from(IndexEntry, item, f"{file}, indices") for item in value["indices"]),
    )


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Write manifest.json, through a second file, so that a reader never sees half of it."""
    temporary = root / f".{MANIFEST}.new"
    value = asdict(manifest) | {"files": dict(sorted(manifest.files.items()))}
    temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(root / MANIFEST)


def corpus_id(name: str, files: Mapping[str, str]) -> str:
    """The name and the first 10 hex digits of a digest over tables and images; indices don't count."""
    digest = hashlib.sha256()
    for file, sha256 in sorted(files.items()):
        if not file.startswith("index/"):
            digest.update(f"{file} {sha256}\n".encode())
    return f"{name}-{digest.hexdigest()[:10]}"


def check_name(name: str, root: Path) -> Path:
    """The path of a file that a manifest or a table names.

    Raises:
        CorpusError: the name is none that a corpus uses, or a link leads out of the folder.
    """
    if not _SAFE_FILE.fullmatch(name) or ".." in name.split("/"):
        raise CorpusError(f"{root} names the file {name!r}, which no corpus holds; don't use this corpus.")
    path = root / name
    if path.is_symlink() or path.parent.is_symlink():
        raise CorpusError(f"{root}: {name} is a link; a corpus holds files only.")
    return path


def index_file(purpose: str, encoder: str) -> str:
    """Where the index of an encoder lives: ``index/text.all-MiniLM-L6-v2-int8.faiss``."""
    return f"index/{purpose}.{re.sub(r'[^A-Za-z0-9.-]', '_', encoder)}.faiss"


# --- tables ----------------------------------------------------------------------------------------------------------


def _is_bbox(value: object) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(isinstance(v, int | float) for v in value)


def _tuple_of(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(item, kind) for item in value)


_CHECKS: dict[str, Callable[[object], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "BBox": _is_bbox,
    "CropKind": lambda value: value in ("figure", "table"),
    "tuple[str, ...]": _tuple_of(str),
    "tuple[int, ...]": _tuple_of(int),
}
"""Annotation of a field -> what JSON must hold there."""

_FIELDS: dict[type, tuple[tuple[str, Callable[[object], bool]], ...]] = {}


def _fields(row: type) -> tuple[tuple[str, Callable[[object], bool]], ...]:
    if row not in _FIELDS:
        _FIELDS[row] = tuple((field.name, _CHECKS[str(field.type)]) for field in fields(row))
    return _FIELDS[row]


def row_from(row: type[T], value: object, where: str) -> T:
    """A row of a table from its JSON object.

    Raises:
        CorpusError: a field is missing, unknown or of the wrong type; names it after ``where``.
    """
    if not isinstance(value, dict):
        raise CorpusError(f"{where}: not an object; {REBUILD}")
    checks = _fields(row)
    for name, right in checks:
        if name not in value or not right(value[name]):
            raise CorpusError(f"{where}: {name!r} is missing or of the wrong type; {REBUILD}")
    if len(value) != len(checks):
        unknown = sorted(set(value) - {name for name, _ in checks})
        raise CorpusError(f"{where}: unknown field {unknown[0]!r}; {REBUILD}")
    return row(*(tuple(v) if isinstance(v := value[name], list) else v for name, _ in checks))


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
    """One line of a table."""
    return json.dumps({name: getattr(row, name) for name, _ in _fields(type(row))}, ensure_ascii=False) + "\n"


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
    return folder / "fusebox" / "digests" / f"{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:20]}.json"


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
    """Write ``NAME.jsonl``; the number of rows."""
    count = 0
    with (root / f"{name}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(line_of(row))
            count += 1
    return count
