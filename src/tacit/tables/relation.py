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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import Value, column
from tacit.tables.unit import Link, Unit

Resolve = Callable[[exp.Column], Value]

TYPES = {
    "integer": "BIGINT",
    "float": "DOUBLE",
    "text": "TEXT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "null": "TEXT",
}


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
    `person_type`: the type of the person's column, which decides with which others it may meet.
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
        found = find(node, self.fields)
        return column(found.name, found.type)


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


def told_apart(rows: Relation) -> list[exp.Expression]:
    """What to order one person's rows by, so that those it does not tell apart are equal in all that a question can ask of them.

    Between others an engine chooses by where they lie, which everybody's rows have a say in. Of values that cannot be compared a question
    can only ask whether they are there.

    >>> rows = Relation(exp.to_table("t"), (Field("a", "BIGINT"), Field("b", "BLOB")))
    >>> [term.sql("duckdb") for term in told_apart(rows)]
    ['"a"', '"b" IS NULL']
    """
    terms: list[exp.Expression] = []
    for f in rows.fields or ():
        name = exp.column(f.name, quoted=True)
        terms.append(exp.Is(this=name, expression=exp.null()) if column(f.name, f.type).kind == "other" else name)
    return terms


def shown_type(sql_type: str | None) -> str:
    """A type as a message may say it: that of a category has values in it.

    >>> shown_type("ENUM('smith', 'jones')"), shown_type("DECIMAL(18,3)"), shown_type(None)
    ('ENUM', 'DECIMAL(18,3)', 'unknown')
    """
    return "unknown" if sql_type is None else "ENUM" if sql_type.upper().startswith("ENUM") else sql_type


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
    return Field(name, TYPES.get(value.kind))


def add(chosen: list[exp.Expression], fields: list[Field], person: str | None, name: str, sql: exp.Expression, made: Field) -> None:
    """One more column, unless its name is taken or pretends to be the person's."""
    if name.lower() in {f.name.lower() for f in fields}:
        raise TableError(f"two columns of a sub-query are called {name}; give one another name")
    if person is not None and name.lower() == person.lower():
        if not made.person:
            raise Refused(f"{name} is the name of the person's column; call the expression something else")
        fields.append(replace(made, name=person))
        return
    chosen.append(named(sql, name))
    fields.append(replace(made, name=name))
