"""`kind: images`: pictures of a folder, pixelized or blurred with noise, for up to so many pixels of every owner's pictures.

The source is a table with one row for each picture: its file below `folder`, and its owner, who is the job's person. The
cap of the unit is how many pictures of one owner are published; all of them share the price. What is protected is the
content of `pixels` pixels of each picture. That there are pictures, their sizes and their number is not.

>>> from fractions import Fraction
>>> from tacit.accounting import Guarantee
>>> planned = plan(ImagesOutput(ImagesSpec(**EXAMPLE), None, Path("photos"), 2), Portion(Fraction(1), Guarantee(epsilon=1), None))
>>> planned.event, round(planned.errors_at(0.95)["level"], 1), protects(planned)
(Laplace(noise_multiplier=1, ...), 2148.5, 'up to 360 pixels of each of 2 pictures')
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator
from sqlglot import exp

from tacit.accounting import Event, to_json
from tacit.applications.vision import Blur, Pixelize, VisionError, boxes_in, encoded, foretold, read, release, size_of
from tacit.mechanisms import NoisySums
from tacit.release.errors import JobError
from tacit.release.job_parts import OutputSpec
from tacit.release.kinds import Notice, Portion, Record, fields
from tacit.release.page import template
from tacit.tables import MARK, Desk

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Images"
#: Pictures that the report shows, and the most bytes of one of them.
SHOWN, LARGEST = 8, 200_000
#: Ends of the names of files that are taken for pictures when a folder is checked.
ENDS = (".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".bmp", ".tif", ".tiff", ".webp", ".gif")
EXAMPLE: dict[str, Any] = {
    "kind": "images", "name": "faces", "source": "photos", "folder": "photos", "file": "file", "method": "pixelize",
    "cell": 16, "pixels": 360, "weight": 1,
}  # fmt: skip


class ImagesSpec(OutputSpec):
    """Pictures named by a column of a source. `cell` is for pixelize, `kernel` for blur; `boxes` are public, and the same in all."""

    source: str
    folder: str = Field(min_length=1)
    file: str
    method: Literal["pixelize", "blur"]
    pixels: int = Field(ge=1)
    cell: int | None = Field(default=None, ge=1)
    kernel: int | None = Field(default=None, ge=3)
    colour: Literal["rgb", "hsv"] = "rgb"
    boxes: tuple[tuple[int, int, int, int], ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        if not isinstance(value, dict) or not isinstance(value.get("boxes"), list):
            return value
        return {**value, "boxes": tuple(tuple(box) if isinstance(box, list) else box for box in value["boxes"])}

    @model_validator(mode="after")
    def _whole(self) -> ImagesSpec:
        if self.method == "pixelize" and (self.cell is None or self.kernel is not None):
            raise ValueError("pixelize needs cell, the side of a cell in pixels, such as 16, and no kernel")
        if self.method == "blur" and (self.kernel is None or self.kernel % 2 == 0):
            raise ValueError("blur needs kernel, an odd number of pixels such as 99; cell is 4 if it is left out")
        if self.boxes is not None:
            far = 1 << 24  # whether they lie inside is known where the pictures are
            boxes_in((far, far), self.boxes)
        return self


Block = ImagesSpec


@dataclass(frozen=True)
class ImagesOutput(fields.Prepared):
    """A block that was checked: one Laplace or Gaussian event for all pictures of one owner."""

    folder: Path
    pictures: int
    expected: int = 1
    plain: bool = True
    figures: tuple[str, ...] = ("level",)


def prepare(block: ImagesSpec, job: Job, desk: Desk, place: str) -> ImagesOutput:
    """Check the block against the job, and the headers of the files where the folder is there. No pixel is decoded."""
    fields.owned_rows(
        block, "file", "the name of each picture's file", job, desk, place,
        words="pictures need an owner: unit: {person: <column>, max_rows: <pictures of one owner>}, without a window",
        known="that there is a picture is not hidden",
    )
    folder = (desk.source.folder or Path()) / block.folder
    if desk.source.folder is not None:
        _files_are_pictures(block, folder, place)
    return ImagesOutput(block, desk, folder, desk.unit.most_rows, job.expected.rows or 1)


def _files_are_pictures(block: ImagesSpec, folder: Path, place: str) -> None:
    """Refuse a folder with a file that could not be hidden, before anything is spent; by headers alone, which are public."""
    if not folder.is_dir():
        raise JobError("there is no such folder; paths are relative to the job's own folder", place=f"{place}.folder")
    for path in sorted(folder.rglob("*")):
        if path.name.lower().endswith(ENDS) and path.is_file():
            try:
                shape = size_of(path)
                area = sum(box.area for box in boxes_in(shape, block.boxes))
            except VisionError as error:
                raise JobError(str(error), place=f"{place}.folder") from None
            if area < block.pixels:
                raise JobError(f"pixels is {block.pixels}, and of {path} only {area} are hidden", place=f"{place}.pixels")


@dataclass(frozen=True)
class PlannedImages(fields.Priced):
    """Pictures with their noise."""

    method: Pixelize | Blur

    @property
    def measured(self) -> Pixelize:
        """What is measured."""
        return self.method.measured if isinstance(self.method, Blur) else self.method

    @property
    def sums(self) -> NoisySums:
        """The noise on the sums of cells, in colour, which has the most."""
        return self.measured.sums(3)

    @property
    def noise(self) -> str:
        return self.sums.law

    @property
    def event(self) -> Event:
        return self.method.event

    @property
    def size(self) -> int:
        return int(self.output.expected)

    @property
    def score(self) -> float:
        return math.log(self.errors_at(0.95)["level"])

    def errors_at(self, confidence: float) -> dict[str, float]:
        """How far the level of a whole cell of a grey picture may be off before it is clipped."""
        return {"level": self.measured.sums(1).error(confidence) / self.measured.cell**2}


def plan(output: ImagesOutput, portion: Portion) -> PlannedImages:
    """The method for a portion of the budget. No data is touched."""
    spec = output.spec
    method: Pixelize | Blur
    if spec.method == "blur":
        method = Blur(
            spec.kernel or 99, spec.pixels, portion.spend, cell=spec.cell or 4, colour=spec.colour, law=_law(portion),
            pictures=output.pictures,
        )
    else:
        method = Pixelize(spec.cell or 16, spec.pixels, portion.spend, colour=spec.colour, law=_law(portion), pictures=output.pictures)
    return PlannedImages(output, portion, method)


def _law(portion: Portion) -> Literal["laplace", "gaussian"] | None:
    return "gaussian" if portion.law == "gaussian" else "laplace" if portion.law == "laplace" else None


def notices(planned: PlannedImages, job: Job, place: str) -> Iterable[Notice]:
    """Nothing left to see, or faces that a learner would still recognise."""
    # smoothing over neighbouring 4 x 4 cells hides about as much as a quarter of their noise on 16 x 16 cells, as measured
    scale = planned.measured.scale() / (4 if planned.spec.method == "blur" else 1)
    if planned.measured.scale() > 128 and planned.spec.method == "pixelize":
        text = f"the noise on a whole cell has scale {planned.measured.scale():.0f} of 255 levels: little will be seen; use larger cells"
        yield Notice("noise-hides-all", place, text)
    share = foretold(scale)
    if share > 10:
        text = (
            f"a learner recognised about {share:.0f} % of public faces at this scale of noise; pixels must cover all that is to be hidden, "
            "such as a whole face"
        )
        yield Notice("faces-recognised", place, text)


def explain(planned: PlannedImages) -> tuple[str, str]:
    """What is done in words, and the statement that is sent."""
    method = planned.measured
    words = (
        f"sums of {method.cell} x {method.cell} cells with {planned.noise} noise of scale {method.sums(1).spread():.6g} in grey "
        f"and {method.sums(3).spread():.6g} in colour; {planned.event!r} for {method.unit} of one owner"
    )
    return words, _statement(planned).sql()


def _statement(planned: PlannedImages) -> exp.Select:
    return fields.owned_statement(planned.output.desk, planned.spec.source, planned.spec.file)


def kept(owners: Sequence[Any], files: Sequence[Any], most: int) -> list[str]:
    """The files that are published, in the order of their names: none that is beyond the first `most` of any of its owners.

    >>> kept(["a", "a", "a", "b"], ["1.png", "2.png", "3.png", "3.png"], 2)
    ['1.png', '2.png']
    """
    of: dict[Any, set[str]] = {}
    for owner, file in zip(owners, files, strict=True):
        if owner is not None and owner == owner and file is not None:  # NaN is no owner: two of them are never one
            of.setdefault(owner, set()).add(file)
    beyond = {file for held in of.values() for file in sorted(held)[most:]}
    return sorted({file for held in of.values() for file in held} - beyond)


def draw(planned: PlannedImages) -> Record:
    """Read every picture and hide it, once. A file that is not there, or lies elsewhere, is left out."""
    table = planned.output.desk.engine.run(_statement(planned))
    owners, names = (table.column(place).to_pylist() for place in range(2))
    folder = planned.output.folder.resolve()
    made = []
    for name in kept(owners, [found_in(folder, name) for name in names], planned.output.pictures):
        try:
            hidden = release(planned.method, read(folder / name), planned.spec.boxes)
        except VisionError:
            continue
        made.append(base64.b64encode(encoded(hidden.pixels)).decode())
    return {"pictures": made}


def found_in(folder: Path, name: Any) -> str | None:
    """The one name of a file below the folder, however a row spells it; None for what is not there.

    A second spelling of a file, or a link to it, would be a second picture of its owner beyond the cap.
    """
    try:
        path = (folder / str(name)).resolve()
        return path.relative_to(folder).as_posix() if path.is_file() and path.is_relative_to(folder) else None
    except (OSError, ValueError, RuntimeError):
        return None


@dataclass(frozen=True, repr=False)
class MadePictures:
    """Hidden pictures as PNG, in the order of their files."""

    pictures: tuple[bytes, ...]
    private: bool

    def __repr__(self) -> str:
        return f"{len(self.pictures)} hidden pictures"


def result(planned: PlannedImages, drawn: Record, private: bool, entry: int | None) -> MadePictures:
    """The pictures of a draw."""
    return MadePictures(tuple(base64.b64decode(one) for one in drawn["pictures"]), private)


def checks(planned: PlannedImages, result: MadePictures) -> list[tuple[str, bool]]:
    """Every picture is a PNG."""
    return [("every picture is a PNG file", all(one.startswith(b"\x89PNG") for one in result.pictures))]


def files(planned: PlannedImages, result: MadePictures, formats: Sequence[str]) -> dict[str, bytes]:
    """One PNG for each picture, numbered, and what they are in JSON."""
    names = [f"{planned.spec.name}_{number:04}.png" for number in range(1, len(result.pictures) + 1)]
    about = {
        "pictures": names,
        "method": planned.spec.method,
        "protects": protects(planned),
        "event": json.loads(to_json(planned.event)),
        **({} if result.private else {"not_private": MARK}),
    }
    return {**dict(zip(names, result.pictures, strict=True)), f"{planned.spec.name}.json": json.dumps(about, indent=1).encode()}


def recorded(planned: PlannedImages, result: MadePictures) -> Record:
    """The method and its price."""
    return fields.recorded_of(
        planned, source=planned.spec.source, method=planned.spec.method, cell=planned.measured.cell, pixels=planned.spec.pixels,
        pictures_of_one_owner=planned.output.pictures,
    )


def private_files(planned: PlannedImages) -> list[Path]:
    """Every file of the folder: any of them may be named by a row, and no source of the job holds its pixels."""
    output = planned.output
    if output.desk is None or output.desk.source.folder is None:
        return []
    return sorted(path for path in output.folder.rglob("*") if path.is_file())


def protects(planned: PlannedImages) -> str:
    """What of an owner's data is protected: pixels, not presence."""
    return planned.measured.unit


