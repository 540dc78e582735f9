"""JSON is an exact round trip and never a surprise; trees of dp-accounting convert both ways and cost the same there and here."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from fractions import Fraction
from functools import cache
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.account import account
from tacit.accounting.events import leaves
from tacit.accounting.events import tree as events
from tacit.accounting.events.interchange import _EVENTS, _SCHEMES, from_dp_event, from_json, to_dp_event, to_json
from tacit.accounting.events.leaves import (
    GDP,
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    LeakyRandomizedResponse,
    MatrixMechanism,
    MixtureOfGaussians,
    PrivacyProfile,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Staircase,
    TruncatedCDP,
)
from tacit.accounting.events.tree import (
    Adjacency,
    Composed,
    Event,
    Group,
    NonPrivate,
    NoOp,
    Poisson,
    RandomAllocation,
    Repeated,
    Sampled,
    Selection,
    TruncatedPoisson,
    WithoutReplacement,
    WithReplacement,
)
from tacit.accounting.strategies import Tree
from tacit.errors import AccountingError, AdjacencyError, ParameterError, UnsupportedError

# --- strategies -------------------------------------------------------------------------------------------------------------------

positives = st.one_of(
    st.floats(1e-300, 1e300),
    st.integers(1, 10**30),
    st.fractions(Fraction(1, 10**40), 10**40),
)
shares = st.one_of(st.floats(0, 1), st.fractions(0, 1), st.just(0), st.just(1))
counts = st.integers(1, 10**12)
pairs = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=1, max_size=4)


def the_leaves(adjacency: Adjacency) -> st.SearchStrategy[Event]:
    """Every leaf, stated for one relation so that any two can be composed."""
    a = st.just(adjacency)
    return st.one_of(
        *(st.builds(kind, positives, adjacency=a) for kind in (Gaussian, Laplace, PureDP, ZCDP, GDP, Staircase)),
        *(st.builds(kind, positives, st.integers(1, 99), adjacency=a) for kind in (DiscreteGaussian, DiscreteLaplace)),
        *(st.builds(kind, positives, shares, adjacency=a) for kind in (ApproxDP, LeakyRandomizedResponse, Staircase)),
        st.builds(RandomizedResponse, positives, st.integers(2, 99), adjacency=a),
        st.builds(Exponential, positives, st.booleans(), adjacency=a),
        st.builds(TruncatedCDP, positives, st.one_of(st.floats(1.01, 1e9), st.just(math.inf)), adjacency=a),
        st.builds(RenyiDP, st.lists(st.tuples(st.floats(1.01, 1e9), st.floats(0, math.inf)), min_size=1, max_size=4), adjacency=a),
        st.builds(PrivacyProfile, pairs, adjacency=a),
        st.builds(MixtureOfGaussians, positives, st.just((0, Fraction(1, 3), 2.5)), st.just((0.25, Fraction(1, 4), 0.5)), adjacency=a),
        st.just(NoOp()),
        st.just(NonPrivate()),
    )


the_schemes = st.one_of(
    st.builds(Poisson, shares),
    st.builds(TruncatedPoisson, shares, counts, counts),
    st.builds(WithReplacement, counts, counts),
    st.integers(1, 10**9).flatmap(lambda n: st.builds(WithoutReplacement, st.just(n), st.integers(1, n))),
    st.integers(1, 10**9).flatmap(lambda n: st.builds(RandomAllocation, st.just(n), st.integers(1, n))),
)


@cache
def trees(adjacency: Adjacency) -> st.SearchStrategy[Event]:
    return st.recursive(
        the_leaves(adjacency),
        lambda inner: st.one_of(
            st.builds(Repeated, inner, counts),
            st.builds(Group, inner, counts),
            st.builds(Sampled, the_schemes, inner),
            st.builds(Selection, inner, st.floats(1, 1e6), st.one_of(st.floats(0, 1e6), st.just(math.inf), st.fractions(0, 5))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Composed(*parts)),
        ),
        max_leaves=5,
    )


any_tree = st.sampled_from(list(Adjacency)).flatmap(trees)
odd = st.sampled_from(["1/0", "inf", "1/2", 10**400, 1e308, -0.0, math.nan, "é\ud800"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), odd)
fields = ("type", "event", "scheme", "events", "rate", "noise_multiplier", "curve", "count", "adjacency", "é\ud800")
words = st.sampled_from([*_EVENTS, *_SCHEMES, *fields])
any_json = st.recursive(
    st.one_of(scalars, words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=4)),
    max_leaves=8,
)


# --- JSON -------------------------------------------------------------------------------------------------------------------------


@given(any_tree)
def test_round_trip(event: Event) -> None:
    text = to_json(event)
    back = from_json(text)
    assert back == event
    assert repr(back) == repr(event), "the same numbers of the same kind"
    assert to_json(back) == text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_every_event_and_scheme_is_known() -> None:
    for module, known, base in ((events, _EVENTS, Event), (leaves, _EVENTS, Event), (events, _SCHEMES, events.Scheme)):
        found = {k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, base) and v.__module__ == module.__name__}
        public = {name for name in found if not name.startswith("_")}
        assert public - {"Event", "Leaf", "Scheme"} <= set(known)


def test_fractions_infinities_and_relations_are_readable() -> None:
    event = Selection(Sampled(Poisson(Fraction(256, 60000)), Gaussian(1.1, adjacency=Adjacency.ZERO_OUT)), 10, math.inf)
    assert json.loads(to_json(event)) == {
        "type": "Selection",
        "event": {
            "type": "Sampled",
            "scheme": {"type": "Poisson", "rate": "8/1875"},
            "event": {"type": "Gaussian", "adjacency": "zero-out", "noise_multiplier": 1.1},
        },
        "mean": 10,
        "shape": "inf",
    }


def test_defaults_may_be_left_out() -> None:
    assert from_json('{"type": "RandomizedResponse", "epsilon": 1}') == RandomizedResponse(1)
    assert from_json('{"type": "Staircase", "epsilon": 1}') == Staircase(1)
    assert from_json('{"type": "NoOp"}') == NoOp()


def test_an_unreduced_fraction_is_read() -> None:
    assert from_json('{"type": "Sampled", "scheme": {"type": "Poisson", "rate": "256/60000"}, "event": {"type": "NoOp"}}') == Sampled(
        Poisson(Fraction(8, 1875)), NoOp()
    )


def test_a_function_has_no_json_and_the_error_says_to_give_a_table() -> None:
    with pytest.raises(ParameterError, match=r"event\.event\.curve is a function.*give a table.*PrivacyProfile\(\["):
        to_json(Repeated(PrivacyProfile(lambda e: math.exp(-e)), 3))


class Unknown(Event):
    """An event of somebody else."""


@pytest.mark.parametrize("value", [Unknown(), Repeated(Unknown(), 2), "Gaussian", None])
def test_what_is_no_event_of_ours_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="no JSON form"):
        to_json(value)


FAULTS = {
    "": "not JSON",
    "{": "not JSON",
    "[]": "event must be an event",
    "null": "event must be an event",
    '"Gaussian"': "event must be an event",
    "{}": "event has no field type",
    '{"type": "Gausian"}': r"event\.type must be one of .*Gaussian.*not 'Gausian'",
    '{"type": ["Gaussian"]}': r"event\.type must be one of",
    '{"type": "Poisson", "rate": 0.1}': r"event\.type must be one of",
    '{"type": "Gaussian"}': "event lacks the field noise_multiplier",
    '{"type": "Gaussian", "noise_multiplier": 1, "sigma": 1}': "unknown field 'sigma'",
    '{"type": "Gaussian", "noise_multiplier": 1, "noise_multiplier": 2}': "'noise_multiplier' is given twice",
    '{"type": "Gaussian", "noise_multiplier": -1}': "event: noise_multiplier must be positive",
    '{"type": "Gaussian", "noise_multiplier": NaN}': r"event\.noise_multiplier is NaN",
    '{"type": "Gaussian", "noise_multiplier": 1e999}': r"event\.noise_multiplier is too large.*inf",
    '{"type": "Gaussian", "noise_multiplier": Infinity}': r"event\.noise_multiplier is too large.*inf",
    '{"type": "Gaussian", "noise_multiplier": "inf"}': "event: noise_multiplier must be positive and finite",
    '{"type": "Gaussian", "noise_multiplier": "1/0"}': r"event\.noise_multiplier divides by zero",
    '{"type": "Gaussian", "noise_multiplier": "1/-2"}': r"event\.noise_multiplier must be a number, a fraction",
    '{"type": "Gaussian", "noise_multiplier": "0x10"}': r"event\.noise_multiplier must be a number, a fraction",
    '{"type": "Gaussian", "noise_multiplier": "１"}': r"event\.noise_multiplier must be a number, a fraction",
    '{"type": "Gaussian", "noise_multiplier": true}': r"event\.noise_multiplier must be a number",
    '{"type": "Gaussian", "noise_multiplier": null}': r"event\.noise_multiplier must be a number",
    '{"type": "Gaussian", "noise_multiplier": [1]}': r"event\.noise_multiplier must be a number",
    '{"type": "Gaussian", "noise_multiplier": 1, "adjacency": "swap"}': r"event\.adjacency must be one of add-remove, rep",
    '{"type": "PureDP", "epsilon": 1' + "0" * 400 + "}": r"event\.epsilon is outside the range",
    '{"type": "PureDP", "epsilon": 1' + "0" * 5000 + "}": "not JSON",
    '{"type": "Exponential", "epsilon": 1, "monotone": 1}': r"event\.monotone must be true or false",
    '{"type": "Composed", "events": []}': "event: events is empty",
    '{"type": "Composed", "events": {}}': r"event\.events must be a list",
    '{"type": "Composed", "events": [{"type": "NoOp"}, 3]}': r"event\.events\[1\] must be an event",
    '{"type": "Sampled", "event": {"type": "NoOp"}, "scheme": {"type": "Poisson", "rate": 2}}': r"event\.scheme: rate must be between",
    '{"type": "Sampled", "event": {"type": "NoOp"}, "scheme": "Poisson"}': r"event\.scheme must be a sampling scheme",
    '{"type": "Repeated", "event": {"type": "NoOp"}, "count": 1.5}': "event: count must be a whole number",
    '{"type": "Repeated", "event": {"type": "Gaussian", "noise_multiplier": 0}, "count": 2}': r"event\.event: noise_multiplier must be",
    '{"type": "RenyiDP", "curve": [[2]]}': r"event\.curve\[0\] must be a pair",
    '{"type": "RenyiDP", "curve": [[2, "x"]]}': r"event\.curve\[0\]\[1\] must be a number",
    '{"type": "PrivacyProfile", "curve": []}': "event: curve is empty",
    '{"type": "MixtureOfGaussians", "sigma": 1, "sensitivities": [1], "weights": [0.5]}': "event: weights must add up to 1",
}


@pytest.mark.parametrize("text", FAULTS, ids=lambda text: text[:40])
def test_a_fault_is_named(text: str) -> None:
    with pytest.raises(ParameterError, match=FAULTS[text]) as caught:
        from_json(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_mixed_relations_keep_their_own_error() -> None:
    text = '{"type": "Composed", "events": [{"type": "Gaussian", "noise_multiplier": 1}, {"type": "RandomizedResponse", "epsilon": 1}]}'
    with pytest.raises(AdjacencyError, match="event: events stated for different relations"):
        from_json(text)


@pytest.mark.parametrize("depth", [101, 1000, 100_000])
def test_deep_nesting_is_an_error_and_not_a_crash(depth: int) -> None:
    with pytest.raises(ParameterError, match="nested too deeply"):
        from_json('{"type": "Group", "size": 1, "event": ' * depth + '{"type": "NoOp"}' + "}" * depth)
    with pytest.raises(ParameterError):
        from_json("[" * depth)


def test_the_deepest_tree_that_can_be_written_can_be_read() -> None:
    event: Event = Gaussian(1)
    for _ in range(99):
        event = Repeated(event, 1)
    assert from_json(to_json(event)) == event
    with pytest.raises(ParameterError, match="nested too deeply"):
        to_json(Repeated(event, 1))


@given(any_json)
def test_random_json_gives_an_event_or_an_accounting_error(tree: Any) -> None:
    try:
        assert isinstance(from_json(json.dumps(tree)), Event)
    except AccountingError as error:
        assert "\n" not in str(error)


@given(any_tree, st.data())
def test_a_damaged_event_gives_an_event_or_an_accounting_error(event: Event, data: st.DataObject) -> None:
    """Closer to the format than random JSON: a real event with one value replaced, or some characters lost."""
    tree = json.loads(to_json(event))
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            places.append((node, key))
            walk(value)

    walk(tree)
    node, key = data.draw(st.sampled_from(places))
    node[key] = data.draw(any_json)
    text = json.dumps(tree)
    cut = data.draw(st.integers(0, len(text)))
    for damaged in (text, text[:cut], text[:cut] + text[cut + 1 :]):
        with contextlib.suppress(AccountingError):
            assert isinstance(from_json(damaged), Event)


@settings(max_examples=200)
@given(st.text())
def test_random_text_gives_an_accounting_error(text: str) -> None:
    with pytest.raises(AccountingError):
        from_json(text)


@pytest.mark.parametrize("value", [None, b"{}", 3])
def test_text_must_be_a_string(value: Any) -> None:
    with pytest.raises(ParameterError, match="text must be a string"):
        from_json(value)


# --- dp-accounting: structure -----------------------------------------------------------------------------------------------------

CONVERTED: list[tuple[Event, Any]] = [
    (Gaussian(1.1), dp_event.GaussianDpEvent(1.1)),
    (Laplace(3), dp_event.LaplaceDpEvent(3.0)),
    (DiscreteLaplace(4, 2), dp_event.DiscreteLaplaceDpEvent(0.25, 2)),
    (ZCDP(0.125), dp_event.ZCDpEvent(0.125)),
    (MixtureOfGaussians(2, (0, 1), (0.75, 0.25)), dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.75, 0.25])),
    (Repeated(Gaussian(1), 7), dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0), 7)),
    (Composed(Gaussian(1), Laplace(2)), dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1.0), dp_event.LaplaceDpEvent(2.0)])),
    (Sampled(Poisson(0.01), Gaussian(1)), dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))),
    (Sampled(WithoutReplacement(100, 5), Gaussian(1)), dp_event.SampledWithoutReplacementDpEvent(100, 5, dp_event.GaussianDpEvent(1.0))),
    (Sampled(WithReplacement(100, 5), Gaussian(1)), dp_event.SampledWithReplacementDpEvent(100, 5, dp_event.GaussianDpEvent(1.0))),
    (Sampled(TruncatedPoisson(0.1, 100, 20), Gaussian(1)), dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0)),
    (Selection(Gaussian(1), 10, math.inf), dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1.0), 10.0, math.inf)),
    (NoOp(), dp_event.NoOpDpEvent()),
    (NonPrivate(), dp_event.NonPrivateDpEvent()),
]


@pytest.mark.parametrize(("event", "theirs"), CONVERTED, ids=lambda value: type(value).__name__)
def test_conversion_both_ways(event: Event, theirs: Any) -> None:
    assert to_dp_event(event) == theirs
    assert from_dp_event(theirs) == event


def test_every_dp_event_is_converted_or_refused_by_name() -> None:
    converted = {type(theirs).__name__ for _, theirs in CONVERTED} | {"RandomizedResponseDpEvent", "SingleEpochTreeAggregationDpEvent"}
    refused = {"UnsupportedDpEvent"}
    kinds = {n for n, v in vars(dp_event).items() if isinstance(v, type) and issubclass(v, dp_event.DpEvent) and v is not dp_event.DpEvent}
    assert kinds == converted | refused
    with pytest.raises(UnsupportedError, match="UnsupportedDpEvent"):
        from_dp_event(dp_event.SelfComposedDpEvent(dp_event.UnsupportedDpEvent(), 2))


@pytest.mark.parametrize(("steps", "levels"), [(1, 1), (2, 2), (4, 3), (1023, 10), (1024, 11), ([3, 900, 5], 10)])
def test_tree_aggregation_costs_what_they_say(steps: Any, levels: int) -> None:
    """Against dp-accounting's own Rényi accountant, and against the sensitivity of the tree strategy here."""
    node = dp_event.SingleEpochTreeAggregationDpEvent(4.0, steps)
    event = from_dp_event(node)
    assert event == Repeated(Gaussian(4.0), levels)
    theirs = RdpAccountant([2.0, 8.0, 64.0], NeighboringRelation.REPLACE_SPECIAL).compose(node)
    assert [account(event).rdp(a).upper for a in (2.0, 8.0, 64.0)] == pytest.approx(list(theirs._rdp), rel=1e-12)
    if isinstance(steps, int):
        assert account(MatrixMechanism(4.0, Tree(steps))).rho().upper == pytest.approx(account(event).rho().upper, rel=1e-9)


