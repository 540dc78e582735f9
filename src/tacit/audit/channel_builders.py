"""The systems on which leakage estimators are compared, and mechanisms as channels.

Randomised response, truncated geometric noise, random and spiky matrices, geometric and Laplace noise in the plane; any finite
mechanism from the laws of its answers. `blahut_arimoto.rate_distortion` builds one more.

>>> channel = truncated_geometric(100, 1_000, 0.2)
>>> channel, round(channel.bayes_risk(), 6)
(Channel(100 secrets, 1000 observations, dense), 0.364201)
>>> round(randomised_response(10, 1.0).bayes_risk(), 6)
0.768031
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from tacit.accounting.errors import ParameterError
from tacit.accounting.parameters import count, nonnegative, positive
from tacit.audit.channel import Channel
from tacit.audit.experiment import Generator

__all__ = [
    "Grid",
    "decay",
    "from_laws",
    "planar_geometric",
    "random_channel",
    "randomised_response",
    "spiky",
    "truncated_geometric",
    "truncated_geometric_epsilon",
]

Reals = NDArray[np.float64]
_WIDE = 2e7  # entries from which a band matrix is kept sparse


def randomised_response(secrets: int, epsilon: float, *, prior: ArrayLike | None = None) -> Channel:
    """k-ary randomised response: the truth with odds e^epsilon against each other value. No epsilon-local channel has a smaller Bayes risk.

    >>> channel = randomised_response(4, 1.5)
    >>> round(channel.epsilon(), 12)
    1.5
    """
    secrets = count("secrets", secrets, least=2)
    small = math.exp(-float(nonnegative("epsilon", epsilon)))
    matrix = np.full((secrets, secrets), small / (1 + (secrets - 1) * small))
    np.fill_diagonal(matrix, 1 / (1 + (secrets - 1) * small))
    return Channel(matrix, prior)


def truncated_geometric(secrets: int, outputs: int, nu: float, *, prior: ArrayLike | None = None, sparse: bool | None = None) -> Channel:
    """Two-sided geometric noise around g(s) = floor(s |O| / |S|), cut to the outputs: the rest is put on the nearest edge (15.59).

    A row that is merely rescaled after cutting is another system, with other risks. Wide matrices are kept sparse, without the entries that
    underflow; `truncated_geometric_epsilon` knows epsilon where the matrix no longer does.

    >>> channel = truncated_geometric(10_000, 10_000, 2.0)
    >>> channel.sparse, round(channel.bayes_risk(), 6)
    (True, 0.238382)
    """
    secrets, outputs = count("secrets", secrets, least=2), count("outputs", outputs, least=2)
    nu = float(positive("nu", nu))
    centre = (np.arange(secrets, dtype=np.int64) * outputs) // secrets
    ratio = math.exp(-nu)
    inside, edge = -math.expm1(-nu) / (1 + ratio), 1 / (1 + ratio)
    reach = int(min(outputs, 745 / nu))
    if sparse is None:
        sparse = secrets * outputs > _WIDE and 4 * (2 * reach + 1) < outputs
    if not sparse:
        matrix: Reals = np.arange(outputs, dtype=np.float64) - centre[:, None].astype(np.float64)
        np.abs(matrix, out=matrix)
        matrix *= -nu
        np.exp(matrix, out=matrix)
        matrix[:, 1:-1] *= inside
        matrix[:, [0, -1]] *= edge
        return Channel(matrix, prior)
    first, stop = np.maximum(centre - reach, 0), np.minimum(centre + reach + 1, outputs)
    begin = np.concatenate([[0], np.cumsum(stop - first)])
    columns = np.arange(begin[-1]) + np.repeat(first - begin[:-1], stop - first)
    band = inside * np.exp(-nu * np.abs(np.arange(-reach, reach + 1)))  # one law for all rows; only the piles on the edges differ
    values = band[columns - np.repeat(centre - reach, stop - first)]
    values[(columns == 0) | (columns == outputs - 1)] *= edge / inside
    return Channel(csr_array((values, columns, begin), shape=(secrets, outputs)), prior)


def truncated_geometric_epsilon(secrets: int, outputs: int, nu: float, *, neighbours: bool = False) -> float:
    """The exact epsilon of `truncated_geometric`: nu times the largest distance between centres, of all secrets or of successive ones.

    >>> truncated_geometric_epsilon(100, 1_000, 0.25), truncated_geometric_epsilon(100, 1_000, 0.25, neighbours=True)
    (247.5, 2.5)
    """
    secrets, outputs = count("secrets", secrets, least=2), count("outputs", outputs, least=2)
    centre = (np.arange(secrets, dtype=np.int64) * outputs) // secrets
    return float(positive("nu", nu)) * float(np.diff(centre).max() if neighbours else centre[-1] - centre[0])


def random_channel(secrets: int, outputs: int, generator: Generator, *, prior: ArrayLike | None = None) -> Channel:
    """Entries uniform on (0, 1), rows rescaled (section 15.6.2): an observer can do little better than guess.

    >>> from tacit.audit.experiment import generator
    >>> round(random_channel(100, 100, generator(1)).bayes_risk(), 2)
    0.98
    """
    matrix = generator.random((count("secrets", secrets), count("outputs", outputs)))
    matrix /= matrix.sum(axis=1, keepdims=True)
    return Channel(matrix, prior)


def spiky(outputs: int, *, prior: ArrayLike | None = None) -> Channel:
    """Two secrets, one emitting even and the other odd numbers: no risk at all, and every nearest unseen neighbour misleads.

    >>> channel = spiky(10)
    >>> channel.bayes_risk(), channel.risk_of(1 - channel.bayes_classifier())
    (0.0, 1.0)
    """
    outputs = count("outputs", outputs, least=2)
    if outputs % 2:
        raise ParameterError(f"outputs must be even, so that both secrets have as many, not {outputs}")
    matrix = np.zeros((2, outputs))
    for parity in (0, 1):
        matrix[parity, parity::2] = 2 / outputs
    return Channel(matrix, prior)


def from_laws(laws: Sequence[Mapping[Any, Any]], *, prior: ArrayLike | None = None) -> Channel:
    """A finite mechanism as a channel: for each secret the probability of each answer, as `distribution` of a mechanism lists them.

    A probability given as an interval of two fractions is taken at its middle, and rows are rescaled by what that loses. Answers become
    columns in the order in which they first appear; numbers keep their value as observations.

    >>> from tacit.mechanisms.geometric import geometric
    >>> noise = geometric(2, lower=0, upper=5)
    >>> round(from_laws([noise.distribution(value) for value in range(6)]).epsilon([(s, s + 1) for s in range(5)]), 12)
    0.5
    """
    answers = list(dict.fromkeys(answer for law in laws for answer in law))
    place = {answer: column for column, answer in enumerate(answers)}
    matrix = np.zeros((len(laws), len(answers)))
    for row, law in enumerate(laws):
        for answer, mass in law.items():
            matrix[row, place[answer]] = float(Fraction(mass[0] + mass[1]) / 2 if isinstance(mass, tuple) else mass)
    totals = matrix.sum(axis=1, keepdims=True)
    if not matrix.size or not (np.abs(totals - 1) <= 1e-6).all():
        raise ParameterError("laws must list, for each secret, probabilities that sum to one")
    numbers = all(isinstance(answer, int | float) and not isinstance(answer, bool) for answer in answers)
    seen = np.array(answers, dtype=np.float64) if numbers else None
    return Channel(matrix / totals, prior, seen)


# --- the plane -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Square cells of side `cell` in `columns` by `rows`, the lower left corner at (`left`, `bottom`); cells are counted row by row.

    >>> Grid(2, 2, 10).centres().tolist()
    [[5.0, 5.0], [15.0, 5.0], [5.0, 15.0], [15.0, 15.0]]
    """

    columns: int
    rows: int
    cell: float
    left: float = 0.0
    bottom: float = 0.0

    def __post_init__(self) -> None:
        count("columns", self.columns)
        count("rows", self.rows)
        positive("cell", self.cell)

    def axes(self) -> tuple[Reals, Reals]:
        """The x of the columns' centres and the y of the rows'."""
        x, y = (np.arange(n, dtype=np.float64) + 0.5 for n in (self.columns, self.rows))
        return self.left + self.cell * x, self.bottom + self.cell * y

    def edges(self) -> tuple[Reals, Reals]:
        """The x of the lines between columns and the y of those between rows, the outer ones included."""
        x, y = (np.arange(n + 1, dtype=np.float64) for n in (self.columns, self.rows))
        return self.left + self.cell * x, self.bottom + self.cell * y

    def centres(self) -> Reals:
        """The centre of every cell, one row each."""
        x, y = self.axes()
        return np.stack([np.tile(x, self.rows), np.repeat(y, self.columns)], axis=1)

    def around(self, margin: int, split: int) -> Grid:
        """This square with `margin` more cells on every side, each cell cut into `split` by `split`.

        >>> Grid(20, 20, 150).around(7, 10)
        Grid(columns=340, rows=340, cell=15.0, left=-1050.0, bottom=-1050.0)
        """
        margin, split = count("margin", margin, least=0), count("split", split)
        wide, high = ((side + 2 * margin) * split for side in (self.columns, self.rows))
        return Grid(wide, high, self.cell / split, self.left - margin * self.cell, self.bottom - margin * self.cell)


