"""The optimal rule for publishing keys: of all that decide on the number of people alone, none publishes a key more often.

>>> [round(float(p), 6) for p in optimal_selection(epsilon=1, delta=0.25).probabilities]
[0.0, 0.25, 0.81606, 1.0]
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np

from tacit.accounting import ApproxDP, Event, Group, ParameterError, Repeated, calibrate
from tacit.accounting.parameters import Number, count, positive, probability
from tacit.mechanisms.key_selection import Holdings, KeySelection, checked_keys, in_order
from tacit.noise import bernoulli
from tacit.noise.exponential import exp_bounds

BITS = 128  # of the probabilities, beyond those of delta
LONGEST = 10**5


@dataclass(frozen=True)
class OptimalSelection(KeySelection):
    """A key that n people have is published with the largest probability that (epsilon, delta) allows for each key.

    Guarantee
        Statement: for d people coming or going, `keys` times an (epsilon, delta)-private mechanism of group size d.
        Conditions: each person counts for at most `keys` keys, which is enforced.
        Proved in: Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1: pi(0) = 0 and
        pi(n + 1) = min(e^epsilon pi(n) + delta, 1 - e^-epsilon (1 - pi(n) - delta), 1). Each key is treated alone, one nobody has
        included. Here e^epsilon is rounded down, and each pi(n + 1) too, which keeps both inequalities and the order.
    """

    epsilon: Number
    delta: Number
    keys: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        checked_keys(self)
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", positive("delta", probability("delta", self.delta)))

    @classmethod
    def proof(cls) -> str:
        return "Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1"

    @property
    def probabilities(self) -> list[Fraction]:
        """pi(0), pi(1), ... up to the first that is 1, as fractions.

        >>> [float(p) for p in optimal_selection(epsilon=1, delta=0.25).probabilities]
        [0.0, 0.25, 0.816060..., 1.0]
        """
        bits, found = optimal_probabilities(Fraction(self.epsilon), Fraction(self.delta))
        return [Fraction(p, 1 << bits) for p in found]

    def select(self, holdings: Holdings) -> list[Hashable]:
        present, totals = holdings.capped(self.keys).weights(np.ones(self.keys + 1, dtype=np.int64))
        bits, table = optimal_probabilities(Fraction(self.epsilon), Fraction(self.delta))
        people = np.minimum(totals, len(table) - 1)
        found: list[int] = []
        for n in np.unique(people).tolist():
            group = present[people == n]
            found.extend(group[bernoulli(Fraction(table[n], 1 << bits), size=len(group)) == 1].tolist())
        return [holdings.names[k] for k in in_order(holdings, found)]

    def price(self, people: int) -> Event:
        each = Repeated(ApproxDP(self.epsilon, self.delta), self.keys)
        return each if people == 1 else Group(each, people)

    def chance(self, people: float) -> float:
        bits, table = optimal_probabilities(Fraction(self.epsilon), Fraction(self.delta))
        return table[min(math.floor(people), len(table) - 1)] / (1 << bits)

    @classmethod
    def for_budget(cls, epsilon: Number, delta: Number, keys: int = 1, column: str | None = None) -> Self:
        """The rule with about the least number of people needed that costs at most (epsilon, delta) for one person.

        Equal shares for each key; or, for a person with many keys, more than that, by optimal composition of what a part of delta buys.

        >>> OptimalSelection.for_budget(1, 1e-6, keys=10).people_needed() <= 133
        True
        """
        k, total = count("keys", keys), Fraction(positive("delta", delta))
        rules = [cls(Fraction(positive("epsilon", epsilon)) / k, total / k, k, column)]
        for share in (Fraction(1, 2), Fraction(3, 4)) if k > 1 else ():
            each = total * share / k

            def event(value: float, each: Fraction = each) -> Event:
                return Repeated(ApproxDP(value, each), k)

            start = float(rules[0].epsilon)
            rules.append(cls(calibrate(event, epsilon=float(epsilon), delta=float(total), start=start), each, k, column))
        return min(rules, key=lambda rule: rule.people_needed())


@lru_cache(maxsize=16)
def optimal_probabilities(epsilon: Fraction, delta: Fraction) -> tuple[int, list[int]]:
    """Some number of bits, and 2^bits pi(n) for n = 0, 1, ... up to the first that is 1; all rounded down.

    >>> bits, found = optimal_probabilities(Fraction(1), Fraction(1, 4))
    >>> [round(p / 2**bits, 6) for p in found]
    [0.0, 0.25, 0.81606, 1.0]
    """
    if math.log1p(float(epsilon / delta)) / float(epsilon) > LONGEST:
        raise ParameterError(f"epsilon is too small for the optimal rule: more than {LONGEST} people are needed; use GaussianSelection")
    bits = BITS + max(0, delta.denominator.bit_length() - delta.numerator.bit_length())
    one, gift = 1 << bits, math.floor(delta * (1 << bits))
    inverse = exp_bounds(epsilon, bits)[1]  # e^-epsilon from above, and hence e^epsilon from below
    growth = one * one // inverse
    found = [0]
    while found[-1] < one:
        last = found[-1]
        found.append(min((growth * last >> bits) + gift, one + (-inverse * (one - last - gift) >> bits), one))
    return bits, found


def optimal_selection(epsilon: Number, delta: Number, keys: int = 1, column: str | None = None) -> OptimalSelection:
    """The optimal rule; (epsilon, delta) is the price of one key of a person, of which she has up to `keys`.

    >>> optimal_selection(epsilon=1, delta=1e-6)
    OptimalSelection(epsilon=1, delta=1e-06, keys=1, column=None)
    """
    return OptimalSelection(epsilon, delta, keys, column)
