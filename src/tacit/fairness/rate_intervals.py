"""The interval of a rate whose two counts both have noise, by the exact law of that noise.

A rate p is tested by `(1 - p) * inside - p * outside`. The counts of the people cancel for the true p, whatever the size of the
group, and leave a combination of noises on whole numbers, whose law is summed up without an approximation. The interval
holds the rates that the test does not reject (Fieller 1954).

Whole numbers are coarse where noise is small: at epsilon 1 one more step on either side moves the coverage by two points.
So the chance to be wrong is not halved there. One side takes the largest tail that is at most half of it, and the other
side the tail that brings both together nearest to all of it; or the other way round, where that is nearer. Nothing here reads
data: all of it follows from released counts.

>>> quiet = NoisySums.of_scale("laplace", 1)
>>> low, high = rate_interval(30.0, 100.0, (1, 1), quiet, 0.95)
>>> 0.26 < low < 0.3 < high < 0.34
True
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tacit.fairness.rates import Array
from tacit.mechanisms import NoisySums

#: Noise of a larger scale, in steps of the lattice, is worked out at this scale and stretched: a step is then a sixteenth of the scale.
FINEST = 16.0
#: Up to this scale a step of the lattice is worth enough chance to be shared out with care.
COARSE = 4.0
#: Closer than this, two values of the statistic are one value, in steps of the lattice; far above rounding errors.
TIE = 1e-3
#: Where a rate is tested first, over all of [0, 1] and once more around the estimate; then at so many places between the last two.
PLACES, BETWEEN = 51, 15
#: A value that takes more than this part of its tail with it is a large step: the sides may then be given unequal shares.
STEEP = 0.3
#: Points that stand for the normal law of sampled people, each with the same chance.
NORMAL = 128


@lru_cache(maxsize=128)
def noise_law(law: str, scale: float, cells: int) -> Array:
    """The chances of a sum of `cells` rounded noises to be -reach, ..., reach; what lies beyond has less than 1e-9.

    >>> one = noise_law("laplace", 1.0, 1)
    >>> round(float(one[len(one) // 2]), 9) == round(1 - math.exp(-0.5), 9)
    True
    """
    if cells == 0:
        return np.ones(1)
    # A sum of k Laplace noises has a tail of the same rate behind its normal middle.
    reach = math.ceil(scale * (24 + 9 * math.sqrt(2 * cells))) if law == "laplace" else math.ceil(scale * 7 * math.sqrt(cells)) + 1
    edges = (np.arange(-reach, reach + 2) - 0.5) / scale
    below = np.where(edges < 0, np.exp(-np.abs(edges)) / 2, 1 - np.exp(-np.abs(edges)) / 2) if law == "laplace" else ndtr(edges)
    one = np.diff(below)
    if cells == 1:
        return np.asarray(one)
    size = 1 << (4 * reach).bit_length()
    turned = np.fft.irfft(np.fft.rfft(np.roll(np.pad(one, (0, size - len(one))), -reach)) ** cells, size)
    found = np.maximum(np.roll(turned, reach)[: 2 * reach + 1], 0.0)
    return np.asarray(found / found.sum())


class RateTest:
    """The test of one rate: how likely a combination of noises is to be so large, and what is rejected.

    `cells` are the numbers of released cells inside the numerator, and in the denominator outside it. `extra` is the size of the
    sample where the people themselves are a sample (a normal law, by the central limit), else 0.
    """

    def __init__(self, cells: tuple[int, int], noise: NoisySums, confidence: float, extra: float = 0.0) -> None:
        scale = float(noise.scales[0])
        self.step = noise.spread() / min(scale, FINEST)  # what one step of the worked out lattice is worth
        self.wrong = 1 - confidence
        self.extra = max(extra, 0.0) / self.step**2
        self.coarse = scale <= COARSE and self.extra == 0.0
        self.inside = noise_law(noise.law, min(scale, FINEST), cells[0])
        outside = noise_law(noise.law, min(scale, FINEST), cells[1])
        self.above = np.append(np.cumsum(outside[::-1])[::-1], 0.0)  # chances of -reach or more, ..., of more than reach
        self.reach = len(outside) // 2
        self.widest = len(self.inside) // 2 + self.reach
        # Beyond all noise and ten deviations of a sample every size is the same.
        self.far = 2.0 * self.widest + 10 * math.sqrt(min(self.extra, 1e200)) + 2

    def tail(self, places: Array, size: Array, tie: float = -TIE) -> Array:
        """The chance of the combination for each rate to be `size` or more; strictly more with a positive `tie`."""
        steps = np.arange(len(self.inside)) - len(self.inside) // 2
        if self.extra:
            normal = np.array([NormalDist().inv_cdf((k + 0.5) / NORMAL) for k in range(NORMAL)])
            spread = np.sqrt(self.extra * places * (1 - places))
            shifted = (size[:, None] - spread[:, None] * normal).ravel()
            chances: Array = self._tail(np.repeat(places, NORMAL), shifted, steps, tie).reshape(len(places), NORMAL).mean(axis=1)
            return chances
        return self._tail(places, size, steps, tie)

    def _tail(self, places: Array, size: Array, steps: NDArray[np.int64], tie: float) -> Array:
        needed = (size[:, None] + tie - (1 - places)[:, None] * steps) / np.maximum(places, 1e-300)[:, None]
        at = np.clip(np.ceil(np.clip(needed, -1e9, 1e9)) + self.reach, 0, len(self.above) - 1).astype(np.int64)
        return np.asarray(self.above[at] @ self.inside)

    def around(self, places: Array, most: Array) -> tuple[Array, Array]:
        """For each rate the largest tail that is at most `most`, and the next larger one."""
        low, high = np.zeros(len(places)), np.full(len(places), float(self.widest + 1))
        for _ in range(halvings(self.widest + 1, TIE)):
            middle = (low + high) / 2
            small = self.tail(places, middle) <= most
            low, high = np.where(small, low, middle), np.where(small, middle, high)
        return self.tail(places, high + TIE / 2), self.tail(places, low - TIE / 2)

    def shares(self, places: Array) -> tuple[Array, Array]:
        """The chances to be wrong that the first and the second side are given.

        The first side takes its largest tail below half, and the second what that leaves. Where a step is worth so much that both
        together would miss by more than half a point, the second side may take the tail above half and leave the rest to the first.
        """
        half = np.full(len(places), self.wrong / 2)
        if not self.coarse:
            return half, half
        below, above = self.around(places, half)
        first, second = half, self.wrong - below
        even = below + np.where(self.near(above, below, second), above, below)
        far = np.flatnonzero((np.abs(even - self.wrong) > self.wrong / 10) & (above <= self.wrong))
        if len(far):
            rest = self.wrong - above[far]
            small, large = self.around(places[far], rest)
            uneven = above[far] + np.where(self.near(large, small, rest), large, small)
            better = np.abs(uneven - self.wrong) < np.abs(even[far] - self.wrong)
            first[far] = np.where(better, rest, first[far])
            second[far] = np.where(better, above[far], second[far])
        return first, second

    def near(self, reached: Array, passed: Array, share: Array) -> NDArray[np.bool_]:
        """Whether a side that is given a share rejects a value: its tail is nearer than the next smaller one, and hardly above."""
        return np.asarray((reached + passed <= 2 * share) & (reached <= share + self.wrong / 5))

    def rejected(self, places: Array, statistic: Array) -> NDArray[np.bool_]:
        """Whether each rate is rejected by its statistic, in steps of the lattice."""
        # Near 0 and 1 one side cannot happen, so the other side takes what is left.
        second = np.where(places <= 0.5, statistic, -statistic)
        size = np.minimum(np.abs(second), self.far)
        reached, passed = self.tail(places, size), self.tail(places, size, TIE)
        if not self.coarse:
            return np.asarray(reached + passed <= self.wrong)
        found = reached <= self.wrong / 2  # what both sides reject as long as steps are small
        # A hundredth of the chance to be wrong is rejected on either side, however the two share it.
        steep = (reached - passed > STEEP * reached) & (reached > self.wrong / 100)
        open_ = np.flatnonzero((reached + passed <= 2 * self.wrong) & (steep | ((second > 0) & ~found)))
        if len(open_):
            first, rest = self.shares(places[open_])
            reached, passed, up = reached[open_], passed[open_], second[open_] > 0
            halved = first == self.wrong / 2
            found[open_] = np.where(
                up, self.near(reached, passed, rest), np.where(halved, reached <= first, self.near(reached, passed, first))
            )
        return np.asarray(found)

    def kept(self, above: float, below: float) -> tuple[float, float]:
        """The ends of the rates between 0 and 1 that are not rejected; the nearest one where all are."""

        def kept(places: Array) -> NDArray[np.bool_]:
            return ~self.rejected(places, (above - places * below) / self.step)

        guess = min(max(above / below, 0.0), 1.0) if below > 0 else 0.5
        wide = 3 * self.widest * self.step / max(below, 1e-9)
        near = guess + wide * np.linspace(-1.0, 1.0, PLACES) ** 3
        places = np.unique(np.clip(np.concatenate([np.linspace(0.0, 1.0, PLACES), near, [guess]]), 0.0, 1.0))
        found = np.flatnonzero(kept(places))
        if not len(found):  # noise took the count below 0 or above the total: the nearest end is all that is left
            return guess, guess
        ends = []
        for last_kept, step in ((int(found[0]), -1), (int(found[-1]), 1)):
            beyond = min(max(last_kept + step, 0), len(places) - 1)
            ends.append((float(places[last_kept]), float(places[beyond])))
        wanted = TIE * self.step / max(below, 1.0) / 4
        shares = np.arange(1, BETWEEN + 1) / (BETWEEN + 1)
        for _ in range(-(-halvings(max(abs(inner - outer) for inner, outer in ends), wanted) // 4)):
            tested = np.array([[inner + share * (outer - inner) for share in shares] for inner, outer in ends])
            inside = kept(tested.ravel()).reshape(tested.shape)
            for side, (inner, outer) in enumerate(ends):
                line, last = [inner, *tested[side].tolist(), outer], int(np.flatnonzero([True, *inside[side]])[-1])
                ends[side] = (line[last], line[last + 1])
        return ends[0][0], ends[1][0]


def halvings(length: float, wanted: float) -> int:
    """How often a length is halved until it is as short as wanted.

    >>> halvings(1.0, 0.1)
    4
    """
    return max(math.ceil(math.log2(max(length, 1e-300) / wanted)), 0)


def rate_interval(
    above: float, below: float, cells: tuple[int, int], noise: NoisySums, confidence: float, population: bool = False
) -> tuple[float, float]:
    """The rates p between 0 and 1 for which above - p * below is no larger than its noise allows.

    `cells` are the numbers of released cells inside the numerator, and in the denominator outside it. A group that may be empty
    gets (0, 1). With `population` the people are a sample, and the rate is the one they were sampled from.

    >>> rate_interval(0.0, 0.0, (1, 1), NoisySums.of_scale("laplace", 10), 0.95)
    (0.0, 1.0)
    """
    return RateTest(cells, noise, confidence, below if population else 0.0).kept(above, below)
