"""Gradients: the update that a device sends is its training record in another form.

In a layer with weights W and biases b the gradients of one record x are g x^T and g, so x is a quotient of the two,
exactly, and whoever sees the update has the record (Phong et al. 2018; Zhu, Liu and Han 2019 do the same to deep models
by optimisation). An update that is clipped and gets Gaussian noise, as in `tacit.deep`, tells as much as its price
permits and no more.

>>> weights, biases = softmax_gradient(np.array([1.0, -1.0, 1.0]), 2, np.zeros((4, 3)), np.zeros(4))
>>> recovered(weights, biases).round(9).tolist()
[1.0, -1.0, 1.0]
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError, sigma_for
from tacit.audit.demonstrations import Demonstration, Level, draws
from tacit.audit.experiment import Generator, generator
from tacit.audit.rates import most_accuracy
from tacit.calculus import L2, Lattice, Space, Vectors
from tacit.mechanisms import gaussian
from tacit.pictures import BLUE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
PIXELS, CLASSES = 16, 3
DELTA = 1e-6
STEP = Fraction(1, 2**16)  # of the lattice that clipped updates are rounded to


def softmax_gradient(record: Floats, label: int, weights: Floats, biases: Floats) -> tuple[Floats, Floats]:
    """The gradients of the cross-entropy of one record with respect to the weights and the biases of a linear classifier."""
    scores = weights @ record + biases
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    shares[label] -= 1
    return np.outer(shares, record), shares


def recovered(weights: Floats, biases: Floats) -> Floats:
    """The record behind an update, by least squares over the rows: x = g^T (g x^T) / g^T g; zeros where the biases did not move.

    >>> recovered(np.zeros((2, 3)), np.zeros(2)).tolist()
    [0.0, 0.0, 0.0]
    """
    rows, moved = np.asarray(weights, dtype=np.float64), np.asarray(biases, dtype=np.float64)
    if rows.ndim != 2 or moved.shape != rows.shape[:1]:
        raise ParameterError(f"weights must be a matrix with a row for each of the biases, not {rows.shape} and {moved.shape}")
    size = float(moved @ moved)
    return np.zeros(rows.shape[1]) if size == 0 else np.asarray(moved @ rows / size)


def _sent(weights: Floats, biases: Floats, sigma: float | None) -> tuple[Floats, Floats]:
    """What leaves the device: the update itself, or clipped to norm 1 and with Gaussian noise."""
    if sigma is None:
        return weights, biases
    flat = np.append(weights.ravel(), biases)
    flat = flat / max(1.0, float(np.linalg.norm(flat)))
    # towards zero, so that the norm stays below 1
    whole = np.trunc(flat / float(STEP)).astype(np.int64)
    plan = gaussian(sigma).bind(Space(Vectors(Lattice(STEP), whole.size), L2()))
    noisy = np.asarray(plan.release(whole.tolist()).value, dtype=np.float64)
    return noisy[: weights.size].reshape(weights.shape), noisy[weights.size :]


def guessed(epsilon: float | None, trials: int, coins: Generator) -> int:
    """How many times one fair pixel of a fresh record was guessed from one update; the attacker knows the label and the model."""
    # two updates of norm at most 1 are at most 2 apart
    sigma = None if epsilon is None else sigma_for(epsilon, DELTA, 2.0)
    hits = 0
    for _ in range(trials):
        record, label = coins.choice([-1.0, 1.0], PIXELS), int(coins.integers(CLASSES))
        weights, biases = _sent(*softmax_gradient(record, label, np.zeros((CLASSES, PIXELS)), np.zeros(CLASSES)), sigma)
        # with noise the known direction of g is a better guide than the noisy biases
        known = np.full(CLASSES, 1 / CLASSES)
        known[label] -= 1
        found = recovered(weights, biases) if sigma is None else known @ weights
        hits += int((found[0] > 0) == (record[0] > 0))
    return hits


def demonstrate(*, quick: bool = False, seed: int | None = 1) -> Demonstration:
    """One pixel of made-up records of fair pixels, guessed from raw updates and from Tacit's at several epsilons."""
    trials, coins = 200 if quick else 1000, generator(seed)
    levels = [Level("raw update", None, guessed(None, trials, coins), trials, 0.5)]
    for epsilon in (10.0, 1.0, 0.1):
        with draws(seed):
            hits = guessed(epsilon, trials, coins)
        levels.append(Level(f"epsilon {epsilon:g}", epsilon, hits, trials, 0.5, most_accuracy(epsilon, DELTA)))

    record = np.where(np.add.outer(np.arange(4), np.arange(4)) % 2 == 0, 1.0, -1.0).ravel()
    clear = softmax_gradient(record, 0, np.zeros((CLASSES, PIXELS)), np.zeros(CLASSES))
    with draws(seed):
        hidden = _sent(*clear, sigma_for(1.0, DELTA, 2.0))

    def draw(axis: Axes) -> None:
        axis.plot(recovered(*clear), "o-", color=RED, label="from the raw update")
        axis.plot(recovered(*hidden), "s-", color=BLUE, label="at epsilon 1")
        axis.set(xlabel="pixel", ylabel="recovered value", ylim=(-3, 3))
        axis.legend(fontsize=8, frameon=False)

    return Demonstration(
        "gradients", "The update of one record is the record: weights over biases give every pixel back.", tuple(levels), draw,
        notes=("The update is of one record; sums over many hide each of them from a reader of sums, and from no other.",),
    )
