"""Cases for sampled mechanisms and private training: the samplers of `tacit.deep` really draw, and one loop really steps.

Many canaries in one run: canary i moves coordinate i alone, by the full clipped length, and sampling and noise are independent from
coordinate to coordinate. So one run of a sampler over n canaries gives n samples of "she was in the data", and coordinates without a canary
give as many of "she was not".

>>> [case.name for case in cases()][:2]
['Poisson sampling', 'Poisson sampling, four steps']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Gaussian
from tacit.audit.selftest.case import Case, promise
from tacit.noise import rounded_gaussian

DELTA = 0.05
GRAIN = 1 << 20  # noise is drawn on a lattice this much finer than one canary


def cases() -> list[Case]:
    """Every sampler, and one step and several of the training loop. Needs torch."""
    from tacit.deep.samplers import Allocation, FullBatch, Poisson

    def case(name: str, sampler: Any, steps: int, noise: float, floor: float, **more: Any) -> Case:
        claim = promise(sampler.event(Gaussian(noise), steps), text=f"{name}, noise {noise:g}")
        return Case(name, claim, released(None, steps, noise), released(sampler, steps, noise), floor, delta=DELTA, trials=60_000, **more)

    def trained(name: str, sampler: Callable[[int], Any], steps: int, noise: float, floor: float) -> Case:
        claim = promise(sampler(4).event(Gaussian(noise), steps), text=f"{name}, noise {noise:g}")
        first, second = (lambda n, inside=inside: stepped(sampler, n, steps, noise, inside) for inside in (False, True))
        return Case(name, claim, first, second, floor, delta=DELTA, trials=8000, why="few canaries fit into one run")

    spread = "the search sees the steps one by one and as a sum, not as the best mixture of them"
    return [
        case("Poisson sampling", Poisson(1, 2), 1, 1.0, 0.6),
        case("Poisson sampling, four steps", Poisson(1, 4), 4, 0.7, 0.5, why=spread),
        case("random allocation, four steps", Allocation(4, 4), 4, 0.7, 0.5, why=spread),
        _fixed_size(),
        trained("training, full batch", FullBatch, 1, 1.0, 0.6),
        trained("training, Poisson", lambda n: Poisson(n // 2, n), 1, 0.4, 0.3),
    ]


def released(sampler: Any, steps: int, noise: float) -> Callable[[int], NDArray[np.float64]]:
    """n canaries' noisy coordinates over the steps; without a sampler nobody is in the data."""

    def sample(n: int) -> NDArray[np.float64]:
        seen = rounded_gaussian(noise * GRAIN, size=(n, steps)) / GRAIN
        if sampler is not None:
            for step, batch in enumerate(islice(sampler.batches(n), steps)):
                seen[batch, step] += 1
        return seen if steps > 1 else seen[:, 0]

    return sample


def _fixed_size() -> Case:
    from tacit.deep.samplers import FixedSize

    sampler, noise = FixedSize(batch=1, size=2), 2.0

    def sample(gradient: int) -> Callable[[int], NDArray[np.float64]]:
        def run(n: int) -> NDArray[np.float64]:
            chosen = np.array([int(batch[0]) for batch in islice(sampler.batches(2), n)])
            return np.asarray(np.where(chosen == 0, gradient, 0) + rounded_gaussian(noise * GRAIN, size=n) / GRAIN)

        return run

    other = "the price covers any other record in the batch; here the other one is zero"
    claim = promise(sampler.event(Gaussian(noise), 1), Adjacency.REPLACE_ONE, text=f"a batch of fixed size, noise {noise:g}")
    return Case("sampling without replacement", claim, sample(-1), sample(1), 0.3, delta=DELTA, trials=40_000, why=other)


def stepped(make: Callable[[int], Any], n: int, steps: int, noise: float, inside: bool) -> NDArray[np.float64]:
    """The gradients that the real loop hands to the optimiser: of coordinates with a canary in the data, or of as many without one."""
    import torch

    from tacit.deep.private import make_private

    class Bank(torch.nn.Module):
        """The output for e_i is the i-th weight, so its gradient is e_i."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2 * n, 1, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(torch.nn.functional.one_hot(x, 2 * n).float())  # type: ignore[no-any-return]

    class Still(torch.optim.Optimizer):
        """Takes gradients and moves nothing. torch's own optimisers load its compiler first, which takes longer than the attack."""

        def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
            super().__init__(parameters, {})

        def add_param_group(self, group: dict[str, Any]) -> None:
            self.param_groups.append({**group, "params": list(group["params"])})

        def step(self, closure: Any = None) -> Any:
            return None

    model, sampler = Bank(), make(n)
    optimizer = Still(model.parameters())
    private = make_private(
        model, optimizer, torch.arange(n), noise_multiplier=noise, clip=1.0, sampler=sampler, steps=steps, loss_reduction="sum",
        physical_batch=500,
    )  # fmt: skip
    seen = []
    while private.remaining():
        for (x,) in private.loader:
            model(x).sum().backward()
            before = private.steps
            optimizer.step()
            if private.steps > before:
                assert model.layer.weight.grad is not None
                seen.append(model.layer.weight.grad[0].double().numpy().copy() * float(sampler.divisor))
    both = np.array(seen).T
    found = both[:n] if inside else both[n:]
    return found if steps > 1 else found[:, 0]
