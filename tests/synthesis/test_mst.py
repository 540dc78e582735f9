"""MST: the numbers of the specification, the tree of a chain, and its price."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.synthesis.mst import MST, noise


def test_noise_of_the_specification() -> None:
    assert noise(15, 0.0149730577) == pytest.approx((38.76466, 37.45022, 0.05340422), rel=1e-6)


def test_it_finds_the_chain(run: Any) -> None:
    ran = run(MST(), epsilon=3)
    pairs = {one.columns for one in ran.measuring.measured if len(one.columns) == 2}
    assert pairs == {(0, 1), (1, 2), (2, 3), (3, 4)}
    assert max(ran.total_variation(pair) for pair in pairs) < 0.05
    assert ran.spent_within_budget()


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_table_takes_the_same_steps(run: Any, rows: int) -> None:
    ran = run(MST(steps=20), rows=rows)
    assert len(ran.measuring.events) == 5 + 4 + 4
    assert ran.model.total >= 1


def test_a_person_with_more_rows_gets_more_noise(run: Any) -> None:
    one, many = run(MST(steps=5)), run(MST(steps=5), max_rows=7)
    for first, second in zip(one.measuring.measured, many.measuring.measured, strict=True):
        assert second.sigma == pytest.approx(7 * first.sigma, rel=0.01)
    assert [type(event) for event in one.measuring.events] == [type(event) for event in many.measuring.events]
