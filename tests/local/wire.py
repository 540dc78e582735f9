"""A second implementation of the wire format, from `docs/local-wire.md` alone and in plain Python, and the writer of its test vectors.

`python tests/local/wire.py` writes `vectors.json` anew; the tests fail where the package no longer reads it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).with_name("vectors.json")


def fingerprint(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:8]


def field(order: int) -> tuple[list[list[int]], list[list[int]]]:
    """Sums and products of the field, by the rule of the page."""
    prime = next(p for p in range(2, order + 1) if order % p == 0)
    degree = next(k for k in range(1, 10) if prime**k == order)
    digits = [[e // prime**k % prime for k in range(degree)] for e in range(order)]

    def number(row: list[int]) -> int:
        return sum(d * prime**k for k, d in enumerate(row))

    plus = [[number([(x + y) % prime for x, y in zip(a, b, strict=True)]) for b in digits] for a in digits]
    for modulus in itertools.product(range(prime), repeat=degree):
        times = []
        for a in digits:
            row = []
            for b in digits:
                wide = [0] * (2 * degree - 1)
                for i, j in itertools.product(range(degree), repeat=2):
                    wide[i + j] += a[i] * b[j]
                for top in range(2 * degree - 2, degree - 1, -1):
                    for i in range(degree):
                        wide[top - degree + i] += wide[top] * modulus[i]
                row.append(number([w % prime for w in wide[:degree]]))
            times.append(row)
        if all(sorted(row[1:]) == list(range(1, order)) for row in times[1:]):
            return plus, times
    raise AssertionError


def point(place: int, order: int, dimension: int) -> list[int]:
    """The vector of a place: the leading 1 as far right as possible first, what follows it counts upwards."""
    free = 0
    while place >= order**free:
        place -= order**free
        free += 1
    return [0] * (dimension - 1 - free) + [1] + [place // order**k % order for k in range(free - 1, -1, -1)]


def supported(protocol: dict[str, Any], payload: bytes) -> list[int] | None:
    """The places that a report supports, or None where it is no report."""
    r = protocol["randomiser"]
    kind, size = r["kind"], r["size"]
    if kind in ("unary", "symmetric-unary", "subset"):
        bits = [payload[v // 8] >> (7 - v % 8) & 1 for v in range(8 * len(payload))]
        if any(bits[size:]) or (kind == "subset" and sum(bits) != r["chosen"]):
            return None
        return [v for v in range(size) if bits[v]]
    if kind == "local-hash":
        a, b, said = (int.from_bytes(payload[i:j], "little") for i, j in ((0, 8), (8, 16), (16, 18)))
        if said >= r["symbols"]:
            return None
        return [v for v in range(size) if ((a * v + b) % 2**64 >> 32) * r["symbols"] >> 32 == said]
    number = int.from_bytes(payload, "little")
    if kind == "response":
        return [number] if number < size else None
    if kind == "hadamard":
        length = 1 << (size - 1).bit_length()
        if number >= 2 * length:
            return None
        return [v for v in range(size) if (number >> 1 & v).bit_count() % 2 == number & 1]
    if kind == "block-hadamard":
        blocks = r["blocks"]
        length = 1 << (-(-size // blocks)).bit_length()
        if number >= blocks * length:
            return None
        block, place = divmod(number, length)
        return [v for v in range(size) if v % blocks == block and (place & (1 + v // blocks)).bit_count() % 2 == 0]
    assert kind == "projective"
    q, t = r["order"], r["dimension"]
    digits = [number // q**k % q for k in range(t - 1, -1, -1)]
    if number >= q**t or next((d for d in digits if d), 0) != 1:
        return None
    plus, times = field(q)
    found = []
    for v in range(size):
        product = 0
        for x, y in zip(point(v, q, t), digits, strict=True):
            product = plus[product][times[x][y]]
        if product == 0:
            found.append(v)
    return found


def main() -> None:
    import base64

    import numpy as np
    import pyarrow as pa

    from tacit import local
    from tacit.noise import test_mode

    texts = ("smile", "wink", "cry", "\N{SLIGHTLY SMILING FACE}", "naïve", "")
    protocols = [
        local.Protocol(300, local.Response(300, 1), 7),
        local.Protocol(texts, local.Response(6, 0.5)),
        local.Protocol(10, local.Unary(10, 1)),
        local.Protocol(10, local.SymmetricUnary(10, 1)),
        local.Protocol(11, local.Subset(11, 1)),
        local.Protocol(texts, local.Hadamard(6, 1)),
        local.Protocol(9, local.LocalHash(9, 1)),
        local.Protocol(13, local.Projective(13, 1, 3, 3)),
        local.Protocol(20, local.Projective(20, 1, 4, 3)),
        local.Protocol(10, local.Projective(10, 2, 9, 2)),
        local.Protocol(texts, local.Projective(6, 1, 5, 2), 2),
        local.Protocol(11, local.BlockHadamard(11, 3, 3)),
    ]
    found = []
    for number, protocol in enumerate(protocols):
        with test_mode(number):
            drawn = protocol.randomiser.privatise(np.arange(6) % protocol.size)
            batch = local.as_batch(protocol, drawn)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        text, rows = protocol.to_json(), protocol.randomiser.to_bytes(drawn)
        reports = []
        for i, row in enumerate(rows):
            payload = row.tobytes()
            sealed = bytes([1]) + fingerprint(text) + (1000 + i).to_bytes(8, "little") + payload
            reports.append(
                {"nonce": 1000 + i, "payload": payload.hex(), "report": sealed.hex(), "supports": supported(json.loads(text), payload)}
            )
        stream = base64.b64encode(sink.getvalue().to_pybytes()).decode()
        found.append({"protocol": text, "fingerprint": fingerprint(text).hex(), "reports": reports, "stream": stream})
    VECTORS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
