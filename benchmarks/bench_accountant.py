"""The accountant on DP-SGD beside its peers: time, error against 30 digits, memory.

Error is the distance of the published figure (the upper end) from the truth; a figure below the truth is marked, for it promises too much.
The truths come from tests/conformance/test_dpsgd_reference.py.

Run with `make bench`, or `python benchmarks/bench_accountant.py [rounds]`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from measure import Missing, busy, medians, peak, report_peak, table, verdict
from peers import DP_SGD, MODULES

from tacit.accounting import Adjacency, Bound, Gaussian, Poisson, Repeated, Sampled, account

FASTER, TIGHTER = 30, 1e4  # than dp_accounting's PLD at its default grid, on every case at delta = 1e-5
CASES: dict[str, tuple[Fraction, float, int]] = {
    "B1": (Fraction(1, 100), 1.0, 1000),
    "B2": (Fraction(256, 60000), 1.1, 14062),
    "B3": (Fraction(1, 1000), 0.8, 100_000),
    "B4": (Fraction(1, 10_000), 0.6, 1_000_000),
}
TRUTHS = {
    ("B1", 1e-5): "1.82823666651657684261",
    ("B1", 1e-10): "3.29044375089529836168",
    ("B1", 1e-15): "4.85453775060492398667",
    ("B1", 1e-20): "6.36170020407935009058",
    ("B2", 1e-5): "2.38159692142439725469",
    ("B2", 1e-10): "3.73583859849617997755",
    ("B2", 1e-15): "4.77167413314995712418",
    ("B2", 1e-20): "5.68046082548068587643",
    ("B3", 1e-5): "2.57495930935261105954",
    ("B3", 1e-10): "4.06916730699626787210",
    ("B3", 1e-15): "5.69782727207392777754",
    ("B3", 1e-20): "7.44017605906210963996",
    ("B4", 1e-5): "1.61084799820868809489",
    ("B4", 1e-10): "3.95346485967438057881",
    ("B4", 1e-15): "6.45933320997357344740",
    ("B4", 1e-20): "8.67014782865669062102",
}
OURS = "tacit"


def ours(q: Fraction, sigma: float, steps: int, delta: float) -> Bound:
    return account(Repeated(Sampled(Poisson(q), Gaussian(sigma)), steps), Adjacency.ADD_REMOVE).epsilon(delta)


def task(name: str, case: str, delta: float) -> Callable[[int], float]:
    q, sigma, steps = CASES[case]

    def run(k: int) -> float:
        noise = sigma * (1 + 1e-13 * k)  # a new problem every round
        return ours(q, noise, steps, delta).upper if name == OURS else DP_SGD[name](float(q), noise, steps, delta)

    return run


def main(rounds: int = 5) -> int:
    print(busy())
    speed_met = error_met = True
    for case, (q, sigma, steps) in CASES.items():
        memory = {name: peak(__file__, name, case) for name in (OURS, *DP_SGD)}
        for delta in (1e-5, 1e-10, 1e-15, 1e-20):
            truth = Decimal(TRUTHS[case, delta])
            found = medians({name: task(name, case, delta) for name in (OURS, *DP_SGD)}, rounds if delta == 1e-5 else 2)
            ours_error = abs(Decimal(found[OURS].value) - truth)
            rows = []
            for name, run in found.items():
                if run.failed:
                    rows.append([name, *[""] * 7, run.failed])
                    continue
                error = Decimal(run.value) - truth if run.value < float("inf") else Decimal("inf")
                rows.append(
                    [
                        name,
                        f"{run.value:.10g}",
                        f"{error:+.1e}" + (" BELOW" if error < 0 else ""),
                        "" if name == OURS else f"{abs(error) / ours_error:.1e}",
                        f"{1e3 * run.seconds:.1f}",
                        "" if name == OURS else f"{run.seconds / found[OURS].seconds:.0f}",
                        f"{memory[name]:.0f}" if delta == 1e-5 else "",
                        f"{memory[name] / max(memory[OURS], 1.0):.0f}" if delta == 1e-5 and name != OURS else "",
                        "",
                    ]
                )
            width = ours(q, sigma, steps, delta).width
            print(f"\n{case}: q = {q}, sigma = {sigma}, T = {steps}, delta = {delta:g}; truth {truth}; our bracket is {width:.1e} wide")
            table(["", "epsilon", "error", "error, times ours", "ms", "slower, times", "MB", "MB, times", ""], rows)
            google = found["dp_accounting PLD"]
            if delta == 1e-5 and not google.failed:
                speed_met &= google.seconds >= FASTER * found[OURS].seconds
                error_met &= abs(Decimal(google.value) - truth) >= Decimal(TIGHTER) * ours_error
    print()
    met = verdict(f"{FASTER} times faster than dp_accounting's PLD on every case", speed_met)
    met &= verdict(f"{TIGHTER:g} times smaller error than dp_accounting's PLD on every case", error_met)
    return 0 if met else 1


if __name__ == "__main__":
    if "--peak" in sys.argv:
        try:
            report_peak(MODULES[sys.argv[2]], lambda: task(sys.argv[2], sys.argv[3], 1e-5)(0))
        except (Missing, ImportError):
            sys.exit(1)
        sys.exit(0)
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
