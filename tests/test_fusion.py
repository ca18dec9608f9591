"""Fusion rules against arithmetic written out by hand."""

from __future__ import annotations

import pytest

from rag.fusion import FUSIONS, as_ranking, borda, rank_mean, rrf, score_mean, single
from rag.types import Fused, Hit


def ranking(ranker: str, *scored: tuple[str, float]) -> tuple[Hit, ...]:
    return tuple(Hit(item, "text", ranker, rank, score) for rank, (item, score) in enumerate(scored, start=1))


DENSE = ranking("dense", ("a", 0.9), ("b", 0.5), ("c", 0.4))
BM25 = ranking("bm25", ("c", 12.0), ("d", 4.0))


def scores(fused: tuple[Fused, ...]) -> dict[str, float]:
    return {item.item_id: item.score for item in fused}


def test_rrf_adds_reciprocal_ranks() -> None:
    assert scores(rrf([DENSE, BM25])) == {
        "c": pytest.approx(1 / 63 + 1 / 61),
        "a": pytest.approx(1 / 61),
        "b": pytest.approx(1 / 62),
        "d": pytest.approx(1 / 62),
    }
    assert scores(rrf([DENSE, BM25], k=0))["c"] == pytest.approx(1 / 3 + 1)


def test_borda_shares_out_the_points_of_missing_items() -> None:
    # Four items: ranks give 4, 3, 2, 1 points. DENSE lacks d, which gets the 1 left over; BM25 lacks a and b, which share 2 + 1.
    assert scores(borda([DENSE, BM25])) == {"a": 4 + 1.5, "b": 3 + 1.5, "c": 2 + 4, "d": 1 + 3}


def test_score_mean_scales_each_ranking_to_0_1() -> None:
    assert scores(score_mean([DENSE, BM25])) == {
        "a": pytest.approx((1 + 0) / 2),
        "b": pytest.approx((0.1 / 0.5 + 0) / 2),
        "c": pytest.approx((0 + 1) / 2),
        "d": pytest.approx(0),
    }


def test_score_mean_of_equal_scores() -> None:
    assert scores(score_mean([ranking("x", ("a", 3.0), ("b", 3.0))])) == {"a": 1.0, "b": 1.0}


def test_rank_mean_puts_missing_items_after_the_last() -> None:
    # DENSE has 3 items, so d is 4th there; BM25 has 2, so a and b are 3rd.
    assert scores(rank_mean([DENSE, BM25])) == {
        "a": -(1 + 3) / 2,
        "b": -(2 + 3) / 2,
        "c": -(3 + 1) / 2,
        "d": -(4 + 2) / 2,
    }


def test_every_item_keeps_the_hits_it_came_from() -> None:
    for rule in FUSIONS.values():
        fused = rule([DENSE, BM25], None)
        hits = {item.item_id: item.hits for item in fused}
        assert hits == {"a": (DENSE[0],), "b": (DENSE[1],), "c": (DENSE[2], BM25[0]), "d": (BM25[1],)}
        assert [item.rank for item in fused] == [1, 2, 3, 4]
        assert [item.score for item in fused] == sorted((item.score for item in fused), reverse=True)


def test_ties_go_to_the_better_rank_and_then_to_the_first_met() -> None:
    assert [item.item_id for item in rrf([DENSE, BM25])] == [
        "c",
        "a",
        "b",
        "d",
    ]  # b and d: both ranked 2nd, b is met first
    # a: ranks 1 and 4, c: 2 and 3, both with a mean of 2.5
    first = ranking("x", ("a", 4), ("c", 3), ("b", 2), ("d", 1))
    second = ranking("y", ("b", 4), ("d", 3), ("c", 2), ("a", 1))
    assert [item.item_id for item in rank_mean([first, second])] == ["b", "a", "c", "d"]


def test_n_cuts_without_changing_the_order() -> None:
    for rule in FUSIONS.values():
        assert rule([DENSE, BM25], 2) == rule([DENSE, BM25], None)[:2]
        assert rule([DENSE, BM25], 0) == ()


def test_nothing_to_fuse() -> None:
    for rule in FUSIONS.values():
        assert rule([], None) == ()
        assert rule([(), ()], None) == ()
        assert [item.item_id for item in rule([(), BM25], None)] == ["c", "d"]


def test_one_ranking_stays_as_it_is() -> None:
    assert single(DENSE)[1] == Fused("b", 2, 0.5, (DENSE[1],))
    assert as_ranking(rrf([DENSE, BM25]), "hybrid")[0] == Hit("c", "text", "hybrid", 1, 1 / 63 + 1 / 61)
