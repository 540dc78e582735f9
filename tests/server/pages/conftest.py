"""One service and one browser for all tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.server.house import House
from tests.server.pages.house import FLAGS, Town, browser_path, listening

#: Tests sign in more often than people do.
OFTEN = ("price_per_minute: 100000", "sign_in_per_minute: 100000, price_per_minute: 100000")


@pytest.fixture(scope="module")
def house(house_in: Callable[..., House], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One service for all tests of a file."""
    found = house_in(tmp_path_factory.mktemp("pages"), OFTEN)
    yield found
    found.service.close()


@pytest.fixture
def own_house(house_in: Callable[..., House], tmp_path: Path) -> Iterator[House]:
    """A service for one test."""
    found = house_in(tmp_path, OFTEN)
    yield found
    found.service.close()


@pytest.fixture(scope="module")
def town(house_in: Callable[..., House], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A service that listens, and a browser; skipped by name where there is none."""
    path = browser_path()
    if path is None:
        pytest.skip("no chromium or chrome on PATH; install Debian's chromium to run the tests of the pages")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    folder = tmp_path_factory.mktemp("town")
    service = house_in(folder, OFTEN).service
    with listening(service) as base, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield Town(service, browser, base, folder)
        browser.close()
    service.close()
