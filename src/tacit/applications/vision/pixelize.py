"""Pixelization with noise: each cell of a picture becomes one grey level or colour, its mean plus noise (DP-Pix).

Noise is added to whole sums of cells. If at most m pixels of a picture change, all its sums together move by at most
255 m, whatever the cells and wherever the picture's edge cuts them. Means would need a larger scale wherever a cell is
cut. Use it to publish pictures whose outlines may show and whose details may not.

>>> method = Pixelize(cell=16, pixels=16, epsilon=0.5)
>>> method.sums(1).scales, round(method.scale(), 3)  # on the sum of a cell, and on the mean of a whole one
((Fraction(8160, 1),), 31.875)
>>> method.event
Laplace(noise_multiplier=2, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import APPROXIMATE, Event, Guarantee
from tacit.applications.vision.images import RELATION, Box, Pixels, VisionError, channels, secret
from tacit.exact import Typed, root
from tacit.mechanisms import Law, NoisySums
from tacit.parameters import count

Colour = Literal["rgb", "hsv"]
LAWS: tuple[Law, ...] = ("laplace", "gaussian")
#: The largest value of a channel, which is how far one pixel moves a sum.
MOST = 255


@dataclass(frozen=True)
class Pixelize:
    """Means of square cells with noise (Fan 2018), for up to `pixels` pixels of a picture.

    `cell` is the side of a cell, `guarantee` (or `epsilon`) the price of one picture: all its cells, channels and boxes
    together. Where an owner has up to `pictures` pictures, it is the price of all of them together. `colour` says in
    which channels a colour picture is averaged. `law` forces Laplace or Gaussian noise; without it the one with the
    smaller deviation on a grey picture is taken, for colour pictures too.

    Guarantee
        Statement: releasing each of `pictures` pictures once costs `event`: Laplace(1/epsilon), or Gaussian noise of
        the guarantee.
        Conditions: neighbours have pictures of the same sizes, which differ in at most `pixels` pixels each, all inside
        the boxes (Definition 11.3, Image-DP). Boxes are public and do not overlap.
        Proved in: Fan 2018 with sums in place of means. A pixel lies in one cell and moves its sum by at most 255 in
        each of c channels. So m pixels move the vector of all sums by at most 255 m c in l1 distance, whatever the
        cells. In Euclidean distance the worst case fills whole cells of area A: 255 sqrt(c (q A^2 + r^2)) with
        m = q A + r, because the sum of squares is convex; k pictures move k times as far, or sqrt(k) times. Division by
        areas, rounding, clipping to [0, 255] and enlarging use no pixel. HSV is computed pixel by pixel, so m pixels stay m pixels.
        Correction: the printed scale 255 m / (b^2 epsilon) on every mean holds only where b divides both sides (E16).
        On 92 x 112 pixels with b = m = 16 it spends 1.33 epsilon. Three channels at epsilon each spend 3 epsilon.
    """

    cell: int
    pixels: int
    guarantee: Guarantee | str | None = None
    epsilon: InitVar[Typed | None] = None
    colour: Colour = "rgb"
    law: Law | None = None
    pictures: int = 1

    def __post_init__(self, epsilon: Typed | None) -> None:
        object.__setattr__(self, "cell", count("cell", self.cell))
        object.__setattr__(self, "pixels", count("pixels", self.pixels))
        object.__setattr__(self, "pictures", count("pictures", self.pictures))
        object.__setattr__(self, "guarantee", Guarantee.of(self.guarantee, epsilon=epsilon).positive())
        if self.colour not in get_args(Colour):
            raise VisionError(f"colour must be 'rgb' or 'hsv', not {self.colour!r}")
        if self.law not in (None, *LAWS):
            raise VisionError(f"law must be 'laplace' or 'gaussian', not {self.law!r}")
        self.sums(1)

    @property
    def promised(self) -> Guarantee:
        """The price of one picture."""
        assert isinstance(self.guarantee, Guarantee)
        return self.guarantee

    @property
    def unit(self) -> str:
        return secret(self.pixels, self.pictures)

    @property
    def event(self) -> Event:
        """What the pictures cost; the same for grey and colour, because the channels share it."""
        return self.sums(1).event

    def reach(self, law: Law, channels: int) -> Fraction:
        """How far `pixels` pixels of every picture move all sums together: l1 distance for Laplace noise, Euclidean for Gaussian."""
        if law == "laplace":
            return Fraction(MOST * self.pixels * channels * self.pictures)
        area = self.cell**2
        whole, rest = divmod(self.pixels, area)
        return MOST * root(Fraction(self.pictures * channels * (whole * area**2 + rest**2)))

    def sums(self, channels: int) -> NoisySums:
        """The noise for the sums of all cells of a picture with so many channels.

        Its law is that of a grey picture, whatever the channels: `event` is booked before a picture is seen, and in colour
        another law may have the smaller deviation.
        """
        made = self._noises(1)
        return self._noises(channels)[min(made, key=lambda law: made[law].deviation())]

    def _noises(self, channels: int) -> dict[Law, NoisySums]:
        """The noise by each law that has a price."""
        epsilon, sigma = self.promised.laplace_epsilon, self.promised.noise_multiplier
        # the multiplier of an epsilon with delta is exact to a float; a ledger rounds its price up
        wider = 1 + Fraction(1, 2**24) if self.promised.currency == APPROXIMATE else 1
        multipliers = {"laplace": None if epsilon is None else 1 / epsilon, "gaussian": None if sigma is None else sigma * wider}
        made: dict[Law, NoisySums] = {}
        for law in LAWS if self.law is None else (self.law,):
            if (multiplier := multipliers[law]) is not None:
                moved = self.reach(law, channels)
                made[law] = NoisySums.of_scale(law, multiplier * moved, moved, adjacency=RELATION)
        if not made:
            raise VisionError(f"{self.law or 'such'} noise has no price in {self.promised}; give epsilon, or epsilon and delta")
        return made

    def scale(self, channels: int = 1) -> float:
        """The scale of the noise on the mean of a whole cell, in grey levels; above 128 nothing is left to see."""
        return self.sums(channels).spread() / self.cell**2

    def deviation(self, channels: int = 1) -> float:
        """The standard deviation of the mean of a whole cell before it is clipped, in grey levels."""
        return self.sums(channels).deviation() / self.cell**2

    def checked(self, shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
        area = sum(box.area for box in boxes)
        if self.pixels > area:
            raise VisionError(
                f"pixels is {self.pixels}, and only {area} are hidden; give the number of pixels that a secret covers, at most {area}"
            )

    def hidden(self, image: Pixels, boxes: Sequence[Box]) -> Pixels:
        noise = self.sums(channels(image.shape))
        made = image.copy()
        for box in boxes:
            made[box.parts] = enlarged(self.coloured(self.noisy(image[box.parts], noise)), self.cell, box)
        return made

    def noisy(self, patch: Pixels, noise: NoisySums) -> NDArray[np.float64]:
        """The noisy means of a patch's cells in the channels that are averaged, not clipped."""
        given = in_hsv(patch) if self.colour == "hsv" and patch.ndim == 3 else patch
        sums, areas = cell_sums(given, self.cell)
        return np.asarray(noise.add(sums)).astype(np.float64) / (areas if given.ndim == 2 else areas[..., None])

    def coloured(self, means: NDArray[np.float64]) -> Pixels:
        """Means as bytes, in grey or RGB."""
        clipped: Pixels = np.rint(np.clip(means, 0, MOST)).astype(np.uint8)
        return from_hsv(clipped) if self.colour == "hsv" and means.ndim == 3 else clipped


