"""Laplace and bounded-range pairs: closed forms, enumeration over two-point pairs, and the sampled loss by quadrature."""

import math

import mpmath as mp
import numpy as np
import pytest

from tacit.accounting.pairs.laplace import bounded_range, bounded_range_divergence, laplace
from tacit.accounting.pairs.pair import single_delta

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


# --- Rényi divergences of bounded range ------------------------------------------------------------------------------------------------


def two_points(epsilon: float, order: float) -> mp.mpf:
    """The largest divergence of the laws with losses t and t - epsilon, by a golden-section search over t in 40 digits."""
    e, a = mp.mpf(epsilon), mp.mpf(order)

    def divergence(t: mp.mpf) -> mp.mpf:
        high = (1 - mp.exp(t - e)) / (mp.exp(t) - mp.exp(t - e))  # the Q-mass at t
        return mp.log(high * mp.exp(a * t) + (1 - high) * mp.exp(a * (t - e))) / (a - 1)

    low, top, golden = mp.mpf(0), e, (mp.sqrt(5) - 1) / 2
    for _ in range(70):
        left, right = top - golden * (top - low), low + golden * (top - low)
        low, top = (left, top) if divergence(left) < divergence(right) else (low, right)
    return divergence((low + top) / 2)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 40.0])
def test_the_divergence_of_a_bounded_range_is_that_of_its_worst_two_point_law(epsilon: float) -> None:
    orders = [1 + 1e-5, 1.1, 1.5, 2.0, 3.7, 10.0, 300.0]
    found = bounded_range_divergence(epsilon, np.array(orders))
    with mp.workdps(40):
        for order, value in zip(orders, found.tolist(), strict=True):
            truth = two_points(epsilon, order)
            assert truth <= value  # never below
            # and no further above than rounding, or the bound a epsilon^2 / 8 where that is all but reached
            assert value <= truth * (1 + mp.mpf(1e-9)) + 1e-12 or value <= truth * (1 + mp.mpf(epsilon) ** 2), (epsilon, order)
            assert value <= order * epsilon**2 / 8 * (1 + 1e-15) and value <= epsilon


def test_the_bounded_range_pair_costs_up_to_a_third_more() -> None:
    """Which is why the divergence is not taken from the pair: it mixes laws of which a mechanism has one."""
    for epsilon in (0.01, 0.1, 1.0):
        for order in (1.5, 2.0, 16.0):
            own = float(bounded_range_divergence(epsilon, np.array([order]))[0])
            pair = bounded_range(epsilon).kappa(order - 1) / (order - 1)
            assert own < pair < own * 1.34
    assert bounded_range(0.01).kappa(1.0) == pytest.approx(4 / 3 * 2 * 0.01**2 / 8, rel=1e-4)


def test_no_exponential_mechanism_diverges_further() -> None:
    """Random scores of neighbours, summed exactly; the mutant, half the bound, is caught."""
    rng, epsilon, orders = np.random.default_rng(3), 1.5, np.array([1.2, 2.0, 6.0, 40.0])
    bound, nearest = bounded_range_divergence(epsilon, orders), np.zeros(len(orders))
    for _ in range(400):
        count = int(rng.integers(2, 6))
        scores = rng.normal(size=count) * rng.choice([0.1, 1, 10])
        other = scores + rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=count)
        p, q = (np.exp(epsilon / 2 * (x - x.max())) for x in (scores, other))
        p, q = p / p.sum(), q / q.sum()
        with np.errstate(over="ignore"):
            found = np.log((q[:, None] * (p / q)[:, None] ** orders).sum(axis=0)) / (orders - 1)
        assert (found <= bound * (1 + 1e-12)).all()
        nearest = np.maximum(nearest, found / bound)
    assert (nearest > 0.9).all() and (nearest > 0.5).all()


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 1e-3, 700.0, 1e6])
def test_extreme_ranges_have_a_finite_divergence(epsilon: float) -> None:
    orders = np.array([1 + 2.0**-50, 1.5, 1e9, 1e300, math.inf])
    found = bounded_range_divergence(epsilon, orders)
    assert np.isfinite(found).all() and (found >= 0).all() and (found <= epsilon).all()
    assert (np.diff(found[1:]) >= 0).all() and found[-1] == epsilon
