"""What every adapter of `bench_leaks.py` shares: run a peer's functions on two inputs many times and write down what they said.

Run as `python leaks_<peer>.py samples`, in the peer's own environment; one JSON object on the standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NAN = float("nan")
#: The questions that every peer is asked, where it can answer them: two neighbouring inputs each.
PAIRS: dict[str, tuple[Any, Any]] = {
    "count, Laplace": (2, 3),
    "count, geometric": (2, 3),
    "count, Gaussian": (2, 3),
    "float noise": (1.0, 0.0),
    "sum, one row more": ([0.5, 0.5], [0.5, 0.5, 1.0]),
    "sum, one row NaN": ([0.5, 0.5, 0.5], [0.5, 0.5, NAN]),
    "sum, one row 1e308": ([0.5, 0.5, 0.5], [0.5, 0.5, 1e308]),
    "mean, one row NaN": ([0.5, 0.5, 0.5], [0.5, 0.5, NAN]),
    "mean, one row 1e308": ([0.5, 0.5, 0.5], [0.5, 0.5, 1e308]),
}


@dataclass
class Asked:
    """A function of a peer, and what the peer promises of it: a claim as on the command line."""

    function: Callable[[Any], Any]
    claim: str = "eps=1"
    share: float = 1.0  # of the samples that are asked for: less for a function that takes long


def answer(function: Callable[[Any], Any], data: Any) -> float | str:
    try:
        return float(function(data))
    except Exception as error:  # an exception on one input only is an answer too
        return f"raised {type(error).__name__}"


def spent_in_tenths(spend: Callable[[float], Any]) -> str:
    """Of a budget of 1: how many times 0.1 is granted, and whether a thousandth is after that."""
    granted = 0
    try:
        while granted < 20:
            spend(0.1)
            granted += 1
    except Exception:  # refused
        pass
    try:
        spend(0.001)
        return f"{granted} times 0.1, then 0.001 more GRANTED"
    except Exception:  # refused
        return f"{granted} times 0.1, then 0.001 more refused"


def main(version: str, asked: dict[str, Asked], budget: Callable[[], str] | None = None) -> None:
    samples = int(sys.argv[1])
    tests = []
    for name, how in asked.items():
        runs = max(200, int(samples * how.share))
        first, second = ([answer(how.function, data) for _ in range(runs)] for data in PAIRS[name])
        tests.append({"name": name, "claim": how.claim, "first": first, "second": second})
    print(json.dumps({"version": version, "tests": tests, "budget": "no budget to spend from" if budget is None else budget()}))
