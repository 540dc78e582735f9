"""diffprivlib's models on given data, with public bounds: for `bench_learning.py` and `bench_learning_more.py`.

    python learning_diffprivlib.py data.npz models epsilons seeds patience

The data holds X (in [-1, 1]), y, the bounds of the labels and whether they are classes. One line of JSON comes back for each model: its
name, the mean score for every epsilon (NaN where a fit was not done in 20 seconds), and over how many seeds it was taken; fewer than asked
for where `patience`, in seconds for one model at one epsilon, ran out. Splits are the same as ours. Logistic regression is tried with three
regularisations, and the best on the *test* rows is reported, which flatters it.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from diffprivlib import models
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

warnings.simplefilter("ignore")
BOX = (-1.0, 1.0)
LONGEST = 20  # seconds for one fit
Make = Callable[[float, int, np.ndarray, dict[str, Any]], Any]


def logistic(strength: float) -> Make:
    def make(epsilon: float, seed: int, X: np.ndarray, public: dict[str, Any]) -> Any:
        return models.LogisticRegression(epsilon=epsilon, data_norm=math.sqrt(X.shape[1]), C=strength, max_iter=300, random_state=seed)

    return make


def forest(epsilon: float, seed: int, X: np.ndarray, public: dict[str, Any]) -> Any:
    return models.RandomForestClassifier(epsilon=epsilon, bounds=BOX, classes=public["classes"], random_state=seed)


def tree(epsilon: float, seed: int, X: np.ndarray, public: dict[str, Any]) -> Any:
    return models.DecisionTreeClassifier(epsilon=epsilon, bounds=BOX, classes=public["classes"], random_state=seed)


def naive_bayes(epsilon: float, seed: int, X: np.ndarray, public: dict[str, Any]) -> Any:
    return models.GaussianNB(epsilon=epsilon, bounds=BOX, random_state=seed)


def linear(epsilon: float, seed: int, X: np.ndarray, public: dict[str, Any]) -> Any:
    return models.LinearRegression(epsilon=epsilon, bounds_X=BOX, bounds_y=public["labels"], random_state=seed)


def means(epsilon: float, seed: int, X: np.ndarray, public: dict[str, Any]) -> Any:
    return models.KMeans(n_clusters=len(public["classes"]), epsilon=epsilon, bounds=BOX, random_state=seed)


def axes(epsilon: float, seed: int, X: np.ndarray, public: dict[str, Any]) -> Any:
    return models.PCA(10, epsilon=epsilon, bounds=BOX, data_norm=math.sqrt(X.shape[1]), random_state=seed)


MODELS: dict[str, list[Make]] = {
    "LogisticRegression": [logistic(strength) for strength in (0.01, 0.1, 1.0)],
    "RandomForest": [forest],
    "DecisionTree": [tree],
    "GaussianNB": [naive_bayes],
    "LinearRegression": [linear],
    "KMeans": [means],
    "PCA": [axes],
}


def score(name: str, model: Any, parts: list[np.ndarray]) -> float:
    Xa, Xb, ya, yb = parts
    if name == "KMeans":
        centres = model.fit(Xa).cluster_centers_
        nearest = ((Xb[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1)
        return float(nearest.sum() / ((Xb - Xa.mean(axis=0)) ** 2).sum())
    if name == "PCA":
        found, spread = model.fit(Xa).components_, np.cov(Xa.T)
        return float(np.trace(found @ spread @ found.T) / np.trace(spread))
    guess = model.fit(Xa, ya).predict(Xb)
    return float(r2_score(yb, guess)) if name == "LinearRegression" else float(np.mean(guess == yb))


def late(*_: object) -> None:
    raise TimeoutError


def main(path: str, names: str, epsilons: str, seeds: str, patience: str) -> None:
    signal.signal(signal.SIGALRM, late)
    with np.load(path) as held:
        X, y, labels, classed = held["X"], held["y"], held["labels"], bool(held["classed"])
    public = {"classes": np.unique(y).tolist() if classed else [], "labels": tuple(labels.tolist())}
    splits = [train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y if classed else None) for seed in range(int(seeds))]
    for name in names.split(","):
        found, least = [], int(seeds)
        for epsilon in map(float, epsilons.split(",")):
            settings: list[float] = []
            for make in MODELS[name]:
                values, started = [], time.time()
                for seed, parts in enumerate(splits):
                    if values and time.time() - started > float(patience) / len(MODELS[name]):
                        break
                    signal.alarm(LONGEST)
                    try:
                        values.append(score(name, make(epsilon, seed, X, public), parts))
                    except TimeoutError:
                        values = [math.nan]
                        break
                    finally:
                        signal.alarm(0)
                settings.append(float(np.mean(values)))
                least = min(least, len(values))
            found.append(max(settings))
        print(json.dumps({"name": name, "means": found, "seeds": least}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
