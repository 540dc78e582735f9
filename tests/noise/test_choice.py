"""Choices follow their weights exactly, for every kind of number, and tell nothing about them in errors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.noise.reference import ALL_ONES, LEVEL, chi_square, real, scripted

from tacit.accounting import ParameterError
from tacit.noise import choice, choose, choose_weighted, test_mode
from tacit.noise.choice import Exponentials, _exponents, _rough_table
from tacit.noise.enclosed import Table, boundaries

DRAWS = 200_000


def exact_law(log_weights: list[Any], multiplier: Fraction = Fraction(1)) -> list[Any]:
    with mpmath.workdps(60):
        weights = [mpmath.mpf(0) if w == -math.inf else mpmath.exp(real(Fraction(w) * multiplier)) for w in log_weights]
        total = mpmath.fsum(weights)
        return [w / total for w in weights]


CASES: dict[str, tuple[Any, Fraction]] = {
    "floats": (np.array([0.0, 0.1, -1.5, 2.25, -np.inf, 0.7]), Fraction(1)),
    "ints": (np.array([3, 1, 0, 7, 7]), Fraction(1, 3)),
    "unsigned": (np.array([3, 1, 0, 7, 7], dtype=np.uint8), Fraction(1, 2)),
    "far apart": (np.array([-(2**62), 2**62, 2**62 - 1]), Fraction(1)),
    "beyond int64": (np.array([-(2**63), 2**63 - 1, 2**63 - 2]), Fraction(1)),
    "list": ([Fraction(1, 3), -1, 0.25, -math.inf, 0], Fraction(1)),
    "large, close": ([10**40, 10**40 + 1, 10**40 - 1], Fraction(1)),
    "float32": (np.array([0.5, 1.5], dtype=np.float32), Fraction(2)),
}


@pytest.mark.parametrize("name", CASES)
def test_choose_fits_its_law(name: str) -> None:
    values, multiplier = CASES[name]
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    law = exact_law(listed, multiplier)
    with test_mode(1):
        drawn = choose(values, DRAWS, multiplier=multiplier)
    counts = np.bincount(drawn, minlength=len(law))
    assert all(c == 0 for c, p in zip(counts, law, strict=True) if p == 0)
    kept = [i for i, p in enumerate(law) if p * DRAWS >= 10]
    assert chi_square(counts[kept], [law[i] for i in kept], DRAWS) > LEVEL
    shifted = exact_law(listed, multiplier * Fraction(9, 10))  # a mutant: a tenth less epsilon
    kept = [i for i, p in enumerate(shifted) if p * DRAWS >= 10]
    assert len(kept) == 1 or chi_square(counts[kept], [shifted[i] for i in kept], DRAWS) < LEVEL


@given(st.lists(st.floats(min_value=-80, max_value=80), min_size=2, max_size=30), st.fractions(min_value=Fraction(1, 50), max_value=50))
def test_rough_boundaries_enclose_the_exact_ones(log_weights: list[float], multiplier: Fraction) -> None:
    """The words that floating point leaves in doubt contain the boundary; and they are few."""
    _, rough, exact = _exponents(np.array(log_weights), multiplier)
    table = _rough_table(rough, Exponentials(exact))
    lower, upper = boundaries(Exponentials(exact), 64)
    for first, last, low, high in zip(table.first.tolist(), table.last.tolist(), lower, upper, strict=True):
        assert first <= low and high - 1 <= last
        assert last - first <= 2**25
    assert exact() == [(Fraction(max(log_weights)) - Fraction(w)) * multiplier for w in log_weights]


def test_exact_boundaries_are_the_law() -> None:
    log_weights = [0.0, 0.1, -1.5, -40.0, 2.25, -200.0]
    _, _, exact = _exponents(np.array(log_weights), Fraction(1))
    law = exact_law(log_weights)
    lower, upper = boundaries(Exponentials(exact), 128)
    with mpmath.workdps(60):
        for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
            assert low <= mpmath.ldexp(mpmath.fsum(law[: i + 1]), 128) <= high and high - low <= 2


def test_words_in_doubt_are_settled_exactly() -> None:
    """A word in the sliver around a boundary: the next word decides, as 128 bits of the boundary say."""
    law = exact_law([0, -1, -2])
    with mpmath.workdps(60):
        scaled = mpmath.ldexp(law[0], 128)
        word, second = divmod(int(mpmath.floor(scaled)), 2**64)
    near = [([word, second - 1], 0), ([word, second + 1], 1), ([word - 1, 0], 0), ([word + 1, 0], 1)]
    for script, index in [*near, ([0], 0), ([ALL_ONES], 2)]:
        with scripted(script) as used:
            assert choose(np.array([0.0, -1.0, -2.0]), size=1).tolist() == [index]
        assert used.used == len(script)


def test_the_exact_path_agrees_with_the_fast_one() -> None:
    generator = np.random.default_rng(3)
    values = generator.normal(0, 3, 40)
    uniforms = generator.integers(0, 2**64, 60, dtype=np.uint64)
    _, rough, exact = _exponents(values, Fraction(1))
    fast = _rough_table(rough, Exponentials(exact))
    slow = Table(Exponentials(exact), np.zeros_like(fast.first), np.full_like(fast.last, ALL_ONES), indexed=False)
    with scripted([], then=0):
        assert slow.lookup(uniforms).tolist() == fast.lookup(uniforms).tolist()


def test_many_candidates() -> None:
    """A hundred thousand candidates over many rows of sums: groups come with their exact probabilities."""
    scores = np.arange(100_000) % 5
    with test_mode(4):
        drawn = choose(scores, 50_000, multiplier=Fraction(1, 2))
    law = exact_law(list(range(5)), Fraction(1, 2))
    assert chi_square(np.bincount(drawn % 5, minlength=5), law, 50_000) > LEVEL
    assert chi_square(np.bincount(drawn // 10_000, minlength=10), [0.1] * 10, 50_000) > LEVEL


def test_shifts_by_whole_numbers_change_nothing() -> None:
    """Equal differences, equal draws, word for word: 2^60 more is no matter of rounding."""
    scores = np.array([5, 3, 9, 0])
    with test_mode(5):
        first = choose(scores, 1000)
    with test_mode(5):
        assert (choose(scores + 2**60, 1000) == first).all()
    with test_mode(5):
        assert (choose([int(s) for s in scores], 1000) == first).all()


@pytest.mark.parametrize(
    "weights",
    [
        *([1, 2, 3, 0, 4], [Fraction(1, 3), Fraction(1, 7), 2], [0.1, 0.2, 1e-3]),
        *(np.array([5, 0, 1]), np.array([0.5, 0.25]), [10**40, 3 * 10**40]),
    ],
    ids=["ints", "fractions", "floats", "int array", "float array", "large"],
)
def test_choose_weighted_fits_its_law(weights: Any) -> None:
    exact = [Fraction(w) for w in (weights.tolist() if isinstance(weights, np.ndarray) else weights)]
    law = [w / sum(exact) for w in exact]
    with test_mode(2):
        counts = np.bincount(choose_weighted(weights, DRAWS), minlength=len(law))
    kept = [i for i, p in enumerate(law) if p]
    assert all(counts[i] == 0 for i, p in enumerate(law) if not p)
    assert chi_square(counts[kept], [real(law[i]) for i in kept], DRAWS) > LEVEL
    equal = [mpmath.mpf(1) / len(kept)] * len(kept)
    assert chi_square(counts[kept], equal, DRAWS) < LEVEL


@given(st.lists(st.integers(min_value=0, max_value=2**70), min_size=1, max_size=8).filter(any))
def test_choose_weighted_decides_every_word_rightly(weights: list[int]) -> None:
    """The words at both ends of each candidate's run, in rationals."""
    total, before = sum(weights), 0
    for i, weight in enumerate(weights):
        start, end = Fraction(before, total) * 2**64, Fraction(before + weight, total) * 2**64
        for word in (math.ceil(start), math.floor(end) - 1):
            if start <= word and word + 1 <= end:
                with scripted([word], then=0):
                    assert choose_weighted(weights, size=1).tolist() == [i]
        before += weight


