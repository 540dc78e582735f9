"""Whole cohorts at once: the rounds of a plan on made-up or central data, without messages.

A cohort's updates come as one matrix, made by a function of the user's or by `batched_sgd` from a PyTorch model. Clipping,
lattice and sum are those of the clients and the server, row by row the same numbers, so that a simulation, the grid and
real nodes have equal sums where training is equal. Memory is a batch of rows, however many clients there are.

>>> import numpy as np
>>> from tacit.federated.plan import plan
>>> made = plan(clients=1000, size=2, clip=1.0, rounds=3, epsilon=8, delta=1e-6)
>>> towards = lambda weights, ids: np.tile(np.array([1.0, 2.0]) - weights, (len(ids), 1)) * 0.5
>>> run = simulate(made, np.zeros(2), towards)
>>> bool(np.abs(run.weights - [0.875, 1.7]).max() < 0.2), len(run.norms_within)
(True, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated import central
from tacit.federated.device import composed
from tacit.federated.plan import FederatedPlan
from tacit.federated.selection import CheckIns
from tacit.federated.sums import CentralSum, mean_of
from tacit.ledger import Account, paying
from tacit.parameters import count

Floats = NDArray[np.float64]
#: Updates of some clients, a row each, from the flat weights and the clients' numbers; or (updates, examples).
Cohort = Callable[[Floats, NDArray[np.int64]], Any]
NUMBERS = 2_500_000  # of updates in memory at once, shared by as many clients as fit: fewer make many small calls
FEWEST, MOST = 32, 4000  # clients in memory at once, whatever the model's size
BLOCK = 32  # of these, how many are clipped and added up together


@dataclass
class SimulatedRun:
    """What a simulation gives. `totals` are exact sums in granules (modulo 2^bits under distributed trust)."""

    weights: Floats
    plan: FederatedPlan
    thresholds: list[float] = field(default_factory=list)
    norms_within: list[float] = field(default_factory=list)
    totals: list[NDArray[Any]] = field(default_factory=list)
    figures: list[Any] = field(default_factory=list)


def simulate(
    plan: FederatedPlan, start: NDArray[Any], cohort: Cohort, *, account: Account | None = None, batch: int | None = None,
    population: int | None = None, server: Callable[[Floats, Floats, int], Floats] | None = None,
    evaluate: Callable[[Floats, int], Any] | None = None, run: str = "simulated", keep_totals: bool = False,
) -> SimulatedRun:
    """Run a plan on clients numbered 0, 1, ...; `server(weights, mean, turn)` steps, by default weights + mean.

    `population` is how many clients there are, by default those of the plan's rule; `batch` how many of them are in memory
    at once, by default as many as 2.5 million numbers are. With an account the plan is paid for: central data are
    a person's data too.
    """
    weights = np.array(start, dtype=np.float64).ravel()
    batch = min(MOST, max(FEWEST, NUMBERS // max(plan.size, 1))) if batch is None else batch
    if len(weights) != plan.size:
        raise ParameterError(f"the model has {len(weights)} numbers, and the plan was made for {plan.size}")
    people = count("population", population or getattr(plan.selection, "population", 0) or plan.clients)
    made = SimulatedRun(weights, plan)
    threshold = plan.clip
    correlated: Any = None
    slots = np.zeros(0, dtype=np.int64)
    payment = paying(account, plan.event, purpose=plan.name, run=run, delta=plan.delta).open()
    for turn in range(1, plan.rounds + 1):
        with payment.touching():
            ids = np.array(plan.selection.cohort(range(people), turn), dtype=np.int64)
            if isinstance(plan.selection, CheckIns):  # every client draws one round of each block
                _, place = plan.selection.place(turn)
                slots = plan.selection.slots_of(people) if place == 1 else slots
                ids = ids[slots[ids] == place]
            if plan.trust == "distributed":
                noisy, total = _shared(plan, weights, cohort, ids, threshold, batch, run, turn)
            else:
                summed = CentralSum(plan, threshold)
                for rows in _batches(cohort, weights, ids, batch, plan):
                    summed.total[:] += (local_sum if plan.trust == "local" else lattice_sum)(plan, *rows, threshold)
                total = summed.total.copy()
                if plan.strategy is not None:
                    from tacit.federated.correlated import CorrelatedSums

                    correlated = correlated or CorrelatedSums(plan)
                    noisy = correlated.noisy(summed)
                else:
                    noisy = summed.noisy()
            if keep_totals:
                made.totals.append(total)
            found = mean_of(plan, noisy, threshold)
            made.thresholds.append(threshold)
            if plan.adaptive is not None and found.within is not None:
                made.norms_within.append(found.within)
                threshold = plan.adaptive.next(threshold, found.within)
            weights = weights + found.update if server is None else server(weights, found.update, turn)
        if evaluate is not None:
            made.figures.append(evaluate(weights, turn))
    payment.commit()
    made.weights = weights
    return made


def _batches(
    cohort: Cohort, weights: Floats, ids: NDArray[np.int64], batch: int, plan: FederatedPlan
) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    for begin in range(0, len(ids), count("batch", batch)):
        part = ids[begin : begin + batch]
        found = cohort(weights, part)
        updates, examples = found if isinstance(found, tuple) else (found, np.zeros(len(part), dtype=np.int64))
        updates = np.asarray(updates)
        if updates.shape != (len(part), plan.size):
            raise ParameterError(f"a cohort of {len(part)} clients gives as many rows of {plan.size} numbers")
        yield updates, np.asarray(examples)


def lattice_sum(plan: FederatedPlan, updates: NDArray[Any], examples: NDArray[np.int64], threshold: float) -> NDArray[np.int64]:
    """The sum in granules of what these clients would send under central trust, row by row the same numbers."""
    total = np.zeros(plan.length, dtype=np.int64)
    if plan.adaptive is not None or plan.weight_cap is not None:
        for update, number in zip(updates, examples, strict=True):
            total += central.to_lattice(composed(plan, update, int(number), threshold), plan.radius(threshold))
        return total
    if len(updates) > BLOCK:  # a block stays in the processor's cache
        for begin in range(0, len(updates), BLOCK):
            part = slice(begin, begin + BLOCK)
            total += lattice_sum(plan, updates[part], examples[part], threshold)
        return total
    rows = central.tamed(np.array(updates, dtype=np.float64))
    radius = plan.radius(threshold)  # the threshold: there is nothing in the vector but the update
    for row in rows:  # in place, by the same operations in the same order as on a device
        length = central.norm(row)
        if length > threshold:
            central.shorten(row, length, threshold)
            # A device clips the update and then its vector: a norm that was rounded up is shortened again.
            length = central.norm(row)
            if length > radius:
                central.shorten(row, length, radius)
    rows *= central.CLIP * central.SLACK / radius
    np.trunc(rows, out=rows)
    # Whole numbers of at most 2^30, a few dozen of them, add up exactly in double precision.
    total[:] = rows.sum(axis=0).astype(np.int64)
    return total


def local_sum(plan: FederatedPlan, updates: NDArray[Any], examples: NDArray[np.int64], threshold: float) -> NDArray[np.int64]:
    """The sum of what these clients would send under local trust, each with noise of its own."""
    total, radius = np.zeros(plan.length, dtype=np.int64), plan.radius(threshold)
    for update, number in zip(updates, examples, strict=True):
        sent = central.to_lattice(composed(plan, update, int(number), threshold), radius)
        total += central.randomised(sent, plan.noise_multiplier, radius)
    return total


def _shared(
    plan: FederatedPlan, weights: Floats, cohort: Cohort, ids: NDArray[np.int64], threshold: float, batch: int, run: str,
    turn: int,
) -> tuple[Floats, NDArray[Any]]:
    """A round under distributed trust: every client's own encoding and noise, added modulo 2^bits without masks."""
    from tacit.federated.distributed import encoding_of, seed_of

    encoding, seed = encoding_of(plan, threshold), seed_of(plan, run, turn)
    total = np.zeros(encoding.dimension, dtype=np.uint64)
    for updates, examples in _batches(cohort, weights, ids[: plan.clients], batch, plan):
        for update, number in zip(updates, examples, strict=True):
            total += encoding.encode(composed(plan, update, int(number), threshold), seed)
    total &= np.uint64((1 << int(encoding.bits or 0)) - 1)
    return encoding.decode(total, seed), total


