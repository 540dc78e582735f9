"""How far noise moves an answer: error quantiles in closed form, always rounded up, and which noise errs less.

All errors here are absolute and two-sided: the returned value is exceeded with probability at most `beta`. With `dimension` they
hold for all coordinates of one answer at once, exactly (the coordinates' noises are independent); `simultaneous` covers several
answers, however they depend on each other.

>>> round(laplace_error(1, 0.05), 4), round(laplace_error(10, 0.05), 3)  # ln 20, 10 ln 20
(2.9957, 29.957)
>>> round(simultaneous([lambda beta: laplace_error(10, beta)] * 10, 0.05)[0], 3)  # 10 ln 200
52.983
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy.special import gammaincc, gammaln, ndtri_exp

from tacit.accounting import ParameterError, sigma_for
from tacit.parameters import Number, count, number, positive

#: Closed forms below are good to a few units in the last place; this covers them.
_SLACK = 2.0**-48


def rounded_up(value: float) -> float:
    """A float above the true value of a closed form that was computed to nearly full precision.

    >>> rounded_up(1.0) > 1.0
    True
    """
    return math.nextafter(value + abs(value) * _SLACK, math.inf)


def failure(beta: Number) -> float:
    """A failure probability strictly between 0 and 1."""
    found = float(number("beta", beta))
    if not 0 < found < 1:
        raise ParameterError(f"beta must be a failure probability strictly between 0 and 1, such as 0.05, not {found}")
    return found


def per_coordinate(beta: Number, dimension: int = 1) -> float:
    """What each of `dimension` independent coordinates may fail with so that together they fail with probability beta.

    It is 1 - (1 - beta)^(1/dimension), a little more than the union bound's beta / dimension.

    >>> round(per_coordinate(0.05, 10), 7)
    0.0051162
    """
    dimension = count("dimension", dimension)
    return failure(beta) if dimension == 1 else -math.expm1(math.log1p(-failure(beta)) / dimension)


def _log_per_coordinate(beta: Number, dimension: int) -> float:
    """The logarithm of `per_coordinate`, to nearly full relative precision also where that is close to 1."""
    fail = failure(beta)
    if dimension == 1:
        return math.log(fail)
    kept = math.log1p(-fail) / count("dimension", dimension)
    return math.log1p(-math.exp(kept)) if kept < -math.log(2) else math.log(-math.expm1(kept))


def on_lattice(error: float, granularity: Number) -> float:
    """The error of noise that is rounded to multiples of a granularity, from the error before rounding; 0 leaves it as it is.

    A rounded draw exceeds k granules exactly where the draw itself reaches k + 1/2 of them.

    >>> on_lattice(2.9957, 1), on_lattice(2.4, 1), on_lattice(2.9957, 0)
    (3.0, 2.0, 2.9957)
    """
    step = Fraction(number("granularity", granularity))
    if step < 0:
        raise ParameterError(f"granularity must be zero or more, not {granularity}")
    if not step:
        return error
    exact = max(0, math.ceil(Fraction(error) / step - Fraction(1, 2))) * step
    near = float(exact)
    return near if near >= exact else math.nextafter(near, math.inf)


def in_granules(error: int, granularity: Fraction) -> float:
    """A whole error times a granularity as a float, rounded up where no float equals it.

    >>> in_granules(6, Fraction(1, 4)), in_granules(1, Fraction(1, 3)) > Fraction(1, 3)
    (1.5, True)
    """
    exact = error * granularity
    near = float(exact)
    return near if near >= exact else rounded_up(near)


def laplace_error(scale: Number, beta: Number, dimension: int = 1, granularity: Number = 0) -> float:
    """The error of Laplace noise: scale times ln(1/beta) in one dimension, with equality (textbook Theorem 1.10).

    >>> round(laplace_error(0.02, 0.05), 7)
    0.0599146
    """
    scale = float(positive("scale", scale))
    return on_lattice(rounded_up(-scale * _log_per_coordinate(beta, dimension)), granularity)


def laplace_union(scale: Number, beta: Number, dimension: int) -> float:
    """The textbook's bound for vectors, scale * ln(dimension / beta): a little above `laplace_error`.

    >>> round(laplace_union(10, 0.05, 10), 3)
    52.983
    """
    return rounded_up(float(positive("scale", scale)) * math.log(count("dimension", dimension) / failure(beta)))


def gaussian_error(sigma: Number, beta: Number, dimension: int = 1, granularity: Number = 0) -> float:
    """The error of Gaussian noise: sigma times the two-sided normal quantile.

    >>> round(gaussian_error(1, 0.05), 6)
    1.959964
    """
    sigma = float(positive("sigma", sigma))
    # ndtri_exp is good to 1e-13 of its value, and near the median, where that is 0, to a few 1e-16
    quantile = max(0.0, -float(ndtri_exp(_log_per_coordinate(beta, dimension) - math.log(2))))
    return on_lattice(rounded_up(sigma * (quantile * (1 + 1e-12) + 1e-15)), granularity)


def gaussian_union(sigma: Number, beta: Number, dimension: int) -> float:
    """An elementary bound for vectors, sigma * sqrt(2 ln(2 dimension / beta)).

    >>> round(gaussian_union(1, 0.05, 1), 4)
    2.7162
    """
    return rounded_up(float(positive("sigma", sigma)) * math.sqrt(2 * math.log(2 * count("dimension", dimension) / failure(beta))))


def laplace_sum_tail(terms: int, error: float) -> float:
    """P[|sum of `terms` Laplace(1) draws| > error], exactly.

    A Laplace draw is the difference of two exponentials, so the sum is the difference of two gamma variables of shape `terms`. Think
    of two Poisson processes: each next arrival belongs to either with probability 1/2; when one has made its `terms` arrivals and
    the other i of them, what is left between them is a gamma variable of shape terms - i.

    >>> laplace_sum_tail(1, 2.0) == math.exp(-2.0)
    True
    """
    k = count("terms", terms)
    done = np.arange(k)
    log_weight = gammaln(k + done) - gammaln(done + 1) - gammaln(k) - (k + done - 1) * math.log(2)
    return float(np.sum(np.exp(log_weight) * gammaincc(k - done, error))) if k > 1 else math.exp(-error)


def laplace_sum_union(terms: int, beta: Number, scale: Number = 1) -> float:
    """The error of a sum of Laplace draws by the union bound: terms * ln(terms / beta).

    >>> [round(laplace_sum_union(k, 0.05), 3) for k in (2, 3, 10)]
    [7.378, 12.283, 52.983]
    """
    k = count("terms", terms)
    return rounded_up(float(positive("scale", scale)) * k * math.log(k / failure(beta)))


def laplace_sum_chernoff(terms: int, beta: Number, scale: Number = 1) -> float:
    """The error of a sum of Laplace draws by a Chernoff bound: max(sqrt(k), sqrt(ln(2/beta))) * sqrt(8 ln(2/beta)).

    From E exp(tZ) = 1/(1 - t^2) <= exp(2 t^2) for t^2 <= 1/2 (Chan, Shi and Song 2011, Lemma 2.8).

    >>> [round(laplace_sum_chernoff(k, 0.05), 3) for k in (2, 3, 10)]
    [10.434, 10.434, 17.179]
    """
    log = math.log(2 / failure(beta))
    return rounded_up(float(positive("scale", scale)) * max(math.sqrt(count("terms", terms)), math.sqrt(log)) * math.sqrt(8 * log))


def laplace_sum_error(terms: int, beta: Number, scale: Number = 1) -> float:
    """The error of a sum of independent Laplace draws of one scale: the exact quantile, below both bounds above.

    >>> [round(laplace_sum_error(k, 0.05), 2) for k in (1, 2, 10)]
    [3.0, 4.11, 8.86]
    """
    target = failure(beta)
    low, high = 0.0, min(laplace_sum_union(terms, beta), laplace_sum_chernoff(terms, beta))
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        # gammaincc is good to about 1e-13 of its value
        low, high = (low, middle) if laplace_sum_tail(terms, middle) * (1 + 1e-11) <= target else (middle, high)
    return rounded_up(high * float(positive("scale", scale)))


def simultaneous(errors: Sequence[Callable[[float], float]], beta: Number) -> list[float]:
    """Errors that all answers keep at the same time except with probability beta: each at an equal share of beta (union bound).

    `errors` are the answers' own accuracy functions, such as `plan.accuracy`.
    """
    if not errors:
        raise ParameterError("errors is empty; give the accuracy function of at least one answer")
    share = failure(beta) / len(errors)
    return [error(share) for error in errors]


def of_linear_combination(weights: Sequence[Number], errors: Sequence[Callable[[float], float]], beta: Number) -> float:
    """The error of a weighted sum of answers by the union bound, for any mix of noises.

    >>> round(of_linear_combination([1, -1], [lambda beta: laplace_error(1, beta)] * 2, 0.05), 3)
    7.378
    """
    if len(weights) != len(errors):
        raise ParameterError(f"weights and errors must be equally many, not {len(weights)} and {len(errors)}")
    found = simultaneous(errors, beta)
    return rounded_up(math.fsum(abs(float(w)) * e for w, e in zip(weights, found, strict=True)))


def largest_scale(keeps: Callable[[float], bool], guess: float) -> float:
    """The largest scale that keeps a wanted accuracy, to a relative 1e-12, on the side that keeps it.

    >>> round(largest_scale(lambda s: laplace_error(s, 0.05) <= 10, 1.0), 6)
    3.338082
    """
    low = high = guess
    for _ in range(2200):
        if keeps(low):
            break
        low /= 2
    else:
        raise ParameterError("no scale keeps this accuracy: alpha is below what rounding to whole granules alone allows; raise alpha")
    for _ in range(2200):
        if not keeps(high):
            break
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def least_that_keeps(keeps: Callable[[float], bool], tolerance: float = 1e-9) -> float:
    """The least epsilon that keeps a wanted accuracy, to a relative tolerance, on the side that keeps it.

    >>> round(least_that_keeps(lambda epsilon: laplace_error(1 / epsilon, 0.05) <= 10), 6)
    0.299573
    """
    low = high = 1.0
    for _ in range(60):
        if keeps(high):
            break
        low, high = high, high * 2
    else:
        raise ParameterError("no epsilon keeps this accuracy: alpha is below what rounding, or too few rows, alone allow; raise alpha")
    for _ in range(60):
        if low < high:
            break
        low = low / 2
        low, high = (low, low) if keeps(low) else (low, high)
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class NoiseChoice:
    """Which noise errs less for one target, and how much each errs: standard deviations per coordinate."""

    kind: Literal["laplace", "gaussian"]
    laplace: float
    gaussian: float


def choose_noise(
    l1: Number, l2: Number, dimension: int, epsilon: Number, delta: Number, *, calibration: Literal["analytic", "zcdp"] = "analytic"
) -> NoiseChoice:
    """Laplace or Gaussian noise for a vector of the given sensitivities under (epsilon, delta): the smaller standard deviation.

    Gaussian noise pays once sqrt(2) l1 / epsilon exceeds the calibrated sigma. For k counts at (1, 1e-6) that is from k = 9 with the
    analytic calibration, and from k = 15 where rho-zCDP is converted by Bun and Steinke 2016, Proposition 1.3.

    >>> choose_noise(8, 8**0.5, 8, 1, 1e-6).kind, choose_noise(9, 3, 9, 1, 1e-6).kind
    ('laplace', 'gaussian')
    """
    one, two = float(positive("l1", l1)), float(positive("l2", l2))
    if not two * (1 - 1e-9) <= one <= two * math.sqrt(count("dimension", dimension)) * (1 + 1e-9):
        raise ParameterError(
            f"l1 must lie between l2 and l2 * sqrt(dimension), unlike l1={one}, l2={two}, dimension={dimension}; check the sensitivities"
        )
    target, slack = float(positive("epsilon", epsilon)), float(number("delta", delta))
    if not 0 <= slack < 1:
        raise ParameterError(f"delta must be at least 0 and below 1, not {slack}")
    if calibration not in ("analytic", "zcdp"):
        raise ParameterError(f"calibration must be 'analytic' or 'zcdp', not {calibration!r}")
    laplace = math.sqrt(2) * one / target
    if slack == 0:
        spread = math.inf
    elif calibration == "analytic":
        spread = sigma_for(target, slack, two)
    else:
        log = -math.log(slack)
        spread = two / (math.sqrt(2) * (target / (math.sqrt(log + target) + math.sqrt(log))))
    return NoiseChoice("laplace" if laplace <= spread else "gaussian", laplace, spread)
