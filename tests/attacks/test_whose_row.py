"""Which row is whose, and in which part: identifiers, keys and blocks that enforcement or a type could merge or move.

Each attack is a pair of data sets that differ in one person's rows, counted on the raw data, before any domain touches it. What
reaches the noise is compared as integers with what the plan declares. The behaviour that was once shipped is put in as a
mutant, and the same check finds it.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.accounting import PureDP
from tacit.calculus import (
    AddRemove,
    Anything,
    Categories,
    Domain,
    DomainError,
    Identifiers,
    Integers,
    Lattice,
    Measurement,
    Reals,
    Records,
    Rows,
    Space,
    Vectors,
    cap_rows,
    count,
    distinct,
    filter_rows,
    flat_map,
    group_by,
    keys,
    map_rows,
    owners,
    parallel,
    partition_by,
    resize,
    table,
)
from tacit.calculus import composition as of_composition
from tacit.ledger import Budget, queryable
from tacit.mechanisms import LaplaceSelection, laplace, sample_aggregate
from tacit.noise import test_mode

NAN, INF = float("nan"), float("inf")


def deep(levels: int) -> tuple[Any, ...]:
    found: tuple[Any, ...] = ()
    for _ in range(levels):
        found = (found,)
    return found


class Odd:
    """An object that fails whatever is done with it."""

    def __float__(self) -> float:
        raise SystemExit("Ada-4711")

    def __repr__(self) -> str:
        raise RuntimeError("Ada-4711")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("Ada-4711")

    __hash__ = None  # type: ignore[assignment]


class Overflowing(Odd):
    def __float__(self) -> float:
        raise OverflowError("Ada-4711")


# --- keys of a partition ------------------------------------------------------------------------------------

MERGED: dict[str, tuple[Domain, list[Any]]] = {
    "clamped": (Integers(0, 100), list(range(100, 110))),
    "rounded": (Integers(), [1.2, 1.4]),
    "granules": (Lattice(Fraction(1, 2), 0, 2), [4, 5]),
    "missing": (Reals(), [NAN, float("nan")]),
    "not numbers": (Integers(), ["a", "b"]),
    "too large for a float": (Reals(), [2**53, 2**53 + 1]),
    "types": (Anything(), [NAN, float("nan")]),
}


@pytest.mark.parametrize("name", MERGED)
@pytest.mark.parametrize("column", [None, "key"])
def test_keys_that_the_domain_makes_one_are_refused(name: str, column: str | None) -> None:
    domain, given = MERGED[name]
    rows = Rows(domain) if column is None else table(key=domain)
    noisy = count() >> laplace(scale=1)
    with pytest.raises(DomainError) as caught:
        Space(rows, AddRemove()) >> parallel(partition_by(given, column), noisy)
    assert caught.value.code == "keys-merged"
    with pytest.raises(DomainError):
        partition_by(given, column).split(rows.enforce(rows.default), rows)


def test_ten_keys_that_are_one_would_each_have_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant without the comparison: one row in ten parts, priced as one."""
    domain, given = MERGED["clamped"]

    def unchecked(self: Any, rows: Rows) -> list[Hashable]:
        return keys(rows.element.enforce(list(self.keys)))

    def parts_with_a_row() -> int:
        return sum(bool(len(part)) for part in partition_by(given).split(Rows(domain).enforce([250]), Rows(domain)).values())

    with pytest.raises(DomainError):
        parts_with_a_row()
    with monkeypatch.context() as patched:
        patched.setattr(of_composition.Partition, "named", unchecked)
        assert parts_with_a_row() == 10


def test_every_row_is_in_one_part_at_most() -> None:
    values = [1, 2, 2.0, True, "1", None, NAN, 10**5000, 2**62, -0.0, 0.0, INF, "x", b"x", (1, 2), deep(10_000)]
    for domain in (Integers(0, 5), Integers(), Reals(), Categories((1, 2, "x")), Anything()):
        rows = Rows(domain)
        for given in ([1, 2], [0, 5], ["x", 1], [0.0, 1.0, None]):
            try:
                parts = partition_by(given).split(rows.enforce(values), rows)
            except DomainError:
                continue
            assert sum(len(part) for part in parts.values()) <= len(values)
            for value in values:
                alone = partition_by(given).split(rows.enforce([value]), rows)
                assert sum(len(part) for part in alone.values()) <= 1


# --- a random split -----------------------------------------------------------------------------------------


def seeing(data: Any) -> Measurement:
    """A measurement that shows what it is given, for tests: it claims what it likes."""
    space = Space(Rows(Integers()), AddRemove())
    return Measurement(space, lambda rows: data.append(list(rows)), lambda d: PureDP(Fraction(d, 10)), "seen", proof="by fiat")


