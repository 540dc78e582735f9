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
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from tacit.accounting import Event, NoOp, account
from tacit.errors import ParameterError
from tacit.federated.errors import FederatedError, needs_flower
from tacit.federated.plan import FederatedPlan, Trust
from tacit.federated.selection import CheckIns
from tacit.federated.unit import Kind
from tacit.ledger import WINDOWS, Account, Budget, BudgetExceeded, Ledger, Payment, canonical, paying
from tacit.parameters import count, positive, probability

ANY = "any"
ROUNDED = Fraction(1, 10**9)  # of a budget that people write in decimals


@dataclass(frozen=True)
class Policy:
    """What plans may do on a device. `workloads` are fingerprints of plans and `code` hashes of training code.

    `cohort` is the least number of honest clients whose sum may be opened, and `colluding` the share of clients that a
    plan must take to be on the server's side. `register` is the fingerprint of the register of identities, where keys of
    secure sums must be signed: then sums are safe from a server that breaks the protocol, too. ("any",) in `workloads` or `code` allows
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
    register: str | None = None
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
        if not set(self.trust) <= set(get_args(Trust)) or self.unit not in get_args(Kind):
            raise ParameterError(
                f"trust must be some of {', '.join(get_args(Trust))}, and unit one of {', '.join(get_args(Kind))}"
            )
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
        if self.register is None:  # policies from before there were registers keep their signatures
            del record["register"]
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
        if plan.trust != "silo" and not plan.noise_multiplier >= self.noise:
            raise FederatedError(code="federated-noise", given=plan.noise_multiplier, least=self.noise)
        if plan.participations > self.participations:
            raise FederatedError(
                code="federated-participations", given=plan.participations, most=self.participations
            )
        if plan.separation < self.separation:
            raise FederatedError(code="federated-separation", given=plan.separation, least=self.separation)
        if plan.colluding < self.colluding and plan.trust == "distributed":
            raise FederatedError(code="federated-collusion", given=plan.colluding, least=self.colluding)
        if plan.trust == "distributed" and plan.register != self.register:
            raise FederatedError(code="federated-register")
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
def _amounts(plan: FederatedPlan) -> tuple[Fraction, Fraction]:
    """What a run takes from a book in memory: epsilon at the plan's delta, and that delta."""
    event = plan.client_event
    return Fraction(account(event, event.stated).epsilon(plan.delta).upper), Fraction(plan.delta)