def planar_geometric(secrets: Grid, outputs: Grid, nu: float, *, prior: ArrayLike | None = None, unit: float = 100.0) -> Channel:
    """C[s, o] proportional to nu^(-d(s, o) / unit) between the centres of cells, each row rescaled (15.61). Larger nu is less noise.

    The rescaling factor differs from secret to secret on a bounded square, so that the promise of ln(nu) / unit per metre does not hold
    exactly; `Channel.epsilon` with pairs and distances says what does.

    >>> small = Grid(4, 4, 150)
    >>> round(planar_geometric(small, small.around(2, 2), 4).bayes_risk(), 4)
    0.5449
    """
    rate = decay(nu, unit)
    (sx, sy), (ox, oy) = secrets.axes(), outputs.axes()
    along = (ox - np.tile(sx, secrets.rows)[:, None]) ** 2
    across = (oy - np.repeat(sy, secrets.columns)[:, None]) ** 2
    matrix = (across[:, :, None] + along[:, None, :]).reshape(secrets.columns * secrets.rows, -1)
    np.sqrt(matrix, out=matrix)
    matrix *= -rate
    np.exp(matrix, out=matrix)
    matrix /= matrix.sum(axis=1, keepdims=True)
    return Channel(matrix, prior, outputs.centres())


def decay(nu: float, unit: float) -> float:
    """The rate at which noise falls that loses a factor `nu` over one `unit` of distance.

    >>> round(decay(2, 100), 6)
    0.006931
    """
    if not float(positive("nu", nu)) > 1:
        raise ParameterError(f"nu must be larger than 1: the factor by which probabilities fall over one unit, not {nu}")
    return math.log(float(nu)) / float(positive("unit", unit))
