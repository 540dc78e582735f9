"""A table's boundaries are proved, its index agrees with a search, and words in doubt are settled as the law demands."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import ALL_ONES, real, scripted

from tacit.noise.enclosed import Rationals, Table, Weights, boundaries
from tacit.noise.gaussian import GaussianWeights
from tacit.noise.laplace import GeometricWeights


def masses(weights: GeometricWeights | GaussianWeights | Rationals) -> list[mpmath.mpf]:
    """The law's probabilities in the working precision, from sums in closed form."""
    if isinstance(weights, Rationals):
        return [mpmath.mpf(w) / sum(weights.weights) for w in weights.weights]
    if isinstance(weights, GeometricWeights):
        q = mpmath.exp(-1 / real(weights.scale))
        one_side = [(1 - q) * q**i for i in range(weights.count)] + [q**weights.count]
        if weights.fine is None:
            return one_side
        ratio = mpmath.exp(-1 / real(weights.fine))
        return [p / (1 + ratio) for p in one_side] + [p * ratio / (1 + ratio) for p in one_side]
    total = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * real(weights.variance))))
    side = [mpmath.exp(-mpmath.mpf(k * k) / (2 * real(weights.variance))) for k in range(weights.count)]
    if weights.two_sided:
        inner = [*side, *side[1:]]
        return [p / total for p in inner] + [1 - mpmath.fsum(inner) / total]
    half = (total + 1) / 2  # zero counts once
    return [p / half for p in side] + [1 - mpmath.fsum(side) / half]


LAWS: dict[str, GeometricWeights | GaussianWeights | Rationals] = {
    "geometric 1": GeometricWeights(Fraction(1), 20),
    "geometric 64": GeometricWeights(Fraction(64), 200),
    "geometric 1/1000": GeometricWeights(Fraction(1, 1000), 1),
    "laplace 1/2": GeometricWeights(Fraction(1, 2), 10, Fraction(1, 2)),
    "laplace 61, fine 61 2^40": GeometricWeights(Fraction(61), 100, Fraction(61 * 2**40)),
    "gaussian 1": GaussianWeights(Fraction(1), 8, True),
    "gaussian 1/100": GaussianWeights(Fraction(1, 10**4), 1, True),
    "gaussian 7/3": GaussianWeights(Fraction(49, 9), 19, True),
    "half gaussian 40": GaussianWeights(Fraction(1600), 320, False),
    "rationals": Rationals((1, 7, 10**30, 3, 10**25)),
}


@pytest.mark.parametrize("bits", [64, 200])
@pytest.mark.parametrize("name", LAWS)
def test_boundaries_are_certified(name: str, bits: int) -> None:
    """Each lies between its integers, which are neighbours or nearly so, to 60 digits and more beyond."""
    lower, upper = boundaries(LAWS[name], bits)
    with mpmath.workprec(bits + 400):
        law = masses(LAWS[name])
        assert abs(mpmath.fsum(law) - 1) < mpmath.mpf(2) ** -(bits + 200)
        assert len(lower) == len(upper) == len(law) - 1
        cumulative = mpmath.mpf(0)
        for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
            cumulative += law[i]
            assert low <= mpmath.ldexp(cumulative, bits) <= high
            assert high - low <= 2


@pytest.mark.parametrize("name", LAWS)
def test_every_word_is_decided_as_the_law_demands(name: str) -> None:
    """Enumeration of all 2^64 words: a look-up is monotone in the word, so the words around each boundary tell all others."""
    weights = LAWS[name]
    table = Table.of(weights)
    first, last = table.first.tolist(), table.last.tolist()
    with mpmath.workprec(600):
        cumulative = list(accumulate(masses(weights)))[:-1]
        cells = [min(int(mpmath.floor(mpmath.ldexp(f, 64))), ALL_ONES) for f in cumulative]  # all are below 1, if only by exp(-1000)
    for boundary, word in enumerate(cells):
        for probe in {word - 1, word + 1} - {-1, ALL_ONES + 1}:
            # How many boundaries lie below, by comparison with the exact ones; a word that shares its cell with one is left out.
            if probe not in cells:
                want = sum(probe > cell for cell in cells)
                with scripted([], then=0):
                    assert table.lookup(np.array([probe], dtype=np.uint64)).tolist() == [want]
        assert first[boundary] <= word <= last[boundary] or first[boundary] == last[boundary] + 1 == word


