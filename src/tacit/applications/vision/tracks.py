"""Tracks of objects in a video: in which key frames each was seen, by randomised response, and unbiased counts from it.

The presence of an object in M public key frames is a row of M bits. Every bit is reported by randomised response at
epsilon / M, so that any two objects are told apart by at most epsilon, whatever their rows (Definition 11.7). Counts per
key frame are estimated without bias. Use few key frames: the error grows with their number.

>>> plan = Presence(keyframes=10, epsilon=5)
>>> round(plan.flip, 4), plan.event
(0.3775, Repeated(event=RandomizedResponse(epsilon=Fraction(1, 2), categories=2), count=10))
>>> seen = presence_bits([("car", 0), ("car", 30), ("van", 30)], keyframes=[0, 30])
>>> seen.tolist()
[[1, 1], [0, 1]]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee, RandomizedResponse, Repeated
from tacit.applications.vision.images import VisionError, at_home, epsilon_alone, table_of
from tacit.exact import Typed
from tacit.ledger import Account, paying
from tacit.mechanisms import RandomisedResponse
from tacit.parameters import count
from tacit.pictures import BLUE, GREY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bits = NDArray[np.int64]
#: What the guarantee protects.
UNIT = "object of a video"


@dataclass(frozen=True)
class Presence:
    """Presence in `keyframes` public key frames by randomised response; `epsilon` is the price for one object.

    Guarantee
        Statement: the report of an object costs Repeated(RandomizedResponse(epsilon / M), M), which is epsilon.
        Conditions: one object is replaced by another, in all frames at once (Definitions 11.5 and 11.7). The number of
        objects, the key frames and the background are public.
        Proved in: two rows of M bits differ in at most M places, and each place has the ratio e^(epsilon / M). Reports
        are sorted, because the order of objects may tell when they came. Counts and pictures are post-processing.
    """

    keyframes: int
    guarantee: Guarantee | str | None = None
    epsilon: InitVar[Typed | None] = None

    def __post_init__(self, epsilon: Typed | None) -> None:
        object.__setattr__(self, "keyframes", count("keyframes", self.keyframes))
        object.__setattr__(self, "guarantee", epsilon_alone("presence bits are", self.guarantee, epsilon))

    @property
    def spent(self) -> Fraction:
        """The price for one object."""
        assert isinstance(self.guarantee, Guarantee) and self.guarantee.epsilon is not None
        return self.guarantee.epsilon

    @property
    def response(self) -> RandomisedResponse:
        """The randomiser of one bit."""
        return RandomisedResponse(self.spent / self.keyframes)

    @property
    def flip(self) -> float:
        """The probability that a bit is turned round, 1 / (1 + e^(epsilon / M))."""
        return self.response.each_other

    @property
    def event(self) -> Event:
        """What all reports cost for one object."""
        return Repeated(RandomizedResponse(self.spent / self.keyframes), self.keyframes)

    @property
    def unit(self) -> str:
        return UNIT

    def deviation(self, objects: int) -> float:
        """The standard deviation of an estimated count among so many objects: sqrt(n) / (2 sinh(epsilon / 2M)).

        >>> round(Presence(keyframes=10, epsilon=5).deviation(100), 2)
        19.79
        """
        return math.sqrt(count("objects", objects)) / (2 * math.sinh(float(self.spent) / (2 * self.keyframes)))

    def error(self, objects: int, confidence: float = 0.95) -> float:
        """How far an estimated count may be off, with this confidence, by the normal approximation."""
        return self.deviation(objects) * NormalDist().inv_cdf(0.5 + confidence / 2)

    def carries(self, objects: int) -> int:
        """The most key frames whose counts are within the number of objects, 19 times in 20; 0 where none is."""
        wide = NormalDist().inv_cdf(0.975)
        return int(float(self.spent) / (2 * math.asinh(wide / (2 * math.sqrt(count("objects", objects))))))

    def checked(self, objects: int) -> None:
        """Refuse more bits than the budget can carry, before anything is spent."""
        most = self.carries(objects)
        if self.keyframes > most:
            advice = f"use at most {most} key frames, or a larger epsilon" if most else "use a larger epsilon"
            raise VisionError(
                f"{self.keyframes} key frames are more bits than epsilon {float(self.spent):g} can carry for {objects} objects: "
                f"a count would be off by more than all of them; {advice}"
            )

    def reports(self, bits: Any) -> Bits:
        """The randomised rows of all objects, sorted. It touches the data; `release_tracks` pays first."""
        given = table_of(bits, self.keyframes)
        seen = (given != 0) & ~np.isnan(given)
        drawn: Bits = np.asarray(self.response.privatise(seen.ravel().astype(np.int64))).reshape(given.shape)
        return drawn[np.lexsort(drawn.T[::-1])] if drawn.size else drawn

    def counts(self, reports: Any) -> NDArray[np.float64]:
        """How many objects were in each key frame, estimated without bias: (seen - n f) / (1 - 2 f)."""
        given = np.asarray(reports)
        return np.asarray((given.sum(axis=0) - len(given) * self.flip) / (1 - 2 * self.flip))


@dataclass(frozen=True)
class ReleasedTracks:
    """Randomised presence, sorted, with the counts that follow; `plan` has their error."""

    plan: Presence
    reports: Bits
    entry: int | None
    private: bool

    @property
    def event(self) -> Event:
        """What it cost."""
        return self.plan.event

    @property
    def counts(self) -> NDArray[np.float64]:
        """Objects in each key frame, estimated without bias; may be below 0."""
        return self.plan.counts(self.reports)

    def plot(self, *, true: Sequence[float] | None = None, path: Path | None = None) -> Figure:
        """The counts with their 95% error, and the true ones where they are public."""
        figure, ax = canvas(None, path)
        frames = np.arange(len(self.counts))
        wide = self.plan.error(max(1, len(self.reports)))
        ax.errorbar(frames, self.counts, yerr=wide, fmt="o", color=BLUE, capsize=3, label="released, within 95%")
        if true is not None:
            ax.step(frames, true, where="mid", color=GREY, label="true")
        ax.legend(loc="best")
        dress(ax, "Objects in each key frame", "key frame", "objects")
        return finish(figure, path)


def presence_bits(
    tracks: Mapping[Any, Iterable[int]] | Iterable[tuple[Any, int]], keyframes: Sequence[int], *, objects: Sequence[Any] | None = None
) -> Bits:
    """One row for each object, one bit for each key frame: whether the object is seen in that frame.

    `tracks` are frames by object, or pairs of object and frame as a tracker writes them. The key frames are public and
    in order. `objects` lists all of them where some may be in no row.
    """
    wanted = [int(frame) for frame in keyframes]
    if not wanted or any(later <= earlier for earlier, later in pairwise(wanted)):
        raise VisionError("keyframes must be public frame numbers in increasing order, such as range(0, 900, 90)")
    pairs = [(who, frame) for who, frames in tracks.items() for frame in frames] if isinstance(tracks, Mapping) else list(tracks)
    named = list(dict.fromkeys([*(objects or ()), *(tracks if isinstance(tracks, Mapping) else ()), *(who for who, _ in pairs)]))
    row, place = {who: i for i, who in enumerate(named)}, {frame: i for i, frame in enumerate(wanted)}
    bits = np.zeros((len(named), len(wanted)), dtype=np.int64)
    for who, frame in pairs:
        if frame in place:
            bits[row[who], place[frame]] = 1
    return bits


def release_tracks(plan: Presence, bits: Any, *, account: Account | None = None, purpose: str = "", run: str = "") -> ReleasedTracks:
    """Randomise the presence of all objects, once, and pay for it from an account for `UNIT` where one is given.

    >>> rows = np.ones((400, 4), dtype=np.int64)
    >>> found = release_tracks(Presence(keyframes=4, epsilon=8), rows)
    >>> found.reports.shape, bool(abs(found.counts - 400).max() < 100)
    ((400, 4), True)
    """
    bits = table_of(bits, plan.keyframes)
    shape = bits.shape
    if len(shape) != 2 or shape[1] != plan.keyframes or not shape[0]:
        raise VisionError(f"presence is a table of objects by {plan.keyframes} key frames, not of shape {shape}; see presence_bits")
    plan.checked(shape[0])
    at_home(plan.unit, account)
    with paying(account, plan.event, purpose=purpose, run=run) as payment:
        reports = plan.reports(bits)
    return ReleasedTracks(plan, reports, payment.entry, payment.private)
