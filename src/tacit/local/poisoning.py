"""What forged reports can do to a result, computed before and checked after: no collector can tell a lie from an unlucky draw.

One forged report moves the count of a value by up to (1 - other) / (held - other), where an honest one moves it by 1 on average: the
smaller epsilon, the more. `shift` says how far a share of forged reports moves estimates, and `forge` makes them in three ways:

- "maximal": again and again the report that supports most targets (Cao, Jia, Gong 2021).
- "hidden": as strong, but made so that the checks below see nothing: the usual number of bits, fresh hash functions, all places.
- "random": honest reports of a random target, which gain no more than as many honest people would.

`suspicious` counts what honest randomisers would hardly have sent: wrong numbers of bits, hash functions that come again, reports that come
too often, values that more support than can be. What it cannot see is hidden and random forgeries, and it says so.

>>> from tacit.local import frequencies
>>> protocol = frequencies(["yes", "no"], epsilon=1)
>>> round(protocol.randomiser.gain, 3), round(shift(protocol, 0.01), 5)
(1.582, 0.01582)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.errors import ParameterError
from tacit.local.hadamard import BlockHadamard, Hadamard
from tacit.local.hashing import LocalHash
from tacit.local.projective import Projective
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Randomiser, Reports
from tacit.local.response import Response
from tacit.local.subset import Subset
from tacit.local.unary import BitRandomiser, SymmetricUnary, Unary
from tacit.mechanisms import half_width
from tacit.parameters import Number, count, probability

How = Literal["maximal", "hidden", "random"]


def shift(protocol: Protocol, forged: Number, targets: int = 1, how: How = "maximal") -> float:
    """How far a share of forged reports moves the summed share of so many target values, at most and about.

    >>> from tacit.local import frequencies
    >>> round(shift(frequencies(100, epsilon=1, kind="unary"), 0.01, targets=10), 4)
    0.3164
    """
    randomiser, share = protocol.randomiser, float(probability("forged", forged))
    if _known(how) == "random":
        return share  # each counts as one person who holds a target
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
        case Hadamard() | BlockHadamard():
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


def forge(protocol: Protocol, targets: Sequence[int], n: int, how: How = "maximal") -> Reports:
    """n forged reports of the targets' places; the module says how they are made.

    >>> from tacit.local import frequencies
    >>> protocol = frequencies(8, epsilon=1, kind="unary")
    >>> np.unpackbits(forge(protocol, [1, 2], 1)[0]).tolist()
    [0, 1, 1, 0, 0, 0, 0, 0]
    """
    randomiser, wanted = protocol.randomiser, np.asarray(list(targets), dtype=np.int64)
    if not len(wanted) or wanted.min() < 0 or wanted.max() >= protocol.size:
        raise ParameterError("targets must be places in the list of values, at least one")
    count("n", n, least=0)
    if _known(how) == "random":
        return randomiser.privatise(wanted[noise.uniform_integers(len(wanted), n)])
    match randomiser:
        case Response():
            return np.resize(wanted, n).astype(np.min_scalar_type(randomiser.symbols - 1))
        case BitRandomiser():
            return _bits(randomiser, wanted, n, hidden=how == "hidden")
        case _:
            return _searched(protocol, wanted, n, hidden=how == "hidden")


def _known(how: str) -> str:
    if how not in ("maximal", "hidden", "random"):
        raise ParameterError(f"how must be maximal, hidden or random, not {how!r}")
    return how


def _bits(randomiser: BitRandomiser, wanted: NDArray[np.int64], n: int, *, hidden: bool) -> Reports:
    """Rows with the targets' bits; as many others as honest reports have where it is hidden, as many as there must be, or none."""
    if hidden:
        # honest reports of targets, in which a target's zero changes places with a one elsewhere while there are any
        rows = np.unpackbits(randomiser.privatise(np.resize(wanted, n)), axis=1, count=randomiser.size).astype(np.bool_)
        missing = np.count_nonzero(~rows[:, wanted], axis=1)
        rows[:, wanted] = True
        free = rows.copy()
        free[:, wanted] = False
        order = np.argsort(np.where(free, noise.words(rows.size).reshape(rows.shape) >> np.uint64(1), np.uint64(2**64 - 1)), axis=1)
        gone = np.arange(randomiser.size) < np.minimum(missing, np.count_nonzero(free, axis=1))[:, None]
        away = np.zeros_like(rows)
        np.put_along_axis(away, order, gone, axis=1)
        rows &= ~away
        if isinstance(randomiser, Subset):  # more targets than a subset has
            rows &= np.cumsum(rows, axis=1) <= randomiser.chosen
        return np.packbits(rows, axis=1)
    bits = np.zeros((n, randomiser.size), dtype=np.bool_)
    if isinstance(randomiser, Subset):
        wanted = np.concatenate([wanted, np.setdiff1d(np.arange(randomiser.size), wanted)])[: randomiser.chosen]
    bits[:, wanted] = True
    return np.packbits(bits, axis=1)


