"""What the tests of local randomisers share: all of them at once, closed forms by hand, and laws of reports from draws."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.local import BlockHadamard, Hadamard, LocalHash, Projective, Randomiser, Response, Subset, SymmetricUnary, Unary

ALL = (Response, Unary, SymmetricUnary, LocalHash, Hadamard, BlockHadamard, Projective, Subset)
LN3 = math.log(3)


def outcomes(oracle: Randomiser, reports: NDArray[Any]) -> Counter[Any]:
    """How often each outcome was drawn, under the names that `distribution` gives them."""
    if isinstance(oracle, Subset):
        rows = np.unpackbits(reports, axis=1, count=oracle.size)
        return Counter(tuple(np.flatnonzero(row).tolist()) for row in rows)
    if isinstance(oracle, Unary | SymmetricUnary):
        return Counter(tuple(row) for row in np.unpackbits(reports, axis=1, count=oracle.size).tolist())
    return Counter(reports.tolist())


def supports(oracle: Randomiser, reports: NDArray[Any]) -> NDArray[Any]:
    """How many of the reports support each value."""
    table = oracle.fresh()
    oracle.add(table, reports)
    return oracle.support(table, len(reports))


def shares(oracle: Randomiser, reports: NDArray[Any]) -> NDArray[np.float64]:
    """The unbiased estimates of all shares."""
    return (supports(oracle, reports) / len(reports) - oracle.other) / oracle.gap


def supported(oracle: Randomiser, reports: NDArray[Any]) -> NDArray[np.float64]:
    """For each report and each value, whether the report supports it."""
    if isinstance(oracle, Subset | Unary | SymmetricUnary):
        return np.unpackbits(reports, axis=1, count=oracle.size).astype(np.float64)
    if isinstance(oracle, LocalHash):
        places = np.arange(oracle.size, dtype=np.uint64)
        hashed = oracle.hashed(reports["a"][:, None], reports["b"][:, None], places)
        return (hashed == reports["symbol"][:, None]).astype(np.float64)
    kinds, which = np.unique(reports, return_inverse=True)
    each = np.array([supports(oracle, kinds[k : k + 1]) for k in range(len(kinds))], dtype=np.float64)
    return each[which]
