"""The edges of parameter space: slowest answer, largest memory and widest bracket over all schemes.

Targets: 1 s of processor time and 500 MB each, 1e-6 relative width for Poisson sampling and 1 % for draws with replacement.

A fixed stratified sample of the grid; each case is asked again with one parameter moved so that it must cost at least as much, and a
certified contradiction between the two is a violation. `python bench_stress.py 2.3` takes about 1,000 cases.
"""

from __future__ import annotations

import math
import random
import resource
import sys
import time

from measure import busy, table, verdict

from tacit.accounting import (
    AccountingError,
    Adjacency,
    Bound,
    Event,
    Gaussian,
    Poisson,
    RandomAllocation,
    Repeated,
    Sampled,
    TruncatedPoisson,
    WithoutReplacement,
    WithReplacement,
    account,
)

RATES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.999, 1.0)
SIGMAS = (0.2, 0.5, 1.0, 3.0, 10.0, 100.0)
STEPS = (1, 3, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7)
DELTAS = (1e-30, 1e-20, 1e-15, 1e-10, 1e-6, 1e-3)
EPSILONS = (1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
SIZE = 10**6
AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT

# scheme, relation, how many cases
SCHEMES = {
    "Poisson, add/remove": (AR, 60),
    "Poisson, replace-one": (RO, 60),
    "Poisson, zero-out": (ZO, 10),
    "truncated Poisson": (AR, 15),
    "without replacement": (RO, 40),
    "with replacement": (RO, 25),
    "random allocation": (AR, 15),
}
DEARER = (1, -1, 1, -1)  # the direction in which rate, sigma, steps and delta (or epsilon) make the answer grow

Case = tuple[str, str, float, float, int, float]  # scheme, what is asked at, rate, sigma, steps, delta or epsilon


def event(scheme: str, rate: float, sigma: float, steps: int) -> Event:
    """Steps of a Gaussian sum under one sampling scheme."""
    noise = Gaussian(sigma, adjacency=ZO) if scheme.endswith("zero-out") else Gaussian(sigma)
    drawn = max(1, round(SIZE * rate))
    if scheme.startswith("Poisson"):
        return Repeated(Sampled(Poisson(rate), noise), steps)
    if scheme == "truncated Poisson":
        return Repeated(Sampled(TruncatedPoisson(rate, SIZE, int(drawn + 14 * math.sqrt(drawn) + 40)), noise), steps)
    if scheme == "without replacement":
        return Repeated(Sampled(WithoutReplacement(SIZE, drawn), noise), steps)
    if scheme == "with replacement":
        return Repeated(Sampled(WithReplacement(SIZE, drawn), noise), steps)
    return Repeated(Sampled(RandomAllocation(max(1, round(1 / rate))), noise), steps)


def design(times: float) -> list[tuple[Case, Case]]:
    """Pairs of a case and a dearer neighbour: the same on every run."""
    rnd, pairs = random.Random(2), []
    for scheme, (_, number) in SCHEMES.items():
        for i in range(round(number * times)):
            asked = "epsilon" if i % 4 == 3 else "delta"
            axes = (RATES, SIGMAS, STEPS, DELTAS if asked == "delta" else EPSILONS)
            # the rates take turns, so that rare samples, where all is hard, are never missed
            place = [(i // 2) % len(RATES), *(rnd.randrange(len(axis)) for axis in axes[1:])]
            moves = [j for j in range(4) if 0 <= place[j] + DEARER[j] < len(axes[j])]
            j = rnd.choice(moves)
            moved = [p + DEARER[j] * (k == j) for k, p in enumerate(place)]
            cheap, dear = ((scheme, asked, *(axis[p] for axis, p in zip(axes, at, strict=True))) for at in (place, moved))
            pairs.append((cheap, dear))
    return pairs  # type: ignore[return-value]


def price(case: Case) -> tuple[Bound | None, float]:
    """The bracket, or None where it was refused, and the seconds of processor time."""
    scheme, asked, rate, sigma, steps, at = case
    start = time.process_time()
    try:
        found = account(event(scheme, rate, sigma, steps), SCHEMES[scheme][0])
        answer = found.epsilon(at) if asked == "delta" else found.delta(at)
    except AccountingError:
        return None, time.process_time() - start
    return answer, time.process_time() - start


def width(found: Bound | None) -> float:
    """Relative width; a delta below 1e-30 is as good as none."""
    if found is None or found.upper < 1e-30:
        return 0.0
    return found.width / found.upper if math.isfinite(found.upper) else 1.0


def show(case: Case) -> str:
    scheme, asked, rate, sigma, steps, at = case
    return f"{scheme}, q={rate:g} sigma={sigma:g} T={steps:g} {asked}={at:g}"


def main(times: float = 1.0) -> int:
    rows: list[tuple[Case, Bound | None, float]] = []
    violations = []
    for cheap, dear in design(times):
        low, seconds = price(cheap)
        rows.append((cheap, low, seconds))
        high, seconds = price(dear)
        rows.append((dear, high, seconds))
        if low is not None and high is not None and low.lower > high.upper * (1 + 1e-12):
            violations.append((cheap, dear))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    refused = sum(found is None for _, found, _ in rows)
    print(f"{len(rows)} cases, {refused} refused; {busy()}\n")
    summary = []
    for scheme in SCHEMES:
        mine = [row for row in rows if row[0][0] == scheme]
        taken = sorted(row[2] for row in mine)
        widths = sorted(width(row[1]) for row in mine)
        middle = len(mine) // 2
        cells = [f"{taken[middle]:.2f}", f"{taken[-1]:.2f}", f"{widths[middle]:.1e}", f"{sum(w > 0.1 for w in widths)}"]
        summary.append([scheme, str(len(mine)), *cells, ""])
    table(["scheme", "cases", "median s", "worst s", "median width", "wider than 0.1", ""], summary)
    print("\nslowest")
    table(["case", "seconds", ""], [[show(c), f"{s:.2f}", ""] for c, _, s in sorted(rows, key=lambda row: -row[2])[:8]])
    print("\nwidest, relative")
    widest = sorted(rows, key=lambda row: -width(row[1]))[:8]
    table(["case", "width", ""], [[show(c), f"{width(b):.2e}", ""] for c, b, _ in widest])
    for cheap, dear in violations:
        print(f"not monotone: {show(cheap)} against {show(dear)}")
    print()
    slow = sum(seconds > 1 for _, _, seconds in rows)
    wide = sum(width(found) > 1e-6 for case, found, _ in rows if case[0].startswith("Poisson"))
    replaced = sum(width(found) > 0.01 for case, found, _ in rows if case[0] == "with replacement")
    met = [
        verdict(f"1 s of processor time for each answer ({slow} over it)", not slow),
        verdict(f"1e-6 relative width of Poisson cases ({wide} over it)", not wide),
        verdict(f"1 % relative width of draws with replacement ({replaced} over it)", not replaced),
        verdict(f"500 MB for the whole run ({peak:.0f} MB)", peak <= 500),
        verdict(f"monotone in every parameter ({len(violations)} violations)", not violations),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
