"""Tables of a page: typeset ones and the tabular output of a console, read off row by row.

The text of a table is made for retrieval and for a reader that sees nothing else. Each row becomes one line,

    row label | column header: value | column header: value

in which the first cell stands alone when its column has no header and is "header: label" when it has one; blank cells
are left out; a value whose column has no header stands alone (the stars of significance). A console table may have a
line of its own in front of the rows, without " | ": the title R printed above it ("Coefficients:", "sex=F").
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

import pymupdf

from rag.ingest.console import Char, GridLine, Rows, console_lines, find_console_tables, page_chars
from rag.ingest.fold import fold
from rag.ingest.layout import LayoutBox
from rag.types import BBox

_PHRASE_GAP = 0.75  # of the type size: wider than a space between words, narrower than the gap between columns
_WORD_GAP = 0.15  # of the type size
_SMALL_TYPE = 0.85  # of the usual size: superscripts and subscripts, which belong to the row they touch
_FULL_RULE = 0.6  # of the table's width: a shorter rule groups columns, it does not part header and body
_RULE_THICKNESS = 2.0
_RULE_LENGTH = 40.0
_REACH = 14.0  # points that rules and column ends may stick out of the layout's box on the left and right
_CONSOLE_SHARE = 0.5
_DRAWN_MARKS = 12  # strokes and fills, other than rules, that a table may have besides two for each row (shading)
_NUMBER = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_PAGE_NUMBER = re.compile(r"\d{1,3}|[ivxlc]{1,6}")
_SECTION_NUMBER = re.compile(r"([A-Z]|\d{1,2})(\.\d{1,2})*\.?( |$)")
_LEADERS = re.compile(r"(\. ?){4,}")
_EQUATION_NUMBER = re.compile(r"\(\d+(\.\d+)?\)")
_NO_VALUE = frozenset({"NA", "-", "\u2013", "\u2014", "\u2212", "..."})


Span = tuple[float, float]


class Body(NamedTuple):
    """All rows of a table as they would be read if its header stood elsewhere, and where its columns stand (left, right)."""

    columns: tuple[Span, ...] = ()
    rows: Rows = ()


_NO_BODY = Body()


@dataclass(frozen=True)
class TableBox:
    """A table: `bbox` in points of the unrotated page; `rows[0]` is the header and all rows have its length; `text` is
    the folded read-off (see the module's description). `columns` are the left and right ends of a typeset table's
    columns; `body` is for a table that goes on from the page before."""

    bbox: BBox
    kind: Literal["typeset", "console"]
    rows: Rows
    text: str
    columns: tuple[Span, ...] = ()
    body: Body = _NO_BODY


class Phrase(NamedTuple):
    """Words of one row with ordinary word spaces between them: the content of a cell. Lengths in points."""

    x0: float
    top: float
    x1: float
    bottom: float
    text: str

    @property
    def is_value(self) -> bool:
        """Whether this is a number, perhaps with a unit or a bracketed second number, or a sign for a missing one."""
        digits, letters = len(_NUMBER.findall(self.text)), len(_LETTER.findall(self.text))
        return (digits > 0 and letters <= digits) or self.text in _NO_VALUE


TextRow = list[Phrase]


def find_tables(page: pymupdf.Page, layout: Sequence[LayoutBox]) -> list[TableBox]:
    """The tables of `page` from top to bottom, given the boxes of its layout."""
    chars = page_chars(page)
    lines = console_lines(chars)
    console = [
        TableBox(table.bbox, "console", table.rows, read_off(table.rows, table.title))
        for table in find_console_tables(lines)
    ]
    found = console + _typeset_tables(page, layout, chars, lines)
    return sorted(found, key=lambda table: (table.bbox[1], table.bbox[0]))


def read_table(box: BBox, chars: Sequence[Char], rules: Sequence[BBox] = ()) -> TableBox | None:
    """The table in `box` from its characters and horizontal rules, or None where they don't stand in columns."""
    region = _region(box, chars, rules)
    if not _is_table(region, (), ()):
        return None
    return _typeset(region)


def _typeset(region: "_Region") -> TableBox | None:
    """The table in a region, or None where it has one row or one column."""
    section, head, body = _parts(region)
    columns = _columns(head, body)
    rows: Rows = (tuple(_header(head, columns)), *_body_rows(body, columns, section))
    if len(rows) < 2 or len(columns) < 2:
        return None
    bare = _columns((), region.rows)
    headless = Body(tuple(bare), tuple(_body_rows(region.rows, bare)))
    return TableBox(region.bbox, "typeset", rows, read_off(rows), tuple(columns), headless)


def read_off(rows: Rows, title: str = "") -> str:
    """The rows below the header `rows[0]` as lines 'label | column: value | ...', after the title if there is one."""
    header, *body = rows
    lines = [title] if title else []
    for row in body:
        cells = [_cell(name, cell) for name, cell in zip(header, row, strict=True) if cell]
        if cells:
            lines.append(" | ".join(cells))
    return "\n".join(lines)


def _cell(name: str, cell: str) -> str:
    return f"{name.removesuffix(':')}: {cell}" if name else cell


# --- typeset tables: where -------------------------------------------------------------------------------------------


class _Region(NamedTuple):
    """A place where a table may be: the box, the horizontal rules that belong to it, and the rows of text in it."""

    bbox: BBox
    rules: list[BBox]
    rows: list[TextRow]


def _typeset_tables(
    page: pymupdf.Page, layout: Sequence[LayoutBox], chars: Sequence[Char], lines: Sequence[GridLine]
) -> list[TableBox]:
    console = [(line.left, line.top, line.right, line.bottom) for line in lines]
    marks = [tuple(box) for kind, box in page.get_bboxlog() if kind.endswith("path") or kind == "fill-image"]
    rules = [box for box in marks if box[3] - box[1] <= _RULE_THICKNESS and box[2] - box[0] >= _RULE_LENGTH]
    drawn = [box for box in marks if min(box[2] - box[0], box[3] - box[1]) > _RULE_THICKNESS]
    pictures = [box.bbox for box in layout if box.kind == "picture"]
    found: list[TableBox] = []
    for box, ruled in _places(layout, rules):
        if any(_share(box, other.bbox) > 0.3 for other in found):
            continue
        region = _region(box, chars, rules)
        if not _is_table(region, console, drawn) or (ruled and not _is_ruled_table(region, pictures)):
            continue
        table = _typeset(region)
        if table is not None:
            found.append(table)
    return found


def _places(layout: Sequence[LayoutBox], rules: Sequence[BBox]) -> Iterator[tuple[BBox, bool]]:
    """Boxes the layout calls tables, then stretches between rules of one length that it may have missed."""
    for box in layout:
        if box.kind == "table":
            yield box.bbox, False
    groups: list[list[BBox]] = []
    for rule in sorted(rules, key=lambda box: box[1]):
        for group in groups:
            if abs(group[0][0] - rule[0]) < 3 and abs(group[0][2] - rule[2]) < 3:
                group.append(rule)
                break
        else:
            groups.append([rule])
    for group in groups:
        if group[-1][1] - group[0][1] > 2 * _REACH:
            yield (group[0][0], group[0][1], group[0][2], group[-1][3]), True


def _region(box: BBox, chars: Sequence[Char], rules: Sequence[BBox]) -> _Region:
    x0, y0, x1, y1 = box
    own = [rule for rule in rules if y0 - 6 <= rule[1] <= y1 + 6 and rule[0] >= x0 - _REACH and rule[2] <= x1 + _REACH]
    left, right = min([x0 - 2, *(rule[0] for rule in own)]), max([x1 + 2, *(rule[2] for rule in own)])
    inside = [
        char
        for char in chars
        if left <= char.x + char.advance / 2 <= right and y0 - 1 <= (char.top + char.bottom) / 2 <= y1 + 1
    ]
    rows = _text_rows(inside)
    rows = _first_section(rows, chars, box) + rows
    boxes = [phrase[:4] for row in rows for phrase in row] + own
    return _Region(_union(boxes) if boxes else box, own, rows)


def _first_section(rows: list[TextRow], chars: Sequence[Char], box: BBox) -> list[TextRow]:
    """The title of a table's first part when it stands right above the box and a later part has its title inside."""
    if len(rows) < 3 or not any(len(row) == 1 for row in rows[1:]):
        return []
    pitch = median(below[0].bottom - above[0].bottom for above, below in pairwise(rows))
    highest = rows[0][0].bottom - 1.5 * pitch
    above = _text_rows([char for char in chars if box[0] <= char.x <= box[2] and highest <= char.bottom < box[1]])
    return above if len(above) == 1 and len(above[0]) == 1 and _is_section_like(above[0][0], rows[1:]) else []


def _union(boxes: Sequence[BBox]) -> BBox:
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def _share(inner: BBox, outer: BBox) -> float:
    """The part of `inner` that lies in `outer`, 0..1."""
    width = min(inner[2], outer[2]) - max(inner[0], outer[0])
    height = min(inner[3], outer[3]) - max(inner[1], outer[1])
    area = (inner[2] - inner[0]) * (inner[3] - inner[1])
    return max(0.0, width) * max(0.0, height) / area if area > 0 else 0.0


def _is_table(region: _Region, console: Sequence[BBox], drawn: Sequence[BBox]) -> bool:
    """Not console text (that has its own finder), not a drawing, not a table of contents, not a set of equations."""
    rows = region.rows
    if len(rows) < 2 or sum(len(row) > 1 for row in rows) < 2:
        return False
    on_console = sum(any(_share(phrase[:4], line) > 0.5 for line in console) for row in rows for phrase in row)
    if on_console > _CONSOLE_SHARE * sum(map(len, rows)):
        return False
    if sum(_share(box, region.bbox) > 0.5 for box in drawn) > _DRAWN_MARKS + 2 * len(rows):
        return False
    return not _is_contents(rows) and not _is_equations(rows)


def _is_contents(rows: Sequence[TextRow]) -> bool:
    if sum(_LEADERS.search(phrase.text) is not None for row in rows for phrase in row) > 0.2 * len(rows):
        return True
    last = [row[-1].text for row in rows]
    numbers = [int(text) for text in last if text.isdecimal()]
    paged = sum(_PAGE_NUMBER.fullmatch(text) is not None for text in last) >= 0.7 * len(rows)
    rising = len(numbers) >= 3 and all(a <= b for a, b in pairwise(numbers))
    titles = sum(not any(p.is_value and not _SECTION_NUMBER.match(p.text) for p in row[:-1]) for row in rows)
    return paged and rising and titles >= 0.9 * len(rows) and max(map(len, rows)) <= 3


def _is_equations(rows: Sequence[TextRow]) -> bool:
    numbered = sum(_EQUATION_NUMBER.fullmatch(row[-1].text) is not None for row in rows)
    related = sum(any("=" in phrase.text for phrase in row) for row in rows)
    return numbered >= 0.5 * len(rows) or related >= 0.6 * len(rows)


def _is_ruled_table(region: _Region, pictures: Sequence[BBox]) -> bool:
    """Rules alone prove little (titles, listings and figures have them too): most rows must have values in columns."""
    tabular = sum(len(row) > 1 and any(phrase.is_value for phrase in row) for row in region.rows)
    overlapped = any(_share(region.bbox, box) > 0.3 or _share(box, region.bbox) > 0.5 for box in pictures)
    return tabular >= 0.5 * len(region.rows) and not overlapped


# --- typeset tables: rows of text ------------------------------------------------------------------------------------


def _text_rows(chars: Sequence[Char]) -> list[TextRow]:
    """Characters gathered into rows, top to bottom, and these into phrases, left to right."""
    if not chars:
        return []
    usual = median(char.font[1] for char in chars)
    rows: list[list[Char]] = []
    for char in sorted((c for c in chars if c.font[1] >= _SMALL_TYPE * usual), key=lambda c: c.baseline):
        if rows and char.baseline - rows[-1][0].baseline <= 0.25 * usual:
            rows[-1].append(char)
        else:
            rows.append([char])
    for char in chars:
        if char.font[1] < _SMALL_TYPE * usual and rows:
            min(rows, key=lambda row: abs(row[0].baseline - char.baseline)).append(char)
    return [_phrases(sorted(row, key=lambda c: c.x), usual) for row in rows]


def _phrases(row: Sequence[Char], size: float) -> TextRow:
    pieces: list[list[Char]] = []
    for char in row:
        last = pieces[-1][-1] if pieces else None
        if last and char.text == last.text and abs(char.x - last.x) < 0.1 * size:
            continue  # printed twice
        if last and char.x - (last.x + last.advance) <= _PHRASE_GAP * size:
            pieces[-1].append(char)
        else:
            pieces.append([char])
    return [
        Phrase(
            piece[0].x,
            min(char.top for char in piece),
            max(char.x + char.advance for char in piece),
            max(char.bottom for char in piece),
            _spaced(piece, size),
        )
        for piece in pieces
    ]


def _spaced(piece: Sequence[Char], size: float) -> str:
    text = piece[0].text
    for last, char in pairwise(piece):
        text += (" " if char.x - (last.x + last.advance) > _WORD_GAP * size else "") + char.text
    return fold(text)


# --- typeset tables: cells -------------------------------------------------------------------------------------------


class _Span(NamedTuple):
    x0: float
    x1: float

    @property
    def centre(self) -> float:
        return (self.x0 + self.x1) / 2


def _parts(region: _Region) -> tuple[str, list[TextRow], list[TextRow]]:
    """Title of the first section, header rows and body rows."""
    head, body = _split(region)
    if len(head) > 1 and len(head[0]) == 1 and _is_section_like(head[0][0], body):
        return head[0][0].text, head[1:], body
    return "", head, body


def _body_rows(body: Sequence[TextRow], columns: Sequence[_Span], section: str = "") -> list[tuple[str, ...]]:
    """The rows with every cell in its column."""
    rows: list[list[str]] = []
    for row in body:
        if len(row) == 1 and not row[0].is_value and len(columns) > 2:
            section = row[0].text
            continue
        cells = [""] * len(columns)
        for phrase in row:
            number = _nearest(phrase, columns)
            cells[number] = f"{cells[number]} {phrase.text}".strip()
        if not cells[0] and rows:
            cells[0] = rows[-1][0]  # a label that holds for several rows is printed once
        elif section:
            cells[0] = f"{section} {cells[0]}".strip()
        rows.append(cells)
    return [tuple(cells) for cells in rows]


def _split(region: _Region) -> tuple[list[TextRow], list[TextRow]]:
    """Header rows and body rows: parted by the first full-width rule with text above it, else by the first values."""
    width = region.bbox[2] - region.bbox[0]
    for rule in sorted(region.rules, key=lambda box: box[1]):
        head = [row for row in region.rows if (row[0].top + row[0].bottom) / 2 < rule[1]]
        if rule[2] - rule[0] >= _FULL_RULE * width and head and len(head) < len(region.rows):
            return head, region.rows[len(head) :]
    for number, row in enumerate(region.rows):
        values = sum(phrase.is_value for phrase in row)
        if number and 2 * values >= len(row):
            return region.rows[:number], region.rows[number:]
    return region.rows[:1], region.rows[1:]


def _is_section_like(phrase: Phrase, body: Sequence[TextRow]) -> bool:
    """Whether a lone phrase over the header stands where a lone phrase in the body does: 'Females' and 'Males'."""
    centre = (phrase.x0 + phrase.x1) / 2
    lone = [row[0] for row in body if len(row) == 1 and not row[0].is_value]
    return any(abs((other.x0 + other.x1) / 2 - centre) < 20 for other in lone)


def _columns(head: Sequence[TextRow], body: Sequence[TextRow]) -> list[_Span]:
    columns = _merged(_Span(p.x0, p.x1) for row in body if len(row) > 1 for p in row)
    named: set[_Span] = set()
    alone: list[_Span] = []
    for phrase in head[-1] if head else ():
        over = [column for column in columns if _overlap(phrase, column) > 0]
        if not over:
            alone.append(_Span(phrase.x0, phrase.x1))
        elif len(over) == 1:
            columns[columns.index(over[0])] = wider = _Span(min(phrase.x0, over[0].x0), max(phrase.x1, over[0].x1))
            named.add(wider)
    for span in alone:
        # A name to the left of its column (left-aligned over right-aligned labels), else a column without entries.
        right = next((column for column in sorted(columns) if column.x0 >= span.x1), None)
        if right and right not in named and not any(span.x1 <= other.x0 < right.x0 for other in alone):
            columns[columns.index(right)] = _Span(span.x0, right.x1)
        else:
            columns.append(span)
    return sorted(columns)


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    merged: list[_Span] = []
    for span in sorted(spans):
        if merged and span.x0 < merged[-1].x1:
            merged[-1] = _Span(merged[-1].x0, max(span.x1, merged[-1].x1))
        else:
            merged.append(span)
    return merged


def _overlap(phrase: Phrase, column: _Span) -> float:
    return min(phrase.x1, column.x1) - max(phrase.x0, column.x0)


def _nearest(phrase: Phrase, columns: Sequence[_Span]) -> int:
    return max(range(len(columns)), key=lambda number: _overlap(phrase, columns[number]))


def _header(head: Sequence[TextRow], columns: Sequence[_Span]) -> list[str]:
    """The columns' names, those of several lines joined from the top."""
    names = [""] * len(columns)
    for number, row in enumerate(head):
        for column, text in enumerate(_names_of_row(row, columns, is_last=number == len(head) - 1)):
            names[column] = f"{names[column]} {text}".strip()
    return names


def _names_of_row(row: TextRow, columns: Sequence[_Span], *, is_last: bool) -> list[str]:
    """The part of each column's name that this header row gives; a phrase over a group of columns goes to all of it."""
    names = [""] * len(columns)
    if is_last or len(row) >= len(columns) - 1:
        for phrase in row:
            number = _nearest(phrase, columns)
            names[number] = f"{names[number]} {phrase.text}".strip()
        return names
    for number, column in enumerate(columns):
        closest = min(row, key=lambda phrase: abs((phrase.x0 + phrase.x1) / 2 - column.centre))
        if number or closest.x1 <= columns[0].x1:
            names[number] = closest.text
    return names
