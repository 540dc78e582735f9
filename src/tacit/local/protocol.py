"""A protocol: the public list of values, the randomiser, and the text by which devices and collectors agree on both.

What a person holds and the list does not know counts as a public default, so no error depends on it. The text is canonical JSON; its
fingerprint, 8 bytes, stands in every report.

>>> from tacit.local import Response
>>> emoji = Protocol(("smile", "wink", "cry"), Response(3, epsilon=1))
>>> emoji.place("cry"), emoji.place("unheard of")
(2, 0)
>>> Protocol.from_json(emoji.to_json()) == emoji
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import Event
from tacit.calculus import column_values
from tacit.errors import ParameterError
from tacit.local.domain import Domain, from_description
from tacit.local.randomiser import Randomiser, from_parameters
from tacit.parameters import count

VERSION = 1
Label = str | int


@dataclass(frozen=True)
class Protocol:
    """The public values (texts or whole numbers; a whole number alone stands for 0, 1, 2, ...), the randomiser and the default's place.

    Instead of a list the values may be a `Domain`, such as numbers between two bounds, which has a default of its own.
    """

    values: tuple[Label, ...] | int | Domain
    randomiser: Randomiser
    default: int = 0
    _places: dict[Label, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.values, Domain):
            if self.default:
                raise ParameterError("default must be 0 where the values are a domain, which has its own")
        elif isinstance(self.values, int):
            count("values", self.values, least=2)
        else:
            listed = tuple(self.values)
            if any(isinstance(v, bool) or not isinstance(v, (str, int)) for v in listed):
                raise ParameterError("values must be texts or whole numbers, or one whole number for 0, 1, 2, ...")
            if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in listed):
                raise ParameterError("values must be whole numbers of at most 63 bits; write longer ones as texts")
            if len(set(listed)) < len(listed):
                raise ParameterError("values has a value twice; list each once")
            object.__setattr__(self, "values", listed)
            self._places.update({value: place for place, value in enumerate(listed)})
        if self.size != self.randomiser.size:
            raise ParameterError(f"the randomiser is for {self.randomiser.size} values and the list has {self.size}")
        if not 0 <= count("default", self.default, least=0) < self.size:
            raise ParameterError(f"default must be a place 0 to {self.size - 1}")

    @property
    def size(self) -> int:
        """How many values there are."""
        if isinstance(self.values, Domain):
            return self.values.size
        return self.values if isinstance(self.values, int) else len(self.values)

    @property
    def labels(self) -> Sequence[Label]:
        """The values in their order."""
        return range(self.size) if isinstance(self.values, (int, Domain)) else self.values

    @property
    def event(self) -> Event:
        """The price of one report."""
        return self.randomiser.event

    @property
    def protects(self) -> str:
        """Between which values the price holds."""
        return self.values.protects if isinstance(self.values, Domain) else Domain.protects

    def place(self, value: object) -> Any:
        """The place of a value in the public list, or the default's; for vectors, one place a coordinate.

        Only texts and whole numbers are looked up, by their own text or number: True is no 1 here, and neither is 1.0.
        """
        if isinstance(self.values, Domain):
            return self.values.place(value)
        if isinstance(value, bool | np.bool_):
            return self.default
        if isinstance(value, int | np.integer):
            whole = int.__int__(value) if isinstance(value, int) else int(value)
            if isinstance(self.values, int):
                return whole if 0 <= whole < self.values else self.default
            return self._places.get(whole, self.default)
        # str.__str__ asks no class derived from it, whose own methods could raise
        return self._places.get(str.__str__(value), self.default) if isinstance(value, str) else self.default

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        """The places of many values; Arrow's arrays are read as what they hold."""
        if isinstance(self.values, Domain):
            return self.values.places(values)
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 1 and isinstance(self.values, int):
            return np.where((values >= 0) & (values < self.values), values, self.default).astype(np.int64)
        if isinstance(values, pa.Array | pa.ChunkedArray):
            values = column_values(values)
        return np.fromiter((self.place(value) for value in values), dtype=np.int64)

    # --- as text ---

    def to_json(self) -> str:
        """The protocol as canonical JSON."""
        return self._text

    @cached_property
    def _text(self) -> str:
        # compared with every batch that comes in
        values = self.values.describe() if isinstance(self.values, Domain) else self.values
        found = {"version": VERSION, "values": values, "default": self.default, "randomiser": self.randomiser.parameters()}
        return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Protocol:
        """The protocol of a text that `to_json` wrote."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise ParameterError("the protocol is not JSON") from None
        if not isinstance(found, dict) or set(found) != {"version", "values", "default", "randomiser"}:
            raise ParameterError("a protocol has version, values, default and randomiser, and nothing else")
        if type(found["version"]) is not int or found["version"] != VERSION:
            raise ParameterError(f"the protocol has version {str(found['version'])[:20]}; this is version {VERSION}")
        values, randomiser = found["values"], found["randomiser"]
        if not isinstance(randomiser, dict) or not isinstance(values, (int, list, dict)):
            raise ParameterError("values must be a list, a whole number or an object, and randomiser an object")
        try:
            if isinstance(values, dict):
                return cls(from_description(values), from_parameters(randomiser), found["default"])
            return cls(values if isinstance(values, int) else tuple(values), from_parameters(randomiser), found["default"])
        except (TypeError, ValueError) as error:
            raise ParameterError(f"the protocol cannot be read: {error}") from None

    @classmethod
    def read(cls, path: str | Path) -> Protocol:
        """The protocol in a file."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def write(self, path: str | Path) -> None:
        """Write the protocol to a file, for devices and collectors."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @cached_property
    def fingerprint(self) -> bytes:
        """The first 8 bytes of the SHA-256 digest of the text."""
        return hashlib.sha256(self.to_json().encode()).digest()[:8]

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def describe(self) -> dict[str, Any]:
        """What a reader should know before anything is sent."""
        r = self.randomiser
        return {
            "values": self.size, "randomiser": r.kind, "epsilon": float(r.epsilon), "odds": r.odds, "bytes": r.width,
            "deviation of a share, one person": r.variance(1) ** 0.5,
        }  # fmt: skip
