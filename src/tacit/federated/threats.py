"""Who sees what: the threat model of a federation as data, and a log that models confidential computation in software.

The tables follow Figures 8.2 to 8.4 and Table 8.1 of the source text: actors, what reaches them, and which component
meets which principle. `KeyLog` is a software model of a trusted component: it hands out a key for data only to workloads
that a policy names, while a budget lasts, and writes every decision into a chain of hashes. It proves nothing about
hardware: whoever runs the process can read its memory.

>>> from tacit.federated.plan import plan
>>> made = plan(clients=10, size=5, clip=1, rounds=1, epsilon=1, delta=1e-6)
>>> seen = who_sees(made)
>>> seen["server"]["update"], seen["public"]["model"]
('each clipped update', 'every round')
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from tacit.federated.errors import FederatedError
from tacit.federated.plan import FederatedPlan
from tacit.federated.policy import Policy
from tacit.ledger import Account, BudgetExceeded, canonical

#: Actors of Figure 8.4.
ACTORS = ("device", "network", "server", "server and clients", "engineer", "public")
#: What can be seen, from raw to released.
THINGS = ("raw data", "update", "sum", "model")

_NOTHING = "nothing"
_COMMON: dict[str, dict[str, str]] = {
    "device": {"raw data": "its own", "update": "its own", "sum": _NOTHING, "model": "every round it takes part in"},
    "network": dict.fromkeys(THINGS, "nothing, if messages travel under TLS; when and how much"),
    "engineer": {"raw data": _NOTHING, "update": _NOTHING, "sum": "noisy", "model": "every round"},
    "public": {"raw data": _NOTHING, "update": _NOTHING, "sum": _NOTHING, "model": "every round"},
}
_SERVERS: dict[str, dict[str, dict[str, str]]] = {
    "central": {
        "server": {"raw data": _NOTHING, "update": "each clipped update", "sum": "exact", "model": "every round"},
        "server and clients": {
            "raw data": "that of the clients with it", "update": "each clipped update", "sum": "exact", "model": "every round",
        },
    },
    "distributed": {
        "server": {"raw data": _NOTHING, "update": "masked: uniform numbers", "sum": "noisy", "model": "every round"},
        "server and clients": {
            "raw data": "that of the clients with it", "update": "masked: uniform numbers",
            "sum": "noisy, with the noise of honest clients alone", "model": "every round",
        },
    },
    "local": {
        "server": {"raw data": _NOTHING, "update": "each, with all of its noise", "sum": "noisy", "model": "every round"},
        "server and clients": {
            "raw data": "that of the clients with it", "update": "each, with all of its noise", "sum": "noisy", "model": "every round",
        },
    },
    "silo": {
        "server": {"raw data": _NOTHING, "update": "each silo's private model", "sum": "of private models", "model": "every round"},
        "server and clients": {
            "raw data": "that of the silos with it", "update": "each silo's private model", "sum": "of private models",
            "model": "every round",
        },
    },
}  # fmt: skip

#: Table 8.1: the principle, what meets it here, and what is only promised.
PRINCIPLES: tuple[tuple[str, str, str], ...] = (
    (
        "transparency and consent",
        "Policy in plain words, signed, checked on the device",
        "that people read it",
    ),
    (
        "data minimisation",
        "one clipped vector of integers leaves; secure sums; state is forgotten after a round",
        "side channels of availability and timing",
    ),
    (
        "anonymisation",
        "noise priced for each adversary; the server's ledger; the client's own book",
        "an honest server, under central trust",
    ),
    (
        "verifiability",
        "hashes of plan and code in the policy; hash-chained ledger",
        "attested hardware: KeyLog is a software model",
    ),
)


def who_sees(plan: FederatedPlan) -> Mapping[str, Mapping[str, str]]:
    """For each actor, what it sees of each thing under a plan's trust."""
    servers = _SERVERS[plan.trust]
    return {actor: (_COMMON.get(actor) or servers[actor]) for actor in ACTORS}


def as_table(plan: FederatedPlan) -> str:
    """The same as a table in Markdown, with the price for each server.

    >>> from tacit.federated.plan import plan as planned
    >>> as_table(planned(clients=10, size=5, clip=1, rounds=1, epsilon=1, delta=1e-6)).splitlines()[0]
    '| who | raw data | update | sum | model | price |'
    """
    prices = {price.adversary: price.words for price in plan.prices()}
    prices |= {"public": prices["model"], "engineer": prices["model"]}
    lines = [f"| who | {' | '.join(THINGS)} | price |", "| --- " * (len(THINGS) + 2) + "|"]
    for actor, things in who_sees(plan).items():
        lines.append(f"| {actor} | {' | '.join(things[thing] for thing in THINGS)} | {prices.get(actor, '')} |")
    return "\n".join(lines)


@dataclass
class KeyLog:
    """A software model of confidential computation: a key for data under a policy, and a chain of what was decided.

    Every entry holds the hash of the one before it. `verify` finds a changed, lost or inserted entry; it cannot find a
    chain that was rewritten as a whole, so keep `head` elsewhere.
    """

    policy: Policy
    account: Account
    entries: list[str] = field(default_factory=list)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return hashlib.sha256(self.entries[-1].encode()).hexdigest() if self.entries else "0" * 64

    def release(self, plan: FederatedPlan, *, code: str, period: str | None = None) -> bytes:
        """The key, for a workload that the policy names and the budget can pay; refusals are logged too."""
        try:
            self.policy.check(plan, code=code)
            with self.account.paying(plan.event, purpose=plan.name, delta=plan.delta, period=period):
                key = self._handed()
        except (FederatedError, BudgetExceeded) as refusal:
            self._log(plan, code, refusal.code or type(refusal).__name__)
            raise
        self._log(plan, code, "released")
        return key

    def _handed(self) -> bytes:
        return self._key

    def _log(self, plan: FederatedPlan, code: str, decision: str) -> None:
        entry = {"before": self.head, "workload": plan.fingerprint, "code": code, "decision": decision}
        self.entries.append(canonical(entry))

    def verify(self) -> bool:
        """Whether every entry follows from the one before it."""
        before = "0" * 64
        for entry in self.entries:
            if json.loads(entry)["before"] != before:
                return False
            before = hashlib.sha256(entry.encode()).hexdigest()
        return True
