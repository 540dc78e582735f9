"""The optimal rule as a mechanism: the recurrence in other arithmetic, the price of several keys, and the draws themselves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import ApproxDP, Group, ParameterError, Repeated, account
from tacit.mechanisms import OptimalSelection, optimal_selection
from tacit.mechanisms.partition_selection import holdings_of, optimal_probabilities
from tacit.noise import test_mode as seeded


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 5), st.floats(1e-9, 0.3))
def test_probabilities_follow_the_recurrence(epsilon: float, delta: float) -> None:
    bits, found = optimal_probabilities(Fraction(epsilon), Fraction(delta))
    value = 0.0
    for n, whole in enumerate(found):
        assert whole / (1 << bits) == pytest.approx(value, rel=1e-9, abs=1e-12), n
        value = min(math.exp(epsilon) * value + delta, 1 - math.exp(-epsilon) * (1 - value - delta), 1.0)


def test_the_price_is_of_every_key() -> None:
    rule = optimal_selection(Fraction(1, 4), Fraction(1, 10**6), keys=3)
    assert rule.price(1) == Repeated(ApproxDP(Fraction(1, 4), Fraction(1, 10**6)), 3)
    assert isinstance(rule.price(2), Group)
    assert account(rule.price(1)).epsilon(3e-6).upper <= 0.75 + 1e-9


def test_keys_are_drawn_with_their_probability() -> None:
    """Two thousand keys of three people each: a binomial number of them, within five deviations."""
    rule = optimal_selection(1, 0.1)
    chance = float(rule.probabilities[2])
    holdings = holdings_of((person, [f"k{i}" for i in range(2000)]) for person in ("a", "b"))
    wide = OptimalSelection(1, 0.1, keys=2000)
    with seeded(4):
        found = len(wide.select(holdings))
    assert abs(found - 2000 * chance) < 5 * math.sqrt(2000 * chance * (1 - chance))
    assert rule.chance(2) == pytest.approx(chance) and rule.chance(10**9) == 1.0


def test_composition_may_give_each_key_more_than_an_equal_share() -> None:
    rule = OptimalSelection.for_budget(1, 1e-6, keys=200)
    assert float(rule.epsilon) > 1 / 200
    assert account(rule.price(1)).epsilon(1e-6).upper <= 1 + 1e-9
    assert np.diff([float(p) for p in optimal_selection(1, 1e-3).probabilities]).min() > 0


def test_too_small_an_epsilon_is_refused() -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        _ = OptimalSelection(1e-9, 1e-9).probabilities
