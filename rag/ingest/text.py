"""Plain-text documents as JSON lines: one object with ``source`` and ``text`` a line, gzipped or not."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rag.errors import DocumentError

MAX_ID_CHARS = 200


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One document of one page; ``source`` is its id."""

    source: str
    text: str


def read_records(path: Path) -> Iterator[TextRecord]:
    """The records of a ``.jsonl`` or ``.jsonl.gz`` file, one at a time; blank lines are passed over.

    Raises:
        DocumentError: the file can't be read, a line is no such object, or a source comes twice; names file and line.
    """
    seen: set[str] = set()
    for number, line in _lines(path):
        if not line.strip():
            continue
        record = _record(line, f"{path.name}, line {number}")
        if record.source in seen:
            raise DocumentError(f"{path.name}, line {number}: the source {record.source!r} comes twice.")
        seen.add(record.source)
        yield record


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield number, line
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DocumentError(f"{path.name}, after line {number}: it can't be read as UTF-8 text ({error}).") from error


def _record(line: str, where: str) -> TextRecord:
    try:
        value = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DocumentError(f"{where}: it is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise DocumentError(f'{where}: it must be an object with "source" and "text".')
    for key in ("source", "text"):
        if not isinstance(value.get(key), str):
            raise DocumentError(f'{where}: "{key}" is missing or no string.')
    if not value["source"].strip() or len(value["source"]) > MAX_ID_CHARS or not value["source"].isprintable():
        raise DocumentError(f'{where}: "source" must be 1 to {MAX_ID_CHARS} printable characters.')
    return TextRecord(value["source"], value["text"])