def drawn_parts(rows: list[int], by: Callable[[Any], Any], given: list[Any]) -> list[list[int]]:
    seen: list[list[int]] = []
    parts = queryable(rows, Space(Rows(Integers()), AddRemove()), Budget(epsilon=9)).partition(by, keys=given)
    for part in parts.values():
        part.ask(seeing(seen))
        part.ask(seeing(seen))  # asked again, a part is what it was
    assert all(seen[i] == seen[i + 1] for i in range(0, len(seen), 2))
    return seen[::2]


def test_a_random_split_is_drawn_once() -> None:
    lots = random.Random(1)
    rows = list(range(400))
    parts = drawn_parts(rows, lambda row: lots.random() < 0.5, [False, True])
    assert sorted(parts[0] + parts[1]) == rows, "every row in one part, none in two"


def test_a_split_for_each_key_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    lots, rows = random.Random(1), list(range(400))

    def per_key(data: Any, by: Callable[[Any], Any], given: list[Any]) -> list[Any]:
        return [[row for row in data if by(row) == key] for key in given]

    monkeypatch.setattr(sys.modules["tacit.ledger.queryable"], "_split", per_key)
    parts = drawn_parts(rows, lambda row: lots.random() < 0.5, [False, True])
    assert set(parts[0]) & set(parts[1]), "the mutant puts a quarter of the rows in both"


