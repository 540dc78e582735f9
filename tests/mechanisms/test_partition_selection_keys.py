"""Keys and their people: capped at random among a person's own, published as their text, and never an error from a row."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from tacit.calculus import AddRemove, Anything, CalculusError, Identifiers, Integers, Records, Rows, Space
from tacit.mechanisms import GaussianSelection, LaplaceSelection, OptimalSelection, SipsSelection, optimal_selection
from tacit.mechanisms.partition_selection import holdings_of
from tacit.noise import test_mode as seeded

PEOPLE = Space(Rows(Anything()), AddRemove())


def test_a_person_with_many_keys_counts_for_few_chosen_at_random():
    holdings = holdings_of(enumerate([list(range(5)), [7]]))
    seen: Counter[int] = Counter()
    with seeded(3):
        for _ in range(1000):
            capped = holdings.capped(2)
            mine = capped.keys[capped.people == 0].tolist()
            assert len(set(mine)) == 2
            assert (capped.people == 1).sum() == 1
            seen.update(mine)
    assert float(chdtrc(4, sum((seen[k] - 400) ** 2 / 400 for k in range(5)))) > 1e-3
    rule = LaplaceSelection(1, 3, keys=4)
    with seeded(3):
        assert len((PEOPLE >> rule).function([[f"key {k}" for k in range(10_000)]] * 1)) <= 4


def test_tables_and_their_people():
    space = Space(Rows(Records(person=Integers(), town=Anything())), Identifiers("person"))
    plan = space >> OptimalSelection.for_budget(4, 1e-3, 2, column="town")
    people = [i for i in range(300) for _ in range(2)] + [999] * 500
    towns = ["Bonn", "Graz"] * 300 + ["Rome"] * 500  # one person fills Rome
    with seeded(1):
        assert plan.release({"person": np.array(people), "town": towns}).value == ["Bonn", "Graz"]
    for bad in (OptimalSelection(1, 0.1), OptimalSelection(1, 0.1, column="street")):
        with pytest.raises(CalculusError, match="column"):
            space >> bad


def test_what_is_published_depends_on_no_single_row():
    """Equal in Python is not equal in print, and the order of rows must not show."""
    data = [[1]] * 300 + [[1.0]] + [[True]] * 300 + [[float("nan")]] * 300 + [[None]] * 300 + [[(2, "b")]] * 300 + [["z"]] * 300
    plan = PEOPLE >> OptimalSelection.for_budget(4, 1e-3)
    with seeded(1):
        forward, backward = plan.function(data), plan.function(data[::-1])
    assert [repr(key) for key in forward] == ["True", "1", "'z'", "(2, 'b')"]
    assert [repr(key) for key in backward] == [repr(key) for key in forward]
    rare = [[1]] * 300 + [[True]]  # equal to a popular key, and not the same
    for rule in (SipsSelection, OptimalSelection):
        with seeded(1):
            assert [repr(key) for key in (PEOPLE >> rule.for_budget(4, 1e-3)).function(rare)] == ["1"]


class Hidden:
    """An object that carries more than its text, or none at all."""

    def __init__(self, secret, text="shown"):
        self.secret, self.text = secret, text

    def __str__(self):
        if self.text is None:
            raise RuntimeError(self.secret)
        return self.text


def test_objects_are_published_as_their_text_only():
    data = [[Hidden(i)] for i in range(300)] + [[Hidden(i, text=None)] for i in range(300)]
    with seeded(1):
        assert (PEOPLE >> OptimalSelection.for_budget(4, 1e-3)).function(data) == ["shown"]


ODD = st.one_of(st.none(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=1))


@settings(max_examples=40)
@given(st.lists(st.one_of(ODD, st.lists(ODD, max_size=3)), max_size=6))
def test_hostile_rows_raise_nothing(data):
    for rule in (LaplaceSelection(1, 2, 2), GaussianSelection(1, 2, 2), optimal_selection(1, 0.1, 2)):
        (PEOPLE >> rule).release(data)
