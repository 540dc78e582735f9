"""Constraint sets: projections against their defining inequality, diameters against random pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.learning.textbook.sets import Box, ConstraintSet, Everything, L1Ball, L2Ball

SETS: dict[str, ConstraintSet] = {"l2": L2Ball(4, 1.5), "l1": L1Ball(4, 1.5), "box": Box(4, -1.0, 0.5)}


@pytest.mark.parametrize("name", SETS)
@given(seed=st.integers(0, 10_000))
def test_a_projection_is_the_nearest_point(name: str, seed: int) -> None:
    """A convex set's nearest point z to x has <x - z, w - z> <= 0 for every w of the set."""
    generator = np.random.default_rng(seed)
    chosen = SETS[name]
    x = generator.normal(size=4) * 2
    z = chosen.project(x)
    assert chosen.contains(z) and chosen.project(z) == pytest.approx(z)
    for _ in range(20):
        w = chosen.project(generator.normal(size=4) * 2)
        assert (x - z) @ (w - z) <= 1e-9


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("q", [1, 2, math.inf])
def test_no_two_points_are_further_apart_than_the_diameter(name: str, q: float) -> None:
    generator = np.random.default_rng(1)
    chosen = SETS[name]
    points = [chosen.project(generator.normal(size=4) * 10) for _ in range(200)]
    points += [chosen.project(10 * sign * np.ones(4)) for sign in (1, -1)] + [chosen.project(10 * sign * np.eye(4)[0]) for sign in (1, -1)]
    widest = max(float(np.linalg.norm(a - b, q)) for a in points for b in points)
    assert widest <= chosen.diameter(q) * (1 + 1e-9) and widest > 0.99 * chosen.diameter(q)


def test_everything_contains_everything() -> None:
    x = np.array([1e9, -3.0])
    assert Everything(2).project(x) is x and Everything(2).contains(x) and math.isinf(Everything(2).diameter())


def test_corners_of_the_l1_ball_are_in_it_and_span_it() -> None:
    corners = L1Ball(3, 2.0).vertices()
    assert np.abs(corners).sum(axis=1).tolist() == [2.0] * 6 and len({tuple(c) for c in corners.tolist()}) == 6


@pytest.mark.parametrize("make", [lambda: L2Ball(0), lambda: L1Ball(2, -1.0), lambda: Box(2, 1.0, 1.0)])
def test_bad_sets_are_refused(make: object) -> None:
    with pytest.raises(ParameterError):
        make()  # type: ignore[operator]
