"""A synthesizer as a page that may be published: what was measured, with noise, what it cost, and what to expect.

It shows released figures only, so it costs nothing. `Synthesizer.report` writes it.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis import CategoryColumn, synthesize
>>> with test_mode(1):
...     made = synthesize({"sex": ["f", "m"] * 50}, [CategoryColumn("sex", ("f", "m"))], mu=1)
>>> shown = page(made)
>>> "GDP(mu=" in shown, "NOT PRIVATE" in shown
(True, True)
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ParameterError
from tacit.pictures import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tacit.synthesis.relational import SyntheticTables
    from tacit.synthesis.synthesizer import Synthesizer

PANELS = 12


def page(made: Synthesizer) -> str:
    """A self-contained page."""
    return _rendered([_part("", made, len(made.columns))], repr(made.event_), made.private_)


def page_of_levels(made: SyntheticTables) -> str:
    """A self-contained page of tables that belong together."""
    parts = [_part(one.level.name, made.level(one.level.name), len(one.columns)) for one in made.parts]
    return _rendered(parts, repr(made.event_), made.private_)


def _part(title: str, made: Synthesizer, shown: int) -> dict[str, object]:
    """One table of the page; of its model's columns so many are its own."""
    names = [column.name for column in made.columns]
    measured = [
        {"columns": " by ".join(names[place] for place in one.columns), "cells": one.values.size, "sigma": f"{one.sigma:.4g}"}
        for one in made.measured_
    ]
    held = io.BytesIO()
    picture(made, shown).savefig(held, format="png", dpi=150)
    source = "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()
    columns = [(one.name, one.kind, sum(label != "missing" for label in one.labels())) for one in made.columns]
    return {"title": title, "measured": measured, "columns": columns, "picture": source, "rows": f"{made.rows_:,.0f}"}


def _rendered(parts: list[dict[str, object]], event: str, private: bool) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("tacit.synthesis"), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("synthesizer.html").render(parts=parts, event=event, private=private)


def picture(made: Synthesizer, most: int = PANELS) -> Figure:
    """The model's counts of single columns, and the measured ones with their intervals."""
    from matplotlib.figure import Figure

    shown = made.columns[: min(most, PANELS)]
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure(figsize=(3.1 * across + 0.4, 2.4 * down + 0.5), dpi=150, layout="constrained")
    for place, column in enumerate(shown):
        cells = made.marginal(column.name)
        ax = figure.add_subplot(down, across, place + 1)
        where = np.arange(len(cells))
        ax.bar(where, [cell.count for cell in cells], 0.7, color=BLUE, label="model")
        known = [(spot, cell.low, cell.high) for spot, cell in zip(where, cells, strict=True)]
        ranges = [(spot, low, high) for spot, low, high in known if low is not None and high is not None]
        if ranges:
            middle = [(low + high) / 2 for _, low, high in ranges]
            wide = [(high - low) / 2 for _, low, high in ranges]
            spots = [spot for spot, _, _ in ranges]
            ax.errorbar(spots, middle, wide, fmt="none", ecolor=ORANGE, elinewidth=1.2, label="measured, 95 %")
        label(ax, column.name, [cell.values[0] for cell in cells])
        if place == 0:
            figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    return figure


def label(ax: Axes, title: str, bars: Sequence[str]) -> None:
    """A small panel's title and the names of some five of its bars."""
    ax.set_title(short(title, 28), fontsize=9, loc="left")
    step = max(1, len(bars) // 5)
    ax.set_xticks(range(0, len(bars), step), [short(bar, 10) for bar in bars[::step]], fontsize=6, rotation=30, ha="right")
    ax.tick_params(axis="y", labelsize=6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def short(text: str, most: int) -> str:
    """A name for a picture: printable, no formula, and cut to its length."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text).replace("$", r"\$")
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def write(made: Synthesizer, path: str | Path) -> None:
    """The page as a file, whose name must end in .html."""
    _html(path).write_text(page(made), encoding="utf-8")


def write_levels(made: SyntheticTables, path: str | Path) -> None:
    """The page of several tables as a file, whose name must end in .html."""
    _html(path).write_text(page_of_levels(made), encoding="utf-8")


def _html(path: str | Path) -> Path:
    place = Path(path)
    if place.suffix != ".html":
        raise ParameterError(f"the file name must end in .html, not {place.name!r}")
    return place
