"""The clipper's protocol: what is recorded, what is refused by name, and that no example can do more than its share."""

from __future__ import annotations

import copy
import io
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deep.clipping.naive_clipping import agree, clipped, distance, gradients, norms, squares
from torch import Tensor, nn

from tacit.deep.clipping import ROUNDING, ClippedSum, Clipper, ClippingError, automatic, flat, per_layer
from tacit.deep.validate import ModelError
from tacit.errors import ParameterError


def mlp() -> nn.Sequential:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def data(count: int = 8) -> Tensor:
    torch.manual_seed(8)
    return torch.randn(count, 5, dtype=torch.float64)


def total(result: ClippedSum) -> Tensor:
    return torch.cat([value.flatten() for value in result.sums.values()])


class Shared(nn.Module):
    """One layer called three times, once on a sequence made of its own outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        once = torch.tanh(self.layer(x))
        twice = torch.tanh(self.layer(once))
        output: Tensor = self.last(self.layer(torch.stack([once, twice], 1)).mean(1))
        return output


def test_a_layer_called_several_times() -> None:
    """The norm of a sum is not the sum of the norms: without the cross term this fails by far."""
    agree(Shared().double(), torch.randn(6, 4, dtype=torch.float64))


def test_two_names_for_one_module_and_one_parameter_in_two_modules() -> None:
    layer = nn.Linear(4, 4)
    agree(nn.Sequential(layer, nn.Tanh(), layer).double(), torch.randn(6, 4, dtype=torch.float64))
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).double()
    model[2].weight = model[0].weight
    agree(model, torch.randn(6, 4, dtype=torch.float64))


def layers(draw: Any) -> nn.Module:
    """A stack of layers on (batch, 4, 6): channels and positions, or time and features, as one likes."""
    choices: dict[str, Any] = {
        "linear": lambda: nn.Linear(6, 6),
        "conv": lambda: nn.Conv1d(4, 4, 3, padding=1, groups=draw(st.sampled_from([1, 2, 4]))),
        "layer norm": lambda: nn.LayerNorm(6),
        "rms norm": lambda: nn.RMSNorm((4, 6)),
        "group norm": lambda: nn.GroupNorm(draw(st.sampled_from([1, 2])), 4),
        "instance norm": lambda: nn.InstanceNorm1d(4, affine=True),
        "prelu": lambda: nn.PReLU(draw(st.sampled_from([1, 4]))),
        "encoder": lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
        "tanh": lambda: nn.Tanh(),
    }
    names = draw(st.lists(st.sampled_from(sorted(choices)), min_size=1, max_size=4))
    return nn.Sequential(nn.Linear(6, 6), *[choices[name]() for name in names], nn.Flatten(), nn.Linear(24, 2))


@settings(max_examples=25)
@given(data=st.data())
def test_random_architectures(data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    model = layers(data.draw).double()
    agree(model, torch.randn(data.draw(st.sampled_from([5, 6, 7])), 4, 6, dtype=torch.float64))


def test_virtual_batches_add_up_to_the_whole_batch() -> None:
    model, x = mlp(), data(9)
    with Clipper(model, flat(0.5)) as clipper:
        squares(model(x)).div(9).backward()
        whole = clipper.collect()
        for piece in x.split([4, 1, 4]):
            squares(model(piece)).div(len(piece)).backward()
        pieces = clipper.collect()
    assert distance(pieces.sums, whole.sums) < 1e-12
    assert pieces.count == 9 and torch.allclose(pieces.norms, whole.norms)


def test_mean_and_sum_must_not_be_confused() -> None:
    """The mutant: the norms of a mean loss taken as those of a sum."""
    model, x = mlp(), data()
    with Clipper(model, flat(1e9), loss_reduction="sum") as clipper:
        (squares(model(x)) / 8).backward()
        wrong = clipper.collect()
    found = gradients(model, (x,), squares)
    assert not torch.allclose(wrong.norms[0], norms(found)) and torch.allclose(8 * wrong.norms[0], norms(found))


@pytest.mark.parametrize("rule", [flat(0.3), per_layer(0.3), per_layer([0.1, 0.4]), automatic(0.3)], ids=lambda rule: type(rule).__name__)
def test_one_example_moves_the_sum_by_at_most_the_sensitivity(rule: Any) -> None:
    model, x = mlp(), 100 * data(6)
    with Clipper(model, rule, loss_reduction="sum") as clipper:
        squares(model(x)).backward()
        whole = clipper.collect()
        for k in range(6):
            squares(model(torch.cat([x[:k], x[k + 1 :]]))).backward()
            without = clipper.collect()
            moved = float((total(whole) - total(without)).norm())
            assert moved <= whole.sensitivity * (1 + 1e-9)


def test_per_layer_and_automatic_against_the_definition() -> None:
    model, x = mlp(), data()
    found = gradients(model, (x,), squares)
    with Clipper(model, per_layer([0.1, 0.4]), loss_reduction="sum") as clipper:
        squares(model(x)).backward()
        result = clipper.collect()
    expected = {}
    for names, clip in ((("0.weight", "0.bias"), 0.1), (("2.weight", "2.bias"), 0.4)):
        expected |= clipped([{name: gradient[name] for name in names} for gradient in found], clip)
    assert distance(result.sums, expected) < 1e-12
    assert result.norms.shape == (2, 8)
    with Clipper(model, automatic(2.0, gamma=0.1), loss_reduction="sum") as clipper:
        squares(model(x)).backward()
        result = clipper.collect()
    lengths = norms(found)
    normalised = {name: sum(2.0 * g[name] / (n + 0.1) for g, n in zip(found, lengths, strict=True)) for name in found[0]}
    assert distance(result.sums, normalised) < 1e-12  # type: ignore[arg-type]


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), 1e308])
@pytest.mark.parametrize("kind", ["linear", "sequence", "conv", "shared", "fallback"])
def test_an_example_that_is_not_finite_contributes_nothing_and_hurts_nobody(kind: str, poison: float) -> None:
    torch.manual_seed(9)
    model: nn.Module
    if kind == "fallback":
        model, x = nn.Sequential(nn.Linear(4, 4), nn.ConvTranspose1d(4, 2, 2)), torch.randn(5, 4, 4, dtype=torch.float64)
    elif kind == "conv":
        model, x = nn.Sequential(nn.Conv1d(4, 3, 2), nn.GroupNorm(1, 3)), torch.randn(5, 4, 4, dtype=torch.float64)
    elif kind == "sequence":
        model, x = nn.Sequential(nn.Linear(4, 30), nn.Linear(30, 2)), torch.randn(5, 3, 4, dtype=torch.float64)
    else:
        model, x = (Shared() if kind == "shared" else nn.Linear(4, 2)), torch.randn(5, 4, dtype=torch.float64)
    model = model.double()

    def loss(output: Tensor) -> Tensor:
        return output.square().sum()

    with Clipper(model, flat(0.5), loss_reduction="sum") as clipper:
        loss(model(x[[0, 1, 3, 4]])).backward()
        others = clipper.collect()
        x[2, ..., 0] = poison
        loss(model(x)).backward()
        result = clipper.collect()
    assert distance(result.sums, others.sums) < 1e-12
    assert float(result.factors[0, 2]) == 0 and result.count == 5


def test_an_empty_batch_and_no_batch_at_all_give_zeros() -> None:
    model = nn.Sequential(mlp(), nn.Linear(3, 2).double())
    with Clipper(model, flat(1.0)) as clipper:
        nothing = clipper.collect()
        model(data(0)).sum().backward()
        empty = clipper.collect()
    for result in (nothing, empty):
        assert result.count == 0 and not total(result).any() and result.norms.shape == (1, 0) and result.within() == 0


def test_an_empty_batch_through_the_fallback() -> None:
    model = nn.ConvTranspose1d(2, 3, 2)
    with Clipper(model, flat(1.0)) as clipper:
        model(torch.zeros(0, 2, 4)).sum().backward()
        assert not total(clipper.collect()).any()


# What is refused, by name


def test_several_forwards_before_one_backward_are_refused() -> None:
    model = mlp()
    with Clipper(model, flat(1.0)):
        first, second = model(data()), model(data())
        with pytest.raises(ClippingError, match="several forward passes"):
            (first.sum() + second.sum()).backward()


def test_a_forward_that_is_never_differentiated_does_no_harm() -> None:
    model, x = mlp(), data()
    with Clipper(model, flat(1.0)) as clipper:
        model(x)
        squares(model(x)).backward()
        with torch.no_grad():
            model(x)
        model.eval()
        model(x)
        model.train()
        assert clipper.collect().count == 8


def test_backward_twice_is_refused() -> None:
    model = mlp()
    with Clipper(model, flat(1.0)) as clipper:
        loss = model(data()).sum()
        loss.backward(retain_graph=True)
        with pytest.raises(ClippingError, match="backward ran twice"):
            loss.backward(retain_graph=True)
        clipper.collect()
        with pytest.raises(ClippingError, match="already clipped"):
            loss.backward()


def test_gradients_of_gradients_are_refused() -> None:
    model = mlp()
    with Clipper(model, flat(1.0)), pytest.raises(ClippingError, match="create_graph"):
        model(data()).sum().backward(create_graph=True)


def test_an_input_changed_in_place_is_refused() -> None:
    class Careless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, 5)

        def forward(self, x: Tensor) -> Tensor:
            x = x * 1
            y: Tensor = self.layer(x)
            x += y
            return x

    model = Careless().double()
    with Clipper(model, flat(1.0)), pytest.raises(ClippingError, match=r"'layer' was changed in place"):
        model(data()).sum().backward()


def test_a_part_of_the_model_called_alone_is_refused() -> None:
    model = mlp()
    with Clipper(model, flat(1.0)):
        with pytest.raises(ClippingError, match=r"layer '0' was called outside the model"):
            model[0](data())
        with torch.no_grad():
            model[0](data())


def test_a_penalty_in_the_loss_and_eval_mode_are_refused() -> None:
    model = mlp()
    with Clipper(model, flat(1.0)):
        with pytest.raises(ClippingError, match=r"'0.weight'.*weight_decay"):
            (model(data()).sum() + model[0].weight.square().sum()).backward()
        model.eval()
        with pytest.raises(ClippingError, match=r"model.train\(\)"):
            model(data()).sum().backward()


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        turned: Tensor = self.layer(x.transpose(0, 1)).transpose(0, 1)
        return turned


@pytest.mark.parametrize("time", [3, 6])
def test_examples_in_another_dimension_are_refused_even_if_its_size_is_the_same(time: int) -> None:
    """With six steps and six examples the shapes alone say nothing: one more row does."""
    model = TimeFirst()
    with Clipper(model, flat(1.0)), pytest.raises(ClippingError, match="keep the batch first"):
        model(torch.randn(6, time, 5))
    with Clipper(model, flat(1.0), check_batch=False):  # the mutant: without the check nothing is noticed at equal sizes
        if time == 6:
            model(torch.randn(6, time, 5))


def test_the_check_leaves_the_generator_where_it_was() -> None:
    model = nn.Sequential(nn.Linear(5, 20), nn.Dropout(0.5)).double()
    torch.manual_seed(1)
    expected = model(data())
    torch.manual_seed(1)
    x = data()
    torch.manual_seed(1)
    data()
    with Clipper(model, flat(1.0)):
        assert torch.equal(model(x), expected)


def test_invalid_models_are_refused() -> None:
    with pytest.raises(ModelError, match=r"'1' \(BatchNorm1d\)"):
        Clipper(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), flat(1.0))


@pytest.mark.slow
def test_compiled_models_are_refused() -> None:
    """Slow, because torch's compiler takes ten seconds to load."""
    with pytest.raises(ModelError, match=r"before torch.compile"):
        Clipper(torch.compile(nn.Linear(2, 3), backend="eager"), flat(1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss_reduction": "none"}, "loss_reduction must be 'mean' or 'sum'"),
        ({"fallback": ["nowhere"]}, "'nowhere', which is not a module"),
        ({"fallback": "0"}, "must be a list"),
    ],
    ids=["reduction", "unknown module", "string"],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Clipper(mlp(), flat(1.0), **options)
    with pytest.raises(ParameterError, match="rule must be"):
        Clipper(mlp(), 1.0)  # type: ignore[arg-type]


def test_two_clippers_on_one_model_are_refused_and_detaching_restores_it() -> None:
    model, x = mlp(), data()
    first = Clipper(model, flat(1.0)).attach()
    assert first.attach() is first
    with pytest.raises(ClippingError, match="another clipper"):
        Clipper(model[0], flat(1.0)).attach()
    first.detach()
    assert all("forward" not in module.__dict__ for module in model.modules())
    model(x).sum().backward()
    assert model[0].weight.grad is not None


def test_copies_and_saved_models_are_ordinary_models() -> None:
    model, x = mlp(), data()
    with Clipper(model, flat(1.0)):
        model(x)
        twin = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        state = model.state_dict()
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for other in (twin, loaded):
        other(x).sum().backward()
        assert other[0].weight.grad is not None and other[0].weight is not model[0].weight
        assert other.state_dict().keys() == state.keys()
    assert model[0].weight.grad is None


def test_freezing_later_and_replacing_parameters() -> None:
    model, x = mlp(), data()
    with Clipper(model, flat(1.0)) as clipper:
        model[0].requires_grad_(False)
        squares(model(x)).backward()
        assert set(clipper.collect().sums) == {"2.weight", "2.bias"}
        model[2].weight = nn.Parameter(torch.zeros_like(model[2].weight))
        squares(model(x)).backward()
        with pytest.raises(ClippingError, match="replaced"):
            clipper.collect()


def test_forward_hooks_run_once() -> None:
    calls = []

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(5, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    model = nn.Sequential(Own())
    model[0].register_forward_hook(lambda *_: calls.append(1))
    with Clipper(model, flat(1.0), check_batch=False):
        model(data())
    assert len(calls) == 1


def test_discard_forgets() -> None:
    model = mlp()
    with Clipper(model, flat(1.0)) as clipper:
        squares(model(data())).backward()
        clipper.discard()
        assert clipper.collect().count == 0


def test_bfloat16_autocast_is_close_to_full_precision() -> None:
    torch.manual_seed(3)
    model, x = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3)), torch.randn(16, 20)
    with Clipper(model, flat(0.5), loss_reduction="sum") as clipper:
        squares(model(x)).backward()
        exact = clipper.collect()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            squares(model(x)).backward()
            rough = clipper.collect()
    assert rough.sums["0.weight"].dtype == torch.float64
    assert distance(rough.sums, exact.sums) < 0.02
    assert float(total(rough).norm()) <= 16 * 0.5 * (1 + 1e-6)


