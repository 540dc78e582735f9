"""Proved epochs of random allocation: against quadrature, enumeration and closed forms; wrong ends and miscounts must be seen."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

pytest.importorskip("flint")

from flint import arb, ctx
from scipy.stats import norm

from tacit.accounting import (
    AccountingError,
    Composed,
    Gaussian,
    Laplace,
    Poisson,
    RandomAllocation,
    Repeated,
    Sampled,
    account,
)
from tacit.accounting.engines import ball_allocation, ball_epochs, ball_grid
from tacit.accounting.engines.ball_arithmetic import to_ball
from tacit.accounting.engines.ball_epochs import EpochCells, cells_of, polygon, rounded_sums
from tacit.accounting.engines.ball_grid import LaplaceCells, SampledGaussianCells, grid_delta, grid_epsilon
from tacit.accounting.pairs.pair import Array
from tacit.accounting.theorems import gaussian


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coarse lattices prove as much, only less sharply."""
    monkeypatch.setattr(ball_grid, "_CELLS", 600)
    monkeypatch.setattr(ball_grid, "_WIDE", 400)
    monkeypatch.setattr(ball_epochs, "_POINTS", 1000)
    ball_epochs._told.cache_clear()
    ball_epochs.polygon.cache_clear()


def one_of_two(sigma: float, alpha: Array, added: bool = False, step: float = 0.002) -> Array:
    """E[(R - alpha)_+], R = (Y_1 + Y_2) / 2, or E[(1 - alpha R)_+]: trapezoidal rule over one output, a closed form for the other.

    The step has to resolve the other ratio where the first is near 2 alpha, so large alpha need small ones.
    """
    z = np.arange(-9.0, 10.0 + 1 / sigma, step)
    weight, y = norm.pdf(z) * step, np.exp(z / sigma - 0.5 / sigma**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        border = 2 * (1 / alpha if added else alpha)[:, None] - y[None, :]
        d = sigma * np.log(np.maximum(border, 0.0)) + 0.5 / sigma
        if added:
            call = np.where(border > 0, border * norm.cdf(d) - norm.cdf(d - 1 / sigma), 0.0) * alpha[:, None]
        else:
            call = np.where(border > 0, norm.cdf(1 / sigma - d) - border * norm.cdf(-d), 1 - border)
    return np.asarray((call / 2) @ weight)


@lru_cache(maxsize=8)
def two_epochs_of_two(sigma: float, epsilon: float, added: bool = False) -> float:
    """delta of two epochs of 1 of 2: given the outputs of the first, with ratio R, that of the second at K / R, times R.

    Trapezoidal rules: halving either step moves neither case here by more than 3e-9 of it.
    """
    z = np.arange(-8.0, 8.0 + 1 / sigma, 0.15)
    weight, y = norm.pdf(z) * 0.15, np.exp(z / sigma - 0.5 / sigma**2)
    first, second = np.triu_indices(len(z))  # the two steps of an epoch may change places
    ratio, mass = (y[first] + y[second]) / 2, weight[first] * weight[second] * np.where(first == second, 1, 2)
    k, inner = math.exp(epsilon), 0.02 if sigma < 2 else 0.05
    parts = np.array_split(np.arange(len(ratio)), 40)
    if added:
        return math.fsum(float(mass[i] @ one_of_two(sigma, k * ratio[i], True, inner)) for i in parts)
    return math.fsum(float((mass[i] * ratio[i]) @ one_of_two(sigma, k / ratio[i], step=inner)) for i in parts)


@pytest.mark.parametrize(("sigma", "epsilon", "added"), [(Fraction(1), 1.5, False), (Fraction(2), 0.5, False), (Fraction(2), 0.5, True)])
def test_two_epochs_of_two_steps_hold_the_quadrature(sigma: Fraction, epsilon: float, added: bool) -> None:
    truth = two_epochs_of_two(float(sigma), epsilon, added)
    found = grid_delta([(EpochCells(sigma, 2, added), 2)], Fraction(epsilon), truth)
    assert found.lower <= truth * (1 + 1e-8) and truth * (1 - 1e-8) <= found.upper
    assert found.width < 0.01 * truth


def test_one_step_is_the_gaussian_mechanism() -> None:
    truth = gaussian.epsilon(math.sqrt(3) / 2, 1e-5)
    for added in (False, True):
        found = grid_epsilon([(EpochCells(Fraction(2), 1, added), 3)], Fraction(1, 10**5))
        assert found.lower <= truth <= found.upper and found.width < 5e-3 * truth


def curve(found: ball_epochs.Polygon, alpha: Array) -> Array:
    """The polygon's curve, from its bends."""
    ratios, bends = (np.array([float(x.mid()) for x in some]) for some in (found.ratios, found.bends))
    return np.asarray(np.maximum(ratios[None, :] - alpha[:, None], 0.0) @ bends + float(found.infinite.mid()))


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(1, 2), Fraction(3)])
def test_the_polygon_is_close_above_the_curve(sigma: Fraction) -> None:
    with ctx.workprec(200):
        found = polygon(sigma, 2, Fraction(1, 50), -150, 200)
        law, back = found.law(False), found.law(True)
        for one in (law, back):
            assert float(abs(sum(one.mass) + one.infinite - 1).upper()) < 1e-40
    alpha = np.exp(np.linspace(-3.0, 4.0, 400))  # from the first point to the last
    truth, ours = one_of_two(float(sigma), alpha), curve(found, alpha)
    assert (ours >= truth * (1 - 1e-9) - 1e-13).all()
    assert (ours <= truth * 1.02 + 1e-4).all()


