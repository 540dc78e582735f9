"""Smooth parts of a Gaussian mixture pair: its small losses, or its large ones, each with all moments under control.

A cut at output u0 with width w weighs the outputs by Phi((u0 - u) / w) or by Phi((u - u0) / w). The two weights add up to 1, and both
are entire functions: |Phi(x + iy)| <= exp(y^2/2) Phi(x), since Phi(x + iy) is the integral of the normal density along the shifted
line. So what is known of the whole pair carries over with one more factor exp(y^2 / (2 w^2)) for each cut: quadratures converge
exponentially, and bent contours bound the characteristic function. A sharp cut would have neither.

>>> from tacit.accounting.pairs.mixture import poisson_gaussian
>>> pair = poisson_gaussian(0.01, 1.0)
>>> small, large = Part(pair, None, (3.0, 6.0), 0.25), Part(pair, 3.0, (6.0,), 0.25)
>>> both = math.exp(small.kappa(1.0)) + math.exp(large.kappa(1.0))
>>> abs(math.log(both) - Part(pair, None, (6.0,), 0.25).kappa(1.0)) < 1e-13
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Array, Nodes, Pair
from tacit.accounting.special import log_ndtr, ndtr

REACH = 14.0  # widths beyond a cut at which a part ends
ENDS = 7.8e-45  # Phi(-14): the share of the outputs beyond an end that the part would have
_UNIT = 4 * 2.0**-53
_END = 1e-15  # the tilted density at a sharp end may have this share of the whole
_MOST = 60_000  # quadrature nodes


class Part(Pair):
    """The outputs of `pair` above one smooth cut, if any, and below others, all of one width.

    A measure of less than mass 1. It ends `REACH` widths beyond its cuts, so a tilt at which its density is not
    negligible there is refused with `OverflowError`. Quadratures are right to exp(-`digits`).
    """

    def __init__(self, pair: MixturePair, low: float | None, high: Sequence[float], width: float, digits: float = 40.0) -> None:
        self.pair, self.low, self.high, self.width = pair, low, tuple(sorted(high)), width
        self._digits = digits
        self.end = self.high[0] + REACH * width
        self._cuts = len(self.high) + (low is not None)
        self._first = -math.inf if low is None else low - REACH * width
        # nearly the whole pair, so that its cumulant is best had from what is missing
        self._whole = self.high[0] > 0 and (low is None or (low < 0 and self.high[0] - low > 22 * width))
        self._shift = float(max(pair.shifts[0].max(), pair.shifts[1].max()))
        self._nodes = lru_cache(maxsize=32)(self._make_nodes)
        self._tails = lru_cache(maxsize=8)(self._make_tails)
        self._shifted = lru_cache(maxsize=32)(self._shifted_lines)

    def __repr__(self) -> str:
        return f"Part({self.pair!r}, {self.low}, {self.high}, {self.width})"

    def reverse(self) -> Pair:
        raise NotImplementedError("a part stands for one direction")

    def masses(self, edges: Array) -> tuple[Array, Array]:
        raise NotImplementedError("a part has smooth ends")

    def share(self, u: Array) -> Array:
        """log of the weight of each output."""
        found = self._below(u, self.high)
        return found if self.low is None else np.asarray(found + log_ndtr((u - self.low) / self.width))

    def _below(self, u: Array, cuts: Sequence[float]) -> Array:
        return np.asarray(sum(log_ndtr((cut - u) / self.width) for cut in cuts))

    def _range(self, c: float) -> tuple[float, float]:
        low, high = self.pair.range(c)
        end = self.end
        if self.low is not None:  # all of it may lie where the whole pair has next to nothing
            return (max(low, self._first) if self.low < 0 else self._first), end
        return low, max(min(high, end), low + self.width)

    def support(self) -> tuple[float, float]:
        low, high = self.pair.support()
        ends = [self.end] + ([] if self.low is None else [self._first])
        losses = self.pair.loss(np.array(ends))
        return (low if self.low is None else max(low, float(losses[1]))), min(high, float(losses[0]))

    def kappa(self, c: float) -> float:
        return self.nodes(c, 0.0).log_mgf

    def _shifted_lines(self, low: int, high: int) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
        """Distances of lines from the real one, and on them, at outputs between low and high, what the tilt is applied to."""
        widest = 0.98 * self.pair.strip / max(self._shift, 1e-300)
        d = min(widest, 6.0, 8.0 * self.width) * np.geomspace(0.05, 1.0, 10)
        u = np.linspace(low, high, 320)
        size_a, angle_a = self.pair.polar(0, u, d)
        size_b, angle_b = self.pair.polar(1, u, d)
        share = self.share(u) - 0.5 * u * u
        return d, share, size_a, size_b, np.abs(angle_a - angle_b), self.pair.log_up(u), self.pair.log_down(u)

    def _step(self, c: float, reach: float) -> float:
        """The widest step whose aliasing is at most exp(-digits) of E exp(c L) up to this frequency, from fine sums on shifted lines."""
        low, high = self._range(c)
        # a little wider than asked, so that neighbouring tilts share one table
        d, share, size_a, size_b, turn, log_up, log_down = self._shifted(math.floor(low), math.ceil(high))
        exponent = (c + 1) * size_a - c * size_b + reach * turn + share
        real = (c + 1) * log_up - c * log_down + share
        peak = float(real.max())
        base = math.log(float(np.exp(real - peak).sum()))
        top = exponent.max(axis=1)
        growth = top - peak + np.log(np.exp(exponent - top[:, None]).sum(axis=1)) - base + 0.1
        growth = growth + 0.5 * d * d * (1 + self._cuts / self.width**2)
        step = float((2 * math.pi * d / (self._digits + math.log(4) + growth)).max())
        if not step > 1e-4:
            raise OverflowError("too many quadrature nodes")
        return min(0.65, step)

    def _outputs(self, c: float, reach: float) -> tuple[Array, float]:
        low, high = self._range(c)
        step = self._step(c, reach)
        size = int((high - low) / step) + 2
        if size > _MOST:
            raise OverflowError("too many quadrature nodes")
        return low + step * np.arange(size, dtype=np.float64), step

    def moments(self, c: Array) -> tuple[Array, Array, Array]:
        """kappa and two derivatives; infinite kappa at tilts that the part's end does not admit."""
        first, last = float(c.min()), float(c.max())
        low, high = min(self._range(x)[0] for x in (first, last)), max(self._range(x)[1] for x in (first, last))
        step = min(self._step(x, 0.0) for x in (first, last, math.sqrt(max(first, 1e-300) * max(last, 1e-300))))
        size = int((high - low) / step) + 2
        if size * len(c) > 2_000_000:
            raise OverflowError("too many quadrature nodes")
        u: Array = low + step * np.arange(size, dtype=np.float64)
        a, b = self.pair.log_up(u), self.pair.log_down(u)
        loss = a - b
        exponent = (math.log(step) - 0.5 * math.log(2 * math.pi) - 0.5 * u * u + a + self.share(u))[None, :] + c[:, None] * loss[None, :]
        peak = exponent.max(axis=1, keepdims=True)
        weight = np.exp(exponent - peak)
        total = weight.sum(axis=1)
        level = peak[:, 0] + np.log(total)
        mean = weight @ loss / total
        second = np.array([float(row @ (loss - centre) ** 2) for row, centre in zip(weight, mean, strict=True)]) / total
        spoiled = (weight[:, 0] + weight[:, -1]) / (step * total) > _END
        return np.where(spoiled, np.inf, level), mean, np.maximum(second, 1e-300)

    def nodes(self, c: float, reach: float) -> Nodes:
        return self._nodes(c, reach)

    def _make_nodes(self, c: float, reach: float) -> Nodes:
        u, step = self._outputs(c, reach)
        a, b = self.pair.log_up(u), self.pair.log_down(u)
        share = self.share(u)
        normal = -0.5 * u * u - 0.5 * math.log(2 * math.pi) + math.log(step) + share
        growth = (c + 1) * a - c * b
        magnitude = np.abs((c + 1) * a) + np.abs(c * b)
        exponent = normal + growth
        peak = float(exponent.max())
        raw = np.exp(exponent - peak)
        total = float(raw.sum())
        weight = raw / total
        # rounding of the share: that of its argument, times the slope of its logarithm
        slant = np.abs(u / self.width) * (1 + np.abs(share) / self.width)
        relative = _UNIT * (4 + 4 * magnitude + 0.5 * u * u + np.abs(share) + np.minimum(slant, 1e6) * (share < -1e-17))
        if self._whole and float(growth.max()) < 30.0:
            # all but the normal mass beyond the cut: small cumulants keep their digits
            base = np.exp(normal)
            excess = float(np.dot(base, np.expm1(growth))) - float(ndtr(-self.high[0] / math.hypot(1.0, self.width)))
            if self.low is not None:
                excess -= float(ndtr(self.low / math.hypot(1.0, self.width)))
            if len(self.high) > 1:
                first = log_ndtr((self.high[0] - u) / self.width)
                excess += float(np.dot(np.exp(normal - share + first), np.expm1(self._below(u, self.high[1:]))))
            log_mgf = math.log1p(excess)
            bend = np.abs(np.expm1(growth))
            log_error = float(np.dot(base, 4 * _UNIT * np.exp(growth) * magnitude + bend * relative)) / (1 + excess)
            log_error += 4 * _UNIT * abs(log_mgf)
        else:
            log_mgf = peak + math.log(total)
            log_error = float(np.dot(weight, relative)) + 4 * _UNIT * abs(log_mgf)
        # at a sharp end the rule is off by no more than the density there over a few units of output
        end = 8.0 * float(weight[0] + weight[-1]) / step
        if end > 8 * _END:
            raise OverflowError("the tilt reaches the end of the part")
        missed = 2 * math.exp(-self._digits) + end
        loss = a - b
        spread = np.abs(loss - float(np.dot(weight, loss)))
        slope = float(np.dot(weight, relative * spread + 4 * _UNIT * (np.abs(a) + np.abs(b))))
        return Nodes(loss, weight, log_mgf, missed, log_error + missed, slope)

    def _make_tails(self, c: float) -> tuple[Array, Array, float]:
        u, step = self._outputs(c, 0.0)
        stride = max(1, int(0.5 * self.width / step))  # sizes are smooth on the scale of the cuts
        u, step = u[::stride], stride * step
        log_weight, angle = self.pair.bent(c, u, step, 8.0 * self.width)
        found = self.nodes(c, 0.0)
        y = self.pair.bends(u, 8.0 * self.width)[0]
        log_weight = log_weight + self.share(u) + 0.5 * self._cuts * (y / self.width) ** 2 - found.log_mgf
        keep = log_weight.max(axis=0) > -55
        return log_weight[:, keep], angle[:, keep], found.error

    def decay(self, c: float, t: float) -> float:
        log_weight, angle, end = self._tails(c)
        return min(1.0, float(np.exp(np.minimum(log_weight - t * angle, 600.0)).sum(axis=1).min()) + end + 1e-20)


