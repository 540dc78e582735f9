"""One strange value in one place of X or y: it may change that person's row, and nothing else about a fit.

The oracle is a matrix of floats in which the value stands as the public rule says: the number it is, or missing. With the
same seed, a fit to lists, object arrays or data frames that hold the strange value must be equal to it to the last bit, for
every estimator: so no other person's value, no type, no shape and no outcome depends on it. The readers that numpy and
scikit-learn offer are put in as mutants, and the same checks find them.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer, Normalizer
from sklearn.utils import check_array

from tacit import learning
from tacit.accounting import NoOp, ParameterError
from tacit.learning import Pipeline
from tacit.ledger import Budget, Ledger
from tacit.noise import test_mode

NAN, INF = float("nan"), float("inf")


class Odd:
    """An object that fails whatever is done with it."""

    def __float__(self) -> float:
        raise RuntimeError("Ada-4711")

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("Ada-4711")

    def __gt__(self, other: object) -> bool:
        raise RuntimeError("Ada-4711")


class Huge(Odd):
    def __float__(self) -> float:
        raise OverflowError("Ada-4711")


#: A value, and the float it is read as.
STRANGE: dict[str, tuple[Any, float]] = {
    "text": ("Ada-4711", NAN),
    "text of a number": ("0.5", 0.5),
    "bytes": (b"0.5", 0.5),
    "huge integer": (10**400, INF),
    "long integer": (-(10**5000), -INF),
    "integer beyond a word": (2**64, 2.0**64),
    "boolean": (True, 1.0),
    "nothing": (None, NAN),
    "nan": (NAN, NAN),
    "infinity": (-INF, -INF),
    "date": (datetime.date(2026, 1, 1), NAN),
    "numpy date": (np.datetime64("2026-01-01", "ns"), NAN),
    "decimal": (Decimal("0.25"), 0.25),
    "signalling decimal": (Decimal("sNaN"), NAN),
    "fraction": (Fraction(10**400, 3), INF),
    "complex": (1 + 2j, NAN),
    "list": ([1.0, 2.0], NAN),
    "mapping": ({"Ada": 4711}, NAN),
    "object": (Odd(), NAN),
    "overflowing object": (Huge(), NAN),
}

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "bounds": ([-3.0] * 3, [3.0] * 3)}
CLASSES: dict[str, Any] = {**PROMISE, "classes": [0, 1]}
ENDS: dict[str, Any] = {**PROMISE, "label_bounds": (-4, 4)}
CLASSIFIERS: dict[str, Any] = {
    "logistic": learning.LogisticRegression(**CLASSES),
    "logistic, output": learning.LogisticRegression(**CLASSES, solver="output"),
    "logistic, pure": learning.LogisticRegression(**{**CLASSES, "delta": 0}),
    "svc": learning.LinearSVC(**CLASSES),
    "bayes": learning.GaussianNB(**CLASSES),
    "tree": learning.DecisionTreeClassifier(2, **CLASSES),
    "forest": learning.RandomForestClassifier(3, **CLASSES),
    "boosting": learning.GradientBoostingClassifier(2, **CLASSES),
}
REGRESSORS: dict[str, Any] = {
    "linear": learning.LinearRegression(**ENDS),
    "linear, moments": learning.LinearRegression(**ENDS, solver="moments"),
    "ridge": learning.Ridge(**ENDS),
    "lasso": learning.Lasso(**ENDS, steps=3),
    "tree": learning.DecisionTreeRegressor(2, **ENDS),
    "forest": learning.RandomForestRegressor(3, **ENDS),
    "boosting": learning.GradientBoostingRegressor(2, **ENDS),
    "huber": learning.HuberRegressor(0.5, **ENDS),
    "quantile": learning.QuantileRegressor(**ENDS),
    "poisson": learning.PoissonRegressor(**{**ENDS, "label_bounds": (0, 5)}),
}
OTHERS: dict[str, Any] = {
    "kmeans": learning.KMeans(2, steps=1, **PROMISE),
    "pca": learning.PCA(2, **PROMISE),
    "standard": learning.StandardScaler(**PROMISE),
    "minmax": learning.MinMaxScaler(**PROMISE),
    "public minmax": learning.MinMaxScaler(bounds=PROMISE["bounds"]),
    "nystroem": learning.NystroemFeatures(np.repeat([[0.0], [1.0]], 3, axis=1)),
    "fourier": learning.RandomFourierFeatures(4),
    "pipeline": Pipeline([("scale", learning.StandardScaler(**PROMISE)), ("classify", learning.GaussianNB(**CLASSES))]),
    "stepped": Pipeline([("scale", learning.MinMaxScaler(bounds=PROMISE["bounds"])), ("unit", Normalizer()),
                         ("reduce", learning.PCA(2, epsilon=1.0, delta=1e-5, data_norm=1.0))]),
}  # fmt: skip
MODELS = {**CLASSIFIERS, **REGRESSORS, **OTHERS}
GENERATOR = np.random.default_rng(0)
X = np.round(GENERATOR.normal(size=(30, 3)), 3)
Y = (X[:, 0] > 0).astype(int)


def frame(rows: list[list[Any]]) -> Any:
    return pd.DataFrame({name: pd.Series([row[i] for row in rows], dtype=object) for i, name in enumerate("abc")})


def polar(rows: list[list[Any]]) -> Any:
    return pl.DataFrame({name: pl.Series([row[i] for row in rows], dtype=pl.Object) for i, name in enumerate("abc")})


def cells(rows: list[list[Any]]) -> Any:
    found = np.empty((len(rows), 3), dtype=object)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            found[i, j] = value
    return found


HOLDERS: dict[str, Callable[[list[list[Any]]], Any]] = {"list": lambda rows: rows, "array": cells, "pandas": frame, "polars": polar}


def state(model: Any) -> dict[str, Any]:
    """Everything that a fit leaves behind, with types and shapes; names of columns aside."""
    found: dict[str, Any] = {}
    inner = model.steps if isinstance(model, Pipeline) else []
    for name, value in [*vars(model).items(), *((f"step {key}", state(step)) for key, step in inner if not isinstance(step, str))]:
        if (name.endswith("_") and name != "feature_names_in_") or name.startswith("step "):
            found[name] = (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)
    return found


def fitted(model: Any, x: Any, y: Any) -> dict[str, Any]:
    with test_mode(7), warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning on account of a value would be an answer
        return state(clone(model).fit(x, y))


@pytest.mark.parametrize("name", MODELS)
def test_one_strange_cell_is_read_by_itself(name: str) -> None:
    model = MODELS[name]
    for turn, (value, read) in enumerate(STRANGE.values()):
        rows: list[list[Any]] = X.tolist()
        rows[turn][turn % 3] = value
        plain = X.copy()
        plain[turn, turn % 3] = read
        holder = list(HOLDERS)[turn % len(HOLDERS)]
        if holder == "list" and name == "fourier":  # it has no bounds, which would say how long a row is
            holder = "array"
        assert fitted(model, HOLDERS[holder](rows), Y) == fitted(model, plain, Y), (holder, value)


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_one_strange_label_is_read_by_itself(name: str) -> None:
    model = MODELS[name]
    for turn, (value, read) in enumerate(STRANGE.values()):
        labels: list[Any] = Y.tolist()
        labels[turn] = value
        column = np.empty(len(labels), dtype=object)
        column[:] = labels
        holders = (labels, column, pd.Series(labels, dtype=object), pl.Series(labels, dtype=pl.Object))
        plain = Y.astype(float)
        plain[turn] = read
        assert fitted(model, X, holders[turn % 4]) == fitted(model, X, plain), (turn % 4, value)


def test_rows_of_another_length_and_what_is_no_row_are_missing_rows() -> None:
    model = MODELS["bayes"]
    plain = X.copy()
    plain[4] = NAN
    for odd in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [], None, "abc", 7, {"a": 1}, np.zeros((1, 3)), Odd()):
        rows: list[Any] = X.tolist()
        rows[4] = odd
        ragged = np.empty(len(rows), dtype=object)
        ragged[:] = rows
        assert fitted(model, rows, Y) == fitted(model, ragged, Y) == fitted(model, plain, Y)


def test_a_list_has_the_declared_width_or_is_refused_before_payment(tmp_path: Path) -> None:
    """Whatever its rows are: the refusal depends on the container and on the bounds."""
    visits = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("visits", Budget(epsilon=9, delta=1e-3))
    model = learning.GaussianNB(epsilon=1.0, delta=1e-5, bounds=(-3, 3), classes=[0, 1], account=visits)
    for rows in (X.tolist(), [*X.tolist()[:-1], [1.0]], [["Ada-4711"]] * len(Y), []):
        with pytest.raises(ParameterError) as caught:
            clone(model).fit(rows, Y[: len(rows)])
        assert caught.value.code == "width-undeclared" and "Ada" not in str(caught.value)
    assert not any(visits.spent().totals.values())


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]", "complex128", [("a", "f8")]])
def test_types_that_hold_no_numbers_are_refused_by_the_type(kind: Any) -> None:
    said = set()
    for fill in (0, 4711):
        with pytest.raises(ValueError, match=r"not supported|holds no numbers|Expected 2D") as caught:
            clone(MODELS["bayes"]).fit(np.full((30, 3), fill).astype(kind), Y)
        said.add(str(caught.value))
    assert len(said) == 1 and "4711" not in said.pop()
    dates = pd.DataFrame({"a": pd.to_datetime(["2026-01-01"] * 30), "b": 1.0, "c": 2.0})
    for given in (dates, pl.from_pandas(dates)):
        with pytest.raises(ParameterError, match="holds no numbers"):
            clone(MODELS["bayes"]).fit(given, Y)


@pytest.mark.parametrize("classes", [[0, 1], [0.0, 1.0], [False, True], ["0", "1"], [b"0", b"1"], ["2026-01-01", "2026-01-02"]])
def test_labels_are_read_into_the_type_of_the_classes(classes: list[Any]) -> None:
    """The labels of the others keep their places, whatever one of them is."""
    model = clone(MODELS["bayes"]).set_params(classes=classes)
    places = np.array([0, 1] * 15)
    clean = [classes[place] for place in places]
    without = fitted(model, np.delete(X, 2, axis=0), clean[:2] + clean[3:])
    for value, _ in STRANGE.values():
        if isinstance(value, bool) or value is True:
            continue  # it is a label
        labels = [*clean[:2], value, *clean[3:]]
        assert fitted(model, X, labels) == without, value


def test_a_column_that_numpy_turned_into_text_is_read_as_numbers() -> None:
    """The caller's own np.array of integers and one text: the others are still their numbers."""
    labels = [*Y.tolist()[:-1], "x"]
    assert np.array(labels).dtype.kind == "U"
    assert fitted(MODELS["bayes"], X, np.array(labels)) == fitted(MODELS["bayes"], X[:-1], Y[:-1])
    assert fitted(MODELS["bayes"], X.astype(str), Y) == fitted(MODELS["bayes"], X, Y)


