"""Dinur and Nissim's law: the figures of spec 03, 4.2, theory against simulation, both solvers against brute force, and Tacit's answers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import draws, noisy_counts, reconstruction
from tacit.audit.demonstrations.reconstruction import (
    expected_recovery,
    least_squares,
    linear_program,
    questions_for,
    random_subsets,
    recovered,
)
from tacit.audit.experiment import generator
from tacit.audit.rates import lower_rate, most_accuracy


def system(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    source = generator(seed)
    return random_subsets(n, m, seed=source), source.integers(2, size=n), source


def test_the_figures_of_the_specification() -> None:
    """n = 128, n ln^2 n = 3013 counts: errors within sqrt(n)/2 and Lap(1) recover all; sqrt(n) nearly all (97.7 %); epsilon 1 none."""
    n, m = 128, questions_for(128)
    assert m == 3013
    groups, truth, source = system(n, m, 12)
    exact = groups @ truth
    error = source.uniform(-1, 1, size=m) * math.sqrt(n)
    assert recovered(least_squares(groups, exact + error / 2), truth) == 1
    assert 0.93 <= recovered(least_squares(groups, exact + error), truth) < 1  # 98.0 % expected; nine wrong bits have p < 1e-3
    with draws(5):
        assert recovered(least_squares(groups, noisy_counts(exact, 1)), truth) == 1
        private = least_squares(groups, noisy_counts(exact, 1, sensitivity=m))
    assert lower_rate(int(np.sum(private == truth)), n, 1e-9) < most_accuracy(1.0)
    assert 0.3 < recovered(private, truth) < 0.7  # chance: five deviations of 128 coins are 0.22


@pytest.mark.parametrize("share", [0.5, 1.0, 1.5])
def test_theory_against_simulation(share: float) -> None:
    """Errors of share * sqrt(n): the expected share of right bits, over 6 systems of 64; tolerance five binomial deviations."""
    n, m = 64, 600
    deviation = share * math.sqrt(n)
    rates = []
    for seed in range(6):
        groups, truth, source = system(n, m, seed)
        rates.append(recovered(least_squares(groups, groups @ truth + source.normal(size=m) * deviation), truth))
    expected = expected_recovery(n, m, deviation)
    assert np.mean(rates) == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / (6 * n)) + 1e-3)


def test_the_theory_would_catch_a_forgotten_factor() -> None:
    """The variance is 4 s^2 / (m - n); with s^2 / m in its place the expected share would be off by far more than the tolerance."""
    n, m, s = 64, 600, 12.0
    wrong = 0.5 * math.erfc(-math.sqrt(m) / (2 * s) / math.sqrt(2))
    assert wrong - expected_recovery(n, m, s) > 0.1


@pytest.mark.parametrize("norm", ["sum", "largest"])
def test_the_linear_program_recovers_within_small_errors(norm: str) -> None:
    groups, truth, source = system(24, 150, 3)
    noisy = groups @ truth + source.uniform(-1, 1, size=150) * 0.2 * math.sqrt(24)
    assert recovered(linear_program(groups, noisy, norm=norm), truth) == 1


def test_a_fifth_of_wild_answers_defeats_least_squares_only() -> None:
    """Dwork, McSherry and Talwar 2007: the sum of errors shrugs off a constant share of arbitrary ones."""
    groups, truth, source = system(24, 200, 5)
    wild = groups @ truth
    wild[source.permutation(200)[:40]] += source.normal(size=40) * 300
    assert recovered(linear_program(groups, wild), truth) == 1
    assert recovered(least_squares(groups, wild), truth) < 0.9


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_exact_answers_have_one_solution_by_brute_force(seed: int, n: int) -> None:
    groups, truth, _ = system(n, 4 * n, seed)
    answers = groups @ truth
    fits = [bits for bits in itertools.product((0, 1), repeat=n) if np.array_equal(groups @ np.array(bits), answers)]
    assert tuple(truth) in fits
    if np.linalg.matrix_rank(groups) == n:
        assert fits == [tuple(least_squares(groups, answers))] == [tuple(linear_program(groups, answers))]


def test_all_singletons_are_the_data() -> None:
    truth = np.array([1, 0, 1])
    assert least_squares(np.eye(3), truth).tolist() == truth.tolist()


def test_public_mistakes_are_refused() -> None:
    with pytest.raises(ParameterError, match="norm"):
        linear_program([[1]], [1], norm="none")
    with pytest.raises(ParameterError, match="groups"):
        least_squares([[1, 0]], [1, 2])
    with pytest.raises(ParameterError, match="questions must exceed"):
        expected_recovery(10, 10, 1.0)


def test_shown() -> None:
    shown = reconstruction.demonstrate(quick=True)
    rounded, scale_one, *private = shown.levels
    assert rounded.rate == scale_one.rate == 1 and rounded.learns() and scale_one.learns()
    assert not any(level.beats() for level in private) and not shown.at(1.0).learns()
    assert shown.picture().axes[0].images[0].get_array().max() == 1  # type: ignore[union-attr]


def test_charging_once_for_all_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruction, "noisy_counts", lambda counts, epsilon, sensitivity=1: noisy_counts(counts, epsilon))
    assert reconstruction.demonstrate(quick=True, epsilons=(1.0,)).at(1.0).beats()
