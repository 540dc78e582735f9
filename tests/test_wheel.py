"""The wheel holds the package with its types and templates and nothing else; it can be installed and imported.

Built without isolation and installed without dependencies, so that nothing is fetched.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "tacit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = f"tacit-{tacit.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(about)} == wanted
    assert {"tacit/py.typed", "tacit/release/templates/report.html"} <= names
    assert about + "licenses/LICENSE" in names


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"tacit-{tacit.__version__}.dist-info/METADATA").decode()
    about = Parser().parsestr(text)
    assert (about["Name"], about["Version"]) == ("tacit", tacit.__version__)
    assert about["Requires-Python"] == ">=3.11"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(about.get_all("Provides-Extra", [])) == set(extras)
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_wheel_installs_and_imports(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, with no other package: `import tacit` needs none."""
    venv.create(tmp_path / "fresh", with_pip=False, symlinks=True)
    python = tmp_path / "fresh" / "bin" / "python"
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", python, *install, wheel, cwd=tmp_path)
    where = "import tacit; print(tacit.__version__, tacit.__file__)"
    version, file = run(python, "-I", "-c", where, cwd=tmp_path).split()
    assert version == tacit.__version__
    assert Path(file).is_relative_to(tmp_path / "fresh")
    assert (tmp_path / "fresh" / "bin" / "tacit").exists()
