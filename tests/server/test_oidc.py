"""Signing in through a provider: it works once, and no lie of a provider, a browser or a thief gets in."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.server.house import House, TestClient
from tests.server.provider import ISSUER, Liar

from tacit.server.config import SignIn
from tacit.server.errors import WORDS
from tacit.server.oidc import Provider


def signed_in(house: House, liar: Liar, *, state: str | None = None, code: str = "the-code", fresh: bool = False) -> Any:
    """A browser's way through the provider and back."""
    service = house.service
    service.register.add("dora", roles=["analyst"], datasets=["visits"], subject="ann-at-home")
    service.provider = Provider(SignIn(issuer=ISSUER, client="tacit"), "s3cret", service.database, "http://127.0.0.1:8400", transport=liar)
    browser = TestClient(house.client.app, base_url="http://127.0.0.1:8400", raise_server_exceptions=False)
    start = browser.get("/sign-in/start", follow_redirects=False)
    if start.status_code != 303:
        return start
    sent = liar.authorize(start.headers["location"])
    if fresh:
        browser = TestClient(house.client.app, base_url="http://127.0.0.1:8400", raise_server_exceptions=False)
    query = {"state": sent if state is None else state, "code": code}
    found = browser.get("/sign-in/callback", params=query, follow_redirects=False)
    found.browser, found.query = browser, query
    return found


@pytest.fixture(autouse=True)
def patient(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.service.rates, "allow", lambda *_: 0)


def test_a_browser_signs_in_and_its_state_works_once(house: House) -> None:
    found = signed_in(house, Liar())
    assert found.status_code == 303
    assert found.browser.get("/v1/me").json()["person"] == "dora"
    again = found.browser.get("/sign-in/callback", params=found.query, follow_redirects=False)
    assert again.status_code == 403


LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"claims": {"nonce": "x" * 43}},
    "no nonce": {"claims": {"nonce": None}},
    "another issuer": {"claims": {"iss": "https://evil.example.org"}},
    "another audience": {"claims": {"aud": "another"}},
    "several audiences without azp": {"claims": {"aud": ["tacit", "another"]}},
    "expired": {"claims": {"exp": int(time.time()) - 3600}},
    "without expiry": {"claims": {"exp": None}},
    "from the future": {"claims": {"iat": int(time.time()) + 3600}},
    "no subject": {"claims": {"sub": None}},
    "someone else": {"subject": "nobody-we-know"},
    "algorithm none": {"form": "none"},
    "another algorithm": {"form": "ES256"},
    "another key": {"form": "wrong key"},
    "a document about another issuer": {"document": {"issuer": "https://evil.example.org"}},
    "endpoints without TLS": {"document": {"token_endpoint": "http://login.example.org/token"}},
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.replace(" ", "-"))
def test_no_lie_gets_in(house: House, lie: str) -> None:
    found = signed_in(house, Liar(**LIES[lie]))
    assert found.status_code == 403 and "html" in found.headers["content-type"]  # outside /v1 a refusal is a page
    assert WORDS["sign-in-failed"] in found.text
    assert "set-cookie" not in found.headers


def test_a_wrong_state_code_or_browser_is_refused_in_the_same_words(house: House) -> None:
    found = [
        signed_in(house, Liar(), state="x" * 43),
        signed_in(house, Liar(), code="another-code"),
        signed_in(house, Liar(), fresh=True),  # a login that another browser began
        signed_in(house, Liar(), state=""),
    ]
    assert {one.status_code for one in found} == {403} and len({one.text for one in found}) == 1


def test_a_state_expires(house: House) -> None:
    service = house.service
    clock = [time.time()]
    provider = Provider(
        SignIn(issuer=ISSUER, client="tacit"), None, service.database, "http://x", transport=Liar(), clock=lambda: clock[0]
    )
    url, browser = provider.start()
    state = Liar().authorize(url)
    clock[0] += 601
    with pytest.raises(Exception) as caught:
        provider.finish(state, "the-code", browser)
    assert getattr(caught.value, "code", "") == "sign-in-failed"