def test_tree_aggregation_of_nothing() -> None:
    assert from_dp_event(dp_event.SingleEpochTreeAggregationDpEvent(1.0, 0)) == NoOp()
    assert from_dp_event(dp_event.SingleEpochTreeAggregationDpEvent(0.0, 4)) == NonPrivate()
    with pytest.raises(ParameterError, match="step_counts"):
        from_dp_event(dp_event.SingleEpochTreeAggregationDpEvent(1.0, [-1]))


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 30.0])
def test_randomised_response_keeps_its_odds(epsilon: float, k: int) -> None:
    """Their mechanism answers truly with probability 1 - p, else uniformly from all k: the odds of the truth are e^epsilon."""
    theirs = to_dp_event(RandomizedResponse(epsilon, k))
    p = Fraction(theirs.noise_parameter)
    odds = (1 - p + p / k) / (p / k)
    assert math.log(odds) == pytest.approx(epsilon, rel=1e-9)
    back = from_dp_event(theirs)
    assert isinstance(back, RandomizedResponse)
    assert (back.epsilon, back.categories) == (pytest.approx(epsilon, rel=1e-9), k)


def test_degenerate_nodes() -> None:
    assert from_dp_event(dp_event.RandomizedResponseDpEvent(1.0, 5)) == NoOp()
    assert from_dp_event(dp_event.RandomizedResponseDpEvent(0.3, 1)) == NoOp()
    assert from_dp_event(dp_event.RandomizedResponseDpEvent(0.0, 5)) == NonPrivate()
    assert from_dp_event(dp_event.GaussianDpEvent(0.0)) == NonPrivate()
    assert from_dp_event(dp_event.LaplaceDpEvent(0.0)) == NonPrivate()
    assert from_dp_event(dp_event.ComposedDpEvent([])) == NoOp()
    assert from_dp_event(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0), 0)) == NoOp()


