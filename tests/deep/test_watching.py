"""What is shown of a run, where, and what it costs: the clipped share under every rule, accuracy by group, public or paid."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.accounting import Gaussian, ParameterError
from tacit.deep import adaptive, automatic, evaluate, per_layer, progress, status
from tacit.deep.correlated import correlated_noise
from tacit.deep.private import PrivateTraining, make_private
from tacit.deep.samplers import FixedSize, FullBatch, PoissonBatches
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode

N = 400


def run(*, steps: int = 6, sampler: Any = None, scale: float = 1.0, **how: Any) -> PrivateTraining:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    data = scale * torch.randn(N, 3), torch.randint(2, (N,))
    plan = {"noise_multiplier": 1.0, "clip": 1.0, "sampler": sampler or FullBatch(N), "steps": steps} | how
    return make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), data, **plan)


def train(private: PrivateTraining, **how: Any) -> str:
    said = io.StringIO()
    while private.remaining():
        for x, y in progress(private, 1e-5, stream=said, **how):
            nn.functional.cross_entropy(private.model(x), y).backward()
            private.optimizer.step()
    return said.getvalue()


# The clipped share


@pytest.mark.parametrize("rule", [1e-6, 1e6, per_layer(1e-6), per_layer(1e6), automatic(1e-6, 1e-9), automatic(1e6)], ids=str)
def test_the_clipped_share_under_every_rule_is_paid_for(rule: Any) -> None:
    """All are clipped at a tiny threshold, and none at a huge one; the noise of the count is 10 of 400 records."""
    private = run(clip=rule, count_clipped=10.0)
    train(private)
    clip = getattr(rule, "clip", None) or (rule.clips[0] if hasattr(rule, "clips") else rule)
    expected = 1.0 if clip < 1 else 0.0
    assert all(share is not None and abs(share - expected) < 0.2 for share in private.history.clipped)  # 8 deviations
    assert private.event == FullBatch(N).event(Gaussian(1.0), 6), "the count's share of the noise is taken from the gradients"


def test_gradient_and_count_together_cost_the_multiplier() -> None:
    """1 / z^2 = 1 / z_gradient^2 + 1 / (2 b)^2: a record moves the count by a half."""
    private = run(count_clipped=2.0)
    assert private._gradient_multiplier() ** -2 + 4.0**-2 == pytest.approx(1.0, rel=1e-12)
    assert private._gradient_multiplier() ** -2 + 4.0**-2 <= 1.0
    assert private._count is not None
    assert (private._count.deviation(), float(private._count.multiplier)) == (2.0, 4.0)


def test_without_payment_no_share_is_shown() -> None:
    private = run()
    assert "clipped" not in train(private)
    assert private.history.clipped == [None] * 6


def test_counts_that_cannot_be_paid_are_refused() -> None:
    sampler = FullBatch(N)
    for how in ({"clip": adaptive(count_noise=10)}, {"noise": correlated_noise(sampler, steps=6), "sampler": sampler}):
        with pytest.raises(ParameterError, match="Leave it out"):
            run(count_clipped=5.0, **how)
    with pytest.raises(ParameterError, match="raise the noise of the count"):
        run(count_clipped=0.4)


# What is shown


def test_plain_lines() -> None:
    said = train(run(count_clipped=20.0, sampler=PoissonBatches(100, N), steps=8), lines=4).splitlines()
    assert len(said) == 8
    assert said[-1].startswith("step 8 of 8, epsilon so far ")
    assert all("% (noisy)" in line and "signal/noise" in line for line in said)


def test_epsilon_so_far_grows_to_what_was_spent() -> None:
    private = run(noise_multiplier=20.0)
    said = [float(line.split("so far ")[1].split(",")[0]) for line in train(private).splitlines()]
    assert said == sorted(said)
    assert said[-1] == pytest.approx(private.get_epsilon(1e-5).upper, rel=5e-3)


def test_nothing_and_no_epsilon_in_test_mode() -> None:
    assert train(run(), show="none") == ""
    with test_mode(1):
        private = run()
        assert "NOT PRIVATE" in train(private)
    assert "epsilon" not in status(private, 1e-5)


def test_a_bar_in_a_terminal() -> None:
    private = run()
    said = train(private, show="rich")
    assert "1/1" in said
    assert "epsilon so far" in said.replace("\n", " ")


def test_a_line_that_changes_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    handle = SimpleNamespace(update=lambda text, raw: shown.append(text))

    def display(text: Any, raw: bool, display_id: bool) -> Any:
        shown.append(text)
        return handle

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display)))
    assert train(run()) == ""
    assert "step 6 of 6" in shown[-1]["text/plain"]
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None, display=None))
    assert "step 6 of 6" in train(run())
    with pytest.raises(ParameterError, match="IPython"):
        train(run(), show="notebook")
    with pytest.raises(ParameterError, match="show must be"):
        train(run(), show="loud")


# Accuracy by group


class Sign(nn.Module):
    """Right for group a, wrong for half of group b."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[-1.0], [1.0]]))
            self.layer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x)
        return found


