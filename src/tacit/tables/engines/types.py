"""The types of columns that questions may use: one exact table for each engine, and one of the names in which the rest is written.

Every native type is one of ours, or it is not supported: a question that names such a column is refused before payment, and other
columns of its table can be asked about as ever. Nothing is matched by how a name begins: INTEGER[] is a list, INTERVAL no integer, and
an engine that compares either with a number fails only where there is such a row.

>>> kind_of("VARCHAR"), kind_of("BIGINT"), kind_of("DECIMAL(18,2)"), kind_of("TIMESTAMP WITH TIME ZONE")
('text', 'integer', 'decimal', 'timestamp')
>>> kind_of("VARCHAR[]"), kind_of("INTEGER[3]"), kind_of("INTERVAL"), kind_of("BIGNUM"), kind_of("int4range")
('other', 'other', 'other', 'other', 'other')
>>> duckdb_type("ENUM('smith', 'jones')"), duckdb_type("ENUM('a')[]"), spark_type("array<int>"), POSTGRES[1009]
('ENUM', 'LIST', 'ARRAY', 'TEXT[]')
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Our types and their kinds; the names that databases and people also have for them. What is not here is not supported.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), "boolean"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "INT", "INT8", "INT16", "INT32", "INT64", "LONG", "SHORT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UINT8", "UINT16", "UINT32"), "integer"),
    # Not UHUGEINT: DuckDB compares it with other whole numbers in a type that does not hold all of it, and fails on those.
    **dict.fromkeys(("UBIGINT", "UINT64", "HUGEINT", "INT128"), "integer"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL", "DOUBLE PRECISION", "FLOAT64"), "float"),
    **dict.fromkeys(("DECIMAL", "NUMERIC"), "decimal"),
    **dict.fromkeys(("VARCHAR", "TEXT", "STRING", "CHAR", "NAME", "UUID", "ENUM"), "text"),
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITHOUT TIME ZONE"), "timestamp"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"), "timestamp"),
}  # fmt: skip
#: Of these, timestamps with a time zone.
ZONED = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"})
#: Whole numbers without a sign, of 64 bits; and those that need more than 64 bits, or a sign and 64 others.
UNSIGNED = frozenset({"UBIGINT", "UINT64"})
WIDE = frozenset({"HUGEINT", "INT128", *UNSIGNED})
#: Texts that are texts already; the others are cast to one before anything is done with them.
PLAIN_TEXTS = frozenset({"VARCHAR", "TEXT", "STRING"})
#: Texts that are kept filled up with blanks, which some of an engine's functions see and others do not.
PADDED = frozenset({"CHAR"})
#: In place of the type of a column that is computed as it is read, by what may fail on a row (see `tacit.tables.engines.views`).
COMPUTED = "COMPUTED"
#: Texts that an engine puts in the order of a list, and not of their letters.
LISTED = frozenset({"ENUM"})
#: Coarser timestamps, which are cast to microseconds, as all engines have them; seconds reach beyond, and such are NULL.
OTHER_TICKS = frozenset({"TIMESTAMP_S", "TIMESTAMP_MS"})
#: Finer ones, of which two may be one in microseconds. They are compared and counted as they are, and end in the year 2262: an engine
#: that brings another date to their type may fail on it.
NANOSECONDS = frozenset({"TIMESTAMP_NS"})
#: Seconds from 1970 that are surely within them.
NANOSECONDS_END = 9_223_372_036

_SIZED = re.compile(r"(DECIMAL|NUMERIC|VARCHAR|CHAR)\(\d+(, ?\d+)?\)")
_ENUM = re.compile(r"ENUM\(('([^']|'')*'(, '([^']|'')*')*)?\)", re.DOTALL)


def bare(sql_type: str) -> str:
    """The name of a type without its size, in capitals; of an enumeration without its values, which are those of the data."""
    name = sql_type.upper()
    sized = _SIZED.fullmatch(name)
    return sized[1] if sized is not None else "ENUM" if _ENUM.fullmatch(sql_type) else name


def kind_of(sql_type: str) -> str:
    """text, integer, float, decimal, boolean, date or timestamp; other for a type that questions cannot use."""
    return KINDS.get(bare(sql_type), "other")


def zoned(sql_type: str) -> bool:
    """Whether a type is a timestamp with a time zone: a moment, which has a date only where a zone is named."""
    return bare(sql_type) in ZONED


# ---- native names --------------------------------------------------------------------------------------------------------------------

#: DuckDB's names of the types that can be used, as DESCRIBE has them; DECIMAL(p,s) and ENUM(...) have forms of their own.
DUCKDB = frozenset({
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE",
    "VARCHAR", "UUID", "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE",
})  # fmt: skip


def duckdb_type(native: str) -> str:
    """A type of DuckDB as the package writes it. Of others only the family is said: within a structure there may be values of the data.

    >>> duckdb_type("STRUCT(a ENUM('smith'))"), duckdb_type("TIME"), duckdb_type("DECIMAL(4,1)"), duckdb_type("DECIMAL(4,1)[]")
    ('STRUCT', 'TIME', 'DECIMAL(4,1)', 'LIST')
    """
    if native in DUCKDB or re.fullmatch(r"DECIMAL\(\d+,\d+\)", native):
        return native
    if _ENUM.fullmatch(native):
        return "ENUM"
    if native.endswith("]"):
        return "LIST"
    family = re.match(r"[A-Z_]+( WITH TIME ZONE)?", native)
    found = family[0] if family is not None else "OTHER"
    return found if kind_of(found) == "other" else "OTHER"


#: PostgreSQL's numbers of types, which are the same on every server. Domains are told by what they are made of.
POSTGRES: Mapping[int, str] = {
    16: "BOOLEAN", 21: "SMALLINT", 23: "INTEGER", 20: "BIGINT", 700: "FLOAT", 701: "DOUBLE", 1700: "DECIMAL", 25: "VARCHAR",
    1043: "VARCHAR", 1042: "CHAR", 19: "NAME", 2950: "UUID", 1082: "DATE", 1114: "TIMESTAMP", 1184: "TIMESTAMP WITH TIME ZONE",
    # known by name, so that a refusal can say what it is about
    17: "BYTEA", 18: "CHARACTER BYTE", 26: "OID", 114: "JSON", 3802: "JSONB", 142: "XML", 790: "MONEY", 1083: "TIME",
    1266: "TIME WITH TIME ZONE", 1186: "INTERVAL", 1560: "BIT", 1562: "BIT VARYING", 869: "INET", 650: "CIDR", 829: "MACADDR",
    3904: "INT4RANGE", 3926: "INT8RANGE", 3906: "NUMRANGE", 3912: "DATERANGE", 3908: "TSRANGE", 3910: "TSTZRANGE", 1009: "TEXT[]",
    1015: "VARCHAR[]", 1007: "INTEGER[]", 1016: "BIGINT[]", 3614: "TSVECTOR", 600: "POINT",
}  # fmt: skip


def postgres_type(number: int) -> str:
    """A type of PostgreSQL as the package writes it."""
    return POSTGRES.get(number, "OTHER")


#: Spark's names of types.
SPARK: Mapping[str, str] = {
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "string": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip


def spark_type(native: str) -> str:
    """A type of Spark as the package writes it.

    >>> spark_type("decimal(10,2)"), spark_type("map<int,string>"), spark_type("interval day to second"), spark_type("binary")
    ('DECIMAL(10,2)', 'MAP', 'INTERVAL', 'BINARY')
    """
    if native in SPARK:
        return SPARK[native]
    if re.fullmatch(r"decimal\(\d+,\d+\)", native):
        return native.upper()
    if re.fullmatch(r"(char|varchar)\(\d+\)", native):
        return "VARCHAR"
    family = re.match(r"[a-z_]+", native)
    found = family[0].upper() if family is not None else "OTHER"
    return found if kind_of(found) == "other" else "OTHER"
