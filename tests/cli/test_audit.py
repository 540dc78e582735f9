"""`tacit audit` as a program in a pipeline meets it: status, JSON, page, and words for what is wrong with a request."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tacit
from tacit.cli import main

CODE = """
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
"""


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
        (["nowhere.py:f", "--claim", "eps=1"], "no file nowhere.py; give its path from the folder in which the command is run"),
        (["nowhere.py:f", "--claim", "eps=1"], "package.module:function"),
        (["no.such.module:f", "--claim", "eps=1"], "could not be imported"),
        (["{code}:right", "--claim", "nonsense"], "not understood"),
        (["{code}:right"], "claim"),
        (["{code}:right", "--claim", "eps=1", "--neighbours", "twins"], "--neighbours"),
        (["{code}:right", "--claim", "eps=1", "--data", "nowhere.csv"], "no file nowhere.csv; give its path"),
        (["{code}:right", "--claim", "eps=1", "--data", "nowhere.npz"], "no file nowhere.npz; give its path"),
        (["{code}:right", "--claim", "eps=1", "--trials", "3"], "trials"),
    ],
    ids=range(12),
)
def test_what_is_wrong_with_a_request_is_said_in_one_line(
    code: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *(word.format(code=code) for word in words)]) == 2
    said = capsys.readouterr().err
    assert complaint in said and said.count("\n") == 1 and "Traceback" not in said


TRAINING = '''
import numpy as np


class Memory:
    """Sure of what it has seen, and of nothing else."""

    def __init__(self, data):
        self.seen = {tuple(row) for row in np.asarray(data[0])}

    def predict_proba(self, x):
        known = np.array([tuple(row) in self.seen for row in np.asarray(x)])
        return np.column_stack([np.where(known, 0.99, 0.5), np.where(known, 0.01, 0.5)])


class Blind:
    def __init__(self, data):
        pass

    def predict_proba(self, x):
        return np.full((len(x), 2), 0.5)


DATA = (np.arange(400.0).reshape(200, 2), np.zeros(200, dtype=int))
'''


@pytest.fixture
def training(tmp_path: Path) -> Path:
    path = tmp_path / "train_a_memory.py"
    path.write_text(TRAINING)
    return path


def test_a_model_that_remembers_is_broken_and_a_blind_one_is_not(
    training: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "model.html"
    shared = ["--data", f"{training}:DATA", "--claim", "eps=1", "--seed", "1", "--references", "0"]
    assert main(["audit", "model", f"{training}:Memory", *shared, "--html", str(page)]) == 1
    said = capsys.readouterr().out
    assert "BROKEN" in said and "fixed model" in said and "safe" not in said
    assert "data:image/svg" in page.read_text()
    assert main(["audit", "model", f"{training}:Blind", *shared, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["broken"] is False


def test_records_from_files(training: Path, tmp_path: Path) -> None:
    import numpy as np

    arrays = tmp_path / "records.npz"
    np.savez(arrays, x=np.arange(400.0).reshape(200, 2), y=np.zeros(200, dtype=int))
    table = tmp_path / "records.csv"
    table.write_text("a,b,label\n" + "\n".join(f"{i},{i + 0.5},0" for i in range(200)) + "\n")
    for place in (arrays, table):
        words = ["audit", "model", f"{training}:Memory", "--data", str(place), "--claim", "eps=1", "--seed", "1", "--references", "0"]
        assert main(words) == 1


def test_an_unknown_game_is_named(training: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "model", f"{training}:Blind", "--data", f"{training}:DATA", "--claim", "eps=1", "--game", "chess"]) == 2
    assert "fixed-model" in capsys.readouterr().err


def test_the_selftest_takes_in_every_room_below_audit() -> None:
    """A module `selftest.py` outside `audit` is listed, and what it has is tried with the rest."""
    source, listed = Path(tacit.__file__).parent, importlib.import_module("tacit.cli.audit").SELFTESTS
    found = {".".join(("tacit", *path.relative_to(source).with_suffix("").parts)) for path in source.rglob("selftest.py")}
    assert found == set(listed)
    names = [case.name for name in listed for case in importlib.import_module(name).part().cases()]
    assert len(names) == len(set(names)) > 0


def test_a_case_of_a_room_below_audit_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--quick", "--only", "health: cohort", "--json"]) == 0
    assert [row["case"] for row in json.loads(capsys.readouterr().out)["cases"]] == ["health: cohort count"]


def test_code_that_never_ran_ends_with_status_2_and_the_type(tmp_path: Path) -> None:
    """It passed with status 0: every attack on one and the same exception finds nothing."""
    file = tmp_path / "vendor.py"
    file.write_text(
        "from tacit.noise import discrete_laplace\n"
        "def release(frame):\n    return int(frame['value'].notna().sum()) + discrete_laplace(1)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    command = [sys.executable, "-W", "ignore", "-m", "tacit.cli", "audit", f"{file}:release", "--claim", "eps=1", "--trials", "100"]
    found = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert found.returncode == 2 and "TypeError" in found.stderr and "--form pandas" in found.stderr
    ran = subprocess.run([*command, "--form", "pandas", "--seed", "1"], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0 and "receives a pandas data frame (value)" in ran.stdout


def test_a_training_or_a_client_that_raises_ends_with_status_2_and_the_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ended in a traceback that showed a record, with status 1, which says that the claim fell."""
    file = tmp_path / "vendor_that_raises.py"
    file.write_text(
        "DATA = ([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1])\n"
        "def train(data):\n    raise RuntimeError('record 4711')\n"
        "def leaves(data):\n    raise SystemExit(0)\n"
        "class Silent:\n    pass\n"
        "def reports(values):\n    return 1 / 0\n"
    )
    for name, said in (("train", "RuntimeError in line 3"), ("leaves", "SystemExit in line 5"), ("Silent", "TypeError")):
        assert main(["audit", "model", f"{file}:{name}", "--data", f"{file}:DATA", "--claim", "eps=1"]) == 2
        told = capsys.readouterr().err
        assert said in told and "4711" not in told and "receives a pair (x, y)" in told and told.count("\n") == 1
    protocol = tmp_path / "protocol.json"
    assert main(["local", "design", "--values", "a,b,c", "--epsilon", "1", "--out", str(protocol)]) == 0
    assert main(["audit", "local", str(protocol), f"{file}:reports", "--trials", "40"]) == 2
    assert "ZeroDivisionError in line 9" in capsys.readouterr().err
