"""Limits on an error: exact binomial tails, coverage by enumeration, and the direction that means something."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.leakage.attack import METHODS, prior_upper, risk_interval, risk_upper, validation_size


def at_most(hits: int, trials: int, rate: Fraction) -> Fraction:
    return sum((math.comb(trials, i) * rate**i * (1 - rate) ** (trials - i) for i in range(hits + 1)), Fraction(0))


@given(st.integers(1, 60), st.data(), st.sampled_from([0.9, 0.95, 0.999]))
def test_the_exact_limit_solves_the_binomial_tail(trials: int, data: st.DataObject, confidence: float) -> None:
    hits = data.draw(st.integers(0, trials))
    limit = risk_upper(hits, trials, confidence=confidence)
    if hits == trials:
        assert limit == 1
    else:
        assert float(at_most(hits, trials, Fraction(limit))) == pytest.approx(1 - confidence, rel=1e-8)
        assert at_most(hits, trials, Fraction(limit)) <= Fraction(1 - confidence), "rounded to the safe side"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
def test_coverage_by_enumeration(method: str, rate: Fraction) -> None:
    """The share of outcomes in which the limit lies below the truth, exactly; a point estimate would fail half of the time."""
    trials = 40
    chance = [math.comb(trials, i) * rate**i * (1 - rate) ** (trials - i) for i in range(trials + 1)]
    wrong = sum((p for i, p in enumerate(chance) if risk_upper(i, trials, method=method) < rate), Fraction(0))
    assert wrong <= Fraction(1, 20)
    outside = Fraction(0)
    for i, p in enumerate(chance):
        low, high = risk_interval(i, trials, method=method)
        outside += p * (not low <= rate <= high)
    assert outside <= Fraction(1, 20)
    points = sum((p for i, p in enumerate(chance) if Fraction(i, trials) < rate), Fraction(0))
    assert points > Fraction(1, 5), "the mutant: a point estimate used as a bound"


def test_exact_limits_are_tighter_than_hoeffding() -> None:
    assert risk_upper(50, 1000) < risk_upper(50, 1000, method="hoeffding")
    assert risk_upper(250, 1000, method="hoeffding") == pytest.approx(0.25 + math.sqrt(math.log(20) / 2000))


@given(st.floats(0.005, 0.5), st.floats(0.5, 0.999), st.booleans())
def test_sizes_are_the_least_that_do(margin: float, confidence: float, one_sided: bool) -> None:
    size = validation_size(margin, confidence=confidence, one_sided=one_sided)
    sides = 1 if one_sided else 2
    fails = [sides * math.exp(-2 * m * margin**2) for m in (size, size - 1)]
    assert fails[0] <= (1 - confidence) * (1 + 1e-9) and (size == 1 or fails[1] >= (1 - confidence) * (1 - 1e-9))


def test_the_limit_on_a_prior_holds_for_every_secret() -> None:
    assert prior_upper([50, 30, 20]) > 0.5
    assert prior_upper([500, 300, 200]) < prior_upper([50, 30, 20])
    assert prior_upper([10, 0]) == 1
    # together with confidence: each secret has a third of the error
    assert prior_upper([50, 30, 20], confidence=0.94) == pytest.approx(risk_upper(50, 100, confidence=0.98))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: risk_upper(3, 2), "errors"),
        (lambda: risk_upper(-1, 2), "errors"),
        (lambda: risk_upper(0, 0), "examples"),
        (lambda: risk_upper(1, 2, confidence=1.0), "confidence"),
        (lambda: risk_upper(1, 2, method="wald"), "method"),
        (lambda: validation_size(0.0), "margin"),
        (lambda: prior_upper([0, 0]), "counts"),
    ],
    ids=["too many", "negative", "none", "certain", "method", "margin", "empty"],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
