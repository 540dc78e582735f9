"""The figures of chapter 9 of the source, as computed in its digest, and the forms that it prints wrongly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.applications.health import (
    CohortPlan,
    allelic,
    allelic_sensitivity,
    asymmetric,
    auc_limit,
    best_answer,
    critical_share,
    operating_curve,
    plan_gwas,
    sample_size,
    trial_power,
)
from tacit.audit.selftest import Case, promise
from tacit.calculus import Absolute, Integers, Space
from tacit.mechanisms import geometric
from tacit.noise import discrete_laplace


@pytest.mark.parametrize(
    ("epsilon", "deviation", "mean", "zero"), [(0.05, 28.281, 19.992, 0.02499), (0.2, 7.059, None, None), (1, 1.357, None, None)]
)
def test_the_noise_of_a_count(epsilon: float, deviation: float, mean, zero) -> None:
    assert math.sqrt(geometric(1 / epsilon).variance) == pytest.approx(deviation, abs=6e-4)
    ratio = math.exp(-epsilon)
    if mean is not None:
        assert ratio == pytest.approx(0.951229, abs=1e-6)
        assert 2 * ratio / (1 - ratio**2) == pytest.approx(mean, abs=6e-4)
        assert (1 - ratio) / (1 + ratio) == pytest.approx(zero, abs=6e-6)


def test_the_printed_draws_are_draws() -> None:
    """2000 became 1998 and 100 became 88 at epsilon .05: errors of 2 and 12 happen with these probabilities."""
    plan = CohortPlan(None, None, 0.05, 5000)  # type: ignore[arg-type]
    assert plan.within(2) == pytest.approx(0.118, abs=5e-4) and plan.within(12) == pytest.approx(0.465, abs=5e-4)


def test_answers_by_loss_and_prior() -> None:
    two_to_one = asymmetric(over=2, under=1)
    assert [best_answer(1000, 5000, e, loss=two_to_one) for e in (0.1, 0.05)] == [996, 992]
    assert best_answer(1000, 5000, 0.05) == 1000
    assert best_answer(50, 5000, 0.05, prior=0.9 ** np.arange(5001.0)) == 11


def test_the_ratio_one_over_epsilon_falls_short_of_the_claim() -> None:
    """E1: at epsilon 4 the printed ratio 1/4 gives ln 4 = 1.39, a third of the price; below 1 it is no law at all."""
    scale = 1 / math.log(4)
    case = Case("printed", promise(geometric(0.25).bind(Space(Integers(), Absolute())).event(1)),
                lambda n: discrete_laplace(scale, size=n), lambda n: 1 + discrete_laplace(scale, size=n), 0.8, 20_000)  # fmt: skip
    assert "below its floor" in case.tried(seed=1).reason


def test_a_signed_loss_is_degenerate() -> None:
    """E3: the printed difference has its least expected loss at the end of the range."""
    assert best_answer(500, 1000, 0.1, loss=lambda difference: difference) == 0


SIZES = [
    (0.5, 0.1, 1, 194.26, 202.03, 202.02), (0.5, 0.1, 0.5, 194.26, 222.48, 222.33), (0.5, 0.1, 0.1, 194.26, 505.07, 500.36),
    (0.5, 0.1, 0.01, 194.26, 4060.4, 4011.3), (0.3, 0.2, 0.1, 47.09, 223.04, 220.84), (0.5, 0.05, 0.1, 782.93, 1275.29, 1267.84),
]  # fmt: skip


@pytest.mark.parametrize(("rate", "effect", "epsilon", "plain", "near", "exactly"), SIZES)
def test_sample_sizes(rate: float, effect: float, epsilon: float, plain: float, near: float, exactly: float) -> None:
    places = 0.06 if plain * 10 < near else 0.006
    approximate = sample_size(rate, effect, epsilon=epsilon, method="approximate")
    assert approximate.plain == pytest.approx(plain, abs=0.006) and approximate.private == pytest.approx(near, abs=places)
    assert sample_size(rate, effect, epsilon=epsilon).private == pytest.approx(exactly, abs=places)


def test_the_printed_root_equation_has_no_solution() -> None:
    """E5: with 1 - beta in place of beta, power would be 1 - .8, which no n with power above alpha/2 rising in n gives twice."""
    found = sample_size(0.5, 0.1, epsilon=0.1)
    assert trial_power(found.private, 0.5, 0.1, epsilon=0.1) == pytest.approx(0.8)
    assert trial_power(2 * found.private, 0.5, 0.1, epsilon=0.1) > 0.95


def simulated_power(n: int, truth: float, runs: int) -> float:
    rng = np.random.default_rng(3)
    share = rng.binomial(n, truth, runs) / n + rng.laplace(0, 1 / (0.1 * n), runs)
    return float((share > critical_share(n, 0.5, 0.1, epsilon=0.1)).mean())


def test_the_exact_size_is_confirmed_by_simulation() -> None:
    """400,000 trials: standard errors of .0006 and .0003. The critical value has the variance half way, as (9.7) has."""
    n = sample_size(0.5, 0.1, epsilon=0.1).people
    assert n == 501
    assert simulated_power(n, 0.6, 400_000) == pytest.approx(0.80, abs=0.01)
    assert simulated_power(n, 0.5, 400_000) == pytest.approx(0.0253, abs=0.002)


CURVES = {
    (0.2, 0.5): (0.990, 0.012, 0.027, 0.074, 0.550, 0.992),
    (0.2, 0.1): (0.926, 0.091, 0.202, 0.550, 0.939, 0.999),
    (1.0, 0.5): (0.998, 0.005, 0.269, 0.995, 1.0, 1.0),
}


@pytest.mark.parametrize("setting", CURVES)
def test_the_operating_curve_of_a_beacon(setting: tuple[float, float]) -> None:
    epsilon, absence = setting
    found = operating_curve(500, epsilon, absence=absence, counts=[0, 1, 5, 10, 20, 40])
    assert [round(p, 3) for p in found.values()] == list(CURVES[setting])
    assert round(math.exp(0.2) / (1 + math.exp(0.2)), 4) == 0.5498  # plain randomised response at epsilon .2


def test_allelic_statistics_and_their_sensitivity() -> None:
    assert float(allelic(120, 80, 100, 100)) == 16.0 and round(float(allelic(1200, 1500, 893, 1244)), 4) == 21.2754
    assert [round(float(allelic_sensitivity(*s)), 4) for s in ((10, 10), (10, 20), (893, 1244))] == [7.2727, 8.5714, 8.2152]


def test_statistics_of_k_variants_cost_k_times_one() -> None:
    """E7: noise of scale 2 / epsilon is for one variant."""
    one, three = (plan_gwas(cases=9, controls=9, variants=5, k=k, epsilon=2, gamma=3, statistics="1/2") for k in (1, 3))
    assert one.statistics_noise.scales[0] == 2 and three.statistics_noise.scales[0] == 6


def test_a_private_threshold_is_mostly_noise() -> None:
    """E26: at epsilon .5 with a tenth for the threshold, Laplace noise of scale 164 in chi-square units."""
    plan = plan_gwas(cases=893, controls=1244, variants=10, k=1, epsilon="1/2", gamma=None)
    assert plan.threshold_noise.spread() == pytest.approx(164.3, abs=0.2)


def test_the_limit_of_an_attack() -> None:
    assert round(auc_limit(1), 3) == 0.731
