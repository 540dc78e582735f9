"""Gaussian noise for millions of parameters: exact, on a lattice, from cryptographic bits, at a few nanoseconds a number.

A step's noise is a `NoisySums` of 2^37 granules a standard deviation. Sums are rounded up to whole granules, which is
charged, and get a real Gaussian Z, rounded down (`tacit.noise.gaussian_sums`): no value that comes out tells more than
the theorem allows, however large the sums are. The type of a parameter is put on last.

>>> import torch
>>> noise = step_noise(multiplier=2.0, sensitivity=0.5, rounding=0.0)
>>> noise.multiplier >= 2, round(noise.deviation(), 9)
(True, 1.0)
>>> sums = add_noise(torch.zeros(100_000, dtype=torch.float64), noise)
>>> bool(abs(sums.std() - 1) < 0.02), bool((sums / float(noise.granularities[0])).frac().abs().max() < 0.01)
(True, True)

Each call draws a fresh 256-bit key from the operating system and expands it with AES-256 in counter mode: no two calls,
processes or forks share a stream, and whoever sees some of the noise cannot predict the rest. Nothing is drawn in advance.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from torch import Tensor

from tacit.deep.errors import needs
from tacit.errors import ParameterError
from tacit.mechanisms import NoisySums
from tacit.noise import words

with needs("torch", "cryptography"):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

STEPS = 2**37  # granules a standard deviation: as fine as the 32 bits that tell a number's sign and place in its cell
GRANULE = 2.0**-37  # of a deviation: what rounding up may add to the distance of two sums
READ = 2.0**-52  # of the largest sum: what reading both in granules may add
SPARE = 16  # bytes: the cipher asks for a block of room beyond the text
_ZEROS = memoryview(bytes(1 << 20))


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


@lru_cache(maxsize=32)  # the steps of a run have the same noise, unless the threshold moves
def step_noise(multiplier: float, sensitivity: float, rounding: float) -> NoisySums:
    """Noise of at least `multiplier` times what one unit can do to the sums of a step, as they are computed and read.

    `sensitivity` is how far one unit moves the sums, and `rounding` what reading them adds to that, in deviations.

    >>> step_noise(1.0, 1.0, rounding=2.0**-20).deviation() > 1 + 2.0**-20
    True
    """
    if not multiplier * rounding < 0.5:
        raise ParameterError(
            f"noise_multiplier {multiplier:g} is too large for so many parameters: rounding would cost as much as the records; lower it"
        )
    sigma = Fraction(multiplier * sensitivity / (1 - multiplier * rounding) * (1 + 2.0**-48))
    moved = (Fraction(sensitivity) + Fraction(rounding) * sigma) / sigma * STEPS
    made = NoisySums.of_scale("gaussian", STEPS, moved, granularity=sigma / STEPS)
    if not (made.multiplier >= multiplier and 1e-280 < sigma < 1e280):
        raise ParameterError(f"sensitivity {sensitivity:g} is too small or too large for noise in floating point; scale the loss")
    return made


def add_noise(sums: Tensor, noise: NoisySums, times: float = 1.0) -> Tensor:
    """Turn `sums`, a vector of single or double precision, into `times` their values plus fresh noise, on its lattice.

    >>> import torch
    >>> values = add_noise(torch.full((100_000,), 30.0), step_noise(4.0, 0.5, 0.0), times=0.5)
    >>> bool(abs(values.mean() - 15) < 0.1), bool(abs(values.std() - 1) < 0.1)
    (True, True)
    """
    streams: list[Stream] = []

    def fill(room: memoryview, count: int) -> None:
        # The key is drawn with the noise, not before: whoever watches a mechanism sees all of its draws.
        if not streams:
            streams.append(Stream())
        streams[0].fill(room, count)

    noise.add_to_reals(sums.numpy(), times=times, fill=fill)
    return sums
