"""Queryables: private data that answers questions and hands out parts of itself under one budget.

A question is a plan. Its privacy map travels up to the payer and is evaluated there, at the distance that a
change of the payer's data causes here; no bare epsilon is passed along. A payer is a budget or a durable
account at the root, or a part of a partition below it. A refusal depends on parameters only, comes before the
data is touched, and changes nothing.

>>> from tacit.accounting import PureDP
>>> from tacit.calculus import AddRemove, Integers, Measurement, Rows, Space
>>> from tacit.ledger import Budget
>>> rows = Space(Rows(Integers()), AddRemove())
>>> costs = lambda epsilon: Measurement(rows, len, lambda d: PureDP(epsilon * d), "demo", proof="by fiat")
>>> data = queryable([3, 1, 4], rows, Budget(epsilon=1))
>>> small, large = data.partition(lambda row: row > 2, keys=[False, True]).values()
>>> for part, epsilon in ((small, Fraction(3, 10)), (large, Fraction(1, 2)), (small, Fraction(1, 10))):
...     _ = part.ask(costs(epsilon))
...     print(data.spent)
{'pure': Fraction(3, 10)}
{'pure': Fraction(1, 2)}
{'pure': Fraction(1, 2)}

Parts of a partition cost the largest of their totals where rows are added and removed. Where a row is
replaced, it may leave one part and enter another: the two largest add up, or one part sees a replacement,
whichever is more (spec 06, A5.6).
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

from tacit import calculus  # the calculus loads its parts when they are first named, and a book of accounts names none
from tacit.accounting import (
    APPROXIMATE,
    GDP,
    MU,
    PURE,
    RENYI,
    RHO,
    ZCDP,
    Adjacency,
    ApproxDP,
    Composed,
    Event,
    Group,
    Guarantee,
    NoOp,
    PureDP,
)
from tacit.ledger.account import Account
from tacit.ledger.booking import price
from tacit.ledger.budget import Budget, Filter, refusal
from tacit.ledger.errors import LedgerError
from tacit.ledger.paying import HomeProcess, paying
from tacit.parameters import Number

if TYPE_CHECKING:
    from tacit.calculus import Measurement, Release, Space, Step, Transformation

Prices = dict[str, Fraction]
Charge = Callable[[int], Prices]
Spread = Callable[[Number], Number]

#: Where it is proved that interleaving interactive mechanisms costs no more than one after the other. That
#: prices may be chosen on the way, as under a filter: Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang 2023.
CONCURRENT = {
    PURE: "Vadhan and Wang 2021",
    APPROXIMATE: "Lyu 2022; Vadhan and Zhang 2023",
    RHO: "Lyu 2022 and Vadhan and Zhang 2023 (Rényi), at every order",
    RENYI: "Lyu 2022 and Vadhan and Zhang 2023 (Rényi), at each listed order",
    MU: "Vadhan and Zhang 2023 (f-DP)",
}


class Frozen(LedgerError):
    """A conversation that may not go on: it was interrupted, and interleaving is not proved for it."""


# --- who pays ---------------------------------------------------------------------------------------------


class Child:
    """Something opened that answers more than one question: a conversation, a programme, or a share of the budget."""

    name: str
    concurrent = True
    frozen = False

    def __init__(self) -> None:
        self._home = HomeProcess()

    def insist_on_unfrozen(self) -> None:
        self._home.insist()
        if self.frozen:
            raise Frozen(
                f"{self.name} was interrupted by a later question, and interleaving is not proved for it; open it again, which costs again"
            )


class Root(Child):
    """Who pays: a budget, the totals so far, and the children that may have to be frozen."""

    name = "this share of the budget"

    def __init__(self, purse: Budget | Guarantee | str | Account, adjacency: Adjacency, distance: int, concurrent: bool) -> None:
        super().__init__()
        self.account = purse if isinstance(purse, Account) else None
        self.budget = purse.budget if isinstance(purse, Account) else Budget.of(purse)
        self.filter = Filter(self.budget)
        self.adjacency = adjacency
        self.distance = distance
        self.interleaves = concurrent and self.budget.currency in CONCURRENT
        self.lock = threading.RLock()
        self.uninterrupted: list[Child] = []

    @property
    def root(self) -> Root:
        return self

    @property
    def distances(self) -> Sequence[int]:
        return (self.distance,)

    @property
    def left(self) -> Prices:
        """What may still be spent: of the account and all above it, or of the budget."""
        return self.filter.left() if self.account is None else self.account.left()

    def plan(self, charge: Charge) -> list[Callable[[], None]]:
        """What to do once every payer agrees; `BudgetExceeded` where this one does not."""
        self.insist_on_unfrozen()
        asked = charge(self.distance)
        left = self.left
        if any(value > left[name] for name, value in asked.items()):
            raise refusal("this queryable", self.budget, left, asked)

        def commit() -> None:
            if self.account is None:
                self.filter = self.filter.admit(asked)
                return
            if any(asked.values()):
                # Durable before the data is touched; another process may have been faster, and then this refuses.
                # stored as it always was: a charge to an account with delta states its delta, also where that is 0
                stated = ApproxDP(asked["epsilon"], asked["delta"]) if "delta" in asked else Guarantee.of_parts(asked).as_event()
                self.account.spend(stated, delta=asked.get("delta"), purpose="a question to a queryable")
            self.filter = Filter(self.budget, _sum(dict(self.filter.spent), asked))

        return [commit]


class PartitionPart:
    """One part of a partition: its totals at every distance that a change above can cause here."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.totals: dict[int, Prices] = {}
        self.replaced: Prices = {}

    @property
    def root(self) -> Root:
        return self.partition.scope.root

    @property
    def distances(self) -> Sequence[int]:
        return range(1, self.partition.most + 1)

    def plan(self, charge: Charge, in_place: Prices | None = None) -> list[Callable[[], None]]:
        totals = {d: _sum(self.totals.get(d, {}), charge(d)) for d in self.distances}
        # a row replaced within the part is one removed and one added, unless the question has a price of its own for it
        replaced = _sum(self.replaced, in_place if in_place is not None or 2 not in totals else charge(2))
        before = self.partition.total
        after = self.partition.with_changed(self, totals, replaced)
        above = self.partition.scope.plan(lambda d: _difference(after(d), before(d)))

        def commit() -> None:
            self.totals, self.replaced = totals, replaced

        return [*above, commit]


