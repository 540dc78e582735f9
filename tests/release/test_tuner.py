"""Suggestions: in the book's order, and each does what it says when it is followed."""

from __future__ import annotations

import math

import pytest
from tests.release.jobs import changed

from tacit.release.planning import plan
from tacit.release.tuner import errors_of, suggestions

JOB = changed(("columns:", "expected: {people: 20000, rows: 40000}\ncolumns:"), ("visits, weight: 1", "visits, weight: 30"))


def test_suggestions_come_in_order_and_are_true() -> None:
    found = suggestions(JOB)
    kinds = [one.kind for one in found]
    order = ["caps", "bounds", "split", "total"]
    assert set(kinds) == set(order)
    assert kinds == sorted(kinds, key=order.index)
    for one in found:
        assert one.after == errors_of(plan(one.job)) and one.before == errors_of(plan(JOB))
        assert one.change and one.price in str(one)


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
    job = changed(("{person: patient_id, max_rows: 3, adjacency: add_remove}", "{row: true, adjacency: add_remove}"))
    assert "caps" not in [one.kind for one in suggestions(job)]
