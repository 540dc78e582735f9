"""Cases for the mechanisms that choose, compare or test: sparse vectors, noisy maxima, quantiles, keys, and noise fitted to the data.

Most of them answer once a call, so they have fewer samples and lower floors than the ones that add noise.

>>> [case.name for case in cases()][:3]
['above threshold', 'above threshold, two aboves', 'exponential']
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.accounting import Adjacency, PureDP
from tacit.audit.mechanisms.outputs import outcomes
from tacit.audit.selftest.case import Case, between, promise
from tacit.calculus import AddRemove, Anything, Integers, LInfinity, Measurement, ReplaceOne, Rows, Space, Vectors
from tacit.mechanisms import (
    GaussianSelection,
    KeySelection,
    LaplaceSelection,
    SipsSelection,
    above_threshold,
    block_mean,
    block_median,
    candidate_selection,
    exponential,
    median,
    noisy_max,
    optimal_selection,
    permute_and_flip,
    propose_interquartile_range,
    propose_median,
    quantile,
    quantiles,
    sample_aggregate,
    smooth_interquartile_range,
    smooth_median,
    top_k,
)
from tacit.noise import bernoulli

REPLACE = Adjacency.REPLACE_ONE
DELTA = 0.05
SLOW = 5000  # samples of mechanisms that answer once a call
KEYS = 20_000  # keys in one release, each a sample


def cases() -> list[Case]:
    """One or more for every mechanism that chooses, compares or tests."""
    return [*_choices(), *_candidates(), *_quantiles(), *_keys(), *_fitted()]


def _chosen(name: str, step: Any, first: list[int], second: list[int], floor: float, **more: Any) -> Case:
    plan: Any = Space(Vectors(Integers(), len(first)), LInfinity()) >> step
    samplers = [outcomes(plan.function, scores) for scores in (first, second)]
    return between(name, promise(plan.event(1)), samplers, floor, **{"trials": SLOW} | more)


def _choices() -> list[Case]:
    low, high = [1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]
    runs = "the whole price is only reached with very long runs of answers below"
    few = "the whole price is only reached with very many candidates"
    return [
        _chosen(
            "above threshold",
            above_threshold(epsilon=4, threshold=0),
            [-1] * 4 + [0],
            [0] * 4 + [-1],
            0.35,
            why=runs,
            elsewhere=("above threshold, two aboves",),
        ),
        _chosen(
            "above threshold, two aboves",
            above_threshold(epsilon=8, threshold=0, aboves=2),
            [-1] * 4 + [0] * 2,
            [0] * 4 + [-1] * 2,
            0.25,
            trials=SLOW // 2,
            why=runs,
        ),
        _chosen("exponential", exponential(3), low, high, 0.45, why=few),
        _chosen("permute and flip", permute_and_flip(3), low, high, 0.45, why=few),
        _chosen("noisy max, exponential", noisy_max(Fraction(2, 3), "exponential"), low, high, 0.45, why=few),
        _chosen(
            "noisy max, Gumbel",
            noisy_max(Fraction(2, 3), "gumbel"),
            low,
            high,
            0.45,
            why=few,
            elsewhere=("exponential", "noisy max, exponential"),
        ),
        _chosen("top k", top_k(2, 3), [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], 0.2, delta=DELTA, trials=SLOW // 2, why=few),
    ]


def _candidates() -> list[Case]:
    rows = Space(Rows(Integers(0, 1)), AddRemove())
    truth = Fraction(731_058, 10**6)  # e / (1 + e), rounded down

    def response(data: Any) -> Any:
        return bernoulli(1 - truth if len(data) else truth)

    base = Measurement(rows, response, lambda d: PureDP(d), "response", "randomised response at epsilon 1")
    plan: Any = rows >> candidate_selection([base], score=lambda y: y, mean=4)
    return [
        Case(
            "candidate selection",
            # Liu and Talwar 2019, Theorem 3.2: a geometric number of tries costs three times one of them.
            promise(PureDP(3)),
            outcomes(plan.function, [1]),
            outcomes(plan.function, []),
            0.25,
            trials=SLOW,
            why="three times the price of a try is the worst over all mechanisms; this one loses about twice",
        )
    ]


def _quantiles() -> list[Case]:
    space = Space(Rows(Integers(0, 9)), AddRemove())
    top: Any = space >> quantile(1, epsilon=3)
    # Of many candidates one row takes most of the weight from all that lie beyond it: a low threshold finds nearly the whole price.
    middle: Any = Space(Rows(Integers(0, 99)), AddRemove()) >> median(epsilon=3)
    several: Any = space >> quantiles([Fraction(1, 4), Fraction(1, 2)], 8)
    return [
        Case(
            "quantile",
            promise(top.event(1)),
            outcomes(top.function, []),
            outcomes(top.function, [9]),
            0.35,
            trials=SLOW // 2,
            elsewhere=("median",),
        ),
        Case(
            "median",
            promise(middle.event(1)),
            outcomes(middle.function, [0]),
            outcomes(middle.function, [0, 49]),
            0.3,
            trials=SLOW,
            why="the whole price is only reached with very many candidates",
        ),
        between(
            "quantiles",
            promise(several.event(1)),
            [outcomes(lambda rows: tuple(several.function(rows)), rows) for rows in ([4], [4, 9])],
            0.1,
            trials=SLOW // 2,
            why="the two are chosen on two levels, and one row moves the lower one little",
        ),
    ]


def _keys() -> list[Case]:
    """One release of very many keys, each held by its own few people: a sample for every key."""
    space = Space(Rows(Anything()), AddRemove())

    def kept(rule: KeySelection, people: int) -> Callable[[int], Any]:
        def sample(n: int) -> Any:
            plan: Any = space >> rule
            found = np.zeros(n, dtype=np.int64)
            found[[int(key) for key in plan.function([[key] for key in range(n) for _ in range(people)])]] = 1
            return found

        return sample

    def case(name: str, rule: KeySelection, people: int, delta: float, floor: float, why: str = "") -> Case:
        plan: Any = space >> rule
        claim = promise(plan.event(1), text="its threshold and its noise")
        return Case(name, claim, kept(rule, people - 1), kept(rule, people), floor, trials=KEYS, delta=delta, why=why)

    cut = "a bit is published, not the noisy number that is paid for"
    return [
        case("keys: optimal rule", optimal_selection(epsilon=1, delta=DELTA), 3, DELTA, 0.7),
        case("keys: Laplace", LaplaceSelection(1, 3), 3, 0.12, 0.5, cut),
        case("keys: Gaussian", GaussianSelection(1, 3), 3, 0.08, 0.3, cut),
        case("keys: several rounds", SipsSelection((GaussianSelection(2, 5), GaussianSelection(1, 3))), 3, 0.08, 0.15, cut),
    ]


def _fitted() -> list[Case]:
    width, ends = 8, [[0, 0, 8, 8, 8], [0, 0, 0, 8, 8]]
    exchange = Space(Rows(Integers(0, width)), ReplaceOne())
    clusters = [[30] * 9 + [40] * 10, [30] * 10 + [40] * 9]
    wide = Space(Rows(Integers(0, 100)), ReplaceOne())
    half = "half of epsilon is for the test or the change of scale, which shows in far tails only"

    def rows(name: str, plan: Any, data: list[list[int]], floor: float, relation: Adjacency = REPLACE, **more: Any) -> Case:
        return between(
            name,
            promise(plan.event(1), relation),
            [outcomes(plan.function, np.array(d, dtype=np.int64)) for d in data],
            floor,
            **{"trials": SLOW // 2} | more,
        )

    one = sample_aggregate(lambda block: 1 if len(block) else -1, blocks=1, bounds=(-1, 1), granularity=1)
    small = Space(Rows(Integers(0, 9)), AddRemove())
    return [
        rows("smooth sensitivity, median", exchange >> smooth_median(epsilon=3), ends, 0.3, why=half),
        rows("smooth sensitivity, delta", exchange >> smooth_median(epsilon=3, delta=0.01), ends, 0.1, delta=0.01, trials=SLOW, why=half),
        rows(
            "smooth sensitivity, quartiles",
            exchange >> smooth_interquartile_range(epsilon=3),
            [[0, 0, 0, 0, 8], [0, 0, 0, 8, 8]],
            0.3,
            why=half,
            elsewhere=("smooth sensitivity, median", "propose-test-release, quartiles"),
        ),
        rows(
            "propose-test-release, median",
            wide >> propose_median(bound=10, epsilon=3, delta=DELTA),
            clusters,
            0.15,
            delta=DELTA,
            why=half,
            elsewhere=("propose-test-release, quartiles", "smooth sensitivity, median"),
        ),
        rows(
            "propose-test-release, quartiles",
            wide >> propose_interquartile_range(bound=10, epsilon=3, delta=DELTA),
            [[30] * 14 + [40] * 5, [30] * 15 + [40] * 4],
            0.15,
            delta=DELTA,
            trials=SLOW,
            why=half,
        ),
        rows("sample and aggregate, mean", small >> one >> block_mean(epsilon=2), [[], [5]], 0.5, Adjacency.ADD_REMOVE),
        rows(
            "sample and aggregate, median",
            small >> one >> block_median(epsilon=3),
            [[], [5]],
            0.2,
            Adjacency.ADD_REMOVE,
            why=half,
            elsewhere=("sample and aggregate, mean", "smooth sensitivity, median"),
        ),
    ]
