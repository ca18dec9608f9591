"""Intervals and tests against scipy and statsmodels, and against hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar

from rag.evaluate.statistics import bootstrap_interval, mcnemar, mcnemar_exact, paired_difference

RIGHT = np.array([1] * 23 + [0] * 12)
OTHER = np.array([1] * 15 + [0] * 15 + [1] * 5)
TIMES = np.random.default_rng(7).lognormal(5, 1, 60)


def scipys(values: np.ndarray, level: float) -> tuple[float, float]:
    found = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=10_000,
        method="percentile",
        confidence_level=level,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


@pytest.mark.parametrize("values", [RIGHT, OTHER, TIMES, np.array([0.0, 1.0])])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_is_scipys_to_the_last_digit(values: np.ndarray, level: float) -> None:
    # The same generator with the same seed draws the same samples.
    assert bootstrap_interval(values, level=level) == pytest.approx(scipys(values, level), rel=1e-12)


def test_the_interval_of_a_share_is_close_to_the_binomials() -> None:
    low, high = bootstrap_interval(RIGHT)
    # 35 times each end is a count of right answers in a sample: the 2.5% and 97.5% quantiles of Binomial(35, 23/35), give or take one.
    exact = stats.binom.ppf([0.025, 0.975], 35, 23 / 35)
    assert abs(35 * low - exact[0]) <= 1 and abs(35 * high - exact[1]) <= 1


def test_the_same_values_give_the_same_interval_and_another_seed_another() -> None:
    assert bootstrap_interval(TIMES) == bootstrap_interval(list(TIMES))
    assert bootstrap_interval(TIMES, seed=1) != bootstrap_interval(TIMES)
    assert bootstrap_interval([1, 1, 1]) == (1.0, 1.0)


def test_a_difference_is_that_of_pairs() -> None:
    difference, low, high = paired_difference(RIGHT, OTHER)
    assert difference == pytest.approx((20 - 23) / 35)
    assert (low, high) == pytest.approx(scipys(OTHER - RIGHT, 0.95), rel=1e-12)
    # What is hard for both cancels out: the interval is that of the differences, here none at all.
    assert paired_difference(TIMES, TIMES + 2) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize(("b", "c"), [(0, 0), (0, 1), (1, 5), (5, 1), (10, 10), (3, 17), (40, 22), (700, 600)])
def test_mcnemar_is_statsmodels_and_the_binomial_test(b: int, c: int) -> None:
    p = mcnemar_exact(b, c)
    assert p == pytest.approx(float(reference_mcnemar([[9, b], [c, 4]], exact=True).pvalue) if b + c else 1.0)
    assert p == pytest.approx(stats.binomtest(b, b + c).pvalue if b + c else 1.0)


def test_mcnemar_by_hand() -> None:
    # 1 against 5: 2 (C(6,0) + C(6,1)) / 2^6 = 2 * 7 / 64.
    assert mcnemar_exact(1, 5) == 14 / 64
    found = mcnemar([True, True, False, False, False, False, False], [True, False, True, True, True, True, True])
    assert (found.n, found.only_first, found.only_second, found.p) == (7, 1, 5, 14 / 64)
    assert mcnemar_exact(0, 5000) == 0.0 < mcnemar_exact(2500, 2500)


def test_wrong_input_raises() -> None:
    for bad in ([], [float("nan")], [[1.0]]):
        with pytest.raises(ValueError):
            bootstrap_interval(bad)
    for options in ({"resamples": 0}, {"level": 0.0}, {"level": 1.0}):
        with pytest.raises(ValueError):
            bootstrap_interval([1.0], **options)
    with pytest.raises(ValueError):
        paired_difference([1, 0], [1])
    with pytest.raises(ValueError):
        mcnemar_exact(-1, 2)
    with pytest.raises(ValueError):
        mcnemar([True], [])
