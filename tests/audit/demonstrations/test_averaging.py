"""Repeated answers add up to the truth unless somebody adds up their price: exact laws, and a ledger that refuses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import averaging, draws, noisy_counts
from tacit.audit.demonstrations.averaging import ask, average, most_exact, recovered, repeats_needed
from tacit.audit.rates import lower_rate, upper_rate


@pytest.mark.parametrize(("scale", "repeats"), [(0.7, 1), (2.0, 2), (2.0, 3), (3.0, 5), (1.5, 6)])
def test_the_chance_of_rounding_right_by_convolution(scale: float, repeats: int) -> None:
    wide = math.ceil(40 * scale)
    one = np.exp(-np.abs(np.arange(-wide, wide + 1)) / scale) * math.tanh(1 / (2 * scale))
    law, reach = one, wide
    for _ in range(repeats - 1):
        law, reach = np.convolve(law, one), reach + wide
    values = np.arange(-reach, reach + 1)
    assert recovered(scale, repeats) == pytest.approx(float(law[2 * np.abs(values) < repeats].sum()), abs=1e-12)


def test_the_chance_tends_to_the_normal_law() -> None:
    """Var of discrete Laplace noise is 2q/(1 - q)^2, q = e^(-1/b)."""
    scale, repeats = 10.0, 2001
    q = math.exp(-1 / scale)
    deviation = math.sqrt(2 * q / (1 - q) ** 2 * repeats)
    assert recovered(scale, repeats) == pytest.approx(math.erf(repeats / 2 / deviation / math.sqrt(2)), abs=1e-4)


def test_the_chance_is_what_noise_gives() -> None:
    trials, repeats = 3000, 25
    with draws(2):
        answers = noisy_counts(np.full((trials, repeats), 50), 1 / 2)
    hits = sum(round(average(row).value) == 50 for row in answers)
    assert lower_rate(hits, trials, 5e-10) < recovered(2.0, repeats) < upper_rate(hits, trials, 5e-10)


@given(st.floats(0.1, 1e3), st.floats(0.01, 10), st.floats(1e-6, 0.5))
def test_repeats_are_as_few_as_the_normal_law_allows(deviation: float, error: float, failure: float) -> None:
    k = repeats_needed(deviation, error, failure)
    missed = math.erfc(error * math.sqrt(k) / deviation / math.sqrt(2))
    assert missed <= failure * (1 + 1e-6)
    assert k == 1 or math.erfc(error * math.sqrt(k - 1) / deviation / math.sqrt(2)) >= failure * (1 - 1e-6)


@pytest.mark.parametrize("values", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_truncated_geometric_mechanism_beats_the_bound(epsilon: float, values: int) -> None:
    """The best mechanism for counts, by enumeration: the sum over answers of the largest likelihood."""
    q = math.exp(-epsilon)
    far = np.abs(np.subtract.outer(np.arange(values), np.arange(values)))
    law = q**far * np.where((np.arange(values) == 0) | (np.arange(values) == values - 1), 1 / (1 + q), (1 - q) / (1 + q))
    assert law.sum(axis=1) == pytest.approx(np.ones(values))
    best = float(law.max(axis=0).sum()) / values
    assert best <= most_exact(epsilon, values) + 1e-12
    if values == 2:
        assert best == pytest.approx(most_exact(epsilon, 2))


def test_more_answers_are_less_error() -> None:
    with draws(7):
        answers = noisy_counts(np.full(10_000, 123), 0.1)
    found = average(answers)
    assert abs(found.value - 123) < 5 * found.error < 1
    assert found.error == pytest.approx(math.sqrt(2) * 10 / 100, rel=0.1)


def test_empty_answers_are_refused() -> None:
    with pytest.raises(ParameterError, match="answers"):
        average([])


def test_asking_ends_with_the_refusal() -> None:
    assert ask(lambda: 1, 3) == ([1.0] * 3, "")
    assert ask(iter([2]).__next__, 3) == ([2.0], "StopIteration")


def test_shown_with_and_without_a_ledger() -> None:
    shown = averaging.demonstrate(quick=True)
    free, ledger, again = shown.levels
    assert free.rate == 1.0 and free.learns()
    assert not ledger.beats() and not again.beats()
    assert shown.notes[0] == "after 10 answers the ledger refused the next one (BudgetExceeded)"


def test_a_cached_answer_is_no_new_information(tmp_path_factory: pytest.TempPathFactory) -> None:
    with draws(3):
        question = averaging._question(200, Fraction(1, 10), tmp_path_factory.mktemp("book") / "a.db", cache=True)
        answers, why = ask(question, 15)
    assert why == "" and len(set(answers)) == 1  # fifteen answers within a budget of ten: they are one
