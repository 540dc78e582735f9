"""How fast each rule approaches the Bayes risk: its error after 5, ..., n examples, measured exactly or on held-out examples.

>>> from tacit.audit.channel_builders import truncated_geometric
>>> from tacit.audit.experiment import generator
>>> system = truncated_geometric(10, 100, 0.2)
>>> labels, columns = system.sample(4_000, generator(1))
>>> found = convergence(labels, columns, channel=system, sizes=[5, 50, 500, 4_000])
>>> [bool(risk >= system.bayes_risk()) for risk in found.risks["knn-ln"]]
[True, True, True, True]
>>> found.examples_to_converge("knn-ln", 0.1)
500

Where the matrix is known the error of every rule is exact (15.4) and the curve has no noise of its own. Otherwise it is the share of
wrong guesses on held-out examples, which the rules never see. The lowest point of a curve is chosen by looking at it: it is no bound.
For a bound use `leakage_audit`, which settles on one rule before it looks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.errors import ParameterError
from tacit.accounting.parameters import count, positive
from tacit.audit.channel import Channel
from tacit.audit.leakage_estimators import RULES, Rule, examples, fit_tally, rule_named, tally

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Convergence", "convergence", "geometric_sizes"]

SMALL = 0.01  # below this Bayes risk a relative change says little, and absolute ones are counted


@dataclass(frozen=True, eq=False)
class Convergence:
    """The error of each rule after each number of examples. `bayes_risk` is known where the channel is; `validation` is None there."""

    sizes: NDArray[np.int64]
    risks: Mapping[str, NDArray[np.float64]]
    guess_risk: float
    bayes_risk: float | None
    validation: int | None

    def examples_to_converge(self, rule: str, delta: float, *, target: float | None = None, absolute: bool | None = None) -> int | None:
        """The first size at which the error is within `delta` of the target, relatively (15.57); None if no size reaches it.

        The target is the Bayes risk, or must be given. Where it is below 0.01 differences are absolute (15.58) unless told otherwise.
        """
        goal = self.bayes_risk if target is None else target
        if goal is None:
            raise ParameterError("target must be given: without the channel the Bayes risk is unknown")
        scale = 1.0 if (absolute if absolute is not None else goal < SMALL) else goal
        near = np.abs(self._risk(rule) - goal) < float(positive("delta", delta)) * scale
        return int(self.sizes[near.argmax()]) if near.any() else None

    def settled(self, rule: str, delta: float, share: float = 0.1) -> int | None:
        """The first size at which the error moved by less than `delta` over the last `share` of all examples: a stopping rule, no proof."""
        risks, window = self._risk(rule), share * float(self.sizes[-1])
        for i, size in enumerate(self.sizes):
            recent = (self.sizes <= size) & (self.sizes >= size - window)
            if size - self.sizes[0] >= window and recent.sum() > 1 and float(np.ptp(risks[recent])) < delta:
                return int(self.sizes[i])
        return None

    def last(self) -> dict[str, float]:
        """The error of each rule after all examples: an estimate."""
        return {name: float(risks[-1]) for name, risks in self.risks.items()}

    def _risk(self, rule: str) -> NDArray[np.float64]:
        if rule not in self.risks:
            raise ParameterError(f"rule must be one of {', '.join(self.risks)}, not {rule!r}")
        return self.risks[rule]

    def plot(self, path: str | PathLike[str] | None = None, ax: Axes | None = None) -> Figure:
        """The errors over the number of examples, between the blind guess and the Bayes risk."""
        from tacit.audit.leakage_plots import plot_convergence

        return plot_convergence(self, path=path, ax=ax)


def geometric_sizes(first: int, last: int, ratio: float = 1.1) -> NDArray[np.int64]:
    """Whole numbers from first to last, each about `ratio` times the one before.

    >>> geometric_sizes(5, 100, 2).tolist()
    [5, 10, 20, 40, 80, 100]
    """
    first, last = count("first", first), count("last", last)
    if last < first or not ratio > 1:
        raise ParameterError(f"first must be at most last and ratio above 1, not {first}, {last} and {ratio}")
    steps = math.floor(math.log(last / first) / math.log(ratio))
    return np.unique(np.append(np.round(first * ratio ** np.arange(steps + 1)), last).astype(np.int64))


def convergence(
    labels: ArrayLike,
    observations: ArrayLike,
    *,
    channel: Channel | None = None,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    secrets: int | None = None,
    rules: Iterable[str | Rule] = tuple(RULES),
    sizes: Sequence[int] | NDArray[np.integer] | None = None,
) -> Convergence:
    """Fit each rule to the first n examples, for each n of `sizes` (5 and on by steps of a tenth), and measure its error.

    With `channel`, observations are the numbers of its columns, as `Channel.sample` gives them, and errors are exact. With
    `validation`, a pair of held-out labels and observations, errors are shares of those. Exactly one of the two must be given.
    """
    if (channel is None) == (validation is None):
        raise ParameterError("give either channel, for exact errors, or validation, a pair of held-out labels and observations")
    chosen = [rule_named(rule) for rule in rules]
    known, seen = examples(labels, observations)
    at = geometric_sizes(min(5, len(known)), len(known)) if sizes is None else np.asarray(sizes, dtype=np.int64)
    if not at.size or at.min() < 1 or at.max() > len(known) or (np.diff(at) <= 0).any():
        raise ParameterError(f"sizes must grow from 1 or more to at most the {len(known)} examples given")
    truth: Any = None
    if channel is not None:
        codes, points, queries = seen.astype(np.int64), channel.observations, channel.observations
        many, guess, bayes = channel.secrets, channel.guess_risk(), channel.bayes_risk()
        if codes.max(initial=0) >= channel.outputs or known.max(initial=0) >= many:
            raise ParameterError("labels and observations must be numbers of rows and columns of the channel")
    else:
        assert validation is not None
        truth, queries = examples(*validation)
        points, codes = np.unique(seen, axis=0, return_inverse=True)
        codes = codes.ravel().astype(np.int64)
        many = count("secrets", secrets) if secrets is not None else int(max(known.max(initial=0), truth.max(initial=0))) + 1
        guess, bayes = 1 - float(np.bincount(truth, minlength=1).max(initial=0)) / max(1, len(truth)), None
    risks = {rule.name: np.empty(len(at)) for rule in chosen}
    for i, n in enumerate(at):
        data = tally(known[:n], codes[:n], points, many)
        for rule in chosen:
            guesses = fit_tally(rule, data).predict(queries)
            risks[rule.name][i] = channel.risk_of(guesses) if channel is not None else float((guesses != truth).mean())
    return Convergence(at.astype(np.int64), risks, guess, bayes, None if truth is None else len(truth))
