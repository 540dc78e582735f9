"""Many at once: one key of hundreds of threads is one question, one draw and one payment, on both databases.

FastAPI puts a router's routes together at the first request, and a second thread that came meanwhile found none: `application`
has them put together before anyone asks. Threads are switched as often as the interpreter can, so that a race that exists is met.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.ledger.conftest import postgres, postgres_url
from tests.server.house import House, TestClient

from tacit.server import application

__all__ = ["postgres", "postgres_url"]  # fixtures


@pytest.fixture
def restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def spent_once(house: House, key: str, threads: int) -> None:
    before = sum(entry["kind"] == "reserve" for entry in house.service.ledger.entries())
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda _: house.ask("ann", key, wait=60, epsilon=f"0.001{key[-3:]}"), range(threads)))
    assert {one.status_code for one in found} == {200}, {one.text[:200] for one in found if one.status_code != 200}
    assert len({one.json()["id"] for one in found}) == 1 and len({one.text for one in found}) == 1
    assert sum(entry["kind"] == "reserve" for entry in house.service.ledger.entries()) == before + 1


def test_the_first_requests_of_an_application_all_find_their_route(own_house: House, restless: None) -> None:
    token = own_house.token("ann")
    for _ in range(3):
        client = TestClient(application(own_house.service), raise_server_exceptions=False)

        def one(path: str, client: TestClient = client) -> int:
            return int(client.get(path, headers={"authorization": f"Bearer {token}"}).status_code)

        with ThreadPoolExecutor(16) as pool:
            assert set(pool.map(one, ["/v1/me", "/v1/datasets", "/healthz", "/v1/questions"] * 4)) == {200}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_one_key_of_many_threads(
    house_in: Callable[..., House], tmp_path: Path, request: pytest.FixtureRequest, database: str, restless: None
) -> None:
    url = f'database: "{request.getfixturevalue("postgres_url")}"\n' if database == "postgresql" else ""
    house = house_in(tmp_path, extra=url)
    try:
        for turn in range(1):
            spent_once(house, f"one-key-for-all-{turn:03d}", 32)
        assert house.service.ledger.verify().ok
    finally:
        house.service.close()


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_one_key_of_hundreds_of_threads_again_and_again(
    house_in: Callable[..., House], tmp_path: Path, request: pytest.FixtureRequest, database: str, restless: None
) -> None:
    url = f'database: "{request.getfixturevalue("postgres_url")}"\n' if database == "postgresql" else ""
    house = house_in(tmp_path, extra=url)
    try:
        for turn in range(20):
            house.client = TestClient(application(house.service), raise_server_exceptions=False)
            spent_once(house, f"one-key-for-all-{turn:03d}", 300)
        assert house.service.ledger.verify().ok
    finally:
        house.service.close()
