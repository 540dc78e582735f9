"""Local hashing: the family is strongly universal, the walk over places equals the hash, the function does not depend on the value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.local.oracles import shares, supports
from tests.noise.reference import LEVEL, chi_square

from tacit import noise
from tacit.errors import ParameterError
from tacit.local import LocalHash
from tacit.local.hashing import best_symbols


@pytest.mark.parametrize("symbols", [2, 3, 4, 56, 2982, 2**16])
def test_walking_over_the_places_equals_the_hash(symbols: int) -> None:
    oracle = LocalHash(300, 1, symbols)
    reports = oracle.privatise(np.arange(200) % 300)
    plain = [int((oracle.hashed(reports["a"], reports["b"], np.uint64(v)) == reports["symbol"]).sum()) for v in range(300)]
    assert supports(oracle, reports).tolist() == plain


def test_the_hash_in_whole_numbers() -> None:
    """As the wire page states it, in Python's integers."""
    oracle = LocalHash(10, 1, 5)
    a, b = noise.words(50), noise.words(50)
    for x in (0, 1, 9, 2**32 - 1):
        found = oracle.hashed(a, b, np.uint64(x))
        for i in range(50):
            value = (int(a[i]) * x + int(b[i])) % 2**64
            assert int(found[i]) == ((value >> 32) * 5) >> 32


def test_pairs_of_symbols_are_independent() -> None:
    """Two places' symbols under a random function: all pairs alike, chi-square at 1e-6; with one factor for all, a = 1, they are not."""
    oracle, draws = LocalHash(100, 1, 4), 200_000
    a, b = noise.words(draws), noise.words(draws)
    for x, y in ((0, 1), (3, 77), (64, 65)):
        for factor, uniform in ((a, True), (np.ones_like(a), False)):
            pair = oracle.hashed(factor, b, np.uint64(x)) * np.uint64(4) + oracle.hashed(factor, b, np.uint64(y))
            counts = np.bincount(pair.astype(np.int64), minlength=16)
            assert (chi_square(counts, [1 / 16] * 16, draws) > LEVEL) == uniform


class SeedFromValue(LocalHash):
    """The mutant: the function's first factor is tied to the value."""

    def _drawn(self, values):  # type: ignore[no-untyped-def]
        found = super()._drawn(values)
        a = (found["a"] & np.uint64(2**60 - 1)) | ((values.astype(np.uint64) % np.uint64(16)) << np.uint64(60))
        true = self.hashed(found["a"], found["b"], values.astype(np.uint64))
        moved = self.hashed(a, found["b"], values.astype(np.uint64))
        found["symbol"] = (found["symbol"].astype(np.int64) - true.astype(np.int64) + moved.astype(np.int64)) % self.symbols
        found["a"] = a
        return found


@pytest.mark.parametrize(("kind", "honest"), [(LocalHash, True), (SeedFromValue, False)])
def test_the_function_does_not_depend_on_the_value(kind: type[LocalHash], honest: bool) -> None:
    """The top 4 bits of a and of b, for two values: uniform at level 1e-6 each. The mutant's symbols alone would look right."""
    draws, worst = 50_000, 1.0
    for value in (0, 9):
        reports = kind(100, 1).privatise(np.full(draws, value))
        for part in ("a", "b"):
            counts = np.bincount((reports[part] >> np.uint64(60)).astype(np.int64), minlength=16)
            worst = min(worst, chi_square(counts, [1 / 16] * 16, draws))
    assert (worst > LEVEL) == honest


def test_erratum_e3_wrong_symbols_have_probability_1_over_e_plus_g_minus_1() -> None:
    odds = math.e
    g = odds + 1
    printed = 0.5 + (g - 1) / (1 + odds)  # the true symbol with 1/2, each of g - 1 wrong ones with 1 / (1 + e)
    assert printed == pytest.approx(1.231, abs=5e-4) and printed != pytest.approx(1)
    assert 0.5 + (g - 1) / (odds + g - 1) == pytest.approx(1)
    oracle, n = LocalHash(20, 1, 4), 400_000
    reports = oracle.privatise(np.zeros(n, dtype=np.int64))
    true = oracle.hashed(reports["a"], reports["b"], np.uint64(0)).astype(np.int64)
    step = (reports["symbol"].astype(np.int64) - true) % 4
    right = [odds / (odds + 3), *[1 / (odds + 3)] * 3]
    assert chi_square(np.bincount(step, minlength=4), right, n) > LEVEL
    assert chi_square(np.bincount(step, minlength=4), [1 - 3 / (1 + odds), *[1 / (1 + odds)] * 3], n) < LEVEL  # as printed


def test_many_symbols() -> None:
    """Epsilon 8, 2,982 symbols: the held share is found within 6 deviations."""
    oracle, n = LocalHash(8, 8), 20_000
    found = shares(oracle, oracle.privatise(np.zeros(n, dtype=np.int64)))
    for value in range(8):
        assert abs(found[value] - (value == 0)) < 6 * math.sqrt(oracle.variance(n, int(value == 0)))


def test_the_best_number_of_symbols_by_trying_all() -> None:
    for epsilon in (0.1, 0.5, 1, 1.7, 2, 4, 6):
        odds = math.exp(epsilon)
        best = min(range(2, 2000), key=lambda g: (odds - 1 + g) ** 2 / (g - 1))
        assert best_symbols(epsilon) == best


def test_bad_symbols_are_refused() -> None:
    for bad in (1, 2**17, -3):
        with pytest.raises(ParameterError, match="symbols"):
            LocalHash(5, 1, bad)
    rows = np.zeros((3, 18), dtype=np.uint8)
    rows[1, 16] = 4
    assert LocalHash(5, 1, 4).from_bytes(rows)[1].tolist() == [True, False, True]
