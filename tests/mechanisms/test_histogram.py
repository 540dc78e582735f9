"""Noisy histograms: every public cell has its own noise, one price for all cells, post-processing that keeps the raw counts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Adjacency, DiscreteGaussian, Gaussian, Laplace, ParameterError, account
from tacit.calculus import (
    AddRemove,
    Anything,
    Categories,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    MetricError,
    ReplaceOne,
    Rows,
    Space,
    table,
)
from tacit.mechanisms import discrete_gaussian, gaussian, geometric, laplace, noisy_histogram
from tacit.noise import test_mode

CITIES = ("Bonn", "Graz", "Lyon", "Oslo")
ROWS = Rows(Categories(CITIES))


def test_one_price_for_all_cells() -> None:
    added, replaced = Space(ROWS, AddRemove()), Space(ROWS, ReplaceOne())
    assert (added >> noisy_histogram(laplace(2))).event(1) == Laplace(2)
    assert (replaced >> noisy_histogram(laplace(2))).event(1) == Laplace(1, adjacency=Adjacency.REPLACE_ONE)
    assert (Space(ROWS, Hamming()) >> noisy_histogram(laplace(2))).event(1) == Laplace(1, adjacency=Adjacency.REPLACE_ONE)
    assert (added >> noisy_histogram(gaussian(3))).event(1) == Gaussian(3)
    exchanged = (replaced >> noisy_histogram(gaussian(3))).event(1)
    assert isinstance(exchanged, Gaussian) and (3 / Fraction(exchanged.noise_multiplier)) ** 2 == pytest.approx(2, rel=1e-15)
    assert (added >> noisy_histogram(discrete_gaussian(3))).event(1) == DiscreteGaussian(3, 1)
    assert account((added >> noisy_histogram(geometric(2))).event(1)).epsilon(0).upper == pytest.approx(0.5)


def test_all_public_cells_are_released_also_the_empty_ones() -> None:
    plan = Space(ROWS, AddRemove()) >> noisy_histogram(laplace(2))
    full = plan.release(["Bonn"] * 100 + ["Graz"]).value
    empty = plan.release([]).value
    assert list(full.raw) == list(empty.raw) == list(full.counts) == list(CITIES)


def test_empty_cells_get_noise_of_their_own() -> None:
    """One draw shared by all empty cells is a known failure: distinct values, and the variance of single draws."""
    cells = tuple(range(2000))
    plan = Space(Rows(Integers(0, 1999)), AddRemove()) >> noisy_histogram(laplace(50), cells)
    with test_mode(91):
        drawn = np.array(list(plan.release([]).value.raw.values()))
    assert len(set(drawn.tolist())) > 150
    assert drawn.var() == pytest.approx(2 * 50**2, rel=0.2)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.12
    shared = np.full(2000, drawn[0])  # the mutant
    assert len(set(shared.tolist())) == 1 and shared.var() == 0


def test_post_processing_keeps_the_raw_counts_and_biases_as_known() -> None:
    plan = Space(Rows(Integers(0, 49_999)), AddRemove()) >> noisy_histogram(laplace(2), postprocess=("clip0", "round"))
    with test_mode(92):
        answer = plan.release([]).value
    raw, counts = (np.array(list(found.values())) for found in (answer.raw, answer.counts))
    assert (raw < 0).any() and (counts >= 0).all() and np.array_equal(counts, np.maximum(raw, 0))
    assert all(isinstance(value, int) for value in list(answer.counts.values())[:10])
    # E max(0, Lap(b)) = b/2 = 1; rounding moves it to the sum of k P[k]: e^(-1/(2b)) / (2 (1 - e^(-1/b)))
    exact = math.exp(-1 / 4) / (2 * (1 - math.exp(-1 / 2)))
    assert exact == pytest.approx(1, abs=0.02)
    assert counts.mean() == pytest.approx(exact, abs=6 * 2 / math.sqrt(50_000))
    assert abs(raw.mean()) < 6 * math.sqrt(8 / 50_000)


def test_counts_are_right_without_noise() -> None:
    plan = Space(ROWS, AddRemove()) >> noisy_histogram(laplace(Fraction(1, 10**6)))
    with test_mode(93):
        assert plan.release(["Graz", "Bonn", "Graz", "nowhere", None, ["x"]]).value.raw == {"Bonn": 4, "Graz": 2, "Lyon": 0, "Oslo": 0}
        other = Space(Rows(Anything()), AddRemove()) >> noisy_histogram(laplace(Fraction(1, 10**6)), ["a", 1])
        assert other.release(["a", "b", 1, 1, float("nan"), [1], {"a": 1}, ("a", [])]).value.raw == {"a": 1, 1: 2}


def test_several_columns_make_all_combinations() -> None:
    people = table(age=Integers(0, 9), city=Categories(CITIES), income=Integers())
    plan = Space(people, AddRemove()) >> noisy_histogram(laplace(Fraction(1, 10**6)), by=("city", "age"))
    with test_mode(94):
        found = plan.release({"age": [3, 3, 99], "city": ["Oslo", "Oslo", "Rome"], "income": [1, 2, 3]}).value.raw
    assert len(found) == 40 and sum(found.values()) == 3
    assert found["Oslo", 3] == 2 and found["Bonn", 9] == 1


def test_removing_the_only_row_of_a_category_changes_no_name_and_no_order() -> None:
    plan = Space(ROWS, AddRemove()) >> noisy_histogram(laplace(2))
    assert list(plan.release(["Lyon", "Bonn"]).value.raw) == list(plan.release(["Bonn"]).value.raw)


def test_accuracy_holds_for_all_cells_at_once() -> None:
    plan = Space(ROWS, AddRemove()) >> noisy_histogram(laplace(3))
    assert plan.accuracy is not None
    bound = plan.accuracy(0.1)
    with test_mode(95):
        worst = [max(abs(v) for v in plan.release([]).value.raw.values()) for _ in range(2000)]
    assert sum(w > bound for w in worst) <= 200 + 6 * math.sqrt(180)
    assert sum(w > bound - 2 for w in worst) > 200


@pytest.mark.parametrize(
    ("space", "arguments", "message"),
    [
        (Space(Rows(Integers()), AddRemove()), {}, "never read from the data"),
        (Space(table(age=Integers(0, 9)), AddRemove()), {}, "name the columns"),
        (Space(table(age=Integers()), AddRemove()), {"by": ("age",)}, "no public list"),
        (Space(Rows(Integers(0, 10**9)), AddRemove()), {}, "public list"),
    ],
    ids=["open", "no columns", "open column", "too many"],
)
def test_cells_are_public_or_refused(space: Space, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        space >> noisy_histogram(laplace(1), **arguments)


def test_other_relations_and_options_are_refused() -> None:
    with pytest.raises(MetricError, match="cap_rows"):
        Space(table(id=Integers(0, 3)), Identifiers("id")) >> noisy_histogram(laplace(1), by=("id",))
    with pytest.raises(ParameterError, match="postprocess"):
        noisy_histogram(laplace(1), postprocess=("sort",))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="categories"):
        Space(Rows(Anything()), AddRemove()) >> noisy_histogram(laplace(1), ["a", "a"])
