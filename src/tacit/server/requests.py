"""What a caller may send, field by field. Types are strict, unknown fields are refused, and lengths are bounded.

>>> Ask.model_validate({"dataset": "visits", "purpose": "beds", "sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.1"}).options()
{'epsilon': '0.1'}
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tacit.ledger import canonical
from tacit.tables import value_of

Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9_-]*$")]
Column = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
#: An exact number: 0.1, "0.1", "1/3" or "1e-6".
Number = Annotated[str, StringConstraints(min_length=1, max_length=60)] | int | float
#: A value of a key; a date is {"date": "2026-01-31"}.
Value = str | bool | int | float | None | dict[Literal["date", "timestamp", "decimal"], str]


class Request(BaseModel):
    """A body: fields that are not known are refused, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Statement(Request):
    """A question about a data set. One of `epsilon`, `rho`, `mu` or `accuracy` says what it may cost."""

    dataset: Name
    purpose: Name
    sql: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    mu: Number | None = None
    accuracy: dict[Column, Number] | None = Field(default=None, max_length=100)
    bounds: dict[Column, Annotated[list[Number], Field(min_length=2, max_length=2)]] | None = Field(default=None, max_length=200)
    keys: dict[Column, Annotated[list[Value], Field(max_length=10_000)] | None] | None = Field(default=None, max_length=50)
    weights: dict[Column, Number] | None = Field(default=None, max_length=100)
    law: Literal["laplace", "gaussian"] | None = None
    loss: bool | None = None
    period: Annotated[str, StringConstraints(max_length=12)] | None = None

    def options(self) -> dict[str, Any]:
        """What `Session.sql` takes beside the text."""
        found: dict[str, Any] = {
            name: value for name in ("epsilon", "delta", "rho", "mu", "accuracy", "weights", "law", "loss", "period")
            if (value := getattr(self, name)) is not None
        }  # fmt: skip
        if self.bounds is not None:
            found["bounds"] = {name: (ends[0], ends[1]) for name, ends in self.bounds.items()}
        if self.keys is not None:
            found["keys"] = {
                name: None if values is None else [value_of(value) for value in values] for name, values in self.keys.items()
            }
        return found


class Ask(Statement):
    """A question to be answered, and paid for."""

    def body(self) -> str:
        """One text for the same request, however its JSON is laid out."""
        return canonical(self.model_dump(mode="json", exclude_none=True))


class PriceRequest(Statement):
    """A question to be priced. `epsilons`, `rhos`, `mus` or `accuracies` ask for a curve: one price for each of them."""

    rows: Annotated[int, Field(ge=1, le=10**12)] = 1000
    epsilons: Annotated[list[Number], Field(min_length=1, max_length=100)] | None = None
    rhos: Annotated[list[Number], Field(min_length=1, max_length=100)] | None = None
    mus: Annotated[list[Number], Field(min_length=1, max_length=100)] | None = None
    accuracies: Annotated[list[dict[Column, Number]], Field(min_length=1, max_length=100)] | None = None

    @model_validator(mode="after")
    def _one(self) -> PriceRequest:
        names = ("epsilon", "rho", "mu", "accuracy", "epsilons", "rhos", "mus", "accuracies")
        if sum(getattr(self, name) is not None for name in names) > 1:
            raise ValueError(f"give one of {', '.join(names)}")
        return self

    def curve(self) -> list[dict[str, Any]] | None:
        """The options of each price of a curve; None where one price is asked for."""
        for name, one in (("epsilons", "epsilon"), ("rhos", "rho"), ("mus", "mu"), ("accuracies", "accuracy")):
            if (wanted := getattr(self, name)) is not None:
                return [{**self.options(), one: value} for value in wanted]
        return None


class Decide(Request):
    """The officer's word about a question that waits."""

    decision: Literal["approve", "decline"]
    reason: Sentence


class FlowRequest(Request):
    """An information flow: whose data, who sends, who receives, of what type, on which principle."""

    subject: Sentence
    sender: Sentence
    recipient: Sentence
    type: Sentence
    principle: Sentence


class NewPurpose(Request):
    """A purpose, as in the service's file."""

    id: Name
    datasets: Annotated[list[Name], Field(min_length=1, max_length=50)]
    who: Sentence
    statistics: Sentence
    why: Sentence
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    mu: Number | None = None
    columns: Annotated[list[Column], Field(max_length=500)] | None = None
    kinds: Annotated[list[Column], Field(max_length=20)] | None = None
    flow: FlowRequest | None = None
    basis: Annotated[str, StringConstraints(max_length=2000)] = ""
    until: Annotated[datetime.date, Field(strict=False)]
    collusion: bool = True


class NewDecision(Request):
    """Who set an epsilon, why, which alternatives there were, and who reviewed it."""

    subject: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    epsilon: Number
    rationale: Sentence
    alternatives: Annotated[list[Sentence], Field(min_length=1, max_length=20)]
    reviewers: Annotated[list[Column], Field(max_length=20)] = []


class NewPerson(Request):
    """Someone who may sign in."""

    id: Name
    roles: Annotated[list[Literal["analyst", "curator", "officer"]], Field(min_length=1, max_length=3)]
    datasets: Annotated[list[Name], Field(max_length=200)] | None = None
    name: Annotated[str, StringConstraints(max_length=200)] = ""
    subject: Annotated[str, StringConstraints(max_length=500)] | None = None


class NewToken(Request):
    """A token for one of the caller's roles."""

    role: Literal["analyst", "curator", "officer"]
    label: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    days: Annotated[int, Field(ge=1, le=366)] = 30
    datasets: Annotated[list[Name], Field(max_length=200)] | None = None
    epsilon_a_day: Number | None = None


class PlanRelease(Request):
    """A release of a data set's own job."""

    dataset: Name


class RunRelease(Request):
    """A planned release, to be paid for and published. `accept` publishes one that was held back because its totals do not add up."""

    accept: bool = False


class SubjectRequest(Request):
    """What a person demands about their own rows. `purposes` is for withdrawing consent from some of them."""

    dataset: Name
    person: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    purposes: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None


class VerifyRequest(Request):
    """A head that was remembered elsewhere."""

    head: Annotated[str, StringConstraints(max_length=100, pattern=r"^[0-9]+:[0-9a-f]{64}$")] | None = None


class NewModel(Request):
    """A training on a data set: what chapter 13 asks before it, what it cost, and what attacks on it found."""

    dataset: Name
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    unit: Sentence
    complexity: Sentence
    attack_model: Sentence
    environment: Sentence
    data_window: Sentence
    accuracy_needed: Sentence
    run: Annotated[str, StringConstraints(max_length=200)] = ""
    attacks: Annotated[list[Literal["leak found", "none found"]], Field(max_length=50)] = []