def test_half_precision_models_and_mixed_types() -> None:
    model = nn.Sequential(nn.Linear(5, 6).to(torch.bfloat16), nn.Tanh())
    with Clipper(model, flat(0.5)) as clipper:
        model(data().to(torch.bfloat16)).float().sum().backward()
        assert clipper.collect().sums["0.weight"].dtype == torch.float64

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 4).double(), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.second(self.first(x).float())
            return output

    agree(Mixed(), data(), tolerance=1e-4)


def test_unused_layers_get_zeros() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(5, 2), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.used(x)
            return output

    result = agree(Unused().double(), data())
    assert not result.sums["unused.weight"].any()


@pytest.mark.parametrize(
    ("model", "single"),
    [
        (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), True),
        (nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(6, 2)), False),
        (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double(), False),
    ],
    ids=["linear", "convolution", "double"],
)
def test_sums_are_in_single_precision_only_where_one_group_of_blocks_is_all(model: nn.Module, single: bool) -> None:
    data = torch.randn(40, 4, dtype=next(model.parameters()).dtype)
    with Clipper(model, flat(1.0), loss_reduction="sum") as clipper:
        found = []
        for narrow in (False, True):
            clipper.narrow = narrow
            model(data).sum().backward()
            found.append(clipper.collect())
        clipper.narrow = True
        for _ in range(2):
            model(data).sum().backward()
        twice = clipper.collect()
    assert {value.dtype for value in found[0].sums.values()} == {torch.float64}
    assert {value.dtype for value in found[1].sums.values()} == {torch.float32 if single else torch.float64}
    assert {value.dtype for value in twice.sums.values()} == {torch.float64}
    away = sum(float((found[1].sums[name].double() - found[0].sums[name]).square().sum()) for name in found[0].sums)
    assert math.sqrt(away) <= 2 * ROUNDING
    for name, value in twice.sums.items():
        assert torch.allclose(value, 2 * found[0].sums[name], atol=1e-4)
