"""Laplace noise by Euclidean distance in several dimensions: metric privacy by enumeration, the law that is drawn, its accuracy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square

from tacit.accounting import NoOp, ParameterError, PureDP
from tacit.calculus import L1, L2, DomainError, Integers, Lattice, MetricError, Space, Vectors
from tacit.mechanisms import planar_laplace, spherical_laplace
from tacit.mechanisms.planar import draw, rounded_length, slope
from tacit.mechanisms.spherical import SphericalLaplace
from tacit.noise import discrete_laplace, test_mode

RUNS = 4000


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=16))
def test_lengths_and_slopes_keep_the_rejection_exact(move: list[int]) -> None:
    found = rounded_length(*move)
    assert found**2 >= sum(x * x for x in move)
    assert slope(len(move)) ** 2 * len(move) <= 1
    assert found >= slope(len(move)) * sum(abs(x) for x in move)


def test_metric_privacy_by_enumeration() -> None:
    """Masses around two points of Z^3, whose normaliser is common: log-ratios stay below epsilon times the distance."""
    epsilon = Fraction(1, 2)
    rate = float(epsilon / (1 + Fraction(1, 2**20)))
    reports = list(itertools.product(range(-6, 9), repeat=3))
    for move in [(1, 0, 0), (1, 1, 1), (1, 2, 2)]:
        worst = max(
            abs(rate * float(rounded_length(*z) - rounded_length(*(a - b for a, b in zip(z, move, strict=True))))) for z in reports
        )
        assert worst <= float(epsilon) * math.dist((0, 0, 0), move) * (1 + 1e-12)
        assert worst >= 0.99 * float(epsilon) * math.dist((0, 0, 0), move)


@pytest.mark.parametrize("dimension", [1, 3, 4])
def test_draws_follow_the_law(dimension: int) -> None:
    """Shells of the enumerated lattice against 4,000 draws."""
    rate, reach = Fraction(1), {1: 60, 3: 22, 4: 14}[dimension]
    with test_mode(71):
        drawn = [math.hypot(*draw(rate, dimension).tolist()) for _ in range(RUNS)]
    grid = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    lengths = np.linalg.norm(grid, axis=1)
    mass = np.exp(-float(rate) * lengths)
    # beyond the cube lies less than 1e-3 of the mass in four dimensions, which a shell of the tail takes up
    shells = np.minimum(lengths.astype(int), 9)
    shares = np.bincount(shells, mass, minlength=10) / mass.sum()
    counts = np.bincount(np.minimum(np.array(drawn).astype(int), 9), minlength=10)
    kept = [s for s in range(10) if shares[s] * RUNS >= 10]
    assert chi_square([counts[s] for s in kept], [shares[s] for s in kept], RUNS) > LEVEL


def test_the_proposals_without_rejection_are_caught() -> None:
    with test_mode(72):
        proposals = discrete_laplace(1 / slope(3), (20_000, 3))
    grid = np.stack(np.meshgrid(*[np.arange(-22, 23)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    lengths = np.linalg.norm(grid, axis=1)
    mass = np.exp(-lengths)
    within = float(mass[lengths < 3].sum() / mass.sum())
    assert chi_square([int((np.linalg.norm(proposals, axis=1) < 3).sum())], [within], 20_000) < LEVEL


def test_the_plane_is_the_planar_mechanism() -> None:
    space = Space(Vectors(Integers(), 2), L2())
    with test_mode(9):
        ours = [(space >> spherical_laplace(1)).function(np.array([3, 4])).tolist() for _ in range(5)]
    with test_mode(9):
        theirs = [(space >> planar_laplace(1)).function(np.array([3, 4])).tolist() for _ in range(5)]
    assert ours == theirs
    assert spherical_laplace(2).accuracy(0.05) == pytest.approx(planar_laplace(2).accuracy(0.05), rel=1e-9)


def test_the_price_is_per_unit_of_distance() -> None:
    plan = Space(Vectors(Lattice(Fraction(1, 8)), 4), L2()) >> spherical_laplace(2)
    assert plan.event(8) == PureDP(2) and plan.event(0) == NoOp()


@pytest.mark.parametrize("dimension", [1, 3, 4])
def test_the_accuracy_of_the_lattice_law(dimension: int) -> None:
    made = spherical_laplace(Fraction(1, 4))
    bound = made.accuracy(0.1, dimension=dimension, granularity=1)
    with test_mode(5):
        moves = [math.hypot(*draw(Fraction(1, 4), dimension).tolist()) for _ in range(1000)]
    assert np.mean(np.array(moves) > bound) <= 0.1
    assert bound <= made.accuracy(0.1, dimension=dimension) + 4 + 2 * math.sqrt(dimension)


def test_for_accuracy_and_refusals() -> None:
    made = SphericalLaplace.for_accuracy(10, 0.05, dimension=4)
    assert made.accuracy(0.05, dimension=4) <= 10 < spherical_laplace(float(made.epsilon) * 0.99).accuracy(0.05, dimension=4)
    with pytest.raises(DomainError, match="1 to 16 coordinates"):
        Space(Vectors(Integers(), 17), L2()) >> spherical_laplace(1)
    with pytest.raises(MetricError):
        Space(Vectors(Integers(), 3), L1()) >> spherical_laplace(1)
    with pytest.raises(ParameterError, match="epsilon"):
        spherical_laplace(0)
