"""Every page and every form, for every role, on one's own, another's and an unknown object, against the one table of access.

The routes are taken from the application: one that is not in the table below fails the test. The same list says which pages a
person can open, and each of these is among those that axe looks at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.house import House
from tests.server.pages.test_accessibility import PAGES
from tests.server.test_access import PEOPLE, UNKNOWN, Objects

from tacit.server.access import ROLES, allowed

#: What anyone may open; none of it tells anything about data or people.
OPEN = {"/", "/sign-in", "/plain", "/sign-in/link/{secret}", "/sign-in/start", "/sign-in/callback", "/static/{version}/{name:path}"}
#: A page or a form, and the action of the one table that it stands for.
ACTIONS = {
    "GET /datasets": "list_datasets", "GET /datasets/{dataset}": "read_dataset", "GET /datasets/{dataset}/plain": "read_dataset",
    "GET /ask": "ask", "POST /ask": "ask", "GET /questions/{question}": "read_question",
    "GET /questions/{question}/answer.{form}": "read_question", "POST /questions/{question}/share": "share_question",
    "GET /shared/{share}": "read_shared", "GET /shared": "read_shared", "GET /history": "list_questions",
    "GET /releases": "list_releases", "GET /releases/{release}": "read_release", "POST /releases": "plan_release",
    "POST /releases/{release}/run": "run_release", "GET /budget": "list_accounts", "POST /approvals/{question}": "approve",
    "POST /decisions": "make_decision", "GET /book": "book_entries", "POST /book/verify": "book_verify",
    "GET /purposes": "list_purposes", "POST /purposes": "make_purpose", "GET /subjects": "subject_access",
    "POST /subjects": "subject_erase", "GET /models": "list_models", "POST /models": "make_model", "GET /me": "me",
    "POST /me/tokens": "make_token", "POST /me/tokens/{token}/revoke": "revoke_token", "POST /me/sessions/{session}/end": "revoke_session",
    "POST /sign-out": "me",
}  # fmt: skip
#: Objects that are everyone's who may see the data set.
SHARED = {"read_dataset", "read_shared", "read_release", "run_release"}
FORMS: dict[str, dict[str, str]] = {
    "POST /ask": {
        "dataset": "visits", "purpose": "bed-planning", "sql": "SELECT COUNT(*) AS n FROM visits", "do": "check",
        "epsilon": "0.1", "by": "epsilon", "nonce": "n" * 32,
    },
    "POST /releases": {"dataset": "visits"}, "POST /approvals/{question}": {"decision": "approve", "reason": "yes"},
    "POST /subjects": {"dataset": "visits", "person": "17", "what": "access"},
}  # fmt: skip


def routes(house: House) -> Iterator[tuple[str, str]]:
    """Method and path of every page and form that needs a sign-in: whatever the application has, but for the API."""
    app: Any = house.client.app
    for route in below(app.routes):
        if route.path in OPEN or route.path.startswith(("/v1/", "/healthz", "/readyz")):
            continue
        for method in sorted(set(route.methods) - {"HEAD"}):
            yield method, route.path


def below(found: list[Any]) -> Iterator[Any]:
    """Routes, those of included routers too."""
    for one in found:
        inner = getattr(one, "original_router", None)
        if inner is None:
            yield one
        else:
            yield from below(inner.routes)


def test_every_page_is_in_the_table(house: House) -> None:
    assert {f"{method} {path}" for method, path in routes(house)} == set(ACTIONS)


def test_axe_looks_at_every_page(house: House) -> None:
    """A page that is new has to be looked at in both colours and both widths; see `test_accessibility`."""
    seen = {path.replace("/questions/ANSWER", "/questions/{question}") for _, path in PAGES}
    seen = {re.sub("^/datasets/visits", "/datasets/{dataset}", path) for path in seen}
    seen = {path.replace("/shared/SHARED", "/shared/{share}").replace("/releases/RELEASE", "/releases/{release}") for path in seen}
    # a link that is pasted leads to the page of the shared answer, and a file is no page
    others = {"/shared", "/questions/{question}/answer.{form}"}
    shown = {path for method, path in routes(house) if method == "GET"} - others
    assert shown - seen == set()


def test_every_page_for_every_role_on_every_kind_of_object(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_house.service.releases, "_published", lambda *about: None)
    objects, checked = Objects(own_house), 0
    same = {"origin": "http://127.0.0.1:8400", "sec-fetch-site": "same-origin"}
    browsers, own_house.client.cookies = {role: own_house.browser(PEOPLE[role]) for role in ROLES}, type(own_house.client.cookies)()
    tokens = {role: re.search(r'name="form_token" value="([^"]+)"', browser.get("/me").text) for role, browser in browsers.items()}
    for method, template in routes(own_house):
        if template == "/sign-out":
            continue  # it is anyone's own; it comes last in test_views
        name, action = f"{method} {template}", ACTIONS[f"{method} {template}"]
        for whose in ("own", "other", "unknown") if "{" in template else ("own",):
            for role in ROLES:
                path = objects.path(template, whose).replace("{form}", "csv")
                fields = FORMS.get(name, {})
                if method == "GET":
                    nobody = own_house.client.get(path, follow_redirects=False)
                    assert (nobody.status_code, nobody.headers["location"]) == (303, "/sign-in"), (name, whose)
                    found = browsers[role].get(path, follow_redirects=False)
                else:
                    token = tokens[role]
                    assert token is not None
                    assert own_house.client.post(path, data=fields, headers=same).status_code == 401, (name, whose)
                    data = {**fields, "form_token": token[1], **({"role": role, "days": "3"} if action == "make_token" else {})}
                    found = browsers[role].post(path, data=data, headers=same, follow_redirects=False)
                scope = allowed(role, action)
                hidden = scope is None or whose == "unknown" or (scope == "own" and whose == "other" and action not in SHARED)
                if action == "read_release" and role == "analyst":
                    hidden = True  # it is not published yet
                if name == "GET /shared":
                    hidden = True  # no link was pasted
                assert (found.status_code == 404) == hidden, (name, role, whose, found.status_code, found.text[-400:])
                assert found.status_code < 500, (name, role, whose)
                if hidden and method == "GET":
                    assert UNKNOWN not in found.text and "Not found" in found.text
                checked += 1
    assert checked > 130
