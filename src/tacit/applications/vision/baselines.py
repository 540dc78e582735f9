"""Older ways to hide a picture, which promise nothing: mask, pixelization, blur, k-same, and two kinds of tampering.

They stand beside the private methods so that one table and one attack can compare them. Each has no event, so none can
be paid for, and `release` says so: "no guarantee".

>>> import numpy as np
>>> from tacit.applications.vision import release
>>> release(PlainPixelize(cell=2), np.arange(16, dtype=np.uint8).reshape(4, 4))
Hidden(4x4, no guarantee, NOT PRIVATE)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.applications.vision.blur import odd, smoothed
from tacit.applications.vision.images import Box, Pixels, VisionError, picture
from tacit.applications.vision.pixelize import cell_sums, enlarged
from tacit.parameters import count, nonnegative

#: What all of them promise.
NOTHING = "no guarantee"


@dataclass(frozen=True)
class Unproved:
    """A way to hide without a guarantee: `changed` says what becomes of one box."""

    event: None = field(default=None, init=False, repr=False)
    unit: str = field(default=NOTHING, init=False, repr=False)

    def checked(self, shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
        """Every picture will do."""

    def hidden(self, image: Pixels, boxes: Sequence[Box]) -> Pixels:
        """The picture with changed boxes."""
        made = image.copy()
        for box in boxes:
            made[box.parts] = self.changed(image[box.parts])
        return made

    def changed(self, patch: Pixels) -> Pixels:
        """What a box becomes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Mask(Unproved):
    """A box of one grey level. Its place and size still tell, and so does everything around it."""

    level: int = 0

    def changed(self, patch: Pixels) -> Pixels:
        return np.full_like(patch, self.level)


@dataclass(frozen=True)
class PlainPixelize(Unproved):
    """Means of cells without noise. A learner recognises 97 of 100 AT&T faces in 16 x 16 cells."""

    cell: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cell", count("cell", self.cell))

    def changed(self, patch: Pixels) -> Pixels:
        sums, areas = cell_sums(patch, self.cell)
        means = np.rint(sums / (areas if patch.ndim == 2 else areas[..., None])).astype(np.uint8)
        found: Pixels = enlarged(means, self.cell, Box(0, 0, patch.shape[1], patch.shape[0]))
        return found


@dataclass(frozen=True)
class PlainBlur(Unproved):
    """A Gaussian blur without noise; it can be undone by learning."""

    kernel: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", odd(self.kernel))

    def changed(self, patch: Pixels) -> Pixels:
        made: Pixels = np.rint(np.clip(smoothed(patch.astype(np.float64), self.kernel), 0, 255)).astype(np.uint8)
        return made


@dataclass(frozen=True, eq=False)
class KSame(Unproved):
    """The mean of the k faces of a gallery that are nearest to the face (Newton, Sweeney and Malin 2005).

    At least k faces become the same picture where the gallery is grouped as the paper says. Whoever knows the gallery,
    or the other k - 1 people, learns the rest: no guarantee.
    """

    gallery: tuple[Pixels, ...]
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "gallery", tuple(picture(face) for face in self.gallery))
        object.__setattr__(self, "k", count("k", self.k, least=2))
        if self.k > len(self.gallery) or len({face.shape for face in self.gallery}) != 1:
            raise VisionError(f"k-same needs a gallery of at least k = {self.k} faces of one size, not {len(self.gallery)}")

    def changed(self, patch: Pixels) -> Pixels:
        if patch.shape != self.gallery[0].shape:
            raise VisionError("k-same replaces a face by faces of the same size; resize the gallery to the box")
        faces = np.stack(self.gallery).astype(np.float64)
        far = ((faces - patch.astype(np.float64)) ** 2).reshape(len(faces), -1).sum(axis=1)
        made: Pixels = np.rint(faces[np.argsort(far, kind="stable")[: self.k]].mean(axis=0)).astype(np.uint8)
        return made


def _weights(classifier: Any, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The planes of a fitted linear classifier of scikit-learn on pixels."""
    planes = np.atleast_2d(np.asarray(getattr(classifier, "coef_", [[]]), dtype=np.float64))
    if planes.shape[1] != size:
        raise VisionError("give a fitted linear classifier of whole pictures, with coef_: fit it on image.ravel()")
    return planes, np.atleast_1d(np.asarray(classifier.intercept_, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Adversarial(Unproved):
    """Every pixel moved by `strength` grey levels against what a linear classifier sees (fast gradient sign).

    It fools that classifier. A learner that trains on pictures treated alike is not fooled: no guarantee.
    """

    classifier: Any
    strength: float

    def __post_init__(self) -> None:
        nonnegative("strength", self.strength)

    def changed(self, patch: Pixels) -> Pixels:
        planes, offsets = _weights(self.classifier, patch.size)
        scores = planes @ patch.ravel().astype(np.float64) + offsets
        if len(planes) == 1:
            toward = -np.sign(scores[0]) * planes[0]
        else:
            second, first = np.argsort(scores)[-2:]
            toward = planes[second] - planes[first]
        moved = patch + self.strength * np.sign(toward).reshape(patch.shape)
        made: Pixels = np.rint(np.clip(moved, 0, 255)).astype(np.uint8)
        return made


@dataclass(frozen=True, eq=False)
class FlipAttribute(Unproved):
    """The picture mirrored at the plane by which a linear classifier tells an attribute: glasses become none.

    One classifier's answer is turned round, and everything else in the picture stays: no guarantee.
    """

    classifier: Any

    def changed(self, patch: Pixels) -> Pixels:
        planes, offsets = _weights(self.classifier, patch.size)
        if len(planes) != 1:
            raise VisionError("an attribute is a yes or a no; fit the classifier on two classes")
        plane, length = planes[0], float(planes[0] @ planes[0])
        score = float(plane @ patch.ravel().astype(np.float64) + offsets[0])
        moved = patch - (2 * score / length if length else 0.0) * plane.reshape(patch.shape)
        made: Pixels = np.rint(np.clip(moved, 0, 255)).astype(np.uint8)
        return made
