"""Gaze: the budget over any window, the mean move, odd points, heat maps."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import Adjacency, PureDP, account
from tacit.applications.vision import GazeStream, VisionError, compared, heat_map, plot_heat_maps, release_gaze
from tacit.applications.vision.gaze import FINE
from tacit.ledger import Budget, Ledger

STREAM = GazeStream(radius=20, window=10, epsilon=3)


def test_any_window_costs_epsilon_and_a_recording_more() -> None:
    def cost(points: int) -> float:
        return account(STREAM.event_for(points), Adjacency.REPLACE_ONE).epsilon(0).upper

    assert cost(10) == pytest.approx(3) and cost(25) == pytest.approx(7.5)
    event = STREAM.plan().event(FINE + 1)  # points within the radius are at most this many whole granules apart
    assert isinstance(event, PureDP) and float(event.epsilon) <= 0.3 * (1 + 1e-12)


def test_points_move_by_2rw_over_epsilon() -> None:
    """A Gamma law of shape 2: mean 2 r w / epsilon, deviation its 1/sqrt(2); five standard errors of 400."""
    assert STREAM.mean_move == pytest.approx(2 * 20 * 10 / 3)
    found = release_gaze(STREAM, np.full((400, 2), 500.0)).points
    moves = np.linalg.norm(found - 500, axis=1)
    assert abs(moves.mean() - STREAM.mean_move) < 5 * STREAM.mean_move / math.sqrt(2) / math.sqrt(400)


def test_rounding_moves_near_points_by_less_than_is_paid_for() -> None:
    """Points within the radius, at the finest radius and the widest screen, come to lie within radius + 2 granules."""
    stream = GazeStream(radius="1/64", window=1, epsilon=1, screen=(1_000_000, 1_000_000))
    granule = 1 / 64 / FINE
    draw = np.random.default_rng(4)
    first = draw.uniform(0, 1_000_000, (5000, 2))
    angle = draw.uniform(0, 2 * np.pi, 5000)
    second = first + np.stack([np.cos(angle), np.sin(angle)], axis=1) / 64 * (1 - 1e-6)
    apart = np.linalg.norm(np.rint(first / granule) - np.rint(second / granule), axis=1)
    assert apart.max() < FINE + 2 and float(stream.plan().event(FINE + 2).epsilon) <= 1  # type: ignore[attr-defined]


def test_odd_points_raise_nothing() -> None:
    odd = np.array([[np.nan, 1.0], [np.inf, -np.inf], [1e308, -1e308], [-5, 9999]])
    found = release_gaze(STREAM, odd)
    assert found.points.shape == (4, 2) and np.isfinite(found.points).all()


def test_paid_for_under_its_own_unit(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    own = ledger.account("gaze", Budget(epsilon=3), unit=STREAM.unit, adjacency=Adjacency.REPLACE_ONE)
    assert release_gaze(STREAM, np.zeros((10, 2)), account=own).entry is not None and own.left() == {"pure": 0}
    people = ledger.account("people", Budget(epsilon=3), unit="person")
    with pytest.raises(VisionError, match="must not be added up"):
        release_gaze(STREAM, np.zeros((10, 2)), account=people)


def test_heat_maps_are_shares_and_agree_more_at_a_larger_epsilon() -> None:
    draw = np.random.default_rng(1)
    points = np.concatenate([draw.normal((500, 300), 60, (150, 2)), draw.normal((1400, 700), 60, (150, 2))])
    assert heat_map(points).sum() == pytest.approx(1)
    assert heat_map(points).shape == (54, 96)
    kept = {e: compared(points, release_gaze(GazeStream(radius=20, window=1, epsilon=e), points).points) for e in ("0.02", "0.5")}
    assert kept["0.5"]["heat_map_correlation"] > 0.8 > kept["0.02"]["heat_map_correlation"]
    assert kept["0.5"]["trajectory_error"] < kept["0.02"]["trajectory_error"]


def test_heat_maps_are_drawn(tmp_path: Path) -> None:
    plot_heat_maps({"true": np.eye(4), "released": np.ones((4, 4))}, path=tmp_path / "maps.png")
    assert (tmp_path / "maps.png").stat().st_size > 2000


def test_refusals() -> None:
    for radius in (0, -1, "1e-15"):
        with pytest.raises(VisionError, match="radius"):
            GazeStream(radius=radius, window=1, epsilon=1)
    with pytest.raises(VisionError, match="screen"):
        GazeStream(radius=1, window=1, epsilon=1, screen=(10**15, 10))
    with pytest.raises(VisionError, match="epsilon alone"):
        GazeStream(radius=1, window=1, guarantee="rho=1")
    for points in (np.zeros((3, 3)), np.zeros(2), np.zeros((0, 2))):
        with pytest.raises(VisionError, match="points"):
            release_gaze(STREAM, points)
