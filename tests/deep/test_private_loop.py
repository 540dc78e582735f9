"""The loop of a private run: every draw is one step, the body runs once a step, and what it can count is public."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.deep import (
    Allocation,
    CyclicPoisson,
    FixedSize,
    FullBatch,
    Passes,
    PoissonBatches,
    TrainingError,
    adaptive,
    make_private,
    make_user_private,
)
from tacit.deep.loader import PrivateLoader
from tacit.deep.private import PrivateTraining
from tacit.deep.samplers import Sampler
from tacit.noise import test_mode as fixed_draws

ROWS = 40


def fresh(sampler: Sampler, steps: int, rows: int = ROWS, **how: Any) -> PrivateTraining:
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.arange(float(rows)).unsqueeze(1)
    return make_private(model, optimizer, data, noise_multiplier=1.0, clip=1.0, sampler=sampler, steps=steps, **how)


def step(private: PrivateTraining, x: Tensor) -> None:
    private.model(x).mean().backward()
    private.optimizer.step()


SAMPLERS: list[Any] = [
    Passes(8, ROWS), Allocation(8, ROWS), CyclicPoisson(3, ROWS, parts=8), PoissonBatches(5, ROWS), FixedSize(5, ROWS), FullBatch(ROWS)
]


def disturbed(private: PrivateTraining, seed: int) -> list[list[float]]:
    """The batches whose step was taken, by a loop that peeks, breaks off, fails and begins again at random."""
    chance = np.random.default_rng(seed)
    taken: list[list[float]] = []
    while private.remaining():
        try:
            for (x,) in private.loader:
                how = chance.integers(5)
                if how == 0:
                    break
                if how == 1:
                    private.model(x).mean().backward()
                    raise ValueError
                if how == 2:
                    next(iter(private.loader))
                    break
                if how == 3:
                    continue  # without a step
                step(private, x)
                taken.append(x.flatten().tolist())
        except (ValueError, TrainingError):
            pass
    return taken


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_every_draw_is_one_step_whatever_the_loop_does(sampler: Sampler) -> None:
    """The steps taken are the draws of an undisturbed run, in order, none left out and none twice."""
    with fixed_draws(3):
        private = fresh(sampler, 16)
        drawn: list[list[float]] = []
        plain = private.loader._batches

        def noted() -> Any:
            for batch in plain:
                drawn.append([float(index) for index in batch] or [0.0])
                yield batch

        private.loader._batches = noted()
        taken = disturbed(private, seed=1)
    assert len(taken) == 16 and taken == drawn[:16]
    if isinstance(sampler, Passes | Allocation):
        for epoch in (taken[:8], taken[8:]):
            seen = sorted(value for batch in epoch for value in batch if batch != [0.0])
            assert len(set(seen)) == len(seen), "nobody takes part twice in an epoch"


def test_batches_that_workers_fetched_in_advance_are_not_lost() -> None:
    private = fresh(Allocation(3, ROWS), 3, workers=1)
    seen: list[float] = []
    next(iter(private.loader))  # the worker has fetched more by now
    for (x,) in private.loader:
        step(private, x)
        seen += x.flatten().tolist()
    assert sorted(seen) == [float(row) for row in range(ROWS)]


def test_mutant_a_loader_that_forgets_what_it_drew_lets_records_take_part_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: PrivateLoader, number: int) -> Any:
        return next(self._batches)

    monkeypatch.setattr(PrivateLoader, "_draw", forgetful)
    with fixed_draws(3):
        taken = disturbed(fresh(Passes(8, ROWS), 8), seed=1)
    seen = [value for batch in taken for value in batch]
    assert len(set(seen)) < len(seen)


def test_two_iterations_at_once_are_refused() -> None:
    private = fresh(Allocation(8, ROWS), 8)
    first, second = iter(private.loader), iter(private.loader)
    (x,) = next(second)
    with pytest.raises(TrainingError, match="another iteration"):
        next(first)
    step(private, x)
    third = iter(private.loader)
    next(third)
    with pytest.raises(TrainingError, match="another iteration"):
        next(second)


@pytest.mark.parametrize("physical", [None, 2])
@pytest.mark.parametrize("expected", [1, 5])
def test_the_body_runs_once_a_step_so_schedulers_see_public_numbers_only(expected: int, physical: int | None) -> None:
    """Batches of nobody, of a few and of more than fit at once: the learning rate after each step is that of the plan."""
    private = fresh(PoissonBatches(expected, ROWS), 30, physical_batch=physical)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(private.optimizer, 0.9)
    rates, sizes = [], set()
    while private.remaining():
        for (x,) in private.loader:
            sizes.add(len(x))
            step(private, x)
            scheduler.step()
            rates.append(private.optimizer.param_groups[0]["lr"])
    assert len(sizes) > 1
    assert rates == pytest.approx([1e-3 * 0.9**k for k in range(1, 31)])


@pytest.mark.parametrize("fault", ["no body for an empty batch", "a body for each piece"])
def test_mutant_a_body_that_runs_by_the_size_of_a_batch_tells_it_by_the_learning_rate(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What loaders do elsewhere: nothing is handed out for nobody, and a large batch comes in pieces."""
    empty = fault == "no body for an empty batch"
    private = fresh(PoissonBatches(1 if empty else 6, ROWS), 30)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(private.optimizer, 0.9)
    drawn: list[int] = []
    handed = PrivateTraining.handed_out

    def watched(self: PrivateTraining, records: int, **how: Any) -> None:
        drawn.append(records if how.get("drawn", True) else 0)
        handed(self, records, **how)

    monkeypatch.setattr(PrivateTraining, "handed_out", watched)
    rates = []
    while private.remaining():
        for (x,) in private.loader:
            step(private, x)
            for _ in range(bool(drawn[-1]) if empty else -(-len(x) // 2)):
                scheduler.step()
            rates.append(private.optimizer.param_groups[0]["lr"])
    assert len(set(drawn)) > 1
    told = np.rint(np.diff(np.log(rates), prepend=math.log(1e-3)) / math.log(0.9)).astype(int)
    assert told.tolist() == [bool(size) if empty else max(1, -(-size // 2)) for size in drawn], "who looks at the rate knows the sizes"


def test_a_placeholder_counts_for_nothing() -> None:
    """The sum of an empty batch is zero whatever the placeholder holds: gradients are noise alone, equal for equal draws."""
    released = []
    for value in (0.0, 1e30, float("nan")):
        model = nn.Linear(2, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        data = torch.utils.data.Subset(torch.utils.data.TensorDataset(torch.full((3, 2), value)), range(3))
        with fixed_draws(5):
            private = make_private(model, optimizer, data, noise_multiplier=1.0, clip=1.0, sampler=PoissonBatches(1, 10**7), steps=1)
            for (x,) in private.loader:
                model(x).sum().backward()
                optimizer.step()
        assert model.weight.grad is not None
        released.append(model.weight.grad)
    assert torch.equal(released[0], released[1]) and torch.equal(released[0], released[2])


@pytest.mark.parametrize("physical", [None, 1])
def test_empty_batches_of_users_and_adaptive_thresholds(physical: int | None) -> None:
    model = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    private = make_user_private(
        model, optimizer, torch.randn(9, 2), np.arange(9) % 3, most=2, clip=adaptive(count_noise=3.0), sampler=PoissonBatches(1, 3),
        noise_multiplier=1.0, steps=20, physical_batch=physical,
    )  # fmt: skip
    while private.remaining():
        for (x,) in private.loader:
            model(x).square().mean(1).mean().backward()
            optimizer.step()
    assert private.steps == 20 and bool(model.weight.isfinite().all())


class Network(nn.Module):
    """Convolution, dropout and several results."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.drop, self.out = nn.Conv1d(1, 3, 2), nn.Dropout(0.5), nn.Linear(9, 2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = self.drop(self.conv(x.unsqueeze(1)).flatten(1))
        return {"hidden": hidden, "logits": self.out(hidden)}


def test_pieces_inside_the_model_are_the_whole_batch_of_the_same_dropout() -> None:
    """The loop sees one batch and one loss over all of it; the sums are those of a run whose dropout drew the same masks."""
    torch.manual_seed(0)
    x, model = torch.randn(7, 4), Network()
    found = []
    from tacit.deep.clipping import Clipper, flat

    for largest in (None, 3):
        with Clipper(model, flat(0.1)) as clipper:
            clipper.largest = largest
            torch.manual_seed(1)
            if largest is None:  # the same masks, drawn piece by piece
                masks = torch.cat([nn.functional.dropout(torch.ones(n, 9), 0.5) for n in (3, 3, 1)])
                model.drop.forward = lambda hidden, masks=masks: hidden * masks[: len(hidden)] if len(hidden) <= 7 else hidden  # type: ignore[method-assign]
            else:
                del model.drop.forward
            output = model(x)
            assert output["logits"].shape == (7, 2)
            (output["logits"].square().mean(1).mean() + output["hidden"].tanh().sum(1).mean()).backward()
            found.append(clipper.collect())
    assert found[1].count == found[1].seen == 7 and found[1].passes == 1
    for name, value in found[0].sums.items():
        assert torch.allclose(value, found[1].sums[name], rtol=1e-4, atol=1e-6)


# What carries data past the noise


def test_half_a_batch_run_twice_is_refused() -> None:
    private = fresh(FullBatch(ROWS), 2)
    for (x,) in private.loader:
        for _ in range(2):
            private.model(x[:20]).mean().backward()
        with pytest.raises(TrainingError, match="other examples"):
            private.optimizer.step()
        break
    assert private.steps == 0


def test_parameters_added_to_the_optimizer_afterwards_are_refused() -> None:
    private = fresh(FullBatch(ROWS), 2)
    more = nn.Parameter(torch.zeros(1))
    private.optimizer.add_param_group({"params": [more]})
    for (x,) in private.loader:
        ((private.model(x) + more) ** 2).mean().backward()
        with pytest.raises(ValueError, match="not the model's"):
            private.optimizer.step()
        break
    assert private.steps == 0 and not more.any()


class Remembers(nn.Module):
    def __init__(self, replace: bool | str) -> None:
        super().__init__()
        self.layer, self.replace = nn.Linear(1, 1), replace
        self.register_buffer("mean", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if self.replace == "data":  # which torch does not count
            self.mean.data.copy_(x.detach().mean(0))
        elif self.replace == "numpy":
            self.mean.numpy()[:] = x.detach().mean(0).numpy()
        elif self.replace:
            self.mean = x.detach().mean(0)
        else:
            self.mean += x.detach().mean(0)
        output: Tensor = self.layer(x)
        return output


@pytest.mark.parametrize("replace", [True, False, "data", "numpy"])
def test_buffers_written_in_forward_are_refused(replace: bool | str) -> None:
    model = Remembers(replace)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    private = make_private(model, optimizer, torch.randn(8, 1), noise_multiplier=1.0, clip=1.0, sampler=FullBatch(8), steps=2)
    for (x,) in private.loader:
        model(x).mean().backward()
        with pytest.raises(TrainingError, match="buffer"):
            optimizer.step()
        break
    assert private.steps == 0
