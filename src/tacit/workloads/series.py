"""Counts over time: periods, running totals and any stretch of time, at once or one period after the other.

`series` answers for a table that is complete: it plans the running totals and all stretches of time as one workload.
`stream` publishes a running total when each period is over, at one price for the whole horizon, by continual
counting (`tacit.mechanisms.continual_counting`); stretches are differences of running totals.

>>> import pathlib, tempfile, datetime
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Periods, Session, Unit
>>> days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 28) for i in range(2800)]
>>> visits = pa.table({"id": range(2800), "day": days})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> unit = Unit("id", max_rows=1, capped=True)
>>> session = Session(visits, unit=unit, budget=Budget(rho=1), name="visits", ledger=book)
>>> found = series(session, "day", Periods("2026-01-01", "day", 28), rho=0.5).run()
>>> value, low, high = found.between("2026-01-08", "2026-01-14")
>>> low < 700 < high or abs(value - 700) < 30
True
>>> weeks = stream(session, "day", Periods("2026-01-01", "week", 4), rho=0.25)
>>> first = weeks.advance()
>>> abs(first.value - 700) < 100, weeks.periods.names[0]
(True, '2026-01-01')
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacit import pictures
from tacit.accounting import Adjacency, Event, Guarantee
from tacit.calculus import L1, Integers, Space, Vectors, restate
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.ledger import Payment
from tacit.mechanisms import BinaryTree, Law, square_root
from tacit.tables import Brackets, Cut, Periods, Refused, Session
from tacit.workloads.plan import FrontPlan, WorkloadAnswer, plan, short
from tacit.workloads.workload import AllRanges, Identity, Prefix, Product, Wanted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Over = Literal["ranges", "prefix"]
#: From so many periods on only running totals are asked for if nothing is said: all ranges would be too many to list.
MANY = 400


def wanted_over_time(column: str, periods: Periods, by: Sequence[str] = (), asked: Over | None = None) -> Wanted:
    """The questions: all stretches of time, or all running totals, for every combination of the cells of other columns."""
    if column in by or len(set(by)) != len(by):
        raise ParameterError("by must name other columns than that of the time, each once")
    if asked not in (None, "ranges", "prefix"):
        raise ParameterError(f"asked must be 'ranges' or 'prefix', not {asked!r}")
    kind = AllRanges if asked == "ranges" or (asked is None and periods.count < MANY) else Prefix
    return Product(**dict.fromkeys(by, Identity), **{column: kind})


@dataclass(frozen=True, eq=False, repr=False)
class SeriesPlan(FrontPlan):
    """A plan for all stretches of time. No data was touched."""

    column: str
    periods: Periods

    def run(self) -> SeriesAnswer:
        """Pay, count, add noise."""
        found = self.inner.run()
        return SeriesAnswer(found.measured, found.released, found.private, found.entry, self.column, self.periods)


def series(
    session: Session, column: str, periods: Periods, *, by: Sequence[str] = (), asked: Over | None = None,
    guarantee: Guarantee | str | None = None, epsilon: Typed | None = None, delta: Typed | None = None,
    rho: Typed | None = None, mu: Typed | None = None,
    cells: Mapping[str, Sequence[Any] | Brackets | Periods | None] | None = None, rows: str | None = None,
    law: Law | None = None, purpose: str = "",
) -> SeriesPlan:
    """Plan the counts of a table over time. Nothing is spent and no data is touched.

    `column` is a date or a timestamp without a time zone, cut into public periods; `by` are further columns, told apart
    by their cells. `asked` says what the error is made small for: all stretches ('ranges'), or running totals ('prefix').
    """
    inner = plan(
        session, wanted_over_time(column, periods, by, asked), guarantee=guarantee, epsilon=epsilon, delta=delta,
        rho=rho, mu=mu, cells={**(cells or {}), column: periods}, rows=rows, law=law, purpose=purpose,
    )  # fmt: skip
    return SeriesPlan(inner, column, periods)


@dataclass(frozen=True, eq=False, repr=False)
class SeriesAnswer(WorkloadAnswer):
    """Counts over time, from sums that were measured once."""

    column: str = ""
    periods: Periods | None = None

    def between(self, first: str, last: str, **groups: str) -> tuple[float, float, float]:
        """The count from one period to another, both included: value, low, high. `groups` names a cell of every other column."""
        assert self.periods is not None
        own = self.figures[0]
        names = self.periods.names
        for name in (first, last):
            if name not in names:
                raise ParameterError(f"there is no period {name!r}; they go from {names[0]} to {names[-1]}")
        start, stop = names.index(first), names.index(last)
        if start > stop:
            raise ParameterError(f"{first} is after {last}")
        place = []
        for column, factor in own.term.factors:
            if column == self.column:
                if isinstance(factor, Prefix) and start:
                    raise ParameterError("only running totals were asked for, which begin with the first period; ask for ranges")
                ranges = isinstance(factor, AllRanges)
                # Ranges stand in the order (0, 0), (0, 1), ..., (1, 1), ...
                place.append(start * factor.size - start * (start - 1) // 2 + stop - start if ranges else stop)
                continue
            cells = self.measured.workload.cells.names[column]
            if groups.get(column) not in cells:
                raise ParameterError(f"name a cell of {column}: {', '.join(cells[:8])}")
            place.append(cells.index(groups[column]))
        value, width = float(own.values[tuple(place)]), float(own.widths[tuple(place)])
        return value, value - width, value + width

    def running(self, **groups: str) -> list[tuple[str, float, float, float]]:
        """The running total after every period: its name, value, low, high."""
        assert self.periods is not None
        names = self.periods.names
        return [(name, *self.between(names[0], name, **groups)) for name in names]

    def picture(self, path: pictures.Path | None = None, **groups: str) -> Figure:
        """Running totals with their intervals."""
        title = "Running total" + "".join(f", {column} {value}" for column, value in groups.items())
        return drawn(self.running(**groups), title, self.column, path)


def drawn(totals: Sequence[tuple[str, float, float, float]], title: str, label: str, path: pictures.Path | None) -> Figure:
    """Names of periods with value, low and high: a line with a band around it."""
    figure, ax = pictures.canvas(None, path)
    names = [one[0] for one in totals]
    value, low, high = np.array([one[1:] for one in totals]).T
    places = np.arange(len(names))
    ax.fill_between(places, low, high, color=pictures.SKY, alpha=0.4, lw=0, label="interval")
    ax.plot(places, value, color=pictures.BLUE, lw=1.6, label="running total")
    step = max(1, -(-len(names) // 6))
    ax.set_xticks(places[::step], [names[i] for i in places[::step]])
    ax.set_ylim(bottom=min(0.0, float(np.min(low))))
    ax.legend(loc="upper left")
    pictures.dress(ax, title, label, "rows")
    return pictures.finish(figure, path)


# --- one period after the other ---


@dataclass(frozen=True)
class Published:
    """The running total after a period, and between what it lies with the session's confidence."""

    period: str
    value: float
    low: float
    high: float


