"""Relations: what a question selects from, and how far one person's rows can spread in it.

Whatever sub-queries, joins and unions do, every row of a relation still belongs to one person, whose column is carried along under the
unit's name. So the caps of the unit, applied to the question's rows, hold at the end, and nothing needs to be assumed about the data.
Where no cap is applied (a unit that is a row, or data declared to be capped already), `multiplicity` says how many rows one row can become.

Names are quoted and constants are written by sqlglot: no text of a question is ever pasted into a statement.

>>> from sqlglot import parse_one
>>> catalog = Catalog({"visits": Table({"id": "BIGINT", "age": "INTEGER", "code": "VARCHAR"}),
...     "codes": Table({"code": "VARCHAR", "name": "VARCHAR"}, public=True)}, Unit("id", max_rows=3))
>>> query = parse_one("SELECT 1 FROM (SELECT age + 1 AS older, code FROM visits) v JOIN codes c ON v.code = c.code")
>>> found, names = rows_of(query, catalog)
>>> found.names
('older', 'code', 'c_code', 'name')
>>> found.person, found.tables
('id', ('visits', 'codes'))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from sqlglot import exp

from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import NUMBERS, Value, column, number, settled, total
from tacit.tables.unit import Auto, Unit

Resolve = Callable[[exp.Column], Value]

_TYPES = {
    "integer": "BIGINT",
    "float": "DOUBLE",
    "text": "TEXT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "null": "TEXT",
}
#: Nested sub-queries beyond this are a mistake or an attack.
DEEPEST = 20


@dataclass(frozen=True)
class Table:
    """What is public about one table: its columns and their types; who owns a row; whether the table itself is public.

    `at_most` says how many rows of a public table share the values of some columns, such as {("code",): 1}; what it does not say is
    counted where the catalogue can count, because the table is public.
    """

    columns: Mapping[str, str] | None
    public: bool = False
    person: str | None = None
    source: exp.Expression | None = None
    at_most: Mapping[tuple[str, ...], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalog:
    """The tables of a session and its unit. `count` runs a statement about public tables only; `shuffle` gives a pseudorandom order of
    rows."""

    tables: Mapping[str, Table]
    unit: Unit
    count: Callable[[exp.Select], int] | None = None
    shuffle: Callable[[list[exp.Expression]], exp.Expression] | None = None

    @property
    def uncapped(self) -> bool:
        """Whether nothing is capped after the question's rows are made."""
        return self.unit.person is None or self.unit.capped


@dataclass(frozen=True)
class Field:
    """A column that a question may name: its type (None: not known), and whether it tells whose row it is."""

    name: str
    type: str | None
    person: bool = False


@dataclass(frozen=True)
class Relation:
    """Rows to ask about. `fields` is None where the columns are not known; `person` is the unit's column, carried along even if not
    selected.

    `multiplicity`: the most rows that one row of the data can become. `rows_per_person`: a cap that holds already, by construction.
    """

    source: exp.Expression
    fields: tuple[Field, ...] | None = None
    person: str | None = None
    multiplicity: int = 1
    rows_per_person: int | None = None
    tables: tuple[str, ...] = ()
    public: bool = False
    steps: tuple[str, ...] = ()

    def expression(self) -> exp.Expression:
        """Something to select from."""
        return self.source.copy()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields or ())

    def resolve(self, node: exp.Column) -> Value:
        """A column of it."""
        if self.fields is None:
            return column(node.name, None)
        found = _find(node, self.fields)
        return column(found.name, found.type)


def rows_of(select: exp.Select, catalog: Catalog | None) -> tuple[Relation, Resolve]:
    """The rows a SELECT is about (its FROM and joins, not its WHERE), and what its names stand for."""
    return _Compiler(catalog).rows(select)


def base_table(node: exp.Table) -> exp.Table:
    """A table as it is written, with its names quoted."""
    return exp.Table(
        **{part: exp.to_identifier(node.args[part].name, quoted=True) for part in ("this", "db", "catalog") if node.args.get(part)}
    )


