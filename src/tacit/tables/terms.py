"""Terms of a question: what is an aggregate, and the constants that stand in one (ranks, limits, bounds, casts of released numbers).

>>> from sqlglot import parse_one
>>> rank(parse_one("0.25")), whole("LIMIT", parse_one("10"))
(Fraction(1, 4), 10)
>>> aggregated(parse_one("COUNT(*) FILTER (WHERE age > 3)")) is not None, aggregated(parse_one("age + 1")) is None
(True, True)
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from tacit.tables.dialects import TRUNCATING
from tacit.tables.errors import Refused, TableError


def whole(clause: str, node: exp.Expression | None) -> int:
    """The constant of LIMIT or OFFSET."""
    if not isinstance(node, exp.Literal) or not node.this.isdigit() or len(node.this) > 9:
        raise TableError(f"{clause} must be a whole number, such as {clause} 10")
    return int(node.this)


def recast(tree: exp.Cast) -> exp.Expression:
    """A cast of a released number, which is a double: to whole numbers and decimals it rounds, to doubles it does nothing."""
    inner, to = tree.this, tree.args["to"]
    if to.this in exp.DataType.FLOAT_TYPES:
        return exp.Paren(this=inner.copy())
    if to.this in exp.DataType.INTEGER_TYPES:
        if tree.meta.get(TRUNCATING):
            sign = exp.LT(this=inner.copy(), expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=sign, true=exp.Ceil(this=inner.copy()))], default=exp.Floor(this=inner.copy()))
        return exp.Round(this=inner.copy())
    if to.this == exp.DataType.Type.DECIMAL:
        scale = to.expressions[1].this.copy() if len(to.expressions) == 2 else exp.Literal.number(0) if to.expressions else None
        return exp.Paren(this=inner.copy()) if scale is None else exp.Round(this=inner.copy(), decimals=scale)
    raise Refused(f"released values are numbers; they can be cast to numbers, not to {to.sql()}")


def written(node: exp.Expression) -> str:
    """A function as the user wrote it, as far as that is known."""
    return (node.name if isinstance(node, exp.Anonymous) else getattr(node, "sql_name", lambda: node.key)()).upper()


def aggregated(node: object) -> exp.Expression | None:
    """The node if it is an aggregate with what belongs to it."""
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        return node if aggregated(node.this) is not None else None
    if isinstance(node, exp.Bracket):
        return node if isinstance(node.this, exp.ApproxQuantiles) else None
    if isinstance(node, exp.IgnoreNulls):
        return node if aggregated(node.this) is not None else None
    return node if isinstance(node, exp.Expression) and isinstance(node, exp.AggFunc) else None


def narrowed(condition: exp.Expression | None, by: exp.Expression) -> exp.Expression:
    """A condition, if there is one, and another."""
    return by if condition is None else exp.And(this=exp.Paren(this=condition.copy()), expression=exp.Paren(this=by.copy()))


def rank(node: exp.Expression | None, *, whole: bool = False) -> Fraction:
    """A constant rank, as a fraction."""
    text = node.this if isinstance(node, exp.Literal) else ""
    what = "a whole constant" if whole else "a constant between 0 and 1, such as 0.5"
    if isinstance(node, (exp.Array, exp.Tuple)):
        raise TableError("a quantile has one rank; ask for several columns: QUANTILE_CONT(x, 0.25) AS a, QUANTILE_CONT(x, 0.75) AS b")
    if not re.fullmatch(r"[0-9]{1,9}" if whole else r"[0-9]{0,9}(\.[0-9]{0,18})?|[0-9]+/[0-9]+", text) or not re.search("[0-9]", text):
        raise TableError(f"the rank of a quantile must be {what}")
    found = Fraction(f"0{text}" if text.startswith(".") else text.rstrip("."))
    if not whole and found > 1:
        raise TableError(f"the rank of a quantile must be {what}")
    return found


def contribution_bounds(node: exp.Expression) -> tuple[exp.Expression, tuple[Fraction, Fraction] | None, bool]:
    """The aggregate without BigQuery's contribution bounds, the bounds, and whether they are of a person's total in a group."""
    mark = node.this
    if not isinstance(mark, exp.Anonymous) or mark.name.lower() not in ("contribution_bounds_per_row_", "contribution_bounds_per_group_"):
        return node, None, False
    *inner, low, high = mark.expressions
    ends = []
    for end in (low, high):
        sign, digits = (-1, end.this) if isinstance(end, exp.Neg) else (1, end)
        if (
            not isinstance(digits, exp.Literal)
            or digits.is_string
            or len(digits.this) > 40
            or not re.fullmatch(r"[0-9]*\.?[0-9]+([eE][+-]?[0-9]{1,2})?", digits.this)
        ):
            raise TableError("contribution bounds must be two constants, such as (0, 100)")
        ends.append(sign * Fraction(digits.this))
    if ends[0] > ends[1]:
        raise TableError("contribution bounds must be (lower, upper); swap them")
    made = node.copy()
    made.set("this", inner[0].copy())
    if len(inner) > 1:
        made.set("expression", inner[1].copy())
    return made, (ends[0], ends[1]), mark.name.lower() == "contribution_bounds_per_group_"
