"""Optimal composition of (eps, delta) guarantees: the least that can be said when nothing else is known of the mechanisms.

The worst mechanisms are leaky randomised responses, so their composed privacy loss is a sum of independent signs and its
hockey-stick sum is both necessary and sufficient, adaptively too. Equal rows (Kairouz, Oh, Viswanath 2015) are a binomial
sum, in O(sqrt(count)). Unequal rows (Murtagh and Vadhan 2016) are #P-complete in general: few of them are computed exactly by
meeting in the middle, many on a grid with a certified bracket. All sums are of positive terms, so tiny deltas keep their digits.

>>> round(epsilon_optimal(0.1, 0.0, 100, 1e-6), 8)
4.77456759
>>> round(epsilon_heterogeneous([(1.0, 0.0), (0.5, 0.0, 2), (0.25, 0.0, 4)], 1e-5).upper, 9)
2.999646482
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.bound import Bound
from tacit.accounting.special import gammaln
from tacit.accounting.theorems.composition import Row, rows_checked, spare_delta, total_delta
from tacit.errors import UnsupportedError
from tacit.parameters import count, nonnegative, number, positive, probability

Array = NDArray[np.float64]

_SLACK = 1e-11  # relative rounding error allowed for, in a delta; the tests find less than 1e-12
_EXACT = 2**17  # atoms in each half that are met in the middle
_CHUNK = 2**13  # atoms put on the grid together
_GRID = 2**18


# --- binomial weights, to full relative accuracy at counts of a million ------------------------------------------------------


def _deviance(e: Array) -> Array:
    """(1 + e) log(1 + e) - e, accurate near zero, 1 at e = -1."""
    small = np.clip(e, -0.25, 0.25)
    series = np.zeros_like(small)
    for n in range(26, 1, -1):
        series = 1 / (n * (n - 1)) - small * series
    with np.errstate(divide="ignore", invalid="ignore"):
        large = np.where(e > -1, (1 + e) * np.log1p(e) - e, 1.0)
    return np.asarray(np.where(np.abs(e) < 0.25, series * small**2, large))


def _stirling(n: Array) -> Array:
    """log n! minus Stirling's formula (n + 1/2) log n - n + log(2 pi)/2, for n >= 1."""
    direct = gammaln(np.minimum(n, 16.0) + 1) - (np.minimum(n, 16.0) + 0.5) * np.log(np.minimum(n, 16.0)) + np.minimum(n, 16.0)
    x = np.maximum(n, 16.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * x**2)) / x**2) / x**2) / x**2) / x
    return np.asarray(np.where(n <= 16, direct - 0.5 * math.log(2 * math.pi), series))


def _log_binomial(k: int, hits: Array, eps: float) -> Array:
    """log P[Binomial(k, e^eps/(1+e^eps)) = hits] by deviations from the mean (Loader 2000): no large terms cancel."""
    log_high = -math.log1p(math.exp(-eps))
    high, low = k * math.exp(log_high), k * math.exp(log_high - eps)
    if k == 1 or low == 0:
        return np.asarray(hits * log_high + (k - hits) * (log_high - eps) + gammaln(k + 1) - gammaln(hits + 1) - gammaln(k - hits + 1))
    inner = np.clip(hits, 1, k - 1)
    away = (inner - k / 2) - (k / 2) * math.tanh(eps / 2) if eps < 1 else low - (k - inner)  # hits minus their mean
    middle = _stirling(np.asarray(float(k))) - _stirling(inner) - _stirling(k - inner)
    middle = middle - high * _deviance(away / high) - low * _deviance(-away / low)
    middle = middle + 0.5 * np.log(k / (2 * math.pi * inner * (k - inner)))
    return np.where(hits <= 0, k * (log_high - eps), np.where(hits >= k, k * log_high, middle))


def _window(k: int, eps: float, log_target: float) -> Array:
    """The numbers of hits outside which the binomial mass is below e^-60 times the target, relative to any partial sum in use."""
    mean = k / (1 + math.exp(-eps))
    reach = math.sqrt(k * (60 - log_target) / 2) + 60
    return np.arange(max(0.0, math.floor(mean - reach)), min(float(k), math.ceil(mean + reach)) + 1)


# --- equal rows -------------------------------------------------------------------------------------------------------------


