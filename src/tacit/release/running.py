"""Running a job: one reservation for all outputs before the data is touched, every output drawn at most once, all published or none.

The steps are: plan, open, reserve, then for each output begin, draw, store; then check, stage, conclude, publish. A run that is stopped
between any two of them can be run again: it goes on under the same reservation with what was stored. An output that was begun and not
stored is never drawn again for the same money (see `lost`). What is published was paid for; what was paid for need not be published.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.release.job import EXAMPLE, parse
>>> base = pathlib.Path(tempfile.mkdtemp())
>>> visits = pa.table({"patient_id": [1, 1, 2], "region": ["north", "south", "north"]})
>>> book = Ledger.open(f"sqlite:///{base / 'tacit.db'}")
>>> done = run(parse(EXAMPLE), base=base, ledger=book, tables={"visits": visits}, report=False)
>>> sorted(done.answers["by_region"].keys["region"]), (done.folder / "release.json").exists()
(['north', 'south'], True)

**Two folders.** A private one to work in, and the one that is published. The work folder makes a run resumable. It
says which run in the ledger pays, which outputs were begun, and what was drawn. Under one payment each output is
drawn at most once: `begin` is on the disk before the data is touched, `store` after the noise was added. An output
that was begun and not stored is lost; drawing it again would be a second release for one price. What is stored was
released, yet the folder is private: until all checks have passed, nothing of it is published.

A release is published whole or not at all. Files are written into a folder beside the target and made durable, and the folder gets its name
last. A folder that is there already is never touched.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tacit import noise
from tacit.accounting import AccountingError, Composed, Event, account
from tacit.ledger import OPEN, Account, Ledger, LedgerError, Payment, ReleaseFailed, paying
from tacit.release import kinds, record
from tacit.release.errors import CheckFailed, JobError, OutputFailed, OutputLost
from tacit.release.faults import in_job
from tacit.release.job import Job
from tacit.release.planning import JobPlan, plan
from tacit.release.sources import identities, opened


@dataclass(frozen=True)
class Work:
    """A work folder on the disk. `token` names the run in the ledger."""

    folder: Path
    token: str
    digest: str

    @staticmethod
    def beside(target: Path, digest: str) -> Work:
        """The work folder of the run that publishes to `target`: a new one, or the one that an earlier attempt left."""
        folder = target.parent / f".{target.name}.work"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise JobError(
                f"the work folder beside it cannot be made ({error.strerror or type(error).__name__}); check the path",
                place="publication.folder",
            ) from None
        file = folder / "run.json"
        if file.exists():
            known = _read(file)
            if known.get("digest") != digest:
                raise JobError(
                    f"an unfinished run of another version of this job, or of its data, is in {folder.name}; finish that one, "
                    "or remove the folder (what it spent stays spent)",
                    place="publication.folder",
                )
            return Work(folder, str(known["token"]), digest)
        work = Work(folder, secrets.token_hex(16), digest)
        write(file, json.dumps({"token": work.token, "digest": digest}))
        return work

    @staticmethod
    def left_by(target: Path) -> bool:
        """Whether an unfinished run is there."""
        return (target.parent / f".{target.name}.work" / "run.json").exists()

    def begun(self, name: str) -> bool:
        return (self.folder / f"{name}.begun").exists()

    def stored(self, name: str) -> bool:
        return (self.folder / f"{name}.json").exists()

    def lost(self, names: list[str]) -> tuple[str, ...]:
        """Outputs that were begun and not stored."""
        return tuple(name for name in names if self.begun(name) and not self.stored(name))

    def begin(self, name: str, entry: int) -> None:
        """Say, durably, that this output's data is about to be touched, and which entry of the ledger pays. Only one run can say so."""
        taken = False
        try:
            with open(self.folder / f"{name}.begun", "x", encoding="utf-8") as stream:
                stream.write(json.dumps({"entry": entry}))
                stream.flush()
                os.fsync(stream.fileno())
        except FileExistsError:
            taken = True
        if taken:
            raise OutputLost((name,))
        sync(self.folder)

    def again(self, name: str, entry: int) -> None:
        """Begin a lost output once more, under another reservation: never under one that it was begun under before."""
        file = self.folder / f"{name}.begun"
        if _read(file).get("entry") == entry:
            raise JobError("an output is drawn once under a reservation", place="outputs")
        write(file, json.dumps({"entry": entry}))

    def store(self, name: str, drawn: Mapping[str, Any], private: bool) -> None:
        """Keep what was drawn."""
        entry = _read(self.folder / f"{name}.begun")["entry"]
        write(self.folder / f"{name}.json", json.dumps({"released": drawn, "private": private, "entry": entry}))

    def drawn(self, name: str) -> tuple[dict[str, Any], bool, int]:
        """What was drawn, whether privately, and which entry paid."""
        record = _read(self.folder / f"{name}.json")
        return record["released"], bool(record["private"]), int(record["entry"])

    def remove(self) -> None:
        """The run is over."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write(file: Path, text: str | bytes) -> None:
    """Write a file so that after a crash it is there whole or not at all."""
    content = text.encode() if isinstance(text, str) else text
    part = file.with_name(f"{file.name}.part")
    with open(part, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, file)
    sync(file.parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(file: Path) -> dict[str, Any]:
    found: Any = None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise JobError(f"{file.name} in the work folder cannot be read; remove the folder to start anew (what was spent stays spent)")
    return found


# --- the published folder -------------------------------------------------------------------------------------------------------------


def free(target: Path) -> None:
    """Refuse a target that exists, or whose parent does not."""
    if target.exists() or target.is_symlink():
        raise JobError(
            "the folder is there already, and a release is never overwritten; name another, or move it away", place="publication.folder"
        )
    if not target.parent.is_dir():
        raise JobError("the folder above it does not exist; make it first", place="publication.folder")


def staged_folder(target: Path, token: str) -> Path:
    """An empty folder beside the target, on the same file system; what an earlier attempt left in it is thrown away."""
    folder = target.parent / f".{target.name}.{token[:8]}.staged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    return folder


def publish(folder: Path, target: Path) -> None:
    """Give the staged folder its name, in one step of the file system."""
    for place, _, files in os.walk(folder):
        for name in files:
            with open(Path(place) / name, "rb") as stream:
                os.fsync(stream.fileno())
        sync(Path(place))
    free(target)
    try:
        os.rename(folder, target)
    except OSError as error:
        raise JobError(
            f"the release could not get its name ({type(error).__name__}); nothing is published; run again to go on",
            place="publication.folder",
        ) from None
    sync(target.parent)


#: What to do about an output that an earlier attempt began and did not store.
LOST = ("refuse", "correct", "leave out")


@dataclass(frozen=True)
class RunStep:
    """Where a run is: the step just done, of which output, and how many outputs of how many are stored."""

    name: str
    output: str | None
    done: int
    total: int


@dataclass(frozen=True)
class Finding:
    """One check of one output, and whether it passed."""

    output: str
    check: str
    passed: bool

    def __str__(self) -> str:
        return f"{self.output}: {self.check}: {'passed' if self.passed else 'FAILED'}"


@dataclass(frozen=True)
class JobRun:
    """A finished run: all that a report needs. `event` is everything that was paid for, corrections included.

    `answers` are what each output's kind made of its draw: an `Answer` for a table.
    """

    job: Job
    plan: JobPlan
    answers: Mapping[str, Any]
    folder: Path
    entry: int
    head: str
    event: Event
    private: bool
    record: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()
    resumed: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        return self.job.title

    @property
    def purpose(self) -> str:
        return self.job.purpose

    @property
    def unit_text(self) -> str:
        """Whom the guarantee protects, in a sentence."""
        from tacit.release.report import told_by

        unit = self.job.unit.typed()
        if unit.noun == "row":
            return "Each row of the data is protected by itself."
        window = f" within one {unit.window}" if unit.window else ""
        count = "touches at most that many rows, as declared" if unit.person is None else "at most that many of them are counted"
        rows = "all of her rows" if unit.noun == "person" else "all rows that are about it"
        return f"Each {unit.noun} ({told_by(unit)}) is protected with {rows}{window}; {count} ({unit.most_rows})."


Progress = Callable[[RunStep], None]


def run(
    job: Job, *, base: str | Path = ".", ledger: Ledger | None = None,
    tables: Mapping[str, pa.Table] | None = None, progress: Progress | None = None, lost: str = "refuse",
    analyst: str = "", report: bool = True,
) -> JobRun:
    """Run a job and publish its release. Paths in the job are relative to `base`, the folder the job is in.

    Without a ledger, the book is the one that TACIT_LEDGER names, or `tacit.db` in `base`. `lost` says what to do about outputs that an
    earlier attempt began and did not store: 'refuse', 'correct' (pay for them once more, from the reserve for corrections where there is
    one) or 'leave out'. `tables` stand in for sources, by name. `report=False` leaves report.html out.
    """
    if lost not in LOST:
        raise JobError(f"lost must be one of {', '.join(repr(word) for word in LOST)}, not {lost!r}")
    folder = Path(base)
    book = ledger or Ledger.open(os.environ.get("TACIT_LEDGER", f"sqlite:///{folder / 'tacit.db'}"))
    with _Run(job, folder, book, tables, progress or (lambda step: None), lost, analyst, report) as running:
        return running.finish()


class _Run:
    def __init__(
        self, job: Job, base: Path, ledger: Ledger, tables: Mapping[str, pa.Table] | None,
        progress: Progress, lost: str, analyst: str, report: bool,
    ) -> None:
        self.report = report
        self.job, self.base, self.ledger, self.progress, self.lost, self.analyst = job, base, ledger, progress, lost, analyst
        self.target = base / job.publication.folder
        if not Work.left_by(self.target):
            free(self.target)
        self.source = opened(job, base, tables)
        self.work: Work | None = None
        try:
            self.identities = identities(self.source)
            self.plan = plan(job, self.source)
            refused = [notice for notice in self.plan.warnings if notice.refuses]
            if refused:
                raise JobError(refused[0].text, place=refused[0].place)
        except BaseException:
            self.source.close()
            raise
        self.names = [output.spec.name for output in self.plan.outputs]

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def step(self, name: str, output: str | None = None) -> None:
        done = 0 if self.work is None else sum(self.work.stored(n) for n in self.names)
        self.progress(RunStep(name, output, done, len(self.names)))

    def fingerprint(self) -> str:
        """What an unfinished run must have in common with this one: the job and the data. It stays in the private work folder."""
        parts = [self.plan.digest.encode(), *(identity.digest for identity in self.identities)]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def account(self) -> Account:
        """The account that the data has; a second name for the same data is the same account."""
        unit, spec = self.job.unit.typed(), self.job.account
        name = self.job.title if spec is None else spec.name
        budget = (self.job.budget if spec is None else spec.budget).typed()
        whose, relation = unit.whom, unit.adjacency
        try:
            return self.ledger.account(
                name, budget, data=list(self.identities), unit=whose, adjacency=relation, window=unit.window
            )
        except LedgerError as error:
            if error.code != "terms-fixed":
                raise
            raise in_job(error, place="budget" if spec is None else "account") from None

    def finish(self) -> JobRun:
        account = self.account()
        resumed = Work.left_by(self.target)
        self.step("planned")
        work = self.work = Work.beside(self.target, self.fingerprint())
        if not resumed:
            self.step("prepared")
        paid = account.payments(run=work.token) if resumed else []
        if not paid:
            if any(work.begun(name) for name in self.names):
                raise JobError(
                    "the work folder belongs to another ledger; give that one, or remove the folder (what was spent stays spent)"
                )
            delta = self.plan.delta if "delta" in account.budget.limits and self.plan.delta else None
            paid = self.pay(account, self.plan.event, work, purpose=self.job.title, delta=delta)
        self.step("reserved")
        left_out = self.recover(account, work, paid)
        wanted = [name for name in self.names if name not in left_out]
        for name in wanted:
            if not work.stored(name):
                self.step("drawing", name)
                work.begin(name, _entry(paid[0]))
                self.step("begun", name)
                self.store(work, name, paid[0])
        return self.published(account, work, paid, wanted, left_out, resumed)

    def pay(self, account: Account, event: Event, work: Work, **terms: Any) -> list[Payment]:
        """Book a price for this run, before any data is touched; all payments of the run, as they stand in the book.

        They stay open until the release is ready to be published.
        """
        paying(account, event, run=work.token, analyst=self.analyst, period=self.job.period, **terms).open()
        return account.payments(run=work.token)

    # --- drawing ------------------------------------------------------------------------------------------------------------------

    def recover(self, account: Account, work: Work, paid: list[Payment]) -> tuple[str, ...]:
        """Deal with outputs that were begun and not stored. The first payment is for everything that was not begun yet."""
        gone = work.lost(self.names)
        if not gone:
            return ()
        if self.lost == "refuse":
            raise OutputLost(gone)
        if self.lost == "leave out":
            if len(gone) == len(self.names):
                raise JobError("every output was lost; there is nothing left to publish", place="outputs")
            return gone
        event = _together([self.plan[name].event for name in gone])
        delta = None if self.pure(event) else account.left(self.job.period, correction=True).get("delta")
        if delta is not None and delta <= 0:
            raise JobError(code="correction-refused", names=gone, place="outputs")
        paid[:] = self.pay(account, event, work, purpose=f"{self.job.title}: correction", delta=delta, correction=True)
        self.step("corrected")
        for name in gone:
            work.again(name, _entry(paid[-1]))
            self.store(work, name, paid[-1])
        return ()

    def pure(self, event: Event) -> bool:
        """Whether an event needs no delta."""
        try:
            return math.isfinite(account(event, self.job.unit.typed().adjacency).epsilon(0).upper)
        except AccountingError:
            return False

    def store(self, work: Work, name: str, payment: Payment) -> None:
        planned = self.plan[name]
        drawn: kinds.Record | None = None
        try:
            # The payment stays open whatever happens: it is also for the other outputs.
            with payment.touching(resumable=True), noise.watch() as seen:
                drawn = kinds.of(planned).draw(planned)
        except ReleaseFailed:
            drawn = None
        if drawn is None:
            # outside of the handler, so that no error is chained to this one
            raise OutputFailed(code="output-failed")
        self.step("drawn", name)
        work.store(name, drawn, seen.private)
        self.step("stored", name)

    # --- publishing ---------------------------------------------------------------------------------------------------------------

    def published(
        self, account: Account, work: Work, paid: list[Payment], wanted: list[str], left_out: tuple[str, ...], resumed: bool
    ) -> JobRun:
        answers: dict[str, Any] = {}
        files: dict[str, bytes] = {}
        findings: list[Finding] = []
        private = all(payment.private for payment in paid)
        for name in wanted:
            drawn, drawn_privately, entry = work.drawn(name)
            planned = self.plan[name]
            kind = kinds.of(planned)
            answers[name] = kind.result(planned, drawn, drawn_privately, entry)
            private = private and drawn_privately
            findings += [Finding(name, check, passed) for check, passed in kind.checks(planned, answers[name])]
        _insist(findings)
        self.step("checked")
        for name in wanted:
            planned = self.plan[name]
            files |= kinds.of(planned).files(planned, answers[name], self.job.publication.formats)
        event = _together([payment.event for payment in paid])
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        head = self.ledger.head()
        # A job asked for again after it was published, but before its work folder was removed, is finished, not published twice.
        there = self.target.exists() and _token(self.target) == work.token
        staged = staged_folder(self.target, work.token)
        for file, written in files.items():
            write(staged / file, written)
        names = [*files, "release.json", "registry.yaml", *(["report.html"] if self.report else [])]
        about = {
            "account": account.name,
            "run": work.token,
            "entries": [_entry(payment) for payment in paid],
            "corrections": len(paid) - 1,
            "head": head,
        }
        content = record.record(self.plan, answers, event, about, private=private, time=now.isoformat(), files=names, left_out=left_out)
        notes = tuple(str(notice) for notice in self.plan.warnings)
        done = JobRun(
            self.job,
            self.plan,
            answers,
            self.target,
            _entry(paid[0]),
            head,
            event,
            private,
            content,
            tuple(findings),
            left_out,
            resumed,
            notes,
        )
        write(staged / "release.json", record.text_of(content))
        registered = record.registry_record(self.plan, date=now.date().isoformat(), private=private)
        write(staged / "registry.yaml", record.registry_text(registered))
        self.step("written")
        if self.report:
            from tacit.release import report

            report.write(done, staged)
        self.step("staged")
        for payment in paid:
            if payment.status == OPEN:  # an earlier attempt may have concluded it
                payment.noticed(private)
                payment.commit()
        self.step("concluded")
        if there:
            shutil.rmtree(staged, ignore_errors=True)
        else:
            publish(staged, self.target)
        self.step("published")
        work.remove()
        self.step("finished")
        return done


def _insist(findings: list[Finding]) -> None:
    """One output that fails a check holds the whole release: publishing the good part would tell which part was not."""
    failed = [finding for finding in findings if not finding.passed]
    if failed:
        raise CheckFailed(
            f"{failed[0].output!r} failed the check '{failed[0].check}'; nothing is published, and what was spent stays spent",
            place="outputs",
        )


def _together(events: list[Event]) -> Event:
    return events[0] if len(events) == 1 else Composed(*events)


def _entry(payment: Payment) -> int:
    assert payment.entry is not None  # it was opened on an account
    return payment.entry


def _token(target: Path) -> str:
    """Which run published a folder."""
    try:
        return str(json.loads((target / "release.json").read_text(encoding="utf-8"))["ledger"]["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
