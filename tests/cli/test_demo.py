"""`tacit demo` prints the showcase, writes the pictures it names, and nothing else."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tacit.cli import app


def test_demo(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tacit-demo"
    result = CliRunner().invoke(app, ["demo", "--out", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0
    written = sorted(path.name for path in folder.iterdir())
    assert written == ["composition.png", "dp-sgd.png", "theorems.png", "training.png"]
    for name in written:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert str(folder / name) in result.stdout, "the last lines say what to open"
    # Steinke 2022, Figure 3.1, k = 100, and the DP-SGD run of the README
    assert "5.75653" in result.stdout and "4.77457" in result.stdout and "2.3815969214" in result.stdout
