"""Gaze of an eye tracker, point by point: planar noise on a stream, with a budget over any w steps, and heat maps.

Each point gets planar Laplace noise at epsilon / w for the stated radius, so that any w consecutive points cost at most
epsilon where each of them moves by at most the radius (Definition 11.8 with w-event privacy). The guarantee is one by
distance and by window: a longer recording costs more, and `event_for` says how much.

>>> stream = GazeStream(radius=20, window=10, epsilon=3)
>>> stream.event, stream.event_for(25)
(Repeated(event=PureDP(epsilon=Fraction(3, 10), ...), count=10), Repeated(event=PureDP(...), count=25))
>>> round(stream.mean_move, 1)  # pixels, on average: 2 r w / epsilon
133.3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee, PureDP, Repeated
from tacit.applications.vision.images import RELATION, ByDistance, VisionError, at_home, table_of
from tacit.applications.vision.quality import correlation, trajectory_error
from tacit.calculus import L2, Lattice, Measurement, Space, Vectors
from tacit.exact import Typed
from tacit.ledger import Account, paying
from tacit.mechanisms import planar_laplace
from tacit.parameters import count
from tacit.pictures import Path, check_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = NDArray[np.float64]
#: Granules of the lattice in a radius.
FINE = 256
#: The least radius and the widest screen, in pixels: every point is then a whole number of granules far below 2^63.
SMALLEST, WIDEST = Fraction(1, 64), 1_000_000


@dataclass(frozen=True)
class GazeStream(ByDistance):
    """Planar Laplace noise on every point of a stream; any `window` consecutive points cost `epsilon` at `radius` pixels.

    Points outside `screen` (width, height), and what is no number, count as the nearest point of the screen.

    Guarantee
        Statement: two streams of one length that differ within `window` consecutive points, each by at most `radius`,
        cost PureDP(epsilon); over n points it is n epsilon / window.
        Conditions: the number of points and their times are public.
        Proved in: `tacit.mechanisms.planar_laplace` (Andrés et al. 2013) at epsilon / w for each point, composed over w.
        Points are rounded to a lattice of radius / 256 in floating point, which moves the distance of two points by less
        than 2 granules; the noise is enlarged for it.
        Correction: e^(epsilon d) makes a printed epsilon one for each pixel (E17); it is stated for a radius here.
    """

    radius: Typed
    window: int
    guarantee: Guarantee | str | None = None
    epsilon: InitVar[Typed | None] = None
    screen: tuple[int, int] = field(default=(1920, 1080), kw_only=True)

    def __post_init__(self, epsilon: Typed | None) -> None:
        self._stated(SMALLEST, epsilon, "how many pixels apart two points are that must look alike")
        object.__setattr__(self, "window", count("window", self.window))
        width, height = self.screen
        object.__setattr__(self, "screen", (count("screen width", width), count("screen height", height)))
        if max(self.screen) > WIDEST:
            raise VisionError(f"screen must be at most {WIDEST:,} pixels wide and high")

    @property
    def unit(self) -> str:
        return f"gaze points moved by up to {float(self.within):g} pixels"

    @property
    def step(self) -> Event:
        """What one point costs."""
        return PureDP(self.spent / self.window, adjacency=RELATION)

    @property
    def event(self) -> Event:
        """What any window of consecutive points costs."""
        return self.event_for(self.window)

    def event_for(self, points: int) -> Event:
        """What a recording of so many points costs."""
        return Repeated(self.step, count("points", points))

    @property
    def mean_move(self) -> float:
        """How far a point is moved on average, in pixels: 2 r w / epsilon."""
        return 2 * float(self.within) * self.window / float(self.spent)

    def plan(self) -> Measurement:
        """The noise of one point, on the lattice."""
        granule = self.within / FINE
        farthest = self.within + 2 * granule
        made = Space(Vectors(Lattice(granule), 2), L2()) >> planar_laplace(self.spent / self.window / farthest)
        assert isinstance(made, Measurement)
        return made

    def hidden(self, points: Any) -> Points:
        """Every point with noise. It touches the data; `release_gaze` pays first."""
        granule, plan = float(self.within / FINE), self.plan()
        given = np.nan_to_num(table_of(points, 2), nan=0.0, posinf=0.0, neginf=0.0)
        whole = np.rint(np.clip(given, 0.0, [float(end) for end in self.screen]) / granule).astype(np.int64)
        return np.array([plan.function(point) for point in whole], dtype=np.float64).reshape(given.shape)


@dataclass(frozen=True, repr=False)
class ReleasedGaze:
    """Noisy points and what they cost: `event` for the recording, `stream.event` for any window."""

    stream: GazeStream
    points: Points
    event: Event
    entry: int | None
    private: bool

    def __repr__(self) -> str:
        return f"ReleasedGaze({len(self.points)} points, {self.event!r} for {self.stream.unit})"


def release_gaze(stream: GazeStream, points: Any, *, account: Account | None = None, purpose: str = "", run: str = "") -> ReleasedGaze:
    """Hide a recording of points (x, y), once, and pay for all of it from an account for the stream's unit where one is given.

    >>> found = release_gaze(GazeStream(radius=20, window=1, epsilon=40), np.full((5, 2), 300.0))
    >>> found.points.shape, bool(np.abs(found.points - 300).max() < 60)
    ((5, 2), True)
    """
    points = table_of(points, 2)
    shape = points.shape
    if len(shape) != 2 or shape[1] != 2 or not shape[0]:
        raise VisionError(f"a recording is a table of points (x, y), not of shape {shape}")
    event = stream.event_for(shape[0])
    at_home(stream.unit, account)
    with paying(account, event, purpose=purpose, run=run) as payment:
        hidden = stream.hidden(points)
    return ReleasedGaze(stream, hidden, event, payment.entry, payment.private)


def heat_map(points: Any, screen: Sequence[int] = (1920, 1080), *, cell: int = 20, spread: float = 2.0) -> NDArray[np.float64]:
    """How long each part of the screen was looked at: points counted in cells, smoothed, as shares of the whole.

    >>> heat_map([(100, 100)], (200, 200), cell=100, spread=0).tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    from scipy.ndimage import gaussian_filter

    width, height = (count("screen", side) for side in screen)
    given = np.asarray(points, dtype=np.float64)
    wide, high = -(-width // cell), -(-height // cell)
    counts, _, _ = np.histogram2d(given[:, 1], given[:, 0], bins=(high, wide), range=((0, high * cell), (0, wide * cell)))
    smooth: NDArray[np.float64] = gaussian_filter(counts, spread) if spread else counts
    total = float(smooth.sum())
    return smooth / total if total else smooth


def compared(true: Any, released: Any, screen: Sequence[int] = (1920, 1080)) -> dict[str, float]:
    """The correlation of two recordings' heat maps, and how far points were moved; for public recordings only."""
    return {
        "heat_map_correlation": correlation(heat_map(true, screen), heat_map(released, screen)),
        "trajectory_error": trajectory_error(true, released),
    }


def plot_heat_maps(maps: dict[str, NDArray[np.float64]], *, path: Path | None = None) -> Figure:
    """Heat maps side by side, such as Figure 11.8's: without noise and with it."""
    from matplotlib.figure import Figure

    if path is not None:
        check_path(path)
    figure = Figure(figsize=(3.6 * len(maps), 2.8), dpi=150, layout="tight")
    for place, (name, map_) in enumerate(maps.items()):
        ax = figure.add_subplot(1, len(maps), place + 1)
        ax.imshow(map_, cmap="magma", interpolation="bilinear")
        ax.set_title(name, fontsize=10, loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
    if path is not None:
        figure.savefig(path)
    return figure
