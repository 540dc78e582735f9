"""What a test draws depends on its name alone: not on chance, not on the tests before it, not on who set up a shared fixture."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis.internal.conjecture import providers
from tests.streams import VARIABLE, aside, from_system, start

from tacit import noise
from tacit.noise import source

ROOT = Path(__file__).resolve().parent.parent


def drawn() -> list[Any]:
    """From the buffer, past the buffer, from a pool, and from the generators that are not ours."""
    wide = noise.discrete_laplace(10**12, size=3).tolist()
    return [wide, noise.discrete_laplace(10**12), source.fresh(3).tolist(), random.random(), np.random.random()]


def test_a_name_is_a_stream() -> None:
    start("one")
    first = drawn()
    assert drawn() != first, "the stream goes on"
    start("two")
    assert all(x != y for x, y in zip(drawn(), first, strict=True))
    start("one")
    assert drawn() == first, "whatever was drawn in between"


def test_draws_stay_private_to_the_package() -> None:
    with noise.watch() as seen:
        drawn()
    assert seen.private and noise.is_private()


def test_a_shared_fixture_takes_nothing_from_the_test_that_asks_first() -> None:
    start("one")
    before, after = drawn(), drawn()
    start("one")
    assert drawn() == before
    with aside("fixture"):
        shared = drawn()
    assert drawn() == after
    with aside("fixture"):
        assert drawn() == shared


@pytest.fixture(scope="module")
def shared() -> list[Any]:
    return drawn()


def test_the_plugin_is_at_work(shared: list[Any], request: pytest.FixtureRequest) -> None:
    found = drawn()
    start(request.node.nodeid)
    assert drawn() == found
    with aside("tests/test_streams.py shared 0"):
        assert drawn() == shared


def test_live_draws_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three values of scale 1e12 coincide by chance with probability below 1e-36."""
    monkeypatch.setenv(VARIABLE, "live")
    start("one")
    first = drawn()
    assert source.fresh is from_system
    start("one")
    assert drawn()[:3] != first[:3]


def test_another_value_gives_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    start("one")
    first = drawn()
    monkeypatch.setenv(VARIABLE, "2")
    start("one")
    assert all(x != y for x, y in zip(drawn(), first, strict=True))


def test_a_process_of_its_own_knows_nothing_of_it() -> None:
    """The package has no such door: what another process draws is live. Two draws of scale 1e15 coincide with probability 1e-15."""
    code = "from tacit import noise; print(noise.discrete_laplace(10**15))"
    run = [sys.executable, "-c", code]
    printed = [subprocess.run(run, cwd=ROOT / "src", capture_output=True, text=True, check=True, timeout=300).stdout for _ in range(2)]
    assert printed[0] != printed[1]


def test_rows_that_duckdb_draws_follow_the_stream() -> None:
    """A connection that outlives a test starts anew too; 20 rows of 10,000 coincide by chance with probability below 1e-60."""
    connection = duckdb.connect(config={"threads": 1})

    def rows() -> list[Any]:
        return connection.execute("SELECT ARG_MIN(i, RANDOM(), 20) FROM range(10000) AS r(i)").fetchall()

    start("one")
    first, second = rows(), rows()
    start("two")
    assert rows() not in (first, second) and first != second
    start("one")
    assert rows() == first
    connection.close()
    start("three")


def test_words_are_spread_over_all_bits() -> None:
    """A stand-in that left bits unset would make every test on top of it meaningless."""
    start("one")
    words = source.fresh(1000)
    assert words.flags.writeable and words.dtype == np.uint64 and len(set(words.tolist())) == 1000
    assert int(np.bitwise_or.reduce(words)) == 2**64 - 1 and int(np.bitwise_and.reduce(words)) == 0


def test_examples_do_not_depend_on_what_was_imported() -> None:
    """This process has imported tacit, whose sources are full of numbers: Hypothesis must not have taken them."""
    found = providers._get_local_constants()
    assert len(found.floats) == len(found.integers) == len(found.strings) == 0
