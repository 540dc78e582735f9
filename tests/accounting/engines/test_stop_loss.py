"""Sums of likelihood ratios against quadrature and exact binomials, whatever the plan."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.finite_ratio import FiniteRatio

from tacit.accounting.engines.stop_loss import delta_once, plan_for, sum_of
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio, contract, spread

LATTICE = FiniteRatio((0.5, 2.0), (2 / 3, 1 / 3))


def two_steps(sigma: float, epsilon: float, sign: int) -> float:
    """E[(sign (Y_1 + Y_2 - K))_+] / 2 by quadrature over Y_1 and the closed form for Y_2."""
    with mpmath.workdps(25):
        s, k = 1 / mpmath.mpf(sigma), 2 * mpmath.exp(sign * mpmath.mpf(epsilon))

        def inner(x: mpmath.mpf) -> mpmath.mpf:
            if x <= 0:
                return 1 - x if sign > 0 else mpmath.mpf(0)
            d = mpmath.log(x) / s
            if sign > 0:
                return mpmath.ncdf(s / 2 - d) - x * mpmath.ncdf(-s / 2 - d)
            return x * mpmath.ncdf(s / 2 + d) - mpmath.ncdf(-s / 2 + d)

        end = mpmath.log(k) / s + s / 2
        points = [end - 14, end - 8, end - 4, end - 2, end - 1, end - 0.1, end - 0.01, end]
        if sign > 0:
            points = sorted({*map(mpmath.mpf, (-14, -6, -3, 0)), end - 1, end - 0.1, end, end + 1, end + 4, end + 14})
        value = mpmath.quad(lambda z: mpmath.npdf(z) * inner(k - mpmath.exp(s * z - s * s / 2)), points) / 2
        return float(value * (1 if sign > 0 else mpmath.exp(epsilon)))


def binomial_premium(steps: int, k: Fraction, sign: int) -> Fraction:
    """E[(sign (S - K))_+] exactly for ratios 1/2 and 2 of Q-mass 2/3 and 1/3."""
    total = Fraction(0)
    for twos in range(steps + 1):
        excess = sign * (Fraction(steps - twos, 2) + 2 * twos - k)
        if excess > 0:
            total += Fraction(math.comb(steps, twos) * 2 ** (steps - twos), 3**steps) * excess
    return total


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("sigma", "epsilon", "sign"),
    [(1.0, 1.0, 1), (1.0, 7.0, 1), (0.3, 15.0, 1), (10.0, 0.5, 1), (1.0, 1.0, -1), (1.0, 3.0, -1), (10.0, 0.3, -1)],
)
def test_two_steps_agree_with_quadrature(sigma: float, epsilon: float, sign: int) -> None:
    lower, upper = delta_once(GaussianRatio(sigma), 2, epsilon, sign, 1e-7)
    exact = two_steps(sigma, epsilon, sign)
    assert lower <= exact <= upper
    assert upper / lower < 1 + 3e-5


def test_swapping_the_roundings_would_break_the_bracket() -> None:
    """The mutant: with contraction above and spreading below, the truth falls outside at once."""
    exact = two_steps(1.0, 1.0, 1)
    k = 2 * math.exp(1.0)
    plan = plan_for(GaussianRatio(1.0), 2, k, 1, k)
    wrong_upper = contract(GaussianRatio(1.0), 0.02, math.ceil(k / 0.02))
    wrong_lower = spread(GaussianRatio(1.0), 0.02, math.ceil(k / 0.02))
    assert wrong_upper is not None
    for law, sign in ((wrong_upper, 1), (wrong_lower, -1)):
        value, error = sum_of(law, 2, k, 1, plan).premium(np.array([k]))
        claimed = (float(value[0]) + sign * float(error[0])) / 2 + law.infinite
        assert claimed < exact if sign > 0 else claimed > exact


@pytest.mark.parametrize("steps", [3, 50, 400])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_tilted_transform_is_exact_down_to_tiny_deltas(steps: int, sign: int) -> None:
    law = spread(LATTICE, 0.5, 4)
    for share in (0.1, 0.4, 0.8):
        k = steps * (1 + share * (1.0 if sign > 0 else -0.5))
        exact = binomial_premium(steps, Fraction(k), sign)
        if exact < Fraction(1, 10**60) or exact == 0:
            continue
        plan = plan_for(LATTICE, steps, k, sign, 2.0 * steps)
        value, error = sum_of(law, steps, k, sign, plan).premium(np.array([k]))
        assert abs(Fraction(float(value[0])) - exact) <= Fraction(float(error[0]))
        assert error[0] < 1e-6 * value[0]  # the plan trades rounding up to 1e-7 for a shorter transform


@settings(max_examples=40)
@given(st.floats(0.05, 3.0), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(0.5, 2.0), st.sampled_from([1, -1]))
def test_whatever_the_plan_the_error_bound_holds(tilt: float, low: float, high: float, eta: float, sign: int) -> None:
    """Tilt, window and Chernoff parameters are guesses; a bad guess must widen the bracket and never move it off the truth."""
    steps, k = 60, 60 * (1.5 if sign > 0 else 0.75)
    exact = binomial_premium(steps, Fraction(k), sign)
    plan = plan_for(LATTICE, steps, k, sign, 2.0 * steps)
    span = plan.high - plan.low
    bent = replace(
        plan,
        theta=plan.theta * tilt,
        low=max(0.0, plan.low + low * span),
        high=plan.high + high * span,
        eta_low=plan.eta_low * eta,
        eta_high=plan.eta_high * eta,
    )
    value, error = sum_of(spread(LATTICE, 0.5, 4), steps, k, sign, bent).premium(np.array([k]))
    assert abs(Fraction(float(value[0])) - exact) <= Fraction(float(error[0]))


def test_without_the_tilt_small_deltas_drown_in_rounding() -> None:
    """The mutant: the same transform with hardly any tilt says nothing about a delta of 1e-30."""
    steps, k = 400, 700.0
    exact = float(binomial_premium(steps, Fraction(700), 1))
    plan = plan_for(LATTICE, steps, k, 1, 800.0)
    flat = sum_of(spread(LATTICE, 0.5, 4), steps, k, 1, replace(plan, theta=1e-3, low=0.0, high=800.0))
    assert exact < 1e-30
    assert float(flat.premium(np.array([k]))[1][0]) > 1e6 * exact
