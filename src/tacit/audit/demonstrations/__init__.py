"""Attacks on releases, each shown once: what it recovers from a raw release, and from Tacit's at several epsilons.

Each module of this folder is one attack, with functions that carry it out on any data and `demonstrate`, which shows it
on people made up from a seed. A level of a demonstration says how often the attack was right, how often it would be
without the release (`base`), and the most that epsilon permits (`permitted`). `all()` runs the ten demonstrations.

>>> level = Level("epsilon 1", 1.0, hits=60, trials=100, base=0.5, permitted=0.7311)
>>> level.rate, level.beats()
(0.6, False)
>>> shown = Demonstration("coins", "Coins are guessed.", (level,))
>>> print("\\n".join(shown.report_lines()))
coins: Coins are guessed.
release    recovered  95 % interval  without it  most permitted
epsilon 1  60.0 %     49.7–69.7 %    50.0 %      73.1 %

The attacks try independent secrets, so a binomial interval holds: for fresh releases by independence, and for many
independent uniform bits of one release because the number of right guesses is then stochastically below a binomial with
e^epsilon / (1 + e^epsilon) (Steinke, Nasr and Jagielski 2023, Proposition 5.1).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import noise
from tacit.accounting import ParameterError
from tacit.audit.rates import lower_rate, most_accuracy, upper_rate
from tacit.calculus import L1, Integers, Space, Vectors
from tacit.mechanisms import geometric
from tacit.parameters import Number, positive
from tacit.pictures import BLUE, GREY, ORANGE, RED, check_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

APART = 10**12  # between the seeds of secrets and of noise
HEADER = ("release", "recovered", "95 % interval", "without it", "most permitted")
Row = dict[str, Any]  # a record of any columns
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Level:
    """How well an attack did on one way of releasing. `epsilon` is None for a raw release, which permits everything."""

    label: str
    epsilon: float | None
    hits: int
    trials: int
    base: float
    permitted: float = 1.0

    @staticmethod
    def coin(epsilon: float, hits: int, trials: int, note: str = "") -> Level:
        """Guesses of fair secrets from Tacit's release at `epsilon`."""
        return Level(f"epsilon {epsilon:g}{note}", epsilon, hits, trials, 0.5, most_accuracy(epsilon))

    @property
    def rate(self) -> float:
        """The share of secrets that the attack got right."""
        return self.hits / self.trials

    @property
    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        low, high = self.interval()
        found, base, most = (f"{100 * share:.1f} %" for share in (self.rate, self.base, self.permitted))
        return self.label, found, f"{100 * low:.1f}–{100 * high:.1f} %", base, most

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The exact interval of the rate (Clopper and Pearson 1934)."""
        error = (1 - confidence) / 2
        return lower_rate(self.hits, self.trials, error), upper_rate(self.hits, self.trials, error)

    def beats(self, error: float = 1e-6) -> bool:
        """Whether the attack did better than is permitted, wrongly said with probability at most `error`."""
        return lower_rate(self.hits, self.trials, error) > self.permitted

    def learns(self, error: float = 1e-6) -> bool:
        """Whether the attack did better than it would without the release; a wrong yes has probability at most `error`."""
        return lower_rate(self.hits, self.trials, error) > self.base


@dataclass(frozen=True)
class Demonstration:
    """An attack, shown: a sentence, a table, and a picture that is drawn when asked for."""

    name: str
    sentence: str
    levels: tuple[Level, ...]
    draw: Callable[[Axes], None] | None = field(default=None, compare=False)
    notes: tuple[str, ...] = ()

    @property
    def raw(self) -> Level:
        """What was recovered from the raw release."""
        found = [level for level in self.levels if level.epsilon is None]
        if not found:
            raise ParameterError("this demonstration has no raw release")
        return found[0]

    def at(self, epsilon: float) -> Level:
        """What was recovered from Tacit's release at this epsilon."""
        found = [level for level in self.levels if level.epsilon == epsilon]
        if not found:
            shown = ", ".join(f"{level.epsilon:g}" for level in self.levels if level.epsilon is not None)
            raise ParameterError(f"epsilon must be one of those shown, {shown}, not {epsilon:g}")
        return found[0]

    @property
    def table(self) -> tuple[tuple[str, ...], ...]:
        """The header and a line for each level."""
        return (HEADER, *(level.cells for level in self.levels))

    def report_lines(self) -> list[str]:
        """The demonstration as lines of text."""
        widths = [max(len(line[i]) for line in self.table) for i in range(len(HEADER))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in self.table]
        return [f"{self.name}: {self.sentence}", *lines, *self.notes]

    def picture(self, path: str | PathLike[str] | None = None) -> Figure:
        """The picture; written to `path` where one is given."""
        from matplotlib.figure import Figure

        if path is not None:
            check_path(path)
        figure = Figure(figsize=(10.4, 3.8) if self.draw else (5.6, 3.8), dpi=130, layout="constrained")
        axes = figure.subplots(1, 2 if self.draw else 1, squeeze=False)[0]
        if self.draw is not None:
            self.draw(axes[0])
            axes[0].spines[["top", "right"]].set_visible(False)
        bars(axes[-1], self.levels)
        figure.suptitle(self.sentence, fontsize=10, wrap=True)
        if path is not None:
            figure.savefig(path)
        return figure


