"""Classic models: test accuracy and R2 of private estimators beside diffprivlib, Opacus, a 40-line noisy gradient descent, and AdaSSP.

    python benchmarks/bench_learning.py [seeds]    20 by default; about six minutes on a quiet machine

Epsilon 0.1, 1 and 10 at delta 1e-5, add/remove, mean over seeds of splits and of noise. Bounds are taken as public, the same for
every contender: the least and greatest values of the whole data (breast cancer, wine, diabetes), the range of a pixel (digits), or known by
construction. The number of rows is declared public, as the simple methods need it; a line shows what it costs to keep it private.
The constants of the estimators' schedules were chosen on breast_cancer, digits, diabetes and the generated 2,000 x 5, so our lines there
are optimistic by that choice; wine, the generated classes (whose optimum is known: the best any rule can do) and the regression with skewed
noise were not looked at for them; for delta = 0 all four sets of classes were. diffprivlib runs in an environment of its own beside an
older scikit-learn (`peers/`), with its pure guarantee and the best of three regularisations *on the test rows*; Opacus with the better of
two settings, chosen in the same way, which flatters both. The 40-line descent has one setting that was not tuned; the targets were measured
earlier, for another writing of it.

A line of ours that is marked must beat every rival and target of its table at every epsilon, by the printed means (or lie within 0.005 of
the known optimum), and be close to the model without privacy at epsilon 10. The marked line with delta = 0 must beat diffprivlib's model of
the same kind, which is pure too (its forest meets ours in `bench_learning_more.py`). Prints PASS or FAIL for each, and exits with an error
if one fails.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import environments  # type: ignore[import-not-found]
import numpy as np
from measure import table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LinearRegression as PlainLinear
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from tacit.accounting import Gaussian, Poisson, Repeated, Sampled, calibrate, mu_for
from tacit.learning import LinearRegression, LinearSVC, LogisticRegression, Ridge
from tacit.noise import test_mode

EPSILONS, DELTA = (0.1, 1.0, 10.0), 1e-5
CLOSE = 0.03  # how far below the model without privacy a marked line may be at epsilon 10
AT_BEST = 0.005  # a line this near to the known optimum has nothing left to win by
PURE, PURE_RIVAL = "tacit, delta = 0*", "diffprivlib LogisticRegression"
# What the simple right methods reach.
TARGETS = {
    "breast_cancer": (0.78, 0.944, 0.963),
    "digits": (0.27, 0.868, 0.922),
    "diabetes": (-0.3, -0.07, 0.28),
    "generated 2,000 x 5": (0.35, 0.90, 0.96),
}
Fit = Callable[[np.ndarray, np.ndarray, float, int], Callable[[np.ndarray], np.ndarray]]


def simple_descent(bounds: tuple[Any, Any], classes: int) -> Fit:
    """The 40-line baseline: rows scaled by public bounds to length 1, full batch, clipped, 30 noisy steps, averaged."""

    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        generator = np.random.default_rng(seed)

        def rows(values: np.ndarray) -> np.ndarray:
            scaled = 2 * (values - bounds[0]) / (np.asarray(bounds[1]) - bounds[0]) - 1
            scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
            return np.hstack([scaled, np.ones((len(values), 1))]) / math.sqrt(2)

        Z, steps, rate = rows(X), 30, 20.0
        sigma = math.sqrt(steps) / mu_for(epsilon, DELTA)
        W, mean = np.zeros((Z.shape[1], classes)), np.zeros((Z.shape[1], classes))
        for t in range(steps):
            scores = Z @ W
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            residual = np.eye(classes)[y] - p / p.sum(axis=1, keepdims=True)
            lengths = np.linalg.norm(residual, axis=1) * np.linalg.norm(Z, axis=1)
            gradient = Z.T @ (residual / np.maximum(1, lengths)[:, None])
            W = W + rate * (gradient + generator.normal(0, sigma, W.shape)) / len(Z)
            mean += W if t >= steps // 2 else 0
        return lambda values: (rows(values) @ mean).argmax(axis=1)

    return fit


def adassp(bounds: tuple[Any, Any], labels: tuple[float, float]) -> Fit:
    """Wang 2018, Algorithm 2, with Gaussian noise calibrated exactly for the three releases."""

    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        generator = np.random.default_rng(seed)
        middle, half = (labels[0] + labels[1]) / 2, (labels[1] - labels[0]) / 2

        def rows(values: np.ndarray) -> np.ndarray:
            return np.hstack([2 * (values - bounds[0]) / (np.asarray(bounds[1]) - bounds[0]) - 1, np.ones((len(values), 1))])

        Z, t = rows(X), np.clip((y - middle) / half, -1, 1)
        d = Z.shape[1]
        sigma, square = math.sqrt(3) / mu_for(epsilon, DELTA), float(d)
        gram = Z.T @ Z
        least = max(np.linalg.eigvalsh(gram)[0] + generator.normal(0, sigma * square) - 2 * sigma * square, 0)
        ridge = max(0.0, math.sqrt(d * math.log(2 * d * d / 0.05)) * sigma * square - least)
        noise = np.triu(generator.normal(0, sigma * square, (d, d)))
        noise = noise + np.triu(noise, 1).T
        theta = np.linalg.solve(gram + noise + ridge * np.eye(d), Z.T @ t + generator.normal(0, sigma * math.sqrt(d), d))
        return lambda values: rows(values) @ theta * half + middle

    return fit


def ours(make: Callable[..., Any]) -> Fit:
    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        with test_mode(seed):
            model = make(epsilon, len(X)).fit(X, y)
        assert model.privacy_.upper <= epsilon
        return model.predict  # type: ignore[no-any-return]

    return fit


def plain(model: Any) -> Fit:
    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        scaler = MinMaxScaler().fit(X)
        fitted = model.fit(scaler.transform(X), y)
        return lambda values: fitted.predict(scaler.transform(values))

    return fit


def opacus(bounds: tuple[Any, Any], classes: int, length: float, rounds: int) -> Fit:
    """Logistic regression by Opacus: Poisson batches of a quarter of the rows, clipped at 1, rows scaled to length 1 by public bounds."""
    import torch
    from opacus import PrivacyEngine

    found: dict[float, float] = {}

    def rows(values: np.ndarray) -> Any:
        scaled = 2 * (values - bounds[0]) / (np.asarray(bounds[1]) - bounds[0]) - 1
        return torch.tensor(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), dtype=torch.float32)

    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        torch.manual_seed(seed)
        if epsilon not in found:  # by our accountant: the least noise there is, while Opacus' own gives up at epsilon 0.1
            found[epsilon] = calibrate(
                lambda noise: Repeated(Sampled(Poisson(0.25), Gaussian(noise)), 4 * rounds), epsilon=epsilon, delta=DELTA
            )
        model: Any = torch.nn.Linear(X.shape[1], classes)
        torch.nn.init.zeros_(model.weight)
        optimiser: Any = torch.optim.SGD(model.parameters(), lr=length)
        data = torch.utils.data.TensorDataset(rows(X), torch.tensor(y))
        loader: Any = torch.utils.data.DataLoader(data, batch_size=math.ceil(len(X) / 4))
        model, optimiser, loader = PrivacyEngine(accountant="rdp").make_private(
            module=model, optimizer=optimiser, data_loader=loader, noise_multiplier=found[epsilon], max_grad_norm=1.0
        )
        for _ in range(rounds):
            for batch, labels in loader:
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(batch), labels).backward()
                optimiser.step()
        with torch.no_grad():
            weights, level = model._module.weight.numpy(), model._module.bias.numpy()
        return lambda values: (rows(values).numpy() @ weights.T + level).argmax(axis=1)

    return fit


def diffprivlib_scores(
    X: np.ndarray,
    y: np.ndarray,
    bounds: tuple[Any, Any],
    names: list[str],
    *,
    seeds: int,
    labels: tuple[float, float] | None,
    patience: float,
) -> dict[str, tuple[list[float], int]]:
    """Mean scores of diffprivlib's models for every epsilon, and over how many seeds; empty where it cannot be installed."""
    try:
        python = environments.interpreter("diffprivlib")
    except environments.Unavailable as reason:
        print(f"diffprivlib {reason}")
        return {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "data.npz"
        scaled = 2 * (X - bounds[0]) / (np.asarray(bounds[1]) - bounds[0]) - 1
        np.savez(path, X=scaled, y=y, labels=labels or (0.0, 1.0), classed=labels is None)
        words = [python, Path(__file__).parent / "peers" / "learning_diffprivlib.py", path, ",".join(names)]
        words += [",".join(map(str, EPSILONS)), seeds, patience]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"diffprivlib failed: {(done.stderr.splitlines() or ['no reason given'])[-1][:90]}")
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {one["name"]: (one["means"], one["seeds"]) for one in said}


