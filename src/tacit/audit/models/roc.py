"""From scores and membership bits to rates: the whole curve, its area, the rate at few false alarms, and who is at risk.

A higher score says "member". An estimate is named so; what has a confidence is an exact interval; what holds against a
claim is evidence. An average hides the few who are exposed most: the risk of a record is the attack's success over many
trainings with and without it, and the risk of a group is the curve of its members alone.

>>> curve = roc([0.9, 0.8, 0.3, 0.1], [True, True, False, False])
>>> curve.auc, curve.accuracy, curve.advantage
(1.0, 1.0, 1.0)
>>> roc([1, 1, 1, 1], [True, False, True, False]).auc
0.5
>>> scores = np.array([[0.9, 0.1, 0.5], [0.8, 0.4, 0.5], [0.2, 0.3, 0.5], [0.1, 0.2, 0.5]])
>>> inside = np.array([[True, False, True], [True, True, False], [False, True, True], [False, False, False]])
>>> per_record_risk(scores, inside).tolist()
[1.0, 1.0, 0.5]
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from tacit.accounting import ParameterError
from tacit.audit.claim import Claim, Evidence
from tacit.audit.mechanisms.search import attack as search
from tacit.audit.rates import Measure, OperatingPoint, lower_rate, most_accuracy, most_advantage, upper_rate
from tacit.parameters import probability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
READ_AT = 0.01  # the false positive rate at which a picture names its curves
STRONG = "#c5221f"  # the attack that a picture is about
THIN = ("#1a73e8", "#188038", "#e37400", "#9334e6", "#12858d", "#8d6e63", "#b06000")  # the others, one after another
USUAL = (0.001, 0.01, 0.1)  # false positive rates at which attacks are compared


@dataclass(frozen=True)
class RateAt:
    """The true positive rate at a wanted false positive rate, as found, with an interval for each of the two at the threshold used."""

    wanted: float
    threshold: float
    tpr: float
    tpr_interval: tuple[float, float]
    fpr_interval: tuple[float, float]
    confidence: float


@dataclass(frozen=True)
class Roc:
    """The curve of one attack: row i says which share of either world has a score of thresholds[i] or more."""

    thresholds: Floats
    fpr: Floats
    tpr: Floats
    outside: Floats
    inside: Floats

    @cached_property
    def auc(self) -> float:
        """The probability that a member scores higher than another record; ties count half (Mann and Whitney 1947)."""
        return float(np.trapezoid(np.append(0.0, self.tpr), np.append(0.0, self.fpr)))

    @property
    def advantage(self) -> float:
        """The largest true less false positive rate over all thresholds: an estimate that looks at the data twice."""
        return max(0.0, float(np.max(self.tpr - self.fpr)))

    @property
    def accuracy(self) -> float:
        """The best balanced accuracy over all thresholds, (1 + advantage) / 2: an estimate."""
        return (1 + self.advantage) / 2

    def rates(self, threshold: float) -> tuple[float, float]:
        """False and true positive rate of "the score is at least this"."""
        return float(np.mean(self.outside >= threshold)), float(np.mean(self.inside >= threshold))

    def precision(self, threshold: float) -> float:
        """Which share of those called members are; NaN-free: 1/2 where no record is called one."""
        fpr, tpr = self.rates(threshold)
        return tpr / (tpr + fpr) if tpr + fpr > 0 else 0.5

    def tpr_at(self, fpr: float, confidence: float = 0.95) -> RateAt:
        """The true positive rate where at most `fpr` of the non-members are called members.

        The threshold is an order statistic of the non-members, so the probability above it has a beta law, and members are independent of
        it: both intervals are exact, each with half of the error; ties make them wider than need be.

        >>> curve = roc(np.arange(2000.0), np.arange(2000) >= 1000)
        >>> at = curve.tpr_at(0.01)
        >>> at.tpr, at.fpr_interval[1] < 0.02
        (1.0, True)
        """
        wanted = float(probability("fpr", fpr))
        n, m = len(self.outside), len(self.inside)
        allowed = math.floor(wanted * n + 1e-9)
        ordered = np.sort(self.outside)[::-1]
        threshold = float(ordered[allowed]) if allowed < n else -math.inf
        hits = int(np.sum(self.inside > threshold))
        error = (1 - float(probability("confidence", confidence))) / 4
        # P[a non-member scores above the (allowed+1)-th largest of n] has the law Beta(allowed + 1, n - allowed).
        low, high = (0.0, 1.0) if allowed >= n else (float(betaincinv(allowed + 1, n - allowed, e)) for e in (error, 1 - error))
        return RateAt(wanted, threshold, hits / m, (lower_rate(hits, m, error), upper_rate(hits, m, error)), (low, high), float(confidence))

    def band(self, confidence: float = 0.95) -> tuple[float, float]:
        """By how much the two rates may be off at all thresholds together (Dvoretzky, Kiefer and Wolfowitz 1956; Massart 1990).

        >>> off = roc(np.arange(2000.0), np.arange(2000) >= 1000).band()
        >>> [round(width, 4) for width in off]
        [0.0468, 0.0468]
        """
        error = (1 - float(probability("confidence", confidence))) / 2
        return _massart(len(self.outside), error), _massart(len(self.inside), error)

    def band_point(self, delta: float = 0.0, confidence: float = 0.95) -> OperatingPoint:
        """The point of the band with the largest epsilon at `delta`; any may be picked, since all hold together."""
        wide_out, wide_in = self.band(confidence)
        points = [
            OperatingPoint(min(1.0, a + wide_out), max(0.0, b - wide_in), confidence)
            for a, b in zip(self.fpr.tolist(), self.tpr.tolist(), strict=True)
        ]
        return max(points, key=lambda point: point.epsilon(delta))


def _massart(n: int, error: float) -> float:
    return math.sqrt(math.log(2 / error) / (2 * n))


def roc(scores: ArrayLike, bits: ArrayLike) -> Roc:
    """The curve of scores whose truth is known: bits say who is a member. NaN counts as no sign of membership at all."""
    values = np.nan_to_num(np.asarray(scores, dtype=np.float64).ravel(), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    members = np.asarray(bits, dtype=bool).ravel()
    if len(values) != len(members) or members.all() or not members.any():
        raise ParameterError("a curve needs one bit for each score, and at least one member and one non-member")
    inside, outside = np.sort(values[members]), np.sort(values[~members])
    levels = np.unique(values)[::-1]
    fpr, tpr = (1 - np.searchsorted(part, levels, side="left") / len(part) for part in (outside, inside))
    return Roc(levels, fpr, tpr, outside, inside)


def evidence_of(
    scores: ArrayLike, bits: ArrayLike, *, attack: str, game: str, delta: float = 0.0, confidence: float = 0.95,
    measure: Measure = "epsilon", seed: int | None = None,
) -> Evidence:
    """The bound that independent trials prove: a threshold is chosen on one part of them and measured on the others.

    >>> from tacit.audit.experiment import generator
    >>> bits = np.arange(4000) % 2 == 0
    >>> scores = bits + generator(1).normal(size=4000)
    >>> 0.6 < evidence_of(scores, bits, attack="score", game="worst case", measure="mu", seed=2).lower < 1
    True
    """
    curve = roc(scores, bits)
    values, members = np.asarray(scores, dtype=np.float64).ravel(), np.asarray(bits, dtype=bool).ravel()
    values = np.clip(np.nan_to_num(values, nan=-1e308, posinf=1e308, neginf=-1e308), -1e308, 1e308)
    n = min(len(curve.inside), len(curve.outside))
    if n < 20:
        # Too few trials to choose on some and measure on others: nothing is claimed.
        return Evidence(attack, game, 0.0, delta, float(confidence), 2 * n, measure=measure)
    outside, inside = values[~members][:n], values[members][:n]
    found = search(
        lambda _: outside, lambda _: inside, n, delta=delta, confidence=confidence, events="threshold", measure=measure, seed=seed
    )
    return replace(found, attack=attack, game=game, trials=2 * n)


def roc_figure(curves: dict[str, Roc], claim: Claim | None = None, *, confidence: float = 0.95, selected: str | None = None) -> Figure:
    """All curves on logarithmic axes and the most that the claim permits: what lies above it beats the claim.

    One attack is drawn strongly with its band: the `selected` one, or else that with the largest area. The others are thin lines; each is
    named beside the plot in its own colour, in the order of their heights at READ_AT false positives, where the numbers are read.
    """
    from matplotlib.figure import Figure

    best = selected if selected is not None else max(curves, key=lambda name: curves[name].auc)
    if best not in curves:
        raise ParameterError(f"selected must be one of {', '.join(curves)}, not {best!r}")
    figure = Figure(figsize=(7.4, 4.8), layout="constrained")
    axis = figure.subplots()
    smallest = min(1e-2, *(1 / (2 * len(curve.outside)) for curve in curves.values()))
    grid = np.geomspace(smallest, 1 - 1e-9, 80)
    height = {name: curve.tpr_at(READ_AT).tpr for name, curve in curves.items()}
    order = sorted(curves, key=lambda name: (height[name], curves[name].auc), reverse=True)
    others = [name for name in order if name != best]
    colours = {best: STRONG, **{name: THIN[i % len(THIN)] for i, name in enumerate(others)}}

    axis.plot(grid, grid, color="#9aa0a6", lw=0.9, ls=(0, (4, 3)), label="guessing", zorder=1)
    axis.annotate("guessing", (0.012, 0.012), xytext=(3, -10), textcoords="offset points", color="#7d848b", fontsize=7.5)
    out, ins = curves[best].band(confidence)
    fpr, tpr = curves[best].fpr, curves[best].tpr
    lower = np.array([max(smallest, float(np.max(tpr[fpr + out <= a] - ins, initial=0.0))) for a in grid])
    upper = np.array([min(1.0, float(np.min(tpr[fpr - out >= a] + ins, initial=1.0))) for a in grid])
    axis.fill_between(grid, lower, np.maximum(upper, lower), color=STRONG, alpha=0.08, lw=0, zorder=0)
    for name in [*others[::-1], best]:
        curve, strong = curves[name], name == best
        x, y = np.append(smallest, np.maximum(curve.fpr, smallest)), np.append(smallest, np.maximum(curve.tpr, smallest))
        axis.step(x, y, where="post", lw=1.8 if strong else 0.9, color=colours[name], label=name, zorder=4 if strong else 2)
    if claim is not None:
        most = [claim.tpr(a) for a in grid.tolist()]
        axis.plot(grid, most, color="#202124", lw=1.6, zorder=3, label=f"most that {claim.text or 'the claim'} permits")

    axis.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1), xlabel="false positive rate", ylabel="true positive rate")
    axis.axvline(READ_AT, color="#dadce0", lw=0.8, zorder=0)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color("#9aa0a6")
    axis.tick_params(colors="#5f6368", labelsize=8, which="both", width=0.6)
    said: dict[str, Any] = {"transform": axis.transAxes, "fontsize": 8, "va": "center", "clip_on": False}
    axis.text(1.03, 0.985, f"true positives at {READ_AT:.0%} false ones", color="#5f6368", **said)
    step = min(0.055, 0.8 / len(order))
    for i, name in enumerate(order):
        bold = "bold" if name == best else "normal"
        axis.text(1.03, 0.925 - step * i, f"{height[name]:.1%}", color=colours[name], fontweight=bold, **said)
        axis.text(1.12, 0.925 - step * i, name, color=colours[name], fontweight=bold, **said)
    below = 0.925 - step * (len(order) + 0.2)
    axis.text(
        1.03, below, f"shaded: where {best}\nlies, {100 * confidence:g}% sure", color="#5f6368", **{**said, "va": "top"}
    )
    if claim is not None:
        axis.text(1.03, below - 0.12, f"black: most that\n{claim.text or 'the claim'} permits", color="#202124", **{**said, "va": "top"})
    return figure


def summary(curve: Roc, confidence: float = 0.95) -> dict[str, object]:
    """The usual figures of one curve, as plain values.

    >>> sorted(summary(roc([2, 1, 0], [True, False, False])))
    ['accuracy', 'advantage', 'auc', 'members', 'non_members', 'tpr_at_fpr']
    """
    rates = [curve.tpr_at(rate, confidence) for rate in USUAL]
    return {
        "auc": curve.auc,
        "accuracy": curve.accuracy,
        "advantage": curve.advantage,
        "members": len(curve.inside),
        "non_members": len(curve.outside),
        "tpr_at_fpr": [
            {"fpr": at.wanted, "tpr": at.tpr, "tpr_interval": list(at.tpr_interval), "fpr_interval": list(at.fpr_interval)} for at in rates
        ],
    }


def per_record_risk(scores: ArrayLike, inside: ArrayLike) -> NDArray[np.float64]:
    """For each record (column), how often a training with it scores higher than one without, ties half; NaN-free: 1/2 where unknown.

    `scores[i, j]` is record j's score under model i, and `inside[i, j]` says whether model i was trained on it.
    """
    values, members = np.asarray(scores, dtype=np.float64), np.asarray(inside, dtype=bool)
    if values.shape != members.shape or values.ndim != 2:
        raise ParameterError("scores and inside must be two tables of the same shape: models by records")
    return np.array([_risk(values[:, j], members[:, j]) for j in range(values.shape[1])])


def _risk(scores: NDArray[np.float64], members: NDArray[np.bool_]) -> float:
    return 0.5 if members.all() or not members.any() else roc(scores, members).auc


def per_group(scores: ArrayLike, bits: ArrayLike, groups: Sequence[Hashable]) -> dict[Hashable, Roc]:
    """The curve of each group that has members and non-members in the trial.

    >>> found = per_group([3, 1, 2, 2], [True, False, True, False], ["a", "a", "b", "b"])
    >>> {name: curve.auc for name, curve in found.items()}
    {'a': 1.0, 'b': 0.5}
    """
    values, members = np.asarray(scores, dtype=np.float64), np.asarray(bits, dtype=bool)
    if len(groups) != len(values):
        raise ParameterError("one group for each score is needed")
    found: dict[Hashable, Roc] = {}
    for name in dict.fromkeys(groups):
        mask = np.array([group == name for group in groups])
        if members[mask].any() and not members[mask].all():
            found[name] = roc(values[mask], members[mask])
    return found


def most_auc(epsilon: float, delta: float = 0.0) -> float:
    """The largest area under the curve that (epsilon, delta) permits.

    The curve is bounded by two lines which meet where the advantage is largest, a, so the area is at most (1 + a) / 2 when delta is 0; with
    delta the lines start at height delta and end that far before 1, and the area is that of the polygon below them.

    >>> round(most_auc(1), 6), round(most_auc(1, 0.1), 6)
    (0.731059, 0.782157)
    """
    if delta >= 1:
        return 1.0
    corner = (1 - delta) / (1 + math.exp(epsilon))  # the false positive rate where the lines meet
    height = 1 - corner
    rising = corner * (delta + height) / 2
    falling = (1 - delta - corner) * (height + 1) / 2
    return rising + falling + delta


def permitted(epsilon: float, delta: float = 0.0) -> dict[str, float]:
    """What a promise leaves to the best attack in the game of the worst case.

    >>> {name: round(value, 4) for name, value in permitted(1).items()}
    {'accuracy': 0.7311, 'advantage': 0.4621, 'auc': 0.7311}
    """
    figures = {"accuracy": most_accuracy, "advantage": most_advantage, "auc": most_auc}
    return {name: most(epsilon, delta) for name, most in figures.items()}
