"""Prices against closed forms, mpmath and the accountant; none is ever below the truth."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import (
    GDP,
    ZCDP,
    Adjacency,
    ApproxDP,
    Bound,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Group,
    Laplace,
    NonPrivate,
    NoOp,
    Poisson,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Repeated,
    Sampled,
    TruncatedCDP,
    account,
)
from tacit.accounting.closed_form import as_typed, mu_of_pure
from tacit.ledger import LedgerError, PriceError, booking, price
from tacit.ledger.booking import cheap

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    ("event", "component", "expected"),
    [
        (PureDP(0.1), "pure", TENTH),
        (Laplace(10), "pure", TENTH),
        (DiscreteLaplace(10), "pure", TENTH),
        (DiscreteLaplace(Fraction(20), 2), "pure", TENTH),
        (Group(DiscreteLaplace(10), 3), "pure", 3 * TENTH),
        (Composed(PureDP(0.1), Repeated(Laplace(5), 2)), "pure", Fraction(1, 2)),
        (NoOp(), "pure", 0),
        (Gaussian(2), "rho", Fraction(1, 8)),
        (DiscreteGaussian(2), "rho", Fraction(1, 8)),
        (Group(DiscreteGaussian(2), 2), "rho", Fraction(1, 2)),
        (Group(ZCDP(0.1), 2), "rho", 4 * TENTH),
        (PureDP(Fraction(1, 2)), "rho", Fraction(1, 8)),
        (Composed(PureDP(Fraction(1, 2)), Gaussian(2)), "rho", Fraction(1, 4)),
        (Exponential(Fraction(1, 2)), "rho", Fraction(1, 32)),
        (Group(Repeated(Exponential(Fraction(1, 2)), 8), 3), "rho", Fraction(9, 4)),
        (Repeated(Gaussian(2), 4), "mu2", 1),
        (GDP(0.5), "mu2", Fraction(1, 4)),
        (Group(GDP(0.5), 2), "mu2", 1),
        (Gaussian(1), "renyi:8", 4),
        (DiscreteGaussian(1), "renyi:3/2", Fraction(3, 4)),
        (ApproxDP(0.1, 1e-7), "epsilon", TENTH),
        (Repeated(ApproxDP(0.1, 1e-7), 10), "delta", Fraction(1, 10**6)),
        (PureDP(0.1), "delta", 0),
    ],
    ids=lambda value: str(value)[:50],
)
def test_closed_forms_are_exact(event: Event, component: str, expected: Fraction) -> None:
    assert price(event, [component], ADD)[component] == expected


def test_replace_one_counts_two_steps_of_add_remove() -> None:
    assert price(PureDP(0.1), ["pure"], REPLACE)["pure"] == Fraction(1, 5)
    assert price(ZCDP(0.1), ["rho"], REPLACE)["rho"] == Fraction(4, 10)
    assert price(PureDP(0.1, adjacency=REPLACE), ["pure"], REPLACE)["pure"] == TENTH
    with pytest.raises(PriceError, match="null_record"):
        price(PureDP(0.1, adjacency=REPLACE), ["pure"], ADD)
    assert price(PureDP(0.1, adjacency=REPLACE), ["pure"], ADD, null_record=True)["pure"] == TENTH


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=60))
def test_a_pure_step_as_gdp_is_rounded_up(epsilon: Fraction) -> None:
    """Against 60 digits: 2 Phi^-1(e^eps / (1 + e^eps)), by the inverse error function."""
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        true = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(e / 2))
        found = mpmath.mpf(mu_of_pure(epsilon).numerator) / mu_of_pure(epsilon).denominator
        # below 1e-3 the tangent at zero is used, which is above the curve by a relative eps^2 of order 1e-7
        assert true <= found <= true * (1 + mpmath.mpf("2e-7"))


@pytest.mark.parametrize("epsilon", [100, 800, 5000])
def test_a_huge_epsilon_has_a_finite_mu(epsilon: int) -> None:
    # Phi(-mu/2) = 1/(1+e^eps) and Phi(-x) <= exp(-x^2/2)/2, so mu <= sqrt(8 eps)
    assert mu_of_pure(Fraction(epsilon)) ** 2 <= 8 * epsilon
    assert mu_of_pure(Fraction(epsilon)) ** 2 >= 7 * epsilon


SAMPLED = Repeated(Sampled(Poisson(Fraction(1, 100)), Gaussian(1)), 100)


def test_everything_else_is_priced_by_the_accountant_and_rounded_up() -> None:
    known = account(SAMPLED, ADD)
    share = Fraction(1, 2**17)  # a float, so the accountant is asked at exactly this delta
    assert price(SAMPLED, ["epsilon", "delta"], ADD, delta=share) == {"epsilon": Fraction(known.epsilon(2.0**-17).upper), "delta": share}
    assert Fraction(known.rdp(4).upper) <= price(SAMPLED, ["renyi:4"], ADD)["renyi:4"] <= Fraction(known.rdp(4).upper) * Fraction(1 + 1e-11)
    assert price(RandomizedResponse(1), ["pure"], REPLACE)["pure"] == 1
    # (order - 1) times the divergence is convex: halfway between 1 * 0.5 and 3 * 1 lies 1.75, over 2
    between = price(RenyiDP([(2, 0.5), (4, 1)]), ["renyi:3"], ADD)["renyi:3"]
    assert Fraction(7, 8) <= between < Fraction(7, 8) * Fraction(1 + 1e-11)


@pytest.mark.parametrize("share", [Fraction(1, 10**5), Fraction(1, 3 * 10**5), Fraction(2, 3 * 10**5), Fraction(1, 7 * 10**6)], ids=str)
def test_the_share_of_delta_is_rounded_down_before_it_is_used(monkeypatch: pytest.MonkeyPatch, share: Fraction) -> None:
    """These are no floats; at a float above the booked share the event would be cheaper than it may be."""
    asked: list[float] = []

    def recorded(event: Event, relation: Adjacency, delta: float, **_: bool) -> Bound:
        asked.append(delta)
        return account(event, relation).epsilon(delta)

    monkeypatch.setattr(booking, "cost_of", recorded)
    booking._priced.cache_clear()
    found = price(Gaussian(1), ["epsilon", "delta"], ADD, delta=share)
    booking._priced.cache_clear()
    assert found["delta"] == share
    assert [Fraction(delta) <= share < Fraction(math.nextafter(delta, 1)) for delta in asked] == [True]


def test_the_cheaper_of_stated_and_accounted_is_booked() -> None:
    plan = Repeated(PureDP(Fraction(1, 10)), 3)
    assert price(plan, ["epsilon", "delta"], ADD) == {"epsilon": Fraction(3, 10), "delta": 0}
    small = price(plan, ["epsilon", "delta"], ADD, delta=Fraction(1, 10))
    assert small["epsilon"] < Fraction(3, 10) and small["delta"] == Fraction(1, 10)
    # with a share that buys nothing the exact sum stands, and the delta is not charged
    assert price(plan, ["epsilon", "delta"], ADD, delta=Fraction(1, 10**30)) == {"epsilon": Fraction(3, 10), "delta": 0}


@pytest.mark.parametrize(
    ("event", "component", "message"),
    [
        (Gaussian(1), "pure", "use Laplace noise"),
        (ApproxDP(1, 1e-6), "pure", "use Laplace noise"),
        (NonPrivate(), "pure", "finite epsilon"),
        (NonPrivate(), "rho", "rho"),
        (ApproxDP(1, 1e-6), "rho", "rho"),
        (ZCDP(1), "mu2", "use rho, or epsilon with delta"),
        (SAMPLED, "mu2", "use rho, or epsilon with delta"),
        (TruncatedCDP(1, 2), "renyi:4", "Rényi"),
        (Gaussian(1), "epsilon", "pass delta="),
        (ZCDP(1), "delta", "pass delta="),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_has_no_proven_price_is_refused(event: Event, component: str, message: str) -> None:
    with pytest.raises(PriceError, match=message):
        price(event, [component], ADD)


def test_a_zcdp_guarantee_is_no_gdp_guarantee() -> None:
    """The mutant mu^2 = 2 rho for every event with a rho: for a ZCDP statement it would claim a curve that is not proved."""
    assert price(ZCDP(Fraction(1, 2)), ["rho"], ADD)["rho"] == Fraction(1, 2)
    with pytest.raises(PriceError):
        price(ZCDP(Fraction(1, 2)), ["mu2"], ADD)


def test_only_statements_are_read_as_decimals() -> None:
    assert as_typed(Composed(PureDP(0.1), ApproxDP(0.2, 1e-6), ZCDP(0.3), GDP(0.4), Gaussian(1.1))) == Composed(
        PureDP(TENTH), ApproxDP(Fraction(1, 5), Fraction(1, 10**6)), ZCDP(Fraction(3, 10)), GDP(Fraction(2, 5)), Gaussian(1.1)
    )
    assert price(Laplace(3.3), ["pure"], ADD)["pure"] == 1 / Fraction(3.3)
    assert as_typed(Sampled(Poisson(0.5), Exponential(0.1))) == Sampled(Poisson(0.5), Exponential(0.1))


def test_cheap_prices_only_where_they_are_known() -> None:
    assert cheap(Gaussian(1), ADD) == {"rho": Fraction(1, 2)}
    assert cheap(SAMPLED, ADD) == {}


def test_an_event_is_needed() -> None:
    with pytest.raises(LedgerError, match="event must be an event"):
        price(0.1, ["pure"], ADD)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(3)])
def test_the_exponential_mechanism_is_booked_as_bounded_range(epsilon: Fraction) -> None:
    """eps^2 / 8, a quarter of what any pure guarantee of eps is booked for; replace-one doubles eps. Never below the accountant's curve."""
    assert price(Exponential(epsilon), ["rho"], ADD)["rho"] == epsilon**2 / 8 == price(PureDP(epsilon), ["rho"], ADD)["rho"] / 4
    assert price(Exponential(epsilon), ["rho"], REPLACE)["rho"] == epsilon**2 / 2
    assert cheap(Repeated(Exponential(epsilon), 5), ADD)["rho"] == 5 * epsilon**2 / 8
    for order in (1.01, 2.0, 30.0):
        assert account(Exponential(epsilon), ADD).rdp(order).upper <= float(epsilon**2 / 8) * order * (1 + 1e-12)


def test_discrete_gaussian_noise_has_a_renyi_price_beside_other_steps() -> None:
    alone = price(DiscreteGaussian(2), ["renyi:4"], ADD)["renyi:4"]
    both = price(Composed(DiscreteGaussian(2), PureDP(TENTH)), ["renyi:4"], ADD)["renyi:4"]
    assert alone == Fraction(1, 2) < both < Fraction(1, 2) + Fraction(4, 200) + Fraction(1, 10**6)
