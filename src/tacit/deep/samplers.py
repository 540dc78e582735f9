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

The loader of a private run: it draws the batches the accountant was told of, and refuses every other source.

It hands out one batch a step, and the loop runs once for each: also for a batch that came out empty, which is handed out as one record
that counts for nothing. A batch that was drawn and not stepped (a `break`, a look with `next(iter(loader))`, an error in the loop) is the
next one to be handed out, so that every draw is one step. How many records a batch has is private: print neither its size nor its loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from tacit.accounting import Adjacency, Event, ParameterError, RandomAllocation, Repeated, Sampled, WithoutReplacement
from tacit.accounting import Poisson as PoissonScheme
from tacit.deep.errors import TrainingError
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


UNKNOWN_LOADER = (
    "a DataLoader decides by itself which records a step sees, and the accountant cannot know. Hand over its data set and the sampler:\n"
    "    data = loader.dataset\n"
    "    make_private(model, optimizer, data, sampler=PoissonBatches(expected_batch=256, size=60000), ...)"
)


class Listener(Protocol):
    """Who is told what the loader hands out."""

    def remaining(self) -> int:
        """The steps that are planned, paid for and not yet taken."""

    def begin(self) -> None:
        """A pass begins: whatever must be paid first is paid now."""

    def touching(self) -> AbstractContextManager[Any]:
        """A block that reads records."""

    def handed_out(self, records: int, *, drawn: bool = True, batch: Any = None) -> None:
        """A batch goes to the training loop; not `drawn`, it is a placeholder for an empty one."""

    def left(self) -> None:
        """The loop broke off."""

    def moved_on(self) -> None:
        """The loop came back for more."""


def as_dataset(data: Any) -> Dataset[Any]:
    """The records: a data set with a length and an index, a tensor, or several of equal length.

    >>> len(as_dataset((torch.zeros(3, 2), torch.zeros(3))))
    3
    """
    if isinstance(data, DataLoader):
        raise ParameterError(UNKNOWN_LOADER)
    if isinstance(data, IterableDataset):
        raise ParameterError("an IterableDataset cannot be sampled by record; wrap the records in a Dataset with __len__ and __getitem__")
    if isinstance(data, torch.Tensor):
        return TensorDataset(data)
    if isinstance(data, tuple | list) and data and all(isinstance(part, torch.Tensor) for part in data):
        if len({len(part) for part in data}) != 1:
            raise ParameterError("the tensors of data must have the same number of rows")
        return TensorDataset(*data)
    if isinstance(data, Dataset) and hasattr(data, "__len__"):
        return data
    raise ParameterError(f"data must be a Dataset with a length, a tensor or a tuple of tensors, not {type(data).__name__}")


class Fetch(Dataset[Any]):
    """The data set read by batches, in this process or in a worker's. An empty batch becomes a placeholder of one record."""

    def __init__(self, data: Dataset[Any], collate: Callable[[list[Any]], Any] | None) -> None:
        self.data = data
        self.collate = collate or default_collate

    def __getitem__(self, draw: tuple[int, Indices]) -> tuple[int, Indices, Any]:
        number, indices = draw
        if isinstance(self.data, TensorDataset) and self.collate is default_collate:
            index = torch.from_numpy(indices)
            if not len(indices):
                return number, indices, [tensor.new_zeros(1, *tensor.shape[1:]) for tensor in self.data.tensors]
            return number, indices, [tensor[index] for tensor in self.data.tensors]
        return number, indices, self.collate([self.data[i] for i in (indices.tolist() or [0])])


class Draws(torch.utils.data.Sampler[tuple[int, Indices]]):
    """The batches of one pass with their numbers, drawn as they are asked for."""

    def __init__(self, draw: Callable[[int], Indices], numbers: range) -> None:
        self.draw, self.numbers = draw, numbers

    def __iter__(self) -> Iterator[tuple[int, Indices]]:
        for number in self.numbers:
            yield number, self.draw(number)


class PrivateLoader:
    """Batches of a private run, one pass an epoch. Made by `make_private`."""

    def __init__(
        self, data: Dataset[Any], sampler: Sampler, listener: Listener, *, workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.dataset = data
        self.sampler = sampler
        self._fetch = Fetch(data, collate)
        self._listener = listener
        self._workers = workers
        records = len(cast(Sized, data))
        if not records and not isinstance(data, TensorDataset):
            raise ParameterError("the data has no record to tell the shape of an empty batch from; give tensors, or at least one record")
        self._batches = sampler.batches(records)
        self._taken = 0  # batches whose step is taken
        self._drawn: dict[int, Indices] = {}  # batches that are drawn and wait for their step, by number
        self._left_out: Indices = np.zeros(0, dtype=np.int64)
        self._pass = 0  # which iteration may go on

    def __len__(self) -> int:
        """The steps of one pass."""
        return self.sampler.epoch

    def took(self) -> None:
        """The batch in hand has had its step."""
        self._drawn.pop(self._taken, None)
        self._taken += 1

    def leave_out(self, records: Iterable[int]) -> None:
        """These records are never drawn: a batch comes without them."""
        self._left_out = np.fromiter(records, dtype=np.int64)

    def _draw(self, number: int) -> Indices:
        if number not in self._drawn:
            drawn = next(self._batches)
            self._drawn[number] = drawn[~np.isin(drawn, self._left_out)] if len(self._left_out) else drawn
        return self._drawn[number]

    def __iter__(self) -> Iterator[Any]:
        self._pass += 1
        return self._iterate(self._pass)

    def _iterate(self, mine: int) -> Iterator[Any]:
        self._check(mine)
        self._listener.begin()
        numbers = range(self._taken, self._taken + min(self.sampler.epoch, self._listener.remaining()))
        draws = Draws(self._draw, numbers)
        read = DataLoader(self._fetch, sampler=draws, batch_size=None, num_workers=self._workers, collate_fn=unchanged)
        with self._listener.touching():
            batches = iter(read)
        for _ in numbers:
            with self._listener.touching():
                _, indices, batch = next(batches)
            self._listener.handed_out(max(1, len(indices)), drawn=len(indices) > 0, batch=batch)
            try:
                yield batch
            except GeneratorExit:
                self._listener.left()
                raise
            self._check(mine)
            self._listener.moved_on()

    def _check(self, mine: int) -> None:
        if mine != self._pass:
            raise TrainingError("another iteration over the loader has begun since this one; go on with that: batches come in one order")


def unchanged(loaded: Any) -> Any:
    """What was fetched, as it is: the data loader would turn arrays of indices into tensors."""
    return loaded
