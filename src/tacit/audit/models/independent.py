"""What independent trials with a score prove: by ranks of the scores, or by guesses on worlds chosen by fair coins.

Trials must be independent: one run of the game each, or canaries that do not touch each other. Nothing is learnt from
the scores, so no sample is set aside. Each of a few tests has its share of the error.

`coin_evidence` is for trials whose world was chosen by a fair coin, and is the sharper one. Guesses on those with the
highest scores, or the highest and the lowest, are right no more often than the promise lets them: one binomial
interval, where two, one for each rate, would pay twice. For epsilon the trials are ordered by their scores, whose
worlds are not looked at, and `one_run.independent_p_value` says how likely so many right guesses are. For mu, those
above a threshold are members with probability q = a / (a + b), a and b the true and false positive rates, and a few
thresholds are placed by a tenth of the scores.

>>> draw = generator(1)
>>> coins = draw.random(1000) < 0.5
>>> scores = coins + draw.laplace(size=1000)  # epsilon 1
>>> 0.5 < coin_evidence(scores, coins, attack="score", game="canaries by coins", seed=2).lower < 1
True

`rank_attack` needs no coins. Its thresholds are the scores of given *ranks* among the outsiders: the chance that a
fresh outsider exceeds the k-th largest of n follows Beta(k, n - k + 1) exactly, whatever the law of the scores, and
given the threshold the members above it are binomial (Wilks 1941). A few ranks spread over the whole range share the
error, and the same is done from the other end, with the members' smallest scores. Ties make the bound smaller, never
wrong.

>>> found = rank_attack(draw.normal(0, 1, 10_000), draw.normal(1, 1, 10_000), delta=1e-5)
>>> 1.9 < found.lower < 4.377  # the truth for mu = 1
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, logit, ndtri

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import Generator, generator
from tacit.audit.models.one_run import SAFE, independent_p_value
from tacit.audit.rates import Measure, OperatingPoint, log_ratio, lower_rate, measured_in, mu_of
from tacit.parameters import probability

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
TAILS = (0.2, 0.05, 0.02)  # shares of the scores above (and below) a threshold, where members (and others) are sought
SHARES = (0.25, 0.1, 0.03, 0.01, 0.003, 0.001)  # the same where guesses are counted, as far out as there are trials
FEWEST = 30  # trials on which a share of them is worth a test
CLOSE, NEAR = 1e-5, 0.97  # to which epsilon is found, and where the search starts, of what it would be without delta
PLACED = 0.1  # of the trials, which place the thresholds and measure nothing
FOR_SHARE = 0.1  # of a test's error, where the share above the threshold must be known too


def as_coins(bits: Mask, draw: Generator) -> NDArray[np.int64]:
    """An order of trials with worlds of fixed numbers in which the worlds are fair coins: trials are used until one world runs out.

    >>> bits = np.arange(100) < 50
    >>> order = as_coins(bits, generator(3))
    >>> len(order) > 80, len(set(order.tolist())) == len(order)
    (True, True)
    """
    pools = [draw.permutation(np.flatnonzero(bits == which)) for which in (False, True)]
    coins = draw.random(len(bits)) < 0.5
    drawn = [np.cumsum(coins == which) for which in (False, True)]
    # The first coin that asks an empty pool, and all after it, are not used.
    used = int(np.sum((drawn[0] <= len(pools[0])) & (drawn[1] <= len(pools[1]))))
    coins, order = coins[:used], np.empty(used, dtype=np.int64)
    for which, pool in enumerate(pools):
        order[coins == bool(which)] = pool[: int(np.sum(coins == bool(which)))]
    return order


def tail_bound(
    hits: int, above: int, trials: int, error: float, *, delta: float, measure: Measure, sides: int = 1
) -> float:
    """What `hits` right answers on `above` trials beyond a threshold prove: epsilon at delta, or mu.

    With two sides, members are sought above one threshold and others below another: the two tests share s and pay delta each.

    >>> round(tail_bound(95, 100, 1000, 0.05, delta=0, measure="epsilon"), 3)
    2.172
    """
    if above == 0:
        return 0.0
    if measure == "epsilon" and delta == 0:
        share = lower_rate(hits, above, error)
        return max(0.0, math.log(share / (1 - share))) if share > 0 else 0.0
    share, size = lower_rate(hits, above, (1 - FOR_SHARE) * error), lower_rate(above, trials, FOR_SHARE * error)
    if size <= 0:
        return 0.0
    if measure == "mu":
        each = 2 * size / sides  # true and false positive rate of a side together, on average over sides: the curve is concave
        return mu_of(each * (1 - share), each * share) if each * share <= 1 else 0.0
    top = share - sides * delta / (2 * size)
    return max(0.0, math.log(top / (1 - share))) if top > 0 else 0.0


def whole_bound(right: int, trials: int, error: float, *, delta: float, measure: Measure) -> float:
    """What `right` right answers, one on every trial, prove.

    >>> round(whole_bound(700, 1000, 0.05, delta=0, measure="mu"), 3)
    0.909
    """
    share = lower_rate(right, trials, error)
    if share <= 0.5:
        return 0.0
    if measure == "mu":
        return 2 * float(ndtri(share))
    top = share - delta
    return max(0.0, math.log(top / (1 - share))) if top > 0 else 0.0


def guessed_bound(right: int, made: int, trials: int, error: float, *, delta: float, known: float = 0.0) -> float:
    """What `right` right guesses of `made`, on trials picked by their scores alone, prove: epsilon at delta; `known` if that is no more.

    >>> round(guessed_bound(95, 100, 1000, 0.05, delta=0), 3), round(guessed_bound(95, 100, 1000, 0.05, delta=1e-3), 3)
    (2.172, 2.161)
    """
    share = lower_rate(right, made, error)
    high = float(logit(share)) if share > 0 else 0.0  # what it would be without delta, which only makes right guesses likelier
    if high <= known or delta <= 0:
        return max(high, known)

    def refuted(epsilon: float) -> bool:
        return independent_p_value(correct=right, made=made, canaries=trials, epsilon=epsilon, delta=delta) <= error * SAFE

    if not refuted(known):
        return known
    low = NEAR * high if NEAR * high > known and refuted(NEAR * high) else known
    while high - low > CLOSE * max(1.0, low):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def coin_evidence(
    scores: ArrayLike, bits: ArrayLike, *, attack: str, game: str, delta: float = 0.0, confidence: float = 0.95,
    measure: Measure = "epsilon", coins: bool = True, seed: int | None = None, assumptions: Sequence[str] = (),
) -> Evidence:
    """The best of a few tests on independent trials. With `coins=False` the worlds had fixed numbers, and coins are flipped here."""
    values = np.nan_to_num(np.asarray(scores, dtype=np.float64).ravel(), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    members = np.asarray(bits, dtype=bool).ravel()
    if len(values) != len(members):
        raise ParameterError("one score and one bit for each trial are needed")
    draw = generator(seed)
    order = draw.permutation(len(values)) if coins else as_coins(members, draw)
    small, error = float(probability("delta", delta)), 1 - float(probability("confidence", confidence))
    told = Evidence(
        attack, game, 0.0, small, float(confidence), len(values), measure=measure, assumptions=tuple(assumptions)
    )
    if measure == "epsilon":
        best, lower = _by_guesses(values[order], members[order], error, small) if len(order) else ("", 0.0)
        return replace(told, lower=lower, details={"test": best})
    placed = max(10, int(PLACED * len(order)))
    if len(order) < 2 * placed:
        return told
    # A coin of its own for each trial settles ties: scores with few values can be cut anywhere.
    ties = draw.random(len(order))
    guide = np.lexsort((ties[:placed], values[order[:placed]]))
    values, members = values[order], members[order]

    def above(share: float) -> Mask:
        """The trials beyond the guide's quantile."""
        cut = guide[min(placed - 1, max(0, round((1 - share) * placed) - 1))]
        beyond = (values > values[cut]) | ((values == values[cut]) & (ties > ties[cut]))
        return np.asarray(beyond[placed:])

    middle, truth = above(0.5), members[placed:]
    n = len(truth)
    error /= 1 + 2 * len(TAILS)
    found = {"all trials": whole_bound(int(np.sum(middle == truth)), n, error, delta=delta, measure=measure)}
    for tail in TAILS:
        high, low = above(tail), ~above(1 - tail)
        for name, asked, sides in (("highest", high, 1), ("highest and lowest", high | low, 2)):
            right = int(np.sum(asked & (high == truth)))
            found[f"{name} {tail:g}"] = tail_bound(right, int(np.sum(asked)), n, error, delta=delta, measure=measure, sides=sides)
    best = max(found, key=lambda name: found[name])
    return replace(told, lower=found[best], trials=len(order), details={"test": best, "tests": found})


