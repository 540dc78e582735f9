"""Known faults, each beside the right code in the same form: what an auditor must catch, and what it must not.

`MUTANTS` are functions that answer once a call. Their noise comes from the generator of an experiment that `reset`
seeds, drawn ahead, so that a run of many thousand calls repeats and takes seconds; it protects no data. They end with
five sparse vectors that were published or shipped as private and are not (Lyu, Su and Li 2017 take the first four
apart). `bulk_mutants` are mechanisms of Tacit with one fault each, drawn in bulk: forgotten factors, missing tests,
sensitivities of the wrong relation.

>>> reset(1)
>>> half = next(mutant for mutant in MUTANTS if mutant.name == "half the noise")
>>> half.what, "where 1 is claimed" in half.caught(seed=1)
('Scale 1/2 where 1 is needed.', True)
>>> right(1).threshold, right(1).question, stoddard(1).question
(Fraction(2, 1), Fraction(4, 1), None)
>>> [mutant.name for mutant in bulk_mutants()][:2]
['gaussian: half the noise', 'gaussian: noise for one coordinate']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import GDP, Adjacency, ApproxDP, PureDP
from tacit.audit.claim import Claim
from tacit.audit.experiment import generator
from tacit.audit.mechanisms.replay import probe
from tacit.audit.selftest.case import Mutant, promise
from tacit.calculus import Graph
from tacit.mechanisms import edge_flow, loss_spread, optimal_selection, run_table, runs_of, staircase_draw

REPLACE = Adjacency.REPLACE_ONE
THRESHOLD = 0
E = 2.718281  # rounded down, so that what is right stays under its claim


@dataclass(frozen=True)
class Variant:
    """Sensitivity 1, threshold 0. Scales of noise (None: none), the halt (None: none), and what is published for one above."""

    claim: Fraction  # the epsilon it was published with
    threshold: Fraction
    question: Fraction | None
    aboves: int | None
    publishes: str = "bit"  # or "compared": the noisy number that was compared; or "raw": the number itself
    fault: str = "None."


def roth(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Roth's lecture notes 2011 (Algorithm 3)."""
    fault = "The very number that was compared is published, and so where the threshold can lie."
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 2 * aboves / Fraction(epsilon), aboves, "compared", fault)


