"""Bins and categories from the data: priced before, near the truth, and never an error whatever the rows."""

from __future__ import annotations

import datetime
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import Composed, Gaussian, Guarantee, ParameterError
from tacit.ledger import price
from tacit.noise import test_mode as seeded
from tacit.synthesis.bins import STEPS, BoughtCategories, BoughtDates, BoughtNumbers, Scale, budget_beside, shares_of
from tacit.synthesis.columns import CategoryColumn
from tacit.synthesis.measure import RELATION, gaussian_budget
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
    assert np.abs(counts[:10] / len(VALUES) - np.array([1 / 18, *[1 / 9] * 8, 1 / 18])).max() < 0.02


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-5.0, 2.0**61), (-(2.0**61), 2.0**61), (2.0**60, 2.0**61), (-1e6, -3.0), (0.0, 16385.0)])
def test_a_scale_goes_from_bound_to_bound_and_back(ends: tuple[float, float]) -> None:
    scale = Scale(*ends, 1.0)
    assert scale.share(np.array(ends)).tolist() == [0, 1]
    assert scale.value(np.array([0.0, 1.0])) == pytest.approx(np.array(ends), rel=1e-9)
    values = scale.value(np.linspace(0, 1, STEPS + 1))
    assert (np.diff(values) >= 0).all() and ends[0] <= values[0] and values[-1] <= ends[1]
    assert scale.share(values) * STEPS == pytest.approx(np.arange(STEPS + 1), abs=1e-3)
    assert scale.even == (ends[1] - ends[0] <= STEPS)


def test_bins_of_a_heavy_tail_hold_about_as_many_rows_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six orders of magnitude: ten bins of a ninth at most each. On even steps, the mutant, the first bin has most rows."""
    tail = np.random.default_rng(1).lognormal(6, 3, 20000)

    def fullest() -> float:
        with seeded(1):
            column = BoughtNumbers("followers", bins=10, whole=True).column(np.rint(tail), [], Guarantee(rho=1), 1)
        return float(np.bincount(column.encode(np.rint(tail)), minlength=11).max() / len(tail))

    assert fullest() < 0.13
    monkeypatch.setattr(Scale, "even", property(lambda scale: True))
    assert fullest() > 0.3


def test_bins_of_very_large_numbers_hold_about_as_many_rows_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Identifiers of 10 to 18 digits. Bounds of 40 bits, the mutant, put half of them into one bin."""
    numbers = np.floor(10 ** np.random.default_rng(2).uniform(9, 18, 20000))

    def fullest() -> float:
        with seeded(1):
            column = BoughtNumbers("id", bins=10, whole=True).column(numbers, [], Guarantee(rho=1), 1)
        return float(np.bincount(column.encode(numbers), minlength=11).max() / len(numbers))

    assert fullest() < 0.13
    monkeypatch.setattr("tacit.synthesis.bins.BITS", 40)
    assert fullest() > 0.5


