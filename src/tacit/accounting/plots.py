"""Pictures of what an event costs: the privacy profile, the trade-off curve, the theorems side by side, epsilon over a training run.

Every function returns a matplotlib `Figure`, draws into `ax` where one is given, and writes a file where a `path` is given. None needs a
display or touches pyplot's global state; matplotlib is imported only when something is drawn.

>>> from tacit.accounting.account import account
>>> from tacit.accounting.events.leaves import Gaussian
>>> figure = plot_profile(account(Gaussian(1)))
>>> figure.axes[0].get_ylabel()
'delta'

Lines show upper ends, which are what may be published; where the bracket is wide enough to see, it is shaded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.accounting.account import Cost, account
from tacit.accounting.bound import Bound, Estimate
from tacit.accounting.closed_form import attack_rate
from tacit.accounting.events.tree import Adjacency, Event
from tacit.accounting.pairs.pair import Array
from tacit.errors import ParameterError
from tacit.parameters import count, number, probability
from tacit.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Path, canvas, check_path, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tacit.accounting.compare import Comparison, Composition

_COLOURS = (RED, ORANGE, PURPLE, SKY, GREEN, BLUE, "#000000")
_DASHES: tuple[object, ...] = ((0, (1, 1)), (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1)), "-", "-")


# --- one event ------------------------------------------------------------------------------------------------------------------


def plot_profile(
    cost: Cost,
    *,
    epsilons: Iterable[float] | None = None,
    mark: tuple[float, float] | None = None,
    path: Path | None = None,
    ax: Axes | None = None,
    points: int | None = None,
) -> Figure:
    """delta against epsilon on a logarithmic axis; `mark` is a point (epsilon, delta) to show."""
    figure, ax = canvas(ax, path)
    x = np.array([float(number("epsilons", e)) for e in epsilons]) if epsilons is not None else _epsilons(cost, mark, points)
    found = cost.profile(x)
    upper, lower = np.array([d.upper for d in found]), np.array([d.lower for d in found])
    floor = _floor(upper, mark)
    ax.set_yscale("log")
    ax.plot(x, np.maximum(upper, floor / 10), color=BLUE, lw=2)
    if _visible(lower, upper):
        ax.fill_between(x, np.maximum(lower, floor / 10), upper, color=BLUE, alpha=0.2, lw=0, label="between the two bounds")
        ax.legend(loc="upper right")
    if mark is not None:
        _mark(ax, mark, f"epsilon {mark[0]:.4g}\nat delta {mark[1]:.3g}")
    ax.set_ylim(floor, 1.0 if upper.max() <= 0 else max(min(1.0, 3 * float(upper.max())), 10 * floor))
    ax.set_xlim(float(x[0]), float(x[-1]) if x[-1] > x[0] else float(x[0]) + 1)
    dress(ax, "Privacy profile", "epsilon", "delta")
    return finish(figure, path)


def plot_tradeoff(
    cost: Cost,
    *,
    guarantee: tuple[float, float] | None = None,
    path: Path | None = None,
    ax: Axes | None = None,
    points: int | None = None,
) -> Figure:
    """The best membership attack: true- against false-positive rate on logarithmic axes, with guessing as the diagonal.

    The shaded region is what the single promise `guarantee` = (epsilon, delta) allows; the curve is what the event allows.
    """
    figure, ax = canvas(ax, path)
    fpr = np.geomspace(1e-5, 1.0, 241)
    epsilons = _spread(cost, points)
    found = cost.profile(epsilons)
    upper = attack_rate(fpr, epsilons, np.array([d.upper for d in found]))
    lower = attack_rate(fpr, epsilons, np.array([d.lower for d in found]))
    ax.set_xscale("log")
    ax.set_yscale("log")
    if guarantee is not None:
        epsilon, delta = float(number("epsilon", guarantee[0])), float(probability("delta", guarantee[1]))
        allowed = attack_rate(fpr, np.array([epsilon]), np.array([delta]))
        ax.fill_between(fpr, fpr, allowed, color=ORANGE, alpha=0.25, lw=0, label=f"allowed by ({epsilon:.3g}, {delta:.3g})-DP alone")
    ax.plot(fpr, upper, color=BLUE, lw=2, label="best attack on this event")
    if _visible(lower, upper):
        ax.fill_between(fpr, np.maximum(lower, fpr), upper, color=BLUE, alpha=0.25, lw=0, label="between the two bounds")
    ax.plot(fpr, fpr, color=GREY, lw=1.2, ls=(0, (4, 3)), label="guessing")
    ax.set_xlim(1e-5, 1)
    ax.set_ylim(1e-5, 1.3)
    ax.legend(loc="lower right")
    dress(ax, "Membership attack", "false-positive rate", "true-positive rate")
    return finish(figure, path)


def plot_cost(cost: Cost, *, mark: tuple[float, float] | None = None, path: Path | None = None) -> Figure:
    """The privacy profile and the membership attack side by side; `mark` is the promise (epsilon, delta) to show in both."""
    from matplotlib.figure import Figure

    if path is not None:
        check_path(path)
    figure = Figure(figsize=(11.2, 4.6), dpi=150, layout="tight")
    left, right = figure.subplots(1, 2)
    plot_profile(cost, mark=mark, ax=left)
    plot_tradeoff(cost, guarantee=mark, ax=right)
    return finish(figure, path)


# --- theorems -------------------------------------------------------------------------------------------------------------------


def plot_comparison(table: Comparison, *, path: Path | None = None, ax: Axes | None = None) -> Figure:
    """Epsilon by every theorem that applies, a dot for each delta, the tightest at the top; estimates are hollow."""
    rows = []
    for row in table.rows:
        values = [f.upper if isinstance(f, Bound) else f.value if isinstance(f, Estimate) else math.nan for f in row.figures]
        if row.method != "tightest" and any(math.isfinite(v) for v in values):
            rows.append((row.method, values, any(isinstance(f, Estimate) for f in row.figures)))
    first = [f.upper if isinstance(f, Bound) else math.nan for f in table.rows[0].figures]
    rows.sort(key=lambda r: min(v for v in r[1] if math.isfinite(v)))
    figure, ax = canvas(ax, path, height=1.6 + 0.29 * max(len(rows), 3))
    places = np.arange(len(rows))
    for j, delta in enumerate(table.deltas):
        colour = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)[j % 6]
        shift = 0.0 if len(table.deltas) == 1 else 0.36 * (j / (len(table.deltas) - 1) - 0.5)
        x = np.array([values[j] for _, values, _ in rows])
        proved = np.array([not estimate for *_, estimate in rows], dtype=bool)
        style: dict[str, Any] = {"ls": "none", "marker": "os^Dv<"[j % 6], "ms": 7, "color": colour}
        if math.isfinite(first[j]):
            ax.axvline(first[j], color=colour, lw=0.8, alpha=0.6, zorder=0)
        ax.plot(x[proved], (places + shift)[proved], label=f"delta = {delta:g}", **style)
        ax.plot(x[~proved], (places + shift)[~proved], fillstyle="none", **style)
        if len(table.deltas) == 1:
            for place, value in zip(places, x, strict=True):
                if math.isfinite(value):
                    ax.annotate(f"{value:.4g}", (value, place), xytext=(9, 0), textcoords="offset points", va="center", fontsize=8.5)
    finite = [v for _, values, _ in rows for v in values if math.isfinite(v) and v > 0]
    if finite and max(finite) > 20 * min(finite):
        ax.set_xscale("log")
    ax.margins(x=0.12)
    ax.set_yticks(places, [f"{name} (estimate)" if estimate else name for name, _, estimate in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    if len(rows) and len(table.deltas) > 1:
        ax.legend(loc="best")
    dress(ax, f"Epsilon at delta = {table.deltas[0]:g}, by theorem" if len(table.deltas) == 1 else "Epsilon by theorem", "epsilon", "")
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    return finish(figure, path)


def plot_composition(picture: Composition, *, path: Path | None = None, ax: Axes | None = None) -> Figure:
    """Epsilon against the number of compositions on logarithmic axes, a line for each theorem, named at its end."""
    figure, ax = canvas(ax, path, width=8.2, height=5.2)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for i, curve in enumerate(picture.curves):
        y = np.array([math.nan if e is None or e == 0 else e for e in curve.epsilons], dtype=float)
        # the later curves are the tighter ones, so the widest lines lie below
        ax.plot(picture.counts, y, color=_COLOURS[i % 7], ls=_DASHES[i % 7], lw=3.0 - 0.2 * min(i, 5), label=curve.label)
    _names_at_ends(ax, picture)
    ax.set_xlim(picture.counts[0], max(picture.counts[-1], picture.counts[0] + 1))
    dress(ax, f"Composition theorems at delta = {picture.delta:g}", "number of compositions", "epsilon")
    return finish(figure, path)


def _names_at_ends(ax: Axes, picture: Composition) -> None:
    """Each curve's name to the right of its last point, pushed apart where they would overlap."""
    ends = sorted((math.log(last), i) for i, c in enumerate(picture.curves) if (last := c.epsilons[-1]) and math.isfinite(last))
    if len(ends) < len(picture.curves) or len(ends) > 9:
        ax.legend(loc="upper left")
        return
    low, high = (math.log(v) for v in ax.get_ylim())
    heights = [(value - low) / (high - low) for value, _ in ends]
    for (value, i), height in zip(ends, apart(heights, 0.052), strict=True):
        colour = _COLOURS[i % 7]
        ax.annotate(
            picture.curves[i].label + ("" if picture.curves[i].certified else " (estimate)"),
            (picture.counts[-1], math.exp(value)),
            xytext=(1.06, height),
            textcoords="axes fraction",
            va="center",
            fontsize=9.5,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.8, "shrinkA": 0, "shrinkB": 2, "relpos": (0, 0.5)},
            annotation_clip=False,
        )


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Sorted heights moved as little as possible (in squares) so that neighbours are at least `gap` apart.

    >>> [round(h, 3) for h in apart([0.0, 0.1, 0.1], 0.06)]
    [0.0, 0.07, 0.13]
    """
    groups: list[tuple[float, int]] = []  # mean offset and size of each run of touching names
    for i, height in enumerate(heights):
        mean, size = height - i * gap, 1
        while groups and groups[-1][0] > mean:
            before, many = groups.pop()
            mean, size = (before * many + mean * size) / (many + size), many + size
        groups.append((mean, size))
    offsets = [mean for mean, size in groups for _ in range(size)]
    return [offset + i * gap for i, offset in enumerate(offsets)]


# --- training -------------------------------------------------------------------------------------------------------------------


def plot_training(
    make: Callable[[int], Event],
    steps: int | Sequence[int],
    deltas: float | Sequence[float],
    *,
    adjacency: Adjacency | None = None,
    target: float | None = None,
    path: Path | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Epsilon of `make(t)` against the number of steps t, a line for each delta; `target` draws the budget."""
    figure, ax = canvas(ax, path)
    if isinstance(steps, int):
        last = count("steps", steps)
        grid = sorted({max(1, round(last * share)) for share in np.linspace(0, 1, 20) ** 2})
    else:
        grid = [count("steps", t) for t in steps]
    levels = [deltas] if isinstance(deltas, (int, float)) else list(deltas)
    if not grid or not levels:
        raise ParameterError("steps and deltas must not be empty")
    costs = [account(make(t), adjacency) for t in grid]
    for j, level in enumerate(levels):
        found = [cost.epsilon(level) for cost in costs]
        upper, lower = np.array([f.upper for f in found]), np.array([f.lower for f in found])
        colour = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)[j % 6]
        ax.plot(grid, upper, color=colour, lw=2, label=f"delta = {level:g}")
        if _visible(lower, upper):
            ax.fill_between(grid, lower, upper, color=colour, alpha=0.2, lw=0)
    if target is not None:
        ax.axhline(float(number("target", target)), color=GREY, lw=1.2, ls=(0, (4, 3)), label=f"budget {float(target):g}")
    ax.set_xlim(0, grid[-1])
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.legend(loc="lower right")
    dress(ax, "Epsilon over the training run", "steps", "epsilon")
    return finish(figure, path)


