"""Boxes on maps: two columns of coordinates, a public grid, and the count of any box with its interval.

The grid is measured so that the error over all boxes is small, not that of single cells: the count of a large box then
combines few noisy sums instead of hundreds. Any box can be asked for afterwards, as often as wanted, without paying again.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> places = np.random.default_rng(1).normal(size=(4000, 2))
>>> points = pa.table({"id": range(4000), "lon": places[:, 0], "lat": places[:, 1]})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(points, unit=Unit("id", max_rows=1), budget=Budget(rho=1), name="points", ledger=book)
>>> planned = grid(session, x=Axis("lon", -4, 4, 16), y=Axis("lat", -4, 4, 16), rho=0.5)
>>> found = planned.run()
>>> box = found.box((-1, 1), (-1, 1))
>>> truth = int((np.abs(places) <= 1).all(axis=1).sum())
>>> abs(box.value - truth) < 60, box.x, box.y
(True, (-1.0, 1.0), (-1.0, 1.0))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import pictures
from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.mechanisms import Law
from tacit.parameters import count
from tacit.tables import Brackets, Session
from tacit.workloads.intervals import half_widths
from tacit.workloads.plan import FrontPlan, WorkloadAnswer, plan
from tacit.workloads.workload import AllRanges, Array, Identity, Product, Ranges, Term, Wanted, Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Axis:
    """A column of coordinates, cut into equally wide cells between two public ends. Points outside count nowhere.

    >>> Axis("lon", 0, 10, 4).edges
    (0.0, 2.5, 5.0, 7.5, 10.0)
    """

    column: str
    low: float
    high: float
    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", count("cells", self.cells))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ParameterError(f"the ends of {self.column} must be two numbers, the lower one first")

    @property
    def edges(self) -> tuple[float, ...]:
        """The ends of the cells."""
        return tuple(float(edge) for edge in np.linspace(self.low, self.high, self.cells + 1))


def wanted_boxes(x: str, y: str) -> Wanted:
    """The questions: every box of neighbouring cells."""
    if x == y:
        raise ParameterError("a map needs two columns, one for each axis")
    return Product(**{x: AllRanges, y: AllRanges})


def wanted_cells(x: str, y: str) -> Wanted:
    """The single cells of a map."""
    return Product(**{x: Identity, y: Identity})


@dataclass(frozen=True, eq=False, repr=False)
class GridPlan(FrontPlan):
    """A plan for all boxes of a map. No data was touched."""

    x: Axis
    y: Axis

    def run(self) -> GridAnswer:
        """Pay, count, add noise."""
        found = self.inner.run()
        return GridAnswer(found.measured, found.released, found.private, found.entry, self.x, self.y)


def grid(
    session: Session, *, x: Axis, y: Axis, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None, rows: str | None = None,
    law: Law | None = None, purpose: str = "",
) -> GridPlan:
    """Plan a map of two columns for all boxes. Nothing is spent and no data is touched."""
    cells = {axis.column: Brackets(axis.edges) for axis in (x, y)}
    inner = plan(
        session, wanted_boxes(x.column, y.column), guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu,
        cells=cells, rows=rows, law=law, purpose=purpose,
    )  # fmt: skip
    return GridPlan(inner, x, y)


@dataclass(frozen=True)
class BoxCount:
    """A count in a box with its interval; `x` and `y` are the edges of the grid that were taken."""

    value: float
    low: float
    high: float
    x: tuple[float, float]
    y: tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class GridAnswer(WorkloadAnswer):
    """A map from sums that were measured once. Boxes are worked out when they are asked for."""

    x: Axis | None = None
    y: Axis | None = None

    def __repr__(self) -> str:
        assert self.x is not None and self.y is not None
        return f"map of {self.x.cells} x {self.y.cells} cells; a typical box is off by {self.measured.expected_error:.3g}"

    def _asked(self, x: Any, y: Any) -> tuple[Array, Array]:
        """Values and half widths of questions about the two columns."""
        assert self.x is not None and self.y is not None
        term = Term(((self.x.column, x), (self.y.column, y)))
        asked = Workload(self.measured.workload.cells, (term,))
        (own,) = self.measured.selection.answers(asked, self.released, self.measured.law)
        law, confidence = self.measured.law, self.measured.confidence
        return own.values, half_widths(own.squares, own.fourths, law, confidence) * self.measured.scale

    @cached_property
    def cells(self) -> tuple[Array, Array]:
        """The unbiased count of every cell, the first axis being x, and how far each may be off."""
        assert self.x is not None and self.y is not None
        return self._asked(Identity(self.x.cells), Identity(self.y.cells))

    def box(self, x: tuple[float, float], y: tuple[float, float]) -> BoxCount:
        """The count in a box, whose sides are moved to the nearest edges of the grid."""
        return self.boxes([(x, y)])[0]

    def boxes(self, asked: list[tuple[tuple[float, float], tuple[float, float]]]) -> list[BoxCount]:
        """The counts in several boxes."""
        assert self.x is not None and self.y is not None
        found = []
        for x, y in asked:
            (first, last), across = _snapped(self.x, x)
            (bottom, top), up = _snapped(self.y, y)
            values, widths = self._asked(Ranges(self.x.cells, ((first, last),)), Ranges(self.y.cells, ((bottom, top),)))
            value, width = float(values[0, 0]), float(widths[0, 0])
            found.append(BoxCount(value, value - width, value + width, across, up))
        return found

    def picture(self, path: pictures.Path | None = None, *, title: str = "Rows") -> Figure:
        """A heat map of the cells. Cells whose interval holds 0 are drawn pale: there may be nothing there."""
        assert self.x is not None and self.y is not None
        values, widths = self.cells
        figure, ax = pictures.canvas(None, path, width=6.4, height=5.2)
        most = max(1.0, float(values.max()))
        sure = values - widths > 0
        extent = (self.x.low, self.x.high, self.y.low, self.y.high)
        shown = np.clip(values, 0.0, most)
        image = ax.imshow(
            shown.T, origin="lower", extent=extent, aspect="auto", cmap="Blues", vmin=0.0, vmax=most,
            alpha=np.where(sure, 1.0, 0.35).T,
        )  # fmt: skip
        figure.colorbar(image, ax=ax, label="rows in a cell")
        pictures.dress(ax, title, self.x.column, self.y.column)
        ax.grid(False)
        return pictures.finish(figure, path)


def _snapped(axis: Axis, ends: tuple[float, float]) -> tuple[tuple[int, int], tuple[float, float]]:
    """The first and last cell between two coordinates, and the edges taken."""
    edges = np.array(axis.edges)
    low, high = float(ends[0]), float(ends[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(f"a side of a box is two numbers, the lower one first; {axis.column} has {ends}")
    first, last = int(np.abs(edges - low).argmin()), int(np.abs(edges - high).argmin())
    if first == last:
        width = (axis.high - axis.low) / axis.cells
        raise ParameterError(f"the box is narrower than a cell of {axis.column}, which is {width:g} wide, or lies outside the map")
    return (first, last - 1), (axis.edges[first], axis.edges[last])
