"""Exact figures for finite mechanisms: where both laws are known, there is nothing to estimate.

A `LawPair` holds the probabilities of every output on two inputs. It gives the exact epsilon at any delta, the whole
profile, the whole trade-off curve, and the set of outputs that attains it. With `Fraction` probabilities every
comparison is a comparison of fractions; only a logarithm is rounded.

>>> from fractions import Fraction
>>> coin = LawPair({"yes": Fraction(3, 4), "no": Fraction(1, 4)}, {"yes": Fraction(1, 4), "no": Fraction(3, 4)})
>>> coin.ratio(), round(coin.epsilon(), 6), coin.worst_set().outputs
(Fraction(3, 1), 1.098612, ('no',))
>>> coin.ratio(delta=Fraction(1, 4)), coin.delta_at_ratio(2)
(Fraction(2, 1), Fraction(1, 4))

The best set at a delta is always "the k outputs whose probabilities differ most in ratio" (Neyman and Pearson 1933),
so the maximum over all 2^n sets is one over n of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.claim import Claim
from tacit.parameters import nonnegative, probability

Number = int | float | Fraction
Law = Mapping[Hashable, Number] | Sequence[Number]
ROUNDING = 1e-9  # by how much probabilities in floating point may miss a sum of 1


def law(probabilities: Law) -> dict[Hashable, Number]:
    """A law as a mapping; a sequence gives the probabilities of 0, 1, 2, ...

    Fractions must sum to exactly 1, floats to 1 up to rounding.

    >>> law([Fraction(1, 2), Fraction(1, 2)])
    {0: Fraction(1, 2), 1: Fraction(1, 2)}
    >>> law([0.5, 0.4])
    Traceback (most recent call last):
    tacit.errors.ParameterError: probabilities must sum to 1, not 0.9; list every output, also the rare ones
    """
    given = dict(probabilities) if isinstance(probabilities, Mapping) else dict(enumerate(np.asarray(probabilities, dtype=object).tolist()))
    found: dict[Hashable, Number] = {output: probability("every probability", value) for output, value in given.items()}
    if all(isinstance(value, (int, Fraction)) for value in found.values()):
        total: Number = sum(found.values(), Fraction(0))
        wrong = total != 1
    else:
        total = math.fsum(found.values())
        wrong = not abs(total - 1) <= ROUNDING
    if wrong:
        raise ParameterError(f"probabilities must sum to 1, not {float(total):.12g}; list every output, also the rare ones")
    return found


@dataclass(frozen=True)
class OutputSet:
    """A set of outputs: `likely` on the second input and `unlikely` on the first, or the other way round where `swapped`."""

    outputs: tuple[Hashable, ...]
    likely: Number
    unlikely: Number
    swapped: bool

    def ratio(self, delta: Number = 0) -> Number:
        """(likely - delta) / unlikely: e^epsilon that this set shows; infinite where the other input cannot produce it."""
        if self.likely <= delta:
            return 0
        return (self.likely - delta) / self.unlikely if self.unlikely else math.inf


@dataclass(frozen=True)
class LawPair:
    """The laws of one mechanism on two inputs."""

    first: Law
    second: Law

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", law(self.first))
        object.__setattr__(self, "second", law(self.second))

    @cached_property
    def outputs(self) -> list[Hashable]:
        """All outputs of either input, the ones that speak most for the second first."""
        first, second = self._laws
        listed = [o for o in dict.fromkeys((*first, *second)) if first.get(o, 0) or second.get(o, 0)]

        def speaks(output: Hashable) -> Fraction:
            # q / (p + q) orders like q / p and is finite: exact wherever the probabilities are.
            p, q = Fraction(first.get(output, 0)), Fraction(second.get(output, 0))
            return q / (p + q)

        return sorted(listed, key=speaks, reverse=True)

    @cached_property
    def reverse(self) -> LawPair:
        """The same laws with the inputs exchanged."""
        return LawPair(self.second, self.first)

    @property
    def _laws(self) -> tuple[dict[Hashable, Number], dict[Hashable, Number]]:
        assert isinstance(self.first, dict) and isinstance(self.second, dict)
        return self.first, self.second

    def tradeoff(self) -> list[tuple[Number, Number]]:
        """The corners (false positive rate, true positive rate) of the best tests for the second input, from (0, 0) to (1, 1).

        >>> LawPair([Fraction(1, 4), Fraction(3, 4)], [Fraction(3, 4), Fraction(1, 4)]).tradeoff()
        [(0, 0), (Fraction(1, 4), Fraction(3, 4)), (Fraction(1, 1), Fraction(1, 1))]
        """
        first, second = self._laws
        return [
            (0, 0),
            *zip(
                itertools.accumulate(first.get(o, 0) for o in self.outputs),
                itertools.accumulate(second.get(o, 0) for o in self.outputs),
                strict=True,
            ),
        ]

    def worst_set(self, delta: Number = 0) -> OutputSet:
        """The set that shows the largest epsilon at `delta`, in either direction.

        >>> LawPair([0.5, 0.5], [1.0, 0.0]).worst_set()
        OutputSet(outputs=(1,), likely=0.5, unlikely=0.0, swapped=True)
        """
        delta = probability("delta", delta)
        corners = [
            (OutputSet((), likely, unlikely, swapped).ratio(delta), swapped, k, likely, unlikely)
            for swapped, pair in ((False, self), (True, self.reverse))
            for k, (unlikely, likely) in enumerate(pair.tradeoff())
        ]
        _, swapped, k, likely, unlikely = max(corners, key=lambda corner: corner[0])
        return OutputSet(tuple((self.reverse if swapped else self).outputs[:k]), likely, unlikely, swapped)

    def ratio(self, delta: Number = 0) -> Number:
        """e^epsilon at `delta`, exactly, both directions; infinite where an output is possible on one input only."""
        return max(1, self.worst_set(delta).ratio(delta))

    def epsilon(self, delta: Number = 0) -> float:
        """The least epsilon that holds at `delta` between these two inputs."""
        return _log(self.ratio(delta))

    def delta_at_ratio(self, ratio: Number) -> Number:
        """The least delta that holds with e^epsilon = `ratio`: exact for fractions.

        >>> LawPair([Fraction(1, 4), Fraction(3, 4)], [Fraction(3, 4), Fraction(1, 4)]).delta_at_ratio(1)
        Fraction(1, 2)
        """
        grown = nonnegative("ratio", ratio)
        first, second = self._laws
        return max(
            sum(max(0, q.get(o, 0) - grown * p.get(o, 0)) for o in self.outputs)
            for p, q in ((first, second), (second, first))
        )

    def delta(self, epsilon: float) -> float:
        """The least delta that holds at `epsilon`: the profile (Balle, Barthe and Gaboardi 2018)."""
        return float(self.delta_at_ratio(math.exp(nonnegative("epsilon", epsilon))))

    @property
    def total_variation(self) -> Number:
        """The largest difference of the probabilities of any set."""
        return self.delta_at_ratio(1)

    def breaks(self, claim: Claim) -> bool:
        """Whether some test between these inputs is better than the claim permits. No sampling: what it finds is a fact.

        Corners suffice: between them the curve is straight, and the claim's own curve is concave. Rounding is given to the claim.
        """
        return any(
            float(b) > claim.tpr(float(a)) + ROUNDING
            for pair in (self, self.reverse)
            for a, b in pair.tradeoff()[1:-1]
        )


def _log(ratio: Number) -> float:
    if ratio == math.inf:
        return math.inf
    if isinstance(ratio, Fraction):
        return max(0.0, math.log(ratio.numerator) - math.log(ratio.denominator))
    return max(0.0, math.log(ratio))


@dataclass(frozen=True)
class WorstPair:
    """The two inputs of a matrix between which most is leaked, and how much."""

    rows: tuple[int, int]
    pair: LawPair
    epsilon: float


def worst_pair(matrix: Iterable[Iterable[Number]], *, neighbours: Iterable[tuple[int, int]] | None = None, delta: Number = 0) -> WorstPair:
    """All pairs of rows of a channel matrix, or the neighbouring ones only: which of them tells most.

    >>> response = [[Fraction(2, 4), Fraction(1, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(2, 4), Fraction(1, 4)]]
    >>> found = worst_pair(response)
    >>> found.rows, round(found.epsilon, 6)
    ((0, 1), 0.693147)
    """
    rows = [list(row) for row in matrix]
    pairs = list(itertools.combinations(range(len(rows)), 2)) if neighbours is None else [(int(i), int(j)) for i, j in neighbours]
    if not pairs or not all(0 <= i < len(rows) for edge in pairs for i in edge):
        raise ParameterError(f"neighbours must be pairs of row numbers from 0 to {len(rows) - 1}, at least one")
    found = [WorstPair((i, j), pair, pair.epsilon(delta)) for i, j in pairs for pair in [LawPair(rows[i], rows[j])]]
    return max(found, key=lambda worst: worst.epsilon)
