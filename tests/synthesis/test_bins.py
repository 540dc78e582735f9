"""Bins and categories from the data: priced before, near the truth, and never an error whatever the rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import Composed, Guarantee, ParameterError
from tacit.ledger import price
from tacit.noise import test_mode as seeded
from tacit.synthesis.bins import BoughtCategories, BoughtNumbers, budget_beside, shares_of
from tacit.synthesis.columns import CategoryColumn
from tacit.synthesis.measure import RELATION
from tacit.synthesis.synthesizer import synthesize

VALUES = np.random.default_rng(0).lognormal(3, 1, 20000)


@pytest.mark.parametrize("max_rows", [1, 7])
@pytest.mark.parametrize("bounds", [(0.0, 1000.0), None])
def test_bins_cost_their_share(bounds: tuple[float, float] | None, max_rows: int) -> None:
    share = Guarantee(rho="0.01")
    event = BoughtNumbers("cost", bounds).event(share, max_rows)
    paid = price(event, ["rho"], RELATION)["rho"]
    assert 0.99 < float(paid) / 0.01 <= 1


@pytest.mark.parametrize("bounds", [(0.0, 1000.0), None])
def test_bins_hold_about_as_many_rows_each(bounds: tuple[float, float] | None) -> None:
    with seeded(1):
        column = BoughtNumbers("cost", bounds, bins=10).column(VALUES, [], Guarantee(rho=1), 1)
    counts = np.bincount(column.encode(VALUES), minlength=11)
    assert column.size == 11
    assert np.abs(counts[:10] / len(VALUES) - 0.1).max() < 0.02


@pytest.mark.parametrize("values", [[], [None] * 9, [5.0] * 1000, [float("inf"), -float("inf"), 1e308, "?"], [7]])
@pytest.mark.parametrize("whole", [True, False])
def test_no_rows_break_the_bins(values: list[object], whole: bool) -> None:
    with seeded(2):
        column = BoughtNumbers("x", (0, 100), bins=16, whole=whole).column(values, [], Guarantee(rho=0.1), 1)
        assert column.size == 17
        BoughtNumbers("x", bins=4, whole=whole).column(values, [], Guarantee(rho=0.1), 1)


def test_categories_that_many_people_have_are_found_and_the_rest_is_other() -> None:
    values = ["flu"] * 500 + ["gout"] * 500 + ["rare name"] + [None] * 20
    with seeded(3):
        column = BoughtCategories("illness").column(values, [], Guarantee(epsilon=1, delta=1e-9), 1)
    assert column == CategoryColumn("illness", ("flu", "gout"), "other")
    with seeded(3):
        one = BoughtCategories("illness").column(["flu"] * 900, ["ann"] * 900, Guarantee(epsilon=1, delta=1e-9), 1)
        none = BoughtCategories("illness").column([], [], Guarantee(epsilon=1, delta=1e-9), 1)
    assert one.values == none.values == ("none found",)  # nine hundred rows of one person are one
    with pytest.raises(ParameterError, match="needs epsilon and delta"):
        BoughtCategories("illness").event(Guarantee(rho=1), 1)


@pytest.mark.parametrize("selects", [False, True])
@pytest.mark.parametrize("guarantee", [Guarantee(rho="0.1"), Guarantee(mu="0.5"), Guarantee(epsilon=1, delta="1e-9")])
def test_purchases_and_measurements_stay_within_the_guarantee(guarantee: Guarantee, selects: bool) -> None:
    bought = [BoughtNumbers("a"), BoughtNumbers("b", (0, 1))]
    shares = shares_of(bought, guarantee, Fraction(1, 20))
    events = [one.event(share, 2) for one, share in zip(bought, shares, strict=True)]
    _, event = budget_beside(events, guarantee, selects)
    assert isinstance(event, Composed)
    assert guarantee.admits(event, RELATION)


def test_from_raw_columns_to_rows() -> None:
    draws = np.random.default_rng(4)
    ill = draws.choice(["flu", "gout", "none"], 8000)
    cost = np.where(ill == "none", draws.gamma(2, 10, 8000), draws.gamma(5, 40, 8000))
    table = {"illness": ill.tolist(), "cost": cost.tolist()}
    whole = Guarantee(epsilon=2, delta=1e-9)
    with seeded(5):
        made = synthesize(table, [BoughtCategories("illness"), BoughtNumbers("cost", bins=8)], guarantee=whole, method="oneshot")
        rows = made.sample()
    assert whole.admits(made.event_, RELATION)
    assert {"flu", "gout", "none"} <= set(rows["illness"].to_pylist())
    made_cost = np.array([0.0 if c is None else c for c in rows["cost"].to_pylist()])
    made_ill = np.array(rows["illness"].to_pylist())
    assert np.median(made_cost[made_ill == "flu"]) > 3 * np.median(made_cost[made_ill == "none"])
    with pytest.raises(ParameterError, match="no price in rho"):
        synthesize(table, [BoughtCategories("illness"), BoughtNumbers("cost")], guarantee=whole, method="mst")
