"""What data subjects demand: their rows are left out of every later statement, purpose by purpose, and nothing tells that they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from tests.server.house import House

from tacit.server import ConfigurationError, Service, parse
from tacit.server.demo import SERVICE
from tacit.tables.figures import integers

COUNT = "SELECT COUNT(DISTINCT patient_id) AS people FROM visits"


def people(house: House, purpose: str) -> int:
    """How many people the statements of a purpose see: the engine's integer, which is never released."""
    service = house.service
    dataset, found = service.datasets["visits"], service.purposes.find(purpose)
    assert found is not None
    service.subjects.refresh(dataset, purpose)
    session = dataset.session(found, "ann")
    plan = session.plan(COUNT, epsilon="0.1", loss=False)
    return int(np.sum(integers(session.engine.run(session.desk._statement(plan)[0]), plan).sums[0]))


def demand(house: House, what: str, person: str = "17", purposes: list[str] | None = None, by: str = "olga") -> Any:
    body = {"dataset": "visits", "person": person, **({} if purposes is None else {"purposes": purposes})}
    return house.send(by, "POST", f"/v1/subjects/{what}", body)


def somebody(house: House) -> list[str]:
    """Three people who have rows."""
    table = pq.read_table(house.service.datasets["visits"].base / "visits.parquet", columns=["patient_id"])
    return [str(value) for value in pc.unique(table["patient_id"]).to_pylist()[:3]]


def test_withdrawing_erasing_and_restoring(own_house: House) -> None:
    first, second, third = somebody(own_house)
    beds, costs = people(own_house, "bed-planning"), people(own_house, "cost-report")
    assert demand(own_house, "withdraw", first, ["bed-planning"]).status_code == 200
    # consent for one purpose changes nothing in another
    assert (people(own_house, "bed-planning"), people(own_house, "cost-report")) == (beds - 1, costs)
    assert demand(own_house, "erase", second).status_code == 200
    assert (people(own_house, "bed-planning"), people(own_house, "cost-report")) == (beds - 2, costs - 1)
    assert demand(own_house, "object", third, ["cost-report"]).status_code == 200
    assert (people(own_house, "bed-planning"), people(own_house, "cost-report")) == (beds - 2, costs - 2)
    demand(own_house, "restore", first, ["bed-planning"])
    demand(own_house, "restore", second)  # what was erased stays out
    assert (people(own_house, "bed-planning"), people(own_house, "cost-report")) == (beds - 1, costs - 2)


def test_asking_after_an_erasure_is_answered_about_the_others(own_house: House) -> None:
    before = own_house.ask("ann", "asked-before-it").json()
    demand(own_house, "erase", somebody(own_house)[0])
    same = own_house.ask("ann", "asked-after-it").json()
    # an identical question of the same day is still answered from the book, with its date: nothing tells that someone left
    assert own_house.entry(same) == own_house.entry(before) and same["answered"] == before["answered"]
    other = own_house.ask("ann", "another-after-it", epsilon="0.11").json()
    assert other["state"] == "answered" and own_house.entry(other) != own_house.entry(before)
    spent = own_house.send("ann", "GET", "/v1/accounts").json()[0]["spent"]["epsilon"]
    assert spent == pytest.approx(0.21, rel=1e-3)  # nothing is refunded


def test_a_release_leaves_them_out_too(own_house: House) -> None:
    service, gone = own_house.service, somebody(own_house)
    dataset = service.datasets["visits"]
    for person in gone:
        demand(own_house, "erase", person)
    from tacit.release import desk_of, opened

    source = service.subjects.guard(dataset, opened(dataset.job, dataset.base))
    desk = desk_of(dataset.job, source)
    from tacit.accounting import Guarantee

    plan = desk.plan(desk.question(COUNT), Guarantee(epsilon=1), loss=False)
    found = int(np.sum(integers(source.engine.run(desk._statement(plan)[0]), plan).sums[0]))
    everyone = pc.count_distinct(pq.read_table(dataset.base / "visits.parquet")["patient_id"]).as_py()
    assert found == everyone - len(gone)


def test_the_answer_is_the_same_whether_a_person_has_rows_or_not(own_house: House) -> None:
    there, absent = demand(own_house, "erase", somebody(own_house)[0]), demand(own_house, "erase", "999999999")
    assert there.content == absent.content and there.status_code == absent.status_code
    assert "not refunded" in there.json()["told"] and "stands" in there.json()["told"]


def test_access_is_made_on_demand(own_house: House) -> None:
    demand(own_house, "withdraw", "424242", ["bed-planning"])
    found = demand(own_house, "access", "424242").json()
    assert found["stopped"][0]["purpose"] == "bed-planning" and "visits" in found["sources"]
    assert {purpose["id"] for purpose in found["purposes"]} == {"bed-planning", "cost-report"}
    for word in ("compliant", "anonymous"):
        assert word not in json.dumps(found)


def test_identifiers_are_neither_in_the_book_nor_beside_it(own_house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for what in ("withdraw", "erase", "access"):
        demand(own_house, what, "13572468")
    own_house.ask("ann", "asked-after-them")
    assert "13572468" not in json.dumps(list(own_house.service.ledger.entries()))
    with own_house.service.database.read() as connection:
        for table in sa.inspect(connection).get_table_names():
            assert "13572468" not in str(connection.exec_driver_sql(f'SELECT * FROM "{table}"').fetchall()), table
    assert "13572468" not in caplog.text


@pytest.mark.parametrize("person", ["", "x", "1 OR 1=1", "9" * 30, "1.5", "١٢"])
def test_what_is_no_person_is_refused_without_repeating_it(own_house: House, person: str) -> None:
    found = demand(own_house, "erase", person)
    assert found.status_code == 422 and (not person or f'"{person}"' not in found.text)


def test_faults_of_a_request(own_house: House) -> None:
    assert demand(own_house, "erase", "1", ["bed-planning"]).status_code == 422
    assert demand(own_house, "withdraw", "1", ["no-such-purpose"]).status_code == 422
    for by in ("ann", "cleo"):
        assert demand(own_house, "erase", "1", by=by).status_code == 404


def test_the_book_is_no_place_for_identifiers(tmp_path: Path, house_in: Callable[..., House]) -> None:
    house_in(tmp_path).service.close()
    url = f"sqlite:///{tmp_path / 'tacit-service.db'}"
    text = SERVICE + f"\nsubjects: {{database: '{url}'}}\ndatabase: '{url}'\n"
    with pytest.raises(ConfigurationError, match="apart from the book"):
        Service.open(parse(text, tmp_path))
