"""Charging sessions of electric vehicles: ACN-Data files as a table, how much is asked for, and the busiest day.

`read_acn` turns the JSON that the ACN-Data service hands out into an Arrow table for `tacit.Session`; who is protected
is then the session (`Unit.row()`) or the driver (`Unit("user_id", max_rows=...)`). `request_histogram` counts the
requested energy in public bins. `busiest_day` picks a day by the monotone exponential mechanism: one session can only
add energy, so half the usual loss is paid, under a clamp that must be declared.

>>> import pathlib, tempfile
>>> from tacit.applications.energy import busiest_day, made_up_month, read_acn, request_histogram
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> sessions = read_acn(made_up_month(), zone="America/Los_Angeles")
>>> session = Session(sessions, unit=Unit.row(), budget=Budget(epsilon=2), name="charging", ledger=book)
>>> counts = request_histogram(session, bins=range(0, 101, 10), epsilon=0.8)
>>> len(counts.values), counts.event
(10, Laplace(noise_multiplier=Fraction(5, 4)))
>>> day = busiest_day(session, "2019-11-01", days=30, clamp=100, epsilon=1)
>>> day.event, day.day[:8]
(Exponential(epsilon=Fraction(1, 1), monotone=True), '2019-11-')
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event
from tacit.applications.energy.errors import EnergyError
from tacit.applications.energy.files import text_of, unreadable
from tacit.calculus import Lattice, LInfinity, Measurement, Space, Vectors, restate
from tacit.exact import Typed, exact
from tacit.ledger import paying
from tacit.mechanisms import NoisySums, exponential
from tacit.parameters import count, positive
from tacit.tables import Brackets, Cut, EngineError, Periods

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.tables import Desk, Session

Floats = NDArray[np.float64]

#: The numbers of a session, by their names in the file; the first from the session, the others from what its driver typed in.
NUMBERS = {"kWhDelivered": "kwh_delivered"}
ASKED = {"kWhRequested": "kwh_requested", "milesRequested": "miles_requested", "minutesAvailable": "minutes_available"}
TIMES = {"connectionTime": "connected", "disconnectTime": "disconnected", "doneChargingTime": "done"}
#: A clamp is this many granules of the score.
STEPS = 100


# --- the file -------------------------------------------------------------------------------------------------------


def read_acn(source: str | Path | Mapping[str, Any], *, zone: str = "UTC", without_user: str = "own") -> pa.Table:
    """ACN-Data sessions as a table: one row each, with the day in the public time zone `zone`.

    `source` is the path of a JSON file, its text, or what it holds. Of several inputs of a driver the last counts.
    A session without a driver's number is a driver of its own (`without_user="own"`) or left out ("drop"). A value that
    is missing or makes no sense is NULL; a file that is no ACN-Data JSON is refused with its line.

    >>> table = read_acn('{"_items": [{"kWhDelivered": "much", "sessionID": "a"},\\n {"kWhDelivered": 7.5}]}')
    >>> table.column("kwh_delivered").to_pylist(), table.column("user_id").to_pylist()
    ([None, 7.5], ['session 1', 'session 2'])
    >>> read_acn('{"_items": [{},\\n 7]}')
    Traceback (most recent call last):
    tacit.applications.energy.errors.EnergyError: the text, line 2: a session is no JSON object; ...
    """
    import pyarrow as pa

    if without_user not in ("own", "drop"):
        raise EnergyError("without_user must be 'own' (each session is a driver of its own) or 'drop'")
    try:
        local = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise EnergyError(f"zone must be the name of a time zone, such as America/Los_Angeles, not {zone!r}") from None
    rows = [_row(item, place, local) for place, item in enumerate(_items(source), start=1)]
    if without_user == "drop":
        rows = [row for row in rows if not row["user_id"].startswith("session ")]
    types = {"session_id": pa.string(), "user_id": pa.string(), "station_id": pa.string(), "day": pa.date32()}
    types |= dict.fromkeys(TIMES.values(), pa.timestamp("s"))
    types |= dict.fromkeys([*NUMBERS.values(), *ASKED.values()], pa.float64())
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()})


def _items(source: str | Path | Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The sessions of a file; what is no list of objects is refused with its line."""
    name: str = "the sessions"
    text: str | None = None
    content: Any = source
    if not isinstance(source, Mapping):
        name, text = text_of(source, lambda given: given.lstrip()[:1] in ("{", "["), "save the service's answer as it is")
        fault = None
        try:
            content = json.loads(text or "")
        except json.JSONDecodeError as error:
            fault = error.lineno
        except RecursionError:
            fault = 1
        if fault is not None:
            raise unreadable(name, fault, "this is no JSON", "ask the ACN-Data service again, and save its answer as it is")
    items = content.get("_items") if isinstance(content, Mapping) else content
    if not isinstance(items, list):
        raise unreadable(name, 1, "there is no list _items", "save the whole answer of the ACN-Data service")
    wrong = next((place for place, item in enumerate(items) if not isinstance(item, Mapping)), None)
    if wrong is not None:
        raise unreadable(name, _line(text, wrong), "a session is no JSON object", "remove it, or save the answer again")
    return items


