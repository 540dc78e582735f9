"""Relations: what a question selects from, and how far one person's rows can spread in it.

Whatever sub-queries, joins and unions do, every row of a relation still belongs to one person, whose column is carried along under the
unit's name. So the caps of the unit, applied to the question's rows, hold at the end, and nothing needs to be assumed about the data.
Where no cap is applied (a unit that is a row, or data declared to be capped already), `multiplicity` says how many rows one row can become.

Names are quoted and constants are written by sqlglot: no text of a question is ever pasted into a statement.

>>> from sqlglot import parse_one
>>> catalog = Catalog({"visits": Table({"id": "BIGINT", "age": "INTEGER", "code": "VARCHAR"}),
...     "codes": Table({"code": "VARCHAR", "name": "VARCHAR"}, public=True)}, Unit("id", max_rows=3))
>>> query = parse_one("SELECT 1 FROM (SELECT age + 1 AS older, code FROM visits) v JOIN codes c ON v.code = c.code")
>>> from tacit.tables.from_clause import rows_of
>>> found, names = rows_of(query, catalog)
>>> found.names
('older', 'code', 'c_code', 'name')
>>> found.person, found.tables
('id', ('visits', 'codes'))

Whose row it is: the column that says so, a way along foreign keys, or the two ends of an edge.

Each table of a session becomes a relation in which every row carries its owner under the unit's name, so that caps, joins and sub-queries
work as they do for a person's column. Why that is stable: a row with its owner depends on rows of that owner alone, so
all other rows stay as they are when one person comes or goes with all the rows that lead to them.

**Edges.** For `Unit.edge('src', 'dst', ...)` the owner is the pair of ends, written so that no two pairs look alike.

**Nodes at both ends.** An edge belongs to two nodes at once, and no cap that looks at the edges of one end is stable: a hub that leaves
gives each of its neighbours room for another edge, any number in all. So `Unit.node(ends=...)` is accepted only
where the greatest degree is declared to hold (`capped=True`); then a node that leaves takes at most that many rows along,
and nothing else changes.

>>> from tacit.tables.unit import links_of
>>> tables = {"person": Table({"id": "BIGINT"}), "visit": Table({"id": "BIGINT", "person_id": "BIGINT"}),
...     "drug": Table({"visit_id": "BIGINT"})}
>>> links = links_of({"visit.person_id": "person.id", "drug.visit_id": "visit.id"})
>>> catalog = Catalog(tables, Unit.node("person.id", max_rows=5), links=links)
>>> print(owned("drug", catalog).source.sql("duckdb"))
(SELECT "way_1_"."person_id" AS "person_id", "way_0_"."visit_id" AS "visit_id" FROM "drug" AS "way_0_"
INNER JOIN "visit" AS "way_1_" ON "way_0_"."visit_id" = "way_1_"."id") AS "table_"

**What is declared** of the columns of a session's tables, a `Schema`: types, bounds, categories, and foreign keys. Nothing of it is ever
read from the data. A question's relation says under which name each of its columns was declared, and so which bounds are its own:

>>> schema = Schema.of({"age": (0, 110), "region": ["N", "S"], "cost": Column(bounds=(0, 5000), nullable=False)})
>>> schema.bounds["age"], schema.categories["region"]
((0, 110), ('N', 'S'))

Where there are several tables, a column may be named with its table, and one that names a row of another table says so:

>>> schema = Schema.of({"visit.person_id": Column(references="person.id"), "visit.cost": (0, 50), "drug.cost": (0, 80)})
>>> str(schema.links[0]), schema.bounds["cost"]
('visit.person_id -> person.id', (0, 80))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tacit.tables.engines.types import COMPUTED, NANOSECONDS, bare, kind_of
from tacit.tables.errors import Refused, TableError
from tacit.tables.statistics import Interval, interval_of
from tacit.tables.unit import Link, Unit, links_of, parted, ways
from tacit.tables.values import Value, column

if TYPE_CHECKING:
    from tacit.tables.question import Question

Resolve = Callable[[exp.Column], Value]

TYPES = {
    "integer": "BIGINT",
    "float": "DOUBLE",
    "text": "TEXT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "nanoseconds": "TIMESTAMP_NS",
    "null": "TEXT",
}


def type_of(value: Value) -> str | None:
    """The type of a computed column."""
    if value.kind == "decimal":
        return "DECIMAL" if value.size is None else f"DECIMAL({value.size[0]},{value.size[1]})"
    return "CHAR" if value.padded else "ENUM" if value.listed else TYPES.get(value.kind)


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
    """The tables of a session, its unit and the declared foreign keys. `count` runs a statement about public tables only; `shuffle` gives
    a pseudorandom order of rows, keyed by a mark that the statement replaces by its own salt (see `salted`)."""

    tables: Mapping[str, Table]
    unit: Unit
    count: Callable[[exp.Select], int] | None = None
    shuffle: Callable[[list[exp.Expression]], exp.Expression] | None = None
    links: tuple[Link, ...] = ()

    @property
    def columns(self) -> set[str]:
        """The names of all columns in the tables themselves."""
        return {name for table in self.tables.values() for name in table.columns or ()}

    @property
    def uncapped(self) -> bool:
        """Whether nothing is capped after the question's rows are made."""
        return self.unit.person is None or self.unit.capped


