"""The engine that an attack on tables runs on: `place` is each of the three in turn, unless a test names those it wants."""

from __future__ import annotations

import pytest
from tests.tables.engines import places
from tests.tables.engines.places import Place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that use Spark one after another, those of the engines too: then mostly one process of two has to start it."""
    using = [item for item in items if "spark" in item.nodeid]
    if using:
        first = items.index(using[0])
        rest = [item for item in items[first:] if "spark" not in item.nodeid]
        items[first:] = [*using, *rest]


@pytest.fixture(params=places.ENGINES)
def place(request: pytest.FixtureRequest) -> Place:
    return places.place(request.param)
