"""A DataLoader of torch as it is: what is kept, what is replaced, what is refused; collate functions that let records see each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

from tacit.accounting import Gaussian, ParameterError
from tacit.deep.errors import TrainingError
from tacit.deep.loader import Reads, joined
from tacit.deep.private import PrivateTraining, make_private, make_private_with_epsilon
from tacit.deep.samplers import Allocation, PoissonBatches
from tacit.ledger import ReleaseFailed

N = 40


def rows() -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(torch.randn(N, 3), torch.randint(2, (N,)))


class Texts(Dataset[Any]):
    """Records of different lengths; knows which were read, and how."""

    def __init__(self, records: int = N) -> None:
        self.records = records
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.records

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        self.read.append(place)
        return torch.full((1 + place % 5,), float(place)), place % 2


def padded(length: int | None) -> Callable[[list[Any]], Any]:
    """Pads to a fixed length, or, without one, to the longest of the batch."""

    def collate(records: list[Any]) -> Any:
        longest = max(len(x) for x, _ in records) if length is None else length
        filled = torch.stack([nn.functional.pad(x, (0, longest - len(x))) for x, _ in records])
        return filled, torch.tensor([y for _, y in records])

    return collate


class Net(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x)
        return found


def run(loader: Any, *, width: int = 3, **how: Any) -> PrivateTraining:
    model = Net(width)
    plan = {"noise_multiplier": 1.0, "clip": 1.0, "size": N, "steps": 3} | how
    return make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, **plan)


def train(private: PrivateTraining) -> None:
    while private.remaining():
        for x, y in private.loader:
            nn.functional.cross_entropy(private.model(x), y).backward()
            private.optimizer.step()


@pytest.mark.parametrize("options", [{"shuffle": True}, {}, {"shuffle": True, "drop_last": True}], ids=str)
def test_a_loader_goes_in_and_its_batches_become_poisson(options: dict[str, Any]) -> None:
    """Whether it shuffled or dropped its last batch changes nothing: neither is done any more."""
    private = run(DataLoader(rows(), batch_size=8, **options))
    assert private.sampler == PoissonBatches(expected_batch=8, size=N)
    train(private)
    assert private.event == PoissonBatches(8, N).event(Gaussian(1.0), 3)
    assert len(private.loader) == 5


def test_batches_of_the_usual_making_may_be_given_by_hand() -> None:
    private = run(DataLoader(rows(), batch_sampler=BatchSampler(RandomSampler(rows()), 8, drop_last=True)))
    assert private.sampler == PoissonBatches(8, N)


def test_the_size_is_declared_and_not_the_length() -> None:
    """More or fewer records than declared are neither noticed nor refused: how many there are is private."""
    for records in (1, 30, 90):
        data = TensorDataset(torch.zeros(records, 3), torch.zeros(records, dtype=torch.long))
        private = run(DataLoader(data, batch_size=8))
        train(private)
        assert private.sampler == PoissonBatches(8, N)
        assert len(private.loader) == 5


def test_a_sampler_may_be_given_beside_the_loader() -> None:
    private = run(DataLoader(rows(), batch_size=8), sampler=Allocation(steps=4, size=N), size=None)
    train(private)
    assert private.sampler == Allocation(steps=4, size=N)


def test_a_target_works_too() -> None:
    model = Net()
    loader = DataLoader(rows(), batch_size=8)
    private = make_private_with_epsilon(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loader, epsilon=2, delta=1e-5, clip=1.0, size=N, epochs=1
    )
    train(private)
    assert private.get_epsilon(1e-5).upper <= 2


def seen(worker: int) -> None:
    torch.manual_seed(worker)


def test_workers_and_the_rest_are_kept() -> None:
    """Two persistent workers, over two passes, with a break in between: every draw is one step."""
    generator = torch.Generator()
    given = DataLoader(
        Texts(), batch_size=8, collate_fn=padded(5), num_workers=1, worker_init_fn=seen, prefetch_factor=3, persistent_workers=True,
        pin_memory=True, timeout=60, generator=generator,
    )
    reads = Reads.of(given)
    assert reads.data is given.dataset
    assert reads.collate is given.collate_fn
    assert reads.options == {
        "num_workers": 1, "pin_memory": True, "worker_init_fn": seen, "prefetch_factor": 3, "persistent_workers": True,
        "multiprocessing_context": None, "timeout": 60, "generator": generator,
    }
    private = run(given, width=5, steps=7)
    for x, y in private.loader:
        nn.functional.cross_entropy(private.model(x), y).backward()
        private.optimizer.step()
        break
    train(private)
    assert private.steps == 7


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(torch.zeros(3, 3))


class Own(BatchSampler):
    """Batches of the user's own making."""


WEIGHTS = WeightedRandomSampler([1.0] * N, N)
OWN = {
    "weights": lambda: DataLoader(rows(), batch_size=8, sampler=WEIGHTS),
    "with replacement": lambda: DataLoader(rows(), batch_size=8, sampler=RandomSampler(rows(), replacement=True)),
    "only some": lambda: DataLoader(rows(), batch_size=8, sampler=RandomSampler(rows(), num_samples=10)),
    "a batch sampler": lambda: DataLoader(rows(), batch_sampler=Own(SequentialSampler(rows()), 8, drop_last=False)),
    "with replacement in batches": lambda: DataLoader(
        rows(), batch_sampler=BatchSampler(RandomSampler(rows(), replacement=True), 8, drop_last=False)
    ),
    "weights in batches": lambda: DataLoader(rows(), batch_sampler=BatchSampler(WEIGHTS, 8, drop_last=False)),
}


