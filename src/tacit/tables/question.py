"""A question about a table, as both SQL and the Python builder say it: rows, keys, aggregates. It is public and names no data.

>>> from sqlglot import parse_one
>>> Question(parse_one("visits", into=exp.Table), (), (Aggregate("count", None, "n"),)).grouped
False

What is computed of released figures (a ratio of two sums, HAVING, ORDER BY, LIMIT) is post-processing: it costs nothing and is done by
`evaluate`.

>>> evaluate(parse_one("ROUND(total / n, 1)"), {"total": 10.0, "n": 4.0}), evaluate(parse_one("total / n"), {"total": 10.0, "n": 0.0})
(2.5, None)

It also knows the terms of a question: what is an aggregate, the constants that stand in one (ranks, limits, bounds, casts), and what the
terms of GROUP BY mean.

>>> rank(parse_one("0.25")), whole("LIMIT", parse_one("10"))
(Fraction(1, 4), 10)
>>> aggregated(parse_one("COUNT(*) FILTER (WHERE age > 3)")) is not None, aggregated(parse_one("age + 1")) is None
(True, True)
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from tacit.tables.dialects import TRUNCATING, Asked
from tacit.tables.errors import Refused, TableError

if TYPE_CHECKING:
    from tacit.tables.relation import Relation, Resolve

#: Aggregates a question may ask for.
KINDS = (
    "count",
    "count_value",
    "count_person",
    "count_distinct",
    "sum",
    "avg",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
    "quantile",
    "min",
    "max",
    "covar_pop",
    "covar_samp",
    "corr",
)


@dataclass(frozen=True)
class Aggregate:
    """One figure: its kind, the expression it is about (a second one for covariance), and the name of its column in the answer.

    `bounds` are those that the question itself declares for the value, as BigQuery's contribution_bounds do.
    """

    kind: str
    value: exp.Expression | None
    name: str
    other: exp.Expression | None = None
    quantile: Fraction | None = None
    bounds: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True)
class Key:
    """One column to group by: an expression of a row, and the name of its column in the answer.

    `listed` are its public values where the question itself says them, as a histogram does; `ends` are the edges of each bin.
    `digits`: decimal or timestamp where the engine hands it over as the text of all its digits.
    """

    value: exp.Expression
    name: str
    listed: tuple[Any, ...] | None = None
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    digits: str = ""


@dataclass(frozen=True)
class Output:
    """One column of the answer where it is more than a key or an aggregate: an expression of their names."""

    name: str
    value: exp.Expression


@dataclass(frozen=True)
class Order:
    """One term of ORDER BY, an expression of released names; NULL comes last, or first, as the user's dialect has it."""

    value: exp.Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Question:
    """Aggregates of the rows of `relation` that satisfy `where`, for each combination of `keys`.

    `outputs` are the columns to show, where they are not just the keys and aggregates in order. `having`, `order`, `limit` and `offset`
    apply to released values. `levels` are the sub-totals of ROLLUP and CUBE: the names of the keys that each keeps; they are added up
    from the released groups. `windows` are window functions over the released lines, by the names that stand for them in `outputs`.
    """

    relation: Relation | exp.Expression
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    where: exp.Expression | None = None
    having: exp.Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    outputs: tuple[Output, ...] = ()
    asked: Asked = field(default_factory=Asked)
    offset: int = 0
    levels: tuple[tuple[str, ...], ...] = ()
    windows: tuple[tuple[str, exp.Window], ...] = ()

    @property
    def grouped(self) -> bool:
        return bool(self.keys)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are asked about, as far as that is known: of a bare expression it is not."""
        return () if isinstance(self.relation, exp.Expression) else self.relation.tables


_BINARY: Mapping[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
    exp.Pow: operator.pow,
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_UNARY: Mapping[type[exp.Expression], Callable[[Any], Any]] = {
    exp.Neg: operator.neg,
    exp.Abs: abs,
    exp.Floor: math.floor,
    exp.Ceil: math.ceil,
    exp.Sqrt: math.sqrt,
    exp.Ln: math.log,
    exp.Exp: math.exp,
}
#: What `evaluate` understands, beside names and constants.
EVALUATED: tuple[type[exp.Expression], ...] = (
    *_BINARY,
    *_UNARY,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.Between,
    exp.In,
    exp.Round,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.Nullif,
    exp.Least,
    exp.Greatest,
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Null,
    exp.Boolean,
)


def evaluate(tree: exp.Expression, row: Mapping[str, Any]) -> Any:
    """The value of an expression of released names; None where SQL has NULL. It never fails: what cannot be computed is None."""
    match tree:
        case exp.Paren():
            return evaluate(tree.this, row)
        case exp.Column():
            return row[tree.name]
        case exp.Literal():
            return tree.this if tree.is_string else float(tree.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(tree.this)
        case exp.And() | exp.Or():
            decisive = isinstance(tree, exp.Or)
            both = evaluate(tree.this, row), evaluate(tree.expression, row)
            return decisive if decisive in both else None if None in both else not decisive
        case exp.Not():
            value = evaluate(tree.this, row)
            return None if value is None else not value
        case exp.Is():
            return evaluate(tree.this, row) is evaluate(tree.expression, row)
        case exp.Between():
            parts = [
                exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy()),
                exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy()),
            ]
            return evaluate(exp.And(this=parts[0], expression=parts[1]), row)
        case exp.In():
            value, listed = evaluate(tree.this, row), [evaluate(part, row) for part in tree.expressions]
            return None if value is None or (None in listed and value not in listed) else value in listed
        case exp.Case() | exp.If():
            branches = [tree] if isinstance(tree, exp.If) else tree.args["ifs"]
            for branch in branches:
                if evaluate(branch.this, row) is True:
                    return evaluate(branch.args["true"], row)
            other = tree.args.get("false" if isinstance(tree, exp.If) else "default")
            return None if other is None else evaluate(other, row)
        case exp.Coalesce() | exp.Least() | exp.Greatest():
            found = [evaluate(part, row) for part in (tree.this, *tree.expressions)]
            present = [value for value in found if value is not None]
            if len(present) < len(found) and not isinstance(tree, exp.Coalesce) and not tree.args.get("ignore_nulls"):
                return None
            choose: Callable[[list[Any]], Any] = {exp.Least: min, exp.Greatest: max}.get(type(tree), lambda values: values[0])
            return _guarded(choose, present) if present else None
        case exp.Nullif():
            value = evaluate(tree.this, row)
            return None if value == evaluate(tree.expression, row) else value
        case exp.Round():
            places = tree.args.get("decimals")
            scale = 10.0 ** int(places.this) if places is not None else 1.0
            return _guarded(lambda value: math.floor(value * scale + 0.5) / scale, evaluate(tree.this, row))
    parts = [evaluate(tree.this, row)] + ([evaluate(tree.expression, row)] if type(tree) in _BINARY else [])
    function: Callable[..., Any] | None = _BINARY.get(type(tree)) or _UNARY.get(type(tree))
    if function is None:
        raise Refused(f"{tree.key.upper()} cannot be computed of released values")
    return _guarded(function, *parts)


def _guarded(function: Callable[..., Any], *parts: Any) -> Any:
    if any(part is None for part in parts):
        return None
    try:
        found = function(*parts)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return None if isinstance(found, complex) or (isinstance(found, float) and not math.isfinite(found)) else found


# --- terms ------------------------------------------------------------------------------------------------------------------------------


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


# --- GROUP BY ---


def grouped_by(group: exp.Expression, projections: Sequence[exp.Expression], resolve: Resolve) -> list[exp.Expression]:
    """The terms of GROUP BY; of GROUP BY ALL, whatever of the SELECT list is no aggregate and no constant.

    In SELECT UPPER(name) AS name ... GROUP BY name the name means the column in most dialects and the expression in others: refused.
    """
    several = (exp.GroupingSets, exp.Cube, exp.Rollup)
    extra = [name for name, value in group.args.items() if name not in ("expressions", "all") and value not in (None, False, [])]
    if extra or any(isinstance(key, (*several, exp.Tuple)) for key in group.expressions):
        raise Refused("GROUPING SETS, CUBE and ROLLUP are several questions in one; ask one for each set of columns")
    if group.args.get("all"):
        chosen = [projection.unalias() for projection in projections]
        return [cast(exp.Expression, node) for node in chosen if any(node.find_all(exp.Column)) and not any(node.find_all(exp.AggFunc))]
    keys = [named_key(key, projections) for key in group.expressions]
    for written, key in zip(group.expressions, keys, strict=True):
        if isinstance(written, exp.Column) and key is not written and _means_column(written, key, resolve):
            raise Refused(
                f"GROUP BY {written.name} could mean the column or the expression that the SELECT list calls so; give the expression "
                "another name, or write its place: GROUP BY 1"
            )
    return keys


#: CUBE of more columns is refused.
MOST_CUBED = 6


def levels_of(group: exp.Expression) -> tuple[exp.Group, list[list[exp.Expression]]]:
    """A GROUP BY of all terms, and the terms that each sub-total of ROLLUP, CUBE or GROUPING SETS keeps.

    >>> from sqlglot import parse_one
    >>> group, levels = levels_of(parse_one("SELECT 1 FROM t GROUP BY ROLLUP (a, b)").args["group"])
    >>> group.sql(), [[term.sql() for term in level] for level in levels]
    ('GROUP BY a, b', [['a'], []])
    """
    fixed: list[exp.Expression] = []
    several: list[exp.Expression] = []
    for term in [*group.expressions, *(t for name in ("rollup", "cube", "grouping_sets") for t in group.args.get(name) or [])]:
        (several if isinstance(term, (exp.Rollup, exp.Cube, exp.GroupingSets)) else fixed).append(term)
    if len(several) != 1:
        raise Refused("one of ROLLUP, CUBE and GROUPING SETS may stand in GROUP BY; ask one question for each further one")
    node, inner = several[0], [_members(term) for term in several[0].expressions]
    if not inner:
        inner, fixed = [[term] for term in fixed], []  # MySQL's GROUP BY a, b WITH ROLLUP
    if isinstance(node, exp.Rollup):
        sets = [[term for part in inner[:most] for term in part] for most in range(len(inner), -1, -1)]
    elif isinstance(node, exp.Cube):
        if len(inner) > MOST_CUBED:
            raise Refused(f"CUBE has two to the power of its columns sub-totals; at most {MOST_CUBED} columns are taken")
        chosen = itertools.product((True, False), repeat=len(inner))
        sets = [[term for part, kept in zip(inner, kept_of, strict=True) if kept for term in part] for kept_of in chosen]
    else:
        sets = inner
    everything = list(dict.fromkeys([*fixed, *(term for level in sets for term in level)]))
    levels = [[*fixed, *level] for level in sets]
    whole = [level for level in levels if len(set(level)) == len(everything)]
    if not whole:
        raise Refused("GROUPING SETS must hold the set of all its columns: sub-totals are added up from the finest groups")
    plain = exp.Group(expressions=[term.copy() for term in everything])
    return plain, [level for level in levels if len(set(level)) < len(everything)]


def _members(term: exp.Expression) -> list[exp.Expression]:
    inner: Any = term.unnest() if isinstance(term, exp.Paren) else term
    return list(inner.expressions) if isinstance(inner, exp.Tuple) else [inner]


def _means_column(written: exp.Column, key: exp.Expression, resolve: Resolve) -> bool:
    """Whether a name of GROUP BY is a known column too, and another value than the expression of the same name."""
    try:
        column = resolve(written)
    except TableError:
        return False
    return column.kind != "any" and (not isinstance(key, exp.Column) or resolve(key).sql != column.sql)


def named_key(key: exp.Expression, projections: Sequence[exp.Expression]) -> exp.Expression:
    """What a term of GROUP BY means: an ordinal or an alias of the SELECT list, or itself."""
    if isinstance(key, exp.Literal) and not key.is_string:
        if not key.this.isdigit() or not 1 <= int(key.this[:9]) <= len(projections):
            raise TableError(f"GROUP BY {key.this[:9]} must be the place of a column of the SELECT list, from 1 to {len(projections)}")
        return cast(exp.Expression, projections[int(key.this) - 1].unalias())
    if isinstance(key, exp.Column) and not key.table:
        named = [p for p in projections if isinstance(p, exp.Alias) and p.alias == key.name]
        if named and not isinstance(named[0].this, exp.AggFunc):
            return cast(exp.Expression, named[0].this)
    return key
