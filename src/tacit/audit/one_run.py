"""Auditing with one training run: many canaries, a fair coin for each, and one count of right guesses.

Each of `canaries` records is put into the data by a coin of its own; the run is made once; who sees its output makes `made` guesses on
coins of her choice and abstains on the others; `correct` of them are right. How likely is that under a promise? Three answers, each a
theorem about *any* mechanism that keeps the promise, however its noise is shared between canaries:

- `p_value`: the binomial tail of Steinke, Nasr and Jagielski 2023, for pure epsilon;
- `tail_p_value`: the recursion of Mahloujifar, Melis and Chaudhuri 2024, for any trade-off curve;
- `exact_p_value`: the least upper bound there is for finitely many (epsilon, delta), by linear programming (proved below).

All bound the same probability, so the least of them counts. The formula that is in use for delta > 0 beside the binomial tail is here too
(`published_p_value`), but no bound rests on it: enumeration found mechanisms that exceed it.

>>> round(p_value(correct=70, made=100, canaries=100, epsilon=0.5), 6)
0.065648
>>> found = one_run(correct=900, made=1000, canaries=1000, delta=1e-5)
>>> 1.9 < found.lower < found.estimate < 2.2
True

**Why the linear programme is exact.** Average a mechanism over all ways to relabel canaries and to exchange the two faces of coins, which
keeps the promise and the law p of the number of right guesses. Then an output with c right guesses of r has probability p_c divided by the
number of such outputs, and turning the coin of a guessed canary turns c into c - 1 or c + 1. So for every epsilon the hockey-stick
divergence between neighbours is (1/m) sum_c ([c p_c - e^eps (r-c+1) p_(c-1)]_+ + [(r-c) p_c - e^eps (c+1) p_(c+1)]_+): a law p can occur
if and only if this is at most delta(eps) for every eps. What is returned is the value of a feasible point of the dual programme: an upper
bound by weak duality, whatever the solver did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, expit, log_ndtr, ndtr, ndtri

from tacit.accounting import ParameterError
from tacit.accounting.parameters import count, nonnegative, probability
from tacit.audit.claim import Evidence

Floats = NDArray[np.float64]
Method = Literal["exact", "tail", "binomial"]
METHODS = ("exact", "tail", "binomial")
GAME = "one run: every canary in or out by a coin of its own"
REACH = 6.0  # deviations of the number of right guesses that the programme looks at one by one; the rest is lumped, on the safe side
CLOSE = 1e-4  # to which the largest refuted parameter is found
MOST_ROWS = 2500  # of a programme that is worth its time; above it the recursion alone decides
MOST = 60.0  # a larger epsilon or mu is not looked for
SHARES = (1.0, 0.2, 0.05, 0.02)  # of the canaries on which a guess is made
LINES = 8  # tangents that stand for a Gaussian trade-off curve; fewer are as valid and less sharp


def p_value(*, correct: int, made: int, canaries: int, epsilon: float) -> float:
    """The most likely that `correct` or more of `made` guesses can be right under pure epsilon: a binomial tail, and it is reached.

    >>> p_value(correct=0, made=10, canaries=10, epsilon=1)
    1.0
    """
    _guessed(correct, made, canaries)
    return 1.0 if correct == 0 else float(bdtrc(correct - 1, made, float(expit(nonnegative("epsilon", epsilon)))))


def published_p_value(*, correct: int, made: int, canaries: int, epsilon: float, delta: float) -> float:
    """The formula in use for delta > 0: the binomial tail f(v) plus 2 m delta max_i (f(v - i) - f(v)) / i. Not a bound: for comparison.

    Two canaries refute it: under epsilon 1 and delta 0.05 a mechanism has at least one right guess of two with probability 0.9447.

    >>> round(published_p_value(correct=1, made=2, canaries=2, epsilon=1, delta=0.05), 4)
    0.9421
    >>> round(exact_p_value(correct=1, made=2, canaries=2, law=approximate(1, 0.05)), 4)
    0.9447
    """
    reached = p_value(correct=correct, made=made, canaries=canaries, epsilon=epsilon)
    if delta == 0 or correct == 0:
        return reached
    rate, back = float(expit(epsilon)), np.arange(1, correct + 1)
    # P[at least correct - i]: certain where that is zero or less.
    at_least = np.append(bdtrc(correct - back[:-1] - 1, made, rate), 1.0)
    return min(1.0, reached + 2 * canaries * float(probability("delta", delta)) * float(np.max((at_least - reached) / back)))


def _guessed(correct: int, made: int, canaries: int) -> None:
    if not 0 <= correct <= made <= canaries or made < 1:
        raise ParameterError(
            f"correct guesses must be at most those made, and those at most the canaries; got {correct} of {made} on {canaries}"
        )


@dataclass(frozen=True)
class Law:
    """A promise as the two methods read it: some (epsilon, delta) that it implies, and the least false positive rate for a true one."""

    lines: tuple[tuple[float, float], ...]
    inverse: Callable[[float], float]


def approximate(epsilon: float, delta: float) -> Law:
    """The promise (epsilon, delta).

    >>> round(approximate(1, 0).inverse(0.5), 6)
    0.18394
    """
    grown = math.exp(min(epsilon, 700.0))
    return Law(((epsilon, delta),), lambda x: max(0.0, (x - delta) / grown, 1 - delta - grown * (1 - x)))


def gaussian(mu: float) -> Law:
    """The promise mu of Gaussian privacy; its lines crowd where the best single guess and rarer ones lie.

    >>> law = gaussian(1.0)
    >>> round(law.inverse(0.5), 6), len(law.lines)
    (0.158655, 8)
    """
    if mu <= 0:
        return Law(((0.0, 0.0),), lambda x: x)
    least = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    far = mu * mu / 2 + 4.5 * mu
    lines = tuple((e, _gaussian_delta(mu, e)) for e in np.linspace(min(0.6 * least, far), far, LINES).tolist())
    return Law(lines, lambda x: float(ndtr(ndtri(x) - mu)) if 0 < x < 1 else float(x >= 1))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    value = float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))
    return min(1.0, max(0.0, value) + 1e-15)


def tail_p_value(*, correct: int, made: int, canaries: int, law: Law) -> float:
    """The same under any trade-off curve, by the recursion over tails (Mahloujifar et al. 2024, Theorem 9).

    With R(c) and H(c) the mean shares of wrong and right guesses on the event of c or more right ones, R(c-1) >= G(H(c)), where G gives
    the least false positive rate for a true positive rate. Going down from `correct`, the probability that this needs must not exceed 1.

    >>> tail_p_value(correct=700, made=1000, canaries=1000, law=approximate(0.5, 0)) < 1e-4
    True
    """
    _guessed(correct, made, canaries)

    def possible(chance: float) -> bool:
        right, wrong = chance * correct / canaries, chance * (made - correct) / canaries
        for c in range(correct - 1, -1, -1):
            needed = max(wrong, law.inverse(min(right, 1.0)))
            if needed == wrong:
                break
            right, wrong = right + c / (made - c) * (needed - wrong), needed
            if right + wrong > made / canaries:
                return False
        return right + wrong <= made / canaries

    if possible(1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-6 * high and high > 1e-12:
        middle = math.sqrt(low * high) if low > 0 else high / 4
        low, high = (middle, high) if possible(middle) else (low, middle)
    return high


def exact_p_value(*, correct: int, made: int, canaries: int, law: Law) -> float:
    """The largest probability of `correct` or more right guesses that any mechanism within the law's lines can have.

    >>> made = dict(correct=14, made=20, canaries=20)
    >>> round(exact_p_value(law=approximate(0.5, 0), **made), 6), round(p_value(epsilon=0.5, **made), 6)
    (0.319891, 0.319891)
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    _guessed(correct, made, canaries)
    if correct == 0:
        return 1.0
    low, high = _window(correct, made, law)
    size = high - low + 1
    rows: list[tuple[int, int, float]] = []
    owner: list[int] = []  # which line a row belongs to
    for k, (epsilon, _) in enumerate(law.lines):
        grown = math.exp(min(epsilon, 700.0))
        for c in range(low + 1, high + 1):
            # Counts above `high` are lumped into it: all of their rows together say at least this.
            top = c if c < high else high - grown * (made - high)
            rows += [(len(owner), c - low, top / made), (len(owner), c - 1 - low, -grown * (made - c + 1) / made)]
            owner.append(k)
        for c in range(low if low == 0 else low + 1, high):
            rows += [(len(owner), c - low, (made - c) / made), (len(owner), c + 1 - low, -grown * (c + 1) / made)]
            owner.append(k)
    limits = np.array([canaries * delta / made for _, delta in law.lines])
    tied = np.array(owner)
    matrix = coo_array(
        ([x for *_, x in rows], ([i for i, *_ in rows], [j for _, j, _ in rows])), shape=(len(owner), size)
    ).tocsr()
    slack = coo_array((-np.ones(len(owner)), (np.arange(len(owner)), np.arange(len(owner)))), shape=(len(owner), len(owner)))
    spent = coo_array((np.ones(len(owner)), (tied, np.arange(len(owner)))), shape=(len(limits), len(owner)))
    from scipy.sparse import block_array

    goal = np.where(np.arange(low, high + 1) >= correct, 1.0, 0.0)
    solved = linprog(
        -np.concatenate([goal, np.zeros(len(owner))]),
        A_ub=block_array([[matrix, slack], [None, spent]]).tocsr(),
        b_ub=np.concatenate([np.zeros(len(owner)), limits]),
        A_eq=np.concatenate([np.ones(size), np.zeros(len(owner))])[None, :],
        b_eq=[1.0],
        method="highs",
    )
    if solved.ineqlin is None or getattr(solved.ineqlin, "marginals", None) is None:
        return 1.0  # nothing is claimed where the solver gave up
    duals = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0)
    prices = duals[len(owner) :]
    weights = np.minimum(duals[: len(owner)], prices[tied])
    return float(min(1.0, max(0.0, prices @ limits + np.max(goal - matrix.T @ weights))))


