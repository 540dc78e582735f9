"""How much privacy: one currency, exact, read back as printed, split without loss, and never more than was promised."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.accounting import (
    GDP,
    ZCDP,
    Adjacency,
    AdjacencyError,
    ApproxDP,
    Composed,
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    Guarantee,
    Laplace,
    ParameterError,
    Poisson,
    PureDP,
    RenyiDP,
    Repeated,
    Sampled,
    account,
)
from tacit.accounting.guarantee import MARGIN

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
AMOUNTS = st.fractions(min_value=0, max_value=100, max_denominator=10**9)
POSITIVE = st.fractions(min_value=Fraction(1, 10**6), max_value=100, max_denominator=10**9)
SMALL = st.fractions(min_value=0, max_value=Fraction(99, 100), max_denominator=10**12)
GUARANTEES = st.one_of(
    st.builds(lambda e: Guarantee(epsilon=e), AMOUNTS),
    st.builds(lambda e, d: Guarantee(epsilon=e, delta=d), AMOUNTS, SMALL),
    st.builds(lambda r: Guarantee(rho=r), AMOUNTS),
    st.builds(lambda m: Guarantee(mu=m), AMOUNTS),
    st.builds(lambda m: Guarantee(mu2=m), AMOUNTS),
    st.builds(lambda a, b: Guarantee(renyi={Fraction(3, 2): a, 8: b}), AMOUNTS, AMOUNTS),
)


# --- where they come from ---------------------------------------------------------------------------------------------------


@given(GUARANTEES)
def test_what_is_printed_is_read_back(found: Guarantee) -> None:
    assert Guarantee.parse(str(found)) == found
    assert Guarantee.parse(str(found).upper()) == found
    assert Guarantee.of_parts(found.limits) == found
    assert Guarantee.from_record(json.loads(json.dumps(found.to_record()))) == found
    assert hash(Guarantee.parse(str(found))) == hash(found)
    if "/" not in repr(found):  # a decimal can be typed again as it is shown; a fraction is shown to be read
        assert eval(repr(found), {"Guarantee": Guarantee}) == found


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_floats_are_the_floats_that_were_typed(x: float) -> None:
    assert Guarantee(epsilon=x).floats.epsilon == x
    assert Guarantee(rho=x).floats.rho == x
    assert Guarantee(epsilon=Fraction(repr(x))) == Guarantee(epsilon=x) == Guarantee(epsilon=repr(x))


@given(POSITIVE)
def test_other_floats_are_not_above(x: Fraction) -> None:
    found = Guarantee(epsilon=x).floats.epsilon
    assert found is not None
    assert Fraction(found) <= x or Fraction(repr(found)) == x
    assert Fraction(math.nextafter(found, math.inf)) > x


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eps=1, delta=1e-6", Guarantee(epsilon=1, delta=1e-6)),
        ("delta=1e-6,epsilon=1", Guarantee(epsilon=1, delta=Fraction(1, 10**6))),
        (" EPS = 1/3 ", Guarantee(epsilon=Fraction(1, 3))),
        ("eps=1,delta=0", Guarantee(epsilon=1)),
        ("mu=0.5", Guarantee(mu="1/2")),
        ("rho=.1", Guarantee(rho=Decimal("0.1"))),
        ("renyi:2=0.1, renyi:5/2=1", Guarantee(renyi={2: 0.1, 2.5: 1})),
    ],
)
def test_texts(text: str, expected: Guarantee) -> None:
    assert Guarantee.parse(text) == Guarantee.of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "1", "eps", "eps=", "eps=one", "eps=nan", "eps=inf", "eps=-1", "eps=1,eps=2", "eps=1,epsilon=1", "delta=1e-6"),
        *("eps=1,delta=1", "eps=1,delta=-1e-9", "rho=1,delta=1e-6", "rho=1,mu=1", "renyi:1=1", "renyi:x=1", "eps=1e999", "x=1"),
        *("eps=1;delta=1e-6", "eps=1/0", "eps=" + "9" * 5000, "eps=1," * 10**5, "eps=True", "eps=1, renyi:2=1"),
    ],
    ids=lambda text: text[:20],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        Guarantee.parse(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one currency"),
        ({"epsilon": 1, "rho": 1}, "one currency"),
        ({"mu": 1, "mu2": 1}, "one currency"),
        ({"delta": 1e-6}, "one currency"),
        ({"rho": 1, "delta": 1e-6}, "delta belongs to epsilon"),
        ({"epsilon": -1}, "epsilon must be zero or more"),
        ({"epsilon": 1, "delta": 1}, "delta must be below 1"),
        ({"epsilon": float("inf")}, "finite"),
        ({"mu": float("nan")}, "finite"),
        ({"mu2": -1}, "mu2 must be zero or more"),
        ({"epsilon": True}, "must be a number"),
        ({"epsilon": [1]}, "must be a number"),
        ({"epsilon": "one"}, "must be a number"),
        ({"rho": Decimal("1e999999")}, "ordinary size"),
        ({"renyi": {}}, "empty"),
        ({"renyi": [2]}, "empty"),
        ({"renyi": {1: 1}}, "greater than 1"),
        ({"renyi": {2: 1, "2": 1}}, "twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_wrong_guarantees_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Guarantee(**arguments)  # type: ignore[arg-type]


def test_the_resolver_takes_exactly_one_of_guarantee_text_and_shorthand() -> None:
    whole = Guarantee(epsilon=1, delta=1e-6)
    assert Guarantee.of(whole) is whole
    assert Guarantee.of(epsilon=1, delta=1e-6) == Guarantee.of("eps=1,delta=1e-6") == whole
    assert Guarantee.of(mu=np.float64(0.5)) == Guarantee(mu=0.5)
    for given_, shorthand in ((whole, {"epsilon": 1}), ("mu=1", {"delta": 0}), (whole, {"rho": 0})):
        with pytest.raises(ParameterError, match="not both"):
            Guarantee.of(given_, **shorthand)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no default"):
        Guarantee.of()
    with pytest.raises(ParameterError, match="delta is missing"):
        Guarantee.of(epsilon=1, state_delta=True)
    assert Guarantee.of(epsilon=1, delta=0, state_delta=True).pure and Guarantee.of("eps=1", state_delta=True).pure
    for wrong in (1, 0.5, b"eps=1", {"epsilon": 1}, object()):
        with pytest.raises(ParameterError, match="guarantee must be a Guarantee"):
            Guarantee.of(wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="text must be a string"):
        Guarantee.parse(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record",
    [
        *({}, {"currency": "pure"}, {"currency": "pure", "amounts": {"rho": "1"}}, {"currency": "pure", "amounts": {"pure": "inf"}}),
        *({"currency": "pure", "amounts": {"pure": 1}}, {"currency": "mu", "amounts": {"mu2": "4"}}, {"currency": "pure", "amounts": []}),
        *({"currency": "approximate", "amounts": {"epsilon": "1", "delta": "0"}}, {"currency": "mu", "amounts": {"mu": "-1"}}),
    ],
    ids=str,
)
def test_other_records_are_refused(record: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="no stored guarantee"):
        Guarantee.from_record(record)


def test_records_stay_as_books_have_them() -> None:
    assert Guarantee(epsilon=0.1).to_record() == {"currency": "pure", "amounts": {"pure": "1/10"}}
    assert Guarantee(mu=0.5).to_record() == {"currency": "mu", "amounts": {"mu": "1/2"}}
    assert Guarantee(mu2=2).to_record() == {"currency": "mu", "amounts": {"mu2": "2"}}
    stored = {"currency": "approximate", "amounts": {"epsilon": "1", "delta": "1/1000000"}}
    assert Guarantee(epsilon=1, delta=1e-6).to_record() == stored


def test_it_is_frozen_and_light_to_reach() -> None:
    assert tacit.Guarantee is Guarantee
    with pytest.raises(AttributeError):
        Guarantee(mu=1).currency = "rho"  # type: ignore[misc]


# --- comparing and splitting ------------------------------------------------------------------------------------------------


@given(GUARANTEES, st.lists(AMOUNTS, min_size=1, max_size=6).filter(any))
def test_shares_add_up_to_the_whole_exactly(whole: Guarantee, weights: list[Fraction]) -> None:
    parts = whole.split(weights)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total == whole and all(part <= whole for part in parts)
    assert [part.limits for part in parts] == [whole.share(w / sum(weights)).limits for w in weights]


def test_shares_of_mu_are_shares_of_its_square() -> None:
    assert Guarantee(mu=5).split([9, 16]) == [Guarantee(mu=3), Guarantee(mu=4)]
    third = Guarantee(mu=1).share("1/3")
    assert str(third) == "mu2=1/3" and third.limits == {"mu2": Fraction(1, 3)}
    assert third.mu is not None and third.mu**2 <= Fraction(1, 3) < third.mu**2 * (1 + Fraction(1, 2**62))


@pytest.mark.parametrize("weights", [[], [0], [-1, 2], [math.nan], ["x"], [True], [math.inf]], ids=str)
def test_wrong_weights_are_refused(weights: list[object]) -> None:
    with pytest.raises(ParameterError):
        Guarantee(rho=1).split(weights)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="share must be"):
        Guarantee(rho=1).share(2)


@given(AMOUNTS, SMALL, AMOUNTS, SMALL)
def test_the_order_is_that_of_every_amount(e: Fraction, d: Fraction, f: Fraction, c: Fraction) -> None:
    first, second = Guarantee(epsilon=e, delta=d), Guarantee(epsilon=f, delta=c)
    assert (first <= second) == (e <= f and d <= c) == (second >= first)
    assert (first < second) == (first <= second and first != second) == (second > first)


def test_other_currencies_have_no_order() -> None:
    assert Guarantee(epsilon=1) < Guarantee(epsilon=1, delta=1e-6)
    assert not Guarantee(epsilon=1, delta=1e-6) <= Guarantee(epsilon=2)
    for other in (Guarantee(rho=1), Guarantee(mu=1), Guarantee(renyi={2: 1})):
        with pytest.raises(ParameterError, match="different currencies"):
            _ = Guarantee(epsilon=1) <= other
        with pytest.raises(ParameterError, match="different currencies"):
            _ = Guarantee(epsilon=1) + other
    with pytest.raises(ParameterError, match="different currencies"):
        _ = Guarantee(renyi={2: 1}) < Guarantee(renyi={3: 1})
    with pytest.raises(ParameterError, match="not with int"):
        _ = Guarantee(rho=1) <= 1  # type: ignore[operator]


# --- events -----------------------------------------------------------------------------------------------------------------

EVENTS: list[Event] = [
    Gaussian(2),
    Laplace(3),
    Repeated(PureDP(0.1), 10),
    Composed(Gaussian(5), Laplace(10)),
    Exponential(0.5),
    DiscreteGaussian(3),
    Repeated(Sampled(Poisson(0.01), Gaussian(1)), 50),
    ApproxDP(0.5, 1e-7),
    ZCDP(0.01),
    GDP(0.3),
]


@pytest.mark.parametrize("event", EVENTS, ids=str)
@pytest.mark.parametrize(
    "whole",
    [Guarantee(epsilon=1), Guarantee(epsilon=1, delta=1e-5), Guarantee(rho=0.1), Guarantee(mu=0.5), Guarantee(renyi={2: 0.1, 8: 1})],
    ids=str,
)
def test_what_fits_into_a_share_fits_into_the_whole(event: Event, whole: Guarantee) -> None:
    fits = [whole.share(part).admits(event, AR) for part in ("1/1000", "1/10", "1/2", "1")]
    assert fits == sorted(fits)
    if fits[-1] and whole.currency != "pure":
        assert whole.price(event, AR).upper <= 1.001 * float(whole.epsilon or whole.rho or whole.mu or 1)


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_a_price_in_fractions_agrees_with_the_accountant(event: Event) -> None:
    """`admits` decides in fractions where there is a closed form: just below the accountant's price it refuses."""
    upper = account(event, AR).epsilon(1e-5).upper
    assert Guarantee(epsilon=upper * (1 + 1e-9), delta=1e-5).admits(event, AR)
    lower = account(event, AR).epsilon(1e-5).lower
    if not isinstance(event, ApproxDP):
        assert not Guarantee(epsilon=lower * (1 - 1e-6), delta=1e-5).admits(event, AR)


