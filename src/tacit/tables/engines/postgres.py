"""PostgreSQL: rows stay in the server, and only integers come back. Needs the extra `tacit[postgres]`.

Every statement runs in a read-only transaction with a time limit, and is rolled back. What is public (names, types, public tables) is
asked by a connection of its own, which waits for no statement about rows. PostgreSQL raises an error where others give
infinity, zero or NULL: a product too small or too large for a float, a text that is no number, a decimal beyond floats. `prepare`
rules these out.

>>> from sqlglot import parse_one
>>> total(parse_one("SELECT TRY_CAST(a AS DATE) FROM t")).sql("postgres")
"SELECT CASE WHEN PG_INPUT_IS_VALID(CAST(a AS TEXT), 'DATE') THEN CAST(CAST(a AS TEXT) AS DATE) END FROM t"
"""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from tacit.tables.engines.engine import Words, collation_probe, constant, portable_key, prepared, refuse_collated
from tacit.tables.engines.types import COMPUTED, postgres_type
from tacit.tables.engines.views import Behind, may_fail, query_of
from tacit.tables.errors import EngineError, TableError

if TYPE_CHECKING:
    import psycopg

WORDS = Words(exp.DataType.Type.TEXT, "pg_typeof", ("double precision", "real"), ("timestamp with time zone",), "tacit_microseconds")
#: Results smaller than this are zero: floats end at 5e-324, and no lattice is fine enough for the difference to show.
SMALLEST = 1e-300
#: The logarithm of the largest float, a little less: 2^1024 is beyond.
LARGEST = 709.7827
WHOLE = {exp.DataType.Type.BIGINT: 2**63, exp.DataType.Type.INT: 2**31, exp.DataType.Type.SMALLINT: 2**15}
DOUBLE = exp.DataType.Type.DOUBLE
#: The types of texts, and what stands for them where the database keeps them in another encoding.
TEXTS, OTHER_ENCODING = ("VARCHAR", "CHAR", "NAME"), "TEXT NOT IN UTF-8"


