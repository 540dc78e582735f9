"""Whose row it is: the column that says so, a way along foreign keys, or the two ends of an edge.

Each table of a session becomes a relation in which every row carries its owner under the unit's name, so that caps, joins and sub-queries
work as they do for a person's column. Why that is stable: a row with its owner depends on rows of that owner alone, so the rows of everybody
else stay as they are when one person comes or goes with all the rows that lead to her.

**Edges.** For `Unit.edge('src', 'dst', ...)` the owner is the pair of ends, written so that no two pairs look alike.

**Nodes at both ends.** An edge belongs to two nodes at once, and no cap that looks at the edges of one end is stable: a hub that leaves
gives each of its neighbours room for another edge, any number in all. So `Unit.node(ends=...)` is accepted only where the greatest degree is
declared to hold (`capped=True`); then a node that leaves takes at most that many rows along, and nothing else changes.

>>> from tacit.tables.unit import links_of
>>> tables = {"person": Table({"id": "BIGINT"}), "visit": Table({"id": "BIGINT", "person_id": "BIGINT"}), "drug": Table({"visit_id": "BIGINT"})}
>>> catalog = Catalog(tables, Unit.node("person.id", max_rows=5), links=links_of({"visit.person_id": "person.id", "drug.visit_id": "visit.id"}))
>>> print(owned("drug", catalog).source.sql("duckdb"))
(SELECT "way_1_"."person_id" AS "person_id", "way_0_"."visit_id" AS "visit_id" FROM "drug" AS "way_0_" INNER JOIN "visit" AS "way_1_" ON "way_0_"."visit_id" = "way_1_"."id") AS "table_"
"""  # noqa: E501

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import column
from tacit.tables.relation import Catalog, Field, Relation, Table, find, named, nested
from tacit.tables.unit import Link, Unit, parted, ways


def owned(name: str, catalog: Catalog) -> Relation:
    """The rows of a table with their owners."""
    table, unit = catalog.tables[name], catalog.unit
    source = _source(name, table)
    if table.columns is None:
        if unit.key is not None or unit.ends is not None:
            raise Refused(f"the columns of {name} are not known, so it cannot be told whose rows they are")
        return Relation(source, None, unit.person, tables=(name,), public=table.public)
    fields = tuple(Field(n, t, origin=f"{name}.{n}") for n, t in table.columns.items())
    if table.public:
        return Relation(source, fields, tables=(name,), public=True)
    plain = Relation(source, fields, None, tables=(name,), steps=(f"rows of {name}",))
    if unit.ends is not None:
        return _by_ends(name, plain, unit)
    if table.person is None and unit.key is not None:
        return _along(name, plain, catalog)
    return by_column(name, plain, table.person or unit.person, unit)


def _source(name: str, table: Table) -> exp.Expression:
    found: exp.Expression
    if table.source is not None:
        found = table.source.copy()
    else:
        found = exp.to_table(name) if "." in name else exp.Table(this=exp.to_identifier(name))
    for identifier in found.find_all(exp.Identifier):
        identifier.set("quoted", True)
    return found


def by_column(name: str, plain: Relation, person: str | None, unit: Unit) -> Relation:
    """Rows that say themselves whose they are, in one of their columns."""
    if person is not None and person not in plain.names:
        raise TableError(
            f"{name} has no column {person}, so nobody owns its rows; declare it public, or say which column tells people apart"
        )
    fields = tuple(replace(f, person=f.name == person) for f in plain.fields or ())
    found = replace(plain, fields=fields, person=person, person_type=None if person is None else find(exp.column(person), fields).type)
    if person == unit.person:
        return found
    if unit.person is None:
        return replace(found, person=None, person_type=None)
    return _carrying(name, found, exp.column(person or "", quoted=True), find(exp.column(person or ""), fields).type, unit.person)


def _carrying(name: str, rows: Relation, owner: exp.Expression, kind: str | None, person: str) -> Relation:
    """The rows with one more column in front, the owner under the unit's name."""
    if person.lower() in {n.lower() for n in rows.names}:
        raise TableError(f"the rows of {name} are told apart by something else, and it has another column {person}; rename it in a view")
    chosen = [named(owner, person), *(exp.column(n, quoted=True) for n in rows.names)]
    query = exp.Select(expressions=chosen).from_(rows.expression(), copy=False)
    fields = (Field(person, kind, True), *(rows.fields or ()))
    return replace(rows, source=nested(query, "table_"), fields=fields, person=person, person_type=kind)


# ---- along foreign keys --------------------------------------------------------------------------------------------------------------


def _along(name: str, plain: Relation, catalog: Catalog) -> Relation:
    unit = catalog.unit
    assert unit.key is not None and unit.person is not None
    goal, key = parted("key", unit.key)
    if goal not in catalog.tables or catalog.tables[goal].public:
        raise TableError(f"the unit is a row of {goal}, which is no declared private table; there are {', '.join(catalog.tables)}")
    links = [link for link in catalog.links if not _public(link.table, catalog)]
    found = ways(name, unit.key, links)
    if not found:
        raise TableError(code="foreign-key-missing", table=name, key=unit.key, person=unit.person)
    if len(found) > 1:
        starts = tuple(sorted({str(way[0]) for way in found if way})) or (name,)
        raise Refused(code="owners-several", table=name, key=unit.key, ways=len(found), starts=starts)
    way = found[0]
    if not way:
        return by_column(name, plain, key, unit)
    if len(way) == 1 and way[0].to_column == key:
        return by_column(name, plain, way[0].column, unit)
    return _joined(name, plain, way, catalog, key)