def generated() -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    generator = np.random.default_rng(7)
    X, weights = generator.uniform(-1, 1, (2000, 5)), generator.normal(size=5)
    signal = X @ weights
    y = signal + generator.normal(0, signal.std() * math.sqrt(0.034 / 0.966), 2000)
    reach = float(np.ceil(np.abs(weights).sum() + 1))
    return X, y, (-reach, reach)


def generated_classes() -> tuple[np.ndarray, np.ndarray, float]:
    """3,000 rows of 8 features in [-1, 1], three classes from a known multinomial law; and the accuracy of the best rule there is."""
    generator = np.random.default_rng(11)
    X, weights = generator.uniform(-1, 1, (3000, 8)), 3 * generator.normal(size=(8, 3))
    shares = np.exp(X @ weights)
    shares /= shares.sum(axis=1, keepdims=True)
    y = (generator.random((3000, 1)) > shares.cumsum(axis=1)).sum(axis=1)
    return X, y, float(shares.max(axis=1).mean())


def skewed() -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """4,000 rows of 6 features off their centre, with exponential noise: clipping residuals biases here."""
    generator = np.random.default_rng(12)
    X = np.clip(generator.normal(0.2, 0.3, (4000, 6)), -1, 1)
    return X, X @ generator.normal(size=6) + generator.exponential(0.4, 4000), (-4.0, 6.0)