def _line(text: str | None, wanted: int) -> int:
    """The line of an item of the list, found by reading those before it again."""
    if text is None:
        return 1
    start = text.find('"_items"')
    place = text.find("[", max(start, 0)) + 1
    decoder = json.JSONDecoder()
    for number in range(wanted + 1):
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        if number < wanted:
            place = decoder.raw_decode(text, place)[1]
    return text.count("\n", 0, place) + 1


def _row(item: Mapping[str, Any], place: int, zone: ZoneInfo) -> dict[str, Any]:
    given = item.get("userInputs")
    last = given[-1] if isinstance(given, list) and given and isinstance(given[-1], Mapping) else {}
    row: dict[str, Any] = {name: _number(item.get(key)) for key, name in NUMBERS.items()}
    row |= {name: _number(last.get(key)) for key, name in ASKED.items()}
    times = {name: _time(item.get(key)) for key, name in TIMES.items()}
    row |= {name: None if time is None else time.astimezone(UTC).replace(tzinfo=None) for name, time in times.items()}
    row["day"] = None if times["connected"] is None else times["connected"].astimezone(zone).date()
    row |= {"session_id": _text(item.get("sessionID")), "station_id": _text(item.get("stationID"))}
    # A number cannot collide with these: they are not made of digits alone.
    row["user_id"] = _text(item.get("userID")) or f"session {place}"
    return row


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(found) else found


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    found = str(value).encode("utf-8", "replace").decode()
    return None if not found or found.startswith("session ") else found


def _time(value: object) -> datetime | None:
    """A moment as ACN-Data writes it (RFC 1123, GMT); anything else is None."""
    if not isinstance(value, str):
        return None
    try:
        found = parsedate_to_datetime(value)
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        # Days on either side must exist in every time zone.
        return found if 2 <= found.year <= 9998 else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


# --- how much is asked for ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnergyHistogram:
    """Noisy counts of sessions in bins of requested energy; they may be negative."""

    bins: tuple[float, ...]
    values: tuple[int, ...]
    noise: NoisySums
    private: bool
    entry: int | None

    @property
    def event(self) -> Event:
        """What it cost."""
        return self.noise.event

    def within(self, confidence: float = 0.95) -> float:
        """How far one count is off at most, with this confidence."""
        return self.noise.error(confidence)


@dataclass(frozen=True)
class HistogramPlan:
    """Counts in public bins before they are made.

    Guarantee
        Statement: `draw` costs Laplace(1 / epsilon), which is epsilon-DP.
        Conditions: bins are public. The unit's cap bounds how many sessions of one unit count; each is in one bin.
        Proved in: book, Theorem 10.3 with sensitivity `reach`, or twice that where a unit is replaced.
        Correction: the book defines neighbours by replacing a record (Definition 10.2) and takes sensitivity 1, which is that
        of adding or removing one.
    """

    cut: Cut
    bins: tuple[float, ...]
    noise: NoisySums
    column: str

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.noise.event

    def draw(self) -> list[int]:
        """Count and add noise. To be called inside a payment."""
        return [int(x) for x in self.noise.add(self.cut.counts([(self.column,)])[(self.column,)])]


def plan_histogram(desk: Desk, bins: Iterable[float], *, epsilon: Typed, column: str = "kwh_requested") -> HistogramPlan:
    """Plan the counts of sessions by requested energy; bins are the edges, in rising order."""
    edges = tuple(bins)
    price = exact("epsilon", epsilon)
    positive("epsilon", price)
    cut = Cut.of(desk, {column: Brackets(edges)})
    relation = desk.unit.adjacency
    moved = cut.reach * (2 if relation is Adjacency.REPLACE_ONE else 1)
    noise = NoisySums.of_multiplier("laplace", 1 / price, moved, adjacency=relation)
    return HistogramPlan(cut, edges, noise, column)


