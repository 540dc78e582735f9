"""The data-dependent cost of Gaussian votes: exact divergences by quadrature, conditions that the theorem leaves out, the release."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tacit.accounting import ParameterError, account
from tacit.deep.pate import Ensemble, GaussianVotes
from tacit.deep.pate_cost import chances, gaps, publish_cost, sensitivities, total_moment, worst_epsilon
from tacit.deep.pate_gaussian import GaussianLaw, dependent_epsilon
from tacit.noise import test_mode

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def winner_law(votes: Sequence[int], sigma: float) -> NDArray[np.float64]:
    """P[label j has the largest noisy count]: density times the others' distribution functions, by Gauss's rule on pieces of one sigma."""
    cuts = np.arange(min(votes) - 12 * sigma, max(votes) + 13 * sigma, sigma)
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    x, w = (middle[:, None] + half[:, None] * NODES).ravel(), (half[:, None] * WEIGHTS).ravel()
    below = [stats.norm.cdf(x, vote, sigma) for vote in votes]
    others = [np.prod([b for k, b in enumerate(below) if k != j], axis=0) for j in range(len(votes))]
    return np.array([(w * stats.norm.pdf(x, own, sigma) * rest).sum() for own, rest in zip(votes, others, strict=True)])


def neighbours(votes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """One vote moved, or withdrawn, or cast by somebody who had cast none."""
    moves = [np.eye(len(votes), dtype=int)[a] - np.eye(len(votes), dtype=int)[b] for a, b in itertools.permutations(range(len(votes)), 2)]
    moves += [sign * np.eye(len(votes), dtype=int)[a] for a in range(len(votes)) for sign in (1, -1)]
    return [tuple(changed) for move in moves if min(changed := (np.array(votes) + move).tolist()) >= 0]


@pytest.mark.parametrize("sigma", [1.5, 4.0, 12.0])
@pytest.mark.parametrize("votes", [(40, 2), (30, 8, 1), (14, 11), (25, 25), (3, 60, 9), (9, 0)], ids=str)
def test_the_moment_covers_the_exact_divergence(votes: tuple[int, ...], sigma: float) -> None:
    """Both by quadrature, which is good to 1e-13; for two labels the chance of disagreement is exact."""
    law, own = GaussianLaw(sigma), winner_law(votes, sigma)
    q = float(chances(gaps([votes]), law)[0])
    truth = float(np.sort(own)[:-1].sum())
    assert q >= truth - 1e-13
    if len(votes) == 2:
        assert q == pytest.approx(truth, rel=1e-5, abs=1e-13)
        if votes[0] != votes[1] and truth > 1e-12:
            assert stats.norm.sf(abs(votes[0] - votes[1]) / sigma) < 0.95 * truth, "the mutant: both counts are noisy, not one"
    for other in neighbours(votes):
        changed = winner_law(other, sigma)
        for lam in (1, 3, 12):
            exact = math.log(float((own * np.exp(lam * (np.log(own + 1e-300) - np.log(changed + 1e-300)))).sum()))
            assert exact <= law.moments(lam, q) + 1e-12
            assert exact <= law.fixed(lam) + 1e-12


def by_hand(lam: float, sigma: float, q: float) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """A, B and the moment of Theorem 6 with the orders of Proposition 10, in 50 digits."""
    with mpmath.workdps(50):
        q, s = mpmath.mpf(q), mpmath.mpf(sigma)
        second = s * mpmath.sqrt(-mpmath.log(q))
        first = second + 1
        a = (1 - q) / (1 - (q * mpmath.e ** (second / s**2)) ** (1 - 1 / second))
        b = mpmath.e ** (first / s**2) / q ** (1 / (first - 1))
        return a, b, mpmath.log((1 - q) * a**lam + q * b**lam)


@pytest.mark.parametrize("lam", [1, 7, 30])
@pytest.mark.parametrize("q", [1e-40, 1e-12, 1e-5, 0.01])
def test_against_fifty_digits(lam: int, q: float) -> None:
    law = GaussianLaw(20)
    a, b, wanted = by_hand(lam, 20, q)
    assert a <= b
    assert float(law.moments(lam, q)) == pytest.approx(min(float(wanted), law.fixed(lam)), rel=1e-9, abs=1e-14)


def test_the_printed_condition_alone_lets_the_bound_fall() -> None:
    """sigma 2, orders 10 and 9: the printed inequality asks nothing of q, yet g reaches 1 at q = 0.105, and beyond it the bound falls."""
    sigma, lam, first, second = 2.0, 1.0, 10.0, 9.0
    eps_1, eps_2 = first / sigma**2, second / sigma**2
    printed = math.exp((second - 1) * eps_2) / (first / (first - 1) * second / (second - 1)) ** second
    assert printed > 1

    def bound(q: float) -> tuple[float, float, float]:
        a = (1 - q) / (1 - (q * math.exp(eps_2)) ** (1 - 1 / second))
        b = math.exp(eps_1) / q ** (1 / (first - 1))
        return a, b, (1 - q) * a**lam + q * b**lam

    edge = math.exp(-eps_2)
    assert bound(0.9 * edge)[0] < bound(0.9 * edge)[1], "A below B: the bound still grows"
    assert bound(0.9 * edge)[2] < bound(0.999 * edge)[2] and bound(0.999 * edge)[0] > bound(0.999 * edge)[1]
    assert bound(1.05 * edge)[0] < 0 and bound(1.05 * edge)[2] < bound(edge / 2)[2]


@settings(max_examples=40, deadline=None)
@given(st.floats(0.5, 200), st.integers(1, 150))
def test_the_moment_grows_with_q_and_never_passes_the_fixed_one(sigma: float, lam: int) -> None:
    law = GaussianLaw(sigma)
    q = np.concatenate([[0.0], np.geomspace(1e-299, 1.0, 600), [1.7]])
    values = law.moments(lam, q)
    assert np.isfinite(values).all() and (values >= 0).all()
    assert values.max() == law.fixed(lam) == values[-1]
    # the orders move with q, and rounding may play a part in 1e-9 of it; the table that is published is made never to fall
    assert (np.diff(values) >= -1e-9 * values[1:]).all()


def test_costs_on_the_votes() -> None:
    law = GaussianLaw(40)
    agreed, split = [[250, 0, 0]] * 500, [[90, 85, 75]] * 500
    worst = worst_epsilon(500, law, 1e-5)
    assert dependent_epsilon(agreed, law, 1e-5) < 0.3 * worst
    assert dependent_epsilon(split, law, 1e-5) == worst
    assert account(GaussianVotes(40).event(500)).epsilon(1e-5).upper <= worst
    with pytest.raises(ParameterError, match="delta"):
        dependent_epsilon(agreed, law, 0)
    with pytest.raises(ParameterError, match="together"):
        GaussianLaw(40, check_sigma=10)


def test_a_confident_aggregator_pays_for_checks_and_the_dearest_answers() -> None:
    votes = [[250, 0, 0]] * 30 + [[90, 85, 75]] * 5
    law, every = GaussianLaw(40, check_sigma=100, answers=5), GaussianLaw(40)
    for lam in (1, 10):
        each = every.moments(lam, chances(gaps(votes), every))
        assert total_moment(gaps(votes), lam, law, 1e-9) * 1e-9 >= 5 * each.max() * (1 - 1e-9)
        assert law.overhead(lam) == lam * (lam + 1) / (2 * 100**2)
    assert worst_epsilon(35, law, 1e-5) < worst_epsilon(35, every, 1e-5)
    event = GaussianVotes(40, threshold=200, check_sigma=100, answers=5).event(35)
    assert account(event).epsilon(1e-5).upper <= worst_epsilon(35, law, 1e-5)


# The release

LAM, LAW, GRANULE, TEACHERS = 1, GaussianLaw(2.0), 1e-6, 12


def profiles() -> list[tuple[tuple[int, ...], ...]]:
    one = [(k, TEACHERS - k) for k in range(TEACHERS + 1)]
    return list(itertools.product(one, one))


@pytest.mark.parametrize("law", [LAW, GaussianLaw(2.0, check_sigma=3, answers=1)], ids=["all", "one answer"])
def test_sensitivities_are_what_the_ladder_asks_for_all_small_votes(law: GaussianLaw) -> None:
    value = {v: total_moment(gaps(v), LAM, law, GRANULE) for v in profiles()}
    bounds = {v: sensitivities(gaps(v), LAM, law, GRANULE, most=5) for v in profiles()}
    for votes in profiles():
        for other in profiles():
            if other != votes and all(abs(a[0] - b[0]) <= 1 for a, b in zip(votes, other, strict=True)):
                assert abs(value[votes] - value[other]) <= bounds[votes][0]
                assert (bounds[votes][:-1] <= bounds[other][1:]).all()
    assert len(set(value.values())) > 3, "the votes do differ in cost"


def test_the_released_bound_holds_as_often_as_it_says() -> None:
    votes = [[1000, 0, 0]] * 20 + [[520, 480, 0]]
    law = GaussianLaw(40)
    truth = float(law.moments(20, chances(gaps(votes), law)).sum())
    with test_mode(3):
        told = [publish_cost(votes, law, teachers=1000, delta=1e-5, order=20, epsilon=2, failure=0.1) for _ in range(60)]
    assert sum(one.moment < truth for one in told) <= stats.binom.ppf(1 - 1e-6, 60, 0.1)
    assert min(one.epsilon for one in told) < worst_epsilon(21, law, 1e-5)


def test_an_ensemble_reports_gaussian_votes() -> None:
    always = [lambda x: [0] * len(x)] * 300
    ensemble = Ensemble(always, classes=3, votes=GaussianVotes(30))
    ensemble.label(range(40))
    inside = ensemble.report(1e-5, publish=False)
    assert inside.dependent is not None and inside.dependent < 0.5 * inside.independent.upper
    assert ensemble.report(1e-5).dependent is None
    told = ensemble.report(1e-5, sanitise=1.0).published
    assert told is not None and told.delta == 1e-5
    confident = Ensemble(always, classes=3, votes=GaussianVotes(30, threshold=200, check_sigma=50, answers=10))
    confident.label(range(20))
    confident.label(range(20))
    law = GaussianLaw(30, check_sigma=50, answers=20)
    cast = [[300, 0, 0]] * 40
    assert confident.report(1e-5, publish=False).dependent == dependent_epsilon(cast, law, 1e-5), "two calls, ten answers each"
