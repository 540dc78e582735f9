"""A harness to compare ways of answering questions about one column (after DPBench, Hay et al. 2016).

It runs algorithms on histograms of several shapes, scales and prices, several times each, and keeps mean errors with
their standard errors in a file. A run that is stopped goes on where it was; two files can be compared; `regret` says
how far each algorithm is from the best one, because none is best everywhere. Histograms are made up, so nothing is paid.

>>> done = run(shapes=["flat", "spikes"], sizes=[16], scales=[1000], epsilons=[1.0], algorithms=["identity", "plain"], trials=3)
>>> [(line.shape, line.algorithm, line.trials) for line in done.lines][:2]
[('flat', 'identity', 3), ('flat', 'plain', 3)]
>>> sorted(done.regret()) == ["identity", "plain"]
True
"""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.mechanisms import Law, NoisySums
from tacit.parameters import count, positive
from tacit.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, canvas, dress, finish
from tacit.workloads.dawa import with_dawa
from tacit.workloads.joint_strategy import JointStrategy, OneProduct
from tacit.workloads.mwem import with_mwem
from tacit.workloads.optimal import weighted_tree
from tacit.workloads.plan import measured
from tacit.workloads.privtree import with_privtree
from tacit.workloads.strategy import Need, Strategy, identity, levels
from tacit.workloads.workload import AllRanges, Array, Cells, Factor, Identity, Prefix, Product, Term, Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Counts = NDArray[np.int64]
#: From counts, questions and a price to the answers.
Algorithm = Callable[[Counts, Workload, Guarantee], Array]
VERSION = 1
QUESTIONS = {"ranges": AllRanges, "prefix": Prefix, "cells": Identity}
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)


# --- histograms ------------------------------------------------------------------------------------------------


def histogram(shape: str, size: int, rows: int) -> Counts:
    """So many rows in so many cells: a public table, the same every time.

    >>> histogram("flat", 4, 10).tolist(), int(histogram("spikes", 8, 100).sum())
    ([2, 3, 3, 2], 100)
    """
    if shape not in SHAPES:
        raise ParameterError(f"there is no shape {shape!r}; there are {', '.join(SHAPES)}")
    place = np.arange(count("size", size))
    weights = np.asarray(SHAPES[shape](place, np.random.default_rng(list(shape.encode()))), dtype=np.float64)
    ends = np.rint(np.cumsum(weights) / weights.sum() * count("rows", rows)).astype(np.int64)
    return np.diff(np.concatenate([[0], ends]))


