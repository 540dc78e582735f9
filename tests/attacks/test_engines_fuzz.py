"""Random questions on every engine: what comes back is an answer or a refusal, never another exception; nothing of the data is said; and
the book has an entry for every statement that was sent.

Half of the questions are whole SQL made of random expressions, joins, unions and sub-queries; the others are such questions with words
taken out, doubled or put elsewhere.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp
from tests.attacks.test_expressions import KINDS
from tests.tables.engines.places import Place
from tests.tables.people import exact_sums, loss_between, on_engine
from tests.tables.random_expressions import TYPES, Expressions, rows

from tacit.ledger import Budget, LedgerError
from tacit.tables import Desk, EngineError, TableError, Unit
from tacit.tables.plan import Plan

SECRETS = ("CANARY-3c1d", "8675309867")
BOUNDS = {name: (-5, 10) for name in ("i", "b", "x", "y", "m")}
#: How many questions an engine is asked: Spark takes about a second for each that is not refused.
QUESTIONS = {"duckdb": 20, "postgres": 15, "spark": 3}
#: `make test-slow` asks several times as many.
TIMES = pytest.mark.parametrize("times", [1, pytest.param(8, marks=pytest.mark.slow)], ids=["some", "many"])
FIGURES = (
    "COUNT(*)",
    "COUNT({n})",
    "SUM({n})",
    "AVG({n})",
    "COUNT(DISTINCT id)",
    "COUNT(DISTINCT {t})",
    "MAX({n})",
    "VAR_POP({n})",
    "STDDEV_SAMP({n})",
    "MEDIAN({n})",
    "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY {n})",
    "COVAR_POP({n}, x)",
    "CORR({n}, x)",
    "COUNT_IF({c})",
    "SUM({n}) FILTER (WHERE {c})",
    "SUM({n}) / COUNT(*)",
    "COUNT({t})",
    "COUNT(DISTINCT {n})",
)
SOURCES = (
    "visits",
    "visits",
    "(SELECT * FROM visits WHERE {c}) AS w",
    "(SELECT id, i, b, x, y, s, u, d, t, f, m FROM visits UNION ALL SELECT id, i, b, x, y, s, u, d, t, f, m FROM visits) AS w",
    "(SELECT id, MAX(x) AS x, MAX(i) AS i, MIN(b) AS b, MAX(y) AS y, MAX(m) AS m FROM visits GROUP BY id) AS w",
    "(SELECT id, SUM(x) AS x, AVG(i) AS i, COUNT(*) AS b, SUM(m) AS y, SUM({n}) AS m FROM visits GROUP BY id HAVING COUNT(*) > 1) AS w",
    "(SELECT id, s, MAX(d) AS d, SUM(b) AS b, AVG(x) AS x FROM visits GROUP BY id, s) AS w",
    "(SELECT v.id, v.x, w.y, v.i, w.b, v.s, w.u, v.d, v.t, v.f, w.m FROM visits v JOIN visits w ON v.id = w.id AND v.s <> w.u) AS w",
    "(SELECT v.id, v.x, w.y, v.i, w.b, v.s, w.u, v.d, v.t, v.f, w.m FROM visits v LEFT JOIN visits w USING (id)) AS w",
    "(SELECT v.id, v.i, v.b, v.x, v.y, c.name AS s, v.u, v.d, v.t, v.f, v.m FROM visits v JOIN codes c ON v.i = c.i) AS w",
    "(SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY {n}) AS place FROM visits) AS p WHERE place = 1) AS w",
    "(SELECT DISTINCT id, i, b, x, y, s, u, d, t, f, m FROM visits WHERE {c}) AS w",
    "(SELECT id, i, b, x, y, s, u, d, t, f, m FROM visits UNION SELECT id, i, b, x, y, s, u, d, t, f, m FROM visits WHERE {c}) AS w",
    "(SELECT a.id, a.x, a.i, b.m, b.y, a.b, a.s FROM (SELECT * FROM visits WHERE {c}) AS a "
    "JOIN (SELECT id, SUM(x) AS y, AVG(m) AS m FROM visits GROUP BY id) AS b ON a.id = b.id) AS w",
)


class Questions:
    """A stream of random questions."""

    def __init__(self, seed: int) -> None:
        self.rng, self.parts = random.Random(seed), Expressions(seed)

    def whole(self) -> str:
        pick, parts = self.rng.choice, self.parts
        words = {"n": parts.number(1), "t": parts.text(1), "c": parts.condition(1)}
        figures = [f"{pick(FIGURES).format(**words)} AS f{i}" for i in range(self.rng.randrange(1, 4))]
        key = pick(["", "", parts.text(1), parts.condition(0), f"FLOOR({parts.number(0)})", parts.date(1), *"dtmxibs"])
        where = f" WHERE {parts.condition(self.rng.randrange(3))}" if self.rng.random() < 0.6 else ""
        tail = pick(["", " HAVING COUNT(*) > 3", " ORDER BY f0 DESC LIMIT 2", " HAVING f0 > 1 ORDER BY 1, 2 DESC"]) if key else ""
        if self.rng.random() < 0.2:
            source = f"w{where}"
            inner = pick(SOURCES).format(**words)
            whole = f"SELECT {', '.join(figures)} FROM {source}" if not key else ""
            return f"WITH w AS (SELECT * FROM {inner}) {whole or f'SELECT {key} AS k, {figures[0]} FROM {source} GROUP BY 1{tail}'}"
        source = pick(SOURCES).format(**words)
        if not key:
            return f"SELECT {', '.join(figures)} FROM {source}{where}"
        return f"SELECT {key} AS k, {', '.join(figures)} FROM {source}{where} GROUP BY {key}{tail}"

    def broken(self) -> str:
        words = self.whole().split(" ")
        for _ in range(self.rng.randrange(1, 4)):
            at = self.rng.randrange(len(words))
            match self.rng.randrange(4):
                case 0:
                    del words[at]
                case 1:
                    words.insert(at, self.rng.choice(words))
                case 2:
                    words[at] = self.rng.choice(
                        ["(", ")", "'", "NULL", "OVER ()", "1/0", ";", "--", "raise_error(s)", "pg_sleep(9)", "s::date", "*"]
                    )
                case 3:
                    other = self.rng.randrange(len(words))
                    words[at], words[other] = words[other], words[at]
            words = words or ["SELECT"]
        return " ".join(words)


@dataclass
class Counted:
    """An engine that counts the statements it is sent."""

    inner: Any
    sent: list[str] = field(default_factory=list)

    def run(self, statement: exp.Expression) -> pa.Table:
        self.sent.append(type(statement).__name__)
        return self.inner.run(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def load(place: Place, chosen: Sequence[int] = range(80)) -> None:
    """The nasty rows with owners, and secrets among texts and numbers; only those of these numbers, in this order."""
    data = rows(80, seed=9)
    columns = [list(values) for values in zip(*data, strict=True)]
    columns[4][::7] = [SECRETS[0]] * len(columns[4][::7])
    columns[1][::5] = [int(SECRETS[1])] * len(columns[1][::5])
    typed = {name: pa.array(column, KINDS[kind]) for (name, kind), column in zip(TYPES.items(), columns, strict=True)}
    rows_of_all = pa.table({"id": pa.array([n % 11 for n in range(len(data))], pa.int64()), **typed})
    place.load("visits", rows_of_all.take(list(chosen)))
    place.load("codes", pa.table({"i": pa.array([0, 1, 1, 2], pa.int32()), "name": pa.array(["a", "b", "c", None], pa.string())}))


def asking(place: Place) -> Any:
    """A session that knows the nasty rows and a public table beside them."""
    session = place.session(Unit("id", max_rows=2), Budget(epsilon=10_000, delta="1e-3"), loss=False)
    source = replace(session.source, tables=("visits", "codes"), public=frozenset({"codes"}))
    session.desk = Desk.of(source, session.unit, loss=False)
    return session


def entries(session: Any) -> int:
    return sum(1 for _ in session.ledger.entries())


@TIMES
def test_random_questions_are_answered_or_refused(place: Place, times: int) -> None:
    wanted = times * QUESTIONS[place.name]
    load(place)
    session = asking(place)
    engine = Counted(session.engine)
    on_engine(session, engine)
    rng, answered, refused = random.Random(4), 0, 0
    for seed in range(10 * wanted):
        if answered >= wanted:
            break
        made = Questions(seed)
        text = made.whole() if seed % 2 else made.broken()
        booked, left, sent = entries(session), session.left()["epsilon"], len(engine.sent)
        said = ""
        try:
            answer = session.sql(text, epsilon=1, bounds=BOUNDS, **({"keys": {"k": ["a", "12"]}} if rng.random() < 0.2 else {}))
            answered += 1
            said = repr(answer.event) + repr(answer.noise) + answer.statement
        except EngineError:
            raise AssertionError(f"a row made this fail: {text}") from None
        except (TableError, LedgerError) as problem:  # anything else is a fault
            refused += 1
            said = "".join(traceback.format_exception(problem))
        assert not any(secret in said for secret in SECRETS), text
        ran, entered = len(engine.sent) - sent, entries(session) - booked
        assert ran <= 1, text
        assert (entered > 0) == (ran > 0) == (session.left()["epsilon"] < left), text
    assert answered >= wanted // 2 and refused >= 3
    assert session.ledger.verify().ok


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_a_statement_without_an_entry_is_noticed(place: Place) -> None:
    """The mutant: an engine that is asked behind the book's back."""
    load(place)
    session = place.session(Unit("id", max_rows=2), loss=False)
    engine = Counted(session.engine)
    on_engine(session, engine)
    plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    booked = entries(session)
    engine.run(plan.statement(engine, 1))
    assert len(engine.sent) == 1 and entries(session) == booked


#: How many random questions are asked of neighbours: each of three tables.
NEIGHBOURS = {"duckdb": 7, "postgres": 5, "spark": 2}


@TIMES
def test_random_questions_move_no_further_than_their_price(place: Place, times: int) -> None:
    """One person leaves, and then the others' rows are put into another order, which must change nothing at all."""
    load(place)
    session = asking(place)
    on_engine(session, place.steady)
    plans: list[tuple[str, Plan]] = []
    for seed in range(10_000, 10_000 + 400 * times):
        text = Questions(seed).whole()
        if " AS k, " in text:
            continue
        with suppress(TableError):
            plans.append((text, session.plan(text, epsilon=1, bounds=BOUNDS)))
        if len(plans) == times * NEIGHBOURS[place.name]:
            break
    everybody = list(range(80))
    others = [row for row in everybody if row % 11 != 4]
    mixed = random.Random(7).sample(others, len(others))
    found = []
    for chosen in (everybody, others, mixed):
        load(place, chosen)
        found.append([exact_sums(plan, place.steady) for _, plan in plans])
    for (text, plan), start, end, moved in zip(plans, *found, strict=True):
        assert loss_between(plan, start, end) <= 1, text
        assert loss_between(plan, end, moved) == 0, text
