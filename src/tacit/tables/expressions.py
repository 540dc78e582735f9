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

from tacit.tables import forms, grammar
from tacit.tables.dates import dated_value, days_between, moved_by
from tacit.tables.dialects import TO_EVEN, TRUNCATING
from tacit.tables.errors import Refused, TableError
from tacit.tables.forms import (
    ALLOWED,
    FLUSH,
    GREATEST,
    LEAST,
    NUMBERS,
    number,
    settled,
    whole_constant,
)
from tacit.tables.values import MOST_NODES, Value, cast, check_size, column

__all__ = ["ALLOWED", "NUMBERS", "Columns", "number", "settled", "total", "why_not"]

#: The longest regular expression, and the longest text that is put in place of another.
PATTERN, SHORT = 300, 100
#: Longer texts are cut here before they are joined, so that no text grows without limit.
LONGEST = 10_000

#: What puts two values in order.
SIDES = (exp.LT, exp.LTE, exp.GT, exp.GTE)

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
    check_size(found.sql)
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
            return Value(cast(found.sql, "BOOLEAN"), "boolean")
        if found.kind != "boolean":
            raise Refused(f"a condition must be true or false, and {_shown(node)} is not; compare it with something")
        return found

    def value(self, node: exp.Expression) -> Value:
        # CASE x WHEN ... and BETWEEN write a part several times, so that nesting them could take for ever.
        self.steps.append(None)
        if len(self.steps) > MOST_NODES:
            raise Refused("an expression is too large once every step of it is made safe; compute parts of it in a sub-query")
        found = self._value(node)
        grammar.only(node)  # last, because the readers say better why
        return found

    def _value(self, node: exp.Expression) -> Value:
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
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.SafeDivide() | exp.IntDiv():
                return self.arithmetic(node)
            case exp.Mod():
                return self.remainder(node)
            case exp.And() | exp.Or() | exp.Not():
                return self.logic(node)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.compared(type(node), node.this, node.expression)
            case exp.Between():
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
                values = self.alike([node.this, *node.expressions], node.key.upper(), ordered=not isinstance(node, exp.Coalesce))
                sql = forms.extreme_of(type(node), *(v.sql for v in values))
                if not isinstance(node, exp.Coalesce) and sum(v.listed for v in values) > 1:
                    forms.in_order(next(v for v in values if v.listed), node.key.upper())
                if not isinstance(node, exp.Coalesce) and not node.args.get("ignore_nulls"):
                    sql = forms.unless_missing([v.sql for v in values], sql)  # as BigQuery and MySQL have it
                return forms.one_of(sql, values)
            case exp.Nullif():
                first, second = self.alike([node.this, node.expression], "NULLIF")
                return forms.one_of(exp.Nullif(this=first.sql, expression=second.sql), [first, second])
            case exp.Cast():
                return self.cast(node)
        return self.function(node)

    def arithmetic(self, node: exp.Expression) -> Value:
        if isinstance(node, (exp.Add, exp.Sub)) and isinstance(node.expression, exp.Interval):
            step = node.expression
            return moved_by(self.value, node.this, step.this, step.args.get("unit"), -1 if isinstance(node, exp.Sub) else 1)
        left, right = self.value(node.this), self.value(node.expression)
        if isinstance(node, exp.Sub) and left.kind == right.kind == "date":
            return days_between(right, left)
        if isinstance(node, exp.Add) and "text" in (left.kind, right.kind) and {left.kind, right.kind} <= {"text", "null"}:
            raise Refused("+ adds numbers; texts are joined by a || b, or by CONCAT(a, b)")
        both_whole = left.kind == right.kind == "integer" and not any(_pointed(part) for part in (node.this, node.expression))
        if isinstance(node, exp.IntDiv) and not both_whole:
            raise Refused("whole division needs two whole numbers; write FLOOR(a / b), or CAST(a AS BIGINT) first")
        if isinstance(node, exp.IntDiv) or (isinstance(node, exp.Div) and node.args.get("typed") and both_whole):
            # In the user's dialect 7 / 2 is 3.
            return forms.whole_quotient(number(left), number(right))
        return forms.arithmetic(node, _numeric(left), _numeric(right))

    def negated(self, node: exp.Expression) -> Value:
        value = self.value(node.this)
        if value.constant is not None and value.kind in ("integer", "float"):
            return forms.public(-value.constant)
        if value.kind in ("integer", "decimal"):
            return forms.arithmetic(exp.Sub(), forms.public(Fraction(0)), value)  # -(-2^63) is no 64-bit integer
        inner = number(value)
        return replace(inner, sql=exp.Paren(this=exp.Neg(this=inner.sql)), constant=None)

    def remainder(self, node: exp.Expression) -> Value:
        left, right = self.value(node.this), self.value(node.expression)
        # A whole number of more than 64 bits has its remainder in its own type.
        wide = left.kind == "decimal" and left.constant is None and left.size is not None and not left.size[1]
        if (left.kind != "integer" and not wide) or right.kind != "integer" or right.constant is None or right.constant < 1:
            raise Refused(
                "MOD and % need a whole number and a positive constant, such as MOD(a, 10); CAST(a AS BIGINT) makes a whole number"
            )
        sql = exp.Mod(this=left.sql if wide else cast(left.sql, "BIGINT"), expression=right.sql)
        made = cast(exp.Paren(this=sql), "BIGINT") if wide else exp.Paren(this=sql)
        return Value(made, "integer", float(right.constant), 1.0)

    def logic(self, node: exp.Expression) -> Value:
        parts = [node.this] if isinstance(node, exp.Not) else [node.this, node.expression]
        values = [self.value(part) for part in parts]
        for value in values:
            if value.kind not in ("boolean", "null"):
                raise Refused(
                    f"{node.key.upper()} joins conditions, and {value.name or 'an operand'} is a {value.kind}; compare it with something"
                )
        sqls = [cast(v.sql, "BOOLEAN") if v.kind == "null" else v.sql for v in values]
        sql = exp.Not(this=sqls[0]) if isinstance(node, exp.Not) else type(node)(this=sqls[0], expression=sqls[1])
        return Value(exp.Paren(this=sql), "boolean")

    def compared(self, operator: type[exp.Expression], left: exp.Expression, right: exp.Expression) -> Value:
        values = [self.value(left), self.value(right)]
        if operator in SIDES and all(value.listed for value in values):
            # Beside another text an enumeration is a text; two of them are in the order of their list.
            forms.in_order(values[0], "a comparison of two of them")
        beside = forms.beside_nanoseconds(operator, *values)
        if beside is not None:
            return beside
        first, second = self.brought(values, "a comparison", ordered=True, plain=True)
        return Value(exp.Paren(this=operator(this=first.sql, expression=second.sql)), "boolean")

    def member(self, node: exp.Expression) -> Value:
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise Refused(
                "IN with a sub-query is not a function of one row; list the values, or join the table instead: a public one as it is, "
                "a private one once for each person: JOIN (SELECT person FROM other GROUP BY person) AS o USING (person)"
            )
        if any(any(part.find_all(exp.Column, exp.Query)) for part in node.expressions):
            raise Refused("IN needs a list of constants")
        values = self.alike([node.this, *node.expressions], "IN", ordered=True, plain=True)
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
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.this:
            raise Refused("LIKE needs a constant pattern without a backslash, such as 'a%'")
        sql: exp.Expression = type(node)(this=forms.seen_whole(self.value(node.this), "LIKE").sql, expression=pattern.copy())
        return Value(exp.Paren(this=sql), "boolean")

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
        return forms.one_of(exp.Case(ifs=ifs, default=values[-1].sql if other is not None else None), values)

    def alike(self, nodes: Sequence[exp.Expression], what: str, *, ordered: bool = False, plain: bool = False) -> list[Value]:
        """Operands brought to one kind; constants follow the others. With `plain`, columns need no guard, because nothing is computed."""
        return self.brought([self.value(node) for node in nodes], what, ordered=ordered, plain=plain)

    def brought(self, values: list[Value], what: str, *, ordered: bool = False, plain: bool = False) -> list[Value]:
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
        if "nanoseconds" in kinds:
            return forms.of_nanoseconds(values, kinds, what)
        if plain and forms.comparable(values):
            return [forms.as_it_is(v) for v in values]
        pointed = any(isinstance(v.constant, Fraction) and v.constant.denominator > 1 for v in map(_read, values))
        if kinds <= {"integer", "decimal", "float"} and (kinds != {"integer"} or pointed):
            exact = forms.exactly([_read(v) for v in values], plain)
            if exact is not None:
                return exact
        if plain and kinds <= {"integer", "decimal", "real"} and any(v.single for v in values):
            return [forms.beside_single(_read(v)) for v in values]
        if kinds <= {"integer", "decimal", "real", "float"}:
            found = [forms.as_number(v, kinds, what, plain) for v in values]
            return [forms.shortened(v) for v in found] if forms.without_common_size([_read(v) for v in values]) else found
        if len(kinds) > 1:
            raise Refused(f"the operands of {what} must be of one kind, and they are {' and '.join(sorted(kinds))}; CAST one of them")
        (kind,) = kinds
        if kind == "text":
            # A number beside a column of texts: as texts, '9' comes after '10', so the fix is to read the column as numbers.
            numbers = any(v.constant is not None and v.kind in ("integer", "decimal", "float") for v in values)
            if numbers and (column := next((v.name for v in values if v.kind == "text" and v.name), None)):
                raise Refused(code="text-not-number", column=column, written=column, what=what)
        if kind == "instant":
            raise Refused(forms.in_zone(next(v for v in values if v.kind == "instant")))
        truths = all(v.kind in ("boolean", "null") or (v.kind == "integer" and v.constant in (0, 1)) for v in values)
        if kind == "other" or (kind == "boolean" and ordered and not truths):
            raise Refused(f"{what} cannot use a value of this type; CAST it to a number, a text, a date or a timestamp first")
        padded = [v for v in values if v.padded]
        if padded and any(v.kind == "text" and v.constant is None and not v.padded for v in values):
            # PostgreSQL compares a char(n) and a varchar without the blanks at their ends, and a char(n) and a text with them.
            both = "a comparison with another text, or a choice between the two"
            raise Refused(code="text-padded", column=padded[0].name or "a value", what=both)
        return [forms.as_kind(v, kind, what) for v in (forms.unpadded(values) if kind == "text" else values)]

    def cast(self, node: exp.Expression) -> Value:
        wanted, value = node.args["to"], self.value(node.this)
        name = str(wanted.this.value if hasattr(wanted.this, "value") else wanted.this).upper()
        shown = value.name or "..."
        if name in ("DOUBLE", "FLOAT", "REAL"):
            return number(forms.read_number(value), "a number") if value.kind != "boolean" else number(forms.as_whole(value))
        if name in ("DECIMAL", "BIGDECIMAL", "MONEY"):
            return self.to_decimals(_numeric(forms.read_number(value)), wanted)
        if name in ("INT", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT"):
            if value.kind == "decimal" and value.size is not None and node.meta.get(TRUNCATING):
                return forms.narrowed(forms.cut_decimals(value))
            if node.meta.get(TRUNCATING) and value.kind not in ("integer", "boolean", "null"):
                value = forms.cut_off(number(forms.read_number(value), "a whole number"))
            elif value.kind in ("real", "float") and value.constant is None and not _to_even(node, value):
                value = forms.away(number(value))
            if _to_even(node, value) and value.kind in ("real", "float") and value.constant is None and value.least != 1.0:
                value = forms.to_even(number(value))
            return forms.as_whole(value)
        if name in ("TEXT", "VARCHAR", "CHAR", "NVARCHAR"):
            if value.kind == "instant":
                raise Refused(forms.in_zone(value))
            if value.kind in ("real", "float", "decimal") or wanted.expressions:
                raise Refused(
                    f"CAST({shown} AS {name}) writes numbers differently on each engine; round it to a whole number first, without a length"
                )
            if value.kind == "text":
                return replace(value, padded=False, listed=False)
            return Value(cast(value.sql, "TEXT"), "text", name=value.name)
        if name in ("DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"):
            return forms.as_date(value, "date" if name == "DATE" else "timestamp")
        if name == "BOOLEAN" and value.kind in ("boolean", "null"):
            return Value(cast(value.sql, "BOOLEAN"), "boolean")
        raise Refused(f"CAST AS {name} is not allowed; cast to DOUBLE, BIGINT, VARCHAR, DATE or TIMESTAMP, and write conditions with CASE")

    def to_decimals(self, value: Value, wanted: exp.Expression) -> Value:
        """Rounded to the decimals of DECIMAL(p, s); one without a scale is a number as it is."""
        if not wanted.expressions:
            return value
        digits = whole_constant(wanted.expressions[0].this, 18, 1, 38, "the digits of DECIMAL(p, s)")
        places = wanted.expressions[1].this if len(wanted.expressions) == 2 else exp.Literal.number(0)
        decimals = whole_constant(places, 0, 0, digits, "the decimals of DECIMAL(p, s)")
        if forms.exact(value) and value.constant is None:
            return forms.rounded_decimal(value, decimals)
        # A float that does not fit is NULL: no engine's cast fails, as each is made one that cannot.
        inside = settled(replace(number(value, "a number"), most=math.inf), 10.0 ** (digits - decimals))
        sql = exp.Cast(this=inside.sql, to=exp.DataType.build(f"DECIMAL({digits}, {decimals})"))
        return Value(sql, "decimal", 10.0 ** (digits - decimals), 10.0**-decimals, size=(digits, decimals))

    def function(self, node: exp.Expression) -> Value:
        of_dates = dated_value(node, self.value)
        if of_dates is not None:
            return of_dates
        match node:
            case exp.Trunc():
                return forms.cut_off(number(self.value(node.this), "TRUNC"))
            case exp.Sign():
                return self.sign(number(self.value(node.this), "SIGN"))
            case exp.StartsWith():
                return self.starts(node)
            case exp.Right():
                length = whole_constant(node.expression, 0, 0, LONGEST, "the length of RIGHT")
                text = forms.as_text(self.value(node.this), "RIGHT").sql
                return Value(exp.Right(this=text, expression=exp.Literal.number(length)), "text")
            case exp.Abs() | exp.Floor() | exp.Ceil():
                value = self.value(node.this)
                if value.constant is None and forms.exact(value):
                    found = forms.of_decimal(type(node), value)
                    if found is not None:
                        return found
                value = number(value, node.key.upper())
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
                return Value(exp.Trim(this=forms.as_text(self.value(node.this), "TRIM").sql), "text")
            case exp.Length():
                return Value(
                    cast(exp.Length(this=forms.as_text(self.value(node.this), "LENGTH").sql), "BIGINT"), "integer", 2.0**31, 1.0
                )
            case exp.Substring() | exp.Left():
                return self.substring(node)
            case exp.Concat() | exp.DPipe():
                return self.joined(node)
            case exp.StrToTime() | exp.StrToDate():
                return self.dated(node)
            case exp.Replace():
                return self.replaced(node)
            case exp.RegexpLike() | exp.RegexpFullMatch() | exp.RegexpExtract() | exp.RegexpReplace():
                return self.regular(node)
        raise Refused(why_not(node))

    def dated(self, node: exp.Expression) -> Value:
        """STRPTIME and its kin: a text read as a date in one written form; NULL where it is not in that form, on every engine."""
        written = node.args.get("format")
        if not isinstance(written, exp.Literal) or not written.is_string:
            raise Refused("STRPTIME needs a constant format, such as STRPTIME(day, '%d.%m.%Y')")
        name = "STRPTIME" if isinstance(node, exp.StrToTime) else "TO_DATE"
        kind = "date" if isinstance(node, exp.StrToDate) else "timestamp"
        return forms.in_form(forms.as_text(self.value(node.this), name), written.this, kind)

    def replaced(self, node: exp.Expression) -> Value:
        old, new = node.expression, node.args.get("replacement")
        texts = [part.this for part in (old, new) if isinstance(part, exp.Literal) and part.is_string]
        if len(texts) != 2 or not texts[0] or max(map(len, texts)) > SHORT:
            raise Refused(f"REPLACE needs two constants of at most {SHORT} characters, the first not empty: REPLACE(code, '-', '')")
        text = forms.cut(forms.as_text(self.value(node.this), "REPLACE").sql, 1, LONGEST)
        return Value(exp.Replace(this=text, expression=exp.Literal.string(texts[0]), replacement=exp.Literal.string(texts[1])), "text")

    def regular(self, node: exp.Expression) -> Value:
        """Regular expressions of RE2, which takes time in proportion to the text whatever the expression is. Other engines are refused
        when the question is planned: theirs can take for ever."""
        pattern, new = node.expression, node.args.get("replacement")
        if not isinstance(pattern, exp.Literal) or not pattern.is_string or len(pattern.this) > PATTERN:
            raise Refused(f"a regular expression is a constant of at most {PATTERN} characters: REGEXP_MATCHES(code, '^A[0-9]+')")
        forms.check_pattern(pattern.this)
        text = forms.cut(forms.as_text(self.value(node.this), node.key.upper()).sql, 1, LONGEST)
        made: exp.Expression
        if isinstance(node, exp.RegexpExtract):
            group = whole_constant(node.args.get("group"), 0, 0, 9, "the group of REGEXP_EXTRACT")
            made = exp.Anonymous(this="REGEXP_EXTRACT", expressions=[text, pattern.copy(), exp.Literal.number(group)])
        elif isinstance(node, exp.RegexpReplace):
            if not isinstance(new, exp.Literal) or not new.is_string or len(new.this) > SHORT or "\\" in new.this:
                raise Refused(f"REGEXP_REPLACE puts a constant of at most {SHORT} characters, without a backslash, in place of what it "
                              "finds")
            modifiers = node.args.get("modifiers")
            if modifiers is not None and (not isinstance(modifiers, exp.Literal) or modifiers.this not in ("", "g")):
                raise Refused("of the options of REGEXP_REPLACE only 'g' is understood")
            every = [exp.Literal.string("g")] if modifiers is not None and modifiers.this == "g" else []
            made = exp.Anonymous(this="REGEXP_REPLACE", expressions=[text, pattern.copy(), new.copy(), *every])
        else:
            name = "REGEXP_FULL_MATCH" if isinstance(node, exp.RegexpFullMatch) else "REGEXP_MATCHES"
            made = exp.Anonymous(this=name, expressions=[text, pattern.copy()])
            return Value(exp.Paren(this=made), "boolean")
        return Value(made, "text")

    def sign(self, value: Value) -> Value:
        check_size(value.sql)
        zero, one = exp.Literal.number(0), exp.Literal.number(1)
        ifs = [
            exp.If(this=operator(this=value.sql.copy(), expression=forms.double(0.0)), true=result)
            for operator, result in ((exp.GT, one), (exp.LT, exp.Neg(this=one.copy())), (exp.EQ, zero))
        ]
        return Value(exp.Case(ifs=ifs), "integer", 1.0, 1.0)

    def starts(self, node: exp.Expression) -> Value:
        prefix = node.expression
        if not isinstance(prefix, exp.Literal) or not prefix.is_string or len(prefix.this) > LONGEST:
            raise Refused("STARTS_WITH needs a constant, such as STARTS_WITH(code, 'A')")
        text = forms.as_text(self.value(node.this), "STARTS_WITH").sql
        return Value(exp.Paren(this=exp.EQ(this=forms.cut(text, 1, len(prefix.this)), expression=prefix.copy())), "boolean")

    def rounded(self, node: exp.Expression) -> Value:
        places, value = whole_constant(node.args.get("decimals"), 0, 0, 15, "the decimals of ROUND"), self.value(node.this)
        if forms.exact(value) and value.constant is None:
            return forms.rounded_decimal(value, places)
        even = _to_even(node, value)
        value = number(value, "ROUND")
        scaled = value if not places else forms.arithmetic(exp.Mul(), value, forms.public(Fraction(10**places)))
        # Halves go away from zero, and in PostgreSQL's dialect to the even one.
        found = forms.to_even(scaled) if even else forms.away(scaled)
        return forms.divided(found, 10**places)

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
        start = 1 if isinstance(node, exp.Left) else whole_constant(node.args.get("start"), 1, 1, LONGEST, "the start of SUBSTRING")
        given = node.expression if isinstance(node, exp.Left) else node.args.get("length")
        length = whole_constant(given, LONGEST, 0, LONGEST, "the length of SUBSTRING")
        return Value(forms.cut(forms.as_text(self.value(node.this), "SUBSTRING").sql, start, length), "text")

    def joined(self, node: exp.Expression) -> Value:
        nodes = node.expressions if isinstance(node, exp.Concat) else _operands(node)
        values = [self.value(part) for part in nodes]
        if isinstance(node, exp.Concat):
            values = [forms.seen_whole(value, "CONCAT") if value.padded else value for value in values]
        parts = [forms.cut(_joinable(value).sql, 1, LONGEST) for value in values]
        if node.args.get("coalesce"):
            parts = [exp.Coalesce(this=part, expressions=[exp.Literal.string("")]) for part in parts]
        sql = parts[0]
        for part in parts[1:]:
            sql = exp.DPipe(this=sql, expression=part)
        return Value(exp.Paren(this=sql), "text")


def _read(value: Value) -> Value:
    """A text constant that is compared with numbers, as the number it writes."""
    return forms.as_constant(value) if value.kind == "text" and value.constant is not None else value


def _to_even(node: exp.Expression, value: Value) -> bool:
    """Whether halves become even: those of floats, where the dialect says so. To PostgreSQL a quotient of exact numbers is a decimal."""
    dialect = node.meta.get(TO_EVEN)
    return dialect is not None and not (value.quotient and dialect != "duckdb")


def _numeric(value: Value) -> Value:
    """A number for arithmetic: exact ones as they are, others as guarded floats."""
    return value if forms.exact(value) or value.wide else number(value)


def _pointed(node: exp.Expression) -> bool:
    """Whether a constant is written as a fraction: 10.0 is no whole number to a dialect that tells them apart."""
    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string and not node.this.isdigit()


def _joinable(value: Value) -> Value:
    """A part of CONCAT: whole numbers are written alike everywhere."""
    return Value(cast(value.sql, "TEXT"), "text") if value.kind == "integer" else forms.as_text(value, "CONCAT")


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a || b || c."""
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.DPipe):
        return _operands(node.this)
    return [*_operands(node.this), *_operands(node.expression)] if isinstance(node, exp.DPipe) else [node]


def why_not(node: exp.Expression) -> str:
    """Why a node is not on the list."""
    name = (node.name if isinstance(node, exp.Anonymous) else getattr(node, "sql_name", lambda: node.key)()).upper()
    if isinstance(node, (exp.Query, exp.Exists, exp.Subquery)):
        return "a sub-query inside an expression can depend on all people's rows; join the table, or select from a sub-query instead"
    if isinstance(node, exp.Window):
        return (
            "window functions mix people's rows, so one person's effect is not bounded; aggregate by person in a sub-query instead, "
            "or number each person's own rows there: ROW_NUMBER() OVER (PARTITION BY person ORDER BY day) AS place"
        )
    if isinstance(node, (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentDatetime, exp.CurrentTime)):
        return f"{name} changes from day to day, so the question would too; write the date itself: DATE '2026-01-31'"
    if isinstance(node, (exp.TimeToStr, exp.ToChar)):
        return f"{name} writes dates differently on each engine; group by DATE_TRUNC('month', day), or by YEAR(day) and MONTH(day)"
    if isinstance(node, exp.Interval):
        return "an INTERVAL is added to a date, day + INTERVAL 30 DAY; durations cannot be compared, DATE_DIFF('day', a, b) can"
    if isinstance(node, exp.Star):
        return "SELECT * is not a question: name the columns"
    if isinstance(node, exp.AggFunc):
        return f"{name} cannot stand here: an aggregate may not be inside another, nor in WHERE or GROUP BY"
    return (
        f"{name} is not one of the functions a question may use, because it must be the same function of a row on every engine "
        f"and never fail; allowed are {ALLOWED}"
    )
