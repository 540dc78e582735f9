"""From an update to whole numbers with noise, and from their sum back to a mean.

On the client: flatten, clip once over the whole vector, weight, rotate, round to whole numbers, add a share
of noise, reduce modulo 2^bits. On the server: lift to signed numbers, rotate back, rescale. The price
(`event`), the draw (`encode`) and the expected error (`deviation`) are in one object, `Encoding`. Nothing
that it raises depends on the numbers in an update.

>>> encoding = Encoding(size=3, clip=1.0, clients=10, noise_multiplier=1.0, survivors=7, bits=20)
>>> total = sum(encoding.encode(np.array([0.6, 0.0, -0.8]), b"round 1") for _ in range(10))
>>> encoding.decode(total, b"round 1").shape, round(encoding.deviation(7), 1)
((3,), 1.0)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Adjacency, DistributedDiscreteGaussian, Skellam, account
from tacit.errors import ParameterError
from tacit.parameters import Number, count, positive, probability

Noise = Literal["skellam", "discrete-gaussian"]
Reals = NDArray[np.float64]

TRIES = 2  # roundings of every vector; a fixed number, so that the time says nothing about the vector
ENOUGH = 1.01  # the noise that a choice of bits may cost, as a multiple of what unrounded numbers would need
MOST_BITS = 48
_LARGEST_CLIP = 2.0**30  # scaled: squares of norms stay within 64 bits
_LARGEST_SHARE = 2.0**29  # variance of a Skellam share, whose table is kept in memory
_FRACTION = 32  # bits of a number that its rounding looks at


# --- arrays and vectors


def flatten(arrays: Sequence[NDArray[Any]], shapes: Sequence[tuple[int, ...]]) -> Reals:
    """The arrays of an update as one vector in the agreed order; shapes and types are public facts, and only
    they are checked.

    >>> flatten([np.zeros((2, 2)), np.ones(1, dtype=np.float32)], [(2, 2), (1,)])
    array([0., 0., 0., 0., 1.])
    """
    if len(arrays) != len(shapes):
        raise ParameterError(f"an update must have {len(shapes)} arrays, not {len(arrays)}")
    parts = []
    for place, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            raise ParameterError(f"array {place} of an update must be a numpy array of real numbers")
        if array.shape != tuple(shape):
            raise ParameterError(
                f"array {place} of an update must have the shape {tuple(shape)}, not {array.shape}"
            )
        parts.append(array.astype(np.float64).ravel())
    return np.concatenate(parts) if parts else np.zeros(0)


def unflatten(vector: Reals, shapes: Sequence[tuple[int, ...]]) -> list[Reals]:
    """The vector as arrays of these shapes.

    >>> [part.shape for part in unflatten(np.zeros(5), [(2, 2), (1,)])]
    [(2, 2), (1,)]
    """
    sizes = [math.prod(shape) for shape in shapes]
    if vector.shape != (sum(sizes),):
        raise ParameterError(f"the vector must have {sum(sizes)} numbers, not the shape {vector.shape}")
    ends = np.cumsum(sizes)
    return [
        vector[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes, strict=True)
    ]


def clipped(vector: Reals, clip: float) -> Reals:
    """The vector scaled down to a norm of at most `clip`, in one piece; NaN and infinities count as zero.

    >>> clipped(np.array([3e200, np.nan, 4e200, np.inf]), 1.0).round(9)
    array([0.6, 0. , 0.8, 0. ])
    """
    finite = np.where(np.isfinite(vector), vector, 0.0)
    largest = float(np.abs(finite).max(initial=0.0))
    unit = finite / (
        largest if largest > 0 else 1.0
    )  # at most 1 in size, so its norm neither overflows nor vanishes
    length = max(1.0, float(np.sqrt(np.dot(unit, unit))))
    return np.asarray(unit * min(largest, clip / length))


# --- rotation


def rotated(vector: Reals, signs: Reals) -> Reals:
    """A randomised Hadamard transform of a vector whose length is a power of two: orthogonal, and the same on
    every client.

    >>> rotated(np.array([1.0, 0, 0, 0]), np.array([1.0, -1, 1, 1]))
    array([0.5, 0.5, 0.5, 0.5])
    """
    return hadamard(vector * signs)


def hadamard(vector: Reals) -> Reals:
    """The Hadamard transform, divided by the square root of the length, so that it is its own inverse."""
    size = len(vector)
    left, stride, found = size.bit_length() - 1, 1, vector
    while left:
        bits = min(left, 5)
        matrix = _hadamard_matrix(bits)
        # 32 numbers at a time as one product of matrices: four passes over a million numbers, not twenty
        if stride == 1:
            found = (found.reshape(-1, 1 << bits) @ matrix).reshape(size)
        else:
            found = np.matmul(matrix, found.reshape(-1, 1 << bits, stride)).reshape(size)
        stride, left = stride << bits, left - bits
    return np.asarray(found)


@lru_cache(maxsize=8)
def _hadamard_matrix(bits: int) -> Reals:
    one = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    found: Reals = np.ones((1, 1))
    for _ in range(bits):
        found = np.asarray(np.kron(found, one), dtype=np.float64)
    found.setflags(write=False)
    return found


def signs_of(public: bytes, dimension: int) -> Reals:
    """Signs from the public bytes of a round (SHAKE-256), the same for all.

    >>> signs_of(b"round 1", 4)
    array([...])
    """
    if not isinstance(public, bytes) or not public:
        raise ParameterError("public must be the bytes that all clients of this round know")
    stream = hashlib.shake_256(b"tacit rotation" + public).digest(-(-dimension // 8))
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8))[:dimension]
    return np.where(bits == 1, -1.0, 1.0)


# --- rounding


def squared_norm(scaled_clip: float, dimension: int) -> int:
    """The greatest squared norm of a rounded vector whose norm before was at most `scaled_clip`: a whole
    number, as its squares are.

    min(s^2 + d/4 + s + sqrt(d)/2, (s + sqrt(d))^2): the first is kept by rounding again where it is exceeded
    (Kairouz, Liu, Steinke 2021, Lemma 4 and Proposition 22 with beta = e^-1/2), the second always holds.

    >>> squared_norm(100, 1024)
    10372
    """
    s, d = float(positive("scaled_clip", scaled_clip)), count("dimension", dimension)
    return math.floor(min(s * s + d / 4 + s + math.sqrt(d) / 2, (s + math.sqrt(d)) ** 2))


def rounded_norm(scaled_clip: float, dimension: int) -> float:
    """Its square root, rounded up: the l2 sensitivity of a sum of rounded vectors.

    >>> round(rounded_norm(100, 1024), 3), round(rounded_norm(10, 1024), 3)
    (101.843, 19.545)
    """
    return math.nextafter(math.sqrt(squared_norm(scaled_clip, dimension)), math.inf)


def rounded(vector: Reals, limit: int) -> NDArray[np.int64]:
    """Whole numbers near the vector's, each rounded up with the chance of its fraction, with a squared norm
    of at most `limit`.

    Two roundings are drawn with exact coins, always; the first within the limit is taken, or else the vector
    rounded towards zero, which is within it. Fractions are cut to 32 bits.

    >>> rounded(np.array([2.0, -3.0]), 13).tolist()
    [2, -3]
    """
    fixed = (np.abs(vector) * 2.0**_FRACTION).astype(np.int64)
    least = fixed >> _FRACTION
    part = (fixed & ((1 << _FRACTION) - 1)).astype(np.uint32)
    found = [least]
    for _ in range(TRIES):
        coins = noise.words(-(-len(part) // 2)).view(np.uint32)[: len(part)]
        found.insert(0, least + (coins < part))
    within = [int(np.dot(numbers, numbers)) <= limit for numbers in found[:TRIES]]
    chosen = found[within.index(True)] if True in within else least
    return np.asarray(np.where(vector < 0, -chosen, chosen))


# --- the whole


@dataclass(frozen=True)
class Encoding:
    """How every client of a plan turns its update into a vector of whole numbers modulo 2^bits, with its
    share of the noise.

    `noise_multiplier` is the deviation of the noise of the fewest `survivors` over the rounded norm. The
    scale is the largest for which the sum of all `clients` wraps with chance at most `wrap`, unless
    `scaled_clip` states it. Without `bits`, the fewest are taken that need at most 1 % more noise than real
    numbers would. With `weighted`, a client's weight in [0, 1] is summed beside its update.

    >>> found = Encoding(size=2**20, clip=1.0, clients=100, noise_multiplier=4, survivors=100, bits=16)
    >>> round(found.scaled_clip), round(found.inflation, 4)
    (829, 1.1762)
    >>> wide = Encoding(size=2**20, clip=1.0, clients=100, noise_multiplier=4, survivors=70)
    >>> wide.bits, round(wide.deviation(100) / wide.deviation(70), 4)
    (19, 1.1952)

    Guarantee
        Statement: one sum of vectors from `encode` costs `event(honest)`, where `honest` clients who add
            their share are in it.
        Conditions: one client's update against a zero update of the same client. That a client took part is
            not hidden: whoever is left out takes a share of the noise along, so as an add-remove event the
            figure is about the update, and the list of survivors counts as known. Only the sum is seen,
            modulo 2^bits (`tacit.federated.SumServer`). Wrapping loses accuracy, not privacy.
        Proved in: Kairouz, Liu, Steinke 2021 (rounding, discrete Gaussian); Agarwal, Kairouz, Liu 2021
            (Skellam). Algorithm 8 of the book adds noise of the target's variance at every client, and leaves
            out the scale, the rounded norm, the lift modulo M and clients who drop out.
    """

    size: int
    clip: Number
    clients: int
    noise_multiplier: Number
    survivors: int
    bits: int | None = None
    noise: Noise = "skellam"
    scaled_clip: Number | None = None
    wrap: float = 1e-9
    weighted: bool = False

    def __post_init__(self) -> None:
        count("size", self.size)
        count("clients", self.clients)
        positive("clip", self.clip)
        positive("noise_multiplier", self.noise_multiplier)
        if not 0 < float(probability("wrap", self.wrap)) < 1:
            raise ParameterError(f"wrap must be between 0 and 1, not {self.wrap}")
        if not 1 <= count("survivors", self.survivors) <= self.clients:
            raise ParameterError(f"survivors must be at most clients = {self.clients}, not {self.survivors}")
        if self.noise not in ("skellam", "discrete-gaussian"):
            raise ParameterError("noise must be skellam or discrete-gaussian")
        if self.bits is not None and not 4 <= count("bits", self.bits) <= MOST_BITS:
            raise ParameterError(f"bits must be between 4 and {MOST_BITS}, not {self.bits}")
        if (
            self.scaled_clip is not None
            and not float(positive("scaled_clip", self.scaled_clip)) <= _LARGEST_CLIP
        ):
            raise ParameterError("scaled_clip must be at most 2^30")
        self._choose()
        if not 1e-290 < self.scale < 1e290:
            raise ParameterError("clip is too small or too large for numbers in floating point")
        if self.noise == "discrete-gaussian":
            account(self.event())  # refuses shares that are too small

    def _choose(self) -> None:
        """Settle bits and scaled clip."""
        for bits in range(8, MOST_BITS + 1) if self.bits is None else (self.bits,):
            scaled = self.scaled_clip if self.scaled_clip is not None else self._largest(bits)
            if scaled is None or self._wraps(float(scaled), bits) > self.wrap:
                continue
            costly = self.scaled_clip is None and rounded_norm(
                float(scaled), self.dimension
            ) > ENOUGH * float(scaled)
            if self.bits is None and costly and bits < MOST_BITS:
                continue
            object.__setattr__(self, "bits", bits)
            object.__setattr__(self, "scaled_clip", scaled)
            return
        raise ParameterError(
            f"no scale keeps the chance of a wrap at {self.wrap:g} with {self.bits or MOST_BITS} bits: "
            "allow for more bits, or for a smaller scaled_clip"
        )

    def _largest(self, bits: int) -> Number | None:
        """The largest scaled clip that rarely wraps, rounded down to a multiple of 2^-10."""
        low, high = 0.0, min(2.0 ** (bits - 1), _LARGEST_CLIP)
        for _ in range(80):
            middle = (low + high) / 2
            fits = self._wraps(middle, bits) <= self.wrap and not self._capped(middle)
            low, high = (middle, high) if fits else (low, middle)
        scaled = math.floor(low * 1024) / 1024
        return scaled if scaled > 0 else None

    def _capped(self, scaled: float) -> bool:
        """Whether a share of Skellam noise would be beyond what its sampler holds."""
        if self.noise != "skellam":
            return False
        return (
            float(self.noise_multiplier) * rounded_norm(scaled, self.dimension)
        ) ** 2 / self.survivors > _LARGEST_SHARE * (1 - 1e-6)

    def _wraps(self, scaled: float, bits: int) -> float:
        """A bound on the chance that some coordinate of the sum of all clients leaves the range of signed
        numbers.

        The coordinates of a rotated sum are sub-Gaussian with variance (n s)^2 / d over the signs, rounding
        adds at most n / 4.
        """
        n, d = self.clients, self.dimension
        noisy = (float(self.noise_multiplier) * rounded_norm(scaled, d)) ** 2 * n / self.survivors
        variance = (n * scaled) ** 2 / d + n / 4 + noisy
        return min(1.0, 2 * d * math.exp(-(2.0 ** (2 * bits - 3)) / variance))

    # --- what follows from the choice

    @property
    def length(self) -> int:
        """Numbers before padding: the update's, and the weight."""
        return self.size + self.weighted

    @property
    def dimension(self) -> int:
        """The length of an encoded vector: the next power of two."""
        return 1 << (self.length - 1).bit_length()

    @property
    def modulus(self) -> int:
        """2^bits."""
        assert self.bits is not None
        return 1 << self.bits

    @property
    def word(self) -> np.dtype[Any]:
        """The type of an encoded vector, which is that of the secure sum."""
        assert self.bits is not None
        return np.dtype(f"<u{2 if self.bits <= 16 else 4 if self.bits <= 32 else 8}")

    @property
    def joint_clip(self) -> float:
        """The norm of an update together with its weight, which is counted as `clip` times the weight."""
        return float(self.clip) * (math.sqrt(2) if self.weighted else 1.0)

    @property
    def scale(self) -> float:
        """Units of an encoded number in one unit of the update."""
        assert self.scaled_clip is not None
        return float(self.scaled_clip) / self.joint_clip

    @cached_property
    def norm(self) -> float:
        """The l2 sensitivity of the sum of encoded vectors."""
        assert self.scaled_clip is not None
        return rounded_norm(float(self.scaled_clip), self.dimension)

    @property
    def inflation(self) -> float:
        """How much more noise rounding costs: the rounded norm over the scaled clip."""
        assert self.scaled_clip is not None
        return self.norm / float(self.scaled_clip)

    @property
    def wrap_chance(self) -> float:
        """A bound on the chance that a sum wraps, which spoils that round's figure and no guarantee."""
        assert self.scaled_clip is not None and self.bits is not None
        return self._wraps(float(self.scaled_clip), self.bits)

    @cached_property
    def share_sigma(self) -> Fraction:
        """The deviation of one client's share, rounded up to a multiple of 2^-20: the noise that is drawn is
        the noise that is priced."""
        sigma = float(self.noise_multiplier) * self.norm / math.sqrt(self.survivors)
        return Fraction(math.ceil(sigma * 2**20 * (1 + 1e-15)), 2**20)

    @cached_property
    def share_variance(self) -> Fraction:
        """The variance of one client's share of Skellam noise, rounded up to a multiple of 2^-20."""
        variance = (float(self.noise_multiplier) * self.norm) ** 2 / self.survivors
        return Fraction(math.ceil(variance * 2**20 * (1 + 1e-15)), 2**20)

    def event(
        self, honest: int | None = None, adjacency: Adjacency = Adjacency.ADD_REMOVE
    ) -> DistributedDiscreteGaussian | Skellam:
        """The price of one sum in which so many honest clients' shares are: the fewest survivors, unless
        stated. See the conditions above for what add-remove means here; `Adjacency.ZERO_OUT` says it in full.

        >>> encoding = Encoding(size=4, clip=1, clients=10, noise_multiplier=2, survivors=8, bits=16)
        >>> encoding.event(honest=5).dimension
        4
        """
        shares = count("honest", self.survivors if honest is None else honest)
        if self.noise == "skellam":
            return Skellam(shares * self.share_variance, self.norm, self.dimension, adjacency=adjacency)
        return DistributedDiscreteGaussian(
            self.share_sigma, shares, self.norm, self.dimension, adjacency=adjacency
        )

    def deviation(self, survivors: int) -> float:
        """The deviation of each number of the decoded sum when so many clients survive, rounding included: at
        most this. The mean's is this over the divisor.
        """
        share = float(self.share_variance) if self.noise == "skellam" else float(self.share_sigma) ** 2
        return math.sqrt(count("survivors", survivors) * (share + 0.25)) / self.scale

    # --- the client's part

    @np.errstate(all="ignore")  # training may have left numpy set to raise, and what is raised may depend on data
    def encode(self, update: NDArray[Any], public: bytes, *, weight: float = 1.0) -> NDArray[Any]:
        """One client's vector for the round with these public bytes: `dimension` numbers below 2^bits, with the
        noise in them.

        Type and shape of the update must be as planned; whatever its numbers are, something within the
        sensitivity comes out.
        """
        if (
            not isinstance(update, np.ndarray)
            or update.dtype.kind not in "fiu"
            or update.shape != (self.size,)
        ):
            raise ParameterError(f"update must be a numpy vector of {self.size} real numbers")
        if isinstance(weight, bool) or not isinstance(weight, (int, float, np.integer, np.floating)):
            raise ParameterError("weight must be a number")
        try:
            share = min(max(float(weight), 0.0), 1.0) if math.isfinite(weight) else 0.0
        except OverflowError:  # a whole number beyond floating point
            share = 1.0
        vector = np.zeros(self.dimension)
        vector[: self.size] = clipped(update.astype(np.float64), float(self.clip)) * (share * self.scale)
        if self.weighted:
            vector[self.size] = share * float(self.clip) * self.scale
        assert self.scaled_clip is not None
        spun = rotated(vector, signs_of(public, self.dimension))
        numbers = rounded(spun, squared_norm(float(self.scaled_clip), self.dimension))
        noisy: NDArray[Any] = numbers + self._share()
        found: NDArray[Any] = (noisy & (self.modulus - 1)).astype(self.word)
        return found

    def _share(self) -> NDArray[Any]:
        if self.noise == "skellam":
            return noise.skellam(self.share_variance, size=self.dimension)
        return noise.discrete_gaussian(self.share_sigma, size=self.dimension)

    # --- the server's part

    def decode(self, total: NDArray[Any], public: bytes) -> Reals:
        """The noisy sum of clipped updates from the sum modulo 2^bits; where weighted, the noisy sum of
        weights is its last entry."""
        if (
            not isinstance(total, np.ndarray)
            or total.dtype.kind not in "iu"
            or total.shape != (self.dimension,)
        ):
            raise ParameterError(f"total must be a vector of {self.dimension} whole numbers")
        half = self.modulus // 2
        signed = ((total.astype(np.int64) + half) & (self.modulus - 1)) - half
        found = hadamard(signed / self.scale) * signs_of(public, self.dimension)
        found = found[: self.length]
        if self.weighted:
            found[-1] /= float(self.clip)
        return found
