"""The policy of a release: who decided how much privacy, why, for whom, against which harms. Words for people, kept with the figures.

A job may have a `policy` block. Nothing is computed from it except that the job's budget must stay within the
policy's `maximum`. It is printed in the report and in the officer's page, where what was left out says so: it is
evidence for a decision, not compliance.

>>> policy = Policy.model_validate({"set_by": "the board", "maximum": "eps=2", "why": "agreed in March", "review": "2027-01-31"})
>>> policy.exceeded_by(Guarantee(epsilon=1)), policy.exceeded_by(Guarantee(epsilon=3))
(False, True)
>>> described_policy(policy)["flow"]["recipient"]
'not stated'
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tacit.accounting import Guarantee, ParameterError

#: The fair information principles, as a checklist.
PRINCIPLES = (
    "collection_limitation", "data_quality", "purpose_specification", "use_limitation", "security_safeguards",
    "openness", "individual_participation", "accountability",
)  # fmt: skip
#: The five elements of an information flow (Nissenbaum 2010).
ELEMENTS = ("sender", "recipient", "subject", "information_type", "transmission_principle")
MISSING = "not stated"
CAVEAT = "Evidence for a decision, not compliance: nothing here was checked by a computation, but that the budget is within the maximum."


class Harms(BaseModel):
    """Which harms the guarantee addresses, and which it does not."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    addressed: tuple[str, ...] = ()
    not_addressed: tuple[str, ...] = ()

    @field_validator("addressed", "not_addressed", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class Policy(BaseModel):
    """Who set epsilon, its maximum, why and until when; harms; fair information; the flow; the role of each data set."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    set_by: str = Field(min_length=1)
    maximum: str = Field(min_length=1)
    why: str = Field(min_length=1)
    review: datetime.date
    harms: Harms = Harms()
    fair_information: dict[str, str] = Field(default_factory=dict)
    flow: dict[str, str] = Field(default_factory=dict)
    datasets: dict[str, str] = Field(default_factory=dict)

    @field_validator("review", mode="before")
    @classmethod
    def _day(cls, value: object) -> object:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else value

    @field_validator("maximum")
    @classmethod
    def _guarantee(cls, value: str) -> str:
        try:
            Guarantee.of(value)
        except ParameterError as error:
            raise ValueError(f"must be a guarantee such as 'eps=2, delta=1e-6': {error}") from None
        return value

    @field_validator("fair_information")
    @classmethod
    def _principles(cls, value: dict[str, str]) -> dict[str, str]:
        return _known(value, PRINCIPLES)

    @field_validator("flow")
    @classmethod
    def _elements(cls, value: dict[str, str]) -> dict[str, str]:
        return _known(value, ELEMENTS)

    def exceeded_by(self, budget: Guarantee) -> bool:
        """Whether a budget is more than the maximum, in any of its parts; one in another currency cannot be compared, and is."""
        most = Guarantee.of(self.maximum)
        names = ("epsilon", "delta", "rho", "mu")
        pairs = [(getattr(budget, name), getattr(most, name)) for name in names]
        return any(asked is not None and (allowed is None or asked > allowed) for asked, allowed in pairs)


def _known(value: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    unknown = [name for name in value if name not in names]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(names)}")
    return value


def described_policy(policy: Policy) -> dict[str, Any]:
    """The policy for a report; what was left out says so."""

    def filled(names: tuple[str, ...], given: Mapping[str, str]) -> dict[str, str]:
        return {name.replace("_", " "): given.get(name) or MISSING for name in names}

    return {
        "decision": {
            "set by": policy.set_by, "maximum": policy.maximum, "why": policy.why, "to be reviewed": policy.review.isoformat(),
        },
        "harms addressed": list(policy.harms.addressed) or [MISSING],
        "harms not addressed": list(policy.harms.not_addressed) or [MISSING],
        "fair information": filled(PRINCIPLES, policy.fair_information),
        "flow": filled(ELEMENTS, policy.flow),
        "data sets": dict(policy.datasets) or {"all": MISSING},
        "caveat": CAVEAT,
    }  # fmt: skip
