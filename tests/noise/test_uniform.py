"""Uniform integers and permutations are uniform: no word is lost to bias, no order is preferred."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import ALL_ONES, LEVEL, chi_square, scripted

from tacit.accounting import ParameterError
from tacit.noise import permutation, test_mode, uniform_integers
from tacit.noise.source import _propose


@given(st.one_of(st.integers(min_value=1, max_value=2**63), st.sampled_from([1, 2, 3, 2**32, 2**32 + 1, 2**62 + 1, 2**63 - 1, 2**63])))
def test_each_value_is_reached_by_equally_many_words(n: int) -> None:
    """Words up to the last complete run of n are kept and reduced; the rest, fewer than n, are rejected."""
    limit = 2**64 // n * n
    assert 2**64 - limit < n
    for word, kept in ((0, True), (n - 1, True), (limit - 1, True), (limit, False), (ALL_ONES, limit == 2**64)):
        if word <= ALL_ONES:
            with scripted([word]):
                value, keep = _propose(n, 1)
            assert keep.tolist() == [kept]
            assert not kept or value.tolist() == [word % n]


def test_a_rejected_word_is_replaced() -> None:
    with scripted([ALL_ONES, 7]) as used:
        assert uniform_integers(3, size=1).tolist() == [1]
    assert used.used == 2


def test_small_ranges_are_uniform() -> None:
    for n in (2, 3, 10, 1000):
        with test_mode(n):
            counts = np.bincount(uniform_integers(n, size=200_000), minlength=n)
        assert len(counts) == n
        assert chi_square(counts, [1 / n] * n, 200_000) > LEVEL
        with test_mode(n):
            biased = np.bincount(uniform_integers(n + n // 2, size=200_000) % n, minlength=n)
        assert chi_square(biased, [1 / n] * n, 200_000) < LEVEL


def test_ranges_beyond_64_bits() -> None:
    n = 3 * 2**100
    with test_mode(1):
        values = uniform_integers(n, size=6000)
        assert type(uniform_integers(2**200)) is int
    assert values.dtype == object and min(values) >= 0 and max(values) < n
    for cells in ([v * 12 // n for v in values], [v % 16 for v in values]):
        k = max(cells) + 1
        assert chi_square(np.bincount(cells, minlength=k), [1 / k] * k, 6000) > LEVEL
    assert uniform_integers(2**63, size=2).dtype == np.int64


def test_the_incomplete_run_is_rejected_beyond_64_bits_too() -> None:
    """2^166 leaves 2^100 over a multiple of n: the highest values are drawn again."""
    with scripted([ALL_ONES] * 3 + [0] * 3) as used:
        assert uniform_integers(3 * 2**100, size=1).tolist() == [0]
    assert used.used == 6


def test_all_orders_are_equally_likely() -> None:
    orders = {order: i for i, order in enumerate(permutations(range(4)))}
    with test_mode(5):
        counts = np.bincount([orders[tuple(permutation(4).tolist())] for _ in range(6000)], minlength=24)
    assert chi_square(counts, [1 / 24] * 24, 6000) > LEVEL
    generator = np.random.default_rng(1)
    naive = []
    for _ in range(6000):  # a mutant: every place is swapped with any other, which gives 256 equally likely histories for 24 orders
        order = list(range(4))
        for i in range(4):
            j = int(generator.integers(4))
            order[i], order[j] = order[j], order[i]
        naive.append(orders[tuple(order)])
    assert chi_square(np.bincount(naive, minlength=24), [1 / 24] * 24, 6000) < LEVEL


def test_tied_keys_are_extended() -> None:
    with scripted([5, 5, 1, 9, 3, 10]) as used:  # the first two tie; then 9 puts the first behind the second
        assert permutation(3).tolist() == [2, 1, 0]
    assert used.used == 6


def test_long_permutations() -> None:
    order = permutation(100_000)
    assert order.dtype == np.int64 and (np.sort(order) == np.arange(100_000)).all()
    assert permutation(1).tolist() == [0] and permutation(0).tolist() == []


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, math.inf, "3", None, True], ids=repr)
def test_bad_ranges_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ParameterError, match="n "):
        uniform_integers(bad)
    if bad != 0:
        with pytest.raises(ParameterError, match="n "):
            permutation(bad)
