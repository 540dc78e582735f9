"""Pictures: every figure where its value is, every label as text, whatever the values and labels are."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.release import page as pictures
from tacit.release.page import LINES, WIDEST, Axis, StepCurve, attack, axis_for, crowd, cut, dots, number, shares, steps, table, width

ANY = st.floats(allow_nan=True, allow_infinity=True)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in parsed(svg).iter("text")]


def places(svg: str) -> list[tuple[float, float]]:
    return [(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in parsed(svg).iter("circle")]


def test_dots_stand_at_their_values() -> None:
    value = np.array([0.0, 50.0, 100.0, 25.0])
    found = [x for x, _ in places(dots(list("abcd"), value, value - 1, value + 1, title="n"))]
    scale = (found[2] - found[0]) / 100
    assert found == pytest.approx([found[0] + scale * v for v in value], abs=0.1), "coordinates are written to a tenth of a pixel"
    assert scale > 3


def test_intervals_reach_from_low_to_high() -> None:
    svg = dots(["a", "b", "c"], np.array([0.0, 50.0, 100.0]), np.array([0.0, 20.0, 90.0]), np.array([0.0, 80.0, 100.0]), title="n")
    (left, _), _, (right, _) = places(svg)
    ends = re.findall(r'class="interval" d="M([\d.]+) [\d.]+ L([\d.]+)', svg)
    assert float(ends[1][0]) == pytest.approx(left + 0.2 * (right - left), abs=0.2)
    assert float(ends[1][1]) == pytest.approx(left + 0.8 * (right - left), abs=0.2)


@given(st.lists(st.tuples(ANY, ANY, ANY), max_size=8), st.lists(st.text(max_size=50), min_size=8, max_size=8))
def test_any_figures_and_labels_make_a_picture(figures: list[tuple[float, float, float]], labels: list[str]) -> None:
    value, low, high = (np.array([figure[i] for figure in figures], dtype=np.float64) for i in range(3))
    with np.errstate(all="ignore"):
        svg = dots(labels[: len(figures)], value, low, high, title=labels[0])
    assert len(places(svg)) == int(np.isfinite(value).sum())
    for x, y in places(svg):
        assert 0 <= x <= pictures.WIDTH and y > 0
    assert "nan" not in re.sub(r"<text.*?</text>|<title>.*?</title>|aria-label=\"[^\"]*\"", "", svg)


@given(st.lists(ANY, min_size=1, max_size=6), st.integers(LINES + 1, LINES + 30))
def test_a_crowd_of_any_figures(some: list[float], count: int) -> None:
    values = (some * count)[:count]
    value = np.array(values)
    with np.errstate(all="ignore"):
        svg = table({"k": [f"g{i}" for i in range(len(values))]}, "n", values, (value - 1).tolist(), (value + 1).tolist())
    height = float(parsed(svg).attrib["viewBox"].split()[3])
    assert all(0 <= y <= height for _, y in places(svg))
    assert any("groups, from the largest" in text for text in texts(svg))


def test_a_large_crowd_stays_small_and_sorted() -> None:
    value = np.random.default_rng(1).permutation(20_000).astype(float)
    svg = crowd(value, value - 5, value + 5, title="n")
    found = places(svg)
    assert len(found) == 300 and len(svg) < 100_000
    assert [y for _, y in found] == sorted(y for _, y in found), "from the largest, which stands highest"


MARKUP = ["<script>alert(1)</script>", "</svg><b>", "$\\frac{1}{0}$", "a & b", '" onload="x', "\x00\x1b[31m", "\u202eabc", "]]>", "{{ 7 }}"]
ATTRIBUTES = {"class", "viewBox", "role", "aria-label", "x", "y", "cx", "cy", "r", "d", "width", "height", "rx"}


@pytest.mark.parametrize("text", MARKUP, ids=range(len(MARKUP)))
def test_labels_are_text(text: str) -> None:
    one = np.array([1.0])
    plain, headed = (dots([text], one, one, one, title=text, headings=headings) for headings in (None, [text]))
    for svg in (plain, headed, shares({text: 1.0}, title=text)):
        assert cut(text) in texts(svg), "as it stands, but for its length and its invisible characters"
        assert {node.tag for node in parsed(svg).iter()} <= {"svg", "title", "text", "path", "circle", "rect"}
        assert {name for node in parsed(svg).iter() for name in node.attrib} <= ATTRIBUTES


def test_the_axis_bends_only_for_real_sizes() -> None:
    halves = np.full(6, 10.0)
    even = np.array([100.0, 120, 90, 130, 110, 95])
    skewed = np.array([100_000.0, 5, 8, 20, -3, 12])
    lost = np.array([1.0, 2, 1, 2, 1, 30])
    wide = np.array([1.0, 1, 1, 1, 1, 40])
    assert axis_for(even, even - halves, even + halves, 0, 100).knee is None
    assert axis_for(skewed, skewed - halves, skewed + halves, 0, 100).knee == pytest.approx(10)
    assert axis_for(lost, lost - wide, lost + wide, 0, 100).knee is None, "a large value that is all noise is no size"


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.one_of(st.none(), st.floats(1e-3, 1e3)))
def test_ticks_lie_on_the_axis_and_keep_their_order(low: float, width: float, knee: float | None) -> None:
    axis = Axis(low, low + width, 0.0, 600.0, knee)
    ticks = axis.ticks()
    assert len(ticks) <= 2 * pictures.TICKS + 1
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in ticks)
    assert [axis.place(tick) for tick in ticks] == sorted(axis.place(tick) for tick in ticks)


def test_groups_of_two_keys_stand_under_the_first() -> None:
    keys = {"region": ["N", "S", "N", "S"], "sex": ["f", "f", "m", "m"]}
    svg = table(keys, "n", [1.0, 2.0, 3.0, 4.0], [0.0] * 4, [5.0] * 4)
    assert [text for text in texts(svg) if text in {"N", "S", "f", "m"}] == ["N", "f", "m", "S", "f", "m"]
    values = [text for text in texts(svg) if text in {"1", "2", "3", "4"}]
    assert [v for v in values if v in "1234"][-4:] == ["1", "3", "2", "4"], "values move along with their groups"


def test_shares_are_drawn_to_scale() -> None:
    svg = shares({"a": 0.5, "b": 0.25, "c": 0.0}, title="parts")
    wide = [float(node.attrib["width"]) for node in parsed(svg).iter("rect")]
    assert wide[0] == pytest.approx(2 * wide[1], abs=0.1) and wide[2] == 0
    assert {"50.0%", "25.0%", "0.0%"} <= set(texts(svg))


def test_an_attack_starts_and_ends_in_the_corners() -> None:
    curve = re.search(r'class="curve" d="M([^"]+)"', attack([(0.0, 0.0), (0.5, 0.75), (1.0, 1.0)], title="attack"))
    assert curve is not None
    (x0, y0), (x1, y1), (x2, y2) = (map(float, pair.split()) for pair in curve[1].split(" L"))
    assert x1 == pytest.approx((x0 + x2) / 2) and (y0 - y1) / (y0 - y2) == pytest.approx(0.75)


# four digits of the very largest floats round to more than a float can hold
@given(st.one_of(st.floats(-1e300, 1e300), st.sampled_from([math.nan, math.inf, -math.inf])))
def test_numbers_read_back(value: float) -> None:
    shown = number(value).replace(",", "").replace("−", "-")
    if math.isfinite(value):
        assert float(shown) == pytest.approx(value, rel=1e-3)
    else:
        assert shown in ("–", "∞", "-∞")


def test_an_order_of_their_own_is_kept() -> None:
    """Days and hours stay in order, so a trend looks like one; names, and numbers that do not grow, are sorted by size."""
    days = [f"2026-{month:02d}-{day:02d}" for month in (1, 2, 3) for day in range(1, 29)]
    value = [float(i % 28) for i in range(84)]

    def drawn(labels: list[str]) -> tuple[list[float], str]:
        svg = table({"k": labels}, "n", value, value, value)
        return [y for _, y in places(svg)], " ".join(texts(svg))

    for labels, ends in ((days, "from 2026-01-01 to 2026-03-28"), ([str(i) for i in range(84)], "from 0 to 83")):
        heights, words = drawn(labels)
        assert ends in words and heights[0] > heights[27] < heights[28], "each month climbs and starts anew"
    for labels in ([f"name {i}" for i in range(84)], [str(-i) for i in range(84)], days[::-1]):
        heights, words = drawn(labels)
        assert "from the largest to the smallest" in words and heights == sorted(heights)


@given(st.lists(st.text(max_size=80), min_size=1, max_size=5))
def test_labels_leave_room_for_the_picture(labels: list[str]) -> None:
    value = [1.0] * len(labels)
    svg = table({"k": [*labels, "W" * 40, "東" * 40]}, "n", [*value, 1.0, 1.0], [*value, 0.0, 0.0], [*value, 2.0, 2.0])
    assert min(x for x, _ in places(svg)) > 0
    for node in parsed(svg).iter():
        if node.attrib.get("class") == "end":
            assert width(node.text or "") <= WIDEST and float(node.attrib["x"]) - width(node.text or "") >= 0


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (998.0, 1012.0, ["1,000.0", "1,002.5"]),
        (1000.0, 1000.4, ["1,000.1", "1,000.2"]),
        (0.0, 4000.0, ["1,000", "2,000"]),
        (0.0, 8.0, ["2", "4"]),
    ],
)
def test_marks_of_the_axis_say_where_they_stand(low: float, high: float, wanted: list[str]) -> None:
    axis = Axis(low, high, 0.0, 100.0)
    said = [axis.said(tick) for tick in axis.ticks()]
    assert set(wanted) <= set(said) and len(set(said)) == len(said)
    for tick, text in zip(axis.ticks(), said, strict=True):
        assert float(text.replace(",", "").replace("−", "-")) == pytest.approx(tick, abs=1e-9)


def test_a_large_figure_stays_beside_its_line() -> None:
    svg = table({"k": ["a", "b"]}, "n", [-1e12, 3.0], [-2e12, 2.0], [0.0, 4.0])
    assert "−1e+12" in list(texts(svg))


@given(st.floats(-1e11, 1e11), st.floats(1e-4, 1e6))
def test_the_ends_of_an_interval_are_told_apart(value: float, wide: float) -> None:
    """What is written is within a tenth of the width of what is meant, unless that is beyond twelve digits."""
    text = number(value, wide)
    written = float(text.replace(",", "").replace("−", "-"))
    assert abs(written - value) <= max(
        wide / 9, 0.5 if wide >= 10 else 0.0, 1e-3 * abs(value) if wide >= 10 and abs(value) < 1000 else 0.0, 1e-11 * abs(value)
    )


def curve(name: str, value: list[float], at_risk: list[float]) -> StepCurve:
    return StepCurve(name, [0.0, 10.0, 20.0], value, [max(0.0, x - 0.1) for x in value], [min(1.0, x + 0.1) for x in value], at_risk)


def test_curves_fall_at_their_times_and_bands_enclose_them() -> None:
    both = [curve("drug", [1.0, 0.75, 0.5], [90, 60, 30]), curve("<i>none", [1.0, 0.5, 0.25], [80, 40, 0])]
    svg = steps(both, title="t", across="months")
    found = {kind: [n.attrib["d"] for n in parsed(svg).iter("path") if n.attrib["class"] == kind] for kind in ("curve", "band")}
    assert len(found["band"]) == 2 and len(found["curve"]) == 4  # each curve, and its sample beside its name
    first = re.fullmatch(r"M([\d.]+) ([\d.]+) H([\d.]+) V([\d.]+) H([\d.]+) V([\d.]+)", found["curve"][0])
    assert first is not None
    x0, y0, x1, y1, x2, y2 = map(float, first.groups())
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y1 - y0 == pytest.approx(y2 - y1, abs=0.2) and y0 < y1 < y2
    assert {"drug", "months", "90", "60", "30", "80", "40", "at risk"} <= set(texts(svg)) and "<i>" not in svg
    dashes = [n.attrib["stroke-dasharray"] for n in parsed(svg).iter("path") if n.attrib["class"] == "curve"]
    assert dashes[0] == dashes[1] != dashes[2]  # told apart without colour


def test_a_long_name_leaves_room_for_the_curve() -> None:
    svg = steps([curve("W" * 200, [1.0, 0.9, 0.8], [1e9, 5.0, 0.0])], title="t", across="x" * 300)
    assert all(float(n.attrib["x"]) >= 0 for n in parsed(svg).iter("text"))
