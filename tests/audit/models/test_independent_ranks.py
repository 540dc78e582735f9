"""Bounds from ranks: exact laws of the two rates, validity on tight mechanisms, power, and a mutant that picks its threshold freely."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betainc, ndtr

from tacit.accounting import Gaussian, ParameterError, account
from tacit.audit.experiment import generator
from tacit.audit.models.independent import points, rank_attack, ranks
from tacit.audit.rates import epsilon_of

RUNS = 400
SLACK = 5 * math.sqrt(0.05 * 0.95 / RUNS)  # five standard deviations of a share of 5%


def laplace(draw: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    return draw.laplace(0, 1, n), draw.laplace(1, 1, n)


def response(draw: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Randomised response at epsilon 1: two values only, so everything is tied."""
    p = math.e / (1 + math.e)
    return (draw.random(n) > p).astype(float), (draw.random(n) < p).astype(float)


@pytest.mark.parametrize("sample", [laplace, response])
@pytest.mark.parametrize("n", [60, 600])
def test_the_bound_exceeds_the_truth_no_more_often_than_stated(sample, n: int) -> None:  # type: ignore[no-untyped-def]
    draw = generator(n)
    above = sum(rank_attack(*sample(draw, n), confidence=0.95).lower > 1 for _ in range(RUNS)) / RUNS
    assert above <= 0.05 + SLACK


def test_a_threshold_picked_after_the_fact_is_caught() -> None:
    """The mutant: the best of all thresholds, each with the confidence of one."""

    def free(outside: np.ndarray, inside: np.ndarray) -> float:  # type: ignore[type-arg]
        n = len(outside)
        best = 0.0
        for t in np.concatenate([outside, inside]):
            fpr, tpr = np.count_nonzero(outside > t) / n, np.count_nonzero(inside > t) / n
            if fpr > 0 and tpr < 1:
                best = max(best, epsilon_of(fpr, tpr))
        return best

    draw = generator(3)
    assert sum(free(*laplace(draw, 60)) > 1 for _ in range(100)) / 100 > 0.5


def test_the_rate_at_a_rank_follows_its_beta_law() -> None:
    """The k-th largest of n uniform scores leaves U above it with P(U <= u) = I_u(k, n - k + 1): the ends are its quantiles."""
    for k, (fpr, _) in zip(ranks(100), points(np.linspace(0, 1, 100), np.zeros(10), 0.01), strict=True):
        assert betainc(k, 100 - k + 1, fpr) == pytest.approx(0.99)


@pytest.mark.parametrize(("n", "least"), [(1000, 1.2), (10_000, 1.95), (100_000, 2.55)])
def test_power_on_a_gaussian_mechanism(n: int, least: float) -> None:
    """mu = 1 at delta 1e-5, truth 4.377. Splitting off samples to choose a threshold reaches 1.2, 2.0 and 2.7 on average."""
    draw = generator(5)
    truth = account(Gaussian(1)).epsilon(1e-5).lower
    found = [rank_attack(draw.normal(0, 1, n), draw.normal(1, 1, n), delta=1e-5).lower for _ in range(12)]
    assert least < np.mean(found) and max(found) < truth


def test_mu_and_the_point_found() -> None:
    draw = generator(6)
    found = rank_attack(draw.normal(0, 1, 20_000), draw.normal(1, 1, 20_000), measure="mu")
    assert 0.9 < found.lower < 1
    assert found.point is not None and found.point.tpr < ndtr(1 + 3) and found.point.fpr > 0


def test_both_ends_are_looked_at() -> None:
    """Here outsiders never score low: what tells is a low score, which only members have."""
    outside, inside = np.full(1000, 1.0), np.concatenate([np.full(500, 1.0), np.full(500, 0.0)])
    assert rank_attack(-outside, -inside).lower > 4
    assert rank_attack(outside, inside).lower == 0, "scores must be higher for members"


def test_infinities_are_scores_and_nan_is_not() -> None:
    assert rank_attack([-math.inf] * 100, [math.inf] * 100).lower > 2
    for bad in ([], [math.nan]):
        with pytest.raises(ParameterError, match="outside"):
            rank_attack(bad, [1.0])
    with pytest.raises(ParameterError, match="measure"):
        rank_attack([1.0], [1.0], measure="rho")


def test_ranks_depend_on_the_number_of_trials_alone() -> None:
    assert ranks(1) == [1] and ranks(10)[-1] <= 5 and len(ranks(10**6)) < 14
