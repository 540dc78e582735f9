"""release.json: what is in it is public, whole and checkable."""

from __future__ import annotations

import json

from tests.release.jobs import changed

from tacit.accounting import account, from_json, to_json
from tacit.release import record
from tacit.release.planning import plan


def test_totals_bracket_the_price_in_every_currency() -> None:
    found = plan(changed())
    totals = record.totals(found, found.event)
    for delta in record.DELTAS:
        bound = account(found.event).epsilon(delta)
        assert totals[f"epsilon at delta {delta:g}"]["upper"] == bound.upper >= bound.lower
    assert totals["rho"]["upper"] <= 0.5 + 1e-12


def test_a_price_that_does_not_exist_is_left_empty() -> None:
    job = changed(
        ("rho: 0.5", "epsilon: 1, delta: 1e-6"),
        ('FROM visits GROUP BY region", weight: 1', 'FROM visits GROUP BY region", keys: private, weight: 1'),
    )
    found = plan(job)
    totals = record.totals(found, found.event)
    assert totals["epsilon at delta 1e-06"]["upper"] <= 1
    json.dumps(totals, allow_nan=False)


def test_the_code_hash_is_one_of_content() -> None:
    assert record.code_hash() == record.code_hash() and len(record.code_hash()) == 64
    assert {"tacit", "python", *record.PACKAGES} == set(record.versions())


def test_addresses_of_sources_are_left_out() -> None:
    content = changed(("{path: visits.parquet}", "{url: 'postgresql://ann:hunter2@db/x', table: visits}")).model_dump(mode="json")
    assert "hunter2" not in json.dumps(record.without_secrets(content)) and "hunter2" in json.dumps(content)


def test_events_survive_the_record() -> None:
    event = plan(changed()).event
    assert from_json(to_json(event)) == event


def test_the_text_is_canonical() -> None:
    assert record.text_of({"b": 1, "a": "é"}) == '{\n  "a": "é",\n  "b": 1\n}\n'
