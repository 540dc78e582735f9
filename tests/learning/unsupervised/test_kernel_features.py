"""Kernel features: inner products near the kernel, rows of length at most 1, the same for everybody, nothing read from the data."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.learning.sklearn_api import check_sklearn

from tacit.accounting import NoOp, ParameterError
from tacit.learning.unsupervised.kernel_features import NystroemFeatures, RandomFourierFeatures, public_uniforms

GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-1, 1, (30, 3))
KERNEL = np.array([[math.exp(-0.7 * math.dist(a, b) ** 2) for b in X] for a in X])


def test_inner_products_approximate_the_kernel() -> None:
    """5,000 pairs: an entry's deviation is at most sqrt(1/2 / 5000) = 0.01; five of them."""
    features = RandomFourierFeatures(10_000, gamma=0.7).fit(X).transform(X)
    assert np.abs(features @ features.T - KERNEL).max() < 0.05
    wrong = RandomFourierFeatures(10_000, gamma=1.4).fit(X).transform(X)  # the mutant takes 2 gamma for gamma
    assert np.abs(wrong @ wrong.T - KERNEL).max() > 0.05


def test_landmarks_have_exactly_their_kernel() -> None:
    features = NystroemFeatures(X, gamma=0.7).fit(np.zeros((1, 3))).transform(X)
    assert features @ features.T == pytest.approx(KERNEL, abs=1e-7)


@given(rows=arrays(np.float64, (4, 3), elements=st.floats(allow_nan=True, allow_infinity=True)), components=st.integers(1, 9))
def test_rows_are_finite_and_at_most_1_long(rows: np.ndarray, components: int) -> None:
    for model in (RandomFourierFeatures(components), NystroemFeatures(X[:5])):
        found = model.fit(rows).transform(rows)
        assert np.isfinite(found).all() and (np.linalg.norm(found, axis=1) <= 1 + 1e-12).all()
        assert model.event_ == NoOp()


def test_the_seed_is_public_and_the_data_does_not_matter() -> None:
    one = RandomFourierFeatures(10, seed=4).fit(X).transform(X)
    assert np.array_equal(one, RandomFourierFeatures(10, seed=4).fit(X * 7).transform(X))
    assert not np.array_equal(one, RandomFourierFeatures(10, seed=5).fit(X).transform(X))
    word = int.from_bytes(hashlib.shake_256(b"tacit public test 3").digest(8), "little")
    assert public_uniforms(3, "test", 1)[0] == ((word >> 12) + 0.5) / 2**52
    drawn = public_uniforms(0, "test", 20_000)
    assert abs(drawn.mean() - 0.5) < 5 * math.sqrt(1 / 12 / 20_000) and drawn.min() > 0 and drawn.max() < 1


def test_scikit_learns_checks() -> None:
    check_sklearn(RandomFourierFeatures(4))


@pytest.mark.parametrize("landmarks", [None, [1.0], [[1.0]], [[1.0, math.nan, 0.0]], np.zeros((0, 3))], ids=repr)
def test_bad_landmarks_are_refused(landmarks: object) -> None:
    with pytest.raises(ParameterError, match="landmarks"):
        NystroemFeatures(landmarks).fit(X)  # type: ignore[arg-type]
