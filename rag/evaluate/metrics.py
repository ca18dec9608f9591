"""Retrieval metrics (eq. 5, 6 and section IV-D), over the ranks of a question's gold sources.

Ranks count from 1 in the ranking of the modality that holds the answer; ``None`` is a source that was not found there. The means over
questions are the study's Recall@k and MRR. A question without gold sources has no such metrics: leave it out of the means.
"""

from __future__ import annotations

from collections.abc import Sequence

Ranks = Sequence[int | None]


def recall_at(ranks: Ranks, k: int) -> float:
    """Recall@k (eq. 5) of one question: the share of its gold sources among the first ``k``. One source gives 0 or 1.

    Raises:
        ValueError: there is no gold source, or ``k`` or a rank is below 1.
    """
    return len(_within(ranks, k)) / len(ranks)


def all_found(ranks: Ranks, k: int) -> bool:
    """Whether every gold source is among the first ``k``; errors as ``recall_at``."""
    return len(_within(ranks, k)) == len(ranks)


def with_bridges(ranks: Ranks, bridged: Sequence[bool], k: int) -> Ranks:
    """The ranks of the union of the first ``k`` of the text ranking and the chunks that the graph brought in: a source that was
    ``bridged`` stands right after the ``k``, what else comes after them is not in it."""
    return [
        rank if rank is not None and rank <= k else k + 1 if brought else None
        for rank, brought in zip(ranks, bridged, strict=True)
    ]


def reciprocal_rank(ranks: Ranks) -> float:
    """1 / rank of the first gold source, 0 where none was found (eq. 6: MRR is the mean); errors as ``recall_at``."""
    found = [rank for rank in _checked(ranks) if rank is not None]
    return 1 / min(found) if found else 0.0


def precision_at(ranks: Ranks, k: int) -> float:
    """Precision@k of one question: gold sources among the first ``k``, divided by ``k`` however many were ranked; errors as
    ``recall_at``. With one gold source it is at most 1 / k."""
    return len(_within(ranks, k)) / k


def _within(ranks: Ranks, k: int) -> list[int]:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return [rank for rank in _checked(ranks) if rank is not None and rank <= k]


def _checked(ranks: Ranks) -> Ranks:
    if not ranks:
        raise ValueError("a question without gold sources has no retrieval metrics")
    if any(rank is not None and rank < 1 for rank in ranks):
        raise ValueError("ranks count from 1")
    return ranks
