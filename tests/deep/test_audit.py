"""Private training attacked from below: the real loop stays under its claim and reaches a good part of it; sabotaged ones are caught.

Many canaries in one run: canary i has the gradient e_i, clipped length one, and only half of them are in the data. Poisson sampling and the
noise are independent from coordinate to coordinate, so each is one trial of the membership game, white box: the attacker sees every step's
released gradient and scores a coordinate by its likelihood ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.accounting import Adjacency, Event, Gaussian, account
from tacit.audit import Claim, Verdict, judge, rank_attack
from tacit.deep.noise import add_noise, step_noise
from tacit.deep.private import Independent, PrivateTraining, make_private
from tacit.deep.samplers import Allocation, FullBatch, Indices, PoissonBatches
from tacit.mechanisms import NoisySums
from tacit.noise import permutation, test_mode

CANARIES = 4000  # in the data, and as many outside
SURE = 0.999


class Bank(nn.Module):
    """The output for e_i is the i-th weight, so its gradient is e_i."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2 * CANARIES, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(nn.functional.one_hot(x, 2 * CANARIES).float())


def observed(sampler: Any, steps: int, noise: float, tamper: Any = None, **how: Any) -> NDArray[np.float64]:
    """Released gradients of shape (steps, canaries), in units of the clipped length."""
    model = Bank()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    private = make_private(
        model,
        optimizer,
        torch.arange(CANARIES),
        noise_multiplier=noise,
        clip=1.0,
        sampler=sampler,
        steps=steps,
        loss_reduction="sum",
        **how,
    )
    if tamper is not None:
        tamper(private)
    seen = []
    with test_mode(21):
        while private.remaining():
            for (x,) in private.loader:
                model(x).sum().backward()
                before = private.steps
                optimizer.step()
                if private.steps > before:
                    assert model.layer.weight.grad is not None
                    seen.append(model.layer.weight.grad[0].double().numpy().copy() * float(sampler.divisor))
    return np.array(seen)


