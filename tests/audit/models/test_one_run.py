"""One-run bounds held against simulated runs whose truth is known, and against the search that knows the whole p-value."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.one_run import (
    approximate,
    audit_one_run,
    exact_p_value,
    gaussian,
    largest_by_chords,
    largest_refuted,
    one_run,
    p_value,
    right_guesses,
    tail_p_value,
)


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
        for known in (None, 0.2, truth - 1e-3):
            found = largest_refuted(lambda x, t=truth: x <= t, known=known)  # type: ignore[misc]
            assert truth - 1e-4 < found <= truth
    assert largest_refuted(lambda x: False) == 0.0


@pytest.mark.parametrize("bend", [0.0, 5.0, -5.0])
@pytest.mark.parametrize("truth", [0.3002, 0.31, 0.4, 0.9])
def test_chords_find_the_crossing_from_below_in_few_steps(bend: float, truth: float) -> None:
    asked = []

    def p(x: float) -> float:
        asked.append(x)
        return 0.05 * math.exp((10 + bend * (x - truth)) * (x - truth))

    found = largest_by_chords(p, 0.05, known=0.3)
    assert truth - 1e-3 <= found <= truth or (found == 0.3 and truth < 0.301)
    assert len(asked) <= (14 if truth == 0.9 else 8)


def searched(tests: list[tuple[int, int]], canaries: int, error: float, p: Any) -> float:
    """The oracle: each test by itself, bisected on its whole p-value."""
    best = 0.0
    for correct, made in tests:
        low, high = 0.0, 8.0
        if p(low, correct=correct, made=made, canaries=canaries) > error:
            continue
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (middle, high) if p(middle, correct=correct, made=made, canaries=canaries) <= error else (low, middle)
        best = max(best, low)
    return best


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("method", ["exact", "tail"])
def test_all_tests_together_find_what_each_by_itself_would(mu: float, method: Any) -> None:
    draw = generator(21)
    coins = draw.random(400) < 0.5
    scores = mu * coins + draw.normal(size=400)
    tests = [(right_guesses(scores, coins, made), made) for made in (8, 20, 80, 400)]
    by = exact_p_value if method == "exact" else tail_p_value
    truth = searched(tests, 400, 0.0125, lambda x, **told: by(law=approximate(x, 1e-4), **told))
    assert audit_one_run(scores, coins, delta=1e-4, method=method).lower == pytest.approx(truth, abs=3e-5 * max(1.0, truth))
    if method == "tail":
        truth = searched(tests, 400, 0.0125, lambda x, **told: by(law=gaussian(x), **told))
        assert audit_one_run(scores, coins, measure="mu", method=method).lower == pytest.approx(truth, abs=3e-5)


def test_programmes_find_what_bisection_would() -> None:
    for correct, made in ((75, 80), (28, 40)):
        truth = searched([(correct, made)], 100, 0.05, lambda x, **told: exact_p_value(law=gaussian(x), **told) if x < 2 else 1.0)
        found = one_run(correct=correct, made=made, canaries=100, measure="mu").lower
        # The recursion knows the whole curve, the programme eight of its tangents: either may be ahead.
        tail = one_run(correct=correct, made=made, canaries=100, measure="mu", method="tail").lower
        assert max(truth, tail) - 1e-3 <= found <= max(truth, tail) + 1e-4


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
