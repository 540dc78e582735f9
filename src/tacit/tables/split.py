"""The budget of one question, split over its measures, and the noise that serves it better.

Each measure has a demand; demands become shares of the budget, and the question as a whole is one Gaussian event (the squared distances of
`tacit.tables.measure.joint_square`, in units of each measure's sigma, add up) or one Laplace event (`joint_absolute`). A measure that
excludes others in every row takes the same share as they do, for nothing. The law with the smaller error, weighted by the shares, is taken.

>>> from tacit.tables.measure import row_count
>>> found = split([row_count()], [Fraction(1)], Unit("id", max_rows=3), False, Guarantee(epsilon="1/2"))
>>> found.event, found.shares[0].scale
(Laplace(noise_multiplier=Fraction(2, 1)), Fraction(6, 1))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tacit.accounting import Event, Guarantee
from tacit.exact import at_most, root
from tacit.mechanisms import Law, NoisySums
from tacit.tables.errors import TableError
from tacit.tables.measure import Measure, joint_absolute, joint_square
from tacit.tables.unit import Unit

#: Scales are rounded up to this many significant bits, which costs next to nothing and keeps the sampler's arithmetic short.
BITS = 30


@dataclass(frozen=True)
class Share:
    """The noise of one measure: its block of the question's noisy sums, and its part of the budget."""

    measure: Measure
    noise: NoisySums
    block: int
    part: Fraction

    @property
    def law(self) -> Law:
        return self.noise.law

    @property
    def scale(self) -> Fraction:
        """The scale of a Laplace law or the sigma of a Gaussian one, in granules."""
        return self.noise.scales[self.block]

    @cached_property
    def granule(self) -> float:
        """What one step of the released integers is worth."""
        return float(self.measure.granularity)

    @cached_property
    def spread(self) -> float:
        """The scale in the measure's unit."""
        return self.noise.spread(self.block)

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of the noise, in the measure's unit; of a running total where cells are measured."""
        return self.noise.deviation(self.block)


@dataclass(frozen=True)
class Split:
    """Noise for every measure of a question, each a block of `noise`, and the parts of the budget that they take."""

    measures: tuple[Measure, ...]
    noise: NoisySums
    parts: tuple[Fraction, ...]

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """Measure by measure."""
        pairs = zip(self.measures, self.parts, strict=True)
        return tuple(Share(measure, self.noise, block, part) for block, (measure, part) in enumerate(pairs))

    @property
    def event(self) -> Event:
        """What all of them cost together."""
        return self.noise.event

    @property
    def law(self) -> Law:
        return self.noise.law


def parts_of(measures: Sequence[Measure], demands: Sequence[Fraction]) -> list[Fraction]:
    """Shares of the budget in proportion to the demands; a measure without demand takes what its subject's other branches take."""
    branches: dict[tuple[str, str], Fraction] = {}
    for measure, demand in zip(measures, demands, strict=True):
        key = (measure.subject, measure.branch)
        branches[key] = branches.get(key, Fraction(0)) + demand
    own = {(m.subject, m.branch): sum(1 for n in measures if (n.subject, n.branch) == (m.subject, m.branch)) for m in measures}
    found = []
    for measure, demand in zip(measures, demands, strict=True):
        if demand == 0:
            others = [value for (subject, branch), value in branches.items() if subject == measure.subject and branch != measure.branch]
            demand = max(others, default=Fraction(0)) / own[measure.subject, measure.branch]
        if demand == 0:
            raise TableError(f"{measure.name} has no share of the budget; give it a weight")
        found.append(demand)
    whole = sum((max(v for (s, _), v in branches.items() if s == subject) for subject in {s for s, _ in branches} if subject), Fraction(0))
    whole += sum((d for m, d in zip(measures, demands, strict=True) if not m.subject), Fraction(0))
    return [demand / whole for demand in found]


def split(
    measures: Sequence[Measure],
    demands: Sequence[Fraction],
    unit: Unit,
    grouped: bool,
    spend: Guarantee,
    multiplicity: int = 1,
    law: str | None = None,
) -> Split:
    """Noise for every measure, within the price."""
    spend.positive()
    parts = parts_of(measures, demands)
    found: dict[str, Split] = {}
    if spend.laplace_epsilon is not None and law != "gaussian":
        found["laplace"] = _laplace(measures, parts, unit, grouped, spend.laplace_epsilon, multiplicity)
    if spend.noise_multiplier is not None and law != "laplace":
        found["gaussian"] = _gaussian(measures, parts, unit, grouped, spend, multiplicity)
    if not found:
        raise TableError(f"{law} noise has no price in this currency; use an account with epsilon and delta, or with rho")
    return next(iter(found.values())) if len(found) == 1 else better(found["gaussian"], found["laplace"])


def better(gaussian: Split, laplace: Split) -> Split:
    """The law with the smaller errors, as logarithms weighted by what each measure deserves."""
    pairs = zip(gaussian.shares, laplace.shares, strict=True)
    ratio = math.fsum(float(g.part) * math.log(g.deviation / p.deviation) for g, p in pairs)
    return gaussian if ratio < 0 else laplace


def _laplace(
    measures: Sequence[Measure], parts: Sequence[Fraction], unit: Unit, grouped: bool, epsilon: Fraction, multiplicity: int
) -> Split:
    scales = [_short(m.absolute_of(unit, grouped, multiplicity) / (p * epsilon)) for m, p in zip(measures, parts, strict=True)]
    moved = joint_absolute(measures, scales, unit, grouped, multiplicity)
    assert moved <= epsilon
    return _split(measures, parts, "laplace", scales, 1 / moved, unit)


def _gaussian(
    measures: Sequence[Measure], parts: Sequence[Fraction], unit: Unit, grouped: bool, spend: Guarantee, multiplicity: int
) -> Split:
    multiplier = spend.noise_multiplier
    assert multiplier is not None
    lengths = [root(m.square_of(unit, grouped, multiplicity) / p) for m, p in zip(measures, parts, strict=True)]
    while True:
        sigmas = [_short(multiplier * length) for length in lengths]
        # The largest float below what the sigmas together amount to: a short number to write down, and never above the truth.
        joint = Fraction(at_most(1 / root(joint_square(measures, sigmas, unit, grouped, multiplicity))))
        found = _split(measures, parts, "gaussian", sigmas, joint, unit)
        if spend.admits(found.event, unit.adjacency):
            return found
        multiplier *= 1 + Fraction(1, 2**28)  # what the roundings and the bracket's own width may cost


def _split(
    measures: Sequence[Measure], parts: Sequence[Fraction], law: Law, scales: Sequence[Fraction], multiplier: Fraction, unit: Unit
) -> Split:
    granularities, ladders = tuple(m.granularity for m in measures), tuple(m.ladder for m in measures)
    noise = NoisySums(law, tuple(scales), multiplier, unit.adjacency, granularities, ladders)
    return Split(tuple(measures), noise, tuple(parts))


def _short(value: Fraction) -> Fraction:
    """The value with at most BITS significant bits, rounded up; short fractions stay as they are."""
    if value.denominator < 2**BITS and value.numerator < 2 ** (2 * BITS):
        return value
    power = value.numerator.bit_length() - value.denominator.bit_length() - BITS
    unit = Fraction(2) ** power
    return -(-value // unit) * unit
