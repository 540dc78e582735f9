"""A private run against naive per-example arithmetic; noise once, a public divisor, a protocol that cannot be bent, a ledger that knows."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from tacit.accounting import Gaussian, ParameterError, Repeated, Sampled, account
from tacit.accounting import Poisson as PoissonScheme
from tacit.deep.clipping import adaptive, automatic, per_layer
from tacit.deep.errors import TrainingError
from tacit.deep.loader import PrivateLoader, Reads
from tacit.deep.noise import step_noise
from tacit.deep.private import MOST, ROUNDING, Independent, PrivateTraining, make_private, make_private_with_epsilon, planned_steps
from tacit.deep.samplers import Allocation, FixedSize, FullBatch, PoissonBatches
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode

N, D = 60, 4


def records(seed: int = 0, n: int = N) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    return torch.randn(n, D, dtype=torch.float64), torch.randint(3, (n,))


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, 3)).double()


class Silent(Independent):
    """No noise: for tests of arithmetic only."""

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        return sums * times


def run(model: nn.Module, data: Any, *, seed: int | None = 1, **how: Any) -> PrivateTraining:
    how = {"noise_multiplier": 1.0, "clip": 0.3, "sampler": PoissonBatches(10, N), "steps": 5} | how
    private = make_private(model, torch.optim.SGD(model.parameters(), lr=0.5), data, **how)
    if seed is None:
        train(private)
    else:
        with test_mode(seed):
            train(private)
    return private


def train(private: PrivateTraining) -> None:
    model, optimizer, loader = private
    while private.remaining():
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def flat_parameters(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def naive(model: nn.Module, data: tuple[Tensor, Tensor], steps: int, clip: float, lr: float) -> nn.Module:
    """Full-batch descent with each example's gradient computed and clipped on its own."""
    for _ in range(steps):
        total = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for x, y in zip(*data, strict=True):
            model.zero_grad()
            nn.functional.cross_entropy(model(x[None]), y[None]).backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            norm = math.sqrt(sum(float((g**2).sum()) for g in gradients if g is not None))
            for place, gradient in zip(total, gradients, strict=True):
                assert gradient is not None
                place += gradient * min(1.0, clip / norm)
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), total, strict=True):
                parameter -= lr * gradient / len(data[0])
    return model


def test_without_noise_it_is_clipped_gradient_descent() -> None:
    data = records()
    private = run(network(), data, sampler=FullBatch(N), noise=Silent(), steps=3)
    truth = naive(network(), data, 3, 0.3, 0.5)
    assert torch.allclose(flat_parameters(private.model), flat_parameters(truth), atol=1e-12)
    unclipped = naive(network(), data, 3, 1e9, 0.5)
    assert not torch.allclose(flat_parameters(private.model), flat_parameters(unclipped), atol=1e-3), "clipping is seen"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("physical", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    "sampler", [PoissonBatches(10, N), Allocation(6, N), FixedSize(10, N), FullBatch(N)], ids=lambda s: type(s).__name__
)
def test_pieces_change_nothing(sampler: Any, physical: int) -> None:
    whole = run(network(), records(), sampler=sampler, steps=12)
    pieces = run(network(), records(), sampler=sampler, steps=12, physical_batch=physical)
    assert pieces.steps == whole.steps == 12
    assert torch.allclose(flat_parameters(pieces.model), flat_parameters(whole.model), atol=1e-6)


def test_workers_and_a_plain_data_set_change_nothing() -> None:
    class Rows(Dataset[Any]):
        def __init__(self) -> None:
            self.x, self.y = records()

        def __len__(self) -> int:
            return N

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            return self.x[index], self.y[index]

    whole = run(network(), records())
    rows = run(network(), Rows())
    assert torch.allclose(flat_parameters(rows.model), flat_parameters(whole.model), atol=1e-12)


