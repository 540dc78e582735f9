"""Elastic sensitivity: the number of rows of a join, with noise scaled to the most frequent keys near the data.

One row of a table meets every row of the others with its key, so a join's size has no useful bound on what one row can do to it. Near given
data it has: a row in table i adds or takes at most the product of the greatest frequencies in the other tables (Johnson, Near and
Song 2018, "elastic sensitivity"). Each of these grows by at most 1 with every change, so the bound is smooth in the sense of
`tacit.mechanisms.smooth_sensitivity`, whose ladder of scales pays for it exactly. Use it where every row is a unit of its own, and the
number of all rows is public; where people have several rows, join on the person in `tacit.tables`, whose caps bound them.

>>> from tacit.calculus import Integers, ReplaceOne, Rows, Space
>>> rows = join_rows([0, 0, 1, 2], [0, 2, 2], keys=3)
>>> JoinSize(3, 7).value(rows, 0, 5), JoinSize(3, 7).sensitivities(rows, 0, 5, 2).tolist()
(4, [2, 3, 4])
>>> plan = Space(Rows(Integers(0, 5), size=7), ReplaceOne()) >> elastic_join_size(3, 7, epsilon=1, delta=1e-6)
>>> plan.event(1), 0 <= plan.release(rows.tolist()).value <= 12
(ApproxDP(epsilon=1, delta=1e-06, adjacency=Adjacency.REPLACE_ONE), True)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.accounting import ParameterError
from tacit.mechanisms.smooth_sensitivity import LARGEST, SmoothSensitivity
from tacit.parameters import Number, count


def join_rows(*tables: Sequence[int], keys: int) -> np.ndarray:
    """The rows of several tables as whole numbers: the key of table i is written as i * keys + key.

    >>> join_rows([0, 1], [1], keys=2).tolist()
    [0, 1, 3]
    """
    whole = count("keys", keys)
    found = [place * whole + np.asarray(table, dtype=np.int64) for place, table in enumerate(tables)]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class JoinSize:
    """How many rows a join of several tables on one key has: the sum over keys of the product of their frequencies.

    `size` is the public number of rows of all tables together, `keys` how many keys there can be.
    """

    keys: int
    size: int
    tables: int = 2

    def __post_init__(self) -> None:
        for name, least in (("keys", 1), ("size", 0), ("tables", 2)):
            count(name, getattr(self, name), least=least)
        if self.range(0, 0)[1] > LARGEST:
            raise ParameterError("the join could have more than 2^60 rows; sample the tables, or join fewer of them")

    @property
    def name(self) -> str:
        return "size of a join"

    def range(self, lower: int, upper: int) -> tuple[int, int]:
        """A join is largest where all rows have one key and the tables are equally large."""
        each, more = divmod(self.size, self.tables)
        return 0, each ** (self.tables - more) * (each + 1) ** more

    def frequencies(self, data: np.ndarray) -> np.ndarray:
        """How often each table has each key."""
        inside = np.clip(np.asarray(data, dtype=np.int64), 0, self.tables * self.keys - 1)
        return np.bincount(inside, minlength=self.tables * self.keys).reshape(self.tables, self.keys)

    def value(self, data: np.ndarray, lower: int, upper: int) -> int:
        found = self.frequencies(data)
        return sum(math.prod(int(n) for n in column) for column in found.T)

    def sensitivities(self, data: np.ndarray, lower: int, upper: int, most: int) -> np.ndarray:
        """A_k: for the worst table, the product of the others' greatest frequencies, each k larger; never above the whole range.

        A change takes one row and adds another. What is taken lowers the size by at most A_0, what is added raises it by at most A_0, so
        the size moves by at most A_0; and each greatest frequency of a neighbour is at most 1 larger, so A_k(x) <= A_(k+1)(x').
        """
        greatest = [int(n) for n in self.frequencies(data).max(axis=1)]
        top = self.range(lower, upper)[1]
        found = []
        for k in range(most + 1):
            near = [n + k for n in greatest]
            found.append(min(top, max(math.prod(near[:i] + near[i + 1 :]) for i in range(self.tables))))
        return np.array(found, dtype=np.int64)


def elastic_join_size(
    keys: int, size: int, *, epsilon: Number, delta: Number | None = None, tables: int = 2, tail: int = 2
) -> SmoothSensitivity:
    """The size of a join with noise of its smooth elastic sensitivity; with `delta` the noise is Laplace, without it heavy-tailed.

    Guarantee
        Statement: epsilon-DP without `delta`, (epsilon, delta)-DP with it, for one row of any of the tables.
        Conditions: replace-one distance on all rows together, written by `join_rows`; `size` rows in all, which is public.
        Proved in: `JoinSize.sensitivities` for the bound, `SmoothSensitivity` for the noise; after Johnson, Near and Song 2018, sections
        3 and 4.
        Correction: Flex adds Laplace noise of scale 2 S / epsilon with beta = epsilon / (2 log(2 / delta)) and states delta; the proof of
        that calibration gives delta (1 + e^(epsilon / 2)) / 2. Here delta is computed for every pair of adjacent scales. A frequency that
        is measured and then used as a constant (as if k were 0) is not private: the bound must grow with the distance.
    """
    proof = "Johnson, Near, Song 2018; Nissim, Raskhodnikova, Smith 2007; see Guarantee"
    return SmoothSensitivity(JoinSize(keys, size, tables), epsilon, delta, tail, proof)
