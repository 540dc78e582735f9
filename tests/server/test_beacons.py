"""Beacon routes: documents by the schemas, payment by the asker, purposes, erasure, keys, tokens only, and wrong requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.applications.health.test_beacon import SCHEMAS, schema_errors
from tests.server.house import House, TestClient

from tacit.server import Service, application, load
from tacit.server.access import PUBLIC, TABLE
from tacit.server.errors import ConfigurationError

JOB = """
version: 1
title: Genomes
purpose: Show which variants occur among the people of a study, and in about how many of them.
sources: {calls: {path: calls.parquet}}
unit: {person: person, max_rows: 20000, adjacency: add-remove}
budget: {epsilon: 1, delta: 0}
account: {name: Genomes, budget: {epsilon: 1000, delta: 0}}
expected: {people: 500, rows: 5000}
columns:
  person: {type: text, nullable: false}
  chromosome: {type: text}
  position: {type: integer, bounds: [0, 300000000]}
  reference: {type: text}
  alternate: {type: text}
outputs:
  - {name: people, title: People, sql: SELECT COUNT(DISTINCT person) AS people FROM calls, weight: 1}
publication: {folder: out, formats: [csv], confidence: 0.95}
registry: {curator: Nowhere, region: Nowhere, sector: Health, intended_use: tests, authors: [Tacit]}
"""

SERVICE = """
version: 1
grid: {step: 0.01 s}
datasets:
  genomes:
    job: genomes.yaml
    beacon: {table: calls, purpose: variants, epsilon: 4, people: 500, absence: 0.5, assembly: GRCh38}
  others: {job: others.yaml}
purposes:
  variants:
    datasets: [genomes, others]
    who: geneticists of the regional hospitals
    statistics: whether single variants occur in the study
    why: judge variants that are found in patients
    epsilon: 100
    until: 2099-12-31
people:
  ann: {roles: [analyst], datasets: [genomes]}
  ben: {roles: [analyst], datasets: [others]}
  dora: {roles: [analyst], datasets: [genomes]}
  cleo: {roles: [curator]}
  olga: {roles: [officer]}
