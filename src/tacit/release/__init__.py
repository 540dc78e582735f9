"""Release jobs: plan, run, report, record.

A job is one YAML file that says what to publish about which data, for whose privacy and at what price. `plan` prices it without
data, `run` pays once and publishes all or nothing, `rehearse` tries it on made-up data. `kinds` is the protocol by which a room
puts an output of its own into a job.
"""

from typing import TYPE_CHECKING

from tacit.lazy import lazily
from tacit.release import faults, kinds
from tacit.release.errors import CheckFailed, JobError, OutputLost
from tacit.release.job import Job, load
from tacit.release.kinds import OutputPlan
from tacit.release.planning import JobPlan, plan, validate
from tacit.release.running import JobRun, RunStep, run

if TYPE_CHECKING:
    from tacit.release import report
    from tacit.release.dummy import tables_for, write_visits
    from tacit.release.rehearsal import SUPPRESSED, Rehearsal, rehearse
    from tacit.release.sources import table_of
    from tacit.release.tuner import suggestions

#: Loaded when first used: running a job needs none of them.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "dummy": ("tables_for", "write_visits"),
        "rehearsal": ("SUPPRESSED", "Rehearsal", "rehearse"),
        "sources": ("table_of",),
        "tuner": ("suggestions",),
    },
)

__all__ = [
    "SUPPRESSED", "CheckFailed", "Job", "JobError", "JobPlan", "JobRun", "OutputLost", "OutputPlan", "Rehearsal", "RunStep",
    "faults", "kinds", "load", "plan", "rehearse", "report", "run", "suggestions", "table_of", "tables_for", "validate", "write_visits",
]  # fmt: skip
