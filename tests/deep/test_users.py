"""Training by user: clipping equals the naive loop over users, a user moves the sum by the clip at most, the price is the group's."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from tacit.accounting import Gaussian, Group, MixtureOfGaussians, ParameterError, Repeated, account
from tacit.deep.clipping import Clipper, ClippingError, adaptive, automatic, flat, per_layer
from tacit.deep.private import Independent, make_private
from tacit.deep.samplers import FullBatch, PoissonBatches
from tacit.deep.users import ByExample, UserClipper, UserTraining, by_user, cap, capped, compare, make_user_private
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode


class Sequence(nn.Module):
    """An embedding, a linear layer on a sequence, a convolution and a normalisation: every form of part."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.linear = nn.Linear(6, 6)
        self.convolution = nn.Conv1d(6, 4, 2)
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = torch.tanh(self.linear(self.embedding(tokens)))
        x = self.norm(torch.tanh(self.convolution(x.transpose(1, 2))).mean(2))
        return self.out(x)


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def batch(kind: str, sizes: list[int]) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(3)
    rows = sum(sizes)
    if kind == "dense":
        return dense(), torch.randn(rows, 5, dtype=torch.float64), torch.randint(3, (rows,))
    return Sequence().double(), torch.randint(7, (rows, 5)), torch.randint(3, (rows,))


def naive(model: nn.Module, x: Tensor, y: Tensor, sizes: list[int], clip: float, *, average: bool = True, by_layer: bool = False) -> Tensor:
    """One user at a time: the gradient of the user's mean (or summed) loss, clipped, summed."""
    totals = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    start = 0
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in totals))
    for size in sizes:
        model.zero_grad()
        rows = slice(start, start + size)
        nn.functional.cross_entropy(model(x[rows]), y[rows], reduction="mean" if average else "sum").backward()
        start += size
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        for layer in layers if by_layer else [""]:
            names = [name for name in totals if not by_layer or name.rpartition(".")[0] == layer]
            norm = math.sqrt(sum(float((gradients[name] ** 2).sum()) for name in names))  # type: ignore[operator]
            limit = clip / math.sqrt(len(layers)) if by_layer else clip
            for name in names:
                totals[name] += gradients[name] * min(1.0, limit / norm)  # type: ignore[operator]
    model.zero_grad()
    return torch.cat([total.reshape(-1) for total in totals.values()])


def clipped(clipper: Clipper, model: nn.Module, x: Tensor, y: Tensor, reduction: str = "mean") -> Any:
    with clipper:
        nn.functional.cross_entropy(model(x), y, reduction=reduction).backward()
        return clipper.collect()


def flattened(found: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in found.sums.values()])


@pytest.mark.parametrize("kind", ["dense", "sequence"])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_clipping_a_user_is_the_naive_loop(kind: str, average: bool, reduction: Any) -> None:
    sizes = [3, 1, 5, 2]
    model, x, y = batch(kind, sizes)
    clip = 0.2
    expected = naive(model, x, y, sizes, clip, average=average)
    found = clipped(UserClipper(model, flat(clip), lambda: sizes, loss_reduction=reduction, average=average), model, x, y, reduction)
    assert torch.allclose(flattened(found), expected, rtol=1e-9, atol=1e-11)
    assert found.count == 4 and found.norms.shape == (1, 4) and (found.factors < 1).any()


def test_clipping_by_layer() -> None:
    sizes = [2, 4, 1]
    model, x, y = batch("sequence", sizes)
    found = clipped(UserClipper(model, per_layer(0.3), lambda: sizes), model, x, y)
    assert torch.allclose(flattened(found), naive(model, x, y, sizes, 0.3, by_layer=True), rtol=1e-9, atol=1e-11)


def test_clipping_examples_is_not_clipping_users() -> None:
    """The mutant: each record clipped on its own, as an example-level clipper does, lets a user move the sum by as often the clip."""
    sizes = [8]
    model, x, y = batch("dense", sizes)
    x, y = x[:1].repeat(8, 1), y[:1].repeat(8)
    clip = 0.1
    users = flattened(clipped(UserClipper(model, flat(clip), lambda: sizes), model, x, y)).norm()
    examples = flattened(clipped(Clipper(model, flat(clip)), model, x, y)).norm()
    assert users <= clip * (1 + 1e-12)
    assert examples == pytest.approx(8 * clip)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.floats(0.01, 10), st.floats(-150, 150), st.booleans())
def test_a_user_moves_the_sum_by_at_most_the_clip(sizes: list[int], clip: float, exponent: float, average: bool) -> None:
    model, x, y = batch("dense", sizes)
    x = x * 10.0**exponent
    whole = flattened(clipped(UserClipper(model, flat(clip), lambda: sizes, average=average), model, x, y))
    rest = sum(sizes[1:])
    without = torch.zeros_like(whole)
    if rest:
        without = flattened(clipped(UserClipper(model, flat(clip), lambda: sizes[1:], average=average), model, x[-rest:], y[-rest:]))
    assert (whole - without).norm() <= clip * (1 + 1e-6)


