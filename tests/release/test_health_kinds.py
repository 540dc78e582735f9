"""Survival curves, cohorts, contingency tables and association studies in release jobs: planned, paid, drawn, published."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from tests.applications.health.files import write_plink

from tacit.ledger import BudgetExceeded, Ledger
from tacit.release import JobError, plan, run
from tacit.release.job import parse

HEAD = """
version: 1
title: A trial
purpose: Tell how patients fare.
sources: {patients: {path: patients.parquet}}
unit: {person: id, max_rows: 1, adjacency: add-remove}
budget: {epsilon: 6, delta: 0}
expected: {rows: 3000}
columns:
  id: {type: integer}
  months: {type: number}
  died: {type: integer}
  arm: {type: text, categories: [drug, placebo]}
  better: {type: text, categories: ["yes", "no"]}
publication: {folder: release, formats: [csv], confidence: 0.95}
outputs:
"""
SURVIVAL = (
    "  - {name: lived, kind: survival, source: patients, time: months, event: died, bins: {upto: 60, count: 12}, "
    "by: [arm], weight: 3}\n"
)
COHORT = "  - {name: old, kind: cohort, source: patients, where: months > 30, at_most: 5000, loss: {over: 2, under: 1}, weight: 1}\n"
TABLE = "  - {name: helped, kind: contingency, source: patients, rows: arm, columns: better, weight: 2}\n"


def patients(n: int = 3000) -> pa.Table:
    rng = np.random.default_rng(4)
    arm = rng.choice(["drug", "placebo"], n)
    lived = rng.exponential(np.where(arm == "drug", 60.0, 25.0))
    followed = rng.uniform(0, 60, n)
    months = np.minimum(lived, followed)
    months[:3] = np.nan, -1.0, np.inf
    better = np.where(rng.random(n) < np.where(arm == "drug", 0.7, 0.4), "yes", "no")
    return pa.table({"id": np.arange(n), "months": months, "died": (lived <= followed).astype(int), "arm": arm, "better": better})


def test_a_trial_is_planned_paid_and_published(tmp_path: Path) -> None:
    job = parse(HEAD + SURVIVAL + COHORT + TABLE)
    planned = plan(job, base=tmp_path)
    assert planned.cost.upper <= 6 and planned["lived"].foretold[0] < 0.05
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    done = run(job, base=tmp_path, ledger=book, tables={"patients": patients()})
    names = sorted(path.name for path in done.folder.iterdir())
    assert {"lived.csv", "lived_told.json", "old.csv", "helped.csv", "report.html"} <= set(names)
    whole = csv.read_csv(done.folder / "lived.csv")  # both arms in one table, and times are numbers
    assert whole.column("arm").unique().to_pylist() == ["drug", "placebo"] and pa.types.is_integer(whole.schema.field("months").type)
    shown = repr(done.answers["lived"]).splitlines()
    assert shown[0].startswith("arm drug: months 0: 1 (1 to 1), 10: ") and shown[-1].startswith("log-rank") and len(shown) == 7
    told = json.loads((done.folder / "lived_told.json").read_text())
    assert float(told["log-rank test of equal hazards"].partition("p = ")[2].split()[0]) < 0.01
    assert "p = 0.00" in json.loads((done.folder / "helped_told.json").read_text())["test of independence"]
    drug, placebo = done.answers["lived"].parts
    assert drug.value[6] > placebo.value[6] + 0.1 and drug.low[6] <= drug.value[6] <= drug.high[6]
    truth = sum(1 for x in patients().column("months").to_pylist() if x > 30)
    assert abs(done.answers["old"].parts[0].value[0] - truth) < 60
    kinds = [output["kind"] for output in done.record["outputs"]]
    assert kinds == ["survival", "cohort", "contingency"]
    page = (done.folder / "report.html").read_text(encoding="utf-8")
    assert "log-rank" in page and "<svg" in page and "drug" in page


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (SURVIVAL.replace("{upto: 60, count: 12}", "[0, 30, 20]"), "unsorted"),
        (SURVIVAL.replace("time: months", "time: nothing"), "nothing"),
        (SURVIVAL.replace("by: [arm]", "by: [months]"), "different columns"),
        (SURVIVAL.replace("source: patients", "source: others"), "no private source"),
        (COHORT.replace("at_most: 5000, ", ""), "at_most"),
        (COHORT.replace("over: 2", "over: -2"), "over"),
        (TABLE.replace("columns: better", "columns: months"), "no cells"),
        (TABLE.replace("columns: better", "columns: arm"), "different columns"),
        ("  - {name: g, kind: gwas, file: s.bed, cases: 2, controls: 2, k: 1, weight: 1}\n", "replace-one"),
    ],
)
def test_what_is_not_declared_is_refused(output: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=said):
        plan(parse(HEAD + output), base=tmp_path)


def test_several_rows_a_patient_need_a_rule(tmp_path: Path) -> None:
    several = HEAD.replace("max_rows: 1", "max_rows: 4")
    with pytest.raises(JobError, match="rows: one"):
        plan(parse(several + SURVIVAL))
    ruled = plan(parse(several + SURVIVAL.replace("weight: 3", "weight: 3, rows: one")))
    assert ruled["lived"].event == plan(parse(HEAD + SURVIVAL))["lived"].event


def test_the_budget_in_rho_gets_gaussian_curves() -> None:
    job = parse(HEAD.replace("{epsilon: 6, delta: 0}", "{rho: 0.5}") + SURVIVAL + TABLE)
    assert {output.noise for output in plan(job).outputs} == {"gaussian"}


# --- association ---

GWAS = """
version: 1
title: A study
purpose: Find variants.
sources: {people: {path: people.parquet}}
unit: {person: id, max_rows: 1, adjacency: replace-one}
budget: {epsilon: 6, delta: 0}
columns: {id: {type: integer}}
publication: {folder: release, formats: [csv], confidence: 0.95}
outputs:
  - {name: found, kind: gwas, file: study.bed, cases: 120, controls: 150, k: 2, gamma: 10, statistics: 0.5, weight: 1}
