"""Estimated bias: it holds the truth in a simulation, is said only where it is sure, and what it measures
costs what the plan says.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from tacit.accounting import Guarantee
from tacit.tables import Figures, Source, TableError, Unit
from tacit.tables.answer import Bias
from tacit.tables.desk import Desk
from tacit.tables.figures import NOTHING, Lost, both_ways, integers, of_bounds, of_count, of_mean, past_reach
from tacit.tables.statistics import joint_square


def figures(value: float, half: float) -> Figures:
    return Figures(*(np.array([end]) for end in (value, value - half, value + half)))


def test_counts_thinned_at_random_lie_in_the_total_interval() -> None:
    """2000 groups of 2000 rows, of which caps keep .4: a share of .95 or more is held. Without the draw's own
    deviation it is about half.
    """
    draw = np.random.default_rng(1)
    kept = draw.binomial(2000, 0.4, 2000).astype(float)
    found = Figures(kept, kept, kept)
    bias = of_count(found, Lost(0.6, 0.6, 0.6))
    assert float(np.mean(found.high + bias.high >= 2000)) > 0.95
    assert float(np.mean(kept / 0.4 >= 2000)) < 0.6


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_mean_of_what_is_left_is_as_far_off_as_the_lost_rows_can_make_it(share: float) -> None:
    bias = of_mean(figures(40.0, 0.0), Lost(share, share, share), 0.0, 100.0)
    # The worst rows to lose: all at one bound.
    assert 40.0 + float(bias.low[0]) == pytest.approx((1 - share) * 40 + share * 0)
    assert 40.0 + float(bias.high[0]) == pytest.approx((1 - share) * 40 + share * 100)


def test_nothing_lost_is_no_bias_and_nothing_is_said() -> None:
    found = figures(100.0, 5.0)
    for bias in (of_count(found, NOTHING), of_mean(found, NOTHING, 0, 200), of_bounds(100.0, NOTHING, 10.0)):
        assert float(np.abs(bias.low).max()) == float(np.abs(bias.high).max()) == 0.0
    assert not Figures(found.value, found.low, found.high, bias=of_count(found, NOTHING)).biased.any()


def test_a_figure_is_called_biased_where_the_estimate_says_so_and_is_not_noise_alone() -> None:
    found = figures(1000.0, 100.0)
    doubtful = of_count(found, Lost(0.3, 0.0, 0.6))
    for loss in (Lost(0.3, 0.2, 0.4), Lost(0.3, 0.01, 0.6)):
        assert Figures(found.value, found.low, found.high, bias=of_count(found, loss)).biased.all()
    assert not Figures(found.value, found.low, found.high, bias=doubtful).biased.any()


def test_two_estimates_are_one_and_the_larger_loss_wins_where_they_exclude_each_other() -> None:
    assert both_ways(Lost(0.2, 0.1, 0.3), None) == Lost(0.2, 0.1, 0.3)
    assert both_ways(Lost(0.2, 0.1, 0.3), Lost(0.5, 0.4, 0.6)) == Lost(0.5, 0.4, 0.6)
    assert both_ways(None, None) is None


def test_an_interval_of_a_figure_without_an_estimate_is_refused() -> None:
    with pytest.raises(TableError, match="not estimated"):
        figures(1.0, 1.0).interval("total")
    with pytest.raises(TableError, match="kind must be"):
        Figures(np.ones(1), np.ones(1), np.ones(1), bias=Bias(np.ones(1), np.ones(1), np.ones(1))).interval(
            "both"
        )


@pytest.mark.parametrize(
    "unit",
    [
        Unit("id", max_rows=3),
        Unit("id", max_groups=2, rows_per_group=2),
        Unit("id", max_rows=3, capped=True),
        Unit.row(),
    ],
)
def test_counting_values_beyond_their_bounds_costs_no_more_than_the_plan_says(unit: Unit) -> None:
    """The heaviest person there can be, all of whose values lie beyond: the move of all sums, in their
    sigmas, is within the price.
    """
    most = unit.most_rows
    others = {"id": [1, 2, 2], "region": ["n", "n", "s"], "x": [5.0, 50.0, -3.0]}
    heavy = {
        "id": [9] * most,
        "region": (["n", "s"] * most)[:most],
        "x": [1e9, -1e9, float("inf")][: min(most, 3)] + [1e6] * max(0, most - 3),
    }
    both = {name: [*others[name], *heavy[name]] for name in others}
    moved = []
    for rows in (others, both):
        desk = Desk.of(Source.of(pa.table(rows), name="t"), unit, None)
        question = desk.question("SELECT region, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY region")
        plan = desk.plan(
            question,
            Guarantee(mu=1),
            bounds={"x": (0, 10)},
            keys={"region": ["n", "s"]},
            loss=False,
            beyond=True,
        )
        assert plan.beyond, "values beyond are counted"
        moved.append(integers(desk.engine.run(plan.statement(desk.engine, 7)), plan))
    place = dict(plan.beyond)["s"]
    assert int(np.sum(moved[1].sums[place]) - np.sum(moved[0].sums[place])) == most
    assert plan.wanted.measures[place].most == most
    sigmas = [share.scale for share in plan.shares]
    square = sum(
        float(np.sum((np.asarray(after, float) - np.asarray(before, float)) ** 2)) / float(sigma) ** 2
        for before, after, sigma in zip(moved[0].sums, moved[1].sums, sigmas, strict=True)
    )
    assert square <= float(joint_square(plan.wanted.measures, sigmas, unit.reach(True))) * (1 + 1e-9)


def test_a_loss_that_the_noise_hides_is_not_taken_for_none() -> None:
    """200 people with ten rows each, of which one is kept. At this price the noise is wider than the rows before the caps, and total
    intervals were those of the noise: none of the draws held the truth. Now they reach as far as those rows allow.
    """
    rows = {"id": [i for i in range(200) for _ in range(10)], "x": [5.0] * 2000}
    desk = Desk.of(Source.of(pa.table(rows), name="t"), Unit("id", max_rows=1), None)
    question = desk.question("SELECT SUM(x) AS s, AVG(x) AS a FROM t")
    plan = desk.plan(question, Guarantee(epsilon=0.5, delta=0), bounds={"x": (0, 10)})
    held, mutant, unknown = 0, 0, 0
    for _ in range(60):
        drawn, _ = desk.draw(plan)
        found = desk.answer(plan, drawn, delta=Fraction(0), private=True, entry=None)
        unknown += any("not known" in str(note) or getattr(note, "code", "") == "loss-unknown" for note in found.notes)
        for name, truth in (("s", 10_000.0), ("a", 5.0)):
            low, high = found.figures[name].interval("total")
            held += bool(low[0] <= truth <= high[0])
        mutant += bool(found.figures["s"].high[0] >= 10_000.0)
    assert unknown > 50
    # At .95 or more each, fewer than 106 of 120 have a chance below 1e-3.
    assert held >= 106
    assert mutant == 0


def test_no_group_has_more_than_all_rows() -> None:
    found = figures(1000.0, 100.0)
    wide = of_count(found, Lost(0.5, 0.0, 1.0))
    assert float(wide.high[0]) > 50_000
    assert 1100.0 + float(of_count(found, Lost(0.5, 0.0, 1.0, rows=3000.0)).high[0]) == 3000.0
    down = of_count(figures(-1000.0, 100.0), Lost(0.5, 0.0, 1.0, rows=3000.0), upwards=False, each=2.0)
    assert -1100.0 + float(down.low[0]) == -6000.0 and float(down.high[0]) == 0.0
    assert both_ways(Lost(0.2, 0.1, 0.3, 500.0), Lost(0.2, 0.1, 0.3)) == Lost(0.2, 0.1, 0.3, 500.0)


@pytest.mark.parametrize("cap", [1, 3, 10])
def test_rows_beyond_the_reach_of_the_count_are_allowed_for(cap: int) -> None:
    """Rows by Pareto's law with index 2: E[(X - c)+] = 1 / c for c >= 1, so the true loss is 1 / (2 c), and the counted one less. The
    upper end is the truth; without it, it lies below.
    """
    reach, mean = 4, 2.0
    cut, counted = 1 / cap, 1 / cap - 1 / (reach * cap)
    seen = mean - 1 / (reach * cap)
    share = counted / seen
    found = past_reach(Lost(share, share, share, rows=1000.0 * seen), reach)
    assert found.high == pytest.approx(cut / mean, rel=1e-12) and share < cut / mean
    assert found.rows == pytest.approx(1000 * mean, rel=1e-12)
    assert past_reach(NOTHING, reach).high == 0.0
