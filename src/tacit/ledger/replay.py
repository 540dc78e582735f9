"""The book read from the beginning: entry by entry, what every account, name and total must be.

>>> replay = Replay()
>>> list(replay.take(1, {"kind": "genesis", "format": 1, "secret": "..."})), list(replay.take(2, {"kind": "gift"}))
([], ['is of an unknown kind'])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tacit.accounting.exact import from_text
from tacit.ledger.booking import Key, booked, keys, refused
from tacit.ledger.journal import FORMAT
from tacit.ledger.period import days
from tacit.ledger.spec import Spec
from tacit.ledger.tree import Totals


@dataclass
class Replay:
    """What the entries read so far say that every other table must hold."""

    specs: dict[int, Spec] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    identities: dict[str, int] = field(default_factory=dict)
    totals: dict[Key, Totals] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)
    secret: str = ""

    def path(self, account: int) -> list[Spec]:
        """An account and all accounts above it, nearest first."""
        found = [self.specs[account]]
        while found[-1].parent is not None:
            found.append(self.specs[found[-1].parent])
        return found

    def take(self, seq: int, fields: dict[str, Any]) -> Iterator[str]:
        """Apply one entry; yield what is wrong with it. Malformed fields raise, and the caller reports that."""
        match fields["kind"]:
            case "genesis":
                if seq != 1 or fields["format"] != FORMAT:
                    yield "is a beginning in the wrong place or of another format"
                self.secret = fields["secret"]
            case "account":
                spec = Spec.from_record(seq, fields["terms"])
                if fields["account"] != seq or spec.name in self.names:
                    yield "opens an account under a wrong number or a name that is taken"
                spec.checked(None if spec.parent is None else self.specs[spec.parent])
                self.specs[seq] = spec
                self.names[spec.name] = seq
            case "alias":
                if fields["account"] not in self.specs or fields["name"] in self.names:
                    yield "gives a name that is taken, or to an account that does not exist"
                self.names[fields["name"]] = fields["account"]
            case "identity":
                if fields["account"] not in self.specs or fields["key"] in self.identities:
                    yield "gives data that is taken, or to an account that does not exist"
                self.identities[fields["key"]] = fields["account"]
            case "spend" | "reserve":
                yield from self._spend(seq, fields)
            case "commit":
                if self.pending.pop(fields["reservation"], None) != fields["account"]:
                    yield "concludes a reservation that is not open"
                if fields["status"] not in ("done", "failed"):
                    yield "has an unknown status"
            case _:
                yield "is of an unknown kind"

    def _spend(self, seq: int, fields: dict[str, Any]) -> Iterator[str]:
        path = self.path(fields["account"])
        period = fields.get("period", "")
        if path[0].window is not None:
            days(path[0].window, period)
        elif period:
            yield "names a period on an account without a window"
        charge = {name: from_text(value) for name, value in fields["charge"].items()}
        if set(charge) != set(path[0].components(path[1:])):
            yield "is priced in other components than its account keeps"
            return
        if any(value is not None and value < 0 for value in charge.values()):
            yield "has a negative price"
        now = {key: self.totals[key] for key in keys(path, period) if key in self.totals}
        after = booked(path, now, charge, period)
        if (against := refused(path, after, period)) is not None:
            yield f"exceeds the budget of account {against.id}"
        self.totals |= after
        if fields["kind"] == "reserve":
            self.pending[seq] = fields["account"]
