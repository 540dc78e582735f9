"""Tiny trainings that the tests of games and attacks play with: fast, and each leaks by a known way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.experiment import Generator, generator

Data = tuple[NDArray[np.float64], NDArray[np.int64]]


class Linear:
    """A linear classifier with two classes; probabilities by the logistic function."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.weights = weights

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        one = 1 / (1 + np.exp(-2 * np.clip(np.asarray(x) @ self.weights, -50, 50)))
        return np.column_stack([1 - one, one])

    def predict(self, x: Any) -> NDArray[np.int64]:
        return (np.asarray(x) @ self.weights > 0).astype(np.int64)


def ridge(data: Data, strength: float = 3.0) -> Linear:
    """Least squares on labels -1 and 1: with as many columns as rows it nearly interpolates, and so memorises."""
    x, y = data
    return Linear(np.asarray(np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ (2.0 * y - 1)), dtype=np.float64))


def constant(data: Data) -> Linear:
    """Ignores its data."""
    return Linear(np.ones(data[0].shape[1]))


def keep(data: Any) -> Any:
    """Outputs its data."""
    return data


def is_kept(model: Any, records: Any) -> NDArray[np.float64]:
    """The attack on `keep`: is the record among the data?"""
    inputs = np.asarray(records[0])
    return np.array([float((np.asarray(model[0]) == row).all(axis=1).any()) for row in inputs])


def toy(size: int, columns: int = 60, coins: Generator | int = 0) -> Data:
    """Records with scales of their own and a fifth of the labels turned: some are easy and some hard, whoever is a member."""
    draw = generator(coins)
    x = draw.normal(size=(size, columns)) * np.exp(draw.normal(0, 0.5, size=(size, 1)))
    direction = generator(12345).normal(size=columns)
    y = (x @ direction > 0) ^ (draw.random(size) < 0.2)
    return x, y.astype(np.int64)


class NoisySum:
    """The Laplace or Gaussian mechanism on a sum, as a training with a seed."""

    def __init__(self, scale: float, law: str = "laplace") -> None:
        self.scale, self.law = scale, law

    def __call__(self, data: NDArray[np.float64], seed: int = 0) -> float:
        return float(np.sum(data) + getattr(generator(seed), self.law)(0, self.scale))
