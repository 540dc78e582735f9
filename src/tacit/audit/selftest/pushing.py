"""The search of `tacit.audit.search` for very high confidence from few samples, which is what a self-test of slow mechanisms has.

At a confidence of 1 - 1e-8 the interval of a rate seen on a few hundred samples is so wide that no test looks promising, and the plain
search may settle on one that always fires. Here tests are chosen at several confidences, and all that were chosen are measured on the
samples that nothing was chosen on, each with its share of the error. So the bound exceeds the truth with probability at most `error`.

>>> from tacit.noise import bernoulli
>>> found = pushed(lambda n: bernoulli(1 / 8, size=n), lambda n: bernoulli(3 / 8, size=n), 2000, error=1e-8, seed=1)
>>> 0.4 < found.lower < 1.0986
True
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.accounting.parameters import count
from tacit.audit.claim import Evidence
from tacit.audit.events import Sampler
from tacit.audit.experiment import generator
from tacit.audit.search import LEAST, WORST, Kind, Measure, around, candidates, certified, choose, parts, sampled

CHOOSING = (0.999999, 0.95, 0.5)  # confidences at which tests are chosen; nothing is claimed at them


def pushed(
    on_first: Sampler,
    on_second: Sampler,
    n: int,
    *,
    error: float,
    delta: float = 0.0,
    events: Kind = "auto",
    measure: Measure = "epsilon",
    seed: int | None = None,
    game: str = WORST,
) -> Evidence:
    """The best lower bound on epsilon at `delta`, or on mu, wrong with probability at most `error`."""
    coins = generator(seed)
    first, second = sampled(on_first, on_second, count("n", n, least=LEAST), seed)
    learnt, chosen, measured = parts(first, second, coins)
    tried = candidates(*learnt, events)
    found = [choose(tried, chosen, len(measured[0]), delta, confidence, measure) for confidence in CHOOSING]
    if measure == "epsilon":
        found += [near for test in found for near in around(test, learnt, chosen)]
    tests = list({(id(test.candidate), test.threshold): test for test in found}.values())
    shared: Any = {"delta": delta, "confidence": 1 - error / len(tests), "measure": measure, "trials": n, "game": game}
    best = max((certified(test, measured, coins, **shared) for test in tests), key=lambda evidence: evidence.lower)
    return replace(best, confidence=1 - error, point=None if best.point is None else replace(best.point, confidence=1 - error))
