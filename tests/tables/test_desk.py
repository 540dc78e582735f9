"""The desk: prices and plans in words, known before anything is spent and never too low; and what is remembered between questions."""

from __future__ import annotations

import datetime
import gc
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables.people import REGIONS, engine_on, planned, question, random_rows, session_on

from tacit.accounting import Guarantee, account
from tacit.ledger import Budget
from tacit.noise import test_mode
from tacit.tables import TableError, Unit
from tacit.tables.desk import FINE, LONGEST, Recall, explained, frozen, price_for_accuracy, priced
from tacit.tables.figures import expected, loss_told
from tacit.tables.lines import arranged
from tacit.tables.plan import Plan
from tacit.tables.relation import Schema

UNIT = Unit("id", max_rows=3)
COUNT = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


def at(epsilon: Fraction, **settings: Any) -> Plan:
    return planned(question("count", grouped=True), UNIT, engine_on([]), spend=Guarantee(epsilon=epsilon, delta=1e-6), **settings)


def test_a_price_is_what_is_paid() -> None:
    session = session_on(random_rows(1), UNIT, Budget(epsilon=10, delta="1e-5"))
    told = session.price(COUNT, epsilon=1, keys={"region": REGIONS})
    assert session.left() == {"epsilon": 10, "delta": Fraction(1, 10**5)}
    with test_mode(1):
        answer = session.sql(COUNT, epsilon=1, keys={"region": REGIONS})
    assert told.event == answer.event and told.epsilon == answer.cost.upper
    assert float(10 - session.left()["epsilon"]) <= 1


def test_the_error_of_a_price_is_half_the_interval_to_come() -> None:
    plan = at(Fraction(1))
    told = priced(plan, 500, 0.95)
    session = session_on(random_rows(1), UNIT)
    with test_mode(1):
        found = session.ask(question("count", grouped=True), epsilon=1, delta="1e-6", keys={"region": REGIONS}).figures["n"]
    assert told.errors["n"] == pytest.approx(float(found.high[0] - found.low[0]) / 2, rel=1e-6)
    assert "with 95% confidence in a group of 500 rows: n within" in str(told)


@pytest.mark.parametrize("within", [2, 20, 500])
def test_an_accuracy_has_the_least_price_that_reaches_it(within: int) -> None:
    plan = price_for_accuracy(at, {"n": within}, lambda plan: expected(plan, 1000, 0.95))
    assert expected(plan, 1000, 0.95)["n"] <= within
    assert plan.spend.epsilon is not None
    less = at(plan.spend.epsilon * (1 - 2 * FINE))
    assert expected(less, 1000, 0.95)["n"] > within
    assert account(plan.event).epsilon(1e-6).upper <= plan.spend.epsilon


@pytest.mark.parametrize(
    ("wanted", "said"),
    [({}, "names figures"), ({"m": 5}, "no figure of the question"), ({"n": 0}, "greater than 0"), ({"n": "1e-9"}, "costs more")],
)
def test_accuracies_that_mean_nothing_are_refused(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(TableError, match=said):
        price_for_accuracy(at, wanted, lambda plan: expected(plan, 1000, 0.95))


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (Unit("id", max_rows=3), "at most 3 rows of one unit in 3 groups are kept"),
        (Unit("id", max_groups=2, rows_per_group=4), "at most 8 rows of one unit in 2 groups are kept"),
        (Unit("id", max_rows=3, capped=True), "declared to hold already; one unit has at most 3 rows"),
        (Unit.row(), "each is its own unit"),
        (Unit.node(ends=("age", "cost"), max_rows=7, capped=True), "one node touches at most 7 rows"),
    ],
    ids=["rows", "groups", "declared", "row", "node"],
)
def test_the_plan_in_words(unit: Unit, said: str) -> None:
    engine = engine_on([])
    plan = planned(question("count and mean", grouped=True), unit, engine)
    text = explained(plan, "SELECT 1", 1000, 0.95)
    assert said in text and text.endswith("statement:\nSELECT 1")
    assert f"{len(REGIONS)} declared groups" in text and "a row adds at most 1;" in text
    for share in plan.shares:
        assert share.measure.name in text


def test_steps_of_a_relation_are_told() -> None:
    session = session_on(random_rows(1), UNIT)
    text = session.explain("SELECT COUNT(*) AS n FROM (SELECT id, COUNT(*) AS k FROM visits GROUP BY id) t", epsilon=1)
    assert "aggregated by person: one row each" in text and "at most 1 rows of one unit" in text


def test_private_keys_are_explained() -> None:
    session = session_on(random_rows(1), UNIT)
    assert "an even chance with" in session.explain(COUNT, epsilon=1)


# --- memory: what is remembered is found by exactly the same declarations, and by no others

