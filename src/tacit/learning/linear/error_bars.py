"""Error bars of linear models: how far the noise, and the noise alone, may have moved coefficients and predictions.

Everything here is post-processing: it reads the plan and what was released, never the data. A bar says what
kind of number it is:

- "exact": the noise was added to the coefficients themselves (output perturbation), so its deviation is that of the plan.
- "first order": the noise went through a formula that is linear in it but for terms of the second order (least squares from a noisy matrix;
  descent on a squared loss, whose steps forget a known part of the noise before them). It leaves out what clipping and shrinking do.
- "bound": at most this (objective perturbation, by strong convexity; descent on other convex losses, to first order, as if no step forgot
  anything).

What the sample itself leaves uncertain is not included; where the release shows it (the noisy matrix does),
it is kept apart as `sampling`.

>>> bar = NoiseBar(np.diag([0.04, 0.01]), "exact")
>>> bar.deviation(np.array([[1.0], [3.0]])).round(3)
array([0.224, 0.608])
>>> round(bar.factor(0.95), 2), round(NoiseBar(bar.covariance, "exact", gaussian=False).factor(0.95), 2)
(1.96, 4.47)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.accounting import ParameterError
from tacit.parameters import number

Array = NDArray[np.float64]
Kind = Literal["exact", "first order", "bound"]


@dataclass(frozen=True)
class NoiseBar:
    """The covariance that noise leaves in (coefficients, intercept) of one linear score, and what kind of statement it is."""

    covariance: Array
    kind: Kind
    gaussian: bool = True
    sampling: Array | None = None

    def through(self, change: Array) -> NoiseBar:
        """The bar of `change` times (coefficients, intercept)."""
        sampling = None if self.sampling is None else change @ self.sampling @ change.T
        return replace(self, covariance=change @ self.covariance @ change.T, sampling=sampling)

    def scaled(self, factor: float) -> NoiseBar:
        """The bar of a multiple."""
        return self.through(factor * np.eye(len(self.covariance)))

    @property
    def errors(self) -> Array:
        """Standard deviations of the coefficients and, last, of the intercept."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def deviation(self, rows: Array, *, sampling: bool = False) -> Array:
        """Standard deviations of the scores of rows."""
        total = self.covariance
        if sampling:
            if self.sampling is None:
                raise ParameterError("sampling=True needs a fit from a noisy second moment: use solver='moments', or leave it out")
            total = total + self.sampling
        joined = np.hstack([rows, np.ones((len(rows), 1))])
        found: Array = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", joined, total, joined), 0.0))
        return found

    def factor(self, confidence: object) -> float:
        """How many deviations hold the given share: of the normal law, or by Chebyshev's inequality where the noise is not normal."""
        share = float(number("confidence", confidence))
        if not 0 < share < 1:
            raise ParameterError(f"confidence must be above 0 and below 1, not {confidence}")
        return float(ndtri((1 + share) / 2)) if self.gaussian else 1 / math.sqrt(1 - share)


def to_data_units(bar: NoiseBar, half: Array, centre: Array) -> NoiseBar:
    """The bar of coefficients for rows in public units as one for the rows themselves: (row - centre) / half are the units.

    >>> to_data_units(NoiseBar(np.eye(2), "exact"), np.array([2.0]), np.array([4.0])).errors
    array([0.5       , 2.23606798])
    """
    inverse = np.where(half > 0, 1 / np.where(half > 0, half, 1.0), 0.0)
    change = np.diag(np.append(inverse, 1.0))
    change[-1, :-1] = -centre * inverse
    return bar.through(change)


def least_squares_noise(inverse: Array, theta: Array, deviation: float) -> Array:
    """The covariance of theta = (G + E)^-1 (c + e) to first order in the noise of one symmetric release.

    With deviation s on the diagonal and s / sqrt(2) beside it, e - E theta has covariance s^2 / 2 ((1 + |theta|^2) I + theta theta^T), and
    theta moves by the inverse times that.

    >>> least_squares_noise(np.eye(1), np.array([2.0]), 1.0)  # e has variance 1/2, 2 E has 4
    array([[4.5]])
    """
    middle = deviation**2 / 2 * ((1 + float(theta @ theta)) * np.eye(len(theta)) + np.outer(theta, theta))
    return inverse @ middle @ inverse.T


def remembered(lengths: Array, deviations: Array, bend: Array, averaged: int, penalty: Array | float = 0.0) -> Array:
    """The variance, for each direction, that noise of these deviations leaves in the mean of the last iterates of a linear descent.

    A step of length h forgets the part h * bend of what was there before it; noise enters times h; and what comes of both is divided by
    1 + h * penalty, as an implicit step on a penalty does.

    >>> remembered(np.array([0.5, 0.5]), np.array([1.0, 1.0]), np.array([0.0, 1.0, 2.0]), 1)
    array([0.5   , 0.3125, 0.25  ])
    """
    steps = len(lengths)
    implicit = 1 + lengths[:, None] * np.broadcast_to(penalty, bend.shape)[None, :]
    kept = (1 - lengths[:, None] * bend[None, :]) / implicit
    total = np.zeros(len(bend))
    for t in range(steps):
        now, weight = np.ones(len(bend)), np.zeros(len(bend))
        for k in range(t, steps):  # iterate k + 1 holds the noise of step t after the steps t + 1 to k
            now = now * kept[k] if k > t else now
            weight = weight + now if k >= steps - averaged else weight
        total += (weight / averaged * lengths[t] * deviations[t] / implicit[t]) ** 2
    return total
