"""Noisy sums: the event follows from scales and reach, the draw has those scales, and no sum of whole numbers goes round."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Gaussian, Laplace, NoOp, ParameterError
from tacit.exact import root
from tacit.mechanisms import Law, NoisySums, farthest_table, half_width, to_lattice
from tacit.mechanisms.noisy_sums import added, tidy
from tacit.mechanisms.row_sums import table_totals
from tacit.noise import rounded_gaussian, rounded_laplace, test_mode

BOTH: list[Law] = ["laplace", "gaussian"]
QUIET = Fraction(1, 1000)  # anything but 0 has a probability below 1e-200


@given(
    law=st.sampled_from(BOTH),
    scale=st.fractions(Fraction(1, 1000), 1000),
    moved=st.fractions(Fraction(1, 1000), 1000),
    relation=st.sampled_from([Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]),
)
def test_the_event_follows_from_the_scale_and_the_reach(law: Law, scale: Fraction, moved: Fraction, relation: Adjacency) -> None:
    sums = NoisySums.of_scale(law, scale, moved, adjacency=relation)
    assert sums.reach == moved / scale and sums.scales == (scale,)
    leaf = Laplace if law == "laplace" else Gaussian
    assert sums.event == leaf(1 / sums.reach, adjacency=relation)
    assert sums.moving(2 * moved).reach == 2 * sums.reach and sums.moving(2 * moved).scales == sums.scales
    back = NoisySums.of_multiplier(law, 1 / sums.reach, moved, adjacency=relation)
    assert back.scales == sums.scales and back.event == sums.event


def test_what_does_not_move_costs_nothing() -> None:
    sums = NoisySums.of_scale("laplace", 3, moved=0)
    assert sums.event == NoOp() and sums.reach == 0


@pytest.mark.parametrize("law", BOTH)
def test_the_draw_is_that_of_the_sampler_in_the_order_of_the_blocks(law: Law) -> None:
    """The same numbers as the sampler's own, for scalars, vectors and tables, in test mode."""
    sampler: Any = rounded_laplace if law == "laplace" else rounded_gaussian
    scales = (Fraction(5), Fraction(70, 3))
    sums = NoisySums(law, scales, 2)
    with test_mode(3):
        mine = [sums.add(7), sums.add(np.arange(4)).tolist(), sums.add(np.zeros((2, 3), dtype=np.int64), 1).tolist()]
    with test_mode(3):
        theirs = [7 + sampler(scales[0]), (np.arange(4) + sampler(scales[0], 4)).tolist(), sampler(scales[1], (2, 3)).tolist()]
    assert mine == theirs


class TwoCells:
    """A ladder of two cells, measured as their sum and their difference."""

    def encoder(self, law: str) -> np.ndarray:
        return np.array([[1, 1], [1, -1]])

    def error(self, law: str) -> float:
        return 3.0


def test_a_ladder_is_encoded_before_noise() -> None:
    sums = NoisySums("gaussian", (QUIET,), 1, ladders=(TwoCells(),))
    assert sums.add(np.array([[5, 2], [0, 1]])).tolist() == [[7, 3], [1, -1]]
    assert sums.deviation() == 3 * float(QUIET)


def neighbours(people: tuple[Any, ...], relation: Adjacency, values: list[Any]) -> list[tuple[Any, ...]]:
    """All data sets one step away: someone gone, or someone exchanged."""
    gone = [people[:i] + people[i + 1 :] for i in range(len(people))]
    if relation is Adjacency.ADD_REMOVE:
        return gone
    return [(*other, value) for other in gone for value in values]


@pytest.mark.parametrize("relation", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("law", BOTH)
def test_no_neighbour_is_farther_than_the_reach(law: Law, relation: Adjacency) -> None:
    """All data sets of three people with one of nine values, a count and a sum with scales of their own; the farthest is attained."""
    exchanged = relation is Adjacency.REPLACE_ONE
    values = list(itertools.product((0, 1), (-2, 0, 2)))  # whether counted, and what is added
    scales = (Fraction(3), Fraction(5))
    farthest = (Fraction(1), Fraction(4 if exchanged else 2))
    parts = [moved / scale for moved, scale in zip(farthest, scales, strict=True)]
    reach = sum(parts) if law == "laplace" else root(sum((part**2 for part in parts), Fraction(0)))
    sums = NoisySums(law, scales, 1 / reach, relation)

    def totals(people: tuple[Any, ...]) -> list[int]:
        return [sum(person[i] for person in people) for i in (0, 1)]

    most = Fraction(0)
    for people in itertools.product(values, repeat=3):
        for other in neighbours(people, relation, values):
            moves = [abs(a - b) / scale for a, b, scale in zip(totals(people), totals(other), sums.scales, strict=True)]
            most = max(most, sum(moves) if law == "laplace" else sum((move**2 for move in moves), Fraction(0)))
    limit = sums.reach if law == "laplace" else sums.reach**2
    assert most <= limit
    assert most > limit * (1 - Fraction(1, 10**9))
    # The mutant forgets the count, or that a person may be exchanged: then some neighbour is out of reach.
    assert most > (parts[1] if law == "laplace" else parts[1] ** 2)


@pytest.mark.parametrize("relation", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("law", BOTH)
def test_no_neighbour_of_a_table_is_farther_than_its_reach(law: Law, relation: Adjacency) -> None:
    """Rows of floats in cells of two views: every person for every other, as whole numbers."""
    people = [(row, cells) for row in (-1.0, 1.0, math.nan) for cells in itertools.product((-1, 0, 1), repeat=2)]

    def table(who: tuple[Any, ...]) -> np.ndarray:
        rows = np.array([[row] for row, _ in who]).reshape(-1, 1)
        cells = np.array([places for _, places in who], dtype=np.int64).reshape(-1, 2)
        return table_totals(rows, cells, 2, 1.0, False)[0].astype(object).ravel()

    width = to_lattice(np.ones((1, 1)), 1.0)[1]
    moved = farthest_table(2, relation, laplace=law == "laplace") * width
    sums = NoisySums.of_multiplier(law, 1, moved, adjacency=relation)
    most = Fraction(0)
    for first, second in itertools.product(people, repeat=2):
        for other in neighbours((first,), relation, [second]):
            steps = np.abs(table((first,)) - table(other)).tolist()
            most = max(most, Fraction(sum(steps) if law == "laplace" else sum(step**2 for step in steps)))
    limit = sums.scales[0] if law == "laplace" else sums.scales[0] ** 2  # reach 1
    assert limit * Fraction(99, 100) < most <= limit


WORDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62), 0, -1]))


