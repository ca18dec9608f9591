"""Figures of a born-digital page: which marks and text belong to each, and the tight box round its ink.

The layout model finds nearly every figure but boxes its labels rather than its ink, so its boxes only serve as seeds.
What belongs together is read from the page's drawing operations: an included graphic is drawn in one go inside a clip
(its frame), and its labels are shown between its strokes. Figures drawn without a frame are gathered by distance.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymupdf

from rag.ingest.captions import Caption
from rag.ingest.layout import (
    LayoutBox,
    Line,
    Mark,
    area,
    contains_centre,
    gaps,
    grow,
    intersect,
    share_inside,
    union,
)
from rag.types import BBox

# Points. A rule this near touches a drawing; marks nearer than the second are one drawing; panels nearer than this can be one
# figure; labels are looked for this far from a figure; a figure is at least this wide and high.
_TOUCH_GAP = 3.0
_MARK_GAP = 14.0
_PANEL_GAP = 60.0
_LABEL_REACH = 45.0
_LEAST_SIDE = 25.0
_INK_DPI = 144
# Letters in the longest label, and in what a font must set elsewhere on the page to be one of running text.
_LABEL_LETTERS, _RUNNING_LETTERS = 60, 100
# Marks of the least figure, where the layout model sees a picture there and where it does not.
_FEW_MARKS, _MANY_MARKS = 4, 8
_RUNNING_KINDS = frozenset({"text", "list-item", "section-header", "title", "footnote", "caption"})


@dataclass(frozen=True)
class Figure:
    """A figure: `bbox` is the tight box round its ink; `lines` is the text inside it."""

    bbox: BBox
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class _Drawing:
    """Marks that belong together, with the frames they were drawn in and the text that goes with them."""

    marks: tuple[Mark, ...]
    lines: tuple[Line, ...] = ()

    @property
    def bbox(self) -> BBox:
        return union([*(mark.bbox for mark in self.marks), *(line.bbox for line in self.lines)])

    @property
    def frames(self) -> tuple[BBox, ...]:
        return tuple({mark.frame: None for mark in self.marks if mark.frame is not None})


def find_figures(
    page: pymupdf.Page,
    layout: Sequence[LayoutBox],
    lines: Sequence[Line],
    marks: Sequence[Mark],
    captions: Sequence[Caption],
) -> list[Figure]:
    """The figures of an upright page, top to bottom, each with the tight box round its ink and the text in it."""
    page_box: BBox = tuple(page.rect)
    captioned = {line for line in lines if any(contains_centre(caption.bbox, line.bbox) for caption in captions)}
    free = [line for line in lines if line not in captioned]
    marks = _with_true_frames(marks, page_box)
    drawn = _significant(marks, page_box, layout)
    drawings = [_Drawing(tuple(group)) for group in _cluster(drawn, captions, layout)]
    drawings = [_with_rules(drawing, marks, lines, captions) for drawing in drawings]
    drawings = [drawing for drawing in drawings if _is_figure(drawing, layout)]
    drawings = _with_labels(drawings, free, captions, layout)
    drawings = _merge_panels(drawings, lines, captions)
    figures = [_tighten(page, drawing, lines) for drawing in drawings]
    return sorted(figures, key=lambda figure: (figure.bbox[1], figure.bbox[0]))


# --- marks that can be part of a figure ------------------------------------------------------------------------------


def _significant(marks: Sequence[Mark], page_box: BBox, layout: Sequence[LayoutBox]) -> list[Mark]:
    """Marks without page backgrounds, crop marks at the edge, rules and underlines, and shades behind running text."""
    running = [box.bbox for box in layout if box.kind in _RUNNING_KINDS]
    furniture = [box.bbox for box in layout if box.kind in ("page-header", "page-footer")]
    kept = []
    for mark in marks:
        if area(mark.bbox) > 0.8 * area(page_box):
            continue
        if mark.frame is None:
            in_furniture = any(share_inside(mark.bbox, grow(box, 3)) > 0.5 for box in furniture)
            if in_furniture or mark.kind == "rule" or _is_backdrop(mark, running):
                continue
        kept.append(mark)
    return kept


def _with_true_frames(marks: Sequence[Mark], page_box: BBox) -> list[Mark]:
    """Marks with only those frames kept that say something: smaller than the page and drawn in more than twice."""
    counts = Counter(mark.frame for mark in marks)
    true = {f for f, count in counts.items() if f is not None and count > 2 and area(f) < 0.8 * area(page_box)}
    return [mark if mark.frame in true else replace(mark, frame=None) for mark in marks]


def _is_backdrop(mark: Mark, running: Sequence[BBox]) -> bool:
    """Whether a box mostly holds running text: the shade or frame of a code listing, a highlighted word."""
    if mark.kind != "box":
        return False
    held = sum(area(intersect(mark.bbox, box)) for box in running)
    return held > 0.5 * area(mark.bbox)


# --- gathering marks into drawings -----------------------------------------------------------------------------------


def _cluster(marks: Sequence[Mark], captions: Sequence[Caption], layout: Sequence[LayoutBox]) -> list[list[Mark]]:
    """Marks in groups: same or overlapping frames, or near each other with no caption between."""
    groups = _by_frame(marks)
    pictures = [box.bbox for box in layout if box.kind == "picture"]
    walls = [caption.bbox for caption in captions]
    merged = True
    while merged:
        merged = False
        for i in range(len(groups)):
            for j in range(len(groups) - 1, i, -1):
                if _belong_together(groups[i], groups[j], pictures, walls):
                    groups[i] = _Group(groups[i].marks + groups[j].marks, union((groups[i].bbox, groups[j].bbox)))
                    del groups[j]
                    merged = True
    return [group.marks for group in groups]


@dataclass
class _Group:
    marks: list[Mark]
    bbox: BBox


def _by_frame(marks: Sequence[Mark]) -> list[_Group]:
    framed: dict[BBox, list[Mark]] = {}
    groups: list[_Group] = []
    for mark in marks:
        if mark.frame is not None:
            framed.setdefault(mark.frame, []).append(mark)
        elif groups and max(gaps(groups[-1].bbox, mark.bbox)) < 3.0:
            # Neighbours in drawing order are nearly always neighbours on the page; this keeps the pairs few.
            groups[-1].marks.append(mark)
            groups[-1].bbox = union((groups[-1].bbox, mark.bbox))
        else:
            groups.append(_Group([mark], mark.bbox))
    return groups + [_Group(members, union(mark.bbox for mark in members)) for members in framed.values()]


def _belong_together(a: _Group, b: _Group, pictures: Sequence[BBox], walls: Sequence[BBox]) -> bool:
    across, down = gaps(a.bbox, b.bbox)
    if max(across, down) > _PANEL_GAP:
        return False
    if any(_stands_between(wall, a.bbox, b.bbox) for wall in walls):
        return False
    same_picture = any(share_inside(a.bbox, p) > 0.5 and share_inside(b.bbox, p) > 0.5 for p in pictures)
    return same_picture or max(across, down) < _MARK_GAP


def _stands_between(wall: BBox, a: BBox, b: BBox) -> bool:
    upper, lower = (a, b) if a[1] + a[3] <= b[1] + b[3] else (b, a)
    middle = (wall[1] + wall[3]) / 2
    return (upper[1] + upper[3]) / 2 < middle < (lower[1] + lower[3]) / 2 and gaps(wall, union((a, b)))[0] < 0


def _is_figure(drawing: _Drawing, layout: Sequence[LayoutBox]) -> bool:
    x0, y0, x1, y1 = box = union(mark.bbox for mark in drawing.marks)
    if x1 - x0 < _LEAST_SIDE or y1 - y0 < _LEAST_SIDE:
        return False
    if any(share_inside(box, b.bbox) > 0.7 for b in layout if b.kind in ("table", "formula")):
        return False
    if any(mark.kind == "image" for mark in drawing.marks) or drawing.frames:
        return True
    if any(area(intersect(box, b.bbox)) > 0.3 * area(box) for b in layout if b.kind == "picture"):
        return len(drawing.marks) >= _FEW_MARKS
    # On the drawing's word alone: enough of it, and something that no table or framed text has.
    return len(drawing.marks) >= _MANY_MARKS and any(mark.kind == "curve" for mark in drawing.marks)


def _with_rules(
    drawing: _Drawing, marks: Sequence[Mark], lines: Sequence[Line], captions: Sequence[Caption]
) -> _Drawing:
    """The drawing with the plain rules that touch it (axes, ticks) or were drawn in the same go (legend keys).

    Going through the page's operations from the drawing's first one backwards and its last one onwards, rules near it
    are taken in until there is text that is not in a font of the drawing or not near it. A frame settles the matter
    without them.
    """
    if drawing.frames:
        return drawing
    members = {mark.operation: mark for mark in drawing.marks}
    box = union(mark.bbox for mark in drawing.marks)
    fonts = {line.font for line in lines if share_inside(line.bbox, box) > 0.8}
    others = {mark.operation: mark for mark in marks if mark.operation not in members}
    shown: dict[int, list[Line]] = {}
    for line in lines:
        shown.setdefault(line.operation, []).append(line)
    first, last = min(members), max(members)
    walls = [caption.bbox for caption in captions]
    inside = [mark for operation, mark in others.items() if first < operation < last]
    for step, operation in ((-1, first - 1), (1, last + 1)):
        while operation in others or operation in shown:
            if operation in others:
                inside.append(others[operation])
            elif not all(line.font in fonts and max(gaps(line.bbox, box)) < _PANEL_GAP for line in shown[operation]):
                break
            operation += step
    touching = [mark for mark in others.values() if max(gaps(mark.bbox, box)) < _TOUCH_GAP]
    near = [
        mark
        for mark in dict.fromkeys((*inside, *touching))
        if max(gaps(mark.bbox, box)) < _PANEL_GAP
        and mark.kind == "rule"
        and not any(_stands_between(wall, mark.bbox, box) for wall in walls)
    ]
    return _Drawing(tuple(sorted((*drawing.marks, *near), key=lambda mark: mark.operation)))


# --- labels ----------------------------------------------------------------------------------------------------------


def _with_labels(
    drawings: Sequence[_Drawing], lines: Sequence[Line], captions: Sequence[Caption], layout: Sequence[LayoutBox]
) -> list[_Drawing]:
    """Each drawing with its text: shown between its strokes, inside its frame or marks, or close by in its font."""
    owned = [tuple(line for line in lines if _is_drawn_with(line, drawing, lines)) for drawing in drawings]
    taken = {line for group in owned for line in group}
    waiting: list[list[Line]] = [[] for _ in drawings]
    free = [line for line in lines if line not in taken]
    boxes = [drawing.bbox for drawing in drawings]
    for line in free if drawings else ():
        distances = [max(gaps(line.bbox, box)) for box in boxes]
        waiting[distances.index(min(distances))].append(line)
    running_fonts = _running_fonts(free, boxes)
    walls = [caption.bbox for caption in captions]
    result = []
    for drawing, own, near in zip(drawings, owned, waiting, strict=True):
        fonts = {line.font for line in own} - running_fonts
        result.append(_grown(_Drawing(drawing.marks, own), near, fonts, walls, layout))
    return result


def _grown(
    drawing: _Drawing, waiting: Sequence[Line], fonts: set[str], walls: Sequence[BBox], layout: Sequence[LayoutBox]
) -> _Drawing:
    """The drawing with those of the `waiting` lines that are its labels; each one taken in may bring others near."""
    while True:
        box = drawing.bbox
        near = [
            line
            for line in waiting
            if line not in drawing.lines
            and _is_label(line, box, fonts, drawing, layout)
            and not any(_stands_between(wall, line.bbox, box) for wall in walls)
        ]
        if not near:
            return drawing
        drawing = _Drawing(drawing.marks, (*drawing.lines, *near))


def _running_fonts(lines: Sequence[Line], drawings: Sequence[BBox]) -> set[str]:
    """Fonts with more than a line or two of text in `lines` that can't be a label: far from all drawings, or long."""
    letters: Counter[str] = Counter()
    for line in lines:
        is_far = all(max(gaps(line.bbox, box)) > _LABEL_REACH for box in drawings)
        if is_far or len(line.text) > _LABEL_LETTERS:
            letters[line.font] += len(line.text)
    return {font for font, count in letters.items() if count > _RUNNING_LETTERS}


