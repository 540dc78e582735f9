"""Linear models on real tables that nothing was tuned on: the report set of `corpus.py`, beside diffprivlib, AdaSSP and simple descent.

    python benchmarks/bench_corpus.py [seeds] [development | fresh | last | later] [classification] [regression] [file.json]

Ten seeds and the report set by default; half an hour.

A file keeps the scores of every finished table, and a run that is begun again with the same file goes on after them.

Epsilon 0.1, 1 and 10, delta 1e-6 and 0, add/remove, a private number of rows, mean over seeds of splits and of noise. Accuracy or R2 on a
fifth of the rows. Bounds are the least and greatest values of the table and are taken as public, the same for every contender. The private
constant gets the whole budget: the larger class by noisy counts, or the noisy mean of labels within their bounds. The simple methods are
told the number of rows. diffprivlib is pure, with the best of three regularisations *on the test rows*; it counts as a rival in the columns
with a delta too.

A cell is won where ours is at least as good as every rival, or within two standard errors of the difference. Prints how many cells are won,
the worst distance to the private constant, and where the mean falls as epsilon grows; exits with an error below nine cells in ten, or more
than .01 (accuracy) or .05 (R2) below the constant.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_learning
import corpus
import numpy as np
from measure import table
from sklearn.linear_model import LinearRegression as PlainLinear
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from tacit.accounting import mu_for
from tacit.learning import LinearRegression, LogisticRegression

EPSILONS, DELTA = (0.1, 1.0, 10.0), 1e-6
PATIENCE = 2.0  # seconds for diffprivlib at one epsilon, after which it has fewer seeds
ALLOWED = {"classification": 0.01, "regression": 0.05}
Fit = Callable[[np.ndarray, np.ndarray, float, int], Callable[[np.ndarray], np.ndarray]]


def constant(task: corpus.Task, labels: tuple[float, float], delta: float) -> Fit:
    """The private constant, with all of the budget."""

    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        generator = np.random.default_rng(seed)

        def noise(size: int, moved: float) -> np.ndarray:
            if delta:
                return generator.normal(0, moved / mu_for(epsilon, delta), size)
            return generator.laplace(0, moved / epsilon, size)

        if task == "classification":
            counts = np.array([(y == 0).sum(), (y == 1).sum()]) + noise(2, 1.0)
            return lambda values: np.full(len(values), float(counts[1] > counts[0]))
        middle, half = (labels[0] + labels[1]) / 2, (labels[1] - labels[0]) / 2
        moved = math.sqrt(2) if delta else 2.0
        total, people = np.array([((y - middle) / half).sum(), len(y)]) + noise(2, moved)
        mean = float(np.clip(total / max(people, 1), -1, 1))
        return lambda values: np.full(len(values), middle + half * mean)

    return fit


def simple_regression(bounds: tuple[Any, Any], labels: tuple[float, float]) -> Fit:
    """Plain private gradient descent: rows and labels scaled by public bounds, full batch, clipped, 30 noisy steps, averaged."""

    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        generator, steps = np.random.default_rng(seed), 30
        middle, half = (labels[0] + labels[1]) / 2, (labels[1] - labels[0]) / 2

        def rows(values: np.ndarray) -> np.ndarray:
            scaled = 2 * (values - bounds[0]) / (np.asarray(bounds[1]) - bounds[0]) - 1
            return np.hstack([scaled / math.sqrt(scaled.shape[1]), np.ones((len(values), 1))]) / math.sqrt(2)

        Z, t = rows(X), (y - middle) / half
        sigma = math.sqrt(steps) / mu_for(epsilon, DELTA)
        weights, mean = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
        for step in range(steps):
            gradient = Z.T @ np.clip(t - Z @ weights, -1, 1) + generator.normal(0, sigma, len(weights))
            weights = weights + gradient / len(Z)
            mean += weights / (steps // 2) if step >= steps // 2 else 0
        return lambda values: rows(values) @ mean * half + middle

    return fit


def contenders(entry: corpus.Entry, rows: corpus.Rows) -> dict[str, tuple[float, Fit]]:
    """Who runs on a table: a name, and the delta at which it is private."""
    bounds, labels = rows.bounds, rows.label_bounds
    found: dict[str, tuple[float, Fit]] = {}
    for delta in (DELTA, 0.0):
        words = f"delta {delta:g}"
        if entry.task == "classification":
            public: dict[str, Any] = {"delta": delta, "bounds": bounds, "classes": [0.0, 1.0]}
            found[f"tacit, {words}"] = delta, bench_learning.ours(lambda e, n, p=public: LogisticRegression(epsilon=e, **p))
        else:
            public = {"delta": delta, "bounds": bounds, "label_bounds": labels}
            found[f"tacit, {words}"] = delta, bench_learning.ours(lambda e, n, p=public: LinearRegression(epsilon=e, **p))
        found[f"constant, {words}"] = delta, constant(entry.task, labels, delta)
    if entry.task == "classification":
        simple = bench_learning.simple_descent(bounds, 2)
        found["simple descent"] = DELTA, lambda X, y, e, s: simple(X, y.astype(int), e, s)
    else:
        found["simple descent"] = DELTA, simple_regression(bounds, labels)
        found["AdaSSP"] = DELTA, bench_learning.adassp(bounds, labels)
    return found


def scores(entry: corpus.Entry, rows: corpus.Rows, fit: Fit, epsilon: float, seeds: int) -> np.ndarray:
    """One score for every seed."""
    found = []
    for seed in range(seeds):
        classed = entry.task == "classification"
        Xa, Xb, ya, yb = train_test_split(rows.X, rows.y, test_size=0.2, random_state=seed, stratify=rows.y if classed else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guess = fit(Xa, ya, epsilon, seed)(Xb)
        found.append(float(np.mean(guess == yb)) if classed else float(r2_score(yb, guess)))
    return np.array(found)


def measure(entry: corpus.Entry, seeds: int) -> dict[str, Any]:
    """The scores of all contenders on one table: lists by epsilon and seed, means of diffprivlib, and the open model's mean."""
    classed = entry.task == "classification"
    rows = corpus.read(entry.package, entry.item, entry.label)
    scored = {
        name: [scores(entry, rows, fit, epsilon, seeds).tolist() for epsilon in EPSILONS]
        for name, (_, fit) in contenders(entry, rows).items()
    }
    model = PlainLogistic(max_iter=1000) if classed else PlainLinear()
    open_score = float(scores(entry, rows, bench_learning.plain(model), 1.0, min(seeds, 3)).mean())
    peer = "LogisticRegression" if classed else "LinearRegression"
    y, labels = (rows.y.astype(int), None) if classed else (rows.y, rows.label_bounds)
    peers = bench_learning.diffprivlib_scores(rows.X, y, rows.bounds, [peer], seeds=seeds, labels=labels, patience=PATIENCE)
    return {"seeds": seeds, "scores": scored, "outside": peers.get(peer, ([math.nan] * 3, 0))[0], "open": open_score}


