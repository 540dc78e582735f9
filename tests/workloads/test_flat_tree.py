"""Halving what bends: distances by hand, no path that loses more than the price, and mutants that do."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.noise import test_mode as seeded
from tacit.workloads.flat_tree import FlatTree, from_flat
from tacit.workloads.privtree import GRANULES

LEVELS = 14


def losses(scale: float, step: float, bar: float, places: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The log-ratio of publishing a path, its last stretch whole and all others halved, before and after the moves."""
    threshold = 0.5 / GRANULES

    def log_halved(x: np.ndarray) -> np.ndarray:
        away = np.abs(x - threshold) / scale
        return np.where(x > threshold, np.log1p(-0.5 * np.exp(-away)), math.log(0.5) - away)

    before, after = np.maximum(places, bar), np.maximum(places + moves, bar)
    whole = log_halved(2 * threshold - after[:, -1]) - log_halved(2 * threshold - before[:, -1])
    return np.asarray((log_halved(after) - log_halved(before))[:, :-1].sum(axis=1) + whole)


def worst(tree: FlatTree, *, bar: float | None = None) -> float:
    """The largest loss over many paths and moves: steps of the path at their least, offsets on a grid, moves at their ends."""
    scale, step = float(tree.scale), float(tree.step)
    least = 1 / GRANULES - step if bar is None else bar
    rng = np.random.default_rng(5)
    found = 0.0
    for length in range(1, LEVELS + 1):
        below = np.arange(length)[::-1]
        for deep in range(length + 1):  # how many stretches lie under the bar
            offsets = np.linspace(-step - 2, 2, 160)
            places = offsets[:, None] + step * (below - deep)
            # Everything up, everything down, the last the other way, and random moves.
            moves = [np.ones(length), -np.ones(length), np.r_[np.ones(length - 1), -1.0], np.r_[-np.ones(length - 1), 1.0]]
            moves += list(rng.choice([-1.0, 0.0, 1.0], size=(6, length)))
            for move in moves:
                ratio = losses(scale, step, least, places, np.broadcast_to(move, places.shape))
                found = max(found, float(np.abs(ratio).max()))
    return found


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1", "2", "20"])
def test_no_path_loses_more_than_the_price(epsilon: str) -> None:
    tree = FlatTree((4096,), Fraction(epsilon))
    assert worst(tree) <= float(tree.row) <= float(Fraction(epsilon))


class Cheaper(FlatTree):
    """Half of the noise."""

    @property
    def scale(self) -> Fraction:
        return 2 / self.row


def test_half_of_the_noise_and_no_bar_are_not_enough() -> None:
    """Mutants: they lose more than the price on the same paths."""
    assert worst(Cheaper((4096,), Fraction(3, 10))) > 0.3
    assert worst(FlatTree((4096,), Fraction(1)), bar=-1e9) > 2


def test_a_row_moves_every_distance_on_its_path_by_at_most_one_and_halves_add_up_to_no_more() -> None:
    rng = np.random.default_rng(3)
    for size in (13, 16, 37):
        tree = FlatTree((size,), Fraction(1))
        for _ in range(50):
            counts = rng.integers(0, 6, size) * rng.integers(0, 2, size)
            other = counts.copy()
            cell = int(rng.integers(size))
            other[cell] += 1
            before, after = tree.pyramid(counts), tree.pyramid(other)
            for level, (one, two) in enumerate(zip(before, after, strict=True)):
                moved = np.abs(one - two)
                place = cell // tree.widths(level)[0]
                assert moved.max() <= 1 and moved.sum() == moved[place]
            for level in range(tree.depth):
                for place, whole in enumerate(before[level]):
                    halves = before[level + 1][2 * place : 2 * place + 2]
                    assert halves.sum() <= whole


def test_distances_are_those_from_the_median() -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 50, (40, 7))
    assert from_flat(rows).tolist() == [int(np.abs(row - np.median(row)).sum()) for row in rows]


def test_edges_are_those_of_a_partition_and_find_what_stands_out() -> None:
    counts = np.zeros(100, dtype=np.int64)
    counts[41] = 10_000
    with seeded(2):
        edges = FlatTree((100,), Fraction(1, 4)).edges(counts)
        flat = FlatTree((1024,), Fraction(1, 40)).edges(np.full(1024, 40))
    assert {0, 41, 42, 100} <= edges and all(0 <= edge <= 100 for edge in edges)
    assert len(flat) < 30  # the textbook's cost gives 573 buckets


def test_a_price_that_is_too_small_is_refused() -> None:
    with pytest.raises(ParameterError, match="too small"):
        FlatTree((8,), Fraction(1, 2**40))
