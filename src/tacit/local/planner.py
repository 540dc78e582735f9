"""Before anything is sent: what n people's reports will tell, locally, shuffled or with a trusted collector, side by side.

>>> print(plan(n=100_000, size=2, epsilon=1, delta=1e-6))  # doctest: +ELLIPSIS
100,000 people, 2 values
  model    each report    what the result tells          deviation of a share
  local    epsilon 1      epsilon 1                      0.00303
  shuffle  epsilon 1      epsilon 0.0125, delta 1e-06    0.00303
  central  none           epsilon 1                      1.41e-05
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
    """One way to ask: the epsilon of each report, what the published result costs a person, and the deviation of an estimated share."""

    model: Model
    report: float | None
    price: float
    delta: float
    deviation: float
    detectable: float


@dataclass(frozen=True)
class LocalPlan:
    """The ways side by side, the randomiser that was taken, and what should be heard before anything is sent."""

    n: int
    size: int
    randomiser: Randomiser
    options: tuple[Option, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        head = "  model    each report    what the result tells          deviation of a share"
        lines = [f"{self.n:,} people, {self.size:,} values", head]
        for one in self.options:
            report = "none" if one.report is None else f"epsilon {one.report:.4g}"
            told = f"epsilon {rounded_up(one.price, 3)}" + (f", delta {one.delta:g}" if one.delta else "")
            lines.append(f"  {one.model:<8} {report:<14} {told:<30} {one.deviation:.3g}")
        return "\n".join([*lines, *(f"  warning: {text}" for text in self.warnings)])


def plan(*, n: int, size: int, epsilon: Number, delta: Number = 1e-6, model: Model = "local") -> LocalPlan:
    """What so many people's reports about one of `size` values will tell.

    `epsilon` is that of each report; with model="shuffle" or "central" it is what the published result may cost a person, and
    the report's epsilon is the largest that shuffling brings down to it.

    >>> found = plan(n=100_000, size=2, epsilon=0.1, model="shuffle").options[1]
    >>> round(found.report, 2), round(found.deviation, 5)
    (3.71, 0.00051)
    """
    people, values = count("n", n), count("size", size, least=2)
    wanted, lost = float(positive("epsilon", epsilon)), float(probability("delta", delta))
    if model not in ("local", "shuffle", "central"):
        raise ParameterError(f"model must be local, shuffle or central, not {model!r}")
    report = wanted if model == "local" else _largest_report(values, people, wanted, lost)
    randomiser, alone = best(values, report), best(values, wanted)
    shuffled = _shuffled(randomiser, people, lost)
    central = wanted
    # a replaced person moves two counts by one each; of two values, one count says all
    spread = math.sqrt(2) * (1 if values == 2 else 2) / central / people
    local = alone if model != "local" else randomiser
    options = (
        Option("local", float(local.epsilon), float(local.epsilon), 0.0, math.sqrt(local.variance(people)), _seen(local, people)),
        Option("shuffle", float(randomiser.epsilon), shuffled, lost, math.sqrt(randomiser.variance(people)), _seen(randomiser, people)),
        Option("central", None, central, 0.0, spread, spread * math.log(20 * values)),
    )
    warnings = []
    if report > LARGE:
        warnings.append(f"a report of epsilon {report:.3g} lets its reader raise the odds of any value {math.exp(report):,.0f} times")
    if people < FEW:
        warnings.append(f"fewer than {FEW:,} people report; only shares above {_seen(randomiser, people):.0%} can be told from none")
    return LocalPlan(people, values, randomiser, options, tuple(warnings))


def _seen(randomiser: Randomiser, people: int) -> float:
    return detectable(Protocol(randomiser.size, randomiser), people)


def _shuffled(randomiser: Randomiser, people: int, delta: float) -> float:
    return account(Shuffled(randomiser.event, people), Adjacency.REPLACE_ONE).epsilon(delta).upper


def _largest_report(size: int, people: int, wanted: float, delta: float) -> float:
    """The largest epsilon of a report that shuffling brings down to what is wanted; never below it."""
    low, high = wanted, max(wanted, 20.0)
    for _ in range(18):
        middle = (low + high) / 2
        low, high = (middle, high) if _shuffled(best(size, middle), people, delta) <= wanted else (low, middle)
    return low


def people_needed(*, size: int, epsilon: Number, deviation: Number) -> int:
    """How many people must report for this deviation of an estimated share.

    >>> people_needed(size=2, epsilon=1, deviation=0.01)
    9207
    """
    return math.ceil(best(count("size", size, least=2), epsilon).variance(1) / float(positive("deviation", deviation)) ** 2)
