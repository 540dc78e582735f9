"""Secure sums: processor seconds of a client and of the server, beside Flower's SecAgg+ in the same process.

One thread. A client's figure is the slowest client's over all four phases; the server's is all of its work on
messages, sums and masks; transport is not in either. "Round" is the sum over all clients and the server,
which is what a simulation on one core pays. Flower's clients run its own `secaggplus_mod` steps; its server's
steps are those of its workflow, called one by one, without transport.

    .venv/bin/python benchmarks/bench_secure_sum.py            # `--alone` leaves Flower out
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import importlib
import logging
import math
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tacit.federated import Encoding, SumClient, SumRound, SumServer

MODEL = bytes(32)
T = TypeVar("T")
#: clients, length, degree, threshold, lost before they send a vector, and with Flower beside it
CASES = [
    (20, 1_000_000, 19, 10, 0, True),
    (50, 10_000, 49, 25, 0, True),
    (50, 1_000_000, 49, 25, 0, False),
    (100, 1_000_000, 58, 29, 30, False),
    (100, 10_000, 58, 29, 30, False),
    (1000, 1_000, 166, 83, 300, False),
]
#: What Flower 1.41 took when it was measured first (specification: processor seconds of a round, other
#: machine).
QUOTED = {(20, 1_000_000): 5.2, (50, 10_000): 31.6}
LEAST = {(20, 1_000_000): 5, (50, 10_000): 50}


class Clock:
    """Processor seconds by who worked."""

    def __init__(self) -> None:
        self.spent: dict[object, float] = {}

    def __call__(self, who: object, work: Callable[..., T], *arguments: Any) -> T:
        start = time.process_time()
        found = work(*arguments)
        self.spent[who] = self.spent.get(who, 0.0) + time.process_time() - start
        return found

    @property
    def server(self) -> float:
        return self.spent["server"]

    @property
    def client(self) -> float:
        return max(seconds for who, seconds in self.spent.items() if who != "server")

    @property
    def round(self) -> float:
        return sum(self.spent.values())


def ours(clients: int, length: int, degree: int, threshold: int, lost: int, bits: int = 20) -> Clock:
    """One round; the sum is checked."""
    about = SumRound(1, bytes(32), clients, max(2, clients - lost), degree, threshold, length, bits)
    clock, server = Clock(), SumServer(about, MODEL)
    people = {i: clock(i, SumClient, i, about) for i in range(clients)}
    vector = (
        np.random.default_rng(1).integers(0, 1 << bits, length).astype(np.uint16 if bits <= 16 else np.uint32)
    )
    for i, person in people.items():
        clock("server", server.receive, i, clock(i, person.keys))
    for i, message in clock("server", server.close).items():
        clock("server", server.receive, i, clock(i, people[i].shares, message))
    for i, message in clock("server", server.close).items():
        if i >= lost:
            clock("server", server.receive, i, clock(i, people[i].masked, message, vector, MODEL))
    for i, message in clock("server", server.close).items():
        clock("server", server.receive, i, clock(i, people[i].unmask, message))
    clock("server", server.close)
    assert np.array_equal(server.total, (vector.astype(np.uint64) * (clients - lost)) % (1 << bits))
    return clock


def flower(clients: int, length: int, shares: int, threshold: int) -> Clock:
    """One round of SecAgg+ with its own functions, everyone masking with everyone and nobody lost."""
    logging.disable(logging.CRITICAL)
    from flwr.app import ConfigRecord
    from flwr.common import bytes_to_ndarray, ndarrays_to_parameters
    from flwr.common.secure_aggregation.crypto.shamir import combine_shares
    from flwr.common.secure_aggregation.ndarrays_arithmetic import (
        get_parameters_shape,
        parameters_addition,
        parameters_mod,
        parameters_subtraction,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import Key
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    mod = importlib.import_module(
        "flwr.client.mod.secure_aggregation.secaggplus_mod"
    )  # its package exports a function of this name
    modulus = 1 << 32
    setup = {
        Key.SAMPLE_NUMBER: clients, Key.SHARE_NUMBER: shares + 1, Key.THRESHOLD: threshold, Key.CLIPPING_RANGE: 8.0,
        Key.TARGET_RANGE: 1 << 20, Key.MOD_RANGE: modulus, Key.MAX_WEIGHT: 1.0,
    }  # fmt: skip
    clock, states = Clock(), {i: mod.SecAggPlusState() for i in range(clients)}
    for i, state in states.items():
        state.nid = i
    keys = {i: clock(i, mod._setup, state, ConfigRecord(setup)) for i, state in states.items()}
    listed = {str(i): [found[Key.PUBLIC_KEY_1], found[Key.PUBLIC_KEY_2]] for i, found in keys.items()}
    sent = {i: clock(i, mod._share_keys, state, ConfigRecord(listed)) for i, state in states.items()}
    boxes: dict[int, tuple[list[bytes], list[int]]] = {i: ([], []) for i in states}
    for source, found in sent.items():
        for to, sealed in zip(found[Key.DESTINATION_LIST], found[Key.CIPHERTEXT_LIST], strict=True):
            boxes[to][0].append(sealed)
            boxes[to][1].append(source)
    update = ndarrays_to_parameters([np.random.default_rng(1).uniform(-1, 1, length)])
    total: Any = None
    for i, state in states.items():
        box = ConfigRecord({Key.CIPHERTEXT_LIST: boxes[i][0], Key.SOURCE_LIST: boxes[i][1]})
        found = clock(i, mod._collect_masked_vectors, state, box, 1, update)
        vector = clock("server", lambda f=found: [bytes_to_ndarray(raw) for raw in f[Key.MASKED_PARAMETERS]])
        total = vector if total is None else clock("server", parameters_addition, total, vector)
    total = clock("server", parameters_mod, total, modulus)
    collected: dict[int, list[bytes]] = {i: [] for i in states}
    for i, state in states.items():
        asked = ConfigRecord({Key.ACTIVE_NODE_ID_LIST: list(states), Key.DEAD_NODE_ID_LIST: []})
        found = clock(i, mod._unmask, state, asked)
        for owner, share in zip(found[Key.NODE_ID_LIST], found[Key.SHARE_LIST], strict=True):
            collected[owner].append(share)
    for shares_of_one in collected.values():
        secret = clock("server", combine_shares, shares_of_one)
        mask = clock("server", pseudo_rand_gen, secret, modulus, get_parameters_shape(total))
        total = clock("server", parameters_subtraction, total, mask)
    clock("server", parameters_mod, total, modulus)
    return clock


def encoding(length: int) -> tuple[float, float, float]:
    """Seconds to encode an update with each kind of noise, and to decode a sum."""
    found = []
    update = np.random.default_rng(2).normal(size=length)
    for kind in ("skellam", "discrete-gaussian"):
        plan = Encoding(size=length, clip=1.0, clients=100, noise_multiplier=4.0, survivors=70, noise=kind)  # type: ignore[arg-type]
        plan.encode(update, b"seed")  # tables are built once
        start = time.process_time()
        vector = plan.encode(update, b"seed")
        found.append(time.process_time() - start)
    start = time.process_time()
    plan.decode(vector, b"seed")
    return found[0], found[1], time.process_time() - start


def bytes_sent(clients: int, length: int, degree: int, bits: int) -> float:
    """What one client sends and receives in a round, over a plain vector of 4-byte floats."""
    sent = 4 * 25 + 64 + 32 + degree * 144 + length * -(-bits // 8) + 4 + degree * 41
    received = 3 * 25 + 4 + clients * 72 + 4 + degree * 88 + 4 + clients * 8
    return (sent + received) / (4 * length)


def main() -> None:
    beside, targets = "--alone" not in sys.argv, dict[str, bool]()
    names = (
        "clients",
        "length",
        "degree",
        "lost",
        "client",
        "server",
        "round",
        "Flower",
        "ratio",
        "quoted",
        "bytes",
    )
    print(
        "".join(
            f"{name:>{width}}" for name, width in zip(names, (8, 10, 8, 6, 9, 9, 9, 9, 8, 8, 7), strict=True)
        )
    )
    for clients, length, degree, threshold, lost, compared in CASES:
        mine = ours(clients, length, degree, threshold, lost)
        theirs = flower(clients, length, degree, threshold).round if compared and beside else math.nan
        quoted = QUOTED.get((clients, length), math.nan)
        columns = f"{clients:>8}{length:>10}{degree:>8}{lost:>6}{mine.client:>9.3f}{mine.server:>9.3f}{mine.round:>9.3f}{theirs:>9.2f}"
        print(
            f"{columns}{theirs / mine.round:>8.1f}{quoted:>8.1f}{bytes_sent(clients, length, degree, 20):>7.2f}",
            flush=True,
        )
        if (clients, length, lost) == (100, 1_000_000, 30):
            targets["a client of 100, a million numbers, 30 lost: .3 s"] = mine.client <= 0.3
            targets["the server of the same: 5 s"] = mine.server <= 5.0
        if compared and beside:
            least = LEAST[clients, length]
            targets[f"{least} times Flower with {clients} clients and {length:,} numbers"] = (
                theirs >= least * mine.round
            )
    skellam, gaussian, back = encoding(1_000_000)
    print(
        f"encoding a million numbers: Skellam {skellam:.3f} s, discrete Gaussian {gaussian:.3f} s; decoding {back:.3f} s\n"
    )
    for target, met in targets.items():
        print(f"{'met' if met else 'MISSED':<8}{target}")
    sys.exit(not all(targets.values()))


if __name__ == "__main__":
    main()
