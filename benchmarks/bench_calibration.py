"""The noise for a target beside the peers' own calibrators: sigma for eps = 1, delta = 1e-6, q = 0.01, T = 1e4.

Below the truth a calibrated sigma would break the promise; above it, it wastes accuracy.

Run with `make bench`, or `python benchmarks/bench_calibration.py [rounds]`.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import peers
from measure import Missing, busy, medians, table, verdict

from tacit.accounting import Adjacency, Gaussian, Poisson, Repeated, Sampled, account, calibrate

FASTER = 30
TRUTH = 4.3021064656
Q, STEPS, EPSILON, DELTA = 0.01, 10_000, 1.0, 1e-6
OURS = "tacit"


def training(sigma: float) -> Repeated:
    return Repeated(Sampled(Poisson(Q), Gaussian(sigma)), STEPS)


def target(turn: int) -> float:
    return EPSILON * (1 + 1e-13 * turn)  # a new problem every turn


def ours(turn: int) -> float:
    return calibrate(training, epsilon=target(turn), delta=DELTA, adjacency=Adjacency.ADD_REMOVE)


def google_pld(turn: int) -> float:
    package = peers.dp_accounting()
    return _google(package, package.pld.PLDAccountant, turn)


def google_rdp(turn: int) -> float:
    package = peers.dp_accounting()
    return _google(package, package.rdp.RdpAccountant, turn)


def _google(package: Any, accountant: Any, turn: int) -> float:
    def make(sigma: float) -> Any:
        return package.SelfComposedDpEvent(peers.sampled_gaussian(package, Q, sigma), STEPS)

    return float(package.calibrate_dp_mechanism(accountant, make, target(turn), DELTA))


def prv(turn: int) -> float:
    try:
        from prv_accountant.dpsgd import find_noise_multiplier
    except ImportError:
        raise Missing("not installed") from None
    warnings.simplefilter("ignore")
    return float(
        find_noise_multiplier(sampling_probability=Q, num_steps=STEPS, target_epsilon=target(turn), target_delta=DELTA, eps_error=0.1)
    )


def autodp(turn: int) -> float:
    try:
        from autodp.calibrator_zoo import eps_delta_calibrator
        from autodp.mechanism_zoo import NoisySGD_Mechanism
    except ImportError:
        raise Missing("not installed") from None
    warnings.simplefilter("ignore")
    found = eps_delta_calibrator()(lambda sigma: NoisySGD_Mechanism(prob=Q, sigma=sigma, niter=STEPS), target(turn), DELTA, [0.5, 20])
    return float(found.params["sigma"])


def opendp(turn: int) -> float:
    raise Missing("no Poisson sampling")


def main(rounds: int = 3) -> int:
    print(busy())
    print(f"sigma for eps = {EPSILON}, delta = {DELTA}, q = {Q}, T = {STEPS}; truth {TRUTH}")
    contenders = {
        OURS: ours,
        "dp_accounting PLD": google_pld,
        "dp_accounting RDP": google_rdp,
        "prv_accountant (0.1)": prv,
        "autodp": autodp,
        "opendp": opendp,
    }
    found = medians(contenders, rounds)
    rows = []
    for name, run in found.items():
        if run.failed:
            rows.append([name, *[""] * 5, run.failed])
            continue
        spent = account(training(run.value), Adjacency.ADD_REMOVE).epsilon(DELTA)
        note = "" if spent.upper <= EPSILON else ("exceeds the target" if spent.lower > EPSILON else "at the target")
        excess = run.value / TRUTH - 1
        ratio = "" if name == OURS else f"{run.seconds / found[OURS].seconds:.0f}"
        rows.append([name, f"{run.value:.10f}", f"{100 * excess:+.1e}%", f"{spent.upper:.8f}", f"{1e3 * run.seconds:.0f}", ratio, note])
    table(["", "sigma", "noise to spare", "eps it costs", "ms", "slower, times", ""], rows)
    google, mine = found["dp_accounting PLD"], found[OURS]
    met = verdict("never over the target", account(training(mine.value), Adjacency.ADD_REMOVE).epsilon(DELTA).upper <= EPSILON)
    if not google.failed:
        met &= verdict(f"{FASTER} times faster than dp_accounting's PLD", google.seconds >= FASTER * mine.seconds)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
