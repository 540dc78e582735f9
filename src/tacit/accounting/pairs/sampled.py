"""Sampling as a map on pairs: Poisson, without and with replacement, for any base pair that a grid can read.

Removing a record from a Poisson sample compares (1-q) Q + q P with Q (Zhu, Dong, Wang 2022, Theorem 11). Replacing one in a
sample of fixed size has no such single pair, but its hockey-stick curve is that of the same mixture for alpha >= 1 and the mirror
image below 1 (the same theorem; Balle, Barthe, Gaboardi 2018, Theorem 9), which `Mirrored` builds. Sampling with replacement
reveals how often a record was drawn, at no loss in the bound (Theorem 10 there), so its base is a `Revealed` mixture over groups.

>>> from tacit.accounting.pairs.pair import single_delta
>>> pair = DrawnGaussian(0.5, [(1, 0.09), (2, 0.01)])
>>> 0.021 < single_delta(pair, 0.0)[1] < 0.022  # at alpha = 1 every k may have its own test
True

`FixedSizeGaussian` is a Gaussian sum over a sample of fixed size, one record replaced: smooth on either side of
0, with an atom there. `DrawnGaussian` is one over draws with replacement, better than revealing how often the
record was drawn:

Write w_k for the chance that the record is drawn k times, and d for the largest distance, in units of the noise, that one draw
makes when it is exchanged. Fix what the other draws would be, and in which order the record takes their places. A test that accepts
N(s) with probability Phi(g(s)) has a g that changes by at most the distance (Neyman and Pearson). Each further draw of the record moves
s by at most d, whether it is the old record or the new one, and after k draws the two are at most k d apart. So the test accepts after k
draws of the new record with Phi(-x_k), and after k draws of the old one with at most Phi(k d - x_k), where x_0 <= x_1 <= ... may be chosen
at best. Hence, for alpha >= 1, in both directions and averaged over the other draws,

    HS_alpha <= max over x_0 <= x_1 <= ... of (1 - alpha) w_0 Phi(-x_0) + sum over k >= 1 of w_k (Phi(k d - x_k) - alpha Phi(-x_k)).

By itself a count k would have x_k = k d / 2 + log(alpha) / (k d), which first falls and then grows with k; so one x serves for all counts
up to some K, and later ones have their own. The P- and Q-mass of losses above log(alpha) are read off there. At every alpha
a mechanism attains this bound, and so does the worst of all mechanisms: see decision 0130. Revealing k (Balle, Barthe, Gaboardi 2018,
Theorem 10) lets every k have its own x_k and charges each its own share of w_0, which is never less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tacit.accounting.pairs import mixture
from tacit.accounting.pairs.mixture import MixturePair, log_mixture
from tacit.accounting.pairs.pair import Array, Nodes, Pair, cumulant
from tacit.accounting.special import log_ndtr, ndtr
from tacit.accounting.theorems import amplification

_BINS = 4096
END = 800.0  # losses beyond this are not tabulated


class BinnedPair(Pair):
    """A pair known by its masses alone; its cumulant is bounded from above on a fine partition of the loss."""

    exact_cumulant = False

    def __init__(self) -> None:
        self._table = lru_cache(maxsize=1)(self._make_table)
        self._value = lru_cache(maxsize=256)(self._kappa)

    def _make_table(self) -> tuple[Array, Array]:
        low, high = (min(max(end, -END), END) for end in self.support())
        scale = 0.01  # bins are fine near 0 and grow with the loss
        edges = scale * np.sinh(np.linspace(math.asinh(low / scale), math.asinh(high / scale), _BINS + 1))
        p, q = self.masses(edges)
        # Each bin's mass is split onto its ends so that P and Q both keep theirs: the largest moments the bin allows.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            top = (p - q * np.exp(edges[:-1])) / -np.expm1(-np.diff(edges))
        top = np.clip(np.nan_to_num(top, nan=0.0), 0.0, p)
        loss, mass = self.atoms()
        below = self.masses(np.array([-np.inf, edges[0]]))[0]
        beyond = self.masses(np.array([edges[-1], np.inf]))[0] if high < END else np.zeros(1)  # a rounding of the last edge
        return np.concatenate([edges[:-1], edges[1:], edges[[-1, 0]], loss]), np.concatenate([p - top, top, beyond, below, mass])

    def log_beyond(self, c: float) -> float:
        """An upper bound on log E[exp(c L)] over the finite losses that the table does not reach."""
        if self.support()[1] <= END:
            return -math.inf
        mass = float(self.masses(np.array([END, np.inf]))[0][0])
        if mass == 0:
            return -math.inf
        return math.log(mass) + c * END if c <= 0 else math.inf

    def _kappa(self, c: float) -> float:
        """An upper bound on kappa for c >= 0 or c <= -1, where exp(c l) is convex in exp(-l)."""
        loss, mass = self._table()
        keep = mass > 0
        exponent = np.append(np.log(mass[keep]) + c * loss[keep], self.log_beyond(c))
        peak = float(exponent.max())
        return peak if not math.isfinite(peak) else peak + math.log(float(np.exp(exponent - peak).sum()))

    def kappa(self, c: float) -> float:
        return self._value(c)

    def moments(self, c: Array) -> tuple[Array, Array, Array]:
        loss, mass = self._table()
        loss, mass = loss[mass > 0], mass[mass > 0]
        exponent = np.log(mass) + c[:, None] * loss
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        total = weight.sum(axis=1)
        mean = weight @ loss / total
        second = np.maximum(weight @ loss**2 / total - mean * mean, 1e-300)
        return np.array([self.kappa(float(x)) for x in c]), mean, second


class PoissonPair(BinnedPair):
    """((1-q) Q + q P, Q) for a base pair (P, Q): a record removed from a Poisson sample."""

    def __init__(self, base: Pair, rate: float) -> None:
        super().__init__()
        self.base, self.rate = base, rate
        self.infinite = rate * base.infinite

    def __repr__(self) -> str:
        return f"PoissonPair({self.base!r}, {self.rate})"

    def reverse(self) -> Pair:
        return Reversed(self)

    def _loss(self, base: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.where(base > 700, base + math.log(self.rate), np.log1p(self.rate * np.expm1(np.minimum(base, 700.0))))

    def support(self) -> tuple[float, float]:
        low, high = self.base.support()
        return math.log1p(-self.rate) if self._unseen() > 0 else float(self._loss(np.array([low]))[0]), float(
            self._loss(np.array([high]))[0]
        )

    def _unseen(self) -> float:
        """Q-mass of the base where P has none: a smallest possible loss, log(1 - q)."""
        return self.base.reverse().infinite

    def atoms(self) -> tuple[Array, Array]:
        loss, p = self.base.atoms()
        q = p * np.exp(-loss)
        loss, p = self._loss(loss), (1 - self.rate) * q + self.rate * p
        if (unseen := self._unseen()) > 0:
            loss, p = np.append(loss, math.log1p(-self.rate)), np.append(p, (1 - self.rate) * unseen)
        return loss, p

    def masses(self, edges: Array) -> tuple[Array, Array]:
        floor = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            small = np.log1p(np.expm1(np.minimum(edges, 700.0)) / self.rate)
            base = np.where(edges <= floor, -np.inf, np.where(edges > 700, edges - math.log(self.rate), small))
        p, q = self.base.masses(base)
        return (1 - self.rate) * q + self.rate * p, q


class Revealed(BinnedPair):
    """A mixture of pairs in which the output tells which pair was used."""

    def __init__(self, pairs: Sequence[Pair], weights: Sequence[float]) -> None:
        super().__init__()
        self.pairs, self.weights = tuple(pairs), tuple(weights)
        self.infinite = sum(w * p.infinite for p, w in zip(self.pairs, self.weights, strict=True))

    def __repr__(self) -> str:
        return f"Revealed({len(self.pairs)} pairs)"

    def reverse(self) -> Pair:
        return Revealed([p.reverse() for p in self.pairs], self.weights)

    def support(self) -> tuple[float, float]:
        ends = [p.support() for p in self.pairs]
        return min(e[0] for e in ends), max(e[1] for e in ends)

    def atoms(self) -> tuple[Array, Array]:
        parts = [p.atoms() for p in self.pairs]
        return np.concatenate([a for a, _ in parts]), np.concatenate([w * m for (_, m), w in zip(parts, self.weights, strict=True)])

    def masses(self, edges: Array) -> tuple[Array, Array]:
        p, q = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        for pair, weight in zip(self.pairs, self.weights, strict=True):
            a, b = pair.masses(edges)
            p, q = p + weight * a, q + weight * b
        return p, q


class Mirrored(BinnedPair):
    """The symmetric pair whose losses above 0 are those of `half`; below 0 stands their mirror image, at 0 what is left."""

    def __init__(self, half: Pair) -> None:
        super().__init__()
        self.half = half
        self.symmetric = True
        self.infinite = half.infinite

    def __repr__(self) -> str:
        return f"Mirrored({self.half!r})"

    def reverse(self) -> Pair:
        return self

    def support(self) -> tuple[float, float]:
        high = max(self.half.support()[1], 0.0)
        return -high, high

    def _positive_atoms(self) -> tuple[Array, Array]:
        loss, p = self.half.atoms()
        keep = loss > 0
        return loss[keep], p[keep]

    def atoms(self) -> tuple[Array, Array]:
        loss, p = self._positive_atoms()
        q = p * np.exp(-loss)
        cp, cq = self.half.masses(np.array([0.0, np.inf]))
        rest = max(0.0, 1.0 - float(p.sum() + q.sum() + cp[0] + cq[0]) - self.infinite)
        return np.concatenate([-loss, [0.0], loss]), np.concatenate([q, [rest], p])

    def masses(self, edges: Array) -> tuple[Array, Array]:
        # only the edges on its own side matter to each half, and where they are the same, once is enough
        k = int(np.searchsorted(edges, 0.0))
        if k > 0 and len(edges) == 2 * k + 1 and np.array_equal(edges[: k + 1], -edges[k:][::-1]):
            p, q = self.half.masses(edges[k:])
            return np.concatenate([q[::-1], p]), np.concatenate([p[::-1], q])
        p, q = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        if k < len(edges):
            first = max(k - 1, 0)
            above = self.half.masses(np.maximum(edges[first:], 0.0))
            p[first:], q[first:] = above
        if k > 0:
            below = self.half.masses(np.maximum(-edges[: k + 1][::-1], 0.0))
            p[:k] += below[1][::-1][: len(p[:k])]
            q[:k] += below[0][::-1][: len(q[:k])]
        return p, q


class Reversed(BinnedPair):
    """(Q, P) for a pair (P, Q) known by its masses."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        loss, p = pair.atoms()
        q = pair.masses(np.array([-np.inf, np.inf]))[1]
        self.infinite = max(0.0, 1.0 - float(np.sum(p * np.exp(-loss)) + q.sum()))
        if self.infinite < 1e-12:  # rounding of masses that add up to one
            self.infinite = 0.0

    def __repr__(self) -> str:
        return f"{self.pair!r}.reverse()"

    def reverse(self) -> Pair:
        return self.pair

    def support(self) -> tuple[float, float]:
        low, high = self.pair.support()
        return -high, -low

    def atoms(self) -> tuple[Array, Array]:
        loss, p = self.pair.atoms()
        return -loss[::-1], (p * np.exp(-loss))[::-1]

    def masses(self, edges: Array) -> tuple[Array, Array]:
        p, q = self.pair.masses(-edges[::-1])
        return q[::-1], p[::-1]


