"""Cases and a mutant of questions about tables, asked of a real session on DuckDB.

One grouped question is many experiments: thousands of public groups, each with its own few people, and a person's rows in one group only.
The released figures of the groups are independent answers of one mechanism, so one question gives a sample. Where a person may be in two
groups, two groups together are one answer.

>>> asked("COUNT(*)", [1.0], epsilon=1)(3).shape
(3,)
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency
from tacit.audit.claim import Claim
from tacit.audit.mechanisms.outputs import Sampler
from tacit.audit.selftest.case import Case, Mutant, between, promise
from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit

GROUPS = 20_000
TABLE = "visits"


@contextlib.contextmanager
def session(ids: ArrayLike, groups: ArrayLike, values: ArrayLike, unit: Unit, mu: bool = False) -> Iterator[Session]:
    """A session on a table of three columns (id, g, v) with a book of its own, that counts in mu or in epsilon."""
    import pyarrow as pa

    def column(entries: ArrayLike, kind: type[np.generic]) -> pa.Array:
        # From the bare memory: pyarrow asks pandas about arrays, and loading it takes longer than a question.
        held = np.ascontiguousarray(entries, dtype=kind)
        of = pa.float64() if kind is np.float64 else pa.int64()
        return pa.Array.from_buffers(of, len(held), [None, pa.py_buffer(held)])

    rows = pa.table({"id": column(ids, np.int64), "g": column(groups, np.int64), "v": column(values, np.float64)})
    budget = Budget(mu=100) if mu else Budget(epsilon=100, delta="1/2")
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{Path(folder) / 'book.db'}") as book:
        yield Session(rows, unit=unit, budget=budget, name=TABLE, ledger=book)


def asked(select: str, values: list[float], *, spread: int = 1, public: bool = True, **options: Any) -> Sampler:
    """n answers: in every experiment one person for each value, with a row in each of its `spread` groups.

    `options` are those of `Session.sql`.
    """
    unit = Unit("id", max_groups=spread, rows_per_group=1)

    def sample(n: int) -> NDArray[np.float64]:
        experiment, person, place = (axis.ravel() for axis in np.indices((n, len(values), spread)))
        columns = experiment * len(values) + person, experiment * spread + place, np.array(values, dtype=np.float64)[person]
        keys: dict[str, Any] = {"keys": {"g": list(range(n * spread))}} if public else {}
        with session(*columns, unit, "mu" in options) as open_:
            answer = open_.sql(f"SELECT g, {select} AS x FROM {TABLE} GROUP BY g", **keys, **options)
        groups, figures = np.asarray(answer.keys["g"], dtype=np.int64), np.asarray(answer["x"], dtype=np.float64)
        if not public:
            kept = np.zeros((n, 2))
            kept[groups] = np.column_stack([np.ones(len(groups)), figures])
            return kept
        order = np.argsort(groups)
        return figures[order] if spread == 1 else figures[order].reshape(n, spread)

    return sample


def priced(select: str, *, spread: int = 1, public: bool = True, **options: Any) -> Claim:
    """What the session charges for such a question: the event of its plan."""
    unit = Unit("id", max_groups=spread, rows_per_group=1)
    keys: dict[str, Any] = {"keys": {"g": list(range(2 * spread))}} if public else {}
    with session([0], [0], [0.0], unit, "mu" in options) as open_:
        event = open_.plan(f"SELECT g, {select} AS x FROM {TABLE} GROUP BY g", **keys, **options).event
    return promise(event, Adjacency.ADD_REMOVE, "its plan")


def _case(
    name: str, select: str, without: list[float], with_: list[float], floor: float, *,
    why: str = "", at: float = 0.0, trials: int = GROUPS, **options: Any,
) -> Case:
    samplers = (asked(select, values, **options) for values in (without, with_))
    return between(name, priced(select, **options), samplers, floor, trials=trials, delta=at, why=why)


def cases() -> list[Case]:
    """Every kind of figure, with public and with private keys."""
    bounds: dict[str, Any] = {"bounds": {"v": (0, 10)}}
    both = "both groups must move together for the whole price"
    ranks = "a histogram of ranks is paid for, one value of it is published"
    hidden = "the figure of a key that does not appear is paid for and not published"
    # Plain SQL counts the last row and no other: an answer that reads a condition otherwise does not see it come.
    plain = (
        "COUNT(*) FILTER (WHERE v IS NOT NULL AND CAST(v AS DECIMAL(12, 2)) * 3 = 38.97 AND ROUND(CAST(v AS DECIMAL(12, 2)) - 15.49) = -3 "
        "AND EXTRACT(YEAR FROM CAST('9999-12-31' AS DATE) + INTERVAL 0 DAY) = 9999 AND v NOT BETWEEN 0 AND 12)"
    )
    return [
        _case("tables: conditions as in plain SQL", plain, [1.0, 12.98], [1.0, 12.98, 12.99], 0.5, epsilon=1, trials=6000),
        _case("tables: count", "COUNT(*)", [10.0] * 2, [10.0] * 3, 0.65, epsilon=1),
        _case("tables: sum", "SUM(v)", [10.0] * 2, [10.0] * 3, 0.65, epsilon=1, **bounds),
        _case("tables: mean", "AVG(v)", [0.0], [0.0, 10.0], 0.6, epsilon=2, trials=2 * GROUPS, **bounds),
        _case("tables: count over two groups", "COUNT(*)", [], [1.0], 0.5, epsilon=2, spread=2, trials=GROUPS // 2, why=both),
        _case("tables: median", "MEDIAN(v)", [], [9.0], 0.1, epsilon=8, why=ranks, **bounds),
        _case("tables: private keys", "COUNT(*)", [1.0] * 5, [1.0] * 6, 0.3, epsilon=2, delta="1/20", public=False, at=0.06, why=hidden),
        _case("tables: Gaussian count", "COUNT(*)", [10.0] * 2, [10.0] * 3, 0.75, mu=1, law="gaussian"),
    ]


def mutants() -> list[Mutant]:
    """A unit that promises what the data does not keep."""

    def counted(unit: Unit) -> Callable[[int, int], NDArray[np.float64]]:
        def run(rows: int, n: int) -> NDArray[np.float64]:
            people = np.repeat(np.arange(n), rows)
            with session(people, people, np.ones(len(people)), unit) as open_:
                sql = f"SELECT g, COUNT(*) AS x FROM {TABLE} GROUP BY g"
                answer = open_.sql(sql, keys={"g": list(range(n))}, epsilon=1)
            return np.asarray(answer["x"], dtype=np.float64)

        return run

    return [
        Mutant(
            "tables: a cap that is only declared", counted(Unit("id", max_rows=1, capped=True)), counted(Unit("id", max_rows=1)),
            (0, 5), Claim.of(epsilon=1), 4000,
            "The unit says one row a person, the data has five, and nothing caps them.", bulk=True,
        )
    ]
