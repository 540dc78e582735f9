"""What travels in a Flower message: one record of plain values, with the model and the vector as raw bytes.

One flat array of bytes costs less than one file in memory for each tensor, and leaves no room for anything else. What
a server asks is an `Ask`; what a client answers is bytes or the one word REFUSED.

>>> layout = Layout.of({"w": np.zeros((2, 2), dtype=np.float32), "b": np.zeros(2, dtype=np.float32)})
>>> layout.size, [a.shape for a in layout.unpacked(layout.packed(layout.zeros())).values()]
(6, [(2, 2), (2,)])
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated.errors import FederatedError
from tacit.federated.plan import FederatedPlan
from tacit.ledger import canonical

RECORD = "tacit"
ANSWER = "answer"
REFUSED = b"refused"
#: The steps of a round, each a type of message: central rounds have one, secure sums four.
PHASES = ("vector", "keys", "shares", "masked", "unmask")
LARGEST = 2**31  # bytes of a model


@dataclass(frozen=True)
class Layout:
    """Names, shapes and types of the arrays of a model, which are public."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]

    @staticmethod
    def of(arrays: Mapping[str, NDArray[Any]]) -> Layout:
        """The layout of a model's arrays; all of them must be floats, because noise is added to all of them."""
        for name, array in arrays.items():
            if array.dtype.kind != "f" or array.dtype.itemsize not in (2, 4, 8):
                raise ParameterError(
                    f"array {name!r} holds {array.dtype}, and noise goes on floats only; take it out of the model's arrays"
                )
        return Layout(tuple(arrays), tuple(a.shape for a in arrays.values()), tuple(a.dtype.str for a in arrays.values()))

    @property
    def size(self) -> int:
        """How many numbers the model has."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def zeros(self) -> dict[str, NDArray[Any]]:
        """Arrays of zeros in this layout."""
        parts = zip(self.names, self.shapes, self.types, strict=True)
        return {name: np.zeros(shape, dtype=kind) for name, shape, kind in parts}

    def packed(self, arrays: Mapping[str, NDArray[Any]]) -> bytes:
        """The arrays as bytes, one after the other."""
        return b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in self.names)

    def unpacked(self, data: bytes) -> dict[str, NDArray[Any]]:
        """The arrays that `packed` wrote; they belong to the caller."""
        found, start = {}, 0
        for name, shape, kind in zip(self.names, self.shapes, self.types, strict=True):
            number = int(np.prod(shape))
            array = np.frombuffer(data, dtype=kind, count=number, offset=start)
            found[name] = array.reshape(shape).copy()
            start += array.nbytes
        if start != len(data):
            raise FederatedError("the model's bytes do not have the length of its layout")
        return found

    def flat(self, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """The arrays as one vector in double precision; shapes are compared, values are not looked at."""
        if set(arrays) != set(self.names) or any(
            np.shape(arrays[name]) != shape for name, shape in zip(self.names, self.shapes, strict=True)
        ):
            raise FederatedError("training gave back arrays of other names or shapes than it got")
        return np.concatenate([np.asarray(arrays[name], dtype=np.float64).ravel() for name in self.names])

    def split(self, flat: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """A vector as arrays of these shapes, in double precision."""
        sizes = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        parts = np.split(flat, sizes)
        return {name: part.reshape(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}

    @property
    def text(self) -> str:
        return canonical([list(self.names), [list(shape) for shape in self.shapes], list(self.types)])

    @staticmethod
    def read(text: str) -> Layout:
        """The layout of a text; anything but a small list of float arrays is refused."""
        names, shapes, types = json.loads(text)
        made = Layout(
            tuple(str(name) for name in names),
            tuple(tuple(int(n) for n in shape) for shape in shapes),
            tuple(str(kind) for kind in types),
        )
        fits = len(made.names) == len(made.shapes) == len(made.types) == len(set(made.names))
        floats = all(kind in ("<f2", "<f4", "<f8") for kind in made.types)
        if not fits or not floats or any(n < 0 for shape in made.shapes for n in shape) or made.size * 8 > LARGEST:
            raise FederatedError("the layout of a model is a list of names, shapes and float types")
        return made


@dataclass(frozen=True)
class Ask:
    """What a server asks a client for in one phase of one round."""

    phase: str
    plan: str
    run: str
    turn: int
    threshold: float
    layout: str = "[[],[],[]]"
    model: bytes = b""
    payload: bytes = b""
    config: str = "{}"

    def to_record(self) -> dict[str, Any]:
        """The values of a Flower record."""
        return dict(vars(self))

    @staticmethod
    def read(values: Mapping[str, Any]) -> Ask:
        """The request in a record that was received; every type is checked."""
        kinds = {"phase": str, "plan": str, "run": str, "turn": int, "threshold": float,
                 "layout": str, "model": bytes, "payload": bytes, "config": str}  # fmt: skip
        given = dict(values)
        names = {f.name for f in fields(Ask)}
        if set(given) != names or any(type(given[name]) is not kinds[name] for name in names):
            raise FederatedError("a request has the fields and types of this version")
        made = Ask(**given)
        if made.phase not in PHASES or len(made.run) > 200 or made.turn < 1:
            raise FederatedError("a request names a phase, a run and a round")
        return made

    def planned(self) -> FederatedPlan:
        """The plan of the request, checked."""
        found = _plan(self.plan)
        if self.turn > found.rounds:
            raise FederatedError("the request is for a round beyond the plan")
        return found

    @property
    def model_hash(self) -> bytes:
        """SHA-256 of what training gets, as it was received: the model, its layout and the configuration.

        Masks are bound to it. A configuration of its own (a rate of zero for all but one client) singles a client out
        as well as a model does.
        """
        return model_hash(self.layout, self.model, self.config)


def model_hash(layout: str, model: bytes, config: str) -> bytes:
    """SHA-256 of a model in a layout, with the configuration of its training."""
    parts = [hashlib.sha256(text.encode()).digest() for text in (layout, config)]
    return hashlib.sha256(b"tacit model\0" + b"".join(parts) + model).digest()


_PLANS: dict[str, FederatedPlan] = {}


def _plan(text: str) -> FederatedPlan:
    """A plan by its text; the last few are kept, since every message of a run carries the same one."""
    found = _PLANS.get(text)
    if found is None:
        try:
            found = FederatedPlan.from_record(json.loads(text))
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
            raise FederatedError("the plan in the request cannot be read") from None
        if len(_PLANS) >= 16:
            _PLANS.clear()
        _PLANS[text] = found
    return found
