"""Reading born-digital PDFs: opening with errors that name the fix, and each page's regions, running text and crops."""

import ctypes
import re
import sys
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pymupdf
from PIL import Image

from rag.errors import DocumentError
from rag.ingest.captions import Caption, CaptionKind, assign_captions, find_captions
from rag.ingest.figures import Figure, find_figures
from rag.ingest.fold import fold, join_lines, words_of
from rag.ingest.layout import (
    LayoutBox,
    Line,
    Mark,
    area,
    contains_centre,
    gaps,
    intersect,
    page_layout,
    page_lines,
    page_marks,
    row_texts,
    row_words,
    rows,
    union,
)
from rag.ingest.tables import TableBox, find_tables
from rag.types import BBox, CropKind

# A poster or plan of several square metres would need gigabytes at print resolution.
MAX_PIXELS = 16_000_000
# MuPDF keeps decoded fonts and images of pages gone by; this bounds what a long document can pile up.
_STORE_KEPT_PERCENT = 50
_FIRST_WORD, _LAST_WORD = re.compile(r"^\S+"), re.compile(r"\S+$")
_PAGE_NUMBER = re.compile(r"\d{1,4}|[ivxl]+")
_LEADERS = re.compile(r"(?:\s*\.){5,}")  # the dots between a contents entry and its page
# MuPDF's own errors are no RuntimeErrors, and they can't be sent between processes.
MUPDF_ERRORS = (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase)
_HEADS = frozenset({"page-header", "page-footer"})
_RUNNING = frozenset({"text", "list-item", "footnote"})
# A row of a definition list or of a table has fewer words in a column.
_LEAST_COLUMN_WORDS = 4
# What may stand above or below a table that goes on from page to page; and a short line that says so.
_EDGES, _SHORT = _HEADS | {"footnote", "caption"}, 80
CONTINUED = re.compile(r"\bcont(?:inue[ds]?\b|inuation|['\u2019]d\b|\.)", re.IGNORECASE)
_NO_READING = _HEADS | {"picture"}
_LEAST_READABLE_SHARE = 0.5
# Letters, and their share of the page's, that must run one way for the page to be read that way; and by how much it is turned.
_LEAST_SIDEWAYS, _SIDEWAYS_SHARE = 60, 0.7
_TURNS = {(1, 0): 0, (0, -1): 90, (-1, 0): 180, (0, 1): 270}
# A page that is one picture and has fewer characters is a scan with a stamp on it.
_LEAST_SCAN_SHARE, _LEAST_TEXT = 0.8, 200


@dataclass(frozen=True)
class RegionContent:
    """A region of a page; `order` counts from 0 in reading order, `text` is folded line by line."""

    kind: str
    bbox: BBox
    text: str
    order: int


@dataclass(frozen=True)
class CropContent:
    """A figure or table: `caption` is the author's (or empty), `ocr_text` the text read off it (tables: by cells).
    `table` is what a table was read from; `at_top` and `at_bottom`: nothing but running heads stands above or below it.
    `continues` is the id of the crop on the page before whose table goes on in this one."""

    kind: CropKind
    bbox: BBox
    caption: str
    ocr_text: str
    table: TableBox | None = None
    at_top: bool = False
    at_bottom: bool = False
    continues: str = ""


@dataclass(frozen=True)
class PageContent:
    """All that was read from a page. Sizes and boxes are in points of the unrotated page; `text` is the running text,
    regions parted by blank lines; `note` says in one sentence what could not be read, or is empty; `words` are those of
    the running text in reading order, not folded; `source` says how the text was got (see `Page`). `wants_ocr`: there is
    text to see that the text layer doesn't have; `is_blank`: there is nothing to see. `turn`: degrees clockwise by which
    the unrotated page is turned to be read."""

    document: str
    number: int
    width_pt: float
    height_pt: float
    regions: tuple[RegionContent, ...]
    text: str
    crops: tuple[CropContent, ...]
    note: str = ""
    words: tuple[tuple[str, BBox], ...] = ()
    source: str = ""
    wants_ocr: bool = False
    is_blank: bool = False
    turn: int = 0


# --- opening ---------------------------------------------------------------------------------------------------------


