"""Record and replay: each kind of difference on its own, with the right version beside it, and our own mechanisms."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import people
from tests.tables.people import BOUNDS, REGIONS, hostile_rows, question, random_rows

import tacit.mechanisms as mechanisms
from tacit.accounting import ParameterError, PureDP
from tacit.audit.mechanisms.neighbours import neighbours
from tacit.audit.mechanisms.replay import Divergence, distance, intercepted, plain, probe, record, replay, replay_all
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Anything,
    Categories,
    Integers,
    Measurement,
    Rows,
    Space,
    Transformation,
    clamp,
    count,
    histogram,
    total,
)
from tacit.noise import SeedRefusedError, discrete_laplace, is_private
from tacit.tables import Unit

ROWS = [3, 1, 2]


def add(value: Any) -> Any:
    return value + discrete_laplace(2)


def kinds(function: Any, first: Any, second: Any) -> set[str]:
    return {found.kind for found in replay(record(function, first), second)}


# --- foreign code, by the probe ----------------------------------------------------------------------------------------------------------


def test_a_right_function_leaves_no_trace() -> None:
    def right(rows: list[int]) -> float:
        number = probe.mechanism("count", len(rows), scale=2, sensitivity=1, draw=add)
        if number > 2:  # control flow may follow what is published
            number += probe.mechanism("again", len(rows), scale=2, sensitivity=1, draw=add)
        return number / 2

    assert replay_all(right, neighbours(ROWS)) == []


def test_the_answers_are_frozen_and_noise_is_not_drawn_twice() -> None:
    seen: list[int] = []

    def function(rows: list[int]) -> int:
        seen.append(probe.mechanism("count", len(rows), sensitivity=1, draw=add))
        return seen[-1]

    replay(record(function, ROWS, again=1), [*ROWS, 1])
    assert len(seen) == 3 and len(set(seen)) == 1


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("scale", lambda rows: probe.mechanism("sum", 0, scale=max(rows), sensitivity=1, draw=add)),
        ("scale", lambda rows: probe.mechanism("sum", 0, scale=1, sensitivity=max(rows), draw=add)),
        ("shape", lambda rows: probe.mechanism("rows", np.asarray(rows), sensitivity=1, draw=lambda v: 0)),
        ("sensitivity", lambda rows: probe.mechanism("sum", sum(rows), sensitivity=2, draw=add)),
        ("name", lambda rows: probe.mechanism(f"group {len(rows)}", 0, sensitivity=1, draw=add)),
        ("control flow", lambda rows: min([probe.mechanism("one", 0, sensitivity=1, draw=add) for _ in rows])),
        ("control flow", lambda rows: 1 / (4 - len(rows)) * probe.mechanism("one", 0, sensitivity=1, draw=add)),
        ("support", lambda rows: [probe.mechanism("one", 0, sensitivity=1, draw=add)] * len(rows)),
        ("support", lambda rows: probe.mechanism("many", 0, sensitivity=1, draw=lambda v: [0] * len(rows)) and 0),
        ("output", lambda rows: probe.mechanism("one", 0, sensitivity=1, draw=add) + len(rows)),
        ("draws", lambda rows: probe.mechanism("one", 0, sensitivity=1, draw=lambda v: v + discrete_laplace(len(rows)))),
        ("draws", lambda rows: len(rows) + discrete_laplace(max(rows))),
    ],
    ids=["scale", "declared", "shape", "sensitivity", "name", "flow", "exception", "length", "answer", "output", "law", "law outside"],
)
def test_each_kind_of_difference(kind: str, function: Any) -> None:
    found = replay(record(function, ROWS), [*ROWS, 9])
    assert kind in {d.kind for d in found} and all(d.certain for d in found if d.kind == kind)
    assert "9" not in "".join(d.what for d in found if d.kind != "sensitivity")


def test_noise_that_is_not_frozen_is_not_taken_for_a_leak() -> None:
    generator = np.random.default_rng(4)

    def unprobed(rows: list[int]) -> list[int]:
        noisy = len(rows) + int(generator.normal(0, 100))
        return [0] * (1 + abs(noisy) % 7)

    assert not any(found.certain for _ in range(20) for found in replay(record(unprobed, ROWS), [*ROWS, 9]))

    def ours(rows: list[int]) -> list[int]:
        return [0] * (1 + abs(len(rows) + discrete_laplace(5)) % 7)

    assert not any(found.certain for found in replay_all(ours, neighbours(ROWS)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_counts_as_infinitely_far(bad: float) -> None:
    def sums(rows: list[float]) -> float:
        return probe.mechanism("sum", float(np.clip(np.asarray(rows, dtype=float), 0, 1).sum()), sensitivity=1, draw=lambda v: 0.0)

    assert ("sensitivity" in kinds(sums, [0.5], [0.5, bad])) is math.isnan(bad)


@given(st.lists(st.integers(-5, 5), min_size=3, max_size=3), st.lists(st.integers(-5, 5), min_size=3, max_size=3))
def test_distances_against_numpy(one: list[int], two: list[int]) -> None:
    gap = np.array(one) - np.array(two)
    assert distance(one, two, "l1") == np.abs(gap).sum() and distance(np.array(one), np.array(two), "linf") == np.abs(gap).max()
    assert distance(one, two, "l2") == pytest.approx(float(np.linalg.norm(gap)), abs=1e-12)
    assert distance({"a": one}, {"a": two}) == np.abs(gap).sum()
    assert distance(one, two[:2]) == math.inf and distance("x", "x") == math.inf


def test_a_square_root_is_compared_by_its_square() -> None:
    def vector(rows: list[int], sensitivity: float) -> Any:
        return probe.mechanism("v", [len(rows), len(rows)], sensitivity=sensitivity, norm="l2", draw=lambda v: 0)

    assert kinds(lambda rows: vector(rows, 1.4142), [1], [1, 2]) == {"sensitivity"}
    assert kinds(lambda rows: vector(rows, 1.4142136), [1], [1, 2]) == set()


def test_outside_a_recording_the_probe_only_passes_on() -> None:
    assert probe.mechanism("count", 3, sensitivity=1, draw=lambda v: v + 1) == 4
    assert probe.mechanism("count", 3) == 3 and probe.frozen("q", lambda: 5) == 5
    with pytest.raises(ParameterError, match="norm must be one of l1"):
        probe.mechanism("count", 3, norm="l3")


def test_another_library_is_recorded_from_outside() -> None:
    library = types.SimpleNamespace(laplace=lambda value, scale: value + discrete_laplace(scale))
    original = library.laplace

    def analysis(rows: list[int]) -> float:
        return library.laplace(sum(rows), scale=1)

    def reads(value: float, scale: float) -> dict[str, Any]:
        return {"name": "laplace", "value": value, "scale": scale, "sensitivity": scale}

    with intercepted(library, "laplace", reads):
        assert kinds(analysis, ROWS, [*ROWS, 9]) == {"sensitivity"} and kinds(analysis, ROWS, [*ROWS, 1]) == set()
    assert library.laplace is original


# --- our own -----------------------------------------------------------------------------------------------------------------------------


def space() -> Space:
    return Space(Rows(Integers()), AddRemove())


def letters() -> Space:
    return Space(Rows(Categories([1, 2, 3, "other"])), AddRemove())


PLANS = {
    "laplace": space() >> clamp(0, 10) >> total() >> mechanisms.laplace(scale=20),
    "gaussian": letters() >> histogram(L2()) >> mechanisms.gaussian(sigma=2),
    "count": space() >> count() >> mechanisms.geometric(scale=2),
    "histogram": letters() >> histogram(L1()) >> mechanisms.laplace(scale=2),
    "median": space() >> clamp(0, 10) >> mechanisms.median(epsilon=1),
}


@pytest.mark.parametrize("name", PLANS)
def test_our_plans_leave_no_trace(name: str) -> None:
    plan = PLANS[name]
    tape = record(lambda rows: plan.release(rows).value, ROWS)
    assert len(tape.steps) == 1 and tape.steady and not tape.outside and tape.steps[0].draws
    assert replay_all(lambda rows: plan.release(rows).value, neighbours(ROWS)) == []
    assert replay_all(lambda rows: plan.release(rows), neighbours(ROWS)) == []


def test_a_wrong_stability_map_is_measured() -> None:
    numbers = Space(Integers(), Absolute())
    half = Transformation(space(), numbers, lambda x: int(sum(min(v, 10) for v in x)), lambda d: 5 * d, "sum", "claimed")
    plan = half >> mechanisms.laplace(scale=10)
    found = replay_all(lambda rows: plan.release(rows).value, neighbours([1, 2]))
    assert [d.kind for d in found] == ["sensitivity"] and "where 5 is declared" in str(found[0])


def test_a_leak_beside_a_measurement_is_seen() -> None:
    plan = PLANS["laplace"]
    found = replay_all(lambda rows: (plan.release(rows).value, len(rows)), neighbours(ROWS))
    assert {d.kind for d in found} == {"output"}


def test_a_measurement_that_answers_later_is_not_frozen() -> None:
    held = Space(Rows(Anything()), AddRemove())
    plan = Measurement(held, lambda data: types.SimpleNamespace(ask=lambda: 1), lambda d: PureDP(1), "interactive", "by fiat")
    tape = record(lambda rows: plan.release(rows).value.ask(), ROWS)
    assert not tape.steps[0].frozen and not plain(object()) and tape.output == 1


def test_production_refuses_and_a_release_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    releases: list[Any] = []
    record(lambda rows: releases.append(PLANS["count"].release(rows)), ROWS)
    assert all(not release.private for release in releases) and is_private()
    monkeypatch.setenv("TACIT_PRODUCTION", "1")
    with pytest.raises(SeedRefusedError):
        record(len, ROWS)


def test_an_observer_is_not_heard_outside_test_mode() -> None:
    from tacit.calculus import observed

    with observed(lambda measurement, data, distance: "taken over"):
        release = PLANS["count"].release(ROWS)
    assert isinstance(release.value, int) and release.private


def test_questions_about_tables_leave_no_trace() -> None:
    def ask(rows: Any) -> Any:
        session = people.session_on(rows, Unit("id", max_rows=3))
        people.on_engine(session, probe.engine(session.engine))
        answer = probe.frozen(
            "question", lambda: session.ask(question("count and mean", grouped=True), epsilon=1, bounds=BOUNDS, keys={"region": REGIONS})
        )
        return len(answer.to_arrow().column_names)

    rows = random_rows(11)
    tape = record(ask, rows, again=1)
    assert len(tape.statements) == 1 and len(tape.steps) == 1 and tape.steps[0].draws
    assert replay(tape, [*rows, *hostile_rows(1, 99)]) == []

    def leaky(rows: Any) -> Any:
        asked = "count and mean" if len(rows) < 30 else "people"
        session = people.session_on(rows, Unit("id", max_rows=3))
        people.on_engine(session, probe.engine(session.engine))
        session.ask(question(asked, grouped=True), epsilon=1, bounds=BOUNDS, keys={"region": REGIONS})

    few, many = rows[:29], rows[:30] if len(rows) >= 30 else [*rows, *hostile_rows(40, 99)]
    assert "control flow" in {found.kind for found in replay(record(leaky, few, again=1), many)}


def test_a_divergence_reads_well() -> None:
    assert str(Divergence("scale", "follows the data", "add a row", certain=False)) == "scale: follows the data [add a row] (perhaps)"
