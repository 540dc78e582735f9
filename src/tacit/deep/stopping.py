"""Stopping at a guarantee: how many steps fit, and runs that pay step by step and may stop at any moment.

A run has a plan. With `stop_at` the plan ends with the last step that fits: how many fit is computed before the first record is read, from
public numbers, by the tightest composition. Such a run is reserved whole. Who stops it earlier, because of what was seen, gets nothing
back, and its price stays that of the plan: privacy-loss distributions price plans that are fixed in advance, and nothing else.

With `reserve="step"` every step is admitted by a filter that is proved for whoever decides after each answer whether to go on. Stopping
early then leaves the rest, in the filter and in the account that pays. Fewer steps fit, as such filters are looser:

>>> from tacit.accounting import Gaussian, Guarantee
>>> from tacit.deep.samplers import PoissonBatches
>>> sampler, target = PoissonBatches(expected_batch=100, size=10_000), Guarantee(epsilon=2, delta=1e-5)
>>> def run(steps):
...     return sampler.event(Gaussian(1.0), steps)
>>> whole, chosen = steps_within(target, run, sampler.adjacency, most=5000), stepwise(target, run, sampler)
>>> whole, chosen.fits, chosen.budget.currency
(1202, 879, 'renyi')

Guarantee
    Statement: everything released by a run under a `Stepwise` filter, stopped at any moment, satisfies the filter's budget, and so
    `target`.
    Conditions: each block of steps was admitted before its records were read; the budget, with the order of a Rényi filter, is fixed in
    advance.
    Proved in: Feldman and Zrnic 2021 (Rényi at a fixed order, and zCDP), Smith and Thakurta 2022 (Gaussian DP); from an order to epsilon by
    Canonne, Kamath and Steinke 2020. The reading so far is the odometer's, valid at all moments at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tacit.accounting import Adjacency, Bound, Event, Guarantee, ParameterError
from tacit.deep.samplers import Allocation, Sampler
from tacit.exact import at_most
from tacit.ledger import Budget, Filter, LedgerError, PriceError, odometer, price

Run = Callable[[int], Event]
#: Rényi orders among which the one of a filter is chosen, before the run begins.
ORDERS = (*range(2, 33), *range(36, 65, 4), *range(72, 257, 8))



def as_guarantee(stop_at: Guarantee | str | float, delta: float | None) -> Guarantee:
    """What `stop_at` says: a guarantee, its text, or an epsilon beside a delta.

    >>> as_guarantee(2, 1e-5)
    Guarantee(epsilon=2, delta=1e-5)
    """
    if isinstance(stop_at, Guarantee | str):
        return Guarantee.of(stop_at).positive()
    if delta is None:
        raise ParameterError("stop_at= is an epsilon: give delta= too, or write stop_at='eps=2, delta=1e-5'")
    return Guarantee(epsilon=stop_at, delta=delta).positive()


def steps_within(target: Guarantee, run: Run, adjacency: Adjacency, most: int) -> int:
    """The most steps, up to `most`, that together cost at most `target`: a plan that is fixed in advance."""
    if target.admits(run(most), adjacency):
        return most
    low, high = 0, 1
    while high < most and target.admits(run(high), adjacency):
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if target.admits(run(middle), adjacency) else (low, middle)
    if low == 0:
        raise ParameterError(f"one step alone costs more than stop_at={target}; add noise, or draw smaller batches")
    return low


@dataclass(frozen=True)
class Stepwise:
    """A filter that admits a run block by block; a block is one step, or what a sampler prices as one."""

    target: Guarantee
    block: int
    event: Event  # of one block
    charge: Mapping[str, Fraction]
    filter: Filter
    adjacency: Adjacency

    @property
    def budget(self) -> Budget:
        """The limit, in the currency of the filter."""
        return self.filter.budget

    @property
    def fits(self) -> int:
        """How many more steps are admitted."""
        left = self.filter.left()
        return self.block * min(int(left[name] // self.charge[name]) for name in left)

    def admits(self) -> bool:
        """Whether the next block is within the target."""
        return self.filter.fits(self.charge)

    def admitted(self) -> Stepwise:
        """After the next block, which must fit."""
        return replace(self, filter=self.filter.admit(self.charge))

    def promise(self) -> Event:
        """What the run guarantees, whenever it is stopped."""
        return self.budget.guarantee.as_event(self.adjacency)

    def reading(self, delta: float) -> Bound:
        """What was lost so far, valid at all moments at once: for people who watch the training."""
        if not self.filter.spent:
            return Bound(0.0, 0.0, "nothing was done")
        found = odometer(self.budget, self.filter.spent, delta)
        return Bound(0.0, found.epsilon, found.method)

    def to_record(self) -> dict[str, Any]:
        """The budget and what was admitted, for a checkpoint."""
        spent = {name: str(value) for name, value in self.filter.spent.items()}
        return {"budget": self.budget.guarantee.to_record(), "spent": spent}

    def resumed(self, record: Mapping[str, Any]) -> Stepwise:
        """With what a checkpoint's run had spent; its budget must be this one."""
        if Guarantee.from_record(record["budget"]) != self.budget.guarantee:
            raise ParameterError("the checkpoint's run had another stop_at, or other noise; a filter goes on under its own budget only")
        spent = {name: Fraction(text) for name, text in record["spent"].items()}
        return replace(self, filter=Filter(self.budget, spent))


def stepwise(target: Guarantee, run: Run, sampler: Sampler) -> Stepwise:
    """The filter for `target` that admits the most steps: chosen before the run, from public numbers alone."""
    block = sampler.steps if isinstance(sampler, Allocation) else 1
    event = run(block)
    found = [
        Stepwise(target, block, event, charge, Filter(budget), sampler.adjacency)
        for budget in _budgets(target)
        if (charge := _charge(event, budget, sampler.adjacency)) is not None
    ]
    best = max(found, key=lambda one: one.fits, default=None)
    if best is None or best.fits == 0:
        raise ParameterError(
            f"no proven filter admits even one step within stop_at={target}; add noise, draw Poisson "
            "batches, or leave out reserve='step'"
        )
    return best


def _budgets(target: Guarantee) -> list[Budget]:
    """Budgets of one currency each, every one of which implies the target."""
    if target.epsilon is None:
        return [Budget(target)]
    if target.pure:
        raise ParameterError("Gaussian noise has no epsilon without a delta; give stop_at='eps=2, delta=1e-5'")
    epsilon, delta = at_most(target.epsilon), at_most(target.delta)
    # A little less than the formulas give, so that what they promise is within the target as the accountant computes it.
    # Epsilon at delta from order a: R + log(1 - 1/a) - log(delta a) / (a - 1)
    costs = {a: (math.log1p(-1 / a) - math.log(delta * a) / (a - 1)) for a in ORDERS}
    renyi = [Budget(renyi={a: (epsilon - cost) * (1 - 1e-6)}) for a, cost in costs.items() if epsilon > cost]
    mu = Budget(mu=target.gaussian_mu * (1 - 1e-9))
    return [budget for budget in (*renyi, mu) if target.admits(budget.guarantee.as_event(Adjacency.ADD_REMOVE), Adjacency.ADD_REMOVE)]


def _charge(event: Event, budget: Budget, adjacency: Adjacency) -> dict[str, Fraction] | None:
    """What a block costs in a budget's currency; None where no bound is known."""
    try:
        found = price(event, list(budget.limits), adjacency)
    except (PriceError, LedgerError):
        return None
    known = {name: amount for name, amount in found.items() if amount is not None and amount > 0}
    return known if set(budget.limits) <= set(known) else None
