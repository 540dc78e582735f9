"""`tacit local`: the whole path of a stranger, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tacit.cli import main
from tacit.local import Protocol, frequencies, schema, to_batch, to_report


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
        (["design", "--size", "4"], "--error"),
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


def test_an_error_designs_the_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("local", "design", "--size", "300", "--error", ".003", "--people", "200000", "--out", tmp_path / "p.json", "--json")
    found = json.loads(run(capsys, *words)[1])
    local = found["options"][0]
    assert local["deviation"] <= 0.003 and local["people"] <= 200_000
    assert Protocol.read(tmp_path / "p.json").randomiser.variance(200_000) ** 0.5 <= 0.003


def test_streams_are_collected_like_files_and_a_cut_one_as_far_as_it_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    protocol = frequencies(["yes", "no"], epsilon=1)
    protocol.write(tmp_path / "p.json")
    with pa.OSFile(str(tmp_path / "s.arrows"), "wb") as sink, pa.ipc.new_stream(sink, schema(protocol)) as writer:
        for _ in range(2):
            writer.write_batch(to_batch(protocol, ["yes"] * 50))
    whole = (tmp_path / "s.arrows").read_bytes()
    (tmp_path / "cut.arrows").write_bytes(whole[:-300])
    found = json.loads(run(capsys, "local", "collect", tmp_path / "p.json", tmp_path / "c.db", tmp_path / "cut.arrows", "--json")[1])
    assert found == {"n": 50, "dropped": {"unreadable": 1}}
    found = json.loads(run(capsys, "local", "collect", tmp_path / "p.json", tmp_path / "c.db", tmp_path / "s.arrows", "--json")[1])
    assert found == {"n": 100, "dropped": {"repeated": 50, "unreadable": 1}}
    # reports as devices send them, one after another, the last one cut off
    sent = [to_report(protocol, "no") for _ in range(3)]
    (tmp_path / "sent.bin").write_bytes(b"".join(sent)[:-1])
    found = json.loads(run(capsys, "local", "collect", tmp_path / "p.json", tmp_path / "c.db", tmp_path / "sent.bin", "--json")[1])
    assert found == {"n": 102, "dropped": {"malformed": 1, "repeated": 50, "unreadable": 1}}


def test_a_client_of_ones_own_is_attacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frequencies(["yes", "no"], epsilon=1).write(tmp_path / "p.json")
    (tmp_path / "mine.py").write_text(
        "from tacit.local import Protocol, to_report\n"
        f"p = Protocol.read({str(tmp_path / 'p.json')!r})\n"
        "def good(values):\n    return [to_report(p, v) for v in values]\n"
        "def plain(values):\n    return [to_report(p, v)[:17] + bytes([p.place(v)]) for v in values]\n"
    )
    status, said = run(capsys, "audit", "local", tmp_path / "p.json", f"{tmp_path}/mine.py:good", "--trials", "400", "--seed", "1")
    assert status == 0 and "not broken by these attacks" in said
    page = tmp_path / "a.html"
    status, said = run(capsys, "audit", "local", tmp_path / "p.json", f"{tmp_path}/mine.py:plain", "--trials", "400", "--html", page)
    assert status == 1 and "BROKEN" in said and "replaced" in page.read_text()
    assert run(capsys, "audit", "local", tmp_path / "p.json", "--crowd", "20", "--trials", "400")[0] == 0
    assert run(capsys, "audit", "local", tmp_path / "p.json", "--days", "5")[0] == 2
