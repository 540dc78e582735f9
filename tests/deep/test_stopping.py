"""Stopping at a guarantee: what fits by brute force, filters step by step, and runs that end early."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tacit.accounting import Adjacency, Gaussian, Guarantee, ParameterError, RenyiDP, account
from tacit.deep.errors import TrainingError
from tacit.deep.private import PrivateTraining, make_private, make_private_with_epsilon
from tacit.deep.samplers import Allocation, FixedSize, FullBatch, PoissonBatches, Sampler
from tacit.deep.stopping import as_guarantee, steps_within, stepwise
from tacit.ledger import Budget, BudgetExceeded, Ledger

pytestmark = pytest.mark.filterwarnings("ignore::tacit.deep.NoiseDrownsSignal")  # noise is all that is tested here

N = 50
TARGET = Guarantee(epsilon=2, delta=1e-5)


def run(**how: Any) -> PrivateTraining:
    model = nn.Linear(3, 2)
    data = torch.randn(N, 3), torch.randint(2, (N,))
    plan = {"noise_multiplier": 2.0, "clip": 1.0, "sampler": PoissonBatches(5, N), "steps": 60} | how
    return make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), data, **plan)


def train(private: PrivateTraining, steps: int = 10**6, passes: int = 100) -> int:
    """Take up to so many steps."""
    taken = 0
    for _ in range(passes):
        for x, y in private.loader:
            nn.functional.cross_entropy(private.model(x), y).backward()
            private.optimizer.step()
            taken += 1
            if taken >= steps:
                return taken
    return taken


def book(tmp_path: Path, **budget: Any) -> Any:
    return Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("people", Budget(**budget))


# How many steps fit


@pytest.mark.parametrize("sampler", [PoissonBatches(5, N), FullBatch(N), FixedSize(5, N)], ids=lambda s: type(s).__name__)
def test_the_last_step_that_fits(sampler: Sampler) -> None:
    def event(steps: int) -> Any:
        return sampler.event(Gaussian(4.0), steps)

    found = steps_within(TARGET, event, sampler.adjacency, most=10**6)
    one, more = (account(event(steps), sampler.adjacency).epsilon(1e-5).upper for steps in (found, found + 1))
    assert one <= 2 < more
    assert steps_within(TARGET, event, sampler.adjacency, most=found - 1) == found - 1


def test_a_step_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ParameterError, match="one step alone"):
        run(sampler=FullBatch(N), noise_multiplier=0.1, stop_at=TARGET)


def test_what_stop_at_may_be() -> None:
    assert as_guarantee("eps=2, delta=1e-5", None) == as_guarantee(2, 1e-5) == as_guarantee(TARGET, None) == TARGET
    with pytest.raises(ParameterError, match="give delta="):
        as_guarantee(2, None)
    with pytest.raises(ParameterError, match="needs no stop_at"):
        make_private_with_epsilon(nn.Linear(1, 1), None, None, epsilon=1, delta=1e-5, clip=1, sampler=FullBatch(1), steps=1, stop_at=2)  # type: ignore[arg-type]


def test_a_run_stops_there_and_later_passes_are_empty() -> None:
    private = run(stop_at=1, delta=1e-5, noise_multiplier=3.0, steps=10**5)
    planned = private.planned
    assert 1 < planned < 200
    assert train(private) == planned
    assert private.remaining() == 0
    assert private.get_epsilon(1e-5).upper <= 1


def test_the_whole_plan_is_paid_and_stays_paid(tmp_path: Path) -> None:
    """Stopping early gives nothing back, and the price of what was done is not computed anew."""
    people = book(tmp_path, rho=10)
    private = run(account=people, sampler=FullBatch(N), noise_multiplier=2.0, stop_at=Guarantee(rho=5), steps=100)
    assert private.planned == 40  # 1/8 each
    train(private, steps=3)
    during = private.get_epsilon(1e-5).upper
    assert people.spent()["rho"] == 5
    private.close()
    assert people.spent()["rho"] == 5
    assert private.get_epsilon(1e-5).upper == account(FullBatch(N).event(Gaussian(2.0), 40)).epsilon(1e-5).upper > during
    assert private.event == FullBatch(N).event(Gaussian(2.0), 40)


def test_a_run_that_never_began_costs_nothing() -> None:
    private = run()
    private.detach()
    assert private.get_epsilon(1e-5).upper == 0


# Step by step


@pytest.mark.parametrize("sampler", [PoissonBatches(5, N), FullBatch(N)], ids=lambda s: type(s).__name__)
def test_the_filter_promises_the_target_and_admits_the_most(sampler: Sampler) -> None:
    found = stepwise(TARGET, lambda steps: sampler.event(Gaussian(6.0), steps), sampler)
    assert account(found.promise(), sampler.adjacency).epsilon(1e-5).upper <= 2
    # By hand: order a admits (2 - conversion) / divergence steps; Gaussian DP of a full batch mu^2 sigma^2.
    by_order = {}
    for a in range(2, 257):
        room = 2 - math.log1p(-1 / a) + math.log(1e-5 * a) / (a - 1)
        by_order[a] = room / account(sampler.event(Gaussian(6.0), 1)).rdp(a).upper if room > 0 else 0
    best = max(by_order.values())
    if isinstance(sampler, FullBatch):
        best = max(best, float(TARGET.gaussian_mu) ** 2 * 36)
    assert best * 0.98 - 1 <= found.fits <= best
    taken = 0
    while found.admits():
        found, taken = found.admitted(), taken + 1
    assert taken <= best


def test_a_filter_of_a_currency_is_that_currency() -> None:
    found = stepwise(Guarantee(rho=1), lambda steps: FullBatch(N).event(Gaussian(2.0), steps), FullBatch(N))
    assert found.budget == Budget(rho=1)
    assert (found.fits, found.charge) == (8, {"rho": Fraction(1, 8)})


def test_step_by_step_an_account_pays_what_was_done(tmp_path: Path) -> None:
    """Stopped after five steps of eight: three eighths are left, for whatever comes."""
    people = book(tmp_path, rho=1)
    private = run(account=people, sampler=FullBatch(N), noise_multiplier=2.0, stop_at=Guarantee(rho=1), reserve="step", steps=100)
    assert train(private, steps=5) == 5
    private.close()
    assert people.spent()["rho"] == Fraction(5, 8)
    again = run(account=people, sampler=FullBatch(N), noise_multiplier=2.0, stop_at=Guarantee(rho=1), reserve="step", steps=100)
    assert train(again) == 3  # the account ends it, not its own filter
    assert people.spent()["rho"] == 1
    third = run(account=people, sampler=FullBatch(N), noise_multiplier=2.0, stop_at=Guarantee(rho=1), reserve="step", steps=100)
    with pytest.raises(BudgetExceeded):
        train(third)


def test_what_is_published_is_what_the_filter_promises() -> None:
    private = run(stop_at=TARGET, reserve="step", noise_multiplier=3.0, steps=10**5)
    assert private.get_epsilon(1e-5).upper == 0
    train(private, steps=4)
    early = private.get_epsilon(1e-5).upper
    assert isinstance(private.event, RenyiDP)
    assert 1.9 < early <= 2
    assert private.so_far(1e-5).upper > 0
    taken = train(private, passes=10**4)
    assert private.get_epsilon(1e-5).upper == early, "a run under a filter costs the filter, whenever it is stopped"
    assert private.remaining() == 0
    assert taken + 4 == private.steps
    assert train(private) == 0


def test_a_batch_that_was_not_stepped_is_paid_once(tmp_path: Path) -> None:
    people = book(tmp_path, rho=1)
    private = run(account=people, sampler=FullBatch(N), noise_multiplier=2.0, stop_at=Guarantee(rho=1), reserve="step", steps=100)
    for _ in range(3):
        for _ in private.loader:
            break
    assert people.spent()["rho"] == Fraction(1, 8)
    for _ in private.loader:
        with pytest.raises(TrainingError, match="before optimizer"):
            private.moved_on()
        break
    train(private, steps=1)
    assert people.spent()["rho"] == Fraction(1, 8)


def test_nothing_is_read_before_it_is_paid_for(tmp_path: Path) -> None:
    """The account refuses the third step: two batches were read."""
    read = []

    class Rows(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return N

        def __getitem__(self, place: int) -> Any:
            read.append(place)
            return torch.zeros(3), 0

    model = nn.Linear(3, 2)
    plan: dict[str, Any] = {"clip": 1.0, "sampler": FullBatch(N), "steps": 9, "stop_at": "rho=1", "reserve": "step"}
    private = make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), Rows(), noise_multiplier=2.0, account=book(tmp_path, rho="1/4"), **plan
    )
    assert train(private) == 2
    assert len(read) == 2 * N
    with pytest.raises(ParameterError, match="cannot read ahead"):
        private.detach()
        make_private(model, torch.optim.SGD(model.parameters(), lr=1), Rows(), noise_multiplier=2.0, workers=1, **plan)


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="needs stop_at"):
        run(reserve="step")
    with pytest.raises(ParameterError, match="'whole' or 'step'"):
        run(reserve="some", stop_at=TARGET)
    with pytest.raises(ParameterError, match="no proven filter"):
        run(sampler=FullBatch(N), noise_multiplier=0.05, stop_at=TARGET, reserve="step")
    with pytest.raises(ParameterError, match="without a delta"):
        run(stop_at="eps=2", reserve="step")


# Checkpoints


def test_a_run_goes_on_where_its_filter_was() -> None:
    how: dict[str, Any] = {"sampler": FullBatch(N), "noise_multiplier": 2.0, "stop_at": Guarantee(rho=1), "reserve": "step", "steps": 100}
    first = run(**how)
    train(first, steps=5)
    second = run(**how)
    second.load_state_dict(first.state_dict())
    assert second.get_epsilon(1e-5).upper == first.get_epsilon(1e-5).upper > 0
    assert train(second) == 3
    with pytest.raises(ParameterError, match="another stop_at"):
        run(**how | {"stop_at": Guarantee(rho=2)}).load_state_dict(first.state_dict())
    with pytest.raises(TrainingError, match="goes on as one"):
        run(**how | {"reserve": "whole"}).load_state_dict(first.state_dict())


def test_a_plan_that_goes_on_still_ends_at_the_target() -> None:
    """Forty steps fit; after ten, a run with less noise has room for fewer than thirty."""
    how: dict[str, Any] = {"sampler": FullBatch(N), "stop_at": Guarantee(rho=5), "steps": 100}
    first = run(noise_multiplier=2.0, **how)
    train(first, steps=10)
    second = run(noise_multiplier=1.0, **how)
    second.load_state_dict(first.state_dict())
    assert second.planned == 7  # 5 - 10/8 of halves
    train(second)
    assert account(second.event, Adjacency.ADD_REMOVE).rho().upper <= 5


def test_an_epoch_of_allocation_is_one_block() -> None:
    with pytest.raises(ParameterError, match="no proven filter"):
        run(sampler=Allocation(5, N), stop_at=TARGET, reserve="step")
