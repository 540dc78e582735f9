"""Random allocation against quadrature, enumeration, exact binomials and sampling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.finite_ratio import FiniteRatio

from tacit.accounting.bound import Bound
from tacit.accounting.engines import allocation
from tacit.accounting.engines.allocation import allocation_bracket
from tacit.accounting.pairs import mixture
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio
from tacit.accounting.theorems import gaussian
from tacit.errors import ParameterError

COIN = FiniteRatio((0.4, 2.0), (0.625, 0.375))  # two outcomes; under Q the ratio has mean 1


def enumerated(ratio: FiniteRatio, steps: int, selected: int, epochs: int) -> dict[float, float]:
    """The Q-law of dP/dQ of `epochs` epochs, by going through every outcome of every step."""
    epoch: dict[float, float] = {}
    for outcome in itertools.product(range(len(ratio.ratios)), repeat=steps):
        symmetric = [1.0] + [0.0] * selected  # elementary symmetric polynomials of the ratios
        for i in outcome:
            for j in range(selected, 0, -1):
                symmetric[j] += symmetric[j - 1] * ratio.ratios[i]
        value = round(symmetric[selected] / math.comb(steps, selected), 13)
        epoch[value] = epoch.get(value, 0.0) + math.prod(ratio.masses[i] for i in outcome)
    total = {1.0: 1.0}
    for _ in range(epochs):
        following: dict[float, float] = {}
        for (a, p), (b, q) in itertools.product(total.items(), epoch.items()):
            following[round(a * b, 12)] = following.get(round(a * b, 12), 0.0) + p * q
        total = following
    return total


def worst_delta(law: dict[float, float], epsilon: float) -> float:
    """The larger of the two directions."""
    a = math.exp(epsilon)
    return max(sum(q * max(y - a, 0.0) for y, q in law.items()), sum(q * max(1 - a * y, 0.0) for y, q in law.items()))


def holds(bound: Bound, value: float, slack: float = 1e-11) -> bool:
    """Whether a bracket holds a value known to about twelve digits."""
    return bound.lower * (1 - slack) <= value <= bound.upper * (1 + slack)


# --- one epoch ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "epsilon"), [(1, 0.3), (2, 0.2), (5, 0.1), (8, 0.25)])
def test_two_outcomes_agree_with_enumeration(steps: int, epsilon: float) -> None:
    exact = worst_delta(enumerated(COIN, steps, 1, 1), epsilon)
    found = allocation_bracket(COIN, steps, epsilon=epsilon)
    assert holds(found, exact)
    assert found.width < 2e-3 * exact
    found = allocation_bracket(COIN, steps, delta=exact)
    assert holds(found, epsilon)


@pytest.mark.parametrize(("steps", "epochs", "epsilons"), [(100, 1, (0.0, 0.1, 0.2)), (12, 6, (0.5, 1.0, 1.5))])
def test_sampling_agrees(steps: int, epochs: int, epsilons: tuple[float, ...]) -> None:
    """Simulation under P with a fixed seed; the empirical Bernstein interval fails with probability below 1e-9 (Maurer, Pontil 2009)."""
    rng = np.random.default_rng(20250)
    runs, log_term = 150_000, math.log(3 / 1e-9)
    loss = np.zeros(runs)
    for _ in range(epochs):
        total = np.exp(rng.standard_normal(runs) + 0.5)  # the step with the record
        for _ in range(steps - 1):
            total += np.exp(rng.standard_normal(runs) - 0.5)
        loss += np.log(total / steps)
    for epsilon in epsilons:
        gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
        radius = math.sqrt(2 * float(gain.var()) * log_term / runs) + 3 * log_term / runs
        found = allocation_bracket(1.0, steps, epochs=epochs, epsilon=epsilon, tolerance=1e-5)
        assert found.lower - radius <= gain.mean() <= found.upper + radius  # removing is the worse direction here
        assert radius < 0.25 * found.upper


@pytest.mark.parametrize("delta", [1e-5, 1e-10, 1e-20])
def test_epsilon_and_delta_are_inverse(delta: float) -> None:
    found = allocation_bracket(1.0, 100, delta=delta)
    assert found.width < 2e-6
    assert allocation_bracket(1.0, 100, epsilon=found.upper).lower <= delta
    assert allocation_bracket(1.0, 100, epsilon=found.lower).upper >= delta


def test_both_directions_are_priced() -> None:
    """Under many steps of low noise the remove direction is the worse one; of the two-outcome step below the add direction is."""
    lopsided = FiniteRatio((0.1, 1.1), (0.1, 0.9))
    law = enumerated(lopsided, 3, 1, 1)
    a = math.exp(0.2)
    removed = sum(q * max(y - a, 0.0) for y, q in law.items())
    assert worst_delta(law, 0.2) > 2 * removed
    assert holds(allocation_bracket(lopsided, 3, epsilon=0.2), worst_delta(law, 0.2))


def test_negative_epsilon_follows_from_the_other_direction() -> None:
    positive, negative = allocation_bracket(1.0, 20, epsilon=0.4), allocation_bracket(1.0, 20, epsilon=-0.4)
    assert negative.upper == pytest.approx(1 - math.exp(-0.4) + math.exp(-0.4) * positive.upper, rel=1e-12)
    assert holds(allocation_bracket(COIN, 4, epsilon=-0.3), worst_delta(enumerated(COIN, 4, 1, 1), -0.3))


# --- monotone -------------------------------------------------------------------------------------------------------------------


@settings(max_examples=5)
@given(st.floats(0.4, 8.0), st.integers(1, 400), st.floats(-14.0, -2.0))
def test_more_noise_more_steps_and_more_delta_never_cost_more(sigma: float, steps: int, exponent: float) -> None:
    delta = 10.0**exponent
    base = allocation_bracket(sigma, steps, delta=delta, tolerance=1e-5)
    assert 0 <= base.lower <= base.upper <= gaussian.epsilon(1 / sigma, delta) * (1 + 1e-9)
    for other in (
        allocation_bracket(1.2 * sigma, steps, delta=delta, tolerance=1e-5),
        allocation_bracket(sigma, steps + max(1, steps // 3), delta=delta, tolerance=1e-5),
        allocation_bracket(sigma, steps, delta=3 * delta, tolerance=1e-5),
    ):
        assert other.lower <= base.upper


# --- extremes -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "steps", "delta"),
    [(0.3, 100, 1e-20), (0.2, 1000, 1e-5), (10.0, 100_000, 1e-5), (0.3, 100_000, 1e-5), (100.0, 2, 1e-30), (2.0, 10_000, 1e-6)],
)
def test_hard_corners_stay_narrow(sigma: float, steps: int, delta: float) -> None:
    found = allocation_bracket(sigma, steps, delta=delta)
    plain = gaussian.epsilon(1 / sigma, delta)
    assert plain - math.log(steps) <= found.upper <= plain
    assert found.width < 2e-5


def test_where_the_lattice_gives_up_the_simple_bounds_remain() -> None:
    found = allocation_bracket(0.02, 100, delta=1e-5)
    plain = gaussian.epsilon(50.0, 1e-5)
    assert found.upper == pytest.approx(plain, rel=1e-10)
    assert found.lower == pytest.approx(plain - math.log(100), rel=1e-10)
    found = allocation_bracket(0.02, 100, epochs=3, delta=1e-5)
    assert 0 < found.lower <= found.upper < math.inf


def test_ends_of_the_scale() -> None:
    assert allocation_bracket(1.0, 100, delta=1.0) == Bound(0.0, 0.0, "closed form")
    assert allocation_bracket(1.0, 100, delta=0.0).lower == math.inf
    assert allocation_bracket(1.0, 100, epsilon=math.inf).upper == 0.0
    assert allocation_bracket(1.0, 100, delta=0.5).upper == 0.0
    found = allocation_bracket(1.0, 100, epsilon=60.0)
    assert found.lower == 0.0 < found.upper < 1e-300


# --- several epochs, other pairs ------------------------------------------------------------------------------------------------


def test_two_epochs_of_two_outcomes_agree_with_enumeration() -> None:
    law = enumerated(COIN, 3, 1, 2)
    exact = worst_delta(law, 0.4)
    found = allocation_bracket(COIN, 3, epochs=2, epsilon=0.4, tolerance=3e-6)
    assert holds(found, exact)
    assert found.width < 2e-3 * exact


def test_one_epoch_on_the_lattice_agrees_with_one_epoch_solved_directly() -> None:
    direct = allocation_bracket(1.0, 100, delta=1e-5)
    composed = allocation._composed(GaussianRatio(1.0), [(100, 1)], (), 1e-5, None, 1e-5, 1e-6)
    assert composed.lower <= direct.upper
    assert direct.lower <= composed.upper
    assert composed.width < 5e-5


def test_other_pairs_compose() -> None:
    """delta of a finite law with a Gaussian is a sum of Gaussian deltas, so the exact figure is a sum of eight terms."""
    other = mixture.gaussian(2.0)
    law = enumerated(COIN, 3, 1, 1)
    epsilon = 0.6
    removed = sum(q * y * gaussian.delta(0.5, epsilon - math.log(y)) for y, q in law.items())
    added = sum(q * gaussian.delta(0.5, epsilon + math.log(y)) for y, q in law.items())
    found = allocation_bracket(COIN, 3, others=[(other, other.reverse(), 1)], epsilon=epsilon, tolerance=2e-5)
    assert holds(found, max(removed, added))
    assert found.width < 0.01 * found.upper


def test_other_pairs_cost_something_and_not_too_much() -> None:
    other = mixture.gaussian(5.0)
    alone = allocation_bracket(1.0, 200, delta=1e-6)
    both = allocation_bracket(1.0, 200, others=[(other, other.reverse(), 1)], delta=1e-6)
    assert alone.lower < both.lower
    assert both.upper < alone.upper + gaussian.epsilon(0.2, 1e-6)
    assert both.width < 1e-3


# --- k out of t -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "selected"), [(4, 2), (5, 2), (6, 3), (6, 4)])
def test_blocks_dominate_a_random_subset(steps: int, selected: int) -> None:
    """The reduction to one step out of each block, on every alpha where either curve bends, by enumeration."""
    subset = enumerated(COIN, steps, selected, 1)
    size, longer = divmod(steps, selected)
    blocks = {1.0: 1.0}
    for length in [size + 1] * longer + [size] * (selected - longer):
        one = enumerated(COIN, length, 1, 1)
        following: dict[float, float] = {}
        for (a, p), (b, q) in itertools.product(blocks.items(), one.items()):
            following[round(a * b, 12)] = following.get(round(a * b, 12), 0.0) + p * q
        blocks = following
    strictly = 0
    for alpha in sorted({*subset, *blocks}):
        small, large = (sum(q * max(y - alpha, 0.0) for y, q in law.items()) for law in (subset, blocks))
        assert small <= large + 1e-12
        strictly += small < large - 1e-6
    assert strictly > 0


def test_the_bracket_of_a_random_subset_holds_the_enumerated_figure() -> None:
    exact = worst_delta(enumerated(COIN, 5, 2, 1), 0.5)
    assert holds(allocation_bracket(COIN, 5, 2, epsilon=0.5, tolerance=1e-5), exact)


@pytest.mark.parametrize(("steps", "selected"), [(1, 1), (7, 7)])
def test_every_step_is_the_plain_gaussian(steps: int, selected: int) -> None:
    found = allocation_bracket(1.3, steps, selected, epochs=3, delta=1e-6)
    exact = gaussian.epsilon(math.sqrt(3 * selected) / 1.3, 1e-6)
    assert found.lower <= exact <= found.upper
    assert found.width < 1e-8


def test_several_steps_out_of_many() -> None:
    plain = gaussian.epsilon(math.sqrt(10), 1e-5)
    found = allocation_bracket(1.0, 100, 10, delta=1e-5)
    assert gaussian.epsilon(1.0, 1e-5) < found.lower  # better than the sum of all outputs
    assert found.upper < 0.55 * plain
    assert found.width < 0.06 * found.upper
    fewer = allocation_bracket(1.0, 100, 9, delta=1e-5)
    assert fewer.lower < found.upper


# --- refusals -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        ((0.0, 10), {"delta": 1e-5}, "sigma"),
        ((math.nan, 10), {"delta": 1e-5}, "sigma"),
        ((True, 10), {"delta": 1e-5}, "sigma"),
        ((1.0, 0), {"delta": 1e-5}, "steps"),
        ((1.0, 2.5), {"delta": 1e-5}, "steps"),
        ((1.0, 10, 11), {"delta": 1e-5}, "selected"),
        ((1.0, 10, 1, 0), {"delta": 1e-5}, "epochs"),
        ((1.0, 10), {"delta": 1.5}, "delta"),
        ((1.0, 10), {"epsilon": math.nan}, "epsilon"),
        ((1.0, 10), {}, "exactly one"),
        ((1.0, 10), {"delta": 1e-5, "epsilon": 1.0}, "exactly one"),
    ],
)
def test_bad_parameters_are_named(arguments: tuple[object, ...], options: dict[str, float], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        allocation_bracket(*arguments, **options)  # type: ignore[arg-type]
