"""Recommendations: errors that are those of the plans, and public facts alone."""

from __future__ import annotations

import math

import pytest

from tacit.accounting import Guarantee, ParameterError
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Product, measured, recommend, with_dawa

RANGES = Product(x=AllRanges).on(Cells.of({"x": 32}))


@pytest.mark.parametrize("price", [Guarantee(epsilon="0.5"), Guarantee(rho="0.1"), Guarantee(epsilon=1, delta="1e-6"), Guarantee(mu=1)])
def test_the_best_computed_error_is_the_plans(price: Guarantee) -> None:
    found = recommend(RANGES, price, reach=2)
    assert found.best.exact
    assert found.best.error == pytest.approx(measured(RANGES, price, reach=2).expected_error, rel=1e-6)
    computed = [way.error for way in found.ways if way.exact]
    assert computed == sorted(computed)


def test_identity_by_hand() -> None:
    """Single cells at epsilon 1: the closed form k(k+1)(k+2)/3 over the number of ranges."""
    found = recommend(RANGES, Guarantee(epsilon=1))
    by_hand = math.sqrt(32 * 33 * 34 / 3 / (32 * 33 / 2))
    worst = max(way.error for way in found.ways if way.exact and way.error is not None)
    assert worst >= by_hand * (1 - 1e-3) or worst == pytest.approx(by_hand, rel=0.05)


def test_dawa_where_cells_are_thin_and_its_two_ends() -> None:
    cells = Product(x=AllRanges).on(Cells.of({"x": 256}))
    price = Guarantee(epsilon="0.1")
    thin, full = (recommend(cells, price, rows=rows) for rows in (500, 1_000_000))
    assert thin.best.name == "plan_dawa" and full.best.exact
    way = thin.best
    one_bucket = with_dawa(cells, price, expected_rows=500).buckets((0, 256)).expected_error
    assert way.error == pytest.approx(one_bucket) and way.at_worst is not None
    # Every cell a bucket of its own: the plain error at seven tenths of the price.
    assert way.at_worst == pytest.approx(measured(cells, price).expected_error / 0.7, rel=1e-6)


def test_marginals_of_many_columns_name_made_up_rows_and_warnings() -> None:
    tables = Marginals(*"abcde", ways=3).on(Cells.of(dict.fromkeys("abcde", 9)))
    found = recommend(tables, Guarantee(epsilon="0.1"), rows=1000)
    assert any(way.name.startswith("synthesis") for way in found.ways)
    assert found.warnings and "!" in str(found)


def test_refused_before_anything() -> None:
    with pytest.raises(ParameterError):
        recommend(RANGES, Guarantee(epsilon=1), rows=0)
    with pytest.raises(ParameterError):
        recommend(Product(x=Identity).on(Cells.of({"x": 4})), Guarantee(epsilon=0))