class Postgres:
    """A connection to a PostgreSQL server; `url` is postgresql://user:password@host/database. `timeout` is in seconds."""

    dialect = "postgres"

    def __init__(self, url: str, *, timeout: float = 3600.0, portable: bool = False) -> None:
        if not timeout > 0:
            raise TableError(f"timeout must be a number of seconds above 0, not {timeout}")
        self.portable = portable
        self._timeout = timeout
        self._connection = _connected(url)
        # Types and names are asked beside the statement that runs: whoever had to wait for it would know how long the rows took.
        self._beside = _connected(url)
        self._lock, self._beside_lock = threading.Lock(), threading.Lock()

    def prepare(self, statement: exp.Expression) -> exp.Expression:
        """The statement in a form that no row can make fail."""
        return total(statement)

    def run(self, statement: exp.Expression) -> pa.Table:
        return self._run(statement, self._connection, self._lock)

    def run_aside(self, statement: exp.Expression) -> pa.Table:
        """The result of a statement about public things, without waiting for one that runs."""
        return self._run(statement, self._beside, self._beside_lock)

    def _run(self, statement: exp.Expression, connection: psycopg.Connection[Any], lock: threading.Lock) -> pa.Table:
        text = self.prepare(statement).sql(dialect=self.dialect)
        found: pa.Table | None = None
        with suppress(Exception):
            found = self._fetched(text, connection, lock)
        if found is None:
            # The server's words may quote a row, so they stop here, and no exception is chained to this one.
            raise EngineError(code="statement-failed", engine="PostgreSQL")
        return found

    def columns(self, relation: exp.Expression) -> dict[str, str]:
        computed: frozenset[str] = frozenset()
        if isinstance(relation, exp.Table):
            computed = may_fail(relation, lambda table: self._behind(table, named=table is relation))
        query = exp.Select(expressions=[exp.Star()]).from_(relation.copy(), copy=False).limit(0, copy=False)
        found = self._described(self.prepare(query).sql(dialect=self.dialect)) | dict.fromkeys(computed, COMPUTED)
        texts = [name for name, kind in found.items() if kind in TEXTS]
        if texts and self._beside.info.parameter_status("server_encoding") != "UTF8":
            # Not every byte has a character in other encodings, and not every character bytes: a statement would fail on one of them.
            found |= dict.fromkeys(texts, OTHER_ENCODING)
            texts = []
        if texts and isinstance(relation, exp.Table):
            alike = self.run_aside(collation_probe(relation, texts)).to_pylist()[0]
            refuse_collated([name for name in texts if alike[name]], relation.name)
        return found

    def _described(self, text: str) -> dict[str, str]:
        found: dict[str, str] | None = None
        with suppress(Exception), self._beside_lock, self._beside.transaction(force_rollback=True):
            described = self._beside.execute(text.encode()).description or []
            found = {column.name: postgres_type(column.type_code) for column in described}
        if found is None:
            raise EngineError("PostgreSQL knows no such table or column; check the names")
        return found

    def _behind(self, table: exp.Table, *, named: bool) -> Behind:
        """What a name stands for, as the server's own catalogue has it.

        A policy on rows holds for the one who asks (`named`), but behind a view for the view's owner: there every policy counts.
        """
        name = exp.Table(**{part: table.args[part].copy() for part in ("this", "db") if table.args.get(part) is not None})
        text = name.sql(dialect=self.dialect)
        rows: list[Any] | None = None
        with suppress(Exception), self._beside_lock, self._beside.transaction(force_rollback=True):
            rows = self._beside.execute(_COMPUTED, (text,)).fetchall()
        if not rows:
            raise EngineError("PostgreSQL knows no such table or column; check the names")
        if any(row[3] for row in rows):
            raise TableError(code="rows-may-fail", table=table.name, how="fetched from elsewhere by a foreign table")
        if any(row[4] if named else row[5] for row in rows):
            raise TableError(code="rows-may-fail", table=table.name, how="chosen by a policy on rows")
        # What cannot be read is an expression that is not known. Partitions may have expressions of their own.
        made: dict[str, list[exp.Expression]] = {}
        for row in rows:
            if row[1] is not None:
                made.setdefault(str(row[1]), []).append(query_of(str(row[2]), self.dialect) or exp.Anonymous(this="unread"))
        view = next((str(row[0]) for row in rows if row[0] is not None), None)
        return Behind(
            self._described(f"SELECT * FROM {text} LIMIT 0"),
            None if view is None else query_of(view, self.dialect) or exp.Anonymous(this="unread"),
            {column: exp.Tuple(expressions=found) for column, found in made.items()},
        )

    def relations(self, table: str) -> list[str]:
        """The tables behind a name, as the server itself numbers them: one table has one number, however it is spelt or viewed."""
        named = exp.to_table(table, dialect=self.dialect) if "." in table else exp.to_table(table, quoted=True)
        name = named.sql(dialect=self.dialect)
        found: list[Any] | None = None
        with self._beside_lock, suppress(Exception), self._beside.transaction():
            server = self._beside.execute(_SERVER).fetchone()
            rows = self._beside.execute(_BEHIND, (name,)).fetchall()
            found = [f"{server[0] if server else ''}:{row[0]}" for row in rows]
        return sorted(found or [])

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        if self.portable:
            return exp.Collate(this=portable_key(salt, values, WORDS), expression=exp.to_identifier("C", quoted=True))
        text = exp.Anonymous(this="concat_ws", expressions=[exp.Literal.string("|"), *(value.copy() for value in values)])
        return exp.Anonymous(this="hashtextextended", expressions=[text, exp.Literal.number(salt)])

    def is_nan(self, value: exp.Expression) -> exp.Expression:
        return exp.EQ(this=exp.cast(value, "DOUBLE"), expression=exp.cast(exp.Literal.string("NaN"), "DOUBLE"))

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()
        self._beside.close()

    def _fetched(self, text: str, connection: psycopg.Connection[Any], lock: threading.Lock) -> pa.Table:
        with lock, connection.transaction(force_rollback=True):
            connection.execute(f"SET LOCAL statement_timeout = {max(1, int(1000 * self._timeout))}".encode())
            cursor = connection.execute(text.encode())
            names = [column.name for column in cursor.description or []]
            rows = cursor.fetchall()
        return pa.table([_array([row[i] for row in rows]) for i in range(len(names))], names=names)


#: Which cluster and database this is, whatever the address that led here.
_SERVER = "SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || oid FROM pg_database WHERE datname = current_database()"
#: The query of a view; the expressions of columns that are not stored, as PostgreSQL 18 has them; whether rows come from elsewhere, and
#: whether policies choose among them: for the one who asks, and for anyone. With all parts of a table that has some.
_COMPUTED = """
WITH RECURSIVE parts(number) AS (
    SELECT to_regclass(%s)::oid
    UNION SELECT i.inhrelid FROM parts JOIN pg_inherits i ON i.inhparent = parts.number
)
SELECT CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END, a.attname, pg_get_expr(d.adbin, d.adrelid),
    c.relkind = 'f', row_security_active(c.oid), c.relrowsecurity
FROM parts JOIN pg_class c ON c.oid = parts.number
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
"""
#: The tables that a view reads, through other views, and the whole tables that partitions are parts of.
_BEHIND = """
WITH RECURSIVE reads(number) AS (
    SELECT to_regclass(%s)::oid
    UNION SELECT found.number FROM reads, LATERAL (
        SELECT d.refobjid AS number FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        WHERE r.ev_class = reads.number AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> reads.number
        UNION SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = reads.number
    ) AS found
)
SELECT c.oid::text FROM reads JOIN pg_class c ON c.oid = reads.number WHERE c.relkind IN ('r', 'p', 'f')
"""


