"""Each bound of the proof against FLINT's own integrator, where it is needed, and with nothing to spare where it is sharp."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import pytest

flint = pytest.importorskip("flint")

from tacit.accounting.engines.ball_arithmetic import (  # noqa: E402  # noqa: E402
    Balls,
    ExactMixture,
    Parts,
    coarsest_rule,
    exact_poisson_gaussian,
    exact_poisson_gaussian_replaced,
    rule_between,
    tail_decay,
)


def ball(value: Fraction | int) -> flint.arb:
    return flint.arb(flint.fmpq(Fraction(value).numerator, Fraction(value).denominator))


@cache
def characteristic(mixture: ExactMixture, c: Fraction, t: Fraction | int) -> flint.acb:
    """E[exp((c + it) L)] by FLINT's adaptive Gauss-Legendre rule on the real line, which knows nothing of strips or trapezoids."""
    z = flint.acb(ball(c), ball(t))

    def log_ratio(parts: Parts, sign: int, u: flint.acb, analytic: bool) -> flint.acb:
        total = sum((ball(w) * (sign * ball(m) * u - ball(m * m / 2)).exp() for m, w in parts), flint.acb(0))
        return total.log(analytic=analytic)

    def integrand(u: flint.acb, analytic: bool) -> flint.acb:
        return ((z + 1) * log_ratio(mixture.up, 1, u, analytic) - z * log_ratio(mixture.down, -1, u, analytic) - u * u / 2).exp()

    found = sum((flint.acb.integral(integrand, x, x + 4) for x in range(-20, 40, 4)), flint.acb(0))
    return found / (2 * flint.arb.pi()).sqrt()


MIXTURES = {
    "remove": exact_poisson_gaussian(Fraction(1, 50), Fraction(4, 5)),
    "add": exact_poisson_gaussian(Fraction(1, 50), Fraction(4, 5)).reverse(),
    "group": exact_poisson_gaussian(Fraction(1, 10), 1, 3),
    "replace": exact_poisson_gaussian_replaced(Fraction(1, 5), Fraction(3, 2)),
    "no component at zero": ExactMixture(((Fraction(1, 2), Fraction(1, 3)), (Fraction(2), Fraction(2, 3))), ((Fraction(1), Fraction(1)),)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("c", [Fraction(5, 2), Fraction(-1, 3), Fraction(-3)])
def test_moments_against_quadrature(name: str, c: Fraction) -> None:
    with flint.ctx.workprec(110):
        found = Balls(MIXTURES[name]).moment(c, 45.0)
        truth = characteristic(MIXTURES[name], c, 0).real
        assert found.overlaps(truth) and truth.rad() < 1e-20 * truth
        assert found.rad() < 1e-17 * found


@pytest.mark.parametrize("name", MIXTURES)
def test_the_shifted_rule_is_as_good_at_every_frequency(name: str) -> None:
    mixture, c = MIXTURES[name], Fraction(3, 2)
    with flint.ctx.workprec(110):
        balls = Balls(mixture)
        terms, losses, alias, cut = balls.nodes(c, coarsest_rule(mixture, float(c), 30.0))
        moment = balls.moment(c, 60.0)
        assert alias + cut / moment < 1e-12
        for t in (0, 1, 12):
            total = sum((w * (flint.acb(0, t) * x).exp() for w, x in zip(terms, losses, strict=True)), flint.acb(0))
            gap = abs(total - characteristic(mixture, c, t))
            assert gap.lower() <= (alias * moment + cut).upper() and gap.rad() < 1e-20 * moment


@pytest.mark.parametrize("name", MIXTURES)
def test_the_tail_bound_holds_for_every_larger_frequency(name: str) -> None:
    mixture, c = MIXTURES[name], Fraction(3, 2)
    with flint.ctx.workprec(110):
        balls = Balls(mixture)
        moment = balls.moment(c, 60.0)
        for t in (1, 6):
            log, y = tail_decay(mixture, float(c))(float(t))
            bound = balls.tail(c, Fraction(t), Fraction(y), 20.0 - log, moment)
            assert abs(float((bound / moment).log()) - log) < 1e-6  # the plan and the proof agree
            for s in (t, 2 * t):
                assert abs(characteristic(mixture, c, s)) <= bound.upper()


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("c", [Fraction(40), Fraction(-1, 2), Fraction(-30)])
def test_the_strip_bound_holds_where_the_terms_nearly_cancel(name: str, c: Fraction) -> None:
    mixture = MIXTURES[name]
    needed = False
    with flint.ctx.workprec(110):
        balls = Balls(mixture)
        for y in (Fraction(k, 20) * Fraction(math.pi) / max(mixture.ranges()) for k in (5, 12, 19)):
            for x in range(-12, 13):
                u = flint.acb(x, ball(y))
                log_a, log_b = balls.logs(u)
                value = abs((ball(c + 1) * log_a - ball(c) * log_b - u * u / 2).exp() / (2 * flint.arb.pi()).sqrt())
                real = balls.density(c, flint.arb(x))
                assert value <= (balls.factor(c, y) * real).upper()
                needed = needed or bool(value > (ball(y * y) / 2).exp() * real)
    a, b = mixture.ranges()
    assert needed == ((c > 0 and b > 0) or (c < -1 and a > 0))  # the secants are there for a reason


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("c", [Fraction(4), Fraction(-1, 2), Fraction(-3)])
def test_what_is_cut_off_at_the_ends_is_bounded_and_counts(name: str, c: Fraction) -> None:
    mixture = MIXTURES[name]
    with flint.ctx.workprec(110):
        balls = Balls(mixture)
        fine = coarsest_rule(mixture, float(c), 40.0)
        near = rule_between(mixture, float(c), 6.0, float(fine.step), float(fine.height), float(fine.top))
        moment = balls.moment(c, 60.0)
        terms, _, alias, cut = balls.nodes(c, near)
        gap = abs(sum(terms[1:], terms[0]) - moment)
        assert gap <= (alias * moment + cut).upper()
        assert not gap <= (alias * moment).upper()


@pytest.mark.parametrize("name", MIXTURES)
def test_a_coarse_tail_bound_is_looser_and_never_lower(name: str) -> None:
    mixture, c = MIXTURES[name], Fraction(3, 2)
    with flint.ctx.workprec(110):
        balls = Balls(mixture)
        moment = balls.moment(c, 60.0)
        for y in (Fraction(1, 100), Fraction(1, 5), Fraction(4, 5)):
            sharp = balls.tail(c, Fraction(5), y, 50.0, moment)
            for digits in (0.1, 0.5, 1.0, 2.0, 4.0):
                assert balls.tail(c, Fraction(5), y, digits, moment).upper() >= sharp.lower()
