"""Books and releases: a fixed sequence of entries, and a job that is planned, run, interrupted and resumed.

The clock stands still and tokens are known, so a book that repeats the sequence has the same bytes in every entry, and the same hashes.
"""

from __future__ import annotations

import contextlib
import csv
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.before.frozen import plain, repeatable, standing_still

from tacit import release as jobs
from tacit.accounting import GDP, ZCDP, Adjacency, ApproxDP, Composed, Gaussian, Group, Laplace, PureDP, Repeated
from tacit.calculus import AddRemove, Integers, ReplaceOne, Rows, Space, clamp, total
from tacit.ledger import Account, Budget, DataIdentity, Ledger, LedgerError, queryable
from tacit.mechanisms import laplace
from tacit.noise import test_mode

FIXTURES = Path(__file__).resolve().parent / "fixtures"
JOB = FIXTURES / "job.yaml"
SEED = 20251


def dumped(file: Path) -> str:
    """A book as SQL. Triggers that guard the entries are part of it."""
    with sqlite3.connect(file) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def restored(text: str, file: Path) -> Path:
    """The file of a book that was kept as SQL."""
    with sqlite3.connect(file) as connection:
        connection.executescript(text)
    connection.close()
    return file


def entries(file: Path) -> list[list[Any]]:
    """Every entry as it is stored: number, columns, text and hash."""
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT seq, kind, account, reservation, question, body, hash FROM tacit_entries ORDER BY seq").fetchall()
    connection.close()
    return [list(row) for row in rows]


# --- the sequence ------------------------------------------------------------------------------------------------------------------------


def refused(ask: Callable[[], Any]) -> str:
    """The kind of the refusal; its words may be put better."""
    try:
        ask()
    except LedgerError as error:
        return type(error).__name__
    return "admitted"


def journal() -> dict[str, Any]:
    """The whole sequence: what is stored in the end, what was refused, and what is left."""
    with tempfile.TemporaryDirectory() as folder, standing_still():
        file = Path(folder) / "book.db"
        told = told_by(file)
        verified = Ledger.open(f"sqlite:///{file}", create=False)
        told["verified"] = bool(verified.verify().ok)
        verified.close()
        return {**plain(told), **{f"entry {row[0]}": row for row in entries(file)}, "totals": _totals(file)}


def _totals(file: Path) -> list[list[Any]]:
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT account, period, body FROM tacit_totals ORDER BY account, period").fetchall()
    connection.close()
    return [list(row) for row in rows]


def told_by(file: Path) -> dict[str, Any]:
    """Run the sequence on a new book and say what it answered."""
    with Ledger.open(f"sqlite:///{file}") as book:
        found = {
            "currencies": _currencies(book),
            "reservations": _reservations(book),
            "cache": _cached(book),
            "windows": _windows(book),
            "children": _children(book),
            "corrections": _corrected(book),
            "names": _named(book),
            "queryable": _queryable(book),
            "seeded": _seeded(book),
        }
        return {**found, "head": book.head()}


def _state(account: Account, **asked: Any) -> list[Any]:
    return [account.left(**asked), account.spent(**asked).known()]


def _currencies(book: Ledger) -> list[Any]:
    told: list[Any] = []
    for name, budget, event in (
        ("pure", Budget(epsilon=1), Laplace(4)),
        ("approximate", Budget(epsilon=1, delta="1e-6"), ApproxDP(Fraction(1, 4), Fraction(1, 10**7))),
        ("rho", Budget(rho=0.1), Gaussian(5)),
        ("mu", Budget(mu=1), Gaussian(3)),
        ("renyi", Budget(renyi={2: 1, 8: 4}), Gaussian(4)),
    ):
        account = book.account(name, budget, unit="patient", adjacency=Adjacency.ADD_REMOVE)
        spent = account.spend(event, purpose=f"a spend in {name}", analyst="ann")
        told.append([spent.entry, spent.hash, spent.charge, spent.private, *_state(account)])
        told.append([refused(lambda a=account, e=event: a.spend(Repeated(e, 400), delta=None)), *_state(account)])
    gaussian = book.account("approximate")
    told.append([gaussian.spend(Gaussian(20), delta="1e-7", purpose="a Gaussian").charge, *_state(gaussian)])
    ten = book.account("ten", Budget(epsilon=1))
    told += [ten.spend(PureDP(0.1)).entry for _ in range(10)]
    return [*told, refused(lambda: ten.spend(PureDP(1e-12)))]