def _is_drawn_with(line: Line, drawing: _Drawing, lines: Sequence[Line]) -> bool:
    marks_box = union(mark.bbox for mark in drawing.marks)
    if share_inside(line.bbox, marks_box) > 0.8:
        return True
    first, last = drawing.marks[0].operation, drawing.marks[-1].operation
    if first < line.operation < last and max(gaps(line.bbox, grow(marks_box, _PANEL_GAP))) < 0:
        return True
    together = [other.bbox for other in lines if other.operation == line.operation >= 0] or [line.bbox]
    return any(all(share_inside(box, grow(frame, 2)) > 0.8 for box in together) for frame in drawing.frames)


def _is_label(line: Line, box: BBox, fonts: set[str], drawing: _Drawing, layout: Sequence[LayoutBox]) -> bool:
    distance = max(gaps(line.bbox, box))
    if line.font in fonts and distance < _LABEL_REACH:
        return True
    if drawing.frames:
        return False
    # No frame and no font to go by: what the layout model put into the picture, and what sits on the drawing's edge.
    pictures = [b.bbox for b in layout if b.kind == "picture" and area(intersect(b.bbox, box)) > 0.3 * area(b.bbox)]
    return any(contains_centre(p, line.bbox) for p in pictures)


# --- panels ----------------------------------------------------------------------------------------------------------


