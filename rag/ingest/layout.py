"""The raw material of a page: layout boxes from PyMuPDF's layout model, lines of characters, and drawn marks.

All boxes here are in points of a page without /Rotate, origin at the crop box's top left. `rag.ingest.pdf` turns a
rotated page upright before it is read (the layout model can't read text that runs sideways) and the boxes back after.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any, Literal

import pymupdf

from rag.ingest.fold import fold, map_ligatures
from rag.types import BBox

# A gap wider than this part of the font size is a word space, even where the file holds no space character.
_SPACE_EM = 0.2
# Points: what is thinner is a rule. Sides of the most complicated box (a rounded one has its corners as well).
_RULE_WIDTH = 2.0
# The layout model paints a page at 72 dpi: one of 5 x 5 m takes 1.5 GB. What is larger than A2 is shown to it at A4's size.
_LARGEST_SIDE, _USUAL_SIDE = 1800.0, 842.0
_BOX_SIDES = 6


@dataclass(frozen=True)
class LayoutBox:
    """A box the layout model found: `kind` is its label (text, section-header, list-item, caption, picture, table,
    formula, footnote, page-header, page-footer, ...); `bbox` in points, origin top left."""

    bbox: BBox
    kind: str


@dataclass(frozen=True)
class Line:
    """A piece of text on one baseline. `text` has its ligatures spelled out but is not folded yet (a hyphen at its end
    still matters); `operation` is the number of the page's drawing operation that shows it (-1: unknown); `direction`
    is the unit vector of writing; `words` are the parts between spaces, each with its box."""

    bbox: BBox
    text: str
    font: str
    size: float
    bold: bool
    mono: bool
    operation: int
    direction: tuple[float, float] = (1.0, 0.0)
    label_font: str = ""
    words: tuple[tuple[str, BBox], ...] = field(default=(), compare=False)

    @property
    def folded(self) -> str:
        return fold(self.text)


@dataclass(frozen=True)
class Mark:
    """A visible stroke, fill or image, cut to the clip in force. `kind` tells straight rules and boxes, which tables
    and text are set with too, from what only graphics have; `frame` is the outermost clip's box (an included graphic's
    canvas) or None; `operation` numbers the page's drawing operations."""

    bbox: BBox
    kind: Literal["rule", "box", "curve", "image"]
    operation: int
    frame: BBox | None


def page_layout(page: pymupdf.Page) -> list[LayoutBox]:
    """The layout boxes of `page` in the model's reading order; empty for a page with nothing on it."""
    # Importing the model takes half a second and switches on a hook in PyMuPDF, so it waits for the first page.
    import pymupdf.layout

    pymupdf.layout.activate()
    largest = max(page.rect.width, page.rect.height)
    if largest <= _LARGEST_SIDE:
        return _layout_boxes(page, 1.0)
    scale = _USUAL_SIDE / largest
    with pymupdf.open() as small:
        copy = small.new_page(width=page.rect.width * scale, height=page.rect.height * scale)
        copy.show_pdf_page(copy.rect, page.parent, page.number)
        return _layout_boxes(small[0], scale)


def _layout_boxes(page: pymupdf.Page, scale: float) -> list[LayoutBox]:
    page.get_layout()
    found = page.layout_information or []
    boxes = ((tuple(float(side) / scale for side in box), str(kind)) for *box, kind in found)
    return [LayoutBox((x0, y0, x1, y1), kind) for (x0, y0, x1, y1), kind in boxes]


# --- boxes -----------------------------------------------------------------------------------------------------------


def union(boxes: Iterable[BBox]) -> BBox:
    """The smallest box round all of `boxes`, of which there must be at least one."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def intersect(a: BBox, b: BBox) -> BBox | None:
    """The common part of two boxes, None where they don't meet; a line (no width or no height) is a box too."""
    x0, y0, x1, y1 = max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])
    return (x0, y0, x1, y1) if x0 <= x1 and y0 <= y1 else None


def grow(box: BBox, by: float) -> BBox:
    """`box` with every side moved out by `by` points."""
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def area(box: BBox | None) -> float:
    """Area in square points; 0 for None."""
    return 0.0 if box is None else max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def share_inside(inner: BBox, outer: BBox) -> float:
    """The part of `inner`'s area that lies in `outer`, 0..1; a hairline counts as half a point wide."""
    padded = grow(inner, 0.25)
    return area(intersect(padded, outer)) / area(padded)


def gaps(a: BBox, b: BBox) -> tuple[float, float]:
    """Horizontal and vertical distance between two boxes; negative where they overlap on that axis."""
    return max(a[0], b[0]) - min(a[2], b[2]), max(a[1], b[1]) - min(a[3], b[3])


def contains_centre(outer: BBox, inner: BBox) -> bool:
    """Whether the middle of `inner` lies in `outer`."""
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


# --- text ------------------------------------------------------------------------------------------------------------


