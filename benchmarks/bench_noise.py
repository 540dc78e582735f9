"""Draws of noise, in microseconds each: discrete Laplace and discrete Gaussian at scales from 1 to 1e6, beside the peers' samplers.

"safe" says whether outputs lie on one lattice whatever the data. Ours and opendp's laws are the discrete ones exactly, and our rounded
ones those of continuous noise rounded to integers; python-dp rounds a secure draw to a lattice; diffprivlib gives integers, but
computes them in floating point or by counting coins; numpy's are floats and show the scale of things. Our time includes the entropy, which
is the operating system's. We and numpy draw a million values at a time, the others, which loop, fewer.

Run with `make bench`, or `python benchmarks/bench_noise.py [rounds]`.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from measure import Missing, busy, medians, table, verdict

from tacit.noise import discrete_gaussian, discrete_laplace, rounded_gaussian, rounded_laplace

SCALES = (1, 10, 1000, 10**6)
BULK, LOOP = 1_000_000, 4_000  # draws a turn, in bulk and one by one
TARGET = 1.0  # microseconds
Draw = Callable[[int], Any]


def tacit_draw(kind: str, scale: int) -> tuple[Draw, int]:
    draw = discrete_laplace if kind == "Laplace" else discrete_gaussian
    return lambda turn: draw(scale, size=BULK), BULK


def rounded_draw(kind: str, scale: int) -> tuple[Draw, int]:
    draw = rounded_laplace if kind == "Laplace" else rounded_gaussian
    return lambda turn: draw(scale, size=BULK), BULK


def numpy_draw(kind: str, scale: int) -> tuple[Draw, int]:
    import numpy as np

    generator = np.random.default_rng()
    return lambda turn: (generator.laplace if kind == "Laplace" else generator.normal)(0, scale, BULK), BULK


def opendp_draw(kind: str, scale: int) -> tuple[Draw, int]:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise Missing("not installed") from None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int) if kind == "Laplace" else dp.l2_distance(T=int)
    measurement = (dp.m.make_laplace if kind == "Laplace" else dp.m.make_gaussian)(*space, scale=float(scale))
    zeros = [0] * LOOP
    return lambda turn: measurement(zeros), LOOP


def diffprivlib_draw(kind: str, scale: int) -> tuple[Draw, int]:
    # The package fails to import beside a scikit-learn newer than it knows, but its mechanisms are loaded by then.
    with warnings.catch_warnings(), suppress(ImportError):
        warnings.simplefilter("ignore")
        importlib.import_module("diffprivlib.mechanisms")
    mechanisms = sys.modules.get("diffprivlib.mechanisms")
    if mechanisms is None:
        raise Missing("not installed")
    if kind == "Laplace":
        mechanism = mechanisms.Geometric(epsilon=1 / scale, sensitivity=1)
    elif scale > 1000:
        raise Missing("tosses a coin for each unit of noise: not run")
    else:
        mechanism = mechanisms.GaussianDiscrete(epsilon=1.0, delta=1e-5)
        mechanism._scale = scale
    count = LOOP if kind == "Laplace" else LOOP // scale
    return lambda turn: [mechanism.randomise(0) for _ in range(count)], count


def python_dp_draw(kind: str, scale: int) -> tuple[Draw, int]:
    try:
        from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism
    except ImportError:
        raise Missing("not installed") from None
    sensitivity = scale / 3.73  # with which its analytic calibration comes to the sigma wanted
    mechanism = LaplaceMechanism(epsilon=1 / scale, sensitivity=1) if kind == "Laplace" else GaussianMechanism(1.0, 1e-5, sensitivity)
    return lambda turn: [mechanism.add_noise(0.0) for _ in range(LOOP)], LOOP


CONTENDERS: dict[str, tuple[Callable[[str, int], tuple[Draw, int]], str]] = {
    "tacit": (tacit_draw, "exact"),
    "tacit, rounded": (rounded_draw, "exact"),
    "numpy (float)": (numpy_draw, "no"),
    "python-dp": (python_dp_draw, "yes"),
    "opendp": (opendp_draw, "exact"),
    "diffprivlib": (diffprivlib_draw, "no"),
}


def lazily(maker: Callable[[str, int], tuple[Draw, int]], kind: str, scale: int) -> Draw:
    """A contender whose sampler is made in the first, unmeasured run; its value is the number of draws a turn."""
    made: list[tuple[Draw, int]] = []

    def run(turn: int) -> int:
        if not made:
            made.append(maker(kind, scale))
        made[0][0](turn)
        return made[0][1]

    return run


def single(draw: Callable[[int], int], scale: int, count: int = 20_000) -> float:
    """Microseconds for one value at a time."""
    draw(scale)
    start = time.process_time()
    for _ in range(count):
        draw(scale)
    return (time.process_time() - start) / count * 1e6


def first(draw: Callable[..., Any], scale: int) -> float:
    """Milliseconds for the first draw of a parameter never seen before: what making the table costs."""
    start = time.process_time()
    draw(scale + 1 / 2 + 2.0**-30, size=1)
    return (time.process_time() - start) * 1e3


def main(rounds: int = 3) -> int:
    print(busy())
    rows, slowest = [], 0.0
    for kind in ("Laplace", "Gaussian"):
        for scale in SCALES:
            found = medians({name: lazily(maker, kind, scale) for name, (maker, _) in CONTENDERS.items()}, rounds)
            ours = found["tacit"].seconds / BULK * 1e6
            for each in (ours, found["tacit, rounded"].seconds / BULK * 1e6):
                slowest = max(slowest, each if math.isfinite(each) else math.inf)
            for name, (_, safe) in CONTENDERS.items():
                run = found[name]
                cells = [f"{kind} {scale:g}" if name == "tacit" else "", name, safe]
                if run.failed:
                    rows.append([*cells, "", "", run.failed])
                else:
                    each = run.seconds / run.value * 1e6
                    rows.append([*cells, f"{each:.3f}", f"{each / ours:.1f}", ""])
    table(["", "", "safe", "us a draw", "slower, times", ""], rows)
    for draw in (discrete_laplace, discrete_gaussian):
        print(f"{draw.__name__}: one value at a time {single(draw, 10):.1f} us; first use of a parameter {first(draw, 1000):.1f} ms")
    return 0 if verdict(f"under {TARGET:g} microsecond a draw in bulk at every scale; slowest {slowest:.3f}", slowest < TARGET) else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