def open_pdf(path: Path | str) -> pymupdf.Document:
    """Open a PDF for reading; close it after use.

    Raises `DocumentError` when the file is missing, is no PDF, is damaged beyond repair, wants a password or has no
    pages. A document that only forbids editing (an empty user password) opens.
    """
    path = Path(path)
    if not path.is_file():
        raise DocumentError(f"{path.name}: no such file. Check the path.")
    try:
        with path.open("rb") as file:
            head = file.read(1024)
    except OSError as error:
        raise DocumentError(f"{path.name} can't be read ({error.strerror}). Check its permissions.") from error
    if b"%PDF-" not in head:
        raise DocumentError(f"{path.name} is not a PDF (it has no PDF header). Export or print it to PDF first.")
    try:
        document = pymupdf.open(path, filetype="pdf")
        if document.needs_pass and not document.authenticate(""):
            raise DocumentError(
                f"{path.name} is encrypted and needs a password. Save a copy without one "
                "(for example `qpdf --decrypt --password=... in.pdf out.pdf`) and add that."
            )
        pages = document.page_count
    except MUPDF_ERRORS as error:
        fault = str(error).replace(str(path), path.name)  # where it lies on the disk is nobody's business
        raise DocumentError(
            f"{path.name} is damaged and can't be opened ({fault}). "
            "Try to repair it, for example with `qpdf in.pdf out.pdf`."
        ) from error
    if pages == 0:
        raise DocumentError(
            f"{path.name} has no pages that can be read. It may be damaged; save it anew from its source."
        )
    return document


def document_vocabulary(document: pymupdf.Document) -> frozenset[str]:
    """All words of the document in lower case, which tell words broken at a line end from compounds (`join_lines`).
    A page that can't be read adds none."""
    words: set[str] = set()
    for number in range(document.page_count):
        try:
            text = document[number].get_text()
        except MUPDF_ERRORS:  # `read_page` will name it
            continue
        broken = False
        for line in text.splitlines():
            text = fold(line)
            # The halves of a word broken at a line end are no words.
            whole = _FIRST_WORD.sub("", text) if broken else text
            broken = line.rstrip().endswith(("-", "\u00ad"))
            words |= words_of(_LAST_WORD.sub("", whole) if broken else whole)
    return frozenset(words)


# --- reading ---------------------------------------------------------------------------------------------------------


def load_page(document: pymupdf.Document, number: int, document_id: str) -> pymupdf.Page:
    """The page that counts as `number` from 0. Raises `DocumentError` where the page tree does not lead to one."""
    try:
        return document[number]
    except (*MUPDF_ERRORS, IndexError) as error:
        raise _damaged(number, document_id, error) from error


def _damaged(number: int, document_id: str, error: Exception) -> DocumentError:
    return DocumentError(
        f"page {number + 1} of {document_id} is damaged and was left out ({error}). Save the PDF anew."
    )


def read_page(page: pymupdf.Page, document_id: str, vocabulary: frozenset[str] = frozenset()) -> PageContent:
    """Regions, running text and crops of one page.

    `vocabulary` (see `document_vocabulary`) helps to rejoin words hyphenated at line ends.
    Raises `DocumentError` when the page itself is damaged; other pages may still be readable.
    """
    try:
        turn = _reading_turn(page)
        if not turn and not page.rotation:
            return _read_upright(page, document_id, page.number + 1, vocabulary)
        with pymupdf.open() as single:
            single.insert_pdf(page.parent, from_page=page.number, to_page=page.number)
            single[0].set_rotation(turn)
            frame = _rotation(single[0])
            _turn_upright(single[0])
            content = _read_upright(single[0], document_id, page.number + 1, vocabulary)
        return _turned_back(content, frame, turn)
    except MUPDF_ERRORS as error:
        raise _damaged(page.number, document_id, error) from error
    finally:
        _release_memory()


def _release_memory() -> None:
    """Give back what the page took: MuPDF's cache of fonts and images, and what the C library keeps after the layout
    model's inputs of ever different sizes (without it, a hundred pages hold 100 MB that nobody uses)."""
    pymupdf.TOOLS.store_shrink(100 - _STORE_KEPT_PERCENT)
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if trim is not None:
            trim(0)


def _reading_turn(page: pymupdf.Page) -> int:
    """Degrees clockwise that make the unrotated page's text run to the right: /Rotate, but where most of the text runs
    another way (a wide table on an upright page, a scan turned wrongly), what that asks for."""
    letters: Counter[tuple[int, int]] = Counter()
    for block in page.get_text("dict", flags=pymupdf.TEXTFLAGS_TEXT)["blocks"]:
        for line in block.get("lines", ()):
            if line["wmode"] == 0:  # else Chinese or Japanese columns, which stand upright
                x, y = line["dir"]
                letters[round(x), round(y)] += sum(len(span["text"]) for span in line["spans"])
    ((direction, most),) = letters.most_common(1) or [((1, 0), 0)]
    if most < _LEAST_SIDEWAYS or most < _SIDEWAYS_SHARE * letters.total():
        return int(page.rotation)
    return _TURNS.get(direction, int(page.rotation))


