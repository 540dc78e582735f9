"""The Gaussian mechanism, exactly: its privacy profile, its calibration and its trade-off curve.

Everything is a function of mu, the sensitivity over the standard deviation (mu-GDP, Dong, Roth, Su 2022). Composed Gaussians
are one Gaussian (`compose`), so these formulas price any number of them. `delta` keeps a relative error below 1e-12 down to
1e-300, and `epsilon`, `mu_for` and `sigma_for` return the safe side of their root. The central-limit figures at the end
are no bounds, and so are no floats.

>>> round(delta(1.0, 1.0), 12)
0.126936737507
>>> round(sigma_for(1.0, 1e-5), 9)
3.730631635
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import special
from tacit.accounting.bound import Estimate
from tacit.accounting.special import FEW, ndtr, ndtri
from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, number, positive, probability

Array = NDArray[np.float64]

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
# The rule of Gauss and Legendre with sixteen nodes on [-1, 1] (DLMF, Table 3.5.4): written down, because numpy would load
# all its polynomials for it. One half; the other is its mirror image.
_HALF = np.array([
    0.9894009349916499, 0.9445750230732326, 0.8656312023878318, 0.755404408355003,
    0.6178762444026438, 0.45801677765722737, 0.2816035507792589, 0.09501250983763744,
])  # fmt: skip
_HALF_WEIGHTS = np.array([
    0.027152459411754176, 0.062253523938647456, 0.0951585116824926, 0.12462897125553407,
    0.1495959888165767, 0.16915651939500265, 0.18260341504492364, 0.18945061045506864,
])  # fmt: skip
_NODES = np.concatenate([-_HALF, _HALF[::-1]])
_WEIGHTS = np.concatenate([_HALF_WEIGHTS, _HALF_WEIGHTS[::-1]])
_SPLIT = 134217729.0  # 2^27 + 1 (Dekker 1971)
_FAR = 12.0  # from here on the asymptotic series of erfcx is shorter than exp and erfc, and more exact
_SLACK = 1e-12  # relative error allowed for in `delta` by every root search


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x). A few values need no scipy: `math.erfc` is good to one unit in the last place or two.

    >>> float(erfcx(np.array(1.0)))
    0.427583576155807
    """
    if x.size > FEW:
        return np.asarray(special.erfcx(x))
    return np.array([_erfcx(value) for value in x.ravel().tolist()]).reshape(x.shape)


def _erfcx(x: float) -> float:
    """One value; x^2 is kept to twice the precision before it is exponentiated."""
    if math.isnan(x):
        return x
    if x >= _FAR:
        return _series(x)
    if x < -26.64:  # twice exp(x^2) is beyond the largest float
        return math.inf
    head = _SPLIT * x
    head -= head - x
    tail = x - head
    square = x * x
    rest = ((head * head - square) + 2 * head * tail) + tail * tail
    return math.exp(square) * math.erfc(x) * (1 + rest)


def _series(x: float) -> float:
    """sum of (-1)^k (2k - 1)!! / (2 x^2)^k over x sqrt(pi): sixteen terms leave 1e-19 at x = 12."""
    ratio = 0.5 / (x * x) if x < 1e150 else 0.0
    total = 1.0
    for k in range(15, 0, -1):
        total = 1 - (2 * k - 1) * ratio * total
    return total / (x * math.sqrt(math.pi))


def mills(x: Array) -> Array:
    """The Mills ratio of the normal law, (1 - Phi(x)) / phi(x).

    >>> mills(np.array([0.0, 10.0])).round(9)
    array([1.25331414, 0.0990286 ])
    """
    return np.asarray(_SQRT_HALF_PI * erfcx(np.asarray(x / math.sqrt(2), dtype=float)))


def _mills_slope(x: Array) -> Array:
    """Minus the derivative of the Mills ratio, 1 - x * mills(x), without its cancellation at large x."""
    near = np.minimum(x, 5.0)
    close = 1 - near * mills(near)
    if (x <= 5.0).all():
        return close
    far = np.maximum(x, 5.0)
    fraction = np.zeros_like(far)
    for n in range(30, 0, -1):  # Laplace's continued fraction: 30 terms give 1e-15 from x = 5 on
        fraction = n / (far + fraction)
    return np.where(x <= 5.0, close, fraction * mills(far))


