"""Retrieval metrics against arithmetic written out."""

from __future__ import annotations

import pytest

from rag.evaluate.metrics import all_found, precision_at, recall_at, reciprocal_rank, with_bridges


@pytest.mark.parametrize(
    ("ranks", "k", "recall", "everything"),
    [
        ((1,), 1, 1.0, True),
        ((2,), 1, 0.0, False),
        ((3,), 3, 1.0, True),
        ((4,), 3, 0.0, False),
        ((None,), 5, 0.0, False),
        ((1, 4), 3, 1 / 2, False),
        ((1, 4), 4, 2 / 2, True),
        ((None, 2, 5), 3, 1 / 3, False),
    ],
)
def test_recall_is_the_share_of_gold_sources_among_the_first_k(
    ranks: tuple[int | None, ...], k: int, recall: float, everything: bool
) -> None:
    assert recall_at(ranks, k) == recall
    assert all_found(ranks, k) is everything


def test_the_reciprocal_rank_is_that_of_the_first_gold_source() -> None:
    assert [reciprocal_rank(r) for r in ((1,), (4,), (None,), (5, 2), (None, 3))] == [1, 1 / 4, 0, 1 / 2, 1 / 3]


def test_the_studys_figures_follow_from_counts_of_questions() -> None:
    # 8 of 35 crops at rank 1 and 5 more within 3 are Recall@1 0.229 and Recall@3 0.371, as published.
    ranks = [(1,)] * 8 + [(2,)] * 2 + [(3,)] * 3 + [(None,)] * 22
    assert round(sum(recall_at(r, 1) for r in ranks) / 35, 3) == 0.229
    assert round(sum(recall_at(r, 3) for r in ranks) / 35, 3) == 0.371
    # (8 + 2 / 2 + 3 / 3) / 35; the published MRR, 0.286, is that of these very ranks.
    assert round(sum(reciprocal_rank(r) for r in ranks) / 35, 3) == round(10 / 35, 3) == 0.286


@pytest.mark.parametrize(("ranks", "k"), [((), 1), ((1,), 0), ((0,), 1), ((1, -2), 3)])
def test_what_has_no_recall_raises(ranks: tuple[int, ...], k: int) -> None:
    with pytest.raises(ValueError):
        recall_at(ranks, k)
    with pytest.raises(ValueError):
        all_found(ranks, k)


def test_without_gold_sources_there_is_no_rank() -> None:
    with pytest.raises(ValueError):
        reciprocal_rank(())


def test_precision_divides_by_k_however_many_were_ranked() -> None:
    # Two of three gold sources within ten, the third beyond.
    assert precision_at((1, 2, 11), 10) == 2 / 10 and recall_at((1, 2, 11), 10) == 2 / 3
    assert precision_at((1,), 10) == 1 / 10 and precision_at((None,), 10) == 0
    with pytest.raises(ValueError):
        precision_at((), 10)


def test_bridges_stand_after_the_text_hits_and_nothing_else_does() -> None:
    assert with_bridges((1, 4, 4, None, None), (False, False, True, True, False), 3) == [1, None, 4, 4, None]