#: Pairs that Python takes for equal, and a plan does not.
ALIKE = [(1, True), (0, False), (1, 1.0), (0.0, -0.0), (1, Fraction(1)), (1, Decimal(1)), ("1", b"1"), ([1], (1,)), ({"a": 1}, [("a", 1)])]
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.fractions()
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@pytest.mark.parametrize(("one", "other"), ALIKE, ids=str)
def test_what_looks_alike_is_told_apart(one: Any, other: Any) -> None:
    assert frozen(one) != frozen(other)
    assert frozen([one]) != frozen([other]) and frozen({"k": one}) != frozen({"k": other})


@given(NESTED, NESTED)
def test_equal_where_the_two_are_written_alike(one: Any, other: Any) -> None:
    assert frozen(one) is not None
    assert (frozen(one) == frozen(other)) == (repr(one) == repr(other))


UNKNOWN = [object(), np.arange(3), np.float64(1), {1, 2}, [object()], list(range(LONGEST + 1)), range(10**9)]


@pytest.mark.parametrize("value", UNKNOWN, ids=["object", "array", "scalar", "set", "inside", "long", "range"])
def test_what_is_not_known_is_not_remembered(value: Any) -> None:
    assert frozen(value) is None


def test_a_date_is_no_instant() -> None:
    assert frozen(datetime.date(2026, 1, 1)) != frozen(datetime.datetime(2026, 1, 1))


def test_the_oldest_is_forgotten_and_failures_are_not_kept() -> None:
    memory, made = Recall(most=2), list[str]()

    def make(name: str) -> str:
        made.append(name)
        if name == "bad":
            raise ValueError
        return name

    for name in ("a", "b", "a", "c", "a", "b"):
        assert memory.get(name, lambda name=name: make(name)) == name  # type: ignore[misc]
    assert made == ["a", "b", "c", "b"]
    for _ in range(2):
        with pytest.raises(ValueError):
            memory.get("bad", lambda: make("bad"))
    assert [memory.get(None, lambda: make("n")) for _ in range(2)] == ["n", "n"] and made.count("n") == 2


def test_a_question_leaves_little_for_the_collector_of_garbage() -> None:
    """Some 3,200 objects a question were in rings before statements lost their links, and as many more once they were forgotten."""
    session = session_on(random_rows(3), UNIT)

    def ask(above: float) -> None:
        text = f"SELECT region, COUNT(*) AS n, AVG(age) AS m FROM visits WHERE age > {above} GROUP BY region"
        session.sql(text, epsilon=1, bounds={"age": (0, 100)}, keys={"region": REGIONS})

    for turn in range(4):
        ask(turn)
    gc.collect()
    gc.disable()
    try:
        for turn in range(5):
            ask(turn + 0.5)
        left = gc.collect() / 5
    finally:
        gc.enable()
    assert left < 2200


def test_what_columns_declare_is_looked_up_once_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = session_on(random_rows(2), UNIT).desk
    asked = desk.question("SELECT region, SUM(age) AS age FROM visits GROUP BY region")
    looked: list[str] = []
    own = Schema.bounds_of
    monkeypatch.setattr(Schema, "bounds_of", lambda *given: looked.append("bounds") or own(*given))
    terms: dict[str, Any] = {"bounds": {"age": (0, 100)}, "keys": {"region": REGIONS}}
    plans = [desk.plan(asked, Guarantee(epsilon=Fraction(1, n)), **terms) for n in (1, 2, 3)]
    assert looked == ["bounds"] and len({plan.split.law for plan in plans}) == 1
    wider = desk.plan(asked, Guarantee(epsilon=1), **{**terms, "bounds": {"age": (0, 200)}})
    assert len(looked) == 2 and wider.shares[0].granule > plans[0].shares[0].granule


def test_a_question_shown_as_released_is_arranged_to_itself() -> None:
    """The short way and the one by sub-totals, computed columns and order give the same figures, bias and lines."""
    desk = session_on(random_rows(3), UNIT).desk
    asked = desk.question("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region")
    plan = desk.plan(asked, Guarantee(epsilon=1), bounds={"age": (0, 100)}, keys={"region": REGIONS})
    with test_mode(5):
        released, _ = desk.draw(plan)
    answer = desk.answer(plan, released, delta=Fraction(0), private=False)
    missing, _ = loss_told(plan, released, desk.confidence, None)
    same, keys, shown, places = arranged(plan, released, missing, desk.confidence)
    assert same is released and places is None and keys == answer.keys and list(shown) == list(answer.figures)
    for name, figure in shown.items():
        own = answer.figures[name]
        assert all((getattr(figure, end) == getattr(own, end)).all() for end in ("value", "low", "high"))
        assert (figure.bias is None) == (own.bias is None)
        assert figure.bias is None or own.bias is None or (figure.bias.high == own.bias.high).all()
