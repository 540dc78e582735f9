"""Minimise a regularised sum of smooth convex losses of linear scores, to a proven distance from the minimum.

The objective sum_i l(<theta, v_i>, y_i) + ridge/2 |theta|^2 + <tilt, theta> is ridge-strongly convex, so a point whose gradient has length
g lies within g / ridge of the minimiser. `minimise` iterates until that is below the distance asked for: privacy proofs charge for exactly
this distance.

>>> v, y = np.array([[1.0], [1.0]]), np.array([1.0, 0.0])
>>> minimise(logistic, v, y, ridge=1.0, tilt=np.array([0.0]), distance=1e-9)
array([0.])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.learning.losses import Loss, logistic

Array = NDArray[np.float64]
PROBE = 1e-4  # half the distance over which a second derivative is measured
TURNS = 200

__all__ = ["gradient", "logistic", "minimise"]


def gradient(loss: Loss, rows: Array, labels: Array, theta: Array, ridge: float, tilt: Array) -> Array:
    """The gradient of the objective."""
    found: Array = rows.T @ loss.derivative((rows @ theta)[:, None], labels)[:, 0] + ridge * theta + tilt
    return found


def minimise(loss: Loss, rows: Array, labels: Array, *, ridge: float, tilt: Array, distance: float) -> Array:
    """A point within `distance` of the minimiser: Newton's method with backtracking, then gradient steps if anything is left.

    Gradient steps of one over the smoothness converge from anywhere, so the loop ends; they are hardly ever needed.
    """
    theta = np.zeros(rows.shape[1])
    target = distance * ridge / 2  # half of what would do: the rest is for rounding in the sums

    def objective(at: Array) -> float:
        return float(loss.value((rows @ at)[:, None], labels).sum() + ridge * (at @ at) / 2 + tilt @ at)

    slope = gradient(loss, rows, labels, theta, ridge, tilt)
    for _ in range(TURNS):
        if np.linalg.norm(slope) <= target:
            return theta
        scores = (rows @ theta)[:, None]
        bend = (loss.derivative(scores + PROBE, labels) - loss.derivative(scores - PROBE, labels))[:, 0] / (2 * PROBE)
        hessian = (rows * np.clip(bend, 0.0, loss.curvature)[:, None]).T @ rows + ridge * np.eye(len(theta))
        step = np.linalg.solve(hessian, slope)
        length, here = 1.0, objective(theta)
        while length > 1e-6 and objective(theta - length * step) > here - 1e-4 * length * float(slope @ step):
            length /= 2
        trial = theta - length * step
        found = gradient(loss, rows, labels, trial, ridge, tilt)
        if length <= 1e-6 and np.linalg.norm(found) >= np.linalg.norm(slope):
            break  # rounding hides the descent of the objective; the gradient can still be made smaller
        theta, slope = trial, found
    smoothness = loss.curvature * float((rows * rows).sum()) + ridge
    for _ in range(100 * TURNS):
        if np.linalg.norm(slope) <= target:
            break
        theta = theta - slope / smoothness
        slope = gradient(loss, rows, labels, theta, ridge, tilt)
    return theta