def _public(table: str, catalog: Catalog) -> bool:
    if table not in catalog.tables:
        raise TableError(f"a foreign key is declared for {table}, which is no declared table; there are {', '.join(catalog.tables)}")
    return catalog.tables[table].public


def _joined(name: str, plain: Relation, way: tuple[Link, ...], catalog: Catalog, key: str) -> Relation:
    """The rows joined with those on the way, of which only the owner is kept."""
    person = catalog.unit.person
    assert person is not None
    if person.lower() in {n.lower() for n in plain.names}:
        raise TableError(f"the rows of {name} are told apart by something else, and it has another column {person}; rename it in a view")
    # The last link holds the key's value itself, so the key's own table is needed only where another column is referred to.
    hops = way[:-1] if way[-1].to_column == key else way
    last = way[-1].column if way[-1].to_column == key else key
    holder = way[-1].table if way[-1].to_column == key else way[-1].to_table
    chosen = [named(exp.column(last, table=f"way_{len(hops)}_", quoted=True), person)]
    chosen += [named(exp.column(n, table="way_0_", quoted=True), n) for n in plain.names]
    query = exp.Select(expressions=chosen).from_(_called(plain.expression(), "way_0_"), copy=False)
    for place, link in enumerate(way):
        here, there = _type(link.table, link.column, catalog), _type(link.to_table, link.to_column, catalog)
        if column("x", here).kind != column("x", there).kind or column("x", here).kind not in ("integer", "text", "date"):
            raise TableError(f"{link}: a foreign key and its key must both be whole numbers, texts or dates; they are {here} and {there}")
        if place < len(hops):
            on = exp.EQ(
                this=exp.column(link.column, table=f"way_{place}_", quoted=True),
                expression=exp.column(link.to_column, table=f"way_{place + 1}_", quoted=True),
            )
            other = _called(_source(link.to_table, catalog.tables[link.to_table]), f"way_{place + 1}_")
            query = query.join(other, on=on, join_type="inner", copy=False)
    fields = (Field(person, _type(holder, last, catalog), True), *(plain.fields or ()))
    step = f"each row of {name} belongs to the {person} it leads to: {', '.join(map(str, way))}"
    return replace(plain, source=nested(query, "table_"), fields=fields, person=person, steps=(step,), person_type=fields[0].type)


def _type(table: str, name: str, catalog: Catalog) -> str:
    columns = catalog.tables[table].columns if table in catalog.tables else None
    if columns is None or name not in columns:
        raise TableError(f"a foreign key names {table}.{name}, which is no column of the declared tables")
    return columns[name]


def _called(source: exp.Expression, name: str) -> exp.Expression:
    if isinstance(source, exp.Subquery):
        return nested(source.this, name)
    source.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    return source


# ---- edges ---------------------------------------------------------------------------------------------------------------------------


def _by_ends(name: str, plain: Relation, unit: Unit) -> Relation:
    assert unit.ends is not None
    missing = [end for end in unit.ends if end not in plain.names]
    if missing:
        raise TableError(f"{name} has no column {missing[0]}, so it cannot be told whom its rows touch; declare it public")
    if unit.person is None:
        return replace(plain, steps=(f"rows of {name}: a node touches at most {unit.most_rows} of them, as declared",))
    first, second = (find(exp.column(end), plain.fields or ()) for end in unit.ends)
    values = [column(f.name, f.type) for f in (first, second)]
    kinds = {value.kind for value in values}
    if not kinds <= {"integer", "text"} or (not unit.directed and len(kinds) > 1):
        raise TableError(f"the ends {first.name} and {second.name} must both be whole numbers or both texts")
    ends = [value.sql for value in values]
    if not unit.directed:
        ends = [exp.Least(this=ends[0], expressions=[ends[1]]), exp.Greatest(this=ends[0].copy(), expressions=[ends[1].copy()])]
    texts = [exp.cast(end, "TEXT") for end in ends]
    # With the length of the first in front, no two pairs give one text: ('a', 'bc') is 1:abc and ('ab', 'c') is 2:abc.
    size = exp.cast(exp.Length(this=texts[0].copy()), "TEXT")
    pair: exp.Expression = size
    for part in (exp.Literal.string(":"), *texts):
        pair = exp.DPipe(this=pair, expression=part, safe=True)
    present = exp.And(this=_present(values[0].sql), expression=_present(values[1].sql))
    owner = exp.Case(ifs=[exp.If(this=present, true=pair)])
    found = _carrying(name, plain, owner, "VARCHAR", unit.person)
    way = "in one direction" if unit.directed else "in either direction"
    return replace(found, steps=(f"rows of {name} between the same {first.name} and {second.name}, {way}, are one edge",))


def _present(value: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
