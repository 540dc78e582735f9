"""Exact rates: fairlearn's definitions by hand, groups that are declared, notions that exclude each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.fairness import FairnessError, Groups, Rates, equalized_odds_difference, incompatible, rates

SEX = {"sex": ["F", "M"]}


def test_the_example_of_shapes_and_colours() -> None:
    """Awarding round-blue and square-green: no gap by shape, none by colour, all of it at the intersection."""
    shape = ["round", "round", "square", "square"]
    colour = ["blue", "green", "blue", "green"]
    awarded = [1, 0, 0, 1]
    features = {"shape": shape * 2, "colour": colour * 2}
    groups = {"shape": ["round", "square"], "colour": ["blue", "green"]}
    found = rates([0] * 4 + [1] * 4, awarded * 2, sensitive_features=features, groups=groups)
    gaps = [found.at("shape"), found.at("colour"), found]
    assert [one.difference("equalized_odds") for one in gaps] == [0.0, 0.0, 1.0]


@given(st.lists(st.tuples(st.sampled_from("FMX"), st.integers(0, 1), st.integers(0, 1)), max_size=40))
def test_counts_agree_with_loops(people: list[tuple[str, int, int]]) -> None:
    sex, y, guess = ([p[i] for p in people] for i in range(3))
    found = rates(y, guess, sensitive_features=sex, groups=SEX)
    for place, value in enumerate("FM"):
        for label in (0, 1):
            for predicted in (0, 1):
                count = sum(p == (value, label, predicted) for p in people)
                assert found.counts[place, label, predicted] == count
    own = [p for p in people if p[0] == "F" and p[1] == 1]
    rate = found.by_group["true_positive_rate"]["F"]
    assert np.isnan(rate) if not own else rate == sum(p[2] for p in own) / len(own)


def test_marginal_groups_in_any_order() -> None:
    counts = np.arange(2 * 3 * 4, dtype=float).reshape(6, 2, 2)
    both = Rates(Groups.of({"a": [0, 1], "b": ["x", "y", "z"]}), counts)
    turned = both.at("b", "a")
    assert turned.groups.names == ("b", "a")
    table = counts.reshape(2, 3, 2, 2)
    assert (turned.counts.reshape(3, 2, 2, 2) == table.transpose(1, 0, 2, 3)).all()
    assert (both.at("a").counts == table.sum(axis=1)).all()


def test_containers_and_types_of_columns_do_not_matter() -> None:
    y, guess = [1, 0, 1], ["1", 0.0, True]
    table = pa.table({"sex": ["F", "M", "M"]})
    for features in ({"sex": np.array(["F", "M", "M"])}, table, table.to_pandas(), ["F", b"M", "M"]):
        assert rates(y, guess, sensitive_features=features, groups=SEX).overall["accuracy"] == 1.0


def test_declared_values_keep_their_order_and_numbers_are_groups_too() -> None:
    found = rates([1, 1], [1, 0], sensitive_features=[40, 9], groups={"age": [40, 9]})
    assert found.by_group["selection_rate"] == {40: 1.0, 9: 0.0}


@pytest.mark.parametrize(
    ("groups", "features", "code"),
    [
        ({}, ["F"], "groups-undeclared"),
        ({"sex": ["F"]}, ["F"], "groups-values"),
        ({"sex": ["F", "F"]}, ["F"], "groups-values"),
        (SEX, None, "features-missing"),
        (SEX, {"age": ["F"]}, "attribute-missing"),
        (SEX, ["F", "M"], "rows-differ"),
    ],
)
def test_what_is_refused(groups: dict[str, list[str]], features: object, code: str) -> None:
    with pytest.raises(FairnessError) as error:
        rates([1], [1], sensitive_features=features, groups=groups)
    assert error.value.code == code


def test_odd_values_are_in_no_group_and_raise_nothing() -> None:
    odd = [float("nan"), None, 10**400, {"a": 1}, "F"]
    found = rates([1] * 5, odd, sensitive_features=odd, groups=SEX)
    assert found.counts.sum() == 1


def test_notions_and_rates_by_name() -> None:
    found = rates([1, 1, 0, 0], [1, 0, 1, 0], sensitive_features=["F", "M", "F", "M"], groups=SEX)
    assert found.difference("selection_rate") == 1.0 and found.ratio("selection_rate") == 0.0
    with pytest.raises(FairnessError) as error:
        found.difference("equality")
    assert error.value.code == "notion-unknown"
    assert len(incompatible("equalized_odds", "demographic_parity", "predictive_parity")) == 3
    assert equalized_odds_difference([1, 1], [1, 0], sensitive_features=["F", "M"], groups=SEX) == 1.0