@dataclass
class Task:
    """A data set, what is public about it, and who runs on it; contenders marked with an asterisk must win."""

    name: str
    X: np.ndarray
    y: np.ndarray
    bounds: tuple[Any, Any]
    labels: tuple[float, float] | None
    contenders: dict[str, Fit]
    peer: list[str]
    best: float | None = None


def tasks() -> list[Task]:
    found = []
    made, classes_made, best = generated_classes()
    for name, (X, y) in {
        "breast_cancer": load_breast_cancer(return_X_y=True),
        "digits": load_digits(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "generated classes 3,000 x 8": (made, classes_made),
    }.items():
        bounds = {"digits": (0.0, 16.0), "generated classes 3,000 x 8": (-1.0, 1.0)}.get(name, (X.min(axis=0), X.max(axis=0)))
        classes = len(np.unique(y))
        public = {"delta": DELTA, "bounds": bounds, "classes": range(classes)}
        contenders: dict[str, Fit] = {
            "tacit LogisticRegression*": ours(lambda e, n, p=public: LogisticRegression(epsilon=e, n_public=n, **p)),
            "tacit, private n": ours(lambda e, n, p=public: LogisticRegression(epsilon=e, **p)),
            "tacit LinearSVC": ours(lambda e, n, p=public: LinearSVC(epsilon=e, n_public=n, **p)),
            "40-line descent": simple_descent(bounds, classes),
            "Opacus (few, long steps)": opacus(bounds, classes, 4.0, 5),
            "Opacus (many, short steps)": opacus(bounds, classes, 1.0, 20),
            "not private": plain(PlainLogistic(C=10.0, max_iter=2000)),
        }
        pure = {**public, "delta": 0}
        contenders[PURE] = ours(lambda e, n, p=pure: LogisticRegression(epsilon=e, n_public=n, **p))
        peer = ["LogisticRegression", "RandomForest", "GaussianNB"]
        found.append(Task(name, X, y, bounds, None, contenders, peer, best if name.startswith("generated") else None))
    sick, score = load_diabetes(return_X_y=True)
    for name, (X, y, labels) in {
        "diabetes": (sick, score, (25.0, 346.0)),
        "generated 2,000 x 5": generated(),
        "skewed 4,000 x 6": skewed(),
    }.items():
        bounds = (sick.min(axis=0), sick.max(axis=0)) if name == "diabetes" else (-1.0, 1.0)
        public = {"delta": DELTA, "bounds": bounds, "label_bounds": labels}
        contenders = {
            "tacit LinearRegression*": ours(lambda e, n, p=public: LinearRegression(epsilon=e, n_public=n, **p)),
            "tacit, private n": ours(lambda e, n, p=public: LinearRegression(epsilon=e, **p)),
            "tacit, delta = 0": ours(lambda e, n, p=public: LinearRegression(epsilon=e, n_public=n, **{**p, "delta": 0})),
            "tacit Ridge(1)*": ours(lambda e, n, p=public: Ridge(1.0, epsilon=e, n_public=n, **p)),
            "tacit Ridge(0), one matrix*": ours(lambda e, n, p=public: Ridge(0.0, epsilon=e, n_public=n, solver="moments", **p)),
            "AdaSSP": adassp(bounds, labels),
            "not private": plain(PlainLinear()),
        }
        found.append(Task(name, X, y, bounds, labels, contenders, ["LinearRegression"]))
    return found


def measured(task: Task, fit: Fit, seeds: int, epsilons: tuple[float, ...]) -> list[float]:
    """Mean scores over splits and noise, one for every epsilon."""
    means, classed = [], task.labels is None
    for epsilon in epsilons:
        values = []
        for seed in range(seeds):
            Xa, Xb, ya, yb = train_test_split(task.X, task.y, test_size=0.2, random_state=seed, stratify=task.y if classed else None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                guess = fit(Xa, ya, epsilon, seed)(Xb)
            values.append(float(np.mean(guess == yb)) if classed else float(r2_score(yb, guess)))
        means.append(float(np.mean(values)))
    return means


def verdict(name: str, lines: dict[str, list[float]], targets: tuple[float, ...] | None) -> str:
    """Nothing for a line that is not marked; else PASS, or what is not beaten. At the known optimum nobody can be beaten by more."""
    if not name.endswith("*"):
        return ""
    rivals = {rival: values for rival, values in lines.items() if not rival.startswith(("tacit", "not private", "best possible"))}
    if name == PURE:
        rivals, targets = {rival: values for rival, values in rivals.items() if rival.startswith(PURE_RIVAL)}, None
        if not rivals:
            return "no peer"
    if targets:
        rivals["target"] = list(targets)
    ceiling = lines.get("best possible", [math.inf])[0] - AT_BEST
    lost = [f"{rival} at {e:g}" for rival, values in rivals.items() for e, mine, its in zip(EPSILONS, lines[name], values, strict=True)
            if mine <= its and mine < ceiling]  # fmt: skip
    if name != PURE and lines[name][-1] < lines["not private"][-1] - CLOSE:
        lost.append("not close to the model without privacy")
    return "PASS" if not lost else "FAIL: " + ", ".join(lost)


def main(seeds: int = 20) -> int:
    failed = 0
    for task in tasks():
        lines, turns = {}, 2 * seeds if task.name == "wine" else seeds  # 36 test rows: twenty splits say little
        for name, fit in task.contenders.items():
            lines[name] = measured(task, fit, turns, EPSILONS[:1]) * 3 if name == "not private" else measured(task, fit, turns, EPSILONS)
        peers = diffprivlib_scores(task.X, task.y, task.bounds, task.peer, seeds=turns, labels=task.labels, patience=6.0)
        lines.update({f"diffprivlib {name}" + ("" if n == turns else f" ({n} seeds)"): means for name, (means, n) in peers.items()})
        if task.best is not None:
            lines["best possible"] = [task.best] * 3
        verdicts = {name: verdict(name, lines, TARGETS.get(task.name)) for name in lines}
        failed += sum(said.startswith("FAIL") for said in verdicts.values())
        shown = [[name, *(f"{v:.3f}" if v > -100 else f"{v:.0e}" for v in values), verdicts[name]] for name, values in lines.items()]
        if task.name in TARGETS:
            shown.append(["target to beat", *(f"{value:g}" for value in TARGETS[task.name]), ""])
        print(f"\n{task.name} ({'accuracy' if task.labels is None else 'R2'}, mean of {turns} seeds)")
        table(["", *(f"eps {e:g}" for e in EPSILONS), ""], shown)
        sys.stdout.flush()
    print("\nevery marked line PASSes" if not failed else f"\n{failed} marked lines FAIL")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
