"""People, their tokens and their sessions. There are no passwords.

A token is 256 random bits, shown once; the database keeps its SHA-256. It has one role, may be limited to some data sets and
to an epsilon a day, expires, and can be revoked. A session is a browser's cookie, kept in the same way; it ends after a while
without use, after a longer while in any case, and when someone signs out. A sign-in link works once, for ten minutes.

>>> import pathlib, tempfile
>>> register = Register(Database(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'service.db'}"))
>>> register.add("ann", roles=["analyst"], datasets=["visits"])
>>> token = register.issue("ann", role="analyst", label="notebook", days=30)
>>> token.text.startswith("tacit_"), register.by_token(token.text).roles
(True, ('analyst',))
>>> register.revoke_token(token.id), register.by_token(token.text)
(None, None)
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from tacit.exact import exact
from tacit.server.access import Caller, Role, sound_roles
from tacit.server.config import PersonSpec
from tacit.server.database import Database, links, new_id, people, records, sessions, tokens
from tacit.server.errors import ServiceError

#: A sign-in link lives so many seconds.
LINK = 600.0
#: The longest life of a token, in days.
LONGEST = 366
#: How many tokens one person may hold at a time.
MOST_TOKENS = 200
_DAY = 86400.0
_MINUTE = 60.0
_STILL = (
    sa.select(people.c.active, people.c.roles, people.c.datasets)
    .add_columns(tokens.c.id.label("token"), tokens.c.revoked)
    .join_from(people, tokens, tokens.c.id == sa.bindparam("token"), isouter=True)
    .where(people.c.id == sa.bindparam("person"))
)
_TOKENS = (
    sa.select(tokens, people.c.name, people.c.roles, people.c.datasets.label("granted"), people.c.active)
    .join(people, people.c.id == tokens.c.person)
)  # fmt: skip
_SESSIONS = (
    sa.select(sessions, people.c.name, people.c.roles, people.c.datasets, people.c.active)
    .join(people, people.c.id == sessions.c.person)
)  # fmt: skip
_BY_TOKEN = _TOKENS.where(tokens.c.hash == sa.bindparam("hash"))
_BY_SESSION = _SESSIONS.where(sessions.c.hash == sa.bindparam("hash"))
_TOKEN_AGAIN = _TOKENS.where(tokens.c.id == sa.bindparam("id"))
_SESSION_AGAIN = _SESSIONS.where(sessions.c.id == sa.bindparam("id"))


def digest(text: str) -> str:
    """What is kept of a secret of 256 random bits: a plain hash is enough, because it cannot be guessed."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Token:
    """A new token; `text` is shown this once."""

    id: str
    text: str
    expires: float


@dataclass(frozen=True)
class Person:
    """Someone who may sign in."""

    id: str
    name: str
    roles: tuple[Role, ...]
    datasets: tuple[str, ...] | None
    active: bool


