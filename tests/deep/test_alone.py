"""The check that a loop treats every record on its own: what breaks it is refused with the fix, ordinary loops pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.deep import FullBatch, TrainingError, make_private, make_user_private
from tacit.deep.alone import Tape
from tacit.deep.private import PrivateTraining

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
N, CLASSES = 24, 3


class Words(nn.Module):
    """Logits for each of five words."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, CLASSES * 5)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x).unflatten(1, (5, CLASSES))
        return output


class Centre(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, CLASSES))


def tokens() -> Tensor:
    torch.manual_seed(1)
    labels = torch.randint(CLASSES, (N, 5))
    return labels.masked_fill(torch.rand(N, 5) < 0.4, -100)


def mixup(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    other = torch.randperm(len(x))
    output = model(0.7 * x + 0.3 * x[other])
    return 0.7 * F.cross_entropy(output, y) + 0.3 * F.cross_entropy(output, y[other])


def contrastive(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    embedded = F.normalize(model(x), dim=1)
    return F.cross_entropy(embedded @ embedded.T / 0.1, torch.arange(len(x)))


def twice(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    half = len(x) // 2
    return F.cross_entropy(model(torch.cat([x[:half], x[:half]])), torch.cat([y[:half], y[:half]]))


def counted(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
    return loss / (y != -100).sum().item()


WEIGHT = torch.tensor([1.0, 5.0, 20.0])


def looked_at(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model(x).argmax(1)  # a forward pass that is never differentiated
    return F.cross_entropy(model(x), y, weight=WEIGHT)

BAD: dict[str, tuple[Callable[[], nn.Module], bool, Loss, str]] = {
    "token mean": (Words, True, lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten(), ignore_index=-100), "gradient"),
    "counted tokens": (Words, True, counted, "gradient"),
    "class weight": (plain, False, lambda m, x, y: F.cross_entropy(m(x), y, weight=WEIGHT), "gradient"),
    "loss module": (plain, False, lambda m, x, y: nn.CrossEntropyLoss(weight=WEIGHT)(m(x), y), "gradient"),
    "after another pass": (plain, False, looked_at, "gradient"),
    "mixup": (plain, False, mixup, "input"),
    "contrastive": (plain, False, contrastive, "gradient"),
    "centring": (lambda: nn.Sequential(nn.Linear(4, CLASSES), Centre()), False, lambda m, x, y: F.cross_entropy(m(x), y), "output"),
    "half a batch twice": (plain, False, twice, "input"),
    "the first record for all": (plain, False, lambda m, x, y: F.cross_entropy(m(x[:1].expand_as(x)), y), "input"),
    "less the first record": (plain, False, lambda m, x, y: F.cross_entropy(m(x - x[0]), y), "input"),
    "weighed by the first": (
        plain, False, lambda m, x, y: (F.cross_entropy(m(x), y, reduction="none") * (1 + x[0].abs().sum())).mean(), "gradient"
    ),
}

GOOD: dict[str, tuple[Callable[[], nn.Module], bool, Loss]] = {
    "mean": (plain, False, lambda m, x, y: F.cross_entropy(m(x), y)),
    "fixed length": (
        Words, True,
        lambda m, x, y: F.cross_entropy(m(x).transpose(1, 2), y, reduction="none").sum(1).div(5).mean(),
    ),
    "own weights": (plain, False, lambda m, x, y: (F.cross_entropy(m(x), y, reduction="none") * WEIGHT[y]).mean()),
    "flattened by size": (plain, False, lambda m, x, y: F.nll_loss(F.log_softmax(m(x.view(x.size(0), -1)), 1), y)),
    "indexed": (plain, False, lambda m, x, y: -F.log_softmax(m(x), 1)[torch.arange(len(y)), y].sum() / len(y)),
    "noise on the input": (plain, False, lambda m, x, y: F.cross_entropy(m(x + 0.1 * torch.randn_like(x)), y)),
    "shuffled": (plain, False, lambda m, x, y: (lambda p: F.cross_entropy(m(x[p]), y[p]))(torch.randperm(len(x)))),
    "smoothed": (plain, False, lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1) + 0.0 * WEIGHT.sum()),
}


def run(make: Callable[[], nn.Module], words: bool, how: dict[str, Any] | None = None) -> PrivateTraining:
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(N, 4), tokens() if words else torch.arange(N) % CLASSES
    return make_private(model, optimizer, data, noise_multiplier=1.0, clip=1.0, sampler=FullBatch(N), steps=4, **(how or {}))


def train(private: PrivateTraining, loss: Loss) -> list[float]:
    seen = []
    while private.remaining():
        for x, y in private.loader:
            private.optimizer.zero_grad()
            value = loss(private.model, x, y)
            seen.append(value.item())
            value.backward()
            private.optimizer.step()
    return seen


@pytest.mark.parametrize("name", BAD)
def test_what_mixes_records_is_refused_before_anything_is_released(name: str) -> None:
    make, words, loss, what = BAD[name]
    private = run(make, words)
    with pytest.raises(TrainingError, match=f"{what}.* changes with the other records"):
        train(private, loss)
    assert private.steps == 0


@pytest.mark.parametrize("physical", [None, 7])
@pytest.mark.parametrize("name", GOOD)
def test_ordinary_loops_pass(name: str, physical: int | None) -> None:
    make, words, loss = GOOD[name]
    private = run(make, words, {"physical_batch": physical})
    assert len(train(private, loss)) == 4 and private.steps == 4
    assert not torch.overrides._get_current_function_mode_stack(), "nothing listens any more"


def test_the_check_changes_nothing() -> None:
    """The same dropout and the same parameters, checked or not."""
    from tacit.noise import test_mode as fixed_draws

    found = []
    for listening in (True, False):
        with fixed_draws(4), pytest.MonkeyPatch.context() as patch:
            if not listening:
                patch.setattr("tacit.deep.private.due", lambda step: False)
            private = run(plain, False)
            torch.manual_seed(5)
            losses = train(private, GOOD["noise on the input"][2])
            found.append((losses, torch.cat([p.detach().flatten() for p in private.model.parameters()])))
    assert found[0][0] == found[1][0] and torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("sort", [True, False])
def test_rows_of_users_must_stay_in_their_places(sort: bool) -> None:
    torch.manual_seed(2)
    model = plain()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    private = make_user_private(
        model, optimizer, (torch.randn(N, 4), torch.arange(N) % CLASSES), np.arange(N) % 8, most=3, clip=1.0, sampler=FullBatch(8),
        noise_multiplier=1.0, steps=1,
    )  # fmt: skip
    for x, y in private.loader:
        order = x[:, 0].argsort() if sort else torch.arange(len(x))
        F.cross_entropy(model(x[order]), y[order]).backward()
        if sort:
            with pytest.raises(TrainingError, match=r"places|other records"):
                optimizer.step()
            break
        optimizer.step()
    assert private.steps == (0 if sort else 1)


def test_a_loop_that_leaves_is_not_listened_to() -> None:
    private = run(plain, False)
    for _ in private.loader:
        break
    next(iter(private.loader))
    assert not torch.overrides._get_current_function_mode_stack()


def test_mutant_a_check_of_the_outputs_alone_misses_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Tape._play

    def outputs_only(self: Tape, leaves: Any) -> Any:
        return whole(self, leaves)._replace(gradients=[])

    monkeypatch.setattr(Tape, "_play", outputs_only)
    monkeypatch.setattr(Tape, "_joined", lambda *given: False)
    private = run(Words, True)
    train(private, BAD["token mean"][2])
    assert private.steps == 4


# Loops as people write them, and what cannot be followed


class Named(torch.utils.data.Dataset[dict[str, Tensor]]):
    """Records as dictionaries, as tokenised text comes."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        torch.manual_seed(index)
        return {"inputs": torch.randn(4), "labels": torch.tensor(index % CLASSES)}


class OwnLoss(nn.Module):
    """A model that takes labels by name and gives the loss beside the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.layer(inputs)
        return {"logits": logits} if labels is None else {"loss": F.cross_entropy(logits, labels, reduction="none"), "logits": logits}


class Lightning(nn.Module):
    """The loss in a method of the module that holds the model."""

    def __init__(self) -> None:
        super().__init__()
        self.net = plain()
        self.logged: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.net(x)
        return output

    def training_step(self, batch: Any) -> Tensor:
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.logged.append(float(loss.detach()))
        return loss


def by_name(private: PrivateTraining, batch: Any) -> None:
    private.model(**batch)["loss"].mean().backward()


def by_key(private: PrivateTraining, batch: Any) -> None:
    output = private.model(batch["inputs"].float())
    loss = F.cross_entropy(output["logits"], batch["labels"])
    loss.backward()


def lightning(private: PrivateTraining, batch: Any) -> None:
    private.model.training_step(batch).backward()  # type: ignore[operator]


def measured(private: PrivateTraining, batch: Any) -> None:
    """Logs of what the batch shows, before and after: each outside the way to the loss."""
    x, y = batch
    output = private.model(x)
    loss = F.cross_entropy(output, y)
    hits = (output.argmax(1) == y).float().mean().item()
    assert 0 <= hits <= 1 and float(loss.detach()) == loss.item() and len(output.detach().numpy()) == len(x)
    loss.backward()
    output.argmax(1).tolist()


def half(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = private.model(x)
        loss = F.cross_entropy(output, y)
    loss.backward()


def built_up(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    total = torch.tensor(0.0)
    output = private.model(x)
    total += F.cross_entropy(output, y)
    total = total + 0.1 * output.square().mean()
    assert not torch.isnan(total)
    nn.utils.clip_grad_norm_(private.model.parameters(), 1.0)
    total.backward()


def in_pieces(private: PrivateTraining, batch: Any) -> None:
    """The mean as a sum over a fixed number."""
    x, y = batch
    (F.cross_entropy(private.model(x), y, reduction="sum") / N).backward()


def targets(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    wanted = F.one_hot(y, CLASSES).float()
    wanted[:, 0] *= 0.5
    F.binary_cross_entropy_with_logits(private.model(x), wanted).backward()


SHAPES: dict[str, tuple[Callable[[], nn.Module], bool, Callable[[PrivateTraining, Any], None]]] = {
    "model gives the loss": (OwnLoss, True, by_name),
    "batch by key": (OwnLoss, True, by_key),
    "lightning": (Lightning, False, lightning),
    "measured": (plain, False, measured),
    "mixed precision": (plain, False, half),
    "built up": (plain, False, built_up),
    "sum over a number": (plain, False, in_pieces),
    "written targets": (plain, False, targets),
}


def looped(make: Callable[[], nn.Module], named: bool, body: Callable[[PrivateTraining, Any], None], **how: Any) -> PrivateTraining:
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data: Any = Named() if named else (torch.randn(N, 4), torch.arange(N) % CLASSES)
    private = make_private(model, optimizer, data, noise_multiplier=1.0, clip=1.0, sampler=FullBatch(N), steps=3, **how)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    while private.remaining():
        for batch in private.loader:
            optimizer.zero_grad(set_to_none=True)
            body(private, batch)
            optimizer.step()
            scheduler.step()
    return private


@pytest.mark.parametrize("name", SHAPES)
def test_loops_as_people_write_them_pass(name: str) -> None:
    assert looped(*SHAPES[name]).steps == 3


def weights_by_numpy(private: PrivateTraining, batch: Any) -> None:
    """The attack: class weights from the labels of the batch, computed where torch sees nothing."""
    x, y = batch
    weight = torch.from_numpy(1 / (1 + np.bincount(y.numpy(), minlength=CLASSES))).float()
    (F.cross_entropy(private.model(x), y, reduction="none") * weight[y]).mean().backward()


def weights_by_lists(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    weight = [1 / (1 + y.tolist().count(k)) for k in range(CLASSES)]
    losses = F.cross_entropy(private.model(x), y, reduction="none")
    sum((losses[y == k].sum() * weight[k] for k in range(CLASSES)), losses.sum() * 0).backward()


def scaled(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    spread = float(x.std()) + 1
    F.cross_entropy(private.model(x) / spread, y).backward()


def elsewhere(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    F.cross_entropy(private.model(torch.from_numpy(x.numpy() - x.numpy().mean(0))), y).backward()


def two_losses(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    output = private.model(x)
    torch.autograd.backward([F.cross_entropy(output, y), output.mean()])


def hooked(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    output = private.model(x)
    output.register_hook(lambda gradient: gradient - gradient.mean(0))
    F.cross_entropy(output, y).backward()


class Mixing(torch.autograd.Function):
    """Joins the gradients of all records, and nothing forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient - gradient.mean(0)


class Inside(nn.Module):
    """A layer of a model with a backward pass of its own."""

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.function.apply(x)  # type: ignore[no-untyped-call]
        return found


class Signed(Mixing):
    """Every record's gradient keeps its norm, and gets a sign from all."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * torch.sign(torch.sin(1e4 * gradient.sum()))


class Turned(Mixing):
    """The last record's gradient is the first one's."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.flip(0)


class Straight(Mixing):
    """A straight-through estimator, record by record."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.clamp(-1, 1) * 2


class Hooked(nn.Module):
    """A hook on a tensor inside the model, or on its node of the graph."""

    def __init__(self, node: bool) -> None:
        super().__init__()
        self.node = node

    def forward(self, x: Tensor) -> Tensor:
        found = x * 1
        if found.requires_grad and self.node:
            found.grad_fn.register_hook(lambda into, out: tuple(None if g is None else g - g.mean(0) for g in into))
        elif found.requires_grad:
            found.register_hook(lambda gradient: gradient / gradient.abs().max())
        return found


def inside(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), layer, nn.Tanh(), nn.Linear(8, CLASSES))


def only_a_bias(layer: nn.Module) -> nn.Module:
    """Of a bias alone all that the mean was taken off of adds up to nothing."""

    class Moved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.bias

    return nn.Sequential(Moved(), layer, nn.Linear(4, CLASSES).requires_grad_(False))


BACKWARDS: dict[str, Callable[[], nn.Module]] = {
    "centred": lambda: inside(Inside(Mixing)),
    "signs": lambda: inside(Inside(Signed)),
    "turned round": lambda: inside(Inside(Turned)),
    "hook on a tensor": lambda: inside(Hooked(False)),
    "hook on a node": lambda: inside(Hooked(True)),
    "a bias alone": lambda: only_a_bias(Inside(Mixing)),
}


@pytest.mark.parametrize("physical", [None, 7])
@pytest.mark.parametrize("name", BACKWARDS)
def test_a_backward_pass_that_joins_records_is_refused(name: str, physical: int | None) -> None:
    """Forward each record is on its own, so that neither outputs nor the loss show it."""
    private = run(BACKWARDS[name], False, {"physical_batch": physical, "allow_unseen": True})
    with pytest.raises(TrainingError, match="backward pass joins records"):
        train(private, GOOD["mean"][2])
    assert private.steps == 0


@pytest.mark.parametrize("physical", [None, 7])
def test_a_backward_pass_of_its_own_for_each_record_passes(physical: int | None) -> None:
    private = run(lambda: inside(Inside(Straight)), False, {"physical_batch": physical})
    train(private, GOOD["shuffled"][2])
    assert private.steps == 4


def test_mutant_a_check_without_the_backward_pass_misses_what_is_joined_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tape, "_joined", lambda *given: False)
    for make in BACKWARDS.values():
        private = run(make, False)
        train(private, GOOD["mean"][2])
        assert private.steps == 4


class Moody(Mixing):
    """Each record on its own, until it is told otherwise."""

    joins = False

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient - gradient.mean(0) if Moody.joins else gradient


class Sometimes(Inside):
    """A function of its own, from a certain step on."""

    on = False

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.on else x * 1


def steps_until(private: PrivateTraining, turn: Callable[[int], None]) -> int:
    """How many steps are taken while something is turned before each."""
    while private.remaining():
        for batch in private.loader:
            turn(private.steps + 1)
            private.optimizer.zero_grad()
            GOOD["mean"][2](private.model, *batch).backward()
            private.optimizer.step()
    return private.steps


def turn_moody(step: int) -> None:
    Moody.joins = step == 3  # which is no power of two


@pytest.mark.parametrize("physical", [None, 7])
def test_a_function_that_joins_records_at_one_step_is_refused_at_that_step(physical: int | None) -> None:
    private = run(lambda: inside(Inside(Moody)), False, {"physical_batch": physical, "allow_unseen": True})
    with pytest.raises(TrainingError, match="backward pass joins records"):
        steps_until(private, turn_moody)
    assert private.steps == 2


def test_mutant_a_check_of_some_steps_misses_what_a_function_does_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.deep.clipping.clipper.own_backward", lambda outputs: False)
    assert steps_until(run(lambda: inside(Inside(Moody)), False), turn_moody) == 4


@pytest.mark.parametrize("physical", [None, 7])
def test_a_function_that_comes_later_is_refused_where_no_step_was_looked_at(physical: int | None) -> None:
    def turn(step: int) -> None:
        Sometimes.on = step >= 3

    private = run(lambda: inside(Sometimes(Straight)), False, {"physical_batch": physical})
    with pytest.raises(TrainingError, match="came into the model at a step"):
        steps_until(private, turn)
    assert private.steps == 2
    Sometimes.on = False
    assert steps_until(run(lambda: inside(Sometimes(Straight)), False, {"physical_batch": physical, "allow_unseen": True}), turn) == 4


def test_a_record_that_is_not_finite_does_not_decide_the_check() -> None:
    """Its gradient counts for nothing, and no refusal tells that it is there."""
    private = run(plain, False)
    private.loader.dataset.tensors[0][5] = 1e38 * torch.ones(4)
    train(private, GOOD["mean"][2])
    assert private.steps == 4


def joined_backward(private: PrivateTraining, batch: Any) -> None:
    x, y = batch
    F.cross_entropy(Mixing.apply(private.model(x)), y).backward()  # type: ignore[no-untyped-call]


UNFOLLOWED = {"hook": hooked, "own function": joined_backward}
UNFOLLOWED |= {"numpy": weights_by_numpy, "lists": weights_by_lists, "numbers": scaled, "inputs": elsewhere, "two losses": two_losses}


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_what_cannot_be_followed_is_refused_unless_it_is_allowed_and_said(name: str, tmp_path: Any) -> None:
    from tacit.ledger import Budget, Ledger

    with pytest.raises(TrainingError, match=r"cannot be followed.*allow_unseen"):
        looped(plain, False, UNFOLLOWED[name])
    ledger = Ledger.open(f"sqlite:///{tmp_path}/book.db")
    account = ledger.account("data", Budget(epsilon=100, delta=1e-3))
    private = looped(plain, False, UNFOLLOWED[name], allow_unseen=True, account=account, delta=1e-5)
    assert private.steps == 3 and "not checked" in repr(private)
    said = [entry["purpose"] for entry in ledger.entries() if entry["kind"] == "reserve"]
    assert said == ["training; records not checked for seeing each other"]


def test_what_is_seen_to_mix_is_refused_even_where_the_unseen_is_allowed() -> None:
    private = run(plain, False, {"allow_unseen": True})
    with pytest.raises(TrainingError, match="changes with the other records"):
        train(private, BAD["class weight"][2])


def test_mutant_a_check_that_lets_the_unseen_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tape, "_strays", lambda self: False)
    assert looped(plain, False, UNFOLLOWED["numbers"]).steps == 3


def test_a_batch_of_one_record_is_judged_at_the_next_larger_one() -> None:
    """Poisson batches: as long as none has two records, each step is looked at."""
    private = run(plain, False)
    private.handed_out(1, batch=[torch.zeros(1, 4), torch.zeros(1, dtype=torch.long)])
    assert private._tape is not None
    private._tape.loss, private._tape.runs = torch.zeros(()), [None]  # type: ignore[list-item]
    assert private._tape.finding(position=False) is None and not private._tape.judged
    private._forget()