@pytest.mark.parametrize(
    "whole", [Guarantee(epsilon=0.1), Guarantee(epsilon=0.1, delta=1e-5), Guarantee(rho=0.1), Guarantee(mu=0.1), Guarantee(mu2=2)], ids=str
)
@pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)
def test_it_admits_itself_and_nothing_more(whole: Guarantee, adjacency: Adjacency) -> None:
    event = whole.as_event(adjacency)
    exact = whole.currency != "mu" or whole.mu == Fraction(1, 10)
    assert whole.admits(event, adjacency) or not exact  # the root of 2 is rounded up in the event
    assert not whole.share("0.999999").admits(event, adjacency)
    assert not whole.admits(Repeated(event, 2), adjacency)


def test_as_event_is_on_the_safe_side() -> None:
    assert Guarantee(epsilon=0.1, delta=1e-5).as_event(RO) == ApproxDP(Fraction(1, 10), Fraction(1, 10**5), adjacency=RO)
    found = Guarantee(mu2=2).as_event()
    assert isinstance(found, GDP) and Fraction(found.mu) ** 2 >= 2
    stated = Guarantee(renyi={Fraction(7, 3): Fraction(1, 10)}).as_event()
    assert isinstance(stated, RenyiDP)
    assert all(Fraction(order) <= Fraction(7, 3) and Fraction(value) >= Fraction(1, 10) for order, value in stated.curve)


