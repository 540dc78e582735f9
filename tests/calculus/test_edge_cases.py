"""The edge-case matrix: every transformation on every awkward value. Nothing raises, nothing leaves its domain, no aggregate is NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.calculus.shipped import PLANS, label

from tacit.calculus import Records, Rows, Transformation, Vectors, listed

VALUES: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-0.0": -0.0,
    "smallest": 5e-324,
    "largest": 1.7976931348623157e308,
    "2^63-1": 2**63 - 1,
    "-2^63": -(2**63),
    "10^400": 10**400,
    "5000 digits": 10**5000,
    "none": None,
    "empty text": "",
    "text": "12",
    "list": [1, 2, 3],
    "record": {"age": 1},
    "object": object(),
}
ROW_PLANS = [plan for plan in PLANS if isinstance(plan.input.domain, Rows)]


def as_data(plan: Transformation, value: Any, rows: int) -> Any:
    """A data set of this value in every field and every row."""
    domain = plan.input.domain
    assert isinstance(domain, Rows)
    rows = rows if domain.size is None else domain.size
    if isinstance(domain.element, Records):
        return {name: [value] * rows for name in domain.element.names}
    if isinstance(domain.element, Vectors):
        return [[value] * domain.element.length for _ in range(rows)]
    return [value] * rows


def numbers_in(result: Any) -> list[Any]:
    return [v for column in result.values() for v in listed(column)] if isinstance(result, Mapping) else listed(result)


@pytest.mark.parametrize("plan", ROW_PLANS, ids=label)
def test_no_value_breaks_a_transformation(plan: Transformation) -> None:
    for name, value in VALUES.items():
        for rows in (1, 3):
            found = plan(as_data(plan, value, rows))
            assert plan.output.domain.member(found), name
            if not isinstance(plan.output.domain, Rows):
                assert all(math.isfinite(float(v)) for v in numbers_in(found)), name


@pytest.mark.parametrize("plan", [p for p in ROW_PLANS if p.input.domain.size is None], ids=label)  # type: ignore[attr-defined]
def test_empty_data_and_all_kinds_at_once(plan: Transformation) -> None:
    empty = plan(as_data(plan, None, 0))
    assert plan.output.domain.member(empty)
    domain = plan.input.domain
    assert isinstance(domain, Rows)
    if isinstance(domain.element, Records):
        mixed: Any = {name: list(VALUES.values()) for name in domain.element.names}
    elif isinstance(domain.element, Vectors):
        mixed = [[v] * domain.element.length for v in VALUES.values()] + list(VALUES.values())
    else:
        mixed = list(VALUES.values())
    assert plan.output.domain.member(plan(mixed))


@pytest.mark.parametrize("plan", ROW_PLANS, ids=label)
def test_a_nan_row_counts_as_a_row_of_the_domain(plan: Transformation) -> None:
    """A value outside its domain does what the value that stands for it does; a row whose person is missing does nothing."""
    bad = as_data(plan, math.nan, 2)
    mended = plan.input.complete(bad)
    one, two = plan(bad), plan(mended)
    assert [repr(v) for v in numbers_in(one)] == [repr(v) for v in numbers_in(two)]


def test_numpy_columns_of_every_type() -> None:
    for plan in ROW_PLANS:
        domain = plan.input.domain
        assert isinstance(domain, Rows)
        if isinstance(domain.element, (Records, Vectors)) or domain.size is not None:
            continue
        for column in (np.zeros(2), np.array([True, False]), np.array(["a", "b"]), np.array([None, 1], dtype=object), np.zeros((2, 3))):
            assert plan.output.domain.member(plan(column))