class Register:
    """Who may sign in, and how. `clock` is for tests of expiry."""

    def __init__(
        self, database: Database, *, idle: float = 1800.0, total: float = 43200.0, clock: Callable[[], float] = time.time
    ) -> None:
        self.database, self.idle, self.total, self.clock = database, idle, total, clock

    # --- people -------------------------------------------------------------------------------------------------------

    def add(
        self, person: str, *, roles: Iterable[str], datasets: Iterable[str] | None = None, name: str = "",
        subject: str | None = None, new: bool = False,
    ) -> None:  # fmt: skip
        """Add someone, or change what they may do; with `new`, someone who is there already is refused."""
        values = {
            "name": name or person, "subject": subject, "roles": json.dumps(sound_roles(roles)), "active": True,
            "datasets": None if datasets is None else json.dumps(sorted(set(datasets))),
        }  # fmt: skip
        taken = False
        try:
            with self.database.write() as connection:
                changed = None if new else connection.execute(people.update().where(people.c.id == person).values(**values))
                if changed is None or not changed.rowcount:
                    connection.execute(people.insert().values(id=person, created=self.clock(), **values))
        except sa.exc.IntegrityError:
            taken = True  # their name, or what the identity provider calls them
        if taken:
            raise ServiceError(code="taken")

    def set(self, listed: Mapping[str, PersonSpec]) -> None:
        """The people of the service's file. Who was in it before and no longer is may not sign in from now on."""
        kind = "listed"
        with self.database.read() as connection:
            before = set(connection.execute(sa.select(records.c.id).where(records.c.kind == kind)).scalars())
        gone = before - set(listed)
        with self.database.write() as connection:
            if gone:
                connection.execute(people.update().where(people.c.id.in_(gone)).values(active=False, subject=None))
                connection.execute(records.delete().where(records.c.kind == kind, records.c.id.in_(gone)))
        for name, person in listed.items():
            # a process that starts has nothing to write as a rule, and need not wait for those that write
            if not self._is(name, person):
                self.add(name, roles=person.roles, datasets=person.datasets, name=person.name, subject=person.subject)
            if name not in before:
                with suppress(sa.exc.IntegrityError), self.database.write() as connection:
                    connection.execute(records.insert().values(kind=kind, id=name, person="", body="{}", made=self.clock()))

    def _is(self, name: str, person: PersonSpec) -> bool:
        with self.database.read() as connection:
            row = connection.execute(sa.select(people).where(people.c.id == name)).first()
        theirs = None if person.datasets is None else set(person.datasets)
        wanted = (person.name or name, person.subject, set(sound_roles(person.roles)), theirs)
        return row is not None and bool(row.active) and (row.name, row.subject, set(json.loads(row.roles)), _set(row.datasets)) == wanted

    def still(self, person: str, token: str, dataset: str) -> bool:
        """Whether someone who asked may still ask: they are here, the data set is theirs, and the token that asked was not revoked."""
        found = self.database.rows(_STILL, {"person": person, "token": token})
        if not found or not found[0]["active"] or "analyst" not in json.loads(found[0]["roles"]):
            return False
        granted = _set(found[0]["datasets"])
        if granted is not None and dataset not in granted:
            return False
        return not token or (found[0]["token"] is not None and found[0]["revoked"] is None)

    def all(self) -> list[Person]:
        """Everyone, by name."""
        with self.database.read() as connection:
            return [_person(row) for row in connection.execute(sa.select(people).order_by(people.c.id))]

    def find(self, person: str) -> Person | None:
        """Someone by their id."""
        with self.database.read() as connection:
            row = connection.execute(sa.select(people).where(people.c.id == person)).first()
        return None if row is None else _person(row)

    def by_subject(self, subject: str) -> Person | None:
        """Someone by what the identity provider calls them."""
        with self.database.read() as connection:
            row = connection.execute(sa.select(people).where(people.c.subject == subject)).first()
        return None if row is None else _person(row)

    # --- tokens -------------------------------------------------------------------------------------------------------

    def issue(
        self, person: str, *, role: str, label: str = "", days: float = 30, datasets: Iterable[str] | None = None,
        epsilon_a_day: Any = None,
    ) -> Token:  # fmt: skip
        """A new token for one of a person's roles."""
        found = self.find(person)
        if found is None or role not in found.roles:
            raise ServiceError(code="invalid", fields={"role": "must be one of your roles"})
        if not 0 < days <= LONGEST:
            raise ServiceError(code="invalid", fields={"days": f"must be above 0 and at most {LONGEST}"})
        chosen = None if datasets is None else sorted(set(datasets))
        if chosen is not None and found.datasets is not None and not set(chosen) <= set(found.datasets):
            raise ServiceError(code="invalid", fields={"datasets": "must be among your data sets"})
        daily = None if epsilon_a_day is None else exact("epsilon_a_day", epsilon_a_day)
        if daily is not None and daily <= 0:
            raise ServiceError(code="invalid", fields={"epsilon_a_day": "must be greater than 0"})
        text, number, now = f"tacit_{secrets.token_urlsafe(32)}", new_id(), self.clock()
        values = {
            "id": number, "hash": digest(text), "person": person, "label": label, "role": role, "created": now,
            "datasets": None if chosen is None else json.dumps(chosen), "expires": now + days * _DAY,
            "epsilon_a_day": None if daily is None else str(daily),
        }  # fmt: skip
        alive = (tokens.c.person == person) & tokens.c.revoked.is_(None) & (tokens.c.expires > now)
        with self.database.write() as connection:
            held = connection.execute(sa.select(sa.func.count()).select_from(tokens).where(alive)).scalar_one()
            if held < MOST_TOKENS:
                connection.execute(tokens.insert().values(**values))
        if held >= MOST_TOKENS:
            raise ServiceError(code="invalid", fields={"tokens": f"there are at most {MOST_TOKENS} at a time; revoke one that is not used"})
        return Token(number, text, now + days * _DAY)

    def by_token(self, text: str) -> Caller | None:
        """The caller that a token stands for; None for any that is unknown, expired, revoked, or of someone who left."""
        now = self.clock()
        with self.database.read() as connection:
            found = connection.execute(_BY_TOKEN, {"hash": digest(text)}).mappings().first()
        row = None if found is None else {**found}
        if row is None or not _token_holds(row, now):
            return None
        if _unseen(row["used"], now, _MINUTE):
            with self.database.write() as connection:
                connection.execute(tokens.update().where(tokens.c.id == row["id"]).values(used=now))
        return _by_token(row)

    def at_once(self, *, token: str = "", session: str = "") -> Caller | None:
        """The caller of a token, or of a session, where nothing has to be waited for or written; None means that it is not known yet.

        Then `by_token` or `by_session` decides.
        """
        now = self.clock()
        row = self.database.at_once(_BY_TOKEN if token else _BY_SESSION, {"hash": digest(token or session)})
        if row is None:
            return None
        if token:
            return None if _unseen(row["used"], now, _MINUTE) or not _token_holds(row, now) else _by_token(row)
        return None if _unseen(row["seen"], now, self._glance) or not self._session_holds(row, now) else _by_session(row)

    def again(self, caller: Caller) -> Caller | None:
        """A caller who has waited since they were let in, with the rights of now; None where token or session ended."""
        found = self.again_at_once(caller)
        if found is None:
            query, values = self._who(caller)
            with self.database.read() as connection:
                row = connection.execute(query, values).mappings().first()
            found = None if row is None else self._known(caller, {**row})
        return found

    def again_at_once(self, caller: Caller) -> Caller | None:
        """The same, where nothing has to be waited for; None means that `again` decides."""
        query, values = self._who(caller)
        row = self.database.at_once(query, values)
        return None if row is None else self._known(caller, row)

    def _who(self, caller: Caller) -> tuple[sa.Select[Any], dict[str, str]]:
        if caller.token:
            return _TOKEN_AGAIN, {"id": caller.token}
        return _SESSION_AGAIN, {"id": caller.session}

    def _known(self, caller: Caller, row: Mapping[str, Any]) -> Caller | None:
        now = self.clock()
        if caller.token:
            return _by_token(row) if _token_holds(row, now) else None
        return _by_session(row) if self._session_holds(row, now) else None

    @property
    def _glance(self) -> float:
        """How exactly it is known when a session was last used."""
        return min(_MINUTE, self.idle / 10)

    def _session_holds(self, row: Mapping[str, Any], now: float) -> bool:
        old = now - row["seen"] > self.idle or now - row["created"] > self.total
        return row["ended"] is None and bool(row["active"]) and not old

    def tokens_of(self, person: str) -> list[dict[str, Any]]:
        """A person's tokens, without their texts."""
        shown = (tokens.c.id, tokens.c.label, tokens.c.role, tokens.c.datasets, tokens.c.epsilon_a_day, tokens.c.created)
        query = sa.select(*shown, tokens.c.expires, tokens.c.revoked, tokens.c.used).where(tokens.c.person == person)
        with self.database.read() as connection:
            rows = connection.execute(query.order_by(tokens.c.created)).mappings().all()
        return [{**row, "datasets": None if row["datasets"] is None else json.loads(row["datasets"])} for row in rows]

    def owner_of_token(self, token: str) -> str | None:
        """Whose token it is."""
        with self.database.read() as connection:
            found: str | None = connection.execute(sa.select(tokens.c.person).where(tokens.c.id == token)).scalar()
        return found

    def revoke_token(self, token: str) -> None:
        """From now on the token is none."""
        with self.database.write() as connection:
            connection.execute(tokens.update().where(tokens.c.id == token, tokens.c.revoked.is_(None)).values(revoked=self.clock()))

    # --- sessions -----------------------------------------------------------------------------------------------------

    def link(self, person: str) -> str:
        """A secret for one sign-in within ten minutes."""
        text = secrets.token_urlsafe(32)
        with self.database.write() as connection:
            connection.execute(links.insert().values(hash=digest(text), person=person, expires=self.clock() + LINK, used=None))
        return text

    def follow(self, secret: str) -> str | None:
        """A new session's secret for a sign-in link that was not used; None for any other text, in the same time."""
        now = self.clock()
        fresh = sa.and_(links.c.hash == digest(secret), links.c.used.is_(None), links.c.expires > now)
        with self.database.write() as connection:
            # in one statement, so that of two who follow it at once one is signed in
            taken = connection.execute(links.update().where(fresh).values(used=now)).rowcount
            person = connection.execute(sa.select(links.c.person).where(links.c.hash == digest(secret))).scalar()
        return self.begin(str(person)) if taken else None

    def begin(self, person: str) -> str | None:
        """A new session of someone who may sign in; the number that the browser had before is never taken over."""
        found = self.find(person)
        if found is None or not found.active:
            return None
        text, now = secrets.token_urlsafe(32), self.clock()
        values = {"id": new_id(), "hash": digest(text), "person": person, "form_token": secrets.token_urlsafe(32)}
        with self.database.write() as connection:
            connection.execute(sessions.insert().values(**values, created=now, seen=now, ended=None))
        return text

    def by_session(self, text: str) -> Caller | None:
        """The caller of a browser's session that is neither ended nor too old."""
        now = self.clock()
        with self.database.read() as connection:
            found = connection.execute(_BY_SESSION, {"hash": digest(text)}).mappings().first()
        row = None if found is None else {**found}
        if row is None or not self._session_holds(row, now):
            return None
        if _unseen(row["seen"], now, self._glance):
            with self.database.write() as connection:
                connection.execute(sessions.update().where(sessions.c.id == row["id"]).values(seen=now))
        return _by_session(row)

    def sessions_of(self, person: str) -> list[dict[str, Any]]:
        """A person's sessions that are not ended."""
        query = sa.select(sessions.c.id, sessions.c.created, sessions.c.seen)
        live = sa.and_(sessions.c.person == person, sessions.c.ended.is_(None), sessions.c.created > self.clock() - self.total)
        with self.database.read() as connection:
            return [dict(row) for row in connection.execute(query.where(live).order_by(sessions.c.created)).mappings()]

    def owner_of_session(self, session: str) -> str | None:
        """Whose session it is."""
        with self.database.read() as connection:
            found: str | None = connection.execute(sa.select(sessions.c.person).where(sessions.c.id == session)).scalar()
        return found

    def end(self, session: str) -> None:
        """Sign out: the cookie is worth nothing from now on, wherever it is kept."""
        with self.database.write() as connection:
            connection.execute(sessions.update().where(sessions.c.id == session).values(ended=self.clock()))