def mills_drop(x: Array, mu: Array) -> Array:
    """mills(x) - mills(x + mu) for x >= -mu/2, with full relative accuracy for small mu.

    >>> bool(np.isclose(mills_drop(np.array([0.0]), np.array([1e-12]))[0], 1e-12, rtol=1e-9))
    True
    """
    wide = mu > np.maximum(1.0, x / 4)
    if wide.all():
        return mills(x) - mills(x + mu)
    span = np.where(wide, 0.0, mu)
    nodes = x[..., None] + span[..., None] * (1 + _NODES) / 2
    narrow = (_mills_slope(nodes) @ _WEIGHTS) * span / 2
    return np.where(wide, mills(x) - mills(x + mu), narrow)


def _split(mu: ArrayLike, eps: ArrayLike) -> tuple[Array, Array]:
    m, e = np.broadcast_arrays(np.asarray(mu, dtype=float), np.asarray(eps, dtype=float))
    if np.isnan(m).any() or np.isnan(e).any():
        raise ParameterError("mu and eps must be numbers, not NaN")
    if (m < 0).any():
        raise ParameterError(f"mu must be zero or more, not {m.min()}")
    return m, e


def _gap(mu: Array, eps: Array) -> Array:
    """eps/mu - mu/2, with mu^2 kept to twice the precision (Dekker 1971): at large mu the two nearly cancel."""
    head = _SPLIT * mu
    head = head - (head - mu)
    tail = mu - head
    square = mu * mu
    error = ((head * head - square) + 2 * head * tail) + tail * tail
    exact = (mu > 1) & (mu < 1e150)
    return np.where(exact, ((eps - square / 2) - error / 2) / mu, eps / mu - mu / 2)


def _log_delta_positive(mu: Array, eps: Array) -> Array:
    """log delta for eps >= 0 and mu > 0, both finite."""
    x = np.minimum(_gap(mu, eps), 1e150)
    above = np.maximum(x, -np.minimum(mu, 1.0) / 2)  # the scaled form, used where it neither overflows nor cancels
    tail = -0.5 * above**2 - _LOG_SQRT_2PI + np.log(mills_drop(above, mu))
    inside = (x < 0) & (mu > 1)
    if not inside.any():
        return tail
    a = np.maximum(-x, 0.0)
    rest = ndtr(-a) + np.exp(-0.5 * a**2 - _LOG_SQRT_2PI) * mills(mu - a)
    body = np.log1p(-np.minimum(rest, 1 - 2.0**-53))
    return np.where(inside, body, tail)


@overload
def log_delta(mu: float, eps: float) -> float: ...
@overload
def log_delta(mu: float | Array, eps: Array) -> Array: ...
def log_delta(mu: float | Array, eps: float | Array) -> float | Array:
    """The logarithm of `delta`, which goes on where delta underflows.

    >>> round(log_delta(0.01, 1.0), 6)
    -5014.234761
    """
    m, e = _split(mu, eps)
    inner = (m > 0) & np.isfinite(m) & np.isfinite(e)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        size = np.abs(np.where(inner, e, 1.0))
        up = _log_delta_positive(np.where(inner, m, 1.0), size)
        # a symmetric pair has delta(-eps) = 1 - e^-eps + e^-eps delta(eps): no cancellation either
        down = np.logaddexp(np.log(-np.expm1(-size)), up - size)
        value = np.where(e >= 0, up, np.minimum(down, 0.0))
        limit = np.where(m == 0, np.log(np.maximum(-np.expm1(np.minimum(e, 0.0)), 0.0)), 0.0)
        value = np.where(inner, value, np.where(e == np.inf, -np.inf, limit))
    return float(value) if value.ndim == 0 else value


@overload
def delta(mu: float, eps: float) -> float: ...
@overload
def delta(mu: float | Array, eps: Array) -> Array: ...
def delta(mu: float | Array, eps: float | Array) -> float | Array:
    """The smallest delta of the Gaussian mechanism at any real eps (Balle and Wang 2018, Theorem 8; Steinke 2022, Corollary 3.8).

    Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), evaluated as phi times a difference of Mills ratios.

    >>> round(delta(1.0, 0.0), 12)  # total variation, 2 Phi(1/2) - 1
    0.382924922548
    """
    value = np.exp(log_delta(mu, np.asarray(eps, dtype=float)))
    return float(value) if np.ndim(value) == 0 else value


def _target(delta: float) -> float:
    return math.log(delta) - _SLACK