limits: {questions_per_minute: 100000, other_per_minute: 100000}
"""

#: The first variant is in 60 people, the second in p7 alone, who carries both of its copies and is listed twice.
ROWS = [(f"p{i}", "1", 100, "A", "T") for i in range(60)] + [("p7", "X", 500, "C", "G")] * 2
COMMON = {"referenceName": "chr1", "start": "99", "referenceBases": "A", "alternateBases": "T"}
RARE = {"referenceName": "X", "start": "499", "referenceBases": "C", "alternateBases": "G"}


def written(folder: Path, service: str = SERVICE) -> Path:
    names = ("person", "chromosome", "position", "reference", "alternate")
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*ROWS, strict=True)), strict=True))), folder / "calls.parquet")
    (folder / "genomes.yaml").write_text(JOB)
    (folder / "others.yaml").write_text(JOB.replace("name: Genomes", "name: Others"))
    (folder / "service.yaml").write_text(service)
    return folder / "service.yaml"


def opened(folder: Path, service: str = SERVICE) -> House:
    found = Service.open(load(written(folder, service)))
    return House(found, TestClient(application(found), raise_server_exceptions=False))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    found = opened(tmp_path_factory.mktemp("beacon"))
    yield found
    found.service.close()


@pytest.fixture
def own_house(tmp_path: Path) -> Iterator[House]:
    found = opened(tmp_path)
    yield found
    found.service.close()


def asked(house: House, person: str | None = "ann", dataset: str = "genomes", **parameters: Any) -> Any:
    headers = {} if person is None else {"authorization": f"Bearer {house.token(person)}"}
    return house.client.get(f"/v1/beacons/{dataset}/g_variants", params=parameters, headers=headers)


def valid(document: dict[str, Any], name: str) -> None:
    """By the schemas of Beacon v2, where they are; the fields that an answer needs are looked at everywhere."""
    assert document["meta"]["beaconId"] and document["meta"]["apiVersion"] == "v2.0.0" and document["meta"]["returnedSchemas"]
    if SCHEMAS.is_dir():
        assert schema_errors(document, name) == []


def test_answers_are_documents_of_their_schemas(own_house: House) -> None:
    """At epsilon 4, 60 carriers are taken for none with probability below 1e-50, and 1 for 60 as seldom."""
    said = asked(own_house, **COMMON)
    assert said.status_code == 200 and said.json()["responseSummary"] == {"exists": True}
    valid(said.json(), "responses/beaconBooleanResponse.json")
    counted = asked(own_house, **COMMON, requestedGranularity="count")
    valid(counted.json(), "responses/beaconCountResponse.json")
    assert 40 < counted.json()["responseSummary"]["numTotalResults"] < 80
    absent = asked(own_house, **{**COMMON, "start": "12345"})
    assert absent.status_code == 200 and absent.json()["responseSummary"] == {"exists": False}
    assert len(said.content) == len(absent.content) == 4096


def test_an_answer_is_paid_once_a_day_and_appears_among_questions(own_house: House) -> None:
    asked(own_house, **COMMON)
    rows = own_house.send("ann", "GET", "/v1/questions").json()
    assert len(rows) == 1 and rows[0]["state"] == "answered" and rows[0]["purpose"] == "variants"
    first = [asked(own_house, **COMMON, requestedGranularity=kind).json()["responseSummary"] for kind in ("count", "record", "count")]
    assert first[0] == first[1] == first[2] and len(own_house.send("ann", "GET", "/v1/questions").json()) == 1
    entries = own_house.send("olga", "GET", "/v1/book/entries").json()
    spends = [one for one in (entries if isinstance(entries, list) else entries["entries"]) if "variants" in json.dumps(one)]
    assert spends
    body = {"meta": {}, "query": {"requestParameters": {**COMMON, "start": [99]}, "requestedGranularity": "count"}}
    posted = own_house.send("ann", "POST", "/v1/beacons/genomes/g_variants", body)
    assert posted.json()["responseSummary"] == first[0]
    assert len(own_house.send("ann", "GET", "/v1/questions").json()) == 1


def test_the_framework_documents_are_there(house: House) -> None:
    root = house.send("ann", "GET", "/v1/beacons/genomes").json()
    assert root == house.send("olga", "GET", "/v1/beacons/genomes/info").json()
    names = {
        "info": "responses/beaconInfoResponse.json", "configuration": "responses/beaconConfigurationResponse.json",
        "map": "responses/beaconMapResponse.json", "entry_types": "responses/beaconEntryTypesResponse.json",
        "filtering_terms": "responses/beaconFilteringTermsResponse.json",
    }  # fmt: skip
    for document, schema in names.items():
        valid(house.send("cleo", "GET", f"/v1/beacons/genomes/{document}").json(), schema)
    assert house.send("ann", "GET", "/v1/beacons/genomes/service-info").json()["type"]["artifact"] == "beacon"


@pytest.mark.parametrize(
    ("person", "dataset", "status"),
    [
        (None, "genomes", 401), ("ben", "genomes", 404), ("olga", "genomes", 404), ("cleo", "genomes", 404),
        ("ann", "others", 404), ("ann", "no", 404),
    ],
)  # fmt: skip
def test_whoever_may_not_ask_gets_a_beacons_error(house: House, person: str | None, dataset: str, status: int) -> None:
    found = asked(house, person, dataset, **COMMON)
    assert found.status_code == status and found.json()["error"]["errorCode"] == status
    valid(found.json(), "responses/beaconErrorResponse.json")


WRONG = [
    {"start": "-1"}, {"start": "many"}, {"referenceBases": "A' OR 1=1"}, {"referenceName": "1' OR '1'='1"}, {"geneId": "BRCA1"},
    {"filters": "x"}, {"requestedGranularity": "all"}, {"assemblyId": "GRCh37"}, {"referenceName": "é"}, {"start": "9" * 400}, {"end": "5"},
]  # fmt: skip


@pytest.mark.parametrize("change", WRONG, ids=[next(iter(one)) + str(i) for i, one in enumerate(WRONG)])
def test_a_wrong_request_costs_nothing_and_is_not_repeated(house: House, change: dict[str, str]) -> None:
    found = asked(house, **{**COMMON, **change})
    assert found.status_code == 422
    valid(found.json(), "responses/beaconErrorResponse.json")
    assert "1=1" not in found.text and "BRCA1" not in found.text


@pytest.mark.parametrize("body", [[], "x", {"query": 5}, {"query": {"requestParameters": [1]}}, {"more": 1}, {"query": {}}])
def test_a_body_that_is_no_request_is_an_error_document(house: House, body: object) -> None:
    found = house.send("ann", "POST", "/v1/beacons/genomes/g_variants", body)
    assert 400 <= found.status_code < 500
    valid(found.json(), "responses/beaconErrorResponse.json")


def test_a_browsers_cookie_does_not_pay(house: House) -> None:
    """A GET carries a cookie from any site that links here, so one that spends is for tokens."""
    browser = house.browser("ann")
    found = browser.get("/v1/beacons/genomes/g_variants", params=COMMON)
    assert found.status_code == 401 and browser.get("/v1/beacons/genomes/info").status_code == 200
    assert house.send("ann", "GET", "/v1/questions").json() == []


def test_who_was_erased_or_withdrew_is_left_out(tmp_path: Path) -> None:
    """p7 alone carries the rare variant; at epsilon 20 a count of 1 is told from 0, and 60 from 58."""
    house = opened(tmp_path, SERVICE.replace("epsilon: 4, people: 500", "epsilon: 20, people: 500"))
    try:
        there = {"exists": True, "numTotalResults": 1}
        assert asked(house, **RARE, requestedGranularity="count").json()["responseSummary"] == there
        for person, demand in (("p7", "erase"), ("p8", "withdraw")):
            gone = house.send("olga", "POST", f"/v1/subjects/{demand}", {"dataset": "genomes", "person": person})
            assert gone.status_code == 200
        # an answer keeps its day; whoever asks anew is answered without those two
        assert asked(house, "dora", **RARE).json()["responseSummary"] == {"exists": False}
        common = asked(house, "dora", **COMMON, requestedGranularity="count").json()
        assert common["responseSummary"]["numTotalResults"] == 58
        assert asked(house, **RARE, requestedGranularity="count").json()["responseSummary"] == there
    finally:
        house.service.close()


def test_a_budget_that_is_spent_and_a_purpose_that_ended(tmp_path: Path) -> None:
    house = opened(tmp_path, SERVICE.replace("epsilon: 100\n", "epsilon: 5\n"))
    try:
        assert asked(house, **COMMON).status_code == 200
        found = asked(house, **RARE)
        assert found.status_code == 409 and "nothing was spent" in found.json()["error"]["errorMessage"]
        valid(found.json(), "responses/beaconErrorResponse.json")
        assert asked(house, **COMMON).status_code == 200  # what was paid for stays
    finally:
        house.service.close()
    later = tmp_path / "later"
    later.mkdir()
    ended = opened(later, SERVICE.replace("2099-12-31", "2020-12-31"))
    try:
        found = asked(ended, **RARE)
        assert found.status_code == 422 and "ended" in found.json()["error"]["errorMessage"]
    finally:
        ended.service.close()


def test_an_answer_that_was_lost_has_the_status_and_size_of_one_that_was_not(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.tables import EngineError, Session

    def fails(*_: object, **__: object) -> None:
        raise EngineError("the genotype of p7 could not be read")

    monkeypatch.setattr(Session, "sql", fails)
    found = asked(own_house, **COMMON)
    assert found.status_code == 200 and len(found.content) == 4096 and found.json()["error"]["errorCode"] == 500
    assert "p7" not in found.text
    valid(found.json(), "responses/beaconErrorResponse.json")


def test_an_officer_approves_what_is_dear(tmp_path: Path) -> None:
    house = opened(tmp_path, SERVICE.replace("limits: {", "limits: {approve_above: {epsilon: 1}, "))
    try:
        found = asked(house, **COMMON)
        assert found.status_code == 403 and "officer" in found.json()["error"]["errorMessage"]
        question = house.send("olga", "GET", "/v1/approvals").json()[0]["id"]
        house.send("olga", "POST", f"/v1/approvals/{question}", {"decision": "approve", "reason": "a single variant"})
        assert asked(house, **COMMON).json()["responseSummary"] == {"exists": True}
    finally:
        house.service.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("table: calls", "table: nothing", "whose they are"), ("purpose: variants, epsilon", "purpose: other, epsilon", "names no purpose"),
        ("epsilon: 4", "epsilon: 0", "epsilon"), ("assembly: GRCh38", "chromosome: chrom", "no such column"),
        ("people: 500", "people: 0", "people"),
    ],
)  # fmt: skip
def test_a_beacon_that_cannot_be_is_refused_at_the_start(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Service.open(load(written(tmp_path, SERVICE.replace(old, new))))


def test_a_beacon_whose_people_cannot_be_erased_is_refused(tmp_path: Path) -> None:
    place = written(tmp_path)
    rows = "unit: {row: true, adjacency: add-remove}"
    for name in ("genomes.yaml", "others.yaml"):
        (tmp_path / name).write_text(JOB.replace("unit: {person: person, max_rows: 20000, adjacency: add-remove}", rows))
    with pytest.raises(ConfigurationError, match="whose they"):
        Service.open(load(place))


def test_its_routes_are_in_the_table(house: House) -> None:
    named = {one["operationId"] for methods in house.client.app.openapi()["paths"].values() for one in methods.values()}
    assert named == set(TABLE) | PUBLIC


def test_without_a_beacon_there_are_no_routes(tmp_path: Path) -> None:
    plain = SERVICE.replace("    beacon: {table: calls, purpose: variants, epsilon: 4, people: 500, absence: 0.5, assembly: GRCh38}\n", "")
    house = opened(tmp_path, plain)
    try:
        assert asked(house, **COMMON).status_code == 404
        assert not any("beacons" in path for path in house.client.app.openapi()["paths"])
    finally:
        house.service.close()
