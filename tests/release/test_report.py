"""The report: says what was promised and nothing that was not released, escapes everything, needs nothing from elsewhere."""

from __future__ import annotations

import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tacit import noise
from tacit.accounting import Composed, Gaussian, Laplace, account
from tacit.accounting.events.tree import Adjacency
from tacit.ledger import Ledger
from tacit.release import JobError, JobRun, plan, run
from tacit.release.job import EXAMPLE, parse
from tacit.release.report import NAME, Facts, _attack, cap, describe, limits, promise, read, relation, render, save, short
from tacit.tables.unit import Unit

CANARY = 48151623
HOSTILE = "</script><script>alert(1)</script>"
JOB = f"""
version: 1
title: "Visits {HOSTILE}"
purpose: "Beds & <b>money</b> {{{{ 7 * 7 }}}}"
sources:
  visits: {{path: visits.parquet}}
unit: {{person: patient_id, max_rows: 4, adjacency: add-remove}}
budget: {{epsilon: 1, delta: 1e-6}}
columns:
  patient_id: {{type: integer}}
  region: {{type: text, categories: [north, "<img src=x onerror=alert(2)>"]}}
  age: {{type: integer, bounds: [0, 110]}}
outputs:
  - name: by_region
    title: "By region <i>"
    sql: SELECT region, COUNT(*) AS visits, AVG(age) AS age FROM visits GROUP BY region
    weight: 2
    postprocess: {{nonnegative: [visits], whole: [visits]}}
  - name: overall
    sql: SELECT COUNT(*) AS visits FROM visits
    weight: 1
publication: {{folder: release, formats: [csv], confidence: 0.95}}
"""


def visits() -> pa.Table:
    people = list(range(CANARY, CANARY + 300))
    return pa.table(
        {
            "patient_id": people,
            "region": ["north" if person % 3 else HOSTILE for person in people],
            "age": [person % 90 for person in people],
        }
    )


def ran(base: Path, text: str = JOB, seed: int | None = None) -> JobRun:
    with Ledger.open(f"sqlite:///{base / 'tacit.db'}") as ledger:
        if seed is None:
            return run(parse(text), base=base, ledger=ledger, tables={"visits": visits()})
        with noise.test_mode(seed):
            return run(parse(text), base=base, ledger=ledger, tables={"visits": visits()})


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> JobRun:
    return ran(tmp_path_factory.mktemp("private"))


@pytest.fixture(scope="module")
def page(done: JobRun) -> str:
    return (done.folder / NAME).read_text(encoding="utf-8")


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "path", "circle", "rect", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def text_of(page: str) -> str:
    return " ".join(" ".join(Tags(page).text).split())


# --- safety -----------------------------------------------------------------------------------------------------------------------------


def check_safe(page: str) -> None:
    """Well nested; one script element, which holds data; no handler, no address of anything elsewhere."""
    found = Tags(page)
    assert not found.open
    scripts = [attributes for tag, attributes in found.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "tacit-report"}]
    assert not {tag for tag, _ in found.tags} & {"img", "iframe", "link", "object", "i"} and "<b>money" not in page
    for _, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not any((value or "").startswith(("http", "//", "data:", "javascript:")) for value in attributes.values())
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in page and "@import" not in page


def test_everything_is_escaped_and_nothing_is_fetched(page: str) -> None:
    check_safe(page)
    assert "{{ 7 * 7 }}" in text_of(page), "a template in a job is text"


@pytest.mark.parametrize("hole", [f"<p>{HOSTILE}</p>", "<img src=x onerror=alert(2)>", "<p>unclosed"])
def test_a_page_with_a_hole_is_caught(page: str, hole: str) -> None:
    """The mutant: a page that lets one text through unescaped does not pass the check above."""
    with pytest.raises(AssertionError):
        check_safe(page.replace("<h2>The budget</h2>", f"<h2>The budget</h2>{hole}"))


def test_no_row_is_in_the_report(page: str) -> None:
    assert not any(str(CANARY + i) in page for i in range(300))
    assert "salt" not in page and "patient_id" in page


# --- content ----------------------------------------------------------------------------------------------------------------------------


def test_figures_are_those_published(done: JobRun, page: str) -> None:
    record = read(done.folder / NAME)
    for output in record["outputs"]:
        answer = done.answers[output["name"]]
        for name, figure in output["figures"].items():
            assert figure["value"] == answer.figures[name].value.tolist()
            # ends are rounded away from the figure, by less than one unit here
            for drawn, low in zip(answer.figures[name].low.tolist(), figure["low"], strict=True):
                assert drawn - 1 < low <= drawn
            for drawn, high in zip(answer.figures[name].high.tolist(), figure["high"], strict=True):
                assert drawn <= high < drawn + 1
    north = done.answers["by_region"].figures["visits"]
    assert f"{north.value[0]:.4g}" in text_of(page)


