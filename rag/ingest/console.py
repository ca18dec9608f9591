"""Tables in the output of an R console: data frames, coefficient and survival summaries, cross tables, matrices.

The layout model takes most of them for running text, because nothing but alignment makes them tables. So they are found
on the character grid: an equal-advance font puts every character in a numbered column, and R right-aligns each column
of a table to one such number (`print.default`, `print.data.frame` in the R reference manual). A table is a header line
followed by lines whose values end (or start) where the header's words, or the values above, do. It ends at a prompt, a
gap, prose, or a change of alignment. When R breaks a table wider than its lines, the blocks are put back together.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import pymupdf

from rag.ingest.fold import fold
from rag.types import BBox

Rows = tuple[tuple[str, ...], ...]

_NARROW = frozenset("fijlrtI.,:;()[]!|'")
_BLANK = frozenset(" \t\u00a0")
_PROMPT = re.compile(r"^ *(R?>|\+|>>>|\.\.\.)( |$)")
_COMMENTED = re.compile(r"^( *)##( |$)")
# A printed vector ("[1]"), the structure of an object (str()), a call, a message, a rule of dashes, an assignment.
_NOT_TABULAR = re.compile(
    r" *(\[+\d+\]+( |$)|\$|\.\.|- ?attr|(num|chr|int|logi|List of|Factor|Call:|NOTE:)( |$)|-{4,}|={4,})|.* <- "
)
_TOKEN = re.compile(r"\d[\d.]* %|< \d[^ ]*|[^ ]+")
_VALUE = re.compile(r"(< ?)?[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?%?|-?Inf|NA|NaN|NULL|TRUE|FALSE|<NA>|\.")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_DECIMAL = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?|NA")
_STARS = re.compile(r"\*{1,3}|\.")

_MIN_GLYPHS = 6
_SAME_ADVANCE = 0.02  # relative difference between the widths of an equal-advance font
_LINE_PITCH = 2.9  # advances; single-spaced lines are 1.9 to 2.4 apart, a blank line makes it at least 3.8
_PROSE_DISTANCE = 3.0  # advances between a console line and proportional text that may stand beside it
_ALIGNED = 0.6  # part of a row's values that has to be aligned with what stands above
_VALUES = 0.5  # part of a row's entries that has to be numbers, NA, TRUE, ...


class Char(NamedTuple):
    """One printed character: its text, font key, origin on the base line, advance, upper and lower edge (points)."""

    text: str
    font: tuple[str, float]
    x: float
    baseline: float
    advance: float
    top: float
    bottom: float
    fixed_pitch: bool


@dataclass(frozen=True)
class GridLine:
    """A console line: `text` has one character per grid column, column 0 at `x0`; `edge` is where the printed line
    starts, which is left of `text` if comment signs were taken off. All lengths in points."""

    text: str
    edge: float
    x0: float
    advance: float
    baseline: float
    top: float
    bottom: float

    @property
    def right(self) -> float:
        """The right edge of the last character."""
        return self.x0 + len(self.text) * self.advance

    @property
    def left(self) -> float:
        """The left edge of the first character that is not blank."""
        return self.x0 + (len(self.text) - len(self.text.lstrip(" "))) * self.advance


@dataclass(frozen=True)
class ConsoleTable:
    """A console table: `rows[0]` is the header, every row has the same length, `title` is the line above it or ''."""

    bbox: BBox
    title: str
    rows: Rows


class Token(NamedTuple):
    """A word of a line in grid columns [start, end)."""

    start: int
    end: int
    text: str


def page_chars(page: pymupdf.Page) -> list[Char]:
    """The printed (not blank) characters of the horizontal lines of `page`, raw: ligatures are not mapped yet."""
    flags = pymupdf.TEXTFLAGS_RAWDICT & ~pymupdf.TEXT_PRESERVE_IMAGES
    chars = []
    for block in page.get_text("rawdict", flags=flags)["blocks"]:
        for line in block.get("lines", ()):
            if line["dir"][0] < 0.999:
                continue
            for span in line["spans"]:
                font, fixed = (span["font"], round(span["size"], 1)), bool(span["flags"] & pymupdf.TEXT_FONT_MONOSPACED)
                for char in span["chars"]:
                    if char["c"] in _BLANK:
                        continue
                    (x, baseline), (x0, top, x1, bottom) = char["origin"], char["bbox"]
                    chars.append(Char(char["c"], font, x, baseline, x1 - x0, top, bottom, fixed))
    return chars


def find_console_tables(lines: Sequence[GridLine]) -> list[ConsoleTable]:
    """The tables among the console lines of a page, from top to bottom."""
    return [table for run in _runs(lines) for table in _tables_of_run(run)]


def console_lines(chars: Sequence[Char]) -> list[GridLine]:
    """The lines of a page set in an equal-advance font with no proportional text beside them, from top to bottom."""
    mono = _equal_advance_fonts(chars)
    if not mono:
        return []
    return [line for row in _by_baseline(chars) for line in _grid_lines(row, mono)]


def _equal_advance_fonts(chars: Iterable[Char]) -> set[tuple[str, float]]:
    # Type 3 fonts have no telling name and no flags, so the widths decide; they must include narrow letters, because
    # the digits of most fonts and a few letters (Helvetica's a, e, g) are equally wide too.
    widths: dict[tuple[str, float], dict[str, float]] = defaultdict(dict)
    flagged = set()
    for char in chars:
        widths[char.font][char.text] = char.advance
        if char.fixed_pitch:
            flagged.add(char.font)
    found = set()
    for font, glyphs in widths.items():
        equal = max(glyphs.values()) - min(glyphs.values()) <= _SAME_ADVANCE * max(glyphs.values())
        telling = len(glyphs) >= _MIN_GLYPHS and len(_NARROW & glyphs.keys()) >= 2 and any(g.isalpha() for g in glyphs)
        if equal and (telling or font in flagged):
            found.add(font)
    return found


def _by_baseline(chars: Sequence[Char]) -> Iterator[list[Char]]:
    row: list[Char] = []
    for char in sorted(chars, key=lambda c: c.baseline):
        if row and char.baseline - row[0].baseline > 1.5:
            yield sorted(row, key=lambda c: c.x)
            row = []
        row.append(char)
    if row:
        yield sorted(row, key=lambda c: c.x)


def _grid_lines(row: list[Char], mono: set[tuple[str, float]]) -> Iterator[GridLine]:
    # Pieces of equal advance on one base line; a glyph from another font (a typographic quote) counts if it is as wide.
    pieces: list[tuple[float | None, list[Char]]] = []
    for char in row:
        advance = pieces[-1][0] if pieces else None
        fits = advance is not None and abs(char.advance - advance) <= _SAME_ADVANCE * advance
        if fits:
            pieces[-1][1].append(char)
        elif char.font in mono:
            pieces.append((char.advance, [char]))
        elif pieces and advance is None:
            pieces[-1][1].append(char)
        else:
            pieces.append((None, [char]))
    for index, (advance, piece) in enumerate(pieces):
        if advance is None:
            continue
        reach = _PROSE_DISTANCE * advance
        before = pieces[index - 1][1][-1] if index else None
        after = pieces[index + 1][1][0] if index + 1 < len(pieces) else None
        if before and piece[0].x - (before.x + before.advance) < reach:
            continue
        if after and after.x - (piece[-1].x + piece[-1].advance) < reach:
            continue
        yield _grid_line(piece, advance)


def _grid_line(piece: list[Char], advance: float) -> GridLine:
    x0 = piece[0].x
    cells = {round((char.x - x0) / advance): char.text for char in piece}
    text = "".join(cells.get(column, " ") for column in range(max(cells) + 1))
    top, bottom = min(char.top for char in piece), max(char.bottom for char in piece)
    return GridLine(text, x0, x0, advance, piece[0].baseline, top, bottom)


def _runs(lines: Sequence[GridLine]) -> Iterator[list[GridLine]]:
    """Runs of single-spaced output lines on one grid, without prompts; knitr's '##' in front of output is taken off."""
    run: list[GridLine] = []
    for line in lines:
        text = _COMMENTED.sub(lambda match: match[1] + " " * (match.end() - len(match[1])), line.text)
        apart = bool(run) and (
            line.baseline - run[-1].baseline > _LINE_PITCH * line.advance
            or abs(line.advance - run[-1].advance) > _SAME_ADVANCE * line.advance
        )
        ends = not text.strip(" ") or _PROMPT.match(text) is not None
        if run and (apart or ends):
            yield _on_one_grid(run)
            run = []
        if not ends:
            run.append(replace(line, text=text))
    if run:
        yield _on_one_grid(run)


