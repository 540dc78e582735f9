"""Proved compositions of finite mechanisms: against the literature's figures, enumeration, and the accountant's own brackets."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

pytest.importorskip("flint")

from tacit.accounting import (
    Adjacency,
    ApproxDP,
    Composed,
    DiscreteLaplace,
    Event,
    Exponential,
    Group,
    PureDP,
    RandomizedResponse,
    Repeated,
    UnsupportedError,
    account,
)
from tacit.accounting.engines.ball_lattice import discrete_laplace, finite_delta, response

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    ("epsilon", "leak", "steps", "at", "delta"),
    [
        (Fraction(1), Fraction(0), 2, Fraction(1), 0.3378347121),
        (Fraction(1, 2), Fraction(1, 100), 3, Fraction(3, 4), 0.1531736722),
        (Fraction(3, 10), Fraction(0), 5, Fraction(9, 10), 0.02822219396),
        (TENTH, Fraction(0), 100, Fraction(3), 1.361398695e-3),
        (TENTH, Fraction(0), 100, Fraction(5), 2.792636101e-7),
    ],
)
def test_optimal_composition(epsilon: Fraction, leak: Fraction, steps: int, at: Fraction, delta: float) -> None:
    """Kairouz, Oh and Viswanath 2015."""
    found = finite_delta([(response(epsilon, 2, leak), steps)], at)
    assert found.width <= 1e-15 * found.upper + 1e-30
    assert found.upper == pytest.approx(delta, rel=1e-9)


def test_optimal_composition_of_different_guarantees() -> None:
    """Murtagh and Vadhan 2016."""
    halves, quarters = Repeated(PureDP(Fraction(1, 2)), 2), Repeated(PureDP(Fraction(1, 4)), 4)
    found = account(Composed(PureDP(1), halves, quarters)).epsilon(1e-5, certify=True)
    assert found.upper == pytest.approx(2.999646482, rel=1e-9) and found.width < 1e-14


def test_discrete_noise_by_enumeration() -> None:
    """Two draws with sensitivity 2, all pairs of losses: masses from the noise's own probabilities, far beyond both centres."""
    scale, ratio = 3.0, math.exp(-1 / 3)
    mass = {x: (1 - ratio) / (1 + ratio) * ratio ** abs(x) for x in range(-200, 201)}
    truth = 0.0
    for x, y in itertools.product(range(-120, 121), repeat=2):
        loss = (abs(x - 2) - abs(x) + abs(y - 2) - abs(y)) / scale
        if loss > 0.5:
            truth += mass[x] * mass[y] * -math.expm1(0.5 - loss)
    found = finite_delta([(discrete_laplace(Fraction(3), 2), 2)], Fraction(1, 2))
    assert found.upper == pytest.approx(truth, rel=1e-12)


EVENTS: list[tuple[Event, Adjacency]] = [
    (Repeated(PureDP(TENTH), 100), Adjacency.ADD_REMOVE),
    (Repeated(ApproxDP(0.1, 1e-8), 100), Adjacency.ADD_REMOVE),
    (Repeated(DiscreteLaplace(Fraction(7, 2), 3), 50), Adjacency.ADD_REMOVE),
    (Composed(Repeated(PureDP(TENTH), 30), Repeated(DiscreteLaplace(5, 2), 10)), Adjacency.ADD_REMOVE),
    (Repeated(RandomizedResponse(Fraction(1, 2), 4), 20), Adjacency.REPLACE_ONE),
    (Group(Repeated(DiscreteLaplace(10), 20), 2), Adjacency.ADD_REMOVE),
]


@pytest.mark.parametrize(("event", "adjacency"), EVENTS, ids=lambda x: str(x)[:40])
def test_proofs_lie_within_the_brackets(event: Event, adjacency: Adjacency) -> None:
    cost = account(event, adjacency)
    proved, usual = cost.epsilon(1e-6, certify=True), cost.epsilon(1e-6)
    assert usual.lower <= proved.lower <= proved.upper <= usual.upper
    assert proved.upper - proved.lower <= 4 * math.ulp(proved.upper)
    assert cost.delta(1.0, certify=True).upper <= cost.delta(1.0).upper
    # the mutant that takes the other end does not hold
    assert cost.delta(proved.upper, certify=True).upper <= 1e-6 <= cost.delta(math.nextafter(proved.lower, 0), certify=True).upper


def test_what_has_no_exact_law_is_refused() -> None:
    floats = [(response(Fraction(0.1)), 1), (response(Fraction(0.3)), 1)]  # as binary fractions they have no common unit of sane length
    with pytest.raises(UnsupportedError, match="points"):
        finite_delta(floats, Fraction(1, 5))
    # the lattice that is rounded both ways takes them
    rounded = account(Composed(PureDP(0.1), PureDP(0.3))).epsilon(1e-6, certify=True)
    assert rounded.lower <= 0.4 <= rounded.upper * (1 + 1e-5) and rounded.width < 1e-3
    with pytest.raises(UnsupportedError):
        account(Repeated(Exponential(1), 3)).epsilon(1e-6, certify=True)
    leak = account(Repeated(ApproxDP(TENTH, 1e-6), 10))
    assert leak.epsilon(1e-7, certify=True).lower == math.inf
