"""Sampling schemes: how the records of one step are chosen. The object that samples and the event that prices it name the same scheme.

>>> Poisson(Fraction(256, 60000)).rate == Fraction(16, 3750)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tacit.errors import ParameterError
from tacit.parameters import Number, count, probability


@dataclass(frozen=True, eq=False)
class Scheme:
    """How a step picks its records."""

    # Written once for all schemes, as for events: see there.
    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


@dataclass(frozen=True, eq=False)
class Poisson(Scheme):
    """Every record enters independently with probability `rate`; the size of the sample is random and private."""

    rate: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", probability("rate", self.rate))


@dataclass(frozen=True, eq=False)
class TruncatedPoisson(Scheme):
    """Poisson sampling from at most `size` records, with batches cut at random to at most `batch` records."""

    rate: Number
    size: int
    batch: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", probability("rate", self.rate))
        object.__setattr__(self, "size", count("size", self.size))
        object.__setattr__(self, "batch", count("batch", self.batch))


@dataclass(frozen=True, eq=False)
class WithoutReplacement(Scheme):
    """A uniformly random subset of exactly `sample` of the `size` records; `size` is public."""

    size: int
    sample: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", count("size", self.size))
        object.__setattr__(self, "sample", count("sample", self.sample))
        if self.sample > self.size:
            raise ParameterError(f"sample must be at most size ({self.size}) without replacement, not {self.sample}")

    @property
    def rate(self) -> Fraction:
        """The chance that one given record is in the sample."""
        return Fraction(self.sample, self.size)


@dataclass(frozen=True, eq=False)
class WithReplacement(Scheme):
    """`sample` independent uniform draws from the `size` records; one record may be drawn several times."""

    size: int
    sample: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", count("size", self.size))
        object.__setattr__(self, "sample", count("sample", self.sample))


@dataclass(frozen=True, eq=False)
class RandomAllocation(Scheme):
    """Each record takes part in `selected` of `steps` steps, chosen uniformly and independently of all others (balls in bins).

    One event covers all the steps of one epoch: `Sampled(RandomAllocation(100), Gaussian(1))` is 100 noisy sums.
    """

    steps: int
    selected: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", count("steps", self.steps))
        object.__setattr__(self, "selected", count("selected", self.selected))
        if self.selected > self.steps:
            raise ParameterError(f"selected must be at most steps ({self.steps}), not {self.selected}")
