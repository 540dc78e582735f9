"""Figures of the book's chapter 2 (Cormode, local privacy) that no test of a single module holds."""

from __future__ import annotations

import math

import pytest

from tacit.local import LocalLaplace, Projective, Response, Unary, best, plan

LN3 = math.log(3)
POINTS = 2**16 + 1


def test_a_bit_of_a_million_people() -> None:
    """§2.1.1: Laplace noise on every device errs by .00112838 on average, "around 0.001"; a trusted collector by a millionth."""
    deviation = math.sqrt(LocalLaplace(POINTS, 1).spread(0) / 1e6) / 2
    assert deviation * math.sqrt(2 / math.pi) == pytest.approx(0.00112838, rel=1e-5)
    local, _, central = plan(n=10**6, size=2, epsilon=1).options
    assert central.deviation / math.sqrt(2) == pytest.approx(1e-6, rel=1e-9)  # the mean size of Laplace noise is its scale
    assert local.deviation == pytest.approx(0.00095952, rel=1e-5)


@pytest.mark.parametrize(("epsilon", "size"), [(0.5, 6.946), (1, 10.155), (LN3, 11.0), (2, 24.167), (4, 165.79)])
def test_where_direct_response_gives_way(epsilon: float, size: float) -> None:
    """§2.3: response is better than unary encoding up to 3 e^eps + 2 values."""
    assert 3 * math.exp(epsilon) + 2 == pytest.approx(size, abs=6e-3)
    below, above = math.floor(size - 1e-9), math.floor(size) + 1
    unary = Unary(above, epsilon).variance(1)
    assert Response(below, epsilon).variance(1) < unary < Response(above, epsilon).variance(1)
    assert Response(11, LN3).variance(1) == pytest.approx(Unary(11, LN3).variance(1), rel=1e-12)


def test_large_epsilons() -> None:
    """§2.6.1: at epsilon 10 odds of more than 22,000, and a lie in 22,000 answers; the planner warns with the odds."""
    assert math.exp(10) == pytest.approx(22026.47, abs=0.005)
    assert Response(2, 10).other == pytest.approx(4.54e-5, rel=1e-3)
    assert any("22,026 times" in warning for warning in plan(n=10**6, size=2, epsilon=10).warnings)


def test_half_the_error_takes_four_times_the_people() -> None:
    randomiser = best(100, 1)
    assert randomiser.variance(40_000) == pytest.approx(randomiser.variance(10_000) / 4, rel=1e-12)
    few, many = (plan(n=n, size=100, epsilon=1).options[0].deviation for n in (10_000, 40_000))
    assert few == pytest.approx(2 * many, rel=1e-12)


def test_what_a_crowd_allows_and_what_a_forger_gains() -> None:
    """Specification 10: a shuffled price of 1 at 100,000 people allows reports of 7.759 (its search was coarse: the plain sum over all
    binomial counts says .99994 at 7.761); at epsilon 4 a forger of q = 53 gains 1.989."""
    assert plan(n=100_000, size=2, epsilon=1, delta=1e-6, model="shuffle").options[1].report == pytest.approx(7.759, rel=5e-4)
    assert Projective(1000, 4, 53, 3).gain == pytest.approx(1.989, rel=2e-3)
