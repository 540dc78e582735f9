"""Made-up data are members, neighbours are neighbours, and the edges are really tried."""

from __future__ import annotations

import math

import pytest
from tests.calculus.shipped import PLANS, label

from tacit.calculus import Identifiers, Reals, Rows, Space, Transformation, table
from tacit.calculus.stability import member, neighbour, value_of
from tacit.noise import test_mode as seeded

SPACES = {repr(plan.input): plan for plan in PLANS}


@pytest.mark.parametrize("plan", SPACES.values(), ids=label)
def test_members_and_neighbours(plan: Transformation) -> None:
    space = plan.input
    with seeded(1):
        for _ in range(15):
            data = space.domain.complete(member(space.domain))
            assert space.domain.member(data)
            for distance in (0, 1, 3):
                other = neighbour(space, data, distance)
                assert space.domain.member(other)
                assert space.metric.within(data, other, distance)


def test_every_edge_of_the_reals_comes_up() -> None:
    with seeded(2):
        found = [value_of(Reals()) for _ in range(400)]
    assert any(math.isnan(v) for v in found)
    for edge in (math.inf, -math.inf, 5e-324, 1.7976931348623157e308):
        assert edge in found
    assert any(v == 0 and math.copysign(1, v) < 0 for v in found)


def test_sizes_and_copies_come_up() -> None:
    with seeded(3):
        sets = [member(Rows(Reals(0, 1))) for _ in range(100)]
    assert any(len(s) == 0 for s in sets) and any(len(s) == 1 for s in sets)
    assert any(len(set(s.tolist())) < len(s) for s in sets)


def test_people_come_with_several_rows() -> None:
    space = Space(table(id=Reals(0, 3, missing=False), v=Reals()), Identifiers("id"))
    with seeded(4):
        sizes = {len(neighbour(space, {"id": [], "v": []}, 1)["id"]) for _ in range(50)}
    assert max(sizes) > 1
