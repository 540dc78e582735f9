"""Task Q: count and mean of a value in [0, 100] by 100 known keys, people capped at 10 rows, epsilon 1, delta 1e-6; 1e5 Zipf users.

    python benchmarks/bench_tables.py [rows ...]    1e5 and 1e6 by default, beside the peers too
    python benchmarks/bench_tables.py --alone 1e7   without the peers, which take long
    python benchmarks/bench_tables.py --alone 1e8   the file (1.3 GB) is made inside DuckDB, and deleted at the end

First beside plain DuckDB and the same caps written by hand in DuckDB, in one process, on one connection and in turn, all warm and all
fetched into Arrow; then what a question costs on the wall, with the ledger's wait for the disk shown apart; then a process that starts
from nothing; then beside the peers, each in a process and an environment of its own (see `peers/environments.py`). Times are processor
seconds of all threads, unless they are said to be on the wall.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from measure import busy, medians, peak, report_peak, table, verdict

sys.path.append(str(Path(__file__).resolve().parent / "peers"))
from environments import HERE, PEERS, Measured, Unavailable, interpreter, measured
from timing import lines_of

from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit
from tacit.tables.engines.duckdb import _fetched
from tacit.tables.source import Source

KEYS = list(range(100))
QUESTION = "SELECT key, COUNT(*) AS n, AVG(v) AS m FROM q GROUP BY key"
PLAIN = "SELECT key, COUNT(*), AVG(v) FROM read_parquet('{path}') GROUP BY key"
BY_HAND = """SELECT key, COUNT(*), AVG(v) FROM (SELECT key, v, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY h) AS place
    FROM (SELECT *, RANDOM() AS h FROM read_parquet('{path}'))) WHERE place <= 10 GROUP BY key"""
DECLARED = Unit("user_id", max_rows=10, capped=True)
#: Who runs in a process of its own: the adapter, and a word for it.
OURS = {
    "plain DuckDB": ("duckdb_q.py", ""),
    "capped by hand": ("duckdb_q.py", "hand"),
    "tacit": ("tacit_q.py", ""),
    "tacit, ten keys with a row": ("tacit_q.py", "groups"),
}
#: Seconds that a peer has for its answers; one that needed more than a fifth of them is asked no larger question.
PATIENCE = 600.0
#: Files of so many rows are not kept for the next run, and not given to the peers.
HUGE = 10**8
#: What a user does once, and then many times: a process from nothing, so often.
COLD = 5


def data(rows: int) -> Path:
    """A Parquet file of the task, made once: user ids by a Zipf law over 1e5 people."""
    path = Path(tempfile.gettempdir()) / f"tacit-bench-q-{rows}.parquet"
    if not path.exists():
        connection = duckdb.connect()
        connection.execute("SET preserve_insertion_order = false")  # or the rows of a large file are kept until the last one is made
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


def once(path: str, unit: Unit | None = None) -> None:
    ask(session(path, unit))


def by_hand(asked: Session, query: str) -> Any:
    """A query of our own on the very connection of a session, fetched as it fetches."""
    return _fetched(asked.engine._connection, query)  # type: ignore[attr-defined]


def contenders(path: str) -> dict[str, Callable[[int], Any]]:
    capped, declared = session(path), session(path, DECLARED)
    return {
        "plain DuckDB": lambda k: by_hand(declared, PLAIN.format(path=path)),
        "capped by hand": lambda k: by_hand(capped, BY_HAND.format(path=path)),
        "tacit": lambda k: ask(capped),
        "tacit, caps declared": lambda k: ask(declared),
    }


@contextmanager
def synced() -> Iterator[list[float]]:
    """Seconds on the wall of every wait for the disk meanwhile."""
    times: list[float] = []
    wait = os.fsync

    def timed(handle: Any) -> None:
        start = time.perf_counter()
        wait(handle)
        times.append(time.perf_counter() - start)

    os.fsync = timed
    try:
        yield times
    finally:
        os.fsync = wait


def in_turn(path: str, rounds: int) -> float:
    """A warm question with declared caps right after the plain query, again and again: the median ratio of their processor seconds.

    Neighbours in time meet the same moment of a machine whose speed changes, so their ratio tells more than that of two medians. Also
    printed: the same on the wall, with the durable entry of the ledger shown apart.
    """
    declared = session(path, DECLARED)
    plain, asked, disk, ratios = list[float](), list[float](), list[float](), list[float]()
    for turn in range(rounds + 2):
        start, first = time.perf_counter(), time.process_time()
        by_hand(declared, PLAIN.format(path=path))
        between, second = time.perf_counter(), time.process_time()
        with synced() as waits:
            ask(declared)
        end, third = time.perf_counter(), time.process_time()
        if turn > 1:
            plain.append(between - start)
            asked.append(end - between)
            disk.append(sum(waits))
            ratios.append((third - second) / (second - first))
    whole, waited, bare = statistics.median(asked), statistics.median(disk), statistics.median(plain)
    rest = statistics.median(a - d for a, d in zip(asked, disk, strict=True))
    print(
        f"on the wall, caps declared: {1e3 * whole:.1f} ms, {whole / bare:.1f} times plain ({1e3 * bare:.1f} ms); "
        f"without the wait for the disk ({1e3 * waited:.1f} ms) {1e3 * rest:.1f} ms, {rest / bare:.1f} times"
    )
    ratio = statistics.median(ratios)
    print(f"caps declared, each beside a plain query: {ratio:.2f} times (the median of {len(ratios)} pairs)")
    return ratio


def cold(path: str) -> bool:
    """A process from nothing to the answer: Python's start, imports, source, plan, ledger, answer."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once, by the first of them
    runs = [measured(HERE / "tacit_q.py", Path(sys.executable), path, 0, PATIENCE).cold for _ in range(COLD + 1)][1:]
    print(f"a cold process, on the wall: {statistics.median(runs):.2f} s (from {min(runs):.2f} to {max(runs):.2f})")
    return verdict("a cold process answers within 1 s", statistics.median(runs) <= 1)