def test_shifted_zcdp_is_a_line_over_the_orders() -> None:
    """Between the stated orders the curve is interpolated from above, never below xi + rho a."""
    event = from_dp_event(dp_event.ZCDpEvent(xi=0.1, rho=0.2))
    for order in (1.02, 1.5, 2.0, 7.3, 64.0, 1500.0):
        assert 0.1 + 0.2 * order - 1e-12 <= account(event).rdp(order).upper
    for order in (2.0, 9.0, 65.0):
        assert account(event).rdp(order).upper == pytest.approx(0.1 + 0.2 * order, rel=1e-12)


@pytest.mark.parametrize(
    "theirs",
    [
        dp_event.GaussianDpEvent(math.nan),
        dp_event.GaussianDpEvent(-1.0),
        dp_event.LaplaceDpEvent("1"),
        dp_event.DiscreteLaplaceDpEvent(0.0, 1),
        dp_event.RandomizedResponseDpEvent(1.5, 2),
        dp_event.RandomizedResponseDpEvent(math.nan, 2),
        dp_event.PoissonSampledDpEvent(2.0, dp_event.NoOpDpEvent()),
        dp_event.SelfComposedDpEvent(dp_event.NoOpDpEvent(), -1),
        dp_event.SampledWithoutReplacementDpEvent(5, 6, dp_event.NoOpDpEvent()),
        dp_event.MixtureOfGaussiansDpEvent(0.0, [1.0], [1.0]),
        dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(math.nan)]),
        "GaussianDpEvent",
        None,
    ],
    ids=repr,
)
def test_bad_nodes_are_refused(theirs: Any) -> None:
    with pytest.raises(ParameterError):
        from_dp_event(theirs)


