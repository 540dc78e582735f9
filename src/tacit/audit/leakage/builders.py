"""Channels to study: mechanisms as channels, the systems that estimators are compared on, and channels from channels.

Randomised response, truncated geometric noise, random and spiky matrices, geometric and Laplace noise in the plane; any
finite mechanism from the laws of its answers (`from_laws`). `channel.rate_distortion` builds one more.

>>> channel = truncated_geometric(100, 1_000, 0.2)
>>> channel, round(channel.bayes_risk(), 6)
(Channel(100 secrets, 1000 observations, dense), 0.364201)
>>> round(randomised_response(10, 1.0).bayes_risk(), 6)
0.768031

Channels combine: post-processing (`cascade`) never raises a leakage; two observations of one secret (`parallel`) leak
at most the sum, in epsilon and in mutual information; independent secrets (`product`) leak exactly the sum.

>>> import numpy as np
>>> coin = Channel(np.array([[0.75, 0.25], [0.25, 0.75]]))
>>> cascade(coin, coin).bayes_risk(), parallel(coin, coin).bayes_risk(), product(coin, coin).bayes_risk()
(0.375, 0.25, 0.4375)

Laplace noise in the plane (Andrés et al. 2013) has a density that falls as e^(-rate * distance). `sample_planar_laplace`
draws points: what an observer of the continuous mechanism sees. `planar_laplace` is the same mechanism with the point
reported as the cell it falls into, and as the nearest cell where it falls outside: post-processing, so the promise of
rate * distance between any two secrets holds for the matrix too, as it does not for a matrix of densities whose rows
are rescaled.

>>> map_ = Grid(3, 3, 150)
>>> planar_laplace(map_, map_.around(1, 2), nu=4).epsilon([(0, 1)], distances=[150]) <= math.log(4) / 100
True
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array, issparse, kron

from tacit.audit.experiment import Generator
from tacit.audit.leakage.channel import Channel, Matrix, distribution
from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, positive

Reals = NDArray[np.float64]
Mass = float | Fraction | tuple[Fraction, Fraction]  # a probability, or an interval for it
_WIDE = 2e7  # entries from which a band matrix is kept sparse
_PAD = 4  # cells added on each side: a tail then starts far enough from every secret for plain quadrature
_NEAR = 3.5  # cells this many sides or fewer from the secret, where the density has its tip, are integrated along angles


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
    begin: NDArray[np.int64] = np.concatenate([[0], np.cumsum(stop - first)])
    offset: NDArray[np.int64] = np.repeat(first - begin[:-1], stop - first)
    columns = np.arange(begin[-1]) + offset
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


def from_laws(laws: Sequence[Mapping[Hashable, Mass]], *, prior: ArrayLike | None = None) -> Channel:
    """A finite mechanism as a channel: for each secret the probability of each answer, as `distribution` of a mechanism lists them.

    A probability given as an interval of two fractions is taken at its middle, and rows are rescaled by what that loses. Answers become
    columns in the order in which they first appear; numbers keep their value as observations.

    >>> from tacit.mechanisms import geometric
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


def sample_planar_laplace(
    secrets: Grid, nu: float, examples: int, generator: Generator, *, prior: ArrayLike | None = None, unit: float = 100.0
) -> tuple[NDArray[np.int64], Reals]:
    """Secrets drawn from the prior and the point each one emits: an angle at random, a distance of density r e^(-rate r).

    >>> from tacit.audit.experiment import generator
    >>> s, points = sample_planar_laplace(Grid(1, 1, 10), 2, 100_000, generator(1))
    >>> bool(abs(np.hypot(*(points - 5).T).mean() * math.log(2) / 100 - 2) < 0.02)  # the mean distance is 2 / rate
    True
    """
    rate, examples = decay(nu, unit), count("examples", examples, least=0)
    cells = secrets.columns * secrets.rows
    belief = distribution("prior", np.full(cells, 1 / cells) if prior is None else prior, cells)
    drawn = np.searchsorted(np.cumsum(belief), generator.random(examples) * belief.sum(), side="right").astype(np.int64)
    angle, radius = 2 * math.pi * generator.random(examples), generator.gamma(2.0, 1 / rate, examples)
    return drawn, secrets.centres()[drawn] + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def planar_laplace(secrets: Grid, outputs: Grid, nu: float, *, prior: ArrayLike | None = None, unit: float = 100.0) -> Channel:
    """Planar Laplace noise reported as a cell of `outputs`, the nearest one if the point lies outside; (ln nu)/unit per metre of distance.

    Entries are integrals over cells, right to about ten digits even where they are tiny.
    """
    rate = decay(nu, unit)
    axes = [_pieces(s, edges, outputs.cell, rate) for s, edges in zip(secrets.axes(), outputs.edges(), strict=True)]
    (which_x, x), (which_y, y) = axes
    table = _integrals(x, y, outputs.cell, rate)
    fold_x, fold_y = (np.r_[0, _PAD + 2 : _PAD + 1 + n] for n in (outputs.columns, outputs.rows))
    matrix = np.empty((secrets.columns * secrets.rows, outputs.columns * outputs.rows))
    for i in range(secrets.columns):
        strip = np.add.reduceat(table[which_x[i]], fold_x, axis=0)  # what lies outside joins the border cells
        for j in range(secrets.rows):
            matrix[j * secrets.columns + i] = np.add.reduceat(strip[:, which_y[j]], fold_y, axis=1).T.ravel()
    matrix /= matrix.sum(axis=1, keepdims=True)  # by the rounding and the quadrature only: tests hold it to 1e-10
    return Channel(matrix, prior, outputs.centres())


