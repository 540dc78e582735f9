"""Pixels one by one: randomised response among 256 levels, and the coin flips of the literature with their true price.

`PixelResponse` reports every pixel at its own level or at another one; it protects few pixels and leaves little of a
picture. `PixelSampling` publishes some pixels as they are: it is (0, delta), and its delta is computed here, never left
open. Both are for comparison; for pictures to look at, use `Pixelize`.

>>> round(PixelResponse(pixels=1, epsilon=1).truth(), 4), round(PixelResponse(pixels=1, epsilon=5).truth(), 3)
(0.0105, 0.368)
>>> round(PixelSampling(keep=1e-4, pixels=360, frames=30).delta, 2), PixelSampling(keep="1/2", pixels=1).event
(0.66, ApproxDP(epsilon=0, delta=0.5, ...))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from fractions import Fraction

import numpy as np

from tacit.accounting import ApproxDP, Event, Guarantee, PureDP
from tacit.applications.vision.images import RELATION, Box, Pixels, VisionError, channels, epsilon_alone, secret
from tacit.exact import Typed, at_least, exact
from tacit.local import Response
from tacit.mechanisms import from_coins
from tacit.parameters import count

LEVELS = 256
#: What the coin flip of Definition 11.1 shows in place of a pixel.
MIDDLE = 127


@dataclass(frozen=True)
class PixelResponse:
    """Randomised response of every channel of every pixel among 256 levels; up to `pixels` pixels share the epsilon.

    Guarantee
        Statement: releasing a picture once costs PureDP(epsilon).
        Conditions: neighbouring pictures of one size differ in at most `pixels` pixels inside the boxes (Definition
        11.1 for one pixel).
        Proved in: each of the c channels of m pixels is randomised independently at epsilon / (m c), see
        `tacit.local.Response`; all others have one law in both pictures.
        Correction: the book's mechanism for this definition, a coin flip between the pixel and 127, has no epsilon at
        all (E15): see `PixelSampling`.
    """

    pixels: int
    guarantee: Guarantee | str | None = None
    epsilon: InitVar[Typed | None] = None

    def __post_init__(self, epsilon: Typed | None) -> None:
        object.__setattr__(self, "pixels", count("pixels", self.pixels))
        object.__setattr__(self, "guarantee", epsilon_alone("randomised response is", self.guarantee, epsilon))

    @property
    def spent(self) -> Fraction:
        """The epsilon of a picture."""
        assert isinstance(self.guarantee, Guarantee) and self.guarantee.epsilon is not None
        return self.guarantee.epsilon

    @property
    def unit(self) -> str:
        return secret(self.pixels)

    @property
    def event(self) -> Event:
        """What one picture costs."""
        return PureDP(self.spent, adjacency=RELATION)

    def response(self, channels: int = 1) -> Response:
        """The randomiser of one channel of one pixel."""
        return Response(LEVELS, self.spent / (self.pixels * channels))

    def truth(self, channels: int = 1) -> float:
        """The probability that a channel of a pixel is reported as it is."""
        return self.response(channels).held

    def checked(self, shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
        self.response(channels(shape))

    def hidden(self, image: Pixels, boxes: Sequence[Box]) -> Pixels:
        response = self.response(channels(image.shape))
        made = image.copy()
        for box in boxes:
            patch = image[box.parts]
            made[box.parts] = response.privatise(patch.ravel()).reshape(patch.shape)
        return made


@dataclass(frozen=True)
class PixelSampling:
    """Each pixel as it is with probability `keep`, else 127 (Definition 11.1; the sampling of VideoDP over `frames`).

    Guarantee
        Statement: costs ApproxDP(0, delta) with delta = 1 - (1 - keep)^(pixels * frames), rounded up, and no less:
        with that probability a pixel that differs is published.
        Conditions: neighbours differ in at most `pixels` pixels of each of `frames` frames, inside the boxes.
        Proved in: unless a differing pixel is kept, both inputs give the same law; the two laws are apart by exactly
        delta. No epsilon makes it smaller (E15).
    """

    keep: Typed
    pixels: int
    frames: int = 1

    def __post_init__(self) -> None:
        kept = exact("keep", self.keep)
        if not 0 < kept < 1:
            raise VisionError("keep must be a probability between 0 and 1: with 1 the picture itself would be published")
        object.__setattr__(self, "keep", kept)
        object.__setattr__(self, "pixels", count("pixels", self.pixels))
        object.__setattr__(self, "frames", count("frames", self.frames))

    @property
    def chance(self) -> Fraction:
        """The probability that a pixel is published as it is."""
        return exact("keep", self.keep)

    @property
    def delta(self) -> float:
        """The probability that a pixel of the secret is published, rounded up."""
        kept, times = self.chance, self.pixels * self.frames
        if times <= 1000:
            return at_least(1 - (1 - kept) ** times)
        # -expm1(n log1p(-p)) is exact to a few ulps; it is widened, and no more than 1 is claimed
        found = -np.expm1(times * np.log1p(-at_least(kept))) * (1 + 1e-12)
        return min(1.0, float(np.nextafter(found, 1.0)))

    @property
    def unit(self) -> str:
        return secret(self.pixels) + (f" in each of {self.frames} frames" if self.frames > 1 else "")

    @property
    def event(self) -> Event:
        """What it costs: no epsilon, and a delta that is the chance of a failure."""
        return ApproxDP(0, self.delta, adjacency=RELATION)

    def checked(self, shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
        """Every picture will do."""

    def hidden(self, image: Pixels, boxes: Sequence[Box]) -> Pixels:
        # an interview in which all would say yes, and the rest always says no: yes with probability `keep`
        coins = from_coins(self.chance, 0)
        made = image.copy()
        for box in boxes:
            patch = image[box.parts]
            kept = coins.privatise(np.ones(patch.shape[:2], np.int64)).astype(bool)
            made[box.parts] = np.where(kept if patch.ndim == 2 else kept[..., None], patch, np.uint8(MIDDLE))
        return made
