"""The same word in several dialects: where its meaning differs, the tree says which one is meant.

sqlglot reads each dialect's grammar; what a word computes it mostly leaves as it stands. CAST(2.7 AS INT) is 2 in Spark and 3 in
PostgreSQL, DAYOFWEEK counts from 0 in DuckDB and from 1 in MySQL, a week begins on Sunday in Transact-SQL. Each such node gets a mark that
`tacit.tables.expressions` obeys, so that an answer is what the plain query would have given, on whatever engine it runs.

>>> from sqlglot import parse_one
>>> tree = spoken(parse_one("SELECT CAST(x AS INT), DAYOFWEEK(d) FROM t", read="spark"), "spark")
>>> tree.expressions[0].meta["truncates"], tree.expressions[1].meta["sunday"]
(True, 1)
>>> spoken(parse_one("SELECT STDEVP(x), CONVERT(DATE, d) FROM t", read="tsql"), "tsql").sql()
'SELECT STDDEV_POP(x), CAST(d AS DATE) FROM t'
"""

from __future__ import annotations

from sqlglot import Dialect, exp
from sqlglot.dialects.dialect import Dialects

from tacit.tables import grammar
from tacit.tables.errors import TableError

#: Where a fraction that becomes a whole number loses its decimals; elsewhere it is rounded.
TRUNCATES = frozenset({"spark", "spark2", "databricks", "hive", "tsql", "fabric", "sqlite", "clickhouse", "teradata"})
#: Where a double halfway between two whole numbers becomes the even one; elsewhere it is rounded up here.
_TO_EVEN = frozenset({"duckdb", "postgres"})
#: The size of a plain DECIMAL, where it has one.
_DECIMALS = {
    "duckdb": (18, 3), "spark": (10, 0), "spark2": (10, 0), "databricks": (10, 0), "hive": (10, 0), "mysql": (10, 0), "tsql": (18, 0),
    "snowflake": (38, 0), "redshift": (18, 0),
}  # fmt: skip
#: The number that Sunday has, for the functions that differ; a dialect that is not here has none that could be relied on.
_SUNDAY_DAYOFWEEK = {"duckdb": 0, "snowflake": 0, "mysql": 1, "spark": 1, "spark2": 1, "databricks": 1, "hive": 1, "bigquery": 1}
_SUNDAY_DOW = {"duckdb": 0, "postgres": 0, "redshift": 0, "snowflake": 0, "spark": 1, "spark2": 1, "databricks": 1, "hive": 1}
#: Where WEEK is the ISO week, which begins on Monday.
_ISO_WEEKS = frozenset(
    {"duckdb", "postgres", "redshift", "spark", "spark2", "databricks", "hive", "snowflake", "trino", "presto", "athena"}
)
#: Names that sqlglot leaves as they are.
_AGGREGATES: dict[str, dict[str, type[exp.Expression]]] = {
    "tsql": {"STDEVP": exp.StddevPop, "VARP": exp.VariancePop, "VAR": exp.Variance},
    "spark": {"STD": exp.StddevSamp},
    "databricks": {"STD": exp.StddevSamp},
}
#: Where 1e3 is a decimal; elsewhere a number with an exponent is a double.
_EXACT_EXPONENTS = frozenset({"postgres", "redshift", "snowflake", "oracle"})
#: Marks on a node, and what they say.
TRUNCATING, TO_EVEN, SUNDAY, OTHER_WEEK, FLOATING = "truncates", "to even", "sunday", "other week", "floating"


def known_dialect(name: str) -> str:
    """The name of a dialect that questions may be written in.

    >>> known_dialect("Snowflake")
    'snowflake'
    >>> known_dialect("latin")
    Traceback (most recent call last):
    ...
    tacit.tables.errors.TableError: dialect must be the name of one, such as 'duckdb', 'postgres', 'spark', 'bigquery', 'tsql', not 'latin'
    """
    plain = name.lower() if isinstance(name, str) else ""
    if not plain or plain not in {dialect.value for dialect in Dialects} or Dialect.get(plain) is None:
        raise TableError(f"dialect must be the name of one, such as 'duckdb', 'postgres', 'spark', 'bigquery', 'tsql', not {name!r}")
    return plain


def spoken(tree: exp.Expression, dialect: str) -> exp.Expression:
    """The tree of a question in a dialect, with what differs between dialects said."""
    made: exp.Expression = grammar.plain(tree).transform(lambda node: _meant(node, dialect), copy=False)
    return made


def _meant(node: exp.Expression, dialect: str) -> exp.Expression:
    match node:
        case exp.Convert():
            if node.args.get("style") is None:
                cast = exp.TryCast if node.args.get("safe") else exp.Cast
                return _meant(cast(this=node.expression, to=node.this), dialect)
        case exp.Cast():
            if dialect in TRUNCATES:
                node.meta[TRUNCATING] = True
            elif dialect in _TO_EVEN:
                node.meta[TO_EVEN] = dialect
            _default_size(node.args["to"], dialect)
        case exp.Round():
            if dialect in ("postgres", "redshift"):
                node.meta[TO_EVEN] = dialect
        case exp.Literal():
            if not node.is_string and "e" in node.this.lower() and dialect not in _EXACT_EXPONENTS:
                node.meta[FLOATING] = True
        case exp.Anonymous():
            function = _AGGREGATES.get(dialect, {}).get(node.name.upper())
            if function is not None and len(node.expressions) == 1:
                return function(this=node.expressions[0])
        case exp.DayOfWeek():
            _mark(node, SUNDAY, _SUNDAY_DAYOFWEEK.get(dialect))
        case exp.Extract():
            part = node.this.name.upper()
            if part in ("DOW", "DAYOFWEEK"):
                _mark(node, SUNDAY, (_SUNDAY_DOW if part == "DOW" else _SUNDAY_DAYOFWEEK).get(dialect))
            elif part == "WEEK" and dialect not in _ISO_WEEKS:
                node.meta[OTHER_WEEK] = dialect
        case exp.Week() | exp.WeekOfYear() | exp.TimestampTrunc() | exp.DateTrunc():
            if dialect not in _ISO_WEEKS:
                node.meta[OTHER_WEEK] = dialect
        case exp.RawString():
            return exp.Literal.string(node.this)
        case exp.Length():
            if dialect == "bigquery":
                # Of a text BigQuery counts characters; sqlglot cannot know that it is one, and here nothing else can be counted.
                node.set("binary", None)
    return node


def _default_size(to: exp.Expression, dialect: str) -> None:
    """DECIMAL without a size is of the dialect's own."""
    size = _DECIMALS.get(dialect)
    if to.this == exp.DataType.Type.DECIMAL and not to.expressions and size is not None:
        to.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(part)) for part in size])


def _mark(node: exp.Expression, name: str, value: int | None) -> None:
    if value is not None:
        node.meta[name] = value
