"""A session at a service: the README's example runs unchanged, and answers equal those of a local session in type and content."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.server.house import House, TestClient

import tacit
from tacit.ledger import BudgetExceeded
from tacit.server import Service, application, parse
from tacit.tables import Answer, Price, RemoteSession, Session, TableError, answer_from, answer_record

README = Path(__file__).resolve().parents[2] / "README.md"
JOB = """
version: 1
title: visits
purpose: The table of the README, so that its example can be asked of a service.
sources: {visits: {path: visits.parquet}}
unit: {person: patient_id, max_groups: 3, rows_per_group: 2, adjacency: add-remove}
budget: {epsilon: 1, delta: 1e-6}
columns: {patient_id: {type: integer}, age: {type: integer}, region: {type: text}}
outputs: [{name: n, sql: SELECT COUNT(*) AS n FROM visits, weight: 1}]
publication: {folder: release, formats: [csv], confidence: 0.95}
"""
SERVICE = """
version: 1
grid: {step: 0.01 s}
datasets: {visits: {job: visits.yaml}}
purposes:
  readme:
    datasets: [visits]
    who: readers of the first page
    statistics: counts and mean ages by region
    why: see that a service answers like a session
    epsilon: 1
    until: 2099-12-31
people: {ann: {roles: [analyst], datasets: [visits]}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    draws, n = np.random.default_rng(0), 50_000
    table = {"patient_id": draws.integers(0, 20_000, n), "age": draws.integers(0, 100, n)}
    regions = draws.choice(["North", "South", "East", "West"], n)
    pq.write_table(pa.table({**table, "region": regions}), folder / "visits.parquet")
    (folder / "visits.yaml").write_text(JOB)
    return folder


@pytest.fixture(scope="module")
def house(place: Path) -> Iterator[House]:
    service = Service.open(parse(SERVICE, place))
    yield House(service, TestClient(application(service)))
    service.close()


@pytest.fixture(scope="module")
def session(house: House) -> RemoteSession:
    return tacit.connect("http://testserver", token=house.token("ann"), client=house.client)


def test_the_example_of_the_first_page_runs_unchanged(session: RemoteSession) -> None:
    """Every line of it after the session is opened, with the outputs that are printed there."""
    text = README.read_text(encoding="utf-8")
    block = next(block for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "tacit.Session(" in block)
    after = block[block.index(">>> question") :]
    examples = doctest.DocTestParser().get_doctest(after, {"session": session}, "README", None, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert len(examples.examples) == 6
    assert runner.run(examples, out=said.append).failed == 0, "".join(said)


def test_answers_are_equal_in_type_and_content(session: RemoteSession, house: House) -> None:
    question = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
    keys = {"region": ["North", "South"]}
    remote = session.sql(question, epsilon="0.1", keys=keys)
    purpose = house.service.purposes.find("readme")
    assert purpose is not None
    # the same question of the same analyst: the book has its answer
    local = house.service.datasets["visits"].session(purpose, "ann").sql(question, epsilon="0.1", keys=keys)
    assert isinstance(remote, Answer) and local.entry is not None and remote.entry is None
    local = replace(local, entry=None)  # its number in the book is for those who read the book: tests/server/test_beside.py
    assert remote.to_arrow().equals(local.to_arrow()) and remote.event == local.event and remote.cost == local.cost
    assert repr(remote) == repr(local) and answer_record(remote) == answer_record(local)
    assert answer_record(answer_from(answer_record(remote))) == answer_record(remote)
    price = session.price(question, epsilon="0.1", keys=keys)
    assert isinstance(price, Price)
    assert price == house.service.datasets["visits"].session(purpose, "ann").price(question, epsilon="0.1", keys=keys)


def test_the_methods_are_those_of_a_session(session: RemoteSession) -> None:
    for name in ("sql", "price", "explain", "dummy", "left", "query"):
        assert callable(getattr(session, name)) and callable(getattr(Session, name))
    assert session.dummy(20).column_names == ["patient_id", "age", "region"]
    assert 0 < float(session.left()["epsilon"]) <= 1
    assert "SELECT" in session.explain("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)
    found = session.query().group_by("region").count("n").ask(epsilon="0.05", keys={"region": ["North"]})
    assert found.keys == {"region": ["North"]}
    assert len(session.curve("SELECT COUNT(*) AS n FROM visits", [0.1, 0.2])) == 2
    assert session.history()[0]["state"] == "answered"


def test_refusals_are_those_of_a_session(session: RemoteSession) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=2)
    assert 0 < caught.value.left["epsilon"] <= 1
    with pytest.raises(TableError, match="bounds"):
        session.price("SELECT SUM(age) AS s FROM visits", epsilon=0.1)
    with pytest.raises(TableError, match="no option"):
        session.price("SELECT COUNT(*) AS n FROM visits", epsilom=0.1)


class Broken(httpx.BaseTransport):
    """A connection that is cut after the service has worked, now and then."""

    def __init__(self, client: TestClient, cuts: list[bool]) -> None:
        self.client, self.cuts = client, cuts

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        sent = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        found = self.client.request(request.method, request.url.path, content=request.read(), headers=sent)
        if self.cuts and self.cuts.pop(0):
            raise httpx.ReadError("cut")
        headers = {"tacit-protocol": found.headers["tacit-protocol"], "content-type": found.headers["content-type"]}
        return httpx.Response(found.status_code, content=found.content, headers=headers)


def test_a_cut_connection_pays_once(house: House, session: RemoteSession) -> None:
    before = session.left()["epsilon"]
    client = httpx.Client(transport=Broken(house.client, [False, False, True, True]), base_url="http://testserver")
    remote = tacit.connect("http://testserver", token=house.token("ann"), client=client)
    assert remote.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 50", epsilon="0.03").rows == 1
    assert float(before - session.left()["epsilon"]) == pytest.approx(0.03, rel=1e-3)


@pytest.mark.parametrize(
    ("url", "token"), [("http://tacit.example.org", "tacit_x"), ("ftp://x", "tacit_x"), ("https://x", "x"), ("https://x", None)]
)
def test_what_would_give_a_token_away_is_refused(url: str, token: Any) -> None:
    with pytest.raises(TableError):
        tacit.connect(url, token=token)


def test_other_versions_refuse_each_other(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    old = house.client.get("/v1/datasets", headers={"tacit-protocol": "0"})
    assert old.status_code == 400 and "install" in old.json()["fix"]
    from tacit.tables import remote

    monkeypatch.setattr(remote, "PROTOCOL", "2")
    with pytest.raises(TableError, match="version"):
        tacit.connect("http://testserver", token=house.token("ann"), client=house.client)
