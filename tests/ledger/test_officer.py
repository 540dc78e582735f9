"""The officer's desk: totals by account, analyst, project, period and purpose; what they mean; exports; the page itself."""

from __future__ import annotations

import csv
import io
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tacit.accounting import ApproxDP, Composed, Gaussian, Laplace, PureDP
from tacit.ledger import Budget, Ledger, LedgerError, OfficerKey, officer
from tacit.ledger.officer import GROUPS, PRIORS, event_of, meaning_of, report_of, to_json

AUDIT: dict[str, Any] = {
    "cases": [
        {"case": "laplace count", "share": 0.91, "broken": False},
        {"case": "discrete Laplace sum", "share": 0.85, "broken": False},
        {"case": "gaussian sum", "share": 1.4, "broken": True},
    ]
}


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger.open(tmp_path / "tacit.db")
    study = ledger.account("study", Budget(epsilon=2), unit="household")
    wards = study.child("wards", Budget(epsilon=1))
    wards.spend(Laplace(4), purpose="weekly table for the board: March", analyst="ann")
    wards.spend(Laplace(2), purpose="misc", analyst="bob")
    study.spend(PureDP(Fraction(1, 8)), analyst="ann", purpose="=cmd|' /C calc'!A0")
    monthly = ledger.account("meters", Budget(rho=1, period="month"), unit="device")
    monthly.spend(Gaussian(2), purpose="load curve of the grid", analyst="ann", period="2026-01")
    monthly.spend(Composed(Gaussian(4), Gaussian(4)), purpose="load curve of the grid", analyst="ann", period="2026-02")
    return ledger


def test_totals_by_everything(book: Ledger) -> None:
    found = report_of(book)
    assert [(row.name, row.depth, row.unit) for row in found.accounts] == [
        ("study", 0, "household"), ("wards", 1, "household"), ("meters", 0, "device")
    ]  # fmt: skip
    assert found.accounts[0].spent == "epsilon 0.875" and found.accounts[0].share == pytest.approx(0.4375)
    analysts = {(line.name, line.account): line.spent for line in found.by["analyst"]}
    assert analysts["ann", "wards"] == "epsilon 0.25" and analysts["bob", "wards"] == "epsilon 0.5"
    assert analysts["ann", "study"] == "epsilon 0.125"
    assert next((line.name, line.spends, line.spent) for line in found.by["project"]) == ("study", 3, "epsilon 0.875")
    assert {meaning.account for meaning in found.meanings} == {"study", "wards", "meters"}
    assert {line.name for line in found.by["period"]} >= {"2026-01", "2026-02"}
    purposes = {line.name: line.note for line in found.by["purpose"]}
    assert purposes["misc"] == "says nothing" and purposes["weekly table for the board"] == ""


def test_what_the_epsilon_means_is_the_posterior_by_bayes(book: Ledger) -> None:
    """For pure epsilon the belief is Bayes' on the worst pair, and a group of k pays k times as much."""
    found = meaning_of(book, "wards")
    assert found.unit == "household" and found.except_for == ""
    for prior, (shown, cells) in zip(PRIORS, found.rows, strict=True):
        assert shown == f"{prior:.0%}"
        for size, cell in zip(GROUPS, cells, strict=True):
            odds = math.exp(0.75 * size) * prior / (1 - prior)
            truth = 100 * odds / (1 + odds)
            assert truth <= float(cell[:-2]) <= truth + 0.11
    window = meaning_of(book, "meters")  # one device over all months: 1/8 + 2/32
    assert window.spent.startswith("rho 0.1875") and window.except_for == "1e-06"


def test_events_of_every_currency() -> None:
    assert event_of({"epsilon": Fraction(1), "delta": Fraction(1, 10**6)}) is not None
    assert event_of({"rho": None}) is None and event_of({}) is None
    found = event_of({"mu2": Fraction(4)})
    assert found is not None and 2 <= found.mu < 2.0001  # type: ignore[attr-defined]


def test_accountant_ledger_and_audit_stand_side_by_side(book: Ledger) -> None:
    rows = {row.name: row for row in report_of(book, audit=AUDIT).mechanisms}
    assert rows["Laplace"].proved.startswith("epsilon ≤ 0.5") and rows["Laplace"].charged == "epsilon 0.5"
    assert rows["Laplace"].audited == "2 attacks found at most 91% of what is claimed"
    assert rows["Gaussian"].broken and "gaussian sum" in rows["Gaussian"].audited and rows["Gaussian"].spends == 2
    assert "not run" in report_of(book).mechanisms[0].audited


