"""A sandbox: made-up rows, a ledger that is thrown away, and answers that say NOT PRIVATE."""

from __future__ import annotations

import gc
import os

import pytest

import tacit
from tacit.tables import TableError


def test_every_answer_says_not_private_and_the_ledger_goes() -> None:
    session = tacit.Session.sandbox(rows=500)
    answer = session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon=1)
    assert not answer.private and "NOT PRIVATE" in repr(answer) and "NOT PRIVATE" in repr(session)
    assert "NOT PRIVATE" in session._repr_html_()
    folder = session.made_up.folder if session.made_up else ""
    assert os.path.isdir(folder)
    session.ledger.close()
    del session
    gc.collect()
    assert not os.path.exists(folder)


def test_a_third_run_gives_the_same_answers_and_a_fresh_budget() -> None:
    question = "SELECT COUNT(*) AS n FROM visits"
    runs = [[s.sql(question, epsilon=4)["n"][0] for _ in range(2)] for s in (tacit.Session.sandbox(rows=400) for _ in range(3))]
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][0] != runs[0][1]  # another seed for each question


def test_rows_that_fit_declared_columns() -> None:
    unit = tacit.Unit("id", max_rows=4)
    session = tacit.Session.sandbox({"age": (0, 110), "kind": ["a", "b"]}, unit=unit, name="people", rows=300)
    answer = session.sql("SELECT kind, AVG(age) AS age FROM people GROUP BY kind", epsilon=5)
    assert list(answer.keys["kind"]) == ["a", "b"]
    with pytest.raises(TableError, match="which of the columns"):
        tacit.Session.sandbox({"age": (0, 110)})