def judged(records: int = 4000, sampler: Any = None) -> tuple[PrivateTraining, Tensor, Tensor, list[str]]:
    x = torch.tensor([[1.0], [-1.0]]).repeat(records // 2, 1)
    groups = ["a" if k < records // 2 else "b" for k in range(records)]
    y = torch.tensor([1 if (groups[k] == "a" and k % 2 == 0) or (groups[k] == "b" and k % 4 < 2) else 0 for k in range(records)])
    model = Sign()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    private = make_private(model, optimizer, (x, y), noise_multiplier=1.0, clip=1.0, sampler=sampler or FullBatch(records), steps=1)
    return private, x, y, groups


def test_public_records_are_counted_exactly() -> None:
    private, x, y, groups = judged()
    found = evaluate(private, x, y, groups=groups, known=["a", "b", "c"], public=True)
    scores = private.model(x).detach()
    assert found == {
        "accuracy": 0.75, "accuracy, a": 1.0, "accuracy, b": 0.5, "accuracy, c": 0.5,
        "loss": pytest.approx(float(nn.functional.cross_entropy(scores, y))),
    }
    assert private.model.training
    assert "accuracy, b 0.5" in status(private, 1e-5)
    assert {axis.get_ylabel() for axis in private.history.plot().axes} >= {"signal / noise", "clipping"}


def test_private_records_are_counted_with_noise() -> None:
    """2,000 records a group, noise of deviation sqrt 2 on each count: the rates are within .02, 28 deviations."""
    private, x, y, groups = judged()
    found = evaluate(private, x, y, groups=groups, known=["a", "b"], epsilon=1.0)
    assert found["accuracy, a"] == pytest.approx(1, abs=0.02)
    assert found["accuracy, b"] == pytest.approx(0.5, abs=0.02)
    assert "loss" not in found


@pytest.mark.parametrize(("sampler", "moved"), [(FullBatch(8), 1), (FixedSize(4, 8), 2)], ids=["add/remove", "replace-one"])
def test_the_noise_is_that_of_the_relation(sampler: Any, moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing a record moves two counts. 2,000 empty cells: the mean size of Laplace noise is its scale, within 20 % (9 deviations)."""
    private, _, _, _ = judged(8, sampler=sampler)
    off: list[float] = []
    original = NoisySums.release

    def spied(self: NoisySums, counts: Any) -> Any:
        found = original(self, counts)
        off.append(float(np.abs(found - counts).mean()))
        return found

    monkeypatch.setattr(NoisySums, "release", spied)
    names = [f"g{k}" for k in range(1000)]
    evaluate(private, torch.zeros(8, 1), torch.zeros(8, dtype=torch.long), groups=["g0"] * 8, known=names, epsilon=0.1)
    assert off[0] == pytest.approx(10 * moved, rel=0.2)


def test_it_is_paid_before_it_is_counted(tmp_path: Path) -> None:
    people = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("people", Budget(epsilon=1))
    private, x, y, _ = judged(40)
    evaluate(private, x, y, epsilon=0.75, account=people)
    assert people.spent()["pure"] == pytest.approx(0.75)
    with pytest.raises(BudgetExceeded):
        evaluate(private, x, y, epsilon=0.75, account=people)


def test_odd_records_do_not_show() -> None:
    """NaN, labels and groups that do not exist: no error, one shape."""
    private, _, _, _ = judged(40)
    odd = torch.tensor([[float("nan")], [1e308], [float("inf")], [0.0]])
    found = evaluate(private, odd, torch.tensor([99, -1, 0, 1]), groups=["zz", "a", "a", "b"], known=["a", "b"], epsilon=1.0)
    assert all(0 <= value <= 1 for value in found.values())


def test_refusals() -> None:
    private, x, y, groups = judged(40)
    for how in ({}, {"public": True, "epsilon": 1.0}):
        with pytest.raises(ParameterError, match="public=True"):
            evaluate(private, x, y, **how)
    with pytest.raises(ParameterError, match="known="):
        evaluate(private, x, y, groups=groups, public=True)
