"""`tacit ledger`: tables that say what the book says, machine-readable forms, and statuses that scripts can rely on."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tacit import noise
from tacit.accounting import Gaussian, PureDP
from tacit.cli.app import Commands
from tacit.cli.ledger import ledger_app
from tacit.ledger import Budget, Ledger

ROOT = Path(__file__).resolve().parents[2]

# the group as it is mounted in the command
app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(ledger_app, name="ledger")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "tacit.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        top = ledger.account("hospital", Budget(rho=1), unit="patient", data=["hospital", "copy"])
        ledger.account("second name", data="copy")
        visits = top.child("visits", Budget(rho="0.1"))
        lab = top.child("lab", Budget(rho="0.1"), collusion=False)
        visits.spend(Gaussian(10), purpose="=weekly [red]table[/red]", analyst="ann", question={"sql": "SELECT 1"})
        visits.reserve(Gaussian(20), purpose="crashed", analyst="bob")
        with pytest.raises(KeyError), visits.reserve(Gaussian(20), purpose="went wrong"):
            raise KeyError
        with noise.test_mode(1):
            lab.child("ann", Budget(rho="0.1")).spend(Gaussian(10), purpose="dry run")
        months = ledger.account("months", Budget(epsilon=1), window="month")
        months.spend(PureDP(0.25), period="2026-01")
    return path


def run(*words: object) -> Any:
    result = CliRunner().invoke(app, ["ledger", *map(str, words)], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_show_says_who_spent_what_for_what_and_what_remains(book: Path) -> None:
    result = run("show", book)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for words in (
        *("hospital (also second name)", "patient, add-remove", "rho 0.1 rho 0.0075 rho 0.0925 7.5 %", "ann NOT PRIVATE"),
        *("=weekly [red]table[/red]", "Gaussian(noise_multiplier=10)", "rho 0.005 done", "rho 0.00125 open", "rho 0.00125 failed"),
        *("epsilon 1 a month", "epsilon 0.25 in 2026-01", "done, 2026-01", "assuming analysts do not pool answers"),
    ):
        assert words in text, words


def test_show_as_json_is_the_book(book: Path) -> None:
    found = json.loads(run("show", book, "--json").stdout)
    accounts = {row["account"]: row for row in found["accounts"]}
    assert accounts["visits"]["spent"] == "rho 0.0075" and accounts["visits"]["depth"] == 1
    assert accounts["hospital"]["spent"] == "rho 0.0125"
    assert [row["status"] for row in found["spends"]] == ["done", "open", "failed", "done", "done"]
    assert [row["mark"] for row in found["spends"]] == ["", "", "", "NOT PRIVATE", ""]
    assert found["spends"][0]["question"] == {"sql": "SELECT 1"}
    assert found["assumptions"] == ["lab: assuming analysts do not pool answers"]


def test_show_one_account_and_the_last_spends(book: Path) -> None:
    found = json.loads(run("show", book, "--account", "visits", "--last", 2, "--json").stdout)
    assert [row["account"] for row in found["accounts"]] == ["visits"]
    assert [row["purpose"] for row in found["spends"]] == ["crashed", "went wrong"]
    assert [row["account"] for row in json.loads(run("show", book, "--account", "lab", "--json").stdout)["accounts"]] == ["lab", "ann"]
    assert json.loads(run("show", book, "--last", 0, "--json").stdout)["spends"] == []


def test_the_last_spends_are_found_far_back(tmp_path: Path) -> None:
    """A long run of spends on another account does not hide an account's own."""
    with Ledger.open(f"sqlite:///{tmp_path / 'b.db'}") as ledger:
        ledger.account("rare", Budget(epsilon=1)).spend(PureDP(0.1), purpose="long ago")
        busy = ledger.account("busy", Budget(epsilon=1000))
        for _ in range(150):
            busy.spend(PureDP(1))
    found = json.loads(run("show", tmp_path / "b.db", "--account", "rare", "--last", 1, "--json").stdout)
    assert [row["purpose"] for row in found["spends"]] == ["long ago"]


def test_show_draws_a_picture(book: Path, tmp_path: Path) -> None:
    for name, start in (("p.png", b"\x89PNG"), ("p.svg", b"<?xml")):
        result = run("show", book, "--plot", tmp_path / name)
        assert result.exit_code == 0 and f"picture: {tmp_path / name}" in result.stdout
        assert (tmp_path / name).read_bytes().startswith(start)
    words = (tmp_path / "p.svg").read_text()
    assert "visits (8 %)" in words and "the budget" in words


def test_verify_ends_with_0_or_1(book: Path) -> None:
    result = run("verify", book)
    assert result.exit_code == 0 and "in order" in result.stdout and "1 reservations are open" in result.stdout
    good = json.loads(run("verify", book, "--json").stdout)
    assert good["ok"] and good["entries"] == 16
    assert run("verify", book, "--head", good["head"]).exit_code == 0
    assert run("verify", book, "--head", "5:" + "0" * 64).exit_code == 1
    with sqlite3.connect(book) as connection:
        connection.execute("UPDATE tacit_totals SET body = '{}'")
    connection.close()
    result = run("verify", book)
    assert result.exit_code == 1 and "BROKEN" in result.stdout and "tacit_totals" in result.stdout
    assert json.loads(run("verify", book, "--json").stdout)["ok"] is False


