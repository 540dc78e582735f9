"""Pictures as arrays: what is read, which parts are hidden, and how a hidden picture is paid for and written.

A picture is an array of bytes, height by width in grey or height by width by 3 in RGB. Its size and its kind are
public; its pixels are not. A `PictureMethod` hides a picture or public boxes in it; `release` checks everything that can be
checked without the pixels, books the price, and runs the method once. No error here depends on a pixel.

>>> import numpy as np
>>> from tacit.applications.vision import Pixelize, release
>>> method = Pixelize(cell=16, pixels=16, epsilon=1)
>>> hidden = release(method, np.zeros((48, 64), np.uint8))
>>> hidden.pixels.shape, hidden.event, hidden.unit
((48, 64), Laplace(noise_multiplier=1, adjacency=...REPLACE_ONE...), 'up to 16 pixels of a picture')
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.calculus import number_of
from tacit.errors import PackageMissing, ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import Account, paying

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]
#: Pixels of one picture that are read; larger files are taken for a mistake or an attack.
LARGEST = 80_000_000
#: Neighbouring pictures have the same size, so nothing is added or removed.
RELATION = Adjacency.REPLACE_ONE


class VisionError(ParameterError):
    """A picture, a box or a parameter that is refused before anything is spent. Its text has no pixel in it."""


class Box(NamedTuple):
    """A public rectangle: its left upper corner, width and height, in pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def parts(self) -> tuple[slice, slice]:
        """The rows and columns of an array that lie in it."""
        return slice(self.y, self.y + self.height), slice(self.x, self.x + self.width)

    @property
    def area(self) -> int:
        """How many pixels it has."""
        return self.width * self.height

    def meets(self, other: Box) -> bool:
        """Whether the two have a pixel in common.

        >>> Box(0, 0, 2, 2).meets(Box(1, 1, 2, 2)), Box(0, 0, 2, 2).meets(Box(2, 0, 2, 2))
        (True, False)
        """
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@runtime_checkable
class PictureMethod(Protocol):
    """A way to hide a picture. `event` is None for the older ways that promise nothing."""

    @property
    def event(self) -> Event | None:
        """What one picture costs, however many boxes and channels it has."""

    @property
    def unit(self) -> str:
        """What the guarantee protects, in words; the ledger's account has the same unit."""

    def hidden(self, image: Pixels, boxes: Sequence[Box]) -> Pixels:
        """A new picture in which the boxes are hidden. It touches the pixels; `release` pays first."""

    def checked(self, shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
        """Refuse what cannot be done for a picture of this shape, before anything is spent."""


@dataclass(frozen=True, repr=False)
class Hidden:
    """A picture that may be published, and what it cost. `entry` is the ledger's, where it was paid from an account."""

    pixels: Pixels
    event: Event | None
    unit: str
    entry: int | None
    private: bool

    def __repr__(self) -> str:
        price = "no guarantee" if self.event is None else f"{self.event!r} for {self.unit}"
        return f"Hidden({'x'.join(map(str, self.pixels.shape))}, {price}{'' if self.private else ', NOT PRIVATE'})"


def release(
    method: PictureMethod,
    image: Any,
    boxes: Iterable[Sequence[int]] | None = None,
    *,
    account: Account | None = None,
    purpose: str = "",
    run: str = "",
) -> Hidden:
    """Hide a picture, or public boxes in it, once, and pay for it from an account where one is given.

    What lies outside the boxes is published as it is. The account must be one for the method's own unit, such as
    'up to 16 pixels of a picture': pixels are no people, and their epsilons are not added up.

    >>> from tacit.applications.vision import Mask
    >>> release(Mask(), np.full((4, 4), 9, np.uint8), [(0, 0, 2, 4)]).pixels.tolist()[0]
    [0, 0, 9, 9]
    """
    given = picture(image)
    places = boxes_in(given.shape, boxes)
    method.checked(given.shape, places)
    if method.event is None:
        if account is not None:
            raise VisionError(f"{type(method).__name__} has no guarantee, so there is nothing to pay for; leave account out")
        return Hidden(method.hidden(given, places), None, method.unit, None, False)
    at_home(method.unit, account)
    with paying(account, method.event, purpose=purpose, run=run) as payment:
        pixels = method.hidden(given, places)
    return Hidden(pixels, method.event, method.unit, payment.entry, payment.private)


def at_home(unit: str, account: Account | None) -> None:
    """Refuse an account that protects something else: amounts for different units must not be added up."""
    if account is not None and account.spec.unit != unit:
        raise VisionError(
            f"the account protects {account.spec.unit!r} and this release {unit!r}; the two must not be added up. "
            f"Open an account with unit={unit!r}"
        )


# --- what may come in ---------------------------------------------------------------------------------------


def picture(image: Any) -> Pixels:
    """An array of bytes in grey or RGB, or a refusal by its kind; the pixels are not looked at.

    >>> picture(np.zeros((2, 3), np.uint16))
    Traceback (most recent call last):
    tacit.applications.vision.images.VisionError: a picture has 8 bits a channel (uint8), not uint16; ...
    """
    if not isinstance(image, np.ndarray):
        raise VisionError("a picture is a numpy array, height by width (grey) or height by width by 3 (RGB); read a file with read()")
    given: Pixels = np.asarray(image)  # a masked array or a matrix has sums of its own
    if given.dtype != np.uint8:
        hint = "divide a 16-bit picture by 257" if given.dtype.kind in "ui" else "multiply values in [0, 1] by 255"
        raise VisionError(f"a picture has 8 bits a channel (uint8), not {given.dtype}; {hint}, round, and convert it")
    if given.ndim not in (2, 3) or (given.ndim == 3 and given.shape[2] != 3) or 0 in given.shape:
        found = "x".join(map(str, given.shape))
        raise VisionError(f"a picture is height x width (grey) or height x width x 3 (RGB), not {found}; drop an alpha channel first")
    if given.shape[0] * given.shape[1] > LARGEST:
        raise VisionError(f"a picture has at most {LARGEST:,} pixels; cut it into parts or make it smaller")
    return given


def table_of(rows: Any, width: int) -> NDArray[np.float64]:
    """A table of numbers, `width` in a row; each value is read by itself, and what is no number, or no such row, is NaN.

    numpy would choose one type for the whole of a list, so that one person's text would change everyone's numbers, or raise. Only an
    array's shape can be refused, by whoever asks: that of a list is how long it is, and the public width.

    >>> table_of([[1, "2"], [None, "x"], 7], 2).tolist()
    [[1.0, 2.0], [nan, nan], [nan, nan]]
    """
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf" and not isinstance(rows, np.ma.MaskedArray):
        with np.errstate(all="ignore"):
            return rows.astype(np.float64)
    if isinstance(rows, np.ndarray) and rows.ndim != 1:
        return np.array([number_of(value) for value in rows.ravel().tolist()], dtype=np.float64).reshape(rows.shape)
    listed = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, str | bytes) else []
    known = [isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1) for row in listed]
    read = [row if good and len(row) == width else [None] * width for row, good in zip(listed, known, strict=True)]
    return np.array([[number_of(value) for value in row] for row in read], dtype=np.float64).reshape(len(read), width)


