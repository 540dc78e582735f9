"""What is written for machines: release.json is public, whole and checkable; the registry's record has all of its fields and no others."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from tests.release.jobs import changed

from tacit.accounting import account, from_json, to_json
from tacit.release import record
from tacit.release.errors import JobError
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


# --- the registry


def _record(budget: str = "{rho: 0.5}", **options: Any) -> dict[str, Any]:
    return record.registry_record(plan(changed(("{rho: 0.5}", budget))), date="2026-11-16", private=options.get("private", True))


@pytest.mark.parametrize(
    ("budget", "variant"), [("{rho: 0.5}", "zCDP"), ("{epsilon: 1, delta: 1e-6}", "Approximate DP"), ("{epsilon: 1, delta: 0}", "Pure DP")]
)
def test_a_record_is_valid_and_says_what_was_promised(budget: str, variant: str) -> None:
    found = _record(budget)
    record.check_registry(yaml.safe_load(record.registry_text(found)))
    assert found["dp_variant"]["variant_name"] == variant
    given = found["privacy_loss"]["privacy_parameters"]
    if variant == "zCDP":
        assert 0.499 < given["rho"] <= 0.5
    else:
        assert 0.99 < given["epsilon"] <= 1 and given["delta"] == (1e-6 if variant == "Approximate DP" else 0)
    assert "max_rows=3" in found["privacy_loss"]["privacy_unit_details"]


def test_what_was_seeded_is_a_draft() -> None:
    assert _record(private=False)["status"] == "Draft" and _record()["status"] == "Published"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("basic", "nickname"), "x"),
        (("extra",), "x"),
        (("dp_variant", "variant_name"), "very private"),
        (("deployment_model", "model_name"), "Mars"),
        (("tier",), 4),
        (("url_slug",), "Ä b"),
    ],
    ids=str,
)
def test_a_wrong_record_is_refused(path: tuple[str, ...], value: Any) -> None:
    found = copy.deepcopy(_record())
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(JobError, match="registry"):
        record.check_registry(found)


def test_a_missing_field_is_refused() -> None:
    for part, names in record.FIELDS.items():
        found = copy.deepcopy(_record())
        del found[part][names[0]]
        with pytest.raises(JobError, match=part):
            record.check_registry(found)
