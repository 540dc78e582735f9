"""The grid: times follow from public facts, whatever the work took, up to the number of doublings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest
from tests.server.house import House

from tacit.server import Service
from tacit.server.errors import ConfigurationError
from tacit.server.grid import Grid

TIMES = st.floats(0, 3600)


@given(took=TIMES, estimate=TIMES, step=st.sampled_from([0.01, 0.25, 1.0]))
def test_a_time_is_a_step_times_a_power_of_two(took: float, estimate: float, step: float) -> None:
    due = Grid(step).due(0.0, estimate=estimate, ready=took)
    doublings = math.log2(due / step)
    assert due >= took and due >= estimate and abs(doublings - round(doublings)) < 1e-9
    # the least such: half of it would not hold one of the two
    assert due == step or due / 2 < max(took, estimate)


@given(first=st.floats(0, 0.5), second=st.floats(0, 0.5))
def test_what_is_within_the_estimate_leaves_at_one_time(first: float, second: float) -> None:
    grid = Grid(0.25)
    assert grid.due(7.0, estimate=0.5, ready=7.0 + first) == grid.due(7.0, estimate=0.5, ready=7.0 + second)


def test_answers_are_spread_over_a_fifth_of_a_step_and_only_the_service_knows_how() -> None:
    """4,000 questions fill it evenly (Kolmogorov and Smirnov, wrong once in a million); another service has other times."""
    grid, names = Grid(0.25), [f"{number:032x}" for number in range(4000)]
    found = np.array([grid.spread(name) for name in names]) / 0.05
    assert found.min() >= 0 and found.max() < 1 and kstest(found, "uniform").pvalue > 1e-6
    assert [grid.spread(name) for name in names[:9]] == [0.05 * part for part in found[:9]], "asking again tells nothing new"
    other = np.array([Grid(0.25).spread(name) for name in names]) / 0.05
    assert abs(np.corrcoef(found, other)[0, 1]) < 5 / math.sqrt(4000)
    assert "key" not in repr(grid)


def test_without_a_grid_the_time_is_that_of_the_work() -> None:
    """The mutant of the timing test: a step of 0 lets answers out when they are ready."""
    assert Grid(0).due(1.0, estimate=0.5, ready=1.25) == 1.25


@pytest.mark.parametrize("step", [-1, 3601, float("nan")])
def test_bad_steps_are_refused(step: float) -> None:
    with pytest.raises(ConfigurationError):
        Grid(step)


def test_all_processes_of_a_service_let_an_answer_out_at_one_time(own_house: House) -> None:
    """Who could ask each process in turn would see the earliest of their times, and a state that goes back."""
    with Service.open(own_house.service.configuration) as other, Service.open(own_house.service.configuration) as third:
        keys = {service.grid.key for service in (own_house.service, other, third)}
        assert len(keys) == 1 and len(keys.pop()) == 32
        view = own_house.ask("ann", "seen-by-two-processes").json()
        row = own_house.service.claims.row(view["id"])
        assert row is not None and other.questions.due(row) == own_house.service.questions.due(row)