def page_lines(page: pymupdf.Page) -> list[Line]:
    """The lines of the page's text layer in the file's order, without those that are blank or off the page.

    Text printed again on the same spot (a way to make it look bold) counts once.
    """
    operations = _text_operations(page)
    lines: list[Line] = []
    seen: dict[str, list[BBox]] = {}
    for block in page.get_text("rawdict", clip=page.rect)["blocks"]:
        for raw in block.get("lines", ()):
            line = _read_line(raw, operations)
            twins = seen.setdefault(line.text, [])
            if line.text.strip() and not any(_same_place(line.bbox, twin) for twin in twins):
                lines.append(line)
                twins.append(line.bbox)
    return _with_monospaced_fonts(lines)


def _same_place(a: BBox, b: BBox) -> bool:
    return max(abs(p - q) for p, q in zip(a, b, strict=True)) < 2.0


def _with_monospaced_fonts(lines: Sequence[Line]) -> list[Line]:
    """Lines with `mono` settled font by font: in a short line the letters don't show what its font is."""
    votes: Counter[str] = Counter()
    for line in lines:
        votes[line.font] += len(line.text) if line.mono else -len(line.text)
    return [replace(line, mono=votes[line.font] > 0) for line in lines]


def _text_operations(page: pymupdf.Page) -> dict[tuple[int, int], int]:
    """Number of the drawing operation by the origin of the glyph it shows, in whole points."""
    return {
        (round(char[2][0]), round(char[2][1])): span["seqno"] for span in page.get_texttrace() for char in span["chars"]
    }


def _read_line(raw: dict[str, Any], operations: dict[tuple[int, int], int]) -> Line:
    spans = [span for span in raw["spans"] if span["chars"]]
    if not spans:
        return Line(tuple(raw["bbox"]), "", "", 0.0, bold=False, mono=False, operation=-1)
    axis_x, axis_y = raw["dir"]
    pieces: list[tuple[str, BBox]] = []
    end: float | None = None
    for span in spans:
        least_gap = _SPACE_EM * span["size"]
        for char in span["chars"]:
            # Distance along the direction of writing: the box's side that is met first, and the one met last.
            x0, y0, x1, y1 = char["bbox"]
            start, stop = sorted((x0 * axis_x + y0 * axis_y, x1 * axis_x + y1 * axis_y))
            if end is not None and start - end > least_gap and not pieces[-1][0].isspace():
                pieces.append((" ", char["bbox"]))
            pieces.append((map_ligatures(char["c"]), char["bbox"]))
            end = stop
    widest = max(spans, key=lambda span: len(span["chars"]))
    x, y = spans[0]["chars"][0]["origin"]
    return Line(
        bbox=tuple(raw["bbox"]),
        text="".join(text for text, _ in pieces),
        font=widest["font"],
        size=widest["size"],
        bold=bool(spans[0]["flags"] & pymupdf.TEXT_FONT_BOLD),
        mono=_is_monospaced(widest),
        operation=operations.get((round(x), round(y)), -1),
        direction=(axis_x, axis_y),
        label_font=spans[0]["font"],
        words=tuple(_line_words(pieces)),
    )


def _line_words(pieces: Iterable[tuple[str, BBox]]) -> Iterator[tuple[str, BBox]]:
    for is_space, run in groupby(pieces, key=lambda piece: piece[0].isspace()):
        if not is_space:
            texts, boxes = zip(*run, strict=True)
            yield "".join(texts), union(boxes)


def _is_monospaced(span: dict[str, Any]) -> bool:
    """By the font's flag or, since fonts often lack it, by narrow and wide letters that take the same room."""
    if span["flags"] & pymupdf.TEXT_FONT_MONOSPACED:
        return True
    widths = {c["c"]: c["bbox"][2] - c["bbox"][0] for c in span["chars"] if c["c"].isalnum()}
    return len(widths) > 3 and max(widths.values()) - min(widths.values()) < 0.02 * span["size"]


