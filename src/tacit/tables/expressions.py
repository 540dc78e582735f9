"""Expressions of a row, from an allow-list, rewritten so that no row can make an engine fail.

Division by zero, a logarithm of a negative, a text that is no number, a number beyond 1e150: each gives NULL, on every engine. Guards
stand around the arguments and never rely on the order in which an engine evaluates, and each argument is written once, so the text stays
short. Arithmetic is done in double precision: 7 / 2 is 3.5 everywhere. Whatever is not on the list is refused by name, before any row is
read.

>>> from sqlglot import parse_one
>>> types = {"a": "INTEGER", "b": "INTEGER", "name": "VARCHAR"}
>>> total(parse_one("a / b"), types).sql.sql("duckdb")
'(CAST("a" AS DOUBLE) / NULLIF(CAST("b" AS DOUBLE), CAST(0 AS DOUBLE)))'
>>> total(parse_one("RANDOM() < a"), types)
Traceback (most recent call last):
...
tacit.tables.errors.Refused: RAND is not one of the functions a question may use, because it must be the same function of a row on every
engine...

`interval` gives the public bounds of an expression from those of its columns, so that AVG(2 * a + 1) needs no further declaration.

>>> found = interval(total(parse_one("2 * a + 1"), types).sql, {"a": (0, 100)})
>>> float(found.lower), float(found.upper)
(1.0, 201.0)
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from tacit.tables.errors import Refused, TableError
from tacit.tables.keys import kind_of
from tacit.tables.measure import Interval

#: Numbers of greater magnitude are NULL, so that a product of two never overflows (PostgreSQL raises an error where others give infinity).
GREATEST = 1e150
#: (x + c) - c is x for every x above 1e-114, and 0 or at least LEAST in magnitude for all: no product or quotient underflows (an error
#: there too).
FLUSH, LEAST = 1e-130, 2.0**-486
#: exp(340) is below the greatest number, exp(-340) above the least one.
EXPONENT = 340
#: Longer texts are cut here before they are joined, so that no text grows without limit.
LONGEST = 10_000
#: An expression may not become larger or deeper than this once it is made total: parsers and printers of SQL are recursive.
MOST_NODES, DEEPEST = 20_000, 120

ALLOWED = (
    "+ - * / %, comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL, LIKE, CASE, COALESCE, NULLIF, LEAST, GREATEST, ABS, ROUND, FLOOR, "
    "CEIL, SQRT, LN, LOG, EXP, POWER, MOD, LOWER, UPPER, LENGTH, SUBSTRING, LEFT, CONCAT, TRIM, EXTRACT, YEAR, QUARTER, MONTH, DAY, "
    "DATE_TRUNC, CAST"
)
NUMBERS = ("integer", "decimal", "real", "float", "any")
_NUMBER = "^[+-]?[0-9]{1,15}([.][0-9]{1,15})?([eE][+-]?[0-9]{1,2})?$"
_DATE = (
    "([12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    "|([12][0-9](0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)-02-29)"
)
_TIMESTAMP = f"^{_DATE}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{{1,6}})?)?)?$"
_PARTS = {"YEAR": None, "QUARTER": (1, 4), "MONTH": (1, 12), "DAY": (1, 31), "HOUR": (0, 23), "MINUTE": (0, 59)}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")
_DATA_TYPES = {name: exp.DataType.build(name) for name in ("DOUBLE", "BIGINT", "INT", "TEXT", "BOOLEAN", "DATE", "TIMESTAMP")}
_WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT", "UINT64", "INT128", "UINT128")


@dataclass(frozen=True)
class Value:
    """A total expression: its kind, and what is certain of its size whatever the rows are.

    Kinds: integer, decimal, real (a column as it is), float (a guarded double), text, boolean, date, timestamp, null, any (of unknown
    type), other.
    """

    sql: exp.Expression
    kind: str
    most: float = math.inf
    least: float = 0.0
    constant: Any = None
    name: str = ""


Columns = Mapping[str, str] | Callable[[exp.Column], Value]


def column(name: str, sql_type: str | None) -> Value:
    """A column of a relation, as the public type of it allows."""
    sql = exp.column(name, quoted=True)
    if sql_type is None:
        return Value(sql, "any", name=name)
    kind = kind_of(sql_type)
    upper = sql_type.upper()
    if kind == "integer":
        return Value(sql, "decimal" if upper.startswith(_WIDE) else "integer", 2.0**64, 1.0, name=name)
    if kind == "text" and not upper.startswith(("VARCHAR", "TEXT", "STRING")):
        return Value(_cast(sql, "TEXT"), kind, name=name)
    if kind == "timestamp" and (("ZONE" in upper and "WITHOUT" not in upper) or ("TZ" in upper and "NTZ" not in upper)):
        kind = "other"
    return Value(sql, {"float": "real"}.get(kind, kind), name=name)


def total(tree: exp.Expression, columns: Columns, *, boolean: bool = False) -> Value:
    """The expression made total; `boolean` asks for a condition."""
    if not callable(columns):
        known = columns

        def columns(node: exp.Column) -> Value:
            if node.name not in known:
                raise TableError(f"there is no column {node.name}; there are {', '.join(known)}")
            return column(node.name, known[node.name])

    rewriter = _Rewriter(columns)
    found = rewriter.condition(tree) if boolean else rewriter.value(tree)
    _check_size(found.sql)
    return found


def _check_size(sql: exp.Expression) -> None:
    seen, level = 0, [sql]
    for _ in range(DEEPEST):
        seen += len(level)
        level = [child for node in level for child in node.iter_expressions()]
        if not level or seen > MOST_NODES:
            break
    if level or seen > MOST_NODES:
        raise Refused("an expression is too large once every step of it is made safe; compute parts of it in a sub-query")


def _shown(node: exp.Expression) -> str:
    text = node.sql()
    return text if len(text) <= 60 else text[:57] + "..."


def _cast(sql: exp.Expression, name: str) -> exp.Cast:
    """CAST without the copy that sqlglot's own builder makes of everything below."""
    return exp.Cast(this=sql, to=_DATA_TYPES[name].copy())


