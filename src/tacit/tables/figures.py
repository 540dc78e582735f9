"""From the engine's integers to noisy ones, and from these to figures with intervals and with their bias.

`release` chooses the groups and lets the question's `NoisySums` add the noise; it is the only step that sees exact integers.
All that follows is post-processing of released numbers, so it cannot leak. Every declared group gets noise of its own, also
an empty one. Groups that were not declared are chosen by their selection rule before anything else is known of them.

**Intervals** cover the noise and the rounding with at least the confidence asked for. Sums of measures have exact
intervals (Gaussian noise, or one Laplace variable) or Chernoff's. The interval of a mean is Fieller's: all ratios r
for which total - r count is compatible with its noise, cut to the column's bounds. Variances and correlations combine
such intervals, each with its part of the error.

**Bias** is what caps and bounds take from the truth; it is said beside a figure as noise is. No interval holds rows that a
cap left out or values that a bound cut, because these are properties of the data. Two released numbers tell about them: the
share of rows that the caps left out, and how many values lay beyond their bounds. From these follow a range in which the
truth lies beside the figure, and the *total* interval: noise plus that range. What is assumed: every group lost about the
same share of its rows; few people have many times the cap (`past_reach`); lost rows may have any value between the bounds;
and values beyond their bounds are beyond by at most as much as the bounds are wide. This is an estimate, not a guarantee:
of privacy it takes nothing. A loss that the noise hides is not taken for none: the total interval then reaches as far as the
rows before the caps allow.

>>> counted = of_count(Figures(np.array([5166.0]), np.array([5092.0]), np.array([5240.0])), Lost(0.53, 0.52, 0.54))
>>> np.round(counted.high).tolist(), np.round(counted.sure).tolist()
([6383.0], [5825.0])
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import Note
from tacit.mechanisms import half_width
from tacit.tables.answer import Bias, Figures, Floats
from tacit.tables.engines.engine import DECIMAL, INT64
from tacit.tables.errors import WORDS
from tacit.tables.plan import Linear, Plan, Recipe
from tacit.tables.ranks import quantile
from tacit.tables.statement import GROUP, PEOPLE, ROW, SEEN, SEEN_HERE, key_name
from tacit.tables.statistics import Share, measure_name

#: How long a timestamp with six decimals is.
MICROSECONDS = len("2024-01-31 12:00:00.123456")
#: A loss that is nearly everything is taken for this share, so that what is divided by the rest stays finite.
MOST_LOST = 0.99


@dataclass(frozen=True)
class Exact:
    """The engine's integers: never released. One entry of `sums` for each measure: a number, or a line of cells, for each group."""

    groups: list[tuple[int, tuple[Any, ...]]]
    sums: list[NDArray[Any]]
    people: list[int]


