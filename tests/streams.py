"""Every test draws from a stream of its own, so that no test of `make test` passes or fails by chance, or by which tests ran before it.

What the package draws as private comes from `os.urandom`, and must: there is no seed to set. Here the one function
that calls `os.urandom` is replaced, for the length of a test, by a generator that starts from the test's name;
buffers and pools start empty. The package notices nothing: `is_private` stays true, pools are used, results carry no
mark. The global generators of Python, numpy and torch, those that numpy makes where no seed is named (an attacker's
coins), and the one of each open DuckDB, which draws rows, start from the same name. So do fixtures shared by several
tests and modules as they are imported: what they draw does not depend on who asked first. And Hypothesis draws the
same examples for a test whether it runs alone or after all others.

Not covered, and so in need of a limit with a stated chance of failure: processes that a test starts, draws of several threads, whose
order is the machine's, and time.

TACIT_TEST_STREAM=live draws from the operating system; any other value gives other streams: both look for tests whose limits are too tight.
"""

from __future__ import annotations

import os
import random
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import numpy as np
import pytest

from tacit.noise import source
from tacit.noise.source import POOLS_OF_THIS_PROCESS as POOLS
from tacit.noise.source import SYSTEM, Words

VARIABLE = "TACIT_TEST_STREAM"
from_system = source.fresh
seeded = np.random.default_rng
connect, execute = duckdb.connect, duckdb.DuckDBPyConnection.execute
#: The name of the stream of now as a number, and how many generators were made in it without a seed.
made: list[int] = [0, 0]
#: The number of the stream that each open DuckDB follows, and the number and the seed of the stream of now.
followed: WeakKeyDictionary[duckdb.DuckDBPyConnection, int] = WeakKeyDictionary()
now: tuple[int, float] = (0, 0.0)


class Named:
    """Stands in for `source.fresh`: words of a generator that starts from a name. A forked child goes back to the operating system."""

    def __init__(self, name: str) -> None:
        self.generator = np.random.PCG64([zlib.crc32(name.encode()), *name.encode()])
        self.process = os.getpid()

    def __call__(self, count: int) -> Words:
        if os.getpid() != self.process:
            return from_system(count)
        return np.frombuffer(bytearray(self.generator.random_raw(count).astype(np.uint64).tobytes()), dtype=np.uint64)


def unseeded(seed: Any = None) -> np.random.Generator:
    """Stands in for `numpy.random.default_rng`: without a seed, the next generator of the stream."""
    if seed is not None or os.environ.get(VARIABLE, "") == "live":
        return seeded(seed)
    made[1] += 1
    return seeded(made)


def watched(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
    """Stands in for `duckdb.connect`: a connection whose draws start anew with every stream."""
    connection = connect(*arguments, **options)
    if os.environ.get(VARIABLE, "") != "live":
        execute(connection, "SELECT setseed(?)", [random.random()]).fetchall()
        followed[connection] = now[0]
    return connection


def executed(connection: duckdb.DuckDBPyConnection, *arguments: Any, **options: Any) -> Any:
    """Stands in for `execute`: the first statement since a stream began starts the connection's draws anew.

    Not all of them when the stream begins: that took 12 milliseconds a test, because some two dozen stay open.
    """
    if followed.get(connection, now[0]) != now[0]:
        followed[connection] = now[0]
        with suppress(duckdb.Error):  # closed, or in the middle of an answer that nobody read to its end
            execute(connection, "SELECT setseed(?)", [now[1]]).fetchall()
    return execute(connection, *arguments, **options)


def start(name: str) -> None:
    """From here on draws are those of this name, whatever was drawn before."""
    global now
    wanted = os.environ.get(VARIABLE, "")
    name = f"{wanted} {name}"
    source.fresh = from_system if wanted == "live" else Named(name)
    SYSTEM.forget()
    POOLS.forget()
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)
    made[:] = [seed, 0]
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed)  # `torch.manual_seed` also queues a call for each device that is not there
    now = (now[0] + 1, seed / 2**32)


@contextmanager
def aside(name: str) -> Iterator[None]:
    """A stream of this name inside; afterwards the stream outside goes on as if nothing had been drawn."""
    torch = sys.modules.get("torch")
    kept = (source.fresh, dict(SYSTEM.__dict__), dict(POOLS.__dict__), random.getstate(), np.random.get_state(), list(made))
    weights = None if torch is None else torch.get_rng_state()
    start(name)
    try:
        yield
    finally:
        source.fresh = kept[0]
        SYSTEM.__dict__.update(kept[1])
        POOLS.__dict__.update(kept[2])
        random.setstate(kept[3])
        np.random.set_state(kept[4])
        made[:] = kept[5]
        if torch is not None:
            torch.set_rng_state(weights)


def same_examples() -> None:
    """Keep Hypothesis from trying the numbers it finds in the sources imported so far: which ones depends on the tests run before.

    It has no setting for that. A version that has no such function has nothing to switch off.
    """
    from hypothesis.internal.conjecture import providers

    found = getattr(providers, "_local_constants", None)
    if found is not None and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: found


class Streams:
    """The plugin: names come from pytest's own names of tests, modules and fixtures."""

    def __init__(self) -> None:
        duckdb.connect, duckdb.DuckDBPyConnection.execute = watched, executed
        np.random.default_rng = unseeded

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        start(collector.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        start(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Any:
        if request.scope == "function":
            return (yield)
        with aside(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"):
            return (yield)
