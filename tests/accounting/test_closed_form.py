"""One release priced by its closed form costs what the engines say, to the last bit, and what the formula says."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import Adjacency, Gaussian, Laplace, PureDP, Repeated, account, cost_of
from tacit.accounting.closed_form import hockey_stick, laplace_delta, one_release
from tacit.accounting.pairs.laplace import laplace
from tacit.accounting.theorems import gaussian

RELATIONS = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
CASES = [(float(m), float(d)) for m, d in zip(np.geomspace(0.02, 500, 60), np.geomspace(0.9, 1e-15, 60), strict=True)]


@pytest.mark.parametrize("noise", [Gaussian, Laplace])
def test_the_closed_form_is_the_engines_figure_to_the_last_bit(noise: type[Gaussian] | type[Laplace]) -> None:
    for multiplier, delta in CASES:
        for relation in RELATIONS:
            event = noise(Fraction(multiplier).limit_denominator(10**6))
            found = one_release(event, relation, delta)
            assert found == account(event, relation).epsilon(delta) == cost_of(event, relation, delta)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.3, 1.0, 2.5, 7.0])
@pytest.mark.parametrize("theta", [1e-6, 0.3, 1.0, 20.0, 599.0])
def test_laplace_tails_are_those_of_the_pair(theta: float, epsilon: float) -> None:
    """The pair adds up masses and atoms; the real number is 1 - exp((epsilon - theta) / 2)."""
    pair = laplace(theta)
    p, q = pair.masses(np.array([epsilon, math.inf]))
    loss, mass = pair.atoms()
    above = loss > epsilon
    atoms = float(np.sum(mass[above] * -np.expm1(epsilon - loss[above])))
    low, high = laplace_delta(theta, epsilon)
    assert (low, high) == hockey_stick(float(p[0]), float(q[0]), epsilon, atoms=atoms) == pair.hockey_stick(epsilon)
    assert low <= max(0.0, -math.expm1((epsilon - theta) / 2)) <= high


def test_laplace_epsilon_is_the_formula() -> None:
    for multiplier, delta in CASES:
        found = one_release(Laplace(multiplier), Adjacency.ADD_REMOVE, delta)
        truth = max(0.0, 1 / multiplier + 2 * math.log1p(-delta))
        assert found is not None
        assert found.lower * (1 - 1e-12) - 1e-12 <= truth <= found.upper * (1 + 1e-12) + 1e-12
        assert found.upper - found.lower <= 1e-9 * (1 + truth) + 1e-12 / delta


def test_a_wrong_atom_is_seen() -> None:
    """Without the atom at the end of the support delta falls far below the truth."""
    pair = laplace(1.0)
    p, q = pair.masses(np.array([0.5, math.inf]))
    assert hockey_stick(float(p[0]), float(q[0]), 0.5, atoms=0.0)[1] < 0.5 * -math.expm1(-0.25)


def test_what_has_no_closed_form_is_left_to_the_engines() -> None:
    for event in (Repeated(Gaussian(2), 3), PureDP(1), Laplace(Fraction(1, 1000))):
        assert one_release(event, Adjacency.ADD_REMOVE, 1e-6) is None
    for delta in (0.0, 1.0, -1.0, math.nan):
        assert one_release(Gaussian(2), Adjacency.ADD_REMOVE, delta) is None
    assert one_release(Gaussian(2), "add-remove", 1e-6) is None  # type: ignore[arg-type]


def test_the_gaussian_bracket_is_on_both_sides_of_the_root() -> None:
    for multiplier, delta in CASES:
        found = one_release(Gaussian(multiplier), Adjacency.ADD_REMOVE, delta)
        assert found is not None
        assert gaussian.delta(1 / multiplier, found.upper) <= delta * (1 + 1e-9)