def _reservations(book: Ledger) -> list[Any]:
    account = book.account("visits", Budget(epsilon=2, delta="1e-5"), unit="patient")
    with account.reserve(Laplace(10), purpose="weekly table", analyst="ann", question={"sql": "SELECT 1"}):
        pass
    try:
        with account.reserve(Composed(Laplace(10), Gaussian(30)), delta="1e-6", purpose="fails"):
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    left_open = account.reserve(Group(Laplace(20), 2), purpose="left open")
    space = Space(Rows(Integers(0, 10)), AddRemove())
    plan = space >> clamp(0, 10) >> total() >> laplace(scale=200)
    with test_mode(SEED):
        released = account.release(plan, [3, 4, 9], purpose="a release")
    refusal = refused(lambda: account.reserve(Laplace(Fraction(1, 100)), purpose="too much"))
    return [left_open.receipt.entry, released.value, refusal, *_state(account)]


def _cached(book: Ledger) -> list[Any]:
    account = book.account("kept", Budget(rho=1), cache=True)
    question = {"sql": "SELECT COUNT(*) FROM visits", "keys": ["N", "S"]}
    first = account.reserve(ZCDP(Fraction(1, 10)), question=question)
    first.commit(answer={"n": [41, 17.5]})
    second = account.reserve(ZCDP(Fraction(1, 10)), question=question)
    other = account.reserve(ZCDP(Fraction(1, 5)), question=question)
    other.fail()
    return [second.cached, second.answer, second.receipt.entry, *_state(account)]


def _windows(book: Ledger) -> list[Any]:
    account = book.account("monthly", Budget(epsilon=1, delta="1e-6"), window="month", growing=True)
    for period in ("2025-01", "2025-02", "2025-01"):
        account.spend(Laplace(4), period=period, purpose="a month")
    over = refused(lambda: account.spend(Laplace(1), period="2025-01"))
    return [over, _state(account, period="2025-01"), _state(account, period="2025-02"), account.total("2025-01-15", "2025-01-20").known()]


def _children(book: Ledger) -> list[Any]:
    told: list[Any] = []
    for rule, relation in (("sum", Adjacency.ADD_REMOVE), ("max", Adjacency.ADD_REMOVE), ("two-largest", Adjacency.REPLACE_ONE)):
        parent = book.account(f"parent, {rule}", Budget(epsilon=2), rule=rule, adjacency=relation)
        first, second = (parent.child(f"{name}, {rule}", Budget(epsilon=1)) for name in ("north", "south"))
        first.spend(Laplace(4), purpose="north")
        second.spend(Laplace(8), purpose="south")
        told.append([_state(parent), _state(first), refused(lambda a=first: a.spend(Laplace(1)))])
    return told


def _corrected(book: Ledger) -> list[Any]:
    account = book.account("corrected", Budget(epsilon=1, reserve=0.2))
    account.spend(PureDP(Fraction(4, 5)), purpose="all that is ordinary")
    refusal = refused(lambda: account.spend(PureDP(Fraction(1, 10))))
    with account.reserve(PureDP(Fraction(1, 10)), correction=True, purpose="a correction"):
        pass
    return [refusal, account.left(), account.left(correction=True), account.spent().known()]


def _named(book: Ledger) -> list[Any]:
    data = DataIdentity.rows([{"age": 31}, {"age": 40}])
    one = book.account("by content", Budget(mu=2), data=data, adjacency=Adjacency.REPLACE_ONE)
    alias = book.account("the same content", data=DataIdentity.rows([{"age": 40}, {"age": 31}]))
    second = refused(lambda: book.account("more of it", Budget(mu=3), data=data))
    alias.spend(GDP(1), purpose="under another name")
    return [second, _state(one)]


def _queryable(book: Ledger) -> list[Any]:
    account = book.account("asked", Budget(epsilon=3), adjacency=Adjacency.REPLACE_ONE)
    rows = Space(Rows(Integers(0, 10)), ReplaceOne())
    with test_mode(SEED):
        asked = queryable([3, 1, 4, 1, 5, 9], rows, account)
        whole = asked.ask(clamp(0, 10) >> total() >> laplace(scale=100))
        small, large = asked.partition(lambda row: row > 2, keys=[False, True]).values()
        parts = [part.ask(clamp(0, 10) >> total() >> laplace(scale=50)) for part in (small, large)]
        programme = asked.sequence([PureDP(Fraction(1, 4))] * 2)
        planned = programme.ask(clamp(0, 10) >> total() >> laplace(scale=100))
        share = asked.allot(Budget(epsilon="1/2"))
        shared = share.ask(clamp(0, 10) >> total() >> laplace(scale=100))
    refusal = refused(lambda: asked.ask(clamp(0, 10) >> total() >> laplace(scale=1)))
    return [[found.value for found in (whole, *parts, planned, shared)], asked.spent, share.spent, refusal, *_state(account)]


