"""Queryables: the traces of the specification, refusals that change nothing, conversations interleaved and frozen, threads."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import GDP, ZCDP, ApproxDP, Event, Gaussian, NoOp, PureDP
from tacit.calculus import (
    AddRemove,
    Categories,
    Identifiers,
    Integers,
    Measurement,
    ReplaceOne,
    Rows,
    Space,
    Step,
    Transformation,
    UnprovedError,
    count,
    table,
)
from tacit.ledger import Budget, BudgetExceeded, Ledger, LedgerError, ReleaseFailed
from tacit.ledger.queryable import CONCURRENT, Conversation, Frozen, InteractiveMeasurement, join, queryable
from tacit.mechanisms import laplace
from tacit.noise import test_mode as seeded

ROWS = Space(Rows(Integers()), AddRemove())
TENTH = Fraction(1, 10)


def pure(epsilon: Any, space: Space = ROWS, function: Callable[[Any], Any] = len) -> Measurement:
    return Measurement(space, function, lambda d: PureDP(Fraction(epsilon) * d) if d else NoOp(), "pure", proof="by fiat")


def concentrated(rho: Any, space: Space = ROWS) -> Measurement:
    return Measurement(space, len, lambda d: ZCDP(Fraction(rho) * d * d), "zcdp", proof="by fiat")


def stable(factor: int, space: Space = ROWS) -> Transformation:
    return Transformation(
        space, space, lambda rows: [r for r in rows for _ in range(factor)], lambda d: factor * d, "copies", proof="by fiat"
    )


def test_the_trace_of_the_specification() -> None:
    """Spec 06, A5.6: 0.3, 0.5, 0.5, 0.6, 0.6, refused with nothing changed."""
    data = queryable(range(9), ROWS, Budget(epsilon=1))
    first, second, third = data.partition(lambda row: int(row) % 3, keys=[0, 1, 2]).values()
    trace = []
    for part, tenths in ((first, 3), (second, 5), (first, 1), (first, 2), (third, 6)):
        assert part.ask(pure(tenths * TENTH)).value == 3
        trace.append(data.spent["pure"])
    assert trace == [Fraction(t, 10) for t in (3, 5, 5, 6, 6)]
    with pytest.raises(BudgetExceeded) as refused:
        third.ask(pure(5 * TENTH))
    assert refused.value.left == {"pure": Fraction(4, 10)} and refused.value.asked == {"pure": Fraction(1, 2)}
    assert data.spent["pure"] == Fraction(6, 10)
    third.ask(pure(4 * TENTH))  # what was refused was not counted: 0.6 + 0.4 fits
    assert data.left == {"pure": 0}


def test_zcdp_through_a_two_stable_child_costs_four_times() -> None:
    data = queryable([1, 2], ROWS, Budget(rho=1))
    child = data.ask(stable(2))
    assert child.ask(concentrated(TENTH)).value == 4
    assert data.spent == {"rho": Fraction(4, 10)}
    below = child.partition(lambda row: int(row), keys=[1, 2])
    below[1].ask(concentrated(TENTH))
    assert data.spent == {"rho": Fraction(8, 10)}  # both copies may lie in one part: at distance 2, four times again
    below[2].ask(concentrated(TENTH / 2))
    assert data.spent == {"rho": Fraction(8, 10)}


def test_a_scalar_message_would_be_wrong() -> None:
    """The mutant multiplies what the child asked by the stability, as PINQ does: 0.2 instead of 0.4."""
    data = queryable([1, 2], ROWS, Budget(rho=Fraction(3, 10)))
    with pytest.raises(BudgetExceeded):
        data.ask(stable(2)).ask(concentrated(TENTH))


def test_ten_tenths_fit_and_no_more() -> None:
    data = queryable([1], ROWS, Budget(epsilon=1))
    for _ in range(10):
        data.ask(Measurement(ROWS, len, lambda d: PureDP(0.1), "tenth", proof="by fiat"))
    with pytest.raises(BudgetExceeded):
        data.ask(Measurement(ROWS, len, lambda d: PureDP(1e-12), "crumb", proof="by fiat"))


def test_a_replaced_row_costs_the_two_largest_or_a_replacement() -> None:
    fixed = Space(Rows(Integers()), ReplaceOne())
    data = queryable(range(10), fixed, Budget(epsilon=2))
    parts = list(data.partition(lambda row: int(row) % 3, keys=[0, 1, 2]).values())
    # a count does not change when a row is replaced within its part, so only moves cost: the two largest
    for part, scale in zip(parts, (2, 4, 5), strict=True):
        part.ask(count() >> laplace(scale=scale))
    assert data.spent == {"pure": Fraction(1, 2) + Fraction(1, 4)}
    # a measurement that is bound to added and removed rows pays twice for a row replaced in place
    parts[0].ask(pure(Fraction(1, 2)))
    assert data.spent == {"pure": max(Fraction(1) + Fraction(1, 4), Fraction(1))}
    parts[2].ask(pure(Fraction(1, 2)))
    assert data.spent == {"pure": Fraction(1) + Fraction(7, 10)}
    # the mutant, the maximum alone, lies below
    assert data.spent["pure"] > 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=8), st.booleans(), st.integers(1, 3))
def test_the_total_covers_every_way_to_spread_a_change(asks: list[tuple[int, int]], replacing: bool, distance: int) -> None:
    """Against enumeration: all ways to add and remove rows in the parts, each part paying rho d^2."""
    space = Space(Rows(Integers()), ReplaceOne() if replacing else AddRemove())
    data = queryable([0], space, Budget(rho=10**9), distance=distance)
    parts = list(data.partition(lambda row: int(row), keys=range(4)).values())
    totals = [0] * 4
    for part, rho in asks:
        parts[part].ask(concentrated(rho))
        totals[part] += rho
    moves = 2 * distance if replacing else distance
    worst = max(
        sum(rho * d * d for rho, d in zip(totals, spread, strict=True))
        for spread in itertools.product(range(moves + 1), repeat=4)
        if sum(spread) == moves
    )
    assert data.spent["rho"] == worst


def test_public_keys_only() -> None:
    data = queryable([1, 2, 2, 9], ROWS, Budget(epsilon=1))
    parts = data.partition(lambda row: 1 // (int(row) - 1), keys=[1, 7])  # raises for the row 1, and 9 has key 0
    assert parts[1].ask(pure(TENTH)).value == 2 and parts[7].ask(pure(TENTH)).value == 0
    with pytest.raises(LedgerError, match="twice"):
        data.partition(lambda row: row, keys=[1, 1])
    people = table(id=Integers(), city=Categories(("a", "b")))
    whole = queryable({"id": [1, 2, 3], "city": ["a", "b", "a"]}, Space(people, AddRemove()), Budget(epsilon=1))
    assert (
        whole.partition("city", keys=["a", "b"])["a"].ask(count() >> laplace(scale=10)).event
        == whole.partition("city", ["a"])["a"].ask(count() >> laplace(scale=10)).event
    )
    with pytest.raises(LedgerError, match="cap rows"):
        queryable({"id": [1], "city": ["a"]}, Space(people, Identifiers("id")), Budget(epsilon=1)).partition("city", ["a"])


def test_joins_charge_both_sides() -> None:
    one, two = queryable([1, 2], ROWS, Budget(epsilon=1)), queryable([2, 3], ROWS, Budget(epsilon=Fraction(1, 2)))
    both = join(one, two, lambda a, b: [*a, *b], ROWS, stability=(lambda d: d, lambda d: 2 * d), proof="union of rows, the second twice")
    assert both.ask(pure(TENTH)).value == 4
    assert (one.spent, two.spent) == ({"pure": TENTH}, {"pure": 2 * TENTH})
    with pytest.raises(BudgetExceeded):
        both.ask(pure(Fraction(1, 5)))  # 0.4 for the second, which has 0.3
    assert (one.spent, two.spent) == ({"pure": TENTH}, {"pure": 2 * TENTH})
    with pytest.raises(LedgerError, match="two private sources"):
        both.partition(lambda row: row, keys=[1])


def test_a_self_join_pays_twice_and_for_zcdp_four_times() -> None:
    for budget, ask, wanted in ((Budget(epsilon=1), pure, 2 * TENTH), (Budget(rho=1), concentrated, 4 * TENTH)):
        data = queryable([1, 2], ROWS, budget)
        twice = join(data, data, lambda a, b: [*a, *b], ROWS, stability=(lambda d: d, lambda d: d), proof="union of rows")
        twice.ask(ask(TENTH))
        assert list(data.spent.values()) == [wanted]
    parts = data.partition(lambda row: row, keys=[1, 2])
    with pytest.raises(LedgerError, match="join first"):
        join(parts[1], parts[2], lambda a, b: a, ROWS, stability=(lambda d: d, lambda d: d), proof="no")
    with pytest.raises(LedgerError, match="join first"):
        join(data, parts[2], lambda a, b: a, ROWS, stability=(lambda d: d, lambda d: d), proof="no")


def threshold_mechanism(epsilon: Fraction, *, concurrent: bool = True, log: list[str] | None = None) -> InteractiveMeasurement:
    """A conversation that answers whether a count is above each question's threshold; a stand-in for the sparse vector technique."""

    def start(rows: Any) -> Callable[[Any], Any]:
        if log is not None:
            log.append("touched")
        return lambda threshold: len(rows) > threshold

    return InteractiveMeasurement(ROWS, start, lambda d: PureDP(epsilon * d), "above threshold", proof="by fiat", concurrent=concurrent)


