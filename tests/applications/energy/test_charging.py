"""Charging sessions: ACN-Data in, histograms and the busiest day out."""

from __future__ import annotations

import json
import math
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Exponential, Laplace
from tacit.applications.energy import (
    EnergyError,
    busiest_day,
    made_up_month,
    noise_of_bins,
    plan_busiest_day,
    plan_histogram,
    read_acn,
    request_histogram,
)
from tacit.errors import ParameterError
from tacit.ledger import Budget, Ledger
from tacit.tables import Desk, Session, Source, TableError, Unit

MONTH = read_acn(made_up_month(), zone="America/Los_Angeles")


def session(table: pa.Table, unit: Unit, path: Path, epsilon: int = 100) -> Session:
    book = Ledger.open(f"sqlite:///{path / 'tacit.db'}")
    return Session(table, unit=unit, budget=Budget(epsilon=epsilon), name="charging", ledger=book)


def desk(table: pa.Table = MONTH, unit: Unit | None = None) -> Desk:
    return Desk.of(Source.of(table, name="charging"), unit or Unit.row())


# --- the file -------------------------------------------------------------------------------------------------------


def test_the_made_up_month_has_the_books_shape() -> None:
    """Spec 05, 10.3.2: 611 sessions, more than half of the requests below 20 kWh, most below 50, one above 100; two peaks of 771 kWh."""
    asked = np.array([x for x in MONTH.column("kwh_requested").to_pylist() if x is not None])
    assert MONTH.num_rows == 611 and asked.max() > 100
    assert (asked < 20).mean() > 0.5 and (asked < 50).mean() > 0.85
    days: dict[str, float] = {}
    for day, energy in zip(MONTH.column("day").to_pylist(), MONTH.column("kwh_delivered").to_pylist(), strict=True):
        days[day.isoformat()] = days.get(day.isoformat(), 0.0) + energy
    best = sorted(days, key=days.__getitem__)[-2:]
    assert sorted(best) == ["2019-11-08", "2019-11-12"] and all(abs(days[day] - 771) < 0.01 for day in best)
    assert days["2019-11-28"] == min(days.values()) and len(days) == 30


def test_a_file_reads_like_its_text(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps(made_up_month()), encoding="utf-8")
    assert read_acn(path, zone="America/Los_Angeles").equals(MONTH)
    assert read_acn(path.read_text(encoding="utf-8"), zone="America/Los_Angeles").equals(MONTH)
    assert read_acn(json.dumps(made_up_month()["_items"]), zone="America/Los_Angeles").equals(MONTH)


def test_the_last_input_counts_and_days_are_local() -> None:
    item = {
        "connectionTime": "Sat, 02 Nov 2019 05:00:00 GMT", "kWhDelivered": 7, "userID": "000000022",
        "userInputs": [{"kWhRequested": 1}, {"kWhRequested": 12.5, "minutesAvailable": 30}],
    }  # fmt: skip
    row = read_acn({"_items": [item]}, zone="America/Los_Angeles").to_pylist()[0]
    assert row["kwh_requested"] == 12.5 and row["minutes_available"] == 30 and row["day"].isoformat() == "2019-11-01"
    assert read_acn({"_items": [item]}).to_pylist()[0]["day"].isoformat() == "2019-11-02"


def test_sessions_without_a_driver_are_their_own_or_left_out() -> None:
    items = [{"userID": None}, {"userID": "7"}, {}, {"userID": "session 1"}]
    own = read_acn({"_items": items}).column("user_id").to_pylist()
    assert own == ["session 1", "7", "session 3", "session 4"] and len(set(own)) == 4  # none can be taken for another's
    assert read_acn({"_items": items}, without_user="drop").column("user_id").to_pylist() == ["7"]
    with pytest.raises(EnergyError, match="without_user"):
        read_acn({"_items": []}, without_user="keep")


@pytest.mark.parametrize(
    ("text", "line"),
    [("{\n\n oops 12.5", 3), ('{"_items": 12.5}', 1), ('{"_items": [\n{},\n{}\n,\n 12.5]}', 5), ("[{},\n[12.5]]", 2), ("[" * 100_000, 1)],
)
def test_what_is_no_acn_data_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(EnergyError) as caught:
        read_acn(text)
    assert caught.value.code == "case-unreadable" and caught.value.facts["line"] == line
    assert "12.5" not in str(caught.value)


def test_a_zone_that_is_none_is_refused() -> None:
    for zone in ("Mars/Olympus", "", "../etc/passwd"):
        with pytest.raises(EnergyError, match="time zone"):
            read_acn({"_items": []}, zone=zone)


value = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9), lambda x: st.lists(x, max_size=2), max_leaves=4
)
NAMES = ["connectionTime", "disconnectTime", "doneChargingTime", "kWhDelivered", "sessionID", "stationID", "userID", "userInputs"]
fields = st.sampled_from(NAMES)


@given(st.lists(st.dictionaries(fields, value, max_size=8), max_size=4))
def test_no_value_inside_is_refused(items: list[dict[str, Any]]) -> None:
    found = read_acn({"_items": items})
    assert found.num_rows == len(items) and found.schema.equals(MONTH.schema)


# --- histograms -----------------------------------------------------------------------------------------------------


def test_figure_10_1s_noise() -> None:
    """Spec 05: mean noise of a bin 10 / 5 / 2.5 / 1.25, and 76 / 38 / 19 / 9.5 for the largest of 20 bins at 99%."""
    found = [noise_of_bins(e, 20) for e in (Fraction(1, 10), Fraction(1, 5), Fraction(2, 5), Fraction(4, 5))]
    assert [mean for mean, _ in found] == [10, 5, 2.5, 1.25]
    assert [round(largest, 1) for _, largest in found] == [76.0, 38.0, 19.0, 9.5]


