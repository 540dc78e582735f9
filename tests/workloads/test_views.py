"""Views of joined tables: counts against plain Python, caps on neighbours, later questions against their intervals."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Composed
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode as seeded
from tacit.tables import Refused, Session, Source, TableError, Unit
from tacit.workloads import AllRanges, Marginals, Prefix, Product, View, ViewAnswer, views
from tacit.workloads.joint_strategy import EachAlone, Joined

RANDOM = np.random.default_rng(6)
VISITS = {"id": RANDOM.integers(0, 300, 900).tolist(), "ward": RANDOM.choice(["a", "b", "c"], 900).tolist()}
PATIENTS = {"id": list(range(300)), "sex": RANDOM.choice(["f", "m"], 300).tolist(), "age": RANDOM.integers(0, 10, 300).tolist()}
WARDS = {"ward": ["a", "b", "c"], "floor": ["1", "1", "2"]}
JOINED = "SELECT v.ward, p.sex, p.age, w.floor FROM visits v JOIN patients p ON v.id = p.id JOIN wards w ON v.ward = w.ward"
COLUMNS = {"ward": ["a", "b", "c"], "sex": ["f", "m"], "floor": ["1", "2"], "age": (0, 9)}


def opened(folder: Path, *, unit: Unit | None = None, visits: Any = VISITS, patients: Any = PATIENTS) -> Session:
    source = Source.several({"visits": visits, "patients": patients, "wards": WARDS}, public=["wards"])
    book = Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
    return Session(source, unit=unit or Unit("id", max_rows=50), budget=Budget(rho=10), name="clinic", ledger=book, columns=COLUMNS)


def rows_of_view() -> list[dict[str, Any]]:
    """The join in plain Python."""
    floors = dict(zip(WARDS["ward"], WARDS["floor"], strict=True))
    people = {i: (s, a) for i, s, a in zip(PATIENTS["id"], PATIENTS["sex"], PATIENTS["age"], strict=True)}
    return [
        {"ward": w, "sex": people[i][0], "age": people[i][1], "floor": floors[w]}
        for i, w in zip(VISITS["id"], VISITS["ward"], strict=True)
        if i in people
    ]


def test_a_view_counts_the_rows_of_the_join(tmp_path: Path) -> None:
    planned = views(opened(tmp_path), {"stays": View(JOINED, Marginals("ward", "sex", "floor", up_to=2))}, rho=1)
    cut, plan = planned.parts["stays"]
    counts = cut.counts([("ward", "sex"), ("floor",), ()])
    rows = rows_of_view()
    for (i, ward), (j, sex) in itertools.product(enumerate("abc"), enumerate("fm")):
        assert counts[("ward", "sex")][i, j] == sum(r["ward"] == ward and r["sex"] == sex for r in rows)
    assert counts[()] == len(rows) and counts[("floor",)].tolist() == [sum(r["floor"] == f for r in rows) for f in "12"]
    assert planned.explain().count("GROUPING SETS") == 1 and plan.selection.tables


@pytest.mark.parametrize("where", ["", " WHERE p.sex = 'f' AND v.ward <> 'c'"])
def test_conditions_of_a_view_hold(tmp_path: Path, where: str) -> None:
    planned = views(opened(tmp_path), {"v": View(JOINED + where, Marginals("ward", ways=1))}, rho=1)
    counts = planned.parts["v"][0].counts([("ward",)])[("ward",)]
    kept = [r for r in rows_of_view() if not where or (r["sex"] == "f" and r["ward"] != "c")]
    assert counts.tolist() == [sum(r["ward"] == w for r in kept) for w in "abc"]


def test_one_person_moves_a_view_by_her_cap(tmp_path: Path) -> None:
    """Neighbours: a person with many visits, with many lines among the patients, with both, with odd values."""
    cap = 3
    extras: list[tuple[dict[str, list[Any]], dict[str, list[Any]]]] = [
        ({"id": [999] * 500, "ward": ["a", "b"] * 250}, {"id": [999], "sex": ["f"], "age": [3]}),
        ({"id": [999], "ward": ["a"]}, {"id": [999] * 400, "sex": ["f", "m"] * 200, "age": [3] * 400}),
        ({"id": [999] * 40, "ward": ["c"] * 40}, {"id": [999] * 40, "sex": ["m"] * 40, "age": [9] * 40}),
        ({"id": [999] * 3, "ward": ["?", "a", "a"]}, {"id": [999] * 3, "sex": ["x", "f", "f"], "age": [-5, 10**9, 4]}),
    ]
    for place, (more_visits, more_patients) in enumerate(extras):
        sums = []
        for with_her in (False, True):
            visits = {c: VISITS[c] + (more_visits[c] if with_her else []) for c in VISITS}  # type: ignore[operator]
            patients = {c: PATIENTS[c] + (more_patients[c] if with_her else []) for c in PATIENTS}  # type: ignore[operator]
            (tmp_path / f"{place}").mkdir(exist_ok=True)
            # Others have fewer rows than the cap allows only if it is large, so they are given one row each.
            one = {c: np.array(visits[c], dtype=object)[_firsts(visits["id"])].tolist() + _hers(visits, c) for c in visits}
            session = opened(tmp_path / f"{place}", unit=Unit("id", max_rows=cap), visits=one, patients=patients)
            cut, _ = views(session, {"v": View(JOINED, Product(ward=Prefix) + Marginals("sex", "age", ways=2))}, rho=1).parts["v"]
            assert cut.reach == cap
            sums.append(cut.counts([("ward", "sex", "age")])[("ward", "sex", "age")])
        moved = np.abs(sums[1] - sums[0]).sum()
        assert 0 < moved <= cap


def _firsts(ids: list[int]) -> list[int]:
    return [i for i, person in enumerate(ids) if person != 999 and ids.index(person) == i]


def _hers(visits: dict[str, list[Any]], column: str) -> list[Any]:
    return [value for value, person in zip(visits[column], visits["id"], strict=True) if person == 999]


def test_later_questions_are_free_and_their_intervals_hold(tmp_path: Path) -> None:
    """150 draws of 4 questions, Gaussian and Laplace: 95 % within 3, against the join in plain Python."""
    session = opened(tmp_path)
    rows = rows_of_view()
    asked: list[tuple[dict[str, Any], int]] = [
        ({"ward": "a", "sex": "f"}, sum(r["ward"] == "a" and r["sex"] == "f" for r in rows)),
        ({"age": ("2", "6"), "sex": "m"}, sum(2 <= r["age"] <= 6 and r["sex"] == "m" for r in rows)),
        ({"ward": ["a", "c"]}, sum(r["ward"] in "ac" for r in rows)),
        ({}, len(rows)),
    ]
    wanted = Marginals("ward", "sex", "age", up_to=2)
    planned = views(session, {"v": View(JOINED, wanted)}, rho="0.5")
    before = session.left()["rho"]
    cut, plan = planned.parts["v"]
    counts = cut.counts(plan.selection.tables)
    inside = total = 0
    with seeded(5):
        for _ in range(150):
            answer = ViewAnswer(plan, tuple(plan.draw(counts)), False)
            for conditions, truth in asked:
                value, low, high = answer.count(**conditions)
                inside += low <= truth <= high
                total += 1
                assert low < value < high
    assert abs(inside / total - 0.95) < 0.03 and session.left()["rho"] == before
    line = next(x for x in answer.table("ward", "sex").to_pylist() if (x["ward"], x["sex"]) == ("a", "f"))
    assert line["value"] == pytest.approx(answer.count(ward="a", sex="f")[0])
    with pytest.raises(ParameterError, match="no measured table"):
        answer.count(ward="a", sex="f", age="3")
    for wrong in ({"ward": "z"}, {"age": ("6", "2")}, {"nothing": "1"}, {"ward": ["a", "a"]}, {"ward": 3}):
        with pytest.raises(ParameterError):
            answer.count(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("joined", [True, False])
def test_later_questions_about_separate_products(tmp_path: Path, joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not joined:
        monkeypatch.setattr("tacit.workloads.joint_strategy.UNKNOWNS", 0)
    monkeypatch.setattr("tacit.workloads.joint_strategy.product_for", _only_small)
    view = View(JOINED, Product(age=AllRanges) + Product(ward=Prefix))
    planned = views(opened(tmp_path), {"v": view}, rho=1)
    assert isinstance(planned.parts["v"][1].selection, Joined if joined else EachAlone)
    answer = planned.run()["v"]
    truth = sum(2 <= r["age"] <= 6 for r in rows_of_view())
    value, _, high = answer.count(age=("2", "6"))
    assert abs(value - truth) < 4 * (high - value)
    with pytest.raises(ParameterError, match="no measured table"):
        answer.count(age="2", ward="a")


def _only_small(workload: Any, law: Any, rounds: int = 3) -> Any:
    """No product over all columns, so that each group is measured by itself."""
    from tacit.workloads.joint_strategy import OneProduct
    from tacit.workloads.strategy import identity, levels

    columns = tuple(workload.cells.names)
    if len(columns) > 1:
        return OneProduct(columns, tuple(levels(n, 2, [1000.0, *[1.0] * (len(bin(n - 1)) - 2)]) for n in workload.cells.shape))
    return OneProduct(columns, tuple(identity(n) for n in workload.cells.shape))


def test_several_views_are_paid_once(tmp_path: Path) -> None:
    session = opened(tmp_path)
    seen = {
        "stays": View(JOINED, Marginals("ward", "sex", up_to=2), weight=3),
        "patients": View("SELECT sex, age FROM patients", Marginals("sex", "age", ways=2)),
    }
    planned = views(session, seen, rho=1)
    assert isinstance(planned.event, Composed) and session.left()["rho"] == 10
    assert planned.expected_errors.keys() == seen.keys()
    found = planned.run()
    assert 9 <= session.left()["rho"] < 9.000001 and found["stays"].entry == found["patients"].entry
    assert found["patients"].table("sex", "age").num_rows == 20
    with pytest.raises(BudgetExceeded):
        views(session, seen, rho=11).run()


@pytest.mark.parametrize(
    ("select", "error"),
    [
        ("SELECT v.ward, p.sex FROM visits v JOIN patients p ON v.ward = p.sex", Refused),
        ("SELECT ward FROM nothing", TableError),
        ("SELECT ward FROM wards", Exception),
        ("not sql", Exception),
        ("", ParameterError),
    ],
)
def test_what_cannot_be_bounded_is_refused_before_payment(tmp_path: Path, select: str, error: Any) -> None:
    session = opened(tmp_path)
    with pytest.raises(error):
        views(session, {"v": View(select, Marginals("ward", ways=1))}, rho=1)
    with pytest.raises(ParameterError):
        views(session, {}, rho=1)
    assert session.left()["rho"] == 10
