"""A black-box attack: a statistical lower bound on epsilon from samples of a mechanism on two neighbouring inputs.

The output event is chosen on one half of the samples and measured on the other, so that choosing costs no confidence; both
directions are tried, each at half the error rate (Clopper and Pearson 1934). A correct mechanism is exceeded with probability at
most 1 - confidence; one whose bound comes out above its claim is broken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from scipy.special import betaincinv

from tacit.noise import test_mode

Draw = Callable[[int], Sequence[Hashable]]


def lower_bound(on_first: Draw, on_second: Draw, n: int, *, delta: float = 0.0, confidence: float = 0.999, seed: int | None = 0) -> float:
    """A lower bound on epsilon at `delta` that holds with the stated confidence; 0 where nothing is found.

    `on_first(n)` and `on_second(n)` return n independent outputs on the two inputs. With a seed the draws are reproducible.
    """
    if seed is None:
        first, second = list(on_first(2 * n)), list(on_second(2 * n))
    else:
        with test_mode(seed):
            first, second = list(on_first(2 * n)), list(on_second(2 * n))
    error = (1 - confidence) / 2
    return max(
        _directed(first[:n], second[:n], first[n:], second[n:], delta, error),
        _directed(second[:n], first[:n], second[n:], first[n:], delta, error),
        0.0,
    )


Outputs = Sequence[Hashable]


def _directed(choose_p: Outputs, choose_q: Outputs, test_p: Outputs, test_q: Outputs, delta: float, error: float) -> float:
    """Take the best set of outputs by likelihood ratio on the first halves; bound its two probabilities on the second."""
    p, q = Counter(choose_p), Counter(choose_q)
    ranked = sorted(p.keys() | q.keys(), key=lambda o: ((p[o] + 0.5) / (q[o] + 0.5), p[o]), reverse=True)
    best, chosen = -math.inf, 0
    hits_p = hits_q = 0
    for index, output in enumerate(ranked):
        hits_p, hits_q = hits_p + p[output], hits_q + q[output]
        value = _epsilon(hits_p, len(choose_p), hits_q, len(choose_q), delta, error)
        if value > best:
            best, chosen = value, index + 1
    event = set(ranked[:chosen])
    return _epsilon(sum(o in event for o in test_p), len(test_p), sum(o in event for o in test_q), len(test_q), delta, error)


def _epsilon(hits_p: int, n_p: int, hits_q: int, n_q: int, delta: float, error: float) -> float:
    """log((lower(p) - delta) / upper(q)) with Clopper-Pearson ends, half of the error rate each."""
    low = 0.0 if hits_p == 0 else float(betaincinv(hits_p, n_p - hits_p + 1, error / 2))
    high = 1.0 if hits_q == n_q else float(betaincinv(hits_q + 1, n_q - hits_q, 1 - error / 2))
    return math.log((low - delta) / high) if low > delta else -math.inf