def test_masked_entries_are_missing() -> None:
    hidden = np.ma.MaskedArray(X, mask=np.zeros_like(X, dtype=bool))
    hidden[3, 1] = np.ma.masked
    plain = X.copy()
    plain[3, 1] = NAN
    assert fitted(MODELS["bayes"], hidden, Y) == fitted(MODELS["bayes"], plain, Y)


def old_codes(y: Any, classes: Any) -> Any:
    """Labels as numpy reads a list: one text turns all of them into texts."""
    found = check_array(y, dtype=None, ensure_2d=False, ensure_all_finite=False, ensure_min_samples=0)
    lookup = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([lookup.get(label, -1) for label in found.tolist()], dtype=np.int64)


def test_the_readers_of_numpy_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.learning import estimator, naive_bayes, reading

    labels = [*Y.tolist()[:-1], "x"]
    right = fitted(MODELS["bayes"], X[:-1], Y[:-1])
    assert fitted(MODELS["bayes"], X, labels) == right
    with monkeypatch.context() as patched:
        patched.setattr(naive_bayes, "codes_of", old_codes)
        patched.setattr(estimator, "column_of", lambda y, rows: y)
        assert fitted(MODELS["bayes"], X, labels) != right
    with monkeypatch.context() as patched:
        patched.setattr(reading, "number_of", float)
        with pytest.raises(ValueError, match="Ada-4711"):
            clone(MODELS["bayes"]).fit([*X.tolist()[:-1], [1.0, 2.0, "Ada-4711"]], Y)


