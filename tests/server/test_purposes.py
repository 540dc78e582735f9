"""Purposes: vague ones are refused, columns and kinds are kept to, budgets are their own, and past the end nothing is answered."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from tests.server.house import House

from tacit.server import ConfigurationError, parse
from tacit.server.config import EXAMPLE
from tacit.server.errors import ServiceError
from tacit.server.purposes import HARMS, PRINCIPLES, Purpose

GOOD: dict[str, Any] = {
    "id": "waiting-times", "datasets": ["visits"], "who": "planners of emergency rooms", "statistics": "counts by diagnosis",
    "why": "shorten the wait before surgery", "epsilon": "0.2", "columns": ["diagnosis"], "kinds": ["count"], "until": "2030-01-31",
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "text"),
    [("who", "us"), ("who", "our team"), ("statistics", "statistics"), ("statistics", "any data"), ("why", "research"),
     ("why", "to improve the business"), ("why", "..."), ("why", "for various purposes"), ("who", "x" * 2001)],
)  # fmt: skip
def test_vague_purposes_are_refused(house: House, field: str, text: str) -> None:
    found = house.send("cleo", "POST", "/v1/purposes", {**GOOD, field: text})
    assert found.status_code == 422 and found.json()["type"] == ("/problems/invalid" if len(text) > 2000 else "/problems/purpose-vague")
    with pytest.raises(ConfigurationError, match="vague"):
        parse(EXAMPLE.replace("why: decide how many beds each region needs next year", f"why: {text[:100]!r}"))


def test_a_purpose_keeps_to_its_columns_kinds_and_budget(own_house: House) -> None:
    assert own_house.send("cleo", "POST", "/v1/purposes", GOOD).status_code == 201
    assert own_house.send("cleo", "POST", "/v1/purposes", GOOD).status_code == 409
    counts = "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis"
    assert own_house.ask("ann", "within-the-purpose", purpose="waiting-times", sql=counts).json()["state"] == "answered"
    for sql in (
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region",
        "SELECT COUNT(*) AS n FROM visits WHERE age > 3",
        "SELECT COUNT(*) AS n FROM (SELECT age AS diagnosis FROM visits) v WHERE diagnosis > 3",
        "SELECT diagnosis, AVG(nights) AS n FROM visits GROUP BY diagnosis",
    ):
        found = own_house.ask("ann", f"beyond-{hash(sql)}", purpose="waiting-times", sql=sql)
        assert found.status_code == 422 and found.json()["type"] == "/problems/purpose-refused", sql
    assert own_house.ask("ann", "too-dear-for-it", purpose="waiting-times", sql=counts, epsilon="0.15").status_code == 409
    # the other purposes have their own
    assert own_house.ask("ann", "under-another", epsilon="0.15").status_code == 200
    accounts = {account["name"]: account for account in own_house.send("cleo", "GET", "/v1/accounts").json()}
    top, middle = accounts["Hospital visits 2025"], accounts["Hospital visits 2025/waiting-times"]
    leaf = accounts["Hospital visits 2025/waiting-times/ann"]
    assert top["spent"]["epsilon"] == pytest.approx(0.25, rel=1e-3)
    assert middle["spent"] == leaf["spent"] and leaf["parent"] == middle["id"] and middle["parent"] == top["id"]


def test_two_analysts_share_the_budget_of_a_purpose(own_house: House) -> None:
    own_house.send("cleo", "POST", "/v1/purposes", {**GOOD, "columns": None})
    counts = "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis"
    assert own_house.ask("ann", "ann-asks-this", purpose="waiting-times", sql=counts, epsilon="0.12").status_code == 200
    refused = own_house.ask("ben", "ben-asks-this", purpose="waiting-times", sql=counts, epsilon="0.12")
    assert refused.status_code == 409 and refused.json()["left"]["epsilon"] == pytest.approx(0.08, rel=1e-3)


def test_past_its_end_a_purpose_answers_nothing(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Purpose, "ended", lambda self, today=None: True)
    found = own_house.ask("ann", "too-late-for-it")
    assert found.status_code == 422 and found.json()["type"] == "/problems/purpose-ended"
    assert own_house.send("ann", "GET", "/v1/purposes").json()[0]["retention_due"] is True


def test_the_last_day_counts() -> None:
    purpose = Purpose("bed-planning", parse(EXAMPLE).purposes["bed-planning"])
    purpose.allow("visits", [], [])
    assert not purpose.ended(purpose.spec.until) and purpose.ended(purpose.spec.until + datetime.timedelta(days=1))
    with pytest.raises(ServiceError) as caught:
        purpose.allow("others", [], [])
    assert caught.value.code == "not-found"


def test_decisions_say_who_why_and_what_else(house: House) -> None:
    made = {"subject": "visits", "epsilon": "2", "rationale": "counts within 50 are enough", "alternatives": ["1: within 100"]}
    assert house.send("olga", "POST", "/v1/decisions", made).status_code == 201
    assert house.send("cleo", "POST", "/v1/decisions", made).status_code == 404
    found = house.send("cleo", "GET", "/v1/decisions").json()[-1]
    assert found["by"] == "olga" and found["alternatives"] == ["1: within 100"]
    assert house.send("olga", "POST", "/v1/decisions", {**made, "alternatives": []}).status_code == 422


def test_harms_and_principles_claim_no_more_than_evidence() -> None:
    assert HARMS["addressed"] == ("disclosure",) and "collection" in HARMS["not addressed"]
    assert len(PRINCIPLES) == 8
    assert not any(word in f"{HARMS}{PRINCIPLES}" for word in ("compliant", "anonymous"))
