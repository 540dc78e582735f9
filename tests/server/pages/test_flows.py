"""The flows of the service in a browser, with one server and one browser for all of them.

The numbers are those of the specification: 1 sign in by link, 2 by OpenID Connect, 3 a mistake, 4 slider and wanted error, 5 dry run,
6 ask and wait, 7 four files, 8 double click and two tabs, 9 over budget, 10 history and sharing, 11 approval, 12 verify and tampering,
13 withdraw and erase, 14 keyboard, no scripts, sign out, back. `make test` runs those that only a browser can show; the others are
shown there by `test_views.py`, through the same forms, and here in `make test-slow`. No test depends on what another one drew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.pages.house import SQL, Town, tamper
from tests.server.provider import ISSUER, Liar

from tacit.server.config import SignIn
from tacit.server.oidc import Provider


@pytest.fixture(autouse=True)
def quiet(town: Town) -> Iterator[None]:
    """No test may leave a complaint of the browser, which tells of a policy that was broken, or a request to elsewhere."""
    yield
    for context in list(town.browser.contexts):
        context.close()
    complaints, abroad = list(town.complaints), list(town.abroad)
    town.complaints.clear()
    town.abroad.clear()
    assert not complaints and not abroad


def asking(town: Town, person: str = "ann", sql: str = SQL, **options: Any) -> Any:
    """The page to ask, once its prices are there."""
    page = town.page(person, f"/ask?sql={sql}", **options)
    page.wait_for_selector("#live:not([hidden])")
    return page


@pytest.mark.slow
def test_1_sign_in_by_link_works_once(town: Town) -> None:
    link = f"/sign-in/link/{town.service.register.link('ben')}"
    page = town.page(None, "/")
    assert page.url.endswith("/sign-in")
    town.page(None, link).close()  # a scanner of mail that opens every link uses nothing up
    page.goto(link)
    assert page.inner_text("h1") == "Sign in"
    page.click("main button")
    assert page.url.endswith("/datasets") and page.inner_text("h1") == "Data sets"
    other = town.page(None, link)
    other.click("main button")
    assert "Signing in failed" in other.inner_text("main")


@pytest.mark.slow
def test_2_sign_in_by_an_identity_provider(town: Town) -> None:
    """Through the provider's page and back; the provider is played by a route of the browser and a transport of the service."""
    liar = Liar(subject="ben-at-work")
    town.service.register.add("ben", roles=("analyst",), datasets=("visits",), name="Ben (analyst)", subject="ben-at-work")
    town.service.provider = Provider(SignIn(issuer=ISSUER, client="tacit"), "s3cret", town.service.database, town.base, transport=liar)
    page = town.context().new_page()

    def provider(route: Any) -> None:
        back = f"{town.base}/sign-in/callback?code=the-code&state={liar.authorize(route.request.url)}"
        route.fulfill(status=200, content_type="text/html", body=f'<a id="back" href="{back}">That is me</a>')

    page.route(f"{ISSUER}/**", provider)
    page.goto("/sign-in")
    page.click("text=Sign in with your organisation")
    page.click("#back")
    assert page.url.endswith("/datasets") and "Ben (analyst)" in page.inner_text("header")
    town.abroad.clear()  # the provider's page, which the browser was sent to
    town.service.provider = None


@pytest.mark.slow
def test_3_a_mistake_gets_its_place_and_its_fix(town: Town) -> None:
    page = town.page("ann", "/ask?sql=SELECT COUNT(*) AS n FROM visits WHERE age >")
    told = page.wait_for_selector("#sql-error:not([hidden])")
    assert "line 1, column" in told.inner_text() and "nothing was spent" not in told.inner_text().split("\n")[0]
    page.fill("#f-sql", "SELECT regin, COUNT(*) AS n FROM visits GROUP BY regin")
    page.wait_for_selector("#sql-error:has-text('there is no column regin')")
    page.fill("#f-sql", "SELECT region, COUNT(*) AS n FROM visits GROUP BY region")
    page.wait_for_selector("#live:not([hidden])")
    assert page.locator("#sql-error").is_hidden()