# --- the parts all pictures share -----------------------------------------------------------------------------------------------


def _visible(lower: Array, upper: Array) -> bool:
    """Whether a bracket is wide enough to be seen in a picture."""
    finite = np.isfinite(upper)
    return bool(np.any(upper[finite] - lower[finite] > 0.005 * np.abs(upper[finite])))


def _mark(ax: Axes, point: tuple[float, float], text: str) -> None:
    ax.plot(*point, "o", color=RED, ms=7, zorder=5)
    # the curve falls to the right, so the space above and right of it is free
    ax.annotate(text, point, xytext=(10, 10), textcoords="offset points", color=RED, fontsize=9, ha="left", va="bottom")


def _spread(cost: Cost, points: int | None) -> Array:
    """Epsilons from 0 to where the profile has fallen to 1e-6, or to what a picture can show."""
    end = cost.epsilon(1e-6).upper
    return np.linspace(0.0, min(max(end, 1e-3), 40.0), points or _affordable(cost))


def _affordable(cost: Cost) -> int:
    """How many points to draw: 60, or as many as a few seconds allow where one takes long."""
    began = time.perf_counter()
    cost.delta(0.0)
    return max(12, min(60, int(4 / max(time.perf_counter() - began, 1e-9))))


def _epsilons(cost: Cost, mark: tuple[float, float] | None, points: int | None) -> Array:
    wanted = 1e-12 if mark is None else max(min(1e-12, mark[1] * 1e-4), 1e-30)
    end = cost.epsilon(wanted).upper
    if not math.isfinite(end):
        end = 1.6 * mark[0] if mark is not None and math.isfinite(mark[0]) else 10.0
    return np.linspace(0.0, max(end, 1e-3), points or _affordable(cost))


def _floor(upper: Array, mark: tuple[float, float] | None) -> float:
    """The bottom of a logarithmic delta axis."""
    least = min((float(v) for v in upper if v > 0), default=1e-12)
    return max(least if mark is None else min(least, mark[1] / 10), 1e-30)