def _pieces(centres: Reals, edges: Reals, cell: float, rate: float) -> tuple[NDArray[np.int64], Reals]:
    """For each secret its intervals along one axis, as numbers into a list of distinct ones: tail, pads, cells, pads, tail."""
    if centres.min() < edges[0] or centres.max() > edges[-1]:
        raise ParameterError("the centre of every cell of secrets must lie within outputs; enlarge outputs with Grid.around")
    pads = cell * np.arange(1, _PAD + 1)
    ends = np.concatenate([[-math.inf], edges[0] - pads[::-1], edges, edges[-1] + pads, [math.inf]])
    offsets = ends - centres[:, None]
    # grids that fit together share nearly all their offsets: rounding to 1e-11 of a cell finds them
    low, high = (np.round(side / cell, 11) * cell for side in (offsets[:, :-1], offsets[:, 1:]))
    intervals, which = np.unique(np.stack([low, high], axis=-1).reshape(-1, 2), axis=0, return_inverse=True)
    return which.reshape(low.shape).astype(np.int64), intervals


def _integrals(x: Reals, y: Reals, cell: float, rate: float) -> Reals:
    """The mass of noise around the origin in every rectangle x[i] by y[j]."""
    span = max(float(np.abs(side[np.isfinite(side)]).max()) for side in (x, y))
    (nodes_x, weights_x, begin_x), (nodes_y, weights_y, begin_y) = (_nodes(side, cell, rate, span) for side in (x, y))
    table = np.empty((len(x), len(y)))
    stops = np.append(begin_x[1:], len(nodes_x))
    for i, (start, stop) in enumerate(zip(begin_x, stops, strict=True)):
        density = np.exp(-rate * np.hypot(nodes_x[start:stop, None], nodes_y))
        table[i] = np.add.reduceat((weights_x[start:stop] @ density) * weights_y, begin_y)
    table *= rate**2 / (2 * math.pi)
    gap_x, gap_y = (np.maximum(0.0, np.maximum(side[:, 0], -side[:, 1])) for side in (x, y))
    near = np.argwhere(np.hypot(gap_x[:, None], gap_y) < _NEAR * cell)
    if near.size:
        (x0, x1), (y0, y1) = x[near[:, 0]].T, y[near[:, 1]].T
        table[near[:, 0], near[:, 1]] = (
            _quadrant(x1, y1, rate) - _quadrant(x0, y1, rate) - _quadrant(x1, y0, rate) + _quadrant(x0, y0, rate)
        )
    return table


def _nodes(intervals: Reals, cell: float, rate: float, span: float) -> tuple[Reals, Reals, NDArray[np.int64]]:
    """Gauss-Legendre nodes and weights for every interval, one after the other, and where each begins.

    A tail is cut where it has lost 45 e-foldings, even seen from the far corner of the square, and covered by panels that double in width.
    """
    unit, weight = np.polynomial.legendre.leggauss(6 + min(60, math.ceil(rate * cell)))
    panel, panel_weight = np.polynomial.legendre.leggauss(16)
    reach = (45 + math.sqrt(90 * rate * span)) / rate
    widths = [min(cell, 0.5 / rate)]
    while sum(widths) < reach:
        widths.append(2 * widths[-1])
    starts = np.concatenate([[0.0], np.cumsum(widths)])
    tail = (starts[:-1, None] + np.diff(starts)[:, None] * (panel + 1) / 2).ravel()
    tail_weight = (np.diff(starts)[:, None] * panel_weight / 2).ravel()
    nodes, weights, begin, total = [], [], [], 0
    for low, high in intervals:
        if math.isinf(low):
            points, masses = high - tail, tail_weight
        elif math.isinf(high):
            points, masses = low + tail, tail_weight
        else:
            points, masses = low + (high - low) * (unit + 1) / 2, weight * (high - low) / 2
        begin.append(total)
        total += len(points)
        nodes.append(points)
        weights.append(masses)
    return np.concatenate(nodes), np.concatenate(weights), np.array(begin)


