"""What an enemy tries who has an account, a token, a file or patience: each of these once worked, or nearly.

Beside `test_checklist`, which goes through a known list, this file holds what was found by reading the service as an attacker would.
"""

from __future__ import annotations

import datetime
import gzip
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from tests.ledger.conftest import postgres, postgres_url
from tests.server.house import ASK, House
from tests.server.pages.house import listening
from tests.server.pages.test_views import sent
from tests.server.test_subjects import demand, people, somebody

import tacit
from tacit.ledger import LedgerBusy
from tacit.server import Service, ServiceError, load, wire
from tacit.server.database import questions, records
from tacit.server.pages.answers import notebook
from tacit.server.subjects import Subjects
from tacit.tables import Session, TableError

__all__ = ["postgres", "postgres_url"]  # fixtures


def ended(house: House, key: str, state: str, seconds: float = 20, **changed: Any) -> Any:
    """The question under a key once it is in that state."""
    until = time.monotonic() + seconds
    while (view := house.ask("ann", key, wait=1, **changed).json())["state"] != state:
        assert time.monotonic() < until, view
    return view


# --- between the price and the draw -----------------------------------------------------------------------------------


def approve(house: House, question: str) -> Any:
    return house.send("olga", "POST", f"/v1/approvals/{question}", {"decision": "approve", "reason": "as agreed"})


def reserves(house: House) -> int:
    return sum(entry["kind"] == "reserve" for entry in house.service.ledger.entries())


