"""The pages without a browser: forms, refusals, headers, escaping, and that each shows what the service's calls return."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.server.house import House, followed
from tests.server.pages.house import tamper

from tacit.server.pages import files, words
from tacit.server.pages.ask import amount_in, grid, warnings
from tacit.server.pages.view import MENU, TEMPLATES

SQL = "SELECT region, COUNT(*) AS visits FROM visits GROUP BY region"
FORM = {"dataset": "visits", "purpose": "bed-planning", "sql": SQL, "by": "epsilon", "epsilon": "0.05", "rows": "1000", "nonce": "a" * 32}
SAME = {"origin": "http://127.0.0.1:8400", "sec-fetch-site": "same-origin"}
PATHS = ("/datasets", "/datasets/visits", "/datasets/visits/plain", *(where for where, _, _ in MENU), "/me", "/plain")


def sent(client: Any, path: str, **fields: Any) -> Any:
    """A form as a browser sends it from the service's own page."""
    token = re.search(r'name="form_token" value="([^"]+)"', client.get("/me").text)
    assert token is not None
    return client.post(path, data={"form_token": token[1], **fields}, headers=SAME, follow_redirects=False)


def test_each_page_is_there_for_those_whom_the_table_allows(house: House) -> None:
    """What the table denies is not in the menu and is not found."""
    for person in ("ann", "cleo", "olga"):
        client = house.browser(person)
        role = house.service.register.find(person)
        assert role is not None
        menu = client.get("/me").text
        for where, name, action in MENU:
            allowed = bool({r for r in role.roles} & set(_roles(action)))
            assert client.get(where).status_code == (200 if allowed else 404), (person, where)
            assert (f'href="{where}"' in menu) == allowed, (person, name)


def _roles(action: str) -> list[str]:
    from tacit.server import TABLE

    return list(TABLE[action])


def test_nobody_sees_a_page_without_signing_in(house: House) -> None:
    client = house.client
    client.cookies.clear()
    for path in PATHS:
        found = client.get(path, follow_redirects=False)
        if path == "/plain":
            assert found.status_code == 200
        else:
            assert (found.status_code, found.headers["location"]) == (303, "/sign-in"), path


def test_policy_and_no_inline_code(house: House) -> None:
    """The policy is on every page, and no page has an inline script, style or handler that it would have to stop."""
    client = house.browser("ann")
    for path in PATHS:
        found = client.get(path)
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "'unsafe" not in policy
        assert found.headers["cache-control"] == "no-store"
    for template in sorted(TEMPLATES.glob("*.html")):
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*\bsrc=)", text), template.name
        assert not re.search(r"\|\s*safe\b|autoescape false|https?://", text), template.name


def test_what_was_typed_is_escaped(house: House) -> None:
    client = house.browser("ann")
    evil = "SELECT '</textarea><script>alert(1)</script>' FROM visits"
    found = sent(client, "/ask", **{**FORM, "sql": evil}, do="price")
    assert found.status_code == 422
    assert "<script>alert" not in found.text
    assert html.escape("</textarea><script>alert(1)</script>", quote=False) in found.text


