"""k, l and what they do not promise: the textbook's table and its erratum, brute force, and a partition that keeps its k."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import reidentification
from tacit.audit.demonstrations.reidentification import (
    background,
    best_guess,
    classes,
    entropy_l,
    generalise,
    homogeneous,
    k_of,
    l_of,
    partition,
    risk,
)
from tacit.audit.experiment import generator

ROWS = st.lists(st.fixed_dictionaries({"q": st.integers(0, 3), "s": st.sampled_from("abc")}), min_size=1, max_size=15)


def fico(score: int) -> str:
    """The bands of the score in the book's table."""
    return "poor" if score < 580 else "fair" if score < 670 else "good"


def test_the_homogeneous_class_of_the_book() -> None:
    """Spec 01, 1.2: the class {2, 4, 6, 7} has scores 650, 590, 597, 613; all are "fair"."""
    scores = [700, 650, 720, 590, 810, 597, 613, 480]
    table = [{"zip": "30***" if i in (1, 3, 5, 6) else "19***", "score": fico(score)} for i, score in enumerate(scores)]
    assert k_of(table, ["zip"]) == 4
    assert l_of(table, ["zip"], "score") == 1
    assert homogeneous(table, ["zip"], "score") == 0.5


def test_the_books_generalisation_is_not_four_anonymous() -> None:
    """Erratum E11: applied to the table as printed it leaves classes of 4, 3 and 1, since one zip of 19*** was put among 30***."""
    places = ["19456", "30103", "19456", "30101", "19400", "30122", "19456", "19401"]  # record 7 is the misprinted one
    ages = [67, 33, 67, 38, 60, 31, 35, 62]
    rows = [{"zip": place, "age": age} for place, age in zip(places, ages, strict=True)]
    coarse = generalise(rows, {"zip": lambda zip_: zip_[:2] + "***", "age": lambda age: "30-40" if age <= 40 else "60-70"})
    assert sorted(len(members) for members in classes(coarse, ["zip", "age"]).values()) == [1, 3, 4]
    assert k_of(coarse, ["zip", "age"]) == 1
    rows[6]["zip"] = "30456"
    coarse = generalise(rows, {"zip": lambda zip_: zip_[:2] + "***", "age": lambda age: "30-40" if age <= 40 else "60-70"})
    assert k_of(coarse, ["zip", "age"]) == 4


@given(ROWS)
def test_against_brute_force(rows: list[dict[str, Any]]) -> None:
    sizes = [sum(other["q"] == row["q"] for other in rows) for row in rows]
    kinds = [{other["s"] for other in rows if other["q"] == row["q"]} for row in rows]
    found = risk(rows, ["q"])
    assert k_of(rows, ["q"]) == min(sizes)
    assert l_of(rows, ["q"], "s") == min(len(kind) for kind in kinds)
    assert found.average == pytest.approx(sum(1 / size for size in sizes) / len(rows))
    assert found.worst == pytest.approx(1 / min(sizes)) and found.unique == sizes.count(1) / len(rows)
    for ruled_out in range(3):
        assert background(rows, ["q"], "s", ruled_out) == pytest.approx(sum(len(kind) <= 1 + ruled_out for kind in kinds) / len(rows))
    assert entropy_l(rows, ["q"], "s") <= l_of(rows, ["q"], "s") + 1e-9


def test_entropy_diversity_of_equal_shares_is_their_number() -> None:
    assert entropy_l([{"q": 0, "s": s} for s in "abcd" * 3], ["q"], "s") == pytest.approx(4)
    skewed = [{"q": 0, "s": s} for s in "a" * 9 + "b"]
    assert entropy_l(skewed, ["q"], "s") == pytest.approx(math.exp(-0.9 * math.log(0.9) - 0.1 * math.log(0.1)))


def test_an_empty_table_raises_nothing() -> None:
    assert (k_of([], ["q"]), l_of([], ["q"], "s"), homogeneous([], ["q"], "s")) == (0, 0, 0.0)
    assert risk([], ["q"]).average == 0.0 and entropy_l([], ["q"], "s") == 0.0


@pytest.mark.parametrize("k", [1, 2, 5, 17])
def test_a_partition_keeps_its_k_and_everybody(k: int) -> None:
    rows = reidentification.clinic(200, generator(2))
    parts = partition(rows, ["age", "home"], k)
    assert sorted(i for part in parts for i in part) == list(range(200))
    assert min(len(part) for part in parts) >= k
    assert k == 1 or max(len(part) for part in parts) < 8 * k  # and cuts as long as it may


def test_a_partition_of_too_few_is_refused() -> None:
    with pytest.raises(ParameterError, match="k must lie"):
        partition([{"a": 1}], ["a"], 2)


def test_ties_go_to_the_smallest() -> None:
    assert best_guess([2, 1, 2, 1, 3]) == 1


def test_shown() -> None:
    shown = reidentification.demonstrate(quick=True)
    assert shown.raw.rate > shown.raw.base + 0.2 and shown.raw.learns()
    assert not any(level.beats() for level in shown.levels)
    assert not shown.at(0.1).learns()
    curve = shown.picture().axes[0].lines[1].get_ydata()
    assert np.all(np.diff(np.asarray(curve)) <= 0)  # larger classes are less homogeneous