class ClientBook:
    """One client's own record: the budget of the policy, and in which rounds of which runs it took part.

    A run is paid for as a whole when the client first takes part in it; after that the book counts. With `path`
    None the book is in memory and forgets with the process: for simulated clients only.

    Guarantee
        Statement: whatever servers ask, this client's part in all runs together costs at most the policy's budget in
        each window, and in each run at most what the run's plan says.
        Conditions: the files are the only ones of this client, and are kept: a book that is lost beside its rounds, or
        older than they are, is refused, but where both are deleted or put back together the client forgets. Runs are told
        apart by their plan and the name the server gives them; a name that comes again meets the old count.
        Proved in: entries are made durable before training; each run's price covers `participations` rounds that are
        `separation` apart, and `enter` refuses more, nearer or repeated ones.
    """

    def __init__(self, path: str | Path | None, policy: Policy) -> None:
        self.policy = policy
        self.path = None if path is None else Path(path)
        self._rounds: dict[tuple[str, str], list[int]] = {}
        self._slots: dict[tuple[str, str, int], int] = {}
        self._paid: dict[str | None, list[tuple[Fraction, Fraction]]] = {}
        self._account: Account | None = None
        self._latest: datetime.date | None = None

    def day(self, today: datetime.date | None = None) -> datetime.date:
        """Today, or the latest day that this book has seen where that is later; a clock that was set back is refused.

        One day back is allowed, since people travel.
        """
        now = today or datetime.date.today()
        if self._latest is None:
            self._latest = now
            if self.path is not None and Path(f"{self.path}.rounds").exists():
                with self._alone() as rounds:
                    (seen,) = rounds.execute("SELECT max(day) FROM tacit_days").fetchone()
                self._latest = now if seen is None else datetime.date.fromisoformat(seen)
        if now < self._latest - datetime.timedelta(days=1):
            raise FederatedError(code="federated-clock", seen=self._latest.isoformat())
        self._latest = max(now, self._latest)
        return self._latest

    def enter(self, plan: FederatedPlan, *, run: str, turn: int, today: datetime.date | None = None) -> Payment:
        """Note that this client takes part in a round, or refuse. What is refused is not noted.

        The data is touched inside the open payment that comes back. Rounds must come in order: one that is older than
        the last is taken for a repetition.
        """
        key, day = (plan.fingerprint, run), self.day(today)
        period = period_of(self.policy.window, day)
        self.shows_up(plan, run=run, turn=turn)
        if self.path is None:
            known = self._rounds.setdefault(key, [])
            self._allowed(plan, known, turn)
            if not known:
                self._afford(plan, period)
            known.append(turn)
            return self._payment(None, plan, None)
        with self._alone() as rounds:
            rows = rounds.execute("SELECT turn FROM tacit_rounds WHERE plan = ? AND run = ? ORDER BY turn", key).fetchall()
            known = [int(row[0]) for row in rows]
            self._allowed(plan, known, turn)
            (last,) = rounds.execute("SELECT max(entry) FROM tacit_days").fetchone()
            if last is not None and not self.path.exists():
                raise FederatedError(code="federated-book-lost")
            payment = self._payment(None if known else self.account, plan, period)
            if payment.entry is not None and last is not None and payment.entry <= last:
                # Entries count upwards: this is not the file that the last run was paid from.
                raise FederatedError(code="federated-book-lost")
            rounds.execute("INSERT INTO tacit_rounds VALUES (?, ?, ?)", (*key, turn))
            rounds.execute("INSERT INTO tacit_days VALUES (?, ?)", (day.isoformat(), payment.entry))
        return payment

    def shows_up(self, plan: FederatedPlan, *, run: str, turn: int) -> None:
        """Refuse a round that is not the one this client drew for its block. The draw is durable, and made once."""
        rule, key = plan.selection, (plan.fingerprint, run)
        if not isinstance(rule, CheckIns):
            return
        block, place = rule.place(turn)
        if self.path is None:
            slot = self._slots.setdefault((*key, block), rule.slot())
        else:
            with self._alone() as rounds:
                where = (*key, block)
                rounds.execute("INSERT OR IGNORE INTO tacit_slots VALUES (?, ?, ?, ?)", (*where, rule.slot()))
                asked = "SELECT slot FROM tacit_slots WHERE plan = ? AND run = ? AND block = ?"
                (slot,) = rounds.execute(asked, where).fetchone()
        if slot != place:
            raise FederatedError(code="federated-book-slot")

    def _afford(self, plan: FederatedPlan, period: str | None) -> None:
        """Take a run's price from a book in memory, as the ledger does: epsilons and deltas add up."""
        guarantee = Budget.of(self.policy.budget).guarantee
        if guarantee.currency not in ("approximate", "pure"):
            raise ParameterError("a book in memory compares epsilon and delta; give such a budget, or a file")
        amounts, paid = guarantee.floats, [*self._paid.get(period, []), _amounts(plan)]
        limits = (amounts.epsilon or 0.0, amounts.delta or 0.0)
        if any(sum(column) > Fraction(limit) * (1 + ROUNDED) for column, limit in zip(zip(*paid, strict=True), limits, strict=True)):
            raise FederatedError(code="federated-book-spent")
        self._paid[period] = paid

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
            connection.execute("CREATE TABLE IF NOT EXISTS tacit_days (day TEXT, entry INTEGER)")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS tacit_slots (plan TEXT, run TEXT, block INTEGER, slot INTEGER, PRIMARY KEY (plan, run, block))"
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
