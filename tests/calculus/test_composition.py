"""Batches cost the composition of their parts; parts of a partition cost the worst spread, by enumeration."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import (
    GDP,
    ZCDP,
    Adjacency,
    ApproxDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Group,
    Laplace,
    NonPrivate,
    NoOp,
    PureDP,
    Repeated,
    Worst,
    account,
)
from tacit.calculus import (
    Absolute,
    AddRemove,
    CalculusError,
    Categories,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    Measurement,
    MetricError,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    Step,
    batch,
    clamp,
    compose,
    count,
    parallel,
    partition_by,
    table,
    total,
)
from tacit.calculus.composition import worst_spread

LETTERS = Rows(Categories("ab"))
PART = Space(LETTERS, AddRemove())


def child(price: Callable[[Any], Event], proof: str | None = "by fiat") -> Measurement:
    return Measurement(PART, list, lambda d: price(Fraction(d)) if d else NoOp(), "child", proof)


def pure(epsilon: Any) -> Measurement:
    return child(lambda d: PureDP(Fraction(epsilon) * d))


def split(metric: Any, **children: Measurement) -> Measurement:
    return Space(Rows(Categories("abc")), metric) >> parallel(partition_by(list(children)), {k: _loose(c) for k, c in children.items()})


def _loose(measurement: Measurement) -> Step:
    """A child that takes any categories."""
    space = Space(Rows(Categories("abc")), AddRemove())
    return Measurement(space, measurement.function, measurement.privacy, measurement.name, measurement.proof)


def noise(scale: int) -> Measurement:
    return Measurement(Space(Integers(), Absolute()), lambda x: x, lambda d: Laplace(scale / Fraction(d)) if d else NoOp(), "noise", "1.8")


def test_a_batch_costs_the_sum_and_answers_in_order() -> None:
    space = Space(Rows(Integers()), AddRemove())
    plan = space >> clamp(0, 10) >> batch(count() >> noise(2), total() >> noise(20))
    assert plan.event(1) == Composed(Laplace(2), Laplace(2))
    assert plan.event(3) == Composed(Laplace(Fraction(2, 3)), Laplace(Fraction(2, 3)))
    assert plan.release([5, 99]).value == (2, 15)
    assert account(plan.event(1)).epsilon(0).upper == 1
    assert plan.accuracy is None


def test_using_the_data_twice_costs_twice() -> None:
    twice = compose(pure(Fraction(1, 10)), pure(Fraction(1, 10)))
    assert account(twice.event(1)).epsilon(0).upper == pytest.approx(0.2, rel=1e-12)
    assert compose(pure(1)).event(1) == PureDP(1)
    assert compose(pure(1), pure(2)).event(0) == NoOp()


def test_batches_are_checked() -> None:
    with pytest.raises(CalculusError, match="at least one"):
        compose()
    with pytest.raises(CalculusError, match="at least one"):
        batch()
    with pytest.raises(DomainError, match="one space"):
        compose(pure(1), noise(1))
    with pytest.raises(CalculusError, match="releases nothing"):
        Space(Rows(Integers()), AddRemove()) >> batch(count())
    assert compose(pure(1), child(PureDP, proof=None)).unproved == ("child",)


def test_parts_under_add_and_remove_cost_the_maximum() -> None:
    plan = split(AddRemove(), a=pure(1), b=pure(3), c=pure(2))
    assert plan.event(1) == PureDP(3)
    assert plan.event(2) == PureDP(6)
    same = split(AddRemove(), a=child(lambda d: ApproxDP(d, 0.1)), b=child(lambda d: ApproxDP(d, 0.1)))
    assert same.event(1) == ApproxDP(1, 0.1)


def test_parts_under_exchange_cost_the_two_largest_or_one_twice() -> None:
    assert split(ReplaceOne(), a=pure(1), b=pure(3), c=pure(2)).event(1) == PureDP(6, adjacency=Adjacency.REPLACE_ONE)
    # a child whose price does not grow with the distance: then moving between two parts is worse than staying in one
    flat = {"a": child(lambda d: PureDP(1)), "b": child(lambda d: PureDP(3)), "c": child(lambda d: PureDP(2))}
    assert split(ReplaceOne(), **flat).event(1) == PureDP(5, adjacency=Adjacency.REPLACE_ONE)
    assert split(Hamming(), **flat).event(1) == PureDP(5, adjacency=Adjacency.REPLACE_ONE)
    assert split(AddRemove(), **flat).event(1) == PureDP(3)


prices = st.lists(st.integers(0, 9), min_size=3, max_size=3)


@settings(max_examples=60)
@given(st.lists(prices, min_size=1, max_size=3), st.integers(1, 3), st.booleans())
def test_the_worst_spread_by_enumeration(steps: list[list[int]], changes: int, concentrated: bool) -> None:
    """Any rising prices, all ways to spread the changes over the parts."""
    rising = [[0, a, a + b, a + b + c] for a, b, c in steps]
    expected = max(
        sum(part[j] for part, j in zip(rising, spread, strict=True))
        for spread in product(range(changes + 1), repeat=len(rising))
        if sum(spread) <= changes
    )
    leaf: Any = ZCDP if concentrated else PureDP
    found = worst_spread([lambda d, part=part: leaf(part[int(d)]) for part in rising], changes)  # type: ignore[misc]
    assert found == leaf(expected)


def test_exchanging_is_never_cheaper_than_it_really_is() -> None:
    """Enumerate data sets of two rows and all exchanges of one: the distances of the parts, priced one by one."""
    epsilons = {"a": Fraction(1), "b": Fraction(3), "c": Fraction(2)}
    plan = split(ReplaceOne(), **{k: pure(e) for k, e in epsilons.items()})
    stated = plan.event(1)
    assert isinstance(stated, PureDP)
    partition, rows = partition_by("abc"), Rows(Categories("abc"))
    worst = Fraction(0)
    for one in product("abc", repeat=2):
        for new in "abc":
            first, second = partition.split(list(one), rows), partition.split([new, one[1]], rows)
            worst = max(worst, sum((epsilons[k] * AddRemove().distance(first[k], second[k]) for k in "abc"), Fraction(0)))
    assert worst == 5  # from b to c or back
    assert worst <= stated.epsilon


def test_gaussian_parts_keep_their_whole_curve() -> None:
    gauss = {k: child(lambda d, s=s: Gaussian(s / d)) for k, s in (("a", 2), ("b", 4))}  # type: ignore[misc]
    assert split(AddRemove(), **gauss).event(1) == GDP(Fraction(1, 2))
    assert split(ReplaceOne(), **gauss).event(1) == GDP(1, adjacency=Adjacency.REPLACE_ONE)


def test_discrete_and_mixed_noise() -> None:
    discrete = {k: child(lambda d, s=s: DiscreteLaplace(s, int(d))) for k, s in (("a", 2), ("b", 4))}  # type: ignore[misc]
    assert split(AddRemove(), **discrete).event(1) == PureDP(Fraction(1, 2))
    normal = {k: child(lambda d, s=s: DiscreteGaussian(s, int(d))) for k, s in (("a", 2), ("b", 4))}  # type: ignore[misc]
    assert split(AddRemove(), **normal).event(1) == ZCDP(Fraction(1, 8))
    mixed = split(AddRemove(), a=pure(1), b=child(lambda d: ZCDP(d**2 / 8)))
    assert mixed.event(1) == ZCDP(Fraction(1, 2))
    deep = child(lambda d: Composed(Repeated(DiscreteLaplace(10, int(d)), 2), Group(PureDP(Fraction(1, 10)), 3)))
    assert split(AddRemove(), a=deep, b=pure(Fraction(1, 10))).event(1) == PureDP(Fraction(1, 2))


def test_prices_that_cannot_be_compared_become_the_worst_of_all_ways() -> None:
    plan = split(AddRemove(), a=pure(1), b=child(lambda d: ApproxDP(d, 0.1)))
    assert set(plan.event(1).events) == {PureDP(1), ApproxDP(1, 0.1)} and isinstance(plan.event(1), Worst)
    for epsilon in (0.0, 0.5, 2.0):
        dearest = max(account(event).delta(epsilon).upper for event in (PureDP(1), ApproxDP(1, 0.1)))
        assert account(plan.event(1)).delta(epsilon).upper == pytest.approx(dearest, rel=1e-9)
    twice = plan.event(2)  # both rows in one part, or one in each
    assert isinstance(twice, Worst) and Composed(ApproxDP(1, 0.1), PureDP(1)) in twice.events and ApproxDP(2, 0.1) in twice.events
    assert len(twice.events) == 3
    assert split(AddRemove(), a=pure(1), b=child(lambda d: NonPrivate())).event(1) == NonPrivate()
    assert plan.event(0) == NoOp()


def test_too_many_ways_are_refused_with_the_fix() -> None:
    parts = {f"k{i}": child(lambda d, i=i: ApproxDP(d, Fraction(1, 10 + i))) for i in range(70)}  # type: ignore[misc]
    maps = [measurement.privacy for measurement in parts.values()]
    with pytest.raises(CalculusError, match="same measurement"):
        worst_spread(maps, 1)


def test_keys_are_public() -> None:
    plan = Space(Rows(Categories("abc")), AddRemove()) >> parallel(partition_by(["a", "z"]), _loose(pure(1)))
    assert plan.release(["a", "b", "a"]).value == {"a": ["a", "a"], "z": []}
    assert plan.release([]).value == {"a": [], "z": []}


def test_each_part_sees_only_its_own_rows() -> None:
    people = Space(table(age=Integers(0, 120), city=Categories("ab")), AddRemove())
    seen: list[Any] = []

    def look(data: Any) -> int:
        seen.append({name: list(values) for name, values in data.items()})
        return 0

    inner = Measurement(people, look, lambda d: PureDP(d) if d else NoOp(), "look", "by fiat")
    plan = people >> parallel(partition_by(["b", "a"], "city"), inner)
    assert plan.release({"age": [1, 2, 3], "city": ["a", "b", "a"]}).value == {"b": 0, "a": 0}
    assert seen == [{"age": [2], "city": ["b"]}, {"age": [1, 3], "city": ["a", "a"]}]


def test_numbers_as_keys() -> None:
    space = Space(table(k=Reals(), v=Integers()), AddRemove())
    plan = space >> parallel(partition_by([1, 2], "k"), Measurement(space, len_of, lambda d: PureDP(d), "len", "by fiat"))
    assert plan.release({"k": [1.0, 1.0, 3.0], "v": [1, 2, 3]}).value == {1: 2, 2: 0}


def len_of(data: Any) -> int:
    return len(data["k"])


def test_partitions_are_checked() -> None:
    rows = Space(Rows(Categories("abc")), AddRemove())
    people = Space(table(id=Integers(), city=Categories("ab")), Identifiers("id"))
    for keys, message in (([], "empty"), (["a", "a"], "twice")):
        with pytest.raises(DomainError, match=message):
            partition_by(keys)
    with pytest.raises(DomainError, match="exactly the keys"):
        parallel(partition_by("ab"), {"a": pure(1)})
    with pytest.raises(DomainError, match="no column"):
        Space(people.domain, AddRemove()) >> parallel(partition_by("ab", "town"), count() >> noise(1))
    with pytest.raises(DomainError, match="name the column"):
        Space(people.domain, AddRemove()) >> parallel(partition_by("ab"), count() >> noise(1))
    with pytest.raises(MetricError, match="cap_rows"):
        people >> parallel(partition_by("ab", "city"), count() >> noise(1))
    with pytest.raises(CalculusError, match="releases nothing"):
        rows >> parallel(partition_by("ab"), count())
    with pytest.raises(MetricError):
        rows >> parallel(partition_by("ab"), Measurement(Space(Rows(Categories("abc")), ReplaceOne()), len, PureDP, "x", "y"))
    unproved = rows >> parallel(partition_by("a"), _loose(child(PureDP, proof=None)))
    assert unproved.unproved == ("child",)