def _turn_upright(page: pymupdf.Page) -> None:
    """Make the page lie as it is shown: /Rotate, /CropBox and /UserUnit go into its content.

    `Page.remove_rotation` is not used, as it puts the content elsewhere where crop box and media box differ."""
    shown, mupdf = page.rect, pymupdf.mupdf
    to_shown = mupdf.FzMatrix()
    mupdf.pdf_page_transform(mupdf.pdf_page_from_fz_page(page.this), mupdf.FzRect(), to_shown)
    # PDF space has its origin at the bottom, the shown page at the top.
    matrix = pymupdf.Matrix(to_shown) * pymupdf.Matrix(1, 0, 0, -1, 0, shown.height)
    document, xref = page.parent, page.xref
    before = document.get_new_xref()
    document.update_object(before, "<<>>")
    document.update_stream(before, f"q {' '.join(f'{value:.6f}' for value in matrix)} cm\n".encode())
    after = document.get_new_xref()
    document.update_object(after, "<<>>")
    document.update_stream(after, b"\nQ")
    contents = " ".join(f"{number} 0 R" for number in (before, *page.get_contents(), after))
    for key, value in (
        ("Contents", f"[{contents}]"),
        ("MediaBox", f"[0 0 {shown.width:.6f} {shown.height:.6f}]"),
        *((key, "null") for key in ("CropBox", "Rotate", "UserUnit", "TrimBox", "BleedBox", "ArtBox", "Annots")),
    ):
        document.xref_set_key(xref, key, value)


def _rotation(page: pymupdf.Page) -> pymupdf.Matrix:
    """From the unrotated page to the page as it is shown, both with their origin at the top left."""
    width, height = page.rect.width, page.rect.height
    return {
        0: pymupdf.Matrix(1, 1),
        90: pymupdf.Matrix(0, 1, -1, 0, width, 0),
        180: pymupdf.Matrix(-1, 0, 0, -1, width, height),
        270: pymupdf.Matrix(0, -1, 1, 0, 0, height),
    }[page.rotation]


def turned_back(content: PageContent, page: pymupdf.Page) -> PageContent:
    """What was read from the page as it is shown, with the boxes of the page before /Rotate."""
    return _turned_back(content, _rotation(page), page.rotation)


def _turned_back(content: PageContent, frame: pymupdf.Matrix, degrees: int) -> PageContent:
    matrix = ~frame

    def turn(box: BBox) -> BBox:
        return tuple(pymupdf.Rect(box) * matrix)  # a quarter turn of a box is a box

    _, _, width, height = turn((0.0, 0.0, content.width_pt, content.height_pt))
    return replace(
        content,
        width_pt=width,
        height_pt=height,
        regions=tuple(replace(region, bbox=turn(region.bbox)) for region in content.regions),
        crops=tuple(replace(crop, bbox=turn(crop.bbox)) for crop in content.crops),
        words=tuple((word, turn(box)) for word, box in content.words),
        turn=(content.turn + degrees) % 360,
    )


def _read_upright(page: pymupdf.Page, document_id: str, number: int, vocabulary: frozenset[str]) -> PageContent:
    is_readable = _readable_share(page) >= _LEAST_READABLE_SHARE
    lines = page_lines(page) if is_readable else []
    marks = page_marks(page)
    # The layout model takes half a second to find nothing on an empty page.
    layout = page_layout(page) if lines or not _is_bare(marks) else []
    captions = find_captions(lines, layout, vocabulary)
    figures = find_figures(page, layout, lines, marks, captions)
    tables = find_tables(page, layout) if lines else []
    tables = [t for t in tables if not any(_overlap(t.bbox, f.bbox) > 0.5 for f in figures)]
    content = compose(
        PageParts(lines, layout, captions, figures, tables),
        document_id,
        number,
        (page.rect.width, page.rect.height),
        vocabulary,
    )
    unread = _unread(page, lines, marks, content.text, has_figures=bool(figures)) if is_readable else _NO_UNICODE
    return replace(
        content,
        note=unread.note,
        source="text layer" if content.text and not unread.wants_ocr else "",
        wants_ocr=unread.wants_ocr,
        is_blank=unread.is_blank,
    )


