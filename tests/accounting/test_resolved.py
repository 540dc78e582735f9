"""Steps whose divergences are known better than their pair's: what that does to every figure, and that no figure falls below the truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, Composed, DiscreteGaussian, Exponential, Gaussian, Group, Laplace, Repeated, account
from tacit.accounting.pairs.laplace import bounded_range_divergence
from tacit.accounting.resolve import Concentrated, Resolved, Step, renyi_curve, resolve
from tacit.accounting.theorems.conversions import zcdp_epsilon

ADD = Adjacency.ADD_REMOVE


RUNS = [(0.1, 20, 1e-6), (0.1, 200, 1e-6), (0.5, 10, 1e-6), (0.01, 1000, 1e-6), (1.0, 5, 1e-9)]


@pytest.mark.parametrize(("epsilon", "count", "delta"), RUNS)
def test_repeated_exponential_mechanisms_cost_no_more_than_the_concentrated_bound(epsilon: float, count: int, delta: float) -> None:
    """rho = count epsilon^2 / 8 (Cesar and Rogers 2021), converted; the pair alone gives more for small epsilon and many repetitions."""
    cost = account(Repeated(Exponential(epsilon), count), ADD)
    assert cost.rho().upper == pytest.approx(count * epsilon**2 / 8, rel=1e-12)
    found = cost.epsilon(delta)
    assert found.upper <= zcdp_epsilon(count * epsilon**2 / 8, delta)
    assert found.lower <= found.upper <= count * epsilon
    assert cost.rdp(2).upper <= 2 * count * epsilon**2 / 8
    assert cost.rdp(1e9).upper == pytest.approx(count * epsilon, rel=1e-5)


def test_delta_and_epsilon_use_the_same_bound() -> None:
    cost = account(Repeated(Exponential(0.1), 200), ADD)
    found = cost.epsilon(1e-6)
    assert "Rényi" in found.method
    assert cost.delta(found.upper).upper == pytest.approx(1e-6, rel=1e-3)
    assert cost.delta(found.upper).upper <= 1e-6 * (1 + 1e-6)


def composed_delta(epsilon: float, places: list[float], alpha: float) -> float:
    """The exact hockey-stick divergence of one two-point law a step, with losses t and t - epsilon, over all outcomes."""
    total = 0.0
    laws = []
    for t in places:
        high = (1 - math.exp(t - epsilon)) / (math.exp(t) - math.exp(t - epsilon))
        laws.append([(math.exp(t) * high, high), (math.exp(t - epsilon) * (1 - high), 1 - high)])
    for outcome in itertools.product(*laws):
        p, q = math.prod(x[0] for x in outcome), math.prod(x[1] for x in outcome)
        total += max(p - alpha * q, 0.0)
    return total


def test_no_composition_of_bounded_range_laws_beats_the_bound() -> None:
    """Every two-point law is some exponential mechanism's limit. The mutant, a rho of epsilon^2 / 16, is beaten."""
    epsilon, count = 0.4, 12
    cost = account(Repeated(Exponential(epsilon), count), ADD)
    beaten = False
    half = zcdp_delta_of(count * epsilon**2 / 16)
    for place in np.linspace(0.02, epsilon - 0.02, 7).tolist():
        for at in (0.0, 0.3, 0.8, 1.5, 2.2):
            truth = composed_delta(epsilon, [place] * count, math.exp(at))
            assert truth <= cost.delta(at).upper * (1 + 1e-12)
            beaten |= truth > half(at)
    assert beaten


def zcdp_delta_of(rho: float):  # type: ignore[no-untyped-def]
    """exp(-(eps - rho)^2 / (4 rho)): Bun and Steinke 2016, Proposition 1.3, as a function of epsilon."""
    return lambda eps: math.exp(-((eps - rho) ** 2) / (4 * rho)) if eps > rho else 1.0


def test_negative_epsilons_keep_to_the_pair() -> None:
    cost = account(Repeated(Exponential(0.1), 50), ADD)
    for at in (-1.0, -0.2):
        assert composed_delta(0.1, [0.05] * 8, math.exp(at)) <= cost.delta(at).upper <= 1
        assert cost.delta(at).upper >= cost.delta(0.0).lower


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 100.0])
def test_discrete_gaussian_noise_has_the_divergence_of_the_continuous(order: float) -> None:
    """Canonne, Kamath, Steinke 2020: at whole sensitivities it diverges no further; here equally far to all digits, as sigma is large."""
    found, continuous = account(Repeated(DiscreteGaussian(10, 3), 7), ADD).rdp(order), 7 * order * 9 / 200
    assert found.lower <= continuous * (1 + 1e-15) and found.upper == pytest.approx(continuous, rel=1e-12)
    assert account(Group(DiscreteGaussian(10), 3), ADD).rdp(order).upper == pytest.approx(order * 9 / 200, rel=1e-12)


def test_discrete_gaussian_noise_composes_with_everything() -> None:
    mixed = account(Composed(DiscreteGaussian(5), Laplace(10), Gaussian(4), Exponential(0.2)), ADD)
    parts = [account(event, ADD).rdp(3).upper for event in (DiscreteGaussian(5), Laplace(10), Gaussian(4), Exponential(0.2))]
    assert mixed.rdp(3).upper == pytest.approx(sum(parts), rel=1e-12)
    rho = mixed.rho().upper
    assert 1 / 50 + 1 / 32 < rho <= 1 / 50 + 1 / 200 + 1 / 32 + 0.04 / 8 + 1e-12
    for order in (1.01, 2.0, 50.0, 1e4, 1e7):
        assert mixed.rdp(order).upper <= rho * order * (1 + 1e-12), "rho bounds the divergence at every order, far ones too"


def test_a_bound_of_its_own_replaces_the_pair_and_is_repeated_with_its_step() -> None:
    parts = resolve(Repeated(Exponential(0.5), 3), ADD)
    curve = renyi_curve(parts)(np.array([2.0]))
    assert curve == pytest.approx(3 * bounded_range_divergence(0.5, np.array([2.0])))
    (step,) = parts.steps
    plain = Resolved((Step(step.remove, step.add, 3, step.floor),))
    assert renyi_curve(plain)(np.array([2.0])) > 1.2 * curve, "the mutant without it"
    assert isinstance(step.concentrated, Concentrated) and parts.times(5).steps[0].concentrated is step.concentrated