@dataclass(frozen=True)
class Released:
    """Noisy sums in granules, and the groups they are about."""

    groups: list[tuple[Any, ...]]
    sums: tuple[NDArray[Any], ...]

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form, for a ledger that keeps answers."""
        return {"groups": [list(group) for group in self.groups], "sums": [_plain(row) for row in self.sums]}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Released:
        """The inverse of `to_record`."""
        return Released([tuple(group) for group in record["groups"]], tuple(np.array(row, dtype=object) for row in record["sums"]))


def _plain(row: NDArray[Any]) -> Any:
    return [[int(v) for v in line] if isinstance(line, np.ndarray) else int(line) for line in row]


def integers(table: pa.Table, plan: Plan) -> Exact:
    """The sums of every declared group, 0 where the engine saw no rows; of every group that occurs where keys are private."""
    cells = [measure_name(i) for i, m in enumerate(plan.wanted.measures) if m.over == "cells"]
    first, count = plan.keys.first, plan.keys.count
    names = _names(table, plan) if plan.keys.private or cells else []
    ladders = {name: table.column(name).to_pylist() for name in cells}
    base = list(range(table.num_rows))
    if cells:
        base = [line for line in base if all(ladders[cell][line] is None for cell in cells)]
    groups: list[tuple[int, tuple[Any, ...]]] = [(number, ()) for number in range(count)]
    if plan.keys.private:
        # In an order of their own: the engine's says which rows it met first, and differs from run to run.
        found_keys = {names[line] for line in base if None not in names[line][1]}
        groups = sorted(found_keys, key=lambda group: (group[0], tuple(sortable(value) for value in group[1])))
    known = {group: place for place, group in enumerate(groups)} if names else {}
    if names:
        # Of which group which line tells.
        inside = [(known[names[line]], line) for line in base if names[line] in known]
        places, lines = np.array(inside, dtype=np.int64).reshape(-1, 2).T
    elif GROUP in table.column_names:
        numbers = _whole(table.column(GROUP))
        lines = ((numbers >= first) & (numbers < first + count)).nonzero()[0]
        places = (numbers[lines] - first).astype(np.int64)
    else:
        lines = np.arange(table.num_rows)
        places = np.zeros_like(lines)

    def by_group(name: str) -> NDArray[Any]:
        column = _whole(table.column(name))
        found = np.zeros(len(groups), dtype=column.dtype)
        np.add.at(found, places, column[lines])  # were two lines of one group, neither may take the other's place
        return found

    sums: list[NDArray[Any]] = []
    for index, measure in enumerate(plan.wanted.measures):
        if measure.over == "seen":
            # Told once, the same on every line; or on the lines of those who were counted.
            told = _whole(table.column(SEEN))[:1] if SEEN in table.column_names else _whole(table.column(SEEN_HERE))[base]
            found = np.array([sum(told.tolist())], dtype=object)
        elif measure.over == "kept":
            found = np.array([sum(_whole(table.column(measure_name(index)))[base].tolist())], dtype=object)
        elif measure.over == "cells":
            assert measure.ladder is not None
            found = np.zeros((len(groups), measure.ladder.cells), dtype=np.int64)
            column, rows = ladders[measure_name(index)], _whole(table.column(ROW))
            for line, cell in enumerate(column):
                if cell is not None and cell >= 0 and names[line] in known:
                    found[known[names[line]], int(cell)] += int(rows[line])
        else:
            found = by_group(measure_name(index))
        sums.append(found)
    return Exact(groups, sums, by_group(PEOPLE).tolist() if plan.wanted.people else [0] * len(groups))


def _names(table: pa.Table, plan: Plan) -> list[tuple[int, tuple[Any, ...]]]:
    """Which group each line is about: the number of its declared keys, and its private ones."""
    numbers = _whole(table.column(GROUP)).tolist() if GROUP in table.column_names else [plan.keys.first] * table.num_rows
    found: list[tuple[int, tuple[Any, ...]]] = [(number - plan.keys.first, ()) for number in numbers]
    if plan.keys.private:
        from tacit.mechanisms import plain_key

        private = [_handed_over(table.column(key_name(i)).to_pylist(), plan.keys.keys[i].digits) for i in plan.keys.private]
        found = [(number, tuple(plain_key(_shortest(column[line])) for column in private)) for line, (number, _) in enumerate(found)]
    return found


def _handed_over(values: list[Any], digits: str) -> list[Any]:
    """Keys that came as texts: a number, and a timestamp, or the text itself where it has more decimals than Python's."""
    if digits == "decimal":
        return [None if value is None else Decimal(value) for value in values]
    if digits == "timestamp":
        return [value if value is None or len(value) > MICROSECONDS else datetime.datetime.fromisoformat(value) for value in values]
    return values


def _shortest(value: Any) -> Any:
    """1.5 and 1.50 are one key, and which of them is handed over may depend on where the rows lie: a decimal without zeros at its end."""
    if not isinstance(value, Decimal):
        return value
    text = format(value, "f")
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


