"""Release jobs: plan, run, report, record.

A job is one YAML file that says what to publish about which data, for whose privacy and at what price. `plan` prices it without
data, `run` pays once and publishes all or nothing, `rehearse` tries it on made-up data. `kinds` is the protocol by which a room
puts an output of its own into a job.
"""

# Imports inside functions: pyarrow, jinja2 and the kinds of outputs are loaded by the jobs that need them.

from typing import TYPE_CHECKING

from tacit.lazy import lazily
from tacit.release import faults, kinds
from tacit.release.errors import CheckFailed, HeldBack, JobError, OutputLost
from tacit.release.job import Job, all_faults, load, parse, text_of, tree_of
from tacit.release.kinds import OutputPlan
from tacit.release.planning import JobPlan, faults_of_outputs, plan, validate
from tacit.release.running import JobRun, RunStep, run
from tacit.release.standing import Standing, account_for, standing_of

if TYPE_CHECKING:
    from tacit.release import report
    from tacit.release.audited import JobAudit, audit_job
    from tacit.release.checking import DataCheck, check_data, check_in_words, save_check
    from tacit.release.dummy import tables_for, write_visits
    from tacit.release.kinds.table import TablePlan
    from tacit.release.over_time import differences, read_series, smoothed
    from tacit.release.policy import described_policy
    from tacit.release.preparation import QUESTIONS, described_preparation
    from tacit.release.rehearsal import SUPPRESSED, Rehearsal, rehearse
    from tacit.release.sources import desk_of, identities, opened, table_of
    from tacit.release.sweeps import Trial, sweep
    from tacit.release.tuner import suggestions

#: Loaded when first used: running a job needs none of them.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "audited": ("JobAudit", "audit_job"),
        "checking": ("DataCheck", "check_data", "check_in_words", "save_check"),
        "dummy": ("tables_for", "write_visits"),
        "kinds.table": ("TablePlan",),
        "over_time": ("differences", "read_series", "smoothed"),
        "policy": ("described_policy",),
        "preparation": ("QUESTIONS", "described_preparation"),
        "rehearsal": ("SUPPRESSED", "Rehearsal", "rehearse"),
        "sources": ("desk_of", "identities", "opened", "table_of"),
        "sweeps": ("Trial", "sweep"),
        "tuner": ("suggestions",),
    },
)

__all__ = [
    "QUESTIONS", "SUPPRESSED", "CheckFailed", "DataCheck", "HeldBack", "Job", "JobAudit", "JobError", "JobPlan",
    "JobRun", "OutputLost", "OutputPlan", "Rehearsal", "RunStep", "Standing", "TablePlan", "Trial", "account_for",
    "all_faults", "audit_job", "check_data", "check_in_words", "described_policy", "described_preparation", "desk_of",
    "differences", "faults", "faults_of_outputs", "identities", "kinds", "load", "opened", "parse", "plan",
    "read_series", "rehearse", "report", "run", "save_check", "smoothed", "standing_of", "suggestions", "sweep",
    "table_of", "tables_for", "text_of", "tree_of", "validate", "write_visits",
]  # fmt: skip
