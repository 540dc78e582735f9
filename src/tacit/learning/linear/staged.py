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
# shares of the purse: rows, range of the labels, their mean and variance, centre and spread of rows, the small matrix
COUNT, COUNT_PURE, SPREAD, LAST = 0.03, 0.08, 0.12, 0.25
LABELS, LABELS_POOR, LEVEL, LEVEL_POOR = 0.12, 0.2, 0.08, 0.2
LEVELS = 8  # of the tree over the labels at most: 256 leaves
TAIL, TAIL_PURE = 1.0, 1.5  # deviations of a rank's noise that are cut off at either end
MOST = 0.125  # of the rows, to be cut off at one end
# where no later stage can cut less: widen a range by this over the noise of the mean in its units, and by so much at most
WIDENED, MOST_WIDENED = 0.05, 1.6
PROOF, PROVED, SURE = 0.1, 2.5, 1.0  # the share of a look at what was learned, where it cuts, and deviations it must be sure by
PAIR = 4.0  # directions are cut at so many deviations
RICH, RICH_PURE = 12.0, 300.0  # n mu or n epsilon, in units of its need, above which one noisy matrix is fitted
MORE = (40.0, 160.0, 500.0, 1500.0)  # the same in units of the need of a direction, for a second one and for each further one
POOR, POOR_PURE = 12.0, 4.0  # and below which a short descent looks for one, or, with pure noise, only the mean is bought
ROW, ONE, LABEL = 0.742, 0.3, 0.6  # lengths of row, constant and label in a vector of length 1
LINE = 0.2  # of a direction's share: how far to go along it
LONG = 1.5  # rows longer than this times the typical length are weighted down
PEOPLE, SQUARE = 0.7, 0.7  # weights of the number of people and of squared labels beside the labels
AGAIN = 0.4  # of what is left: to find the range a second time, for a mean
HARM = 0.05  # the part of the labels' variance that the noise of a further stage may be predicted to cost
FALSE = 0.3  # of the noise along a direction that a slope keeps on average where there is nothing to find
CLEAN = 0.002  # the same where labels are cut less than their range asks for, to cut no tails
DOUBT = 1.5  # what noise alone would explain is taken off so many times


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

    def widened(self, factor: float) -> LabelRange:
        """A range wider by a factor, at most MOST_WIDENED, within [-1, 1]; never a narrower one."""
        half = self.half * min(max(factor, 1.0), MOST_WIDENED)
        return LabelRange(max(self.middle - half, -1.0), min(self.middle + half, 1.0))

    def inside(self, part: LabelRange) -> LabelRange:
        """A part of this range, given in its units."""
        return LabelRange(self.middle + self.half * part.lower, self.middle + self.half * part.upper)

    def units(self, labels: Array) -> Array:
        """Labels in [-1, 1]."""
        return np.clip((labels - self.middle) / self.half, -1.0, 1.0)


def label_range(labels: Array, purse: Purse, rows: float, share: float) -> LabelRange:
    """The range of labels in [-1, 1] without the few people whom the noise would hide.

    It comes from one noisy tree of counts: a person is in one cell of each level, so all ranks of the tree cost
    one release. The tree is as deep as the noise allows; where the tail to be cut off would be too many people even
    with halves of the range, nothing is bought.
    """
    deviations = TAIL_PURE if purse.pure else TAIL
    tail, depth = math.inf, LEVELS + 1
    while tail > rows * MOST and depth > 1:
        depth -= 1
        # a rank adds up about half of the levels
        tail = deviations * math.sqrt(max(depth / 2, 1.0)) * purse.count_noise(depth, share)
    if tail > rows * MOST:
        return LabelRange(-1.0, 1.0)
    size = 1 << depth
    leaves = np.clip(np.floor((labels + 1) / 2 * size), 0, size - 1).astype(np.int64)
    cells = np.stack([leaves >> (depth - level) for level in range(1, depth + 1)], axis=1)
    counts, _ = purse.counts(cells, size, share)
    levels = _agreeing([row[: 2 << level] for level, row in enumerate(counts)], rows)
    below, above = _end(levels, tail), size - _end([row[::-1] for row in levels], tail)
    lower, upper = 2 * min(below, above) / size - 1, 2 * max(below, above) / size - 1
    least = 4 / (1 << LEVELS)
    if upper - lower < least:
        lower, upper = lower - least / 2, lower + least / 2
    return LabelRange(lower, upper)


