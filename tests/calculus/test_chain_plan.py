"""Plans: chaining that checks, maps that compose as functions, marks that travel, and nothing that needs data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting import (
    ZCDP,
    Adjacency,
    Composed,
    Gaussian,
    Group,
    Laplace,
    NoOp,
    ParameterError,
    Poisson,
    PureDP,
    Repeated,
    Sampled,
    Selection,
)
from tacit.calculus import (
    L1,
    Absolute,
    AddRemove,
    Anything,
    CalculusError,
    DomainError,
    Integers,
    Measurement,
    MetricError,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    Step,
    Transformation,
    UnprovedError,
    clamp,
    count,
    explain,
    post,
    restate,
    total,
    walk,
)
from tacit.calculus.chain import Pipeline, steps_of

ROWS = Space(Rows(Anything()), AddRemove())
NUMBER = Space(Integers(), Absolute())


def times(factor: int, proof: str | None = "by counting copies") -> Transformation:
    return Transformation(ROWS, ROWS, lambda data: factor * list(data), lambda d: factor * d, f"x{factor}", proof)


def pure(epsilon: Fraction, proof: str | None = "by fiat") -> Measurement:
    return Measurement(ROWS, len, lambda d: PureDP(epsilon * d) if d else NoOp(), "pure", proof)


def noise(scale: Any) -> Measurement:
    return Measurement(NUMBER, lambda x: x + 1, lambda d: Laplace(scale / Fraction(d)) if d else NoOp(), "noise", "textbook 1.8")


def test_maps_compose_as_functions() -> None:
    square = Measurement(ROWS, len, lambda d: ZCDP(Fraction(1, 2) * d**2), "rho", "by fiat")
    assert (times(3) >> times(2) >> pure(Fraction(1, 10))).event(1) == PureDP(Fraction(6, 10))
    assert (times(3) >> square).event(1) == ZCDP(Fraction(9, 2))
    assert (times(3) >> square).event(2) == ZCDP(18)
    assert (times(3) >> times(2)).map(5) == 30


def test_the_function_runs_in_order() -> None:
    plan = times(3) >> times(2)
    assert plan(["a"]) == ["a"] * 6
    assert (plan >> pure(Fraction(1))).release(["a"]).value == 6


def test_chaining_is_associative() -> None:
    steps = [clamp(0, 10), total(), noise(20)]
    space = Space(Rows(Integers()), AddRemove())
    one = space >> steps[0] >> steps[1] >> steps[2]
    two = space >> (steps[0] >> steps[1]) >> steps[2]
    three = space >> (steps[0] >> (steps[1] >> steps[2]))
    assert one.event(1) == two.event(1) == three.event(1) == Laplace(2)
    assert one.name == two.name == three.name
    assert len(steps_of(steps[0] >> steps[1] >> steps[2])) == 3


def test_mismatches_are_refused_with_the_fix() -> None:
    with pytest.raises(MetricError, match=r"ReplaceOne.*AddRemove"):
        Space(Rows(Anything()), ReplaceOne()) >> times(2)
    with pytest.raises(DomainError, match="clamp, cast or impute"):
        Space(Rows(Integers()), AddRemove()) >> Transformation(Space(Rows(Integers(0, 1)), AddRemove()), ROWS, len, lambda d: d, "x")
    with pytest.raises(DomainError, match="public bounds"):
        Space(Rows(Integers()), AddRemove()) >> total()
    with pytest.raises(DomainError, match="round_to"):
        Space(Rows(Reals(0, 1)), AddRemove()) >> total()
    with pytest.raises(CalculusError, match="must be a step"):
        ROWS >> (lambda x: x)  # type: ignore[operator]
    with pytest.raises(TypeError):
        clamp(0, 1) >> 3  # type: ignore[operator]
    with pytest.raises(DomainError, match="Domain"):
        Space(5, AddRemove())  # type: ignore[arg-type]
    with pytest.raises(MetricError, match="Metric"):
        Space(Rows(Anything()), "symmetric")  # type: ignore[arg-type]
    with pytest.raises(CalculusError, match="empty pipeline"):
        Pipeline(()).bind(ROWS)


def test_only_post_processing_follows_a_measurement() -> None:
    plan = Space(Rows(Anything()), AddRemove()) >> count() >> noise(2)
    with pytest.raises(CalculusError, match="post-processing"):
        plan >> count()
    with pytest.raises(CalculusError, match="map_rows"):
        ROWS >> post(abs)


@pytest.mark.parametrize("function", [abs, str, lambda x: None, lambda x: 1 / 0], ids=["abs", "str", "none", "error"])
def test_post_processing_leaves_the_price_alone(function: Any) -> None:
    plan = Space(Rows(Anything()), AddRemove()) >> count() >> noise(2)
    after = plan >> post(function, "what")
    for distance in (0, 1, 2, 7):
        assert after.event(distance) == plan.event(distance)
    assert after.name.endswith(">> what")
    assert after.accuracy is None


def test_a_plan_narrows_to_the_space_it_meets() -> None:
    bound = times(2).bind(Space(Rows(Integers(0, 1)), AddRemove()))
    assert bound.input.domain == Rows(Integers(0, 1))
    measured = pure(Fraction(1)).bind(Space(Rows(Integers(0, 1)), AddRemove()))
    assert measured.input.domain == Rows(Integers(0, 1))


def test_unproved_claims_travel_and_get_no_epsilon() -> None:
    plan = times(3, proof=None) >> times(2) >> pure(Fraction(1, 10))
    assert plan.unproved == ("x3",)
    with pytest.raises(UnprovedError, match=r"x3.*check_stability"):
        plan.check(1, epsilon=1)
    assert plan.release([1]).unproved == ("x3",)
    assert "UNPROVED" in explain(plan)
    both = times(3, proof=None) >> pure(Fraction(1), proof=None)
    assert both.unproved == ("x3", "pure")
    assert (times(3) >> pure(Fraction(1))).unproved == ()


def test_check_needs_no_data_and_agrees_with_the_charge() -> None:
    plan = Space(Rows(Integers()), AddRemove()) >> count() >> noise(2)
    assert plan.check(1, epsilon=0.5)
    assert not plan.check(3, epsilon=1.4)
    assert plan.check(3, epsilon=1.5)
    assert plan.release([1, 2]).event == plan.event(1)


def test_the_input_is_enforced_before_it_is_used() -> None:
    plan = Space(Rows(Integers(0, 10)), AddRemove()) >> total()
    assert plan([5, 10**9, math.nan, "x"]) == 15
    released = (plan >> noise(10)).release([5, 10**9])
    assert released.value == 16
    assert (Space(Integers(0, 3), Absolute()) >> noise(1)).release(99).value == 4


def test_distances_are_checked() -> None:
    for bad in (-1, math.nan, math.inf, "1", True):
        with pytest.raises(ParameterError, match="distance"):
            times(2).map(bad)  # type: ignore[arg-type]
    broken = Transformation(ROWS, ROWS, list, lambda d: math.inf, "broken", "none")
    with pytest.raises(ParameterError, match="distance"):
        broken.map(1)
    with pytest.raises(CalculusError, match="must return an event"):
        Measurement(ROWS, len, lambda d: 0.5, "number", "none").event(1)  # type: ignore[arg-type, return-value]


def test_events_are_restated_for_the_relation_of_the_input() -> None:
    event = Composed(Repeated(Sampled(Poisson(0.1), Gaussian(2)), 3), Group(Laplace(1), 2), Selection(PureDP(1), 4), NoOp())
    restated = restate(event, Adjacency.REPLACE_ONE)
    assert restated.stated is Adjacency.REPLACE_ONE
    assert restate(restated, Adjacency.ADD_REMOVE) == event
    plan = Space(Rows(Integers(0, 10)), ReplaceOne()) >> total() >> noise(20)
    assert plan.event(1) == Laplace(2, adjacency=Adjacency.REPLACE_ONE)
    assert noise(2).event(1).stated is Adjacency.ADD_REMOVE
    assert plan.adjacency is Adjacency.REPLACE_ONE


def test_an_explanation_has_a_line_for_each_step() -> None:
    plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 10) >> total() >> noise(20)
    lines = explain(plan, 2).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["clamp(0,", "total()", "noise"]
    assert "Absolute() 20" in lines[1] and "Laplace" in lines[2]
    assert [part.name for part in walk(plan)] == ["clamp(0, 10)", "total()", "noise"]


def test_sensitivity_is_in_the_unit_of_the_answer() -> None:
    from tacit.calculus import Lattice

    cents = Space(Rows(Lattice(Fraction(1, 100), 0, 5)), AddRemove()) >> total()
    assert cents.map(1) == 500
    assert cents.sensitivity() == 5
    assert cents.output.unit == Fraction(1, 100)


def test_a_bare_step_must_say_how_it_binds() -> None:
    with pytest.raises(NotImplementedError):
        ROWS >> Step()
    with pytest.raises(DomainError):
        times(2) >> (clamp(0, 1) >> total())
    with pytest.raises(MetricError, match="does not measure"):
        Space(Rows(Integers()), L1())
