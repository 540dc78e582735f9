"""The lines of an answer as the question asks for them: sub-totals, window functions, columns computed of others, HAVING, ORDER BY, LIMIT.

All of it is computed from released figures, for nothing. What is computed of several figures keeps the confidence: each of them is
taken with an interval that is wide enough for all of them to hold together. A question that shows its groups and figures as they
were released needs nothing from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from tacit.tables.answer import Bias, Figures, Floats
from tacit.tables.figures import Lost, Released, biases, figures, keys_of, sortable
from tacit.tables.plan import Plan, derived
from tacit.tables.question import evaluate


@dataclass(frozen=True)
class Levelled(Released):
    """Released groups with sub-totals behind them: how many lines each level has, and of how many groups' noise a line is."""

    blocks: tuple[tuple[int, int], ...] = ()


def levelled(plan: Plan, released: Released) -> Released:
    """The released groups and, behind them, the sub-totals of ROLLUP and CUBE, added up from them: post-processing, for nothing."""
    if not plan.question.levels:
        return released
    names = [key.name for key in plan.question.keys]
    groups, parts, blocks = list(released.groups), [[np.asarray(row) for row in released.sums]], [(len(released.groups), 1)]
    for level in plan.question.levels:
        totals: dict[tuple[Any, ...], list[int]] = {}
        for place, group in enumerate(released.groups):
            totals.setdefault(tuple(v if n in level else None for n, v in zip(names, group, strict=True)), []).append(place)
        if not totals:
            continue
        parts.append([
            row if measure.over in ("seen", "kept") else np.array([row[places].sum() for places in totals.values()], dtype=object)
            for row, measure in zip(parts[0], plan.wanted.measures, strict=True)
        ])  # fmt: skip
        groups += list(totals)
        blocks.append((len(totals), max(map(len, totals.values()))))
    sums = tuple(
        column[0] if measure.over in ("seen", "kept") else np.concatenate([np.asarray(part, dtype=object) for part in column])
        for column, measure in zip(zip(*parts, strict=True), plan.wanted.measures, strict=True)
    )
    return Levelled(groups, sums, tuple(blocks))


def figured(plan: Plan, released: Released, confidence: float) -> dict[str, Figures]:
    """The figures of all lines, sub-totals with the noise of all that was added up, and window functions over the lines."""
    if not isinstance(released, Levelled):
        found = dict(figures(plan, released.sums, confidence))
    else:
        blocks, start = [], 0
        for lines_of, copies in released.blocks:
            part = [
                row if m.over in ("seen", "kept") else row[start : start + lines_of]
                for row, m in zip(released.sums, plan.wanted.measures, strict=True)
            ]
            blocks.append(figures(plan, part, confidence, copies))
            start += lines_of
        found = {
            name: Figures(*(np.concatenate([getattr(block[name], end) for block in blocks]) for end in ("value", "low", "high")))
            for name in blocks[0]
        }
    if plan.question.windows:
        keys = keys_of(plan, released)
        # Each figure of a line may be wrong by itself, so that all of them are right together.
        together = max(1, len(released.groups)) * max(1, len(plan.recipes))
        surer = dict(figures(plan, released.sums, 1 - (1 - confidence) / together)) if not isinstance(released, Levelled) else found
        for name, window in plan.question.windows:
            found[name] = windowed(window, keys, found, surer)
    return found


