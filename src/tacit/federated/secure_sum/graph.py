"""Who masks with whom: a random regular graph, its degree and its threshold.

With few neighbours instead of all others a round costs each client O(log n) keys, shares and masks. The
degree is the least for which the three bad cases below are rare enough (Bell, Bonawitz, Gascon, Lepoint,
Raykova 2020; the tails are exact hypergeometric ones).

>>> found = graph_for(1000, dropouts=0.3, colluding=0.2)
>>> found.degree, found.threshold
(166, 83)
>>> neighbours([3, 5, 8], 2, b"roster")
{3: (5, 8), 5: (3, 8), 8: (3, 5)}
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.errors import ParameterError
from tacit.parameters import count, probability

EXPOSED = (
    2.0**-40
)  # chance, in a round, that secrets of an honest client can be opened by those who collude with the server
STUCK = (
    2.0**-20
)  # chance, in a round, that it cannot be finished although no more dropped out than was allowed for


@dataclass(frozen=True)
class MaskGraph:
    """Degree and threshold for so many clients, with the chances they were chosen for.

    Guarantee
        Statement: except with chance `exposed`, no honest client has `threshold` or more colluding
            neighbours, who could open its secrets with the server; except with chance `divided`, the honest
            survivors hang together by masks, so that the server sees the sum of all of them, with all of
            their noise, and of no part.
        Conditions: at most the stated shares collude and drop out, and neither who colludes nor who drops out
            depends on who is whose neighbour. Under `malicious` the last is not needed: everyone masks with
            everyone, so a server that chooses who drops out cannot part the survivors, and the threshold is
            so high that one which tells clients different lists of survivors cannot open both secrets of one.
        Proved in: hypergeometric tails and a union bound over clients (Bell et al. 2020, Section 3). On the
            circle clients within degree / 2 places are neighbours, so survivors fall apart only where two
            runs of degree / 2 places hold no honest client: a union bound over the places where both runs begin.
            A client without an honest surviving neighbour is one case of this.
    """

    clients: int
    degree: int
    threshold: int
    exposed: float
    stuck: float
    divided: float

    @property
    def complete(self) -> bool:
        """Whether everyone masks with everyone."""
        return self.degree == self.clients - 1


def graph_for(clients: int, dropouts: float, colluding: float, *, malicious: bool = False) -> MaskGraph:
    """The least degree, with its threshold, for so many clients, a share that may drop out and one that may
    collude with the server.

    The threshold is at least half of the degree. `malicious` is for a server that does not keep to the
    protocol, in signed rounds: everyone masks with everyone, with a threshold above half of all neighbours
    and those who collude.

    >>> graph_for(100, dropouts=0.3, colluding=0.2)
    MaskGraph(clients=100, degree=58, threshold=29, exposed=...)
    >>> graph_for(3, dropouts=1 / 3, colluding=0).threshold
    1
    """
    n = count("clients", clients, least=2)
    gone = math.ceil(n * float(probability("dropouts", dropouts)) - 1e-9)
    bad = math.ceil(n * float(probability("colluding", colluding)) - 1e-9)
    for degree in (n - 1,) if malicious else (*range(2, n - 1, 2), n - 1):
        found = _with_degree(n, degree, gone, bad, malicious)
        if found is not None:
            return found
    raise ParameterError(
        f"{n} clients of whom {gone} may drop out and {bad} collude cannot have a secure sum"
        f"{' against a malicious server' if malicious else ''}: allow for fewer, or take more clients"
    )


def _with_degree(n: int, degree: int, gone: int, bad: int, malicious: bool) -> MaskGraph | None:
    divided = 0.0 if degree == n - 1 else n * (n - 1) / 2 * _upper_tail(n, min(n, gone + bad), degree, degree)
    if divided > EXPOSED:
        return None
    for threshold in range(max(1, -(-degree // 2)), degree + 1):
        stuck = n * _upper_tail(n - 1, min(n - 1, gone), degree, degree - threshold + 1)
        if stuck > STUCK:  # grows with the threshold
            return None
        opens = threshold if not malicious else 2 * threshold - degree
        exposed = n * _upper_tail(n - 1, min(n - 1, bad), degree, opens)
        if exposed <= EXPOSED:
            return MaskGraph(n, degree, threshold, exposed, stuck, divided)
    return None


def _upper_tail(people: int, marked: int, drawn: int, least: int) -> float:
    """P[at least so many of the drawn are marked], drawn without replacement, rounded up."""
    if least <= 0:
        return 1.0
    low, high = max(least, drawn - (people - marked), 0), min(drawn, marked)
    if low > high:
        return 0.0

    def log_choose(a: int, b: int) -> float:
        return math.lgamma(a + 1) - math.lgamma(b + 1) - math.lgamma(a - b + 1)

    whole = log_choose(people, drawn)
    terms = (
        math.exp(log_choose(marked, i) + log_choose(people - marked, drawn - i) - whole)
        for i in range(low, high + 1)
    )
    return min(1.0, math.fsum(terms) * (1 + 1e-9))


def neighbours(
    clients: Sequence[int], degree: int, public: bytes, *, of: int | None = None
) -> dict[int, tuple[int, ...]]:
    """The neighbours of each client (or of one), in increasing order: those within degree / 2 places on a
    circle in an order made from public bytes.

    Clients work this out for themselves from a hash of everyone's keys, so no side chooses it alone.

    >>> found = neighbours(range(10), 4, b"seed")
    >>> all(i in found[j] for i in found for j in found[i]), {len(near) for near in found.values()}
    (True, {4})
    """
    n = len(clients)
    if degree >= n - 1:
        everyone = sorted(clients)
        asked = everyone if of is None else [of]
        return {client: tuple(other for other in everyone if other != client) for client in asked}
    circle = _ordered(clients, public)
    half = degree // 2
    found = {}
    for place, client in enumerate(circle):
        if of is not None and client != of:
            continue
        near = [circle[(place + step) % n] for step in range(-half, half + 1) if step]
        found[client] = tuple(sorted(near))
    return found


def _ordered(clients: Sequence[int], public: bytes) -> list[int]:
    """The clients in the order of a hash of each: uniform as far as SHA-256 is random, and the same on every
    machine."""
    return sorted(
        clients, key=lambda client: (hashlib.sha256(public + client.to_bytes(8, "big")).digest(), client)
    )