def test_forms_need_the_token_and_the_origin(house: House) -> None:
    client = house.browser("ann")
    good = dict(SAME)
    assert client.post("/ask", data=FORM, headers=good).status_code == 403
    assert client.post("/ask", data={**FORM, "form_token": "x" * 43}, headers=good).status_code == 403
    token = re.search(r'name="form_token" value="([^"]+)"', client.get("/me").text)
    assert token is not None
    full = {**FORM, "form_token": token[1], "do": "price"}
    assert client.post("/ask", data=full, headers={"origin": "https://evil.example", "sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/ask", data=full, headers=good).status_code == 200
    assert client.post("/ask", json=full, headers={**good, "x-tacit-form": token[1]}).status_code == 415


def test_price_dry_run_and_form_cost_nothing(house: House) -> None:
    client, account = house.browser("ann"), house.service.datasets["visits"].account
    before = account.spent()
    priced = sent(client, "/ask", **FORM, do="price")
    assert priced.status_code == 200 and "Prices to choose from" in priced.text and "visits within" in priced.text
    dry = sent(client, "/ask", **FORM, do="dry")
    assert "Made-up rows, so not the answer" in dry.text
    built = sent(client, "/ask", **FORM, do="build", build_figure="average", build_column="age", build_by="region")
    assert "SELECT region, AVG(age) AS average_age" in built.text
    refused = sent(client, "/ask", **FORM, do="build", build_figure="average", build_column="")
    assert refused.status_code == 422 and "needs a column with declared bounds" in refused.text
    assert account.spent() == before


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT regin, COUNT(*) AS n FROM visits GROUP BY regin", "there is no column regin"),
        ("SELECT COUNT(*) AS n FROM visits WHERE age >", "at line 1, column"),
        ("SELECT * FROM visits", "ask for aggregates"),
    ],
)
def test_a_mistake_gets_its_place_and_its_fix(house: House, sql: str, told: str) -> None:
    found = sent(house.browser("ann"), "/ask", **{**FORM, "sql": sql}, do="ask")
    assert found.status_code == 422 and told in html.unescape(found.text) and html.escape(sql) in found.text


def test_one_form_is_one_question(own_house: House) -> None:
    """The same form twice is one spend; another question from the same form is another; a form without its number is refused."""
    client, account = own_house.browser("ann"), own_house.service.datasets["visits"].account
    first = sent(client, "/ask", **FORM, do="ask")
    again = sent(client, "/ask", **FORM, do="ask")
    assert first.status_code == again.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    own_house.service.questions.wait(own_house.service.register.by_token(own_house.token("ann")), first.headers["location"][11:], 20)
    once = account.spent()["epsilon"]
    other = sent(client, "/ask", **{**FORM, "epsilon": "0.06"}, do="ask")
    assert other.headers["location"] != first.headers["location"]
    own_house.service.questions.wait(own_house.service.register.by_token(own_house.token("ann")), other.headers["location"][11:], 20)
    assert account.spent()["epsilon"] > once
    assert sent(client, "/ask", **{**FORM, "nonce": "short"}, do="ask").status_code == 403
    # from another tab, with another number: the same question is answered from the book
    both = account.spent()["epsilon"]
    tab = sent(client, "/ask", **{**FORM, "nonce": "b" * 32}, do="ask")
    own_house.service.questions.wait(own_house.service.register.by_token(own_house.token("ann")), tab.headers["location"][11:], 20)
    assert account.spent()["epsilon"] == both


def test_answer_share_and_files(house: House) -> None:
    ann, ben, olga = house.browser("ann"), house.browser("ben"), house.browser("olga")
    where = sent(ann, "/ask", **{**FORM, "nonce": "d" * 32}, do="ask").headers["location"]
    caller = house.service.register.by_token(house.token("ann"))
    house.service.questions.wait(caller, where[11:], 20)
    shown = ann.get(where).text
    answer = house.service.questions.answer(caller, where[11:])
    for region, value, low, high in zip(answer.keys["region"], *_figure(answer), strict=True):
        half = (high - low) / 2
        assert region in shown and f"<strong>{words.number(value, half)}</strong>" in shown
    assert "19 times in 20" in shown and "tacit.connect" in shown and "entry" not in shown
    assert ann.get(f"{where}/answer.csv").text.splitlines()[0].startswith('"region"')
    assert ann.get(f"{where}/answer.json").json()["figures"]["visits"]["value"] == list(answer["visits"])
    for form, start in (("arrow", b"\xff\xff\xff\xff"), ("parquet", b"PAR1")):
        assert ann.get(f"{where}/answer.{form}").content[:4] == start
    assert ann.get(f"{where}/answer.exe").status_code == 404
    # no one else finds it before it is shared; the officer sees what was asked, and no figure
    assert ben.get(where).status_code == ben.get(f"{where}/answer.csv").status_code == 404
    seen = olga.get(where).text
    assert re.search(r'href="/book\?since=\d+">entry \d+<', seen)
    assert html.escape(SQL) in seen and words.number(float(answer["visits"][0]), 1e-9) not in seen and "<strong>" not in seen
    assert sent(ann, f"{where}/share").status_code == 303
    link = re.search(r"/shared/\w+", ann.get(where).text)
    assert link is not None
    assert words.number(float(answer["visits"][0]), _half(answer)) in ben.get(link[0]).text
    assert link[0] in ben.get("/history").text
    assert ben.get("/shared?link=http://elsewhere" + link[0]).url.path == link[0]
    assert ben.get("/shared/" + "0" * 32).status_code == 404


