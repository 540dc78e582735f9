"""Names for records without names: joins by brute force, uniqueness by its closed form, an attack that is as good as permitted."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import linkage, noisy_counts
from tacit.audit.demonstrations.linkage import expected_uniqueness, link, narrowing, uniqueness, uniqueness_by_columns
from tacit.audit.experiment import generator
from tacit.audit.rates import most_accuracy

ROWS = st.lists(st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.integers(0, 2), "s": st.integers(0, 1)}), min_size=1, max_size=12)


@given(ROWS, ROWS)
def test_candidates_are_all_that_fit(published: list[dict[str, Any]], known: list[dict[str, Any]]) -> None:
    found = link(published, known, ["a", "b"])
    for person, fit in zip(known, found.candidates, strict=True):
        assert fit == tuple(i for i, row in enumerate(published) if row["a"] == person["a"] and row["b"] == person["b"])
    assert found.linked == sum(len(fit) == 1 for fit in found.candidates) / len(known)


@given(ROWS)
def test_more_columns_never_make_fewer_unique(rows: list[dict[str, Any]]) -> None:
    alone = uniqueness_by_columns(rows, ["a", "b"])
    assert alone[("a", "b")] >= max(alone[("a",)], alone[("b",)])
    assert alone[("a",)] == sum(n for n in Counter(row["a"] for row in rows).values() if n == 1) / len(rows)


def test_the_governor() -> None:
    """Spec 01, 1.2: six share his birthday, three of them are men, one lives in his district."""
    rows = [{"born": "1945-07-31", "sex": sex, "zip": place} for sex, place in (("m", 1), ("m", 2), ("m", 3), ("f", 1), ("f", 1), ("f", 2))]
    rows += [{"born": f"1950-01-{day:02}", "sex": "m", "zip": 1} for day in range(1, 29)]
    assert narrowing(rows, {"born": "1945-07-31", "sex": "m", "zip": 1}, ["born", "sex", "zip"]) == [34, 6, 3, 1]


def test_names_come_with_secrets_where_records_agree() -> None:
    published = [{"zip": 1, "ill": "flu"}, {"zip": 1, "ill": "flu"}, {"zip": 2, "ill": "flu"}, {"zip": 2, "ill": "burn"}]
    known = [{"name": "Ann", "zip": 1}, {"name": "Bob", "zip": 2}, {"name": "Eve", "zip": 3}]
    assert link(published, known, ["zip"]).names("name", "ill") == {"Ann": "flu"}


@pytest.mark.parametrize(("people", "cells"), [(2, 3), (3, 3), (4, 2)])
def test_expected_uniqueness_by_enumeration(people: int, cells: int) -> None:
    every = list(itertools.product(range(cells), repeat=people))
    share = sum(uniqueness([{"c": c} for c in row], ["c"]) for row in every) / len(every)
    assert expected_uniqueness(people, cells) == pytest.approx(share)


def test_a_town_is_as_unique_as_expected() -> None:
    """4000 people in 12 x 2 x 25,550 cells; the share has a deviation far below 0.01."""
    people = linkage.town(4000, generator(5))
    assert uniqueness(people, ["zip", "sex", "born"]) == pytest.approx(expected_uniqueness(4000, 12 * 2 * 25_550), abs=0.01)
    assert uniqueness(people, ["born"]) == pytest.approx(expected_uniqueness(4000, 25_550), abs=0.03)


def test_columns_are_needed() -> None:
    with pytest.raises(ParameterError, match="columns"):
        link([{"a": 1}], [{"a": 1}], [])


def test_shown_and_as_good_as_epsilon_permits() -> None:
    """One who knows everybody else and reads a geometric count is right with exactly e^eps / (1 + e^eps): the bound is attained."""
    shown = linkage.demonstrate(epsilons=(0.1, 1.0, 4.0))
    assert shown.raw.rate > 0.98
    for epsilon in (0.1, 1.0, 4.0):
        level = shown.at(epsilon)
        low, high = level.interval(1 - 1e-9)
        assert level.permitted == most_accuracy(epsilon)
        assert low < most_accuracy(epsilon) < high and not level.beats()
    assert not shown.at(0.1).learns() and shown.at(1.0).learns()


def test_half_the_noise_beats_what_is_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkage, "noisy_counts", lambda counts, epsilon, sensitivity=1: noisy_counts(counts, 3 * epsilon, sensitivity))
    assert linkage.demonstrate(epsilons=(1.0,)).at(1.0).beats()


def test_the_picture_has_a_bar_for_every_set() -> None:
    axes = linkage.demonstrate(quick=True).picture().axes
    assert len(axes[0].patches) == 7 and np.isfinite([bar.get_width() for bar in axes[0].patches]).all()  # type: ignore[attr-defined]
