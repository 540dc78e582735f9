"""Shares that look like shares: raw estimates made non-negative and to add up, without another report.

Raw estimates are unbiased and may be negative. What is done to them here costs no privacy and lowers the squared error, but brings a
bias, which raw figures do not have: keep these for sums of many values and for later corrections.

>>> norm_sub(np.array([0.7, 0.5, -0.2])).tolist()  # a tenth less each, and zero
[0.6, 0.4, 0.0]
>>> clip(np.array([1.2, -0.2])).tolist()
[1.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.parameters import count

Array = NDArray[np.float64]


def clip(shares: Array) -> Array:
    """Every share by itself moved into 0 to 1. The sum is not kept.

    >>> clip(np.array([-0.1, 0.3])).tolist()
    [0.0, 0.3]
    """
    return np.clip(shares, 0.0, 1.0)


def norm_sub(shares: Array) -> Array:
    """The same amount taken from, or given to, all shares that stay positive, the rest 0, so that they add up to 1 (Wang et al. 2020).

    This is where the maximum of the likelihood lies if the errors are normal and alike.

    >>> norm_sub(np.array([0.2, 0.2])).tolist()
    [0.5, 0.5]
    """
    kept = np.ones(len(shares), dtype=np.bool_)
    while True:
        move = (1.0 - shares[kept].sum()) / np.count_nonzero(kept)
        stays = kept & (shares + move > 0)
        if (stays == kept).all():
            return np.where(kept, shares + move, 0.0)
        kept = stays


def simplex(shares: Array) -> Array:
    """The nearest point, in squared distance, whose shares are not negative and add up to 1; the same point as `norm_sub`.

    Found by sorting once (Duchi, Shalev-Shwartz, Singer, Chandra 2008).

    >>> simplex(np.array([2.0, 0.0])).tolist()
    [1.0, 0.0]
    """
    order = np.sort(shares)[::-1]
    excess = (np.cumsum(order) - 1.0) / np.arange(1, len(order) + 1)
    last = int(np.flatnonzero(order > excess)[-1])
    return np.asarray(np.maximum(shares - excess[last], 0.0), dtype=np.float64)


def iterative_bayes(counts: Array, channel: Array, *, steps: int = 10_000, close: float = 1e-10) -> Array:
    """The shares under which the counted reports are most likely, by expectation and maximisation.

    `channel[v, y]` is the probability of report y of a person who holds value v. The likelihood never falls and its maximum is one;
    iteration ends where no share moves by more than `close`.

    >>> channel = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> iterative_bayes(np.array([600.0, 400.0]), channel).round(6).tolist()
    [0.7, 0.3]
    """
    if channel.ndim != 2 or channel.shape[1] != len(counts) or not np.allclose(channel.sum(axis=1), 1):
        raise ParameterError("channel must have a row for each value, a column for each report, and rows that add up to 1")
    seen = counts > 0
    if not seen.any():
        raise ParameterError("there are no reports")
    weights, table = counts[seen] / counts.sum(), channel[:, seen]
    shares = np.full(len(channel), 1.0 / len(channel))
    for _ in range(count("steps", steps)):
        new = shares * (table @ (weights / (shares @ table)))
        moved = float(np.abs(new - shares).max())
        shares = new
        if moved <= close:
            break
    return np.asarray(shares / shares.sum(), dtype=np.float64)


#: What `Estimates.processed` knows by name.
WAYS: dict[str, Callable[[Array], Array]] = {"clip": clip, "norm-sub": norm_sub, "simplex": simplex}
