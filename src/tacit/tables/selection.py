"""Keys selected privately: the rule, its part of the budget, and the drawing.

A module of its own, because its rules load scipy, which questions with declared keys do without.

A group with only one person must hardly ever appear. The engine counts the people of each group after the caps; a rule of
`tacit.mechanisms.partition_selection` decides on the counts alone. Of the rules that decide so, the one that needs fewest people is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.accounting import ApproxDP, Event, Guarantee
from tacit.exact import root
from tacit.mechanisms import GaussianSelection, Holdings, KeySelection, LaplaceSelection, OptimalSelection
from tacit.tables.errors import Refused
from tacit.tables.statistics import Split
from tacit.tables.unit import Reach, Unit

#: The part of the budget that decides which keys appear.
PART = Fraction(1, 4)


@dataclass(frozen=True)
class SelectionRule:
    """A rule for keys and what it costs."""

    rule: KeySelection
    events: tuple[Event, ...]

    @property
    def people_needed(self) -> int:
        """How many people a group needs to appear with an even chance."""
        return self.rule.people_needed()

    def choose(self, groups: Sequence[Hashable], people: Sequence[int]) -> list[Any]:
        """Those groups that may be published, in an order that says nothing about the data."""
        counted = Counted(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), tuple(groups), tuple(people))
        return list(self.rule.select(counted))


@dataclass(frozen=True)
class Counted(Holdings):
    """People of each group, already capped: what a rule needs to know.

    Every person counts as one who is in as many groups as the cap allows, which is the least weight that a rule gives a person.
    """

    counts: tuple[int, ...] = ()

    def capped(self, most: int) -> Holdings:
        return self

    def weights(self, granules: Any) -> tuple[Any, Any]:
        return np.arange(len(self.counts)), np.array(self.counts, dtype=np.int64) * int(granules[-1])


def selection_for(
    noise: Callable[[Guarantee, str | None], Split], unit: Unit, spend: Guarantee, law: str | None, reach: Reach, names: str
) -> tuple[SelectionRule, Split]:
    """A rule and noise for the measures that together cost no more than the price."""
    if unit.person is None:
        raise Refused(code="keys-need-person", keys=names)
    if spend.epsilon is None or not spend.delta:
        raise Refused(code="keys-need-delta", keys=names)
    epsilon, delta, groups = spend.epsilon, spend.delta, reach.groups
    if reach.exchanged:
        # An exchange is a removal and an addition: (e, d) twice is (2 e, (1 + exp e) d) (group privacy).
        half = PART * epsilon / 2
        each = delta / 2 / (1 + Fraction(math.exp(float(half))) * (1 + Fraction(1, 10**9)))
        stated = ApproxDP(2 * half, delta / 2, adjacency=unit.adjacency)
        return SelectionRule(_best(half, each, groups), (stated,)), noise(Guarantee(epsilon=(1 - PART) * epsilon, delta=delta / 2), law)
    pure = noise(Guarantee(epsilon=(1 - PART) * epsilon), "laplace") if law != "gaussian" else None
    whole = Guarantee(epsilon=epsilon, delta=delta / 2).noise_multiplier
    assert whole is not None
    whole *= 1 + Fraction(1, 2**20)
    mixed = noise(Guarantee(mu=1 / (whole * root(1 / (1 - PART)))), "gaussian") if law != "laplace" else None
    if mixed is not None and (pure is None or _error(mixed) < _error(pure)):
        sigma = Fraction(float(whole * root(1 / PART))) * (1 + Fraction(1, 2**40))
        rule: KeySelection = GaussianSelection(sigma, _threshold(sigma, float(delta / 2), groups), groups)
        return SelectionRule(rule, (rule.price(1),)), mixed
    assert pure is not None
    # A hair less than all of delta: at exactly its own delta a bracket in floating point may find no finite epsilon.
    rule = _best(PART * epsilon, delta * (1 - Fraction(1, 2**16)), groups)
    return SelectionRule(rule, (rule.price(1),)), pure


@lru_cache(maxsize=256)
def _best(epsilon: Fraction, delta: Fraction, groups: int) -> KeySelection:
    """The rule that needs fewest people. Of the optimal rules only the one with equal shares for each key is tried: where a person has so
    many keys that composition would gain more than that, Gaussian noise needs fewer people still (tests/tables/test_selection.py)."""
    rules: list[KeySelection] = [LaplaceSelection.for_budget(epsilon, delta, groups), GaussianSelection.for_budget(epsilon, delta, groups)]
    if math.log1p(groups * float(epsilon / delta)) * groups / float(epsilon) <= 10**4:
        rules.append(OptimalSelection(epsilon / groups, delta / groups, groups))
    return min(rules, key=lambda rule: rule.people_needed())


def _error(found: Split) -> float:
    return math.fsum(float(share.part) * math.log(share.deviation) for share in found.shares)


@lru_cache(maxsize=256)
def _threshold(sigma: Fraction, delta: float, groups: int) -> float:
    """The least threshold, to nine digits, that a person's own keys reach with probability at most delta."""

    def own(threshold: float) -> float:
        _, keys = GaussianSelection(sigma, threshold, groups).price(1).inner
        return float(keys.delta) if isinstance(keys, ApproxDP) else 1.0

    low, high = 1.0, 1.0 + float(sigma)
    while own(high) > delta:
        low, high = high, high + float(sigma)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if own(middle) <= delta else (middle, high)
    return high
