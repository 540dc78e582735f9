"""Faults of a job file are told in its own words: no class names, no Python, and the likely slip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.release.jobs import changed

from tacit.release.errors import JobError
from tacit.release.faults import in_job, nearest
from tacit.release.job import parse
from tacit.release.planning import plan
from tacit.tables import TableError


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max_rows: 3", "maxrows: 3", "unit.maxrows: there is no such field; did you mean max_rows?"),
        ("outputs:", "Output:", "did you mean outputs?"),
        ("adjacency: add-remove", "adjacency: both", "unit.adjacency: must be add-remove or replace-one"),
        ("max_rows: 3", "max_rows: three", "unit.max_rows: must be a whole number"),
        ("max_rows: 3", "max_rows: 3.5", "unit.max_rows: must be a whole number"),
        ("[north, south]", "north", "categories: must be a list, such as [a, b]"),
        ("[north, south]", "[yes, no]", "columns.region: categories must be of the column's type, text; YAML takes yes, no"),
        ("age: {type: number, bounds: [0, 110]}", "age: {type: number, categories: [a]}", "of the column's type, number"),
        ("bounds: [0, 110]", "bounds: [0]", "columns.age.bounds: must be two numbers: [lower, upper]"),
        ("bounds: [0, 110]", "bounds: [0, 1, 2]", "columns.age.bounds: must be two numbers: [lower, upper]"),
        ("{type: number,", "{type: float,", "columns.age.type: must be integer, number, decimal, text, boolean, date or timestamp"),
        ("confidence: 0.95", "confidence: 95", "must be less than 1; write 95 % as 0.95"),
        ("[csv, parquet]", "csv", "publication.formats: must be a list"),
        ("title: Visits", "title: 2026", "title: must be a text; put it in quotes"),
        ("title: Visits", "title: ''", "title: must not be empty"),
        ("version: 1", "version: 2", "version: must be 1"),
        ("weight: 1, postprocess", "weight: 1, keys: public, postprocess", "outputs[1].keys: must be private, a list of the keys"),
        ("weight: 1, postprocess", "weight: 1, rows_per_group: 0, postprocess", "outputs[1].rows_per_group: must be at least 1"),
        ("SELECT COUNT(*) AS n FROM", "SELECT COUNT(*) AS n, SUM(age) AS a FROM", "the rest of a text that has a comma"),
        ("{rho: 0.5}", "0.5", "budget: must have fields of its own"),
        (
            "{person: patient_id, max_rows: 3,",
            "{node: [ward, region], max_rows: 3,",
            "unit: {node: [src, dst], max_rows: 50, capped: true}",
        ),
        ("title: Visits", "title: a: b", "stands in quotes"),
        ("purpose: Plan", "\tpurpose: Plan", "not with tabs"),
    ],
)
def test_a_fault_is_told_in_the_words_of_the_file(old: str, new: str, said: str) -> None:
    with pytest.raises(JobError) as caught:
        changed((old, new))
    assert said in str(caught.value)
    assert not any(word in str(caught.value) for word in ("Input should", "Tuple", "Dictionary", "Unit."))


def test_values_are_not_repeated() -> None:
    """A password in a source's address must not come out in a message about it."""
    with pytest.raises(JobError) as caught:
        changed(("{path: visits.parquet}", "{url: 'postgresql://ann:hunter2@db/x', table: [hunter2]}"))
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=30))
def test_a_guess_is_a_known_name(name: str) -> None:
    known = ["max_rows", "person", "window"]
    assert nearest(name, known) in {"", *(f"; did you mean {word}?" for word in known)}


def test_the_planner_speaks_of_the_job() -> None:
    with pytest.raises(JobError) as caught:
        plan(changed((", bounds: [0, 110]", "")))
    assert "columns.age.bounds: [0, 100]" in str(caught.value)
    assert caught.value.code == "bounds-missing" and caught.value.facts == {"column": "age"}
    assert str(in_job(TableError("nothing to say"), "unit")) == "unit: nothing to say"
    asked = in_job(TableError(code="person-needed", what="per_person"))
    assert asked.message == "per_person needs a unit with a person: unit: {person: patient_id, max_rows: 12}"


def test_categories_of_every_type() -> None:
    """Dates as dates or as texts, numbers of either kind, NULL everywhere."""
    for kind, values in {
        "integer": "[1, 2, null]",
        "number": "[1, 2.5]",
        "decimal": "[1, '2.5']",
        "boolean": "[true, false]",
        "date": "[2026-01-31, '2026-02-01']",
        "timestamp": "['2026-01-31 10:00:00', 2026-02-01 10:00:00]",
        "text": "['yes', 'no']",
    }.items():
        changed(("ward: {type: text}", f"ward: {{type: {kind}, categories: {values}}}"))
    for kind, values in {"integer": "[true]", "boolean": "[1]", "text": "[2026-01-31]", "number": "[x]", "date": "[3]"}.items():
        with pytest.raises(JobError, match="of the column's type"):
            changed(("ward: {type: text}", f"ward: {{type: {kind}, categories: {values}}}"))


def test_what_is_computed_has_bounds_of_its_own() -> None:
    """A person's total is no column of the table; without bounds it is refused with what to write, and with them it is planned."""
    sql = "SELECT AVG(total) AS total FROM (SELECT patient_id, SUM(age) AS total FROM visits GROUP BY patient_id) AS t"
    asked = ("SELECT COUNT(*) AS n FROM visits, weight: 1, postprocess: {nonnegative: [n], whole: [n]}", f'"{sql}", weight: 1')
    with pytest.raises(JobError, match=r"bounds: \{total: \[0, 100\]\} in the output"):
        plan(changed(asked))
    wide, narrow = (plan(changed((asked[0], f"{asked[1]}, bounds: {{total: [0, {most}]}}")))["overall"] for most in (300, 30))
    assert float(wide.plan.recipes[0].intervals[0].upper) == 300 and narrow.errors["total"] < wide.errors["total"]
    for wrong, said in (("{total: [9, 0]}", "swap"), ("{age: [0, 9]}", "stand under columns.age"), ("{total: [0]}", "two numbers")):
        with pytest.raises(JobError, match=said):
            changed((asked[0], f"{asked[1]}, bounds: {wrong}"))


def test_the_note_on_lost_rows_can_be_saved() -> None:
    """Without it, its part of the budget goes to the figures; a job that says nothing keeps its fingerprint."""
    said = changed(("FROM visits, weight: 1", "FROM visits, weight: 1, loss: true"))
    spared = changed(("FROM visits, weight: 1", "FROM visits, weight: 1, loss: false"))
    assert said.digest() == changed().digest() != spared.digest()
    assert plan(spared)["overall"].plan.loss is None and plan(said)["overall"].plan.loss is not None
    assert plan(spared)["overall"].errors["n"] < plan(said)["overall"].errors["n"]
    assert parse(spared.model_dump_json()) == spared
