"""What a client allows: a policy that people can read, signed for the device, and a book that keeps to it.

A policy says which plans may run on a device: their hashes and those of the code, the largest clip, the least noise,
whom they must protect, how often, for which budget in which window, until when, among how many. The device compares
every plan with it before it trains. The book remembers what was paid for and who took part when; it is on the disk
before the data is touched, and refunds nothing.

>>> from tacit.federated.plan import plan
>>> policy = Policy("keyboard", budget="eps=8, delta=1e-5", expires="2099-12-31", clip=1.0, noise=0.5, trust=("central",),
...                 participations=10, workloads=("any",), code=("any",))
>>> made = plan(clients=100, size=10, clip=1.0, rounds=10, epsilon=8, delta=1e-5)
>>> policy.check(made)
>>> policy.check(plan(clients=100, size=10, clip=2.0, rounds=10, epsilon=8, delta=1e-5))
Traceback (most recent call last):
tacit.federated.errors.FederatedError: the plan clips at 2.0, and the policy allows at most 1.0; lower clip in the plan
>>> book = ClientBook(None, policy)
>>> book.enter(made, run="monday", turn=1).status
'open'
>>> book.enter(made, run="monday", turn=1)
Traceback (most recent call last):
tacit.federated.errors.FederatedError: this client has answered this round before; no round is answered twice
"""

from __future__ import annotations

import datetime
import hashlib
import inspect
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tacit.accounting import Event, NoOp, account
from tacit.errors import ParameterError
from tacit.federated.errors import FederatedError, needs_flower
from tacit.federated.plan import FederatedPlan
from tacit.ledger import WINDOWS, Account, Budget, BudgetExceeded, Ledger, Payment, canonical, paying
from tacit.parameters import count, positive, probability

ANY = "any"