def _array(values: list[Any]) -> pa.Array:
    """Sums come as decimals, whole ones: they are handed over as wide integers, as DuckDB does."""
    if any(isinstance(value, Decimal) for value in values) and all(value is None or value == int(value) for value in values):
        return pa.array([None if value is None else Decimal(int(value)) for value in values], pa.decimal128(38, 0))
    return pa.array(values)


def _connected(url: str) -> psycopg.Connection[Any]:
    try:
        import psycopg
    except ImportError:
        raise TableError("PostgreSQL needs psycopg: pip install 'tacit[postgres]'") from None
    scheme, found, rest = url.partition("://")
    if not found or scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise TableError("a PostgreSQL source is postgresql://user:password@host/database")
    connection: psycopg.Connection[Any] | None = None
    with suppress(psycopg.Error):
        connection = psycopg.connect(f"postgresql://{rest}", autocommit=True, application_name="tacit", client_encoding="utf8")
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET TIME ZONE 'UTC'")
        # Whatever the server or the role is set to: a backslash in a text is a backslash and ends nothing, every character can be sent, and
        # dates are written in one way.
        connection.execute("SET standard_conforming_strings = on")
        connection.execute("SET client_encoding = 'UTF8'")
        connection.execute("SET DateStyle = 'ISO, YMD'")
        connection.execute("SET extra_float_digits = 1")  # floats are written with all their digits
    if connection is None:
        # Not the driver's words: they may repeat a password.
        raise TableError("the PostgreSQL server cannot be reached, or does not let this user in; check the URL, and that the server runs")
    return connection


# ---- statements that cannot fail -----------------------------------------------------------------------------------------------------


def total(statement: exp.Expression) -> exp.Expression:
    """The statement with casts, products and quotients that give NULL, zero or infinity where PostgreSQL would raise."""
    return prepared(statement, _total)


def _total(node: exp.Expression) -> exp.Expression:
    match node:
        case exp.TryCast() | exp.Cast() if not constant(node.this):
            return _cast(node)
        case exp.Mul() if _floating(node):
            return _product(node.this, node.expression)
        case exp.Div() if _floating(node) and constant(node.expression):
            return _quotient(node)
        case exp.Anonymous() if node.name == WORDS.microseconds:
            return _microseconds(node.expressions[0])
    return node


def _floating(node: exp.Expression) -> bool:
    """Whether this is arithmetic of floats: nothing else casts to them."""
    return any(found.to.this == DOUBLE for found in node.find_all(exp.Cast))


def _cast(node: exp.Cast) -> exp.Expression:
    value, to = node.this, node.to
    if to.this in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR):
        return node
    if to.this in WHOLE:
        if isinstance(value, exp.Floor):
            # 2^63 is a float and no integer, so the greatest float below it is the bound.
            limit = WHOLE[to.this] - (1024 if to.this == exp.DataType.Type.BIGINT else 1)
            held = exp.func("LEAST", exp.func("GREATEST", value.copy(), _double(-limit)), _double(limit))
            # LEAST and GREATEST pass over NULL, so it would come out as the lower limit.
            return exp.cast(exp.Nullif(this=held, expression=_double(-limit)), to.copy())
        if not isinstance(node, exp.TryCast):
            return node
        number = exp.cast(_text(value), "DECIMAL")
        inside = exp.Between(this=number, low=exp.Literal.number(str(-WHOLE[to.this])), high=exp.Literal.number(str(WHOLE[to.this] - 1)))
        inner = exp.Case(ifs=[exp.If(this=inside, true=exp.cast(number.copy(), to.copy()))])
        return exp.Case(ifs=[exp.If(this=_valid(value, "numeric"), true=inner)])
    if to.this == DOUBLE and not isinstance(value, exp.Column) and _floating(value):
        return node
    parsed = exp.Case(ifs=[exp.If(this=_valid(value, to.sql(dialect="postgres")), true=exp.cast(_text(value), to.copy()))])
    if to.this == DOUBLE and not isinstance(node, exp.TryCast):
        kind = exp.cast(exp.Anonymous(this="pg_typeof", expressions=[value.copy()]), "TEXT")
        native = [exp.Literal.string(name) for name in ("double precision", "bigint", "integer", "real", "smallint")]
        # A cast of text would be refused as such only when it is run, and it is not run.
        plain = exp.cast(value.copy(), to.copy())
        return exp.Case(ifs=[exp.If(this=exp.In(this=kind, expressions=native), true=plain)], default=parsed)
    return parsed


def _text(value: exp.Expression) -> exp.Expression:
    return exp.cast(value.copy(), "TEXT")


