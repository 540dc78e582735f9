"""Rates by group for private people: one noisy histogram, every rate and every gap with an interval, one price.

Each person is counted once, in the cell of their group, label and prediction. The counts get noise, and all
rates, gaps and ratios follow from them for nothing. Group sizes stand in denominators as noisy counts too: the
size of a group is private. Disjoint groups are one histogram, so they cost once.

>>> from tacit.noise import test_mode
>>> with test_mode(7):
...     found = private_rates([1, 0] * 500, [1, 0, 0, 0] * 250, groups={"sex": ["F", "M"]},
...                           sensitive_features={"sex": ["F", "F", "M", "M"] * 250}, epsilon=1)
>>> found.event
Laplace(noise_multiplier=1)
>>> gap = found.difference("equal_opportunity")
>>> gap.low < 1.0 <= gap.high
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Bound, Event, Guarantee
from tacit.fairness.errors import FairnessError
from tacit.fairness.rate_intervals import rate_interval
from tacit.fairness.rates import RATES, Groups, Key, People, Rates, group_words, rates_of
from tacit.ledger import Account, paying
from tacit.mechanisms import Law, NoisySums, farthest_table
from tacit.parameters import probability
from tacit.pictures import BLUE, GREY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Rates that a result tells of itself in words.
TOLD = ("selection_rate", "true_positive_rate", "false_positive_rate")


@dataclass(frozen=True)
class RateEstimate:
    """A figure with the ends of its interval; `known` is False where the noise leaves nothing to say."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the interval says anything."""
        return not math.isnan(self.value) and (self.low > 0.0 or self.high < 1.0)

    def __str__(self) -> str:
        if not self.known:
            return "not known at this price"
        return f"{self.value:.3f} [{self.low:.3f}; {self.high:.3f}]"


def noise_for(guarantee: Guarantee, adjacency: Adjacency, law: Law | None = None) -> NoisySums:
    """Noise for a histogram in which each person has one cell: the law of the smaller deviation, or the one asked for.

    >>> noise_for(Guarantee(epsilon=1), Adjacency.ADD_REMOVE).event
    Laplace(noise_multiplier=1)
    >>> noise_for(Guarantee(rho=0.5), Adjacency.ADD_REMOVE).event
    Gaussian(noise_multiplier=1)
    """
    found: list[NoisySums] = []
    wanted: tuple[Law, ...] = ("laplace", "gaussian") if law is None else (law,)
    for kind in wanted:
        if kind == "laplace":
            multiplier = None if not guarantee.laplace_epsilon else 1 / guarantee.laplace_epsilon
        else:
            multiplier = guarantee.noise_multiplier
        if multiplier is not None:
            moved = farthest_table(1, adjacency, laplace=kind == "laplace", counts=True)
            found.append(NoisySums.of_scale(kind, multiplier * moved, moved, adjacency=adjacency))
    if not found:
        raise guarantee_without(law)
    return min(found, key=lambda noise: noise.deviation())


def guarantee_without(law: Law | None) -> Exception:
    """The error for a law that has no price in the currency that was asked for."""
    from tacit.errors import ParameterError

    return ParameterError(f"{law or 'no'} noise has no price in this currency; give epsilon with delta, or rho")


