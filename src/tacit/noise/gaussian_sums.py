"""Real numbers plus Gaussian noise, rounded to whole numbers: exactly, at a few nanoseconds a number.

For real x and real Gaussian Z, round(x + Z) is the textbook mechanism followed by rounding. So real sums need no
rounding of their own before noise: which numbers come out, and how often, is what real arithmetic would give.
On whole numbers the law is that of `rounded_gaussian`. The proof is docs/decisions/0014.

>>> values = np.array([0.25, -3.5, 1e6])
>>> noisy = add_gaussian(values.copy(), Fraction(1, 1000))  # so little noise only rounds
>>> noisy.tolist() in ([0, -3, 1e6], [0, -4, 1e6])
True

**How.** |Z| = 2^b (m + f) as in `tacit.noise.rounded`: a table proposes m, f is uniform, and the pair is accepted with
probability exp(-f (2 m + f) / (2 s^2)), s = sigma / 2^b. Three words of 16 bits settle nearly every number: the first
tells m, the second is the sign and the first 15 bits of f, and the third lies outside what can be rejected at all.
The few per cent that these words leave open get words of 64 bits in float64, with proved margins, and what those leave
open (one number in about ten million) gets more bits in whole numbers. A rejected pair is drawn anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.noise.entropy import WORD, Words
from tacit.noise.exponential import MARGIN, below, exp_bounds, rough_exp
from tacit.noise.rounded import RoundedGaussianLaw
from tacit.noise.source import note, words
from tacit.parameters import Number, positive

Floats = NDArray[np.float64]
Fill = Callable[[memoryview, int], None]  # puts so many random bytes into a room that is SPARE longer
SPARE = 16  # bytes: a cipher asks for a block of room beyond the text
SHORT = 16  # bits of a short word
PLACE = SHORT - 1  # first bits of f
OPEN = 2**SHORT - 1  # stands in the index where the first word does not tell m
CHUNK = 1 << 16  # numbers at a time: they stay in the processor's cache through all that is done to them
PIECE = 1 << 13  # doubtful numbers at a time
LIMIT = 2.0**32  # larger sums are cut off, which brings no two of them further apart
BLUR = 2.0**-20  # above twice the error of x + Z in float64 at the limit, 2^-21
NEAR = 2.0**-25  # above the error of (x - floor(x)) + Z in float64, where |Z| stays below 2^25


class GaussianSumsLaw(RoundedGaussianLaw):
    """The law of round(x + Z) for real x, Z normal of mean 0 and standard deviation sigma."""

    def __init__(self, sigma: Fraction) -> None:
        super().__init__(sigma)
        if self.bits > PLACE:
            raise ParameterError(f"sigma must be at most {64 << PLACE} for real sums, not {float(sigma):g}; use a coarser granule")
        cells = self.half.table.index(SHORT)
        whole = self.half.values[cells]
        self.index = np.where((cells < 0) | (whole == self.half.count), OPEN, whole).astype(np.uint16)
        # A pair is rejected with probability at most (2 m + 1) / (2 s^2), so not where the coin is at least 2^surplus (m + 1).
        self.surplus = next(bits for bits in range(SHORT + 1) if 2**bits * self.small**2 >= 2**SHORT)
        self.unit = 2.0 ** (self.bits - PLACE)  # what the last known bit of f is worth

    @np.errstate(all="ignore")  # no warning may tell of a value
    def add(self, values: NDArray[Any], into: float, out: float, fill: Fill) -> None:
        """Turn every x of a vector into `out` times round(`into` times x, plus Z)."""
        doubts: list[tuple[NDArray[np.intp], Floats, NDArray[np.uint16]]] = []
        work = _work()
        for start in range(0, len(values), CHUNK):
            piece = values[start : start + CHUNK]
            x, rounded = work.x[: len(piece)], work.rounded[: len(piece)]
            if piece.dtype == x.dtype:
                np.multiply(piece, into, out=x)
            else:  # a cast by itself is faster than within a product
                np.copyto(x, piece)
                np.multiply(x, into, out=x)
            if not float(x @ x) <= LIMIT**2:  # so it is where a number is too large, or none
                np.clip(np.nan_to_num(x, copy=False, posinf=LIMIT, neginf=-LIMIT), -LIMIT, LIMIT, out=x)
            fill(work.bytes, 6 * len(piece))
            doubts.append(self._settled(x, work, start))
            np.multiply(rounded, out, out=piece if piece.dtype == rounded.dtype else rounded)
            if piece.dtype != rounded.dtype:
                np.copyto(piece, rounded, casting="same_kind")
        if doubts:
            at, sums, short = zip(*doubts, strict=True)
            places, x, words3 = np.concatenate(at), np.concatenate(sums), np.concatenate(short, axis=1)
            for start in range(0, len(places), PIECE):
                part = slice(start, start + PIECE)
                values[places[part]] = self._settle_all(x[part], words3[:, part], fill) * out

    def _settled(self, x: Floats, work: _Work, start: int) -> tuple[NDArray[np.intp], Floats, NDArray[np.uint16]]:
        """Put round(x + Z) where three short words tell it into `work.rounded`; where they do not: places, sums and words."""
        n = len(x)
        short = np.frombuffer(work.bytes, dtype=np.uint16, count=3 * n).reshape(3, n)
        first, place, coin = short
        signed, index, whole, sign, open_ = place.view(np.int16), work.index[:n], work.whole[:n], work.sign[:n], work.open[:n]
        np.copyto(index, first)
        np.take(self.index, index, out=whole, mode="clip")
        np.right_shift(coin, self.surplus, out=work.coin[:n])
        np.less_equal(work.coin[:n], whole, out=open_)
        # Z lies between y and y + 1 units, y = m 2^15 + (bits of f), or y = -m 2^15 - 1 - (bits of f): the signed word has both.
        np.right_shift(signed, 15, out=sign)
        turned = np.bitwise_xor(whole.view(np.int16), sign, out=whole.view(np.int16))
        np.subtract(turned, sign, out=turned)
        y, low = work.y[:n], work.low[:n]
        np.copyto(y, turned)
        np.left_shift(y, PLACE, out=y)
        np.copyto(low, signed)
        np.add(y, low, out=y)
        z = work.z[:n]
        np.copyto(z, y)
        np.multiply(z, self.unit, out=z)
        np.add(z, 0.5 - BLUR, out=z)
        np.add(z, x, out=z)  # below x + Z + 1/2, by less than one unit and 1.5 BLUR
        rounded = np.floor(z, out=work.rounded[:n])
        np.subtract(z, rounded, out=z)
        np.greater(z, 1 - self.unit - 2 * BLUR, out=work.near[:n])
        np.logical_or(open_, work.near[:n], out=open_)
        at = np.flatnonzero(open_)
        return at + start, x[at], short[:, at]

    def _settle_all(self, x: Floats, short: NDArray[np.uint16], fill: Fill) -> Floats:
        """round(x + Z), given the three short words of each, with more of them; rejected pairs are drawn anew."""
        found = np.empty_like(x)
        left = np.arange(len(x))
        while len(left):
            found[left], kept = self._settled_by(x[left], short, _words(3 * len(left), fill).reshape(3, len(left)))
            left = left[~kept]
            short = _words(len(left), fill).view(np.uint16).reshape(4, len(left))[:3]
        return found

    def _settled_by(self, x: Floats, short: NDArray[np.uint16], more: Words) -> tuple[Floats, NDArray[np.bool_]]:
        """round(x + Z) as these words tell it, and whether the pair is accepted."""
        first, place, coin = short
        whole = self.half._beyond(self.half.values[self.half.table.lookup(_extended(first, more[0]))])[0].astype(np.float64)
        negative = place.view(np.int16) < 0
        leading = np.where(negative, ~place, place)
        rest, uniform = more[1], _extended(~coin, more[2])
        part = (leading + rest * 2.0**-WORD) * 2.0**-PLACE
        gap = rough_exp(part * (2 * whole + part) * self.rate) - uniform * 2.0**-WORD
        size = (whole + part) * 2.0**self.bits
        below_x = np.floor(x)  # apart, so that the rest is small and its sum precise
        total = (x - below_x) + np.where(negative, -size, size) + 0.5
        found = np.floor(total) + below_x
        kept = gap > 0
        near = (np.abs(gap) <= MARGIN) | (kept & (np.abs(total - np.rint(total)) <= NEAR))
        for i in np.flatnonzero(near).tolist():
            exact = self._exactly(x[i], int(whole[i]), bool(negative[i]), int(leading[i]), int(rest[i]), int(uniform[i]))
            kept[i], found[i] = exact is not None, exact or 0
        return found, kept

    def _exactly(self, x: float, whole: int, negative: bool, leading: int, rest: int, uniform: int) -> int | None:
        """round(x + Z) in whole numbers and fractions, both words extended as far as it takes; None if the pair is rejected."""
        known, bits_of_f = WORD, leading << WORD | rest

        def more() -> None:
            nonlocal known, bits_of_f
            known, bits_of_f = known + WORD, bits_of_f << WORD | int(words(1)[0])

        def bounds(bits: int) -> tuple[int, int]:
            while known < bits + WORD:
                more()
            unit = Fraction(1, 1 << PLACE + known)
            least = bits_of_f * unit
            return exp_bounds(self._exponent(whole, least + unit), bits)[0], exp_bounds(self._exponent(whole, least), bits)[1]

        if not below(uniform, bounds):
            return None
        while True:
            unit = Fraction(1, 1 << PLACE + known)
            ends = [Fraction(2) ** self.bits * (whole + (bits_of_f + i) * unit) for i in (0, 1)]
            least, most = (-ends[1], -ends[0]) if negative else ends
            centre = Fraction(x) + Fraction(1, 2)
            # The end of the interval is reached with probability 0: a whole number there is not between the two.
            lower, upper = (centre + least) // 1, -(-(centre + most) // 1) - 1
            if lower == upper:
                return lower
            more()


class _Work(threading.local):
    """Memory for one piece, a thread's own: asking the system for it anew would take longer than the draws."""

    def __init__(self) -> None:
        size = CHUNK
        self.bytes = memoryview(bytearray(6 * size + SPARE))
        self.x, self.z, self.rounded = (np.empty(size) for _ in range(3))
        self.whole, self.coin = (np.empty(size, dtype=np.uint16) for _ in range(2))
        self.open, self.near = (np.empty(size, dtype=np.bool_) for _ in range(2))
        # Where floats come later whole numbers are at first.
        self.index = self.z.view(np.intp)
        self.y, self.low = self.rounded.view(np.int32).reshape(2, size)
        self.sign = self.coin.view(np.int16)