def rows(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines gathered into rows: those that share most of their height, left to right; rows top to bottom."""
    gathered: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: (line.bbox[1] + line.bbox[3], line.bbox[0])):
        for row in reversed(gathered[-3:]):
            if _same_row(row[0].bbox, line.bbox):
                row.append(line)
                break
        else:
            gathered.append([line])
    return [sorted(row, key=lambda line: line.bbox[0]) for row in gathered]


def _same_row(a: BBox, b: BBox) -> bool:
    return -gaps(a, b)[1] > 0.5 * min(a[3] - a[1], b[3] - b[1])


def row_texts(lines: Sequence[Line]) -> list[str]:
    """The text of each row of `lines`, ligatures spelled out, not folded: upright text first, then what runs down (or,
    in Chinese and Japanese, stands in columns), up, and upside down."""
    return [_row_text(row, is_upright=is_upright) for row, is_upright in _read_rows(lines)]


def row_words(lines: Sequence[Line]) -> list[tuple[str, BBox]]:
    """The words of `lines` in the order of `row_texts`, each with its box on the page."""
    return [word for row, _ in _read_rows(lines) for line in row for word in line.words]


def _read_rows(lines: Sequence[Line]) -> Iterator[tuple[list[Line], bool]]:
    """Rows in reading order, their boxes turned upright, and whether they were."""
    for direction, turn in _UPRIGHT_TURNS.items():
        turned = [replace(line, bbox=turn(line.bbox)) for line in lines if _quarter(line.direction) == direction]
        for row in rows(turned):
            yield _as_read(row), direction == (1, 0)


def _as_read(row: list[Line]) -> list[Line]:
    """The row from its start: where most of it is Arabic or Hebrew, that is the right; what runs to the right in it stays."""
    if 2 * sum(map(_runs_left, row)) <= len(row):
        return row
    runs = [list(run) for _, run in groupby(row, key=_runs_left)]
    return [line for run in reversed(runs) for line in (reversed(run) if _runs_left(run[0]) else run)]


def _runs_left(line: Line) -> bool:
    """Whether the first letter of the line is one of a script that is written from right to left."""
    kinds = (unicodedata.bidirectional(char) for char in line.text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


# What makes a box of a line that runs in this direction one of a line that runs to the right.
_UPRIGHT_TURNS: dict[tuple[int, int], Callable[[BBox], BBox]] = {
    (1, 0): lambda box: box,
    (0, 1): lambda box: (box[1], -box[2], box[3], -box[0]),
    (0, -1): lambda box: (-box[3], box[0], -box[1], box[2]),
    (-1, 0): lambda box: (-box[2], -box[3], -box[0], -box[1]),
}


def _quarter(direction: tuple[float, float]) -> tuple[int, int]:
    x, y = direction
    return (1 if x > 0 else -1, 0) if abs(x) > abs(y) else (0, 1 if y > 0 else -1)


def _row_text(row: Sequence[Line], *, is_upright: bool) -> str:
    text = row[0].text
    for before, line in pairwise(row):
        # Text that stands in columns comes glyph by glyph.
        apart = is_upright or line.bbox[0] - before.bbox[2] > _SPACE_EM * line.size
        text += f" {line.text}" if apart else line.text
    return text


# --- drawings --------------------------------------------------------------------------------------------------------


def page_marks(page: pymupdf.Page) -> list[Mark]:
    """Visible strokes, fills and images of the page, each cut to its clip and to the page, in drawing order.

    Fills and strokes in white leave nothing to see on a white page and are left out, and so is what is clipped away.
    """
    bounds: BBox = tuple(page.rect)
    marks: list[Mark] = []
    clips: list[tuple[int, BBox]] = []
    for item in page.get_cdrawings(extended=True):
        level = item["level"]
        while clips and clips[-1][0] >= level:
            clips.pop()
        limit = clips[-1][1] if clips else bounds
        if item["type"] in ("clip", "group"):
            box = intersect(tuple(item.get("scissor") or item["rect"]), limit)
            clips.append((level, box or (0.0, 0.0, 0.0, 0.0)))
            continue
        box = intersect(_inked(item), limit)
        if box is not None and _is_visible(item):
            marks.append(Mark(box, _path_kind(item, box), item["seqno"], clips[0][1] if clips else None))
    for operation, (kind, rect) in enumerate(page.get_bboxlog()):
        box = intersect(tuple(rect), bounds) if kind in ("fill-image", "fill-imgmask", "fill-shade") else None
        if box is not None:
            marks.append(Mark(box, "image", operation, None))
    return sorted(marks, key=lambda mark: mark.operation)


def _inked(item: dict[str, Any]) -> BBox:
    return grow(tuple(item["rect"]), (item.get("width") or 0.0) / 2 if "s" in item["type"] else 0.0)


def _path_kind(item: dict[str, Any], box: BBox) -> Literal["rule", "box", "curve"]:
    if min(box[2] - box[0], box[3] - box[1]) < _RULE_WIDTH:
        return "rule"
    parts = item["items"]
    # A step curve has straight sides as well, but more of them than any box.
    return "box" if len(parts) <= _BOX_SIDES and all(_is_square(part) for part in parts) else "curve"


def _is_square(part: tuple[Any, ...]) -> bool:
    """Whether a path's part (PyMuPDF: operator, then points or a rectangle) runs along the page's axes."""
    if part[0] == "re":
        return True
    if part[0] == "c":
        return False
    points = [tuple(point) for point in (part[1] if part[0] == "qu" else part[1:])]
    if part[0] == "qu":  # corners in the order upper left, upper right, lower left, lower right
        points = [points[0], points[1], points[3], points[2]]
    return all(min(abs(a[0] - b[0]), abs(a[1] - b[1])) < 0.1 for a, b in pairwise(points))


def _is_visible(item: dict[str, Any]) -> bool:
    stroke, fill = item.get("color"), item.get("fill")
    stroked = "s" in item["type"] and stroke is not None and min(stroke) < 0.99 and item.get("stroke_opacity") != 0
    filled = "f" in item["type"] and fill is not None and min(fill) < 0.99 and item.get("fill_opacity") != 0
    return bool(stroked or filled)
