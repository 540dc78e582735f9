"""Membership from means: the power of theory in simulation, the three statistics, noise, and the bound that epsilon sets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import Gaussian, account
from tacit.audit.demonstrations import draws, noisy_counts, tracing
from tacit.audit.demonstrations.tracing import expected_auc, homer, inner_product, likelihood_ratio, power, separation, trace
from tacit.audit.experiment import generator
from tacit.audit.models.roc import roc
from tacit.audit.rates import lower_rate, most_true_positives


def mean_of(group: np.ndarray) -> np.ndarray:
    return np.asarray(group.mean(axis=0))


def test_homer_by_hand() -> None:
    """|1 - .5| - |1 - .8| = .3; |0 - .5| - |0 - .1| = .4."""
    assert homer([0.8, 0.1], [0.5, 0.5], [1, 0]) == pytest.approx(0.7)
    assert homer([0.8, 0.1], [0.5, 0.5], [[1, 0], [0, 1]]).tolist() == pytest.approx([0.7, -0.7])


def test_statistics_agree_at_one_half() -> None:
    """With p = 1/2 and bits, Homer's distance is twice the inner product: |z - p| - |z - q| = (2z - 1)(q - p)."""
    source = generator(1)
    mean, people = source.random(50), source.integers(2, size=(20, 50))
    assert homer(mean, np.full(50, 0.5), people) == pytest.approx(2 * inner_product(mean, np.full(50, 0.5), people))


def test_the_inner_product_is_the_first_order_of_the_likelihood_ratio() -> None:
    """log q/p and log (1-q)/(1-p) to first order in q - p give (z - p)(q - p) / (p (1 - p))."""
    source = generator(2)
    people, p = source.integers(2, size=(10, 40)), np.full(40, 0.3)
    q = p + 1e-6 * source.normal(size=40)
    # Left out is half the sum of (q - p)^2 (z / p^2 + (1 - z) / (1 - p)^2), at most 1e-12 / 0.18 times a chi-square of 40 degrees, which
    # exceeds 98 once in a million times.
    assert likelihood_ratio(q, p, people) == pytest.approx(inner_product(q, p, people) / 0.21, rel=0, abs=98e-12 / 0.18)


@pytest.mark.parametrize(("dimension", "members"), [(100, 100), (200, 50), (30, 120)])
def test_the_curve_of_theory(dimension: int, members: int) -> None:
    """The area over 800 games, within 0.07: five of its deviations, which are at most 0.5 / sqrt(min(in, out)) / sqrt(3) (about 0.0145)."""
    scores, coins = trace(mean_of, members=members, dimension=dimension, trials=800, seed=dimension)
    apart = math.sqrt(dimension / members)
    assert roc(scores, coins).auc == pytest.approx(expected_auc(apart), abs=0.07)
    hits, ins = int(np.sum(scores[coins] > np.quantile(scores[~coins], 0.9))), int(coins.sum())
    assert hits / ins == pytest.approx(power(dimension=dimension, members=members, fpr=0.1), abs=0.13)


def test_theory_with_the_wrong_root_is_caught() -> None:
    """d / n in place of sqrt(d / n) at d = 4 n would be an area of 0.998 for 0.921, outside the tolerance of the test above."""
    assert expected_auc(4.0) - expected_auc(2.0) > 0.07


def test_separation_is_the_ratio_of_moments() -> None:
    """By simulation of the scores themselves, with noise in the mean."""
    n, d, s = 40, 60, 0.05
    source = generator(9)
    p = source.uniform(0.2, 0.8, size=d)
    ins, outs = [], []
    for _ in range(1500):
        group = (source.random((n, d)) < p).astype(float)
        mean = group.mean(axis=0) + s * source.normal(size=d)
        ins.append(float(inner_product(mean, p, group[0])))
        outs.append(float(inner_product(mean, p, source.random(d) < p)))
    apart = (np.mean(ins) - np.mean(outs)) / np.std(outs)
    assert apart == pytest.approx(separation(p, n, s), abs=0.2)  # five deviations of the difference of two means of 1500
    v = p * (1 - p)
    assert separation(p, n) == pytest.approx(v.sum() / math.sqrt(n * (v**2).sum()))  # the closed form without noise
    assert separation(p, n, s) < separation(p, n) < math.sqrt(d / n) == pytest.approx(separation(np.full(d, 0.3), n))


def test_power_is_that_of_gaussian_privacy() -> None:
    """Two normal laws sqrt(d/n) apart are the trade-off of mu = sqrt(d/n), which the accountant knows."""
    assert power(dimension=100, members=100, fpr=0.01) == pytest.approx(account(Gaussian(1)).tpr(0.01).upper, abs=1e-6)
    assert power(dimension=100, members=100, fpr=0.01) == pytest.approx(0.092362, abs=1e-6)  # spec 5.4.2
    assert power(dimension=10, members=1000, fpr=0.0) == 0.0


def test_no_spread_is_no_sign() -> None:
    assert separation([0.0, 1.0], 10) == 0.0


@pytest.mark.parametrize("statistic", [homer, inner_product, likelihood_ratio], ids=["homer", "inner product", "likelihood ratio"])
def test_every_statistic_breaks_raw_means_and_none_beats_epsilon(statistic: tracing.Statistic) -> None:
    d, n, trials, epsilon = 200, 20, 150, 1.0
    scores, coins = trace(mean_of, members=n, dimension=d, trials=trials, seed=3, statistic=statistic)
    assert roc(scores, coins).auc > 0.9
    with draws(3):
        noisy, coins = trace(
            lambda group: noisy_counts(group.sum(axis=0), epsilon, sensitivity=d) / n,
            members=n, dimension=d, trials=trials, seed=4, statistic=statistic,
        )  # fmt: skip
    cut = np.median(noisy)  # of both kinds together: it knows no coin
    hits, ins = int(np.sum(noisy[coins] > cut)), int(coins.sum())
    assert lower_rate(hits, ins, 1e-6) < most_true_positives(float(np.mean(noisy[~coins] > cut)), epsilon)


def test_shown() -> None:
    shown = tracing.demonstrate(quick=True)
    assert shown.raw.rate > 0.8 and shown.raw.learns()
    assert not any(level.beats() for level in shown.levels) and not shown.at(0.1).learns()


def test_noise_for_one_column_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "noisy_counts", lambda counts, epsilon, sensitivity: noisy_counts(counts, epsilon))
    assert tracing.demonstrate(quick=True, epsilons=(0.1,)).at(0.1).rate < 1  # scale 10 in each column hides a little
    assert tracing.demonstrate(epsilons=(1.0,)).at(1.0).beats()
