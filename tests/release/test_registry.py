"""The registry's record: all of its fields, none of ours, and numbers from the plan."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from tests.release.jobs import changed

from tacit.release import registry
from tacit.release.errors import JobError
from tacit.release.planning import plan


def _record(budget: str = "{rho: 0.5}", **options: Any) -> dict[str, Any]:
    return registry.registry_record(plan(changed(("{rho: 0.5}", budget))), date="2026-11-16", private=options.get("private", True))


@pytest.mark.parametrize(
    ("budget", "variant"), [("{rho: 0.5}", "zCDP"), ("{epsilon: 1, delta: 1e-6}", "Approximate DP"), ("{epsilon: 1, delta: 0}", "Pure DP")]
)
def test_a_record_is_valid_and_says_what_was_promised(budget: str, variant: str) -> None:
    found = _record(budget)
    registry.check(yaml.safe_load(registry.text_of(found)))
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
        registry.check(found)


def test_a_missing_field_is_refused() -> None:
    for part, names in registry.FIELDS.items():
        found = copy.deepcopy(_record())
        del found[part][names[0]]
        with pytest.raises(JobError, match=part):
            registry.check(found)