class Partition:
    """Disjoint parts below one node, and what they cost together at each distance of the scope above."""

    def __init__(self, scope: Root | PartitionPart, spread: Spread, replacing: bool) -> None:
        self.scope, self.spread, self.replacing = scope, spread, replacing
        farthest = max(self._changes(d) for d in scope.distances)
        self.most = 2 * farthest if replacing else farthest
        self.parts: list[PartitionPart] = []

    def _changes(self, distance: int) -> int:
        return math.floor(self.spread(distance))

    def total(self, distance: int) -> Prices:
        return self._worst([part.totals for part in self.parts], [part.replaced for part in self.parts], self._changes(distance))

    def with_changed(self, changed: PartitionPart, totals: dict[int, Prices], replaced: Prices) -> Charge:
        """The totals as they would be after a charge."""
        tables = [totals if part is changed else part.totals for part in self.parts]
        exchanged = [replaced if part is changed else part.replaced for part in self.parts]
        return lambda distance: self._worst(tables, exchanged, self._changes(distance))

    def _worst(self, tables: list[dict[int, Prices]], replaced: list[Prices], changes: int) -> Prices:
        names = list(self.scope.root.filter.budget.limits)
        return {name: self._worst_of(name, tables, replaced, changes) for name in names}

    def _worst_of(self, name: str, tables: list[dict[int, Prices]], replaced: list[Prices], changes: int) -> Fraction:
        none = Fraction(0)
        if changes == 0:
            return none
        if not self.replacing and changes == 1:
            return max((table.get(1, {}).get(name, none) for table in tables), default=none)
        if self.replacing and changes == 1:
            moved = sorted((table.get(1, {}).get(name, none) for table in tables), reverse=True)[:2]
            return max(sum(moved, none), max((prices.get(name, none) for prices in replaced), default=none))
        # rows added and removed, spread over the parts as badly as can be
        reach = 2 * changes if self.replacing else changes
        best = [none] * (reach + 1)
        for table in tables:
            costs = [none, *(table.get(d, {}).get(name, none) for d in range(1, reach + 1))]
            best = [max(best[j - d] + costs[d] for d in range(j + 1)) for j in range(reach + 1)]
        return best[reach]


