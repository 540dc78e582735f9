"""Numbers of the source texts for the calculus: adjacency, sensitivity, stability, chaining, parallel parts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting import ZCDP, Adjacency, Laplace, NoOp, PureDP, account
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Anything,
    Categories,
    DomainError,
    Edges,
    Graph,
    Graphs,
    Hamming,
    Identifiers,
    Integers,
    Measurement,
    MetricError,
    Nodes,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    Transformation,
    Vectors,
    as_add_remove,
    cap_rows,
    clamp,
    compose,
    count,
    edge_count,
    fit,
    flat_map,
    histogram,
    map_rows,
    mean,
    parallel,
    partition_by,
    round_to,
    table,
    total,
    union,
)
from tacit.exact import root

ROWS = Space(Rows(Anything()), AddRemove())
NUMBER = Space(Integers(), Absolute())


def copies(n: int) -> Transformation:
    return Transformation(ROWS, ROWS, lambda data: n * list(data), lambda d: n * d, f"{n} copies", "each row appears that often")


def noise(scale: Any) -> Measurement:
    return Measurement(NUMBER, lambda x: x, lambda d: Laplace(Fraction(scale) / Fraction(d)) if d else NoOp(), "laplace", "theorem 1.9")


def epsilon(plan: Measurement, distance: int = 1) -> float:
    return account(plan.event(distance), plan.adjacency or Adjacency.ADD_REMOVE).epsilon(0).upper


def test_chaining_rules_of_section_12_3() -> None:
    tenth = Measurement(ROWS, len, lambda d: PureDP(Fraction(1, 10) * d), "tenth", "by definition")
    assert (copies(3) >> copies(2) >> tenth).event(1) == PureDP(Fraction(3, 5))


def test_concentrated_privacy_is_quadratic_in_the_distance() -> None:
    half = Measurement(ROWS, len, lambda d: ZCDP(Fraction(1, 2) * d**2), "rho", "by definition")
    assert (copies(3) >> half).event(1) == ZCDP(Fraction(9, 2))
    assert (copies(3) >> half).event(2) == ZCDP(18)
    assert (copies(3) >> half).event(1) != ZCDP(Fraction(3, 2))  # what multiplying constants would give


def test_group_privacy_of_a_noisy_count() -> None:
    plan = ROWS >> count() >> noise(2)
    assert epsilon(plan) == 0.5
    assert epsilon(plan, 3) == 1.5
    assert not plan.check(3, epsilon=1.4)


def test_one_mechanism_after_different_sums() -> None:
    two = noise(2)
    assert epsilon(ROWS >> count() >> two) == 0.5
    assert epsilon(Space(Rows(Integers()), AddRemove()) >> clamp(0, 10) >> total() >> two) == 5.0


@pytest.mark.parametrize(("low", "high", "added", "exchanged"), [(10, 20, 20, 10), (-1, 1, 1, 2)])
def test_a_clamped_sum_under_both_relations(low: int, high: int, added: int, exchanged: int) -> None:
    bounded = clamp(low, high) >> total()
    assert (Space(Rows(Integers()), AddRemove()) >> bounded).map(1) == added
    assert (Space(Rows(Integers()), ReplaceOne()) >> bounded).map(1) == exchanged


def test_counts_and_histograms_under_both_relations() -> None:
    letters = Rows(Categories("abc"))
    assert ((ROWS >> count()).map(1), (Space(letters, ReplaceOne()) >> count()).map(1)) == (1, 0)
    assert [(Space(letters, m) >> histogram(L1())).map(1) for m in (AddRemove(), ReplaceOne())] == [1, 2]
    assert [(Space(letters, m) >> histogram(L2())).map(1) for m in (AddRemove(), ReplaceOne())] == [1, root(Fraction(2))]


def test_an_exchange_is_two_and_mixing_relations_is_refused() -> None:
    space = Space(Rows(Integers(), size=9), ReplaceOne())
    assert (space >> as_add_remove() >> count()).map(1) == 2
    measured = Measurement(Space(Rows(Integers()), ReplaceOne()), len, lambda d: PureDP(d), "exchange", "by definition")
    with pytest.raises(MetricError):
        Space(Rows(Integers()), AddRemove()) >> measured
    with pytest.raises(TypeError):
        Space(Rows(Integers()))  # type: ignore[call-arg]  # no relation, no plan


def test_the_table_of_section_1_4() -> None:
    ages = Space(Rows(Integers(0, 100), size=10_000), ReplaceOne()) >> mean()
    assert ages.sensitivity() == Fraction(1, 100)
    with pytest.raises(MetricError, match="count"):
        Space(Rows(Integers(0, 100)), AddRemove()) >> mean()
    binary = Rows(Vectors(Integers(0, 1), 100), size=1000)
    assert (Space(binary, ReplaceOne()) >> mean(L1())).sensitivity() == Fraction(1, 10)
    assert (Space(binary, ReplaceOne()) >> mean(L2())).sensitivity() == Fraction(1, 100)


def test_the_printed_l2_sensitivity_of_means_is_wrong() -> None:
    """Erratum E2 of chapter 1: sqrt(d/n) = 0.316 where sqrt(d)/n = 0.01 is meant, and both ends are reached or not by an example."""
    plan = Space(Rows(Vectors(Integers(0, 1), 100), size=1000), ReplaceOne()) >> mean(L2())
    zeros, ones = [[0] * 100] * 999, [[1] * 100]
    apart = L2().distance(plan(zeros + ones), plan([*zeros, [0] * 100])) * plan.output.unit
    assert apart == plan.sensitivity() == Fraction(1, 100)
    assert apart < Fraction(316, 1000)


def test_a_flat_map_is_cut_at_its_word() -> None:
    plan = Space(Rows(Integers()), AddRemove()) >> flat_map(lambda x: [x] * 7, 3, Integers())
    assert plan([4]).tolist() == [4, 4, 4]
    assert plan.map(1) == 3


def test_using_rows_twice_charges_twice() -> None:
    plan = Space(Rows(Integers()), AddRemove()) >> union(clamp(0, 1), clamp(0, 1)) >> count() >> noise(2)
    assert epsilon(plan) == 1.0
    once = ROWS >> count() >> noise(2)
    assert epsilon(compose(once, once)) == 1.0


def test_edges_and_vertices_of_a_star() -> None:
    star = Graph.of([("hub", i) for i in range(100)])
    edges = Space(Graphs(), Edges()) >> edge_count()
    assert edges(star) == 100 and edges.map(1) == 1
    with pytest.raises(MetricError):
        Space(Graphs(), Nodes()) >> edge_count()
    assert (Space(Graphs(max_degree=7), Nodes()) >> edge_count()).map(1) == 7


def test_a_person_with_a_thousand_rows_counts_as_five() -> None:
    visits = Space(table(id=Integers(), cost=Integers(0, 9)), Identifiers("id"))
    plan = visits >> cap_rows("id", 5) >> count()
    everyone = {"id": [1] * 1000 + [2, 3], "cost": [*list(range(1000)), 1, 1]}
    without = {"id": [2, 3], "cost": [1, 1]}
    assert plan.map(1) == 5
    assert plan(everyone) - plan(without) == 5
    with pytest.raises(MetricError, match="cap_rows"):
        visits >> count()


def test_parallel_parts() -> None:
    def child(eps: int) -> Measurement:
        return Measurement(ROWS, len, lambda d: PureDP(eps * d) if d else NoOp(), "child", "by definition")

    parts = parallel(partition_by("abc"), {"a": child(1), "b": child(2), "c": child(3)})
    assert (ROWS >> parts).event(1) == PureDP(3)
    exchanged = (Space(Rows(Anything()), ReplaceOne()) >> parts).event(1)
    assert exchanged == PureDP(6, adjacency=Adjacency.REPLACE_ONE)


def test_the_scale_for_half_an_epsilon() -> None:
    assert abs(fit(lambda scale: ROWS >> count() >> noise(scale), 1, epsilon=0.5) - 2) < 1e-9


def test_an_error_on_one_record_does_not_stop_a_release() -> None:
    plan = Space(Rows(Integers()), AddRemove()) >> map_rows(lambda x: 1 // (x - 13), Integers(0, 1)) >> total() >> noise(1)
    assert plan.release([13, 14]).value == 1
    assert plan.release([14]).value == 1


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    """Floating point does: 1e16 + 1 + 1 - 1e16 is 0 in one order and 2 in another."""
    orders = ([1e16, 1.0, 1.0, -1e16], [1.0, 1.0, 1e16, -1e16])
    assert sum(orders[0]) != sum(orders[1])
    plan = Space(Rows(Reals(-1e16, 1e16, missing=False)), AddRemove()) >> round_to(1) >> total()
    assert plan(orders[0]) == plan(orders[1]) == 2


def test_sample_and_aggregate_keeps_its_number_of_outputs() -> None:
    """Erratum E1 of chapter 12: block results are exchanged, never added; 1-stable into replace-one, and 2 into add/remove."""
    def blocks(data: list[int]) -> list[int]:
        return [sum(v for v in data if v % 3 == b) for b in range(3)]

    worst = {metric: 0 for metric in (AddRemove(), Hamming())}
    small = [[], [0], [1], [4], [0, 1], [1, 4], [4, 4], [0, 3, 5]]
    for rows in small:
        for new in range(6):
            for metric in worst:
                worst[metric] = max(worst[metric], int(metric.distance(blocks(rows), blocks([*rows, new]))))
    assert worst == {AddRemove(): 2, Hamming(): 1}


def test_bounds_come_from_the_domain_and_not_from_data() -> None:
    with pytest.raises(DomainError, match="clamp"):
        Space(Rows(Integers()), AddRemove()) >> total()
