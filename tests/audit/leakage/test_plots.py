"""Pictures show the numbers they are given, shrink what no screen can show, and leave no state behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.leakage.builders import randomised_response, spiky, truncated_geometric
from tacit.audit.leakage.channel import Channel
from tacit.audit.leakage.estimators import convergence
from tacit.audit.leakage.plots import plot_channel, plot_convergence, shrunk


def test_a_channel_is_shown_as_it_is() -> None:
    channel = randomised_response(5, 1.0)
    figure = channel.plot()
    image = figure.axes[0].get_images()[0]
    assert np.asarray(image.get_array()) == pytest.approx(channel.matrix)
    assert figure.axes[0].get_title(loc="left") == f"Bayes risk {channel.bayes_risk():.4g}, blind guess 0.8"
    assert figure.axes[0].get_xlabel() == "observation" and "probability" in figure.axes[1].get_ylabel()


def test_a_large_channel_is_averaged_over_blocks() -> None:
    matrix = generator(1).dirichlet(np.ones(903), size=811)
    for channel in (Channel(matrix), Channel(csr_array(matrix))):
        small = shrunk(channel)
        assert small.shape == (271, 301)
        assert small[3, 7] == pytest.approx(matrix[9:12, 21:24].mean())
        assert small[-1, -1] == pytest.approx(matrix[810:, 900:].mean())
    label = plot_channel(Channel(matrix)).axes[1].get_ylabel()
    assert label == "mean probability in a block"


def test_wide_ranges_are_shown_on_a_logarithmic_scale() -> None:
    assert "or less" in truncated_geometric(10, 100, 1.0).plot().axes[1].get_ylabel()
    assert "or less" not in spiky(10).plot().axes[1].get_ylabel()


def test_a_curve_shows_every_rule_and_both_ends(tmp_path: Path) -> None:
    system = truncated_geometric(5, 50, 0.3)
    labels, seen = system.sample(500, generator(1))
    found = convergence(labels, seen, channel=system)
    figure = found.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    ax = figure.axes[0]
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    assert set(lines) == {*found.risks, "blind guess", "Bayes risk"}
    for rule, risks in found.risks.items():
        assert np.asarray(lines[rule].get_ydata()) == pytest.approx(risks)
    assert "Exact" in ax.get_title(loc="left")
    held = convergence(labels[:250], seen[:250], validation=(labels[250:], seen[250:]))
    own = Figure().add_subplot()
    assert plot_convergence(held, ax=own) is own.figure
    assert "not a bound" in own.get_title(loc="left") and "250 held-out" in own.get_ylabel()
    assert "Bayes risk" not in {str(line.get_label()) for line in own.get_lines()}


def test_a_file_that_is_no_picture_is_refused() -> None:
    with pytest.raises(ParameterError, match="picture"):
        randomised_response(3, 1.0).plot("matrix.txt")
