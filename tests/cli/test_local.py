"""`tacit local`: the whole path of a stranger, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    status = main([str(word) for word in words])
    seen = capsys.readouterr()
    return status, seen.out + seen.err


def test_from_design_to_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    protocol, answers, reports, counts = (tmp_path / name for name in ("p.json", "a.txt", "r.arrow", "c.db"))
    answers.write_text("\n".join(["yes"] * 7000 + ["no"] * 3000 + ["nothing of the kind"] * 5))
    status, said = run(capsys, "local", "design", "--values", "no, yes", "--epsilon", "3", "--people", "10005", "--out", protocol)
    assert status == 0 and "response" in said and "shuffle" in said
    assert run(capsys, "local", "randomise", protocol, answers, "--out", reports)[0] == 0
    assert "10,005 reports counted" in run(capsys, "local", "collect", protocol, counts, reports)[1]
    found = json.loads(run(capsys, "local", "collect", protocol, counts, reports, "--json")[1])
    assert found == {"n": 10005, "dropped": {"repeated": 10005}}
    shares = json.loads(run(capsys, "local", "estimate", protocol, counts, "--json", "--plot", tmp_path / "s.png")[1])["shares"]
    assert shares[0]["value"] == "yes" and shares[0]["low"] < 0.7 < shares[0]["high"] and (tmp_path / "s.png").exists()
    assert "forged" in run(capsys, "local", "estimate", protocol, counts)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["design", "--epsilon", "1"], "--values"),
        (["design", "--epsilon", "x", "--size", "4"], "--epsilon"),
        (["design", "--epsilon", "1", "--size", "4", "--kind", "magic"], "kind must be auto or one of"),
        (["estimate", "missing.json", "c.db"], "cannot be read"),
        (["collect", "missing.json", "c.db", "r.arrow"], "cannot be read"),
    ],
)
def test_what_cannot_be_understood_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, "local", *words)
    assert status == 2 and said in text


def test_a_file_that_is_no_arrow_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    protocol, junk = tmp_path / "p.json", tmp_path / "r.arrow"
    run(capsys, "local", "design", "--size", "4", "--epsilon", "1", "--out", protocol)
    junk.write_bytes(b"junk")
    assert run(capsys, "local", "collect", protocol, tmp_path / "c.db", junk)[0] == 2
    protocol.write_text("{}")
    assert "version, values" in run(capsys, "local", "estimate", protocol, tmp_path / "c.db")[1]
