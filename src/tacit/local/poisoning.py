"""What forged reports can do to a result, computed before and checked after: no collector can tell a lie from an unlucky draw.

One forged report moves the count of a value by up to (1 - other) / (held - other), where an honest one moves it by 1 on average: the
smaller epsilon, the more. `shift` says how far a share of forged reports moves estimates, `forge` makes the strongest forgeries, and
`suspicious` counts what honest randomisers would hardly have sent. What it cannot see: forgeries that look like honest reports of the
target, and random ones.

>>> from tacit.local import frequencies
>>> protocol = frequencies(["yes", "no"], epsilon=1)
>>> round(protocol.randomiser.gain, 3), round(shift(protocol, 0.01), 5)
(1.582, 0.01582)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit import noise
from tacit.errors import ParameterError
from tacit.local.hadamard import Hadamard
from tacit.local.hashing import LocalHash
from tacit.local.projective import Projective
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Reports
from tacit.local.response import Response
from tacit.local.subset import Subset
from tacit.local.unary import BitRandomiser, SymmetricUnary, Unary
from tacit.mechanisms import half_width
from tacit.parameters import Number, count, probability


def shift(protocol: Protocol, forged: Number, targets: int = 1) -> float:
    """How far a share of forged reports moves the summed share of so many target values, at most and about.

    >>> from tacit.local import frequencies
    >>> round(shift(frequencies(100, epsilon=1, kind="unary"), 0.01, targets=10), 4)
    0.3164
    """
    randomiser, share = protocol.randomiser, float(probability("forged", forged))
    supported = most_supported(protocol, targets)
    return share * (supported - targets * randomiser.other) / randomiser.gap


def most_supported(protocol: Protocol, targets: int) -> float:
    """How many of so many targets one forged report can support."""
    wanted = count("targets", targets)
    match protocol.randomiser:
        case Response():
            return 1.0
        case Unary() | SymmetricUnary():
            return float(wanted)
        case Subset() as subset:
            return float(min(wanted, subset.chosen))
        case Hadamard():
            return 1.0 if wanted == 1 else wanted / 2 + math.sqrt(wanted)  # about what the best place gives for random targets
        case LocalHash() as hashing:
            return float(wanted) if wanted <= 4 else wanted / hashing.symbols + 4 * math.sqrt(wanted)
        case Projective() as geometry:
            # so many hyperplanes always share a point
            return float(wanted) if wanted < geometry.dimension else wanted / geometry.order + 4 * math.sqrt(wanted)
    return float(wanted)


def forged_for(protocol: Protocol, moved: Number, targets: int = 1) -> float:
    """The share of forged reports that moves the summed share of targets by this much.

    >>> from tacit.local import frequencies
    >>> round(forged_for(frequencies(["yes", "no"], epsilon=1), 0.01), 5)
    0.00632
    """
    return float(moved) / shift(protocol, 1, targets)


def forge(protocol: Protocol, targets: Sequence[int], n: int) -> Reports:
    """n forged reports that support as many of the targets as they can: the maximal gain attack (Cao, Jia, Gong 2021).

    >>> from tacit.local import frequencies
    >>> protocol = frequencies(8, epsilon=1, kind="unary")
    >>> np.unpackbits(forge(protocol, [1, 2], 1)[0]).tolist()
    [0, 1, 1, 0, 0, 0, 0, 0]
    """
    randomiser, wanted = protocol.randomiser, np.asarray(list(targets), dtype=np.int64)
    if not len(wanted) or wanted.min() < 0 or wanted.max() >= protocol.size:
        raise ParameterError("targets must be places in the list of values, at least one")
    match randomiser:
        case Response():
            return np.resize(wanted, n).astype(np.min_scalar_type(randomiser.symbols - 1))
        case Unary() | SymmetricUnary():
            bits = np.zeros((n, protocol.size), dtype=np.bool_)
            bits[:, wanted] = True
            return np.packbits(bits, axis=1)
        case Subset():
            bits = np.zeros((n, protocol.size), dtype=np.bool_)
            first = np.concatenate([wanted, np.setdiff1d(np.arange(protocol.size), wanted)])[: randomiser.chosen]
            bits[:, first] = True
            return np.packbits(bits, axis=1)
        case _:
            return _searched(protocol, wanted, n)


def _searched(protocol: Protocol, wanted: np.ndarray, n: int, tries: int = 2000) -> Reports:
    """The reports among many honest ones of the targets that support most of them."""
    randomiser = protocol.randomiser
    drawn = randomiser.privatise(np.resize(wanted, tries))
    scores = np.empty(tries)
    for place in range(tries):
        table = randomiser.fresh()
        randomiser.add(table, drawn[place : place + 1])
        scores[place] = randomiser.support(table, 1)[wanted].sum()
    best = np.flatnonzero(scores == scores.max())
    chosen: Reports = drawn[best[noise.uniform_integers(len(best), n)]]
    return chosen


@dataclass(frozen=True)
class Suspicion:
    """How many reports a check looked at, how many honest randomisers would hardly have sent, and how many it would flag by chance."""

    reports: int
    flagged: int
    expected: float
    note: str


def suspicious(protocol: Protocol, reports: Reports, chance: float = 1e-6) -> Suspicion:
    """Reports that an honest device sends with at most this chance, by how many values they support.

    Unary reports have about size / (e^epsilon + 1) bits; forgeries that set only the targets, or all bits, have too few or too many. Other
    randomisers' reports are all equally likely for some value, so nothing is seen there.

    >>> from tacit.local import frequencies
    >>> protocol = frequencies(200, epsilon=1, kind="unary")
    >>> honest = protocol.randomiser.privatise(np.zeros(1000, dtype=int))
    >>> suspicious(protocol, np.concatenate([honest, forge(protocol, [3, 4], 10)])).flagged
    10
    """
    randomiser = protocol.randomiser
    if not isinstance(randomiser, BitRandomiser) or isinstance(randomiser, Subset):
        return Suspicion(len(reports), 0, 0.0, "every report is as likely as any other for some value; forgeries cannot be told")
    bits = np.bitwise_count(np.asarray(reports, dtype=np.uint8)).sum(axis=1, dtype=np.int64)
    mean = (protocol.size - 1) * randomiser.other + randomiser.held
    spread = math.sqrt((protocol.size - 1) * randomiser.other * (1 - randomiser.other) + randomiser.held * (1 - randomiser.held))
    wide = float(half_width([1.0], "gaussian", 1 - chance)[0]) * spread + 1
    flagged = int(np.count_nonzero(np.abs(bits - mean) > wide))
    note = "reports with too few or too many bits; forged ones with the usual number of bits are not seen"
    return Suspicion(len(reports), flagged, chance * len(reports), note)
