"""Canaries in every column: none comes out in a response, a debug log, a trace, a metric, a temporary file or a database's dump.

All flows are walked, and an engine failure is forced at each step, with a canary in its words.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from tests.ledger.conftest import postgres, postgres_url
from tests.server.house import ASK, House
from tests.server.test_telemetry import recording

from tacit.ledger import Ledger
from tacit.server import datasets as of_datasets
from tacit.server import worker as of_worker
from tacit.server.claims import Claims
from tacit.tables import Desk, Session
from tacit.tables.engines.duckdb import DuckDB

__all__ = ["postgres", "postgres_url"]  # fixtures
#: One row with these; each is a value that no other row has, and no declaration names.
CANARIES: dict[str, Any] = {
    "patient_id": 918273645, "visit_date": datetime.date(1903, 3, 7), "region": "CANARY-REGION", "sex": "CANARY-SEX", "age": 876543219,
    "diagnosis": "CANARY-DIAGNOSIS", "nights": 765432198, "cost": 4321098765.25,
}  # fmt: skip
#: Nine digits and more: five would turn up in the digests of a book by chance.
WORDS = ["CANARY", "918273645", "1903-03-07", "876543219", "765432198", "4321098765"]


def planted(folder: Path) -> None:
    table = pq.read_table(folder / "visits.parquet")
    row = pa.table({name: pa.array([CANARIES[name]], table.schema.field(name).type) for name in table.column_names})
    pq.write_table(pa.concat_tables([table, row]), folder / "visits.parquet")


SQLS = {
    "count": ASK["sql"],
    "private keys": "SELECT diagnosis, sex, COUNT(*) AS n FROM visits GROUP BY diagnosis, sex",
    "sum": "SELECT SUM(cost) AS c, AVG(age) AS a, MAX(nights) AS m FROM visits",
    "wrong": "SELECT region FROM visits",
    "fails": "SELECT COUNT(*) AS n FROM visits WHERE region = 'x'",
}


def questions(house: House, mark: str, wait: float) -> list[Any]:
    """Prices, explanations and questions of an analyst; the questions are waited for so many seconds together."""
    found, asked = [], dict[str, str]()
    for name, sql in SQLS.items():
        body = {**ASK, "sql": sql, "epsilon": "0.01", **({"keys": {"diagnosis": None, "sex": None}} if name == "private keys" else {})}
        found.append(house.send("ann", "POST", "/v1/price", body))
        found.append(house.send("ann", "POST", "/v1/explain", body))
        found.append(house.send("ann", "POST", "/v1/questions", body, idempotency_key=f"{mark}-{name}".replace(" ", "-")))
        if number := found[-1].json().get("id"):
            asked[name] = number
    until = time.monotonic() + wait
    open_ = dict(asked)
    while open_ and time.monotonic() < until:
        time.sleep(0.05)
        views = {name: house.send("ann", "GET", f"/v1/questions/{number}") for name, number in open_.items()}
        found += views.values()
        open_ = {name: number for name, number in open_.items() if views[name].json().get("state") not in ("answered", "lost", "refused")}
    forms = [(number, kind) for number in asked.values() for kind in ("application/json", "text/csv")]
    return found + [house.send("ann", "GET", f"/v1/questions/{number}", accept=kind) for number, kind in forms]


def pages(house: House) -> list[Any]:
    """What an analyst, a curator and an officer look at."""
    paths = ("me", "datasets", "datasets/visits", "questions", "accounts", "releases", "purposes", "tokens", "sessions", "models",
             "datasets/visits/dummy?rows=50", "book/entries?most=1000", "book/head", "book/export", "people", "decisions")  # fmt: skip
    found = [house.send(person, "GET", f"/v1/{path}") for path in paths for person in ("ann", "cleo", "olga")]
    return [*found, house.send("olga", "POST", "/v1/book/verify", {})]


def text_of(response: Any) -> str:
    return response.text + json.dumps(dict(response.headers))


def dump(folder: Path) -> str:
    """Everything that the databases hold, and the bytes of their files."""
    found = []
    for file in folder.glob("*.db*"):
        found.append(file.read_bytes().decode("latin-1"))
        if file.suffix == ".db":
            connection = sqlite3.connect(file)
            found.append("\n".join(connection.iterdump()))
            connection.close()
    return "\n".join(found)


def dump_of_server(url: str) -> str:
    """Everything that the tables of a database server hold."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        assert {"service_questions", "tacit_entries"} <= set(names)
        return "\n".join(str(connection.exec_driver_sql(f'SELECT * FROM "{name}"').fetchall()) for name in names)


