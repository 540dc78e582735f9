"""What a question selects from: FROM with its sub-queries, CTEs and unions become a relation whose rows belong to people.

However deep sub-queries are nested, every row carries its person along, under the unit's name, whether that column is selected or not.

>>> from sqlglot import parse_one
>>> catalog = Catalog({"visits": Table({"id": "BIGINT", "age": "INTEGER"})}, Unit("id", max_rows=3))
>>> found, _ = rows_of(parse_one("SELECT 1 FROM (SELECT age + 1 AS older FROM visits WHERE age > 17) v"), catalog)
>>> found.names, found.person
(('older',), 'id')
>>> rows_of(parse_one("SELECT 1 FROM (SELECT DISTINCT age FROM visits) v"), catalog)
Traceback (most recent call last):
...
tacit.tables.errors.Refused: DISTINCT rows and UNION mix people; select the person too (id), or GROUP BY the columns instead, or
COUNT(DISTINCT column), or UNION ALL
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tacit.tables.by_person import Grouping
from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import NUMBERS, number, total
from tacit.tables.forms import in_order, in_zone
from tacit.tables.joins import Joins
from tacit.tables.relation import (
    Catalog,
    Field,
    Relation,
    Resolve,
    Table,
    add,
    base_table,
    carried,
    field_of,
    named,
    nested,
    owned,
    same_people,
    shown_type,
    told_apart,
    usable,
)
from tacit.tables.unit import Unit
from tacit.tables.values import Value, column, common_size

__all__ = ["Catalog", "Table", "refuse_clauses", "rows_of"]

#: Nested sub-queries beyond this are a mistake or an attack.
DEEPEST = 20
#: A union of a union with itself doubles at every level: beyond so many parts it is refused.
MOST_PARTS = 128


def rows_of(select: exp.Select, catalog: Catalog | None) -> tuple[Relation, Resolve]:
    """The rows a SELECT is about (its FROM and joins, not its WHERE), and what its names stand for."""
    return Compiler(catalog).rows(select)


def refuse_clauses(select: exp.Select, *allowed: str) -> None:
    """Refuse what a SELECT may not have here, with the reason."""
    reasons = {
        "distinct": "DISTINCT rows mix people; GROUP BY the columns instead, or COUNT(DISTINCT column); beside the person it is understood",
        "limit": "LIMIT in a sub-query lets one person decide whose rows are left; the unit's caps limit rows",
        "offset": "OFFSET is not understood; use LIMIT on the answer",
        "qualify": "QUALIFY filters by window functions, which mix people",
        "windows": "window functions mix people",
        "laterals": "LATERAL joins are not understood; join on a column",
        "into": "a question cannot write tables",
        "locks": "a question cannot lock rows",
        "having": "HAVING needs GROUP BY",
    }
    plain = {"expressions", "from_", "from", "joins", "where", "group", "with_", "with", "kind", "hint", *allowed}
    for name, value in select.args.items():
        if name not in plain and value not in (None, False, []):
            raise Refused(reasons.get(name, f"{name.replace('_', ' ').upper()} is not understood in a question"))
    if select.args.get("kind") is not None or select.args.get("hint") is not None:
        raise Refused("SELECT AS STRUCT, SELECT AS VALUE and hints are not understood; select plain columns")


def renamed(query: exp.Expression, names: Sequence[exp.Expression]) -> exp.Expression:
    """A sub-query whose columns are named from outside: WITH t(a, b) AS (SELECT ...)."""
    if not names:
        return query
    chosen = query.expressions if isinstance(query, exp.Select) else []
    if len(chosen) != len(names) or any(isinstance(p, exp.Star) or (isinstance(p, exp.Column) and p.is_star) for p in chosen):
        raise Refused("a list of columns must name every one of a SELECT without *; or name them inside: WITH t AS (SELECT age AS a ...)")
    made = query.copy()
    pairs = zip(made.expressions, names, strict=True)
    made.set("expressions", [exp.Alias(this=part.unalias(), alias=exp.to_identifier(name.name, quoted=True)) for part, name in pairs])
    return made


def why_unordered(value: Value) -> str:
    return in_zone(value) if value.kind == "instant" else "ORDER BY cannot use a value of this type; CAST it to a number, a text or a date"


def _both(first: Field, second: Field) -> str | None:
    """The type of a column of a union: of numbers the one that holds both, exactly where there is one."""
    values = [column("x", f.type) for f in (first, second)]
    kinds = {value.kind for value in values}
    if kinds == {"integer"}:
        return "BIGINT"
    if kinds <= {"integer", "decimal"} and not any(value.wide for value in values):
        sizes = [value.size for value in values if value.size is not None]
        size = common_size(sizes)
        return "DECIMAL" if len(sizes) < 2 else "DOUBLE" if size is None else f"DECIMAL({size[0]},{size[1]})"
    return "DOUBLE" if kinds <= set(NUMBERS) else first.type


def _as(value: Value, wanted: str | None) -> exp.Expression:
    """A side's column in the type of the union."""
    kind = column("x", wanted).kind
    if kind == "real" and value.kind != "real":
        return number(value).sql
    return value.sql