def request_histogram(
    session: Session, bins: Iterable[float], *, epsilon: Typed, column: str = "kwh_requested", purpose: str = "requested energy"
) -> EnergyHistogram:
    """How many sessions asked for how much energy, in public bins, paid for from the session's account."""
    plan = plan_histogram(session.desk, bins, epsilon=epsilon, column=column)
    with paying(
        session.account, plan.event, purpose=purpose, analyst=session.analyst, error=EngineError,
        advice="try the same bins on session.dummy()",
    ) as payment:  # fmt: skip
        drawn = plan.draw()
    return EnergyHistogram(plan.bins, tuple(drawn), plan.noise, payment.private, payment.entry)


# --- the busiest day ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BusiestDay:
    """A day that was probably among the busiest. `within` is how many kWh it is below the busiest at most, at 95%."""

    day: str
    event: Event
    within: float
    private: bool
    entry: int | None


@dataclass(frozen=True)
class DayPlan:
    """The choice of a day before it is made.

    Guarantee
        Statement: `draw` costs Exponential(epsilon), a bounded-range mechanism: epsilon-DP.
        Conditions: the days and the clamp are public; a session above the clamp counts as the clamp, one below 0 as 0, one
        that is NULL as nothing. The unit's cap bounds how many sessions of one unit count.
        Proved in: McSherry and Talwar 2007, Theorem 6. Adding sessions only adds energy, so under add-remove all scores move
        one way and the factor 2 falls away; where a unit is replaced it is paid.
        Correction: the book does not say what one session can add. Without a declared clamp there is no guarantee. It
        calls the score monotone in the outcome; it is monotone in the data.
    """

    cut: Cut
    column: str
    weights: NDArray[np.int64]
    measurement: Measurement
    distance: int

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return restate(self.measurement.event(self.distance), self.cut.unit.adjacency)

    def error(self, beta: float) -> float:
        """How many kWh the chosen day is below the busiest at most, except with probability beta."""
        found = self.measurement.accuracy
        assert found is not None
        return float(found(beta))

    @property
    def days(self) -> tuple[str, ...]:
        """The candidates."""
        return tuple(self.cut.names["day"][:-1])

    def draw(self) -> int:
        """Add up each day's clamped energy, and choose. To be called inside a payment."""
        counts = self.cut.counts([("day", self.column)])[("day", self.column)]
        scores = counts[:-1, :-1].astype(object) @ self.weights.astype(object)
        return int(self.measurement.release(list(scores)).value)


def plan_busiest_day(
    desk: Desk, start: date | str, *, days: int, clamp: Typed, epsilon: Typed, column: str = "kwh_delivered"
) -> DayPlan:
    """Plan the choice among `days` days from `start`, by energy; a session counts for at most `clamp` kWh."""
    most, price = exact("clamp", clamp), exact("epsilon", epsilon)
    positive("clamp", most)
    positive("epsilon", price)
    granule = most / STEPS
    # One cell for each granule and one, open above, for the clamp; the first is open below.
    edges = tuple(float(granule * i) for i in range(STEPS + 2))
    if not all(low < high for low, high in pairwise(edges)) or not math.isfinite(edges[-1]):
        raise EnergyError("clamp is too small or too large to be cut into steps; give it in kWh, such as 100")
    cut = Cut.of(desk, {"day": Periods(start, "day", count("days", days)), column: Brackets(edges)}, outside=True)
    alone = cut.unit.adjacency is not Adjacency.REPLACE_ONE
    distance = cut.reach * STEPS
    candidates = len(cut.names["day"]) - 1
    space = Space(Vectors(Lattice(granule), candidates), LInfinity(monotone=alone))
    step = exponential(1).for_epsilon(price, sensitivity=distance * granule, monotone=alone)
    found = space >> step
    assert isinstance(found, Measurement)
    return DayPlan(cut, column, np.arange(STEPS + 1), found, distance)


def busiest_day(
    session: Session, start: date | str, *, days: int, clamp: Typed, epsilon: Typed, column: str = "kwh_delivered",
    purpose: str = "the busiest day",
) -> BusiestDay:
    """The day with the most energy, or one near it, paid for from the session's account."""
    plan = plan_busiest_day(session.desk, start, days=days, clamp=clamp, epsilon=epsilon, column=column)
    with paying(
        session.account, plan.event, purpose=purpose, analyst=session.analyst, error=EngineError,
        advice="try the same days on session.dummy()",
    ) as payment:  # fmt: skip
        chosen = plan.draw()
    return BusiestDay(plan.days[chosen], plan.event, plan.error(0.05), payment.private, payment.entry)


