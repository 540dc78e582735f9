"""The commands for jobs: what they print is what was planned and published, and whatever is wrong is one line with the right status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import typer
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tacit.cli import blank_job, demo, jobs
from tacit.cli.app import Commands
from tacit.cli.numbers import OptionError
from tacit.ledger import Ledger
from tacit.release import load, plan

CANARY = 48151623
JOB = """
version: 1
title: Visits by region
purpose: Show how many visits each region had.
sources:
  visits: {path: visits.parquet}
unit: {person: patient_id, max_rows: 4, adjacency: add_remove}
budget: {epsilon: 1, delta: 1e-6}
expected: {people: 2000, rows: 4000}
columns:
  patient_id: {type: integer}
  region: {type: text, categories: [north, south]}
  age: {type: integer, bounds: [0, 110]}
outputs:
  - name: by_region
    sql: SELECT region, COUNT(*) AS visits, AVG(age) AS age FROM visits GROUP BY region
    weight: 1
publication: {folder: release, formats: [csv], confidence: 0.95}
"""


def application() -> typer.Typer:
    """The commands of jobs alone, behind the same reporting of errors as all others."""
    app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    jobs.register(app)
    demo.register(app)
    return app


APP = application()


def ask(*words: object, **extra: Any) -> Any:
    result = CliRunner().invoke(APP, [str(word) for word in words], **extra)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*words: object) -> dict[str, Any]:
    result = ask(*words, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1, "one object on one line"
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def complaint(*words: object, status: int = 2) -> str:
    result = ask(*words)
    assert result.exit_code == status, result.output
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    return str(result.stderr).strip()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    people = [CANARY + i % 2000 for i in range(4000)]
    table = pa.table({"patient_id": people, "region": ["north", "south"] * 2000, "age": [i % 90 for i in range(4000)]})
    pq.write_table(table, tmp_path / "visits.parquet")
    place = tmp_path / "job.yaml"
    place.write_text(JOB, encoding="utf-8")
    return place


def changed(job: Path, old: str, new: str) -> Path:
    text = job.read_text(encoding="utf-8")
    assert old in text
    job.write_text(text.replace(old, new), encoding="utf-8")
    return job


# --- init -------------------------------------------------------------------------------------------------------------------------------


def filled(text: str) -> str:
    decided = {"title": "T", "purpose": "P", "person": "patient_id", "max_rows": "4", "epsilon": "1", "delta": "1e-6"}
    for name, value in decided.items():
        text = text.replace(f"{name}: ???", f"{name}: {value}")
    return text


def test_init_writes_a_job_that_plans_once_it_is_filled_in(job: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    result = ask("init", tmp_path / "visits.parquet", "--out", new)
    assert result.exit_code == 0 and "6 blanks" in result.stdout
    text = new.read_text(encoding="utf-8")
    assert text.count("???") == 6 + 1, "the comment at the top explains them"
    assert "line 6 still has a blank" in complaint("plan", new)
    new.write_text(filled(text), encoding="utf-8")
    assert answer("plan", new, "--quick")["outputs"][0]["name"] == "overall"
    assert {name: spec.type for name, spec in load(new).columns.items()} == {"patient_id": "integer", "region": "text", "age": "integer"}


def test_init_reads_no_row(tmp_path: Path) -> None:
    """Files whose rows cannot be read: the schema is enough."""
    table = pa.table({"patient_id": [CANARY], "cost": [1.5], "when": pa.array([0], pa.date32())})
    pq.write_table(table, tmp_path / "a.parquet")
    damaged = bytearray((tmp_path / "a.parquet").read_bytes())
    footer = int.from_bytes(damaged[-8:-4], "little") + 8
    damaged[4:-footer] = b"\0" * (len(damaged) - footer - 4)
    (tmp_path / "a.parquet").write_bytes(damaged)
    with pytest.raises(Exception):  # noqa: B017 - the mutant: whoever reads rows of this file fails
        pq.read_table(tmp_path / "a.parquet")
    text = ask("init", tmp_path / "a.parquet").stdout
    assert yaml.safe_load(text)["columns"] == {"patient_id": {"type": "integer"}, "cost": {"type": "number"}, "when": {"type": "date"}}
    (tmp_path / "b.csv").write_text(f"patient_id,no\n{CANARY},1\n", encoding="utf-8")
    text = ask("init", tmp_path / "b.csv").stdout
    assert list(yaml.safe_load(text)["columns"]) == ["patient_id", "no"] and str(CANARY) not in text


def test_init_of_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'clinic.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE visits (patient_id BIGINT, region VARCHAR(9), cost DOUBLE PRECISION)"))
    engine.dispose()
    found = yaml.safe_load(ask("init", url, "--table", "visits").stdout)
    assert found["sources"] == {"visits": {"url": url, "table": "visits"}}
    assert found["columns"] == {"patient_id": {"type": "integer"}, "region": {"type": "text"}, "cost": {"type": "number"}}
    assert "--table is missing" in complaint("init", url)
    for wrong in ((url, "--table", "nothing"), ("nosuch://me:secret@host/x", "--table", "t")):
        assert "secret" not in complaint("init", *wrong)


def test_init_refuses(tmp_path: Path) -> None:
    assert "there is no such file" in complaint("init", tmp_path / "none.parquet")
    contents = {"a.txt": b"", "a.parquet": b"no", "a.arrow": b"no", "a.csv": b"", "b.csv": f"{CANARY},2\n".encode(), "c.csv": b"a,a\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert str(CANARY) not in complaint("init", tmp_path / name)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "good.parquet")
    (tmp_path / "there.yaml").write_text("mine", encoding="utf-8")
    assert "does not exist yet" in complaint("init", tmp_path / "good.parquet", "--out", tmp_path / "there.yaml")
    assert (tmp_path / "there.yaml").read_text(encoding="utf-8") == "mine"


@settings(max_examples=60)
@given(st.dictionaries(st.text(min_size=1, max_size=12), st.sampled_from(["integer", "text", "???"]), max_size=5), st.text(max_size=20))
def test_any_schema_makes_yaml(columns: dict[str, str], name: str) -> None:
    source = f"{name.replace(chr(0), '')}.parquet"
    found = yaml.safe_load(blank_job.text(source, columns))
    assert found["sources"] and next(iter(found["sources"].values()))["path"] == source
    assert {key: column["type"] for key, column in (found["columns"] or {}).items()} == columns


# --- validate, plan, explain, rehearse ------------------------------------------------------------------------------------------------


def test_plan_tells_what_the_planner_found(job: Path) -> None:
    found = answer("plan", job, "--quick")
    planned = plan(load(job))
    assert found["cost"]["upper"] == planned.cost.upper <= 1
    assert found["outputs"][0]["errors"] == dict(planned.outputs[0].errors)
    assert found["job"] == planned.digest and found["suggestions"] == []
    text = ask("plan", job).stdout
    assert "Visits by region" in text and "by_region" in text and f"{planned.outputs[0].errors['visits']:.4g}" in text
    assert not (job.parent / "tacit.db").exists(), "nothing was booked"


def test_planning_needs_no_data(job: Path) -> None:
    (job.parent / "visits.parquet").unlink()
    for words in (("plan", job), ("validate", job), ("explain", job, "by_region")):
        assert ask(*words).exit_code == 0


def test_plan_makes_suggestions(job: Path) -> None:
    assert any("errors 0." in line for line in answer("plan", job)["suggestions"])


def test_validate(job: Path) -> None:
    assert answer("validate", job) == {"valid": True, "warnings": []}
    assert ask("validate", job, "--strict").exit_code == 0
    changed(job, "people: 2000", "people: 20")
    assert answer("validate", job)["warnings"]
    result = ask("validate", job, "--strict")
    assert result.exit_code == 1 and "warning: " in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max_rows: 4", "max_row: 4", "unit.max_row"),
        ("epsilon: 1", "epsilon: 0", "budget"),
        ("COUNT(*)", "EXPLODE(*)", "outputs[0].sql"),
        ("bounds: [0, 110]", "nullable: true", "bounds"),
        ("title: Visits", "title: [", "YAML"),
    ],
    ids=["field", "budget", "sql", "bounds", "yaml"],
)
@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_what_is_wrong_with_a_job_is_one_line(job: Path, command: str, old: str, new: str, said: str) -> None:
    changed(job, old, new)
    line = complaint(command, job, *(["--yes"] if command == "run" else []))
    assert said in line
    result = ask(command, job, "--json", *(["--yes"] if command == "run" else []))
    assert result.exit_code == 2 and said in json.loads(result.stdout)["error"]


def test_explain(job: Path) -> None:
    text = ask("explain", job, "by_region").stdout
    assert "at most 4 rows of one unit" in text and "SELECT" in text
    assert answer("explain", job, "by_region")["output"] == "by_region"
    assert "there are by_region" in complaint("explain", job, "nothing")


def test_rehearse_is_marked(job: Path) -> None:
    found = answer("rehearse", job, "--rows", 400, "--runs", 2)
    assert found["mark"].startswith("NOT PRIVATE") and set(found["errors"]) == {"by_region.visits", "by_region.age"}
    text = ask("rehearse", job, "--runs", 2, "--public", f"visits={job.parent / 'visits.parquet'}").stdout
    assert text.startswith("NOT PRIVATE") and "public data" in text
    assert "--public must be SOURCE=FILE" in complaint("rehearse", job, "--public", "x")
    assert "cannot be read" in complaint("rehearse", job, "--public", "visits=none.parquet")
    assert not (job.parent / "tacit.db").exists()


# --- run and report ---------------------------------------------------------------------------------------------------------------------


def test_run_publishes_once(job: Path) -> None:
    folder, book = job.parent / "release", job.parent / "book.db"
    result = ask("run", job, "--yes", "--ledger", book, "--analyst", "ann")
    assert result.exit_code == 0, result.output
    assert "report.html" in result.stdout and (folder / "report.html").exists()
    published = (folder / "by_region.csv").read_text(encoding="utf-8")
    for cell in re.findall(r"\d+\.\d+", published)[:2]:
        assert f"{float(cell):.6g}" in result.stdout, "what is printed is what is published"
    with Ledger.open(f"sqlite:///{book}", create=False) as ledger:
        spends = [entry for entry in ledger.entries() if entry["kind"] == "reserve"]
    assert len(spends) == 1 and spends[0]["analyst"] == "ann"
    assert "never overwritten" in complaint("run", job, "--yes", "--ledger", book)
    changed(job, "folder: release", "folder: again")
    assert str(CANARY) not in complaint("run", job, "--yes", "--ledger", book)
    assert not (job.parent / "again").exists(), "the budget is spent"


def test_run_asks_before_it_pays(job: Path) -> None:
    assert "--yes is missing" in complaint("run", job)
    assert not (job.parent / "tacit.db").exists() and not (job.parent / "release").exists()


def test_run_as_json_and_report(job: Path) -> None:
    found = answer("run", job, "--yes")
    folder = Path(found["folder"])
    assert found["private"] and found["outputs"] == ["by_region"] and folder.is_dir()
    told = answer("report", folder)
    assert told["title"] == "Visits by region" and told["files"] == {} and found["head"] in told["record"].values()
    text = ask("report", folder, "--out", job.parent / "page.html").stdout
    assert "files are as they were published" in text and "epsilon at most" in text
    assert (job.parent / "page.html").read_text(encoding="utf-8") == (folder / "report.html").read_text(encoding="utf-8")


def test_report_notices_a_changed_file(job: Path) -> None:
    folder = Path(answer("run", job, "--yes")["folder"])
    with (folder / "by_region.csv").open("a", encoding="utf-8") as stream:
        stream.write("west,1\n")
    (folder / "registry.yaml").unlink()
    result = ask("report", folder, "--json")
    assert result.exit_code == 1 and json.loads(result.stdout)["files"] == {"by_region.csv": "changed", "registry.yaml": "missing"}
    assert ask("report", folder).exit_code == 1


def test_report_refuses(tmp_path: Path) -> None:
    assert "cannot be read" in complaint("report", tmp_path)
    start = '<script type="application/json" id="tacit-report">'
    (tmp_path / "report.html").write_text(f'{start}{{"format": 1}}</script>', encoding="utf-8")
    assert "damaged" in complaint("report", tmp_path)


def test_a_run_that_fails_after_paying_has_status_1(job: Path) -> None:
    changed(job, "    weight: 1", "    weight: 1\n    checks: {visits: {least: 1000000000000.0}}")
    line = complaint("run", job, "--yes", status=1)
    assert "by_region" in line and not (job.parent / "release").exists()
    result = ask("run", job, "--yes", "--json")
    assert result.exit_code == 1 and "error" in json.loads(result.stdout)


def test_rows_are_in_no_output(job: Path) -> None:
    asked = (("plan", job), ("run", job, "--yes"), ("report", job.parent / "release"), ("explain", job, "by_region"))
    said = [ask(*words).output for words in asked]
    assert not any(str(CANARY + i) in text for text in said for i in range(0, 2000, 97))


def test_help_is_there_for_every_command() -> None:
    for name in ("init", "validate", "plan", "run", "report", "explain", "rehearse", "demo"):
        result = ask(name, "--help")
        assert result.exit_code == 0 and "Examples" in result.stdout, name


def test_blanks_in_comments_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# ??? is a blank\ntitle: x  # ???\n", encoding="utf-8")
    blank_job.refuse_blanks(str(tmp_path / "a.yaml"))
    (tmp_path / "b.yaml").write_text("title: ???\n", encoding="utf-8")
    with pytest.raises(OptionError, match="line 1 still has a blank"):
        blank_job.refuse_blanks(str(tmp_path / "b.yaml"))


def test_plans_count_the_rows_of_public_tables_beside_the_job(job: Path) -> None:
    """Where nothing is capped, one row meets as many rows of a public table as share its key: the file beside the job says how many."""
    pq.write_table(pa.table({"region": ["north", "north", "north", "south"], "ward": ["a", "b", "c", "d"]}), job.parent / "wards.parquet")
    changed(job, "{path: visits.parquet}", "{path: visits.parquet}\n  wards: {path: wards.parquet, public: true}")
    changed(job, "unit: {person: patient_id, max_rows: 4, adjacency: add_remove}", "unit: {row: true, adjacency: add_remove}")
    changed(job, "patient_id: {type: integer}", "patient_id: {type: integer, table: visits}\n  wards.region: {type: text}")
    changed(job, "  region: {type: text,", "  ward: {type: text, table: wards}\n  region: {type: text, table: visits,")
    changed(job, "age: {type: integer,", "age: {type: integer, table: visits,")
    joined = "SELECT COUNT(*) AS n FROM visits v JOIN wards w ON v.region = w.region"
    changed(job, "SELECT region, COUNT(*) AS visits, AVG(age) AS age FROM visits GROUP BY region", joined)
    with_file = answer("plan", job, "--quick", "--json")
    assert "at most 3 rows for each" in ask("explain", job, "by_region").stdout
    (job.parent / "wards.parquet").unlink()
    without = answer("plan", job, "--quick", "--json")

    def error(found: dict[str, Any]) -> float:
        return float(found["outputs"][0]["errors"]["n"]) - 0.5  # the rounding of the noise, which is there in both

    assert error(with_file) == pytest.approx(3 * error(without), rel=1e-6)