def _merge_panels(drawings: Sequence[_Drawing], lines: Sequence[Line], captions: Sequence[Caption]) -> list[_Drawing]:
    """Drawings side by side or stacked with nothing but white between them are panels of one figure."""
    merged = list(drawings)
    again = True
    while again:
        again = False
        for i in range(len(merged)):
            for j in range(len(merged) - 1, i, -1):
                if _are_panels(merged[i], merged[j], lines, captions):
                    a, b = merged[i], merged.pop(j)
                    merged[i] = _Drawing(a.marks + b.marks, tuple(dict.fromkeys(a.lines + b.lines)))
                    again = True
    return merged


def _are_panels(a: _Drawing, b: _Drawing, lines: Sequence[Line], captions: Sequence[Caption]) -> bool:
    across, down = gaps(a.bbox, b.bbox)
    if max(across, down) > _PANEL_GAP:
        return False
    if across > 0 and down > 0:
        return False
    own = {*a.lines, *b.lines}
    both = union((a.bbox, b.bbox))
    strangers = [line.bbox for line in lines if line not in own and contains_centre(both, line.bbox)]
    walls = [*strangers, *(caption.bbox for caption in captions)]
    return not any(_stands_between(wall, a.bbox, b.bbox) for wall in walls)


# --- ink -------------------------------------------------------------------------------------------------------------


