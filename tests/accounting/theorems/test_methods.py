"""One theorem at a time: figures of the book's table, order between theorems, and refusals."""

from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import (
    ZCDP,
    AccountingError,
    Adjacency,
    ApproxDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Estimate,
    Gaussian,
    Group,
    Laplace,
    Poisson,
    PureDP,
    RenyiDP,
    Repeated,
    Sampled,
    UnsupportedError,
    account,
)
from tacit.accounting.closed_form import exact_pure, exact_rho
from tacit.accounting.theorems.methods import METHODS

LAPLACE = Repeated(Laplace(10), 100)


@pytest.mark.parametrize(
    ("method", "truth"),
    [
        ("basic", 10.0),
        ("advanced", 5.75652177),
        ("strong", 5.75610552),
        ("drv", 6.30823095),
        ("zcdp-improved", 5.22153444),
        ("optimal", 4.77456759),
        ("heterogeneous", 4.77456759),
        ("pld", 4.69266742),
    ],
)
def test_a_hundred_laplace_answers(method: str, truth: float) -> None:
    assert account(LAPLACE).epsilon(1e-6, method=method).upper == pytest.approx(truth, abs=5e-7)


def test_order_of_the_theorems() -> None:
    figures = [account(LAPLACE).epsilon(1e-6, method=m).upper for m in ("pld", "optimal", "zcdp-improved", "strong", "advanced", "basic")]
    assert figures == sorted(figures)
    sampled = account(Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1000))
    assert sampled.epsilon(1e-5).upper < sampled.epsilon(1e-5, method="rdp-improved").upper < sampled.epsilon(1e-5, method="rdp").upper
    assert sampled.epsilon(1e-5, method="rdp-improved").upper == pytest.approx(2.1, abs=0.01)


def test_central_limit_refuses_to_be_a_bound() -> None:
    found = account(Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1000)).epsilon(1e-5, method="central-limit")
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(1.61771181, abs=1e-7)  # below the truth, 1.828: that is why
    with pytest.raises(AccountingError):
        float(found)
    assert account(Repeated(PureDP(0.1), 100)).epsilon(1e-6, method="central-limit").value == pytest.approx(4.88044243, abs=1e-6)


@pytest.mark.parametrize("method", ["basic", "advanced", "strong", "drv", "optimal", "heterogeneous"])
def test_gaussian_noise_has_no_pure_epsilon(method: str) -> None:
    with pytest.raises(UnsupportedError, match="Gaussian"):
        account(Gaussian(1)).epsilon(1e-5, method=method)


def test_theorems_that_do_not_apply_say_what_does() -> None:
    with pytest.raises(UnsupportedError, match="rdp-improved"):
        account(RenyiDP([(2, 0.1)])).epsilon(1e-5, method="basic")
    with pytest.raises(UnsupportedError, match="zCDP"):
        account(RenyiDP([(2, 0.1)])).epsilon(1e-5, method="zcdp")
    with pytest.raises(UnsupportedError):
        account(ApproxDP(1, 1e-6)).epsilon(1e-5, method="zcdp")
    assert account(ZCDP(0.1)).epsilon(1e-5, method="zcdp-improved").upper == pytest.approx(account(ZCDP(0.1)).epsilon(1e-5).upper, rel=1e-6)


def test_every_method_has_a_description() -> None:
    assert all(METHODS.values())


def test_exact_prices_know_discrete_noise() -> None:
    event = Repeated(Group(DiscreteLaplace(Fraction(5, 2), 2), 3), 4)
    assert exact_pure(event, Adjacency.ADD_REMOVE) == Fraction(4 * 3 * 2 * 2, 5)
    assert account(event).epsilon(0).upper == pytest.approx(9.6, rel=1e-15)
    normal = Composed(DiscreteGaussian(3, 2), Gaussian(2))
    assert exact_rho(normal, Adjacency.ADD_REMOVE) == Fraction(4, 18) + Fraction(1, 8)
    assert exact_rho(normal, Adjacency.REPLACE_ONE) == 4 * (Fraction(4, 18) + Fraction(1, 8))
    # a guarantee: no order of the exact divergence, summed over the integers, exceeds it
    x = np.arange(-200.0, 203.0)
    for order in (1.5, 2.0, 8.0):
        terms = order * -((x - 2) ** 2) / 18 + (1 - order) * -(x**2) / 18
        log_total = np.logaddexp.reduce(terms) - np.logaddexp.reduce(-(x**2) / 18)
        assert log_total / (order - 1) / order <= 4 / 18 * (1 + 1e-12)
