"""Forgetting records on request: sums that are taken back, shards that are trained again, and how that relates to privacy.

A person may demand that a model forget them (erasure). Exact ways give the model that would have come out without the record:

- `SummationForm`: the model is a function of sums over records (naive Bayes, least squares, statistical queries). Subtract the record's
  share (Cao and Yang 2015).
- `Shards`: records lie in shards, and a shard's in slices, trained one after another and kept; a vote decides. Forgetting trains one shard
  again, from the slice on that held the record (Bourtoule et al. 2021, SISA).

>>> means = SummationForm(lambda row: [1.0, row], solve=lambda sums: sums[1] / sums[0])
>>> for row in (0.1, 0.2, 0.6):
...     means.learn(row)
>>> means.forget(0.6)
>>> round(float(means.model()), 6)
0.15

**Neither is private.** The model before and the model after, held side by side, tell what was forgotten: above, 3 x 0.3 - 2 x 0.15 is the
record. And whoever never asks stays in the model as before. Differential privacy works the other way round: it bounds what any record
does from the beginning, so the model that was never changed is already close to the one without it: `already_forgotten` says how
close, for how many requests. Where the law demands that data be erased, erase them and train again; where the fear is what a model
tells, use privacy. Requests that depend on what was published are outside of both statements, unless their order is fixed in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Bound, Event, Group, ParameterError, account
from tacit.parameters import count

#: Numbers are added up in whole multiples of this: exactly, so that what is taken back leaves nothing.
UNIT = Fraction(1, 2**40)


class SummationForm:
    """A model made of sums over records, kept exactly."""

    def __init__(self, statistic: Callable[[Any], Sequence[float]], solve: Callable[[NDArray[np.float64]], Any]) -> None:
        self.statistic, self.solve = statistic, solve
        self._sums: list[int] | None = None

    def learn(self, record: Any) -> None:
        """Add a record."""
        self._move(record, 1)

    def forget(self, record: Any) -> None:
        """Take a record back. It must have been learned: no list of records is kept, so this cannot be checked."""
        self._move(record, -1)

    def _move(self, record: Any, sign: int) -> None:
        parts = [round(Fraction(float(value)) / UNIT) for value in self.statistic(record)]
        if self._sums is None:
            self._sums = [0] * len(parts)
        if len(parts) != len(self._sums):
            raise ParameterError(f"the statistic must have the same length for every record, {len(self._sums)}, not {len(parts)}")
        self._sums = [total + sign * part for total, part in zip(self._sums, parts, strict=True)]

    @property
    def sums(self) -> NDArray[np.float64]:
        """The sums of what is learned and not forgotten."""
        if self._sums is None:
            raise ParameterError("nothing was learned yet")
        return np.array([float(total * UNIT) for total in self._sums])

    def model(self) -> Any:
        """The model of these sums."""
        return self.solve(self.sums)


class Shards:
    """Models of disjoint shards, each trained slice by slice, with the model after every slice kept.

    `fit(model, rows)` trains on from `model` (None at the beginning) with the rows of one slice, and returns a new model; it must not
    change the one it was given. Rows are names, such as row numbers; where each lies is drawn by nothing but its place in `rows`.

    >>> shards = Shards(lambda model, rows: (model or 0) + sum(rows), rows=range(8), shards=2, slices=2)
    >>> shards.models()
    [12, 16]
    >>> shards.forget([7]), shards.models()            # one slice of one shard was trained again
    (1, [12, 9])
    """

    def __init__(self, fit: Callable[[Any, list[Any]], Any], rows: Iterable[Hashable], *, shards: int, slices: int = 1) -> None:
        self.fit = fit
        listed = list(rows)
        if len(set(listed)) != len(listed):
            raise ParameterError("rows must be names that differ, such as row numbers")
        parts, cuts = count("shards", shards), count("slices", slices)
        self._slices = [[list(listed[k::parts][cut::cuts]) for cut in range(cuts)] for k in range(parts)]
        self._place = {row: (k, cut) for k, shard in enumerate(self._slices) for cut, held in enumerate(shard) for row in held}
        self._kept: list[list[Any]] = [[] for _ in range(parts)]
        for k in range(parts):
            self._train(k, 0)

    def _train(self, shard: int, first: int) -> int:
        """Train a shard again from a slice on; how many slices that were."""
        kept = self._kept[shard] = self._kept[shard][:first]
        for rows in self._slices[shard][first:]:
            kept.append(self.fit(kept[-1] if kept else None, list(rows)))
        return len(self._slices[shard]) - first

    def forget(self, rows: Iterable[Hashable]) -> int:
        """Take rows out, and train again what had seen them; how many slices were trained. A row that is not there is refused."""
        gone = list(rows)
        unknown = [row for row in gone if row not in self._place]
        if unknown or len(set(gone)) != len(gone):
            raise ParameterError("some of the rows are not there, or are given twice")
        first: dict[int, int] = {}
        for row in gone:
            shard, cut = self._place.pop(row)
            self._slices[shard][cut].remove(row)
            first[shard] = min(cut, first.get(shard, cut))
        return sum(self._train(shard, cut) for shard, cut in first.items())

    def models(self) -> list[Any]:
        """The model of each shard."""
        return [kept[-1] for kept in self._kept]

    def predict(self, inputs: Any) -> NDArray[np.int64]:
        """The label that most shards' models give; the smallest of those that tie. Models are callables, or have a `predict`."""
        votes = np.stack([np.asarray(model.predict(inputs) if hasattr(model, "predict") else model(inputs)) for model in self.models()])
        return np.array([np.bincount(column).argmax() for column in votes.T.astype(np.int64)], dtype=np.int64)


def already_forgotten(event: Event, records: int, delta: float, *, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Bound:
    """How far, in epsilon at `delta`, a release of this price is from one without `records` of its records: group privacy.

    >>> from tacit.accounting import PureDP
    >>> already_forgotten(PureDP(0.1), 3, 0.0).upper
    0.3...
    """
    return account(Group(event, count("records", records)), adjacency).epsilon(delta)
