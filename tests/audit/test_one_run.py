"""One-run bounds held against the worst mechanism there is, found by enumeration, and against simulated runs whose truth is known."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit

from tacit.accounting import GDP, ParameterError, account
from tacit.audit.experiment import generator
from tacit.audit.one_run import (
    Law,
    approximate,
    audit_one_run,
    exact_p_value,
    gaussian,
    largest_refuted,
    one_run,
    p_value,
    published_p_value,
    right_guesses,
    tail_p_value,
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
    law = Law(lines, gaussian(0.8).inverse)
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


@cache
def critical(method: str, kind: str, made: int, canaries: int) -> int:
    """The least number of right guesses that refutes the true law at five percent; more of them refute it too."""
    law = {"response": approximate(1.0, 0.0), "gaussian": gaussian(1.0), "leaky": approximate(1.0, 0.03)}[kind]

    def chance(correct: int) -> float:
        guesses: Any = {"correct": correct, "made": made, "canaries": canaries}
        if method == "binomial":
            return p_value(epsilon=1.0, **guesses)
        return (tail_p_value if method == "tail" else exact_p_value)(law=law, **guesses)

    low, high = 0, made + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) <= 0.05 else (middle, high)
    return high


def scores_of(kind: str, coins: Any, draw: Any) -> Any:
    if kind == "gaussian":
        return coins + draw.normal(size=len(coins))
    said = coins ^ (draw.random(len(coins)) > expit(1.0))
    if kind == "leaky" and draw.random() < 0.03:
        said = coins  # once in a while everything comes out
    return said + 1e-3 * draw.random(len(coins))


@pytest.mark.parametrize(
    ("kind", "method"),
    [("response", "binomial"), *((kind, method) for kind in ("response", "gaussian", "leaky") for method in ("exact", "tail"))],
)
def test_the_truth_is_refuted_in_at_most_five_percent_of_runs(kind: str, method: str) -> None:
    draw, canaries, runs = generator(11), 200, 1000
    wrong = dict.fromkeys((200, 40), 0)
    for _ in range(runs):
        coins = draw.random(canaries) < 0.5
        scores = scores_of(kind, coins, draw)
        for made in wrong:
            wrong[made] += right_guesses(scores, coins, made) >= critical(method, kind, made, canaries)
    assert max(wrong.values()) <= 50 + 3 * 7  # five percent, and three deviations of a thousand coins


def test_the_bound_without_delta_is_refuted_too_often() -> None:
    """The mutant: runs that once in a while leak everything, audited at delta 0 with 99% confidence."""
    draw, wrong = generator(12), 0
    for _ in range(600):
        coins = draw.random(200) < 0.5
        correct = right_guesses(scores_of("leaky", coins, draw), coins, 200)
        wrong += p_value(correct=correct, made=200, canaries=200, epsilon=1.0) <= 0.01
    assert wrong > 6 + 3 * 2.5


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["epsilon", "mu"])
def test_the_whole_audit_is_valid_in_a_thousand_runs(measure: Any) -> None:
    draw, above = generator(13), 0
    for _ in range(1000):
        coins = draw.random(300) < 0.5
        scores = scores_of("gaussian" if measure == "mu" else "response", coins, draw)
        above += audit_one_run(scores, coins, measure=measure, method="tail").lower > 1
    assert above <= 50


def test_power_grows_with_canaries_and_stays_below_the_truth() -> None:
    draw, found = generator(14), []
    for canaries in (100, 1000, 10_000):
        coins = draw.random(canaries) < 0.5
        found.append(audit_one_run(scores_of("response", coins, draw), coins).lower)
    assert found == sorted(found) and 0.85 < found[-1] < 1


def test_the_exact_method_is_ahead_of_the_recursion() -> None:
    guesses: Any = {"correct": 95, "made": 100, "canaries": 1000}
    for more in ({"delta": 1e-3}, {"measure": "mu"}):
        exact, tail = (one_run(method=m, **guesses, **more).lower for m in ("exact", "tail"))  # type: ignore[arg-type]
        assert exact >= tail > 0.5


@given(st.integers(1, 60), st.integers(0, 60))
@settings(max_examples=20)
def test_more_right_guesses_prove_no_less(made: int, correct: int) -> None:
    correct = min(correct, made - 1)
    some = one_run(correct=correct, made=made, canaries=made, delta=1e-4, method="tail").lower
    assert one_run(correct=correct + 1, made=made, canaries=made, delta=1e-4, method="tail").lower >= some - 1e-3


def test_the_largest_refuted_is_from_below() -> None:
    for truth in (0.3, 1.0, 7.7):
        found = largest_refuted(lambda x, t=truth: float(x > t), 0.5)  # type: ignore[misc]
        assert truth - 1e-3 < found <= truth


def test_nothing_is_guessed_from_scores_that_are_not_numbers() -> None:
    scores = np.array([np.nan, 3.0, -np.inf, np.inf])
    assert right_guesses(scores, np.array([False, True, False, True]), 4) == 4


@pytest.mark.parametrize(
    "how",
    [
        {"correct": 3, "made": 2, "canaries": 5},
        {"correct": 1, "made": 6, "canaries": 5},
        {"correct": 0, "made": 0, "canaries": 5},
        {"correct": 1, "made": 2, "canaries": 5, "method": "hope"},
        {"correct": 1, "made": 2, "canaries": 5, "method": "binomial", "measure": "mu"},
    ],
    ids=["too many right", "too many made", "none made", "no such method", "binomial mu"],
)
def test_refusals(how: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        one_run(**how)
