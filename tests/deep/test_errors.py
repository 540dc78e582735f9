"""The tested range of torch, and what a version outside of it is told."""

from __future__ import annotations

import importlib
import tomllib
import warnings
from pathlib import Path

import pytest
import torch

import tacit.deep
from tacit.deep.errors import TESTED, TorchUntested, untested


@pytest.mark.parametrize("version", [TESTED[0] + ".0", "2.9.1", "2.13.0+cpu", TESTED[1] + ".0+cu132", TESTED[1] + ".3"])
def test_within_the_range_nothing_is_said(version: str) -> None:
    assert untested(version) is None


@pytest.mark.parametrize("version", ["2.7.1", "1.13.0", "2.16.0", "3.0.0", "2.16.0.dev20270101+cpu"])
def test_outside_it_is_said_what_was_tested(version: str) -> None:
    said = untested(version)
    assert said is not None
    assert f"torch {TESTED[0]} to {TESTED[1]}, and this is {version}" in said


def test_the_users_extra_is_the_range_and_development_is_pinned() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"torch>={TESTED[0]},<2.{int(TESTED[1].split('.')[1]) + 1}" in project["torch"]
    assert any(name.startswith("torch==") for name in project["dev"])
    assert untested(next(name for name in project["dev"] if name.startswith("torch==")).removeprefix("torch==")) is None


def test_the_warning_comes_with_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "9.1.0")
    with pytest.warns(TorchUntested, match=r"this is 9\.1\.0"):
        importlib.reload(tacit.deep)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(tacit.deep)
