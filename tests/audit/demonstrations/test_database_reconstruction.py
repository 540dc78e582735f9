"""The people of a block from its tables: the published example, every solution by brute force, and noisy tables that keep it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import database_reconstruction as module
from tacit.audit.demonstrations import noisy_counts
from tacit.audit.demonstrations.database_reconstruction import (
    BLOCK,
    Statistic,
    block_universe,
    certain,
    every_table,
    kinds,
    margins,
    nearest_table,
    rebuilt,
    solve,
)
from tacit.audit.experiment import generator


def tuples(people: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(person.values()) for person in people)


def test_the_block_of_seven_has_one_solution() -> None:
    """Garfinkel, Abowd and Martindale 2019; that it is the only one follows by hand from the sums, too."""
    block = [
        *((8, "female", "Black", False), (18, "male", "White", False), (24, "female", "White", False), (30, "male", "White", True)),
        *((36, "female", "Black", True), (66, "female", "Black", True), (84, "male", "Black", True)),
    ]
    assert tuples(certain(block_universe(90), BLOCK)) == block


def test_a_median_and_a_mean_of_three() -> None:
    """Median 30 and mean 44: the others sum to 102, so one is at most 30 and the other 102 less it: 31 pairs from age 0 on."""
    universe = kinds(age=range(0, 126))
    said = [Statistic.of({}, count=3, mean=44, median=30)]
    pairs = [(a, 30, c) for a in range(31) for c in range(30, 126) if a + c == 102]
    assert len(pairs) == 31
    assert all(said[0].holds([{"age": age} for age in ages]) for ages in pairs)
    found = solve(universe, said)
    assert found is not None and tuple(sorted(person["age"] for person in found)) in pairs
    assert certain(universe, said) == [{"age": 30}]  # the middle one is certain, the others are not


@settings(max_examples=8)
@example([(0, "f"), (0, "f"), (0, "f"), (2, "f")], False)  # the two middle values of four are the same
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("fm")), min_size=1, max_size=4), st.booleans())
def test_against_every_multiset(people: list[tuple[int, str]], by_sex: bool) -> None:
    """The people of every solution are certain, and those of some solution only are not: all multisets of that size are tried."""
    universe = kinds(age=range(5), sex="fm")
    chosen: list[dict[str, Any]] = [{"age": age, "sex": sex} for age, sex in people]
    groups: list[dict[str, str]] = [{}, *([{"sex": sex} for sex in "fm"] if by_sex else [])]
    said = []
    for where in groups:
        ages = [person["age"] for person in chosen if all(person[name] == value for name, value in where.items())]
        mean = Fraction(sum(ages), len(ages)) if ages else None
        said.append(Statistic.of(where, count=len(ages), mean=mean, median=Fraction(median(ages)) if ages else None))
    fits = [option for option in itertools.combinations_with_replacement(universe, len(chosen)) if all(s.holds(option) for s in said)]
    found = solve(universe, said)
    assert found is not None and tuples(found) in [tuples(option) for option in fits]
    fewest = [kind for kind in universe for _ in range(min(option.count(kind) for option in fits))]
    assert tuples(certain(universe, said)) == tuples(fewest)


def test_contradictory_tables_have_no_solution() -> None:
    universe = kinds(age=range(10))
    said = [Statistic.of({}, count=2, mean=3), Statistic.of({}, count=3)]
    assert solve(universe, said) is None and certain(universe, said) == []
    with pytest.raises(ParameterError, match="universe"):
        solve([], said)


def test_a_rounded_mean_is_a_range() -> None:
    said = Statistic.of({}, count=3, mean="36.7", off="0.05")
    assert [s for s in range(100, 120) if said.holds([{"age": 1}, {"age": 2}, {"age": s - 3}])] == [110]
    assert not Statistic.of({}, count=3, mean="36.7").holds([{"age": 36}, {"age": 36}, {"age": 38}])  # as printed it holds for nobody


@pytest.mark.parametrize("seed", range(3))
def test_all_tables_with_given_margins_by_brute_force(seed: int) -> None:
    truth = generator(seed).integers(2, size=(2, 2, 2))
    wanted = margins(truth)
    tables = np.array(list(itertools.product(range(3), repeat=8))).reshape(-1, 2, 2, 2)  # no cell exceeds a margin, which is at most 2
    fits = np.all([np.all(tables.sum(axis=axis + 1) == wanted[axis], axis=(1, 2)) for axis in range(3)], axis=0)
    found = sorted(tuple(table.ravel().tolist()) for table in every_table(wanted))
    assert found == sorted(map(tuple, tables[fits].reshape(-1, 8).tolist()))
    assert tuple(truth.ravel().tolist()) in found


def test_exact_margins_are_met_and_noisy_ones_are_fitted_best() -> None:
    truth = generator(8).integers(2, size=(2, 2, 2))
    found = nearest_table(margins(truth))
    assert all(np.array_equal(a, b) for a, b in zip(margins(found), margins(truth), strict=True))
    noisy = [margin + shift for margin, shift in zip(margins(truth), ([[1, -1], [0, 2]], [[0, 0], [1, 0]], [[-1, 0], [2, 0]]), strict=True)]
    tables = np.array(list(itertools.product(range(5), repeat=8))).reshape(-1, 2, 2, 2)
    off = sum(np.abs(tables.sum(axis=axis + 1) - noisy[axis]).sum(axis=(1, 2)) for axis in range(3))
    assert sum(np.abs(a - b).sum() for a, b in zip(margins(nearest_table(noisy)), noisy, strict=True)) == np.min(off)


def test_unique_margins_rebuild_everybody() -> None:
    source = generator(3)
    for _ in range(5):
        truth = np.bincount(source.integers(48, size=12), minlength=48).reshape(6, 2, 4)
        if sum(1 for _ in itertools.islice(every_table(margins(truth)), 2)) == 1:
            assert rebuilt(nearest_table(margins(truth)), truth) == (12, 12)


def test_shown() -> None:
    shown = module.demonstrate(quick=True)
    assert shown.raw.rate > 0.7 and shown.raw.learns()
    assert not any(level.beats() for level in shown.levels) and not shown.at(0.1).learns()


def test_too_little_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "noisy_counts", lambda counts, epsilon, sensitivity: noisy_counts(counts, 200 * epsilon, sensitivity))
    assert module.demonstrate(quick=True, epsilons=(0.1,)).at(0.1).beats(1e-3)
