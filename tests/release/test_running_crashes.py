"""A crash at every system call of a run: never two draws for one payment, never old figures for new data, never half a release.

The disk of `tests.release.crashes` keeps what a kill, a cut-off write or a loss of power would leave at every call; each picture is laid
out again and run on. A draw counts from the moment it is made, shown or not.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.release import jobs
from tests.release.crashes import Disk, Picture, _tree

from tacit import disk
from tacit.accounting import Composed, from_json
from tacit.ledger import Ledger, LedgerError
from tacit.release import running, work
from tacit.release.errors import JobError, OutputFailed, OutputLost
from tacit.release.kinds import table
from tacit.release.running import run

#: Two outputs, one with a name that work folders used for themselves; half of the budget is kept for corrections.
JOB = jobs.changed(
    (", AVG(age) AS age", ""), ("name: by_region", "name: run"),
    ("GROUP BY region\", weight: 1", "GROUP BY region\", weight: 2"),
    ("budget: {rho: 0.5}", "account: {name: all, budget: {rho: 500, reserve: 0.5}}\nbudget: {rho: 5}"),
    ("formats: [csv, parquet]", "formats: [csv]"),
)
NAMES = {"run", "overall"}
FILES = {"datapackage.json", "run.csv", "overall.csv", "release.json", "registry.yaml"}
VISITS, OTHERS = jobs.visits(20), jobs.visits(90)
Draws = list[tuple[str, tuple[int, ...]]]


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Draws]:
    """Every draw that is made: of which output, and what came out. Versions are looked up once, because it takes long."""
    made: Draws = []
    plain, versions = table.draw, running.record.versions()

    def counted(planned: Any) -> Any:
        found = plain(planned)
        made.append((planned.name, tuple(found["sums"][0])))
        return found

    monkeypatch.setattr(table, "draw", counted)
    monkeypatch.setattr(running.record, "versions", lambda *_: versions)
    yield made


def _again(base: Path, rows: Any = VISITS, lost: str = "correct") -> None:
    with Ledger.open(f"sqlite:///{base / 'tacit.db'}") as ledger:
        run(JOB, base=base, ledger=ledger, tables={"visits": rows}, report=False, lost=lost)


def _paid(base: Path) -> Counter[str]:
    """How often each output was paid for: its event is part of a payment's."""
    found: Counter[str] = Counter()
    with Ledger.open(f"sqlite:///{base / 'tacit.db'}", create=False) as ledger:
        assert ledger.verify().ok
        plan = running.plan(JOB)
        for entry in ledger.entries():
            if entry["kind"] == "reserve":
                event = from_json(json.dumps(entry["event"]))
                parts = event.events if isinstance(event, Composed) else (event,)
                found.update(name for name in NAMES if plan[name].event in parts)
    return found


def _figures(folder: Path) -> dict[str, tuple[int, ...]]:
    found = {}
    for name in NAMES:
        with open(folder / f"{name}.csv", encoding="utf-8") as stream:
            column = "n_raw" if name == "overall" else "n"
            found[name] = tuple(round(float(row[column])) for row in csv.DictReader(stream))
    return found