@dataclass(frozen=True, repr=False)
class PrivateRates:
    """Released counts of (group, label, prediction), and every rate that follows from them.

    `by_group`, `overall`, `difference` and `ratio` have the names of fairlearn; each figure is an `RateEstimate`.
    Intervals are about the noise: they cover the rate among the people who were counted. With
    `population=True` the sampling of these people is covered too.
    """

    groups: Groups
    counts: NDArray[np.int64]
    noise: NoisySums
    privacy: Bound
    private: bool = True
    confidence: float = 0.95
    population: bool = False
    merged: int = 1  # how many released cells stand in one of `counts`
    parts: tuple[int, int, int, int] = (1, 1, 1, 1)  # as many more for (label, prediction) 00, 01, 10, 11, where these have several values
    outside: int | None = None  # the noisy number of people in no declared group, if it was asked for

    def __repr__(self) -> str:
        lines = []
        for key, *of in zip(self.groups.keys, *(self.estimates(name) for name in TOLD), strict=True):
            group = group_words(key)
            lines.append(f"{group}: " + ", ".join(f"{name.replace('_', ' ')} {one}" for name, one in zip(TOLD, of, strict=True)))
        if self.groups.size > 1:
            lines.append(f"gap of equalized odds: {self.difference('equalized_odds')}")
        return "\n".join([*lines, *self.notes])

    @property
    def event(self) -> Event:
        """What was done to the data."""
        return self.noise.event

    @property
    def rates(self) -> Rates:
        """The same figures without intervals."""
        return Rates(self.groups, self.counts.astype(np.float64))

    def at(self, *attributes: str) -> PrivateRates:
        """The same over some of the attributes: their groups are added up, noise included. Free."""
        found = self.rates.at(*attributes)
        merged = self.merged * self.groups.size // found.groups.size
        counts = found.counts.astype(np.int64)
        return PrivateRates(
            found.groups, counts, self.noise, self.privacy, self.private, self.confidence, self.population, merged, self.parts,
            self.outside,
        )  # fmt: skip

    @cached_property
    def undeclared(self) -> RateEstimate | None:
        """The share of people whose group was not declared; None where it was not asked for, and so not paid for."""
        if self.outside is None:
            return None
        whole, cells = float(self.outside + self.counts.sum()), (1, self.groups.size * self.merged * sum(self.parts))
        low, high = self._interval(float(self.outside), whole, cells, self.confidence)
        value = min(max(self.outside / whole, low), high) if whole > 0 and (low, high) != (0.0, 1.0) else math.nan
        return RateEstimate(value, low, high)

    def _interval(self, above: float, below: float, cells: tuple[int, int], confidence: float) -> tuple[float, float]:
        return rate_interval(above, below, cells, self.noise, confidence, self.population)

    def estimates(self, rate: str, confidence: float | None = None) -> list[RateEstimate]:
        """One rate of every group, each with its own interval."""
        level = self.confidence if confidence is None else float(probability("confidence", confidence))
        above, below = self.rates.sums(rate)
        inside, around = RATES[rate]
        held = [self.merged * sum(self.parts[2 * label + guess] for label, guess in cells) for cells in (inside, around)]
        cells = (held[0], held[1] - held[0])
        found = []
        for top, bottom in zip(above.tolist(), below.tolist(), strict=True):
            low, high = self._interval(top, bottom, cells, level)
            value = min(max(top / bottom, 0.0), 1.0) if bottom > 0 else math.nan
            value = math.nan if (low, high) == (0.0, 1.0) else min(max(value, low), high)
            found.append(RateEstimate(value, low, high))
        return found

    @cached_property
    def by_group(self) -> dict[str, dict[Key, RateEstimate]]:
        """Every rate of every group."""
        return {name: dict(zip(self.groups.keys, self.estimates(name), strict=True)) for name in RATES}

    @cached_property
    def overall(self) -> dict[str, RateEstimate]:
        """Every rate of all groups together."""
        one = Groups((("all", ("all",)),))
        whole = PrivateRates(
            one, self.counts.sum(axis=0)[None], self.noise, self.privacy, self.private,
            self.confidence, self.population, self.merged * self.groups.size, self.parts,
        )  # fmt: skip
        return {name: whole.estimates(name)[0] for name in RATES}

    def difference(self, notion: str) -> RateEstimate:
        """The largest gap between two groups, over the rates of a notion; its interval covers at least as often as it says."""
        return self._worst(notion, between=differing, pick=max)

    def ratio(self, notion: str) -> RateEstimate:
        """The smallest ratio between two groups, over the rates of a notion."""
        return self._worst(notion, between=_quotient, pick=min)

    def _worst(self, notion: str, *, between: Any, pick: Any) -> RateEstimate:
        names = rates_of(notion)
        if self.groups.size < 2:
            raise FairnessError(code="groups-values", attribute=self.groups.names[0])
        pairs = self.groups.size * (self.groups.size - 1) // 2
        # All pairs hold at once, and so do all rates, of which two groups have more than pairs: each gets its part of the
        # chance to be wrong.
        level = 1 - (1 - self.confidence) / (max(pairs, self.groups.size) * len(names))
        found: list[RateEstimate] = []
        for name in names:
            of_groups = self.estimates(name, level)
            found += [between(one, other) for i, one in enumerate(of_groups) for other in of_groups[i + 1 :]]
        known = [one.value for one in found if not math.isnan(one.value)]
        value = pick(known) if known else math.nan
        return RateEstimate(value, pick(one.low for one in found), pick(one.high for one in found))

    @property
    def notes(self) -> list[str]:
        """What a reader should know: notions that cannot hold together here, groups too small to say anything about."""
        found = []
        unknown = [key for key, one in zip(self.groups.keys, self.estimates("selection_rate"), strict=True) if not one.known]
        if unknown:
            found.append(f"nothing is known at this price about: {', '.join(map(str, unknown))}")
        if self.undeclared is not None:
            found.append(f"share of people whose group was not declared, and who count for nothing: {self.undeclared}")
        if not self.private:
            found.append("NOT PRIVATE: drawn in test mode")
        return found

    def to_arrow(self) -> Any:
        """A row for each group and rate: value, low, high."""
        import pyarrow as pa

        rows = [
            {**_named(self.groups, key), "rate": name, "value": one.value, "low": one.low, "high": one.high}
            for name, of_groups in self.by_group.items()
            for key, one in of_groups.items()
        ]
        return pa.Table.from_pylist(rows)

    def to_metric_frame(self) -> MetricFigures:
        """The released figures in the shape of fairlearn's MetricFrame, for pandas and its plots; `.arguments(...)` makes a real one."""
        return MetricFigures(self)

    def plot(self, *, notion: str = "equalized_odds", ax: Axes | None = None, path: Path | None = None) -> Figure:
        """The rates of a notion for every group, with their intervals."""
        figure, axes = canvas(ax, path, height=1.4 + 0.34 * self.groups.size * len(rates_of(notion)))
        place, ticks = 0.0, []
        for colour, name in zip((BLUE, "#D55E00"), rates_of(notion), strict=False):
            for key, one in zip(self.groups.keys, self.estimates(name), strict=True):
                axes.plot([one.low, one.high], [place, place], color=colour if one.known else GREY, linewidth=2.5)
                if one.known:
                    axes.plot([one.value], [place], "o", color=colour)
                ticks.append((place, f"{name.replace('_', ' ')}, {group_words(key)}"))
                place += 1
        axes.set_yticks([at for at, _ in ticks], [text for _, text in ticks], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(-0.02, 1.02)
        dress(axes, f"{notion.replace('_', ' ')}: gap {self.difference(notion)}", f"rate, with {self.confidence:.0%} interval", "")
        return finish(figure, path)


def _named(groups: Groups, key: Key) -> dict[str, object]:
    values = key if isinstance(key, tuple) and len(groups.names) > 1 else (key,)
    return dict(zip(groups.names, values, strict=True))


@dataclass(frozen=True)
class MetricFigures:
    """Released rates with the attributes of fairlearn's MetricFrame: `by_group`, `overall`, `difference()`, `ratio()`."""

    released: PrivateRates

    @property
    def by_group(self) -> Any:
        """A pandas data frame: a row for each group, a column for each rate."""
        import pandas as pd

        found = self.released.by_group
        names = self.released.groups.names
        keys = self.released.groups.keys
        index = pd.Index(keys, name=names[0]) if len(names) == 1 else pd.MultiIndex.from_tuples(keys, names=names)
        return pd.DataFrame({rate: [one.value for one in of.values()] for rate, of in found.items()}, index=index)

    @property
    def overall(self) -> Any:
        """A pandas series: each rate of all groups together."""
        import pandas as pd

        return pd.Series({rate: one.value for rate, one in self.released.overall.items()})

    def difference(self) -> Any:
        """The largest gap of each rate between two groups."""
        import pandas as pd

        return pd.Series({rate: self.released.difference(rate).value for rate in RATES})

    def ratio(self) -> Any:
        """The smallest ratio of each rate between two groups."""
        import pandas as pd

        return pd.Series({rate: self.released.ratio(rate).value for rate in RATES})


    def arguments(self, metrics: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
        """What fairlearn's own MetricFrame is called with, for what accepts nothing else: `MetricFrame(**figures.arguments(metrics))`.

        `metrics` are functions of (y_true, y_pred, sample_weight), such as fairlearn's. There is one row for each released cell,
        weighted by its noisy count; a count below 0 weighs nothing.
        """
        groups, weights = self.released.groups, np.maximum(self.released.counts, 0).reshape(-1)
        cells = [_named(groups, key) for key in groups.keys for _ in range(4)]
        return {
            "metrics": dict(metrics), "y_true": [0, 0, 1, 1] * groups.size, "y_pred": [0, 1, 0, 1] * groups.size,
            "sensitive_features": {name: [cell[name] for cell in cells] for name in groups.names},
            "sample_params": {name: {"sample_weight": weights} for name in metrics},
        }  # fmt: skip


def differing(one: RateEstimate, other: RateEstimate) -> RateEstimate:
    """|p - q| from two intervals (Zou, Donner 2008: the distances to the ends add up as squares)."""
    if math.isnan(one.value) or math.isnan(other.value):
        # One of the two is not known: only what the two intervals themselves exclude is excluded.
        return RateEstimate(math.nan, max(one.low - other.high, other.low - one.high, 0.0), _span(one, other))
    gap = one.value - other.value
    down = math.hypot(one.value - one.low, other.high - other.value)
    up = math.hypot(one.high - one.value, other.value - other.low)
    low, high = gap - down, gap + up
    if low <= 0.0 <= high:
        return RateEstimate(abs(gap), 0.0, min(max(-low, high), 1.0))
    return RateEstimate(abs(gap), min(abs(low), abs(high)), min(max(abs(low), abs(high)), 1.0))


def _span(one: RateEstimate, other: RateEstimate) -> float:
    return max(one.high - other.low, other.high - one.low)


def _quotient(one: RateEstimate, other: RateEstimate) -> RateEstimate:
    """The smaller rate over the larger, from two intervals that hold together."""
    small, large = sorted((one, other), key=lambda rate: rate.value if not math.isnan(rate.value) else 0.5)
    low = min(_over(one.low, other.high), _over(other.low, one.high))
    high = 1.0 if one.low <= other.high and other.low <= one.high else _over(small.high, large.low)
    value = _over(small.value, large.value) if not math.isnan(small.value + large.value) else math.nan
    return RateEstimate(value, low, min(high, 1.0))


def _over(top: float, bottom: float) -> float:
    return min(top / bottom, 1.0) if bottom > 0 else 1.0


def private_rates(
    y: ArrayLike, predicted: ArrayLike, *,
    groups: Mapping[str, Iterable[object]] | Groups, sensitive_features: object, positive: object = 1,
    epsilon: Any = None, delta: Any = None, rho: Any = None, mu: Any = None, guarantee: Guarantee | str | None = None,
    adjacency: str = "add-remove", law: Law | None = None, account: Account | None = None,
    confidence: float = 0.95, population: bool = False, undeclared: bool = False, purpose: str = "rates by group",
) -> PrivateRates:  # fmt: skip
    """Rates by group of private people, from one noisy histogram of (group, label, prediction).

    `groups` declares the attributes and their values, `sensitive_features` holds one column for each. A person
    with an undeclared value counts for nothing; with `undeclared=True` the share of such people is released too, from one more
    cell of the same histogram. `positive` is the label, and the prediction, that is selected; any other value is the other one.

    Guarantee
        Statement: costs `event`, at most what was asked for, whatever is in the columns.
        Conditions: a row is a person; groups and `positive` are public; predictions of a person depend on that
        person's record and on a model that was fixed or released before.
        Proved in: a person is in one cell, or in none; `NoisySums` on whole numbers. Rates, gaps, ratios and
        intervals are post-processing of the noisy counts; a true group size is used nowhere.
    """
    people = People.of(y, predicted, sensitive_features, groups, positive)
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    wanted = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).positive()
    noise = noise_for(wanted, relation, law)
    level = float(probability("confidence", confidence))
    with paying(account, noise.event, purpose=purpose, delta=wanted.delta or None) as payment:
        released = noise.add(people.cells() if undeclared else people.cells()[:-1])
    price = wanted.price(noise.event, relation)
    counts, outside = released[: people.groups.size * 4].reshape(-1, 2, 2), int(released[-1]) if undeclared else None
    return PrivateRates(people.groups, counts, noise, price, payment.private, level, population, outside=outside)

