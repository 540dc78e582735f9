"""Bins and categories that are not declared: bought from the data, each at its own price, before anything is measured.

A number or a date without bins gets them from private quantiles, and without bounds these first from `automatic_bounds`; a
category without a list gets one from private key selection, and what is not found is "other". Each purchase is one
event that is fixed before the data is seen. Declared bins are free and better, where there is public knowledge.

>>> from tacit.accounting import Guarantee
>>> age = BoughtNumbers("age", bounds=(0, 120), bins=8, whole=True)
>>> age.event(Guarantee(rho="0.0004"), max_rows=1)
Composed(Gaussian(noise_multiplier=...), Repeated(event=Exponential(epsilon=...), monotone=False), count=3))
>>> age.column([18 + i % 60 for i in range(5000)], [], Guarantee(rho=5), 1).size
9
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.accounting import GDP, RHO, Composed, Event, Guarantee, ParameterError, calibrate, zcdp_rho
from tacit.calculus import AddRemove, Anything, Integers, Measurement, Rows, Space
from tacit.ledger import PriceError, price
from tacit.mechanisms import GaussianSelection, NoisySums, automatic_bounds, gaussian, quantiles
from tacit.synthesis.columns import CategoryColumn, DateColumn, NumberColumn, Values, as_days, as_numbers, same_text
from tacit.synthesis.measure import RELATION, concentrated_budget, gaussian_budget

STEPS = 2**14  # places between the bounds where a bin can end: more of them make every choice noisier
BEND = 16.0  # granules from 0 up to which steps are nearly even, where they grow
BOUNDS = 0.2  # of a column's share, for bounds that are not declared
POINTS = 0.25  # of the rest, for single values that many rows have
HEAVY = 4.5  # deviations of its noise above which a place counts as such: one of 2^14 empty ones passes in six of a hundred columns
HALF = 0.5  # of a bin's rows, that a value must have to be one
FEW = 12  # at most so many of them
LARGEST = 2.0**61
BITS = 62  # of the largest values, in granules: with fewer all larger ones would be in one bin
LISTS = 2  # how much more the list of a column of categories may cost than the bins of one of numbers
OTHER = "other"
EPOCH = datetime.date(1970, 1, 1).toordinal()  # days are counted from here, where bounds that are powers of two lie close to today


def rho_of(guarantee: Guarantee) -> float:
    """What a guarantee is worth in rho: itself, or half of mu squared, or what zCDP allows within epsilon and delta."""
    amounts = guarantee.floats
    if amounts.epsilon is not None:
        return zcdp_rho(amounts.epsilon, amounts.delta or 0.0)
    return amounts.rho if amounts.rho is not None else (amounts.mu or 0.0) ** 2 / 2


@dataclass(frozen=True)
class Scale:
    """Where a bin may end: evenly between the bounds, or, where even steps would be wider than a granule, ever wider
    ones with the distance from 0. On a range of six orders of magnitude even steps leave most values in one bin.

    >>> [round(float(Scale(0, high, 1.0).value(np.array(0.5)))) for high in (100, 10**6)]
    [50, 2828]
    """

    low: float
    high: float
    granule: float

    @property
    def even(self) -> bool:
        """Whether even steps are fine enough."""
        return self.high - self.low <= STEPS * self.granule

    def _bent(self, values: Any) -> Any:
        return np.arcsinh(values / (BEND * self.granule))

    def share(self, values: np.ndarray) -> np.ndarray:
        """How far along the scale values between the bounds lie, from 0 to 1."""
        ends = (self.low, self.high) if self.even else (self._bent(self.low), self._bent(self.high))
        found = ((values if self.even else self._bent(values)) - ends[0]) / (ends[1] - ends[0])
        return np.asarray(np.clip(found, 0.0, 1.0))

    def value(self, shares: np.ndarray) -> np.ndarray:
        """The value that lies so far along the scale."""
        if self.even:
            return self.low + shares * (self.high - self.low)
        first, last = self._bent(self.low), self._bent(self.high)
        return np.asarray(np.clip(BEND * self.granule * np.sinh(first + shares * (last - first)), self.low, self.high))


@dataclass(frozen=True)
class BoughtNumbers:
    """A column of numbers whose bins come from the data. Bounds, where declared, are free."""

    name: str
    bounds: tuple[float, float] | None = None
    bins: int = 16
    whole: bool = False
    granularity: float = 1.0

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= 1024:
            raise ParameterError(f"the bins of {self.name} must be from 2 to 1024, not {self.bins}")
        if self.bounds is not None:
            NumberColumn.between(self.name, *self.bounds, 1)  # refuses what is out of order

    @property
    def most(self) -> int:
        """The most cells that it can have."""
        return self.bins + 1

    def _search(self, rho: float) -> Measurement:
        """Gaussian noise on the cells of `automatic_bounds`."""
        noise = gaussian(Fraction((1 + 1e-12) / math.sqrt(2 * rho)))
        return automatic_bounds(noise, bits=BITS).bind(Space(Rows(Integers()), AddRemove()))

    def _quantiles(self, rho: float) -> Measurement:
        levels = len(self.ranks).bit_length()
        each = math.sqrt(8 * rho / levels) * (1 - 1e-12)  # every level has rho = each^2 / 8
        return quantiles(self.ranks, levels * each).bind(Space(Rows(Integers(0, STEPS)), AddRemove()))

    @property
    def ranks(self) -> list[Fraction]:
        """Where bins end: evenly, but for half a bin at either end, since bounds are rarely where the values are.

        >>> [str(rank) for rank in BoughtNumbers("age", bins=5).ranks]
        ['1/8', '3/8', '5/8', '7/8']
        """
        between = self.bins - 1
        return [Fraction(2 * place + 1, 2 * between) for place in range(between)]

    def _points(self, rho: float, max_rows: int) -> NoisySums:
        """Noise on how many rows each place has, of which one row is in one."""
        return NoisySums.of_scale("gaussian", Fraction((1 + 1e-12) / math.sqrt(2 * rho)), moved=max_rows, adjacency=RELATION)

    def _shares(self, share: Guarantee, max_rows: int) -> tuple[float, float, float]:
        """What may be spent on bounds, single values and quantiles, in rho for one row."""
        rho = rho_of(share) / max_rows**2
        if share.currency == "mu":
            rho /= 6.3  # a choice costs (1.2533 epsilon)^2 in mu squared, and a quarter of epsilon^2 in 2 rho
        bounds = 0.0 if self.bounds is not None else BOUNDS * rho
        return bounds, POINTS * (rho - bounds), (1 - POINTS) * (rho - bounds)

    def event(self, share: Guarantee, max_rows: int) -> Event:
        """What the bins cost, for people with so many rows."""
        bounds, points, cuts = self._shares(share, max_rows)
        found = [] if self.bounds is not None else [self._search(bounds).event(max_rows)]
        return Composed(*found, self._points(points, max_rows).event, self._quantiles(cuts).event(max_rows))

    def column(self, values: Values, owners: Values, share: Guarantee, max_rows: int) -> NumberColumn:
        """The column with its bins; draws once."""
        numbers = as_numbers(values)
        numbers = np.clip(numbers[~np.isnan(numbers)], -LARGEST, LARGEST)
        shares = self._shares(share, max_rows)
        if self.bounds is None:
            granules = np.rint(np.clip(numbers / self.granularity, -LARGEST, LARGEST)).astype(np.int64)
            found = self._search(shares[0]).release(granules, max_rows).value
            low, high = float(found.lower) * self.granularity, float(found.upper) * self.granularity
            high = high if high > low else low + self.granularity
            # Few values next to 0 are lost in the noise of the search, and a range that nearly reaches it has them often.
            low = 0.0 if 0 < low <= high / 8 else low
            high = 0.0 if low / 8 <= high < 0 else high
        else:
            low, high = self.bounds
        scale = Scale(low, high, self.granularity)
        # Rounded down: a bin that begins at the place of a value then holds the value.
        places = np.floor(scale.share(np.clip(numbers, low, high)) * STEPS + 1e-6).astype(np.int64)
        sums = self._points(shares[1], max_rows)
        rows = sums.add(np.bincount(places, minlength=STEPS + 1))
        least = max(HEAVY * sums.deviation(), float(rows.sum()) * HALF / self.bins)
        points = [int(place) for place in np.argsort(-rows, kind="stable")[:FEW] if rows[place] > least]
        cuts = self._quantiles(shares[2]).release(places, max_rows).value
        kept = edges_of([int(cut) for cut in cuts], {point: float(rows[point]) for point in points[: self.bins - 1]})
        cuts = scale.value(np.array(kept, dtype=np.float64) / STEPS)
        end = high + 1 if self.whole else high
        edges = self._apart(np.ceil(cuts - 1e-9 * np.abs(cuts)) if self.whole else cuts, low, end)
        return NumberColumn(self.name, tuple(edges), self.whole)

    def _apart(self, cuts: np.ndarray, low: float, high: float) -> list[float]:
        """Increasing edges, as many as were asked for wherever there is room: cuts that met are spread out."""
        room = 1.0 if self.whole else (high - low) / (4 * STEPS)
        # Far from 0 floats lie farther apart than that, and edges that meet are no column: this must not fail on what was drawn.
        room = max(room, 2 * float(np.spacing(max(abs(low), abs(high)))))
        edges = [low, *np.sort(cuts).tolist(), high]
        if (high - low) < room * (len(edges) - 1):
            few = np.arange(low, high + room / 2, room).tolist()
            return few if len(few) > 1 else [low, high]
        for place in range(1, len(edges) - 1):
            edges[place] = max(edges[place], edges[place - 1] + room)
        for place in range(len(edges) - 2, 0, -1):
            edges[place] = min(edges[place], edges[place + 1] - room)
        return edges


@dataclass(frozen=True)
class BoughtDates:
    """A column of dates whose bins come from the data: days are whole numbers, and bought as such.

    >>> stay = BoughtDates("admitted", bins=4)
    >>> days = [datetime.date(2026, 3, 1) + datetime.timedelta(days=place % 100) for place in range(20_000)]
    >>> found = stay.column(days, [], Guarantee(rho=5), 1)
    >>> found.size, all(edge.year in (2026, 2014, 2059) for edge in found.edges)
    (5, True)
    """

    name: str
    bounds: tuple[datetime.date, datetime.date] | None = None
    bins: int = 16

    def __post_init__(self) -> None:
        _ = self._days  # refuses what is out of order

    @property
    def most(self) -> int:
        """The most cells that it can have."""
        return self.bins + 1

    @property
    def _days(self) -> BoughtNumbers:
        ends = None if self.bounds is None else tuple(float(day.toordinal() - EPOCH) for day in self.bounds)
        return BoughtNumbers(self.name, ends, self.bins, whole=True)  # type: ignore[arg-type]

    def event(self, share: Guarantee, max_rows: int) -> Event:
        """What the bins cost, for people with so many rows."""
        return self._days.event(share, max_rows)

    def column(self, values: Values, owners: Values, share: Guarantee, max_rows: int) -> DateColumn:
        """The column with its bins; draws once. Noise may find bounds beyond the calendar, where no edge can be."""
        found = self._days.column(as_days(values) - EPOCH, owners, share, max_rows)
        first, last = datetime.date.min.toordinal(), datetime.date.max.toordinal()
        days = sorted({int(min(max(edge + EPOCH, first), last)) for edge in found.edges})
        days = days if len(days) > 1 else [first, last]
        return DateColumn(self.name, tuple(map(datetime.date.fromordinal, days)))


def edges_of(cuts: Sequence[int], points: Mapping[int, float]) -> list[int]:
    """As many places as there are cuts where bins end: at every point, a place with so many rows of its own, and at cuts.

    Cuts with the most such rows up to the next ones give way first: what lies between points is not many rows. Where cuts are left over,
    since they lie on points, bins end right after the heaviest points instead.

    >>> edges_of([10, 20, 30, 40], {}), edges_of([10, 20, 21, 40], {20: 900.0}), edges_of([10, 20, 30, 40], {12: 90.0, 17: 80.0})
    ([10, 20, 30, 40], [10, 20, 21, 40], [12, 17, 30, 40])
    """
    found = sorted(cuts)

    def beside(place: int) -> float:
        below = max((cut for cut in found if cut < place), default=-1)
        above = min((cut for cut in found if cut > place), default=STEPS + 1)
        return sum(rows for point, rows in points.items() if below < point < above)

    free = sorted({cut for cut in found if all(abs(cut - point) > 1 for point in points)}, key=beside)
    kept = [*points, *free[: len(found) - len(points)]]
    ends = itertools.cycle([min(STEPS, point + 1) for point in points] or [found[-1]])
    return sorted([*kept, *itertools.islice(ends, len(found) - len(kept))])


@dataclass(frozen=True)
class BoughtCategories:
    """A column of categories whose list comes from the data: those that enough people have; the rest is "other"."""

    name: str

    @property
    def most(self) -> int:
        """The cells that it surely has: how long the list will be is not known before it is bought."""
        return 2

    def _rule(self, share: Guarantee, max_rows: int) -> Measurement:
        if not share.delta:
            raise ParameterError(
                f"the categories of {self.name} are not declared, and finding them needs epsilon and delta, "
                f"not {share.currency}: list them, or state the guarantee as epsilon and delta"
            )
        # Gaussian noise, whose price adds up with that of what is measured later; other rules need fewer people at the
        # same epsilon, and cost several times as much beside a Gaussian method.
        rule = GaussianSelection.for_budget(share.floats.epsilon or 0.0, share.floats.delta or 0.0, keys=max_rows)
        return rule.bind(Space(Rows(Anything()), AddRemove()))

    def event(self, share: Guarantee, max_rows: int) -> Event:
        """What the list costs: one person comes or goes, with at most so many categories."""
        return self._rule(share, max_rows).event(1)

    def column(self, values: Values, owners: Values, share: Guarantee, max_rows: int) -> CategoryColumn:
        """The column with its list; draws once."""
        held: dict[Any, list[str]] = {}
        for place, value in enumerate(values):
            key = same_text(value)  # what the column itself will know it by; no value raises
            owner = owners[place] if len(owners) else place
            held.setdefault(owner, []).extend([] if key is None else [key])
        found = self._rule(share, max_rows).release(list(held.values())).value
        return CategoryColumn(self.name, tuple(str(key) for key in found if str(key) != OTHER) or ("none found",), OTHER)


Bought = BoughtNumbers | BoughtDates | BoughtCategories


def shares_of(bought: Sequence[Bought], guarantee: Guarantee, share: Fraction) -> list[Guarantee]:
    """What each purchase may cost: numbers in rho where the guarantee is epsilon and delta, since rho adds up better.

    Lists of categories are found with Gaussian noise, so their epsilon is the root of their share. They get more: what is missing
    in a list is lost altogether, where a bin that ends elsewhere is still a bin.

    >>> [str(part) for part in shares_of([BoughtNumbers("age"), BoughtNumbers("cost")], Guarantee(mu=1), Fraction(1, 50))]
    ['mu=0.1', 'mu=0.1']
    """
    parts = []
    whole = sum(LISTS if isinstance(one, BoughtCategories) else 1 for one in bought)
    for one in bought:
        own = share * (LISTS if isinstance(one, BoughtCategories) else 1) / whole
        part = guarantee.share(own)
        if guarantee.epsilon is not None and not isinstance(one, BoughtCategories):
            part = Guarantee(rho=rho_of(guarantee) * float(own))
        elif guarantee.epsilon is not None and guarantee.delta:
            root = Fraction(math.isqrt(int(own * 10**12)), 10**6)
            part = Guarantee(epsilon=guarantee.epsilon * root, delta=part.delta)
        parts.append(part)
    return parts


def budget_beside(bought: Sequence[Event], guarantee: Guarantee, selects: bool) -> tuple[Guarantee, Event]:
    """What a method may spend beside purchases of fixed price, and the event of all together.

    >>> from tacit.accounting import Gaussian
    >>> budget_beside([Gaussian(5)], Guarantee(rho=0.1), selects=False)[0]
    Guarantee(rho=0.07999999999992)
    """
    if not bought:
        return (concentrated_budget if selects else gaussian_budget)(guarantee)
    _, _ = concentrated_budget(guarantee)  # refuses a pure guarantee
    if guarantee.epsilon is None:
        part = next(iter(guarantee.limits))
        left = guarantee.limits[part] - price(Composed(*bought), [part], RELATION)[part]
        left *= 1 - Fraction(1, 10**12)  # the event has mu itself, a root that is rounded up; noise of purchases is rounded as well
        rest = Guarantee.of_parts({part: left})
        return rest, Composed(*bought, rest.as_event(RELATION))
    if selects:
        whole, _ = concentrated_budget(guarantee)
        try:
            spent = price(Composed(*bought), [RHO], RELATION)[RHO]
        except PriceError:
            raise ParameterError(
                "categories that are bought have no price in rho, in which this method is filtered: declare them, or "
                "use a method of Gaussian steps such as auto"
            ) from None
        rest = Guarantee(rho=(whole.rho or Fraction(0)) - spent)
        return rest, Composed(*bought, rest.as_event(RELATION))
    mu = calibrate(lambda mu: Composed(*bought, GDP(mu)), guarantee=guarantee, adjacency=RELATION, high=100.0)
    while not guarantee.keeps(Composed(*bought, GDP(mu)), RELATION):
        mu *= 1 - 1e-9
    return Guarantee(mu=mu), Composed(*bought, GDP(mu))
