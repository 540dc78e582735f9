"""A Gaussian sum over a sample of fixed size, one record replaced: smooth on either side of 0, with an atom there.

>>> pair = FixedSizeGaussian(0.01, 2.0)
>>> bool(abs(pair.kappa(0.0)) < 1e-15)
True
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tacit.accounting.mixture import MixturePair, log_mixture
from tacit.accounting.pairs import Array, Nodes
from tacit.accounting.sampled import Mirrored
from tacit.accounting.special import ndtr

_UNIT = 2.0**-53
_ORDER = 32
_X, _W = np.polynomial.legendre.leggauss(_ORDER)
_CUT = 13.0
_MAX_NODES = 100_000


class FixedSizeGaussian(Mirrored):
    """The mirrored pair of (1-q) N(0,1) + q N(mu,1) against N(0,1): losses log A(u) and -log A(u) for u > mu/2, and an atom at 0.

    `mu` is the shift under replacement: twice the clipping norm over the noise's standard deviation for clipped sums.
    """

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
        try:
            return self._nodes(c, 0.0).log_mgf
        except OverflowError:  # too far out for the quadrature; infinity is a valid upper bound
            return math.inf

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
