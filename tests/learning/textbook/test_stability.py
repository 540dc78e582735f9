"""Privacy from stability: paths move by at most what is priced, phases reach the population's optimum, and the chain has the law it
claims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Adjacency, ApproxDP, Gaussian, Guarantee, ParameterError
from tacit.learning import BoltOnDescent, L2Ball, LocalExponential, PhasedDescent, iteration_multiplier
from tacit.learning.textbook.stability import farthest_end, one_pass
from tacit.noise import test_mode

ZO = Adjacency.ZERO_OUT


def logistic(row: np.ndarray, label: float) -> Any:
    """The gradient of one logistic loss; rows of length at most 1, so slope 1 and smoothness 1/4."""
    return lambda theta: -label * row / (1 + math.exp(label * float(row @ theta)))


def people(n: int, seed: int = 0) -> tuple[list[Any], np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n, 2))
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    labels = np.where(generator.random(n) < 1 / (1 + np.exp(-3 * rows[:, 0])), 1.0, -1.0)
    return [logistic(row, label) for row, label in zip(rows, labels, strict=True)], rows, labels


@settings(max_examples=20)
@given(st.integers(0, 29), st.integers(1, 2), st.sampled_from([0.1, 1.0, 8.0]))
def test_one_person_moves_the_end_by_at_most_the_price(place: int, passes: int, length: float) -> None:
    """Steps up to 2 / smoothness = 8, with and without each person; the other's end is within `farthest_end`."""
    given_people, _, _ = people(30)
    ball = L2Ball(2, radius=3.0)
    terms: dict[str, Any] = {"clip": 1.0, "length": length, "passes": passes}
    without = [*given_people[:place], None, *given_people[place + 1 :]]
    apart = np.linalg.norm(one_pass(given_people, ball, **terms) - one_pass(without, ball, **terms))
    assert apart <= farthest_end(1.0, length, passes, 30, ball)


def test_longer_steps_move_points_apart_and_are_refused() -> None:
    """The mutant: on a quadratic of smoothness 1 and steps of 3, one early person moves the last points by far more than a step."""
    ball = L2Ball(1, radius=1e6)
    pull = [lambda theta: np.array([1.0]), *[lambda theta: np.clip(theta, -1e5, 1e5)] * 10]
    apart = abs(one_pass(pull, ball, clip=1e6, length=3.0)[0] - one_pass([None, *pull[1:]], ball, clip=1e6, length=3.0)[0])
    assert apart > 10 * 3.0
    with pytest.raises(ParameterError, match="move points apart"):
        BoltOnDescent.plan(Guarantee(rho=1), ball, clip=1.0, smoothness=1.0, places=11, length=3.0)


def test_the_noise_is_as_large_as_it_is_priced() -> None:
    """2,000 coordinates and no people: the deviation is multiplier times the farthest end, within 8 % (5 deviations)."""
    ball = L2Ball(2000, radius=1e5)
    plan = BoltOnDescent.plan(Guarantee(mu=0.5), ball, clip=1.0, smoothness=0.25, places=10, length=2.0)
    with test_mode(1):
        found = plan.run([])
    assert plan.event == Gaussian(plan.multiplier, adjacency=ZO)
    assert found.std() == pytest.approx(plan.multiplier * farthest_end(1.0, 2.0, 1, 10, ball), rel=0.08)