def test_a_statistician_finds_everything(done: JobRun, page: str) -> None:
    text = text_of(page)
    for answer in done.answers.values():
        assert repr(answer.event) in text
        for part in answer.noise:
            assert part.measure in text and part.law.capitalize() in text
    assert "clamped to its declared bounds, 0 to 110" in text and "rows lost to the caps" in text
    assert "set to 0" in text and "rounded to whole numbers" in text
    assert done.head in text and done.plan.digest in text and done.record["code"]["hash"] in text
    assert str(done.entry) in read(done.folder / NAME)["record"]["ledger entries"].split(", ")
    shown = json.loads(read(done.folder / NAME)["event"])
    assert shown == done.record["event"]


def test_the_promise_is_an_upper_bound(done: JobRun) -> None:
    record = read(done.folder / NAME)
    cost = account(done.event, Adjacency.ADD_REMOVE)
    delta = float(done.plan.delta)
    assert float(record["promise"]["epsilon"]) >= cost.epsilon(delta).upper
    assert float(record["total"]["lower"]) <= cost.epsilon(delta).upper <= float(record["total"]["upper"])
    assert float(record["promise"]["accuracy"][:-2]) / 100 >= cost.accuracy(0.5).lower
    # any event of the plan is an attack on the whole: the best one on its largest part finds no more than the bound allows
    alone = account(done.answers["by_region"].event, Adjacency.ADD_REMOVE).tpr(0.01)
    assert alone.lower <= float(record["promise"]["rate"][:-2]) / 100 <= 0.01 * math.exp(cost.epsilon(delta).upper) + delta + 1e-4


@pytest.mark.parametrize("event", [Gaussian(1), Laplace(2), Gaussian(0.2)], ids=repr)
def test_the_attack_drawn_is_above_every_attack(event: Any) -> None:
    """Oracle: the accountant's own trade-off curve."""
    cost = account(event)
    points = _attack(cost, cost.epsilon(1e-6).upper, 1e-6)
    assert [x for x, _ in points] == sorted(x for x, _ in points) and points[-1] == (1.0, 1.0)
    for x, y in points:
        if x in (0.01, 0.1, 0.5, 0.9):
            truth = cost.tpr(x)
            assert truth.lower <= y <= truth.upper + 0.03, "a bound, and close enough for a picture"


def test_a_gaussian_attack_in_closed_form() -> None:
    """Oracle: Dong, Roth and Su 2022, tpr = Phi(Phi^-1(fpr) + mu)."""
    from statistics import NormalDist

    normal, cost = NormalDist(), account(Gaussian(1))
    for x, y in _attack(cost, cost.epsilon(1e-6).upper, 1e-6):
        if 0 < x < 1:
            assert normal.cdf(normal.inv_cdf(x) + 1) - 1e-12 <= y


def test_mu_is_told_for_gaussian_jobs_only() -> None:
    unit = Unit("id", max_rows=1)
    for event, mu in ((Composed(Gaussian(2), Gaussian(2)), math.sqrt(0.5)), (Laplace(1), None)):
        cost = account(event)
        told = promise(cost, cost.epsilon(1e-6), 1e-6, unit)["gdp"]
        assert told == "" if mu is None else mu <= float(told) < mu * 1.001


def test_the_files_are_listed_with_their_hashes(done: JobRun) -> None:
    files = read(done.folder / NAME)["files"]
    assert set(files) == {file.name for file in done.folder.iterdir()} - {NAME}
    for name, digest in files.items():
        assert hashlib.sha256((done.folder / name).read_bytes()).hexdigest() == digest


# --- marks and gaps ---------------------------------------------------------------------------------------------------------------------


def test_a_seeded_release_says_so(tmp_path: Path, page: str) -> None:
    seeded = (ran(tmp_path, seed=3).folder / NAME).read_text(encoding="utf-8")
    assert "NOT PRIVATE" in text_of(seeded) and 'role="alert"' in seeded
    assert "here from a seed" in text_of(seeded) and "here from a seed" not in text_of(page)
    assert "NOT PRIVATE" not in text_of(page) and 'role="alert"' not in page


def test_a_table_that_was_left_out_is_missed(done: JobRun) -> None:
    answers = {"overall": done.answers["overall"]}
    text = text_of(render(describe(done.plan, answers, Facts(made="now"))))
    assert "This table was left out." in text and "The page" not in text


