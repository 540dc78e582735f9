"""Bounds that hold at every moment, so that an audit may look after each batch and stop as soon as it knows.

`audit_until` samples until the claim is refuted, the bound is close to what the claim permits, or a budget is used up.
A Clopper-Pearson interval is valid once: looked at again and again, it is wrong far more often than it claims. A
*confidence sequence* holds at all times together. Ours comes from a mixture of likelihood ratios: where the true rate
is at most p, the average of (q/p)^hits ((1-q)/(1-p))^misses over q above p is a wager against p that gains nothing in
expectation, so by Ville's inequality (1939) it ever exceeds 1/error with probability at most `error` (Robbins 1970;
Waudby-Smith and Ramdas 2024).

>>> running_lower(80, 100, 0.05) < 0.8, running_lower(80, 100, 0.05) > 0.65
(True, True)
>>> from tacit.audit.claim import Claim
>>> from tacit.noise import discrete_laplace
>>> half_noise = lambda shift: lambda n: shift + discrete_laplace(1, size=n)  # epsilon 1, claimed 1/2
>>> found = audit_until(Claim.of(epsilon=0.5), half_noise(0), half_noise(1), budget=100_000, seed=4)
>>> found.reason, found.verdict.broken, found.evidence.trials < 100_000
('refuted', True, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betaincc, betaln

from tacit.accounting import GDP, ParameterError
from tacit.audit.claim import Claim, Evidence, Verdict, held_against
from tacit.audit.experiment import generator
from tacit.audit.mechanisms.outputs import Sampler
from tacit.audit.mechanisms.search import WORST, Kind, candidates, choose, sampled
from tacit.audit.rates import Measure, OperatingPoint
from tacit.parameters import count, probability

PRIOR = 0.5  # of the mixture: Jeffreys' Beta(1/2, 1/2), good at rates near 0 and 1 alike


def log_wealth(hits: int, misses: int, rate: float) -> float:
    """The logarithm of the wager against "the true rate is at most `rate`": the mixture over all higher rates.

    >>> log_wealth(0, 0, 0.3), log_wealth(50, 50, 0.5) < 1, log_wealth(90, 10, 0.5) > 20
    (0.0, True, True)
    """
    if hits == 0 and misses == 0:
        return 0.0
    if rate <= 0:
        return math.inf if hits else 0.0
    if rate >= 1:
        return -math.inf if misses else 0.0
    a, b = hits + PRIOR, misses + PRIOR
    above, before = float(betaincc(a, b, rate)), float(betaincc(PRIOR, PRIOR, rate))
    if above <= 0 or before <= 0:
        return -math.inf  # no wager left above this rate: nothing is claimed
    mixture = float(betaln(a, b) - betaln(PRIOR, PRIOR)) + math.log(above) - math.log(before)
    return mixture - hits * math.log(rate) - misses * math.log1p(-rate)


def running_lower(hits: int, trials: int, error: float) -> float:
    """A lower bound on a rate which, asked after every trial, is ever above the truth with probability at most `error`.

    >>> running_lower(0, 10, 0.05), running_lower(3, 3, 0.05) < 1
    (0.0, True)
    """
    if not 0 <= hits <= trials:
        raise ParameterError(f"hits must be between 0 and trials; got {hits} of {trials}")
    if hits == 0 or trials == 0:
        return 0.0
    target = -math.log(float(probability("error", error)))
    low, high = 0.0, hits / trials
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if log_wealth(hits, trials - hits, middle) >= target else (low, middle)
    return low


def running_upper(hits: int, trials: int, error: float) -> float:
    """The same from above.

    >>> running_upper(10, 10, 0.05), running_upper(0, 100, 0.05) < 0.06
    (1.0, True)
    """
    return 1 - running_lower(trials - hits, trials, error)


@dataclass(frozen=True)
class Sequential:
    """How an audit ended: "refuted", "close" (the bound reached the stated share of the claim) or "budget" (neither, samples used up)."""

    verdict: Verdict
    reason: str
    looks: int

    @property
    def evidence(self) -> Evidence:
        """What was found, valid although it was looked at `looks` times."""
        return self.verdict.evidence

    def __str__(self) -> str:
        return f"{self.verdict} after {self.evidence.trials} samples on either input ({self.reason})"


def audit_until(
    claim: Claim, on_first: Sampler, on_second: Sampler, *, budget: int,
    explore: int = 4_000, batch: int = 1_000, share: float = 0.9, delta: float | None = None, confidence: float = 0.95,
    events: Kind = "auto", seed: int | None = None, game: str = WORST,
) -> Sequential:
    """Sample until the claim is refuted, or the bound is within `share` of what it permits, or `budget` samples on either input are used.

    The first `explore` samples choose the test; all later ones measure it, in batches that grow. `delta` is where epsilon is bounded; the
    claim's own if it has one.
    """
    at = claim.delta if delta is None else float(probability("delta", delta))
    measure: Measure = claim.measure if delta is None else "epsilon"
    explore = min(count("explore", explore, least=40), count("budget", budget, least=80) // 2)
    error = (1 - float(probability("confidence", confidence))) / 2
    coins = generator(seed)
    first, second = sampled(on_first, on_second, explore, seed)
    half = explore // 2
    learnt, chosen = ((first.take(part), second.take(part)) for part in (slice(0, half), slice(half, None)))
    test = choose(candidates(*learnt, events), chosen, budget - explore, at, confidence, measure)
    permitted = float(claim.event.mu) if isinstance(claim.event, GDP) and measure == "mu" else claim.epsilon(at)
    hits, seen, looks, step = [0, 0], 0, 0, count("batch", batch)
    while True:
        step = min(step, budget - explore - seen)
        # A seed of its own for every batch: the same one again would repeat the same noise and count it as new.
        drawn = sampled(on_first, on_second, step, None if seed is None else seed + 1_000_003 * (looks + 1))
        hits = [h + int(test.fires(part, coins).sum()) for h, part in zip(hits, drawn, strict=True)]
        seen, looks = seen + step, looks + 1
        point = OperatingPoint(running_upper(hits[0], seen, error), running_lower(hits[1], seen, error), float(confidence))
        guess = OperatingPoint(hits[0] / seen, hits[1] / seen, 0.0).lower(measure, at)
        evidence = Evidence.of_point(
            point, attack=f"sequential search ({test})", game=game, delta=at, trials=explore + seen, measure=measure,
            estimate=guess, details={"test": str(test), "hits": tuple(hits), "measured": seen, "looks": looks},
        )
        lower = evidence.lower
        # A test that looks as if it would refute the claim goes on, however close its bound is already.
        close = share * permitted <= lower and guess <= (2 - share) * permitted
        spent = explore + seen >= budget
        if lower > permitted or close or spent:
            verdict = held_against(claim, evidence)
            if verdict.broken or close or spent:
                return Sequential(verdict, "refuted" if verdict.broken else "close" if close else "budget", looks)
        step = max(step, seen // 2)
