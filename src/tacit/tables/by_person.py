"""Sub-queries that aggregate each person's own rows: one row a person, or one for each person and some other columns.

What is computed of a person's rows touches no other person's, so the relation still belongs to people, and none of its aggregates can fail.

>>> from sqlglot import parse_one
>>> from tacit.tables.from_clause import rows_of
>>> from tacit.tables.relation import Catalog, Table
>>> catalog = Catalog({"visits": Table({"id": "BIGINT", "age": "INTEGER"})}, Unit("id", max_rows=3))
>>> found, _ = rows_of(parse_one("SELECT 1 FROM (SELECT id, COUNT(*) AS n FROM visits GROUP BY id) t"), catalog)
>>> found.rows_per_person, found.names
(1, ('id', 'n'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from tacit.tables.errors import Refused
from tacit.tables.expressions import number, settled, total
from tacit.tables.forms import arithmetic, as_whole, double, held, in_order, narrowed, public
from tacit.tables.question import grouped_by
from tacit.tables.question import narrowed as both_hold
from tacit.tables.relation import Field, Relation, Resolve, add, carried, field_of, find, nested, type_of
from tacit.tables.unit import Unit
from tacit.tables.values import Value, exact_literal

#: The greatest number in a person's sum: with 2^33 rows of it, 127 bits hold the sum of what is above 2^-13, and 127 others of the rest.
LARGEST, COARSE, FINE = 2.0**80, 2.0**13, 2.0**106
#: More rows of one person than this are not foreseen; a sum of so many decimals must fit into 38 digits.
ROWS = 2.0**33


def exact_sum(value: Value) -> Value:
    """The sum of a person's rows, added up in whole numbers: a sum of floats depends on the order of rows, which is not hers alone.

    (1e100 + 1) - 1e100 is 0 and (1e100 - 1e100) + 1 is 1, so that one person's coming could change all sums, by way of the
    order in which an engine then meets the rows (Casacuberta, Shoemate, Vadhan and Wagaman 2022).

    >>> exact_sum(Value(exp.column("n"), "integer", 2.0**63)).sql.sql("duckdb")
    'CAST(SUM(CAST(n AS BIGINT)) AS DECIMAL(30, 0))'
    """
    if value.kind == "integer":
        whole = exp.Sum(this=exp.cast(value.sql, "BIGINT"))
        if value.most <= 2.0**32:
            # A 64-bit integer in every dialect that tells them apart, so that its quotient by a count is one there too.
            return Value(exp.cast(whole, "BIGINT"), "integer", 2.0**63, 1.0, size=(19, 0))
        return Value(exp.cast(whole, "DECIMAL(30, 0)"), "decimal", 1e30, 1.0, size=(30, 0))
    if value.kind == "decimal" and value.size is None:
        return Value(exp.Sum(this=value.sql), "decimal", value.most * ROWS)  # PostgreSQL adds its numbers up exactly
    if value.kind == "decimal" and value.size is not None:
        # As whole numbers, which every engine has a wide sum of: 12.99 as 1299.
        digits, places = max(value.size[0] + 10, 19), value.size[1]
        made = arithmetic(exp.Mul(), value, public(Fraction(10**places))) if places else value
        scaled = made.sql
        total_ = exp.cast(exp.Sum(this=exp.cast(scaled, f"DECIMAL({value.size[0]}, 0)")), f"DECIMAL({digits}, 0)")
        back: exp.Expression = total_
        if places:
            back = exp.Paren(this=exp.Mul(this=total_, expression=exact_literal(Fraction(1, 10**places), (places, places))))
        return Value(back, "decimal", value.most * ROWS, value.least, size=(digits + 1, places))
    coarse = _nearest(value.sql, COARSE)
    rest = exp.Paren(this=exp.Sub(this=value.sql.copy(), expression=exp.Mul(this=coarse.copy(), expression=double(1 / COARSE))))
    parts = []
    for part, scale in ((coarse, COARSE), (_nearest(rest, FINE), FINE)):
        summed = exp.cast(exp.Sum(this=exp.cast(part, "DECIMAL(38, 0)")), "DOUBLE")
        parts.append(exp.Mul(this=summed, expression=double(1 / scale)))
    return Value(exp.Paren(this=exp.Add(this=parts[0], expression=parts[1])), "float", 2.0**114, 2.0**-106)


def _nearest(sql: exp.Expression, times: float) -> exp.Expression:
    scaled = exp.Mul(this=sql.copy(), expression=double(times))
    return exp.Floor(this=exp.Add(this=scaled, expression=double(0.5)))


@dataclass(frozen=True)
class Grouping:
    """A sub-query that aggregates each person's own rows."""

    unit: Unit
    rows: Relation
    resolve: Resolve
    node: exp.Select

    def relation(self) -> Relation:
        keys = grouped_by(self.node.args["group"], self.node.expressions, self.resolve)
        values = [total(key, self.resolve) for key in keys]
        made = [field_of("", value, self.rows) for value in values]
        if self.rows.person is None or not any(f.person for f in made):
            raise Refused(
                f"a sub-query that aggregates must GROUP BY the person ({self.unit.person or 'the unit has none'}): "
                "otherwise its rows have no owner"
            )
        chosen, fields = carried(self.rows)
        aggregates: dict[str, Value] = {}
        for projection in self.node.expressions:
            inner = projection.unalias()
            name = projection.alias or (inner.name if isinstance(inner, exp.Column) else "")
            if not name:
                raise Refused("give every expression of a sub-query a name: SELECT id, COUNT(*) AS visits")
            place = next((i for i, key in enumerate(keys) if key == inner), None)
            value = values[place] if place is not None else total(self._held(inner, aggregates), self._seen(keys, values, aggregates))
            field = made[place] if place is not None else Field(name, type_of(value), about=self._within(inner))
            add(chosen, fields, self.rows.person, name, value.sql, field)
        query = exp.Select(expressions=chosen).from_(self.rows.expression(), copy=False)
        where, having = self.node.args.get("where"), self.node.args.get("having")
        if where is not None:
            query = query.where(total(where.this, self.resolve, boolean=True).sql, copy=False)
        person = exp.column(self.rows.person, quoted=True)
        others = [value.sql for value in values if value.sql != person]
        query.set("group", exp.Group(expressions=[person, *(sql.copy() for sql in others)]))
        if having is not None:
            condition = total(self._held(having.this, aggregates), self._seen(keys, values, aggregates), boolean=True)
            query = query.having(condition.sql, copy=False)
        # A copy of the person's column from the other side of a LEFT JOIN may be NULL in some of their rows, so only the column itself
        # makes one row.
        alone = not others
        return replace(
            self.rows,
            source=nested(query, "by_person_"),
            fields=tuple(fields),
            rows_per_person=1 if alone else None,
            steps=(*self.rows.steps, "aggregated by person: one row each" if alone else "aggregated by person and other columns"),
        )

    def _held(self, tree: exp.Expression, aggregates: dict[str, Value]) -> exp.Expression:
        """The expression with each aggregate replaced by a name that stands for it."""

        def hold(node: exp.Expression) -> exp.Expression:
            filtered = isinstance(node, exp.Filter) and isinstance(node.this, exp.AggFunc)
            if not filtered and not isinstance(node, exp.AggFunc):
                return node
            name = f"aggregate {len(aggregates)}"
            aggregates[name] = self._aggregate(_unfiltered(node))
            return exp.column(name, table="aggregate ")

        return tree.copy().transform(hold, copy=False)

    def _within(self, inner: exp.Expression) -> str:
        """The column whose bounds hold for an aggregate of it too: the least, the greatest and the mean lie among the values."""
        if not isinstance(inner, (exp.Min, exp.Max, exp.Avg)) or not isinstance(inner.this, exp.Column):
            return ""
        columns = list(self.resolve(inner.this).sql.find_all(exp.Column))
        return find(columns[0], self.rows.fields or ()).declared_as if len(columns) == 1 else ""

    def _seen(self, keys: Sequence[exp.Expression], values: Sequence[Value], aggregates: Mapping[str, Value]) -> Resolve:
        def resolve(node: exp.Column) -> Value:
            if node.table == "aggregate ":
                return aggregates[node.name]
            meant = self.resolve(node).sql if any(isinstance(key, exp.Column) and _alike(key, node) for key in keys) else None
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, exp.Column) and value.sql == meant:
                    return value
            raise Refused(f"{node.name} is neither aggregated nor in the GROUP BY of its sub-query")

        return resolve

    def _aggregate(self, node: exp.Expression) -> Value:
        """COUNT, SUM, AVG, MIN and MAX of one person's rows, none of which can fail."""
        inner = node.this
        if isinstance(node, (exp.LogicalOr, exp.LogicalAnd)):
            truth = as_whole(total(inner, self.resolve, boolean=True))
            some = (exp.Max if isinstance(node, exp.LogicalOr) else exp.Min)(this=truth.sql)
            return Value(exp.Paren(this=exp.EQ(this=some, expression=exp.Literal.number(1))), "boolean")
        if isinstance(node, exp.Count) and isinstance(inner, exp.Star):
            return Value(exp.cast(exp.Count(this=exp.Star()), "BIGINT"), "integer", 2.0**62, 1.0)
        if isinstance(node, exp.Count):
            parts = inner.expressions if isinstance(inner, exp.Distinct) else [inner]
            if len(parts) != 1 or node.expressions:
                raise Refused("COUNT takes one value")
            sql = total(parts[0], self.resolve).sql
            return Value(
                exp.cast(exp.Count(this=exp.Distinct(expressions=[sql]) if isinstance(inner, exp.Distinct) else sql), "BIGINT"),
                "integer",
                2.0**62,
                1.0,
            )
        if isinstance(node, (exp.Sum, exp.Avg)) and not isinstance(inner, exp.Distinct):
            value = total(inner, self.resolve)
            value = _summable(value, node.key.upper())
            if isinstance(node, exp.Sum):
                return exact_sum(value)
            # PostgreSQL's AVG also adds up squares, which can overflow.
            count = exp.Nullif(this=exp.cast(exp.Count(this=value.sql.copy()), "DOUBLE"), expression=double(0.0))
            return Value(exp.Paren(this=exp.Div(this=number(exact_sum(value)).sql, expression=count)), "float", LARGEST)
        if isinstance(node, (exp.Min, exp.Max)) and not node.expressions:
            value = total(inner, self.resolve)
            value = number(value) if value.kind in ("real", "any") else in_order(value, node.key.upper())
            if value.kind in ("boolean", "other", "instant", "null"):
                raise Refused(f"{node.key.upper()} takes numbers, texts and dates")
            return replace(value, sql=type(node)(this=value.sql), constant=None)
        raise Refused(
            f"{node.sql_name() if isinstance(node, exp.Func) else node.key.upper()} is not allowed in a sub-query by person; "
            "COUNT, COUNT_IF, SUM, AVG, MIN, MAX, BOOL_OR and BOOL_AND are"
        )


