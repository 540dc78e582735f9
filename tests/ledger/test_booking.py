"""The tree of accounts against definitions: totals recomputed from the list of all spends, rooms found by trying."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ZCDP, Adjacency, Event, PureDP
from tacit.ledger import Budget, PriceError
from tacit.ledger.booking import Key, Totals, booked, charge_of, refused, room
from tacit.ledger.spec import Spec

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


class Book:
    """A book in memory: specs by id, totals, and the list of everything admitted."""

    def __init__(self, *specs: Spec) -> None:
        self.specs = {spec.id: spec for spec in specs}
        self.totals: dict[Key, Totals] = {}
        self.admitted: list[tuple[int, str, dict[str, Fraction | None]]] = []

    def path(self, account: int) -> list[Spec]:
        found = [self.specs[account]]
        while found[-1].parent is not None:
            found.append(self.specs[found[-1].parent])
        return found

    def spend(self, account: int, event: Event, period: str = "", *, correction: bool = False) -> bool:
        path = self.path(account)
        charge = charge_of(event, path, delta=None, correction=correction)
        after = booked(path, self.totals, charge, period)
        if refused(path, after, period) is not None:
            return False
        self.totals |= after
        self.admitted.append((account, period, charge))
        return True

    def total(self, account: int, component: str, period: str = "") -> Fraction:
        value = self.totals[account, period].total[component]
        assert value is not None
        return value


def tree(rule: str, budget: Budget, adjacency: Adjacency = ADD, **terms: object) -> Book:
    """P above Q, which is split in three."""
    p = Spec(1, "P", budget, adjacency=adjacency, **terms)  # type: ignore[arg-type]
    q = replace(p, id=2, name="Q", parent=1, rule=rule)
    return Book(p.checked(None), q.checked(p), *(replace(p, id=3 + i, name=f"C{i}", parent=2).checked(q) for i in range(3)))


TRACE = [(0, "0.3", "0.3"), (1, "0.5", "0.5"), (0, "0.1", "0.5"), (0, "0.2", "0.6"), (2, "0.6", "0.6"), (2, "0.5", None)]


@pytest.mark.parametrize(
    ("budget", "kind", "component"),
    [(Budget(epsilon=1), PureDP, "pure"), (Budget(rho=1), ZCDP, "rho")],
    ids=["epsilon", "rho"],
)
def test_the_trace_of_spec_06(budget: Budget, kind: type[PureDP] | type[ZCDP], component: str) -> None:
    """P has 1.0, Q is a partition in three: 0.3, 0.5, 0.5 (free), 0.6, 0.6 (free), refused with nothing changed."""
    book = tree("max", budget)
    for child, amount, expected in TRACE:
        before = dict(book.totals)
        admitted = book.spend(3 + child, kind(Fraction(amount)))
        assert admitted == (expected is not None)
        if expected is None:
            assert book.totals == before
        else:
            assert book.total(1, component) == Fraction(expected)


def test_the_sum_rule_fails_the_trace() -> None:
    """The mutant: without parallel composition the third step already costs."""
    book = tree("sum", Budget(epsilon=1))
    totals = []
    for child, amount, _ in TRACE[:3]:
        book.spend(3 + child, PureDP(Fraction(amount)))
        totals.append(book.total(1, "pure"))
    assert totals == [Fraction("0.3"), Fraction("0.8"), Fraction("0.9")]


def test_under_replace_one_a_move_costs_the_two_largest() -> None:
    """A person who moves from one part to another is removed there and added here; stated for both relations, the two largest add up."""
    book = tree("two-largest", Budget(epsilon=2), REPLACE, null_record=True)
    for child, amount, expected in [(0, "0.3", "0.3"), (1, "0.5", "0.8"), (2, "0.4", "0.9"), (0, "0.05", "0.9"), (0, "0.3", "1.15")]:
        assert book.spend(3 + child, PureDP(Fraction(amount), adjacency=REPLACE))
        assert book.total(1, "pure") == Fraction(expected)


def test_under_replace_one_an_add_remove_guarantee_counts_twice_within_a_part() -> None:
    """Stated under add/remove, a change within one part is two steps: 2 max, which is never less than the two largest together."""
    book = tree("two-largest", Budget(epsilon=2), REPLACE)
    for child, amount, expected in [(0, "0.3", "0.6"), (1, "0.5", "1"), (2, "0.4", "1"), (0, "0.2", "1")]:
        assert book.spend(3 + child, PureDP(Fraction(amount)))
        assert book.total(1, "pure") == Fraction(expected)


def test_a_replace_one_guarantee_says_nothing_about_a_move() -> None:
    """Releasing the size of a part is free under replace-one within the part, and a move changes it: such an event is refused."""
    book = tree("two-largest", Budget(epsilon=2), REPLACE)
    with pytest.raises(PriceError, match="null_record"):
        book.spend(3, PureDP(0, adjacency=REPLACE))


def test_parent_and_child_may_have_different_currencies() -> None:
    p = Spec(1, "P", Budget(rho=1), rule="max")
    children = [Spec(i, f"C{i}", Budget(epsilon=1), parent=1) for i in (2, 3)]
    book = Book(p, *children)
    assert book.spend(2, PureDP(Fraction(1, 2))) and book.spend(3, PureDP(Fraction(1, 4)))
    assert book.total(1, "rho") == Fraction(1, 8)
    with pytest.raises(PriceError):
        book.spend(2, ZCDP(Fraction(1, 100)))


def test_analysts_who_do_not_pool_answers_are_bounded_one_by_one() -> None:
    for collusion, expected in ((True, Fraction(3, 4)), (False, Fraction(1, 2))):
        p = Spec(1, "P", Budget(epsilon=1), collusion=collusion)
        book = Book(p, Spec(2, "ann", Budget(epsilon=1), parent=1), Spec(3, "bob", Budget(epsilon=1), parent=1))
        assert book.spend(2, PureDP(Fraction(1, 2))) and book.spend(3, PureDP(Fraction(1, 4)))
        assert book.total(1, "pure") == expected


def test_budgets_of_three_analysts_are_each_enforced_and_the_curator_sees_the_total() -> None:
    p = Spec(1, "P", Budget(epsilon=1))
    book = Book(p, *(Spec(i, f"a{i}", Budget(epsilon=b), parent=1) for i, b in ((2, "0.3"), (3, "0.5"), (4, "0.2"))))
    for account, amount in ((2, "0.3"), (3, "0.5"), (4, "0.2")):
        assert not book.spend(account, PureDP(Fraction(amount) + Fraction(1, 10**9)))
        assert book.spend(account, PureDP(Fraction(amount)))
    assert book.total(1, "pure") == 1
    assert not book.spend(1, PureDP(Fraction(1, 10**12)))


def test_corrections_use_the_reserve_first_in_name_and_ordinary_spends_never() -> None:
    book = Book(Spec(1, "P", Budget(epsilon=1, reserve="0.1")))
    assert book.spend(1, PureDP(Fraction("0.05")), correction=True)
    assert book.spend(1, PureDP(Fraction("0.9")))
    assert not book.spend(1, PureDP(Fraction("0.01")))
    assert book.spend(1, PureDP(Fraction("0.05")), correction=True)
    assert not book.spend(1, PureDP(Fraction("0.001")), correction=True)


# --- random trees against the definition ------------------------------------------------------------------------------------------------

MONTHS = ["2026-01", "2026-02"]


@st.composite
def books(draw: st.DrawFn) -> Book:
    """A random tree of up to six accounts with random rules, budgets and windows."""
    adjacency = draw(st.sampled_from([ADD, REPLACE]))
    rules = ["sum", "max"] if adjacency is ADD else ["sum", "two-largest"]
    specs: list[Spec] = []
    for number in range(1, draw(st.integers(2, 6)) + 1):
        parent = draw(st.sampled_from(specs)) if specs else None
        rule = draw(st.sampled_from(rules))
        window = "month" if parent is not None and parent.window else draw(st.sampled_from([None, "month"]))
        specs.append(
            Spec(
                number,
                f"a{number}",
                Budget(epsilon=draw(st.integers(1, 30)), reserve=draw(st.sampled_from([0, 0, Fraction(1, 4)]))),
                parent=parent.id if parent else None,
                adjacency=adjacency,
                rule=rule,
                collusion=draw(st.booleans()) if rule == "sum" else True,
                window=window,
                null_record=True,
            ).checked(parent)
        )
    return Book(*specs)


def spends_on(book: Book) -> st.SearchStrategy[list[tuple[int, int, Adjacency, str, bool]]]:
    relation = st.sampled_from([ADD, REPLACE])
    one = st.tuples(st.sampled_from(sorted(book.specs)), st.integers(0, 12), relation, st.sampled_from(MONTHS), st.booleans())
    return st.lists(one, max_size=25)


def by_definition(book: Book, account: int, component: str, period: str | None) -> Fraction:
    """The total from the list of all admitted spends, straight from the meaning of the rules. `period` None: the whole life."""
    spec = book.specs[account]
    if spec.window is not None and period is None:
        return sum((by_definition(book, account, component, month) for month in MONTHS), Fraction(0))
    window = period if spec.window is not None else None
    own = sum(
        (charge[component] or Fraction(0) for who, when, charge in book.admitted if who == account and (window is None or when == window)),
        Fraction(0),
    )
    children = [child.id for child in book.specs.values() if child.parent == account]

    def below(name: str) -> list[Fraction]:
        return sorted((by_definition(book, child, name, window) for child in children), reverse=True)

    if spec.rule == "two-largest" and "moved." not in component:
        plain = "plain." if component.startswith("plain.") else ""
        moved = below(f"{plain}moved.{component.removeprefix('plain.')}")
        return own + max([Fraction(0), *below(component), sum(moved[:2], Fraction(0))])
    if spec.combines == "sum":
        return own + sum(below(component), Fraction(0))
    return own + max([Fraction(0), *below(component)])


@given(st.data())
def test_incremental_totals_are_what_the_rules_mean(data: st.DataObject) -> None:
    book = data.draw(books())
    for account, amount, relation, month, correction in data.draw(spends_on(book)):
        book.spend(account, PureDP(amount, adjacency=relation), month if book.specs[account].window else "", correction=correction)
    for account, spec in book.specs.items():
        path = book.path(account)
        for period in ["", *(MONTHS if spec.window else [])]:
            found = book.totals.get((account, period), Totals.empty(spec.components(path[1:])))
            for name, value in found.total.items():
                assert value == by_definition(book, account, name, period or None), (name, period)
            for name, limit in spec.limits().items():
                if spec.window is None or period:
                    assert found.total[name] is not None and found.total[name] <= limit  # type: ignore[operator]


@given(st.data())
def test_the_room_is_exactly_what_is_admitted(data: st.DataObject) -> None:
    book = data.draw(books())
    for account, amount, _, month, correction in data.draw(spends_on(book)):
        book.spend(account, PureDP(amount, adjacency=REPLACE), month if book.specs[account].window else "", correction=correction)
    account = data.draw(st.sampled_from(sorted(book.specs)))
    correction = data.draw(st.booleans())
    period = MONTHS[0] if book.specs[account].window else ""
    left = room(book.path(account), book.totals, period, correction=correction)["pure"]
    # stated under replace-one with a null record, the event costs the same under both relations, so one number says it all
    assert not book.spend(account, PureDP(left + Fraction(1, 10**15), adjacency=REPLACE), period, correction=correction)
    assert book.spend(account, PureDP(left, adjacency=REPLACE), period, correction=correction)
