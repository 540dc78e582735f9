"""Running a job: one reservation for all outputs before the data is touched, every output drawn at most once, all published or none.

The steps are: plan, open, reserve, then for each output begin, draw, store; then check, stage, conclude, publish. A run that is stopped
anywhere can be run again: it goes on under the same reservation with what was stored. An output that was begun and not stored is never
drawn again for the same money (see `lost`). What is published was paid for; what was paid for need not be published.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.release.job import EXAMPLE, parse
>>> base = pathlib.Path(tempfile.mkdtemp())
>>> visits = pa.table({"patient_id": [1, 1, 2], "region": ["north", "south", "north"]})
>>> book = Ledger.open(f"sqlite:///{base / 'tacit.db'}")
>>> done = run(parse(EXAMPLE), base=base, ledger=book, tables={"visits": visits}, report=False)
>>> sorted(done.answers["by_region"].keys["region"]), (done.folder / "release.json").exists()
(['north', 'south'], True)

**Who decides.** The ledger: what has no open payment there is not drawn, whatever is on the disk. The work file (`tacit.release.work`)
says what was begun and drawn under that payment. It is one file, so there is all of it or nothing: without it, a new run pays anew.

**The commit point** is the rename that gives the staged folder its name. Before it nothing is published, after it everything is, and a
folder that is there already is never touched.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit import noise
from tacit.accounting import AccountingError, Composed, Event, account
from tacit.ledger import OPEN, Account, Ledger, Payment, ReleaseFailed, paying
from tacit.release import in_database, kinds, record
from tacit.release.comparing import mismatches
from tacit.release.errors import CheckFailed, HeldBack, JobError, OutputFailed, OutputLost
from tacit.release.job import Job
from tacit.release.kinds.table import TablePlan, told_by_others, unfinished
from tacit.release.planning import JobPlan, plan
from tacit.release.sources import files_beside, identities, opened
from tacit.release.standing import account_for, alike, alike_note, period_of, terms_of
from tacit.release.totals import made_to_agree
from tacit.release.work import Work, checks_beside, free, publish, published_by, staged_folder, write
from tacit.tables import Answer, Source

#: What is said where the data is known under another name.
SAME = (
    "{name!r} is the data of account {account!r}, under another name or in another format: its budget pays. If these "
    "are other people's rows, say so with new_dataset=True (--new-dataset)"
)
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
class CheckResult:
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
    findings: tuple[CheckResult, ...] = ()
    left_out: tuple[str, ...] = ()
    resumed: bool = False
    notes: tuple[str, ...] = field(default=())
    accepted: tuple[str, ...] = ()

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

        other = kinds.deployment(self.plan.outputs)
        if other is not None:
            return f"{other.unit['short'][0].upper()}{other.unit['short'][1:]} is protected; {other.unit['cap']}."
        unit = self.job.unit.typed()
        if self.plan.protects:
            return f"Of each {unit.noun} ({told_by(unit)}), {self.plan.protects} are protected, and nothing else."
        if unit.noun == "row":
            return "Each row of the data is protected by itself."
        window = f" within one {unit.window}" if unit.window else ""
        count = "touches at most that many rows, as declared" if unit.person is None else "at most that many of them are counted"
        rows = "all of her rows" if unit.noun == "person" else "all rows that are about it"
        return f"Each {unit.noun} ({told_by(unit)}) is protected with {rows}{window}; {count} ({unit.most_rows})."


Progress = Callable[[RunStep], None]


def run(
    job: Job, *, base: str | Path = ".", ledger: Ledger | None = None,
    tables: Mapping[str, Any] | None = None, progress: Progress | None = None, lost: str = "refuse",
    analyst: str | None = "", report: bool = True, new_dataset: bool = False, accept: bool = False,
    correction: str | None = None,
    through: Callable[[Source], Source] | None = None,
) -> JobRun:
    """Run a job and publish its release. Paths in the job are relative to `base`, the folder the job is in.

    Without a ledger, the book is the one that TACIT_LEDGER names, or `tacit.db` in `base`. `lost` says what to do about outputs that an
    earlier attempt began and did not store: 'refuse', 'correct' (pay for them once more, from the reserve for corrections where there is
    one) or 'leave out'. `tables` stand in for sources, by name; for sources of clients they are
    Flower grids. `report=False` leaves report.html out.
    Rows that the book knows under another name are paid for from that account; `new_dataset=True` says that they are other people's.
    A release whose totals contradict what was expected is held back (`HeldBack`) until a run with `accept=True` publishes it.
    `correction` is the reason for publishing once more what is published already: a run of its own, paid for from the reserve for
    corrections where there is one, in a folder of its own beside the first.
    `analyst` is who asks, for the book; None is the user of the system, and is refused where several analysts use the book.
    `through` puts something in front of the sources' engine, such as `tables.LeftOut`.
    """
    if lost not in LOST:
        raise JobError(f"lost must be one of {', '.join(repr(word) for word in LOST)}, not {lost!r}")
    folder = Path(base)
    book = ledger or Ledger.open(os.environ.get("TACIT_LEDGER", f"sqlite:///{folder / 'tacit.db'}"))
    told = progress or (lambda step: None)
    asks = book.analyst() if analyst is None else analyst
    with _Run(job, folder, book, tables, told, lost, asks, report, new_dataset, accept, correction, through) as running:
        return running.finish()


class _Run:
    def __init__(
        self, job: Job, base: Path, ledger: Ledger, tables: Mapping[str, Any] | None,
        progress: Progress, lost: str, analyst: str, report: bool, new_dataset: bool = False, accept: bool = False,
        correction: str | None = None, through: Callable[[Source], Source] | None = None,
    ) -> None:
        self.report, self.new_dataset, self.accept, self.correction = report, new_dataset, accept, correction
        self.job, self.base, self.ledger, self.progress, self.lost, self.analyst = job, base, ledger, progress, lost, analyst
        if job.series is not None and job.period is None:
            raise JobError("a series is run for one period, such as 2026-02; say which (period=..., --period)", place="period")
        self.target = base / job.publication.folder
        self.corrects = ""
        if correction is not None:
            self.corrects, self.target = self.target.name, corrected(self.target)
        if not Work.left_by(self.target):
            free(self.target)
        if job.publication.database is not None:
            in_database.check(job.publication.database)
        if checks := checks_beside(self.target):
            raise JobError(
                f"{checks[0]} beside it holds exact figures about private rows; move it to another folder", place="publication.folder"
            )
        found = opened(job, base, tables)
        self.source = found if through is None else through(found)
        self.work: Work | None = None
        try:
            self.identities, self.fingerprints = identities(self.source, ledger)
            self.plan = plan(job, self.source)
            beside = files_beside(self.plan.outputs)
            self.identities, self.fingerprints = (*self.identities, *beside), (*self.fingerprints, *beside)
            refused = [notice for notice in self.plan.warnings if notice.refuses]
            if refused:
                raise JobError(refused[0].text, place=refused[0].place)
        except BaseException:
            self.source.close()
            raise
        self.names = [output.spec.name for output in self.plan.outputs]
        self.terms = terms_of(job, self.plan.protects)
        self.others: tuple[str, ...] = ()

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.work is not None:
            self.work.close()
        self.source.close()

    def step(self, name: str, output: str | None = None) -> None:
        done = 0 if self.work is None else sum(self.work.stored(n) for n in self.names)
        self.progress(RunStep(name, output, done, len(self.names)))

    def fingerprint(self) -> str:
        """What an unfinished run must have in common with this one: the job and the data. It stays in the private work file."""
        parts = [self.plan.digest.encode(), *(one.digest for one in self.fingerprints)]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def account(self) -> Account:
        """The account that the data has; a second name for the same data is the same account."""
        self.others = () if self.new_dataset else alike(self.ledger, self.terms)
        return account_for(self.job, self.ledger, self.identities, self.plan.protects, new_dataset=self.new_dataset)

    @property
    def reserved(self) -> bool:
        """Whether the account keeps a share for corrections."""
        return bool(self.terms.budget.reserve)

    def same_data(self, account: Account) -> tuple[str, ...]:
        """A note where the rows had an account under another name."""
        name = self.terms.name
        if account.name != name:
            return (SAME.format(name=name, account=account.name),)
        return tuple(alike_note(name, other) for other in self.others)

    def finish(self) -> JobRun:
        account = self.account()
        resumed = Work.left_by(self.target)
        self.step("planned")
        work = self.work = Work.beside(self.target, self.fingerprint())
        if not resumed:
            self.step("prepared")
        paid = account.payments(run=work.token)
        self.unended(work, paid)
        if not paid:
            if any(work.begun(name) for name in self.names):
                raise JobError(
                    "the work file belongs to another ledger; give that one, or remove the file (what was spent stays spent)"
                )
            delta = self.plan.delta if "delta" in account.budget.limits and self.plan.delta else None
            again = {"correction": True} if self.corrects and self.reserved else {}
            purpose = f"{self.job.title}: correction of {self.corrects}" if self.corrects else self.job.title
            paid = self.pay(account, self.plan.booked, work, purpose=purpose, delta=delta, **again)
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

    def unended(self, work: Work, paid: list[Payment]) -> None:
        """Refuse to draw for a run that has ended, by the ledger or by its release: only what is stored can still be published."""
        missing = tuple(name for name in self.names if not work.stored(name) and not work.begun(name))
        if missing and published_by(self.target) == work.token:
            work.remove()
            free(self.target)
        if missing and any(payment.status != OPEN for payment in paid):
            raise JobError(code="run-ended", names=missing, work=work.file.name, place="outputs")

    def pay(self, account: Account, event: Event, work: Work, **terms: Any) -> list[Payment]:
        """Book a price for this run, before any data is touched; all payments of the run, as they stand in the book.

        They stay open until the release is ready to be published.
        """
        paying(account, event, run=work.token, analyst=self.analyst, period=period_of(self.job, account), **terms).open()
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
        event = self.plan.booked if self.job.on_devices else _together([self.plan[name].event for name in gone])
        delta = None if self.pure(event) else account.left(period_of(self.job, account), correction=True).get("delta")
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
        bare: dict[str, Answer] = {}
        files: dict[str, bytes] = {}
        findings: list[CheckResult] = []
        private = all(payment.private for payment in paid)
        alike = {name: planned for name in wanted if isinstance(planned := self.plan[name], TablePlan)}
        told = told_by_others({name: (planned, work.drawn(name)[0]) for name, planned in alike.items()})
        for name in wanted:
            drawn, drawn_privately, entry = work.drawn(name)
            planned = told.get(name, self.plan[name])
            kind = kinds.of(planned)
            answers[name] = kind.result(planned, drawn, drawn_privately, entry)
            if isinstance(planned, TablePlan) and self.job.totals:
                bare[name] = unfinished(planned, drawn, drawn_privately, entry)
            private = private and drawn_privately
            findings += [CheckResult(name, check, passed) for check, passed in kind.checks(planned, answers[name])]
        _insist(findings)
        reasons = tuple(mismatches(self.plan, answers))
        if reasons and not self.accept:
            raise HeldBack(reasons)
        if bare and not reasons:
            # Tables whose totals contradict each other count different rows: they are published as they were drawn.
            answers = made_to_agree(self.plan, bare, answers)
        self.step("checked")
        for name in wanted:
            planned = self.plan[name]
            files |= kinds.of(planned).files(planned, answers[name], self.job.publication.formats)
        event = self.plan.event if self.job.on_devices else _together([payment.event for payment in paid])
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        head = self.ledger.head()
        # A job asked for again after it was published, but before its work file was removed, is finished, not published twice.
        there = published_by(self.target) == work.token
        staged = staged_folder(self.target, work.token)
        for file, written in files.items():
            write(staged / file, written)
        write(staged / record.PACKAGE, record.package_text(self.plan, answers, files))
        names = [*files, record.PACKAGE, "release.json", "registry.yaml", *(["report.html"] if self.report else [])]
        about = {
            "account": account.name,
            "run": work.token,
            "entries": [_entry(payment) for payment in paid],
            "corrections": len(paid) - 1,
            "head": head,
        }
        content = record.record(self.plan, answers, event, about, private=private, time=now.isoformat(), files=names, left_out=left_out)
        if reasons or self.corrects:
            content["accepted"], content["corrects"] = list(reasons), {"folder": self.corrects, "reason": self.correction or ""}
        notes = (*reasons, *self.same_data(account), *(str(notice) for notice in self.plan.warnings))
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
            reasons,
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
        # What the book says of a run that was published must outlast a power cut, as the release does.
        self.ledger.store.sync()
        self.step("concluded")
        if there:
            shutil.rmtree(staged, ignore_errors=True)
        else:
            publish(staged, self.target)
        self.step("published")
        if (database := self.job.publication.database) is not None:
            # after the commit point: what fails here is done by running again, for the same payment
            tables: dict[str, bytes] = {}
            for name in wanted:
                tables |= kinds.of(self.plan[name]).files(self.plan[name], answers[name], ("parquet",))
            about_it = {"title": self.job.title, "time": now.isoformat(), "run": work.token}
            in_database.into(database, self.base, in_database.tables_of(tables), about_it)
            self.step("in the database")
        work.remove()
        self.step("finished")
        return done


def corrected(target: Path) -> Path:
    """The folder of the next correction of a release that is there: release-r1, release-r2."""
    if not (target / "release.json").is_file():
        raise JobError("there is no release to correct; publish it first", place="publication.folder")
    number = 1
    while (place := target.with_name(f"{target.name}-r{number}")).exists():
        number += 1
    return place


def _insist(findings: list[CheckResult]) -> None:
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
