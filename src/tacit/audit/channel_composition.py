"""Channels from channels: one after the other, two on one secret, two on two secrets.

Post-processing (`cascade`) never raises a leakage; two observations of one secret (`parallel`) leak at most the sum, in epsilon and in
mutual information; independent secrets (`product`) leak exactly the sum.

>>> import numpy as np
>>> coin = Channel(np.array([[0.75, 0.25], [0.25, 0.75]]))
>>> cascade(coin, coin).bayes_risk(), parallel(coin, coin).bayes_risk(), product(coin, coin).bayes_risk()
(0.375, 0.25, 0.4375)
>>> round(parallel(coin, coin).epsilon() / coin.epsilon(), 9)
2.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse, kron

from tacit.accounting.errors import ParameterError
from tacit.audit.channel import Channel

__all__ = ["cascade", "parallel", "product"]

Reals = NDArray[np.float64]


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
        both: Any = _row_products(csr_array(first.matrix), csr_array(second.matrix))
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


def _dense(matrix: Any) -> Reals:
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