def _sum(first: Prices, second: Prices | None) -> Prices:
    return {name: first.get(name, Fraction(0)) + (second or {}).get(name, Fraction(0)) for name in {**first, **(second or {})}}


def _difference(first: Prices, second: Prices) -> Prices:
    return {name: value - second.get(name, Fraction(0)) for name, value in first.items()}


# --- who asks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InteractiveMeasurement:
    """A mechanism that answers a series of questions; all answers together cost `privacy(distance)`.

    `start(data)` returns a function from question to answer.

    `concurrent=False` marks a guarantee that was shown only for conversations which nothing interrupts.
    """

    input: Space
    start: Callable[[Any], Callable[[Any], Any]] = field(compare=False, repr=False)
    privacy: Callable[[Number], Event] = field(compare=False, repr=False)
    name: str
    proof: str | None = None
    concurrent: bool = True


class Queryable:
    """Private data, or something computed from it, that can be asked. Made by `queryable`; safe to share between threads."""

    def __init__(self, space: Space, payers: Mapping[Root | PartitionPart, Spread], load: Callable[[], Any]) -> None:
        self.space = space
        self._payers = dict(payers)
        self._load = load

    @property
    def spent(self) -> Prices:
        """What was paid at the root through this queryable so far, in the components of its budget."""
        root = next(iter(self._roots()))
        return {name: root.filter.spent.get(name, Fraction(0)) for name in root.budget.limits}

    @property
    def left(self) -> Prices:
        """What may still be spent at the root."""
        return next(iter(self._roots())).left

    def ask(self, query: Step | InteractiveMeasurement, *, delta: Number | None = None) -> Any:
        """Put a question.

        A measurement is paid for and answered, a transformation gives a queryable of its output, and an
        interactive measurement opens a conversation.
        `delta` is what a Gaussian question may use of an (epsilon, delta) budget.
        """
        if isinstance(query, InteractiveMeasurement) or _converses(query, self.space):
            return self.spawn(query, delta=delta)
        if not isinstance(query, calculus.Step):
            raise LedgerError(f"query must be a step, a plan or an InteractiveMeasurement, not {type(query).__name__}")
        plan = query.bind(self.space)
        if isinstance(plan, calculus.Transformation):
            return self._derive(plan)
        plan.insist_on_proof()
        self._pay(plan.privacy, delta, in_place=self._in_place(query, plan))
        event = plan.event(self._unit())
        with paying(None, event) as payment:  # the payers above booked it
            value = plan.function(self._load())
        if callable(getattr(value, "ask", None)):  # a bound plan that goes on answering is a conversation too
            value = Answering(plan.name, value)
            self._watch(value)
        return calculus.Release(value, event, plan.adjacency, private=payment.private)

    def _watch(self, child: Child) -> None:
        """Freeze a child when something interrupts it, wherever interleaving is not proved."""
        for root in self._roots():
            with root.lock:
                if not (child.concurrent and root.interleaves):
                    root.uninterrupted.append(child)

    def _unit(self) -> Number:
        scope, spread = next(iter(self._payers.items()))
        return spread(scope.distances[0])

    def _derive(self, step: Transformation) -> Queryable:
        if step.unproved:
            raise LedgerError(
                f"{step.name} rests on unproved claims ({', '.join(step.unproved)}); build it with proof='where it is proved'"
            )
        payers = {scope: _after(spread, step.map) for scope, spread in self._payers.items()}
        return Queryable(step.output, payers, _once(lambda: step.function(self._load())))

    def _in_place(self, query: Step, plan: Measurement) -> Callable[[], Event] | None:
        """What a replacement within this part costs, where the question has a price of its own for it."""
        if not isinstance(self.space.metric, calculus.AddRemove) or isinstance(query, (calculus.Measurement, calculus.Transformation)):
            return None
        try:
            replacing = query.bind(calculus.Space(self.space.domain, calculus.ReplaceOne()))
        except calculus.CalculusError:
            return None
        return (lambda: replacing.privacy(1)) if isinstance(replacing, calculus.Measurement) and not replacing.unproved else None

    def _roots(self) -> list[Root]:
        return list(dict.fromkeys(scope.root for scope in self._payers))

    def _pay(
        self,
        privacy: Callable[[Number], Event],
        delta: Number | None,
        *,
        in_place: Callable[[], Event] | None = None,
        child: Child | None = None,
    ) -> None:
        """Charge all payers, or none if one refuses; then freeze what must not be interrupted."""
        with contextlib.ExitStack() as held:
            for root in sorted(self._roots(), key=id):
                held.enter_context(root.lock)
            commits: list[Callable[[], None]] = []
            for scope, spread in self._payers.items():
                cost = _priced(scope.root, delta)
                charge = _charge(cost, privacy, spread)
                if isinstance(scope, PartitionPart):
                    # only a question put to the part itself was bound to the part's own rows
                    own = in_place is not None and spread is _same and scope.partition.replacing
                    commits += scope.plan(charge, cost(in_place()) if own and in_place is not None else None)
                else:
                    commits += scope.plan(charge)
            for commit in commits:
                commit()
            for root in self._roots():
                for older in root.uninterrupted:
                    older.frozen = True
                root.uninterrupted = []
                if child is not None and not (child.concurrent and root.interleaves):
                    root.uninterrupted.append(child)

    def spawn(self, mechanism: InteractiveMeasurement | Conversing | Step, *, delta: Number | None = None) -> Conversation:
        """Open a conversation. It is paid for now, once; its answers cost nothing more.

        `mechanism` is an `InteractiveMeasurement`, or a mechanism that answers question after question, such as `above_threshold`: that
        has `interactive(space)`, which says what it costs and whether it may be interleaved with others.
        """
        if not isinstance(mechanism, InteractiveMeasurement):
            made = mechanism.interactive(self.space) if _converses(mechanism, self.space) else None
            if not isinstance(made, InteractiveMeasurement):
                raise LedgerError("this answers once; put it to ask(), and open what answers question after question with spawn()")
            mechanism = made
        mechanism.input.accepts(self.space)
        if mechanism.proof is None:
            raise LedgerError(f"{mechanism.name} is unproved; build it with proof='where it is proved'")
        child = Conversation(mechanism, self._load, mechanism.privacy(self._unit()), self.space.metric.adjacency)
        self._pay(mechanism.privacy, delta, child=child)
        return child

    def allot(self, budget: Budget | Guarantee | str) -> Queryable:
        """The same data with a budget of its own, such as an analyst's share; all of it is paid now."""
        budget = Budget.of(budget)
        guarantee = budget.guarantee.as_event()
        root = Root(budget, self.space.metric.adjacency or Adjacency.ADD_REMOVE, 1, self._roots()[0].interleaves)
        self._pay(lambda d: _grouped(guarantee, d), None, child=root)
        return Queryable(self.space, {root: _same}, self._load)

    def sequence(self, losses: Sequence[Event], *, delta: Number | None = None) -> Programme:
        """One question for each loss. The losses are fixed in advance, so they are priced as one plan."""
        if not losses:
            raise LedgerError("losses is empty; state what each question may cost, such as [PureDP(0.1)] * 10")
        for loss in losses:
            _measure(loss)
        programme = Programme(self.space, self._load, tuple(losses))
        self._pay(lambda d: _grouped(Composed(*losses), d), delta, child=programme)
        return programme

    def partition(self, by: Callable[[Any], Hashable] | str, keys: Iterable[Hashable]) -> dict[Hashable, Queryable]:
        """Disjoint parts, one for each public key, empty or not; rows with another key are in none of them."""
        listed = list(keys)
        if len(set(listed)) != len(listed):
            raise LedgerError("keys lists a key twice; the parts of a partition are disjoint")
        relations = (calculus.AddRemove, calculus.ReplaceOne, calculus.Hamming)
        if not isinstance(self.space.domain, calculus.Rows) or not isinstance(self.space.metric, relations):
            raise LedgerError(
                f"a partition needs rows under AddRemove(), ReplaceOne() or Hamming(), not {self.space.metric}: cap rows first"
            )
        if len(self._payers) > 1:
            raise LedgerError("what was joined from two private sources cannot be partitioned; partition one of them before the join")
        scope, spread = next(iter(self._payers.items()))
        made = Partition(scope, spread, replacing=not isinstance(self.space.metric, calculus.AddRemove))
        space = calculus.Space(calculus.Rows(self.space.domain.element), calculus.AddRemove())
        found: dict[Hashable, Queryable] = {}
        # one split for all parts: a function that draws lots for a row must not draw again for each part
        split = _once(lambda: _split(self._load(), by, listed))
        for key in listed:
            part = PartitionPart(made)
            made.parts.append(part)
            found[key] = Queryable(space, {part: _same}, _part_of(split, len(found)))
        return found


