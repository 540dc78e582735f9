"""Smooth parts of a mixture pair against another quadrature, against the whole, and on the frequencies that a contour meets."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tacit.accounting.pairs.mixture import MixturePair, poisson_gaussian, poisson_gaussian_replaced
from tacit.accounting.pairs.part import Part

PAIRS = {"add/remove": poisson_gaussian(1e-3, 0.8), "replace-one": poisson_gaussian_replaced(1e-3, 0.8)}


def _moment(part: Part, z: complex) -> complex:
    """E[exp(z L)] of a part from the densities alone, by 9,600 points of Gauss and Legendre."""
    x, w = np.polynomial.legendre.leggauss(24)
    cuts = np.linspace(-14, part.end, 401)
    half = 0.5 * np.diff(cuts)[:, None]
    u, weight = (cuts[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()

    def density(parts: tuple[tuple[float, float], ...], sign: int) -> np.ndarray:
        return sum(v * np.exp(-0.5 * (u - sign * m) ** 2) for m, v in parts) / math.sqrt(2 * math.pi)

    p, q = density(part.pair.up, 1), density(part.pair.down, -1)
    share = np.prod([norm.cdf((h - u) / part.width) for h in part.high], axis=0)
    share = share * (norm.cdf((u - part.low) / part.width) if part.low is not None else 1.0)
    values = weight * p * share * np.exp(z * np.log(p / q))
    return complex(math.fsum(values.real), math.fsum(values.imag) if np.iscomplexobj(values) else 0.0)


@pytest.mark.parametrize("relation", PAIRS)
@pytest.mark.parametrize(("low", "high"), [(None, (3.0,)), (3.0, (6.0,)), (None, (3.0, 4.0))])
@pytest.mark.parametrize("c", [0.0, 1.5, -1.0])
def test_moments_are_those_of_the_densities(relation: str, low: float | None, high: tuple[float, ...], c: float) -> None:
    part = Part(PAIRS[relation], low, high, 0.2)
    found, truth = part.nodes(c, 0.0), _moment(part, c)
    assert abs(found.log_mgf - math.log(truth.real)) <= found.log_error + 1e-13  # the oracle's own rounding


@pytest.mark.parametrize("relation", PAIRS)
def test_frequencies_and_their_bound(relation: str) -> None:
    part, c = Part(PAIRS[relation], 3.0, (5.0,), 0.2), 4.0
    for t in (2.0, 40.0):
        nodes = part.nodes(c, t)
        value = complex(np.dot(nodes.weight, np.exp(1j * t * nodes.loss)))
        truth = _moment(part, complex(c, t)) / _moment(part, c)
        assert abs(value - truth) <= nodes.error + t * nodes.slope + 1e-12  # the oracle's own rounding
        assert abs(truth) <= part.decay(c, t) <= part.decay(c, 0.5 * t) + 1e-15
    assert part.decay(c, 4000.0) < 1e-6  # smooth ends: a sharp cut would still have about 1 / 40


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_parts_add_up_to_the_whole(pair: MixturePair) -> None:
    parts = [Part(pair, None, (2.0, 2.4, 9.0), 0.2), Part(pair, 2.0, (2.4, 9.0), 0.2), Part(pair, 2.4, (9.0,), 0.2)]
    total = math.fsum(math.exp(part.kappa(0.7)) for part in parts)
    assert abs(total / math.exp(pair.kappa(0.7)) - 1) < 1e-13
    # the mutant whose lowest part forgets the second cut counts what lies around both twice
    doubled = math.exp(Part(pair, None, (2.0,), 0.2).kappa(0.7)) + math.fsum(math.exp(part.kappa(0.7)) for part in parts[1:])
    assert abs(doubled / math.exp(pair.kappa(0.7)) - 1) > 1e-6


def test_a_tilt_that_reaches_the_end_is_refused() -> None:
    part = Part(poisson_gaussian(1e-6, 3.0), None, (8.0,), 0.5)
    assert part.kappa(1e5) < 1.0
    with pytest.raises(OverflowError):
        part.kappa(1e9)
    with pytest.raises(OverflowError):
        part.moments(np.array([1e5, 1e9]))