def _checked(base: Path, made: Draws) -> None:
    """The rules, of a folder in which a run has ended and all draws that were ever made there."""
    paid, drawn = _paid(base), Counter(name for name, _ in made)
    assert all(drawn[name] <= paid[name] for name in NAMES), f"{drawn} drawn, {paid} paid"
    out = base / "out"
    if out.exists():
        assert {file.name for file in out.iterdir()} == FILES
        last = dict(made)
        assert _figures(out) == last, "what is published is the last draw"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty book."""
    base = tmp_path_factory.mktemp("start")
    jobs.book(base).close()
    return base


def _filmed(base: Path, made: Draws, **options: Any) -> list[Picture]:
    """A run, and what a crash at each of its calls would leave."""
    disk = Disk(base, lambda: len(made))
    with disk.in_place():
        _again(base, **options)
    return disk.pictures


def test_the_disk_sees_every_call(start: Path, tmp_path: Path, draws: Draws) -> None:
    base = shutil.copytree(start, tmp_path / "a")
    disk = Disk(base, lambda: len(draws))
    with disk.in_place():
        _again(base)
    pictures = disk.pictures
    assert {"open", "write", "fsync", "rename", "replace", "unlink", "mkdir", "chmod"} <= disk.seen
    assert {picture.crash for picture in pictures} >= {"kill", "power"} and len(pictures) > 30
    assert len({picture.call for picture in pictures if picture.crash == "kill"}) > 25
    _checked(base, draws)


def _recovered(picture: Picture, base: Path, before: Draws, made: Draws) -> None:
    """Lay a picture out, run again, and hold the outcome against the rules."""
    del made[:]
    made += before[: picture.draws]
    picture.laid_out(base)
    published = (base / "out").exists()
    if published:
        _checked(base, made)
        (base / "out").rename(base / "moved")  # as a curator does; the next run must not show a second draw for the first payment
    _again(base)
    if not published or made != before[: picture.draws]:
        _checked(base, made)


def test_a_crash_at_every_call(start: Path, tmp_path: Path, draws: Draws) -> None:
    base = shutil.copytree(start, tmp_path / "a")
    pictures = _filmed(base, draws)
    before = list(draws)
    # A staged folder is thrown away whatever is in it: of pictures that differ there alone, the first of each kind is enough here.
    chosen: dict[object, Picture] = {}
    for picture in pictures:
        rest = {name: content for name, content in picture.tree.items() if not name.endswith(".staged")}
        chosen.setdefault((Picture(rest, 0, "", "", picture.draws).digest, picture.draws), picture)
    assert len(chosen) >= 15
    for number, picture in enumerate(chosen.values()):
        _recovered(picture, tmp_path / str(number), before, draws)


def _with_others(picture: Picture, base: Path, before: Draws, made: Draws) -> bool:
    """Lay a picture out and run on other rows: refused, which is said, or drawn from those rows."""
    picture.laid_out(base)
    if (base / "out").exists():
        (base / "out").rename(base / "moved")
    made[:] = before[: picture.draws]
    try:
        _again(base, OTHERS)
    except JobError as error:
        assert error.code == "run-of-another-job" and not (base / "out").exists()
        return True
    assert _figures(base / "out") == dict(made[-2:]) and abs(dict(made)["overall"][0] - 181) < 60
    return False


def test_a_crash_at_every_call_and_then_other_data(start: Path, tmp_path: Path, draws: Draws) -> None:
    """What was drawn from the old rows is never published for the new ones."""
    base = shutil.copytree(start, tmp_path / "a")
    pictures = [picture for picture in _filmed(base, draws) if picture.crash == "kill"]
    before = list(draws)
    refused = sum(_with_others(picture, tmp_path / str(number), before, draws) for number, picture in enumerate(pictures[::6]))
    assert refused >= 3


def _removed_file_by_file(self: work.Work) -> None:
    """The mutant: the state of a run in several files, removed one after another."""
    content = self.file.read_bytes().split(b"\n\n")
    part = self.file.with_name("part")
    while len(content) > 1:
        content.pop()
        part.write_bytes(b"\n\n".join(content))
        os.replace(part, self.file)
    os.unlink(self.file)
    self.close()


def test_a_removal_in_parts_is_caught(start: Path, tmp_path: Path, draws: Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the old removal, and a ledger that is not asked, the same check finds a second draw."""
    monkeypatch.setattr(work.Work, "remove", _removed_file_by_file)
    monkeypatch.setattr(running._Run, "unended", lambda *_: None)
    monkeypatch.setattr(running.Payment, "commit", lambda self: None)
    base = shutil.copytree(start, tmp_path / "a")
    pictures = _filmed(base, draws)
    before, caught = list(draws), 0
    late = [p for p in pictures if p.crash == "kill" and "out" in p.tree]
    assert late
    for number, picture in enumerate(late[-4:]):
        try:
            _recovered(picture, tmp_path / str(number), before, draws)
        except AssertionError:
            caught += 1
    assert caught