def test_the_page_escapes_and_says_what_it_is(book: Ledger) -> None:
    book.account("study").spend(PureDP(Fraction(1, 100)), purpose="<script>alert(1)</script>", analyst="<b>ann</b>")
    page = report_of(book, audit=AUDIT, title="Visits & wards", policy={"maximum": "eps 2", "harms": ["re-identification"]}).to_html()
    assert "<script" not in page and "&lt;script&gt;" in page and "<b>ann" not in page and "Visits &amp; wards" in page
    assert "evidence for a decision, not a certificate of compliance" in page
    assert "one household" in page and "one person" not in page  # the unit is called what it is
    assert page.count('<svg class="burn"') == 3 and "re-identification" in page
    assert "http" not in page.split("</style>")[1]  # nothing is fetched


def test_decisions_and_closed_accounts_are_shown(book: Ledger) -> None:
    pytest.importorskip("cryptography")
    key = OfficerKey.new()
    rule = book.governance
    rule.decide(rule.enrol("Olga", key.public), key)
    rule.decide(rule.amend("study", "a second release", budget="eps=1.5"), key)
    rule.decide(rule.close("wards", "finished"), key)
    found = report_of(book)
    assert [what for _, what, _ in found.decisions][1:] == ["amended budget of study: a second release", "closed wards: finished"]
    assert found.accounts[0].budget == "epsilon 1.5" and "closed: finished" in found.accounts[1].notes
    assert "Olga" in found.to_html() and found.ok


def test_exports(book: Ledger) -> None:
    found = report_of(book, audit=AUDIT)
    rows = list(csv.reader(io.StringIO(found.to_csv())))
    assert len(rows) == 6 and rows[3][5].startswith("'=cmd")
    answers = found.nist()["answers"]
    assert "household" in answers[0]["answer"] and any("cannot answer" in a["answer"] for a in answers)
    records = found.registry()
    assert {r["name"] for r in records} == {"study", "wards", "meters"} and records[0]["status"] == "Draft"
    assert json.loads(json.dumps(to_json(found), default=str))["entries"] == found.entries


def test_an_empty_book_has_a_page(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "e.db") as ledger:
        found = officer.report_of(ledger)
        assert "nothing was spent so far" in found.to_html() and found.to_csv().count("\n") == 1


def test_a_broken_book_says_so_at_the_top(book: Ledger, tmp_path: Path) -> None:
    import sqlite3

    book.close()
    with sqlite3.connect(tmp_path / "tacit.db") as base:
        base.execute("UPDATE tacit_totals SET body = replace(body, '7/8', '1/8')")
    with Ledger.open(tmp_path / "tacit.db") as ledger:
        page = report_of(ledger).to_html()
    assert "The book is not in order" in page


def test_a_group_has_a_belief_of_its_own_where_delta_allows_one(tmp_path: Path) -> None:
    """Two together at epsilon 1.8 and delta 9e-8: the delta of two is (1 + exp(1.8)) times that of one, and beyond the probability that was
    excepted for one, so the page said 100 %. Bayes' rule at twice the epsilon bounds what it says now from below.
    """
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as ledger:
        account = ledger.account("survey", Budget(epsilon=6, delta="1e-6"), unit="household_id")
        account.spend(ApproxDP(Fraction(9, 5), Fraction(9, 10**8)), purpose="a survey of January")
        found = officer.meaning_of(ledger, "survey")
    assert found.unit == "household" and found.except_for.startswith("1e-06, 6.3e-06 for 2 together")
    one, two, four = (float(cell.removesuffix(" %")) / 100 for cell in dict(found.rows)["1%"])
    bayes = [0.01 * math.exp(k * 1.8) / (0.99 + 0.01 * math.exp(k * 1.8)) for k in (1, 2, 4)]
    assert bayes[0] <= one < 0.1 and bayes[1] <= two < 0.35 and bayes[2] <= four <= 1


def test_a_unit_is_called_what_it_is(tmp_path: Path) -> None:
    """A word for people, and no term of the account: who asks for it under another one gets the same account, with its own word."""
    ledger = Ledger.open(tmp_path / "book.db")
    opened = ledger.account("survey", Budget(epsilon=1), unit="s", called="student")
    assert ledger.account("survey", unit="s", called="pupil").spec == opened.spec and "called" in opened.spec.to_record()
    assert "called" not in ledger.account("visits", Budget(epsilon=1), unit="patient_id").spec.to_record()
    opened.spend(PureDP(0.5), purpose="rates of lectures by department")
    found = report_of(ledger)
    assert [row.called for row in found.accounts] == ["student", "patient"] and [row.unit for row in found.accounts] == ["s", "patient_id"]
    page = found.to_html()
    assert "one student" in page and "one s<" not in page and "one patient" in page
    with pytest.raises(LedgerError, match="word for one unit"):
        ledger.account("other", Budget(epsilon=1), called="x" * 101)
