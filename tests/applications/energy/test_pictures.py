"""Every picture is drawn, with its labels, into the kinds of file that it may be."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tacit.applications.energy import (
    EnergyError,
    Network,
    attack_regions,
    draw_busiest_day,
    draw_charging,
    draw_congestion,
    draw_disaggregation,
    draw_ratio,
    draw_release,
    release_case,
)
from tacit.applications.energy.charging import EnergyHistogram
from tacit.errors import ParameterError
from tacit.mechanisms import NoisySums


def test_pictures_are_written(tmp_path: Path) -> None:
    network = Network.nine_buses()
    found = EnergyHistogram((0, 10, 20), (4, -1), NoisySums.of_scale("laplace", 2), True, None)
    draw_charging([found, found, found], ["a", "b", "c"], tmp_path / "a.png", truth=[3, 1])
    draw_busiest_day({"2019-11-01": 3.0, "2019-11-02": 9.0}, {"epsilon 1": [0.4, 0.6]}, tmp_path / "b.svg")
    draw_congestion(network, tmp_path / "c.png")
    draw_ratio(["nine", "six"], [2.0, 48.0], tmp_path / "d.pdf")
    draw_release(release_case(network, change=5, epsilon=1, cost=5216), tmp_path / "e.png", truth=network)
    rows = attack_regions(network, {"all": list(range(1, 10))}, bus=9, change=5, epsilons=[1, 10], box=(30, 150), runs=3)
    draw_disaggregation(rows, tmp_path / "f.png")
    written = {file.name for file in tmp_path.iterdir() if file.stat().st_size > 1000}
    assert written == {"a.png", "b.svg", "c.png", "d.pdf", "e.png", "f.png"}


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ParameterError):
        draw_charging([], [], "curve.txt")
    with pytest.raises(EnergyError):
        draw_ratio(["a"], [])
    with pytest.raises(EnergyError):
        draw_disaggregation([])


def test_the_example_redraws_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = Path(__file__).resolve().parents[3] / "examples" / "energy_figures.py"
    monkeypatch.setattr(sys, "argv", [script.name, str(tmp_path / "pictures"), "--quick"])
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().out
    assert "released nine buses: cost" in said and "epsilon 0.1: a guess" in said
    written = {file.name for file in (tmp_path / "pictures").iterdir() if file.read_bytes().startswith(b"\x89PNG")}
    assert {"figure_10_1.png", "figure_10_2.png", "figure_10_3.png", "released_loads.png", "disaggregation.png"} == written
