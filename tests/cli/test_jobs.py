"""The commands for jobs: what they print is what was planned and published, and whatever is wrong is one line with the right status."""

from __future__ import annotations

import gzip
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
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tacit.cli import blank_job, demo, jobs
from tacit.cli.app import Commands
from tacit.cli.options import OptionError
from tacit.ledger import Ledger
from tacit.release import load, plan

CANARY = 48151623
JOB = """
version: 1
title: Visits by region
purpose: Show how many visits each region had.
sources:
  visits: {path: visits.parquet}
unit: {person: patient_id, max_rows: 4, adjacency: add-remove}
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


def test_a_blank_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "stops.csv").write_text("idNum,personSearch,paid\n")
    new = tmp_path / "new.yaml"
    assert ask("init", tmp_path / "stops.csv", "--out", new).exit_code == 0
    assert "(perhaps idNum)." in new.read_text(encoding="utf-8")
    said = ask("validate", new).output
    assert "new.yaml: 9 errors" in said and said.count("still has a blank") == 9 and "must be" not in said


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
    assert "no such file" in complaint("rehearse", job, "--public", "visits=none.parquet")
    assert "no output" in complaint("rehearse", job, "--runs", 1, "--rows", 50, "--by", "colour")
    assert not (job.parent / "tacit.db").exists()


def test_rehearse_writes_who_pays_as_a_page(job: Path) -> None:
    page = job.parent / "who.html"
    ask("rehearse", job, "--rows", 400, "--runs", 2, "--by", "region", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "NOT PRIVATE" in text and "<svg" in text and "Who pays for the noise, by region" in text
    assert "judged wrongly against a threshold" in text  # what every report of tables foretells by size
    assert "--by" in complaint("rehearse", job, "--rows", 50, "--runs", 1, "--html", page)


def test_rehearse_says_who_pays(job: Path) -> None:
    found = answer("rehearse", job, "--rows", 400, "--runs", 2, "--by", "region")["by"]
    assert found["key"] == "region" and {(row["value"], row["figure"]) for row in found["errors"]} == {
        (region, figure) for region in ("north", "south") for figure in ("visits", "age")
    }
    text = ask("rehearse", job, "--rows", 400, "--runs", 2, "--by", "region").stdout
    assert "by_region by region" in text and "two people in five" in " ".join(text.split())


def test_public_data_is_read_with_the_declared_types(job: Path) -> None:
    """A column of digits that is declared as text is text, and public tables of the job itself are taken as they are."""
    (job.parent / "names.csv").write_text("code,name\n01,north\n02,south\n")
    text = JOB.replace("[north, south]}", "['01', '02'], table: visits}").replace("{type: integer", "{table: visits, type: integer")
    text = text.replace("  visits: {path: visits.parquet}", "  visits: {path: visits.parquet}\n  names: {path: names.csv, public: true}")
    text = text.replace(
        "outputs:", "  code: {type: text, table: names}\n  name: {type: text, table: names, categories: [north, south]}\noutputs:"
    )
    text = text.replace("SELECT region, COUNT(*)", "SELECT name, COUNT(*)").replace(
        "FROM visits GROUP BY region", "FROM visits JOIN names ON visits.region = names.code GROUP BY name"
    )
    job.write_text(text)
    (job.parent / "old.csv").write_text("patient_id,region,age\n1,01,30\n2,01,50\n3,02,x\n")
    assert "--public visits=FILE is missing" in complaint("rehearse", job, "--public", f"names={job.parent / 'names.csv'}")
    found = answer("rehearse", job, "--runs", 2, "--public", f"visits={job.parent / 'old.csv'}", "--by", "name")
    assert [row["suppression error"] for row in found["by"]["errors"] if row["figure"] == "visits"] == [2, 1]


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
    jobs.refuse_blanks(str(tmp_path / "a.yaml"))
    (tmp_path / "b.yaml").write_text("title: ???\n", encoding="utf-8")
    with pytest.raises(OptionError, match="line 1 still has a blank"):
        jobs.refuse_blanks(str(tmp_path / "b.yaml"))


def test_plans_count_the_rows_of_public_tables_beside_the_job(job: Path) -> None:
    """Where nothing is capped, one row meets as many rows of a public table as share its key: the file beside the job says how many."""
    pq.write_table(pa.table({"region": ["north", "north", "north", "south"], "ward": ["a", "b", "c", "d"]}), job.parent / "wards.parquet")
    changed(job, "{path: visits.parquet}", "{path: visits.parquet}\n  wards: {path: wards.parquet, public: true}")
    changed(job, "unit: {person: patient_id, max_rows: 4, adjacency: add-remove}", "unit: {row: true, adjacency: add-remove}")
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


# --- what a stranger meets ----------------------------------------------------------------------------------------------------------------


def test_a_job_finds_its_data_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is named from where one stands, and read from where the job is."""
    (tmp_path / "data").mkdir()
    (tmp_path / "jobs").mkdir()
    pq.write_table(pa.table({"member_id": [1], "ward": ["A"], "age": [3]}), tmp_path / "data" / "stays.parquet")
    monkeypatch.chdir(tmp_path)
    ask("init", "data/stays.parquet", "--out", "jobs/job.yaml")
    text = (tmp_path / "jobs" / "job.yaml").read_text()
    assert yaml.safe_load(text)["sources"]["stays"]["path"] == "../data/stays.parquet"
    assert "#   sql: SELECT ward, COUNT(*) AS n, AVG(age) AS mean FROM stays GROUP BY ward" in text
    whole = tmp_path / "data" / "stays.parquet"
    assert yaml.safe_load(ask("init", whole).stdout)["sources"]["stays"]["path"] == str(whole)


