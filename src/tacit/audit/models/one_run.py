"""Auditing with one training run: many canaries, a fair coin for each, and one count of right guesses.

Each of `canaries` records is put into the data by a coin of its own. The run is made once. The attacker sees its
output, makes `made` guesses on coins of their choice and abstains on the others; `correct` of them are right. The
bound is the largest parameter under which so many right guesses would be too unlikely (`one_run`, `audit_one_run`).

>>> found = one_run(correct=900, made=1000, canaries=1000, delta=1e-5)
>>> 1.9 < found.lower < found.estimate < 2.2
True

However a mechanism that keeps the promise shares its noise between canaries, the probability of so many right guesses
is at most

- `p_value`: the binomial tail of Steinke, Nasr and Jagielski 2023, for pure epsilon;
- `tail_p_value`: the recursion of Mahloujifar, Melis and Chaudhuri 2024, for any trade-off curve;
- `exact_p_value`: the least upper bound there is for one (epsilon, delta) in closed form, for several by linear programming (proved below).

All bound the same probability, so the least of them counts. Where every canary is a trial of its own, `independent_p_value` is smaller.
The formula that is in use for delta > 0 beside the binomial tail is here too (`published_p_value`), but no bound rests on it: enumeration
found mechanisms that exceed it.

>>> round(p_value(correct=70, made=100, canaries=100, epsilon=0.5), 6)
0.065648
>>> round(exact_p_value(correct=70, made=100, canaries=100, law=approximate(0.5, 1e-3)), 6)
0.069433

**Why the linear programme is exact.** Average a mechanism over all ways to relabel canaries and to exchange the two faces of coins, which
keeps the promise and the law p of the number of right guesses. Then an output with c right guesses of r has probability p_c divided by the
number of such outputs, and turning the coin of a guessed canary turns c into c - 1 or c + 1. So for every epsilon the hockey-stick
divergence between neighbours is (1/m) sum_c ([c p_c - e^eps (r-c+1) p_(c-1)]_+ + [(r-c) p_c - e^eps (c+1) p_(c+1)]_+): a law p can occur
if and only if this is at most delta(eps) for every eps. What is returned is the value of a feasible point of the dual programme: an upper
bound by weak duality, whatever the solver did. Only the first sum is priced: the best law falls no faster than the promise lets it rise,
so the second is zero, and leaving it out could only make the bound larger.

**Why one line needs no solver.** With a price y on delta, a level t and weights w_c in [0, y], dual feasibility is
c w_c >= r (1[c >= v] - t) + e^eps (r-c) w_(c+1). Multiplied by C(r, c) e^(eps c) the right side telescopes, so the least weights are
w_c = r [S(max(c, v)) - t S(c)]_+ / (c b_c), S and b the tail and the mass of the binomial law with rate e^eps / (1 + e^eps), and
t >= S(v). They are largest at some c <= v, so the p-value is min_t max_c t + m delta [S(v) - t S(c)]_+ / (c b_c): convex in one number, and
whether it is at most a given error is whether some intervals of t meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, expit, gammaln, log_ndtr, logit, ndtr, ndtri

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.rates import Measure, lower_rate, measured_in
from tacit.parameters import count, nonnegative, probability

Floats = NDArray[np.float64]
REACH = 6.0  # deviations of the number of right guesses that the programme looks at one by one; the rest is lumped, on the safe side
FAR = 9.0  # the same for the closed form, where they cost next to nothing
MOST_ROWS = 1250  # of a programme that is worth its time; above it the recursion alone decides
LINES = 8  # tangents that stand for a Gaussian trade-off curve; fewer are as valid and less sharp
SAFE = 1 - 1e-9  # of an error, for the rounding of a few thousand sums: what is refuted is refuted by more than that
NORMAL = NormalDist()


def p_value(*, correct: int, made: int, canaries: int, epsilon: float) -> float:
    """The most likely that `correct` or more of `made` guesses can be right under pure epsilon: a binomial tail, and it is reached.

    >>> p_value(correct=0, made=10, canaries=10, epsilon=1)
    1.0
    """
    guessed(correct, made, canaries)
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


def guessed(correct: int, made: int, canaries: int) -> None:
    """Refuse counts that cannot be."""
    if not 0 <= correct <= made <= canaries or made < 1:
        raise ParameterError(
            f"correct guesses must be at most those made, and those at most the canaries; got {correct} of {made} on {canaries}"
        )


@dataclass(frozen=True)
class Promised:
    """A promise as the two methods read it: some (epsilon, delta) that it implies, and the least false positive rate for a true one."""

    lines: tuple[tuple[float, float], ...]
    inverse: Callable[[float], float]


def approximate(epsilon: float, delta: float) -> Promised:
    """The promise (epsilon, delta).

    >>> round(approximate(1, 0).inverse(0.5), 6)
    0.18394
    """
    grown = math.exp(min(epsilon, 700.0))
    return Promised(((epsilon, delta),), lambda x: max(0.0, (x - delta) / grown, 1 - delta - grown * (1 - x)))


def gaussian(mu: float) -> Promised:
    """The promise mu of Gaussian privacy; its lines crowd where the best single guess and rarer ones lie.

    >>> law = gaussian(1.0)
    >>> round(law.inverse(0.5), 6), len(law.lines)
    (0.158655, 8)
    """
    if mu <= 0:
        return Promised(((0.0, 0.0),), lambda x: x)
    least = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    far = mu * mu / 2 + 4.5 * mu
    lines = tuple((e, _gaussian_delta(mu, e)) for e in np.linspace(min(0.6 * least, far), far, LINES).tolist())
    # The standard library's quantile and error function: scalars through scipy's cost several times as much.
    return Promised(lines, lambda x: 0.5 * math.erfc((mu - NORMAL.inv_cdf(x)) / math.sqrt(2)) if 0 < x < 1 else float(x >= 1))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    value = float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))
    return min(1.0, max(0.0, value) + 1e-15)


def independent_p_value(*, correct: int, made: int, canaries: int, epsilon: float, delta: float) -> float:
    """The same where the canaries are independent trials, each under (epsilon, delta): exact, and near the binomial tail at small delta.

    A trial is a post-processing of one that reveals its coin with probability delta and else answers it by randomised response (Kairouz,
    Oh and Viswanath 2015, Theorem 3.4). So with b coins revealed at most b guesses are certain and the others are coins of rate
    e^eps / (1 + e^eps); which of them are made may depend on all outputs, but on no coin.

    >>> round(independent_p_value(correct=70, made=100, canaries=100, epsilon=0.5, delta=1e-3), 6)
    0.066637
    """
    guessed(correct, made, canaries)
    if correct == 0:
        return 1.0
    rate, mean = float(expit(nonnegative("epsilon", epsilon))), canaries * float(probability("delta", delta))
    most = min(correct - 1, math.ceil(mean + 12 * math.sqrt(mean) + 12))
    if delta <= 0 or delta >= 1:
        return float(bdtrc(correct - 1, made, rate)) if delta <= 0 else 1.0
    shown, chance, more = _revealed(canaries, float(delta), most)
    # More revealed than that: as if all were right.
    return min(1.0, float(chance @ bdtrc(correct - 1 - shown, made - shown, rate)) + more)


@lru_cache(maxsize=64)
def _revealed(canaries: int, delta: float, most: int) -> tuple[NDArray[np.int64], Floats, float]:
    """How likely 0, 1, ..., `most` coins are revealed, and more."""
    shown = np.arange(most + 1)
    ways = gammaln(canaries + 1) - gammaln(shown + 1) - gammaln(canaries - shown + 1)
    chance = np.exp(ways + shown * math.log(delta) + (canaries - shown) * math.log1p(-delta))
    return shown, chance, float(bdtrc(most, canaries, delta))


def tail_p_value(*, correct: int, made: int, canaries: int, law: Promised) -> float:
    """The same under any trade-off curve, by the recursion over tails (Mahloujifar et al. 2024, Theorem 9).

    >>> tail_p_value(correct=700, made=1000, canaries=1000, law=approximate(0.5, 0)) < 1e-4
    True
    """
    guessed(correct, made, canaries)

    def refuted(chance: float) -> bool:
        return tail_refutes(correct=correct, made=made, canaries=canaries, law=law, error=chance)

    if not refuted(1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-6 * high and high > 1e-12:
        middle = math.sqrt(low * high) if low > 0 else high / 4
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high


def tail_refutes(*, correct: int, made: int, canaries: int, law: Promised, error: float) -> bool:
    """Whether `tail_p_value` is at most `error`, in one pass.

    With R(c) and H(c) the mean shares of wrong and right guesses on the event of c or more right ones, R(c-1) >= G(H(c)), where G gives
    the least false positive rate for a true positive rate. Going down from `correct`, the probability that this needs must not exceed 1.

    >>> tail_refutes(correct=700, made=1000, canaries=1000, law=gaussian(0.1), error=0.05)
    True
    """
    inverse, whole = law.inverse, made / canaries
    right, wrong = error * correct / canaries, error * (made - correct) / canaries
    for c in range(correct - 1, -1, -1):
        needed = inverse(right if right < 1.0 else 1.0)
        if needed <= wrong:
            break
        right, wrong = right + c / (made - c) * (needed - wrong), needed
        if right + wrong > whole:
            return True
    return right + wrong > whole


def exact_p_value(*, correct: int, made: int, canaries: int, law: Promised) -> float:
    """The largest probability of `correct` or more right guesses that any mechanism within the law's lines can have.

    >>> made = dict(correct=14, made=20, canaries=20)
    >>> round(exact_p_value(law=approximate(0.5, 0), **made), 6), round(p_value(epsilon=0.5, **made), 6)
    (0.319891, 0.319891)
    """
    guessed(correct, made, canaries)
    if correct == 0:
        return 1.0
    if len(law.lines) > 1:
        return programme_p_value(correct=correct, made=made, canaries=canaries, law=law)
    (epsilon, delta), low, high = law.lines[0], 0.0, 1.0
    while high - low > 1e-13 * high and high > 1e-280:
        middle = math.sqrt(low * high) if low > 0 else high / 16
        refuted = line_refutes(correct=correct, made=made, canaries=canaries, epsilon=epsilon, delta=delta, error=middle)
        low, high = (low, middle) if refuted else (middle, high)
    return high


def line_refutes(*, correct: int, made: int, canaries: int, epsilon: float, delta: float, error: float) -> bool:
    """Whether `exact_p_value` of the one line (epsilon, delta) is at most `error`: do the intervals of t that each count leaves meet?

    >>> asked = dict(correct=70, made=100, canaries=100, delta=1e-3, error=0.05)
    >>> line_refutes(epsilon=0.4, **asked), line_refutes(epsilon=0.5, **asked)
    (True, False)
    """
    if correct == 0 or error >= 1:
        return error >= 1
    rate, fading = float(expit(epsilon)), math.log1p(math.exp(-epsilon))
    spread = FAR * math.sqrt(made) / 2 + 10
    low = max(1, math.floor(min(correct, rate * made) - spread))
    high = min(made, math.ceil(max(correct, rate * made) + spread))
    # log rate = -fading and log(1 - rate) = -epsilon - fading, without cancellation however large epsilon is.
    mass = np.exp(_choices(made)[low : high + 1] - made * fading - epsilon * np.arange(made - low, made - high - 1, -1))
    tail = np.cumsum(mass[::-1])[::-1] + float(bdtrc(high, made, rate))
    size = correct - low + 1
    weight, tail, reached = np.arange(low, correct + 1) * mass[:size], tail[:size], float(tail[size - 1])
    paid = canaries * delta
    slope, needed = paid * tail - weight, paid * reached - error * weight  # slope t >= needed, for every count
    rising, falling = slope > 0, slope < 0
    if np.any(needed[slope == 0] > 0):
        return False
    # Count 0 asks for t >= S(v). Those below the window ask for t >= S(v) / S(c) at most, and S(c) is larger there than in it.
    least = max(reached / float(tail[0]) if low > 1 else reached, float(np.max(needed[rising] / slope[rising], initial=0.0)))
    return least <= min(error, float(np.min(needed[falling] / slope[falling], initial=1.0)))


@lru_cache(maxsize=16)
def _choices(made: int) -> Floats:
    """Logarithms of the numbers of ways to choose 0, 1, ... of `made`."""
    c = np.arange(made + 1)
    return np.asarray(gammaln(made + 1) - gammaln(c + 1) - gammaln(made - c + 1))


def programme_p_value(*, correct: int, made: int, canaries: int, law: Promised) -> float:
    """The same for any number of lines, by linear programming: the value of a point of the dual that is made feasible here.

    >>> few = dict(correct=9, made=10, canaries=12, law=approximate(1, 0.01))
    >>> abs(programme_p_value(**few) - exact_p_value(**few)) < 1e-6
    True
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array

    if correct == 0:
        return 1.0
    low, high = _window(correct, made, law)
    counts, lines = np.arange(low + 1, high + 1), len(law.lines)
    grown = np.exp(np.minimum([epsilon for epsilon, _ in law.lines], 700.0))[:, None]
    # A row says that rising from c - 1 to c by more than the line lets it costs delta. Counts above `high` are lumped into it: all of
    # their rows together say at least this.
    rise = np.repeat(counts[None, :] / made, lines, axis=0)
    rise[:, -1] -= grown[:, 0] * (made - high) / made
    values = np.concatenate([rise.ravel(), (-grown * (made - counts + 1) / made).ravel()])
    total = lines * len(counts)
    rows, owner = np.arange(total), np.repeat(np.arange(lines), len(counts))
    columns = np.tile(counts - low, lines)
    matrix = coo_array((values, (np.tile(rows, 2), np.concatenate([columns, columns - 1]))), shape=(total, high - low + 1)).tocsr()
    limits = np.array([canaries * delta / made for _, delta in law.lines])
    spent = coo_array((np.ones(total), (owner, rows)), shape=(lines, total))
    goal = np.where(np.arange(low, high + 1) >= correct, 1.0, 0.0)
    solved = linprog(
        -np.concatenate([goal, np.zeros(total)]),
        A_ub=block_array([[matrix, coo_array((-np.ones(total), (rows, rows)), shape=(total, total))], [None, spent]]).tocsr(),
        b_ub=np.concatenate([np.zeros(total), limits]),
        A_eq=np.concatenate([np.ones(high - low + 1), np.zeros(total)])[None, :],
        b_eq=[1.0],
        method="highs",
    )
    if solved.ineqlin is None or getattr(solved.ineqlin, "marginals", None) is None:
        return 1.0  # nothing is claimed where the solver gave up
    duals = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0)
    prices = duals[total:]
    weights = np.minimum(duals[:total], prices[owner])
    return float(min(1.0, max(0.0, prices @ limits + np.max(goal - matrix.T @ weights))))