class Zero(nn.Module):
    """A model whose loss has no gradient: what its parameters move by is noise alone."""

    def __init__(self, size: int = 2000) -> None:
        super().__init__()
        self.layer = nn.Linear(size, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * 0


@pytest.mark.parametrize(
    "sampler",
    [PoissonBatches(1, 10), PoissonBatches(5, 10), FullBatch(10), PoissonBatches(1, 10**6)],
    ids=["1", "5", "10", "empty"],
)
def test_noise_is_added_once_whatever_the_batch(sampler: Any) -> None:
    """The sum's noise has deviation sigma C; 2,000 sums of ten draws put its estimate within 8% (5 sd); noise per example would be more."""
    model = Zero()
    start = flat_parameters(model)
    private = make_private(
        model, torch.optim.SGD(model.parameters(), lr=1.0), torch.zeros(10, 2000), noise_multiplier=2.0, clip=3.0, sampler=sampler, steps=10
    )
    with test_mode(4):
        while private.remaining():
            for (x,) in private.loader:
                private.optimizer.zero_grad()
                model(x).mean().backward()
                private.optimizer.step()
    total = flat_parameters(model) - start
    assert private.steps == 10
    deviation = float(total.std()) / math.sqrt(10) * float(sampler.divisor)
    assert deviation == pytest.approx(6.0 * ROUNDING, rel=5 / math.sqrt(2 * 2000))
    assert not math.isclose(deviation, 6.0 / math.sqrt(10), rel_tol=0.3)


def test_an_empty_batch_is_a_step_like_any_other() -> None:
    """Three records, each with chance 1e-6: every batch is empty, the loop runs ten times all the same, and ten noisy steps are paid."""
    model = network()
    before = flat_parameters(model)
    private = make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        records(n=3),
        noise_multiplier=1,
        clip=1,
        sampler=PoissonBatches(1, 10**6),
        steps=10,
    )
    for x, y in private.loader:
        assert len(x) == len(y) == 1 and not x.any(), "a placeholder"
        nn.functional.cross_entropy(model(x), y).backward()
        private.optimizer.step()
    assert private.steps == 10 and not torch.equal(flat_parameters(model), before)


# The price


def test_the_price_is_the_samplers_event() -> None:
    private = run(network(), records(), seed=None, steps=7)
    assert private.event == Repeated(Sampled(PoissonScheme(private.sampler.rate), Gaussian(1.0)), 7)  # type: ignore[attr-defined]
    assert private.get_epsilon(1e-5).upper == account(private.event).epsilon(1e-5).upper


def test_epsilon_grows_as_training_goes_on_and_starts_at_nothing() -> None:
    model = network()
    private = make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), records(), noise_multiplier=1, clip=1, sampler=FullBatch(N), steps=4
    )
    seen = [private.get_epsilon(1e-5).upper]
    for _ in range(4):
        for x, y in private.loader:
            nn.functional.cross_entropy(model(x), y).backward()
            private.optimizer.step()
            seen.append(private.get_epsilon(1e-5).upper)
    assert seen[0] == 0 and seen == sorted(seen) and len(set(seen)) == 5


@pytest.mark.parametrize("sampler", [PoissonBatches(6, N), Allocation(10, N), FullBatch(N)], ids=lambda s: type(s).__name__)
def test_a_target_is_met_and_never_exceeded(sampler: Any) -> None:
    model = network()
    private = make_private_with_epsilon(
        model, torch.optim.SGD(model.parameters(), lr=0.1), records(), epsilon=1.5, delta=1e-5, clip=1.0, sampler=sampler, epochs=2
    )
    train(private)
    found = private.get_epsilon(1e-5)
    assert found.upper <= 1.5 and found.upper > 1.49


def test_test_mode_has_no_epsilon() -> None:
    private = run(network(), records(), seed=3)
    assert "NOT PRIVATE" in repr(private)
    with pytest.raises(TrainingError, match="NOT PRIVATE"):
        private.get_epsilon(1e-5)


# The protocol


@pytest.fixture
def fresh() -> PrivateTraining:
    model = network()
    return make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), records(), noise_multiplier=1, clip=1, sampler=FullBatch(N), steps=3
    )


