"""Broken functions with the name of their fault, each beside the right one in the same form: what an auditor must catch, and must not.

Their noise comes from the generator of an experiment that `reset` seeds, drawn ahead, so that a run of many thousand calls repeats and
takes seconds. Nothing here protects anybody.

>>> reset(1)
>>> half = next(mutant for mutant in MUTANTS if mutant.name == "half the noise")
>>> half.what, "where 1 is claimed" in half.caught(seed=1)
('Scale 1/2 where 1 is needed.', True)

Five sparse vectors that were published or shipped as private and are not, and the right one in the same form.

Lyu, Su and Li 2017 take the first four apart. A variant is a few parameters: scales of noise, the halt, and what is published.

>>> right(1).threshold, right(1).question, stoddard(1).question
(Fraction(2, 1), Fraction(4, 1), None)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.accounting import Adjacency
from tacit.audit.claim import Claim
from tacit.audit.experiment import generator
from tacit.audit.mechanisms.replay import probe
from tacit.audit.selftest.case import Mutant

THRESHOLD = 0


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


def noise(scale: float) -> int:
    """One draw."""
    return DRAWS.laplace(scale)


def sparse(variant: Variant) -> Callable[[Any], tuple[Any, ...]]:
    """A variant of the sparse vector technique with this file's noise."""

    def run(answers: Any) -> tuple[Any, ...]:
        bar, left, found = THRESHOLD + noise(float(variant.threshold)), variant.aboves, []
        below = False if variant.publishes == "bit" else None  # beside numbers, a zero must not look like "below"
        for answer in answers:
            if left == 0:
                break
            noisy = answer + (0 if variant.question is None else noise(float(variant.question)))
            if noisy >= bar:
                left = None if left is None else left - 1
                found.append({"bit": True, "compared": noisy, "raw": answer}[variant.publishes])
            else:
                found.append(below)
        return tuple(found)

    run.__doc__ = variant.fault
    return run


def clipped(values: Any, low: float = 0, high: float = 1) -> list[float]:
    """Into the bounds, whatever it is; NaN is the lower bound."""
    return [min(max(v, low), high) if v == v else low for v in values]


# --- noise -------------------------------------------------------------------------------------------------------------------------------


def count(rows: list[int]) -> Any:
    return len(rows) + noise(1)


def half_noise(rows: list[int]) -> Any:
    """Scale 1/2 where 1 is needed."""
    return len(rows) + noise(0.5)


def inverted_scale(rows: list[int]) -> Any:
    """Scale epsilon instead of 1 / epsilon, at epsilon 1/4."""
    return len(rows) + noise(0.25)


def quarter(rows: list[int]) -> Any:
    return len(rows) + noise(4)


def best_of_two(rows: list[int]) -> Any:
    """Two draws, the nicer one published, one paid for."""
    return max(len(rows) + noise(1), len(rows) + noise(1))


def best_of_two_paid(rows: list[int]) -> Any:
    return max(len(rows) + noise(2), len(rows) + noise(2))


def reused_noise(rows: list[int]) -> Any:
    """One draw for two answers: their difference is exact."""
    drawn = noise(2)
    return len(rows) + drawn, sum(rows) + drawn


def fresh_noise(rows: list[int]) -> Any:
    return len(rows) + noise(2), sum(clipped(rows)) + noise(2)


def float_laplace(rows: list[float]) -> float:
    """The textbook in floating point (Mironov 2012)."""
    return float(sum(rows)) + float(DRAWS.generator.laplace(0.0, 1.0))


def lattice_laplace(rows: list[float]) -> float:
    return sum(round(v * 1024) for v in clipped(rows)) / 1024 + noise(1024) / 1024


# --- sensitivity -------------------------------------------------------------------------------------------------------------------------


def signed_sum_as_one(rows: list[int]) -> Any:
    """Values from -1 to 1 exchanged: the sum moves by 2, and 1 is declared."""
    return probe.mechanism("sum", sum(clipped(rows, -1, 1)), sensitivity=1, draw=lambda v: v + noise(1))


def signed_sum(rows: list[int]) -> Any:
    return probe.mechanism("sum", sum(clipped(rows, -1, 1)), sensitivity=2, draw=lambda v: v + noise(2))


def unclamped(rows: list[int]) -> Any:
    """Bounds are declared and never enforced."""
    return probe.mechanism("sum", sum(rows), sensitivity=1, draw=lambda v: v + noise(1))


def clamped(rows: list[int]) -> Any:
    return probe.mechanism("sum", sum(clipped(rows)), sensitivity=1, draw=lambda v: v + noise(1))