@dataclass(frozen=True)
class PageParts:
    """What was found on a page, by whatever means; boxes in points, `layout` in reading order. Without `has_margins` there is
    no running head or page number among the lines."""

    lines: Sequence[Line]
    layout: Sequence[LayoutBox]
    captions: Sequence[Caption]
    figures: Sequence[Figure]
    tables: Sequence[TableBox]
    has_margins: bool = True


def compose(
    parts: PageParts, document_id: str, number: int, size: tuple[float, float], vocabulary: frozenset[str] = frozenset()
) -> PageContent:
    """Regions in reading order, running text, words and crops of a page of this `size` (points) from its parts."""
    headers = _page_numbered_rows(parts.lines) if parts.has_margins else []
    drafts = _drafts(parts, headers)
    regions = _with_lone_heads([_region(draft, order, vocabulary) for order, draft in enumerate(drafts)])
    return PageContent(
        document=document_id,
        number=number,
        width_pt=size[0],
        height_pt=size[1],
        regions=tuple(regions),
        text=running_text(regions),
        crops=tuple(
            _with_edges(_crops(parts.figures, parts.tables, parts.captions, parts.lines), parts.tables, regions)
        ),
        words=tuple(
            word
            for draft, region in zip(drafts, regions, strict=True)
            if _is_read(region)
            for word in row_words(draft.lines)
        ),
    )


def running_text(regions: Sequence[RegionContent]) -> str:
    """What is read of a page, regions parted by blank lines."""
    return "\n\n".join(region.text for region in regions if _is_read(region))


def _is_read(region: RegionContent) -> bool:
    return bool(region.text) and region.kind not in _NO_READING


def _with_lone_heads(regions: Sequence[RegionContent]) -> list[RegionContent]:
    """The regions; where a page has no running text, what the layout model took for running heads is its text.
    A page number stays what it is."""
    if any(map(_is_read, regions)):
        return list(regions)
    return [
        replace(region, kind="text")
        if region.kind in _HEADS and region.text and not _PAGE_NUMBER.fullmatch(region.text)
        else region
        for region in regions
    ]


def _overlap(a: BBox, b: BBox) -> float:
    """Common area as a share of the smaller box."""
    return area(intersect(a, b)) / max(1e-6, min(area(a), area(b)))


def _crops(
    figures: Sequence[Figure], tables: Sequence[TableBox], captions: Sequence[Caption], lines: Sequence[Line]
) -> list[CropContent]:
    boxes = [figure.bbox for figure in figures] + [table.bbox for table in tables]
    kinds: list[CaptionKind] = []
    kinds += ["figure"] * len(figures)
    kinds += ["table"] * len(tables)
    texts = [figure_text(figure.lines) for figure in figures] + [table.text for table in tables]
    held = [*boxes, *(caption.bbox for caption in captions)]
    free = [line for line in lines if not any(contains_centre(box, line.bbox) for box in held)]
    prose, listings = ([line.bbox for line in free if line.mono is mono] for mono in (False, True))
    chosen = assign_captions(boxes, kinds, captions, prose, listings)
    return [
        CropContent(kind, box, caption.text if caption else "", text)
        for kind, box, caption, text in zip(kinds, boxes, chosen, texts, strict=True)
    ]


def _with_edges(
    crops: Sequence[CropContent], tables: Sequence[TableBox], regions: Sequence[RegionContent]
) -> list[CropContent]:
    """The crops, of which the last are the `tables`, with what can tell whether one goes on from page to page."""
    solid = [
        region.bbox
        for region in regions
        if region.kind not in _EDGES and not (len(region.text) < _SHORT and CONTINUED.search(region.text))
    ]
    figures = len(crops) - len(tables)
    return list(crops[:figures]) + [
        replace(
            crop,
            table=table,
            at_top=all(box[1] > table.bbox[1] - 1 for box in solid),
            at_bottom=all(box[3] < table.bbox[3] + 1 for box in solid),
        )
        for crop, table in zip(crops[figures:], tables, strict=True)
    ]


def figure_text(lines: Sequence[Line]) -> str:
    """The text in a figure, folded, row by row from the top; upright text first, then what runs up or down the side."""
    return "\n".join(filter(None, map(fold, row_texts(lines))))