def loss(private: PrivateTraining, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(private.model(batch[0]), batch[1])


def test_a_step_without_a_batch_is_refused(fresh: PrivateTraining) -> None:
    with pytest.raises(TrainingError, match="without a batch"):
        fresh.optimizer.step()


def test_a_batch_without_a_step_is_refused(fresh: PrivateTraining) -> None:
    batches = iter(PrivateLoader(Reads(fresh.loader.dataset), PoissonBatches(30, N), fresh))
    loss(fresh, next(batches)).backward()
    with pytest.raises(TrainingError, match=r"before optimizer\.step"):
        next(batches)
    assert fresh.steps == 0


def test_a_step_counts_once(fresh: PrivateTraining) -> None:
    for batch in fresh.loader:
        loss(fresh, batch).backward()
        fresh.optimizer.step()
        with pytest.raises(TrainingError, match="without a batch"):
            fresh.optimizer.step()
    assert fresh.steps == 1


def test_other_examples_than_those_handed_out_are_refused(fresh: PrivateTraining) -> None:
    for x, y in fresh.loader:
        loss(fresh, (x[:5], y[:5])).backward()
        with pytest.raises(TrainingError, match="other examples"):
            fresh.optimizer.step()
        break
    assert fresh.steps == 0


def test_a_backward_pass_on_the_side_is_refused(fresh: PrivateTraining) -> None:
    for batch in fresh.loader:
        loss(fresh, batch).backward()
        loss(fresh, records(7)).backward()
        with pytest.raises(TrainingError, match="other examples"):
            fresh.optimizer.step()
        break


def test_evaluation_on_the_side_is_fine(fresh: PrivateTraining) -> None:
    for batch in fresh.loader:
        loss(fresh, batch).backward()
        with torch.no_grad():
            loss(fresh, records(7))
        fresh.optimizer.step()
    assert fresh.steps == 1


def test_a_closure_is_refused(fresh: PrivateTraining) -> None:
    for _ in fresh.loader:
        with pytest.raises(TrainingError, match="closure"):
            fresh.optimizer.step(lambda: 0.0)
        break


def test_more_steps_than_planned_are_refused(fresh: PrivateTraining) -> None:
    train(fresh)
    with pytest.raises(TrainingError, match="all 3 planned steps"):
        next(iter(fresh.loader))


def test_a_loop_that_breaks_off_may_begin_again(fresh: PrivateTraining) -> None:
    for batch in fresh.loader:
        loss(fresh, batch).backward()
        break
    train(fresh)
    assert fresh.steps == 3


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


UNUSABLE = {"iterable": Endless(), "empty": [], "number": 3, "uneven": (torch.zeros(3), torch.zeros(4)), "none": None}


@pytest.mark.parametrize("data", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_cannot_be_sampled_is_refused(data: Any) -> None:
    model = network()
    with pytest.raises(ParameterError, match=r"data|tensors|Dataset"):
        make_private(model, torch.optim.SGD(model.parameters(), lr=1), data, noise_multiplier=1, clip=1, sampler=FullBatch(N), steps=1)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"noise_multiplier": 0}, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"clip": -1}, "clip"),
        ({"steps": 0}, "steps"),
        ({"steps": None}, "steps= or epochs="),
        ({"epochs": 2}, "steps= or epochs="),
        ({"loss_reduction": "max"}, "loss_reduction"),
        ({"clip": adaptive(count_noise=0.1)}, "count_noise"),
        ({"exact": False}, "exact"),
    ],
    ids=range(9),
)
def test_a_bad_plan_is_refused_by_name_and_leaves_no_trace(change: dict[str, Any], names: str) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    plan: dict[str, Any] = {"noise_multiplier": 1, "clip": 1, "sampler": FullBatch(N), "steps": 1} | change
    with pytest.raises(ParameterError, match=names):
        make_private(model, optimizer, records(), **plan)
    assert "step" not in optimizer.__dict__ and "forward" not in model.__dict__


