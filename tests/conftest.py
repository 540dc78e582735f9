"""Settings shared by all tests: reproducible draws and property tests, one thread, no display."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

# Set before numpy or matplotlib is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("TACIT_PLAN_CACHE", "off")  # tests neither read nor leave files

import pytest
from hypothesis import HealthCheck, settings

# `make test` draws the same 30 examples every time, so a red run can be repeated by anybody. `make test-slow` runs every property test
# again on up to 1000 new ones. A test that names a number of examples keeps it in both.
# Deadlines are off: a busy machine must not fail a test of correctness.
settings.register_profile("tacit", max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tacit")


def pytest_configure(config: pytest.Config) -> None:
    """Registered rather than defined here, so that it also holds for the examples in the sources, which are not below this folder."""
    from tests.streams import Streams, same_examples

    if config.getoption("--hypothesis-profile", None) != "thorough":
        same_examples()
    config.pluginmanager.register(Streams(), "tacit-streams")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `one_in` leaves to `make test-slow`.

    The cases of `@pytest.mark.one_in(n)` form a grid with one axis for each `parametrize`. Those whose indices add up to a multiple of
    n stay in `make test`: they lie on diagonals, so every value of a long enough axis is still tried, with fewer values of the others.
    """
    values: dict[tuple[object, str], list[list[int]]] = {}  # of each axis, in the order in which they come
    for item in items:
        share = item.get_closest_marker("one_in")
        if share is None or not isinstance(item, pytest.Function):
            continue
        total = 0
        for mark in item.iter_markers("parametrize"):
            names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
            axis = values.setdefault((item.function, names[0]), [])
            value = [id(item.callspec.params[name]) for name in names]
            if value not in axis:
                axis.append(value)
            total += axis.index(value)
        if total % share.args[0]:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Twenty thousand tests and their modules stay to the end: leave them out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test that leaves a payment's block open: in the tests after it, warnings would be withheld."""
    from tacit.ledger.paying import inside

    yield
    if inside():
        pytest.fail("a payment's block was left open")