def main(
    seeds: int = 10, part: corpus.Part = "report", tasks: tuple[str, ...] = ("classification", "regression"), into: Path | None = None
) -> int:
    bench_learning.DELTA = DELTA
    failed = 0
    kept: dict[str, Any] = json.loads(into.read_text()) if into is not None and into.exists() else {}
    for task in tasks:
        won = cells = 0
        worst, falls, shown = math.inf, [], []
        for entry in corpus.entries(task, part):  # type: ignore[arg-type]
            name = f"{task} {part} {entry.name}"
            if kept.get(name, {}).get("seeds") != seeds:
                kept[name] = measure(entry, seeds)
                if into is not None:
                    into.write_text(json.dumps(kept))
            measured = {who: [np.array(one) for one in lists] for who, lists in kept[name]["scores"].items()}
            outside, open_score = kept[name]["outside"], kept[name]["open"]
            for delta in (DELTA, 0.0):
                name = f"tacit, delta {delta:g}"
                rivals = ["simple descent", "AdaSSP"] if delta else []
                line = [f"{entry.name} {entry.rows:,} x {entry.features}", f"{delta:g}"]
                for i in range(3):
                    mine, least = measured[name][i], measured[f"constant, delta {delta:g}"][i]
                    error = 2 * mine.std() / math.sqrt(seeds)
                    others = [measured[rival][i] for rival in rivals if rival in measured]
                    best = all(mine.mean() >= o.mean() - 2 * (mine - o).std() / math.sqrt(seeds) for o in others)
                    best = best and not mine.mean() < outside[i] - error
                    cells, won = cells + 1, won + best
                    worst = min(worst, float(mine.mean() - least.mean()))
                    shown_rivals = [o.mean() for o in others] + [outside[i]]
                    line.append(f"{mine.mean():.3f}" + ("" if best else " <"))
                    line.append("/".join(f"{max(v, -99):.2f}" if v == v else "-" for v in [least.mean(), *shown_rivals]))
                means = [measured[name][i].mean() for i in range(3)]
                errors = [measured[name][i].std() / math.sqrt(seeds) for i in range(3)]
                falls += [f"{entry.name} at delta {delta:g}" for i in (0, 1)
                          if means[i + 1] < means[i] - 2 * math.hypot(errors[i], errors[i + 1]) - 0.002]  # fmt: skip
                shown.append([*line, f"{open_score:.3f}"])
        others_named = "constant/simple/" + ("" if task == "classification" else "AdaSSP/") + "diffprivlib"
        print(f"\n{task}, {part} set, mean of {seeds} seeds; beside each: {others_named} (with delta 0: constant/diffprivlib)")
        table(["table", "delta", *(h for e in EPSILONS for h in (f"eps {e:g}", "others")), "open"], shown)
        good = won >= 0.9 * cells and worst >= -ALLOWED[task]
        failed += not good
        print(f"{'PASS' if good else 'FAIL'}: {won} of {cells} cells won; at worst {worst:+.3f} beside the private constant; "
              f"falls with epsilon: {', '.join(falls) or 'nowhere'}", flush=True)  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    words = sys.argv[1:]
    named = tuple(word for word in words if word in ("classification", "regression")) or ("classification", "regression")
    numbers = [int(word) for word in words if word.isdigit()]
    files = [Path(word) for word in words if word.endswith(".json")]
    part: corpus.Part = next((each for each in corpus.PARTS if each in words), "report")
    sys.exit(main(numbers[0] if numbers else 10, part, named, *files[:1]))
