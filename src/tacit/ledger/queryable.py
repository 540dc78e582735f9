"""Queryables: private data that answers questions, hands out parts of itself, and refuses before the data is touched.

A question is a plan. Its privacy map travels up to whoever pays and is evaluated there, at the distance that a change of the payer's data
causes here; no bare epsilon is passed along. Refusals depend on parameters only and change nothing.

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

Parts of a partition cost the largest of their totals where rows are added and removed. Where a row is replaced, it may leave one part and
enter another: the two largest add up, or one part sees a replacement, whichever is more (spec 06, A5.6).
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit import calculus  # the calculus loads its parts when they are first named, and a book of accounts names none
from tacit.accounting import GDP, ZCDP, Adjacency, ApproxDP, Composed, Event, Group, Guarantee, NoOp, PureDP
from tacit.ledger.account import Account
from tacit.ledger.budget import Budget
from tacit.ledger.errors import LedgerError
from tacit.ledger.filters import Filter, refusal
from tacit.ledger.payers import Charge, Child, Part, Partition, Prices, Root, Spread
from tacit.ledger.paying import paying
from tacit.ledger.pricing import price
from tacit.parameters import Number

if TYPE_CHECKING:
    from tacit.calculus import Measurement, Release, Space, Step, Transformation


@dataclass(frozen=True)
class InteractiveMeasurement:
    """A mechanism one talks to: `start(data)` returns a function from question to answer; all answers together cost `privacy(distance)`.

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

    def __init__(self, space: Space, payers: Mapping[Root | Part, Spread], load: Callable[[], Any]) -> None:
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
        """A measurement is paid for and answered; a transformation gives a queryable of what it computes; a conversation is opened.

        `delta` is what a Gaussian question may use of an (epsilon, delta) budget.
        """
        if isinstance(query, InteractiveMeasurement):
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
        return calculus.Release(value, event, plan.adjacency, private=payment.private)

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
        """What a replacement within this part costs, where the question can be bound to that relation and so knows better."""
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
        """Charge everybody who pays, or nobody; then freeze the conversations that must not be interrupted."""
        with contextlib.ExitStack() as held:
            for root in sorted(self._roots(), key=id):
                held.enter_context(root.lock)
            commits: list[Callable[[], None]] = []
            for scope, spread in self._payers.items():
                cost = _priced(scope.root, delta)
                charge = _charge(cost, privacy, spread)
                if isinstance(scope, Part):
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

    def spawn(self, mechanism: InteractiveMeasurement, *, delta: Number | None = None) -> Conversation:
        """Open a conversation. It is paid for now, once; its answers cost nothing more."""
        mechanism.input.accepts(self.space)
        if mechanism.proof is None:
            raise LedgerError(f"{mechanism.name} is unproved; build it with proof='where it is proved'")
        child = Conversation(mechanism, self._load, mechanism.privacy(self._unit()), self.space.metric.adjacency)
        self._pay(mechanism.privacy, delta, child=child)
        return child

    def allot(self, budget: Budget | Guarantee | str) -> Queryable:
        """The same data with a budget of its own, all of which is paid for now: one analyst's share, or one layer of several."""
        budget = Budget.of(budget)
        guarantee = budget.guarantee.as_event()
        root = Root(budget, self.space.metric.adjacency or Adjacency.ADD_REMOVE, 1, self._roots()[0].interleaves)
        self._pay(lambda d: _grouped(guarantee, d), None, child=root)
        return Queryable(self.space, {root: _same}, self._load)

    def sequence(self, losses: Sequence[Event], *, delta: Number | None = None) -> Programme:
        """As many questions as there are losses, each within its own; they were fixed in advance, so they are priced as one plan."""
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
        for key in listed:
            part = Part(made)
            made.parts.append(part)
            found[key] = Queryable(space, {part: _same}, _once(lambda key=key: _select(self._load(), by, key)))  # type: ignore[misc]
        return found


class Conversation(Child):
    """An interactive mechanism at work. Frozen for good once something interrupts it that must not."""

    def __init__(self, mechanism: InteractiveMeasurement, load: Callable[[], Any], event: Event, adjacency: Adjacency | None) -> None:
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


class Programme(Child):
    """Adaptive questions whose losses were fixed and paid in advance."""

    name = "this programme"

    def __init__(self, space: Space, load: Callable[[], Any], losses: tuple[Event, ...]) -> None:
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
    return Queryable(space, {root: _same}, _once(lambda: space.domain.enforce(data)))


def join(
    first: Queryable,
    second: Queryable,
    function: Callable[[Any, Any], Any],
    output: Space,
    *,
    stability: tuple[Spread, Spread],
    proof: str,
) -> Queryable:
    """What is computed from two queryables. Both pay; one that is on both sides pays for the sum of the distances.

    `stability` bounds the change of the output by a change of the first and of the second input alone; a change of both adds them.
    """
    if not proof:
        raise LedgerError("proof is missing: say where the stability of the join is proved")
    payers: dict[Root | Part, Spread] = {scope: _after(spread, stability[0]) for scope, spread in first._payers.items()}
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
    """Computed at the first call and kept, by one thread at a time."""
    kept: list[Any] = []
    lock = threading.Lock()

    def load() -> Any:
        with lock:
            if not kept:
                kept.append(make())
            return kept[0]

    return load


def _select(data: Any, by: Callable[[Any], Hashable] | str, key: Hashable) -> Any:
    """The rows with this key, in order; a row whose key cannot be told is in no part."""
    if isinstance(data, Mapping):
        names = list(data)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*(list(data[name]) for name in names), strict=True)]
        kept = [i for i, row in enumerate(rows) if _key(row, by) == (True, key)]
        return {name: _rows(data[name], kept) for name in names}
    return _rows(data, [i for i, row in enumerate(data) if _key(row, by) == (True, key)])


def _key(row: Any, by: Callable[[Any], Hashable] | str) -> tuple[bool, Any]:
    try:
        return True, row[by] if isinstance(by, str) else by(row)
    except (Exception, SystemExit, GeneratorExit):
        return False, None


def _rows(values: Any, kept: list[int]) -> Any:
    return values[kept] if hasattr(values, "dtype") else [values[i] for i in kept]
