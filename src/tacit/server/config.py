"""`service.yaml`: which data sets a service offers, for which purposes, to whom, and within which limits.

A data set is a release job's file: its sources, unit, columns and budget. There is no default for a budget, a purpose or
a role. Secrets are not in the file: it names an environment variable, or a file that its owner alone may read.

>>> found = parse(EXAMPLE)
>>> found.listen.port, found.grid.seconds, found.purposes["bed-planning"].budget()
(8400, 0.25, Budget(epsilon=0.5))
>>> parse(EXAMPLE.replace("127.0.0.1", "0.0.0.0"))
Traceback (most recent call last):
tacit.server.errors.ConfigurationError: listen: beyond this machine the service needs tls (certificate and key), or proxy ...
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import stat
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from tacit.accounting import AccountingError
from tacit.errors import TacitError
from tacit.exact import exact
from tacit.ledger import Budget, LedgerError
from tacit.release import JobError, tree_of
from tacit.server.access import Role, sound_roles
from tacit.server.errors import ConfigurationError, ServiceError
from tacit.server.grid import Grid
from tacit.tables import KINDS

EXAMPLE = """
version: 1
listen: {host: 127.0.0.1, port: 8400}
grid: {step: 0.25 s}
datasets:
  visits: {job: visits.yaml}
purposes:
  bed-planning:
    datasets: [visits]
    who: planners of the regional hospitals
    statistics: counts and means by region and month
    why: decide how many beds each region needs next year
    epsilon: 0.5
    until: 2027-12-31
people:
  ann: {roles: [analyst], datasets: [visits]}
limits: {approve_above: {epsilon: 0.2}, price_per_minute: 120}
"""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
#: What a purpose may not consist of: words that rule nothing out.
VAGUE = frozenset({
    "a", "all", "analysis", "analytics", "and", "any", "anything", "business", "company", "data",
    "everything", "for", "general", "improve", "improvement", "in", "insight", "insights", "internal",
    "misc", "of", "or", "other", "our", "people", "purpose", "purposes", "reporting", "research",
    "several", "some", "staff", "statistics", "stuff", "tbd", "team", "test", "the", "things", "to",
    "us", "use", "users", "various", "we",
})  # fmt: skip
#: A purpose whose who, statistics or why has fewer telling words than this is vague.
TELLING = 2


def _seconds(value: object) -> object:
    """A stretch of time: 0.25 s, 30 s, 10 min, 12 h, 90 d."""
    units = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)", value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a time with its unit, such as 0.25 s, 10 min or 90 d")
    return float(match[1]) * units[match[2]]


Seconds = Annotated[float, BeforeValidator(_seconds)]
Number = int | float | str


class Block(BaseModel):
    """A block of the file: fields that are not known are refused, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}


class Tls(Block):
    """The certificate and its key, two PEM files."""

    certificate: str
    key: str


class Listen(Block):
    """Where to listen. Beyond this machine, `tls`, or `proxy`: the addresses of a proxy that ends TLS in front."""

    host: str = "127.0.0.1"
    port: int = Field(default=8400, ge=0, le=65535)
    tls: Tls | None = None
    proxy: tuple[str, ...] = ()
    #: The address that browsers know the service under, such as https://tacit.example.org
    origin: str | None = None

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def secure(self) -> bool:
        """Whether browsers reach the service through TLS."""
        return self.tls is not None or bool(self.proxy)

    @model_validator(mode="after")
    def _guarded(self) -> Listen:
        if not self.local and not self.secure:
            raise ValueError(
                "beyond this machine the service needs tls (certificate and key), or proxy (the addresses of one that ends TLS); "
                "or listen on 127.0.0.1"
            )
        if self.proxy and self.origin is None:
            raise ValueError("behind a proxy, origin must say under which address browsers know the service")
        if self.origin is not None and not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+", self.origin):
            raise ValueError("origin must be a scheme and a host, such as https://tacit.example.org")
        return self


class GridSpec(Block):
    """Answers leave on multiples of `step` times powers of two; `estimates` are public times for data sets that take longer."""

    step: Seconds = 0.25
    estimates: dict[str, Seconds] = {}

    @property
    def seconds(self) -> float:
        """The step in seconds."""
        return self.step

    def typed(self, key: bytes) -> Grid:
        """The grid, with the key of the service."""
        return Grid(self.step, key)


class SignIn(Block):
    """An OpenID Connect provider. The client's secret is in the environment variable or the file that is named here."""

    issuer: str
    client: str
    secret_env: str | None = None
    secret_file: str | None = None
    algorithms: tuple[Literal["RS256", "ES256", "PS256", "EdDSA"], ...] = ("RS256",)

    @field_validator("issuer")
    @classmethod
    def _https(cls, value: str) -> str:
        plain = value.startswith("http://") and re.match(r"http://(127\.0\.0\.1|localhost|\[::1\])[:/]", value + "/")
        if not value.startswith("https://") and not plain:
            raise ValueError("must be an https:// address")
        return value.rstrip("/")


