"""Outputs of every kind become categories and numbers; what is equal stays equal, and what differs stays different."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.audit.mechanisms.outputs import (
    EXTRAS,
    Encoded,
    by_atom,
    by_classifier,
    by_histogram,
    by_kernel,
    by_kind,
    different,
    encode,
    encode_both,
    outcomes,
    stacked,
    thresholds,
)

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3), st.just(ValueError("x"))
)
OUTPUTS = st.one_of(SCALARS, st.lists(SCALARS, max_size=4), st.tuples(SCALARS, SCALARS), st.dictionaries(st.text(max_size=2), SCALARS))


@given(st.lists(OUTPUTS, min_size=1, max_size=8))
def test_anything_can_be_encoded_and_features_are_finite(values: list[Any]) -> None:
    seen = encode(values)
    assert len(seen) == len(values) and np.isfinite(seen.features).all() and set(seen.kind.tolist()) <= set(seen.names)


@given(st.lists(OUTPUTS, min_size=1, max_size=8), st.lists(OUTPUTS, max_size=8))
def test_an_output_is_the_same_whatever_it_is_encoded_with(values: list[Any], others: list[Any]) -> None:
    alone, together = encode(values), encode([*values, *others])
    assert alone.atom.tolist() == together.atom[: len(values)].tolist()
    assert alone.kind.tolist() == together.kind[: len(values)].tolist()
    width = alone.features.shape[1]
    assert together.columns(width)[: len(values)].tolist() == alone.features.tolist()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        *((None, 0), ([1], [1, 1]), ((1,), [1]), ("1", 1), (ValueError("a"), ValueError("b")), (ValueError(), KeyError())),
        *((math.nan, 0.0), (0.0, -0.0), ({"a": 1}, {"b": 1}), (np.zeros(2), np.zeros(3)), (True, None)),
    ],
    ids=str,
)
def test_different_outputs_are_told_apart(one: Any, two: Any) -> None:
    seen = encode([one, two])
    assert seen.atom[0] != seen.atom[1] or seen.kind[0] != seen.kind[1]


def test_equal_outputs_are_equal() -> None:
    for value in (None, 3, 2.5, math.nan, "x", (1, None), [1.0, "a"], {"a": [1]}, np.arange(3), ValueError("a")):
        seen = encode([value, value, "something else"])
        assert seen.atom[0] == seen.atom[1] != seen.atom[2]
    assert encode([1])  # a number on the short way is the number on the long way
    assert encode([1.5, 2.5]).atom.tolist() == encode([1.5, 2.5, None]).atom[:2].tolist()


def two(first: Any, second: Any) -> tuple[Encoded, Any]:
    return stacked(*encode_both(first, second))


def test_constants_and_copies_are_no_features() -> None:
    seen = encode(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]))
    # The sum and number 1 differ by a constant and both stay; the largest (5) and number 2 are constant; the smallest copies number 1.
    assert different(seen) == [1, 3]
    assert different(encode([1.0, 2.0])) == [1]


def test_scores_rise_towards_the_second_input() -> None:
    generator = np.random.default_rng(1)
    seen, which = two(generator.normal(0, 1, 5000), generator.normal(2, 1, 5000))
    probes = encode(np.linspace(-2, 4, 7))
    for candidate in (by_classifier(seen, which), by_histogram(seen, which, 1), by_kernel(seen, which, 1), *thresholds(seen, which)):
        score = candidate.score(probes)
        assert (np.diff(score) >= -0.35).all() and score[-1] > score[0] + 1, candidate.name


def test_the_classifier_finds_the_weights_of_a_gaussian() -> None:
    """For two Gaussians of one covariance the log-likelihood ratio is linear: the direction of the shift."""
    generator = np.random.default_rng(2)
    shift = np.array([1.0, 0.0, -1.0])
    seen, which = two(generator.normal(0, 1, (20_000, 3)), shift + generator.normal(0, 1, (20_000, 3)))
    fresh = generator.normal(0.5 * shift, 1, (5000, 3))
    assert np.corrcoef(by_classifier(seen, which).score(encode(fresh)), fresh @ shift)[0, 1] > 0.98


def test_kinds_and_atoms_are_scored_by_their_ratio() -> None:
    seen, which = two([1] * 80 + [None] * 20, [1] * 20 + [None] * 80)
    probes = encode([1, None, "never seen"])
    for candidate in (by_kind(seen, which), by_atom(seen, which)):
        low, high, unknown = candidate.score(probes)
        assert low == pytest.approx(math.log(20.5 / 80.5)) and high == -low and unknown == 0


def test_an_exception_is_an_output_and_ends_nothing() -> None:
    def fails(data: int) -> float:
        return 1 / data

    found = outcomes(fails, 0)(3)
    assert [type(error) for error in found] == [ZeroDivisionError] * 3
    with pytest.raises(KeyboardInterrupt):
        outcomes(lambda data: (_ for _ in ()).throw(KeyboardInterrupt), 0)(1)


def test_columns_are_padded() -> None:
    seen = encode([1.0, 2.0])
    assert seen.column(99).tolist() == [0, 0] and seen.columns(EXTRAS + 3).shape == (2, EXTRAS + 3)
