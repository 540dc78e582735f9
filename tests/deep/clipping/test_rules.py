"""Rules of clipping: factors by the definition, sensitivities that hold, and what the adaptive threshold costs."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.deep.clipping import Adaptive, adaptive, automatic, flat, halves, per_layer
from tacit.errors import ParameterError

LENGTHS = st.lists(st.floats(0, 1e300) | st.sampled_from([0.0, math.inf, math.nan, 5e-324]), min_size=1, max_size=5)


@given(LENGTHS, st.floats(1e-6, 1e6))
def test_no_rule_lets_an_example_past_its_sensitivity(lengths: list[float], clip: float) -> None:
    norms = torch.tensor([lengths, lengths], dtype=torch.float64)
    for rule in (flat(clip), automatic(clip), adaptive(clip, count_noise=1)):
        kept = (rule.factors(norms[:1]) * norms[:1].nan_to_num(0, 0)).nan_to_num(posinf=math.inf)
        assert bool((kept <= rule.sensitivity(1) * (1 + 1e-15)).all())
    for layered in (per_layer(clip), per_layer([clip, 2 * clip])):
        kept = layered.factors(norms) * norms.nan_to_num(0, 0)
        assert bool((kept.square().sum(0).sqrt() <= layered.sensitivity(2) * (1 + 1e-15)).all())


@given(LENGTHS)
def test_an_infinite_or_undefined_norm_keeps_nothing(lengths: list[float]) -> None:
    norms = torch.tensor([lengths], dtype=torch.float64)
    for rule in (flat(1), automatic(1), per_layer(1), adaptive(count_noise=1)):
        factors = rule.factors(norms)
        assert bool(factors.isfinite().all()) and not bool(factors[~norms.isfinite()].any())


def test_a_list_for_the_wrong_number_of_layers_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"3 trainable layers, not 2"):
        per_layer([1.0, 2.0]).sensitivity(3)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_thresholds_must_be_positive_and_finite(bad: float) -> None:
    for make in (flat, per_layer, automatic, lambda clip: adaptive(clip, count_noise=1), lambda noise: adaptive(count_noise=noise)):
        with pytest.raises(ParameterError):
            make(bad)
    with pytest.raises(ParameterError, match="empty list"):
        per_layer([])


@pytest.mark.parametrize(("z", "batch", "expected"), [(1.0, 100, 1.0050378), (0.6, 50, 0.6043672)])
def test_multiplier_of_the_gradients_when_the_count_is_charged(z: float, batch: float, expected: float) -> None:
    """Andrew et al. 2021, Theorem 1 (acceptance A21): never below the exact value."""
    rule = adaptive(count_noise=batch / 20)
    exact = (mpmath.mpf(z) ** -2 - (2 * mpmath.mpf(batch) / 20) ** -2) ** mpmath.mpf(-0.5)
    assert rule.gradient_multiplier(z) == pytest.approx(expected, abs=1e-7)
    assert exact <= rule.gradient_multiplier(z) <= exact * (1 + 1e-14)


@given(st.floats(0.1, 5), st.floats(3, 1000))
def test_gradients_and_count_together_cost_what_was_promised(z: float, noise: float) -> None:
    """Two Gaussian mechanisms compose to one whose squared inverse multipliers add; the count of halves has sensitivity one half."""
    if z >= 2 * noise:
        return
    multiplier = adaptive(count_noise=noise).gradient_multiplier(z)
    together = 1 / multiplier**2 + (0.5 / noise) ** 2
    assert together <= z**-2 * (1 + 1e-12)
    assert 1 / multiplier**2 + (1.0 / noise) ** 2 > z**-2  # the mutant: zeros and ones, not halves, have sensitivity one and overspend


def test_a_count_noise_that_is_too_small_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"below 2 x count_noise = 1"):
        adaptive(count_noise=0.5).gradient_multiplier(1.0)


def test_halves_move_by_one_half() -> None:
    for within, examples in ((3, 7), (0, 1), (5, 5)):
        assert abs(halves(within, examples + 1) - halves(within, examples)) == 1
        assert abs(halves(within + 1, examples + 1) - halves(within, examples)) == 1
    rule = adaptive(count_noise=5)
    assert rule.count.reach == Fraction(1, 10) and rule.count.spread() == 5  # one half, in deviations of the noise


def run(seed: int, direction: float = 1.0) -> Adaptive:
    """100 rounds of 100 examples with lognormal norms, from a threshold of 0.1."""
    generator = np.random.default_rng(seed)
    rule = adaptive(0.1, quantile=0.5, learning_rate=0.2, count_noise=5)
    for _ in range(100):
        within = int((generator.lognormal(0, 0.5, 100) <= rule.clip).sum())
        count = direction * halves(within, 100) / 2 + generator.normal(0, 5)
        rule = rule.updated(count, 100)
    return rule


def test_the_threshold_reaches_the_median() -> None:
    """Acceptance A21: 20 seeds end within [.95, 1.07] of a median of one, and a step in the wrong direction does not."""
    assert all(0.95 <= run(seed).clip <= 1.07 for seed in range(20))
    assert not 0.5 < run(0, direction=-1.0).clip < 2


def test_one_draw_cannot_carry_the_threshold_away() -> None:
    rule = adaptive(1.0, count_noise=5)
    for noisy in (1e300, -1e300, math.inf, -math.inf):
        assert 0.9 < rule.updated(noisy, 100).clip < 1.2
    with pytest.raises(ParameterError):
        rule.updated(0.0, 0)