def epsilon(mu: float, delta: float) -> float:
    """The smallest eps >= 0 for which mu-GDP implies (eps, delta)-DP, rounded up.

    log delta is concave in eps (a convolution of log-concave functions), so Newton's steps from the right of the root stay
    on its right: the safe side.

    >>> round(epsilon(1.0, 1e-5), 10)
    4.3771780957
    """
    mu = float(nonnegative("mu", mu)) if mu != math.inf else mu
    delta = float(probability("delta", delta))
    if mu == 0 or delta == 1:
        return 0.0
    if delta == 0 or mu == math.inf:
        return math.inf
    if log_delta(mu, 0.0) <= _target(delta):
        return 0.0
    target = _target(delta)

    def step(eps: float, value: float) -> float:
        x, slope = _slope(mu, eps, value)  # d delta / d eps = -phi(x) mills(x + mu)
        slope *= float(mills(np.asarray(x + mu)))
        return (value - target) / slope if slope > 0 else math.nan

    return _approach(lambda eps: log_delta(mu, eps), step, mu * mu / 2 + mu * math.sqrt(-2 * target), target, 1 + 1e-15)


def _slope(mu: float, eps: float, log_value: float) -> tuple[float, float]:
    """x = eps/mu - mu/2 and phi(x)/delta, the derivative of log delta in mu."""
    with np.errstate(all="ignore"):
        x = float(_gap(np.asarray(mu), np.asarray(eps)))
    exponent = -0.5 * x * x - _LOG_SQRT_2PI - log_value
    return x, math.exp(min(exponent, 700.0)) if not math.isnan(exponent) else 0.0


def _approach(
    value_of: Callable[[float], float], step_of: Callable[[float, float], float], start: float, target: float, retreat: float
) -> float:
    """Newton's method towards value = target that never leaves the safe side, value <= target, whatever rounding does to a step.

    A start that rounding put on the wrong side first retreats by a growing factor; a step that would cross is cut.
    """
    at, value = start, value_of(start)
    while value > target:
        at, retreat = at * retreat, retreat * retreat
        value = value_of(at)
    for _ in range(100):
        step = step_of(at, value)
        if math.isnan(step) or target - value < 3e-13 - 1e-15 * target:
            break
        step, cut = max(-at / 2, min(at, step)), 1e-7
        while abs(step) > 4e-16 * at:
            found = value_of(at + step)
            if found <= target:
                break
            step, cut = step * (1 - cut), min(1000 * cut, 0.875)
        else:
            break
        at, value = at + step, found
    return at