def scores(seen: NDArray[np.float64], rate: float, noise: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The log-likelihood ratio of "it was in the data" for every canary: those outside, those inside."""
    ratio = np.log1p(rate * np.expm1((2 * seen - 1) / (2 * noise**2))).sum(axis=0)
    return ratio[CANARIES:], ratio[:CANARIES]


def verdict(
    event: Event, delta: float, outside: NDArray[np.float64], inside: NDArray[np.float64], adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> Verdict:
    """Scores that are higher for members, held against the event."""
    found = rank_attack(outside, inside, delta=delta, confidence=SURE, game="gradient canaries, white box")
    return judge(Claim(event, adjacency), found)


@pytest.mark.parametrize(
    ("sampler", "rate", "steps", "noise"),
    [
        # the self-test attacks the same loop on full batches, with fewer trials
        pytest.param(FullBatch(CANARIES), 1.0, 2, 1.5, marks=pytest.mark.slow),
        (PoissonBatches(CANARIES // 4, CANARIES), 0.25, 6, 0.8),
        (Allocation(4, CANARIES), 0.25, 4, 0.8),
    ],
    ids=["full batch", "poisson", "allocation"],
)
def test_the_real_loop_stays_under_its_claim_and_reaches_a_good_part_of_it(sampler: Any, rate: float, steps: int, noise: float) -> None:
    seen = observed(sampler, steps, noise)
    found = verdict(sampler.event(Gaussian(noise), steps), 1e-2, *scores(seen, rate, noise))
    assert not found.broken
    assert found.share > 0.4, str(found)


def quarter_noise(private: PrivateTraining) -> None:
    class Quarter(Independent):
        def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
            return sums * times + add_noise(torch.zeros_like(sums), noise, times) / 4

    private._noise = Quarter()


def noise_per_microbatch(private: PrivateTraining) -> None:
    """Noise for the whole batch is added to each of 16 pieces, and the pieces are averaged: a sixteenth of the variance is left."""

    class Averaged(Independent):
        def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
            return sums * times + torch.stack([add_noise(torch.zeros_like(sums), noise, times) for _ in range(16)]).mean(0)

    private._noise = Averaged()


@pytest.mark.parametrize("tamper", [quarter_noise, noise_per_microbatch])
def test_too_little_noise_is_caught(tamper: Any) -> None:
    sampler = PoissonBatches(CANARIES // 4, CANARIES)
    seen = observed(sampler, 4, 1.0, tamper)
    assert verdict(sampler.event(Gaussian(1.0), 4), 1e-2, *scores(seen, 0.25, 1.0)).broken


def noise_lengths(records: int, divisor_of: Any, runs: int) -> NDArray[np.float64]:
    """Minus the length of the released gradient in many coordinates that nobody moves: it tells what the sum was divided by."""
    lengths = []
    with test_mode(31):
        for _ in range(runs):
            released = add_noise(torch.zeros(20_000, dtype=torch.float64), step_noise(1.0, 1.0, 0.0)) / divisor_of(records)
            lengths.append(-float(torch.linalg.vector_norm(released)))
    return np.array(lengths)


def test_a_private_batch_size_as_divisor_is_caught() -> None:
    """Ten or eleven records, full batch: the scale of the noise itself gives the number away. The public divisor does not."""
    event = FullBatch(10).event(Gaussian(2.0), 1)
    runs = 400
    private_size = [noise_lengths(records, lambda n: n, runs) for records in (10, 11)]
    assert verdict(event, 1e-2, *private_size).broken
    public_size = [noise_lengths(records, lambda n: 10, runs) for records in (10, 11)]
    assert not verdict(event, 1e-2, *public_size).broken


def test_our_divisor_is_the_public_one() -> None:
    """The same attack on the real loop: ten and eleven zero records, declared size ten."""
    lengths = {}
    for records in (10, 11):
        model = nn.Linear(5000, 1, bias=False)
        private = make_private(
            model,
            torch.optim.SGD(model.parameters(), lr=0.0),
            torch.zeros(records, 5000),
            noise_multiplier=2.0,
            clip=1.0,
            sampler=FullBatch(10),
            steps=40,
        )
        found = []
        with test_mode(41 + records):
            while private.remaining():
                for (x,) in private.loader:
                    model(x).mean().backward()
                    private.optimizer.step()
                    assert model.weight.grad is not None
                    found.append(float(torch.linalg.vector_norm(model.weight.grad)))
        lengths[records] = np.array(found)
    assert not verdict(FullBatch(10).event(Gaussian(2.0), 40), 1e-2, lengths[10], lengths[11]).broken
    assert abs(lengths[10].mean() / lengths[11].mean() - 1) < 0.01


class Shuffled:
    """Shuffle once, cut into equal batches: what most loaders do."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def batches(self, records: int) -> Iterator[Indices]:
        while True:
            yield from np.split(permutation(records), self.steps)


def step_sums(sampler: Any, gradients: NDArray[np.float64], steps: int, noise: float, runs: int) -> NDArray[np.float64]:
    """The noisy gradient sums of one epoch, in many runs."""
    batches = sampler.batches(len(gradients))
    sums = np.array([[gradients[next(batches)].sum() for _ in range(steps)] for _ in range(runs)])
    return sums + add_noise(torch.zeros(sums.size, dtype=torch.float64), step_noise(noise, 1.0, 0.0)).numpy().reshape(sums.shape)


@pytest.mark.slow
def test_shuffled_batches_priced_as_poisson_are_caught() -> None:
    """Everybody else pushes by -1 and the target by +1 or by nothing (zero-out). With equal batches the target's batch stands out in both
    worlds, 2 against 1 above the rest, and hardly any amplification is left (Chua et al. 2024)."""
    steps, noise, delta, runs = 20, 0.6, 0.2, 1600
    claim = PoissonBatches(2, 40).event(Gaussian(noise), steps)
    others = -np.ones(40)

    def ratio(sampler: Any, level: float) -> list[NDArray[np.float64]]:
        worlds = []
        with test_mode(51):
            for target in (0.0, 1.0):
                gradients = others.copy()
                gradients[-1] = target
                x = step_sums(sampler, gradients, steps, noise, runs) + level
                far, near = ((2 * x - 2) / noise**2), ((2 * x - 1) / (2 * noise**2))
                worlds.append(np.logaddexp.reduce(far, axis=1) - np.logaddexp.reduce(near, axis=1))
        return worlds

    assert verdict(claim, delta, *ratio(Shuffled(20), 2.0), adjacency=Adjacency.ZERO_OUT).broken
    assert not verdict(claim, delta, *ratio(PoissonBatches(2, 40), 2.0), adjacency=Adjacency.ZERO_OUT).broken
    assert account(claim, Adjacency.ZERO_OUT).epsilon(delta).upper < 1.1