def test_4_slider_and_wanted_error_move_each_other_without_a_request(town: Town) -> None:
    page = asking(town)
    page.wait_for_selector("#outcome details")  # the page has asked for what it asks for
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    start, within = int(page.input_value("#slider")), float(page.input_value("#f-within"))
    chart = page.inner_html("#intervals")
    page.focus("#slider")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert int(page.input_value("#slider")) == start + 5
    assert float(page.input_value("#f-within")) < within and page.inner_html("#intervals") != chart
    assert page.is_checked("#f-by-epsilon")
    page.fill("#f-within", str(within * 3))
    assert int(page.input_value("#slider")) < start and page.is_checked("#f-by-accuracy")
    assert float(page.inner_text("#p-after")) < float(page.inner_text("#p-left"))
    page.fill("#f-within", "0.001")
    assert "more exact than what is left allows" in page.inner_text("#sentence")
    assert page.input_value("#slider") == page.get_attribute("#slider", "max")
    assert "within" in (page.get_attribute("#slider", "aria-valuetext") or "")
    assert asked == []


@pytest.mark.slow
def test_4_what_the_slider_foretells_is_what_the_service_says(town: Town) -> None:
    """The error beside the slider is that of `price` at the same epsilon; a wanted error is priced to within what the page shows."""
    from tacit.server.requests import PriceRequest

    page = asking(town)
    epsilon = page.input_value("#f-epsilon")
    given = {"dataset": "visits", "purpose": "bed-planning", "sql": SQL}
    caller = town.caller("ann")
    price = town.service.questions.price(caller, PriceRequest(**given, epsilon=epsilon))
    assert float(page.input_value("#f-within")) == float(f"{price['errors']['visits']:.2g}")
    page.fill("#f-within", "700")
    exact = town.service.questions.price(caller, PriceRequest(**given, accuracy={"visits": "700"}))
    # between two prices a straight line of logarithms stands for the true curve, and the search stops at half a percent
    assert float(page.inner_text("#p-cost")) == pytest.approx(exact["charge"]["epsilon"], rel=0.02)


@pytest.mark.slow
def test_5_dry_run_costs_nothing(town: Town) -> None:
    page, before = asking(town), town.spent()
    page.click("#dry")
    page.wait_for_selector("#outcome:has-text('Made-up rows, so not the answer')")
    assert page.locator("#outcome table tbody tr").count() >= 6 and town.spent() == before
    assert "NOT PRIVATE" not in page.inner_text("#outcome")  # said in plain words instead


def test_6_7_ask_wait_answer_with_intervals_and_four_files(town: Town) -> None:
    page = asking(town)
    page.fill("#f-within", "900")
    page.click("#send")
    page.wait_for_selector("#answer")
    assert page.locator("#answer tbody tr").count() == 6
    page.wait_for_selector(".chart svg[role=img]")
    assert page.locator(".chart svg").count() == 2 and "19 times in 20" in page.inner_text("main")
    for form, start in (("CSV", b'"region"'), ("JSON", b"{"), ("Arrow", b"\xff\xff\xff\xff"), ("Parquet", b"PAR1")):
        with page.expect_download() as got:
            page.get_by_role("link", name=form, exact=True).click()
        with open(got.value.path(), "rb") as file:
            assert file.read(len(start)) == start


def test_8_double_click_and_two_tabs_spend_once(town: Town) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    first, before = asking(town, sql=sql), town.spent()
    second = first.context.new_page()
    second.goto(first.url)
    second.wait_for_selector("#live:not([hidden])")
    paid = float(first.input_value("#f-epsilon"))
    first.dblclick("#send")
    first.wait_for_selector("#answer")
    second.click("#send")
    second.wait_for_selector("#answer")
    assert first.inner_text("#answer") == second.inner_text("#answer")
    assert town.spent() - before == pytest.approx(paid, rel=1e-3)


@pytest.mark.slow
def test_9_over_budget_is_refused_with_what_would_fit(town: Town) -> None:
    page = asking(town, "ben")
    before = town.spent()
    page.fill("#f-within", "20")
    page.click("#send")
    told = page.wait_for_selector("#error").inner_text()
    assert "The budget does not allow this" in told and "What would fit" in told and town.spent() == before


@pytest.mark.slow
def test_10_history_share_another_analyst_and_a_stranger(town: Town) -> None:
    number = town.asked()
    page = town.page("ann", "/history")
    page.click(f"a[href='/questions/{number}']")
    page.click("text=Make a link for colleagues")
    link = page.inner_text("#share code")
    path = "/shared/" + link.rpartition("/")[2]
    ben = town.page("ben", path)
    assert ben.inner_text("#answer") == page.inner_text("#answer") and ben.locator("#share").count() == 0
    assert ben.goto("/history").ok and ben.locator(f"a[href='{path}']").count() == 1
    assert town.page("ben", f"/questions/{number}").inner_text("h1") == "Not found"
    assert town.page(None, path).url.endswith("/sign-in")