@pytest.mark.parametrize("name", ["laplace 1/2", "gaussian 7/3", "half gaussian 40"])
def test_words_on_a_boundary_are_settled_by_the_next_words(name: str) -> None:
    """The sliver is split where the 128-bit boundary says; words are drawn for it and for nothing else."""
    weights = LAWS[name]
    table = Table.of(weights)
    with mpmath.workprec(600):
        law = masses(weights)
        for boundary in range(0, len(table.first), max(1, len(table.first) // 10)):
            exact = mpmath.fsum(law[: boundary + 1])
            word = int(mpmath.floor(mpmath.ldexp(exact, 64)))
            further = int(mpmath.floor(mpmath.ldexp(exact, 128))) - (word << 64)
            for next_word, cell in ((further - 1, boundary), (further + 1, boundary + 1)):
                with scripted([next_word]) as used:
                    assert table.lookup(np.array([word], dtype=np.uint64)).tolist() == [cell]
                assert used.used == 1


@given(st.lists(st.integers(min_value=1, max_value=10**12), min_size=1, max_size=40), st.integers(min_value=0, max_value=2**32))
def test_index_search_and_settling_agree(weights: list[int], seed: int) -> None:
    """Three routes to the same cell, the last with every word declared doubtful, and the exact rational comparison."""
    law = Rationals(tuple(weights))
    uniforms = np.random.default_rng(seed).integers(0, 2**64, 50, dtype=np.uint64)
    indexed, plain = Table.of(law), Table.of(law, indexed=False)
    doubtful = Table(law, np.zeros_like(plain.first), np.full_like(plain.last, ALL_ONES), indexed=False)
    cumulative = np.cumsum(np.array(weights, dtype=object))
    want = [sum(int(w) * int(cumulative[-1]) >= int(c) << 64 for c in cumulative[:-1]) for w in uniforms]
    with scripted([], then=0):
        assert indexed.lookup(uniforms).tolist() == plain.lookup(uniforms).tolist() == doubtful.lookup(uniforms).tolist() == want


def test_a_boundary_between_two_words_is_never_in_doubt() -> None:
    table = Table.of(Rationals((1, 1)))
    with scripted([]):
        assert table.lookup(np.array([2**63 - 1, 2**63], dtype=np.uint64)).tolist() == [0, 1]


def test_one_cell_needs_no_boundary() -> None:
    table = Table.of(Rationals((5,)))
    assert table.lookup(np.array([0, ALL_ONES], dtype=np.uint64)).tolist() == [0, 0]


class Vague:
    """Weights known only to lie between two integers."""

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        return [2, 5, 1], [3, 9, 4]


def test_boundaries_enclose_every_law_that_the_weights_allow() -> None:
    lower, upper = boundaries(Vague(), 10)
    laws = list(product((2, 3), (5, 9), (1, 4)))
    for i in range(2):
        possible = [Fraction(sum(law[: i + 1]), sum(law)) * 2**10 for law in laws]
        assert lower[i] <= min(possible) < lower[i] + 1 and upper[i] - 1 < max(possible) <= upper[i]


def test_the_index_does_not_decide_the_last_word_in_doubt() -> None:
    """The doubt ends with the very first word of a bucket of the index."""
    start = np.array([2**63], dtype=np.uint64)
    table = Table(Rationals((1, 1)), start, start, indexed=True)
    with scripted([0]) as used:
        assert table.lookup(start).tolist() == [1]
    assert used.used == 1


def test_a_word_may_need_several_extensions() -> None:
    """A uniform that agrees with the boundary 1/3 = 0.010101... for three words, then does not."""
    table = Table.of(Rationals((1, 2)))
    third = 2**64 // 3
    for last, cell in ((third - 1, 0), (third + 1, 1)):
        with scripted([third, third, last]) as used:
            assert table.lookup(np.array([third], dtype=np.uint64)).tolist() == [cell]
        assert used.used == 3


@pytest.mark.parametrize(
    ("name", "bits"),
    [*((n, bits) for n in LAWS for bits in (24, 40) if n != "rationals"), ("gaussian 1", 3), ("gaussian 1", 6), ("gaussian 1/100", 3)],
)
def test_weights_are_enclosed_at_low_precision_too(name: str, bits: int) -> None:
    """Few bits show whether the sum beyond the last term computed is bounded or forgotten."""
    low, high = LAWS[name].bounds(bits)
    with mpmath.workprec(500):
        law = masses(LAWS[name])
        for weight, least, most in zip(law, low, high, strict=True):
            assert least <= mpmath.ldexp(weight / law[0], bits) <= most and most > 0


class Careless:
    """A mutant: weights rounded to 20 bits and declared exact, as a sampler in floating point would have them."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        low, _ = self.weights.bounds(bits)
        coarse = [max(w >> bits - 20, 1) << bits - 20 for w in low]
        return coarse, coarse


def test_rounded_weights_are_caught() -> None:
    lower, upper = boundaries(Careless(LAWS["gaussian 7/3"]), 64)
    with mpmath.workprec(300):
        first = mpmath.ldexp(masses(LAWS["gaussian 7/3"])[0], 64)
        assert not lower[0] <= first <= upper[0]
