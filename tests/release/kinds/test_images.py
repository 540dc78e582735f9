"""`kind: images`: what is planned, what is refused before anything is spent, what is published and under which unit."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from tests.applications.vision.faces import faces

from tacit.accounting import Laplace
from tacit.ledger import BudgetExceeded, Ledger
from tacit.release import JobError, plan, run
from tacit.release.job import Job, parse
from tacit.release.kinds.images import found_in, kept

TEXT = """
version: 1
title: Faces of the archive
purpose: Show that there are portraits, and nobody's face.
sources: {photos: {path: photos.csv}}
unit: {person: owner, max_rows: 2, adjacency: replace-one}
budget: {epsilon: 2, delta: 0}
columns:
  owner: {type: text}
  file: {type: text}
outputs:
  - {name: faces, kind: images, source: photos, folder: photos, file: file, method: pixelize, cell: 16, pixels: 360, weight: 1}
publication: {folder: out, formats: [csv], confidence: 0.95}
"""


def job(*pairs: tuple[str, str]) -> Job:
    text = TEXT
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Seven portraits of three people in a folder, and the table that says whose they are; one person has three."""
    (tmp_path / "photos").mkdir()
    rows = ["owner,file"]
    for number, who in enumerate([0, 0, 1, 1, 1, 2, 2]):
        name = f"{who}-{number}.png"
        Image.fromarray(faces()[0][10 * who + number]).save(tmp_path / "photos" / name)
        rows.append(f"p{who},{name}")
    (tmp_path / "photos.csv").write_text("\n".join([*rows, "p9,absent.png", "p8,../photos.csv", ",orphan.png"]))
    return tmp_path


def book(folder: Path) -> Ledger:
    return Ledger.open(f"sqlite:///{folder / 'tacit.db'}")


def test_the_plan_shares_the_price_among_an_owners_pictures() -> None:
    planned = plan(job())["faces"]
    assert planned.event == Laplace(Fraction(1, 2), adjacency=planned.event.adjacency)  # type: ignore[attr-defined]
    one = plan(job(("max_rows: 2", "max_rows: 1")))["faces"]
    assert planned.errors["level"] == pytest.approx(2 * one.errors["level"], rel=1e-3)
    rules = {notice.rule for notice in plan(job()).warnings}
    assert "noise-hides-all" in rules
    risky = plan(job(("pixels: 360", "pixels: 16")))
    assert any(notice.rule == "faces-recognised" for notice in risky.warnings)


def test_a_budget_with_delta_may_use_gaussian_noise() -> None:
    found = plan(job(("delta: 0", "delta: 1e-6"), ("cell: 16, pixels: 360", "cell: 2, pixels: 3600")))
    assert found["faces"].noise == "gaussian" and found.cost.upper <= 2
    assert plan(job(("{epsilon: 2, delta: 0}", "{rho: 0.5}"))).cost.upper > 0


def test_pictures_are_published_and_paid_for_under_their_own_unit(archive: Path) -> None:
    ledger = book(archive)
    done = run(job(), base=archive, ledger=ledger)
    names = sorted(path.name for path in done.folder.iterdir())
    # two of three for the second person; what is absent, elsewhere or nobody's is left out
    assert [name for name in names if name.endswith(".png")] == [f"faces_{n:04}.png" for n in range(1, 7)]
    first = np.array(Image.open(done.folder / "faces_0001.png"))
    assert first.shape == (112, 92) and len(np.unique(first.reshape(-1))) <= 42
    about = json.loads((done.folder / "faces.json").read_text())
    assert about["protects"] == "up to 360 pixels of each of 2 pictures"
    (account,) = ledger.accounts()
    assert account.spec.unit == "owner: up to 360 pixels of each of 2 pictures"
    assert account.spent().known()["pure"] == 2
    page = (done.folder / "report.html").read_text()
    assert "up to 360 pixels of each of 2 pictures of each person (owner)" in page and "data:image/png;base64," in page
    assert "p0" not in page and "0-0.png" not in page
    assert "Of each person (owner), up to 360 pixels" in done.unit_text
    assert "up to 360 pixels" in (done.folder / "registry.yaml").read_text()