def test_a_conversation_is_charged_once_when_it_is_opened() -> None:
    log: list[str] = []
    data = queryable([1, 2, 3], ROWS, Budget(epsilon=1))
    child = data.ask(threshold_mechanism(Fraction(1, 2), log=log))
    assert isinstance(child, Conversation) and data.spent == {"pure": Fraction(1, 2)} and log == []
    assert [child.ask(t).value for t in (1, 2, 3, 4)] == [True, True, False, False]
    assert data.spent == {"pure": Fraction(1, 2)} and log == ["touched"]
    with pytest.raises(BudgetExceeded):
        data.ask(threshold_mechanism(Fraction(6, 10), log=log))
    assert log == ["touched"]


def test_conversations_interleave_where_that_is_proved() -> None:
    assert set(CONCURRENT) == {"pure", "approximate", "rho", "renyi", "mu"}
    data = queryable([1, 2, 3], ROWS, Budget(epsilon=1))
    one, two = (data.spawn(threshold_mechanism(Fraction(1, 4))) for _ in range(2))
    assert [c.ask(t).value for c, t in ((one, 1), (two, 1), (one, 5), (two, 5))] == [True, True, False, False]
    data.ask(pure(TENTH))
    assert one.ask(0).value is True


@pytest.mark.parametrize("sequential", ["child", "whole"])
def test_conversations_are_frozen_where_it_is_not(sequential: str) -> None:
    data = queryable([1, 2, 3], ROWS, Budget(epsilon=2), concurrent=sequential != "whole")
    make = lambda: data.spawn(threshold_mechanism(Fraction(1, 4), concurrent=sequential != "child"))  # noqa: E731
    older = make()
    assert older.ask(1).value is True
    with pytest.raises(BudgetExceeded):
        data.ask(pure(5))
    assert older.ask(1).value is True  # a refused question interrupts nothing
    younger = make()
    with pytest.raises(Frozen, match="interrupted"):
        older.ask(1)
    assert younger.ask(1).value is True
    data.partition(lambda row: row, keys=[1])[1].ask(pure(TENTH))
    with pytest.raises(Frozen):
        younger.ask(1)
    if sequential == "whole":
        programme, share = data.sequence([PureDP(TENTH)]), data.allot(Budget(epsilon=TENTH))
        with pytest.raises(Frozen, match="programme"):
            programme.ask(pure(TENTH))
        data.ask(pure(TENTH))
        with pytest.raises(Frozen, match="share"):
            share.ask(pure(TENTH))


