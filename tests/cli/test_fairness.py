"""`tacit fairness`: a stranger's file of decisions, public counts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tacit.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    status = main([str(word) for word in words])
    seen = capsys.readouterr()
    return status, seen.out + seen.err


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    made = np.random.default_rng(0)
    sex, due = made.choice(["F", "M"], 4000), made.integers(0, 2, 4000)
    given = np.where(made.random(4000) < 0.8, due, 1 - due)
    parquet.write_table(pa.table({"y": due, "p": given, "sex": sex}), tmp_path / "d.parquet")
    return tmp_path / "d.parquet"


AUDIT = ["--label", "y", "--prediction", "p", "--group", "sex", "--values", "sex=F,M", "--epsilon", "0.5"]


def test_rates_of_a_file(decisions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, "fairness", "audit", decisions, *AUDIT, "--plot", decisions.parent / "r.png")
    assert status == 0 and "equalized odds: gap" in said and (decisions.parent / "r.png").exists()
    found = json.loads(run(capsys, "fairness", "audit", decisions, *AUDIT, "--json")[1])
    rate = found["rates"]["true_positive_rate"]["F"]
    assert rate["low"] < 0.8 < rate["high"] + 0.05 and found["epsilon"] <= 0.5


def test_one_cell_of_a_csv_changes_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["y,p,sex"] + ["1,1,F", "0,0,M"] * 1000
    shares = []
    for last in ("1,1,F", "1.5,many,\u0000"):
        (tmp_path / "d.csv").write_text("\n".join([*rows, last]), encoding="utf-8")
        found = json.loads(run(capsys, "fairness", "audit", tmp_path / "d.csv", *AUDIT, "--json")[1])
        shares.append(found["rates"]["accuracy"]["F"]["low"])
    assert min(shares) > 0.97


def test_who_pays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.csv").write_text("place,people\na,2\nb,20\nc,5000\n")
    words = ["fairness", "allocation", tmp_path / "c.csv", "--scale", "20", "--total", "1e6", "--threshold", "100"]
    status, said = run(capsys, *words, "--plot", tmp_path / "a.png")
    assert status == 0 and "who pays" in said and "misjudged" in said and (tmp_path / "a.png").exists()
    found = json.loads(run(capsys, *words, "--json")[1])
    assert found["by_size"]["2.0"] > 2 and found["shift"] == pytest.approx(46.05, abs=0.01)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--label", "z"], "no column 'z'"),
        (["--values", "age=1,2"], "--values"),
        (["--epsilon", "much"], "--epsilon"),
        (["--notion", "equality"], "no notion"),
        (["--ledger", "book.db"], "--account"),
    ],
)
def test_refusals(decisions: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, "fairness", "audit", decisions, *AUDIT, *words)
    assert status != 0 and said in text


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read" in run(capsys, "fairness", "audit", tmp_path / "none.csv", *AUDIT)[1]
    (tmp_path / "c.csv").write_text("place,people\na,many\n")
    words = ["fairness", "allocation", tmp_path / "c.csv", "--scale", "20", "--total", "1e6"]
    assert "must be counts" in run(capsys, *words)[1]


def test_a_long_cell_stops_nothing_and_figures_come_before_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["y,p,sex", *["1,1,F", "0,0,M"] * 50, f"1,1,{'x' * 200_000}"]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    status, said = run(capsys, "fairness", "audit", tmp_path / "d.csv", *AUDIT, "--plot", tmp_path / "none" / "r.png")
    assert status != 0 and "equalized odds: gap" in said and "cannot be written" in said


def test_what_is_refused_is_refused_before_anything_is_paid(decisions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture that cannot be one, and groups without declared values: the way to say them is told."""
    from tacit.ledger import Budget, Ledger

    book = decisions.parent / "book.db"
    account = Ledger.open(f"sqlite:///{book}").account("a", Budget(epsilon=1))
    paid = ["--ledger", book, "--account", "a"]
    status, text = run(capsys, "fairness", "audit", decisions, *AUDIT, *paid, "--plot", "rates.txt")
    assert status != 0 and ".png" in text
    undeclared = [word for word in AUDIT if word not in ("--values", "sex=F,M")]
    status, text = run(capsys, "fairness", "audit", decisions, *undeclared, *paid)
    assert status != 0 and "declare the public values of sex" in text
    assert account.left()["pure"] == 1


def test_the_share_of_undeclared_people(decisions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fairness", "audit", decisions, *[word.replace("sex=F,M", "sex=F,X") for word in AUDIT]]
    assert json.loads(run(capsys, *words, "--json")[1])["undeclared"] is None
    found = json.loads(run(capsys, *words, "--json", "--undeclared")[1])["undeclared"]
    share = parquet.read_table(decisions)["sex"].to_pylist().count("M") / 4000
    assert found["low"] - 0.002 <= share <= found["high"] + 0.002 and "not declared" in run(capsys, *words, "--undeclared")[1]
