"""Brackets keep their ends in order and refuse to be something else."""

import math

import pytest

from tacit.accounting import AccountingError, Bound, Estimate


def test_order_and_nan() -> None:
    for bad in [(2, 1), (math.nan, 1), (0, math.nan)]:
        with pytest.raises(AccountingError):
            Bound(*bad)
    assert Bound(math.inf, math.inf).width == 0
    assert 1.5 in Bound(1, 2) and 3 not in Bound(1, 2)


def test_contradicting_methods_are_an_error() -> None:
    with pytest.raises(AccountingError, match="contradict"):
        Bound(0, 1).intersect(Bound(2, 3))


def test_worst_takes_the_larger_ends() -> None:
    assert Bound(0, 3, "a").worst(Bound(1, 2, "b")) == Bound(1, 3, "a")


def test_estimate_is_not_a_number() -> None:
    estimate = Estimate(1.0, "central limit")
    with pytest.raises(AccountingError, match="refuses"):
        float(estimate)
    assert not hasattr(estimate, "upper")
    with pytest.raises(TypeError):
        estimate < 2  # noqa: B015
