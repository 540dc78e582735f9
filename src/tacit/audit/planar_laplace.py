"""Laplace noise in the plane (Andrés et al. 2013): density falling as e^(-rate * distance), drawn as points or collected in cells.

Drawn points are what an observer of the continuous mechanism sees. The channel on a grid is the same mechanism with the point reported
as the cell it falls into, and as the nearest cell where it falls outside: post-processing, so the promise of rate * distance between
any two secrets holds for the matrix too, as it does not for a matrix of densities whose rows are rescaled.

>>> from tacit.audit.channel_builders import Grid
>>> map_ = Grid(3, 3, 150)
>>> channel = planar_laplace(map_, map_.around(1, 2), nu=4)
>>> round(float(abs(channel.matrix.sum(axis=1) - 1).max()), 12)
0.0
>>> channel.epsilon([(0, 1)], distances=[150]) <= math.log(4) / 100
True
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.errors import ParameterError
from tacit.accounting.parameters import count
from tacit.audit.channel import Channel, distribution
from tacit.audit.channel_builders import Grid, decay
from tacit.audit.experiment import Generator

__all__ = ["planar_laplace", "sample_planar_laplace"]

Reals = NDArray[np.float64]
_PAD = 4  # cells added on each side: a tail then starts far enough from every secret for plain quadrature
_NEAR = 3.5  # cells this many sides or fewer from the secret, where the density has its tip, are integrated along angles


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