def test_records_that_cancel_are_not_taken_for_nothing() -> None:
    """Two gradients of length 1e6 whose sum has length 2: in single precision it would be lost, and the clip passed."""
    model = nn.Linear(2, 1, bias=False)
    x = torch.tensor([[1e6, 1.0], [-1e6, 1.0]])
    with UserClipper(model, flat(0.5), lambda: [2], loss_reduction="sum", average=False) as clipper:
        model(x).sum().backward()
        found = clipper.collect()
    assert float(found.norms) == pytest.approx(2e6 / 4096, rel=1e-3), "a floor under what cancels: a share of the norms added up"
    assert 0 < float(found.sums["weight"].norm()) <= 0.5


def test_a_user_with_an_infinite_record_contributes_nothing_and_the_others_all() -> None:
    sizes = [2, 2]
    model, x, y = batch("dense", sizes)
    x[1, 0] = math.nan
    found = clipped(UserClipper(model, flat(1.0), lambda: sizes), model, x, y)
    alone = clipped(UserClipper(model, flat(1.0), lambda: [2]), model, x[2:], y[2:])
    assert torch.allclose(flattened(found), flattened(alone))


def test_rows_that_the_loader_did_not_hand_out_are_refused() -> None:
    model, x, y = batch("dense", [2, 2])
    clipper = UserClipper(model, flat(1.0), lambda: [2, 3])
    with pytest.raises(ClippingError, match="other rows"):
        clipped(clipper, model, x, y)


# Whole runs


class Silent(Independent):
    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        return sums * times


def trained(private: UserTraining) -> Tensor:
    model, optimizer, loader = private
    while private.remaining():
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@pytest.mark.parametrize("physical", [None, 2])
def test_a_run_is_gradient_descent_on_users_whatever_the_pieces(physical: int | None) -> None:
    owner = [2, 0, 1, 0, 2, 2, 1, 3]
    order = np.argsort(owner, kind="stable")
    model, x, y = batch("dense", [2, 2, 3, 1])
    expected = torch.cat([parameter.detach().reshape(-1).clone() for parameter in model.parameters()])
    expected -= 0.5 * naive(model, x[order], y[order], [2, 2, 3, 1], 0.2) / 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    private = make_user_private(
        model, optimizer, (x, y), owner, most=3, clip=0.2, sampler=FullBatch(4), noise_multiplier=1, steps=1, physical_batch=physical
    )
    private._noise = Silent()
    assert torch.allclose(trained(private), expected, rtol=1e-9, atol=1e-9)
    assert private.event == Repeated(Gaussian(1.0), 1)


def test_datasets_collate_and_rules_work_as_elsewhere() -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 5, dtype=torch.float64), torch.randint(3, (40,)))
    for rule in (automatic(), adaptive(count_noise=3.0)):
        model = dense()
        private = make_user_private(
            model,
            torch.optim.Adam(model.parameters()),
            Subset(data, range(30)),
            np.arange(30) % 10,
            most=2,
            clip=rule,
            sampler=PoissonBatches(3, 10),
            noise_multiplier=1.5,
            epochs=2,
        )
        before = private.rule.sensitivity(1)
        with test_mode(4):
            assert trained(private).isfinite().all()
        assert private.steps == 6 and not private.private
        assert (private.rule.sensitivity(1) != before) == (rule != automatic())


def test_noise_is_found_for_an_epsilon_of_users() -> None:
    model = dense()
    plan: dict[str, Any] = {"most": 1, "clip": 1.0, "sampler": PoissonBatches(5, 50), "steps": 20}
    private = make_user_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), torch.zeros(50, 5), range(50), epsilon=2, delta=1e-5, **plan
    )
    cost = account(PoissonBatches(5, 50).event(Gaussian(private.noise_multiplier), 20)).epsilon(1e-5)
    assert 1.999 <= cost.upper <= 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_multiplier": 1.0, "epsilon": 1.0}, "not both"),
        ({}, "give noise_multiplier"),
        ({"noise_multiplier": 1.0, "workers": 2}, "workers"),
        ({"noise_multiplier": 1.0, "sampler": ByExample(PoissonBatches(1, 4), 2)}, "make_private"),
        ({"noise_multiplier": 1.0, "users": [1, 2]}, "one entry for each record"),
        ({"noise_multiplier": 1.0, "most": 0}, "most"),
    ],
    ids=["both", "neither", "workers", "by example", "users", "most"],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    model = dense()
    plan = {"users": [0, 0, 1, 1], "most": 2, "clip": 1.0, "sampler": FullBatch(2), "steps": 1} | change
    with pytest.raises(ParameterError, match=message):
        make_user_private(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.zeros(4, 5), plan.pop("users"), **plan)


# Who is who


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 4))
def test_rows_of_users(users: list[int], most: int) -> None:
    parts = by_user(users, most)
    assert [len(part) for part in parts] == [min(most, users.count(name)) for name in sorted(set(users))]
    for name, part in zip(sorted(set(users)), parts, strict=True):
        assert all(users[row] == name for row in part) and len(set(part.tolist())) == len(part)
    kept = cap(users, most).tolist()
    assert kept == sorted(set(kept)) and len(kept) == sum(len(part) for part in parts)


