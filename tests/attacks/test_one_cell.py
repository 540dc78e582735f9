"""One strange value in a column that is handed over as a list, an array of objects or a data frame: it changes that row alone.

`test_one_value.py` holds this for estimators; here it is for what counts patients, pictures' tracks, gaze, answers in a
survey, groups and rows to be made up. The oracle is the same column with nothing in that place: with the same seed the
release is equal to the last bit, so no other person's value, no type and no outcome depended on the strange one. Columns
of Arrow hold what Python cannot read, and bounds and types of numbers reach the ends of what floats can hold.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tacit import fairness, federated, learning
from tacit.accounting import Adjacency, ParameterError
from tacit.applications import health, vision
from tacit.calculus import column_values
from tacit.local import frequencies
from tacit.mechanisms import (
    FactorRows,
    clip_rows,
    noisy_l1_sum,
    noisy_second_moment,
    noisy_sum,
    randomised_response,
    row_sums,
    to_lattice,
)
from tacit.mechanisms.randomised_response import from_coins
from tacit.noise import test_mode
from tacit.synthesis import CategoryColumn, NumberColumn, paid_distance, synthesize

NAN = float("nan")


class Odd:
    """An object that fails whatever is done with it."""

    __hash__ = None  # type: ignore[assignment]

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("Ada-4711")

    __float__ = __str__ = __bool__ = __eq__ = _fail


#: Values that are none of the declared ones, no numbers, or both.
STRANGE: list[Any] = [
    "Ada-4711", 2.5, 10**5000, 2**64 + 7, Decimal("sNaN"), Decimal("1e999999"), np.datetime64("NaT"), np.timedelta64(5, "D"),
    datetime.date.min, [1], [1, 2], {"Ada": 4711}, np.array([1, 2]), set(), Odd(), "", "\ud800", b"\xff", complex(1, 2), -3,
]  # fmt: skip


def objects(column: list[Any]) -> Any:
    found = np.empty(len(column), dtype=object)
    for place, value in enumerate(column):
        found[place] = value
    return found


HOLDERS: list[Callable[[list[Any]], Any]] = [list, objects, lambda column: pd.Series(objects(column))]
TIMES, SEEN, ARM, SCORE, LETTER = [1, 2, 3, 4] * 5, [1, 0] * 10, [1, 2] * 10, [0.1, 0.9] * 10, ["a", "b"] * 10
BY: dict[str, Any] = {"groups": {"arm": [1, 2]}, "epsilon": 1.0}


def curves(times: Any, seen: Any, arm: Any) -> Any:
    made = health.KaplanMeier(epsilon=1, bins=[0, 1, 2, 5], groups=["1", "2"]).fit(times, seen, arm)
    return [block.tolist() for block in made.released_]


RELEASES: dict[str, tuple[Callable[..., Any], list[list[Any]]]] = {
    "survival": (curves, [TIMES, SEEN, ARM]),
    "contingency": (
        lambda a, b: health.contingency_test(a, b, rows=[1, 2], columns=["a", "b"], epsilon=1).table.tolist(), [ARM, LETTER],
    ),
    "card": (
        lambda label, score, arm, when: health.clinical_card(
            label, {"model": score}, groups=arm, names=["1", "2"], when=when, split=2, epsilon=1
        ).rows, [SEEN, SCORE, ARM, TIMES],
    ),
    "calibration": (lambda s, y, g: repr(vars(fairness.private_calibration(s, y, sensitive_features=g, **BY))), [SCORE, SEEN, ARM]),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASES)
def test_one_strange_value_changes_its_own_row_alone(name: str) -> None:
    release, columns = RELEASES[name]

    def released(place: int, value: Any, hold: Callable[[list[Any]], Any]) -> Any:
        given = [hold([*column[:5], value, *column[6:]]) if i == place else hold(column) for i, column in enumerate(columns)]
        with test_mode(7), warnings.catch_warnings():
            warnings.simplefilter("error")
            return release(*given)

    for place in range(len(columns)):
        without = released(place, None, list)
        for turn, value in enumerate(STRANGE):
            if columns[place] in (TIMES, SCORE) and isinstance(value, (int, float, Decimal)):
                continue  # it is a number there
            hold = HOLDERS[turn % 3]
            assert released(place, value, hold) == without, (place, turn)


def test_the_reader_of_numpy_lets_one_patient_change_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: with numpy's types 2.5 makes every 1 a 1.0, which was not declared, and a list raises before the payment."""
    module = __import__("tacit.applications.health.contingency", fromlist=["column_of"])

    def old(values: Any, names: Any) -> Any:
        places = {name: i for i, name in enumerate(names)}
        return np.array([places.get(str(value), -1) for value in values.tolist()], dtype=np.int64)

    monkeypatch.setattr(module, "column_of", np.asarray)
    monkeypatch.setattr(module, "places_of", old)
    release, (first, second) = RELEASES["contingency"]
    with test_mode(7):
        right = release(first, second)
    with test_mode(7):
        changed = release([*first[:-1], 2.5], second)
    assert abs(np.array(changed) - np.array(right)).sum() > 10
    with pytest.raises(ValueError, match="inhomogeneous"):
        release([*first[:-1], [1, 2]], second)


