"""An audit of code that never ran is no audit: it ends in an error with the exception's type, and says what the function receives."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tacit.accounting import PackageMissing, ParameterError
from tacit.audit import audit_mechanism
from tacit.audit.mechanisms import neighbours
from tacit.audit.mechanisms.neighbours import Neighbours, described, shaped
from tacit.noise import discrete_laplace


def expects_a_frame(rows: Any) -> int:
    return int(rows["value"].notna().sum()) + discrete_laplace(1)


def test_a_function_that_raises_on_most_inputs_is_refused_with_the_type() -> None:
    """It passed: attacks on one and the same exception find nothing."""
    with pytest.raises(ParameterError) as error:
        audit_mechanism(expects_a_frame, "eps=1", trials=100)
    assert error.value.code == "function-raises" and error.value.facts["type"] == "TypeError"
    assert "receives a list of" in str(error.value) and "pandas" in str(error.value)


@pytest.mark.parametrize("end", [RuntimeError, SystemExit])
def test_a_function_that_stops_to_answer_while_it_is_attacked_is_refused(end: type[BaseException]) -> None:
    """It answers as often as it is tried, and raises ever after, as one with a budget of its own does; `exit(0)` is no verdict either."""
    left = [95]

    def tired(rows: list[int]) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise end
        return len(rows)

    with pytest.raises(ParameterError) as error:
        audit_mechanism(tired, "eps=1", trials=60, deep=1)
    assert error.value.code == "function-raises" and error.value.facts["type"] == end.__name__


def test_an_exception_on_one_input_alone_is_still_an_output() -> None:
    def fails_with_three(rows: list[int]) -> int:
        if len(rows) == 3:
            raise ValueError
        return len(rows)

    report = audit_mechanism(fails_with_three, "eps=1", neighbours=[([1, 2, 3], [1, 2])], trials=100)
    assert report.broken and report.receives == "a list of 3 numbers"


@pytest.mark.parametrize("form", ["pandas", "list", "arrow"])
def test_the_form_that_a_function_takes(form: Any) -> None:
    seen: set[str] = set()

    def release(data: Any) -> int:
        seen.add(type(data).__name__)
        return len(data) + discrete_laplace(1)

    report = audit_mechanism(release, "eps=1", trials=200, deep=1, seed=1, form=form)
    assert not report.broken
    assert seen == {{"pandas": "DataFrame", "list": "list", "arrow": "Table"}[form]}
    assert report.to_json()["receives"] == report.receives and report.receives in str(report)
    with pytest.raises(ParameterError, match="form"):
        audit_mechanism(release, "eps=1", trials=200, form="spark")  # type: ignore[arg-type]


def test_every_kind_of_data_takes_every_form() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    for data in (table, table.to_pandas(), table.to_pydict(), table.to_pylist(), [(1, "x"), (2, "y")], [1.5, 2.5]):
        pair = Neighbours("p", data, data[:0] if isinstance(data, list) else data)
        assert isinstance(shaped(pair, "pandas").first, pd.DataFrame)
        assert isinstance(shaped(pair, "arrow").second, pa.Table)
        assert len(shaped(pair, "list").first) == 2
        assert described(data)
    empty = shaped(Neighbours("p", [{"a": 1}], []), "pandas")
    assert list(empty.second.columns) == ["a"] and len(empty.second) == 0


def test_a_form_whose_package_is_missing_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "find_spec", lambda name: None)
    with pytest.raises(PackageMissing, match="pip install pandas"):
        shaped(Neighbours("one more", [1], [1, 2]), "pandas")
