"""Filters admit what fits and nothing else; rules that are no filters are refused, with the attack that shows why."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import UnsupportedError
from tacit.ledger import Budget, BudgetExceeded, Filter, LedgerError, odometer
from tacit.ledger.budget import LEVELS, THEOREMS, in_words, theorem

CHARGES = st.lists(st.fractions(min_value=0, max_value=1), max_size=30)


@given(CHARGES, st.fractions(min_value=0, max_value=5))
def test_a_filter_admits_exactly_the_prefix_that_fits(charges: list[Fraction], limit: Fraction) -> None:
    running, total = Filter(Budget(rho=limit)), Fraction(0)
    for charge in charges:
        if total + charge <= limit:
            running, total = running.admit({"rho": charge}), total + charge
        else:
            with pytest.raises(BudgetExceeded) as refusal:
                running.admit({"rho": charge})
            assert refusal.value.left == {"rho": limit - total} == running.left()
            assert not running.fits({"rho": charge})
    assert running.spent.get("rho", 0) == total


def test_all_components_must_fit() -> None:
    pair = Filter(Budget(epsilon=1, delta="1e-6"))
    assert not pair.fits({"epsilon": Fraction(1, 2), "delta": Fraction(2, 10**6)})
    assert not pair.fits({"epsilon": Fraction(2), "delta": Fraction(0)})
    orders = Filter(Budget(renyi={2: 1, 8: 1}))
    assert not orders.fits({"renyi:2": Fraction(1, 2), "renyi:8": Fraction(2)})
    assert orders.fits({"renyi:2": Fraction(1), "renyi:8": Fraction(1)})


def test_the_reserve_is_for_corrections() -> None:
    running = Filter(Budget(epsilon=1, reserve="0.1")).admit({"pure": Fraction(9, 10)})
    assert not running.fits({"pure": Fraction(1, 100)})
    assert running.fits({"pure": Fraction(1, 10)}, correction=True)


def test_every_currency_names_its_theorem() -> None:
    for budget in (Budget(epsilon=1), Budget(epsilon=1, delta=1e-6), Budget(rho=1), Budget(mu=1), Budget(renyi={2: 1})):
        assert theorem(budget.currency) == THEOREMS[budget.currency]
    for wrong in ("privacy-loss distribution", "pld", "f-DP", "advanced", "optimal"):
        with pytest.raises(UnsupportedError, match="booked as one event"):
            theorem(wrong)


# --- why a running filter on loss distributions is refused: exact enumeration ---------------------------------------------------------

Mechanism = dict[object, tuple[Fraction, Fraction]]  # output -> (probability on D, probability on D')


def response(odds: int) -> Mechanism:
    """Randomised response with e^epsilon = odds."""
    return {0: (Fraction(odds, 1 + odds), Fraction(1, 1 + odds)), 1: (Fraction(1, 1 + odds), Fraction(odds, 1 + odds))}


def leak(delta: Fraction) -> Mechanism:
    """(0, delta): confesses with probability delta, else says nothing."""
    return {"D": (delta, Fraction(0)), "D'": (Fraction(0), delta), "": (1 - delta, 1 - delta)}


def loss(odds: int, pairs: list[tuple[Fraction, Fraction]]) -> Fraction:
    """The exact delta at e^epsilon = odds: the worse of the two directions."""
    return max(sum((max(Fraction(0), p - odds * q) for p, q in pairs), Fraction(0)) for pairs in (pairs, [(q, p) for p, q in pairs]))


def adaptive(first: Mechanism, then: dict[object, Mechanism]) -> list[tuple[Fraction, Fraction]]:
    """The joint law of a first answer and of the mechanism chosen after seeing it."""
    return [(p * a, q * b) for output, (p, q) in first.items() for a, b in then[output].values()]


def test_an_adaptive_analyst_beats_a_filter_on_loss_distributions() -> None:
    """Both plans are within (ln 4, 1/15) on their own, so a filter on loss distributions admits either; the analyst who picks the second
    step after the first answer reaches more than 5/4 of the promised delta (spec 08, B34)."""
    first, strong = response(2), response(4)
    target = loss(4, adaptive(first, {0: strong, 1: strong}))
    weak = leak(target)
    assert loss(4, adaptive(first, {0: weak, 1: weak})) == target  # the loss-distribution filter sees two admissible plans
    reached = max(loss(4, adaptive(first, choice)) for choice in ({0: strong, 1: weak}, {0: weak, 1: strong}))
    assert reached > target * Fraction(5, 4)
    # the filter that sums (epsilon, delta) covers every choice: ln 2 + ln 4 is ln 8, and the deltas add
    choices = [dict(enumerate(pick)) for pick in itertools.product((strong, weak), repeat=2)]
    assert max(loss(8, adaptive(first, choice)) for choice in choices) <= target


def test_parallel_composition_with_a_delta_fails_when_records_arrive() -> None:
    """k parts, each (0, delta): a part says beforehand whether it will confess. Whoever may add the person to a part chosen after that
    learns about them with probability 1 - (1 - delta)^k, far above the delta of the maximum rule (spec 08, B35)."""
    delta, parts = Fraction(1, 100), 20
    reached = 1 - (1 - delta) ** parts
    assert reached > 15 * delta  # what rule='max' would claim is delta
    assert reached <= parts * delta  # what rule='sum' claims holds


# --- odometers ----------------------------------------------------------------------------------------------------------------------------


@given(st.fractions(min_value=0, max_value=1))
def test_pure_and_approximate_odometers_are_running_sums(spent: Fraction) -> None:
    assert spent <= Fraction(odometer(Budget(epsilon=1), {"pure": spent}).epsilon) <= spent + Fraction(1, 2**50)
    reading = odometer(Budget(epsilon=1, delta="1e-6"), {"epsilon": spent, "delta": Fraction(0)})
    assert reading.delta == Fraction(1, 10**6) and Fraction(reading.epsilon) >= spent


@given(st.fractions(min_value=0, max_value=1))
def test_the_zcdp_odometer_covers_a_level_that_was_watched(spent: Fraction) -> None:
    """Against mpmath: B/2^k + 2 sqrt(B/2^k ln(16/delta)) for the smallest level not below the total."""
    level = max(k for k in range(LEVELS) if spent <= Fraction(1, 2**k))
    with mpmath.workdps(30):
        covered = mpmath.mpf(1) / 2**level
        true = covered + 2 * mpmath.sqrt(covered * mpmath.log(LEVELS / mpmath.mpf("1e-6")))
        root = Budget(mu="1.4142135623730951")
        for found in (odometer(Budget(rho=1), {"rho": spent}, "1e-6"), odometer(root, {"mu2": 2 * spent}, "1e-6")):
            assert true <= found.epsilon < true + mpmath.mpf("1e-9")


def test_the_renyi_odometer_takes_the_best_order() -> None:
    budget = Budget(renyi={2: 1, 16: 1})
    found = odometer(budget, {"renyi:2": Fraction(1, 3), "renyi:16": Fraction(1, 3)}, "1e-6").epsilon
    expected = mpmath.mpf(1) / 2 + mpmath.log(LEVELS * 10**6) / 15
    assert abs(found - expected) < 1e-9


def test_an_odometer_needs_a_delta_where_the_currency_has_none() -> None:
    for delta in (0, 1, "2"):
        with pytest.raises(LedgerError, match="delta must lie between"):
            odometer(Budget(rho=1), {"rho": Fraction(0)}, delta)


def test_amounts_in_words_are_never_flattering() -> None:
    assert in_words(Budget(mu=1), {"mu2": Fraction(2)}, up=False) == "mu 1.41421"
    assert in_words(Budget(mu=1), {"mu2": Fraction(2)}) == "mu 1.41422"
    assert in_words(Budget(renyi={2: 1}), {"renyi:2": Fraction(1, 3)}) == "Rényi order 2: epsilon 0.333334"
