"""Decisions of officers: signed entries that close, bar and amend; one signature tightens, two loosen; `verify` sees fakes."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tacit.accounting import PureDP
from tacit.ledger import Budget, BudgetExceeded, Decision, Ledger, LedgerError, OfficerKey, vague
from tacit.ledger.governance import budget_change
from tacit.ledger.journal import canonical, digest, rules_of

pytest.importorskip("cryptography")
EVENT = PureDP(Fraction(1, 10))


class Desk:
    """A book with two officers and an account."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tacit.db"
        self.book = Ledger.open(self.path)
        self.account = self.book.account("visits", Budget(epsilon=1))
        self.child = self.account.child("visits by ward", Budget(epsilon="1/2"))
        self.olga, self.omar = OfficerKey.new(), OfficerKey.new()
        rule = self.book.governance
        rule.decide(rule.enrol("Olga", self.olga.public), self.olga)
        rule.decide(rule.enrol("Omar", self.omar.public), self.olga)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def refused(desk: Desk, code: str, **terms: Any) -> None:
    spent = desk.account.spent()["pure"]
    with pytest.raises(LedgerError) as error:
        desk.account.spend(EVENT, **terms)
    assert error.value.code == code and desk.account.spent()["pure"] == spent


def test_a_closed_account_and_those_below_spend_no_more(desk: Desk) -> None:
    desk.child.spend(EVENT)
    rule = desk.book.governance
    rule.decide(rule.close("visits", "the study is over"), desk.olga)
    refused(desk, "account-closed")
    with pytest.raises(LedgerError, match="the study is over"):
        desk.child.spend(EVENT)
    # another process, which had the book open before
    with Ledger.open(desk.path) as other, pytest.raises(LedgerError, match="closed"):
        other.account("visits").spend(EVENT)
    assert desk.book.verify().ok


def test_another_open_book_learns_of_a_decision_inside_its_next_spend(desk: Desk) -> None:
    with Ledger.open(desk.path) as other:
        account = other.account("visits")
        account.spend(EVENT, analyst="ann")
        rule = desk.book.governance
        rule.decide(rule.freeze("ann", "questions about one person"), desk.omar)
        with pytest.raises(LedgerError, match="frozen") as error:
            account.spend(EVENT, analyst="ann")
        assert error.value.code == "analyst-barred"
        account.spend(EVENT, analyst="bob")


def test_lifting_needs_two_different_officers(desk: Desk) -> None:
    rule = desk.book.governance
    rule.decide(rule.freeze("ann", "under review"), desk.olga)
    lifted = rule.restore("ann", "cleared")
    assert rule.needed(lifted) == 2
    for keys in ((desk.olga,), (desk.olga, desk.olga)):
        with pytest.raises(LedgerError) as error:
            rule.decide(lifted, *keys)
        assert error.value.code == "second-signature"
    # the second officer gets the decision as a text, signed by the first
    handed = Decision.from_text(lifted.signed(desk.olga).to_text())
    rule.decide(handed, desk.omar)
    desk.account.spend(EVENT, analyst="ann")
    with pytest.raises(LedgerError, match="already"):
        rule.decide(handed, desk.omar)  # a signature cannot be used twice
    assert desk.book.verify().ok


def test_terms_are_tightened_by_one_and_loosened_by_two(desk: Desk) -> None:
    rule = desk.book.governance
    desk.account.spend(PureDP(Fraction(3, 10)))
    rule.decide(rule.amend("visits", "a second release is planned", budget="eps=0.4"), desk.olga)
    assert desk.account.left() == {"pure": Fraction(1, 10)} and desk.account.budget == Budget(epsilon="0.4")
    with pytest.raises(BudgetExceeded):
        desk.account.spend(PureDP(Fraction(2, 10)))
    looser = rule.amend("visits", "agreed by the board", budget="eps=0.8")
    with pytest.raises(LedgerError) as error:
        rule.decide(looser, desk.olga)
    assert error.value.code == "second-signature"
    rule.decide(looser, desk.olga, desk.omar)
    desk.account.spend(PureDP(Fraction(2, 10)))
    rule.decide(rule.amend("visits", "an error was found", budget="eps=0.1"), desk.omar)
    assert desk.account.left() == {"pure": 0}  # less than what is spent: nothing is left, and no debt
    assert desk.book.verify().ok
    with pytest.raises(LedgerError, match="currency"):
        rule.amend("visits", "no", budget="rho=1")


def test_purposes_come_from_a_list_where_the_account_asks(desk: Desk) -> None:
    rule = desk.book.governance
    rule.decide(rule.amend("visits", "policy", purposes=["weekly table", "audit of the register"]), desk.olga)
    refused(desk, "purpose-missing")
    refused(desk, "purpose-not-listed", purpose="marketing")
    desk.account.spend(EVENT, purpose="weekly table")
    desk.account.spend(EVENT, purpose="weekly table: March")
    with pytest.raises(LedgerError) as error:  # a longer list gives more, so two sign
        rule.decide(rule.amend("visits", "policy", purposes=["weekly table", "marketing"]), desk.olga)
    assert error.value.code == "second-signature"
    rule.decide(rule.amend("visits", "policy", purposes=["*"]), desk.olga, desk.omar)
    refused(desk, "purpose-vague", purpose="misc analysis")
    desk.account.spend(EVENT, purpose="map for the flood commission")
    assert desk.book.verify().ok


