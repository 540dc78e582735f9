"""Auditing with one training run: many canaries, a fair coin for each, and one count of right guesses.

Each of `canaries` records is put into the data by a coin of its own; the run is made once; who sees its output makes `made` guesses on
coins of her choice and abstains on the others; `correct` of them are right. How likely that is under a promise, at the most, whatever the
mechanism and however its noise is shared between canaries, is what `tacit.audit.guessing` proves. Here a promise is refuted by it: the
bound is the largest parameter under which so many right guesses would be too unlikely.

>>> found = one_run(correct=900, made=1000, canaries=1000, delta=1e-5)
>>> 1.9 < found.lower < found.estimate < 2.2
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from tacit.accounting import ParameterError
from tacit.accounting.parameters import count, probability
from tacit.audit.claim import Evidence
from tacit.audit.guessing import (
    MOST_ROWS,
    SAFE,
    approximate,
    exact_p_value,
    gaussian,
    guessed,
    line_refutes,
    p_value,
    programme_rows,
    tail_refutes,
)
from tacit.audit.rates import lower_rate

__all__ = ["audit_one_run", "exact_p_value", "largest_refuted", "one_run", "right_guesses"]

Floats = NDArray[np.float64]
Method = Literal["exact", "tail", "binomial"]
Measure = Literal["epsilon", "mu"]
METHODS = ("exact", "tail", "binomial")
GAME = "one run: every canary in or out by a coin of its own"
CLOSE = 1e-5  # to which the largest refuted parameter is found
PROGRAMMED = 1e-3  # the same where every step is a linear programme
NEAR = 0.97  # of what a rate without delta would say: where the search starts
CHORDS = 12  # at most: three is usual
MOST = 60.0  # a larger epsilon or mu is not looked for
SHARES = (1.0, 0.2, 0.05, 0.02)  # of the canaries on which a guess is made


def largest_refuted(refutes: Callable[[float], bool], *, known: float | None = None, step: float = 1.0, close: float = CLOSE) -> float:
    """The largest parameter that is refuted, from below. The search goes up from one that is `known` to be, in growing steps.

    >>> round(largest_refuted(lambda x: x <= 0.5), 3)
    0.5
    """
    if known is None and not refutes(0.0):
        return 0.0
    low = known or 0.0
    while refutes(low + step):
        low, step = low + step, 2 * step
        if low > MOST:
            return low
    high = low + step
    while high - low > close * max(1.0, low):
        middle = (low + high) / 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return low


def largest_by_chords(p: Callable[[float], float], error: float, *, known: float, close: float = PROGRAMMED) -> float:
    """The same for a p-value that costs much to know: chords of its logarithm say where it passes `error`; what is returned was tried.

    >>> 0.498 < largest_by_chords(lambda x: math.exp(8 * (x - 0.5)) / 20, 0.05, known=0.45) <= 0.5
    True
    """
    low, far = known + close, known + 5 * close
    at_low = p(low)
    if at_low > error:
        return known
    at_far = p(far)
    for _ in range(CHORDS):
        slope = (_log(at_far) - _log(at_low)) / (far - low)
        crossing = low + (_log(error) - _log(at_low)) / slope if slope > 0 else math.inf
        if at_far <= error:  # beyond both, but no further than four times as far
            low, at_low, far = far, at_far, min(crossing + close, far + 4 * (far - low))
            at_far = p(far)
            continue
        if crossing - low <= close:
            break
        middle = min(max(crossing - close / 4, low + close / 4), far - close / 4)
        at_middle = p(middle)
        low, at_low, far, at_far = (middle, at_middle, far, at_far) if at_middle <= error else (low, at_low, middle, at_middle)
    return low


def _log(p: float) -> float:
    return math.log(max(p, 1e-300))


def _best(
    tests: Sequence[tuple[int, int]], canaries: int, error: float, *, delta: float, measure: Measure, method: Method
) -> tuple[float, int]:
    """The largest parameter that any of the tests (right guesses, guesses made) refutes at `error` each, and which test that is."""

    def quick(correct: int, made: int) -> Callable[[float], bool]:
        told: dict[str, Any] = {"correct": correct, "made": made, "canaries": canaries}
        if measure == "mu":
            return lambda x: tail_refutes(law=gaussian(x), error=error, **told)
        if delta == 0:  # where the binomial is exact
            return lambda x: p_value(epsilon=x, **told) <= error
        if method == "tail":
            return lambda x: tail_refutes(law=approximate(x, delta), error=error, **told)
        return lambda x: line_refutes(epsilon=x, delta=delta, error=error, **told)

    def programmed(correct: int, made: int) -> Callable[[float], float]:
        return lambda x: exact_p_value(law=gaussian(x), correct=correct, made=made, canaries=canaries)

    # The test with the surest rate of right guesses goes first; the others are asked only whether they refute more than it does.
    rates = [lower_rate(correct, made, error) for correct, made in tests]
    order = sorted(range(len(tests)), key=lambda i: rates[i], reverse=True)
    # What the rate alone would say, without delta: no bound, but near it where delta matters little.
    hint = NEAR * float(logit(rates[order[0]])) if measure == "epsilon" and 0.5 < rates[order[0]] < 1 else 0.0
    lower, winner = 0.0, order[0]
    for i in order:
        refutes = quick(*tests[i])
        if lower > 0:
            found = largest_refuted(refutes, known=lower, step=CLOSE * max(1.0, lower))
        elif i == order[0] and hint > 0 and refutes(hint):
            found = largest_refuted(refutes, known=hint, step=hint * (1 / NEAR - 1))
        else:
            found = largest_refuted(refutes)
        lower, winner = (found, i) if found > lower else (lower, winner)
    if method == "exact" and measure == "mu":
        for i in [winner, *(i for i in order if i != winner)]:
            if programme_rows(*tests[i], gaussian(max(lower, 0.1))) <= MOST_ROWS:
                found = largest_by_chords(programmed(*tests[i]), error, known=lower)
                lower, winner = (found, i) if found > lower else (lower, winner)
    return lower, winner


def one_run(
    *,
    correct: int,
    made: int,
    canaries: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    measure: Measure = "epsilon",
    method: Method = "exact",
    attack: str = "guesses on canaries",
) -> Evidence:
    """The largest epsilon at `delta` (or mu) that this many right guesses refute. How many to make must not depend on the coins.

    >>> one_run(correct=500, made=1000, canaries=1000).lower
    0.0
    >>> few, all_ = (one_run(correct=c, made=n, canaries=5000, measure="mu").lower for c, n in ((99, 100), (3500, 5000)))
    >>> few > all_
    True
    """
    return _evidence([(correct, made)], canaries, delta=delta, confidence=confidence, measure=measure, method=method, attack=attack)


def _evidence(
    tests: Sequence[tuple[int, int]],
    canaries: int,
    *,
    delta: float,
    confidence: float,
    measure: Measure,
    method: Method,
    attack: str,
) -> Evidence:
    for correct, made in tests:
        guessed(correct, made, canaries)
    small = float(probability("delta", delta))
    if method not in METHODS:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if measure not in ("epsilon", "mu"):
        raise ParameterError(f"measure must be 'epsilon' or 'mu', not {measure!r}")
    if method == "binomial" and (measure == "mu" or delta > 0):
        raise ParameterError("the binomial method knows pure epsilon only; use 'tail' or 'exact' for mu, or with delta")
    error = (1 - float(probability("confidence", confidence))) / len(tests) * SAFE
    lower, winner = _best(tests, canaries, error, delta=small, measure=measure, method=method)
    correct, made = tests[winner]
    share = correct / made
    if measure == "mu":
        estimate = 2 * float(ndtri(share)) if 0.5 < share < 1 else (0.0 if share <= 0.5 else math.inf)
    else:
        estimate = max(0.0, math.log(share / (1 - share))) if 0 < share < 1 else (0.0 if share == 0 else math.inf)
    return Evidence(
        attack,
        GAME,
        lower,
        0.0 if measure == "mu" else small,
        float(confidence),
        count("canaries", canaries),
        measure=measure,
        estimate=estimate,
        assumptions=("the coins were fair and independent, and fixed before the guesses",),
        details={"correct": correct, "made": made, "method": method, "tried": tuple(made for _, made in tests)},
    )


def right_guesses(scores: Floats, bits: NDArray[np.bool_], made: int) -> int:
    """How many are right of `made` guesses: the highest half of them is guessed in, the lowest out. Ties are cut by position.

    >>> right_guesses(np.array([3.0, 1.0, 2.0, 0.0]), np.array([True, False, False, False]), 2)
    2
    """
    order = np.argsort(np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf), kind="stable")
    inside, outside = order[len(order) - (made + 1) // 2 :], order[: made // 2]
    return int(bits[inside].sum() + (~bits[outside]).sum())


def audit_one_run(
    scores: Sequence[float] | Floats,
    bits: Sequence[bool] | NDArray[np.bool_],
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    measure: Measure = "epsilon",
    method: Method = "exact",
    shares: Sequence[float] = SHARES,
    attack: str = "guesses on canaries",
) -> Evidence:
    """The bound from a score for every canary and its coin: guesses on several shares of the canaries, each at its share of the error.

    >>> from tacit.audit.experiment import generator
    >>> coins = generator(3).random(2000) < 0.5
    >>> scores = coins + generator(4).normal(size=2000)  # the Gaussian mechanism with mu = 1
    >>> 0.5 < audit_one_run(scores, coins, measure="mu").lower < 1
    True
    """
    numbers, coins = np.asarray(scores, dtype=np.float64), np.asarray(bits, dtype=bool)
    if numbers.shape != coins.shape or numbers.ndim != 1 or not len(numbers):
        raise ParameterError("one score and one coin for each canary are needed")
    canaries = len(numbers)
    sizes = sorted({min(canaries, max(1, round(share * canaries))) for share in shares})
    tests = [(right_guesses(numbers, coins, made), made) for made in sizes]
    return _evidence(tests, canaries, delta=delta, confidence=confidence, measure=measure, method=method, attack=attack)
