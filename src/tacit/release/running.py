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
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tacit import noise
from tacit.accounting import Composed, Event, from_json
from tacit.ledger import Account, Ledger, LedgerError, Receipt, Reservation
from tacit.release import checks, publication, record, registry
from tacit.release.desk import Desk, answered
from tacit.release.errors import JobError, OutputLost
from tacit.release.faults import in_job
from tacit.release.job import Job
from tacit.release.planning import JobPlan, plan
from tacit.release.sources import Opened, opened
from tacit.release.wording import told_by
from tacit.release.work import Work, write
from tacit.tables.answer import Answer

#: What to do about an output that an earlier attempt began and did not store.
LOST = ("refuse", "correct", "leave out")


@dataclass(frozen=True)
class Step:
    """Where a run is: the step just done, of which output, and how many outputs of how many are stored."""

    name: str
    output: str | None
    done: int
    total: int


@dataclass(frozen=True)
class JobRun:
    """A finished run: all that a report needs. `event` is everything that was paid for, corrections included."""

    job: Job
    plan: JobPlan
    answers: Mapping[str, Answer]
    folder: Path
    entry: int
    head: str
    event: Event
    private: bool
    record: Mapping[str, Any]
    findings: tuple[checks.Finding, ...] = ()
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
        unit = self.job.unit.typed()
        if unit.noun == "row":
            return "Each row of the data is protected by itself."
        window = f" within one {unit.window}" if unit.window else ""
        count = "touches at most that many rows, as declared" if unit.person is None else "at most that many of them are counted"
        rows = "all of her rows" if unit.noun == "person" else "all rows that are about it"
        return f"Each {unit.noun} ({told_by(unit)}) is protected with {rows}{window}; {count} ({unit.most_rows})."


Progress = Callable[[Step], None]


