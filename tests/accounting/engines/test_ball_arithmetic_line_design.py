"""Designs reach the digits they are asked for; and whatever the plan, the enclosure is true."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import mpmath as mp
import pytest

flint = pytest.importorskip("flint")

from tacit.accounting.engines import contour as saddle  # noqa: E402
from tacit.accounting.engines import proof  # noqa: E402
from tacit.accounting.engines.ball_arithmetic import (  # noqa: E402  # noqa: E402
    Balls,
    Design,
    ExactMixture,
    build,
    coarsest_rule,
    exact_gaussian,
    exact_poisson_gaussian,
    exact_poisson_gaussian_replaced,
    floating,
    lay_out,
    log_fraction,
)
from tacit.accounting.engines.proof import certified_delta  # noqa: E402


def gaussian_delta(mu: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("digits", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("c", [0.5, 20.0, -3.0])
def test_a_rule_has_about_the_error_it_is_asked_for(digits: float, c: float) -> None:
    for mixture in (exact_poisson_gaussian(Fraction(1, 50), Fraction(4, 5), 2), exact_poisson_gaussian_replaced(Fraction(1, 5), 1)):
        with flint.ctx.workprec(200):
            rule = coarsest_rule(mixture, c, digits)
            balls = Balls(mixture)
            _, _, alias, cut = balls.nodes(Fraction(c), rule)
            error = float((alias + cut / balls.moment(Fraction(c), 2 * digits + 20)).log())
        assert -digits - 5 < error < -digits + 3


def test_logarithms_of_fractions_beyond_the_range_of_doubles() -> None:
    assert log_fraction(Fraction(1, 10**400)) == pytest.approx(-400 * math.log(10), rel=1e-15)


# --- whatever the plan, the enclosure is true -------------------------------------------------------------------------------------


def enclosed(mixtures: list[tuple[ExactMixture, int]], design: Design, epsilon: float, truth: mp.mpf) -> bool:
    """Whether the enclosure by this design holds the truth; a refusal is no falsehood."""
    with flint.ctx.workprec(design.bits):
        try:
            ball = build(mixtures, design).delta(flint.arb(epsilon))
        except saddle.Declined:
            return True
        low, high = proof._outwards(ball, -math.inf, math.inf)
    return low <= truth * (1 + mp.mpf(10) ** -15) and high >= truth * (1 - mp.mpf(10) ** -15)


CHANGES = [
    {},
    {"size": 0.5},
    {"size": 0.2},
    {"step": 1.5},
    {"step": 3.0},
    {"step": 8.0, "size": 0.2},
    {"step": 0.5},
    {"c": 0.3},
    {"c": 1.8},
    {"right": 1.3},
    {"left": 0.1},
    {"left": 4.0},
    {"digits": 0.3},
    {"digits": 0.05},
    {"bits": 0.4},
    {"step": 2.0, "left": 0.02, "digits": 0.2, "bits": 0.5},
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_bad_lines_give_wide_enclosures_and_never_false_ones(change: dict[str, float]) -> None:
    with mp.workdps(40):
        cases = [
            ([(exact_gaussian(2), 5)], 1.5, gaussian_delta(mp.sqrt(5) / 2, mp.mpf(1.5))),
            ([(exact_poisson_gaussian(Fraction(1, 2), 2), 40)], 4.0, None),
            ([(exact_poisson_gaussian(Fraction(1, 2), 2).reverse(), 40)], 4.0, None),
            ([(exact_poisson_gaussian_replaced(Fraction(1, 5), Fraction(3, 2)), 30)], 6.0, None),
        ]
        for mixtures, epsilon, known in cases:
            sharp = certified_delta(mixtures, epsilon)
            truth = mp.mpf(sharp.upper) if known is None else known
            table = saddle.search(floating(mixtures), lambda plan, e=epsilon: plan.epsilon < e)
            design = lay_out(mixtures, table, epsilon, math.log(sharp.upper))
            values = {key: getattr(design, key) * factor for key, factor in change.items()}
            for key in ("size", "bits"):
                if key in values:
                    values[key] = max(2, int(values[key]))
            assert enclosed(mixtures, dataclasses.replace(design, **values), epsilon, truth)
