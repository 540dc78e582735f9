"""Special functions, from scipy when they are first called: loading it takes as long as pricing a hundred questions.

What pricing one Gaussian needs, a few values of `erfcx` and `ndtr`, is worked out here without it, to the last digits: `math.erfc` is good
to one unit in the last place or two, and x^2 is kept to twice the precision before it is exponentiated. Which way is taken depends on how
many values there are, and on nothing else, so a price does not depend on what else a process has loaded.

>>> float(erfcx(np.array(1.0))), float(ndtr(0.0))
(0.427583576155807, 0.5)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: So many values are worked out one by one; scipy takes more.
FEW = 64
_SPLIT = 134217729.0  # 2^27 + 1 (Dekker 1971)
_FAR = 12.0  # from here on the asymptotic series is shorter than exp and erfc, and more exact


def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x)."""
    values = np.asarray(x, dtype=float)
    if values.size > FEW:
        from scipy.special import erfcx as many

        return many(values)
    return np.array([_erfcx(value) for value in values.ravel().tolist()]).reshape(values.shape)[()]


def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    values = np.asarray(x, dtype=float)
    if values.size > FEW:
        from scipy.special import ndtr as many

        return many(values)
    return np.array([0.5 * math.erfc(-value * math.sqrt(0.5)) for value in values.ravel().tolist()]).reshape(values.shape)[()]


def _erfcx(x: float) -> float:
    if math.isnan(x):
        return x
    if x >= _FAR:
        return _series(x)
    if x < -26.64:  # twice exp(x^2) is beyond the largest float
        return math.inf
    head = _SPLIT * x
    head -= head - x
    tail = x - head
    square = x * x
    rest = ((head * head - square) + 2 * head * tail) + tail * tail
    return math.exp(square) * math.erfc(x) * (1 + rest)


def _series(x: float) -> float:
    """sum of (-1)^k (2k - 1)!! / (2 x^2)^k over x sqrt(pi): sixteen terms leave 1e-19 at x = 12."""
    ratio = 0.5 / (x * x) if x < 1e150 else 0.0
    total = 1.0
    for k in range(15, 0, -1):
        total = 1 - (2 * k - 1) * ratio * total
    return total / (x * math.sqrt(math.pi))


def log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution function."""
    from scipy.special import log_ndtr as found

    return found(x)


def ndtri(p: Any) -> Any:
    """The quantile of the normal law."""
    from scipy.special import ndtri as found

    return found(p)


def ndtri_exp(log_p: Any) -> Any:
    """The quantile of the normal law, by the logarithm of the probability."""
    from scipy.special import ndtri_exp as found

    return found(log_p)


def gammaln(x: Any) -> Any:
    """The logarithm of the gamma function."""
    from scipy.special import gammaln as found

    return found(x)


def logsumexp(terms: Any) -> Any:
    """The logarithm of a sum of exponentials."""
    from scipy.special import logsumexp as found

    return found(terms)


def rfft(values: Any) -> Any:
    """The Fourier transform of real values."""
    from scipy.fft import rfft as found

    return found(values)


def irfft(values: Any, size: int) -> Any:
    """The inverse of `rfft`."""
    from scipy.fft import irfft as found

    return found(values, size)


def next_fast_len(size: int, real: bool = False) -> int:
    """The least size from here on that Fourier transforms are fast for."""
    from scipy.fft import next_fast_len as found

    return int(found(size, real=real))