def test_batch_normalisation_is_refused() -> None:
    model = nn.Sequential(nn.Linear(D, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    with pytest.raises(Exception, match="BatchNorm"):
        run(model, records())


def test_an_optimiser_of_something_else_is_refused() -> None:
    model = network()
    for parameters in (list(model.parameters())[:2], network().parameters()):
        with pytest.raises(ParameterError, match="optimizer"):
            make_private(model, torch.optim.SGD(parameters, lr=1), records(), noise_multiplier=1, clip=1, sampler=FullBatch(N), steps=1)


# Optimisers, schedulers, rules


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
def test_any_optimiser_sees_the_same_private_gradients(optimizer: Any) -> None:
    """The same run by hand: the recorded private gradients, fed to a fresh optimiser of the same kind."""
    model, twin = network(), network()
    by_hand = optimizer(twin.parameters(), lr=0.01)
    mine = optimizer(model.parameters(), lr=0.01)
    private = make_private(model, mine, records(), noise_multiplier=1, clip=1, sampler=FullBatch(N), steps=4)
    while private.remaining():
        for batch in private.loader:
            loss(private, batch).backward()
            private.optimizer.step()
            for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
                assert ours.grad is not None
                theirs.grad = ours.grad.clone()
            by_hand.step()
    assert torch.allclose(flat_parameters(model), flat_parameters(twin), atol=1e-12)


@pytest.mark.parametrize("before", [True, False])
def test_schedulers_work_made_before_or_after(before: bool) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5) if before else None
    private = make_private(model, optimizer, records(), noise_multiplier=1, clip=1, sampler=FullBatch(N), steps=3)
    scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    while private.remaining():
        for batch in private.loader:
            loss(private, batch).backward()
            optimizer.step()
            scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.125


def test_detached_everything_is_plain_again() -> None:
    private = run(network(), records())
    private.detach()
    model, optimizer, _ = private
    loss(private, records()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    before = flat_parameters(model)
    optimizer.step()
    assert not torch.equal(flat_parameters(model), before) and private.steps == 5


def test_an_adaptive_threshold_follows_the_norms_and_pays_for_the_count() -> None:
    rule = adaptive(clip=1e-3, count_noise=2.0, learning_rate=1.0)
    private = run(network(), records(), clip=rule, sampler=FullBatch(N), steps=40, noise_multiplier=0.5)
    norms = private.rule.clip  # type: ignore[attr-defined]
    assert 0.05 < norms < 5, "the median norm of this problem is about one"
    assert all(share is not None and 0 <= share <= 1 for share in private.history.clipped)
    assert private.event == Repeated(Gaussian(0.5), 40), "gradient and count together are one Gaussian mechanism"


@pytest.mark.parametrize("rule", [automatic(), per_layer(1.0)], ids=["automatic", "per layer"])
def test_other_rules_run(rule: Any) -> None:
    assert run(network(), records(), clip=rule).steps == 5


def test_noise_lies_on_a_lattice() -> None:
    model = network().double()
    plan: dict[str, Any] = {"noise_multiplier": 1, "clip": 1, "sampler": FullBatch(N), "steps": 1}
    inputs, labels = records()
    private = make_private(model, torch.optim.SGD(model.parameters(), lr=0.0), (inputs.double(), labels), exact=True, **plan)
    train(private)
    size = sum(parameter.numel() for parameter in model.parameters())
    noise = step_noise(1.0, ROUNDING, Independent().rounding(size, MOST * N))
    granule = float(noise.granularities[0])
    for parameter in model.parameters():
        assert parameter.grad is not None
        multiples = parameter.grad * N / granule
        assert torch.allclose(multiples, multiples.round(), rtol=0, atol=1e-2)
    with pytest.raises(ParameterError, match="no bound"):
        make_private(model, torch.optim.SGD(model.parameters(), lr=0.0), records(), exact=False, **plan)


# The ledger and checkpoints


class Touched(Dataset[Any]):
    """Records that tell whether they were read."""

    def __init__(self) -> None:
        self.read = False

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.read = True
        return torch.zeros(D, dtype=torch.float64), torch.tensor(0)


def book(tmp_path: Path, epsilon: float) -> Any:
    return Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("training", Budget(epsilon=epsilon, delta="1e-5"))


def test_the_ledger_refuses_before_a_record_is_read(tmp_path: Path) -> None:
    data, model = Touched(), network()
    ledger = book(tmp_path, 0.01)
    private = make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=1),
        data,
        noise_multiplier=1,
        clip=1,
        sampler=FullBatch(N),
        steps=2,
        account=ledger,
        delta=1e-6,
    )
    with pytest.raises(BudgetExceeded):
        next(iter(private.loader))
    assert not data.read and private.steps == 0


def test_a_run_is_booked_once_and_a_resumed_one_again(tmp_path: Path) -> None:
    ledger = book(tmp_path, 100)
    how: dict[str, Any] = {"noise_multiplier": 4, "clip": 1, "sampler": FullBatch(N), "steps": 4, "account": ledger, "delta": 1e-6}

    def begin() -> PrivateTraining:
        model = network()
        return make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), records(), **how)

    private = begin()
    for _ in range(2):
        for batch in private.loader:
            loss(private, batch).backward()
            private.optimizer.step()
    checkpoint = copy.deepcopy((private.model.state_dict(), private.state_dict()))
    halfway = private.get_epsilon(1e-6)
    train(private)
    whole = private.get_epsilon(1e-6)
    paid_once = ledger.spent()["epsilon"]

    ends = []
    for _ in range(2):
        resumed = begin()
        resumed.model.load_state_dict(checkpoint[0])
        resumed.load_state_dict(checkpoint[1])
        assert resumed.get_epsilon(1e-6).upper == pytest.approx(halfway.upper) and resumed.remaining() == 2
        train(resumed)
        assert resumed.get_epsilon(1e-6).upper == pytest.approx(whole.upper, rel=1e-9)
        ends.append(flat_parameters(resumed.model))
    assert not torch.equal(*ends), "twice from one checkpoint: other noise"
    assert ledger.spent()["epsilon"] > paid_once, "and the ledger knows"


def test_a_checkpoint_belongs_at_the_start() -> None:
    private = run(network(), records())
    with pytest.raises(TrainingError, match="before its first step"):
        private.load_state_dict(private.state_dict())


def test_plans() -> None:
    assert planned_steps(Allocation(7, 70), None, 3) == 21
    assert planned_steps(PoissonBatches(7, 70), 3, None) == 3


def test_a_drowned_run_says_so() -> None:
    model = Zero(50)
    private = make_private(
        model, torch.optim.SGD(model.parameters(), lr=1), torch.ones(5, 50), noise_multiplier=1, clip=1, sampler=FullBatch(5), steps=60
    )
    with test_mode(9), pytest.warns(UserWarning, match="drowns"):
        while private.remaining():
            for (x,) in private.loader:
                model(x).mean().backward()
                private.optimizer.step()
    assert private.history.drowned
