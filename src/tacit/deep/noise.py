"""Gaussian noise for millions of parameters: cryptographic bits, at a few nanoseconds a number.

Each call draws a fresh 256-bit key from the operating system and expands it with AES-256 in counter mode, so no two calls, processes or
forks share a stream and nobody who sees some of the noise can predict the rest. Uniform bits become normal numbers by the inverse of
the distribution function; the outermost 1/512 is drawn again with 53 more bits, so the tails reach 9 standard deviations and are smooth.

>>> z = standard_normal(100_000)
>>> z.dtype, bool(abs(z.std() - 1) < 0.02), bool(z.abs().max() > 3)
(torch.float32, True, True)

What this does not promise: these are floating-point numbers, and the theorems are about real ones. `lattice_normal` is the exact
alternative: the sum is rounded to a lattice and the noise is a real Gaussian variable rounded to the same lattice (docs/decisions/0005), at
about twenty times the price.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.deep.extra import needs
from tacit.noise import rounded_gaussian
from tacit.noise.source import words

with needs("torch", "cryptography"):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

TAIL = 2.0**-9  # drawn again with more bits
CHUNK = 1 << 17  # numbers at a time: everything stays in the processor's cache
_ZEROS = memoryview(bytes(8 * CHUNK))
_BITS: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype(np.uint32), torch.float64: np.dtype(np.uint64)}


class Stream:
    """AES-256 in counter mode under a key drawn for this stream alone.

    >>> stream = Stream()
    >>> len(stream.take(10)), bytes(stream.take(16)) == bytes(stream.take(16))
    (10, False)
    """

    def __init__(self) -> None:
        self._room = bytearray()
        self._cipher = Cipher(algorithms.AES256(words(4).tobytes()), modes.CTR(bytes(16))).encryptor()

    def take(self, count: int) -> memoryview:
        """The next `count` bytes, in memory that the next call uses again: fresh pages would cost more than the cipher."""
        if len(self._room) < count + 15:  # the cipher asks for a block of room beyond the text
            self._room = bytearray(count + 15)
        text = _ZEROS[:count] if count <= len(_ZEROS) else memoryview(bytes(count))
        self._cipher.update_into(text, self._room)
        return memoryview(self._room)[:count]


def standard_normal(count: int, dtype: torch.dtype = torch.float32, *, scale: float = 1.0, out: Tensor | None = None) -> Tensor:
    """Independent normal numbers of mean zero and standard deviation `scale`; in the memory of `out`, if it fits, and else in its own.

    >>> standard_normal(3, torch.float64).dtype, standard_normal(0).shape
    (torch.float64, torch.Size([0]))
    """
    exact = dtype if dtype in _BITS else torch.float32
    if out is None or len(out) != count or out.dtype != exact:
        out = torch.empty(count, dtype=exact)
    stream = Stream()
    for start in range(0, count, CHUNK):
        _fill(out[start : start + CHUNK], _BITS[exact], stream, scale)
    return out.to(dtype)


def _fill(out: Tensor, kind: np.dtype[Any], stream: Stream, scale: float) -> None:
    """Fill with scaled normal numbers: the quantile of uniform bits, and for the outermost share of more of them."""
    width = 8 * kind.itemsize
    drawn = np.frombuffer(stream.take(len(out) * kind.itemsize), dtype=kind)
    signed: NDArray[Any] = drawn.view(np.int32 if width == 32 else np.int64)
    torch.mul(torch.from_numpy(signed), 2.0 ** (1 - width), out=out)  # uniform in [-1, 1]
    # The uniform is beyond 1 - TAIL on either side where the signed bits are near the two ends of their range: as unsigned numbers,
    # in one interval around the middle.
    half = int(TAIL * 2 ** (width - 1))
    shifted: NDArray[Any] = np.subtract(drawn, kind.type(2 ** (width - 1) - half))
    outer = np.flatnonzero(np.less(shifted, kind.type(2 * half)))
    out.erfinv_().mul_(math.sqrt(2) * scale)
    if len(outer):
        sign = torch.from_numpy(np.where(signed[outer] < 0, -scale, scale))
        out[torch.from_numpy(outer)] = (sign * _outer_normal(len(outer))).to(out.dtype)


def _outer_normal(count: int) -> Tensor:
    """|Z| given that it lies in the outermost part: minus the quantile of a uniform share of half of it."""
    whole = torch.from_numpy((words(count) >> np.uint64(11)).astype(np.int64))
    share: Tensor = (whole + 1).to(torch.float64) * (2.0**-53 * TAIL / 2)
    quantile: Tensor = torch.special.ndtri(share)
    return -quantile


def lattice_normal(values: Tensor, sigma: float, granule: float) -> Tensor:
    """`values` rounded to multiples of `granule`, plus Gaussian noise of standard deviation `sigma` rounded to the same lattice: exact.

    Rounding moves each coordinate by at most half a granule on either input, so the L2 sensitivity grows by at most
    granule * sqrt(dimension): whoever calls this charges for it. In float64, where multiples of a granule are exact.

    >>> out = lattice_normal(torch.zeros(4), sigma=1.0, granule=2.0**-20)
    >>> bool((out * 2**20 == (out * 2**20).round()).all())
    True
    """
    whole = torch.round(values.to(torch.float64) / granule)
    drawn = rounded_gaussian(Fraction(sigma) / Fraction(granule), size=values.numel())
    return (whole + torch.from_numpy(np.asarray(drawn, dtype=np.float64)).reshape(values.shape)) * granule
