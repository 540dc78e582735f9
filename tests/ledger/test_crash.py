"""Kill -9 between every two steps, full disks, locked files, lost power: afterwards spent >= released, and the book verifies.

The failpoints live in the wrapper script below, which replaces steps of the package from outside; the package itself has none.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from tacit.accounting import PureDP
from tacit.ledger import Budget, BudgetExceeded, Ledger, LedgerBusy, LedgerUnwritable
from tacit.ledger.store import run

ROOT = Path(__file__).resolve().parents[2]
SHARE = Fraction(1, 64)

# Spends until it is killed; every touch of the data leaves a byte in the file `released`, synced before and after nothing else.
WRAPPER = """
import os, signal, sys
from fractions import Fraction
from tacit.accounting import PureDP
from tacit.ledger import Budget, Ledger, journal
from tacit.ledger import account as module
from tacit.ledger.store import Store

counts = {}

def step(name):
    counts[name] = counts.get(name, 0) + 1
    if name == point and counts[name] == turn:
        os.kill(os.getpid(), signal.SIGKILL)

def around(owner, name, before, after):
    original = getattr(owner, name)
    def stepped(*arguments, **options):
        step(before)
        result = original(*arguments, **options)
        step(after)
        return result
    setattr(owner, name, stepped)

class Data:
    def event(self, distance):
        return PureDP(Fraction(1, 64))
    def release(self, data, distance):
        step("before data")
        handle = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, b".")
        os.close(handle)
        step("after data")
        return 1

def spend():
    book = Ledger.open(url)
    account = book.account("visits", Budget(epsilon=1), cache=True)
    around(journal, "totals_of", "before reading", "after reading")
    around(journal, "append", "before the entry", "after the entry")
    around(journal, "set_totals", "before the totals", "after the totals")
    around(Store, "write", "before a transaction", "after a transaction")
    for number in range(5):
        if late:
            Data().release(None, 1)
            account.spend(Data().event(1))
        else:
            account.release(Data(), None, question=number)
        step("after the answer")
    step("the end")

late = sys.argv[1] == "late"
statuses = []
for job in sys.argv[2:]:
    url, released, point, turn = job.split("|")
    turn = int(turn)
    child = os.fork()
    if child == 0:
        try:
            spend()
        finally:
            os._exit(1)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(*statuses)
