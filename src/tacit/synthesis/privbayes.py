"""PrivBayes: a Bayesian network chosen greedily, its conditionals measured (Zhang et al. 2017).

Columns enter one after the other; each gets the parents, at most `degree` of those before it, with which it depends
most, by the exponential mechanism. The score is n times R, half the L1 distance between the joint counts and what
independence of column and parents predicts, computed from counts and rounded up to whole rows. The first `degree`
conditionals come from the joint marginal of the first `degree` + 1 columns. Marginals get Gaussian noise here, and the
graphical model of all of them takes the place of clipped conditionals.

>>> parent_sets((2, 3, 30), (0, 1, 2), 2, most=20)
[(0, 1), (0,), (1,), ()]

Guarantee
    Statement: one row more or less moves a score, rounded up to whole rows, by at most 2.
    Proved in: with joint counts x of n rows and marginals a, b, the score is sum |x - a b / n| / 2. A row more in cell
    (i, j) changes x by 1 in L1. It turns a b / n into (a + e_i)(b + e_j) / (n + 1), which differs in L1 by at most
    n / (n + 1) + (2 n + 1) / (n + 1) < 3. So the score moves by less than 2, and whole numbers above it by less than
    3, which is at most 2. (The published sensitivity, 3/n + 2/n^2 of R itself, is for exchanging a row.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.noise import uniform_integers
from tacit.synthesis.aim import affordable
from tacit.synthesis.estimate import STEPS, Model
from tacit.synthesis.junction_tree import Clique, cells
from tacit.synthesis.measure import Measuring, check_tables

MOVED = 2  # rows by which one row moves a score, at most


def dependence(joint: NDArray[np.int64]) -> int:
    """n times R of a table whose first axis is the column, in whole rows: rounded up.

    >>> dependence(np.array([[50, 0], [0, 50]])), dependence(np.array([[25, 25], [25, 25]]))
    (50, 0)
    """
    table = joint.reshape(joint.shape[0], -1)
    rows = int(table.sum())
    if not rows:
        return 0
    # |x n - a b| in integers, divided once: equal tables have equal scores whatever the order of their cells.
    column, parents = table.sum(axis=1).astype(object), table.sum(axis=0).astype(object)
    distance = int(np.abs(table.astype(object) * rows - np.outer(column, parents)).sum())
    return -(-distance // (2 * rows))


def parent_sets(sizes: Sequence[int], known: Clique, degree: int, most: float) -> list[Clique]:
    """Sets of at most so many known columns whose joint table has at most `most` cells, the largest sets first."""
    found = [
        parents
        for size in range(min(degree, len(known)), -1, -1)
        for parents in itertools.combinations(known, size)
        if math.prod(sizes[column] for column in parents) <= most
    ]
    return found or [()]


@dataclass(frozen=True)
class PrivBayes:
    """Parents of a column, the share of the budget that chooses them, and the largest tables, in cells."""

    degree: int = 2
    selection: float = 0.3
    table_cap: int = 4000
    cap: int = 1_000_000
    steps: int = STEPS
    enough: float = 0.65
    selects = True

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns whose cells do not fit into memory, before anything is paid for."""
        check_tables(sizes, 1)

    def fit(self, measuring: Measuring) -> Model:
        """Choose a network, measure its joint tables, fit."""
        sizes, width = measuring.sizes, measuring.width
        whole = measuring.left
        network = self.network(measuring, self.selection * whole)
        first = tuple(sorted({column for column, _ in network[: self.degree + 1]}))
        joint = [first, *(tuple(sorted((column, *parents))) for column, parents in network[self.degree + 1 :])]
        if math.prod(sizes[column] for column in first) > self.table_cap:
            joint = [tuple(sorted((column, *parents))) for column, parents in network]
        held: list[Clique] = []
        for clique in dict.fromkeys(joint):
            fits = cells(sizes, [*measuring.possible, *held, clique]) <= self.cap
            held.append(clique if fits else (next(c for c in clique if all(c not in h for h in held)),))
        cost = measuring.left / len(held) * (1 - 1e-9)
        for clique in held:
            measuring.marginal(clique, measuring.sigma_for(cost))
        assert width == len({column for clique in held for column in clique})
        return measuring.fit(steps=self.steps, enough=self.enough)

    def network(self, measuring: Measuring, budget: float) -> list[tuple[int, Clique]]:
        """Columns with their parents, in the order in which they entered; the first is drawn at random."""
        sizes, width = measuring.sizes, measuring.width
        found: list[tuple[int, Clique]] = [(uniform_integers(width), ())]
        epsilon = affordable(measuring, budget / max(1, width - 1) * (1 - 1e-9))
        for _ in range(width - 1):
            known = tuple(sorted(column for column, _ in found))
            candidates = [
                (column, parents)
                for column in range(width)
                if column not in known
                for parents in parent_sets(sizes, known, self.degree, self.table_cap / sizes[column])
            ]
            scores = [dependence(measuring.exact((column, *parents))) for column, parents in candidates]
            pick = measuring.choose(np.array(scores, dtype=np.int64), moved=MOVED, epsilon=epsilon)
            found.append(candidates[pick])
        return found