def boxes_in(shape: tuple[int, ...], boxes: Iterable[Sequence[int]] | None) -> list[Box]:
    """The boxes of a picture of this shape, or the whole of it; refused where they leave the picture or overlap.

    Two boxes that share a pixel would count it twice, and the noise would be too small for it.

    >>> boxes_in((10, 20), [(0, 0, 4, 4), (2, 2, 4, 4)])
    Traceback (most recent call last):
    tacit.applications.vision.images.VisionError: boxes 0 and 1 overlap; ...
    """
    height, width = shape[:2]
    if boxes is None:
        return [Box(0, 0, width, height)]
    found: list[Box] = []
    for number, given in enumerate(boxes):
        try:
            x, y, wide, high = given
        except (TypeError, ValueError):
            raise VisionError(f"box {number} must be four whole numbers: x, y, width, height") from None
        if not all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in (x, y, wide, high)):
            raise VisionError(f"box {number} must be four whole numbers: x, y, width, height")
        box = Box(int(x), int(y), int(wide), int(high))
        if box.width < 1 or box.height < 1:
            raise VisionError(f"box {number} is empty; its width and height must be at least 1")
        if box.x < 0 or box.y < 0 or box.x + box.width > width or box.y + box.height > height:
            raise VisionError(f"box {number} lies outside the picture of {width} x {height} pixels; cut it at the edge")
        for earlier, other in enumerate(found):
            if box.meets(other):
                raise VisionError(f"boxes {earlier} and {number} overlap; join them, or cut one so that no pixel is in two boxes")
        found.append(box)
    if not found:
        raise VisionError("there is no box, so nothing would be hidden; leave boxes out to hide the whole picture")
    return found


def secret(pixels: int, pictures: int = 1) -> str:
    """So many pixels of a picture, or of each of several, in words.

    >>> secret(1), secret(16, 2)
    ('one pixel of a picture', 'up to 16 pixels of each of 2 pictures')
    """
    many = "one pixel" if pixels == 1 else f"up to {pixels} pixels"
    return f"{many} of a picture" if pictures == 1 else f"{many} of each of {pictures} pictures"


class ByDistance:
    """What methods share whose price is stated at a radius: what lies within it looks alike up to epsilon, what is farther off less."""

    radius: Typed
    guarantee: Guarantee | str | None

    def _stated(self, least: Fraction, epsilon: Typed | None, why: str) -> None:
        """Check the radius and settle the guarantee."""
        within = exact("radius", self.radius)
        if within < least:
            raise VisionError(f"radius must be at least {float(least):g}: {why}")
        object.__setattr__(self, "radius", within)
        object.__setattr__(self, "guarantee", epsilon_alone("privacy by distance is", self.guarantee, epsilon))

    @property
    def spent(self) -> Fraction:
        """The price at the radius."""
        assert isinstance(self.guarantee, Guarantee) and self.guarantee.epsilon is not None
        return self.guarantee.epsilon

    @property
    def within(self) -> Fraction:
        """The radius."""
        return exact("radius", self.radius)