def unprotected(planned: PlannedImages) -> list[str]:
    """What the pictures show as it is."""
    found = ["that there is a picture, its size and its place in the order of files"]
    return [*found, "everything outside the boxes"] if planned.spec.boxes is not None else found


def post_processing(planned: PlannedImages) -> list[str]:
    """Means are rounded and clipped to 0 to 255; blur smooths them."""
    return ["clipping", "smoothing"] if planned.spec.method == "blur" else ["clipping"]


def described(planned: PlannedImages, result: MadePictures | None) -> Record:
    """What the report shows: some pictures, and what they hide."""
    shown = [] if result is None else [one for one in result.pictures if len(one) <= LARGEST][:SHOWN]
    notes = [
        f"Hidden are {protects(planned)}: whoever compares two pictures that differ in so many pixels cannot tell which was published, "
        "up to epsilon.",
        "A secret that covers more pixels is protected less, in proportion. That there is a picture, and how large, is not hidden.",
        f"With such noise a learner recognised about {foretold(planned.measured.scale()):.0f} % of public faces in 16 x 16 cells."
        if planned.spec.method == "pixelize"
        else "Smoothing is done after the noise was added, and costs nothing.",
    ]
    return fields.opening_of(planned, result, notes) | {
        "pictures": [base64.b64encode(one).decode() for one in shown],
        "count": 0 if result is None else len(result.pictures),
        "method": planned.spec.method,
        "protects": protects(planned),
        "scale": f"{planned.measured.scale():.4g}",
    }


def section(described: Record, confidence: str) -> str:
    """Some of the pictures, and what the statistician asks."""
    return template("images.html").render(output=described, confidence=confidence)


def review(outputs: Sequence[PlannedImages], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about pictures."""
    return {
        "Do bounds or groups come from the data?": "No: cells, boxes and the number of pixels are declared in the job.",
        "Who bears the noise?": "Small details everywhere; a face that covers more than the declared pixels is protected less.",
    }