def _window(correct: int, made: int, law: Law) -> tuple[int, int]:
    """The counts that are looked at one by one."""
    epsilon, delta = law.lines[0]
    rate = float(expit(epsilon)) + delta
    spread = REACH * math.sqrt(made) / 2 + 3
    return max(0, math.floor(min(correct, rate * made) - spread)), min(made, math.ceil(max(correct, rate * made) + spread))


def _rows(correct: int, made: int, law: Law) -> int:
    low, high = _window(correct, made, law)
    return 2 * (high - low) * len(law.lines)


def largest_refuted(p: Callable[[float], float], error: float, *, known: float = 0.0, close: float = CLOSE) -> float:
    """The largest parameter whose p-value is at most `error`, from below; p must grow with it. `known` is one that is refuted already.

    >>> round(largest_refuted(lambda x: min(1.0, x / 10), 0.05), 3)
    0.5
    """
    low, step = known, max(1.0, known) if known == 0 else 0.05 * known
    if known == 0 and p(0.0) > error:
        return 0.0
    while p(low + step) <= error:
        low, step = low + step, 2 * step
        if low > MOST:
            return low
    high = low + step
    while high - low > close * max(1.0, low):
        middle = (low + high) / 2
        low, high = (middle, high) if p(middle) <= error else (low, middle)
    return low