@pytest.mark.parametrize(
    "event",
    [
        *(DiscreteGaussian(1), Staircase(1), Exponential(1), PureDP(1), ApproxDP(1, 1e-6), LeakyRandomizedResponse(1), TruncatedCDP(1, 2)),
        *(RenyiDP([(2, 1)]), GDP(1), PrivacyProfile([(1, 0.1)]), Group(Gaussian(1), 2), Sampled(RandomAllocation(10), Gaussian(1))),
        Sampled(TruncatedPoisson(0.1, 100, 20), Laplace(1)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_they_lack_are_refused_by_name(event: Event) -> None:
    name = type(event.scheme).__name__ if isinstance(event, Sampled) else type(event).__name__
    with pytest.raises(UnsupportedError, match=name):
        to_dp_event(Composed(NoOp(), event))


def test_relations() -> None:
    with pytest.raises(UnsupportedError, match=r"Gaussian stated for replace-one.*ADD_REMOVE"):
        to_dp_event(Gaussian(1, adjacency=Adjacency.REPLACE_ONE))
    with pytest.raises(UnsupportedError, match=r"RandomizedResponse stated for add-remove.*REPLACE_ONE"):
        to_dp_event(RandomizedResponse(1, adjacency=Adjacency.ADD_REMOVE))
    zeroed = Gaussian(1.0, adjacency=Adjacency.ZERO_OUT)
    assert from_dp_event(to_dp_event(zeroed), Adjacency.ZERO_OUT) == zeroed
    with pytest.raises(ParameterError, match="adjacency must be"):
        from_dp_event(dp_event.GaussianDpEvent(1.0), Adjacency.REPLACE_ONE)


def test_fractions_are_rounded_towards_the_higher_cost() -> None:
    for third in (Fraction(1, 3), Fraction(2, 3), Fraction(256, 60000), Fraction(1, 10)):
        theirs = to_dp_event(Sampled(Poisson(third), Gaussian(third)))
        assert Fraction(theirs.sampling_probability) >= third >= Fraction(theirs.event.noise_multiplier)
        assert theirs.sampling_probability == pytest.approx(float(third), rel=1e-15)


def test_deep_trees_are_refused_both_ways() -> None:
    ours: Event = Gaussian(1)
    theirs: Any = dp_event.GaussianDpEvent(1.0)
    for _ in range(150):
        ours, theirs = Repeated(ours, 1), dp_event.SelfComposedDpEvent(theirs, 1)
    for convert, tree in ((to_dp_event, ours), (from_dp_event, theirs)):
        with pytest.raises(ParameterError, match="nested too deeply"):
            convert(tree)


@pytest.mark.parametrize(("convert", "value"), [(to_dp_event, Gaussian(1)), (from_dp_event, dp_event.NoOpDpEvent())])
def test_without_the_package_the_error_names_it(convert: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        convert(value)


def test_numpy_numbers_in_their_tree() -> None:
    theirs = dp_event.PoissonSampledDpEvent(np.float64(0.01), dp_event.GaussianDpEvent(np.float64(2.0)))
    assert from_dp_event(theirs) == Sampled(Poisson(0.01), Gaussian(2.0))


# --- dp-accounting: prices --------------------------------------------------------------------------------------------------------

_GAUSSIAN, _LAPLACE = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent
PRICED: dict[str, tuple[Any, float]] = {
    "gaussian": (dp_event.SelfComposedDpEvent(_GAUSSIAN(5.0), 20), 1e-4),
    "laplace": (dp_event.SelfComposedDpEvent(_LAPLACE(5.0), 20), 1e-4),
    "discrete laplace": (dp_event.SelfComposedDpEvent(dp_event.DiscreteLaplaceDpEvent(0.5, 2), 5), 1e-3),
    "mixed": (dp_event.ComposedDpEvent([_GAUSSIAN(2.0), dp_event.SelfComposedDpEvent(_LAPLACE(4.0), 3)]), 1e-4),
    "sampled gaussian": (dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.05, _GAUSSIAN(1.0)), 50), 1e-3),
    "sampled laplace": (dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.1, _LAPLACE(1.0)), 10), 1e-3),
    "mixture": (dp_event.SelfComposedDpEvent(dp_event.MixtureOfGaussiansDpEvent(20.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25]), 2), 1e-3),
}