def test_values_that_many_rows_have_begin_a_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Years of school, in no whole numbers: through bins and back, nearly all rows stay between the same two years.

    Without noisy counts of places, the mutant, cuts fall somewhere between two years, and many rows move.
    """
    years = np.random.default_rng(3).choice(np.arange(12) * 1.37, 20000, p=[0.042, 0.125] * 5 + [0.042, 0.123])

    ends = np.unique(years)

    def moved() -> float:
        shares = []
        for _ in range(5):
            column = BoughtNumbers("school", granularity=0.001).column(years, [], Guarantee(rho="0.001"), 1)
            assert column.size == 17
            back = np.array(column.decode(column.encode(years), np.random.default_rng(0)))
            shares.append((np.searchsorted(ends, back + 0.005, side="right") != np.searchsorted(ends, years, side="right")).mean())
        return float(np.median(shares))

    with seeded(1):
        assert moved() < 0.01
        monkeypatch.setattr("tacit.synthesis.bins.HEAVY", 1e9)
        assert moved() > 0.05


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


def test_a_range_that_nearly_reaches_zero_begins_there() -> None:
    """Months from 0 to 119, few of them 0 or 1: the noise of the search hides these, and bins must have room for them."""
    months = [place % 118 + 2 for place in range(14_000)] + [0, 1] * 30
    with seeded(1):
        column = BoughtNumbers("months", whole=True).column(months, [], Guarantee(rho="0.0003"), 1)
        far = BoughtNumbers("year", whole=True).column([1900 + place % 100 for place in range(14_000)], [], Guarantee(rho=1), 1)
    assert column.edges[0] == 0 and far.edges[0] >= 1024  # a range that does not come near 0 stays where it is


def test_lists_of_categories_are_paid_for_in_noise() -> None:
    """Ten categories of a tenth each, one of four purchases from a tenth of the budget, epsilon 1, 13,000 people: all are found.

    A rule that is private by epsilon alone would need log(1 / delta) / epsilon people, over 2,000 of a category's 1,300.
    """
    whole = Guarantee(epsilon=1, delta="1e-9")
    ages = BoughtCategories("age")
    share = shares_of([ages, *(BoughtCategories(name) for name in "bcd")], whole, Fraction(1, 10))[0]
    with seeded(1):
        found = ages.column([str(place % 10) for place in range(13_000)], [], share, 1)
    assert set(found.values) == set("0123456789")
    event = ages.event(share, 1)
    assert isinstance(event, Composed) and isinstance(event.events[0], Gaussian)
    used = price(event.events[0], ["mu2"], RELATION)["mu2"] / gaussian_budget(whole)[0].limits["mu2"]
    assert used < Fraction(1, 40)  # no more than its share, in the currency of what is measured


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


def test_one_odd_value_is_no_category_and_no_error() -> None:
    pandas = pytest.importorskip("pandas")
    odd = [pandas.NA, pandas.NaT, np.array([1, 2]), [1], None, float("nan")]
    with seeded(1):
        for value in odd:
            found = BoughtCategories("x").column([value, *["a", "b"] * 500], range(1001), Guarantee(epsilon=1, delta=1e-6), 1)
            assert found.values == ("a", "b")


def test_bought_categories_are_those_that_rows_are_counted_in() -> None:
    with seeded(1):
        found = BoughtCategories("x").column([1.0, 2.0] * 500, range(1000), Guarantee(epsilon=1, delta=1e-6), 1)
    assert found.encode([1.0, 2.0, 3.0]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("bounds", [(1e18, 1e18 + 4096), (1e18, 1e18 + 128), (-(2.0**60), -(2.0**60) + 2**14)])
@pytest.mark.parametrize("whole", [False, True])
def test_bounds_between_which_there_are_few_floats_still_make_a_column(bounds: tuple[float, float], whole: bool) -> None:
    with seeded(1):
        found = BoughtNumbers("x", bounds, whole=whole).column(np.full(500, bounds[0]), range(500), Guarantee(rho=0.5), 1)
    assert (np.diff(found.edges) > 0).all()


DAYS = [datetime.date(2015, 1, 1) + datetime.timedelta(days=int(day)) for day in np.random.default_rng(2).integers(0, 365, 20_000)]


@pytest.mark.parametrize("max_rows", [1, 7])
@pytest.mark.parametrize("bounds", [(datetime.date(2010, 1, 1), datetime.date(2020, 1, 1)), None])
def test_dates_are_bought_as_days(bounds: tuple[datetime.date, datetime.date] | None, max_rows: int) -> None:
    """At the price of whole numbers, with bins of about as many rows each, from dates, times and texts alike."""
    ends = None if bounds is None else tuple(float(day.toordinal() - datetime.date(1970, 1, 1).toordinal()) for day in bounds)
    share = Guarantee(rho="0.01")
    same = BoughtNumbers("day", ends, bins=10, whole=True).event(share, max_rows)  # type: ignore[arg-type]
    assert BoughtDates("day", bounds, bins=10).event(share, max_rows) == same
    for values in (DAYS, [day.isoformat() for day in DAYS], [datetime.datetime.combine(day, datetime.time(9)) for day in DAYS]):
        with seeded(1):
            column = BoughtDates("day", bounds, bins=10).column(values, [], Guarantee(rho=max_rows**2), max_rows)
        counts = np.bincount(column.encode(values), minlength=11) / len(values)
        assert column.size == 11 and counts[10] == 0 and counts[1:9].max() < 0.14 and counts[1:9].min() > 0.08


@pytest.mark.parametrize(
    "values",
    [[], [None] * 9, ["never", 7, float("nan")], [datetime.date.max] * 500, [datetime.date.min, datetime.date.max], ["9999-12-31"] * 300],
)
def test_no_dates_break_the_bins(values: list[object]) -> None:
    """Bounds that noise finds may lie beyond the calendar; edges never do."""
    for seed in range(8):
        with seeded(seed):
            column = BoughtDates("day").column(values, [], Guarantee(rho="0.0005"), 1)
        assert 2 <= column.size <= 17 and all(low < high for low, high in zip(column.edges, column.edges[1:], strict=False))
        found = column.decode(column.encode(values), np.random.default_rng(1))
        assert all(day is None or isinstance(day, datetime.date) for day in found)


def test_days_of_a_year_that_are_bought_come_back_as_dates() -> None:
    """As texts, 365 values of 55 rows each were nearly all "other"; as days they keep their months, and what depends on them."""
    shop = ["a" if day.month < 7 else "b" for day in DAYS]
    columns = [BoughtDates("day"), CategoryColumn("shop", ("a", "b"))]
    with seeded(1):
        made = synthesize({"day": [day.isoformat() for day in DAYS], "shop": shop}, columns, epsilon=1, delta=1e-9).sample().to_pydict()
    months = [np.bincount([day.month for day in days if day is not None], minlength=13)[1:] / len(days) for days in (DAYS, made["day"])]
    assert np.abs(months[0] - months[1]).sum() / 2 < 0.1
    early = [day.month < 7 for day, where in zip(made["day"], made["shop"], strict=True) if where == "a" and day is not None]
    assert np.mean(early) > 0.85
    with pytest.raises(ParameterError):
        BoughtDates("day", (datetime.date(2020, 1, 1), datetime.date(2010, 1, 1)))
