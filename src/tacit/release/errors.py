"""Errors of release jobs. They name the place in the job, the range and the fix; never a value from the data.

>>> str(JobError("must be greater than 0", place="budget.epsilon", file="job.yaml"))
'job.yaml: budget.epsilon: must be greater than 0'
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from tacit.accounting import Refusal
from tacit.tables import EngineError

#: The refusals of a run, worded for Python. `tacit.cli.options` words them with the options of the command.
WORDS: Mapping[str, str] = {
    "correction-refused": (
        "{names} cannot be paid for once more: no delta is left for corrections. Run again with lost='leave "
        "out' to publish the others, and in the next job keep a share for corrections with budget.reserve, "
        "such as 0.05"
    ),
    "held-back": (
        "the release is held back, because its totals do not add up: {reasons}. Nothing is published, and what was drawn is kept. "
        "Look at the data with check_data; run again with accept=True to publish it as it is, or mend the data and run another period "
        "or a correction, which pays anew"
    ),
    "number-out-of-range": (
        "a number is too large or too small to compute with; numbers of a job lie between 1e-60 and 1e60 in size, and "
        "so must what follows from them"
    ),
    "output-failed": (
        "an output failed, or was stopped, after the data was touched: what was paid stays paid, and it is "
        "not drawn again. Run again with lost='correct' to pay for it once more, or with lost='leave out' to "
        "publish the others"
    ),
    "output-lost": (
        "an earlier run began {names} and was stopped before the answer was stored. A draw is never repeated "
        "under the same reservation: run again with lost='correct' to pay for it once more (a correction), "
        "or with lost='leave out' to publish the others"
    ),
    "run-at-work": "another run of this job is at work here; wait until it has ended, and look whether it published",
    "run-ended": (
        "the ledger says that this run has ended, and {names} was not drawn in it; nothing is drawn for a run "
        "that has ended. Remove {work} and run again, which pays anew"
    ),
    "run-of-another-job": (
        "an unfinished run of another version of this job, or of its data, is in {work}; finish that one, or "
        "remove the file (what it spent stays spent)"
    ),
}


class JobError(Refusal, ValueError):
    """A job cannot be read, planned or run as it is written. `place` is where in the job, such as `outputs[2].sql`."""

    words = WORDS

    def __init__(
        self, message: str = "", *, place: str = "", file: str = "", code: str = "", **facts: object
    ) -> None:
        super().__init__(message, code=code, **facts)
        self.place, self.file = place, file

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.place, self.message) if part)

    def within(self, file: str, place: str | None = None) -> JobError:
        """The same error with the name of the file, and perhaps a place that says more."""
        found = copy(self)
        found.file, found.place = file, self.place if place is None else place
        return found


class CheckFailed(JobError):
    """An output failed a check, so nothing is published; what was spent stays spent."""


class HeldBack(CheckFailed):
    """Released totals contradict what was expected, or each other, so nothing is published until a run accepts that."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__(code="held-back", reasons="; ".join(reasons), place="expected")


class OutputLost(JobError):
    """An earlier run began an output and did not store it; it is never drawn again under the same reservation."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(code="output-lost", names=names, place="outputs")


class OutputFailed(EngineError):
    """An output failed after the data was touched. It does not say why: the reason may be in the data."""

    words = WORDS