def _tighten(page: pymupdf.Page, drawing: _Drawing, lines: Sequence[Line]) -> Figure:
    """The figure with the box of its ink, measured on the rendered page with other text blanked out."""
    box = intersect(grow(drawing.bbox, 1.0), tuple(page.rect)) or drawing.bbox
    zoom = min(_INK_DPI / 72, 2000 / max(box[2] - box[0], box[3] - box[1]))
    pixmap = page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom), clip=box, colorspace=pymupdf.csGRAY, annots=False)
    pixels = np.frombuffer(pixmap.samples_mv, dtype=np.uint8).reshape(pixmap.height, pixmap.stride)[:, : pixmap.width]
    ink = pixels < 245
    own = set(drawing.lines)
    for line in lines:
        if line not in own and max(gaps(line.bbox, box)) < 0:
            x0, y0, x1, y1 = (round(v * zoom) for v in line.bbox)
            ink[max(0, y0 - pixmap.y) : max(0, y1 - pixmap.y), max(0, x0 - pixmap.x) : max(0, x1 - pixmap.x)] = False
    columns, inked_rows = np.flatnonzero(ink.any(axis=0)), np.flatnonzero(ink.any(axis=1))
    if columns.size == 0:
        return Figure(drawing.bbox, drawing.lines)
    tight = (
        (pixmap.x + int(columns[0])) / zoom,
        (pixmap.y + int(inked_rows[0])) / zoom,
        (pixmap.x + int(columns[-1]) + 1) / zoom,
        (pixmap.y + int(inked_rows[-1]) + 1) / zoom,
    )
    return Figure(tight, drawing.lines)