def epsilon_alone(what: str, given: Guarantee | str | None, epsilon: Typed | None) -> Guarantee:
    """The price that was asked for, where only an epsilon without delta will do.

    >>> epsilon_alone("gaze is", "rho=1", None)
    Traceback (most recent call last):
    tacit.applications.vision.images.VisionError: gaze is priced in epsilon alone, not in rho=1
    """
    found = Guarantee.of(given, epsilon=epsilon).positive()
    if not found.pure:
        raise VisionError(f"{what} priced in epsilon alone, not in {found}")
    return found


def channels(shape: tuple[int, ...]) -> int:
    """1 for grey, 3 for RGB."""
    return 1 if len(shape) == 2 else shape[2]


# --- files --------------------------------------------------------------------------------------------------


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise PackageMissing(code="package-missing", package="pillow", install="'tacit[vision]'") from None
    return PIL


#: What to do about a file whose pixels are of another kind.
_MODES = {
    "RGBA": "put it on a background and save it as RGB", "LA": "put it on a background and save it as grey",
    "P": "save it as RGB without a palette", "CMYK": "save it as RGB", "1": "save it as 8-bit grey",
    "I;16": "save it with 8 bits a channel", "I": "save it with 8 bits a channel", "F": "save it with 8 bits a channel",
}  # fmt: skip


def read(path: str | Path) -> Pixels:
    """The pixels of a PNG, JPEG, PGM, ... in 8-bit grey or RGB, turned upright as its header says.

    A file that cannot be read, has another kind of pixels or several frames is refused with its name. Nothing but the
    pixels is kept: place, time and thumbnail of a photograph stay behind.
    """
    found: Pixels = _opened(path, lambda turned: np.array(turned, dtype=np.uint8))
    return found


def size_of(path: str | Path) -> tuple[int, ...]:
    """The shape that `read` would give, from the file's header alone; refused like `read`. The pixels are not decoded."""
    pil = _pillow()

    def shape(opened: Image) -> tuple[int, ...]:
        sideways = opened.getexif().get(0x0112, 1) >= 5  # turned by a quarter
        width, height = opened.size[::-1] if sideways else opened.size
        return (height, width) if opened.mode == "L" else (height, width, 3)

    found: tuple[int, ...] = _opened(path, shape, upright=lambda opened: opened, pil=pil)
    return found


def _opened(path: str | Path, use: Callable[[Any], Any], *, upright: Callable[[Any], Any] | None = None, pil: Any = None) -> Any:
    """What `use` makes of a picture file, turned upright; whatever is wrong with the file is one refusal with its name."""
    pil = pil or _pillow()
    reason = ""
    try:
        with pil.Image.open(path) as opened:
            reason = _refused(opened.mode, opened.size, getattr(opened, "n_frames", 1))
            if not reason:
                return use((upright or pil.ImageOps.exif_transpose)(opened))
    except FileNotFoundError:
        reason = "there is no such file"
    except (pil.Image.DecompressionBombError, pil.Image.DecompressionBombWarning):
        reason = f"it has more than {LARGEST:,} pixels; make it smaller"
    except Exception:
        # whatever a decoder says may quote the file
        reason = "it is no picture that can be read, or it is cut off; open it in an image program and save it again as PNG"
    raise VisionError(f"{path}: {reason}")


def _refused(mode: str, size: tuple[int, int], frames: int) -> str:
    """Why a file with this header is not read; empty where it is."""
    if mode not in ("L", "RGB"):
        return f"its pixels are {mode}, and 8-bit grey (L) or RGB is needed; {_MODES.get(mode, 'save it as RGB')}"
    if frames > 1:
        return f"it has {frames} frames; save one of them as PNG, or read a video with tacit.applications.vision.frames"
    if size[0] * size[1] > LARGEST:
        return f"it has more than {LARGEST:,} pixels; make it smaller"
    return ""


def encoded(pixels: Pixels) -> bytes:
    """The picture as PNG, with nothing in the file but its pixels."""
    buffer = io.BytesIO()
    made: Image = _pillow().Image.fromarray(pixels)
    made.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def write(path: str | Path, pixels: Pixels) -> None:
    """Write the picture as PNG, whatever it was read from: a JPEG would add marks of its own and a name of its camera."""
    if not str(path).lower().endswith(".png"):
        raise VisionError(f"a hidden picture is written as PNG, which keeps every pixel; give a name that ends in .png, not {path}")
    Path(path).write_bytes(encoded(pixels))