def _window(correct: int, made: int, law: Promised) -> tuple[int, int]:
    """The counts that the programme looks at one by one."""
    epsilon, delta = law.lines[0]
    rate = float(expit(epsilon)) + delta
    spread = REACH * math.sqrt(made) / 2 + 3
    return max(0, math.floor(min(correct, rate * made) - spread)), min(made, math.ceil(max(correct, rate * made) + spread))


def programme_rows(correct: int, made: int, law: Promised) -> int:
    """How large the programme is.

    >>> programme_rows(90, 100, gaussian(0.5)) < MOST_ROWS < programme_rows(900, 1000, gaussian(0.5))
    True
    """
    low, high = _window(correct, made, law)
    return (high - low) * len(law.lines)


__all__ = ["audit_one_run", "exact_p_value", "largest_refuted", "one_run", "right_guesses"]

Method = Literal["exact", "tail", "binomial"]
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
        by_tail = partial(tail_refutes, correct=correct, made=made, canaries=canaries, error=error)
        if measure == "mu":
            return lambda x: by_tail(law=gaussian(x))
        if delta == 0:  # where the binomial is exact
            return lambda x: p_value(correct=correct, made=made, canaries=canaries, epsilon=x) <= error
        if method == "tail":
            return lambda x: by_tail(law=approximate(x, delta))
        return lambda x: line_refutes(correct=correct, made=made, canaries=canaries, epsilon=x, delta=delta, error=error)

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
    *, correct: int, made: int, canaries: int, delta: float = 0.0, confidence: float = 0.95,
    measure: Measure = "epsilon", method: Method = "exact", attack: str = "guesses on canaries",
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
    tests: Sequence[tuple[int, int]], canaries: int, *,
    delta: float, confidence: float, measure: Measure, method: Method, attack: str,
) -> Evidence:
    for correct, made in tests:
        guessed(correct, made, canaries)
    small = float(probability("delta", delta))
    if method not in METHODS:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    measured_in(measure)
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
        attack, GAME, lower, 0.0 if measure == "mu" else small, float(confidence), count("canaries", canaries),
        measure=measure, estimate=estimate,
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
    scores: Sequence[float] | Floats, bits: Sequence[bool] | NDArray[np.bool_], *,
    delta: float = 0.0, confidence: float = 0.95, measure: Measure = "epsilon", method: Method = "exact",
    shares: Sequence[float] = SHARES, attack: str = "guesses on canaries",
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