@pytest.mark.slow
def test_11_approval(town: Town) -> None:
    page = asking(town, sql="SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis")
    page.locator("#slider").fill("22")
    page.wait_for_selector("#p-approval:not([hidden])")
    before = town.spent()
    page.click("#send")
    page.wait_for_selector(".tag.waiting")
    assert town.spent() == before
    officer = town.page("olga", "/budget")
    officer.fill("#approvals input[name=reason]", "the plan needs it")
    officer.click("text=Approve")
    page.wait_for_selector("#answer")
    assert "the plan needs it" in page.inner_text("main") and town.spent() > before


@pytest.mark.slow
def test_13_withdraw_and_erase_then_ask_again(town: Town) -> None:
    page = town.page("olga", "/subjects")
    for what in ("withdraw", "erase"):
        page.fill("#f-person", "21")
        page.check(f"#w-{what}")
        page.click("text=Carry it out")
        told = page.wait_for_selector("#done").inner_text()
        assert "not refunded" in told and "stands" in told and page.input_value("#f-person") == ""
    number = town.asked(sql="SELECT COUNT(*) AS n FROM visits")
    assert town.page("ann", f"/questions/{number}").locator("#answer").count() == 1


@pytest.mark.slow
def test_14_keyboard_alone(town: Town) -> None:
    """From the sign-in to an answer without a pointer: the skip link, the menu, the form, completion, the slider, and the button."""
    page = town.page("ann", "/datasets")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"
    page.get_by_role("link", name="Ask", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#live:not([hidden])")
    page.focus("#f-sql")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT reg")
    page.wait_for_selector("#suggestions:not([hidden])")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#f-sql") == "SELECT region"
    page.keyboard.type(", COUNT(*) AS n FROM visits GROUP BY reg")
    page.keyboard.press("Escape")
    page.keyboard.type("ion")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.id") == "send":
            break
    page.wait_for_selector("#live:not([hidden])")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer")


def test_14_without_scripts(town: Town) -> None:
    page = town.page("ann", "/ask", scripts=False)
    assert page.locator("#slider").is_hidden() and page.locator("#f-epsilon").is_visible()
    page.click("summary")
    page.select_option("#f-build-figure", "average")
    page.select_option("#f-build-column", "nights")
    page.select_option("#f-build-by", "region")
    page.click("text=Write it as SQL")
    assert "AVG(nights)" in page.input_value("#f-sql")
    page.check("#f-by-accuracy")
    page.fill("#f-within", "9")
    page.click("#check")
    assert "average_nights within" in page.inner_text("#outcome")
    page.click("#dry")
    assert "Made-up rows" in page.inner_text("#outcome")
    before = town.spent()
    page.click("#send")
    page.wait_for_selector("#answer")  # the page looks again by itself
    assert town.spent() > before
    page.goto("/history")
    page.click("text=Sign out")
    assert page.url.endswith("/sign-in")
    town._states.pop("ann")


@pytest.mark.slow
def test_14_sign_out_and_back(town: Town) -> None:
    page = town.page("ann", "/datasets")
    page.goto("/history")
    page.click("text=Sign out")
    assert page.url.endswith("/sign-in")
    page.go_back()
    page.reload()
    assert page.url.endswith("/sign-in") and "Ann" not in page.inner_text("body")
    town._states.pop("ann")


@pytest.mark.slow
def test_zz_12_officer_verifies_then_a_tampered_book(town: Town) -> None:
    """The last one, because it spoils the book: the fault is found, and its entry is named."""
    town.asked(sql="SELECT AVG(age) AS a FROM visits")
    page = town.page("olga", "/book")
    head = page.inner_text("code[data-copy='the head']")
    page.fill("#f-head", head)
    page.click("text=Verify now")
    assert "The book is in order" in page.inner_text("#verified")
    page.fill("#f-search", "ann")
    page.wait_for_selector("#entries td:has-text('ann')")
    tamper(town.service.configuration.url.removeprefix("sqlite:///"))
    page.fill("#f-head", head)
    page.click("text=Verify now")
    told = page.inner_text("#verified")
    assert "The book was changed" in told and re.search(r"entry \d+", told)
