"""Gaussian noise for millions of parameters: cryptographic bits, at a few nanoseconds a number.

Each call draws a fresh 256-bit key from the operating system and expands it with AES-256 in counter mode, so no two calls, processes or
forks share a stream and nobody who sees some of the noise can predict the rest. Nothing is drawn in advance, so nothing can be used twice.

>>> z = standard_normal(100_000)
>>> z.dtype, bool(abs(z.std() - 1) < 0.02), bool(z.abs().max() > 3)
(torch.float32, True, True)

**The law.** With probability 1 - TAIL a normal number lies in the inner interval, and is the quantile of a uniform number of 32 bits (of 64
for float64); else it lies beyond, and is the quantile of one with 53 bits within the tail. Which numbers are outer is decided first, by
the geometric gaps between them, so that nothing needs to be looked for among the rest. In float32 neighbouring values of the inner
interval, which ends at 3.1, are at most 1e-5 apart; the tails are smooth and reach 9 standard deviations.

What this does not promise: these are floating-point numbers, and the theorems are about real ones. `on_lattice` is the exact
alternative: the sum is rounded to a lattice and the noise is a real Gaussian variable rounded to the same lattice (docs/decisions/0005), at
about twenty times the price.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.deep.errors import needs
from tacit.mechanisms import NoisySums
from tacit.noise.source import words

with needs("torch", "cryptography"):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

TAIL = 2.0**-9  # the share that is drawn with more bits
CHUNK = 1 << 17  # numbers at a time: they stay in the processor's cache through all that is done to them
SPARE = 16  # of bytes or numbers: the cipher asks for a block of room beyond the text
_ZEROS = memoryview(bytes(8 * CHUNK))
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


class Stream:
    """AES-256 in counter mode under a key drawn for this stream alone.

    >>> stream = Stream()
    >>> len(stream.take(10)), bytes(stream.take(16)) == bytes(stream.take(16))
    (10, False)
    """

    def __init__(self) -> None:
        self._cipher = Cipher(algorithms.AES256(words(4).tobytes()), modes.CTR(bytes(16))).encryptor()

    def fill(self, room: memoryview, count: int) -> None:
        """Put the next `count` bytes into `room`, which must be `SPARE` longer."""
        self._cipher.update_into(_ZEROS[:count] if count <= len(_ZEROS) else memoryview(bytes(count)), room)

    def take(self, count: int) -> memoryview:
        """The next `count` bytes."""
        room = memoryview(bytearray(count + SPARE))
        self.fill(room, count)
        return room[:count]


def standard_normal(count: int, dtype: torch.dtype = torch.float32, *, scale: float = 1.0) -> Tensor:
    """Independent normal numbers of mean zero and standard deviation `scale`.

    >>> standard_normal(3, torch.float64).dtype, standard_normal(0).shape
    (torch.float64, torch.Size([0]))
    """
    wide = torch.promote_types(dtype, torch.float32)
    room = torch.empty(count + SPARE, dtype=wide)
    stream = Stream()
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        _inner_normal(room[start : stop + SPARE], scale, stream)
    found = room[:count]
    outer = _places(count, stream)
    found.numpy()[outer] = _outer_normal(len(outer), stream) * scale
    return found.to(dtype)


def add_normal(values: Tensor, scale: float, times: float = 1.0) -> Tensor:
    """Turn `values`, a vector of single or double precision, into `times` their values plus fresh noise of deviation `scale`.

    One piece after the other, each while it is in the cache, so that the noise takes no memory of its own and one pass over the vector.

    >>> values = add_normal(torch.full((100_000,), 30.0), scale=2.0, times=0.5)
    >>> bool(abs(values.mean() - 15) < 0.1), bool(abs(values.std() - 2) < 0.1)
    (True, True)
    """
    count = values.numel()
    stream = Stream()
    outer = _places(count, stream)
    kept = values.numpy()[outer] * times + _outer_normal(len(outer), stream) * scale
    room = torch.empty(min(CHUNK, count) + SPARE, dtype=values.dtype)
    for start in range(0, count, CHUNK):
        piece = values[start : start + CHUNK]
        noise = _inner_normal(room[: piece.numel() + SPARE], scale, stream)
        torch.add(noise, piece, alpha=times, out=piece)
    values.numpy()[outer] = kept
    return values


def _inner_normal(room: Tensor, scale: float, stream: Stream) -> Tensor:
    """Fill all but the last `SPARE` of `room` with Z of the inner interval times `scale`: cipher, quantile and scale in the same memory."""
    found, width = room[:-SPARE], room.element_size()
    raw: NDArray[np.uint8] = room.numpy().view(np.uint8)
    stream.fill(raw.data, found.numel() * width)
    unit = (1 - TAIL) * 2.0 ** (1 - 8 * width)  # signed bits times this are uniform in the inner interval of [-1, 1]
    return found.copy_(found.view(_BITS[room.dtype])).mul_(unit).erfinv_().mul_(math.sqrt(2) * scale)


def _uniform(count: int, stream: Stream) -> NDArray[np.float64]:
    """Uniform in (0, 1], multiples of 2^-53."""
    whole: NDArray[np.uint64] = np.frombuffer(stream.take(8 * count), dtype=np.uint64) >> np.uint64(11)
    return (whole + np.uint64(1)).astype(np.float64) * 2.0**-53


def _places(count: int, stream: Stream) -> NDArray[np.int64]:
    """Each place of `count` with probability TAIL, independently: the gaps between them are geometric."""
    parts, last = [np.zeros(0)], -1.0
    while last < count:
        more = int((count - last) * TAIL * 1.1) + 32
        gaps = np.floor(np.log(_uniform(more, stream)) / math.log1p(-TAIL))
        parts.append(last + np.cumsum(gaps + 1))
        last = float(parts[-1][-1])
    places = np.concatenate(parts)
    return places[: np.searchsorted(places, count)].astype(np.int64)


def _outer_normal(count: int, stream: Stream) -> NDArray[np.float64]:
    """Z given that it lies in one of the outermost parts, half of TAIL each: the quantile of a uniform share of it, and a sign."""
    bits = np.frombuffer(stream.take(8 * count), dtype=np.int64)
    share = torch.from_numpy((((bits >> 1) & (2**53 - 1)) + 1) * (2.0**-53 * TAIL / 2))
    found: NDArray[np.float64] = torch.special.ndtri(share).numpy()
    return np.where(bits & 1, found, -found)


def on_lattice(values: Tensor, noise: NoisySums) -> Tensor:
    """`values` rounded to the lattice of the noise, plus that noise: exact Gaussian noise on whole numbers.

    Rounding moves each coordinate by at most half a granule on either input, so the L2 sensitivity grows by at most
    granule * sqrt(dimension): whoever makes the noise charges for it. In float64, where multiples of a granule are exact.

    >>> out = on_lattice(torch.zeros(4), NoisySums.of_scale("gaussian", 2**20, granularity=2.0**-20))
    >>> bool((out * 2**20 == (out * 2**20).round()).all())
    True
    """
    granule = float(noise.granularities[0])
    whole = torch.round(values.to(torch.float64) / granule)
    drawn = noise.draw(values.numel())
    return (whole + torch.from_numpy(np.asarray(drawn, dtype=np.float64)).reshape(values.shape)) * granule
