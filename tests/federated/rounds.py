"""Whole rounds of the secure sum in one process, with clients that are lost and messages that are changed on
the way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.federated import ClientIdentity, Register, SumClient, SumRefused, SumRound, SumServer

PLAN, MODEL = bytes(range(32)), bytes(reversed(range(32)))
PHASES = ("keys", "shares", "masked", "unmask")
Tamper = Callable[[str, int, bytes], bytes]


def stated(clients: int, **changes: Any) -> SumRound:
    """A round in which everyone masks with everyone, unless stated otherwise."""
    facts: dict[str, Any] = {
        "number": 1, "plan": PLAN, "clients": clients, "fewest": 2, "degree": clients - 1,
        "threshold": (clients + 1) // 2, "length": 5, "bits": 20,
    }  # fmt: skip
    return SumRound(**{**facts, **changes})


def vectors_for(about: SumRound, clients: int) -> dict[int, NDArray[Any]]:
    """Numbers drawn for every client; its number is 3 times its place, plus 5."""
    kind = np.uint16 if about.bits <= 16 else np.uint32 if about.bits <= 32 else np.uint64
    drawn = np.random.randint(0, 1 << min(about.bits, 62), size=(clients, about.length))
    return {3 * place + 5: row.astype(kind) for place, row in enumerate(drawn)}


def plain_sum(about: SumRound, vectors: Mapping[int, NDArray[Any]], of: Collection[int]) -> list[int]:
    """The sum modulo 2^bits in Python's own numbers."""
    return [sum(int(vectors[client][i]) for client in of) % (1 << about.bits) for i in range(about.length)]


def unchanged(phase: str, client: int, message: bytes) -> bytes:
    return message


class Play:
    """One round, phase by phase. `lost[phase]` are the clients that never send in that phase or later."""

    def __init__(
        self,
        about: SumRound,
        vectors: Mapping[int, NDArray[Any]],
        lost: Mapping[str, Collection[int]] | None = None,
        *,
        to_server: Tamper = unchanged,
        to_client: Tamper = unchanged,
        models: Mapping[int, bytes] | None = None,
    ) -> None:
        self.about, self.vectors, self.lost = about, vectors, lost or {}
        self.to_server, self.to_client, self.models = to_server, to_client, models or {}
        identities = {client: ClientIdentity.create() for client in vectors} if about.signed else {}
        register = (
            Register({client: who.public for client, who in identities.items()}) if about.signed else None
        )
        self.server = SumServer(about, MODEL, register=register)
        self.clients = {
            c: SumClient(c, about, identity=identities.get(c), register=register) for c in vectors
        }
        self.refused: dict[int, str] = {}
        self.masked: dict[int, bytes] = {}
        self._gone: set[int] = set()

    def run(self) -> SumServer:
        """All phases; a void round ends early."""
        inbox = dict.fromkeys(self.clients, b"")
        try:
            for phase in PHASES:
                self.phase(phase, inbox)
                inbox = self.server.close()
        except SumRefused as error:
            assert error.code == "sum-void"
        return self.server

    def phase(self, phase: str, inbox: Mapping[int, bytes]) -> None:
        self._gone |= set(self.lost.get(phase, ()))
        for client, message in inbox.items():
            if client in self._gone:
                continue
            try:
                answer = self.answer(
                    phase, client, self.to_client(phase, client, message) if message else b""
                )
            except SumRefused as error:
                self.refused[client] = error.code
                continue
            if phase == "masked":
                self.masked[client] = answer
            self.server.receive(client, self.to_server(phase, client, answer))

    def answer(self, phase: str, client: int, message: bytes) -> bytes:
        who = self.clients[client]
        if phase == "keys":
            return who.keys()
        if phase == "shares":
            return who.shares(message)
        if phase == "masked":
            return who.masked(message, self.vectors[client], self.models.get(client, MODEL))
        return who.unmask(message)
