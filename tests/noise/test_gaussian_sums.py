"""Real sums plus Gaussian noise on whole numbers: the law against exact cells, every stage in exact arithmetic, a mutant of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import chi2

from tacit.errors import ParameterError
from tacit.noise import add_gaussian, gaussian, rounded_gaussian, test_mode, words
from tacit.noise import gaussian_sums as module
from tacit.noise.enclosed import exp_bounds
from tacit.noise.gaussian_sums import LIMIT, OPEN, PLACE, SHORT, GaussianSumsLaw, Short, _from_system, gaussian_sums_law

SURE = 1e-9  # a right sampler fails one of these comparisons with this probability; seeds are fixed, so it never does


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Cells of up to a standard deviation in place of 1/64: a third of the pairs is rejected, so that every stage is seen in few draws."""
    monkeypatch.setattr(gaussian, "LARGEST", 2)
    caches = gaussian.gaussian_law, gaussian.rounded_gaussian_law, gaussian_sums_law
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def drawn(law: GaussianSumsLaw, x: float, count: int) -> NDArray[np.int64]:
    values = np.full(count, x)
    law.add(values, 1.0, 1.0, _from_system)
    return values.astype(np.int64)


def fits(found: NDArray[np.int64], x: float, sigma: float) -> float:
    """The p-value of the counts of each whole number against its exact probability; the ends are pooled."""
    middle = math.ceil(x)
    edges = np.arange(middle - math.ceil(3.5 * sigma), middle + math.ceil(3.5 * sigma) + 1)
    expected = len(found) * np.diff(ndtr((edges - middle) / sigma), prepend=0, append=1)  # k stands for [k, k + 1)
    counts = np.bincount(np.searchsorted(edges, found, side="right"), minlength=len(expected))
    seen = expected > 1e-6
    assert not counts[~seen].any()
    return float(chi2.sf(((counts - expected) ** 2)[seen] @ (1 / expected[seen]), seen.sum() - 1))


OFFSETS = [0.0, 0.25, -0.5, 1e6 + 0.375, -7.9]


@pytest.mark.parametrize("x", OFFSETS)
@pytest.mark.parametrize("sigma", [Fraction(3, 2), Fraction(1, 3), Fraction(20)])
def test_every_whole_number_has_its_probability(x: float, sigma: Fraction) -> None:
    with test_mode(int(8 * abs(x)) + sigma.numerator):
        assert fits(drawn(gaussian_sums_law(sigma), x, 200_000), x, float(sigma)) > SURE


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("x", OFFSETS)
def test_the_law_holds_with_coarse_cells(x: float) -> None:
    """Here a third is rejected, and the mutants that accept what they should not are seen."""
    with test_mode(11):
        law = GaussianSumsLaw(Fraction(6))
        assert (law.bits, law.small) == (2, Fraction(3, 2))
        assert fits(drawn(law, x, 200_000), x, 6.0) > SURE

        eager = GaussianSumsLaw(Fraction(6))
        eager.surplus -= 2  # sure of acceptance too early
        assert fits(drawn(eager, x, 200_000), x, 6.0) < SURE
        flat = GaussianSumsLaw(Fraction(6))
        flat.rate = 0.0  # accepts everything that is looked at
        assert fits(drawn(flat, x, 200_000), x, 6.0) < SURE


@pytest.mark.parametrize("sigma", [4096, 2**37])
def test_the_law_of_training(sigma: int) -> None:
    """Against the exact cells, beside rounded noise; and the last bits are fair."""
    with test_mode(5):
        found = add_gaussian(np.zeros(1 << 20), sigma).astype(np.int64)
        other = rounded_gaussian(sigma, size=1 << 18)
    edges = np.linspace(-4, 4, 81)
    for values, half in ((found, 0.0), (other, 0.5)):
        expected = len(values) * np.diff(ndtr((np.ceil(edges * sigma - half) - half) / sigma), prepend=0, append=1)
        counts = np.bincount(np.searchsorted(np.ceil(edges * sigma - half) - half, values, side="right"), minlength=82)
        assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 81) > SURE
        bits = np.bincount(values & 63, minlength=64)
        assert chi2.sf(((bits - len(values) / 64) ** 2 / (len(values) / 64)).sum(), 63) > SURE
    fine = found / sigma  # neither rounding is seen in the mean: they make up for each other
    assert abs(fine.mean()) < 6 / math.sqrt(len(fine)) and abs(fine.var() - 1) < 6 * math.sqrt(2 / len(fine))


# Each stage, exactly


