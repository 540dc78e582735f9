"""The options of a command become the event they describe; what the whole command prints is tested in test_app."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting import Adjacency, Event, Gaussian, Group, Laplace, Poisson, RandomAllocation, Repeated, Sampled, WithReplacement
from tacit.cli.options import OptionError
from tacit.cli.questions import NOISY, STATED, read_plan


def test_the_documented_rounding_of_epochs() -> None:
    """60 epochs of 60000 / 256 batches are 14062 whole steps."""
    for sampled in ({"sampling": "256/60000"}, {"size": "60000", "batch": "256"}):
        assert read_plan({"noise": "1.1", "epochs": "60", **sampled}).steps == 14062


EPOCHS = [("60", "0.1", 600), ("1", "1/3", 3), ("0.5", "0.01", 50), ("7/3", "1/3", 7), ("1", "0.3", 3)]


@pytest.mark.parametrize(("epochs", "sampling", "steps"), EPOCHS)
def test_epochs_are_counted_exactly(epochs: str, sampling: str, steps: int) -> None:
    assert read_plan({"noise": "1", "epochs": epochs, "sampling": sampling}).steps == steps


def test_a_search_leaves_its_parameter_open() -> None:
    plan = read_plan({"sampling": "1/2", "steps": "3"}, free="noise")
    assert plan.event(noise=2.5) == Repeated(Sampled(Poisson(Fraction(1, 2)), Gaussian(2.5)), 3)
    plan = read_plan({"mechanism": "laplace", "noise": "2", "group": "2"}, free="steps")
    assert plan.event(steps=7) == Group(Repeated(Laplace(2.0), 7), 2)
    for free, options in (("noise", {"noise": "1"}), ("steps", {"noise": "1", "steps": "2"}), ("steps", {"noise": "1", "epochs": "2"})):
        with pytest.raises(OptionError, match="is what this command searches for"):
            read_plan(options, free=free)


def test_allocation_counts_epochs() -> None:
    plan = read_plan({"noise": "2", "scheme": "random-allocation", "sampling": "3/10", "steps": "9"})
    assert plan.event() == Repeated(Sampled(RandomAllocation(3), Gaussian(2.0)), 3), "10/3 steps are 3, the dearer number"
    assert plan.per_epoch == 3


def test_with_replacement_may_draw_more_than_there_is() -> None:
    plan = read_plan({"noise": "2", "scheme": "with-replacement", "size": "10", "batch": "20"})
    assert plan.event() == Sampled(WithReplacement(10, 20), Gaussian(2.0))


@pytest.mark.parametrize("mechanism", [*NOISY, *STATED])
@pytest.mark.parametrize("asked", [None, *Adjacency])
def test_the_relation_a_step_is_stated_for(mechanism: str, asked: Adjacency | None) -> None:
    """Noise is relative to one contribution; a stated epsilon holds for the relation asked for; randomised response is a replacement."""
    options: dict[str, Any] = {"mechanism": mechanism, "adjacency": asked.value if asked else None}
    options["noise" if mechanism in NOISY else "step_epsilon"] = "1"
    plan = read_plan(options)
    event: Event = plan.event()
    if mechanism == "randomized-response":
        assert event.stated is Adjacency.REPLACE_ONE and plan.adjacency is (asked or Adjacency.REPLACE_ONE)
    elif mechanism in NOISY:
        assert event.stated is (Adjacency.ZERO_OUT if asked is Adjacency.ZERO_OUT else Adjacency.ADD_REMOVE)
    else:
        assert event.stated is (asked or Adjacency.ADD_REMOVE)


def test_names_may_be_typed_with_underscores_and_capitals() -> None:
    assert read_plan({"mechanism": "Discrete_Gaussian", "noise": "1", "adjacency": "Replace_One"}).adjacency is Adjacency.REPLACE_ONE
