"""Independent trials with a known score: how much a few hundred of them prove, and why a fair coin for each makes that more.

Where every trial's world was chosen by a fair coin, guesses on those with the highest scores, or the highest and the lowest, are right no
more often than the promise lets them: one binomial interval, where two, one for each rate, would pay twice. For epsilon the trials are
ordered by their scores, whose worlds are not looked at, and `guessing.independent_p_value` says how likely so many right guesses are. For
mu, those above a threshold are members with probability q = a / (a + b), a and b the true and false positive rates, and a few thresholds
are placed by a tenth of the scores. Each of a few tests has its share of the error.

>>> draw = generator(1)
>>> coins = draw.random(1000) < 0.5
>>> scores = coins + draw.laplace(size=1000)  # epsilon 1
>>> 0.5 < coin_evidence(scores, coins, attack="score", game="canaries by coins", seed=2).lower < 1
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit, ndtri

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import Generator, generator
from tacit.audit.models.one_run import SAFE, independent_p_value
from tacit.audit.rates import lower_rate, mu_of
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
    hits: int, above: int, trials: int, error: float, *, delta: float, measure: Literal["epsilon", "mu"], sides: int = 1
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


def whole_bound(right: int, trials: int, error: float, *, delta: float, measure: Literal["epsilon", "mu"]) -> float:
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
    scores: ArrayLike,
    bits: ArrayLike,
    *,
    attack: str,
    game: str,
    delta: float = 0.0,
    confidence: float = 0.95,
    measure: Literal["epsilon", "mu"] = "epsilon",
    coins: bool = True,
    seed: int | None = None,
    assumptions: Sequence[str] = (),
) -> Evidence:
    """The best of a few tests on independent trials. With `coins=False` the worlds had fixed numbers, and coins are flipped here."""
    values = np.nan_to_num(np.asarray(scores, dtype=np.float64).ravel(), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    members = np.asarray(bits, dtype=bool).ravel()
    if len(values) != len(members):
        raise ParameterError("one score and one bit for each trial are needed")
    draw = generator(seed)
    order = draw.permutation(len(values)) if coins else as_coins(members, draw)
    small, error = float(probability("delta", delta)), 1 - float(probability("confidence", confidence))
    if measure == "epsilon":
        found = _by_guesses(values[order], members[order], error, small) if len(order) else {}
        return _told(found, attack, game, small, confidence, len(values), assumptions)
    placed = max(10, int(PLACED * len(order)))
    told: dict[str, Any] = {"assumptions": tuple(assumptions), "measure": measure}
    if len(order) < 2 * placed:
        return Evidence(attack, game, 0.0, delta, float(confidence), len(values), **told)
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
    found = {"everybody": whole_bound(int(np.sum(middle == truth)), n, error, delta=delta, measure=measure)}
    for tail in TAILS:
        high, low = above(tail), ~above(1 - tail)
        for name, asked, sides in (("highest", high, 1), ("highest and lowest", high | low, 2)):
            right = int(np.sum(asked & (high == truth)))
            found[f"{name} {tail:g}"] = tail_bound(right, int(np.sum(asked)), n, error, delta=delta, measure=measure, sides=sides)
    best = max(found, key=lambda name: found[name])
    return Evidence(attack, game, found[best], delta, float(confidence), len(order), details={"test": best, "tests": found}, **told)


def _by_guesses(values: Floats, members: Mask, error: float, delta: float) -> dict[str, float]:
    """The best of a few tests, and what it proves. Trials come in random order, so that whom a tie leaves out is random too."""
    n = len(values)
    sizes = {tail: round(tail * n) for tail in SHARES if tail * n >= FEWEST}
    tests = {"everybody": (n - n // 2, n // 2)}
    tests |= {f"highest {tail:g}": (size, 0) for tail, size in sizes.items()}
    tests |= {f"highest and lowest {tail:g}": (size, size) for tail, size in sizes.items()}
    share = error / len(tests)
    # Sorted no further than the tests need: each place that one of them ends at has its trial, and the others are on its right side.
    ends = sorted({end for high, low in tests.values() for end in (high, n - low) if 0 < end < n})
    right = members[np.argpartition(-values, ends)] if ends else members
    hits = np.append(0, np.cumsum(right))
    found = {name: (int(hits[high] + low - (hits[n] - hits[n - low])), high + low) for name, (high, low) in tests.items()}
    best, lower = "everybody", 0.0
    for name in sorted(found, key=lambda name: lower_rate(*found[name], share), reverse=True):
        bound = guessed_bound(*found[name], n, share, delta=delta, known=lower)
        best, lower = (name, bound) if bound > lower else (best, lower)
    return {best: lower}


def _told(
    found: dict[str, float], attack: str, game: str, delta: float, confidence: float, trials: int, assumptions: Sequence[str]
) -> Evidence:
    best = max(found, key=lambda name: found[name], default="")
    lower, details = found.get(best, 0.0), {"test": best}
    return Evidence(attack, game, lower, delta, float(confidence), trials, assumptions=tuple(assumptions), details=details)
