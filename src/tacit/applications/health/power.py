"""How many patients a trial needs when its result is published with noise, and what power it then has.

A trial counts successes among n patients and publishes the share with Laplace noise of scale 1 / (epsilon n). Noise
of that scale shrinks faster than the sampling error, so a large trial pays little for privacy and a small one a lot.
Everything here is planned before there is data, so nothing is spent.

>>> found = sample_size(0.5, 0.1, epsilon=0.1)
>>> found
SampleSize(plain=194.26, private=500.36, times=2.576, people=501)
>>> round(trial_power(501, 0.5, 0.1, epsilon=0.1), 3)
0.801
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import ParameterError
from tacit.parameters import positive

Floats = NDArray[np.float64]


def normal_laplace_cdf(x: ArrayLike, mean: float, deviation: float, scale: float) -> Floats:
    """The distribution function of normal plus Laplace noise (Reed and Jorgensen 2004).

    >>> round(float(normal_laplace_cdf(0.0, 0.0, 1.0, 2.0)), 12), round(float(normal_laplace_cdf(1.0, 0.0, 1.0, 1e-9)), 6)
    (0.5, 0.841345)
    """
    from scipy.special import erfcx, ndtr

    t = np.asarray(x, dtype=float) - mean
    y, reach = t / deviation, deviation / scale

    def part(z: Floats) -> Floats:
        """exp(reach^2 / 2 - z reach) Phi(z - reach), without overflow on either side."""
        far = reach - z
        with np.errstate(over="ignore", invalid="ignore"):
            outer = 0.5 * erfcx(np.maximum(far, 0) / math.sqrt(2)) * np.exp(-(z**2) / 2)
            inner = np.exp(np.minimum(reach**2 / 2 - z * reach, 700)) * ndtr(-far)
        return np.asarray(np.where(far > 0, outer, inner))

    found: Floats = np.asarray(ndtr(y) - 0.5 * part(y) + 0.5 * part(-y))
    return np.clip(found, 0.0, 1.0)


def _quantile(level: float, mean: float, deviation: float, scale: float) -> float:
    from scipy.optimize import brentq

    wide = 10 * (deviation + scale) * (1 - math.log(min(level, 1 - level)))
    return float(
        brentq(lambda x: float(normal_laplace_cdf(x, mean, deviation, scale)) - level, mean - wide, mean + wide, xtol=1e-15)
    )


@dataclass(frozen=True, repr=False)
class SampleSize:
    """How many patients without privacy (`plain`) and with it (`private`), both before rounding up."""

    plain: float
    private: float

    @property
    def times(self) -> float:
        """How many times as many patients privacy needs."""
        return self.private / self.plain

    @property
    def people(self) -> int:
        """Whole patients, rounded up."""
        return math.ceil(self.private - 1e-9)

    def __repr__(self) -> str:
        return f"SampleSize(plain={self.plain:.2f}, private={self.private:.2f}, times={self.times:.3f}, people={self.people})"


@dataclass(frozen=True)
class _Trial:
    """A share of successes: mu0 against mu0 + effect, two-sided at alpha."""

    rate: float
    effect: float
    epsilon: float
    alpha: float

    @staticmethod
    def of(rate: Any, effect: Any, epsilon: Any, alpha: Any) -> _Trial:
        base, step = float(positive("rate", rate)), float(positive("effect", effect))
        if not base + step < 1:
            raise ParameterError(f"rate and effect together must be below 1, and {base:g} + {step:g} is not")
        level = float(positive("alpha", alpha))
        if not level < 1:
            raise ParameterError(f"alpha must be between 0 and 1, not {level:g}")
        return _Trial(base, step, float(positive("epsilon", epsilon)), level)

    @property
    def variance(self) -> float:
        """Of one patient, half way between the hypotheses."""
        middle = self.rate + self.effect / 2
        return middle * (1 - middle)

    def power(self, n: float) -> float:
        """The chance that the upper critical value is passed."""
        deviation, scale = math.sqrt(self.variance / n), 1 / (self.epsilon * n)
        critical = _quantile(1 - self.alpha / 2, 0.0, deviation, scale)
        return float(normal_laplace_cdf(self.effect - critical, 0.0, deviation, scale))  # the law is symmetric

    def critical(self, n: float) -> float:
        """The noisy share beyond which the trial rejects."""
        return self.rate + _quantile(1 - self.alpha / 2, 0.0, math.sqrt(self.variance / n), 1 / (self.epsilon * n))


def trial_power(n: float, rate: float, effect: float, *, epsilon: float, alpha: float = 0.05) -> float:
    """The power of a trial of n patients whose noisy share is tested against `rate` when the truth is rate + effect."""
    return _Trial.of(rate, effect, epsilon, alpha).power(float(positive("n", n)))


def critical_share(n: float, rate: float, effect: float, *, epsilon: float, alpha: float = 0.05) -> float:
    """The noisy share above which a trial of n patients rejects `rate`, with alpha / 2 on this side.

    >>> round(critical_share(501, 0.5, 0.1, epsilon=0.1), 4)
    0.5721
    """
    return _Trial.of(rate, effect, epsilon, alpha).critical(float(positive("n", n)))


def sample_size(
    rate: float, effect: float, *, epsilon: float, alpha: float = 0.05, power: float = 0.8,
    method: Literal["exact", "approximate"] = "exact",
) -> SampleSize:
    """The patients that a trial needs to tell `rate + effect` from `rate`, its share published for epsilon.

    `exact` solves for the law of normal plus Laplace noise; `approximate` takes the noise for normal too, which is a
    closed form and errs to more patients.

    >>> sample_size(0.5, 0.1, epsilon=1, method="approximate")
    SampleSize(plain=194.26, private=202.03, times=1.040, people=203)

    Guarantee
        Statement: the share of successes plus Laplace noise of scale 1 / (epsilon n) is epsilon-DP. The sample size
        is a statement about power, not about privacy.
        Conditions: replace-one, n public. Under add-remove publish the count, scale 1 / epsilon, and n privately.
        Proved in: Vu and Slavkovic 2009, equations for the adjusted sample size; the exact one solves
        F1^-1(1 - alpha/2) = F2^-1(beta), beta = 1 - power, for laws F1 and F2 under the two hypotheses.
        Correction: (9.6) of the source has mu0 in place of mu0 + effect on the right, its root equation 1 - beta in
        place of beta (no n solves that), and it gives the noise's deviation, sqrt(2) / (epsilon n), as its scale.
    """
    if method not in ("exact", "approximate"):
        raise ParameterError(f"method must be exact or approximate, not {method!r}")
    wanted = float(positive("power", power))
    trial = _Trial.of(rate, effect, epsilon, alpha)
    if not trial.alpha / 2 < wanted < 1:
        raise ParameterError(f"power must be between alpha / 2 and 1, not {wanted:g}")
    z = NormalDist().inv_cdf(1 - trial.alpha / 2) + NormalDist().inv_cdf(wanted)
    plain = z**2 * trial.variance / trial.effect**2
    ratio = 8 * trial.effect**2 / (trial.epsilon**2 * z**2 * trial.variance**2)
    near = plain * (0.5 + 0.5 * math.sqrt(1 + ratio))
    if method == "approximate":
        return SampleSize(plain, near)
    from scipy.optimize import brentq

    low, high = plain / 4, near * 2
    while trial.power(high) < wanted:
        high *= 2
    while trial.power(low) > wanted:
        low /= 2
    return SampleSize(plain, float(brentq(lambda n: trial.power(n) - wanted, low, high, xtol=1e-9, rtol=1e-13)))