def _on_one_grid(run: list[GridLine]) -> list[GridLine]:
    x0 = min(line.left for line in run)
    moved = []
    for line in run:
        shift = round((line.left - x0) / line.advance)
        moved.append(replace(line, text=" " * shift + line.text.lstrip(" "), x0=x0))
    return moved


@dataclass
class _Column:
    start: int
    end: int
    header: str
    cells: list[str]


@dataclass(frozen=True)
class _Block:
    """Line numbers of a table within its run: the heading over groups of columns if there is one, header, rows."""

    heading: tuple[int, ...]
    header: tuple[int, ...]
    body: tuple[int, ...]

    @property
    def first(self) -> int:
        return (self.heading + self.header)[0]

    @property
    def end(self) -> int:
        return self.body[-1] + 1


def _tables_of_run(run: list[GridLine]) -> Iterator[ConsoleTable]:
    found: list[tuple[_Block, Rows]] = []
    index = 0
    while index < len(run) - 1:
        block = _block_at(run, index, free_from=found[-1][0].end if found else 0)
        if block is None:
            index += 1
        else:
            found.append((block, _cells(run, block)))
            index = block.end
    for group in _wrapped_groups(found):
        first, last = group[0][0], group[-1][0]
        lines = run[first.first : last.end]
        bbox = (
            min(line.edge for line in lines),
            min(line.top for line in lines),
            max(line.right for line in lines),
            max(line.bottom for line in lines),
        )
        yield ConsoleTable(bbox, _title(run, first), _join([rows for _, rows in group]))


