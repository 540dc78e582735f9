"""Fit a plan to a target: the smallest noise that keeps it, found without data and never over it.

>>> from tacit.accounting import Laplace
>>> from tacit.calculus import Absolute, AddRemove, Integers, Measurement, Rows, Space, count
>>> def noise(scale):
...     return Measurement(Space(Integers(), Absolute()), lambda x: x, lambda d: Laplace(scale / d), "noise", proof="textbook 1.8")
>>> counting = Space(Rows(Integers()), AddRemove()) >> count()
>>> fit(lambda scale: counting >> noise(scale), epsilon=0.5)
2.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tacit.accounting import Adjacency, UnsupportedError, account
from tacit.accounting.methods import exact_pure, exact_rho
from tacit.accounting.parameters import Number, nonnegative, number, positive, probability
from tacit.calculus.errors import CalculusError
from tacit.calculus.plan import Measurement


def fit(
    make: Callable[[float], Measurement],
    distance: Number = 1,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    rho: Number | None = None,
    mu: Number | None = None,
    bounds: tuple[Number, Number] = (1e-9, 1e12),
) -> float:
    """The smallest parameter within `bounds` whose plan costs at most the target for inputs `distance` apart.

    `make` builds the plan from the parameter, and a larger parameter must not cost more, as for a scale of noise. Give `epsilon` (with
    `delta`), or `rho`, or `mu`. The result meets the target, and a number smaller by one part in 1e12 does not.
    """
    low, high = (float(positive("bounds", bound)) for bound in bounds)
    if not low < high:
        raise CalculusError(f"bounds must be two positive numbers in order, not {bounds}")
    meets = _target(epsilon, delta, rho, mu)
    apart = nonnegative("distance", distance)

    def good(value: float) -> bool:
        plan = make(value)
        if not isinstance(plan, Measurement):
            raise CalculusError(f"make must return a measurement, not {type(plan).__name__}; end the plan with a mechanism")
        plan.insist_on_proof()
        return meets(plan, apart)

    if not good(high):
        raise CalculusError(f"no value up to {high:g} meets the target; widen bounds or relax it; a larger parameter must cost less")
    if good(low):
        return low
    # The invariant is that `high` meets the target and `low` does not; halve on a logarithmic axis first, then plainly.
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low) * math.sqrt(high) if high / low > 2 else low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if good(middle) else (middle, high)
    return _rounded(low, high, good)


def _rounded(low: float, high: float, good: Callable[[float], bool]) -> float:
    """A shorter decimal between the two ends, if it meets the target: 2 rather than 2.0000000000004."""
    for digits in range(1, 13):
        found = float(f"{high:.{digits}g}")
        if low <= found <= high and good(found):
            return found
    return high


def _target(epsilon: Number | None, delta: Number, rho: Number | None, mu: Number | None) -> Callable[[Measurement, Number], bool]:
    """Whether a plan keeps the target, by exact fractions where there are any and by certified upper bounds elsewhere."""
    given = [(name, number(name, value)) for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu)) if value is not None]
    if len(given) != 1:
        raise CalculusError("give exactly one target: epsilon with delta, or rho, or mu")
    name, goal = given[0][0], Fraction(positive(*given[0]))
    level = probability("delta", delta)
    if level and name != "epsilon":
        raise CalculusError("delta goes with epsilon; rho and mu stand alone")

    def meets(plan: Measurement, distance: Number) -> bool:
        event, relation = plan.event(distance), plan.adjacency or Adjacency.ADD_REMOVE
        exact = exact_pure(event, relation) if name == "epsilon" else exact_rho(event, relation)
        if name == "epsilon" and exact is not None and level == 0:
            return exact <= goal
        if name == "rho" and exact is not None:
            return exact <= goal
        cost = account(event, relation)
        try:
            if name == "epsilon":
                return cost.epsilon(float(level)).upper <= goal
            return (cost.rho().upper if name == "rho" else cost.gdp().mu.upper) <= goal
        except UnsupportedError as error:
            raise CalculusError(f"this plan has no {name}: {error}") from error

    return meets
