"""The floor of a classifier: the private shares of the classes, and when a slope is more than noise.

`Prior` is what a classifier predicts when nothing else was learned. A fit buys it first, with a small share, and
starts its scores there. `kept` says how much of a slope to keep, by the energy that noise alone would have: so
the model falls back to the larger class where its own noise would hide the signal.

>>> kept(25.0, 2.0, 2), kept(3.0, 2.0, 2)
(0.92, 0.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.learning.linear.error_bars import NoiseBar
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.solvers import LinearFit

Array = NDArray[np.float64]
# shares of the purse: the first look; where there is little more to learn a second one, and a look at what was learned
FIRST, FIRST_PURE, CHECK_PURE = 0.03, 0.06, 0.12
# what noise in the counts may cost in accuracy, the part of a deviation that it costs where that is most, and the ends of a second look
FLOOR, FLOOR_PURE, WRONG, SECOND = 0.01, 0.009, 0.17, (0.02, 0.4)
PROOF_PURE = 1.5  # deviations by which scores must agree with the labels
LONGEST, SEEN = 2.0, 0.1  # Newton's steps that a slope may be long; the noise of a curvature, over the rows, that shows it
WIDE, BEND = 2.0, 0.2  # the spread of scores at which a slope may be that long; a typical second derivative there
CLEAR = 0.8  # deviations by which the energy of a slope must stand out from that of noise
DOUBT = 0.005  # what a slope that does not stand out may be predicted to cost in accuracy
LONG = 2.0  # how long a row may be beside one of the length that noise is measured on


@dataclass(frozen=True)
class Prior:
    """Released shares of the classes, and the number of rows: public, or the released sum of the classes."""

    shares: Array
    rows: float
    few: bool  # whether there is so little to learn that it has to be looked at
    noise: float = 0.0  # the standard deviation of each count

    @classmethod
    def buy(
        cls, codes: NDArray[np.int64], classes: int, purse: Purse, rows: int | None, *, few: float, none: float = 0.0,
        weights: Array | None = None,
    ) -> Prior:  # fmt: skip
        """Counts of the classes, and a second look at them where rows times strength is below `few`, or where the first one leaves their
        order in doubt; below `none` with all that is left. Both looks together say how many rows there are.

        `weights` in [0, 1] count people in part; the number of rows is then that of their weights together, and bought.
        """
        rows = rows if weights is None else None
        counts, noise = purse.counts(codes[:, None], classes, FIRST_PURE if purse.pure else FIRST, weights)
        n = float(rows) if rows is not None else max(float(counts.sum()), noise, 1.0)
        poor = n * purse.strength < few
        # a number of rows that seems to be large by chance would make the second look too cheap
        least = max(n - (0.0 if rows is not None else noise * math.sqrt(classes)), 1.0)
        share = purse.left if n * purse.strength < none else second_share(least, purse)
        if poor or share > SECOND[0]:
            again, other = purse.counts(codes[:, None], classes, share, weights)
            counts = (counts / noise**2 + again / other**2) / (noise**-2 + other**-2)
            noise = (noise**-2 + other**-2) ** -0.5
            n = float(rows) if rows is not None else max(float(counts.sum()), noise, 1.0)
        return cls(class_shares(counts[0], noise), n, poor, noise)

    def balanced(self) -> tuple[Prior, Array]:
        """The prior of classes that weigh the same, and the weight of each one's people; the rarest class has 1.

        >>> prior, factors = Prior(np.array([0.75, 0.25]), 100.0, False).balanced()
        >>> prior.shares, prior.rows, factors.round(4)
        (array([0.5, 0.5]), 50.0, array([0.3333, 1.    ]))
        """
        least, classes = float(self.shares.min()), len(self.shares)
        return Prior(np.full(classes, 1 / classes), classes * least * self.rows, self.few, self.noise), least / self.shares

    @property
    def scores(self) -> Array:
        """The scores that stand for these shares: one for two classes, one a class otherwise."""
        logs = np.log(self.shares)
        return logs[1:] - logs[:1] if len(logs) == 2 else logs

    def alone(self, features: int, *, gaussian: bool) -> LinearFit:
        """A fit that has learned nothing but these shares: no slope, and the noise of the shares' logarithms, to first order.

        >>> fit = Prior(np.array([0.75, 0.25]), 100.0, True, 3.0).alone(2, gaussian=True)
        >>> fit.coef, fit.intercept.round(2), fit.bar.errors.round(3)
        (array([[0., 0.]]), array([-1.1]), array([0.   , 0.   , 0.126]))
        """
        outputs, parts = len(self.scores), (self.noise / (self.rows * self.shares)) ** 2
        covariance = np.zeros((features + 1, features + 1))
        covariance[-1, -1] = parts.sum() if outputs == 1 else parts.max()
        bar = NoiseBar(covariance, "first order", gaussian=gaussian)
        return LinearFit(np.zeros((outputs, features)), self.scores, math.sqrt(covariance[-1, -1]), bar)


def second_share(rows: float, purse: Purse) -> float:
    """What to spend on a second look at the classes.

    Taking the wrong one of two classes for the larger costs their difference in accuracy. With noise of deviation s on that
    difference the expected cost is d Phi(-d / s), at most WRONG s whatever d is: the share holds it to FLOOR.
    """
    whole = WRONG * math.sqrt(2) * purse.count_noise(1, 1.0) / rows
    # pure noise falls with the share, Gaussian noise with its root
    return float(np.clip(whole / FLOOR_PURE if purse.pure else (whole / FLOOR) ** 2, *SECOND))


def agreed_length(
    scores: Array, codes: NDArray[np.int64], prior: Prior, reach: float, purse: Purse, weights: Array | None = None
) -> float:
    """How much of the slope behind scores around their level the labels bear out: between 0 and 1.

    One or two numbers are released: how the scores covary with the labels and, where noise lets it be seen, the curvature of the
    log likelihood along them. Their ratio is Newton's step from the shares of the classes, and a slope is at most as long, or up to
    LONGEST times where classes are far apart and the step falls short of the maximum; it is dropped where the covariance does not
    stand out from noise. `scores` has a column for each score, and `reach` is a released length at which a person's part is cut.
    """
    known = (codes >= 0)[:, None]
    parts = np.hstack([np.zeros_like(scores), scores]) if len(prior.shares) == 2 else scores
    parts = parts / max(reach, 1e-12) * known
    product = (((codes[:, None] == np.arange(len(prior.shares))) - prior.shares) * parts).sum(axis=1)
    bend = (parts**2) @ prior.shares - (parts @ prior.shares) ** 2
    share = CHECK_PURE
    columns = [product, bend] if purse.box_noise(2, share) < SEEN * prior.rows else [product]
    whole = np.ones(len(codes)) if weights is None else weights
    (total, *curvature), noise = purse.box_sum(np.clip(np.column_stack(columns), -1.0, 1.0) * whole[:, None], share)
    if total <= PROOF_PURE * noise:
        return 0.0
    if not curvature or curvature[0] <= noise:
        return 1.0
    # Newton's step falls short of the maximum where scores are spread over more than about one unit, and only there
    step = (total - noise / 2) / curvature[0]
    spread = step * math.sqrt(max(curvature[0], 0.0) / (prior.rows * BEND))
    return float(min((1 + min(spread / WIDE, 1.0) * (LONGEST - 1)) * step / max(reach, 1e-12), 1.0))


def class_shares(counts: Array, noise: float) -> Array:
    """Shares of the classes from noisy counts, none below a class of one deviation of the noise.

    >>> class_shares(np.array([90.0, 10.0]), 1.0).round(2), class_shares(np.array([95.0, -10.0]), 5.0).round(2)
    (array([0.9, 0.1]), array([0.95, 0.05]))
    """
    held = np.maximum(counts, max(noise, 1.0))
    found: Array = held / held.sum()
    return found


def bearable_noise(shares: Array, harm: float = DOUBT) -> float:
    """The deviation of noise in a score that turns people away from the larger class at an expected cost of at most `harm` in accuracy.

    Where the two largest classes are a logarithm o of their odds apart, noise of deviation t turns a share Phi(-o / t) of people, and
    each costs tanh(o / 2) on average. Classes that are nearly even bear any noise.

    >>> [round(bearable_noise(np.array([1 - p, p]), 0.01), 2) for p in (0.5, 0.505, 0.6, 0.76, 0.95)]
    [inf, inf, 0.25, 0.56, 1.29]
    """
    second, first = np.sort(shares)[-2:]
    apart = math.log(first / second)
    cost = math.tanh(apart / 2)
    return math.inf if cost <= 2 * harm else apart / -float(ndtri(harm / cost))


def held(energy: float, chance: float, size: float, shares: Array, noise: float) -> float:
    """The factor for a slope: James and Stein's where it is clear, and elsewhere what keeps the cost of its noise beside the larger class
    to DOUBT. `noise` is the deviation that it has in the score of a row as it is.

    Where classes are even there is no larger class to fall below, and a slope of which nothing can be told is kept.

    >>> even, uneven = np.array([0.5, 0.5]), np.array([0.2, 0.8])
    >>> held(1.0, 1.0, 4, even, 1.0), round(held(1.0, 1.0, 4, uneven, 2.0), 2), held(4.0, 1.0, 4, uneven, 2.0)
    (1.0, 0.29, 0.75)
    """
    return kept(energy, chance, size) or min(1.0, bearable_noise(shares) / max(noise, 1e-300))


def kept(energy: float, chance: float, size: float) -> float:
    """The factor for a slope of this energy where noise alone would have `chance`, in so many directions.

    It is 0 where the energy is not clearly more than that of noise, whose deviation is sqrt(2 / size) of its mean, and
    James and Stein's factor (1961) beyond.
    """
    if not energy > chance * (1 + CLEAR * math.sqrt(2 / max(size, 1.0))):
        return 0.0
    return 1 - chance / energy