def test_budgets_of_several_analysts() -> None:
    data = queryable([1, 2], ROWS, Budget(epsilon=1))
    shares = [data.allot(Budget(epsilon=Fraction(t, 10))) for t in (3, 5, 2)]
    assert data.spent == {"pure": 1}
    for share, t in zip(shares, (3, 5, 2), strict=True):
        share.ask(pure(Fraction(t, 10)))
        with pytest.raises(BudgetExceeded):
            share.ask(pure(Fraction(1, 10**6)))
    with pytest.raises(BudgetExceeded):
        data.allot(Budget(epsilon=Fraction(1, 100)))


@pytest.mark.parametrize(
    ("budget", "event"),
    [
        (Budget(epsilon=1), PureDP(1)),
        (Budget(epsilon=1, delta=TENTH), ApproxDP(1, TENTH)),
        (Budget(rho=2), ZCDP(2)),
        (Budget(mu=2), GDP(2)),
    ],
)
def test_what_a_budget_guarantees(budget: Budget, event: Event) -> None:
    assert budget.guarantee.as_event() == event
    assert Budget(renyi={2: TENTH}).guarantee.as_event().curve == ((2.0, 0.1),)


def test_a_programme_of_fixed_losses() -> None:
    data = queryable([1, 2], ROWS, Budget(epsilon=1))
    plan = data.sequence([PureDP(TENTH), PureDP(2 * TENTH), PureDP(3 * TENTH)])
    assert data.spent == {"pure": Fraction(6, 10)}
    plan.ask(pure(TENTH))
    with pytest.raises(BudgetExceeded, match="question 2"):
        plan.ask(pure(Fraction(1, 4)))
    plan.ask(pure(2 * TENTH))
    plan.ask(pure(TENTH))
    assert plan.left == ()
    with pytest.raises(LedgerError, match="all 3"):
        plan.ask(pure(0))
    assert data.spent == {"pure": Fraction(6, 10)}