def one_run(
    *,
    correct: int,
    made: int,
    canaries: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    measure: Literal["epsilon", "mu"] = "epsilon",
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
    _guessed(correct, made, canaries)
    if method not in METHODS:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if method == "binomial" and (measure == "mu" or delta > 0):
        raise ParameterError("the binomial method knows pure epsilon only; use 'tail' or 'exact' for mu, or with delta")
    error = 1 - float(probability("confidence", confidence))
    guesses: dict[str, Any] = {"correct": correct, "made": made, "canaries": canaries}

    def law(value: float) -> Law:
        return gaussian(value) if measure == "mu" else approximate(value, delta)

    if measure == "epsilon" and delta == 0:  # where the binomial is exact
        lower = largest_refuted(lambda x: p_value(epsilon=x, **guesses), error)
    else:
        lower = largest_refuted(lambda x: tail_p_value(law=law(x), **guesses), error)
    if method == "exact" and (measure == "mu" or delta > 0) and _rows(correct, made, law(max(lower, 0.1))) <= MOST_ROWS:
        lower = largest_refuted(lambda x: exact_p_value(law=law(x), **guesses), error, known=lower, close=1e-3)

    share = correct / made
    if measure == "mu":
        estimate = 2 * float(ndtri(share)) if 0.5 < share < 1 else (0.0 if share <= 0.5 else math.inf)
    else:
        estimate = max(0.0, math.log(share / (1 - share))) if 0 < share < 1 else (0.0 if share == 0 else math.inf)
    return Evidence(
        attack,
        GAME,
        lower,
        0.0 if measure == "mu" else float(delta),
        float(confidence),
        canaries,
        measure=measure,
        estimate=estimate,
        assumptions=("the coins were fair and independent, and fixed before the guesses",),
        details={"correct": correct, "made": made, "method": method},
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
    measure: Literal["epsilon", "mu"] = "epsilon",
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
    each = 1 - (1 - float(probability("confidence", confidence))) / len(sizes)
    found = [
        one_run(
            correct=right_guesses(numbers, coins, made), made=made, canaries=canaries, delta=delta, confidence=each,
            measure=measure, method=method, attack=attack,
        )
        for made in sizes
    ]  # fmt: skip
    best = max(found, key=lambda evidence: evidence.lower)
    details = {**best.details, "tried": tuple(sizes)}
    return Evidence(
        best.attack, best.game, best.lower, best.delta, float(confidence), count("canaries", canaries), measure=measure,
        estimate=best.estimate, assumptions=best.assumptions, details=details,
    )  # fmt: skip
