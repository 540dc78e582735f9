"""Who may do what: one table, read by every door. What it does not allow is denied, and looks as if it were not there.

Each action is the name of a route of the API (its `operationId`) and of a method of the service. A role is allowed an
action on its `own` objects (those it made, or data sets it was given), on `any`, or not at all. Roles do not inherit: a
curator may not ask, and an officer neither, because who grants a budget must not spend it.

>>> allowed("officer", "ask") is None, allowed("analyst", "ask"), allowed("officer", "approve")
(True, 'own', 'any')
>>> allowed("analyst", "no such action") is None
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from tacit.server.errors import ServiceError, not_found

Role = Literal["analyst", "curator", "officer"]
Scope = Literal["own", "any"]
ROLES: tuple[Role, ...] = ("analyst", "curator", "officer")
#: One person cannot have both: the officer approves what the analyst asks.
APART: tuple[frozenset[str], ...] = (frozenset({"analyst", "officer"}),)

_ALL: Mapping[str, Scope] = {"analyst": "own", "curator": "any", "officer": "any"}
_DESK: Mapping[str, Scope] = {"analyst": "own", "curator": "any"}

#: action -> role -> scope. Everything that is not here is denied.
TABLE: Mapping[str, Mapping[str, Scope]] = {
    "me": {"analyst": "own", "curator": "own", "officer": "own"},
    # data sets
    "list_datasets": _ALL,
    "read_dataset": _ALL,
    "dummy_rows": _ALL,
    # questions
    "price": _DESK,
    "explain": _DESK,
    "ask": {"analyst": "own"},
    "list_questions": {"analyst": "own", "officer": "any"},
    "read_question": {"analyst": "own", "officer": "any"},
    "watch_question": {"analyst": "own", "officer": "any"},
    "share_question": {"analyst": "own"},
    "read_shared": _ALL,
    "approve": {"officer": "any"},
    "list_approvals": {"officer": "any"},
    # beacons: what they are, and their answers, which cost like questions
    "read_beacon": _ALL,
    "read_beacon_document": _ALL,
    "ask_beacon": {"analyst": "own"},
    "post_beacon": {"analyst": "own"},
    # budgets
    "list_accounts": _ALL,
    "read_account": _ALL,
    # releases
    "plan_release": {"curator": "any"},
    "run_release": {"curator": "any"},
    "list_releases": _ALL,
    "read_release": _ALL,
    "read_release_file": _ALL,
    "registry_records": _ALL,
    # the book
    "book_entries": {"curator": "any", "officer": "any"},
    "book_head": {"curator": "any", "officer": "any"},
    "book_export": {"officer": "any"},
    "book_verify": {"curator": "any", "officer": "any"},
    # purposes and decisions
    "list_purposes": _ALL,
    "make_purpose": {"curator": "any"},
    "list_decisions": {"curator": "any", "officer": "any"},
    "make_decision": {"officer": "any"},
    # people
    "list_people": {"curator": "any", "officer": "any"},
    "make_person": {"curator": "any"},
    "list_tokens": {"analyst": "own", "curator": "own", "officer": "own"},
    "make_token": {"analyst": "own", "curator": "own", "officer": "own"},
    "revoke_token": {"analyst": "own", "curator": "any", "officer": "any"},
    "list_sessions": {"analyst": "own", "curator": "own", "officer": "own"},
    "revoke_session": {"analyst": "own", "curator": "any", "officer": "any"},
    # data subjects
    "subject_access": {"officer": "any"},
    "subject_withdraw": {"officer": "any"},
    "subject_object": {"officer": "any"},
    "subject_erase": {"officer": "any"},
    "subject_restore": {"officer": "any"},
    # trainings
    "list_models": {"curator": "any", "officer": "any"},
    "make_model": {"curator": "any"},
}
#: What needs no sign-in at all; it tells nothing about data or people.
PUBLIC = frozenset({"health", "ready"})


def allowed(role: str, action: str) -> Scope | None:
    """How far a role may go: "own", "any", or None."""
    return TABLE.get(action, {}).get(role)


@dataclass(frozen=True)
class Caller:
    """Who is calling: a person in the roles that this sign-in or token has, and what the token limits it to.

    `datasets` is None for all data sets. `token` is the number of the token, and empty for a browser's session.
    """

    person: str
    name: str
    roles: tuple[Role, ...]
    datasets: frozenset[str] | None = frozenset()
    token: str = ""
    session: str = ""
    epsilon_a_day: Fraction | None = None
    form_token: str = field(default="", repr=False)

    def scope(self, action: str) -> Scope | None:
        """The widest scope that one of the roles has."""
        found = {allowed(role, action) for role in self.roles}
        return "any" if "any" in found else "own" if "own" in found else None

    def may_see(self, dataset: str) -> bool:
        """Whether this data set exists for the caller."""
        return self.datasets is None or dataset in self.datasets


def check(caller: Caller, action: str, *, owner: str | None = None, datasets: Iterable[str] = ()) -> Scope:
    """The caller's scope for an action on an object, or a `not-found` like that of an object that does not exist.

    `owner` is the person that the object belongs to, `datasets` are those that it is about.
    """
    scope = caller.scope(action)
    if scope is None or (scope == "own" and owner is not None and owner != caller.person):
        raise not_found()
    # a token that is limited to some data sets is limited to them in every role
    if any(not caller.may_see(name) for name in datasets):
        raise not_found()
    return scope


def sound_roles(roles: Iterable[str]) -> tuple[Role, ...]:
    """Roles that one person may have together.

    >>> sound_roles(["curator", "analyst"])
    ('analyst', 'curator')
    """
    given = set(roles)
    unknown = sorted(given - set(ROLES))
    if unknown or not given:
        raise ServiceError(code="invalid", fields={"roles": f"must be among {', '.join(ROLES)}"})
    if any(pair <= given for pair in APART):
        raise ServiceError(code="invalid", fields={"roles": "one person cannot be analyst and officer"})
    return tuple(role for role in ROLES if role in given)
