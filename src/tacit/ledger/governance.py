"""What officers decide about a book: accounts closed, analysts frozen or revoked, terms amended. Each decision is a signed entry.

A decision stands in the chain like every other entry and holds from there on. One officer's signature is enough
for what only tightens: closing, freezing, a smaller budget, fewer purposes or analysts. What loosens needs two
different officers. An officer is a name and a public key (Ed25519) in the book; the first one enrols alone, every
later one is signed for by an officer.

What all decisions so far amount to are the `Rules` of `tacit.ledger.spec`, which every spend is held against.
Reading them needs no further package; signing and checking signatures needs `pip install 'tacit[officer]'`.

>>> budget_change(Budget(epsilon=1), Budget(epsilon="1/2"))
{'pure': (Fraction(1, 1), Fraction(1, 2))}
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from tacit.errors import PackageMissing
from tacit.ledger import journal
from tacit.ledger.budget import BEST, Budget
from tacit.ledger.errors import LedgerError
from tacit.ledger.journal import canonical, rules_of
from tacit.ledger.spec import Rules, Spec
from tacit.ledger.store import Connection

if TYPE_CHECKING:
    from tacit.ledger.book import Ledger

#: The kinds of entries that officers sign.
KINDS = journal.DECIDED
STATES = ("active", "frozen", "revoked")
INSTALL = "'tacit[officer]'"


class Signer(Protocol):
    """An officer's private key: its public half in hexadecimal, and a signature of some bytes."""

    @property
    def public(self) -> str: ...

    def sign(self, message: bytes) -> str: ...


@dataclass(frozen=True)
class OfficerKey:
    """An Ed25519 key that signs here; `OfficerKey.new()` makes one, `OfficerKey.read` finds one in a PEM file."""

    private: Any

    @staticmethod
    def new() -> OfficerKey:
        return OfficerKey(_ed25519().Ed25519PrivateKey.generate())

    @staticmethod
    def read(pem: bytes, password: bytes | None = None) -> OfficerKey:
        """The key in a file as `write` made it, or `openssl genpkey -algorithm ed25519`."""
        _ed25519()
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        found: Any = None
        try:
            found = load_pem_private_key(pem, password)
        except (ValueError, TypeError):
            found = None
        if not isinstance(found, _ed25519().Ed25519PrivateKey):
            raise LedgerError("the key must be an Ed25519 private key in PEM, with its password if it has one")
        return OfficerKey(found)

    def pem(self, password: bytes | None = None) -> bytes:
        """The key for a file; encrypted where a password is given."""
        from cryptography.hazmat.primitives import serialization as s

        how = s.BestAvailableEncryption(password) if password else s.NoEncryption()
        text: bytes = self.private.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, how)
        return text

    @property
    def public(self) -> str:
        return str(self.private.public_key().public_bytes_raw().hex())

    def sign(self, message: bytes) -> str:
        return str(self.private.sign(message).hex())


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise PackageMissing(code="package-missing", package="cryptography", install=INSTALL) from None
    return ed25519


def signed_by(public: str, signature: str, message: bytes) -> bool:
    """Whether a signature is a key's, of this message."""
    module = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        module.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


# --- deciding ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """A decision before it is in the book: what is decided, and the signatures so far."""

    fields: Mapping[str, Any]
    signatures: tuple[tuple[str, str], ...] = ()

    @property
    def message(self) -> bytes:
        """What officers sign: the decision, for this book alone, with a mark that no other decision has."""
        return b"tacit decision\0" + canonical(dict(self.fields)).encode()

    def signed(self, *keys: Signer) -> Decision:
        """With the signatures of these officers."""
        more = tuple((key.public, key.sign(self.message)) for key in keys)
        return replace(self, signatures=(*self.signatures, *more))

    def to_text(self) -> str:
        """To hand to the second officer."""
        return canonical({"fields": dict(self.fields), "signatures": [list(pair) for pair in self.signatures]})

    @staticmethod
    def from_text(text: str) -> Decision:
        """The inverse of `to_text`."""
        try:
            found = json.loads(text)
            fields = dict(found["fields"])
            pairs = tuple((str(key), str(signature)) for key, signature in found["signatures"])
        except (ValueError, TypeError, KeyError):
            raise LedgerError("this is no decision as `tacit ledger` writes it") from None
        return Decision(fields, pairs)