def lee_clifton(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Lee and Clifton 2014 (Algorithm 4): (1 + 6 c)/4 times the claim."""
    fault = "The noise of questions does not grow with the number of answers."
    return Variant(Fraction(epsilon), 4 / Fraction(epsilon), 4 / (3 * Fraction(epsilon)), aboves, fault=fault)


def stoddard(epsilon: Fraction | int) -> Variant:
    """Stoddard, Chen and Machanavajjhala 2014 (Algorithm 5)."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), None, None, fault="No noise on questions and no halt.")


def chen(epsilon: Fraction | int) -> Variant:
    """Chen, Xiao, Zhang and Xu 2015 (Algorithm 6)."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 2 / Fraction(epsilon), None, fault="Noise on both sides, but no halt.")


def raw_values(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """As in a shipped federated-learning filter."""
    return replace(right(epsilon, aboves), publishes="raw", fault="The comparison is noisy, what passes is published as it is.")


def right(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Lyu, Su and Li 2017, Algorithm 7, half of epsilon to the threshold."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 4 * aboves / Fraction(epsilon), aboves)


TWO = Claim.of(epsilon=2)


class Draws:
    """Discrete Laplace draws of any scale, taken from arrays made ahead."""

    def __init__(self, seed: int | None) -> None:
        self.start(seed)

    def start(self, seed: int | None) -> None:
        """Begin again."""
        self.generator = generator(seed)
        self.ahead: dict[float, list[int]] = {}

    def laplace(self, scale: float) -> int:
        """The next draw of this scale."""
        left = self.ahead.get(scale)
        if not left:
            steps = self.generator.geometric(-math.expm1(-1 / scale), (2, 5000))
            left = self.ahead[scale] = (steps[0] - steps[1]).tolist()
        return left.pop()


DRAWS = Draws(0)


def reset(seed: int | None) -> None:
    """Start all noise again, so that what is found does not depend on what was tried before; None takes a fresh start."""
    DRAWS.start(seed)


def laplace(scale: float) -> int:
    """One draw."""
    return DRAWS.laplace(scale)


def sparse(variant: Variant) -> Callable[[Sequence[int]], tuple[int | None, ...]]:
    """A variant of the sparse vector technique with this file's noise."""

    def run(answers: Sequence[int]) -> tuple[int | None, ...]:
        bar, left = THRESHOLD + laplace(float(variant.threshold)), variant.aboves
        found: list[int | None] = []
        below = False if variant.publishes == "bit" else None  # beside numbers, a zero must not look like "below"
        for answer in answers:
            if left == 0:
                break
            noisy = answer + (0 if variant.question is None else laplace(float(variant.question)))
            if noisy >= bar:
                left = None if left is None else left - 1
                found.append({"bit": True, "compared": noisy, "raw": answer}[variant.publishes])
            else:
                found.append(below)
        return tuple(found)

    run.__doc__ = variant.fault
    return run


def clipped(values: Sequence[float], low: float = 0, high: float = 1) -> list[float]:
    """Into the bounds, whatever it is; NaN is the lower bound."""
    return [min(max(v, low), high) if v == v else low for v in values]


# --- noise -------------------------------------------------------------------------------------------------------------------------------


def count(rows: list[int]) -> float:
    return len(rows) + laplace(1)


def half_noise(rows: list[int]) -> float:
    """Scale 1/2 where 1 is needed."""
    return len(rows) + laplace(0.5)


def inverted_scale(rows: list[int]) -> float:
    """Scale epsilon instead of 1 / epsilon, at epsilon 1/4."""
    return len(rows) + laplace(0.25)


def quarter(rows: list[int]) -> float:
    return len(rows) + laplace(4)


def best_of_two(rows: list[int]) -> float:
    """Two draws, the nicer one published, one paid for."""
    return max(len(rows) + laplace(1), len(rows) + laplace(1))


def best_of_two_paid(rows: list[int]) -> float:
    return max(len(rows) + laplace(2), len(rows) + laplace(2))


def reused_noise(rows: list[int]) -> tuple[float, float]:
    """One draw for two answers: their difference is exact."""
    drawn = laplace(2)
    return len(rows) + drawn, sum(rows) + drawn


def fresh_noise(rows: list[int]) -> tuple[float, float]:
    return len(rows) + laplace(2), sum(clipped(rows)) + laplace(2)


def float_laplace(rows: list[float]) -> float:
    """The textbook in floating point (Mironov 2012)."""
    return float(sum(rows)) + float(DRAWS.generator.laplace(0.0, 1.0))


def lattice_laplace(rows: list[float]) -> float:
    return sum(round(v * 1024) for v in clipped(rows)) / 1024 + laplace(1024) / 1024


def noisy(name: str, value: float, sensitivity: float, scale: float | None = None) -> float:
    """A value plus noise, declared to whoever records; noise to the sensitivity's scale unless told otherwise."""
    answer: float = probe.mechanism(name, value, sensitivity=sensitivity, draw=lambda v: v + laplace(scale or sensitivity))
    return answer


# --- sensitivity -------------------------------------------------------------------------------------------------------------------------


def signed_sum_as_one(rows: list[int]) -> float:
    """Values from -1 to 1 exchanged: the sum moves by 2, and 1 is declared."""
    return noisy("sum", sum(clipped(rows, -1, 1)), 1)


def signed_sum(rows: list[int]) -> float:
    return noisy("sum", sum(clipped(rows, -1, 1)), 2)


def unclamped(rows: list[int]) -> float:
    """Bounds are declared and never enforced."""
    return noisy("sum", sum(rows), 1)


def clamped(rows: list[int]) -> float:
    return noisy("sum", sum(clipped(rows)), 1)


def scale_of_the_data(rows: list[int]) -> float:
    """Noise by the largest value there is."""
    return sum(rows) + laplace(max(rows, default=1) or 1)


def nan_passes(rows: list[float]) -> float:
    """numpy's clip lets NaN through, and NaN plus noise is NaN."""
    return float(np.clip(np.asarray(rows), 0.0, 1.0).sum()) + laplace(1)


def nan_stopped(rows: list[float]) -> float:
    return float(sum(clipped(rows))) + laplace(1)


# --- what is not noise -------------------------------------------------------------------------------------------------------------------


def clamp_to_the_data(rows: list[int]) -> float:
    """A sensible-looking answer: never beyond what was seen."""
    found = noisy("sum", sum(clipped(rows, 0, 10)), 10)
    return min(max(found, min(rows, default=0)), max(rows, default=0))


def clamp_to_the_bounds(rows: list[int]) -> float:
    found = noisy("sum", sum(clipped(rows, 0, 10)), 10)
    return min(max(found, 0), 1000)


def raises_on_the_data(rows: list[int]) -> float:
    """A check of the data whose failure can be seen."""
    if any(v > 100 for v in rows):
        raise ValueError("value out of range")
    return count(rows)


def length_of_the_data(rows: list[int]) -> list[float]:
    """Each row noised by itself: as many answers as rows."""
    return [v + laplace(1) for v in rows]


def one_answer(rows: list[int]) -> list[float]:
    return [sum(clipped(rows)) + laplace(1)]


def early_exit(rows: list[int]) -> float:
    """No rows, no noise."""
    return 0 if not rows else count(rows)


def exit_through_noise(rows: list[int]) -> float:
    found = noisy("count", len(rows), 1)
    return 0 if found <= 0 else found


def one_more_mechanism(rows: list[int]) -> float:
    """A second question only where the data is large, not where its noisy size is."""
    first = noisy("count", len(rows), 1, scale=2)
    return first + (noisy("again", 0, 1, scale=2) if len(rows) > 3 else 0)


def one_more_if_noisy(rows: list[int]) -> float:
    first = noisy("count", len(rows), 1, scale=2)
    return first + (noisy("again", 0, 1, scale=2) if first > 3 else 0)


def keys_of_the_data(rows: list[int]) -> dict[int, int]:
    """A histogram over the categories that occur."""
    return {v: rows.count(v) + laplace(1) for v in sorted(set(rows))}


def public_keys(rows: list[int]) -> dict[int, int]:
    return {v: rows.count(v) + laplace(1) for v in range(1, 4)}


MUTANTS = [
    Mutant("half the noise", half_noise, count, ([1, 1], [1])),
    Mutant("scale upside down", inverted_scale, quarter, ([1, 1], [1]), Claim.of(epsilon=0.25)),
    Mutant("best of two draws", best_of_two, best_of_two_paid, ([1, 1], [1]), trials=8000),
    Mutant("noise used twice", reused_noise, fresh_noise, ([1, 0], [1])),
    Mutant("noise in floating point", float_laplace, lattice_laplace, ([0.0], [0.0, 1.0]), trials=20_000),
    Mutant("sensitivity wrong by 2", signed_sum_as_one, signed_sum, ([1, 1], [1, -1]), Claim.of(epsilon=1, adjacency=REPLACE)),
    Mutant("no clamp", unclamped, clamped, ([1, 0], [1, 0, 50])),
    Mutant("scale follows the data", scale_of_the_data, clamped, ([1, 0], [1, 0, 50])),
    Mutant("NaN passes", nan_passes, nan_stopped, ([0.5, 1.0], [0.5, 1.0, math.nan])),
    Mutant("clamped to the data", clamp_to_the_data, clamp_to_the_bounds, ([1, 2], [1, 2, 10])),
    Mutant("exception on the data", raises_on_the_data, count, ([1, 2], [1, 2, 1000])),
    Mutant("length of the output", length_of_the_data, one_answer, ([1, 0], [1, 0, 1])),
    Mutant("early exit", early_exit, exit_through_noise, ([1], [])),
    Mutant("one mechanism more", one_more_mechanism, one_more_if_noisy, ([1, 2, 3], [1, 2, 3, 4])),
    Mutant("categories of the data", keys_of_the_data, public_keys, ([1, 1, 2], [1, 1, 2, 3])),
    Mutant("sparse vector: Roth", sparse(roth(2)), sparse(right(2)), ([-1] * 4 + [0], [0] * 4 + [-1]), TWO, 40_000),
    Mutant(
        "sparse vector: Lee and Clifton", sparse(lee_clifton(2, 10)), sparse(right(2, 10)),
        ([-1] * 6 + [0] * 10, [0] * 6 + [-1] * 10), TWO,
    ),
    Mutant("sparse vector: Stoddard", sparse(stoddard(1)), sparse(right(1)), ([0, 1], [1, 0])),
    Mutant("sparse vector: Chen", sparse(chen(2)), sparse(right(2)), ([-1] * 6 + [0] * 6, [0] * 6 + [-1] * 6), TWO),
    Mutant("sparse vector: raw values", sparse(raw_values(1)), sparse(right(1)), ([0], [1]), trials=1000),
]


Outcomes = NDArray[np.generic]
Bulk = Callable[..., Outcomes]  # an input and n to n outputs
mutant = partial(Mutant, bulk=True)


# --- mechanisms of Tacit, drawn in bulk -----------------------------------------------------------------------


def bulk_mutants() -> list[Mutant]:
    """Mechanisms with one fault each."""
    return [*_noise(), *_choice(), *_fitted()]


def _noise() -> list[Mutant]:
    one, mu = Claim.of(epsilon=1), Claim(GDP(1), text="mu 1")

    def gaussian(multiplier: Fraction) -> Bulk:
        return lambda value, n: noise.rounded_gaussian(1000 * multiplier, size=n) + 1000 * value

    def two(sigma: float) -> Bulk:
        return lambda value, n: noise.rounded_gaussian(sigma, size=(n, 2)) + value

    def redrawn(value: int, n: int) -> Outcomes:
        """Answers outside the bounds are drawn anew instead of clamped."""
        drawn = value + noise.discrete_laplace(2, size=8 * n)
        return np.asarray(drawn[(drawn >= 0) & (drawn <= 3)][:n])

    def levels(scale: Fraction) -> Bulk:
        return lambda first, n: first + noise.discrete_laplace(scale, size=(n, 3))

    def histogram(scale: int) -> Bulk:
        return lambda row, n: np.eye(2, dtype=np.int64)[row] + noise.discrete_laplace(scale, size=(n, 2))

    def steps(wide: int) -> Bulk:
        return lambda value, n: value + staircase_draw(Fraction(1), wide, 1, n)

    def odds(keep: float) -> Bulk:
        def run(value: int, n: int) -> Outcomes:
            others = noise.choose_weighted([1, 1, 1, 1], size=n)
            return np.where(noise.bernoulli(Fraction(keep), size=n) == 1, value, np.where(others >= value, others + 1, others))

        return run

    graph = Graph.of([("hub", leaf) for leaf in range(10)])
    halves = tuple(edge_flow(g, 3) for g in (graph.without("hub"), graph))
    return [
        mutant(
            "gaussian: half the noise", gaussian(Fraction(1, 2)), gaussian(Fraction(1)), (0, 1), mu, 20_000,
            "Half of sigma.",
        ),
        mutant(
            "gaussian: noise for one coordinate", two(1000), two(1000 * math.nextafter(math.sqrt(2), 2)),
            (0, 1000), mu, 20_000, "Sigma for the largest coordinate instead of the Euclidean length.",
        ),
        mutant(
            "geometric: redrawn into bounds",
            redrawn, lambda value, n: np.clip(value + noise.discrete_laplace(2, size=n), 0, 3),
            (0, 1), Claim.of(epsilon=0.5), 60_000,
        ),
        mutant(
            "discrete gaussian: priced as continuous at delta 0",
            lambda value, n: value + noise.discrete_gaussian(1, size=n),
            lambda value, n: value + noise.discrete_laplace(1, size=n),
            (0, 1), one, 60_000, "A Gaussian, discrete or not, keeps no epsilon without a delta.",
        ),
        mutant(
            "lattice: scale counted in granules",
            lambda value, n: 4 * value + noise.rounded_laplace(1, size=n),
            lambda value, n: 4 * value + noise.rounded_laplace(4, size=n),
            (0, 1), one, 20_000, "Four granules are one unit: a quarter of the noise.",
        ),
        mutant(
            "continual counting: one level paid", levels(Fraction(2, 3)), levels(Fraction(2)), (0, 1),
            promise(PureDP(1.5, adjacency=REPLACE), REPLACE), 20_000,
            "Every item is in three blocks, and noise is for one.",
        ),
        mutant(
            "histogram: add-remove price for an exchange", histogram(1), histogram(2), (0, 1),
            promise(PureDP(1, adjacency=REPLACE), REPLACE), 20_000,
            "An exchanged row moves two cells, and noise is for one.",
        ),
        mutant("staircase: narrow steps", steps(2), steps(3), (0, 3), one, 20_000, "Steps of 2 for a sensitivity of 3."),
        mutant(
            "randomised response: odds against all", odds(E / (1 + E)), odds(E / (4 + E)), (0, 1), one,
            20_000, "The truth with e/(1+e) among five answers: each of the others is four times too rare.",
        ),
        mutant(
            "graph: plain count", lambda degree, n: 2 * degree + noise.rounded_laplace(6, size=n),
            lambda degree, n: halves[int(degree > 0)] + noise.rounded_laplace(6, size=n), (0, 10), one,
            20_000, "One vertex takes all its edges along; noise is for three.",
        ),
    ]


def _choice() -> list[Mutant]:
    two = Claim.of(epsilon=2)
    low, high = (1, 0, 0, 0, 0, 0), (0, 1, 1, 1, 1, 1)

    def weighted(rate: float) -> Bulk:
        def run(scores: tuple[int, ...], n: int) -> Outcomes:
            return np.asarray(noise.choose_weighted([int(1e6 * math.exp(rate * score)) for score in scores], size=n))

        return run

    def with_maximum(scores: tuple[int, ...], n: int) -> Outcomes:
        """Which candidate won is published together with its noisy score."""
        noisy = np.asarray(scores) + noise.geometric(1, size=(n, len(scores)))
        return np.column_stack([noisy.argmax(axis=1), noisy.max(axis=1)])

    def exponentially(scores: tuple[int, ...], n: int) -> Outcomes:
        return np.asarray(weighted(0.99)(scores, n))

    def tries(number: int) -> Bulk:
        return lambda chance, n: noise.bernoulli(chance, size=(n, number)).max(axis=1)

    truth = Fraction(622_459, 10**6)  # e^(1/2) / (1 + e^(1/2)), rounded down
    rule = optimal_selection(epsilon=1, delta=Fraction(1, 1000))

    def ranked(rate: Fraction) -> Bulk:
        q = Fraction(9, 10)

        def run(rows: list[int], n: int) -> Outcomes:
            runs = runs_of(np.sort(np.array(rows, dtype=np.int64)), 0, 9, q)
            chosen = np.asarray(run_table(runs, rate / loss_spread(q, exchange=False)).draw(n))
            # A value of the run, evenly: every width up to 10 divides 2520.
            return np.asarray(runs.starts)[chosen] + noise.uniform_integers(2520, size=n) % np.asarray(runs.widths)[chosen]

        return run

    return [
        mutant(
            "exponential: factor two forgotten", weighted(2), weighted(0.99), (low, high), two, 20_000,
            "Weights exp(epsilon score).",
        ),
        mutant("noisy max: the maximum too", with_maximum, exponentially, ((0, 0), (1, 1)), two, 4000),
        mutant(
            "selection: six tries, one paid", tries(6), tries(1), (1 - truth, truth), Claim.of(epsilon=0.5),
            20_000, "Retries that are not paid for: the best of six is published.",
        ),
        mutant(
            "keys: no threshold",
            lambda people, n: (people + noise.discrete_laplace(1, size=n) >= 1) & (people > 0),
            lambda people, n: noise.bernoulli(rule.probabilities[people], size=n),
            (0, 1), Claim.of(epsilon=1, delta=1e-3), 4000, "A key of one person comes out about half of the time.", delta=1e-3,
        ),
        mutant(
            "quantile: ranks in tenths of a row", ranked(Fraction(1)), ranked(Fraction(1, 10)),
            ([2] * 9, [2] * 9 + [7]), Claim.of(epsilon=1), 20_000,
            "Losses are left in parts of a row: ten times the rate.",
        ),
    ]


def _fitted() -> list[Mutant]:
    def median(scale: int) -> Bulk:
        return lambda data, n: sorted(data)[len(data) // 2] + noise.discrete_laplace(scale, size=n)

    def local(data: list[int], n: int) -> Outcomes:
        """Noise scaled to the local sensitivity, which is nothing on one input and everything on its neighbour."""
        ordered = sorted(data)
        middle = len(data) // 2
        gap = max(ordered[middle + 1] - ordered[middle], ordered[middle] - ordered[middle - 1])
        return np.asarray(ordered[middle] + (noise.discrete_laplace(gap, size=n) if gap else np.zeros(n, dtype=np.int64)))

    def block(scale: int) -> Bulk:
        return lambda rows, n: np.asarray((1 if rows else -1) + noise.discrete_laplace(scale, size=n))

    def free_bounds(rows: list[int], n: int) -> Outcomes:
        """Bounds are the smallest and the largest value there is."""
        return np.tile([min(rows), max(rows)], (n, 1))

    def public_bounds(rows: list[int], n: int) -> Outcomes:
        return np.tile([0, 10], (n, 1))

    return [
        mutant(
            "propose-test-release: no test", median(10), median(100), ([0] * 4 + [100] * 3, [0] * 3 + [100] * 4),
            promise(ApproxDP(1, 0.05, adjacency=REPLACE), REPLACE, "epsilon 1 at delta 0.05"), 4000,
            "The proposed bound is used without the test that it holds.", delta=0.05,
        ),
        mutant(
            "smooth sensitivity: local instead", local, median(8), ([0, 0, 0, 0, 8], [0, 0, 0, 8, 8]),
            promise(PureDP(1, adjacency=REPLACE), REPLACE), 4000,
        ),
        mutant(
            "sample and aggregate: wrong metric", block(1), block(2), ([], [5]), Claim.of(epsilon=1), 8000,
            "The aggregator is made for answers that come and go; here they change, by twice as much.",
        ),
        mutant(
            "automatic bounds: read from the data", free_bounds, public_bounds, ([1, 1], [1, 1, 3]),
            Claim.of(epsilon=1), 1000,
        ),
    ]
