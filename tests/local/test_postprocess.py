"""Processed shares: the nearest point by a quadratic programme's conditions, the likelihood's maximum, and raw figures kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from tacit.errors import ParameterError
from tacit.local import Collector, Projective, Protocol, Response, Unary, clip, iterative_bayes, norm_sub, simplex, to_batch

rows = st.lists(st.floats(-3, 3), min_size=1, max_size=12).map(np.array)


@given(rows)
def test_the_nearest_point_of_the_simplex(shares: np.ndarray) -> None:
    """The conditions of Karush, Kuhn and Tucker: one multiplier for all positive shares, none of the zero ones above it."""
    for found in (simplex(shares), norm_sub(shares)):
        assert found.sum() == pytest.approx(1) and (found >= 0).all()
        moves = shares - found
        multiplier = moves[found > 0].mean()
        assert moves[found > 0] == pytest.approx(multiplier, abs=1e-9) and (moves[found == 0] <= multiplier + 1e-9).all()
    assert simplex(shares) == pytest.approx(norm_sub(shares), abs=1e-9)


@given(rows)
def test_clipping_keeps_what_is_a_share(shares: np.ndarray) -> None:
    inside = (shares >= 0) & (shares <= 1)
    assert (clip(shares)[inside] == shares[inside]).all() and (clip(shares) >= 0).all() and (clip(shares) <= 1).all()


def test_iterative_bayes_is_the_maximum_of_the_likelihood() -> None:
    rng = np.random.default_rng(5)
    for _ in range(5):
        channel = rng.dirichlet(np.ones(6) * 2, size=4)
        counts = rng.integers(1, 200, 6).astype(float)
        found = iterative_bayes(counts, channel)

        def loss(x: np.ndarray, channel: np.ndarray = channel, counts: np.ndarray = counts) -> float:
            return float(-(counts @ np.log(np.maximum(x @ channel, 1e-300))))

        whole = {"type": "eq", "fun": lambda x: x.sum() - 1}
        best = minimize(loss, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=whole, method="SLSQP")
        assert loss(found) <= best.fun + 1e-4 and found.sum() == pytest.approx(1) and (found >= 0).all()


def test_iterative_bayes_without_noise_is_the_truth() -> None:
    assert iterative_bayes(np.array([5.0, 0.0, 15.0]), np.eye(3)) == pytest.approx([0.25, 0, 0.75])
    for counts, channel in (([1, 2], np.eye(3)), ([1, 2], np.ones((2, 2))), ([0, 0], np.eye(2))):
        with pytest.raises(ParameterError):
            iterative_bayes(np.array(counts, dtype=float), channel)


@pytest.mark.parametrize("kind", [Response, Projective])
def test_a_collectors_figures_raw_and_processed(kind: type[Response]) -> None:
    """Many values that nobody holds: processing lowers the squared error at least by half, and raw figures stay unbiased as they are."""
    protocol = Protocol(40, kind(40, 1))
    values = np.repeat([0, 1], [6000, 4000])
    collector = Collector(protocol).ingest(to_batch(protocol, values))
    found, truth = collector.estimate(), np.array([0.6, 0.4] + [0] * 38)
    raw = ((found.share - truth) ** 2).sum()
    assert (found.share < 0).any()
    for shares in (found.processed(), found.processed("simplex"), collector.bayes()):
        assert ((shares - truth) ** 2).sum() < raw / 2 and shares.sum() == pytest.approx(1) and (shares >= 0).all()
    assert (found.share < 0).any() and found.to_arrow().column("share").to_numpy() == pytest.approx(found.share)
    with pytest.raises(ParameterError, match="how"):
        found.processed("magic")


def test_bayes_is_refused_where_reports_are_not_counted_one_by_one() -> None:
    protocol = Protocol(5, Unary(5, 1))
    with pytest.raises(ParameterError, match="one by one"):
        Collector(protocol).ingest(to_batch(protocol, [1, 2, 3])).bayes()
