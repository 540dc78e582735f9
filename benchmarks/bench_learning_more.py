"""Trees, naive Bayes, k-means and principal components beside diffprivlib, with the same public bounds.

    python benchmarks/bench_learning_more.py [seeds]    20 by default; about five minutes

Epsilon 0.1, 1 and 10 at delta 1e-5, add/remove, mean over seeds of splits and of noise. Classifiers: test accuracy, the higher the better.
KMeans: inertia on test rows, as a part of the inertia around the true mean of the training rows: the lower the better, below 1 is better
than one cluster. PCA: the part of the variance that ten axes hold. diffprivlib's forests do not import beside a recent scikit-learn, so all
of its figures were measured apart (0.6.5 beside scikit-learn 1.4, 8 seeds, 2 for KMeans and PCA; "-" where it has no such model or did not
finish in a minute), with its defaults and its pure guarantee (delta 0).

The constants of our models (clipping lengths, shares, depths, shrinkage) were chosen by looking at scores on these two data sets, so the
figures flatter us a little. On two data sets that were not looked at before (generated 2,000 x 10 and wine, 8 seeds, the models but PCA),
ours were better at every epsilon with one exception: DecisionTree on wine at epsilon 0.1, 0.48 against 0.55. Exits with an error if
diffprivlib is better anywhere in the tables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from measure import table
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA as PlainPCA
from sklearn.ensemble import GradientBoostingClassifier as PlainBoosting
from sklearn.ensemble import RandomForestClassifier as PlainForest
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB as PlainNB
from sklearn.tree import DecisionTreeClassifier as PlainTree

from tacit.learning.boosting import GradientBoostingClassifier
from tacit.learning.forest import RandomForestClassifier
from tacit.learning.kmeans import KMeans
from tacit.learning.naive_bayes import GaussianNB
from tacit.learning.pca import PCA
from tacit.learning.trees import DecisionTreeClassifier
from tacit.noise import test_mode

EPSILONS, DELTA = (0.1, 1.0, 10.0), 1e-5
PEER: dict[tuple[str, str], tuple[float, ...]] = {
    ("breast_cancer", "GaussianNB"): (0.557, 0.605, 0.844),
    ("breast_cancer", "DecisionTree"): (0.816, 0.834, 0.833),
    ("breast_cancer", "RandomForest"): (0.796, 0.875, 0.868),
    ("breast_cancer", "KMeans"): (6.38, 3.06, 0.87),
    ("breast_cancer", "PCA"): (0.294, 0.357, 0.408),
    ("digits", "GaussianNB"): (0.112, 0.149, 0.560),
    ("digits", "DecisionTree"): (0.259, 0.275, 0.276),
    ("digits", "RandomForest"): (0.150, 0.477, 0.498),
    ("digits", "KMeans"): (2.73, 1.62),
    ("digits", "PCA"): (0.144, 0.148),
}
Score = Callable[[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray], float]


def accuracy(model: Any, Xa: np.ndarray, ya: np.ndarray, Xb: np.ndarray, yb: np.ndarray) -> float:
    return float(model.fit(Xa, ya).score(Xb, yb))


def inertia(model: Any, Xa: np.ndarray, ya: np.ndarray, Xb: np.ndarray, yb: np.ndarray) -> float:
    centres = model.fit(Xa).cluster_centers_
    nearest = ((Xb[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1)
    return float(nearest.sum() / ((Xb - Xa.mean(axis=0)) ** 2).sum())


def variance(model: Any, Xa: np.ndarray, ya: np.ndarray, Xb: np.ndarray, yb: np.ndarray) -> float:
    axes, cov = model.fit(Xa).components_, np.cov(Xa.T)
    return float(np.trace(axes @ cov @ axes.T) / np.trace(cov))


def contenders(classes: int) -> list[tuple[str, Score, Callable[..., Any], Any]]:
    """(name, score, private model, the same without privacy)."""
    labels = {"classes": range(classes)}
    return [
        ("GaussianNB", accuracy, lambda p, n: GaussianNB(**labels, **p), PlainNB()),
        ("DecisionTree", accuracy, lambda p, n: DecisionTreeClassifier(n_public=n, **labels, **p), PlainTree()),
        ("RandomForest", accuracy, lambda p, n: RandomForestClassifier(n_public=n, **labels, **p), PlainForest()),
        ("GradientBoosting", accuracy, lambda p, n: GradientBoostingClassifier(**labels, **p), PlainBoosting(n_estimators=30)),
        ("KMeans", inertia, lambda p, n: KMeans(classes, n_public=n, **p), PlainKMeans(classes, n_init=3)),
        ("PCA", variance, lambda p, n: PCA(10, n_public=n, **p), PlainPCA(10)),
    ]


def main(seeds: int = 20) -> int:
    missed = 0
    for name, load in (("breast_cancer", load_breast_cancer), ("digits", load_digits)):
        X, y = load(return_X_y=True)
        lower, upper = (X.min(axis=0), X.max(axis=0)) if name == "breast_cancer" else (0.0, 16.0)
        X = 2 * (X - lower) / (upper - lower) - 1  # public units, so that distances mean the same for everybody
        splits = [train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y) for seed in range(seeds)]
        lines = []
        for model, score, make, plain in contenders(len(np.unique(y))):
            means = []
            for epsilon in EPSILONS:
                values = []
                for seed, (Xa, Xb, ya, yb) in enumerate(splits):
                    with test_mode(seed):
                        values.append(score(make({"epsilon": epsilon, "delta": DELTA, "bounds": (-1, 1)}, len(Xa)), Xa, ya, Xb, yb))
                means.append(float(np.mean(values)))
            Xa, Xb, ya, yb = splits[0]
            peer = PEER.get((name, model), ())
            sign = -1 if score is inertia else 1
            missed += sum(sign * ours <= sign * theirs for ours, theirs in zip(means, peer, strict=False))
            shown = [f"{value:.3f}" for value in peer] + ["-"] * (3 - len(peer))
            lines.append([model, *(f"{value:.3f}" for value in means), *shown, f"{score(plain, Xa, ya, Xb, yb):.3f}"])
        print(f"\n{name} (mean of {seeds} seeds)")
        table(["", *(f"eps {e:g}" for e in EPSILONS), *(f"diffprivlib {e:g}" for e in EPSILONS), "not private"], lines)
    print("\nbetter than diffprivlib everywhere" if not missed else f"\n{missed} figures not better than diffprivlib's")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
