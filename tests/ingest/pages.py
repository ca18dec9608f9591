"""Small PDFs with known boxes, and the corpus pages that were marked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from rag.types import BBox

DOCUMENTS = Path(__file__).resolve().parents[2] / "assets" / "documents"
HARD = Path(__file__).resolve().parents[3] / "shared" / "data" / "hard-inputs"
MARKS = Path(__file__).resolve().parents[1] / "data" / "marks.json"
BODY = (
    "The survival curves differ between the two arms of the trial, and the difference grows with the time since "
    "randomisation. A proportional hazards model would miss this. We therefore look at restricted means as well, which "
    "need no such assumption and are easy to explain to the people who have to act on them. "
)


def corpus_page(document: str, number: int) -> pymupdf.Page:
    """A page of the demo corpus, counted from 1."""
    return pymupdf.open(DOCUMENTS / document)[number - 1]


def hard_input(name: str) -> Path:
    """One of the difficult PDFs; skips, and says why, where they are not beside the checkout."""
    if not (HARD / name).is_file():
        pytest.skip(f"needs {name} in ../shared/data/hard-inputs")
    return HARD / name


def marks() -> list[dict[str, Any]]:
    """The hand-made marks (see tests/data/MARKS.md)."""
    return list(json.loads(MARKS.read_text(encoding="utf-8")))


def iou(a: BBox, b: BBox) -> float:
    """Intersection over union of two boxes."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def blank(width: float = 600, height: float = 800) -> pymupdf.Page:
    """An empty page in a document of its own."""
    return pymupdf.open().new_page(width=width, height=height)


def reopened(page: pymupdf.Page) -> pymupdf.Page:
    """The page as a reader of the written file sees it."""
    return pymupdf.open("pdf", page.parent.tobytes())[0]


def write_text(page: pymupdf.Page, box: BBox, text: str = BODY, size: float = 10) -> None:
    """A paragraph of running text in Times."""
    left = page.insert_textbox(pymupdf.Rect(box), text, fontname="tiro", fontsize=size)
    assert left >= 0, "the text does not fit its box"


def draw_plot(page: pymupdf.Page, box: BBox, title: str = "Overall survival") -> BBox:
    """A plot with frame, ticks, a curve that runs out of the frame and is clipped by nothing, labels in Helvetica.

    Returns the box round everything drawn, within a point or two (glyphs are narrower than their advance).
    """
    x0, y0, x1, y1 = box
    page.draw_rect((x0, y0, x1, y1))
    for k in range(5):
        x = x0 + (x1 - x0) * k / 4
        page.draw_line((x, y1), (x, y1 + 6))
        page.insert_text((x - 4, y1 + 18), str(k), fontname="helv", fontsize=9)
        y = y0 + (y1 - y0) * k / 4
        page.draw_line((x0 - 6, y), (x0, y))
    points = [(x0 + (x1 - x0) * k / 20, y0 + (y1 - y0) * (k / 20) ** 0.5) for k in range(21)]
    page.draw_polyline(points, color=(0.8, 0.1, 0.1))
    page.insert_text(((x0 + x1) / 2 - 30, y1 + 36), "Years", fontname="helv", fontsize=10)
    page.insert_text(((x0 + x1) / 2 - 40, y0 - 14), title, fontname="helv", fontsize=11)
    page.insert_text((x0 - 14, (y0 + y1) / 2 + 20), "Survival", fontname="helv", fontsize=10, rotate=90)
    return x0 - 22, y0 - 22, x1 + 4, y1 + 36
