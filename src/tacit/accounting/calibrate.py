"""Solve for a parameter: the noise, the number of steps, the sampling rate, or how many queries a target allows.

>>> from tacit.accounting import Gaussian
>>> round(calibrate(lambda sigma: Gaussian(sigma), epsilon=1, delta=1e-5), 6)
3.730632
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.accounting.account import Cost, account
from tacit.accounting.events.tree import Adjacency, Event
from tacit.accounting.guarantee import Guarantee
from tacit.errors import AccountingError, ParameterError, UnsupportedError
from tacit.parameters import nonnegative, positive, probability


def calibrate(
    make: Callable[[float], Event], *, guarantee: Guarantee | str | None = None,
    epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
    mu: float | None = None, adjacency: Adjacency | None = None, null_record: bool = False,
    low: float = 1e-6, high: float = 1e9, start: float = 1.0, integer: bool = False,
    tolerance: float = 1e-8, method: str | None = None,
) -> float:
    """The value of one parameter at which `make(value)` just meets the target; the result never exceeds it.

    The cost may rise or fall with the parameter: noise is made as small as the target allows, steps, rates and numbers of queries as large.
    Give `epsilon` and `delta`, `rho`, `mu`, or a `guarantee`; `low` and `high` limit the search; `integer=True` searches whole numbers.

    >>> from tacit.accounting import Poisson, Repeated, Sampled, Gaussian
    >>> make = lambda steps: Repeated(Sampled(Poisson(0.01), Gaussian(2)), steps)
    >>> steps = calibrate(make, epsilon=1, delta=1e-6, integer=True)
    >>> account(make(steps)).epsilon(1e-6).upper <= 1 < account(make(steps + 1)).epsilon(1e-6).upper
    True
    """
    if guarantee is not None:
        amounts = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).floats
        epsilon, delta, rho, mu = amounts.epsilon, amounts.delta, amounts.rho, amounts.mu
    excess = _excess(make, epsilon, delta, rho, mu, adjacency, null_record, method)
    if epsilon is not None and method is None and not integer:
        # One direction decides nearly always: search with it alone, and let both have the last word.
        quick = _excess(make, epsilon, delta, rho, mu, adjacency, null_record, method, quick=True)
        found = _search(quick, low, high, start, tolerance)
        if excess(found) <= 0:
            return found
    if integer:
        _check(low, high)
        bottom, top = max(1, math.ceil(low)), math.floor(high)
        first = min(max(1, round(start), bottom), top)
        fast = None
        if epsilon is not None and method is None:
            fast = _excess(make, epsilon, delta, rho, mu, adjacency, null_record, method, quick=True)
        return _integer(excess, bottom, top, first, fast)
    return _search(excess, low, high, start, tolerance)


def _check(low: float, high: float) -> None:
    if not 0 < low <= high:
        raise ParameterError(f"low must be positive and at most high, not low={low}, high={high}")


def _search(excess: Callable[[float], float], low: float, high: float, start: float, tolerance: float) -> float:
    """The border between meeting and exceeding the target, approached from the side that meets it."""
    _check(low, high)
    start = min(max(start, low), high)
    points = [(math.log(start), excess(start))]
    # were the cost inverse to the parameter, as for much noise, this would be the answer
    nudge = min(max(points[0][1], -1.5), 1.5)
    nudge = math.copysign(max(abs(nudge), 0.05), nudge)
    nudge = nudge if math.log(low) <= points[0][0] + nudge <= math.log(high) else -nudge
    points.append((points[0][0] + nudge, excess(math.exp(points[0][0] + nudge))))
    # Cost against parameter is nearly straight on log axes: follow the secant, with growing overshoot, until the target is crossed.
    reach = 1.0
    while (points[-1][1] > 0) == (points[-2][1] > 0):
        (x0, f0), (x1, f1) = points[-2:]
        slope = (f1 - f0) / (x1 - x0)
        downhill = -math.copysign(1.0, slope if slope else -1.0) * math.copysign(1.0, f1)
        move = min(max(abs(f1 / slope), 0.05), 3.0) if slope else 1.0
        x = x1 + downhill * move * reach
        x = min(max(x, math.log(low)), math.log(high))
        if x == x1:
            if f1 <= 0:
                return math.exp(x1)
            raise UnsupportedError(f"no value between {low:g} and {high:g} meets the target; widen the limits or relax the target")
        points.append((x, excess(math.exp(x))))
        reach *= 1.3
    good, bad = sorted(points[-2:], key=lambda p: p[1] > 0)
    return _bracketed(excess, good, bad, tolerance)


def _excess(
    make: Callable[[float], Event], epsilon: float | None, delta: float | None, rho: float | None,
    mu: float | None, adjacency: Adjacency | None, null_record: bool, method: str | None, *,
    quick: bool = False,
) -> Callable[[float], float]:
    """log(cost / target): positive where the target is exceeded."""
    given = [name for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu)) if value is not None]
    if len(given) != 1:
        raise ParameterError("give exactly one target: epsilon with delta, or rho, or mu")
    measure: Callable[[Cost], float]
    if epsilon is not None:
        goal = float(positive("epsilon", epsilon))
        level = float(probability("delta", nonnegative("delta", 0 if delta is None else delta)))

        if method == "central-limit":
            raise ParameterError("method must be one that gives a bound; central-limit is an estimate and cannot be calibrated to")

        def measure(cost: Cost) -> float:
            return cost.epsilon_one_way(level) if quick else cost.bound(level, method).upper

    elif delta is not None:
        raise ParameterError("delta goes with epsilon; rho and mu stand alone")
    elif rho is not None:
        goal = float(positive("rho", rho))

        def measure(cost: Cost) -> float:
            return cost.rho().upper

    else:
        goal = float(positive("mu", mu))

        def measure(cost: Cost) -> float:
            return cost.gdp().mu.upper

    def excess(x: float) -> float:
        cost = measure(account(make(x), adjacency, null_record=null_record))
        if math.isnan(cost):
            raise AccountingError("the cost is not a number; this is a bug, please report it")
        if cost <= goal:
            return math.log(cost / goal) if cost > 0 else -50.0
        return math.log(cost / goal) if math.isfinite(cost) else 50.0

    return excess


def _bracketed(excess: Callable[[float], float], good: tuple[float, float], bad: tuple[float, float], tolerance: float) -> float:
    """Shrink [good, bad] on log axes by false position with halving (Illinois); only ever return a value that meets the target."""
    (a, fa), (b, fb) = good, bad
    side = 0
    ga, gb = fa, fb
    for i in range(100):
        if fa == 0 or abs(a - b) <= tolerance:
            break
        x = (a * gb - b * ga) / (gb - ga) if gb != ga and i % 8 != 7 else 0.5 * (a + b)
        # aim a little at the safe side, so that one more evaluation usually closes the search
        x += math.copysign(min(0.3 * tolerance, 0.3 * abs(x - a)), a - b)
        fx = excess(math.exp(x))
        if fx <= 0:
            gb = gb / 2 if side == 1 else fb
            a, fa, ga, side = x, fx, fx, 1
            slope = abs((fb - fa) / (b - a)) if b != a else 1.0
            if -fx <= slope * tolerance:
                break
        else:
            ga = ga / 2 if side == -1 else fa
            b, fb, gb, side = x, fx, fx, -1
    return math.exp(a)


def _integer(excess: Callable[[float], float], low: int, high: int, start: int, quick: Callable[[float], float] | None = None) -> int:
    """The largest (or smallest) whole number that meets the target.

    Cost against parameter is nearly straight on log axes, so a few secants find the place; `quick`, a bound on the excess from below,
    finds it first, and the excess itself has the last word.
    """
    known: dict[int, float] = {}

    def at(n: int) -> float:
        if n not in known:
            known[n] = (quick or excess)(n)
        return known[n]

    if low == high:
        if excess(low) <= 0:
            return low
        raise UnsupportedError(f"even {low} exceeds the target; add noise or relax the target")
    # two steps take longer to price than a thousand, so the second look is further off
    second = min(max(2 * start, start + 999), high) if start < high else max(start // 2, low)
    rising = (at(second) >= at(start)) == (second > start)  # then the largest that fits is wanted, else the smallest
    good, bad = (low, high) if rising else (high, low)
    for n in (start, second):
        if at(n) <= 0:
            good = max(good, n) if rising else min(good, n)
        else:
            bad = min(bad, n) if rising else max(bad, n)
    if at(good) > 0:
        raise UnsupportedError(f"even {good} exceeds the target; add noise or relax the target")
    if at(bad) <= 0:  # everything meets it
        good = bad
    last = 0
    for i in range(200):
        if abs(good - bad) <= 1:
            break
        a, b = math.log(good), math.log(bad)
        fa, fb = at(good), at(bad)
        near = sorted(known, key=lambda n: abs(known[n]))[:2]
        guess = 0.5 * (a + b)
        if i % 4 != 3 and known[near[0]] != known[near[1]]:
            (x0, f0), (x1, f1) = ((math.log(n), known[n]) for n in near)
            guess = x0 - f0 * (x1 - x0) / (f1 - f0)
        elif i % 4 != 3 and abs(fa) < 40 and abs(fb) < 40:
            guess = (a * fb - b * fa) / (fb - fa)
        n = round(math.exp(min(max(guess, min(a, b)), max(a, b))))
        if n == last and at(n) <= 0:  # the border is next to it, most likely
            n += 1 if rising else -1
        n = min(max(n, min(good, bad) + 1), max(good, bad) - 1)
        last = n
        good, bad = (n, bad) if at(n) <= 0 else (good, n)
    if quick is None or excess(good) <= 0:
        return good
    return _integer(excess, low, high, start)