def test_a_polygon_of_sums_that_are_too_large_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were sums moved up by one point of their lattice, the curve would lie below the truth at the points."""

    @dataclass(frozen=True)
    class Moved:
        sums: ball_allocation.Sums

        def below(self, at: arb) -> arb:
            return self.sums.below(at - to_ball(self.sums.step))

    spread = ball_epochs.spread_sums
    monkeypatch.setattr(ball_epochs, "spread_sums", lambda *given: Moved(spread(*given)))
    alpha = np.exp(np.arange(-50, 50) / 50)
    with ctx.workprec(200):
        ours = curve(polygon(Fraction(1), 2, Fraction(1, 50), -100, 150), alpha)
    assert (ours < one_of_two(1.0, alpha) * (1 - 1e-6)).any()
    ball_epochs.polygon.cache_clear()


def test_levels_are_those_of_an_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps, rounded by hand on each lattice, every triple of rounded ratios listed."""
    monkeypatch.setattr(ball_epochs, "_POINTS", 60)
    sigma, steps = Fraction(1), 3
    with ctx.workprec(200):
        levels = [[(float(p.mid()), float(q.mid())) for p, q in level] for level in rounded_sums(sigma, steps, 8.0)]
    assert math.fsum(p for level in levels for p, _ in level) == pytest.approx(1, abs=1e-14)
    assert math.fsum(q for level in levels for _, q in level) == pytest.approx(1, abs=1e-14)

    def cells(lattice: float, count: int) -> list[tuple[float, float]]:
        ends = [0.0] + [lattice * (j + 0.5) for j in range(count + 1)]
        z = [float(sigma) * math.log(y) + 0.5 / float(sigma) if y else -math.inf for y in ends]
        return [
            (float(norm.cdf(b - 1 / sigma) - norm.cdf(a - 1 / sigma)), float(norm.cdf(b) - norm.cdf(a))) for a, b in itertools.pairwise(z)
        ]

    usual = steps * (1 + min(12 * math.sqrt(math.expm1(1) / steps), 3.0))
    lattice, largest, inner = usual / 60, 17, -1
    assert len(levels) > 5
    for level in range(len(levels) // 2):
        one = cells(lattice, largest)
        size = 60 if level == 0 else 2 * largest
        law = np.zeros((size + 2, 2))
        for triple in itertools.product(range(largest + 1), repeat=steps):
            if max(triple) <= inner:
                continue
            q = math.prod(one[j][1] for j in triple)
            p = sum(one[j][0] * q / one[j][1] for j in triple) / steps if q else 0.0
            law[min(sum(triple), size + 1)] += (p, q)
        assert np.allclose(levels[2 * level], law[: size + 1], rtol=1e-9, atol=1e-13)
        assert np.allclose(levels[2 * level + 1], law[size + 1], rtol=1e-9, atol=1e-13)
        lattice, inner = 5 * lattice, 3


def test_lower_ends_are_below_the_truth_at_every_loss() -> None:
    """Shares of P less alpha times Q above any loss are a test that someone can run, smeared outputs or not."""
    with ctx.workprec(200):
        cells = EpochCells(Fraction(1), 2)
        for i in range(-30, 60, 7):
            p, q = (float(x.mid()) for x in cells.tails(Fraction(i, 20)))
            alpha = math.exp(i / 20)
            truth = float(one_of_two(1.0, np.array([alpha]))[0])
            assert p - alpha * q <= truth * (1 + 1e-12) and p - alpha * q > truth * (1 - 2e-3) - 1e-4
            back_p, back_q = (float(x.mid()) for x in EpochCells(Fraction(1), 2, True).tails(Fraction(-i, 20)))
            assert back_p + q == pytest.approx(1, abs=1e-12) and back_q + p == pytest.approx(1, abs=1e-12)


def test_mutants_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowered law as an upper end; and a step's P-masses that add up to more than 1."""
    truth = two_epochs_of_two(2.0, 0.5)
    epochs = [(EpochCells(Fraction(2), 2), 2)]
    with monkeypatch.context() as patched:
        patched.setattr(EpochCells, "raised", lambda self, step, first, last, cut: ball_grid._lowered(self, step, first, last))
        assert grid_delta(epochs, Fraction(1, 2), truth).upper < truth
    first = cells_of

    def doubled(sigma: Fraction, lattice: Fraction, largest: int) -> tuple[list[object], list[object]]:
        p, q = first(sigma, lattice, largest)
        return [x * 21 / 20 for x in p], list(q)

    with monkeypatch.context() as patched:
        ball_epochs._told.cache_clear()
        patched.setattr(ball_epochs, "cells_of", doubled)
        with pytest.raises(AccountingError, match="not a bracket"):
            grid_delta(epochs, Fraction(1, 2), truth)
        ball_epochs._told.cache_clear()


def test_many_epochs_beside_the_accountant() -> None:
    epochs = Repeated(Sampled(RandomAllocation(10), Gaussian(1)), 2)
    mixed = Composed(epochs, Laplace(2), Sampled(Poisson(Fraction(1, 10)), Gaussian(2)))
    for event, width in ((Repeated(Sampled(RandomAllocation(20), Gaussian(2)), 10), 5e-3), (mixed, 0.02)):
        cost = account(event)
        proved, usual = cost.epsilon(1e-5, certify=True), cost.epsilon(1e-5)
        assert proved.lower <= usual.upper and usual.lower <= proved.upper and proved.width <= width * proved.upper
    proved, usual = cost.delta(0.5, certify=True), cost.delta(0.5)
    assert proved.lower <= usual.upper and usual.lower <= proved.upper


def test_different_allocations_compose_under_a_proof() -> None:
    """The accountant's own bracket has one kind of epoch; the proof takes several. Neither order nor grouping matters."""
    one, other = EpochCells(Fraction(2), 5), EpochCells(Fraction(3), 2)
    both = grid_epsilon([(one, 2), (other, 3)], Fraction(1, 10**5))
    turned = grid_epsilon([(other, 3), (one, 2)], Fraction(1, 10**5))
    assert both.lower <= turned.upper and turned.lower <= both.upper and both.width < 0.02 * both.upper
    alone = grid_epsilon([(one, 2)], Fraction(1, 10**5))
    assert both.lower > alone.upper
    parts = [(SampledGaussianCells(Fraction(1), Fraction(1, 3)), 3), (LaplaceCells(Fraction(1, 10)), 1)]
    assert grid_epsilon([(other, 3), parts[1]], Fraction(1, 10**5)).upper < grid_epsilon(parts, Fraction(1, 10**5)).upper
