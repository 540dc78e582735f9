"""Warnings before spending: each rule speaks where it should, and is silent where it should be."""

from __future__ import annotations

import pytest
from tests.release.jobs import changed

from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.planning import plan

EXPECTED = "expected: {people: 20000, rows: 40000}\ncolumns:"


def _rules(job: Job) -> dict[str, str]:
    return {notice.rule: str(notice) for notice in plan(job).warnings}


def test_a_sound_job_has_no_warnings() -> None:
    assert _rules(changed(("columns:", EXPECTED))) == {}


@pytest.mark.parametrize(
    ("pairs", "rule", "said"),
    [
        ((("columns:", "expected: {people: 150}\ncolumns:"),), "few people", "150 people"),
        ((("columns:", EXPECTED), ("{rho: 0.5}", "{epsilon: 12, delta: 1e-6}")), "large epsilon", "99.999"),
        ((("columns:", EXPECTED), ("{rho: 0.5}", "{epsilon: 1, delta: 1e-4}")), "large delta", "5e-06"),
        ((("{rho: 0.5}", "{epsilon: 1, delta: 1e-4}"),), "large delta", "well below"),
        (
            (("columns:", EXPECTED), ("visits, weight: 1", "visits, weight: 1, rows_per_group: 3")),
            "noise above value",
            "about 3 is expected",
        ),
        ((("columns:", "expected: {people: 600, rows: 15}\ncolumns:"),), "many groups", "Coarsen"),
        ((("columns:", "expected: {people: 3}\ncolumns:"),), "many figures", "rebuilt"),
        (
            (
                ("columns:", EXPECTED),
                ("{rho: 0.5}", "{rho: 500}"),
                ("visits, weight: 1", "visits, accuracy: {within: 0.9, confidence: 0.9}"),
            ),
            "exact figures",
            "exact",
        ),
        ((), "sizes not declared", "expected"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rule_speaks(pairs: tuple[tuple[str, str], ...], rule: str, said: str) -> None:
    found = _rules(changed(*pairs))
    assert rule in found and said in found[rule]


def test_many_combinations_are_counted() -> None:
    """Every pair of fifty categories of two columns, for two thousand people: more figures than people."""
    many = ", ".join(f"c{i}" for i in range(50))
    job = changed(
        ("columns:", "expected: {people: 2000, rows: 2000}\ncolumns:"),
        ("[north, south]", f"[{many}]"),
        ("ward: {type: text}", f"ward: {{type: text, categories: [{many}]}}"),
        (
            "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region",
            "SELECT region, ward, COUNT(*) AS n FROM visits GROUP BY region, ward",
        ),
    )
    found = _rules(job)
    assert "2501 figures" in found["many figures"] and "2500 groups" in found["many groups"]


def test_exact_figures_are_refused() -> None:
    with pytest.raises(JobError, match="exact figures cannot be released"):
        plan(changed(("visits, weight: 1", "visits, accuracy: {within: {n: 0}, confidence: 0.95}")))


PRIVATE = (
    ("{rho: 0.5}", "{epsilon: 1, delta: 1e-6}"),
    (
        'SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region", weight: 1',
        'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", weight: 1, keys: private',
    ),
)


def test_keys_that_too_few_have() -> None:
    found = plan(changed(("columns:", EXPECTED), *PRIVATE))
    needed = found["by_region"].people_needed
    assert needed is not None and 20 < needed < 20000 and found["overall"].people_needed is None
    assert "rare keys" not in {notice.rule for notice in found.warnings}
    said = _rules(changed(("columns:", f"expected: {{people: {needed - 1}}}\ncolumns:"), *PRIVATE))
    assert f"about {needed} people have it, and {needed - 1} are expected in all" in said["rare keys"]
    few = ("keys: private", "keys: private, rows_per_group: 5")
    assert "5 are expected in a group" in _rules(changed(("columns:", EXPECTED), *PRIVATE, few))["rare keys"]


def test_texts_that_are_published_as_they_are() -> None:
    assert "'ward'" in _rules(changed(("columns:", EXPECTED), *PRIVATE))["free text"]
    whole = (("ward: {type: text}", "ward: {type: integer}"),)
    assert "free text" not in _rules(changed(("columns:", EXPECTED), *PRIVATE, *whole))


@pytest.mark.parametrize(
    ("asked", "rows", "said"),
    [
        ("SUM(age) AS s", 2, "where about 110 is expected"),
        ("AVG(age) AS s", 2, "which is all that its bounds leave open"),
        ("CORR(age, age * 2) AS s", 2, "which is all that its bounds leave open"),
        ("SUM(age) AS s", 20000, ""),
        ("AVG(age) AS s", 20000, ""),
    ],
)
def test_noise_above_every_kind_of_value(asked: str, rows: int, said: str) -> None:
    """Two people's ages add up to 220 at most."""
    job = changed(
        ("columns:", EXPECTED),
        (
            "SELECT COUNT(*) AS n FROM visits, weight: 1, postprocess: {nonnegative: [n], whole: [n]}",
            f'"SELECT {asked} FROM visits", weight: 1, rows_per_group: {rows}',
        ),
    )
    found = _rules(job)
    assert said in found["noise above value"] if said else "noise above value" not in found