@pytest.mark.parametrize("name", PRICED)
def test_a_converted_tree_costs_no_more_than_theirs_and_nearly_as_much(name: str) -> None:
    """Their grid rounds up, so ours lies just below; a wrong parametrisation would be far off."""
    theirs, tolerance = PRICED[name]
    reference = PLDAccountant(value_discretization_interval=1e-3).compose(theirs).get_epsilon(1e-5)
    ours = account(from_dp_event(theirs)).epsilon(1e-5)
    assert ours.upper <= reference + 1e-9
    assert ours.upper == pytest.approx(reference, rel=tolerance, abs=tolerance)


def test_randomised_response_costs_what_theirs_does() -> None:
    """Composed one by one, because their distribution accountant ignores the count of a repeated randomised response."""
    one = dp_event.RandomizedResponseDpEvent(0.8, 4)
    reference = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3)
    reference.compose(dp_event.ComposedDpEvent([one] * 10))
    repeated = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3).compose(dp_event.SelfComposedDpEvent(one, 10))
    ours = account(from_dp_event(dp_event.SelfComposedDpEvent(one, 10))).epsilon(1e-3).upper
    assert ours == pytest.approx(reference.get_epsilon(1e-3), rel=3e-3)
    assert ours <= reference.get_epsilon(1e-3) + 1e-9
    assert repeated.get_epsilon(1e-3) < ours / 5, "the fault that makes the comparison one by one necessary"


