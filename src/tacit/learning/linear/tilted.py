"""Linear classifiers in stages under pure privacy: what the classes and the features look like first, then one tilted minimum.

A fit under pure privacy that fixes everything beforehand loses where features are skewed or classes unequal:
its ridge pulls rare features and the intercept to 0. This one buys three cheap things first: the numbers of the
classes, and the centre and spread of the features. Then it minimises a sum of losses whose scores start at the
logarithms of the classes' shares, over rows in units of their spread, tilted by cube noise (objective
perturbation). The ridge is the one with the least predicted error for the released number of rows.

>>> from tacit.learning.linear.losses import logistic
>>> from tacit.noise import test_mode
>>> U = np.linspace(-1, 1, 4001)[:, None]
>>> purse = Purse.of(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE)
>>> with test_mode(1):
...     found = tilted_minimum(U, (U[:, 0] > 0.8).astype(int), 2, logistic, purse, rows=None)
>>> bool(abs(-found.intercept[0] / found.coef[0, 0] - 0.8) < 0.1)
True

*The floor.* With parameters 0 the model predicts the released shares of the classes. Where the tilt would drown the
signal, the predicted error is least for a large ridge, which leaves the parameters near 0; and what the noise alone
explains is taken off at the end (`prior.held`).

*The order of two classes.* Where there is little to learn, the last part of epsilon pays for one choice by the number of
people who are right: each class for everybody, or the slope with one of a few cuts (`best_cut`). Which class is larger
is then known with 1/sqrt(2) of the noise of two counts, and a slope that says nothing is seen by the same draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Guarantee
from tacit.learning.linear.error_bars import NoiseBar
from tacit.learning.linear.losses import Loss
from tacit.learning.linear.newton import minimise_scores
from tacit.learning.linear.prior import CHECK_PURE, Prior, agreement, believed, held
from tacit.learning.linear.pure import LARGEST, STEP, TILT_STEP, cube_noise, deviation
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.solvers import CURVE, SAMPLED, UNEQUAL, LinearFit
from tacit.learning.linear.staged import Frame
from tacit.mechanisms import farthest
from tacit.noise import from_lattice, round_to_lattice

__all__ = ["Adjacency", "Guarantee", "tilted_minimum"]

Array = NDArray[np.float64]
# shares of epsilon: centre and spread, and the distance to the exact minimiser; `Prior` has its own
SPREAD, REST = 0.07, 0.02
# n epsilon over d^1.5 below which there is nothing to learn but the classes; there is little; no spread is bought
NONE, FEW, SQUARES = 2.0, 40.0, 30.0
WIDE, SOON, MOST = 6.0, 0.7, 0.4  # rows are cut at so many deviations at most, and how soon; no deviation is above MOST times that many
PROVED = 0.3  # scores are cut at this part of the parameters' length where they are compared with the labels
CONSTANT = 0.5  # the constant coordinate beside coordinates in [-1, 1]
FINE = 0.01  # the noise for the distance, as a part of the noise that the tilt leaves
LENGTH = 3.0  # a typical length of the parameters for rows in units of WIDE deviations
ROUND = 1e-12
# a vote on the slope: its share at most, the noise of a count over the rows that is fine enough, and that is too much for a vote
VOTE, TOLD, UNSURE = 0.03, 0.005, 0.05
# two classes: n epsilon below which the order is settled by a choice at the end, whatever the features; its share at most, and n epsilon
# times it that is enough; where the scores are cut, in their deviations; what a cut has to be ahead of a class, in scales of the noise;
# and the least logarithm of odds of a class that is chosen for everybody
CHOSEN, CHOICE, SURE, CUTS, HANDICAP, LEAST = 400.0, 0.4, 70.0, (-1.0, 0.0, 1.0), 2.0, 0.05
BLURRED = 0.5  # the noise of a centre, over the half range, above which it is not bought
TURNED = 3.0  # deviations by which people must be seen to be turned
SOLVED = 1e-11  # of a gradient, for each row
#: What is added for squared coefficients in public units, by the weights of the classes.
Penalty = Callable[[Array], float]


def unpenalised(factors: Array) -> float:
    """No penalty."""
    return 0.0


def tilted_minimum(
    U: Array, codes: NDArray[np.int64], classes: int, loss: Loss, purse: Purse, *, rows: int | None,
    weights: Array | None = None, balanced: bool = False, penalty: Penalty = unpenalised,
    first: tuple[Array, float] | None = None,
) -> LinearFit:  # fmt: skip
    """A linear classifier for rows in [-1, 1]^d with all of a pure purse; rows of no declared class count for the frame alone.

    `weights` in [0, 1] shorten people's losses, `balanced` those of the larger classes; `penalty` is what is added for the squared
    coefficients, given the released weights of the classes. `first` is a look at the classes that another purse paid for.

    Guarantee
        Statement: costs `purse.event`. Conditions: a loss with a proved curvature, rank and bound on its derivatives.
        Proved in: `Purse` for the stages; the minimiser and the distance to it as for `CubePerturbation`, for the loss
        of scores moved by a released offset and times a weight of at most 1, whose curvature, rank and slope are no larger. A
        penalty knows no person: it makes the objective more convex, never less.
    """
    known = codes >= 0
    outputs, d = (1 if classes == 2 else classes), U.shape[1]
    settled = classes == 2 and not balanced
    few = max(FEW * d**1.5, CHOSEN if settled else 0.0)
    prior = Prior.buy(codes, classes, purse, rows, few=few, none=NONE * d**1.5, weights=weights, settled=settled, first=first)
    factors = np.ones(classes)
    if balanced:
        prior, factors = prior.balanced()
        weights = (np.ones(len(codes)) if weights is None else weights) * factors[np.maximum(codes, 0)]
    settled = settled and prior.few
    if purse.left <= 0:
        return prior.alone(d, gaussian=False)
    n, budget = prior.rows, prior.rows * purse.strength / d**1.5
    squares = budget >= SQUARES
    wide = float(np.clip(SOON * budget**0.25, 1.0, WIDE))
    most = min(MOST * wide, 1.0)
    if settled and purse.box_noise(2 * d if squares else d, SPREAD) > BLURRED * n:
        frame = Frame(n, np.zeros(d), np.full(d, most))  # a centre that noise would hide is the public one
    else:
        frame = Frame.buy(U, purse, n, SPREAD, most=most, squares=squares, weights=weights)
    # no deviation reaches beyond the public range: a column of 0 and 1 takes up all of its coordinate
    reach = np.minimum(wide * frame.spread, 1 + np.abs(frame.centre))
    Z = np.clip((U - frame.centre) / reach, -1.0, 1.0)
    bounded = np.hstack([Z, np.full((len(U), 1), CONSTANT)]) * known[:, None]
    offset = prior.scores
    moved = _moved(loss, offset, weights)
    rest = purse.take(REST)
    # how many people a slope puts right: bought where that can be told from noise, and no finer than it matters
    vote = min(VOTE, purse.box_noise(2, 1.0) / (TOLD * n))
    if settled or purse.box_noise(2, vote) > UNSURE * n:
        vote = 0.0
    choice = min(CHOICE, SURE / (n * purse.strength))
    main = purse.take(purse.left - vote - (choice if settled else CHECK_PURE if prior.few else 0.0))
    size = (frame.spread / reach) ** 2 if squares else np.full(d, 1 / wide**2)  # the mean square of a coordinate as it is cut
    whole = np.minimum(frame.spread**2 if squares else 1.0, 1 - frame.centre**2) / reach**2  # and as it is, at most
    size, whole = np.append(size, CONSTANT**2), np.append(whole, CONSTANT**2)
    variance = float((prior.shares * (1 - prior.shares)).max())
    curve = CURVE * variance * n * size
    ridge, determinant = best_ridge(loss, main, float(curve[:-1].mean()), d, outputs, purse.adjacency)
    change = farthest(loss.total_slope(outputs), purse.adjacency)
    scale = (change + outputs * float(TILT_STEP)) / (main - determinant) * (1 + ROUND)
    width = d + 1
    # what noise leaves in a parameter: the tilt over the curvature of the data, at its typical size, and the ridge
    ridges = ridge + np.append(penalty(factors) / reach**2, 0.0)
    pull = 1 / (curve + ridges)
    left = deviation(width) * scale * pull
    # a gradient over n rows is known to within rounding, and no solver comes nearer than that over the ridge
    distance = max(FINE * float(left.min()) * rest / (deviation(width) * 2 * math.sqrt(outputs)), SOLVED * n / ridge)
    apart = distance + math.sqrt(outputs * width) * (float(TILT_STEP) / ridge + float(STEP)) / 2
    output = 2 * apart * math.sqrt(outputs) / rest * (1 + ROUND)

    def drawn(size: float, step: Fraction) -> NDArray[np.int64]:
        return np.concatenate([cube_noise(Fraction(size) / step, width) for _ in range(outputs)])

    tilt = from_lattice(drawn(scale, TILT_STEP), TILT_STEP).reshape(outputs, width)
    theta = minimise_scores(moved, bounded, np.where(known, codes, 0).astype(np.float64), ridge=ridges, tilt=tilt, distance=distance)
    point = round_to_lattice(theta.ravel(), STEP, bounds=(-LARGEST, LARGEST))
    released = from_lattice(point + drawn(output, STEP), STEP).reshape(outputs, width)
    # curvatures are unequal, and what a sample of people does to a parameter grows with them
    unequal = np.ones((len(UNEQUAL), width))
    if not squares:
        unequal[:, :-1] = UNEQUAL[:, None]
    pulls = 1 / (curve * unequal + ridges)
    parts = ((deviation(width) * scale) ** 2 * pulls**2 + SAMPLED * n * variance * size * unequal * pulls**2).mean(axis=0)
    chance = size * parts
    directions = outputs * alike(chance)
    energy, noisy = float((size * released**2).sum()), math.sqrt(float(whole @ parts))
    seen = None
    if prior.few and not settled:
        length = PROVED * float(np.linalg.norm(released))
        seen = agreement(bounded @ released.T, codes, prior, length, n * variance * energy, purse, weights)
    factor = held(energy, outputs * float(chance.sum()), directions, prior, noisy, seen)
    base = offset
    if settled:
        part = believed(energy, outputs * float(chance.sum()), directions)
        factor, base = best_cut(
            _scores(U, frame.centre, reach, released)[:, 0], codes, float(offset[0]), [factor, part], math.sqrt(energy), purse, weights
        )
    # the model is linear in the rows as they are, not in what was cut off them for the fit: so are the people counted
    if vote and turns_wrongly(_scores(U, frame.centre, reach, factor * released), codes, offset, purse, vote, weights):
        factor = 0.0
    released = factor * released
    coef = released[:, :-1] / reach
    level = base + released[:, -1] * CONSTANT - coef @ frame.centre
    widest = deviation(width) ** 2 * (outputs * width * (scale / ridge) ** 2 + output**2)
    units = np.diag(np.append(1 / reach, CONSTANT))
    units[-1, :-1] = -frame.centre / reach
    return LinearFit(coef, level, scale, NoiseBar(widest * np.eye(d + 1), "bound", gaussian=False).through(units))


def alike(parts: Array) -> float:
    """How many equal squares of normal variables vary like the squares of cube noise, with means in these proportions.

    Noise in a cube is a common radius, the sum of d + 1 exponential variables, times independent uniform ones.
    """
    width = len(parts)
    radius = (width + 3) * (width + 4) / ((width + 1) * (width + 2))  # E r^4 / (E r^2)^2
    return 2 / (radius * (1 + 0.8 * float(parts @ parts) / float(parts.sum()) ** 2) - 1)


def best_cut(
    scores: Array, codes: NDArray[np.int64], offset: float, parts: list[float], spread: float, purse: Purse, weights: Array | None
) -> tuple[float, Array]:
    """The part of a slope to keep and the level beside it, chosen by how many people are right, with all that is left of a purse.

    Candidates are each class for everybody, the first of `parts` beside `offset`, and the second one cut at CUTS deviations from where the
    scores and the offset together are 0. One with a slope has to be ahead of a class by HANDICAP scales of the noise.
    """
    held, part = parts
    sure = max(abs(offset), LEAST)
    candidates = [(0.0, -sure), (0.0, sure), (held, offset), *((part, part * (offset + cut * spread)) for cut in CUTS)]
    right = np.column_stack([(factor * scores + level > 0) == codes for factor, level in candidates]).astype(np.float64)
    handicap: Array = np.where([factor > 0 for factor, _ in candidates], HANDICAP * purse.choice_scale(purse.left), 0.0)
    best = purse.choice(right if weights is None else right * weights[:, None], -handicap, purse.left)
    return candidates[best][0], np.array([candidates[best][1]])


def _scores(U: Array, centre: Array, reach: Array, parameters: Array) -> Array:
    """Scores around the offset of rows that are not cut."""
    found: Array = (U - centre) / reach @ parameters[:, :-1].T + CONSTANT * parameters[:, -1]
    return found


def turns_wrongly(
    scores: Array, codes: NDArray[np.int64], offset: Array, purse: Purse, share: float, weights: Array | None
) -> bool:
    """Whether a slope turns people away from the larger class without putting more of them right, by two noisy counts.

    Where hardly anyone is turned, as with a rare class, the slope does no harm, and the probabilities may need it.
    """

    def places(found: Array) -> NDArray[np.int64]:
        return (found[:, 0] > 0).astype(np.int64) if found.shape[1] == 1 else found.argmax(axis=1)

    with_slope, without = places(scores + offset), places(np.broadcast_to(offset, scores.shape))
    ahead = (with_slope == codes).astype(np.float64) - (without == codes)
    counted = np.column_stack([ahead, (with_slope != without) & (codes >= 0)])
    (right, turned), noise = purse.box_sum(counted if weights is None else counted * weights[:, None], share)
    return bool(right <= 0 and turned > TURNED * noise)


def best_ridge(loss: Loss, epsilon: float, curvature: float, features: int, outputs: int, adjacency: Adjacency) -> tuple[float, float]:
    """The ridge with the least predicted error, and what its determinant costs.

    The error is that of the tilt over the curvature, and of the ridge on parameters of a typical length. Every ridge
    is allowed whose determinant leaves something for the tilt.
    """
    bend = loss.curvature * (features + CONSTANT**2)
    width = features + 1
    change = farthest(loss.total_slope(outputs), adjacency)
    best, found = math.inf, (0.0, 0.0)
    for ridge in np.geomspace(1e-3, max(1e7, 100 * loss.rank * bend / epsilon), 201):
        determinant = loss.rank * math.log1p(bend / ridge) * (1 + ROUND)
        if determinant >= 0.9 * epsilon:
            continue
        noise = deviation(width) * change / (epsilon - determinant)
        error = outputs * width * noise**2 * curvature / (curvature + ridge) ** 2
        error += curvature * (ridge * LENGTH / (curvature + ridge)) ** 2
        if error < best:
            best, found = error, (float(ridge), determinant)
    return found


def _moved(loss: Loss, offset: Array, weights: Array | None) -> Loss:
    """The loss of scores that start at an offset, times weights of at most 1; its constants are those of the loss."""
    part: Array | float = 1.0 if weights is None else weights
    column = part if isinstance(part, float) else part[:, None]
    return Loss(
        f"{loss.name} from an offset",
        lambda scores, labels: loss.value(scores + offset, labels) * part,
        lambda scores, labels: loss.derivative(scores + offset, labels) * column,
        loss.slope, loss.curvature, loss.rank, loss.strong, loss.convex, loss.certified, loss.total,
    )  # fmt: skip
