"""Videos: frames in and out, hiding frame by frame at its full price, and icons of released tracks on a public background.

A method for pictures costs its price in every frame: ten seconds at 30 frames and epsilon .5 cost 150, and
`release_frames` says and books that. Tracks cost once for all frames; `icons` draws them without touching the video.

>>> import numpy as np
>>> from tacit.applications.vision import Pixelize
>>> price = frames_event(Pixelize(cell=16, pixels=16, epsilon=0.5), 300)
>>> price, total_epsilon(price)
(Repeated(event=Laplace(noise_multiplier=2, ...), count=300), 150.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tacit.accounting import Event, Guarantee, Repeated
from tacit.accounting import account as cost_of
from tacit.applications.vision.images import RELATION, PictureMethod, Pixels, VisionError, at_home, boxes_in, picture
from tacit.applications.vision.tracks import ReleasedTracks
from tacit.errors import PackageMissing
from tacit.exact import Typed
from tacit.ledger import Account, paying
from tacit.parameters import count


@dataclass(frozen=True, repr=False)
class HiddenFrames:
    """Frames that may be published, and what all of them cost together."""

    frames: list[Pixels]
    event: Event
    unit: str
    entry: int | None
    private: bool

    def __repr__(self) -> str:
        return f"HiddenFrames({len(self.frames)} frames, {self.event!r} for {self.unit})"


def frames_event(method: PictureMethod, frames: int) -> Event:
    """What a method costs over so many frames: its price every time, because a secret may be in all of them."""
    if method.event is None:
        raise VisionError(f"{type(method).__name__} has no guarantee, in one frame or in many")
    return Repeated(method.event, count("frames", frames))


def frames_unit(method: PictureMethod, frames: int) -> str:
    """What is protected over so many frames."""
    return f"{method.unit}, in each of {frames} frames"


def total_epsilon(event: Event, delta: float = 0.0) -> float:
    """The certified epsilon of an event, rounded up."""
    return cost_of(event, RELATION).epsilon(delta).upper


def per_frame(frames: int, guarantee: Guarantee | str | None = None, *, epsilon: Typed | None = None) -> Guarantee:
    """What one frame may cost where all of them together have this guarantee.

    >>> print(per_frame(300, epsilon=3))
    eps=0.01
    """
    return Guarantee.of(guarantee, epsilon=epsilon).share(Fraction(1, count("frames", frames)))


def release_frames(
    method: PictureMethod, frames: Sequence[Any], boxes: Iterable[Sequence[int]] | None = None, *,
    account: Account | None = None, purpose: str = "", run: str = "",
) -> HiddenFrames:
    """Hide every frame, once, for the price of all of them. The number of frames and their size are public.

    >>> from tacit.applications.vision import Pixelize
    >>> clip = [np.zeros((32, 32), np.uint8)] * 3
    >>> release_frames(Pixelize(cell=16, pixels=16, epsilon=1), clip)
    HiddenFrames(3 frames, Repeated(event=Laplace(...), count=3) for up to 16 pixels of a picture, in each of 3 frames)
    """
    given = [picture(frame) for frame in frames]
    if not given or len({frame.shape for frame in given}) != 1:
        raise VisionError("a video has at least one frame, and all frames have one size and kind")
    places = boxes_in(given[0].shape, boxes)
    method.checked(given[0].shape, places)
    event, unit = frames_event(method, len(given)), frames_unit(method, len(given))
    at_home(unit, account)
    with paying(account, event, purpose=purpose, run=run) as payment:
        hidden = [method.hidden(frame, places) for frame in given]
    return HiddenFrames(hidden, event, unit, payment.entry, payment.private)


# --- icons --------------------------------------------------------------------------------------------------


def icons(
    background: Any, released: ReleasedTracks, paths: Sequence[Sequence[Sequence[float]]], *, size: int = 9,
    colour: tuple[int, int, int] = (213, 94, 0),
) -> list[Pixels]:
    """One picture for each key frame: the public background, with an icon for each object that is reported present.

    `paths` are public lines of (x, y) points, such as lanes and walkways. The i-th report moves along one of them from
    its first to its last key frame. Where objects really were is not used, so it costs nothing more.

    >>> from tacit.applications.vision import Presence, release_tracks
    >>> released = release_tracks(Presence(keyframes=2, epsilon=50), np.ones((9, 2), dtype=np.int64))
    >>> made = icons(np.zeros((40, 60), np.uint8), released, [[(5, 20), (55, 20)]])
    >>> len(made), made[0].shape, bool(made[0].any())
    (2, (40, 60, 3), True)
    """
    scene = picture(background)
    scene = np.repeat(scene[..., None], 3, axis=2) if scene.ndim == 2 else scene
    lines = [np.asarray(path, dtype=np.float64) for path in paths]
    if not lines or any(line.ndim != 2 or line.shape[1] != 2 or len(line) < 2 or not np.isfinite(line).all() for line in lines):
        raise VisionError("paths are public lines of at least two points (x, y), at least one line")
    half, last = max(1, count("size", size) // 2), max(1, released.plan.keyframes - 1)
    made = []
    for frame in range(released.plan.keyframes):
        drawn = scene.copy()
        for number, row in enumerate(released.reports):
            if row[frame]:
                x, y = _along(lines[number % len(lines)], (frame + 0.5 * ((number // len(lines)) % 3 - 1)) / last)
                _dot(drawn, round(x), round(y), half, colour)
        made.append(drawn)
    return made


def _along(line: Any, share: float) -> tuple[float, float]:
    """The point at a share of a line's length."""
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    at = np.concatenate([[0.0], np.cumsum(steps)])
    place = min(max(share, 0.0), 1.0) * at[-1]
    return float(np.interp(place, at, line[:, 0])), float(np.interp(place, at, line[:, 1]))