def test_counts_are_those_of_the_table_plus_noise(tmp_path: Path) -> None:
    asked = [x for x in MONTH.column("kwh_requested").to_pylist() if x is not None]
    truth = np.histogram(asked, bins=range(0, 101, 10))[0]
    found = request_histogram(session(MONTH, Unit.row(), tmp_path), bins=range(0, 101, 10), epsilon=20)
    assert np.abs(np.array(found.values) - truth).max() <= 2  # noise of scale 1/20: beyond 2 with probability 1e-12
    assert found.event == Laplace(Fraction(1, 20)) and found.within(0.95) < 0.8


def test_a_driver_costs_as_many_counts_as_are_capped() -> None:
    drivers = plan_histogram(desk(unit=Unit("user_id", max_rows=5)), range(0, 101, 10), epsilon=1)
    replaced = plan_histogram(desk(unit=Unit("user_id", max_rows=5, adjacency="replace-one")), range(0, 101, 10), epsilon=1)
    assert (drivers.noise.spread(), replaced.noise.spread()) == (5.0, 10.0)  # E13: replacing moves two counts
    assert drivers.event == Laplace(Fraction(1))


def test_bins_must_rise() -> None:
    with pytest.raises(TableError, match="rising order"):
        plan_histogram(desk(), [0, 20, 10], epsilon=1)


# --- the busiest day ------------------------------------------------------------------------------------------------


def chances(table: pa.Table, epsilon: Fraction, clamp: int = 100) -> list[float]:
    """The probability of every day, from the plan's own mechanism and the sums of the table."""
    plan = plan_busiest_day(desk(table), "2019-11-01", days=30, clamp=clamp, epsilon=epsilon)
    counts = plan.cut.counts([("day", "kwh_delivered")])[("day", "kwh_delivered")]
    scores = counts[:-1, :-1] @ plan.weights
    rate = float(epsilon) / (plan.distance * 1.0)
    weights = np.exp(rate * (scores - scores.max()))
    return list(weights / weights.sum())


def test_the_day_is_chosen_by_clamped_energy() -> None:
    """Spec 05: 771 against 700 kWh at epsilon 1 and a clamp of 100 differ by exp(.71) = 2.034."""
    sessions = [("2019-11-08", 100.0)] * 7 + [("2019-11-08", 71.0)] + [("2019-11-09", 100.0)] * 7
    rows = {"day": [date.fromisoformat(day) for day, _ in sessions], "kwh_delivered": [x for _, x in sessions]}
    found = chances(pa.table(rows), Fraction(1))
    assert found[7] / found[8] == pytest.approx(math.exp(0.71), rel=1e-9)
    assert found[7] / found[8] == pytest.approx(2.034, abs=5e-4)


def test_the_clamp_is_two_sided_and_values_beyond_it_count_as_it() -> None:
    """A session of -1e308, NaN or 1e308 kWh moves no day by more than the clamp, and none below 0 takes anything away."""
    days = [date(2019, 11, 8)] * 6
    rows = pa.table({"day": days, "kwh_delivered": [1e308, -1e308, math.nan, math.inf, -math.inf, None]})
    plan = plan_busiest_day(desk(rows), "2019-11-01", days=30, clamp=100, epsilon=1)
    counts = plan.cut.counts([("day", "kwh_delivered")])[("day", "kwh_delivered")]
    assert (counts[:-1, :-1] @ plan.weights).tolist() == [0] * 7 + [200] + [0] * 22  # in steps of a kWh: two at the clamp


def test_the_choice_prefers_busy_days(tmp_path: Path) -> None:
    asked = session(MONTH, Unit.row(), tmp_path, epsilon=2000)
    found = busiest_day(asked, "2019-11-01", days=30, clamp=100, epsilon=1000)
    assert found.day in ("2019-11-08", "2019-11-12") and found.within < 1
    assert found.event == Exponential(Fraction(1000), monotone=True)


def test_price_by_unit_and_relation() -> None:
    """E13: one way under add-remove; the factor 2 where a unit is replaced. The price is epsilon either way."""
    for unit, rows, monotone in (
        (Unit.row(), 1, True), (Unit("user_id", max_rows=4), 4, True), (Unit("user_id", max_rows=4, adjacency="replace-one"), 4, False),
    ):  # fmt: skip
        plan = plan_busiest_day(desk(unit=unit), "2019-11-01", days=30, clamp=100, epsilon=1)
        assert plan.distance == 100 * rows
        assert plan.event == Exponential(Fraction(1), monotone=monotone, adjacency=unit.adjacency)


@pytest.mark.parametrize(
    "wrong", [{"clamp": 0}, {"clamp": "1e400"}, {"clamp": -1}, {"clamp": "1e-400"}, {"epsilon": 0}, {"days": 0}, {"start": "soon"}]
)
def test_bad_requests_are_refused_before_anything_is_paid(tmp_path: Path, wrong: dict[str, Any]) -> None:
    asked = session(MONTH, Unit.row(), tmp_path)
    before = asked.left()
    with pytest.raises((EnergyError, ParameterError, TableError)):
        busiest_day(asked, **{"start": "2019-11-01", "days": 30, "clamp": 100, "epsilon": 1, **wrong})
    assert asked.left() == before
    with pytest.raises(TypeError):  # no clamp, no guarantee: it has no default
        busiest_day(asked, "2019-11-01", days=30, epsilon=1)  # type: ignore[call-arg]
