"""`tacit demo` makes a whole release and says what to open; again in the same folder it says what happens; the showcase is still there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tacit.cli import demo
from tacit.cli.app import Commands
from tacit.ledger import Ledger
from tacit.release import load
from tacit.release.job import parse
from tacit.release.report import read

ROOT = Path(__file__).resolve().parents[2]


def ask(*words: object) -> Any:
    app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
    demo.register(app)
    app.command("other")(lambda: None)  # an application with a single command would take its name for an argument
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_demo_twice(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tacit-demo"
    first = ask("demo", "--out", folder, "--rows", 2000)
    assert first.exit_code == 0, first.output
    release = folder / "hospital-2025"
    for path in (release / "report.html", release, folder / "hospital.yaml", folder / "tacit.db"):
        assert path.exists() and str(path) in first.stdout, "the last lines say what to open"
    record = read(release / "report.html")
    assert record["private"] and len(record["outputs"]) == len(load(folder / "hospital.yaml").outputs)
    for name in (output["name"] for output in record["outputs"]):
        assert (release / f"{name}.parquet").exists() and name in first.stdout
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    second = ask("demo", "--out", folder, "--rows", 2000)
    assert second.exit_code == 0 and "Its budget is spent" in second.stdout and str(folder / "run-2") in second.stdout
    assert {path: path.read_bytes() for path in before} == before, "what was published and booked stays as it was"
    assert (folder / "run-2" / "visits.parquet").read_bytes() != (folder / "visits.parquet").read_bytes()
    with Ledger.open(f"sqlite:///{folder / 'run-2' / 'tacit.db'}", create=False) as ledger:
        assert sum(entry["kind"] == "reserve" for entry in ledger.entries()) == 1
    assert demo.fresh(folder)[0].name == "run-3"


def test_the_job_is_the_example() -> None:
    mine, example = parse(demo.text(demo.ROWS)), load(ROOT / "examples" / "hospital.yaml")
    assert mine.unit == example.unit and mine.budget == example.budget and mine.columns == example.columns
    assert [(output.name, output.sql) for output in mine.outputs] == [(output.name, output.sql) for output in example.outputs]
    small = parse(demo.text(2000)).expected
    assert (small.people, small.rows) == (500, 2000), "declared sizes follow the data"


def test_the_accountants_showcase(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pictures"
    result = ask("demo", "--accountant", "--out", folder)
    assert result.exit_code == 0
    written = sorted(path.name for path in folder.iterdir())
    assert written == ["composition.png", "dp-sgd.png", "theorems.png", "training.png"]
    for name in written:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert str(folder / name) in result.stdout, "the last lines say what to open"
    # Steinke 2022, Figure 3.1, k = 100, and the DP-SGD run of the README
    assert "5.75653" in result.stdout and "4.77457" in result.stdout and "2.3815969214" in result.stdout


@pytest.mark.parametrize("words", [(), ("--accountant",)], ids=["release", "accountant"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = ask("demo", *words, "--out", tmp_path / "file" / "below")
    assert result.exit_code == 2 and result.stderr.startswith("error: --out: cannot make the folder") and result.stderr.count("\n") == 1