def _dot(scene: Pixels, x: int, y: int, half: int, colour: tuple[int, int, int]) -> None:
    rows, columns = np.ogrid[: scene.shape[0], : scene.shape[1]]
    away = (rows - y) ** 2 + (columns - x) ** 2
    scene[away <= (half + 1) ** 2] = 255
    scene[away <= half**2] = colour


# --- files --------------------------------------------------------------------------------------------------


def _av() -> Any:
    try:
        import av
    except ImportError:
        raise PackageMissing(code="package-missing", package="av", install="'tacit[vision]'") from None
    return av


def frames(path: str | Path, *, every: int = 1, most: int | None = None) -> Iterator[Pixels]:
    """The frames of a video file in RGB, one in `every`, at most `most`. Sound, subtitles and marks stay behind."""
    av, step = _av(), count("every", every)
    try:
        container = av.open(str(path))
    except Exception:
        raise VisionError(f"{path}: it is no video that can be read; convert it to MP4") from None
    with container:
        if not container.streams.video:
            raise VisionError(f"{path}: it has no picture, only sound or text")
        given, number, decoded = 0, 0, container.decode(video=0)
        while most is None or given < most:
            try:
                frame = next(decoded)
                pixels = np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8) if number % step == 0 else None
            except StopIteration:
                break
            except Exception:
                # whatever a decoder says may quote the file
                raise VisionError(f"{path}: it is cut off or damaged; convert it to MP4 again") from None
            number += 1
            if pixels is not None:
                given += 1
                yield pixels
    if not given and most != 0:
        raise VisionError(f"{path}: it has no frame that can be read; convert it to MP4 again")


def write_video(path: str | Path, pictures: Sequence[Pixels], *, rate: int = 10) -> None:
    """Write pictures as an MP4 of so many frames a second; odd sizes lose their last row or column."""
    av = _av()
    if not pictures:
        raise VisionError("a video needs at least one frame")
    height, width = (size - size % 2 for size in pictures[0].shape[:2])
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=count("rate", rate))
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = width, height, "yuv420p", 4_000_000
        for each in pictures:
            whole = np.repeat(each[..., None], 3, axis=2) if each.ndim == 2 else each
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(whole[:height, :width]), format="rgb24")
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
