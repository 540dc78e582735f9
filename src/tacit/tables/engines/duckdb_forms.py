"""Forms that DuckDB runs quickly, and in which no row can make a statement fail.

What a question costs beside its rows is mostly the reading and planning of its statement, so formulas are kept short: numbers are written
as DuckDB's own, and what follows from public bounds alone is worked out here.

>>> from sqlglot import parse_one
>>> from tacit.tables.engines.total import prepared
>>> prepared(parse_one("SELECT CAST(a AS BIGINT), LEAST(GREATEST(x, 0), CAST(1 AS DOUBLE)) FROM t"), quick).sql("duckdb")
'SELECT TRY_CAST(a AS BIGINT), CASE WHEN x BETWEEN 0 AND 1e0 THEN x WHEN x > 1e0 THEN 1e0 ELSE 0 END FROM t'
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlglot import exp

from tacit.tables.engines.total import constant, try_cast


def quick(node: exp.Expression) -> exp.Expression:
    """Casts that do not fail, and bounds as comparisons: DuckDB's LEAST and GREATEST take five times as long.

    NULL and NaN end where the functions take them: at the lower bound, and at the upper.
    """
    if isinstance(node, exp.Least) and isinstance(node.this, exp.Greatest) and len(node.expressions) == len(node.this.expressions) == 1:
        value, low, high = node.this.this, node.this.expressions[0], node.expressions[0]
        inner = value.this if isinstance(value, exp.Cast) else value
        if isinstance(inner, exp.Column) and constant(low) and constant(high):
            # Most values lie within their bounds, so that is asked first.
            inside = exp.If(this=exp.Between(this=value.copy(), low=low.copy(), high=high.copy()), true=value.copy())
            above = exp.If(this=exp.GT(this=value.copy(), expression=high.copy()), true=high.copy())
            clamped = exp.Case(ifs=[inside, above], default=low.copy())
            clamped.meta[_CLAMPED] = inner
            return clamped
    if isinstance(node, exp.Case) and len(node.args["ifs"]) == 1 and node.this is None:
        return _inside_first(node)
    if isinstance(node, exp.Cast) and node.args["to"].this == exp.DataType.Type.DOUBLE:
        return _double(node.this) or try_cast(node)
    return try_cast(node)


def _double(value: exp.Expression) -> exp.Expression | None:
    """A number as DuckDB writes a DOUBLE, with an exponent: it is read as one at once. A long statement costs more than a short answer.

    >>> from sqlglot import parse_one
    >>> [_double(parse_one(text)).sql("duckdb") for text in ("0.1", "-50.0", "1e300")]
    ['0.1e0', '-50.0e0', '1e300']
    """
    sign, digits = isinstance(value, exp.Neg), value.this if isinstance(value, exp.Neg) else value
    if not isinstance(digits, exp.Literal) or digits.is_string or not math.isfinite(float(digits.this)):
        return None
    written = exp.Literal.number(digits.this if "e" in digits.this.lower() else f"{digits.this}e0")
    return exp.Neg(this=written) if sign else written


#: The mark, in the `meta` of a comparison with bounds, of the column that it is about.
_CLAMPED = "tacit_clamped"


def _inside_first(case: exp.Case) -> exp.Case:
    """CASE WHEN x is there THEN f(clamp(x)) END with the bounds asked first: most values lie within, and those are there.

    A value between two numbers is neither NULL nor NaN, so `f` of it needs no other question.
    """
    condition, value = case.args["ifs"][0].this, case.args["ifs"][0].args["true"]
    clamps = [found for found in value.find_all(exp.Case) if _CLAMPED in found.meta]
    if len(clamps) != 1 or not _is_there(condition, clamps[0].meta[_CLAMPED]):
        return case
    inside, above = clamps[0].args["ifs"]
    low, high = clamps[0].args["default"], above.args["true"]
    lowest, highest = (_worked_out(_with(value, end)) for end in (low, high))
    ifs = [exp.If(this=inside.this.copy(), true=_with(value, inside.args["true"]))]
    if _asks_nan(condition):
        # To DuckDB NaN is above infinity, and NULL is neither below nor above anything: the two comparisons ask for both.
        number = inside.this.this
        ifs.append(exp.If(this=exp.LT(this=number.copy(), expression=low.copy()), true=lowest))
        ifs.append(exp.If(this=exp.LTE(this=number.copy(), expression=exp.cast(exp.Literal.string("inf"), "DOUBLE")), true=highest))
    else:
        outside = exp.Case(ifs=[exp.If(this=above.this.copy(), true=highest)], default=lowest)
        ifs.append(exp.If(this=condition.copy(), true=outside))
    return exp.Case(ifs=ifs, default=case.args.get("default"))


def _worked_out(value: exp.Expression) -> exp.Expression:
    """A whole number in place of the formula that gives it, which DuckDB would otherwise work out for every question.

    Python's floating-point numbers are DuckDB's, and both round each step to the nearest.
    """
    if isinstance(value, exp.Cast) and value.args["to"].this == exp.DataType.Type.BIGINT and isinstance(value.this, exp.Floor):
        number = _number(value.this.this)
        if number is not None and abs(number) < 2**62:
            return exp.cast(exp.Literal.number(math.floor(number)), "BIGINT")
    return value


def _number(formula: exp.Expression) -> float | None:
    """A formula of numbers with an exponent, sums and products; None for anything else."""
    if isinstance(formula, exp.Paren):
        return _number(formula.this)
    if isinstance(formula, exp.Literal):
        return float(formula.this) if not formula.is_string and "e" in formula.this else None
    if isinstance(formula, exp.Neg):
        only = _number(formula.this)
        return None if only is None else -only
    if not isinstance(formula, (exp.Add, exp.Sub, exp.Mul)):
        return None
    left, right = _number(formula.this), _number(formula.expression)
    if left is None or right is None:
        return None
    return left + right if isinstance(formula, exp.Add) else left - right if isinstance(formula, exp.Sub) else left * right


def _is_there(condition: exp.Expression, column: exp.Expression) -> bool:
    """Whether a condition says that a column is neither NULL nor NaN, or one of both, and nothing else."""
    if isinstance(condition, exp.And):
        return _is_there(condition.this, column) and _is_there(condition.expression, column)
    if not isinstance(condition, exp.Not):
        return False
    asked = condition.this
    if isinstance(asked, exp.Is) and isinstance(asked.expression, exp.Null):
        return bool(asked.this.unnest() == column)
    if _is_nan(asked):
        found = asked.this if isinstance(asked, exp.IsNan) else asked.expressions[0]
        return bool((found.this if isinstance(found, exp.Cast) else found) == column)
    return False


def _is_nan(asked: exp.Expression) -> bool:
    return isinstance(asked, exp.IsNan) or (isinstance(asked, exp.Anonymous) and asked.name.lower() == "isnan")


def _asks_nan(condition: exp.Expression) -> bool:
    return any(isinstance(part, exp.Expression) and _is_nan(part) for part in condition.find_all(exp.IsNan, exp.Anonymous))


def direct(tree: exp.Expression, types: Mapping[str, Mapping[str, str]], scans: Mapping[str, exp.Expression]) -> None:
    """Casts to the type that a column has are dropped, and a view of files is read as the files: neither says anything else.

    `types` are the columns of tables, `scans` what the views are views of. Whatever is a name of the statement's own is left alone.

    >>> from sqlglot import parse_one
    >>> tree = parse_one('SELECT CAST("v" AS DOUBLE) FROM (SELECT CAST("v" AS DOUBLE) AS "v" FROM "q") AS "r"')
    >>> direct(tree, {"q": {"v": "DOUBLE"}}, {"q": parse_one("READ_PARQUET('a.parquet')")})
    >>> print(tree.sql("duckdb"))
    SELECT CAST("v" AS DOUBLE) FROM (SELECT "v" AS "v" FROM READ_PARQUET('a.parquet') AS "q") AS "r"
    """
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        name = table.name
        if name in own or table.args.get("db") is not None or table.args.get("joins") or not isinstance(table.this, exp.Identifier):
            continue
        if isinstance(table.parent, exp.From) and isinstance(table.parent.parent, exp.Select):
            _without_idle_casts(table.parent.parent, table.alias_or_name, types.get(name, {}))
        if name in scans:
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
            table.replace(exp.Table(this=scans[name].copy(), alias=alias))


def _without_idle_casts(select: exp.Select, table: str, types: Mapping[str, str]) -> None:
    if select.args.get("joins") or select.args.get("laterals"):
        return
    for cast in list(select.find_all(exp.Cast)):
        column = cast.this
        mine = isinstance(column, exp.Column) and column.table in ("", table) and cast.parent_select is select
        if mine and types.get(column.name) == cast.args["to"].sql(dialect="duckdb"):
            cast.replace(column.copy())


def _with(value: exp.Expression, instead: exp.Expression) -> exp.Expression:
    """The value with something else in place of the marked comparison."""
    found = value.copy()
    marked = next(part for part in found.find_all(exp.Case) if _CLAMPED in part.meta)
    if marked is found:
        return instead.copy()
    marked.replace(instead.copy())
    return found
