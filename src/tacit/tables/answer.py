"""Answers: each figure with its interval, and what it cost. What was seeded says NOT PRIVATE; what was clipped is said apart.

An answer is a small table: the keys, then for each aggregate its value and the ends of its confidence interval. Post-processing
(`finished`) is optional and costs nothing; the figures as they were released stay in `raw_figures` beside it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Bound, Event
from tacit.pictures import inline
from tacit.tables.errors import TableError

Floats = NDArray[np.float64]
NOT_PRIVATE = "NOT PRIVATE"
MARK = f"{NOT_PRIVATE}: drawn in test mode"
SHOWN = 20
#: What is said of figures that are more wrong than their interval says.
CUT = "caps or bounds cut off more than the interval shows; interval(name, kind='total') has both, and higher caps lose less"
#: The digits of Arrow's longest number; half of them before the point and half after hold any mixture of numbers that have so many.
ARROW_DIGITS = 76


@dataclass(frozen=True)
class Bias:
    """What caps and bounds take from figures, estimated in `tacit.tables.figures`: the truth is the figure plus something
    from `low` to `high`.

    `sure` is the size of the estimate, and 0 where there may be no loss at all but only the estimate's own noise.
    """

    low: Floats
    high: Floats
    sure: Floats
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figures:
    """One column of an answer: a value for each group, with the interval that holds it with the answer's confidence.

    The interval is about the noise. `interval(kind="total")` has the estimated bias beside it, where one is known.
    """

    value: Floats
    low: Floats
    high: Floats
    bias: Bias | None = field(default=None, kw_only=True)

    def interval(self, kind: str = "noise") -> tuple[Floats, Floats]:
        """Both ends, for the noise alone (`kind="noise"`) or with the estimated bias of caps and bounds (`kind="total"`).

        >>> import numpy as np
        >>> one = np.ones(1)
        >>> found = Figures(5 * one, 4 * one, 6 * one, bias=Bias(0 * one, 3 * one, 2 * one))
        >>> [end.tolist() for end in found.interval("total")], found.biased.tolist()
        ([[4.0], [9.0]], [True])
        """
        if kind == "noise":
            return self.low, self.high
        if kind != "total":
            raise TableError(f"kind must be 'noise' or 'total', not {kind!r}")
        if self.bias is None:
            raise TableError("the bias of this figure is not estimated; there is an interval for the noise only")
        return self.low + self.bias.low, self.high + self.bias.high

    @property
    def biased(self) -> NDArray[np.bool_]:
        """Where the estimated loss to caps or bounds exceeds the interval: the figure is more wrong than its error bar says."""
        if self.bias is None:
            return np.zeros(len(self.value), dtype=bool)
        found: NDArray[np.bool_] = self.bias.sure > (self.high - self.low) / 2
        return found

    def at(self, places: NDArray[Any]) -> Figures:
        """The figures of some groups."""
        bias = self.bias
        few = None if bias is None else Bias(bias.low[places], bias.high[places], bias.sure[places], bias.why)
        return Figures(self.value[places], self.low[places], self.high[places], bias=few)


@dataclass(frozen=True)
class Noise:
    """What was added to one integer sum: the law, and its standard deviation in the unit of the answer."""

    measure: str
    law: str
    deviation: float


@dataclass(frozen=True, repr=False)
class Answer:
    """What a question was answered, ready to print, plot, convert and publish."""

    keys: Mapping[str, Sequence[Any]]
    figures: Mapping[str, Figures]
    raw: Mapping[str, Sequence[Any]]
    noise: tuple[Noise, ...]
    event: Event
    adjacency: Adjacency
    cost: Bound
    delta: float
    confidence: float
    private: bool = True
    notes: tuple[str, ...] = ()
    entry: int | None = None
    statement: str = field(default="", compare=False)
    raw_figures: Mapping[str, Figures] | None = None
    bins: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many groups there are."""
        return len(next(iter(self.figures.values())).value)

    def __getitem__(self, name: str) -> Floats:
        """The values of one column."""
        return self.figures[name].value

    # --- post-processing ----------------------------------------------------------------------------------------------------------

    def taken(self, lines: Sequence[int]) -> Answer:
        """Some of the lines, in this order: for HAVING, ORDER BY and LIMIT on what was released."""
        places = np.asarray(lines, dtype=np.int64)
        keys = {name: [values[i] for i in places.tolist()] for name, values in self.keys.items()}

        def few(figures: Mapping[str, Figures]) -> dict[str, Figures]:
            return {name: f.at(places) for name, f in figures.items()}

        return replace(self, keys=keys, figures=few(self.figures), raw_figures=None if self.raw_figures is None else few(self.raw_figures))

    def finished(
        self, *, nonnegative: Sequence[str] = (), whole: Sequence[str] = (), totals: Mapping[str, tuple[float, float]] | None = None
    ) -> Answer:
        """Post-processed figures: `totals` makes a column add up, by least squares, to a total of its own with a deviation (0: exactly);
        `nonnegative` cuts values at 0, which biases small ones upwards; `whole` rounds. The released figures are kept in `raw_figures`.
        """
        unknown = [name for name in (*nonnegative, *whole, *(totals or {})) if name not in self.figures]
        if unknown:
            raise TableError(f"{unknown[0]!r} is no figure of this answer; there are {', '.join(self.figures)}")
        found = dict(self.figures)
        for name, (total, deviation) in (totals or {}).items():
            found[name] = self._consistent(found[name], total, deviation)
        for name in nonnegative:
            value, low, high = (np.maximum(part, 0.0) for part in (found[name].value, found[name].low, found[name].high))
            found[name] = replace(found[name], value=value, low=low, high=high)
        for name in whole:
            f = found[name]
            found[name] = replace(f, value=np.rint(f.value), low=np.floor(f.low), high=np.ceil(f.high))
        return replace(self, figures=found, raw_figures=self.raw_figures or self.figures)

    def _consistent(self, figures: Figures, total: float, deviation: float) -> Figures:
        """Groups of equal variance and a total: each takes an equal part of what is missing. Intervals move along and are not narrowed."""
        half = float(np.mean(figures.high - figures.low)) / 2
        ours = (half / 1.96) ** 2
        count = len(figures.value)
        missing = (total - float(figures.value.sum())) * ours / (count * ours + deviation**2) if ours > 0 else 0.0
        ends = (figures.low + min(missing, 0.0), figures.high + max(missing, 0.0))
        return replace(figures, value=figures.value + missing, low=ends[0], high=ends[1])

    def interval(self, name: str, kind: str = "noise") -> tuple[Floats, Floats]:
        """Both ends of a figure's intervals: for the noise, or `kind="total"` with the estimated bias of caps and bounds."""
        if name not in self.figures:
            raise TableError(f"{name!r} is no figure of this answer; there are {', '.join(self.figures)}")
        return self.figures[name].interval(kind)

    @property
    def biased(self) -> dict[str, list[int]]:
        """The lines of each figure whose estimated loss to caps or bounds exceeds the interval."""
        found = {name: np.flatnonzero(f.biased).tolist() for name, f in self.figures.items()}
        return {name: lines for name, lines in found.items() if lines}

    def _beside(self) -> dict[str, list[str]]:
        """What stands beside figures that caps or bounds cut by more than their interval says."""
        said: dict[str, list[str]] = {}
        for name, lines in self.biased.items():
            low, high = self.figures[name].interval("total")
            said[f"{name}_cut"] = [f"CUT, maybe {low[i]:.6g} to {high[i]:.6g}" if i in lines else "" for i in range(self.rows)]
        return said

    # --- conversions --------------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """Keys, and value, low and high of each aggregate."""
        columns = self._columns()
        marks = {"tacit.private": str(self.private), "tacit.event": repr(self.event)}
        for name, values in self.keys.items():
            if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values):
                unsigned = all(value is None or 0 <= value < 2**64 for value in values)
                columns[name] = pa.array(columns[name], pa.uint64() if unsigned else pa.decimal256(40))
            elif not all(_held(value) for value in values) or _mixed(values):
                columns[name] = [None if value is None else str(value) for value in values]
        return pa.table(columns).replace_schema_metadata(marks)

    def to_pandas(self) -> Any:
        """A pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars data frame."""
        try:
            import polars
        except ImportError:
            raise TableError("polars is not installed; pip install polars, or use to_arrow()") from None
        return polars.from_arrow(self.to_arrow())

    # --- pictures -----------------------------------------------------------------------------------------------------------------

    @property
    def footer(self) -> list[str]:
        """What is said under the table: confidence, cost, notes."""
        price = f"epsilon {self.cost.upper:.6g} at delta {self.delta:g}" if self.delta else f"epsilon {self.cost.upper:.6g}"
        law = sorted({part.law.capitalize() for part in self.noise})
        cut = [f"{', '.join(self.biased)}: {CUT}"] if self.biased else []
        return [f"{self.confidence:.0%} intervals for the noise ({', '.join(law)}); cost {price}", *cut, *self.notes]

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {name: list(values) for name, values in self.keys.items()}
        for name, found in self.figures.items():
            columns |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        return columns

    def _lines(self) -> list[list[str]]:
        # Not by way of Arrow, which would load pandas to print a few numbers.
        columns = {**self._columns(), **self._beside()}
        shown = [values[:SHOWN].tolist() if isinstance(values, np.ndarray) else values[:SHOWN] for values in columns.values()]
        return [list(columns), *([_short(value) for value in row] for row in zip(*shown, strict=True))]

    @property
    def _more(self) -> list[str]:
        return [f"... {self.rows - SHOWN} more rows"] if self.rows > SHOWN else []

    def __repr__(self) -> str:
        shown = self._lines()
        widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
        lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in shown]
        return "\n".join([*([] if self.private else [MARK]), *lines, *self._more, *self.footer])

    def _repr_html_(self) -> str:
        import html  # its tables of entities are needed by notebooks alone

        head, *body = self._lines()
        cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
        mark = "" if self.private else f"<p><strong>{MARK}</strong></p>"
        under = "".join(f"<p><small>{html.escape(line)}</small></p>" for line in (*self._more, *self.footer))
        return f"{mark}<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>{under}"

    def outcomes(self, name: str | None = None, *, draws: int = 20, edition: int = 0) -> Floats:
        """What a figure could as well have been: so many rows of values for all groups, drawn around what was released.

        Hypothetical outcomes show noise to those whom an interval tells nothing (Hullman, Resnick and Adar 2015). They
        are post-processing: drawn from the law of the noise at the width of each interval, and cost nothing.
        """
        found = self.figures[_shown_name(self, name)]
        half = np.where(np.isfinite(found.high - found.low), (found.high - found.low) / 2, np.nan)
        random = np.random.default_rng(edition)
        if any(part.law == "laplace" for part in self.noise):
            scale = half / -np.log(1 - self.confidence)
            return np.asarray(found.value + scale * random.laplace(size=(draws, len(half))))
        from scipy.special import ndtri

        return np.asarray(found.value + half / float(ndtri((1 + self.confidence) / 2)) * random.normal(size=(draws, len(half))))

    def plot_outcomes(self, name: str | None = None, *, draws: int = 12, edition: int = 0, path: str | None = None) -> Any:
        """Hypothetical outcomes side by side: small pictures of what could as well have been released, one of them no truer than another.

        What stays the same in all of them can be relied on; what changes is noise.
        """
        from matplotlib.figure import Figure

        chosen = _shown_name(self, name)
        drawn = self.outcomes(chosen, draws=draws, edition=edition)
        across = min(4, draws)
        down = -(-draws // across)
        figure = Figure(figsize=(2.4 * across, 1.6 * down + 0.5), layout="constrained")
        top = float(np.nanmax(np.maximum(drawn, self.figures[chosen].high))) if drawn.size else 1.0
        bottom = min(0.0, float(np.nanmin(drawn))) if drawn.size else 0.0
        for place, values in enumerate(drawn):
            axes = figure.add_subplot(down, across, place + 1)
            axes.bar(np.arange(len(values)), values, color="#1f4e79")
            axes.set_ylim(bottom, top if top > bottom else bottom + 1)
            axes.set_xticks([])
            axes.tick_params(axis="y", labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
        mark = [] if self.private else [MARK]
        figure.suptitle(" · ".join([*mark, f"{chosen}: {draws} outcomes as likely as the released one"]), fontsize=8, parse_math=False)
        if path is not None:
            figure.savefig(path, dpi=120)
        return inline(figure)

    def plot(self, name: str | None = None, *, path: str | None = None) -> Any:
        """One figure with its intervals over the groups, as a matplotlib figure; written to `path` where one is given.

        A histogram of numbers is drawn as one: bars over its bins, each as wide as its bin.
        """
        from matplotlib.figure import Figure

        chosen = name if name is not None else next(iter(self.figures))
        if chosen not in self.figures:
            raise TableError(f"{chosen!r} is no figure of this answer; there are {', '.join(self.figures)}")
        found = self.figures[chosen]
        labels = [" · ".join(_short(part) for part in group) for group in zip(*self.keys.values(), strict=True)] if self.keys else [chosen]
        few = len(labels) <= 40
        figure = Figure(figsize=(min(12.0, max(4.0, 1.5 + 0.32 * len(labels))), 4.0), layout="constrained")
        axes = figure.add_subplot()
        places = np.arange(len(labels))
        ends = next(iter(self.bins.values()), None) if len(self.keys) == 1 and set(self.keys) == set(self.bins) else None
        if ends is not None:
            edges = np.array([ends[label] for label in labels])
            places, few = edges.mean(axis=1), False
            axes.bar(edges[:, 0], found.value, np.diff(edges, axis=1)[:, 0], align="edge", color="#dbe6f2", edgecolor="white")
        if found.biased.any() and found.bias is not None:
            # Beside the noise, as far as caps and bounds may have taken the figure.
            low, high = found.interval("total")
            axes.vlines(places, low, high, color="#d9822b", linewidth=1.2, linestyles="dotted", label="with what caps and bounds cut off")
            axes.legend(frameon=False, fontsize=8)
        axes.vlines(places, found.low, found.high, color="#9db7d5", linewidth=4 if few else 1)
        axes.plot(places, found.value, "o", color="#1f4e79", markersize=5 if few else 2)
        # A dollar in a name is a dollar, and no formula.
        axes.set_ylabel(chosen, parse_math=False)
        if few:
            turned = sum(len(label) for label in labels) > 60
            axes.set_xticks(places, labels, rotation=45 if turned else 0, ha="right" if turned else "center", parse_math=False)
        axes.set_xlabel(", ".join(self.keys), parse_math=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        figure.suptitle(" · ".join([*([] if self.private else [MARK]), self.footer[0]]), fontsize=8, color="#555555")
        if path is not None:
            figure.savefig(path, dpi=120)
        return inline(figure)


def _shown_name(answer: Answer, name: str | None) -> str:
    chosen = name if name is not None else next(iter(answer.figures))
    if chosen not in answer.figures:
        raise TableError(f"{chosen!r} is no figure of this answer; there are {', '.join(answer.figures)}")
    return chosen


def _held(value: Any) -> bool:
    """Whether a column of numbers holds this one: of PostgreSQL's, which have any number of digits, not all."""
    if not isinstance(value, Decimal):
        return True
    digits, exponent = value.as_tuple()[1:]
    return isinstance(exponent, int) and max(len(digits) + exponent, -exponent) <= ARROW_DIGITS // 2


def _mixed(values: Sequence[Any]) -> bool:
    """Whether some timestamps are texts, because they have nanoseconds."""
    return any(isinstance(value, str) for value in values) and any(isinstance(value, datetime.datetime) for value in values)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
