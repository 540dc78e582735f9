"""Data-parallel private training: every process clips its own part, and what is released is that of one process.

Each rank holds a disjoint part of the records and draws its part of every batch by the same law. Clipped sums are added up over the
ranks in double precision, rank 0 adds the noise of one process on its lattice, and every rank takes the same step. (Noise in
shares, one a rank, would not add up to a rounded Gaussian, whose price is known.) One rank alone is the ordinary run:

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
...     model = nn.Linear(4, 2)
...     mine = shard(100)                                 # the records of this rank
...     data = torch.randn(100, 4)[mine], torch.randint(2, (100,))[mine]
...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
...     plan = dict(noise_multiplier=1.0, clip=1.0, sampler=PoissonBatches(expected_batch=10, size=100), steps=5)
...     private = make_private_distributed(model, optimizer, data, **plan)
...     for x, y in private.loader:
...         nn.functional.cross_entropy(model(x), y).backward()
...         optimizer.step()
...     dist.destroy_process_group()
>>> private.steps, private.world
(5, 1)

`sampler` is that of the whole data: its rate holds on every rank, and its divisor is public and global. PoissonBatches, random allocation
and full batches fall apart into independent ranks; a batch of fixed size is drawn by rank 0 for all. With `sharded=True` every rank is
given the whole data and takes its own part of it.

Guarantee
    Statement: the released gradients have the law, and the price, of `make_private` on all records together.
    Conditions: each record on one rank, placed without looking at it (`shard`, or `sharded=True`). Ranks compare keyed digests of their
    records before the first step: copies of a record on a second rank are left out, and ranks that share most of their records are
    refused. Ranks trust each other and the network between them: what travels before the noise is private.
    Proved in: the sum over all ranks is that of one process, up to a rounding that is charged; PoissonBatches and allocation decide
    for each record independently.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset, Subset, TensorDataset

from tacit.accounting import Adjacency, Event, Guarantee, ParameterError
from tacit.deep.clipping import ClippedSum, Rule, flat, halves
from tacit.deep.errors import TrainingError
from tacit.deep.loader import Reads
from tacit.deep.private import Independent, PrivateTraining, noise_for, planned_steps
from tacit.deep.samplers import Allocation, FixedSize, FullBatch, PoissonBatches, Sampler
from tacit.mechanisms import NoisySums
from tacit.noise import is_private, words
from tacit.parameters import Number, count


def shard(records: int, rank: int | None = None, world: int | None = None) -> NDArray[np.int64]:
    """The row numbers of one rank, by position alone: every world-th row.

    >>> shard(7, rank=1, world=3).tolist()
    [1, 4]
    """
    ranks = dist.get_world_size() if world is None else count("world", world)
    mine = dist.get_rank() if rank is None else count("rank", rank, least=0)
    if mine >= ranks:
        raise ParameterError(f"rank must be less than world ({ranks}), not {mine}")
    return np.arange(mine, count("records", records, least=0), ranks, dtype=np.int64)


def part_of(data: Dataset[Any], rows: NDArray[np.int64]) -> Dataset[Any]:
    """These rows of a data set.

    >>> len(part_of(TensorDataset(torch.zeros(7, 2)), shard(7, rank=1, world=3)))
    2
    """
    if isinstance(data, TensorDataset):
        return TensorDataset(*[tensor[torch.from_numpy(rows)] for tensor in data.tensors])
    return Subset(data, rows.tolist())


def digests(records: Any, key: bytes) -> list[bytes]:
    """A keyed digest of each record, by its content; the key is drawn for the run, and neither leaves the ranks.

    >>> records = [(torch.tensor([1.0, 2.0]), 3), (torch.tensor([1.0, 2.0]), 3), (torch.tensor([1.0, 2.0]), 4)]
    >>> found = digests(records, b"key")
    >>> found[0] == found[1], found[0] == found[2], len(found[0])
    (True, False, 16)
    """
    if len(records) and _content(records[0]) != _content(records[0]):
        raise TrainingError(
            "a record changes each time it is read, so ranks cannot be compared; change records in the loop rather than in the data set, "
            "or give ids="
        )
    return [hashlib.blake2b(_content(records[k]), key=key, digest_size=16).digest() for k in range(len(records))]


def _took(left: Counter[bytes], found: bytes) -> bool:
    """Take one copy out of those that are left, if there is one."""
    left[found] -= 1
    return left[found] >= 0


def _content(record: Any) -> bytes:
    """The bytes of a record: type, shape and numbers of tensors and arrays, and anything else as it is pickled."""
    if isinstance(record, Tensor):
        held = record.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return repr((tuple(record.shape), str(record.dtype))).encode() + held.tobytes()
    if isinstance(record, np.ndarray) and record.dtype != object:
        return repr((record.shape, str(record.dtype))).encode() + np.ascontiguousarray(record).tobytes()
    if isinstance(record, tuple | list):
        parts = [_content(part) for part in record]
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    if isinstance(record, dict):
        return _content([part for item in record.items() for part in item])
    return pickle.dumps(record)


class Together(Independent):
    """Noise for sums that lie in parts on the ranks of a group: drawn once, by the first."""

    def __init__(self, group: Any, rank: int, world: int, first: int) -> None:
        self.group, self.rank, self.world, self.first = group, rank, world, first

    def rounding(self, parameters: int, farthest: float) -> float:
        """Every rank's sum may be the largest, and the total is rounded each time one is added."""
        return self.world**2 * super().rounding(parameters, farthest)

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        total = sums.to(torch.float64, copy=True)
        dist.all_reduce(total, group=self.group)
        if self.rank == 0:
            super().add(total, noise, times)
        dist.broadcast(total, self.first, group=self.group)
        return total