"""
POINTS = [
    *("before a transaction", "before reading", "after reading", "before the entry", "after the entry", "before the totals"),
    *("after the totals", "after a transaction", "before data", "after data", "after the answer", "the end"),
]


TURNS = {"before a transaction": 3, "after a transaction": 3, "before the entry": 3, "after the entry": 3, "the end": 1}


def killed(jobs: list[tuple[str, Path, str, int]], order: str = "ledger") -> list[int]:
    """Run a child for each job (URL, file of releases, point, which passing of it); how each ended."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", WRAPPER, order, *(f"{url}|{released}|{point}|{turn}" for url, released, point, turn in jobs)]
    run = subprocess.run(command, env=environment, timeout=900, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [int(word) for word in run.stdout.split()]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each point a directory in which a process was killed there, in its second spend."""
    found = {point: tmp_path_factory.mktemp("scene") for point in POINTS}
    jobs = [(f"sqlite:///{place / 'book.db'}", place / "released", point, TURNS.get(point, 2)) for point, place in found.items()]
    assert killed(jobs) == [-9] * len(jobs)
    return found


def touched(released: Path) -> int:
    return len(released.read_bytes()) if released.exists() else 0


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_step_the_book_has_what_was_released(scenes: dict[str, Path], point: str) -> None:
    """What was released is spent; at most one reservation is open, and it is spent too."""
    place = scenes[point]
    with Ledger.open(f"sqlite:///{place / 'book.db'}", create=False) as ledger:
        account = ledger.account("visits")
        spent, released = account.spent()["pure"] / SHARE, touched(place / "released")
        found = ledger.verify()
        assert found.ok
        assert released <= spent <= released + 1
        assert len(found.open) <= 1
        if point in ("before data", "after data"):
            assert len(found.open) == 1  # reserved, not concluded, not refunded
        account.spend(PureDP(SHARE))  # the book goes on
        assert ledger.verify().ok


def test_killed_on_postgresql(postgres_url: str, tmp_path: Path) -> None:
    """The same on a server, one kill after another on the same book."""
    released = tmp_path / "released"
    points = ["after the entry", "after the totals", "before data", "after data", "after a transaction"]
    assert killed([(postgres_url, released, point, 1) for point in points]) == [-9] * len(points)
    with Ledger.open(postgres_url, create=False) as ledger:
        assert ledger.verify().ok
        spent = ledger.account("visits").spent()["pure"] / SHARE
        # the first two died before their transaction ended, the last three after
        assert touched(released) == 1 and spent == 3 and len(ledger.verify().open) == 3


def test_a_ledger_that_debits_after_the_answer_is_caught(sqlite_url: str, tmp_path: Path) -> None:
    """The mutant, through the same check: answer first, book afterwards; killed between, it has released more than it has spent."""
    released = tmp_path / "released"
    assert killed([(sqlite_url, released, "after data", 2)], "late") == [-9]
    with Ledger.open(sqlite_url) as ledger:
        assert touched(released) > ledger.account("visits").spent()["pure"] / SHARE


# --- full disk ----------------------------------------------------------------------------------------------------------------------------


def test_a_full_database_grants_nothing_and_stays_in_order(sqlite_url: str, tmp_path: Path) -> None:
    """SQLite's own limit on pages stands for a full disk inside the database."""
    with Ledger.open(sqlite_url) as ledger:
        account = ledger.account("visits", Budget(epsilon=10**6))
        granted = 0
        pages = ledger.store.read(lambda connection: run(connection, "PRAGMA page_count").fetchone()[0])
        # one thread uses one connection, over and over
        ledger.store.read(lambda connection: run(connection, f"PRAGMA max_page_count={pages + 4}"))
        with pytest.raises(LedgerUnwritable, match="not granted"):
            for _ in range(2000):
                account.spend(PureDP(1), purpose="x" * 500)
                granted += 1
        assert granted > 0
        assert account.spent()["pure"] == granted
        assert ledger.verify().ok
    with Ledger.open(sqlite_url) as ledger:  # with room again, the book goes on
        ledger.account("visits").spend(PureDP(1))
        assert ledger.account("visits").spent()["pure"] == granted + 1 and ledger.verify().ok


FULL = """
import resource, signal, sys
from tacit.accounting import PureDP
from tacit.ledger import Budget, Ledger, LedgerError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger.open(sys.argv[1])
account = ledger.account("visits", Budget(epsilon=10**6))
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
granted = 0
try:
    for _ in range(3000):
        account.spend(PureDP(1), purpose="x" * 300)
        granted += 1
        print(granted, flush=True)
except LedgerError as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("limit", [150_000, 300_001])
def test_a_file_that_cannot_grow_grants_nothing_more(sqlite_url: str, limit: int) -> None:
    """The operating system refuses to extend the log, at a page and in the middle of one."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", FULL, sqlite_url, str(limit)], capture_output=True, text=True, env=environment, timeout=900)
    assert run.returncode == 0, run.stderr
    *counts, last = run.stdout.split()
    assert last == "LedgerUnwritable" and counts
    with Ledger.open(sqlite_url) as ledger:
        found = ledger.verify()
        assert found.ok, found.problems
        # everything acknowledged is there; the refused one may have reached the disk, which is on the safe side
        assert int(counts[-1]) <= ledger.account("visits").spent()["pure"] <= int(counts[-1]) + 1


# --- locks --------------------------------------------------------------------------------------------------------------------------------


