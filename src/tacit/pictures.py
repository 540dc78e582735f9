"""What the pictures of all rooms share: colours, a canvas, and the check of a file's name.

Colours are told apart by every kind of colour vision. A picture is a matplotlib `Figure`, needs no display
and does not touch pyplot's global state; matplotlib is imported only when something is drawn.

>>> figure, ax = canvas(None, None)
>>> dress(ax, "Privacy profile", "epsilon", "delta")
>>> finish(figure, None) is figure, ax.get_xlabel()
(True, 'epsilon')
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING

from tacit.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's palette.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#666666"
Path = str | PathLike[str]


def check_path(path: Path) -> None:
    """Refuse a file name that does not end like a picture's, before any work is done.

    >>> check_path("curve.txt")
    Traceback (most recent call last):
    tacit.errors.ParameterError: the picture's file name must end in .png, .pdf or .svg, not 'curve.txt'
    """
    if not fspath(path).lower().endswith((".png", ".pdf", ".svg")):
        raise ParameterError(f"the picture's file name must end in .png, .pdf or .svg, not {fspath(path)!r}")


def canvas(
    ax: Axes | None, path: Path | None, *, width: float = 6.4, height: float = 4.4
) -> tuple[Figure, Axes]:
    """A new figure with one set of axes, or `ax` with the figure that it belongs to."""
    from matplotlib.figure import Figure

    if path is not None:
        check_path(path)
    if ax is None:
        figure = Figure(figsize=(width, height), dpi=150, layout="tight")
        return figure, figure.add_subplot()
    owner = ax.get_figure(root=True)
    if owner is None:
        raise ParameterError("ax belongs to no figure")
    return owner, ax


def dress(ax: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Give the axes a title, labels, a light grid and an unobtrusive legend."""
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(True, which="major", color="#dddddd", lw=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    legend = ax.get_legend()
    if legend is not None:
        legend.set_frame_on(True)
        legend.get_frame().set(edgecolor="none", facecolor="white", alpha=0.85)
        for text in legend.get_texts():
            text.set_fontsize(9)


def drawable(text: str) -> str:
    """A label as the pictures' font can draw it: characters that the font lacks, such as emoji, are written as their names.

    >>> drawable("naïve"), drawable("\N{SLIGHTLY SMILING FACE}!")
    ('naïve', 'slightly smiling face!')
    """
    import unicodedata

    from matplotlib.font_manager import FontProperties, findfont, get_font

    known = get_font(findfont(FontProperties())).get_char_index
    found = ""
    for char in text:
        if unicodedata.category(char) in ("Mn", "Me", "Cf", "Cs", "Cc") and not known(ord(char)):
            continue  # selectors and joiners show nothing by themselves
        found += char if known(ord(char)) else unicodedata.name(char, f"U+{ord(char):04X}").lower()
    return found


def finish(figure: Figure, path: Path | None) -> Figure:
    """Write the figure where a path is given; a notebook shows it."""
    if path is not None:
        figure.savefig(path)
    return inline(figure)


def inline(figure: Figure) -> Figure:
    """The figure, which a notebook shows by itself: pyplot, which would do so, was never asked.

    >>> from matplotlib.figure import Figure
    >>> inline(Figure())._repr_png_()[:4]
    b'\\x89PNG'
    """

    def drawn() -> bytes:
        from io import BytesIO

        stream = BytesIO()
        figure.savefig(stream, format="png")
        return stream.getvalue()

    figure._repr_png_ = drawn  # type: ignore[attr-defined]
    return figure
