"""Release jobs: plan, run, report, record."""

from tacit.release.errors import CheckFailed, JobError, OutputLost
from tacit.release.job import Job, load
from tacit.release.kinds import OutputPlan
from tacit.release.planning import JobPlan, plan, validate
from tacit.release.running import JobRun, RunStep, run

__all__ = ["CheckFailed", "Job", "JobError", "JobPlan", "JobRun", "OutputLost", "OutputPlan", "RunStep", "load", "plan", "run", "validate"]
