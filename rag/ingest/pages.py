"""One page into rows of the tables and image files, whatever it comes from. This runs in worker processes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rag.errors import DocumentError, FuseboxError
from rag.ingest.chunk import fold_whitespace, windows
from rag.ingest.languages import USUAL
from rag.ingest.limits import MAX_PIXELS, VARIABLES
from rag.ingest.report import Status
from rag.types import BBox, Chunk, Crop, Page, Region, Word

if TYPE_CHECKING:
    import pymupdf
    from PIL.Image import Image

    from rag.ingest.pdf import CropContent, PageContent
    from rag.ingest.publaynet import Annotation

PAGE_DPI, PAGE_QUALITY = 110, 75
CROP_DPI, CROP_QUALITY = 200, 80
OCR_DPI = 300
_WEBP_MAX_SIDE = 16_383
# What MuPDF, the layout model, Tesseract and Pillow raise on a page they can't make sense of; one page must not cost the
# document.
_PAGE_FAULTS = (RuntimeError, ValueError, OSError, MemoryError, ArithmeticError, LookupError, SyntaxError)


@dataclass(frozen=True, slots=True)
class PageTask:
    """A page to be read, ``number`` counting from 1 in the file. ``source`` is the file's path, or the bytes of an image
    that came in a stream; ``images`` is the folder that page image and crops go to."""

    kind: Literal["pdf", "image"]
    source: str | bytes
    file: str
    document: str
    number: int
    page_id: str
    images: str
    languages: str = USUAL
    max_pixels: int = MAX_PIXELS
    annotations: tuple[Annotation, ...] | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """What one page adds to the tables; ``note``, and the ``languages`` in which OCR read it, are for the report. ``content`` is
    there where a table at the page's top or foot may go on from the page before, or on the next."""

    page: Page
    regions: tuple[Region, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    crops: tuple[Crop, ...] = ()
    words: tuple[Word, ...] = ()
    note: str = ""
    languages: str = ""
    content: PageContent | None = None

    @property
    def status(self) -> Status:
        """How the page was read."""
        return "empty" if not self.chunks else "ocr" if "ocr" in self.page.source else "ok"


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table at the foot of a page, which the next page may go on with: its names and the left and right ends of its
    columns."""

    document: str
    number: int
    crop_id: str
    caption: str
    header: tuple[str, ...]
    columns: tuple[tuple[float, float], ...]

    @classmethod
    def from_json(cls, value: dict[str, object]) -> OpenTable:
        """From ``dataclasses.asdict`` by way of JSON."""
        made = cls(**value)  # type: ignore[arg-type]
        return replace(made, header=tuple(made.header), columns=tuple((low, high) for low, high in made.columns))


Shown = Callable[[BBox | None, int], "Image"]
"""The page, or the part of it in a box, as an image of so many dots per inch."""


def page_id(document: str, number: int) -> str:
    """The id of a page of a document that may have several."""
    return f"{document}_p{number:03d}"


def read_task(task: PageTask) -> Rows | str:
    """What the page adds, or why it doesn't; every fault becomes a sentence, as not every error can be sent home."""
    from rag.ingest.pdf import MUPDF_ERRORS

    try:
        content, shown = _READERS[task.kind](task)
        _save_images(task, content, shown)
        return rows_of(task, content)
    except DocumentError as error:
        return str(error)
    except (*_PAGE_FAULTS, *MUPDF_ERRORS) as error:
        fault = f"{type(error).__name__}: {error}"
        return f"page {task.number} of {task.document} is damaged and was left out ({fault})."


def text_rows(document: str, text: str) -> Rows:
    """A document of text as its one page."""
    folded = fold_whitespace(text)
    chunks = tuple(_chunks(document, folded, {}))
    return Rows(Page(document, document, 1, 0.0, 0.0, ""), chunks=chunks, note="" if chunks else "The text is empty.")


# --- PDF -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _opened(path: str) -> tuple[pymupdf.Document, frozenset[str]]:
    from rag.ingest.pdf import document_vocabulary, open_pdf

    pdf = open_pdf(path)
    return pdf, document_vocabulary(pdf)


def _read_pdf(task: PageTask) -> tuple[PageContent, Shown]:
    from rag.ingest.pdf import load_page, read_page, render

    assert isinstance(task.source, str)
    pdf, vocabulary = _opened(task.source)
    page = load_page(pdf, task.number - 1, task.document)
    _check_images(page, task)
    content = read_page(page, task.document, vocabulary)
    if content.is_blank and pdf.is_repaired:
        content = replace(content, is_blank=False, note="Nothing is left on this page; the file is damaged.")
    if content.wants_ocr:
        content = _from_pixels(page, content, task.languages)
    return content, lambda bbox, dpi: render(page, bbox, dpi)


def _check_images(page: pymupdf.Page, task: PageTask) -> None:
    """Refuse a page with an image whose pixels would not fit the memory; its size is stated, nothing is unpacked."""
    for image in page.get_image_info():
        if image["width"] * image["height"] > task.max_pixels:
            raise DocumentError(
                f"page {task.number} of {task.document} holds an image of {image['width']:,} x {image['height']:,} pixels and "
                f"was left out; at most {task.max_pixels / 1e6:,.3g} million are read ({VARIABLES['pixels']})."
            )


def _from_pixels(page: pymupdf.Page, content: PageContent, languages: str) -> PageContent:
    """The page as OCR reads it, where that gives more than the text layer; else ``content`` with the reason noted."""
    from rag.ingest.pdf import render, turned_back

    image = render(page, dpi=OCR_DPI, upright=True)
    dpi = 72 * image.width / page.rect.width
    try:
        read = _ocr(image, content.document, content.number, dpi, languages, None)
    except FuseboxError as error:
        return replace(content, note=f"{content.note} {error}")
    if len(read.text) <= len(content.text) and not read.crops:
        return replace(content, note=f"{content.note} OCR found no text on it.")
    turned = turned_back(read, page)
    return replace(turned, width_pt=content.width_pt, height_pt=content.height_pt)


def _ocr(
    image: Image,
    document: str,
    number: int,
    dpi: float,
    languages: str,
    annotations: tuple[Annotation, ...] | None,
) -> PageContent:
    from rag.ingest.ocr import read_image

    return read_image(image, document=document, number=number, dpi=dpi, languages=languages, annotations=annotations)


# --- images ----------------------------------------------------------------------------------------------------------


def _read_image(task: PageTask) -> tuple[PageContent, Shown]:
    from rag.ingest.page_images import load_page_image
    from rag.ingest.pdf import PageContent

    source = Path(task.source) if isinstance(task.source, str) else task.source
    loaded = load_page_image(source, task.number, name=task.file, max_pixels=task.max_pixels)
    image, dpi = loaded.image, loaded.dpi
    try:
        content = _ocr(image, task.document, task.number, dpi, task.languages, task.annotations)
    except DocumentError:
        raise
    except FuseboxError as error:
        width, height = (side * 72 / dpi for side in image.size)
        content = PageContent(task.document, task.number, width, height, (), "", (), note=str(error))
    if not content.text and not content.note:
        content = replace(content, note="OCR found no text on this page.")
    return content, lambda bbox, wanted: _part(image, dpi, bbox, wanted)


def _part(image: Image, dpi: float, bbox: BBox | None, wanted: int) -> Image:
    """The part in ``bbox`` (points), at no more than ``wanted`` dots per inch."""
    if bbox is not None:
        x0, y0, x1, y1 = (round(side * dpi / 72) for side in bbox)
        left, top = (max(0, min(low, size - 1)) for low, size in zip((x0, y0), image.size, strict=True))
        image = image.crop((left, top, max(left + 1, min(x1, image.width)), max(top + 1, min(y1, image.height))))
    if dpi <= wanted:
        return image
    width, height = (max(1, round(side * wanted / dpi)) for side in image.size)
    return image.resize((width, height))


_READERS: dict[str, Callable[[PageTask], tuple[PageContent, Shown]]] = {"pdf": _read_pdf, "image": _read_image}


# --- rows ------------------------------------------------------------------------------------------------------------


def _save_images(task: PageTask, content: PageContent, shown: Shown) -> None:
    images = Path(task.images)
    _save(shown(None, PAGE_DPI), images / _page_image(task.page_id), PAGE_QUALITY)
    for crop_id, crop in zip(crop_ids(task.page_id, content.crops), content.crops, strict=True):
        # Boxes are those of the unrotated page; who looks at a crop, person or model, gets it the way it is read.
        upright = shown(crop.bbox, CROP_DPI).rotate(-content.turn, expand=True)
        _save(upright, images / _crop_image(crop_id), CROP_QUALITY)


def _page_image(page: str) -> str:
    return f"pages/{page}.webp"


def _crop_image(crop_id: str) -> str:
    return f"crops/{crop_id}.webp"


def crop_ids(page: str, crops: Sequence[CropContent]) -> list[str]:
    """The ids of a page's crops: figures and tables each count from 0."""
    counts = {kind: count() for kind in ("figure", "table")}
    return [f"{page}_{crop.kind}{next(counts[crop.kind])}" for crop in crops]


def rows_of(task: PageTask, content: PageContent) -> Rows:
    """What a page adds to the tables; its images are another matter."""
    from rag.ingest.words import align

    page = task.page_id
    regions = tuple(
        Region(f"{page}_r{i:02d}", page, region.kind, region.bbox, region.text, region.order)
        for i, region in enumerate(content.regions)
    )
    crops = tuple(
        Crop(
            crop_id,
            page,
            crop.kind,
            crop.bbox,
            _crop_image(crop_id),
            crop.caption,
            crop.ocr_text,
            continues=crop.continues,
        )
        for crop_id, crop in zip(crop_ids(page, content.crops), content.crops, strict=True)
    )
    text = fold_whitespace(content.text)
    spans = _spans(text, regions)
    tables = [(region.bbox, spans[region.id]) for region in regions if region.kind == "table" and region.id in spans]
    return Rows(
        Page(
            page,
            content.document,
            content.number,
            content.width_pt,
            content.height_pt,
            _page_image(page),
            source=content.source.replace("text layer", ""),  # what most pages have goes without saying
            note="" if content.is_blank else content.note,
        ),
        regions,
        tuple(_chunks(page, text, spans)),
        crops,
        align(text, content.words, tables),
        content.note,
        task.languages if "ocr" in content.source else "",
        content if any(crop.at_top or crop.at_bottom for crop in content.crops) else None,
    )


def _chunks(page: str, text: str, spans: Mapping[str, tuple[int, int]]) -> Iterator[Chunk]:
    for i, (start, window) in enumerate(windows(text)):
        end = start + len(window)
        touched = tuple(region for region, (low, high) in spans.items() if low < end and high > start)
        yield Chunk(f"{page}_c{i:02d}", page, window, start, touched)


def _spans(text: str, regions: Sequence[Region]) -> dict[str, tuple[int, int]]:
    """Region id -> (start, end) in the page's folded text, for the regions whose text is part of it, in reading
    order."""
    spans: dict[str, tuple[int, int]] = {}
    position = 0
    for region in regions:
        part = fold_whitespace(region.text)
        if part and text.startswith(part, position):
            spans[region.id] = (position, position + len(part))
            position += len(part) + 1
    return spans


def _save(image: Image, file: Path, quality: int) -> None:
    if max(image.size) > _WEBP_MAX_SIDE:
        image.thumbnail((_WEBP_MAX_SIDE, _WEBP_MAX_SIDE))
    if image.mode == "RGB" and image.getextrema() == ((255, 255),) * 3:
        file.write_bytes(_white(image.size))
    else:
        image.save(file, "WEBP", quality=quality, method=4)


@lru_cache(maxsize=8)
def _white(size: tuple[int, int]) -> bytes:
    """An empty page is packed once: that takes longer than all else that is done for it."""
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", size, "white").save(content, "WEBP", quality=PAGE_QUALITY, method=4)
    return content.getvalue()
