"""How many files a reader walks through to follow one thing that Tacit does.

Each walk runs one task and records every function of the package that is called on the way. Three numbers come out: the files that were
called into, the doors (distinct functions that are entered from another file), and the pairs of files that call each other both ways.
Importing a module is not walking through it, so what runs during an import is left out. A fourth number counts those files as well: it is
larger for a walk that begins with a cold start.

    python tools/walk.py                     the table of all walks
    python tools/walk.py sql run --json      two of them, with their files and pairs, as JSON
    python tools/walk.py --files sql         the files of one walk, with their calls and doors, so that one sees what to merge

A call through foreign code, such as a hook that PyTorch calls or the body of a `with` block, counts as a call from the nearest file of the
package above it. A pair of files is marked as a callback if one direction consists only of lambdas, generators and nested functions: such
a function is handed over by one file and called by the other, which need not know where it came from.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "hospital.yaml"

Function = tuple[str, str]


@dataclass
class Walk:
    """What was called: how often each function, and from which other file."""

    folder: str
    calls: Counter[Function] = field(default_factory=Counter)
    entered: set[tuple[str, Function]] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)

    @property
    def files(self) -> Counter[str]:
        """The files that were called into, with the number of calls."""
        found: Counter[str] = Counter()
        for (file, _), count in self.calls.items():
            found[file] += count
        return found

    @property
    def doors(self) -> set[Function]:
        """The functions that were entered from another file."""
        return {function for _, function in self.entered}

    @property
    def both_ways(self) -> list[tuple[str, str]]:
        """The pairs of files that call each other."""
        pairs = {(caller, function[0]) for caller, function in self.entered}
        return sorted(pair for pair in pairs if pair[0] < pair[1] and pair[::-1] in pairs)

    def by_callback(self, pair: tuple[str, str]) -> bool:
        """Whether one of the two only calls functions that the other one handed to it."""
        known = {(caller, file) for caller, (file, name) in self.entered if "<" not in name}
        return not {pair, pair[::-1]} <= known

    def record(self) -> dict[str, Any]:
        """All of it as plain data."""
        doors = Counter(file for file, _ in self.doors)
        pairs = [{"pair": pair, "callback": self.by_callback(pair)} for pair in self.both_ways]
        same = [found for found in pairs if len({Path(file).parent for file in found["pair"]}) == 1]
        return {
            "files": len(self.files),
            "files_with_imports": len({*self.files, *self.imported}),
            "doors": len(self.doors),
            "both_ways_same_folder": same,
            "both_ways_different_folders": [found for found in pairs if found not in same],
            "calls": {file: {"calls": count, "doors": doors[file]} for file, count in self.files.most_common()},
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the calls made inside, on this thread and on those it starts."""
        watch = self._watcher()
        threading.setprofile(watch)
        sys.setprofile(watch)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _watcher(self) -> Callable[[FrameType, str, Any], None]:
        importing = threading.local()

        def watch(frame: FrameType, what: str, _: Any) -> None:
            code = frame.f_code
            if not self._ours(code):
                return
            if code.co_name == "<module>":
                self.imported.add(self._named(code))
                depth = getattr(importing, "depth", 0)
                importing.depth = depth + (1 if what == "call" else -1 if what == "return" else 0)
            elif what == "call" and is_function(code) and not getattr(importing, "depth", 0):
                self._called(frame, code)

        return watch

    def _called(self, frame: FrameType, code: CodeType) -> None:
        function = (self._named(code), code.co_qualname)
        self.calls[function] += 1
        caller = frame.f_back
        while caller is not None and not self._ours(caller.f_code):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.entered.add((self._named(caller.f_code), function))

    def _ours(self, code: CodeType) -> bool:
        # A template of a page is compiled under its own name and is no module.
        return code.co_filename.startswith(self.folder) and code.co_filename.endswith(".py")

    def _named(self, code: CodeType) -> str:
        return code.co_filename[len(self.folder) :].replace(os.sep, "/")


def is_function(code: CodeType) -> bool:
    """Whether this is a function's body; the body of a class is not."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


# --- the walks ---------------------------------------------------------------------------------------------------------------------------


def session(folder: Path) -> Any:
    """A session on a few visits in DuckDB, ready to be asked."""
    import numpy as np
    import pyarrow as pa

    import tacit

    draw = np.random.default_rng(1)
    visits = pa.table(
        {
            "id": draw.integers(0, 300, 900),
            "region": draw.choice(["N", "S"], 900),
            "age": draw.integers(0, 100, 900),
        }
    )
    book = tacit.Ledger.open(f"sqlite:///{folder / 'walk.db'}")
    budget = tacit.Budget(epsilon=1, delta="1e-6")
    return tacit.Session(visits, unit=tacit.Unit("id", max_rows=5), budget=budget, name="visits", ledger=book)


QUESTION = "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region"
OPTIONS: dict[str, Any] = {"bounds": {"age": (0, 100)}, "keys": {"region": ["N", "S"]}, "epsilon": 0.5}


def sql(folder: Path, walk: Walk) -> None:
    """session.sql on DuckDB, in a session that has answered such a question before."""
    asked = session(folder)
    asked.sql(QUESTION, **{**OPTIONS, "epsilon": 0.4})
    with walk.watching():
        asked.sql(QUESTION, **OPTIONS)


def first(folder: Path, walk: Walk) -> None:
    """The first session.sql of a process, with everything that is computed once and then kept."""
    asked = session(folder)
    with walk.watching():
        asked.sql(QUESTION, **OPTIONS)


def price(folder: Path, walk: Walk) -> None:
    """The price of that first question, without asking it."""
    asked = session(folder)
    with walk.watching():
        asked.price(QUESTION, **OPTIONS)


def accounting(folder: Path, walk: Walk) -> None:
    """The epsilon of DP-SGD at a delta."""
    from tacit.accounting import Adjacency, Gaussian, Poisson, Repeated, Sampled, account

    with walk.watching():
        event = Repeated(Sampled(Poisson(256 / 60000), Gaussian(noise_multiplier=1.1)), 14062)
        account(event, Adjacency.ADD_REMOVE).epsilon(1e-5)


def step(folder: Path, walk: Walk) -> None:
    """One private training step: draw a batch, clip, add noise, let the optimiser step."""
    import torch

    from tacit import deep

    sampler = getattr(deep, "PoissonBatches", None) or deep.Poisson
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(500, 4), torch.randint(2, (500,))
    private = deep.make_private(
        model, optimizer, data, noise_multiplier=1.0, clip=1.0, sampler=sampler(expected_batch=50, size=500), steps=2
    )
    with walk.watching():
        x, y = next(iter(private.loader))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def run(folder: Path, walk: Walk) -> None:
    """`tacit run` of the example's job, the whole command."""
    write_visits(folder / "visits.parquet")
    job = folder / EXAMPLE.name
    job.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    with redirect_stdout(StringIO()), walk.watching():
        from tacit.cli import main

        status = main(["run", str(job), "--ledger", str(folder / "walk.db"), "--yes"])
    if status:
        raise SystemExit(f"tacit run ended with status {status}")