class _Unread(NamedTuple):
    """What the text layer leaves unread; see `PageContent`."""

    note: str = ""
    wants_ocr: bool = False
    is_blank: bool = False


_NO_UNICODE = _Unread("The fonts of this page carry no Unicode map, so its text layer can't be read.", wants_ocr=True)


def _unread(page: pymupdf.Page, lines: Sequence[Line], marks: Sequence[Mark], text: str, has_figures: bool) -> _Unread:
    if not lines and _is_bare(marks):
        return _Unread("This page has no text layer: it is blank.", is_blank=True)
    if not lines:
        return _Unread("This page has no text layer (it is a picture, a scan perhaps).", wants_ocr=True)
    whole = _LEAST_SCAN_SHARE * area(tuple(page.rect))
    if len(text) < _LEAST_TEXT and any(mark.kind == "image" and area(mark.bbox) > whole for mark in marks):
        return _Unread("This page is a picture with hardly any text layer.", wants_ocr=True)
    if not text:  # perhaps it is drawn, and only a page number is set
        return _Unread("No running text was found on this page.", wants_ocr=not has_figures)
    return _Unread()


def _is_bare(marks: Sequence[Mark]) -> bool:
    """Whether there is nothing but crop marks."""
    return all(mark.kind == "rule" for mark in marks)


def _readable_share(page: pymupdf.Page) -> float:
    """The share of the page's glyphs that have a Unicode value."""
    text = page.get_text(flags=pymupdf.TEXTFLAGS_TEXT & ~pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE)
    glyphs = [char for char in text if not char.isspace()]
    return 1.0 - glyphs.count("\ufffd") / len(glyphs) if glyphs else 1.0


# --- regions ---------------------------------------------------------------------------------------------------------


@dataclass
class _Draft:
    """A region in the making: its lines are collected before its text is put together (`text` is set where it was read
    otherwise)."""

    kind: str
    bbox: BBox
    lines: list[Line]
    text: str | None = None


def _drafts(parts: PageParts, headers: Sequence[Line]) -> list[_Draft]:
    """The page's regions in reading order, `headers` (lines of a running head) first."""
    fixed = [_Draft("picture", figure.bbox, [], figure_text(figure.lines)) for figure in parts.figures]
    fixed += [_Draft("table", table.bbox, [], table.text) for table in parts.tables]
    fixed += [_Draft("caption", caption.bbox, [], caption.text) for caption in parts.captions]
    in_figures = {line for figure in parts.figures for line in figure.lines}
    boxes = [_Draft(box.kind, box.bbox, []) for box in parts.layout if box.kind != "picture"]
    loose: list[Line] = []
    for line in parts.lines:
        if line in headers or line in in_figures:
            continue
        held = next((draft for draft in fixed if contains_centre(draft.bbox, line.bbox)), None)
        holding = [draft for draft in boxes if contains_centre(draft.bbox, line.bbox)]
        if held is not None:
            held.lines.append(line)
        elif holding:
            min(holding, key=lambda draft: area(draft.bbox)).lines.append(line)
        else:
            loose.append(line)
    ordered = [
        column for draft in boxes if draft.lines for part in _parted(draft, fixed) for column in _by_column(part)
    ]
    extra = [*fixed, *_loose_drafts(loose)]
    for draft in sorted(extra, key=lambda draft: draft.bbox[1]):
        ordered.insert(_place(draft.bbox, ordered), draft)
    if headers:
        ordered.insert(0, _Draft("page-header", union(line.bbox for line in headers), list(headers)))
    return ordered


def _region(draft: _Draft, order: int, vocabulary: frozenset[str]) -> RegionContent:
    return RegionContent(
        kind="text" if draft.kind == "table" and draft.text is None else draft.kind,
        bbox=draft.bbox,
        text=_draft_text(draft, vocabulary) if draft.text is None else draft.text,
        order=order,
    )


def _page_numbered_rows(lines: Sequence[Line]) -> list[Line]:
    """The top row of the page if it is a running head: a page number at one end, a short title far from it."""
    top = rows([line for line in lines if line.direction == (1.0, 0.0)])[:1]
    for row in top:
        texts = [line.folded for line in row]
        gap = max((b.bbox[0] - a.bbox[2] for a, b in pairwise(row)), default=0.0)
        numbered = _PAGE_NUMBER.fullmatch(texts[0]) or _PAGE_NUMBER.fullmatch(texts[-1])
        if numbered and (len(row) == 1 or (gap > 3 * row[0].size and sum(map(len, texts)) < 100)):
            return row
    return []


