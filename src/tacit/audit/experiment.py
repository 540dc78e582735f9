"""The randomness of an experiment: which half a record falls into, which model is a shadow, what a channel emits.

None of it protects anybody: an audit is an experiment that must be repeatable, so it takes a seed, as no release may. The noise of
the audited mechanism itself still comes from `tacit.noise`, untouched.

>>> generator(7).integers(10, size=3).tolist() == generator(7).integers(10, size=3).tolist()
True
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, default_rng

__all__ = ["Generator", "generator", "spawn"]

# Mixed into every seed: `tacit.noise.test_mode` of the same number must be another stream, or the noise would follow the attacker's coins.
DOMAIN = 0x7461636974


def generator(seed: int | Generator | None = None) -> Generator:
    """The generator of an experiment: a seed makes it repeatable, None takes a fresh one, a generator passes through.

    >>> bool(generator(1).random() == generator(1).random())
    True
    """
    if isinstance(seed, Generator):
        return seed
    return default_rng(None if seed is None else np.random.SeedSequence((seed, DOMAIN)))


def spawn(parent: Generator, count: int) -> list[Generator]:
    """Independent generators for parallel parts of one experiment; the same parent state gives the same children.

    >>> a, b = spawn(generator(1), 2)
    >>> bool(a.random() == b.random())
    False
    """
    return [default_rng(np.random.SeedSequence(int(word))) for word in parent.integers(2**63, size=count)]