def poisson(remove: Pair, add: Pair, rate: float) -> tuple[Pair, Pair]:
    """Both directions of a Poisson sample, from both directions of the base."""
    return PoissonPair(remove, rate), PoissonPair(add.reverse(), rate).reverse()


_UNIT = 2.0**-53
_ORDER = 32
_X, _W = np.polynomial.legendre.leggauss(_ORDER)
_CUT = 13.0
_MAX_NODES = 100_000


class FixedSizeGaussian(Mirrored):
    """The mirrored pair of (1-q) N(0,1) + q N(mu,1) against N(0,1): losses log A(u) and -log A(u) for u > mu/2, and an atom at 0.

    `mu` is the shift under replacement: twice the clipping norm over the noise's standard deviation for clipped sums.
    """

    exact_cumulant = True

    def __init__(self, rate: float, mu: float) -> None:
        self.rate, self.mu = rate, mu
        super().__init__(MixturePair([(0.0, 1 - rate), (mu, rate)]))
        self.rest = max(0.0, 1 - float((2 - rate) * ndtr(-mu / 2) + rate * ndtr(mu / 2)))
        self._log_weights = np.log([1 - rate, rate])
        self._nodes = lru_cache(maxsize=24)(self._make_nodes)
        self._variation = lru_cache(maxsize=8)(self._make_variation)

    def __repr__(self) -> str:
        return f"FixedSizeGaussian({self.rate}, {self.mu})"

    def kappa(self, c: float) -> float:
        return cumulant(self._nodes, c)

    def nodes(self, c: float, reach: float) -> Nodes:
        return self._nodes(c, 2.0 ** math.ceil(math.log2(reach)) if reach > 0 else 0.0)

    def _log_a(self, u: Array) -> Array:
        return log_mixture(self._log_weights, np.array([0.0, self.mu]), u)

    def _make_nodes(self, c: float, reach: float) -> Nodes:
        sides, log_weights, log_error = self._panels(c, reach)
        loss = np.concatenate([np.zeros(1), sides])
        log_weight = np.concatenate([[math.log(max(self.rest, 1e-300))], log_weights])
        peak = float(log_weight.max())
        raw = np.exp(log_weight - peak)
        total = float(raw.sum())
        weight = raw / total
        log_mgf = peak + math.log(total)
        truncation = 2 * math.exp(min(log_error - log_mgf, 0.0))
        magnitude = 4 + np.abs((abs(c) + 1) * loss) + np.abs(log_weight - (c + 1) * loss)
        rounding = 2 * _UNIT * float(np.dot(weight, magnitude))
        slope = 4 * _UNIT * float(np.dot(weight, np.abs(loss)))
        return Nodes(loss, weight, log_mgf, truncation + rounding, truncation + rounding, slope)

    def _panels(self, c: float, reach: float) -> tuple[Array, Array, float]:
        """Losses on both sides of 0, log-weights (tilted) and the log of the quadrature's error.

        Gauss-Legendre panels; inside the ellipses |Im u| <= y, where A stays in the right half-plane, the integrand is at most its largest
        value on the line times exp(y^2/2 + t mu y) and a power of the cosine (Trefethen 2013, Theorem 19.3).
        """
        mu = self.mu
        start, end = mu / 2, max(c + 1, -c, 0.0) * mu + _CUT + mu / 2
        half = min(0.5, 0.5 / mu, 14.0 / (mu * reach) if reach > 0 else 1.0)
        panels = math.ceil((end - start) / (2 * half))
        if panels * _ORDER > _MAX_NODES:
            raise OverflowError("too many quadrature nodes")
        half = (end - start) / (2 * panels)
        minor = min(1.0 / (mu * half), 2.0 / half, 4.0)
        rho, y = minor + math.hypot(1.0, minor), half * minor
        centres = start + half * (2 * np.arange(panels) + 1)
        u = (centres[:, None] + half * _X[None, :]).ravel()
        a = self._log_a(u)
        normal = -0.5 * u * u - 0.5 * math.log(2 * math.pi) + np.log(half * np.tile(_W, panels))
        line = np.linspace(start - 4 * half, end, 512)
        top = -0.5 * line * line + max(c + 1, -c) * np.abs(self._log_a(line)) - 0.5 * math.log(2 * math.pi)
        growth = 0.5 * y * y + reach * mu * y + (abs(c) + 1) * math.log(1 / math.cos(min(mu * y, 1.5)))
        log_error = float(top.max()) + 0.1 + growth - 2 * _ORDER * math.log(rho) + math.log((64 / 15) * (end - start))
        cut = float(np.logaddexp(normal[-1] + (1 + c) * a[-1], normal[-1] - c * a[-1]))
        return np.concatenate([a, -a]), np.concatenate([normal + (1 + c) * a, normal - c * a]), float(np.logaddexp(log_error, cut))

    def _make_variation(self, c: float) -> float:
        """Ends plus total variation of density over slope on both sides: integration by parts bounds each side by this over t."""
        level, total, mu = self.kappa(c), 0.0, self.mu
        u = np.linspace(mu / 2, max(c + 1, -c, 0.0) * mu + _CUT + mu / 2, 8192)
        a = self._log_a(u)
        log_slope = math.log(mu * self.rate) + mu * u - mu**2 / 2 - a
        for power in (1 + c, -c):
            exponent = -0.5 * u * u - 0.5 * math.log(2 * math.pi) + power * a - log_slope - level
            f = np.exp(np.minimum(exponent, 700.0))
            total += float(f[0] + np.abs(np.diff(f)).sum())
        return 1.02 * total  # few turning points, each sampled finely; the factor covers what lies between samples

    def decay(self, c: float, t: float) -> float:
        return min(1.0, self.rest * math.exp(-self.kappa(c)) + self._variation(c) / t)


