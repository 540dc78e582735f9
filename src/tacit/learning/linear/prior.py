"""The floor of a classifier: the private shares of the classes, and how much of a slope is worth keeping beside them.

`Prior` is what a classifier predicts when nothing else was learned. A fit buys it first, with a small share, and
starts its scores there. `held` says how much of a slope to keep: the length with the greatest expected accuracy
beside the larger class, given the energy that was released, the noise that was drawn, the doubt about the classes,
and, where it was bought, how scores agree with labels. `kept` is a simpler rule, for regressions.

>>> kept(25.0, 2.0, 2), kept(3.0, 2.0, 2)
(0.92, 0.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tacit.learning.linear.error_bars import NoiseBar
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.solvers import LinearFit

Array = NDArray[np.float64]
# shares of the purse: the first look; where there is little more to learn, a look at what was learned
FIRST, FIRST_PURE, CHECK_PURE = 0.03, 0.06, 0.12
# what a wrong larger class may be expected to cost in accuracy, the noise of a number of rows over it, and the ends of a second look
FLOOR, ROUGH, SECOND = 0.004, 0.12, (0.02, 0.4)
EVEN = 1 / 3  # the deviation, over the rows, that the difference of two classes is expected to have
BOTH = np.array([1.0, 0.5])  # weights of the difference of two classes and of their sum, with Gaussian noise
SEEN, ROUGHLY = 0.1, 0.4  # the noise of a curvature, over the rows, at which it is bought; and the error of what is expected without noise
CLEAR = 0.8  # deviations by which the energy of a slope must stand out from that of noise, in a regression
LONG = 2.0  # how long a row may be beside one of the length that noise is measured on
# deviations that true scores may have over people, each as likely as the next, and how likely it is that there is nothing to learn
SPREADS, NOTHING = np.geomspace(0.05, 5.0, 24), 0.3
AVERSE = 1.5  # how much accuracy lost beside the larger class weighs, where what is gained weighs 1
TIED = 1e-4  # a difference in accuracy that is none
NORMAL = np.linspace(-5.0, 5.0, 201)  # where a normal variable is looked at
MASS = np.exp(-(NORMAL**2) / 2) / np.exp(-(NORMAL**2) / 2).sum()


@dataclass(frozen=True)
class Prior:
    """Released shares of the classes, and the number of rows: public, or the released sum of the classes."""

    shares: Array
    rows: float
    few: bool  # whether there is so little to learn that it has to be looked at
    noise: float = 0.0  # the standard deviation of each count
    doubt: float = 0.0  # that of the logarithm of the odds of the two largest classes

    @classmethod
    def buy(
        cls, codes: NDArray[np.int64], classes: int, purse: Purse, rows: int | None, *, few: float = 0.0, none: float = 0.0,
        weights: Array | None = None, settled: bool = False, first: tuple[Array, float] | None = None,
    ) -> Prior:  # fmt: skip
        """Counts of the classes, and a second look as fine as `second_share` asks for; where rows times strength is below `none`, with
        all that is left. Below `few` a fit has so little to learn that it has to be looked at; if the order of two classes is `settled`
        by that look, there is no second one here, and the classes are taken to be as unequal as the first one lets them be believed to
        be. Both looks together say how many rows there are. A `first` look that was bought elsewhere, counts and their noise, is not bought
        again.

        With Gaussian noise the second look at two classes is at their difference, and at their sum with less weight: that tells which
        one is larger with little more than half of the budget that two counts need.
        `weights` in [0, 1] count people in part; the number of rows is then that of their weights together, and bought.
        """
        rows = rows if weights is None else None
        counts, noise = first or look(codes, classes, purse, FIRST_PURE if purse.pure else FIRST, weights)
        apart = level = noise * math.sqrt(2)  # deviations of the difference and of the sum of two counts
        n = float(rows) if rows is not None else max(float(counts.sum()), noise, 1.0)
        # a number of rows that seems to be large by chance would make the second look too cheap
        least = max(n - (0.0 if rows is not None else noise * math.sqrt(classes)), 1.0)
        largest = np.sort(counts)[-2:]
        together = classes == 2 and not purse.pure
        whole = purse.weighted_noise(BOTH, 1.0) if together else np.full(2, math.sqrt(2) * purse.count_noise(1, 1.0))
        share = second_share(
            float(largest[1] - largest[0]), np.array([apart, 0.0 if rows is not None else level]), whole, least, pure=purse.pure
        )
        if n * purse.strength < none:
            share = purse.left
        elif settled and n * purse.strength < few:
            share, spread = 0.0, EVEN * n
            counts = counts.mean() + (counts - counts.mean()) * spread**2 / (spread**2 + apart**2)
        if share and together:
            known = np.column_stack([(codes == 1).astype(np.float64) - (codes == 0), codes >= 0])
            known = known if weights is None else known * weights[:, None]
            (difference, people), more = purse.weighted_sum(known, BOTH, share)
            difference, apart = joined(counts[1] - counts[0], apart, difference, float(more[0]))
            people, level = joined(counts.sum(), level, people, float(more[1]))
            counts, noise = np.array([people - difference, people + difference]) / 2, math.hypot(apart, level) / 2
        elif share:
            again, more_noise = purse.counts(codes[:, None], classes, share, weights)
            counts, noise = joined(counts, noise, again[0], more_noise)
            apart = level = noise * math.sqrt(2)
        n = float(rows) if rows is not None else max(float(counts.sum()), noise, 1.0)
        shares = class_shares(counts, noise)
        other, most = n * np.sort(shares)[-2:]
        doubt = math.hypot(apart * (1 / other + 1 / most), level * (1 / other - 1 / most)) / 2
        return cls(shares, n, n * purse.strength < few, noise, doubt)

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


def look(codes: NDArray[np.int64], classes: int, purse: Purse, share: float, weights: Array | None = None) -> tuple[Array, float]:
    """Noisy numbers of people in each class, and the deviation of the noise."""
    counts, noise = purse.counts(codes[:, None], classes, share, weights)
    return counts[0], noise


def joined(one: Any, noise: float, other: Any, more: float) -> tuple[Any, float]:
    """Two looks at the same numbers weighted by the inverses of their variances, and the deviation that is left.

    >>> joined(1.0, 2.0, 4.0, 2.0)
    (2.5, 1.414213562373095)
    """
    whole = noise**2 + more**2
    return (one * more**2 + other * noise**2) / whole, noise * more / math.sqrt(whole)


def second_share(apart: float, before: Array, whole: Array, rows: float, *, pure: bool) -> float:
    """What to spend on a second look at the classes, given the difference of the two largest in a first one. `before` are the deviations
    that it left in that difference and in the number of rows (0 where it is public), and `whole` those of a look with all of the budget.

    Taking the wrong one of two classes for the larger costs their difference in accuracy. The share is the least that holds the cost to
    FLOOR, in expectation over the differences that the first look leaves possible: classes that it shows to be far apart need no second.

    >>> before, whole = np.array([300.0, 300.0]), np.array([50.0, 90.0])
    >>> [round(second_share(apart, before, whole, 3000.0, pure=False), 2) for apart in (0.0, 500.0, 1000.0)]
    [0.1, 0.02, 0.0]
    """
    shares = np.append(0.0, np.geomspace(*SECOND, 25))
    part = (shares if pure else np.sqrt(shares))[:, None]  # pure noise falls with the share, Gaussian noise with its root
    left = before * whole / np.hypot(before * part, whole)
    possible = np.abs(apart + before[0] * NORMAL)
    cost = (possible * ndtr(-possible / left[:, :1])) @ MASS / rows
    enough = np.flatnonzero((cost <= FLOOR) & (left[:, 1] <= ROUGH * rows))
    return float(shares[enough[0]]) if len(enough) else SECOND[1]


@dataclass(frozen=True)
class Agreement:
    """How scores covary with labels, summed over people, the deviation of its noise, and what it would be if scores were all signal."""

    total: float
    noise: float
    whole: float


def agreement(
    scores: Array, codes: NDArray[np.int64], prior: Prior, reach: float, expected: float, purse: Purse, weights: Array | None = None
) -> Agreement:
    """A look at what was learned: the covariance of scores around their level with the labels and, where noise lets it be seen, the
    curvature of the log likelihood along them, which is what the covariance would be if the scores were right; `expected` is that where it
    is not released.

    `scores` has a column for each score, and `reach` is a released length at which a person's part is cut, and the unit of the sums.
    """
    known = (codes >= 0)[:, None]
    parts = np.hstack([np.zeros_like(scores), scores]) if len(prior.shares) == 2 else scores
    parts = parts / max(reach, 1e-12) * known
    product = (((codes[:, None] == np.arange(len(prior.shares))) - prior.shares) * parts).sum(axis=1)
    bend = (parts**2) @ prior.shares - (parts @ prior.shares) ** 2
    columns = [product, bend] if purse.box_noise(2, CHECK_PURE) < SEEN * prior.rows else [product]
    whole = np.ones(len(codes)) if weights is None else weights
    (total, *curvature), noise = purse.box_sum(np.clip(np.column_stack(columns), -1.0, 1.0) * whole[:, None], CHECK_PURE)
    clear = bool(curvature) and curvature[0] > noise
    return Agreement(float(total), noise, float(reach * curvature[0]) if clear else expected / max(reach, 1e-12))


def class_shares(counts: Array, noise: float) -> Array:
    """Shares of the classes from noisy counts, none below a class of one deviation of the noise.

    >>> class_shares(np.array([90.0, 10.0]), 1.0).round(2), class_shares(np.array([95.0, -10.0]), 5.0).round(2)
    (array([0.9, 0.1]), array([0.95, 0.05]))
    """
    held = np.maximum(counts, max(noise, 1.0))
    found: Array = held / held.sum()
    return found


def held(energy: float, chance: float, size: float, prior: Prior, noise: float, seen: Agreement | None = None) -> float:
    """The part of a slope to keep: the one with the greatest expected gain in accuracy over the larger class.

    `energy` is the mean square of the scores around their level, `chance` what it would be of noise alone, as uncertain as a sum of
    `size` equal squares, and `noise` the deviation that noise has in the score of a row as it is. True scores are taken to be normal over
    people, with one of SPREADS or none at all; the energy, and the agreement with labels where it was looked at, say how likely each one
    is. For each the part of a score that is signal, the people whom it turns and what they gain are known, with the doubt about the odds of
    the classes. Losses weigh AVERSE times as much as gains. Of parts that are as good the longest is kept: for probabilities it matters
    where nobody is turned, and where classes are even there is no larger class to fall below.

    >>> even, uneven = Prior(np.array([0.5, 0.5]), 1e4, False), Prior(np.array([0.2, 0.8]), 1e4, False)
    >>> [round(held(energy, 1.0, 8, uneven, 2.0), 2) for energy in (0.5, 1.0, 2.0, 4.0, 16.0)]
    [0.04, 0.07, 0.24, 0.68, 0.93]
    >>> round(held(2.0, 1.0, 8, even, 2.0), 2)
    0.24
    """
    chance = max(chance, 1e-300)
    logs, whole, signal = _spreads(energy, chance, size)
    if seen is not None:
        expected = signal * seen.whole
        variance = seen.noise**2 + (ROUGHLY * expected) ** 2
        logs = logs - (seen.total - expected) ** 2 / (2 * variance) - np.log(variance) / 2
    likely = _likely(logs)
    other, most = np.sort(prior.shares)[-2:]
    apart, long = math.log(most / other), max(noise / math.sqrt(chance), 1.0)
    parts = float(likely @ signal) * np.linspace(0.0, 1.0, 21)
    scores = long * np.sqrt(whole)[:, None] * NORMAL  # as they came out, for each spread
    doubt = (prior.doubt**2 + long**2 * signal * chance)[:, None]  # the variance of the true log odds, given such a score
    # the mean of tanh(x / 2) over normal x, by the usual approximation of a logistic by a normal function (MacKay 1992)
    gain = -np.tanh((apart + signal[:, None] * scores) / 2 / np.sqrt(1 + np.pi * doubt / 8))
    gains = ((apart + parts[:, None, None] * scores < 0) * gain) @ MASS
    value = np.where(gains > 0, gains, AVERSE * gains) @ likely
    return float(parts[np.flatnonzero(value >= value.max() - TIED)[-1]])


def believed(energy: float, chance: float, size: float) -> float:
    """The part of a slope that is taken to be signal: the mean over what true scores may be, given the energy.

    >>> [round(believed(energy, 1.0, 8), 2) for energy in (0.5, 1.0, 2.0, 4.0, 16.0)]
    [0.04, 0.07, 0.24, 0.72, 0.93]
    """
    logs, _, signal = _spreads(energy, max(chance, 1e-300), size)
    return float(_likely(logs) @ signal)


def _spreads(energy: float, chance: float, size: float) -> tuple[Array, Array, Array]:
    """For no signal and for each of SPREADS: the log likelihood of the energy, its mean, and which part of that is signal."""
    spreads = np.append(0.0, SPREADS) ** 2
    whole = spreads + chance
    return -size / 2 * (np.log(whole) + energy / whole), whole, spreads / whole


def _likely(logs: Array) -> Array:
    likely: Array = np.append(NOTHING, np.full(len(SPREADS), (1 - NOTHING) / len(SPREADS))) * np.exp(logs - logs.max())
    likely /= likely.sum()
    return likely


def kept(energy: float, chance: float, size: float) -> float:
    """The factor for a slope of this energy where noise alone would have `chance`, in so many directions.

    It is 0 where the energy is not clearly more than that of noise, whose deviation is sqrt(2 / size) of its mean, and
    James and Stein's factor (1961) beyond.
    """
    if not energy > chance * (1 + CLEAR * math.sqrt(2 / max(size, 1.0))):
        return 0.0
    return 1 - chance / energy