def beside(path: str, names: Mapping[str, int]) -> tuple[dict[str, Measured], dict[str, str]]:
    """Everybody on one file, with so many warm rounds each; and who did not answer, with the reason."""
    found: dict[str, Measured] = {}
    failed: dict[str, str] = {}
    for name, rounds in names.items():
        script, word = OURS.get(name, (f"{name.replace('-', '_').replace('.', '_')}_q.py", ""))
        try:
            python = Path(sys.executable) if name in OURS else interpreter(name)
            found[name] = measured(HERE / script, python, path, rounds, PATIENCE, word)
        except Unavailable as reason:
            failed[name] = str(reason)
    return found, failed


def compared(rows: int, path: str, slow: set[str]) -> bool:
    """Print the peers' table for one size; whether nobody was faster than Tacit. Those who took long are added to `slow`."""
    names = {name: 3 for name in OURS} | {name: 1 if name.startswith("tmlt") else 2 for name in PEERS if name not in slow}
    found, failed = beside(path, names)
    slow |= {name for name, run in found.items() if run.cold + sum(run.warm) > PATIENCE / 5} | set(failed)
    ours = statistics.median(found["tacit"].processor) if "tacit" in found else float("nan")
    lines = []
    for name, run in found.items():
        seconds = statistics.median(run.processor)
        wall = f"{statistics.median(run.warm):.2f}"
        lines.append([name, f"{seconds:.2f}", f"{seconds / ours:.1f}", wall, f"{run.cold:.1f}", f"{run.peak:.0f}", ""])
    lines += [[name, "", "", "", "", "", reason] for name, reason in failed.items()]
    lines += [[name, "", "", "", "", "", "took too long on fewer rows"] for name in sorted(slow - set(names))]
    print(f"\n{rows:.0e} rows, each in a process of its own, file to answer")
    table(["", "seconds", "times tacit", "on the wall", "cold, wall", "MB", ""], lines)
    others = [statistics.median(found[name].processor) for name in found if name in PEERS]
    return verdict("the fastest of all", all(ours < other for other in others))


