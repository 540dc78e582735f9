"""What the sections of a report share: figures as JSON and as text, brackets on a price, who pays for the noise, and templates that
escape all they are given.

A kind of output makes its section of the report with these and with the pictures below; `tacit.release.report` makes the page
around the sections.

>>> plain(float("nan")) is None, listed(["a", "b", "c"])
(True, 'a, b and c')

**Pictures** are small SVG drawings that follow the page's colours, print in black and white, and need no other file.
Every released figure is a dot with its interval. Few groups get a line and a label each; many are sorted and drawn
side by side. Where sizes differ much the axis is linear within the noise and logarithmic beyond it, so that groups
that are lost in the noise look lost. Whatever stands in a label is text: it is cut to length and escaped, never
interpreted.

>>> import numpy as np
>>> drawn = dots(["north", "<b>south"], np.array([10.0, 4.0]), np.array([8.0, 2.0]), np.array([12.0, 6.0]), title="visits")
>>> drawn.startswith("<svg") and "&lt;b&gt;south" in drawn and "<b>" not in drawn
True
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache
from html import escape
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Bound, rounded_up
from tacit.fairness import clipping_bias, threshold_error

Floats = NDArray[np.float64]

#: Sizes of groups for which the report says who pays for the noise.
SIZES = (10, 100, 1000, 10_000)
#: The width of every picture, in the page's pixels.
WIDTH = 720
#: More groups than this are drawn side by side without a label each.
LINES = 60
#: A longer label is cut, and so is one that takes more than this part of the page.
LABEL, WIDEST = 30, 240.0
#: Figures beyond this size are drawn at it, because differences of larger ones overflow; what is written beside them is not changed.
LARGEST = 1e200
#: The marks of the axis that are wanted, about.
TICKS = 6
_LINE, _TOP, _FOOT, _CHARACTER, _CAPITAL = 22, 26, 40, 7.0, 12.0


@dataclass(frozen=True)
class Axis:
    """From values to places on the page: linear, or linear up to `knee` and logarithmic beyond."""

    low: float
    high: float
    start: float
    stop: float
    knee: float | None = None

    def bent(self, value: float) -> float:
        """The value on the axis' own scale."""
        return value if self.knee is None else math.asinh(value / self.knee)

    def place(self, value: float) -> float:
        """Where a value stands; what lies outside stands at the end."""
        low, high = self.bent(self.low), self.bent(self.high)
        share = (self.bent(min(LARGEST, max(-LARGEST, value))) - low) / (high - low) if high > low else 0.5
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))

    @property
    def step(self) -> float:
        """From one mark to the next, where the axis is linear."""
        return _round_step((self.high - self.low) / TICKS)

    def said(self, tick: float) -> str:
        """A mark's number with the digits that tell it from the next: 1,002.5 is not 1,002."""
        if self.knee is not None or tick == 0 or not 1000 <= abs(tick) < 1e12:
            return number(tick)
        digits = next((d for d in range(9) if abs(round(self.step, d) - self.step) < 1e-6 * self.step), 9)
        return f"{tick:,.{digits}f}".replace("-", "−")

    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        if self.knee is None:
            step = self.step
            first = math.ceil(self.low / step - 1e-9)
            return [step * k for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        powers = [10.0**k for k in range(math.ceil(math.log10(self.knee)), math.ceil(math.log10(max(abs(self.low), abs(self.high)))) + 1)]
        while len(powers) > TICKS:
            powers = powers[::-1][::2][::-1]
        both = [-power for power in reversed(powers)] + [0.0] + powers
        return [value for value in both if self.low <= value <= self.high]


def axis_for(value: Floats, low: Floats, high: Floats, start: float, stop: float) -> Axis:
    """An axis that holds all intervals; bent where the largest figure dwarfs the small ones."""
    value, low, high = (np.clip(part, -LARGEST, LARGEST, where=np.isfinite(part), out=part.copy()) for part in (value, low, high))
    ends = np.concatenate([value, low, high])
    ends = ends[np.isfinite(ends)]
    if not len(ends):
        return Axis(0.0, 1.0, start, stop)
    least, most = float(ends.min()), float(ends.max())
    if least > 0 and least < 0.6 * most:
        least = 0.0
    if most < 0 and most > 0.6 * least:
        most = 0.0
    if most - least < 1e-12 * max(1.0, abs(most)):
        least, most = least - max(1.0, abs(least)) / 2, most + max(1.0, abs(most)) / 2
    sizes, halves = np.abs(value), (high - low) / 2
    # only figures that stand out from their noise have a size to speak of
    clear = sizes[np.isfinite(sizes) & np.isfinite(halves) & (sizes > halves)]
    knee = float(np.median(halves[np.isfinite(halves)])) if np.isfinite(halves).any() else 0.0
    knee = max(knee, 1e-9 * float(clear.max(initial=0.0)))
    typical = float(np.quantile(sizes[np.isfinite(sizes)], 0.4)) if np.isfinite(sizes).any() else 0.0
    skewed = len(value) > 2 and knee > 0 and float(clear.max(initial=0.0)) > 12 * max(typical, knee)
    pad = 0.0 if skewed else 0.03 * (most - least)
    return Axis(least - (pad if least != 0 else 0.0), most + pad, start, stop, knee if skewed else None)


def dots(
    labels: Sequence[str], value: Floats, low: Floats, high: Floats, *, title: str, headings: Sequence[str] | None = None,
    total: tuple[Floats, Floats] | None = None,
) -> str:
    """One line for each group: its label, its interval, its value. `headings` name runs of lines that belong together; `total` are wider
    intervals, for what caps and bounds cut off, drawn as dotted lines."""
    shown = [fitting(label) for label in labels]
    left = 16 + max([width(label) for label in shown] + [4 * _CHARACTER]) + (12 if headings else 0)
    axis = axis_for(value, *((low, high) if total is None else total), left, WIDTH - 78)
    parts, y = [], float(_TOP)
    previous: str | None = None
    marks = []
    for i, label in enumerate(shown):
        if headings is not None and headings[i] != previous:
            previous = headings[i]
            marks.append(_text(8, y + 15, cut(previous, 60), "heading"))
            y += _LINE
        middle = y + _LINE / 2
        marks.append(_text(left - 10, middle + 4, label, "end"))
        if total is not None and math.isfinite(total[0][i]) and math.isfinite(total[1][i]):
            ends = axis.place(float(total[0][i])), axis.place(float(total[1][i]))
            marks.append(f'<path class="total" stroke-dasharray="2 3" d="{_path(ends[0], middle, ends[1], middle)}"/>')
        marks.append(_mark(axis, value[i], low[i], high[i], middle))
        marks.append(_text(WIDTH - 4, middle + 4, _short(float(value[i]), float(high[i]) - float(low[i])), "end value"))
        y += _LINE
    parts.append(_grid(axis, _TOP - 6, y + 4))
    return _svg(y + _FOOT, title, [*parts, *marks, _text((left + WIDTH - 78) / 2, y + _FOOT - 6, _named(title, axis), "middle axis")])


def crowd(value: Floats, low: Floats, high: Floats, *, title: str, between: tuple[str, str] | None = None) -> str:
    """Many groups side by side, sorted by value; neighbours are drawn as one where there are more of them than pixels. Groups that have an
    order of their own keep it, and `between` says from where to where it goes."""
    if between is None:
        order = np.argsort(-np.nan_to_num(value, nan=-np.inf), kind="stable")
        value, low, high = value[order], low[order], high[order]
    height = 240.0
    columns = np.array_split(np.arange(len(value)), min(len(value), 300))
    axis = axis_for(value, low, high, height - 8, _TOP)
    left, right = 70.0, WIDTH - 12.0
    step = (right - left) / len(columns)
    marks = []
    for k, members in enumerate(columns):
        x = left + step * (k + 0.5)
        ends = [end for end in (float(np.min(low[members])), float(np.max(high[members]))) if math.isfinite(end)]
        if len(ends) == 2:
            wide = min(5.0, max(1.0, step * 0.6))
            line = _path(x, axis.place(ends[0]), x, axis.place(ends[1]))
            marks.append(f'<path class="interval" style="stroke-width:{wide:.1f}" d="{line}"/>')
        middle = float(np.median(value[members]))
        if math.isfinite(middle):
            marks.append(f'<circle class="dot" cx="{x:.1f}" cy="{axis.place(middle):.1f}" r="{min(4.0, max(1.2, step / 3)):.1f}"/>')
    lines = []
    for tick in axis.ticks():
        y = axis.place(tick)
        lines.append(f'<path class="{"zero" if tick == 0 else "grid"}" d="{_path(left, y, right, y)}"/>')
        lines.append(_text(left - 8, y + 4, axis.said(tick), "end axis"))
    first, last = between or ("the largest", "the smallest")
    under = _named(f"{cut(title)}: {len(value)} groups, from {cut(first)} to {cut(last)}", axis, 90)
    return _svg(height + 30, title, [*lines, *marks, _text((left + right) / 2, height + 18, under, "middle axis")])


def table(
    keys: Mapping[str, Sequence[str]], name: str, value: Sequence[float], low: Sequence[float], high: Sequence[float],
    *, total: tuple[Sequence[float], Sequence[float]] | None = None,
) -> str:
    """The picture of one figure of a table: a line for each group, under the first key where there are several."""
    middle, least, most = (np.asarray(part, dtype=np.float64) for part in (value, low, high))
    wide = None if total is None else (np.asarray(total[0], dtype=np.float64), np.asarray(total[1], dtype=np.float64))
    if len(middle) > LINES:
        only = next(iter(keys.values())) if len(keys) == 1 else []
        return crowd(middle, least, most, title=name, between=(only[0], only[-1]) if _ordered(only) else None)
    if not keys:
        return dots([name] * len(middle), middle, least, most, title=name, total=wide)
    groups = list(zip(*keys.values(), strict=True))
    firsts = [group[0] for group in groups]
    if len(keys) > 1 and 1 < len(set(firsts)) < len(firsts):
        order = sorted(range(len(groups)), key=lambda i: firsts.index(firsts[i]))
        labels = [" · ".join(groups[i][1:]) for i in order]
        sorted_ = None if wide is None else (wide[0][order], wide[1][order])
        return dots(labels, middle[order], least[order], most[order], title=name, headings=[firsts[i] for i in order], total=sorted_)
    return dots([" · ".join(group) for group in groups], middle, least, most, title=name, total=wide)


def _ordered(labels: Sequence[str]) -> bool:
    """Whether these are numbers or dates that grow: hours, ages, days."""
    if not labels:
        return False
    if all(re.fullmatch(r"\d{4}-\d\d(-\d\d.*)?", label) for label in labels):
        return all(a < b for a, b in itertools.pairwise(labels))
    if not all(re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", label) for label in labels):
        return False
    return all(float(a) < float(b) for a, b in itertools.pairwise(labels))


def shares(parts: Mapping[str, float], *, title: str) -> str:
    """What part of a whole each name has, as bars with percentages."""
    left = 16 + max([width(fitting(name)) for name in parts] + [4 * _CHARACTER])
    most = max([*parts.values(), 1e-300])
    marks = []
    for i, (name, part) in enumerate(parts.items()):
        y = 8 + i * _LINE
        wide = (WIDTH - 70 - left) * max(0.0, part) / most
        marks.append(_text(left - 10, y + 15, fitting(name), "end"))
        marks.append(f'<rect class="bar" x="{left:.1f}" y="{y + 4}" width="{wide:.1f}" height="{_LINE - 8}" rx="2"/>')
        marks.append(_text(left + wide + 8, y + 15, f"{part:.1%}", "value"))
    return _svg(16 + _LINE * len(parts), title, marks)


@dataclass(frozen=True)
class StepCurve:
    """A share over time that falls in steps, with its band, and how many are at risk at each time."""

    name: str
    times: Sequence[float]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    at_risk: Sequence[float]

    def at(self, time: float) -> int:
        """Which of the times is the last one up to this."""
        return max(0, int(np.searchsorted(np.asarray(self.times), time + 1e-9, side="right")) - 1)


#: How the curves of one picture are told apart, in colour or without; more of them go into further pictures.
DASHES = ("", "8 4", "2 3", "10 3 2 3")


def steps(curves: Sequence[StepCurve], *, title: str, across: str) -> str:
    """Curves that fall in steps, each with its band, and the numbers at risk below the marks of the axis.

    >>> curve = StepCurve("drug", [0, 6, 12], [1, 0.9, 0.8], [1, 0.88, 0.77], [1, 0.92, 0.83], [100, 80, 60])
    >>> drawn = steps([curve], title="lived", across="months")
    >>> "H" in drawn and ">drug<" in drawn and ">months<" in drawn
    True
    """
    left, right, top, bottom = 44 + max(width(fitting(one.name)) for one in curves), WIDTH - 20.0, 30.0, 270.0
    up, along = Axis(0.0, 1.0, bottom, top), Axis(0.0, max(float(one.times[-1]) for one in curves), left, right)
    parts = []
    for tick in up.ticks():
        y = up.place(tick)
        parts.append(f'<path class="{"zero" if tick == 0 else "grid"}" d="{_path(left, y, right, y)}"/>')
        parts.append(_text(left - 8, y + 4, f"{tick:.0%}", "end axis"))
    place = left
    for one, dash in zip(curves, DASHES, strict=False):
        back = " ".join(f"L{x:.1f} {y:.1f}" for x, y in reversed(_corners(along, up, one.times, one.low)))
        parts.append(f'<path class="band" d="{_stairs(along, up, one.times, one.high)} {back} Z"/>')
        parts.append(f'<path class="curve" stroke-dasharray="{dash}" d="{_stairs(along, up, one.times, one.value)}"/>')
        parts.append(f'<path class="curve" stroke-dasharray="{dash}" d="{_path(place, 12, place + 34, 12)}"/>')
        parts.append(_text(place + 40, 16, fitting(one.name), ""))
        place += 60 + width(fitting(one.name))
    parts.append(_grid(along, bottom, bottom + 4))
    parts.append(_text((left + right) / 2, bottom + 34, cut(across), "middle axis"))
    parts.append(_text(left - 8, bottom + 34, "at risk", "end axis"))
    for line, one in enumerate(curves):
        y = bottom + 52 + 16 * line
        parts.append(_text(left - 26, y, fitting(one.name), "end axis"))
        parts += [_text(along.place(tick), y, f"{one.at_risk[one.at(tick)]:,.0f}", "middle axis") for tick in along.ticks()]
    return _svg(bottom + 60 + 16 * len(curves), title, parts)


def _corners(along: Axis, up: Axis, times: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """The corners of a step function that takes each value from its time on."""
    found = [(along.place(times[0]), up.place(values[0]))]
    for time, value in zip(times[1:], values[1:], strict=True):
        found += [(along.place(time), found[-1][1]), (along.place(time), up.place(value))]
    return found


def _stairs(along: Axis, up: Axis, times: Sequence[float], values: Sequence[float]) -> str:
    """The same as a path."""
    corners = _corners(along, up, times, values)
    moves = [f"H{x:.1f}" if i % 2 == 0 else f"V{y:.1f}" for i, (x, y) in enumerate(corners[1:])]
    return f"M{corners[0][0]:.1f} {corners[0][1]:.1f} {' '.join(moves)}"


def attack(points: Sequence[tuple[float, float]], *, title: str) -> str:
    """The best attack: of the outsiders that it mistakes for members, and of the members that it finds at most, the shares."""
    side, left, top = 260.0, 64.0, 12.0
    across = Axis(0.0, 1.0, left, left + side)
    up = Axis(0.0, 1.0, top + side, top)
    lines = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        lines.append(f'<path class="grid" d="{_path(left, up.place(tick), left + side, up.place(tick))}"/>')
        lines.append(f'<path class="grid" d="{_path(across.place(tick), top, across.place(tick), top + side)}"/>')
        lines.append(_text(left - 8, up.place(tick) + 4, f"{tick:.0%}", "end axis"))
        lines.append(_text(across.place(tick), top + side + 18, f"{tick:.0%}", "middle axis"))
    curve = " L".join(f"{across.place(x):.1f} {up.place(y):.1f}" for x, y in points)
    lines.append(f'<path class="zero" stroke-dasharray="4 4" d="{_path(left, top + side, left + side, top)}"/>')
    lines.append(f'<path class="curve" d="M{curve}"/>')
    notes = [
        _text(left + side + 24, top + 70, "solid: the best attack that is possible", "axis"),
        _text(left + side + 24, top + 92, "dashed: guessing blindly", "axis"),
        _text(left + side + 24, top + 126, "across: outsiders taken for members", "axis"),
        _text(left + side + 24, top + 148, "up: members recognised", "axis"),
    ]
    return _svg(top + side + 28, title, [*lines, *notes])


def outcomes(value: Sequence[float], low: Sequence[float], high: Sequence[float], confidence: float, *, title: str, draws: int = 8) -> str:
    """Hypothetical outcomes: small pictures of what could as well have been released, each as likely as the one that was.

    What is alike in all of them can be relied on; what changes is noise (Hullman, Resnick and Adar 2015). They are drawn around
    the released figures at the width of their intervals, the same ones every time, so that they cost nothing and say nothing more.
    """
    centre, ends = np.asarray(value, dtype=float), (np.asarray(low, dtype=float), np.asarray(high, dtype=float))
    half = (ends[1] - ends[0]) / 2 / NormalDist().inv_cdf((1 + confidence) / 2)
    drawn = centre + half * np.random.default_rng(len(centre)).normal(size=(draws, len(centre)))
    across, high_, gap = 4, 74.0, 16.0
    top, floor = max(float(drawn.max()), 1e-300), min(0.0, float(drawn.min()))
    wide = (WIDTH - gap * (across + 1)) / across
    marks = []
    for place, values in enumerate(drawn):
        left, y = gap + (wide + gap) * (place % across), 8 + (high_ + gap) * (place // across)
        up = Axis(floor, top, y + high_, y)
        bar = wide / len(values)
        for i, one in enumerate(values):
            ends_ = sorted((up.place(float(one)), up.place(0.0)))
            size = f'width="{0.8 * bar:.1f}" height="{ends_[1] - ends_[0]:.1f}"'
            marks.append(f'<rect class="bar" x="{left + i * bar:.1f}" y="{ends_[0]:.1f}" {size}/>')
        marks.append(f'<path class="zero" d="{_path(left, up.place(0.0), left + wide, up.place(0.0))}"/>')
    return _svg(8 + (high_ + gap) * -(-draws // across), title, marks)


# --- words and numbers ------------------------------------------------------------------------------------------------------------------


def cut(text: str, most: int = LABEL) -> str:
    """A label that fits: no control characters, and cut in the middle, because names often differ at their ends.

    >>> cut("a very long name of a group, number 17"), cut("a\\x00b")
    ('a very long name of… number 17', 'a b')
    """
    clean = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else c for c in text)
    tail = most // 3
    return clean if len(clean) <= most else f"{clean[: most - 1 - tail]}…{clean[-tail:]}"


def width(text: str) -> float:
    """About how many pixels a label takes, rather more than less: capitals are wider, and ideographs and emoji are twice as wide."""
    return sum(
        2 * _CHARACTER if unicodedata.east_asian_width(c) in "WF" else _CAPITAL if c.isupper() or c in "mw@%—…" else _CHARACTER
        for c in text
    )


def fitting(text: str) -> str:
    """A label that leaves room for the picture.

    >>> fitting("W" * 30), fitting("north")
    ('WWWWWWWWWWWWW…WWWWWW', 'north')
    """
    most = LABEL
    while most > 6 and width(cut(text, most)) > WIDEST:
        most -= 1
    return cut(text, most)


def _short(value: float, wide: float = math.inf) -> str:
    """A figure beside its line, where there is room for eleven characters."""
    text = number(value, wide)
    return text if len(text) <= 11 else f"{value:.4g}".replace("-", "−")


def number(value: float, wide: float = math.inf) -> str:
    """A figure to read: thousands apart, no false digits, and enough of them to tell the ends of an interval of this width apart.

    >>> number(1234567.8), number(0.012344), number(0.0), number(float("nan")), number(1e21)
    ('1,234,568', '0.01234', '0', '–', '1e+21')
    >>> number(1234567.8, 0.3), number(0.0123456, 0.00001)
    ('1,234,567.80', '0.012346')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = abs(value)
    places = 1 - math.floor(math.log10(wide)) if 1e-9 < wide < 10 else 0
    if 1000 <= size < 1e12 and places > 0:
        text = f"{value:,.{min(places, 6)}f}"
    elif 1000 <= size < 1e15:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{min(12, max(4, math.floor(math.log10(size)) + 1 + places)) if places else 4}g}"
    return text.replace("-", "−")


def _named(title: str, axis: Axis, most: int = 60) -> str:
    return cut(title, most) + (" (linear within the noise, logarithmic beyond)" if axis.knee is not None else "")


# --- drawing ----------------------------------------------------------------------------------------------------------------------------


def _round_step(wanted: float) -> float:
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= wanted * (1 - 1e-9))


def _mark(axis: Axis, value: float, low: float, high: float, y: float) -> str:
    """An interval with caps, and the dot; nothing where there is no number."""
    drawn = []
    if math.isfinite(low) and math.isfinite(high):
        a, b = axis.place(float(low)), axis.place(float(high))
        drawn.append(f'<path class="interval" d="{_path(a, y, b, y)}"/>')
        drawn += [f'<path class="cap" d="{_path(x, y - 4, x, y + 4)}"/>' for x in (a, b)]
    if math.isfinite(value):
        drawn.append(f'<circle class="dot" cx="{axis.place(float(value)):.1f}" cy="{y:.1f}" r="4"/>')
    return "".join(drawn)


def _grid(axis: Axis, top: float, bottom: float) -> str:
    spaced: list[float] = []
    for tick in axis.ticks():
        # labels must not run into each other; zero always stays
        if tick == 0:
            spaced = [other for other in spaced if axis.place(0) - axis.place(other) >= 44]
        if not spaced or axis.place(tick) - axis.place(spaced[-1]) >= 44:
            spaced.append(tick)
    drawn = []
    for tick in spaced:
        x = axis.place(tick)
        drawn.append(f'<path class="{"zero" if tick == 0 else "grid"}" d="{_path(x, top, x, bottom)}"/>')
        drawn.append(_text(x, bottom + 14, axis.said(tick), "middle axis"))
    return "".join(drawn)


def _path(x: float, y: float, to_x: float, to_y: float) -> str:
    return f"M{x:.1f} {y:.1f} L{to_x:.1f} {to_y:.1f}"


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    name = escape(cut(title, 200), quote=True)
    inside = "".join(parts)
    return f'<svg class="picture" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{name}"><title>{name}</title>{inside}</svg>'


if TYPE_CHECKING:
    from jinja2 import Template


def bracket(found: Bound, delta: float) -> dict[str, Any]:
    return {
        "lower": _rounded_down(found.lower),
        "upper": rounded_up(found.upper, 7),
        "delta": f"{delta:g}" if delta else "",
        "method": found.method,
    }


def _rounded_down(value: float) -> str:
    """Seven digits, never above the value: a lower end is a claim too."""
    if not math.isfinite(value):
        return "∞"
    return f"{Context(prec=7, rounding=ROUND_FLOOR).create_decimal(Decimal(value)).normalize():f}"


def plain(value: float) -> float | None:
    """JSON has no NaN and no infinity; neither says more than a dash would."""
    return float(value) if math.isfinite(value) else None


def who_pays(measure: str, deviation: float, law: Literal["laplace", "gaussian"], scale: float) -> dict[str, Any]:
    """What noise on a count does to groups of several sizes.

    Noise is the same for every group, its effects are not: the relative error, what moving counts below 0 to 0 adds, and how often a
    threshold that a reader may apply would misjudge a group that is a fifth above it.

    >>> [round(row["relative"], 3) for row in who_pays("count", 20.0, "gaussian", 20.0)["rows"]]
    [2.0, 0.2, 0.02, 0.002]
    """
    rows = [
        {
            "size": size,
            "relative": plain(deviation / size),
            "lift": plain(clipping_bias(size, scale, law)),
            "misjudged": plain(threshold_error(size, threshold=size / 1.2, scale=scale, law=law)),
        }
        for size in SIZES
    ]
    return {"measure": measure, "rows": rows}


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def _number(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A figure to read, with the digits that its interval tells apart."""
    wide = math.inf if low is None or high is None else high - low
    return number(math.nan if value is None else value, wide)


@cache
def template(name: str) -> Template:
    """A template of this folder; whatever is put into it is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).resolve().parent / "templates"
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, auto_reload=False)
    environment.filters["number"] = _number
    return environment.get_template(name)