def _agreeing(levels: list[Array], whole: float) -> list[Array]:
    """The least squares counts of a binary tree whose nodes are the sums of their children, and the root `whole`.

    Hay, Rastogi, Miklau and Suciu 2010: once from the leaves upwards, once down.

    >>> [row.tolist() for row in _agreeing([np.array([6.0, 2.0]), np.array([3.0, 3.0, 2.0, 2.0])], 8.0)]
    [[5.666666666666667, 2.3333333333333335], [2.8333333333333335, 2.8333333333333335, 1.1666666666666667, 1.1666666666666667]]
    """
    up, height = [levels[-1]], 1
    for counts in levels[-2::-1]:
        height += 1
        pairs = up[0].reshape(-1, 2).sum(axis=1)
        up.insert(0, (2.0 ** (height - 1) * counts + (2.0 ** (height - 1) - 1) * pairs) / (2.0**height - 1))
    down, above = list[Array](), np.array([whole])
    for counts in up:
        pairs = counts.reshape(-1, 2)
        above = (pairs + (above - pairs.sum(axis=1))[:, None] / 2).ravel()
        down.append(above)
    return down


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
    def buy(
        cls, U: Array, purse: Purse, rows: float, share: float, *, most: float = 1.0, squares: bool = True, weights: Array | None = None
    ) -> Frame:
        """Sums of the coordinates, and of their squares where these are worth it; no spread is above `most`, and a variance
        below its noise is not known to be that small. `weights` in [0, 1] add up to about `rows`."""
        d = U.shape[1]
        parts = np.hstack([U, 2 * U * U - 1]) if squares else U
        sums, noise = purse.box_sum(parts if weights is None else parts * weights[:, None], share)
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


@dataclass(frozen=True)
class Level:
    """What was released about labels in [-1, 1]: how many there are, their mean, and a variance that they have at least; with the
    variances of the noise of the first two."""

    rows: float
    rows_noise: float
    mean: float
    mean_noise: float
    variance: float

    @classmethod
    def buy(cls, t: Array, purse: Purse, rows: float, rows_noise: float, share: float) -> Level:
        """One look at the labels; `rows_noise` is 0 where the number of rows is public."""
        known = rows_noise == 0
        weights = np.array([1.0, SQUARE] if known else [1.0, SQUARE, PEOPLE])
        columns = [t, 2 * t * t - 1] + ([] if known else [np.ones(len(t))])
        sums, noise = purse.weighted_sum(np.column_stack(columns), weights, share)
        n, chance = (rows, 0.0) if known else _together(rows, rows_noise, max(float(sums[2]), 1.0), float(noise[2]) ** 2)
        n = max(n, math.sqrt(chance), 1.0)
        mean = float(np.clip(sums[0] / n, -1.0, 1.0))
        error = float(noise[0] / n) ** 2 + mean**2 * chance / n**2
        square = float(np.clip((sums[1] / n + 1) / 2, 0.0, 1.0))
        # a deviation below what it seems to be: more is staked on a variance than on a mean
        sure = square - mean**2 + error - math.hypot(float(noise[1]) / (2 * n), 2 * mean * math.sqrt(error))
        return cls(n, chance, mean, error, max(sure, 1e-6))

    def within(self, part: LabelRange) -> Level:
        """The same in units of a part of the range; what was cut there is forgotten, so the mean hardly counts where it is outside."""
        mean = (self.mean - part.middle) / part.half
        held = float(np.clip(mean, -1.0, 1.0))
        return Level(self.rows, self.rows_noise, held, self.mean_noise / part.half**2 + (mean - held) ** 2, self.variance / part.half**2)

    def again(self, t: Array, purse: Purse, share: float) -> Level:
        """A second look, at the mean alone; both looks are joined."""
        known = self.rows_noise == 0
        weights = np.array([1.0] if known else [1.0, PEOPLE])
        columns = [t] + ([] if known else [np.ones(len(t))])
        sums, noise = purse.weighted_sum(np.column_stack(columns), weights, share)
        n, chance = self.rows, 0.0
        if not known:
            n, chance = _together(n, self.rows_noise, float(sums[1]), float(noise[1]) ** 2)
            n = max(n, math.sqrt(chance), 1.0)
        here = float(np.clip(sums[0] / n, -1.0, 1.0))
        mean, error = _together(self.mean, self.mean_noise, here, float(noise[0] / n) ** 2 + here**2 * chance / n**2)
        return Level(n, chance, mean, error, self.variance)


def _together(one: float, noise: float, other: float, more: float) -> tuple[float, float]:
    """Two looks at one number, weighted by the inverses of their variances, and the variance that is left.

    >>> _together(1.0, 2.0, 4.0, 1.0)
    (3.0, 0.6666666666666666)
    """
    whole = noise + more
    return (one * more + other * noise) / whole, noise * more / whole


