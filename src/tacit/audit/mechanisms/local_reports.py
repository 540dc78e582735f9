"""Attack the reports of a local protocol: what one device sends, what it sends over many days, and what a shuffled batch holds.

The device may be Tacit's own randomiser or a client that was written elsewhere: a function that takes the values of one new device, day by
day, and returns its reports as bytes. What is looked at: which of two values each report speaks for, how many reports were none, how often
two differ, the bytes themselves, the nonce and, of hashed reports, the hash function. A client that chooses any of these by the value
shows it here. Like every attack, one that fails proves nothing.

>>> from tacit.local import frequencies, to_report
>>> protocol = frequencies(["yes", "no", "maybe"], epsilon=1)
>>> audit_reports(protocol, trials=4000, seed=1).broken
False
>>> def forgetful(values):  # draws anew every day, at the price of one report
...     return [to_report(protocol, value) for value in values]
>>> audit_reports(protocol, forgetful, days=30, trials=400, seed=1).broken
True
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Shuffled
from tacit.audit.claim import Claim, held_against
from tacit.audit.mechanisms.report import MechanismReport
from tacit.audit.mechanisms.search import Terms, attack
from tacit.errors import ParameterError
from tacit.noise import test_mode
from tacit.parameters import count, probability

if TYPE_CHECKING:  # the room of local reports needs Arrow, which other attacks do without
    from tacit.local import Label, Protocol

#: The values of one new device, day by day, to its reports.
Device = Callable[[Sequence[Any]], Sequence[bytes]]
Rows = NDArray[np.int64]
LOST = 1e-3  # the delta at which a shuffled batch is attacked: what some thousand batches can show
BYTES = 8  # of a payload that are looked at one by one


def audit_reports(
    protocol: Protocol, device: Device | None = None, *, days: int = 1, crowd: int | None = None, trials: int = 20_000,
    values: tuple[Label, Label] | None = None, confidence: float = 0.95, seed: int | None = None,
) -> MechanismReport:
    """Attack reports of two values of the protocol's list, and hold what is found against the protocol's price.

    Without a `device` the protocol's own randomiser is attacked. With one, `days` reports of each new device are looked at together, all at
    the price of one report: a device that memorises keeps it, and one that draws again does not. With `crowd`, what is seen is the counts
    of a shuffled batch of so many reports, the others' all of the first value. `values` names the pair; otherwise the list's first value
    is tried against its second and its last.

    >>> from tacit.local import frequencies
    >>> found = audit_reports(frequencies(2, epsilon=1), crowd=20, trials=4000, seed=3)
    >>> found.broken, found.worst.evidence.lower < found.worst.permitted < 1
    (False, True)
    """
    if protocol.randomiser.answered_by != "Estimates":
        raise ParameterError("reports of this protocol support no single values; attack its randomiser with audit_mechanism")
    if count("days", days) > 1 and device is None:
        raise ParameterError("days need a device: a function of the values of one new device, day by day, that returns its reports")
    if crowd is not None and (days > 1 or device is not None):
        raise ParameterError("a crowd is that of the protocol's own reports, one of each person")
    n, wrong = count("trials", trials, least=40), 1 - float(probability("confidence", confidence))
    claim, delta = Claim.of(epsilon=float(protocol.randomiser.epsilon), adjacency=Adjacency.REPLACE_ONE), 0.0
    if crowd is not None:
        least = count("crowd", crowd)
        claim, delta = Claim(Shuffled(protocol.event, least), Adjacency.REPLACE_ONE, f"a shuffled batch of {least:,} reports"), LOST
    pairs = _pairs(protocol, values)
    verdicts = []
    for i, pair in enumerate(pairs):
        own_seed = None if seed is None else seed + 7919 * i
        with contextlib.nullcontext() if own_seed is None else test_mode(own_seed):
            if crowd is None:
                first, second = (_seen(protocol, device, days, pair, own, n) for own in pair)
                looks = {"all that is sent": slice(None), "what reports speak for": slice(0, 4)}
            else:
                first, second = (_crowded(protocol, crowd, pair, own, n) for own in pair)
                looks = {"shuffled batches": slice(None)}
        for what, columns in looks.items():
            # all looks are at the same samples: each of their errors is paid for
            terms: Terms = {"delta": delta, "confidence": 1 - wrong / len(pairs) / len(looks), "seed": own_seed}
            terms |= {"game": f"one person's value replaced, {what}; places {pair[0]} and {pair[1]} of the list"}
            here, there = (partial(_drawn, _one_number(rows[:, columns])) for rows in (first, second))
            verdicts.append(held_against(claim, attack(here, there, n, **terms)))
    labels = tuple(f"places {first} and {second}" for first, second in pairs)
    return MechanismReport(claim, tuple(verdicts), (), (), None, labels, float(confidence))


def _pairs(protocol: Protocol, values: tuple[Label, Label] | None) -> list[tuple[int, int]]:
    if values is None:
        return list(dict.fromkeys([(0, 1), (0, protocol.size - 1)]))
    first, second = (int(protocol.place(value)) for value in values)
    if len(values) != 2 or first == second:
        raise ParameterError("values must be two different values of the protocol's list")
    return [(first, second)]


def _drawn(rows: Rows, _: int) -> Rows:
    """Samples that were drawn before."""
    return rows


def _one_number(rows: Rows) -> Rows:
    """Few small counts as one number each, so that every combination is an outcome."""
    most = int(rows.max(initial=0)) + 1
    return np.asarray(rows @ most ** np.arange(4)) if rows.shape[1] == 4 and most < 1 << 12 else rows


def _seen(protocol: Protocol, device: Device | None, days: int, pair: tuple[int, int], own: int, n: int) -> Rows:
    """A row for each new device: reports for the first value only, for the second only, for both, for none of them, reports that are none,
    different payloads; then payload, functions, nonce and length of the first."""
    if device is None:
        payloads = protocol.randomiser.to_bytes(protocol.randomiser.privatise(np.full(n, own)))
        said = _coded(_spoken(protocol, payloads, pair))
        return np.hstack([said, payloads[:, :BYTES].astype(np.int64), _functions(protocol, payloads, pair)])
    value = protocol.labels[own]
    sent = [[bytes(one) for one in device([value] * days)] for _ in range(n)]
    payloads, nonces, whole = _parsed(protocol, [one for reports in sent for one in reports])
    who = np.repeat(np.arange(n), [len(reports) for reports in sent])
    said = np.zeros((n, 4), dtype=np.int64)
    np.add.at(said, who[whole], _coded(_spoken(protocol, payloads[whole], pair)))
    # of each device the first report that is one
    places, devices = np.flatnonzero(whole), who[whole]
    first, none = np.full(n, -1), np.bincount(who[~whole], minlength=n)
    first[devices[::-1]] = places[::-1]
    shown = np.where(first[:, None] < 0, 0, payloads[first])
    number = np.where(first < 0, 0, nonces[first]).astype(np.uint64)
    more = [_different(payloads[whole], devices, n), _different(nonces[whole][:, None], devices, n), none]
    more += [(number & np.uint64(0xFF)).astype(np.int64), (number >> np.uint64(56)).astype(np.int64)]
    more += [np.array([sum(map(len, reports)) for reports in sent])]
    return np.hstack([said, np.stack(more, axis=1), shown[:, :BYTES].astype(np.int64), _functions(protocol, shown, pair)])


def _parsed(protocol: Protocol, sent: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.bool_]]:
    """Payloads and nonces of what was sent, and which of it are reports."""
    from tacit.local import HEAD, sealed

    width = protocol.randomiser.width
    length, head = HEAD + width, sealed(protocol, b"")[:9]
    right = np.array([len(one) == length and one[:9] == head for one in sent], dtype=np.bool_)
    rows = np.frombuffer(b"".join(one if good else bytes(length) for one, good in zip(sent, right, strict=True)), dtype=np.uint8)
    rows = rows.reshape(len(sent), length)
    payloads = np.ascontiguousarray(rows[:, HEAD:])
    return payloads, np.ascontiguousarray(rows[:, 9:HEAD]).view("<u8").ravel(), right & protocol.randomiser.from_bytes(payloads)[1]


def _different(rows: NDArray[Any], devices: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """How many different rows each device has."""
    if not len(rows):
        return np.zeros(n, dtype=np.int64)
    which = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return np.bincount(np.unique(np.stack([devices, which]), axis=1)[0], minlength=n)


def _spoken(protocol: Protocol, payloads: NDArray[np.uint8], pair: tuple[int, int]) -> NDArray[np.int64]:
    """For each report, whether it supports the first and the second value, as 0 to 3."""
    found = protocol.randomiser.supporting(protocol.randomiser.from_bytes(payloads)[0], np.array(pair))
    return np.asarray(found.astype(np.int64) @ [1, 2])


def _coded(spoken: NDArray[np.int64]) -> Rows:
    return np.asarray(spoken[:, None] == [1, 2, 3, 0], dtype=np.int64)


def _functions(protocol: Protocol, payloads: NDArray[np.uint8], pair: tuple[int, int]) -> Rows:
    """Of hashed reports, the symbols of the two values under each report's function, which it must not choose by the value."""
    from tacit.local import LocalHash

    randomiser = protocol.randomiser
    if not isinstance(randomiser, LocalHash):
        return np.empty((len(payloads), 0), dtype=np.int64)
    found = randomiser.from_bytes(payloads)[0]
    hashed = [randomiser.hashed(found["a"], found["b"], np.full(len(payloads), v, dtype=np.uint64)) for v in pair]
    return np.asarray(np.stack(hashed, axis=1).astype(np.int64))


def _crowded(protocol: Protocol, crowd: int, pair: tuple[int, int], own: int, n: int) -> Rows:
    """The supports of the two values in shuffled batches in which one person holds `own` and all others the first value."""
    randomiser, found = protocol.randomiser, np.empty((n, 2), dtype=np.int64)
    held = np.full(crowd, pair[0])
    held[0] = own
    block = max(1, (1 << 18) // crowd)
    for start in range(0, n, block):
        many = min(block, n - start)
        payloads = randomiser.to_bytes(randomiser.privatise(np.tile(held, many)))
        spoken = _spoken(protocol, payloads, pair).reshape(many, crowd)
        found[start : start + many] = np.stack([(spoken & 1).sum(axis=1), (spoken >> 1).sum(axis=1)], axis=1)
    return found
