"""`tacit energy sensitivity`: words, JSON, pictures, refusals. The loads of the file make no difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.applications.energy import Network
from tacit.cli import app


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "nine.m"
    Network.nine_buses().to_matpower(path)
    return path


def asked(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["energy", "sensitivity", *map(str, arguments), "--change", "5", "--epsilon", "1"])
    return found.exit_code, found.output + (str(found.exception) if found.exception else "")


def test_it_says_what_the_ratio_means(case: Path, tmp_path: Path) -> None:
    code, said = asked(case, "--plot", tmp_path / "ratio.png")
    assert code == 0 and "2.008102" in said and "30.081" in said and "60 sets" in said
    assert (tmp_path / "ratio.png").read_bytes().startswith(b"\x89PNG")


def test_json(case: Path) -> None:
    code, said = asked(case, "--json")
    found = json.loads(said)
    assert code == 0 and found["sets"] == 60 and found["lines"] == [[8, 9]] and not found["declared"]
    assert found["ratio"] == pytest.approx(2.008102, abs=1e-6) and found["scales"]["loads"] == 5
    assert found["unit"] == "one load by at most 5 MW"


def test_loads_make_no_difference(case: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.m"
    other.write_text(case.read_text(encoding="utf-8").replace("\t90\t30\t", "\tNaN\t1e308\t"), encoding="utf-8")
    assert asked(case, "--json") == asked(other, "--json")


def test_declared_congestion(case: Path) -> None:
    code, said = asked(case, "--congested", "1,3", "--congested", "1;8-9", "--json")
    assert code == 0 and json.loads(said)["sets"] == 2 and json.loads(said)["declared"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--congested", "1;8"], "1;8-9"), (["--congested", "one"], "1;8-9"), (["--congested", "7"], "no generator at bus 7"),
        (["--plot", "x.txt"], "must end in"),
    ],
)  # fmt: skip
def test_refusals(case: Path, arguments: list[str], words: str) -> None:
    code, said = asked(case, *arguments)
    assert code != 0 and words in said


def test_a_file_that_does_not_parse_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.m").write_text("function mpc = bad\nmpc.bus = [1 2 3.75];\n", encoding="utf-8")
    code, said = asked(tmp_path / "bad.m")
    assert code != 0 and "bad.m, line 2" in said and "3.75" not in said
