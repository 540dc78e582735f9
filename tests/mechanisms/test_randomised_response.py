"""Randomised response: its channel, its estimates, the numbers of the textbook, its planners."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square

from tacit.accounting import Adjacency, ParameterError, PureDP, RandomizedResponse, Repeated, account
from tacit.calculus import AddRemove, Categories, DomainError, Hamming, Integers, MetricError, ReplaceOne, Rows, Space, Vectors
from tacit.mechanisms import RandomisedResponse, from_coins, randomised_response
from tacit.noise import test_mode

DRAWS = 200_000


@pytest.mark.parametrize(("epsilon", "categories"), [(1, 2), (0.25, 2), (Fraction(1, 2), 5), (3, 7)])
def test_reports_follow_the_channel(epsilon: Any, categories: int) -> None:
    made = randomised_response(epsilon, categories)
    true = categories - 1
    with test_mode(61):
        reports = made.privatise(np.full(DRAWS, true))
    counts = np.bincount(reports, minlength=categories)
    law = [float(made.distribution(true)[k][0]) for k in range(categories)]
    assert chi_square(counts, law, DRAWS) > LEVEL
    # the mutant: odds e^epsilon against all other answers together, an off-by-one in the normaliser
    keep = 1 / (1 + math.exp(-float(epsilon)) * categories)
    mutant = [keep if k == true else (1 - keep) / (categories - 1) for k in range(categories)]
    assert chi_square(counts, mutant, DRAWS) < LEVEL


@given(st.floats(0.01, 20), st.integers(2, 50))
def test_the_channel_is_a_law_with_the_right_ratio(epsilon: float, categories: int) -> None:
    made = randomised_response(epsilon, categories)
    assert made.keep + (categories - 1) * made.each_other == pytest.approx(1, rel=1e-12)
    assert made.keep / made.each_other == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert made.gap == pytest.approx(made.keep - made.each_other, rel=1e-9)
    if categories == 2:
        assert made.gap == pytest.approx(math.tanh(epsilon / 2), rel=1e-12)


def test_the_coins_of_the_interview() -> None:
    coins = from_coins()
    assert (coins.chance(True), coins.chance(False)) == (Fraction(3, 4), Fraction(1, 4))
    assert coins.epsilon == pytest.approx(math.log(3), abs=1e-15) and coins.epsilon >= math.log(3)
    assert coins.estimate(400, 1000) == 300
    assert 1000 * (Fraction(3, 10) * coins.chance(True) + Fraction(7, 10) * coins.chance(False)) == 400
    assert coins.event == RandomizedResponse(coins.epsilon)
    with test_mode(62):
        yes = int(coins.privatise(np.repeat([1, 0], [30_000, 70_000])).sum())
    assert abs(coins.estimate(yes, 100_000) - 30_000) < 6 * math.sqrt(100_000 * 3 / 16) * 2


def test_unfair_coins_cost_the_worse_of_both_answers() -> None:
    coins = from_coins(Fraction(1, 2), Fraction(1, 10))
    # yes: 0.55 against 0.05, eleven to one; no: 0.95 against 0.45
    assert coins.epsilon == pytest.approx(math.log(11), abs=1e-14)
    assert coins.event == PureDP(coins.epsilon)
    with pytest.raises(ParameterError, match="truth"):
        from_coins(0)
    with pytest.raises(ParameterError, match="give some people away"):
        _ = from_coins(Fraction(1, 2), 0).event


@given(st.integers(1, 6), st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_the_estimate_is_unbiased(epsilon_tenths: int, answers: list[int]) -> None:
    """In expectation over all reports of all people, exactly: the channel is a matrix, and the estimate is linear in the counts."""
    made = randomised_response(Fraction(epsilon_tenths, 2), 4)
    expected = np.zeros(4)
    for answer in answers:
        for report, (low, high) in made.distribution(answer).items():
            expected += float((low + high) / 2) * made.estimate([report]) / len(answers)
    truth = np.bincount(answers, minlength=4) / len(answers)
    assert expected == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "expected"), [(0.5, 3.91770), (1, 0.920674), (math.log(3), 0.75), (2, 0.181016)])
def test_variance_per_person(epsilon: float, expected: float) -> None:
    assert randomised_response(epsilon).variance(1) == pytest.approx(expected, abs=5e-6)
    assert randomised_response(epsilon).variance(1, share=1) == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize(
    ("epsilon", "categories", "expected"),
    [(0.5, 4, 8.67011), (1, 4, 1.59807), (1, 16, 5.66243), (1, 1024, 347.0689), (math.log(3), 64, 16.25), (4, 1024, 0.37476)],
)
def test_variance_of_a_category_nobody_holds(epsilon: float, categories: int, expected: float) -> None:
    assert randomised_response(epsilon, categories).variance(1) == pytest.approx(expected, abs=5e-5)


def test_variance_with_holders_by_enumeration() -> None:
    made = randomised_response(1, 3)
    law = [float(made.distribution(0)[k][0]) for k in range(3)], [float(made.distribution(1)[k][0]) for k in range(3)]
    per_person = [p[0] * (1 - p[0]) / made.gap**2 for p in law]
    assert made.variance(10, share=0.3) == pytest.approx((0.3 * per_person[0] + 0.7 * per_person[1]) / 10, rel=1e-12)


def test_the_numbers_of_the_textbook() -> None:
    made = randomised_response(1)
    assert made.keep == pytest.approx(0.7310586, abs=5e-8) and made.gap == pytest.approx(0.4621172, abs=5e-8)
    assert [made.radius(n, 0.05) for n in (10**3, 10**4, 10**5)] == pytest.approx([0.1530146, 0.0483875, 0.0153015], abs=5e-8)
    assert [math.sqrt(made.variance(n)) for n in (10**3, 10**4, 10**5)] == pytest.approx([0.0303426, 0.0095952, 0.0030343], abs=5e-8)
    assert randomised_response(0.1).n_required(0.01, 0.05) == 20_033_342


@given(st.floats(0.02, 5), st.floats(0.001, 0.2), st.floats(0.01, 0.5))
def test_planners_agree_with_each_other(epsilon: float, alpha: float, beta: float) -> None:
    made = randomised_response(epsilon)
    n = made.n_required(alpha, beta)
    assert made.radius(n, beta) <= alpha * (1 + 1e-9)
    assert n == 1 or made.radius(n - 1, beta) > alpha * (1 - 1e-9)
    if n > 1 and 2 * alpha * math.sqrt(beta * n) > 1.001:
        needed = RandomisedResponse.eps_required(alpha, beta, n)
        assert needed <= epsilon * (1 + 1e-6)
        assert randomised_response(needed).radius(n, beta) <= alpha * (1 + 1e-9)


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(ParameterError, match="no epsilon"):
        RandomisedResponse.eps_required(0.01, 0.05, 100)
    with pytest.raises(ParameterError, match="no epsilon"):
        RandomisedResponse.for_accuracy(0.01, 0.05, n=100)
    made = RandomisedResponse.for_accuracy(0.05, 0.05, n=10_000)
    assert made.accuracy(0.05, n=10_000) <= 0.05 < randomised_response(float(made.epsilon) * 0.999).accuracy(0.05, n=10_000)


@pytest.mark.parametrize("how", ["chebyshev", "hoeffding", "normal"])
def test_intervals_cover(how: Any) -> None:
    made, n, runs, beta = randomised_response(1), 400, 2000, 0.1
    with test_mode(63):
        reports = made.privatise(np.tile(np.repeat([1, 0], [120, 280]), runs)).reshape(runs, n)
    missed = 0
    for row in reports:
        low, high = made.ci(row, beta, how)
        missed += not low <= 0.3 <= high
    allowed = runs * beta + 6 * math.sqrt(runs * beta)
    assert missed <= allowed
    # the mutant: intervals of half the width miss too often, except Chebyshev's, which are much too wide
    half = sum(abs(made.estimate_share(row) - 0.3) > made.radius(n, beta, how) / 2 for row in reports)
    assert how == "chebyshev" or half > allowed


def test_bound_to_rows_it_costs_one_response_per_person() -> None:
    plan = Space(Rows(Categories(("no", "yes"))), Hamming()) >> randomised_response(1)
    assert plan.event(1) == RandomizedResponse(1)
    assert plan.event(3) == Repeated(RandomizedResponse(1), 3)
    assert plan.adjacency is Adjacency.REPLACE_ONE
    assert account(plan.event(2)).epsilon(0).upper == pytest.approx(2)
    assert set(plan.release(["yes"] * 50 + ["perhaps", float("nan")]).value) <= {"no", "yes"}
    counts = Space(Vectors(Integers(0, 2), 4), Hamming()) >> randomised_response(50, 3)
    assert counts.release([0, 1, 2, 2]).value.tolist() == [0, 1, 2, 2]


def test_without_an_order_the_reports_come_sorted() -> None:
    """Under replace-one the order of the rows is no part of the data, so it must not show."""
    plan = Space(Rows(Integers(0, 2)), ReplaceOne()) >> randomised_response(50, 3)
    assert plan.release([2, 0, 1]).value.tolist() == [0, 1, 2]


def test_what_it_cannot_stand_on_is_refused() -> None:
    with pytest.raises(MetricError, match="Hamming"):
        Space(Rows(Integers(0, 1)), AddRemove()) >> randomised_response(1)
    with pytest.raises(DomainError, match="categories"):
        Space(Rows(Integers(0, 2)), Hamming()) >> randomised_response(1, 2)
    with pytest.raises(DomainError, match="public categories"):
        Space(Rows(Integers()), Hamming()) >> randomised_response(1)


def test_answers_outside_the_categories_raise_no_error() -> None:
    made = randomised_response(100, 3)
    assert made.privatise([7, -1, 2]).tolist() == [0, 0, 2]
    assert made.privatise(2) == 2
    with pytest.raises(ParameterError, match="integers"):
        made.privatise(np.array([0.5]))
    with pytest.raises(ParameterError, match="reports"):
        made.estimate([])
    with pytest.raises(ParameterError, match="value"):
        made.distribution(3)
    with pytest.raises(ParameterError, match="how"):
        made.radius(10, 0.1, "exact")  # type: ignore[arg-type]
