"""Spark: started with the Java that comes along, total in ANSI mode, and silent. One test, so that one process starts one Java."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from sqlglot import exp, parse_one

from tacit.tables.engines.spark import VECTORS, Spark, _home, fetched
from tacit.tables.errors import EngineError, TableError


@pytest.mark.parametrize("fails", [False, True])
def test_a_plan_is_let_go_of_whatever_becomes_of_its_statement(fails: bool) -> None:
    """A stand-in for a frame counts: the plans of a long session filled Java's memory, as Python lets go of frames late."""
    let_go: list[str] = []

    class Frame:
        def __init__(self, text: str) -> None:
            self._jdf = self
            self.text = text

        def toArrow(self) -> str:
            if fails:
                raise ValueError("the statement failed")
            return f"rows of {self.text}"

        def _detach(self) -> None:
            let_go.append(self.text)

    class Session:
        sql = Frame

    if fails:
        with pytest.raises(ValueError, match="failed"):
            fetched(Session(), "SELECT 1")
    else:
        assert fetched(Session(), "SELECT 1") == "rows of SELECT 1"
    assert let_go == ["SELECT 1"]


def test_the_java_shim_drops_one_option_and_keeps_the_others(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    java.chmod(0o755)
    shim = _home(tmp_path)
    assert shim.is_dir() and shim != tmp_path
    words = ["-cp", "a b", VECTORS, "", "Main", "it's"]
    printed = subprocess.run([shim / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    shutil.rmtree(shim)
    assert printed == ["<-cp>", "<a b>", "<>", "<Main>", "<it's>"]


def test_spark(spark: Spark, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    assert "JAVA_HOME" not in os.environ or not os.environ["JAVA_HOME"].startswith("/tmp/tacit-java")
    sums = parse_one("SELECT SUM(n) AS s, COUNT(*) AS k, SUM(CAST(t AS BIGINT)) AS t FROM visits", read="duckdb")
    found = []
    for ansi in ("true", "false"):
        spark.session.conf.set("spark.sql.ansi.enabled", ansi)
        found.append(spark.run(sums).to_pylist())
    spark.session.conf.set("spark.sql.ansi.enabled", "true")
    assert found[0] == found[1] and found[0][0]["k"] == 600
    assert abs(found[0][0]["s"]) > 2**63  # which would have overflowed

    caplog.set_level(logging.DEBUG)
    failing = exp.Select(expressions=[exp.Anonymous(this="raise_error", expressions=[exp.column("region")])]).from_("visits")
    with pytest.raises(EngineError) as caught:
        spark.run(failing)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    printed = capfd.readouterr()
    for place in (printed.out, printed.err, caplog.text):
        assert "USER_RAISED" not in place and "raise_error" not in place

    with pytest.raises(EngineError, match="no such table"):
        spark.columns(exp.to_table("nowhere"))

    # A session that is handed in is used as it is, and not stopped.
    given = Spark(spark.session)
    frame = spark.session.createDataFrame([(1, "a"), (2, "b")], "id bigint, word string")
    given.register("words", frame)
    assert given.columns(exp.to_table("words")) == {"id": "BIGINT", "word": "VARCHAR"}
    given.close()
    assert given.run(parse_one("SELECT COUNT(*) AS n FROM words")).to_pylist() == [{"n": 2}]


def test_a_connect_session_is_as_total_and_as_silent(
    connected: Spark, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert connected.columns(exp.to_table("visits"))["at"] == "TIMESTAMP WITH TIME ZONE"
    sums = parse_one("SELECT SUM(n) AS s, COUNT(*) AS k, SUM(CAST(t AS BIGINT)) AS t FROM visits", read="duckdb")
    assert abs(connected.run(sums).to_pylist()[0]["s"]) > 2**63
    caplog.set_level(logging.DEBUG)
    failing = exp.Select(expressions=[exp.Anonymous(this="raise_error", expressions=[exp.Literal.string("a secret")])]).from_("visits")
    with pytest.raises(EngineError) as caught:
        connected.run(failing)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    printed = capfd.readouterr()
    assert "USER_RAISED" not in printed.out + printed.err + caplog.text


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    for address in ("sc://127.0.0.1:1", "nonsense", "sc://127.0.0.1:port"):
        with pytest.raises(TableError, match="cannot be reached") as caught:
            Spark(connect=address)
        assert caught.value.__context__ is None


def test_what_was_asked_is_checked() -> None:
    with pytest.raises(TableError, match="not both"):
        Spark(object(), connect="sc://localhost")
