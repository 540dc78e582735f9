"""What `tacit selftest` attacks in vision: each method on two neighbours, and the faults that its source prints.

A long strip of one row of pixels holds many small pictures side by side, each of them one cell that the edge cuts. Their
noise is independent, so that one call draws many releases.

>>> [case.name for case in cases()][:2], part().extra
(['vision: pixelized, cut cells', 'vision: pixelized in colour'], 'vision')
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, PureDP
from tacit.applications.vision.gaze import GazeStream
from tacit.applications.vision.images import Box, PictureMethod
from tacit.applications.vision.pixelize import Pixelize, cell_sums
from tacit.applications.vision.pixels import PixelResponse
from tacit.applications.vision.singular import Singular
from tacit.applications.vision.tracks import Presence
from tacit.audit.selftest import Case, Mutant, Part, promise
from tacit.mechanisms import NoisySums

REPLACE = Adjacency.REPLACE_ONE
#: A picture of 1 x 4 pixels in cells of side 4: its only cell is cut to a quarter, and all of it is the secret.
WIDE = 4
CUT = Pixelize(cell=WIDE, pixels=WIDE, epsilon=1)

Array = NDArray[Any]


def part() -> Part:
    """The cases and mutants of vision."""
    return Part("vision", (), "vision", cases, mutants)


def cases() -> list[Case]:
    """Right releases: each loses nearly what it claims."""
    response = PixelResponse(pixels=1, epsilon=4)
    return [
        _tiled("vision: pixelized, cut cells", CUT, False, 0.8),
        _tiled("vision: pixelized in colour", CUT, True, 0.5, why="the three channels must all come out on one side"),
        _tiled("vision: pixels one by one", response, False, 0.6, why="one report in 256 is seldom seen"),
        _tracks(),
        _gaze(),
        _singular(),
    ]


def strip(secret: int, n: int, colour: bool) -> Array:
    """n pictures of this level side by side."""
    return np.full((1, WIDE * n, 3) if colour else (1, WIDE * n), secret, np.uint8)


def _tiled(name: str, method: PictureMethod, colour: bool, floor: float, *, why: str = "") -> Case:
    def drawn(secret: int) -> Callable[[int], Array]:
        # the first pixel of each picture: all pixels of a cell are one, and single pixels are independent
        return lambda n: method.hidden(strip(secret, n, colour), [Box(0, 0, WIDE * n, 1)])[0, ::WIDE].astype(np.int64)

    event = method.event
    assert event is not None
    return Case(name, promise(event, REPLACE), drawn(0), drawn(255), floor, 80_000, why=why)


def _tracks() -> Case:
    plan = Presence(keyframes=3, epsilon=1)

    def drawn(present: int) -> Callable[[int], Array]:
        # the reports of n objects, each of them another release; sorting n rows would mix them
        return lambda n: np.asarray(plan.response.privatise(np.full(3 * n, present))).reshape(n, 3)

    return Case("vision: tracks", promise(PureDP(1, adjacency=REPLACE), REPLACE), drawn(0), drawn(1), 0.8, 40_000)


def _points(plan: Any, point: list[int], n: int) -> Array:
    return np.array([plan.function(np.array(point)) for _ in range(n)], dtype=np.float64)


def _gaze() -> Case:
    stream = GazeStream(radius=1, window=1, epsilon=2)
    plan = stream.plan()
    line = "only points beyond either place, on the line through both, lose all of epsilon"
    return Case(
        "vision: gaze", promise(_at(stream.spent), REPLACE),
        lambda n: _points(plan, [0, 0], n), lambda n: _points(plan, [256, 0], n), 0.3, 3000, why=line,
    )  # fmt: skip


def _singular() -> Case:
    method = Singular(rank=2, radius=1, epsilon=2)
    plan = method.plan()
    line = "only values beyond either vector, on the line through both, lose all of epsilon"
    return Case(
        "vision: singular values", promise(_at(method.spent), REPLACE),
        lambda n: _points(plan, [0, 0], n), lambda n: _points(plan, [4096, 0], n), 0.4, 4000, why=line, slow=True,
    )  # fmt: skip


def _at(epsilon: Fraction) -> Event:
    return PureDP(epsilon, adjacency=REPLACE)


# --- faults -------------------------------------------------------------------------------------------------


def mutants() -> list[Mutant]:
    """Faults, most of them printed in the source or common in public code, which must be caught."""

    def sums(secret: int, colour: bool = False) -> tuple[Array, Array]:
        return cell_sums(strip(secret, 1, colour), CUT.cell)

    def right(secret: int, n: int) -> Array:
        true, _ = sums(secret)
        return CUT.sums(1).add(np.full(n, true[0, 0]))

    def right_colours(secret: int, n: int) -> Array:
        true, _ = sums(secret, True)
        return CUT.sums(3).add(np.tile(true[0, 0], (n, 1)))

    def one_scale(secret: int, n: int) -> Array:
        """One scale 255 m / b^2 for the mean of every cell, also where the edge cuts a cell (E16)."""
        true, areas = sums(secret)
        mean = int(true[0, 0] // areas[0, 0])
        return np.asarray(mean + NoisySums.of_scale("laplace", Fraction(255 * CUT.pixels, CUT.cell**2)).draw(n))

    def not_split(secret: int, n: int) -> Array:
        """The scale of a grey picture on each of three channels."""
        true, _ = sums(secret, True)
        return CUT.sums(1).add(np.tile(true[0, 0], (n, 1)))

    def one_sided(secret: int, n: int) -> Array:
        """The noise is clamped before it is added, so no cell comes out darker than it is."""
        true, _ = sums(secret)
        return np.asarray(int(true[0, 0]) + np.maximum(CUT.sums(1).draw(n), 0))

    def right_bits(present: int, n: int) -> Array:
        return np.asarray(Presence(keyframes=3, epsilon=1).response.privatise(np.full(3 * n, present))).reshape(n, 3)

    def every_bit(present: int, n: int) -> Array:
        """Every key frame of an object at the whole epsilon."""
        return np.asarray(Presence(keyframes=1, epsilon=1).response.privatise(np.full(3 * n, present))).reshape(n, 3)

    return [
        Mutant("vision: one scale for cut cells", one_scale, right, (0, 255), bulk=True),
        Mutant("vision: channels not split", not_split, right_colours, (0, 255), trials=20_000, bulk=True),
        Mutant("vision: one-sided clamp", one_sided, right, (0, 255), bulk=True),
        Mutant("vision: epsilon for every key frame", every_bit, right_bits, (0, 1), trials=20_000, bulk=True),
    ]
