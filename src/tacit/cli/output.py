"""How answers are printed: for people with a few plain words, for programs as one JSON object. Upper ends are rounded up, lower ends down.

>>> percent(0.04020470)
'4.03 %'
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

from tacit.accounting import Account, Adjacency, Bound, Estimate, Event, to_json
from tacit.accounting.best_attack import attack_at_most
from tacit.accounting.compare import rounded_up
from tacit.cli.numbers import proved_digits

if TYPE_CHECKING:
    from rich.console import Console

RELATIONS = {
    Adjacency.ADD_REMOVE: "add-remove: one record is present or absent",
    Adjacency.REPLACE_ONE: "replace-one: one record is exchanged for any other; the number of records is public",
    Adjacency.ZERO_OUT: "zero-out: one record is blanked; the number of records is public",
}


def console() -> Console:
    """Where answers go; colours only on a terminal that has them, lines never broken."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on the error stream while something takes long, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def rounded_down(value: float, digits: int) -> str:
    """A number to so many significant digits, never above it.

    >>> rounded_down(1.99999999, 4)
    '1.999'
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    short = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(Decimal(repr(float(value)))).normalize()
    return f"{short:f}" if -5 < short.adjusted() < 15 else f"{short:e}"


def percent(value: float) -> str:
    """A share as a percentage, three digits, rounded up and at most 100 %."""
    return f"{rounded_up(min(100.0, 100 * value), 3)} %"


def print_json(value: Mapping[str, Any]) -> None:
    """One object on one line; an infinity is written as "inf"."""
    print(json.dumps(_plain(value), allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return value


def figure(found: Bound | Estimate) -> dict[str, Any]:
    """The JSON form of one figure; an estimate has no ends."""
    if isinstance(found, Estimate):
        return {"lower": None, "upper": None, "estimate": found.value, "method": found.method}
    return {"lower": found.lower, "upper": found.upper, "method": found.method}


def context(cost: Account) -> dict[str, Any]:
    """What every JSON answer says about the question."""
    return {"adjacency": cost.adjacency.value, "event": event_object(cost.event)}


def event_object(event: Event) -> Any:
    """The event as an object inside a JSON answer."""
    return json.loads(to_json(event))


def print_figure(out: Console, headline: str, found: Bound | Estimate) -> None:
    """A figure with its bracket and method."""
    if isinstance(found, Estimate):
        out.print(f"{headline.format(f'about {found.value:.6g}')}", style="bold")
        out.print("  an estimate that may lie below the truth: no guarantee, do not publish it", style="red")
    else:
        out.print(headline.format(rounded_up(found.upper, 7)), style="bold")
        digits = proved_digits(found.lower, found.upper)
        out.print(f"  between    {rounded_down(found.lower, digits)} and {rounded_up(found.upper, digits)}")
    out.print(f"  method     {found.method}")


def print_context(out: Console, cost: Account) -> None:
    """What the figure is about."""
    out.print(f"  event      {cost.event!r}")
    out.print(f"  relation   {RELATIONS[cost.adjacency]}")


def plain_words(cost: Account, known: Sequence[tuple[float, float]] = ()) -> list[str]:
    """What the event lets an attacker find out about one person's membership, in sentences; `known` are (epsilon, delta) it satisfies."""
    began = time.perf_counter()
    advantage = cost.advantage().upper
    # every (epsilon, delta) bounds the attack, so where one more takes long those at hand must do
    rate = min(1.0, *(math.exp(min(e, 700.0)) * 0.01 + d for e, d in [(0.0, advantage), *known]))
    if time.perf_counter() - began < 2:
        rate = min(rate, attack_at_most(cost.delta, 0.01))
    if rate >= 1:
        return ["An attacker can be certain who is in the data: this is no protection at all."]
    return [
        f"Letting 1 % of outsiders pass for members, the best membership attack finds at most {percent(rate)} of the members.",
        f"Someone who starts from 50:50 is right about a person's membership at most {percent(cost.posterior(0.5).upper)} of the time.",
        f"No attack finds a share of the members that exceeds its share of false alarms by more than {percent(advantage)[:-2]} points.",
    ]


def print_table(out: Console, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Right-aligned columns."""
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[j]) for line in table) for j in range(len(table[0]))]
    for i, line in enumerate(table):
        out.print("  " + "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)), style="bold" if i == 0 else None)
