"""Histograms: how many rows lie in each of some public bins, as one measurement.

A row is in one bin or in none, so all bins together move by no more than one count does: a histogram of a hundred bins costs what one count
costs. HISTOGRAM(age, 0, 18, 65, 110) has the bins [0, 18), [18, 65) and [65, 110]; HISTOGRAM(region, 'N', 'S') and HISTOGRAM(region), where
the region's categories are public, count categories. Empty bins are answered too. What lies beyond the outer edges, NULL and NaN are in no
bin; LEAST(GREATEST(age, 0), 110) moves it into the outer ones.

>>> from sqlglot import parse_one
>>> found, bins = unfolded(parse_one("SELECT region, HISTOGRAM(age, 0, 18, 65) AS n FROM visits GROUP BY region"))
>>> print(found.expressions[1].sql())
CASE WHEN age < 0 THEN NULL WHEN age < 18 THEN '[0, 18)' WHEN age <= 65 THEN '[18, 65]' END AS "age"
>>> found.expressions[2].sql(), len(found.args["group"].expressions)
('COUNT(*) AS "n"', 2)
>>> bins.name, bins.labels, bins.ends["[18, 65]"]
('age', ('[0, 18)', '[18, 65]'), (18.0, 65.0))
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tacit.tables.by_person import named_key
from tacit.tables.errors import Refused, TableError

#: More bins than this are refused: each is written into the statement.
MOST = 500
NAME = "HISTOGRAM"


@dataclass(frozen=True)
class Bins:
    """The bins of a question's histogram: the key they become, their public labels (None: declared elsewhere), the ends of each."""

    name: str
    labels: tuple[str, ...] | None
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def is_histogram(node: object) -> bool:
    """Whether a node is HISTOGRAM(...)."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == NAME


def unfolded(tree: exp.Select) -> tuple[exp.Select, Bins | None]:
    """The statement with HISTOGRAM written as a key and a count, and its bins; a statement without one is handed back."""
    places = [i for i, projection in enumerate(tree.expressions) if is_histogram(projection.unalias())]
    found = [node for node in tree.walk() if is_histogram(node)]
    if not found:
        return tree, None
    if len(places) != 1 or len(found) != 1:
        raise Refused("HISTOGRAM stands once, by itself, in the SELECT list; GROUP BY a second column, filter with WHERE")
    place, order = places[0], tree.args.get("order")
    if any(isinstance(term.this, exp.Literal) for term in (order.expressions if order is not None else [])):
        raise Refused("a histogram has a column for its bins and one for its counts; name the column in ORDER BY instead of its place")
    projection = tree.expressions[place]
    value, *edges = projection.unalias().expressions or [None]
    if value is None:
        raise Refused(f"{NAME} takes a value and the edges of its bins, such as {NAME}(age, 0, 18, 65, 110)")
    taken = {p.alias_or_name for i, p in enumerate(tree.expressions) if i != place}
    own = value.name if isinstance(value, exp.Column) else "bin"
    bins = _bins(own if own not in taken else f"{own} bin", value, edges)
    key = _binned(value, edges, bins)
    made = tree.copy()
    group = made.args.get("group")
    keys = [named_key(term, tree.expressions).copy() for term in group.expressions] if group is not None else []
    if any(is_histogram(term) for term in keys):
        raise Refused("GROUP BY cannot name the histogram; its bins are groups already")
    if group is None:
        group = exp.Group()
        made.set("group", group)
    group.set("expressions", [*keys, key.copy()])
    count = exp.Alias(this=exp.Count(this=exp.Star(), big_int=True), alias=exp.to_identifier(projection.alias or "count", quoted=True))
    shown = exp.Alias(this=key, alias=exp.to_identifier(bins.name, quoted=True))
    made.set("expressions", [*made.expressions[:place], shown, count, *made.expressions[place + 1 :]])
    return made, bins


def _bins(name: str, value: exp.Expression, edges: list[Any]) -> Bins:
    if not edges:
        return Bins(name, None)
    if all(isinstance(edge, exp.Literal) and edge.is_string for edge in edges):
        labels = tuple(str(edge.this) for edge in edges)
        if len(set(labels)) < len(labels) or len(labels) > MOST:
            raise TableError(f"the categories of {NAME} must be at most {MOST} and different from each other")
        return Bins(name, labels)
    numbers = [_number(edge) for edge in edges]
    if (
        len(numbers) < 2
        or len(numbers) > MOST + 1
        or any(not low < high for (low, _), (high, _) in itertools.pairwise(numbers))
    ):
        raise TableError(f"the edges of {NAME} must be 2 to {MOST + 1} constants that grow, such as {NAME}(age, 0, 18, 65, 110)")
    last = len(numbers) - 2
    pairs = list(itertools.pairwise(numbers))
    labels = tuple(f"[{low[1]}, {high[1]}{']' if i == last else ')'}" for i, (low, high) in enumerate(pairs))
    return Bins(name, labels, {label: (low[0], high[0]) for label, (low, high) in zip(labels, pairs, strict=True)})


def _number(node: Any) -> tuple[float, str]:
    """A constant and its text."""
    sign, digits = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    if not isinstance(digits, exp.Literal) or digits.is_string or not re.fullmatch(r"[0-9]*\.?[0-9]+([eE][+-]?[0-9]{1,2})?", digits.this):
        raise TableError(f"the edges of {NAME} must all be numbers, or all categories in quotes; compute nothing in them")
    return float(f"{sign}{digits.this}"), f"{sign}{digits.this}"


def _binned(value: exp.Expression, edges: list[Any], bins: Bins) -> exp.Expression:
    """The label of the bin that a value is in, NULL where it is in none. Comparisons only, so NULL and NaN are in none."""
    if not bins.ends or bins.labels is None:
        return value.copy()
    ifs = [exp.If(this=exp.LT(this=value.copy(), expression=edges[0].copy()), true=exp.null())]
    for label, edge in zip(bins.labels, edges[1:], strict=True):
        below = exp.LTE if label == bins.labels[-1] else exp.LT
        ifs.append(exp.If(this=below(this=value.copy(), expression=edge.copy()), true=exp.Literal.string(label)))
    return exp.Case(ifs=ifs)