def accuracy() -> None:
    """Root mean squares over keys and rounds, where no cap cuts anything off, so that the truth is that of the table; and lines of code."""
    path = str(flat())
    truth = sorted(duckdb.execute(PLAIN.format(path=path)).fetchall())
    found, failed = beside(
        path, {"tacit": 9, "tacit, ten keys with a row": 9, **{name: 1 if name.startswith("tmlt") else 3 for name in PEERS}}
    )
    lines = []
    for name, run in found.items():
        count = np.sqrt(np.mean(np.square(np.array(run.counts) - [t[1] for t in truth])))
        mean = np.sqrt(np.mean(np.square(np.array(run.means) - [t[2] for t in truth])))
        script = HERE / OURS.get(name, (f"{name.replace('-', '_').replace('.', '_')}_q.py", ""))[0]
        lines.append([name, f"{count:.1f}", f"{mean:.2f}", f"{100 * len(run.counts)}", f"{lines_of(script)}", ""])
    lines += [[name, "", "", "", "", reason] for name, reason in failed.items()]
    print("\nerrors (root mean square), 2000 rows a key, nobody over a cap")
    table(["", "count", "mean", "figures", "lines of code", ""], lines)


def flat() -> Path:
    """A file in which everybody has two rows, in two groups."""
    path = Path(tempfile.mkdtemp()) / "flat.parquet"
    query = "SELECT i // 2 AS user_id, (i * 37) % 100 AS key, (hash(i) % 10000) / 100.0 AS v FROM range(200000) AS r(i)"
    duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path


def errors(unit: Unit, rounds: int = 16) -> tuple[float, float, float, float]:
    """Root mean squares of the noise in count and mean, where no cap cuts anything off. 1600 figures: their standard error is 1.8%."""
    path = flat()
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


def one_size(rows: int, path: str, slow: set[str] | None) -> bool:
    """Everything about one size; whether all targets are met. `slow` are peers that took too long already; None leaves all of them out."""
    runs = medians(contenders(path), rounds=15 if rows < 10**6 else 3)
    plain, hand = runs["plain DuckDB"].seconds, runs["capped by hand"].seconds
    print(f"\n{rows:.0e} rows")
    lines = [[n, f"{r.seconds:.4f}", f"{r.seconds / plain:.2f}", f"{r.seconds / hand:.2f}", r.failed] for n, r in runs.items()]
    table(["", "seconds", "times plain", "times by hand", ""], lines)
    paired = in_turn(path, rounds=100 if rows < 10**6 else 40 if rows < 10**7 else 3)
    memory = {which: peak(__file__, which, path) for which in ("hand", "tacit", "plain", "declared")}
    print("memory, MB: " + ", ".join(f"{which} {megabytes:.0f}" for which, megabytes in memory.items()))
    met = verdict("at most 1.3 times the query capped by hand", runs["tacit"].seconds <= 1.3 * hand)
    met &= verdict("at most 2 times the plain query where caps are declared", paired <= 2)
    met &= verdict("at most 1.5 times the memory", memory["tacit"] <= 1.5 * memory["hand"])
    if rows == 10**6:
        met &= cold(path)
    if slow is not None and rows < HUGE:
        met &= compared(rows, path, slow)
    return met


def main(sizes: list[int], alone: bool) -> int:
    print(busy())
    met, slow = True, set[str]()
    for rows in sizes:
        path = data(rows)
        try:
            met &= one_size(rows, str(path), None if alone else slow)
        finally:
            if rows >= HUGE:
                path.unlink()
    if not alone:
        accuracy()
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
            "plain": lambda: duckdb.sql(PLAIN.format(path=where)).fetchall(),
            "tacit": lambda: once(where),
            "declared": lambda: once(where, DECLARED),
        }
        report_peak(["duckdb", "tacit.tables"], tasks[which])
    else:
        words = [word for word in sys.argv[1:] if word != "--alone"]
        sys.exit(main([int(float(size)) for size in words] or [10**5, 10**6], alone="--alone" in sys.argv))