def _spikes(place: NDArray[Any], rng: np.random.Generator) -> Array:
    found = np.full(len(place), 1e-9)
    found[rng.choice(len(place), max(1, len(place) // 64), replace=False)] = 1.0
    return found


SHAPES: Mapping[str, Callable[[NDArray[Any], np.random.Generator], Any]] = {
    "flat": lambda x, rng: np.ones(len(x)),
    "spikes": _spikes,
    "bell": lambda x, rng: np.exp(-(((x / len(x) - 0.4) / 0.1) ** 2) / 2),
    "decay": lambda x, rng: np.exp(-12 * x / len(x)),
    "heavy tail": lambda x, rng: rng.permutation(1.0 / (1 + x) ** 1.2),
    "comb": lambda x, rng: np.where(x % 8 == 0, 1.0, 0.02),
    "steps": lambda x, rng: np.repeat(rng.gamma(0.5, size=8), -(-len(x) // 8))[: len(x)] + 1e-9,
    "rough": lambda x, rng: rng.gamma(1.0, size=len(x)),
}


# --- algorithms ------------------------------------------------------------------------------------------------


def _by(choose: Callable[[Need, Law], Strategy] | None) -> Algorithm:
    """A strategy that does not look at the data; None is the one of least computed error."""

    def run(counts: Counts, workload: Workload, price: Guarantee) -> Array:
        def select(narrow: Workload, law: Law) -> JointStrategy:
            assert choose is not None
            need = Need(tuple((term.weight, _factor(narrow, term)) for term in narrow.terms))
            return OneProduct(tuple(narrow.cells.names), (choose(need, law),))

        plan = measured(workload, price) if choose is None else measured(workload, price, select=select)
        return _flat(plan.answers(plan.draw({tuple(plan.workload.cells.names): counts})))

    return run


def _looking(make: Callable[[Workload, Guarantee], Any]) -> Algorithm:
    """A method that looks at the data within its price."""

    def run(counts: Counts, workload: Workload, price: Guarantee) -> Array:
        method = make(workload, price)
        return _flat(method.answers(method.draw({method.tables[0]: counts})))

    return run


def _uniform(counts: Counts, workload: Workload, price: Guarantee) -> Array:
    """The total alone, spread evenly."""
    total = NoisySums.of_multiplier("laplace", 1 / Fraction(price.positive().laplace_epsilon or 0)).add(int(counts.sum()))
    spread = np.full(len(counts), float(total) / len(counts))
    return _true(spread, workload)


def _flat(answers: Sequence[Any]) -> Array:
    return np.concatenate([np.ravel(own.values) for own in answers])


def _true(counts: NDArray[Any], workload: Workload) -> Array:
    values = np.asarray(counts, dtype=np.float64)
    return np.concatenate([np.ravel(_factor(workload, term).answer(values, 0)) for term in workload.terms])


def _factor(workload: Workload, term: Term) -> Factor:
    """What a term asks of the one column."""
    ((_, factor),) = workload.factors(term)
    return factor


ALGORITHMS: Mapping[str, Algorithm] = {
    "uniform": _uniform,
    "identity": _by(lambda need, law: identity(need.size)),
    "H2": _by(lambda need, law: levels(need.size, 2)),
    "H16": _by(lambda need, law: levels(need.size, 16)),
    "weighted H2": _by(lambda need, law: weighted_tree(need, law, 2)),
    "plain": _by(None),
    "DAWA": _looking(with_dawa),
    "PrivTree": _looking(with_privtree),
    "MWEM": _looking(with_mwem),
}


# --- runs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """The error of one algorithm on one histogram at one price: root mean square over the questions, over trials."""

    shape: str
    size: int
    rows: int
    epsilon: float
    questions: str
    algorithm: str
    error: float
    deviation: float  # the standard error of `error`
    trials: int

    @property
    def setting(self) -> tuple[str, int, int, float, str]:
        """What an algorithm was run on."""
        return self.shape, self.size, self.rows, self.epsilon, self.questions


@dataclass(frozen=True)
class Results:
    """What was run."""

    lines: tuple[Line, ...]

    def best(self) -> dict[tuple[str, int, int, float, str], Line]:
        """The algorithm of least error for every setting."""
        found: dict[tuple[str, int, int, float, str], Line] = {}
        for line in self.lines:
            if line.setting not in found or line.error < found[line.setting].error:
                found[line.setting] = line
        return found

    def regret(self) -> dict[str, tuple[float, float]]:
        """For every algorithm, its error over the least one: the geometric mean over settings, and the worst."""
        best = self.best()
        ratios: dict[str, list[float]] = {}
        for line in self.lines:
            ratios.setdefault(line.algorithm, []).append(line.error / max(best[line.setting].error, 1e-300))
        return {
            name: (math.exp(statistics.fmean(math.log(max(one, 1e-300)) for one in own)), max(own)) for name, own in ratios.items()
        }

    def table(self) -> str:
        """All errors, a line for every setting, then the regret.

        >>> print(run(shapes=["flat"], sizes=[4], scales=[9], epsilons=[1.0], algorithms=["identity"], trials=1).table())
        shape       cells        rows  epsilon  identity
        flat            4           9        1 ...
        regret: mean                                1.00
        regret: worst                               1.00
        """
        names = list(dict.fromkeys(line.algorithm for line in self.lines))
        held = {(line.setting, line.algorithm): line for line in self.lines}
        wide = {name: max(len(name), 8) for name in names}
        shown = [f"{'shape':<10} {'cells':>6} {'rows':>11} {'epsilon':>8}  " + "  ".join(f"{n:>{wide[n]}}" for n in names)]
        for setting in dict.fromkeys(line.setting for line in self.lines):
            shape, size, rows, epsilon, _ = setting
            errors = [held.get((setting, name)) for name in names]
            words = [" " * wide[n] if e is None else f"{e.error:>{wide[n]}.4g}" for n, e in zip(names, errors, strict=True)]
            shown.append(f"{shape:<10} {size:>6} {rows:>11} {epsilon:>8g}  " + "  ".join(words))
        regret = self.regret()
        for place, word in enumerate(("mean", "worst")):
            shown.append(f"{'regret: ' + word:<38}  " + "  ".join(f"{regret[n][place]:>{wide[n]}.2f}" for n in names))
        return "\n".join(shown)

    def save(self, path: str | Path) -> None:
        """Write a file, whole or not at all."""
        place = Path(path)
        text = json.dumps({"version": VERSION, "lines": [asdict(line) for line in self.lines]}, indent=1)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=place.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, place)

    @staticmethod
    def load(path: str | Path) -> Results:
        """What a file holds."""
        try:
            held = json.loads(Path(path).read_text(encoding="utf-8"))
            if held["version"] != VERSION:
                raise ParameterError(f"{Path(path).name} was written by another version of the harness; run it again")
            return Results(tuple(Line(**line) for line in held["lines"]))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(f"{Path(path).name} holds no results of the harness") from None

    def against(self, before: Results) -> list[tuple[Line, float, float]]:
        """Lines that an earlier run has too: the line, its error over the earlier one's, and by how many standard errors."""
        old = {(line.setting, line.algorithm): line for line in before.lines}
        found = []
        for line in self.lines:
            past = old.get((line.setting, line.algorithm))
            if past is not None:
                spread = math.hypot(line.deviation, past.deviation)
                apart = (line.error - past.error) / spread if spread else 0.0
                found.append((line, line.error / max(past.error, 1e-300), apart))
        return found

    def plot(self, path: str | Path | None = None) -> Figure:
        """Regret of every algorithm on every setting, one row a setting."""
        settings = list(dict.fromkeys(line.setting for line in self.lines))
        best = self.best()
        figure, ax = canvas(None, None if path is None else str(path), width=7.2, height=1.6 + 0.28 * len(settings))
        for colour, name in zip(itertools.cycle(COLOURS), dict.fromkeys(line.algorithm for line in self.lines), strict=False):
            own = [line for line in self.lines if line.algorithm == name]
            ratio = [line.error / max(best[line.setting].error, 1e-300) for line in own]
            ax.plot(ratio, [settings.index(line.setting) for line in own], "o", color=colour, label=name, markersize=5)
        ax.set_xscale("log")
        labels = [f"{shape}, {size} cells, {rows:,} rows, ε {epsilon:g}" for shape, size, rows, epsilon, _ in settings]
        ax.set_yticks(range(len(settings)), labels, fontsize=8)
        ax.invert_yaxis()
        dress(ax, "Error over that of the best", "times the least error", "")
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        return finish(figure, None if path is None else str(path))


def run(
    *, shapes: Sequence[str] = tuple(SHAPES), sizes: Sequence[int] = (256,), scales: Sequence[int] = (1_000, 100_000),
    epsilons: Sequence[float] = (0.1, 1.0), questions: str = "ranges",
    algorithms: Sequence[str] | Mapping[str, Algorithm] = tuple(ALGORITHMS), trials: int = 5, path: str | Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Results:
    """Run every algorithm on every histogram. With `path`, lines that the file has are kept, and new ones are added as they come.

    `algorithms` are names, or functions of your own by name. `progress` is told what was done, how much and of how much.
    """
    chosen = dict(algorithms) if isinstance(algorithms, Mapping) else {}
    for name in () if isinstance(algorithms, Mapping) else algorithms:
        if name not in ALGORITHMS:
            raise ParameterError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
        chosen[name] = ALGORITHMS[name]
    if questions not in QUESTIONS:
        raise ParameterError(f"questions must be one of {', '.join(QUESTIONS)}, not {questions!r}")
    tries = count("trials", trials)
    for epsilon in epsilons:
        positive("epsilon", epsilon)
    done = Results.load(path) if path is not None and Path(path).exists() else Results(())
    held = {(line.setting, line.algorithm, line.trials): line for line in done.lines}
    settings = list(itertools.product(shapes, sizes, scales, epsilons))
    lines = list(done.lines)
    for number, ((shape, size, rows, epsilon), (name, algorithm)) in enumerate(itertools.product(settings, chosen.items()), 1):
        setting = (shape, int(size), int(rows), float(epsilon), questions)
        if (setting, name, tries) not in held:
            counts = histogram(shape, size, rows)
            workload = Product(x=QUESTIONS[questions]).on(Cells.of({"x": size}))
            truth = _true(counts, workload)
            price = Guarantee(epsilon=str(epsilon))
            errors = [math.sqrt(float(np.mean((algorithm(counts, workload, price) - truth) ** 2))) for _ in range(tries)]
            spread = statistics.stdev(errors) / math.sqrt(tries) if tries > 1 else 0.0
            lines.append(Line(*setting, name, statistics.fmean(errors), spread, tries))
            if path is not None:
                Results(tuple(lines)).save(path)
        if progress is not None:
            progress(f"{name} on {shape}", number, len(settings) * len(chosen))
    wanted = {(shape, int(size), int(rows), float(epsilon), questions) for shape, size, rows, epsilon in settings}
    return Results(tuple(line for line in lines if line.setting in wanted and line.algorithm in chosen))