def _tokens(text: str) -> list[Token]:
    return [Token(match.start(), match.end(), match[0]) for match in _TOKEN.finditer(text)]


def _is_value(token: Token) -> bool:
    return _VALUE.fullmatch(token.text) is not None


def _block_at(run: list[GridLine], index: int, free_from: int) -> _Block | None:
    """The table whose header (the last line of it, where columns have headings over them) is line `index`, or None.

    Lines before `free_from` belong to the table above.
    """
    header = _tokens(run[index].text)
    levels = [float(token.text) for token in header if _NUMBER.fullmatch(token.text)]
    if not header or _NOT_TABULAR.match(run[index].text) or any(a >= b for a, b in pairwise(levels)):
        return None
    headers = [index]
    # Row labels of several columns have their names on a line of their own, under the header (format.ftable).
    second = _tokens(run[index + 1].text)
    if second and not any(map(_is_value, second)) and second[-1].end <= header[0].start:
        headers.append(index + 1)
    body = _body(run, headers[-1] + 1, header)
    if not body or max(len(_tokens(run[number].text)) for number in body) < 2:
        return None
    columns = _columns([run[number].text for number in headers], [run[number].text for number in body])
    heading = (index - 1,) if index > free_from and _is_heading(run[index - 1].text, header, columns) else ()
    unnamed = len(levels) == len(header) and not columns[0].header
    # Numbers can head columns only as the levels of a factor or a count: "state 0 1 2" under the factor's name.
    return _Block(heading, tuple(headers), tuple(body)) if not levels or heading or unnamed else None


def _is_heading(above: str, header: list[Token], columns: list[_Column]) -> bool:
    """Whether the line above a header names the factor of the columns, or the groups they form."""
    tokens = _tokens(above)
    if not tokens or _NOT_TABULAR.match(above) or any(map(_is_value, tokens)):
        return False
    if len(tokens) == 1:
        start, text = tokens[0].start, tokens[0].text
        if 0 <= start - columns[0].end <= 1 or (start == header[0].end + 1 and len(header) > 1):
            return text[-1] != ":"
        # A table of one factor has no row labels; the factor's name stands at the start of the line.
        one_factor = len(columns[0].cells) == 1 and bool(columns[0].header)
        return one_factor and start == 0 and text[-1] != ":" and "=" not in text
    over = [token for token in tokens if token.end > columns[0].end]
    gaps = [(before.end, token.start) for before, token in pairwise([Token(0, columns[0].end, ""), *header])]
    fits = all(any(left <= token.start <= right for left, right in gaps) for token in over)
    return 2 <= len(over) < len(header) and fits


