"""How likely so many right guesses are under a promise, at the most: three theorems about canaries with a fair coin each.

`made` guesses are made on coins of `canaries` records, the guesser's choice, and `correct` of them are right. However a mechanism that
keeps the promise shares its noise between canaries, the probability of that is at most

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, expit, gammaln, log_ndtr, ndtr

from tacit.accounting import ParameterError
from tacit.accounting.parameters import nonnegative, probability

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
    # The standard library's quantile and error function: scalars through scipy's cost several times as much.
    return Law(lines, lambda x: 0.5 * math.erfc((mu - NORMAL.inv_cdf(x)) / math.sqrt(2)) if 0 < x < 1 else float(x >= 1))


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


def tail_p_value(*, correct: int, made: int, canaries: int, law: Law) -> float:
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


def tail_refutes(*, correct: int, made: int, canaries: int, law: Law, error: float) -> bool:
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


def exact_p_value(*, correct: int, made: int, canaries: int, law: Law) -> float:
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


def programme_p_value(*, correct: int, made: int, canaries: int, law: Law) -> float:
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


def _window(correct: int, made: int, law: Law) -> tuple[int, int]:
    """The counts that the programme looks at one by one."""
    epsilon, delta = law.lines[0]
    rate = float(expit(epsilon)) + delta
    spread = REACH * math.sqrt(made) / 2 + 3
    return max(0, math.floor(min(correct, rate * made) - spread)), min(made, math.ceil(max(correct, rate * made) + spread))


def programme_rows(correct: int, made: int, law: Law) -> int:
    """How large the programme is.

    >>> programme_rows(90, 100, gaussian(0.5)) < MOST_ROWS < programme_rows(900, 1000, gaussian(0.5))
    True
    """
    low, high = _window(correct, made, law)
    return (high - low) * len(law.lines)
