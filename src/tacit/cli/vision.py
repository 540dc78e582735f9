"""`tacit vision`: hide a picture with noise, and measure how many people a learner still recognises.

    tacit vision pixelize photo.jpg --out hidden.png --cell 16 --pixels 360 --epsilon 1
    tacit vision reidentify faces/ --cell 16 --pixels 16 --epsilon 0.1,0.5,1

`pixelize` pays from an account where one is named. `reidentify` is for public pictures, in one folder for each person.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from tacit.cli.options import OptionError, number

if TYPE_CHECKING:
    from tacit.applications.vision import Blur, Pixelize, Reidentified

vision_app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Pictures: hide them with noise, and attack what is hidden.",
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of words.")]
Plot = Annotated[str | None, typer.Option("--plot", help="Draw a picture into this file.", metavar="FILE")]
Cell = Annotated[int, typer.Option("--cell", min=1, help="The side of a cell, in pixels.")]
PixelsOption = Annotated[int, typer.Option("--pixels", min=1, help="How many pixels a secret may cover, such as a whole face.")]
Colour = Annotated[str, typer.Option("--colour", help="Average colours as rgb or hsv.")]
Kernel = Annotated[int | None, typer.Option("--kernel", min=3, help="Blur with a kernel of so many pixels (odd) in place of cells.")]


def _method(cell: int, pixels: int, epsilon: str, colour: str, kernel: int | None) -> Pixelize | Blur:
    from tacit.applications.vision import Blur, Pixelize
    from tacit.errors import ParameterError

    price = number("--epsilon", epsilon)
    known = cast(Literal["rgb", "hsv"], colour)  # anything else is refused by what takes it
    try:
        if kernel is not None:
            return Blur(kernel, pixels, epsilon=price, colour=known)
        return Pixelize(cell, pixels, epsilon=price, colour=known)
    except ParameterError as error:
        raise OptionError(str(error)) from None


@vision_app.command(
    epilog="[bold]tacit vision pixelize photo.jpg --out hidden.png --cell 16 --pixels 360 --epsilon 1 --box 40,30,120,160[/bold]"
)
def pixelize(
    image: Annotated[str, typer.Argument(help="A picture in 8-bit grey or RGB.", metavar="IMAGE")],
    out: Annotated[str, typer.Option("--out", help="Write the hidden picture into this PNG file.", metavar="FILE")],
    pixels: PixelsOption,
    epsilon: Annotated[str, typer.Option("--epsilon", help="What the picture may cost, in all its colours.")],
    cell: Cell = 16,
    box: Annotated[list[str] | None, typer.Option("--box", help="Hide only x,y,width,height; may be given several times.")] = None,
    colour: Colour = "rgb",
    kernel: Kernel = None,
    ledger: Annotated[str | None, typer.Option("--ledger", help="The book that the account is in, such as tacit.db.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="Pay from this account; it is opened with --budget.")] = None,
    budget: Annotated[str | None, typer.Option("--budget", help="The budget of a new account, such as 'eps=5'.")] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Hide a picture, or public boxes in it, once. What lies outside the boxes is written as it is."""
    from tacit.applications.vision import Pixelize, VisionError, foretold, read, release, write
    from tacit.cli.output import console
    from tacit.pictures import check_path

    method = _method(cell, pixels, epsilon, colour, kernel)
    if not out.lower().endswith(".png"):
        raise OptionError("--out must be a file name that ends in .png")
    if not Path(out).resolve().parent.is_dir():
        raise OptionError("--out is in a folder that is not there; make it first, because a picture is hidden only once")
    if account is None and (ledger is not None or budget is not None):
        raise OptionError("--ledger and --budget belong to --account, which names what is paid from")
    if plot is not None:
        check_path(plot)
    boxes = None if not box else [_box(text) for text in box]
    try:
        given = read(image)
        found = release(method, given, boxes, account=_account(ledger, account, budget, method.unit, image), purpose=Path(out).name)
        write(out, found.pixels)
    except VisionError as error:
        raise OptionError(str(error)) from None
    measured = method if isinstance(method, Pixelize) else method.measured
    layers = 1 if given.ndim == 2 else 3
    scale = measured.scale(layers)
    if plot is not None:
        _scales(plot, method, layers)
    share = foretold(scale if kernel is None else scale / 4)
    facts: dict[str, Any] = {
        "out": out, "protects": found.unit, "epsilon": float(measured.promised.epsilon or 0), "event": repr(found.event), "scale": scale,
        "cell": measured.cell, "recognised_percent_on_public_faces": share, "entry": found.entry, "private": found.private,
    }  # fmt: skip
    if as_json:
        print(json.dumps(facts))
        return
    lines = [
        f"{out}: {found.unit} hidden at epsilon {facts['epsilon']:g}, all channels and boxes together",
        f"noise of scale {scale:.4g} of 255 levels on the mean of a whole {measured.cell} x {measured.cell} cell",
        f"at this scale a learner recognised about {share:.0f} % of public faces" + ("" if share < 10 else ": hide more pixels for more"),
        "paid: not booked; name an --account" if found.entry is None else f"paid: entry {found.entry} of account {account}",
    ]
    if scale > 128 and kernel is None:
        lines.insert(2, "little will be seen: use larger cells for more")
    console().print("\n".join(lines))