@pytest.mark.parametrize("value", STRANGE, ids=range(len(STRANGE)))
def test_tracks_gaze_and_genotypes_are_read_value_by_value(value: Any) -> None:
    gaze, presence = vision.GazeStream(radius=1, window=1, epsilon=0.25), vision.Presence(keyframes=2, epsilon=8)
    number = isinstance(value, (int, float, Decimal))

    def all_of(odd: Any) -> tuple[Any, ...]:
        with test_mode(3):
            return (
                vision.release_gaze(gaze, [[1, 2], [3, odd], [4, 5]]).points.tolist(),
                vision.release_tracks(presence, [[1, 0]] * 200 + [[0, odd]]).reports.tolist(),
                [block.tolist() for block in health.Genotypes.of_array([[1, 0], [2, odd]], names=["x", "y"]).blocks()],
                randomised_response(1, 3).privatise([0, 2, odd, 1]).tolist(),
                from_coins().privatise([0, 1, odd, 1]).tolist(),
            )

    found, without = all_of(value), all_of(None)
    assert found[2] == without[2]
    if not number:
        assert found[:4] == without[:4]
    else:  # it is a number of its own: the others are as they were
        assert found[0][0] == without[0][0] and found[0][2] == without[0][2]
    assert found[4][:2] == without[4][:2] and found[4][3] == without[4][3]


def test_a_list_of_genotypes_has_the_declared_width() -> None:
    """Not that of a person's row: the refusal depends on the container alone."""
    for rows in ([[0, 1], [2, 1]], [[0], [1, 2]], [["Ada-4711"]]):
        with pytest.raises(ParameterError, match="does not say how many variants") as caught:
            health.Genotypes.of_array(rows)
        assert "Ada" not in str(caught.value)
    ragged = health.Genotypes.of_array([[0], [1, 2], 7], names=["x", "y"])
    assert [block.tolist() for block in ragged.blocks()] == [[[0, 0], [1, 2], [0, 0]]]


# --- columns of Arrow that Python cannot read ------------------------------------------------------------------


def broken(kind: Any, bad: bool) -> Any:
    return pa.array([b"0.5", b"0.25", b"Ada\xff" if bad else None, b"1"], pa.binary()).cast(pa.large_binary()).view(kind)


def dates(bad: bool) -> Any:
    """Instants within lists: the last one lies beyond Python's calendar."""
    return pa.array([[0], [1], [10**15] if bad else None, [2]], pa.list_(pa.timestamp("s")))


def coded(bad: bool) -> Any:
    instants = pa.array([0, 10**15 if bad else None], pa.timestamp("s"))
    return pa.DictionaryArray.from_arrays(pa.array([0, 0, 1, 0], pa.int8()), instants)


UNREADABLE: list[Callable[[bool], Any]] = [lambda bad: broken(pa.large_string(), bad), dates, coded]
PLAIN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "bounds": (-1, 1)}
KEPT = [CategoryColumn("x", ("0.5", "0.25"))]


def bayes(table: Any) -> Any:
    return learning.GaussianNB(classes=[0, 1], **PLAIN).fit(table, [0, 1, 0, 1]).theta_.tolist()


def labelled(table: Any) -> Any:
    return learning.GaussianNB(classes=["0.5", "0.25"], **PLAIN).fit(np.zeros((4, 2)), table["x"]).theta_.tolist()


def transformed(table: Any) -> Any:
    return learning.ColumnTransformer([("s", learning.StandardScaler(**PLAIN), ["x"])]).fit(table).transformers_[0][1].mean_.tolist()


