"""Calibration: among people with a score of v, does a share v of them have the label? By group, and for a price.

Scores between 0 and 1 are sorted into cells of equal width. `calibration` reads rows that may be looked at;
`private_calibration` counts (group, cell, label) once with noise, and every curve and error follows from that.
A cell with few people says little: `least` is the smallest share of all people that a cell must hold to count.

>>> found = calibration([0.2] * 5 + [0.8] * 5, [1, 0, 0, 0, 0, 1, 1, 1, 1, 0], cells=10)
>>> found.error()
0.0
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Bound, Event, Guarantee
from tacit.calculus import number_of
from tacit.fairness.errors import FairnessError
from tacit.fairness.private_rates import RateEstimate, noise_for
from tacit.fairness.rate_intervals import rate_interval
from tacit.fairness.rates import Array, Groups, Integers, Key, binary, group_words, listed
from tacit.ledger import Account, paying
from tacit.mechanisms import Law, NoisySums
from tacit.parameters import count, probability
from tacit.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EVERYONE = Groups((("all", ("all",)),))


def scores_of(scores: Any) -> Array:
    """Scores as numbers between 0 and 1, read one by one: what is no number counts as 1/2, what is outside as the nearest end.

    >>> scores_of([0.25, "0.5", None, 7]).tolist()
    [0.25, 0.5, 0.5, 1.0]
    """
    column = listed(scores)
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub" and not isinstance(column, np.ma.MaskedArray):
        found = column.astype(np.float64)
    else:
        found = np.array([number_of(value) for value in column], dtype=np.float64)
    return np.clip(np.where(np.isnan(found), 0.5, found), 0.0, 1.0)


def cells_of(scores: Array, cells: int) -> Integers:
    """The cell of each score; 1 is in the last one.

    >>> cells_of(np.array([0.0, 0.05, 0.999, 1.0]), 20).tolist()
    [0, 1, 19, 19]
    """
    found: Integers = np.minimum((scores * cells).astype(np.int64), cells - 1)
    return found


@dataclass(frozen=True)
class Calibration:
    """How scores and labels agree: counts of (group, cell, label), and the sum of scores in each (group, cell).

    The curve of a group compares the share of labels in a cell with the mean score there. `noise` is None for exact
    counts.
    """

    groups: Groups
    counts: Array  # groups x cells x 2
    noise: NoisySums | None = None
    privacy: Bound | None = None
    private: bool = True
    confidence: float = 0.95

    @property
    def event(self) -> Event | None:
        """What was done to the data; None where rows were only looked at."""
        return None if self.noise is None else self.noise.event

    @property
    def centres(self) -> Array:
        """The middle of each cell."""
        cells = self.counts.shape[1]
        return np.asarray((np.arange(cells) + 0.5) / cells)

    def masses(self) -> Array:
        """The share of all people in each (group, cell); never from a true count where there is noise."""
        sizes = self.counts.sum(axis=2)
        return np.asarray(sizes / max(float(sizes.sum()), 1.0))

    def curve(self, group: Key = None) -> list[tuple[float, RateEstimate]]:
        """For each cell of a group (or of all people): its middle, and the share of labels with an interval."""
        table = self.counts.sum(axis=0) if group is None else self.counts[self.groups.keys.index(group)]
        merged = self.groups.size if group is None else 1
        found = []
        for centre, (without, having) in zip(self.centres.tolist(), table.tolist(), strict=True):
            total = without + having
            if self.noise is None:
                value = having / total if total > 0 else math.nan
                found.append((centre, RateEstimate(value, 0.0 if total <= 0 else value, 1.0 if total <= 0 else value)))
                continue
            low, high = rate_interval(having, total, (merged, merged), self.noise, self.confidence)
            value = min(max(having / total, low), high) if total > 0 and (low, high) != (0.0, 1.0) else math.nan
            found.append((centre, RateEstimate(value, low, high)))
        return found

    def error(self, group: Key = None, *, least: float = 0.05) -> float:
        """The largest distance between share and score over the cells with at least `least` of the people.

        A cell is `1 / cells` wide, so a distance below half of that is not seen: it counts as 0.
        """
        table = self.counts.sum(axis=0) if group is None else self.counts[self.groups.keys.index(group)]
        sizes, whole = table.sum(axis=1), max(float(self.counts.sum()), 1.0)
        enough = sizes >= float(probability("least", least)) * whole
        if not enough.any():
            return math.nan
        shares = np.clip(table[enough, 1] / np.maximum(sizes[enough], 1.0), 0.0, 1.0)
        off = np.abs(shares - self.centres[enough]) - 0.5 / self.counts.shape[1]
        return round(float(np.maximum(off, 0.0).max()), 12)

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """The curve of every group against the diagonal, with intervals; cells that noise alone could fill are left out."""
        figure, axes = canvas(ax, path)
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="calibrated")
        keys: list[Key] = [None] if self.groups.size == 1 else list(self.groups.keys)
        for colour, key in zip((BLUE, ORANGE, GREEN, RED, PURPLE, SKY) * 4, keys, strict=False):
            table = self.counts.sum(axis=0) if key is None else self.counts[self.groups.keys.index(key)]
            # Two counts and, for all groups together, as many as there are groups.
            merged = 2 * (self.groups.size if key is None else 1)
            least = 0.0 if self.noise is None else self.noise.error(self.confidence) * math.sqrt(merged)
            filled = (table.sum(axis=1) > least).tolist()
            points = [(at, one) for (at, one), there in zip(self.curve(key), filled, strict=True) if there and one.known]
            axes.errorbar(
                [at for at, _ in points], [one.value for _, one in points],
                yerr=[[one.value - one.low for _, one in points], [one.high - one.value for _, one in points]],
                color=colour, marker="o", markersize=3.5, linewidth=1.4, capsize=2, label="all" if key is None else group_words(key),
            )  # fmt: skip
        axes.legend(fontsize=8)
        dress(axes, "Calibration", "score", "share with the label")
        return finish(figure, path)


@dataclass(frozen=True)
class Scored:
    """Columns of scores, labels and groups of one length. No value has been looked at yet."""

    groups: Groups
    scores: Any
    label: Any
    features: list[Any]
    positive: object = 1

    @classmethod
    def of(
        cls, scores: object, y: object, sensitive_features: object, groups: Mapping[str, Iterable[object]] | Groups | None,
        positive: object,
    ) -> Scored:  # fmt: skip
        """Columns as a caller gives them; only containers and lengths are looked at."""
        column, label = listed(scores), listed(y)
        if len(column) != len(label):
            raise FairnessError(code="rows-differ", column="scores")
        if groups is None:
            return cls(EVERYONE, column, label, [], positive)
        declared = Groups.of(groups)
        return cls(declared, column, label, declared.columns(sensitive_features, len(label)), positive)

    def codes(self) -> Integers:
        """The group of every row, -1 for none."""
        return self.groups.codes(self.features) if self.features else np.zeros(len(self.label), dtype=np.int64)

    def table(self, cells: int) -> NDArray[np.int64]:
        """Counts of (group, cell, label)."""
        label, cell = binary(self.label, self.positive), cells_of(scores_of(self.scores), cells)
        group, size = self.codes(), self.groups.size * cells * 2
        at = np.where(group >= 0, (group * cells + cell) * 2 + label, size)
        return np.bincount(at, minlength=size + 1)[:-1].reshape(self.groups.size, cells, 2)


def calibration(
    scores: object, y: object, *, groups: Mapping[str, Iterable[object]] | Groups | None = None,
    sensitive_features: object = None, cells: int = 20, positive: object = 1,
) -> Calibration:  # fmt: skip
    """The calibration of rows that may be looked at. Nothing here is private."""
    people = Scored.of(scores, y, sensitive_features, groups, positive)
    return Calibration(people.groups, people.table(count("cells", cells)).astype(np.float64), private=False)


def private_calibration(
    scores: object, y: object, *, groups: Mapping[str, Iterable[object]] | Groups | None = None,
    sensitive_features: object = None, cells: int = 20, positive: object = 1,
    epsilon: Any = None, delta: Any = None, rho: Any = None, mu: Any = None, guarantee: Guarantee | str | None = None,
    adjacency: str = "add-remove", law: Law | None = None, account: Account | None = None,
    confidence: float = 0.95, purpose: str = "calibration by group",
) -> Calibration:  # fmt: skip
    """Calibration by group of private people, from one noisy histogram of (group, cell of the score, label).

    >>> from tacit.noise import test_mode
    >>> with test_mode(3):
    ...     found = private_calibration([0.2] * 500 + [0.8] * 500, [0] * 400 + [1] * 500 + [0] * 100, cells=10, epsilon=1)
    >>> found.event, found.error() < 0.1
    (Laplace(noise_multiplier=1), True)

    Guarantee
        Statement: costs `event`, at most what was asked for, whatever is in the columns.
        Conditions: a row is a person; groups and `positive` are public; a person's score depends on that person's
        record and on a model that was fixed or released before.
        Proved in: a person is in one cell of the histogram, or in none; `NoisySums` on whole numbers.
    """
    people = Scored.of(scores, y, sensitive_features, groups, positive)
    size = count("cells", cells)
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    wanted = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).positive()
    noise, level = noise_for(wanted, relation, law), float(probability("confidence", confidence))
    with paying(account, noise.event, purpose=purpose, delta=wanted.delta or None) as payment:
        released = noise.add(people.table(size))
    price = wanted.price(noise.event, relation)
    return Calibration(people.groups, released.astype(np.float64), noise, price, payment.private, level)
