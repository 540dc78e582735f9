"""Bounds from independent trials held against truths that are known, mutants that forget one of the two rates' ties, and each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtr

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.independent import as_coins, coin_evidence, guessed_bound, tail_bound, whole_bound
from tacit.audit.models.one_run import independent_p_value
from tacit.audit.models.roc import evidence_of


def drawn(kind: str, bits: Any, draw: Any) -> Any:
    if kind == "gaussian":
        return bits + draw.normal(size=len(bits))
    if kind == "laplace":
        return bits + draw.laplace(size=len(bits))
    said = bits ^ (draw.random(len(bits)) > expit(1.0))
    revealed = draw.random(len(bits)) < 0.05
    return np.where(revealed, np.where(bits, 9.0, -9.0), said.astype(float)) + 1e-3 * draw.random(len(bits))


CASES = [("laplace", 0.0, "epsilon"), ("gaussian", 0.0, "mu"), ("revealing", 0.05, "epsilon")]


@pytest.mark.parametrize("coins", [True, False], ids=["coins", "fixed numbers"])
@pytest.mark.parametrize(("kind", "delta", "measure"), CASES)
def test_the_bound_is_above_the_truth_in_at_most_five_percent(kind: str, delta: float, measure: Any, coins: bool) -> None:
    """Epsilon 1, mu 1, and epsilon 1 at delta 0.05: randomised response that reveals one answer in twenty."""
    draw, above, runs = generator(5), 0, 400
    for i in range(runs):
        bits = draw.random(300) < 0.5 if coins else np.arange(300) % 2 == 0
        found = coin_evidence(drawn(kind, bits, draw), bits, attack="a", game="g", delta=delta, measure=measure, coins=coins, seed=i)
        above += found.lower > 1
    assert above <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)


def test_forgetting_delta_is_above_the_truth_nearly_always() -> None:
    draw, above = generator(6), 0
    for i in range(40):
        bits = draw.random(4000) < 0.5
        above += coin_evidence(drawn("revealing", bits, draw), bits, attack="a", game="g", delta=0.0, seed=i).lower > 1
    assert above > 30


@given(st.floats(0.05, 3), st.floats(0.001, 0.45), st.integers(1, 2))
def test_the_formulas_return_the_truth_on_exact_shares(mu: float, fpr: float, sides: int) -> None:
    """With no sampling error the tail gives back mu, and epsilon at delta, of a Gaussian curve."""
    from scipy.special import ndtri

    tpr, trials = float(ndtr(ndtri(fpr) + mu)), 10**12
    share, size = tpr / (tpr + fpr), (tpr + fpr) / 2 * sides
    if size > 1:
        return
    above = round(size * trials)
    hits = round(share * above)
    assert tail_bound(hits, above, trials, 0.5, delta=0, measure="mu", sides=sides) == pytest.approx(mu, abs=1e-3)
    delta = fpr / 10
    expected = max(0.0, math.log((tpr - delta) / fpr))
    assert tail_bound(hits, above, trials, 0.5, delta=delta, measure="epsilon", sides=sides) == pytest.approx(expected, abs=1e-3)


@given(st.floats(0.0, 3.0), st.sampled_from([0.0, 1e-3, 0.1]))
def test_guessing_on_everybody_gives_back_the_best_accuracy(epsilon: float, delta: float) -> None:
    from tacit.audit.rates import most_accuracy

    trials = 10**12
    found = whole_bound(round(most_accuracy(epsilon, delta) * trials), trials, 0.5, delta=delta, measure="epsilon")
    assert found == pytest.approx(epsilon, abs=1e-3)


@given(st.integers(1, 400), st.floats(0.4, 1.0), st.sampled_from([0.0, 1e-6, 1e-3, 0.05]))
def test_what_is_refuted_is_refuted_and_hardly_more_is_not(made: int, share: float, delta: float) -> None:
    right, trials = max(1, round(share * made)), 2 * made
    found = guessed_bound(right, made, trials, 0.05, delta=delta)
    told: dict[str, Any] = {"correct": right, "made": made, "canaries": trials, "delta": delta}
    if found > 0:
        assert independent_p_value(epsilon=found, **told) <= 0.05 * (1 + 1e-9)
    assert independent_p_value(epsilon=found + 2e-5 * max(1.0, found), **told) > 0.05 * (1 - 1e-8)
    assert guessed_bound(right, made, trials, 0.05, delta=delta, known=found / 2) == pytest.approx(found, abs=2e-5 * max(1.0, found))
    assert guessed_bound(right, made, trials, 0.05, delta=delta, known=found + 1) == found + 1


def test_more_is_proved_than_by_two_intervals() -> None:
    draw = generator(7)
    for kind, delta, measure in CASES[:2]:
        ours, two = [], []
        for i in range(15):
            bits = draw.random(1000) < 0.5
            scores = drawn(kind, bits, draw)
            told: dict[str, Any] = {"attack": "a", "game": "g", "delta": delta, "measure": measure, "seed": i}
            ours.append(coin_evidence(scores, bits, **told).lower)
            two.append(evidence_of(scores, bits, **told).lower)
        assert np.mean(ours) > np.mean(two)


def test_coins_are_fair_and_use_nearly_all_trials() -> None:
    draw, bits = generator(8), np.arange(200) < 100
    orders = [as_coins(bits, draw) for _ in range(200)]
    assert np.mean([len(order) for order in orders]) > 180
    first = np.array([bits[order[:150]] for order in orders if len(order) >= 150])
    assert len(first) > 195
    # 150 columns of 200 coins: each mean deviates by 0.035, the largest of them by less than five times that.
    assert abs(first.mean(axis=0) - 0.5).max() < 0.18 and abs(first.mean() - 0.5) < 0.02
    assert np.var(first.sum(axis=1)) == pytest.approx(150 / 4, rel=0.4), "as spread out as coins; fixed numbers would be less so"


def test_few_trials_and_scores_that_are_no_numbers() -> None:
    assert coin_evidence([1.0] * 4, [True, False] * 2, attack="a", game="g").lower == 0
    bits = np.arange(400) % 2 == 0
    assert coin_evidence(np.where(bits, np.inf, np.nan), bits, attack="a", game="g", coins=False, seed=1).lower > 2
    assert coin_evidence(np.zeros(400), bits, attack="a", game="g", coins=False, seed=1).lower < 0.2
    with pytest.raises(ParameterError, match="one bit"):
        coin_evidence([1.0], [True, False], attack="a", game="g")