def _unseen(last: float | None, now: float, seconds: float) -> bool:
    """Whether a use is to be noted: the last one is shown to a minute, so that reading does not write each time."""
    return last is None or now - last > seconds


def _token_holds(row: Mapping[str, Any], now: float) -> bool:
    return row["revoked"] is None and row["expires"] > now and bool(row["active"]) and row["role"] in json.loads(row["roles"])


def _by_token(row: Mapping[str, Any]) -> Caller:
    granted, chosen = _set(row["granted"]), _set(row["datasets"])
    seen = granted if chosen is None else chosen if granted is None else chosen & granted
    daily = None if row["epsilon_a_day"] is None else Fraction(row["epsilon_a_day"])
    return Caller(row["person"], row["name"], (row["role"],), seen, token=row["id"], epsilon_a_day=daily)


def _by_session(row: Mapping[str, Any]) -> Caller:
    roles = tuple(json.loads(row["roles"]))
    return Caller(row["person"], row["name"], roles, _set(row["datasets"]), session=row["id"], form_token=row["form_token"])


def _set(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))


def _person(row: Any) -> Person:
    granted = None if row.datasets is None else tuple(json.loads(row.datasets))
    return Person(row.id, row.name, tuple(json.loads(row.roles)), granted, bool(row.active))
