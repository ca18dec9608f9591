"""Captions: what is one, where it ends, and whose it is."""

from __future__ import annotations

import pymupdf
import pytest

from rag.ingest.captions import Caption, assign_captions, find_captions
from rag.ingest.layout import LayoutBox, page_layout, page_lines
from rag.types import BBox
from tests.ingest.pages import blank, corpus_page, reopened, write_text


def captions_of(page: pymupdf.Page, layout: list[LayoutBox] | None = None) -> list[Caption]:
    return find_captions(page_lines(reopened(page)), layout or [])


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("Figure 3: Survival of two arms.", "figure", "3"),
        ("Fig. 2.1. Survival of two arms.", "figure", "2.1"),
        ("Table A-2: Patients by arm", "table", "A-2"),
        ("Figures 5 and 6: Survival of two arms.", "figure", "5 and 6"),
        ("TABLE IV. Patients by arm", "table", "IV"),
    ],
)
def test_a_label_with_a_mark_starts_a_caption(text: str, kind: str, number: str) -> None:
    page = blank()
    write_text(page, (80, 300, 500, 330), text)
    (caption,) = captions_of(page)
    assert (caption.text, caption.kind, caption.number) == (text, kind, number)


@pytest.mark.parametrize(
    "text", ["Figure 7 shows the curves.", "Table 2 and Figure 3 agree.", "Figures are below.", "Tables 1: x"]
)
def test_a_mention_at_the_start_of_a_paragraph_is_no_caption(text: str) -> None:
    page = blank()
    write_text(page, (80, 300, 500, 330), text)
    assert captions_of(page) == []


def test_a_mention_at_the_start_of_a_line_is_no_caption() -> None:
    page = blank()
    for k, text in enumerate(["There is more on this matter in the plot that is", "Figure 1. It has two curves."]):
        page.insert_text((80, 300 + 12 * k), text, fontname="tiro", fontsize=10)
    assert captions_of(page) == []


def test_a_bold_label_needs_no_colon() -> None:
    page = blank()
    page.insert_text((80, 300), "Figure 17.2", fontname="tibo", fontsize=9)
    page.insert_text((140, 300), "Forest plot of effects", fontname="tiro", fontsize=9)
    page.insert_text((140, 311), "for the nicotine gum studies.", fontname="tiro", fontsize=9)
    (caption,) = captions_of(page)
    assert caption.text == "Figure 17.2 Forest plot of effects for the nicotine gum studies."
    assert caption.number == "17.2"


def test_the_layouts_word_counts_for_a_label_without_a_mark() -> None:
    page = blank()
    write_text(page, (80, 300, 500, 330), "Figure 4 Curves of both arms")
    assert captions_of(page) == []
    (caption,) = captions_of(page, [LayoutBox((80, 300, 500, 316), "caption")])
    assert caption.text == "Figure 4 Curves of both arms"


def test_a_caption_goes_on_to_the_gap_below_it() -> None:
    page = blank()
    lines = ["Figure 1: Survival in the two arms of the", "trial, with confi-", "dence bands."]
    for k, line in enumerate(lines):
        page.insert_text((80, 300 + 12 * k), line, fontname="tiro", fontsize=10)
    page.insert_text((80, 350), "The next paragraph is no part of it.", fontname="tiro", fontsize=10)
    (caption,) = captions_of(page)
    assert caption.text == "Figure 1: Survival in the two arms of the trial, with confidence bands."
    assert caption.bbox[3] < 335


def test_captions_go_to_the_nearest_figure_below_or_above() -> None:
    upper, lower = (100.0, 100.0, 400.0, 250.0), (100.0, 330.0, 400.0, 500.0)
    first = Caption((100, 260, 400, 272), "Figure 1: a", "figure", "1")
    second = Caption((100, 512, 400, 524), "Figure 2: b", "figure", "2")
    assert assign_captions([upper, lower], ["figure", "figure"], [second, first], []) == [first, second]
    above = [
        Caption((100, 80, 400, 92), "Figure 1: a", "figure", "1"),
        Caption((100, 312, 400, 324), "Figure 2: b", "figure", "2"),
    ]
    assert assign_captions([upper, lower], ["figure", "figure"], above, []) == above


