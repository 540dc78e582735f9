"""The threshold: its price, and that it reaches the median from below and from above, where Flower's rule does neither."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.federated import AdaptiveClip
from tacit.federated.adaptive import update_multiplier
from tacit.federated.device import composed
from tacit.federated.plan import plan
from tacit.federated.sums import mean_of
from tacit.noise import discrete_gaussian


@pytest.mark.parametrize(("z", "m", "found"), [(1.0, 100, 1.0050378), (0.6, 50, 0.6043672)])
def test_the_update_pays_for_the_count(z: float, m: int, found: float) -> None:
    assert update_multiplier(z, m / 20) == pytest.approx(found, rel=1e-7)
    # both together are one Gaussian of multiplier z: the squares of the reciprocals add up
    assert 1 / found**2 + 1 / (2 * m / 20) ** 2 == pytest.approx(1 / z**2, rel=1e-6)


def run(first: float, seed: int, rounds: int = 100, *, exact: bool = True) -> float:
    """Rounds of 100 clients whose norms are lognormal(0, 1/2), so their median is 1; noise of deviation 5 in the count.

    The noise is Tacit's own, or a float of the same stream as the norms, as the specification had it.
    """
    rule = AdaptiveClip(first, clients=100)
    draws = np.random.default_rng(seed)
    threshold = first
    for _ in range(rounds):
        norms = np.exp(0.5 * draws.normal(size=100))
        noise = discrete_gaussian(5000) / 1000 if exact else 5 * draws.normal()
        flags = float(np.where(norms <= threshold, 0.5, -0.5).sum()) + noise
        threshold = rule.next(threshold, rule.share(flags))
    return threshold


@pytest.mark.parametrize("first", [0.1, 100.0])
def test_the_threshold_reaches_the_median(first: float) -> None:
    """A21: 20 runs within [.95, 1.07] after 100 rounds, from .1; from 100 the same."""
    found = [run(first, seed, exact=False) for seed in range(20)]
    assert min(found) >= 0.95 and max(found) <= 1.07, found
    # A run's threshold has deviation .026 there (1,000 runs): other coins, four of these.
    other = [run(first, seed) for seed in range(20)]
    assert min(other) >= 1 - 4 * 0.026 and max(other) <= 1 + 4 * 0.026 and abs(np.mean(other) - 1) < 0.026, other


@pytest.mark.parametrize("first", [0.1, 100.0])
def test_flowers_own_rule_reaches_it_from_neither_side(first: float) -> None:
    """The peer's functions on the same norms: it counts clipped updates, so from below it shrinks, and from above it grows."""
    pytest.importorskip("flwr")
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideAdaptiveClipping, FedAvg
    from flwr.supercore.differential_privacy import adaptive_clip_inputs_inplace

    peer = DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), noise_multiplier=1.0, num_sampled_clients=100,
                                                         initial_clipping_norm=first, clipped_count_stddev=5.0)  # fmt: skip
    draws = np.random.default_rng(3)
    for _ in range(30):
        norms = np.exp(0.5 * draws.normal(size=100))
        clipped = sum(adaptive_clip_inputs_inplace([np.array([norm])], peer.clipping_norm) for norm in norms)
        peer._geometric_update((clipped + 5 * draws.normal()) / 100)
    assert peer.clipping_norm < 0.02 if first < 1 else peer.clipping_norm > 500


def test_counting_the_clipped_ones_instead_runs_away() -> None:
    """A mutant with the printed fault of Flower's rule: it counts clipped updates as if they were within."""

    def wrong(first: float) -> float:
        rule, threshold, draws = AdaptiveClip(first, clients=100), first, np.random.default_rng(1)
        for _ in range(12):
            norms = np.exp(0.5 * draws.normal(size=100))
            threshold = rule.next(threshold, float((norms > threshold).mean()))
        return threshold

    assert wrong(0.1) < 0.05 and wrong(100.0) > 200


def test_the_flag_travels_in_the_vector_and_missing_clients_are_neutral() -> None:
    made = plan(clients=10, size=2, clip=1.0, rounds=1, noise_multiplier=0.5, delta=1e-5, adaptive=AdaptiveClip(1.0, 10, deviation=2.0))
    vectors = [composed(made, np.array([0.1, 0.0]), 0, 1.0)] * 4 + [composed(made, np.array([9.0, 0.0]), 0, 1.0)] * 2
    assert all(np.linalg.norm(v) <= made.radius() * (1 + 1e-12) for v in vectors)
    found = mean_of(made, np.sum(vectors, axis=0), 1.0)
    assert found.within == pytest.approx(0.5 + (4 - 2) / 2 / 10)  # four of the ten are missing
    assert math.isclose(float(found.update[0]), (4 * 0.1 + 2 * 1.0) / 10)
