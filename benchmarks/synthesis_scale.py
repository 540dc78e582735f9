"""Synthesis of large tables in a process of its own: seconds and memory, for `bench_synthesis.py`.

    python benchmarks/synthesis_scale.py memory      1,000,000 rows of 30 columns, texts and numbers, in an Arrow table
    python benchmarks/synthesis_scale.py engine      10,000,000 rows of 10 columns in a DuckDB file

What the table itself takes is part of the memory that is printed; `before` says how much that was.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from tacit.ledger import Budget, Ledger
from tacit.synthesis import CategoryColumn, NumberColumn, synthesize
from tacit.tables import Session, Source, Unit

SIZES = (4, 8, 12, 20, 6, 16)


def peak() -> float:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory(rows: int = 1_000_000, width: int = 30) -> None:
    """Every other column is text; all depend on a hidden one that changes along the way."""
    draws = np.random.default_rng(1)
    hidden = draws.integers(0, 8, rows)
    columns, declared = {}, []
    for place in range(width):
        size, name = SIZES[place % len(SIZES)], f"c{place}"
        cells = np.where(draws.random(rows) < 0.5, hidden * (place + 3) % size, draws.integers(0, size, rows))
        if place % 2:
            columns[name] = pa.DictionaryArray.from_arrays(cells, [f"v{value}" for value in range(size)]).cast(pa.string())
            declared.append(CategoryColumn(name, tuple(f"v{value}" for value in range(size))))
        else:
            columns[name] = pa.array(cells + draws.random(rows))
            declared.append(NumberColumn(name, tuple(map(float, range(size + 1)))))
        if place % 7 == 3:
            hidden = (hidden + cells) % 8
    measured(lambda: synthesize(pa.table(columns), declared, epsilon=1, delta=1e-9), f"{rows:,} x {width} in memory")


def engine(rows: int = 10_000_000, width: int = 10) -> None:
    """One row a person, in a file that DuckDB reads."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "people.duckdb")
        cells = [
            f"'v' || CAST((CASE WHEN random() < .5 THEN i * {n + 3} ELSE floor(random() * 97) END) % {SIZES[n % 6]} AS INT) AS c{n}"
            for n in range(width)
        ]
        with duckdb.connect(place) as connection:
            connection.execute("SET memory_limit = '1GB'")
            connection.execute(f"CREATE TABLE people AS SELECT i AS id, {', '.join(cells)} FROM range({rows}) t(i)")
        declared = {f"c{n}": [f"v{value}" for value in range(SIZES[n % 6])] for n in range(width)}
        session = Session(
            Source.of(place, table="people"), name="people", unit=Unit("id", max_rows=1), budget=Budget(epsilon=2, delta="1e-9"),
            ledger=Ledger.open(f"sqlite:///{Path(folder) / 'book.db'}"), columns=declared,
        )  # fmt: skip
        measured(lambda: synthesize(session, list(declared), epsilon=1, delta=1e-9), f"{rows:,} x {width} in DuckDB")


def measured(make: object, title: str) -> None:
    """Fit and make rows, and print what it took."""
    before, start, wall = peak(), time.process_time(), time.perf_counter()
    made = make()  # type: ignore[operator]
    made.sample(min(1_000_000, round(made.rows_)))
    spent, passed = time.process_time() - start, time.perf_counter() - wall
    print(f"{title}: cpu={spent:.1f} wall={passed:.1f} before={before:.0f} mb={peak():.0f}")


if __name__ == "__main__":
    {"memory": memory, "engine": engine}[sys.argv[1]]()
