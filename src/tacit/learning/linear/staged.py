"""Least squares in stages, each of which looks at what the ones before released; for Gaussian and for pure noise.

A fit that must hold for labels and rows it knows nothing about cannot plan everything beforehand. It first buys
a few cheap numbers and then decides: how many rows there are, where the labels lie, the centre and spread of the
features. What follows is least squares from one noisy matrix where the budget carries it, and otherwise least
squares along one to three directions, each a noisy gradient. In both cases the last stage releases a small
matrix of moments of (fitted directions, 1, label) and fits those: so the model falls back to the private mean of
the labels where nothing else was learned, whatever the stages before did.

>>> from tacit.noise import test_mode
>>> U = np.linspace(-1, 1, 5001)[:, None]
>>> guarantee = Guarantee(epsilon=1, delta=1e-6)
>>> with test_mode(3):
...     found = staged_least_squares(U, 0.3 * U[:, 0] + 0.1, Purse.of(guarantee, Adjacency.ADD_REMOVE), guarantee, rows=None)
>>> found.coef.round(1), found.intercept.round(1)
(array([[0.3]]), array([0.1]))

*Why the last stage is a floor.* It regresses the label on at most three bounded directions. Its noise is that of
a handful of numbers, and an eigenvalue below the noise is not inverted: what is added to the mean of the labels is
then close to 0. The stages before cannot do harm beyond their price: a direction made of noise gets a weight of
about 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Guarantee
from tacit.learning.linear.error_bars import NoiseBar, least_squares_noise
from tacit.learning.linear.losses import squared
from tacit.learning.linear.prior import kept
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.solvers import LinearFit, Plan, descend, drawn_back, geometry, regressor_schedule, shrink

__all__ = ["Adjacency", "Directions", "Frame", "Guarantee", "LabelRange", "label_range", "staged_least_squares"]

Array = NDArray[np.float64]
# shares: rows, range of the labels (and where only their mean follows), their mean, centre and spread of rows, the small matrix
COUNT, COUNT_PURE, LABELS, LABELS_ALONE, LEVEL, SPREAD, LAST = 0.03, 0.08, 0.12, 0.3, 0.06, 0.12, 0.25
FAR, NEAR, FEW_FAR = 0.04, 0.1, 0.25  # share, distance to the mean, and part of the rows: whether labels are wide enough to go on
LEVEL_POOR = 0.18  # where a short descent follows, which must not do worse than this mean
LEVELS = 8  # of the tree over the labels: 256 leaves
TAIL, TAIL_PURE = 1.0, 1.5  # deviations of a rank's noise that are cut off at either end
MOST = 0.125  # of the rows, to be cut off at one end
PAIR = 4.0  # directions are cut at so many deviations
RICH, RICH_PURE = 12.0, 300.0  # n mu or n epsilon, in units of its need, above which one noisy matrix is fitted
MORE = (40.0, 160.0, 500.0, 1500.0)  # the same in units of the need of a direction, for a second one and for each further one
POOR = 12.0  # and below which a short descent looks for one, or, with pure noise, only the mean of the labels is bought
ALONE, EACH = 42.0, 3.0  # n mu, and for each feature, below which nothing but the mean of the labels is bought
ROW, ONE, LABEL = 0.742, 0.3, 0.6  # lengths of row, constant and label in a vector of length 1
LEAST, LEAST_PURE = 80.0, 800.0  # the same, however few features there are: the small matrix has noise too
LINE = 0.2  # of a direction's share: how far to go along it
LONG = 1.5  # rows longer than this times the typical length are weighted down


@dataclass(frozen=True)
class LabelRange:
    """Where the labels lie: they are cut to [lower, upper] before anything is summed."""

    lower: float
    upper: float

    @property
    def middle(self) -> float:
        return (self.lower + self.upper) / 2

    @property
    def half(self) -> float:
        return (self.upper - self.lower) / 2

    def units(self, labels: Array) -> Array:
        """Labels in [-1, 1]."""
        return np.clip((labels - self.middle) / self.half, -1.0, 1.0)


def label_range(labels: Array, purse: Purse, rows: float, share: float) -> LabelRange:
    """The range of labels in [-1, 1] without the few people whom the noise would hide.

    It comes from one noisy tree of counts: a person is in one cell of each level, so all ranks of the tree cost
    one release. Where the tail to be cut off would be too many people, nothing is bought.
    """
    size = 1 << LEVELS
    # a rank adds up about half of the levels
    tail = (TAIL_PURE if purse.pure else TAIL) * math.sqrt(LEVELS / 2) * purse.count_noise(LEVELS, share)
    if tail > rows * MOST:
        return LabelRange(-1.0, 1.0)
    leaves = np.clip(np.floor((labels + 1) / 2 * size), 0, size - 1).astype(np.int64)
    cells = np.stack([leaves >> (LEVELS - level) for level in range(1, LEVELS + 1)], axis=1)
    counts, _ = purse.counts(cells, size, share)
    levels = [row[: 2 << level] for level, row in enumerate(counts)]
    below, above = _end(levels, tail), size - _end([row[::-1] for row in levels], tail)
    lower, upper = 2 * min(below, above) / size - 1, 2 * max(below, above) / size - 1
    if upper - lower < 4 / size:
        lower, upper = lower - 2 / size, lower + 2 / size
    return LabelRange(lower, upper)


def _end(levels: list[Array], tail: float) -> int:
    """The leaf before which a noisy number of at most `tail` people lies, walking down the tree."""
    node, before = 0, 0.0
    for counts in levels:
        node *= 2
        if before + float(counts[node]) < tail:
            before += float(counts[node])
            node += 1
    return node


@dataclass(frozen=True)
class Frame:
    """A released change of coordinates: rows minus a centre, over a spread for each coordinate."""

    rows: float
    centre: Array
    spread: Array

    @classmethod
    def buy(cls, U: Array, purse: Purse, rows: float, share: float, *, most: float = 1.0, squares: bool = True) -> Frame:
        """Sums of the coordinates, and of their squares where these are worth it; no spread is above `most`, and a variance
        below its noise is not known to be that small."""
        d = U.shape[1]
        sums, noise = purse.box_sum(np.hstack([U, 2 * U * U - 1]) if squares else U, share)
        means = np.clip(sums / rows, -1.0, 1.0)
        centre = shrink(means[:d], noise / rows)
        if not squares:
            return cls(rows, centre, np.full(d, most))
        variance = np.maximum((means[d:] + 1) / 2 - centre**2, 0.0) + 2 * noise / rows + 1e-3
        return cls(rows, centre, np.minimum(np.sqrt(variance), most))

    def apply(self, U: Array) -> Array:
        found: Array = (U - self.centre) / self.spread
        return found


@dataclass(frozen=True)
class Directions:
    """Directions in public units, (k, d), whose scores lie within `reach` as a rule, and what noise left in each: a deviation for
    every coordinate, (k, d)."""

    slopes: Array
    centre: Array  # of the rows
    reach: float
    errors: Array


def staged_least_squares(
    U: Array, labels: Array, purse: Purse, guarantee: Guarantee, *, rows: int | None, penalty: float = 0.0
) -> LinearFit:
    """A linear function of rows in [-1, 1]^d for labels in [-1, 1], with all of the purse.

    Guarantee
        Statement: costs `purse.event`. Proved in: `Purse`; every stage draws from it and sees the rows nowhere else.
    """
    d = U.shape[1]
    n = purse.rows(U, rows, COUNT_PURE if purse.pure else COUNT)
    budget = n * purse.strength
    poor = budget < max(POOR * _direction_need(d, purse.pure), LEAST_PURE if purse.pure else LEAST)
    alone = poor and (purse.pure or budget < max(ALONE, EACH * d))
    cut = label_range(labels, purse, n, LABELS_ALONE if alone else LABELS)
    t = cut.units(labels)
    if not alone:
        level, _ = _mean(t, purse, n, LEVEL_POOR if poor else LEVEL, rows)
        if cut.half == 1.0:
            # no range was found: where most labels are near their mean, all else would be noise beside them
            (far,), _ = purse.box_sum((np.abs(t - level) > NEAR)[:, None].astype(np.float64), FAR)
            alone = float(far) < FEW_FAR * n
    if alone:
        level, deviation = _mean(t, purse, n, purse.left, rows)
        covariance = np.zeros((d + 1, d + 1))
        covariance[-1, -1] = (deviation / n) ** 2
        fit = LinearFit(np.zeros((1, d)), np.array([level]), deviation / n, NoiseBar(covariance, "first order", gaussian=not purse.pure))
    else:
        wide = 1 + abs(level)
        residual = (t - level) / wide
        if poor:
            inner = _descended(U, residual, purse, guarantee, n, penalty)
        else:
            frame = Frame.buy(U, purse, n, SPREAD)
            rich = budget >= (RICH_PURE if purse.pure else RICH) * _matrix_need(d, purse.pure)
            found = (_whole if rich else _gradients)(frame, U, residual, purse, n, purse.left - LAST, penalty)
            inner = _joined(U, residual, found, purse, n, penalty)
        bar = None if inner.bar is None else inner.bar.scaled(wide)
        fit = LinearFit(wide * inner.coef, level + wide * inner.intercept, wide * inner.noise, bar)
    bar = None if fit.bar is None else fit.bar.scaled(cut.half)
    return LinearFit(cut.half * fit.coef, cut.half * fit.intercept + cut.middle, cut.half * fit.noise, bar)


def _mean(t: Array, purse: Purse, n: float, share: float, rows: int | None) -> tuple[float, float]:
    """The mean of labels in [-1, 1], and the deviation of the noise of their sum.

    Where the number of rows is private, a first sum comes with a second look at it; the other is of the differences to
    the first mean, so that what is uncertain about the number hardly counts.
    """
    first = 0.4 * share
    if rows is None:
        (people, total), noise = purse.box_sum(np.column_stack([np.ones(len(t)), t]), first)
        n = max((n + float(people)) / 2, noise)
    else:
        (total,), noise = purse.box_sum(t[:, None], first)
    rough = float(np.clip(total / n, -1.0, 1.0))
    wide = 1 + abs(rough)
    (rest,), again = purse.box_sum((t - rough)[:, None] / wide, share - first)
    if rows is None:
        return float(np.clip(rough + wide * rest / n, -1.0, 1.0)), wide * again
    both = (total / noise**2 + (rough * n + wide * rest) / (wide * again) ** 2) / (noise**-2 + (wide * again) ** -2)
    return float(np.clip(both / n, -1.0, 1.0)), (noise**-2 + (wide * again) ** -2) ** -0.5


def _direction_need(features: int, pure: bool) -> float:
    """How n times the strength must grow with the features for a noisy gradient to show a direction: noise beside signal."""
    return math.pow(features, 1.5 if pure else 1.0)


def _matrix_need(features: int, pure: bool) -> float:
    """The same for one noisy matrix: the edge of its noise beside eigenvalues of 1."""
    return math.pow(features, 2.5 if pure else 1.5)


def _bounded(Z: Array, pure: bool) -> tuple[Array, Array, float]:
    """Framed rows held to a public length, with the weight of each row and the length: a box for pure noise, a ball for Gaussian."""
    d = Z.shape[1]
    if pure:
        reach = 3.0
        weight = np.minimum(1.0, reach / np.maximum(np.abs(Z).max(axis=1, keepdims=True), 1e-12))
        return Z * weight / reach, weight, reach
    reach = LONG * math.sqrt(d)
    weight = np.minimum(1.0, reach / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12))
    return Z * weight / reach, weight, reach


def _gradients(frame: Frame, U: Array, t: Array, purse: Purse, n: float, share: float, penalty: float) -> Directions:
    """Directions of steepest descent, each from a noisy gradient at the fit along those before."""
    del penalty  # it weighs in where the directions are joined
    Z = frame.apply(U)
    bounded, weight, _ = _bounded(Z, purse.pure)
    budget = n * purse.strength / _direction_need(Z.shape[1], purse.pure)
    steps = 1 + sum(budget >= more for more in MORE)
    residual, slopes, errors = t, list[Array](), list[Array]()
    for _ in range(steps):
        part = share / steps
        line = LINE * part if len(slopes) < steps - 1 else 0.0
        # a person's gradient has length at most 1: the row is, and the residual is cut to it
        gradient, noise = purse.ball_sum(bounded * weight * np.clip(residual, -1.0, 1.0)[:, None], part - line)
        length = max(float(np.linalg.norm(gradient)), noise)
        slopes.append(gradient / length / frame.spread)
        errors.append(noise / length / frame.spread)
        if line:
            u = np.clip(Z @ (gradient / length) / PAIR, -1.0, 1.0)
            (square, product), chance = purse.box_sum(np.column_stack([u * u, u * np.clip(residual, -1.0, 1.0)]), line)
            residual = residual - u * float(np.clip(product / max(float(square), chance, 1.0), 0.0, PAIR))
    return Directions(np.array(slopes), frame.centre, PAIR, np.array(errors))


def _whole(frame: Frame, U: Array, t: Array, purse: Purse, n: float, share: float, penalty: float) -> Directions:
    """The direction of least squares, or of ridge regression, from one noisy matrix of moments."""
    del n
    Z = frame.apply(U)
    d = Z.shape[1]
    bounded, weight, reach = _bounded(Z, purse.pure)
    row, one, label = (1.0, 1.0, 1.0) if purse.pure else (ROW, ONE, LABEL)
    moment, noise = purse.moment(np.hstack([row * bounded, one * weight, label * weight * t[:, None]]), share)
    gram, cross = moment[: d + 1, : d + 1], moment[: d + 1, d + 1]
    values, vectors = np.linalg.eigh(gram)
    edge = 2 * noise * math.sqrt(d + 1)
    seen = np.maximum(values, 0.0)
    sound = (vectors * (seen + edge**2 / np.maximum(seen, edge))) @ vectors.T
    inverse = np.linalg.inv(sound + np.diag(np.append(penalty * (row / reach / frame.spread) ** 2, 0.0)))
    theta = inverse @ cross
    spread = np.sqrt(np.diag(least_squares_noise(inverse, theta, noise * math.sqrt(2))))
    length = max(float(np.linalg.norm(theta[:d])), 1e-12)
    slopes, errors = theta[:d] / length / frame.spread, spread[:d] / length / frame.spread
    return Directions(slopes[None, :], frame.centre, PAIR, errors[None, :])


def _descended(U: Array, t: Array, purse: Purse, guarantee: Guarantee, n: float, penalty: float) -> LinearFit:
    """A descent in a few steps with all that is left, for budgets that carry no spread of every feature.

    It is drawn back to the mean of the labels by what noise alone would explain, to first order (`kept`).
    """
    d = U.shape[1]
    plan = Plan.small_regressor(guarantee, purse.adjacency, purse.event, purse.take(purse.left), features=d, rows=n)
    space = geometry(U, plan, normalise=False)
    loss = squared(2.0)
    fit = descend(
        U, lambda s: loss.derivative(s, t), plan, space, regressor_schedule(plan, space), start=np.zeros(1),
        normalise=False, penalty=penalty, quadratic=True,
    )  # fmt: skip
    assert fit.bar is not None
    # the second moment of the rows as far as it was released; else that of rows of a typical length
    back = np.linalg.inv(space.shape)
    second = back @ (space.bend if space.bend.any() else np.eye(d) / space.spread) @ back.T
    energy = float(fit.coef[0] @ second @ fit.coef[0])
    chance = float(np.trace(fit.bar.covariance[:d, :d] @ second))
    return drawn_back(fit, space.centre, np.zeros(1), kept(energy, chance, d))


def _joined(U: Array, t: Array, found: Directions, purse: Purse, n: float, penalty: float) -> LinearFit:
    """Least squares along the directions, from a small noisy matrix of moments with all that is left.

    The bar holds the noise of this matrix and of the directions, to first order.
    """
    k = len(found.slopes)
    slopes = found.slopes / found.reach
    length = 1.0 if purse.pure else math.sqrt(k + 2)
    u = np.clip((U - found.centre) @ slopes.T, -1.0, 1.0)
    moment, noise = purse.moment(np.hstack([u, np.ones((len(u), 1)), t[:, None]]) / length, purse.left)
    moment, noise = moment * length**2, noise * length**2
    mean_u, mean_t = np.clip(moment[:k, k] / n, -1.0, 1.0), float(np.clip(moment[k, k + 1] / n, -1.0, 1.0))
    gram = moment[:k, :k] - n * np.outer(mean_u, mean_u)
    cross = moment[:k, k + 1] - n * mean_u * mean_t
    values, vectors = np.linalg.eigh(gram)
    seen, edge = np.maximum(values, 0.0), 2 * noise * math.sqrt(k)
    sound = (vectors * (seen + edge**2 / np.maximum(seen, edge))) @ vectors.T
    inverse = np.linalg.inv(sound + penalty * slopes @ slopes.T)
    beta = inverse @ cross
    # what is explained, beside what noise alone would seem to explain
    explained, chance = float(beta @ cross), k * noise**2 / max(float(seen.max()), edge)
    beta = beta * max(0.0, 1 - chance / explained) if explained > 0 else 0.0 * beta
    coef = beta @ slopes
    change = np.vstack([slopes.T, -mean_u - slopes @ found.centre])
    covariance = noise**2 * change @ inverse @ inverse @ change.T
    covariance[:-1, :-1] += np.diag(beta**2 @ (found.errors / found.reach) ** 2)
    covariance[-1, -1] += (noise / n) ** 2
    bar = NoiseBar(covariance, "first order", gaussian=not purse.pure)
    return LinearFit(coef[None, :], np.array([mean_t - float(beta @ mean_u) - float(coef @ found.centre)]), noise / n, bar)
