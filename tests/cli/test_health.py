"""`tacit health`: sample sizes and beacons, as words, JSON and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    status = main(["health", *map(str, words)])
    seen = capsys.readouterr()
    return status, seen.out + seen.err


def test_sample_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sample-size", "--rate", "0.5", "--effect", "1/10", "--epsilon", "0.1,1"]
    status, said = run(capsys, *asked, "--plot", tmp_path / "s.png")
    assert status == 0 and "501" in said and "194.26" in said and (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(run(capsys, *asked, "--json")[1])
    assert [row["people"] for row in found["sizes"]] == [501, 203]
    assert json.loads(run(capsys, *asked, "--json", "--method", "approximate")[1])["sizes"][0]["private"] == pytest.approx(505.07, abs=0.01)


def test_beacon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["beacon", "--people", "500", "--epsilon", "0.2,1"]
    status, said = run(capsys, *asked, "--plot", tmp_path / "b.png")
    assert status == 0 and "0.990" in said and "0.995" in said and (tmp_path / "b.png").exists()
    rows = json.loads(run(capsys, *asked, "--json", "--absence", "0.1")[1])["answers"]
    assert next(row["right"] for row in rows if row["carriers"] == 10) == pytest.approx(0.550, abs=5e-4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sample-size", "--rate", "0.9", "--effect", "0.2", "--epsilon", "1"], "below 1"),
        (["sample-size", "--rate", "x", "--effect", "0.2", "--epsilon", "1"], "--rate"),
        (["sample-size", "--rate", "0.5", "--effect", "0.2", "--epsilon", "1", "--method", "guess"], "--method"),
        (["beacon", "--people", "5", "--epsilon", "0"], "epsilon"),
        (["beacon", "--people", "5", "--epsilon", "1", "--plot", "b.txt"], ".png"),
        (["beacon", "--people", "0", "--epsilon", "1"], "people"),
    ],
)
def test_what_cannot_be_understood_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, *words)
    assert status == 2 and said in text