def loss(theta: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> float:
    return float(np.logaddexp(0, -labels * (rows @ theta)).mean())


def test_phases_reach_the_population() -> None:
    """Ridge logistic losses, excess on fresh people, mean of three runs of 4,000: below clip * diameter * (1 / sqrt(n) + sqrt(p) / (n
    mu)), the rate of Feldman, Koren and Talwar, and for strong convexity below clip^2 / strong * (1 / n + p / (n mu)^2), theirs with a
    constant of 4; a model of 0 is far above both."""
    ridge, n, mu, clip = 0.1, 4000, 0.5, 1.4
    given_people, _, _ = people(n, 1)
    ridged = [lambda theta, one=one: one(theta) + ridge * theta for one in given_people]
    _, rows, labels = people(40_000, 2)
    optimum = np.array([1.0652, 0.0112])  # by scipy's minimize on these rows

    def excess(theta: np.ndarray) -> float:
        def risk(at: np.ndarray) -> float:
            return loss(at, rows, labels) + ridge / 2 * float(at @ at)

        return risk(theta) - risk(optimum)

    plans = [PhasedDescent(L2Ball(2, radius=4.0), clip, 0.25 + ridge, n, Guarantee(mu=mu), strong) for strong in (0.0, ridge)]
    assert sum(size for size, _ in plans[0].phases()) == n
    assert all(Guarantee(mu=mu).keeps(plan.event, ZO) for plan in plans)
    with test_mode(2):
        convex, strong = (float(np.mean([excess(plan.run(ridged)) for _ in range(3)])) for plan in plans)
    assert convex < clip * 8 * (1 / math.sqrt(n) + math.sqrt(2) / (n * mu))
    assert strong < 4 * clip**2 / ridge * (1 / n + 2 / (n * mu) ** 2) < excess(np.zeros(2))


def test_amplification_by_iteration_bounds_an_exact_case() -> None:
    """Linear losses without a constraint: the last point is Gaussian, and a person who is zeroed out moves it by clip, in units where the
    noise of the n - i + 1 steps from theirs on has that many variances. The theorem is exact there; for the last person it is plain
    noise."""
    n, clip, sigma = 10, 2.0, 3.0
    for position in range(1, n + 1):
        # steps before the person's own are the same in both worlds and can be given away: what is left is hidden by the later noise
        exact = sigma * math.sqrt(n + 1 - position) / clip
        assert iteration_multiplier(position=position, places=n, clip=clip, sigma=sigma) == pytest.approx(exact)
    assert iteration_multiplier(position=n, places=n, clip=clip, sigma=sigma) == sigma / clip
    with pytest.raises(ParameterError):
        iteration_multiplier(position=11, places=10, clip=1, sigma=1)


def test_amplification_by_iteration_on_a_contraction() -> None:
    """Quadratic losses: each step multiplies by 1 - length. The exact multiplier of a place, from the Gaussian law of the last point, is at
    least the theorem's; without the contraction's square it would not be."""
    n, sigma, length = 12, 1.0, 0.3
    keep = 1 - length
    for position in range(1, n + 1):
        moved = length * keep ** (n - position)
        noise = math.sqrt(sum((length * sigma * keep ** (n - t)) ** 2 for t in range(position, n + 1)))
        assert noise / moved >= iteration_multiplier(position=position, places=n, clip=1.0, sigma=sigma) * (1 - 1e-12)


def one_dimensional(relation: Adjacency = Adjacency.ADD_REMOVE, **changes: Any) -> LocalExponential:
    return LocalExponential(np.zeros(1), 1.0, 5, 1.0, 1.0, relation, **{"width": 1.0, **changes})


def exact_law(plan: LocalExponential, losses: Any) -> np.ndarray:
    grid = np.arange(-plan.points, plan.points + 1)[:, None] / plan.points * plan.radius
    weights = np.exp(float(plan.rate) * plan.scores(losses, grid))
    return weights / weights.sum()


def chain_law(plan: LocalExponential, losses: Any) -> np.ndarray:
    """The law after all steps, by powers of the chain's matrix: nothing is simulated."""
    grid = np.arange(-plan.points, plan.points + 1)[:, None] / plan.points * plan.radius
    exponents = float(plan.rate) * plan.scores(losses, grid)
    size = len(grid)
    accept = np.minimum(1, np.exp(exponents[None, :] - exponents[:, None])) / size
    np.fill_diagonal(accept, 0)
    np.fill_diagonal(accept, 1 - accept.sum(axis=1))
    return np.linalg.matrix_power(accept, plan.steps)[0]


def test_the_chain_is_within_its_miss_of_the_exponential_mechanism() -> None:
    """By exact powers of its matrix; a chain of a twentieth of the steps is not (the mutant)."""
    points = np.array([0.3, 0.5, 0.4, -0.9])
    plan = one_dimensional(miss=1e-6)

    def losses(theta: np.ndarray) -> np.ndarray:
        return np.abs(theta[0] - points)

    assert np.abs(chain_law(plan, losses) - exact_law(plan, losses)).sum() / 2 <= plan.miss
    short = one_dimensional(miss=0.5)
    assert short.steps < plan.steps / 10


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.floats(-1, 1))
def test_neighbouring_laws_keep_the_price(points: list[float], other: float) -> None:
    """The exact laws of the chain with and without a person, and with one exchanged: e^epsilon apart, up to the stated delta."""
    for relation, neighbour in ((Adjacency.ADD_REMOVE, points[:-1]), (Adjacency.REPLACE_ONE, [*points[:-1], other])):
        plan = one_dimensional(relation, miss=1e-9)
        laws = [chain_law(plan, lambda theta, these=these: np.abs(theta[0] - np.array(these))) for these in (points, neighbour)]
        event = plan.event
        assert isinstance(event, ApproxDP)
        for one, two in (laws, laws[::-1]):
            assert np.maximum(one - math.exp(1.0) * two, 0).sum() <= float(event.delta) + 1e-9


def test_draws_follow_the_law_and_nothing_raises() -> None:
    """600 draws against the exact law: chi square below 40 with 10 degrees of freedom (1 in 50,000); NaN losses count as 0."""
    points = np.linspace(-0.5, 1.0, 40)
    plan = one_dimensional(miss=1e-2)

    def losses(theta: np.ndarray) -> np.ndarray:
        return np.abs(theta[0] - points)

    with test_mode(4):
        drawn = [round(float(plan.run(losses)[0]) * 5) + 5 for _ in range(600)]
        odd = plan.run(lambda theta: np.array([math.nan, math.inf, 1e308]))
    expected = 600 * exact_law(plan, losses)
    counted = np.bincount(drawn, minlength=11)
    assert ((counted - expected) ** 2 / expected).sum() < 40
    assert np.isfinite(odd).all()
