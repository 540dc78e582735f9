"""The contour integral against closed forms, 22-digit truths, independent quadrature, and itself; with mutants that must fail."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.engines import contour
from tacit.accounting.pairs.finite import leaky_randomised_response, randomised_response
from tacit.accounting.pairs.laplace import bounded_range, laplace
from tacit.accounting.pairs.mixture import gaussian as noise
from tacit.accounting.pairs.mixture import poisson_gaussian, poisson_gaussian_replaced
from tacit.accounting.theorems import gaussian

# (rate, noise multiplier, steps, delta, epsilon in the remove direction), from a contour integral in 22 or more digits
TRUTHS = [
    (0.01, 1.0, 1000, 1e-5, 1.8282366665165769),
    (0.01, 1.0, 1000, 1e-10, 3.290443750895298),
    (0.01, 1.0, 1000, 1e-15, 4.854537750604924),
    (0.01, 1.0, 1000, 1e-20, 6.361700204079350),
    (256 / 60000, 1.1, 14062, 1e-5, 2.3815969214243970),
    (256 / 60000, 1.1, 14062, 1e-10, 3.735838598496180),
    (256 / 60000, 1.1, 14062, 1e-20, 5.680460825480685),
    (1e-3, 0.8, 100_000, 1e-5, 2.5749593093526108),
    (1e-3, 0.8, 100_000, 1e-10, 4.069167306996267),
    (1e-4, 0.6, 1_000_000, 1e-5, 1.6108479982086884),
    (1e-4, 0.6, 1_000_000, 1e-10, 3.953464859674381),
]


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "truth"), TRUTHS)
def test_sampled_gaussian_brackets_the_truth(rate: float, sigma: float, steps: int, delta: float, truth: float) -> None:
    found = contour.epsilon([(poisson_gaussian(rate, sigma), steps)], delta)
    assert found.lower <= truth <= found.upper
    assert found.width <= 1e-9 * truth


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-20])
def test_gaussian_equals_its_closed_form(mu: float, delta: float) -> None:
    found = contour.epsilon([(noise(10 / mu), 100)], delta)
    with mp.workdps(40):
        m = 10 * mp.mpf(1) / mp.mpf(10 / mu)  # the floating-point shift that the pair really has

        def profile(e):
            return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m) - mp.mpf(delta)

        truth = float(mp.findroot(profile, mp.mpf(gaussian.epsilon(mu, delta))))
    assert found.lower <= truth * (1 + 1e-14) and truth * (1 - 1e-14) <= found.upper
    assert found.width <= 1e-9 * max(truth, 1e-3)


def test_two_sampled_steps_against_independent_quadrature() -> None:
    # q = 0.1, sigma = 1, two steps, by two-dimensional quadrature; the source prints the last two wrong from the ninth digit on
    for eps, truth in [(0.5, 4.605896110e-3), (1.0, 5.141604294e-4), (2.0, 6.944861265e-6)]:
        try:
            found = contour.delta([(poisson_gaussian(0.1, 1.0), 2)], eps)
        except contour.Declined:
            continue  # two steps may be left to the grid; it has its own test
        assert found.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.upper


@given(
    rate=st.floats(0.01, 0.5),
    sigma=st.floats(0.7, 5),
    steps=st.integers(200, 5000),
    log_delta=st.floats(-40, -3),
)
@settings(max_examples=30, deadline=None)
def test_epsilon_and_delta_are_inverse(rate: float, sigma: float, steps: int, log_delta: float) -> None:
    components = [(poisson_gaussian(rate, sigma), steps)]
    delta = math.exp(log_delta)
    try:
        found = contour.epsilon(components, delta)
        back_low, back_high = contour.delta(components, found.upper), contour.delta(components, found.lower)
    except contour.Declined:
        return
    assert back_low.lower <= delta
    if found.lower > 0:
        assert back_high.upper >= delta


def test_mixed_compositions_against_a_numerical_convolution() -> None:
    """Laplace, bounded-range and Gaussian losses together, against mpmath's own inversion on a different line."""
    components = [(laplace(0.2), 40), (bounded_range(0.3), 30), (noise(4.0), 2)]
    with mp.workdps(25):

        def moment(z):
            th = mp.mpf("0.2")
            lap = (z + 1) / (2 * z + 1) * mp.exp(z * th) + z / (2 * z + 1) * mp.exp(-(z + 1) * th)
            e = mp.mpf("0.3")
            br = mp.exp(e / 2) * mp.sinh((z + 0.5) * e) / ((z + 0.5) * mp.expm1(e))
            return 40 * mp.log(lap) + 30 * mp.log(br) + z * (z + 1) / 16

        c, eps = mp.mpf(2), mp.mpf("1.5")
        h = mp.mpf("0.05")
        total = mp.mpf(0)
        for k in range(0, 1200):
            z = mp.mpc(c, k * h)
            term = (mp.exp(moment(z) - z * eps) / (z * (z + 1))).real
            total += term / 2 if k == 0 else term
        truth = float(total * h / mp.pi)
    found = contour.delta(components, 1.5)
    assert found.lower <= truth * (1 + 1e-10) and truth * (1 - 1e-10) <= found.upper


