"""Several steps of many: laws of two sums against enumeration, quadrature, sampling, and the one step that is known otherwise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import i0e
from scipy.stats import norm

from tacit.accounting.engines import subset
from tacit.accounting.engines.allocation import allocation_bracket
from tacit.accounting.engines.stop_loss import delta_once
from tacit.accounting.engines.subset import Subset, laws_of, steps_of, subset_delta, subset_epsilon, subset_for
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio


def two_of_three(sigma: float, epsilon: float) -> float:
    """delta when a record in two of three steps is removed: the trapezoidal rule over two outputs, a closed form for the third.

    The integrand is smooth and vanishes at both ends, so the rule converges faster than any power; halving the step moves the sum by 1e-13.
    """
    z = np.arange(-9.0, 10.0 + 1 / sigma, 0.04)
    weight, y = norm.pdf(z) * 0.04, np.exp(z / sigma - 0.5 / sigma**2)
    one, other, k = y[:, None], y[None, :], math.exp(epsilon)
    border = (3 * k - one * other) / (one + other)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = sigma * np.log(np.maximum(border, 0.0)) + 0.5 / sigma
        call = np.where(border > 0, norm.cdf(1 / sigma - d) - border * norm.cdf(-d), 1 - border)
    return float(weight @ ((one + other) * call / 3) @ weight)


# --- the parts ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "selected"), [(4, 1), (5, 2), (4, 3), (3, 2), (4, 4)])
def test_the_laws_are_means_over_subsets_and_pairs_of_subsets(steps: int, selected: int) -> None:
    f = [0.7, 1.3, 2.9]
    subsets = [set(s) for s in itertools.combinations(range(steps), selected)]
    one = math.fsum(f[1] ** len(s) * f[0] ** (steps - len(s)) for s in subsets) / len(subsets)
    pairs = math.fsum(math.prod(f[(i in s) + (i in t)] for i in range(steps)) for s in subsets for t in subsets) / len(subsets) ** 2
    none, first, second = laws_of(steps, selected)
    assert none([np.array(1.1)]) == pytest.approx(1.1**steps, rel=1e-14)
    assert first([np.array(x) for x in f[:2]]) == pytest.approx(one, rel=1e-13)
    assert second([np.array(x) for x in f]) == pytest.approx(pairs, rel=1e-13)


@pytest.mark.parametrize(("sigma", "rate", "step"), [(1.0, 0.015, 0.002), (0.7, 0.3, 0.01), (5.0, 0.1, 0.0003)])
def test_masses_of_one_step_are_those_of_high_precision(sigma: float, rate: float, step: float) -> None:
    found = steps_of(GaussianRatio(sigma), rate, step, 50.0)
    count = len(found.ratio) - 1
    with mpmath.workdps(120):
        s, q, h = mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.mpf(step)
        node = [(1 - q) / q * mpmath.expm1(h * j) for j in range(count + 1)]

        def head(j: int) -> tuple[mpmath.mpf, mpmath.mpf]:
            if j == 0:
                return mpmath.mpf(0), mpmath.mpf(0)
            z = s * mpmath.log(node[j]) + 1 / (2 * s)
            return mpmath.ncdf(z), mpmath.ncdf(z - 1 / s)

        for j in {0, 1, 2, count // 7, count // 3, count // 2, count - 2}:
            (m0, f0), (m1, f1) = head(j), head(j + 1)
            mass, moment = m1 - m0, f1 - f0
            if mass < mpmath.mpf(10) ** -290:
                continue
            assert float(abs(found.cells[j] / mass - 1)) < subset._MASS_ERROR
            assert float(abs(found.moments[j] / moment - 1)) < subset._MASS_ERROR
            up = (moment - node[j] * mass) / (node[j + 1] - node[j])
            before = head(j - 1) if j else (m0, f0)
            from_left = ((f0 - before[1]) - node[j - 1] * (m0 - before[0])) / (node[j] - node[j - 1]) if j else mpmath.mpf(0)
            assert float(abs(found.spread[j] / (mass - up + from_left) - 1)) < subset._MASS_ERROR
    assert float(found.spread.sum()) == pytest.approx(1, rel=1e-12)
    assert float(found.spread @ found.ratio) + found.beyond == pytest.approx(1, rel=1e-12)
    assert float(found.moments.sum()) == pytest.approx(1, rel=1e-12)


def test_no_number_of_successes_is_likelier_than_the_cap() -> None:
    """P(k of independent events) <= e^-V I_0(V), V the sum of p (1 - p); half of it is too little."""
    draw = np.random.default_rng(20)
    tight = 0.0
    for _ in range(300):
        p = draw.beta(*draw.uniform(0.1, 3, 2), size=int(draw.integers(1, 30)))
        law = np.ones(1)
        for x in p:
            law = np.convolve(law, [1 - x, x])
        cap = float(i0e(float(p @ (1 - p))))
        assert law.max() <= cap * (1 + 1e-12)
        tight = max(tight, law.max() / cap)
    assert tight > 0.9


def _cell(values: Any, weights: Any, cap: float) -> Subset:
    q, p, s = (np.array([float(weights @ values**i)]) for i in range(3))
    return Subset(0.0, (p, q), 0.0, (q, q), (p, p), s, np.array([cap]), 0.0)


def test_two_moments_and_a_cap_bound_the_excess() -> None:
    """Random laws on a few values; a cap below the largest value would not do."""
    draw = np.random.default_rng(21)
    wrong, close = 0, 0.0
    for _ in range(2000):
        values = np.exp(draw.normal(0.6, draw.choice([0.01, 0.1, 0.5]), size=int(draw.integers(1, 5))))
        weights = draw.dirichlet(np.full(len(values), 0.5)) * 10 ** draw.uniform(-9, 0)
        weights /= max(1.0, float(weights @ values))  # of a mean of 1 in all
        epsilon = float(draw.uniform(0.0, 1.5))
        truth = float(weights @ np.maximum(values - math.exp(epsilon), 0))
        most = float(values.max()) * float(draw.choice([1.0, 1.05, 10.0]))
        found = _cell(values, weights, most).upper(epsilon)
        assert found >= truth * (1 - 1e-9)
        assert _cell(values, weights, most).lower(epsilon) <= truth * (1 + 1e-9) + 1e-16
        if truth:
            close = max(close, truth / found)
            wrong += _cell(values, weights, 0.8 * float(values.max())).upper(epsilon) < truth * (1 - 1e-6)
    assert close > 0.99 and wrong > 50


# --- the whole ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "epsilon"), [(1.0, 0.3), (1.0, 2.0), (1.0, 4.0), (0.7, 3.0), (2.0, 0.8)])
def test_two_of_three_hold_the_quadrature(sigma: float, epsilon: float) -> None:
    exact = two_of_three(sigma, epsilon)
    low, high = subset_delta(GaussianRatio(sigma), 3, 2, epsilon, 0.5 * exact, 1.0)
    assert low <= exact <= high
    assert high - low < 0.25 * exact


@pytest.mark.parametrize(("sigma", "steps", "epsilon"), [(1.0, 100, 0.3), (1.0, 20, 1.5), (2.0, 50, 0.1), (0.7, 200, 0.9)])
def test_one_of_many_agrees_with_the_law_of_one_sum(sigma: float, steps: int, epsilon: float) -> None:
    lower, upper = delta_once(GaussianRatio(sigma), steps, epsilon, 1, 1e-7)
    low, high = subset_delta(GaussianRatio(sigma), steps, 1, epsilon, 0.5 * lower, 1.0)
    assert low <= upper and lower <= high
    assert high - low < 0.02 * high


@pytest.mark.parametrize("bands", [(8,), (24, 12), (8, 4)])
@pytest.mark.parametrize("reach", [(12.0, 12.0), (4.0, 16.0), (1.5, 1.5), (0.5, 3.0)])
def test_sums_may_be_told_coarsely_and_modulo_anything(
    bands: tuple[int, ...], reach: tuple[float, float]
) -> None:
    """Few values, and values that come back within a deviation, still hold the truth, from further away."""
    exact = two_of_three(0.7, 3.0)
    known = subset_for(GaussianRatio(0.7), 3, 2, 3.0, exact, bands, reach)
    assert known.lower(3.0) <= exact <= known.upper(3.0)
    lower, upper = delta_once(GaussianRatio(0.7), 40, 2.0, 1, 1e-7)
    known = subset_for(GaussianRatio(0.7), 40, 1, 2.0, lower, bands, reach)
    assert known.lower(2.0) <= upper and lower <= known.upper(2.0)


def test_transforms_in_pieces_are_the_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    for chunk in (1 << 30, 1000):
        monkeypatch.setattr(subset, "_CHUNK", chunk)
        known = subset_for(GaussianRatio(0.7), 10, 2, 3.0, 1e-3, (12, 8))
        ends.append((known.lower(3.5), known.upper(3.5)))
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


MUTANTS = {
    "a cap of half the size": ("i0e", lambda v: 0.5 * i0e(v)),
    "mean squares that miss a hundredth": (
        "laws_of",
        lambda t, k: (*laws_of(t, k)[:2], lambda f: 0.99 * laws_of(t, k)[2](f)),
    ),
    "subsets that share no step": (
        "laws_of",
        lambda t, k: (*laws_of(t, k)[:2], lambda f: f[1] ** (2 * k) * f[0] ** (t - 2 * k)),
    ),
}


@pytest.mark.parametrize("bands", [(96,), (48, 24)])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_bound_with_a_fault_falls_below_the_truth(name: str, bands: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    lower, _ = delta_once(GaussianRatio(1.0), 100, 0.3, 1, 1e-7)
    assert subset_for(GaussianRatio(1.0), 100, 1, 0.3, lower, bands).upper(0.3) >= lower
    monkeypatch.setattr(subset, *MUTANTS[name])
    assert subset_for(GaussianRatio(1.0), 100, 1, 0.3, lower, bands).upper(0.3) < lower


def test_five_of_a_hundred_hold_what_sampling_says() -> None:
    """E_P (1 - K / R)_+ of 40,000 draws; six standard errors, so a right bound fails once in a billion streams."""
    draw = np.random.default_rng(22)
    size, epsilon = 40_000, 1.0
    z = draw.standard_normal((size, 100))
    z[:, :5] += 1
    y = np.exp(z - 0.5)
    symmetric = np.zeros((6, size))
    symmetric[0] = 1
    for i in range(100):
        symmetric[1:] += y[:, i] * symmetric[:-1]
    value = np.maximum(1 - math.exp(epsilon) * math.comb(100, 5) / symmetric[5], 0)
    mean, error = float(value.mean()), float(value.std()) / math.sqrt(size)
    low, high = subset_delta(GaussianRatio(1.0), 100, 5, epsilon, 0.5 * mean, 1.0)
    assert high - low < 0.01 * high
    assert low - 6 * error <= mean <= high + 6 * error


def sampled(
    sigma: float, steps: int, selected: int, epsilon: float, seed: int, shift: float
) -> tuple[float, float]:
    """delta and its standard error from 100,000 draws of outputs of which those that matter are usual.

    `selected` steps at random are moved as by the record, and on: by nothing, one of them by `shift`, or all alike
    by `shift` together. A draw is weighed by the density of all that; because of the first no weight is large.
    """
    draw, size, base = np.random.default_rng(seed), 100_000, 1 / sigma
    alike = selected**-0.5
    moves = base + shift * np.array([(0, 0), (1, 0), (alike, alike)])  # of one, and of each of the others
    z = draw.standard_normal((size, steps))
    chosen = np.argsort(draw.random((size, steps)), axis=1)[:, :selected]
    kind = moves[draw.integers(3, size=size)]
    move = np.concatenate([kind[:, :1], np.repeat(kind[:, 1:], selected - 1, axis=1)], axis=1)
    np.put_along_axis(z, chosen, np.take_along_axis(z, chosen, axis=1) + move, axis=1)
    ways, density, ratio = math.comb(steps, selected), np.zeros(size), np.zeros(size)
    for first, other in moves:
        far, near = (np.exp(m * z - m**2 / 2) for m in (first, other))
        # of the first few steps so many moved, none of them as the one, or one of them
        without, with_one = np.zeros((2, selected + 1, size))
        without[0] = 1
        for i in range(steps):
            with_one[1:] += near[:, i] * with_one[:-1] + far[:, i] * without[:-1]
            without[1:] += near[:, i] * without[:-1]
        density += with_one[selected] / (3 * selected * ways)
        ratio = without[selected] / ways if first == other == base else ratio
    value = np.maximum(ratio - math.exp(epsilon), 0) / density
    return float(value.mean()), float(value.std()) / math.sqrt(size)


def test_two_of_twenty_hold_what_sampling_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest case, at six standard errors: a right bound fails once in a billion streams. A fault is seen."""
    ratio, epsilon = GaussianRatio(0.7), 5.34
    mean, error = sampled(0.7, 20, 2, epsilon, 23, 3.5)
    assert error < 0.015 * mean
    low, high = subset_delta(ratio, 20, 2, epsilon, 0.5 * mean, 1.0)
    assert high - low < 0.02 * high
    assert low - 6 * error <= mean <= high + 6 * error
    monkeypatch.setattr(subset, *MUTANTS["subsets that share no step"])
    assert subset_for(ratio, 20, 2, epsilon, mean, (32, 24)).upper(epsilon) < mean - 6 * error