def staged_least_squares(
    U: Array, labels: Array, purse: Purse, guarantee: Guarantee, *, rows: int | None, penalty: float = 0.0
) -> LinearFit:
    """A linear function of rows in [-1, 1]^d for labels in [-1, 1], with all of the purse.

    Guarantee
        Statement: costs `purse.event`. Proved in: `Purse`; every stage draws from it and sees the rows nowhere else.
    """
    d, share = U.shape[1], COUNT_PURE if purse.pure else COUNT
    chance = 0.0 if rows is not None else purse.box_noise(1, share) ** 2
    n = purse.rows(U, rows, share)
    budget = n * purse.strength
    poor = budget < (POOR_PURE if purse.pure else POOR) * _direction_need(d, purse.pure)
    cut = label_range(labels, purse, n, LABELS_POOR if poor else LABELS)
    if poor:
        cut = cut.widened(WIDENED / (float(purse.weighted_noise(np.array([1.0, SQUARE, PEOPLE]), LEVEL_POOR)[0]) / n))
    t = cut.units(labels)
    level = Level.buy(t, purse, n, chance, LEVEL_POOR if poor else LEVEL)
    n = level.rows
    directions = 0 if poor else _affordable(level, purse, 1 + sum(budget / _direction_need(d, purse.pure) >= more for more in MORE))
    if directions:
        fit = _along(U, labels, t, cut, level, purse, penalty, directions)
    elif not purse.pure and level.mean_noise <= HARM * level.variance:
        wide = 1 + abs(level.mean)
        inner = _descended(U, (t - level.mean) / wide, purse, guarantee, n, penalty)
        fit = _moved(inner, wide * cut.half, cut.middle + cut.half * level.mean)
    else:
        if level.mean_noise > HARM * level.variance:
            # labels that lie together in a wide range: with what is left, where they lie is found again
            inner_cut = label_range(t, purse, n, AGAIN * purse.left)
            cut, level = cut.inside(inner_cut), level.within(inner_cut)
            t = cut.units(labels)
        level = level.again(t, purse, purse.left)
        covariance = np.zeros((d + 1, d + 1))
        covariance[-1, -1] = level.mean_noise
        bar = NoiseBar(covariance, "first order", gaussian=not purse.pure)
        alone = LinearFit(np.zeros((1, d)), np.array([level.mean]), math.sqrt(level.mean_noise), bar)
        fit = _moved(alone, cut.half, cut.middle)
    return fit


def _moved(fit: LinearFit, scale: float, to: float) -> LinearFit:
    """A fit of labels in other units: times a scale, plus a number."""
    bar = None if fit.bar is None else fit.bar.scaled(scale)
    return LinearFit(scale * fit.coef, scale * fit.intercept + to, scale * fit.noise, bar)


def _harm(directions: int, n: float, purse: Purse, share: float) -> float:
    """What the noise of the last stage is predicted to add to the mean squared error, in squared units of the labels' reach.

    The mean has the noise of one sum. A slope along a direction has it over the direction's mean square, about 1 / PAIR^2, and
    keeps a part of it where there is nothing to find.
    """
    noise = float(purse.weighted_noise(_last_weights(directions), share)[-1]) / n
    return noise**2 * (1 + FALSE * directions * PAIR**2)


def _affordable(level: Level, purse: Purse, most: int) -> int:
    """How many directions may be fitted so that their noise is not predicted to cost more than a small part of the variance."""
    wide = 1 + abs(level.mean)
    return max((k for k in range(1, most + 1) if _harm(k, level.rows, purse, LAST) * wide**2 <= HARM * level.variance), default=0)


def _along(
    U: Array, labels: Array, t: Array, cut: LabelRange, level: Level, purse: Purse, penalty: float, directions: int
) -> LinearFit:
    """Least squares from directions that were found with cut labels, and fitted to labels that are cut as little as noise allows.

    Cutting the tails of the labels changes the length of a slope, hardly its direction. So the last stage, which has few numbers
    and little noise, cuts less, and puts the length right.
    """
    n, wide = level.rows, 1 + abs(level.mean)
    frame = Frame.buy(U, purse, n, SPREAD)
    rich = n * purse.strength >= (RICH_PURE if purse.pure else RICH) * _matrix_need(U.shape[1], purse.pure)
    residual = (t - level.mean) / wide
    rest = (purse, purse.left - LAST)
    found = _whole(frame, U, residual, *rest, penalty) if rich else _gradients(frame, U, residual, *rest, directions)
    middle = cut.middle + cut.half * level.mean
    least, most = cut.half * wide, 1 + abs(middle)
    harm = _harm(len(found.slopes), n, purse, purse.left)
    reach = float(np.clip(cut.half * math.sqrt(CLEAN * level.variance / harm), least, most))
    # the mean was looked at before: its noise in units of this reach, unless labels were cut there that are not cut here
    before = level.mean_noise * (cut.half / reach) ** 2 if reach == least else math.inf
    inner = _joined(U, np.clip((labels - middle) / reach, -1.0, 1.0), found, purse, n, penalty, before)
    return _moved(inner, reach, middle)


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