def _body(run: list[GridLine], start: int, header: list[Token]) -> list[int]:
    ends, starts = {token.end for token in header}, {token.start for token in header}
    body: list[int] = []
    complete = 0
    for number in range(start, len(run)):
        tokens = _tokens(run[number].text)
        if _NOT_TABULAR.match(run[number].text) or not tokens:
            break
        values = [token for token in tokens if token.end > header[0].start]
        if not values:
            # A row that is blank but for its label; it stays if the table goes on below it.
            if not body or tokens[0].start > _tokens(run[body[0]].text)[0].start:
                break
            body.append(number)
            continue
        if not _fits(values, tokens, ends, starts, max(ends) if body else header[-1].end):
            break
        body.append(number)
        complete = len(body)
        ends.update(token.end for token in values)
        if not body[1:]:
            starts.update(token.start for token in values if not _is_value(token))
    if complete < len(body) and complete and _continues(run, body):
        complete = len(body)
    return body[:complete]


def _continues(run: list[GridLine], body: list[int]) -> bool:
    """Whether the line after `body` is the header of a wrapped block whose rows have the same labels."""
    after = body[-1] + 1
    if after + 1 >= len(run):
        return False
    header, row, first = (_tokens(run[number].text) for number in (after, after + 1, body[0]))
    return header[0].start > first[0].end - 1 and row[0] == first[0]


def _fits(values: list[Token], tokens: list[Token], ends: set[int], starts: set[int], last_end: int) -> bool:
    """Whether a line is a row: most of its entries stand in the columns so far, and they are values rather than prose.

    Entries beyond `last_end` may begin columns that the header leaves unnamed, so their place is no objection.
    """
    # The first entry of a row is often a label in a column of its own, so it proves nothing either way.
    judged = [token for token in values if token != tokens[0]] or values
    placed = [token for token in judged if token.start < last_end] or judged
    aligned = sum(token.end in ends or token.start in starts or _is_star(token, ends) for token in placed)
    numbers = sum(_is_value(token) or _is_star(token, ends) for token in judged)
    if aligned < _ALIGNED * len(placed) or (aligned < 2 and len(placed) < len(judged)):
        return False
    words_in_columns = aligned == len(judged) > 1 and any(map(_is_value, tokens))  # factors and strings of a data frame
    return numbers >= _VALUES * len(judged) or words_in_columns


def _is_star(token: Token, ends: set[int]) -> bool:
    return _STARS.fullmatch(token.text) is not None and token.start > max(ends) - 4


def _wrapped_groups(found: list[tuple[_Block, Rows]]) -> Iterator[list[tuple[_Block, Rows]]]:
    group: list[tuple[_Block, Rows]] = []
    for block, rows in found:
        if group and not (block.first == group[-1][0].end and _continue_each_other(group[0][1], rows)):
            yield group
            group = []
        group.append((block, rows))
    if group:
        yield group


def _continue_each_other(one: Rows, other: Rows) -> bool:
    unlabelled = len(one) == len(other) == 2 and bool(one[0][0]) and bool(other[0][0])  # a named vector
    return unlabelled or [row[0] for row in one] == [row[0] for row in other]


def _title(run: list[GridLine], block: _Block) -> str:
    """The line above a table if it is a title: short or ended by a colon, no code and no row of values."""
    if not block.first:
        return ""
    above = run[block.first - 1].text
    tokens = _tokens(above)
    announces = above.endswith(":") or (len(tokens) <= 4 and not any(char in above for char in "(,"))
    return fold(above) if announces and not _NOT_TABULAR.match(above) and not any(map(_is_value, tokens[:1])) else ""


def _cells(run: list[GridLine], block: _Block) -> Rows:
    headers, body = [run[number].text for number in block.header], [run[number].text for number in block.body]
    columns = _columns(headers, body)
    if len(headers) > 1:
        _fill_down(columns)
    for number in block.heading:
        _add_heading(columns, _tokens(run[number].text))
    header = tuple(fold(column.header) for column in columns)
    return (header, *(tuple(fold(column.cells[row]) for column in columns) for row in range(len(body))))