def _figure(answer: Any) -> tuple[Any, Any, Any]:
    figures = answer.figures["visits"]
    return figures.value.tolist(), figures.low.tolist(), figures.high.tolist()


def _half(answer: Any) -> float:
    figures = answer.figures["visits"]
    return float(figures.high[0] - figures.low[0]) / 2


def test_approval_and_over_budget(own_house: House) -> None:
    ann, olga, account = own_house.browser("ann"), own_house.browser("olga"), own_house.service.datasets["visits"].account
    where = sent(ann, "/ask", **{**FORM, "epsilon": "1.9"}, do="ask").headers["location"]
    assert "Waits for approval" in ann.get(where).text and account.spent()["epsilon"] == 0
    budget = olga.get("/budget").text
    assert html.escape(SQL) in budget
    assert sent(ann, f"/approvals/{where[11:]}", decision="approve", reason="I want it").status_code == 404
    assert sent(olga, f"/approvals/{where[11:]}", decision="approve").status_code == 422
    assert sent(olga, f"/approvals/{where[11:]}", decision="approve", reason="the plan needs it").status_code == 303
    own_house.service.questions.wait(own_house.service.register.by_token(own_house.token("ann")), where[11:], 20)
    assert "the plan needs it" in ann.get(where).text
    over = sent(ann, "/ask", **{**FORM, "epsilon": "0.5", "nonce": "e" * 32}, do="ask")
    assert over.status_code == 409 and "What would fit" in over.text
    assert "1.9" in olga.get("/budget").text


def test_book_verifies_and_names_a_change(own_house: House) -> None:
    olga = own_house.browser("olga")
    own_house.ask("ann", "a-key-of-its-own")
    head = own_house.service.ledger.head()
    found = sent(olga, "/book/verify", head=head)
    assert "The book is in order" in found.text and "the head that you remembered is among them" in found.text
    assert "is a number, a colon" in sent(olga, "/book/verify", head="nonsense").text
    assert "paid" in olga.get("/book?search=ann").text
    tamper(own_house.service.configuration.url.removeprefix("sqlite:///"))
    found = sent(olga, "/book/verify", head=head)
    assert "The book was changed" in found.text and re.search(r"<li>[^<]*entry \d+", found.text)


def test_people_may_stop_and_the_page_says_what_stays(house: House) -> None:
    olga = house.browser("olga")
    known = sent(olga, "/subjects", dataset="visits", person="17", what="access").text
    assert "What the person may know" in known and "bed-planning" in known and 'value="17"' not in known
    for what in ("withdraw", "object", "erase", "restore"):
        told = sent(olga, "/subjects", dataset="visits", person="17", what=what).text
        assert "Done" in told and 'value="17"' not in told
    assert "What was spent is not refunded" in sent(olga, "/subjects", dataset="visits", person="18", what="erase").text
    assert sent(olga, "/subjects", dataset="visits", person="x", what="erase").status_code == 422
    assert sent(olga, "/subjects", dataset="visits", person="17", what="publish").status_code == 422
    assert sent(house.browser("ann"), "/subjects", dataset="visits", person="17", what="erase").status_code == 404


