"""Graphs: noisy degrees, noisy bits and LDPGen, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, DiscreteLaplace, Repeated, account
from tacit.errors import ParameterError
from tacit.local import edge_event, generated, noisy_adjacency, noisy_degrees
from tacit.local.graphs import degree_event
from tacit.noise import test_mode as seeded


def communities(people: int, inside: float, across: float, seed: int = 1) -> list[list[int]]:
    """Two halves with many edges inside and few across."""
    random = np.random.default_rng(seed)
    side = np.arange(people) % 2
    chance = np.where(side[:, None] == side[None, :], inside, across)
    upper = np.triu(random.random((people, people)) < chance, 1)
    both = upper | upper.T
    return [np.flatnonzero(row).tolist() for row in both]


def test_degrees_are_off_by_one_over_epsilon() -> None:
    lists = [list(range(1, 101)), *([[0]] * 100), *([[]] * 3900)]
    with seeded(1):
        off = noisy_degrees(lists, epsilon=0.2) - np.array([len(own) for own in lists])
    alpha = math.exp(-0.2)
    mean, spread = 2 * alpha / (1 - alpha**2), math.sqrt(2 * alpha) / (1 - alpha)
    assert abs(np.abs(off).mean() - mean) < 6 * spread / math.sqrt(len(lists))
    assert mean == pytest.approx(1 / 0.2, rel=0.02)  # about 1/epsilon, as for Laplace noise
    assert account(degree_event(0.2), Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(0.2)
    assert account(edge_event(degree_event(0.2)), Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(0.4)


def test_noisy_bits_have_the_textbook_s_false_neighbours() -> None:
    """n = 1001, degree 100, epsilon 1: 242.05 false neighbours and 73.1 true ones kept."""
    lists = [list(range(1, 101)), *([[]] * 1000)]
    lie = 1 / (math.e + 1)
    assert 900 * lie == pytest.approx(242.05, abs=0.01) and 100 * (1 - lie) == pytest.approx(73.106, abs=0.001)
    with seeded(2):
        rows = [noisy_adjacency(lists, epsilon=1).bits[0] for _ in range(3)]
    false, true = np.mean([row[101:].sum() for row in rows]), np.mean([row[1:101].sum() for row in rows])
    assert abs(false - 900 * lie) < 6 * math.sqrt(900 * lie * (1 - lie) / 3)
    assert abs(true - 100 * (1 - lie)) < 6 * math.sqrt(100 * lie * (1 - lie) / 3)


def test_the_number_of_edges_is_unbiased_with_its_deviation() -> None:
    lists = communities(200, 0.2, 0.02)
    edges = sum(len(own) for own in lists) / 2
    with seeded(3):
        found = [noisy_adjacency(lists, epsilon=1) for _ in range(40)]
    estimates = np.array([one.edges for one in found])
    assert abs(estimates.mean() - edges) < 6 * found[0].edges_deviation / math.sqrt(40)
    # a deviation from 40 runs is within 6 / sqrt(80) of the true one
    assert abs(estimates.std(ddof=1) / found[0].edges_deviation - 1) < 6 / math.sqrt(80)


def test_one_group_is_the_model_of_degrees() -> None:
    lists = communities(60, 0.3, 0.1)
    with seeded(4):
        model = generated(lists, groups=1, epsilon=1, rounds=1)
    assert model.counts.shape == (60, 1) and model.event == DiscreteLaplace(1, adjacency=Adjacency.REPLACE_ONE)
    off = model.degrees - np.array([len(own) for own in lists])
    assert np.abs(off).max() < 40  # e^-40 of the noise lies beyond


def test_rounds_find_communities_and_the_graph_keeps_them() -> None:
    lists = communities(200, 0.4, 0.02)
    with seeded(5):
        model = generated(lists, groups=2, epsilon=20, rounds=3)
        edges = model.sample()
    assert account(model.event, Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(20)
    side = np.arange(200) % 2
    agree = (model.groups == side).mean()
    assert max(agree, 1 - agree) > 0.95
    true = sum(len(own) for own in lists) / 2
    assert abs(len(edges) - true) < 0.1 * true
    across = sum(side[u] != side[v] for u, v in edges) / len(edges)
    truth = sum(side[i] != side[j] for i, own in enumerate(lists) for j in own) / 2 / true
    assert abs(across - truth) < 0.05
    assert all(u < v for u, v in edges)


def test_the_price_counts_all_rounds() -> None:
    model = generated([[1], [0], []], groups=2, epsilon=1, rounds=2)
    assert model.event == Repeated(DiscreteLaplace(2, adjacency=Adjacency.REPLACE_ONE), 2)
    with pytest.raises(ParameterError):
        generated([[1], [0]], groups=3, epsilon=1)


def test_odd_neighbours_are_left_out_without_an_error() -> None:
    lists: list[list[object]] = [[1, 1, 0, -5, 99, "x", None, True, 1.0, 10**30], [], [0, float("nan")]]
    with seeded(6):
        degrees = noisy_degrees(lists, epsilon=50)  # type: ignore[arg-type]
    assert degrees.tolist() == [1, 0, 1]
    assert noisy_adjacency(lists, epsilon=1).bits.shape == (3, 3)  # type: ignore[arg-type]
