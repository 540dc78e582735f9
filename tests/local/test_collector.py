"""The collector: the same bytes in any order, nothing counted twice, nothing lost by a crash, error bars that cover."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr
from tests.local.oracles import ALL

from tacit.errors import ParameterError
from tacit.local import Collector, Protocol, Response, Unary, detectable, frequencies, to_batch, to_report
from tacit.local.collector import SeenWords

FEW = frequencies(["a", "b", "c"], epsilon=2)


def batches(protocol: Protocol, number: int, rows: int = 50, *, nonces: bool = True) -> list[pa.RecordBatch]:
    return [to_batch(protocol, np.arange(k, k + rows) % protocol.size, nonces=nonces) for k in range(number)]


# --- adding up ---


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("nonces", [True, False])
def test_any_tree_of_shards_holds_the_same_bytes(kind: Any, nonces: bool, tmp_path: Path) -> None:
    protocol = Protocol(9, kind(9, 1))
    sent = batches(protocol, 6, nonces=nonces)
    foreign = to_batch(FEW, ["a"] * 3)
    whole = Collector(protocol).ingest([*sent, foreign]).to_bytes()
    for order in ([5, 3, 1, 0, 2, 4], [0, 1, 2, 3, 4, 5]):
        shards = [Collector(protocol).ingest(sent[k]) for k in order]
        shards[2].ingest(foreign)
        first = shards[0].merge(shards[1].merge(shards[2])).merge(shards[3])
        assert first.merge(shards[4].merge(shards[5])).to_bytes() == whole
    half = Collector(protocol, tmp_path / "a.db").ingest(sent[:2])
    del half
    again = Collector(protocol, tmp_path / "a.db").ingest(sent[2:3])  # after a reload
    other = Collector(protocol, tmp_path / "b.db").ingest([*sent[3:], foreign])
    assert again.merge(other).to_bytes() == whole == Collector(protocol, tmp_path / "a.db").to_bytes()


@given(st.lists(st.integers(0, 5), min_size=6, max_size=6), st.permutations(range(6)))
def test_merging_is_associative_and_commutative(owners: list[int], order: list[int]) -> None:
    protocol = Protocol(5, Response(5, 1))
    sent = [SENT[k] for k in range(6)]
    shards = [Collector(protocol) for _ in range(6)]
    for owner, batch in zip(owners, sent, strict=True):
        shards[owner].ingest(batch)
    total = Collector(protocol)
    for k in order:
        total.merge(shards[k])
    assert total.to_bytes() == Collector(protocol).ingest(sent).to_bytes()


SENT = batches(Protocol(5, Response(5, 1)), 6, 7)


def test_merging_refuses_what_would_count_twice() -> None:
    for nonces in (True, False):
        (sent,) = batches(FEW, 1, nonces=nonces)
        first, second = Collector(FEW).ingest(sent), Collector(FEW).ingest(sent)
        with pytest.raises(ParameterError, match="same reports"):
            first.merge(second)
        assert first.n == 50  # and nothing was added
        merged = first.merge(second, overlap="count")
        assert merged.n == 100 and merged.dropped == {"counted twice": 50 if nonces else 1}
    with pytest.raises(ParameterError, match="another protocol"):
        Collector(FEW).merge(Collector(frequencies(["a", "b"], epsilon=2)))
    with pytest.raises(ParameterError, match="overlap"):
        Collector(FEW).merge(Collector(FEW), overlap="maybe")
    with pytest.raises(ParameterError, match="nonces"):
        Collector(FEW).ingest(batches(FEW, 1)).merge(Collector(FEW).ingest(batches(FEW, 1, nonces=False)))
    one = Collector(FEW).ingest(batches(FEW, 1))
    with pytest.raises(ParameterError, match="same reports"):
        one.merge(one)


def test_junk_sent_to_all_shards_does_not_stop_their_merging() -> None:
    """Empty, garbled and foreign batches are no reports, so two shards that saw the same ones have nothing in common."""
    empty, foreign = FEW_EMPTY, to_batch(frequencies(9, epsilon=1), [1, 2])
    shards = [Collector(FEW).ingest([batch, empty, foreign]).ingest([b"junk"]).ingest([]) for batch in batches(FEW, 3)]
    total = shards[0].merge(shards[1]).merge(shards[2])
    assert total.n == 150 and total.dropped == {"foreign": 6, "malformed": 3}


FEW_EMPTY = to_batch(FEW, [])


# --- an enemy's batches ---


def test_replays_change_the_count_of_dropped_reports_only() -> None:
    first, second = batches(FEW, 2)
    honest = Collector(FEW).ingest([first, second])
    singles = [to_report(FEW, "a") for _ in range(5)]
    honest.ingest(singles)
    table, n = honest.table.copy(), honest.n
    replays: list[Any] = [
        first,
        second,
        first.slice(3, 20),
        pa.concat_batches([second.slice(40, 10), first.slice(0, 5)]),
        pa.Table.from_batches([first]),
        [singles[2]],
        singles,
        [first.select(["report"])],
        [first.select(["report"]).slice(2, 9)],
    ]
    for replay in replays:
        honest.ingest(replay)
        assert honest.n == n and (honest.table == table).all()
    assert honest.dropped == {"repeated": 50 + 50 + 20 + 15 + 50 + 1 + 5, "mixed": 50 + 9}


def test_a_shuffled_batch_counts_once_and_nonces_do_not_mix_in() -> None:
    (sent,) = batches(FEW, 1, nonces=False)
    collector = Collector(FEW, nonces=False).ingest([sent, sent])
    assert (collector.n, collector.dropped) == (50, {"repeated": 50})
    collector.ingest(batches(FEW, 1)).ingest([to_report(FEW, "a")])
    assert (collector.n, collector.dropped) == (50, {"repeated": 50, "mixed": 51})
    assert Collector(FEW, nonces=True).ingest(sent).dropped == {"mixed": 50}


def test_a_shorter_batch_of_the_same_bytes_is_another_batch() -> None:
    """Two reports of one byte, or rows hidden behind nulls: the digest tells them apart."""
    rows = pa.array([b"\0", b"\1", b"\1"], pa.binary(1))
    hidden = pa.array([b"\0", b"\1", None], pa.binary(1))
    collector = Collector(FEW)
    for column in (rows, rows[:2], hidden):
        collector.ingest(pa.RecordBatch.from_arrays([column], schema=FEW_SHUFFLED))
    assert collector.n == 7 and collector.dropped == {"malformed": 1}


FEW_SHUFFLED = to_batch(FEW, [], nonces=False).schema


def test_things_that_are_no_batches() -> None:
    collector = Collector(FEW)
    for junk in ([None], [3, "x", object()], b"junk", "text", {1: 2}, (b"",), pa.table({"a": [1, 2]})):
        collector.ingest(junk)  # type: ignore[arg-type]
    assert collector.n == 0 and set(collector.dropped) == {"malformed", "foreign"}
    with pytest.raises(ParameterError, match="fewer than two"):
        collector.estimate()


@given(st.lists(st.sets(st.integers(0, 30)), max_size=8))
def test_seen_words_are_a_set(groups: list[set[int]]) -> None:
    seen, plain = SeenWords(), set[int]()
    for group in groups:
        words = np.array(sorted(group), dtype=np.uint64) * np.uint64(2**59)
        new = ~seen.known(words)
        assert new.tolist() == [int(w) not in plain for w in words]
        seen.add(words[new])
        plain |= {int(w) for w in words}
    assert seen.all().tolist() == sorted(plain)


# --- the file ---


class Dying(sqlite3.Connection):
    """A connection whose process is gone before or after its k-th statement."""

    left = 10**9
    after = False

    def _step(self, call: Any, *arguments: Any) -> Any:
        Dying.left -= 1
        if Dying.left == 0 and not Dying.after:
            os._exit(9)
        found = call(*arguments)
        if Dying.left == 0:
            os._exit(9)
        return found

    def execute(self, *arguments: Any) -> Any:  # type: ignore[override]
        return self._step(super().execute, *arguments)

    def executemany(self, *arguments: Any) -> Any:  # type: ignore[override]
        return self._step(super().executemany, *arguments)


def in_a_child(action: Any, left: int, after: bool) -> int:
    """Run an action in a forked process that dies at a statement; its status."""
    child = os.fork()
    if child == 0:
        try:
            right = sqlite3.connect
            sqlite3.connect = lambda *a, **o: right(*a, **o, factory=Dying)  # type: ignore[assignment]
            Dying.left, Dying.after = left, after
            action()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("nonces", [True, False])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_statement_loses_nothing_and_counts_nothing_twice(nonces: bool, after: bool, tmp_path: Path) -> None:
    protocol = Protocol(9, Unary(9, 1))
    first, second, third = batches(protocol, 3, nonces=nonces)
    wanted = Collector(protocol).ingest([first, second]).table
    merged = Collector(protocol).ingest([first, second, third]).to_bytes()
    outcomes = set()
    for left in itertools.count(1):
        path = tmp_path / f"{left}.db"
        Collector(protocol, path).ingest(first)
        status = in_a_child(
            lambda path=path: Collector(protocol, path).ingest(second).merge(Collector(protocol).ingest(third)), left, after
        )
        found = Collector(protocol, path)
        assert status in (0, 9) and found.n in (50, 100, 150)
        outcomes.add(found.n)
        if (before := found.n) < 150:
            found.ingest([first, second])
            assert found.n == 100 and found.dropped == {"repeated": before}
            assert (found.table == wanted).all()
            found.merge(Collector(protocol).ingest(third))
        assert Collector(protocol, path).n == 150
        if status == 0:
            assert Collector(protocol, path).to_bytes() == merged
            break
    assert outcomes == {50, 100, 150} and left > 15


def test_a_new_file_survives_a_crash_while_it_is_made(tmp_path: Path) -> None:
    (sent,) = batches(FEW, 1)
    for left in itertools.count(1):
        path = tmp_path / f"{left}.db"
        status = in_a_child(lambda path=path: Collector(FEW, path), left, False)
        assert Collector(FEW, path).ingest(sent).n == 50
        if status == 0:
            break
    assert left > 5


CHILD = """
import sys
from tacit.local import Collector, Protocol, to_batch
protocol = Protocol.read(sys.argv[1])
collector = Collector(protocol, sys.argv[2])
for k in range(15):
    collector.ingest(to_batch(protocol, [k % 5] * 10))
