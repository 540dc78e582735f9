"""Relations and the way between them."""

import math

import pytest

from tacit.accounting import (
    Adjacency,
    AdjacencyError,
    Gaussian,
    ParameterError,
    Poisson,
    RandomizedResponse,
    Repeated,
    Sampled,
    WithoutReplacement,
    account,
)
from tacit.accounting.events.tree import hops

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT


@pytest.mark.parametrize(
    ("stated", "asked", "null", "steps"),
    [
        (AR, AR, False, 1),
        (AR, RO, False, 2),
        (AR, ZO, False, 1),  # the null record adds nothing, as an absent one
        (AR, ZO, True, 1),
        (RO, ZO, False, 1),
        (RO, AR, True, 1),
        (ZO, RO, False, 2),
        (ZO, AR, True, 1),
    ],
)
def test_hops(stated, asked, null, steps) -> None:
    assert hops(stated, asked, null_record=null) == steps


@pytest.mark.parametrize("stated", [RO, ZO])
def test_a_public_size_says_nothing_about_a_private_one(stated) -> None:
    with pytest.raises(AdjacencyError, match="null_record=True"):
        hops(stated, AR)


def test_replacement_doubles_the_sensitivity_of_a_gaussian() -> None:
    """Unlike the peer whose Rényi accountant prices both relations alike."""
    plain = account(Gaussian(1), RO).epsilon(1e-5)
    assert plain.upper == pytest.approx(account(Gaussian(0.5), AR).epsilon(1e-5).upper)
    assert account(Gaussian(1, adjacency=RO)).epsilon(1e-5).upper == pytest.approx(4.3771780957, abs=1e-9)


def test_randomised_response_needs_a_null_record_for_add_remove() -> None:
    with pytest.raises(AdjacencyError, match="null_record"):
        account(RandomizedResponse(1), AR)
    assert account(RandomizedResponse(1), AR, null_record=True).epsilon(0).upper == pytest.approx(1)


def test_samplers_insist_on_their_relation() -> None:
    with pytest.raises(AdjacencyError, match="Poisson"):
        account(Sampled(WithoutReplacement(100, 10), Gaussian(1)), AR)
    with pytest.raises(AdjacencyError, match="WithoutReplacement"):
        account(Sampled(Poisson(0.1), Gaussian(1, adjacency=RO)), RO)


def test_fixed_size_and_poisson_are_not_interchangeable() -> None:
    """Spec 7.8: replacement under fixed-size sampling is at least Poisson add/remove with half the noise."""
    poisson = account(Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1000), AR).epsilon(1e-5)
    fixed = account(Repeated(Sampled(WithoutReplacement(10_000, 100), Gaussian(1)), 1000), RO).epsilon(1e-5)
    assert poisson.upper < 1.8283
    assert fixed.lower >= 13.36082403
    assert math.isfinite(fixed.upper)


@pytest.mark.parametrize("relation", list(Adjacency), ids=str)
def test_a_relation_has_one_spelling_and_old_ones_are_read(relation: Adjacency) -> None:
    assert Adjacency.parse(relation) is relation
    assert Adjacency.parse(relation.value) is relation
    assert Adjacency.parse(relation.value.replace("-", "_")) is relation


@pytest.mark.parametrize("given", ["bounded", "", "ADD-REMOVE", "add remove", 1, None, True], ids=repr)
def test_other_relations_are_refused(given: object) -> None:
    with pytest.raises(ParameterError, match="adjacency must be 'add-remove', 'replace-one' or 'zero-out'"):
        Adjacency.parse(given)  # type: ignore[arg-type]


def test_a_relation_that_is_not_allowed_here_is_refused() -> None:
    with pytest.raises(ParameterError, match="--neighbours must be 'add-remove' or 'replace-one'"):
        Adjacency.parse("zero-out", among=(AR, RO), name="--neighbours")
    with pytest.raises(ParameterError, match="'add-remove' or 'replace-one'"):
        Adjacency.parse(ZO, among=(AR, RO))


def test_a_record_that_is_zeroed_out_costs_what_an_absent_one_does() -> None:
    """4.377 for one Gaussian sum, 1.828 for the training run, not those of groups of two."""
    whole, training = Gaussian(1), Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1000)
    for event, expected in ((whole, 4.3771780957), (training, 1.8282366665)):
        assert account(event, ZO).epsilon(1e-5).upper == pytest.approx(expected, rel=1e-9)
        assert account(event, RO).epsilon(1e-5).lower > 1.2 * expected  # a replacement is not one
