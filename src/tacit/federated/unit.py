"""Whom a federation protects: an example, a user, a device or a silo, and over which time.

A client is one device or one silo. The promise of a run is about one client's whole contribution; a smaller unit
is covered by it, and a person who is spread over several clients is a group of them. Every report names the unit
and the window.

>>> unit = ClientUnit("user", window="week", clients=2)
>>> str(unit)
'one user, who may be in 2 clients, in one week'
>>> from tacit.accounting import Gaussian
>>> unit.event(Gaussian(2))
Group(event=Gaussian(noise_multiplier=2), size=2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from tacit.accounting import Event, Group
from tacit.errors import ParameterError
from tacit.ledger import WINDOWS
from tacit.parameters import count

Kind = Literal["example", "user", "device", "silo"]


@dataclass(frozen=True)
class ClientUnit:
    """What one change of the data is: all of one unit's data, in at most `clients` clients, within one `window`.

    `window` is one of the ledger's windows, such as "week", or None for the whole time. A patient of three
    hospitals is `ClientUnit("user", clients=3)`: the hospitals cannot know that it is the same person, so the
    price is that of a group.
    """

    kind: Kind = "user"
    window: str | None = None
    clients: int = 1

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ParameterError(f"unit must be one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.window is not None and self.window not in WINDOWS:
            raise ParameterError(f"window must be one of {', '.join(sorted(WINDOWS))} or None, not {self.window!r}")
        object.__setattr__(self, "clients", count("clients", self.clients))
        if self.kind == "silo" and self.clients > 1:
            raise ParameterError("a silo is one client; clients is for people who are in several of them")

    @staticmethod
    def of(given: ClientUnit | str) -> ClientUnit:
        """A unit, or its kind.

        >>> ClientUnit.of("silo")
        ClientUnit(kind='silo', window=None, clients=1)
        """
        return given if isinstance(given, ClientUnit) else ClientUnit(cast(Kind, given))

    def event(self, event: Event) -> Event:
        """The price for this unit of what costs `event` for one client."""
        return event if self.clients == 1 else Group(event, self.clients)

    def __str__(self) -> str:
        spread = "" if self.clients == 1 else f", who may be in {self.clients} clients,"
        return f"one {self.kind}{spread}{f' in one {self.window}' if self.window else ''}"