def test_replacement_counts_twice_as_theirs_does() -> None:
    theirs = dp_event.SelfComposedDpEvent(_GAUSSIAN(8.0), 10)
    reference = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3).compose(theirs).get_epsilon(1e-6)
    ours = account(from_dp_event(theirs), Adjacency.REPLACE_ONE).epsilon(1e-6).upper
    assert ours <= reference + 1e-9
    assert ours == pytest.approx(reference, rel=1e-3)


@pytest.mark.parametrize(
    "theirs",
    [
        dp_event.ZCDpEvent(0.05),
        dp_event.RepeatAndSelectDpEvent(_GAUSSIAN(5.0), 10.0, 1.0),
        dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, _GAUSSIAN(1.0)), 1000),
    ],
    ids=["zcdp", "selection", "dp-sgd"],
)
def test_never_above_their_renyi_accountant(theirs: Any) -> None:
    reference = RdpAccountant().compose(theirs).get_epsilon(1e-5)
    ours = account(from_dp_event(theirs)).epsilon(1e-5).upper
    assert ours <= reference * (1 + 1e-9)
    assert ours >= 0.7 * reference, "ours sharpens theirs, but a wrong parametrisation would be further off"


def test_our_trees_can_be_priced_by_them() -> None:
    ours = Repeated(Sampled(Poisson(Fraction(1, 20)), Gaussian(Fraction(3, 2))), 30)
    reference = PLDAccountant(value_discretization_interval=1e-3).compose(to_dp_event(ours)).get_epsilon(1e-5)
    assert account(ours).epsilon(1e-5).upper == pytest.approx(reference, rel=1e-3)
    assert dp_accounting.__name__ == "dp_accounting"
