"""Counts over time: stretches against plain counts, streams against the price of what one unit can move, coverage of both."""

from __future__ import annotations

import contextlib
import datetime
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit.accounting import Adjacency, Guarantee, account
from tacit.calculus import L1, Integers, Space, Vectors
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.mechanisms import BinaryTree, square_root
from tacit.mechanisms.continual_counting import PRECISION, coefficients
from tacit.noise import test_mode as seeded
from tacit.tables import Cut, EngineError, Periods, Refused, Session, TableError, Unit
from tacit.workloads import series, stream
from tacit.workloads.series import _cheapest

START = datetime.date(2026, 1, 1)
DAYS = np.random.default_rng(1).integers(-3, 40, size=3000)
SEXES = np.random.default_rng(2).choice(["f", "m"], size=3000)


def visits(days: np.ndarray = DAYS, when: str = "date") -> pa.Table:
    dates = [START + datetime.timedelta(days=int(d)) for d in days]
    moments = [datetime.datetime.combine(d, datetime.time(23, 59, 59)) for d in dates]
    values = pa.array(dates if when == "date" else moments, pa.date32() if when == "date" else pa.timestamp("us"))
    return pa.table({"id": np.arange(len(days)), "day": values, "sex": SEXES[: len(days)]})


def opened(folder: Path, table: pa.Table, unit: Unit | None = None, budget: Budget | None = None) -> Session:
    book = Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
    own = unit or Unit("id", max_rows=1, capped=True)
    return Session(table, unit=own, budget=budget or Budget(rho=10), name="visits", ledger=book, columns={"sex": ["f", "m"]})


# --- periods ---


def test_periods_are_those_of_the_calendar() -> None:
    assert Periods("2024-02-28", "day", 3).names == ("2024-02-28", "2024-02-29", "2024-03-01")
    assert Periods("2026-01-01", "week", 2).edges[-1] == datetime.date(2026, 1, 15)
    assert Periods("2025-11-01", "month", 3).names == ("2025-11", "2025-12", "2026-01")
    assert Periods("2025-10-01", "quarter", 2).edges[-1] == datetime.date(2026, 4, 1)
    assert Periods(START, "year", 2).names == ("2026", "2027")


@pytest.mark.parametrize(
    "wrong", [("2026-13-01", "day", 1), (START, "hour", 1), (START, "day", 0), (START, "day", True), ("2026-01-02", "month", 1)]
)
def test_other_periods_are_refused(wrong: Any) -> None:
    with pytest.raises(TableError):
        Periods(*wrong)
    with pytest.raises(TableError, match="calendar"):
        Periods(datetime.date(9999, 1, 1), "year", 2)


