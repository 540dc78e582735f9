"""Gaussian mixtures: cumulants against mpmath quadrature, masses against closed forms, decay against the true characteristic function."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.pairs import mixture
from tacit.accounting.pairs.mixture import MixturePair, gaussian, log_mixture, poisson_gaussian, poisson_gaussian_replaced

PAIRS = [
    gaussian(1.0),
    gaussian(0.5, group=2),
    poisson_gaussian(0.01, 1.0),
    poisson_gaussian(0.3, 0.4),
    poisson_gaussian(0.01, 1.0).reverse(),
    poisson_gaussian(0.1, 2.0, group=3),
    poisson_gaussian(0.1, 2.0, group=3).reverse(),
    poisson_gaussian_replaced(0.2, 1.0),
    MixturePair([(0.5, 0.25), (1.5, 0.75)], [(0.2, 0.5), (0.0, 0.5)]),
]


def _mgf(pair: MixturePair, z: complex) -> mp.mpc:
    """E_P exp(z L) straight from the definition, by adaptive quadrature at 30 digits."""
    with mp.workdps(30):

        def log_density(parts, u, sign):
            return mp.log(sum(mp.mpf(w) * mp.exp(-((u - sign * mp.mpf(m)) ** 2) / 2) for m, w in parts))

        def integrand(u):
            p, q = log_density(pair.up, u, 1), log_density(pair.down, u, -1)
            return mp.exp((1 + mp.mpmathify(z)) * p - mp.mpmathify(z) * q) / mp.sqrt(2 * mp.pi)

        centre = (1 + z.real) * max(m for m, _ in pair.up) + z.real * max(n for n, _ in pair.down)
        points = [-16, -8, -4, -2, 0, 1, 2, 4, max(8, centre), max(8, centre) + 8, max(8, centre) + 16]
        return mp.quad(integrand, points)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("c", [0.3, 1.0, 4.5])
def test_kappa_is_the_log_moment(pair: MixturePair, c: float) -> None:
    truth = float(mp.log(_mgf(pair, complex(c)).real))
    nodes = pair.nodes(c, 0.0)
    assert pair.kappa(c) == pytest.approx(truth, rel=1e-12, abs=1e-16)
    assert abs(nodes.log_mgf - truth) <= nodes.log_error + 1e-15 * abs(truth)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_nodes_reproduce_the_characteristic_function(pair: MixturePair) -> None:
    c, t = 1.5, 7.0
    nodes = pair.nodes(c, t)
    psi = complex(_mgf(pair, complex(c, t)) / _mgf(pair, complex(c)))
    found = complex(np.sum(nodes.weight * np.exp(1j * t * nodes.loss)))
    assert abs(found - psi) <= nodes.error + nodes.slope * t + 1e-14


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("c", [0.5, 3.0])
def test_decay_bounds_every_higher_frequency(pair: MixturePair, c: float) -> None:
    reach = 60.0
    nodes = pair.nodes(c, reach)
    t = np.linspace(0.05, reach, 600)
    size = np.abs(np.exp(1j * t[:, None] * nodes.loss[None, :]) @ nodes.weight)
    worst_later = np.maximum.accumulate(size[::-1])[::-1]
    bounds = np.array([pair.decay(c, float(x)) for x in t])
    assert np.all(bounds >= worst_later - 1e-12)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_masses_add_up_and_agree_with_the_loss(pair: MixturePair) -> None:
    edges = np.concatenate([[-np.inf], np.linspace(-2, 2, 41), [np.inf]])
    p, q = pair.masses(edges)
    assert p.sum() == pytest.approx(1, abs=1e-14)
    assert q.sum() == pytest.approx(1, abs=1e-14)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(p / q)
    inside = (p > 1e-12) & (q > 1e-12)
    assert np.all(ratio[inside] >= edges[:-1][inside] - 1e-9)
    assert np.all(ratio[inside] <= edges[1:][inside] + 1e-9)


@given(q=st.floats(1e-6, 1.0, exclude_max=True), sigma=st.floats(0.2, 50), loss=st.floats(-3, 8), group=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_inversion_of_the_loss(q: float, sigma: float, loss: float, group: int) -> None:
    for pair in (poisson_gaussian(q, sigma, group), poisson_gaussian(q, sigma, group).reverse()):
        low, high = pair.support()
        (u,) = pair.invert(np.array([loss]))
        if loss <= low:
            assert u == -math.inf
        elif loss >= high:
            assert u == math.inf
        elif abs(u) < 1e3:
            slope = abs(pair.loss(np.array([u + 1e-6]))[0] - pair.loss(np.array([u - 1e-6]))[0]) / 2e-6
            assert pair.loss(np.array([u]))[0] == pytest.approx(loss, abs=1e-7 * max(1.0, slope) + 1e-9)


def test_reverse_twice_is_the_same_pair() -> None:
    pair = poisson_gaussian(0.1, 1.0)
    again = pair.reverse().reverse()
    assert (again.up, again.down) == (pair.up, pair.down)


def test_normalisation_of_the_other_law() -> None:
    for pair in PAIRS:
        assert pair.kappa(-1.0) == pytest.approx(0.0, abs=1e-14)
        assert pair.kappa(0.0) == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("pair", PAIRS)
def test_both_masses_are_whole(pair: MixturePair) -> None:
    """E exp(0 L) is P's mass and E exp(-L) is Q's; the quadrature, which is not asked for them, says the same."""
    assert pair.kappa(0.0) == pair.kappa(-1.0) == 0.0
    for c in (0.0, -1.0):
        nodes = pair.nodes(c, 0.0)
        assert abs(nodes.log_mgf) <= nodes.log_error


@pytest.mark.parametrize(
    ("weights", "shifts"),
    [
        ((1.0,), (0.0,)), ((1.0,), (0.7,)), ((0.99, 0.01), (0.0, 1.0)), ((0.2, 0.8), (0.0, -2.5)), ((0.5, 0.5), (0.3, 2.0)),
        ((0.3, 0.6, 0.1), (0.0, 1.0, 9.0)),
    ],
)
def test_the_log_of_a_mixture_keeps_its_digits(weights: tuple[float, ...], shifts: tuple[float, ...]) -> None:
    """Far and near, where one component decides and where all but cancel, against sums of 40 digits."""
    u = np.concatenate([np.linspace(-60, 60, 97), [1e-9, -1e-9, 0.0]])
    found = log_mixture(np.log(weights), np.array(shifts), u)
    with mp.workdps(40):
        logs = [mp.mpf(float(np.log(w))) for w in weights]
        for value, at in zip(found.tolist(), u.tolist(), strict=True):
            terms = [lw + mp.mpf(m) * mp.mpf(at) - mp.mpf(m) ** 2 / 2 for lw, m in zip(logs, shifts, strict=True)]
            truth = mp.log(sum(mp.exp(term) for term in terms))
            assert abs(value - truth) <= 1e-14 * (1e-2 + abs(truth)) + 4e-16 * max(abs(mp.mpf(m) * mp.mpf(at)) for m in shifts)


def test_where_the_mass_lies_is_found_alike_by_floats_and_by_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in PAIRS:
        for c in (-40.0, -3.0, 0.5, 7.0, 90.0):
            with monkeypatch.context() as patch:
                few = MixturePair(pair.up, pair.down).range(c)
                patch.setattr(mixture, "_FEW", 0)
                many = MixturePair(pair.up, pair.down).range(c)
            assert few == pytest.approx(many, rel=1e-12)
