"""Amplification by sampling, at the level of privacy profiles: what a mechanism costs when it sees a random sample of the records.

A *profile* maps any epsilon >= 0 to a bound on delta and is stated for one relation. Every combinator here takes profiles to
profiles; each docstring says which relation the base must be stated for and which one the result holds for. Bounds follow Balle,
Barthe and Gaboardi (2018; "BBG"), whose theorems rest on one identity, advanced joint convexity, kept here as a testable helper.

>>> base = guarantee(1.0, 1e-5)                       # any (1, 1e-5) mechanism
>>> sampled = poisson(base, rate=0.01)                # add/remove in, add/remove out
>>> epsilon = amplified_epsilon(0.01, 1.0)
>>> f"{epsilon:.10f} {sampled(epsilon):.4g}"
'0.0170368632 1e-07'

Profiles are evaluated in closed form, so results carry a few units of rounding in the last place and no grid error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.special import gammaln, log_ndtr, ndtr
from tacit.accounting.theorems import gaussian
from tacit.accounting.theorems.gaussian import mills, mills_drop
from tacit.errors import ParameterError
from tacit.parameters import Number, count, nonnegative, positive, probability

Array = NDArray[np.float64]
#: epsilon >= 0 (a number or an array) to delta in [0, 1], elementwise. `Any`, so that plain lambdas on numpy functions qualify.
Profile = Callable[[Any], Any]
#: the profile against groups of k records, for every k >= 1.
Groups = Callable[[int], Profile]

_LARGE = 1e300  # stands in for an infinite epsilon, so that no profile meets inf - inf; profiles decrease, so this errs upwards


def _profile(function: Callable[[Array], Array]) -> Profile:
    """Wrap a formula as a profile: checks epsilon, clips delta into [0, 1], gives a number for a number."""

    def evaluate(epsilon: ArrayLike) -> Any:
        eps = np.asarray(epsilon, dtype=np.float64)
        if not np.all(eps >= 0):
            raise ParameterError("epsilon must be zero or more, and not NaN, for a privacy profile")
        with np.errstate(all="ignore"):
            delta = np.clip(function(np.minimum(eps, _LARGE)), 0.0, 1.0)
        return delta if eps.ndim else float(delta)

    return evaluate


def _at(profile: Profile, epsilon: Array) -> Array:
    """A profile at an array of epsilons, as an upper bound: at most 1, and an error where it gives NaN."""
    delta = np.broadcast_to(np.asarray(profile(np.minimum(epsilon, _LARGE)), dtype=np.float64), np.shape(epsilon))
    if not np.all(delta >= 0):
        raise ParameterError("profile must give a delta between 0 and 1 for every epsilon >= 0; it gave a negative number or NaN")
    return np.minimum(delta, 1.0)


def _product(log_factor: Array, delta: Array) -> Array:
    """exp(log_factor) * delta without overflow, and 0 where delta is 0."""
    return np.where(delta > 0, np.exp(np.minimum(log_factor + np.log(delta), 0.0)), 0.0)


# ---- the change of epsilon ----------------------------------------------------------------------------------------------------------


def amplified_epsilon(rate: Number, epsilon: ArrayLike) -> Any:
    """log(1 + rate (e^epsilon - 1)), without overflow and without loss for tiny rates.

    >>> amplified_epsilon(0.1, 1.0), amplified_epsilon(1e-12, 800.0)
    (0.158565078..., 772.36897...)
    """
    q, eps = float(probability("rate", rate)), np.asarray(epsilon, dtype=np.float64)
    if q == 0:
        result = np.zeros_like(eps)
    else:
        with np.errstate(over="ignore"):  # only in the branch that is not used
            large = eps + math.log(q) + np.log1p((1 - q) * np.exp(-eps - math.log(q)))
        result = np.where(eps < 690, np.log1p(q * np.expm1(np.minimum(eps, 690))), large)
    return result if eps.ndim else float(result)


def base_epsilon(rate: Number, epsilon: ArrayLike) -> Any:
    """The inverse: the epsilon of the base mechanism that sampling at `rate` turns into `epsilon`, log(1 + (e^epsilon - 1)/rate).

    >>> base_epsilon(0.01, amplified_epsilon(0.01, 1.0))
    1.0
    """
    q, eps = float(probability("rate", rate)), np.asarray(epsilon, dtype=np.float64)
    with np.errstate(all="ignore"):
        if q == 0:
            result = np.where(eps > 0, math.inf, 0.0)
        else:
            shifted = eps - math.log(q)
            large = shifted + np.log1p(-(1 - q) * np.exp(-eps))
            result = np.where(shifted < 690, np.log1p(np.expm1(np.minimum(eps, 690)) / q), large)
    return result if eps.ndim else float(result)


# ---- base profiles ------------------------------------------------------------------------------------------------------------------


def guarantee(epsilon: Number, delta: Number = 0.0) -> Profile:
    """The largest profile of any (epsilon, delta) mechanism: leaky randomised response (Kairouz, Oh, Viswanath 2015).

    >>> guarantee(1.0, 1e-5)(1.0)
    1e-05
    """
    e, d = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta))
    return _profile(lambda eps: d + (1 - d) * np.maximum(0.0, -np.expm1(np.minimum(eps - e, 0.0))) / (1 + math.exp(-e)))


def _log_density(t: Array) -> Array:
    return -t * t / 2 - math.log(math.sqrt(2 * math.pi))


def gaussian_profile(mu: Number) -> Profile:
    """The exact profile of the Gaussian mechanism with sensitivity over noise `mu` (Balle and Wang 2018, Theorem 8).

    >>> gaussian_profile(1)(1.0)
    0.1269367375...
    """
    m = float(nonnegative("mu", mu))
    return _profile(lambda eps: np.asarray(gaussian.delta(m, eps)))


def laplace_profile(theta: Number) -> Profile:
    """The exact profile of the Laplace mechanism with sensitivity over scale `theta`: 1 - e^((epsilon - theta)/2) below theta.

    >>> laplace_profile(1)(0.5)
    0.221199216928...
    """
    th = float(nonnegative("theta", theta))
    return _profile(lambda eps: -np.expm1(np.minimum(eps - th, 0.0) / 2))


# ---- groups -------------------------------------------------------------------------------------------------------------------------


def group(profile: Profile, size: int) -> Profile:
    """Black box: delta_k(epsilon) <= (e^(k e) - 1)/(e^e - 1) delta_1(e) with e = epsilon/k, same relation (BBG, section 4).

    As delta_k decreases, any smaller e is valid too. A few are tried, since a profile with a floor gains nothing from a larger one.

    >>> group(gaussian_profile(0.2680511232), 2)(1.0)
    0.0109464004...
    """
    k = count("size", size)

    def delta(eps: Array) -> Array:
        bounds = []
        for e in (eps / k, eps / (2 * k), eps / (4 * k), eps / (8 * k)) if k > 1 else (eps,):
            log_ratio = np.where(e > 0, (k - 1) * e + np.log(np.expm1(-k * e) / np.expm1(-e)), math.log(k))
            bounds.append(_product(log_ratio, _at(profile, e)))
        return np.asarray(np.minimum.reduce(bounds))

    return _profile(delta)


def groups(profile: Profile) -> Groups:
    """The black-box group profiles of one mechanism, as a family."""
    return lambda size: group(profile, size)


def gaussian_groups(mu: Number) -> Groups:
    """White box: k records move a Gaussian mechanism by at most k sensitivities, so its group profile is that of k mu."""
    return lambda size: gaussian_profile(count("size", size) * mu)


def laplace_groups(theta: Number) -> Groups:
    """White box: k records move a Laplace mechanism by at most k sensitivities."""
    return lambda size: laplace_profile(count("size", size) * theta)


def group_guarantee(epsilon: Number, delta: Number, size: int) -> tuple[float, float]:
    """(epsilon, delta) for one record gives (k epsilon, (e^(k epsilon) - 1)/(e^epsilon - 1) delta) for k.

    >>> group_guarantee(1, 1e-6, 2)
    (2.0, 3.71828...e-06)
    """
    e, k = float(nonnegative("epsilon", epsilon)), count("size", size)
    d = float(probability("delta", delta))
    total = d * k if e == 0 or d == 0 else math.exp(min(0.0, math.log(d) + (k - 1) * e + math.log(math.expm1(-k * e) / math.expm1(-e))))
    return k * e, min(1.0, total)


def replace_from_add_remove(epsilon: Number, delta: Number) -> tuple[float, float]:
    """A replacement is a removal and an addition: (2 epsilon, (1 + e^epsilon) delta).

    >>> replace_from_add_remove(1, 1e-6)
    (2.0, 3.71828...e-06)
    """
    return group_guarantee(epsilon, delta, 2)


# ---- sampling -----------------------------------------------------------------------------------------------------------------------


def amplify(rate: Number, epsilon: Number, delta: Number) -> tuple[float, float]:
    """(epsilon, delta) after sampling: (log(1 + rate(e^epsilon - 1)), rate delta).

    For Poisson sampling both guarantees are under add/remove; without replacement (rate m/n) both are under replace-one.

    >>> amplify(0.1, 1, 1e-5)
    (0.158565078..., 1.00...e-06)
    """
    e = amplified_epsilon(rate, float(nonnegative("epsilon", epsilon)))
    return e, float(probability("rate", rate)) * float(probability("delta", delta))


def poisson(profile: Profile, rate: Number) -> Profile:
    """Poisson sampling; base and result under add/remove (BBG Theorem 8): delta'(epsilon') = rate delta(epsilon).

    The worse direction is the one in which the record leaves; `poisson_add` is the other one.

    >>> poisson(laplace_profile(1), 0.1)(0.1)
    0.0131218...
    """
    q = float(probability("rate", rate))
    return _profile(lambda eps: q * _at(profile, base_epsilon(q, eps)) if q else np.zeros_like(eps))


def poisson_add(profile: Profile, rate: Number) -> Profile:
    """Poisson sampling in the direction in which a record is added: exact where `profile` is exact for (without, with).

    HS_a'(Q || (1-q)Q + qP) = k HS_(a'q/k)(Q || P) with k = 1 - a'(1-q), and 0 once k <= 0: beyond epsilon' = -log(1-q) nothing leaks.

    >>> poisson_add(gaussian_profile(1), 0.1)(0.2)
    0.0
    """
    q = float(probability("rate", rate))

    def delta(eps: Array) -> Array:
        if q == 0:
            return np.zeros_like(eps)
        k = q - (1 - q) * np.expm1(eps)
        inner = np.where(k > 0, -np.log1p(np.expm1(-eps) / q), 0.0) if q < 1 else eps
        return np.where(k > 0, k * _at(profile, inner), 0.0) if q < 1 else _at(profile, eps)

    return _profile(delta)


def without_replacement(profile: Profile, size: int, sample: int) -> Profile:
    """A uniform subset of `sample` out of `size` records; base and result under replace-one (BBG Theorem 9).

    Not interchangeable with Poisson sampling: there the base is under add/remove, where a clipped sum has half the sensitivity.

    >>> f"{without_replacement(guarantee(1, 1e-5), 1000, 100)(amplified_epsilon(0.1, 1)):.3g}"
    '1e-06'
    """
    n, m = count("size", size), count("sample", sample)
    if m > n:
        raise ParameterError(f"sample must be at most size ({n}) without replacement, not {m}")
    return poisson(profile, m / n)


def coupling_value(weights: Sequence[float], family: Groups) -> Profile:
    """sum_k weights[k-1] delta_k(epsilon): the best coupling where sample laws are distance-compatible (BBG Theorem 7).

    `weights[k-1]` is the chance that the sample lies at distance k from the support of the other law. Group profiles grow with
    the distance and a compatible coupling moves each sample no further than it must, so no coupling does better.

    >>> coupling_value([0.5, 0.5], laplace_groups(0.1))(0.15)
    0.0123...
    """
    parts = [(float(probability("weights", w)), family(k)) for k, w in enumerate(weights, 1) if w > 0]
    return _profile(lambda eps: sum((w * _at(p, eps) for w, p in parts), np.zeros_like(eps)))


def with_replacement_rate(size: int, sample: int) -> float:
    """The chance 1 - (1 - 1/n)^m that one given record is drawn at all.

    >>> with_replacement_rate(1000, 100)
    0.09520785...
    """
    n, m = count("size", size), count("sample", sample)
    return 1.0 if n == 1 else -math.expm1(m * math.log1p(-1 / n))


def with_replacement(family: Groups, size: int, sample: int) -> Profile:
    """`sample` independent draws from `size` records; base groups and result under replace-one (BBG Theorem 10).

    A record drawn k times is a group of k, so even a pure mechanism becomes approximate. Groups so large that they are practically
    never drawn are charged delta = 1.

    >>> with_replacement(laplace_groups(1), 1000, 100)(amplified_epsilon(with_replacement_rate(1000, 100), 1))
    0.00186135706...
    """
    n, m, rate = count("size", size), count("sample", sample), with_replacement_rate(size, sample)
    if n == 1:
        return family(m)

    def delta(eps: Array) -> Array:
        inner, total, k = base_epsilon(rate, eps), np.zeros_like(eps), 0
        while k < m:
            k += 1
            total = total + math.exp(_log_binomial(m, 1 / n, k)) * _at(family(k), inner)
            if k % 8 == 0:
                rest = math.exp(log_binomial_tail(m, 1 / n, k))
                if k >= 4096 or rest <= 1e-17 * float(np.min(total)):
                    return total + rest
        return total

    return _profile(delta)


def hybrid(family: Groups, size: int, sample: int) -> Profile:
    """With-replacement draws; base groups under replace-one, result under add/remove (BBG Theorem 11).

    `size` is the number of records of the larger of the two data sets, or any smaller number. Draws without the extra record are
    exactly the draws from the smaller set, and draws with k copies of it are k replacements away; fewer records only cost more.
    """
    return with_replacement(family, size, sample)


def poisson_replace(profile: Profile, rate: Number, replaced: Profile | None = None) -> Profile:
    """Poisson sampling, black box, result under replace-one: the smaller of two valid bounds.

    `profile` is the base under add/remove, `replaced` the base under replace-one (two black-box steps where not given).
    Joint convexity gives rate ((1-b) delta_1(epsilon) + b delta_2(epsilon)) with b = e^(epsilon' - epsilon), because a sample with
    the old record is one step from the sample without it and one replacement from the sample with the new one. The other bound is
    a group of two under the sampled add/remove profile.

    >>> poisson_replace(gaussian_profile(1), 0.1, gaussian_profile(2))(amplified_epsilon(0.1, 1))
    0.029201241...
    """
    q, two = float(probability("rate", rate)), replaced or group(profile, 2)
    twice = group(poisson(profile, q), 2)

    def delta(eps: Array) -> Array:
        if q == 0:
            return np.zeros_like(eps)
        inner = base_epsilon(q, eps)
        b = np.exp(eps - inner)
        coupled: Array = q * ((1 - b) * _at(profile, inner) + b * _at(two, inner))
        return np.minimum(coupled, _at(twice, eps))

    return _profile(delta)


def sampled_gaussian_replace(noise_multiplier: Number, rate: Number) -> Profile:
    """Poisson-sampled Gaussian sum under replace-one, exact: (1-g)N(0) + gN(1) against (1-g)N(0) + gN(-1), noise sigma.

    Records have norm at most 1. Proof that this pair is the worst, in any dimension: by joint convexity the divergence is
    g HS_a(N(v) || (1-b)N(0) + bN(v')), averaged over the rest of the sample. A test that accepts under N(v) with probability
    Phi(z) accepts under N(0) with at least Phi(z - 1/sigma) and under N(v') with at least Phi(z - 2/sigma) (Neyman and Pearson),
    and one half-line attains all three at once in the pair above. Reflection makes both directions equal.

    The likelihood ratio increases, and crosses e^epsilon where x/sigma^2 = epsilon/2 + asinh((1-g)/g e^(1/(2 sigma^2)) sinh(epsilon/2)).

    >>> sampled_gaussian_replace(1, 0.1)(amplified_epsilon(0.1, 1))
    0.022951861...
    """
    g, mu = float(probability("rate", rate)), 1 / float(positive("noise_multiplier", noise_multiplier))

    def delta(eps: Array) -> Array:
        if g == 0:
            return np.zeros_like(eps)
        half = eps / 2
        log_w = np.log((1 - g) / g) + mu * mu / 2 + half + np.log(-np.expm1(-eps) / 2)
        t0 = (half + np.where(log_w < 300, np.arcsinh(np.exp(np.minimum(log_w, 300))), log_w + math.log(2))) / mu
        left, right = t0 - mu, t0 + mu
        log_common = np.log1p(-g) + eps + np.log(-np.expm1(-eps))  # (1-g)(e^eps - 1)
        log_far = math.log(g) + eps + _log_density(right)
        # The scaled densities agree at the crossing, which turns the difference of tails into differences of Mills ratios.
        t, step = np.maximum(left, -1), np.full_like(eps, mu)
        near = np.exp(log_common + _log_density(t0)) * mills_drop(t, step) + np.exp(log_far) * mills_drop(t, 2 * step)
        far = g * ndtr(-left) - np.exp(log_common + log_ndtr(-t0)) - np.exp(log_far) * mills(right)
        return np.asarray(np.where(left >= -1, near, far))

    return _profile(delta)


# ---- truncation ---------------------------------------------------------------------------------------------------------------------


def _deviance(x: float, mean: float) -> float:
    """x log(x/mean) - x + mean, without cancellation near the mean (Loader 2000)."""
    d = (x - mean) / mean
    if abs(d) > 0.1:
        return x * math.log(x / mean) - (x - mean)
    return mean * d * d * sum((-d) ** j / ((j + 1) * (j + 2)) for j in range(20))


def _stirling_error(n: int) -> float:
    if n < 16:
        return float(gammaln(n + 1)) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * n * n)) / (n * n)) / (n * n)) / (n * n)) / n


def _log_binomial(n: int, rate: float, k: int) -> float:
    """log P[Bin(n, rate) = k] for 0 < rate < 1, by Loader's saddle-point form: no cancelling log-gammas."""
    if k == 0 or k == n:
        return n * (math.log(rate) if k else math.log1p(-rate))
    errors = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    deviance = _deviance(k, n * rate) + _deviance(n - k, n * (1 - rate))
    return errors - deviance + 0.5 * (math.log(n / (n - k)) - math.log(2 * math.pi * k))


def log_binomial_tail(trials: int, rate: Number, above: int) -> float:
    """log P[Bin(trials, rate) > above], as an upper bound, with small relative error of the probability down to 1e-300 and below.

    >>> log_binomial_tail(10, 0.5, 9) == -10 * math.log(2), log_binomial_tail(60000, 256 / 60000, 800)
    (True, -375.05...)
    """
    n, q, cut = count("trials", trials), float(probability("rate", rate)), count("above", above, least=-1)
    if cut < 0 or (q == 1 and cut < n):
        return 0.0
    if cut >= n or q == 0:
        return -math.inf
    upper = cut + 1 > n * q  # sum the shorter tail, downwards from its largest term
    start, terms, odds = (cut + 1, n - cut - 1, q / (1 - q)) if upper else (cut, cut, (1 - q) / q)
    total, term, done = 1.0, 1.0, 0
    while done < min(terms, 1 << 22) and term > 1e-18 * total:
        j = np.arange(done, min(done + 4096, terms), dtype=np.float64)
        ratios = odds * ((n - start - j) / (start + j + 1) if upper else (start - j) / (n - start + j + 1))
        products = term * np.cumprod(ratios)
        total, term, done = total + float(products.sum()), float(products[-1]), done + len(j)
        last = float(ratios[-1])
    if upper and done < terms and last < 1:
        total += term * last / (1 - last)  # the ratios decrease: a geometric series bounds what was left out
    log_total = _log_binomial(n, q, start) + math.log(total)
    return min(0.0, log_total) if upper else math.log(-math.expm1(log_total))


def truncated(profile: Profile, rate: Number, size: int, batch: int) -> Profile:
    """Poisson sampling from at most `size` records whose samples are cut to at most `batch`: an additive price for the cut.

    `profile` is that of the untruncated sampled mechanism, under any relation whose data sets have at most `size` records; the
    result is under the same relation. Proof: let P, Q be the output laws on two neighbours and P~, Q~ those of the truncated
    sampler, and t = P[Bin(size, rate) > batch]. The two samplers agree unless the sample is too large, so P~ and P, and Q~ and Q,
    differ by at most t in total variation. With a = e^epsilon: P~(S) <= P(S) + t <= a Q(S) + delta + t <= a Q~(S) + delta + (1 + a) t.

    >>> truncated(poisson(gaussian_profile(1), 0.01), 0.01, 10_000, 200)(0.5) > poisson(gaussian_profile(1), 0.01)(0.5)
    True
    """
    log_tail = log_binomial_tail(size, rate, count("batch", batch))
    return _profile(lambda eps: _at(profile, eps) + np.exp(np.minimum(np.logaddexp(0.0, eps) + log_tail, 0.0)))


# ---- what cannot be improved --------------------------------------------------------------------------------------------------------


def membership_probability(epsilon: Number, delta: Number = 0.0) -> float:
    """How often randomised membership tells the truth: (e^epsilon + delta)/(e^epsilon + 1) (BBG Lemma 12).

    The mechanism answers "is v in the sample?"; it is (epsilon, delta)-private, tightly, under add/remove and replace-one.

    >>> membership_probability(1, 1e-5)
    0.731061268...
    """
    e, d = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta))
    return (1 + d * math.exp(-e)) / (1 + math.exp(-e))


def membership_profile(rate: Number, epsilon: Number, delta: Number = 0.0) -> Profile:
    """The exact profile of sampled randomised membership: a lower bound for what any theorem on (epsilon, delta) can promise.

    At epsilon' = log(1 + rate(e^epsilon - 1)) it is rate * delta, so Theorems 8, 9 and 10 are tight (BBG Theorem 13). With delta = 0
    this is randomised response on "the sample sums to zero", the tight case of pure amplification.
    """
    p, q = membership_probability(epsilon, delta), float(probability("rate", rate))
    with_v, without_v = 1 - p + q * (2 * p - 1), 1 - p

    def value(eps: Array) -> Array:
        pairs = ((with_v, without_v), (1 - without_v, 1 - with_v))
        worst: Array = np.max([np.zeros_like(eps), *(a - np.exp(np.minimum(eps, 700)) * b for a, b in pairs)], axis=0)
        return worst

    return _profile(value)


def hockey_stick(first: ArrayLike, second: ArrayLike, epsilon: float) -> float:
    """sup_S P(S) - e^epsilon Q(S) for two finite distributions, any real epsilon.

    >>> hockey_stick([0.75, 0.25], [0.25, 0.75], 0.0)
    0.5
    """
    return _excess(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64), math.exp(epsilon))


def _excess(p: Array, q: Array, a: float) -> float:
    return float(np.maximum(p - a * q, 0.0).sum())


def joint_convexity(common: ArrayLike, first: ArrayLike, second: ArrayLike, rate: Number, epsilon: float) -> tuple[float, float]:
    """Both sides of advanced joint convexity on finite distributions (BBG Theorem 2); they are equal for every epsilon >= 0.

    HS_a'((1-q) m0 + q m1 || (1-q) m0 + q m1') = q HS_a(m1 || (1-b) m0 + b m1'), where a = e^epsilon, a' = 1 + q(a - 1), b = a'/a.
    """
    q, a = float(probability("rate", rate)), math.exp(epsilon)
    m0, m1, m2 = (np.asarray(m, dtype=np.float64) for m in (common, first, second))
    amplified = 1 + q * (a - 1)
    b = amplified / a
    left = _excess((1 - q) * m0 + q * m1, (1 - q) * m0 + q * m2, amplified)
    return left, q * _excess(m1, (1 - b) * m0 + b * m2, a)