def encoded(table: Any) -> Any:
    alone = table.select(["x"]) if isinstance(table, pa.Table) else table[["x"]]
    return learning.OneHotEncoder([["0.5", "0.25"]]).fit_transform(alone).tolist()


def made(table: Any) -> Any:
    return synthesize(table, KEPT, mu=1, method="independent").marginal("x")


def far(table: Any) -> Any:
    return str(paid_distance(table, {"x": ["0.5"]}, KEPT, ways=1, total=4, epsilon=1))


def by_group(table: Any) -> Any:
    groups = {"x": ["0.5", "0.25"]}
    return fairness.private_rates([1, 0] * 2, [1, 0] * 2, groups=groups, sensitive_features=table["x"], epsilon=1).counts.tolist()


READERS = [bayes, labelled, transformed, encoded, made, far, by_group]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("column", UNREADABLE, ids=["text", "lists", "codes"])
@pytest.mark.parametrize("held", ["arrow", "pandas"])
def test_what_a_container_cannot_hand_over_is_missing(read: Callable[[Any], Any], column: Callable[[bool], Any], held: str) -> None:
    def of(bad: bool) -> Any:
        table = pa.table({"x": column(bad), "y": [0.1, 0.2, 0.3, 0.4]})
        whole = table if held == "arrow" else table.to_pandas(types_mapper=pd.ArrowDtype)
        with test_mode(5):
            return read(whole)

    assert of(True) == of(False)


def test_dates_among_objects_are_no_column_of_dates() -> None:
    """pandas infers a type from all values of a column, and one person's text decided whether the paid fit went through."""
    days = [datetime.datetime(2026, 1, day) for day in range(1, 5)]
    for column in (days, [*days[:3], "Ada-4711"], [*days[:3], None]):
        transformed(pd.DataFrame({"x": pd.Series(objects(column))}))


def test_the_libraries_own_readers_raise_and_show_the_value() -> None:
    """The mutant: what `column_values` stands in front of."""
    column = broken(pa.large_string(), True)
    with pytest.raises(UnicodeDecodeError):
        column.to_pylist()
    with pytest.raises(pa.ArrowException, match="Ada"):
        pa.table({"x": column}).to_pandas()["x"].to_list()
    assert column_values(column) == ["0.5", "0.25", None, "1"]
    assert column_values(pa.chunked_array([column, column.slice(1, 2)])) == ["0.5", "0.25", None, "1", "0.25", None]
    assert column_values(np.ma.MaskedArray([1, 2], mask=[False, True])) == [1, None]


def test_a_batch_of_reports_is_not_refused_for_one_answer() -> None:
    protocol = frequencies(["0.5", "0.25"], epsilon=1)
    for column in UNREADABLE:
        with test_mode(1):
            bad = protocol.places(column(True)).tolist()
        with test_mode(1):
            assert protocol.places(column(False)).tolist() == bad


# --- the ends of what floats can hold --------------------------------------------------------------------------

EDGES = [[0, 0], [1, 0], [3, 4], [np.inf, 0], [-np.inf, np.nan], [6e4, 6e4], [np.nan, 1], [1e300, -1e300], [5e-324, 0]]
KINDS = [np.float64, np.float32, np.float16, np.longdouble, np.int64, np.int8, np.uint8, np.bool_]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", [1.0, 1e-30, 1e100, 2.0**-900, 2.0**900])
def test_no_row_of_any_type_moves_a_sum_by_more_than_its_bound(kind: Any, bound: float) -> None:
    for edge in EDGES:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = np.array([edge]).astype(kind)
        whole, width = to_lattice(row, bound)
        assert sum(x * x for x in whole[0].tolist()) <= width**2  # exact: Python integers
        factor = FactorRows.of(row, bound).values[0].tolist()
        assert sum(int(x) ** 2 for x in factor) <= 2**32
        with test_mode(1):
            added = noisy_l1_sum(row, bound=bound, multiplier=2.0**-20, adjacency=Adjacency.ADD_REMOVE)
        assert np.abs(added).sum() <= bound * 1.001
        assert np.sqrt((clip_rows(row, bound) ** 2).sum()) <= bound * (1 + 1e-12) or bound > 1e150


