"""This code beside an earlier checkout of it: import, a cold question, warm questions, the accountant, training steps.

    git worktree add --detach ../before f259f1e
    .venv/bin/python benchmarks/bench_before.py --before ../before              all tasks
    .venv/bin/python benchmarks/bench_before.py --before ../before accountant   one: import, cold, question, accountant, training, models
    .venv/bin/python benchmarks/bench_before.py --before ../before training 30  with so many turns

Two processes, the old code and this one with the same interpreter, take every task in turn, so that a busy moment hits both. Seconds
are of processor time; "ratio" is new over old, of the medians. Cold tasks are a fresh process each turn, compiled before. Without
`--before`, or `TACIT_BEFORE` in the environment, there is nothing to compare with: it says so and asks for nothing.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from measure import busy, table, verdict

if TYPE_CHECKING:
    from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
TURNS = 15
LIMIT = 1.03  # medians of so many turns differ by this much where the code is the same
IMPORT = 0.06  # seconds over bare Python
GROUPS = ("import", "cold", "question", "accountant", "training", "models")
COLD = """
import sys, tempfile
from pathlib import Path
from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit
from tacit.tables.source import Source
book = Ledger.open(f"sqlite:///{Path(tempfile.mkdtemp()) / 'book.db'}")
source = Source.of(sys.argv[1], name="q").engine
asked = Session(source, unit=Unit("user_id", max_rows=10), budget=Budget(epsilon=100, delta="1e-3"), name="q", ledger=book)
question = "SELECT key, COUNT(*) AS n, AVG(v) AS m FROM q GROUP BY key"
asked.sql(question, bounds={"v": (0, 100)}, keys={"key": list(range(100))}, epsilon=1, delta="1e-6")
"""
#: Fresh processes: the statement, and whether that of bare Python is taken off.
FRESH = {"import tacit, over bare Python": ("import tacit", True), "a cold process with one question": (COLD, False)}


# --- in the child: the tasks, on whichever sources its path leads to -------------------------------------------------


def questions() -> dict[str, Callable[[int], object]]:
    from bench_tables import DECLARED, ask, data, session

    def make(rows: int, declared: bool) -> Callable[[int], object]:
        asked = session(str(data(rows)), DECLARED if declared else None)
        return lambda k: ask(asked)

    return {
        f"a question of {rows:.0e} rows, caps {'declared' if declared else 'enforced'}": make(rows, declared)
        for rows in (10**5, 10**6)
        for declared in (False, True)
    }


def accountant() -> dict[str, Callable[[int], object]]:
    from tacit.accounting import Adjacency, Gaussian, Poisson, Repeated, Sampled, account

    cases = {
        "B1": (Fraction(1, 100), 1.0, 1000), "B2": (Fraction(256, 60000), 1.1, 14062), "B3": (Fraction(1, 1000), 0.8, 100_000),
        "B4": (Fraction(1, 10_000), 0.6, 1_000_000),
    }  # fmt: skip

    def make(q: Fraction, sigma: float, steps: int, delta: float) -> Callable[[int], object]:
        def price(k: int) -> object:
            event = Repeated(Sampled(Poisson(q), Gaussian(sigma * (1 + 1e-13 * k))), steps)
            return account(event, Adjacency.ADD_REMOVE).epsilon(delta)

        return price

    return {f"account {name} at {delta:g}": make(*case, delta) for delta in (1e-5, 1e-10, 1e-15, 1e-20) for name, case in cases.items()}


def private_steps(model: nn.Module, inputs: Tensor, labels: Tensor, repeats: int) -> Callable[[int], object]:
    """So many private steps of a model on one batch."""
    import inspect
    import warnings

    import torch

    from tacit.deep import FullBatch, make_private

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # a random walk on made-up data is meant here
    optimizer, criterion = torch.optim.SGD(model.parameters(), 1e-3), torch.nn.CrossEntropyLoss()
    size = len(labels)
    private = make_private(model, optimizer, (inputs, labels), noise_multiplier=1.1, clip=1.0, sampler=FullBatch(size), steps=10**6)
    last = {"last": True} if "last" in inspect.signature(private.handed_out).parameters else {}  # as it was once

    def steps(k: int) -> None:
        for _ in range(repeats):
            private.handed_out(size, **last)
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()

    return steps


def models() -> dict[str, Callable[[int], object]]:
    """The models of `bench_deep`, a step each."""
    import torch
    from deep_models import CASES

    torch.manual_seed(1)
    return {f"a step, {name}": private_steps(case.make(), *case.data(), 1) for name, case in CASES.items()}


def training() -> dict[str, Callable[[int], object]]:
    import torch
    from torch import nn

    linear = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
    small = nn.Sequential(nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 10))
    convolutions = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip

    def make(model: nn.Module, shape: tuple[int, ...]) -> Callable[[int], object]:
        return private_steps(model, torch.randn(256, *shape), torch.randint(10, (256,)), 3)

    return {
        "three steps, layers of 784, 512, 10": make(linear, (784,)),
        "three steps, layers of 100, 64, 10": make(small, (100,)),
        "three steps, convolutions": make(convolutions, (1, 28, 28)),
    }


def child(group: str) -> None:
    """Write the names of the tasks; then, for each line with one, run it and write the seconds."""
    tasks = {"question": questions, "accountant": accountant, "training": training, "models": models}[group]()
    for task in tasks.values():
        for _ in range(3):
            task(0)
    print("\t".join(tasks), flush=True)
    for line in sys.stdin:
        name, turn = line.rstrip("\n").split("\t")
        start = time.process_time()
        tasks[name](int(turn))
        print(time.process_time() - start, flush=True)


# --- in the parent ---------------------------------------------------------------------------------------------------


def environment(sources: Path) -> dict[str, str]:
    kept = {**os.environ, "PYTHONPATH": str(sources / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once
    return kept


def fresh(statement: str, sources: Path, path: str) -> float:
    """Processor seconds of a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement, path], env=environment(sources), cwd=tempfile.gettempdir(), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fresh_ones(name: str, checkouts: tuple[Path, Path], turns: int) -> list[list[float]]:
    from bench_tables import data

    path = str(data(10**5))
    statement, over_bare = FRESH[name]
    found: list[list[float]] = [[], []]
    for turn in range(turns + 1):
        for times, sources in zip(found, checkouts, strict=True):
            bare = fresh("pass", sources, path) if over_bare else 0.0
            seconds = fresh(statement, sources, path) - bare
            if turn:  # the first compiles
                times.append(seconds)
    return found