@given(st.lists(st.tuples(WORDS, WORDS), max_size=20))
def test_sums_of_words_never_go_round(pairs: list[tuple[int, int]]) -> None:
    first = np.array([a for a, _ in pairs], dtype=np.int64)
    second = np.array([b for _, b in pairs], dtype=np.int64)
    expected = [a + b for a, b in pairs]
    assert added(first, second).tolist() == expected
    assert added(first.astype(object), second).tolist() == added(first, second.astype(object)).tolist() == expected


def test_sums_beyond_words_are_python_integers() -> None:
    quiet = NoisySums.of_scale("laplace", QUIET)
    assert quiet.add(10**30) == 10**30
    assert quiet.add(np.array([10**30, -1], dtype=object)).tolist() == [10**30, -1]
    assert quiet.add(np.array([True, False])).tolist() == [1, 0]
    assert quiet.add(np.array([200], dtype=np.uint8)).tolist() == [200]
    wide = NoisySums.of_scale("gaussian", 2**80)
    found = wide.add(np.array([2**62, 0]))
    assert found.dtype == object and all(isinstance(value, int) for value in found.tolist())
    with np.errstate(over="ignore"):  # the mutant: machine words added without looking
        assert (np.array([2**63 - 1]) + np.array([1])).tolist() != [2**63]
    assert added(np.array([2**63 - 1]), np.array([1])).tolist() == [2**63]


@pytest.mark.parametrize("law", BOTH)
def test_empty_sums_are_empty(law: Law) -> None:
    sums = NoisySums.of_scale(law, 3, granularity=Fraction(1, 4))
    for shape in ((0,), (0, 3), (2, 0)):
        assert sums.add(np.zeros(shape, dtype=np.int64)).shape == shape
        assert sums.release(np.zeros(shape, dtype=np.int64)).shape == shape
    assert NoisySums(law, (), 1).scales == ()


@pytest.mark.parametrize("law", BOTH)
def test_the_noise_has_the_deviation_and_the_error_that_are_stated(law: Law) -> None:
    sums = NoisySums.of_scale(law, 40, granularity=Fraction(1, 8))
    with test_mode(7):
        drawn = sums.release(np.zeros(40_000, dtype=np.int64))
    assert drawn.std() == pytest.approx(sums.deviation(), rel=0.05)
    assert (np.abs(drawn) > sums.error(0.9)).mean() == pytest.approx(0.1, abs=0.01)
    assert drawn.std() != pytest.approx(sums.deviation() / 2, rel=0.05)  # half the noise would be seen
    assert np.all(drawn * 8 == np.rint(drawn * 8))


def test_one_number_and_several_have_the_widths_of_the_textbook() -> None:
    assert half_width([2.0], "laplace", 0.95)[0] == pytest.approx(2 * math.log(20))
    assert half_width([3.0, 4.0], "gaussian", 0.95)[0] == pytest.approx(5 * 1.959963985)
    assert half_width([0.0], "laplace", 0.95)[0] == 0


@given(st.fractions())
def test_tidy_changes_the_form_and_never_the_number(value: Fraction) -> None:
    assert tidy(value) == value


def test_what_is_no_noise_is_refused() -> None:
    with pytest.raises(ParameterError, match="law"):
        NoisySums("normal", (Fraction(1),), 1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="positive"):
        NoisySums("laplace", (Fraction(0),), 1)
    with pytest.raises(ParameterError, match="positive"):
        NoisySums("laplace", (Fraction(1),), 0)
    with pytest.raises(ParameterError, match="equally many"):
        NoisySums("laplace", (Fraction(1),), 1, granularities=(Fraction(1), Fraction(2)))
    for make in (NoisySums.of_scale, NoisySums.of_multiplier):
        with pytest.raises(ParameterError, match="positive"):
            make("gaussian", -1)


def test_the_room_hands_out_functions_and_not_the_files_named_after_them() -> None:
    import tacit.mechanisms
    import tacit.mechanisms.laplace
    import tacit.mechanisms.quantile

    assert tacit.mechanisms.laplace(2).scale == 2 and callable(tacit.mechanisms.quantile)
    for name in tacit.mechanisms.__all__:
        assert not isinstance(getattr(tacit.mechanisms, name), ModuleType)
        assert name in dir(tacit.mechanisms)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = tacit.mechanisms.no_such_mechanism