def test_the_old_lattice_is_caught() -> None:
    """The mutant: in half precision, or below the least bound, every coordinate was -2^63, whose square goes round to 0."""

    def old(rows: Any, bound: float) -> Any:
        width = 1 << 24
        with np.errstate(all="ignore"):
            finite = np.clip(np.nan_to_num(rows, nan=0.0, posinf=np.inf, neginf=-np.inf), -1e150, 1e150)
            whole = np.trunc(finite * (width / bound * (1 - 2.0**-40))).astype(np.int64)
            within = (whole * whole).sum(axis=1, keepdims=True) <= width * width
        return np.where(within, whole, 0)

    for rows, bound in ((np.array([[1.0, 0.0]], dtype=np.float16), 1.0), (np.array([[1.0, 0.0]]), 1e-305)):
        assert min(old(rows, bound)[0].tolist()) == -(2**63)


@pytest.mark.parametrize("bound", [0, -1, NAN, float("inf"), 5e-324, 1e-305, 1e300, "1"])
def test_a_bound_that_floats_cannot_count_in_is_refused(bound: Any) -> None:
    rows = np.ones((2, 2))
    for function in (noisy_sum, noisy_l1_sum, noisy_second_moment):
        with pytest.raises((ParameterError, TypeError)):
            function(rows, bound=bound, multiplier=1.0, adjacency=Adjacency.ADD_REMOVE)
    for each in (clip_rows, to_lattice, FactorRows.of):
        with pytest.raises((ParameterError, TypeError)):
            each(rows, bound)
    assert row_sums.checked_bound(2.0**-900) == 2.0**-900


@pytest.mark.parametrize("ends", [(-1e308, 1e308), (0, 1.7e308), (-1e101, 0), ([0, -1e308], [1, 1e308])])
def test_bounds_whose_width_is_no_float_are_refused_before_any_row(ends: Any) -> None:
    """A row of an infinity became NaN there, and the fit of trees failed after its payment for that person alone."""
    rows, labels = np.zeros((8, 2)), [0, 1] * 4
    for model in (learning.DecisionTreeRegressor(epsilon=1, delta=0, bounds=ends, label_bounds=(0, 1)),
                  learning.DecisionTreeRegressor(epsilon=1, delta=0, bounds=(0, 1), label_bounds=(-1e308, 1e308)),
                  learning.GaussianNB(epsilon=1, delta=1e-5, data_norm=1e101, classes=[0, 1]),
                  learning.KMeans(2, epsilon=1, delta=1e-5, bounds=ends)):  # fmt: skip
        with pytest.raises(ParameterError, match="at most"):
            model.fit(rows, labels)


def test_made_up_rows_take_any_value() -> None:
    declared = [CategoryColumn("c", ("1", "2")), NumberColumn.between("n", 0, 99, 4)]
    for value in STRANGE:
        for person in (None, "id"):
            columns = {"c": [1, 2] * 10, "n": list(range(20)), "id": [i // 2 for i in range(20)]}
            for name in columns:
                columns[name] = [*columns[name][:5], value, *columns[name][6:]]
            terms: dict[str, Any] = {} if person is None else {"person": "id", "max_rows": 2}
            synthesize(columns, declared, mu=1, method="independent", **terms)


@pytest.mark.parametrize("value", [*STRANGE, ([1],), (10**400, 1), (NAN, NAN)], ids=range(len(STRANGE) + 3))
def test_a_client_answers_whatever_its_value_is(value: Any) -> None:
    """The vector of one client never raises, so that a sum over clients at hand fails for none of them."""
    how: dict[str, Any] = {"clients": 10, "epsilon": 1.0, "delta": 1e-6}
    box = (0.0, 0.0, 1.0, 1.0)
    keyed, places = federated.histogram(["a", "b"], max_contributions=1, **how), federated.heatmap(box, (2, 2), max_contributions=1, **how)
    assert keyed.places(value) == keyed.places([value]) == [] and places.cells([value, (0.9, 0.9)])[-1] == 3
    for question in (federated.count(**how), federated.sum(0, 10, **how), federated.mean(0, 10, **how), keyed):
        for given in (value, [value]):
            question.simulate([given] * 3)
    federated.heavy_hitters(box, 2, **how).found([value, (0.1, 0.1)])
    federated.heavy_hitters("ab", 2, **how).found([value])
    federated.evaluation(most_loss=1, **how).simulate([(value, 0.5), (0.5, 0.5), value])


def test_no_client_is_a_number_of_clients_like_any_other() -> None:
    """Nobody answered, or one: neither fails."""
    for rows in (0, 1):
        federated.count(clients=10, epsilon=1.0, delta=1e-6).simulate(np.zeros((rows, 1), dtype=np.int64))
