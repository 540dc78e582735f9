"""Many trials of one experiment, side by side, with a generator of its own for each: the same seed gives the same answers in any order.

>>> map_trials(str, [1, 2, 3])
['1', '2', '3']

Functions that another process can load run in processes, others in threads; one worker runs them here. A bar shows progress where it is
asked for.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TypeVar

from tacit.accounting.parameters import count

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