def run(
    job: Job,
    *,
    base: str | Path = ".",
    ledger: Ledger | None = None,
    tables: Mapping[str, pa.Table] | None = None,
    progress: Progress | None = None,
    lost: str = "refuse",
    analyst: str = "",
    report: bool = True,
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
        self,
        job: Job,
        base: Path,
        ledger: Ledger,
        tables: Mapping[str, pa.Table] | None,
        progress: Progress,
        lost: str,
        analyst: str,
        report: bool,
    ) -> None:
        self.report = report and importlib.util.find_spec("tacit.release.report") is not None
        self.job, self.base, self.ledger, self.progress, self.lost, self.analyst = job, base, ledger, progress, lost, analyst
        self.target = base / job.publication.folder
        if not Work.left_by(self.target):
            publication.free(self.target)
        self.source: Opened = opened(job, base, tables)
        self.work: Work | None = None
        try:
            self.plan = plan(job, self.source.engine)
            refused = [notice for notice in self.plan.warnings if notice.refuses]
            if refused:
                raise JobError(refused[0].text, place=refused[0].place)
        except BaseException:
            self.source.close()
            raise
        self.names = [output.name for output in self.plan.outputs]
        self.desk = Desk(job, self.source.engine)

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def step(self, name: str, output: str | None = None) -> None:
        done = 0 if self.work is None else sum(self.work.stored(n) for n in self.names)
        self.progress(Step(name, output, done, len(self.names)))

    def fingerprint(self) -> str:
        """What an unfinished run must have in common with this one: the job and the data. It stays in the private work folder."""
        parts = [self.plan.digest.encode(), *(identity.digest for identity in self.source.identities)]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def account(self) -> Account:
        """The account that the data has; a second name for the same data is the same account."""
        unit, spec = self.job.unit.typed(), self.job.account
        name = self.job.title if spec is None else spec.name
        budget = (self.job.budget if spec is None else spec.budget).typed()
        terms = {"unit": unit.whom, "adjacency": unit.adjacency, "window": unit.window}
        try:
            return self.ledger.account(name, budget, data=list(self.source.identities), **terms)  # type: ignore[arg-type]
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
        paid = self.paid(account, work) if resumed else []
        if not paid:
            if any(work.begun(name) for name in self.names):
                raise JobError(
                    "the work folder belongs to another ledger; give that one, or remove the folder (what was spent stays spent)"
                )
            account.reserve(
                self.plan.event,
                purpose=f"{self.job.title} (run {work.token})",
                analyst=self.analyst,
                delta=self.plan.delta if "delta" in account.budget.limits and self.plan.delta else None,
                period=self.job.period,
            )
            paid = self.paid(account, work)
        self.step("reserved")
        left_out = self.recover(account, work, int(paid[0]["seq"]))
        wanted = [name for name in self.names if name not in left_out]
        for place, name in enumerate(self.names):
            if name in wanted and not work.stored(name):
                self.draw(work, place, name, int(paid[0]["seq"]))
        return self.published(account, work, wanted, left_out, resumed)

    def paid(self, account: Account, work: Work) -> list[dict[str, Any]]:
        """The reservations of this run, as they stand in the book."""
        return [
            entry
            for entry in self.ledger.entries()
            if entry["kind"] == "reserve" and entry["account"] == account.spec.id and f"(run {work.token})" in entry.get("purpose", "")
        ]

    # --- drawing ------------------------------------------------------------------------------------------------------------------

    def recover(self, account: Account, work: Work, entry: int) -> tuple[str, ...]:
        """Deal with outputs that were begun and not stored. The first entry pays for everything that was not begun yet."""
        gone = work.lost(self.names)
        if not gone:
            return ()
        if self.lost == "refuse":
            raise OutputLost(gone)
        if self.lost == "leave out":
            if len(gone) == len(self.names):
                raise JobError("every output was lost; there is nothing left to publish", place="outputs")
            return gone
        parts = [self.plan[name].plan for name in gone]
        event = parts[0].event if len(parts) == 1 else Composed(*(part.event for part in parts))
        pure = all(part.split.law == "laplace" and part.selection is None for part in parts)
        delta = None if pure else account.left(self.job.period, correction=True).get("delta")
        if delta is not None and delta <= 0:
            raise JobError(code="correction-refused", names=gone, place="outputs")
        purpose = f"{self.job.title}: correction (run {work.token})"
        receipt = account.reserve(
            event, purpose=purpose, analyst=self.analyst, delta=delta, period=self.job.period, correction=True
        ).receipt
        self.step("corrected")
        for name in gone:
            work.again(name, receipt.entry)
            self.store(work, self.names.index(name), name)
        return ()

    def draw(self, work: Work, place: int, name: str, entry: int) -> None:
        self.step("drawing", name)
        work.begin(name, entry)
        self.step("begun", name)
        self.store(work, place, name)

    def store(self, work: Work, place: int, name: str) -> None:
        with noise.watch() as seen:
            released = self.desk.draw(self.plan.outputs[place].plan)
        self.step("drawn", name)
        work.store(name, released, seen.private)
        self.step("stored", name)

    # --- publishing ---------------------------------------------------------------------------------------------------------------

    def published(self, account: Account, work: Work, wanted: list[str], left_out: tuple[str, ...], resumed: bool) -> JobRun:
        paid = self.paid(account, work)
        answers: dict[str, Answer] = {}
        for name in wanted:
            released, private, entry = work.drawn(name)
            output = self.plan[name]
            answers[name] = answered(output.plan, released, output.spec, self.job.publication.confidence, private, entry)
        private = all(answer.private for answer in answers.values()) and all(entry["private"] for entry in paid)
        findings = checks.passed(self.plan, answers)
        self.step("checked")
        events = [from_json(json.dumps(entry["event"])) for entry in paid]
        event = events[0] if len(events) == 1 else Composed(*events)
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        head = self.ledger.head()
        # A job asked for again after it was published, but before its work folder was removed, is finished, not published twice.
        there = self.target.exists() and _token(self.target) == work.token
        staged = publication.staged(self.target, work.token)
        files = [*publication.write_tables(staged, answers, self.job.publication.formats), "release.json", "registry.yaml"]
        files += ["report.html"] if self.report else []
        about = {
            "account": account.name,
            "run": work.token,
            "entries": [int(entry["seq"]) for entry in paid],
            "corrections": len(paid) - 1,
            "head": head,
        }
        content = record.record(self.plan, answers, event, about, private=private, time=now.isoformat(), files=files, left_out=left_out)
        notes = tuple(str(notice) for notice in self.plan.warnings)
        done = JobRun(
            self.job,
            self.plan,
            answers,
            self.target,
            int(paid[0]["seq"]),
            head,
            event,
            private,
            content,
            findings,
            left_out,
            resumed,
            notes,
        )
        write(staged / "release.json", record.text_of(content))
        write(staged / "registry.yaml", registry.text_of(registry.registry_record(self.plan, date=now.date().isoformat(), private=private)))
        self.step("written")
        if self.report:
            importlib.import_module("tacit.release.report").write(done, staged)
        self.step("staged")
        for reserved in paid:
            self._conclude(account, reserved, private)
        self.step("concluded")
        if there:
            shutil.rmtree(staged, ignore_errors=True)
        else:
            publication.publish(staged, self.target)
        self.step("published")
        work.remove()
        self.step("finished")
        return done

    def _conclude(self, account: Account, entry: Mapping[str, Any], private: bool) -> None:
        """Mark a reservation as done, unless an earlier attempt did."""
        number = int(entry["seq"])
        if any(e["kind"] == "commit" and e.get("reservation") == number for e in self.ledger.entries(since=number)):
            return
        reservation = Reservation(account, Receipt(number, "", {}, bool(entry["private"]) and private))
        reservation.commit()


def _token(target: Path) -> str:
    """Which run published a folder."""
    try:
        return str(json.loads((target / "release.json").read_text(encoding="utf-8"))["ledger"]["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