@cache
def _work() -> _Work:
    return _Work()


def _extended(short: NDArray[Any], more: Words) -> Words:
    """Words that begin with the short ones."""
    return short.astype(np.uint64) << np.uint64(WORD - SHORT) | more >> np.uint64(SHORT)


def _words(count: int, fill: Fill) -> Words:
    room = memoryview(bytearray(8 * count + SPARE))
    fill(room, 8 * count)
    return np.frombuffer(room, dtype=np.uint64, count=count)


def _from_system(room: memoryview, count: int) -> None:
    room[:count] = words(-(-count // 8)).tobytes()[:count]


@lru_cache(maxsize=64)
def gaussian_sums_law(sigma: Fraction) -> GaussianSumsLaw:
    """The law with its tables, kept for the next draw: parameters of noise are public."""
    return GaussianSumsLaw(sigma)


def add_gaussian(values: NDArray[Any], sigma: Number, *, into: float = 1.0, out: float = 1.0, fill: Fill | None = None) -> NDArray[Any]:
    """Turn every x of a float vector into `out` times round(`into` times x, plus Z), in place; Z has deviation sigma.

    `into` times x is rounded to float64, and cut off at 2^32 either way, NaN being 0. `fill` is a source of random
    bytes that is faster than the operating system; none may be weaker.

    >>> bool((add_gaussian(np.zeros(1000), 4096) % 1 == 0).all())
    True
    """
    if values.ndim != 1 or values.dtype not in (np.float32, np.float64):
        raise ParameterError(f"values must be a vector of float32 or float64, not {values.ndim} dimensions of {values.dtype}")
    exact = Fraction(positive("sigma", sigma))
    note(("gaussian sums", exact), values.shape)
    gaussian_sums_law(exact).add(values, into, out, _from_system if fill is None else fill)
    return values
