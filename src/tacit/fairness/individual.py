"""Individual fairness: similar people are treated similarly, as a bound on how far their decisions may differ.

A randomised decision is a matrix: one row of probabilities for each individual, one column for each label. It is
fair for a metric d if no two rows are further apart than d says, in total variation or in the largest
log-ratio. `lipschitz` finds the worst pair, `fair_lp` the fair decision of least loss, by linear programming. With
d = epsilon times the number of records in which two data sets differ, the second kind of fairness is epsilon-DP:
`private_lp` is that special case.

>>> opposite = np.array([[0.0, 1.0], [1.0, 0.0]])  # two individuals who should get different labels
>>> fair_lp(opposite, np.array([[0, 0.3], [0.3, 0]]), "tv").value
0.35
>>> apart = np.log(3) * (1 - np.eye(2))
>>> fair_lp(opposite, apart, "inf").decisions.round(6)  # randomised response
array([[0.75, 0.25],
       [0.25, 0.75]])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.fairness.errors import FairnessError
from tacit.parameters import positive
from tacit.pictures import BLUE, GREY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Divergence = Literal["tv", "inf"]
ROUNDING = 1e-9  # what a sum of distances may be off
FARTHEST = 16.0  # log-ratios beyond this are below the solver's tolerance


def d_tv(first: ArrayLike, second: ArrayLike) -> float:
    """Total variation between two laws: the largest difference in the probability of any event.

    >>> round(d_tv([0.5, 0.5], [0.2, 0.8]), 12)
    0.3
    """
    return float(np.abs(np.asarray(first, dtype=float) - np.asarray(second, dtype=float)).sum() / 2)


def d_inf(first: ArrayLike, second: ArrayLike) -> float:
    """The largest absolute log-ratio of two laws; infinite where only one of them can give a label.

    >>> round(d_inf([0.25, 0.75], [0.75, 0.25]), 6), d_inf([1, 0], [0.5, 0.5])
    (1.098612, inf)
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    both = (one > 0) & (other > 0)
    if ((one > 0) != (other > 0)).any():
        return math.inf
    return float(np.abs(np.log(one[both] / other[both])).max(initial=0.0))


def check_metric(distances: ArrayLike) -> Array:
    """Distances as a matrix, refused by name where they are no metric: shape, sign, symmetry, triangle inequality.

    >>> check_metric([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    Traceback (most recent call last):
    tacit.fairness.errors.FairnessError: the distance between 0 and 2 is larger than the way over 1: ...
    """
    found = np.asarray(distances, dtype=np.float64)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not len(found) or np.isnan(found).any():
        raise FairnessError(code="distances-square")
    if (found < 0).any():
        first, second = np.argwhere(found < 0)[0].tolist()
        raise FairnessError(code="distances-negative", first=first, second=second)
    if (np.diag(found) != 0).any():
        raise FairnessError(code="distances-self", first=int(np.flatnonzero(np.diag(found))[0]))
    with np.errstate(invalid="ignore"):
        uneven = ~((found == found.T) | (np.abs(found - found.T) <= ROUNDING * np.maximum(found, 1)))
    if uneven.any():
        first, second = np.argwhere(uneven)[0].tolist()
        raise FairnessError(code="distances-asymmetric", first=first, second=second)
    for middle in range(len(found)):
        way = found[:, middle, None] + found[None, middle, :]
        longer = found > way + ROUNDING * np.maximum(way, 1.0)
        if longer.any():
            first, third = np.argwhere(longer)[0].tolist()
            raise FairnessError(code="distances-triangle", first=first, second=middle, third=third)
    return found


def shortest_paths(distances: ArrayLike) -> Array:
    """The largest metric below these distances: each becomes the shortest way between its two individuals.

    >>> shortest_paths([[0, 1, 5], [1, 0, 1], [5, 1, 0]])[0].tolist()
    [0.0, 1.0, 2.0]
    """
    found = np.array(distances, dtype=np.float64)
    found = np.minimum(found, found.T)
    for middle in range(len(found)):
        found = np.minimum(found, found[:, middle, None] + found[None, middle, :])
    return found


@dataclass(frozen=True)
class LipschitzCheck:
    """The two individuals whose decisions differ most beyond what the metric allows."""

    first: int
    second: int
    divergence: float
    distance: float

    @property
    def excess(self) -> float:
        """By how much the worst pair is too far apart; 0 or less where every pair is near enough."""
        return self.divergence - self.distance

    @property
    def fair(self) -> bool:
        """Whether the decision is fair for this metric, up to rounding."""
        return self.excess <= ROUNDING

    def __str__(self) -> str:
        told = f"individuals {self.first} and {self.second} are {self.divergence:.4g} apart and may be {self.distance:.4g}"
        return f"fair: {told}" if self.fair else f"not fair: {told}"


