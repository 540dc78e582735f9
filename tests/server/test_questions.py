"""A question's life through the API: priced, asked once, read in four forms, shared, approved, refused, lost."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.server.house import ASK, SQL, House

from tacit.accounting import Laplace
from tacit.tables import Desk, answer_from, price_from


def account(house: House, person: str = "ann") -> Any:
    dataset, purpose = house.service.datasets["visits"], house.service.purposes.find("bed-planning")
    assert purpose is not None
    return dataset.account_of(purpose, person)


def test_a_price_is_that_of_the_session(house: House) -> None:
    found = house.send("ann", "POST", "/v1/price", ASK).json()
    dataset, purpose = house.service.datasets["visits"], house.service.purposes.find("bed-planning")
    assert purpose is not None
    assert price_from(found) == dataset.session(purpose, "ann").price(SQL, epsilon="0.1")
    assert found["event"] == {"type": "Laplace", "adjacency": "add-remove", "noise_multiplier": "10"}
    assert found["fits"] is True and found["approval"] is False


def test_a_curve_is_its_single_prices(house: House) -> None:
    asked = {name: value for name, value in ASK.items() if name != "epsilon"}
    curve = house.send("ann", "POST", "/v1/price", {**asked, "epsilons": ["0.1", "0.3", "3"]}).json()["prices"]
    single = [house.send("ann", "POST", "/v1/price", {**asked, "epsilon": e}).json() for e in ("0.1", "0.3", "3")]
    assert [price_from(one) for one in curve] == [price_from(one) for one in single]
    assert [one["fits"] for one in curve] == [True, True, False]
    assert [one["approval"] for one in curve] == [False, False, True]
    wanted = house.send("ann", "POST", "/v1/price", {**asked, "accuracies": [{"n": 1000}, {"n": 100}]}).json()["prices"]
    assert wanted[0]["errors"]["n"] <= 1000 and wanted[1]["errors"]["n"] <= 100
    assert wanted[0]["cost"]["upper"] < wanted[1]["cost"]["upper"]


def test_the_same_key_and_body_are_one_question(own_house: House) -> None:
    first = own_house.ask("ann", "a-key-of-ann")
    assert first.status_code == 200 and first.json()["state"] == "answered"
    again = own_house.ask("ann", "a-key-of-ann")
    assert again.json() == first.json()
    # the JSON may be laid out in another way
    turned = dict(reversed(ASK.items()))
    assert own_house.send("ann", "POST", "/v1/questions", turned, idempotency_key="a-key-of-ann").json()["id"] == first.json()["id"]
    other = own_house.ask("ann", "a-key-of-ann", epsilon="0.2")
    assert other.status_code == 409 and other.json()["type"] == "/problems/key-other-body"
    assert own_house.service.ledger.verify().ok
    assert float(account(own_house).spent()["epsilon"]) == pytest.approx(0.1, rel=1e-4)
    # another person's key is another key
    assert own_house.ask("ben", "a-key-of-ann").json()["id"] != first.json()["id"]


def test_identical_questions_are_answered_from_the_book_with_their_date(own_house: House) -> None:
    first, second = own_house.ask("ann", "first-key").json(), own_house.ask("ann", "second-key").json()
    assert second["id"] != first["id"] and own_house.entry(second) == own_house.entry(first) is not None
    assert second["answered"] == first["answered"] and second["answer"]["figures"] == first["answer"]["figures"]
    assert float(account(own_house).spent()["epsilon"]) == pytest.approx(0.1, rel=1e-4)


def test_sixteen_at_once_under_one_key_spend_once(own_house: House) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: own_house.ask("ann", "one-key-for-all"), range(16)))
    assert {one.status_code for one in found} == {200}
    assert len({one.json()["id"] for one in found}) == 1
    reserves = [entry for entry in own_house.service.ledger.entries() if entry["kind"] == "reserve"]
    assert len(reserves) == 1


def test_the_answer_in_four_forms(house: House) -> None:
    view = house.ask("ann", "four-forms").json()
    answer, where = answer_from(view["answer"]), f"/v1/questions/{view['id']}"
    assert answer.event == Laplace(noise_multiplier=10) and answer.private and answer.entry is None
    arrow = house.send("ann", "GET", where, accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(arrow.content).read_all().equals(answer.to_arrow())
    parquet = house.send("ann", "GET", where, accept="application/vnd.apache.parquet")
    assert pq.read_table(io.BytesIO(parquet.content)).to_pydict() == answer.to_arrow().to_pydict()
    csv = house.send("ann", "GET", where, accept="text/csv")
    assert csv.text.splitlines()[0] == '"region","n","n_low","n_high"' and len(csv.text.splitlines()) == 7
    assert house.send("ann", "GET", where, accept="image/png").status_code == 406
    assert "content-encoding" not in csv.headers


def test_a_key_is_needed(house: House) -> None:
    for headers in ({}, {"idempotency_key": "short"}, {"idempotency_key": "x" * 201}):
        found = house.send("ann", "POST", "/v1/questions", ASK, **headers)
        assert found.status_code in (400, 422), headers


def test_over_budget_says_what_would_fit(house: House) -> None:
    found = house.ask("ann", "too-much-of-it", epsilon="2.5")
    assert found.status_code == 409 and found.json()["type"] == "/problems/budget-exceeded"
    assert "fits" in found.json() and 0 < found.json()["left"]["epsilon"] <= 2


def test_mistyped_sql_gets_its_fix(house: House) -> None:
    found = house.send("ann", "POST", "/v1/price", {**ASK, "sql": "SELECT regionn, COUNT(*) FROM visits GROUP BY regionn"})
    assert found.status_code == 422 and "regionn" in found.json()["detail"] and "region" in found.json()["detail"]
    two = house.send("ann", "POST", "/v1/price", {**ASK, "sql": "SELECT COUNT(*) AS n FROM visits; DROP TABLE visits"})
    assert two.status_code == 422


def test_above_the_threshold_the_officer_decides(own_house: House) -> None:
    waits = own_house.ask("ann", "a-dear-question", wait=0, epsilon="0.6").json()
    assert waits["state"] == "waiting" and own_house.service.ledger.verify().ok
    assert "epsilon" in account(own_house).left() and account(own_house).spent()["epsilon"] == 0
    listed = own_house.send("olga", "GET", "/v1/approvals").json()
    assert [one["id"] for one in listed] == [waits["id"]]
    for person in ("ann", "cleo"):
        said = {"decision": "approve", "reason": "because"}
        assert own_house.send(person, "POST", f"/v1/approvals/{waits['id']}", said).status_code == 404
    said = {"decision": "approve", "reason": "the plan needs it"}
    assert own_house.send("olga", "POST", f"/v1/approvals/{waits['id']}", said).status_code == 200
    done = own_house.send("ann", "GET", f"/v1/questions/{waits['id']}", prefer="wait=30").json()
    assert done["state"] == "answered" and done["decision"] == {"by": "olga", "reason": "the plan needs it"}
    assert own_house.send("olga", "POST", f"/v1/approvals/{waits['id']}", said).status_code == 409
    declined = own_house.ask("ann", "a-second-dear-one", wait=0, epsilon="0.7").json()
    no = {"decision": "decline", "reason": "too dear"}
    assert own_house.send("olga", "POST", f"/v1/approvals/{declined['id']}", no).json()["state"] == "declined"
    assert float(account(own_house).spent()["epsilon"]) == pytest.approx(0.6, rel=1e-4)


def test_a_shared_answer_is_read_by_those_who_may_see_the_data_set(own_house: House) -> None:
    view = own_house.ask("ann", "to-be-shared").json()
    share = own_house.send("ann", "POST", f"/v1/questions/{view['id']}/share").json()["share"]
    assert own_house.send("ann", "POST", f"/v1/questions/{view['id']}/share").json()["share"] == share
    service = own_house.service
    ben = service.register.by_token(own_house.token("ben"))
    assert ben is not None
    assert service.questions.shared(ben, share)["answer"] == view["answer"]
    service.register.add("eve", roles=["analyst"], datasets=[])
    eve = service.register.by_token(own_house.token("eve"))
    assert eve is not None
    with pytest.raises(Exception) as caught:
        service.questions.shared(eve, share)
    assert getattr(caught.value, "code", "") == "not-found"


def test_a_failure_after_payment_looks_like_an_answer(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same status, same size class, one constant text; it is paid for, and never drawn again."""
    good = own_house.ask("ann", "a-good-question")
    drawn = []

    def broken(desk: Desk, plan: Any) -> Any:
        drawn.append(plan)
        raise ValueError("Ada Lovelace has cell 7")

    monkeypatch.setattr(Desk, "draw", broken)
    bad = own_house.ask("ann", "a-bad-question", epsilon="0.15")
    assert bad.status_code == good.status_code == 200 and len(bad.content) == len(good.content)
    assert bad.json()["state"] == "lost" and "Ada" not in bad.text and bad.json()["answer"] is None
    again = own_house.ask("ann", "a-bad-question", epsilon="0.15")
    assert again.json()["state"] == "lost" and len(drawn) == 1
    assert float(account(own_house).spent()["epsilon"]) == pytest.approx(0.25, rel=1e-4)
    as_file = own_house.send("ann", "GET", f"/v1/questions/{bad.json()['id']}", accept="text/csv")
    assert as_file.status_code == 409 and as_file.json()["type"] == "/problems/lost"


