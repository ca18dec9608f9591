"""Fusion of rankings: pure functions from rankings of hits to one ranking that keeps every hit it came from.

A ranking is a sequence of ``Hit`` with ranks from 1. Items that a ranking does not hold are treated as each rule says.
Ties go to the better best rank, then to the item that is met first. The ``n`` best items are given, or all. Names as in
TrioRAG, table 10, and in ranx.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rag.types import Fused, Hit

Ranking = Sequence[Hit]
Fusion = Callable[[Sequence[Ranking], int | None], tuple[Fused, ...]]

RRF_K = 60


def rrf(rankings: Sequence[Ranking], n: int | None = None, k: int = RRF_K) -> tuple[Fused, ...]:
    """Reciprocal rank fusion (Cormack et al., 2009): sum of 1 / (k + rank); a missing item adds nothing."""
    return _fused(rankings, n, lambda found: sum([1 / (k + hit.rank) for hit in found.values()]))


def borda(rankings: Sequence[Ranking], n: int | None = None) -> tuple[Fused, ...]:
    """Borda count (Aslam and Montague, 2001). Of m items in all, rank r gets m - r + 1 points; the items that a
    ranking does not hold share its remaining points evenly."""
    items = len({hit.item_id for ranking in rankings for hit in ranking})
    # Points 1 .. (items - len) are left over for as many missing items, so each gets their mean.
    leftover = [(items - len(ranking) + 1) / 2 for ranking in rankings]

    def points(found: Mapping[int, Hit]) -> float:
        return sum(
            items - found[i].rank + 1 if i in found else leftover[i] for i in range(len(rankings)) if rankings[i]
        )

    return _fused(rankings, n, points)


def score_mean(rankings: Sequence[Ranking], n: int | None = None) -> tuple[Fused, ...]:
    """Mean over the rankings of scores scaled to 0..1 within each (min-max); missing is 0, a ranking of equals is 1."""
    ranges = [(min(h.score for h in r), max(h.score for h in r)) if r else (0.0, 0.0) for r in rankings]

    def scaled(i: int, score: float) -> float:
        low, high = ranges[i]
        return (score - low) / (high - low) if high > low else 1.0

    return _fused(rankings, n, lambda found: sum(scaled(i, hit.score) for i, hit in found.items()) / len(rankings))


def rank_mean(rankings: Sequence[Ranking], n: int | None = None) -> tuple[Fused, ...]:
    """Mean rank, negated so that higher is better; a missing item has the rank after the ranking's last."""
    after_last = [len(ranking) + 1 for ranking in rankings]

    def mean(found: Mapping[int, Hit]) -> float:
        ranks = [found[i].rank if i in found else after_last[i] for i in range(len(rankings))]
        return -sum(ranks) / len(ranks)

    return _fused(rankings, n, mean)


FUSIONS: dict[str, Fusion] = {"rrf": rrf, "borda": borda, "score_mean": score_mean, "rank_mean": rank_mean}
"""Name in ``System.fusion`` -> rule."""


def single(ranking: Ranking) -> tuple[Fused, ...]:
    """One ranking as it is: each item keeps its rank, its score and its one hit."""
    return tuple(Fused(hit.item_id, hit.rank, hit.score, (hit,)) for hit in ranking)


def as_ranking(fused: Sequence[Fused], ranker: str) -> tuple[Hit, ...]:
    """A fused ranking as one ranker's opinion, to be fused again or shown beside others."""
    return tuple(Hit(item.item_id, item.hits[0].branch, ranker, item.rank, item.score) for item in fused)


def _fused(
    rankings: Sequence[Ranking], n: int | None, score: Callable[[Mapping[int, Hit]], float]
) -> tuple[Fused, ...]:
    # item -> {index of the ranking: its hit}, in the order in which items are first met
    found: dict[str, dict[int, Hit]] = {}
    best: dict[str, int] = {}
    for i, ranking in enumerate(rankings):
        for hit in ranking:
            item = hit.item_id
            if item not in found:
                found[item], best[item] = {i: hit}, hit.rank
            elif i not in found[item]:
                found[item][i], best[item] = hit, min(best[item], hit.rank)
    scored = [(-score(hits), best[item], order, item) for order, (item, hits) in enumerate(found.items())]
    scored.sort()
    return tuple(
        Fused(item, rank, -value, tuple(found[item].values()))
        for rank, (value, _, _, item) in enumerate(scored[:n], start=1)
    )