def _alike(key: exp.Column, node: exp.Column) -> bool:
    return key.name.lower() == node.name.lower()


def _summable(value: Value, what: str) -> Value:
    """A value that can be added up exactly: whole numbers, decimals with room for many rows, or guarded floats."""
    if value.kind == "integer" and value.constant is None:
        return value
    if value.kind == "decimal" and value.constant is None:
        if value.size is None:
            return held(value)
        if value.size[0] <= 24:
            return value
        if not value.size[1]:
            value = narrowed(value)  # what is beyond 64 bits is beyond a sum of 64-bit integers too
            return value
    return settled(number(value, what), LARGEST)


def _unfiltered(node: exp.Expression) -> exp.Expression:
    """An aggregate with FILTER, or COUNT_IF, as one of a CASE; others as they are."""
    condition: exp.Expression | None = None
    if isinstance(node, exp.Filter):
        node, condition = node.this, node.expression.this
    if isinstance(node, exp.CountIf):
        return exp.Count(this=_where(both_hold(condition, node.this), exp.Literal.number(1)))
    if condition is None:
        return node
    made, inner = node.copy(), node.this
    if isinstance(inner, exp.Distinct):
        made.set("this", exp.Distinct(expressions=[_where(condition, part) for part in inner.expressions]))
    else:
        made.set("this", _where(condition, exp.Literal.number(1) if isinstance(inner, exp.Star) else inner))
    return made


def _where(condition: exp.Expression, value: exp.Expression) -> exp.Expression:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