@dataclass(frozen=True)
class Field:
    """A column that a question may name: its type (None: not known), whether it tells whose row it is, and which column of which table it
    is, handed on as it was. `about`: the column whose public bounds and categories hold for it, where that is another than its origin."""

    name: str
    type: str | None
    person: bool = False
    origin: str = ""
    about: str | None = None

    @property
    def declared_as(self) -> str:
        """The column of a table under which it was declared, 'visits.age'; nothing for what is computed."""
        return self.origin if self.about is None else self.about


@dataclass(frozen=True)
class Relation:
    """Rows to ask about. `fields` is None where the columns are not known; `person` is the unit's column, carried along even if not
    selected.

    `multiplicity`: the most rows that one row of the data can become. `rows_per_person`: a cap that holds already, by construction.
    `person_type`: the type of the person's column, which decides with which others it may meet. `weights`: columns that are one over the
    number of the person's rows, so that those of one person add up to at most 1. Rows may be left out afterwards, and none made twice.
    """

    source: exp.Expression
    fields: tuple[Field, ...] | None = None
    person: str | None = None
    multiplicity: int = 1
    rows_per_person: int | None = None
    tables: tuple[str, ...] = ()
    public: bool = False
    steps: tuple[str, ...] = ()
    person_type: str | None = None
    weights: frozenset[str] = frozenset()

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
        return asked_of(find(node, self.fields))

    def called(self, alias: str) -> Resolve:
        """What the columns of a SELECT stand for whose FROM is this alone, under that name."""

        def resolve(node: exp.Column) -> Value:
            if node.table and node.table.lower() != alias.lower():
                raise not_in_from(node.table, [alias])
            return self.resolve(node)

        return resolve


@dataclass(frozen=True)
class Column:
    """One column: its type (as the engine writes it), its bounds if it is a number, its categories if it has a public list of them.

    `references` names the table and key that its values are rows of: a foreign key, such as 'person.id'.
    """

    type: str | None = None
    bounds: tuple[Any, Any] | None = None
    categories: tuple[Any, ...] | None = None
    nullable: bool = True
    references: str | None = None

    def __post_init__(self) -> None:
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(self.categories))
        if self.references is not None:
            parted("references", self.references)
        if self.bounds is not None:
            if len(tuple(self.bounds)) != 2:
                raise TableError("bounds must be two numbers, such as (0, 100)")
            object.__setattr__(self, "bounds", tuple(self.bounds))


@dataclass(frozen=True)
class Schema:
    """The public columns of a session's tables, by name, or by table and name: 'visit.cost'."""

    columns: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        alone = [name for name, column in self.columns.items() if column.references is not None and "." not in name]
        if alone:
            raise TableError(f"columns[{alone[0]!r}] references another table, so its own must be named too, such as 'visit.{alone[0]}'")
        for name, declared in self.columns.items():
            if declared.bounds is not None and all(isinstance(end, (int, float)) for end in declared.bounds):
                interval_of(name, declared.bounds)  # a slip, such as reversed bounds, is told where it was made

    @staticmethod
    def of(given: Schema | Mapping[str, Any] | None) -> Schema:
        """From a mapping: a pair of numbers is bounds, a list is categories, a text is a type."""
        if given is None:
            return Schema()
        if isinstance(given, Schema):
            return given
        return Schema({name: _column(name, value) for name, value in given.items()})

    @property
    def bounds(self) -> dict[str, Any]:
        """Bounds by column. Values are clamped to them, so where two tables bound a name differently, the wider hold for both."""
        found: dict[str, Any] = {name: column.bounds for name, column in self.columns.items() if column.bounds is not None}
        for name, (low, high) in list(found.items()):
            alone = name.rpartition(".")[2]
            if alone != name:
                known = found.get(alone, (low, high))
                found[alone] = (min(known[0], low), max(known[1], high))
        return found

    @property
    def categories(self) -> dict[str, tuple[Any, ...]]:
        """Public categories by column; a name that two tables list differently has none without its table."""
        found = {name: column.categories for name, column in self.columns.items() if column.categories is not None}
        for alone in {name.rpartition(".")[2] for name in found if "." in name} - set(found):
            lists = {listed for name, listed in found.items() if name.rpartition(".")[2] == alone}
            if len(lists) == 1:
                found[alone] = lists.pop()
        return found

    def bounds_of(self, question: Question, columns: Set[str]) -> dict[str, Any]:
        """Bounds by the names that a question has for its columns; `columns` are the names in the tables themselves.

        A renamed column keeps its bounds. A computed one, such as SUM(cost) AS cost by person, does not take those of its namesake.
        """
        declared, fields = self.bounds, _fields(question)
        found = dict(declared)
        for name in columns - {field_.name for field_ in fields} if fields else ():
            # A column that is not there: its bounds are not those of a figure that is called so.
            found.pop(name, None)
        for field_ in fields:
            own = _declared(declared, field_.declared_as)
            if own is not None:
                found[field_.name] = own
            elif field_.name in columns and field_.declared_as.rpartition(".")[2] != field_.name:
                found.pop(field_.name, None)
        return found

    def categories_of(self, question: Question, columns: Set[str]) -> dict[str, tuple[Any, ...]]:
        """Public categories by the names of a question's keys, as with bounds: those of UPPER(region) AS region are not the region's."""
        found, known = self.categories, {field_.name: field_ for field_ in _fields(question)}
        keys: dict[str, tuple[Any, ...]] = {}
        for key in question.keys:
            inner = key.value.this if isinstance(key.value, exp.Cast) else key.value
            field_ = known.get(inner.name) if isinstance(inner, exp.Column) else None
            own = _declared(found, field_.declared_as) if field_ is not None else None
            if own is None and (not known or key.name not in columns):
                own = found.get(key.name)
            if own is not None:
                keys[key.name] = own
        return keys

    @property
    def links(self) -> tuple[Link, ...]:
        """The declared foreign keys."""
        return links_of({name: column.references for name, column in self.columns.items() if column.references is not None})

    def interval(self, name: str) -> Interval | None:
        """The bounds of a column as an interval."""
        bounds = self.bounds.get(name)
        return None if bounds is None else interval_of(name, bounds)