def _extreme_of(function: type[exp.Expression], first: exp.Expression, *others: exp.Expression) -> exp.Expression:
    """LEAST, GREATEST or COALESCE as all three engines have them; unless told that they skip NULL, sqlglot writes other forms."""
    made = function(this=first, expressions=list(others))
    if function is not exp.Coalesce:
        made.set("ignore_nulls", True)
    return made


def _double(number: float) -> exp.Expression:
    text = repr(abs(number))
    literal = exp.Literal.number(text.removesuffix(".0"))
    return _cast(exp.Neg(this=literal) if number < 0 else literal, "DOUBLE")


def _limited(sql: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The value if it lies strictly between two constants, else NULL; so is NaN, which all engines order last. The value is written once.

    LEAST and GREATEST skip NULL on all three engines, so a NULL becomes the lower limit, and NULLIF makes it NULL again.
    """
    inside = _extreme_of(exp.Least, _extreme_of(exp.Greatest, sql, low), high)
    return exp.Nullif(this=exp.Nullif(this=inside, expression=high.copy()), expression=low.copy())


def settled(value: Value, most: float = GREATEST) -> Value:
    """Within the greatest number, or NULL."""
    if value.most < most or (value.most == most and most == GREATEST):
        return value
    return replace(value, sql=_limited(value.sql, _double(-most), _double(most)), most=most)


def _flushed(value: Value, flush: float = FLUSH, least: float = LEAST) -> Value:
    """Zero where it is so small that a product could underflow."""
    if value.least >= least:
        return value
    there = exp.Paren(this=exp.Add(this=value.sql, expression=_double(flush)))
    return replace(value, sql=exp.Paren(this=exp.Sub(this=there, expression=_double(flush))), least=least, most=value.most * 2)


def number(value: Value, what: str = "arithmetic") -> Value:
    """A finite double, or NULL."""
    if value.kind == "float":
        return value
    if value.constant is not None and value.kind == "integer":
        return Value(
            _double(float(value.constant)), "float", abs(float(value.constant)), abs(float(value.constant)) or math.inf, value.constant
        )
    if value.kind == "integer":
        return Value(_cast(value.sql, "DOUBLE"), "float", value.most, value.least)
    if value.kind == "decimal":
        # PostgreSQL's numbers may be larger and smaller than a double can be, and the cast is then an error.
        ends = exp.Literal.number("-1e37"), exp.Literal.number("1e37")
        return Value(_cast(exp.Round(this=_limited(value.sql, *ends), decimals=exp.Literal.number(30)), "DOUBLE"), "float", 1e37, 1e-31)
    if value.kind == "real":
        return settled(Value(_cast(value.sql, "DOUBLE"), "float"))
    if value.kind == "any":
        return settled(Value(exp.TryCast(this=value.sql, to=exp.DataType.build("DOUBLE"), safe=True), "float"))
    if value.kind == "null":
        return Value(_cast(exp.null(), "DOUBLE"), "float", 0.0, math.inf)
    fix = f"CAST({value.name or '...'} AS DOUBLE)" if value.kind == "text" else "a CASE that says which number each stands for"
    raise Refused(f"{what} needs numbers, and {value.name or 'an operand'} is a {value.kind}; write {fix}")


def _text(value: Value, what: str) -> Value:
    if value.kind == "text":
        return value
    if value.kind in ("any", "null"):
        return Value(_cast(value.sql, "TEXT"), "text", name=value.name)
    raise Refused(f"{what} needs a text, and {value.name or 'an operand'} is a {value.kind}; write CAST({value.name or '...'} AS VARCHAR)")


def _day(year: int, month: int, day: int, kind: str) -> exp.Expression:
    return _cast(exp.Literal.string(f"{year:04}-{month:02}-{day:02}"), "DATE" if kind == "date" else "TIMESTAMP")


def _dated(value: Value) -> exp.Expression:
    """A date or timestamp within the years that all engines share: others, and infinite ones, are NULL."""
    return _limited(value.sql, _day(1, 1, 1, value.kind), _day(9999, 12, 31, value.kind))


@dataclass(frozen=True)
class _Rewriter:
    """Walks an expression; `column` says what a name stands for."""

    column: Callable[[exp.Column], Value]
    steps: list[None] = field(default_factory=list)

    def condition(self, node: exp.Expression) -> Value:
        found = self.value(node)
        if found.kind == "null":
            return Value(_cast(found.sql, "BOOLEAN"), "boolean")
        if found.kind != "boolean":
            raise Refused(f"a condition must be true or false, and {_shown(node)} is not; compare it with something")
        return found

    def value(self, node: exp.Expression) -> Value:
        # CASE x WHEN ... and BETWEEN write a part several times, so that nesting them could take for ever.
        self.steps.append(None)
        if len(self.steps) > MOST_NODES:
            raise Refused("an expression is too large once every step of it is made safe; compute parts of it in a sub-query")
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                if not isinstance(node.this, exp.Identifier):
                    raise Refused("SELECT * is not a question: name the columns")
                return self.column(node)
            case exp.Literal():
                return _constant(node)
            case exp.Null():
                return Value(exp.null(), "null")
            case exp.Boolean():
                return Value(node.copy(), "boolean", constant=bool(node.this))
            case exp.Neg():
                return self.negated(node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.SafeDivide():
                _only(node, "this", "expression", "typed", "safe")
                return _arithmetic(node, number(self.value(node.this)), number(self.value(node.expression)))
            case exp.Mod():
                return self.remainder(node)
            case exp.And() | exp.Or() | exp.Not():
                return self.logic(node)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.NullSafeEQ() | exp.NullSafeNEQ():
                _only(node, "this", "expression")
                return self.compared(type(node), node.this, node.expression)
            case exp.Between():
                _only(node, "this", "low", "high")
                parts = [self.compared(exp.GTE, node.this, node.args["low"]), self.compared(exp.LTE, node.this, node.args["high"])]
                return Value(exp.Paren(this=exp.and_(*(part.sql for part in parts))), "boolean")
            case exp.In():
                return self.member(node)
            case exp.Is():
                return self.test(node)
            case exp.Like() | exp.ILike():
                return self.like(node)
            case exp.Case() | exp.If():
                return self.case(node)
            case exp.Coalesce() | exp.Least() | exp.Greatest():
                _only(node, "this", "expressions", "ignore_nulls", "is_nvl", "is_null")
                values = self.alike([node.this, *node.expressions], node.key.upper(), ordered=not isinstance(node, exp.Coalesce))
                sql = _extreme_of(type(node), *(v.sql for v in values))
                return Value(sql, values[0].kind, max(v.most for v in values), min(v.least for v in values))
            case exp.Nullif():
                first, second = self.alike([node.this, node.expression], "NULLIF")
                return replace(first, sql=exp.Nullif(this=first.sql, expression=second.sql), constant=None)
            case exp.Cast():
                return self.cast(node)
        return self.function(node)

    def negated(self, node: exp.Expression) -> Value:
        value = self.value(node.this)
        if value.constant is not None and value.kind in ("integer", "float"):
            return _public(-value.constant)
        inner = number(value)
        return replace(inner, sql=exp.Paren(this=exp.Neg(this=inner.sql)), constant=None)

    def remainder(self, node: exp.Expression) -> Value:
        left, right = self.value(node.this), self.value(node.expression)
        if left.kind != "integer" or right.kind != "integer" or right.constant is None or right.constant < 1:
            raise Refused(
                "MOD and % need a whole number and a positive constant, such as MOD(a, 10); CAST(a AS BIGINT) makes a whole number"
            )
        sql = exp.Mod(this=_cast(left.sql, "BIGINT"), expression=right.sql)
        return Value(exp.Paren(this=sql), "integer", float(right.constant), 1.0)

    def logic(self, node: exp.Expression) -> Value:
        parts = [node.this] if isinstance(node, exp.Not) else [node.this, node.expression]
        values = [self.value(part) for part in parts]
        for value in values:
            if value.kind not in ("boolean", "null"):
                raise Refused(
                    f"{node.key.upper()} joins conditions, and {value.name or 'an operand'} is a {value.kind}; compare it with something"
                )
        sqls = [_cast(v.sql, "BOOLEAN") if v.kind == "null" else v.sql for v in values]
        sql = exp.Not(this=sqls[0]) if isinstance(node, exp.Not) else type(node)(this=sqls[0], expression=sqls[1])
        return Value(exp.Paren(this=sql), "boolean")

    def compared(self, operator: type[exp.Expression], left: exp.Expression, right: exp.Expression) -> Value:
        first, second = self.alike([left, right], "a comparison", ordered=True, plain=True)
        return Value(exp.Paren(this=operator(this=first.sql, expression=second.sql)), "boolean")

    def member(self, node: exp.Expression) -> Value:
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise Refused("IN with a sub-query is not a function of one row; join the table instead, or list the values")
        _only(node, "this", "expressions")
        values = self.alike([node.this, *node.expressions], "IN", ordered=True, plain=True)
        if any(v.constant is None and v.kind != "null" for v in values[1:]):
            raise Refused("IN needs a list of constants")
        return Value(exp.Paren(this=exp.In(this=values[0].sql, expressions=[v.sql for v in values[1:]])), "boolean")

    def test(self, node: exp.Expression) -> Value:
        right = node.expression
        value = self.value(node.this)
        if isinstance(right, exp.Boolean) and value.kind != "boolean":
            raise Refused(f"IS {right.sql()} needs a condition on its left")
        if not isinstance(right, (exp.Null, exp.Boolean)):
            raise Refused("IS may be followed by NULL, TRUE or FALSE")
        return Value(exp.Paren(this=exp.Is(this=exp.Paren(this=value.sql), expression=right.copy())), "boolean")

    def like(self, node: exp.Expression) -> Value:
        _only(node, "this", "expression", "negate")
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.this:
            raise Refused("LIKE needs a constant pattern without a backslash, such as 'a%'")
        sql: exp.Expression = type(node)(this=_text(self.value(node.this), "LIKE").sql, expression=pattern.copy())
        return Value(exp.Paren(this=exp.Not(this=exp.Paren(this=sql)) if node.args.get("negate") else sql), "boolean")

    def case(self, node: exp.Expression) -> Value:
        branches = [node] if isinstance(node, exp.If) else node.args["ifs"]
        other = node.args.get("false") if isinstance(node, exp.If) else node.args.get("default")
        subject = node.this if isinstance(node, exp.Case) else None
        conditions = []
        for branch in branches:
            if subject is not None:
                conditions.append(self.compared(exp.EQ, subject, branch.this))
            else:
                conditions.append(self.condition(branch.this))
        values = self.alike([*(branch.args["true"] for branch in branches), other or exp.null()], "CASE")
        ifs = [exp.If(this=c.sql, true=v.sql) for c, v in zip(conditions, values[:-1], strict=True)]
        sql = exp.Case(ifs=ifs, default=values[-1].sql if other is not None else None)
        return Value(sql, values[0].kind, max(v.most for v in values), min(v.least for v in values))

    def alike(self, nodes: Sequence[exp.Expression], what: str, *, ordered: bool = False, plain: bool = False) -> list[Value]:
        """Operands brought to one kind; constants follow the others. With `plain`, columns need no guard, because nothing is computed."""
        values = [self.value(node) for node in nodes]
        kinds = (
            {v.kind for v in values if v.kind != "null" and v.constant is None} or {v.kind for v in values if v.kind != "null"} or {"text"}
        )
        if kinds == {"any"}:
            known = {("float" if v.kind == "integer" else v.kind) for v in values if v.constant is not None}
            if len(known) != 1:
                raise Refused(f"the types of the operands of {what} are not known here; ask through a session, which knows its columns")
            kinds = known
        kinds -= {"any"}
        if len(kinds) == 2 and all(v.constant is not None or v.kind == "null" for v in values):
            kinds -= {"text"}
        if len(kinds) == 2 and kinds == {"date", "timestamp"}:
            kinds = {"timestamp"}
        if kinds <= {"integer", "decimal", "real", "float"}:
            return [_as_number(v, kinds, what, plain) for v in values]
        if len(kinds) > 1:
            raise Refused(f"the operands of {what} must be of one kind, and they are {' and '.join(sorted(kinds))}; CAST one of them")
        (kind,) = kinds
        if kind == "other" or (kind == "boolean" and ordered and any(v.kind not in ("boolean", "null") for v in values)):
            raise Refused(f"{what} cannot use a value of this type; CAST it to a number, a text, a date or a timestamp first")
        return [_as_kind(v, kind, what) for v in values]

    def cast(self, node: exp.Expression) -> Value:
        _only(node, "this", "to", "safe")
        wanted, value = node.args["to"], self.value(node.this)
        name = str(wanted.this.value if hasattr(wanted.this, "value") else wanted.this).upper()
        shown = value.name or "..."
        if name in ("DOUBLE", "FLOAT", "REAL"):
            return number(_parsed(value), "a number") if value.kind != "boolean" else number(_whole(value))
        if name in ("INT", "BIGINT", "SMALLINT", "TINYINT"):
            return _whole(value)
        if name in ("TEXT", "VARCHAR", "CHAR", "NVARCHAR"):
            if value.kind in ("real", "float", "decimal") or wanted.expressions:
                raise Refused(
                    f"CAST({shown} AS {name}) writes numbers differently on each engine; round it to a whole number first, without a length"
                )
            return value if value.kind == "text" else Value(_cast(value.sql, "TEXT"), "text", name=value.name)
        if name in ("DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"):
            return _as_date(value, "date" if name == "DATE" else "timestamp")
        if name == "BOOLEAN" and value.kind in ("boolean", "null"):
            return Value(_cast(value.sql, "BOOLEAN"), "boolean")
        raise Refused(f"CAST AS {name} is not allowed; cast to DOUBLE, BIGINT, VARCHAR, DATE or TIMESTAMP, and write conditions with CASE")

    def function(self, node: exp.Expression) -> Value:
        match node:
            case exp.Abs() | exp.Floor() | exp.Ceil():
                _only(node, "this")
                value = number(self.value(node.this), node.key.upper())
                least = value.least if isinstance(node, exp.Abs) else 1.0
                return Value(type(node)(this=value.sql), "float", value.most * 2 + 1, least)
            case exp.Round():
                return self.rounded(node)
            case exp.Sqrt():
                value = _flushed(number(self.value(node.this), "SQRT"))
                edge = _double(-1e-300)
                sql = exp.Nullif(this=_extreme_of(exp.Greatest, value.sql, edge), expression=edge.copy())
                return Value(exp.Sqrt(this=sql), "float", GREATEST, 1e-74)
            case exp.Ln():
                return _logarithm(number(self.value(node.this), "LN"))
            case exp.Log():
                base = _constant(node.this) if node.expression is not None and isinstance(node.this, exp.Literal) else _public(Fraction(10))
                if (
                    (node.expression is not None and not isinstance(node.this, exp.Literal))
                    or base.constant is None
                    or base.constant <= 0
                    or base.constant == 1
                ):
                    raise Refused("the base of LOG must be a positive constant other than 1")
                top = _logarithm(number(self.value(node.expression if node.expression is not None else node.this), "LOG"))
                return _arithmetic(exp.Div(), top, _public(Fraction(math.log(base.constant))))
            case exp.Exp():
                return _exponential(number(self.value(node.this), "EXP"))
            case exp.Pow():
                return self.power(node)
            case exp.Lower() | exp.Upper():
                return Value(type(node)(this=_text(self.value(node.this), node.key.upper()).sql), "text")
            case exp.Trim():
                _only(node, "this")
                return Value(exp.Trim(this=_text(self.value(node.this), "TRIM").sql), "text")
            case exp.Length():
                _only(node, "this")
                return Value(_cast(exp.Length(this=_text(self.value(node.this), "LENGTH").sql), "BIGINT"), "integer", 2.0**31, 1.0)
            case exp.Substring() | exp.Left():
                return self.substring(node)
            case exp.Concat() | exp.DPipe():
                return self.joined(node)
            case exp.Extract():
                _only(node, "this", "expression")
                return self.part(node.this.name.upper(), node.expression)
            case exp.Year() | exp.Quarter() | exp.Month() | exp.Day() | exp.Hour() | exp.Minute() | exp.DayOfMonth():
                return self.part({"DAYOFMONTH": "DAY"}.get(node.key.upper(), node.key.upper()), node.this)
            case exp.DateTrunc() | exp.TimestampTrunc():
                return self.truncated(node)
        raise Refused(why_not(node))

    def rounded(self, node: exp.Expression) -> Value:
        _only(node, "this", "decimals")
        value, places = (
            number(self.value(node.this), "ROUND"),
            _whole_constant(node.args.get("decimals"), 0, 0, 15, "the decimals of ROUND"),
        )
        # Ties go up: engines disagree about them, and this is the one form that all compute alike.
        scaled = value if not places else _arithmetic(exp.Mul(), value, _public(Fraction(10**places)))
        up = exp.Floor(this=exp.Add(this=scaled.sql, expression=_double(0.5)))
        return _divided(Value(up, "float", scaled.most * 2 + 1, 1.0), 10**places)

    def power(self, node: exp.Expression) -> Value:
        base, exponent = number(self.value(node.this), "POWER"), number(self.value(node.expression), "POWER")
        k = exponent.constant
        if k is not None and k == int(k) and 0 < abs(k) <= 8:
            order = abs(int(k))
            reach = 290 // order
            within = _flushed(settled(base, min(GREATEST, 10.0**reach)), max(FLUSH, 10.0 ** (18 - reach)), max(LEAST, 10.0**-reach))
            raised = settled(Value(exp.Pow(this=within.sql, expression=_double(order)), "float", 1e300, 1e-300))
            return raised if k > 0 else _arithmetic(exp.Div(), _public(Fraction(1)), raised)
        # x^y = exp(y ln x), for positive x only.
        return _exponential(_arithmetic(exp.Mul(), exponent, _logarithm(base)))

    def substring(self, node: exp.Expression) -> Value:
        _only(node, "this", "start", "length", "expression")
        start = 1 if isinstance(node, exp.Left) else _whole_constant(node.args.get("start"), 1, 1, LONGEST, "the start of SUBSTRING")
        given = node.expression if isinstance(node, exp.Left) else node.args.get("length")
        length = _whole_constant(given, LONGEST, 0, LONGEST, "the length of SUBSTRING")
        return Value(_cut(_text(self.value(node.this), "SUBSTRING").sql, start, length), "text")

    def joined(self, node: exp.Expression) -> Value:
        _only(node, "this", "expression", "expressions", "safe", "coalesce")
        nodes = node.expressions if isinstance(node, exp.Concat) else _operands(node)
        parts = [_cut(_text(self.value(part), "CONCAT").sql, 1, LONGEST) for part in nodes]
        if node.args.get("coalesce"):
            parts = [exp.Coalesce(this=part, expressions=[exp.Literal.string("")]) for part in parts]
        sql = parts[0]
        for part in parts[1:]:
            sql = exp.DPipe(this=sql, expression=part)
        return Value(exp.Paren(this=sql), "text")

    def part(self, name: str, inner: exp.Expression) -> Value:
        value = self.value(inner)
        if isinstance(inner, (exp.TsOrDsToDate, exp.Cast)) and value.kind == "text":
            value = _as_date(value, "date")
        if name not in _PARTS or value.kind not in ("date", "timestamp") or (name in ("HOUR", "MINUTE") and value.kind == "date"):
            raise Refused(f"EXTRACT takes {', '.join(_PARTS)} of a date or timestamp; CAST({value.name or '...'} AS DATE) makes one")
        found = _cast(exp.Extract(this=exp.Var(this=name), expression=_dated(value)), "BIGINT")
        return Value(found, "integer", 10_000.0, 1.0)

    def truncated(self, node: exp.Expression) -> Value:
        _only(node, "this", "unit", "input_type_preserved", "zone")
        unit, value = node.args["unit"].name.upper(), self.value(node.this)
        if unit not in _UNITS or value.kind not in ("date", "timestamp") or node.args.get("zone") is not None:
            raise Refused(f"DATE_TRUNC takes {', '.join(_UNITS)} and a date or timestamp; CAST({value.name or '...'} AS DATE) makes one")
        stamp = _cast(_dated(value), "TIMESTAMP")
        sql = exp.TimestampTrunc(this=stamp, unit=exp.Var(this=unit))
        return Value(_cast(sql, "DATE") if value.kind == "date" else sql, value.kind)


# ---- the total forms ----------------------------------------------------------------------------------------------------------------


def _public(constant: Fraction) -> Value:
    """A constant of the question as a value."""
    if constant.denominator == 1 and abs(constant) < 2**63:
        literal = exp.Literal.number(str(abs(constant)))
        size = float(abs(constant))
        return Value(exp.Neg(this=literal) if constant < 0 else literal, "integer", size, size or math.inf, constant)
    if not Fraction(1, 10**140) < abs(constant) < 10**140:
        raise TableError("a number in a question must lie between 1e-140 and 1e140 in magnitude, or be 0")
    size = abs(float(constant))
    return Value(_double(float(constant)), "float", size, size, constant)


def _constant(node: exp.Literal) -> Value:
    if node.is_string:
        return Value(node.copy(), "text", constant=node.this)
    if not re.fullmatch(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?", node.this) or not re.search("[0-9]", node.this):
        raise TableError("a number in a question must be written like 12, 1.5 or 1e-3")
    if len(node.this) > 60:
        raise TableError("a number in a question must have at most 60 characters")
    return _public(Fraction(node.this.rstrip(".") if not node.this.startswith(".") else f"0{node.this}"))


def _arithmetic(node: exp.Expression, left: Value, right: Value) -> Value:
    left, right = number(left), number(right)
    match node:
        case exp.Add() | exp.Sub():
            sql = type(node)(this=left.sql, expression=right.sql)
            least = 1.0 if left.least == right.least == 1.0 and left.most + right.most < 2.0**53 else 0.0
            return settled(Value(exp.Paren(this=sql), "float", left.most + right.most, least))
        case exp.Mul():
            left, right = settled(left), settled(right)
            if left.least * right.least < 1e-300:
                left, right = _flushed(left), _flushed(right)
            product = exp.Mul(this=left.sql, expression=right.sql)
            return settled(Value(exp.Paren(this=product), "float", left.most * right.most, left.least * right.least))
    left, right = _flushed(settled(left)), _flushed(settled(right))
    bottom = right.sql if right.constant else exp.Nullif(this=right.sql, expression=_double(0.0))
    quotient = Value(exp.Paren(this=exp.Div(this=left.sql, expression=bottom)), "float", left.most / min(right.least, 1e300), 0.0)
    return settled(replace(quotient, least=left.least / max(right.most, 1e-300) if right.most else math.inf))


def _divided(value: Value, by: int) -> Value:
    return value if by == 1 else _arithmetic(exp.Div(), value, _public(Fraction(by)))


def _logarithm(value: Value) -> Value:
    zero = _double(0.0)
    positive = exp.Nullif(this=_extreme_of(exp.Greatest, _flushed(settled(value)).sql, zero), expression=zero.copy())
    return Value(exp.Ln(this=positive), "float", 400.0, 1e-17)


def _exponential(value: Value) -> Value:
    inside = settled(replace(value, most=math.inf), float(EXPONENT))
    return Value(exp.Exp(this=inside.sql), "float", math.exp(EXPONENT), math.exp(-EXPONENT))


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a || b || c."""
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.DPipe):
        return _operands(node.this)
    return [*_operands(node.this), *_operands(node.expression)] if isinstance(node, exp.DPipe) else [node]