# Errors, before payment and after it


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS, "kmeans", "pca", "standard", "minmax", "pipeline"])
def test_an_error_shows_no_value(name: str) -> None:
    """Shapes that are wrong are refused, and scikit-learn's own words would print the array."""
    wrong: list[tuple[Any, Any]] = [
        (np.full(30, 4711.0), Y),
        (np.full((30, 1, 3), 4711.0), Y),
        (np.float64(4711.0), Y),
        ("Ada-4711", Y),
        (X, np.full((30, 2), 4711)),
        (X, np.full(29, 4711)),
        (X, pd.DataFrame({"a": Y, "b": 4711})),
        (X, "Ada-4711"),
        (X, np.float64(4711.0)),
    ]
    for x, y in wrong:
        supervised = name in CLASSIFIERS or name in REGRESSORS or name == "pipeline"
        if y is not Y and not supervised:
            continue
        with pytest.raises((ValueError, TypeError, ParameterError)) as caught:
            clone(MODELS[name]).fit(x, y)
        assert "4711" not in f"{caught.value!r}{caught.value.__cause__!r}{caught.value.__context__!r}"


def test_hostile_labels_cost_what_ordinary_ones_do(tmp_path: Path) -> None:
    """Unhashable labels, objects that fail, 10**400: the fit goes through, is paid once, and nothing shows."""
    for number, name in enumerate(CLASSIFIERS):
        visits = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account(f"visits {number}", Budget(epsilon=9, delta=1e-3))
        model = clone(MODELS[name]).set_params(account=visits)
        model.fit(X, [[1], {"a": 1}, 10**400, Odd(), Huge(), set(), ([],), *Y.tolist()[7:]])
        paid = dict(visits.spent().totals)
        clone(MODELS[name]).set_params(account=visits).fit(X, Y)
        spent = visits.spent().totals
        assert all(spent[key] == 2 * value for key, value in paid.items() if value is not None)


