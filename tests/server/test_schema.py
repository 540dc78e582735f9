"""The whole API under every role with generated requests: no answer of status 500, problem documents only, nothing undeclared,
and of a row of canaries nothing in a response, a database or a log."""

from __future__ import annotations

import logging
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.server import test_beacons
from tests.server.house import House
from tests.server.test_leaks import dump, leaks, planted, text_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis

#: Operations that a generated request must not reach in a shared service: they wait, or change who may sign in.
LEFT_OUT = {"watch_question", "run_release"}


def hammered(house: House, person: str, examples: int, until: float, beacon: str = "") -> int:
    """Generated requests for each operation; how many were sent. With a `beacon`, only its routes, and every other time that one itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = schemathesis.openapi.from_asgi("/v1/openapi.json", house.client.app)
    sent = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.definition.raw.get("operationId") in LEFT_OUT or time.monotonic() > until:
            continue
        if beacon and "{dataset}" not in operation.path.removeprefix("/v1/beacons/"):
            continue

        @settings(max_examples=examples, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def one(case: Any) -> None:
            nonlocal sent
            sent += 1
            headers = {"authorization": f"Bearer {house.token(person)}", "idempotency-key": f"generated-{sent:06d}"}
            kwargs = case.as_transport_kwargs(base_url="http://testserver")
            given_headers = {name: value for name, value in dict(kwargs.get("headers") or {}).items() if name.lower() != "prefer"}
            request = {name: kwargs[name] for name in ("params", "json", "data", "content") if kwargs.get(name) is not None}
            if beacon and sent % 2:
                kwargs["url"] = re.sub("/v1/beacons/[^/]*", f"/v1/beacons/{beacon}", kwargs["url"])
            try:
                answer = house.client.request(kwargs["method"], kwargs["url"], headers={**given_headers, **headers}, **request)
            except (UnicodeError, ValueError, TypeError):
                return  # the client itself cannot send this
            assert answer.status_code != 500, (kwargs["method"], kwargs["url"])
            assert not leaks(text_of(answer)), (kwargs["method"], kwargs["url"])
            if beacon and answer.status_code >= 400 and "/v1/beacons/" in kwargs["url"]:
                document = answer.json()
                assert document["error"]["errorCode"] == answer.status_code and document["meta"]["apiVersion"]
            elif answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json", kwargs["url"]
                told = answer.json()
                assert told["status"] == answer.status_code and told["type"].startswith("/problems/") and told["fix"]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one()
    return sent


@pytest.fixture
def canary_house(
    house_in: Callable[..., House], hospital: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Iterator[House]:
    """A service whose data has a row of canaries, which are in no database and no debug log afterwards either."""
    caplog.set_level(logging.DEBUG)
    shutil.copy(hospital / "visits.parquet", tmp_path / "visits.parquet")
    planted(tmp_path)
    found = house_in(tmp_path)
    yield found
    found.service.close()
    assert not leaks(dump(tmp_path)) and not leaks(caplog.text)


@pytest.mark.parametrize("person", ["ann", "cleo", "olga"])
def test_generated_requests(canary_house: House, person: str) -> None:
    assert hammered(canary_house, person, 3, time.monotonic() + 20) > 40


@pytest.fixture
def beacon_house(tmp_path: Path) -> Iterator[House]:
    """A service with a beacon of some genomes."""
    found = test_beacons.opened(tmp_path)
    yield found
    found.service.close()


@pytest.mark.parametrize("person", ["ann", "cleo"])
def test_generated_requests_of_a_beacon(beacon_house: House, person: str) -> None:
    assert hammered(beacon_house, person, 8, time.monotonic() + 20, beacon="genomes") > 20


@pytest.mark.slow
@pytest.mark.parametrize("person", ["ann", "cleo", "olga"])
def test_generated_requests_of_a_beacon_for_minutes(beacon_house: House, person: str) -> None:
    until, sent = time.monotonic() + 40, 0
    while time.monotonic() < until:
        sent += hammered(beacon_house, person, 60, until, beacon="genomes")
    print(person, "requests of a beacon:", sent)


@pytest.mark.slow
@pytest.mark.parametrize("person", ["ann", "cleo", "olga"])
def test_generated_requests_for_minutes(canary_house: House, person: str) -> None:
    until, sent = time.monotonic() + 200, 0
    while time.monotonic() < until:
        sent += hammered(canary_house, person, 60, until)
    print(person, "requests:", sent)
