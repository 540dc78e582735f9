"""Telemetry by one bit: the mean of a number and the histogram of its buckets, with answers that are remembered for years.

A device reports one bit for a mean, or a few for a histogram. Where it reports every day it first rounds the number at a point of its
own, drawn once (alpha-point rounding), and remembers the bit of each rounded number: small changes change nothing, and a lifetime costs
at most one report for each rounded number. A change of the bit shows that the number changed, which is not in that price (Ding,
Kulkarni, Yekhanin 2017).

>>> hours = OneBitMean(largest=24, epsilon=1)
>>> bits = hours.privatise([8, 9, 7] * 10_000)
>>> abs(hours.mean(bits) - 8) < 1.2  # six deviations
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Event, PureDP, RandomizedResponse, Repeated
from tacit.errors import ParameterError
from tacit.parameters import Number, count, positive

Bits = NDArray[np.bool_]


def _whole(values: NDArray[Any] | Sequence[Any], largest: int) -> NDArray[np.int64]:
    """Whole numbers 0 .. largest: what lies outside is moved to the nearer end, and what is no whole number counts as 0."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 1:
        return np.asarray(np.clip(values, 0, largest), dtype=np.int64)
    found = [min(max(int(v), 0), largest) if isinstance(v, int | np.integer) and not isinstance(v, bool) else 0 for v in values]
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class OneBitMean:
    """The mean of whole numbers 0 .. largest from one bit of each person.

    Guarantee
        Statement: a bit costs RandomizedResponse(epsilon, 2).
        Conditions: the replacement of the person's number.
        Proved in: the number x is rounded to 0 or `largest` without bias by an exact coin of x / largest, and the rounded bit is told
        by randomised response: P(1) = 1 / (e + 1) + (x / largest)(e - 1) / (e + 1), with e = e^epsilon.
    """

    largest: int
    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest", count("largest", self.largest))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    @property
    def event(self) -> Event:
        """The price of one bit."""
        return RandomizedResponse(self.epsilon, 2)

    def privatise(self, values: NDArray[Any] | Sequence[Any]) -> Bits:
        """One bit for each number."""
        known = _whole(values, self.largest)
        rounded = noise.uniform_integers(self.largest, len(known)) < known  # 1 with probability x / largest, exactly
        return np.asarray(rounded == noise.odds_bits(self.epsilon, len(known)))

    def mean(self, bits: Bits) -> float:
        """The unbiased mean."""
        if len(bits) < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        odds = math.exp(float(self.epsilon))
        return self.largest * (float(np.mean(bits)) * (odds + 1) - 1) / (odds - 1)

    def variance(self, n: int, mean: float | None = None) -> float:
        """The variance of the mean of n people who all hold `mean`; where it is not given, the worst."""
        odds = math.exp(float(self.epsilon))
        chance = 0.5 if mean is None else (1 + mean / self.largest * (odds - 1)) / (odds + 1)
        return chance * (1 - chance) * (self.largest * (odds + 1) / (odds - 1)) ** 2 / count("n", n)


class RoundingDevice:
    """One person's device for `OneBitMean` every day: rounds at its own point to multiples of `step`, and remembers each one's bit.

    The rounding point is drawn once, so rounded numbers are right on average over people. The bits of all multiples are functions of
    one draw each, so a lifetime costs at most `event`, between histories whose rounded numbers change and come back on the same days.
    A bit that changes shows that the number did: no finite price covers that, since a number that stays never changes its bit.
    """

    def __init__(self, oracle: OneBitMean, step: int) -> None:
        self.oracle, self.step = oracle, count("step", step)
        if oracle.largest % self.step:
            raise ParameterError("step must divide largest")
        self.point = noise.uniform_integers(self.step)
        self._memo = oracle.privatise(np.arange(0, oracle.largest + 1, self.step))

    @property
    def event(self) -> Event:
        """The price of a lifetime, for as many multiples as there are."""
        return Repeated(self.oracle.event, len(self._memo))

    def rounded(self, value: int) -> int:
        """The multiple of `step` that stands for a number on this device."""
        (known,) = _whole([value], self.oracle.largest).tolist()
        below = known // self.step
        return int(self.step * (below + (known % self.step + self.point >= self.step)))

    def report(self, value: int) -> bool:
        """The bit of a number: nothing is drawn."""
        return bool(self._memo[self.rounded(value) // self.step])


@dataclass(frozen=True)
class BitFlip:
    """dBitFlip: of `buckets` bits of a one-hot row, `sampled` ones drawn by the device are told, each by response with epsilon / 2.

    Guarantee
        Statement: the report costs PureDP(epsilon).
        Conditions: the replacement of the person's bucket; the places are drawn without looking at it.
        Proved in: two one-hot rows differ in two bits, each of which changes the ratio by e^(epsilon/2) at most.
    """

    buckets: int
    epsilon: Number
    sampled: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "buckets", count("buckets", self.buckets, least=2))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if count("sampled", self.sampled) > self.buckets:
            raise ParameterError("sampled must be at most buckets")

    @property
    def event(self) -> Event:
        """The price of one report."""
        return PureDP(self.epsilon)

    def privatise(self, values: NDArray[Any] | Sequence[Any]) -> tuple[NDArray[np.int64], Bits]:
        """For each person the places that were drawn, and their randomised bits.

        >>> places, bits = BitFlip(10, 1, sampled=3).privatise([4, 7])
        >>> places.shape, bits.shape
        ((2, 3), (2, 3))
        """
        known = _whole(values, self.buckets - 1)
        n, rows = len(known), np.arange(len(known))
        order = np.tile(np.arange(self.buckets), (n, 1))
        for k in range(self.sampled):  # the first steps of a random permutation
            other = k + noise.uniform_integers(self.buckets - k, n)
            order[rows, k], order[rows, other] = order[rows, other], order[rows, k].copy()
        places = order[:, : self.sampled]
        kept = noise.odds_bits(Fraction(self.epsilon) / 2, n * self.sampled).reshape(n, self.sampled)
        return places, kept == (places == known[:, None])

    def shares(self, places: NDArray[np.int64], bits: Bits) -> NDArray[np.float64]:
        """The unbiased shares of the buckets."""
        half = math.exp(float(self.epsilon) / 2)
        told = np.bincount(places.ravel(), weights=bits.ravel() * (half + 1) - 1.0, minlength=self.buckets)
        return np.asarray(told * self.buckets / (self.sampled * len(places) * (half - 1)))

    def variance(self, n: int) -> float:
        """The variance of the share of a bucket that few hold."""
        half = math.exp(float(self.epsilon) / 2)
        return self.buckets / (self.sampled * count("n", n)) * half / (half - 1) ** 2
