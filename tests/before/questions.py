"""Questions to sessions on DuckDB about a made-up table: every kind of figure, key, unit, currency and law.

No person has more rows than the cap, except where all rows of a person are alike. Which rows DuckDB keeps is drawn by DuckDB, and another
version of it may draw others.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.before.frozen import Cases, plain

import tacit
from tacit.accounting import Adjacency

BUDGETS = {
    "pure": tacit.Budget(epsilon=1000),
    "approximate": tacit.Budget(epsilon=1000, delta="1/2"),
    "rho": tacit.Budget(rho=1000),
    "mu": tacit.Budget(mu=1000),
}
PERSON = tacit.Unit("id", max_rows=3)
KEYS = {"region": ["N", "S", "E", "empty"]}
BOUNDS = {"age": (0, 100), "cost": (-5, 50)}


def visits() -> pa.Table:
    """Ninety people with up to three visits each; a few values are missing."""
    rows = [(person, visit) for person in range(90) for visit in range(1 + person % 3)]
    start = datetime.date(2025, 1, 1)
    return pa.table(
        {
            "id": [person for person, _ in rows],
            "region": ["NSSE"[(person * 7 + visit) % 4] for person, visit in rows],
            "ward": [f"w{(person * person) % 5}" if person % 11 else None for person, _ in rows],
            "age": pa.array([None if person % 17 == 3 else person % 80 + visit for person, visit in rows], pa.int64()),
            "cost": pa.array([((person * 37 + visit * 11) % 500) / 8 - 10 for person, visit in rows], pa.float64()),
            "day": pa.array([start + datetime.timedelta(person % 50 + visit) for person, visit in rows], pa.date32()),
        }
    )


def alike() -> pa.Table:
    """People with five to nine rows each, all rows of a person the same: a cap cuts, and it makes no difference which."""
    people = [person for person in range(40) for _ in range(5 + person % 5)]
    return pa.table({"id": people, "region": ["NS"[person % 2] for person in people], "age": [person * 2 for person in people]})


def regions() -> pa.Table:
    """A public table to join with."""
    return pa.table({"region": ["N", "S", "E"], "coast": ["yes", "no", "yes"]})


def edges() -> pa.Table:
    """Calls between people."""
    calls = range(40)
    return pa.table({"src": [i % 9 for i in calls], "dst": [(i * 5 + 1) % 9 for i in calls], "minutes": [i % 13 for i in calls]})


def session(folder: str, currency: str, *, table: pa.Table | None = None, unit: tacit.Unit = PERSON, **more: Any) -> tacit.Session:
    """A session with a book of its own."""
    book = tacit.Ledger.open(f"sqlite:///{Path(folder) / 'book.db'}")
    return tacit.Session(visits() if table is None else table, unit=unit, budget=BUDGETS[currency], name="visits", ledger=book, **more)


def record(answer: Any) -> dict[str, Any]:
    """An answer without its words. The many cells behind a rank are kept as a hash."""
    figures = {name: [found.value, found.low, found.high] for name, found in answer.figures.items()}
    noise = [[part.law, part.deviation] for part in answer.noise]
    texts = [json.dumps(plain(sums)) for sums in answer.raw.values()]
    raw = [text if len(text) < 200 else hashlib.sha256(text.encode()).hexdigest() for text in texts]
    return {"keys": answer.keys, "figures": figures, "raw": raw, "noise": noise, "event": answer.event, "cost": answer.cost}


def asked(currency: str, sql: str, *, opened: dict[str, Any] | None = None, **options: Any) -> Any:
    """A question, its price before, its answer, and what is left after."""

    def case() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            open_ = session(folder, currency, **(opened or {}))
            try:
                answer = open_.sql(sql, **options)
                return [record(answer), open_.left(options.get("period"))]
            finally:
                open_.ledger.close()

    return case


def priced(currency: str, sql: str, **options: Any) -> Any:
    """What a question would cost, and the errors to expect."""

    def case() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            open_ = session(folder, currency)
            try:
                found = open_.price(sql, **options)
                return [open_.plan(sql, **options).event, found.event, found.cost]
            finally:
                open_.ledger.close()

    return case


def several() -> Any:
    """One session, three questions, one of them in Python: each draws after the one before."""
    with tempfile.TemporaryDirectory() as folder:
        open_ = session(folder, "approximate")
        try:
            first = open_.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
            second = open_.query().group_by("region").count("n").ask(keys=KEYS, epsilon=1)
            third = open_.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
            return [record(answer) for answer in (first, second, third)]
        finally:
            open_.ledger.close()


def found() -> Any:
    """Bounds and a cap, found for a price."""
    with tempfile.TemporaryDirectory() as folder:
        open_ = session(folder, "approximate")
        try:
            bounds = open_.find_bounds("SELECT COUNT(*) AS n FROM visits", "age", epsilon=2)
            cap = open_.find_cap("SELECT COUNT(*) AS n FROM visits", epsilon=2)
            return [bounds.lower, bounds.upper, bounds.found, cap, open_.left()]
        finally:
            open_.ledger.close()


def questions() -> Cases:
    """All of them."""
    count = "SELECT COUNT(*) AS n FROM visits"
    grouped = "SELECT region, COUNT(*) AS n, SUM(cost) AS cost, AVG(age) AS age FROM visits GROUP BY region"
    spread = "SELECT region, VARIANCE(age) AS v, STDDEV(cost) AS s FROM visits GROUP BY region"
    ranks = "SELECT region, MEDIAN(age) AS m, QUANTILE_CONT(cost, 0.9) AS q FROM visits GROUP BY region"
    wards = "SELECT ward, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY ward"
    joined = "SELECT r.coast, COUNT(*) AS n FROM visits v JOIN regions r ON v.region = r.region GROUP BY r.coast"
    public: dict[str, Any] = {"keys": KEYS, "bounds": BOUNDS}
    price = {"pure": {"epsilon": 4}, "approximate": {"epsilon": 4, "delta": "1/1000"}, "rho": {"rho": 2}, "mu": {"mu": 2}}
    cases: Cases = {}
    for currency, spend in price.items():
        cases[f"{currency}: count"] = asked(currency, count, **spend)
        cases[f"{currency}: groups"] = asked(currency, grouped, **public, **spend)
        cases[f"{currency}: moments"] = asked(currency, spread, **public, **spend)
        cases[f"{currency}: ranks"] = asked(currency, ranks, **public, **spend)
        if currency in ("approximate", "rho"):  # pure prices have Laplace noise only, those in mu Gaussian noise only
            cases[f"{currency}: Laplace"] = asked(currency, grouped, law="laplace", **public, **spend)
            cases[f"{currency}: Gaussian"] = asked(currency, grouped, law="gaussian", **public, **spend)
            cases[f"{currency}: Laplace ranks"] = asked(currency, ranks, law="laplace", **public, **spend)
        cases[f"{currency}: price"] = priced(currency, grouped, **public, **spend)
    both: dict[str, Any] = {"epsilon": 8, "delta": "1/50"}
    everybody = "SELECT COUNT(DISTINCT id) AS people FROM visits"
    each = "SELECT AVG(total) AS t FROM (SELECT id, SUM(cost) AS total FROM visits GROUP BY id)"
    filtered = "SELECT region, COUNT(*) AS n FROM visits WHERE age >= 18 GROUP BY region HAVING COUNT(*) > 5 ORDER BY n DESC LIMIT 2"
    decade = "SELECT age / 10 AS decade, COUNT(*) AS n FROM visits GROUP BY age / 10"
    cut: dict[str, Any] = {"table": alike(), "unit": tacit.Unit("id", max_rows=4)}
    grouped_cut: dict[str, Any] = {"table": alike(), "unit": tacit.Unit("id", max_groups=1, rows_per_group=2)}
    two: dict[str, Any] = {"keys": {"region": ["N", "S"]}, "bounds": {"age": (0, 100)}}
    month: dict[str, Any] = {"unit": tacit.Unit("id", max_rows=3, window="month", when="day")}
    calls: dict[str, Any] = {"table": edges(), "unit": tacit.Unit.edge("src", "dst", max_rows=10)}
    node: dict[str, Any] = {"table": edges(), "unit": tacit.Unit.node(ends=("src", "dst"), max_rows=12, capped=True)}
    exchanged: dict[str, Any] = {"unit": tacit.Unit("id", max_rows=3, adjacency=Adjacency.REPLACE_ONE)}
    minutes = "SELECT COUNT(*) AS n, SUM(minutes) AS m FROM visits"
    automatic: dict[str, Any] = {"unit": tacit.Unit("id", max_rows=tacit.auto(epsilon=2)), "table": visits()}
    ages = "SELECT SUM(age) AS age FROM visits"
    cases |= {
        "private keys": asked("approximate", wards, bounds=BOUNDS, **both),
        "private keys, rho": asked("approximate", wards, bounds=BOUNDS, law="gaussian", **both),
        "private and public keys": asked(
            "approximate", "SELECT region, ward, COUNT(*) AS n FROM visits GROUP BY region, ward", keys=KEYS, **both
        ),
        "a join with a public table": asked(
            "approximate", joined, opened={"public": {"regions": regions()}}, keys={"coast": ["yes", "no"]}, epsilon=2
        ),
        "people": asked("pure", everybody, epsilon=2),
        "a figure by person": asked("approximate", each, bounds={"total": (0, 100)}, epsilon=4),
        "filtered and ordered": asked("approximate", filtered, keys=KEYS, epsilon=4),
        "decades": asked("approximate", decade, keys={"decade": list(range(10))}, epsilon=4),
        "weights": asked("approximate", grouped, weights={"n": 3, "age": 1, "cost": 1}, **public, epsilon=4),
        "without loss": asked("approximate", grouped, loss=False, **public, epsilon=4),
        "accuracy": asked("approximate", count, accuracy={"n": 20}),
        "a cap that cuts": asked("approximate", grouped.replace("SUM(cost)", "SUM(age)"), opened=cut, **two, epsilon=4),
        "a cap on groups": asked("mu", grouped.replace("SUM(cost)", "SUM(age)"), opened=grouped_cut, **two, mu=2),
        "a row": asked("approximate", grouped, opened={"unit": tacit.Unit.row()}, **public, epsilon=4),
        "a row exchanged": asked("rho", grouped, opened=exchanged, **public, rho=2),
        "a month": asked("approximate", count, opened=month, period="2025-01", epsilon=2),
        "edges": asked("approximate", minutes, opened=calls, bounds={"minutes": (0, 15)}, epsilon=4),
        "nodes": asked("mu", minutes, opened=node, bounds={"minutes": (0, 15)}, mu=2),
        "automatic bounds": asked("approximate", ages, bounds={"age": tacit.auto(epsilon=2)}, epsilon=4),
        "automatic bounds, rho": asked("rho", ages, bounds={"age": tacit.auto(epsilon=2)}, rho=4),
        "an automatic cap": asked("approximate", count, opened=automatic, epsilon=4),
        "one after the other": several,
        "bounds and caps": found,
    }
    return {f"tables: {name}": case for name, case in cases.items()}
