"""Rows from a model: stratified along the junction tree, so that a sample is nearer to the model than chance.

The rows that agree on a separator share its conditional evenly: the i-th of m rows takes the place (i + U) / m of
the cumulated probabilities. Cells of probability 0 never occur. It looks at the model only, so it costs nothing.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis.estimate import NoisyMarginal, fit
>>> model = fit((2, 2), [NoisyMarginal((0, 1), np.array([[5.0, 0.0], [2.0, 3.0]]), 1.0)])
>>> with test_mode(1):
...     rows = sampled(model, 10)
>>> counted(rows, (2, 2), (0, 1)).tolist()
[[5, 0], [2, 3]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.noise import uniform_integers
from tacit.synthesis.estimate import Model
from tacit.synthesis.inference import Floats

Rows = list[NDArray[np.int64]]


def generator() -> np.random.Generator:
    """Fast randomness for what needs no privacy, seeded by the source that tests can repeat."""
    return np.random.default_rng([uniform_integers(2**62), uniform_integers(2**62)])


def sampled(
    model: Model, rows: int | None = None, draws: np.random.Generator | None = None,
    given: Mapping[int, NDArray[np.int64]] | None = None,
) -> Rows:
    """So many rows, one array of cell numbers a column; by default as many as the model estimates.

    With `given`, cells of some columns that a node of the tree holds together, one row is drawn for each of theirs.

    >>> from tacit.synthesis.estimate import NoisyMarginal, fit
    >>> model = fit((2, 2), [NoisyMarginal((0, 1), np.array([[6.0, 0.0], [2.0, 2.0]]), 1.0)])
    >>> [cells.tolist() for cells in sampled(model, given={0: np.array([0, 0, 0])})]
    [[0, 0, 0], [0, 0, 0]]
    """
    draws = generator() if draws is None else draws
    tree = model.tree
    known = dict(given or {})
    wanted = max(0, round(model.total)) if rows is None else rows
    count = len(next(iter(known.values()))) if known else wanted
    found: Rows = [known.get(column, np.zeros(count, dtype=np.int64)) for column in range(len(tree.sizes))]
    for place, shared in tree.walk(tuple(sorted(known))):
        node, table = tree.nodes[place], model.nodes[place]
        fresh = tuple(column for column in node if column not in shared)
        if not fresh:
            continue
        axes = [node.index(column) for column in (*shared, *fresh)]
        groups = int(np.prod([tree.sizes[column] for column in shared], dtype=np.int64))
        conditional = np.transpose(table, axes).reshape(groups, -1)
        group = cell_numbers(found, tree.sizes, shared, count)
        allowed = None if model.support is None else np.transpose(model.support[place], axes).reshape(groups, -1)
        chosen = stratified(conditional, group, draws, allowed)
        for column in reversed(fresh):
            chosen, found[column] = np.divmod(chosen, tree.sizes[column])
    return found


def stratified(
    weights: Floats, group: NDArray[np.int64], draws: np.random.Generator, allowed: Floats | None = None
) -> NDArray[np.int64]:
    """For every row a cell of its group's row of weights, in shares as even as whole rows allow."""
    count = len(group)
    order = draws.permutation(count)  # which of the equal rows gets which place must not depend on other columns
    order = order[np.argsort(group[order], kind="stable")]
    grouped = group[order]
    sizes = np.bincount(grouped, minlength=len(weights))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rank = np.arange(count) - starts[grouped]
    place = np.minimum((rank + draws.random(count)) / sizes[grouped], 1 - 1e-9)
    totals = weights.sum(axis=1, keepdims=True)
    # A group that the model gives no rows, yet has some by rounding: any cell that can occur is as good.
    if allowed is None:
        allowed = np.ones_like(weights)
    shares = np.where(totals > 0, weights, np.where(allowed.sum(axis=1, keepdims=True) > 0, allowed, 1.0))
    sums = np.cumsum(shares, axis=1)
    sums = sums / sums[:, -1:]
    # From the last cell with a weight on, the sum is 1 exactly: nothing falls behind it.
    last = shares.shape[1] - 1 - np.argmax(shares[:, ::-1] > 0, axis=1)
    sums[np.arange(shares.shape[1]) >= last[:, None]] = 1.0
    flat = (sums + np.arange(len(weights))[:, None]).ravel()
    cell = np.searchsorted(flat, grouped + place, side="right") - grouped * shares.shape[1]
    found = np.empty(count, dtype=np.int64)
    found[order] = cell
    return found


def cell_numbers(
    rows: Sequence[NDArray[Any]], sizes: Sequence[int], columns: Sequence[int], count: int
) -> NDArray[np.int64]:
    """Which cell of a marginal every row is in."""
    if not columns:
        return np.zeros(count, dtype=np.int64)
    first, *others = columns
    number: NDArray[np.int64] = np.array(rows[first], dtype=np.int64)
    for column in others:  # in place: millions of rows are not copied for every column
        number *= sizes[column]
        number += rows[column]
    return number


def counted(
    rows: Sequence[NDArray[Any]], sizes: Sequence[int], columns: Sequence[int]
) -> NDArray[np.int64]:
    """How many rows are in every cell of a marginal."""
    shape = tuple(sizes[column] for column in columns)
    number = cell_numbers(rows, sizes, columns, len(rows[0]) if len(rows) else 0)
    return np.bincount(number, minlength=int(np.prod(shape, dtype=np.int64))).reshape(shape)