def test_what_has_no_price_does_not_fit_and_a_wrong_relation_is_an_error() -> None:
    assert not Guarantee(epsilon=100).admits(Gaussian(100), AR)
    assert not Guarantee(mu=100).admits(Sampled(Poisson(0.1), Gaussian(1)), AR)
    assert not Guarantee(rho=100).admits(ApproxDP(0.1, 1e-9), AR)
    with pytest.raises(AdjacencyError):
        Guarantee(rho=1).admits(Gaussian(1, adjacency=RO), AR)
    with pytest.raises(ParameterError, match="event must be"):
        Guarantee(rho=1).admits("Gaussian", AR)  # type: ignore[arg-type]


@given(sigma=st.floats(0.5, 50), steps=st.integers(1, 50))
def test_closed_forms_of_gaussian_noise(sigma: float, steps: int) -> None:
    """rho = k / (2 sigma^2), mu^2 = k / sigma^2, D_a = a rho, and the privacy profile of Balle and Wang 2018 at epsilon."""
    event = Repeated(Gaussian(sigma), steps)
    with mpmath.workdps(50):
        rho = steps / (2 * mpmath.mpf(sigma) ** 2)
        assert mpmath.almosteq(Guarantee(rho=1).price(event, AR).upper, rho, 1e-12)
        assert mpmath.almosteq(Guarantee(mu=1).price(event, AR).upper, mpmath.sqrt(2 * rho), 1e-12)
        assert mpmath.almosteq(Guarantee(renyi={3: 1}).price(event, AR).upper, 3 * rho, 1e-9)
        assert Guarantee(mu=1).price(event, AR).upper >= mpmath.sqrt(2 * rho) >= Guarantee(mu=1).price(event, AR).lower
        epsilon, mu = mpmath.mpf(Guarantee(epsilon=1, delta=1e-6).price(event, AR).upper), mpmath.sqrt(2 * rho)
        spread = epsilon / mu
        delta = mpmath.ncdf(mu / 2 - spread) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - spread)
        assert delta <= mpmath.mpf("1e-6") * (1 + mpmath.mpf("1e-9"))


