"""What is computed on the way from a stored row to a column: the expressions of views, and columns that are generated when they are read.

An engine evaluates them inside the paid statement, mostly of those rows alone that the rest of a question leaves over. One that fails on
some value, such as CAST(code AS INTEGER), therefore answers any question by whether the statement fails: `WHERE age = 64 AND code > 0`
fails where such a row has a code that is no number. So every expression has to be one of those that never fail. A column with another
one cannot be asked about, and a view whose rows depend on one (in its WHERE, a join, a DISTINCT) is refused when it is opened.

>>> stored = Behind(types={"id": "BIGINT", "code": "VARCHAR", "at": "TIMESTAMP"})
>>> def view(text):
...     return Behind(query=sqlglot.parse_one(text), types={})
>>> behind = {"t": stored, "v": view("SELECT id, CAST(at AS DATE) AS day, CAST(code AS INT) AS n FROM t WHERE code LIKE 'a%'")}
>>> sorted(may_fail(exp.to_table("v"), lambda table: behind[table.name]))
['n']
>>> behind["w"] = view("SELECT id FROM t WHERE CAST(code AS INT) > 3")
>>> may_fail(exp.to_table("w"), lambda table: behind[table.name])
Traceback (most recent call last):
...
tacit.tables.errors.TableError: view w computes which rows there are by something that may fail on one of them...

Rows that are stored, in a table or a materialised view, were computed before, and are as they are. Whose rows a view's rows are is not
judged here: that is declared by the unit, as for a table. What reads all rows at once in order to make one (window functions, LIMIT,
sub-queries in a condition) is not among what is known here, and is refused with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp

from tacit.tables.engines.types import WIDE, bare, kind_of
from tacit.tables.errors import TableError
from tacit.tables.values import BITS

#: Views of views of views: deeper ones are refused.
DEEPEST = 20

#: What never fails if its parts do not; of some of them the parts must also be of one type, or an engine casts them, or be conditions.
_ALONE = (exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Tuple, exp.Any, exp.Array, exp.If, exp.Ordered, exp.Identifier, exp.Var)
_LOGIC = (exp.And, exp.Or, exp.Not)
_SIDES = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In)
_CHOICES = (exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Case)
_WORDS = (exp.Lower, exp.Upper, exp.Trim, exp.Concat, exp.DPipe)
_PARTS = (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute, exp.DayOfMonth, exp.DayOfYear)
_GROUPED = (exp.Count, exp.Min, exp.Max, exp.LogicalOr, exp.LogicalAnd)
_NAMED = frozenset({"this", "db", "catalog", "alias", "joins"})
_DATES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
#: The clauses of a SELECT that are understood, under the names that versions of sqlglot have for them.
_CLAUSES = frozenset({"expressions", "from", "from_", "joins", "where", "group", "having", "with", "with_", "distinct", "order"})


@dataclass(frozen=True)
class Behind:
    """What an engine has under a name: the query of a view; or stored columns, and the expressions of those that are not `stored`.

    `types` are the types of all its columns. `renamed`: the names that a view gives to the columns of its query, in their order.
    """

    types: Mapping[str, str]
    query: exp.Expression | None = None
    generated: Mapping[str, exp.Expression] = field(default_factory=dict)
    renamed: tuple[str, ...] = ()


#: What is behind the name of a table.
Look = Callable[[exp.Table], Behind]


class _Unsure(Exception):
    """Which rows there are depends on something that may fail."""


def may_fail(table: exp.Table, look: Look) -> frozenset[str]:
    """The columns that are computed by what may fail on some row; the whole is refused where its rows depend on such a thing."""
    try:
        return _Reader(look).table(table).odd
    except _Unsure:
        pass
    raise TableError(code="view-may-fail", table=table.name)


@dataclass(frozen=True)
class _Rows:
    """Columns that can be read: their types where known, and which of them may fail; by names in small letters."""

    types: Mapping[str, str]
    odd: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Reader:
    look: Look
    own: Mapping[str, _Rows] = field(default_factory=dict)
    depth: int = 0

    def table(self, table: exp.Table) -> _Rows:
        behind = self.look(table)
        types = {name.casefold(): kind for name, kind in behind.types.items()}
        if behind.query is None:
            odd = {name for name, made in behind.generated.items() if not _sure(made, _Rows(types))}
            # One that is made of another is as sure as that one.
            while more := {n for n, made in behind.generated.items() if n not in odd and _names(made) & {o.casefold() for o in odd}}:
                odd |= more
            return _Rows(types, frozenset(odd))
        if self.depth >= DEEPEST:
            raise _Unsure
        found = _Reader(self.look, {}, self.depth + 1).query(behind.query, behind.renamed)
        known = {name.casefold(): name for name in behind.types}
        return _Rows(types or found.types, frozenset(known.get(name, name) for name in found.odd))

    def query(self, node: exp.Expression, renamed: Sequence[str] = ()) -> _Rows:
        if isinstance(node, exp.Subquery) and not _beyond(node, {"this", "alias", "joins"}):
            return self.query(node.this, renamed)
        if isinstance(node, exp.Union) and not _beyond(node, {"this", "expression", "distinct"}):
            first, second = self.query(node.this, renamed), self.query(node.expression, renamed)
            if second.odd or (node.args.get("distinct") and first.odd):
                raise _Unsure  # by place, not by name; and to tell rows apart all their columns are computed
            return _Rows({name: kind for name, kind in first.types.items() if second.types.get(name) == kind}, first.odd)
        if not isinstance(node, exp.Select) or _beyond(node, _CLAUSES):
            raise _Unsure
        inner = self._with(node)
        rows = inner._read(node)
        group, distinct = node.args.get("group"), node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise _Unsure
        grouped = group is not None
        if group is not None and (_beyond(group, {"expressions"}) or not all(_sure(part, rows) for part in group.expressions)):
            raise _Unsure
        for clause in ("where", "having", "order"):
            asked = node.args.get(clause)
            parts = asked.expressions if isinstance(asked, exp.Order) else [asked.this] if asked is not None else []
            if not all(_sure(part, rows, grouped and clause != "where") for part in parts):
                raise _Unsure
            if clause != "order" and not all(_type(part, rows) == "BOOLEAN" for part in parts):
                raise _Unsure
        found = inner._columns(node, rows, grouped, renamed)
        if found.odd and (grouped or distinct is not None):
            raise _Unsure
        return found

    def _with(self, node: exp.Select) -> _Reader:
        """With the queries that a WITH names."""
        clause = node.args.get("with_") or node.args.get("with")
        own = dict(self.own)
        if clause is not None:
            if clause.args.get("recursive"):
                raise _Unsure
            for cte in clause.expressions:
                columns = cte.args["alias"].columns
                own[cte.alias.casefold()] = _Reader(self.look, own, self.depth).query(cte.this, [c.name for c in columns])
        return _Reader(self.look, own, self.depth)

    def _read(self, node: exp.Select) -> _Rows:
        """All columns of FROM and its joins, by name: one name of two types is of none, and one that may fail in either may fail."""
        clause = node.args.get("from_") or node.args.get("from")
        named, joins = _flat([*([clause.this] if clause is not None else []), *(node.args.get("joins") or [])])
        types: dict[str, str] = {}
        odd, twice = set[str](), set[str]()
        for part in named:
            rows = self._source(part)
            twice |= {name for name, kind in rows.types.items() if types.get(name, kind) != kind}
            types |= rows.types
            odd |= {name.casefold() for name in rows.odd}
        found = _Rows({name: kind for name, kind in types.items() if name not in twice}, frozenset(odd))
        for join in joins:
            on, using = join.args.get("on"), join.args.get("using") or []
            shared = {name.name.casefold() for name in using}
            if (
                _beyond(join, {"this", "on", "using", "side", "kind"})
                or shared & odd
                or not (on is None or (_sure(on, found) and _type(on, found) == "BOOLEAN"))
            ):
                raise _Unsure
        return found

    def _source(self, part: exp.Expression) -> _Rows:
        if isinstance(part, exp.Subquery):
            rows = self.query(part)
        elif isinstance(part, exp.Table) and isinstance(part.this, exp.Identifier) and not _beyond(part, _NAMED):
            named = part.args.get("db") is None and part.name.casefold() in self.own
            rows = self.own[part.name.casefold()] if named else self.table(part)
        else:
            raise _Unsure
        alias = part.args.get("alias")
        if alias is not None and alias.columns:
            if rows.odd:
                raise _Unsure
            return _Rows({})
        return rows

    def _columns(self, node: exp.Select, rows: _Rows, grouped: bool, renamed: Sequence[str]) -> _Rows:
        types: dict[str, str] = {}
        odd = set[str]()
        starred = False
        for place, chosen in enumerate(node.expressions):
            inner = chosen.unalias()
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                star = inner if isinstance(inner, exp.Star) else inner.this
                if any(star.args.values()):
                    raise _Unsure
                starred, types, odd = True, {**types, **rows.types}, odd | rows.odd
                continue
            name = (renamed[place] if place < len(renamed) and not starred else chosen.alias_or_name).casefold()
            kind = _type(inner, rows)
            if kind is not None:
                types[name] = kind
            if not _sure(inner, rows, grouped):
                odd.add(name)
        if starred and renamed:
            if odd:
                raise _Unsure  # the places of its columns are not known
            return _Rows({})
        return _Rows(types, frozenset(odd))


def _flat(parts: Sequence[exp.Expression]) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """What a FROM names, and its joins, also those in brackets, as PostgreSQL writes them."""
    named, joins = list[exp.Expression](), list[exp.Expression]()
    for part in parts:
        if isinstance(part, exp.Join):
            joins.append(part)
            part = part.this
        bracket = isinstance(part, exp.Subquery) and isinstance(part.this, (exp.Table, exp.Subquery)) and part.args.get("alias") is None
        inside, within = _flat([part.this]) if bracket else ([part], [])
        others, beside = _flat(part.args.get("joins") or [])
        named += [*inside, *others]
        joins += [*within, *beside]
    return named, joins


def _constant(node: exp.Expression) -> bool:
    """Whether a cast is of what stands in the view itself: it fails for all rows, or for none."""
    return all(
        type(part) in (exp.Literal, exp.Cast, exp.Array, exp.Paren, exp.DataType, exp.DataTypeParam, exp.Neg) for part in node.walk()
    )


def _names(node: exp.Expression) -> set[str]:
    return {column.name.casefold() for column in node.find_all(exp.Column)}


def _beyond(node: exp.Expression, known: set[str] | frozenset[str]) -> bool:
    """Whether a node has an argument that is not known here."""
    return any(value not in (None, False, []) and name not in known for name, value in node.args.items())


def _sure(node: exp.Expression, rows: _Rows, grouped: bool = False) -> bool:
    """Whether an expression never fails, whatever the row is."""

    def parts(*nodes: exp.Expression) -> bool:
        return all(_sure(part, rows, grouped) for part in nodes)

    match node:
        case exp.Column():
            return isinstance(node.this, exp.Identifier) and node.name.casefold() not in rows.odd
        case exp.TryCast() if node.args.get("safe"):
            return parts(node.this)
        case exp.Cast():
            return _constant(node) or (parts(node.this) and _widens(_type(node.this, rows), node.args["to"]))
        case exp.Like() | exp.ILike():
            pattern = node.expression.this if isinstance(node.expression, exp.Cast) else node.expression
            return parts(node.this) and isinstance(pattern, exp.Literal) and "\\" not in str(pattern.this)
        case exp.Collate():
            return parts(node.this)
        case exp.Extract():
            return parts(node.expression) and _type(node.expression, rows) in _DATES
        case exp.Count() if grouped and isinstance(node.this, exp.Star):
            return True
        case exp.Count() if grouped and isinstance(node.this, exp.Distinct):
            return all(_sure(part, rows) for part in node.this.expressions)
        case exp.Sum() | exp.Avg():
            kind = _type(node.this, rows) or ""
            return grouped and isinstance(node.this, exp.Column) and kind_of(kind) == "integer" and bare(kind) not in WIDE
        case _ if isinstance(node, _GROUPED):
            return grouped and not _beyond(node, {"this", "big_int"}) and _sure(node.this, rows)
        case _ if isinstance(node, _PARTS):
            return parts(node.this) and _type(node.this, rows) in _DATES
        case exp.Is():
            return parts(node.this) and isinstance(node.expression, exp.Null)
        case exp.Length():
            return parts(node.this)
        case _ if isinstance(node, exp.In) and _beyond(node, {"this", "expressions"}):
            return False
        case _ if type(node) in (*_SIDES, *_CHOICES):
            return parts(*node.iter_expressions()) and _alike([_type(part, rows) for part in _operands(node)]) and _conditions(node, rows)
        case _ if type(node) in _LOGIC:
            return all(_sure(part, rows, grouped) and _type(part, rows) == "BOOLEAN" for part in node.iter_expressions())
        case _ if type(node) in (*_ALONE, *_WORDS):
            return parts(*node.iter_expressions())
    return False


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """What is compared, or chosen from."""
    if isinstance(node, exp.Case):
        others = [node.args["default"]] if node.args.get("default") is not None else []
        return [*(branch.args["true"] for branch in node.args["ifs"]), *others]
    found: list[exp.Expression] = []
    for part in node.iter_expressions():
        while isinstance(part, (exp.Any, exp.Paren, exp.Cast)) and part.find(exp.Array) is not None:
            part = part.this
        found += part.expressions if isinstance(part, exp.Array) else [part]
    return found


def _conditions(node: exp.Expression, rows: _Rows) -> bool:
    """Whether what a CASE asks is true or false, or compares what can be compared."""
    if not isinstance(node, exp.Case):
        return True
    asked = [branch.this for branch in node.args["ifs"]]
    if node.this is not None:
        return _alike([_type(part, rows) for part in (node.this, *asked)])
    return all(_type(part, rows) == "BOOLEAN" for part in asked)


def _alike(types: Sequence[str | None]) -> bool:
    """Whether an engine compares these without a cast that could fail. A constant text takes the type of the rest, once for all rows."""
    known = {kind for kind in types if kind not in ("NULL", "CONSTANT")}
    if None in known:
        return False
    kinds = {kind_of(kind) for kind in known if kind is not None}
    narrow = kinds == {"integer"} and not any(bare(kind) in WIDE for kind in known if kind is not None)
    # PostgreSQL's decimals are of any length, and come without their digits.
    return (
        len(known) <= 1
        or narrow
        or kinds == {"float"}
        or (kinds == {"text"} and "UUID" not in known)
        or (known <= {"DECIMAL", *BITS})
    )


def _type(node: exp.Expression, rows: _Rows) -> str | None:
    """The type of an expression where it is certain; CONSTANT of a text in the view, NULL of none."""
    match node:
        case exp.Paren() | exp.Min() | exp.Max():
            return _type(node.this, rows)
        case exp.Cast():
            return "CONSTANT" if _constant(node) else _TARGETS.get(node.args["to"].this)
        case exp.Column():
            return rows.types.get(node.name.casefold())
        case exp.Null():
            return "NULL"
        case exp.Literal():
            if node.is_string:
                return "CONSTANT"
            return "BIGINT" if str(node.this).isdigit() and int(node.this) < 2**31 else "DOUBLE"
        case exp.Length() | exp.Count():
            return "BIGINT"
        case _ if type(node) in (*_SIDES, *_LOGIC) or isinstance(node, (exp.Is, exp.Boolean, exp.Like, exp.ILike)):
            return "BOOLEAN"
        case _ if type(node) in _WORDS or isinstance(node, exp.Collate):
            return "VARCHAR"
        case _ if type(node) in _CHOICES:
            found = {_type(part, rows) for part in _operands(node)} - {"NULL", "CONSTANT"}
            return found.pop() if len(found) == 1 else None if found else "VARCHAR"
    return None


_TYPE = exp.DataType.Type
_TEXTS = (_TYPE.TEXT, _TYPE.VARCHAR, _TYPE.CHAR, _TYPE.BPCHAR)
_TARGETS = {
    _TYPE.TEXT: "VARCHAR", _TYPE.VARCHAR: "VARCHAR", _TYPE.DATE: "DATE", _TYPE.TIMESTAMP: "TIMESTAMP", _TYPE.SMALLINT: "SMALLINT",
    _TYPE.INT: "INTEGER", _TYPE.BIGINT: "BIGINT", _TYPE.FLOAT: "FLOAT", _TYPE.DOUBLE: "DOUBLE",
}  # fmt: skip


def _widens(source: str | None, to: exp.DataType) -> bool:
    """Whether a cast holds every value of the type it comes from."""
    if to.this in _TEXTS:
        return True
    if source is None:
        return False
    kind, target = kind_of(source), _TARGETS.get(to.this)
    if target == "DATE":
        return source in _DATES
    if target in BITS:
        return kind == "boolean" or (bare(source) in BITS and BITS[bare(source)] <= BITS[target])
    if target == "DOUBLE":
        return kind == "integer" or bare(source) in ("FLOAT", "REAL", "DOUBLE")
    return to.this == _TYPE.DECIMAL and not to.expressions and kind == "integer"


def query_of(text: str, dialect: str) -> exp.Expression | None:
    """The query of a view's text; None where it cannot be read."""
    found: Any = None
    with suppress(sqlglot.errors.SqlglotError, RecursionError):
        found = sqlglot.parse_one(text, dialect=dialect)
    return found if isinstance(found, exp.Expression) else None
