"""Who leaks what: the attacks of `tacit selftest` on Tacit and on peers, asked the same questions about the same neighbouring inputs.

Every peer runs in its own environment and answers many times on two inputs that differ in one row; what it said is attacked here, by the
black-box search and by the low bits of its floats, and held against what the peer promises. Inputs are hostile where users' data is: NaN, a
value far out of bounds, one row more. A LEAK is proved, with an error of 1e-6 over the whole table; anything else is only not found.
What a peer has no function for stays empty, and a peer that cannot be installed is named.

Run with `make bench`, or `python benchmarks/bench_leaks.py [samples]`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import environments  # type: ignore[import-not-found]
import numpy as np
from leaks_sampling import PAIRS  # type: ignore[import-not-found]
from measure import table, verdict

from tacit.audit import Claim, attack, held_against
from tacit.audit.mechanisms import bit_attack

HERE = Path(__file__).resolve().parent
#: Adapter of each peer, and the environment it runs in.
PEERS = {"tacit": "", "diffprivlib": "diffprivlib", "opendp": "opendp", "python_dp": "pipeline-dp", "smartnoise": "smartnoise-sql"}
#: A peer that answers through a cluster: thousands of answers take hours, so it is not attacked here.
LEFT_OUT = {"tmlt.analytics": "one answer takes a Spark job of half a minute"}
#: What a reader should know about a cell.
NOTES = (
    "diffprivlib takes the number of rows for public and truncates a sum to it, so 'one row more' is outside of its promise.",
    "opendp's types refuse NaN unless it is imputed first, which is done here.",
    "python-dp promises for one row more or less, so an exchanged row is held against twice its epsilon.",
    "smartnoise-sql promises for one row more or less too, and at a small delta; its mean costs twice its epsilon, as it says itself.",
    "'By low bits': from sign, size and last bit of the float alone.",
)
ERROR = 1e-6 / (2 * len(PEERS) * len(PAIRS))


def answers(name: str, samples: int) -> dict[str, Any]:
    """What an adapter wrote."""
    python = environments.interpreter(PEERS[name]) if PEERS[name] else Path(sys.executable)
    script = HERE / "peers" / f"leaks_{name}.py"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    words = [str(python), str(script), str(samples)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False, env=environment)
    if done.returncode:
        raise environments.Unavailable(f"failed: {(done.stderr.strip().splitlines() or ['it ended without an answer'])[-1][:90]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def attacked(test: dict[str, Any]) -> tuple[str, bool]:
    """The verdict in a few words, and whether the claim fell."""
    claim = Claim.of(test["claim"])
    first, second = (as_array(test[side]) for side in ("first", "second"))
    if len(set(map(str, test["first"]))) == 1 and isinstance(test["first"][0], str):
        return test["first"][0], False
    n, delta = len(first), claim.delta
    found = [
        attack(lambda _: first, lambda _: second, n, confidence=1 - ERROR, delta=delta, seed=1),
        bit_attack(lambda _: first, lambda _: second, n, confidence=1 - ERROR, delta=delta, seed=1),
    ]
    worst = max((held_against(claim, evidence) for evidence in found), key=lambda v: (v.broken, v.evidence.lower))
    by = " by low bits" if worst.broken and worst.evidence is found[1] else ""
    text = f"{worst.evidence.lower:.2f} of {worst.permitted:.2f}"
    return (f"LEAK {text}{by}" if worst.broken else text), worst.broken


def as_array(said: list[Any]) -> Any:
    """Numbers as an array; with a text among them, as they are."""
    return said if any(isinstance(value, str) for value in said) else np.array(said, dtype=np.float64)


def main(samples: int) -> int:
    rows: dict[str, list[str]] = {name: [] for name in (*PAIRS, "a budget of 1")}
    header, leaks, missing = ["epsilon found of epsilon promised"], {}, dict(LEFT_OUT)
    for name in PEERS:
        try:
            said = answers(name, samples)
        except environments.Unavailable as reason:
            missing[name] = str(reason)
            continue
        header.append(f"{name.replace('_', '-')} {said['version']}")
        judged = {test["name"]: attacked(test) for test in said["tests"]}
        leaks[name] = sum(broken for _, broken in judged.values())
        for question in PAIRS:
            rows[question].append(judged.get(question, ("", False))[0])
        rows["a budget of 1"].append(said["budget"])
    table([*header, ""], [[question, *cells, ""] for question, cells in rows.items()])
    for name, reason in missing.items():
        print(f"{name}: not attacked, {reason}")
    print("\n".join(("", *NOTES, "")))
    return 0 if verdict("no claim of Tacit falls", leaks.get("tacit") == 0) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