def _cut(sql: exp.Expression, start: int, length: int) -> exp.Expression:
    return exp.Substring(this=sql, start=exp.Literal.number(start), length=exp.Literal.number(length))


def _guarded(value: Value, pattern: str) -> exp.Expression:
    """The text where it has the form of a number or date, else NULL."""
    _check_size(value.sql)
    return exp.Case(ifs=[exp.If(this=exp.RegexpLike(this=value.sql, expression=exp.Literal.string(pattern)), true=value.sql.copy())])


def _parsed(value: Value) -> Value:
    """A text read as a number: NULL where it is none."""
    if value.kind != "text":
        return value
    return Value(_cast(_guarded(value, _NUMBER), "DOUBLE"), "float", 1e115, 1e-130)


def _whole(value: Value) -> Value:
    """Rounded to a whole number, ties up; NULL beyond 2^53."""
    if value.kind == "integer":
        return value
    if value.kind == "boolean":
        return Value(_cast(value.sql, "INT"), "integer", 1.0, 1.0)
    inside = settled(replace(number(_parsed(value), "a whole number"), most=math.inf), 2.0**53)
    return Value(_cast(exp.Floor(this=exp.Add(this=inside.sql, expression=_double(0.5))), "BIGINT"), "integer", 2.0**53, 1.0)