_ROUNDS = 60
_STRIDE = 32  # of many points every so manieth is solved from scratch, and the others from there
_MANY = 100
_LEAST = -120.0  # draws so often that they are rarer than exp of this, all together, are given up as disclosed

Counts = Sequence[tuple[int, float]]  # how often a record is drawn, at least once, and the chance of that


def draw_counts(size: int, draws: int) -> tuple[list[tuple[int, float]], float]:
    """How often one of `size` records is drawn, with the chances of that, and the chance of more draws than listed.

    >>> draw_counts(2, 2)
    ([(1, 0.5), (2, 0.25)], 0.0)
    """
    if size == 1:
        return [(draws, 1.0)], 0.0
    log_chance = draws * math.log1p(-1 / size)
    counts: list[tuple[int, float]] = []
    for k in range(1, draws + 1):
        log_chance += math.log((draws - k + 1) / k) - math.log(size - 1)
        if log_chance < _LEAST and k > draws / size:
            return counts, math.exp(amplification.log_binomial_tail(draws, 1 / size, k - 1))
        counts.append((k, math.exp(log_chance)))
    return counts, 0.0


class _Half(BinnedPair):
    """The losses above 0 of the bound; below 0 it is never asked."""

    def __init__(self, shift: float, counts: Counts, given_up: float) -> None:
        super().__init__()
        self.infinite = given_up
        self._d = shift * np.array([float(k) for k, _ in counts])
        self._w = np.array([w for _, w in counts])
        self._never = max(0.0, 1 - math.fsum(w for _, w in counts) - given_up)

    def reverse(self) -> Pair:
        raise NotImplementedError("only losses above 0 are known")

    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    def thresholds(self, epsilon: Array) -> tuple[Array, Array]:
        """The best x_0 and x_k at each epsilon in [0, inf), in increasing order."""
        d, w = self._d[:, None], self._w[:, None]
        alone = 0.5 * d + epsilon / d  # where the likelihood ratio of k draws is alpha
        # the thresholds must not fall, so counts up to the one whose own is smallest share one
        joined = np.arange(len(d))[:, None] <= np.argmin(alone, axis=0)[None, :]
        goal = self._never * -np.expm1(-epsilon)
        # one k by itself reaches the goal, and what others may take from it, to the right of the root; the sum is convex, so
        # Newton's steps from there go down to it
        taken = (w * joined).sum(axis=0)
        least, most = alone.min(axis=0), np.min(alone + np.log1p((goal + taken) / w) / d, axis=0)
        x = most.copy()
        if len(epsilon) > 64 * _STRIDE:
            places = np.unique(np.append(np.arange(0, len(epsilon), _STRIDE), len(epsilon) - 1))
            x = np.minimum(most, np.interp(np.arange(len(epsilon)), places, self.thresholds(epsilon[places])[0]))
        todo, own, shared, aim = np.arange(len(epsilon)), alone, joined, goal
        for _ in range(_ROUNDS):
            y = d * (x[todo] - own)
            apart = ~shared & (y <= 0)  # a count with a threshold of its own
            reached = np.expm1(np.minimum(y, 700.0))
            slope = reached + 1.0
            reached[apart] = slope[apart] = 0.0
            move = (self._w @ reached - aim) / np.maximum((self._w * self._d) @ slope, 1e-300)
            x[todo] = np.clip(x[todo] - move, least[todo], most[todo])
            far = np.abs(move) > 1e-13 * x[todo]  # the next step would be its square
            if not far.any():
                break
            if not far.all():
                todo, own, shared, aim = todo[far], own[:, far], shared[:, far], aim[far]
        return x, np.where(joined, x, np.maximum(alone, x))

    def masses(self, edges: Array) -> tuple[Array, Array]:
        finite = np.isfinite(edges)
        x, own = self.thresholds(np.maximum(edges[finite], 0.0))
        p, q = np.zeros(len(edges)), np.zeros(len(edges))
        never = self._never * ndtr(-x)
        p[finite] = never + self._w @ ndtr(self._d[:, None] - own)
        q[finite] = never + self._w @ ndtr(-own)
        return np.maximum(-np.diff(p), 0.0), np.maximum(-np.diff(q), 0.0)


