"""Fitted parameters meet their target exactly where a closed form says, and never exceed it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import DiscreteLaplace, Gaussian, Laplace, NoOp, ParameterError, account, calibrate
from tacit.calculus import (
    Absolute,
    AddRemove,
    CalculusError,
    Integers,
    Measurement,
    ReplaceOne,
    Rows,
    Space,
    UnprovedError,
    compose,
    count,
    fit,
    total,
)

COUNT = Space(Rows(Integers(0, 10)), AddRemove()) >> count()
SUM = Space(Rows(Integers(0, 10)), AddRemove()) >> total()
NUMBER = Space(Integers(), Absolute())


def laplace(scale: Any, proof: str | None = "textbook 1.8") -> Measurement:
    return Measurement(NUMBER, lambda x: x, lambda d: Laplace(Fraction(scale) / Fraction(d)) if d else NoOp(), "laplace", proof)


def gaussian(sigma: Any) -> Measurement:
    return Measurement(NUMBER, lambda x: x, lambda d: Gaussian(Fraction(sigma) / Fraction(d)) if d else NoOp(), "gaussian", "textbook 1.11")


def geometric(scale: Any) -> Measurement:
    return Measurement(NUMBER, lambda x: x, lambda d: DiscreteLaplace(Fraction(scale), int(d)) if d else NoOp(), "geometric", "1.10")


def test_the_specified_number() -> None:
    assert abs(fit(lambda scale: COUNT >> laplace(scale), 1, epsilon=0.5) - 2) < 1e-9
    assert fit(lambda scale: COUNT >> laplace(scale), 1, epsilon=0.5) == 2
    assert fit(lambda scale: SUM >> laplace(scale), epsilon=0.5) == 20
    assert fit(lambda scale: SUM >> laplace(scale), 3, epsilon=0.5) == 60
    assert abs(fit(lambda scale: COUNT >> geometric(scale), epsilon=0.5) - 2) < 1e-9


@settings(max_examples=40)
@given(st.floats(1e-3, 50), st.integers(1, 5))
def test_never_over_and_hardly_under(epsilon: float, distance: int) -> None:
    scale = fit(lambda s: SUM >> laplace(s), distance, epsilon=epsilon)
    exact = Fraction(10 * distance) / Fraction(epsilon)
    assert exact <= Fraction(scale) <= exact * (1 + Fraction(2, 10**12))


def test_other_measures_by_closed_form() -> None:
    assert fit(lambda s: COUNT >> gaussian(s), rho=0.125) == 2
    assert fit(lambda s: SUM >> gaussian(s), 2, rho=Fraction(1, 2)) == 20
    found = fit(lambda s: COUNT >> gaussian(s), mu=0.5)
    assert 2 <= found < 2 * (1 + 1e-6)


def test_approximate_guarantees_agree_with_the_calibration_of_the_accountant() -> None:
    found = fit(lambda s: COUNT >> gaussian(s), epsilon=1, delta=1e-5)
    assert found == pytest.approx(calibrate(lambda s: Gaussian(s), epsilon=1, delta=1e-5), rel=1e-6)
    assert account((COUNT >> gaussian(found)).event(1)).epsilon(1e-5).upper <= 1


def test_whole_batches_are_fitted() -> None:
    plan = fit(lambda s: compose(COUNT >> laplace(s), SUM >> laplace(10 * s)), epsilon=1)
    assert plan == 2


def test_exchanges_are_priced_as_such() -> None:
    exchanged = Space(Rows(Integers(-1, 1)), ReplaceOne()) >> total()
    assert fit(lambda s: exchanged >> laplace(s), epsilon=1) == 2


def test_bounds_and_targets_are_checked() -> None:
    with pytest.raises(CalculusError, match="exactly one target"):
        fit(lambda s: COUNT >> laplace(s))
    with pytest.raises(CalculusError, match="exactly one target"):
        fit(lambda s: COUNT >> laplace(s), epsilon=1, rho=1)
    with pytest.raises(CalculusError, match="delta goes with epsilon"):
        fit(lambda s: COUNT >> laplace(s), rho=1, delta=0.1)
    with pytest.raises(ParameterError, match="epsilon"):
        fit(lambda s: COUNT >> laplace(s), epsilon=0)
    with pytest.raises(CalculusError, match="bounds"):
        fit(lambda s: COUNT >> laplace(s), epsilon=1, bounds=(2, 1))
    with pytest.raises(CalculusError, match="widen bounds"):
        fit(lambda s: COUNT >> laplace(s), epsilon=0.5, bounds=(0.1, 1))
    assert fit(lambda s: COUNT >> laplace(s), epsilon=0.5, bounds=(5, 100)) == 5
    with pytest.raises(CalculusError, match="end the plan"):
        fit(lambda s: COUNT, epsilon=1)  # type: ignore[arg-type, return-value]
    with pytest.raises(UnprovedError):
        fit(lambda s: COUNT >> laplace(s, proof=None), epsilon=1)


def test_a_price_that_rises_is_not_taken_for_one_that_falls() -> None:
    """The mutant: inverse noise. The search refuses rather than return a value over the target."""
    with pytest.raises(CalculusError, match="must cost less"):
        fit(lambda s: COUNT >> laplace(1 / Fraction(s)), epsilon=1)
    assert math.isfinite(fit(lambda s: COUNT >> laplace(s), epsilon=1e-9))