def test_only_listed_analysts(desk: Desk) -> None:
    rule = desk.book.governance
    rule.decide(rule.amend("visits", "access review", analysts=["ann"]), desk.omar)
    refused(desk, "analyst-not-listed", analyst="bob")
    refused(desk, "analyst-not-listed")
    desk.account.spend(EVENT, analyst="ann")


def test_strangers_and_forged_signatures_are_refused(desk: Desk, tmp_path: Path) -> None:
    rule, stranger = desk.book.governance, OfficerKey.new()
    with pytest.raises(LedgerError) as error:
        rule.decide(rule.close("visits", "mischief"), stranger)
    assert error.value.code == "officer-unknown"
    with pytest.raises(LedgerError) as error:
        rule.decide(rule.enrol("Stranger", stranger.public), stranger)
    assert error.value.code == "officer-unknown"
    genuine = rule.close("visits", "the study is over").signed(desk.olga)
    edited = Decision({**genuine.fields, "reason": "another"}, genuine.signatures)
    with pytest.raises(LedgerError, match="not of this decision"):
        rule.decide(edited)
    (tmp_path / "b").mkdir()
    elsewhere = Desk(tmp_path / "b")
    with pytest.raises(LedgerError, match="another book"):
        elsewhere.book.governance.decide(rule.close("visits", "x").signed(elsewhere.olga))


def test_verify_finds_a_decision_that_nobody_signed(desk: Desk) -> None:
    """Whoever can write the file can write entries; without an officer's key they cannot write decisions."""
    rule = desk.book.governance
    forged = rule.restore("ann", "cleared")
    desk.book.close()
    with sqlite3.connect(desk.path) as base:
        seq, previous = base.execute("SELECT seq, hash FROM tacit_head").fetchone()
        signatures = [[desk.olga.public, "00" * 64], [desk.omar.public, "00" * 64]]
        fields = {**forged.fields, "signatures": signatures, "time": "2026-01-01T00:00:00+00:00", "seq": seq + 1, "previous": previous}
        body = canonical(fields)
        row = (seq + 1, "analyst", -1, None, None, body, digest(body))
        base.execute("INSERT INTO tacit_entries (seq, kind, account, reservation, question, body, hash) VALUES (?,?,?,?,?,?,?)", row)
        base.execute("UPDATE tacit_head SET seq = ?, hash = ?", (seq + 1, digest(body)))
    with Ledger.open(desk.path) as book:
        found = book.verify()
    assert not found.ok and "not its signer's" in found.problems[0]


def test_keys_are_kept_in_files(desk: Desk) -> None:
    again = OfficerKey.read(desk.olga.pem(b"secret"), b"secret")
    assert again.public == desk.olga.public
    for pem, password in ((desk.olga.pem(b"secret"), b"wrong"), (b"no key", None)):
        with pytest.raises(LedgerError, match="Ed25519"):
            OfficerKey.read(pem, password)


def test_rules_are_read_from_where_they_were_read_last(desk: Desk) -> None:
    before = desk.book.rules.seen
    desk.account.spend(EVENT)
    seen: list[str] = []
    desk.book.store.read(lambda connection: seen.append(str(rules_of(connection, desk.book.rules).seen)))
    assert int(seen[0]) > before and budget_change(Budget(epsilon=1), Budget(epsilon=1)) == {}


def test_a_book_without_decisions_is_written_as_before(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "old.db") as book:
        account = book.account("visits", Budget(epsilon=1))
        account.spend(EVENT, purpose="misc", analyst="ann")  # nobody asked for more
        kinds = [fields["kind"] for fields in book.entries()]
        assert kinds == ["genesis", "account", "identity", "spend"]
        assert set(json.loads(canonical(account.spec.to_record()))) == {
            "name", "budget", "parent", "adjacency", "unit", "rule", "collusion", "window", "growing", "null_record", "cache",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("purpose", "said"),
    [("", False), ("test", False), ("misc stuff", False), ("research", False), ("visits by region for the board", True),
     ("Wochenbericht Grippe", True), ("??", False), ("q1 report", False)],
)  # fmt: skip
def test_vague_purposes_are_named(purpose: str, said: bool) -> None:
    assert vague(purpose) is not said


def test_who_asks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "pat")
    assert desk.book.analyst() == "pat" and desk.book.analyst("ann") == "ann"
    desk.account.spend(EVENT, analyst="ann")
    assert desk.book.analyst() == "pat"  # one analyst so far
    desk.account.spend(EVENT, analyst="bob")
    with pytest.raises(LedgerError) as error:
        desk.book.analyst()
    assert error.value.code == "analyst-needed" and "ann, bob" in str(error.value)
    desk.account.spend(EVENT, analyst="pat")
    assert desk.book.analyst() == "pat"
