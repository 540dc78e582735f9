"""The loader of a private run: it draws the batches the accountant was told of, and refuses every other source.

It hands out one batch a step, and the loop runs once for each: also for a batch that came out empty, which is handed out as one record
that counts for nothing. A batch that was drawn and not stepped (a `break`, a look with `next(iter(loader))`, an error in the loop) is the
next one to be handed out, so that every draw is one step. How many records a batch has is private: print neither its size nor its loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from tacit.accounting import ParameterError
from tacit.deep.errors import TrainingError
from tacit.deep.samplers import Indices, Sampler

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
