"""The same small table on DuckDB, a real PostgreSQL server, a real local Spark, and that Spark over Spark Connect."""

from __future__ import annotations

import datetime
import random
import warnings
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.tables.engines import servers

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
def postgres_server() -> str:
    """The URL of a database with the odd table in it, and one of decimals that no float can hold."""
    import psycopg

    url = servers.postgres("engines")
    servers.load_postgres(url, "visits", odd_table())
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE wide (id bigint, amount numeric)")
        connection.execute("INSERT INTO wide VALUES (1, 1e400), (2, -1e400), (3, 1e-400), (4, 'NaN'), (5, 'Infinity'), (6, 1.5), (7, NULL)")
    return url


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
def spark() -> Spark:
    engine = Spark(servers.spark().session.newSession(), portable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, on newer Python and pandas
        engine.register("visits", odd_table())
    return engine


@pytest.fixture(scope="session")
def connected(spark: Spark) -> Iterator[Spark]:
    """The same Spark from outside, over Spark Connect: another session, which has to be given the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = Spark(connect=servers.spark().address, portable=True)
        engine.register("visits", odd_table())
    yield engine
    engine.close()