def test_the_commented_parts_of_a_new_job_are_true(tmp_path: Path) -> None:
    """Filled in, and with the comments taken away, it can be planned."""
    pq.write_table(pa.table({"member_id": [1], "ward": ["A"], "age": [3]}), tmp_path / "stays.parquet")
    text = ask("init", tmp_path / "stays.parquet").stdout
    for answer_ in ("Stays", "Plan beds", "member_id", "4", "1", "1e-6"):
        text = re.sub(r"(?m)^([^#\n]*)\?\?\?", lambda found, given=answer_: found[1] + given, text, count=1)
    text = text.replace("# expected: {", "expected: {").replace("  # - name", "  - name").replace("  #   ", "    ")
    text = text.replace("age: {type: integer}", "age: {type: integer, bounds: [0, 110]}").replace(
        "{type: text}", "{type: text, categories: [A, B]}"
    )
    (tmp_path / "job.yaml").write_text(text)
    assert [output["name"] for output in answer("plan", tmp_path / "job.yaml", "--quick")["outputs"]] == ["overall", "by_ward"]


def test_a_fault_names_the_file_and_the_output(job: Path) -> None:
    job.write_text(JOB.replace("AVG(age)", "AVG(aeg)"))
    for command in (("plan",), ("validate",), ("explain", "by_region"), ("rehearse",), ("run", "--yes")):
        said = complaint(command[0], job, *command[1:])
        assert f"{job}: outputs[0].sql (by_region): there is no column aeg" in said
    assert "No such file or directory" in complaint("plan", job.parent / "none.yaml")


def test_keys_that_are_selected_say_how_many_people_they_need(job: Path) -> None:
    job.write_text(JOB.replace(", categories: [north, south]", "").replace("    weight: 1", "    weight: 1\n    keys: private"))
    needed = answer("plan", job, "--quick")["outputs"][0]["people_needed"]
    assert f"a key appears where about {needed:,} people or more have it" in ask("plan", job, "--quick").stdout


def test_shares_add_up_and_what_is_computed_is_shown(job: Path) -> None:
    more = "  - {name: overall, sql: SELECT COUNT(*) AS n FROM visits, weight: 1}\npublication:"
    job.write_text(JOB.replace("AVG(age) AS age", "SUM(age) / COUNT(*) AS age").replace("publication:", more))
    text = ask("plan", job, "--quick").stdout
    assert text.count("50.0%") == 2 and re.search(r"age +of the above", text)


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        ((KeyboardInterrupt,), 130, "interrupted. What was paid stays paid: run the same job again"),
        ((OSError, 28, "No space left on device", "/secret/48151623"), 1, "No space left on device"),
        ((ValueError, "48151623 is not a number"), 2, "a fault of Tacit's own (ValueError)"),
    ],
    ids=["interrupted", "full", "fault"],
)
def test_a_run_that_is_stopped_says_how_to_go_on(
    job: Path, monkeypatch: pytest.MonkeyPatch, fault: tuple[Any, ...], status: int, said: str
) -> None:
    """And quotes nothing: the words of a fault may be about a row."""
    from tacit.release import running

    with monkeypatch.context() as patched:
        patched.setattr(running.record, "record", _raising(*fault))
        result = ask("run", job, "--yes", "--ledger", job.parent / "book.db")
    assert result.exit_code == status and said in result.stderr and str(CANARY) not in result.stderr
    assert not (job.parent / "release").exists()
    again = ask("run", job, "--yes", "--ledger", job.parent / "book.db")
    assert again.exit_code == 0 and (job.parent / "release" / "report.html").exists()
    with Ledger.open(f"sqlite:///{job.parent / 'book.db'}") as book:
        assert [entry["kind"] for entry in book.entries()].count("reserve") == 1, "it was paid once"


