"""The adaptive attack: hide the training and the test pictures alike, learn on the one, recognise people on the other.

Whoever wants to know what a hidden face still tells can hide faces of known people in the same way and train on them.
The share of test pictures that are recognised is the risk to judge a method by (the book's Figure 11.9). It is a lower
bound: a better learner finds more. Run it on public pictures; it shows nothing about a ledger's private ones.

>>> import numpy as np
>>> from tacit.applications.vision import Mask, reidentify
>>> people = np.repeat(np.arange(4), 5)
>>> pictures = np.stack([np.full((8, 8), 60 * who + n, np.uint8) for n, who in enumerate(people)])
>>> reidentify(None, pictures, people, splits=1).accuracy, reidentify(Mask(), pictures, people, splits=1).accuracy
(1.0, 0.25)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.applications.vision.images import PictureMethod, Pixels, VisionError, boxes_in, picture
from tacit.errors import PackageMissing
from tacit.parameters import count, probability
from tacit.pictures import BLUE, GREY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A way to hide: a method, any function of a picture, or None for pictures as they are.
Hiding = PictureMethod | Callable[[Pixels], Pixels] | None
#: Numbers of a picture that the learner sees; finer ones are averaged.
FINEST = 1200
#: And at most so many in a second, coarser sight.
COARSE = 64
#: Of the AT&T faces in 16 x 16 cells, how many percent the attack recognises, by the scale of the noise on a cell's mean,
#: in grey levels; measured with this module, means of four splits.
MEASURED = ((0.0, 98.0), (4.0, 96.0), (8.0, 93.0), (12.75, 85.0), (15.9375, 78.0), (31.875, 40.0), (63.75, 16.0), (159.375, 5.0))


def foretold(scale: float) -> float:
    """About how many percent of small faces a learner recognises at this scale of the noise on the mean of a cell.

    It is read off what was measured on the AT&T faces in 16 x 16 cells, for a warning before anything is spent. It is
    no bound: other pictures and better learners give more.

    >>> foretold(31.875), foretold(1000)
    (40.0, 5.0)
    """
    scales, percents = zip(*MEASURED, strict=True)
    return float(np.interp(scale, scales, percents))


@dataclass(frozen=True)
class Reidentified:
    """How often people were recognised: in all, and in each split of the pictures. `chance` is one over the people."""

    accuracy: float
    each: tuple[float, ...]
    chance: float
    people: int
    tested: int

    def __str__(self) -> str:
        spread = f" ({min(self.each):.0%} to {max(self.each):.0%} over {len(self.each)} splits)" if len(self.each) > 1 else ""
        return f"{self.accuracy:.1%} of {self.tested} test pictures recognised{spread}; guessing: {self.chance:.1%}"

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {"accuracy": self.accuracy, "each": list(self.each), "chance": self.chance, "people": self.people, "tested": self.tested}


def reidentify(
    hide: Hiding,
    images: Sequence[Pixels] | Pixels,
    labels: Sequence[Any] | NDArray[Any],
    classifier: Any = None,
    *,
    splits: int = 4,
    test: float = 0.2,
    seed: int = 0,
) -> Reidentified:
    """Attack a way of hiding on pictures of known people.

    `classifier` is any classifier of scikit-learn; without one it is linear discriminant analysis with shrinkage.
    In each split every person has the same share of pictures in the test. The pictures are hidden anew for each.
    """
    try:
        from sklearn.base import clone
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        from sklearn.model_selection import StratifiedShuffleSplit
    except ImportError:
        raise PackageMissing(code="package-missing", package="scikit-learn", install="'tacit[learn]'") from None

    given, people = _known(images, labels)
    learner = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto") if classifier is None else classifier
    drawn = StratifiedShuffleSplit(count("splits", splits), test_size=float(probability("test", test)), random_state=seed)
    each = []
    for train, tested in drawn.split(np.zeros((len(people), 1)), people):
        hidden = [_hidden(hide, image) for image in given]
        sights = [features(hidden, most) for most in (FINEST, COARSE)]
        seen = sights[_better(learner, [one[train] for one in sights], people[train], seed) if sights[0].shape != sights[1].shape else 0]
        fitted = clone(learner).fit(seen[train], people[train])
        each.append(float(np.mean(fitted.predict(seen[tested]) == people[tested])))
    several = len(np.unique(people))
    return Reidentified(float(np.mean(each)), tuple(each), 1 / several, several, len(tested))


def _known(images: Sequence[Pixels] | Pixels, labels: Sequence[Any] | NDArray[Any]) -> tuple[list[Pixels], NDArray[Any]]:
    """Pictures of one size with their people, at least two people with at least two pictures each."""
    given, people = [picture(image) for image in images], np.asarray(labels)
    if len(given) != len(people):
        raise VisionError(f"{len(given)} pictures have {len(people)} labels; every picture has one person")
    if len({image.shape for image in given}) != 1:
        raise VisionError("the attack needs pictures of one size; cut the faces out and resize them")
    names, counts = np.unique(people, return_counts=True)
    if len(names) < 2 or counts.min() < 2:
        raise VisionError("the attack needs at least two people with at least two pictures each: one to learn from, one to test")
    return given, people


def _hidden(hide: Hiding, image: Pixels) -> Pixels:
    if hide is None:
        return image
    return hide.hidden(image, boxes_in(image.shape, None)) if isinstance(hide, PictureMethod) else hide(image)


def _better(learner: Any, sights: Sequence[NDArray[np.float64]], people: NDArray[Any], seed: int) -> int:
    """Which sight of the training pictures the learner learns more from: a quarter of them is held back to tell.

    Averages of large squares find more where few pixels are left, those of small ones where the noise is little.
    """
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedShuffleSplit

    classes = len(np.unique(people))
    held = max(classes, len(people) // 4)
    if np.unique(people, return_counts=True)[1].min() < 2 or len(people) - held < classes:
        return 0
    ((known, tried),) = StratifiedShuffleSplit(1, test_size=held, random_state=seed).split(np.zeros((len(people), 1)), people)
    scores = [float(np.mean(clone(learner).fit(one[known], people[known]).predict(one[tried]) == people[tried])) for one in sights]
    return int(np.argmax(scores))


def features(images: Sequence[Pixels], most: int = FINEST) -> NDArray[np.float64]:
    """What a learner sees: one column for each different pixel, and averages of small squares where these are more than `most`.

    In a pixelized picture all pixels of a cell are one column, so that the learner's task is as small as the release.

    >>> features([np.repeat(np.arange(4, dtype=np.uint8), 4).reshape(4, 4) for _ in range(3)]).shape
    (3, 4)
    """
    stack = np.stack([image.reshape(*image.shape[:2], -1) for image in images])
    flat = stack.reshape(len(stack), -1)
    # equal columns have equal marks; different ones with the same mark, 1 in 2^64 pairs, would only cost a column
    weights = np.random.default_rng(1).integers(0, 2**63, len(flat), dtype=np.uint64)
    marks = np.zeros(flat.shape[1], np.uint64)
    for row, weight in zip(flat, weights, strict=True):
        marks += row * weight
    kept = np.sort(np.unique(marks, return_index=True)[1])
    if len(kept) <= FINEST:  # a release that is small already is not made smaller
        return flat[:, kept].astype(np.float64)
    _, height, width, colours = stack.shape
    side = 1
    while -(-height // side) * -(-width // side) * colours > most:
        side += 1
    rows, across = np.arange(0, height, side), np.arange(0, width, side)
    means = np.add.reduceat(np.add.reduceat(stack, rows, axis=1, dtype=np.float64), across, axis=2)
    return means.reshape(len(stack), -1)


def plot_risk(found: Mapping[str, Reidentified], *, path: Path | None = None) -> Figure:
    """Bars of how many test pictures are recognised under each method, with the rate of guessing."""
    figure, ax = canvas(None, path, height=0.8 + 0.42 * max(3, len(found)))
    names = list(found)
    shares = [100 * found[name].accuracy for name in names]
    ax.barh(names, shares, color=BLUE, height=0.6)
    for place, share in enumerate(shares):
        ax.annotate(f"{share:.0f}", (share, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)
    chance = 100 * max((one.chance for one in found.values()), default=0.0)
    ax.axvline(chance, color=GREY, ls="--", lw=1, label=f"guessing, {chance:.1f} %")
    ax.invert_yaxis()
    ax.set_xlim(0, 108)
    ax.legend(loc="lower right")
    dress(ax, "Test pictures that a learner recognises", "percent", "")
    return finish(figure, path)
