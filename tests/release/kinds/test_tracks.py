"""`kind: tracks`: the plan, refusals, and what is published."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from tacit.accounting import RandomizedResponse, Repeated
from tacit.ledger import Ledger
from tacit.release import JobError, plan, run
from tacit.release.job import Job, parse

TEXT = """
version: 1
title: Objects on the plaza
purpose: Count who is there, and follow nobody.
sources: {seen: {path: seen.parquet}}
unit: {person: object, max_rows: 1000, adjacency: replace-one}
budget: {epsilon: 4, delta: 0}
expected: {people: 400}
columns:
  object: {type: integer}
  frame: {type: integer}
outputs:
  - {name: plaza, kind: tracks, source: seen, frame: frame, keyframes: [0, 300, 600, 900], weight: 1}
publication: {folder: out, formats: [csv], confidence: 0.95}
"""


def job(*pairs: tuple[str, str]) -> Job:
    text = TEXT
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


def seen() -> pa.Table:
    """400 objects; object i is there from frame i to frame i + 400, in every 100th frame; and a row without an object."""
    rows = [(i, frame) for i in range(400) for frame in range(0, 1000, 100) if i <= frame <= i + 400]
    return pa.table({"object": pa.array([*(r[0] for r in rows), None], pa.int64()), "frame": [*(r[1] for r in rows), 300]})


def test_the_plan_is_randomised_response_for_each_bit() -> None:
    found = plan(job())
    assert found["plaza"].event == Repeated(RandomizedResponse(1), 4)
    assert found.cost.upper == pytest.approx(4)
    # sqrt(400) / (2 sinh(1/2)) times 1.96
    assert found["plaza"].errors["objects"] == pytest.approx(1.96 * 20 / (2 * 0.52109530549), rel=1e-4)


def test_counts_are_published_and_near(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    done = run(job(), base=tmp_path, ledger=ledger, tables={"seen": seen()})
    counts = pyarrow.csv.read_csv(done.folder / "plaza.csv").to_pydict()
    true = [sum(1 for i in range(400) if i <= f <= i + 400) for f in (0, 300, 600, 900)]
    # 19.2 is the deviation; five of them, chance about 2e-6
    assert counts["frame"] == [0, 300, 600, 900] and max(abs(a - b) for a, b in zip(counts["objects"], true, strict=True)) < 96
    presence = pyarrow.csv.read_csv(done.folder / "plaza_presence.csv")
    # objects that are in no row of the table are unknown; the one without a number is left out
    assert presence.num_columns == 4 and presence.num_rows == 400 == len(done.answers["plaza"].reports)
    (account,) = ledger.accounts()
    assert account.spec.unit == "object"
    page = (done.folder / "report.html").read_text()
    assert "400 objects in 4 key frames" in page and "<svg" in page
    assert "how many objects there are" in " ".join((done.folder / "registry.yaml").read_text().split())


def test_it_shares_a_job_with_other_tables() -> None:
    both = plan(job(("publication:", "  - {name: rows, sql: SELECT COUNT(*) AS n FROM seen, weight: 1}\npublication:")))
    assert both.cost.upper <= 4 * (1 + 1e-9) and {o.spec.kind for o in both.outputs} == {"table", "tracks"}
    assert plan(job(("{epsilon: 4, delta: 0}", "{rho: 1}"))).cost.upper > 0
    assert plan(job(("delta: 0", "delta: 1e-6"))).cost.upper <= 4


def test_more_bits_than_the_budget_can_carry_are_refused(tmp_path: Path) -> None:
    many = job(("[0, 300, 600, 900]", "{upto: 9000, every: 10}"))
    assert [n.rule for n in plan(many).warnings if n.refuses] == ["too-many-bits"]
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    with pytest.raises(JobError, match="more bits than the budget can carry"):
        run(many, base=tmp_path, ledger=ledger, tables={"seen": seen()})
    assert ledger.accounts() == []


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("replace-one", "add-remove")], "replace-one"), ([("frame: frame", "frame: time")], "names no column"),
        ([("source: seen, frame", "source: x, frame")], "names no private source"), ([("[0, 300, 600, 900]", "[3, 1]")], "increasing"),
        ([("[0, 300, 600, 900]", "[]")], "increasing"), ([(", keyframes: [0, 300, 600, 900]", "")], "keyframes"),
        ([("{person: object, max_rows: 1000,", "{row: true,")], "need an object"),
    ],
)  # fmt: skip
def test_blocks_are_refused_by_place(pairs: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(JobError, match=said):
        plan(job(*pairs))