def _fields(question: Question) -> tuple[Field, ...]:
    return (question.relation.fields or ()) if isinstance(question.relation, Relation) else ()


def _declared(found: Mapping[str, Any], name: str) -> Any:
    """What is declared of 'visits.age' under this name, or under its column's alone."""
    return found.get(name, found.get(name.rpartition(".")[2])) if name else None


def _column(name: str, value: Any) -> Column:
    if isinstance(value, Column):
        return value
    if isinstance(value, str):
        return Column(type=value)
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in value):
        return Column(bounds=value)
    if isinstance(value, Mapping):
        unknown = set(value) - {"type", "bounds", "categories", "nullable", "references"}
        if unknown:
            raise TableError(f"columns[{name!r}] may say type, bounds, categories, nullable and references, not {sorted(unknown)[0]!r}")
        return Column(**value)
    if isinstance(value, Sequence):
        return Column(categories=tuple(value))
    raise TableError(f"columns[{name!r}] must be bounds such as (0, 100), a list of categories, a type, or a Column")


def base_table(node: exp.Table) -> exp.Table:
    """A table as it is written, with its names quoted."""
    return exp.Table(
        **{part: exp.to_identifier(node.args[part].name, quoted=True) for part in ("this", "db", "catalog") if node.args.get(part)}
    )


def find(node: exp.Column, fields: Sequence[Field]) -> Field:
    """The field that a name means, in its own case or in any."""
    same = [f for f in fields if f.name == node.name] or [f for f in fields if f.name.lower() == node.name.lower()]
    if not same:
        raise TableError(f"there is no column {node.name}; there are {', '.join(f.name for f in fields)}")
    return same[0]


def not_in_from(table: str, names: Sequence[str]) -> TableError:
    """What is said of a column whose table is none of those in FROM."""
    return TableError(f"{table} is not a table of this FROM; there are {', '.join(names)}")


def same_people(first: str | None, second: str | None) -> bool:
    """Whether two columns of people can be compared and put below each other, so that equal means the same person and nothing can fail.

    Whole numbers of at most 64 bits can, and texts; anything else only with its own type. An engine compares a whole number and a float
    as floats, where 2**53 and 2**53 + 1 are one person, and reads a text as the number it is compared with.

    >>> same_people("INTEGER", "BIGINT"), same_people("BIGINT", "DOUBLE"), same_people("UBIGINT", "BIGINT"), same_people("UUID", "UUID")
    (True, False, False, True)
    """
    if first is None or second is None:
        return first is second
    return first.upper() == second.upper() or (plain_people(first) == plain_people(second) != "")


def asked_of(field: Field, name: str | None = None) -> Value:
    """The value of a column that a question names; refused where its type is not one of those that can be asked about."""
    if not usable(field):
        raise unsupported(name or field.name, field.type)
    return column(field.name, field.type)


