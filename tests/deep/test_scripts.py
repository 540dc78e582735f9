"""Ordinary scripts and their private twins: at most five lines differ, and both run."""

from __future__ import annotations

import difflib
import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from tacit.deep import FullBatch, NoiseDrownsSignal, TrainingError, make_private

FOLDER = Path(__file__).parents[2] / "examples" / "pytorch"
SCRIPTS = ("cnn", "lstm", "bert", "tabular")
MOST = 5


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changed(name: str) -> int:
    """Lines that were written or rewritten; a blank one does not count."""
    before, after = ((FOLDER / f"{name}{kind}.py").read_text().splitlines() for kind in ("", "_private"))
    lines = [[line for line in text if line.strip()] for text in (before, after)]
    blocks = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
    return sum(max(i1 - i0, j1 - j0) for kind, i0, i1, j0, j1 in blocks if kind != "equal")


def test_there_is_no_other_script() -> None:
    assert {path.stem.removesuffix("_private") for path in FOLDER.glob("*.py")} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_at_most_five_lines_make_a_script_private(name: str) -> None:
    assert 0 < changed(name) <= MOST


@pytest.mark.parametrize("name", ["cnn", "lstm", "bert"])
@pytest.mark.parametrize("kind", ["", "_private"])
@pytest.mark.filterwarnings("ignore::tacit.deep.NoiseDrownsSignal")
def test_it_runs(name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert script(name + kind).main(epochs=1) > 1 / 20
    assert ("epsilon 3.000" in capsys.readouterr().out) == bool(kind)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["", "_private"])
def test_the_table_with_workers_autocast_and_a_checkpoint(kind: str, workers: int, tmp_path: Path) -> None:
    main = script(f"tabular{kind}").main
    main(tmp_path, epochs=3, stop_after=1, workers=workers)
    first = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    main(tmp_path, epochs=3, workers=workers)
    last = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert (first["epoch"], last["epoch"]) == (1, 3)
    assert last["scheduler"]["last_epoch"] == 3
    if kind:
        assert (first["private"]["steps"], first["private"]["planned"]) == (8, 24)
        assert (last["private"]["steps"], last["private"]["planned"]) == (16, 16)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("cnn", 0.75), ("lstm", 0.9), ("bert", 0.65), ("tabular", 0.82)])
def test_what_is_learned_privately(name: str, least: float) -> None:
    """Far above guessing (.1, .5, .5 and .63), in every one of two runs."""
    with pytest.warns(NoiseDrownsSignal):
        assert min(script(f"{name}_private").main() for _ in range(2)) > least


# Mixed precision


def scaled(enabled: bool, **how: Any) -> float:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    private = make_private(
        model, optimizer, (torch.randn(30, 4), torch.randint(2, (30,))), noise_multiplier=1.0, clip=1.0, sampler=FullBatch(30), steps=2
    )
    scaler = torch.amp.GradScaler("cpu", enabled=enabled)
    for _ in range(2):
        for x, y in private.loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            if how.get("unscale"):
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    assert private.steps == 2
    private.detach()
    assert not hasattr(optimizer, "_step_supports_amp_scaling")
    return float(model.weight.detach().norm())


def test_a_scaler_that_is_off_changes_nothing() -> None:
    assert math.isfinite(scaled(False))


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_scaler_that_is_on_is_told_why_not(unscale: bool) -> None:
    with pytest.raises(TrainingError, match="GradScaler scales the loss"):
        scaled(True, unscale=unscale)
