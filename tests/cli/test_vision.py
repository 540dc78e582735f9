"""`tacit vision`: hide, pay, attack; what is wrong is said in one line before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tacit.applications.vision import read, write
from tacit.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TACIT_LEDGER", raising=False)
    write("photo.png", np.full((64, 80, 3), 120, np.uint8))
    return tmp_path


HIDE = ["vision", "pixelize", "photo.png", "--out", "hidden.png", "--pixels", "64", "--epsilon", "2"]


def test_a_picture_is_hidden(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HIDE, "--json", "--plot", "scale.png"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["protects"] == "up to 64 pixels of a picture" and facts["epsilon"] == 2 and facts["entry"] is None
    assert facts["scale"] == 3 * 255 * 64 / 2 / 256
    assert read("hidden.png").shape == (64, 80, 3) and Path("scale.png").stat().st_size > 5000
    assert main([*HIDE, "--kernel", "31", "--colour", "hsv"]) == 0
    assert "not booked" in capsys.readouterr().out


def test_an_account_pays_and_refuses(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paid = [*HIDE, "--account", "archive", "--budget", "eps=3"]
    assert main(paid) == 0 and "entry" in capsys.readouterr().out
    Path("hidden.png").unlink()
    assert main(paid) == 2 and "archive" in capsys.readouterr().err
    assert not Path("hidden.png").exists()
    Path("copy.png").write_bytes(Path("photo.png").read_bytes())
    other = ["copy.png" if part == "photo.png" else "other" if part == "archive" else part for part in paid]
    assert main(other) == 2, "a copy under another name has no second budget"


def test_boxes(here: Path) -> None:
    assert main([*HIDE, "--box", "0,0,16,16", "--box", "32,0,16,16"]) == 0
    made = read("hidden.png")
    assert (made[16:] == 120).all() and (made[:16, 16:32] == 120).all()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--box", "0,0,16"], "x,y,width,height"), (["--box", "0,0,90,16"], "outside the picture"), (["--epsilon", "0"], "epsilon"),
        (["--box", "0,0,9,9", "--box", "5,5,9,9"], "overlap"), (["--colour", "cmyk"], "colour"), (["--kernel", "30"], "odd"),
        (["--budget", "eps=1"], "--account"), (["--out", "a.jpg"], ".png"), (["--out", "no/a.png"], "folder"),
        (["--plot", "a.txt"], "png"), (["--pixels", "99999"], "only 5120 are hidden"),
    ],
)  # fmt: skip
def test_requests_are_refused_in_one_line(here: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HIDE, *more]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1 and not Path("tacit.db").exists()


def test_files_that_are_no_pictures(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(np.zeros((9, 9), np.uint16)).save("deep.png")
    Path("text.png").write_text("hello")
    for name in ("deep.png", "text.png", "absent.png"):
        assert main(["vision", "pixelize", name, "--out", "o.png", "--pixels", "4", "--epsilon", "1"]) == 2
        assert name in capsys.readouterr().err


def test_an_attack_on_public_faces(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(1)
    for who in range(5):
        Path(f"faces/p{who}").mkdir(parents=True)
        for number in range(5):
            level = np.clip(50 * who + draw.normal(0, 9, (48, 48)), 0, 255).astype(np.uint8)
            write(f"faces/p{who}/{number}.png", level)
    words = ["vision", "reidentify", "faces", "--pixels", "16", "--epsilon", "0.01,50", "--splits", "2"]
    assert main([*words, "--json", "--plot", "risk.png"]) == 0
    found = json.loads(capsys.readouterr().out)["recognised"]
    assert found["as it is"]["accuracy"] == 1.0 > found["epsilon 0.01"]["accuracy"]
    assert found["epsilon 50"]["accuracy"] > 0.8 and Path("risk.png").stat().st_size > 5000
    assert main(words) == 0 and "guessing finds 20.0%" in capsys.readouterr().out
    assert main(["vision", "reidentify", "nowhere", "--pixels", "16", "--epsilon", "1"]) == 2
    Path("empty").mkdir()
    assert main(["vision", "reidentify", "empty", "--pixels", "16", "--epsilon", "1"]) == 2