class Stream:
    """Running totals that are published one period after the other; made by `stream`, paid for once, for all periods.

    Guarantee
        Statement: all published totals together cost `event`, which was booked when the stream was opened.
        Conditions: a unit has at most `reach` rows over all periods (rows are units of their own, or the unit is declared
        `capped`); a row's date does not change once its period was counted.
        Proved in: every row is counted in one period at most, so a unit moves the stream of counts by at most `reach` in
        sum, and `tacit.mechanisms.continual_counting` prices such streams under L1.
    """

    def __init__(self, session: Session, cut: Cut, column: str, periods: Periods, mechanism: Any, counter: Any, payment: Payment) -> None:
        self.periods, self.mechanism = periods, mechanism
        self.published: list[Published] = []
        self._session, self._cut, self._column = session, cut, column
        self._counter, self._payment = counter, payment
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Stream({len(self.published)} of {self.periods.count} periods published, {self._payment.event!r})"

    @property
    def event(self) -> Event:
        """What the whole stream costs."""
        return self._payment.event

    @property
    def private(self) -> bool:
        """Whether all noise so far came from the operating system."""
        return self._payment.private

    @property
    def width(self) -> float:
        """How far a running total may be off, with the session's confidence."""
        return float(self.mechanism.error(1 - self._session.desk.confidence))

    def advance(self) -> Published:
        """Count the next period and publish the running total. A period is counted once; rows that come later are lost to it."""
        # Two threads at once would count one period twice, which moves more than was paid for.
        with self._lock:
            time = self._counter.time
            if time == self.periods.count:
                raise ParameterError(f"all {time} periods were published; open another stream, which is another spend")
            width = self.width
            with self._payment.touching():
                counts = self._cut.counts([(self._column,)])[(self._column,)]
                total = float(self._counter.push(int(counts[time])))
            found = Published(self.periods.names[time], total, total - width, total + width)
            self.published.append(found)
            if time + 1 == self.periods.count:
                self._payment.commit()
            return found

    def picture(self, path: pictures.Path | None = None) -> Figure:
        """What was published so far."""
        if not self.published:
            raise ParameterError("nothing was published yet; advance() publishes the next period")
        return drawn([(p.period, p.value, p.low, p.high) for p in self.published], "Running total", self._column, path)