def _quadrant(x: Reals, y: Reals, rate: float) -> Reals:
    """The mass between the origin and the corner (x, y), with the sign of x y: one integral along the angle for each of two triangles.

    A triangle with one leg `near` along an axis and the other `far` has mass 1/(2 pi) times the integral of G(near / cos t) over angles
    t, where G is the law of the distance. With 1 / cos t = cosh v the integrand is an entire function of v, however thin the triangle
    is.
    """
    node, weight = np.polynomial.legendre.leggauss(96)
    total = np.zeros(len(x))
    for near, far in ((np.abs(x), np.abs(y)), (np.abs(y), np.abs(x))):
        thick = near > 0
        last = np.arcsinh(np.divide(far, near, out=np.zeros_like(near), where=thick))
        stretch = np.cosh(last[:, None] * (node + 1) / 2)
        r = rate * near[:, None] * stretch
        total += last / 2 * (((-np.expm1(-r) - r * np.exp(-r)) / stretch) @ weight)
    return np.sign(x) * np.sign(y) * total / (2 * math.pi)


# --- channels from channels -----------------------------------------------------------------------------------


def cascade(first: Channel, then: Channel) -> Channel:
    """The observation of the first channel goes through the second, whose secrets are the observations of the first.

    >>> blind = Channel(np.ones((2, 1)))
    >>> cascade(Channel(np.eye(2)), blind).bayes_risk()  # an observer who sees nothing
    0.5
    """
    if then.secrets != first.outputs:
        raise ParameterError(f"then must have a row for each of the {first.outputs} observations of the first channel, not {then.secrets}")
    left, right = first.matrix, then.matrix
    product_ = left @ right if first.sparse == then.sparse else _dense(left) @ _dense(right)
    return Channel(product_, first.prior, then.observations)


def parallel(first: Channel, second: Channel) -> Channel:
    """One secret, both channels observed, independent given the secret: column o * second.outputs + p stands for the pair (o, p).

    >>> coin = Channel(np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> parallel(coin, parallel(coin, coin)).bayes_risk()  # the best of three
    0.15625
    """
    if first.secrets != second.secrets or not np.allclose(first.prior, second.prior, rtol=0, atol=1e-9):
        raise ParameterError("both channels must have the same secrets and the same prior; use with_prior")
    if first.sparse or second.sparse:
        both: Matrix = _row_products(csr_array(first.matrix), csr_array(second.matrix))
    else:
        both = (first.matrix[:, :, None] * second.matrix[:, None, :]).reshape(first.secrets, -1)
    return Channel(both, first.prior, _pairs_of(first.observations, second.observations))


def product(first: Channel, second: Channel) -> Channel:
    """Two independent secrets, each through its own channel: row s * second.secrets + t stands for the pair (s, t).

    >>> coin = Channel(np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> round(product(coin, coin).min_entropy_leakage() / coin.min_entropy_leakage(), 9)
    2.0
    """
    sparse = first.sparse or second.sparse
    matrix = csr_array(kron(first.matrix, second.matrix)) if sparse else np.kron(first.matrix, second.matrix)
    return Channel(matrix, np.kron(first.prior, second.prior), _pairs_of(first.observations, second.observations))


def _dense(matrix: Matrix) -> Reals:
    return np.asarray(matrix.toarray() if issparse(matrix) else matrix, dtype=np.float64)


def _row_products(left: csr_array, right: csr_array) -> csr_array:
    """Row by row the outer product, flattened."""
    rows = np.repeat(np.arange(left.shape[0]), np.diff(left.indptr))
    repeats = np.diff(right.indptr)[rows]
    entry = np.repeat(np.arange(left.nnz), repeats)  # each entry of a row of the left meets each of that row on the right
    ends = np.cumsum(repeats)
    within = np.arange(len(entry)) - np.repeat(ends - repeats, repeats)
    other = right.indptr[rows[entry]] + within
    columns = left.indices[entry].astype(np.int64) * right.shape[1] + right.indices[other]
    shape = (left.shape[0], left.shape[1] * right.shape[1])
    return csr_array(coo_array((left.data[entry] * right.data[other], (rows[entry], columns)), shape=shape))


def _pairs_of(first: Reals, second: Reals) -> Reals:
    """The observations of two channels side by side, as vectors."""
    left, right = (seen.reshape(len(seen), -1) for seen in (first, second))
    return np.concatenate([np.repeat(left, len(right), axis=0), np.tile(right, (len(left), 1))], axis=1)
