"""Two counts give one person away, and noise takes her back: exact laws by enumeration, the textbook's figure, Tacit's sessions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import differencing, draws, noisy_counts
from tacit.audit.demonstrations.differencing import guess, isolating_clause, mean_difference, success, tracker, where
from tacit.audit.experiment import generator
from tacit.audit.rates import lower_rate, most_accuracy, upper_rate


def test_the_salary_of_the_one_who_came() -> None:
    """Spec 01, 1.2: a mean of 500,000 over 25 and of 505,000 over 26."""
    assert mean_difference(25, 500_000, 26, 505_000) == 630_000


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.integers(-(10**9), 10**9))
def test_exact_means_give_any_value(before: list[int], value: int) -> None:
    first, second = Fraction(sum(before), len(before)), Fraction(sum(before) + value, len(before) + 1)
    assert mean_difference(len(before), first, len(before) + 1, second) == value


def test_two_people_cannot_be_told_apart_by_one_difference() -> None:
    with pytest.raises(ParameterError, match="second_count"):
        mean_difference(25, 1, 27, 1)


def test_the_clause_is_the_shortest_that_singles_out() -> None:
    people = differencing.made_up(300, generator(3))
    columns = ["region", "sex", "age"]
    for person in people[:60]:
        clause = isolating_clause(people, person, columns)
        alone = [sum(all(row[c] == person[c] for c in chosen) for row in people) == 1 for chosen in (["region"], ["sex"], ["age"])]
        if clause is None:
            assert sum(all(row[c] == person[c] for c in columns) for row in people) > 1
        else:
            assert sum(all(row[c] == v for c, v in clause.items()) for row in people) == 1
            assert (len(clause) == 1) == any(alone)


def test_the_two_groups_of_a_tracker_differ_by_the_person() -> None:
    people = [{"a": a, "b": b, "ill": ill} for a, b, ill in ((1, "x", 1), (1, "y", 1), (2, "x", 0), (2, "y", 1))]
    for person in people:
        clause = isolating_clause(people, person, ["a", "b"])
        assert clause is not None
        assert tracker(clause, "ill = 1")[1] == f"ill = 1 AND NOT ({where(clause)})"
        counts = [differencing._count(people, clause, whole) for whole in (True, False)]
        assert guess(*counts) == bool(person["ill"])


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 10.0])
def test_the_success_is_the_closed_form_and_within_what_is_permitted(epsilon: float) -> None:
    """The sum of squares of the discrete Laplace law is tanh^2(1/2b) coth(1/b), b = 2/epsilon."""
    b = 2 / epsilon
    closed = (1 + math.tanh(1 / (2 * b)) ** 2 / math.tanh(1 / b)) / 2
    assert success(epsilon) == pytest.approx(closed, abs=1e-12)
    assert 0.5 < success(epsilon) < most_accuracy(epsilon)


def test_the_success_is_what_noise_gives() -> None:
    trials, epsilon = 4000, 2.0
    with draws(4):
        noisy = noisy_counts([[7, 7]] * trials, epsilon / 2)  # each count pays half, the target is not ill
    hits = sum(not guess(*pair) for pair in noisy.tolist())
    assert lower_rate(hits, trials, 5e-10) < success(epsilon) < upper_rate(hits, trials, 5e-10)


def test_shown() -> None:
    shown = differencing.demonstrate(quick=True, epsilons=(0.1, 60.0))
    assert shown.raw.rate == 1 and shown.raw.learns(1e-3)
    assert not shown.at(0.1).beats() and not shown.at(0.1).learns(1e-3)
    assert (1 - success(60.0)) * shown.at(60.0).trials < 1e-9  # the chance that noise ever hides her
    assert shown.at(60.0).rate == 1.0  # so little noise is a raw release: the attack that is shown does work
    assert len(shown.picture().axes) == 2