@dataclass(frozen=True)
class DrawnByOne:
    """Batches of fixed size out of records that lie on several ranks: rank 0 draws them, and every rank takes what it has.

    Records are numbered rank by rank; how many each has is public, as the size is under replace-one.
    """

    whole: FixedSize
    group: Any
    rank: int
    world: int
    first: int

    @property
    def divisor(self) -> Number:
        return self.whole.divisor

    @property
    def epoch(self) -> int:
        return self.whole.epoch

    @property
    def adjacency(self) -> Adjacency:
        return self.whole.adjacency

    def event(self, step: Event, steps: int) -> Event:
        return self.whole.event(step, steps)

    def batches(self, records: int) -> Iterator[NDArray[np.int64]]:
        held = torch.zeros(self.world, dtype=torch.int64)
        held[self.rank] = records
        dist.all_reduce(held, group=self.group)
        total = int(held.sum())
        if total != self.whole.size:
            raise ParameterError(f"the ranks have {total} records together, not size={self.whole.size}; correct it: it is public")
        return self._parts(int(held[: self.rank].sum()), records)

    def _parts(self, begins: int, records: int) -> Iterator[NDArray[np.int64]]:
        drawn = self.whole.batches(self.whole.size)
        while True:
            batch = torch.from_numpy(next(drawn)) if self.rank == 0 else torch.zeros(self.whole.batch, dtype=torch.int64)
            dist.broadcast(batch, self.first, group=self.group)
            numbers = batch.numpy() - begins
            yield numbers[(numbers >= 0) & (numbers < records)]