def _searched(protocol: Protocol, wanted: NDArray[np.int64], n: int, *, hidden: bool, tries: int = 2000) -> Reports:
    """The one report among many honest ones of the targets that supports most of them; a hidden forger searches anew for each report."""
    randomiser = protocol.randomiser
    if not hidden:
        drawn = randomiser.privatise(np.resize(wanted, tries))
        scores = randomiser.supporting(drawn, wanted).sum(axis=1)
        return np.repeat(drawn[int(scores.argmax())][None], n)
    each = max(8, min(200, (1 << 21) // max(1, n * len(wanted))))
    found, most = randomiser.privatise(np.resize(wanted, n)), np.full(n, -1)
    for _ in range(each):
        drawn = randomiser.privatise(np.resize(wanted, n))
        scores = randomiser.supporting(drawn, wanted).sum(axis=1)
        found[scores > most] = drawn[scores > most]
        most = np.maximum(most, scores)
    return found


@dataclass(frozen=True)
class Suspicion:
    """How many reports a check looked at, how many honest randomisers would hardly have sent, and how many it would flag by chance.

    `values` is how many values are supported by more or fewer reports than any crowd of honest people would give them.
    """

    reports: int
    flagged: int
    expected: float
    note: str
    values: int = 0


def suspicious(protocol: Protocol, reports: Reports, chance: float = 1e-6) -> Suspicion:
    """Reports that honest devices send with at most this chance, whatever they hold.

    Unary reports have about size / (e^epsilon + 1) bits; forgeries that set only the targets, or all bits, have too few or too many. Hash
    functions are drawn from 2^128 and never come twice. Other reports are one of a known number of places, each with a probability
    that no value raises above a bound, so one that comes more often than that was sent on purpose.

    >>> from tacit.local import frequencies
    >>> protocol = frequencies(200, epsilon=1, kind="unary")
    >>> honest = protocol.randomiser.privatise(np.zeros(1000, dtype=int))
    >>> suspicious(protocol, np.concatenate([honest, forge(protocol, [3, 4], 10)])).flagged
    10
    """
    randomiser, n = protocol.randomiser, len(reports)
    if n == 0:
        return Suspicion(0, 0, 0.0, "there are no reports")
    values = _impossible(randomiser, reports, chance)
    match randomiser:
        case Unary() | SymmetricUnary():
            bits = np.bitwise_count(np.asarray(reports, dtype=np.uint8)).sum(axis=1, dtype=np.int64)
            mean = (protocol.size - 1) * randomiser.other + randomiser.held
            spread = math.sqrt((protocol.size - 1) * randomiser.other * (1 - randomiser.other) + randomiser.held * (1 - randomiser.held))
            wide = float(half_width([1.0], "gaussian", 1 - chance)[0]) * spread + 1
            flagged = int(np.count_nonzero(np.abs(bits - mean) > wide))
            note = "reports with too few or too many bits; forged ones with the usual number of bits are not seen"
            return Suspicion(n, flagged, chance * n, note, values)
        case LocalHash():
            functions = np.stack([reports["a"], reports["b"]], axis=1)
            _, times = np.unique(functions, axis=0, return_counts=True)
            note = "reports with the hash function of another one; forged ones that each search a function of their own are not seen"
            return Suspicion(n, int(times[times > 1].sum()), n * n * 2.0**-128, note, values)
        case Hadamard() | BlockHadamard() | Projective():
            flagged = _crowded(np.asarray(reports, dtype=np.int64), _likeliest(randomiser), chance / randomiser.symbols)
            note = "reports that come more often than any values explain; forged ones spread over all that support a target are not seen"
            return Suspicion(n, flagged, chance, note, values)
    return Suspicion(n, 0, 0.0, "every report is as likely as any other for some value; forgeries cannot be told", values)


def _likeliest(randomiser: Hadamard | BlockHadamard | Projective) -> float:
    """The largest probability of one report, over all values."""
    match randomiser:
        case Hadamard():
            return randomiser.held / randomiser.places
        case BlockHadamard():
            return randomiser.odds * randomiser.rare
    points = (randomiser.order**randomiser.dimension - 1) // (randomiser.order - 1)
    plane = (randomiser.order ** (randomiser.dimension - 1) - 1) // (randomiser.order - 1)
    return float(randomiser.odds / (randomiser.odds * plane + points - plane))


def _crowded(reports: NDArray[np.int64], most: float, chance: float) -> int:
    """How many reports are more of one kind than chance explains: beyond the mean, where a count's tail is below `chance`.

    Whatever people hold, a kind's count is at most, stochastically, a binomial one with the largest probability; Bernstein's inequality
    bounds that.
    """
    n = len(reports)
    _, times = np.unique(reports, return_counts=True)
    level = math.log(1 / chance)
    limit = n * most + level / 3 + math.sqrt(level**2 / 9 + 2 * n * most * (1 - most) * level)
    over = times[times > limit]
    return int(np.ceil(over - n * most).sum())


def _impossible(randomiser: Randomiser, reports: Reports, chance: float) -> int:
    """How many values have fewer supporters than if no one held them, or more than if all did, beyond chance for all values at once."""
    table, n = randomiser.fresh(), len(reports)
    randomiser.add(table, reports)
    share = randomiser.estimates(table, n)[0]
    wide = float(half_width([1.0], "gaussian", 1 - chance / randomiser.size)[0])
    edges = [math.sqrt(max(randomiser.variance(n, held), 1 / (n * randomiser.gap) ** 2)) for held in (0, 1)]
    if isinstance(randomiser, BlockHadamard):  # all may hold values of one block
        edges = [math.sqrt(randomiser._spread(1.0, held) / n) + 1 / (n * randomiser.gap) for held in (0.0, 1.0)]
    return int(np.count_nonzero((share < -wide * edges[0]) | (share > 1 + wide * edges[1])))
