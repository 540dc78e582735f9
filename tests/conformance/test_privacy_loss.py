"""The figures of the source texts that need a composed privacy-loss distribution, to the digits printed."""

import math

import numpy as np
import pytest

from tacit.accounting import (
    Adjacency,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    LeakyRandomizedResponse,
    Poisson,
    PureDP,
    RandomizedResponse,
    Repeated,
    Sampled,
    WithoutReplacement,
    account,
)
from tacit.accounting.engines import contour
from tacit.accounting.pairs.finite import leaky_randomised_response, randomised_response
from tacit.accounting.pairs.laplace import laplace
from tacit.accounting.pairs.mixture import gaussian, poisson_gaussian
from tacit.accounting.resolve import resolve

RO = Adjacency.REPLACE_ONE


# Figure 3.1 of the book: eps0 = 0.1, delta = 1e-6. The source gives eight digits of an extrapolated grid, of which the last two are soft.
@pytest.mark.parametrize(("uses", "truth"), [(10, 0.99897810), (100, 4.69266742), (1000, 18.95028743)])
def test_laplace_composition(uses: int, truth: float) -> None:
    found = account(Repeated(Laplace(10), uses)).epsilon(1e-6)
    assert found.upper == pytest.approx(truth, abs=2e-7) and found.width <= 1e-6


@pytest.mark.parametrize(
    ("uses", "truth"),
    [(1, 0.27401432), (10, 0.94051553), (50, 2.25408465), (100, 3.30760072), (200, 4.88655412), (500, 8.30622505), (1000, 12.59524674)],
)
def test_gaussian_of_the_same_variance(uses: int, truth: float) -> None:
    assert account(Repeated(Gaussian(math.sqrt(200)), uses)).epsilon(1e-6).upper == pytest.approx(truth, abs=6e-9)


@pytest.mark.parametrize(
    ("uses", "truth"),
    [(1, 0.09999810), (10, 0.99937091), (50, 3.17290273), (100, 4.77456759), (200, 7.18559446), (500, 12.51787996), (1000, 19.34467145)],
)
def test_optimal_composition_is_the_lattice_of_randomised_response(uses: int, truth: float) -> None:
    found = account(Repeated(PureDP(0.1), uses)).epsilon(1e-6)
    assert found.upper == pytest.approx(truth, abs=6e-9) and found.width < 1e-8
    assert account(Repeated(PureDP(0.1), uses)).epsilon(1e-6, method="optimal").upper == pytest.approx(found.upper, abs=1e-9)


def test_order_of_figure_3_1() -> None:
    for uses in (31, 100, 1000):
        pure = account(Repeated(Laplace(10), uses))
        figures = [
            account(Repeated(Gaussian(math.sqrt(200)), uses)).epsilon(1e-6).upper,
            pure.epsilon(1e-6).upper,
            *(pure.epsilon(1e-6, method=m).upper for m in ("optimal", "zcdp-improved", "strong", "advanced", "basic")),
        ]
        assert figures == sorted(figures)


# DP-SGD of the slides' table: remove, add and replace-one directions of Poisson sampling.
TABLE = [
    (0.01, 4.0, 10_000, 1e-5, 0.94686680, 0.93703643, 1.99312006),
    (256 / 60000, 1.12, 14_063, 1e-5, 2.31018413, 2.18180941, 4.11752661),
    (0.01, 1.0, 1000, 1e-5, 1.82823667, 1.41666195, 2.84344026),
    (0.1, 2.0, 100, 1e-6, 2.67503508, 2.10108945, 4.88633759),
    (0.001, 0.8, 10_000, 1e-6, 0.947195, 0.742700, 1.3250488),
]


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "remove", "add", "replace"), TABLE)
def test_dp_sgd_in_three_relations(rate, sigma, steps, delta, remove, add, replace) -> None:
    digits = 2e-6 if rate == 0.001 else 3e-8  # the last row is printed with fewer
    pair = poisson_gaussian(rate, sigma)
    assert contour.epsilon([(pair, steps)], delta).upper == pytest.approx(remove, abs=digits)
    assert contour.epsilon([(pair.reverse(), steps)], delta).upper == pytest.approx(add, abs=digits)
    event = Repeated(Sampled(Poisson(rate), Gaussian(sigma)), steps)
    assert account(event).epsilon(delta).upper == pytest.approx(max(remove, add), abs=digits)
    assert account(event, RO).epsilon(delta).upper == pytest.approx(replace, abs=digits)


def test_profile_of_the_third_row() -> None:
    cost = account(Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1000))
    assert cost.delta(1).upper == pytest.approx(2.61242e-3, rel=5e-6)
    assert cost.delta(2).upper == pytest.approx(2.66557e-6, rel=5e-6)


