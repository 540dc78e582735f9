"""Units: caps are needed, checked and never negative; reach follows them."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.accounting import AccountingError, Adjacency
from tacit.tables import TableError, Unit, auto
from tacit.tables.errors import Refused
from tacit.tables.unit import links_of, parted, ways


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"person": "id"},
        {"person": "id", "max_groups": 3},
        {"person": "", "max_rows": 1},
        {"person": 5, "max_rows": 1},
        {"person": "id", "max_rows": 1, "window": "month"},
        {"person": "id", "max_rows": 1, "window": "decade", "when": "day"},
        {"person": "id", "max_rows": 1, "adjacency": Adjacency.ZERO_OUT},
    ],
    ids=["nothing", "no cap", "half a cap", "empty", "number", "no date", "no window", "zero out"],
)
def test_units_that_protect_nobody_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TableError):
        Unit(**wrong)


@pytest.mark.parametrize("cap", [0, -1, 1.5, float("nan"), "3", True], ids=str)
def test_caps_are_whole_numbers_above_zero(cap: Any) -> None:
    with pytest.raises((TableError, AccountingError, TypeError)):
        Unit("id", max_rows=cap)


def test_multiplicity_counts_where_nothing_is_capped() -> None:
    assert Unit.row().reach(True, multiplicity=4).rows == 4
    assert Unit("id", max_rows=3, capped=True).reach(True, multiplicity=4).rows == 12
    assert Unit("id", max_rows=3).reach(True, multiplicity=4).rows == 3


def test_an_unknown_cap_is_no_cap() -> None:
    unit = Unit("id", max_rows=auto(0.1))
    assert unit.automatic
    with pytest.raises(TableError, match="to be found"):
        _ = unit.most_rows
    assert unit.with_cap(7).most_rows == 7


def test_edges_are_rows() -> None:
    assert Unit.edge() == Unit.row() and repr(Unit.edge()) == "Unit(row)"


def test_nodes_and_edges_say_what_they_protect() -> None:
    node, edge = Unit.node("clinic.person.id", max_rows=4), Unit.edge("a", "b", max_rows=2)
    party = Unit.node(ends=("a", "b"), max_rows=9, capped=True)
    assert (node.person, node.noun, node.whom) == ("person_id", "person", "clinic.person.id")
    assert (edge.person, edge.noun, edge.whom) == ("a_b_", "edge", "edge a-b")
    assert (party.person, party.noun, party.whom) == (None, "node", "node a-b")
    assert Unit.edge("a", "b", max_rows=2, directed=True).whom == "edge a->b"
    assert (Unit.row().whom, Unit("id", max_rows=1).whom, Unit.row().noun, Unit("id", max_rows=1).noun) == ("row", "id", "row", "person")
    assert repr(node) == "Unit.node('clinic.person.id', max_rows=4)"
    assert repr(party) == "Unit.node(ends=('a', 'b'), max_rows=9, capped=True)"


def test_a_node_reaches_as_far_as_its_declared_degree() -> None:
    """Nine rows, all in one group or spread over nine: the greatest squares are where they are heaped."""
    party = Unit.node(ends=("a", "b"), max_rows=9, capped=True)
    assert party.reach(True).rows == party.reach(True).groups == 9 and party.reach(True).heaped == 81
    assert party.reach(False, multiplicity=2).rows == 18
    assert Unit.node(ends=("a", "b"), max_rows=9, rows_per_group=3, capped=True).reach(True).heaped == 27


@pytest.mark.parametrize(
    "make",
    [
        lambda: Unit.node(),
        lambda: Unit.node("id", max_rows=1),
        lambda: Unit.node("person.id"),
        lambda: Unit.node("person.id", ends=("a", "b"), max_rows=1, capped=True),
        lambda: Unit.node(ends=("a", "a"), max_rows=1, capped=True),
        lambda: Unit.node(ends=("a", "b"), max_rows=1),
        lambda: Unit.node(ends=("a", "b"), capped=True),
        lambda: Unit.node(ends=("a", "b"), max_rows=auto(0.1), capped=True),
        lambda: Unit.edge("a"),
        lambda: Unit.edge("a", "b"),
        lambda: Unit.edge(max_rows=5),
        lambda: Unit.edge(directed=True),
        lambda: Unit("id", max_rows=1, key="person.id", window="month", when="day"),
    ],
    ids=[str(i) for i in range(13)],
)
def test_nodes_and_edges_without_a_bound_are_refused(make: Any) -> None:
    with pytest.raises(TableError):
        make()


# --- links --------------------------------------------------------------------------------------------------


LINKS = {"visit.person_id": "person.id", "drug.visit_id": "visit.id", "drug.doctor_id": "doctor.id", "lab.visit_id": "visit.id"}


def test_the_shortest_names_have_a_table_and_a_column() -> None:
    assert parted("key", "public.person.id") == ("public.person", "id")
    for wrong in ("id", ".id", "person.", "", 5, None):
        with pytest.raises(TableError, match=r"such as 'person\.id'"):
            parted("key", wrong)


def test_ways_lead_from_every_table_that_leads_anywhere() -> None:
    links = links_of(LINKS)
    assert ways("person", "person.id", links) == [()]
    assert [len(way) for table in ("visit", "drug", "lab") for way in ways(table, "person.id", links)] == [1, 2, 2]
    assert ways("doctor", "person.id", links) == []
    assert [str(link) for link in ways("drug", "doctor.id", links)[0]] == ["drug.doctor_id -> doctor.id"]


def test_several_ways_are_all_found() -> None:
    links = links_of({**LINKS, "doctor.person_id": "person.id", "call.src": "person.id", "call.dst": "person.id"})
    assert len(ways("drug", "person.id", links)) == 2
    assert len(ways("call", "person.id", links)) == 2


@pytest.mark.parametrize(
    ("more", "table"),
    [
        ({"person.mother_id": "person.id"}, "person"),
        ({"visit.before_id": "visit.id"}, "visit"),
        ({"visit.before_id": "visit.id"}, "drug"),
        ({"person.last_drug": "drug.id"}, "drug"),
    ],
    ids=["a mother", "a visit before", "behind a circle", "a circle of three"],
)
def test_circles_are_refused(more: dict[str, str], table: str) -> None:
    with pytest.raises(Refused, match="circle"):
        ways(table, "person.id", links_of({**LINKS, **more}))


def test_a_unit_is_called_what_it_is() -> None:
    unit = Unit("household_id", max_rows=4, called="household")
    assert (unit.noun, unit.nouns, unit.whom) == ("household", "households", "household_id")
    assert "called='household'" in repr(unit) and unit.with_cap(3).noun == "household"
    assert (Unit("id", max_rows=1).noun, Unit("id", max_rows=1).nouns) == ("person", "people")
    for word in ("", "Household", "<b>", "a, b", 'x"', "one two three four", 7):
        with pytest.raises(TableError, match="called must be"):
            Unit("id", max_rows=1, called=word)  # type: ignore[arg-type]
    with pytest.raises(TableError, match="have names"):
        Unit(None, 1, 1, 1, capped=True, called="household")
