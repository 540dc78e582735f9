"""Report noisy max: geometric noise with random ties is exponential noise is permute and flip; with Gumbel it is exponential."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import chdtrc

from tacit.accounting import Exponential, NoOp, ParameterError, PureDP
from tacit.calculus import L1, Integers, Lattice, LInfinity, Space, Vectors
from tacit.mechanisms import NoisyMax, noisy_max
from tacit.noise import test_mode as seeded


def by_quadrature(scores, scale, steps=60_000):
    """P(i) = integral of the density of score i plus noise times the distribution functions of the others: continuous exponential noise."""
    top = max(scores)
    grid, width = np.linspace(top, top + 40 * scale, steps, retstep=True)
    under = [1 - np.exp(-(grid - s) / scale) for s in scores]
    found = []
    for i, s in enumerate(scores):
        density = np.exp(-(grid - s) / scale) / scale * np.prod([u for j, u in enumerate(under) if j != i], axis=0)
        found.append(float(((density[1:] + density[:-1]) / 2).sum() * width))
    return found


def by_summation(scores, scale, ties="random"):
    """Geometric noise: sum over the winning level and over which others share it."""
    p = math.exp(-1 / scale)
    mass = lambda k: (1 - p) * p**k if k >= 0 else 0.0  # noqa: E731
    below = lambda k: 1 - p**k if k > 0 else 0.0  # noqa: E731  P(noise < k)
    n = len(scores)
    found = [0.0] * n
    for level in range(min(scores), max(scores) + int(60 * scale)):
        for tied in itertools.product((0, 1), repeat=n):
            if not any(tied):
                continue
            chance = math.prod(mass(level - s) if t else below(level - s) for s, t in zip(scores, tied, strict=True))
            winners = [i for i, t in enumerate(tied) if t]
            for i in winners if ties == "random" else winners[:1]:
                found[i] += chance / (len(winners) if ties == "random" else 1)
    return found


@pytest.mark.parametrize(("scores", "scale"), [((0, 0, 0), 2.0), ((0, 1, 3), 1.5), ((2, 2, 0), 0.7)])
def test_geometric_noise_with_random_ties_is_exponential_noise(scores, scale):
    assert by_summation(scores, scale) == pytest.approx(by_quadrature(scores, scale), abs=2e-6)
    assert by_summation(scores, scale, ties="first")[0] > by_quadrature(scores, scale)[0] + 0.01 or scores[0] < max(scores) - 1


def permute_and_flip_law(scores, rate):
    coins = [math.exp(rate * (s - max(scores))) for s in scores]
    orders = list(itertools.permutations(range(len(scores))))
    found = [0.0] * len(scores)
    for order in orders:
        reached = 1.0
        for i in order:
            found[i] += reached * coins[i] / len(orders)
            reached *= 1 - coins[i]
    return found


@pytest.mark.parametrize(("scores", "scale"), [((0, 0, 0), 2.0), ((0, 1, 3), 1.5), ((5, 2, 0), 3.0)])
def test_it_is_permute_and_flip(scores, scale):
    assert by_summation(scores, scale) == pytest.approx(permute_and_flip_law(scores, 1 / scale), abs=1e-10)


def p_value(found, chances):
    expected = np.array(chances) * len(found)
    return float(chdtrc(len(chances) - 1, ((np.bincount(found, minlength=len(chances)) - expected) ** 2 / expected).sum()))


def test_draws_follow_the_law_of_each_noise():
    scores, scale = [0, 1, 3, 3], 2
    gumbel = [math.exp(s / scale) for s in scores]
    laws = {"exponential": permute_and_flip_law(scores, 1 / scale), "gumbel": [w / sum(gumbel) for w in gumbel]}
    for noise, other in (("exponential", "gumbel"), ("gumbel", "exponential")):
        plan = Space(Vectors(Integers(), 4), LInfinity()) >> noisy_max(scale, noise)
        with seeded(2):
            found = [plan.function(scores) for _ in range(5000)]
        assert p_value(found, laws[noise]) > 1e-3
        assert p_value(found, laws[other]) < 1e-6


@pytest.mark.parametrize("metric", [LInfinity(), LInfinity(monotone=True), L1()], ids=repr)
def test_price_by_enumeration(metric):
    scale = Fraction(3, 2)
    price = float((Space(Vectors(Integers(), 3), metric) >> noisy_max(scale)).event(1).epsilon)
    worst = 0.0
    for scores in itertools.product(range(3), repeat=3):
        for move in itertools.product((-1, 0, 1), repeat=3):
            other = tuple(s + m for s, m in zip(scores, move, strict=True))
            if metric.distance(scores, other) <= 1:
                p, q = permute_and_flip_law(scores, 2 / 3), permute_and_flip_law(other, 2 / 3)
                worst = max(worst, max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True)))
    assert 0.95 * price < worst <= price * (1 + 1e-12)


def test_prices_and_units():
    space = Space(Vectors(Lattice(Fraction(1, 4)), 3), LInfinity())
    assert (space >> noisy_max(2)).event(4) == PureDP(1)
    assert (space >> noisy_max(2, "gumbel")).event(4) == Exponential(1)
    assert (space >> noisy_max(2)).event(0) == NoOp()
    assert NoisyMax.for_epsilon(1, sensitivity=3, monotone=True).scale == 3


def test_accuracy_holds_and_inverts():
    scores, scale, beta = [0, 4, 9, 10], 3.0, 0.3
    for noise in ("exponential", "gumbel"):
        alpha = noisy_max(scale, noise).accuracy(beta, candidates=4)
        weights = [math.exp(s / scale) for s in scores]
        law = by_summation(scores, scale) if noise == "exponential" else [w / sum(weights) for w in weights]
        assert sum(p for p, s in zip(law, scores, strict=True) if s < 10 - alpha) <= beta
    found = NoisyMax.for_accuracy(7, 0.05, candidates=100)
    assert 6.999 < found.accuracy(0.05, candidates=100) <= 7


def test_only_the_candidate_comes_out_and_huge_scores_do_not_overflow():
    plan = Space(Vectors(Integers(), 3), LInfinity()) >> noisy_max(2**60)
    assert type(plan.release([2**62, -(2**62), 0]).value) is int
    assert (Space(Vectors(Integers(), 2), LInfinity()) >> noisy_max(1)).release([10**40, 0]).value == 0
    with pytest.raises(ParameterError, match="noise"):
        noisy_max(1, "laplace")
