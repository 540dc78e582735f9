"""The digits of scikit-learn, dealt to clients, and a small network in numpy: what the tests and the benchmark train."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
HIDDEN = 32
SIZE = 64 * HIDDEN + HIDDEN + HIDDEN * 10 + 10


@cache
def data(clients: int) -> tuple[list[tuple[NDArray[Any], NDArray[Any]]], tuple[NDArray[Any], NDArray[Any]]]:
    """The examples of each client, and those held out: every fifth."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16.0).astype(np.float32)
    held = np.arange(len(x)) % 5 == 4
    parts = np.array_split(np.flatnonzero(~held), clients)
    return [(x[part], y[part]) for part in parts], (x[held], y[held])


def start() -> Arrays:
    """Weights to begin with, the same in every run."""
    draw = np.random.default_rng(7)
    return {
        "w1": (draw.normal(size=(64, HIDDEN)) / 8).astype(np.float32),
        "b1": np.zeros(HIDDEN, dtype=np.float32),
        "w2": (draw.normal(size=(HIDDEN, 10)) / np.sqrt(HIDDEN)).astype(np.float32),
        "b2": np.zeros(10, dtype=np.float32),
    }


def gradients(a: Arrays, x: NDArray[Any], y: NDArray[Any]) -> Arrays:
    """Of the mean cross-entropy of a batch."""
    hidden = np.maximum(x @ a["w1"] + a["b1"], 0)
    scores = hidden @ a["w2"] + a["b2"]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(y)), y] -= 1
    shares /= len(y)
    back = (shares @ a["w2"].T) * (hidden > 0)
    return {"w1": x.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ shares, "b2": shares.sum(axis=0)}


def trained(arrays: Arrays, x: NDArray[Any], y: NDArray[Any], steps: int = 5, rate: float = 0.5) -> Arrays:
    """Some steps of gradient descent on one client's examples."""
    for _ in range(steps):
        moves = gradients(arrays, x, y)
        arrays = {name: array - np.float32(rate) * moves[name].astype(np.float32) for name, array in arrays.items()}
    return arrays


def accuracy(arrays: Arrays, x: NDArray[Any], y: NDArray[Any]) -> float:
    hidden = np.maximum(x @ arrays["w1"] + arrays["b1"], 0)
    return float(((hidden @ arrays["w2"] + arrays["b2"]).argmax(axis=1) == y).mean())
