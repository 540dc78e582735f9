"""A picture of the book: the share of each budget that was used, over time.

>>> import datetime
>>> day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
>>> figure = plot_spending({"visits": [(day, 0.25), (day + datetime.timedelta(days=7), 0.5)]})
>>> figure.axes[0].get_ylabel()
'share of the budget used'
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from tacit.accounting.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, check_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
_DASHES: tuple[object, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
_MOST = 12  # lines that can still be told apart


def plot_spending(
    timeline: Mapping[str, Sequence[tuple[datetime.datetime, float]]], *, path: str | PathLike[str] | None = None
) -> Figure:
    """Steps up to the line at 100 %, one for each account; `timeline` is what `tacit.ledger.report.timeline` returns."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    if path is not None:
        check_path(path)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    end = max((rows[-1][0] for rows in timeline.values() if rows), default=None)
    fullest = sorted(timeline.items(), key=lambda item: -item[1][-1][1] if item[1] else 0.0)
    for place, (name, rows) in enumerate(fullest[:_MOST]):
        if rows:
            times = [rows[0][0], *(when for when, _ in rows), end]
            shares = [0.0, *(used for _, used in rows), rows[-1][1]]
            label = f"{name} ({100 * rows[-1][1]:.0f} %)"
            style = _DASHES[place // len(_COLOURS) % len(_DASHES)]
            ax.step(times, shares, where="post", color=_COLOURS[place % len(_COLOURS)], ls=style, lw=2, label=label)  # type: ignore[arg-type]
    ax.axhline(1, color=GREY, lw=1.2, ls=(0, (4, 2)))
    ax.annotate("the budget", (0, 1), xycoords=("axes fraction", "data"), xytext=(6, 4), textcoords="offset points", color=GREY)
    ax.set_ylim(0, 1.12)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set_ylabel("share of the budget used")
    ax.set_title("Spent over time", loc="left")
    if end is not None:
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        hidden = f"; {len(timeline) - _MOST} more accounts are not drawn" if len(timeline) > _MOST else ""
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, title=f"account{hidden}", alignment="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", alpha=0.25)
    if path is not None:
        figure.savefig(fspath(path), dpi=150)
    return figure