def _columns(headers: list[str], body: list[str]) -> list[_Column]:
    """The table cut at grid columns that are blank in all of its lines, the words of a name or entry kept together."""
    return _gather_data(_gather_names(_cut(headers, body)))


def _cut(headers: list[str], body: list[str]) -> list[_Column]:
    width = max(map(len, headers + body))
    lines = [line.ljust(width) for line in headers + body]
    inked = "".join("x" if any(line[column] != " " for line in lines) else " " for column in range(width))
    return [
        _Column(
            match.start(),
            match.end(),
            " ".join(part for line in lines[: len(headers)] if (part := line[match.start() : match.end()].strip(" "))),
            [line[match.start() : match.end()].strip(" ") for line in lines[len(headers) :]],
        )
        for match in re.finditer("x+", inked)
    ]


def _merge(left: _Column, right: _Column) -> _Column:
    cells = [f"{a} {b}".strip(" ") for a, b in zip(left.cells, right.cells, strict=True)]
    return _Column(left.start, right.end, f"{left.header} {right.header}".strip(" "), cells)


def _gather_names(columns: list[_Column]) -> list[_Column]:
    """Header words with nothing below them belong to the next column: R right-aligns, so 'lower 95% CI' ends there."""
    gathered: list[_Column] = []
    for column in columns:
        if gathered and not any(gathered[-1].cells):
            gathered[-1] = _merge(gathered[-1], column)
        else:
            gathered.append(column)
    if len(gathered) > 1 and not any(gathered[-1].cells):
        last = gathered.pop()
        gathered[-1] = _merge(gathered[-1], last)
    return gathered


def _gather_data(columns: list[_Column]) -> list[_Column]:
    """Parts of row labels, and of entries with a blank in them, put together; columns without a name stay columns."""
    first_named = next((number for number, column in enumerate(columns) if column.header), 0)
    gathered: list[_Column] = []
    for number, column in enumerate(columns):
        previous = gathered[-1] if gathered else None
        if previous is None:
            gathered.append(column)
        elif number < first_named:
            if all(_DECIMAL.fullmatch(cell) for cell in column.cells):
                gathered.append(column)
            else:
                gathered[-1] = _merge(previous, column)
        elif number > first_named and _is_part(previous, column) and len(gathered) > 1:
            gathered[-1] = _merge(previous, column)
        else:
            gathered.append(column)
    return gathered


def _is_part(left: _Column, right: _Column) -> bool:
    """Whether a column without a name holds the first words of the entries of the next: '< 2e-16', 'death w/o SCT'."""
    numeric = any(_NUMBER.fullmatch(cell) for cell in left.cells)
    return not left.header and right.start - left.end == 1 and not numeric


def _fill_down(columns: list[_Column]) -> None:
    for column in columns[:-1]:
        if not column.cells[0] or all(column.cells):
            continue
        if any(_VALUE.fullmatch(cell) for cell in column.cells if cell):
            break
        for row in range(1, len(column.cells)):
            column.cells[row] = column.cells[row] or column.cells[row - 1]


def _add_heading(columns: list[_Column], heading: list[Token]) -> None:
    """Names of the column factor, or of its levels, go in front of what stands below: 'to' over 'CR' makes 'to CR'."""
    labels_end = columns[0].end if heading[0].start > 0 else 0
    named = [column.start for column in columns if column.start >= labels_end and column.header]
    first = min(named, default=labels_end)
    names = [token.text for token in heading if token.end <= first and token != heading[-1]]
    for column in columns:
        over = [token for token in heading[len(names) :] if token.start < column.end]
        if column.header and column.end > labels_end and over:
            column.header = " ".join([*names, over[-1].text, column.header])


def _join(parts: list[Rows]) -> Rows:
    """Blocks of one wrapped table side by side; the labels, equal in all of them, are kept once."""
    first, *others = parts
    return tuple(
        row + tuple(cell for part in others for cell in part[number][part[0][0] == first[0][0] :])
        for number, row in enumerate(first)
    )