@runtime_checkable
class Conversing(Protocol):
    """A mechanism that answers question after question, before it is bound to data."""

    def interactive(self, space: Space) -> InteractiveMeasurement | None:
        """What is opened on data of this space; None where it gives all answers at once."""


def _converses(query: object, space: Space) -> TypeGuard[Conversing]:
    return isinstance(query, Conversing) and query.interactive(space) is not None


class Conversation(Child):
    """An interactive mechanism at work. It is frozen for good once something interrupts it that must not."""

    def __init__(self, mechanism: InteractiveMeasurement, load: Callable[[], Any], event: Event, adjacency: Adjacency | None) -> None:
        super().__init__()
        self.name, self.event, self.concurrent = mechanism.name, event, mechanism.concurrent
        self._adjacency = adjacency
        self._talk = _once(lambda: mechanism.start(load()))
        self._lock = threading.Lock()

    def ask(self, query: Any) -> Release:
        """The next answer; it was paid for when the conversation was opened."""
        with self._lock:
            self.insist_on_unfrozen()
            with paying(None, self.event) as payment:
                value = self._talk()(query)
            return calculus.Release(value, self.event, self._adjacency, private=payment.private)


class Answering(Child):
    """What a bound plan returned that answers further questions, such as those of the sparse vector: frozen as a conversation is."""

    def __init__(self, name: str, inner: Any) -> None:
        super().__init__()
        self.name, self._inner, self._lock = name, inner, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ask(self, question: Any) -> Any:
        """The next answer; it was paid for already."""
        with self._lock:
            self.insist_on_unfrozen()
            return self._inner.ask(question)


