"""Before anything is sent: what n people's reports will tell, locally, shuffled or with a trusted collector, side by side.

Given the epsilon, the plan says the error; given the error, the epsilon. Each row says the least share that shows, and how many people
would have to take part for the same error.

>>> print(plan(n=100_000, size=2, epsilon=1, delta=1e-6))
100,000 people, 2 values
  model    each report    what the result tells          deviation  least share seen  people for 0.00303
  local    epsilon 1      epsilon 1                      0.00303    0.0068            100,000
  shuffle  epsilon 1      epsilon 0.0125, delta 1e-06    0.00303    0.0068            100,000
  central  none           epsilon 1                      1.41e-05   3.69e-05          467
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tacit.accounting import Adjacency, Shuffled, account, rounded_up
from tacit.errors import ParameterError
from tacit.local.choose import best
from tacit.local.collector import detectable
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Randomiser
from tacit.parameters import Number, count, positive, probability

Model = Literal["local", "shuffle", "central"]
FEW = 10_000  # reporters below which a clear signal is rare (Erlingsson, Pihur, Korolova 2014)
LARGE = 5  # an epsilon above this is told in odds


@dataclass(frozen=True)
class Option:
    """One way to ask: the epsilon of each report, what the published result costs a person, and the deviation of an estimated share.

    `detectable` is the least share that is told from none, for all values at once; `people` is how many the plan's error needs.
    """

    model: Model
    report: float | None
    price: float
    delta: float
    deviation: float
    detectable: float
    people: int


@dataclass(frozen=True)
class LocalPlan:
    """The ways side by side, the randomiser that was taken, and what should be heard before anything is sent."""

    n: int
    size: int
    error: float
    randomiser: Randomiser
    options: tuple[Option, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        head = f"  model    each report    what the result tells          deviation  least share seen  people for {self.error:.3g}"
        lines = [f"{self.n:,} people, {self.size:,} values", head]
        for one in self.options:
            report = "none" if one.report is None else f"epsilon {one.report:.4g}"
            told = f"epsilon {rounded_up(one.price, 3)}" + (f", delta {one.delta:g}" if one.delta else "")
            lines.append(f"  {one.model:<8} {report:<14} {told:<30} {one.deviation:<10.3g} {one.detectable:<17.3g} {one.people:,}")
        return "\n".join([*lines, *(f"  warning: {text}" for text in self.warnings)])


def plan(
    *, n: int, size: int, epsilon: Number | None = None, error: Number | None = None, delta: Number = 1e-6, model: Model = "local"
) -> LocalPlan:
    """What so many people's reports about one of `size` values will tell.

    `epsilon` is that of each report; with model="shuffle" or "central" it is what the published result may cost a person, and
    the report's epsilon is the largest that shuffling brings down to it. Without it, `error`, the deviation of a share that is wanted of
    the model, decides the least epsilon. With both, the plan says how many people each model needs for this error.

    >>> found = plan(n=100_000, size=2, epsilon=0.1, model="shuffle").options[1]
    >>> round(found.report, 2), round(found.deviation, 5)
    (3.71, 0.00051)
    >>> found = plan(n=1_000_000, size=1000, error=0.001).options[0]
    >>> found.deviation <= 0.001, round(found.report, 3)
    (True, 1.763)
    """
    people, values = count("n", n), count("size", size, least=2)
    lost = float(probability("delta", delta))
    if model not in ("local", "shuffle", "central"):
        raise ParameterError(f"model must be local, shuffle or central, not {model!r}")
    if epsilon is None and error is None:
        raise ParameterError("epsilon or error must be given: what a report may tell, or the wanted deviation of a share")
    asked = None if error is None else float(positive("error", error))
    wanted = float(positive("epsilon", epsilon)) if epsilon is not None else _least(values, people, asked or 0.0, lost, model)
    report = wanted if model == "local" else _largest_report(values, people, wanted, lost)
    randomiser, alone = best(values, report), best(values, wanted)
    shuffled = _shuffled(randomiser, people, lost)
    spread = _central(values) / wanted / people
    own = {"local": math.sqrt(alone.variance(people)), "shuffle": math.sqrt(randomiser.variance(people)), "central": spread}
    target = own[model] if asked is None else asked
    # a model's own error is reached by its own people, whatever rounding does
    needed = {
        "local": _needed(alone, target), "shuffle": _needed(randomiser, target),
        "central": math.ceil(_central(values) / wanted / target * (1 - 1e-12)),
    }  # fmt: skip
    options = (
        Option("local", wanted, wanted, 0.0, own["local"], _seen(alone, people), needed["local"]),
        Option("shuffle", report, shuffled, lost, own["shuffle"], _seen(randomiser, people), needed["shuffle"]),
        # Laplace noise stays within so many scales with 95% for all values at once
        Option("central", None, wanted, 0.0, spread, spread / math.sqrt(2) * math.log(20 * values), needed["central"]),
    )
    warnings = []
    if report > LARGE:
        warnings.append(f"a report of epsilon {report:.3g} lets its reader raise the odds of any value {math.exp(report):,.0f} times")
    if people < FEW:
        warnings.append(f"fewer than {FEW:,} people report; only shares above {_seen(randomiser, people):.0%} can be told from none")
    return LocalPlan(people, values, target, randomiser, options, tuple(warnings))


def _central(values: int) -> float:
    """n epsilon times the deviation of a share with a trusted collector: a replaced person moves two counts by one each, and of two
    values one count says all."""
    return math.sqrt(2) * (1 if values == 2 else 2)


def _needed(randomiser: Randomiser, error: float) -> int:
    return math.ceil(randomiser.variance(1) / error**2 * (1 - 1e-12))


def _least(values: int, people: int, error: float, delta: float, model: Model) -> float:
    """The least epsilon, to a thousandth, with which so many people reach an error."""
    if model == "central":
        return _central(values) / people / error
    low, high = 1e-4, 16.0
    if best(values, high).variance(people) > error**2:
        raise ParameterError(f"error {error:g} is not reached by {people:,} people at any epsilon up to {high:g}; ask more people")
    while high > 1.0005 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if best(values, middle).variance(people) <= error**2 else (middle, high)
    tidy = rounded_up(high, 4)  # a number that a person can write down, and reaches the error
    if best(values, float(tidy)).variance(people) <= error**2:
        high = float(tidy)
    return high if model == "local" else _shuffled(best(values, high), people, delta)


def _seen(randomiser: Randomiser, people: int) -> float:
    return detectable(Protocol(randomiser.size, randomiser), people)


def _shuffled(randomiser: Randomiser, people: int, delta: float) -> float:
    return account(Shuffled(randomiser.event, people), Adjacency.REPLACE_ONE).epsilon(delta).upper


def _largest_report(size: int, people: int, wanted: float, delta: float) -> float:
    """The largest epsilon of a report that shuffling brings down to what is wanted; never below it."""
    low = high = wanted
    while high < 20 and _shuffled(best(size, high := min(20.0, high + max(0.5, high / 2))), people, delta) <= wanted:
        low = high
    while high - low > 5e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if _shuffled(best(size, middle), people, delta) <= wanted else (low, middle)
    return low


def people_needed(*, size: int, epsilon: Number, deviation: Number) -> int:
    """How many people must report for this deviation of an estimated share.

    >>> people_needed(size=2, epsilon=1, deviation=0.01)
    9207
    """
    return math.ceil(best(count("size", size, least=2), epsilon).variance(1) / float(positive("deviation", deviation)) ** 2)
