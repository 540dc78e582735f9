"""The exponential mechanism: the textbook's numbers, its exact law, its price by enumeration, and its accuracy by summing the law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from tacit.accounting import NoOp, ParameterError, account
from tacit.calculus import L1, L2, AddRemove, DomainError, Integers, Lattice, LInfinity, MetricError, Reals, Rows, Space, Vectors
from tacit.mechanisms import exponential
from tacit.mechanisms.exponential import Exponential
from tacit.noise import test_mode as seeded


def law(scores, rate):
    """Softmax in mpmath: shares nothing with the implementation."""
    with mpmath.workdps(40):
        weights = [mpmath.exp(mpmath.mpf(rate) * s) for s in scores]
        return [w / sum(weights) for w in weights]


def chi_square(found, chances):
    """The p-value of observed indices."""
    counts = np.bincount(found, minlength=len(chances))
    expected = np.array([float(c) for c in chances]) * len(found)
    return float(chdtrc(len(chances) - 1, ((counts - expected) ** 2 / expected).sum()))


PRICES = [Fraction(100, 100), Fraction(101, 100), Fraction(301, 100)]
REVENUE = [Fraction(300, 100), Fraction(202, 100), Fraction(301, 100)]


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [(1, (0.350701, 0.298015, 0.351284)), (5, (0.407923, 0.180752, 0.411325)), (10, (0.451857, 0.088718, 0.459425))],
)
def test_pricing_example_of_the_textbook(epsilon, printed):
    mechanism = Exponential.for_epsilon(epsilon, sensitivity=max(PRICES))
    for (low, high), value in zip(mechanism.probabilities(REVENUE), printed, strict=True):
        assert low <= high
        assert float(high - low) < 1e-30
        assert abs(float(low) - value) < 5.1e-7


def test_utility_bound_of_the_textbook_and_its_erratum():
    mechanism = Exponential.for_epsilon(1, sensitivity=max(PRICES))
    assert mechanism.accuracy(0.05, candidates=3) == pytest.approx(24.64795, abs=5e-6)
    # E8: the proof ends in ln(|H| / beta); its printed last line has delta, which is zero here and would make the bound infinite.
    assert mechanism.accuracy(0.05, candidates=3, optimal=3) == 0
    assert mechanism.accuracy(0.05, candidates=3, optimal=2) < mechanism.accuracy(0.05, candidates=3)


@given(
    st.lists(st.integers(-40, 40), min_size=2, max_size=6),
    st.fractions(Fraction(1, 20), 5),
    st.floats(0.001, 0.999),
)
def test_accuracy_holds_exactly_and_the_sharper_form_too(scores, epsilon, beta):
    mechanism = exponential(epsilon)
    chances = law(scores, float(epsilon) / 2)
    best = max(scores)
    for optimal in (1, scores.count(best)):
        alpha = mechanism.accuracy(beta, candidates=len(scores), optimal=optimal)
        assert sum(p for p, s in zip(chances, scores, strict=True) if s < best - alpha) <= beta * (1 + 1e-9)


@given(st.floats(0.01, 1e4), st.floats(1e-6, 0.5), st.integers(2, 10**6))
def test_accuracy_inverts(alpha, beta, candidates):
    found = Exponential.for_accuracy(alpha, beta, candidates)
    assert found.accuracy(beta, candidates) <= alpha
    assert exponential(float(found.epsilon) * (1 - 1e-9)).accuracy(beta, candidates) > alpha


def neighbours(metric):
    """All pairs of small score vectors at distance at most 1, up to the shift that no selection sees."""
    for scores in itertools.product(range(3), repeat=3):
        for move in itertools.product((-1, 0, 1), repeat=3):
            other = tuple(s + m for s, m in zip(scores, move, strict=True))
            if metric.distance(scores, other) <= 1:
                yield scores, other


@pytest.mark.parametrize("metric", [LInfinity(), LInfinity(monotone=True), L1()], ids=repr)
def test_price_by_enumeration_is_met_and_not_exceeded(metric):
    plan = Space(Vectors(Integers(), 3), metric) >> exponential(Fraction(3, 2))
    price = float(plan.event(1).epsilon)
    worst = widest = 0.0
    for one, two in neighbours(metric):
        losses = [float(mpmath.log(p / q)) for p, q in zip(law(one, 0.75), law(two, 0.75), strict=True)]
        worst, widest = max(worst, max(map(abs, losses))), max(widest, max(losses) - min(losses))
    assert widest <= price * (1 + 1e-12)
    assert worst <= price
    assert widest > price * (1 - 1e-12)  # the range is attained
    assert worst > 0.6 * price
    mutant = Space(Vectors(Integers(), 3), LInfinity(monotone=True)) >> exponential(Fraction(3, 2))
    if metric == LInfinity():
        assert widest > float(mutant.event(1).epsilon) * 1.5  # half the price would be wrong here


def test_two_choices_cost_no_more_than_the_accountant_says():
    plan = Space(Vectors(Integers(), 3), LInfinity()) >> exponential(1)
    event = account(plan.event(1))
    epsilons = (0.0, 0.25, 0.5, 0.75, 1.0)
    worst = dict.fromkeys(epsilons, 0.0)
    for one, two in neighbours(LInfinity()):
        p, q = law(one, 0.5), law(two, 0.5)
        for epsilon in epsilons:
            sticks = sum(max(mpmath.mpf(0), a - mpmath.exp(epsilon) * b) for a, b in zip(p, q, strict=True))
            worst[epsilon] = max(worst[epsilon], float(sticks))
    for epsilon, delta in worst.items():
        bound = event.delta(epsilon).upper
        assert delta <= bound + 1e-12
        if epsilon in (0.0, 0.25):
            assert delta > 0.7 * bound


def test_draws_follow_the_law_and_a_wrong_rate_is_caught():
    scores = [0, 3, 5, 4]
    plan = Space(Vectors(Integers(), 4), LInfinity()) >> exponential(Fraction(1, 2))
    with seeded(11):
        found = [plan.function(scores) for _ in range(4000)]
    assert chi_square(found, law(scores, 0.25)) > 1e-3
    assert chi_square(found, law(scores, 0.5)) < 1e-9


def test_a_lattice_is_counted_in_real_units():
    space = Space(Vectors(Lattice(Fraction(1, 4)), 2), LInfinity())
    plan = space >> exponential(2)
    assert plan.event(4).epsilon == 2  # four granules are one unit
    assert plan.event(Fraction(9, 2)) == plan.event(4)  # scores are whole: half a granule cannot be
    assert plan.event(Fraction(1, 2)) == NoOp()
    with seeded(3):
        found = [plan.function([0, 4]) for _ in range(3000)]
    assert chi_square(found, law([0, 1], 1.0)) > 1e-3


@pytest.mark.parametrize(
    ("space", "error"),
    [
        (Space(Vectors(Integers(), 2), L2()), MetricError),
        (Space(Vectors(Reals(), 2), LInfinity()), DomainError),
        (Space(Rows(Integers()), AddRemove()), DomainError),
    ],
    ids=["L2", "reals", "rows"],
)
def test_refuses_what_has_no_proof(space, error):
    with pytest.raises(error):
        space >> exponential(1)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, True, "1"], ids=repr)
def test_bad_parameters_name_themselves(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        exponential(epsilon)
    with pytest.raises(ParameterError, match="beta"):
        exponential(1).accuracy(0)
    with pytest.raises(ParameterError, match="optimal"):
        exponential(1).accuracy(0.5, candidates=2, optimal=3)


def test_hostile_scores_raise_nothing():
    plan = Space(Vectors(Integers(), 4), LInfinity()) >> exponential(1)
    for scores in ([float("nan"), float("inf"), -math.inf, 1e308], [10**30, -(10**30), 0, 1], ["a", None, 0, 0]):
        assert plan.release(scores).value in range(4)


@settings(max_examples=20)
@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=5))
def test_any_integers_are_selected_from(scores):
    plan = Space(Vectors(Integers(), len(scores)), LInfinity()) >> exponential(1)
    with seeded(1):
        assert plan.function(scores) in range(len(scores))