def _valid(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Anonymous(this="pg_input_is_valid", expressions=[_text(value), exp.Literal.string(name)])


def _double(value: float) -> exp.Expression:
    literal = exp.Literal.number(repr(float(abs(value))))
    return exp.cast(exp.Neg(this=literal) if value < 0 else literal, "DOUBLE")


def _number(node: exp.Expression) -> float | None:
    """The size of a public number, whatever its sign."""
    while isinstance(node, (exp.Paren, exp.Neg, exp.Cast)):
        node = node.this
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _most(node: exp.Expression) -> float:
    """The greatest size of a clamped, shifted and scaled value, from the constants in it; infinity for anything else."""
    match node:
        case exp.Paren():
            return _most(node.this)
        case exp.Least(this=exp.Greatest() as above) if len(node.expressions) == len(above.expressions) == 1:
            ends = [_signed(above.expressions[0]), _signed(node.expressions[0])]
            return max((abs(end) for end in ends), default=math.inf)
        case exp.Sub(this=exp.Least() as clamped) if isinstance(clamped.this, exp.Greatest):
            ends = [_signed(end) - _signed(node.expression) for end in (*clamped.this.expressions, *clamped.expressions)]
            return max((abs(end) for end in ends), default=math.inf)
        case exp.Div() if constant(node.expression):
            return _most(node.this) / (_number(node.expression) or 1.0)
        case exp.Case() if len(node.args["ifs"]) == 1 and _number(node.args["ifs"][0].args["true"]) == 0 and node.args.get("default"):
            return _most(node.args["default"])  # what `_unless_small` has made of a quotient
    return math.inf


def _signed(node: exp.Expression) -> float:
    """A public number with its sign; infinity for anything else."""
    size, sign = _number(node), 1
    while isinstance(node, (exp.Paren, exp.Neg, exp.Cast)):
        sign, node = (-sign if isinstance(node, exp.Neg) else sign), node.this
    return math.inf if size is None else sign * size


def _product(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    plain = exp.Mul(this=left.copy(), expression=right.copy())
    for factor, other in ((_number(left), right), (_number(right), left)):
        if factor is not None:
            # A factor of at least 1 makes nothing smaller. Values are clamped before they are scaled, so nothing grows too large.
            return plain if factor >= 1 or factor == 0 else _unless_small(other, SMALLEST / factor, plain)
    if _most(left) <= 1 and _most(right) <= 1:
        # Values on their public scale can only become too small, and next to 1 what is below the root of the smallest is nothing.
        return _unless_small(left, SMALLEST**0.5, _unless_small(right, SMALLEST**0.5, plain))
    logarithms = [exp.func("LN", exp.func("ABS", exp.Paren(this=side.copy()))) for side in (left, right)]
    size = exp.Add(this=logarithms[0], expression=logarithms[1])
    zero = exp.or_(*(exp.EQ(this=exp.Paren(this=side.copy()), expression=_double(0)) for side in (left, right)))
    nan = exp.cast(exp.Literal.string("NaN"), "DOUBLE")
    missing = exp.or_(*(exp.EQ(this=exp.Paren(this=side.copy()), expression=nan.copy()) for side in (left, right)))
    sign = exp.Mul(
        this=exp.func("SIGN", exp.Paren(this=left.copy())),
        expression=exp.Mul(
            this=exp.func("SIGN", exp.Paren(this=right.copy())), expression=exp.cast(exp.Literal.string("Infinity"), "DOUBLE")
        ),
    )
    absent = exp.or_(*(exp.Is(this=exp.Paren(this=side.copy()), expression=exp.null()) for side in (left, right)))
    return exp.Case(
        ifs=[
            # First of all: nothing times zero is not zero, and would be counted.
            exp.If(this=absent, true=exp.null()),
            exp.If(this=zero, true=_double(0)),
            exp.If(this=missing, true=nan),
            exp.If(this=exp.LT(this=size, expression=_double(-690.0)), true=_double(0)),
            exp.If(this=exp.GT(this=size.copy(), expression=_double(LARGEST)), true=sign),
        ],
        default=plain,
    )


def _quotient(node: exp.Div) -> exp.Expression:
    divisor = _number(node.expression)
    if divisor is None or divisor <= 1:
        return node
    return _unless_small(node.this, min(SMALLEST * divisor, 1e300), node.copy())


def _unless_small(value: exp.Expression, limit: float, plain: exp.Expression) -> exp.Expression:
    small = exp.LT(this=exp.func("ABS", exp.Paren(this=value.copy())), expression=_double(limit))
    return exp.Case(ifs=[exp.If(this=small, true=_double(0))], default=plain)


def _microseconds(instant: exp.Expression) -> exp.Expression:
    seconds = exp.Extract(this=exp.var("EPOCH"), expression=instant.copy())
    return exp.cast(exp.Mul(this=seconds, expression=exp.Literal.number(10**6)), "BIGINT")
