"""Minimise a regularised sum of smooth convex losses of linear scores, one or several, to a proven distance from the minimum.

The objective sum_i l(<theta, v_i>, y_i) + ridge/2 |theta|^2 + <tilt, theta> is ridge-strongly convex, so a point whose gradient has length
g lies within g / ridge of the minimiser. `minimise` iterates until that is below the distance asked for: privacy proofs charge for exactly
this distance.

>>> from tacit.learning.linear.losses import logistic
>>> v, y = np.array([[1.0], [1.0]]), np.array([1.0, 0.0])
>>> minimise(logistic, v, y, ridge=1.0, tilt=np.array([0.0]), distance=1e-9)
array([0.])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.learning.linear.losses import Loss

Array = NDArray[np.float64]
PROBE = 1e-4  # half the distance over which a second derivative is measured
TURNS = 200


def gradient(loss: Loss, rows: Array, labels: Array, theta: Array, ridge: float, tilt: Array) -> Array:
    """The gradient of the objective."""
    return rows.T @ loss.derivative((rows @ theta)[:, None], labels)[:, 0] + ridge * theta + tilt


def minimise(loss: Loss, rows: Array, labels: Array, *, ridge: float, tilt: Array, distance: float) -> Array:
    """A point within `distance` of the minimiser: Newton's method with backtracking, then `descended`, which is hardly ever needed."""
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
    return descended(lambda at: gradient(loss, rows, labels, at, ridge, tilt), theta, target, ridge=ridge, smoothness=smoothness)


def descended(slope_at: Callable[[Array], Array], theta: Array, target: float, *, ridge: float, smoothness: float) -> Array:
    """A point whose gradient is no longer than `target`, from anywhere, for an objective whose curvature lies between the two numbers.

    Nesterov's method for strongly convex functions (2004, Theorem 2.2.3): after k steps the excess over the minimum is at most
    (1 - 1/sqrt(K))^k times |gradient|^2 / ridge at the start, K = smoothness / ridge, and the gradient's square at most twice the
    smoothness times the excess. So the number of steps that must be enough is known before the first.

    >>> descended(lambda at: np.array([1e4, 1.0]) * at - 1, np.zeros(2), 1e-9, ridge=1.0, smoothness=1e4).round(6).tolist()
    [0.0001, 1.0]
    """
    root = np.sqrt(smoothness / ridge)
    length = float(np.linalg.norm(slope_at(theta)))
    enough = root * max(0.0, np.log(2) + 2 * (np.log(root) + np.log(max(length, target)) - np.log(target)))
    momentum = (root - 1) / (root + 1)
    ahead = theta
    for _ in range(int(enough) + 2):
        if np.linalg.norm(slope_at(theta)) <= target:
            break
        before, theta = theta, ahead - slope_at(ahead) / smoothness
        ahead = theta + momentum * (theta - before)
    return theta


def minimise_scores(loss: Loss, rows: Array, labels: Array, *, ridge: float | Array, tilt: Array, distance: float) -> Array:
    """As `minimise`, for several scores: parameters and tilt are (scores, features). `ridge` is one number, or one a feature.

    Newton steps are found by conjugate gradients.

    >>> from tacit.learning.linear.losses import logistic
    >>> v, y = np.array([[1.0], [1.0]]), np.array([1.0, 0.0])
    >>> minimise_scores(logistic, v, y, ridge=1.0, tilt=np.array([[2.0]]), distance=1e-6).round(4)  # 2 sigmoid(t) - 1 + t + 2 = 0
    array([[-1.3967]])
    """
    theta = np.zeros_like(tilt)
    least, most = float(np.min(ridge)), float(np.max(ridge))
    target = distance * least / 2

    def objective(at: Array) -> float:
        return float(loss.value(rows @ at.T, labels).sum() + (ridge * at * at).sum() / 2 + (tilt * at).sum())

    def slope_at(at: Array) -> Array:
        return loss.derivative(rows @ at.T, labels).T @ rows + ridge * at + tilt

    slope = slope_at(theta)
    for _ in range(TURNS):
        length = float(np.linalg.norm(slope))
        if length <= target:
            return theta
        step = _newton_step(loss, rows, labels, rows @ theta.T, ridge, slope)
        part, here = 1.0, objective(theta)
        while part > 1e-6 and objective(theta - part * step) > here - 1e-4 * part * float((slope * step).sum()):
            part /= 2
        trial = theta - part * step
        found = slope_at(trial)
        if part <= 1e-6:  # rounding hides the descent of the objective; the full step may still make the gradient smaller
            trial = theta - step
            found = slope_at(trial)
            if np.linalg.norm(found) >= length:
                break
        theta, slope = trial, found
    return descended(slope_at, theta, target, ridge=least, smoothness=loss.curvature * float((rows * rows).sum()) + most)


def _newton_step(loss: Loss, rows: Array, labels: Array, scores: Array, ridge: float | Array, slope: Array) -> Array:
    """The Hessian's inverse times the gradient, roughly; products with the Hessian are differences of derivatives."""
    step, rest = np.zeros_like(slope), slope.copy()
    direction, energy = rest.copy(), float((rest * rest).sum())
    enough = 1e-4 * energy  # a hundredth of the length
    single = scores.shape[1] == 1
    # with one score the second derivative of every row is measured once, and a product with the Hessian is two with the rows
    bends = (loss.derivative(scores + PROBE, labels) - loss.derivative(scores - PROBE, labels)) / (2 * PROBE) if single else scores
    for _ in range(slope.size):
        if energy <= enough:
            break
        moved = rows @ direction.T
        if single:
            change = bends * moved
        else:
            probe = PROBE / max(float(np.abs(moved).max(initial=0.0)), 1e-300)
            change = (loss.derivative(scores + probe * moved, labels) - loss.derivative(scores - probe * moved, labels)) / (2 * probe)
        image = change.T @ rows + ridge * direction
        along = energy / float((direction * image).sum())
        step, rest = step + along * direction, rest - along * image
        energy, before = float((rest * rest).sum()), energy
        direction = rest + energy / before * direction
    return step
