"""Accuracy in both directions: every mechanism has it, it holds as often as it says, and the mechanism made for it is the cheapest.

Each case draws `DRAWS` answers at beta = 0.1 and counts errors above what `accuracy` says. `MOST` misses or fewer are expected except with
probability 1e-6 where the chance of a miss is exactly 0.1. A mutant, the same with a smaller error, must fail where the bound is tight.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tacit import mechanisms
from tacit.accounting import ParameterError
from tacit.calculus import AddRemove, Graph, Graphs, Integers, Lattice, Measurement, Nodes, ReplaceOne, Rows, Space, Step
from tacit.mechanisms import gaussian, laplace
from tacit.mechanisms.automatic_bounds import AutomaticBounds
from tacit.mechanisms.bounded_mean import BoundedMean, BoundedVariance
from tacit.mechanisms.histogram import NoisyHistogram
from tacit.mechanisms.lipschitz_graph import lipschitz_degree_histogram, lipschitz_edge_count, triangle_count
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.partition_selection import (
    GaussianSelection,
    KeySelection,
    LaplaceSelection,
    OptimalSelection,
    SipsSelection,
    holdings_of,
)
from tacit.mechanisms.quantile import Quantiles, runs_of
from tacit.mechanisms.randomised_response import CoinResponse
from tacit.mechanisms.recursive import RecursiveCount
from tacit.mechanisms.sample_aggregate import BlockMean, sample_aggregate
from tacit.noise import bernoulli
from tacit.noise import test_mode as seeded

BETA, DRAWS = 0.1, 1000
MOST = int(binom.isf(1e-6, DRAWS, BETA))
HALF = Fraction(1, 2)

#: Steps whose accuracy is that of the mechanism that follows them, or which are no mechanisms at all.
NOT_RELEASES = {"Mechanism", "Additive", "KeySelection", "SampleAggregate", "NoisySelection"}


def every_mechanism() -> dict[str, type]:
    """All steps that the package defines: what binds to a space and releases, or counts for a release."""
    found = {}
    for entry in pkgutil.iter_modules(mechanisms.__path__):
        module = importlib.import_module(f"tacit.mechanisms.{entry.name}")
        for name, thing in vars(module).items():
            if inspect.isclass(thing) and issubclass(thing, Step) and thing.__module__ == module.__name__ and not name.startswith("_"):
                found[name] = thing
    return found


def lacks(thing: type) -> list[str]:
    """Which of the two directions a class does not have of its own."""
    return [
        way for way in ("accuracy", "for_accuracy")
        if getattr(thing, way, None) is None or getattr(thing, way) == getattr(Mechanism, way)
        or inspect.unwrap(getattr(thing, way)).__qualname__.startswith(("Mechanism.", "Additive."))
    ]


def test_every_mechanism_has_both_directions() -> None:
    found = every_mechanism()
    assert len(found) > 25 and {"NoisyHistogram", "Quantiles", "SmoothSensitivity", "EdgeCount", "BlockMean"} <= set(found)
    assert {name: lacks(thing) for name, thing in found.items() if name not in NOT_RELEASES and lacks(thing)} == {}
    assert lacks(CoinResponse) == []


def test_a_mechanism_without_accuracy_is_found() -> None:
    class Silent(Mechanism):
        def accuracy(self, beta: float) -> float:
            return beta

    assert lacks(Silent) == ["for_accuracy"]


@dataclass(frozen=True)
class Case:
    """A release, the error it says, and how much smaller an error must be to be missed too often (None where the bound is not tight)."""

    name: str
    says: float
    off: Callable[[], float]
    tight: float | None = 0.5


AGES = Space(Rows(Integers(0, 100)), AddRemove())
FIXED = Space(Rows(Integers(0, 100), size=2000), ReplaceOne())
VALUES = [20] * 600 + [35] * 900 + [90] * 500
HALVES = Space(Rows(Lattice(HALF, 0, 100)), AddRemove())
GRAPH = Graph.of([(i, (i + 1) % 60) for i in range(60)])


def of(plan: Measurement, data: Any, truth: float, read: Callable[[Any], float] = lambda answer: answer) -> Callable[[], float]:
    return lambda: abs(read(plan.function(data)) - truth)


def cases() -> list[Case]:
    mean, variance = float(np.mean(VALUES)), float(np.var(VALUES))
    found = []
    for label, space in (("private n", AGES), ("public n", FIXED)):
        rule = BoundedMean.for_accuracy(0.5, BETA, n=2000, space=space)
        found.append(Case(f"mean, {label}", 0.5, of(space >> rule, VALUES, mean, lambda a: a.value), 0.5 if label == "public n" else 0.25))
        spread = BoundedVariance.for_accuracy(40, BETA, n=2000, space=space)
        found.append(Case(f"variance, {label}", 40, of(space >> spread, VALUES, variance, lambda a: a.value), 0.05))
    lattice = BoundedMean.for_accuracy(1, BETA, n=2000, space=HALVES)
    found.append(Case("mean of halves", 1, of(HALVES >> lattice, [2 * v for v in VALUES], mean, lambda a: a.value), 0.25))
    for kind in ("laplace", "gaussian"):
        histogram = NoisyHistogram.for_accuracy(12, BETA, cells=101, kind=kind)
        plan, truth = AGES >> histogram, np.bincount(VALUES, minlength=101)
        largest = lambda p=plan, t=truth: max(abs(c - t[v]) for v, c in p.function(VALUES).raw.items())  # noqa: E731
        found.append(Case(f"histogram, {kind}", 12, largest, 0.7))
    blocks = sample_aggregate(lambda block: float(np.mean(block)), blocks=20, bounds=(0, 100), key=b"k")
    answers = blocks.answers(VALUES) * float(blocks.granularity)
    mean_rule = BlockMean.for_accuracy(10, BETA, blocks=20, bounds=(0, 100))
    plan = AGES >> blocks >> mean_rule
    assert plan.accuracy is not None and plan.accuracy(BETA) <= 10
    release = (Space(Rows(Integers(0, 100)), AddRemove()) >> blocks).output >> mean_rule
    found.append(Case("block mean", 10, of(release, blocks.answers(VALUES), float(answers.mean())), 0.7))
    edges, triangles, degrees = lipschitz_edge_count(max_degree=3), triangle_count(max_degree=3), lipschitz_degree_histogram(max_degree=3)
    for name, step, truth in (("edges", edges, 60), ("triangles", triangles, 0)):
        noise = step.for_accuracy(15, BETA)
        value = (Space(Graphs(), Nodes()) >> step)(GRAPH)
        after = (Space(Graphs(), Nodes()) >> step).output >> noise
        found.append(Case(name, 15, of(after, value, truth), 0.7))
    after = (Space(Graphs(), Nodes()) >> degrees).output >> degrees.for_accuracy(15, BETA)
    start = degrees.histogram(GRAPH)
    found.append(Case("degrees", 15, lambda: float(np.abs(after.function(start) - start).max()), 0.7))
    unknown = RecursiveCount.for_accuracy(60, BETA, most=2)
    found.append(Case("edges, recursive", 60, of(Space(Graphs(), Nodes()) >> unknown, GRAPH, 60, lambda a: a.value), 0.1))
    coins = CoinResponse.for_accuracy(0.06, BETA, n=2000)
    # the error is of the population's share, from which the people are drawn as well
    heads = lambda: int(coins.privatise(bernoulli(HALF, 2000)).sum())  # noqa: E731
    found.append(Case("coins", 0.06, lambda: abs(coins.estimate(heads(), 2000) / 2000 - 0.5), 0.5))
    three = (Fraction(1, 4), HALF, Fraction(3, 4))
    rule = Quantiles.for_accuracy(150, BETA, three, candidates=101)
    several = AGES >> rule
    spread_out = np.arange(2000) % 101

    def rank_error() -> float:
        rows, found = np.sort(spread_out), several.function(spread_out)
        losses = []
        for q, value in zip(three, found, strict=True):
            runs = runs_of(rows, 0, 100, q)
            losses.append(int(runs.losses[np.searchsorted(runs.starts, value, "right") - 1]) / q.denominator)
        return max(losses)

    found.append(Case("quantiles", 150, rank_error, None))
    bounds = AutomaticBounds.for_accuracy(600, BETA, bits=10)
    plan = Space(Rows(Integers()), AddRemove()) >> bounds
    skewed = np.array([3] * 40 + [9] * 500 + [40] * 30 + [-5] * 45 + [300] * 3)

    def outside() -> float:
        told = plan.function(skewed)
        return max((skewed < told.lower).sum(), (skewed > told.upper).sum())

    found.append(Case("automatic bounds", 600, outside, None))
    return found


@pytest.fixture(scope="module")
def table() -> dict[str, Case]:
    return {case.name: case for case in cases()}


NAMES = ["mean, private n", "mean, public n", "variance, private n", "variance, public n", "mean of halves", "histogram, laplace",
         "histogram, gaussian", "block mean", "edges", "triangles", "degrees", "edges, recursive", "coins", "quantiles",
         "automatic bounds"]  # fmt: skip


def test_all_cases_are_run(table: dict[str, Case]) -> None:
    assert sorted(table) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_error_is_kept_as_often_as_it_says(name: str, table: dict[str, Case]) -> None:
    case = table[name]
    draws = DRAWS if name.split(",")[0] not in ("quantiles", "histogram", "variance", "automatic bounds") else DRAWS // 4
    with seeded(7):
        off = np.array([case.off() for _ in range(draws)])
    most = MOST if draws == DRAWS else int(binom.isf(1e-6, draws, BETA))
    assert (off > case.says).sum() <= most
    if case.tight is not None:  # the mutant: a smaller error
        assert (off > case.says * case.tight).sum() > most


@pytest.mark.parametrize("kind", [LaplaceSelection, OptimalSelection, GaussianSelection, SipsSelection], ids=lambda k: k.__name__)
@pytest.mark.parametrize("keys", [1, 3])
def test_keys_of_so_many_people_are_published(kind: type[KeySelection], keys: int) -> None:
    """Three keys with `alpha` people each: all published in 150 draws except in a tenth; with three quarters of the people they are not."""
    people, among, draws = 60 * keys, 3, 150
    rule = kind.for_accuracy(people, BETA, delta=1e-6, keys=keys, among=among)
    assert rule.accuracy(BETA, among=among) <= people

    def published(size: int) -> int:
        if keys == 1:
            holdings = holdings_of([((k, i), [f"key {k}"]) for k in range(among) for i in range(size)])
        else:
            holdings = holdings_of([(i, [f"key {k}" for k in range(among)]) for i in range(size)])
        return sum(len(rule.select(holdings)) == among for _ in range(draws))

    with seeded(8):
        assert draws - published(people) <= binom.isf(1e-6, draws, BETA)
        assert draws - published(people * 3 // 4) > binom.isf(1e-6, draws, BETA)


@pytest.mark.parametrize(("make", "cost"), [
    (lambda a: BoundedMean.for_accuracy(a, BETA, n=2000, space=AGES), lambda r: 1 / float(r.total.scale)),
    (lambda a: BoundedVariance.for_accuracy(a, BETA, n=2000, space=FIXED), lambda r: 1 / float(r.squares.scale)),
    (lambda a: NoisyHistogram.for_accuracy(a, BETA, cells=50), lambda r: 1 / float(r.noise.scale)),
    (lambda a: BlockMean.for_accuracy(a, BETA, blocks=20, bounds=(0, 100)), lambda r: float(r.epsilon)),
    (lambda a: CoinResponse.for_accuracy(a / 1000, BETA, n=100_000), lambda r: r.epsilon),
    (lambda a: Quantiles.for_accuracy(a, BETA, (HALF,), candidates=101), lambda r: float(r.epsilon)),
    (lambda a: AutomaticBounds.for_accuracy(10 * a, BETA, bits=4), lambda r: 1 / float(r.noise.scale)),
    (lambda a: LaplaceSelection.for_accuracy(a, BETA, delta=1e-6), lambda r: 1 / float(r.scale)),
])  # fmt: skip
def test_a_smaller_error_costs_more(make: Callable[[float], Any], cost: Callable[[Any], float]) -> None:
    costs = [cost(make(alpha)) for alpha in (20, 30, 45, 70)]
    assert all(a > b for a, b in itertools.pairwise(costs))


def test_the_cheapest_is_taken() -> None:
    """A hundredth less and the promise is broken, on paper."""
    rule = BoundedMean.for_accuracy(0.5, BETA, n=2000, space=AGES)
    weaker = BoundedMean(laplace(rule.total.scale * 1.01), laplace(rule.count.scale * 1.01))
    assert rule.accuracy(BETA, n=2000, space=AGES) <= 0.5 < weaker.accuracy(BETA, n=2000, space=AGES)
    found = BlockMean.for_accuracy(10, BETA, blocks=20, bounds=(0, 100))
    assert BlockMean(found.epsilon * 0.99).accuracy(BETA, blocks=20, bounds=(0, 100)) > 10
    # Laplace noise on the mean of 20 blocks within 100: scale 5 / epsilon, error 5 ln 10 / epsilon
    assert found.epsilon == pytest.approx(5 * math.log(10) / 10, rel=1e-4)
    keys = OptimalSelection.for_accuracy(30, BETA, delta=1e-6)
    assert OptimalSelection.for_budget(keys.epsilon * 0.98, 1e-6).accuracy(BETA) > 30


def test_the_variances_error_is_its_two_moments() -> None:
    """By hand, n public: squares within 5000 ln 20 / n and the mean within 200 ln 20 / n, each at half of beta, the latter times 2 R."""
    rule = BoundedVariance(laplace(200), laplace(5000))
    says = rule.accuracy(BETA, n=2000, space=FIXED)
    log = math.log(2 / BETA)
    assert says == pytest.approx((5000 * log + 100 * 200 * log) / 2000, rel=1e-3)
    assert rule.accuracy(BETA, n=1, space=FIXED) == 2500.0


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ParameterError, match="coins"):
        CoinResponse.for_accuracy(0.001, BETA, n=10)
    with pytest.raises(ParameterError, match="1/64"):
        triangle_count(max_degree=3).for_accuracy(0.01, BETA)
    assert NoisyHistogram(gaussian(2)).accuracy(BETA, cells=3) < NoisyHistogram(laplace(2)).accuracy(BETA, cells=3)
