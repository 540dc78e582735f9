"""Laws of selections against formulas of their own in floats; what they leak, by enumeration; and mutants that a counterexample finds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.mechanisms import (
    AboveThreshold,
    above_threshold,
    counterexample,
    exponential,
    noisy_max,
    optimal_selection,
    permute_and_flip,
    score_pairs,
    top_k,
    verify,
)

SCORES = [(0, 0, 0), (0, 1, 2), (2, 0, 2), (5, 4, 3)]


def _floats(law: Mapping[Any, Any]) -> dict[Any, float]:
    """The middle of every bracket, each of which must be narrow, and all of them a law."""
    assert all(low <= high and high - low < Fraction(1, 2**60) for low, high in law.values())
    assert sum(low for low, _ in law.values()) <= 1 <= sum(high for _, high in law.values())
    return {answer: float(low + high) / 2 for answer, (low, high) in law.items()}


def _flipped(scores: Sequence[int], rate: float) -> list[float]:
    """Permute and flip over all orders."""
    coins = [math.exp(rate * (s - max(scores))) for s in scores]
    found, orders = [0.0] * len(scores), list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for i in order:
            found[i] += reached * coins[i] / len(orders)
            reached *= 1 - coins[i]
    return found


@pytest.mark.parametrize("scores", SCORES)
def test_laws_of_one_choice(scores: tuple[int, ...]) -> None:
    soft = np.exp(0.35 * np.array(scores))
    assert list(_floats(exponential(0.7).distribution(scores)).values()) == pytest.approx(list(soft / soft.sum()), rel=1e-12)
    gumbel = noisy_max(1 / Fraction(7, 20), noise="gumbel").distribution(scores)
    assert gumbel == exponential(Fraction(7, 10)).distribution(scores)
    assert list(_floats(permute_and_flip(0.7).distribution(scores)).values()) == pytest.approx(_flipped(scores, 0.35), rel=1e-12)
    # exponential noise: candidate i wins where its noise exceeds that of all others, an integral over its own
    noise, step = np.linspace(0, 60, 600_001, retstep=True)
    for i, (low, _) in noisy_max(2).distribution(scores).items():
        others = np.prod([1 - np.exp(-np.maximum(noise + scores[i] - s, 0) / 2) for j, s in enumerate(scores) if j != i], axis=0)
        assert float(low) == pytest.approx(float(np.trapezoid(0.5 * np.exp(-noise / 2) * others, dx=step)), abs=1e-8)


def test_law_of_the_best_in_order() -> None:
    scores, weight = (0, 1, 3, 1), np.exp(0.5 * np.array([0, 1, 3, 1]))
    for (i, j), found in _floats(top_k(2, epsilon=1).distribution(scores)).items():
        assert found == pytest.approx(weight[i] / weight.sum() * weight[j] / (weight.sum() - weight[i]), rel=1e-12)


def test_law_of_the_sparse_vector() -> None:
    made = above_threshold(epsilon=2, threshold=1, aboves=2)
    bar, question, _ = (float(s) if s else None for s in made.scales)
    z = np.arange(-400, 401)
    mass = np.tanh(0.5 / bar) * np.exp(-np.abs(z) / bar)
    noise = np.tanh(0.5 / question) * np.exp(-np.abs(z) / question)
    scores = (0, 2, 1)
    yes = [np.array([noise[z >= 1 + t - s].sum() for t in z]) for s in scores]
    found = _floats(made.distribution(scores))
    assert len(found) == 7 and (True, True) in found and (True, True, True) not in found
    for answers, chance in found.items():
        each = np.prod([yes[i] if answer else 1 - yes[i] for i, answer in enumerate(answers)], axis=0)
        assert chance == pytest.approx(float(mass @ each), rel=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "monotone", "price"),
    [
        (exponential(1), False, 1.0),
        (exponential(1), True, 0.5),
        (noisy_max(2), False, 1.0),
        (noisy_max(2), True, 0.5),
        (permute_and_flip(1), False, 1.0),
        (top_k(2, epsilon=Fraction(1, 2)), False, 1.0),
    ],
    ids=str,
)
def test_selections_leak_no_more_than_they_say(mechanism: Any, monotone: bool, price: float) -> None:
    found = verify(mechanism, score_pairs(3, 1, monotone=monotone))
    assert 0.5 * price < found.epsilon.lower <= found.epsilon.upper <= price * (1 + 1e-12)
    assert counterexample(mechanism, score_pairs(3, 1, monotone=monotone), epsilon=Fraction(price) + Fraction(1, 10**9)) is None


def test_the_sparse_vector_and_the_keys_leak_no_more_than_they_say() -> None:
    sparse = above_threshold(epsilon=1, threshold=1, aboves=1)
    pairs = [((0, 0, 2), (1, 1, 1)), ((0, 0, 0), (1, 1, -1)), ((2, 2, 2), (1, 1, 3))]
    assert 0.3 < verify(sparse, pairs, bits=64).epsilon.upper <= 1
    rule = optimal_selection(epsilon=1, delta=Fraction(1, 100))
    found = verify(rule, [(n, n + 1) for n in range(12)], epsilon=1)
    assert found.delta is not None and Fraction(99, 10_000) < found.delta[1] <= Fraction(1, 100)


@dataclass(frozen=True)
class _Quiet(AboveThreshold):
    """The published variant whose questions have no noise of their own (Lyu, Su and Li 2017, Algorithm 5), all but."""

    @property
    def scales(self) -> tuple[Fraction, Fraction, Fraction | None]:
        return super().scales[0], Fraction(1, 20), None


def test_counterexamples_give_mutants_away() -> None:
    wrong = counterexample(exponential(2), score_pairs(2, 1), epsilon=1)
    assert wrong is not None and wrong.excess > 0 and len(wrong.answers) == 1
    quiet = counterexample(_Quiet(epsilon=1, threshold=1), [((0, 1), (1, 0))], epsilon=1, bits=64)
    assert quiet is not None and quiet.excess > Fraction(1, 100)
    assert (False, True) in quiet.answers  # "below" at 0 and "above" at 1: hardly possible the other way round


def test_what_cannot_be_listed_is_refused() -> None:
    with pytest.raises(ParameterError, match="12 scores"):
        exponential(1).distribution(range(13))
    with pytest.raises(ParameterError, match="numeric"):
        above_threshold(1, 0, numeric=Fraction(1, 4)).distribution([0])
    with pytest.raises(ParameterError, match="whole"):
        above_threshold(1, 0).distribution([0.5])
    with pytest.raises(ParameterError, match="k must"):
        top_k(4, 1).distribution([0, 1])
