"""Projective-geometry response: the geometry by enumeration, the transform against plain counting, the optimum's variance."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.local.oracles import supports
from tests.noise.reference import LEVEL, chi_square

from tacit import noise
from tacit.errors import ParameterError
from tacit.local import Projective
from tacit.local.projective import best_geometry
from tacit.mechanisms.verify import enclosed, max_divergence, pure

#: Spec 10, section 3, at 10,000 values: epsilon, order, dimension, variance.
TABLE = [
    (0.5, 3, 10, 15.816),
    (1, 4, 8, 3.6912),
    (1, 3, 10, 3.7697),
    (2, 8, 6, 0.7245),
    (3, 23, 4, 0.2208),
    (4, 53, 4, 0.0761),
    (5, 149, 3, 0.0272),
]


def inside(oracle: Projective, value: int, point: int) -> bool:
    """Whether the point lies on the value's hyperplane, digit by digit, in the field's tables."""
    f, product = oracle.field, 0
    digits = [point // oracle.order**k % oracle.order for k in range(oracle.dimension - 1, -1, -1)]
    for a, b in zip(oracle._points[value].tolist(), digits, strict=True):
        product = int(f.plus[product, f.times[a, b]])
    return product == 0


@pytest.mark.parametrize(("order", "dimension", "size"), [(2, 4, 13), (3, 3, 13), (4, 3, 13), (8, 2, 9), (9, 2, 10)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)], ids=str)
def test_the_enumerated_epsilon_is_the_claim(order: int, dimension: int, size: int, epsilon: Fraction) -> None:
    oracle = Projective(size, epsilon, order, dimension)
    laws = [oracle.distribution(v) for v in range(size)]
    points = (order**dimension - 1) // (order - 1)
    assert len(laws[0]) == points
    for v, w in [(0, 1), (0, size - 1), (size // 2, size - 1)]:
        assert pure(laws[v], laws[w], epsilon + Fraction(1, 10**15)) and not pure(laws[v], laws[w], epsilon - Fraction(1, 10**12))
        assert max_divergence(laws[v], laws[w]).upper == pytest.approx(float(epsilon), rel=1e-10)
    # held and other, as sums of the law
    for v, w in [(0, 0), (1, 1), (0, 3), (size - 1, 2)]:
        mass = sum(float(sum(p)) / 2 for y, p in enclosed(laws[v]).items() if inside(oracle, w, y))
        assert mass == pytest.approx(oracle.held if v == w else oracle.other, rel=1e-12)


@pytest.mark.parametrize(
    ("order", "dimension", "size"), [(2, 5, 30), (3, 4, 40), (4, 3, 21), (5, 3, 31), (8, 3, 73), (9, 3, 80), (25, 2, 26)]
)
def test_the_transform_counts_what_plain_counting_counts(order: int, dimension: int, size: int) -> None:
    oracle = Projective(size, 1, order, dimension)
    reports = oracle.privatise(np.arange(400) % size)
    plain = [sum(inside(oracle, v, int(y)) for y in reports) for v in range(size)]
    assert supports(oracle, reports).tolist() == plain


@pytest.mark.parametrize(("order", "dimension"), [(2, 3), (3, 2), (4, 2), (9, 2)])
def test_points_are_drawn_by_the_law(order: int, dimension: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square at 1e-6. The mutant does not redraw the zero vector: it takes the first point instead."""
    points = (order**dimension - 1) // (order - 1)
    oracle, draws = Projective(points, 1, order, dimension), 60_000
    for value in (0, points - 1):
        law = {y: float(sum(p)) / 2 for y, p in enclosed(oracle.distribution(value)).items()}
        drawn = oracle.privatise(np.full(draws, value))
        assert chi_square([int((drawn == y).sum()) for y in law], list(law.values()), draws) > LEVEL
    right = noise.uniform_integers
    monkeypatch.setattr(noise, "uniform_integers", lambda n, size: np.maximum(right(n, size), int(n == order**dimension)))
    drawn = oracle.privatise(np.full(draws, value))
    assert chi_square([int((drawn == y).sum()) for y in law], list(law.values()), draws) < LEVEL


@pytest.mark.parametrize(("epsilon", "order", "dimension", "variance"), TABLE, ids=str)
def test_the_variance_of_the_specification(epsilon: float, order: int, dimension: int, variance: float) -> None:
    assert Projective(10_000, epsilon, order, dimension).variance(1) == pytest.approx(variance, abs=6e-4 * max(1, variance), rel=5e-3)


@pytest.mark.parametrize("size", [50, 1000, 10_000])
@pytest.mark.parametrize("epsilon", [0.1, 0.25, 0.4, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4])
def test_at_most_one_percent_above_the_optimum(epsilon: float, size: int) -> None:
    """From epsilon 1/2 to 4. Below, fields of 2 and 3 elements stand on either side of e^epsilon + 1, and 2.3% is what they can do."""
    odds = math.exp(epsilon)
    optimum = 4 * odds / (odds - 1) ** 2
    assert Projective(size, epsilon).variance(1) <= (1.01 if epsilon >= 0.5 else 1.023) * optimum, best_geometry(size, epsilon)


def test_impossible_points_are_no_reports() -> None:
    oracle = Projective(13, 1, 3, 3)
    every = np.arange(256, dtype=np.uint8)[:, None]
    _, whole = oracle.from_bytes(every)
    assert np.flatnonzero(whole).tolist() == sorted(oracle.distribution(0))  # the canonical points, 13 of 256 bytes


@pytest.mark.parametrize(
    "bad",
    [
        {"order": 6, "dimension": 3},
        {"order": 3},
        {"order": 3, "dimension": 2},
        {"order": 2, "dimension": 40},
        {"order": 3.5, "dimension": 3},
    ],
)
def test_bad_geometries_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"order|dimension"):
        Projective(13, 1, **bad)
    with pytest.raises(ParameterError, match="size"):
        best_geometry(10**8, 1)
