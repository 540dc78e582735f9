"""Follow the regularised leader against its closed form and gradient descent; its samplers against the law they are priced by."""

from __future__ import annotations

import copy
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.accounting import Adjacency, Gaussian, ParameterError, Repeated, Sampled, account
from tacit.accounting import Poisson as PoissonScheme
from tacit.deep.ftrl import FTRL, CyclicPoisson, Passes
from tacit.deep.private import Independent, make_private
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode


class Silent(Independent):
    """No noise at all."""

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        return sums * times


def descend(optimizer: Any, weights: list[nn.Parameter], gradients: list[list[Tensor]]) -> None:
    for step in gradients:
        for weight, gradient in zip(weights, step, strict=True):
            weight.grad = gradient.clone()
        optimizer.step()


def some(seed: int, steps: int = 7) -> tuple[list[nn.Parameter], list[list[Tensor]]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 2), (4,)]
    weights = [nn.Parameter(torch.randn(s, generator=generator, dtype=torch.float64)) for s in shapes]
    return weights, [[torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes] for _ in range(steps)]


# --- the optimiser --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_it_is_gradient_descent(momentum: float) -> None:
    mine, gradients = some(1)
    theirs = [nn.Parameter(weight.detach().clone()) for weight in mine]
    descend(FTRL(mine, lr=0.3, momentum=momentum), mine, gradients)
    descend(torch.optim.SGD(theirs, lr=0.3, momentum=momentum), theirs, gradients)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_without_noise_it_is_minus_the_sum_over_delta() -> None:
    """A private run from zero: theta_(t+1) = -sum g / Delta exactly, and a null record leaves the sum as it was."""
    delta = 4.0
    net = nn.Linear(3, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64) / 10  # short enough not to be clipped
    x[5] = 0  # its gradient is zero: the symbol for "nobody"
    passes = Passes(steps=12, size=12, adjacency=Adjacency.ZERO_OUT)
    optimizer = FTRL(net.parameters(), lr=1 / delta)
    private = make_private(
        net, optimizer, x, noise_multiplier=1.0, clip=1.0, sampler=passes, epochs=1, noise=Silent(), loss_reduction="sum"
    )
    total = torch.zeros(3, dtype=torch.float64)
    for (row,) in private.loader:
        before = net.weight.detach().clone()
        net(row).sum().backward()
        optimizer.step()
        total += row.sum(dim=0)
        assert torch.allclose(net.weight[0], -total / delta, atol=1e-15)
        if not row.any():
            assert torch.equal(net.weight, before)
    assert torch.allclose(total, x.sum(dim=0), atol=1e-14)


def test_a_ball_is_the_domain() -> None:
    """The lazy projection: the sum goes on beyond the ball, and the parameters are its nearest point."""
    weights, gradients = some(2, steps=20)
    start = [weight.detach().clone() for weight in weights]
    optimizer = FTRL(weights, lr=0.5, radius=1.5)
    sums = [torch.zeros_like(weight) for weight in weights]
    inside = []
    for step in gradients:
        descend(optimizer, weights, [step])
        sums = [total + gradient for total, gradient in zip(sums, step, strict=True)]
        moved = torch.cat([(weight - begun).reshape(-1) for weight, begun in zip(weights, start, strict=True)])
        free = -0.5 * torch.cat([total.reshape(-1) for total in sums])
        nearest = free * min(1.0, 1.5 / float(free.norm()))
        assert torch.allclose(moved, nearest, atol=1e-12)
        inside.append(float(free.norm()) < 1.5)
    assert any(inside)
    assert not all(inside)


def test_recentring_without_a_domain_changes_nothing() -> None:
    mine, gradients = some(4)
    theirs = [nn.Parameter(weight.detach().clone()) for weight in mine]
    first, second = FTRL(mine, lr=0.1, momentum=0.5), FTRL(theirs, lr=0.1, momentum=0.5)
    descend(first, mine, gradients)
    descend(second, theirs, gradients[:4])
    second.recentre()
    descend(second, theirs, gradients[4:])
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_its_state_is_saved() -> None:
    mine, gradients = some(5)
    theirs = [nn.Parameter(weight.detach().clone()) for weight in mine]
    first, second = FTRL(mine, lr=0.1, momentum=0.5), FTRL(theirs, lr=0.1, momentum=0.5)
    descend(first, mine, gradients[:4])
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    with torch.no_grad():
        for a, b in zip(mine, theirs, strict=True):
            b.copy_(a)
    descend(first, mine, gradients[4:])
    descend(second, theirs, gradients[4:])
    for a, b in zip(mine, theirs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("how", "names"), [({"lr": 0}, "lr"), ({"lr": 1, "momentum": 1}, "momentum"), ({"lr": 1, "radius": -1}, "radius")])
def test_its_parameters_are_checked(how: Any, names: str) -> None:
    with pytest.raises(ParameterError, match=names):
        FTRL([nn.Parameter(torch.zeros(1))], **how)