class Programme(Child):
    """Adaptive questions whose losses were fixed and paid in advance."""

    name = "this programme"

    def __init__(self, space: Space, load: Callable[[], Any], losses: tuple[Event, ...]) -> None:
        super().__init__()
        self.space, self.losses = space, losses
        self._load, self._next, self._lock = load, 0, threading.Lock()

    @property
    def left(self) -> tuple[Event, ...]:
        """The losses not used yet."""
        return self.losses[self._next :]

    def ask(self, query: Step) -> Release:
        """The next question; refused, and not counted, where it costs more than its loss."""
        plan = query.bind(self.space)
        if not isinstance(plan, calculus.Measurement):
            raise LedgerError("a programme answers measurements; put the transformation into the question")
        plan.insist_on_proof()
        event = plan.event(1)
        with self._lock:
            self.insist_on_unfrozen()
            if self._next == len(self.losses):
                raise LedgerError(f"all {len(self.losses)} questions of this programme were asked")
            loss = self.losses[self._next]
            limit, adjacency = _measure(loss), self.space.metric.adjacency or Adjacency.ADD_REMOVE
            delta = limit.limits.get("delta") or None
            asked = price(event, list(limit.limits), adjacency, delta=delta)
            if not Filter(limit).fits(asked):
                raise refusal(f"question {self._next + 1} of this programme", limit, limit.limits, asked)
            self._next += 1
        with paying(None, event) as payment:
            value = plan.function(self._load())
        return calculus.Release(value, event, plan.adjacency, private=payment.private)


def queryable(
    data: Any, space: Space, budget: Budget | Guarantee | str | Account, *, distance: int = 1, concurrent: bool = True
) -> Queryable:
    """Private data under a budget that holds for inputs `distance` apart. With `concurrent=False` conversations are never interleaved.

    Given an account of a ledger instead of a budget, every charge is booked there, durably, before the data is touched.
    """
    root = Root(budget, space.metric.adjacency or Adjacency.ADD_REMOVE, distance, concurrent)
    return Queryable(space, {root: _same}, _once(lambda: space.domain.enforce(space.metric.counted(space.domain, data))))