# --- a made-up month ------------------------------------------------------------------------------------------------

#: What the book says of Caltech's November 2019.
SESSIONS, PEAKS, PEAK_KWH, HOLIDAY = 611, (8, 12), 771.0, 28


def made_up_month(seed: int = 2019) -> dict[str, Any]:
    """A month of made-up sessions in ACN-Data's form, with the shape that the book reports of November 2019.

    611 sessions, over half of them below 20 kWh and one above 100, a weekday pattern, two peak days of 771 kWh, and
    a quiet holiday. The sessions are made up: examples and tests use them.

    >>> month = made_up_month()
    >>> len(month["_items"]), sorted(month["_items"][0])[:3]
    (611, ['connectionTime', 'disconnectTime', 'doneChargingTime'])
    """
    made = np.random.default_rng(seed)
    first = datetime(2019, 11, 1, tzinfo=ZoneInfo("America/Los_Angeles"))
    busy = np.array([7.0 if (first + timedelta(days=i)).weekday() >= 5 else 26.0 for i in range(30)])
    busy[[day - 1 for day in PEAKS]], busy[HOLIDAY - 1], busy[HOLIDAY] = 37.0, 3.0, 6.0
    counts = _rounded(busy * SESSIONS / busy.sum(), SESSIONS)
    asked = np.clip(made.lognormal(np.log(17.0), 0.75, SESSIONS), 1.0, 95.0).round(2)
    asked[SESSIONS // 2] = 104.0  # of a driver who typed it in
    users = made.integers(200, 420, SESSIONS)
    items, place = [], 0
    for day, number in enumerate(counts):
        own = asked[place : place + number]
        delivered = own * made.uniform(0.45, 0.85, number)
        delivered *= PEAK_KWH / delivered.sum() if day + 1 in PEAKS else min(1.0, 600 / max(delivered.sum(), 1e-9))
        for request, energy in zip(own, delivered, strict=True):
            start = first + timedelta(days=day, hours=float(np.clip(made.normal(9.5, 2.0), 5, 18)))
            end = start + timedelta(hours=float(made.uniform(1.5, 8)))
            items.append(_session(place, start, end, float(energy), float(request), int(users[place]), place % 9 == 0))
            place += 1
    return {"_meta": {"site": "made up"}, "_items": items}


def _rounded(shares: Floats, total: int) -> list[int]:
    """Whole numbers near the shares that add up to the total."""
    found = np.floor(shares).astype(int)
    for place in np.argsort(found - shares)[: total - int(found.sum())]:
        found[place] += 1
    return [int(x) for x in found]


def _session(
    number: int, start: datetime, end: datetime, energy: float, request: float, user: int, silent: bool
) -> dict[str, Any]:
    """One session as the service writes it; a driver who typed nothing in has no number and no inputs."""
    said: Sequence[dict[str, Any]] | None = None
    if not silent:
        said = [{"kWhRequested": request, "milesRequested": round(request * 4), "minutesAvailable": int((end - start).seconds / 60)}]
    return {
        "sessionID": f"2_39_{number}", "stationID": f"2-39-{number % 54}", "userID": None if silent else f"{user:09d}",
        "connectionTime": format_datetime(start.astimezone(UTC), usegmt=True),
        "disconnectTime": format_datetime(end.astimezone(UTC), usegmt=True),
        "doneChargingTime": format_datetime((start + (end - start) * 0.7).astimezone(UTC), usegmt=True),
        "kWhDelivered": round(energy, 3), "userInputs": said,
    }  # fmt: skip


def noise_of_bins(epsilon: Typed, bins: int) -> tuple[float, float]:
    """The mean size of the noise of one bin, and what the largest of all bins exceeds once in a hundred releases.

    >>> [tuple(round(x, 2) for x in noise_of_bins(e, 20)) for e in (0.1, 0.8)]
    [(10.0, 75.96), (1.25, 9.5)]
    """
    scale = 1 / Fraction(exact("epsilon", epsilon))
    return float(scale), float(scale) * -math.log(-math.expm1(math.log(0.99) / count("bins", bins)))
