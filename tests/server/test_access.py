"""Every route, for every role, on one's own, another's and an unknown object, against the one table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.house import ASK, House

from tacit.server import people as of_people
from tacit.server.access import PUBLIC, ROLES, TABLE, allowed, sound_roles
from tacit.server.errors import ServiceError

PEOPLE = {"analyst": "ann", "curator": "cleo", "officer": "olga"}
UNKNOWN = "0" * 32


def routes(house: House) -> Iterator[tuple[str, str, str]]:
    """Method, path and name of every route of the API."""
    for path, methods in house.client.app.openapi()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation["operationId"]


def test_the_table_and_the_routes_name_the_same_actions(house: House) -> None:
    named = {operation for _, _, operation in routes(house)}
    # a beacon's routes are mounted where a data set has one: tests/server/test_beacons.py
    beacons = {"read_beacon", "read_beacon_document", "ask_beacon", "post_beacon"}
    assert named | beacons == set(TABLE) | PUBLIC and not named & beacons


def test_roles_do_not_inherit() -> None:
    assert allowed("officer", "ask") is None and allowed("curator", "ask") is None
    assert allowed("analyst", "approve") is None and allowed("curator", "approve") is None
    assert allowed("analyst", "book_entries") is None and allowed("nobody", "me") is None
    with pytest.raises(ServiceError):
        sound_roles(["analyst", "officer"])
    with pytest.raises(ServiceError):
        sound_roles(["root"])


class Objects:
    """An object of each kind that belongs to ann, one that belongs to ben, and the bodies that the routes take."""

    def __init__(self, house: House) -> None:
        self.house = house
        mine, other = house.ask("ann", "key-of-the-table"), house.ask("ben", "key-of-the-table")
        release = house.send("cleo", "POST", "/v1/releases", {"dataset": "visits"}).json()["id"]
        register = house.service.register
        accounts = {person: house.send(person, "GET", "/v1/accounts").json()[0]["id"] for person in ("ann", "ben")}
        tokens = {person: [register.issue(person, role="analyst").id for _ in range(9)] for person in ("ann", "ben")}
        browsers = {person: house.browser(person) for person in ("ann", "ben")}
        assert browsers
        sessions = {person: register.sessions_of(person)[0]["id"] for person in ("ann", "ben")}
        self.own = {"question": mine.json()["id"], "account": accounts["ann"], "token": tokens["ann"], "session": sessions["ann"]}
        self.others = {"question": other.json()["id"], "account": accounts["ben"], "token": tokens["ben"], "session": sessions["ben"]}
        share = house.send("ann", "POST", f"/v1/questions/{mine.json()['id']}/share").json()["share"]
        self.shared = {"dataset": "visits", "release": release, "file": "release.json", "share": share}
        person = {"dataset": "visits", "person": "17"}
        self.bodies: dict[str, Any] = {
            "price": ASK, "explain": ASK, "ask": ASK, "approve": {"decision": "approve", "reason": "yes"},
            "plan_release": {"dataset": "visits"}, "book_verify": {}, "subject_access": person, "subject_withdraw": person,
            "subject_object": person, "subject_erase": person, "subject_restore": person,
            "make_purpose": {
                "id": "p", "datasets": ["visits"], "who": "planners of hospital wards", "statistics": "counts by region",
                "why": "to plan wards well", "epsilon": 1, "until": "2030-01-01",
            },
            "make_decision": {"subject": "visits", "epsilon": 1, "rationale": "enough", "alternatives": ["half of it"]},
            "make_person": {"id": "zoe", "roles": ["analyst"], "datasets": ["visits"]}, "make_token": {"role": "analyst"},
            "make_model": {
                "dataset": "visits", "name": "m", "unit": "patient", "complexity": "linear", "attack_model": "black box",
                "environment": "one server", "data_window": "2025", "accuracy_needed": "within 5",
            },
        }  # fmt: skip

    def path(self, template: str, whose: str) -> str:
        found = template
        known = {**({"own": self.own, "other": self.others}.get(whose, {})), **({} if whose == "unknown" else self.shared)}
        for name in ("dataset", "question", "account", "token", "session", "release", "file", "share"):
            if f"{{{name}}}" not in template:
                continue
            value = known.get(name, UNKNOWN)
            if isinstance(value, list):
                value = value.pop()
            found = found.replace(f"{{{name}}}", value)
        return found


#: Routes whose object is everyone's who may see the data set.
SHARED = {"read_shared", "read_dataset", "dummy_rows", "read_release", "run_release", "read_release_file"}


def test_every_route_for_every_role_on_every_kind_of_object(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    # a release that is run stays unpublished while the table is checked, however fast the machine is
    monkeypatch.setattr(own_house.service.releases, "_published", lambda *about: None)
    objects = Objects(own_house)
    checked = 0
    for method, template, action in routes(own_house):
        if action in PUBLIC or action == "watch_question":
            continue
        for whose in ("own", "other", "unknown") if "{" in template else ("own",):
            path = objects.path(template, whose)
            nobody = own_house.send(None, method, path, objects.bodies.get(action))
            assert nobody.status_code == 401, (action, whose)
            for role in ROLES:
                where = objects.path(template, whose) if "{token}" in template else path
                body = {"role": role} if action == "make_token" else objects.bodies.get(action)
                found = own_house.send(PEOPLE[role], method, where, body, idempotency_key=f"a-key-for-{role}")
                scope = allowed(role, action)
                hidden = scope is None or whose == "unknown" or (scope == "own" and whose == "other" and action not in SHARED)
                if action in ("read_release", "read_release_file") and role == "analyst":
                    hidden = True  # it is not published yet
                if action == "read_release_file":
                    hidden = True
                assert (found.status_code == 404) == hidden, (action, role, whose, found.status_code, found.text[:200])
                assert found.status_code < 500, (action, role, whose)
                if hidden:
                    assert found.json() == own_house.send(PEOPLE[role], "GET", "/v1/no/such/route").json()
                checked += 1
    assert checked > 150


def test_a_limited_token_sees_its_data_sets_only(own_house: House) -> None:
    for person, role in (("ann", "analyst"), ("cleo", "curator")):
        own_house.tokens[person] = own_house.service.register.issue(person, role=role, datasets=[]).text
        assert own_house.send(person, "GET", "/v1/datasets").json() == []
        assert own_house.send(person, "GET", "/v1/datasets/visits").status_code == 404
        assert own_house.send(person, "POST", "/v1/price", ASK).status_code == 404
        assert own_house.send(person, "GET", "/v1/accounts").json() == []
    assert own_house.ask("ann", "with-a-narrow-token").status_code == 404


def test_an_answer_is_its_owners_and_no_officers(own_house: House) -> None:
    """The officer answers for what was asked and paid; the figures are the analyst's."""
    view = own_house.ask("ann", "a-question-of-ann").json()
    seen = own_house.send("olga", "GET", f"/v1/questions/{view['id']}").json()
    assert "answer" not in seen and seen["request"] == view["request"]
    assert own_house.send("ben", "GET", f"/v1/questions/{view['id']}").status_code == 404


def test_one_person_holds_so_many_tokens_and_no_more(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stolen session cannot fill the table, and cannot hide one token among thousands."""
    register = house.service.register
    held = sum(1 for token in register.tokens_of("cleo") if token["revoked"] is None)
    monkeypatch.setattr(of_people, "MOST_TOKENS", held + 2)
    first = register.issue("cleo", role="curator")
    register.issue("cleo", role="curator")
    with pytest.raises(ServiceError) as refusal:
        register.issue("cleo", role="curator")
    assert refusal.value.code == "invalid" and "revoke one" in refusal.value.fields["tokens"]
    register.revoke_token(first.id)
    register.issue("cleo", role="curator")
