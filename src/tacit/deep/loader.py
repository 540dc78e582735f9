"""The loader of a private run: it draws the batches the accountant was told of, and refuses every other source.

It hands out one batch a step, and the loop runs once for each: also for a batch that came out empty, which is handed out as one record
that counts for nothing. A batch that was drawn and not stepped (a `break`, a look with `next(iter(loader))`, an error in the loop) is the
next one to be handed out, so that every draw is one step. How many records a batch has is private: print neither its size nor its loss.

A `DataLoader` of torch goes in as it is: its data set, collate function, workers and pinned memory are kept, and its sampler is replaced by
one that has a price. A collate function sees the records of a batch together, before anything is clipped, so it is run again with
some of them replaced (`joined`), and refused if what it makes of the others changes: padding to the longest record of a batch does.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from tacit.accounting import ParameterError
from tacit.deep.alone import due
from tacit.deep.errors import TrainingError
from tacit.deep.samplers import Indices, PoissonBatches, Sampler

COLLATE = (
    "collate lets records see each other: what it makes of one record changes with the others of its batch, so clipping bounds nothing; "
    "pad every record to one fixed length (padding='max_length'), not to the longest of its batch, and leave out mixup and whatever else "
    "joins records. If you have checked that no record's loss changes, allow_unseen=True goes on, and the ledger says so"
)
KEPT = (
    *("num_workers", "pin_memory", "worker_init_fn", "prefetch_factor"),
    *("persistent_workers", "multiprocessing_context", "timeout", "generator"),
)


@dataclass(frozen=True)
class Reads:
    """How records are read: from where, put together by what, and the options of the data loader that does it."""

    data: Dataset[Any]
    collate: Callable[[list[Any]], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any, workers: int = 0, collate: Callable[[list[Any]], Any] | None = None) -> Reads:
        """A `DataLoader` as it is, all but its sampler; or a data set or tensors, read by `workers` and put together by `collate`.

        >>> given = DataLoader(TensorDataset(torch.zeros(9, 2)), batch_size=3, shuffle=True, timeout=5)
        >>> Reads.of(given).options["timeout"]
        5
        """
        if isinstance(data, Reads):
            return data
        if not isinstance(data, DataLoader):
            return cls(as_dataset(data), collate, {"num_workers": workers})
        if workers or collate is not None:
            raise ParameterError("the DataLoader has its own workers and collate_fn, which are kept; leave out workers= and collate=")
        held: Any = data.dataset
        records = held if isinstance(held, tuple | list) else as_dataset(held)
        if data.batch_sampler is None:
            raise ParameterError(
                "this DataLoader has batch_size=None, so an item of its data set is no single record to draw; give records and a batch_size"
            )
        drawn = getattr(data.batch_sampler, "sampler", None)
        plain = type(data.batch_sampler) is BatchSampler and (
            type(drawn) is SequentialSampler
            or (type(drawn) is RandomSampler and not drawn.replacement and getattr(drawn, "_num_samples", None) is None)
        )
        if not plain:
            own = drawn if type(data.batch_sampler) is BatchSampler else data.batch_sampler
            raise ParameterError(
                f"this DataLoader draws by a sampler of its own ({type(own).__name__}), which no price is known for; build it with "
                "batch_size= (and shuffle=, which changes nothing here), or hand over its data set: loader.dataset"
            )
        collated = None if data.collate_fn is default_collate else data.collate_fn
        return cls(cast("Dataset[Any]", records), collated, {name: getattr(data, name) for name in KEPT})


def sampler_of(data: Any, sampler: Sampler | None, size: int | None) -> Sampler:
    """The sampler that was given; or, for a DataLoader, Poisson batches of its batch size out of the declared, public `size`.

    >>> loader = DataLoader(TensorDataset(torch.zeros(9, 2)), batch_size=3)
    >>> sampler_of(loader, None, size=10).rate
    Fraction(3, 10)
    """
    if sampler is not None:
        if size is not None:
            raise ParameterError("give sampler= or size=, not both: the sampler has its own size")
        return sampler
    if size is None:
        raise ParameterError(
            "say how batches are drawn: sampler=PoissonBatches(expected_batch=256, size=60000); or, for a DataLoader, size=60000 alone, "
            "the public number that its batch_size is taken from. It is not read from the data: how many records there are is private"
        )
    if not isinstance(data, DataLoader):
        raise ParameterError("size= alone takes the batch size of a DataLoader; for other data give sampler=PoissonBatches(...)")
    Reads.of(data)  # refuses a loader without batches, or with batches of its own making
    return PoissonBatches(expected_batch=cast(Any, data.batch_sampler).batch_size, size=size)


class Listener(Protocol):
    """Who is told what the loader hands out."""

    def remaining(self) -> int:
        """The steps that are planned, paid for and not yet taken."""

    def begin(self) -> None:
        """A pass begins: whatever must be paid first is paid now."""

    def admitted(self) -> bool:
        """Before a batch is drawn: whether its step may be taken. If not, the pass ends."""

    def touching(self) -> AbstractContextManager[Any]:
        """A block that reads records."""

    def collated_together(self) -> None:
        """The records of a batch were seen to change each other when they were put together: may raise."""

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
    if isinstance(data, IterableDataset):
        raise ParameterError("an IterableDataset cannot be sampled by record; wrap the records in a Dataset with __len__ and __getitem__")
    if isinstance(data, torch.Tensor):
        return TensorDataset(data)
    if isinstance(data, tuple | list) and data and all(isinstance(part, torch.Tensor) for part in data):
        if len({len(part) for part in data}) != 1:
            raise ParameterError("the tensors of data must have the same number of rows")
        return TensorDataset(*data)
    # A data set of another library, with a length and an index, is as good as torch's own. A table's index is that of its columns.
    indexed = hasattr(type(data), "__len__") and hasattr(type(data), "__getitem__")
    if indexed and (isinstance(data, Dataset) or not (isinstance(data, tuple | list | dict | str | bytes) or hasattr(data, "columns"))):
        return cast("Dataset[Any]", data)
    raise ParameterError(f"data must be a Dataset with a length, a tensor or a tuple of tensors, not {type(data).__name__}")


class Fetch(Dataset[Any]):
    """The data set read by batches, in this process or in a worker's. An empty batch becomes a placeholder of one record.

    With a batch comes whether its records were seen to change each other; that is looked at for the draws 1, 2, 4, 8, ...
    """

    def __init__(self, data: Dataset[Any], collate: Callable[[list[Any]], Any] | None) -> None:
        self.data = data
        self.collate = collate or default_collate

    def __getitem__(self, draw: tuple[int, Indices]) -> tuple[int, Indices, Any, bool]:
        number, indices = draw
        if isinstance(self.data, TensorDataset) and self.collate is default_collate:
            index = torch.from_numpy(indices)
            if not len(indices):
                return number, indices, [tensor.new_zeros(1, *tensor.shape[1:]) for tensor in self.data.tensors], False
            return number, indices, [tensor[index] for tensor in self.data.tensors], False
        records = self._records(indices.tolist() or [0])
        # Which records are put together by users' own rows is known to their data set alone.
        together = getattr(self.data, "together", None) or partial(joined, self.collate)
        looked = self.collate is not default_collate and due(number + 1) and len(indices) > 1
        found = looked and together([copied(record) for record in records])
        return number, indices, self.collate(records), found

    def _records(self, indices: list[int]) -> list[Any]:
        """The records, all at once where the data set can do that, as torch's own loader has them."""
        if hasattr(self.data, "__getitems__"):
            return list(self.data.__getitems__(indices))
        return [self.data[i] for i in indices]