def _box(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise OptionError(f"--box must be x,y,width,height in pixels, such as 40,30,120,160, not {text!r}")
    return tuple(int(part) for part in parts)


def _account(ledger: str | None, account: str | None, budget: str | None, unit: str, image: str) -> Any:
    if account is None:
        return None
    from tacit.ledger import DataIdentity, Ledger

    book = Ledger.at(ledger or os.environ.get("TACIT_LEDGER", "tacit.db"))
    # the picture is known by its bytes too: under another account's name it has no second budget
    data = [DataIdentity.declared(account), DataIdentity.file(image)]
    return book.account(account, budget, data=data, unit=unit, adjacency="replace-one")


def _scales(path: str, method: Pixelize | Blur, layers: int) -> None:
    """The scale of the noise by epsilon, with the one that was used."""
    import numpy as np

    from tacit.applications.vision import Pixelize
    from tacit.pictures import BLUE, GREY, RED, canvas, dress, finish

    own: Pixelize = method if isinstance(method, Pixelize) else method.measured
    used = float(own.promised.epsilon or 1)
    figure, ax = canvas(None, path)
    grid = np.geomspace(min(0.05, used / 4), max(20.0, used * 4), 80)
    ax.loglog(grid, own.scale(layers) * used / grid, color=BLUE, label=f"{own.unit}, {own.cell} x {own.cell} cells")
    ax.axhline(128, color=GREY, ls="--", label="half of all levels")
    ax.plot([used], [own.scale(layers)], "o", color=RED)
    ax.legend(loc="best")
    dress(ax, "Noise on the mean of a cell", "epsilon", "scale, in grey levels")
    finish(figure, path)


@vision_app.command(epilog="[bold]tacit vision reidentify faces/ --cell 16 --pixels 16 --epsilon 0.1,0.5,1 --plot risk.png[/bold]")
def reidentify(
    folder: Annotated[str, typer.Argument(help="Public pictures of one size, in one folder for each person.", metavar="FOLDER")],
    pixels: PixelsOption,
    epsilon: Annotated[str, typer.Option("--epsilon", help="What a picture costs; several with commas.")],
    cell: Cell = 16,
    colour: Colour = "rgb",
    kernel: Kernel = None,
    splits: Annotated[int, typer.Option("--splits", min=1, help="How often the pictures are divided into learning and test.")] = 4,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """How many people a learner recognises in hidden pictures when it has learnt from pictures hidden alike."""
    from tacit.applications.vision import PlainBlur, PlainPixelize, VisionError, plot_risk
    from tacit.applications.vision import reidentify as attacked
    from tacit.cli import output
    from tacit.pictures import check_path

    if plot is not None:
        check_path(plot)
    hidden: dict[str, Any] = {"as it is": None}
    hidden["no noise"] = PlainPixelize(cell) if kernel is None else PlainBlur(kernel)
    for price in epsilon.split(","):
        hidden[f"epsilon {price.strip()}"] = _method(cell, pixels, price.strip(), colour, kernel)
    try:
        images, people = _portraits(folder)
        found: dict[str, Reidentified] = {}
        with output.working("attacking"):
            for name, method in hidden.items():
                found[name] = attacked(method, images, people, splits=splits)
    except VisionError as error:
        raise OptionError(str(error)) from None
    if plot is not None:
        plot_risk(found, path=plot)
    if as_json:
        print(json.dumps({"pixels": pixels, "cell": cell, "kernel": kernel, "recognised": {n: r.to_json() for n, r in found.items()}}))
        return
    any_one = next(iter(found.values()))
    title = f"Recognised of {any_one.people} people; guessing finds {any_one.chance:.1%}"
    table = output.titled(title, ("pictures", "recognised", "least", "most"))
    for name, one in found.items():
        table.add_row(name, f"{one.accuracy:.1%}", f"{min(one.each):.1%}", f"{max(one.each):.1%}")
    output.console().print(table)
    output.console().print(f"secrets of up to {pixels} pixels; a better learner may find more")


def _portraits(folder: str) -> tuple[list[Any], list[str]]:
    """The pictures below a folder, and the names of the folders they are in."""
    from tacit.applications.vision import read

    place = Path(folder)
    if not place.is_dir():
        raise OptionError(f"{folder} is no folder; put public pictures into one folder for each person inside it")
    paths = [path for person in sorted(place.iterdir()) if person.is_dir() for path in sorted(person.iterdir()) if path.is_file()]
    if not paths:
        raise OptionError(f"{folder} has no pictures; put them into one folder for each person, such as {folder}/ada/1.png")
    return [read(path) for path in paths], [path.parent.name for path in paths]
