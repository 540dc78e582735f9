"""Follow the regularised leader: training without sampling, on running sums of gradients (Kairouz et al. 2021).

theta_(t+1) minimises <s_t, theta> + Delta/2 |theta - theta_1|^2 over the domain, s_t the running sum of noisy gradients; so theta_(t+1) =
theta_1 - s_t / Delta, moved into the domain. What matters is the noise of the sum, not that of a step: hence correlated noise.

>>> import torch
>>> weight = torch.nn.Parameter(torch.zeros(2))
>>> optimizer = FTRL([weight], lr=0.5)
>>> for gradient in ([1.0, 0.0], [1.0, 2.0]):
...     weight.grad = torch.tensor(gradient)
...     optimizer.step()
>>> weight.tolist()
[-1.0, -1.0]

Without a domain, and with or without momentum, this is gradient descent on the same noisy gradients: any other optimiser may stand in
its place, and the noise does not care. The samplers that belong to it are here too: `Passes` and `CyclicPoisson`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from tacit.accounting import Adjacency, Event, Leaf, ParameterError, Repeated, Sampled
from tacit.accounting import Poisson as PoissonScheme
from tacit.deep.samplers import Indices, coins
from tacit.noise import permutation, uniform_integers
from tacit.parameters import Number, count, nonnegative, positive


class Turns:
    """Batches without end, and how many were handed out: the noise of a run refuses to go on when one was skipped."""

    def __init__(self, batches: Iterator[Indices]) -> None:
        self.handed = 0
        self._batches = batches

    def __iter__(self) -> Iterator[Indices]:
        return self

    def __next__(self) -> Indices:
        self.handed += 1
        return next(self._batches)


@dataclass(frozen=True)
class Passes:
    """Passes over the data in one order, drawn once for the run: a record is in one of the `steps` batches of every pass, always the same.

    No amplification is credited, and none is needed: which steps a record takes part in may be known to the attacker. The order must not
    change from pass to pass, or a record could come twice within a few steps and correlated noise would cost more.

    Under add/remove every record draws its place by itself, so that no place depends on which other records are
    there; batches are nearly equal and `size` is only the public number the divisor is made from. Under zero-out
    the number of records is public, and batches are equal.

    >>> from tacit.accounting import Gaussian
    >>> passes = Passes(steps=100, size=60000)
    >>> passes.divisor, passes.event(Gaussian(5), steps=250)
    (Fraction(600, 1), Repeated(event=Gaussian(noise_multiplier=5), count=3))
    """

    steps: int
    size: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    turns: list[Turns] = field(default_factory=list, init=False, repr=False, compare=False)  # those of the last run

    def __post_init__(self) -> None:
        count("steps", self.steps)
        count("size", self.size)
        if self.adjacency is Adjacency.REPLACE_ONE:
            raise ParameterError("adjacency must be ADD_REMOVE or ZERO_OUT; ask account(event, Adjacency.REPLACE_ONE) for replacements")
        if self.adjacency is Adjacency.ZERO_OUT and self.steps > self.size:
            raise ParameterError(f"steps must be at most size ({self.size}), not {self.steps}")

    @property
    def divisor(self) -> Number:
        return Fraction(self.size, self.steps)

    @property
    def epoch(self) -> int:
        return self.steps

    def event(self, step: Event, steps: int) -> Event:
        """Independent steps: each record pays for one step a pass, and a pass that was begun counts."""
        return Repeated(_stated(step, self.adjacency), -(-steps // self.steps))

    def batches(self, records: int) -> Iterator[Indices]:
        if self.adjacency is Adjacency.ZERO_OUT:
            if records != self.size:
                raise ParameterError(f"the data has {records} records, not the size={self.size} declared as public; correct it")
            order = [np.sort(part) for part in np.array_split(permutation(records), self.steps)]
        else:
            order = _by_place(records, self.steps)
        self.turns[:] = [Turns(itertools.cycle(order))]
        return self.turns[0]


@dataclass(frozen=True)
class CyclicPoisson:
    """Poisson sampling in turns: every record draws one of `parts` parts for the run, and step t samples from part t mod `parts` alone.

    A record can take part in every `parts`-th step only, at `parts` times the rate, which is what a banded strategy of correlated noise
    needs to be amplified by sampling (Choquette-Choo et al. 2023).

    >>> from tacit.accounting import Gaussian
    >>> CyclicPoisson(expected_batch=10, size=1000, parts=5).event(Gaussian(1), steps=20)
    Repeated(event=Sampled(scheme=Poisson(rate=Fraction(1, 20)), event=Gaussian(noise_multiplier=1)), count=4)
    """

    expected_batch: int
    size: int
    parts: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    turns: list[Turns] = field(default_factory=list, init=False, repr=False, compare=False)  # those of the last run

    def __post_init__(self) -> None:
        count("size", self.size)
        if count("expected_batch", self.expected_batch) * count("parts", self.parts) > self.size:
            raise ParameterError(f"expected_batch * parts must be at most size ({self.size}), not {self.expected_batch * self.parts}")
        if self.adjacency is Adjacency.REPLACE_ONE:
            raise ParameterError("adjacency must be ADD_REMOVE or ZERO_OUT; ask account(event, Adjacency.REPLACE_ONE) for replacements")

    @property
    def rate(self) -> Fraction:
        """The chance that a record is in a batch of its own part."""
        return Fraction(self.expected_batch * self.parts, self.size)

    @property
    def divisor(self) -> Number:
        return self.expected_batch

    @property
    def epoch(self) -> int:
        return max(1, round(Fraction(self.size, self.expected_batch)))

    def event(self, step: Event, steps: int) -> Event:
        return Repeated(Sampled(PoissonScheme(self.rate), _stated(step, self.adjacency)), -(-steps // self.parts))

    def batches(self, records: int) -> Iterator[Indices]:
        parts = itertools.cycle(_by_place(records, self.parts))
        self.turns[:] = [Turns(part[coins(self.rate, len(part))] for part in parts)]
        return self.turns[0]


def _by_place(records: int, places: int) -> list[Indices]:
    """Every record chooses a place by itself, uniformly; the records of each."""
    place = uniform_integers(places, size=records)
    order = np.argsort(place, kind="stable")
    return np.split(order, np.searchsorted(place[order], np.arange(1, places)))


def _stated(step: Event, relation: Adjacency) -> Event:
    """A sum of clipped contributions moves equally far when a record comes, goes or is exchanged for the null record."""
    return replace(step, adjacency=relation) if isinstance(step, Leaf) and step.adjacency is not Adjacency.REPLACE_ONE else step


class FTRL(Optimizer):
    """theta = centre - lr * (sum of gradients), moved into a ball around the centre if `radius` is given; `lr` is 1 / Delta.

    With `momentum` the sum is of m_t = momentum * m_(t-1) + gradient. `recentre()` begins a new sum at the present parameters, as one
    does when the noise restarts. A scheduler may not change `lr` midway: it scales the whole sum, not one step.
    """

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.0, radius: float | None = None) -> None:
        lr, momentum = float(positive("lr", lr)), float(nonnegative("momentum", momentum))
        if momentum >= 1:
            raise ParameterError(f"momentum must be below 1, not {momentum}")
        if radius is not None:
            radius = float(positive("radius", radius))
        super().__init__(params, {"lr": lr, "momentum": momentum, "radius": radius})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step on the gradients in place; a parameter without one stays."""
        if closure is not None:
            raise ParameterError("closure= would see the batch more than once; call backward() and then step()")
        for group in self.param_groups:
            moved = []
            for parameter in group["params"]:
                if parameter.grad is not None:
                    moved.append((parameter, self._summed(parameter, group["momentum"])))
            shrink = 1.0
            if group["radius"] is not None and moved:
                length = group["lr"] * float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(total) for _, total in moved])))
                shrink = min(1.0, group["radius"] / length) if length > 0 else 1.0
            for parameter, total in moved:
                parameter.copy_(torch.add(self.state[parameter]["centre"], total, alpha=-group["lr"] * shrink))

    def _summed(self, parameter: Tensor, momentum: float) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["centre"] = parameter.detach().clone()
            state["sum"] = torch.zeros_like(parameter)
            if momentum:
                state["momentum"] = torch.zeros_like(parameter)
        gradient = parameter.grad
        assert gradient is not None
        if momentum:
            gradient = state["momentum"].mul_(momentum).add_(gradient)
        total: Tensor = state["sum"].add_(gradient)
        return total

    @torch.no_grad()
    def recentre(self) -> None:
        """Begin a new sum at the present parameters; momentum goes on."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if self.state[parameter]:
                    self.state[parameter]["centre"] = parameter.detach().clone()
                    self.state[parameter]["sum"].zero_()
