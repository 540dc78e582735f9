"""Follow the leader: the price of the stream, the end of the stream, the regret bound on a stream of linear losses."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee, ParameterError, account
from tacit.learning.textbook.ftrl import FollowTheLeader, PrefixSums, regret_bound
from tacit.learning.textbook.sets import L2Ball
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


@pytest.mark.parametrize("n", [1, 2, 1000, 1024])
def test_the_price_is_one_gaussian_for_each_level(n: int) -> None:
    learner = FollowTheLeader.plan(Guarantee(epsilon=1, delta=1e-5), L2Ball(2), n=n, clip=1.0, ridge=1.0)
    assert learner.event.stated is Adjacency.ZERO_OUT
    assert 0.999 < account(learner.event).epsilon(1e-5).upper <= 1


def test_a_stream_ends() -> None:
    sums = PrefixSums(1, 2, clip=1.0, multiplier=1.0)
    sums.add(np.array([np.nan, np.inf]))
    assert np.isfinite(sums.get()).all()
    with pytest.raises(ParameterError, match="is over"):
        sums.add(None)


def test_the_regret_stays_below_its_bound() -> None:
    n, p, ridge = 256, 3, 40.0
    generator = np.random.default_rng(0)
    gradients = generator.normal(size=(n, p)) / 3 + np.array([0.4, 0.0, 0.0])
    gradients /= np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))
    with test_mode(1):
        learner = FollowTheLeader.plan(Guarantee(epsilon=5, delta=1e-5), L2Ball(p), n=n, clip=1.0, ridge=ridge)
        regret = 0.0
        best = -gradients.sum(axis=0) / np.linalg.norm(gradients.sum(axis=0))
        for g in gradients:
            regret += float(g @ (learner.theta - best))
            learner.partial_fit(g)
    assert 0 < regret / n < regret_bound(n, p, 1.0, ridge, learner.sums.multiplier, 1.0, 1e-3)
