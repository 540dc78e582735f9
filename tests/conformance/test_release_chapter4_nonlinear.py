"""The figures of the textbook's section 4.8 (non-linear queries) and its errata E13 and E14."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.calculus import Graph
from tacit.mechanisms import edge_flow, triangle_count
from tacit.mechanisms.lipschitz_graph import bracket, exact_value, triangles
from tacit.mechanisms.smooth_sensitivity import Quantile, smooth_sensitivity

MEDIAN = Quantile(Fraction(1, 2))
BETA = 1 / (2 * math.log(2 / 1e-6))  # epsilon 1, delta 1e-6


def smooth(data: list[int], top: int, beta: float) -> float:
    near = MEDIAN.sensitivities(np.array(data), 0, top, len(data))
    return smooth_sensitivity(lambda k: float(near[k]), len(data), beta)


def test_median_of_one_to_nine() -> None:
    assert MEDIAN.sensitivities(np.arange(1, 10), 0, 10, 3).tolist() == [1, 2, 3, 4]
    assert pytest.approx(0.0344621818, abs=1e-10) == BETA
    assert smooth(list(range(1, 10)), 10, 0.5) == pytest.approx(1.2130613, abs=1e-7)
    assert smooth(list(range(1, 10)), 10, BETA) == pytest.approx(7.3332988, abs=1e-7)


def test_median_of_equal_values() -> None:
    near = MEDIAN.sensitivities(np.full(9, 5), 0, 10, 9)
    assert near[:4].tolist() == [0, 0, 0, 0] and near[4] > 0
    assert smooth([5] * 9, 10, 0.5) == pytest.approx(0.6766764, abs=1e-7)
    assert smooth([5] * 9, 10, BETA) == pytest.approx(7.3332988, abs=1e-7)


def test_the_pathological_median_and_the_long_one() -> None:
    assert smooth([0] * 4 + [10] * 5, 10, 0.5) == 10
    assert MEDIAN.sensitivities(np.array([0] * 4 + [10] * 5), 0, 10, 0)[0] == 10
    assert smooth(list(range(1, 102)), 1000, BETA) == pytest.approx(169.4062558, abs=1e-7)


def test_three_equal_middle_values_have_no_local_sensitivity() -> None:
    for n in (1, 2, 5):
        data = [*range(n - 1), 50, 50, 50, *range(100, 100 + n - 1)]
        assert MEDIAN.sensitivities(np.array(data), 0, 200, 0)[0] == 0


def test_smoothness_is_multiplicative() -> None:
    """E13: |S(x) - S(x')| <= e^beta d is what was printed; S(x) <= e^(beta d) S(x') is what holds."""
    wide, wider = [0] * 4 + [1000] * 5, [0] * 3 + [7] + [1000] * 5
    one, two = smooth(wide, 1000, 0.5), smooth(wider, 1000, 0.5)
    assert max(one, two) <= math.exp(0.5) * min(one, two)
    far, near = smooth([500] * 9, 1000, 0.5), smooth([0, 0, 0, *[500] * 3, 1000, 1000, 1000], 1000, 0.5)
    assert abs(far - near) > math.exp(0.5) * 6  # six replacements apart: the printed form fails
    assert near <= math.exp(0.5 * 6) * far


def complete(n: int) -> Graph:
    return Graph.of([(a, b) for a in range(n) for b in range(a)], range(n))


def test_edges_by_flow() -> None:
    star = Graph.of([("hub", leaf) for leaf in range(10)])
    assert edge_flow(star, 3) / 2 == 3
    assert edge_flow(complete(6), 3) / 2 == 9
    assert edge_flow(complete(6), 5) / 2 == 15 == len(complete(6).edges)


@pytest.mark.parametrize(("n", "degree", "wanted"), [(4, 3, 4), (4, 2, Fraction(4, 3)), (5, 3, 5), (6, 5, 20), (6, 3, 6), (6, 2, 2)])
def test_triangles_by_linear_program(n: int, degree: int, wanted: Fraction) -> None:
    copies, bound = triangles(complete(n)), triangle_count(max_degree=degree).per_vertex
    assert bound == math.comb(degree, 2)
    low, high = bracket(copies, bound)
    assert low <= wanted <= high and high - low < 1e-6
    assert exact_value(copies, bound) == wanted == min(Fraction(math.comb(n, 3)), Fraction(n * bound, 3))


def test_copies_that_do_not_exist_count_for_nothing() -> None:
    """E14: with a variable for every triple, existing or not, a graph without edges would seem to hold triangles."""
    lonely = Graph.of([], range(4))
    assert bracket(triangles(lonely), 1) == (0, 0)
    printed = [frozenset(c) for c in itertools.combinations(range(4), 3)]
    assert exact_value(printed, 1) == Fraction(4, 3)