# --- noise ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [Guarantee(epsilon=1, delta=1e-6), Guarantee(rho="1/3"), Guarantee(mu=0.7), Guarantee(mu2=2)], ids=str)
def test_one_gaussian_release_that_costs_all_of_it(whole: Guarantee) -> None:
    multiplier = whole.noise_multiplier
    assert multiplier is not None
    assert whole.admits(Gaussian(multiplier * (1 + Fraction(1, 10**9))), AR)
    assert not whole.admits(Gaussian(multiplier * (1 - Fraction(1, 10**6))), AR)


def test_one_laplace_release_that_costs_all_of_it() -> None:
    assert Guarantee(epsilon="1/3", delta=1e-6).laplace_epsilon == Fraction(1, 3)
    assert Guarantee(mu=1).laplace_epsilon is None
    half = Guarantee(rho="1/8").laplace_epsilon
    assert half == Fraction(1, 2) and account(Laplace(1 / half), AR).rho().upper <= 0.125
    assert Guarantee(rho=0).laplace_epsilon == 0


def test_nothing_at_all_has_no_noise() -> None:
    for nothing in (Guarantee(rho=0), Guarantee(mu=0), Guarantee(epsilon=0, delta=1e-6)):
        with pytest.raises(ParameterError, match="greater than 0"):
            _ = nothing.noise_multiplier
    with pytest.raises(ParameterError, match="greater than 0"):
        Guarantee(epsilon=0).positive()
    assert Guarantee(epsilon=1).noise_multiplier is None and Guarantee(renyi={2: 1}).noise_multiplier is None


