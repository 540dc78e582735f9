"""Features for kernel methods that learn nothing from the data, and therefore cost nothing: linear models on them are kernel machines.

Random Fourier features (Rahimi and Recht 2007) approximate the Gaussian kernel exp(-gamma |x - z|^2); rows come out with length at most 1,
so the next step can be given `data_norm=1`. Nystroem features take public landmarks. What is drawn at random is drawn from a public seed:
it is part of the model, not of its privacy.

>>> features = RandomFourierFeatures(500, gamma=0.5).fit(np.zeros((1, 2)))
>>> left, right = features.transform([[0.0, 0.0], [1.0, 0.5]])
>>> bool(abs(left @ right - np.exp(-0.5 * 1.25)) < 0.1), features.event_
(True, NoOp())
"""

from __future__ import annotations

import hashlib
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from tacit.accounting import Bound, NoOp, ParameterError
from tacit.learning.reading import Array, float_matrix
from tacit.learning.scikit import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, check_is_fitted
from tacit.parameters import count, positive


def public_uniforms(seed: int, purpose: str, size: int) -> Array:
    """Numbers in (0, 1), the same for the same seed: SHAKE-256 of the seed and the purpose. Never noise.

    >>> public_uniforms(0, "example", 2).round(3)
    array([0.377, 0.155])
    """
    stream = hashlib.shake_256(f"tacit public {purpose} {count('seed', seed, least=0)}".encode()).digest(8 * size)
    words = np.frombuffer(stream, dtype="<u8") >> np.uint64(12)
    return (words.astype(np.float64) + 0.5) / 2.0**52


class PublicFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What these transformers share: they read the number of features when fitted and nothing else, and missing values raise nothing."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _matrix(self, X: ArrayLike, *, reset: bool, width: int | None = None) -> Array:
        found = float_matrix(self, X, reset=reset, width=width)
        return np.clip(np.where(np.isnan(found), 0.0, found), -1e100, 1e100)

    def _free(self) -> None:
        self.event_ = NoOp()
        self.privacy_ = Bound(0.0, 0.0)
        self.private_ = True


class RandomFourierFeatures(PublicFeatures):
    """Cosines of random projections; the inner product of two rows approximates exp(-gamma |x - z|^2).

    Parameters
        n_components: how many. gamma: the kernel's. seed: public; the same seed gives the same features.

    Guarantee
        Statement: costs nothing: fitting reads the number of features only. A transformed row has length at most 1, in exact arithmetic
        sqrt(1/D) times D numbers in [-1, 1] taken in pairs cos, sin, and is cut to it.
        Proved in: cos^2 + sin^2 = 1; the approximation is Rahimi and Recht 2007, Claim 1.
    """

    def __init__(self, n_components: int = 100, *, gamma: float = 1.0, seed: int = 0) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.seed = seed

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the projections."""
        components, gamma = count("n_components", self.n_components), float(positive("gamma", self.gamma))
        features = self._matrix(X, reset=True).shape[1]
        pairs = (components + 1) // 2
        normal = ndtri(public_uniforms(self.seed, f"fourier {features}", pairs * features)).reshape(pairs, features)
        self.directions_ = normal * np.sqrt(2 * gamma)
        self.components_kept_ = components
        self._free()
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Features of rows; missing values count as 0."""
        check_is_fitted(self)
        angles = np.clip(self._matrix(X, reset=False) @ self.directions_.T, -1e15, 1e15)
        found = np.hstack([np.cos(angles), np.sin(angles)])[:, : self.components_kept_] / np.sqrt(len(self.directions_))
        return _cut(found)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_kept_)


class NystroemFeatures(PublicFeatures):
    """Features of the Gaussian kernel at public landmarks: the inner product of two landmarks' features is exactly their kernel.

    Parameters
        landmarks: public rows; never rows of the data. gamma: the kernel's.

    Guarantee
        Statement: costs nothing, as long as the landmarks are public. A transformed row has length at most 1.
        Proved in: the features of x are the kernel's feature vector of x, of length 1, projected on the landmarks' (Williams and Seeger
        2001).
    """

    def __init__(self, landmarks: ArrayLike | None = None, *, gamma: float = 1.0) -> None:
        self.landmarks = landmarks
        self.gamma = gamma

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Take the inverse root of the landmarks' kernel."""
        if self.landmarks is None:
            raise ParameterError("landmarks is missing: give public rows, such as a grid over the bounds; rows of the data are not public")
        places = np.asarray(self.landmarks, dtype=np.float64)
        gamma = float(positive("gamma", self.gamma))
        features = self._matrix(X, reset=True, width=places.shape[1] if places.ndim == 2 else None).shape[1]
        if places.ndim != 2 or len(places) == 0 or places.shape[1] != features or not np.isfinite(places).all():
            raise ParameterError(f"landmarks must be a matrix of finite numbers with {features} columns and at least one row")
        values, vectors = np.linalg.eigh(_kernel(places, places, gamma))
        kept = values > 1e-10 * values.max()
        self.places_, self.gamma_ = places, gamma
        self.root_ = vectors[:, kept] / np.sqrt(values[kept]) @ vectors[:, kept].T
        self._free()
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Features of rows; missing values count as 0."""
        check_is_fitted(self)
        found = _kernel(self._matrix(X, reset=False), self.places_, self.gamma_) @ self.root_
        return _cut(found)

    @property
    def _n_features_out(self) -> int:
        return len(self.places_)


def _cut(rows: Array) -> Array:
    """Rows longer than 1, which only rounding makes, cut to length 1."""
    found: Array = rows / np.maximum(np.sqrt((rows * rows).sum(axis=1, keepdims=True)), 1.0)
    return found


def _kernel(left: Array, right: Array, gamma: float) -> Array:
    found: Array = np.exp(-gamma * np.maximum(((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2), 0.0))
    return found
