"""Figures: boxes on drawn pages with known geometry, and on the corpus pages marked by hand."""

from __future__ import annotations

import pymupdf
import pytest
from PIL import Image

from rag.ingest.captions import find_captions
from rag.ingest.figures import Figure, find_figures
from rag.ingest.layout import LayoutBox, page_layout, page_lines, page_marks
from rag.types import BBox
from tests.ingest.pages import blank, corpus_page, draw_plot, iou, marks, reopened, write_text


def figures_of(page: pymupdf.Page, layout: list[LayoutBox] | None = None) -> list[Figure]:
    page = reopened(page)
    lines = page_lines(page)
    boxes = layout or []
    return find_figures(page, boxes, lines, page_marks(page), find_captions(lines, boxes))


def close(found: BBox, expected: BBox, within: float = 5.0) -> bool:
    return all(abs(a - b) < within for a, b in zip(found, expected, strict=True))


def test_a_plot_with_its_labels_is_one_figure_without_any_layout() -> None:
    page = blank()
    write_text(page, (60, 60, 540, 140))
    box = draw_plot(page, (150, 220, 450, 420))
    write_text(page, (60, 520, 540, 600))
    (figure,) = figures_of(page)
    assert close(figure.bbox, box)
    assert {"Years", "Survival", "Overall survival"} <= {line.folded for line in figure.lines}
    assert not any("hazards" in line.text for line in figure.lines)


def test_layout_boxes_that_cut_a_plot_do_not_cut_the_figure() -> None:
    page = blank()
    box = draw_plot(page, (150, 220, 450, 420))
    layout = [LayoutBox((160, 260, 420, 425), "picture"), LayoutBox((260, 445, 330, 458), "caption")]
    (figure,) = figures_of(page, layout)
    assert close(figure.bbox, box)


def test_running_text_between_two_plots_parts_them() -> None:
    page = blank()
    upper = draw_plot(page, (150, 100, 450, 250))
    write_text(page, (60, 300, 540, 360))
    lower = draw_plot(page, (150, 410, 450, 560), title="Relapse")
    first, second = figures_of(page)
    assert close(first.bbox, upper)
    assert close(second.bbox, lower)


def test_a_caption_between_two_plots_parts_them() -> None:
    page = blank()
    draw_plot(page, (150, 100, 450, 250))
    page.insert_text((100, 300), "Figure 1: Survival", fontname="tiro", fontsize=10)
    draw_plot(page, (150, 345, 450, 500))
    page.insert_text((100, 550), "Figure 2: Survival again", fontname="tiro", fontsize=10)
    first, second = figures_of(page)
    assert first.bbox[3] < 292 < 303 < second.bbox[1]


def test_panels_under_one_caption_are_one_figure() -> None:
    page = blank()
    left = draw_plot(page, (100, 220, 270, 380))
    right = draw_plot(page, (340, 220, 510, 380))
    page.insert_text((100, 440), "Figure 1: Both arms", fontname="tiro", fontsize=10)
    (figure,) = figures_of(page)
    assert close(figure.bbox, (left[0], left[1], right[2], right[3]))


def test_what_is_clipped_away_is_no_part_of_the_figure() -> None:
    page = blank()
    canvas = blank(200, 200)
    draw_plot(canvas, (40, 40, 180, 150))
    canvas.draw_line((0, 100), (900, 100))
    page.show_pdf_page(pymupdf.Rect(150, 200, 350, 400), canvas.parent, 0)
    (figure,) = figures_of(page)
    assert figure.bbox[2] <= 350.5


def test_a_picture_is_a_figure() -> None:
    page = blank()
    write_text(page, (60, 60, 540, 140))
    pixels = Image.new("RGB", (120, 80), (30, 90, 60))
    page.insert_image((200, 300, 320, 380), pixmap=pymupdf.Pixmap(pymupdf.csRGB, 120, 80, pixels.tobytes(), False))
    (figure,) = figures_of(page)
    assert close(figure.bbox, (200, 300, 320, 380), within=1.0)


def shaded_code(page: pymupdf.Page) -> None:
    page.draw_rect((60, 100, 540, 180), color=None, fill=(0.9, 0.9, 0.9))
    write_text(page, (65, 105, 535, 175))


def ruled_table(page: pymupdf.Page) -> None:
    for y in (100, 115, 190):
        page.draw_line((60, y), (540, y))
    for k in range(5):
        page.insert_text((80, 130 + 12 * k), f"arm {k}      12.{k}      0.{k}", fontname="tiro", fontsize=10)


def crop_marks(page: pymupdf.Page) -> None:
    for x, y in ((50, 50), (550, 50), (50, 750), (550, 750)):
        page.draw_line((x - 40, y), (x - 20, y))
        page.draw_line((x, y - 40), (x, y - 20))
    write_text(page, (60, 100, 540, 180))


def running_head(page: pymupdf.Page) -> None:
    page.insert_text((60, 40), "SURVIVAL ANALYSIS", fontname="tiro", fontsize=9)
    page.draw_line((60, 44), (540, 44))
    write_text(page, (60, 100, 540, 180))


def white_box(page: pymupdf.Page) -> None:
    page.draw_rect((100, 300, 400, 500), color=(1, 1, 1), fill=(1, 1, 1))


@pytest.mark.parametrize("draw", [shaded_code, ruled_table, crop_marks, running_head, white_box])
def test_page_furniture_is_no_figure(draw) -> None:  # type: ignore[no-untyped-def]
    page = blank()
    draw(page)
    layout = [LayoutBox((62, 103, 538, 178), "text")] if draw is shaded_code else []
    assert figures_of(page, layout) == []


MARKED = [
    ("survival-compete.pdf", 2),
    ("TH.data-blood_loss_report.pdf", 15),
    ("party-party.pdf", 12),
    ("Epi-crisk.pdf", 8),
    ("HSAUR3-Ch_meta_analysis.pdf", 8),
]


@pytest.mark.parametrize(("document", "number"), MARKED)
def test_figures_on_marked_pages_of_the_corpus(document: str, number: int) -> None:
    (mark,) = (m for m in marks() if (m["document"], m["page"]) == (document, number))
    page = corpus_page(document, number)
    layout, lines = page_layout(page), page_lines(page)
    found = [f.bbox for f in find_figures(page, layout, lines, page_marks(page), find_captions(lines, layout))]
    expected = [tuple(figure["bbox"]) for figure in mark["figures"]]
    assert len(found) == len(expected)
    assert all(max(iou(box, other) for other in found) > 0.95 for box in expected)
