"""Shamir's shares of a secret over the field of 2^255 - 19 elements.

A secret is split into shares at given points; any `threshold` of them give it back, fewer say nothing about
it. Secrets are 31 bytes, so that each is an element of the field.

>>> secret = new_secret()
>>> parts = split(secret, threshold=2, points=(1, 2, 3))
>>> join({1: parts[1], 3: parts[3]}) == secret
True
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache

from tacit import noise

PRIME = 2**255 - 19
SECRET = 31  # bytes
SHARE = 32  # bytes


def entropy(size: int) -> bytes:
    """Bytes from the operating system, whatever the mode: in test mode draws repeat, and two clients' keys
    must not.

    >>> len(entropy(31))
    31
    """
    return noise.words(-(-size // 8)).tobytes()[:size] if noise.is_private() else os.urandom(size)


def new_secret() -> bytes:
    """A secret from the operating system's entropy."""
    return entropy(SECRET)


def split(secret: bytes, threshold: int, points: Iterable[int]) -> dict[int, bytes]:
    """Shares of a secret at each point (positive, distinct): values of a random polynomial of degree
    threshold - 1.

    >>> sorted(split(b"x" * SECRET, 2, (4, 7)))
    [4, 7]
    """
    # 48 bytes modulo a 255-bit prime: each coefficient is uniform up to 2^-129
    drawn = entropy(48 * (threshold - 1))
    polynomial = [int.from_bytes(drawn[48 * i : 48 * i + 48], "big") % PRIME for i in range(threshold - 1)]
    constant = int.from_bytes(secret, "big")
    found = {}
    for point in points:
        value = 0
        for coefficient in polynomial:
            value = (value * point + coefficient) % PRIME
        found[point] = ((value * point + constant) % PRIME).to_bytes(SHARE, "big")
    return found


def join(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret whose shares these are, as many as the threshold; None where they are shares of none.

    >>> join({1: (5).to_bytes(32, "big"), 2: (7).to_bytes(32, "big")})[-1]
    3
    """
    points = tuple(sorted(shares))
    total = (
        sum(
            int.from_bytes(shares[point], "big") * weight
            for point, weight in zip(points, weights(points), strict=True)
        )
        % PRIME
    )
    return total.to_bytes(SHARE, "big")[1:] if total < 1 << (8 * SECRET) else None


@lru_cache(maxsize=4096)
def weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights at zero for shares at these points; kept, because clients with the same neighbours
    need the same.

    >>> weights((1, 2)) == (2, PRIME - 1)
    True
    """
    tops, unders = [], []
    for i, point in enumerate(points):
        top = under = 1
        for j, other in enumerate(points):
            if i != j:
                top = top * other % PRIME
                under = under * (other - point) % PRIME
        tops.append(top)
        unders.append(under)
    # one inversion for all (Montgomery): an inversion costs as much as fifty products
    running, prefix = 1, []
    for under in unders:
        prefix.append(running)
        running = running * under % PRIME
    inverse = pow(running, -1, PRIME)
    found = [0] * len(points)
    for i in range(len(points) - 1, -1, -1):
        found[i] = tops[i] * inverse % PRIME * prefix[i] % PRIME
        inverse = inverse * unders[i] % PRIME
    return tuple(found)