def log_leak(eps0: float, uses: int, eps: float) -> float:
    """log of E[max(0, 1 - e^(eps - Z))], Z the loss of `uses` randomised responses: the logarithm of delta_optimal at delta0 = 0.

    >>> round(log_leak(1.0, 1000, 900.0), 6)
    -169.519124
    """
    eps0, k, eps = float(nonnegative("eps0", eps0)), count("uses", uses), float(number("eps", eps))
    if eps >= k * eps0:
        return -math.inf
    # the smallest number of hits whose loss (2 hits - k) eps0 exceeds eps, and a window above it or round the mean
    least = max(0.0, math.floor((eps / eps0 + k) / 2) - 1) if eps > -math.inf and eps0 > 0 else 0.0
    mean = k / (1 + math.exp(-eps0))
    reach = math.sqrt(k * 30.0) + 60
    hits = np.arange(max(least, math.floor(mean - reach)), min(float(k), math.ceil(max(mean, least) + reach)) + 1)
    with np.errstate(divide="ignore", over="ignore"):
        terms = _log_binomial(k, hits, eps0) + np.log(np.maximum(-np.expm1(eps - (2 * hits - k) * eps0), 0.0))
    top = float(terms.max())
    return min(0.0, top + math.log(float(np.exp(terms - top).sum()))) if top > -math.inf else -math.inf


def delta_optimal(eps0: float, delta0: float, uses: int, eps: float) -> float:
    """The least delta for which every adaptive composition of `uses` (eps0, delta0)-DP mechanisms is (eps, delta)-DP, at any real eps.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3, extended between the multiples of eps0 (Steinke 2022, section 3.7).

    >>> round(delta_optimal(1.0, 0.0, 2, 1.0), 10)
    0.3378347121
    """
    delta0 = float(probability("delta0", delta0))
    leak = math.exp(log_leak(eps0, uses, eps))
    gone = total_delta([(eps0, delta0, uses)])
    return min(1.0, gone + (1 - gone) * leak)


def epsilon_optimal(eps0: float, delta0: float, uses: int, delta: float) -> float:
    """The least eps >= 0 for which every adaptive composition of `uses` (eps0, delta0)-DP mechanisms is (eps, delta)-DP, rounded up.

    Between two multiples of eps0 delta is linear in e^eps, so the root is found exactly once its interval is known.

    >>> round(epsilon_optimal(0.1, 1e-8, 100, 1e-5), 9)
    4.329636714
    """
    eps0, k = float(nonnegative("eps0", eps0)), count("uses", uses)
    spare = spare_delta([(eps0, delta0, k)], delta)
    if delta == 1:
        return 0.0
    if spare < 0:
        return math.inf
    if spare == 0 or eps0 == 0:
        return k * eps0
    log_spare = math.log(spare) - _SLACK
    hits = _window(k, eps0, log_spare)
    with np.errstate(over="ignore"):
        weights = np.exp(_log_binomial(k, hits, eps0) - log_spare)  # in units of the target

    def leak(at: int) -> Array:
        """The terms of the sum at eps = (2 hits[at] - k) eps0."""
        return np.asarray(-weights[at + 1 :] * np.expm1(-2 * eps0 * (hits[at + 1 :] - hits[at])))

    low, high = 0, hits.size - 1  # leak(low) > 1 >= leak(high)
    if leak(low).sum() <= 1:
        return max(0.0, float((2 * hits[low] - k) * eps0))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if leak(middle).sum() > 1 else (low, middle)
    # below the knot of `high` the leak grows by (1 - e^-short) sum w e^(-2 eps0 (hits - knot)), all terms positive
    growth = float((weights[high:] * np.exp(-2 * eps0 * (hits[high:] - hits[high]))).sum())
    part = (1 - float(leak(high).sum())) / growth
    knot, short = float((2 * hits[high] - k) * eps0), min(-math.log1p(-part) if part < 1 else math.inf, 2 * eps0)
    return min(max(0.0, knot - short + 3e-16 * (abs(knot) + short)), k * eps0)


# --- unequal rows -----------------------------------------------------------------------------------------------------------


def _atoms(eps: float, times: int, log_target: float) -> tuple[Array, Array]:
    """Losses and log-masses of `times` randomised responses."""
    hits = _window(times, eps, log_target)
    return (2 * hits - times) * eps, _log_binomial(times, hits, eps)


