"""Quantiles by the exponential mechanism over a public range: exact, in O(n log n), whatever the rows.

Every value of the public lattice is a candidate. Between two neighbouring rows all of them have the same score, so a run of
equal scores is drawn, with weight (number of values) * exp(-rate * loss), and then a value in it (Smith 2011). Both draws are
exact. Bounds come from the domain and never from the data; rows beyond them are clamped, and NaN on a list of candidates is
left out.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space
>>> plan = Space(Rows(Integers(0, 1000)), AddRemove()) >> median(epsilon=1)
>>> plan.event(1)
Exponential(epsilon=Fraction(1, 1), monotone=False)
>>> abs(plan.release(list(range(400, 601)) * 20).value - 500) < 40
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit import accounting
from tacit.accounting import Event, NoOp, ParameterError, Repeated
from tacit.calculus import DomainError, Integers, Measurement, Reals, Rows, Space, exchanged
from tacit.mechanisms.accuracy import least_that_keeps
from tacit.mechanisms.exponential import above, least_epsilon
from tacit.mechanisms.mechanism import Mechanism, whole_rows
from tacit.noise import CUTOFF, WORD, Table, choose, exp_bounds, from_lattice, rough_exp, uniform_integers
from tacit.parameters import Number, count, number, positive, probability

WIDEST = 2**62
BLOCK = 1 << 10
INTEGER = NDArray[np.int64]


def loss_spread(q: Fraction, *, exchange: bool) -> Fraction:
    """How much more the loss of one candidate can move than that of another when a row comes or goes, or is exchanged.

    The loss of v is max(L - q n, G - (1 - q) n, 0) with L rows below v and G above it. A row below v moves the first by 1 - q and the
    second by q - 1, a row above by -q and q, one at v by -q and q - 1. So losses move by at most max(q, 1 - q) either way. For the extremes
    the second (or first) term vanishes, and the loss moves by 0 or 1, the same way for all. An exchanged row moves both by at most 1.

    >>> [str(loss_spread(Fraction(q), exchange=False)) for q in ("1/2", "1/4", "0")]
    ['1', '3/2', '1']
    """
    if q in (0, 1):
        return Fraction(1)
    return Fraction(2) if exchange else 2 * max(q, 1 - q)


@dataclass(frozen=True)
class Runs:
    """Candidates in runs of equal loss: where each run starts, how many values it has, and its loss times the denominator of q."""

    starts: INTEGER
    widths: INTEGER
    losses: INTEGER


def runs_of(rows: INTEGER, low: int, high: int, q: Fraction) -> Runs:
    """The runs of equal loss of the whole numbers low .. high, for sorted rows within that range.

    >>> found = runs_of(np.array([3, 5, 5]), 0, 9, Fraction(1, 2))
    >>> found.starts.tolist(), found.widths.tolist(), found.losses.tolist()
    ([0, 3, 4, 5, 6], [3, 1, 1, 1, 4], [3, 1, 1, 0, 3])
    """
    edges = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 1)) if len(rows) else np.zeros(0, dtype=np.int64)
    values = rows[edges]
    before = edges  # rows below each distinct value
    through = np.append(edges[1:], len(rows)) if len(edges) else edges  # rows up to it
    # Points and the gaps that follow them, with the gap before the first point in front.
    starts, widths, under, upto = (np.empty(2 * len(values) + 1, dtype=np.int64) for _ in range(4))
    starts[0], starts[1::2], starts[2::2] = low, values, values + 1
    widths[:-1], widths[-1] = starts[1:] - starts[:-1], high + 1 - starts[-1]
    under[0], under[1::2], under[2::2] = 0, before, through
    upto[0], upto[1::2], upto[2::2] = 0, through, through
    filled = widths > 0
    return Runs(starts[filled], widths[filled], losses_of(under[filled], upto[filled], len(rows), q))


def losses_of(below: INTEGER, upto: INTEGER, total: int, q: Fraction) -> INTEGER:
    """max(L - q n, G - (1 - q) n, 0) times the denominator of q, for L rows below, and `upto` below or at each candidate."""
    p, r = q.numerator, q.denominator
    if r * total >= WIDEST:  # a rank with many digits: Python's integers
        below, upto = below.astype(object), upto.astype(object)
    return np.maximum(np.maximum(r * below - p * total, r * (total - upto) - (r - p) * total), 0)


@dataclass(frozen=True)
class RunWeights:
    """Weights width * exp(-x), worked out in integers only if a draw must be settled."""

    exact: Callable[[], list[tuple[int, Fraction]]]

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        pairs = [(width, exp_bounds(x, bits + 64)) for width, x in self.exact()]
        return [(width * low) >> 64 for width, (low, _) in pairs], [-((-width * high) >> 64) for width, (_, high) in pairs]


def run_table(runs: Runs, rate: Fraction) -> Table:
    """The law of a run with probability proportional to width * exp(-rate * loss), ready to be drawn from exactly.

    Boundaries of the cumulative weights are first taken in floating point; a uniform word too near to one (a chance of about 1e-11 for
    each run) is settled in integers. Errors: exp(-x) = exp(-x/2)^2 is off by 2^-43 of itself up to x = 128 (`rough_exp`, and four
    roundings of x), and by less than exp(-128) beyond, which with a width below 2^62 is less than 2^-122 of the total, at least 1. Sums
    add a rounding a step, BLOCK and the number of blocks on the longest path; a quotient doubles all that. 2^-40 covers what does not grow.
    """
    least = int(runs.losses.min())
    gaps = runs.losses - least
    with np.errstate(over="ignore"):
        half = np.minimum(gaps.astype(np.float64) * float(rate / 2), CUTOFF)
    weights = runs.widths.astype(np.float64) * rough_exp(half) ** 2
    size = len(weights)
    rows = -(-size // BLOCK)
    padded = np.zeros(rows * BLOCK)
    padded[:size] = weights
    within = np.cumsum(padded.reshape(rows, BLOCK), axis=1)
    before = np.concatenate([[0.0], np.cumsum(within[:, -1])])
    sums = (within + before[:-1, None]).ravel()[: size - 1] / before[-1]
    error = 2.0**-40 + (BLOCK + rows + 4) * 2.0**-51
    first = (np.maximum(sums - error, 0) * 2.0**WORD).astype(np.uint64)
    beyond = sums + error
    last = (np.minimum(beyond, 1 - 2.0**-53) * 2.0**WORD).astype(np.uint64)
    last[beyond >= 1] = np.uint64(2**WORD - 1)
    exact = RunWeights(lambda: [(int(w), int(g) * rate) for w, g in zip(runs.widths.tolist(), gaps.tolist(), strict=True)])
    return Table(exact, np.minimum.accumulate(first[::-1])[::-1], np.maximum.accumulate(last), indexed=False)


def draw(rows: INTEGER, low: int, high: int, q: Fraction, rate: Fraction) -> int:
    """A value of low .. high with probability proportional to exp(-rate * loss), for sorted rows."""
    runs = runs_of(rows, low, high, q)
    chosen = int(run_table(runs, rate / q.denominator).draw(1)[0])
    return int(runs.starts[chosen]) + uniform_integers(int(runs.widths[chosen]))


def _lattice(space: Space, what: str) -> tuple[int, int, Fraction | None]:
    low, high, granularity = whole_rows(space, what)
    if max(abs(low), abs(high)) >= WIDEST // 2:
        raise DomainError(f"{what} works on bounds within 2^61 granules of zero; choose a coarser granularity")
    return low, high, granularity


def _sorted(values: Any, low: int, high: int) -> INTEGER:
    return np.sort(Integers(low, high).enforce(values).astype(np.int64))


def _rank(name: str, value: Number) -> Fraction:
    q = Fraction(probability(name, value))
    # Ranks are whole multiples of 1 / denominator; this many digits keep them exact in 64 bits up to 2^38 rows.
    return q if q.denominator <= 10**6 else q.limit_denominator(10**6)


@dataclass(frozen=True)
class Quantile(Mechanism):
    """A value v with probability proportional to exp(-epsilon * loss(v) / loss_spread): loss is how many rows v is from being a q-quantile.

    Guarantee
        Statement: epsilon for each row of distance, as a mechanism of bounded range, hence epsilon * d-DP at distance d.
        Conditions: add/remove, replace-one or Hamming; the candidates (all lattice values within the domain's bounds, or a list) are
        public. The number of rows is not needed and stays private under add/remove.
        Proved in: McSherry and Talwar 2007, Theorem 6, with the score of Smith 2011 made sharper: `loss_spread` has the bound and
        its proof.
        Note: rows equal to v count on neither side, so the bound holds with ties.
    """

    q: Number
    epsilon: Number
    candidates: tuple[Number, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", _rank("q", self.q))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.candidates is not None:
            listed = tuple(number("candidates", value) for value in self.candidates)
            if not listed or any(not math.isfinite(value) for value in listed):
                raise ParameterError("candidates must be finite public numbers, at least one")
            object.__setattr__(self, "candidates", tuple(sorted(set(listed))))

    def bind(self, space: Space) -> Measurement:
        q = Fraction(self.q)
        rate = Fraction(self.epsilon) / loss_spread(q, exchange=exchanged(space, "quantile"))
        run = self._on_lattice(space, q, rate) if self.candidates is None else self._on_candidates(space, q, rate)

        def privacy(distance: Number) -> Event:
            price = Fraction(self.epsilon) * math.floor(distance)
            return accounting.Exponential(price) if price else NoOp()

        return Measurement(space, run, privacy, f"quantile({self.q}, epsilon={self.epsilon})", "McSherry and Talwar 2007; Smith 2011")

    def _on_lattice(self, space: Space, q: Fraction, rate: Fraction) -> Callable[[Any], int | float]:
        low, high, granularity = _lattice(space, "quantile")

        def run(values: Any) -> int | float:
            found = draw(_sorted(values, low, high), low, high, q, rate)
            return found if granularity is None else from_lattice(found, granularity)

        return run

    def _on_candidates(self, space: Space, q: Fraction, rate: Fraction) -> Callable[[Any], Number]:
        element = space.domain.element if isinstance(space.domain, Rows) else None
        listed = self.candidates or ()
        if not isinstance(element, (Integers, Reals)):
            raise DomainError(f"quantile with candidates works on rows of Integers or Reals, not on {space.domain}; leave candidates out")
        # Candidates become floats, so that comparing them with rows is exact.
        points = np.array([float(value) for value in listed])

        def run(values: Any) -> Number:
            rows = Reals(missing=True).enforce(values)
            rows = np.sort(rows[~np.isnan(rows)])
            losses = losses_of(np.searchsorted(rows, points, "left"), np.searchsorted(rows, points, "right"), len(rows), q)
            return listed[choose(-losses, multiplier=rate / q.denominator)]

        return run

    def accuracy(self, beta: Number, candidates: int = 2) -> float:
        """How many *rows* the answer is from being a q-quantile, except with probability `beta`, if one of so many candidates is one.

        Stated for replace-one, where it is largest; half of it for a median under add/remove.

        >>> quantile(Fraction(1, 2), epsilon=1).accuracy(0.05, candidates=1000)
        19.80697...
        """
        total, chance = count("candidates", candidates), positive("beta", probability("beta", beta))
        worst = float(loss_spread(Fraction(self.q), exchange=True))
        return above(worst / float(self.epsilon) * max(0.0, math.log(total) - math.log(chance)))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, q: Number = Fraction(1, 2), candidates: int = 2) -> Self:
        """The mechanism with the least epsilon that is within `alpha` rows of a q-quantile except with probability `beta`.

        >>> median(1).for_accuracy(10, 0.05, candidates=1000).accuracy(0.05, candidates=1000) <= 10
        True
        """
        return cls(q, least_epsilon(lambda epsilon: cls(q, epsilon).accuracy(beta, candidates), alpha))


def quantile(q: Number, epsilon: Number, candidates: Sequence[Number] | None = None) -> Quantile:
    """The q-quantile of rows with public bounds; it costs epsilon for each row of distance. With `candidates`, one of that public list.

    >>> quantile(Fraction(9, 10), epsilon=1)
    Quantile(q=Fraction(9, 10), epsilon=1, candidates=None)
    """
    return Quantile(q, epsilon, None if candidates is None else tuple(candidates))


def median(epsilon: Number) -> Quantile:
    """The median, half of the rows on either side."""
    return Quantile(Fraction(1, 2), epsilon)


def minimum(epsilon: Number, share: Number = Fraction(1, 100)) -> Quantile:
    """The lower end of the rows: the quantile that a public `share` of them lies below.

    The least row itself is one person's, and any value below it looks as good: `share=0` gives a value that no rows, or few, lie below,
    which may be far off. To be near the end, `share` times the number of rows should be a few times ln(candidates) / epsilon.
    """
    return Quantile(share, epsilon)


def maximum(epsilon: Number, share: Number = Fraction(1, 100)) -> Quantile:
    """The upper end of the rows: the quantile that a public `share` of them lies above; see `minimum`."""
    return Quantile(1 - _rank("share", share), epsilon)


@dataclass(frozen=True)
class Quantiles(Mechanism):
    """Several quantiles at once: the middle one first, then those on either side among the rows on that side.

    Each row takes part in one choice on each level of the halving, so the price grows with log2 of the number of quantiles. Rows are first
    spread over `dither` more bits at random, so that equal rows are cut at the right rank and not all at once.

    Guarantee
        Statement: with L = ceil(log2(m + 1)) levels for m quantiles, a composition of L mechanisms of bounded range epsilon / L for each
        row added or removed, hence epsilon-DP in total; of bounded range 2 epsilon / L for each row exchanged.
        Conditions: as for `quantile`. Rows are spread one by one, with randomness of their own, which leaves distances as they are.
        Proved in: Kaplan, Schnapp and Stemmer 2022, Theorem 3.1. Given the choices before, one more row enters one part of each level, as
        one more row; of rows tied at a cut, floor(share * ties) go left, which grows by 0 or 1 with each. An exchanged row leaves one
        part and enters one, and ranges of parts that are chosen from independently add.
    """

    qs: tuple[Number, ...]
    epsilon: Number
    dither: int = 16

    def __post_init__(self) -> None:
        object.__setattr__(self, "dither", count("dither", self.dither, least=0))
        object.__setattr__(self, "qs", tuple(_rank("qs", q) for q in self.qs))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if not self.qs or any(not 0 < q < 1 for q in self.qs) or any(a >= b for a, b in zip(self.qs, self.qs[1:], strict=False)):
            raise ParameterError("qs must be increasing and lie strictly between 0 and 1")

    @property
    def levels(self) -> int:
        """How many choices one row takes part in."""
        return len(self.qs).bit_length()

    def bind(self, space: Space) -> Measurement:
        exchange = exchanged(space, "quantiles")
        low, high, granularity = _lattice(space, "quantiles")
        each, ranks = Fraction(self.epsilon) / self.levels, tuple(Fraction(q) for q in self.qs)
        bits = min(self.dither, WIDEST.bit_length() - 2 - max(abs(low), abs(high) + 1).bit_length())
        first, last = low << bits, (high + 1 << bits) - 1

        def run(values: Any) -> list[int | float]:
            rows = _sorted(values, low, high) << bits
            rows = np.sort(rows + uniform_integers(1 << bits, size=len(rows)))
            found = [value >> bits for value in self._split(rows, first, last, ranks, Fraction(0), Fraction(1), each)]
            return [value if granularity is None else from_lattice(value, granularity) for value in found]

        def privacy(distance: Number) -> Event:
            # Rows may meet in one part or be spread over several: ranges add either way.
            width = each * math.floor(distance) * (2 if exchange else 1)
            return Repeated(accounting.Exponential(width), self.levels) if width else NoOp()

        name = f"quantiles({len(self.qs)}, epsilon={self.epsilon})"
        return Measurement(space, run, privacy, name, "Kaplan, Schnapp and Stemmer 2022, Theorem 3.1")

    def accuracy(self, beta: Number, candidates: int = 2, ties: int = 1) -> float:
        """How many *rows* each answer is from being its quantile, all at once, except with probability `beta`.

        `candidates` is how many values the lattice has within its bounds, `ties` the most rows that share one value after they were spread
        over 2^dither of them. Each of the m choices fails with probability at most beta / m and is otherwise off by at most
        ln(m N / beta) / rate rows of its own part, where N counts the candidates with the dithered bits. A cut is off by that and by the
        ties that it falls in. A rank within a part lies between the ranks of the cuts beside it, in proportion; so it is off by no more
        than the worse of them, and errors add along the `levels` choices that lead to an answer.

        >>> round(quantiles([Fraction(1, 2)], epsilon=1).accuracy(0.05, candidates=1000), 2)
        21.99
        """
        total, chance = count("candidates", candidates), positive("beta", probability("beta", beta))
        log = math.log(total) + self.dither * math.log(2) + math.log(len(self.qs)) - math.log(chance)
        rate = float(self.epsilon) / self.levels
        ranks = tuple(Fraction(q) for q in self.qs)
        spread = float(self._path(ranks, Fraction(0), Fraction(1)))
        return above(spread * max(0.0, log) / rate + self.levels * count("ties", ties))

    def _path(self, qs: tuple[Fraction, ...], left: Fraction, right: Fraction) -> Fraction:
        """The largest sum of `loss_spread` along the choices that lead to an answer; see `_split`."""
        if not qs:
            return Fraction(0)
        middle = len(qs) // 2
        own = loss_spread((qs[middle] - left) / (right - left), exchange=False)
        return own + max(self._path(qs[:middle], left, qs[middle]), self._path(qs[middle + 1 :], qs[middle], right))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, qs: Sequence[Number] = (Fraction(1, 2),), candidates: int = 2) -> Self:
        """The quantiles with the least epsilon that are all within `alpha` rows except with probability `beta`.

        >>> Quantiles.for_accuracy(100, 0.05, [0.25, 0.5, 0.75], candidates=1000).accuracy(0.05, candidates=1000) <= 100
        True
        """
        goal = float(positive("alpha", alpha))
        return cls(tuple(qs), least_that_keeps(lambda epsilon: cls(tuple(qs), epsilon).accuracy(beta, candidates) <= goal))

    def _split(
        self, rows: INTEGER, low: int, high: int, qs: tuple[Fraction, ...], left: Fraction, right: Fraction, each: Fraction
    ) -> list[int]:
        """Quantiles `qs` of all rows, given those of ranks `left` to `right`."""
        if not qs:
            return []
        middle = len(qs) // 2
        q = (qs[middle] - left) / (right - left)
        value = draw(rows, low, high, q, each / loss_spread(q, exchange=False))
        below, upto = int(np.searchsorted(rows, value, "left")), int(np.searchsorted(rows, value, "right"))
        cut = below + math.floor(q * (upto - below))
        first = self._split(rows[:cut], low, value, qs[:middle], left, qs[middle], each)
        return [*first, value, *self._split(rows[cut:], value, high, qs[middle + 1 :], qs[middle], right, each)]


def quantiles(qs: Sequence[Number], epsilon: Number, dither: int = 16) -> Quantiles:
    """Several increasing quantiles for one price; they come out in order.

    >>> quantiles([Fraction(k, 8) for k in range(1, 8)], epsilon=1).levels
    3
    """
    return Quantiles(tuple(qs), epsilon, dither)