def cell_sums(patch: Pixels, cell: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sum of every cell, by channel, and the area of every cell; the last row and column may be cut.

    >>> sums, areas = cell_sums(np.ones((3, 5), np.uint8), 2)
    >>> sums.tolist(), areas.tolist()
    ([[4, 4, 2], [2, 2, 1]], [[4, 4, 2], [2, 2, 1]])
    """
    rows, columns = (np.arange(0, size, cell) for size in patch.shape[:2])
    # sums of at most 2^32 / 255 pixels fit into 32 bits, which is the fast way
    narrow = np.uint32 if cell * cell < 2**24 else np.uint64
    sums = np.add.reduceat(np.add.reduceat(patch, rows, axis=0, dtype=narrow), columns, axis=1)
    high, wide = (np.diff(np.append(edges, size)) for edges, size in zip((rows, columns), patch.shape[:2], strict=True))
    return sums.astype(np.int64), np.outer(high, wide)


def enlarged(cells: NDArray[Any], cell: int, box: Box) -> NDArray[Any]:
    """Every cell as a square of pixels, cut at the edges of the box."""
    return np.repeat(np.repeat(cells, cell, axis=0)[: box.height], cell, axis=1)[:, : box.width]


# --- hue, saturation, value ---------------------------------------------------------------------------------
# A hue is an angle, and reds lie on both sides of its end: their mean would be a blue-green. The circle is cut at
# cyan instead, opposite to skin.


def in_hsv(patch: Pixels) -> Pixels:
    """Every pixel as hue, saturation and value in bytes; hue 128 is red.

    >>> in_hsv(np.array([[[255, 0, 0], [250, 250, 250]]], np.uint8)).tolist()
    [[[128, 255, 255], [128, 0, 250]]]
    """
    values = patch.astype(np.float64)
    high, low = values.max(axis=2), values.min(axis=2)
    spread = high - low
    safe = np.where(spread > 0, spread, 1.0)
    red, green, blue = (values[..., place] for place in range(3))
    angle = np.where(
        high == red, (green - blue) / safe, np.where(high == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    )
    hue = np.where(spread > 0, (angle / 6 + 0.5) % 1, 0.5)
    found = np.stack([np.rint(hue * 256) % 256, np.rint(MOST * spread / np.where(high > 0, high, 1.0)), high], axis=2)
    return found.astype(np.uint8)


def from_hsv(cells: Pixels) -> Pixels:
    """Colours of hue, saturation and value as `in_hsv` makes them.

    >>> from_hsv(np.array([[[128, 255, 255], [128, 0, 250]]], np.uint8)).tolist()
    [[[255, 0, 0], [250, 250, 250]]]
    """
    hue, saturation, value = (cells[..., place].astype(np.float64) for place in range(3))
    place = ((hue / 256 + 0.5) % 1) * 6
    chroma = value * saturation / MOST
    parts = [value - chroma * np.clip(np.minimum((n + place) % 6, 4 - (n + place) % 6), 0, 1) for n in (5, 3, 1)]
    found: Pixels = np.rint(np.stack(parts, axis=-1)).astype(np.uint8)
    return found
