"""Mechanisms of Tacit with one fault each, drawn in bulk: forgotten factors, missing tests, sensitivities of the wrong relation.

>>> [mutant.name for mutant in mutants()][:3]
['gaussian: half the noise', 'gaussian: noise for one coordinate', 'geometric: redrawn into bounds']
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import GDP, Adjacency, ApproxDP, PureDP
from tacit.audit.claim import Claim
from tacit.audit.selftest.case import Mutant, promise
from tacit.calculus import Graph
from tacit.mechanisms import edge_flow, loss_spread, optimal_selection, run_table, runs_of, staircase_draw
from tacit.noise import (
    bernoulli,
    choose_weighted,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    rounded_gaussian,
    rounded_laplace,
    uniform_integers,
)

Draws = NDArray[Any]
REPLACE = Adjacency.REPLACE_ONE
E = 2.718281  # rounded down, so that what is right stays under its claim


def mutants() -> list[Mutant]:
    """All of them."""
    return [*_noise(), *_choice(), *_fitted()]


def _noise() -> list[Mutant]:
    one, mu = Claim.of(epsilon=1), Claim(GDP(1), text="mu 1")

    def gaussian(multiplier: Fraction) -> Any:
        return lambda value, n: rounded_gaussian(1000 * multiplier, size=n) + 1000 * value

    def two(sigma: float) -> Any:
        return lambda value, n: rounded_gaussian(sigma, size=(n, 2)) + value

    def redrawn(value: int, n: int) -> Draws:
        """Answers outside the bounds are drawn anew instead of clamped."""
        drawn = value + discrete_laplace(2, size=8 * n)
        return np.asarray(drawn[(drawn >= 0) & (drawn <= 3)][:n])

    def levels(scale: Fraction) -> Any:
        return lambda first, n: first + discrete_laplace(scale, size=(n, 3))

    def histogram(row: int, n: int) -> Draws:
        return np.asarray(np.eye(2, dtype=np.int64)[row] + discrete_laplace(1, size=(n, 2)))

    def exchanged(row: int, n: int) -> Draws:
        return np.asarray(np.eye(2, dtype=np.int64)[row] + discrete_laplace(2, size=(n, 2)))

    def steps(wide: int) -> Any:
        return lambda value, n: value + staircase_draw(Fraction(1), wide, 1, n)

    def odds(keep: float) -> Any:
        def run(value: int, n: int) -> Draws:
            others = choose_weighted([1, 1, 1, 1], size=n)
            return np.where(bernoulli(Fraction(keep), size=n) == 1, value, np.where(others >= value, others + 1, others))

        return run

    graph = Graph.of([("hub", leaf) for leaf in range(10)])
    halves = tuple(edge_flow(g, 3) for g in (graph.without("hub"), graph))
    return [
        Mutant(
            "gaussian: half the noise", gaussian(Fraction(1, 2)), gaussian(Fraction(1)), (0, 1), mu, 20_000, "Half of sigma.", bulk=True
        ),
        Mutant(
            "gaussian: noise for one coordinate",
            two(1000),
            two(1000 * math.nextafter(math.sqrt(2), 2)),
            (0, 1000),
            mu,
            20_000,
            "Sigma for the largest coordinate instead of the Euclidean length.",
            bulk=True,
        ),
        Mutant(
            "geometric: redrawn into bounds",
            redrawn,
            lambda value, n: np.clip(value + discrete_laplace(2, size=n), 0, 3),
            (0, 1),
            Claim.of(epsilon=0.5),
            60_000,
            bulk=True,
        ),
        Mutant(
            "discrete gaussian: priced as continuous at delta 0",
            lambda value, n: value + discrete_gaussian(1, size=n),
            lambda value, n: value + discrete_laplace(1, size=n),
            (0, 1),
            one,
            60_000,
            "A Gaussian, discrete or not, keeps no epsilon without a delta.",
            bulk=True,
        ),
        Mutant(
            "lattice: scale counted in granules",
            lambda value, n: 4 * value + rounded_laplace(1, size=n),
            lambda value, n: 4 * value + rounded_laplace(4, size=n),
            (0, 1),
            one,
            20_000,
            "Four granules are one unit: a quarter of the noise.",
            bulk=True,
        ),
        Mutant(
            "continual counting: one level paid",
            levels(Fraction(2, 3)),
            levels(Fraction(2)),
            (0, 1),
            promise(PureDP(1.5, adjacency=REPLACE), REPLACE),
            20_000,
            "Every item is in three blocks, and noise is for one.",
            bulk=True,
        ),
        Mutant(
            "histogram: add-remove price for an exchange",
            histogram,
            exchanged,
            (0, 1),
            promise(PureDP(1, adjacency=REPLACE), REPLACE),
            20_000,
            "An exchanged row moves two cells, and noise is for one.",
            bulk=True,
        ),
        Mutant("staircase: narrow steps", steps(2), steps(3), (0, 3), one, 20_000, "Steps of 2 for a sensitivity of 3.", bulk=True),
        Mutant(
            "randomised response: odds against all",
            odds(E / (1 + E)),
            odds(E / (4 + E)),
            (0, 1),
            one,
            20_000,
            "The truth with e/(1+e) among five answers: each of the others is four times too rare.",
            bulk=True,
        ),
        Mutant(
            "graph: plain count",
            lambda degree, n: 2 * degree + rounded_laplace(6, size=n),
            lambda degree, n: halves[int(degree > 0)] + rounded_laplace(6, size=n),
            (0, 10),
            one,
            20_000,
            "One vertex takes all its edges along; noise is for three.",
            bulk=True,
        ),
    ]


def _choice() -> list[Mutant]:
    two = Claim.of(epsilon=2)
    low, high = (1, 0, 0, 0, 0, 0), (0, 1, 1, 1, 1, 1)

    def weighted(rate: float) -> Any:
        def run(scores: tuple[int, ...], n: int) -> Draws:
            return np.asarray(choose_weighted([int(1e6 * math.exp(rate * score)) for score in scores], size=n))

        return run

    def with_maximum(scores: tuple[int, ...], n: int) -> Draws:
        """Which candidate won is published together with its noisy score."""
        noisy = np.asarray(scores) + geometric(1, size=(n, len(scores)))
        return np.column_stack([noisy.argmax(axis=1), noisy.max(axis=1)])

    def exponentially(scores: tuple[int, ...], n: int) -> Draws:
        return np.asarray(weighted(0.99)(scores, n))

    def tries(number: int) -> Any:
        return lambda chance, n: bernoulli(chance, size=(n, number)).max(axis=1)

    truth = Fraction(622_459, 10**6)  # e^(1/2) / (1 + e^(1/2)), rounded down
    rule = optimal_selection(epsilon=1, delta=Fraction(1, 1000))

    def ranked(rate: Fraction) -> Any:
        q = Fraction(9, 10)

        def run(rows: list[int], n: int) -> Draws:
            runs = runs_of(np.sort(np.array(rows, dtype=np.int64)), 0, 9, q)
            chosen = np.asarray(run_table(runs, rate / loss_spread(q, exchange=False)).draw(n))
            # A value of the run, evenly: every width up to 10 divides 2520.
            return np.asarray(runs.starts)[chosen] + uniform_integers(2520, size=n) % np.asarray(runs.widths)[chosen]

        return run

    return [
        Mutant(
            "exponential: factor two forgotten",
            weighted(2),
            weighted(0.99),
            (low, high),
            two,
            20_000,
            "Weights exp(epsilon score).",
            bulk=True,
        ),
        Mutant("noisy max: the maximum too", with_maximum, exponentially, ((0, 0), (1, 1)), two, 4000, bulk=True),
        Mutant(
            "selection: six tries, one paid",
            tries(6),
            tries(1),
            (1 - truth, truth),
            Claim.of(epsilon=0.5),
            20_000,
            "Retries that nobody pays for: the best of six is published.",
            bulk=True,
        ),
        Mutant(
            "keys: no threshold",
            lambda people, n: (people + discrete_laplace(1, size=n) >= 1) & (people > 0),
            lambda people, n: bernoulli(rule.probabilities[people], size=n),
            (0, 1),
            Claim.of(epsilon=1, delta=1e-3),
            4000,
            "A key of one person comes out about half of the time.",
            delta=1e-3,
            bulk=True,
        ),
        Mutant(
            "quantile: ranks in tenths of a row",
            ranked(Fraction(1)),
            ranked(Fraction(1, 10)),
            ([2] * 9, [2] * 9 + [7]),
            Claim.of(epsilon=1),
            20_000,
            "Losses are left in parts of a row: ten times the rate.",
            bulk=True,
        ),
    ]


def _fitted() -> list[Mutant]:
    def untested(data: list[int], n: int) -> Draws:
        """The proposed bound is used without the test that it holds."""
        return np.asarray(sorted(data)[len(data) // 2] + discrete_laplace(10, size=n))

    def whole_range(data: list[int], n: int) -> Draws:
        return np.asarray(sorted(data)[len(data) // 2] + discrete_laplace(100, size=n))

    def local(data: list[int], n: int) -> Draws:
        """Noise scaled to the local sensitivity, which is nothing on one input and everything on its neighbour."""
        ordered = sorted(data)
        middle = len(data) // 2
        gap = max(ordered[middle + 1] - ordered[middle], ordered[middle] - ordered[middle - 1])
        return np.asarray(ordered[middle] + (discrete_laplace(gap, size=n) if gap else np.zeros(n, dtype=np.int64)))

    def eight(data: list[int], n: int) -> Draws:
        return np.asarray(sorted(data)[len(data) // 2] + discrete_laplace(8, size=n))

    def added_block(rows: list[int], n: int) -> Draws:
        """The aggregator is made for answers that come and go; here they change, by twice as much."""
        return np.asarray((1 if rows else -1) + discrete_laplace(1, size=n))

    def changed_block(rows: list[int], n: int) -> Draws:
        return np.asarray((1 if rows else -1) + discrete_laplace(2, size=n))

    def free_bounds(rows: list[int], n: int) -> Draws:
        """Bounds are the smallest and the largest value there is."""
        return np.tile([min(rows), max(rows)], (n, 1))

    def public_bounds(rows: list[int], n: int) -> Draws:
        return np.tile([0, 10], (n, 1))

    return [
        Mutant(
            "propose-test-release: no test",
            untested,
            whole_range,
            ([0] * 4 + [100] * 3, [0] * 3 + [100] * 4),
            promise(ApproxDP(1, 0.05, adjacency=REPLACE), REPLACE, "epsilon 1 at delta 0.05"),
            4000,
            delta=0.05,
            bulk=True,
        ),
        Mutant(
            "smooth sensitivity: local instead",
            local,
            eight,
            ([0, 0, 0, 0, 8], [0, 0, 0, 8, 8]),
            promise(PureDP(1, adjacency=REPLACE), REPLACE),
            4000,
            bulk=True,
        ),
        Mutant("sample and aggregate: wrong metric", added_block, changed_block, ([], [5]), Claim.of(epsilon=1), 8000, bulk=True),
        Mutant(
            "automatic bounds: read from the data", free_bounds, public_bounds, ([1, 1], [1, 1, 3]), Claim.of(epsilon=1), 1000, bulk=True
        ),
    ]
