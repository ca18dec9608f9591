"""How sure a figure is: percentile bootstrap intervals and the exact McNemar test. Seeded, so that the same values give the same interval.

Questions are the units: pass one value per question. Where several generators answered the same questions, pass each question's mean,
since its answers are not independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 10_000
SEED = 0
LEVEL = 0.95
_AT_ONCE = 1_000
"""Resamples drawn at once; the stream of random numbers doesn't depend on it, memory does."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """Two systems on the same questions: ``only_first`` and ``only_second`` count those that one alone got right."""

    n: int
    only_first: int
    only_second: int
    p: float


def bootstrap_interval(
    values: ArrayLike, resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> tuple[float, float]:
    """Percentile bootstrap interval of a mean (Efron 1979).

    Args:
        values: (n,) one number or truth value per question.
        resamples: how many samples of size n are drawn with replacement.
        seed: of ``numpy.random.default_rng``.
        level: coverage wanted, between 0 and 1.

    Returns:
        (low, high). Values that are all the same give an interval of no width: n says how much that means.

    Raises:
        ValueError: no values, one that isn't finite, or ``resamples`` or ``level`` out of range.
    """
    data = _finite(values)
    if resamples < 1 or not 0 < level < 1:
        raise ValueError("resamples must be at least 1 and level between 0 and 1")
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for start in range(0, resamples, _AT_ONCE):
        rows = min(_AT_ONCE, resamples - start)
        means[start : start + rows] = data[rng.integers(0, len(data), (rows, len(data)))].mean(axis=1)
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def paired_difference(
    first: ArrayLike, second: ArrayLike, resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> tuple[float, float, float]:
    """Mean of ``second - first`` over the same questions in the same order, with its bootstrap interval: (difference, low, high).

    Questions are resampled, both systems' values together, so that what makes a question hard for both cancels out.

    Raises:
        ValueError: as ``bootstrap_interval``, or the two differ in length.
    """
    before, after = _finite(first), _finite(second)
    if len(before) != len(after):
        raise ValueError(f"pairs are wanted: {len(before)} and {len(after)} values")
    differences = after - before
    return float(differences.mean()), *bootstrap_interval(differences, resamples, seed, level)


def mcnemar_exact(b: int, c: int) -> float:
    """Two-sided p of the exact McNemar test: under the null, of ``b + c`` discordant pairs each side gets half (binomial).

    Args:
        b: questions that only the first system got right.
        c: questions that only the second got right.

    Raises:
        ValueError: a count is negative.
    """
    if b < 0 or c < 0:
        raise ValueError("counts can't be negative")
    n = b + c
    tail = sum(comb(n, k) for k in range(min(b, c) + 1))
    # Whole numbers until the end: 2 ** -n alone would be 0 for many pairs.
    return min(1.0, (2 * tail) / (1 << n))


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """The test on verdicts of the same questions in the same order.

    Raises:
        ValueError: the two differ in length.
    """
    b = sum(one and not other for one, other in zip(first, second, strict=True))
    c = sum(other and not one for one, other in zip(first, second, strict=True))
    return McNemar(len(first), b, c, mcnemar_exact(b, c))


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data) or not np.isfinite(data).all():
        raise ValueError("a list of one or more finite numbers is wanted")
    return data