def _as_date(value: Value, kind: str) -> Value:
    name = "DATE" if kind == "date" else "TIMESTAMP"
    if value.kind in ("date", "timestamp"):
        return value if value.kind == kind else Value(_cast(_dated(value), name), kind)
    if value.constant is not None and value.kind == "text":
        return _written(value.constant, kind)
    if value.kind == "null":
        return Value(_cast(exp.null(), name), kind)
    text = _text(value, f"CAST AS {name}")
    return Value(_cast(_guarded(text, f"^{_DATE}$" if kind == "date" else _TIMESTAMP), name), kind)


def _written(text: str, kind: str) -> Value:
    """A date in the question, checked here so that no engine has to."""
    reader = datetime.date.fromisoformat if kind == "date" else datetime.datetime.fromisoformat
    try:
        found = reader(text)
    except ValueError:
        raise TableError(
            f"a {kind} in a question must be written like {'2026-01-31' if kind == 'date' else '2026-01-31 12:00:00'}"
        ) from None
    if isinstance(found, datetime.datetime) and found.tzinfo is not None:
        raise TableError("a timestamp in a question must have no time zone")
    shown = found.isoformat(sep=" ") if isinstance(found, datetime.datetime) else found.isoformat()
    return Value(_cast(exp.Literal.string(shown), "DATE" if kind == "date" else "TIMESTAMP"), kind, constant=shown)