def unsupported(name: str, sql_type: str | None) -> Refused:
    """Why a column cannot be asked about: its type, or how it is made."""
    if sql_type == COMPUTED:
        return Refused(code="column-may-fail", column=name)
    return Refused(code="type-unsupported", column=name, type=shown_type(sql_type))


def usable(field: Field) -> bool:
    """Whether a column is of a type that questions may use. Others are handed on by no sub-query, join or union.

    >>> usable(Field("a", "BIGINT")), usable(Field("b", "BIGINT[]"))
    (True, False)
    """
    return field.type is None or kind_of(field.type) != "other"


def told_apart(rows: Relation) -> list[exp.Expression]:
    """What to order one person's rows by, so that those it does not tell apart are equal in all that a question can ask of them.

    Between others an engine chooses by where they lie, which depends on all rows. Every column that a question can name takes
    part as it is, before any cast; of those that it cannot name nothing can be seen.

    >>> rows = Relation(exp.to_table("t"), (Field("a", "BIGINT"), Field("b", "BLOB"), Field("c", "TIMESTAMP_NS")))
    >>> [term.sql("duckdb") for term in told_apart(rows)]
    ['"a"', '"c"']
    """
    return [exp.column(f.name, quoted=True) for f in rows.fields or () if usable(f)]


def owner_of(table: str, name: str, kind: str | None) -> exp.Expression:
    """A column of one side of a join as it is compared: an enumeration and a UUID as their texts, which every side has."""
    value = column(name, kind).sql
    for found in value.find_all(exp.Column):
        found.set("table", exp.to_identifier(table, quoted=True))
    return value


def shown_type(sql_type: str | None) -> str:
    """A type as a message may say it: that of a category has values in it.

    >>> shown_type("ENUM('smith', 'jones')"), shown_type("DECIMAL(18,3)"), shown_type(None)
    ('ENUM', 'DECIMAL(18,3)', 'unknown')
    """
    return "unknown" if sql_type is None else "ENUM" if bare(sql_type) == "ENUM" else sql_type


def plain_people(sql_type: str | None) -> str:
    """integer or text, where a condition of a question compares people by exactly their values; otherwise empty."""
    found = column("x", sql_type).kind
    if found == "text":
        return found if isinstance(column("x", sql_type).sql, exp.Column) else ""
    return found if found == "integer" else ""


def named(sql: exp.Expression, name: str) -> exp.Expression:
    """An expression under a quoted name."""
    return exp.Alias(this=sql, alias=exp.to_identifier(name, quoted=True))


def nested(query: exp.Expression, name: str) -> exp.Subquery:
    """A query as something to select from."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


# ---- what a sub-query hands on -------------------------------------------------------------------------------------------------------


def carried(rows: Relation) -> tuple[list[exp.Expression], list[Field]]:
    """The first column of every sub-query: the person's, whether it is selected or not."""
    return ([] if rows.person is None else [exp.column(rows.person, quoted=True)]), []


def field_of(name: str, value: Value, rows: Relation) -> Field:
    """A computed column, or one that is handed on as it is."""
    if isinstance(value.sql, exp.Column):
        found = find(value.sql, rows.fields or ())
        return replace(found, name=name)
    return Field(name, type_of(value))


def add(chosen: list[exp.Expression], fields: list[Field], person: str | None, name: str, sql: exp.Expression, made: Field) -> None:
    """One more column, unless its name is taken or pretends to be the person's."""
    if name.lower() in {f.name.lower() for f in fields}:
        raise TableError(f"two columns of a sub-query are called {name}; give one another name")
    if person is not None and name.lower() == person.lower():
        if not made.person:
            raise Refused(f"{name} is the name of the person's column; call the expression something else")
        fields.append(replace(made, name=person))
        return
    if usable(made):
        chosen.append(named(sql, name))
    fields.append(replace(made, name=name))


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
            f"{name} has no column {person}, so its rows have no owner; declare it public, or say which column tells people apart"
        )
    fields = tuple(replace(f, person=f.name == person) for f in plain.fields or ())
    if person is not None:
        _tells_apart(find(exp.column(person), fields))
    found = replace(plain, fields=fields, person=person, person_type=None if person is None else find(exp.column(person), fields).type)
    if person == unit.person:
        return found
    if unit.person is None:
        return replace(found, person=None, person_type=None)
    return _carrying(name, found, exp.column(person or "", quoted=True), find(exp.column(person or ""), fields).type, unit.person)


def _tells_apart(person: Field) -> None:
    """Refuse a person's column of a type that questions cannot use, or in which two people would become one."""
    if not usable(person) or (person.type is not None and bare(person.type) in NANOSECONDS):
        raise unsupported(person.name, person.type)


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
            ends = ((f"way_{place}_", link.column, here), (f"way_{place + 1}_", link.to_column, there))
            on = exp.EQ(this=owner_of(*ends[0]), expression=owner_of(*ends[1]))
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
