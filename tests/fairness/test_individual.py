"""Individual fairness: the exact cases of the specification, and the printed constraint as a mutant."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.optimize import linprog

from tacit.fairness import FairnessError, check_metric, d_inf, d_tv, fair_lp, lipschitz, private_lp, shortest_paths

OPPOSITE = np.array([[0.0, 1.0], [1.0, 0.0]])


def apart(n: int, distance: float) -> np.ndarray:
    return distance * (1 - np.eye(n))


def test_two_people_who_want_opposite_labels() -> None:
    assert fair_lp(OPPOSITE, apart(2, 0.3), "tv").value == pytest.approx(0.35, abs=1e-9)
    found = fair_lp(OPPOSITE, apart(2, math.log(3)), "inf")
    assert found.value == pytest.approx(0.25, abs=1e-9)
    assert found.decisions == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]), abs=1e-9)


def test_a_clique_of_four_is_the_bound_of_chapter_15() -> None:
    assert private_lp(1 - np.eye(4), 1 - np.eye(4), 1).value == pytest.approx(3 / (math.e + 3), abs=1e-9)


@pytest.mark.parametrize("divergence", ["tv", "inf"])
def test_the_ends(divergence: str) -> None:
    constant = fair_lp(OPPOSITE, apart(2, 0.0), divergence)  # type: ignore[arg-type]
    assert constant.decisions[0] == pytest.approx(constant.decisions[1]) and constant.value == pytest.approx(0.5)
    # log-ratios are cut at 16: the far end errs by e^-16 at most
    assert fair_lp(OPPOSITE, apart(2, 50.0), divergence).value == pytest.approx(0, abs=1.2e-7)  # type: ignore[arg-type]


def test_constant_decisions_and_the_bayes_predictor_are_fair() -> None:
    """A constant treats all alike whatever the metric; a predictor p is fair for the metric |p(x) - p(x')|, and for no smaller one."""
    made = np.random.default_rng(7)
    share = made.random(12)
    decisions, metric = np.column_stack([1 - share, share]), np.abs(share[:, None] - share[None])
    assert lipschitz(np.tile([0.3, 0.7], (12, 1)), np.zeros((12, 12))).fair
    assert lipschitz(np.tile([0.3, 0.7], (12, 1)), np.zeros((12, 12)), "inf").fair
    assert lipschitz(decisions, metric).fair
    found = lipschitz(decisions, metric * 0.9)
    # of metrics that are a tenth too small, the two who are farthest apart break it most, and they are named
    assert not found.fair and {found.first, found.second} == {int(share.argmin()), int(share.argmax())}


def test_the_printed_constraint_allows_everything() -> None:
    """sum_y (mu_1(y) - mu_2(y)) is 0 for any two laws: without absolute values nothing is excluded."""
    row = np.array([[0.5, 0.5, -0.5, -0.5]])
    cost = OPPOSITE.ravel() / 2
    simplex = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    printed = linprog(cost, A_ub=row, b_ub=[0.3], A_eq=simplex, b_eq=[1, 1], bounds=(0, 1))
    assert printed.fun == pytest.approx(0)  # the loss of a decision that is not fair
    assert not lipschitz(printed.x.reshape(2, 2), apart(2, 0.3)).fair
    right = fair_lp(OPPOSITE, apart(2, 0.3), "tv")
    assert lipschitz(right.decisions, apart(2, 0.3)).fair


@pytest.mark.parametrize("divergence", ["tv", "inf"])
@pytest.mark.parametrize("minimax", [False, True])
def test_decisions_are_fair_and_no_worse_than_others(divergence: str, minimax: bool) -> None:
    made = np.random.default_rng(2)
    places = made.uniform(0, 1, (7, 2))
    metric = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
    loss = made.uniform(0, 1, (7, 3))
    found = fair_lp(loss, metric, divergence, minimax=minimax)  # type: ignore[arg-type]
    assert lipschitz(found.decisions, metric, divergence).excess < 1e-7  # type: ignore[arg-type]
    assert found.decisions.sum(axis=1) == pytest.approx(np.ones(7))
    for label in range(3):  # constant decisions are fair, so none of them is better
        own = loss[:, label].max() if minimax else loss[:, label].mean()
        assert found.value <= own + 1e-9
    # against a second way to solve it: cvx-free grid over mixtures of found and constants changes nothing for the better
    for share in (0.1, 0.5):
        mixed = (1 - share) * found.decisions + share / 3
        worth = (loss * mixed).sum(axis=1)
        assert found.value <= (worth.max() if minimax else worth.mean()) + 1e-9


def test_minimax_looks_at_the_worst() -> None:
    loss = np.array([[0.0, 1.0]] * 9 + [[1.0, 0.0]])
    mean, worst = fair_lp(loss, apart(10, 0.1)), fair_lp(loss, apart(10, 0.1), minimax=True)
    assert mean.value < worst.value == pytest.approx(0.45)


def test_two_hundred_individuals_in_seconds() -> None:
    made = np.random.default_rng(1)
    places = made.uniform(0, 3, 200)
    started = time.process_time()
    found = fair_lp(made.uniform(0, 1, (200, 2)), np.abs(places[:, None] - places[None]), "inf")
    assert time.process_time() - started < 10
    assert found.decisions.shape == (200, 2)


def test_divergences() -> None:
    assert d_tv([1, 0], [0, 1]) == 1 and d_inf([1, 0], [0, 1]) == math.inf
    assert d_inf([0.5, 0.5], [0.5, 0.5]) == 0 and d_inf([1, 0], [1, 0]) == 0


@pytest.mark.parametrize(
    ("distances", "code"),
    [
        ([[0, 1]], "distances-square"),
        ([[0, math.nan], [math.nan, 0]], "distances-square"),
        ([[0, -1], [-1, 0]], "distances-negative"),
        ([[0, 1], [2, 0]], "distances-asymmetric"),
        ([[1, 1], [1, 0]], "distances-self"),
        ([[0, 1, 5], [1, 0, 1], [5, 1, 0]], "distances-triangle"),
    ],
)
def test_what_is_no_metric_is_refused_by_name(distances: list[list[float]], code: str) -> None:
    with pytest.raises(FairnessError) as error:
        check_metric(distances)
    assert error.value.code == code


def test_shortest_ways_make_a_metric() -> None:
    made = np.random.default_rng(3)
    raw = made.uniform(0, 1, (9, 9))
    np.fill_diagonal(raw, 0)
    check_metric(shortest_paths(raw))


def test_shapes_and_weights() -> None:
    for loss in ([[0.0], [1.0]], [[0, math.inf], [1, 0]], [0, 1]):
        with pytest.raises(FairnessError):
            fair_lp(loss, apart(2, 1))
    with pytest.raises(FairnessError):
        fair_lp(OPPOSITE, apart(2, 1), weights=[-1, 2])
    assert fair_lp(OPPOSITE, apart(2, 0), weights=[1, 0]).value == pytest.approx(0)