@pytest.mark.parametrize(("selected", "delta"), [(2, 1e-8), (3, 1e-8), (5, 1e-5)])
def test_few_of_a_hundred_with_little_noise_are_known_to_a_thousandth(selected: int, delta: float) -> None:
    found = allocation_bracket(0.7, 100, selected, delta=delta)
    assert found.width < 1e-3 * found.upper
    mean, error = sampled(0.7, 100, selected, found.upper, 24, 4.6 if delta < 1e-6 else 3.5)
    assert error < 0.03 * mean and mean - 6 * error <= delta
    mean, error = sampled(0.7, 100, selected, found.lower, 24, 4.6 if delta < 1e-6 else 3.5)
    assert mean + 6 * error >= delta


# --- what is asked --------------------------------------------------------------------------------------------------------------

#: (selected, delta): the bracket before laws of two sums.
BEFORE = {
    (2, 1e-5): (1.2043387, 1.2297494),
    (3, 1e-8): (2.8468093, 2.9750569),
    (5, 1e-5): (2.8798062, 2.9957780),
    (10, 1e-5): (5.8202347, 6.1172526),
    (10, 1e-8): (7.8448595, 8.3408945),
}


@pytest.mark.parametrize(("selected", "delta"), BEFORE)
def test_several_of_a_hundred_are_known_to_a_thousandth(selected: int, delta: float) -> None:
    found = allocation_bracket(1.0, 100, selected, delta=delta)
    lower, upper = BEFORE[selected, delta]
    assert lower <= found.lower * (1 + 1e-7) and found.upper <= upper
    assert found.width <= 1e-3 * found.upper
    back = allocation_bracket(1.0, 100, selected, epsilon=found.upper)
    assert back.lower <= delta and back.upper <= delta * (1 + 1e-3)