def test_keys_that_fail_or_equal_everything_are_in_no_part_twice() -> None:
    class Any_(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    odd: dict[int, Any] = {0: Odd(), 1: deep(200_000), 2: [1], 3: Any_(1), 4: np.array([1, 2]), 5: NAN, 6: 10**5000}
    parts = drawn_parts(list(range(9)), lambda row: odd.get(row, row % 3), [0, 1, 2])
    found = [row for part in parts for row in part]
    assert len(found) == len(set(found))


# --- blocks -------------------------------------------------------------------------------------------------

KEY = b"0123456789abcdef"


def by_order(block: Any) -> float:
    """A function that depends on everything it should not: the first row, its type, the column's type."""
    values = block if not isinstance(block, dict) else block["x"]
    first = float(values[0]) if len(values) else 0.0
    return first * 3 + len(values) + 100 * (isinstance(values, np.ndarray) and values.dtype.kind == "O")


def blocks_of(space: Space, data: Any, **more: Any) -> np.ndarray:
    plan = space >> sample_aggregate(by_order, blocks=50, bounds=(0, 1000), granularity=1, key=KEY, **more)
    return np.asarray(plan(data))


@pytest.mark.parametrize("odd", [2**62, 10**400, -(2**63), 5, NAN, "text", None])
@pytest.mark.parametrize("domain", [Integers(), Integers(0, 300), Reals(), Anything()], ids=str)
def test_one_row_changes_one_block(domain: Domain, odd: Any) -> None:
    space, rows = Space(Rows(domain), AddRemove()), list(range(1, 200))
    before, after = blocks_of(space, rows), blocks_of(space, [*rows, odd])
    assert (before != after).sum() <= 1
    assert (blocks_of(space, rows[::-1]) == before).all(), "the order of rows changes nothing"
    people = Space(table(id=domain, x=Integers()), Identifiers("id"))
    first = blocks_of(people, {"id": rows, "x": rows}, by="id")
    second = blocks_of(people, {"id": [*rows, odd, odd], "x": [*rows, 2**70, 7]}, by="id")
    assert (first != second).sum() <= 1


def test_a_hash_of_what_python_prints_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: one row of 2^62 makes a column of Python's integers of a column of numpy's, and every row moves."""
    from tacit.mechanisms.sample_aggregate import SampleAggregate

    monkeypatch.setattr(
        SampleAggregate, "_places", lambda self, data: np.array([self._hashed((record,)) for record in data], dtype=np.int64)
    )
    space, rows = Space(Rows(Integers()), AddRemove()), list(range(1, 200))
    assert (blocks_of(space, rows) != blocks_of(space, [*rows, 2**62])).sum() > 25


def test_a_value_has_one_block_whatever_its_type() -> None:
    step = sample_aggregate(len, blocks=1000, bounds=(0, 9), key=KEY)
    for same in ([7, 7.0, np.int64(7), np.float32(7), np.uint8(7), Decimal(7), Fraction(7)], [0.5, np.float16(0.5), Decimal("0.5")]):
        assert len({int(step._places([value])[0]) for value in same}) == 1
    for dtype in ("i1", "i8", "u8", "f4", "f8", object):
        assert (step._places(np.arange(100).astype(dtype)) == step._places(list(range(100)))).all()


# --- people -------------------------------------------------------------------------------------------------

IDS: list[Any] = [
    0, 1, 9, 10, 99, -5, 0.4, 1.2, 3.0, "1", "x", b"x", None, NAN, INF, -INF, 10**400, 2**53, 2**53 + 1, True, Decimal("NaN"),
    Decimal("sNaN"), Decimal("1.5"), (1, None), (1, NAN), deep(500), [1], {"a": 1}, Odd(), np.datetime64("NaT"), np.float64("nan"),
]  # fmt: skip
MOST = 3
ID_DOMAINS = [Integers(0, 9), Integers(), Reals(0, 9), Reals(), Lattice(Fraction(1, 2), 0, 5), Categories((0, 1, "x")), Anything()]


def moved(plan: Any, ids: list[Any], gone: int, read: Callable[[Any], float] = float) -> float:
    """How far the answer moves when the person of one identifier leaves with all rows; each has 4."""
    def data(who: list[Any]) -> dict[str, Any]:
        owners_ = [one for one in who for _ in range(4)]
        return {"id": owners_, "x": list(range(len(owners_)))}

    left = [one for i, one in enumerate(ids) if i != gone]
    return abs(read(plan(data(ids))) - read(plan(data(left))))


@pytest.mark.parametrize("domain", ID_DOMAINS, ids=str)
def test_one_person_moves_a_cap_by_no_more_than_priced(domain: Domain) -> None:
    """Every identifier is a person of her own in the raw data; a domain may forget her, and never make two into one."""
    space = Space(table(id=domain, x=Integers(0, None)), Identifiers("id"))
    capped = space >> cap_rows("id", MOST) >> count()
    one_each = space >> group_by("id", len, Integers(0, 99)) >> count()
    for gone in range(len(IDS)):
        assert moved(capped, IDS, gone) <= capped.map(1) == MOST
        assert moved(one_each, IDS, gone) <= one_each.map(1) == 1


def test_people_merged_by_a_clamp_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant enforces the domain and nothing else: 10, 99 and 9 become one person."""
    space = Space(table(id=Integers(0, 9), x=Integers(0, None)), Identifiers("id"))
    capped = space >> cap_rows("id", MOST) >> group_by("id", lambda rows: len(rows), Integers(0, 99)) >> count()
    assert capped({"id": [9, 99, 10], "x": [1, 2, 3]}) == 1, "only 9 is a person"
    plan = space >> cap_rows("id", MOST) >> count()

    def spread(first: Any, second: Any) -> int:
        """Rows of the others that come or go with one person."""
        rows = [{(i, x) for i, x in zip(listed["id"], listed["x"], strict=True)} for listed in (first, second)]
        return len(rows[0] ^ rows[1])

    people = {"id": [9] * 4 + [99] * 200, "x": list(range(204))}
    alone = {"id": [9] * 4, "x": list(range(4))}
    kept = space >> cap_rows("id", MOST)
    assert spread(kept(people), kept(alone)) <= plan.map(1)
    monkeypatch.setattr(Identifiers, "counted", lambda self, domain, data: data)
    assert spread(kept(people), kept(alone)) > plan.map(1)


def test_nobody_is_one_rule_everywhere() -> None:
    """None, NaN and what cannot be read: in the metric, in caps, in selection and in blocks such rows are nobody's."""
    space = Space(table(id=Anything(), x=Categories("ab")), Identifiers("id"))
    nobody = [None, NAN, np.float64("nan"), Decimal("NaN"), np.datetime64("NaT"), Odd()]
    data = {"id": [*nobody, 1], "x": ["a"] * len(nobody) + ["b"]}
    without = {"id": [1], "x": ["b"]}
    assert owners(data, "id")[:-1] == [None] * len(nobody)
    assert Identifiers("id").distance(data, without) == 0
    assert (space >> cap_rows("id", 5) >> count())(data) == 1
    rule = LaplaceSelection(scale=Fraction(1, 1000), threshold=1, column="x")
    with test_mode(1):
        assert (space >> rule).release(data).value == (space >> rule).release(without).value == {"b": 1}
    plan = space >> sample_aggregate(lambda block: len(block["id"]), blocks=5, bounds=(0, 9), granularity=1, key=KEY, by="id")
    assert plan(data).tolist() == plan(without).tolist()


def test_selection_counts_each_person_once() -> None:
    """Exact counts: the people of a key in the raw data and in the holdings differ by at most one when one leaves."""
    space = Space(table(id=Anything(), x=Categories("a")), Identifiers("id"))
    rule = LaplaceSelection(scale=Fraction(1, 1000), threshold=1, column="x")

    def people(ids: list[Any]) -> int:
        with test_mode(1):
            return int((space >> rule).release({"id": ids, "x": ["a"] * len(ids)}).value.get("a", 0))

    for gone in range(len(IDS)):
        assert people(IDS) - people(IDS[:gone] + IDS[gone + 1 :]) in (0, 1)


def test_keys_that_python_will_not_print_raise_nothing() -> None:
    rows = Space(Rows(Anything()), AddRemove())
    plan = rows >> LaplaceSelection(scale=Fraction(1, 1000), threshold=1, keys=9)
    odd = [10**5000, Fraction(10**5000, 7), deep(300), deep(20_000), (10**5000, 1), Odd(), "x"]
    with test_mode(1):
        found = plan.release([odd]).value
    assert 10**5000 in found and "x" in found


# --- functions of the user ----------------------------------------------------------------------------------


def failing() -> Any:
    yield 1
    raise RuntimeError("Ada-4711")


class BadRecord(dict):  # type: ignore[type-arg]
    def get(self, *_: Any) -> Any:
        raise RuntimeError("Ada-4711")


RESULTS: list[Callable[[], Any]] = [
    lambda: 10**5000, lambda: -(10**400), lambda: deep(20_000), lambda: "9" * 5000, lambda: failing(), lambda: BadRecord(a=1),
    lambda: Odd(), lambda: Overflowing(), lambda: Decimal("sNaN"), lambda: np.ma.masked, lambda: np.array([1, 2]), lambda: 1j,
    lambda: {"a": deep(10_000)}, lambda: [10**5000, "x"], lambda: [deep(10_000)] * 2, lambda: iter(int, 1), lambda: "\ud800",
    lambda: NAN, lambda: None, lambda: Fraction(10**400, 3), lambda: np.datetime64("NaT"), lambda: object(), lambda: b"\xff",
]  # fmt: skip
OUTPUTS: list[Domain] = [
    Integers(0, 9), Integers(), Reals(0, 1), Reals(missing=False), Lattice(Fraction(1, 4), 0, 2), Categories((1, "x", (1, 2))),
    Vectors(Integers(0, 9), 2), Vectors(Reals(), 2), Records(a=Integers(0, 9), b=Categories("xy")), Anything(),
]  # fmt: skip


@pytest.mark.parametrize("output", OUTPUTS, ids=str)
def test_whatever_a_function_returns_becomes_a_member(output: Domain) -> None:
    numbers = Space(Rows(Integers()), AddRemove())
    results = [*RESULTS, lambda: 1]
    mapped = numbers >> map_rows(lambda row: results[row](), output)
    spread = numbers >> flat_map(lambda row: [results[row]()], 1, output)
    grouped = Space(table(id=Integers()), Identifiers("id")) >> group_by("id", lambda rows: results[rows[0]["id"]](), output)
    endless = 15 if not isinstance(output, Vectors) else None  # an iterator without end is cut off where a vector is wanted
    rows = [i for i in range(len(results)) if i != endless or not isinstance(output, Anything)]
    for plan, data in ((mapped, rows), (spread, rows), (grouped, {"id": rows})):
        found = plan(data)
        assert plan.output.domain.member(found)
    then = mapped >> distinct() >> filter_rows(lambda row: True) >> resize(3)
    assert then.output.domain.size == 3
    assert math.isfinite(len(repr(type(then(rows)))))


@pytest.mark.parametrize("fault", ["function", "conversion"])
def test_a_row_function_that_is_not_guarded_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutants: an error of the function, or of making its result a member, ends the whole release on one person's row."""
    from tacit.calculus import functions

    def outcome(rows: list[int]) -> str:
        results = {0: lambda: 1, 1: (lambda: 1 // 0) if fault == "function" else (lambda: 10**5000)}
        plan = Space(Rows(Integers()), AddRemove()) >> map_rows(lambda row: results[row](), Reals(0, 1))
        try:
            return str(len(plan(rows)))
        except Exception as error:
            return type(error).__name__

    assert outcome([0, 0]) == outcome([0, 1]) == "2"
    if fault == "function":
        monkeypatch.setattr(functions, "guarded", lambda function, row: function(row))
    else:
        monkeypatch.setattr(functions, "members", lambda domain, rows: np.array([float(row) for row in rows]))
    assert outcome([0, 0]) == "2" and outcome([0, 1]) != "2"


def test_rows_nested_deep_have_keys_of_their_own() -> None:
    first, second, third = deep(10_000), deep(10_000), deep(9_999)
    assert keys([first]) == keys([second]) != keys([third])
    assert len((Space(Rows(Anything()), AddRemove()) >> distinct())([first, second, third])) == 2
    loop: list[Any] = []
    loop.append(loop)
    assert keys([loop]) and owners({"id": [loop]}, "id") == [None]
