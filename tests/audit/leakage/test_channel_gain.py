"""g-leakage: by enumeration of all strategies, and never beyond min-capacity, whatever the gain and the prior."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.leakage.channel import Channel


def test_gains_by_enumeration_of_all_strategies() -> None:
    draw = np.random.default_rng(1)
    matrix, prior, gain = draw.dirichlet(np.ones(3), size=4), draw.dirichlet(np.ones(4)), draw.random((3, 4))
    channel = Channel(matrix, prior)
    rules = itertools.product(range(3), repeat=3)
    best = max(sum(prior[s] * matrix[s, o] * gain[rule[o], s] for s in range(4) for o in range(3)) for rule in rules)
    blind = max(sum(prior[s] * gain[w, s] for s in range(4)) for w in range(3))
    assert channel.vulnerability(gain) == pytest.approx(best, rel=1e-12)
    assert channel.prior_vulnerability(gain) == pytest.approx(blind, rel=1e-12)
    assert channel.multiplicative_leakage(gain) == pytest.approx(best / blind, rel=1e-12)
    assert channel.additive_leakage(gain) == pytest.approx(best - blind, rel=1e-10)


def test_guessing_is_the_gain_of_the_identity() -> None:
    channel = Channel(np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]), [0.3, 0.7])
    assert channel.multiplicative_leakage(np.eye(2)) == pytest.approx(channel.multiplicative_leakage(), rel=1e-12)
    assert channel.additive_leakage(np.eye(2)) == pytest.approx(channel.additive_leakage(), rel=1e-12)


def test_no_gain_and_no_prior_beats_the_capacity() -> None:
    """Alvim, Chatzikokolakis, Palamidessi, Smith 2012; mutual information in its place would be refuted."""
    draw, beyond_information = np.random.default_rng(2), 0
    for _ in range(200):
        channel = Channel(draw.dirichlet(np.full(4, 0.4), size=5), draw.dirichlet(np.ones(5)))
        gain = draw.random((int(draw.integers(1, 8)), 5)) ** 4
        found = math.log(channel.multiplicative_leakage(gain))
        assert found <= channel.min_capacity() + 1e-12
        beyond_information += found > channel.mutual_information()
    assert beyond_information > 0


def test_gains_that_mean_nothing_are_refused() -> None:
    channel = Channel(np.eye(2))
    for bad in ([[1, -1]], [[0, 0]], [[1, 2, 3]], [[math.nan, 1]]):
        with pytest.raises(ParameterError, match="gain"):
            channel.multiplicative_leakage(bad)
