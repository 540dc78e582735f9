"""The score of several steps out of many: a lower bound, and a good one."""

from __future__ import annotations

import math

import pytest

from tacit.accounting.engines.stop_loss import delta_once, score_for
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio
from tacit.accounting.theorems import gaussian


@pytest.mark.parametrize("epsilon", [0.1, 0.62, 1.5])
def test_the_score_is_a_lower_bound_and_a_good_one(epsilon: float) -> None:
    """For one step out of a hundred the truth is known; the sum of scores must stay below it, and not by much."""
    lower, upper = delta_once(GaussianRatio(1.0), 100, epsilon, 1, 1e-6)
    score = score_for(GaussianRatio(1.0), 100, 1, 1, epsilon).delta(epsilon)
    assert 0.6 * lower < score <= upper
    # all of the steps: the score is the loss, but for the rounding
    plain = gaussian.delta(math.sqrt(5), 3.0)
    assert 0.99 * plain < score_for(GaussianRatio(1.0), 5, 5, 1, 3.0).delta(3.0) <= plain
