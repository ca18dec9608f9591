"""Sentences that mention a crop."""

from __future__ import annotations

from rag.mentions import ALL, mentions
from rag.types import Crop


def _crop(number: int, caption: str) -> Crop:
    return Crop(f"a_p001_figure{number}", "a_p001", "figure", (0, 0, 1, 1), "", caption, "")


def test_a_crop_gets_the_sentences_that_name_its_number_in_its_own_document() -> None:
    figure, table = _crop(0, "Figure 2: Survival."), _crop(1, "Table 2: Rates.")
    texts = [
        ("a", "Nothing here. Fig. 2 compares the arms of the trial. It ends."),
        ("a", "Rates are given in Table 2. See Figure 2.1 and Figure 22 for others."),
        ("b", "In b, Figure 2 holds something else."),
    ]
    found = mentions([(figure, "a"), (table, "a")], texts)
    assert found == {
        figure.id: "Fig. 2 compares the arms of the trial.",
        table.id: "Rates are given in Table 2.",
    }


def test_the_caption_itself_and_crops_without_a_number_are_left_out() -> None:
    caption = "Figure 1: The survival of the patients of the trial, by the arm they were randomised to."
    assert mentions([(_crop(0, caption), "a"), (_crop(1, "A tree."), "a")], [("a", f"{caption} Next.")]) == {}


def test_a_crop_that_is_mentioned_everywhere_keeps_the_beginning() -> None:
    text = " ".join(f"Figure 1 holds the value number {i} and is long." for i in range(100))
    assert len(mentions([(_crop(0, "Figure 1: Arms."), "a")], [("a", text)])["a_p001_figure0"]) == ALL
