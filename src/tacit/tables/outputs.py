"""The columns a question shows, and HAVING, ORDER BY and LIMIT: all of it computed from released figures, so it costs nothing.

An expression of several figures has the interval that interval arithmetic gives, each figure's error being shared out (Bonferroni),
so that the confidence still holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sqlglot import exp

from tacit.accounting import cost_of
from tacit.exact import at_most
from tacit.tables.answer import Answer, Figures, Noise
from tacit.tables.figures import figures
from tacit.tables.intervals import interval
from tacit.tables.plan import Plan
from tacit.tables.question import evaluate
from tacit.tables.released import Released, loss_note


def columns(plan: Plan, released: Released, confidence: float) -> tuple[dict[str, list[Any]], dict[str, Figures]]:
    """Keys and figures as the question wants to see them."""
    question = plan.question
    keys = {key.name: [group[i] for group in released.groups] for i, key in enumerate(question.keys)}
    found = dict(figures(plan, released.sums, confidence))
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
            surer = figures(plan, released.sums, 1 - (1 - confidence) / len(names & set(found)))
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
        ends = interval(tree, {name: (float(f.low[place]), float(f.high[place])) for name, f in surer.items()})
        low, high = (-np.inf, np.inf) if ends is None else (float(ends.lower), float(ends.upper))
        parts[:, place] = number, min(low, number), max(high, number)
    return Figures(*parts)


def lines(plan: Plan, released: Released, keys: Mapping[str, Sequence[Any]], shown: Mapping[str, Figures]) -> list[int] | None:
    """Which lines are shown, in which order; None where the question does not say."""
    question = plan.question
    if question.having is None and not question.order and question.limit is None and not question.offset:
        return None
    all_keys = {key.name: [group[i] for group in released.groups] for i, key in enumerate(question.keys)}
    base = figures(plan, released.sums, 0.95)
    rows = [_line({**all_keys, **keys}, {**shown, **base}, i) for i in range(len(released.groups))]
    places = [i for i, row in enumerate(rows) if question.having is None or evaluate(question.having, row) is True]
    for term in reversed(question.order):
        values = {i: evaluate(term.value, rows[i]) for i in places}
        present = sorted((i for i in places if values[i] is not None), key=lambda i: _sortable(values[i]), reverse=term.descending)
        missing = [i for i in places if values[i] is None]
        places = [*missing, *present] if term.nulls_first else [*present, *missing]
    places = places[question.offset :]
    return places if question.limit is None else places[: question.limit]


def _sortable(value: Any) -> tuple[int, Any]:
    """Numbers before texts, so that no mixture of keys can fail to be ordered."""
    return (0, float(value)) if isinstance(value, (bool, int, float)) else (1, str(value))


def selection_notes(plan: Plan) -> list[str]:
    """What a plain query would show and a private selection does not: small groups, and rows without a key. It is public."""
    if plan.selection is None:
        return []
    names = ", ".join(plan.question.keys[place].name for place in plan.keys.private)
    return [
        f"groups by {names} were selected privately: one of {plan.selection.people_needed} people appears with an even chance, and rows "
        "where it is NULL are in none; COALESCE gives them a group, and declared keys=... show every group"
    ]


def answer_of(
    plan: Plan,
    released: Released,
    *,
    delta: Fraction,
    confidence: float,
    private: bool,
    entry: int | None,
    statement: str = "",
    notes: tuple[str, ...] = (),
) -> Answer:
    """What a draw amounts to: figures, noise, price (told at `delta`) and notes. Post-processing only."""
    note = loss_note(plan, released, confidence)
    keys, shown = columns(plan, released, confidence)
    found = Answer(
        keys=keys,
        figures=shown,
        raw={share.measure.name: row.tolist() for share, row in zip(plan.shares, released.sums, strict=True)},
        noise=tuple(Noise(share.measure.name, share.law, share.deviation) for share in plan.shares),
        event=plan.event,
        adjacency=plan.unit.adjacency,
        cost=cost_of(plan.event, plan.unit.adjacency, at_most(delta)),
        delta=float(delta),
        confidence=confidence,
        private=private,
        notes=(*notes, *plan.notes, *selection_notes(plan), *([note] if note else [])),
        entry=entry,
        statement=statement,
        bins={key.name: key.ends for key in plan.question.keys if key.ends},
    )
    places = lines(plan, released, keys, shown)
    return found if places is None else found.taken(places)