def _as_number(value: Value, kinds: set[str], what: str, plain: bool) -> Value:
    if value.constant is not None and value.kind == "text":
        if not re.fullmatch(_NUMBER, value.constant):
            raise TableError(f"the text compared with a number in {what} must be a number")
        value = _public(Fraction(value.constant))
    if kinds == {"integer"} and value.kind in ("integer", "null"):
        return value if value.kind == "integer" else Value(_cast(exp.null(), "BIGINT"), "integer", 0.0, math.inf)
    if plain and value.kind in ("integer", "real") and value.constant is None:
        return value
    return number(value, what)


def _as_kind(value: Value, kind: str, what: str) -> Value:
    if value.kind == kind:
        return value
    if kind == "text":
        return _text(value, what)
    if kind in ("date", "timestamp") and (
        value.kind in ("date", "timestamp", "null") or (value.constant is not None and value.kind == "text")
    ):
        return _as_date(value, kind)
    if value.kind == "null":
        return Value(_cast(exp.null(), "BOOLEAN"), kind)
    raise Refused(f"the operands of {what} must be of one kind, and they are {kind} and {value.kind}; CAST one of them")


def _whole_constant(node: exp.Expression | None, default: int, low: int, high: int, what: str) -> int:
    if node is None:
        return default
    if not isinstance(node, exp.Literal) or node.is_string or not node.this.isdigit() or not low <= int(node.this[:9]) <= high:
        raise Refused(f"{what} must be a whole constant from {low} to {high}")
    return int(node.this)