def test_purposes_decisions_models_tokens(own_house: House) -> None:
    cleo, olga = own_house.browser("cleo"), own_house.browser("olga")
    new = {"id": "shifts", "datasets": "visits", "who": "nurses of the wards", "statistics": "means of nights by region", "epsilon": "1"}
    vague = sent(cleo, "/purposes", **new, why="research", until="2030-01-01")
    assert vague.status_code == 422 and "vague" in vague.text and "nurses of the wards" in vague.text
    assert "is no date" in sent(cleo, "/purposes", **new, why="plan the shifts of nurses", until="soon").text
    assert sent(cleo, "/purposes", **new, why="plan the shifts of nurses", until="2030-01-01").status_code == 303
    assert "shifts" in cleo.get("/purposes").text
    assert sent(olga, "/decisions", subject="visits", epsilon="4", rationale="few figures").status_code == 422
    made = sent(olga, "/decisions", subject="visits", epsilon="4", rationale="few figures", alternatives="2\n8", reviewers="ben, cleo")
    assert made.status_code == 303 and "2; 8" in olga.get("/budget").text
    assert sent(cleo, "/decisions", subject="visits", epsilon="4", rationale="x", alternatives="2").status_code == 404
    six = dict.fromkeys(("unit", "complexity", "attack_model", "environment", "data_window", "accuracy_needed"), "said")
    assert sent(cleo, "/models", dataset="visits", name="triage", **six, attacks="none found").status_code == 303
    shown = cleo.get("/models").text
    assert "none found" in shown and "safe" not in shown.lower()
    token = sent(cleo, "/me/tokens", role="curator", days="5", label="nightly").text
    text = re.search(r'data-copy="the token">([^<]+)<', token)
    assert text is not None and text[1] not in cleo.get("/me").text
    assert own_house.client.get("/v1/me", headers={"authorization": f"Bearer {text[1]}"}).status_code == 200
    revoke = re.search(r"/me/tokens/\w+/revoke", cleo.get("/me").text)
    assert revoke is not None and sent(cleo, revoke[0]).status_code == 303
    assert own_house.client.get("/v1/me", headers={"authorization": f"Bearer {text[1]}"}).status_code == 401
    assert sent(cleo, "/me/tokens", role="officer", days="5").status_code == 422


def test_sign_out_ends_the_session_on_the_server(house: House) -> None:
    client = house.browser("ben")
    kept = dict(client.cookies)
    assert sent(client, "/sign-out").status_code == 303
    client.cookies.update(kept)
    assert client.get("/datasets", follow_redirects=False).headers["location"] == "/sign-in"


def test_refusals_are_pages_for_people_and_documents_for_programs(house: House) -> None:
    assert house.client.get("/nowhere").headers["content-type"].startswith("text/html")
    assert house.client.get("/v1/nowhere").headers["content-type"] == "application/problem+json"
    failed = followed(house.client, "x" * 43)
    assert failed.status_code == 403 and "Signing in failed" in failed.text


# --- parts ------------------------------------------------------------------------------------------------------------


def test_slider_starts_low_and_ends_at_what_is_left() -> None:
    for most in (4.0, 2.0, 0.37, 1e-3):
        steps = [float(step) for step in grid(most)]
        assert len(steps) == 25 and steps[-1] <= most < steps[-1] * 1.01 and steps[9] < most / 10
        assert all(low < high for low, high in pairwise(steps))


def test_warnings_are_those_of_planning(house: House) -> None:
    dataset = house.service.datasets["visits"]
    assert warnings(dataset, SQL, 0.5) == []
    assert any("no meaningful promise" in text for text in warnings(dataset, SQL, 12.0))
    assert warnings(dataset, "not sql", 0.5) == []


