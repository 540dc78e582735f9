"""Proofs on a lattice: against closed forms, exact enumeration and the accountant's brackets; rounding the wrong way must be seen."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

pytest.importorskip("flint")

from flint import ctx

from tacit.accounting import (
    Adjacency,
    Composed,
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    Poisson,
    PureDP,
    RandomAllocation,
    Repeated,
    Sampled,
    UnsupportedError,
    WithoutReplacement,
    WithReplacement,
    account,
)
from tacit.accounting.engines import ball_allocation, ball_grid
from tacit.accounting.engines.ball_grid import AtomCells, FixedSizeCells, LaplaceCells, SampledGaussianCells, grid_delta, grid_epsilon
from tacit.accounting.engines.ball_lattice import discrete_gaussian, finite_epsilon, response
from tacit.accounting.theorems import gaussian

RO = Adjacency.REPLACE_ONE


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coarse lattices prove as much, only less sharply."""
    monkeypatch.setattr(ball_grid, "_CELLS", 800)
    monkeypatch.setattr(ball_grid, "_WIDE", 400)
    monkeypatch.setattr(ball_allocation, "_POINTS", 1500)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), Fraction(19, 10)])
def test_one_laplace_draw_is_its_closed_form(epsilon: Fraction) -> None:
    """1 - exp((eps - theta) / 2)."""
    truth = -math.expm1((float(epsilon) - 2) / 2)
    found = grid_delta([(LaplaceCells(Fraction(2)), 1)], epsilon, truth)
    assert found.lower <= truth * (1 + 1e-14) and truth * (1 - 1e-14) <= found.upper and found.width < 1e-4 * truth


def test_gaussians_are_their_closed_form() -> None:
    """Twenty draws of noise 5 are one of mu = sqrt(20) / 5."""
    truth = gaussian.epsilon(math.sqrt(20) / 5, 1e-6)
    found = grid_epsilon([(SampledGaussianCells(Fraction(1), Fraction(1, 5)), 20)], Fraction(1, 10**6))
    assert found.lower <= truth <= found.upper and found.width < 3e-3 * truth


def test_responses_off_the_lattice_hold_the_exact_composition() -> None:
    """Units of 1/10 and 3/10 + 1e-9 have no common lattice; the exact one, with a unit of 1e-9, is far too long."""
    off = Fraction(3, 10) + Fraction(1, 10**9)
    laws = [response(Fraction(1, 10)), response(off)]
    cells = [(AtomCells(law.losses, law.masses), 10) for law in laws]
    near = finite_epsilon([(laws[0], 10), (response(Fraction(3, 10)), 10)], Fraction(1, 1000))
    found = grid_epsilon(cells, Fraction(1, 1000))
    assert found.lower <= near.upper + 1e-7 and near.lower <= found.upper and found.width < 0.05


MIXED = Composed(Laplace(4), Sampled(Poisson(Fraction(1, 5)), Gaussian(2)), PureDP(Fraction(1, 3)), DiscreteGaussian(Fraction(4), 1))
CASES: list[tuple[Event, Adjacency | None, float, float]] = [
    (Repeated(Laplace(10), 100), None, 1e-6, 2e-4),
    (Laplace(Fraction(1, 2)), None, 1e-6, 1e-6),
    (Repeated(Laplace(5), 20), RO, 1e-6, 1e-3),
    (Repeated(DiscreteGaussian(Fraction(3), 2), 10), None, 1e-6, 1e-13),
    (Repeated(Sampled(WithoutReplacement(1000, 200), Gaussian(3)), 10), RO, 1e-5, 2e-2),
    (Composed(Repeated(Laplace(10), 10), Repeated(Gaussian(5), 3)), None, 1e-6, 1e-2),
    (MIXED, None, 1e-5, 2e-2),
    (Sampled(RandomAllocation(20), Gaussian(2)), None, 1e-5, 5e-3),
]


@pytest.mark.parametrize(("event", "relation", "delta", "width"), CASES)
def test_proofs_hold_what_the_accountant_says(event: Event, relation: Adjacency | None, delta: float, width: float) -> None:
    cost = account(event, relation)
    proved, usual = cost.epsilon(delta, certify=True), cost.epsilon(delta)
    assert proved.lower <= usual.upper and usual.lower <= proved.upper
    assert proved.width <= width * proved.upper
    epsilon = 0.5 * usual.upper
    proved, usual = cost.delta(epsilon, certify=True), cost.delta(epsilon)
    assert proved.lower <= usual.upper and usual.lower <= proved.upper


def cells_float(rate: float, shift: float, loss: float) -> tuple[float, float]:
    """P- and Q-mass above a loss, by hand."""
    u = math.log((math.exp(loss) - 1 + rate) / rate) / shift + shift / 2
    q = 0.5 * math.erfc(u / math.sqrt(2))
    return (1 - rate) * q + rate * 0.5 * math.erfc((u - shift) / math.sqrt(2)), q


def test_the_masses_of_cells_add_up() -> None:
    with ctx.workprec(200):
        for cells in (LaplaceCells(Fraction(1)), FixedSizeCells(Fraction(1, 10), Fraction(2))):
            for side in (0, 1):
                total = float(cells.tails(Fraction(-20))[side].mid()) + sum(float(atom[1 + side].mid()) for atom in cells.atoms())
                assert total == pytest.approx(1, abs=1e-6)
        removed, added = SampledGaussianCells(Fraction(1, 10), Fraction(1)), SampledGaussianCells(Fraction(1, 10), Fraction(1), added=True)
        for loss in (Fraction(-1, 20), Fraction(1, 3), Fraction(2)):  # the one's P above a loss is the other's Q below its negative
            ours, theirs = removed.tails(loss), added.tails(-loss)
            assert float(ours[0] + theirs[1]) == pytest.approx(1, abs=1e-15) and float(ours[1] + theirs[0]) == pytest.approx(1, abs=1e-15)
            above = cells_float(0.1, 1.0, float(loss))
            assert (float(ours[0]), float(ours[1])) == pytest.approx(above, rel=1e-12)


def test_discrete_gaussian_masses_sum_to_one() -> None:
    with ctx.workprec(320):
        law = discrete_gaussian(Fraction(5, 2), 3)
        assert float(abs(sum(law.masses()) - 1).upper()) < 1e-50 and law.lost < Fraction(1, 10**50)


def test_a_mutant_that_rounds_the_wrong_way_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the lowered law taken for the upper end, it would lie below the truth."""
    noise, truth = [(LaplaceCells(Fraction(1, 2)), 10)], account(Repeated(Laplace(2), 10)).epsilon(1e-5)
    monkeypatch.setattr(ball_grid, "_raised", ball_grid._lowered)
    assert grid_epsilon(noise, Fraction(1, 10**5)).upper < truth.lower


def test_what_has_no_proof_is_refused() -> None:
    for event, relation in (
        (Sampled(RandomAllocation(20, 3), Gaussian(2)), None),
        (Sampled(WithReplacement(100, 10), Gaussian(2)), RO),
    ):
        with pytest.raises(UnsupportedError, match="certify"):
            account(event, relation).epsilon(1e-5, certify=True)