def temporary(since: float) -> str:
    """What was written below the temporary folder meanwhile, but for the data itself and pytest's own folders."""
    found = []
    for place, folders, files in os.walk(tempfile.gettempdir()):
        folders[:] = [name for name in folders if not name.startswith(("pytest-", "tacit-postgres", "bash_jobs"))]
        for name in files:
            path = Path(place) / name
            try:
                if path.stat().st_mtime >= since and path.stat().st_size < 5_000_000 and "tacit" in str(path):
                    found.append(path.read_bytes().decode("latin-1"))
            except OSError:
                continue
    return "\n".join(found)


def leaks(text: str) -> list[str]:
    return [word for word in WORDS if word in text]


STEPS: dict[str, tuple[Any, str]] = {
    "the engine": (DuckDB, "run"), "the draw": (Desk, "draw"), "the answer": (Desk, "answer"), "the session": (Session, "sql"),
    "the record": (of_worker, "answer_record"), "the claim": (Claims, "take"), "the end": (Claims, "end"),
    "the list": (of_datasets.Dataset, "session"), "the book": (Ledger, "head"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_no_canary_comes_out(
    kind: str, request: pytest.FixtureRequest,
    house_in: Callable[..., House], hospital: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    finished, traced = recording(monkeypatch)
    began = time.time()
    shutil.copy(hospital / "visits.parquet", tmp_path / "visits.parquet")
    planted(tmp_path)
    url = "" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    house = house_in(tmp_path, ("limits: {", "limits: {lease: 1 s, "), extra="telemetry: true\n" + (f'database: "{url}"\n' if url else ""))
    answers = [*questions(house, "whole", wait=30), *pages(house)]
    assert {one.status_code for one in answers} <= {200, 202, 404, 406, 409, 422}
    for step, (owner, name) in STEPS.items():
        real = getattr(owner, name)

        def broken(*_: Any, **__: Any) -> Any:
            raise ValueError(f"row {CANARIES}")

        if owner is Desk or owner is of_worker or name != "session":
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, broken)
                # what a broken step leaves is taken up when it is whole again: there is nothing to wait for
                answers += questions(house, step, wait=1) if step != "the book" else [house.send("olga", "GET", "/v1/book/head")]
                answers += pages(house)
        assert getattr(owner, name) is real
    house.service.close()
    assert 500 not in {one.status_code for one in answers}
    for one in answers:
        assert leaks(text_of(one)) == [], (one.request.url, leaks(text_of(one)))
    assert leaks(caplog.text) == []
    assert len(finished()) > len(answers) / 2 and leaks(traced()) == []
    assert leaks("".join(capfd.readouterr())) == []
    assert leaks(dump(tmp_path)) == [] and (not url or leaks(dump_of_server(url)) == [])
    assert leaks(temporary(began)) == []


def test_the_search_finds_a_canary_that_is_there(tmp_path: Path) -> None:
    """Mutant: a leak into a database would be found."""
    connection = sqlite3.connect(tmp_path / "leak.db")
    connection.execute("CREATE TABLE t AS SELECT 'row of CANARY-SEX' AS x")
    connection.commit()
    connection.close()
    assert leaks(dump(tmp_path)) == ["CANARY"]
