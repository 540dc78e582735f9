"""Attacks on how a file's columns are read: no value makes a statement fail, and no two people become one."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import duckdb
import pytest
from tests.release.jobs import changed

from tacit.accounting import Guarantee
from tacit.release import JobError
from tacit.tables import ColumnReading, Desk, Source, Unit
from tacit.tables.figures import integers

#: Types as a Parquet file may have them for a declared number, and values at their ends.
ENDS = {
    "HUGEINT": "170141183460469231731687303715884105727", "UBIGINT": "18446744073709551615", "BIGINT": "-9223372036854775808",
    "DECIMAL(38,0)": "9" * 38, "DECIMAL(38,20)": "9" * 18 + "." + "9" * 20, "DECIMAL(38,37)": "9." + "9" * 37, "DOUBLE": "1e308",
    "FLOAT": "3e38", "TINYINT": "-128", "UHUGEINT": "340282366920938463463374607431768211455",
}  # fmt: skip
CODES = (-9, 0.5, 0.1, 1e-7, 12.345678901, 10**19, 10**28, 2**63, 1e300)


@cache
def holding(stored: str, value: str) -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect()
    engine.execute(f"CREATE TABLE t (x {stored})")
    engine.execute("INSERT INTO t VALUES (?)", [value])
    return engine


def outcome(sql: str, stored: str, value: str) -> bool:
    try:
        holding(stored, value).execute(f"SELECT {sql} FROM t").fetchall()
    except duckdb.Error:
        return False
    return True


@pytest.mark.parametrize("stored", ENDS)
def test_no_value_fails_beside_a_code(stored: str) -> None:
    for declared, code in product(("BIGINT", "DOUBLE", "DECIMAL(38,9)"), CODES):
        for reading in (ColumnReading(declared, missing=(code,)), ColumnReading(declared, known=(code, 1), other=3)):
            sql = reading.sql("x", text=False, stored=stored)
            assert outcome(sql, stored, "1") and outcome(sql, stored, ENDS[stored]), (declared, code)


def test_a_bare_code_fails_on_one_row() -> None:
    """The mutant: the code as it is written, which DuckDB compares in a type of its own choice."""
    assert outcome("NULLIF(x, 0.5)", "HUGEINT", "1") and not outcome("NULLIF(x, 0.5)", "HUGEINT", ENDS["HUGEINT"])
    assert not outcome("NULLIF(x, 0.1234567891)", "DECIMAL(38,9)", "1e28")


def test_codes_are_still_found() -> None:
    engine = duckdb.connect()
    for stored, code in (("FLOAT", 0.1), ("TINYINT", -9), ("DECIMAL(4,1)", 99.9), ("DOUBLE", 999), ("HUGEINT", 10**28)):
        found = ColumnReading("DOUBLE", missing=(code,)).sql("x", text=False, stored=stored)
        assert engine.execute(f"SELECT {found} FROM (SELECT CAST('{code}' AS {stored}) AS x)").fetchone() == (None,)
    found = ColumnReading("BIGINT", known=(1, 2), other=7).sql("x")
    assert engine.execute(f"SELECT {found} FROM (VALUES ('1'), ('5'), ('2.0'), ('2.5')) AS t(x)").fetchall() == [(1,), (7,), (2,), (None,)]


def counted(path: Path, rows: list[str]) -> int:
    path.write_text("id,n\n" + "\n".join(rows) + "\n")
    source = Source.several({"t": str(path)}, types={"t": {"id": "BIGINT", "n": "BIGINT"}})
    desk = Desk.of(source, Unit("id", max_rows=2), {"n": (0, 100)}, loss=False)
    plan = desk.plan(desk.question("SELECT COUNT(*) AS n FROM t WHERE n < 50"), Guarantee(epsilon=1))
    return int(integers(desk.engine.run(plan.statement(desk.engine, 3)), plan).sums[0][0])


def test_identifiers_are_not_rounded_onto_each_other(tmp_path: Path) -> None:
    """As 2, the person 1.5 shared the cap of the person 2, and moved the count of her rows when he left."""
    hers, his = ["2,1", "2,2"], ["1.5,90", "1.5,91", "1.6,90", "2.4999,99"]
    assert counted(tmp_path / "a.csv", [*hers, *his * 5]) == counted(tmp_path / "b.csv", hers) == 2
    assert counted(tmp_path / "c.csv", ["7.0,1", "+8,2", "9e2,3", " 11 ,4", "x,5", ",6"]) == 4


@pytest.mark.parametrize(
    "column",
    [
        "{type: text, categories: [a, b], other: a}", "{type: integer, format: '1.234,56'}", "{type: number}", "{type: decimal}",
        "{type: date, format: dd.mm.yyyy}",
    ],
)  # fmt: skip
def test_a_job_reads_people_as_they_are(column: str) -> None:
    with pytest.raises(JobError, match="tells people apart"):
        changed(("{path: visits.parquet}", "{path: visits.csv}"), ("{type: text}\n  region", column + "\n  region"))


@pytest.mark.parametrize("name", ["utf-16", "UTF_16", "utf-16-le", "utf-32"])
def test_bytes_that_one_row_could_shift_for_all_are_refused(name: str) -> None:
    """In UTF-16 a row with a byte too many changes every row after it; the mutant is Python's own decoder, which lets it."""
    from tacit.tables import TableError
    from tacit.tables.reading import encoding_of

    rows = "a\nb\n".encode("utf-16-le")
    assert (b"\x01" + rows).decode("utf-16-le", "replace") != "\x01" + rows.decode("utf-16-le")
    assert "b" not in (b"\x01" + rows).decode("utf-16-le", "replace")
    with pytest.raises(TableError, match="iconv -f UTF-16 -t UTF-8"):
        encoding_of(name)