@pytest.mark.parametrize("selected", [2, 5])
def test_little_noise_is_known_to_a_thousandth_by_a_third_sum(selected: int) -> None:
    found = allocation_bracket(0.7, 100, selected, delta=1e-5)
    lower, upper = {2: (3.1972, 3.2022), 5: (6.1603, 6.1687)}[selected]  # by two sums
    assert lower <= found.lower and found.upper <= upper
    assert found.width <= 1e-3 * found.upper


def test_more_steps_cost_more_and_more_noise_less() -> None:
    ladder = [allocation_bracket(1.0, 30, k, delta=1e-4) for k in (1, 2, 3)]
    assert all(a.upper < b.lower for a, b in itertools.pairwise(ladder))
    ladder = [allocation_bracket(s, 30, 3, delta=1e-4) for s in (0.8, 1.0, 3.0)]
    assert all(a.lower > b.upper for a, b in itertools.pairwise(ladder))


def test_an_epsilon_below_the_one_it_was_made_for_gets_no_bound() -> None:
    known = subset_for(GaussianRatio(1.0), 30, 2, 1.0, 1e-3, (48,))
    assert known.upper(0.9) == 1.0
    assert known.lower(1.0) <= known.upper(1.0) < 1e-1
    assert known.upper(1.2) < known.upper(1.0)


def test_epsilon_and_delta_are_each_other_s_inverse() -> None:
    low, high = subset_epsilon(GaussianRatio(1.0), 30, 3, 1e-6, 1.0, 6.0)
    assert subset_delta(GaussianRatio(1.0), 30, 3, high, 1e-8, 1.0)[0] <= 1e-6 <= subset_delta(GaussianRatio(1.0), 30, 3, low, 1e-8, 1.0)[1]