def test_a_purpose_that_ended_while_the_officer_thought_is_not_drawn(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    view = own_house.ask("ann", "asked-on-the-last-day", wait=0, epsilon="0.6").json()
    assert view["state"] == "waiting"
    purpose = own_house.service.purposes._fixed["bed-planning"]
    yesterday = purpose.spec.model_copy(update={"until": datetime.date(2020, 1, 1)})
    monkeypatch.setitem(own_house.service.purposes._fixed, "bed-planning", type(purpose)("bed-planning", yesterday))
    approve(own_house, view["id"])
    found = ended(own_house, "asked-on-the-last-day", "refused", epsilon="0.6")
    assert found["problem"]["type"] == "/problems/purpose-ended" and reserves(own_house) == 0


@pytest.mark.parametrize("how", ["token revoked", "left", "data set taken away"])
def test_who_may_no_longer_ask_gets_no_draw(own_house: House, how: str) -> None:
    register = own_house.service.register
    view = own_house.ask("ann", "asked-before-leaving", wait=0, epsilon="0.6").json()
    if how == "token revoked":
        for token in register.tokens_of("ann"):
            register.revoke_token(token["id"])
        own_house.tokens.pop("ann")
    elif how == "left":
        register.set({name: spec for name, spec in own_house.service.configuration.people.items() if name != "ann"})
    else:
        register.add("ann", roles=["analyst"], datasets=[])
    approve(own_house, view["id"])
    until = time.monotonic() + 20
    while (row := own_house.service.claims.row(view["id"])) is not None and row["state"] != "refused":
        assert time.monotonic() < until, row["state"]
        time.sleep(0.05)
    assert row is not None and json.loads(row["detail"])["code"] == "access-ended" and reserves(own_house) == 0


def test_what_was_booked_is_handed_out_although_the_purpose_ended(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was paid for is not called "nothing was spent"."""
    service = own_house.service
    view = own_house.ask("ann", "drawn-and-then-cut-off").json()
    with service.database.write() as connection:
        cut = questions.update().where(questions.c.id == view["id"])
        connection.execute(cut.values(state="quoted", answer=None, entry=None, ready=None))
    purpose = service.purposes._fixed["bed-planning"]
    yesterday = purpose.spec.model_copy(update={"until": datetime.date(2020, 1, 1)})
    monkeypatch.setitem(service.purposes._fixed, "bed-planning", type(purpose)("bed-planning", yesterday))
    service.worker.submit(view["id"])
    again = ended(own_house, "drawn-and-then-cut-off", "answered")
    assert again["answer"] == view["answer"] and reserves(own_house) == 1


def test_a_question_of_a_data_set_that_is_gone_keeps_no_other_from_being_answered(own_house: House) -> None:
    service = own_house.service
    view = own_house.ask("ann", "left-by-a-worker", wait=0).json()
    ended(own_house, "left-by-a-worker", "answered")
    with service.database.write() as connection:
        row = dict(connection.execute(sa.select(questions).where(questions.c.id == view["id"])).mappings().one())
        old = {**row, "answer": None, "entry": None, "ready": None, "started": 1.0}
        for number, dataset in enumerate(("gone", "visits")):
            values = {**old, "id": f"{number:032d}", "key": f"k{number}", "dataset": dataset, "state": "quoted", "share": None}
            connection.execute(questions.insert().values(**values))
    service.worker.sweep()
    until = time.monotonic() + 20
    while (row := service.claims.row(f"{1:032d}")) is not None and row["state"] != "stored":
        assert time.monotonic() < until
        time.sleep(0.05)


# --- while one waits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["token revoked", "left", "data set taken away"])
def test_who_waits_for_an_answer_hears_nothing_after_the_token_is_gone(
    house_in: Callable[..., House], tmp_path: Path, how: str
) -> None:  # fmt: skip
    house = house_in(tmp_path, ("step: 0.01 s", "step: 0.01 s, estimates: {visits: 1.5 s}"))
    try:
        register = house.service.register
        number = house.ask("ann", "a-question-to-wait-for", wait=0).json()["id"]
        found: dict[str, Any] = {}
        ways = {"wait": {"prefer": "wait=30"}, "events": {}}
        send = lambda way, headers: house.send("ann", "GET", f"/v1/questions/{number}{'/events' if way == 'events' else ''}", **headers)  # noqa: E731
        threads = [threading.Thread(target=lambda way=way, headers=headers: found.__setitem__(way, send(way, headers)))
                   for way, headers in ways.items()]  # fmt: skip
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        if how == "token revoked":
            for token in register.tokens_of("ann"):
                register.revoke_token(token["id"])
        elif how == "left":
            register.set({name: spec for name, spec in house.service.configuration.people.items() if name != "ann"})
        else:
            register.add("ann", roles=["analyst"], datasets=[])
        for thread in threads:
            thread.join(30)
        assert found["wait"].status_code == (404 if how == "data set taken away" else 401)
        assert "answered" not in found["events"].text and "answer" not in found["wait"].json()
        row = house.service.claims.row(number)
        assert row is not None and row["state"] == "stored", "it was asked when it might be asked, and is paid for"
    finally:
        house.service.close()


def test_who_waits_for_the_officer_is_let_go_when_the_token_is_gone(own_house: House) -> None:
    """There is nothing to tell, and the request ends all the same: at a look, of which there is one every three seconds."""
    number = own_house.ask("ann", "it-waits-for-olga", wait=0, epsilon="0.6").json()["id"]
    found: list[Any] = []
    send = lambda: found.append(own_house.send("ann", "GET", f"/v1/questions/{number}", prefer="wait=50"))  # noqa: E731
    thread = threading.Thread(target=send)
    began = time.monotonic()
    thread.start()
    time.sleep(0.3)
    for token in own_house.service.register.tokens_of("ann"):
        own_house.service.register.revoke_token(token["id"])
    thread.join(60)
    assert found[0].status_code == 401 and time.monotonic() - began < 40, "before its time was over"


# --- who sees what ----------------------------------------------------------------------------------------------------


def limited(house: House, person: str, role: str, datasets: list[str]) -> None:
    house.tokens[person] = house.service.register.issue(person, role=role, datasets=datasets).text


def test_a_token_limited_to_other_data_sets_sees_no_approval_and_no_entry(own_house: House) -> None:
    own_house.ask("ann", "it-waits-for-olga", wait=0, epsilon="0.6")
    own_house.ask("ann", "it-is-paid-for")
    assert len(own_house.send("olga", "GET", "/v1/approvals").json()) == 1
    whole = own_house.send("olga", "GET", "/v1/book/entries").json()
    limited(own_house, "olga", "officer", ["visits"])
    mine = own_house.send("olga", "GET", "/v1/book/entries").json()
    assert {entry["kind"] for entry in mine} >= {"reserve", "commit", "account"} and len(mine) < len(whole)
    limited(own_house, "olga", "officer", [])
    assert own_house.send("olga", "GET", "/v1/approvals").json() == []
    assert own_house.send("olga", "GET", "/v1/book/entries").json() == []
    assert own_house.send("olga", "GET", "/v1/book/export").status_code == 404


def test_entries_show_no_answer(own_house: House) -> None:
    """The officer sees what was asked and paid. The answers of the book are in its export alone, which must verify."""
    view = own_house.ask("ann", "an-answer-of-ann").json()
    for person in ("cleo", "olga"):
        for entry in own_house.send(person, "GET", "/v1/book/entries").json():
            assert "answer" not in entry
    assert any("answer" in entry for entry in own_house.service.ledger.entries()) and view["state"] == "answered"
    page = own_house.browser("olga").get("/book").text
    figure = view["answer"]["figures"]["n"]["value"][0]
    assert f"{figure}" not in page or abs(figure) < 1000


def test_a_curator_gives_nobody_more_than_she_has(own_house: House) -> None:
    limited(own_house, "cleo", "curator", ["visits"])
    wide = own_house.send("cleo", "POST", "/v1/people", {"id": "eve", "roles": ["curator"]})
    assert wide.status_code == 422
    assert own_house.send("cleo", "POST", "/v1/people", {"id": "eve", "roles": ["curator"], "datasets": ["visits"]}).status_code == 201


def test_two_people_of_one_subject_are_refused_and_not_a_fault(own_house: House) -> None:
    body = {"roles": ["analyst"], "datasets": ["visits"], "subject": "issuer|7"}
    assert own_house.send("cleo", "POST", "/v1/people", {"id": "eve", **body}).status_code == 201
    for name in ("eve", "eva"):
        assert own_house.send("cleo", "POST", "/v1/people", {"id": name, **body}).status_code == 409


def test_who_is_struck_from_the_file_is_out(house_in: Callable[..., House], tmp_path: Path) -> None:
    first = house_in(tmp_path)
    token = first.token("ben")
    first.send("cleo", "POST", "/v1/people", {"id": "zoe", "roles": ["analyst"], "datasets": ["visits"]})
    first.service.close()
    text = (tmp_path / "service.yaml").read_text()
    line = next(line for line in text.splitlines() if line.strip().startswith("ben:"))
    (tmp_path / "service.yaml").write_text(text.replace(line + "\n", ""))
    with Service.open(load(tmp_path / "service.yaml")) as service:
        assert service.register.by_token(token) is None
        assert service.register.begin("ben") is None
        zoe = service.register.find("zoe")
        assert zoe is not None and zoe.active  # whom the curator added is not the file's
        with service.database.read() as connection:
            assert set(connection.execute(sa.select(records.c.id).where(records.c.kind == "listed")).scalars()) == {"ann", "cleo", "olga"}


def test_a_shared_answer_does_not_carry_what_the_officer_wrote(own_house: House) -> None:
    view = own_house.ask("ann", "shared-after-approval", wait=0, epsilon="0.6").json()
    approve(own_house, view["id"])
    ended(own_house, "shared-after-approval", "answered", epsilon="0.6")
    share = own_house.send("ann", "POST", f"/v1/questions/{view['id']}/share").json()["share"]
    seen = own_house.send("ben", "GET", f"/v1/shared/{share}").json()
    assert seen["state"] == "answered" and seen["answer"] and "decision" not in seen
    assert "decision" in own_house.send("ann", "GET", f"/v1/questions/{view['id']}").json()
    assert own_house.browser("ben").get(f"/shared/{share}").status_code == 200
    limited(own_house, "ben", "analyst", [])
    assert own_house.send("ben", "GET", f"/v1/shared/{share}").status_code == 404


# --- people in the data -----------------------------------------------------------------------------------------------


def test_an_erasure_is_not_undone_by_withdrawing_and_restoring(own_house: House) -> None:
    person = somebody(own_house)[0]
    before = people(own_house, "bed-planning")
    demand(own_house, "erase", person)
    for what in ("withdraw", "object"):
        for purposes in (None, ["bed-planning"]):
            demand(own_house, what, person, purposes)
            demand(own_house, "restore", person, purposes)
    assert people(own_house, "bed-planning") == before - 1
    assert [one["state"] for one in demand(own_house, "access", person).json()["stopped"]] == ["erased"]


def test_lists_of_data_sets_and_purposes_have_names_of_their_own(own_house: House) -> None:
    """In one PostgreSQL database all lists stand side by side, and a name is cut off after 63 bytes."""
    dataset = own_house.service.datasets["visits"]
    long = "p" * 62
    names = [dataset.listed(purpose) for purpose in ("", "bed-planning", long + "a", long + "b")]
    other = SimpleNamespace(name="other", account=dataset.account)
    names += [type(dataset).listed(other, "bed-planning")]  # type: ignore[arg-type]
    assert len(set(names)) == 5 and all(len(name.encode()) <= 63 for name in names)


def test_an_older_list_never_takes_the_place_of_a_newer_one(own_house: House, postgres_url: str) -> None:
    """Two processes bring one list up to date: the one that read first waits long before it writes."""
    import psycopg

    plain = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain) as connection:
        connection.execute("CREATE TABLE visits (patient_id BIGINT)")
    job = SimpleNamespace(sources={"visits": SimpleNamespace(url=postgres_url)})
    dataset: Any = SimpleNamespace(job=job, people_columns=lambda: {"visits": "patient_id"})
    gone, subjects, reading = [1], own_house.service.subjects, threading.Event()

    def slow() -> tuple[int, list[Any]]:
        found = (len(gone), list(gone))
        reading.set()
        time.sleep(0.5)
        return found

    first = threading.Thread(target=Subjects._listed_in_database, args=(subjects, dataset, "tacit_list", slow))
    first.start()
    assert reading.wait(10)
    gone.append(2)  # someone is erased, and the second process hears of it first
    number = Subjects._listed_in_database(subjects, dataset, "tacit_list", lambda: (len(gone), list(gone)))
    first.join()
    with psycopg.connect(plain) as connection:
        listed = {row[0] for row in connection.execute("SELECT person FROM tacit_list")}
    assert number == 2 and listed == {1, 2}


def test_who_withdrew_is_in_a_file_of_the_owner_alone(own_house: House) -> None:
    place = own_house.service.configuration.base / "subjects.db"
    assert place.stat().st_mode & 0o077 == 0


# --- words that others run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql", ['SELECT 1 -- """ + __import__("os").system("x") + """', "SELECT 1\n-- ''' \\", 'SELECT "a\\"', "SELECT 1\r\n,2"]
)
def test_the_code_for_a_notebook_is_one_call_whatever_was_asked(sql: str) -> None:
    import ast

    view = {"request": {"dataset": "visits", "purpose": "p", "sql": sql, "epsilon": "0.1"}, "dataset": "visits", "purpose": "p"}
    tree = ast.parse(notebook(view, 'http://h"+evil()+"'))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert len(calls) == 2
    asked = next(call for call in calls if getattr(call.func, "attr", "") == "sql")
    assert ast.literal_eval(asked.args[0]) == sql


def test_names_of_figures_are_no_formulas(own_house: House) -> None:
    sql = 'SELECT region AS "@r", COUNT(*) AS "=cmd()" FROM visits GROUP BY region'
    view = own_house.ask("ann", "a-formula-as-a-name", sql=sql).json()
    text = own_house.send("ann", "GET", f"/v1/questions/{view['id']}", accept="text/csv").text
    assert all(cell.strip('"')[0] not in "=+-@" for cell in text.splitlines()[0].split(","))


# --- exhaustion -------------------------------------------------------------------------------------------------------


def test_a_question_that_takes_long_to_plan_is_refused_at_once(own_house: House) -> None:
    joins = " ".join(f"JOIN visits b{i} ON a.patient_id = b{i}.patient_id" for i in range(300))
    many = ", ".join(f"COUNT(*) AS n{i}" for i in range(800))
    epsilons = [str(0.001 * (i + 1)) for i in range(100)]
    asked = {name: value for name, value in ASK.items() if name != "epsilon"}
    began = time.process_time()
    joined, curve = {"sql": f"SELECT COUNT(*) AS n FROM visits a {joins}", "epsilon": "0.1"}, {"sql": f"SELECT {many} FROM visits"}
    for changed in (joined, {**curve, "epsilons": epsilons}):
        found = own_house.send("ann", "POST", "/v1/price", {**asked, **changed})
        assert found.status_code == 422 and found.json()["type"] == "/problems/question-refused"
    assert time.process_time() - began < 5


def spoken(port: int, sent: list[bytes], pause: float = 0.0, patience: float = 20.0) -> tuple[bytes, float]:
    """What a server answers to bytes that are sent piece by piece, and how long it took until it answered."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as wire:
        for part in sent:
            try:
                wire.sendall(part)
            except OSError:
                break  # it has answered and hung up
            time.sleep(pause)
        found = wire.recv(65536)
    return found, time.monotonic() - began


def test_a_slow_body_and_a_bomb_cost_little(house_in: Callable[..., House], tmp_path: Path) -> None:
    """Over a socket: a body that drips is cut off in time, one that is packed is not unpacked, and others are answered meanwhile."""
    house = house_in(tmp_path, ("limits: {", "limits: {body_seconds: 1 s, "))
    token = house.token("ann")
    head = f"POST /v1/price HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n".encode()
    try:
        with listening(house.service) as base:
            port = int(base.rpartition(":")[2])
            dripping = [threading.Thread(target=spoken, args=(port, [head + b"content-length: 500\r\n\r\n", *[b" "] * 30], 0.1))
                        for _ in range(20)]  # fmt: skip
            for thread in dripping:
                thread.start()
            assert b"200 OK" in spoken(port, [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"])[0]
            told, took = spoken(port, [head + b"content-length: 500\r\n\r\n", *[b" "] * 12], 0.1)
            assert b" 408 " in told and b"/problems/too-slow" in told and took < 10
            for thread in dripping:
                thread.join(20)
            body = json.dumps(ASK).encode()
            bomb = gzip.compress(b" " * 50_000_000 + body)
            for packed, kind in ((bomb, b"gzip"), (zlib.compress(body), b"deflate")):
                packing = b"content-encoding: %s\r\ncontent-length: %d\r\n\r\n" % (kind, len(packed))
                began = time.process_time()
                told, _ = spoken(port, [head + packing + packed])
                assert b" 400 " in told and b"/problems/not-json" in told, "a packed body is bytes that are no JSON"
                assert time.process_time() - began < 1
            large = [head + b"content-length: 3000000\r\n\r\n", *[b" " * 100_000] * 30]
            assert b" 413 " in spoken(port, large)[0], "the refusal of a large body can be read"
            lies = head + b"content-length: 10\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/me HTTP/1.1\r\n\r\n"
            assert spoken(port, [lies])[0].count(b"HTTP/1.1 200") == 0, "one request is not read as two"
            split = b"GET /v1/me HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\n set-cookie: a=b\r\n\r\n"
            assert b"set-cookie" not in spoken(port, [split])[0].lower()
    finally:
        house.service.close()


def test_a_head_that_does_not_come_is_not_waited_for(
    house_in: Callable[..., House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Silence, a line that drips, and headers without end; a browser that keeps its connection, and one that waits, stay."""
    monkeypatch.setattr(wire, "SECONDS", 1.0)
    house = house_in(tmp_path, ("step: 0.01 s", "step: 0.01 s, estimates: {visits: 2 s}"))
    token = house.token("ann")
    whole = f"GET /v1/me HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode()
    try:
        with listening(house.service) as base:
            port = int(base.rpartition(":")[2])
            assert spoken(port, [], patience=15) == (b"", pytest.approx(1, abs=6))
            assert spoken(port, [b"GET / HTTP/1.1\r\n", *[b"x"] * 60], 0.1, patience=15)[1] < 8
            endless = spoken(port, [b"GET / HTTP/1.1\r\n", *[b"x-more: " + b"y" * 8000 + b"\r\n"] * 40])
            assert b"200" not in endless[0]
            with socket.create_connection(("127.0.0.1", port), timeout=30) as wired:
                for pause in (0.0, 2.0, 0.0):
                    time.sleep(pause)
                    wired.sendall(whole)
                    assert b"200 OK" in wired.recv(65536), "it is idle between two requests, and not late"
                body = json.dumps({**ASK, "epsilon": "0.01"}).encode()
                head = f"POST /v1/questions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nprefer: wait=20\r\n"
                head += f"idempotency-key: it-takes-two-seconds\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
                wired.sendall(head.encode() + body)
                assert b"answered" in wired.recv(65536), "an answer is waited for as long as it takes"
    finally:
        house.service.close()


def test_many_tokens_of_one_person_have_one_rate(house_in: Callable[..., House], tmp_path: Path) -> None:
    house = house_in(tmp_path, ("price_per_minute: 100000", "price_per_minute: 5"))
    try:
        statuses = []
        for _ in range(4):
            house.tokens["ann"] = house.service.register.issue("ann", role="analyst").text
            statuses += [house.send("ann", "POST", "/v1/price", ASK).status_code for _ in range(2)]
        assert statuses == [200] * 5 + [429] * 3
        assert house.send("ben", "POST", "/v1/price", ASK).status_code == 200
    finally:
        house.service.close()


def test_pages_have_the_rates_of_what_their_buttons_do(house_in: Callable[..., House], tmp_path: Path) -> None:
    limits = ("price_per_minute: 100000, questions_per_minute: 100000",
              "price_per_minute: 4, dummy_per_minute: 3, questions_per_minute: 2")  # fmt: skip
    house = house_in(tmp_path, limits)
    try:
        browser = house.browser("ann")
        asked = {"dataset": "visits", "purpose": "bed-planning", "sql": ASK["sql"], "by": "epsilon", "epsilon": "0.01"}
        for do, most in (("price", 4), ("dry", 3), ("ask", 2)):
            found = [sent(browser, "/ask", **asked, do=do, nonce=f"{turn}" * 32) for turn in range(most + 1)]
            assert [one.status_code for one in found[:-1]] == [303 if do == "ask" else 200] * most
            assert found[-1].status_code == 429 and "Too many requests" in found[-1].text
        assert house.ask("ann", "by-another-way").status_code == 429
        assert sent(house.browser("ben"), "/ask", **asked, do="ask", nonce="b" * 32).status_code == 303
    finally:
        house.service.close()


def test_a_question_that_could_not_be_booked_has_no_time_yet(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is called ready is looked at again at once by whatever waits for it, a thousand times a second."""
    claims, real, again = own_house.service.claims, own_house.service.claims.end, threading.Event()

    def busy(*_: Any, **__: Any) -> Any:
        raise LedgerBusy("another connection holds the book")

    def noted(question: str, generation: int, state: str, **values: Any) -> bool:
        done = real(question, generation, state, **values)
        if state == "quoted":
            again.set()
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Session, "sql", busy)
        patch.setattr(claims, "end", noted)
        number = own_house.ask("ann", "it-cannot-be-booked", wait=0).json()["id"]
        assert again.wait(20)
        row = claims.row(number)
        assert row is not None and row["state"] == "quoted" and row["ready"] is None
        assert claims.next_time(row) > claims.clock(), "an equal question waits for a time that is to come"
    own_house.service.worker.submit(number)
    assert ended(own_house, "it-cannot-be-booked", "answered")["state"] == "answered"


def test_one_person_cannot_keep_the_others_from_asking(house_in: Callable[..., House], tmp_path: Path) -> None:
    """The engine is held: whoever files questions without end is refused, and another one's is filed and booked."""
    house = house_in(tmp_path, ("limits: {", "limits: {waiting: 12, waiting_each: 6, "))
    try:
        engine: Any = house.service.datasets["visits"].source.engine
        with engine._lock:
            asked = [house.ask("ann", f"without-end-{turn}", wait=0, epsilon=f"0.001{turn:02d}") for turn in range(10)]
            assert [one.status_code for one in asked] == [202] * 6 + [503] * 4
            assert "questions of one person" in asked[-1].json()["detail"] and "6" in asked[-1].json()["detail"]
            other = house.ask("ben", "only-this-one", wait=0, epsilon="0.002")
            assert other.status_code == 202
            end = time.monotonic() + 20
            while reserves(house) < 7 and time.monotonic() < end:
                time.sleep(0.05)
            assert reserves(house) == 7
        ended_ = house.send("ben", "GET", f"/v1/questions/{other.json()['id']}", prefer="wait=30").json()
        assert ended_["state"] == "answered"
    finally:
        house.service.close()


# --- releases ---------------------------------------------------------------------------------------------------------


def test_a_release_is_run_by_one_process_at_a_time(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.server import releases as module

    first, number = own_house.service, own_house.send("cleo", "POST", "/v1/releases", {"dataset": "visits"}).json()["id"]
    ran, go = [], threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        ran.append(threading.current_thread())
        go.wait(20)
        raise ServiceError(code="unavailable")

    monkeypatch.setattr(module, "run", slow)
    with Service.open(first.configuration) as second:
        caller = first.register.by_token(own_house.token("cleo"))
        assert caller is not None
        assert first.releases.run(caller, number)["state"] == "running"
        assert second.releases.run(caller, number)["state"] == "running"
        time.sleep(0.2)
        assert len(ran) == 1
        # a process that said nothing for long is gone
        with first.database.write() as connection:
            connection.execute(module.releases.update().values(started=time.time() - 2 * module.LEASE))
        second.releases.run(caller, number)
        until = time.monotonic() + 10
        while len(ran) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(ran) == 2
        # what one published stays published, whatever the other says later
        first.releases._set(number, state="published")
        go.set()
        for thread in ran:
            thread.join(10)
        assert first.releases.read(caller, number)["state"] == "published"


# --- the client -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1.example.org", "http://localhost.example.org", "http://localhost@example.org", "http://example.org",
            "https://", "ftp://127.0.0.1", "http://127.0.0.1:8400@example.org/"],
)  # fmt: skip
def test_a_token_does_not_travel_in_plain(url: str) -> None:
    with pytest.raises(TableError, match="https"):
        tacit.connect(url, token="tacit_of_nobody")


def test_the_number_of_a_question_is_no_path(own_house: House) -> None:
    session = tacit.connect("http://testserver", token=own_house.token("ann"), purpose="bed-planning", client=own_house.client)
    for number in ("../book/export", "a/../../accounts", "", "x" * 65, "a?b=c", "a#b"):
        with pytest.raises(TableError, match="number"):
            session.answer(number)
