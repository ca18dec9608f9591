"""Captions: finding them among the lines of a page, and giving each to the figure or table it belongs to."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rag.ingest.fold import join_lines
from rag.ingest.layout import LayoutBox, Line, contains_centre, gaps, row_texts, rows, union
from rag.types import BBox

CaptionKind = Literal["figure", "table"]

# "Figure 3:", "Fig. 2.1.", "Table A-2", "TABLE IV". The number may be followed by a mark that running text never has
# there ("Figure 3:"), or by the caption itself, when a bold label or the layout sets it apart ("Figure 17.2  Forest").
# "Figures 5 and 6:" has two.
_NUMBER = r"(?:(?:[A-Z][.\-]?)?\d+(?:[.\-]\d+)*[a-z]?|[IVXL]+)"
_MORE_NUMBERS = rf"(?:\s*(?:,|&|and)\s*{_NUMBER})+"
_LIST_MARK = re.compile(r"\s*(?:,|&|and)\s*", re.IGNORECASE)
_LABEL = re.compile(
    rf"(?:(?P<word>figure|fig\.?|table|tab\.)\s*(?P<number>{_NUMBER})"
    rf"|(?P<words>figures|figs\.?|tables|tabs\.)\s*(?P<numbers>{_NUMBER}{_MORE_NUMBERS}))"
    r"(?P<mark>\s*[:.|\u2013\u2014](?=\s|$)|(?=\s|$))",
    re.IGNORECASE,
)
_KINDS: dict[str, CaptionKind] = {"f": "figure", "t": "table"}
# Points between a caption and its figure or table, and between a listing's caption and a table at the listing's top.
_REACH, _LISTING_REACH = 150.0, 450.0
# A caption that stands beside: so near, and so much worse than one below.
_BESIDE_REACH, _BESIDE_COST = 60.0, 80.0
_SENTENCE_START = re.compile(r"\s*(?:\(|[A-Z0-9\u201c\"'])")


@dataclass(frozen=True)
class Caption:
    """An author's caption. `text` is folded and starts with the label as printed ("Figure 2: ...")."""

    bbox: BBox
    text: str
    kind: CaptionKind
    number: str


def find_captions(
    lines: Sequence[Line], layout: Sequence[LayoutBox], vocabulary: frozenset[str] = frozenset()
) -> list[Caption]:
    """The captions among `lines` (all lines of the page), top to bottom.

    A caption starts a paragraph with "Figure N" or "Table N" and, apart from that, either has a colon or stop after the
    number, or a label in a font of its own, or is called a caption by the layout model. "Figure 7 shows ..." has none.
    """
    paragraph_rows = rows(lines)
    captions: list[Caption] = []
    taken: set[int] = set()
    for index, row in enumerate(paragraph_rows):
        if index in taken:
            continue
        start = next((k for k, line in enumerate(row) if _starts_caption(line, row[k:], lines, layout)), None)
        if start is None:
            continue
        members = [row[start:]]
        for later in range(index + 1, len(paragraph_rows)):
            following = _continuation(members, paragraph_rows[later], layout)
            if following is None:
                break
            if following:
                members.append(following)
                taken.add(later)
        captions.append(_make_caption(members, vocabulary))
    return captions


def _make_caption(members: Sequence[Sequence[Line]], vocabulary: frozenset[str]) -> Caption:
    flat = [line for row in members for line in row]
    text = join_lines([text for row in members for text in row_texts(row)], vocabulary)
    label = _LABEL.match(text)
    assert label is not None, "a caption was started by its label"
    kind = _KINDS[(label["word"] or label["words"])[0].lower()]
    return Caption(union(line.bbox for line in flat), text, kind, label["number"] or label["numbers"])


def _starts_caption(line: Line, rest: Sequence[Line], lines: Sequence[Line], layout: Sequence[LayoutBox]) -> bool:
    text = " ".join(part.folded for part in rest)
    label = _LABEL.match(text)
    if label is None or line.direction != (1.0, 0.0):
        return False
    box = _box_of(line, layout)
    if not (_starts_box(line, box) or _stands_apart(line, lines)):
        return False
    if label["mark"]:
        return True
    if not _SENTENCE_START.match(text[label.end() :]) and text[label.end() :]:
        return False
    own_label = line.bold or line.label_font != line.font or (len(rest) > 1 and rest[1].font != line.font)
    return own_label or (box is not None and box.kind == "caption")


def _box_of(line: Line, layout: Sequence[LayoutBox]) -> LayoutBox | None:
    holding = [box for box in layout if box.kind != "picture" and contains_centre(box.bbox, line.bbox)]
    return min(holding, key=lambda box: (box.bbox[2] - box.bbox[0]) * (box.bbox[3] - box.bbox[1]), default=None)


def _starts_box(line: Line, box: LayoutBox | None) -> bool:
    return box is not None and line.bbox[1] - box.bbox[1] < 0.5 * line.size and line.bbox[0] - box.bbox[0] < line.size


def _stands_apart(line: Line, lines: Sequence[Line]) -> bool:
    """Whether no line of the same font stands close above: a caption's first line has a gap above it."""
    return not any(
        other is not line
        and other.font == line.font
        and 0 < line.bbox[1] - other.bbox[1] < 1.7 * line.size
        and gaps(other.bbox, line.bbox)[0] < 0
        for other in lines
    )