def scale_of_the_data(rows: list[int]) -> Any:
    """Noise by the largest value there is."""
    return sum(rows) + noise(max(rows, default=1) or 1)


def nan_passes(rows: list[float]) -> float:
    """numpy's clip lets NaN through, and NaN plus noise is NaN."""
    return float(np.clip(np.asarray(rows), 0.0, 1.0).sum()) + noise(1)


def nan_stopped(rows: list[float]) -> float:
    return float(sum(clipped(rows))) + noise(1)


# --- what is not noise -------------------------------------------------------------------------------------------------------------------


def clamp_to_the_data(rows: list[int]) -> Any:
    """A sensible-looking answer: never beyond what was seen."""
    noisy = probe.mechanism("sum", sum(clipped(rows, 0, 10)), sensitivity=10, draw=lambda v: v + noise(10))
    return min(max(noisy, min(rows, default=0)), max(rows, default=0))


def clamp_to_the_bounds(rows: list[int]) -> Any:
    noisy = probe.mechanism("sum", sum(clipped(rows, 0, 10)), sensitivity=10, draw=lambda v: v + noise(10))
    return min(max(noisy, 0), 1000)


def raises_on_the_data(rows: list[int]) -> Any:
    """A check of the data that everybody can see fail."""
    if any(v > 100 for v in rows):
        raise ValueError("value out of range")
    return count(rows)


def length_of_the_data(rows: list[int]) -> Any:
    """Each row noised by itself: as many answers as rows."""
    return [v + noise(1) for v in rows]


def one_answer(rows: list[int]) -> Any:
    return [sum(clipped(rows)) + noise(1)]


def early_exit(rows: list[int]) -> Any:
    """No rows, no noise."""
    return 0 if not rows else count(rows)


def exit_through_noise(rows: list[int]) -> Any:
    noisy = probe.mechanism("count", len(rows), sensitivity=1, draw=lambda v: v + noise(1))
    return 0 if noisy <= 0 else noisy


def one_more_mechanism(rows: list[int]) -> Any:
    """A second question only where the data is large, not where its noisy size is."""
    first = probe.mechanism("count", len(rows), sensitivity=1, draw=lambda v: v + noise(2))
    return first + (probe.mechanism("again", 0, sensitivity=1, draw=lambda v: v + noise(2)) if len(rows) > 3 else 0)


def one_more_if_noisy(rows: list[int]) -> Any:
    first = probe.mechanism("count", len(rows), sensitivity=1, draw=lambda v: v + noise(2))
    return first + (probe.mechanism("again", 0, sensitivity=1, draw=lambda v: v + noise(2)) if first > 3 else 0)


def keys_of_the_data(rows: list[int]) -> dict[int, int]:
    """A histogram over the categories that occur."""
    return {v: rows.count(v) + noise(1) for v in sorted(set(rows))}


def public_keys(rows: list[int]) -> dict[int, int]:
    return {v: rows.count(v) + noise(1) for v in range(1, 4)}


MUTANTS = [
    Mutant("half the noise", half_noise, count, ([1, 1], [1])),
    Mutant("scale upside down", inverted_scale, quarter, ([1, 1], [1]), Claim.of(epsilon=0.25)),
    Mutant("best of two draws", best_of_two, best_of_two_paid, ([1, 1], [1]), trials=8000),
    Mutant("noise used twice", reused_noise, fresh_noise, ([1, 0], [1])),
    Mutant("noise in floating point", float_laplace, lattice_laplace, ([0.0], [0.0, 1.0]), trials=20_000),
    Mutant(
        "sensitivity wrong by 2", signed_sum_as_one, signed_sum, ([1, 1], [1, -1]), Claim.of(epsilon=1, adjacency=Adjacency.REPLACE_ONE)
    ),
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
        "sparse vector: Lee and Clifton",
        sparse(lee_clifton(2, 10)),
        sparse(right(2, 10)),
        ([-1] * 6 + [0] * 10, [0] * 6 + [-1] * 10),
        TWO,
    ),
    Mutant("sparse vector: Stoddard", sparse(stoddard(1)), sparse(right(1)), ([0, 1], [1, 0])),
    Mutant("sparse vector: Chen", sparse(chen(2)), sparse(right(2)), ([-1] * 6 + [0] * 6, [0] * 6 + [-1] * 6), TWO),
    Mutant("sparse vector: raw values", sparse(raw_values(1)), sparse(right(1)), ([0], [1]), trials=1000),
]
