"""Suggestions: in the book's order, and each does what it says when it is followed."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.release.jobs import TEXT, changed

from tacit.release.job import parse
from tacit.release.planning import plan
from tacit.release.rehearsal import rehearse
from tacit.release.tuner import errors_of, suggestions

JOB = changed(("columns:", "expected: {people: 20000, rows: 20000}\ncolumns:"), ("visits, weight: 1", "visits, weight: 30"))


def test_suggestions_come_in_order_and_are_true() -> None:
    found = suggestions(JOB)
    kinds = [one.kind for one in found]
    order = ["caps", "bounds", "split", "total"]
    assert set(kinds) == set(order)
    assert kinds == sorted(kinds, key=order.index)
    for one in found:
        assert one.after == errors_of(plan(one.job)) and one.before == errors_of(plan(JOB))
        assert one.change and one.price in str(one)


def test_a_cap_that_would_cut_more_than_it_saves_is_not_suggested() -> None:
    """Two rows a person, of which one would be kept: half of all rows are gone, and the plan can tell."""
    many = changed(("columns:", "expected: {people: 20000, rows: 40000}\ncolumns:"))
    assert not [one for one in suggestions(many) if one.kind == "caps"]


def test_doubling_rho_divides_gaussian_noise_by_the_root_of_two() -> None:
    one = next(one for one in suggestions(changed(("{rho: 0.5}", "{rho: 0.001}"))) if one.kind == "total")
    assert one.after["overall"]["n"] / one.before["overall"]["n"] == pytest.approx(1 / math.sqrt(2), rel=1e-2)


def test_the_split_helps_the_worst_output() -> None:
    one = next(one for one in suggestions(JOB) if one.kind == "split")
    assert one.after["by_region"]["n"] < one.before["by_region"]["n"]
    assert one.after["overall"]["n"] > one.before["overall"]["n"]


def test_a_large_budget_is_not_made_larger() -> None:
    assert "total" not in [one.kind for one in suggestions(changed(("{rho: 0.5}", "{rho: 3}")))]


def test_a_unit_of_rows_has_no_caps_to_lower() -> None:
    job = changed(("{person: patient_id, max_rows: 3, adjacency: add-remove}", "{row: true, adjacency: add-remove}"))
    assert "caps" not in [one.kind for one in suggestions(job)]


@pytest.mark.parametrize(
    ("bounds", "halved"),
    [("[0, 110]", "[0, 55]"), ("[10, 110]", "[10, 60]"), ("[-40, 60]", "[-20, 30]"), ("[-110, 0]", "[-55, 0]"), ("[0, 1e9]", "[0, 5e+08]")],
)
def test_bounds_shrink_towards_zero(bounds: str, halved: str) -> None:
    one = next(one for one in suggestions(changed(("[0, 110]", bounds), ("{rho: 0.5}", "{rho: 1e-4}"))) if one.kind == "bounds")
    assert f"columns.age.bounds: {halved} in place of" in one.change


def test_what_is_told_is_what_happens_to_who_follows_it() -> None:
    """The change as it is printed, written into the file by hand, has the errors that were told."""
    text = TEXT.replace("columns:", "expected: {people: 20000, rows: 20000}\ncolumns:").replace("visits, weight: 1", "visits, weight: 30")
    followed = {
        "caps": text.replace("max_rows: 3", "max_rows: 1"),
        "bounds": text.replace("[0, 110]", "[0, 55]"),
        "total": text.replace("{rho: 0.5}", "{rho: 1}"),
    }
    found = {one.kind: one for one in suggestions(parse(text))}
    assert found["caps"].change.startswith("unit.max_rows: 1 in") and found["total"].change.startswith("budget.rho: 1 in")
    for kind, changed_text in followed.items():
        assert errors_of(plan(parse(changed_text))) == found[kind].after
    weights = dict(part.split(": ") for part in found["split"].change.removeprefix("weights ").split(", "))
    split = text.replace('region", weight: 1', f'region", weight: {weights["by_region"]}').replace(
        "weight: 30", f"weight: {weights['overall']}"
    )
    assert errors_of(plan(parse(split))) == found["split"].after


def test_a_split_says_whom_it_helps_and_whom_it_costs() -> None:
    one = next(one for one in suggestions(JOB) if one.kind == "split")
    assert one.worst is not None and one.worst < 0.99 and f"the largest relative error {one.worst:.2f} times" in str(one)
    most = max(one.after[o][f] / one.before[o][f] for o in one.before for f in one.before[o])
    assert most > 1 and f"others up to {most:.2f}" in str(one)


@pytest.mark.slow
def test_lower_caps_are_worth_it_where_nobody_reaches_them() -> None:
    """Rehearsed: everybody has one row, so a third of the cap costs nothing and the error falls as it was told."""
    people = 3000
    table = pa.table(
        {
            "patient_id": [f"p{i}" for i in range(people)],
            "region": ["north", "south"] * (people // 2),
            "ward": ["A"] * people,
            "age": [50.0] * people,
        }
    )
    job = changed(("{rho: 0.5}", "{rho: 0.001}"), ("max_rows: 3", "max_rows: 8"))
    one = next(one for one in suggestions(job) if one.kind == "caps")
    before, after = (rehearse(j, {"visits": table}, data="dummy", runs=60).overall()["by_region", "n"]["error"] for j in (job, one.job))
    # 60 runs of two groups: a root mean square of 120 draws is within 30% of its own but for a chance of 1e-5
    told = one.after["by_region"]["n"] / one.before["by_region"]["n"]
    assert after / before == pytest.approx(told, rel=0.3) and told < 0.6
