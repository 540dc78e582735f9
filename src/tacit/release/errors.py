"""Errors of release jobs. They name the place in the job, the range and the fix; never a value from the data.

>>> str(JobError("must be greater than 0", place="budget.epsilon", file="job.yaml"))
'job.yaml: budget.epsilon: must be greater than 0'
"""

from __future__ import annotations


class JobError(ValueError):
    """A job cannot be read, planned or run as it is written. `place` is where in the job, such as `outputs[2].sql`."""

    def __init__(self, message: str, *, place: str = "", file: str = "") -> None:
        super().__init__(": ".join(part for part in (file, place, message) if part))
        self.message, self.place, self.file = message, place, file

    def within(self, file: str) -> JobError:
        """The same error with the name of the file."""
        return JobError(self.message, place=self.place, file=file)


class CheckFailed(JobError):
    """An output failed a check, so nothing is published; what was spent stays spent."""


class OutputLost(JobError):
    """An earlier run began an output and did not store it; it is never drawn again under the same reservation."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(
            f"an earlier run began {', '.join(names)} and was stopped before the answer was stored. A draw is never repeated under "
            "the same reservation: run again with lost='correct' to pay for it once more (a correction), "
            "or with lost='leave out' to publish the others",
            place="outputs",
        )
