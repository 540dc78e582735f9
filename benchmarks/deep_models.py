"""The models of the deep-learning benchmark, and one training step of each contender: plain torch, ours, and every mode of Opacus.

A step is everything from clearing gradients to updating the parameters, noise included. All contenders get the same model, data, loss and
optimiser (SGD). Opacus draws its noise from torch's ordinary generator; ours comes from the secure one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from measure import Missing
from torch import Tensor, nn

from tacit.deep import FullBatch, make_private

CLIP, MULTIPLIER = 1.0, 1.1
OPACUS = ("hooks", "functorch", "ew", "ghost")
Step = Callable[[int], float]


class Classifier(nn.Module):
    """Two transformer layers on tokens, mean over time, one linear layer."""

    def __init__(self, vocabulary: int = 2000, width: int = 128, time: int = 64, classes: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        output: Tensor = self.head(self.encoder(self.tokens(tokens)).mean(1))
        return output


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def small_cnn() -> nn.Module:
    """The network of Papernot et al. 2019 for 28 x 28 images, which Opacus' example uses too."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def large_cnn() -> nn.Module:
    """The network of Papernot et al. 2021 for 32 x 32 colour images: six convolutions, 550,000 parameters."""
    layers: list[nn.Module] = []
    before = 3
    for width in (32, 64, 128):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        before = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10))


@dataclass(frozen=True)
class Case:
    """A model, its batch, and what its training step may cost at most, in plain steps."""

    make: Callable[[], nn.Module]
    batch: int
    shape: tuple[int, ...]
    classes: int
    target: float
    tokens: int = 0

    def data(self) -> tuple[Tensor, Tensor]:
        inputs = torch.randint(self.tokens, (self.batch, *self.shape)) if self.tokens else torch.randn(self.batch, *self.shape)
        return inputs, torch.randint(self.classes, (self.batch,))


CASES = {
    "MLP 784-512-512-10, batch 512": Case(mlp, 512, (784,), 10, 1.6),
    "small CNN 28x28, batch 256": Case(small_cnn, 256, (1, 28, 28), 10, 1.45),
    "larger CNN 32x32, batch 64": Case(large_cnn, 64, (3, 32, 32), 10, 1.7),
    "transformer 2 layers, batch 64": Case(Classifier, 64, (64,), 4, 1.5, tokens=2000),
}


def plain(case: Case) -> Step:
    model, (inputs, labels) = case.make(), case.data()
    optimizer, criterion = torch.optim.SGD(model.parameters(), 1e-3), nn.CrossEntropyLoss()

    def step(turn: int) -> float:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def tacit(case: Case) -> Step:
    """A step of `make_private`, but for its loader: the others are handed their batch, too."""
    model, (inputs, labels) = case.make(), case.data()
    optimizer, criterion = torch.optim.SGD(model.parameters(), 1e-3), nn.CrossEntropyLoss()
    sampler = FullBatch(case.batch)
    private = make_private(model, optimizer, (inputs, labels), noise_multiplier=MULTIPLIER, clip=CLIP, sampler=sampler, steps=10**6)

    def step(turn: int) -> float:
        private.handed_out(case.batch)
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def opacus(mode: str) -> Callable[[Case], Step]:
    def make(case: Case) -> Step:
        try:
            from opacus import PrivacyEngine
            from opacus.validators import ModuleValidator
        except ImportError:
            raise Missing("not installed") from None
        warnings.simplefilter("ignore")
        model, (inputs, labels) = ModuleValidator.fix(case.make()).train(), case.data()
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=case.batch)
        made: Any = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=MULTIPLIER, max_grad_norm=CLIP,
            poisson_sampling=False, grad_sample_mode=mode, criterion=nn.CrossEntropyLoss(),
        )  # fmt: skip
        criterion: Any = nn.CrossEntropyLoss()
        if mode == "ghost":
            private, optimizer, criterion, _ = made
        else:
            private, optimizer, _ = made

        def step(turn: int) -> float:
            optimizer.zero_grad()
            loss = criterion(private(inputs), labels)
            loss.backward()
            optimizer.step()
            return float(loss.detach())

        return step

    return make


CONTENDERS: dict[str, Callable[[Case], Step]] = {"plain": plain, "tacit": tacit, **{f"opacus {mode}": opacus(mode) for mode in OPACUS}}