def lipschitz(decisions: ArrayLike, distances: ArrayLike, divergence: Divergence = "tv") -> LipschitzCheck:
    """The worst pair of individuals of a randomised decision.

    >>> print(lipschitz([[1, 0], [0.4, 0.6]], [[0, 0.5], [0.5, 0]]))
    not fair: individuals 0 and 1 are 0.6 apart and may be 0.5
    """
    rows, metric = np.asarray(decisions, dtype=np.float64), check_metric(distances)
    if rows.ndim != 2 or len(rows) != len(metric):
        raise FairnessError(code="loss-shape")
    between = d_tv if divergence == "tv" else d_inf
    worst = LipschitzCheck(0, 0, 0.0, 0.0)
    for first in range(len(rows)):
        for second in range(first + 1, len(rows)):
            found = LipschitzCheck(first, second, between(rows[first], rows[second]), float(metric[first, second]))
            if worst.first == worst.second or found.excess > worst.excess:
                worst = found
    return worst


@dataclass(frozen=True)
class FairDecisions:
    """A fair randomised decision of least loss: a row of probabilities for each individual, and its loss."""

    decisions: Array
    value: float
    divergence: Divergence
    minimax: bool = False
    distances: Array | None = None  # the metric it is fair for

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """How far apart the decisions of every two individuals are, against how far the metric allows: all lie on or below the line."""
        figure, axes = canvas(ax, path)
        metric = np.zeros((len(self.decisions),) * 2) if self.distances is None else self.distances
        first, second = np.triu_indices(len(self.decisions), 1)
        between = d_tv if self.divergence == "tv" else d_inf
        apart = [between(self.decisions[i], self.decisions[j]) for i, j in zip(first, second, strict=True)]
        allowed = metric[first, second]
        axes.plot(allowed, apart, "o", color=BLUE, markersize=4, alpha=0.5, label="two individuals")
        far = max([1e-9, *(one for one in (*allowed.tolist(), *apart) if math.isfinite(one))])
        axes.plot([0, far], [0, far], color=GREY, linewidth=1, linestyle="--", label="as far as the metric allows")
        axes.legend(fontsize=8)
        name = "total variation" if self.divergence == "tv" else "largest log-ratio"
        dress(axes, f"Similar people, similar decisions: loss {self.value:.4g}", "distance by the metric", f"decisions apart ({name})")
        return finish(figure, path)


def fair_lp(
    loss: ArrayLike, distances: ArrayLike, divergence: Divergence = "tv", *, weights: ArrayLike | None = None,
    minimax: bool = False,
) -> FairDecisions:  # fmt: skip
    """The fair decision of least expected loss, or with `minimax` of the least loss of the worst individual.

    `loss[i, y]` is the loss of giving individual i the label y. Solved exactly as a sparse linear programme.

    Guarantee
        Statement: the decision is (D, d)-Lipschitz for the divergence asked for, up to the solver's tolerance of 1e-9,
        and no such decision has a smaller loss (Dwork, Hardt, Pitassi, Reingold, Zemel 2012, Section 2).
        Erratum: the constraint for total variation as the textbook prints it has no absolute values; both its sums
        are 0, so it allows every decision. Here |mu_1(y) - mu_2(y)| is bounded through a variable of its own.
    """
    losses, metric = np.asarray(loss, dtype=np.float64), check_metric(distances)
    if losses.ndim != 2 or len(losses) != len(metric) or losses.shape[1] < 2 or not np.isfinite(losses).all():
        raise FairnessError(code="loss-shape")
    people, labels = losses.shape
    share = np.full(people, 1 / people) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (people,) or not (share >= 0).all() or not share.sum() > 0:
        raise FairnessError(code="weights-sum")
    build = _Programme(people, labels)
    if divergence == "inf":
        build.ratios(metric)
    else:
        build.variations(metric)
    found = build.solve(losses, share / share.sum(), minimax)
    value = float((losses * found).sum(axis=1).max() if minimax else (share / share.sum()) @ (losses * found).sum(axis=1))
    return FairDecisions(found, round(value, 12), divergence, minimax, metric)


