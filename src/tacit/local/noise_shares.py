"""Noise in shares: each of n people adds a little to a whole number, and the sum of all carries the noise of one trusted collector.

For secure sums, where only the total is seen. Discrete Laplace noise is a difference of Polya variables, which are infinitely divisible;
Skellam noise is a difference of Poisson ones. `honest` people are enough for the noise that is priced: the others' shares may be missing
or known. Draws are exact.

>>> share = polya_share(scale=2, people=50)
>>> isinstance(share, int)
True
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.parameters import Number, count, positive


def polya_share(scale: Number, people: int) -> int:
    """One person's share of discrete Laplace noise of this scale, where so many honest people add one each.

    The sum of the shares has mass proportional to exp(-|x| / scale), so a sum that one person moves by 1 is 1/scale-DP.

    Guarantee
        Statement: the sum of `people` shares costs DiscreteLaplace(scale) for each unit that one person moves it by.
        Conditions: only the sum is seen, and so many shares are honest and in it.
        Proved in: a geometric variable is a sum of n Polya variables with parameter 1/n (Agarwal, Kairouz, Liu 2021, and before).
    """
    first, second = _polya(Fraction(positive("scale", scale)), count("people", people), 2).tolist()
    return int(first - second)


def _polya(scale: Fraction, people: int, size: int) -> NDArray[np.int64]:
    """Negative binomial draws of shape 1/people and ratio e^(-1/scale).

    A geometric proposal k is accepted with the product of (j - 1 + 1/people) / j for j = 1 .. k, which is the ratio of the two mass
    functions over its value at 0: a row of rational coins, of which the first tail rejects.
    """
    found = np.empty(size, dtype=np.int64)
    for place in range(size):
        while True:
            k = int(noise.geometric(scale))
            if all(noise.bernoulli(Fraction((j - 1) * people + 1, j * people)) for j in range(1, k + 1)):
                found[place] = k
                break
    return found


def skellam_share(variance: Number, people: int) -> int:
    """One person's share of Skellam noise of this variance, where so many honest people add one each.

    >>> isinstance(skellam_share(100, 1000), int)
    True
    """
    return int(noise.skellam(Fraction(positive("variance", variance)) / count("people", people)))


def poisson(mean: Number) -> int:
    """A Poisson draw of rational mean, exactly.

    >>> poisson(0)
    0
    """
    return int(noise.poisson(mean))
