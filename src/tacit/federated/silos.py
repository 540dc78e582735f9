"""Training between silos, each private inside: hospitals hand on a model, or have theirs averaged.

Every silo trains with its own privacy, such as `tacit.deep` on its own records, and lets out a model that is already
private. So no party is trusted with anything else, and the price is the silos' own: people of one silo pay for that silo's
training only, a person in several silos for all of these.

>>> from tacit.accounting import Gaussian, account
>>> visit = lambda weights: ([w + 1 for w in weights], Gaussian(4))
>>> ring = train_silos({"north": visit, "south": visit}, [0.0], passes=2, transfer="cyclic")
>>> ring.weights, ring.events["north"]
([4.0], Composed(Gaussian(noise_multiplier=4), Gaussian(noise_multiplier=4)))
>>> round(account(ring.event(silos=2)).epsilon(1e-6).upper, 3) > round(account(ring.event()).epsilon(1e-6).upper, 3)
True

Guarantee
    Statement: the models that leave all silos cost `event(silos=k)` for a person who is in at most k of them.
    Conditions: each silo's training costs the event it returns, for any start; events are stated before they are seen.
    Proved in: what is handed on is post-processing of private models; the people of different silos are disjoint, so one
    person's price is the dearest choice of k silos, whose trainings compose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from tacit.accounting import Composed, Event, Worst
from tacit.errors import ParameterError
from tacit.parameters import count

#: Trains privately from some weights: the new weights, and what it cost the silo's people.
Visit = Callable[[Any], tuple[Any, Event]]


@dataclass(frozen=True)
class SiloRun:
    """The last weights, and what each silo's people paid."""

    weights: Any
    events: Mapping[str, Event]

    def event(self, silos: int = 1) -> Event:
        """The price for one person who is in at most so many silos."""
        together = [_composed(events) for events in combinations(self.events.values(), min(count("silos", silos), len(self.events)))]
        return together[0] if len(together) == 1 else Worst(*together)


def train_silos(
    silos: Mapping[str, Visit], start: list[Any], *, passes: int, transfer: Literal["cyclic", "average"] = "cyclic"
) -> SiloRun:
    """Let a model visit every silo in turn (cyclical weight transfer), or average the silos' models after each pass."""
    if not silos or transfer not in ("cyclic", "average"):
        raise ParameterError("silos must name at least one; transfer must be 'cyclic' or 'average'")
    weights, paid = list(start), {name: list[Event]() for name in silos}
    for _ in range(count("passes", passes)):
        gathered = []
        for name, visit in silos.items():
            found, event = visit(list(weights))
            paid[name].append(event)
            gathered.append(found)
            if transfer == "cyclic":
                weights = list(found)
        if transfer == "average":
            weights = [sum(parts) / len(gathered) for parts in zip(*gathered, strict=True)]
    return SiloRun(weights, {name: _composed(events) for name, events in paid.items()})


def _composed(events: Any) -> Event:
    given = list(events)
    return given[0] if len(given) == 1 else Composed(*given)
