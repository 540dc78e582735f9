"""Attacks through a CSV file: a text of one person's that looks like rows of others, or that the reader stumbles over.

The file is as any writer of CSV writes it. What is read of everybody else must be the same, and nothing may fail.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas
import pyarrow as pa
import pytest
from tests.tables.people import exact_sums

from tacit.ledger import Budget, Ledger
from tacit.tables import Session, TableError, Unit
from tacit.tables.source import Source

HEAD = b"id,x,s\n"
PLAIN = b"".join(b"%d,1,abc\n" % (n % 97) for n in range(5_000))
FAKE = b"1000000,1,abc\n"
#: Below the longest line that is read, two million bytes.
CELL = b'"start\n' + FAKE * (1_500_000 // len(FAKE)) + b'end"'


def counted(path: Path) -> tuple[int, int]:
    """Rows of the file as a session reads it: all of them, and those of a person who is not in it."""
    book = Ledger.open(f"sqlite:///{path.parent / f'{path.stem}.db'}")
    source = Source.of(path, name="visits", types={"x": "DOUBLE"})
    session = Session(source, unit=Unit.row(), budget=Budget(epsilon=10, delta="1e-6"), name="visits", ledger=book)
    plan = session.plan("SELECT COUNT(*) AS n, COUNT(CASE WHEN id = '1000000' THEN 1 END) AS m FROM visits", epsilon=1)
    whole, other = (int(sums[0]) for sums in exact_sums(plan, session.engine).sums)  # type: ignore[arg-type]
    session.source.close()
    return whole, other


def test_a_text_of_one_person_is_no_row_of_another(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes(HEAD + (b"5,1," + CELL + b"\n") * 8)
    assert counted(path) == (8, 0)
    columns = "{'id': 'VARCHAR', 'x': 'VARCHAR', 's': 'VARCHAR'}"
    with duckdb.connect(config={"threads": 2}) as own:  # the mutant: several readers, each from a place of its own
        rows = own.execute(
            f"SELECT COUNT(*) FROM read_csv('{path}', auto_detect = false, header = true, quote = '\"', escape = '\"', "
            f"ignore_errors = true, columns = {columns}) WHERE id = '1000000'"
        ).fetchall()
    assert rows[0][0] > 1000


STRAY = {
    "line break": b'5,1,"a\nb"\n',
    "carriage return": b'5,1,"a\rb"\n',
    "other line end": b"5,1,a\r\n",
    "quote inside": b'5,1,a"bc\n',
    "text after a quote": b'5,1,"a"bc\n',
    "no text": b"5,1,a\xff\xfe\n",
    "nul": b"5,1,a\x00b\n",
    "too long": b"5,1," + b"z" * 3_000_000 + b"\n",
    "too few": b"5\n",
    "too many": b"5,1,a,b,c\n",
}


@pytest.mark.parametrize("name", STRAY)
def test_a_stray_mark_costs_at_most_its_own_row(name: str, tmp_path: Path) -> None:
    for place, body in enumerate((STRAY[name] + PLAIN, PLAIN + STRAY[name])):
        path = tmp_path / f"visits_{place}.csv"
        path.write_bytes(HEAD + body)
        assert counted(path)[0] in (5_000, 5_001)


def test_a_text_that_is_none_moves_no_sum() -> None:
    """In an Arrow table made of foreign bytes: DuckDB takes the byte 255 for the end of a text, and what comes after it for numbers."""
    texts = pa.array([b"ok"] * 5 + [b"\xff\xfe\xfa"], pa.binary())
    rows = {"id": pa.array(range(6), pa.int64()), "s": pa.Array.from_buffers(pa.string(), len(texts), texts.buffers())}
    for foreign in (pa.table(rows), pa.RecordBatch.from_pydict(rows)):
        with pytest.raises(TableError, match="is not UTF-8"):
            Source.of(foreign, name="visits")
    assert Source.of(pa.table({**rows, "s": texts}), name="visits").columns("visits")["s"] == "BLOB"


def test_no_row_decides_the_type_of_a_column() -> None:
    """Objects of a pandas frame: one of bytes, or a longer decimal, would make the whole column another type, and a question refused."""
    ordinary: list[list[object]] = [["a", "b"], [Decimal("1.5"), Decimal("2")], [datetime.date(2026, 1, 1), None]]
    for values in ordinary:
        for last in (b"\xff", Decimal("123456789.123"), 7, None, [1]):
            frame = pandas.DataFrame({"id": range(len(values) + 1), "s": pandas.Series([*values, last], dtype=object)})
            assert Source.of(frame, name="visits").columns("visits") == {"id": "BIGINT", "s": "VARCHAR"}
