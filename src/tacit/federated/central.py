"""Central trust: clients send clipped integer vectors, and one trusted server adds them up with noise.

A vector leaves the device on a lattice of 2^30 granules a clip, cut towards zero, so that its norm in granules is
at most 2^30 exactly, whatever the floats did. Sums of such vectors are whole numbers, and their noise and price
come from `NoisySums`.

>>> import numpy as np
>>> sent = to_lattice(np.array([3.0, 4.0, np.nan]), clip=1.0)
>>> (sent / CLIP).round(6).tolist(), exact_norm_fits(sent)
([0.6, 0.8, 0.0], True)

Guarantee
    Statement: `noise(z, clip).add(sum)` costs Gaussian(z) for one client added or removed, whatever clients hold.
    Conditions: every vector of the sum passed `exact_norm_fits`, which the server checks for each of them.
    Proved in: the norm is compared in exact integers; then `NoisySums`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency
from tacit.mechanisms import NoisySums
from tacit.parameters import Number

Integers = NDArray[np.int64]
Wire = NDArray[np.int32]
CLIP = 2**30  # granules: a coordinate fits 32 bits with its sign, and squares of a norm fit 63
HUGE = 1e290  # a norm of up to 1e18 numbers of this size is a float
SLACK = 1 - 2.0**-24  # of a norm, for the rounding of floats in it


def finite(update: NDArray[Any]) -> NDArray[np.float64]:
    """A flat copy in double precision in which NaN and the infinities count as zero.

    >>> finite(np.array([[1.0, np.inf], [np.nan, -2.0]])).tolist()
    [1.0, 0.0, 0.0, -2.0]
    """
    flat = np.array(update, dtype=np.float64).ravel()
    return tamed(flat)


def tamed(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """In place: NaN and the infinities become zero, and nothing is so large that a norm of it has no float."""
    if not (numbers.max(initial=0.0) <= HUGE and numbers.min(initial=0.0) >= -HUGE):  # false for NaN, too
        np.nan_to_num(numbers, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        np.clip(numbers, -HUGE, HUGE, out=numbers)
    return numbers


def norm(flat: NDArray[np.float64]) -> float:
    """The Euclidean norm, without overflow: 1e308 is a number like any other.

    >>> norm(np.array([3e300, 4e300]))
    5e+300
    """
    with np.errstate(over="ignore"):
        square = float(np.dot(flat, flat))
    if 1e-250 < square < 1e300:
        return math.sqrt(square)
    top = float(np.max(np.abs(flat), initial=0.0))  # squares leave the range of floats, or there are none
    return 0.0 if top == 0.0 else top * math.sqrt(float(np.dot(flat / top, flat / top)))


@np.errstate(all="ignore")  # training may have left numpy set to raise, and what is raised may depend on data
def clipped(update: NDArray[Any], clip: float) -> tuple[NDArray[np.float64], float]:
    """The update with norm at most `clip`, once over the whole vector, and the norm that it had.

    >>> clipped(np.zeros(2), 1.0)
    (array([0., 0.]), 0.0)
    """
    flat = finite(update)
    length = norm(flat)
    if length > clip:
        shorten(flat, length, clip)
    return flat, length


def shorten(flat: NDArray[np.float64], length: float, clip: float) -> None:
    """Bring a vector of this norm to norm `clip`, in place and in two steps: their quotient may be below the smallest float."""
    flat *= 1.0 / length if length < 1e300 else 1e-300
    flat *= clip if length < 1e300 else clip / (length * 1e-300)


@np.errstate(all="ignore")
def to_lattice(update: NDArray[Any], clip: float) -> Wire:
    """What leaves a device: the clipped update in granules, cut towards zero."""
    flat, _ = clipped(update, clip)
    flat *= CLIP * SLACK / clip
    sent = np.clip(np.trunc(flat), -CLIP, CLIP).astype(np.int32)
    return sent if exact_norm_fits(sent) else np.zeros_like(sent)


def randomised(sent: Wire, multiplier: Number, clip: float) -> Integers:
    """What leaves a device under local trust: its vector in granules, with all of the noise in it.

    >>> abs(int(randomised(to_lattice(np.array([1.0]), 1.0), 0.001, 1.0)[0]) - CLIP) < CLIP // 50
    True
    """
    return np.asarray(noise(multiplier, clip, Adjacency.REPLACE_ONE).add(sent.astype(np.int64)), dtype=np.int64)


def plausible(sent: NDArray[np.integer[Any]], multiplier: float) -> bool:
    """Whether a vector of local trust is near enough to a clip; honest noise is farther with chance below 1e-300."""
    return bool(np.all(np.abs(sent.astype(np.float64)) <= CLIP * (1 + 40 * float(multiplier))))


def exact_norm_fits(sent: NDArray[np.integer[Any]]) -> bool:
    """Whether the norm of a vector is at most `CLIP` granules, in exact integers.

    >>> exact_norm_fits(np.array([CLIP, 0])), exact_norm_fits(np.array([CLIP, 1]))
    (True, False)
    """
    wide = sent.astype(np.int64)
    if np.any(np.abs(wide) > CLIP):
        return False
    # Parts first: a sum of squares of many coordinates at the limit would leave 64 bits.
    total = 0
    for start in range(0, len(wide), 4096):
        part = wide[start : start + 4096]
        high, low = part >> 15, part & 0x7FFF
        total += (int(high @ high) << 30) + (int(high @ low) << 16) + int(low @ low)
    return total <= CLIP**2


def noise(multiplier: Number, clip: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> NoisySums:
    """The noise of one round's sum, in granules: `multiplier` clips.

    Where one client replaces another the sum moves by two clips, so the same noise is priced at half of it.

    >>> noise(3, 2.0).event, noise(4, 2.0, Adjacency.REPLACE_ONE).event
    (Gaussian(noise_multiplier=3), Gaussian(noise_multiplier=2, adjacency=Adjacency.REPLACE_ONE))
    """
    moved = CLIP if adjacency is Adjacency.ADD_REMOVE else 2 * CLIP
    scale = Fraction(multiplier) * CLIP
    return NoisySums.of_scale("gaussian", scale, moved, granularity=Fraction(clip) / CLIP, adjacency=adjacency)