@dataclass
class Compiler:
    """Turns FROM, sub-queries, joins and unions into relations."""

    catalog: Catalog | None
    views: dict[str, Relation] = field(default_factory=dict)
    depth: int = 0

    def rows(self, select: exp.Select) -> tuple[Relation, Resolve]:
        inside = self.with_views(select)
        source = select.args.get("from_") or select.args.get("from")
        if source is None:
            raise Refused("the question has no FROM: name the table")
        first = inside.relation(source.this)
        joins = select.args.get("joins") or []
        if not joins:
            return first, first.called(source.this.alias_or_name)
        return Joins(inside.unit(), inside.known(), inside.relation).joined(source.this.alias_or_name, first, joins)

    def with_views(self, select: exp.Expression) -> Compiler:
        """The compiler that knows the CTEs of a statement; each sees those before it."""
        clause = select.args.get("with_") or select.args.get("with")
        inside = Compiler(self.catalog, dict(self.views), self.depth + 1)
        if inside.depth > DEEPEST:
            raise Refused(f"sub-queries may be nested at most {DEEPEST} deep")
        if clause is None:
            return inside
        if clause.args.get("recursive"):
            raise Refused("a recursive CTE can multiply one person's rows without bound")
        for view in clause.expressions:
            alias = view.args.get("alias")
            inside.views[view.alias] = inside.query(renamed(view.this, alias.columns if alias is not None else []))
        return inside

    # --- one item of FROM ---------------------------------------------------------------------------------------------------------

    def relation(self, node: exp.Expression) -> Relation:
        if isinstance(node, exp.Subquery):
            alias = node.args.get("alias")
            extra = [n for n, v in node.args.items() if n not in ("this", "alias", "with_", "with") and v not in (None, False, [])]
            if extra:
                raise Refused("a sub-query in FROM may have a name and names of columns, and nothing else: (SELECT ...) AS t")
            return self.query(renamed(node.this, alias.columns if alias is not None else []))
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise Refused("FROM takes declared tables and sub-queries; functions and files are not allowed there")
        extra = [n for n, v in node.args.items() if n not in ("this", "db", "catalog", "alias") and v not in (None, False, [])]
        alias = node.args.get("alias")
        if extra or (alias is not None and alias.columns):
            raise Refused("a table in FROM may have a name and nothing else: no sample, pivot, hint or list of columns")
        if node.name in self.views and node.args.get("db") is None:
            return self.views[node.name]
        return self.base(node)

    def base(self, node: exp.Table) -> Relation:
        if self.catalog is None:
            return Relation(base_table(node), tables=(node.name,))
        dotted = ".".join(part.name for part in node.parts)
        tables = self.catalog.tables
        by_case = {name.lower(): name for name in tables}
        name = dotted if dotted in tables else by_case.get(dotted.lower(), by_case.get(node.name.lower()))
        if name is None:
            raise TableError(code="table-unknown", table=dotted, tables=tuple(tables))
        return owned(name, self.catalog)

    def unit(self) -> Unit:
        if self.catalog is None:
            raise Refused(
                "sub-queries and joins need to know whose rows they carry; ask through a session, which knows its unit and its columns"
            )
        if self.catalog.unit.when is not None:
            # A sub-query could give another date the name of the unit's, and so bring all periods into one.
            raise Refused(
                f"the unit is a person within a period, told by {self.catalog.unit.when}; ask about one table, without sub-queries or joins"
            )
        return self.catalog.unit

    def known(self) -> Catalog:
        """The catalogue, where there is one: `unit` refuses before where there is none."""
        assert self.catalog is not None
        return self.catalog

    # --- sub-queries --------------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression) -> Relation:
        self.unit()
        if isinstance(node, exp.Subquery):
            return self.relation(node)
        if isinstance(node, exp.SetOperation):
            return self.union(node)
        if not isinstance(node, exp.Select):
            raise Refused("a sub-query must be a SELECT")
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is None:
            return self.distinct(node)
        refuse_clauses(node, "having", "order")
        rows, resolve = self.rows(node)
        if rows.fields is None:
            raise Refused("the columns of the table are not known, so a sub-query of it cannot be checked")
        group = node.args.get("group")
        parts = [part for projection in node.expressions for part in projection.walk()]
        aggregated = any(isinstance(part, exp.AggFunc) and part.find_ancestor(exp.Window) is None for part in parts)
        if group is None and (aggregated or node.args.get("having") is not None):
            raise Refused(
                "a sub-query that aggregates over all people has no rows of single people; GROUP BY the person in it, "
                f"{self.unit().person or 'who must be the unit'}, or ask for the figure itself"
            )
        if group is not None:
            return Grouping(self.unit(), rows, resolve, node).relation()
        return self.selected(node, rows, resolve)

    def distinct(self, node: exp.Select) -> Relation:
        """SELECT DISTINCT with the person among its columns is GROUP BY all of them."""
        plain = node.copy()
        plain.set("distinct", None)
        rows = self.query(plain)
        if node.args.get("group") is not None or rows.person is None or not any(f.person for f in rows.fields or ()):
            raise Refused(
                f"DISTINCT rows and UNION mix people; select the person too ({rows.person or 'the unit has none'}), "
                "or GROUP BY the columns instead, or COUNT(DISTINCT column), or UNION ALL"
            )
        if any(column(f.name, f.type).kind in ("other", "instant") for f in rows.fields or ()):
            raise Refused("DISTINCT cannot compare a column of this type; CAST it to a text, a date or a timestamp first")
        names = dict.fromkeys([rows.person, *rows.names])  # all of them can be used, or it was refused
        query = exp.Select(expressions=[exp.column(name, quoted=True) for name in names]).from_(rows.expression(), copy=False)
        query.set("distinct", exp.Distinct())
        alone = len(names) == 1
        return replace(rows, source=nested(query, "distinct_"), rows_per_person=1 if alone else rows.rows_per_person)

    def selected(self, node: exp.Select, rows: Relation, resolve: Resolve) -> Relation:
        """Row by row: the person is carried along."""
        chosen, fields = carried(rows)
        weights: set[str] = set()
        for projection in node.expressions:
            star = projection if isinstance(projection, exp.Star) else projection.this if isinstance(projection, exp.Column) else None
            if isinstance(star, exp.Star):
                if projection is star and any(star.args.get(part) for part in ("except_", "except", "replace", "rename")):
                    raise Refused("SELECT * with EXCEPT, REPLACE or RENAME is not understood; name the columns")
                if isinstance(projection, exp.Column) and node.args.get("joins"):
                    raise Refused("name the columns of a join instead of table.*")
                parts: list[tuple[str, exp.Expression, Field]] = [(f.name, exp.column(f.name, quoted=True), f) for f in rows.fields or ()]
            else:
                inner = projection.unalias()
                value = self.windowed(inner, rows, resolve)
                name = projection.alias or (projection.name if isinstance(projection, exp.Column) else "")
                if not name:
                    raise Refused("give every expression of a sub-query a name: SELECT age + 1 AS older")
                parts = [(name, value.sql, field_of(name, value, rows))]
                weights |= {name} if _is_weight(inner, rows, resolve) else set()
            for name, sql, made in parts:
                add(chosen, fields, rows.person, name, sql, made)
                weights |= {name} if isinstance(sql, exp.Column) and sql.name in rows.weights else set()
        query = exp.Select(expressions=chosen).from_(rows.expression(), copy=False)
        where = node.args.get("where")
        if where is not None:
            query = query.where(total(where.this, resolve, boolean=True).sql, copy=False)
        return replace(rows, source=nested(query, "rows_of_"), fields=tuple(fields), weights=frozenset(weights))

    def windowed(self, node: exp.Expression, rows: Relation, resolve: Resolve) -> Value:
        """An expression in which windows over each person's own rows may stand, such as 1.0 / COUNT(*) OVER (PARTITION BY person)."""
        if isinstance(node, exp.Window):
            return self.numbered(node, rows, resolve)
        tree = node.copy()
        made: dict[str, Value] = {}
        for place, window in enumerate(list(tree.find_all(exp.Window))):
            name = f"window_{place}_"
            made[name] = self.numbered(window, rows, resolve)
            window.replace(exp.column(name, quoted=True))

        def known(column: exp.Column) -> Value:
            return made[column.name] if column.name in made and not column.table else resolve(column)

        return total(tree, known if made else resolve)

    def numbered(self, node: exp.Window, rows: Relation, resolve: Resolve) -> Value:
        """ROW_NUMBER, RANK and DENSE_RANK of each person's own rows, and how many these are: no other rows change them."""
        inner, partition, order = node.this, node.args.get("partition_by") or [], node.args.get("order")
        extra = [n for n, v in node.args.items() if n not in ("this", "partition_by", "order", "over") and v not in (None, False, [])]
        parts = [total(part, resolve) for part in partition]
        owned_alone = rows.person is not None and any(field_of("", part, rows).person for part in parts)
        counted = isinstance(inner, exp.Count) and isinstance(inner.this, exp.Star) and order is None
        ranked = isinstance(inner, (exp.RowNumber, exp.Rank, exp.DenseRank)) and order is not None
        if extra or not (counted or ranked) or not owned_alone:
            raise Refused(
                "of the window functions ROW_NUMBER(), RANK(), DENSE_RANK() and COUNT(*) are understood, over each person's own rows: "
                f"ROW_NUMBER() OVER (PARTITION BY {rows.person or 'person'} ORDER BY day) AS place, or "
                f"1.0 / COUNT(*) OVER (PARTITION BY {rows.person or 'person'}) AS weight; others mix people"
            )
        assert rows.person is not None
        if counted:
            own = exp.column(rows.person, quoted=True)
            whose = [own, *(part.sql for part in parts if part.sql != own)]
            return Value(exp.cast(exp.Window(this=exp.Count(this=exp.Star()), partition_by=whose), "BIGINT"), "integer", 2.0**62, 1.0)
        assert order is not None
        terms = []
        for term in order.expressions:
            value = total(term.this, resolve)
            if value.kind in ("other", "instant", "null"):
                raise Refused(why_unordered(value))
            in_order(value, "ORDER BY")
            terms.append(exp.Ordered(this=value.sql, desc=term.args.get("desc"), nulls_first=term.args.get("nulls_first")))
        by = [exp.column(rows.person, quoted=True), *(part.sql for part in parts if part.sql != exp.column(rows.person, quoted=True))]
        if isinstance(inner, exp.RowNumber):
            # Which of several rows of one day comes first must follow from the person's own rows.
            terms += [exp.Ordered(this=term) for term in told_apart(rows)]
        window = exp.Window(this=type(inner)(), partition_by=by, order=exp.Order(expressions=terms))
        return Value(exp.cast(window, "BIGINT"), "integer", 2.0**62, 1.0)

    def union(self, node: exp.Expression) -> Relation:
        if not isinstance(node, exp.Union) or node.args.get("by_name"):
            raise Refused("of the set operations only UNION and UNION ALL keep apart whose rows are whose")
        if node.args.get("distinct"):
            every = node.copy()
            every.set("distinct", False)
            both = exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=every, alias=exp.TableAlias(this=exp.to_identifier("u_"))))
            both.set("distinct", exp.Distinct())
            return self.query(both)
        extra = [
            n for n, v in node.args.items() if n not in ("this", "expression", "distinct", "with_", "with") and v not in (None, False, [])
        ]
        if extra:
            raise Refused(f"{extra[0].upper()} after UNION ALL is not understood; put it around the union")
        inside = self.with_views(node)
        left, right = inside.query(node.this), inside.query(node.expression)
        if left.public != right.public:
            raise Refused("a union of a public and a private table has rows without an owner; ask about them apart")
        if not same_people(left.person_type, right.person_type):
            raise Refused(
                "the sides of UNION ALL tell people apart by columns of different types "
                f"({shown_type(left.person_type)} and {shown_type(right.person_type)}), so that several people could become one; "
                "give both one type"
            )
        if len(left.names) != len(right.names):
            raise TableError("both sides of UNION ALL must have the same number of columns")
        queries, fields = [], []
        for first, second in zip(left.fields or (), right.fields or (), strict=True):
            kinds = {column("x", first.type).kind, column("x", second.type).kind}
            if len(kinds) > 1 and not kinds <= set(NUMBERS):
                raise TableError(f"both sides of UNION ALL must have the same type in {first.name}; CAST one of them")
            # What was declared of one column holds in the union where both sides have a column of that name.
            same = first.declared_as.rpartition(".")[2] == second.declared_as.rpartition(".")[2]
            kind = first.type if first.type == second.type or "other" in kinds else _both(first, second)
            fields.append(Field(first.name, kind, first.person and second.person, about=first.declared_as if same else ""))
        for side in (left, right):
            chosen: list[exp.Expression] = []
            if left.person is not None and left.person not in left.names:
                chosen.append(named(column(left.person, side.person_type).sql, left.person))
            for own, made in zip(side.fields or (), fields, strict=True):
                if usable(own):
                    chosen.append(named(_as(column(own.name, own.type), made.type), made.name))
            queries.append(exp.Select(expressions=chosen).from_(side.expression(), copy=False))
        if left.person in left.names and not next(f for f in fields if f.name == left.person).person:
            raise Refused(f"{left.person} must be the person on both sides of UNION ALL")
        if len(left.steps) + len(right.steps) > MOST_PARTS:
            raise Refused(code="union-too-large", most=MOST_PARTS)
        caps = (left.rows_per_person, right.rows_per_person)
        return Relation(
            nested(exp.Union(this=queries[0], expression=queries[1], distinct=False), "union_"),
            tuple(fields),
            left.person,
            left.multiplicity + right.multiplicity,
            None if None in caps else sum(c for c in caps if c is not None),
            tuple(dict.fromkeys((*left.tables, *right.tables))),
            left.public,
            (*left.steps, *right.steps, "union: the rows of both, capped together"),
            left.person_type,
        )


def _is_weight(node: exp.Expression, rows: Relation, resolve: Resolve) -> bool:
    """Whether it is 1 / COUNT(*) OVER (PARTITION BY person), and nothing else: then one person's values add up to 1."""
    ratio = node.unnest()
    over = ratio.expression.unnest() if isinstance(ratio, exp.Div) else None
    if over is None or not isinstance(over, exp.Window) or not isinstance(over.this, exp.Count) or rows.person is None:
        return False
    one, by = ratio.this.unnest(), over.args.get("partition_by") or []
    if not isinstance(one, exp.Literal) or one.is_string or float(one.this) != 1 or over.args.get("order") is not None:
        return False
    return len(by) == 1 and field_of("", total(by[0], resolve), rows).person
