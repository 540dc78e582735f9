"""Which randomiser: the least predicted error among all, told before anything is sent.

>>> protocol = frequencies(10_000, epsilon=1, n=1_000_000)
>>> protocol.randomiser.kind
'projective'
>>> print(explain(10_000, 1, n=1_000_000))  # doctest: +ELLIPSIS
for 10,000 values at epsilon 1 (odds of 2.72 to 1 between any two values)
  subset           deviation of a share 0.00192, 1250 bytes a report
  projective       deviation of a share 0.00192, 2 bytes a report  <- chosen
  ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tacit.errors import ParameterError
from tacit.local.hadamard import BlockHadamard, Hadamard
from tacit.local.hashing import LocalHash
from tacit.local.projective import Projective
from tacit.local.protocol import Label, Protocol
from tacit.local.randomiser import KINDS, Randomiser
from tacit.local.response import Response
from tacit.local.subset import Subset
from tacit.local.unary import SymmetricUnary, Unary
from tacit.parameters import Number, count, positive

#: In order of preference where predicted errors are alike: short reports and fast collectors first.
_MAKERS: tuple[Callable[[int, Number], Randomiser], ...] = (
    Response, Projective, Hadamard, Subset, Unary, SymmetricUnary, LocalHash, BlockHadamard,
)  # fmt: skip
WIDE = 1 << 12  # values beyond which unary reports, one bit a value, are not considered, and shorter reports go before subsets
LONG = 1 << 17  # values beyond which subsets are not either: reports of more than 16 kilobytes, for at most 2.3% of the variance
NEAR = 1.01  # errors this close count as alike


def candidates(size: int, epsilon: Number) -> list[Randomiser]:
    """All randomisers that are fit for so many values, those with the least variance first.

    Plain Hadamard response is left out above epsilon 2, where its variance no longer falls.

    >>> [one.kind for one in candidates(4, 1)][:2]  # the same: a subset of one value
    ['subset', 'response']
    """
    found: list[Randomiser] = []
    for make in _MAKERS:
        if size > (LONG if make is Subset else WIDE if make in (Unary, SymmetricUnary) else size):
            continue
        if make is Hadamard and epsilon > 2:
            continue
        try:
            found.append(make(size, epsilon))
        except ParameterError:
            continue  # too many values for it
    return sorted(found, key=lambda one: one.variance(1))


def best(size: int, epsilon: Number) -> Randomiser:
    """The randomiser with the least variance, or a handier one that comes within a hundredth of it.

    >>> best(3, 1).kind, best(300, 1).kind, best(10**8, 1).kind
    ('response', 'projective', 'local-hash')
    """
    found = candidates(count("size", size, least=2), positive("epsilon", epsilon))
    alike = [one for one in found if one.variance(1) <= NEAR * found[0].variance(1)]
    return min(alike, key=lambda one: (isinstance(one, Subset) and size > WIDE, _MAKERS.index(type(one))))


def frequencies(
    values: Iterable[Label] | int, *, epsilon: Number, n: int | None = None, kind: str = "auto", default: Label | None = None
) -> Protocol:
    """A protocol for how often each value occurs. `kind` names a randomiser; "auto" takes the one with the least predicted error.

    `n`, how many people will report, is only used to warn. `default` is the value that counts for everything outside the list.

    >>> frequencies(["yes", "no"], epsilon=1).randomiser
    Response(size=2, epsilon=1)
    """
    listed = values if isinstance(values, int) else tuple(values)
    size = listed if isinstance(listed, int) else len(listed)
    if size < 2:
        raise ParameterError("values must be at least two; one value alone tells nothing")
    known = sorted(each.kind for each in KINDS.values() if each.answered_by == "Estimates")
    if kind != "auto" and kind not in known:
        raise ParameterError(f"kind must be auto or one of {', '.join(known)}, not {kind!r}")
    randomiser = best(size, epsilon) if kind == "auto" else KINDS[kind](size, epsilon)
    place = 0
    if default is not None:
        if isinstance(listed, int):
            place = int(default)
        elif default not in listed:
            raise ParameterError("default must be one of the values")
        else:
            place = listed.index(default)
    protocol = Protocol(listed, randomiser, place)
    if n is not None:
        count("n", n)
    return protocol


def explain(size: int, epsilon: Number, *, n: int = 1) -> str:
    """All candidates with their predicted errors, as text."""
    chosen = best(size, epsilon)
    lines = [f"for {size:,} values at epsilon {float(epsilon):g} (odds of {math.exp(float(epsilon)):.3g} to 1 between any two values)"]
    for one in candidates(size, epsilon):
        mark = "  <- chosen" if one == chosen else ""
        width = "1 byte" if one.width == 1 else f"{one.width} bytes"
        lines.append(f"  {one.kind:<16} deviation of a share {math.sqrt(one.variance(n)):.3g}, {width} a report{mark}")
    if size > LONG:
        chosen_spread, long = chosen.variance(1), Subset(size, epsilon)
        gain = 1 - math.sqrt(min(1.0, long.variance(1) / chosen_spread))
        lines.append(f"  not considered: subset, {long.width:,} bytes a report, for a deviation {gain:.1%} smaller")
    return "\n".join(lines)
