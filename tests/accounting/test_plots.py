"""The pictures show the accountant's own numbers, their words do not overlap, and drawing needs no display and leaves no state."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.special import ndtr, ndtri

from tacit.accounting.account import account
from tacit.accounting.compare import Comparison, Composition, Curve, compare
from tacit.accounting.events.leaves import ZCDP, ApproxDP, Gaussian, Laplace, PureDP
from tacit.accounting.events.tree import Event, NonPrivate, NoOp, Poisson, Repeated, Sampled
from tacit.accounting.plots import (
    apart,
    attack_rate,
    plot_comparison,
    plot_composition,
    plot_cost,
    plot_profile,
    plot_tradeoff,
    plot_training,
)
from tacit.errors import ParameterError

COST = account(Gaussian(1))
ROOT = Path(__file__).resolve().parents[2]


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The closed form (Balle and Wang 2018)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def words(figure: Figure) -> list[Any]:
    """The boxes of everything written in a drawn figure, except tick labels, which matplotlib places itself."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = []
    for ax in figure.axes:
        texts += [*ax.texts, ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]  # type: ignore[attr-defined]
        texts += ax.get_legend().get_texts() if ax.get_legend() else []
    # of an annotation only the words, without the line that leads to it
    return [(t.get_text(), Text.get_window_extent(t, canvas.get_renderer())) for t in texts if t.get_text()]


def assert_readable(figure: Figure) -> None:
    found = words(figure)
    width, height = figure.get_size_inches() * figure.dpi
    for i, (text, box) in enumerate(found):
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, f"{text!r} is cut off"
        for other, second in found[i + 1 :]:
            assert not box.overlaps(second), f"{text!r} overlaps {other!r}"


def test_profile_is_the_privacy_profile(tmp_path: Path) -> None:
    cost = account(Gaussian(1))
    figure = plot_profile(cost, mark=(4.3771780957, 1e-5), path=tmp_path / "profile.png")
    x, y = figure.axes[0].lines[0].get_data()
    assert y == pytest.approx([gaussian_delta(1, e) for e in x], rel=1e-6)
    assert figure.axes[0].get_yscale() == "log"
    assert (tmp_path / "profile.png").read_bytes().startswith(b"\x89PNG")


def test_profile_at_given_epsilons() -> None:
    figure = plot_profile(account(Laplace(1)), epsilons=[0, 0.5, 0.9])
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx([0.3934693403, 0.2211992169, 0.0487705755], rel=1e-8)


def test_tradeoff_is_the_gaussian_curve() -> None:
    """The best attack on the Gaussian mechanism has true-positive rate Phi(Phi^-1(fpr) + mu) (Dong, Roth, Su 2022)."""
    figure = plot_tradeoff(account(Gaussian(1)), guarantee=(4.3771780957, 1e-5))
    fpr, tpr = figure.axes[0].lines[0].get_data()
    truth = ndtr(ndtri(fpr) + 1)
    shown = (fpr > 1e-4) & (fpr < 0.999)
    assert np.all(tpr >= truth - 1e-9), "an upper end"
    assert tpr[shown] == pytest.approx(truth[shown], rel=5e-3)


def test_attack_rate_of_one_promise() -> None:
    """The region of (epsilon, delta)-DP: e^eps fpr + delta below, 1 - e^-eps (1 - delta - fpr) above (Kairouz, Oh, Viswanath 2015)."""
    fpr = np.linspace(0, 1, 11)
    found = attack_rate(fpr, np.array([1.0]), np.array([0.1]))
    assert found == pytest.approx(np.minimum(1, np.minimum(math.e * fpr + 0.1, 1 - (0.9 - fpr) / math.e)))


def test_a_wide_bracket_is_shaded_and_named() -> None:
    cost = account(ZCDP(0.1))
    for figure in (plot_profile(cost, mark=(cost.epsilon(1e-5).upper, 1e-5)), plot_tradeoff(cost, guarantee=(1.9142, 1e-5))):
        legend = figure.axes[0].get_legend()
        assert legend is not None and "between the two bounds" in [t.get_text() for t in legend.get_texts()]
    assert plot_profile(account(Gaussian(1))).axes[0].get_legend() is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("event", [NoOp(), NonPrivate(), PureDP(1), ApproxDP(0, 0.5), Gaussian(1e5)], ids=repr)
def test_extreme_events_can_be_drawn(event: Event, tmp_path: Path) -> None:
    plot_cost(account(event), mark=(1.0, 1e-5) if event == NonPrivate() else None, path=tmp_path / "cost.png")
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")


