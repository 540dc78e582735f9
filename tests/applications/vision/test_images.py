"""Pictures that come in: what is refused, by name and before anything is spent; what is written has no metadata."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tacit.accounting import Adjacency
from tacit.applications.vision import Mask, Pixelize, VisionError, read, release, size_of, write
from tacit.applications.vision.images import picture
from tacit.ledger import Account, Budget, Ledger

GREY = np.zeros((20, 30), np.uint8)
METHOD = Pixelize(cell=4, pixels=4, epsilon=1)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    return ledger.account("photos", Budget(epsilon=2), unit=METHOD.unit, adjacency=Adjacency.REPLACE_ONE)


BAD = {
    "16 bits": np.zeros((4, 4), np.uint16), "floats": np.zeros((4, 4)), "bools": np.zeros((4, 4), bool),
    "alpha": np.zeros((4, 4, 4), np.uint8), "two channels": np.zeros((4, 4, 2), np.uint8), "empty": np.zeros((0, 4), np.uint8),
    "one row": np.zeros(4, np.uint8), "objects": np.array([[None]]), "a list": [[1, 2], [3, 4]], "a text": "face.png",
}  # fmt: skip


@pytest.mark.parametrize("image", BAD.values(), ids=BAD)
def test_what_is_no_picture_is_refused_before_anything_is_spent(image: object, account: Account) -> None:
    with pytest.raises(VisionError):
        release(METHOD, image, account=account)
    assert account.spent().known()["pure"] == 0


BOXES = {
    "outside": ([(20, 10, 11, 5)], "box 0 lies outside the picture of 30 x 20"), "negative": ([(-1, 0, 4, 4)], "lies outside"),
    "overlapping": ([(0, 0, 5, 5), (10, 0, 5, 5), (4, 4, 5, 5)], "boxes 0 and 2 overlap"), "empty": ([(0, 0, 0, 4)], "box 0 is empty"),
    "none": ([], "there is no box"), "three numbers": ([(1, 2, 3)], "four whole numbers"), "floats": ([(0, 0, 4.0, 4)], "four whole"),
    "texts": (["abcd"], "four whole numbers"), "bools": ([(True, 0, 4, 4)], "four whole"), "same twice": ([(0, 0, 4, 4)] * 2, "overlap"),
}  # fmt: skip


@pytest.mark.parametrize(("boxes", "said"), BOXES.values(), ids=BOXES)
def test_boxes_are_refused_by_name_before_anything_is_spent(boxes: list[tuple[int, ...]], said: str, account: Account) -> None:
    with pytest.raises(VisionError, match=said):
        release(METHOD, GREY, boxes, account=account)
    assert account.spent().known()["pure"] == 0


def test_a_release_is_paid_for_from_an_account_of_its_own_unit(account: Account, tmp_path: Path) -> None:
    found = release(METHOD, GREY, account=account, purpose="archive")
    assert found.private and found.entry is not None and account.spent().known()["pure"] == 1
    people = account.ledger.account("people", Budget(epsilon=2), unit="person")
    with pytest.raises(VisionError, match="must not be added up"):
        release(METHOD, GREY, account=people)
    with pytest.raises(VisionError, match="nothing to pay for"):
        release(Mask(), GREY, account=account)
    assert people.spent().known()["pure"] == 0


def test_refusals_do_not_depend_on_pixels() -> None:
    texts = set()
    for level in (0, 255):
        with pytest.raises(VisionError) as caught:
            release(METHOD, np.full((9, 9, 4), level, np.uint8))
        texts.add(str(caught.value))
    assert len(texts) == 1


# --- files --------------------------------------------------------------------------------------------------


def saved(folder: Path, mode: str, name: str, **more: object) -> Path:
    size = (12, 8)
    made = Image.fromarray(np.full((8, 12), 700, np.uint16)) if mode == "I;16" else Image.new(mode, size)
    made.save(folder / name, **more)
    return folder / name


@pytest.mark.parametrize(("mode", "name"), [("L", "a.png"), ("RGB", "a.png"), ("RGB", "a.jpg"), ("L", "a.pgm"), ("RGB", "a.bmp")])
def test_grey_and_rgb_files_are_read(mode: str, name: str, tmp_path: Path) -> None:
    found = read(saved(tmp_path, mode, name))
    assert found.shape == ((8, 12) if mode == "L" else (8, 12, 3)) and found.dtype == np.uint8


@pytest.mark.parametrize(
    ("mode", "name", "said"),
    [
        ("RGBA", "a.png", "RGBA"), ("LA", "a.png", "LA"), ("P", "a.png", "palette"), ("1", "a.png", "8-bit grey"),
        ("I;16", "a.png", "8 bits a channel"), ("CMYK", "a.jpg", "CMYK"), ("F", "a.tiff", "8 bits"),
    ],
)  # fmt: skip
def test_other_kinds_of_files_are_refused_with_their_name_and_the_fix(mode: str, name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(VisionError, match=said) as caught:
        read(saved(tmp_path, mode, name))
    assert name in str(caught.value)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64), dtype=np.uint8)).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    for name, content in {"cut.png": whole[:40], "text.png": b"hello", "empty.png": b"", "half.png": whole[: len(whole) // 2]}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(VisionError, match=name):
            read(tmp_path / name)
    with pytest.raises(VisionError, match="there is no such file"):
        read(tmp_path / "absent.png")
    Image.new("L", (4, 4)).save(tmp_path / "many.gif", save_all=True, append_images=[Image.new("L", (4, 4), 9)])
    with pytest.raises(VisionError, match=r"many\.gif"):
        read(tmp_path / "many.gif")


def test_nothing_but_pixels_comes_out(tmp_path: Path) -> None:
    """A photograph's place, time and thumbnail stay behind, and it is turned upright."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    exif[0x010F] = "Secret camera"
    exif.get_ifd(0x8825)[1] = "N"
    Image.new("RGB", (12, 8), (9, 9, 9)).save(tmp_path / "a.jpg", exif=exif, comment=b"secret")
    pixels = read(tmp_path / "a.jpg")
    assert pixels.shape == (12, 8, 3)
    write(tmp_path / "out.png", release(METHOD, pixels).pixels)
    stored = (tmp_path / "out.png").read_bytes()
    assert b"ecret" not in stored
    with Image.open(tmp_path / "out.png") as again:
        assert dict(again.getexif()) == {} and again.info == {}
    with pytest.raises(VisionError, match="PNG"):
        write(tmp_path / "out.jpg", pixels)