def _seeded(book: Ledger) -> list[Any]:
    account = book.account("a rehearsal", Budget(epsilon=1))
    with test_mode(SEED):
        receipt = account.spend(Laplace(8), purpose="in test mode")
    reading = account.odometer()
    return [receipt.private, reading.epsilon, reading.delta]


# --- a job -------------------------------------------------------------------------------------------------------------------------------


def write_visits(folder: Path) -> None:
    """The job's data: two visits a person, within the cap."""
    with open(folder / "visits.csv", "w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["patient_id", "region", "ward", "age", "cost"])
        for row in range(120):
            out.writerow([row // 2, "north" if row % 7 < 4 else "south", f"w{row % 3}", row * 7 % 90, (row * 31 % 97) * 4.5])


class Stopped(Exception):
    """The run was stopped from outside."""


def started(folder: Path, book: Ledger, *, stop: tuple[str, str | None] | None = None, lost: str = "refuse") -> Any:
    """Run the job in a folder; or stop it after a step."""
    if not (folder / "visits.csv").exists():
        write_visits(folder)

    def progress(step: Any) -> None:
        if stop is not None and (step.name, step.output) == stop:
            raise Stopped

    with repeatable(SEED):
        return jobs.run(jobs.load(JOB), base=folder, ledger=book, progress=progress, lost=lost, report=False)


def figures(folder: Path) -> dict[str, str]:
    """The published tables."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.csv"))}


def of_code(record: dict[str, Any]) -> dict[str, Any]:
    """release.json without what names the code, the book and the wording, and without what was added since: versions, hashes, notes, how
    the job is spelt now, the laws of figures and the data dictionary."""
    kept = {name: value for name, value in record.items() if name not in ("code", "ledger", "job")}
    later = ("notes", "columns", "figures", "biased")
    kept["outputs"] = [{name: value for name, value in output.items() if name not in later} for output in record["outputs"]]
    kept["files"] = [file for file in record["files"] if file != "datapackage.json"]
    kept["unit"] = {name: value for name, value in record["unit"].items() if name != "text"}
    return kept


def release() -> dict[str, Any]:
    """The job's plan, and what a seeded run of it publishes."""
    with tempfile.TemporaryDirectory() as name, standing_still():
        folder = Path(name)
        write_visits(folder)
        planned = jobs.plan(jobs.load(JOB), base=folder)
        with Ledger.open(f"sqlite:///{folder / 'book.db'}") as book:
            done = started(folder, book)
        record = json.loads((done.folder / "release.json").read_text(encoding="utf-8"))
        return {
            "plan": plain([planned.event, {output.name: output.plan.event for output in planned.outputs}, planned.charge]),
            "digest": planned.digest,
            "figures": figures(done.folder),
            "release.json": of_code(record),
        }


#: Where old runs were stopped: one output stored and the others not begun; and one begun, whose draw is lost.
STOPS = {"stored": ("stored", "by_region"), "begun": ("begun", "by_ward")}


def interrupted(stop: tuple[str, str | None]) -> dict[str, Any]:
    """A run stopped on its way: its book, and the files of its work folder."""
    with tempfile.TemporaryDirectory() as name, standing_still():
        folder = Path(name)
        with Ledger.open(f"sqlite:///{folder / 'book.db'}") as book, contextlib.suppress(Stopped):
            started(folder, book, stop=stop)
        work = folder / ".out.work"
        files = {file.name: file.read_text(encoding="utf-8") for file in sorted(work.iterdir())}
        return {"book": dumped(folder / "book.db"), "work": files}


def laid_out(stopped: dict[str, Any], folder: Path) -> Path:
    """A stopped run as it lay on the disk; returns its book's file."""
    write_visits(folder)
    work = folder / ".out.work"
    work.mkdir(mode=0o700)
    for name, text in stopped["work"].items():
        (work / name).write_text(text, encoding="utf-8")
    return restored(stopped["book"], folder / "book.db")


def keep() -> None:
    """Write what cannot be made again by later code: an old book, an old release, old runs that were stopped."""
    with tempfile.TemporaryDirectory() as name, standing_still():
        folder = Path(name)
        told_by(folder / "book.db")
        (FIXTURES / "book.sql").write_text(dumped(folder / "book.db"), encoding="utf-8")
        with Ledger.open(f"sqlite:///{folder / 'release.db'}") as book:
            done = started(folder, book)
        shutil.copy(done.folder / "release.json", FIXTURES / "published.json")
    stopped = {name: interrupted(stop) for name, stop in STOPS.items()}
    (FIXTURES / "stopped.json").write_text(json.dumps(stopped, indent=1) + "\n", encoding="utf-8")