def bars(axis: Axes, levels: Sequence[Level]) -> None:
    """What was recovered at each level, with the share without the release and the most that is permitted."""
    places = np.arange(len(levels))
    rates = np.array([level.rate for level in levels])
    ends = np.array([level.interval() for level in levels]).T
    axis.bar(places, rates, width=0.6, color=[RED if level.epsilon is None else BLUE for level in levels])
    axis.errorbar(places + 0.2, rates, yerr=np.abs(ends - rates), fmt="none", ecolor="black", elinewidth=1, capsize=2)
    for place, level in zip(places.tolist(), levels, strict=True):
        limit = place - 0.36, place + 0.36
        axis.plot(limit, [level.base] * 2, color=GREY, lw=1.6, ls=(0, (2, 1)), label="without the release" if place == 0 else None)
        axis.plot(limit, [level.permitted] * 2, color="black", lw=1.6, label="most permitted" if place == 0 else None)
        inside = level.rate > 0.1
        above = max(level.interval()[1], level.permitted if level.permitted < 0.3 else 0.0) + 0.04
        spot = (place - 0.05, level.rate / 4 if inside else above)
        axis.annotate(f"{100 * level.rate:.0f} %", spot, ha="center", va="center", fontsize=8, color="white" if inside else "black")
    named_bars(axis, [level.label for level in levels], "share of secrets recovered")
    axis.legend(fontsize=7, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axis.spines[["top", "right"]].set_visible(False)


def named_bars(axis: Axes, labels: Sequence[str], ylabel: str) -> None:
    """The axes of shares, one bar or pair of bars for each release."""
    axis.set(xticks=np.arange(len(labels)), ylim=(0, 1.02), ylabel=ylabel)
    axis.set_xticklabels([label.replace("epsilon ", "ε = ") for label in labels], fontsize=8, rotation=20, ha="right")


def over_k(axis: Axes, curves: Mapping[str, tuple[str, Mapping[int, float]]], xlabel: str, ylabel: str) -> None:
    """Shares over the k of k-anonymous tables: for each name a format with its colour, and the curve."""
    ks: list[int] = []
    for (label, (style, curve)), colour in zip(curves.items(), (RED, ORANGE), strict=False):
        ks = list(curve)
        axis.plot(ks, list(curve.values()), style, color=colour, label=label)
    axis.set(xscale="log", xticks=ks, ylim=(0, 1.02), xlabel=xlabel, ylabel=ylabel)
    axis.set_xticklabels([str(k) for k in ks])
    axis.minorticks_off()
    axis.legend(fontsize=8, frameon=False)


def numbered(axis: Axes, grid: NDArray[np.float64], white: Callable[[float], bool]) -> None:
    """Each positive number of a picture written into its cell, in white where `white` says so."""
    for (i, j), value in np.ndenumerate(grid):
        if value > 0:
            colour = "white" if white(float(value)) else "black"
            axis.annotate(f"{value:.0f}", (j, i), ha="center", va="center", fontsize=7, color=colour)


# --- what the demonstrations share ------------------------------------------------------------------------------------------------


def draws(seed: int | None) -> contextlib.AbstractContextManager[object]:
    """Noise that repeats for a seed, which is for made-up data only; private noise for None.

    Noise that shares a stream with the secrets would know what it is to hide, so it takes a seed of its own.

    >>> with draws(1), noise.watch() as seen:
    ...     _ = noise.discrete_laplace(3)
    >>> seen.mark
    'NOT PRIVATE'
    """
    return contextlib.nullcontext() if seed is None else noise.test_mode(seed + APART)


def noisy_counts(counts: ArrayLike, epsilon: Number, sensitivity: int = 1) -> NDArray[np.int64]:
    """Tacit's release of whole counts: `epsilon` in all, where one person moves them by at most `sensitivity` in the sum of distances.

    >>> with noise.test_mode(1):
    ...     noisy_counts([10, 20], epsilon=10).shape
    (2,)
    """
    values = np.asarray(counts, dtype=np.int64)
    scale = Fraction(sensitivity) / Fraction(str(positive("epsilon", epsilon)))
    plan = geometric(scale=scale).bind(Space(Vectors(Integers(), values.size), L1()))
    return np.asarray(plan.release(values.ravel().tolist()).value, dtype=np.int64).reshape(values.shape)


def all(*, quick: bool = False, seed: int | None = 1) -> tuple[Demonstration, ...]:  # the name is public: demonstrations.all()
    """Every demonstration, in the order of a book's first chapter; `quick` tries fewer secrets."""
    from tacit.audit.demonstrations import (
        averaging,
        database_reconstruction,
        differencing,
        gradients,
        intersection,
        linkage,
        reconstruction,
        reidentification,
        synthetic_inference,
        tracing,
    )

    attacks = (
        *(differencing, averaging, linkage, reidentification, intersection),
        *(reconstruction, tracing, database_reconstruction, synthetic_inference, gradients),
    )
    return tuple(attack.demonstrate(quick=quick, seed=seed) for attack in attacks)


def report_lines(*, quick: bool = False, seed: int | None = 1) -> list[str]:
    """All demonstrations as lines of text, an empty line between two."""
    return [line for shown in all(quick=quick, seed=seed) for line in (*shown.report_lines(), "")][:-1]
