"""Events are immutable, hashable, validated when made, and readable."""

import copy
import math
import pickle
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import (
    GDP,
    ZCDP,
    Adjacency,
    AdjacencyError,
    ApproxDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Group,
    Laplace,
    LeakyRandomizedResponse,
    MixtureOfGaussians,
    NonPrivate,
    NoOp,
    ParameterError,
    Poisson,
    PrivacyProfile,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Repeated,
    Sampled,
    Selection,
    Staircase,
    TruncatedCDP,
)

EVENTS = [
    Gaussian(1.1),
    DiscreteGaussian(2, 3),
    Laplace(Fraction(1, 3)),
    DiscreteLaplace(4),
    Staircase(1),
    RandomizedResponse(0.5, 4),
    Exponential(1, monotone=True),
    PureDP(0.1),
    ApproxDP(1, 1e-6),
    LeakyRandomizedResponse(1, 0.01),
    ZCDP(0.5),
    TruncatedCDP(0.1, 6),
    RenyiDP([(2, 0.1), (8, 0.5)]),
    GDP(1),
    PrivacyProfile([(0, 0.5), (1, 0.1)]),
    MixtureOfGaussians(1, [0, 1], [0.9, 0.1]),
    Repeated(Gaussian(2), 3),
    Sampled(Poisson(0.1), Gaussian(2)),
    Group(Gaussian(2), 3),
    Selection(Gaussian(2), 5),
    Composed(Gaussian(1), Laplace(2)),
    NonPrivate(),
    NoOp(),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_events_are_frozen_hashable_values(event) -> None:
    assert hash(event) == hash(eval(repr(event)))
    assert event == eval(repr(event))
    with pytest.raises(AttributeError):
        event.noise_multiplier = 3
    assert repr(event).startswith(type(event).__name__ + "(")


def test_repr_is_short_and_shows_only_an_unusual_relation() -> None:
    assert repr(Gaussian(1.1)) == "Gaussian(noise_multiplier=1.1)"
    assert "REPLACE_ONE" in repr(Gaussian(1.1, adjacency=Adjacency.REPLACE_ONE))
    assert "adjacency" not in repr(RandomizedResponse(1))


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True, 1j, np.array([1.0, 2.0])])
@pytest.mark.parametrize("make", [Gaussian, Laplace, DiscreteGaussian, DiscreteLaplace, RandomizedResponse, Staircase, Exponential])
def test_noise_must_be_positive_and_finite(make, bad) -> None:
    with pytest.raises(ParameterError, match=r"noise_multiplier|sigma|scale|epsilon"):
        make(bad)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Poisson(1.5), "rate"),
        (lambda: Poisson(-0.1), "rate"),
        (lambda: Poisson(math.nan), "rate"),
        (lambda: Repeated(Gaussian(1), 0), "count"),
        (lambda: Repeated(Gaussian(1), 2.5), "count"),
        (lambda: Repeated("Gaussian", 2), "event"),
        (lambda: Repeated(Gaussian(1), math.inf), "count"),
        (lambda: Group(Gaussian(1), 0), "size"),
        (lambda: Sampled(0.1, Gaussian(1)), "scheme"),
        (lambda: Sampled(Poisson(0.1), 1.0), "event"),
        (lambda: Composed(), "empty"),
        (lambda: Composed([]), "empty"),
        (lambda: Composed(Gaussian(1), "x"), "events"),
        (lambda: ApproxDP(1, 1.5), "delta"),
        (lambda: ApproxDP(-1, 0.5), "epsilon"),
        (lambda: TruncatedCDP(0.1, 1), "omega"),
        (lambda: RenyiDP([]), "curve"),
        (lambda: RenyiDP([(1, 0.1)]), "order"),
        (lambda: RenyiDP([(2, -0.1)]), "epsilon"),
        (lambda: PrivacyProfile([]), "curve"),
        (lambda: PrivacyProfile([(0.1, 2)]), "delta"),
        (lambda: MixtureOfGaussians(1, [1], [0.5]), "weights"),
        (lambda: MixtureOfGaussians(1, [], []), "sensitivities"),
        (lambda: Selection(Gaussian(1), 0.5), "mean"),
        (lambda: Selection(Gaussian(1), 5, -0.5), "shape"),
        (lambda: DiscreteGaussian(1, 0), "sensitivity"),
        (lambda: RandomizedResponse(1, 1), "categories"),
        (lambda: Gaussian(1, adjacency="add-remove"), "adjacency"),
    ],
)
def test_bad_input_names_the_parameter(make, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        make()


def test_relations_cannot_be_mixed() -> None:
    with pytest.raises(AdjacencyError, match="Restate each"):
        Composed(Gaussian(1), RandomizedResponse(1))
    assert Composed(Gaussian(1), NonPrivate()).stated is Adjacency.ADD_REMOVE


@given(st.one_of(st.integers(), st.floats(), st.fractions(), st.text(), st.none(), st.booleans(), st.binary(), st.lists(st.integers())))
def test_anything_is_accepted_or_refused_by_name(value) -> None:
    for make in (Gaussian, PureDP, ZCDP, GDP, Poisson, lambda v: Repeated(Gaussian(1), v)):
        try:
            make(value)
        except ParameterError as error:
            assert str(error)


def test_fractions_stay_exact() -> None:
    assert Poisson(Fraction(256, 60000)).rate == Fraction(256, 60000)
    assert Gaussian(Fraction(11, 10)).noise_multiplier == Fraction(11, 10)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_equal_where_their_kind_and_every_field_are(event) -> None:
    """The oracle is what `dataclass` would write: one class, and one tuple of fields."""

    def same(one: object, two: object) -> bool:
        return type(one) is type(two) and [getattr(one, f.name) for f in fields(one)] == [getattr(two, f.name) for f in fields(two)]

    for other in [*EVENTS, copy.deepcopy(event), pickle.loads(pickle.dumps(event)) if "curve" not in vars(event) else event]:
        assert (event == other) is same(event, other)
        assert event != other or hash(event) == hash(other)
    assert event != "another kind of thing"


def test_two_kinds_with_equal_fields_are_not_equal() -> None:
    """A comparison of fields alone would compose a guarantee as if it were another one."""
    assert PureDP(0.5) != ZCDP(0.5) and Gaussian(2) != Laplace(2) and vars(Gaussian(2)) == vars(Laplace(2))
    assert Gaussian(2) != Gaussian(2, adjacency=Adjacency.REPLACE_ONE)
    assert Poisson(Fraction(1, 2)) == Poisson(0.5) and hash(Poisson(Fraction(1, 2))) == hash(Poisson(0.5))
    assert len({Gaussian(2), Gaussian(2.0), Gaussian(Fraction(2)), Laplace(2)}) == 2
