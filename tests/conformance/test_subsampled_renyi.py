"""The source texts' numbers on sampled Rényi divergence (items 8.1 to 8.8; Steinke 2022, section 3.6)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting.theorems import renyi
from tacit.accounting.theorems import subsampled_renyi as sub
from tacit.errors import UnsupportedError

P = 0.05  # Figure 3.2: rate 0.05, rho 0.5


def unit(a: np.ndarray) -> np.ndarray:
    return np.asarray(a) / 2


# order: sharp, analytic (and its auxiliary order), single-order, lower, added direction
FIGURE = {
    2: (0.0042865044, 0.01380166, 3.5, 0.06384224, 0, 0.0033290303),
    3: (0.0072612433, 0.02682552, 3, 0.12363317, 0, 0.0046827135),
    4: (0.0114162689, 0.08079833, 4, 0.21398487, 0, 0.0058910637),
    5: (0.0185892354, 0.52497148, 5, 0.34652139, 0, 0.0069824548),
    6: (0.0394013597, 1.33674104, 6, 0.53294949, 0, 0.0079774617),
    7: (0.1663876145, 2.09536578, 7, 0.78169026, 0.00497901, 0.0088915355),
    8: (0.6012689140, 2.80020329, 8, 1.09454767, 0.57630597, 0.0097366076),
    10: (1.6740605638, 4.11276923, 10, 1.88419196, 1.67140858, 0.0112556066),
    16: (4.8045584416, 7.69313912, 16, 4.81570293, 4.80455224, 0.0148494781),
    32: (12.9076312015, 16.45239219, 32, 12.90763484, 12.90763120, 0.0208440900),
}


@pytest.mark.parametrize("order", FIGURE)
def test_8_3_figure(order: int) -> None:
    sharp, analytic, auxiliary, single, lower, add = FIGURE[order]
    assert sub.poisson([order], P, unit)[0] == pytest.approx(sharp, abs=6e-11)
    assert sub.gaussian([order], P, 1, "remove")[0] == pytest.approx(sharp, abs=6e-11)
    assert sub.analytic([order], P, unit, auxiliary=auxiliary)[0] == pytest.approx(analytic, abs=6e-9)
    assert analytic * (1 - 1e-5) <= sub.analytic([order], P, unit)[0] <= analytic + 6e-9  # the best w, found to more digits
    assert sub.single_order([order], P, unit)[0] == pytest.approx(single, abs=6e-9)
    assert sub.lower([order], P, unit)[0] == pytest.approx(lower, abs=6e-9)
    assert sub.gaussian([order], P, 1, "add")[0] == pytest.approx(add, abs=6e-11)
    assert lower <= sub.best([order], P, unit)[0] <= min(sharp, analytic, single, order / 2) * (1 + 1e-9)


def test_8_3_larger_orders_and_the_unamplified_curve() -> None:
    assert sub.poisson([64, 128], P, unit) == pytest.approx([28.9567164205, 60.9806792833], abs=6e-11)
    assert FIGURE[32][1] > 16  # the analytic bound is above the unamplified curve: hence always the minimum
    assert sub.best([32], P, unit)[0] < 16


@pytest.mark.parametrize(
    ("rate", "sigma", "order", "value"),
    [
        *[(0.01, 1, 2, 1.718134221e-4), (0.01, 1, 3, 2.646375746e-4), (0.01, 1, 4, 3.631540489e-4), (0.01, 1, 8, 8.936439076e-4)],
        *[(0.01, 1, 16, 3.087850784), (0.01, 1, 32, 11.24627594), (0.01, 4, 17, 5.536326803e-5), (0.01, 4, 32, 1.052636066e-4)],
        (0.01, 0.5, 512, 1019.385818),
    ],
)
def test_8_3_other_checks(rate: float, sigma: float, order: int, value: float) -> None:
    assert sub.poisson([order], rate, lambda a: a / (2 * sigma**2))[0] == pytest.approx(value, rel=6e-10)


def test_8_1_real_orders() -> None:
    assert sub.gaussian([1.5, 2.5], P, 1) == pytest.approx([0.0030543256, 0.0056725336], abs=6e-11)
    assert sub.poisson([2.5], P, unit)[0] == pytest.approx(0.0062696636, abs=6e-11)
    assert sub.poisson([math.ceil(2.5)], P, unit)[0] == pytest.approx(0.0072612433, abs=6e-11)
    assert sub.poisson([7.5], 1, unit)[0] == 3.75  # a rate of 1 is the base


def test_8_2_one_direction_does_not_speak_for_the_other() -> None:
    """For asymmetric pairs adding can cost more than removing; the base must bound both directions."""

    def divergence(p: np.ndarray, q: np.ndarray, a: float) -> float:
        return math.log(float(np.sum(p**a * q ** (1 - a)))) / (a - 1)

    p, q, rate, order = np.array([0.01, 0.99]), np.array([0.3, 0.7]), 0.5, 3.0
    mixed, other = rate * p + (1 - rate) * q, rate * q + (1 - rate) * p
    assert divergence(q, mixed, order) > divergence(mixed, q, order)
    assert divergence(q, mixed, order) <= divergence(other, p, order)
    one_sided = sub.poisson([order], rate, lambda a: np.array([divergence(p, q, x) for x in np.atleast_1d(a)]))[0]
    assert one_sided < divergence(q, mixed, order)
    two_sided = sub.poisson([order], rate, lambda a: np.array([max(divergence(p, q, x), divergence(q, p, x)) for x in np.atleast_1d(a)]))[0]
    assert two_sided >= divergence(q, mixed, order)


def test_8_4_conditions_of_the_analytic_bound() -> None:
    assert sub.analytic([2], 0.64, unit)[0] == math.inf and sub.analytic([2], 0.63, unit)[0] < math.inf


def test_8_7_planning_theorem() -> None:
    scale, limit = sub.truncated_concentrated(1e-3, 0.1)
    assert limit == pytest.approx(6.623413, abs=6e-7) and 2 * scale == pytest.approx(2e-6)
    assert sub.poisson([2], 1e-3, lambda a: 0.1 * a)[0] == pytest.approx(2.214027337e-7, rel=6e-10)
    scale, limit = sub.truncated_concentrated(1e-4, 0.5)
    assert limit == pytest.approx(4.605170, abs=6e-7)
    assert sub.poisson([2], 1e-4, unit)[0] / (2 * scale) == pytest.approx(0.172, abs=6e-4)
    for rate, rho in [(0.05, 0.5), (0.01, 0.05), (0.01, 0.01)]:
        with pytest.raises(UnsupportedError):
            sub.truncated_concentrated(rate, rho)
    with pytest.raises(UnsupportedError, match=r"3\.46\d* and has w = 1\.49"):  # the parameters of Figure 3.2
        sub.truncated_concentrated(0.05, 0.5)


def test_8_8_fixed_size() -> None:
    def base(a: np.ndarray) -> np.ndarray:
        return np.asarray(a) / 8  # sensitivity 2 under replacement, noise 4

    def half(a: np.ndarray) -> np.ndarray:
        return sub.poisson(a, 0.01, base)

    assert float(half(np.array(2.0))) == pytest.approx(2.840213832e-5, rel=6e-10)  # one-sided
    assert renyi.triangle(2.0, 4.0, half, half) == pytest.approx(1.141350715e-4, rel=6e-10)
    assert sub.without_replacement_group([2], 0.01, base)[0] == pytest.approx(1.141350715e-4, rel=6e-10)
    assert sub.without_replacement_moments([2], 0.01, base)[0] == pytest.approx(1.136037e-4, rel=6e-7)
    assert 2.84e-5 < sub.best([2], 0.01, base, "without replacement")[0] == pytest.approx(1.136037e-4, rel=6e-7)
