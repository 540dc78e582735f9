"""kill -9 at every system call: no merged batch is lost or counted twice, and no device sends a report that its book does not hold.

`make test` takes one stop in 45 or more, `make test-slow` all of them; kills at every statement are in `test_collector`.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest
from tests.local import kills

from tacit.local import Client, Collector, Protocol, Unary, frequencies, to_batch

pytestmark = pytest.mark.skipif(not kills.possible(), reason="processes cannot be traced here")
PROTOCOL = frequencies(["a", "b", "c"], epsilon=1)
STEPS = [pytest.param(45, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("nonces", [True, False])
def test_a_killed_collector_has_whole_batches_and_each_once(tmp_path: Path, nonces: bool, step: int) -> None:
    """A file with one batch; a second is counted and a third comes by a merge. Both are then sent again, twice."""
    protocol = Protocol(9, Unary(9, 1))
    first, second, third = (to_batch(protocol, [k] * 40 + [8] * k, nonces=nonces) for k in (1, 2, 3))
    template = tmp_path / "template.db"
    Collector(protocol, template).ingest(first)
    # the third batch may be in the file by the merge, and what was merged is known: it is dropped when it comes again
    whole = Collector(protocol).ingest([first, second, third]).table
    sizes, seen = (41, 83, 126), set()
    for stop in itertools.count(1, step):
        path = tmp_path / f"{stop}.db"
        shutil.copy(template, path)
        ended = kills.killed(lambda p=path: Collector(protocol, p).ingest(second).merge(Collector(protocol).ingest(third)), stop)
        survivor = Collector(protocol, path)
        seen.add(survivor.n)
        assert survivor.n in sizes  # whole batches, and nothing that was counted is lost
        before = survivor.n
        survivor.ingest([first, second, third])
        assert survivor.n == 126 and survivor.dropped == {"repeated": before}
        again = Collector(protocol, path)
        assert (again.table == whole).all() and again.n == 126
        for left in tmp_path.glob(f"{stop}.db*"):
            left.unlink()
        if ended:
            break
    assert stop > 300 and (step > 1 or seen == set(sizes))


@pytest.mark.parametrize("step", STEPS)
def test_a_new_file_is_killed_while_it_is_made(tmp_path: Path, step: int) -> None:
    sent = to_batch(PROTOCOL, ["a"] * 50)
    for stop in itertools.count(1, step):
        path = tmp_path / f"{stop}.db"
        ended = kills.killed(lambda p=path: Collector(PROTOCOL, p).ingest(sent), stop)
        assert Collector(PROTOCOL, path).ingest(sent).n == 50
        if ended:
            break
    assert stop > 150


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("values", [1, None])
def test_a_killed_device_never_sent_more_than_it_booked(tmp_path: Path, values: int | None, step: int) -> None:
    """What a device sent before the kill is what it sends afterwards, for the same payment; no book pays twice for one report.

    A kill after the payment and before its result was kept costs that payment: the next try pays again, once.
    """
    period = None if values else "monday"
    new = {"lifetime": "eps=2", "values": values}
    for stop in itertools.count(1, 5 * step if step > 1 else 1):
        path, sent = tmp_path / f"{stop}.db", tmp_path / f"{stop}.sent"

        def report(path: Path = path, sent: Path = sent) -> None:
            told = Client(PROTOCOL, ledger=path, **new).report("b", period=period)  # type: ignore[arg-type]
            handle = os.open(sent, os.O_WRONLY | os.O_CREAT)
            os.write(handle, told)

        ended = kills.killed(report, stop)
        told = sent.read_bytes()[17:] if sent.exists() else b""
        own = Client(PROTOCOL, ledger=path, **new)  # type: ignore[arg-type]
        assert not told or str(own.spent()) == "epsilon 1"
        again = own.report("b", period=period)[17:]  # the lifetime is that of two payments
        assert str(own.spent()) in ("epsilon 1", "epsilon 2")
        assert not told or (again == told and str(own.spent()) == "epsilon 1")
        if ended:
            assert told
            break
    assert stop > 300


def test_sixty_four_processes_of_one_book_spend_once(tmp_path: Path) -> None:
    """All of them report at once; one pays, and all send the same bytes."""
    path, children = tmp_path / "me.db", []
    for k in range(64):
        child = os.fork()
        if child == 0:
            try:
                told = Client(PROTOCOL, ledger=path, lifetime="eps=1").report("b")
                (tmp_path / f"{k}.sent").write_bytes(told)
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    sent = [file.read_bytes() for file in tmp_path.glob("*.sent")]
    assert len(sent) == 64 and len({one[17:] for one in sent}) == 1 and len({one[9:17] for one in sent}) == 64
    assert str(Client(PROTOCOL, ledger=path, lifetime="eps=1").spent()) == "epsilon 1"