def windowed(
    window: exp.Window, keys: Mapping[str, Sequence[Any]], found: Mapping[str, Figures], surer: Mapping[str, Figures]
) -> Figures:
    """A window function over released lines, with ends that hold for all lines together."""
    count = len(next(iter(found.values())).value)
    rows = [_line(keys, found, place) for place in range(count)]
    ends = [
        [{**row, **{n: float(getattr(f, end)[place]) for n, f in surer.items()}} for place, row in enumerate(rows)]
        for end in ("low", "high")
    ]
    order = window.args.get("order")
    terms = order.expressions if order is not None else []
    parts: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(rows):
        parts.setdefault(tuple(evaluate(part, row) for part in window.args.get("partition_by") or []), []).append(place)
    made = np.full((3, count), np.nan)
    for places in parts.values():
        for term in reversed(terms):
            at = {place: _ranked(evaluate(term.this, rows[place])) for place in places}
            places.sort(key=at.__getitem__, reverse=bool(term.args.get("desc")))
        for end, lines_of in enumerate((rows, *ends)):
            for place, value in zip(places, _over(window.this, terms, places, lines_of, rows), strict=True):
                made[end, place] = np.nan if value is None else float(value)
        if isinstance(window.this, (exp.Rank, exp.DenseRank, exp.RowNumber)) and terms:
            _rank_ends(made, places, terms[0], ends)
    low, high = np.fmin(made[1], made[2]), np.fmax(made[1], made[2])
    return Figures(made[0], np.fmin(low, made[0]), np.fmax(high, made[0]))


def _ranked(value: Any) -> tuple[int, Any]:
    return (1, (0, 0)) if value is None else (0, sortable(value))


def _over(
    function: exp.Expression, terms: Sequence[exp.Expression], places: Sequence[int], lines_of: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
) -> list[Any]:
    """The value of a window function on each line of one part, in its order; running where there is an order."""
    tied = [[evaluate(term.this, rows[place]) for term in terms] for place in places]
    if isinstance(function, exp.RowNumber):
        return list(range(1, len(places) + 1))
    if isinstance(function, (exp.Rank, exp.DenseRank)):
        ranks: list[int] = []
        for at, value in enumerate(tied):
            same = at > 0 and value == tied[at - 1]
            dense = isinstance(function, exp.DenseRank)
            ranks.append(ranks[-1] if same else (ranks[-1] + 1 if dense and ranks else at + 1 if not dense else 1))
        return ranks
    star = isinstance(function.this, exp.Star) or function.this is None
    values = [1.0 if star else evaluate(function.this, lines_of[place]) for place in places]
    if isinstance(function, (exp.Lag, exp.Lead)):
        offset = function.args.get("offset")
        steps = int(offset.this) if isinstance(offset, exp.Literal) and offset.this.isdigit() else 1
        shift = -steps if isinstance(function, exp.Lag) else steps
        return [values[at + shift] if 0 <= at + shift < len(values) else None for at in range(len(values))]
    found: list[Any] = []
    for at, value in enumerate(tied):
        last = max(place for place, other in enumerate(tied) if other == value) if terms else len(values) - 1
        seen = [v for v in values[: max(at, last) + 1] if v is not None]
        match function:
            case exp.Count():
                found.append(float(len(seen)))
            case exp.Sum():
                found.append(sum(seen) if seen else None)
            case exp.Avg():
                found.append(sum(seen) / len(seen) if seen else None)
            case exp.Min():
                found.append(min(seen, default=None))
            case _:
                found.append(max(seen, default=None))
    return found