def test_an_error_after_the_payment_shows_nothing_and_one_that_is_let_through_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails on a record between payment and release becomes one constant error; the mutant raises the record's own."""
    from tacit.learning import naive_bayes
    from tacit.ledger import paying

    def failing(labels: Any, classes: Any) -> Any:
        raise ValueError(f"unknown label {labels[0]!r}")

    def shown(first: str) -> str:
        with pytest.raises((ValueError, RuntimeError)) as caught:
            clone(MODELS["bayes"]).fit(X, [first, *Y.tolist()[1:]])
        return f"{caught.value!r}{caught.value.__cause__!r}{caught.value.__context__!r}"

    monkeypatch.setattr(naive_bayes, "codes_of", failing)
    assert shown("Ada-4711") == shown("Bob-0815") and "Ada" not in shown("Ada-4711")
    block = paying.__globals__["Touching"]
    end = block.__exit__
    monkeypatch.setattr(block, "__exit__", lambda self, *error: end(self, None, None, None))  # it ends, and lets the error through
    assert "Ada-4711" in shown("Ada-4711")


# Pipelines: a step that learns nothing sees one row at a time


BATCH_STEPS: dict[str, Callable[[Any], Any]] = {
    "centre": lambda rows: rows - rows.mean(axis=0),
    "rank": lambda rows: rows.argsort(axis=0).argsort(axis=0).astype(float),
    "total": lambda rows: np.repeat(rows.sum(axis=0, keepdims=True), len(rows), axis=0),
    "neighbour": lambda rows: np.roll(rows, 1, axis=0),
    "filter": lambda rows: rows[(rows > 0).all(axis=1)],
    "writes": lambda rows: np.multiply(rows, 2, out=rows),
}