def in_turn(group: str, checkouts: tuple[Path, Path], turns: int) -> dict[str, list[list[float]]]:
    """Two processes that live through all turns."""
    runs = [
        subprocess.Popen(
            [sys.executable, __file__, "--child", group], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(sources)
        )
        for sources in checkouts
    ]
    names = [run.stdout.readline().rstrip("\n").split("\t") for run in runs if run.stdout is not None][-1]
    found: dict[str, list[list[float]]] = {name: [[], []] for name in names}
    for turn in range(1, turns + 1):
        for name, times in found.items():
            for own, run in zip(times, runs, strict=True):
                assert run.stdin is not None and run.stdout is not None
                run.stdin.write(f"{name}\t{turn}\n")
                run.stdin.flush()
                own.append(float(run.stdout.readline()))
    for run in runs:
        run.communicate()
    return found


def main(before: Path, groups: list[str], turns: int) -> int:
    print(busy())
    checkouts = before, HERE.parent
    rows, slower, light = [], list[str](), True
    found: dict[str, list[list[float]]] = {}
    for group in groups:
        if group in ("import", "cold"):
            name = list(FRESH)[group == "cold"]
            found[name] = fresh_ones(name, checkouts, turns)
        else:
            found |= in_turn(group, checkouts, turns)
    for name, (old, new) in found.items():
        first, second = statistics.median(old), statistics.median(new)
        rows.append([name, f"{1e3 * first:.1f}", f"{1e3 * second:.1f}", f"{second / first:.2f}", f"{min(new) / min(old):.2f}", ""])
        if second > LIMIT * first:
            slower.append(name)
        if name == next(iter(FRESH)):
            light = second <= IMPORT
    table(["", "old, ms", "new, ms", "ratio", "of the least", ""], rows)
    met = verdict(f"nothing slower than before (within {LIMIT - 1:.0%})" + (f"; slower: {', '.join(slower)}" if slower else ""), not slower)
    return 0 if verdict("import tacit at most 60 ms over bare Python", light) and met else 1


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--child"]:
        child(words[1])
        sys.exit(0)
    place = words.pop(words.index("--before") + 1) if "--before" in words else os.environ.get("TACIT_BEFORE", "")
    words = [word for word in words if word != "--before"]
    if not place:
        print("no earlier checkout to compare with; give one: git worktree add --detach ../before f259f1e, then --before ../before")
        sys.exit(0)
    wanted = [word for word in words if word in GROUPS] or list(GROUPS)
    sys.exit(main(Path(place).resolve(), wanted, next((int(word) for word in words if word.isdigit()), TURNS)))