def _only(node: exp.Expression, *names: str) -> None:
    """Refuse variants of a function that are not on the list, such as an ESCAPE or a time zone."""
    extra = [name for name, value in node.args.items() if name not in names and value not in (None, False, [])]
    if extra:
        raise Refused(f"{node.key.upper()} with {extra[0].replace('_', ' ')} is not allowed; allowed are {ALLOWED}")


def why_not(node: exp.Expression) -> str:
    """Why a node is not on the list."""
    name = (node.name if isinstance(node, exp.Anonymous) else node.key).upper()
    if isinstance(node, (exp.Query, exp.Exists, exp.Subquery)):
        return "a sub-query inside an expression can depend on everybody's rows; join the table, or select from a sub-query instead"
    if isinstance(node, exp.Window):
        return "window functions mix people's rows, so one person's effect is not bounded; aggregate by person in a sub-query instead"
    if isinstance(node, exp.Star):
        return "SELECT * is not a question: name the columns"
    if isinstance(node, exp.AggFunc):
        return f"{name} cannot stand here: an aggregate may not be inside another, nor in WHERE or GROUP BY"
    return (
        f"{name} is not one of the functions a question may use, because it must be the same function of a row on every engine "
        f"and never fail; allowed are {ALLOWED}"
    )


# ---- public bounds of an expression -------------------------------------------------------------------------------------------------

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
            known = _PARTS.get(node.this.name.upper())
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
