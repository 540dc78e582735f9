"""Measuring marginals under one budget: a filter is asked before every draw, and every draw is written down.

A method of synthesis decides each step from what it has seen so far, so its steps are admitted by a filter that is
proved for such choices: of mu squared for Gaussian noise alone (`gaussian_budget`), of rho where the exponential
mechanism takes part (`concentrated_budget`). The total is one event, known and paid before the first count; the steps
in `events` add up to at most that. `left` and all prices here are in one unit, one over a noise multiplier squared:
mu squared, or 2 rho.

>>> from tacit.noise import test_mode
>>> from tacit.accounting import Guarantee
>>> whole, event = gaussian_budget(Guarantee(mu=1))
>>> counts = {(0,): np.array([30, 10]), (1,): np.array([5, 35])}
>>> measuring = Measuring((2, 2), counts.__getitem__, whole, max_rows=1)
>>> with test_mode(1):
...     seen = measuring.marginal((0,), sigma=2.0)
>>> round(seen.sigma, 4), measuring.events, round(measuring.left, 6)
(2.0207, [Gaussian(noise_multiplier=2)], 0.75)

Guarantee
    Statement: for a person with at most `max_rows` rows coming or going, everything drawn through one `Measuring`
    costs at most its budget, whatever the steps are and however they were chosen.
    Conditions: `counts` returns exact counts of rows, in which the person moves one cell by at most `max_rows` in L1
    and hence in L2; scores move by at most the stated `moved`.
    Proved in: `tacit.ledger.budget` for the filters; `NoisySums` and `exponential` for the steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import (
    GDP,
    RHO,
    ZCDP,
    Adjacency,
    Event,
    Exponential,
    Guarantee,
    ParameterError,
    zcdp_rho,
)
from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.ledger import Budget, Filter, price
from tacit.mechanisms import NoisySums, exponential
from tacit.parameters import count
from tacit.synthesis.estimate import STEPS, Model, NoisyMarginal, Possible, fit
from tacit.synthesis.junction_tree import Clique

Counts = Callable[[Clique], NDArray[np.int64]]
RELATION = Adjacency.ADD_REMOVE


def gaussian_budget(guarantee: Guarantee) -> tuple[Guarantee, Event]:
    """What a method of Gaussian steps may spend, as mu, and the event that says so.

    >>> round(float(gaussian_budget(Guarantee(epsilon=1, delta=1e-9))[0].mu) ** -1, 4)
    5.4953
    """
    _no_pure(guarantee)
    if guarantee.currency == RHO:
        return guarantee, guarantee.as_event(RELATION)  # Gaussian steps cost the same in rho
    event, mu = guarantee.settle(GDP, RELATION)
    return Guarantee(mu=mu), event


def concentrated_budget(guarantee: Guarantee) -> tuple[Guarantee, Event]:
    """What a method that also selects may spend, as rho, and the event that says so; mu stays mu.

    >>> round(float(concentrated_budget(Guarantee(epsilon=1, delta=1e-9))[0].rho), 10)
    0.0149730577
    """
    _no_pure(guarantee)
    if guarantee.epsilon is None:
        return guarantee, guarantee.as_event(RELATION)
    amounts = guarantee.floats
    rho = zcdp_rho(amounts.epsilon or 0.0, amounts.delta or 0.0)
    while not guarantee.keeps(ZCDP(rho), RELATION):
        rho *= 1 - 1e-12
    return Guarantee(rho=rho), ZCDP(rho)


def _no_pure(guarantee: Guarantee) -> None:
    if guarantee.pure or guarantee.positive().currency == "renyi":
        raise ParameterError(
            "synthesis measures with Gaussian noise, which has no pure epsilon: give a delta well below one over the "
            "number of people, such as 1e-9, or rho or mu"
        )

#: The most cells of tables of counts that are kept: which ones follows from public sizes.
KEPT = 2**22
#: The most cells of all tables that a method looks at together. It holds them at once, some thirty bytes a cell.
LOOKED_AT = 50_000_000


def check_tables(sizes: Sequence[int], ways: int) -> None:
    """Refuse columns whose tables of up to so many columns do not fit into memory, before anything is paid for.

    >>> check_tables([100_000] * 4, 1)
    >>> check_tables([100_000] * 4, 2)
    Traceback (most recent call last):
    tacit.errors.ParameterError: all tables of up to 2 of these columns have 60,000,400,000 cells together, above the cap of 50,000,000; ...
    """
    sums = [1]  # elementary symmetric sums: of all products of so many sizes
    for size in sizes:
        sums = [one + size * before for one, before in zip([*sums, 0], [0, *sums], strict=True)][: ways + 1]
    needed = sum(sums[1:])
    if needed > LOOKED_AT:
        text = f"all tables of up to {ways} of these columns have {needed:,} cells together, above the cap of {LOOKED_AT:,}"
        raise ParameterError(f"{text}; use fewer bins or columns, or the method independent")


def check_sizes(method: object, sizes: Sequence[int]) -> None:
    """Refuse columns of these sizes where the method says that it cannot hold their tables."""
    check = getattr(method, "check", None)
    if check is not None:
        check(sizes)


class Measuring:
    """Draws marginals and selections from exact counts, within a budget."""

    def __init__(
        self, sizes: Sequence[int], counts: Counts, budget: Guarantee, *, max_rows: int = 1,
        possible: Possible | None = None, known: Sequence[NoisyMarginal] = (),
    ) -> None:
        self.sizes = tuple(sizes)
        self.possible = dict(possible or {})  # what rows may be, by declaration
        self.known = tuple(known)  # released before, at another's expense: used by fits, and not measured again
        self.max_rows = count("max_rows", max_rows)
        self.budget = budget
        self.measured: list[NoisyMarginal] = []
        self.events: list[Event] = []
        self._counts = counts
        self._kept: dict[Clique, NDArray[np.int64]] = {}
        self._part = next(iter(budget.limits))
        self._unit = 2 if self._part == RHO else 1
        self._filter = Filter(Budget(budget))

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.sizes)

    @property
    def held(self) -> list[Clique]:
        """What a model must hold: the cliques that were measured or are known, and those of constraints."""
        return [*self.possible, *(one.columns for one in self.seen)]

    @property
    def seen(self) -> list[NoisyMarginal]:
        """All that a model is fitted to: what is known, and what was measured."""
        return [*self.known, *self.measured]

    @property
    def unknown(self) -> list[int]:
        """The columns that no known marginal has."""
        return [column for column in range(self.width) if not any(column in one.columns for one in self.known)]

    @property
    def pairs(self) -> list[Clique]:
        """Every pair of columns that does not lie in a known marginal."""
        every = itertools.combinations(range(self.width), 2)
        return [pair for pair in every if not any(set(pair) <= set(one.columns) for one in self.known)]

    def fit(self, *, steps: int = STEPS, warm: Model | None = None, enough: float = 0.0) -> Model:
        """The model of all that was measured or is known, under the constraints (see `estimate.fit`)."""
        return fit(self.sizes, self.seen, steps=steps, warm=warm, enough=enough, possible=self.possible)

    @property
    def whole(self) -> float:
        """The budget, as one over a squared noise multiplier."""
        return float(self._unit * self.budget.limits[self._part])

    @property
    def left(self) -> float:
        """What is left of it, rounded down."""
        return max(0.0, float(self._unit * self._filter.left()[self._part]) * (1 - 1e-15))

    def sigma_for(self, cost: float) -> float:
        """The noise of a marginal that costs so much, never less than it must be."""
        return self.max_rows / math.sqrt(cost) * (1 + 1e-12)

    def cost_of(self, sigma: float) -> float:
        """What a marginal with this noise costs."""
        return (self.max_rows / sigma) ** 2

    def exact(self, columns: Clique) -> NDArray[np.int64]:
        """The counts themselves: private, for scores that go straight into `choose` or `noisy_scores`.

        Rounds ask for the same tables again, so those of a fair size are kept.
        """
        found = self._kept.get(columns)
        if found is None:
            found = self._counts(columns)
            if sum(table.size for table in self._kept.values()) + found.size <= KEPT:
                self._kept[columns] = found
        return found

    def marginal(self, columns: Clique, sigma: float) -> NoisyMarginal:
        """A marginal with Gaussian noise of deviation `sigma` on each cell."""
        sums = NoisySums.of_scale("gaussian", sigma, moved=self.max_rows, adjacency=RELATION)
        self._pay(sums.event)
        noisy = sums.add(self.exact(columns)).astype(np.float64)
        found = NoisyMarginal(columns, noisy, math.hypot(sums.deviation(), 12**-0.5))
        self.measured.append(found)
        return found

    def noisy_scores(self, scores: NDArray[np.int64], *, moved: int, sigma: float) -> NDArray[np.float64]:
        """All scores with Gaussian noise of deviation `sigma`, where max_rows rows move each by `moved` a row."""
        reach = above_root(len(scores)) * self.max_rows * moved
        sums = NoisySums.of_scale("gaussian", sigma, moved=reach, adjacency=RELATION)
        self._pay(sums.event)
        found: NDArray[np.float64] = sums.add(scores).astype(np.float64)
        return found

    def choose(self, scores: NDArray[np.int64], *, moved: int, epsilon: float) -> int:
        """The exponential mechanism: one of the candidates, where one row moves each score by at most `moved`."""
        distance = moved * self.max_rows
        space = Space(Vectors(Integers(), len(scores)), LInfinity())
        plan = exponential(Fraction(epsilon) / distance).bind(space)
        self._pay(plan.event(distance))
        return int(plan.release(scores, distance).value)

    def selection_cost(self, epsilon: float) -> float:
        """What `choose` costs."""
        return float(self._unit * price(Exponential(Fraction(epsilon)), [self._part], RELATION)[self._part])

    def _pay(self, event: Event) -> None:
        self._filter = self._filter.admit(price(event, [self._part], RELATION))
        self.events.append(event)


def above_root(number: int) -> Fraction:
    """A fraction just above the square root.

    >>> above_root(4), 0 < float(above_root(2) ** 2 - 2) < 1e-9
    (Fraction(2, 1), True)
    """
    scale = 10**12
    root = math.isqrt(number * scale**2)
    return Fraction(root + (root * root != number * scale**2), scale)
