"""Special functions and Fourier transforms, from scipy when they are first called.

Loading scipy takes as long as pricing a hundred questions. What pricing one Gaussian needs is worked out without
it: a few values of `ndtr` here, and of `erfcx` where the Mills ratio is (`theorems.gaussian`). Which way is taken
depends only on how many values there are, so a price does not depend on what else a process has loaded.

>>> float(ndtr(0.0))
0.5
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

#: So many values are worked out one by one; scipy takes more.
FEW = 64


def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    values = np.asarray(x, dtype=float)
    if values.size > FEW:
        return _many_ndtr(values)
    return np.array([0.5 * math.erfc(-value * math.sqrt(0.5)) for value in values.ravel().tolist()]).reshape(values.shape)[()]


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function of scipy, which is loaded when the function is first called."""

    def call(*given: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*given, **options)

    return call


erfcx = _later("scipy.special", "erfcx")  # exp(x^2) erfc(x)
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
_many_ndtr = _later("scipy.special", "ndtr")
