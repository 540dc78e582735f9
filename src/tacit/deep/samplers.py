"""Which records a step sees: the object that samples is the object that is priced.

A sampler draws index sets from the operating system's entropy and hands the accountant the event of exactly that law. What it needs to
know of the data (the size it divides by, the rate) is declared by the user and public; under add/remove the true number of records is
private and is used for nothing but drawing.

>>> from tacit.accounting import Gaussian
>>> sampler = PoissonBatches(expected_batch=256, size=60000)
>>> sampler.rate, sampler.divisor
(Fraction(8, 1875), 256)
>>> sampler.event(Gaussian(1.1), steps=1000)
Repeated(event=Sampled(scheme=Poisson(rate=Fraction(8, 1875)), event=Gaussian(noise_multiplier=1.1)), count=1000)
>>> batches = sampler.batches(60000)
>>> 150 < len(next(batches)) < 370
True

There is no sampler that shuffles and cuts: its law has no tight price, and pricing it as Poisson is wrong. `Allocation` gives nearly
equal batches that cover all records every epoch, at a proved price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, ParameterError, RandomAllocation, Repeated, Sampled, WithoutReplacement
from tacit.accounting import Poisson as PoissonScheme
from tacit.deep.noise import Stream
from tacit.noise import permutation, uniform_integers
from tacit.parameters import Number, count

Indices = NDArray[np.int64]


class Sampler(Protocol):
    """How the batches of a run are drawn, and what that costs."""

    @property
    def divisor(self) -> Number:
        """The public number that the noisy sum is divided by."""

    @property
    def epoch(self) -> int:
        """The steps that one pass of the loader takes."""

    @property
    def adjacency(self) -> Adjacency:
        """The relation the price is stated for."""

    def event(self, step: Event, steps: int) -> Event:
        """The price of `steps` steps that cost `step` each on the records they see."""

    def batches(self, records: int) -> Iterator[Indices]:
        """Index sets without end, one a step."""


def coins(rate: Fraction, trials: int) -> Indices:
    """The trials, out of 0 .. trials - 1, whose coin of exactly this rate fell heads.

    A coin compares a uniform real with the rate, digit by digit in base 256, and draws the next digit only while they agree.

    >>> coins(Fraction(1), 3).tolist(), coins(Fraction(0), 3).tolist()
    ([0, 1, 2], [])
    """
    if rate >= 1:
        return np.arange(trials, dtype=np.int64)
    heads: list[Indices] = []
    stream = Stream()
    undecided = np.arange(trials, dtype=np.int64)
    while len(undecided) and rate > 0:
        digit, rate = divmod(rate * 256, 1)
        drawn = np.frombuffer(stream.take(len(undecided)), dtype=np.uint8)
        heads.append(undecided[drawn < int(digit)])
        undecided = undecided[drawn == int(digit)]
    return np.sort(np.concatenate(heads)) if heads else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class PoissonBatches:
    """Every record joins every batch independently with one probability: `expected_batch` of `size`, both public.

    Under add/remove the size of a batch is private, and so is the number of records: `size` is declared, not measured, and the sum is
    divided by `expected_batch` whatever came.
    """

    expected_batch: int
    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        count("expected_batch", self.expected_batch)
        count("size", self.size)
        if self.expected_batch > self.size:
            raise ParameterError(f"expected_batch must be at most size ({self.size}), not {self.expected_batch}; FullBatch takes all")

    @property
    def rate(self) -> Fraction:
        """The chance that one given record is in one given batch."""
        return Fraction(self.expected_batch, self.size)

    @property
    def divisor(self) -> Number:
        return self.expected_batch

    @property
    def epoch(self) -> int:
        return max(1, round(1 / self.rate))

    def event(self, step: Event, steps: int) -> Event:
        return Repeated(Sampled(PoissonScheme(self.rate), step), steps)

    def batches(self, records: int) -> Iterator[Indices]:
        while True:
            yield coins(self.rate, records)


@dataclass(frozen=True)
class Allocation:
    """Every record joins exactly one of the `steps` batches of an epoch, chosen uniformly: nearly equal batches, everyone seen once.

    `size` is the public number the divisor size / steps is made from. A price is per epoch: an epoch that was begun is paid for.

    >>> from tacit.accounting import Gaussian
    >>> sampler = Allocation(steps=100, size=60000)
    >>> sampler.divisor, sampler.event(Gaussian(1), steps=150)
    (Fraction(600, 1), Repeated(event=Sampled(scheme=RandomAllocation(steps=100, selected=1), event=Gaussian(noise_multiplier=1)), count=2))
    """

    steps: int
    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        count("steps", self.steps)
        count("size", self.size)

    @property
    def divisor(self) -> Number:
        return Fraction(self.size, self.steps)

    @property
    def epoch(self) -> int:
        return self.steps

    def event(self, step: Event, steps: int) -> Event:
        return Repeated(Sampled(RandomAllocation(self.steps), step), math.ceil(Fraction(steps, self.steps)))

    def batches(self, records: int) -> Iterator[Indices]:
        while True:
            place = uniform_integers(self.steps, size=records)
            order = np.argsort(place, kind="stable")
            ends = np.searchsorted(place[order], np.arange(1, self.steps))
            yield from np.split(order, ends)


@dataclass(frozen=True)
class FullBatch:
    """Every record in every step: no credit for sampling, and none needed. `size` is public and only the divisor.

    >>> from tacit.accounting import Gaussian
    >>> FullBatch(size=1000).event(Gaussian(30), steps=10)
    Repeated(event=Gaussian(noise_multiplier=30), count=10)
    """

    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        count("size", self.size)

    @property
    def divisor(self) -> Number:
        return self.size

    @property
    def epoch(self) -> int:
        return 1

    def event(self, step: Event, steps: int) -> Event:
        return Repeated(step, steps)

    def batches(self, records: int) -> Iterator[Indices]:
        while True:
            yield np.arange(records, dtype=np.int64)


@dataclass(frozen=True)
class FixedSize:
    """A uniformly random subset of exactly `batch` of the `size` records, drawn anew each step. The number of records is public.

    Priced for replacing a record: the size of the data is known, so adding or removing one is not protected.

    >>> FixedSize(batch=10, size=100).adjacency.value
    'replace-one'
    """

    batch: int
    size: int
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        count("size", self.size)
        if count("batch", self.batch) > self.size:
            raise ParameterError(f"batch must be at most size ({self.size}), not {self.batch}")
        if self.adjacency is Adjacency.ADD_REMOVE:
            raise ParameterError("batches of fixed size make the number of records public; for add/remove use PoissonBatches or Allocation")

    @property
    def divisor(self) -> Number:
        return self.batch

    @property
    def epoch(self) -> int:
        return max(1, round(Fraction(self.size, self.batch)))

    def event(self, step: Event, steps: int) -> Event:
        return Repeated(Sampled(WithoutReplacement(self.size, self.batch), step), steps)

    def batches(self, records: int) -> Iterator[Indices]:
        if records != self.size:
            raise ParameterError(f"the data has {records} records, not the size={self.size} that was declared; correct it: it is public")
        while True:
            yield np.sort(permutation(records)[: self.batch])
