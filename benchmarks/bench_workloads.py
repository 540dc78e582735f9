"""Workloads: errors of strategies against the specified figures, plans of large domains in time and memory, predictions against draws.

Errors are roots of mean squares at the unit price (Laplace noise at epsilon 1, Gaussian noise at sigma 1). Every plan of a large
domain runs in a process of its own, whose peak of memory includes the interpreter and all imports.

    .venv/bin/python benchmarks/bench_workloads.py
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import itertools
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import measure
import numpy as np

from tacit.accounting import Guarantee
from tacit.noise import test_mode
from tacit.workloads import AllRanges, Cells, Hierarchy, Identity, Marginals, Measured, Prefix, Product, Workload, best, measured
from tacit.workloads.joint_strategy import unit_error
from tacit.workloads.optimal import gaussian_optimum
from tacit.workloads.strategy import Need, levels

#: A workload and the most that the root mean square may be, under Laplace and under Gaussian noise (spec 09, section 4).
TARGETS: dict[str, tuple[Callable[[], Workload], float, float]] = {
    "AllRange(256)": (lambda: Product(x=AllRanges).on(Cells.of({"x": 256})), 8.06, 2.9015),
    "AllRange(1024)": (lambda: Product(x=AllRanges).on(Cells.of({"x": 1024})), 11.1, 3.5152),
    "Prefix(1024)": (lambda: Product(x=Prefix).on(Cells.of({"x": 1024})), 9.6, 2.9563),
    "2-D ranges 64 x 64": (lambda: Product(x=AllRanges, y=AllRanges).on(Cells.of({"x": 64, "y": 64})), 21.8, 5.3003),
}
#: Plans of large domains: seconds of processor time and megabytes at most.
SECONDS, MEGABYTES = 60.0, 1024.0
SIZES = (2, 5, 10, 20)
LARGE: dict[str, Callable[[], Measured]] = {
    "prefix of 1e6 cells": lambda: measured(Product(x=Prefix).on(Cells.of({"x": 10**6})), Guarantee(rho="0.5")),
    "all ranges of 1e6 cells, Laplace": lambda: measured(Product(x=AllRanges).on(Cells.of({"x": 10**6})), Guarantee(epsilon=1)),
    "boxes of 100 x 100 x 100": lambda: measured(
        Product(x=AllRanges, y=AllRanges, z=Prefix).on(Cells.of({"x": 100, "y": 100, "z": 100})), Guarantee(rho="0.5")
    ),
    "<= 3-way of 100 columns": lambda: measured(
        Marginals(*(f"c{i}" for i in range(100)), up_to=3).on(Cells.of({f"c{i}": SIZES[i % 4] for i in range(100)})), Guarantee(rho="0.1")
    ),
    "8,000 regions in 40 x 20": lambda: measured(
        Product(place=(nodes := Hierarchy.of(places()))).on(Cells.of({"place": list(nodes.leaves)})), Guarantee(rho="0.5")
    ),
}
CELLS = Cells.of({"a": 3, "b": 4, "c": 6, "d": 16})
DRAWN = {
    "pair tables": Marginals("a", "b", "c", up_to=2),
    "triple tables": Marginals("a", "b", "c", ways=3),
    "ranges": Product(d=AllRanges),
    "running totals by group": Product(a=Identity, d=Prefix),
    "two products": Product(d=AllRanges) + 2 * Marginals("a", "b", ways=2),
    "regions": Product(d=Hierarchy.of({"north": {"n1": [*"abcd"], "n2": [*"efg"]}, "south": {"s1": [*"hijkl"], "s2": [*"mnop"]}})),
}


def places() -> dict[str, dict[str, list[str]]]:
    """A hierarchy of 40 states, 800 counties and 8,000 tracts."""
    return {f"s{i}": {f"c{i}.{j}": [f"t{i}.{j}.{k}" for k in range(10)] for j in range(20)} for i in range(40)}


def strategies() -> bool:
    """Errors against the targets, with the certificate of the Gaussian optimum."""
    rows, met = [], True
    for name, (make, laplace, gaussian) in TARGETS.items():
        workload = make()
        for law, most in (("laplace", laplace), ("gaussian", gaussian)):
            began = time.process_time()
            found = math.sqrt(unit_error(best(workload, law), workload, law) / workload.questions)  # type: ignore[arg-type]
            seconds = time.process_time() - began
            good = found <= most and seconds < SECONDS
            met &= good
            rows.append((name, law, f"{found:.4f}", f"{most:g}", f"{seconds:.1f}", "" if good else "MISSED"))
    measure.table(("workload", "noise", "error", "at most", "CPU s", ""), rows)
    gap = gaussian_optimum(Need.of(AllRanges(1024))).gap
    met &= measure.verdict(f"AllRange(1024) certified within 0.1 % ({gap:.1e})", gap < 1e-3)
    return measure.verdict("every error as specified, every plan in 60 CPU s", met)


def two_passes() -> bool:
    """Trees by the printed two passes (Hay et al. 2010) against least squares without a matrix."""
    worst = 0.0
    for size, b in ((8, 2), (16, 4), (27, 3), (4096, 2), (4096, 8)):
        tree = levels(size, b)
        noisy = tree.measure(np.random.default_rng(size).integers(0, 99, size), 0)
        noisy = [block + np.random.default_rng(k).integers(-50, 50, block.shape) for k, block in enumerate(noisy)]
        worst = max(worst, float(np.abs(tree.solve(tree.gather(noisy, 0), 0) - printed(noisy, b)).max()))
    return measure.verdict(f"two passes equal least squares to 1e-9 ({worst:.1e})", worst < 1e-9)


def printed(blocks: list[np.ndarray], b: int) -> np.ndarray:
    """The leaves by the two passes of the text: weighted averages upwards, equal shares of what is missing downwards."""
    up = [blocks[-1].astype(float)]
    for height, block in enumerate(reversed(blocks[:-1]), start=2):
        own = (b**height - b ** (height - 1)) / (b**height - 1)
        up.insert(0, own * block + (b ** (height - 1) - 1) / (b**height - 1) * up[0].reshape(-1, b).sum(axis=1))
    down = up[0]
    for level in up[1:]:
        down = level + np.repeat((down - level.reshape(-1, b).sum(axis=1)) / b, b)
    return down


def large() -> bool:
    """Plans in processes of their own."""
    rows, met = [], True
    for name in LARGE:
        run = subprocess.run([sys.executable, __file__, "--plan", name], capture_output=True, text=True, timeout=900, check=False)
        if run.returncode:
            print(run.stderr[-500:])
            return measure.verdict("large domains are planned", False)
        error, seconds, megabytes = map(float, run.stdout.split())
        good = megabytes < MEGABYTES and seconds < SECONDS
        met &= good
        rows.append((name, f"{error:.4g}", f"{seconds:.1f}", f"{megabytes:.0f}", "" if good else "MISSED"))
    measure.table(("plan", "expected error", "CPU s", "peak MB", ""), rows)
    return measure.verdict("every large domain in 60 CPU s and 1 GB", met)


def draws(repeated: int = 2000) -> bool:
    """Squared errors within 3 standard errors of the prediction, and the share of intervals that hold."""
    rows, met = [], True
    for (name, wanted), law in itertools.product(DRAWN.items(), ("laplace", "gaussian")):
        spend = Guarantee(epsilon=1) if law == "laplace" else Guarantee(rho="0.1")
        plan = measured(wanted.on(CELLS), spend, law=law)  # type: ignore[arg-type]
        cells = plan.workload.cells
        counts = np.random.default_rng(1).integers(0, 40, size=cells.shape)
        order = list(cells.names)
        tables = {t: counts.sum(axis=tuple(i for i, c in enumerate(order) if c not in t)) for t in plan.selection.tables}
        exact = plan.workload.answers(counts)
        widths = [own.widths for own in plan.answers([np.zeros(shape, dtype=np.int64) for shape in plan.shapes])]
        errors, inside, total = [], 0, 0
        with test_mode(7):
            for _ in range(repeated):
                squared = 0.0
                found = plan.selection.answers(plan.workload, plan.draw(tables), plan.law)
                for own, term, width, truth in zip(found, plan.workload.terms, widths, exact, strict=True):
                    off = own.values - truth
                    squared += term.weight * float((off**2).sum())
                    inside += int((np.abs(off) <= width).sum())
                    total += off.size
                errors.append(squared)
        score = (float(np.mean(errors)) - plan.total_error * plan.rounding) / (float(np.std(errors)) / math.sqrt(repeated))
        share = inside / total
        good = abs(score) < 3 and abs(share - 0.95) < 0.01
        met &= good
        rows.append((name, law, f"{plan.expected_error:.3f}", f"{score:+.2f}", f"{100 * share:.2f} %", "" if good else "MISSED"))
    measure.table(("drawn", "noise", "foretold error", "standard errors off", "intervals that hold", ""), rows)
    return measure.verdict(f"{repeated} draws within 3 standard errors of the prediction, 95 % intervals within 1", met)


def main() -> int:
    print(measure.busy())
    # A process starts with the peak of the one that began it, so the small ones come first.
    results = [large(), strategies(), two_passes(), draws()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--plan"]:
        plan = LARGE[sys.argv[2]]()
        scale = 2**20 if sys.platform == "darwin" else 2**10
        print(plan.expected_error, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale)
        sys.exit(0)
    sys.exit(main())
