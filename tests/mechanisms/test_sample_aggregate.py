"""Sample and aggregate: stability by enumeration with the wrong metric as mutant, functions that misbehave, the noise's scale."""

from __future__ import annotations

import itertools
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import NoOp, PureDP
from tacit.calculus import (
    AddRemove,
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
from tacit.mechanisms import block_mean, block_median, sample_aggregate
from tacit.noise import test_mode as seeded

ROWS = Rows(Integers(0, 1000))


def hashed_sum(blocks: int = 3) -> object:
    """A step whose blocks depend on the row's value, so that enumeration sees every partition at work."""
    return sample_aggregate(lambda block: float(sum(block)), blocks=blocks, bounds=(-1, 16), granularity=1, key=b"public")


def test_stability_by_enumeration() -> None:
    """Erratum E1: over all multisets of at most three of six values, and three blocks."""
    step = hashed_sum()
    values = range(6)
    sets = [s for k in range(4) for s in itertools.combinations_with_replacement(values, k)]
    answers = {s: step.answers(np.array(s, dtype=np.int64)).tolist() for s in sets}
    hamming = symmetric = replaced = 0
    for s in sets:
        for v in values:
            t = tuple(sorted((*s, v)))
            if len(t) <= 3:
                hamming = max(hamming, int(Hamming().distance(answers[s], answers[t])))
                symmetric = max(symmetric, AddRemove().distance(answers[s], answers[t]))
        for i, v in itertools.product(range(len(s)), values):
            t = tuple(sorted((*s[:i], v, *s[i + 1 :])))
            replaced = max(replaced, int(Hamming().distance(answers[s], answers[t])))
    assert (hamming, symmetric, replaced) == (1, 2, 2)
    assert (Space(ROWS, AddRemove()) >> step).map(1) == hamming
    assert (Space(ROWS, ReplaceOne()) >> step).map(1) == replaced
    # the mutant declares add/remove into add/remove with stability 1
    assert symmetric > 1


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 9), st.integers(1, 5))
def test_one_row_changes_one_answer(rows: list[int], extra: int, blocks: int) -> None:
    step = hashed_sum(blocks)
    one, two = (step.answers(np.array(x, dtype=np.int64)).tolist() for x in (rows, [*rows, extra]))
    assert Hamming().distance(one, two) <= 1


def test_the_map_is_capped_by_the_number_of_blocks() -> None:
    plan = Space(ROWS, AddRemove()) >> sample_aggregate(len, blocks=4, bounds=(0, 10))
    assert [plan.map(d) for d in (0, 1, 3, 9)] == [0, 1, 3, 4]


def test_the_noise_of_the_mean_has_the_textbook_scale() -> None:
    assert [block_mean(epsilon=1).scale(1, m) for m in (10, 100, 1000)] == [0.1, 0.01, 0.001]
    step = sample_aggregate(lambda block: 0.5, blocks=100, bounds=(0, 1))
    plan = Space(ROWS, AddRemove()) >> step >> block_mean(epsilon=1)
    assert plan.event(1) == PureDP(1) and plan.privacy(0) == NoOp() and plan.privacy(3) == PureDP(3)
    assert (Space(ROWS, ReplaceOne()) >> step >> block_mean(epsilon=1)).privacy(1) == PureDP(2)
    with seeded(4):
        errors = np.array([abs(plan.release(range(10)).value - 0.5) for _ in range(400)])
    # the mean of |Laplace(b)| is b: 400 draws are within 20 % except with probability 1e-4, and the seed is fixed
    assert errors.mean() == pytest.approx(0.01, rel=0.2)
    assert plan.accuracy is not None and np.mean(errors > plan.accuracy(0.1)) < 0.15


def bad(kind: str):
    def function(block: np.ndarray) -> object:
        if kind == "prints":
            print("a row is", block)
            print("a row is", block, file=sys.stderr)
            warnings.warn(f"a row is {block}", stacklevel=1)
            return 3
        if kind == "mutates":
            block[:] = 0
            return 3
        if kind == "raises" and 7 in block:
            raise ValueError(f"secret {block}")
        return {"nan": float("nan"), "text": "seven", "none": None, "list": [1, 2], "inf": float("inf"), "huge": 1e308, "raises": 3}[kind]

    return function