def stream(
    session: Session, column: str, periods: Periods, *, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None, rows: str | None = None, purpose: str = "",
) -> Stream:
    """Open a stream of running totals and book its whole price; `advance()` publishes one period after the other.

    A stream counts each row when its period is over, so it cannot choose which rows of a person to keep in advance:
    the unit must be a row, or declared `capped`, its rows over all periods being at most `max_rows`.
    """
    spend = session.spend_of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).positive()
    unit = session.unit
    if unit.person is not None and not unit.capped:
        raise Refused(
            "a stream counts each period when it is over, so it cannot cap a person's rows over periods still to come; declare "
            "Unit(..., max_rows=, capped=True) if no person has more rows over all of them, or ask for series()"
        )
    cut = Cut.of(session.desk, {column: periods}, rows=rows)
    replaced = unit.adjacency is Adjacency.REPLACE_ONE
    mechanism, counter, event = _cheapest(spend, periods.count, cut.reach * (2 if replaced else 1), unit.adjacency, session.desk.confidence)
    payment = session.paying(event, spend, purpose, "the stream ends here; another one is another spend").open()
    return Stream(session, cut, column, periods, mechanism, counter, payment)


def _cheapest(spend: Guarantee, horizon: int, moved: int, adjacency: Adjacency, confidence: float) -> tuple[Any, Any, Event]:
    """The mechanism of least error that the price allows, ready to count, and its event."""
    space = Space(Vectors(Integers(), horizon), L1())
    tried: list[tuple[float, Any, Event]] = []
    for name in ("laplace tree", "gaussian tree", "square root"):
        multiplier = spend.noise_multiplier if name != "laplace tree" else 1 / spend.laplace_epsilon if spend.laplace_epsilon else None
        while multiplier is not None:
            mechanism = _sized(name, horizon, multiplier * moved)
            event = restate(mechanism.bind(space).event(moved), adjacency)
            if spend.admits(event, adjacency):
                tried.append((mechanism.error(1 - confidence), mechanism, event))
                break
            multiplier *= 1 + Fraction(1, 2**28)  # what roundings may cost
    if not tried:
        raise ParameterError(f"a stream has no price in {spend}; give epsilon, rho or mu")
    _, mechanism, event = min(tried, key=lambda one: one[0])
    return mechanism, mechanism.open(space, moved), event


def _sized(name: str, horizon: int, noise: Fraction) -> Any:
    """A mechanism whose price is that of one Laplace or Gaussian with this noise on one count."""
    levels = BinaryTree(horizon, 1).levels
    if name == "laplace tree":
        return BinaryTree(horizon, noise * levels)
    if name == "gaussian tree":
        return BinaryTree(horizon, short(noise * Fraction(levels**0.5) * (1 + Fraction(1, 2**40))), "gaussian")
    return square_root(horizon, short(noise * square_root(horizon, 1).norm))