@dataclass(frozen=True)
class Policy:
    """What plans may do on a device. `workloads` are fingerprints of plans and `code` hashes of training code.

    `cohort` is the least number of honest clients whose sum may be opened, and `colluding` the share of clients that a
    plan must take to be on the server's side. ("any",) in `workloads` or `code` allows
    everything that keeps to the numbers; it must be written, it is not the default.
    """

    name: str
    budget: str
    expires: str
    clip: float
    noise: float
    unit: str = "user"
    trust: tuple[str, ...] = ("distributed",)
    participations: int = 1
    separation: int = 1
    cohort: int = 2
    colluding: float = 0.0
    window: str | None = None
    workloads: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    signature: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        Budget.of(self.budget)
        positive("clip", self.clip)
        positive("noise", self.noise)
        for name in ("participations", "separation", "cohort"):
            count(name, getattr(self, name))
        probability("colluding", self.colluding)
        for name in ("trust", "workloads", "code"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        if self.window is not None and self.window not in WINDOWS:
            raise ParameterError(f"window must be one of {', '.join(WINDOWS)} or left out, not {self.window!r}")
        try:
            datetime.date.fromisoformat(self.expires)
        except (TypeError, ValueError):
            raise ParameterError(f"expires must be a date such as 2026-12-31, not {self.expires!r}") from None

    # --- files and signatures --------------------------------------------------------------------------------

    @staticmethod
    def load(path: str | Path, *, signer: bytes | None = None) -> Policy:
        """The policy in a YAML file; with `signer`, the public key this device trusts, its signature is demanded."""
        import yaml

        read = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        if not isinstance(read, dict):
            raise ParameterError("a policy file holds names and values, such as clip: 1.0")
        return Policy.from_record(read, signer=signer)

    @staticmethod
    def from_record(record: Mapping[str, Any], *, signer: bytes | None = None) -> Policy:
        """The policy of a record; unknown names are refused, since a limit that is not understood is not kept."""
        known = {f.name for f in fields(Policy)}
        given: dict[str, Any] = {name: str(value) if name == "expires" else value for name, value in record.items()}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ParameterError(f"a policy knows no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        try:
            policy = Policy(**given)
        except TypeError:
            raise ParameterError("a policy needs name, budget, expires, clip and noise") from None
        if signer is not None:
            policy.verify(signer)
        return policy

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form, for a file."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in record.items()}

    @property
    def _signed_text(self) -> bytes:
        record = self.to_record()
        del record["signature"]
        return b"tacit policy 1\n" + canonical(record).encode()

    def signed(self, key: bytes) -> Policy:
        """This policy with a signature under an Ed25519 private key of 32 bytes.

        >>> made = Policy("p", budget="eps=1, delta=1e-6", expires="2030-01-01", clip=1, noise=1).signed(bytes(32))
        >>> made.verify(bytes.fromhex("3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"))
        >>> replace(made, clip=2).verify(bytes(32))
        Traceback (most recent call last):
        tacit.federated.errors.FederatedError: the policy has no valid signature of the key that this device trusts
        """
        with needs_flower():
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        return replace(self, signature=Ed25519PrivateKey.from_private_bytes(key).sign(self._signed_text).hex())

    def verify(self, signer: bytes) -> None:
        """Refuse a policy that the holder of this public key did not sign."""
        with needs_flower():
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        try:
            Ed25519PublicKey.from_public_bytes(signer).verify(bytes.fromhex(self.signature), self._signed_text)
        except (InvalidSignature, ValueError):
            raise FederatedError(code="federated-signature") from None

    # --- what it allows --------------------------------------------------------------------------------------

    def check(self, plan: FederatedPlan, *, code: str | None = None, today: datetime.date | None = None) -> None:
        """Refuse a plan that goes beyond the policy. It looks at the plan and the date, never at data."""
        if (today or datetime.date.today()) > datetime.date.fromisoformat(self.expires):
            raise FederatedError(code="federated-expired", expires=self.expires)
        if self.workloads != (ANY,) and plan.fingerprint not in self.workloads:
            raise FederatedError(code="federated-workload")
        if self.code != (ANY,) and code not in self.code:
            raise FederatedError(code="federated-code")
        if plan.trust not in self.trust:
            raise FederatedError(code="federated-trust", given=plan.trust, allowed=self.trust)
        if plan.unit.kind != self.unit:
            raise FederatedError(code="federated-unit", given=plan.unit.kind, asked=self.unit)
        if not plan.clip <= self.clip:
            raise FederatedError(code="federated-clip", given=plan.clip, most=self.clip)
        if not plan.noise_multiplier >= self.noise:
            raise FederatedError(code="federated-noise", given=plan.noise_multiplier, least=self.noise)
        if plan.participations > self.participations:
            raise FederatedError(
                code="federated-participations", given=plan.participations, most=self.participations
            )
        if plan.separation < self.separation:
            raise FederatedError(code="federated-separation", given=plan.separation, least=self.separation)
        if plan.colluding < self.colluding and plan.trust == "distributed":
            raise FederatedError(code="federated-collusion", given=plan.colluding, least=self.colluding)
        if plan.honest < self.cohort:
            raise FederatedError(code="federated-cohort", given=plan.honest, least=self.cohort)

    def __str__(self) -> str:
        """In plain words, for the person whose device it is.

        >>> print(Policy("keyboard", budget="eps=8, delta=1e-5", expires="2030-01-01", clip=1, noise=1, window="week"))
        "keyboard" may learn from this device until 2030-01-01.
        What all of it together may tell about one user: at most eps=8, delta=1e-5 in one week.
        It takes part at most once in a run.
        What it sends is cut to size 1, mixed with noise of at least 1 times that size, and added to what at least 1 \
other honest device sends.
        Whom this device trusts: distributed.
        Only plans and code whose hashes stand in this policy may run: 0 plans, 0 kinds of code.
        """
        often = "once" if self.participations == 1 else f"{self.participations} times"
        apart = f", {self.separation} rounds apart" if self.separation > 1 else ""
        budget = str(Budget.of(self.budget).guarantee)
        listed = [("any" if names == (ANY,) else len(names)) for names in (self.workloads, self.code)]
        return "\n".join([
            f'"{self.name}" may learn from this device until {self.expires}.',
            f"What all of it together may tell about one {self.unit}: at most {budget}"
            f"{f' in one {self.window}' if self.window else ', ever'}.",
            f"It takes part at most {often} in a run{apart}.",
            f"What it sends is cut to size {self.clip:g}, mixed with noise of at least {self.noise:g} times that size, and "
            f"added to what at least {self.cohort - 1} other honest device{'s' if self.cohort > 2 else ''} send"
            f"{'' if self.cohort > 2 else 's'}.",
            f"Whom this device trusts: {', '.join(self.trust)}.",
            f"Only plans and code whose hashes stand in this policy may run: {listed[0]} plans, {listed[1]} kinds of code.",
        ])  # fmt: skip


def code_hash(function: Callable[..., Any]) -> str:
    """SHA-256 of the file that defines a function; without a file, of its compiled code.

    It tells one version of an app from another. It does not cover the packages that the app imports.

    >>> len(code_hash(code_hash))
    64
    """
    inner = inspect.unwrap(function)
    try:
        source = inspect.getsourcefile(inner)
        text = b"" if source is None else Path(source).read_bytes()
    except (TypeError, OSError):
        text = b""
    if not text:
        compiled = getattr(inner, "__code__", None)
        text = b"" if compiled is None else _compiled(compiled)
    return hashlib.sha256(text).hexdigest()


def _compiled(code: Any) -> bytes:
    parts = [code.co_code, repr(code.co_names).encode()]
    for constant in code.co_consts:
        parts.append(_compiled(constant) if hasattr(constant, "co_code") else repr(constant).encode())
    return b"\0".join(parts)


# --- the book --------------------------------------------------------------------------------------------------


def period_of(window: str | None, day: datetime.date) -> str | None:
    """The name of the period of a window that a day is in, as the ledger writes it.

    >>> day = datetime.date(2026, 11, 17)
    >>> [period_of(window, day) for window in ("day", "week", "month", "quarter", "year", None)]
    ['2026-11-17', '2026-W47', '2026-11', '2026-Q4', '2026', None]
    """
    year, week, _ = day.isocalendar()
    names = {
        "day": day.isoformat(), "week": f"{year}-W{week:02}", "month": f"{day:%Y-%m}",
        "quarter": f"{day.year}-Q{(day.month + 2) // 3}", "year": f"{day.year}",
    }  # fmt: skip
    return None if window is None else names[window]


@lru_cache(maxsize=64)
def _fits(plan: FederatedPlan, budget: str) -> bool:
    guarantee = Budget.of(budget).guarantee
    if guarantee.currency not in ("approximate", "pure"):
        raise ParameterError("a book in memory compares epsilon and delta; give such a budget, or a file")
    amounts = guarantee.floats
    delta = amounts.delta or 0.0
    found = account(plan.client_event, plan.client_event.stated).epsilon(delta).upper
    return found <= float(amounts.epsilon or 0.0) * (1 + 1e-9)


class ClientBook:
    """One client's own record: the budget of the policy, and in which rounds of which runs it took part.

    A run is paid for as a whole when the client first takes part in it; after that the book counts. With `path`
    None the book is in memory and forgets with the process: for simulated clients only.

    Guarantee
        Statement: whatever servers ask, this client's part in all runs together costs at most the policy's budget in
        each window, and in each run at most what the run's plan says.
        Conditions: the file is the only one of this client. Runs are told apart by their plan and the name the server
        gives them; a name that comes again meets the old count.
        Proved in: entries are made durable before training; each run's price covers `participations` rounds that are
        `separation` apart, and `enter` refuses more, nearer or repeated ones.
    """

    def __init__(self, path: str | Path | None, policy: Policy) -> None:
        self.policy = policy
        self.path = None if path is None else Path(path)
        self._rounds: dict[tuple[str, str], list[int]] = {}
        self._account: Account | None = None

    def enter(self, plan: FederatedPlan, *, run: str, turn: int, today: datetime.date | None = None) -> Payment:
        """Note that this client takes part in a round, or refuse. What is refused is not noted.

        The data is touched inside the open payment that comes back. Rounds must come in order: one that is older than
        the last is taken for a repetition.
        """
        key = (plan.fingerprint, run)
        if self.path is None:
            known = self._rounds.setdefault(key, [])
            self._allowed(plan, known, turn)
            if not known and not _fits(plan, self.policy.budget):
                raise FederatedError(code="federated-book-spent")
            known.append(turn)
            return self._payment(None, plan, None)
        with self._alone() as rounds:
            rows = rounds.execute("SELECT turn FROM tacit_rounds WHERE plan = ? AND run = ? ORDER BY turn", key).fetchall()
            known = [int(row[0]) for row in rows]
            self._allowed(plan, known, turn)
            period = period_of(self.policy.window, today or datetime.date.today())
            payment = self._payment(None if known else self.account, plan, period)
            rounds.execute("INSERT INTO tacit_rounds VALUES (?, ?, ?)", (*key, turn))
        return payment

    def _allowed(self, plan: FederatedPlan, known: list[int], turn: int) -> None:
        if known and turn <= known[-1]:
            raise FederatedError(code="federated-book-again")
        if len(known) >= plan.participations:
            raise FederatedError(code="federated-book-spent")
        if known and turn - known[-1] < plan.separation:
            raise FederatedError(code="federated-book-early", separation=plan.separation)

    def _payment(self, account: Account | None, plan: FederatedPlan, period: str | None) -> Payment:
        """An open payment: of the whole run with an account, of nothing for rounds of a run that is paid for."""
        event: Event = NoOp() if account is None else plan.client_event
        try:
            return paying(account, event, purpose=plan.name, delta=plan.delta, period=period).open()
        except BudgetExceeded:
            raise FederatedError(code="federated-book-spent") from None

    @property
    def account(self) -> Account:
        """The client's account in its file."""
        if self.path is None:
            raise ParameterError("a book in memory has no account; give it a file")
        if self._account is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            ledger = Ledger.open(f"sqlite:///{self.path}")
            budget = Budget.of(self.policy.budget)
            self._account = ledger.account(self.policy.name, budget, unit=self.policy.unit, window=self.policy.window)
        return self._account

    def rounds(self, plan: FederatedPlan, run: str) -> list[int]:
        """In which rounds of a run this client took part."""
        if self.path is None:
            return list(self._rounds.get((plan.fingerprint, run), []))
        with self._alone() as rounds:
            rows = rounds.execute(
                "SELECT turn FROM tacit_rounds WHERE plan = ? AND run = ? ORDER BY turn", (plan.fingerprint, run)
            )
            return [int(row[0]) for row in rows.fetchall()]

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """One entry at a time, whatever processes ask. The rounds lie in a file of their own beside the book.

        The book makes transactions of its own in its file. Its payment is durable before the round is: a crash in
        between leaves a run that is paid for and has no round yet, which is paid for again.
        """
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(f"{self.path}.rounds", timeout=60, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS tacit_rounds (plan TEXT, run TEXT, turn INTEGER, PRIMARY KEY (plan, run, turn))"
            )
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()


def as_yaml(policy: Policy) -> str:
    """The policy as the text of a file.

    >>> made = Policy("p", budget="eps=1, delta=1e-6", expires="2030-01-01", clip=1, noise=1)
    >>> import json
    >>> Policy.from_record(json.loads(canonical(made.to_record()))) == made and "clip: 1" in as_yaml(made)
    True
    """
    import yaml

    return str(yaml.safe_dump(policy.to_record(), sort_keys=False))
