"""The checklist (after ASVS level 2) as a table of tests: each of its 38 lines names what shows it.

A line is shown by a function below, or by a test of another file, which is looked up.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.house import ASK, House, TestClient, followed

from tacit.server import Configuration, ConfigurationError, Service, load, parse
from tacit.server.access import Caller
from tacit.server.config import EXAMPLE, secret
from tacit.server.database import people, sessions, tokens
from tacit.server.people import Register
from tacit.server.start import TALKATIVE, check, quiet

LINES: dict[int, str] = {
    1: "test_1_there_are_no_passwords",
    2: "test_oidc.test_a_wrong_state_code_or_browser_is_refused_in_the_same_words test_oidc.test_no_lie_gets_in "
       "test_oidc.test_a_browser_signs_in_and_its_state_works_once",
    3: "test_oidc.test_no_lie_gets_in", 4: "test_4_a_link_works_once_for_ten_minutes", 5: "test_5_sign_in_is_throttled",
    6: "test_6_unknown_people_get_the_same_answer", 7: "test_7_a_session_is_new_at_sign_in", 8: "test_8_cookie_flags",
    9: "test_9_sessions_end_by_themselves", 10: "test_10_sign_out_kills_the_session", 11: "test_11_sessions_are_listed_and_revoked",
    12: "test_12_13_tokens_are_shown_once_and_hashed", 13: "test_12_13_tokens_are_shown_once_and_hashed",
    14: "test_14_scope_is_enforced", 15: "test_15_tokens_end", 16: "test_16_tokens_are_never_in_addresses",
    17: "test_17_what_is_not_allowed_is_denied",
    18: "test_access.test_the_table_and_the_routes_name_the_same_actions pages.test_page_access.test_every_page_is_in_the_table",
    19: "test_access.test_every_route_for_every_role_on_every_kind_of_object "
        "pages.test_page_access.test_every_page_for_every_role_on_every_kind_of_object",
    20: "test_access.test_roles_do_not_inherit",
    21: "test_access.test_roles_do_not_inherit", 22: "test_22_types_are_strict",
    23: "test_23_size_depth_and_time test_hostile.test_a_slow_body_and_a_bomb_cost_little "
        "test_hostile.test_a_head_that_does_not_come_is_not_waited_for",
    24: "test_24_yaml_is_safe_and_has_no_aliases", 25: "test_25_one_statement_that_is_understood", 26: "test_26_file_names_are_ours",
    27: "test_27_output_is_encoded", 28: "test_28_31_32_headers", 29: "test_29_30_forged_requests_are_refused",
    30: "test_29_30_forged_requests_are_refused", 31: "test_28_31_32_headers", 32: "test_28_31_32_headers",
    33: "test_33_34_errors_are_constant_and_echo_nothing", 34: "test_33_34_errors_are_constant_and_echo_nothing",
    35: "test_35_log_lines_cannot_be_forged", 36: "test_36_the_book_is_the_record", 37: "test_37_beyond_this_machine_needs_tls_or_a_proxy",
    38: "test_38_secrets_are_private_and_debugging_is_refused",
}  # fmt: skip


def test_each_of_the_38_lines_has_its_test() -> None:
    assert sorted(LINES) == list(range(1, 39))
    for name in " ".join(LINES.values()).split():
        file, _, function = name.rpartition(".")
        tree = ast.parse((Path(__file__).parent / f"{(file or 'test_checklist').replace('.', '/')}.py").read_text())
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def clocked(house: House, clock: list[float], **limits: float) -> Register:
    return Register(house.service.database, clock=lambda: clock[0], **limits)


# --- sign-in ----------------------------------------------------------------------------------------------------------


def test_1_there_are_no_passwords(house: House) -> None:
    columns = {column.name for table in (people, tokens, sessions) for column in table.columns}
    assert not [name for name in columns if "pass" in name]
    paths = house.client.app.openapi()["paths"]
    assert not [path for path in paths if "password" in path or "login" in path]


def test_4_a_link_works_once_for_ten_minutes(house: House) -> None:
    clock = [time.time()]
    register = clocked(house, clock)
    link = register.link("ann")
    assert register.follow(link) is not None and register.follow(link) is None
    late = register.link("ann")
    clock[0] += 600
    assert register.follow(late) is None
    assert register.follow("") is None and register.follow("x" * 43) is None


def test_5_sign_in_is_throttled(own_house: House) -> None:
    codes = [followed(own_house.client, "x" * 43).status_code for _ in range(12)]
    assert codes == [403] * 10 + [429] * 2
    # guessing tokens is throttled too
    wrong = {"authorization": f"Bearer tacit_{'y' * 43}"}
    codes = [own_house.client.get("/v1/me", headers=wrong).status_code for _ in range(70)]
    assert codes[0] == 401 and codes[-1] == 429


def test_6_unknown_people_get_the_same_answer(house: House) -> None:
    used = house.service.register.link("ann")
    house.service.register.follow(used)
    answers = [followed(house.client, text) for text in (used, "x" * 43)]
    assert answers[0].content == answers[1].content and answers[0].status_code == answers[1].status_code == 403


def test_6_opening_a_link_uses_nothing_up(house: House) -> None:
    """A scanner of mail follows links; only the button of the page signs in, and another site cannot press it."""
    secret = house.service.register.link("ann")
    client = TestClient(house.client.app, base_url="http://127.0.0.1:8400")
    pages = [client.get(f"/sign-in/link/{text}") for text in (secret, secret, "x" * 43)]
    assert {page.status_code for page in pages} == {200} and len({page.content for page in pages}) == 1
    assert not any("set-cookie" in page.headers for page in pages) and secret not in pages[0].text
    assert client.head(f"/sign-in/link/{secret}").status_code in (200, 405)
    for headers in ({}, {"origin": "https://elsewhere.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert client.post(f"/sign-in/link/{secret}", headers=headers, follow_redirects=False).status_code == 403
    assert followed(client, secret).status_code == 303 and client.cookies
    assert followed(client, secret).status_code == 403


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_7_a_session_is_new_at_sign_in(house: House) -> None:
    """A cookie that an attacker put there before is not taken over."""
    client = TestClient(house.client.app, base_url="http://127.0.0.1:8400")
    client.cookies.set("tacit-local", "planted-by-someone-else")
    found = followed(client, house.service.register.link("ann"))
    assert "planted-by-someone-else" not in found.headers["set-cookie"]
    assert house.service.register.by_session("planted-by-someone-else") is None


def test_8_cookie_flags(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = followed(own_house.client, own_house.service.register.link("ann"))
    assert all(flag in plain.headers["set-cookie"] for flag in ("HttpOnly", "Path=/", "SameSite=lax"))
    listen = own_house.service.configuration.listen.model_copy(update={"proxy": ("10.0.0.1",), "origin": "https://tacit.example.org"})
    changed = own_house.service.configuration.model_copy(update={"listen": listen})
    monkeypatch.setattr(own_house.service, "configuration", changed)
    secure = followed(own_house.client, own_house.service.register.link("ann"))
    cookie = secure.headers["set-cookie"]
    assert cookie.startswith("__Host-tacit=") and "Secure" in cookie and "HttpOnly" in cookie and "Domain" not in cookie
    assert secure.headers["strict-transport-security"].startswith("max-age=")


def test_9_sessions_end_by_themselves(house: House) -> None:
    clock = [time.time()]
    register = clocked(house, clock, idle=100, total=1000)
    session = register.begin("ann")
    assert session is not None
    for _ in range(10):
        clock[0] += 95
        assert register.by_session(session) is not None
    clock[0] += 95  # used all the time, and too old in all
    assert register.by_session(session) is None
    other = register.begin("ann")
    assert other is not None
    clock[0] += 101
    assert register.by_session(other) is None


def test_10_sign_out_kills_the_session(house: House) -> None:
    browser = house.browser("ann")
    cookie = browser.cookies["tacit-local"]
    form = house.service.register.by_session(cookie)
    assert form is not None
    headers = {"origin": "http://127.0.0.1:8400", "sec-fetch-site": "same-origin"}
    out = browser.post("/sign-out", data={"form_token": form.form_token}, headers=headers, follow_redirects=False)
    assert out.status_code == 303 and house.service.register.by_session(cookie) is None


def test_11_sessions_are_listed_and_revoked(house: House) -> None:
    browser = house.browser("ben")
    listed = house.send("ben", "GET", "/v1/sessions").json()
    assert len(listed) == 1 and set(listed[0]) == {"id", "created", "seen"}
    assert house.send("ann", "DELETE", f"/v1/sessions/{listed[0]['id']}").status_code == 404
    assert browser.get("/v1/me").status_code == 200
    assert house.send("ben", "DELETE", f"/v1/sessions/{listed[0]['id']}").status_code == 204
    assert browser.get("/v1/me").status_code == 401


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_12_13_tokens_are_shown_once_and_hashed(house: House) -> None:
    token = house.service.register.issue("ann", role="analyst", label="laptop")
    assert len(token.text.removeprefix("tacit_")) == 43  # 256 bits
    listed = house.send("ann", "GET", "/v1/tokens").json()
    assert token.text not in json.dumps(listed) and any(one["id"] == token.id for one in listed)
    with house.service.database.read() as connection:
        stored = json.dumps([list(map(str, row)) for row in connection.execute(sa.select(tokens))])
    assert token.text not in stored and token.text.removeprefix("tacit_") not in stored


def test_14_scope_is_enforced(house: House) -> None:
    register = house.service.register
    with pytest.raises(Exception, match="cannot be read"):
        register.issue("ann", role="officer")
    with pytest.raises(Exception, match="cannot be read"):
        register.issue("ann", role="analyst", datasets=["others"])
    made = house.send("ann", "POST", "/v1/tokens", {"role": "analyst"})
    assert made.status_code == 422  # a token makes no token
    narrow = register.by_token(register.issue("ann", role="analyst", datasets=[]).text)
    assert narrow is not None and not narrow.may_see("visits")


def test_15_tokens_end(house: House) -> None:
    clock = [time.time()]
    register = clocked(house, clock)
    token = register.issue("ann", role="analyst", days=1)
    assert isinstance(register.by_token(token.text), Caller)
    for wrong in (token.text[:-1], token.text + "x", token.text.swapcase(), token.text.encode().hex(), ""):
        assert register.by_token(wrong) is None
    clock[0] += 86401
    assert register.by_token(token.text) is None


def test_16_tokens_are_never_in_addresses(house: House) -> None:
    assert house.client.get(f"/v1/me?token={house.token('ann')}").status_code == 401
    assert house.client.get(f"/v1/me?access_token={house.token('ann')}").status_code == 401


# --- access -----------------------------------------------------------------------------------------------------------


def test_17_what_is_not_allowed_is_denied(house: House) -> None:
    assert house.send(None, "GET", "/v1/datasets").status_code == 401
    assert house.send("ann", "GET", "/v1/book/entries").status_code == 404
    assert house.send("ann", "GET", "/v1/admin").status_code == 404


# --- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"sql": 3}, {"epsilon": [1]}, {"epsilon": True}, {"loss": "yes"}, {"keys": "region"}, {"bounds": {"age": [1]}}, {"law": "cauchy"},
        {"dataset": "Visits!"}, {"unknown": 1}, {"sql": "x" * 20_001}, {"period": 2026}, {"keys": {"region": [{"date": 3}]}},
    ],
)  # fmt: skip
def test_22_types_are_strict(house: House, change: dict[str, Any]) -> None:
    found = house.send("ann", "POST", "/v1/price", {**ASK, **change})
    assert found.status_code == 422 and found.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("epsilon", ["nan", "inf", "-1", "0", "1e400", "0x1", "", "1/0", "١"])
def test_22_numbers_that_are_none_are_refused(house: House, epsilon: str) -> None:
    assert house.send("ann", "POST", "/v1/price", {**ASK, "epsilon": epsilon}).status_code == 422


def test_23_size_depth_and_time(house: House) -> None:
    token = {"authorization": f"Bearer {house.token('ann')}", "content-type": "application/json"}
    large = house.client.post("/v1/price", content=b"[" + b" " * 1_000_001 + b"]", headers=token)
    assert large.status_code == 413
    deep = house.client.post("/v1/price", content=b"[" * 500 + b"]" * 500, headers=token)
    assert deep.status_code == 400 and deep.json()["type"] == "/problems/too-deep"
    parts = iter([b"{", *[b" " * 60_000] * 20, b"}"])
    chunked = house.client.post("/v1/price", content=parts, headers=token)
    assert chunked.status_code == 413
    assert house.client.post("/v1/price", content=b"\xff\xfe{", headers=token).status_code == 400


def test_24_yaml_is_safe_and_has_no_aliases() -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nversion: 1"
    for text in (bomb, "version: !!python/object/apply:os.system [id]", "[" * 100 + "]" * 100, "version: 1\nversion: 2", "- 1", "\x00"):
        with pytest.raises(ConfigurationError):
            parse(text)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT 2", "DROP TABLE visits", "SELECT * FROM visits", "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "COPY visits TO 'x'", "PRAGMA database_list", "SELECT COUNT(*) FROM tacit_subjects", "ATTACH 'x'", "--", "SELECT " * 500,
        "SELECT COUNT(*) FROM visits WHERE region = (SELECT 'x')", "SELECT patient_id, COUNT(*) FROM visits", "\x00", "SELECT '",
    ],
)  # fmt: skip
def test_25_one_statement_that_is_understood(house: House, sql: str) -> None:
    found = house.send("ann", "POST", "/v1/price", {**ASK, "sql": sql})
    assert found.status_code == 422, found.text


def test_26_file_names_are_ours(house: House) -> None:
    release = house.send("cleo", "POST", "/v1/releases", {"dataset": "visits"}).json()["id"]
    for name in ("..%2f..%2fservice.yaml", "%2e%2e/service.yaml", "..\\service.yaml", "visits.parquet", ".hidden", "a%00.csv"):
        assert house.send("cleo", "GET", f"/v1/releases/{release}/{name}").status_code in (404, 422)


def test_27_output_is_encoded(house: House) -> None:
    """A name of a column that a spreadsheet would run is made a text; JSON is never guessed to be a page."""
    from tacit.server.api.questions import _harmless

    assert [_harmless(text) for text in ("=1+1", "@x", "-2", "a", None)] == ["'=1+1", "'@x", "'-2", "a", None]
    found = house.send("ann", "GET", "/v1/datasets")
    assert found.headers["x-content-type-options"] == "nosniff" and found.headers["content-type"] == "application/json"


# --- browser ----------------------------------------------------------------------------------------------------------


def test_28_31_32_headers(house: House) -> None:
    for path in ("/v1/datasets", "/healthz", "/no/such/page", "/v1/me"):
        headers = house.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy and "*" not in policy
        assert "frame-ancestors 'none'" in policy and headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin" and headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_29_30_forged_requests_are_refused(house: House) -> None:
    browser = house.browser("ann")
    form = house.service.register.by_session(browser.cookies["tacit-local"])
    assert form is not None
    own = {"origin": "http://127.0.0.1:8400", "sec-fetch-site": "same-origin", "x-tacit-form": form.form_token}
    assert browser.post("/v1/price", json=ASK, headers=own).status_code == 200
    forged: list[dict[str, str]] = [
        {**own, "origin": "https://evil.example.org"},
        {**own, "origin": "null"},
        {**own, "sec-fetch-site": "cross-site"},
        {**own, "sec-fetch-site": "same-site"},
        {"x-tacit-form": form.form_token},
        {**own, "x-tacit-form": "x" * 43},
        {name: value for name, value in own.items() if name != "x-tacit-form"},
    ]
    for headers in forged:
        assert browser.post("/v1/price", json=ASK, headers=headers).status_code == 403, headers
    simple = browser.post("/v1/price", content=json.dumps(ASK), headers={**own, "content-type": "text/plain"})
    assert simple.status_code in (415, 422)


# --- errors and logs --------------------------------------------------------------------------------------------------


def test_33_34_errors_are_constant_and_echo_nothing(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    word = "CANARYWORD"
    changes: list[dict[str, Any]] = [{"epsilon": {word: word}}, {word: 1}, {"dataset": word}, {"keys": {"region": [[word]]}}]
    bodies = [{**ASK, **change} for change in changes]
    for body in bodies:
        found = house.send("ann", "POST", "/v1/price", body)
        assert found.status_code == 422 and word not in found.text
    bad = {"authorization": f"Bearer {house.token('ann')}", "content-type": "application/json"}
    assert word not in house.client.post("/v1/price", content=f'{{"{word}'.encode(), headers=bad).text
    ours = [record for record in caplog.records if record.name.startswith("tacit")]
    assert word not in " ".join(record.getMessage() for record in ours)


def test_35_log_lines_cannot_be_forged(house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log lines are constants: nothing that was sent is in them."""
    caplog.set_level(logging.DEBUG, logger="tacit")

    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("line one\nERROR forged line two")

    monkeypatch.setattr(Service, "list_datasets", broken)
    found = house.send("ann", "GET", "/v1/datasets")
    assert found.status_code == 503 and found.json()["type"] == "/problems/unavailable"
    assert "forged" not in caplog.text and "forged" not in found.text