class DrawnGaussian(Mirrored):
    """The symmetric pair of that bound: `shift` is d, `counts` lists k >= 1 with w_k, and `given_up` counts as disclosed."""

    def __init__(self, shift: float, counts: Counts, given_up: float = 0.0) -> None:
        self.shift, self.counts, self.given_up = shift, tuple(counts), given_up
        super().__init__(_Half(shift, self.counts, given_up))

    def __repr__(self) -> str:
        return f"DrawnGaussian({self.shift}, {len(self.counts)} counts)"

    def log_beyond(self, c: float) -> float:
        least = 0.01
        if c < least:  # exp(c L) <= exp(least L) exp((c - least) END) beyond the end
            return self.log_beyond(least) + (c - least) * END
        # Were every x_k free, the curve would lie higher, and x_k would be at least k d / 2 + eps / (k d): each k has at most the tail of
        # its own Gaussian, and what is never drawn at most exp(-eps) of the whole, since the Q-mass beyond a loss has no more. A
        # payoff that is convex in R = exp(L) is worth more there. R^(c+1) beyond the end is at most such a one, which goes down along the
        # tangent at the end to 0 at c / (c + 1) of it, and is nowhere above ((c + 1) / c)^(c + 1) R^(c+1).
        ratio = math.log1p(1 / c)
        d, w = self.shift * np.array([float(k) for k, _ in self.counts]), np.array([w for _, w in self.counts])
        terms = np.log(w) + 0.5 * c * (c + 1) * d * d + log_ndtr((c + 0.5) * d - (END - ratio) / d)
        return float(np.logaddexp.reduce(terms)) + (c + 1) * ratio + 1e-12

    def trimmed(self, mass: float, steps: int = 1) -> DrawnGaussian:
        """The same with the rarest counts given up as disclosed, `mass` at most: an upper bound, easier to compose."""
        counts, spare = list(self.counts), mass - self.given_up
        while len(counts) > 1 and counts[-1][1] <= spare:
            spare -= counts.pop()[1]
        return self if len(counts) == len(self.counts) else DrawnGaussian(self.shift, counts, mass - spare)