def test_shapes_and_types() -> None:
    assert type(choose([0, 1])) is int and type(choose_weighted([1, 1])) is int
    assert choose([0, 0, 0], size=(2, 5)).dtype == np.int64 and choose_weighted([1], size=(2, 0)).shape == (2, 0)
    assert choose([-5]) == 0 and choose([-math.inf, -1e308, -math.inf]) == 1
    assert choose(np.array([1e308, -1e308])) == 0


SECRET = 271828.25


@pytest.mark.parametrize("function", [choose, choose_weighted])
@pytest.mark.parametrize(
    "bad",
    [
        *([], np.array([]), np.zeros((2, 2)), 3, None, "12", {SECRET: 1}),
        *([SECRET, math.nan], [SECRET, math.inf], np.array([SECRET, math.nan]), np.array([SECRET, math.inf])),
        *([SECRET, "x"], [True, SECRET], np.array([1j, SECRET]), np.array([True, False])),
    ],
    ids=[
        *("empty", "empty array", "matrix", "number", "none", "text", "dict"),
        *("nan", "inf", "nan array", "inf array", "mixed", "bool", "complex", "bools"),
    ],
)
def test_bad_weights_are_refused_without_showing_them(function: Any, bad: Any) -> None:
    with pytest.raises(ParameterError, match="weights") as caught:
        function(bad)
    assert "271828" not in str(caught.value)


@pytest.mark.parametrize("zero", [[-math.inf, -math.inf], np.array([-np.inf])], ids=["list", "array"])
def test_nothing_to_choose_is_refused(zero: Any) -> None:
    with pytest.raises(ParameterError, match="log_weights must not all"):
        choose(zero)


def test_negative_and_zero_weights_are_refused() -> None:
    with pytest.raises(ParameterError, match="zero or more"):
        choose_weighted([1, -SECRET])
    with pytest.raises(ParameterError, match="not all be zero"):
        choose_weighted([0, 0.0])
    with pytest.raises(ParameterError, match="multiplier"):
        choose([1, 2], multiplier=0)
    with pytest.raises(ParameterError, match="size"):
        choose([1, 2], size=-1)


def test_a_filter_without_its_margin_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: floating-point sums taken for exact would decide words that belong to the neighbour."""
    values = np.array([0.0, -1.0, -2.0])
    _, rough, exact = _exponents(values, Fraction(1))

    def careless(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(-exponents).astype(np.float32).astype(np.float64)

    monkeypatch.setattr(choice, "rough_exp", careless)
    table = _rough_table(rough, Exponentials(exact))
    lower, upper = boundaries(Exponentials(exact), 64)
    found = zip(table.first.tolist(), table.last.tolist(), lower, upper, strict=True)
    assert any(first > low or last < high - 1 for first, last, low, high in found)
