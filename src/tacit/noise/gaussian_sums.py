"""Real numbers plus Gaussian noise on the whole numbers: exactly, at a few nanoseconds a number.

A real x becomes ceil(x) + floor(Z) for a real Gaussian Z of deviation sigma. With ceil(x) in place of x, floor(x + Z)
is the textbook mechanism followed by rounding, so which numbers come out, and how often, is what real arithmetic
would give. Rounding up moves two values apart by less than 1, which is charged, and makes up for rounding Z down.
The proof is docs/decisions/0022.

>>> values = np.array([0.25, -3.5, 1e6])
>>> noisy = add_gaussian(values.copy(), Fraction(1, 1000))  # so little noise only rounds
>>> bool((abs(noisy - values) <= 1).all())
True

**How.** |Z| = 2^b (m + f) as in `tacit.noise.gaussian`: a table proposes m, f is uniform, and the pair is accepted with
probability exp(-f (2 m + f) / (2 s^2)), s = sigma / 2^b. Three words settle nearly every number: the first 16 bits
tell m, 32 bits are the sign and the beginning of f, and 16 bits lie outside what can be rejected at all. Those that are
not settled get 64 bits more of each word in float64, with proved margins, and what those leave open (one number in
about 1e13) gets more bits in whole numbers. A rejected pair is drawn anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.noise.enclosed import MARGIN, Table, rough_exp
from tacit.noise.gaussian import RoundedGaussianLaw
from tacit.noise.source import WORD, Words, note, words
from tacit.parameters import Number, positive

Floats = NDArray[np.float64]
Fill = Callable[[memoryview, int], None]  # puts so many random bytes into a room that is SPARE longer
SPARE = 16  # bytes: a cipher asks for a block of room beyond the text
SHORT = 16  # bits of the words that tell m and accept
PLACE = 31  # first bits of f, beside a sign
BYTES = 8  # of random bits for each number
OPEN = 2**SHORT - 1  # stands in the index where the first word does not tell m
CHUNK = 1 << 16  # numbers at a time: they stay in the processor's cache through all that is done to them
PIECE = 1 << 13  # doubtful numbers at a time
LIMIT = 2.0**1000  # larger sums may be cut off
SMALL = LIMIT / CHUNK  # of sums up to here no piece adds up to more
SLACK = 2.0**-20  # of a probability: what the first bits of f may leave open, and far more than any rounding


class GaussianSumsLaw(RoundedGaussianLaw):
    """The law of floor(Z), Z normal of mean 0 and standard deviation sigma, added to sums that are rounded up."""

    def __init__(self, sigma: Fraction) -> None:
        super().__init__(sigma)
        if self.bits > PLACE:
            raise ParameterError(f"sigma must be at most {64 << PLACE} for real sums, not {float(sigma):g}; use a coarser granule")
        cells = self.half.table.index(SHORT)
        whole = self.half.values[cells]
        self.index = np.where((cells < 0) | (whole == self.half.count), OPEN, whole).astype(np.uint16)
        self.cuts = _Cuts(self.half.table)
        # A pair is rejected with probability at most (2 m + 1) / (2 s^2), so not where the coin is at least 2^surplus (m + 1).
        self.surplus = next(bits for bits in range(SHORT + 1) if 2**bits * self.small**2 >= 2**SHORT)
        self.unit = 2.0 ** (self.bits - PLACE)  # what the last known bit of f is worth: at most 1
        # Up to this m the bits of f that follow move t = f (2 m + f) / (2 s^2) by less than SLACK. A larger one, of probability below
        # exp(-10^8), makes all its neighbours take the longer way.
        self.known = SLACK * 2.0 ** (PLACE - 2) / self.rate

    @np.errstate(all="ignore")  # no warning may tell of a value
    def add(self, values: NDArray[Any], into: float, out: float, fill: Fill) -> None:
        """Turn every x of a vector into `out` times (ceil(`into` times x) + floor(Z))."""
        doubts: list[tuple[NDArray[np.intp], Floats, Short]] = []
        work = _work()
        for start in range(0, len(values), CHUNK):
            piece = values[start : start + CHUNK]
            n = len(piece)
            fill(work.bytes, BYTES * n)
            at, short = self._settled(n, work)
            x, z = work.x[:n], work.z[:n]
            if piece.dtype == x.dtype:
                np.multiply(piece, into, out=x)
            else:  # a cast by itself is faster than within a product
                np.copyto(x, piece)
                np.multiply(x, into, out=x)
            # The largest are found in a fraction of the time of a sum; a product of vectors would take threads.
            most, least = float(np.maximum.reduce(piece)), float(np.minimum.reduce(piece))
            if not -SMALL <= least * into <= most * into <= SMALL and not abs(float(np.add.reduce(x))) <= LIMIT:
                np.clip(np.nan_to_num(x, copy=False, posinf=LIMIT, neginf=-LIMIT), -LIMIT, LIMIT, out=x)
            np.ceil(x, out=x)
            if len(at):
                doubts.append((at + start, x[at], short))
            np.add(x, z, out=z)  # one rounding of the exact sum at most: what is released is a function of that
            if piece.dtype == z.dtype:
                np.multiply(z, out, out=piece)
            else:
                np.multiply(z, out, out=z)
                np.copyto(piece, z, casting="same_kind")
        if doubts:
            places, x, short = doubts[0]
            if len(doubts) > 1:
                places, x = np.concatenate([at for at, _, _ in doubts]), np.concatenate([sums for _, sums, _ in doubts])
                short = Short.joined([own for _, _, own in doubts])
            for start in range(0, len(places), PIECE):
                part = slice(start, start + PIECE)
                values[places[part]] = (x[part] + self._settle_all(short.at(part), fill)) * out

    def _settled(self, n: int, work: _Work) -> tuple[NDArray[np.intp], Short]:
        """Put floor(Z) where the short words tell it into `work.z`; where they do not: places and words."""
        short = work.short(n)
        whole, coin, index, open_ = work.whole[:n], work.coin[:n], work.index[:n], work.open[:n]
        np.copyto(index, short.first)
        np.take(self.index, index, out=whole, mode="wrap")  # no index is out of range, and this mode is the fastest
        np.right_shift(short.coin, self.surplus, out=coin)
        np.less_equal(coin, whole, out=open_)
        # Z lies between y and y + 1 units, y = m 2^31 + (bits of f), or y = -m 2^31 - 1 - (bits of f): the signed word has both.
        sign, turned, z, low = work.sign[:n], work.turned[:n], work.z[:n], work.x[:n]
        np.right_shift(short.place, 31, out=sign)
        np.copyto(turned, whole)
        np.bitwise_xor(turned, sign, out=turned)
        np.subtract(turned, sign, out=turned)
        np.copyto(z, turned)
        np.multiply(z, 2.0**PLACE, out=z)
        np.copyto(low, short.place)
        np.add(z, low, out=z)
        self._rounded(z)
        (at,) = open_.nonzero()
        return at, short.at(at)

    def _rounded(self, units: Floats) -> None:
        """floor(Z) from the units that lie below it, in place."""
        if self.unit != 1:
            np.multiply(units, self.unit, out=units)
            np.floor(units, out=units)

    def _settle_all(self, short: Short, fill: Fill) -> Floats:
        """floor(Z), given the short words of each, with more of them; rejected pairs are drawn anew."""
        found, kept = self._settled_by(short, _words(3 * len(short.first), fill).reshape(3, -1))
        (left,) = (~kept).nonzero()
        while len(left):
            short = Short.of(_words(len(left), fill).view(np.uint8), len(left))
            found[left], kept = self._settled_by(short, _words(3 * len(left), fill).reshape(3, -1))
            left = left[~kept]
        return found

    def _settled_by(self, short: Short, more: Words) -> tuple[Floats, NDArray[np.bool_]]:
        """floor(Z) as these words tell it, and whether the pair is accepted.

        It is rejected with probability r = 1 - exp(-t), t = f (2 m + f) / (2 s^2), and t - t^2 / 2 <= r <= t. The first bits of f
        tell t to within `SLACK` and the short word tells the coin to 2^-16, which settles nearly every pair.
        """
        cells = np.take(self.index, short.first, mode="wrap")
        whole = cells.astype(np.float64)
        (open_,) = (cells == OPEN).nonzero()
        far = False
        if len(open_):
            complete = _extended(short.first[open_], more[0, open_])
            known, unsure = self.cuts.told(short.first[open_], complete)
            if len(unsure):
                cell = self.half.table.lookup(complete[unsure])
                known[unsure] = told = self.half._beyond(self.half.values[cell])[0].astype(np.float64)
                far = bool(told.max() > self.known)
            whole[open_] = known
        sign = short.place >> 31
        leading = short.place ^ sign
        part = leading.astype(np.float64)
        part *= 2.0**-PLACE
        most = 2 * whole
        most += part
        most *= part
        most *= self.rate
        coin = short.coin.astype(np.float64)
        coin *= 2.0**-SHORT
        kept: NDArray[np.bool_] = coin >= most + SLACK
        coin += 2.0**-SHORT + SLACK
        np.multiply(most, most, out=part)
        part *= 0.5
        most -= part
        lost = most >= coin
        (doubtful,) = (kept == lost).nonzero() if not far else (np.arange(len(kept)),)
        if len(doubtful):
            kept[doubtful] = self._accepted(whole[doubtful], leading[doubtful], short.coin[doubtful], more[1:, doubtful])
        # As in `_settled`: -1 - (m 2^31 + bits of f) where the sign is negative.
        found = whole * 2.0**PLACE
        found += leading
        found *= sign | 1
        found += sign
        self._rounded(found)
        return found, kept

    def _accepted(self, whole: Floats, leading: NDArray[np.int32], coin: NDArray[np.uint16], more: Words) -> NDArray[np.bool_]:
        """Whether each pair is accepted, by all bits of these words, and by more where those leave it open."""
        rest, uniform = more[0], _extended(~coin, more[1])
        part = (leading + rest * 2.0**-WORD) * 2.0**-PLACE
        gap = rough_exp(part * (2 * whole + part) * self.rate) - uniform * 2.0**-WORD
        kept: NDArray[np.bool_] = gap > 0
        for i in np.flatnonzero(np.abs(gap) <= MARGIN).tolist():
            kept[i] = self._settle(int(whole[i]), int(leading[i]), PLACE, int(rest[i]), int(uniform[i]))
        return kept


class _Cuts:
    """For 16 bits with which the words of two cells begin: the boundary between the two.

    It is found by one look, where a search through the table takes many, and half of what the short words leave open is of this kind.
    """

    def __init__(self, table: Table) -> None:
        before, up_to = table.buckets(SHORT)
        # The last cell stands for all that lies beyond the table, so that nothing is decided here of it.
        (alone,) = ((up_to - before == 1) & (up_to < len(table.first))).nonzero()
        # Of a bucket without a boundary, or with several, the first line says that nothing is known.
        self.line = np.zeros(1 << SHORT, dtype=np.uint16)
        self.line[alone] = np.arange(1, len(alone) + 1)
        self.first = np.append(np.uint64(0), table.first[before[alone]])
        self.last = np.append(np.uint64(2**WORD - 1), table.last[before[alone]])
        self.cell = np.append(0.0, before[alone])

    def told(self, starts: NDArray[np.uint16], words: Words) -> tuple[Floats, NDArray[np.intp]]:
        """The cells of words that begin so, and the places of those for which this does not decide."""
        line = self.line[starts]
        above = words > self.last[line]
        (unsure,) = (above == (words < self.first[line])).nonzero()
        found = self.cell[line]
        found += above
        return found, unsure


class Short(NamedTuple):
    """The words that settle nearly every number: the beginnings of what tells m, of the sign and f, and of 1 - U."""

    place: NDArray[np.int32]
    first: NDArray[np.uint16]
    coin: NDArray[np.uint16]

    @classmethod
    def of(cls, room: NDArray[np.uint8] | memoryview, n: int) -> Short:
        """The words of n numbers, from as many times `BYTES` random bytes."""
        first, coin = (np.frombuffer(room, dtype=np.uint16, count=n, offset=offset * n) for offset in (4, 6))
        return cls(np.frombuffer(room, dtype=np.int32, count=n), first, coin)

    @classmethod
    def joined(cls, parts: list[Short]) -> Short:
        """The words of several, one after the other."""
        return cls(*(np.concatenate([part[i] for part in parts]) for i in range(3)))

    def at(self, places: NDArray[np.intp] | slice) -> Short:
        """The words of some of the numbers."""
        return Short(self.place[places], self.first[places], self.coin[places])


class _Work(threading.local):
    """Memory for one piece, a thread's own: asking the system for it anew would take longer than the draws."""

    def __init__(self) -> None:
        size = CHUNK
        self.bytes = memoryview(bytearray(BYTES * size + SPARE))
        self.x, self.z = (np.empty(size) for _ in range(2))
        self.whole, self.coin = (np.empty(size, dtype=np.uint16) for _ in range(2))
        self.open = np.empty(size, dtype=np.bool_)
        # Where floats come later whole numbers are at first.
        self.index = self.z.view(np.intp)
        self.sign, self.turned = self.x.view(np.int32).reshape(2, size)
        self._whole = Short.of(self.bytes, size)

    def short(self, n: int) -> Short:
        """The words of n numbers, from the bytes."""
        return self._whole if n == CHUNK else Short.of(self.bytes, n)


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


def add_gaussian(
    values: NDArray[Any], sigma: Number, *, into: float = 1.0, out: float = 1.0, fill: Fill | None = None
) -> NDArray[Any]:
    """Turn every x of a float vector into `out` times (ceil(`into` times x) + floor(Z)), in place; Z has deviation sigma.

    `into` times x is rounded to float64 (NaN is 0; what is not finite, or beyond 2^1000, becomes that). So two values below
    M come to lie apart by less than `into` times their distance, and 1 + 2^-52 `into` M. `fill` is a source of random bytes
    that is faster than the operating system; none may be weaker.

    >>> bool((add_gaussian(np.zeros(1000), 4096) % 1 == 0).all())
    True
    """
    if values.ndim != 1 or values.dtype not in (np.float32, np.float64):
        raise ParameterError(f"values must be a vector of float32 or float64, not {values.ndim} dimensions of {values.dtype}")
    exact = Fraction(positive("sigma", sigma))
    note(("gaussian sums", exact), values.shape)
    gaussian_sums_law(exact).add(values, into, out, _from_system if fill is None else fill)
    return values
