"""The classical composition theorems for (eps, delta) guarantees, and the simulation lemma behind them.

Every theorem takes rows (eps, delta) or (eps, delta, count), holds when the parameters are fixed and the mechanisms are chosen
adaptively, and returns the composed eps at a total delta: infinity where that delta cannot be met, never more than basic
composition gives. None of them may be used as a filter, that is with parameters chosen after seeing answers.

>>> rows = [(0.1, 1e-8, 100)]
>>> round(basic(rows, 1e-5), 6), round(advanced(rows, 1e-5), 6), round(strong(rows, 1e-5), 6)
(10.0, 5.320433, 5.320016)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, positive, probability

Array = NDArray[np.float64]
Row = tuple[float, float] | tuple[float, float, int]


def rows_checked(rows: Sequence[Row]) -> list[tuple[float, float, int]]:
    """Rows as (eps, delta, count), checked.

    >>> rows_checked([(1, 0), (0.5, 1e-6, 3)])
    [(1.0, 0.0, 1), (0.5, 1e-06, 3)]
    """
    if not rows:
        raise ParameterError("rows is empty; compose at least one (eps, delta) or (eps, delta, count)")
    checked = []
    for row in rows:
        if len(row) not in (2, 3):
            raise ParameterError(f"each row must be (eps, delta) or (eps, delta, count), not {row!r}")
        times = count("count", row[2]) if len(row) == 3 else 1
        eps = float(nonnegative("eps", row[0])) if row[0] != math.inf else math.inf
        checked.append((eps, float(probability("delta", row[1])), times))
    return checked


def total_delta(rows: Sequence[Row]) -> float:
    """The delta that composition cannot avoid: 1 - prod(1 - delta_j), at most the sum (Steinke 2022, proof of Theorem 3.22).

    >>> total_delta([(1.0, 0.5, 2)])
    0.75
    """
    parts = rows_checked(rows)
    kept = sum(n * math.log1p(-d) if d < 1 else -math.inf for _, d, n in parts)
    return min(-math.expm1(kept), math.fsum(n * d for _, d, n in parts), 1.0)


def spare_delta(rows: Sequence[Row], delta: float, *, sharp: bool = True) -> float:
    """What a total delta leaves for the tail of the losses: 1 - (1-delta)/prod(1-delta_j); not sharp: delta - sum delta_j.

    Negative where the total does not even cover the delta_j.

    >>> f"{spare_delta([(0.1, 1e-8, 100)], 1e-5):.9e}"
    '9.000009495e-06'
    """
    parts, delta = rows_checked(rows), float(probability("delta", delta))
    plain = delta - math.fsum(n * d for _, d, n in parts)
    if not sharp or any(d == 1 for _, d, _ in parts) or delta == 1:
        return plain
    return max(plain, -math.expm1(math.log1p(-delta) - math.fsum(n * math.log1p(-d) for _, d, n in parts)))


def basic(rows: Sequence[Row], delta: float) -> float:
    """eps = sum eps_j, once delta covers 1 - prod(1 - delta_j) (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006).

    >>> basic([(0.1, 0.0, 10)], 0.0)
    1.0
    """
    parts, delta = rows_checked(rows), float(probability("delta", delta))
    if delta == 1:
        return 0.0
    return math.fsum(n * e for e, _, n in parts) if total_delta(parts) <= delta else math.inf


def _moments(rows: Sequence[Row], delta: float, drift: str, sharp: bool, or_basic: bool) -> float:
    """The common form: a drift plus sqrt(2 log(1/delta') sum eps_j^2)."""
    parts, delta = rows_checked(rows), float(probability("delta", delta))
    fallback = basic(parts, delta) if or_basic else math.inf
    if delta == 1:
        return 0.0
    spare = spare_delta(parts, delta, sharp=sharp)
    if spare <= 0 or any(e == math.inf for e, _, _ in parts):
        return fallback
    if drift == "half square":
        mean = math.fsum(n * e * e / 2 for e, _, n in parts)
    elif drift == "tanh":
        mean = math.fsum(n * e * math.tanh(e / 2) for e, _, n in parts)
    else:
        mean = math.fsum(n * e * math.expm1(e) if e < 700 else math.inf for e, _, n in parts)
    square = math.fsum(n * e * e for e, _, n in parts)
    return min(fallback, mean + math.sqrt(2 * -math.log(min(spare, 1.0)) * square))


def advanced(rows: Sequence[Row], delta: float, *, sharp: bool = True, or_basic: bool = True) -> float:
    """eps = sum eps_j^2 / 2 + sqrt(2 log(1/delta') sum eps_j^2) (Steinke 2022, Theorems 3.18 and 3.22).

    delta' is `spare_delta`: the sharper value that the proof gives, or delta - sum delta_j as printed with sharp=False.
    or_basic=False leaves out the minimum with basic composition.

    >>> round(advanced([(0.1, 0.0, 100)], 1e-6), 8)
    5.75652177
    """
    return _moments(rows, delta, "half square", sharp, or_basic)


def strong(rows: Sequence[Row], delta: float, *, sharp: bool = True, or_basic: bool = True) -> float:
    """eps = sum eps_j tanh(eps_j/2) + sqrt(2 log(1/delta') sum eps_j^2): the exact mean of the worst loss, and Hoeffding's inequality.

    tanh(eps/2) is (e^eps - 1)/(e^eps + 1) (Kairouz, Oh, Viswanath 2015, Theorem 3.4; Smith's lecture notes, Theorem 1.1).

    >>> round(strong([(0.1, 0.0, 100)], 1e-6), 8)
    5.75610552
    """
    return _moments(rows, delta, "tanh", sharp, or_basic)


def drv(rows: Sequence[Row], delta: float, *, sharp: bool = False, or_basic: bool = True) -> float:
    """The first advanced composition: eps = sum eps_j (e^eps_j - 1) + sqrt(2 log(1/delta') sum eps_j^2) (Dwork, Rothblum, Vadhan 2010).

    >>> round(drv([(0.1, 0.0, 100)], 1e-6), 8)
    6.30823095
    """
    return _moments(rows, delta, "exponential", sharp, or_basic)


def strong_crossover(eps: float, delta: float) -> float:
    """The number of uses from which `strong` beats basic composition: 2 log(1/delta) / (1 - tanh(eps/2))^2.

    >>> round(strong_crossover(0.01, 1e-6), 6)
    27.909415
    """
    eps, delta = float(nonnegative("eps", eps)), float(positive("delta", delta))
    return 2 * -math.log(min(delta, 1.0)) / (1 - math.tanh(eps / 2)) ** 2


def laplace_scale(queries: int, eps: float, delta: float) -> float:
    """The Laplace scale at which `queries` answers of sensitivity 1 satisfy (eps, delta) by `advanced`, rounded up.

    sqrt(k / (2 rho)) with rho = (sqrt(log(1/delta) + eps) - sqrt(log(1/delta)))^2, or k / eps where basic composition is better.

    >>> round(laplace_scale(100, 1.0, 1e-6), 8)
    53.49980062
    """
    k, eps, delta = count("queries", queries), float(positive("eps", eps)), float(probability("delta", delta))
    scale = k / eps
    if 0 < delta < 1:
        log = -math.log(delta)
        scale = min(scale, math.sqrt(k / 2) * (math.sqrt(log + eps) + math.sqrt(log)) / eps)
    while advanced([(1 / scale, 0.0, k)], delta) > eps:
        scale *= 1 + 1e-15
    return scale


# --- the simulation lemma -------------------------------------------------------------------------------------------------


def leaky_randomised_response(eps: float, delta: float) -> tuple[Array, Array]:
    """The worst (eps, delta) pair, over the outcomes 0, 1, "I am U", "I am V" (Kairouz, Oh, Viswanath 2015).

    >>> u, v = leaky_randomised_response(math.log(3), 0.2)
    >>> u.round(3), v.round(3)
    (array([0.6, 0.2, 0.2, 0. ]), array([0.2, 0.6, 0. , 0.2]))
    """
    eps, delta = float(nonnegative("eps", eps)), float(probability("delta", delta))
    high, low = (1 - delta) / (1 + math.exp(-eps)), (1 - delta) * math.exp(-eps) / (1 + math.exp(-eps))
    return np.array([high, low, delta, 0.0]), np.array([low, high, 0.0, delta])


def hockey_stick(p: ArrayLike, q: ArrayLike, eps: float) -> float:
    """sup over events of P(S) - e^eps Q(S), for two finite distributions.

    >>> hockey_stick([0.75, 0.25], [0.25, 0.75], 0.0)
    0.5
    """
    first, second = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    return float(np.maximum(first - math.exp(eps) * second, 0.0).sum())


def _ratio_for(p: Array, q: Array, level: float) -> float:
    """The c >= 1 with sum max(0, p - c q) = level: piecewise linear in c, solved exactly between the ratios p/q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, p / q, 0.0)
    order = np.argsort(-ratio)
    upto_p, upto_q = np.cumsum(p[order]), np.cumsum(q[order])
    # with the outcomes of the m largest ratios active the equation is P_m - c Q_m = level, for c between the ratios m and m + 1
    nexts = np.append(ratio[order][1:], 0.0)
    for total_p, total_q, following in zip(upto_p, upto_q, nexts, strict=True):
        if total_q > 0 and total_p - following * total_q >= level:
            return max(1.0, float((total_p - level) / total_q))
    return 1.0


def simulate(p: ArrayLike, q: ArrayLike, eps: float, delta: float) -> Array:
    """The post-processing F that turns leaky randomised response into the pair (P, Q): row i is the law of F(outcome i).

    Exists exactly when P and Q are (eps, delta)-indistinguishable (Steinke 2022, Lemma 3.23, whose construction this is).

    >>> u, v = leaky_randomised_response(1.0, 0.1)
    >>> f = simulate([0.6, 0.3, 0.1], [0.4, 0.4, 0.2], 1.0, 0.1)
    >>> (u @ f).round(12), (v @ f).round(12)
    (array([0.6, 0.3, 0.1]), array([0.4, 0.4, 0.2]))
    """
    first, second = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    eps, delta = float(nonnegative("eps", eps)), float(probability("delta", delta))
    if max(hockey_stick(first, second, eps), hockey_stick(second, first, eps)) > delta + 1e-12:
        raise ParameterError(f"p and q are not ({eps}, {delta})-indistinguishable, so no post-processing of the worst pair gives them")
    leak = min(delta, hockey_stick(first, second, 0.0))
    common_p = np.minimum(first, _ratio_for(first, second, leak) * second)
    common_q = np.minimum(second, _ratio_for(second, first, leak) * first)
    # what is left over is confessed; a larger delta confesses some of the common part too
    if leak < 1:
        core_p, core_q = common_p / common_p.sum(), common_q / common_q.sum()
    else:
        core_p, core_q = first, second
    confess_p = (first - common_p + (delta - leak) * core_p) / delta if delta > 0 else core_p
    confess_q = (second - common_q + (delta - leak) * core_q) / delta if delta > 0 else core_q
    # below 1e-9 the two cores agree to working precision
    lean = (core_p - core_q) / math.expm1(eps) if eps > 1e-9 else np.zeros_like(core_p)
    zero, one = core_p + lean, core_q - lean
    return np.asarray(np.maximum(np.array([zero, one, confess_p, confess_q]), 0.0))