def test_a_masked_array_has_no_sums_of_its_own() -> None:
    """A mask would hide pixels from the sums, and the number of masked ones is data."""
    hidden = np.ma.masked_greater(np.full((20, 30), 200, np.uint8), 100)
    assert type(picture(hidden)) is np.ndarray and int(picture(hidden).sum()) == 200 * 600
    assert release(METHOD, hidden).pixels.shape == (20, 30)


def test_a_picture_is_not_copied_or_changed() -> None:
    image = np.full((20, 30), 7, np.uint8)
    assert picture(image) is image
    release(METHOD, image)
    assert (image == 7).all()


def test_an_animated_png_is_refused_by_its_header(tmp_path: Path) -> None:
    first, second = (Image.new("RGB", (6, 4), (value, 0, 0)) for value in (1, 200))
    first.save(tmp_path / "moving.png", save_all=True, append_images=[second])
    for opened in (read, size_of):
        with pytest.raises(VisionError, match=r"moving\.png: it has 2 frames; save one of them"):
            opened(tmp_path / "moving.png")


@pytest.mark.parametrize("turned", range(1, 9))
def test_the_size_in_the_header_is_that_of_the_upright_picture(turned: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = turned
    Image.new("RGB", (12, 8), (9, 9, 9)).save(tmp_path / "a.jpg", exif=exif)
    assert size_of(tmp_path / "a.jpg") == read(tmp_path / "a.jpg").shape == ((8, 12, 3) if turned < 5 else (12, 8, 3))


def test_sixteen_bits_of_colour_are_read_as_eight_whatever_they_hold(tmp_path: Path) -> None:
    """Pillow keeps the upper byte of such a file; the shape and the kind of the array never depend on a pixel."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for value in (0, 255, 65535):
        rows = b"".join(b"\0" + struct.pack(">H", value) * 9 for _ in range(2))
        head = struct.pack(">IIBBBBB", 3, 2, 16, 2, 0, 0, 0)
        path = tmp_path / f"{value}.png"
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        found = read(path)
        assert (found.shape, found.dtype, int(found.max())) == ((2, 3, 3), np.uint8, value >> 8)
