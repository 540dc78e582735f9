"""A curator's messy survey through every command, and how often the intervals hold the truth.

    python benchmarks/bench_survey.py                 five surveys of 300,000 rows and 40 columns, two months each
    python benchmarks/bench_survey.py 2 20000         two of 20,000 rows

The files are those of `tests/release/messy.py`: Latin-1 and UTF-8 mixed, dates as texts, -9 and 999 for what is missing, households. Each
survey goes through `init`, `check-data`, `plan`, `run`, `report`, the second month, `series` and the officer's `ledger report`, as commands
of their own. The generator knows the truth of every published figure. Then the same file is released under caps that cut deep, where
intervals of the noise alone must fail. Target: the total intervals of 95 % hold the truth in at least 93 % of the cases, in each setting.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

# By its place: another package installs a folder called `tests`.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "release"))

import messy

MONTHS = ("2026-01", "2026-02")
LEAST = 0.93
#: Output and figure, with the column of its key and the field of the truth.
FIGURES = {
    ("by_canton", "people"): ("canton", "by_canton"), ("by_canton", "age"): ("canton", "age"), ("by_canton", "rent"): ("canton", "rent"),
    ("by_day", "people"): ("interviewed", "by_day"), ("by_heating", "income"): ("heating", "income"),
    ("households", "households"): ("", "households"),
}  # fmt: skip
Held = dict[tuple[str, str, str], list[bool]]


def tacit(folder: Path, *words: str) -> str:
    """A command in the folder of the job, as a curator types it."""
    done = subprocess.run(
        [sys.executable, "-m", "tacit.cli", *words], cwd=folder, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    if done.returncode:
        raise SystemExit(f"tacit {' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def compared(folder: Path, truth: messy.Truth, setting: str, found: Held) -> None:
    """Add, for every figure and both kinds of interval, whether the truth lies inside."""
    for (output, figure), (key, field) in FIGURES.items():
        known: Any = getattr(truth, field)
        with (folder / f"{output}.csv").open(encoding="utf-8") as stream:
            for line in csv.DictReader(stream):
                value = known.get(line[key], 0) if key else known
                for kind in ("", "_total"):
                    inside = float(line[f"{figure}{kind}_low"]) <= value <= float(line[f"{figure}{kind}_high"])
                    found[setting, f"{output}.{figure}", kind].append(inside)


def walked(folder: Path, rows: int, seed: int, found: Held) -> None:
    """All commands on two months, and the first month again under lower caps."""
    truths = {month: messy.write(folder / f"survey-{month}.csv", rows, month=month, seed=seed) for month in MONTHS}
    assert tacit(folder, "init", f"survey-{MONTHS[0]}.csv").count("\n  q") == messy.EXTRA
    (folder / "naive.yaml").write_text(messy.job(rows, clean=False, series=False, folder="naive"), encoding="utf-8")
    said = tacit(folder, "check-data", "naive.yaml")
    for needed in ("NOT PRIVATE", "encoding: mixed", "format: dd.mm.yyyy", "missing: [-9, 999]"):
        assert needed in said, needed
    (folder / "job.yaml").write_text(messy.job(rows), encoding="utf-8")
    for month, truth in truths.items():
        tacit(folder, "check-data", "job.yaml", "--period", month)
        tacit(folder, "plan", "job.yaml", "--period", month, "--quick")
        assert json.loads(tacit(folder, "run", "job.yaml", "--period", month, "--yes", "--json"))["accepted"] == []
        tacit(folder, "report", f"release-{month}")
        compared(folder / f"release-{month}", truth, "cap 6", found)
    folders = [f"release-{month}" for month in MONTHS]
    tacit(folder, "series", *folders, "--output", "by_canton", "--figure", "people", "--lag", "1", "--json")
    tacit(folder, "ledger", "report", "tacit.db", "--html", "officer.html")
    for cap in (3, 2, 1):
        place = folder / f"capped-{cap}"
        place.mkdir()
        (place / "survey-2026-01.csv").hardlink_to(folder / "survey-2026-01.csv")
        (place / "job.yaml").write_text(messy.job(rows, caps=cap, series=False), encoding="utf-8")
        tacit(place, "run", "job.yaml", "--yes", "--accept")
        compared(place / "release", truths[MONTHS[0]], f"cap {cap}", found)


def main() -> int:
    """Print the table, and return the status."""
    surveys, rows = (int(word) for word in (*sys.argv[1:], *("5", "300000")[len(sys.argv) - 1 :]))
    found: Held = defaultdict(list)
    for seed in range(surveys):
        with tempfile.TemporaryDirectory() as name:
            walked(Path(name), rows, seed, found)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        held = share([one for (_, _, kind), several in found.items() if kind == "_total" for one in several])
        print(f"survey {seed}: {held:.3f} so far, {spent:.0f} processor seconds in commands", flush=True)
    print(f"\n{surveys} surveys of {rows:,} rows; how often the 95 % interval holds the truth\n")
    print(f"{'setting':8} {'figure':24} {'cases':>6} {'noise':>7} {'total':>7}")
    met = True
    for setting in dict.fromkeys(key[0] for key in found):
        every: dict[str, list[bool]] = {"": [], "_total": []}
        for output, figure in FIGURES:
            both = [found[setting, f"{output}.{figure}", kind] for kind in every]
            every[""] += both[0]
            every["_total"] += both[1]
            print(f"{setting:8} {output + '.' + figure:24} {len(both[0]):6} {share(both[0]):7.3f} {share(both[1]):7.3f}")
        print(f"{setting:8} {'all':24} {len(every['']):6} {share(every['']):7.3f} {share(every['_total']):7.3f}")
        met &= share(every["_total"]) >= LEAST
    print(f"\ntarget, total intervals hold the truth in at least {LEAST:.0%} of the cases of each setting: {'met' if met else 'MISSED'}")
    return 0 if met else 1


def share(found: list[bool]) -> float:
    """The share that is true."""
    return sum(found) / len(found)


if __name__ == "__main__":
    sys.exit(main())
