"""The loader of a private run: it draws the batches the accountant was told of, and refuses every other source.

A logical batch is what one step sees. Where it is larger than `physical_batch`, it is handed out in pieces and the optimiser steps after
the last, so memory is bounded and the result unchanged. A batch that came out empty never reaches the training loop: the loader takes that
step itself, noise and all, because a step that is skipped would tell that nobody was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from tacit.accounting import ParameterError
from tacit.deep.samplers import Indices, Sampler

UNKNOWN_LOADER = (
    "a DataLoader decides by itself which records a step sees, and the accountant cannot know. Hand over its data set and the sampler:\n"
    "    data = loader.dataset\n"
    "    make_private(model, optimizer, data, sampler=Poisson(expected_batch=256, size=60000), ...)"
)


class Listener(Protocol):
    """Who is told what the loader hands out."""

    def remaining(self) -> int:
        """The steps that are planned, paid for and not yet taken."""

    def begin(self) -> None:
        """A pass begins: whatever must be paid first is paid now."""

    def touching(self) -> AbstractContextManager[Any]:
        """A block that reads records."""

    def handed_out(self, records: int, *, last: bool) -> None:
        """A piece of a logical batch goes to the training loop; `last` completes it."""

    def moved_on(self) -> None:
        """The loop came back for more."""

    def empty_step(self) -> None:
        """A logical batch came out empty: take its step."""


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


@dataclass(frozen=True)
class Piece:
    """The records of one physical batch; `last` completes the logical one."""

    indices: Indices
    last: bool


class Fetch(Dataset[Any]):
    """The data set read by pieces, in this process or in a worker's: an empty piece reads nothing."""

    def __init__(self, data: Dataset[Any], collate: Callable[[list[Any]], Any] | None) -> None:
        self.data = data
        self.collate = collate or default_collate

    def __getitem__(self, piece: Piece) -> tuple[Piece, Any]:
        if not len(piece.indices):
            return piece, None
        if isinstance(self.data, TensorDataset) and self.collate is default_collate:
            index = torch.from_numpy(piece.indices)
            return piece, [tensor[index] for tensor in self.data.tensors]
        return piece, self.collate([self.data[i] for i in piece.indices.tolist()])


class Pieces(torch.utils.data.Sampler[Piece]):
    """The pieces of one pass, drawn as they are asked for."""

    def __init__(self, batches: Iterator[Indices], steps: int, largest: int | None) -> None:
        self.batches, self.steps, self.largest = batches, steps, largest

    def __iter__(self) -> Iterator[Piece]:
        for _ in range(self.steps):
            drawn = next(self.batches)
            parts = 1 if self.largest is None else max(1, -(-len(drawn) // self.largest))
            for place, indices in enumerate(np.array_split(drawn, parts), 1):
                yield Piece(indices, place == parts)


class PrivateLoader:
    """Batches of a private run, one pass an epoch. Made by `make_private`."""

    def __init__(
        self,
        data: Dataset[Any],
        sampler: Sampler,
        listener: Listener,
        *,
        physical_batch: int | None = None,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.dataset = data
        self.sampler = sampler
        self._fetch = Fetch(data, collate)
        self._listener = listener
        self._physical = physical_batch
        self._workers = workers
        self._batches = sampler.batches(len(data))  # type: ignore[arg-type]

    def __len__(self) -> int:
        """The steps of one pass."""
        return self.sampler.epoch

    def __iter__(self) -> Iterator[Any]:
        self._listener.begin()
        steps = min(self.sampler.epoch, self._listener.remaining())
        pieces = Pieces(self._batches, steps, self._physical)
        read = DataLoader(self._fetch, sampler=pieces, batch_size=None, num_workers=self._workers, collate_fn=unchanged)
        with self._listener.touching():
            batches = iter(read)
        while True:
            with self._listener.touching():
                piece, batch = next(batches, (None, None))
            if piece is None:
                return
            if not len(piece.indices):
                self._listener.empty_step()
                continue
            self._listener.handed_out(len(piece.indices), last=piece.last)
            yield batch
            self._listener.moved_on()


def unchanged(loaded: Any) -> Any:
    """What was fetched, as it is: the data loader would turn arrays of indices into tensors."""
    return loaded
