"""The audit of a job: it finds much of what is promised and never more, and too little noise is found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.release.jobs import changed

from tacit.release.audited import JobAudit, audit_job
from tacit.release.errors import JobError
from tacit.release.job import EXAMPLE, Job, parse
from tacit.release.planning import plan
from tacit.release.report import Facts, describe, for_audience, read, render, with_audit, witnesses
from tacit.tables import desk

#: Each side. A bound is above the truth in one of twenty experiments; these draw from streams, so that they are always the same.
TRIALS = 1200


def test_an_attack_finds_much_of_what_is_promised_and_no_more() -> None:
    found = audit_job(parse(EXAMPLE), trials=TRIALS)
    assert 0.4 < found.lower <= found.upper <= 1 and not found.broken
    assert found.attacked == ("by_region",) and found.trials == 2 * TRIALS


def test_all_tables_of_a_job_are_attacked_together() -> None:
    found = audit_job(changed(), trials=TRIALS)
    assert set(found.attacked) == {"by_region", "overall"} and 0.5 < found.lower <= found.upper


def test_too_little_noise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a quarter of the noise that was paid for."""
    drawn = desk.release

    def weak(exact: Any, planned: Any) -> Any:
        found = drawn(exact, planned)
        sums = tuple(np.asarray(e) + (np.asarray(s) - np.asarray(e)) // 4 for e, s in zip(exact.sums, found.sums, strict=True))
        return replace(found, sums=sums)

    monkeypatch.setattr(desk, "release", weak)
    assert audit_job(parse(EXAMPLE), trials=TRIALS).broken


def test_what_cannot_be_attacked_is_named() -> None:
    private = changed(
        ("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region\", weight: 1",
         "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward\", keys: {ward: private}, weight: 1"),
        ("budget: {rho: 0.5}", "budget: {epsilon: 1, delta: 1e-6}"),
    )  # fmt: skip
    found = audit_job(private, trials=200)
    assert found.left == ("by_region",) and found.attacked == ("overall",)
    with pytest.raises(JobError, match="one private table"):
        two = EXAMPLE.replace("  visits: {path: visits.parquet}", "  visits: {path: visits.parquet}\n  stays: {path: stays.parquet}")
        two = two.replace("patient_id: {type: integer}", "visits.patient_id: {type: integer}\n  stays.patient_id: {type: integer}")
        audit_job(parse(two.replace("  region:", "  visits.region:")))


def described(job: Job) -> dict[str, Any]:
    facts = Facts(made="2026-01-01", record={"ledger account": "visits", "ledger entries": "7", "head of the book": "x"})
    return describe(plan(job), {}, facts)


def test_three_witnesses_stand_side_by_side() -> None:
    record = described(parse(EXAMPLE))
    (above, book, below) = witnesses(record)
    assert above[1].startswith("ε ≤ 1") and "entries 7 of account visits" in book[1] and "no attack" in below[1]
    found = with_audit(record, JobAudit(0.61, 1.0, 1e-6, 0.95, 8000, ("by_region",), ("model",)))
    assert "ε ≥ 0.61" in witnesses(found)[2][1] and "model: not attacked" in witnesses(found)[2][2]
    assert "MORE THAN WAS PROMISED" in witnesses(with_audit(record, JobAudit(2, 1.0, 0, 0.95, 10, ("a",), ())))[2][1]
    page = for_audience(found, "officer")
    assert "Accountant, ledger and audit" in page and "ε ≥ 0.61" in page
    assert "Accountant, ledger and audit" not in for_audience(found, "public")


def test_a_page_with_an_audit_is_read_again(tmp_path: Any) -> None:
    record = with_audit(described(parse(EXAMPLE)), JobAudit(0.61, 1.0, 1e-6, 0.95, 8000, ("by_region",), ()))
    place = tmp_path / "officer.html"
    place.write_text(for_audience(record, "officer"), encoding="utf-8")
    assert read(place) == record and "ε ≥ 0.61" in render(read(place))
