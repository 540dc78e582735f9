"""Task Q: count and mean of a value in [0, 100] by 100 known keys, people capped at 10 rows, epsilon 1, delta 1e-6; 1e5 Zipf users.

    python benchmarks/bench_tables.py [rows ...]    1e5 and 1e6 by default; 1e7 takes a minute, 1e8 is made inside DuckDB and takes several

Beside plain DuckDB, the same caps written by hand in DuckDB, and the packages that are installed. Times are processor seconds of all
threads.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from measure import Missing, busy, medians, peak, report_peak, table, verdict

from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit
from tacit.tables.source import Source

KEYS = list(range(100))
QUESTION = "SELECT key, COUNT(*) AS n, AVG(v) AS m FROM q GROUP BY key"
PLAIN = "SELECT key, COUNT(*), AVG(v) FROM read_parquet('{path}') GROUP BY key"
BY_HAND = """SELECT key, COUNT(*), AVG(v) FROM (SELECT key, v, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY h) AS place
    FROM (SELECT *, RANDOM() AS h FROM read_parquet('{path}'))) WHERE place <= 10 GROUP BY key"""
COLD = "import sys; sys.path.insert(0, {here!r}); import bench_tables as b; b.once({path!r})"


def data(rows: int) -> Path:
    """A Parquet file of the task, made once: user ids by a Zipf law over 1e5 people."""
    path = Path(tempfile.gettempdir()) / f"tacit-bench-q-{rows}.parquet"
    if not path.exists():
        connection = duckdb.connect()
        connection.execute("SELECT setseed(0.5)")
        # exp(u log N) is Zipf's law of exponent 1 on 1..N, near enough
        user = "CAST(exp(random() * ln(100000)) AS BIGINT) AS user_id"
        query = f"SELECT {user}, CAST(floor(random() * 100) AS BIGINT) AS key, random() * 100 AS v"
        connection.execute(f"COPY ({query} FROM range({rows})) TO '{path}' (FORMAT parquet)")
    return path


def session(path: str, unit: Unit | None = None, name: str = "q") -> Session:
    book = Ledger.open(f"sqlite:///{Path(tempfile.mkdtemp()) / 'book.db'}")
    source = Source.of(path, name="q").engine
    return Session(source, unit=unit or Unit("user_id", max_rows=10), budget=Budget(epsilon=10**6, delta="0.5"), name=name, ledger=book)


def ask(asked: Session) -> Any:
    return asked.sql(QUESTION, bounds={"v": (0, 100)}, keys={"key": KEYS}, epsilon=1, delta="1e-6")


def once(path: str) -> None:
    ask(session(path))


def contenders(path: str) -> dict[str, Callable[[int], Any]]:
    connection = duckdb.connect()
    capped, declared = session(path), session(path, Unit("user_id", max_rows=10, capped=True))
    return {
        "plain DuckDB": lambda k: connection.execute(PLAIN.format(path=path)).fetchall(),
        "capped by hand": lambda k: connection.execute(BY_HAND.format(path=path)).fetchall(),
        "tacit": lambda k: ask(capped),
        "tacit, caps declared": lambda k: ask(declared),
        "diffprivlib, by hand": lambda k: _diffprivlib(path),
        **{name: lambda k, module=module: _absent(module) for name, module in PEERS.items()},
    }


#: Peers that this script cannot run yet.
PEERS = {"opendp": "opendp", "pipeline-dp": "pipeline_dp", "smartnoise-sql": "snsql"}


def _absent(module: str) -> None:
    import importlib.util

    raise Missing("installed; not run by this script" if importlib.util.find_spec(module) else "not installed")


def _diffprivlib(path: str) -> None:
    try:
        from diffprivlib.tools import count_nonzero, mean
    except ImportError:
        raise Missing("not installed") from None
    frame = duckdb.sql(BY_HAND.format(path=path).replace("key, COUNT(*), AVG(v)", "key, v", 1).replace("GROUP BY key", "")).fetchnumpy()
    for key in KEYS:
        values = frame["v"][frame["key"] == key]
        count_nonzero(np.ones(len(values)), epsilon=0.05)
        mean(values, epsilon=0.05, bounds=(0, 100))


def cold(path: str) -> float:
    """Seconds on the wall of a new process that answers once."""
    start = time.perf_counter()
    code = COLD.format(here=str(Path(__file__).parent), path=path)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - start


def errors(unit: Unit, rounds: int = 16) -> tuple[float, float, float, float]:
    """Root mean squares of the noise in count and mean, where no cap cuts anything off. 1600 figures: their standard error is 1.8%."""
    path = Path(tempfile.mkdtemp()) / "flat.parquet"  # two rows a person, in two groups
    query = "SELECT i // 2 AS user_id, (i * 37) % 100 AS key, (hash(i) % 10000) / 100.0 AS v FROM range(200000) AS r(i)"
    duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    truth = sorted(duckdb.execute(PLAIN.format(path=path)).fetchall())
    asked = session(str(path), unit)
    off: list[tuple[float, float]] = []
    for _ in range(rounds):
        found = ask(asked)
        answer = found.to_arrow().to_pydict()
        off += [(n - t[1], m - t[2]) for n, m, t in zip(answer["n"], answer["m"], truth, strict=True)]
    count, mean = np.sqrt(np.mean(np.square(np.array(off, dtype=float)), axis=0))
    noise = {part.measure: part.deviation for part in found.noise}
    total = next(deviation for name, deviation in noise.items() if name.startswith("sum"))
    return float(count), float(mean), noise["rows"], total / truth[0][1]


def main(sizes: list[int]) -> int:
    print(busy())
    met = True
    for rows in sizes:
        path = str(data(rows))
        runs = medians(contenders(path), rounds=3)
        plain, hand = runs["plain DuckDB"].seconds, runs["capped by hand"].seconds
        print(f"\n{rows:.0e} rows")
        lines = [[n, f"{r.seconds:.3f}", f"{r.seconds / plain:.1f}", f"{r.seconds / hand:.2f}", r.failed] for n, r in runs.items()]
        table(["", "seconds", "times plain", "times by hand", ""], lines)
        memory = {which: peak(__file__, which, path) for which in ("hand", "tacit")}
        print(f"cold process: {cold(path):.2f} s; memory: {memory['tacit']:.0f} MB, by hand {memory['hand']:.0f} MB")
        met &= verdict("at most 1.3 times the query capped by hand", runs["tacit"].seconds <= 1.3 * hand)
        met &= verdict("at most 2 times the plain query where caps are declared", runs["tacit, caps declared"].seconds <= 2 * plain)
        met &= verdict("at most 1.5 times the memory", memory["tacit"] <= 1.5 * memory["hand"])
    print()
    for unit in (Unit("user_id", max_rows=10), Unit("user_id", max_groups=10, rows_per_group=1)):
        count, mean, exact_count, exact_mean = errors(unit)
        print(f"errors, {unit}: count {count:.1f}, mean {mean:.3f} (by the plan's noise {exact_count:.2f} and {exact_mean:.4f})")
    # The peers' figures are for ten keys with one row in each, and have these digits. The plan's noise is judged: the sample is 1.8% off.
    met &= verdict("noise of the count at most 18.9 (ten keys with a row in each)", exact_count <= 18.9)
    met &= verdict("noise of the mean at most .47, to two digits", round(exact_mean, 2) <= 0.47)
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        which, where = sys.argv[2:]
        tasks: dict[str, Callable[[], object]] = {
            "hand": lambda: duckdb.sql(BY_HAND.format(path=where)).fetchall(),
            "tacit": lambda: once(where),
        }
        report_peak(["duckdb", "tacit.tables"], tasks[which])
    else:
        sys.exit(main([int(float(size)) for size in sys.argv[1:]] or [10**5, 10**6]))
