"""Blur with noise: pixelization in small cells, enlarged and smoothed (DP-Blur).

Noise on every blurred pixel would need the full scale 255 m / epsilon and leave nothing. Small cells have the same price
as large ones, and smoothing them afterwards is free.

>>> method = Blur(kernel=99, pixels=16, epsilon=0.5)
>>> method.cell, round(method.sigma, 2), method.event
(4, 15.2, Laplace(noise_multiplier=2, ...))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee
from tacit.applications.vision.images import Box, Pixels, VisionError, channels
from tacit.applications.vision.pixelize import Colour, Pixelize, enlarged
from tacit.exact import Typed
from tacit.mechanisms import Law
from tacit.parameters import count


@dataclass(frozen=True)
class Blur:
    """Noisy means of small cells, smoothed by a Gaussian of `kernel` x `kernel` pixels (Fan 2019).

    `kernel` is odd, as usual; its sigma is .3 ((k - 1)/2 - 1) + .8. `cell` is the side of the cells that are measured.

    Guarantee
        Statement: releasing a picture once costs `event`.
        Conditions: those of `Pixelize` with the same cells, pixels and boxes.
        Proved in: post-processing of `Pixelize`. The book gives the parameters of this method and no algorithm; this
        one reproduces its Table 11.2 (docs/applications/vision.md).
    """

    kernel: int
    pixels: int
    guarantee: Guarantee | str | None = None
    epsilon: InitVar[Typed | None] = None
    cell: int = 4
    colour: Colour = "rgb"
    law: Law | None = None
    pictures: int = 1

    def __post_init__(self, epsilon: Typed | None) -> None:
        object.__setattr__(self, "kernel", odd(self.kernel))
        object.__setattr__(self, "guarantee", Guarantee.of(self.guarantee, epsilon=epsilon))
        self.measured  # noqa: B018 (checks the rest)

    @property
    def measured(self) -> Pixelize:
        """What is measured before the smoothing."""
        return Pixelize(self.cell, self.pixels, self.guarantee, colour=self.colour, law=self.law, pictures=self.pictures)

    @property
    def unit(self) -> str:
        return self.measured.unit

    @property
    def event(self) -> Event:
        """What one picture costs."""
        return self.measured.event

    @property
    def sigma(self) -> float:
        """The deviation of the smoothing, in pixels."""
        return sigma_of(self.kernel)

    def checked(self, shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
        self.measured.checked(shape, boxes)

    def hidden(self, image: Pixels, boxes: Sequence[Box]) -> Pixels:
        measured, noise = self.measured, self.measured.sums(channels(image.shape))
        made = image.copy()
        for box in boxes:
            # smoothed before it is clipped: noise of both signs cancels, and clipped noise would not
            means = enlarged(measured.noisy(image[box.parts], noise), self.cell, box)
            made[box.parts] = measured.coloured(smoothed(means, self.kernel))
        return made


def odd(kernel: int) -> int:
    """A kernel with a pixel in its middle."""
    if count("kernel", kernel) % 2 == 0:
        raise VisionError(f"kernel must be odd, such as {kernel + 1}, so that it has a middle")
    return int(kernel)


def sigma_of(kernel: int) -> float:
    """The usual deviation for a kernel of so many pixels: .3 ((k - 1)/2 - 1) + .8."""
    return 0.3 * ((kernel - 1) / 2 - 1) + 0.8


def smoothed(values: NDArray[np.float64], kernel: int) -> NDArray[np.float64]:
    """A Gaussian blur of the two axes of a picture, mirrored at its edges."""
    from scipy.ndimage import gaussian_filter

    half, sigma = kernel // 2, sigma_of(kernel)
    found: NDArray[np.float64] = gaussian_filter(values, sigma=sigma, axes=(0, 1), mode="mirror", radius=half)
    return found