def test_people_and_pixels_do_not_share_a_job() -> None:
    mixed = job(("publication:", "  - {name: owners, sql: SELECT COUNT(*) AS n FROM photos, weight: 1}\npublication:"))
    with pytest.raises(JobError, match="cannot be added up"):
        plan(mixed)
    two = job(("publication:", """  - {name: more, kind: images, source: photos, folder: photos, file: file, method: blur, kernel: 99,
     pixels: 16, weight: 1}\npublication:"""))  # fmt: skip
    with pytest.raises(JobError, match="cannot be added up"):
        plan(two)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("replace-one", "add-remove")], "replace-one"), ([("file: file", "file: path")], "names no column"),
        ([("source: photos, folder", "source: other, folder")], "names no private source"), ([(", cell: 16", "")], "cell"),
        ([("method: pixelize, cell: 16", "method: blur, kernel: 98")], "odd"), ([("pixels: 360", "pixels: 0")], "pixels"),
        ([(", pixels: 360", "")], "pixels: is missing"), ([("method: pixelize", "method: mosaic")], "method"),
        ([("{person: owner, max_rows: 2,", "{row: true,")], "need an owner"),
        ([("pixels: 360", "pixels: 360, boxes: [[0, 0, 9, 9], [5, 5, 9, 9]]")], "overlap"),
        ([("pixels: 360", "pixels: 360, boxes: [[0, 0, 9]]")], "boxes"),
    ],
)  # fmt: skip
def test_blocks_are_refused_by_place(pairs: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(JobError, match=said):
        plan(job(*pairs))


def damaged(folder: Path, kind: str) -> str:
    """A folder with one file that cannot be hidden, and what is said of it."""
    bad = folder / "photos" / "bad.png"
    if kind == "16 bits":
        Image.fromarray(np.zeros((200, 200), np.uint16)).save(bad)
        return "bad.png.*8 bits"
    if kind == "alpha":
        Image.new("RGBA", (200, 200)).save(bad)
        return "bad.png.*RGBA"
    if kind == "text":
        bad.write_text("hello")
        return "bad.png.*no picture"
    Image.new("L", (10, 10)).save(bad)
    return "only 100 are hidden"


@pytest.mark.parametrize("kind", ["16 bits", "alpha", "text", "small"])
def test_a_file_that_cannot_be_hidden_is_refused_before_anything_is_spent(archive: Path, kind: str) -> None:
    said, ledger = damaged(archive, kind), book(archive)
    with pytest.raises(JobError, match=said):
        run(job(), base=archive, ledger=ledger)
    assert ledger.accounts() == []


def test_boxes_and_folders_are_checked_before_anything_is_spent(archive: Path) -> None:
    ledger = book(archive)
    with pytest.raises(JobError, match="outside the picture of 92 x 112"):
        run(job(("pixels: 360", "pixels: 360, boxes: [[40, 40, 60, 60]]")), base=archive, ledger=ledger)
    with pytest.raises(JobError, match="no such folder"):
        run(job(("folder: photos", "folder: pictures")), base=archive, ledger=ledger)
    assert ledger.accounts() == []
    done = run(job(("pixels: 360", "pixels: 360, boxes: [[20, 20, 50, 60]]")), base=archive, ledger=ledger)
    original = np.array(Image.open(archive / "photos" / "0-0.png"))
    made = np.array(Image.open(io.BytesIO((done.folder / "faces_0001.png").read_bytes())))
    assert (made[:20] == original[:20]).all() and (made[20:80, 20:70] != original[20:80, 20:70]).mean() > 0.8
    assert "outside the boxes" in (done.folder / "registry.yaml").read_text()


def test_no_owner_has_more_pictures_than_the_cap_through_another() -> None:
    owners = ["a", "a", "a", "b", "b", None, "c"]
    files = ["1", "2", "3", "3", "4", "5", None]
    assert kept(owners, files, 2) == ["1", "2", "4"]
    assert kept(owners, files, 1) == ["1"]


def test_a_second_spelling_of_a_file_is_no_second_picture(archive: Path) -> None:
    folder = (archive / "photos").resolve()
    (folder / "sub").mkdir()
    (folder / "link.png").symlink_to(folder / "0-0.png")
    for name in ("0-0.png", "./0-0.png", "sub/../0-0.png", "link.png", str(folder / "0-0.png")):
        assert found_in(folder, name) == "0-0.png"
    for name in ("../photos.csv", "absent.png", "/etc/passwd", "", None, "a\0b", "sub", 7):
        assert found_in(folder, name) is None


def test_a_table_stands_in_for_the_file(archive: Path) -> None:
    table = pa.table({"owner": ["p0"], "file": ["0-0.png"]})
    assert len(run(job(), base=archive, ledger=book(archive), tables={"photos": table}).answers["faces"].pictures) == 1


def test_pictures_named_by_another_table_have_no_second_budget(archive: Path) -> None:
    run(job(), base=archive, ledger=book(archive))
    (archive / "other").mkdir()
    (archive / "other" / "copy.png").write_bytes((archive / "photos" / "0-0.png").read_bytes())
    (archive / "others.csv").write_text("owner,file\nx,copy.png\n")
    again = job(
        ("Faces of", "Others of"), ("path: photos.csv", "path: others.csv"), ("folder: photos", "folder: other"),
        ("folder: out", "folder: more"),
    )  # fmt: skip
    with pytest.raises(BudgetExceeded):
        run(again, base=archive, ledger=book(archive))


def test_owners_that_are_no_numbers_have_no_pictures() -> None:
    """Two NaN are never equal, so each would be an owner with a cap of its own."""
    assert kept([float("nan"), float("nan"), 1.0], ["1.png", "2.png", "3.png"], 1) == ["3.png"]
