"""Cases for `tacit.noise`: every law shifted by one sensitivity, against the price that its proof gives it.

>>> [case.name for case in cases()][:2]
['noise: discrete Laplace', 'noise: rounded Laplace']
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tacit import noise
from tacit.accounting import DiscreteGaussian, DiscreteLaplace, Event, Gaussian, Laplace, PureDP
from tacit.audit.selftest.case import Case, promise

DELTA = 0.01


def shifted(draw: Callable[[int], Any], by: int) -> Callable[[int], Any]:
    """The outputs of an additive mechanism on an input of this size."""
    return lambda n: by + draw(n)


def additive(name: str, event: Event, draw: Callable[[int], Any], by: int, floor: float, **more: Any) -> Case:
    """A law added to 0 and to `by`."""
    return Case(name, promise(event), shifted(draw, 0), shifted(draw, by), floor, **more)


def cases() -> list[Case]:
    """One for each law."""
    # e / (1 + e), rounded down: heads on one input as often as tails on the other.
    heads = Fraction(731_058, 10**6)
    return [
        additive("noise: discrete Laplace", DiscreteLaplace(1, 1), lambda n: noise.discrete_laplace(1, size=n), 1, 0.9),
        additive("noise: rounded Laplace", Laplace(Fraction(1, 2)), lambda n: noise.rounded_laplace(8, size=n), 16, 0.9),
        additive("noise: discrete Gaussian", DiscreteGaussian(2, 1), lambda n: noise.discrete_gaussian(2, size=n), 1, 0.7, delta=DELTA),
        additive("noise: rounded Gaussian", Gaussian(1), lambda n: noise.rounded_gaussian(1000, size=n), 1000, 0.9),
        Case(
            "noise: Bernoulli coin",
            promise(PureDP(1)),
            lambda n: noise.bernoulli(heads, size=n),
            lambda n: noise.bernoulli(1 - heads, size=n),
            0.9,
        ),
        Case(
            "noise: weighted choice",
            promise(PureDP(1)),
            lambda n: noise.choose_weighted([271_828, 100_000, 100_000], size=n),
            lambda n: noise.choose_weighted([100_000, 271_828, 100_000], size=n),
            0.9,
        ),
        Case(
            "noise: uniform integers",
            promise(PureDP(Fraction(1, 1000))),
            # Nothing may be found here, so nothing must be: a uniform number plus a shift, modulo its range, says nothing.
            lambda n: noise.uniform_integers(16, size=n),
            lambda n: (noise.uniform_integers(16, size=n) + 5) % 16,
            0.0,
            why="a one-time pad leaks nothing; this case finds sources that do not cover their range evenly",
        ),
        Case(
            "noise: permutation",
            promise(PureDP(Fraction(1, 1000))),
            lambda n: np.array([noise.permutation(3) for _ in range(n)]),
            lambda n: np.array([noise.permutation(3)[::-1] for _ in range(n)]),
            0.0,
            trials=4000,
            why="a uniform order leaks nothing about the order it was given",
        ),
    ]
