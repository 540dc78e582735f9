"""What a row of the table is, and what its rows share: mechanisms whose truth is known, and mistakes that are made in practice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from tacit.accounting import Gaussian, account
from tacit.audit.experiment import Generator
from tacit.audit.rates import epsilon_of, mu_of

Run = Callable[[Generator, int], float]
HONEST = float(expit(1.0))  # how often randomised response tells the truth at epsilon 1
SMALL = 0.05  # delta, where there is one
GAUSSIAN = account(Gaussian(1.0)).epsilon(SMALL).upper  # epsilon at that delta for mu = 1


@dataclass(frozen=True)
class Auditor:
    """One auditor on one mechanism.

    `run(draw, seed)` draws the mechanism's outputs from `draw` and gives the seed to the auditor. `reaches` is what half of the
    bounds must reach: an auditor that says nothing is never wrong. `covers` names the functions it stands for.
    """

    name: str
    covers: str
    mechanism: str
    truth: float
    run: Run
    mutant: Run
    reaches: float
    error: float = 0.05
    mutant_runs: int = 100


def laplace(draw: Generator, shift: float) -> Callable[[int], Any]:
    return lambda n: shift + draw.laplace(size=n)


def gaussian(draw: Generator, shift: float) -> Callable[[int], Any]:
    return lambda n: shift + draw.normal(size=n)


def response(draw: Generator, bit: int) -> Callable[[int], Any]:
    return lambda n: np.where(draw.random(n) < HONEST, bit, 1 - bit).astype(float)


def coins_and(draw: Generator, n: int, law: str) -> tuple[Any, Any]:
    """Scores of n independent trials whose worlds are fair coins, and the coins."""
    bits = draw.random(n) < 0.5
    if law == "response":
        return np.where(draw.random(n) < HONEST, bits, ~bits) + 1e-3 * draw.random(n), bits
    return bits + getattr(draw, law)(size=n), bits


def halves_and(draw: Generator, n: int, law: str) -> tuple[Any, Any]:
    """The same with as many trials in either world."""
    bits = np.arange(n) % 2 == 0
    return bits + getattr(draw, law)(size=n), bits


def hits_of(found: Any, delta: float = 0.0, measure: str = "epsilon") -> float:
    """The point estimate of the test that was chosen: the mistake of leaving the interval out."""
    rates = [min(1.0, hits / found.details["measured"]) for hits in found.details["hits"]]
    return mu_of(*rates) if measure == "mu" else epsilon_of(*rates, delta)


def best_seen(scores: Any, bits: Any, delta: float = 0.0, measure: str = "epsilon") -> float:
    """The best point of the curve as it was seen, a few trials from either end: chosen and measured on the same trials, no interval."""
    outside, inside = np.sort(scores[~bits]), np.sort(scores[bits])
    levels = np.unique(scores)
    false, true = ((part.searchsorted(levels) * -1 + len(part)) / len(part) for part in (outside, inside))
    kept = (false >= 0.03) & (true <= 0.97)
    points = zip(false[kept].tolist(), true[kept].tolist(), strict=True)
    return max(((mu_of(a, b) if measure == "mu" else epsilon_of(a, b, delta)) for a, b in points), default=0.0)


def apart(on_first: Callable[[int], Any], on_second: Callable[[int], Any], n: int) -> tuple[Any, Any]:
    """Scores and worlds of n outputs on either input."""
    return np.concatenate([on_first(n), on_second(n)]), np.arange(2 * n) >= n
