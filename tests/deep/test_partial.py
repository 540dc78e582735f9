"""Adapters: the model starts unchanged, only they are trained, clipping is exact on them, merging gives the plain model back."""

from __future__ import annotations

import copy
import math
import time

import pytest
import torch
from torch import Tensor, nn

from tacit.accounting import ParameterError
from tacit.deep.clipping import Clipper, flat
from tacit.deep.partial import Adapter, add_adapters, merge_adapters, train_only, trainable
from tacit.deep.private import make_private
from tacit.deep.samplers import PoissonBatches


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        mixed, _ = self.attention(hidden, hidden, hidden, need_weights=False)
        out: Tensor = self.head(mixed.mean(1))
        return out


def batch(rows: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(rows, 4, 6, dtype=torch.float64), torch.randint(3, (rows,))


def test_adapters_change_nothing_until_trained() -> None:
    x, _ = batch()
    model = Network().double()
    before = model(x)
    names = add_adapters(model, rank=2)
    assert names == ["body.0", "body.2", "head"], "the attention's own projections are not called as layers, and stay"
    assert torch.allclose(model(x), before, rtol=1e-12, atol=1e-14)
    assert trainable(model) == 2 * (6 + 8 + 8 + 8 + 8 + 3)
    assert all(name.split(".")[-2] in ("down", "up") for name, p in model.named_parameters() if p.requires_grad)
    assert {p.dtype for p in model.parameters()} == {torch.float64}


def test_patterns_choose_layers() -> None:
    assert add_adapters(Network(), rank=1, only=["body.*"]) == ["body.0", "body.2"]
    for bad in (["nothing.*"], []):
        with pytest.raises(ParameterError, match="no linear layer"):
            add_adapters(Network(), rank=1, only=bad)
    with pytest.raises(ParameterError, match="not the string"):
        add_adapters(Network(), rank=1, only="head")
    with pytest.raises(ParameterError, match="parent"):
        add_adapters(nn.Linear(2, 2), rank=1)


def test_a_rank_too_large_is_refused_before_anything_changes() -> None:
    model = Network()
    with pytest.raises(ParameterError, match="rank must be at most 3"):
        add_adapters(model, rank=4)
    assert not any(isinstance(module, Adapter) for module in model.modules())


def test_a_private_run_trains_only_the_adapters_and_costs_the_same() -> None:
    x, y = batch(40)
    costs = []
    for partial in (False, True):
        model = Network().double()
        frozen = {}
        if partial:
            add_adapters(model, rank=2, alpha=4)
            frozen = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)
        private = make_private(model, optimizer, (x, y), noise_multiplier=1.0, clip=1.0, sampler=PoissonBatches(8, 40), steps=4)
        start = {name: p.detach().clone() for name, p in model.named_parameters()}
        for inputs, labels in private.loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        moved = {name for name, p in model.named_parameters() if not torch.equal(p, start[name])}
        assert moved == {name for name, p in model.named_parameters() if p.requires_grad}
        assert all(torch.equal(dict(model.named_parameters())[name], kept) for name, kept in frozen.items())
        costs.append(private.get_epsilon(1e-5))
        private.detach()
        if partial:
            expected = model(x)
            assert merge_adapters(model) == ["body.0", "body.2", "head"]
            assert torch.allclose(model(x), expected, rtol=1e-9, atol=1e-9)
            assert set(model.state_dict()) == set(Network().state_dict())
            assert trainable(model) == trainable(Network())
    assert costs[0] == costs[1]


def test_clipping_of_adapters_is_the_naive_loop() -> None:
    x, y = batch()
    model = Network().double()
    add_adapters(model, rank=2, only=["body.0", "head"], alpha=3)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("up.weight"):
                p.normal_()
    plain, clip = copy.deepcopy(model), 0.05
    expected = {name: torch.zeros_like(p) for name, p in plain.named_parameters() if p.requires_grad}
    for row in range(len(x)):
        plain.zero_grad()
        nn.functional.cross_entropy(plain(x[row : row + 1]), y[row : row + 1]).backward()
        gradients = {name: p.grad for name, p in plain.named_parameters() if p.grad is not None}
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
        for name, gradient in gradients.items():
            expected[name] += gradient * min(1.0, clip / norm)
    with Clipper(model, flat(clip)) as clipper:
        nn.functional.cross_entropy(model(x), y).backward()
        found = clipper.collect()
    assert set(found.sums) == set(expected)
    for name, total in expected.items():
        assert torch.allclose(found.sums[name], total, rtol=1e-9, atol=1e-12)


def test_train_only_freezes_by_name() -> None:
    model = Network()
    assert train_only(model, ["head.*", "body.2.bias"]) == ["body.2.bias", "head.weight", "head.bias"]
    assert trainable(model) == 8 + 27
    with pytest.raises(ParameterError, match="no parameter"):
        train_only(model, ["tail.*"])
    with pytest.raises(ParameterError, match="not the string"):
        train_only(model, "head.*")


def test_few_parameters_are_cheaper_to_clip_and_noise() -> None:
    """Processor seconds in one process: the step with adapters against the step with everything trained. About 0.6; the best of three."""

    def seconds(partial: bool) -> float:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
        if partial:
            add_adapters(model, rank=4)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        data = torch.randn(256, 512), torch.randint(10, (256,))
        private = make_private(model, optimizer, data, noise_multiplier=1.0, clip=1.0, sampler=PoissonBatches(64, 256), steps=8)
        start = time.process_time()
        while private.remaining():
            for x, y in private.loader:
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        return time.process_time() - start

    taken = [(seconds(False), seconds(True)) for _ in range(3)]
    assert min(few for _, few in taken) < min(whole for whole, _ in taken)
