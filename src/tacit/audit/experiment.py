"""The randomness of an experiment, and many trials of it side by side.

`generator` decides which half a record falls into, which model is a shadow, what a channel emits. It protects no data:
an audit is an experiment that must be repeatable, so it takes a seed, as no release may. The noise of the audited
mechanism itself still comes from `tacit.noise`, untouched.

>>> generator(7).integers(10, size=3).tolist() == generator(7).integers(10, size=3).tolist()
True

`map_trials` runs trials in processes where another process can load the function, in threads otherwise, and here with
one worker. With a generator of its own for each trial (`spawn`), the same seed gives the same answers in any order.

>>> map_trials(str, [1, 2, 3])
['1', '2', '3']
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.random import Generator, default_rng

from tacit.parameters import count

__all__ = ["Generator", "generator", "map_trials", "spawn"]

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


Item = TypeVar("Item")
Result = TypeVar("Result")


def map_trials(
    function: Callable[[Item], Result], items: Sequence[Item], *, workers: int = 1, progress: bool = False, what: str = "trials"
) -> list[Result]:
    """The function on every item, in the order of the items."""
    if count("workers", workers) == 1 or len(items) < 2:
        return list(_watched(map(function, items), len(items), progress, what))
    workers = min(workers, len(items))
    sent = _pickled((function, items[0]))
    if sent is not None:
        # A fresh interpreter each: a copy of this one would share its locks and its threads.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            if pool.submit(_can_load, sent).result():
                return list(_watched(pool.map(function, items), len(items), progress, what))
    with ThreadPoolExecutor(workers) as threads:
        return list(_watched(threads.map(function, items), len(items), progress, what))


def _pickled(thing: object) -> bytes | None:
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _can_load(sent: bytes) -> bool:
    """In the other process: whether it finds the module the function is from."""
    try:
        pickle.loads(sent)
    except (ImportError, AttributeError):
        return False
    return True


def _watched(results: Iterable[Result], total: int, progress: bool, what: str) -> Iterator[Result]:
    if not progress:
        yield from results
        return
    from rich.progress import track

    yield from track(results, description=what, total=total)
