"""Every theorem side by side: what each says about one event, and how each grows with the number of compositions.

>>> from tacit.accounting.events.tree import Repeated
>>> from tacit.accounting.events.leaves import Laplace
>>> found = compare(Repeated(Laplace(10), 100), [1e-6])
>>> found.rows[0].method, round(found.figure("basic", 1e-6).upper, 6), round(found.figure("advanced", 1e-6).upper, 6)
('tightest', 10.0, 5.756522)

A figure is a `Bound`, an `Estimate` where there is no proof, or an `Inapplicable` that says why the theorem is silent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import TYPE_CHECKING

from tacit.accounting.account import Cost, account
from tacit.accounting.bound import Bound, Estimate, rounded_up
from tacit.accounting.events.leaves import Gaussian, Laplace
from tacit.accounting.events.tree import Adjacency, Event, Repeated
from tacit.accounting.theorems.methods import METHODS
from tacit.errors import AccountingError, ParameterError
from tacit.parameters import Number, count, positive, probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

#: The theorems of the book's Figure 3.1, from the oldest to the exact one.
CLASSICAL = ("basic", "advanced", "strong", "zcdp-improved", "optimal", "pld")


@dataclass(frozen=True)
class Inapplicable:
    """The theorem says nothing about this event, and why."""

    reason: str

    def __str__(self) -> str:
        return f"does not apply: {self.reason}"


Figure = Bound | Estimate | Inapplicable


@dataclass(frozen=True)
class Row:
    """One theorem's figures, one for each delta."""

    method: str
    description: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, repr=False)
class Comparison:
    """A table of theorems; the first row is the tightest valid figure, which `account(event).epsilon(delta)` returns."""

    event: Event
    adjacency: Adjacency
    deltas: tuple[float, ...]
    rows: tuple[Row, ...]

    def figure(self, method: str, delta: float) -> Figure:
        """One cell of the table."""
        for row in self.rows:
            if row.method == method and delta in self.deltas:
                return row.figures[self.deltas.index(delta)]
        raise ParameterError(f"no figure for method {method!r} at delta {delta}; methods: {', '.join(r.method for r in self.rows)}")

    def __str__(self) -> str:
        """What was compared and the table.

        >>> print(str(compare(Gaussian(1), [1e-5])).splitlines()[0])
        Gaussian(noise_multiplier=1), add-remove: epsilon at each delta by every theorem
        """
        return f"{self.event!r}, {self.adjacency.value}: epsilon at each delta by every theorem\n\n{self.to_text()}"

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(word)}</th>" for word in ("method", *(f"delta {d:g}" for d in self.deltas), ""))
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (row.method, *map(_cell, row.figures), row.description)) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def to_text(self) -> str:
        """The table in plain text: published ends, rounded up; estimates marked ~; below it, why some theorems are silent.

        >>> print(compare(Gaussian(1), [1e-5]).to_text().splitlines()[1].rstrip())
        tightest             4.37718     closed form
        """
        heads = [f"delta {d:g}" for d in self.deltas]
        cells = [[_cell(f) for f in row.figures] for row in self.rows]
        widths = [max(len(h), 10, *(len(c[i]) for c in cells)) for i, h in enumerate(heads)]
        name = max(len(row.method) for row in self.rows)
        lines = ["  ".join(["method".ljust(name), *(h.rjust(w) for h, w in zip(heads, widths, strict=True))])]
        silent: dict[str, list[str]] = {}
        for row, cell in zip(self.rows, cells, strict=True):
            padded = "  ".join([row.method.ljust(name), *(c.rjust(w) for c, w in zip(cell, widths, strict=True))])
            lines.append(f"{padded}     {row.description}")
            for reason in dict.fromkeys(f.reason.removeprefix(f"{row.method} ") for f in row.figures if isinstance(f, Inapplicable)):
                silent.setdefault(reason, []).append(row.method)
        if silent:
            lines += ["", "-  does not apply:"]
            lines += [f"   {', '.join(methods)}: {reason}" for reason, methods in silent.items()]
        if any(isinstance(f, Estimate) for row in self.rows for f in row.figures):
            lines += ["", "~  an estimate, which may lie below the truth; no guarantee"]
        return "\n".join(lines)

    def plot(self, path: str | PathLike[str] | None = None, *, ax: Axes | None = None) -> Picture:
        """The picture of the table, drawn into `ax` or a new figure, and written to `path` if one is given."""
        from tacit.accounting.plots import plot_comparison

        return plot_comparison(self, path=path, ax=ax)


def compare(event: Event, deltas: float | Iterable[float], adjacency: Adjacency | None = None, *, null_record: bool = False) -> Comparison:
    """Epsilon by every theorem of `METHODS` at every delta, the tightest first.

    >>> table = compare(Gaussian(1), 1e-5)
    >>> str(table.figure("basic", 1e-5))[:56]
    'does not apply: basic composes (epsilon, delta) guarante'
    """
    wanted = [deltas] if isinstance(deltas, Number) else list(deltas)
    levels = tuple(float(probability("delta", d)) for d in wanted)
    if not levels:
        raise ParameterError("deltas is empty; give at least one, such as 1e-6")
    cost = account(event, adjacency, null_record=null_record)
    tightest = tuple(_figure(cost, None, d) for d in levels)
    best = next((f.method for f in tightest if isinstance(f, Bound)), "no figure")
    rows = [Row("tightest", best, tightest)]
    for name, description in METHODS.items():
        figures = _exact(cost, tightest) if name == "pld" else tuple(_figure(cost, name, d) for d in levels)
        rows.append(Row(name, description, figures))
    return Comparison(event, cost.adjacency, levels, tuple(rows))