def _whole(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of whole numbers, 0 where there is none; those of 64 bits, and the decimals that sums come as, are read from memory.

    pyarrow's own ways are slower: `to_pylist` makes an object of every number first, `to_numpy` imports pandas, a cast all of
    `pyarrow.compute`.
    """
    found: list[NDArray[Any]] = []
    for chunk in column.chunks:
        words = 1 if chunk.type == INT64 else 2 if chunk.type == DECIMAL else 0
        if not words or not len(chunk) or chunk.null_count or sys.byteorder != "little":
            found.append(np.array([int(value or 0) for value in chunk.to_pylist()], dtype=object))
            continue
        start, end = words * chunk.offset, words * (chunk.offset + len(chunk))
        numbers = np.frombuffer(chunk.buffers()[1], dtype=np.int64)[start:end]
        if words == 2:
            low, high = numbers[0::2], numbers[1::2]
            fits = bool((high == low >> 63).all())  # the upper half repeats the sign: nothing but the lower one is needed
            numbers = low if fits else 2**64 * high.astype(object) + low.view(np.uint64).astype(object)
        found.append(numbers)
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, dtype=object), *found])


def sortable(value: Any) -> tuple[int, Any]:
    """Numbers by their value, then days and moments, then texts: no mixture of keys can fail to be ordered."""
    if isinstance(value, (bool, int, float, Decimal)):
        return (0, value) if value == value else (1, "")
    # Written with the year first; a moment behind the day it is in.
    return (2, value.isoformat()) if isinstance(value, datetime.date) else (3, str(value))


def release(exact: Exact, plan: Plan) -> Released:
    """Choose the groups where they are private, then add noise to everything that is left."""
    groups, rows = exact.groups, [np.asarray(row) for row in exact.sums]
    if plan.selection is not None:
        full = plan.keys.groups([number for number, _ in groups], [values for _, values in groups])
        order = {name: place for place, name in enumerate(full)}
        chosen = [order[name] for name in plan.selection.choose(full, exact.people)]
        rows = [row if m.over in ("seen", "kept") else row[chosen] for row, m in zip(rows, plan.wanted.measures, strict=True)]
        noisy = [plan.split.noise.add(row, block) for block, row in enumerate(rows)]
        # The rule names those it chose in an order of its own, that of their texts.
        shown = sorted(range(len(chosen)), key=lambda place: [sortable(value) for value in full[chosen[place]]])
        noisy = [row if m.over in ("seen", "kept") else row[shown] for row, m in zip(noisy, plan.wanted.measures, strict=True)]
        return Released([full[chosen[place]] for place in shown], tuple(noisy))
    return Released(list(plan.keys.listed), tuple(plan.split.noise.add(row, block) for block, row in enumerate(rows)))


def rows_lost(plan: Plan, released: Released, confidence: float) -> Lost | None:
    """The share of rows that the caps left out, by what was released for it, and what people with very many rows may add to it; None where
    it was not measured.
    """
    if plan.loss is None:
        return None
    return past_reach(_measured_loss(plan, released, confidence), plan.loss.most / max(plan.unit.most_rows, 1))


def _measured_loss(plan: Plan, released: Released, confidence: float) -> Lost:
    """The share of rows that the caps left out, of those that were counted: of one person, at most `plan.loss.most`."""
    assert plan.loss is not None
    part = (1 + confidence) / 2
    before, after = float(released.sums[plan.loss.seen][0]), float(np.sum(released.sums[plan.loss.kept]))
    wide_before, wide_after = _wide(plan, released, part)
    ends = ((after - wide_after) / max(before + wide_before, 1.0), _most(after + wide_after, before - wide_before))
    least, most = (max(0.0, min(1.0, share)) for share in ends)
    value = max(least, min(most, after / max(before, 1.0)))
    return Lost(1 - value, 1 - most, 1 - least, max(before + wide_before, 0.0))


def _wide(plan: Plan, released: Released, part: float) -> tuple[float, float]:
    """How far the noise takes the rows before the caps, and those after them."""
    assert plan.loss is not None
    seen, kept = plan.shares[plan.loss.seen], plan.shares[plan.loss.kept]
    many = np.full(len(released.sums[plan.loss.kept]), kept.spread)
    return float(half_width([seen.spread], seen.law, part)[0]), float(half_width(many, kept.law, part)[0])


def loss_note(plan: Plan, released: Released, confidence: float) -> str | None:
    """What share of the rows the caps left out, with its interval, in a sentence. It is measured and paid for, or declared, never free."""
    if plan.loss is None:
        named = plan.unit.capped and plan.unit.noun != "row"
        return "rows lost to the caps: none; that the data obey the caps was declared" if named else None
    found = _measured_loss(plan, released, confidence)
    if not found.known:
        seen, kept = plan.shares[plan.loss.seen], plan.shares[plan.loss.kept]
        paid = float(seen.part) + (float(kept.part) if kept.measure.over == "kept" else 0.0)
        return Note.of(WORDS, "loss-unknown", noise=sum(_wide(plan, released, (1 + confidence) / 2)), share=paid)
    return (
        f"rows lost to the caps: about {found.share:.0%} ({confidence:.0%} interval {found.low:.0%} to {found.high:.0%}), "
        f"counting at most {plan.loss.most} rows of one {plan.unit.noun}: where one has more, more are lost"
    )


def loss_told(plan: Plan, released: Released, confidence: float, also: Lost | None) -> tuple[Lost | None, str | None]:
    """What is known of the rows that the caps left out, and the note on it. `also` is an estimate made in another way."""
    note = loss_note(plan, released, confidence)
    missing = both_ways(rows_lost(plan, released, confidence), also)
    if plan.loss is not None and missing is not None and missing.known and not _measured_loss(plan, released, confidence).known:
        note = (
            f"rows lost to the caps: about {missing.share:.0%} ({missing.low:.0%} to {missing.high:.0%}), by the number of rows that is "
            "declared or by another table of the same rows; this table's own measurement is too noisy to tell"
        )
    return missing, note


def _most(after: float, before: float) -> float:
    return after / before if before > 0 else 1.0


def selection_notes(plan: Plan) -> list[str]:
    """What a plain query would show and a private selection does not: small groups, and rows without a key. It is public."""
    if plan.selection is None:
        return []
    names = ", ".join(plan.question.keys[place].name for place in plan.keys.private)
    return [
        f"groups by {names} were selected privately: one of {plan.selection.people_needed} people appears with an even chance, and rows "
        "where it is NULL are in none; COALESCE gives them a group, and declared keys=... show every group"
    ]


def figures(plan: Plan, sums: Sequence[Floats], confidence: float, copies: int = 1) -> Mapping[str, Figures]:
    """A column for every aggregate of the question; `sums` are the noisy sums in granules, each of so many groups' noise."""
    values = [np.asarray(row, dtype=float) * share.granule for share, row in zip(plan.shares, sums, strict=True)]
    maker = Maker(plan.shares, values, copies)
    return {recipe.aggregate.name: maker.figure(recipe, confidence) for recipe in plan.recipes}


def keys_of(plan: Plan, released: Released) -> dict[str, list[Any]]:
    """The keys of the released groups, by name."""
    return {key.name: [group[i] for group in released.groups] for i, key in enumerate(plan.question.keys)}


def with_bias(
    plan: Plan, sums: Sequence[Floats], found: Mapping[str, Figures], missing: Lost | None, confidence: float
) -> dict[str, Figures]:
    """Figures with the bias of each that an estimate is known for."""
    known = biases(plan, sums, found, missing, confidence)
    return {name: replace(figure, bias=known.get(name)) for name, figure in found.items()}


class Maker:
    """Figures of one set of noisy sums."""

    def __init__(self, shares: Sequence[Share], values: Sequence[Floats], copies: int = 1) -> None:
        self.shares = shares
        self.values = values
        self.copies = copies

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
        weights = tuple(factor * self.shares[index].spread for index, factor in linear) * self.copies
        return _half_width(weights, self.shares[linear[0][0]].law, confidence) + self._rounding(linear)

    def _rounding(self, linear: Linear) -> float:
        """The half granule of the noise's rounding. That of each row's value to the lattice is 2^-28 of its bounds, below what is shown."""
        return self.copies * sum(abs(factor) * self.shares[index].granule / 2 for index, factor in linear)

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


# --- bias ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lost:
    """The share of rows that something took, as it was released: the estimate, and an interval that holds it
    with the confidence. `rows` is how many rows there are at most, before anything was taken.
    """

    share: float
    low: float
    high: float
    rows: float = math.inf

    @property
    def known(self) -> bool:
        """Whether the noise leaves anything to be said."""
        return self.high - self.low <= 0.9


NOTHING = Lost(0.0, 0.0, 0.0)


def past_reach(lost: Lost, reach: float) -> Lost:
    """A loss whose upper end allows for people with more rows than were counted of them, `reach` times the cap.

    What the caps cut is E[(X - cap)+] for X rows of one person, and what was counted of it ends at `reach` caps. Under a tail of Pareto's
    law with index 2, which has no variance and is heavier than those of most tables, a part 1 / reach of it lies beyond, so the
    counted part is multiplied by reach / (reach - 1).

    >>> past_reach(Lost(0.5, 0.4, 0.6, rows=100.0), 4)
    Lost(share=0.5, low=0.4, high=0.6666666666666666, rows=120.0)
    """
    if reach <= 1:
        return lost
    more = 1 + lost.high / (reach - 1)
    return Lost(lost.share, lost.low, 1 - (1 - lost.high) / more, lost.rows * more)


def both_ways(measured: Lost | None, declared: Lost | None) -> Lost | None:
    """One estimate of two: what both intervals allow; where they exclude each other, the larger loss, because
    a measured one does not see people with very many rows.

    >>> both_ways(Lost(0.1, 0.0, 0.3, rows=900), Lost(0.05, 0.0, 0.15))
    Lost(share=0.1, low=0.0, high=0.15, rows=900)
    """
    if measured is None or declared is None:
        return declared if measured is None else measured
    low, high = max(measured.low, declared.low), min(measured.high, declared.high)
    if low > high:
        return max(measured, declared, key=lambda lost: lost.share)
    return Lost(min(high, max(low, measured.share)), low, high, min(measured.rows, declared.rows))


def of_count(
    found: Figures, lost: Lost, *, upwards: bool = True, rows: Floats | None = None, heaped: int = 1, each: float = 1.0
) -> Bias:
    """What is missing from a count, or from a sum of values of one sign: a share of the rows is, so about as much of the sum.

    Which rows the caps keep is chosen at random, so that a group may lose more than its share: by two deviations of a
    binomial draw of its `rows`, of which as many as are `heaped` in one unit are kept or lost together. No group has more than
    all rows that there are, with at most `each` in a row.
    """
    most, about = min(lost.high, MOST_LOST), min(lost.share, MOST_LOST) if lost.low > 0 else 0.0
    end = np.maximum(found.high if upwards else -found.low, 0.0)
    many = np.maximum(end if rows is None else rows, 1.0)
    chance = 2 * np.sqrt(most * heaped / many)
    size = end * (most + np.where(most > 0, chance, 0.0)) / (1 - most)
    size = np.minimum(size, np.maximum(lost.rows * each - end, 0.0))
    sure = np.maximum(found.value if upwards else -found.value, 0.0) * about / (1 - about)
    nothing = np.zeros_like(found.value)
    return Bias(nothing, size, sure) if upwards else Bias(-size, nothing, sure)


def of_mean(found: Figures, lost: Lost, low: float, high: float) -> Bias:
    """A mean of what the caps left: that of all rows lies between it and what the lost rows, whatever they
    were, would make of it.
    """
    share = min(lost.high, 1.0)
    nothing = np.zeros_like(found.value)
    return Bias(
        np.minimum(share * (low - found.high), 0.0), np.maximum(share * (high - found.low), 0.0), nothing
    )


def of_bounds(rows: Floats | float, beyond: Lost, width: float) -> Bias:
    """What values beyond the bounds add or take, if each is beyond by as much as the bounds are wide; surely,
    none at all.
    """
    size = np.asarray(beyond.high * width * np.maximum(rows, 0.0), dtype=np.float64)
    typical = np.asarray(beyond.low * width / 2 * np.maximum(rows, 0.0), dtype=np.float64)
    return Bias(-size, size, typical)


def biases(
    plan: Plan, sums: Sequence[Floats], found: Mapping[str, Figures], lost: Lost | None, confidence: float
) -> dict[str, Bias]:
    """The bias of every figure that an estimate is known for. `sums` are the noisy sums in granules."""
    values = [
        np.asarray(row, dtype=float) * share.granule for share, row in zip(plan.shares, sums, strict=True)
    ]
    groups = len(next(iter(found.values())).value) if found else 0
    made: dict[str, Bias] = {}
    for recipe in plan.recipes:
        name = recipe.aggregate.name
        if name in found:
            bias = _by_caps(recipe, plan, found[name], NOTHING if lost is None else lost, values)
            if bias is not None:
                made[name] = _by_bounds(plan, recipe, bias, values, groups, confidence)
    return made


def _by_caps(recipe: Recipe, plan: Plan, found: Figures, lost: Lost, values: Sequence[Floats]) -> Bias | None:
    """What the caps take from one figure."""
    kind = recipe.aggregate.kind
    grouped = bool(plan.question.keys)
    heaped = plan.unit.spread(grouped)[1]
    if kind == "count_person" and not grouped:
        lost = NOTHING  # whoever has a row has one left
    if kind in ("count", "count_value", "count_person"):
        return of_count(found, lost, heaped=heaped)
    if not recipe.intervals:
        return None
    low, high = float(recipe.intervals[0].lower), float(recipe.intervals[0].upper)
    if kind == "sum" and (low >= 0 or high <= 0):
        # Values differ, so that a sum varies more than a count; twice the rows together allow for it.
        each = max(abs(low), abs(high))
        return of_count(found, lost, upwards=low >= 0, rows=_rows_in(plan, recipe, values), heaped=2 * heaped, each=each)
    if kind == "avg":
        return of_mean(found, lost, low, high)
    if recipe.kind == "quantile":
        wide = min(1.0, 10 * lost.high)
        nothing = np.zeros_like(found.value)
        return Bias(
            np.minimum(wide * (low - found.high), 0.0), np.maximum(wide * (high - found.low), 0.0), nothing
        )
    return None


def _by_bounds(
    plan: Plan, recipe: Recipe, bias: Bias, values: Sequence[Floats], groups: int, confidence: float
) -> Bias:
    """The same with what lies beyond the bounds, where that was counted."""
    place = dict(plan.beyond).get(recipe.aggregate.name)
    if place is None:
        return bias
    share = plan.shares[place]
    counted, wide = float(np.sum(values[place])), float(half_width([share.spread], share.law, confidence)[0])
    rows = _rows_in(plan, recipe, values)
    whole = max(float(np.sum(rows)), 1.0)
    ends = [min(1.0, max(0.0, end / whole)) for end in (counted, counted - wide, counted + wide)]
    width = float(recipe.intervals[0].upper - recipe.intervals[0].lower)
    per = rows if recipe.aggregate.kind == "sum" else np.ones(groups)
    other = of_bounds(per, Lost(*ends), width)
    return Bias(
        bias.low + other.low, bias.high + other.high, np.maximum(bias.sure, other.sure), bias.why + other.why
    )


def _rows_in(plan: Plan, recipe: Recipe, values: Sequence[Floats]) -> Floats:
    """About how many rows each group has: by a count that was asked for, or an even part of the rows that the
    caps left.
    """
    count: Linear = recipe.count
    if not count:
        rows = next((i for i, share in enumerate(plan.shares) if share.measure.name == "rows"), None)
        count = () if rows is None else ((rows, 1.0),)
    if count:
        found = np.zeros_like(values[count[0][0]])
        for index, factor in count:
            found = found + factor * values[index]
        return np.maximum(found, 0.0)
    kept = float(np.sum(values[plan.loss.kept])) if plan.loss is not None else 0.0
    groups = plan.keys.count if plan.keys.lists else 1
    return np.full(groups, max(kept, 0.0) / max(groups, 1))
