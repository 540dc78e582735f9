"""Single values and short arrays come from pools in the order drawn, and the time of a call says nothing about the value."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.noise.reference import LEVEL, chi_square, scripted, spearman_z

from tacit.accounting import ParameterError
from tacit.noise import bernoulli_exp, discrete_gaussian, discrete_laplace, source, test_mode
from tacit.noise.source import AHEAD, CHUNK, POOL, POOLS, SHORT, Pools, accepted, hand_out, in_bulk, join, random_bits, shape_of

LIMIT = 6.2  # deviations: a chance of 5e-10


def counting() -> Callable[[int], NDArray[np.int64]]:
    """A law whose draws are 0, 1, 2, ..."""
    drawn = 0

    def bulk(count: int) -> NDArray[np.int64]:
        nonlocal drawn
        drawn += count
        return np.arange(drawn - count, drawn)

    return bulk


def test_values_leave_in_the_order_drawn_and_none_is_skipped() -> None:
    pools, bulk = Pools(), counting()
    assert [pools.take("a", bulk) for _ in range(3 * POOL + 5)] == list(range(3 * POOL + 5))


def test_each_law_has_its_own_pool() -> None:
    pools, first, second = Pools(), counting(), counting()
    assert [pools.take("a", first), pools.take("b", second), pools.take("a", first), pools.take("b", second)] == [0, 0, 1, 1]


def test_the_number_of_pools_is_bounded() -> None:
    pools, bulk = Pools(), counting()
    for key in range(10 * POOLS):
        pools.take(key, bulk)
    assert len(pools._queues) == POOLS


@given(st.lists(st.integers(0, SHORT), max_size=60))
def test_short_arrays_leave_in_the_order_drawn_and_none_is_skipped(sizes: list[int]) -> None:
    pools, bulk = Pools(), counting()
    pieces = [pools.take_several("a", bulk, size) for size in sizes]
    assert [len(piece) for piece in pieces] == sizes
    assert np.concatenate([np.empty(0, dtype=np.int64), *pieces]).tolist() == list(range(sum(sizes)))


def test_a_law_that_is_used_once_is_not_drawn_ahead() -> None:
    asked: list[int] = []

    def bulk(count: int) -> NDArray[np.int64]:
        asked.append(count)
        return np.zeros(count, dtype=np.int64)

    pools = Pools()
    for _ in range(2 + AHEAD // 100):
        pools.take_several("a", bulk, 100)
    assert asked == [100, AHEAD, AHEAD]


def test_an_array_from_a_pool_belongs_to_its_caller_alone() -> None:
    """Writing to it changes nothing that others get, and nothing of theirs can be reached from it."""
    pools, bulk = Pools(), counting()
    for start in range(0, 40, 10):
        found = pools.take_several("a", bulk, 10)
        assert found.base is None and found.tolist() == list(range(start, start + 10))
        found[:] = -1


def test_a_refill_that_is_interrupted_loses_no_value_and_repeats_none() -> None:
    pools, bulk = Pools(), counting()

    def interrupted(count: int) -> Any:
        raise KeyboardInterrupt

    assert pools.take_several("a", bulk, 3).tolist() == [0, 1, 2]
    assert pools.take_several("a", bulk, AHEAD - 1).tolist() == list(range(3, AHEAD + 2))
    with pytest.raises(KeyboardInterrupt):
        pools.take_several("a", interrupted, 5)
    assert pools.take_several("a", bulk, 5).tolist() == list(range(AHEAD + 2, AHEAD + 7))


def test_arrays_of_several_laws_and_sizes_are_apart_from_single_values() -> None:
    pools, bulk = Pools(), counting()
    for key in range(3 * POOLS):
        pools.take_several(key, bulk, 2)
    assert len(pools._stores) == POOLS and not pools._queues


@pytest.mark.parametrize("size", [100, (10, 10), (0,), SHORT + 1])
def test_in_test_mode_nothing_is_drawn_ahead(size: Any) -> None:
    """What a seed gives depends on the seed and the calls alone, not on what was drawn before."""
    discrete_laplace(3, size=5)
    discrete_laplace(3, size=5)
    with test_mode(4):
        first = discrete_laplace(3, size=size)
    with test_mode(4):
        assert (discrete_laplace(3, size=size) == first).all() and first.shape == shape_of(size)


def test_short_arrays_follow_the_law_too() -> None:
    """Zero of a discrete Laplace of scale 1 has probability tanh(1/2)."""
    values = np.concatenate([discrete_laplace(1, size=70) for _ in range(300)])
    p = np.tanh(0.5) * np.exp(-np.abs(np.arange(-3, 4)))
    counts = [int((values == k).sum()) for k in range(-3, 4)]
    assert chi_square(counts, p.tolist(), len(values)) > 1e-9
    assert chi_square(counts, (p * [1, 1, 1, 0.8, 1, 1, 1]).tolist(), len(values)) < LEVEL


def test_threads_share_a_pool_without_repeating() -> None:
    pools, bulk, found, lock = Pools(), counting(), [], threading.Lock()

    def work() -> None:
        mine = [pools.take("a", bulk) for _ in range(2000)]
        with lock:
            found.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(12_000))


def test_an_interrupted_refill_hands_out_nothing() -> None:
    pools, bulk = Pools(), counting()

    def interrupted(count: int) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pools.take("a", interrupted)
    assert pools.take("a", bulk) == 0


def test_bulk_is_drawn_in_pieces_and_in_order() -> None:
    sizes: list[int] = []

    def bulk(count: int) -> NDArray[np.int64]:
        sizes.append(count)
        return np.full(count, len(sizes))

    assert in_bulk(bulk, 2 * CHUNK + 3).tolist()[:: CHUNK] == [1, 2, 3]
    assert sizes == [CHUNK, CHUNK, 3]


def test_rejected_proposals_leave_no_gap() -> None:
    asked: list[int] = []

    def propose(count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        asked.append(count)
        return np.arange(count) + 100 * len(asked), np.arange(count) % 2 == 0

    assert accepted(propose, 5).tolist() == [100, 102, 104, 200, 300]
    assert asked == [5, 2, 1] and accepted(propose, 0).tolist() == []


def test_a_value_too_wide_for_int64_is_kept_whole() -> None:
    """A quotient of 2^20 steps never comes up in practice; if it did, no bit would be lost."""
    found = join(np.array([1, 2**20]), np.array([5, 7]), 49)
    assert found.dtype == object and found.tolist() == [2**49 + 5, 2**69 + 7]
    assert join(np.array([1, 2**12]), np.array([5, 7]), 49).dtype == np.int64


@pytest.mark.parametrize("bits", [1, 7, 63, 64, 65, 130])
def test_random_bits_are_the_leading_bits_of_the_words(bits: int) -> None:
    words = [0x0123456789ABCDEF, 0xFEDCBA9876543210, 0xAAAAAAAAAAAAAAAA]
    with scripted(words):
        found = int(random_bits(bits, 1)[0])
    if bits < 64:
        assert found == words[0] >> 64 - bits
    else:
        used = words[: -(-bits // 64)]
        assert found == sum(w << 64 * i for i, w in enumerate(used)) >> 64 * len(used) - bits
    assert 0 <= found < 2**bits


def test_random_bits_are_fair() -> None:
    values = random_bits(3, 80_000)
    assert chi_square(np.bincount(values, minlength=8), [1 / 8] * 8, 80_000) > 1e-9


def test_shapes() -> None:
    assert shape_of((2, np.int64(3))) == (2, 3)
    for bad in (-1, 1.5, "2", (1, -2)):
        with pytest.raises(ParameterError, match="size"):
            shape_of(bad)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="bits"):
        random_bits(-1, 1)


def test_single_values_follow_the_law_too() -> None:
    """The pool changes nothing: zero of a discrete Laplace of scale 1 has probability tanh(1/2)."""
    values = np.array([discrete_laplace(1) for _ in range(20_000)])
    p = np.tanh(0.5) * np.exp(-np.abs(np.arange(-3, 4)))
    counts = [int((values == k).sum()) for k in range(-3, 4)]
    assert chi_square(counts, p.tolist(), 20_000) > 1e-9
    assert chi_square(counts, (p * [1, 1, 1, 0.8, 1, 1, 1]).tolist(), 20_000) < LEVEL


def timed(draw: Callable[[], int], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nanoseconds and size of each of `count` draws."""
    times, sizes = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    clock = time.perf_counter_ns
    for i in range(count):
        start = clock()
        value = draw()
        times[i] = clock() - start
        sizes[i] = abs(value)
    return times, sizes