def _gradients(frame: Frame, U: Array, t: Array, purse: Purse, share: float, steps: int) -> Directions:
    """Directions of steepest descent, each from a noisy gradient at the fit along those before; a penalty weighs in where they are
    joined."""
    Z = frame.apply(U)
    bounded, weight, _ = _bounded(Z, purse.pure)
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


def _whole(frame: Frame, U: Array, t: Array, purse: Purse, share: float, penalty: float) -> Directions:
    """The direction of least squares, or of ridge regression, from one noisy matrix of moments."""
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
    """A descent in a few steps with nearly all that is left, for budgets that carry no spread of every feature.

    It is drawn back to the mean of the labels by what noise alone would explain, to first order (`kept`), and by one released
    number: the covariance of its scores with the labels, which says how long the slope may be at most.
    """
    d = U.shape[1]
    mu = purse.take(purse.left - PROOF)
    plan = Plan.small_regressor(guarantee, purse.adjacency, purse.event, mu, features=d, rows=n)
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
    reach = PROVED * max(math.sqrt(energy), 1e-12)
    scores = np.clip((U - space.centre) @ fit.coef[0] / reach, -1.0, 1.0)
    (product,), noise = purse.box_sum((scores * t)[:, None], purse.left)
    # twice the slope of least squares, less half a deviation: the covariance is noisy, and the slope is not cut where it may be right
    longest = (2 * product - noise) / n * PROVED**2 / reach if product > SURE * noise else 0.0
    return drawn_back(fit, space.centre, np.zeros(1), max(0.0, min(kept(energy, chance, d), longest)))


def _last_weights(directions: int) -> Array:
    """Weights of what the last stage sums: products of directions, directions, their products with the label, and the label."""
    k = directions
    return np.ones(k * (k + 1) // 2 + 2 * k + 1)


def _joined(U: Array, t: Array, found: Directions, purse: Purse, n: float, penalty: float, before: float) -> LinearFit:
    """Least squares along the directions, from a few noisy sums with all that is left.

    `before` is the variance of an earlier look that put the mean of the labels at 0. The bar holds the noise of these sums
    and of the directions, to first order.
    """
    k = len(found.slopes)
    slopes = found.slopes / found.reach
    u = np.clip((U - found.centre) @ slopes.T, -1.0, 1.0)
    upper = np.triu_indices(k)
    products = u[:, upper[0]] * u[:, upper[1]]
    products[:, upper[0] == upper[1]] = 2 * u * u - 1
    sums, noises = purse.weighted_sum(np.hstack([products, u, u * t[:, None], t[:, None]]), _last_weights(k), purse.left)
    noise, size = float(noises[-1]), len(upper[0])
    gram = np.zeros((k, k))
    gram[upper] = np.where(upper[0] == upper[1], (sums[:size] + n) / 2, sums[:size])
    gram += np.triu(gram, 1).T
    mean_u = np.clip(sums[size : size + k] / n, -1.0, 1.0)
    mean_t, left = float(np.clip(sums[-1] / n, -1.0, 1.0)), (noise / n) ** 2
    if before < math.inf:
        mean_t, left = _together(mean_t, left, 0.0, before)
    gram = gram - n * np.outer(mean_u, mean_u)
    cross = sums[size + k : size + 2 * k] - n * mean_u * mean_t
    values, vectors = np.linalg.eigh(gram)
    seen, edge = np.maximum(values, 0.0), 2 * noise * math.sqrt(k)
    sound = (vectors * (seen + edge**2 / np.maximum(seen, edge))) @ vectors.T
    inverse = np.linalg.inv(sound + penalty * slopes @ slopes.T)
    beta = inverse @ cross
    # what is explained, beside what noise alone would seem to explain
    explained, chance = float(beta @ cross), DOUBT * k * noise**2 / max(float(seen.max()), edge)
    beta = beta * max(0.0, 1 - chance / explained) if explained > 0 else 0.0 * beta
    coef = beta @ slopes
    change = np.vstack([slopes.T, -mean_u - slopes @ found.centre])
    covariance = noise**2 * change @ inverse @ inverse @ change.T
    covariance[:-1, :-1] += np.diag(beta**2 @ (found.errors / found.reach) ** 2)
    covariance[-1, -1] += left
    bar = NoiseBar(covariance, "first order", gaussian=not purse.pure)
    return LinearFit(coef[None, :], np.array([mean_t - float(beta @ mean_u) - float(coef @ found.centre)]), noise / n, bar)
