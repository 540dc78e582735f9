"""People with many rows: caps and groups depend on each person's own rows alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.calculus import (
    AddRemove,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    MetricError,
    Records,
    ReplaceOne,
    Rows,
    Space,
    cap_rows,
    count,
    group_by,
    table,
    take,
)
from tacit.calculus.datasets import rows_of

DOMAIN = table(id=Integers(), cost=Integers(0, 50))
PEOPLE = Space(DOMAIN, Identifiers("id"))
visits = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12)


def data(rows: list[tuple[int, int]]) -> dict[str, list[int]]:
    return {"id": [p for p, _ in rows], "cost": [c for _, c in rows]}


@settings(max_examples=60)
@given(visits, visits, st.integers(1, 3), st.randoms())
def test_what_is_kept_of_a_person_depends_on_that_person_alone(rows: Any, others: Any, most: int, random: Any) -> None:
    plan = PEOPLE >> cap_rows("id", most)
    mine = [row for row in rows if row[0] == 0]
    mixed = mine + [(p + 1, c) for p, c in others]
    random.shuffle(mixed)

    def kept(given_: list[tuple[int, int]]) -> list[int]:
        return sorted(row["cost"] for row in rows_of(plan(data(given_))) if row["id"] == 0)

    assert kept(mine) == kept(mixed)
    assert len(kept(mine)) == min(most, len(mine))


def test_a_cap_bounds_what_a_person_changes() -> None:
    everybody = data([(7, 1)] * 1000 + [(8, 2), (9, 3)])
    plan = PEOPLE >> cap_rows("id", 5) >> count()
    without = data([(8, 2), (9, 3)])
    assert plan.map(1) == 5
    assert plan(everybody) - plan(without) == 5
    assert plan.map(3) == 15


def test_the_choice_is_by_content_and_salt() -> None:
    rows = data([(1, c) for c in range(50)])
    chosen = {tuple(sorted((PEOPLE >> cap_rows("id", 3, salt=bytes([s])))(rows)["cost"].tolist())) for s in range(8)}
    assert len(chosen) == 8
    assert (PEOPLE >> cap_rows("id", 3))(take(rows, list(range(49, -1, -1))))["cost"].tolist() != [49, 48, 47]


def test_a_cap_needs_people() -> None:
    with pytest.raises(MetricError, match="Identifiers"):
        Space(DOMAIN, AddRemove()) >> cap_rows("id", 2)
    with pytest.raises(MetricError, match="Identifiers"):
        PEOPLE >> cap_rows("cost", 2)
    with pytest.raises(ParameterError, match="most"):
        cap_rows("id", 0)
    with pytest.raises(DomainError, match="64 bytes"):
        cap_rows("id", 2, salt=b"x" * 65)
    assert (PEOPLE >> cap_rows("id", 2)).output.metric == AddRemove()


def test_groups() -> None:
    rows = data([(1, 10), (1, 20), (2, 50), (3, 0)])
    costs = group_by("id", lambda found: sum(row["cost"] for row in found), Integers(0, 40))
    assert sorted((PEOPLE >> costs)(rows).tolist()) == [0, 30, 40]
    assert (PEOPLE >> costs).map(2) == 2
    assert (Space(DOMAIN, AddRemove()) >> costs).map(1) == 2
    for metric in (ReplaceOne(), Hamming()):
        plan = Space(Rows(DOMAIN.element, size=4), metric) >> costs
        assert plan.map(1) == 4 and plan.output.metric == AddRemove()
    with pytest.raises(MetricError, match="cap_rows"):
        PEOPLE >> group_by("cost", len, Integers())
    with pytest.raises(DomainError, match="no field"):
        PEOPLE >> group_by("height", len, Integers())
    with pytest.raises(DomainError, match="output"):
        group_by("id", len, int)  # type: ignore[arg-type]


def test_a_group_function_that_fails_counts_as_the_default() -> None:
    output = Records(n=Integers(0, 9), mean=Integers())
    plan = PEOPLE >> group_by("id", lambda found: {"n": len(found), "mean": 1 // (len(found) - 1)}, output)
    found = plan(data([(1, 1), (2, 1), (2, 2)]))
    assert sorted(zip(found["n"].tolist(), found["mean"].tolist(), strict=True)) == [(0, 0), (2, 1)]


@settings(max_examples=40)
@given(visits, st.randoms(), st.integers(1, 3))
def test_a_group_function_sees_no_order_and_no_more_than_the_cap(rows: Any, random: Any, most: int) -> None:
    seen: list[int] = []

    def first(found: list[dict[str, int]]) -> int:
        seen.append(len(found))
        return found[0]["cost"]

    plan = PEOPLE >> group_by("id", first, Integers(0, 50), most=most)
    one = sorted(plan(data(rows)).tolist())
    random.shuffle(rows)
    assert one == sorted(plan(data(rows)).tolist())
    assert max(seen, default=0) <= most
