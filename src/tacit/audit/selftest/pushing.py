"""`tacit.audit.search.attack` by its error instead of its confidence.

>>> from tacit.noise import bernoulli
>>> found = pushed(lambda n: bernoulli(1 / 8, size=n), lambda n: bernoulli(3 / 8, size=n), 2000, error=1e-8, seed=1)
>>> 0.4 < found.lower < 1.0986
True
"""

from __future__ import annotations

from typing import Any

from tacit.audit.claim import Evidence
from tacit.audit.events import Sampler
from tacit.audit.search import attack


def pushed(on_first: Sampler, on_second: Sampler, n: int, *, error: float, **more: Any) -> Evidence:
    """The best lower bound that a search finds, wrong with probability at most `error`."""
    return attack(on_first, on_second, n, confidence=1 - error, **more)
