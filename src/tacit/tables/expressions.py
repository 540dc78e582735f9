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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from tacit.tables import forms
from tacit.tables.errors import Refused, TableError
from tacit.tables.forms import FLUSH, GREATEST, LEAST, MOST_NODES, NUMBERS, PARTS, Value, column, number, settled

__all__ = ["ALLOWED", "NUMBERS", "Columns", "Value", "column", "number", "settled", "total", "why_not"]

#: Longer texts are cut here before they are joined, so that no text grows without limit.
LONGEST = 10_000
ALLOWED = (
    "+ - * / %, comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL, LIKE, CASE, COALESCE, NULLIF, LEAST, GREATEST, ABS, ROUND, FLOOR, "
    "CEIL, SQRT, LN, LOG, EXP, POWER, MOD, LOWER, UPPER, LENGTH, SUBSTRING, LEFT, CONCAT, TRIM, EXTRACT, YEAR, QUARTER, MONTH, DAY, "
    "DATE_TRUNC, CAST"
)
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")

Columns = Mapping[str, str] | Callable[[exp.Column], Value]


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
    forms.check_size(found.sql)
    return found


def _shown(node: exp.Expression) -> str:
    text = node.sql()
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class _Rewriter:
    """Walks an expression; `column` says what a name stands for."""

    column: Callable[[exp.Column], Value]
    steps: list[None] = field(default_factory=list)

    def condition(self, node: exp.Expression) -> Value:
        found = self.value(node)
        if found.kind == "null":
            return Value(forms.cast(found.sql, "BOOLEAN"), "boolean")
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
                return forms.constant_of(node)
            case exp.Null():
                return Value(exp.null(), "null")
            case exp.Boolean():
                return Value(node.copy(), "boolean", constant=bool(node.this))
            case exp.Neg():
                return self.negated(node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.SafeDivide():
                _only(node, "this", "expression", "typed", "safe")
                return forms.arithmetic(node, number(self.value(node.this)), number(self.value(node.expression)))
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
                sql = forms.extreme_of(type(node), *(v.sql for v in values))
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
            return forms.public(-value.constant)
        inner = number(value)
        return replace(inner, sql=exp.Paren(this=exp.Neg(this=inner.sql)), constant=None)

    def remainder(self, node: exp.Expression) -> Value:
        left, right = self.value(node.this), self.value(node.expression)
        if left.kind != "integer" or right.kind != "integer" or right.constant is None or right.constant < 1:
            raise Refused(
                "MOD and % need a whole number and a positive constant, such as MOD(a, 10); CAST(a AS BIGINT) makes a whole number"
            )
        sql = exp.Mod(this=forms.cast(left.sql, "BIGINT"), expression=right.sql)
        return Value(exp.Paren(this=sql), "integer", float(right.constant), 1.0)

    def logic(self, node: exp.Expression) -> Value:
        parts = [node.this] if isinstance(node, exp.Not) else [node.this, node.expression]
        values = [self.value(part) for part in parts]
        for value in values:
            if value.kind not in ("boolean", "null"):
                raise Refused(
                    f"{node.key.upper()} joins conditions, and {value.name or 'an operand'} is a {value.kind}; compare it with something"
                )
        sqls = [forms.cast(v.sql, "BOOLEAN") if v.kind == "null" else v.sql for v in values]
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
        sql: exp.Expression = type(node)(this=forms.as_text(self.value(node.this), "LIKE").sql, expression=pattern.copy())
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
            return [forms.as_number(v, kinds, what, plain) for v in values]
        if len(kinds) > 1:
            raise Refused(f"the operands of {what} must be of one kind, and they are {' and '.join(sorted(kinds))}; CAST one of them")
        (kind,) = kinds
        if kind == "other" or (kind == "boolean" and ordered and any(v.kind not in ("boolean", "null") for v in values)):
            raise Refused(f"{what} cannot use a value of this type; CAST it to a number, a text, a date or a timestamp first")
        return [forms.as_kind(v, kind, what) for v in values]

    def cast(self, node: exp.Expression) -> Value:
        _only(node, "this", "to", "safe")
        wanted, value = node.args["to"], self.value(node.this)
        name = str(wanted.this.value if hasattr(wanted.this, "value") else wanted.this).upper()
        shown = value.name or "..."
        if name in ("DOUBLE", "FLOAT", "REAL"):
            return number(forms.read_number(value), "a number") if value.kind != "boolean" else number(forms.as_whole(value))
        if name in ("INT", "BIGINT", "SMALLINT", "TINYINT"):
            return forms.as_whole(value)
        if name in ("TEXT", "VARCHAR", "CHAR", "NVARCHAR"):
            if value.kind in ("real", "float", "decimal") or wanted.expressions:
                raise Refused(
                    f"CAST({shown} AS {name}) writes numbers differently on each engine; round it to a whole number first, without a length"
                )
            return value if value.kind == "text" else Value(forms.cast(value.sql, "TEXT"), "text", name=value.name)
        if name in ("DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"):
            return forms.as_date(value, "date" if name == "DATE" else "timestamp")
        if name == "BOOLEAN" and value.kind in ("boolean", "null"):
            return Value(forms.cast(value.sql, "BOOLEAN"), "boolean")
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
                value = forms.flushed(number(self.value(node.this), "SQRT"))
                edge = forms.double(-1e-300)
                sql = exp.Nullif(this=forms.extreme_of(exp.Greatest, value.sql, edge), expression=edge.copy())
                return Value(exp.Sqrt(this=sql), "float", GREATEST, 1e-74)
            case exp.Ln():
                return forms.logarithm(number(self.value(node.this), "LN"))
            case exp.Log():
                base = (
                    forms.constant_of(node.this)
                    if node.expression is not None and isinstance(node.this, exp.Literal)
                    else forms.public(Fraction(10))
                )
                if (
                    (node.expression is not None and not isinstance(node.this, exp.Literal))
                    or base.constant is None
                    or base.constant <= 0
                    or base.constant == 1
                ):
                    raise Refused("the base of LOG must be a positive constant other than 1")
                top = forms.logarithm(number(self.value(node.expression if node.expression is not None else node.this), "LOG"))
                return forms.arithmetic(exp.Div(), top, forms.public(Fraction(math.log(base.constant))))
            case exp.Exp():
                return forms.exponential(number(self.value(node.this), "EXP"))
            case exp.Pow():
                return self.power(node)
            case exp.Lower() | exp.Upper():
                return Value(type(node)(this=forms.as_text(self.value(node.this), node.key.upper()).sql), "text")
            case exp.Trim():
                _only(node, "this")
                return Value(exp.Trim(this=forms.as_text(self.value(node.this), "TRIM").sql), "text")
            case exp.Length():
                _only(node, "this")
                return Value(
                    forms.cast(exp.Length(this=forms.as_text(self.value(node.this), "LENGTH").sql), "BIGINT"), "integer", 2.0**31, 1.0
                )
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
        scaled = value if not places else forms.arithmetic(exp.Mul(), value, forms.public(Fraction(10**places)))
        up = exp.Floor(this=exp.Add(this=scaled.sql, expression=forms.double(0.5)))
        return forms.divided(Value(up, "float", scaled.most * 2 + 1, 1.0), 10**places)

    def power(self, node: exp.Expression) -> Value:
        base, exponent = number(self.value(node.this), "POWER"), number(self.value(node.expression), "POWER")
        k = exponent.constant
        if k is not None and k == int(k) and 0 < abs(k) <= 8:
            order = abs(int(k))
            reach = 290 // order
            within = forms.flushed(settled(base, min(GREATEST, 10.0**reach)), max(FLUSH, 10.0 ** (18 - reach)), max(LEAST, 10.0**-reach))
            raised = settled(Value(exp.Pow(this=within.sql, expression=forms.double(order)), "float", 1e300, 1e-300))
            return raised if k > 0 else forms.arithmetic(exp.Div(), forms.public(Fraction(1)), raised)
        # x^y = exp(y ln x), for positive x only.
        return forms.exponential(forms.arithmetic(exp.Mul(), exponent, forms.logarithm(base)))

    def substring(self, node: exp.Expression) -> Value:
        _only(node, "this", "start", "length", "expression")
        start = 1 if isinstance(node, exp.Left) else _whole_constant(node.args.get("start"), 1, 1, LONGEST, "the start of SUBSTRING")
        given = node.expression if isinstance(node, exp.Left) else node.args.get("length")
        length = _whole_constant(given, LONGEST, 0, LONGEST, "the length of SUBSTRING")
        return Value(forms.cut(forms.as_text(self.value(node.this), "SUBSTRING").sql, start, length), "text")

    def joined(self, node: exp.Expression) -> Value:
        _only(node, "this", "expression", "expressions", "safe", "coalesce")
        nodes = node.expressions if isinstance(node, exp.Concat) else _operands(node)
        parts = [forms.cut(forms.as_text(self.value(part), "CONCAT").sql, 1, LONGEST) for part in nodes]
        if node.args.get("coalesce"):
            parts = [exp.Coalesce(this=part, expressions=[exp.Literal.string("")]) for part in parts]
        sql = parts[0]
        for part in parts[1:]:
            sql = exp.DPipe(this=sql, expression=part)
        return Value(exp.Paren(this=sql), "text")

    def part(self, name: str, inner: exp.Expression) -> Value:
        value = self.value(inner)
        if isinstance(inner, (exp.TsOrDsToDate, exp.Cast)) and value.kind == "text":
            value = forms.as_date(value, "date")
        if name not in PARTS or value.kind not in ("date", "timestamp") or (name in ("HOUR", "MINUTE") and value.kind == "date"):
            raise Refused(f"EXTRACT takes {', '.join(PARTS)} of a date or timestamp; CAST({value.name or '...'} AS DATE) makes one")
        found = forms.cast(exp.Extract(this=exp.Var(this=name), expression=forms.dated(value)), "BIGINT")
        return Value(found, "integer", 10_000.0, 1.0)

    def truncated(self, node: exp.Expression) -> Value:
        _only(node, "this", "unit", "input_type_preserved", "zone")
        unit, value = node.args["unit"].name.upper(), self.value(node.this)
        if unit not in _UNITS or value.kind not in ("date", "timestamp") or node.args.get("zone") is not None:
            raise Refused(f"DATE_TRUNC takes {', '.join(_UNITS)} and a date or timestamp; CAST({value.name or '...'} AS DATE) makes one")
        stamp = forms.cast(forms.dated(value), "TIMESTAMP")
        sql = exp.TimestampTrunc(this=stamp, unit=exp.Var(this=unit))
        return Value(forms.cast(sql, "DATE") if value.kind == "date" else sql, value.kind)


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a || b || c."""
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.DPipe):
        return _operands(node.this)
    return [*_operands(node.this), *_operands(node.expression)] if isinstance(node, exp.DPipe) else [node]


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
