"""From noisy integer sums to figures with intervals: post-processing only, so nothing here can leak.

Intervals cover the noise and the rounding with at least the confidence asked for. Sums of measures have exact intervals (Gaussian noise, or
one Laplace variable) or Chernoff's. The interval of a mean is Fieller's: all ratios r for which total - r count is compatible with its
noise, cut to the column's bounds. Variances and correlations combine such intervals, each with its part of the error. What clamping does to
values beyond their bounds is not in them: it is a property of the data, and would have to be paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from tacit.mechanisms import half_width
from tacit.tables.answer import Figures, Floats
from tacit.tables.plan import Linear, Plan, Recipe
from tacit.tables.ranks import quantile
from tacit.tables.split import Share


def figures(plan: Plan, sums: Sequence[Floats], confidence: float) -> Mapping[str, Figures]:
    """A column for every aggregate of the question; `sums` are the noisy sums in granules."""
    values = [np.asarray(row, dtype=float) * share.granule for share, row in zip(plan.shares, sums, strict=True)]
    maker = Maker(plan.shares, values)
    return {recipe.aggregate.name: maker.figure(recipe, confidence) for recipe in plan.recipes}


class Maker:
    """Figures of one set of noisy sums."""

    def __init__(self, shares: Sequence[Share], values: Sequence[Floats]) -> None:
        self.shares = shares
        self.values = values

    def figure(self, recipe: Recipe, confidence: float) -> Figures:
        """One column."""
        match recipe.kind:
            case "linear":
                value, wide = self.sum(recipe.value), self.half(recipe.value, confidence)
                return Figures(value, value - wide, value + wide)
            case "mean":
                bounds = recipe.intervals[0]
                found = self.ratio(recipe.value, recipe.count, float(bounds.half), confidence)
                centre, low, high = float(bounds.centre), float(bounds.lower), float(bounds.upper)
                return Figures(*(_between(centre + part, low, high) for part in (found.value, found.low, found.high)))
            case "quantile":
                assert recipe.cells is not None
                share = self.shares[recipe.cells]
                assert share.measure.ladder is not None
                return Figures(
                    *quantile(share.measure.ladder, self.values[recipe.cells], float(share.scale), share.law, float(recipe.q), confidence)
                )
            case "var" | "stddev":
                return self.variance(recipe, confidence)
        return self.pair(recipe, confidence)

    def sum(self, linear: Linear) -> Floats:
        """The value of a sum of measures."""
        (first, factor), *rest = linear
        found: Floats = factor * self.values[first]
        for index, factor in rest:
            found += factor * self.values[index]
        return found

    def half(self, linear: Linear, confidence: float) -> float:
        """How far the noise and the rounding take it, except with probability 1 - confidence."""
        weights = tuple(factor * self.shares[index].spread for index, factor in linear)
        return _half_width(weights, self.shares[linear[0][0]].law, confidence) + self._rounding(linear)

    def _rounding(self, linear: Linear) -> float:
        """The half granule of the noise's rounding. That of each row's value to the lattice is 2^-28 of its bounds, below what is shown."""
        return sum(abs(factor) * self.shares[index].granule / 2 for index, factor in linear)

    def ratio(self, total: Linear, count: Linear, bound: float, confidence: float) -> Figures:
        """total / count, known to lie between -bound and bound."""
        top, bottom = self.sum(total), self.sum(count)
        if self.shares[total[0][0]].law == "gaussian":
            wide_top, wide_bottom = self.half(total, confidence), self.half(count, confidence)
            square = bottom**2 - wide_bottom**2
            root = np.sqrt(np.maximum(wide_top**2 * square + wide_bottom**2 * top**2, 0.0))
            known = (square > 0) & (bottom > 0)
            under = np.where(known, square, 1.0)
            ends = (top * bottom - root) / under, (top * bottom + root) / under
        else:
            # Each part may use half of the error, so together they keep the confidence.
            part = (1 + confidence) / 2
            wide_top, wide_bottom = self.half(total, part), self.half(count, part)
            known = bottom > wide_bottom
            least = np.where(known, bottom - wide_bottom, 1.0)
            most = least + 2 * wide_bottom
            down, up = top - wide_top, top + wide_top
            ends = np.minimum(down / least, down / most), np.maximum(up / least, up / most)
        low = np.where(known, _between(ends[0], -bound, bound), -bound)
        high = np.where(known, _between(ends[1], -bound, bound), bound)
        return Figures(_between(_between(top / np.maximum(bottom, 1.0), -bound, bound), low, high), low, high)

    def variance(self, recipe: Recipe, confidence: float) -> Figures:
        """E[u^2] - E[u]^2 in units of the half range, times n / (n - 1) for a sample's."""
        half = float(recipe.intervals[0].half)
        each = 1 - (1 - confidence) / (3 if recipe.sample else 2)
        mean = _scaled(self.ratio(recipe.value, recipe.count, half, each), 1 / half)
        found = _spread(_shifted(self.ratio(recipe.squares[0], recipe.count, 0.5, each), 0.5), mean)
        found = _scaled(found, half**2)
        if recipe.sample:
            found = _times(found, self._bessel(recipe.count, each))
        return Figures(*(np.sqrt(part) for part in (found.value, found.low, found.high))) if recipe.kind == "stddev" else found

    def _bessel(self, count: Linear, confidence: float) -> Figures:
        """n / (n - 1) for n at least 2."""
        n, wide = self.sum(count), self.half(count, confidence)
        return Figures(*(np.maximum(m, 2.0) / (np.maximum(m, 2.0) - 1) for m in (n, n + wide, n - wide)))

    def pair(self, recipe: Recipe, confidence: float) -> Figures:
        """E[uv] - E[u] E[v] in units of the half ranges; divided by both deviations for a correlation."""
        halves = [float(interval.half) for interval in recipe.intervals]
        correlation = recipe.kind == "correlation"
        each = 1 - (1 - confidence) / (5 if correlation else 4 if recipe.sample else 3)
        first, second = (
            _scaled(self.ratio(total, recipe.count, half, each), 1 / half)
            for total, half in zip((recipe.value, recipe.other), halves, strict=True)
        )
        product, both = self.ratio(recipe.squares[0], recipe.count, 1.0, each), _times(first, second)
        found = Figures(product.value - both.value, product.low - both.high, product.high - both.low)
        if not correlation:
            found = _scaled(found, halves[0] * halves[1])
            return _times(found, self._bessel(recipe.count, each)) if recipe.sample else found
        spreads = [
            _spread(_shifted(self.ratio(square, recipe.count, 0.5, each), 0.5), mean)
            for square, mean in zip(recipe.squares[1:], (first, second), strict=True)
        ]
        both = _times(spreads[0], spreads[1])
        scale = Figures(np.sqrt(both.value), np.sqrt(both.low), np.sqrt(both.high))
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.array([a / b for a in (found.low, found.high) for b in (scale.low, scale.high)])
            value = np.nan_to_num(found.value / scale.value, nan=0.0, posinf=1.0, neginf=-1.0)
        known = scale.low > 0
        low, high = (np.where(known, np.clip(end, -1, 1), other) for end, other in ((ends.min(axis=0), -1.0), (ends.max(axis=0), 1.0)))
        return Figures(np.clip(np.clip(value, -1, 1), low, high), low, high)