# --- the samplers ---------------------------------------------------------------------------------------------------------------------


def drawn(sampler: Any, records: int, steps: int) -> np.ndarray:
    """Who was in which step: (steps, records)."""
    seen = np.zeros((steps, records), dtype=int)
    for step, batch in enumerate(itertools.islice(sampler.batches(records), steps)):
        seen[step, batch] += 1
    return seen


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
def test_passes_are_fixed_and_complete(adjacency: Adjacency) -> None:
    seen = drawn(Passes(7, 50, adjacency), 50, 21)
    assert (seen[:7].sum(axis=0) == 1).all(), "everybody once a pass"
    assert (seen[:7] == seen[7:14]).all(), "always in the same place"
    assert (seen[:7] == seen[14:]).all()
    sizes = seen[:7].sum(axis=1)
    assert adjacency is Adjacency.ADD_REMOVE or set(sizes) == {7, 8}


def places(sampler: Any, records: int, runs: int) -> np.ndarray:
    return np.array([drawn(sampler, records, 3).argmax(axis=0) for _ in range(runs)])


def test_places_of_add_remove_are_independent_and_those_of_zero_out_are_not() -> None:
    """Three places, three records. Under add/remove nobody's place depends on the others': all share one with chance 1/9. A cut
    permutation, the mutant, never lets them."""
    runs = 3000
    with test_mode(8):
        free = places(Passes(3, 3), 3, runs)
        cut = places(Passes(3, 3, Adjacency.ZERO_OUT), 3, runs)
    together = (free == free[:, :1]).all(axis=1).mean()
    assert abs(together - 1 / 9) < 5 * np.sqrt(1 / 9 * 8 / 9 / runs)
    assert not (cut == cut[:, :1]).all(axis=1).any()
    for found in (free, cut):
        assert np.allclose([(found == k).mean(axis=0) for k in range(3)], 1 / 3, atol=5 * np.sqrt(2 / 9 / runs))


def test_turns_are_poisson_within_a_part_and_nothing_outside() -> None:
    sampler = CyclicPoisson(expected_batch=50, size=400, parts=4)
    assert sampler.rate == Fraction(1, 2)
    with test_mode(9):
        seen = drawn(sampler, 400, 400)
    rounds = seen.reshape(100, 4, 400)
    own = rounds.sum(axis=0).argmax(axis=0)
    assert (rounds.sum(axis=0) > 0).sum() == 400, "each record in one part only, so its steps are whole rounds apart"
    taken = rounds[:, own, np.arange(400)]
    assert abs(taken.mean() - 0.5) < 5 * 0.5 / np.sqrt(taken.size)
    # one round says nothing about the next
    assert abs(np.mean((taken[1:] - 0.5) * (taken[:-1] - 0.5))) < 5 * 0.25 / np.sqrt(taken.size)
    assert np.allclose(np.bincount(own, minlength=4) / 400, 0.25, atol=5 * np.sqrt(3 / 16 / 400))


def test_prices() -> None:
    assert Passes(10, 50).event(Gaussian(2), 31) == Repeated(Gaussian(2), 4)
    out = Passes(10, 50, Adjacency.ZERO_OUT).event(Gaussian(2), 10)
    assert out == Repeated(Gaussian(2, adjacency=Adjacency.ZERO_OUT), 1)
    assert account(out, Adjacency.ZERO_OUT).rho().upper == pytest.approx(1 / 8)
    turns = CyclicPoisson(5, 100, 4)
    assert turns.event(Gaussian(2), 9) == Repeated(Sampled(PoissonScheme(Fraction(1, 5)), Gaussian(2)), 3)
    assert (turns.divisor, turns.epoch, Passes(10, 55).divisor) == (5, 20, Fraction(11, 2))


def test_passes_are_never_priced_as_poisson() -> None:
    """The fixed order costs more than Poisson batches of the same size would."""
    passes = account(Passes(100, 1000).event(Gaussian(1.0), 100), Adjacency.ADD_REMOVE).epsilon(1e-5)
    poisson = account(Repeated(Sampled(PoissonScheme(Fraction(1, 100)), Gaussian(1.0)), 100), Adjacency.ADD_REMOVE).epsilon(1e-5)
    assert passes.lower > 2 * poisson.upper


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Passes(0, 5), "steps"),
        (lambda: Passes(5, 0), "size"),
        (lambda: Passes(6, 5, Adjacency.ZERO_OUT), "steps"),
        (lambda: Passes(5, 5, Adjacency.REPLACE_ONE), "adjacency"),
        (lambda: Passes(5, 6, Adjacency.ZERO_OUT).batches(7), "size=6"),
        (lambda: CyclicPoisson(6, 50, 10), "size"),
        (lambda: CyclicPoisson(6, 500, 0), "parts"),
        (lambda: CyclicPoisson(6, 500, 3, Adjacency.REPLACE_ONE), "adjacency"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals(make: Any, names: str) -> None:
    with pytest.raises(ParameterError, match=names):
        make()
