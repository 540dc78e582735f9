"""The default method: a second round where scores are cheap, all Gaussian, within the budget and the cap."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.accounting import Gaussian, Guarantee
from tacit.synthesis.auto import Auto, as_good_alone, columns_of, rounds_of, told
from tacit.synthesis.independent import Independent


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.1, 1), (1.0, 3), (10.0, 5)])
def test_rounds_follow_the_budget(run: Any, epsilon: float, rounds: int) -> None:
    ran = run(Auto(), epsilon=epsilon, rows=20000)
    assert rounds_of(told(20000, 10, ran.measuring.whole)) == rounds
    assert all(isinstance(event, Gaussian) for event in ran.measuring.events)
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-6
    # every round scores all pairs once: what was drawn and is no marginal
    assert len(ran.measuring.events) - len(ran.measuring.measured) == rounds
    if rounds > 1:
        assert max(ran.total_variation((place, place + 1)) for place in range(4)) < 0.03


def test_rounds_and_shares_are_steps_of_the_noise() -> None:
    # the noise of a score over the rows, by hand: sqrt(105 / (.05 * .02)) / 50,000
    assert told(50_000, 105, 0.02) == pytest.approx(0.0064807, rel=1e-4)
    shares = [columns_of(noise) for noise in (0.0, 0.01, 0.03, 1.0)]
    assert shares == pytest.approx([0.17, 0.24, 0.38, 0.5])
    assert [rounds_of(noise) for noise in (1.0, 0.4, 0.02, 0.002)] == [0, 1, 3, 5]


def test_where_scores_are_lost_the_whole_budget_measures_columns(run: Any) -> None:
    """No score is drawn and no pair measured: noise that no pair stands out of buys nothing."""
    ran = run(Auto(), epsilon=0.003, rows=20000)
    assert {len(one.columns) for one in ran.measuring.measured} == {1}
    assert len(ran.measuring.events) == len(ran.measuring.measured)
    assert ran.spent_within_budget() and ran.measuring.left / ran.measuring.whole < 1e-6
    scored = run(Auto(lost=float("inf"), last_steps=5), epsilon=0.003, rows=20000)
    assert len(scored.measuring.events) > len(scored.measuring.measured)


def test_what_is_predicted_follows_from_public_figures() -> None:
    # 105 pairs, a tenth of mu: sqrt(105 / (.05 * .01)) / rows is .13 at 3,525 rows; a person with 16 rows needs 16 times as many
    for rows, most in ((3525, 1), (3525 * 16, 16)):
        assert as_good_alone(rows * 0.999, 15, Guarantee(mu=0.1), most) and not as_good_alone(rows * 1.001, 15, Guarantee(mu=0.1), most)
        assert as_good_alone(rows * 0.999, 15, Guarantee(rho=0.005), most)
    assert not as_good_alone(1, 1, Guarantee(mu=0.1))  # one column depends on no other


def test_a_person_with_many_rows_gets_fewer_rounds(run: Any) -> None:
    one, many = run(Auto(last_steps=5), epsilon=10), run(Auto(last_steps=5), epsilon=10, max_rows=30)
    drawn = [len(ran.measuring.events) - len(ran.measuring.measured) for ran in (one, many)]
    assert drawn == [5, 1]


def test_a_target_gets_more_of_the_budget(run: Any) -> None:
    def precision(target: int | None) -> float:
        ran = run(Auto(target=target, weight=20.0, last_steps=5), epsilon=1, rows=20000)
        pairs = [one for one in ran.measuring.measured if len(one.columns) == 2]
        return sum(one.sigma**-2 for one in pairs if 4 in one.columns) / sum(one.sigma**-2 for one in pairs)

    assert precision(4) > 1.3 * precision(None)


def test_it_keeps_what_independent_columns_lose(run: Any) -> None:
    default, alone = run(Auto(), epsilon=3), run(Independent(), epsilon=3)
    assert default.total_variation((0, 1)) < alone.total_variation((0, 1)) / 5


def test_an_empty_table_and_a_cap(run: Any) -> None:
    assert run(Auto(last_steps=5), rows=0).spent_within_budget()
    assert run(Auto(last_steps=5, cap=60), epsilon=10).model.tree.cells <= 60
