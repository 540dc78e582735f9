"""Clients and servers of pure-ldp and multi-freq-ldpy for frequencies, measured in their own environment; prints one line of JSON.

    python local_frequencies.py VALUES EPSILON

Each is measured on a few people and scaled to a million. A server's time is that of counting and of one estimate of all values. What a
package cannot do with today's versions of its own requirements is told by the name of its error.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

PEOPLE = 1_000_000


def processor(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of some work, and what it gave."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def pure_ldp(kind: str, values: np.ndarray, size: int, epsilon: float) -> tuple[float, float]:
    """Seconds of clients and server of one of pure-ldp's oracles, for a million people."""
    if kind == "response":
        from pure_ldp.frequency_oracles.direct_encoding import DEClient as Client
        from pure_ldp.frequency_oracles.direct_encoding import DEServer as Server

        client, server = Client(epsilon, size), Server(epsilon, size)
    elif kind == "unary":
        from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

        client, server = UEClient(epsilon, size, use_oue=True), UEServer(epsilon, size, use_oue=True)
    elif kind == "local hash":
        from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer

        client, server = LHClient(epsilon, size, use_olh=True), LHServer(epsilon, size, use_olh=True)
    elif kind == "hadamard mechanism":
        from pure_ldp.frequency_oracles.hadamard_mechanism import HadamardMechClient, HadamardMechServer

        client, server = HadamardMechClient(epsilon, size, 1, True), HadamardMechServer(epsilon, size, 1, True)
    else:
        from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer

        server = HadamardResponseServer(epsilon, size)
        client = HadamardResponseClient(epsilon, size, server.get_hash_funcs())
    making, sent = processor(lambda: [client.privatise(int(v) + 1) for v in values])
    counting, _ = processor(lambda: [server.aggregate(one) for one in sent])
    last, _ = processor(lambda: server.estimate_all(range(1, size + 1), suppress_warnings=True))
    return making * PEOPLE / len(values), counting * PEOPLE / len(values) + last


def multi_freq(kind: str, values: np.ndarray, size: int, epsilon: float) -> tuple[float, float]:
    """The same of multi-freq-ldpy, whose functions are compiled on their first call."""
    if kind == "response":
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI as Server
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client as Client
    elif kind == "unary":
        from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

        Client, Server = UE_Client, lambda reports, k, eps: UE_Aggregator_MI(reports, eps)
    elif kind == "local hash":
        from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI as Server
        from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Client as Client
    else:
        from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI as Server
        from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client as Client
    Client(int(values[0]), size, epsilon)
    making, sent = processor(lambda: [Client(int(v), size, epsilon) for v in values])
    counting, _ = processor(lambda: Server(sent, size, epsilon))
    return making * PEOPLE / len(values), counting * PEOPLE / len(values)


#: The oracle, and on how many people it is measured.
ASKED: dict[str, tuple[Callable[..., tuple[float, float]], dict[str, int]]] = {
    "pure-ldp": (
        pure_ldp,
        {"response": 20_000, "unary": 1_000, "local hash": 200, "hadamard mechanism": 5_000, "hadamard response": 5_000},
    ),
    "multi-freq-ldpy": (multi_freq, {"response": 20_000, "unary": 1_000, "local hash": 200, "subset": 500}),
}


def main() -> None:
    size, epsilon = int(sys.argv[1]), float(sys.argv[2])
    warnings.simplefilter("ignore")
    found = []
    for package, (measured, kinds) in ASKED.items():
        for kind, people in kinds.items():
            values = np.random.default_rng(1).integers(0, size, people)
            try:
                clients, server = measured(kind, values, size, epsilon)
                found.append({"package": package, "kind": kind, "clients": clients, "server": server})
            except Exception as error:  # whatever a peer raises is its own
                found.append({"package": package, "kind": kind, "failed": type(error).__name__})
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
