"""Inputs on which a peer says something false, beside ours. Nothing here is timed.

The peer's versions are those of the extra `peers` in pyproject.toml; a fault that a newer version mended is printed as mended.

Run with `make bench`, or `python benchmarks/bench_faults.py`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise

import peers
from bench_accountant import CASES, TRUTHS
from measure import Missing, table, verdict

from tacit.accounting import (
    AccountingError,
    Adjacency,
    Gaussian,
    Poisson,
    RandomizedResponse,
    Repeated,
    Sampled,
    account,
)


def attempt(task: Callable[[], float]) -> str:
    try:
        return f"{task():.10g}"
    except Missing as reason:
        return str(reason)
    except AccountingError as error:
        return f"refused: {error}"
    except Exception as error:  # whatever the peer raises is its answer
        return f"{type(error).__name__}: {error}"[:50]


def below_the_truth() -> bool:
    print("\nA 'pessimistic' figure below the truth: dp_accounting's PLD, delta <= 1e-10 (its FFT's round-off swamps the tail)")
    rows, sound = [], True
    for (case, delta), text in TRUTHS.items():
        q, sigma, steps = CASES[case]
        truth = Decimal(text)
        theirs = attempt(lambda q=q, sigma=sigma, steps=steps, delta=delta: peers.google_pld(float(q), sigma, steps, delta))
        ours = account(Repeated(Sampled(Poisson(q), Gaussian(sigma)), steps), Adjacency.ADD_REMOVE).epsilon(delta)
        sound &= Decimal(ours.lower) <= truth <= Decimal(ours.upper)
        try:
            gap = Decimal(theirs) - truth
            note = "BELOW THE TRUTH" if gap < 0 else ("no answer" if gap.is_infinite() else "")
        except ArithmeticError:
            note = ""
        rows.append([f"{case} at {delta:g}", f"{truth:.12f}", theirs, f"[{ours.lower:.12f}, {ours.upper:.12f}]", note])
    q, sigma, steps = CASES["B3"]
    for delta in (1e-8, 1e-11, 1e-12, 1e-13):
        theirs = attempt(lambda delta=delta: peers.google_pld(float(q), sigma, steps, delta))
        ours = account(Repeated(Sampled(Poisson(q), Gaussian(sigma)), steps), Adjacency.ADD_REMOVE).epsilon(delta)
        note = "BELOW OUR LOWER END" if theirs[0].isdigit() and float(theirs) < ours.lower else ""
        rows.append([f"B3 at {delta:g}", "", theirs, f"[{ours.lower:.12f}, {ours.upper:.12f}]", note])
    table(["", "truth", "dp_accounting PLD", "tacit", ""], rows)
    return sound


def repeated_randomised_response() -> bool:
    print("\nRandomised response of eps 0.1, k times, delta 1e-6, replace-one: the count is ignored by dp_accounting's PLD")
    rows, costs = [], []
    for k in (1, 10, 100, 1000):

        def theirs(k: int = k) -> float:
            package = peers.dp_accounting()
            event = package.RandomizedResponseDpEvent(noise_parameter=2 / (1 + math.exp(0.1)), num_buckets=2)
            relation = package.NeighboringRelation.REPLACE_ONE
            return float(package.pld.PLDAccountant(relation).compose(event, k).get_epsilon(1e-6))

        costs.append(account(Repeated(RandomizedResponse(0.1), k), Adjacency.REPLACE_ONE).epsilon(1e-6))
        rows.append([f"k = {k}", attempt(theirs), f"[{costs[-1].lower:.8f}, {costs[-1].upper:.8f}]", ""])
    table(["", "dp_accounting PLD", "tacit", ""], rows)
    return all(a.upper < b.lower for a, b in pairwise(costs))


def nan_noise() -> bool:
    print("\nNoise that is not a number")

    def theirs(kind: str) -> float:
        package = peers.dp_accounting()
        accountant = package.rdp.RdpAccountant() if kind == "RDP" else package.pld.PLDAccountant()
        return float(accountant.compose(package.GaussianDpEvent(math.nan), 1000).get_epsilon(1e-5))

    ours = attempt(lambda: account(Repeated(Gaussian(math.nan), 1000)).epsilon(1e-5).upper)
    table(
        ["", "epsilon", ""],
        [
            ["dp_accounting RDP", attempt(lambda: theirs("RDP")), ""],
            ["dp_accounting PLD", attempt(lambda: theirs("PLD")), ""],
            ["tacit", ours, ""],
        ],
    )
    return ours.startswith("refused")


def one_event_two_prices() -> bool:
    print("\nOne Gaussian of noise multiplier 1 (delta 1e-5), priced by two accountants of one package")
    rows = []
    for relation in ("ADD_OR_REMOVE_ONE", "REPLACE_ONE"):

        def theirs(kind: str, relation: str = relation) -> float:
            package = peers.dp_accounting()
            asked = getattr(package.NeighboringRelation, relation)
            accountant = package.rdp.RdpAccountant(neighboring_relation=asked) if kind == "RDP" else package.pld.PLDAccountant(asked)
            return float(accountant.compose(package.GaussianDpEvent(1.0)).get_epsilon(1e-5))

        asked = Adjacency.ADD_REMOVE if relation.startswith("ADD") else Adjacency.REPLACE_ONE
        stated = {a: account(Gaussian(1.0, adjacency=a), asked).epsilon(1e-5).upper for a in {Adjacency.ADD_REMOVE, asked}}
        ours = "; ".join(f"{value:.6f} if stated for {a.value}" for a, value in stated.items())
        rows.append([relation, attempt(lambda theirs=theirs: theirs("RDP")), attempt(lambda theirs=theirs: theirs("PLD")), ours])
    table(["relation", "dp_accounting RDP", "dp_accounting PLD", "tacit"], rows)
    print("Theirs does not say which relation the noise multiplier is measured under, and each accountant guesses; ours is told.")
    return True


def main() -> int:
    results = {
        "the truth in every bracket": below_the_truth(),
        "randomised response costs more when repeated": repeated_randomised_response(),
        "NaN noise is refused": nan_noise(),
        "one event has one price": one_event_two_prices(),
    }
    print()
    return 0 if all([verdict(name, met) for name, met in results.items()]) else 1


if __name__ == "__main__":
    sys.exit(main())