def test_export_as_json_lines_csv_and_entries(book: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in run("export", book).stdout.splitlines()]
    assert len(lines) == 5 and lines[0]["charge"]["rho"] == "1/200"
    out = tmp_path / "spends.csv"
    assert run("export", book, "--format", "csv", "--out", out).exit_code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["status"] for row in rows] == ["done", "open", "failed", "done", "done"]
    assert rows[0]["purpose"] == "'=weekly [red]table[/red]"  # no formula when it is opened in a spreadsheet
    entries = [json.loads(line) for line in run("export", book, "--format", "entries").stdout.splitlines()]
    assert [entry["seq"] for entry in entries] == list(range(1, 17))
    only = [json.loads(line) for line in run("export", book, "--account", "months").stdout.splitlines()]
    assert [row["period"] for row in only] == ["2026-01"]


def test_wrong_requests_are_answered_in_one_line_with_status_2(book: Path, tmp_path: Path) -> None:
    for words, message in (
        (("show", tmp_path / "none.db"), "there is no ledger"),
        (("verify", "mysql://host/x"), "sqlite or postgresql"),
        (("verify", book, "--head", "latest"), "head must be"),
        (("show", book, "--account", "nobody"), "there is no account"),
        (("show", book, "--plot", "picture.txt"), "must end in"),
        (("export", book, "--format", "entries", "--account", "visits"), "gaps"),
        (("export", book, "--out", tmp_path / "no" / "file"), "cannot write"),
        (("export", book, "--format", "xml"), "xml"),
    ):
        result = run(*words)
        assert result.exit_code == 2, words
        assert message in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("name", ["book", "what?.db", "50%25.db", "é #1.db"])
def test_a_book_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger.at(name) as ledger:
        ledger.account("visits", Budget(rho=1), unit="patient")
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(("-wal", "-shm"))] == [name]
    for word in (name, f"./{name}", str(tmp_path / name)):
        shown = run("show", word)
        assert shown.exit_code == 0 and "visits" in shown.stdout


def test_the_commands_change_nothing(book: Path) -> None:
    with Ledger.open(f"sqlite:///{book}") as ledger:
        before = ledger.head()
        for command in ("show", "verify", "export"):
            run(command, book)
        assert ledger.head() == before


def test_the_group_loads_without_a_database_package() -> None:
    code = "import sys, tacit.cli.ledger; print('sqlalchemy' in sys.modules, 'scipy' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stdout == "False False\n"


# --- the officer's desk --------------------------------------------------------------------------------------


def test_the_officers_report_in_every_form(book: Path, tmp_path: Path) -> None:
    page = tmp_path / "officer.html"
    assert run("report", book, "--html", page, "--title", "Hospital").exit_code == 0
    assert "Hospital" in page.read_text() and "NOT PRIVATE" in page.read_text()
    answers = json.loads(run("report", book, "--format", "nist").stdout)
    assert answers["guide"] == "NIST SP 800-226" and "patient" in answers["answers"][0]["answer"]
    assert {record["name"] for record in json.loads(run("report", book, "--format", "registry").stdout)} >= {"hospital", "visits"}
    assert run("report", book, "--format", "csv").stdout.startswith("entry,time,account")
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    assert run("report", book, "--audit", wrong).exit_code == 2
    assert run("report", book, "--html", tmp_path / "no" / "folder.html").exit_code == 2


def test_officers_decide_on_the_command_line(book: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    olga, omar, waiting = tmp_path / "olga.pem", tmp_path / "omar.pem", tmp_path / "decision.json"
    assert run("enrol", book, "Olga", "--key", olga, "--new-key").exit_code == 0
    assert (olga.stat().st_mode & 0o777) == 0o600
    assert run("enrol", book, "Olga", "--key", olga, "--new-key").exit_code == 2  # a key is never overwritten
    assert run("enrol", book, "Omar", "--key", omar, "--new-key", "--by", olga).exit_code == 0
    assert run("analyst", book, "ann", "frozen", "--reason", "under review", "--key", omar).exit_code == 0
    alone = run("analyst", book, "ann", "active", "--reason", "cleared", "--key", omar)
    assert alone.exit_code == 2 and "two officers" in alone.output
    assert run("analyst", book, "ann", "active", "--reason", "cleared", "--key", omar, "--pending", waiting).exit_code == 0
    assert run("countersign", book, waiting, "--key", olga).exit_code == 0
    assert run("amend", book, "visits", "--budget", "rho=0.05", "--reason", "a second table", "--key", olga).exit_code == 0
    assert run("amend", book, "visits", "--purposes", "weekly table; audit", "--reason", "policy", "--key", olga).exit_code == 0
    assert run("close", book, "months", "--reason", "finished", "--key", omar).exit_code == 0
    with Ledger.open(book) as ledger:
        rules = ledger.governance.rules()
        assert ledger.verify().ok and rules.analysts["ann"][0] == "active"
        assert ledger.account("visits").budget == Budget(rho="0.05")
        assert sorted(rules.purposes.popitem()[1]) == ["audit", "weekly table"] and len(rules.closed) == 1
    assert run("close", book, "months", "--reason", "x", "--key", book).exit_code == 2