@pytest.mark.parametrize("draw", [lambda: discrete_laplace(100), lambda: discrete_gaussian(1000)], ids=["laplace", "gaussian"])
def test_the_time_of_a_draw_does_not_tell_its_size(draw: Callable[[], int]) -> None:
    """Rank correlation over 1e5 draws. Draws are independent of how busy the machine is, so load cannot make this fail."""
    draw()
    assert abs(spearman_z(*timed(draw, 100_000))) < LIMIT


def flipped() -> int:
    """A mutant: a geometric draw by counting coins, as exact samplers are often written; Jin et al. (2022) read the noise off the clock."""
    count = 0
    while bernoulli_exp(0.1):
        count += 1
    return count


def test_a_sampler_that_counts_coins_is_caught() -> None:
    assert spearman_z(*timed(flipped, 400)) > LIMIT


def test_the_pool_is_what_hides_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every private single draw goes through it."""
    taken: list[Any] = []

    class Recording(Pools):
        def take(self, key: Any, bulk: Any) -> int:
            taken.append(key)
            return super().take(key, bulk)

    monkeypatch.setattr(source, "POOLS_OF_THIS_PROCESS", Recording())
    discrete_laplace(3)
    discrete_gaussian(3)
    assert [key[0] for key in taken] == ["laplace", "gaussian"]
    assert hand_out("k", lambda count: np.zeros(count, dtype=np.int64), 2).tolist() == [0, 0] and len(taken) == 2