class _Programme:
    """Rows of a sparse linear programme over mu[i, y], with further variables behind them."""

    def __init__(self, people: int, labels: int) -> None:
        self.people, self.labels = people, labels
        self.variables = people * labels
        self.rows: list[Any] = []
        self.limits: list[Array] = []

    def _pairs(self, metric: Array, below: float) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Pairs that the metric says something about, i < j."""
        first, second = np.triu_indices(self.people, 1)
        near = metric[first, second] < below
        return first[near], second[near], metric[first[near], second[near]]

    def _append(self, row: Any, column: Any, value: Any, limits: Array) -> None:
        self.rows.append((np.concatenate(row), np.concatenate(column), np.concatenate(value)))
        self.limits.append(limits)

    def ratios(self, metric: Array) -> None:
        """mu_i(y) <= e^d mu_j(y), both ways and for every label; d is cut at `FARTHEST`, which only asks for more."""
        first, second, distance = self._pairs(metric, math.inf)
        half = np.exp(np.minimum(distance, FARTHEST) / 2)  # each side gets half, so that coefficients stay moderate
        for one, other in ((first, second), (second, first)):
            for label in range(self.labels):
                at = np.arange(len(one))
                self._append(
                    (at, at), (one * self.labels + label, other * self.labels + label),
                    (1 / half, -half), np.zeros(len(one)),
                )  # fmt: skip

    def variations(self, metric: Array) -> None:
        """t >= |mu_i(y) - mu_j(y)| for every label, and half their sum at most d; for two labels t is not needed."""
        first, second, distance = self._pairs(metric, 1.0)
        at, ones = np.arange(len(first)), np.ones(len(first))
        if self.labels == 2:
            for sign in (1.0, -1.0):
                self._append((at, at), (first * 2, second * 2), (sign * ones, -sign * ones), distance)
            return
        start = self.variables
        self.variables += len(first) * self.labels
        for label in range(self.labels):
            apart = start + at * self.labels + label
            for sign in (1.0, -1.0):
                columns = (first * self.labels + label, second * self.labels + label, apart)
                self._append((at, at, at), columns, (sign * ones, -sign * ones, -ones), np.zeros(len(first)))
        spots = tuple(start + at * self.labels + label for label in range(self.labels))
        self._append((at,) * self.labels, spots, (ones / 2,) * self.labels, distance)

    def solve(self, losses: Array, share: Array, minimax: bool) -> Array:
        """The matrix of probabilities."""
        from scipy.optimize import linprog
        from scipy.sparse import coo_matrix

        size = self.people * self.labels
        cost = np.zeros(self.variables + minimax)
        if minimax:
            cost[-1] = 1.0
            at = np.repeat(np.arange(self.people), self.labels)
            worst = np.full(self.people, self.variables)
            self._append(
                (at, np.arange(self.people)), (np.arange(size), worst), (losses.ravel(), -np.ones(self.people)),
                np.zeros(self.people),
            )  # fmt: skip
        else:
            cost[:size] = (share[:, None] * losses).ravel()
        offsets = np.cumsum([0] + [len(limits) for limits in self.limits])
        row = np.concatenate([rows[0] + offset for rows, offset in zip(self.rows, offsets, strict=False)] or [[]])
        column = np.concatenate([rows[1] for rows in self.rows] or [[]])
        value = np.concatenate([rows[2] for rows in self.rows] or [[]])
        upper = coo_matrix((value, (row.astype(int), column.astype(int))), shape=(int(offsets[-1]), len(cost))).tocsr()
        person = np.repeat(np.arange(self.people), self.labels)
        simplex = coo_matrix((np.ones(size), (person, np.arange(size))), shape=(self.people, len(cost))).tocsr()
        bounds = [(0, None)] * self.variables + [(None, None)] * minimax
        found = linprog(
            cost, A_ub=upper if len(value) else None, b_ub=np.concatenate(self.limits) if len(value) else None,
            A_eq=simplex, b_eq=np.ones(self.people), bounds=bounds, method="highs",
        )  # fmt: skip
        if not found.success:
            raise FairnessError(code="lp-failed", reason=str(found.status))
        chosen = np.clip(found.x[:size].reshape(self.people, self.labels), 0.0, 1.0)
        return np.asarray(chosen / chosen.sum(axis=1, keepdims=True))


def private_lp(loss: ArrayLike, changes: ArrayLike, epsilon: float, *, minimax: bool = False) -> FairDecisions:
    """The epsilon-DP decision of least loss: `changes[i, j]` is in how many records data sets i and j differ.

    >>> clique = 1 - np.eye(4)
    >>> found = private_lp(1 - np.eye(4), clique, epsilon=1)
    >>> round(found.value, 6), round(3 / (math.e + 3), 6)
    (0.524633, 0.524633)
    """
    scale = float(positive("epsilon", epsilon))
    return fair_lp(loss, scale * np.asarray(changes, dtype=np.float64), "inf", minimax=minimax)
