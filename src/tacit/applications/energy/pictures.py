"""Pictures of energy releases, in the manner of the book's Figures 10.1 to 10.3, and of what attacks find.

Each function draws on a matplotlib figure of its own, needs no display, and writes a file where a path is given.

>>> from tacit.applications.energy import Network, draw_congestion
>>> figure = draw_congestion(Network.nine_buses())
>>> [ax.get_title(loc="left") for ax in figure.axes]
['What one load does to the dispatch (bus 9, line 8-9 full)']
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacit.applications.energy.charging import EnergyHistogram
from tacit.applications.energy.disaggregate import Disaggregation
from tacit.applications.energy.errors import EnergyError
from tacit.applications.energy.network import GEN_BUS, Network
from tacit.applications.energy.private_case import ReleasedCase
from tacit.applications.energy.sensitivity import Monotonicity, monotonicity
from tacit.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Path, canvas, check_path, dress, finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)


def draw_charging(
    histograms: Sequence[EnergyHistogram], labels: Sequence[str], path: Path | None = None, *, truth: Sequence[int] | None = None
) -> Figure:
    """Figure 10.1: noisy counts of requested energy for several epsilons, beside the true ones where these are made up."""
    from matplotlib.figure import Figure

    if path is not None:
        check_path(path)
    columns = min(2, len(histograms))
    rows = math.ceil(len(histograms) / columns)
    figure = Figure(figsize=(4.6 * columns, 3.2 * rows), dpi=150, layout="tight")
    for place, (found, label) in enumerate(zip(histograms, labels, strict=True)):
        ax = figure.add_subplot(rows, columns, place + 1)
        edges = np.array(found.bins, dtype=float)
        ax.bar(edges[:-1], found.values, np.diff(edges), align="edge", color=SKY, edgecolor="white", label="published")
        if truth is not None:
            ax.stairs(truth, edges, color=RED, lw=1.3, label="made-up truth")
        ax.axhline(0, color=GREY, lw=0.6)
        ax.legend(loc="upper right")
        dress(ax, label, "requested energy (kWh)", "sessions")
    return finish(figure, path)


def draw_busiest_day(
    energy: Mapping[str, float], chances: Mapping[str, Sequence[float]], path: Path | None = None
) -> Figure:
    """Figure 10.2: the energy of each day of made-up data, and how likely each is to be chosen, for several epsilons."""
    from matplotlib.figure import Figure

    if path is not None:
        check_path(path)
    figure = Figure(figsize=(8.2, 5.2), dpi=150, layout="tight")
    top, below = figure.add_subplot(2, 1, 1), figure.add_subplot(2, 1, 2)
    places = np.arange(len(energy))
    names = [day[-2:].lstrip("0") for day in energy]
    top.bar(places, list(energy.values()), color=SKY)
    dress(top, "Energy delivered each day (made up)", "", "kWh")
    for colour, (label, values) in zip(COLOURS, chances.items(), strict=False):
        below.plot(places, values, marker="o", ms=3, lw=1.2, color=colour, label=label)
    below.legend(loc="upper right")
    dress(below, "Chance of each day to be published", "day of the month", "probability")
    for ax in (top, below):
        ax.set_xticks(places, names, fontsize=7)
    return finish(figure, path)


def draw_congestion(network: Network, path: Path | None = None, *, found: Monotonicity | None = None) -> Figure:
    """Figure 10.3: what every generator does while one load grows and the worst limits bind."""
    worst = monotonicity(network) if found is None else found
    figure, ax = canvas(None, path)
    steps = np.linspace(0, 1, 11)
    for place, (response, colour) in enumerate(zip(worst.response, COLOURS * len(worst.response), strict=False)):
        bus = int(network.gen[place, GEN_BUS])
        ax.plot(steps, response * steps, color=colour, lw=2, label=f"generator at bus {bus}: {response:+.4g} MW")
    ax.plot(steps, steps, color=GREY, lw=1, ls="--", label="the load itself")
    ax.axhline(0, color=GREY, lw=0.6)
    ax.legend(loc="best")
    lines = ", ".join(f"{a}-{b}" for a, b in worst.lines) or "none"
    title = f"What one load does to the dispatch (bus {worst.bus}, line {lines} full)"
    dress(ax, title, "growth of the load (MW)", "change of generation (MW)")
    return finish(figure, path)


def draw_ratio(names: Sequence[str], ratios: Sequence[float], path: Path | None = None) -> Figure:
    """The noise of regional sums in several networks, for each MW of protected change, at epsilon 1."""
    if len(names) != len(ratios) or not names:
        raise EnergyError("give a name for every ratio")
    figure, ax = canvas(None, path, height=1.2 + 0.5 * len(names) + 1.0)
    scales = [2 * (1 + ratio) for ratio in ratios]
    ax.barh(names, scales, color=SKY)
    ax.axvline(2, color=GREEN, lw=1.5, label="a monotone network: 2 MW")
    for place, scale in enumerate(scales):
        ax.annotate(f"{scale:,.4g} MW", (scale, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_xscale("log")
    ax.set_xlim(1, max(scales) * 8)
    ax.invert_yaxis()
    ax.legend(loc="lower right")
    dress(ax, "Noise of regional sums, for 1 MW of protected change", "Laplace scale at epsilon 1 (MW)", "")
    return finish(figure, path)


def draw_release(released: ReleasedCase, path: Path | None = None, *, truth: Network | None = None, most: int = 40) -> Figure:
    """Released loads beside the noise they come from, and beside the truth where the network is public or made up."""
    figure, ax = canvas(None, path, width=8.2)
    buses = released.network.load_buses[:most]
    places = np.arange(len(buses))
    ax.bar(places, released.loads[:most], color=SKY, label="published")
    ax.plot(places, released.noisy[:most], "x", color=ORANGE, ms=5, label="with plain noise")
    if truth is not None:
        ax.plot(places, truth.loads[truth.load_places][:most], "_", color=RED, ms=11, mew=2, label="made-up or public truth")
    ax.set_xticks(places, [str(bus) for bus in buses], fontsize=7, rotation=90 if len(buses) > 20 else 0)
    ax.axhline(0, color=GREY, lw=0.6)
    ax.legend(loc="best")
    shown = "" if len(buses) == len(released.network.load_buses) else f" (first {len(buses)})"
    dress(ax, f"Published loads{shown}: {released.unit}", "bus", "MW")
    return finish(figure, path)


def draw_disaggregation(found: Sequence[Disaggregation], path: Path | None = None) -> Figure:
    """How far an attacker's guess of one load is off, against epsilon."""
    if not found:
        raise EnergyError("there is nothing to draw; give the rows of attack_regions")
    figure, ax = canvas(None, path)
    epsilons = [row.epsilon for row in found]
    ax.plot(epsilons, [row.knowing_all_others for row in found], marker="o", color=RED, label="knows all other loads")
    ax.plot(epsilons, [row.knowing_nothing for row in found], marker="s", color=BLUE, label="knows the sums alone")
    ax.axhline(found[0].without_release, color=GREY, ls="--", lw=1.2, label="has seen no release")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.legend(loc="best")
    dress(ax, "Guessing one load from regional sums", "epsilon", "mean error of the guess (MW)")
    return finish(figure, path)
