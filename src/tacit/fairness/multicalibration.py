"""Multicalibration: scores that are right on average for every group that was declared, and for every level of the score.

An auditor looks for a group and a cell of the score in which the labels are off by more than alpha; the learner moves
the scores there; and so on. Groups are all combinations of up to `depth` of the declared attributes, so they overlap: a
person is in one group of each combination. The number of rounds is fixed beforehand, and so is the price.

Two auditors are offered. One measures the whole table with noise in every round, which one record moves once in each
combination; the other asks about one cell after the other by the sparse vector technique, whose noise does not grow with
the number of combinations and which needs no delta. `method="auto"` takes the one with less expected noise.

>>> from tacit.noise import test_mode
>>> sex, y = ["F", "M"] * 4000, [1, 0, 1, 1] * 2000
>>> with test_mode(5):
...     better = multicalibrate([0.5] * 8000, y, groups={"sex": ["F", "M"]}, sensitive_features=sex, epsilon=1, delta=1e-6)
>>> better.predict([0.5, 0.5], sensitive_features=["F", "M"]).round(1).tolist()
[1.0, 0.5]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Bound, Event, Gaussian, Guarantee, PureDP, Repeated
from tacit.fairness.calibration import Scored, cells_of, scores_of
from tacit.fairness.errors import FairnessError
from tacit.fairness.rates import Array, Groups, Integers, binary, listed
from tacit.ledger import Account, paying
from tacit.mechanisms import AboveThreshold, NoisySums, Sparse, farthest_table, noisy_table, table_totals
from tacit.parameters import count, probability
from tacit.pictures import BLUE, GREY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOUND = math.sqrt(2.0)  # a person's row is (1, label - score)
PEOPLE, SEARCH = Fraction(1, 50), Fraction(29, 50)  # shares of epsilon: the number of people, finding cells; the rest moves them
Method = Literal["auto", "table", "sparse"]


@dataclass(frozen=True)
class Views:
    """The combinations of attributes that are looked at, each a partition of the people."""

    groups: Groups
    combinations: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, groups: Groups, depth: int) -> Views:
        """All people, each attribute, each pair of attributes, and so on to `depth`.

        >>> len(Views.of(Groups.of({"shape": ["round", "square"], "colour": ["blue", "green"]}), 2).combinations)
        4
        """
        axes = range(len(groups.names))
        deep = min(count("depth", depth), len(groups.names))
        return cls(groups, tuple(c for size in range(deep + 1) for c in itertools.combinations(axes, size)))

    def size(self, view: int) -> int:
        """How many groups a combination has."""
        return math.prod(self.groups.shape[axis] for axis in self.combinations[view])

    @property
    def largest(self) -> int:
        """The number of groups of the combination that has most."""
        return max(self.size(view) for view in range(len(self.combinations)))

    def name(self, view: int, place: int) -> str:
        """A group in words, such as "sex=F, race=Black"; "all people" for everyone."""
        axes = self.combinations[view]
        if not axes:
            return "all people"
        places = np.unravel_index(place, [self.groups.shape[axis] for axis in axes])
        named = [
            f"{self.groups.names[axis]}={self.groups.attributes[axis][1][int(at)]}"
            for axis, at in zip(axes, places, strict=True)
        ]
        return ", ".join(named)

    def codes(self, group: Integers) -> Integers:
        """For each person and each combination the group they are in; -1 for a person in no declared group."""
        known = group >= 0
        values = np.stack(np.unravel_index(np.where(known, group, 0), self.groups.shape), axis=1)
        found = np.full((len(group), len(self.combinations)), -1, dtype=np.int64)
        for view, axes in enumerate(self.combinations):
            code = np.zeros(len(group), dtype=np.int64)
            for axis in axes:
                code = code * self.groups.shape[axis] + values[:, axis]
            found[:, view] = np.where(known, code, -1)
        return found


@dataclass(frozen=True)
class Update:
    """One correction: the scores of a cell in a group of a combination, and by how much they were moved."""

    view: int
    group: int
    cell: int
    shift: float


@dataclass(frozen=True)
class Miscalibration:
    """What the auditor found worst in a round: the group, the score, by how much labels are off, and how many people it concerns."""

    group: str
    score: float
    off: float
    share: float

    def __str__(self) -> str:
        return f"{self.group}, score about {self.score:.2f}: labels are off by {self.off:+.3f} for {self.share:.1%} of the people"


@dataclass(frozen=True)
class Multicalibrated:
    """Scores corrected round by round. `predict` applies the corrections to anyone; `event` is what they cost."""

    views: Views
    cells: int
    updates: tuple[tuple[Update, ...], ...]
    findings: tuple[Miscalibration, ...]
    event: Event
    privacy: Bound
    private: bool
    alpha: float
    finished: bool
    method: str = "table"

    def predict(self, scores: object, *, sensitive_features: object) -> Array:
        """Corrected scores."""
        column = listed(scores)
        groups = self.views.groups
        codes = self.views.codes(groups.codes(groups.columns(sensitive_features, len(column))))
        found = scores_of(column)
        for round_ in self.updates:
            found = _moved(found, codes, round_, self.cells)
        return found

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """The worst error that the auditor found in each round, from noisy counts, against alpha."""
        from matplotlib.ticker import MaxNLocator

        figure, axes = canvas(ax, path)
        turns = range(1, len(self.findings) + 1)
        axes.plot(turns, [abs(one.off) for one in self.findings], "o-", color=BLUE, label="worst error found, with its noise")
        axes.axhline(self.alpha, color=GREY, linewidth=1, linestyle="--", label=f"alpha {self.alpha:g}")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=8)
        done = "every cell is within alpha" if self.finished else "not shown to be within alpha"
        dress(axes, f"Multicalibration: {done}", "round", "labels off by")
        return finish(figure, path)

    def __str__(self) -> str:
        worst = str(self.findings[-1]) if self.findings else "no cell holds enough people to look at"
        done = "every cell that holds enough people is within alpha" if self.finished else "not shown to be within alpha"
        return f"{sum(map(len, self.updates))} corrections in {len(self.findings)} rounds; {done}; last: {worst}"


def _moved(scores: Array, codes: Integers, updates: tuple[Update, ...], cells: int) -> Array:
    """Scores after one round. All updates of a round are about disjoint cells, decided before any score moves."""
    found, cell = scores.copy(), cells_of(scores, cells)
    for one in updates:
        there = (codes[:, one.view] == one.group) & (cell == one.cell)
        found[there] = np.clip(found[there] + one.shift, 0.0, 1.0)
    return found


@dataclass(frozen=True)
class _Terms:
    """What is looked for, in public numbers."""

    alpha: float
    least: float
    cells: int
    views: Views
    deviation: float = 0.0  # of the noise on one number of the table

    @property
    def most(self) -> float:
        """How many corrections there can be: each lowers the squared error, at most 1, by least * alpha^2. Noise may ask for more."""
        step = self.least * self.alpha**2
        return math.inf if step == 0 else max(math.floor(1 / step + 1e-9), 1)


def _audit(table: Array, terms: _Terms) -> tuple[list[Miscalibration], tuple[Update, ...]]:
    """The worst cell of a (noisy) table of (count, residual), and the updates of its combination; no update within alpha."""
    views, cells = terms.views, terms.cells
    people = max(float(table[0, :cells, 0].sum()), 1.0)  # the first combination is everyone
    counts, residuals = table[:, :, 0], table[:, :, 1]
    exists = np.arange(counts.shape[1])[None, :] < np.array([[views.size(v) * cells] for v in range(len(counts))])
    heavy = (counts >= max(terms.least * people, 1.0)) & exists  # narrower combinations leave columns without a group
    means = np.where(heavy, residuals / np.maximum(counts, 1.0), 0.0)
    if not heavy.any():
        return [], ()
    # What two deviations of the noise explain is no reason to move a score.
    seen = np.maximum(terms.alpha, 2 * terms.deviation / np.maximum(counts, 1.0))
    beyond = np.where(heavy, np.abs(means) - seen, -np.inf)
    view, at = np.unravel_index(int(beyond.argmax()), means.shape)
    group, cell = divmod(int(at), cells)
    share = float(counts[view, at]) / people
    found = Miscalibration(views.name(int(view), group), (cell + 0.5) / cells, float(means[view, at]), share)
    off = np.flatnonzero(beyond[view] > 0)
    updates = tuple(Update(int(view), int(place) // cells, int(place) % cells, float(means[view, place])) for place in off)
    return [found], updates


def _hidden(table: Array, terms: _Terms) -> bool:
    """Whether the noise is too large to see an error of alpha in a cell of the least share."""
    people = max(float(table[0, : terms.cells, 0].sum()), 1.0)
    return 2 * terms.deviation / max(terms.least * people, 1.0) > terms.alpha


def audit(
    scores: object, y: object, *, groups: Mapping[str, Iterable[object]] | Groups, sensitive_features: object,
    least: float = 0.05, cells: int = 20, depth: int = 2, positive: object = 1,
) -> Miscalibration | None:  # fmt: skip
    """The group and score at which labels are furthest off, on rows that may be looked at; None where no cell is large enough.

    Small cells cannot be audited: E[c(X) 1{p = v} (Y - v)] is the mass of the cell times its error, so a least mass belongs
    to the definition (the textbook leaves both out).

    >>> print(audit([0.5] * 4, [1, 1, 0, 1], groups={"sex": ["F", "M"]}, sensitive_features=["F", "F", "M", "M"]))
    sex=F, score about 0.53: labels are off by +0.500 for 50.0% of the people
    """
    people = Scored.of(scores, y, sensitive_features, groups, positive)
    views = Views.of(people.groups, depth)
    codes, found = views.codes(people.codes()), scores_of(people.scores)
    table = _table(found, binary(people.label, positive), codes, views, cells)
    worst, _ = _audit(table, _Terms(0.0, float(probability("least", least)), count("cells", cells), views))
    return worst[0] if worst else None


def _places(scores: Array, codes: Integers, cells: int) -> NDArray[np.int64]:
    at: NDArray[np.int64] = np.where(codes >= 0, codes * cells + cells_of(scores, cells)[:, None], -1)
    return at


def _table(scores: Array, label: Integers, codes: Integers, views: Views, cells: int) -> Array:
    """The table without noise."""
    places, size = _places(scores, codes, cells), views.largest * cells
    found = np.zeros((len(views.combinations), size, 2))
    for view in range(len(views.combinations)):
        known = places[:, view] >= 0
        np.add.at(found[view, :, 0], places[known, view], 1.0)
        np.add.at(found[view, :, 1], places[known, view], (label - scores)[known])
    return found


def multicalibrate(
    scores: object, y: object, groups: Mapping[str, Iterable[object]] | Groups, *, sensitive_features: object,
    alpha: float = 0.05, least: float = 0.05, rounds: int = 12, cells: int = 20, depth: int = 2, positive: object = 1,
    epsilon: Any = None, delta: Any = None, rho: Any = None, mu: Any = None, guarantee: Guarantee | str | None = None,
    method: Method = "auto", adjacency: str = "add-remove", account: Account | None = None,
    purpose: str = "multicalibration",
) -> Multicalibrated:  # fmt: skip
    """Correct scores until every group and cell with a share of at least `least` is within `alpha`, or the rounds run out.

    With `method="table"` each round measures (number of people, sum of label - score) for every group and cell with Gaussian
    noise, takes the combination of attributes with the worst cell, and moves every cell of it that is off by more than alpha
    and by more than two deviations of the noise. Its cells are disjoint, so each correction lowers the squared error by its
    share times the square of its error, up to the noise: there are at most 1 / (least * alpha^2) of them, and where noise
    asks for more it stops.
    With `method="sparse"` cells are asked about one by one, and a round is the correction of one cell (Hebert-Johnson, Kim,
    Reingold and Rothblum 2018, Algorithm 1). "auto" compares `expected_noise`; without a delta only "sparse" is possible.

    Guarantee
        Statement: costs `event`, at most what was asked for, whatever is in the columns: `rounds` Gaussian releases, or
        PureDP(epsilon) for the sparse vector.
        Conditions: a row is a person; groups, cells and rounds are public; scores come from a model fixed or released before.
        Proved in: table: a person is in one cell of each of K combinations with a row (1, label - score) of length at most
        sqrt(2), so they move the table by at most sqrt(2 K); `noisy_table`. Cells of later rounds depend on what was
        released. Sparse: a person moves |sum of label - score| of any cell by at most 1, two who are exchanged by 2;
        `AboveThreshold`. The values of a found cell are paid for apart, with L1 sensitivity 2; pure prices add up also
        where mechanisms take turns (Vadhan and Wang 2021, Theorem 1.8). All rounds are paid for, also where it stops early.
        Erratum: the textbook's auditor lacks the mass of the cell; see `audit`.
    """
    people = Scored.of(scores, y, sensitive_features, groups, positive)
    views, steps = Views.of(people.groups, depth), count("rounds", rounds)
    terms = _Terms(float(probability("alpha", alpha)), float(probability("least", least)), count("cells", cells), views)
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    wanted = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).positive()
    auditor = _auditor(method, wanted, steps, relation, terms)
    with paying(account, auditor.event, purpose=purpose, delta=wanted.delta or None) as payment:
        label, found = binary(people.label, positive), scores_of(people.scores)
        updates, findings, finished = auditor.correct(found, label, views.codes(people.codes()))
    price = wanted.price(auditor.event, relation)
    return Multicalibrated(
        views, terms.cells, tuple(updates), tuple(findings), auditor.event, price, payment.private, terms.alpha, finished,
        auditor.method,
    )  # fmt: skip


Corrected = tuple[list[tuple[Update, ...]], list[Miscalibration], bool]


@dataclass(frozen=True)
class _Table:
    """The auditor who measures every cell in every round, with Gaussian noise."""

    steps: int
    multiplier: float
    relation: Adjacency
    terms: _Terms
    event: Event
    method = "table"

    @classmethod
    def of(cls, wanted: Guarantee, steps: int, relation: Adjacency, terms: _Terms) -> _Table:
        def made(total: float) -> Event:
            return Repeated(Gaussian(math.sqrt(steps) / total, adjacency=relation), steps)

        event, total = wanted.settle(made, relation)
        multiplier = math.sqrt(steps) / total
        far = float(farthest_table(len(terms.views.combinations), relation))
        return cls(steps, multiplier, relation, replace(terms, deviation=multiplier * far * BOUND), event)

    @property
    def seen(self) -> float:
        """The sum of label - score, in people, that is told from noise: two deviations."""
        return 2 * self.terms.deviation

    def correct(self, found: Array, label: Integers, codes: Integers) -> Corrected:
        """The corrections of all rounds, what was found worst in each, and whether all is shown to be within alpha."""
        terms, size = self.terms, self.terms.views.largest * self.terms.cells
        updates: list[tuple[Update, ...]] = []
        findings: list[Miscalibration] = []
        for _ in range(self.steps):
            rows = np.column_stack([np.ones(len(found)), label - found])
            table = noisy_table(
                rows, _places(found, codes, terms.cells), size=size, bound=BOUND, multiplier=self.multiplier,
                adjacency=self.relation,
            )  # fmt: skip
            worst, moves = _audit(table, terms)
            findings += worst
            if not moves:
                return updates, findings, bool(worst) and not _hidden(table, terms)
            left = terms.most - sum(map(len, updates))
            if left < len(moves):
                return updates, findings, False  # without noise there cannot be so many
            updates.append(moves)
            found = _moved(found, codes, moves, terms.cells)
        return updates, findings, False


@dataclass(frozen=True)
class _Sparse:
    """The auditor who asks about one cell after the other whether its labels are off, and buys the values of those that are."""

    total: Fraction
    steps: int
    relation: Adjacency
    terms: _Terms
    method = "sparse"

    @classmethod
    def of(cls, wanted: Guarantee, steps: int, relation: Adjacency, terms: _Terms) -> _Sparse:
        return cls(_pure_part(wanted, relation), steps, relation, terms)

    @property
    def event(self) -> Event:
        return PureDP(self.total)

    @property
    def _moved(self) -> int:
        """How far one person moves a sum of numbers between -1 and 1."""
        return 2 if self.relation is Adjacency.REPLACE_ONE else 1

    def search(self, threshold: float, width: int) -> AboveThreshold:
        """Which cells are off; sums are whole numbers of granules, of which a person has at most `width`."""
        return AboveThreshold(
            self.total * SEARCH, threshold=round(threshold * width), aboves=self.steps, sensitivity=self._moved * width
        )

    @property
    def cells(self) -> list[tuple[int, int]]:
        """All cells of all combinations, in the order in which they are asked about."""
        views = self.terms.views
        return [(v, at) for v in range(len(views.combinations)) for at in range(views.size(v) * self.terms.cells)]

    @property
    def seen(self) -> float:
        """The sum of label - score, in people, that is told from noise: empty cells reach it less than once in a pass."""
        return float(self.search(0.0, 1).scales[1]) * math.log(len(self.cells))

    def _values(self, numbers: NDArray[np.int64], width: int, epsilon: Fraction) -> list[float]:
        """Counts or sums in granules with Laplace noise, in people; a person moves each of them by at most `width`."""
        noise = NoisySums.of_multiplier("laplace", 1 / epsilon, len(numbers) * self._moved * width, adjacency=self.relation)
        return [float(value) / width for value in noise.add(numbers)]

    def correct(self, found: Array, label: Integers, codes: Integers) -> Corrected:
        """The corrections, one cell each, and whether a whole pass over all cells found nothing above the threshold."""
        terms, views = self.terms, self.terms.views
        size = views.largest * terms.cells
        table, width = self._sums(found, label, codes, size)
        people = max(self._values(table[0, :, :1].sum(axis=0), width, self.total * PEOPLE)[0], 1.0)
        each = self.total * (1 - PEOPLE - SEARCH) / self.steps
        wanted, asked = terms.alpha * terms.least * people, self.cells
        # A lower threshold would spend the corrections on noise.
        sparse = Sparse(self.search(max(wanted, self.seen), width))
        updates: list[tuple[Update, ...]] = []
        findings: list[Miscalibration] = []
        start, quiet = 0, 0
        while not sparse.halted and quiet < len(asked) and len(updates) < terms.most:
            view, at = asked[start]
            start, quiet = (start + 1) % len(asked), quiet + 1
            if not sparse.ask(abs(int(table[view, at, 1]))):
                continue
            quiet = 0
            mass, residual = self._values(table[view, at], width, each)
            mass = max(mass, terms.least * people)  # a smaller cell is moved less than it is off, never more
            group, cell = divmod(at, terms.cells)
            shift = min(max(residual / mass, -1.0), 1.0)
            findings.append(Miscalibration(views.name(view, group), (cell + 0.5) / terms.cells, shift, mass / people))
            updates.append((Update(view, group, cell, shift),))
            found = _moved(found, codes, updates[-1], terms.cells)
            table, _ = self._sums(found, label, codes, size)
        return updates, findings, quiet >= len(asked) and wanted >= self.seen

    def _sums(self, found: Array, label: Integers, codes: Integers, size: int) -> tuple[NDArray[np.int64], int]:
        """(number of people, sum of label - score) of every cell in granules, and the granules in a person; each of the two is
        clipped by itself."""
        places = _places(found, codes, self.terms.cells)
        counts, width, _ = table_totals(np.ones((len(found), 1)), places, size, 1.0, False)
        return np.concatenate([counts, table_totals((label - found)[:, None], places, size, 1.0, False)[0]], axis=2), width


def _pure_part(wanted: Guarantee, relation: Adjacency) -> Fraction:
    """The largest epsilon, to twelve digits, at which PureDP keeps the guarantee."""
    if wanted.epsilon is not None:
        return wanted.epsilon
    low, high = Fraction(0), Fraction(1)
    while wanted.keeps(PureDP(high), relation):
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if wanted.keeps(PureDP(middle), relation) else (low, middle)
    if not low:
        raise FairnessError("no sparse vector keeps so small a guarantee; give a larger one")
    return low


def _auditor(method: Method, wanted: Guarantee, steps: int, relation: Adjacency, terms: _Terms) -> _Sparse | _Table:
    """The auditor that was named, or the one that sees smaller errors, decided from public numbers."""
    if method not in ("auto", "table", "sparse"):
        raise FairnessError(f'method must be "auto", "table" or "sparse", not {method!r}')
    if method == "table" and wanted.pure:
        raise FairnessError('method="table" is made of Gaussian releases; give delta, rho or mu, or take method="sparse"')
    sparse = _Sparse.of(wanted, steps, relation, terms)
    if method == "sparse" or wanted.pure:
        return sparse
    table = _Table.of(wanted, steps, relation, terms)
    return sparse if method == "auto" and sparse.seen < table.seen else table


def expected_noise(
    groups: Mapping[str, Iterable[object]] | Groups, people: int, *, least: float = 0.05, rounds: int = 12, depth: int = 2,
    cells: int = 20, guarantee: Guarantee | str, method: Method = "auto", adjacency: str = "add-remove",
) -> float:  # fmt: skip
    """What noise does to the mean error of the smallest cell that counts, before anything is paid: half of what can be seen.

    An alpha below two of these asks for more than the budget can see. For the table it is the deviation of the noise.

    >>> round(expected_noise({"sex": ["F", "M"]}, 10_000, guarantee="eps=1, delta=1e-6"), 4)
    0.0585
    """
    relation, wanted = Adjacency.parse(adjacency), Guarantee.of(guarantee)
    terms = _Terms(0.0, 0.0, count("cells", cells), Views.of(Groups.of(groups), depth))
    auditor = _auditor(method, wanted, count("rounds", rounds), relation, terms)
    return auditor.seen / 2 / max(count("people", people) * float(least), 1.0)