def test_a_cap_keeps_each_record_equally_often() -> None:
    with test_mode(8):
        kept = np.bincount(np.concatenate([cap([1] * 5, 2) for _ in range(2000)]), minlength=5)
    assert np.abs(kept - 800).max() < 6 * math.sqrt(2000 * 0.4 * 0.6)


# Prices


def test_by_example_costs_what_a_random_shift_costs() -> None:
    """The oracle: a batch holds a binomial number of a user's records, each worth one clip."""
    rate, most, steps = Fraction(1, 100), 4, 100
    sampler = ByExample(PoissonBatches(10, 1000), most)
    weights = tuple(float(math.comb(most, k) * rate**k * (1 - rate) ** (most - k)) for k in range(most + 1))
    oracle = account(Repeated(MixtureOfGaussians(2.0, tuple(range(most + 1)), weights), steps)).epsilon(1e-5)
    found = account(sampler.event(Gaussian(2.0), steps)).epsilon(1e-5)
    assert found.upper == pytest.approx(oracle.upper, rel=1e-9)
    unpriced = account(PoissonBatches(10, 1000).event(Gaussian(2.0), steps)).epsilon(1e-5)
    assert unpriced.upper < oracle.lower, "the mutant: a record's price for a user"


def test_a_run_by_example_is_priced_for_the_user() -> None:
    owner = np.arange(40) % 10
    rows = torch.from_numpy(cap(owner, 2))
    model = dense()
    sampler = ByExample(PoissonBatches(5, 20), most=2)
    data = torch.zeros(40, 5, dtype=torch.float64)[rows], torch.zeros(40, dtype=torch.long)[rows]
    private = make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), data, noise_multiplier=2.0, clip=1.0, sampler=sampler, steps=3
    )
    trained(private)  # type: ignore[arg-type]
    assert private.event == Group(PoissonBatches(5, 20).event(Gaussian(2.0), 3), 2)
    assert private.get_epsilon(1e-5).upper > account(PoissonBatches(5, 20).event(Gaussian(2.0), 3)).epsilon(1e-5).upper


def test_the_choice_is_the_smaller_noise() -> None:
    plan: dict[str, Any] = {"users": 1000, "batch": 60, "steps": 50, "epsilon": 2, "delta": 1e-6}
    one = compare(most=1, **plan)
    assert one.by_example.noise == pytest.approx(one.by_user.noise, rel=1e-6), "with one record each the two are one"
    several = compare(most=3, **plan)
    assert several.by_user.sampler == PoissonBatches(20, 1000) and several.by_example.sampler == ByExample(PoissonBatches(60, 3000), 3)
    for way in (several.by_example, several.by_user):
        cost = account(way.sampler.event(Gaussian(way.noise_multiplier), 50)).epsilon(1e-6)
        assert 1.999 < cost.upper <= 2
    assert several.by_example.noise == several.by_example.noise_multiplier / 60
    ratio = several.by_example.noise / several.by_user.noise
    assert ratio < 1 and several.better == "by_example"
    assert compare(most=3, clip_ratio=0.99 * ratio, **plan).better == "by_user"
    with pytest.raises(ParameterError, match="records must lie"):
        compare(most=3, records=10, **plan)


@pytest.mark.parametrize("most", [1, 3, 40])
def test_capped_numbers_of_records_have_the_binomial_law(most: int) -> None:
    rate, small = Fraction(1, 50), 1e-6
    numbers, weights = capped(most, rate, small)
    exact = [math.comb(most, j) * rate**j * (1 - rate) ** (most - j) for j in range(most + 1)]
    assert numbers == tuple(range(len(numbers)))
    assert weights[:-1] == pytest.approx([float(w) for w in exact[: len(numbers) - 1]], rel=1e-12)
    assert weights[-1] == pytest.approx(float(sum(exact[len(numbers) - 1 :])), rel=1e-12)
    beyond = sum(exact[len(numbers) :])
    assert beyond <= small, "what was moved to a smaller number"
    if len(numbers) <= most:
        assert sum(exact[len(numbers) - 1 :]) > small, "and no more was moved than is needed"
    assert capped(most, rate, 0.0)[0] == tuple(range(most + 1)) and capped(most, Fraction(1), small) == ((most,), (1.0,))


@pytest.mark.slow
def test_a_large_cap_is_compared_as_exactly_as_a_small_one() -> None:
    """Against the price of the whole group, for a cap where that is quick."""
    plan: dict[str, Any] = {"users": 10_000, "batch": 500, "steps": 200, "epsilon": 2, "delta": 1e-6}
    way = compare(most=6, **plan).by_example
    assert isinstance(way.sampler, ByExample)
    price = account(way.sampler.event(Gaussian(way.noise_multiplier), 200)).epsilon(1e-6)
    assert price.lower <= 2 and price.upper == pytest.approx(2, rel=1e-4)
    assert compare(most=3000, **plan).by_example.noise_multiplier == pytest.approx(way.noise_multiplier, rel=0.02)
