"""The example draws its two pictures."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "hidden_pictures.py"


def test_the_contact_sheet_and_the_heat_maps_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE))["main"]([str(tmp_path)])
    assert (tmp_path / "contact_sheet.png").stat().st_size > 50_000 and (tmp_path / "heat_maps.png").stat().st_size > 20_000
    printed = capsys.readouterr().out
    assert printed.count("no guarantee") == 4 and "with singular vectors in the open" in printed
