"""The finite verifier: the exponential's brackets against mpmath, divergences against brute force over sets, known mechanisms."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import AccountingError, ParameterError
from tacit.mechanisms import Law, exp_bracket, from_coins, geometric, randomised_response, verify
from tacit.mechanisms.verify import delta, enclosed, log_bracket, max_divergence, pure, ratio

YES, NO = {1: Fraction(3, 4), 0: Fraction(1, 4)}, {1: Fraction(1, 4), 0: Fraction(3, 4)}


@st.composite
def laws(draw: st.DrawFn) -> dict[int, Fraction]:
    weights = draw(st.lists(st.integers(0, 20), min_size=2, max_size=5).filter(lambda w: sum(w) > 0))
    return {i: Fraction(w, sum(weights)) for i, w in enumerate(weights)}


@given(st.fractions(-200, 200), st.integers(8, 300))
def test_the_exponential_lies_in_its_bracket(exponent: Fraction, bits: int) -> None:
    low, high = exp_bracket(exponent, bits)
    with mpmath.workdps(200):
        true = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= true * (1 + mpmath.mpf(10) ** -190)
        assert mpmath.mpf(high.numerator) / high.denominator >= true * (1 - mpmath.mpf(10) ** -190)
    assert high / low - 1 <= Fraction(1, 2**bits)


def test_the_exponential_of_zero_is_one_and_huge_ones_are_refused() -> None:
    assert exp_bracket(0) == (1, 1)
    low, high = exp_bracket(1000, 20)
    assert low.numerator.bit_length() - low.denominator.bit_length() in (1442, 1443) and low < high
    with pytest.raises(ParameterError, match="exponent"):
        exp_bracket(10**7)


@given(st.fractions(Fraction(1, 10**9), 10**9).filter(lambda f: f > 0))
def test_logarithms_are_enclosed_tightly(value: Fraction) -> None:
    found = log_bracket((value, value))
    with mpmath.workdps(60):
        true = mpmath.log(mpmath.mpf(value.numerator)) - mpmath.log(mpmath.mpf(value.denominator))
        assert found.lower <= true <= found.upper
    assert found.width <= 1e-13 * max(1.0, abs(found.upper))


@given(laws(), laws())
def test_divergences_against_all_sets_of_outcomes(first: Law, second: Law) -> None:
    """Brute force: the definition of (epsilon, delta)-DP quantifies over all sets; at e^epsilon = 3/2 in exact fractions."""
    outcomes = sorted(set(first) | set(second))
    sets = [s for n in range(len(outcomes) + 1) for s in itertools.combinations(outcomes, n)]

    def mass(law: Law, of: tuple[int, ...]) -> Fraction:
        return sum((Fraction(law.get(o, 0)) for o in of), Fraction(0))  # type: ignore[arg-type]

    low, high = delta(first, second, 0)
    tv = max(max(mass(first, s) - mass(second, s), mass(second, s) - mass(first, s)) for s in sets)
    assert low == high == tv
    largest = max((mass(p, s) / mass(q, s) for p, q in ((first, second), (second, first)) for s in sets if mass(q, s)), default=Fraction(0))
    found = max_divergence(first, second)
    if any(mass(p, s) and not mass(q, s) for p, q in ((first, second), (second, first)) for s in sets):
        assert found.lower == found.upper == math.inf
    else:
        assert found.lower <= math.log(largest) + 1e-12 and found.upper >= math.log(largest) - 1e-12
        assert ratio(first, second)[1] is not None


@given(laws(), laws(), st.fractions(0, 5))
def test_delta_is_enclosed_and_falls(first: Law, second: Law, epsilon: Fraction) -> None:
    low, high = delta(first, second, epsilon)
    factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    both = [
        sum(max(0, float(p.get(o, 0)) - float(factor) * float(q.get(o, 0))) for o in p)  # type: ignore[arg-type]
        for p, q in ((first, second), (second, first))
    ]
    assert float(low) - 1e-12 <= max(both) <= float(high) + 1e-12
    assert high - low < Fraction(1, 2**200)
    assert delta(first, second, epsilon + 1)[0] <= high


def test_two_fair_coins_leak_ln_3() -> None:
    coins = from_coins()
    found = verify(coins, [(True, False)], epsilon=Fraction(11, 10))
    assert found.epsilon.lower <= math.log(3) <= found.epsilon.upper
    assert found.epsilon.upper == pytest.approx(1.0986123, abs=5e-8)
    assert found.delta == (0, 0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_randomised_response_leaks_exactly_epsilon_and_no_delta(epsilon: Fraction) -> None:
    for categories in (2, 5):
        made = randomised_response(epsilon, categories)
        found = verify(made, itertools.permutations(range(categories), 2), epsilon=epsilon)
        assert found.epsilon.lower == pytest.approx(float(epsilon), rel=1e-14)
        assert found.epsilon.upper == pytest.approx(float(epsilon), rel=1e-14)
        assert found.delta is not None and found.delta[0] == 0 and found.delta[1] < Fraction(1, 10**35)


def test_pure_compares_in_fractions() -> None:
    assert not pure(YES, NO, Fraction("1.098612288668109691395245236922525704"))  # ln 3 and a digit less than it
    assert pure(YES, NO, Fraction("1.098612288668109691395245236922525705"))
    assert not pure({0: Fraction(1)}, {1: Fraction(1)}, 100)
    made = randomised_response(1)
    with pytest.raises(AccountingError, match="brackets"):
        pure(made.distribution(0, bits=20), made.distribution(1, bits=20), 1)
    assert pure(made.distribution(0), made.distribution(1), 1 + Fraction(1, 10**20))
    assert not pure(made.distribution(0), made.distribution(1), 1 - Fraction(1, 10**20))


def test_what_is_no_law_is_refused() -> None:
    for wrong in ({0: Fraction(1, 2)}, {0: Fraction(3, 2), 1: Fraction(-1, 2)}, {0: (Fraction(2, 3), Fraction(1, 3)), 1: Fraction(1, 2)}):
        with pytest.raises(ParameterError, match="probabilit"):
            enclosed(wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="float"):
        enclosed({0: (0.5, 0.5), 1: Fraction(1, 2)})  # type: ignore[dict-item]


def test_an_outcome_only_one_input_has_is_found() -> None:
    """The mutant mechanism: truncation by throwing away instead of clamping gives some outcomes to one input only."""
    first = {0: Fraction(1, 2), 1: Fraction(1, 2)}
    second = {1: Fraction(1, 2), 2: Fraction(1, 2)}
    assert max_divergence(first, second).lower == math.inf
    assert delta(first, second, 10) == (Fraction(1, 2), Fraction(1, 2))


def test_unsure_zeros_give_no_false_certainty() -> None:
    first = {0: Fraction(1, 2), 1: Fraction(1, 2)}
    second = {0: (Fraction(0), Fraction(1, 4)), 1: (Fraction(3, 4), Fraction(1))}
    found = max_divergence(first, second)
    assert found.upper == math.inf and found.lower < 2


def test_identical_laws_leak_nothing() -> None:
    law = geometric(1, lower=0, upper=1).distribution(0)
    assert max_divergence(YES, YES).upper == 0
    assert 0 <= max_divergence(law, law).upper < 1e-30