@pytest.mark.parametrize(
    ("kind", "wanted"), [("nan", 5), ("text", 5), ("none", 5), ("list", 5), ("inf", 10), ("huge", 10), ("prints", 3), ("mutates", 3)]
)
def test_a_function_that_misbehaves_answers_within_bounds(kind: str, wanted: int, capsys: pytest.CaptureFixture[str]) -> None:
    step = sample_aggregate(bad(kind), blocks=2, bounds=(0, 10), granularity=1)
    data = np.array([7, 8, 9])
    assert step.answers(data).tolist() == [wanted] * 2
    assert data.tolist() == [7, 8, 9]
    assert capsys.readouterr() == ("", "")


def test_one_row_that_makes_the_function_raise_does_not_stop_the_release() -> None:
    plan = Space(ROWS, AddRemove()) >> sample_aggregate(bad("raises"), blocks=5, bounds=(0, 10), default=1) >> block_mean(epsilon=1)
    assert isinstance(plan.release([1, 7, 2]).value, float)
    answers = sample_aggregate(bad("raises"), blocks=1, bounds=(0, 10), granularity=1, default=1).answers(np.array([7]))
    assert answers.tolist() == [1]


def test_a_function_cannot_change_the_rows_it_is_shown() -> None:
    rows = [[1], [2], [3]]
    step = sample_aggregate(lambda block: [row.append(0) for row in block] and 3, blocks=1, bounds=(0, 10), granularity=1)
    assert step.answers(rows).tolist() == [3] and rows == [[1], [2], [3]]


def test_people_stay_together() -> None:
    people = Space(table(id=Integers(0, 99), city=Categories(("a", "b"))), Identifiers("id"))
    step = sample_aggregate(lambda block: len(set(block["id"].tolist())), blocks=4, bounds=(0, 100), granularity=1, by="id", key=b"k")
    assert (people >> step).map(1) == 1
    data = {"id": np.array([1, 2, 3] * 50), "city": ["a"] * 150}
    assert step.answers(data).sum() == 3  # nobody is counted in two blocks
    with pytest.raises(MetricError, match="by='id'"):
        people >> sample_aggregate(len, blocks=4, bounds=(0, 1))


def test_the_median_of_the_blocks() -> None:
    step = sample_aggregate(np.mean, blocks=51, bounds=(0, 100), granularity=Fraction(1, 8))
    plan = Space(ROWS, AddRemove()) >> step >> block_median(epsilon=2)
    assert plan.event(1) == PureDP(2)
    with seeded(9):
        found = [plan.release([40] * 2000).value for _ in range(30)]
    assert abs(float(np.median(found)) - 40) <= 1


def test_random_blocks_ignore_values_and_differ_between_runs() -> None:
    step = sample_aggregate(len, blocks=3, bounds=(0, 1000), granularity=1)
    with seeded(1):
        first, second = step.answers([5] * 300), step.answers([5] * 300)
    assert first.sum() == second.sum() == 300 and first.tolist() != second.tolist() and first.min() > 50


def test_refusals() -> None:
    for wrong in (
        {"bounds": (1, 1)},
        {"bounds": (0, 1), "granularity": Fraction(2, 3)},
        {"bounds": (0, 1), "default": 2},
        {"bounds": (0, 1), "by": "id"},
    ):
        with pytest.raises(DomainError):
            sample_aggregate(len, blocks=2, **wrong)
    with pytest.raises(MetricError):
        Space(Rows(Integers(0, 1)), AddRemove()) >> block_mean(epsilon=1)
    assert sample_aggregate(len, blocks=2, bounds=(0.1, 0.7)).bind(Space(ROWS, AddRemove())).output.domain.element.lower == Fraction(0.1)