def batched_sgd(
    model: Any, loss: Callable[[Any, Any], Any], data: Callable[[NDArray[np.int64]], tuple[Any, Any]], *, steps: int,
    rate: float,
) -> tuple[Floats, Cohort]:
    """The flat weights of a PyTorch model, and a cohort that trains copies of it, one for each client, in one batch.

    `data(ids)` gives examples and labels with a first axis over clients; every client takes `steps` steps of gradient
    descent on all of its examples at the given rate.

    >>> import torch
    >>> line = torch.nn.Linear(1, 1)
    >>> data = lambda ids: (torch.ones(len(ids), 4, 1), torch.ones(len(ids), 4, 1))
    >>> start, cohort = batched_sgd(line, torch.nn.functional.mse_loss, data, steps=2, rate=0.1)
    >>> cohort(start, np.arange(3)).shape
    (3, 2)
    """
    import torch
    from torch.func import functional_call, grad, vmap

    names = [name for name, _ in model.named_parameters()]
    shapes = [tuple(parameter.shape) for _, parameter in model.named_parameters()]
    sizes = [int(np.prod(shape)) for shape in shapes]
    kind = next(model.parameters()).dtype
    turns = count("steps", steps)

    def loss_of(held: dict[str, Any], x: Any, y: Any) -> Any:
        return loss(functional_call(model, held, (x,)), y)

    gradients = vmap(grad(loss_of), in_dims=(0, 0, 0))
    # In the first step all clients have one model, so that their inputs go through it in one large product.
    first = vmap(grad(loss_of), in_dims=(None, 0, 0))

    def cohort(weights: Floats, ids: NDArray[np.int64]) -> NDArray[Any]:
        x, y = data(ids)
        parts = torch.split(torch.from_numpy(np.asarray(weights)).to(kind), sizes)
        begin = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        moved = torch.empty(len(ids), sum(sizes), dtype=kind)
        with torch.no_grad():
            steep = first(begin, x, y)
            held = {name: torch.sub(begin[name], steep[name], alpha=rate) for name in names}
            for _ in range(turns - 1):
                steep = gradients(held, x, y)
                for name in names:
                    held[name].sub_(steep[name], alpha=rate)
            for name, room in zip(names, torch.split(moved, sizes, dim=1), strict=True):
                torch.sub(held[name].reshape(len(ids), -1), begin[name].reshape(-1), out=room)
        found: NDArray[Any] = moved.numpy()
        return found

    with torch.no_grad():
        start = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]).numpy().astype(np.float64)
    return start, cohort