def _find(node: exp.Column, fields: Sequence[Field]) -> Field:
    same = [f for f in fields if f.name == node.name] or [f for f in fields if f.name.lower() == node.name.lower()]
    if not same:
        raise TableError(f"there is no column {node.name}; there are {', '.join(f.name for f in fields)}")
    return same[0]


def _named(sql: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=sql, alias=exp.to_identifier(name, quoted=True))


def _inner(query: exp.Expression, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


def _conjuncts(node: exp.Expression) -> list[exp.Expression]:
    if isinstance(node, exp.Paren):
        return _conjuncts(node.this)
    return [*_conjuncts(node.this), *_conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


def refuse_clauses(select: exp.Select, *allowed: str) -> None:
    """Refuse what a SELECT may not have here, with the reason."""
    reasons = {
        "distinct": "DISTINCT rows mix people; GROUP BY the columns instead, or COUNT(DISTINCT column)",
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


@dataclass(frozen=True)
class _Side:
    """One side of a join: the name the user gave it, its rows, and our own name for it."""

    alias: str
    relation: Relation
    own: str


@dataclass
class _Compiler:
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
            return first, _resolver([_Side(source.this.alias_or_name, first, "")], first)
        return inside.joined(source.this.alias_or_name, first, joins)

    def with_views(self, select: exp.Expression) -> _Compiler:
        """The compiler that knows the CTEs of a statement; each sees those before it."""
        clause = select.args.get("with_") or select.args.get("with")
        inside = _Compiler(self.catalog, dict(self.views), self.depth + 1)
        if inside.depth > DEEPEST:
            raise Refused(f"sub-queries may be nested at most {DEEPEST} deep")
        if clause is None:
            return inside
        if clause.args.get("recursive"):
            raise Refused("a recursive CTE can multiply one person's rows without bound")
        for view in clause.expressions:
            if view.args.get("alias") is not None and view.args["alias"].columns:
                raise Refused("name the columns of a CTE inside it: WITH t AS (SELECT age AS a ...)")
            inside.views[view.alias] = inside.query(view.this)
        return inside

    # --- one item of FROM ---------------------------------------------------------------------------------------------------------

    def relation(self, node: exp.Expression) -> Relation:
        if isinstance(node, exp.Subquery):
            alias = node.args.get("alias")
            extra = [n for n, v in node.args.items() if n not in ("this", "alias", "with_", "with") and v not in (None, False, [])]
            if extra or (alias is not None and alias.columns):
                raise Refused("a sub-query in FROM may have a name and nothing else: (SELECT ...) AS t")
            return self.query(node.this)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise Refused("FROM takes tables of the session and sub-queries; functions and files are not allowed there")
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
            raise TableError(f"there is no table {dotted}; the session has {', '.join(tables)}")
        table, unit = tables[name], self.catalog.unit
        source = (
            table.source.copy()
            if table.source is not None
            else exp.to_table(name)
            if "." in name
            else exp.Table(this=exp.to_identifier(name))
        )
        for identifier in source.find_all(exp.Identifier):
            identifier.set("quoted", True)
        if table.columns is None:
            return Relation(source, None, unit.person, tables=(name,), public=table.public)
        if table.public:
            return Relation(source, tuple(Field(n, t) for n, t in table.columns.items()), tables=(name,), public=True)
        person = table.person or unit.person
        if person is not None and person not in table.columns:
            raise TableError(
                f"{name} has no column {person}, so nobody owns its rows; declare it public, or say which column tells people apart"
            )
        fields = tuple(Field(n, t, n == person) for n, t in table.columns.items())
        found = Relation(source, fields, person, tables=(name,), steps=(f"rows of {name}",))
        return found if person == unit.person else self._renamed(found, person or "")

    def _renamed(self, relation: Relation, person: str) -> Relation:
        """The rows with the person's column under the unit's name too."""
        unit = self._unit()
        if unit.person is None:
            return replace(relation, person=None)
        if unit.person in relation.names:
            raise TableError(f"a table whose people are told apart by {person} has another column {unit.person}; rename it in a view")
        chosen = [_named(exp.column(person, quoted=True), unit.person), *(exp.column(n, quoted=True) for n in relation.names)]
        fields = (Field(unit.person, _find(exp.column(person), relation.fields or ()).type, True), *(relation.fields or ()))
        return replace(
            relation,
            source=_inner(exp.Select(expressions=chosen).from_(relation.expression(), copy=False), "table_"),
            fields=fields,
            person=unit.person,
        )

    def _unit(self) -> Unit:
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

    # --- sub-queries --------------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression) -> Relation:
        self._unit()
        if isinstance(node, exp.Subquery):
            return self.relation(node)
        if isinstance(node, exp.SetOperation):
            return self.union(node)
        if not isinstance(node, exp.Select):
            raise Refused("a sub-query must be a SELECT")
        refuse_clauses(node, "having", "order")
        rows, resolve = self.rows(node)
        if rows.fields is None:
            raise Refused("the columns of the table are not known, so a sub-query of it cannot be checked")
        group = node.args.get("group")
        aggregated = any(isinstance(part, exp.AggFunc) for projection in node.expressions for part in projection.walk())
        if group is None and (aggregated or node.args.get("having") is not None):
            raise Refused(
                "a sub-query that aggregates over everybody has no rows of single people; GROUP BY the person in it, "
                f"{self._unit().person or 'who must be the unit'}, or ask for the figure itself"
            )
        if group is not None:
            return _Grouping(self._unit(), rows, resolve, node).relation()
        return self.selected(node, rows, resolve)

    def selected(self, node: exp.Select, rows: Relation, resolve: Resolve) -> Relation:
        """Row by row: the person is carried along."""
        chosen, fields = _carried(rows)
        for projection in node.expressions:
            star = projection if isinstance(projection, exp.Star) else projection.this if isinstance(projection, exp.Column) else None
            if isinstance(star, exp.Star):
                if projection is star and any(star.args.get(part) for part in ("except_", "except", "replace", "rename")):
                    raise Refused("SELECT * with EXCEPT, REPLACE or RENAME is not understood; name the columns")
                if isinstance(projection, exp.Column) and node.args.get("joins"):
                    raise Refused("name the columns of a join instead of table.*")
                parts: list[tuple[str, exp.Expression, Field]] = [(f.name, exp.column(f.name, quoted=True), f) for f in rows.fields or ()]
            else:
                value = total(projection.unalias(), resolve)
                name = projection.alias_or_name
                if not name:
                    raise Refused("give every expression of a sub-query a name: SELECT age + 1 AS older")
                parts = [(name, value.sql, _field(name, value, rows))]
            for name, sql, made in parts:
                _add(chosen, fields, rows.person, name, sql, made)
        query = exp.Select(expressions=chosen).from_(rows.expression(), copy=False)
        where = node.args.get("where")
        if where is not None:
            query = query.where(total(where.this, resolve, boolean=True).sql, copy=False)
        return replace(rows, source=_inner(query, "rows_of_"), fields=tuple(fields))

    def union(self, node: exp.Expression) -> Relation:
        if not isinstance(node, exp.Union) or node.args.get("distinct") is not False or node.args.get("by_name"):
            raise Refused("of the set operations only UNION ALL keeps apart whose rows are whose")
        extra = [
            n for n, v in node.args.items() if n not in ("this", "expression", "distinct", "with_", "with") and v not in (None, False, [])
        ]
        if extra:
            raise Refused(f"{extra[0].upper()} after UNION ALL is not understood; put it around the union")
        inside = self.with_views(node)
        left, right = inside.query(node.this), inside.query(node.expression)
        if left.public != right.public:
            raise Refused("a union of a public and a private table has rows that nobody owns; ask about them apart")
        if len(left.names) != len(right.names):
            raise TableError("both sides of UNION ALL must have the same number of columns")
        queries, fields = [], []
        for first, second in zip(left.fields or (), right.fields or (), strict=True):
            kinds = {column("x", first.type).kind, column("x", second.type).kind}
            if len(kinds) > 1 and not kinds <= set(NUMBERS):
                raise TableError(f"both sides of UNION ALL must have the same type in {first.name}; CAST one of them")
            fields.append(Field(first.name, first.type if len(kinds) == 1 else "DOUBLE", first.person and second.person))
        for side in (left, right):
            chosen: list[exp.Expression] = []
            if left.person is not None and left.person not in left.names:
                chosen.append(exp.column(left.person, quoted=True))
            for own, common in zip(side.fields or (), fields, strict=True):
                value = column(own.name, own.type)
                chosen.append(_named(number(value).sql if value.kind != column("x", common.type).kind else value.sql, common.name))
            queries.append(exp.Select(expressions=chosen).from_(side.expression(), copy=False))
        if left.person in left.names and not next(f for f in fields if f.name == left.person).person:
            raise Refused(f"{left.person} must be the person on both sides of UNION ALL")
        caps = (left.rows_per_person, right.rows_per_person)
        return Relation(
            _inner(exp.Union(this=queries[0], expression=queries[1], distinct=False), "union_"),
            tuple(fields),
            left.person,
            left.multiplicity + right.multiplicity,
            None if None in caps else sum(c for c in caps if c is not None),
            tuple(dict.fromkeys((*left.tables, *right.tables))),
            left.public,
            (*left.steps, *right.steps, "union: the rows of both, capped together"),
        )

    # --- joins --------------------------------------------------------------------------------------------------------------------

    def joined(self, alias: str, first: Relation, joins: Sequence[exp.Join]) -> tuple[Relation, Resolve]:
        unit, catalog = self._unit(), self.catalog
        assert catalog is not None
        sides = [_Side(alias, first, "side_0_")]
        conditions: list[tuple[str, exp.Expression]] = []
        multiplicity, steps = first.multiplicity, list(first.steps)
        for place, join in enumerate(joins, start=1):
            side = _Side(join.this.alias_or_name, self.relation(join.this), f"side_{place}_")
            if side.alias.lower() in {s.alias.lower() for s in sides}:
                raise TableError(f"two sides of a join are called {side.alias}; give one another name")
            how = _how(join)
            if any(s.relation.fields is None for s in (*sides, side)):
                raise Refused("the columns of a joined table are not known; list them in the session")
            pairs, condition = _matched(join, sides, side)
            private = [s for s in sides if not s.relation.public]
            if not side.relation.public and private:
                self._same_person(pairs, side, private)
                multiplicity *= side.relation.multiplicity * (unit.most_rows if unit.capped else 1)
                steps.append(f"join with {side.alias} on the person: her rows of one times her rows of the other, capped after the join")
            elif side.relation.public or how == "INNER":
                lookup = side if side.relation.public else sides[0]
                names = [new if side.relation.public else old for old, new in pairs]
                most = self._matches(lookup, [f.name for f in names]) if catalog.uncapped else 1
                multiplicity *= max(1, most) * (1 if side.relation.public else side.relation.multiplicity)
                steps.append(f"join with the public table {lookup.alias}" + (f": at most {most} rows for each" if catalog.uncapped else ""))
            else:
                raise Refused("a LEFT JOIN that keeps rows of a public table has rows that nobody owns; start from the private table")
            sides.append(side)
            conditions.append((how, condition))
        return self._flat(sides, conditions, multiplicity, tuple(steps))

    def _same_person(self, pairs: Sequence[tuple[Field, Field]], side: _Side, private: Sequence[_Side]) -> None:
        if self._unit().person is None:
            raise Refused("private tables can be joined only on a person, and the unit is a row; declare Unit('patient_id', max_rows=12)")
        if not any(old.person and new.person for old, new in pairs):
            raise Refused(
                f"{side.alias} and {private[0].alias} are both private, and joined on something else than the person "
                f"one person's rows meet everybody's, without bound; join them on {self._unit().person}, or declare one of them public"
            )

    def _matches(self, side: _Side, names: list[str]) -> int:
        """The most rows of a public table that share the values joined on: declared, or counted, because the table is public."""
        assert self.catalog is not None
        table = self.catalog.tables[side.relation.tables[0]] if len(side.relation.tables) == 1 else None
        for key, most in (table.at_most if table is not None else {}).items():
            if set(key) <= set(names):
                return most
        if self.catalog.count is None:
            raise Refused(
                f"it is not known how many rows of {side.alias} one row can match; "
                f"declare at_most={{{tuple(names)!r}: 1}} for the public table"
            )
        columns = [exp.column(name, quoted=True) for name in names]
        each = exp.Select(expressions=[_named(exp.Count(this=exp.Star()), "n_")]).from_(side.relation.expression(), copy=False)
        each.set("group", exp.Group(expressions=columns))
        return int(
            self.catalog.count(
                exp.Select(expressions=[exp.Max(this=exp.column("n_", quoted=True))]).from_(_inner(each, "each_"), copy=False)
            )
            or 0
        )

    def _flat(
        self, sides: Sequence[_Side], conditions: Sequence[tuple[str, exp.Expression]], multiplicity: int, steps: tuple[str, ...]
    ) -> tuple[Relation, Resolve]:
        private = [side for side in sides if not side.relation.public]
        unit = self._unit()
        chosen: list[exp.Expression] = []
        fields: list[Field] = []
        if private and unit.person is not None:
            chosen.append(_named(exp.column(unit.person, table=private[0].own, quoted=True), unit.person))
        flat: dict[tuple[str, str], Field] = {}
        for side in sides:
            for f in side.relation.fields or ():
                if side is (private[0] if private else None) and f.name == unit.person:
                    made = Field(f.name, f.type, True)
                else:
                    taken = {g.name.lower() for g in fields} | {(unit.person or "").lower()}
                    name = f.name
                    while name.lower() in taken:
                        name = f"{side.alias}_{name}"
                    made = Field(name, f.type, f.person)
                    chosen.append(_named(exp.column(f.name, table=side.own, quoted=True), name))
                fields.append(made)
                flat[(side.own, f.name)] = made
        query = exp.Select(expressions=chosen).from_(_inner_of(self._thinned(sides[0], private), sides[0].own), copy=False)
        for side, (how, condition) in zip(sides[1:], conditions, strict=True):
            query = query.join(_inner_of(self._thinned(side, private), side.own), on=condition, join_type=how.lower(), copy=False)
        per_person = private[0].relation.rows_per_person if len(sides) == len(private) == 1 else None
        found = Relation(
            _inner(query, "joined_"),
            tuple(fields),
            unit.person if private else None,
            multiplicity,
            per_person,
            tuple(dict.fromkeys(name for side in sides for name in side.relation.tables)),
            not private,
            steps,
        )
        return found, _resolver(sides, found, flat)

    def _thinned(self, side: _Side, private: Sequence[_Side]) -> Relation:
        """Where private tables meet, each person's rows of each side are capped first: a million rows must not become a million times as
        many."""
        relation, unit = side.relation, self._unit()
        if relation.public or len(private) < 2 or relation.rows_per_person is not None or unit.capped or unit.person is None:
            return relation
        most = unit.max_rows.most if isinstance(unit.max_rows, Auto) else unit.most_rows
        names = list(dict.fromkeys([unit.person, *relation.names]))
        values: list[exp.Expression] = [
            exp.column(f.name, quoted=True) for f in relation.fields or () if column(f.name, f.type).kind != "other"
        ]
        shuffle = self.catalog.shuffle if self.catalog is not None else None
        order = [shuffle(values)] if shuffle is not None else values
        place = exp.Window(
            this=exp.RowNumber(),
            partition_by=[exp.column(unit.person, quoted=True)],
            order=exp.Order(expressions=[exp.Ordered(this=value.copy()) for value in order]),
        )
        columns = [exp.column(name, quoted=True) for name in names]
        placed = exp.Select(expressions=[*columns, _named(place, "place_")]).from_(relation.expression(), copy=False)
        kept = exp.Select(expressions=[c.copy() for c in columns]).from_(_inner(placed, "placed_"), copy=False)
        kept = kept.where(exp.LTE(this=exp.column("place_", quoted=True), expression=exp.Literal.number(most)), copy=False)
        return replace(relation, source=_inner(kept, "thinned_"), rows_per_person=most)


def _inner_of(relation: Relation, name: str) -> exp.Expression:
    source = relation.expression()
    if isinstance(source, exp.Subquery):
        return _inner(source.this, name)
    renamed: Any = exp.alias_(source, name, quoted=True, table=True)
    return cast(exp.Expression, renamed)


def _resolver(sides: Sequence[_Side], rows: Relation, flat: Mapping[tuple[str, str], Field] | None = None) -> Resolve:
    """What a column of the SELECT stands for in the flat rows."""

    def resolve(node: exp.Column) -> Value:
        made = _flat_field(sides, flat, node)
        return rows.resolve(node) if made is None else column(made.name, made.type)

    return resolve


def _flat_field(sides: Sequence[_Side], flat: Mapping[tuple[str, str], Field] | None, node: exp.Column) -> Field | None:
    if node.table:
        named = [side for side in sides if side.alias.lower() == node.table.lower()]
        if not named:
            raise TableError(f"{node.table} is not a table of this FROM; there are {', '.join(side.alias for side in sides)}")
    else:
        named = list(sides)
    if flat is None:
        return None
    hits = [(side, f) for side in named for f in side.relation.fields or () if f.name.lower() == node.name.lower()]
    if not hits:
        raise TableError(f"there is no column {node.name} in {', '.join(side.alias for side in named)}")
    if len(hits) > 1 and not (len({side.own for side, _ in hits}) == 1 and any(f.name == node.name for _, f in hits)):
        raise TableError(f"{node.name} is in several tables; say which: {hits[0][0].alias}.{node.name}")
    side, f = next(((s, f) for s, f in hits if f.name == node.name), hits[0])
    return flat[(side.own, f.name)]


def _how(join: exp.Join) -> str:
    side, kind, method = (str(join.args.get(part) or "").upper() for part in ("side", "kind", "method"))
    extra = [n for n, v in join.args.items() if n not in ("this", "on", "using", "side", "kind") and v not in (None, False, [])]
    if kind == "CROSS" or (join.args.get("on") is None and not join.args.get("using")):
        raise Refused("a join needs ON or USING with an equality: without one, every row meets every other")
    if method or extra or side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        raise Refused("of the joins INNER JOIN and LEFT JOIN are understood; others have rows that nobody owns")
    return "LEFT" if side == "LEFT" else "INNER"


def _matched(join: exp.Join, sides: Sequence[_Side], side: _Side) -> tuple[list[tuple[Field, Field]], exp.Expression]:
    """The pairs of columns that must be equal, and the whole condition."""
    everyone = [*sides, side]
    own = {(s.own, f.name): Field(f.name, f.type, f.person) for s in everyone for f in s.relation.fields or ()}

    def place(node: exp.Column, among: Sequence[_Side]) -> tuple[str, Field]:
        marked = {key: Field(f"{key[0]}\0{key[1]}", f.type, f.person) for key, f in own.items()}
        made = _flat_field(among, marked, node)
        assert made is not None
        holder, name = made.name.split("\0")
        return holder, replace(made, name=name)

    def resolve(node: exp.Column) -> Value:
        holder, f = place(node, everyone)
        value = column(f.name, f.type)
        for found in value.sql.find_all(exp.Column):
            found.set("table", exp.to_identifier(holder, quoted=True))
        return value

    terms: list[exp.Expression] = []
    pairs: list[tuple[Field, Field]] = []
    for name in join.args.get("using") or []:
        old, new = place(exp.column(name.name), sides), place(exp.column(name.name), [side])
        pairs.append((old[1], new[1]))
        terms.append(
            exp.EQ(this=exp.column(old[1].name, table=_alias_of(sides, old[0])), expression=exp.column(new[1].name, table=side.alias))
        )
    on = join.args.get("on")
    for term in _conjuncts(on) if on is not None else []:
        terms.append(term)
        if isinstance(term, exp.EQ) and isinstance(term.this, exp.Column) and isinstance(term.expression, exp.Column):
            first, second = place(term.this, everyone), place(term.expression, everyone)
            if (first[0] == side.own) != (second[0] == side.own):
                pairs.append((second[1], first[1]) if first[0] == side.own else (first[1], second[1]))
    if not pairs:
        raise Refused(f"the join with {side.alias} needs an equality between a column of each side: ON a.code = b.code")
    condition: Any = exp.and_(*(total(term, resolve, boolean=True).sql for term in terms), copy=False)
    return pairs, cast(exp.Expression, condition)


def _alias_of(sides: Sequence[_Side], own: str) -> str:
    return next(side.alias for side in sides if side.own == own)


# ---- what a sub-query hands on -------------------------------------------------------------------------------------------------------


def _carried(rows: Relation) -> tuple[list[exp.Expression], list[Field]]:
    return ([] if rows.person is None else [exp.column(rows.person, quoted=True)]), []


def _field(name: str, value: Value, rows: Relation) -> Field:
    """A computed column, or one that is handed on as it is."""
    if isinstance(value.sql, exp.Column):
        found = _find(value.sql, rows.fields or ())
        return Field(name, found.type, found.person)
    return Field(name, _TYPES.get(value.kind))


def _add(chosen: list[exp.Expression], fields: list[Field], person: str | None, name: str, sql: exp.Expression, made: Field) -> None:
    if name.lower() in {f.name.lower() for f in fields}:
        raise TableError(f"two columns of a sub-query are called {name}; give one another name")
    if person is not None and name.lower() == person.lower():
        if not made.person:
            raise Refused(f"{name} is the name of the person's column; call the expression something else")
        fields.append(replace(made, name=person))
        return
    chosen.append(_named(sql, name))
    fields.append(replace(made, name=name))


@dataclass(frozen=True)
class _Grouping:
    """A sub-query that aggregates each person's own rows."""

    unit: Unit
    rows: Relation
    resolve: Resolve
    node: exp.Select

    def relation(self) -> Relation:
        keys = self._keys()
        values = [total(key, self.resolve) for key in keys]
        made = [_field("", value, self.rows) for value in values]
        if self.rows.person is None or not any(f.person for f in made):
            raise Refused(
                f"a sub-query that aggregates must GROUP BY the person ({self.unit.person or 'the unit has none'}): "
                "otherwise its rows belong to nobody"
            )
        chosen, fields = _carried(self.rows)
        aggregates: dict[str, Value] = {}
        for projection in self.node.expressions:
            inner = projection.unalias()
            name = projection.alias_or_name
            if not name:
                raise Refused("give every expression of a sub-query a name: SELECT id, COUNT(*) AS visits")
            place = next((i for i, key in enumerate(keys) if key == inner), None)
            value = values[place] if place is not None else total(self._held(inner, aggregates), self._seen(keys, values, aggregates))
            _add(
                chosen, fields, self.rows.person, name, value.sql, made[place] if place is not None else Field(name, _TYPES.get(value.kind))
            )
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
            source=_inner(query, "by_person_"),
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
