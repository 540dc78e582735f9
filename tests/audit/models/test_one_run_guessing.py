"""How likely so many right guesses are, held against the worst mechanism there is: by enumeration, and by a full programme."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit

from tacit.accounting import GDP, account
from tacit.audit.models.one_run import (
    Promised,
    approximate,
    exact_p_value,
    gaussian,
    independent_p_value,
    line_refutes,
    p_value,
    programme_p_value,
    published_p_value,
    tail_p_value,
    tail_refutes,
)


def worst_mechanism(correct: int, made: int, canaries: int, lines: tuple[tuple[float, float], ...]) -> float:
    """The largest probability of so many right guesses over *all* mechanisms from coins to guesses: no symmetry is assumed.

    Variables are the probability of every pattern of guesses given every pattern of coins, and the positive parts that the divergences
    between neighbours are sums of.
    """
    coins = list(itertools.product((0, 1), repeat=canaries))
    outputs = [t for t in itertools.product((0, 1, None), repeat=canaries) if sum(g is not None for g in t) == made]
    place = {(s, t): i for i, (s, t) in enumerate(itertools.product(coins, outputs))}
    pairs = [(s, tuple(1 - b if j == i else b for j, b in enumerate(s))) for s in coins for i in range(canaries)]
    total = len(place) + len(lines) * len(pairs) * len(outputs)
    rows, limits, slack = [], [], len(place)
    for epsilon, delta in lines:
        for s, other in pairs:
            budget = np.zeros(total)
            for t in outputs:
                row = np.zeros(total)
                row[place[s, t]], row[place[other, t]], row[slack] = 1, -np.exp(epsilon), -1
                budget[slack] = 1
                slack += 1
                rows.append(row)
                limits.append(0.0)
            rows.append(budget)
            limits.append(delta)
    equal = np.zeros((len(coins), total))
    for i, s in enumerate(coins):
        equal[i, [place[s, t] for t in outputs]] = 1
    goal = np.zeros(total)
    for s, t in place:
        if sum(g == b for g, b in zip(t, s, strict=True)) >= correct:
            goal[place[s, t]] = 1 / len(coins)
    solved = linprog(-goal, A_ub=np.array(rows), b_ub=limits, A_eq=equal, b_eq=np.ones(len(coins)), method="highs")
    return float(-solved.fun)


CASES = [
    (correct, made, canaries, epsilon, delta)
    for made, canaries in ((1, 1), (1, 2), (2, 2), (2, 3), (3, 3))
    for correct in range(1, made + 1)
    for epsilon, delta in ((0.0, 0.1), (0.7, 0.0), (1.0, 0.05))
]


@pytest.mark.parametrize(("correct", "made", "canaries", "epsilon", "delta"), CASES)
def test_the_programme_is_the_worst_mechanism(correct: int, made: int, canaries: int, epsilon: float, delta: float) -> None:
    guesses: Any = {"correct": correct, "made": made, "canaries": canaries}
    law = approximate(epsilon, delta)
    truth = worst_mechanism(correct, made, canaries, law.lines)
    assert exact_p_value(law=law, **guesses) == pytest.approx(truth, abs=1e-7)
    assert tail_p_value(law=law, **guesses) >= truth - 1e-6
    if delta == 0:
        assert p_value(epsilon=epsilon, **guesses) == pytest.approx(truth, abs=1e-9)


def test_the_published_formula_for_delta_is_no_bound() -> None:
    """A mechanism written down: two canaries, g(c) the probability of each pattern of guesses with c of them right."""
    epsilon, delta = 1.0, 0.05
    g0 = (1 - delta * (2 + np.e)) / (1 + 2 * np.e + np.e**2)  # g1 = e g0 + delta, g2 = e g1
    g = np.array([g0, np.e * g0 + delta, np.e * (np.e * g0 + delta)])
    assert g @ [1, 2, 1] == pytest.approx(1, abs=1e-12)
    for sign in (1, -1):  # one coin turned either way: four patterns of (this guess right, the other right)
        apart = sum(max(0.0, g[a + b] - np.exp(epsilon) * g[(1 - a) + b]) for a in (0, 1)[::sign] for b in (0, 1))
        assert apart <= delta + 1e-12
    reached = 1 - g[0]
    assert published_p_value(correct=1, made=2, canaries=2, epsilon=epsilon, delta=delta) < reached - 0.002
    assert exact_p_value(correct=1, made=2, canaries=2, law=approximate(epsilon, delta)) >= reached - 1e-9


def test_several_lines_at_once() -> None:
    lines = tuple((e, float(account(GDP(0.8)).delta(e).upper)) for e in (0.0, 0.5, 1.2))
    law = Promised(lines, gaussian(0.8).inverse)
    truth = worst_mechanism(2, 2, 2, lines)
    assert exact_p_value(correct=2, made=2, canaries=2, law=law) == pytest.approx(truth, abs=1e-7)


def test_a_bound_that_forgets_delta_is_below_the_worst_mechanism() -> None:
    assert p_value(correct=2, made=2, canaries=2, epsilon=1.0) < worst_mechanism(2, 2, 2, ((1.0, 0.05),)) - 0.01


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 3), st.sampled_from([0.0, 0.3, 1.0, 2.5]))
@settings(max_examples=25)
def test_without_delta_all_is_the_binomial(made: int, correct: int, abstained: int, epsilon: float) -> None:
    correct = min(correct, made)
    rate = Fraction(float(expit(epsilon)))
    truth = float(sum(comb(made, c) * rate**c * (1 - rate) ** (made - c) for c in range(correct, made + 1)))
    guesses: Any = {"correct": correct, "made": made, "canaries": made + abstained}
    assert p_value(epsilon=epsilon, **guesses) == pytest.approx(truth, abs=1e-12)
    assert exact_p_value(law=approximate(epsilon, 0.0), **guesses) == pytest.approx(truth, abs=1e-6)
    assert tail_p_value(law=approximate(epsilon, 0.0), **guesses) >= truth - 1e-6


@given(st.integers(20, 150), st.floats(0.5, 1.0), st.floats(0.1, 1.0), st.floats(0.0, 2.0), st.sampled_from([1e-5, 1e-3, 0.02]))
@settings(max_examples=15)
def test_the_programme_is_below_the_recursion(made: int, share: float, asked: float, epsilon: float, delta: float) -> None:
    guesses: Any = {"correct": round(share * made), "made": made, "canaries": round(made / asked)}
    law = approximate(epsilon, delta)
    least = exact_p_value(law=law, **guesses)
    # The window of counts costs a little mass far out, and the recursion stops at a relative 1e-6.
    assert least <= tail_p_value(law=law, **guesses) * (1 + 1e-5) + 1e-6


def test_gaussian_lines_agree_with_the_accountant() -> None:
    for epsilon, delta in gaussian(1.3).lines:
        assert delta == pytest.approx(account(GDP(1.3)).delta(epsilon).upper, rel=1e-6, abs=1e-14)


def both_sides(correct: int, made: int, canaries: int, lines: tuple[tuple[float, float], ...]) -> float:
    """The largest probability of so many right guesses by the law of their number: every count, rises and falls, in small tolerances."""
    total, rows, limits, budgets = made + 1, [], [], []
    slack = total + 2 * made * len(lines)
    place = total
    for epsilon, delta in lines:
        budget = np.zeros(slack)
        for c in range(1, made + 1):
            for up in (True, False):
                row = np.zeros(slack)
                row[c if up else c - 1] = c if up else made - c + 1
                row[c - 1 if up else c] = -np.exp(epsilon) * (made - c + 1 if up else c)
                row[place], budget[place] = -1, 1
                rows.append(row)
                limits.append(0.0)
                place += 1
        budgets.append((budget, canaries * delta))
    goal = np.zeros(slack)
    goal[correct:total] = -1
    solved = linprog(
        goal, A_ub=np.array(rows + [b for b, _ in budgets]), b_ub=limits + [d for _, d in budgets],
        A_eq=np.array([[1.0] * total + [0.0] * (slack - total)]), b_eq=[1.0], method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return float(-solved.fun)


@given(st.integers(1, 40), st.floats(0.4, 1.0), st.integers(0, 40), st.floats(0.0, 2.5), st.floats(-6, -1.2))
@settings(max_examples=25)
def test_the_closed_form_is_the_programme_with_both_sides(made: int, share: float, more: int, epsilon: float, power: float) -> None:
    correct, delta = max(1, round(share * made)), 10**power
    truth = both_sides(correct, made, made + more, ((epsilon, delta),))
    # The solver keeps to 1e-10 in every row, and a row is paid at most with the number of guesses.
    assert exact_p_value(correct=correct, made=made, canaries=made + more, law=approximate(epsilon, delta)) == pytest.approx(
        truth, abs=4e-9
    )


@given(st.integers(2, 30), st.floats(0.5, 1.0), st.floats(0.1, 1.5))
@settings(max_examples=10)
def test_falls_need_no_price_under_several_lines_either(made: int, share: float, mu: float) -> None:
    law = gaussian(mu)
    guesses: Any = {"correct": max(1, round(share * made)), "made": made, "canaries": made + 5}
    # As the solver is called in the package, its duals are good to 1e-7.
    assert programme_p_value(law=law, **guesses) == pytest.approx(both_sides(guesses["correct"], made, made + 5, law.lines), abs=1e-6)


@pytest.mark.parametrize(("correct", "made", "canaries"), [(60, 100, 100), (185, 200, 1000), (700, 1000, 1000), (20, 20, 1000)])
def test_the_quick_answers_are_the_p_values_on_either_side(correct: int, made: int, canaries: int) -> None:
    guesses: Any = {"correct": correct, "made": made, "canaries": canaries}
    for epsilon, delta in ((0.2, 1e-5), (0.8, 1e-3), (2.0, 1e-8)):
        law = approximate(epsilon, delta)
        exact, tail = exact_p_value(law=law, **guesses), tail_p_value(law=law, **guesses)
        for error in (0.5 * exact, 0.999 * exact, 1.001 * exact, 2 * exact):
            if 0 < error < 1:
                assert line_refutes(epsilon=epsilon, delta=delta, error=error, **guesses) == (error > exact)
        for error in (0.99 * tail, 1.01 * tail):
            if 1e-11 < error < 1:
                assert tail_refutes(law=law, error=error, **guesses) == (error > tail)


def test_the_window_of_the_closed_form_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    guesses: Any = {"correct": 1560, "made": 2000, "canaries": 5000, "law": approximate(1.0, 1e-5)}
    short = exact_p_value(**guesses)
    monkeypatch.setattr("tacit.audit.models.one_run.FAR", 1e6)
    assert short == pytest.approx(exact_p_value(**guesses), rel=1e-10)


def test_a_window_that_forgets_what_lies_below_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant is a window of no width: the bound may only grow, never fall below the truth."""
    guesses: Any = {"correct": 156, "made": 200, "canaries": 500, "law": approximate(1.0, 1e-4)}
    truth = exact_p_value(**guesses)
    for reach in (-1.0, 0.0, 0.5, 2.0):
        monkeypatch.setattr("tacit.audit.models.one_run.FAR", reach)
        assert exact_p_value(**guesses) >= truth * (1 - 1e-10)