def write_visits(path: Path, rows: int = 2000) -> None:
    """Made-up visits with the columns that the example's job declares."""
    import datetime

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(2)
    first = datetime.date(2025, 1, 1)
    days = [first + datetime.timedelta(int(day)) for day in draw.integers(0, 365, rows)]
    columns = {
        "patient_id": draw.integers(0, rows // 4, rows),
        "visit_date": pa.array(days, pa.date32()),
        "region": draw.choice(["Capital", "North", "East", "South", "West", "Islands"], rows),
        "sex": draw.choice(["female", "male", "other"], rows),
        "age": draw.integers(0, 100, rows),
        "diagnosis": draw.choice(["injury", "respiratory", "burns", "cancer"], rows),
        "nights": draw.integers(0, 20, rows),
        "cost": draw.exponential(800.0, rows),
    }
    pq.write_table(pa.table(columns), path)


WALKS: dict[str, Callable[[Path, Walk], None]] = {
    "sql": sql,
    "first": first,
    "price": price,
    "accounting": accounting,
    "step": step,
    "run": run,
}


def walked(name: str) -> dict[str, Any]:
    """The record of one walk, made in this process."""
    import tacit

    walk = Walk(str(Path(tacit.__file__).resolve().parent) + os.sep)
    with tempfile.TemporaryDirectory() as folder:
        WALKS[name](Path(folder), walk)
    return walk.record()


def walked_apart(name: str) -> dict[str, Any]:
    """The record of one walk, made in a process of its own, where no cache is warm from another walk."""
    done = subprocess.run([sys.executable, __file__, name, "--json", "--here"], capture_output=True, text=True, env=environment())
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout)[name])


def environment() -> dict[str, str]:
    """One thread and no display; and the package of this repository, unless another one was asked for."""
    fixed = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    return {"PYTHONPATH": str(ROOT / "src"), **os.environ, **fixed}


# --- what is printed ---------------------------------------------------------------------------------------------------------------------


def table(records: dict[str, dict[str, Any]]) -> str:
    """One line a walk."""
    lines = [
        "                     with         pairs that call each other (of which by callback)",
        "walk        files imports  doors  same folder  different folders",
    ]
    for name, record in records.items():
        same, apart = (counted(record[f"both_ways_{where}"]) for where in ("same_folder", "different_folders"))
        numbers = f"{record['files']:>5} {record['files_with_imports']:>7} {record['doors']:>6}"
        lines.append(f"{name:<11} {numbers}  {same:>11}  {apart:>17}   {WALKS[name].__doc__}")
    return "\n".join(lines)


def counted(pairs: list[dict[str, Any]]) -> str:
    """How many pairs, and how many of them by callback."""
    return f"{len(pairs)} ({sum(found['callback'] for found in pairs)})"


def listing(record: dict[str, Any]) -> str:
    """The files of one walk by folder and calls, then the pairs that call each other."""
    lines = [f"{'calls':>8} {'doors':>6}  file"]
    by_folder = sorted(record["calls"].items(), key=lambda item: (str(Path(item[0]).parent), -item[1]["calls"]))
    lines += [f"{found['calls']:>8} {found['doors']:>6}  {file}" for file, found in by_folder]
    for where in ("same_folder", "different_folders"):
        pairs = record[f"both_ways_{where}"]
        lines.append(f"\ncall each other, {where.replace('_', ' ')}: {len(pairs)}")
        lines += [f"  {' <-> '.join(found['pair'])}{'  (callback)' if found['callback'] else ''}" for found in pairs]
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"which walks: {', '.join(WALKS)}; all if none is named")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--files", metavar="WALK", choices=list(WALKS), help="list the files of one walk with their calls")
    parser.add_argument("--here", action="store_true", help="walk in this process; by default each walk gets one of its own")
    given = parser.parse_args(words)
    unknown = sorted(set(given.walks) - set(WALKS))
    if unknown:
        parser.error(f"{unknown[0]!r} is no walk; there are {', '.join(WALKS)}")
    names = [given.files] if given.files else given.walks or list(WALKS)
    records = {name: walked(name) if given.here else walked_apart(name) for name in names}
    if given.json:
        print(json.dumps(records, indent=1))
    else:
        print(listing(records[given.files]) if given.files else table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
