"""Plain-text documents as JSON lines: one object with ``source`` and ``text`` a line, gzipped or not."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rag.errors import DocumentError

MAX_ID_CHARS = 200
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One document of one page; ``source`` is its id."""

    source: str
    text: str


def _raise(error: DocumentError) -> None:
    raise error


def read_records(path: Path, refuse: Callable[[DocumentError], None] = _raise) -> Iterator[TextRecord]:
    """The records of a ``.jsonl`` or ``.jsonl.gz`` file, one at a time; blank lines are passed over.

    A line that is no such object, or whose source came before, makes a ``DocumentError`` that names file and line; it
    goes to ``refuse`` (which raises it, by default), and reading goes on with the next line.

    Raises:
        DocumentError: the file itself can't be read.
    """
    seen: set[str] = set()
    for number, line in read_lines(path):
        where = f"{path.name}, line {number}"
        try:
            record = _record(line, where)
            if record.source in seen:
                raise DocumentError(f"{where}: the source {record.source!r} comes twice.")
        except DocumentError as error:
            refuse(error)
            continue
        seen.add(record.source)
        yield record


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line) of a file, gzipped or not; blank lines are passed over.

    Raises:
        DocumentError: the file can't be read; names it and the last good line.
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise DocumentError(f"{path.name} can't be read after line {number} ({error}).") from error


def _record(line: bytes, where: str) -> TextRecord:
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DocumentError(f"{where}: it is not UTF-8 ({error.reason}).") from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{where}: it is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise DocumentError(f'{where}: it must be an object with "source" and "text".')
    for key in ("source", "text"):
        if not isinstance(value.get(key), str):
            raise DocumentError(f'{where}: "{key}" is missing or no string.')
    source, text = value["source"], value["text"]
    if not source.strip() or len(source) > MAX_ID_CHARS or not source.isprintable():
        raise DocumentError(f'{where}: "source" must be 1 to {MAX_ID_CHARS} printable characters.')
    return TextRecord(source, drop_controls(text))


def drop_controls(text: str) -> str:
    """The text without ASCII's control characters that are no white space, and with "?" for a lone surrogate ("\\ud800" in
    JSON), which can't be written as UTF-8."""
    return _CONTROLS.sub("", text.encode("utf-8", "replace").decode("utf-8"))