@dataclass(frozen=True)
class Governance:
    """The decisions of one book: `ledger.governance`."""

    ledger: Ledger

    def rules(self) -> Rules:
        """What holds now."""
        return self.ledger.store.read(lambda connection: rules_of(connection, self.ledger.rules))

    # Each of these makes a decision; `decide` signs and writes it.

    def enrol(self, name: str, public: str) -> Decision:
        """One more officer, by name and public key."""
        if not re.fullmatch(r"[0-9a-f]{64}", public):
            raise LedgerError("an officer's public key has 64 hexadecimal digits; OfficerKey.public says it")
        return self._made("officer", name=_text("name", name), key=public)

    def close(self, account: str, reason: str) -> Decision:
        """No more spends on an account, nor on any below it."""
        return self._made("close", account=self._id(account), reason=_text("reason", reason))

    def freeze(self, analyst: str, reason: str) -> Decision:
        """No more spends by an analyst until two officers lift it."""
        return self._state(analyst, "frozen", reason)

    def revoke(self, analyst: str, reason: str) -> Decision:
        """No more spends by an analyst."""
        return self._state(analyst, "revoked", reason)

    def restore(self, analyst: str, reason: str) -> Decision:
        """Spends by an analyst again: it loosens, so two officers sign."""
        return self._state(analyst, "active", reason)

    def _state(self, analyst: str, state: str, reason: str) -> Decision:
        return self._made("analyst", analyst=_text("analyst", analyst), state=state, reason=_text("reason", reason))

    def amend(
        self, account: str, reason: str, *, budget: Budget | str | None = None,
        purposes: Iterable[str] | None = None, analysts: Iterable[str] | None = None,
    ) -> Decision:
        """Other terms of an account: its budget (in the same currency), the purposes and the analysts it admits.

        `purposes=["*"]` admits every purpose that says something; an empty list lifts the condition.
        """
        spec = self.ledger.account(account).spec
        terms: dict[str, Any] = {}
        if budget is not None:
            new = Budget.of(budget)
            if spec.budget.filter == BEST or new.filter == BEST:
                raise LedgerError("budget: filter='best' is proved for limits that are fixed at the beginning; open another account")
            if set(new.limits) != set(spec.budget.limits):
                raise LedgerError(f"budget: account {account!r} counts in {spec.budget.currency}; another currency needs another account")
            # The share that is kept for corrections is part of how totals are kept, and stays.
            terms["budget"] = Budget(new.guarantee, reserve=spec.budget.reserve).to_record()
        for name, given in (("purposes", purposes), ("analysts", analysts)):
            if given is not None:
                terms[name] = sorted({_text(name, item) for item in ([given] if isinstance(given, str) else given)})
        if not terms:
            raise LedgerError("amend names what changes: budget, purposes or analysts")
        return self._made("amend", account=spec.id, terms=terms, reason=_text("reason", reason))

    def needed(self, decision: Decision) -> int:
        """How many officers must sign."""
        return 1 if self._tightening(decision, self.rules()) else 2

    def decide(self, decision: Decision, *keys: Signer) -> int:
        """Write a decision into the book, signed by these keys and those that signed before; the number of its entry.

        The signatures are checked here. Unknown keys, one officer twice, and too few officers are refused.
        """
        whole = decision.signed(*keys)
        for public, signature in whole.signatures:
            if not signed_by(public, signature, whole.message):
                raise LedgerError("a signature is not of this decision; sign it anew")

        def work(connection: Connection) -> int:
            rules = rules_of(connection, Rules())
            self._check(whole, rules)
            fields = {**whole.fields, "signatures": [list(pair) for pair in whole.signatures], "time": journal.now()}
            return journal.append(connection, [fields])[0].seq

        return self.ledger.store.write(work)

    def _check(self, decision: Decision, rules: Rules) -> None:
        fields = decision.fields
        if fields.get("book") != self._book() or fields.get("kind") not in KINDS or fields.get("mark") in rules.marks:
            raise LedgerError("this decision was made for another book, or is in the book already")
        signers = {public for public, _ in decision.signatures}
        if fields["kind"] == "officer" and not rules.officers:
            if signers != {fields["key"]}:
                raise LedgerError("the first officer signs for himself: decide(governance.enrol(name, key.public), key)")
            return
        unknown = signers - set(rules.officers)
        if unknown or not signers:
            raise LedgerError(code="officer-unknown", officers=tuple(rules.officers.values()) or ("nobody",))
        wanted = 1 if fields["kind"] == "officer" or self._tightening(decision, rules) else 2
        if len(signers) < wanted:
            raise LedgerError(code="second-signature", kind=fields["kind"])

    def _tightening(self, decision: Decision, rules: Rules) -> bool:
        number = decision.fields.get("account")
        spec = None if number is None else self.ledger.store.read(lambda connection: self.ledger.spec(connection, int(number)))
        return rules.tightens(decision.fields, spec)

    def _made(self, kind: str, **fields: Any) -> Decision:
        return Decision({"kind": kind, "book": self._book(), "mark": secrets.token_hex(8), **fields})

    def _book(self) -> str:
        first = next(iter(self.ledger.entries()))
        return str(first["secret"])

    def _id(self, account: str) -> int:
        return self.ledger.account(account).spec.id


def faults(fields: Mapping[str, Any], rules: Rules, spec: Spec | None) -> list[str]:
    """What is wrong with a decision as it stands in a book, for `verify`; signatures are checked where that can be done."""
    found = []
    pairs = [(str(key), str(signature)) for key, signature in fields["signatures"]]
    signers = {key for key, _ in pairs}
    bare = {name: value for name, value in fields.items() if name not in ("signatures", "time", "seq", "previous")}
    first = fields["kind"] == "officer" and not rules.officers
    if (signers != {fields["key"]}) if first else (not signers or signers - set(rules.officers)):
        found.append("is not signed by officers")
    wanted = 1 if fields["kind"] == "officer" or rules.tightens(fields, spec) else 2
    if len(signers) < wanted:
        found.append("loosens terms with one officer's signature")
    if fields["mark"] in rules.marks:
        found.append("repeats an earlier decision")
    try:
        if not all(signed_by(key, signature, Decision(bare).message) for key, signature in pairs):
            found.append("has a signature that is not its signer's")
    except PackageMissing:
        pass  # who has no package for signatures still sees the chain checked
    return found


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 500:
        raise LedgerError(f"{name} must be a text of 1 to 500 characters")
    return value.strip()


def budget_change(before: Budget, after: Budget) -> dict[str, tuple[Fraction, Fraction]]:
    """Which limits differ, from what to what.

    >>> budget_change(Budget(epsilon=1), Budget(epsilon="1/2"))
    {'pure': (Fraction(1, 1), Fraction(1, 2))}
    """
    return {name: (limit, after.limits[name]) for name, limit in before.limits.items() if limit != after.limits[name]}