def test_a_locked_book_says_so_and_spends_nothing(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url, timeout=0.3) as ledger:
        account = ledger.account("visits", Budget(epsilon=1))
        other = sqlite3.connect(tmp_path / "book.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match=r"more than 0.3 seconds; nothing was spent"):
            account.spend(PureDP(0.5))
        assert account.spent()["pure"] == 0  # reading needs no lock
        other.execute("ROLLBACK")
        other.close()
        account.spend(PureDP(0.5))
        assert ledger.verify().ok


def test_a_locked_book_on_postgresql(postgres_url: str) -> None:
    with Ledger.open(postgres_url, timeout=0.3) as ledger, Ledger.open(postgres_url) as other:
        account = ledger.account("visits", Budget(epsilon=1))
        with other.store.engine().begin() as connection:
            connection.exec_driver_sql("SELECT seq FROM tacit_head FOR UPDATE")
            with pytest.raises(LedgerBusy, match="nothing was spent"):
                account.spend(PureDP(0.5))
        account.spend(PureDP(0.5))
        assert account.spent()["pure"] == Fraction(1, 2) and ledger.verify().ok


# --- power cuts ---------------------------------------------------------------------------------------------------------------------------


def frames(wal: bytes) -> list[int]:
    """Where the frames of a write-ahead log end: a header of 32 bytes, then 24 bytes and a page each (SQLite file format, section 4)."""
    page = struct.unpack(">I", wal[8:12])[0]
    return list(range(32, len(wal) + 1, 24 + page))


def test_after_a_power_cut_nothing_acknowledged_is_missing(tmp_path: Path) -> None:
    """The log cut at every frame and in the middle of frames: the book verifies, and has every spend whose sync had ended by then."""
    source = tmp_path / "book.db"
    acknowledged: list[tuple[int, Fraction, int]] = []  # bytes of log, spent, releases, when a spend had returned
    ledger = Ledger.open(f"sqlite:///{source}")
    account = ledger.account("visits", Budget(epsilon=1))
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    wal = Path(f"{source}-wal")
    for number in range(6):
        reservation = account.reserve(PureDP(SHARE))
        # from here on the data may be touched, so from here on the spend must survive
        acknowledged.append((wal.stat().st_size, account.spent()["pure"], number + 1))
        reservation.commit()
    log = wal.read_bytes()
    shutil.copy(source, tmp_path / "base.db")
    boundaries = frames(log)
    cuts = sorted({0, *boundaries, *(b + 11 for b in boundaries[:-1]), *(b - 700 for b in boundaries[1:]), len(log)})
    lost = 0
    for cut in cuts:
        copy = tmp_path / "copy.db"
        shutil.copy(tmp_path / "base.db", copy)
        Path(f"{copy}-wal").write_bytes(log[:cut])
        with Ledger.open(f"sqlite:///{copy}", create=False) as restored:
            found = restored.verify()
            assert found.ok, (cut, found.problems)
            spent = restored.account("visits").spent()["pure"]
        released = max((count for size, _, count in acknowledged if size <= cut), default=0)
        assert spent / SHARE >= released
        lost += spent / SHARE < 6
        for leftover in tmp_path.glob("copy.db*"):
            leftover.unlink()
    assert lost > 5  # the cuts did lose later spends, so the comparison above said something
    ledger.close()


def test_garbage_at_the_end_of_the_log_is_not_believed(tmp_path: Path) -> None:
    """A torn write leaves nonsense, or an older log's frames, after the last good frame."""
    source = tmp_path / "book.db"
    ledger = Ledger.open(f"sqlite:///{source}")
    account = ledger.account("visits", Budget(epsilon=1))
    account.spend(PureDP(SHARE))
    wal = Path(f"{source}-wal").read_bytes()
    for tail in (b"\0" * 5000, wal[32:8000], bytes(range(256)) * 20):
        copy = tmp_path / "copy.db"
        shutil.copy(source, copy)
        Path(f"{copy}-wal").write_bytes(wal + tail)
        with Ledger.open(f"sqlite:///{copy}", create=False) as restored:
            assert restored.verify().ok and restored.account("visits").spent()["pure"] == SHARE
        for leftover in tmp_path.glob("copy.db*"):
            leftover.unlink()
    ledger.close()


def test_a_reservation_is_on_the_disk_before_the_data_may_be_touched(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the log is synced: at the end of every spend and reservation, not for the mark that a reservation is done."""
    synced = []
    original = os.fsync

    def watched(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}").rpartition("/")[2])
        original(handle)

    with Ledger.open(sqlite_url) as ledger:
        account = ledger.account("visits", Budget(epsilon=1))
        monkeypatch.setattr(os, "fsync", watched)
        reservation = account.reserve(PureDP(0.1))
        assert synced == ["book.db-wal"]
        reservation.commit()
        assert synced == ["book.db-wal"]
        account.spend(PureDP(0.1))
        assert synced == ["book.db-wal"] * 2
        with pytest.raises(BudgetExceeded):
            account.spend(PureDP(1))
        assert len(synced) == 2


def test_a_disk_that_fails_to_sync_grants_nothing(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    with Ledger.open(sqlite_url) as ledger:
        account = ledger.account("visits", Budget(epsilon=1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            with pytest.raises(LedgerUnwritable, match="not granted"):
                account.spend(PureDP(0.25))
        # booked, although not granted: on the safe side
        assert account.spent()["pure"] == Fraction(1, 4) and ledger.verify().ok
