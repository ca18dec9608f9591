"""Tabular evidence: the cells of a read-off row, rows that lost their line breaks, and the labels of a drawing.

A row reads "row label | column: value | column: value" (``rag.ingest.tables``). In a chunk of running text the rows of a
table follow one another on one line, and in a drawing's read-off text the labels stand row by row from the top.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_CELL = re.compile(r"\A(.*?\S)\s*:\s+(\S.*)\Z", re.S)
_NUMERIC = (
    r"(?:[<>\u2264\u2265]\s?)?[-\u2212\u2013+]?(?:\d[\d.,]*|\.\d+)(?:e[-+\u2212]?\d+)?%?(?:\s?\([^()]*\d[^()]*\))?"
    r"|NA|NaN|-?Inf|NULL|TRUE|FALSE"
)
_VALUE_THEN_LABEL = re.compile(rf"\A((?:{_NUMERIC})(?:\s\*{{1,3}}|\s\.)?)\s+(\S.*)\Z")
_SENTENCE_END = re.compile(r"[.:;?!]\s+(?=\S+(?:\s\S+){0,5}\Z)")
_ITEM = re.compile(
    r"Node \d+ \(n ?= ?\d+\)|[A-Za-z]+ ?[=<>\u2264\u2265] ?[-\u2212]?[\d.]+|[<>\u2264\u2265]=? ?[-\u2212]?\S+|\S+"
)
_NAME = re.compile(r"[A-Za-z]{3}|[A-Za-z]+_")
_VALUED = re.compile(r".*[=<>\u2264\u2265]")
MAX_LABEL_WORDS = 8
ROWS_ABOVE = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell under its column header; a label or a unit has no header."""

    column: str
    value: str


def row_of(line: str, columns: Sequence[str] = ()) -> tuple[Cell, ...]:
    """The cells of a read-off row, its label first; () where the line is no row. ``columns`` is the header of a plain
    grid, whose rows are "a | b | c"."""
    parts = [part.strip() for part in line.strip("| ").split(" | ")]
    matches = [_CELL.match(part) for part in parts]
    if len(parts) < 2 and not any(matches):
        return ()
    if any(matches[1:]):
        return tuple(Cell(m[1], m[2]) if m else Cell("", part) for m, part in zip(matches, parts, strict=True))
    if len(parts) > 1 and len(parts) == len(columns):
        return tuple(Cell(column, value) for column, value in zip(columns, parts, strict=True))
    return ()


def unflatten(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Running text with table rows in it, apart: the prose around them, and the rows one by one, each with the prose before it.

    A row ends where a cell's value is followed by more words: those are the next row's label, or the text goes on.
    """
    if " | " not in text:
        return text, ()
    rows: list[tuple[str, str]] = []
    prose: list[str] = []
    current: list[str] = []
    for i, piece in enumerate(text.split(" | ")):
        if i == 0:
            before, label = _label_after_prose(piece)
            prose.append(before)
            current = [label]
            continue
        cell = _CELL.match(piece)
        split = _VALUE_THEN_LABEL.match(cell[2] if cell else piece)
        if split is None:
            current.append(piece)
            continue
        current.append(f"{cell[1]}: {split[1]}" if cell else split[1])
        rows.append((" | ".join(part for part in current if part), prose[0]))
        current = [split[2]]
    if len(current) > 1:
        rows.append((" | ".join(current), prose[0]))
    elif current and current[0]:
        prose.append(current[0])
    return " ".join(part for part in prose if part), tuple(rows)


def _label_after_prose(piece: str) -> tuple[str, str]:
    words = piece.split()
    if len(words) <= MAX_LABEL_WORDS:
        return "", piece
    end = _SENTENCE_END.search(piece)
    if end:
        return piece[: end.start() + 1].strip(), piece[end.end() :].strip()
    return " ".join(words[:-2]), " ".join(words[-2:])


def labels(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every label of a drawing with a value in it ("p = 0.035", "Node 6 (n = 144)") after the labels that stand over it,
    with those further up; then the lines as they are, with their neighbours.

    Rows of equally many labels stand in columns, and a row of half as many has each of its labels over two of these: in
    "horTh progrec / p = 0.035 p < 0.001 / no yes <= 20 > 20" the first p stands under horTh, and so do "no" and "yes".
    """
    rows = [_ITEM.findall(line) for line in lines]
    for i, row in enumerate(rows):
        for j, item in enumerate(row):
            if _VALUED.match(item):
                near, far = _above(rows, i, j)
                yield " ".join([*near, item]), " ".join(far)
    for i, line in enumerate(lines):
        if any(c.isalpha() for c in line):  # the numbers along an axis answer nothing
            yield line, " ".join([*lines[max(0, i - 1) : i], *lines[i + 1 : i + 2]])


def _above(rows: Sequence[Sequence[str]], i: int, j: int) -> tuple[list[str], list[str]]:
    """Labels over item ``j`` of row ``i``, from the top: those from the nearest name down, and those above that name."""
    width, at = len(rows[i]), j
    near: list[str] = []
    far: list[str] = []
    named = False
    for row in reversed(rows[max(0, i - ROWS_ABOVE) : i]):
        if not row or width % len(row) or width // len(row) > 2:
            break
        at = at * len(row) // width
        width = len(row)
        (far if named else near).insert(0, row[at])
        named = named or bool(_NAME.match(row[at]))
    return near, far
