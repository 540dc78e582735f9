"""The three recipes against brute-force sampling, the exact Gaussian, and each other; calibration never exceeds its target."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.events.tree import Adjacency
from tacit.accounting.theorems import conversions, dpsgd, gaussian
from tacit.errors import ParameterError


def test_recipe_one_bounds_an_enumerated_step():
    # five people with one-bit gradients +-clip, a batch of two, discretised Laplace noise: exact output laws for both neighbours
    size, batch, clip, scale = 5, 2, 1.0, 1.3
    grid = np.arange(-60, 61) * 0.05

    def law(people):
        total = np.zeros(grid.size)
        samples = list(itertools.combinations(people, batch))
        for sample in samples:
            weights = np.exp(-np.abs(grid - sum(sample) / batch) / scale)
            total += weights
        return total / len(samples)  # up to the common normalising constant of the density

    worst = 0.0
    for rest in itertools.product((-1.0, 1.0), repeat=size - 1):
        p, q = law((1.0, *rest)), law((-1.0, *rest))
        worst = max(worst, float(np.abs(np.log(p / q)).max()))
    recipe = dpsgd.pure_without_replacement(size=size, batch=batch, steps=1, clip=clip, noise=scale)
    assert worst <= recipe.epsilon * (1 + 1e-12)
    assert worst > recipe.epsilon * 0.9  # and the bound is nearly attained
    assert recipe.adjacency is Adjacency.REPLACE_ONE


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**5), st.floats(-3, 3).map(lambda x: 10.0**x))
def test_recipe_one_round_trip_is_safe(one, other, steps, epsilon):
    size, batch = max(one, other), min(one, other)
    recipe = dpsgd.pure_without_replacement(size=size, batch=batch, steps=steps, clip=2.0, epsilon=epsilon)
    assert epsilon * (1 - 1e-9) <= recipe.epsilon <= epsilon
    again = dpsgd.pure_without_replacement(size=size, batch=batch, steps=steps, clip=2.0, noise=recipe.noise)
    assert again == recipe


def test_recipe_two_is_the_gaussian_mechanism_of_twice_the_clip():
    # the worst case: one person's clipped gradient flips from +clip to -clip at every step, so mu = sqrt(T) 2 clip/(n sigma)
    for conversion in ("basic", "improved", "exact"):
        recipe = dpsgd.full_batch_zcdp(size=1000, steps=50, clip=0.7, delta=1e-6, noise=0.02, conversion=conversion)
        mu = math.sqrt(50) * 2 * 0.7 / (1000 * 0.02)
        assert gaussian.delta(mu, recipe.epsilon) <= 1e-6
        if conversion == "exact":
            assert recipe.epsilon == pytest.approx(gaussian.epsilon(mu, 1e-6), rel=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.floats(-2, 2).map(lambda x: 10.0**x), st.floats(-12, -1).map(lambda x: 10.0**x), st.sampled_from(["basic", "improved", "exact"]))
def test_recipe_two_calibration_is_safe_and_tight(epsilon, delta, conversion):
    recipe = dpsgd.full_batch_zcdp(size=100, steps=7, clip=1.0, delta=delta, epsilon=epsilon, conversion=conversion)
    assert epsilon * (1 - 1e-6) <= recipe.epsilon <= epsilon


def test_recipe_three_is_the_minimum_over_all_orders():
    from tacit.accounting.theorems import subsampled_renyi

    for size, batch, steps, noise in ((1000, 10, 1000, 0.1), (60_000, 256, 14_063, 1.12 / 256), (100, 50, 3, 0.05), (1000, 1, 10, 5.0)):
        for conversion, convert in (("basic", conversions.rdp_epsilon_basic), ("improved", conversions.rdp_epsilon)):
            recipe = dpsgd.poisson_renyi(size=size, batch=batch, steps=steps, clip=1.0, delta=1e-5, noise=noise, conversion=conversion)
            z = noise * batch
            curve = steps * subsampled_renyi.poisson(dpsgd.ORDERS, batch / size, lambda a, z=z: a / (2 * z * z))
            assert recipe.epsilon == pytest.approx(convert(dpsgd.ORDERS, curve, 1e-5), rel=1e-13)
            assert recipe.adjacency is Adjacency.ADD_REMOVE


def test_recipe_three_on_the_full_batch_is_a_plain_gaussian():
    recipe = dpsgd.poisson_renyi(size=50, batch=50, steps=4, clip=2.0, delta=1e-6, noise=0.3)
    mu = 2.0 * 2 / (50 * 0.3)
    assert gaussian.epsilon(mu, 1e-6) <= recipe.epsilon
    assert recipe.epsilon == pytest.approx(conversions.zcdp_epsilon(mu * mu / 2, 1e-6), rel=1e-3)  # integer orders only


def test_recipe_three_calibration_is_safe_and_tight():
    for epsilon in (0.3, 4.0):
        recipe = dpsgd.poisson_renyi(size=1000, batch=50, steps=20, clip=1.0, delta=1e-5, epsilon=epsilon)
        assert epsilon * (1 - 1e-10) <= recipe.epsilon <= epsilon


def test_recipe_three_says_when_the_orders_cannot_reach_epsilon():
    # the conversion alone costs about log(1/delta)/(a - 1)
    with pytest.raises(ParameterError, match="epsilon"):
        dpsgd.poisson_renyi(size=1000, batch=50, steps=20, clip=1.0, delta=1e-30, epsilon=0.1, orders=[2, 3, 4])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: dpsgd.pure_without_replacement(size=10, batch=20, steps=1, clip=1.0, noise=1.0), "batch"),
        (lambda: dpsgd.pure_without_replacement(size=10, batch=2, steps=0, clip=1.0, noise=1.0), "steps"),
        (lambda: dpsgd.pure_without_replacement(size=10, batch=2, steps=1, clip=1.0), "noise"),
        (lambda: dpsgd.pure_without_replacement(size=10, batch=2, steps=1, clip=1.0, noise=1.0, epsilon=1.0), "noise"),
        (lambda: dpsgd.pure_without_replacement(size=10, batch=2, steps=1, clip=1.0, epsilon=-1.0), "epsilon"),
        (lambda: dpsgd.full_batch_zcdp(size=10, steps=1, clip=0.0, delta=0.1, noise=1.0), "clip"),
        (lambda: dpsgd.full_batch_zcdp(size=10, steps=1, clip=1.0, delta=0.0, noise=1.0), "delta"),
        (lambda: dpsgd.full_batch_zcdp(size=10, steps=1, clip=1.0, delta=0.1, noise=1.0, conversion="magic"), "conversion"),
        (lambda: dpsgd.poisson_renyi(size=10, batch=11, steps=1, clip=1.0, delta=0.1, noise=1.0), "batch"),
        (lambda: dpsgd.poisson_renyi(size=10, batch=1, steps=1, clip=1.0, delta=1.0, noise=1.0), "delta"),
        (lambda: dpsgd.poisson_renyi(size=10, batch=1, steps=1, clip=1.0, delta=0.1, noise=math.nan), "noise"),
        (lambda: dpsgd.poisson_renyi(size=10, batch=1, steps=1, clip=1.0, delta=0.1, noise=1.0, conversion="exact"), "conversion"),
    ],
)
def test_bad_input_names_the_parameter(call, name):
    with pytest.raises(ParameterError, match=name):
        call()
