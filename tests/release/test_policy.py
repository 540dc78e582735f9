"""The policy block of a job: kept, checked against the budget, printed with what is missing, and absent from jobs without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tacit.release import JobError, described_policy, load
from tacit.release.policy import CAVEAT, ELEMENTS, PRINCIPLES, Policy

HOSPITAL = Path(__file__).resolve().parents[2] / "examples" / "hospital.yaml"
GIVEN: dict[str, Any] = {
    "set_by": "the data protection board",
    "maximum": "eps=20, delta=1e-5",
    "why": "two releases a year, agreed in March",
    "review": "2027-01-31",
    "harms": {"addressed": ["re-identification of a patient"], "not_addressed": ["stigma of a whole ward"]},
    "flow": {"sender": "the hospital", "recipient": "the public"},
    "fair_information": {"openness": "the report is published with the tables"},
}


def job_with(tmp_path: Path, **policy: Any) -> Path:
    content = yaml.safe_load(HOSPITAL.read_text())
    content["policy"] = {**GIVEN, **policy}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def test_a_job_without_a_policy_keeps_its_fingerprint_and_its_record(tmp_path: Path) -> None:
    job = load(HOSPITAL)
    with_one = load(job_with(tmp_path))
    assert job.policy is None and with_one.policy is not None and job.digest() != with_one.digest()
    from tacit.release.record import without_secrets

    assert "policy" not in without_secrets(job.model_dump(mode="json"))
    assert without_secrets(with_one.model_dump(mode="json"))["policy"]["set_by"] == GIVEN["set_by"]


def test_the_budget_must_stay_within_the_maximum(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="more than the policy's maximum"):
        load(job_with(tmp_path, maximum="eps=0.0001"))
    with pytest.raises(JobError, match="more than the policy's maximum"):
        load(job_with(tmp_path, maximum="rho=5"))  # another currency says nothing about this one


@pytest.mark.parametrize(
    "wrong",
    [{"maximum": "a lot"}, {"review": "soon"}, {"flow": {"sendr": "x"}}, {"fair_information": {"luck": "x"}}, {"datasets": {"none": "x"}},
     {"set_by": ""}, {"compliant": True}],
)  # fmt: skip
def test_slips_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(JobError):
        load(job_with(tmp_path, **wrong))


def test_what_is_missing_says_so() -> None:
    found = described_policy(Policy.model_validate({**GIVEN, "review": "2027-01-31"}))
    assert found["flow"]["recipient"] == "the public" and found["flow"]["transmission principle"] == "not stated"
    assert len(found["flow"]) == len(ELEMENTS) and len(found["fair information"]) == len(PRINCIPLES)
    assert found["harms not addressed"] == ["stigma of a whole ward"] and found["caveat"] == CAVEAT and "not compliance" in CAVEAT