@pytest.mark.parametrize("huge", [10**400, Fraction(1, 10**400)], ids=["huge", "tiny"])
def test_beyond_floating_point_there_are_no_floats(huge: Fraction) -> None:
    assert Guarantee(epsilon=huge).limits == {"pure": huge}
    with pytest.raises(ParameterError, match="outside the range of floating point"):
        _ = Guarantee(epsilon=huge).floats


@given(epsilon=st.floats(0.01, 20), logd=st.floats(-12, -2), steps=st.integers(1, 200), share=st.floats(0.05, 0.9))
def test_a_settled_event_keeps_the_guarantee_and_wastes_next_to_nothing(epsilon: float, logd: float, steps: int, share: float) -> None:
    whole = Guarantee(epsilon=epsilon, delta=10**logd)
    event, mu = whole.settle(
        lambda mu: Composed(Gaussian(1 / (mu * math.sqrt(share))), Repeated(Gaussian(math.sqrt(steps / (1 - share)) / mu), steps)), AR
    )
    upper = account(event, AR).epsilon(10**logd).upper
    assert (1 - 1e-6) * epsilon <= upper * (1 + MARGIN) <= epsilon
    assert whole.typed_price(event, AR).upper == upper and mu <= whole.gaussian_mu


@given(rho=st.floats(1e-4, 10))
def test_rho_is_half_of_mu_squared(rho: float) -> None:
    for whole in (Guarantee(rho=rho), Guarantee(mu=math.sqrt(2 * rho))):
        event, mu = whole.settle(lambda mu: Gaussian(1 / mu, adjacency=RO), RO)
        assert mu**2 / 2 == pytest.approx(rho, rel=1e-9)
        assert whole.keeps(event, RO) and whole.admits(event, RO)


def test_a_pure_guarantee_has_no_gaussian_noise() -> None:
    with pytest.raises(ParameterError, match="no pure epsilon"):
        _ = Guarantee(epsilon=1).gaussian_mu
    with pytest.raises(ParameterError, match="Rényi"):
        _ = Guarantee(renyi={2: 1}).gaussian_mu
    with pytest.raises(ParameterError, match="Rényi"):
        Guarantee(renyi={2: 1}).keeps(Gaussian(1), AR)


def test_the_words_of_books_and_records_stay() -> None:
    found = [g.words for g in (Guarantee(epsilon="1/3", delta=1e-6), Guarantee(epsilon=1), Guarantee(rho=0.1), Guarantee(mu=0.5))]
    assert found == ["epsilon 0.333333, delta 1e-06", "epsilon 1", "rho 0.1", "mu 0.5"]
