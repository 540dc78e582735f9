"""Attacks on questions about tables: one unit moves the integer sums no further than its price says, whatever its rows are.

Neighbours are made by brute force, run through the real statement on DuckDB, PostgreSQL and Spark, and measured in the noise of the plan:
more than 1 is a leak. Each defence is also taken away, and the same check must then find the leak. Spark takes about a second for a
statement, so it is asked the questions that hold the others.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables import people
from tests.tables.engines.places import Place
from tests.tables.people import AGGREGATES, REGIONS, Row, engine_on, exact_sums, hostile_rows, loss_between, planned, question, random_rows

from tacit.accounting import Adjacency, Guarantee
from tacit.ledger import Ledger
from tacit.noise import test_mode
from tacit.tables import Aggregate, EngineError, Question, Refused, TableError, Unit
from tacit.tables.figures import Exact, release
from tacit.tables.plan import Plan, Settings, make

UNITS = {
    "rows": Unit("id", max_rows=4),
    "groups": Unit("id", max_groups=2, rows_per_group=2),
    "both": Unit("id", max_rows=5, max_groups=3, rows_per_group=2),
}
#: Nothing is capped, so nothing is packed: packing clamps a second time, and would hide a missing clamp.
DECLARED = Unit("id", max_rows=1, capped=True)
SPENDS = {"gaussian": Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6)), "laplace": Guarantee(epsilon=Fraction(1))}


def exchanged(unit: Unit) -> Unit:
    return replace(unit, adjacency=Adjacency.REPLACE_ONE)


def worst(place: Place, name: str, unit: Unit, grouped: bool, law: str, seed: int) -> float:
    """The greatest move over hostile neighbours of a random table, in the plan's noise."""
    rows, hostile = random_rows(seed), hostile_rows(seed, 99)
    place.put(rows)
    plan = planned(question(name, grouped=grouped), unit, place.steady, spend=SPENDS[law], law=law)
    start, others = rows, [[*rows, *hostile], [row for row in rows if row[0] != 0]]  # a person comes; the one with most rows leaves
    if unit.adjacency is Adjacency.REPLACE_ONE:
        start, others = [*rows, *hostile], [[*rows, *hostile_rows(seed + 1000, 98)]]  # a person becomes another one
    base = sums_on(plan, place, start)
    return max(loss_between(plan, base, sums_on(plan, place, other)) for other in others)


def sums_on(plan: Plan, place: Place, rows: list[Row]) -> Exact:
    place.put(rows)
    return exact_sums(plan, place.steady)


#: Every aggregate, with and without groups, on DuckDB by the two laws in turn; on PostgreSQL one of each; on Spark those that hold the
#: others. `LATER` is the rest: DuckDB by the other law.
TURNS = [("duckdb", name, grouped, law) for name in AGGREGATES for grouped in (True, False) for law in SPENDS]
LATER = [case for index, case in enumerate(TURNS) if (index + index // 2 + index // 4) % 2]
MOVES = [
    *(case for case in TURNS if case not in LATER),
    *(("postgres", name, index % 3 > 0, list(SPENDS)[index % 2]) for index, name in enumerate(AGGREGATES)),
    *(("spark", name, grouped, law) for name, grouped, law in (("everything", True, "gaussian"), ("quantiles", True, "laplace"))),
]


@pytest.mark.parametrize(
    ("place", "name", "grouped", "law"),
    [*MOVES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LATER)],
    indirect=["place"],
    ids=[f"{engine}-{name}-{'grouped' if grouped else 'whole'}-{law}" for engine, name, grouped, law in [*MOVES, *LATER]],
)
def test_no_unit_moves_the_sums_further_than_its_price(place: Place, name: str, grouped: bool, law: str) -> None:
    for seed, unit in list(enumerate(UNITS.values()))[0 if grouped else 2 :: 2]:
        if place.slow and seed:
            continue
        assert worst(place, name, unit if (seed + grouped) % 2 else exchanged(unit), grouped, law, seed) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("law", SPENDS)
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "whole"])
@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("place", ["postgres", "spark"], indirect=True)
def test_no_unit_moves_the_sums_on_other_engines(place: Place, name: str, grouped: bool, law: str) -> None:
    """All that DuckDB is asked, of the others too."""
    for seed, unit in enumerate(UNITS.values()):
        assert worst(place, name, unit if (seed + grouped) % 2 else exchanged(unit), grouped, law, seed) <= 1