def test_36_the_book_is_the_record(own_house: House) -> None:
    own_house.ask("ann", "for-the-record")
    entry = next(entry for entry in own_house.service.ledger.entries() if entry["kind"] == "reserve")
    assert entry["analyst"] == "ann" and entry["purpose"] == "bed-planning" and "key" in entry
    quiet()
    assert all(logging.getLogger(name).disabled for name in TALKATIVE)


# --- set-up -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "tacit.example.org"])
def test_37_beyond_this_machine_needs_tls_or_a_proxy(host: str) -> None:
    with pytest.raises(ConfigurationError, match="tls"):
        parse(EXAMPLE.replace("127.0.0.1", f'"{host}"'))
    behind = EXAMPLE.replace("host: 127.0.0.1", f'host: "{host}", proxy: [10.0.0.1], origin: "https://tacit.example.org"')
    assert parse(behind).listen.secure
    with pytest.raises(ConfigurationError, match="origin"):
        parse(EXAMPLE.replace("host: 127.0.0.1", f'host: "{host}", proxy: [10.0.0.1]'))
    assert parse(EXAMPLE.replace("127.0.0.1", '"::1"')).listen.local


def test_38_secrets_are_private_and_debugging_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret\n")
    os.chmod(file, 0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        secret(tmp_path, env=None, file="secret")
    os.chmod(file, 0o600)
    assert secret(tmp_path, env=None, file="secret") == "s3cret"
    monkeypatch.setenv("TACIT_OIDC", "from the environment")
    assert secret(tmp_path, env="TACIT_OIDC", file=None) == "from the environment"
    with pytest.raises(ConfigurationError):
        secret(tmp_path, env="TACIT_NOT_THERE", file=None)
    production: Configuration = parse(EXAMPLE + "production: true\n")
    monkeypatch.setenv("TACIT_TRACEBACK", "1")
    with pytest.raises(ConfigurationError, match="debugging"):
        check(production)
    fields = re.findall(r'"(\w*secret\w*)": {', json.dumps(Configuration.model_json_schema()))
    assert set(fields) == {"secret_env", "secret_file"}
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "no-such.yaml")