def test_an_outcome_is_not_seen_before_its_time(own_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the grid lets it out, a stored answer and a lost one both look like work under way."""
    view = own_house.ask("ann", "asked-at-some-time").json()
    questions, row = own_house.service.questions, own_house.service.claims.row(view["id"])
    assert row is not None
    due = questions.due(row)
    assert due is not None
    doublings = (due - questions.grid.spread(row["id"]) - row["started"]) / 0.01
    assert doublings == pytest.approx(2 ** round(doublings - 1).bit_length(), rel=1e-3)
    monkeypatch.setattr(own_house.service.claims, "clock", lambda: due - 1e-3)
    for state in ("stored", "lost"):
        early = questions.view({**row, "state": state})
        assert early["state"] == "running" and early["answer"] is None and early["answered"] is None
        assert questions.view({**row, "state": state}, answer=False, entry=True)["entry"] is None


def test_watchers_hear_of_each_state(own_house: House) -> None:
    waits = own_house.ask("ann", "to-be-watched", wait=0, epsilon="0.6").json()
    heard: list[str] = []

    def watch() -> None:
        heard.append(own_house.send("ann", "GET", f"/v1/questions/{waits['id']}/events").text)

    thread = threading.Thread(target=watch)
    thread.start()
    own_house.send("olga", "POST", f"/v1/approvals/{waits['id']}", {"decision": "approve", "reason": "yes"})
    thread.join(timeout=60)
    assert '"state": "answered"' in heard[0] and heard[0].startswith("event: state")


def test_a_token_spends_no_more_than_its_day(own_house: House) -> None:
    register = own_house.service.register
    own_house.tokens["ann"] = register.issue("ann", role="analyst", epsilon_a_day="0.25").text
    assert own_house.ask("ann", "first-of-the-day").status_code == 200
    assert own_house.ask("ann", "second-of-the-day", epsilon="0.15").status_code == 200
    third = own_house.ask("ann", "third-of-the-day", epsilon="0.01")
    assert third.status_code == 409 and third.json()["type"] == "/problems/daily-limit"