def test_the_ledger_alone_stops_a_second_draw(start: Path, tmp_path: Path, draws: Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    """A work file that lost its lines, however that came about, draws nothing once the ledger has concluded the run."""
    monkeypatch.setattr(work.Work, "remove", lambda self: self.close())
    base = shutil.copytree(start, tmp_path / "a")
    _again(base)
    lines = (base / ".out.run").read_bytes().split(b"\n\n")
    (base / ".out.run").write_bytes(lines[0] + b"\n")
    (base / "out").rename(base / "moved")
    with pytest.raises(JobError) as caught:
        _again(base)
    assert caught.value.code == "run-ended" and len(draws) == 2
    (base / "moved").rename(base / "out")
    monkeypatch.undo()
    with pytest.raises(JobError, match="never overwritten"):
        _again(base)
    assert not (base / ".out.run").exists()


def test_a_full_disk_at_every_call(start: Path, tmp_path: Path, draws: Draws) -> None:
    """Space runs out at the n-th call, and later there is space again."""
    for number in range(1, 60, 4):
        del draws[:]

        def full(call: int, name: str, path: str, number: int = number) -> None:
            if call >= number and name in ("write", "fsync", "mkdir"):
                raise OSError(errno.ENOSPC, "No space left on device")

        base = shutil.copytree(start, tmp_path / str(number))
        disk = Disk(base, lambda: len(draws), full)
        disk._pictured = lambda what: None  # type: ignore[method-assign]
        try:
            with disk.in_place():
                _again(base)
        except (OSError, JobError, LedgerError, OutputFailed):
            assert not (base / "out").exists() or (base / "out" / "release.json").exists()
        else:
            _checked(base, draws)
            return
        if (base / "out").exists():
            (base / "out").rename(base / "moved")
        before = len(draws)
        _again(base)
        if len(draws) > before:
            _checked(base, draws)


def test_a_folder_that_cannot_be_written_costs_nothing(start: Path, tmp_path: Path, draws: Draws) -> None:
    base = shutil.copytree(start, tmp_path / "a")
    disk = Disk(base, lambda: 0, None)
    disk._pictured = lambda what: None  # type: ignore[method-assign]

    def read_only(call: int, name: str, path: str) -> None:
        if name == "open" and path.endswith(".run"):
            raise OSError(errno.EROFS, "Read-only file system")

    disk.fault = read_only
    with pytest.raises(JobError, match="Read-only"), disk.in_place():
        _again(base)
    with Ledger.open(f"sqlite:///{base / 'tacit.db'}") as ledger:
        assert not draws and not [entry for entry in ledger.entries() if entry["kind"] == "reserve"]


def test_two_runs_at_once(start: Path, tmp_path: Path, draws: Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is told to wait; without locks it loses the output, or the name of the release, and nothing is drawn twice."""
    for locks in (True, False):
        base = shutil.copytree(start, tmp_path / str(locks))
        del draws[:]
        if not locks:
            monkeypatch.setattr(disk, "fcntl", None)
        inside = []

        def second(step: running.RunStep, base: Path = base, inside: list[Any] = inside) -> None:
            if step.name in ("prepared", "begun", "stored", "staged") and not inside:
                inside.append(step)
                with pytest.raises((JobError, OutputLost)):
                    _again(base, lost="refuse")
                inside.clear()

        with Ledger.open(f"sqlite:///{base / 'tacit.db'}") as ledger:
            if locks:
                run(JOB, base=base, ledger=ledger, tables={"visits": VISITS}, report=False, progress=second)
                _checked(base, draws)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        run(JOB, base=base, ledger=ledger, tables={"visits": VISITS}, report=False, progress=second)
                    except BaseException as error:
                        assert isinstance(error, (JobError, pytest.fail.Exception))
                drawn = Counter(name for name, _ in draws)
                assert all(drawn[name] <= _paid(base)[name] for name in NAMES)


def _filmed_in_sqlite(base: Path, made: Draws, every: int) -> list[Picture]:
    disk = Disk(base, lambda: len(made))
    with disk.in_sqlite(every):
        _again(base)
    return disk.pictures


def test_a_kill_inside_the_book(start: Path, tmp_path: Path, draws: Draws) -> None:
    """SQLite's own calls: at every statement, and with the log cut off at frames and within them."""
    base = shutil.copytree(start, tmp_path / "a")
    pictures = _filmed_in_sqlite(base, draws, 500)
    assert len(pictures) > 20 and sum(picture.what.startswith("in sqlite") for picture in pictures) > 10
    before = list(draws)
    for number, picture in enumerate(pictures[::7]):
        _recovered(picture, tmp_path / str(number), before, draws)


def test_a_book_that_forgets_a_reservation_is_caught(start: Path, tmp_path: Path, draws: Draws) -> None:
    """The mutant: the log's last transactions are lost, though the draw was made after them."""
    base = shutil.copytree(start, tmp_path / "a")
    pictures = [picture for picture in _filmed_in_sqlite(base, draws, 10**6) if picture.draws == 2 and "out" not in picture.tree]
    before = list(draws)
    empty = {name: content for name, content in _tree(start).items() if ".db" in name}
    lost = Picture({**pictures[-1].tree, "tacit.db-wal": b"", **empty}, 0, "", "", 2)
    with pytest.raises((AssertionError, JobError)):
        _recovered(lost, tmp_path / "lost", before, draws)


@pytest.mark.slow
def test_a_kill_at_every_place_inside_the_book(start: Path, tmp_path: Path, draws: Draws) -> None:
    """As above, at every tenth instruction; and real kills of a child at a callback of SQLite."""
    base = shutil.copytree(start, tmp_path / "a")
    pictures = _filmed_in_sqlite(base, draws, 10)
    before = list(draws)
    for number, picture in enumerate(pictures):
        _recovered(picture, tmp_path / f"picture {number}", before, draws)
    for number in (*range(1, 60, 3), *range(60, 2000, 97)):
        place = shutil.copytree(start, tmp_path / f"killed {number}")
        made = tmp_path / f"{number}.draws"
        del draws[:]
        child = os.fork()
        if child == 0:

            def killing(call: int, name: str, path: str, number: int = number, made: Path = made) -> None:
                made.write_text(repr(draws))
                if call == number:
                    os.kill(os.getpid(), signal.SIGKILL)

            disk = Disk(place, lambda: 0, killing)
            disk._add = lambda *_: None  # type: ignore[method-assign]
            try:
                with disk.in_sqlite(10):
                    _again(place)
            finally:
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        draws[:] = eval(made.read_text())
        if status == 0:
            assert number > 60
            return
        if (place / "out").exists():
            (place / "out").rename(place / "moved")
        drawn = len(draws)
        _again(place)
        if len(draws) > drawn:
            _checked(place, draws)


@pytest.mark.slow
def test_a_thousand_kills(start: Path, tmp_path: Path, draws: Draws) -> None:
    """Every picture, then a second crash in its recovery, at every call of that."""
    base = shutil.copytree(start, tmp_path / "a")
    pictures = _filmed(base, draws)
    before, tried = list(draws), 0
    for number, picture in enumerate(pictures):
        _recovered(picture, tmp_path / str(number), before, draws)
        _with_others(picture, tmp_path / f"{number} others", before, draws)
        tried += 2
        place = picture.laid_out(tmp_path / f"{number} again")
        if (place / "out").exists():
            shutil.rmtree(tmp_path / str(number))
            continue
        draws[:] = before[: picture.draws]
        seconds = _filmed(place, draws)
        drawn = list(draws)
        for other, second in enumerate(seconds):
            _recovered(second, tmp_path / f"{number} {other}", drawn, draws)
            shutil.rmtree(tmp_path / f"{number} {other}")
            tried += 1
        for folder in (place, tmp_path / str(number)):
            shutil.rmtree(folder)
    assert tried >= 1000


@pytest.mark.slow
def test_a_real_kill_leaves_what_the_picture_shows(start: Path, tmp_path: Path, draws: Draws) -> None:
    """A child is killed by the system at its n-th call, for every n; the folder it leaves has a picture of the same kind, and recovers."""
    number = 0
    while True:
        number += 1
        base = shutil.copytree(start, tmp_path / str(number))
        made = tmp_path / f"{number}.draws"
        del draws[:]
        child = os.fork()
        if child == 0:

            def killing(call: int, name: str, path: str, number: int = number, made: Path = made) -> None:
                made.write_text(repr(draws))
                if call == number:
                    os.kill(os.getpid(), signal.SIGKILL)

            disk = Disk(base, lambda: 0, killing)
            disk._pictured = lambda what: None  # type: ignore[method-assign]
            try:
                with disk.in_place():
                    _again(base)
                made.write_text(repr(draws))
            finally:
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        draws[:] = eval(made.read_text())
        if status == 0:
            _checked(base, draws)
            assert number > 40
            return
        assert status == -signal.SIGKILL
        if (base / "out").exists():
            (base / "out").rename(base / "moved")
        before = len(draws)
        _again(base)
        if len(draws) > before:
            _checked(base, draws)
