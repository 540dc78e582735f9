"""A Gaussian sum over a sample of fixed size, one record replaced: smooth on either side of 0, with an atom there.

>>> pair = FixedSizeGaussian(0.01, 2.0)
>>> bool(abs(pair.kappa(0.0)) < 1e-15)
True
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from tacit.accounting.mixture import MixturePair, log_mixture
from tacit.accounting.pairs import Array, Nodes
from tacit.accounting.sampled import Mirrored

_UNIT = 2.0**-53
_ORDER = 32
_X, _W = np.polynomial.legendre.leggauss(_ORDER)
_CUT = 13.0
_MAX_NODES = 100_000


class FixedSizeGaussian(Mirrored):
    """The mirrored pair of (1-q) N(0,1) + q N(mu,1) against N(0,1): losses log A(u) and -log A(u) for u > mu/2, and an atom at 0.

    `mu` is the shift under replacement, twice the clipping norm over the noise's standard deviation for clipped sums.
    """

    def __init__(self, rate: float, mu: float) -> None:
        super().__init__(MixturePair([(0.0, 1 - rate), (mu, rate)]))
        self.rate, self.mu = rate, mu
        self.rest = 1 - float((2 - rate) * ndtr(-mu / 2) + rate * ndtr(mu / 2))
        self._log_weights, self._shifts = np.log([1 - rate, rate]), np.array([0.0, mu])
        self._nodes = lru_cache(maxsize=64)(self._make_nodes)
        self._variation = lru_cache(maxsize=8)(self._make_variation)

    def __repr__(self) -> str:
        return f"FixedSizeGaussian({self.rate}, {self.mu})"

    def kappa(self, c: float) -> float:
        return self._nodes(c, 0.0).log_mgf

    def nodes(self, c: float, reach: float) -> Nodes:
        return self._nodes(c, 2.0 ** math.ceil(math.log2(reach)) if reach > 0 else 0.0)

    def _end(self, c: float) -> float:
        return max(c + 1, -c, 0.0) * self.mu + _CUT

    def _make_nodes(self, c: float, reach: float) -> Nodes:
        # Gauss-Legendre panels; inside the ellipses |Im u| <= y, where A stays in the right half-plane, the integrand is at most its
        # largest value on the line times exp(y^2/2 + t mu y) and a power of the cosine (Trefethen 2013, Theorem 19.3).
        start, end = self.mu / 2, self._end(c)
        half = min(0.5, 0.5 / self.mu, 14.0 / (self.mu * reach) if reach > 0 else 1.0)
        panels = math.ceil((end - start) / (2 * half))
        if panels * _ORDER > _MAX_NODES:
            raise OverflowError("too many quadrature nodes")
        half = (end - start) / (2 * panels)
        minor = min(1.0 / (self.mu * half), 2.0 / half, 4.0)
        rho, y = minor + math.hypot(1.0, minor), half * minor
        centres = start + half * (2 * np.arange(panels) + 1)
        u = (centres[:, None] + half * _X[None, :]).ravel()
        a = log_mixture(self._log_weights, self._shifts, u)
        normal = -0.5 * u * u - 0.5 * math.log(2 * math.pi) + np.log(half * np.tile(_W, panels))
        loss = np.concatenate([[0.0], a, -a])
        log_weight = np.concatenate([[math.log(max(self.rest, 1e-300))], normal + (1 + c) * a, normal - c * a])
        peak = float(log_weight.max())
        raw = np.exp(log_weight - peak)
        total = float(raw.sum())
        weight = raw / total
        log_mgf = peak + math.log(total)
        line = np.linspace(start - 4 * half, end, 512)
        top = -0.5 * line * line + max(c + 1, -c) * log_mixture(self._log_weights, self._shifts, line) - 0.5 * math.log(2 * math.pi)
        growth = 0.5 * y * y + reach * self.mu * y + abs(c + 1) * math.log(1 / math.cos(min(self.mu * y, 1.5)))
        log_truncation = float(top.max()) + 0.1 - log_mgf + growth - 2 * _ORDER * math.log(rho) + math.log((64 / 15) * (end - start))
        truncation = 2 * math.exp(min(log_truncation, 0.0)) + 2 * float(weight[panels * _ORDER] + weight[-1])
        magnitude = 4 + np.abs((abs(c) + 1) * loss) + np.abs(np.concatenate([[0.0], normal, normal]))
        rounding = 2 * _UNIT * float(np.dot(weight, magnitude))
        return Nodes(loss, weight, log_mgf, truncation + rounding, truncation + rounding, 4 * _UNIT * float(np.dot(weight, np.abs(loss))))

    def _make_variation(self, c: float) -> float:
        """Ends plus total variation of density over slope on both sides: integration by parts bounds each side by this over t."""
        u = np.linspace(self.mu / 2, self._end(c), 8192)
        a = log_mixture(self._log_weights, self._shifts, u)
        log_slope = math.log(self.mu * self.rate) + self.mu * u - self.mu**2 / 2 - a
        level = self.kappa(c)
        total = 0.0
        for power in (1 + c, -c):
            f = np.exp(np.minimum(-0.5 * u * u - 0.5 * math.log(2 * math.pi) + power * a - log_slope - level, 700.0))
            total += float(f[0] + np.abs(np.diff(f)).sum())
        return 1.02 * total  # few turning points, each sampled finely; the factor covers what lies between samples

    def decay(self, c: float, t: float) -> float:
        return min(1.0, self.rest * math.exp(-self.kappa(c)) + self._variation(c) / t)
