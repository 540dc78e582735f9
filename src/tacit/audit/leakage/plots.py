"""Pictures of leakage: a channel as a heat map, errors over the number of examples.

Each function returns a matplotlib `Figure`, draws into `ax` where one is given, and writes a file where a `path` is given.

>>> from tacit.audit.leakage.builders import randomised_response
>>> plot_channel(randomised_response(4, 1.0)).axes[0].get_ylabel()
'secret'
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Path, canvas, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tacit.audit.leakage.channel import Channel
    from tacit.audit.leakage.estimators import Convergence

_PIXELS = 400  # a larger matrix is averaged over blocks: no screen shows more
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, "#000000")
_DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (6, 1.5)), (0, (3, 1)), (0, (6, 1.5, 1, 1.5)), (0, (1, 1)), "-")


def shrunk(channel: Channel) -> NDArray[np.float64]:
    """The matrix averaged over blocks, so that neither side has more than 400 of them; each block keeps its mean.

    >>> from tacit.audit.leakage.builders import randomised_response
    >>> shrunk(randomised_response(1_000, 1.0)).shape
    (334, 334)
    """
    high, wide = (math.ceil(n / _PIXELS) for n in (channel.secrets, channel.outputs))
    rows, columns = np.arange(0, channel.secrets, high), np.arange(0, channel.outputs, wide)
    found = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        block = channel.matrix[row : row + high]
        found[i] = np.add.reduceat(np.asarray(block.sum(axis=0)).ravel(), columns)
    heights = np.diff(np.append(rows, channel.secrets))
    widths = np.diff(np.append(columns, channel.outputs))
    return found / heights[:, None] / widths


def plot_channel(channel: Channel, *, path: Path | None = None, ax: Axes | None = None) -> Figure:
    """The matrix as a picture: secrets downwards, observations across, darker where likelier. The title gives the Bayes risk."""
    from matplotlib.colors import LogNorm, Normalize

    figure, ax = canvas(ax, path)
    values = shrunk(channel)
    top = float(values.max())
    least = float(values[values > 0].min())
    logarithmic = top / least > 1e3
    floor = max(least, top * 1e-6)
    norm: Normalize = LogNorm(floor, top) if logarithmic else Normalize(0, top)
    extent = (-0.5, channel.outputs - 0.5, channel.secrets - 0.5, -0.5)
    shown = np.maximum(values, floor) if logarithmic else values
    image = ax.imshow(shown, cmap="Blues", norm=norm, aspect="auto", interpolation="nearest", extent=extent)
    averaged = max(channel.secrets, channel.outputs) > _PIXELS
    label = ("mean probability in a block" if averaged else "probability") + (f" (lightest: {floor:.0e} or less)" if logarithmic else "")
    figure.colorbar(image, ax=ax, label=label)
    ax.set_xlabel("observation")
    ax.set_ylabel("secret")
    risk, guess = channel.bayes_risk(), channel.guess_risk()
    ax.set_title(f"Bayes risk {risk:.4g}, blind guess {guess:.4g}", loc="left", fontsize=11, fontweight="bold")
    return finish(figure, path)


def plot_convergence(found: Convergence, *, path: Path | None = None, ax: Axes | None = None) -> Figure:
    """The error of each rule over the number of examples, between the blind guess and, where it is known, the Bayes risk."""
    figure, ax = canvas(ax, path)
    for i, (name, risks) in enumerate(found.risks.items()):
        ax.plot(found.sizes, risks, color=_COLOURS[i % len(_COLOURS)], ls=_DASHES[i % len(_DASHES)], lw=1.8, label=name)
    ax.axhline(found.guess_risk, color=GREY, lw=1, ls=(0, (1, 2)), label="blind guess")
    if found.bayes_risk is not None:
        ax.axhline(found.bayes_risk, color=RED, lw=1.2, label="Bayes risk")
    ax.set_xscale("log")
    ax.set_xlabel("examples to learn from")
    ax.set_ylabel("error" if found.validation is None else f"error on {found.validation:,} held-out examples")
    title = "Exact error of each rule" if found.validation is None else "Each rule's error: an estimate, not a bound"
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.grid(True, color="#dddddd", lw=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(fontsize=9, frameon=False)
    return finish(figure, path)