def _raising(kind: type[BaseException], *words: object) -> Any:
    def raised(*_: Any, **__: Any) -> None:
        raise kind(*words)

    return raised


def test_a_lost_output_is_told_in_options(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaussian noise, and no delta left to pay for it once more."""
    from tacit.tables import Desk

    more = "\n".join(f"  - {{name: n{i}, sql: SELECT COUNT(*) AS n FROM visits, weight: 1}}" for i in range(30))
    job.write_text(JOB.replace("publication:", f"{more}\npublication:"))
    with monkeypatch.context() as patched:
        patched.setattr(Desk, "draw", _raising(KeyboardInterrupt))
        assert ask("run", job, "--yes", "--ledger", job.parent / "book.db").exit_code == 130
    refused = ask("run", job, "--yes", "--ledger", job.parent / "book.db")
    assert refused.exit_code == 1 and "--lost correct" in refused.stderr and "--lost leave-out" in refused.stderr
    poor = ask("run", job, "--yes", "--lost", "correct", "--ledger", job.parent / "book.db")
    assert poor.exit_code == 2 and "no delta is left" in poor.stderr and "budget.reserve" in poor.stderr
    rest = ask("run", job, "--yes", "--lost", "leave-out", "--ledger", job.parent / "book.db")
    assert rest.exit_code == 0 and "left out: by_region" in rest.stdout


@pytest.mark.parametrize(
    ("name", "mark", "written"),
    [("a.csv", ",", None), ("a.csv", ";", ";"), ("a.csv", "\t", "\t"), ("a.tsv", "\t", None), ("a.csv.gz", "|", "|")],
)
def test_files_as_people_have_them(tmp_path: Path, name: str, mark: str, written: str | None) -> None:
    """Whatever stands between the values, the job that init writes reads them, once it is filled in."""
    rows = "\n".join(mark.join(line) for line in [("id", "größe", "a.b"), *((str(i), str(i % 7), "x") for i in range(300))])
    with (
        gzip.open(tmp_path / name, "wt", encoding="utf-8")
        if name.endswith("gz")
        else (tmp_path / name).open("w", encoding="utf-8") as stream
    ):
        stream.write("\ufeff" + rows + "\n")
    text = ask("init", tmp_path / name).stdout
    tree = yaml.safe_load(text.replace("???", "x"))
    assert list(tree["columns"]) == ["id", "größe", "a.b"] and tree["sources"]["a"].get("delimiter") == written
    tree |= {
        "title": "T",
        "purpose": "P",
        "unit": {"person": "id", "max_rows": 1, "adjacency": "add-remove"},
        "budget": {"epsilon": 50, "delta": 0},
    }
    for column, kind in (("id", "integer"), ("größe", "integer"), ("a.b", "text")):
        tree["columns"][column]["type"] = kind
    tree["columns"]["größe"]["bounds"] = [0, 6]
    tree["outputs"] = [{"name": "n", "sql": 'SELECT COUNT(*) AS n, AVG("größe") AS g, COUNT("a.b") AS x FROM a', "weight": 1}]
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    assert ask("run", tmp_path / "job.yaml", "--yes").exit_code == 0
    (released,) = pq.read_table(tmp_path / "release" / "n.parquet").to_pylist()
    # Laplace noise with a scale below a tenth on each count: beyond 5 is a chance of less than exp(-50)
    assert abs(released["n"] - 300) < 5 and abs(released["x"] - 300) < 5 and abs(released["g"] - 2.98) < 0.2


def test_the_ends_of_file_names_are_the_engines_own() -> None:
    from tacit.tables.source import CSV

    assert blank_job.CSV == CSV


def test_a_first_line_that_is_a_row_is_not_shown(job: Path) -> None:
    (job.parent / "bare.csv").write_text(f"{CANARY},zebra,30\n2,south,40\n")
    job.write_text(JOB.replace("visits.parquet", "bare.csv"))
    for words in (("run", job, "--yes"), ("init", job.parent / "bare.csv")):
        said = complaint(*words)
        assert "first line" in said and str(CANARY) not in said and "zebra" not in said
