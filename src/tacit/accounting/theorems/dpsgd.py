"""Noisy gradient descent: three textbook recipes, each from noise to epsilon and from epsilon to the least noise.

Each function takes either `noise` or `epsilon` and returns a `Recipe` with both. Every recipe clips each person's gradient
to norm `clip` and adds noise to a mean with a *fixed* divisor. What one person can change depends on the relation:

- replacing a person (recipes 1 and 2) moves a sum of clipped gradients by up to 2 * clip, not clip;
- adding or removing a person (recipe 3) moves it by up to clip, and the divisor must not be the random size of the batch.

These are theorems with closed forms, kept for comparison; `account` prices the same training more tightly.

>>> pure_without_replacement(size=1000, batch=100, steps=100, clip=0.5, epsilon=1.0).noise.__round__(10)
0.1044210404
>>> full_batch_zcdp(size=1000, steps=100, clip=0.5, delta=1e-5, epsilon=1.0, conversion="basic").noise.__round__(10)
0.0490055517
>>> poisson_renyi(size=1000, batch=100, steps=100, clip=1.0, delta=1e-5, epsilon=1.0).noise.__round__(10)
0.0427761139
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.events.tree import Adjacency
from tacit.accounting.theorems import conversions, gaussian, renyi
from tacit.errors import ParameterError
from tacit.parameters import count, number, positive, probability

Array = NDArray[np.float64]
Conversion = Literal["basic", "improved", "exact"]
Cost = Callable[[float], float]  # noise to epsilon

ORDERS: Array = np.arange(2.0, 513.0)
ORDERS.setflags(write=False)


@dataclass(frozen=True)
class Recipe:
    """Noise on the mean gradient (a Laplace scale or a standard deviation) and the (epsilon, delta) it gives under `adjacency`."""

    noise: float
    epsilon: float
    delta: float
    adjacency: Adjacency


def _answer(
    cost: Cost, least: Callable[[float], float], noise: float | None, epsilon: float | None, delta: float, relation: Adjacency
) -> Recipe:
    """From noise to epsilon by `cost`, or from epsilon to noise by `least` and then up until the cost is met."""
    if (noise is None) == (epsilon is None):
        raise ParameterError("give either noise (to get its epsilon) or epsilon (to get the least noise), not both and not neither")
    if noise is not None:
        given = float(positive("noise", noise))
        return Recipe(given, cost(given), delta, relation)
    target = float(positive("epsilon", epsilon))
    found, factor = least(target), 1 + 1e-15
    while cost(found) > target:
        found, factor = found * factor, factor * factor
    return Recipe(found, cost(found), delta, relation)


def _least_noise(cost: Cost, target: float, start: float) -> float:
    """The least noise whose cost is at most the target, to 1e-13 from above: the cost decreases in the noise."""
    high = start
    while cost(high) > target:
        high *= 2
        if high > 1e18 * start:
            raise ParameterError(f"no amount of noise reaches epsilon = {target} at these orders; ask for a larger epsilon or delta")
    low = high / 2
    while low > 1e-18 * start and cost(low) <= target:
        low, high = low / 2, low
    at_low, at_high = (math.log(max(cost(x), 1e-300)) - math.log(target) for x in (low, high))
    for turn in range(200):  # regula falsi on the logarithm (Illinois), with a bisection now and then
        middle = math.sqrt(low * high)
        if math.isfinite(at_low) and turn % 4 != 3:
            middle = math.exp(math.log(high) - math.log(high / low) * at_high / (at_high - at_low))
        if not low < middle < high or -1e-13 < at_high <= 0:
            break
        found = cost(middle)
        value = math.log(max(found, 1e-300)) - math.log(target)
        if found > target:
            low, at_low, at_high = middle, value, at_high / 2
        else:
            high, at_high, at_low = middle, value, at_low / 2
    return high


def pure_without_replacement(
    *, size: int, batch: int, steps: int, clip: float, noise: float | None = None, epsilon: float | None = None
) -> Recipe:
    """Recipe 1, pure DP: `steps` batches of `batch` of `size` people without replacement, Laplace noise of scale `noise` per coordinate.

    The mean of a batch moves by 2 clip/batch in l1 norm when a person is replaced, so one step on its batch is eps0-DP with
    eps0 = 2 clip/(batch noise), log(1 + (batch/size)(e^eps0 - 1))-DP by sampling, and the steps add up:
    noise = 2 clip / (batch log(1 + (size/batch)(e^(epsilon/steps) - 1))).

    For pure DP a full batch needs no more noise than a small one.

    **Guarantee.** epsilon-DP under replace-one, if each gradient is clipped to l1 norm `clip` (Balle, Barthe, Gaboardi 2018, Theorem 9;
    basic composition). Yıldırım's slides print the same formula with sensitivity `clip`, which holds if each is clipped to clip/2.

    >>> round(pure_without_replacement(size=1000, batch=1000, steps=100, clip=0.5, epsilon=1.0).noise, 10)  # 2 clip steps/(size epsilon)
    0.1
    """
    n, m, t = count("size", size), count("batch", batch), count("steps", steps)
    clip = float(positive("clip", clip))
    if m > n:
        raise ParameterError(f"batch must be at most size ({n}) without replacement, not {m}")

    def cost(scale: float) -> float:
        return t * _amplified(m / n, 2 * clip / (m * scale))

    def least(target: float) -> float:
        return 2 * clip / (m * _amplified(n / m, target / t))

    return _answer(cost, least, noise, epsilon, 0.0, Adjacency.REPLACE_ONE)


def _amplified(rate: float, eps: float) -> float:
    """log(1 + rate (e^eps - 1)), for a rate above 1 too."""
    return math.log1p(rate * math.expm1(eps)) if eps < 30 else eps + math.log(rate + (1 - rate) * math.exp(-eps))


def full_batch_zcdp(
    *,
    size: int,
    steps: int,
    clip: float,
    delta: float,
    noise: float | None = None,
    epsilon: float | None = None,
    conversion: Conversion = "improved",
) -> Recipe:
    """Recipe 2, concentrated DP: `steps` full-batch gradients, Gaussian noise of standard deviation `noise` on their mean.

    rho = steps (2 clip/size)^2 / (2 noise^2). The basic conversion gives noise^2 = steps (2 clip)^2 / (2 size^2 rho) with
    rho = (sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2; "improved" is tighter, and "exact" uses that all the noise is Gaussian.

    **Guarantee.** (epsilon, delta)-DP under replace-one, if each gradient is clipped to l2 norm `clip` (Steinke 2022, Lemma 3.12,
    Theorem 3.13, and Remark 3.15 or Proposition 3.14 or Corollary 3.8). The slides' rho lacks its square, their variance has rho
    squared and lacks a factor 2, and their sensitivity is half the true one.

    >>> round(full_batch_zcdp(size=1000, steps=100, clip=0.5, delta=1e-5, epsilon=1.0, conversion="exact").noise, 10)
    0.0373063163
    """
    n, t = count("size", size), count("steps", steps)
    clip, delta = float(positive("clip", clip)), float(probability("delta", delta))
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be between 0 and 1, both excluded, not {delta}; for delta = 0 use pure_without_replacement")
    unit = math.sqrt(t) * 2 * clip / n  # of the mean over all steps; mu = unit/noise
    half = unit * unit / 2  # rho = half/noise^2
    pairs: dict[str, tuple[Cost, Callable[[float], float]]] = {
        "basic": (
            lambda s: conversions.zcdp_epsilon_basic(half / s**2, delta),
            lambda e: math.sqrt(half / conversions.zcdp_rho_basic(e, delta)),
        ),
        "improved": (lambda s: conversions.zcdp_epsilon(half / s**2, delta), lambda e: math.sqrt(half / conversions.zcdp_rho(e, delta))),
        "exact": (lambda s: gaussian.epsilon(unit / s, delta), lambda e: unit / gaussian.mu_for(e, delta)),
    }
    if conversion not in pairs:
        raise ParameterError(f"conversion must be one of {', '.join(pairs)}, not {conversion!r}")
    return _answer(*pairs[conversion], noise, epsilon, delta, Adjacency.REPLACE_ONE)


def poisson_renyi(
    *, size: int, batch: float, steps: int, clip: float, delta: float, noise: float | None = None,
    epsilon: float | None = None, conversion: Literal["basic", "improved"] = "improved",
    orders: ArrayLike = ORDERS,
) -> Recipe:
    """Recipe 3, Rényi DP: each person joins each of `steps` batches with probability batch/size; Gaussian noise of standard
    deviation `noise` on the sum of the clipped gradients over `batch`, the expected size, fixed.

    The base of the amplification is the noise multiplier noise * batch / clip: the sensitivity of what is computed *on the sample*.
    Taking the full data's clip/size there counts the amplification twice.

    **Guarantee.** (epsilon, delta)-DP under add/remove, if each gradient is clipped to l2 norm `clip` (Steinke 2022, Theorem 3.33,
    Lemma 3.30, Lemma 3.32.8; integer `orders`).

    >>> recipe = poisson_renyi(size=60_000, batch=256, steps=14_063, clip=1.0, delta=1e-5, noise=1.12 / 256)
    >>> round(recipe.epsilon, 6)
    2.521559
    """
    from tacit.accounting.theorems import subsampled_renyi

    n, t, m = count("size", size), count("steps", steps), float(positive("batch", batch))
    clip, delta = float(positive("clip", clip)), float(probability("delta", delta))
    if m > n:
        raise ParameterError(f"batch must be at most size ({n}), not {number('batch', batch)}")
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be between 0 and 1, both excluded, not {delta}; for delta = 0 use pure_without_replacement")
    if conversion not in ("basic", "improved"):
        raise ParameterError(f"conversion must be basic or improved, not {conversion!r}")
    convert = conversions.rdp_epsilon if conversion == "improved" else conversions.rdp_epsilon_basic
    grid = np.unique(np.asarray(orders, dtype=float))

    @cache
    def cost(sigma: float) -> float:
        rho = (clip / (m * sigma)) ** 2 / 2
        return _least_over_orders(grid, lambda a: t * subsampled_renyi.poisson(a, m / n, lambda b: rho * b), delta, convert)

    return _answer(cost, lambda e: _least_noise(cost, e, clip / m), noise, epsilon, delta, Adjacency.ADD_REMOVE)


def _least_over_orders(grid: Array, curve: renyi.Curve, delta: float, convert: Callable[[Array, Array, float], float]) -> float:
    """The least conversion over a sorted grid of orders, from a ladder of them, refined.

    (a-1) eps(a) is convex, so the objective is a convex function over a-1: it has one valley, and the rungs beside the lowest hold it.
    """
    least = math.inf
    while True:
        rungs = np.unique(np.geomspace(1, grid.size, 16).round().astype(int)) - 1
        values = [convert(a, v, delta) for a, v in zip(grid[rungs], curve(grid[rungs]), strict=True)]
        at = int(np.argmin(values))
        least = min(least, values[at])
        if rungs.size == grid.size:
            return least
        grid = grid[rungs[max(at - 1, 0)] : rungs[min(at + 1, rungs.size - 1)] + 1]