def mu_for(eps: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (eps, delta)-DP, rounded down.

    log delta is concave in mu, so Newton's steps from the left stay on the left: the safe side.

    >>> round(mu_for(1.0, 1e-5), 10)
    0.2680511232
    """
    eps = float(nonnegative("eps", eps)) if eps != math.inf else eps
    delta = float(probability("delta", delta))
    if eps == math.inf or delta == 1:
        return math.inf
    if delta == 0:
        return 0.0
    target = _target(delta)
    root = math.sqrt(-target + eps) + math.sqrt(-target)
    start = max(math.sqrt(2) * eps / root, delta * math.sqrt(2 * math.pi)) * (1 - 1e-12)

    def step(mu: float, value: float) -> float:
        slope = _slope(mu, eps, value)[1]  # d delta / d mu = phi(x)
        return (target - value) / slope if slope > 0 else math.nan

    return _approach(lambda mu: log_delta(mu, eps), step, start, target, 1 - 1e-15)


def sigma_for(eps: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least standard deviation of Gaussian noise that gives (eps, delta)-DP, rounded up; valid for every eps, unlike the
    classic sqrt(2 log(1.25/delta)) / eps.

    >>> round(sigma_for(8.0, 1e-5), 9)
    0.600229072
    """
    sensitivity = float(nonnegative("sensitivity", sensitivity))
    mu = mu_for(eps, delta)
    if mu == 0:
        return 0.0 if sensitivity == 0 else math.inf
    return math.nextafter(sensitivity / mu, math.inf) if mu < math.inf and sensitivity > 0 else 0.0


def compose(mus: Iterable[float]) -> float:
    """Adaptively composed mu_i-GDP mechanisms are sqrt(sum mu_i^2)-GDP; exact for Gaussians.

    >>> compose([3.0, 4.0])
    5.0
    """
    return math.hypot(*(float(nonnegative("mu", m)) for m in mus))


def rho_from_mu(mu: float) -> float:
    """The zCDP parameter of a Gaussian, mu^2/2 (Steinke 2022, Lemma 3.12).

    >>> rho_from_mu(2.0)
    2.0
    """
    return float(nonnegative("mu", mu)) ** 2 / 2


def mu_from_rho(rho: float) -> float:
    """The Gaussian that is exactly rho-zCDP. (A rho-zCDP mechanism need not be this Gaussian.)

    >>> mu_from_rho(0.5)
    1.0
    """
    return math.sqrt(2 * float(nonnegative("rho", rho)))


def loss_tail(mu: float, eps: float) -> float:
    """P[privacy loss > eps], which is larger than delta(eps): the privacy loss is N(mu^2/2, mu^2) (Steinke 2022, Proposition 3.3).

    >>> round(loss_tail(1.0, 1.0), 10)
    0.3085375387
    """
    mu, eps = float(nonnegative("mu", mu)), float(number("eps", eps))
    return float(ndtr(mu / 2 - eps / mu)) if mu > 0 else float(eps < 0)


def tail_bound(mu: float, eps: float) -> float:
    """An elementary upper bound on `loss_tail`, and so on delta, for eps >= rho = mu^2/2 (Steinke 2022, after Corollary 3.8).

    >>> round(tail_bound(1.0, 1.0), 10)
    0.4412484513
    """
    mu, eps = float(nonnegative("mu", mu)), float(number("eps", eps))
    rho = mu * mu / 2
    if eps < rho:
        return 1.0
    if rho == 0:
        return 0.0
    return math.exp(-((eps - rho) ** 2) / (4 * rho)) / max(2.0, math.sqrt(math.pi / rho) * (eps - rho))


def balanced_accuracy(mu: float) -> float:
    """The best test's accuracy between two equally likely neighbours: 1/2 + TV/2 = Phi(mu/2) (Neyman and Pearson).

    >>> round(balanced_accuracy(1.0), 10)
    0.6914624613
    """
    return float(ndtr(float(nonnegative("mu", mu)) / 2))


def _levels(alpha: ArrayLike) -> Array:
    a = np.asarray(alpha, dtype=float)
    if not ((a >= 0) & (a <= 1)).all():
        raise ParameterError("alpha must be between 0 and 1: it is a false positive rate")
    return a


def tradeoff_gdp(mu: float, alpha: ArrayLike) -> Array:
    """The smallest false negative rate at false positive rate alpha: G_mu(alpha) = Phi(Phi^-1(1-alpha) - mu).

    >>> float(tradeoff_gdp(1.0, 0.05).round(10))
    0.7404889772
    """
    mu = float(nonnegative("mu", mu))
    return np.asarray(ndtr(-ndtri(_levels(alpha)) - mu))


def tradeoff_dp(eps: float, delta: float, alpha: ArrayLike) -> Array:
    """The smallest false negative rate any (eps, delta)-DP mechanism allows at false positive rate alpha (Wasserman and Zhou 2010).

    >>> float(tradeoff_dp(1.0, 0.0, 0.05).round(10))
    0.8640859086
    """
    eps, delta = float(nonnegative("eps", eps)), float(probability("delta", delta))
    a = _levels(alpha)
    with np.errstate(over="ignore", invalid="ignore"):
        steep = 1 - delta - np.where(a > 0, np.exp(eps + np.log(np.maximum(a, 5e-324))), 0.0)
    return np.maximum(0.0, np.maximum(steep, math.exp(-eps) * (1 - delta - a)))


def clt_randomised_response(eps: float, uses: int, delta: float) -> Estimate:
    """A central-limit figure for `uses` times eps-DP randomised response: the loss taken as a normal of its mean and variance.

    >>> clt_randomised_response(0.1, 100, 1e-6).method
    'central limit (no bound)'
    """
    eps, uses = float(nonnegative("eps", eps)), count("uses", uses)
    mean = uses * eps * math.tanh(eps / 2)
    spread = eps * math.sqrt(uses) / math.cosh(min(eps / 2, 350.0))
    # a normal loss of variance v has the profile of a Gaussian mechanism moved from the mean v/2
    return Estimate(max(0.0, epsilon(spread, delta) + mean - spread**2 / 2), "central limit (no bound)")


def clt_poisson_gaussian(rate: float, noise_multiplier: float, steps: int, delta: float) -> Estimate:
    """A central-limit figure for DP-SGD, mu = q sqrt(T (e^(1/sigma^2) - 1)) (Bu, Dong, Long, Su 2020). It is often below the truth.

    >>> round(clt_poisson_gaussian(0.01, 1.0, 1000, 1e-5).value, 6)
    1.617712
    """
    rate, sigma = float(probability("rate", rate)), float(positive("noise_multiplier", noise_multiplier))
    power = 1 / sigma**2
    log_mu = math.log(rate) + 0.5 * (math.log(count("steps", steps)) + power + math.log(-math.expm1(-power))) if rate > 0 else -math.inf
    return Estimate(epsilon(math.exp(log_mu) if log_mu < 300 else math.inf, delta), "central limit (no bound)")
