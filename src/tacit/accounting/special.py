"""Special functions and Fourier transforms, from scipy when they are first called.

Loading scipy takes as long as pricing a hundred questions. What pricing one Gaussian needs, a few values of
`erfcx` and `ndtr`, is worked out here without it, to the last digits: `math.erfc` is good to one unit in the
last place or two, and x^2 is kept to twice the precision before it is exponentiated. Which way is taken depends
only on how many values there are, so a price does not depend on what else a process has loaded.

>>> float(erfcx(np.array(1.0))), float(ndtr(0.0))
(0.427583576155807, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
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
        return _many_erfcx(values)
    return np.array([_erfcx(value) for value in values.ravel().tolist()]).reshape(values.shape)[()]


def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    values = np.asarray(x, dtype=float)
    if values.size > FEW:
        return _many_ndtr(values)
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


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function of scipy, which is loaded when the function is first called."""

    def call(*given: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*given, **options)

    return call


log_ndtr = _later("scipy.special", "log_ndtr")  # the logarithm of the normal distribution function
ndtri = _later("scipy.special", "ndtri")  # the quantile of the normal law
ndtri_exp = _later("scipy.special", "ndtri_exp")  # the same, by the logarithm of the probability
gammaln = _later("scipy.special", "gammaln")  # the logarithm of the gamma function
logsumexp = _later("scipy.special", "logsumexp")  # the logarithm of a sum of exponentials
rfft = _later("scipy.fft", "rfft")  # the Fourier transform of real values
irfft = _later("scipy.fft", "irfft")  # its inverse, given how many values there are
rfftn = _later("scipy.fft", "rfftn")  # the Fourier transform of a table of real values
irfftn = _later("scipy.fft", "irfftn")  # its inverse, given the shape of the table
i0e = _later("scipy.special", "i0e")  # exp(-x) times the modified Bessel function of order 0
next_fast_len = _later("scipy.fft", "next_fast_len")  # the least size from here on that transforms are fast for
_many_erfcx = _later("scipy.special", "erfcx")
_many_ndtr = _later("scipy.special", "ndtr")