class LumpedDraws(DrawnGaussian):
    """The same pair from below, where it is easier to compose: counts that hardly ever occur are taken for the last that is kept.

    That is the worst pair of those mechanisms that do not tell such counts apart.
    """

    close = True

    def trimmed(self, mass: float, steps: int = 1) -> LumpedDraws:
        counts = _lumped(self.counts, mass, steps)
        return self if counts is None else LumpedDraws(self.shift, counts)


def _lumped(counts: Counts, mass: float, steps: int) -> list[tuple[int, float]] | None:
    """The counts with the rarest ones, `mass` at most, added to the last that is kept; None where there are none."""
    kept, moved = list(counts), 0.0
    spread = math.sqrt(steps * math.fsum(w * float(k) ** 4 for k, w in kept))  # losses go about with the square of the count
    if steps * math.fsum(w for _, w in kept[1:]) >= _MANY and float(kept[-1][0]) ** 2 <= spread:
        mass = max(mass, 0.01 / steps)  # what hardly ever happens does not make the loss where so much does
    while len(kept) > 1 and moved + kept[-1][1] <= mass:
        moved += kept.pop()[1]
    return [*kept[:-1], (kept[-1][0], kept[-1][1] + moved)] if moved else None


class AttainedDraws(mixture.MixturePair):
    """sum w_k N(k d, 1) against N(0, 1): all records alike but for one, which do occur. The reversed pair has `away` False."""

    def __init__(self, shift: float, counts: Counts, *, away: bool = True) -> None:
        self.shift, self.counts, self.away = shift, tuple(counts), away
        drawn = [(k * shift, w) for k, w in self.counts]
        mixed = [(0.0, max(0.0, 1 - math.fsum(w for _, w in drawn))), *drawn]
        super().__init__(mixed) if away else super().__init__([(0.0, 1.0)], mixed)

    def reverse(self) -> Pair:
        return AttainedDraws(self.shift, self.counts, away=not self.away)

    def trimmed(self, mass: float, steps: int = 1) -> AttainedDraws:
        """A lower bound, easier to compose: more draws than the last that is kept count as that many, which tells less.

        Lowering a shift moves P down in the stochastic order, and the best tests are all half-lines, so no hockey-stick divergence grows.
        """
        counts = _lumped(self.counts, mass, steps)
        return self if counts is None else AttainedDraws(self.shift, counts, away=self.away)
