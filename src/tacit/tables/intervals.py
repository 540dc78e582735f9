"""Public bounds of an expression from those of its columns, so that AVG(2 * a + 1) needs no further declaration.

Ends are exact fractions, or infinite where nothing is declared; what floating point does to a value is covered by rounding outward.

>>> from sqlglot import parse_one
>>> found = interval(parse_one("2 * a + 1"), {"a": (0, 100)})
>>> float(found.lower), float(found.upper)
(1.0, 201.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sqlglot import exp

from tacit.tables.forms import EXPONENT, PARTS
from tacit.tables.measure import Interval

Ends = tuple[Fraction | float, Fraction | float]
_ALL: Ends = (-math.inf, math.inf)
#: Narrower intervals are widened to what a lattice can be laid on.
_NARROW = Fraction(1, 10**200)


def interval(tree: exp.Expression, bounds: Mapping[str, Any]) -> Interval | None:
    """The bounds of a total expression from declared bounds of columns, rounded outward; None where there are none.

    >>> from sqlglot import parse_one
    >>> interval(parse_one("LEAST(GREATEST(cost, 0), 10)"), {}).upper
    Fraction(10, 1)
    >>> interval(parse_one("cost + 1"), {}) is None
    True
    """
    low, high = _ends(tree, bounds)
    if not (-(10**300) < low <= high < 10**300):
        return None
    if low < high < low + _NARROW:
        low, high = low - _NARROW, high + _NARROW
    return Interval(Fraction(_outward(low, -math.inf)), Fraction(_outward(high, math.inf)))


def _outward(end: Fraction | float, towards: float) -> float:
    nearest = float(end)
    exact = Fraction(nearest) >= end if towards > 0 else Fraction(nearest) <= end
    return nearest if exact else math.nextafter(nearest, towards)


def _ends(node: exp.Expression, bounds: Mapping[str, Any]) -> Ends:
    inner = _unlimited(node)
    if inner is not None:
        return _ends(inner, bounds)
    match node:
        case exp.Paren():
            return _ends(node.this, bounds)
        case exp.Column():
            return _declared(bounds.get(node.name))
        case exp.Literal():
            return _ALL if node.is_string else (Fraction(node.this), Fraction(node.this))
        case exp.Cast():
            is_number = node.args["to"].this in (*exp.DataType.INTEGER_TYPES, *exp.DataType.FLOAT_TYPES)
            if not is_number:
                return _ALL
            low, high = _ends(node.this, bounds)
            if node.args["to"].this in exp.DataType.INTEGER_TYPES and isinstance(node.this, (exp.Paren, exp.Is)) and (low, high) == _ALL:
                return _truth(node.this)
            return low, high
        case exp.Neg():
            low, high = _ends(node.this, bounds)
            return -high, -low
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _combined(node, _ends(node.this, bounds), _ends(node.expression, bounds))
        case exp.Abs():
            low, high = _ends(node.this, bounds)
            return (Fraction(0) if low <= 0 <= high else min(max(low, -low), max(high, -high))), max(-low, high)
        case exp.Floor() | exp.Ceil():
            low, high = _ends(node.this, bounds)
            step = math.floor if isinstance(node, exp.Floor) else math.ceil
            return tuple(end if math.isinf(end) else Fraction(step(end)) for end in (low, high))  # type: ignore[return-value]
        case exp.Round():
            return _ends(node.this, bounds)
        case exp.Mod():
            _, most = _ends(node.expression, bounds)
            low, high = _ends(node.this, bounds)
            return (1 - most if low < 0 else Fraction(0)), (most - 1 if high > 0 else Fraction(0))
        case exp.Sqrt() | exp.Ln() | exp.Exp():
            return _monotone(node, _ends(node.this, bounds))
        case exp.Pow():
            return _raised(_ends(node.this, bounds), _ends(node.expression, bounds))
        case exp.Nullif():
            return _ends(node.this, bounds)
        case exp.Least() | exp.Greatest():
            return _extreme(node, bounds)
        case exp.Coalesce():
            return _hull([_ends(part, bounds) for part in (node.this, *node.expressions)])
        case exp.Case():
            branches = [
                *(branch.args["true"] for branch in node.args["ifs"]),
                *([node.args["default"]] if node.args.get("default") else []),
            ]
            return _hull([_ends(part, bounds) for part in branches if not isinstance(_bare(part), exp.Null)])
        case exp.Extract():
            known = PARTS.get(node.this.name.upper())
            return _ALL if known is None else (Fraction(known[0]), Fraction(known[1]))
    return _ALL


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    return node


def _truth(node: exp.Expression) -> Ends:
    """A condition cast to a number is 0 or 1."""
    inner = node.this if isinstance(node, exp.Paren) else node
    logical = (exp.Predicate, exp.Connector, exp.Not)
    return (Fraction(0), Fraction(1)) if isinstance(inner, logical) else _ALL


def _unlimited(node: exp.Expression) -> exp.Expression | None:
    """What `_limited` was made of: its guard takes nothing from the bounds."""
    if not isinstance(node, exp.Nullif) or not isinstance(node.this, exp.Nullif) or not isinstance(node.this.this, exp.Least):
        return None
    inside = node.this.this.this
    made = (
        isinstance(inside, exp.Greatest)
        and inside.expressions == [node.expression]
        and node.this.this.expressions == [node.this.expression]
    )
    return inside.this if made else None


def _declared(pair: Any) -> Ends:
    try:
        low, high = pair
        found = Fraction(low), Fraction(high)
    except (TypeError, ValueError, OverflowError):
        return _ALL
    return found if found[0] <= found[1] else _ALL


def _times(first: Fraction | float, second: Fraction | float) -> Fraction | float:
    return Fraction(0) if first == 0 or second == 0 else first * second


def _combined(node: exp.Expression, first: Ends, second: Ends) -> Ends:
    match node:
        case exp.Add():
            return first[0] + second[0], first[1] + second[1]
        case exp.Sub():
            return first[0] - second[1], first[1] - second[0]
        case exp.Mul():
            corners = [_times(a, b) for a in first for b in second]
            return min(corners), max(corners)
    if second[0] <= 0 <= second[1]:
        return _ALL
    inverse = [Fraction(0) if math.isinf(end) else 1 / Fraction(end) for end in second]
    corners = [_times(a, b) for a in first for b in inverse]
    return min(corners), max(corners)


def _monotone(node: exp.Expression, ends: Ends) -> Ends:
    low, high = (float(end) for end in ends)
    match node:
        case exp.Sqrt():
            found = math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0))
        case exp.Ln():
            found = math.log(low) if low > 0 else -350.0, math.log(high) if high > 0 else -350.0
        case _:
            found = math.exp(min(low, EXPONENT)), math.exp(high) if high <= EXPONENT else math.inf
    # Each library is right to one unit in the last place; four cover this one's and the engine's.
    down, up = found[0] - 4 * math.ulp(found[0]), found[1] + 4 * math.ulp(found[1])
    return (Fraction(down) if math.isfinite(down) else down), (Fraction(up) if math.isfinite(up) else up)


def _raised(base: Ends, exponent: Ends) -> Ends:
    if exponent[0] != exponent[1] or exponent[0] != int(exponent[0]) or not 1 <= exponent[0] <= 8:
        return _ALL
    k = int(exponent[0])
    ends = [end**k for end in base]
    if k % 2 == 0:
        return (Fraction(0) if base[0] <= 0 <= base[1] else min(ends)), max(ends)
    return ends[0], ends[1]


def _sure(node: exp.Expression) -> bool:
    """Whether a value is never NULL, whatever the row."""
    inner = _bare(node)
    if isinstance(inner, (exp.Least, exp.Greatest, exp.Coalesce)):
        return any(_sure(part) for part in (inner.this, *inner.expressions))
    return isinstance(inner.this, exp.Literal) if isinstance(inner, exp.Neg) else isinstance(inner, exp.Literal)


def _extreme(node: exp.Expression, bounds: Mapping[str, Any]) -> Ends:
    """LEAST and GREATEST skip what is NULL, so only parts that never are can narrow the other side."""
    parts = [node.this, *node.expressions]
    ends = [_ends(part, bounds) for part in parts]
    sure = [end for part, end in zip(parts, ends, strict=True) if _sure(part)]
    low, high = _hull(ends)
    if isinstance(node, exp.Least):
        return low, min([high, *(end[1] for end in sure)])
    return max([low, *(end[0] for end in sure)]), high


def _hull(ends: Sequence[Ends]) -> Ends:
    return (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else _ALL