def _rank_ends(made: Floats, places: Sequence[int], term: exp.Expression, ends: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """The first and last place that a line can have, given that every figure lies between its ends."""
    low, high = ([evaluate(term.this, lines_of[place]) for place in places] for lines_of in ends)
    if not all(isinstance(value, (int, float)) for value in (*low, *high)):
        return
    lows, highs = (np.array([low, high]) if not term.args.get("desc") else -np.array([high, low])).tolist()
    for at, place in enumerate(places):
        others = [i for i in range(len(places)) if i != at]
        made[1, place] = 1 + sum(highs[i] < lows[at] for i in others)
        made[2, place] = 1 + sum(lows[i] <= highs[at] for i in others)


def columns(plan: Plan, released: Released, confidence: float) -> tuple[dict[str, list[Any]], dict[str, Figures]]:
    """Keys and figures as the question wants to see them."""
    question = plan.question
    keys = keys_of(plan, released)
    found = dict(figured(plan, released, confidence))
    if not question.outputs:
        return keys, found
    shown_keys: dict[str, list[Any]] = {}
    shown: dict[str, Figures] = {}
    for output in question.outputs:
        if isinstance(output.value, exp.Column) and output.value.name in keys:
            shown_keys[output.name] = keys[output.value.name]
            continue
        if isinstance(output.value, exp.Column) and output.value.name in found:
            shown[output.name] = found[output.value.name]
            continue
        names = {node.name for node in output.value.find_all(exp.Column)}
        if names & set(found):
            surer = figured(plan, released, 1 - (1 - confidence) / len(names & set(found)))
            shown[output.name] = _computed(output.value, keys, found, surer)
        else:
            shown_keys[output.name] = [evaluate(output.value, _line(keys, {}, i)) for i in range(len(released.groups))]
    return shown_keys, shown


def _line(keys: Mapping[str, Sequence[Any]], found: Mapping[str, Figures], place: int) -> dict[str, Any]:
    return {**{n: values[place] for n, values in keys.items()}, **{n: float(f.value[place]) for n, f in found.items()}}


def _computed(
    tree: exp.Expression, keys: Mapping[str, Sequence[Any]], found: Mapping[str, Figures], surer: Mapping[str, Figures]
) -> Figures:
    count = len(next(iter(found.values())).value)
    parts = np.empty((3, count))
    for place in range(count):
        value = evaluate(tree, _line(keys, found, place))
        number = float(value) if isinstance(value, (int, float)) else float("nan")
        ends = derived(tree, {name: (float(f.low[place]), float(f.high[place])) for name, f in surer.items()})
        low, high = (-np.inf, np.inf) if ends is None else (float(ends.lower), float(ends.upper))
        parts[:, place] = number, min(low, number), max(high, number)
    return Figures(*parts)


def lines(plan: Plan, released: Released, keys: Mapping[str, Sequence[Any]], shown: Mapping[str, Figures]) -> list[int] | None:
    """Which lines are shown, in which order; None where the question does not say."""
    question = plan.question
    if question.having is None and not question.order and question.limit is None and not question.offset:
        return None
    all_keys = keys_of(plan, released)
    base = figured(plan, released, 0.95)
    rows = [_line({**all_keys, **keys}, {**shown, **base}, i) for i in range(len(released.groups))]
    places = [i for i, row in enumerate(rows) if question.having is None or evaluate(question.having, row) is True]
    for term in reversed(question.order):
        values = {i: evaluate(term.value, rows[i]) for i in places}
        present = sorted((i for i in places if values[i] is not None), key=lambda i: sortable(values[i]), reverse=term.descending)
        missing = [i for i in places if values[i] is None]
        places = [*missing, *present] if term.nulls_first else [*present, *missing]
    places = places[question.offset :]
    return places if question.limit is None else places[: question.limit]


def _bias_of(plan: Plan, shown: str, known: Mapping[str, Bias]) -> Bias | None:
    """The bias of a column: its own, or that of the figure that it shows under another name. What is computed of several has none."""
    for output in plan.question.outputs:
        if output.name == shown:
            return known.get(output.value.name) if isinstance(output.value, exp.Column) else None
    return known.get(shown)


def arranged(
    plan: Plan, released: Released, missing: Lost | None, confidence: float
) -> tuple[Released, dict[str, list[Any]], dict[str, Figures], list[int] | None]:
    """What was released with its sub-totals, its keys and figures as the question wants to see them, and which lines are shown."""
    released = levelled(plan, released)
    keys, found = columns(plan, released, confidence)
    known = biases(plan, released.sums, figures(plan, released.sums, confidence), missing, confidence)
    shown = {name: replace(figure, bias=_bias_of(plan, name, known)) for name, figure in found.items()}
    return released, keys, shown, lines(plan, released, keys, shown)