def words_of(count: int) -> Short:
    """The short words of `count` numbers, among them many at the ends."""
    rng = np.random.default_rng(4)
    first, coin = rng.integers(0, 2**16, (2, count), dtype=np.uint16)
    place = rng.integers(-(2**31), 2**31, count, dtype=np.int32)
    first[: count // 8] = rng.choice(np.array([0, 1, 2**15, 2**16 - 2, 2**16 - 1], dtype=np.uint16), count // 8)
    ends = np.array([0, 1, 2**31 - 1, -(2**31), -1], dtype=np.int32)
    place[count // 8 : count // 4] = rng.choice(ends, count // 8)
    coin[count // 4 : count // 2] >>= np.uint16(8)
    return Short(place, first, coin)


def mistakes(law: GaussianSumsLaw, short: Short) -> int:
    """How many numbers the short words are said to settle, though some Z that begins with them would be rejected or rounded otherwise."""
    work = module._work()
    n = len(short.first)
    work.bytes[: 8 * n] = b"".join(column.tobytes() for column in short)
    doubt, _ = law._settled(n, work)
    wrong = 0
    top = np.uint64(2**48 - 1)
    for i in np.setdiff1d(np.arange(n), doubt).tolist():
        first = np.array([short.first[i]], dtype=np.uint64) << np.uint64(48)
        ends = {int(law.half.values[law.half.table.lookup(first | more)][0]) for more in (np.uint64(0), top)}
        whole = ends.pop()
        signed = int(short.place[i])
        leading = signed if signed >= 0 else ~signed
        acceptance = exp_bounds(law._exponent(whole, Fraction(leading + 1, 1 << PLACE)), 64)[0]
        sizes = [Fraction(2) ** law.bits * (whole + Fraction(leading + j, 1 << PLACE)) for j in (0, 1)]
        lower, upper = sizes if signed >= 0 else (-sizes[1], -sizes[0])
        rounds = {lower // 1, -(-upper // 1) - 1}
        refused = ((int(~short.coin[i]) & 0xFFFF) + 1) << 48 > acceptance
        wrong += bool(ends) or whole >= law.half.count or refused or rounds != {int(work.z[i])}
    return wrong


@pytest.mark.parametrize("sigma", [Fraction(4096), Fraction(3, 2), Fraction(4000), Fraction(2**37), Fraction(2**37 - 1, 3)])
def test_what_the_short_words_settle_is_certain(sigma: Fraction) -> None:
    law, short = GaussianSumsLaw(sigma), words_of(4000)
    assert mistakes(law, short) == 0
    index = law.index.copy()

    law.index = np.where(index == OPEN, 0, index)  # mutant: the first word decides where it does not
    assert mistakes(law, short) > 0
    law.index = index
    law.surplus -= 3  # mutant: too sure of acceptance
    assert mistakes(law, short) > 0
    law.surplus += 3
    law.unit /= 2  # mutant: a place of f is taken for half as wide
    assert mistakes(law, short) > 0


def test_every_first_word_tells_what_all_its_extensions_tell() -> None:
    law = GaussianSumsLaw(Fraction(4096))
    ends = np.arange(2**SHORT, dtype=np.uint64) << np.uint64(48)
    low, high = (law.half.values[law.half.table.lookup(ends | np.uint64(more))] for more in (0, 2**48 - 1))
    told = law.index != OPEN
    assert (low[told] == high[told]).all() and (low[told] == law.index[told]).all() and (~told).mean() < 0.005
    # and no coin that passes for accepted can be rejected, for any place
    for m in np.unique(law.index[told]).tolist():
        rejected = 2**64 - exp_bounds(law._exponent(m, Fraction(1)), 64)[0]
        assert rejected <= (m + 1) << law.surplus + 48


# The way of those that are not settled


@pytest.mark.parametrize("sigma", [Fraction(4096), Fraction(3, 2), Fraction(2**37), Fraction(2**37 - 1, 3)])
def test_a_word_beside_one_boundary_lies_in_the_cell_that_a_search_finds(sigma: Fraction) -> None:
    law = gaussian_sums_law(sigma)
    table = law.half.table
    one, starts = np.uint64(1), np.arange(2**16, dtype=np.uint64) << np.uint64(48)
    near = [table.first - one, table.first, table.first + one, table.last, table.last + one]
    anywhere = np.random.default_rng(1).integers(0, 2**64, 2**16, np.uint64)
    words = np.concatenate([*near, starts, starts | np.uint64(2**48 - 1), anywhere])
    words = words[law.index[(words >> np.uint64(48)).astype(np.intp)] == OPEN]
    cells, unsure = law.cuts.told((words >> np.uint64(48)).astype(np.uint16), words)
    left = np.isin(np.arange(len(words)), unsure)
    assert (cells[~left] == table.lookup(words[~left])).all() and (~left).sum() > 2 * len(law.cuts.cell) > 4
    # What a boundary's own enclosure does not decide is never told, nor is the last cell.
    place = np.searchsorted(table.first, words, side="right")
    inside = (place > 0) & (words <= table.last[np.maximum(place - 1, 0)])
    assert left[inside].all() and inside.any() and cells[~left].max() < law.half.count


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("sigma", [Fraction(6), Fraction(3 * 2**30)])
def test_floats_and_fractions_decide_alike(sigma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words by the ends of the short ones, through float64 with margins, and one by one in whole numbers."""
    law = GaussianSumsLaw(sigma)
    with test_mode(2):
        short, more = words_of(3000), words(9000).reshape(3, 3000)
    fast, kept = law._settled_by(short, more)
    monkeypatch.setattr(module, "SLACK", -0.01)  # mutant: too sure of both
    assert (law._settled_by(short, more)[1] != kept).any()
    monkeypatch.setattr(module, "SLACK", 2.0)
    assert (law._settled_by(short, more)[1] == kept).all()
    monkeypatch.setattr(module, "MARGIN", 2.0)
    slow, also = law._settled_by(short, more)
    assert (kept == also).all() and (fast == slow).all() and 0.4 < kept.mean() < 0.95
    for i in range(0, 3000, 10):  # and where Z lies is told by whole numbers
        cell = law.half.table.lookup(module._extended(short.first[i : i + 1], more[0, i : i + 1]))
        whole = int(law.half._beyond(law.half.values[cell])[0][0])
        signed = int(short.place[i])
        size = Fraction(2) ** law.bits * (whole + Fraction((signed if signed >= 0 else ~signed) * 2 + 1, 2 << PLACE))
        assert fast[i] == (size if signed >= 0 else -size) // 1


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("way", ["floats", "fractions"])
def test_numbers_that_nothing_settles_at_once_have_the_same_law(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    law = GaussianSumsLaw(Fraction(6))
    law.index[:] = OPEN
    if way == "fractions":
        monkeypatch.setattr(module, "SLACK", 2.0)
        monkeypatch.setattr(module, "MARGIN", 2.0)
    with test_mode(3):
        assert fits(drawn(law, 0.3, 200_000 if way == "floats" else 4000), 0.3, 6.0) > SURE


# Odd sums


def test_sums_of_any_size_are_read_and_what_is_no_number_is_zero() -> None:
    quiet = Fraction(1, 100)  # floor(Z) is 0 or -1
    x = np.array([math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, 1e20, -3e15])
    found = add_gaussian(x.copy(), quiet)
    near = np.array([0, LIMIT, -LIMIT, LIMIT, -LIMIT, 0, 1e20, -3e15])
    assert (np.abs(found - near) <= 1).all()
    small = add_gaussian(np.array([math.nan, 3e38, 1], dtype=np.float32), quiet)
    assert small.dtype == np.float32 and small[1] == np.float32(3e38) and abs(small[0]) <= 1 and abs(small[2] - 1) <= 1
    tiny, huge = np.full(3, 1e-42, dtype=np.float32), np.full(3, 3e38, dtype=np.float32)
    assert add_gaussian(tiny, quiet, into=1e60, out=1.0) == pytest.approx(float(np.float32(1e-42)) * 1e60, rel=1e-6)
    assert (np.abs(add_gaussian(huge, quiet, into=1e-300, out=1.0)) <= 1).all()
    assert add_gaussian(np.zeros(0), 1).shape == (0,)


def test_what_is_released_is_a_function_of_the_exact_sum() -> None:
    """With the same noise, x and x + 1 give numbers that are rounded from whole numbers 1 apart, however large they are."""
    for size in (0.0, 2.0**51, 2.0**53, 2.0**60, 2.0**70):
        pairs = []
        for x in (size, size + 2.0**20):
            with test_mode(8):
                pairs.append(add_gaussian(np.full(1000, x), 2**37))
        with test_mode(8):
            noise = add_gaussian(np.zeros(1000), 2**37)
        exact = [[int(size) + moved + int(k) for k in noise.tolist()] for moved in (0, 2**20)]
        assert [row.tolist() for row in pairs] == [[float(k) for k in row] for row in exact]


@pytest.mark.parametrize("values", [np.zeros((2, 2)), np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.float16)])
def test_what_is_no_vector_of_floats_is_refused(values: Any) -> None:
    with pytest.raises(ParameterError, match="vector"):
        add_gaussian(values, 1)


def test_a_lattice_that_is_too_fine_is_refused() -> None:
    with pytest.raises(ParameterError, match="coarser"):
        add_gaussian(np.zeros(1), 2**38)


def test_seeds_repeat_and_calls_differ() -> None:
    with test_mode(9):
        first = add_gaussian(np.zeros(70_000), 4096)
    with test_mode(9):
        assert (add_gaussian(np.zeros(70_000), 4096) == first).all()
    assert (add_gaussian(np.zeros(1000), 4096) != add_gaussian(np.zeros(1000), 4096)).any()