"""


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    protocol = Protocol(5, Response(5, 1))
    protocol.write(tmp_path / "p.json")
    mine = Collector(protocol, tmp_path / "c.db")
    command = [sys.executable, "-c", CHILD, str(tmp_path / "p.json"), str(tmp_path / "c.db")]
    source = str(Path(__file__).parents[2] / "src")
    children = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source}) for _ in range(2)]
    for _ in range(15):
        mine.ingest(to_batch(protocol, [0] * 10))
    assert [child.wait(timeout=120) for child in children] == [0, 0]
    assert mine.estimate().n == 450 == Collector(protocol, tmp_path / "c.db").n


def test_merging_into_a_file_keeps_what_another_process_counted(tmp_path: Path) -> None:
    first, second, third = batches(FEW, 3)
    mine = Collector(FEW, tmp_path / "c.db").ingest(first)
    Collector(FEW, tmp_path / "c.db").ingest(second)
    assert mine.merge(Collector(FEW).ingest(third)).n == 150
    assert mine.ingest([first, second, third]).n == 150


def test_other_files_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    Collector(FEW, path).ingest(batches(FEW, 1))
    with pytest.raises(ParameterError, match="another protocol"):
        Collector(frequencies(["a", "b"], epsilon=2), path)
    with pytest.raises(ParameterError, match="other sort"):
        Collector(FEW, path, nonces=False)
    connection = sqlite3.connect(path)
    (body,) = connection.execute("SELECT value FROM state WHERE name = 'counts'").fetchone()
    connection.execute("UPDATE state SET value = ? WHERE name = 'counts'", [bytes(body)[:-1] + b"\7"])
    connection.commit()
    connection.close()
    with pytest.raises(ParameterError, match="damaged"):
        Collector(FEW, path)
    (tmp_path / "text").write_text("no database " * 500)
    with pytest.raises(ParameterError, match="no file of counts"):
        Collector(FEW, tmp_path / "text")
    connection = sqlite3.connect(tmp_path / "else.db")
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(ParameterError, match="no file of counts"):
        Collector(FEW, tmp_path / "else.db")


def test_a_batch_costs_the_file_what_the_batch_holds(tmp_path: Path) -> None:
    """Nonces are appended: what is written for the 20th batch is no more than for the second."""
    collector, sizes = Collector(FEW, tmp_path / "c.db"), []
    for _ in range(20):
        collector.ingest(to_batch(FEW, ["a"] * 2000))
        sizes.append((tmp_path / "c.db").stat().st_size)
    steps = np.diff(sizes)
    assert steps.max() <= 3 * 2000 * 8 and collector.n == 40_000


# --- answers ---


def test_estimates_are_the_formula() -> None:
    protocol = Protocol(4, Response(4, 1))
    collector = Collector(protocol)
    collector.table, collector.n = np.array([60, 30, 10, 0]), 100
    p, q = math.e / (math.e + 3), 1 / (math.e + 3)
    found = collector.estimate()
    assert found.share == pytest.approx([(c / 100 - q) / (p - q) for c in (60, 30, 10, 0)])
    assert found.count == pytest.approx(found.share * 100) and found.share[3] < 0  # raw figures are kept
    held = min(max(found.share[1], 0), 1)
    assert found.deviation[1] == pytest.approx(math.sqrt((held * p * (1 - p) + (1 - held) * q * (1 - q)) / 100) / (p - q))
    low, high = found.interval(0.95)
    assert (high - low) / 2 == pytest.approx(1.959964 * found.deviation, rel=1e-5)
    low, high = found.interval(0.95, together=True)
    assert (high - low) / 2 == pytest.approx(2.497705 * found.deviation, rel=1e-5)  # 1 - .05/4, two-sided
    assert [v for v, *_ in found.top(2)] == [0, 1]
    assert found.to_arrow().column_names == ["value", "share", "low", "high", "count", "processed"]
    for bad in (0, 1, 2, -1):
        with pytest.raises(ParameterError, match="confidence"):
            found.interval(bad)


def test_intervals_cover() -> None:
    """400 surveys of 2,000 people, 95% for all four values at once: fewer than 360 covering ones have a chance of 4e-5 if the level
    holds exactly; the mutant with intervals of half the width covers too rarely."""
    protocol, good, half = Protocol(4, Response(4, 1)), 0, 0
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    values = np.repeat(np.arange(4), [1000, 600, 400, 0])
    for _ in range(400):
        collector = Collector(protocol)
        protocol.randomiser.add(collector.table, protocol.randomiser.privatise(values))
        collector.n = 2000
        found = collector.estimate()
        low, high = found.interval(0.95, together=True)
        good += bool(((low <= truth) & (truth <= high)).all())
        half += bool((np.abs(found.share - truth) <= (high - low) / 4).all())
    assert good >= 360 and half < 360 and bdtr(359, 400, 0.95) < 1e-4


def test_labels_of_several_types_make_a_table() -> None:
    protocol = Protocol(("a", 1, "b"), Response(3, 1))
    table = Collector(protocol).ingest(to_batch(protocol, ["a", 1, "b"] * 10)).estimate().to_arrow()
    assert table.column("value").to_pylist() == ["a", "1", "b"]


def test_nothing_of_what_was_dropped_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    secret = b"\1" + bytes(8) + b"SECRET99" + b"SECRETVALUE"
    collector = Collector(FEW, tmp_path / "c.db").ingest([secret])
    assert b"SECRET" not in (tmp_path / "c.db").read_bytes() + collector.to_bytes() + repr(collector).encode()
    assert not caplog.records and capsys.readouterr() == ("", "")
    assert json.loads(collector.to_bytes().partition(b"\n")[0])["dropped"] == {"malformed": 1}


def test_the_detectable_share() -> None:
    assert detectable(FEW, 10_000) == pytest.approx(2.393980 * math.sqrt(FEW.randomiser.variance(10_000)), rel=1e-5)


def counted_until(path: Path, protocol: Protocol, batches: list[pa.RecordBatch], stop: int) -> bool:
    """Count batches in a process of its own, which ends without a word before its `stop`-th statement; whether it came to its end."""
    child = os.fork()
    if child == 0:  # nothing of pytest may run in here
        calls = 0

        def watched(method: str):  # type: ignore[no-untyped-def]
            def run(self: sqlite3.Connection, *given: object) -> object:
                nonlocal calls
                calls += 1
                if calls == stop:
                    os.kill(os.getpid(), signal.SIGKILL)
                return getattr(sqlite3.Connection, method)(self, *given)

            return run

        kind = type("Watched", (sqlite3.Connection,), {name: watched(name) for name in ("execute", "executemany")})
        plain = sqlite3.connect
        sqlite3.connect = lambda *a, **k: plain(*a, **{**k, "factory": kind})  # type: ignore[assignment]
        Collector(protocol, path).ingest(batches)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("nonces", [True, False])
def test_a_kill_at_any_statement_loses_no_batch_and_counts_none_twice(tmp_path: Path, nonces: bool) -> None:
    """A SIGKILL before every statement that counting three batches makes; all of them are sent again afterwards, and once more."""
    protocol = frequencies(["a", "b", "c"], epsilon=1)
    batches = [to_batch(protocol, ["a"] * 40 + ["c"] * k, nonces=nonces) for k in (10, 20, 30)]
    whole = Collector(protocol).ingest(batches).table
    seen = set()
    for stop in range(1, 100):
        path = tmp_path / f"{nonces}{stop}.db"
        ended = counted_until(path, protocol, batches, stop)
        survivor = Collector(protocol, path)
        seen.add(survivor.n)
        assert survivor.n in (0, 50, 110, 180)  # whole batches
        for _ in range(2):
            survivor = Collector(protocol, path).ingest(batches)
            assert survivor.n == 180 and (survivor.table == whole).all()
        if ended:
            break
    else:
        pytest.fail("the run was never finished")
    assert seen == {0, 50, 110, 180} and stop > 20