def test_text_between_keeps_a_caption_from_a_figure() -> None:
    figure = (100.0, 100.0, 400.0, 250.0)
    caption = Caption((100, 300, 400, 312), "Figure 1: a", "figure", "1")
    assert assign_captions([figure], ["figure"], [caption], [(100, 262, 400, 290)]) == [None]
    assert assign_captions([figure], ["figure"], [caption], [(420, 262, 500, 290)]) == [caption]


def test_a_caption_of_two_numbers_goes_to_two_figures_and_no_table() -> None:
    boxes: list[BBox] = [(100, 100, 400, 200), (100, 300, 400, 400), (100, 480, 400, 560)]
    caption = Caption((100, 420, 400, 432), "Figures 5 and 6: a", "figure", "5 and 6")
    prose: list[BBox] = [(100, 220, 400, 280)]
    assert assign_captions(boxes, ["figure", "figure", "table"], [caption], prose) == [caption, caption, None]
    one = Caption((100, 420, 400, 432), "Figure 5: a", "figure", "5")
    assert assign_captions(boxes[:2], ["figure", "figure"], [one], prose) == [None, one]


def test_figures_in_a_row_share_the_caption_below_both() -> None:
    boxes: list[BBox] = [(100, 100, 200, 200), (300, 100, 400, 200), (500, 100, 560, 200)]
    caption = Caption((120, 220, 380, 232), "Figure 5: a", "figure", "5")
    assert assign_captions(boxes, ["figure"] * 3, [caption], []) == [caption, caption, None]


def test_a_caption_beside_is_taken_where_there_is_none_below() -> None:
    figure: BBox = (100, 100, 300, 300)
    beside = Caption((320, 180, 420, 204), "Figure 5: a", "figure", "5")
    below = Caption((100, 310, 300, 322), "Figure 6: a", "figure", "6")
    assert assign_captions([figure], ["figure"], [beside], []) == [beside]
    assert assign_captions([figure], ["figure"], [beside, below], []) == [below]


def test_a_table_caption_never_goes_to_a_figure() -> None:
    box = (100.0, 100.0, 400.0, 250.0)
    caption = Caption((100, 85, 400, 97), "Table 1: a", "table", "1")
    assert assign_captions([box], ["figure"], [caption], []) == [None]
    assert assign_captions([box], ["table"], [caption], []) == [caption]


def test_tables_in_a_captioned_listing_share_its_caption() -> None:
    tables = [(100.0, 100.0, 400.0, 120.0), (100.0, 150.0, 400.0, 180.0)]
    caption = Caption((100, 220, 400, 232), "Figure 5 R output", "figure", "5")
    console = [(100.0, 125.0, 300.0, 135.0), (100.0, 190.0, 300.0, 200.0)]
    assert assign_captions(tables, ["table", "table"], [caption], [], console) == [caption, caption]
    assert assign_captions(tables, ["table", "table"], [caption], [(100, 185, 300, 195)], console) == [None, None]
    # A figure that wants the caption keeps it.
    boxes = [*tables, (100.0, 190.0, 400.0, 215.0)]
    assert assign_captions(boxes, ["table", "table", "figure"], [caption], []) == [None, None, caption]


def test_the_whole_of_a_long_caption_in_the_corpus() -> None:
    page = corpus_page("Epi-crisk.pdf", 19)
    (caption,) = find_captions(page_lines(page), page_layout(page))
    assert caption.text.startswith("Figure 3.3: Probabilities of being in the 4 different states")
    assert "95% confidence intervals for the (sum of) probabilities." in caption.text
