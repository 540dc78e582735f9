"""Sub-queries that aggregate each person's own rows: one row a person, or one for each person and some other columns.

What is computed of her rows touches nobody else's, so the relation still belongs to people, and none of its aggregates can fail.

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
from typing import cast

from sqlglot import exp

from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import Value, number, settled, total
from tacit.tables.relation import TYPES, Field, Relation, Resolve, add, carried, field_of, nested
from tacit.tables.unit import Unit


@dataclass(frozen=True)
class Grouping:
    """A sub-query that aggregates each person's own rows."""

    unit: Unit
    rows: Relation
    resolve: Resolve
    node: exp.Select

    def relation(self) -> Relation:
        keys = self._keys()
        values = [total(key, self.resolve) for key in keys]
        made = [field_of("", value, self.rows) for value in values]
        if self.rows.person is None or not any(f.person for f in made):
            raise Refused(
                f"a sub-query that aggregates must GROUP BY the person ({self.unit.person or 'the unit has none'}): "
                "otherwise its rows belong to nobody"
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
            add(chosen, fields, self.rows.person, name, value.sql, made[place] if place is not None else Field(name, TYPES.get(value.kind)))
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
        # A copy of the person's column from the other side of a LEFT JOIN may be NULL in some of her rows, so only the column itself
        # makes one row.
        alone = not others
        return replace(
            self.rows,
            source=nested(query, "by_person_"),
            fields=tuple(fields),
            rows_per_person=1 if alone else None,
            steps=(*self.rows.steps, "aggregated by person: one row each" if alone else "aggregated by person and other columns"),
        )

    def _keys(self) -> list[exp.Expression]:
        group = self.node.args["group"]
        if any(v for n, v in group.args.items() if n != "expressions" and v not in (None, False, [])):
            raise Refused("GROUPING SETS, CUBE, ROLLUP and GROUP BY ALL are not understood; name the columns")
        return [named_key(key, self.node.expressions) for key in group.expressions]

    def _held(self, tree: exp.Expression, aggregates: dict[str, Value]) -> exp.Expression:
        """The expression with each aggregate replaced by a name that stands for it."""

        def hold(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.AggFunc):
                return node
            name = f"aggregate {len(aggregates)}"
            aggregates[name] = self._aggregate(node)
            return exp.column(name, table="aggregate ")

        return tree.copy().transform(hold, copy=False)

    def _seen(self, keys: Sequence[exp.Expression], values: Sequence[Value], aggregates: Mapping[str, Value]) -> Resolve:
        def resolve(node: exp.Column) -> Value:
            if node.table == "aggregate ":
                return aggregates[node.name]
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, exp.Column) and key.name.lower() == node.name.lower():
                    return value
            raise Refused(f"{node.name} is neither aggregated nor in the GROUP BY of its sub-query")

        return resolve

    def _aggregate(self, node: exp.Expression) -> Value:
        """COUNT, SUM, AVG, MIN and MAX of one person's rows, none of which can fail."""
        inner = node.this
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
            value = number(total(inner, self.resolve), node.key.upper())
            whole = Value(exp.Sum(this=value.sql), "float", 1e200)
            if isinstance(node, exp.Sum):
                return settled(whole)
            # PostgreSQL's AVG also adds up squares, which can overflow.
            count = exp.Nullif(
                this=exp.cast(exp.Count(this=value.sql.copy()), "DOUBLE"), expression=exp.cast(exp.Literal.number(0), "DOUBLE")
            )
            return Value(exp.Paren(this=exp.Div(this=settled(whole).sql, expression=count)), "float", 1e150)
        if isinstance(node, (exp.Min, exp.Max)) and not node.expressions:
            value = total(inner, self.resolve)
            value = number(value) if value.kind in ("real", "decimal", "any") else value
            if value.kind in ("boolean", "other", "null"):
                raise Refused(f"{node.key.upper()} takes numbers, texts and dates")
            return replace(value, sql=type(node)(this=value.sql), constant=None)
        raise Refused(f"{node.key.upper()} is not allowed in a sub-query by person; COUNT, SUM, AVG, MIN and MAX are")


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