class DistributedTraining(PrivateTraining):
    """One rank's view of a run. Made by `make_private_distributed`."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, data: Any, *, sampler: Sampler, group: Any = None, ids: Any = None,
        sharded: bool = False, workers: int = 0, collate: Callable[[list[Any]], Any] | None = None, **plan: Any,
    ) -> None:
        if not dist.is_initialized():
            raise TrainingError("call torch.distributed.init_process_group(...) in every process first")
        if not isinstance(sampler, PoissonBatches | Allocation | FullBatch | FixedSize):
            raise ParameterError(
                f"{type(sampler).__name__} does not fall apart into independent ranks; use PoissonBatches, Allocation, FullBatch or "
                "FixedSize, with the size of the whole data"
            )
        self.group = group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        self._first = dist.get_global_rank(group, 0) if group is not None else 0
        reads = whole = Reads.of(data, workers, collate)
        if isinstance(sampler, FixedSize) and whole.options.get("num_workers"):
            raise ParameterError("a batch of fixed size is drawn when all ranks ask for it, so workers cannot read ahead; leave them out")
        if sharded:
            reads = replace(whole, data=part_of(whole.data, shard(len(cast(Sized, whole.data)), self.rank, self.world)))
        self._whole = whole.data if sharded else None
        noise = Together(group, self.rank, self.world, self._first)
        super().__init__(model, optimizer, reads, sampler=sampler, noise=noise, **plan)
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor.detach(), self._first, group=group)
        self._ids = None if ids is None else list(ids)
        if self._ids is not None and len(self._ids) != len(cast(Sized, self.loader.dataset if self._whole is None else self._whole)):
            raise ParameterError("ids must have one entry for each record of this rank, or of the whole data with sharded=True")
        self._apart = False  # whether the ranks' records were compared

    def begin(self) -> None:
        """The plan is paid for once, by rank 0; if it is refused there, no rank reads a record."""
        refused: Exception | None = None
        account = self._account
        if self.rank != 0:
            self._account = None
        try:
            super().begin()
        except Exception as error:
            refused = error
        finally:
            self._account = account
        if self._total([0.0 if refused is None else 1.0])[0]:
            if refused is not None:
                raise refused
            raise TrainingError("another rank was refused: the plan is not paid for, or all its steps are taken")
        if not self._apart:
            self._compare()
            self._apart = True

    def _drawing(self, sampler: Sampler) -> Sampler:
        return DrawnByOne(sampler, self.group, self.rank, self.world, self._first) if isinstance(sampler, FixedSize) else sampler

    def _alike(self, key: bytes) -> None:
        """Every rank must have been given the same data, in the same order: then parts by place have no record in common."""
        with self.touching():
            records = self._whole if self._ids is None else self._ids
            mine = hashlib.blake2b(b"".join(digests(records, key)), key=key, digest_size=16).digest()
            gathered: list[Any] = [None] * self.world
            dist.all_gather_object(gathered, mine, group=self.group)
        if len(set(gathered)) > 1:
            raise TrainingError(
                "with sharded=True every rank must be given the whole data, in the same order; if each has its own records, leave it out"
            )

    def _compare(self) -> None:
        """As many copies of a record as an earlier rank has are left out here; ranks that share most of their records are refused."""
        key = torch.from_numpy(np.frombuffer(words(4).tobytes(), dtype=np.uint8).copy())
        dist.broadcast(key, self._first, group=self.group)
        if self._whole is not None:
            self._alike(key.numpy().tobytes())
            return
        with self.touching():
            mine = digests(self.loader.dataset if self._ids is None else self._ids, key.numpy().tobytes())
            gathered: list[Any] = [None] * self.world
            dist.all_gather_object(gathered, mine, group=self.group)
            held = [Counter(found) for found in gathered]
            shared = any((one & other).total() * 2 > min(one.total(), other.total()) for one, other in combinations(held, 2))
            earlier = reduce(or_, held[: self.rank], Counter[bytes]())
            surplus = [k for k, found in enumerate(mine) if _took(earlier, found)]
        if shared:
            raise TrainingError(
                "two ranks were given the same records, which would count twice; give each rank its own, rows = shard(len(x)); x[rows], or "
                "sharded=True. If different people's records are alike, tell them apart with ids="
            )
        self.loader.leave_out(surplus)

    def _adapt(self, collected: ClippedSum) -> float | None:
        """The noisy count of all ranks, where one is paid for; its noise is drawn by rank 0."""
        # one rank in test mode makes the whole run not private
        self.private = self._total([0.0 if is_private() else 1.0])[0] == 0 and self.private
        noise = self._count
        if noise is None:
            return None
        mine = halves(collected.within(), collected.count)
        (noisy,) = self._total([noise.release(mine) if self.rank == 0 else mine / 2])
        return self._counted(noisy)

    def _total(self, values: list[float]) -> list[float]:
        """Sums over all ranks, the same on each."""
        together = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(together, group=self.group)
        return [float(value) for value in together]


def make_private_distributed(
    model: nn.Module, optimizer: Optimizer, data: Any, *, clip: float | Rule, sampler: Sampler,
    noise_multiplier: float | None = None, guarantee: Guarantee | str | None = None,
    epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
    mu: float | None = None, steps: int | None = None, epochs: int | None = None, group: Any = None,
    account: Any = None, collate: Callable[[list[Any]], Any] | None = None,
    physical_batch: int | None = None, workers: int = 0, loss_reduction: Any = "mean",
    purpose: str = "training", ids: Any = None, sharded: bool = False, allow_unseen: bool = False,
) -> DistributedTraining:
    """As `make_private`, called in every process with this rank's records and the sampler of the whole data.

    With `sharded=True` the data is the whole data on every rank, in one order, and each takes its part, `shard(len(data))`.

    Give `noise_multiplier`, or `epsilon` and `delta`, `rho`, `mu` or a `guarantee`. The model of rank 0 is copied to the
    others. A ledger `account` is used by rank 0. Ranks compare digests of their records, or of `ids`, one for each of this rank's records.

    >>> make_private_distributed(nn.Linear(1, 1), None, None, clip=1, sampler=FullBatch(10), steps=1)
    Traceback (most recent call last):
    tacit.errors.ParameterError: give noise_multiplier, or epsilon and delta
    """
    planned = planned_steps(sampler, steps, epochs)
    asked = {"given": guarantee, "epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    noise, paid = noise_for(lambda z: Independent().event(sampler, z, planned), sampler, noise_multiplier, asked)
    return DistributedTraining(
        model,
        optimizer,
        data,
        sampler=sampler,
        group=group,
        ids=ids,
        sharded=sharded,
        noise_multiplier=noise,
        rule=flat(clip) if isinstance(clip, int | float) else clip,
        steps=planned,
        loss_reduction=loss_reduction,
        physical_batch=physical_batch,
        workers=workers,
        collate=collate,
        account=account,
        purpose=purpose,
        delta=paid,
        allow_unseen=allow_unseen,
    )
