"""Services to test on: one for a file, or one for a test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.server.house import House, TestClient

from tacit.server import Service, application, load
from tacit.server.demo import SERVICE, write


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the demonstration, without a book."""
    return write(tmp_path_factory.mktemp("hospital"), rows=2000).parent


@pytest.fixture(scope="session")
def house_in(hospital: Path) -> Callable[..., House]:
    """Makes a service in a folder of its own; `changed` edits its file, `extra` is added to it."""

    def make(folder: Path, *changed: tuple[str, str], extra: str = "") -> House:
        for name in ("visits.parquet", "visits.yaml"):
            if not (folder / name).exists():
                shutil.copy(hospital / name, folder / name)
        text = SERVICE.replace("step: 0.25 s", "step: 0.01 s")
        text = text.replace("price_per_minute: 600", "price_per_minute: 100000, questions_per_minute: 100000, other_per_minute: 100000")
        for old, new in changed:
            assert old in text, old
            text = text.replace(old, new)
        (folder / "service.yaml").write_text(text + extra, encoding="utf-8")
        service = Service.open(load(folder / "service.yaml"))
        return House(service, TestClient(application(service), raise_server_exceptions=False))

    return make


@pytest.fixture(scope="module")
def house(house_in: Callable[..., House], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One service for all tests of a file."""
    found = house_in(tmp_path_factory.mktemp("service"))
    yield found
    found.service.close()


@pytest.fixture
def own_house(house_in: Callable[..., House], tmp_path: Path) -> Iterator[House]:
    """A service for one test."""
    found = house_in(tmp_path)
    yield found
    found.service.close()
