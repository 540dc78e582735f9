"""Foreign keys: ways are found, circles and half-names are refused."""

from __future__ import annotations

import pytest

from tacit.tables.errors import Refused, TableError
from tacit.tables.links import links_of, parted, ways

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
