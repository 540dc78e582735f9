"""Cases for the mechanisms that choose, compare or test.

These are sparse vectors, noisy maxima, quantiles, keys, and noise fitted to the data. Most of them answer once a call,
so they have fewer samples and lower floors than the mechanisms that add noise.

>>> [case.name for case in cases()][:3]
['above threshold', 'above threshold, two aboves', 'exponential']
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, PureDP
from tacit.audit.mechanisms.outputs import Sampler, outcomes
from tacit.audit.selftest.case import Case, Reasons, between, called, measured, promise
from tacit.calculus import AddRemove, Anything, Integers, LInfinity, Measurement, ReplaceOne, Rows, Space, Step, Vectors
from tacit.mechanisms import (
    GaussianSelection,
    KeySelection,
    LaplaceSelection,
    SipsSelection,
    above_threshold,
    block_mean,
    block_median,
    candidate_selection,
    elastic_join_size,
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


def _chosen(
    name: str, step: Step, first: list[int], second: list[int], floor: float, *,
    trials: int = SLOW, **more: Unpack[Reasons],
) -> Case:
    plan = measured(Space(Vectors(Integers(), len(first)), LInfinity()) >> step)
    return called(name, plan, (first, second), floor, trials=trials, **more)


def _choices() -> list[Case]:
    low, high = [1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]
    runs = "the whole price is only reached with very long runs of answers below"
    few = "the whole price is only reached with very many candidates"
    return [
        _chosen(
            "above threshold", above_threshold(epsilon=4, threshold=0), [-1] * 4 + [0], [0] * 4 + [-1], 0.35,
            why=runs, elsewhere=("above threshold, two aboves",),
        ),
        _chosen(
            "above threshold, two aboves", above_threshold(epsilon=8, threshold=0, aboves=2),
            [-1] * 4 + [0] * 2, [0] * 4 + [-1] * 2, 0.25, trials=SLOW // 2, why=runs,
        ),
        _chosen("exponential", exponential(3), low, high, 0.45, why=few),
        _chosen("permute and flip", permute_and_flip(3), low, high, 0.45, why=few),
        _chosen("noisy max, exponential", noisy_max(Fraction(2, 3), "exponential"), low, high, 0.45, why=few),
        _chosen(
            "noisy max, Gumbel", noisy_max(Fraction(2, 3), "gumbel"), low, high, 0.45,
            why=few, elsewhere=("exponential", "noisy max, exponential"),
        ),
        _chosen("top k", top_k(2, 3), [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], 0.2, delta=DELTA, trials=SLOW // 2, why=few),
    ]


def _candidates() -> list[Case]:
    rows = Space(Rows(Integers(0, 1)), AddRemove())
    truth = Fraction(731_058, 10**6)  # e / (1 + e), rounded down

    def response(data: Sequence[int]) -> int:
        return bernoulli(1 - truth if len(data) else truth)

    base = Measurement(rows, response, lambda d: PureDP(d), "response", "randomised response at epsilon 1")
    plan = measured(rows >> candidate_selection([base], score=lambda y: y, mean=4))
    return [
        between(
            # Liu and Talwar 2019, Theorem 3.2: a geometric number of tries costs three times one of them.
            "candidate selection", promise(PureDP(3)), [outcomes(plan.function, data) for data in ([1], [])], 0.25,
            trials=SLOW, why="three times the price of a try is the worst over all mechanisms; this one loses about twice",
        )
    ]


def _quantiles() -> list[Case]:
    space = Space(Rows(Integers(0, 9)), AddRemove())
    top = measured(space >> quantile(1, epsilon=3))
    # Of many candidates one row takes most of the weight from all that lie beyond it: a low threshold finds nearly the whole price.
    middle = measured(Space(Rows(Integers(0, 99)), AddRemove()) >> median(epsilon=3))
    several = measured(space >> quantiles([Fraction(1, 4), Fraction(1, 2)], 8))
    few = "the whole price is only reached with very many candidates"
    levels = "the two are chosen on two levels, and one row moves the lower one little"
    return [
        called("quantile", top, ([], [9]), 0.35, trials=SLOW // 2, elsewhere=("median",)),
        called("median", middle, ([0], [0, 49]), 0.3, trials=SLOW, why=few),
        called("quantiles", several, ([4], [4, 9]), 0.1, read=tuple, trials=SLOW // 2, why=levels),
    ]


def _keys() -> list[Case]:
    """One release of very many keys, each held by its own few people: a sample for every key."""
    space = Space(Rows(Anything()), AddRemove())

    def case(name: str, rule: KeySelection, people: int, delta: float, floor: float, why: str = "") -> Case:
        plan = measured(space >> rule)

        def kept(people: int) -> Sampler:
            def sample(n: int) -> NDArray[np.int64]:
                found = np.zeros(n, dtype=np.int64)
                found[[int(key) for key in plan.function([[key] for key in range(n) for _ in range(people)])]] = 1
                return found

            return sample

        claim = promise(plan.event(1), text="its threshold and its noise")
        return between(name, claim, map(kept, (people - 1, people)), floor, trials=KEYS, delta=delta, why=why)

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

    def case(
        name: str, plan: object, data: list[list[int]], floor: float, *,
        relation: Adjacency = REPLACE, trials: int = SLOW // 2, **more: Unpack[Reasons],
    ) -> Case:
        rows = [np.array(d, dtype=np.int64) for d in data]
        return called(name, measured(plan), rows, floor, relation=relation, trials=trials, **more)

    one = sample_aggregate(lambda block: 1 if len(block) else -1, blocks=1, bounds=(-1, 1), granularity=1)
    small, added = Space(Rows(Integers(0, 9)), AddRemove()), Adjacency.ADD_REMOVE
    return [
        case("smooth sensitivity, median", exchange >> smooth_median(epsilon=3), ends, 0.3, why=half),
        case(
            "smooth sensitivity, bought accuracy", Space(Rows(Integers(0, 100), size=11), ReplaceOne())
            >> smooth_median(epsilon=3).measured_accuracy(epsilon=1, beta=0.5), [[0] * 11, [0] * 10 + [100]], 0.5,
        ),
        case(
            "smooth sensitivity, delta", exchange >> smooth_median(epsilon=3, delta=0.01), ends, 0.1,
            delta=0.01, trials=SLOW, why=half,
        ),
        case(
            "smooth sensitivity, joins", Space(Rows(Integers(0, 1), size=5), ReplaceOne()) >> elastic_join_size(1, 5, epsilon=3),
            [[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]], 0.2, why=half, elsewhere=("smooth sensitivity, median",),
        ),
        case(
            "smooth sensitivity, quartiles", exchange >> smooth_interquartile_range(epsilon=3),
            [[0, 0, 0, 0, 8], [0, 0, 0, 8, 8]], 0.3, why=half,
            elsewhere=("smooth sensitivity, median", "propose-test-release, quartiles"),
        ),
        case(
            "propose-test-release, median", wide >> propose_median(bound=10, epsilon=3, delta=DELTA), clusters, 0.15,
            delta=DELTA, why=half, elsewhere=("propose-test-release, quartiles", "smooth sensitivity, median"),
        ),
        case(
            "propose-test-release, quartiles", wide >> propose_interquartile_range(bound=10, epsilon=3, delta=DELTA),
            [[30] * 14 + [40] * 5, [30] * 15 + [40] * 4], 0.15, delta=DELTA, trials=SLOW, why=half,
        ),
        case("sample and aggregate, mean", small >> one >> block_mean(epsilon=2), [[], [5]], 0.5, relation=added),
        case(
            "sample and aggregate, median", small >> one >> block_median(epsilon=3), [[], [5]], 0.2, relation=added,
            why=half, elsewhere=("sample and aggregate, mean", "smooth sensitivity, median"),
        ),
    ]
