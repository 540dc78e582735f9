"""Mixtures of Gaussians with rational parameters: what a proof starts from, with no rounding anywhere.

A pair P = sum w_k N(+m_k, 1) against Q = sum v_k N(-n_k, 1) with shifts and weights that are fractions, in a canonical order, so that equal
pairs compare equal. A float is taken as the binary fraction it is.

>>> exact_poisson_gaussian(Fraction(1, 10), 2).up
((Fraction(0, 1), Fraction(9, 10)), (Fraction(1, 2), Fraction(1, 10)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tacit.accounting.errors import ParameterError
from tacit.accounting.mixture import MixturePair
from tacit.accounting.parameters import Number, count, positive, probability

Parts = tuple[tuple[Fraction, Fraction], ...]


@dataclass(frozen=True)
class ExactMixture:
    """P = sum w_k N(+m_k, 1) against Q = sum v_k N(-n_k, 1): `up` holds the exact (m_k, w_k), `down` the exact (n_k, v_k).

    >>> ExactMixture(((Fraction(0), Fraction(3, 4)), (Fraction(1), Fraction(1, 4)))).down
    ((Fraction(0, 1), Fraction(1, 1)),)
    """

    up: Parts
    down: Parts = ((Fraction(0), Fraction(1)),)

    def __post_init__(self) -> None:
        for name in ("up", "down"):
            merged: dict[Fraction, Fraction] = {}
            for shift, weight in getattr(self, name):
                if shift < 0 or weight < 0:
                    raise ParameterError(f"{name} must hold shifts and weights of zero or more, not ({shift}, {weight})")
                if weight:
                    merged[Fraction(shift)] = merged.get(Fraction(shift), Fraction(0)) + Fraction(weight)
            if sum(merged.values()) != 1:
                raise ParameterError(f"{name} must have weights that sum to exactly 1; give them as Fractions")
            object.__setattr__(self, name, tuple(sorted(merged.items())))

    @classmethod
    def of(cls, pair: MixturePair) -> ExactMixture:
        """The pair whose parameters are the stored binary fractions; the largest weight is one minus the others.

        >>> ExactMixture.of(MixturePair([(0.0, 0.75), (2.0, 0.25)])) == exact_poisson_gaussian(Fraction(1, 4), Fraction(1, 2))
        True
        """

        def parts(rows: Sequence[tuple[float, float]]) -> Parts:
            exact = sorted(((Fraction(m), Fraction(w)) for m, w in rows), key=lambda row: row[1])
            return (*exact[:-1], (exact[-1][0], 1 - sum((w for _, w in exact[:-1]), Fraction(0))))

        return cls(parts(pair.up), parts(pair.down))

    def reverse(self) -> ExactMixture:
        """The other direction."""
        return ExactMixture(self.down, self.up)

    def pair(self) -> MixturePair:
        """The same in floating point."""
        return MixturePair([(float(m), float(w)) for m, w in self.up], [(float(n), float(v)) for n, v in self.down])

    def total_shift(self) -> Fraction | None:
        """m + n where both sides are single Gaussians, else None."""
        return self.up[0][0] + self.down[0][0] if len(self.up) == len(self.down) == 1 else None

    def ranges(self) -> tuple[Fraction, Fraction]:
        """The ranges of the shifts of P and of Q."""
        return self.up[-1][0] - self.up[0][0], self.down[-1][0] - self.down[0][0]


Mixtures = Sequence[tuple[ExactMixture, int]]


def exact_gaussian(noise_multiplier: Number, group: int = 1) -> ExactMixture:
    """The Gaussian mechanism; a float is taken as the binary fraction it is.

    >>> exact_gaussian(0.5).up
    ((Fraction(2, 1), Fraction(1, 1)),)
    """
    return ExactMixture(((count("group", group) / Fraction(positive("noise_multiplier", noise_multiplier)), Fraction(1)),))


def exact_poisson_gaussian(rate: Number, noise_multiplier: Number, group: int = 1) -> ExactMixture:
    """Removal of a group of records from a Poisson-sampled Gaussian sum; `.reverse()` is the addition.

    >>> exact_poisson_gaussian(Fraction(256, 60000), 1).up[1]
    (Fraction(1, 1), Fraction(8, 1875))
    """
    q, sigma, size = Fraction(probability("rate", rate)), Fraction(positive("noise_multiplier", noise_multiplier)), count("group", group)
    return ExactMixture(tuple((k / sigma, math.comb(size, k) * q**k * (1 - q) ** (size - k)) for k in range(size + 1)))


def exact_poisson_gaussian_replaced(rate: Number, noise_multiplier: Number) -> ExactMixture:
    """Replacement of one record in a Poisson-sampled Gaussian sum of clipped terms.

    >>> pair = exact_poisson_gaussian_replaced(Fraction(1, 10), 2)
    >>> pair == pair.reverse()
    True
    """
    up = exact_poisson_gaussian(rate, noise_multiplier).up
    return ExactMixture(up, up)