def test_a_programme_is_priced_as_one_plan() -> None:
    """Optimal composition holds because the losses were fixed: 20 x 0.1 cost 1.8 at delta 4.6e-7, not 2 (spec 06, A5.2)."""
    data = queryable([1], ROWS, Budget(epsilon=Fraction(18, 10), delta=Fraction(1, 10**6)))
    with pytest.raises(BudgetExceeded):
        data.sequence([PureDP(TENTH)] * 20)  # basic: 2.0 at delta 0
    assert list(data.spent.values()) == [0, 0]
    data.sequence([PureDP(TENTH)] * 20, delta=Fraction(1, 10**6))
    assert data.spent["delta"] == Fraction(1, 10**6) and 1.6 < data.spent["epsilon"] <= Fraction(18, 10)


def test_gaussian_questions_state_their_delta() -> None:
    gaussian = Measurement(ROWS, len, lambda d: Gaussian(Fraction(10) / Fraction(d)) if d else NoOp(), "gaussian", proof="by fiat")
    data = queryable([1], ROWS, Budget(epsilon=1, delta="1e-5"))
    data.ask(gaussian, delta=Fraction(1, 10**6))
    assert 0 < data.spent["epsilon"] < 1 and data.spent["delta"] == Fraction(1, 10**6)
    rho = queryable([1], ROWS, Budget(rho=1))
    rho.ask(gaussian)
    assert rho.spent == {"rho": Fraction(1, 200)}


def test_refused_before_the_data_is_touched() -> None:
    touched: list[int] = []
    question = pure(2, function=lambda rows: touched.append(1))
    data = queryable([1], ROWS, Budget(epsilon=1))
    with pytest.raises(BudgetExceeded):
        data.ask(question)
    assert touched == [] and data.spent == {"pure": 0}
    with pytest.raises(UnprovedError):
        data.ask(Measurement(ROWS, len, lambda d: PureDP(TENTH), "claim"))
    with pytest.raises(LedgerError, match="unproved"):
        data.ask(Transformation(ROWS, ROWS, list, lambda d: d, "claim"))
    with pytest.raises(LedgerError, match="unproved"):
        data.ask(InteractiveMeasurement(ROWS, lambda rows: len, lambda d: PureDP(TENTH), "claim"))
    with pytest.raises(LedgerError, match="query must be"):
        data.ask("SELECT 1")  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        data.ask(Step())


def test_a_failure_says_nothing_and_is_paid() -> None:
    def fails(rows: Any) -> Any:
        raise ValueError(f"secret {list(rows)}")

    data = queryable([4711], ROWS, Budget(epsilon=1))
    with pytest.raises(ReleaseFailed) as failure:
        data.ask(pure(TENTH, function=fails))
    assert "4711" not in str(failure.value) and failure.value.__cause__ is None and failure.value.__context__ is None
    assert data.spent == {"pure": TENTH}
    talk = data.spawn(InteractiveMeasurement(ROWS, lambda rows: fails, lambda d: PureDP(TENTH), "fails", proof="by fiat"))
    with pytest.raises(ReleaseFailed):
        talk.ask([4712])


def test_two_threads_and_one_last_half() -> None:
    data = queryable([1], ROWS, Budget(epsilon=Fraction(1, 2)))
    gate, results = threading.Barrier(8), []

    def ask() -> None:
        gate.wait()
        try:
            results.append(data.ask(pure(Fraction(1, 2))).value)
        except BudgetExceeded:
            results.append("refused")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == ["1", *["refused"] * 7]


def test_several_payers_agree_before_any_of_them_pays() -> None:
    """The middle payer can afford one of two questions; pricing is slow, so that without a lock both would pass its check."""
    outer, tight, last = (queryable([1], ROWS, Budget(epsilon=budget)) for budget in (9, 1, 9))
    same = (lambda d: d, lambda d: d)
    joined = join(outer, tight, lambda a, b: [*a, *b], ROWS, stability=same, proof="union of rows")
    joined = join(joined, last, lambda a, b: [*a, *b], ROWS, stability=same, proof="union of rows")

    def slow(distance: Any) -> Event:
        time.sleep(0.03)
        return PureDP(distance)

    question = Measurement(ROWS, len, slow, "slow", proof="by fiat")
    gate, refused = threading.Barrier(2), []

    def ask() -> None:
        gate.wait()
        try:
            joined.ask(question)
        except BudgetExceeded as reason:
            refused.append(reason)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert [q.spent["pure"] for q in (outer, tight, last)] == [1, 1, 1]


