"""`tacit audit` as a program in a pipeline meets it: status, JSON, page, and words for what is wrong with a request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.cli import main

CODE = '''
from tacit.noise import discrete_laplace

ROWS = [1, 2, 3]
NUMBER = 3


def right(rows):
    return len(rows) + discrete_laplace(1)


def half(rows):
    return len(rows) + discrete_laplace(0.5)


class Box:
    @staticmethod
    def right(rows):
        return len(rows) + discrete_laplace(1)
'''


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "counts_of_rows.py"
    path.write_text(CODE)
    return path


def audit(*words: object) -> int:
    return main(["audit", *map(str, words), "--trials", "2000", "--seed", "1"])


def test_a_right_mechanism_passes_and_nothing_is_called_safe(code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(f"{code}:right", "--claim", "eps=1") == 0
    said = capsys.readouterr().out
    assert "not broken by these attacks (no proof)" in said and "safe" not in said


def test_a_broken_one_ends_with_status_one(code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(f"{code}:half", "--claim", "eps=1,delta=1e-6") == 1
    assert "BROKEN" in capsys.readouterr().out


def test_one_object_for_programs(code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(f"{code}:half", "--claim", "eps=1", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["broken"] is True and told["target"].endswith(":half") and told["verdicts"][0]["attack"]


def test_a_page(code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "audit.html"
    assert audit(f"{code}:Box.right", "--claim", "mu=2", "--html", page) == 0
    assert "Audit of" in page.read_text() and str(page) in capsys.readouterr().out


def test_data_of_ones_own(code: Path, tmp_path: Path) -> None:
    assert audit(f"{code}:right", "--claim", "eps=1", "--data", f"{code}:ROWS") == 0
    table = tmp_path / "rows.csv"
    table.write_text("a,b\n1,x\n2,y\n")
    assert audit(f"{code}:right", "--claim", "eps=1", "--data", table) in (0, 1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["{code}:absent", "--claim", "eps=1"], "has no absent"),
        (["{code}:NUMBER", "--claim", "eps=1"], "not a function"),
        (["{code}", "--claim", "eps=1"], "does not name a function"),
        (["nowhere.py:f", "--claim", "eps=1"], "no file nowhere.py"),
        (["no.such.module:f", "--claim", "eps=1"], "could not be imported"),
        (["{code}:right", "--claim", "nonsense"], "not understood"),
        (["{code}:right"], "claim"),
        (["{code}:right", "--claim", "eps=1", "--neighbours", "twins"], "--neighbours"),
        (["{code}:right", "--claim", "eps=1", "--data", "nowhere.csv"], "no file nowhere.csv"),
        (["{code}:right", "--claim", "eps=1", "--trials", "3"], "trials"),
    ],
    ids=range(10),
)
def test_what_is_wrong_with_a_request_is_said_in_one_line(
    code: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *(word.format(code=code) for word in words)]) == 2
    said = capsys.readouterr().err
    assert complaint in said and said.count("\n") == 1 and "Traceback" not in said
