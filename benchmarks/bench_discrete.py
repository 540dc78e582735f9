"""Laplace, discrete noise and randomised response composed 1e3 to 1e6 times, and mixed trees, beside dp_accounting's PLD.

The noise of each row is scaled so that all totals are alike. The peer's error is measured against our bracket, whose
width is printed; "below" says that its figure is less than our lower end, so less than the truth. Where ten times fewer steps took the
peer more than a few seconds it is not asked for more of them, so that the whole ends within minutes.

Run with `make bench`, or `python benchmarks/bench_discrete.py [rounds]`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import peers
from measure import Run, busy, medians, table, verdict

from tacit.accounting import (
    Adjacency,
    Bound,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Poisson,
    RandomizedResponse,
    Repeated,
    Sampled,
    account,
)

WIDTH = 1e-6
PATIENCE = 4.0  # seconds that the peer may take before it is not asked for ten times more
KINDS = ("Laplace", "discrete Laplace", "randomised response", "discrete Gaussian")


def single(kind: str, step: float) -> Event:
    """One step of about `step`-DP, or of rho = step^2 / 2."""
    if kind == "Laplace":
        return Laplace(1 / step)
    if kind == "discrete Laplace":
        return DiscreteLaplace(1 / step)
    if kind == "randomised response":
        return RandomizedResponse(step)
    return DiscreteGaussian(1 / step)


def google(kind: str, step: float, count: int, delta: float) -> float:
    peers.dp_accounting()
    from dp_accounting.pld import privacy_loss_distribution as pld

    if kind == "Laplace":
        one = pld.from_laplace_mechanism(1 / step)
    elif kind == "discrete Laplace":
        one = pld.from_discrete_laplace_mechanism(step)
    elif kind == "randomised response":
        one = pld.from_randomized_response(2 / (1 + math.exp(step)), 2)
    else:
        one = pld.from_discrete_gaussian_mechanism(1 / step)
    return float(one.self_compose(count).get_epsilon_for_delta(delta))


def mixed(turn: int) -> Event:
    """Counts by discrete Laplace, sums by Gaussian and Laplace noise, then a training run."""
    noise = 1 + 1e-13 * turn
    return Composed(
        Repeated(Laplace(10 * noise), 100),
        Repeated(DiscreteLaplace(20 * noise), 200),
        Repeated(Gaussian(20 * noise), 50),
        Repeated(Sampled(Poisson(0.01), Gaussian(noise)), 1000),
    )


def google_mixed(turn: int, delta: float) -> float:
    peers.dp_accounting()
    from dp_accounting.pld import privacy_loss_distribution as pld

    noise = 1 + 1e-13 * turn
    total = pld.from_laplace_mechanism(10 * noise).self_compose(100)
    total = total.compose(pld.from_discrete_laplace_mechanism(1 / (20 * noise)).self_compose(200))
    total = total.compose(pld.from_gaussian_mechanism(20 * noise).self_compose(50))
    total = total.compose(pld.from_gaussian_mechanism(noise, sampling_prob=0.01).self_compose(1000))
    return float(total.get_epsilon_for_delta(delta))


def row(name: str, ours: Callable[[int], Bound], theirs: Callable[[int], float] | None, rounds: int) -> tuple[list[str], bool, float]:
    """The cells, whether our bracket is narrow enough, and how many seconds the peer took."""
    found = medians({"ours": ours} if theirs is None else {"ours": ours, "theirs": theirs}, rounds)
    mine, peer = found["ours"], found.get("theirs", Run(failed="not asked: fewer steps took too long"))
    if mine.failed:
        return [name, mine.failed, *[""] * 7], False, peer.seconds
    bracket: Bound = mine.value
    cells = [name, f"{bracket.upper:.9f}", f"{bracket.width:.0e}", f"{1e3 * mine.seconds:.1f}"]
    if peer.failed:
        return [*cells, *[""] * 4, peer.failed], bracket.width <= WIDTH, math.inf if theirs is None else peer.seconds
    gap = peer.value - (bracket.lower if peer.value < bracket.lower else bracket.upper)
    note = "below" if peer.value < bracket.lower - 1e-9 else ("no answer" if math.isinf(peer.value) else "")
    cells += [f"{peer.value:.9g}", f"{gap:+.0e}", f"{1e3 * peer.seconds:.0f}", f"{peer.seconds / mine.seconds:.0f}", note]
    return cells, bracket.width <= WIDTH, peer.seconds


def main(rounds: int = 2) -> int:
    print(busy())
    rows, narrow = [], True
    for kind in KINDS:
        slow = False
        for count in (1000, 10_000, 100_000, 1_000_000):
            for delta in (1e-5, 1e-20) if count == 1_000_000 else (1e-5,):
                scale = 3 / math.sqrt(count)

                def ours(k: int, kind: str = kind, count: int = count, delta: float = delta, scale: float = scale) -> Bound:
                    event = Repeated(single(kind, scale * (1 + 1e-13 * k)), count)
                    return account(event, Adjacency.REPLACE_ONE if kind == "randomised response" else Adjacency.ADD_REMOVE).epsilon(delta)

                def theirs(k: int, kind: str = kind, count: int = count, delta: float = delta, scale: float = scale) -> float:
                    return google(kind, scale * (1 + 1e-13 * k), count, delta)

                cells, met, seconds = row(f"{kind} x {count:g}, delta {delta:g}", ours, None if slow else theirs, rounds)
                slow = slow or seconds > PATIENCE
                rows.append(cells)
                narrow &= met
    for delta in (1e-5, 1e-10, 1e-20):
        cells, met, _ = row(
            f"mixed tree, delta {delta:g}",
            lambda k, delta=delta: account(mixed(k), Adjacency.ADD_REMOVE).epsilon(delta),
            lambda k, delta=delta: google_mixed(k, delta),
            rounds,
        )
        rows.append(cells)
        narrow &= met
    table(["", "tacit", "width", "ms", "dp_accounting", "error", "ms", "slower, times", ""], rows)
    return 0 if verdict(f"every bracket at most {WIDTH:g} wide", narrow) else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