@pytest.mark.parametrize("kind", list(OWN))
def test_a_sampler_of_ones_own_is_refused(kind: str) -> None:
    for how in ({}, {"sampler": PoissonBatches(8, N), "size": None}):
        with pytest.raises(ParameterError, match="sampler of its own"):
            run(OWN[kind](), **how)


def test_other_refusals_name_the_way_out() -> None:
    with pytest.raises(ParameterError, match="IterableDataset"):
        run(DataLoader(Stream(), batch_size=2))
    with pytest.raises(ParameterError, match="batch_size=None"):
        run(DataLoader(rows(), batch_size=None), sampler=PoissonBatches(8, N), size=None)
    with pytest.raises(ParameterError, match="how many records there are is private"):
        run(DataLoader(rows(), batch_size=8), size=None)
    with pytest.raises(ParameterError, match="not both"):
        run(DataLoader(rows(), batch_size=8), sampler=PoissonBatches(8, N))
    with pytest.raises(ParameterError, match="for other data give sampler="):
        run(rows())
    with pytest.raises(ParameterError, match="leave out workers= and collate="):
        run(DataLoader(rows(), batch_size=8), workers=1)
    with pytest.raises(ParameterError, match="not DataFrame"):
        import pandas as pd

        run(pd.DataFrame({"a": [1]}), sampler=PoissonBatches(8, N), size=None)


class Both(Dataset[Any]):
    """A data set that reads several records at once."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, place: int) -> Any:
        raise AssertionError("read one by one")

    def __getitems__(self, places: list[int]) -> list[Any]:
        return [(torch.zeros(3), place % 2) for place in places]


KINDS = {"many at once": Both(), "a subset": Subset(rows(), range(20)), "a list": [(torch.zeros(3), k % 2) for k in range(N)]}


@pytest.mark.parametrize("kind", list(KINDS))
def test_data_sets_of_every_kind(kind: str) -> None:
    train(run(DataLoader(KINDS[kind], batch_size=8)))


class Shrinking(Texts):
    """A data set that forgets records after it was counted."""

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        if place >= self.records:
            raise KeyError(f"canary {place}")
        return super().__getitem__(place)


def test_a_length_that_changes_later_fails_without_a_word_of_the_data() -> None:
    data = Shrinking()
    private = run(DataLoader(data, batch_size=N, collate_fn=padded(5)), width=5)
    data.records = 3
    with pytest.raises(ReleaseFailed) as raised:
        train(private)
    assert "canary" not in str(raised.value)


# Collate


def mixup(records: list[Any]) -> Any:
    x, y = padded(5)(records)
    return x + 0.1 * x.roll(1, 0), y


def centred(records: list[Any]) -> Any:
    x, y = padded(5)(records)
    return x - x.mean(0), y


def told(records: list[Any]) -> Any:
    """The number of distinct first values goes along as a number."""
    x, y = padded(5)(records)
    return x, y, len(set(x[:, 0].tolist()))


def first_for_all(records: list[Any]) -> Any:
    x, y = padded(5)(records)
    return x[:1].expand_as(x), y


def noisy(records: list[Any]) -> Any:
    """Chance, from three generators, for each record alone."""
    x, y = padded(5)(records)
    moved = torch.tensor([random.random() + np.random.rand() for _ in records])
    return x + moved[:, None] + torch.rand(len(x), 1), y


def in_place(records: list[Any]) -> Any:
    for x, _ in records:
        x.mul_(2)
    return padded(5)(records)


def names(records: list[Any]) -> Any:
    x, y = padded(5)(records)
    return {"x": x, "y": y, "names": [str(float(row[0])) for row in x], "half": x.to(torch.bfloat16)}


Collate = Callable[[list[Any]], Any]
JOIN: dict[str, Collate] = {"longest": padded(None), "mixup": mixup, "centred": centred, "told": told, "first": first_for_all}
APART: dict[str, Collate] = {"fixed": padded(5), "noisy": noisy, "in place": in_place, "names": names}


@pytest.mark.parametrize("kind", list(JOIN))
def test_a_collate_that_joins_records_is_refused(kind: str) -> None:
    private = run(DataLoader(Texts(), batch_size=20, collate_fn=JOIN[kind]), width=5)
    with pytest.raises(TrainingError, match="collate lets records see each other"):
        train(private)
    assert private.steps == 0


@pytest.mark.parametrize("kind", list(APART))
def test_one_that_does_not_is_taken(kind: str) -> None:
    assert not joined(APART[kind], [Texts()[k] for k in range(9)])


def test_a_collate_may_change_its_records_in_place() -> None:
    """What is looked at is a copy: the batch that is handed out was collated once."""
    data = [(torch.full((5,), 1.0), 1) for _ in range(N)]
    private = run(DataLoader([data[0]] * N, batch_size=N, collate_fn=lambda rows: padded(5)([(x * 2, y) for x, y in rows])), width=5)
    x, _ = next(iter(private.loader))
    assert torch.equal(x, torch.full_like(x, 2.0))


def test_looking_leaves_chance_where_it_was() -> None:
    states = random.getstate(), torch.get_rng_state()
    joined(noisy, [Texts()[k] for k in range(9)])
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])


def test_the_run_may_go_on_and_says_so() -> None:
    private = run(DataLoader(Texts(), batch_size=20, collate_fn=mixup), width=5, allow_unseen=True)
    train(private)
    assert "not checked" in repr(private)


def test_a_collate_that_joins_records_later_is_found_later() -> None:
    """Looked at in the draws 1, 2, 4, 8, ..."""
    calls = []

    def later(records: list[Any]) -> Any:
        calls.append(len(records))
        return (mixup if len(calls) > 20 else padded(5))(records)

    private = run(DataLoader(Texts(), batch_size=20, collate_fn=later), width=5, steps=40)
    with pytest.raises(TrainingError, match="collate"):
        train(private)
    assert private.steps in (7, 15)
