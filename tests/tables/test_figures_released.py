"""Released numbers: noise on every declared group, records that come back, and a share of lost rows that is paid for."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables.people import REGIONS, engine_on, exact_sums, planned, question, random_rows, session_on

from tacit.accounting import Guarantee
from tacit.ledger import Budget
from tacit.noise import test_mode
from tacit.tables import Unit
from tacit.tables.figures import Exact, Released, _whole, integers, loss_note, release
from tacit.tables.plan import LOSS_PARTS, LOSS_REACH

UNIT = Unit("id", max_rows=3)


def test_every_declared_group_is_there_and_empty_ones_are_zero() -> None:
    engine = engine_on([])
    plan = planned(question("count and mean", grouped=True), UNIT, engine)
    exact = integers(engine.run(plan.statement(engine, 1)), plan)
    assert [number for number, _ in exact.groups] == list(range(len(REGIONS)))
    assert all(int(np.abs(np.asarray(row, dtype=float)).sum()) == 0 for row in exact.sums)


def test_every_group_gets_noise_of_its_own() -> None:
    engine = engine_on([])
    plan = planned(question("count", grouped=True), UNIT, engine, loss=False)
    exact = exact_sums(plan, engine)
    with test_mode(1):
        draws = np.array([release(exact, plan).sums[0] for _ in range(200)], dtype=float)
    assert draws.shape == (200, len(REGIONS))
    assert np.abs(np.corrcoef(draws.T) - np.eye(len(REGIONS))).max() < 0.35  # five deviations of a correlation of 200 pairs
    share = plan.shares[0]
    assert draws.std() == pytest.approx(share.deviation, rel=0.2)


def test_noise_is_whole_and_of_the_stated_law() -> None:
    engine = engine_on([])
    for law, spend in (("gaussian", Guarantee(rho=Fraction(1, 2))), ("laplace", Guarantee(epsilon=Fraction(1)))):
        share = planned(question("count", grouped=False), UNIT, engine, spend=spend, law=law, loss=False).shares[0]
        with test_mode(4):
            drawn = share.noise.add(np.zeros(4000, dtype=object), share.block)
        assert all(isinstance(value, int) for value in drawn.tolist())
        values = np.array(drawn, dtype=float)
        kurtosis = float((values**4).mean() / (values**2).mean() ** 2)
        assert (kurtosis < 3.6) == (law == "gaussian") and share.law == law  # 3 for Gaussian noise, 6 for Laplace
        assert share.noise.error(0.95, share.block) > share.spread


def test_records_come_back() -> None:
    engine = engine_on(random_rows(2))
    for name in ("everything", "quantiles"):
        plan = planned(question(name, grouped=True), UNIT, engine)
        with test_mode(2):
            found = release(exact_sums(plan, engine), plan)
        back = Released.from_record(json.loads(json.dumps(found.to_record())))
        assert back.groups == [tuple(group) for group in found.groups]
        for one, other in zip(found.sums, back.sums, strict=True):
            assert np.array_equal(np.asarray(one, dtype=object), np.asarray(other, dtype=object))


def test_exact_integers_are_not_released() -> None:
    assert not hasattr(Exact, "to_record")


# ---- rows lost to the caps -----------------------------------------------------------------------------------------------------------


def _told(note: str) -> tuple[float, float, float]:
    found = re.search(r"about (\d+)% \(95% interval (\d+)% to (\d+)%\)", note)
    assert found is not None, note
    return tuple(float(part) / 100 for part in found.groups())  # type: ignore[return-value]


@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(epsilon=1, delta="1e-6")], ids=["laplace", "gaussian"])
def test_the_share_of_lost_rows_is_told_under_both_laws(budget: Budget) -> None:
    """Forty thousand people of five rows each, of which two count: three in five are lost."""
    data = pa.table({"id": np.repeat(np.arange(40_000), 5)})
    session = session_on(data, Unit("id", max_rows=2), budget)
    with test_mode(2):
        answer = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    value, low, high = _told(next(note for note in answer.notes if "rows lost" in note))
    assert low <= 0.6 <= high and high - low < 0.1 and abs(value - 0.6) < 0.05
    assert any("of one person: where one has more, more are lost" in note for note in answer.notes)


def test_the_share_of_lost_rows_is_paid_for() -> None:
    """It is a measure with noise of its own and a part of the price; without it the other figures have less noise, and nothing is told."""
    for spend, law in ((Guarantee(epsilon=Fraction(1)), "laplace"), (Guarantee(rho=Fraction(1, 10)), "gaussian")):
        engine = engine_on([])
        told = planned(question("count", grouped=True), UNIT, engine, spend=spend, law=law)
        silent = planned(question("count", grouped=True), UNIT, engine, spend=spend, law=law, loss=False)
        assert told.loss is not None and silent.loss is None and len(told.shares) == len(silent.shares) + 1
        seen = told.shares[told.loss.seen]
        assert seen.part == LOSS_PARTS[law] and seen.scale > 0
        assert seen.measure.high == LOSS_REACH * UNIT.most_rows == told.loss.most
        assert told.shares[0].deviation > silent.shares[0].deviation
        assert loss_note(silent, Released([()], (np.zeros(1),)), 0.95) is None


def test_where_noise_hides_it_the_note_says_so() -> None:
    session = session_on(random_rows(1), UNIT, Budget(epsilon=1))
    with test_mode(3):
        answer = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
    note = next(note for note in answer.notes if "rows lost" in note)
    assert "not known" in note and "2.00% of the budget" in note and "loss=False" in note


def test_a_declared_cap_is_told_as_declared() -> None:
    session = session_on(random_rows(1), Unit("id", max_rows=50, capped=True))
    with test_mode(3):
        notes: Any = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).notes
    assert any("was declared" in note for note in notes)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, -2, 2**62], pa.decimal128(38, 0)),
        ([1, 2**63, -(2**90)], pa.decimal128(38, 0)),
        ([None, 5, -(2**63)], pa.decimal128(38, 0)),
        ([2**53 + 1, None], pa.int64()),
        ([2**63 - 1, -(2**63)], pa.int64()),
        ([2**64 - 1, 0], pa.uint64()),
        ([-1, -(2**63), 2**63 - 1], pa.decimal128(38, 0)),
        ([2**63, 1], pa.decimal128(38, 0)),
        ([-(2**63) - 1, 1], pa.decimal128(38, 0)),
        ([], pa.int64()),
        ([7, None], pa.float64()),
    ],
    ids=str,
)
def test_an_engine_s_sums_are_read_exactly(values: list[Any], kind: pa.DataType) -> None:
    """Also where they are wider than 64 bits; what is missing is 0."""
    exact = [value or 0 for value in values]
    assert _whole(pa.chunked_array([pa.array(values, kind)], kind)).tolist() == exact
    twice = pa.chunked_array([pa.array([*values, *values], kind).slice(len(values)), pa.array(values[1:], kind)], kind)
    assert _whole(twice).tolist() == [*exact, *exact[1:]]


@given(st.lists(st.integers(-(10**37), 10**37)))
def test_sums_of_38_digits_are_read_from_memory(values: list[int]) -> None:
    """The oracle: pyarrow's own reading."""
    column = pa.chunked_array([pa.array(values, pa.decimal128(38, 0))])
    assert _whole(column).tolist() == [int(value) for value in column.to_pylist()] == values
