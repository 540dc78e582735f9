"""From trees to steps: counts multiply, equal children merge, and samplers build the pairs the theorems name."""

import pytest

from tacit.accounting import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Composed,
    Gaussian,
    Group,
    Laplace,
    Poisson,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    Sampled,
    UnsupportedError,
    WithoutReplacement,
    WithReplacement,
)
from tacit.accounting.components import renyi_curve, resolve
from tacit.accounting.fixed_size import FixedSizeGaussian
from tacit.accounting.mixture import MixturePair

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def test_counts_multiply_and_equal_children_merge() -> None:
    parts = resolve(Repeated(Composed(Gaussian(1), Repeated(Laplace(2), 3), Gaussian(1)), 5), AR)
    assert sorted(step.count for step in parts.steps) == [10, 15]


def test_poisson_pair_and_its_group() -> None:
    (step,) = resolve(Sampled(Poisson(0.1), Gaussian(2)), AR).steps
    assert isinstance(step.remove, MixturePair) and step.remove.up == ((0.0, 0.9), (0.5, 0.1)) and step.add.down == step.remove.up
    (grouped,) = resolve(Group(Sampled(Poisson(0.5), Gaussian(2)), 2), AR).steps
    assert isinstance(grouped.remove, MixturePair) and [w for _, w in grouped.remove.up] == [0.25, 0.5, 0.25]
    (replaced,) = resolve(Sampled(Poisson(0.1), Gaussian(2)), RO).steps
    assert isinstance(replaced.remove, MixturePair) and replaced.remove.up == replaced.remove.down


def test_rates_of_zero_and_one() -> None:
    assert resolve(Sampled(Poisson(0), Gaussian(1)), AR).steps == ()
    (step,) = resolve(Sampled(Poisson(1), Gaussian(1)), AR).steps
    assert isinstance(step.remove, MixturePair) and step.remove.up == ((1.0, 1.0),)


def test_fixed_size_pairs() -> None:
    (step,) = resolve(Sampled(WithoutReplacement(100, 10), Gaussian(1)), RO).steps
    assert isinstance(step.remove, FixedSizeGaussian) and step.remove.parts == ((2.0, 1.0),) and step.remove.rate == 0.1
    (drawn,) = resolve(Sampled(WithReplacement(100, 10), Gaussian(1)), RO).steps
    assert isinstance(drawn.remove, FixedSizeGaussian)
    assert drawn.remove.rate == pytest.approx(1 - 0.99**10)
    assert sum(w for _, w in drawn.remove.parts) + drawn.remove.given_up == pytest.approx(1)


def test_composed_gaussians_are_sampled_as_one() -> None:
    (step,) = resolve(Sampled(Poisson(0.1), Composed(Gaussian(3), Gaussian(4))), AR).steps
    assert isinstance(step.remove, MixturePair) and step.remove.up[1][0] == pytest.approx(5 / 12)


def test_allocation_is_kept_apart() -> None:
    parts = resolve(Repeated(Sampled(RandomAllocation(10, 2), Gaussian(1)), 7), AR)
    assert parts.steps == () and parts.allocations[0].count == 7
    full = resolve(Sampled(RandomAllocation(3, 3), Gaussian(1)), AR)
    assert full.steps[0].count == 3
    with pytest.raises(UnsupportedError):
        resolve(Group(Sampled(RandomAllocation(10), Gaussian(1)), 2), AR)


def test_renyi_curves_add_over_both_kinds_of_step() -> None:
    parts = resolve(Composed(ZCDP(0.5), Gaussian(1)), AR)
    assert renyi_curve(parts)([2.0, 5.0]) == pytest.approx([2.0, 5.0])
    assert renyi_curve(resolve(ApproxDP(1, 0.1), AR))([2.0])[0] == float("inf")


def test_groups_of_local_reports_are_compositions() -> None:
    parts = resolve(Group(RandomizedResponse(0.5), 3), RO)
    assert parts.steps[0].count == 3