def _continuation(
    members: Sequence[Sequence[Line]], row: Sequence[Line], layout: Sequence[LayoutBox]
) -> list[Line] | None:
    """The part of `row` that goes on with the caption; [] to pass over a row beside it; None where the caption ends."""
    first, last = members[0][0], members[-1]
    bottom = max(line.bbox[3] for line in last)
    left, right = min(line.bbox[0] for r in members for line in r), max(line.bbox[2] for r in members for line in r)
    beside = [line for line in row if line.bbox[0] < right + first.size and line.bbox[2] > left - first.size]
    if not beside:
        return [] if row[0].bbox[1] < bottom + first.size else None
    if min(line.bbox[1] for line in beside) - bottom > 0.45 * first.size:
        return None
    # The layout model parts long captions into paragraphs, so only a heading or list is believed to end one.
    box = _box_of(beside[0], layout)
    if box is not None and box.kind in ("section-header", "list-item") and _starts_box(beside[0], box):
        return None
    if abs(beside[0].size - first.size) > 0.2 * first.size:
        return None
    return beside


def assign_captions(
    boxes: Sequence[BBox],
    kinds: Sequence[CaptionKind],
    captions: Sequence[Caption],
    prose: Sequence[BBox],
    listings: Sequence[BBox] = (),
) -> list[Caption | None]:
    """For each box (of a figure or table) its caption or None.

    Nearest pairs go first, and a caption is given once. It must overlap its box's width, with no other box and no text
    (`prose`, `listings`: boxes of lines of running text and of code or console output) between, or stand close beside. A
    box left without one shares that of its neighbour in the same row, if it reaches below both, or one that names several
    figures. A "Figure" caption that no figure takes belongs to printed output: every table in the listing above it gets
    it, with `listings` no obstacle.
    """
    chosen: list[Caption | None] = [None] * len(boxes)
    used: set[int] = set()
    pairs = sorted(
        (cost, b, c)
        for b, box in enumerate(boxes)
        for c, caption in enumerate(captions)
        if kinds[b] == caption.kind
        and (cost := _distance(box, caption, kinds[b])) < _REACH
        and not _is_parted(box, caption, [*(o for o in boxes if o is not box), *prose, *listings], captions)
    )
    for _, b, c in pairs:
        if chosen[b] is None and c not in used:
            chosen[b] = captions[c]
            used.add(c)
    _share(chosen, boxes, kinds, captions, [(b, captions[c]) for _, b, c in pairs])
    figures = [box for box, kind in zip(boxes, kinds, strict=True) if kind == "figure"]
    spare = [caption for caption in captions if caption.kind == "figure" and caption not in chosen]
    for b, box in enumerate(boxes):
        if kinds[b] == "table" and chosen[b] is None:
            fitting = [
                caption
                for caption in spare
                if _distance(box, caption, "figure") < _LISTING_REACH
                and not _is_parted(box, caption, [*figures, *prose], captions)
            ]
            chosen[b] = min(fitting, key=lambda caption: _distance(box, caption, "figure"), default=None)
    return chosen


def _share(
    chosen: list[Caption | None],
    boxes: Sequence[BBox],
    kinds: Sequence[CaptionKind],
    captions: Sequence[Caption],
    pairs: Sequence[tuple[int, Caption]],
) -> None:
    """Give the captions in `chosen` to boxes without one: to a neighbour in the row, and where several are named."""
    for b, caption in pairs:
        row = [o for o in range(len(boxes)) if chosen[o] is caption and gaps(boxes[b], boxes[o])[1] < 0]
        if chosen[b] is None and row and gaps(boxes[b], caption.bbox)[0] < 0:
            chosen[b] = caption
    for caption in captions:
        named = len(_LIST_MARK.split(caption.number))
        while named > 1 and chosen.count(caption) < named:
            without = [
                (_distance(box, caption, caption.kind), b)
                for b, box in enumerate(boxes)
                if chosen[b] is None and kinds[b] == caption.kind and gaps(box, caption.bbox)[0] < 0
            ]
            if not without:
                break
            chosen[min(without)[1]] = caption


def _distance(box: BBox, caption: Caption, kind: CaptionKind) -> float:
    """Points between the two, more on the unusual side; infinite where they don't share any width."""
    across, down = gaps(box, caption.bbox)
    if across > 0:
        is_beside = box[1] <= caption.bbox[1] and caption.bbox[3] <= box[3] and across < _BESIDE_REACH
        return across + _BESIDE_COST if is_beside else math.inf
    # Figures are captioned below and tables above far more often than not; worth a line or two of distance.
    is_below = caption.bbox[1] > box[1]
    return max(0.0, down) + (0.0 if is_below == (kind == "figure") else 20.0)


def _is_parted(box: BBox, caption: Caption, obstacles: Sequence[BBox], captions: Sequence[Caption]) -> bool:
    strip = _between(box, caption.bbox)
    others = [other.bbox for other in captions if other is not caption]
    return any(_meets(obstacle, strip) for obstacle in (*obstacles, *others))


def _between(a: BBox, b: BBox) -> BBox:
    upper, lower = (a, b) if a[1] <= b[1] else (b, a)
    return max(a[0], b[0]), upper[3], min(a[2], b[2]), lower[1]


def _meets(box: BBox, strip: BBox) -> bool:
    middle = (box[1] + box[3]) / 2
    return strip[1] < middle < strip[3] and gaps(box, strip)[0] < 0