def test_answers_carry_their_marks() -> None:
    data = queryable([1, 2, 3], ROWS, Budget(epsilon=2))
    with seeded(1):
        seen = data.ask(count() >> laplace(scale=2))
    assert not seen.private and data.ask(count() >> laplace(scale=2)).private


def test_an_early_stop_leaves_the_rest() -> None:
    data = queryable([1], ROWS, Budget(rho=1))
    for _ in range(40):
        data.ask(concentrated(Fraction(1, 100)))
    assert data.left == {"rho": Fraction(6, 10)}


def test_the_transcript_of_a_scripted_adversary_stays_within_the_budget() -> None:
    """Spec 06, A5.3: an adversary who chooses each question by the last answer, on two neighbouring data sets."""
    from tests.attacks.attack import lower_bound

    def transcript(rows: list[int]) -> tuple[Any, ...]:
        data = queryable(rows, ROWS, Budget(epsilon=1))
        first = data.ask(count() >> laplace(scale=2)).value
        second = data.ask(count() >> laplace(scale=4 if first > 2 else 2)).value
        return (first > 2, second > 2)

    pair = ([1, 1], [1, 1, 1])
    found = lower_bound(*(lambda n, rows=rows: [transcript(rows) for _ in range(n)] for rows in pair), 1200)
    assert 0.3 <= found <= 1


def test_data_are_enforced_once_and_nan_changes_nothing() -> None:
    data = queryable([float("nan"), "x", 5], Space(Rows(Integers(0, 9)), AddRemove()), Budget(epsilon=1))
    assert data.ask(pure(TENTH, Space(Rows(Integers(0, 9)), AddRemove()), lambda rows: int(np.sum(rows)))).value == 5


@pytest.mark.parametrize(
    ("budget", "costs", "component"),
    [
        (Budget(epsilon=1), [Fraction(3, 10), Fraction(1, 2), Fraction(1, 10), Fraction(2, 10), Fraction(6, 10)], "pure"),
        (Budget(rho=1), [Fraction(3, 10), Fraction(1, 2), Fraction(1, 10), Fraction(2, 10), Fraction(6, 10)], "rho"),
    ],
    ids=["epsilon", "rho"],
)
def test_an_account_pays_durably(tmp_path: Path, budget: Budget, costs: list[Fraction], component: str) -> None:
    """The trace of spec 06, A5.6, through a book: what was charged is there for the next process, and the refusal is not."""
    book = f"sqlite:///{tmp_path / 'tacit.db'}"
    make = pure if component == "pure" else concentrated
    with Ledger.open(book) as ledger:
        account = ledger.account("visits", budget)
        parts = list(queryable(range(9), ROWS, account).partition(lambda row: int(row) % 3, keys=[0, 1, 2]).values())
        trace = []
        for which, cost in zip((0, 1, 0, 0, 2), costs, strict=True):
            parts[which].ask(make(cost))
            trace.append(account.spent()[component])
        assert trace == [Fraction(3, 10), Fraction(1, 2), Fraction(1, 2), Fraction(6, 10), Fraction(6, 10)]
        with pytest.raises(BudgetExceeded):
            parts[2].ask(make(Fraction(1, 2)))
    with Ledger.open(book) as again:
        assert again.verify().ok
        account = again.account("visits")
        assert account.spent()[component] == Fraction(6, 10)
        fresh = queryable(range(9), ROWS, account)
        assert fresh.left == {component: Fraction(4, 10)}
        with pytest.raises(BudgetExceeded):
            fresh.ask(make(Fraction(1, 2)))


def test_two_queryables_of_one_account_share_its_budget(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}") as ledger:
        account = ledger.account("visits", Budget(epsilon=1, delta="1e-6"))
        first, second = (queryable(range(9), ROWS, account) for _ in range(2))
        first.ask(pure(Fraction(7, 10)))
        with pytest.raises(BudgetExceeded):
            second.ask(pure(Fraction(4, 10)))
        second.ask(pure(Fraction(3, 10)))
        assert account.left()["epsilon"] == 0
