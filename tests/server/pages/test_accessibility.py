"""Accessibility by axe-core: no violation of WCAG 2.2 A and AA, on every page, light and dark, at 320 and 1,280 pixels.

No page is wider than its window, and every chart has its table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.pages.house import SQL, Town

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
LOOKS = [(False, 1280), (True, 320), (True, 1280), (False, 320)]
#: Whose page it is, and where; an answer is asked for first.
PAGES = [
    (None, "/sign-in"), (None, "/sign-in/link/x"), (None, "/plain"), (None, "/nowhere"),
    ("ann", "/datasets"), ("ann", "/datasets/visits"), ("ann", "/ask"), ("ann", "/questions/ANSWER"), ("ann", "/history"), ("ann", "/me"),
    ("ben", "/shared/SHARED"), ("ben", "/questions/WAITS"), ("ann", "/questions/nowhere"),
    ("cleo", "/releases"), ("cleo", "/releases/RELEASE"), ("cleo", "/purposes"), ("cleo", "/models"),
    ("olga", "/budget"), ("olga", "/book"), ("olga", "/subjects"), ("olga", "/datasets/visits/plain"),
]  # fmt: skip
QUICK = [("ann", "/ask"), ("ann", "/questions/ANSWER"), ("olga", "/budget")]


@pytest.fixture(scope="module")
def answered(town: Town) -> Iterator[dict[str, str]]:
    """A question that was answered and shared, one that waits, a release and a training, so that no page is empty."""
    from tacit.server.requests import Ask, NewModel

    asked = Ask(dataset="visits", purpose="bed-planning", sql=SQL, epsilon="0.9")
    waits = town.service.questions.ask(town.caller("ben"), asked, "a question that waits")["id"]
    six = dict.fromkeys(("unit", "complexity", "attack_model", "environment", "data_window", "accuracy_needed"), "said in words")
    town.service.models.add(town.caller("cleo"), NewModel(dataset="visits", name="triage", **six, attacks=["none found", "leak found"]))
    number = town.asked(epsilon="0.2")
    release = town.service.releases.plan(town.caller("cleo"), "visits")["id"]
    town.service.releases.run(town.caller("cleo"), release)
    until = time.monotonic() + 120
    while town.service.releases.read(town.caller("cleo"), release)["state"] != "published":
        assert time.monotonic() < until
        time.sleep(0.1)
    yield {"ANSWER": number, "WAITS": waits, "SHARED": town.service.questions.share(town.caller("ann"), number), "RELEASE": release}


def placed(path: str, made: dict[str, str]) -> str:
    """The address of a page, with the numbers of what was made for it."""
    for name, number in made.items():
        path = path.replace(name, number)
    return path


def faults(town: Town, person: str | None, path: str, dark: bool, width: int) -> list[str]:
    """What axe finds on a page, and whether it is wider than its window."""
    from axe_playwright_python.sync_playwright import Axe

    page = town.page(person, path, dark=dark, width=width)
    if path == "/ask":
        page.wait_for_selector("#live:not([hidden])")
        page.wait_for_selector("#outcome details")
    page.evaluate("() => document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    found = [
        f"{fault['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
        for fault in Axe().run(page, options=RULES).response["violations"] for node in fault["nodes"]
    ]  # fmt: skip
    wide: Any = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        past = page.evaluate(
            "() => [...document.querySelectorAll('main *')].filter((part) => part.getBoundingClientRect().right > innerWidth + 1"
            " && !part.closest('.table')).map((part) => part.outerHTML.slice(0, 80)).slice(0, 5)"
        )
        found.append(f"{wide} pixels wider than its window: {past}")
    pictures: Any = page.locator(".chart svg").count()
    if pictures and not page.locator("table").count():
        found.append("a chart without a table")
    page.context.close()
    return found


@pytest.mark.parametrize(("dark", "width"), LOOKS[:2])
def test_main_pages(town: Town, answered: dict[str, str], dark: bool, width: int) -> None:
    found = {path: faults(town, person, placed(path, answered), dark, width) for person, path in QUICK}
    assert not {path: said for path, said in found.items() if said}


@pytest.mark.slow
@pytest.mark.parametrize(("dark", "width"), LOOKS)
def test_every_page(town: Town, answered: dict[str, str], dark: bool, width: int) -> None:
    found = {path: faults(town, person, placed(path, answered), dark, width) for person, path in PAGES}
    assert not {path: said for path, said in found.items() if said}
    assert not town.complaints and not town.abroad