def test_vendored_files_are_those_of_the_manifest() -> None:
    """Each file is the one that was pinned, each package has its licence text, and nothing else is there."""
    folder = files.STATIC / "vendor"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    named = {"manifest.json"}
    for package in manifest["packages"]:
        assert re.fullmatch(r"[0-9a-f]{64}", package["tarball"]) and package["licence"]
        assert any("LICENSE" in file["to"] for file in package["files"])
        for file in package["files"]:
            assert hashlib.sha256((folder / file["to"]).read_bytes()).hexdigest() == file["sha256"], file["to"]
            named.add(file["to"])
    assert {path.name for path in folder.iterdir()} == named


def test_static_files_are_kept_and_compressed(house: House) -> None:
    where = files.address("tacit.css")
    found = house.client.get(where, headers={"accept-encoding": "gzip"})
    assert found.headers["cache-control"].endswith("immutable") and found.headers["content-encoding"] == "gzip"
    assert house.client.get(where.replace(files.kept()[0], "0" * 16)).headers["cache-control"] == "no-store"
    for odd in ("../desk.py", "..%2f..%2fdesk.py", "nothing.js", "vendor/"):
        assert house.client.get(f"/static/{files.kept()[0]}/{odd}").status_code == 404


def test_first_page_is_small() -> None:
    """Everything that the page to ask needs, compressed: the heaviest of all pages, under 350 KB."""
    kept = files.kept()[1]
    assert sum(len(small) for name, (_, small) in kept.items() if name.endswith((".js", ".css", ".svg"))) + 6_000 < 350_000


@pytest.mark.parametrize(("currency", "part"), [("rho", "0.2"), ("mu", "0.5")])
def test_a_budget_in_rho_or_mu_is_asked_in_it(
    house_in: Callable[..., House], hospital: Path, tmp_path: Path, currency: str, part: str
) -> None:
    job = (hospital / "visits.yaml").read_text(encoding="utf-8")
    job = job.replace("budget: {epsilon: 1, delta: 1e-6}", "budget: {rho: 0.1}")
    job = job.replace("budget: {epsilon: 4, delta: 1e-5}", "budget: {rho: 0.5}")
    (tmp_path / "visits.yaml").write_text(job, encoding="utf-8")
    house = house_in(tmp_path, ("epsilon: 2\n", f"{currency}: {part}\n"), ("epsilon: 1\n", f"{currency}: 0.1\n"))
    client = house.browser("ann")
    text = client.get("/ask?dataset=visits&purpose=bed-planning").text
    assert f'data-currency="{currency}"' in text and f"{part} {currency} left" in text and f"this much privacy ({currency})" in text
    priced = sent(client, "/ask", **{**FORM, "epsilon": "0.002"}, do="price")
    assert priced.status_code == 200 and f"Costs {currency} <strong>0.002" in priced.text
    statement = {name: FORM[name] for name in ("dataset", "purpose", "sql")}
    curve = house.send("ann", "POST", "/v1/price", {**statement, f"{currency}s": ["0.001", "0.002"]}).json()
    assert [round(amount_in(currency, one["charge"]) or 0, 6) for one in curve["prices"]] == [0.001, 0.002]
    asked = sent(client, "/ask", **{**FORM, "epsilon": "0.002"}, do="ask")
    ann = house.service.register.by_token(house.token("ann"))
    assert ann is not None
    view = house.service.questions.wait(ann, asked.headers["location"].rpartition("/")[2], 30)
    assert view["state"] == "answered" and view["price"]["event"]["type"] == "Gaussian"
    account = next(one for one in house.send("ann", "GET", "/v1/accounts").json() if one["purpose"] == "bed-planning")
    assert amount_in(currency, account["spent"]) == pytest.approx(0.002, rel=1e-3)
    for where in ("/datasets", "/datasets/visits", "/budget", "/history", "/purposes", asked.headers["location"]):
        assert client.get(where).status_code == 200, where
    assert f"{currency} {part}" in client.get("/purposes").text
    assert house.browser("olga").get("/budget").status_code == 200
    house.service.close()