@pytest.mark.parametrize(("eps", "truth"), [(0.5, 4.605896110e-3), (1.0, 5.141604294e-4), (2.0, 6.944861265e-6)])
def test_two_steps_by_quadrature(eps: float, truth: float) -> None:
    found = account(Repeated(Sampled(Poisson(0.1), Gaussian(1)), 2)).delta(eps)
    assert found.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.upper
    assert found.width <= 1e-6 * truth


def test_calibration_by_loss_distribution() -> None:
    event = Repeated(Sampled(Poisson(0.01), Gaussian(1.414619401)), 1000)
    assert account(event).epsilon(1e-5).upper == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize(
    ("noise", "steps", "floor", "poisson"), [(1.0, 1000, 13.36082403, 1.82823667), (4.0, 10_000, 2.16270460, 0.94686681)]
)
def test_fixed_size_is_not_poisson(noise, steps, floor, poisson) -> None:
    """Spec 7.8: under replacement a fixed-size sample costs at least Poisson with half the noise; a mismatch must never be silent."""
    fixed = account(Repeated(Sampled(WithoutReplacement(10_000, 100), Gaussian(noise)), steps), RO).epsilon(1e-5)
    assert fixed.upper >= floor - 1e-7
    assert account(Repeated(Sampled(Poisson(0.01), Gaussian(noise / 2)), steps)).epsilon(1e-5).upper == pytest.approx(floor, rel=1e-8)
    assert account(Repeated(Sampled(Poisson(0.01), Gaussian(noise)), steps)).epsilon(1e-5).upper == pytest.approx(poisson, abs=3e-8)


# Figures measured for the peers, with their truths.
@pytest.mark.parametrize(
    ("event", "delta", "truth"),
    [
        (Repeated(Laplace(100), 1000), 1e-5, 1.1957030),
        (Repeated(Laplace(10), 1000), 1e-5, 17.4236520),
        (Repeated(DiscreteLaplace(10), 1000), 1e-5, 17.7871285),
        (Repeated(RandomizedResponse(0.1), 1000), 1e-5, 17.7871285),
        (Repeated(LeakyRandomizedResponse(0.1, 1e-6), 100), 2e-4, 3.7552028),
        (Repeated(Sampled(Poisson(1e-3), Gaussian(1)), 10**6), 1e-5, 6.0261312568),
        (Repeated(Sampled(Poisson(1e-4), Gaussian(1)), 10**7), 1e-5, 1.6196341741),
        (Repeated(Sampled(Poisson(1e-3), Gaussian(5)), 10**7), 1e-5, 2.6242124589),
        (Repeated(Sampled(Poisson(0.01), Gaussian(0.3)), 1000), 1e-5, 69.815710713),
        (Repeated(Sampled(Poisson(0.9), Gaussian(5)), 100), 1e-5, 8.829667),
        (Repeated(Sampled(Poisson(0.99), Gaussian(5)), 100), 1e-5, 9.879074),
        (Repeated(Sampled(Poisson(1e-6), Gaussian(1)), 10**6), 1e-5, 0.002681),
    ],
    ids=lambda v: "" if not hasattr(v, "count") else f"{v.event!r} x {v.count}",
)
def test_measured_truths(event, delta: float, truth: float) -> None:
    found = account(event).epsilon(delta)
    last_digit = 10.0 ** -len(repr(truth).split(".")[1])
    assert found.lower <= truth + last_digit and truth - last_digit <= found.upper
    assert found.width <= 1e-5


@pytest.mark.parametrize(
    "pair", [gaussian(0.7), laplace(1.3), laplace(1.3).sampled(0.2), randomised_response(0.8, 5), poisson_gaussian(0.1, 0.8)], ids=repr
)
def test_identities_of_the_loss(pair) -> None:
    """E[exp(-L)] = 1; the mean loss is the divergence; total variation from both sides."""
    assert pair.kappa(-1.0) == pytest.approx(0, abs=1e-13)
    _, mean, _ = pair.moments(np.zeros(1))
    width = 1e-5
    assert mean[0] == pytest.approx((pair.kappa(width) - pair.kappa(-width)) / (2 * width), rel=1e-5)


def test_largest_atom_is_that_of_randomised_response() -> None:
    for eps in (0.1, 1.0, 3.0):
        loss, mass = leaky_randomised_response(eps, 0.0).atoms()
        assert mass[np.argmax(loss)] == pytest.approx(1 / (1 + math.exp(-eps)))
        assert laplace(eps).atoms()[1].max() < mass.max()


def test_directions_are_composed_apart_and_compared_at_the_end() -> None:
    """Rule 2.7: the maximum over directions of the composition, never a composition of per-step maxima."""
    parts = resolve(Repeated(Sampled(Poisson(0.3), Gaussian(0.8)), 3), Adjacency.ADD_REMOVE)
    (step,) = parts.steps
    assert step.count == 3 and step.remove.support()[1] == math.inf and step.add.support()[1] < math.inf