def _figure(cost: Cost, method: str | None, delta: float) -> Figure:
    try:
        return cost.epsilon(delta, method=method)
    except AccountingError as error:
        return Inapplicable(str(error))


def _exact(cost: Cost, tightest: tuple[Figure, ...]) -> tuple[Figure, ...]:
    """The row of privacy-loss distributions: the default, wherever every part of the event has one."""
    if cost.parts.renyi:
        return tuple(Inapplicable("part of this event is known only by its Rényi curve, which has no distribution") for _ in tightest)
    return tightest


def _cell(figure: Figure) -> str:
    if isinstance(figure, Inapplicable):
        return "-"
    if isinstance(figure, Estimate):
        return f"~{figure.value:.6g}"
    return rounded_up(figure.upper, 6)


# --- how the theorems grow --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """One line of the picture: epsilon at each number of compositions, None where the theorem is silent."""

    label: str
    epsilons: tuple[float | None, ...]
    certified: bool = True


@dataclass(frozen=True)
class Composition:
    """Epsilon against the number of compositions, a curve for each theorem."""

    counts: tuple[int, ...]
    delta: float
    curves: tuple[Curve, ...]

    def joined(self, other: Composition) -> Composition:
        """The curves of both pictures, which must have the same axes."""
        if (self.counts, self.delta) != (other.counts, other.delta):
            raise ParameterError("counts and delta must be the same to draw two compositions in one picture")
        return Composition(self.counts, self.delta, self.curves + other.curves)

    def to_text(self) -> str:
        """The table: a line for each number of compositions, the published ends rounded up.

        >>> print(compose_curves(lambda k: Repeated(Laplace(10), k), [1, 100], 1e-6, methods=["basic", "advanced"]).to_text())
          k  basic  advanced
          1    0.1       0.1
        100     10   5.75653
        """
        table = [["k", *(c.label for c in self.curves)]]
        for i, k in enumerate(self.counts):
            table.append([str(k), *("-" if (e := c.epsilons[i]) is None else rounded_up(e, 6) for c in self.curves)])
        widths = [max(len(line[j]) for line in table) for j in range(len(table[0]))]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in table)

    def plot(self, path: str | PathLike[str] | None = None, *, ax: Axes | None = None) -> Picture:
        """The picture, drawn into `ax` or a new figure, and written to `path` if one is given."""
        from tacit.accounting.plots import plot_composition

        return plot_composition(self, path=path, ax=ax)


def compose_curves(
    make: Callable[[int], Event],
    counts: Iterable[int],
    delta: float,
    *,
    methods: Sequence[str] = CLASSICAL,
    labels: Sequence[str] | None = None,
    adjacency: Adjacency | None = None,
) -> Composition:
    """Epsilon at `delta` of `make(k)` for every k in `counts`, by each of the `methods`; a theorem that is silent leaves a gap."""
    ks = tuple(count("counts", k) for k in counts)
    level = float(probability("delta", delta))
    names = list(methods)
    if not ks or not names:
        raise ParameterError("counts and methods must not be empty")
    if labels is not None and len(labels) != len(names):
        raise ParameterError(f"labels must be as many as methods ({len(names)}), not {len(labels)}")
    if unknown := [m for m in names if m not in METHODS]:
        raise ParameterError(f"methods must be among {', '.join(METHODS)}, not {unknown[0]!r}")
    costs = [account(make(k), adjacency) for k in ks]
    curves = []
    for name, label in zip(names, labels or names, strict=True):
        found = [_figure(cost, name, level) for cost in costs]
        values = tuple(f.upper if isinstance(f, Bound) else f.value if isinstance(f, Estimate) else None for f in found)
        curves.append(Curve(label, values, not any(isinstance(f, Estimate) for f in found)))
    return Composition(ks, level, tuple(curves))


def laplace_and_gaussian(
    counts: Iterable[int] = (1, 10, 20, 50, 100, 200, 500, 1000), epsilon: float = 0.1, delta: float = 1e-6
) -> Composition:
    """The comparison of composition theorems of the book (Steinke 2022, Figure 3.1), with the exact compositions beside them.

    k uses of an `epsilon`-DP Laplace mechanism by every theorem, and of the Gaussian mechanism with the same variance.

    >>> figure = laplace_and_gaussian([100])
    >>> [(c.label, round(c.epsilons[0], 6)) for c in figure.curves[-2:]]
    [('Laplace, exact', 4.692667), ('Gaussian, same variance', 3.307601)]
    """
    ks, scale = tuple(counts), 1 / float(positive("epsilon", epsilon))
    names = ("basic", "advanced", "strong", "zCDP, improved", "optimal (KOV)", "Laplace, exact")
    classical = compose_curves(lambda k: Repeated(Laplace(scale), k), ks, delta, labels=names)
    gaussian = compose_curves(
        lambda k: Repeated(Gaussian(math.sqrt(2) * scale), k), ks, delta, methods=["pld"], labels=["Gaussian, same variance"]
    )
    return classical.joined(gaussian)