@pytest.mark.parametrize("when", ["date", "timestamp"])
def test_rows_lie_in_their_periods(tmp_path: Path, when: str) -> None:
    planned = series(opened(tmp_path, visits(when=when)), "day", Periods(START, "week", 4), by=["sex"], rho=1)
    counts = planned.inner.cut.counts([("day",), ("sex", "day")])
    expected = [int(((7 * w <= DAYS) & (7 * w + 7 > DAYS)).sum()) for w in range(4)]
    assert counts[("day",)].tolist() == expected
    assert counts[("sex", "day")][0].tolist() == [int(((w == DAYS // 7) & (SEXES == "f")).sum()) for w in range(4)]


# --- at once ---


def test_stretches_cover_the_truth(tmp_path: Path) -> None:
    """55 stretches and 10 running totals of 40 seeded draws: at least 92 % inside 95 % intervals (draws share noise)."""
    periods = Periods(START, "day", 10)
    session = opened(tmp_path, visits())
    inside = total = 0
    with seeded(3):
        for _ in range(40):
            found = series(session, "day", periods, rho="0.01").run()
            for first in range(10):
                for last in range(first, 10):
                    truth = int(((first <= DAYS) & (last >= DAYS)).sum())
                    value, low, high = found.between(periods.names[first], periods.names[last])
                    inside += low <= truth <= high
                    total += 1
                    assert low <= value <= high
    assert 0.92 < inside / total < 0.98
    assert [name for name, *_ in found.running()] == list(periods.names)
    for wrong in (("2026-01-05", "2026-01-01"), ("2025-01-01", "2026-01-01")):
        with pytest.raises(ParameterError):
            found.between(*wrong)


def test_running_totals_alone_and_by_group(tmp_path: Path) -> None:
    session = opened(tmp_path, visits())
    periods = Periods(START, "week", 4)
    found = series(session, "day", periods, by=["sex"], asked="prefix", rho=1).run()
    value, low, high = found.between("2026-01-01", "2026-01-22", sex="f")
    truth = int(((DAYS >= 0) & (DAYS < 28) & (SEXES == "f")).sum())
    assert low <= value <= high and abs(value - truth) < 30
    with pytest.raises(ParameterError, match="running totals"):
        found.between("2026-01-08", "2026-01-22", sex="f")
    with pytest.raises(ParameterError, match="name a cell of sex"):
        found.between("2026-01-01", "2026-01-22")
    picture = tmp_path / "totals.png"
    found.picture(picture, sex="f")
    assert picture.stat().st_size > 5000


# --- one period after the other ---


def stream_matrix(mechanism: Any, horizon: int) -> tuple[np.ndarray, float]:
    """What is measured of the stream, as a matrix, and the scale of its noise: from a count in one period at a time."""
    if isinstance(mechanism, BinaryTree):
        rows = np.zeros((horizon, horizon))
        for t in range(1, horizon + 1):
            size = t & -t
            rows[t - 1, t - size : t] = 1
        return rows, float(mechanism.scale)
    used = np.array(coefficients(horizon)) / PRECISION
    place = np.subtract.outer(np.arange(horizon), np.arange(horizon))
    return np.where(place >= 0, used[np.maximum(place, 0)], 0.0), float(mechanism.sigma)


@pytest.mark.parametrize("spend", [Guarantee(epsilon=1), Guarantee(rho="0.1"), Guarantee(epsilon=1, delta="1e-6"), Guarantee(mu=1)])
@pytest.mark.parametrize("moved", [1, 3])
def test_a_unit_moves_a_stream_no_further_than_its_price(spend: Guarantee, moved: int) -> None:
    """Rows of one unit spread over periods in any way: the distance of what is measured, against the event."""
    horizon = 13
    mechanism, counter, event = _cheapest(spend, horizon, moved, Adjacency.ADD_REMOVE, 0.95)
    assert spend.admits(event, Adjacency.ADD_REMOVE) and counter.horizon == horizon
    rows, scale = stream_matrix(mechanism, horizon)
    random = np.random.default_rng(5)
    laplace = isinstance(mechanism, BinaryTree) and mechanism.kind == "laplace"
    worst = 0.0
    for _ in range(300):
        change = np.bincount(random.integers(0, horizon, size=moved), minlength=horizon)
        shift = rows @ change / scale
        worst = max(worst, float(np.abs(shift).sum() if laplace else np.sqrt((shift**2).sum())))
    if laplace:
        assert worst <= account(event).epsilon(0).upper * (1 + 1e-9)
    else:
        assert worst**2 / 2 <= account(event).rho().upper * (1 + 1e-9)
        # a mutant that forgets the person's several rows has a third of the noise
        assert worst**2 / 2 > 0.4 * account(event).rho().upper / moved


def test_a_stream_publishes_running_totals(tmp_path: Path) -> None:
    session = opened(tmp_path, visits())
    periods = Periods(START, "day", 12)
    found = stream(session, "day", periods, rho="0.5")
    assert float(session.left()["rho"]) == pytest.approx(9.5, abs=1e-6)
    for t in range(12):
        published = found.advance()
        truth = int(((DAYS >= 0) & (t >= DAYS)).sum())
        assert abs(published.value - truth) < 8 * found.width and published.low < published.value < published.high
    assert float(session.left()["rho"]) == pytest.approx(9.5, abs=1e-6) and found.private
    with pytest.raises(ParameterError, match="all 12 periods"):
        found.advance()
    found.picture(tmp_path / "stream.png")
    assert "12 of 12" in repr(found)


@pytest.mark.parametrize("spend", [{"epsilon": 1}, {"rho": 1}])
def test_intervals_of_streams_hold(tmp_path: Path, spend: dict[str, int]) -> None:
    """50 streams of 6 totals: at most 9 % outside intervals that promise 5 % (300 totals, correlated within a stream)."""
    session = opened(tmp_path, visits(), budget=Budget(**dict.fromkeys(spend, 60)))  # type: ignore[arg-type]
    outside = 0
    with seeded(2):
        for _ in range(50):
            found = stream(session, "day", Periods(START, "day", 6), **spend)  # type: ignore[arg-type]
            for t in range(6):
                published = found.advance()
                outside += not published.low <= int(((DAYS >= 0) & (t >= DAYS)).sum()) <= published.high
    assert outside <= 27 and not found.private


def test_streams_that_could_not_be_capped_are_refused(tmp_path: Path) -> None:
    session = opened(tmp_path, visits(), unit=Unit("id", max_rows=2))
    with pytest.raises(Refused, match="capped"):
        stream(session, "day", Periods(START, "day", 3), rho=1)
    assert session.left()["rho"] == 10


def test_what_a_stream_cannot_do_is_refused_before_payment(tmp_path: Path) -> None:
    session = opened(tmp_path, visits())
    for column, error in (("sex", Refused), ("nothing", TableError)):
        with pytest.raises(error):
            stream(session, column, Periods(START, "day", 3), rho=1)
    assert session.left()["rho"] == 10
    with pytest.raises(BudgetExceeded):
        stream(session, "day", Periods(START, "day", 3), rho=11)


def test_a_failure_ends_the_stream_and_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened(tmp_path, visits())
    found = stream(session, "day", Periods(START, "day", 3), rho=1)

    def fails(*_: Any) -> Any:
        raise ValueError("patient 17")

    monkeypatch.setattr(type(found._cut), "counts", fails)
    with pytest.raises(EngineError) as caught:
        found.advance()
    assert "17" not in str(caught.value) and caught.value.__cause__ is None
    assert float(session.left()["rho"]) == pytest.approx(9, abs=1e-6)


def test_replaced_units_move_twice_as_far() -> None:
    one = _cheapest(Guarantee(rho=1), 8, 2, Adjacency.REPLACE_ONE, 0.95)
    other = _cheapest(Guarantee(rho=1), 8, 1, Adjacency.ADD_REMOVE, 0.95)
    assert Fraction(one[0].sigma) == pytest.approx(2 * Fraction(other[0].sigma), rel=1e-9)
    space = Space(Vectors(Integers(), 8), L1())
    assert square_root(8, 1).bind(space).event(2).noise_multiplier == square_root(8, 1).bind(space).event(1).noise_multiplier / 2


def test_two_threads_publish_two_periods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both used to count the first period: its rows moved the totals by twice what was paid for."""
    session = opened(tmp_path, visits(np.repeat([0, 7, 14], [5, 60, 700])))
    weeks = stream(session, "day", Periods(START, "week", 3), rho=1)
    together, counts, pushed = threading.Barrier(2), Cut.counts, []
    push = weeks._counter.push

    def slowly(self: Cut, tables: Any) -> Any:
        found = counts(self, tables)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.3)
        return found

    monkeypatch.setattr(Cut, "counts", slowly)
    monkeypatch.setattr(weeks._counter, "push", lambda item: (pushed.append(item), push(item))[1])
    threads = [threading.Thread(target=weeks.advance) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pushed == [5, 60]
    assert [one.period for one in weeks.published] == ["2026-01-01", "2026-01-08"]
