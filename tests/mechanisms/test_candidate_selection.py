"""Private selection: the exact law of the number of tries, the law of the best one, its price, and what a fixed number would cost."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import chdtrc
from scipy.stats import poisson

from tacit.accounting import Exponential, NoOp, ParameterError, PureDP, Selection, account
from tacit.accounting.theorems.selection import mean_for, run_probability
from tacit.calculus import AddRemove, CalculusError, Integers, LInfinity, Measurement, Rows, Space, UnprovedError, Vectors
from tacit.mechanisms import candidate_selection, exponential, median
from tacit.mechanisms.candidate_selection import POISSON, CandidateSelection, draw_runs, stop_for
from tacit.noise import test_mode as seeded

SCORES = Space(Vectors(Integers(), 2), LInfinity())
SHAPES = [0, Fraction(1, 2), 1, 2, Fraction(5, 2), POISSON]


def run_law(mean, shape, most=4000):
    """P[K = k] for k = 0, 1, ...: the accountant's formula, or scipy's for Poisson."""
    if shape == POISSON:
        return poisson.pmf(np.arange(most), float(mean))
    gamma = stop_for(mean, shape)
    return np.array([0.0, *(run_probability(k, gamma, shape) for k in range(1, most))])


def p_value(found, chances, bins=12):
    edges = np.searchsorted(np.cumsum(chances), np.linspace(0, 1, bins + 1)[1:-1])
    edges = np.unique(edges)
    counts = np.bincount(np.searchsorted(edges, found), minlength=len(edges) + 1)
    expected = np.array([part.sum() for part in np.split(chances, edges + 1)]) * len(found)
    return float(chdtrc(len(counts) - 1, ((counts - expected) ** 2 / expected).sum()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_number_of_tries_follows_its_law(shape):
    mean = Fraction(13, 2)
    with seeded(21):
        found = np.array([draw_runs(mean, shape) for _ in range(1000)])
    law = run_law(mean, shape)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    assert p_value(found, law) > 1e-3
    assert p_value(np.full(1000, 6), law) < 1e-9  # a fixed number
    other = run_law(mean, 1 if shape != 1 else 0)
    assert p_value(found, other) < (1e-4 if shape != Fraction(1, 2) else 1e-2)


@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
@pytest.mark.parametrize("mean", [1, Fraction(3, 2), 10, 1000], ids=str)
def test_the_mean_is_never_above_the_priced_one(shape, mean):
    gamma = stop_for(mean, shape)
    assert 0 < gamma <= 1
    assert mean_for(gamma, shape) <= float(mean) * (1 + 1e-13)
    assert mean_for(gamma, shape) > float(mean) * (1 - 1e-9)


def test_a_mean_of_hardly_more_than_one_is_one_try():
    assert stop_for(1 + 1e-14, 0) == 1
    assert draw_runs(1 + 1e-14, 0) == 1


def best_law(one, runs):
    """P(best = y) for outputs ranked by their place: sum over k of P(K = k) (F(y)^k - F(y-)^k), and None for no try."""
    found, before = {}, 0.0
    powers = np.arange(len(runs))
    for y, p in enumerate(one):
        upto = before + p
        found[y] = float((runs[1:] * (np.power(upto, powers[1:]) - np.power(before, powers[1:]))).sum())
        before = upto
    found[None] = float(runs[0])
    return found


def response(truth):
    """A finite private mechanism of three ranked outputs."""
    keep = math.e / (math.e + 2)
    return [keep if y == truth else (1 - keep) / 2 for y in range(3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mean", [2, 30])
def test_price_by_enumeration_and_a_fixed_number_exceeds_it(shape, mean):
    runs = run_law(mean, shape)
    priced = account(Selection(PureDP(1), mean, shape))
    limit = 1 + mean * math.tanh(0.5) if shape == POISSON else 2 + float(shape)
    fixed = np.zeros(len(runs))
    fixed[mean] = 1
    worst = worst_fixed = 0.0
    for first in range(3):
        for second in range(3):
            p, q = best_law(response(first), runs), best_law(response(second), runs)
            worst = max(worst, max(math.log(p[y] / q[y]) for y in p if p[y] > 1e-13))
            for epsilon in (0.5, 1.0, 2.0):
                delta = sum(max(0.0, p[y] - math.exp(epsilon) * q[y]) for y in p)
                if delta > 1e-9:
                    assert delta <= priced.delta(epsilon).upper + 1e-9
            p, q = best_law(response(first), fixed), best_law(response(second), fixed)
            worst_fixed = max(worst_fixed, max(math.log(p[y] / q[y]) for y in p if p[y] > 1e-300))
    assert worst <= limit + 1e-6
    if mean == 30 and shape in (0, Fraction(1, 2), 1):
        assert worst_fixed > limit  # the mutant: thirty tries, counted


def test_draws_follow_the_law_of_the_best():
    plan = SCORES >> exponential(Fraction(1))
    selection = SCORES >> candidate_selection([plan], score=lambda y: y, mean=3)
    with seeded(5):
        found = [selection.function([2, 0]) for _ in range(1500)]
    one = [math.e / (math.e + 1), 1 / (math.e + 1)]  # score gap 2 at rate 1/2
    chances = best_law(one, run_law(3, 1))
    assert abs(sum(found) / 1500 - chances[1]) < 5 * math.sqrt(chances[1] * chances[0] / 1500)
    assert abs(sum(found) / 1500 - one[1]) > 5 * math.sqrt(one[1] * one[0] / 1500)


def test_events_and_no_try():
    base = SCORES >> exponential(1)
    plan = SCORES >> candidate_selection([base], score=float, mean=4, shape=0)
    assert plan.event(1) == Selection(Exponential(Fraction(1)), 4, 0)
    assert plan.event(0) == NoOp()
    rare = SCORES >> candidate_selection([base], score=float, mean=Fraction(1, 10**12), shape=POISSON)
    assert rare.release([0, 0]).value is None


def test_several_candidates_are_tried_and_must_cost_the_same():
    rows = Space(Rows(Integers(0, 100)), AddRemove())
    low, high = (Measurement(rows, lambda d, v=v: v, lambda d: PureDP(d), f"constant {v}", "a constant") for v in (1, 2))
    plan = rows >> candidate_selection([low, high], score=lambda v: v, mean=20)
    with seeded(1):
        assert {plan.function([]) for _ in range(60)} == {1, 2}
    dearer = Measurement(rows, lambda d: 3, lambda d: PureDP(2 * d), "dearer", "a constant")
    with pytest.raises(CalculusError, match="same event"):
        rows >> candidate_selection([low, dearer], score=float, mean=2)
    unproved = Measurement(rows, lambda d: 3, lambda d: PureDP(d), "a claim")
    claimed = rows >> candidate_selection([unproved], score=float, mean=2)
    with pytest.raises(UnprovedError):
        claimed.check(1, epsilon=10)


def test_scores_that_are_no_numbers_rank_last():
    rows = Space(Rows(Integers(0, 100)), AddRemove())
    outputs = [Measurement(rows, lambda d, v=v: v, lambda d: PureDP(d), f"constant {v}", "a constant") for v in ("good", "bad")]
    for bad in (math.nan, None, "text", -math.inf):
        plan = rows >> candidate_selection(outputs, score=lambda v, bad=bad: 1.0 if v == "good" else bad, mean=200)
        with seeded(3):
            assert [plan.function([]) for _ in range(5)].count("good") >= 3


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_chance_of_missing_the_best_share(shape):
    mechanism = CandidateSelection((SCORES >> exponential(1),), float, 6, shape)
    runs = run_law(6, shape)
    for share in (0.01, 0.2, 0.9):
        assert mechanism.missed(share) == pytest.approx(float((runs * (1 - share) ** np.arange(len(runs))).sum()), rel=1e-6)
    if shape == 1:
        assert mechanism.missed(0.2) == pytest.approx(0.8 / (1 + 5 * 0.2))
    found = CandidateSelection.for_accuracy(0.1, 0.3, mechanism.candidates, float, shape)
    assert found.accuracy(0.3) <= 0.1 * (1 + 1e-9)


def test_bad_parameters_name_themselves():
    base = SCORES >> exponential(1)
    for make, name in (
        (lambda: candidate_selection([], float, 2), "candidates"),
        (lambda: candidate_selection([median(1)], float, 2), "candidates"),
        (lambda: candidate_selection([base], float, 0.5), "mean"),
        (lambda: candidate_selection([base], float, math.nan), "mean"),
        (lambda: candidate_selection([base], float, 2, shape=-1), "shape"),
    ):
        with pytest.raises(ParameterError, match=name):
            make()
