"""Two harmless tables and one score: the textbook's example, laws by enumeration, and guarantees that add up instead."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import draws, noisy_counts
from tacit.audit.demonstrations import intersection as module
from tacit.audit.demonstrations.intersection import (
    anonymised,
    candidates,
    intersection,
    left_by_chance,
    likeliest,
    made_up,
    most_of_many,
    pinned,
)
from tacit.audit.demonstrations.reidentification import k_of
from tacit.audit.experiment import generator


def test_the_books_two_companies() -> None:
    """Spec 01, Table 1.2: {650, 590, 597, 613} and {815, 613, 376, 727} leave 613."""
    first = [{"zip": "30***", "age": "30-40", "score": score} for score in (650, 590, 597, 613)]
    first += [{"zip": "19***", "age": "60-70", "score": score} for score in (815, 376, 700, 701)]
    second = [{"zip": "304**", "score": score} for score in (815, 613, 376, 727)]
    assert intersection([(first, {"zip": "30***", "age": "30-40"}), (second, {"zip": "304**"})], "score") == {613}
    assert len(candidates(first, {"zip": "30***", "age": "30-40"}, "score")) == 4  # either alone leaves four


def test_some_release_is_needed() -> None:
    with pytest.raises(ParameterError, match="releases"):
        intersection([], "score")


def test_the_true_secret_is_always_left() -> None:
    source = generator(4)
    shared = made_up(30, source)
    tables = [anonymised([*shared, *made_up(120, source, first=1000 * side)], 4) for side in (1, 2)]
    assert all(k_of(table, ["class"]) >= 4 for table in tables)
    for row in shared:
        known = [next(spot for spot in table if spot["who"] == row["who"]) for table in tables]
        left = intersection([(table, {"class": spot["class"]}) for table, spot in zip(tables, known, strict=True)], "score")
        assert row["score"] in left


@pytest.mark.parametrize(("size", "values"), [(1, 3), (2, 3), (2, 2)])
def test_wrong_secrets_left_by_enumeration(size: int, values: int) -> None:
    every = list(itertools.product(range(values), repeat=2 * size))
    left = sum(len((set(row[:size]) & set(row[size:])) - {0}) for row in every) / len(every)
    assert left_by_chance(size, values) == pytest.approx(left)


def test_randomised_response_attains_the_bound() -> None:
    """k-ary randomised response: the truth with e^eps / (e^eps + k - 1); by enumeration no posterior guess does better."""
    epsilon, values = 1.3, 7
    law = np.full((values, values), 1.0)
    np.fill_diagonal(law, np.exp(epsilon))
    law /= law.sum(axis=1, keepdims=True)
    assert law.max(axis=0).sum() / values == pytest.approx(most_of_many(epsilon, values))


def test_the_likeliest_cell_is_the_maximum_of_the_likelihood() -> None:
    with draws(3):
        known = np.arange(5) * 10
        noisy = [noisy_counts(known + np.eye(5, dtype=int)[2], 1.0) for _ in range(2)]
    likelihood = [-sum(np.abs(side - known - np.eye(5)[v]).sum() for side in noisy) for v in range(5)]
    assert likelihood[int(likeliest(noisy, [known, known]))] == max(likelihood)


def test_shown() -> None:
    shown = module.demonstrate(quick=True)
    # 0.87 of them on average, over twenty seeds, and at least 0.775 on each: 40 coins of 0.87 fall below 0.55 once in a million times.
    assert shown.raw.rate > 0.55 and shown.raw.learns()
    assert not any(level.beats() for level in shown.levels)
    assert not shown.at(0.1).learns() and shown.at(4.0).learns()


def test_noise_for_one_release_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that composition forbids: each company spends as if there were no other, ten times too much in all."""
    monkeypatch.setattr(module, "noisy_counts", lambda counts, epsilon, sensitivity: noisy_counts(counts, 10 * epsilon, sensitivity))
    assert module.demonstrate(quick=True, epsilons=(1.0,)).at(1.0).beats()


def test_one_release_pins_nobody() -> None:
    table = anonymised(made_up(100, generator(1)), 5)
    found, both = pinned(table, table)
    assert both == 100 and found == 0  # with itself a class stays a class: scores of others are left
