"""Noise on the largest singular values of a picture (DP-SVD): privacy by distance, and its singular vectors in the open.

A picture is U diag(s) V'. The k largest values get Laplace noise by Euclidean distance; U and V are used as they are.
So the guarantee is about pictures that share U and V and whose values lie within a stated `radius` of each other. Values
of 8-bit faces are in the thousands: an epsilon of .5 for each unit moves them by 8. **It hides nothing from a learner**:
of the AT&T faces at least 95 in 100 are still recognised. It is here to be compared with.

>>> method = Singular(rank=4, radius=1, epsilon=0.5)
>>> method.event, method.unit
(PureDP(epsilon=Fraction(1, 2), ...), 'singular values within distance 1, with singular vectors in the open')
>>> round(method.mean_move(), 1)
8.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee, PureDP
from tacit.applications.vision.images import RELATION, Box, ByDistance, Pixels, VisionError, channels
from tacit.calculus import L2, Lattice, Measurement, Space, Vectors
from tacit.exact import Typed, root
from tacit.mechanisms import spherical_laplace
from tacit.parameters import count

#: Granules of the lattice in a radius; rounding costs about a thousandth of the price.
FINE = 1 << 12
#: Values are computed in floating point, whose error stays far below a granule of this radius.
SMALLEST = Fraction(1, 64)
#: Coordinates that the noise is drawn for.
MOST = 16


@dataclass(frozen=True)
class Singular(ByDistance):
    """The `rank` largest singular values with noise of density exp(-e |z - s|) (Fan 2019); `epsilon` is the price at `radius`.

    Guarantee
        Statement: two pictures whose singular values are within `radius` (Euclidean distance) cost PureDP(epsilon).
        Conditions: both have the same singular vectors and one size, and one box is hidden (Definition 11.4). The
        vectors are published as they are: about anything else this is no guarantee.
        Proved in: `tacit.mechanisms.spherical_laplace` on a lattice of radius / 4096. Rounding and floating point move
        the distance of two vectors of k values by at most 2 sqrt(k) granules, for which the noise is enlarged.
        Correction: e^(epsilon d) makes the printed epsilon one for each unit of a value in the thousands (E17); the
        price is stated at a radius here.
    """

    rank: int
    radius: Typed
    guarantee: Guarantee | str | None = None
    epsilon: InitVar[Typed | None] = None

    def __post_init__(self, epsilon: Typed | None) -> None:
        object.__setattr__(self, "rank", count("rank", self.rank))
        self._stated(SMALLEST, epsilon, "singular values are computed in floating point")

    @property
    def unit(self) -> str:
        return f"singular values within distance {float(self.within):g}, with singular vectors in the open"

    @property
    def event(self) -> Event:
        """What one picture costs, at the radius."""
        return PureDP(self.spent, adjacency=RELATION)

    def mean_move(self, channels: int = 1) -> float:
        """How far the values are moved on average: their number times radius / epsilon."""
        return self.rank * channels * float(self.within / self.spent)

    def plan(self, channels: int = 1) -> Measurement:
        """The noise for the values of all channels, on the lattice."""
        values = self.rank * channels
        granule = self.within / FINE
        # root rounds up, so the distance is never taken too small
        farthest = self.within + 2 * root(Fraction(values)) * granule
        made = Space(Vectors(Lattice(granule), values), L2()) >> spherical_laplace(self.spent / farthest)
        assert isinstance(made, Measurement)
        return made

    def checked(self, shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
        if len(boxes) != 1:
            raise VisionError(f"singular values are those of one box, not of {len(boxes)}; release each by itself and pay each time")
        least, values = min(boxes[0].width, boxes[0].height), self.rank * channels(shape)
        if self.rank > least:
            raise VisionError(f"rank is {self.rank}, and the box has only {least} singular values")
        if values > MOST:
            raise VisionError(f"rank times channels is {values}; noise is drawn for at most {MOST} values, so give a smaller rank")

    def hidden(self, image: Pixels, boxes: Sequence[Box]) -> Pixels:
        (box,) = boxes
        patch = image[box.parts].astype(np.float64)
        layers = patch.reshape(*patch.shape[:2], -1)
        parts = [np.linalg.svd(layers[..., place], full_matrices=False) for place in range(layers.shape[2])]
        values = np.concatenate([s[: self.rank] for _, s, _ in parts])
        noisy = self._noisy(values, layers.shape[2])
        made = [
            (u[:, : self.rank] * noisy[self.rank * place : self.rank * (place + 1)]) @ v[: self.rank]
            for place, (u, _, v) in enumerate(parts)
        ]
        found = image.copy()
        found[box.parts] = np.rint(np.clip(np.stack(made, axis=-1), 0, 255)).astype(np.uint8).reshape(patch.shape)
        return found

    def _noisy(self, values: NDArray[np.float64], channels: int) -> NDArray[np.float64]:
        granule = float(self.within / FINE)
        whole = np.rint(values / granule).astype(np.int64)
        return np.asarray(self.plan(channels).function(whole), dtype=np.float64)


def farthest_move(first: Pixels, second: Pixels, rank: int) -> float:
    """How far apart the largest singular values of two pictures are; by Mirsky at most the pictures' own distance."""
    one, two = (np.linalg.svd(picture.astype(np.float64), compute_uv=False)[:rank] for picture in (first, second))
    return float(math.dist(one, two))