@pytest.mark.parametrize("name", BATCH_STEPS)
def test_a_step_of_a_pipeline_cannot_carry_one_row_into_another(name: str) -> None:
    """What the private step is given for the others does not move when one row changes."""
    seen: list[np.ndarray] = []

    class Watched(learning.StandardScaler):
        def fit(self, X: Any, y: object = None) -> Any:
            seen.append(np.array(X))
            return super().fit(X, y)

    def given(rows: np.ndarray) -> np.ndarray:
        seen.clear()
        Pipeline([("odd", FunctionTransformer(BATCH_STEPS[name])), ("scale", Watched(**PROMISE))]).fit(rows)
        return seen[-1]

    step = FunctionTransformer(BATCH_STEPS[name])
    if name == "filter":  # of one row of zeros nothing is left: refused before payment
        with pytest.raises(ParameterError) as caught:
            given(X)
        assert caught.value.code == "step-not-row-wise"
        return
    before = X.copy()
    for changed in (1e9, NAN, -INF):
        other = X.copy()
        other[5] = changed
        assert np.array_equal(np.delete(given(X), 5, axis=0), np.delete(given(other), 5, axis=0), equal_nan=True)
    assert np.array_equal(X, before), "a step that writes into its input writes into a copy"
    if name != "writes":  # the mutant: scikit-learn's own pipeline gives the step all rows
        batch = [step.transform(rows) for rows in (X.copy(), np.concatenate([X[:5], X[:1] * 1e9, X[6:]]))]
        assert not np.array_equal(np.delete(batch[0], 5, axis=0), np.delete(batch[1], 5, axis=0))


def test_a_row_that_a_step_fails_on_is_a_missing_row() -> None:
    def fussy(rows: Any) -> Any:
        if (rows > 2).any():
            raise ValueError(f"no such value: {rows}")
        return rows if (rows > -2).all() else rows[:, :1]

    found = Pipeline([("odd", FunctionTransformer(fussy)), ("scale", learning.MinMaxScaler(bounds=PROMISE["bounds"]))]).fit(X)
    inner = found.named_steps["odd"].transform(np.array([[1.0, 1.0, 1.0], [9.0, 0.0, 0.0], [-9.0, 0.0, 0.0]]))
    assert inner[0].tolist() == [1.0, 1.0, 1.0] and np.isnan(inner[1:]).all()


def test_a_step_may_name_columns_and_never_sees_the_fit() -> None:
    chosen = FunctionTransformer(lambda rows: rows[["a", "c"]])

    class Learns(Normalizer):
        """It says that it need not be fitted, and looks at the data all the same."""

        def fit(self, X: Any, y: object = None) -> Any:
            assert not np.any(X) and y is None and len(X) == 1
            return self

    last = learning.GaussianNB(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1])
    model = Pipeline([("choose", chosen), ("learn", Learns()), ("classify", last)]).fit(pd.DataFrame(X, columns=list("abc")), Y)
    assert model[-1].n_features_in_ == 2 and model[0].event_ == NoOp()
    assert model.predict(pd.DataFrame(X, columns=list("abc"))).shape == (30,)
    again = clone(model).fit(pd.DataFrame(X, columns=list("abc")), Y)
    assert again.event_ == model.event_