def join(
    first: Queryable,
    second: Queryable,
    function: Callable[[Any, Any], Any],
    output: Space,
    *,
    stability: tuple[Spread, Spread],
    proof: str,
) -> Queryable:
    """What is computed from two queryables. Both pay; a payer on both sides pays for the sum of distances.

    `stability` bounds the change of the output by a change of the first and of the second input alone; a change of both adds them.
    """
    if not proof:
        raise LedgerError("proof is missing: say where the stability of the join is proved")
    payers: dict[Root | PartitionPart, Spread] = {scope: _after(spread, stability[0]) for scope, spread in first._payers.items()}
    for scope, spread in second._payers.items():
        mine = _after(spread, stability[1])
        payers[scope] = _both(payers[scope], mine) if scope in payers else mine
    roots = [scope.root for scope in payers]
    if len(set(roots)) < len(roots):
        raise LedgerError("parts of one partition, or a part and its whole, cannot be joined: join first and partition then")
    return Queryable(output, payers, _once(lambda: function(first._load(), second._load())))


def _measure(loss: Event) -> Budget:
    """The limit that one loss of a programme sets."""
    match loss:
        case PureDP():
            return Budget(epsilon=loss.epsilon)
        case ApproxDP():
            return Budget(epsilon=loss.epsilon, delta=loss.delta)
        case ZCDP():
            return Budget(rho=loss.rho)
        case GDP():
            return Budget(mu=loss.mu)
    raise LedgerError(f"a loss is stated as PureDP, ApproxDP, ZCDP or GDP, not as {type(loss).__name__}")


def _grouped(event: Event, distance: Number) -> Event:
    size = math.floor(distance)
    return NoOp() if size == 0 else event if size == 1 else Group(event, size)


def _priced(root: Root, delta: Number | None) -> Callable[[Event], Prices]:
    components = list(root.budget.limits)
    share = None if delta is None else Fraction(delta)
    return lambda event: price(calculus.restate(event, root.adjacency), components, root.adjacency, delta=share)


def _charge(cost: Callable[[Event], Prices], privacy: Callable[[Number], Event], spread: Spread) -> Charge:
    return lambda distance: cost(privacy(spread(distance)))


def _same(distance: Number) -> Number:
    return distance


def _after(first: Spread, second: Spread) -> Spread:
    return lambda distance: second(first(distance))


def _both(first: Spread, second: Spread) -> Spread:
    return lambda distance: first(distance) + second(distance)


def _once(make: Callable[[], Any]) -> Callable[[], Any]:
    """A function that computes its value at the first call and keeps it; one thread at a time."""
    kept: list[Any] = []
    lock = threading.Lock()

    def load() -> Any:
        with lock:
            if not kept:
                kept.append(make())
            return kept[0]

    return load


def _part_of(split: Callable[[], list[Any]], place: int) -> Callable[[], Any]:
    return lambda: split()[place]


def _split(data: Any, by: Callable[[Any], Hashable] | str, keys: list[Hashable]) -> list[Any]:
    """The rows of each key, in order, every row in one part at most: its key is computed once, and found once."""
    names = list(data) if isinstance(data, Mapping) else []
    columns = [calculus.listed(data[name]) for name in names]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else calculus.listed(data)
    known = {key: place for place, key in enumerate(keys)}
    kept: list[list[int]] = [[] for _ in keys]
    for i, row in enumerate(rows):
        place = _place(row, by, known)
        if place is not None:
            kept[place].append(i)
    if names:
        return [{name: _rows(data[name], part) for name in names} for part in kept]
    return [_rows(data, part) for part in kept]


def _place(row: Any, by: Callable[[Any], Hashable] | str, known: dict[Hashable, int]) -> int | None:
    """The part that a row is in. A row whose key cannot be computed or looked up is silently in none."""
    try:
        found = row[by] if isinstance(by, str) else by(row)
        return None if _nested(found) else known.get(found)
    except (Exception, SystemExit, GeneratorExit):
        return None


def _nested(key: object) -> bool:
    """Whether tuples in tuples go so deep that Python's hash of them would end the process."""
    level = [key]
    for _ in range(50):
        level = [inner for one in level if isinstance(one, (tuple, frozenset)) for inner in one]
        if not level:
            return False
    return True


def _rows(values: Any, kept: list[int]) -> Any:
    return values[kept] if hasattr(values, "dtype") else [values[i] for i in kept]
