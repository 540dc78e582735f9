"""The net mechanism: choose a whole synthetic data set by the exponential mechanism. A toy, for data sets one can list.

All data sets of the same number of rows over the same cells are candidates; the score is minus the largest error over the
questions, in counts (Blum, Ligett and Roth 2013). The number of rows is public, so neighbours replace a row.

>>> from tacit.workloads.workload import Cells, Prefix, Product
>>> net = NetMechanism(Product(a=Prefix).on(Cells.of({"a": 2})), rows=4, epsilon=1)
>>> len(net.candidates), net.event
(5, PureDP(epsilon=Fraction(1, 1), adjacency=Adjacency.REPLACE_ONE))
>>> sum(net.draw([3, 1]))
4
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, PureDP
from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.errors import ParameterError
from tacit.mechanisms import exponential
from tacit.parameters import Number, count, positive
from tacit.workloads.workload import Workload

#: The most data sets that are listed.
MOST = 100_000


@dataclass(frozen=True, eq=False)
class NetMechanism:
    """Every data set of `rows` rows is a candidate.

    Guarantee
        Statement: `draw` costs epsilon where a row is replaced by another and the number of rows is public.
        Conditions: questions count rows, so that replacing one moves every answer, and the largest error, by at most 1.
        Proved in: McSherry and Talwar 2007, Theorem 6.
        Correction: the score is minus the largest error; the printed "inverse" of it (erratum E19) has no bounded sensitivity.
    """

    workload: Workload
    rows: int
    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Fraction(positive("epsilon", self.epsilon)))
        count("rows", self.rows)
        cells = self.workload.cells.total
        if math.comb(self.rows + cells - 1, cells - 1) > MOST:
            raise ParameterError(f"more than {MOST} data sets have {self.rows} rows in {cells} cells; the net mechanism lists all of them")
        for term in self.workload.terms:
            if not all(set(np.unique(factor.matrix())) <= {0.0, 1.0} for _, factor in term.factors):
                raise ParameterError("the net mechanism takes questions that count rows: weights 0 or 1")

    @property
    def event(self) -> Event:
        """What `draw` costs."""
        return PureDP(Fraction(self.epsilon), adjacency=Adjacency.REPLACE_ONE)

    @cached_property
    def candidates(self) -> list[tuple[int, ...]]:
        """The counts of every data set: bars between stars."""
        cells, found = self.workload.cells.total, []
        for bars in itertools.combinations(range(self.rows + cells - 1), cells - 1):
            marks = (-1, *bars, self.rows + cells - 1)
            found.append(tuple(after - before - 1 for before, after in itertools.pairwise(marks)))
        return found

    def scores(self, counts: Any) -> NDArray[np.int64]:
        """Minus the largest error of each candidate."""
        truth = self._answers(counts)
        return np.array([-int(np.abs(self._answers(one) - truth).max()) for one in self.candidates], dtype=np.int64)

    def _answers(self, counts: Any) -> NDArray[np.int64]:
        table = np.asarray(counts, dtype=np.int64).reshape(self.workload.cells.shape)
        return np.concatenate([np.asarray(own).ravel() for own in self.workload.answers(table)])

    def draw(self, counts: Any) -> tuple[int, ...]:
        """The counts of a synthetic data set. The caller has paid."""
        space = Space(Vectors(Integers(), len(self.candidates)), LInfinity())
        chosen = exponential(self.epsilon).bind(space).release(self.scores(counts), 1).value
        return self.candidates[int(chosen)]