class BeaconSpec(Block):
    """A beacon of a data set: a private table with a row for each variant that a person carries, and what an answer costs.

    `people` is a public bound on how many there are, `absence` the prior that a variant is in none of them. Positions of
    the table count from `first_position`: 1 as in VCF, or 0.
    """

    table: str
    purpose: str
    epsilon: Number
    people: int = Field(ge=1, le=1_000_000)
    absence: float = Field(default=0.5, gt=0, lt=1)
    chromosome: str = "chromosome"
    position: str = "position"
    reference: str = "reference"
    alternate: str = "alternate"
    first_position: Literal[0, 1] = 1
    assembly: str = ""
    id: str = "org.example.tacit.beacon"
    name: str = "A private beacon"
    organisation: str = "The curator"
    environment: Literal["prod", "test", "dev", "staging"] = "test"


class DatasetSpec(Block):
    """A data set: the file of a release job, whose sources, unit, columns and budget it has; with `beacon`, Beacon v2 routes."""

    job: str
    title: str = ""
    beacon: BeaconSpec | None = None


class VaguePurpose(TacitError, ValueError):
    """A purpose whose words rule nothing out."""


class Flow(Block):
    """An information flow, after contextual integrity: whose data, who sends, who receives, of what type, on which principle."""

    subject: str
    sender: str
    recipient: str
    type: str
    principle: str


class PurposeSpec(Block):
    """What questions are for: who uses which statistics and why; what it may use; its own budget; when it ends."""

    datasets: tuple[str, ...] = Field(min_length=1)
    who: str
    statistics: str
    why: str
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    mu: Number | None = None
    columns: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    flow: Flow | None = None
    basis: str = ""
    until: datetime.date
    #: False takes it that the analysts of this purpose do not pool answers; the report says so.
    collusion: bool = True

    @model_validator(mode="after")
    def _sound(self) -> PurposeSpec:
        for name in ("who", "statistics", "why"):
            telling = {word for word in re.findall(r"[^\W\d_]{2,}", getattr(self, name).casefold()) if word not in VAGUE}
            if len(telling) < TELLING or len(getattr(self, name)) > 2000:
                words = f"{name} is vague; say in words that rule something out who uses which statistics, and why"
                raise VaguePurpose(words)
        unknown = sorted(set(self.kinds or ()) - set(KINDS))
        if unknown:
            raise ValueError(f"kinds must be among {', '.join(KINDS)}")
        if sum(value is not None for value in (self.epsilon, self.rho, self.mu)) != 1:
            raise ValueError("a purpose has a budget of its own, epsilon, rho or mu; there is no default, because it is a decision")
        self.budget()
        return self

    def budget(self, whole: Budget | None = None) -> Budget:
        """The purpose's budget; without a delta of its own, its part of the data set's in proportion to epsilon."""
        if self.rho is not None:
            return Budget(rho=self.rho)
        if self.mu is not None:
            return Budget(mu=self.mu)
        epsilon = exact("epsilon", self.epsilon)
        delta = exact("delta", self.delta) if self.delta is not None else None
        if delta is None:
            limits = {} if whole is None else whole.limits
            share = min(Fraction(1), epsilon / limits["epsilon"]) if limits.get("epsilon") else Fraction(0)
            delta = limits.get("delta", Fraction(0)) * share
        return Budget(epsilon=epsilon, delta=delta) if delta else Budget(epsilon=epsilon)


class PersonSpec(Block):
    """Someone who may sign in; `subject` is what the identity provider calls them. Without `datasets`: all, for those who do not ask."""

    roles: tuple[Role, ...]
    datasets: tuple[str, ...] | None = None
    subject: str | None = None
    name: str = ""

    @model_validator(mode="after")
    def _sound(self) -> PersonSpec:
        try:
            sound_roles(self.roles)
        except ServiceError as error:
            raise ValueError(error.fields["roles"]) from None
        if "analyst" in self.roles and self.datasets is None:
            raise ValueError("datasets must say what an analyst may ask about")
        return self


class Threshold(Block):
    """A price."""

    epsilon: Number