def _by_guesses(values: Floats, members: Mask, error: float, delta: float) -> tuple[str, float]:
    """The best of a few tests, and what it proves. Trials come in random order, so that whom a tie leaves out is random too."""
    n = len(values)
    sizes = {tail: round(tail * n) for tail in SHARES if tail * n >= FEWEST}
    tests = {"all trials": (n - n // 2, n // 2)}
    tests |= {f"highest {tail:g}": (size, 0) for tail, size in sizes.items()}
    tests |= {f"highest and lowest {tail:g}": (size, size) for tail, size in sizes.items()}
    share = error / len(tests)
    # Sorted no further than the tests need: each place that one of them ends at has its trial, and the others are on its right side.
    ends = sorted({end for high, low in tests.values() for end in (high, n - low) if 0 < end < n})
    right = members[np.argpartition(-values, ends)] if ends else members
    hits = np.append(0, np.cumsum(right))
    found = {name: (int(hits[high] + low - (hits[n] - hits[n - low])), high + low) for name, (high, low) in tests.items()}
    best, lower = "all trials", 0.0
    for name in sorted(found, key=lambda name: lower_rate(*found[name], share), reverse=True):
        bound = guessed_bound(*found[name], n, share, delta=delta, known=lower)
        best, lower = (name, bound) if bound > lower else (best, lower)
    return best, lower



# --- ranks ----------------------------------------------------------------------------------------------------

SPREAD = 3.0  # each rank is so many times the one before


def ranks(trials: int, spread: float = SPREAD) -> list[int]:
    """The ranks that are looked at, fixed by the number of trials alone.

    >>> ranks(1000)
    [1, 3, 9, 27, 81, 243]
    """
    found = [1]
    while found[-1] * spread <= trials / 2:
        found.append(max(found[-1] + 1, round(found[-1] * spread)))
    return found


def rank_attack(
    outside: ArrayLike, inside: ArrayLike, *, delta: float = 0.0, confidence: float = 0.95,
    measure: Measure = "epsilon", attack: str = "scores at fixed ranks", game: str = "independent trials",
) -> Evidence:
    """A lower bound on epsilon at `delta`, or on mu, from the scores of outsiders and members.

    >>> rank_attack([0.0] * 50, [0.0] * 50).lower
    0.0
    """
    first, second = _scores("outside", outside), _scores("inside", inside)
    error = 1 - float(probability("confidence", confidence))
    small = float(probability("delta", delta))
    measured_in(measure)
    share = error / (2 * (len(ranks(len(first))) + len(ranks(len(second)))))
    high_scores = points(first, second, share)
    # From the other end: a member is missed where its score is low.
    low_scores = [(1 - hit, 1 - missed) for missed, hit in points(-second, -first, share)]

    def worth(point: tuple[float, float]) -> float:
        fpr, tpr = point
        if measure == "mu":
            return float(ndtri(tpr) - ndtri(fpr)) if fpr > 0 and tpr < 1 else -math.inf
        return max(log_ratio(tpr - small, fpr), log_ratio(1 - small - fpr, 1 - tpr))

    best = max([*high_scores, *low_scores], key=worth)
    lower = max(0.0, worth(best))
    trials = len(first) + len(second)
    return Evidence(attack, game, lower, small, 1 - error, trials, measure=measure, point=OperatingPoint(*best, 1 - error))


def points(outside: Floats, inside: Floats, error: float) -> list[tuple[float, float]]:
    """At every rank, a rate the false positives do not exceed and one the true positives reach, each wrong with chance at most `error`."""
    chosen = np.array(ranks(len(outside)))
    thresholds = np.sort(outside)[::-1][chosen - 1]
    hits = len(inside) - np.searchsorted(np.sort(inside), thresholds, side="right")
    fpr = betaincinv(chosen, len(outside) - chosen + 1, 1 - error)
    tpr = np.where(hits > 0, betaincinv(np.maximum(hits, 1), len(inside) - hits + 1, error), 0.0)
    return list(zip(fpr.tolist(), tpr.tolist(), strict=True))


def _scores(name: str, values: ArrayLike) -> Floats:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if len(scores) < 1 or np.isnan(scores).any():
        raise ParameterError(f"{name} must be at least one score, none of them NaN; what cannot be scored is scored lowest")
    return scores