"""


def test_a_study_is_published_from_plink_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    shares = np.where(np.arange(40) < 2, 0.9, 0.3)
    counts = np.vstack([rng.binomial(2, shares, (120, 40)), rng.binomial(2, 0.3, (150, 40))])
    write_plink(tmp_path / "study", counts, [2] * 120 + [1] * 150)
    people = pa.table({"id": np.arange(270)})
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    done = run(parse(GWAS), base=tmp_path, ledger=book, tables={"people": people})
    assert set(done.answers["found"].parts[0].groups["variant"]) == {"snp1", "snp2"}
    assert min(done.answers["found"].parts[0].value) > 10


def test_a_study_without_its_files_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    with pytest.raises(JobError, match="fam"):
        run(parse(GWAS), base=tmp_path, ledger=book, tables={"people": pa.table({"id": [1, 2]})})
    assert book.accounts() == [] or not list(book.accounts())
    write_plink(tmp_path / "study", np.zeros((4, 2), dtype=int), [2, 1, 1, 0])
    with pytest.raises(JobError, match="public numbers"):
        plan(parse(GWAS), base=tmp_path)


def test_genotypes_beside_another_table_have_no_second_budget(tmp_path: Path) -> None:
    write_plink(tmp_path / "study", np.zeros((270, 40), dtype=int), [2] * 120 + [1] * 150)
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    run(parse(GWAS), base=tmp_path, ledger=book, tables={"people": pa.table({"id": np.arange(270)})})
    for end in ("bed", "bim", "fam"):
        (tmp_path / f"copy.{end}").write_bytes((tmp_path / f"study.{end}").read_bytes())
    text = GWAS.replace("A study", "Another study").replace("study.bed", "copy.bed").replace("folder: release", "folder: again")
    with pytest.raises(BudgetExceeded):
        run(parse(text), base=tmp_path, ledger=book, tables={"people": pa.table({"id": np.arange(1000, 1270)})})


@pytest.mark.parametrize("unit", ["max_rows: 2", "max_rows: 1, window: day, when: seen"])
def test_a_person_has_one_row_of_genotypes_for_good(unit: str) -> None:
    """Under a window the same genotypes would have a new budget every day."""
    text = GWAS.replace("max_rows: 1", unit).replace("{id: {type: integer}}", "{id: {type: integer}, seen: {type: date}}")
    text = text.replace("budget:", "period: '2026-03-01'\nbudget:") if "window" in unit else text
    with pytest.raises(JobError, match="one row of genotypes"):
        plan(parse(text))
