"""Timing: does the clock tell which input was used, or how large the noise was?

Two tests, both by permutation, so their error rate is what is stated, whatever the law of the times. `compare_times`
runs two calls in pairs, the order within a pair by coin: if time does not depend on the input, the sign of each
difference is a fair coin, and drift of the machine cancels. `regress_times` relates single times to a number such as
the size of the noise by rank correlation. Both say how small an effect they would have seen: "nothing found" beside a
large detectable effect means little.

>>> ticks = iter(range(0, 10**9, 7))
>>> same = compare_times(lambda: None, lambda: None, 200, seed=1, clock=lambda: next(ticks))
>>> same.found, same.error
(False, 0.001)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tacit.accounting import ParameterError
from tacit.audit.experiment import Generator, generator
from tacit.parameters import count, probability

Clock = Callable[[], int]
POWER = 0.8  # an effect is called detectable if it is found so often


@dataclass(frozen=True)
class TimingReport:
    """What the clock says. `found` holds by chance with probability at most `error`.

    `effect` and `detectable` are in nanoseconds for two inputs and rank correlations for a regression.
    """

    what: str
    effect: float
    p_value: float
    error: float
    detectable: float
    trials: int

    @property
    def found(self) -> bool:
        """Whether time was seen to depend on what it must not."""
        return self.p_value <= self.error

    def __str__(self) -> str:
        state = "LEAK" if self.found else "no leak seen"
        return f"{self.what}: {state}, effect {self.effect:.3g} (p = {self.p_value:.2g}; effects from {self.detectable:.3g} would be seen)"


def compare_times(
    on_first: Callable[[], object], on_second: Callable[[], object], pairs: int = 1000, *,
    error: float = 1e-3, seed: int | None = None, clock: Clock = time.perf_counter_ns,
) -> TimingReport:
    """Whether two calls take different time. An exception ends a call like any other output."""
    coins = generator(seed)
    differences = np.empty(count("pairs", pairs, least=20), dtype=np.float64)
    calls = (on_first, on_second)
    for i, swapped in enumerate(coins.random(pairs) < 0.5):
        spent = [0, 0]
        for which in (1, 0) if swapped else (0, 1):
            spent[which] = _timed(calls[which], clock)
        differences[i] = spent[1] - spent[0]
    return paired_times(differences, error=error, seed=coins)


def _timed(call: Callable[[], object], clock: Clock) -> int:
    start = clock()
    with suppress(Exception):  # what it raised is for other tests; here only how long it took counts
        call()
    return clock() - start


def paired_times(differences: ArrayLike, *, error: float = 1e-3, seed: int | Generator | None = None) -> TimingReport:
    """The signed-rank test on differences of paired times (Wilcoxon 1945), with signs permuted.

    >>> paired_times(np.arange(100.0) + 1, seed=0).found, paired_times([-1.0, 1.0] * 50, seed=0).found
    (True, False)
    """
    found = np.asarray(differences, dtype=np.float64)
    coins, error, rounds = generator(seed), _error(error), _rounds(error)
    ranks = _ranks(np.abs(found)) * (found != 0)
    seen = float(np.sign(found) @ ranks)
    null = np.array([(2.0 * (coins.random(len(found)) < 0.5) - 1) @ ranks for _ in range(rounds)])
    p = (1 + int((np.abs(null) >= abs(seen) - 1e-9).sum())) / (rounds + 1)
    middle = float(np.median(found))
    # For a shift d the median of n differences is normal with this spread, about; the signed-rank test is at least 0.86 as efficient.
    spread = float(np.subtract(*np.quantile(found, [0.75, 0.25]))) / 1.349 * math.sqrt(math.pi / 2 / len(found))
    return TimingReport("time against the input", middle, p, error, (-float(ndtri(error / 2)) + float(ndtri(POWER))) * spread, len(found))


def regress_times(times: ArrayLike, sizes: ArrayLike, *, error: float = 1e-3, seed: int | Generator | None = None) -> TimingReport:
    """Whether times go with sizes (of the noise, of the value): rank correlation (Spearman 1904), with the sizes permuted.

    >>> regress_times(np.arange(200.0) ** 2, np.arange(200.0), seed=0).effect
    1.0
    """
    first, second = (np.asarray(values, dtype=np.float64).reshape(-1) for values in (times, sizes))
    if len(first) != len(second) or len(first) < 20:
        raise ParameterError(f"times and sizes must be equally many, at least 20; got {len(first)} and {len(second)}")
    coins, error, rounds = generator(seed), _error(error), _rounds(error)
    one, two = (_standard(_ranks(values)) for values in (first, second))
    seen = float(one @ two)
    null = np.array([one @ two[coins.permutation(len(two))] for _ in range(rounds)])
    p = (1 + int((np.abs(null) >= abs(seen) - 1e-12).sum())) / (rounds + 1)
    detectable = (-float(ndtri(error / 2)) + float(ndtri(POWER))) / math.sqrt(len(first) - 1)
    return TimingReport("time against the size of the noise", round(seen, 12), p, error, min(1.0, detectable), len(first))


def time_draws(
    draw: Callable[[], float], trials: int = 2000, *, error: float = 1e-3, seed: int | None = None, clock: Clock = time.perf_counter_ns
) -> TimingReport:
    """Time each call of `draw` and relate it to the absolute value it returned: for samplers, on an input whose answer is 0."""
    times, sizes = [], []
    for _ in range(count("trials", trials, least=20)):
        start = clock()
        value = draw()
        times.append(clock() - start)
        sizes.append(abs(float(value)))
    return regress_times(times, sizes, error=error, seed=seed)


def _error(error: float) -> float:
    found = float(probability("error", error))
    if not 1e-5 <= found < 1:
        raise ParameterError(f"error must be at least 1e-5, so that permutations can reach it, and below 1; not {error!r}")
    return found


def _rounds(error: float) -> int:
    """So many permutations that the smallest p-value is half the error."""
    return max(199, math.ceil(2 / error))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing their average."""
    _, place, many = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(many)
    return np.asarray(((last - (many - 1) / 2)[place]), dtype=np.float64).reshape(-1)


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = values - values.mean()
    length = float(np.sqrt(centred @ centred))
    return np.asarray(centred / length if length > 0 else centred)