def joined(collate: Callable[[list[Any]], Any], records: Sequence[Any]) -> bool:
    """Whether what `collate` makes of some records changes when the others are replaced by copies of these.

    A collate that cannot be run a second time counts as one that does. Chance is the same in every run.

    >>> rows = [torch.ones(length) for length in (1, 2, 3, 2)]
    >>> joined(torch.nn.utils.rnn.pad_sequence, rows), joined(lambda r: torch.stack([x.sum() for x in r]), rows)
    (True, False)
    """
    count = len(records)
    half = count // 2
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        found: list[Any] = []
        parts = range(half), range(half, count), range(1)
        for kept in (range(count), *parts):
            rows = [copied(records[k if k in kept else kept[k % len(kept)]]) for k in range(count)]
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_rng_state(states[2])
            found.append(collate(rows))
        return any(_differ(found[0], other, count, kept) for other, kept in zip(found[1:], parts, strict=True))
    except Exception:  # the error may hold values
        return True
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def copied(record: Any) -> Any:
    """A record that a collate may change in place."""
    return copy.deepcopy(record)


def _differ(one: Any, other: Any, count: int, kept: range) -> bool:
    """Whether two batches of `count` records differ in the rows that are kept, or in anything that is no row."""
    if type(one) is not type(other):
        return True
    if isinstance(one, torch.Tensor | np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return True
        rows = slice(kept[0], kept[-1] + 1) if one.ndim and len(one) == count else slice(None) if one.ndim else ...
        left, right = (np.ascontiguousarray(_plain(value)[rows]) for value in (one, other))
        return left.tobytes() != right.tobytes()
    if isinstance(one, Mapping):
        return one.keys() != other.keys() or any(_differ(one[key], other[key], count, kept) for key in one)
    if isinstance(one, tuple | list):
        if len(one) != len(other):
            return True
        nested = any(isinstance(part, torch.Tensor | np.ndarray | tuple | list | Mapping) for part in one)
        places = kept if len(one) == count and not nested else range(len(one))
        return any(_differ(one[k], other[k], count, kept) for k in places)
    if hasattr(one, "__dict__") and not isinstance(one, type):
        return _differ(vars(one), vars(other), count, kept)
    return bool(pickle.dumps(one) != pickle.dumps(other))


def _plain(value: Any) -> Any:
    """The numbers of a tensor or an array, as an array; a tensor of a type that numpy has not comes as bytes."""
    if isinstance(value, torch.Tensor):
        held = value.detach().cpu().contiguous()
        return held.numpy() if held.dtype != torch.bfloat16 else held.view(torch.int16).numpy()
    return value


class Draws(torch.utils.data.Sampler[tuple[int, Indices]]):
    """The batches of one pass with their numbers, drawn as they are asked for."""

    def __init__(self, draw: Callable[[int], Indices]) -> None:
        self.draw = draw
        self.numbers = range(0)

    def __iter__(self) -> Iterator[tuple[int, Indices]]:
        for number in self.numbers:
            yield number, self.draw(number)


class PrivateLoader:
    """Batches of a private run, one pass an epoch. Made by `make_private`."""

    def __init__(self, reads: Reads, sampler: Sampler, listener: Listener) -> None:
        self.dataset = data = reads.data
        self.sampler = sampler
        self._listener = listener
        records = len(cast(Sized, data))
        if not records and not isinstance(data, TensorDataset):
            raise ParameterError("the data has no record to tell the shape of an empty batch from; give tensors, or at least one record")
        self._batches = sampler.batches(records)
        self._taken = 0  # batches whose step is taken
        self._drawn: dict[int, Indices] = {}  # batches that are drawn and wait for their step, by number
        self._left_out: Indices = np.zeros(0, dtype=np.int64)
        self._pass = 0  # which iteration may go on
        self._draws = Draws(self._draw)
        # One for all passes: workers may persist.
        self._read = DataLoader(Fetch(data, reads.collate), sampler=self._draws, batch_size=None, collate_fn=unchanged, **reads.options)

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
        if not numbers:
            return
        self._draws.numbers = numbers
        with self._listener.touching():
            batches = iter(self._read)
        for _ in numbers:
            if not self._listener.admitted():
                return
            with self._listener.touching():
                _, indices, batch, together = next(batches)
            if together:
                self._listener.collated_together()
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
