"""Laplace and bounded-range pairs: closed forms, enumeration over two-point pairs, and the sampled loss by quadrature."""

import math

import mpmath as mp
import numpy as np
import pytest

from tacit.accounting.laplace import bounded_range, laplace
from tacit.accounting.pairs import single_delta

PAIRS = [
    laplace(0.1),
    laplace(3.0),
    bounded_range(0.5),
    laplace(2.0).sampled(0.3),
    laplace(2.0).sampled(0.3).reverse(),
    bounded_range(1.0).sampled(0.05),
]


@pytest.mark.parametrize("theta", [0.01, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 64.0])
def test_laplace_divergence_has_its_closed_form(theta: float, order: float) -> None:
    a = order
    with mp.workdps(40):
        truth = float(mp.log(a / mp.mpf(2 * a - 1) * mp.exp((a - 1) * theta) + (a - 1) / mp.mpf(2 * a - 1) * mp.exp(-a * theta)) / (a - 1))
    assert laplace(theta).kappa(a - 1) / (a - 1) == pytest.approx(truth, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize(("eps", "truth"), [(0.0, 0.3934693403), (0.5, 0.2211992169), (0.9, 0.0487705755)])
def test_laplace_profile(eps: float, truth: float) -> None:
    low, high = single_delta(laplace(1.0), eps)
    assert low <= truth + 1e-10 and truth - 1e-10 <= high and high - low < 1e-11


def test_bounded_range_is_the_envelope_of_all_two_point_pairs() -> None:
    epsilon = 0.8
    t = np.linspace(0, epsilon, 20001)
    top = (math.exp(epsilon) - np.exp(t)) / math.expm1(epsilon)
    for x in [0.0, 0.2, 0.5, 0.79]:
        brute = float(np.max(np.where(t > x, top * -np.expm1(x - t), 0.0)))
        low, high = single_delta(bounded_range(epsilon), x)
        assert brute <= high + 1e-12
        assert low <= brute + 1e-7


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_masses_and_atoms_make_two_distributions(pair) -> None:
    low, high = pair.support()
    p, q = pair.masses(np.linspace(low, high, 33))
    loss, mass = pair.atoms()
    assert p.sum() + mass.sum() == pytest.approx(1, abs=1e-13)
    assert q.sum() + (mass * np.exp(-loss)).sum() == pytest.approx(1, abs=1e-13)
    assert pair.kappa(0.0) == pytest.approx(0, abs=1e-14) and pair.kappa(-1.0) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("c", [0.5, 4.0])
def test_nodes_and_decay(pair, c: float) -> None:
    fine = pair.nodes(c, 400.0)
    coarse = pair.nodes(c, 50.0)
    t = np.linspace(0.1, 50, 300)
    psi = np.exp(1j * t[:, None] * fine.loss) @ fine.weight
    again = np.exp(1j * t[:, None] * coarse.loss) @ coarse.weight
    assert np.all(np.abs(psi - again) <= fine.error + coarse.error + t * (fine.slope + coarse.slope) + 1e-13)
    later = np.maximum.accumulate(np.abs(psi)[::-1])[::-1]
    assert np.all(np.array([pair.decay(c, float(x)) for x in t]) >= later - 1e-12)


def test_sampled_laplace_cumulant_against_quadrature() -> None:
    theta, q, c = 2.0, 0.3, 1.7
    with mp.workdps(30):

        def term(x):  # Q centred at 0 with scale 1/theta of the sensitivity, P at 1
            dq = theta / 2 * mp.exp(-theta * abs(x))
            dp = theta / 2 * mp.exp(-theta * abs(x - 1))
            mixed = (1 - q) * dq + q * dp
            return dq * (mixed / dq) ** (1 + c)

        truth = float(mp.log(mp.quad(term, [-mp.inf, 0, 1, mp.inf])))
    assert laplace(theta).sampled(q).kappa(c) == pytest.approx(truth, rel=1e-10)
