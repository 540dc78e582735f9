"""The edges of parameter space: slowest answer and largest memory over a grid of cases. Target: 2 s and 500 MB each."""

from __future__ import annotations

import itertools
import resource
import sys
import time

from measure import busy, table

from tacit.accounting import AccountingError, Adjacency, Gaussian, Poisson, Repeated, Sampled, account

RATES = (1e-6, 1e-4, 0.01, 0.3, 1.0)
SIGMAS = (0.2, 1.0, 10.0, 100.0)
STEPS = (1, 30, 1000, 10**5, 10**7)
DELTAS = (1e-3, 1e-10, 1e-30)


def main() -> int:
    slow: list[list[object]] = []
    wide = refused = done = 0
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE):
        for rate, sigma, steps, delta in itertools.product(RATES, SIGMAS, STEPS, DELTAS):
            start = time.process_time()
            try:
                found = account(Repeated(Sampled(Poisson(rate), Gaussian(sigma)), steps), adjacency).epsilon(delta)
                wide += found.width > 1e-4 * found.upper
            except AccountingError:
                refused += 1
            done += 1
            slow.append([f"{adjacency.value} q={rate} sigma={sigma} T={steps} delta={delta}", time.process_time() - start])
    slow.sort(key=lambda row: -row[1])  # type: ignore[operator]
    print(f"slowest of {done} ({refused} refused, {wide} wider than 1e-4 of epsilon); {busy()}")
    table(["case", "seconds of processor time", ""], [[str(case), f"{seconds:.2f}", ""] for case, seconds in slow[:12]])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory of the whole run: {peak:.0f} MB")
    return slow[0][1] > 2 or peak > 500  # type: ignore[operator]


if __name__ == "__main__":
    sys.exit(main())
