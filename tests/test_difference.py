"""Two answers compared: what counts as a changed word, where it stands, and the share."""

from __future__ import annotations

import pytest

from rag.difference import MAX_EXACT_WORDS, difference


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("37 patients [T1]", "37 patients [T2, G1]."),
        ("The log-rank test", "the  LOG-RANK\ntest!"),
        ("“37” patients", "37 patients"),
        ("ﬁve", "five"),  # a ligature from a PDF
        ("[T1]", ""),
    ],
)
def test_case_punctuation_space_and_tags_do_not_count(old: str, new: str) -> None:
    found = difference(old, new)
    assert not found.changed and found.share == 0


@pytest.mark.parametrize(
    ("old", "new", "removed", "added", "share"),
    [
        # M words in common of T in all: 1 - 2M/T
        ("37 patients [T1]", "36 patients [T1]", ["37"], ["36"], 1 - 2 / 4),
        ("p < 0.05", "p > 0.05", ["<"], [">"], 1 - 4 / 6),
        ("loss of -5", "loss of 5", ["-5"], ["5"], 1 - 4 / 6),
        ("1,384 subjects", "1,384", ["subjects"], [], 1 - 2 / 3),
        ("5 %", "5", ["%"], [], 1 - 2 / 3),
        ("", "37", [], ["37"], 1),
        ("one two three four", "one five six four", ["two three"], ["five six"], 1 - 4 / 8),
        ("患者は三十", "患者は四十", ["三"], ["四"], 1 - 8 / 10),
        ("the GBSG2 [T1] study", "the GBSG3 [V2] study", ["GBSG2"], ["GBSG3"], 1 - 4 / 6),
    ],
)
def test_changed_words_are_found_where_they_stand(
    old: str, new: str, removed: list[str], added: list[str], share: float
) -> None:
    found = difference(old, new)
    assert [old[slice(*span)] for span in found.removed] == removed
    assert [new[slice(*span)] for span in found.added] == added
    assert found.changed and found.share == pytest.approx(share)


def test_the_other_way_round_swaps_removed_and_added() -> None:
    one, other = "37 women were treated", "all 37 were treated twice"
    there, back = difference(one, other), difference(other, one)
    assert (there.removed, there.added) == (back.added, back.removed)


def test_a_long_answer_of_one_word_is_compared_too() -> None:
    found = difference("word " * (2 * MAX_EXACT_WORDS), "word " * (2 * MAX_EXACT_WORDS) + "end")
    assert found.changed and difference("word " * 3_000, "word " * 3_000).share == 0
