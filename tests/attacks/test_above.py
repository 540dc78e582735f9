"""Attacks on rounds that stop early: when they stop tells no more than they cost; stopping by the true counts tells everything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm
from tests.attacks.attack import lower_bound

from tacit.accounting import Gaussian, Repeated, account
from tacit.ledger import paying
from tacit.workloads import Above, above_in
from tacit.workloads.above import PARTS, in_rounds

METHOD = above_in(1, at=10, within=2, confidence=0.9, rounds=3)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_the_moment_of_stopping_by_its_exact_law(epsilon: float) -> None:
    """Whether one cell is clear after the first round, for a row more: both directions are within the delta of that round's noise."""
    noise, reach = METHOD.noises[0], METHOD.widths[0] - METHOD.within
    sigma, allowed = float(noise.scales[0]) / PARTS, account(noise.event).delta(epsilon).upper

    def open_still(count: float) -> float:
        # |rounded average - at| < reach: the average moves in parts of a row
        edge = (math.ceil(reach * PARTS) - 0.5) / PARTS
        return float(norm.cdf((10 + edge - count) / sigma) - norm.cdf((10 - edge - count) / sigma))

    gained = []
    for count in range(31):
        p, q = open_still(count), open_still(count + 1)
        gained += [p - math.exp(epsilon) * q, q - math.exp(epsilon) * p, (1 - p) - math.exp(epsilon) * (1 - q)]
        gained.append((1 - q) - math.exp(epsilon) * (1 - p))
    assert max(gained) <= allowed
    assert max(gained) > allowed / 4 or epsilon > 0.1  # the law is not vacuous


def outcome(method: Above, count: int) -> tuple[int, bool]:
    released, _ = in_rounds(method, lambda: np.array([count]), lambda noise: paying(None, noise.event))
    return len(released), bool(method.averages(released)[0] > 10)


def test_rounds_and_decisions_tell_no_more_than_all_rounds_cost() -> None:
    delta = 0.05
    most = account(Repeated(Gaussian(1 / math.sqrt(2 * float(METHOD.most))), 1)).epsilon(delta).upper
    found = lower_bound(*(lambda n, x=x: [outcome(METHOD, x) for _ in range(n)] for x in (10, 11)), 2500, delta=delta)
    assert found <= most


def test_stopping_by_the_true_count_is_caught() -> None:
    """The mutant ends the rounds when the count itself is clear: at the edge one row decides for certain."""
    edge = 10 + math.ceil(METHOD.widths[0] - METHOD.within)

    def careless(count: int) -> int:
        return 1 if abs(count - 10) >= METHOD.widths[0] - METHOD.within else 3

    most = account(Repeated(Gaussian(1 / math.sqrt(2 * float(METHOD.most))), 1)).epsilon(0.05).upper
    assert lower_bound(*(lambda n, x=x: [careless(x) for _ in range(n)] for x in (edge, edge - 1)), 2500, delta=0.05) > most