def test_huge_and_tiny_parameters_give_numbers() -> None:
    for epsilon in (0.0, 1e-9, 50.0, 600.0):
        for delta in (0.0, 1e-300, 0.5, 1.0):
            found = exact_p_value(correct=9, made=10, canaries=1000, law=approximate(epsilon, delta))
            assert 0 < found <= 1
    assert exact_p_value(correct=5000, made=5000, canaries=5000, law=approximate(0.1, 0.0)) < 1e-250


def played(correct: int, made: int, canaries: int, epsilon: float, delta: float) -> float:
    """Independent trials played out: each reveals its coin with probability delta and else answers at random; who knows guesses first."""
    total = 0.0
    for kinds in itertools.product(("shown", "right", "wrong"), repeat=canaries):
        chances = {"shown": delta, "right": (1 - delta) * expit(epsilon), "wrong": (1 - delta) * (1 - expit(epsilon))}
        # What is not shown looks alike, so the first of those are guessed on.
        ordered = sorted(kinds, key=lambda kind: kind != "shown")[:made]
        total += float(np.prod([chances[kind] for kind in kinds])) * (sum(kind != "wrong" for kind in ordered) >= correct)
    return total


@pytest.mark.parametrize(("correct", "made", "canaries"), [(1, 1, 1), (2, 2, 5), (3, 4, 6), (4, 4, 6), (1, 3, 4), (5, 6, 7)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.2), (1.0, 0.05), (2.0, 0.0)])
def test_independent_trials_are_what_the_worst_of_them_does(correct: int, made: int, canaries: int, epsilon: float, delta: float) -> None:
    guesses: Any = {"correct": correct, "made": made, "canaries": canaries}
    found = independent_p_value(epsilon=epsilon, delta=delta, **guesses)
    assert found == pytest.approx(played(correct, made, canaries, epsilon, delta), abs=1e-12)
    assert found <= exact_p_value(law=approximate(epsilon, delta), **guesses) + 1e-9, "dependence can only help the guesser"
    if delta > 0 and correct > 1:
        assert p_value(epsilon=epsilon, **guesses) < found - 1e-4, "forgetting delta would be too little"


@given(st.integers(1, 2000), st.floats(0.3, 1.0), st.integers(0, 20_000), st.floats(0, 5), st.floats(-12, 0))
def test_independent_trials_at_any_size(made: int, share: float, more: int, epsilon: float, power: float) -> None:
    guesses: Any = {"correct": max(1, round(share * made)), "made": made, "canaries": made + more}
    found = independent_p_value(epsilon=epsilon, delta=10**power, **guesses)
    assert p_value(epsilon=epsilon, **guesses) * (1 - 1e-9) <= found <= 1
    assert found <= independent_p_value(epsilon=epsilon + 0.1, delta=10**power, **guesses) + 1e-12