#: The two laws in turn; the engine has the other one in `make test-slow`.
SINGLE = [
    (engine, name, law)
    for engine in ("duckdb", "postgres")
    for name in ("count", "count and mean", "variance", "pair", "quantiles")
    for law in SPENDS
]
SINGLE_LATER = [case for index, case in enumerate(SINGLE) if (index + index // 2) % 2]
SINGLE_NOW = [*(case for case in SINGLE if case not in SINGLE_LATER), ("spark", "count and mean", "gaussian")]


@pytest.mark.parametrize(
    ("place", "name", "law"),
    [*SINGLE_NOW, *(pytest.param(*case, marks=pytest.mark.slow) for case in SINGLE_LATER)],
    indirect=["place"],
    ids=["-".join(case) for case in [*SINGLE_NOW, *SINGLE_LATER]],
)
def test_a_single_row_moves_the_sums_no_further_than_its_price(place: Place, name: str, law: str) -> None:
    rows = random_rows(3)
    extras: list[Row] = [(1, "N", 1e308, -1e308), (1, "S", float("nan"), None), (1, "N", 100.0, 30.0), (1, "N", 0.0, -7.0)]
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)[place.slow :]:
        place.put(rows)
        plan = planned(question(name, grouped=True), Unit.row(adjacency), place.steady, spend=SPENDS[law], law=law)
        start = exact_sums(plan, place.steady)
        for extra in extras[: 2 if place.slow else 4]:
            other = [*rows, extra] if adjacency is Adjacency.ADD_REMOVE else [extra, *rows[1:]]
            assert loss_between(plan, start, sums_on(plan, place, other)) <= 1


def test_the_bound_is_reached(place: Place) -> None:
    """Otherwise the check above could pass for a plan that wastes noise: a full contribution costs all that is paid for."""
    unit = Unit("id", max_groups=2, rows_per_group=2)
    place.put([])
    for name in ("count", "count and mean")[place.slow :]:
        plan = planned(question(name, grouped=True), unit, place.steady, loss=False)
        full: list[Row] = [(1, region, 100.0, 0.0) for region in ("N", "S") for _ in range(2)]
        assert 0.999 < loss_between(plan, sums_on(plan, place, []), sums_on(plan, place, full)) <= 1


# ---- mutants: each defence taken away ---------------------------------------------------------------------------------------------------


def moved_by(plan_of: Any, rows: list[Row]) -> float:
    plan = plan_of(engine_on([]))
    return loss_between(plan, exact_sums(plan, engine_on([])), exact_sums(plan, engine_on(rows)))


def test_without_the_cap_the_check_fails(place: Place) -> None:
    unit = Unit("id", max_rows=4)
    many: list[Row] = [(1, "N", 50.0, 0.0)] * 100
    place.put([])
    plan = planned(question("count", grouped=True), unit, place.steady)
    mutant = replace(plan, wanted=replace(plan.wanted, unit=replace(unit, capped=True)))
    moved = [loss_between(plan, sums_on(which, place, []), sums_on(which, place, many)) for which in (plan, mutant)]
    assert moved[0] <= 1 < moved[1]


def test_without_the_clamp_the_check_fails() -> None:
    def plan_of(engine: Any, mutant: bool = True) -> Any:
        plan = planned(question("two means", grouped=False), DECLARED, engine)
        if not mutant:
            return plan

        def unclamped(node: exp.Expression) -> exp.Expression:
            return node.this.this if isinstance(node, exp.Least) else node

        measures = tuple(replace(m, integer=m.integer.transform(unclamped)) for m in plan.wanted.measures)
        return replace(plan, wanted=replace(plan.wanted, measures=measures))

    far = [(1, "N", 500.0, 900.0)]
    assert moved_by(lambda engine: plan_of(engine, False), far) <= 1 < moved_by(plan_of, far)


def test_without_the_centre_the_check_fails() -> None:
    def plan_of(engine: Any, mutant: bool = True) -> Any:
        plan = planned(question("count and mean", grouped=False), DECLARED, engine)
        if not mutant:
            return plan

        def uncentred(node: exp.Expression) -> exp.Expression:
            return node.this if isinstance(node, exp.Sub) else node

        measures = tuple(replace(m, integer=m.integer.transform(uncentred)) for m in plan.wanted.measures)
        return replace(plan, wanted=replace(plan.wanted, measures=measures))

    top = [(1, "N", 100.0, 0.0)]
    assert moved_by(lambda engine: plan_of(engine, False), top) <= 1 < moved_by(plan_of, top)


def test_an_exchange_needs_more_than_a_removal() -> None:
    """Noise for add/remove, neighbours by exchange: the check must notice."""
    unit = Unit("id", max_rows=1)
    plan = planned(question("two means", grouped=False), unit, engine_on([]), loss=False)
    one, other = exact_sums(plan, engine_on([(1, "N", 0.0, -7.0)])), exact_sums(plan, engine_on([(1, "N", 100.0, 30.0)]))
    right = planned(question("two means", grouped=False), exchanged(unit), engine_on([]), loss=False)
    assert loss_between(right, one, other) <= 1 < loss_between(plan, one, other)


# ---- keys -------------------------------------------------------------------------------------------------------------------------------


def test_empty_groups_have_noise_of_their_own(place: Place) -> None:
    """595 empty groups that all say "14" tell which groups are empty (opendp#2344)."""
    keys = [f"k{i}" for i in range(400)]
    place.put([])
    with test_mode(5):
        answer = place.session(Unit("id", max_rows=3)).ask(question("count", grouped=True), epsilon=1, keys={"region": keys})
    assert shared(answer["n"]) is False
    assert shared(np.full(400, answer["n"][0]))  # the mutant: one draw for all of them


def shared(values: Any) -> bool:
    """Whether values repeat more than independent noise of a deviation of some units would."""
    return len(np.unique(values)) < 20


def test_a_key_of_one_person_does_not_appear(place: Place) -> None:
    place.put([(i, "common", 1.0, 1.0) for i in range(500)] + [(7, "CANARY", 1.0, 1.0)])
    session = place.session(Unit("id", max_groups=2, rows_per_group=1))
    for _ in range(1 if place.slow else 5):
        answer = session.ask(question("count", grouped=True), epsilon=1)
        assert list(answer.keys["region"]) == ["common"]  # with delta 1e-6 the canary appears once in a million runs
        assert "CANARY" not in repr(answer)


def test_declared_keys_are_all_there_and_others_never(place: Place) -> None:
    """Names and order of the groups are what was declared, also when the only rows of one are gone."""
    for rows in ([row for row in random_rows(1) if row[1] != "N"], random_rows(1))[place.slow :]:
        place.put(rows)
        answer = place.session(Unit("id", max_rows=3)).ask(question("count", grouped=True), epsilon=1, keys={"region": REGIONS})
        assert list(answer.keys["region"]) == REGIONS


def test_a_sum_without_bounds_is_refused_before_any_row(place: Place) -> None:
    """Missing bounds must not mean no noise (smartnoise-sdk#317), nor bounds that are read from the rows."""
    place.put(random_rows(1))
    session = place.session(Unit("id", max_rows=3))
    before = session.left()
    with pytest.raises(Refused, match="bounds"):
        session.sql("SELECT SUM(age) AS s FROM visits", epsilon=1)
    assert session.left() == before


# ---- what is said ------------------------------------------------------------------------------------------------------------------------

CANARY = "CANARY-7f3a"


class Broken:
    """An engine that fails with the data in its words."""

    dialect = "duckdb"

    def __init__(self, inner: Any, error: Exception) -> None:
        self.inner, self.error = inner, error

    def run(self, statement: exp.Expression) -> pa.Table:
        raise self.error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("error", [ValueError(CANARY), RuntimeError(CANARY), KeyError(CANARY)], ids=["value", "runtime", "key"])
def test_a_failure_says_nothing_of_the_data_and_stays_spent(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    session = people.session_on([(1, CANARY, 1.0, 1.0)], Unit("id", max_rows=3))
    before = session.left()["epsilon"]
    people.on_engine(session, Broken(session.engine, error))
    with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
        session.ask(question("count", grouped=True), epsilon=1, keys={"region": REGIONS})
    said = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert CANARY not in said
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert session.left()["epsilon"] <= before - Fraction(99, 100)


def test_what_an_engine_says_about_a_row_is_not_handed_on(
    place: Place, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements as written, without the preparation that makes them total: the engine fails on the row, and quotes it."""
    cast = exp.cast(exp.column("region", quoted=True), "BIGINT")
    asked = Question(exp.to_table(people.TABLE), (), AGGREGATES["count"], exp.GT(this=cast, expression=exp.Literal.number(0)))
    place.put([(1, CANARY, 1.0, 1.0)])
    with pytest.raises(Exception, match=CANARY):  # what would be handed on
        place.raw(f"SELECT {cast.sql(dialect=place.usual.dialect)} FROM visits")
    session = place.session(Unit("id", max_rows=3))
    session.sql("SELECT COUNT(*) AS n FROM visits WHERE CAST(region AS BIGINT) > 0", epsilon=1)  # prepared: NULL
    before = session.left()["epsilon"]
    monkeypatch.setattr(type(place.usual), "prepare", lambda self, statement: statement)
    capfd.readouterr()
    caplog.clear()  # of what the raw statement was quoted with
    with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
        session.ask(asked, epsilon=1)
    printed = capfd.readouterr()
    said = "".join(traceback.format_exception(caught.value))
    assert CANARY not in said + caplog.text + printed.out + printed.err
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert session.left()["epsilon"] <= before - Fraction(99, 100)


def test_no_value_is_in_a_log_a_message_or_the_book(place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A canary in a key, in a number and in an owner: asked about, refused, explained and cached, it is found nowhere."""
    owner, age = 765_432_198_765, 71.625309
    place.put([(owner, CANARY, age, 1.0), *random_rows(4)])
    with caplog.at_level(logging.DEBUG):
        book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}")
        session = place.session(Unit("id", max_rows=3), ledger=book, cache=True)
        text = "SELECT region, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY region"
        answer = session.sql(text, epsilon=1, bounds=people.BOUNDS, keys={"region": REGIONS})
        said = [repr(answer), str(answer), session.explain(text, epsilon=1, bounds=people.BOUNDS, keys={"region": REGIONS})]
        for refused in (
            "SELECT * FROM visits",
            "SELECT region FROM visits",
            "SELECT MAX(region) FROM visits",
            "SELECT COUNT(*) FROM nowhere",
        ):
            with pytest.raises(TableError) as caught:
                session.sql(refused, epsilon=1)
            said.append("".join(traceback.format_exception(caught.value)))
    whole = "\n".join([*said, caplog.text]).encode() + b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for secret in (CANARY, str(owner), str(age)):
        assert secret.encode() not in whole


@pytest.mark.parametrize("rows", [[], random_rows(2), [(1, "N", float("nan"), float("inf"))] * 50], ids=["empty", "random", "nan"])
def test_every_aggregate_is_finite_on_every_table(rows: list[Row], place: Place) -> None:
    place.put(rows)
    session = place.session(Unit("id", max_rows=2))
    for grouped in (True, False)[: 1 if place.slow else 2]:
        answer = session.ask(question("everything", grouped=grouped), epsilon=1, bounds=people.BOUNDS, keys={"region": REGIONS})
        for found in answer.figures.values():
            for part in (found.value, found.low, found.high):
                assert np.isfinite(part).all() and len(part) == (4 if grouped else 1)
            assert (found.low <= found.value).all() and (found.value <= found.high).all()


def test_a_person_with_a_hundred_thousand_rows_counts_like_any_other(place: Place) -> None:
    unit = Unit("id", max_groups=2, rows_per_group=3)
    many = people.table([(5, "N", 1e308, 3.0)]).take(pa.array(np.zeros(100_000 if place.name == "duckdb" else 20_000, dtype=np.int64)))
    place.put([])
    plan = planned(question("count and mean", grouped=True), unit, place.steady)
    start = exact_sums(plan, place.steady)
    place.load(people.TABLE, many)
    assert loss_between(plan, start, exact_sums(plan, place.steady)) <= 1


def test_sums_do_not_overflow_at_the_limits_of_an_integer(place: Place) -> None:
    """Numbers at both ends of 64 bits, declared as such: the sum is exact, whatever the engine's integers hold."""
    bounds = (-(2.0**62), 2.0**62)
    asked = Question(exp.to_table(people.TABLE), (), (Aggregate("sum", people.AGE, "s"),))
    unit = Unit("id", max_rows=1)
    place.put([])
    plan = make(asked, unit, place.steady, Settings({"age": bounds}), SPENDS["gaussian"])
    for value in (1e308, -1e308):
        place.put([(i, "N", value, 0.0) for i in range(50)])
        whole = exact_sums(plan, place.steady).sums[0][0] * plan.shares[0].measure.granularity
        assert whole == 50 * 2**62 * (1 if value > 0 else -1)


def test_noise_is_added_to_everything_that_is_released() -> None:
    """Two releases of the same integers differ in every measure, ladders and totals included."""
    engine = engine_on(random_rows(4))
    plan = planned(question("everything", grouped=True), Unit("id", max_rows=2), engine)
    exact: Exact = exact_sums(plan, engine)
    first, second = release(exact, plan), release(exact, plan)
    for one, other in zip(first.sums, second.sums, strict=True):
        assert one.shape == other.shape and (one != other).mean() > 0.5


def test_where_is_inside_its_parentheses(place: Place) -> None:
    """A filter written as `a OR b` must not let rows without an owner in."""
    place.put([(None, "N", 50.0, 1.0)] * 40)
    condition = exp.Or(this=exp.Boolean(this=True), expression=exp.Boolean(this=False))
    asked = Question(exp.to_table(people.TABLE), (), AGGREGATES["count"], condition)
    plan = planned(asked, Unit("id", max_rows=2), place.steady, keys={})
    assert exact_sums(plan, place.steady).sums[0].tolist() == [0]