class Limits(Block):
    """What one caller may do in a minute, and how much at once."""

    approve_above: Threshold | None = None
    price_per_minute: int = Field(default=120, ge=1)
    questions_per_minute: int = Field(default=120, ge=1)
    dummy_per_minute: int = Field(default=30, ge=1)
    sign_in_per_minute: int = Field(default=10, ge=1)
    other_per_minute: int = Field(default=1200, ge=1)
    waiting: int = Field(default=256, ge=1)
    waiting_each: int = Field(default=64, ge=1)
    body_bytes: int = Field(default=1_000_000, ge=1000)
    body_depth: int = Field(default=20, ge=4)
    body_seconds: Seconds = 10.0
    lease: Seconds = 60.0
    session_idle: Seconds = 1800.0
    session_total: Seconds = 43200.0


class SubjectsSpec(Block):
    """Where the identifiers of people who withdrew are kept: a database of the curator's own, never the book's."""

    database: str | None = None


class Configuration(Block):
    """The whole file. `base` is the folder that its paths start from."""

    version: Literal[1]
    listen: Listen = Listen()
    database: str | None = None
    grid: GridSpec = GridSpec()
    sign_in: SignIn | None = None
    datasets: dict[str, DatasetSpec] = Field(min_length=1)
    purposes: dict[str, PurposeSpec] = {}
    people: dict[str, PersonSpec] = {}
    limits: Limits = Limits()
    subjects: SubjectsSpec = SubjectsSpec()
    production: bool = False
    #: Traces and counts of requests through OpenTelemetry (extra `telemetry`); routes and statuses, no values.
    telemetry: bool = False
    base: Path = Field(default=Path("."), exclude=True)

    @model_validator(mode="after")
    def _consistent(self) -> Configuration:
        for kind, named in (("datasets", self.datasets), ("purposes", self.purposes), ("people", self.people)):
            for name in named:
                if not NAME.fullmatch(name):
                    raise ValueError(f"{kind}: names are small letters, digits, - and _, at most 63")
        for place, parts in (("purposes", self.purposes), ("people", self.people)):
            for name, spec in parts.items():
                unknown = sorted(set(spec.datasets or ()) - set(self.datasets))
                if unknown:
                    raise ValueError(f"{place}.{name}.datasets names no data set; there are {', '.join(self.datasets)}")
        for name, dataset in self.datasets.items():
            purpose = None if dataset.beacon is None else self.purposes.get(dataset.beacon.purpose)
            if dataset.beacon is not None and (purpose is None or name not in purpose.datasets):
                raise ValueError(f"datasets.{name}.beacon.purpose names no purpose of this data set")
        if self.production and self.sign_in is None and not self.people:
            raise ValueError("production: nobody could sign in; add sign_in, or people")
        return self

    @property
    def url(self) -> str:
        """The database of the book and the service."""
        return self.database or f"sqlite:///{(self.base / 'tacit-service.db').resolve()}"

    @property
    def origin(self) -> str:
        """The address that browsers know."""
        if self.listen.origin is not None:
            return self.listen.origin
        host = f"[{self.listen.host}]" if ":" in self.listen.host else self.listen.host
        return f"{'https' if self.listen.tls else 'http'}://{host}:{self.listen.port}"


def parse(text: str, base: Path | str = ".") -> Configuration:
    """A configuration from YAML text; every fault names its place."""
    fault = ""
    try:
        tree = tree_of(text)
        if "base" in tree:
            raise ConfigurationError("base: there is no such field")
        return Configuration.model_validate({**tree, "base": Path(base)})
    except JobError as error:
        fault = f"{error.place}: {error.message}" if error.place else error.message
    except ValidationError as error:
        fault = _explained(error)
    except (LedgerError, AccountingError) as error:
        fault = error.message
    raise ConfigurationError(fault)


def _explained(error: ValidationError) -> str:
    """The first fault, with its place, without what was written there: an address may hold a password."""
    faults = error.errors(include_url=False, include_input=False)
    first: Any = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    place = ".".join(str(part) for part in first["loc"])
    kind = {"extra_forbidden": "there is no such field", "missing": "is missing"}.get(first["type"])
    words = kind or str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {words}" if place else words


def load(path: str | Path) -> Configuration:
    """Read and check the service's file."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ConfigurationError(f"{path}: the file cannot be read; check the path") from None
    try:
        return parse(text, file.resolve().parent)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error.message}") from None


def secret(base: Path, *, env: str | None, file: str | None) -> str | None:
    """A secret from the environment, or from a file that its owner alone can read."""
    if env is not None:
        found = os.environ.get(env)
        if not found:
            raise ConfigurationError(f"sign_in.secret_env: the environment has no {env}")
        return found
    if file is None:
        return None
    place = base / file
    try:
        mode = stat.S_IMODE(place.stat().st_mode)
        if mode & 0o077:
            raise ConfigurationError(f"{file}: others can read this secret (mode {mode:o}); run: chmod 600 {file}")
        return place.read_text(encoding="utf-8").strip()
    except OSError:
        raise ConfigurationError(f"{file}: the secret cannot be read; check the path") from None