def _parted(draft: _Draft, fixed: Sequence[_Draft]) -> list[_Draft]:
    """A layout box cut where a table, figure or caption found inside it interrupts its lines."""
    cuts = sorted((d.bbox[1] + d.bbox[3]) / 2 for d in fixed if contains_centre(draft.bbox, d.bbox))
    if not cuts:
        return [draft]
    parts: dict[int, list[Line]] = {}
    for line in draft.lines:
        parts.setdefault(bisect(cuts, (line.bbox[1] + line.bbox[3]) / 2), []).append(line)
    return [_Draft(draft.kind, union(line.bbox for line in parts[key]), parts[key]) for key in sorted(parts)]


def _by_column(draft: _Draft) -> list[_Draft]:
    """A layout box cut along the gutter where it runs across two columns of running text, as it may when they are short."""
    paired = [row for row in rows(draft.lines) if len(row) == 2 and row[0].direction == row[1].direction == (1.0, 0.0)]
    if draft.kind not in _RUNNING or len(paired) < 2 or any(line.mono for line in draft.lines):
        return [draft]
    left, right = max(row[0].bbox[2] for row in paired), min(row[1].bbox[0] for row in paired)
    words = [len(line.words) for row in paired for line in row]
    sides = (
        [line for line in draft.lines if line.bbox[2] <= left],
        [line for line in draft.lines if line.bbox[0] >= right],
    )
    if left >= right or sum(map(len, sides)) < len(draft.lines) or median(words) < _LEAST_COLUMN_WORDS:
        return [draft]
    return [_Draft(draft.kind, union(line.bbox for line in side), side) for side in sides]


def _loose_drafts(lines: Sequence[Line]) -> list[_Draft]:
    """Lines outside every layout box, those close below each other together."""
    drafts: list[_Draft] = []
    for row in rows(lines):
        box = union(line.bbox for line in row)
        if drafts and gaps(drafts[-1].bbox, box)[0] < 0 and gaps(drafts[-1].bbox, box)[1] < 0.5 * row[0].size:
            drafts[-1].lines.extend(row)
            drafts[-1].bbox = union((drafts[-1].bbox, box))
        else:
            drafts.append(_Draft("text", box, list(row)))
    return drafts


def _place(box: BBox, ordered: Sequence[_Draft]) -> int:
    """Where a region goes among those in reading order: before the first that lies below it in its column."""
    for index, draft in enumerate(ordered):
        if draft.kind == "page-header":
            continue
        if draft.bbox[1] >= box[1] and (gaps(draft.bbox, box)[0] < 0 or draft.kind == "page-footer"):
            return index
    return len(ordered)


def _draft_text(draft: _Draft, vocabulary: frozenset[str]) -> str:
    texts = [_LEADERS.sub(" ", text) for text in row_texts(draft.lines)]
    mono = sum(len(line.text) for line in draft.lines if line.mono)
    if draft.kind == "table" or mono > 0.6 * sum(len(line.text) for line in draft.lines):
        return "\n".join(filter(None, map(fold, texts)))  # code and console output live by their lines
    return join_lines(texts, vocabulary)


# --- pixels ----------------------------------------------------------------------------------------------------------


def render(page: pymupdf.Page, bbox: BBox | None = None, dpi: int = 150, upright: bool = False) -> Image.Image:
    """The page, or the part of it in `bbox` (points of the unrotated page), as an RGB image at `dpi`.

    Without `upright` the image is in the frame of the boxes, /Rotate undone, so that boxes can be drawn on it; with it,
    the image is turned as a viewer shows the page. At most `MAX_PIXELS` pixels: larger areas get a lower resolution.
    """
    area_shown = pymupdf.Rect(bbox) * _rotation(page) if bbox else page.rect
    area_shown &= page.rect
    zoom = dpi / 72
    size = area_shown.width * area_shown.height * zoom * zoom
    if size > MAX_PIXELS:
        zoom *= (MAX_PIXELS / size) ** 0.5
    pixmap = page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom), clip=area_shown, colorspace=pymupdf.csRGB, alpha=False)
    image = Image.frombytes("RGB", (pixmap.width, pixmap.height), pixmap.samples)
    # /Rotate turns clockwise, PIL counter-clockwise.
    return image if upright or not page.rotation else image.rotate(page.rotation, expand=True)