def _gather(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The sum of independent losses: all combinations."""
    losses, logs = np.zeros(1), np.zeros(1)
    for z, p in parts:
        losses, logs = (losses[:, None] + z).ravel(), (logs[:, None] + p).ravel()
    return losses, logs


class _Middle:
    """The exact leak E[max(0, 1 - e^(eps - X - Y))] of two independent losses with known atoms, in O(n log n) a value.

    S(t) = E[max(0, 1 - e^(t - Y))] is known at the atoms of Y by a sum of positive terms, S(y) e^-y = sum (e^-y - e^-y') P[Y >= y'],
    and between two of them by (1 - e^(t-y)) P[Y >= y] + e^(t-y) S(y).
    """

    def __init__(self, one: tuple[Array, Array], other: tuple[Array, Array]) -> None:
        (self.x, self.log_x), (y, log_y) = one, other
        order = np.argsort(-y, kind="stable")
        self.y = y[order]
        with np.errstate(divide="ignore"):
            # extended precision where the platform has it: the running sums are long
            self.above = np.logaddexp.accumulate(log_y[order].astype(np.longdouble))
            steps = np.log(-np.expm1(np.diff(self.y))) - self.y[1:] + self.above[:-1]
            self.scaled = np.logaddexp.accumulate(np.append(np.longdouble(-np.inf), steps))
        self.flat = -self.y  # ascending, for searchsorted

    def log_leak(self, eps: float) -> float:
        t = eps - self.x
        at = np.searchsorted(self.flat, -t, side="left") - 1  # the smallest atom of Y above t
        t, at, weight = t[at >= 0], at[at >= 0], self.log_x[at >= 0]
        if t.size == 0:
            return -math.inf
        with np.errstate(divide="ignore"):
            value = weight + np.logaddexp(np.log(-np.expm1(t - self.y[at])) + self.above[at], t + self.scaled[at])
        top = value.max()
        return float(top + np.log(np.exp(value - top).sum())) if top > -math.inf else -math.inf

    def log_upper(self, eps: float) -> float:
        return self.log_leak(eps) + _SLACK

    def log_lower(self, eps: float) -> float:
        return self.log_leak(eps) - _SLACK


class _Grid:
    """A certified bracket on the leak of many independent losses, on a grid of step h, by one FFT of the exponentially tilted law.

    Upper: each group of losses is split between its two neighbouring grid points with both its P- and its Q-mass kept (connect the
    dots, Doroshenko et al. 2022), which can only raise a hockey-stick divergence. Lower: under Q the split is a martingale in e^Z
    that moves the total by at most tau = groups * h, so it raises the leak by at most e^eps (e^tau - 1) Q[|Z - eps| <= tau].
    Wrap-around: a tilted sum of signs leaves 12 sqrt(sum eps^2) round its mean with probability below e^-71 (Hoeffding 1963).
    """

    def __init__(self, parts: list[tuple[Array, Array]], square: float, tilt: float) -> None:
        spread = math.sqrt(square)
        self.step, self.tilt = 25 * spread / (_GRID - 4 * len(parts)), tilt
        self.tau = len(parts) * self.step
        self.log_norm, mean, spectrum = 0.0, 0.0, np.ones(_GRID // 2 + 1, dtype=complex)
        for z, log_p in parts:
            low = np.floor(z / self.step)
            rest = z - low * self.step
            share = np.clip(np.expm1(-rest) / math.expm1(-self.step), 0.0, 1.0)  # P-mass to the upper point
            logs = log_p + tilt * low * self.step
            top = float(logs.max())
            down, up = np.exp(logs - top) * (1 - share), np.exp(logs - top + tilt * self.step) * share
            total = float(down.sum() + up.sum())
            mean += float((down @ low + up @ (low + 1)) / total)
            index = np.concatenate([low, low + 1]).astype(np.int64) % _GRID
            spectrum *= np.fft.rfft(np.bincount(index, weights=np.concatenate([down, up]) / total, minlength=_GRID))
            self.log_norm += top + math.log(total)
        masses = np.fft.irfft(spectrum, _GRID)
        first = round(mean) - _GRID // 2
        self.losses = (first + np.arange(_GRID)) * self.step
        self.masses = np.maximum(np.roll(masses, -(first % _GRID)), 0.0)

    def _leaks(self, eps: float) -> tuple[float, float, float]:
        """(logarithm of the unit, leak on the grid, its possible excess), the last two in that unit."""
        start = int(np.searchsorted(self.losses, eps - self.tau, side="left"))
        gap = self.losses[start:] - eps
        with np.errstate(over="ignore"):
            tilted = self.masses[start:] * np.exp(-self.tilt * gap)
            leak = float((tilted * np.maximum(-np.expm1(-gap), 0.0)).sum())
            near = np.abs(gap) <= self.tau
            excess = math.expm1(self.tau) * float((tilted[near] * np.exp(-gap[near])).sum())
        return self.log_norm - self.tilt * eps, leak, excess

    def log_upper(self, eps: float) -> float:
        unit, leak, _ = self._leaks(eps)
        return min(0.0, unit + math.log(leak * (1 + _SLACK) + 1e-12))

    def log_lower(self, eps: float) -> float:
        unit, leak, excess = self._leaks(eps)
        value = leak * (1 - _SLACK) - excess - 1e-12
        return unit + math.log(value) if value > 0 else -math.inf


def _merged(rows: Sequence[Row]) -> dict[float, int]:
    groups: dict[float, int] = {}
    for eps, _, times in rows_checked(rows):
        if eps > 0:
            groups[eps] = groups.get(eps, 0) + times
    return groups


def _saddle(groups: dict[float, int], *, eps: float | None = None, log_leak: float | None = None) -> float:
    """The tilt whose mean loss is eps, or whose Chernoff bound is the leak; any tilt is valid, this one keeps the digits."""
    e, n = np.array(list(groups)), np.array(list(groups.values()), dtype=float)

    def short(tilt: float) -> bool:
        lean = np.tanh((2 * tilt + 1) * e / 2)
        if eps is not None:
            return float(n @ (e * lean)) < eps
        log_mgf = n @ (np.logaddexp((2 * tilt + 1) * e, 0.0) - tilt * e - np.logaddexp(e, 0.0))
        return float(log_mgf - tilt * (n @ (e * lean))) > (log_leak or 0.0)

    low, high = 0.0, min(1e4 / math.sqrt(float(n @ e**2)), 30 / float(e.min()))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return low


def _leaker(groups: dict[float, int], *, eps: float | None = None, log_leak: float | None = None) -> tuple[_Middle | _Grid, str]:
    atoms = sorted((_atoms(e, n, log_leak if log_leak is not None else -700.0) for e, n in groups.items()), key=lambda a: -a[0].size)
    halves: tuple[list[tuple[Array, Array]], list[tuple[Array, Array]]] = ([], [])
    sizes = [1, 1]
    for part in atoms:
        side = int(sizes[1] < sizes[0])
        halves[side].append(part)
        sizes[side] *= part[0].size
    if max(sizes) <= _EXACT:
        return _Middle(_gather(halves[0]), _gather(halves[1])), "optimal composition (exact)"
    chunks: list[list[tuple[Array, Array]]] = []
    size = _CHUNK + 1
    for part in atoms:
        if size * part[0].size > _CHUNK:
            chunks.append([])
            size = 1
        chunks[-1].append(part)
        size *= part[0].size
    square = math.fsum(n * e * e for e, n in groups.items())
    tilt = _saddle(groups, eps=eps, log_leak=log_leak)
    return _Grid([_gather(c) for c in chunks], square, tilt), "optimal composition (grid)"


def delta_heterogeneous(rows: Sequence[Row], eps: float) -> Bound:
    """The least delta for which every adaptive composition of the rows (eps_j, delta_j, count_j) is (eps, delta)-DP, at any real eps.

    >>> delta_heterogeneous([(1.0, 0.0), (0.5, 0.0, 2), (0.25, 0.0, 4)], 2.0).method
    'optimal composition (exact)'
    """
    checked, eps = rows_checked(rows), float(number("eps", eps))
    gone, groups = total_delta(checked), _merged(checked)
    if math.inf in groups:
        return Bound(1.0, 1.0, "optimal composition (exact)")
    if len(groups) == 0:
        leak = max(0.0, -math.expm1(eps)) if eps < 0 else 0.0
        return Bound(gone + (1 - gone) * leak, gone + (1 - gone) * leak, "optimal composition (exact)")
    leaker, method = _leaker(groups, eps=eps)
    top = math.fsum(n * e for e, n in groups.items())
    upper = math.exp(min(0.0, leaker.log_upper(eps))) if eps < top else 0.0
    lower = math.exp(min(0.0, leaker.log_lower(eps))) if eps < top else 0.0
    return Bound(gone + (1 - gone) * lower, min(1.0, gone + (1 - gone) * upper), method)


def epsilon_heterogeneous(rows: Sequence[Row], delta: float) -> Bound:
    """The least eps >= 0 for which every adaptive composition of the rows (eps_j, delta_j, count_j) is (eps, delta)-DP.

    Murtagh and Vadhan 2016, Theorem 1.5. Rows of equal eps cost one more than their number, not two to its power.

    >>> bound = epsilon_heterogeneous([(0.02 * j, 1e-8) for j in range(1, 16)], 1e-6)
    >>> round(bound.lower, 9), round(bound.upper, 9)
    (2.391035569, 2.391035569)
    """
    checked, delta = rows_checked(rows), float(probability("delta", delta))
    groups, spare = _merged(checked), spare_delta(checked, delta)
    exact = "optimal composition (exact)"
    if delta == 1 or (spare >= 0 and not groups):
        return Bound(0.0, 0.0, exact)
    if spare < 0 or math.inf in groups:
        return Bound(math.inf, math.inf, exact)
    top = math.fsum(n * e for e, n in groups.items())
    if spare == 0:
        return Bound(top, top, exact)
    leaker, method = _leaker(groups, log_leak=math.log(spare))
    upper = _crossing(leaker.log_upper, math.log(spare), top)
    return Bound(_below(leaker.log_lower, math.log(spare), upper), upper, method)


def _crossing(log_leak: Callable[[float], float], log_target: float, top: float) -> float:
    """An eps in [0, top] at which a decreasing leak has just fallen to the target; top itself always has.

    Regula falsi on the logarithm, with the Illinois rule, and every fourth step a bisection; the safe end is returned.
    """
    low, high = 0.0, top
    at_low, at_high = log_leak(low) - log_target, log_leak(high) - log_target
    if at_low <= 0:
        return 0.0
    if at_high > 0:
        return top
    for turn in range(200):
        middle = (low + high) / 2
        if math.isfinite(at_high) and turn % 4 != 3:
            middle = high - (high - low) * at_high / (at_high - at_low)
        if not low < middle < high or high - low <= 1e-14 * high or -1e-13 < at_high <= 0:
            break
        value = log_leak(middle) - log_target
        if value > 0:
            low, at_low, at_high = middle, value, at_high / 2
        else:
            high, at_high, at_low = middle, value, at_low / 2
    return high


def _below(log_leak: Callable[[float], float], log_target: float, upper: float) -> float:
    """An eps just below `upper` at which the leak still exceeds the target, by steps that grow and then halve; 0 if there is none."""
    step = 1e-14 * upper
    while step < upper and log_leak(upper - step) < log_target:
        step *= 4
    if step >= upper:
        return 0.0
    short = step / 4
    for _ in range(6):
        middle = (short + step) / 2
        short, step = (middle, step) if log_leak(upper - middle) < log_target else (short, middle)
    return upper - step


# --- what no composition can beat -------------------------------------------------------------------------------------------


def mean_error_floor(records: int, queries: int, eps: float, delta: float) -> float:
    """No (eps, delta)-DP answer to `queries` means of bits over `records` people (replace-one) has a smaller worst root mean square error.

    min(sqrt(k)/(16 n (e^eps - 1)), 1/10) (Steinke 2022, Theorem 3.24), whose conditions are checked: delta <= 1/(100 n), as above
    it releasing a random record is allowed, and k >= 200 (e^eps - 1)^2 n.

    >>> round(mean_error_floor(1000, 600_000, 1.0, 1e-5), 10)
    0.0281748262
    """
    n, k = count("records", records), count("queries", queries)
    eps, delta = float(positive("eps", eps)), float(probability("delta", delta))
    gain = math.expm1(eps) if eps < 700 else math.inf
    if delta > 1 / (100 * n):
        raise UnsupportedError(f"the lower bound needs delta <= 1/(100 records) = {1 / (100 * n)}, not {delta}")
    if k < 200 * gain**2 * n:
        raise UnsupportedError(f"the lower bound needs queries >= 200 (e^eps - 1)^2 records = {200 * gain**2 * n}, not {k}")
    return min(math.sqrt(k) / (16 * n * gain), 0.1)
