"""Engines agree where two apply, and shortcuts are upper bounds."""

import math

import pytest

from tacit.accounting.engines import compose, contour, grid
from tacit.accounting.pairs.finite import randomised_response
from tacit.accounting.pairs.laplace import laplace
from tacit.accounting.pairs.mixture import gaussian, poisson_gaussian
from tacit.accounting.pairs.pair import Disclosure, Trivial

CASES = [
    [(poisson_gaussian(0.1, 1.0), 300)],
    [(poisson_gaussian(0.1, 1.0).reverse(), 300)],
    [(laplace(0.5), 400)],
    [(gaussian(4.0), 2), (laplace(0.3), 10), (randomised_response(0.2), 10)],
]


@pytest.mark.parametrize("parts", CASES, ids=lambda p: ", ".join(type(x).__name__ for x, _ in p))
def test_contour_and_grid_agree(parts) -> None:
    line, lattice = contour.epsilon(parts, 1e-6), grid.bracket(parts, delta=1e-6)
    assert line.intersect(lattice).width <= 1e-6
    line, lattice = contour.delta(parts, 1.0), grid.bracket(parts, epsilon=1.0)
    assert line.lower <= lattice.upper * (1 + 1e-9) and lattice.lower <= line.upper * (1 + 1e-9)


@pytest.mark.parametrize("parts", CASES, ids=lambda p: ", ".join(type(x).__name__ for x, _ in p))
def test_quick_bounds_are_above(parts) -> None:
    assert compose.epsilon_cap(parts, 1e-6) >= compose.epsilon(parts, 1e-6).lower
    assert compose.delta_cap(parts, 1.0) >= compose.delta(parts, 1.0).lower


def test_gaussians_merge_and_trivial_pairs_vanish() -> None:
    (only,) = compose.merge([(gaussian(1.0), 3), (Trivial(), 5), (gaussian(0.5), 1)])
    assert compose.shift(only[0]) == pytest.approx(math.sqrt(7)) and only[1] == 1
    assert compose.epsilon([(Trivial(), 4)], 1e-9).upper == 0
    assert compose.delta([(Trivial(), 4)], -1.0).upper == pytest.approx(1 - math.exp(-1))
    assert compose.delta([(Disclosure(), 1)], 5.0).lower == 1


def test_total_variation_may_cover_everything() -> None:
    assert compose.epsilon([(poisson_gaussian(1e-9, 1.0), 1000)], 1e-5).upper == 0


def test_delta_beyond_every_loss_is_the_infinite_mass() -> None:
    assert compose.delta([(laplace(0.1), 3)], math.inf).upper == 0
    assert compose.delta([(gaussian(1.0), 3)], math.inf).upper == 0
