"""The validator: every layer that mixes examples or carries data is named with its fix, sound models pass, and fixed models train alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tacit.deep.validate import ModelError, ensure_valid, fix, validate

BAD = {
    "BatchNorm1d": nn.BatchNorm1d(4),
    "BatchNorm2d": nn.BatchNorm2d(4, affine=False),
    "BatchNorm3d": nn.BatchNorm3d(4, track_running_stats=False),
    "LazyBatchNorm1d": nn.LazyBatchNorm1d(),
    "SyncBatchNorm": nn.SyncBatchNorm(4),
    "InstanceNorm2d": nn.InstanceNorm2d(4, track_running_stats=True),
    "EmbeddingBag": nn.EmbeddingBag(4, 2),
    "Embedding": nn.Embedding(4, 2, max_norm=1.0),
    "TransformerEncoderLayer": nn.TransformerEncoderLayer(4, 2),
    "TransformerDecoderLayer": nn.TransformerDecoderLayer(4, 2),
    "LazyLinear": nn.LazyLinear(3),
    "DataParallel": nn.DataParallel(nn.Linear(2, 2)),
}
GOOD = {
    "mlp": nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)),
    "norms": nn.Sequential(nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True), nn.RMSNorm(4)),
    "recurrent, time first": nn.LSTM(3, 4),
    "encoder": nn.TransformerEncoderLayer(4, 2, batch_first=True),
    "embedding": nn.Embedding(4, 2, padding_idx=0),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_layers_are_named_with_path_and_fix(kind: str) -> None:
    findings = validate(nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"inner": BAD[kind]})))
    assert any(finding.path == "1.inner" and finding.kind == kind and finding.fix for finding in findings)
    with pytest.raises(ModelError, match=rf"'1.inner' \({kind}\)"):
        ensure_valid(nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"inner": BAD[kind]})))


@pytest.mark.parametrize("name", GOOD)
def test_good_models_pass(name: str) -> None:
    assert validate(GOOD[name]) == []
    ensure_valid(GOOD[name])


def test_a_whole_transformer_that_takes_time_first() -> None:
    with pytest.warns(UserWarning, match="batch_first"):
        model = nn.Transformer(4, 2, 1, 1, 4)
    assert next(finding.kind for finding in validate(model)) == "Transformer"


def test_all_reasons_are_in_one_error() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.EmbeddingBag(3, 2), nn.Embedding(3, 2, scale_grad_by_freq=True))
    with pytest.raises(ModelError) as caught:
        ensure_valid(model)
    assert [finding.path for finding in caught.value.findings] == ["0", "1", "2"]


def test_frozen_models_compiled_models_and_hooked_weights() -> None:
    assert "no parameter is trainable" in str(validate(nn.Linear(2, 2).requires_grad_(False))[0])

    class OptimizedModule(nn.Module):  # what torch.compile returns, by its name
        def __init__(self) -> None:
            super().__init__()
            self._orig_mod = nn.Linear(2, 2)

    assert "before torch.compile" in str(validate(OptimizedModule())[0])
    with pytest.warns(FutureWarning):
        hooked = nn.utils.weight_norm(nn.Linear(2, 2))
    assert "parametrizations.weight_norm" in validate(nn.Sequential(hooked))[0].fix
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))
    assert validate(spectral)[0].kind == "_SpectralNorm"


class Mixing(nn.Module):
    """Attention over the batch: no list of layer types knows it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x @ x.T, dim=1) @ self.layer(x)


class Neighbour(nn.Module):
    """Each row sees the next: rolling the batch rolls the output, so only a row alone tells."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x + x.roll(1, 0))
        return output


class Counting(nn.Module):
    """A buffer that remembers the data."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.detach().sum(0)
        output: Tensor = self.layer(x)
        return output


@pytest.mark.parametrize("kind", [Mixing, Neighbour, Counting], ids=lambda kind: kind.__name__)
def test_a_run_on_made_up_data_finds_what_types_cannot(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = kind()
    assert validate(model) == []
    before = {name: value.clone() for name, value in model.state_dict().items()}
    findings = validate(model, torch.randn(4, 3))
    assert len(findings) == 1
    assert ("buffer 'seen'" in str(findings[0])) == (kind is Counting)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())  # a copy was run


def test_a_run_of_a_sound_model_with_dropout_finds_nothing() -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True)
    assert validate(encoder, torch.randn(3, 5, 4)) == []
    assert validate(nn.LSTM(4, 3, 2, dropout=0.5, batch_first=True), (torch.randn(3, 5, 4),)) == []


def test_fixing_replaces_what_it_can_and_keeps_the_rest() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.Sequential(nn.InstanceNorm2d(8, affine=True, track_running_stats=True), nn.EmbeddingBag(3, 2)),
    )
    nn.init.constant_(model[1].weight, 3.0)
    fixed = fix(model)
    assert isinstance(fixed, nn.Sequential) and isinstance(model[1], nn.BatchNorm2d)  # the original stays
    assert isinstance(fixed[1], nn.GroupNorm) and bool((fixed[1].weight == 3).all())
    assert [finding.kind for finding in validate(fixed)] == ["EmbeddingBag"]
    assert not any("running" in name for name in fixed.state_dict())


def test_a_fixed_embedding_keeps_its_weight_and_its_ties() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.write = nn.Embedding(5, 3, max_norm=1.0, padding_idx=0), nn.Linear(3, 5, bias=False)
            self.write.weight = self.read.weight

    fixed = fix(Tied())
    assert fixed.read.weight is fixed.write.weight and fixed.read.padding_idx == 0 and validate(fixed) == []


def test_fixed_batch_norm_on_vectors_does_not_erase_them() -> None:
    """Group normalisation with groups of one number would return the bias alone."""
    fixed = fix(nn.Sequential(nn.BatchNorm1d(8)))
    torch.manual_seed(0)
    assert float(fixed(torch.randn(5, 8)).detach().std()) > 0.5
    assert float(nn.GroupNorm(8, 8)(torch.randn(5, 8)).detach().abs().max()) < 1e-3  # the mutant


def test_backward_hooks_and_complex_parameters_are_refused() -> None:
    """A hook can carry one example's gradient into all others where no output shows it."""
    for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        handle = getattr(model[1], register)(lambda *given: None)
        with pytest.raises(ModelError, match="remove the hook"):
            ensure_valid(model)
        handle.remove()
        ensure_valid(model)
    with pytest.raises(ModelError, match="complex64"):
        ensure_valid(nn.Linear(2, 1, dtype=torch.complex64))