def test_cost_has_both_panels() -> None:
    cost = account(ZCDP(0.1))  # its bracket is wide, so that every label is there
    figure = plot_cost(cost, mark=(cost.epsilon(1e-5).upper, 1e-5))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Privacy profile", "Membership attack"]
    assert_readable(figure)


@pytest.fixture(scope="module")
def table() -> Comparison:
    return compare(Repeated(Laplace(10), 100), [1e-6, 1e-9])


def test_comparison_shows_the_figures_of_the_table(table: Comparison) -> None:
    first = replace(table, deltas=(1e-6,), rows=tuple(replace(row, figures=row.figures[:1]) for row in table.rows))
    figure = plot_comparison(first)
    (ax,) = figure.axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "pld" and names[-1] == "basic" and "central-limit (estimate)" in names
    shown = {names[round(y)]: x for line in ax.lines if line.get_marker() == "o" for x, y in zip(*line.get_data(), strict=True)}
    assert shown["advanced"] == pytest.approx(5.75652177) and shown["basic"] == pytest.approx(10) and len(shown) == 12
    assert_readable(figure)


def test_comparison_at_several_deltas(table: Comparison) -> None:
    figure = plot_comparison(table)
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["delta = 1e-06", "delta = 1e-09"]
    assert_readable(figure)


@pytest.mark.parametrize("last", [(100, 21.6226, 21.6184, 20.552, 19.3447, 18.9503, 12.5952), (5, 5, 5, 5, 5, 5, 5)])
def test_names_at_the_ends_of_curves_do_not_overlap(last: tuple[float, ...]) -> None:
    names = ("basic", "advanced", "strong", "zCDP, improved", "optimal (KOV)", "Laplace, exact", "Gaussian, same variance")
    curves = tuple(Curve(name, (0.1, value)) for name, value in zip(names, last, strict=True))
    figure = plot_composition(Composition((1, 1000), 1e-6, curves))
    assert {text for text, _ in words(figure)} >= set(names)
    assert_readable(figure)


def test_composition_with_gaps_has_a_legend() -> None:
    figure = plot_composition(Composition((1, 10), 1e-6, (Curve("silent", (None, None)), Curve("exact", (0.1, 0.5)))))
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["silent", "exact"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12).map(sorted))
def test_apart(heights: list[float]) -> None:
    placed = apart(heights, 0.05)
    assert len(placed) == len(heights)
    assert all(b - a >= 0.05 - 1e-9 for a, b in itertools.pairwise(placed))
    if all(b - a >= 0.05 for a, b in itertools.pairwise(heights)):
        assert placed == pytest.approx(heights), "what does not overlap stays where it is"
    assert sum(placed) == pytest.approx(sum(heights)), "nothing drifts"


def test_training_ends_at_the_cost_of_the_run() -> None:
    figure = plot_training(lambda t: Repeated(Sampled(Poisson(0.01), Gaussian(1)), t), [200, 500, 1000], [1e-5], target=2)
    x, y = figure.axes[0].lines[0].get_data()
    assert x[-1] == 1000 and y[-1] == pytest.approx(1.8282366665165769, rel=1e-8)
    assert list(y) == sorted(y)
    assert_readable(figure)


def test_training_chooses_its_own_steps() -> None:
    x = plot_training(lambda t: Repeated(Gaussian(10), t), 500, 1e-5).axes[0].lines[0].get_xdata()
    assert x[0] == 1 and x[-1] == 500 and list(x) == sorted(set(x)) and len(x) > 10


def test_training_refuses_empty_axes() -> None:
    with pytest.raises(ParameterError, match="must not be empty"):
        plot_training(lambda t: Repeated(Gaussian(1), t), [], 1e-5)


@pytest.mark.parametrize("name", ["curve", "curve.txt", "", "png", "curve.png.exe"])
def test_a_file_that_is_no_picture_is_refused_before_the_work(name: str) -> None:
    with pytest.raises(ParameterError, match=r"must end in \.png, \.pdf or \.svg"):
        plot_profile(COST, path=name)


def test_drawing_into_axes_of_ones_own(tmp_path: Path) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_profile(account(Gaussian(1)), ax=left) is figure
    assert plot_comparison(compare(Gaussian(1), 1e-5), ax=right, path=tmp_path / "both.png") is figure
    assert (tmp_path / "both.png").stat().st_size > 1000


def test_drawing_leaves_no_global_state(tmp_path: Path) -> None:
    code = (
        "import sys; from tacit.accounting.plots import plot_profile; from tacit.accounting import account, Gaussian\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plot_profile(account(Gaussian(1)), path='a.png'); assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("MPLBACKEND", "DISPLAY")} | {"PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