def test_the_two_directions_differ_and_both_are_right() -> None:
    remove = contour.epsilon([(poisson_gaussian(0.01, 1.0), 1000)], 1e-5)
    add = contour.epsilon([(poisson_gaussian(0.01, 1.0).reverse(), 1000)], 1e-5)
    assert add.lower <= 1.416661948 + 1e-8 and add.upper >= 1.416661948 - 1e-8
    assert add.upper < remove.lower
    replaced = contour.epsilon([(poisson_gaussian_replaced(0.01, 1.0), 1000)], 1e-5)
    assert replaced.lower <= 2.84344026 + 1e-8 and replaced.upper >= 2.84344026 - 1e-8


def _line(delta: float = 1e-5) -> tuple[contour.Line, float]:
    components = [(poisson_gaussian(0.01, 1.0), 1000)]
    table = contour.search(components, lambda p: p.log_delta > math.log(delta))
    return contour.lay_out(components, table, 1.828236666516577, math.log(delta)), delta


def test_mutant_without_the_known_copies_is_caught() -> None:
    line, delta = _line()
    value, _, below, above = line.delta(1.8282366665165769)
    assert value - below <= delta <= value + above
    period = 2 * math.pi / line.step
    known = math.exp(-line.c * period) / -math.expm1(-line.c * period)
    if known > 10 * (below + above):  # otherwise the copies are too small to matter here
        assert not (value + known - below <= delta <= value + known + above)


def test_mutant_with_half_the_reach_leaves_its_error() -> None:
    """Cutting the line early changes the value by more than the errors that were certified for the full line."""
    line, delta = _line()
    weights = np.full(len(line.z), line.step / math.pi)
    weights[0] /= 2
    terms = np.exp(line.exponent + line.level - line.z * 1.8282366665165769) / (line.z * (line.z + 1))
    full, half = float(np.dot(weights, terms.real)), float(np.dot(weights[:8], terms[:8].real))
    value, _, below, above = line.delta(1.8282366665165769)
    assert abs(half - full) > below + above
    assert abs(value - delta) <= below + above


def test_infinite_mass_is_added_and_limits_delta() -> None:
    pair = noise(1.0)
    pair.infinite = 1e-7
    try:
        assert contour.epsilon([(pair, 10)], 1e-7).lower == math.inf
        found = contour.delta([(pair, 10)], 2.0)
        assert found.lower > 1e-6
    finally:
        pair.infinite = 0.0


@pytest.mark.parametrize(("leak", "epsilon"), [(1e-6, 1.0), (1e-3, 0.3), (0.05, 1.0), (0.3, 0.25)])
def test_a_step_that_leaks_beside_sampled_steps_costs_its_leak_and_the_rest(leak: float, epsilon: float) -> None:
    """A leaky randomised response is a leak with its probability and a plain one otherwise, and so is its composition with anything."""
    sampled = (poisson_gaussian(0.1, 2.0), 20)
    found = contour.delta([(leaky_randomised_response(0.5, leak), 1), sampled], epsilon)
    plain = contour.delta([(randomised_response(0.5), 1), sampled], epsilon)
    assert found.lower <= leak + (1 - leak) * plain.upper
    assert found.upper >= leak + (1 - leak) * plain.lower
    assert found.width <= 1e-11