@lru_cache(maxsize=512)
def _half_width(weights: tuple[float, ...], law: str, confidence: float) -> float:
    """The same noise is in every answer to a question that is asked again."""
    return float(half_width(weights, law, confidence)[0])


def _between(values: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """What numpy's clip does, in a fifth of the time for short arrays."""
    found: Floats = np.minimum(np.maximum(values, low), high)
    return found


def _scaled(found: Figures, factor: float) -> Figures:
    return Figures(found.value * factor, found.low * factor, found.high * factor)


def _shifted(found: Figures, by: float) -> Figures:
    return Figures(found.value + by, found.low + by, found.high + by)


def _times(first: Figures, second: Figures) -> Figures:
    """Products of two intervals."""
    ends = np.array([a * b for a in (first.low, first.high) for b in (second.low, second.high)])
    return Figures(first.value * second.value, ends.min(axis=0), ends.max(axis=0))


def _spread(square: Figures, mean: Figures) -> Figures:
    """E[u^2] - E[u]^2, never negative."""
    least = np.where((mean.low <= 0) & (mean.high >= 0), 0.0, np.minimum(mean.low**2, mean.high**2))
    most = np.maximum(mean.low**2, mean.high**2)
    low, high = np.maximum(square.low - most, 0.0), np.maximum(square.high - least, 0.0)
    return Figures(np.clip(square.value - mean.value**2, low, high), low, high)


def expected(plan: Plan, rows: int, confidence: float) -> dict[str, float]:
    """Half the width that each figure's interval will have in a group of so many rows spread evenly between their bounds."""
    values = []
    for share in plan.shares:
        measure = share.measure
        if measure.ladder is not None:
            ladder = measure.ladder
            counts = np.where(np.arange(ladder.cells) < ladder.used, rows / ladder.used, 0.0)[None, :]
            values.append(counts @ measure.ladder.encoder(share.law).T.astype(float))
        elif measure.over == "rows" and measure.name.startswith("squares"):
            values.append(np.array([rows * (1 / 3 - 1 / 2)]))
        elif measure.over == "rows" and (measure.signed or measure.branch == "null"):
            values.append(np.zeros(1))
        else:
            values.append(np.array([float(rows)]))
    maker = Maker(plan.shares, values)
    found = {}
    for recipe in plan.recipes:
        figure = maker.figure(recipe, confidence)
        found[recipe.aggregate.name] = float(figure.high[0] - figure.low[0]) / 2
    return found