def test_corrections_are_counted(done: JobRun) -> None:
    twice = Composed(done.plan.event, done.answers["overall"].event)
    plain, more = (describe(done.plan, done.answers, Facts(made="now", event=event)) for event in (None, twice))
    assert float(more["total"]["upper"]) > float(plain["total"]["upper"])
    assert float(more["promise"]["epsilon"]) >= account(twice).epsilon(float(done.plan.delta)).lower


def test_a_report_is_made_again_from_itself(done: JobRun, page: str, tmp_path: Path) -> None:
    assert render(read(done.folder / NAME)) == page
    assert save(read(done.folder / NAME), tmp_path).read_text(encoding="utf-8") == page


START = b'<script type="application/json" id="tacit-report">'


@pytest.mark.parametrize(
    "content",
    [b"", b"<html></html>", START + b"{</script>", b"\xff\xfe", START + b'{"format": 99}</script>'],
    ids=["empty", "no record", "broken", "not text", "another format"],
)
def test_what_is_no_report_is_refused(content: bytes, tmp_path: Path) -> None:
    place = tmp_path / NAME
    place.write_bytes(content)
    with pytest.raises(JobError, match=r"report|record"):
        read(place)
    with pytest.raises(JobError, match="cannot be read"):
        read(tmp_path / "none.html")


def test_a_long_table_is_cut_on_the_page_only(done: JobRun) -> None:
    record = describe(done.plan, done.answers, Facts(made="now"))
    many = record["outputs"][0]
    many["groups"] = {"region": [f"group {i}" for i in range(1000)]}
    many["figures"] = {"visits": {end: [float(i) for i in range(1000)] for end in ("value", "low", "high")}}
    many["released"], many["rows"] = {}, 1000
    page = render(record)
    body = page[: page.index('<script type="application/json"')]
    assert "group 199<" in body and "group 200<" not in body and "800 more rows are in the files" in body
    assert "1000 groups, from the largest to the smallest" in body


def test_missing_figures_are_dashes(done: JobRun) -> None:
    record = describe(done.plan, done.answers, Facts(made="now"))
    record["outputs"][1]["figures"]["visits"]["value"][0] = None
    assert ">–</td>" in render(record)


# --- words ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (Unit.row(), ["each single row", "one row is one unit", "is in the data or is not"]),
        (Unit("id", max_rows=3), ["each person (id)", "at most 3 rows", "chosen at random"]),
        (Unit("id", max_rows=3, capped=True), ["as declared"]),
        (Unit("id", max_groups=2, rows_per_group=5), ["at most 2 groups and at most 5 rows a group"]),
        (Unit("id", max_rows=3, window="month", when="day"), ["within one month"]),
        (Unit("id", max_rows=3, adjacency=Adjacency.REPLACE_ONE), ["exchanged for any other", "taken to be public"]),
    ],
    ids=["row", "person", "capped", "groups", "window", "replace"],
)
def test_units_in_words(unit: Unit, words: list[str]) -> None:
    said = " ".join((short(unit), cap(unit), relation(unit)))
    assert all(word in said for word in words), said


def test_what_is_not_protected_depends_on_the_unit() -> None:
    found = plan(parse(EXAMPLE))

    def said(unit: Unit) -> str:
        return " ".join(limits(found, unit))

    assert "several values of id" in said(Unit("id", max_rows=3))
    assert "more than one row" in said(Unit.row()) and "declared cap" not in said(Unit.row())
    assert "declared, not enforced" in said(Unit("id", max_rows=3, capped=True))
    assert "declared, not enforced" in said(Unit.node(ends=("src", "dst"), max_rows=50, capped=True))
    assert "each month is protected by itself" in said(Unit("id", max_rows=3, window="month", when="day"))
    assert "How many people there are" in said(Unit("id", max_rows=3, adjacency=Adjacency.REPLACE_ONE))
    assert re.search("possible values of region", said(Unit.row()))


def test_a_page_for_each_audience(tmp_path: Path) -> None:
    """The public sees the promise and the tables, an officer the promise and the record; the figures are the same."""
    from tacit.release.report import AUDIENCES, for_audience

    record = describe(plan(parse(EXAMPLE)), {}, Facts(made="2026-01-01"))
    whole = render(record)
    for audience, shown in AUDIENCES.items():
        page = for_audience(record, audience)
        for part in ("promise", "tables", "budget", "review", "record"):
            assert (f'<section id="{part}">' in page) == (part in shown) and (f'href="#{part}"' in page) == (part in shown)
    assert for_audience(record, "all") == whole and record["promise"]["epsilon"] in for_audience(record, "public")
    with pytest.raises(JobError, match="audience"):
        for_audience(record, "press")
