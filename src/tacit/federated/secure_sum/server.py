"""The server's side of one secure sum: collects messages by phase, leaves out whoever sends a bad one, and
opens the sum once.

Bytes go in and out; carrying them, and waiting, is for others. The server holds one running sum and what it
needs of keys and shares, so its memory grows with the vector's length and with clients times neighbours.

>>> about = SumRound(1, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=2, bits=16)
>>> server = SumServer(about, model=bytes(32))
>>> server.receive(1, b"nonsense"), server.excluded, server.phase
(False, {1: 'keys'}, 'keys')

`tacit.federated.secure_sum.client` shows a whole round.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated.errors import SumRefused
from tacit.federated.secure_sum import masks, shamir, wire
from tacit.federated.secure_sum.graph import neighbours
from tacit.federated.secure_sum.keys import PUBLIC, SIGNATURE, KeyPair, Register, derived
from tacit.federated.secure_sum.wire import (
    CLIENT,
    COMMITMENT,
    COUNT,
    HEADER,
    MASK_KEY,
    SELF_SEED,
    Phase,
    SumRound,
)


class SumServer:
    """One round at the server. `receive` takes one client's message of the current phase (False: it is left
    out); `close` ends the phase and returns what to send to whom. Phases: keys, shares, masked, unmask. After
    the last, `total` is the sum modulo 2^bits.

    `excluded` maps a client to the name of the phase in which it was left out, for a bad message or for none;
    `survivors` are the clients whose vectors are in the sum; `following` holds the key messages for the next
    round that clients sent along. A round that cannot go on is void: `close` refuses with the code
    "sum-void", and nothing is unmasked, then or later.
    """

    def __init__(self, about: SumRound, model: bytes, *, register: Register | None = None) -> None:
        if not isinstance(model, bytes) or len(model) != 32:
            raise ParameterError("model must be a hash of 32 bytes")
        if about.signed != (register is not None):
            raise ParameterError("a signed round needs the register, and an unsigned one takes none")
        self.about = about
        self.excluded: dict[int, str] = {}
        self.survivors: tuple[int, ...] = ()
        self.following: dict[int, bytes] = {}
        self._model, self._register = model, register
        self._phase: Phase | None = Phase.KEYS
        self._void = False
        self._roster: dict[int, tuple[bytes, ...]] = {}
        self._near: dict[int, tuple[int, ...]] = {}
        self._heard: set[int] = set()
        self._taken: set[bytes] = set()
        self._commitments: dict[int, bytes] = {}
        self._sealed: dict[int, dict[int, bytes]] = {}
        self._promised: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self._shares: dict[int, dict[int, bytes]] = {}
        self._sum = np.zeros(0, dtype=masks.word(about.bits))
        self._total: NDArray[Any] | None = None

    @property
    def phase(self) -> str:
        """The phase that is open: keys, shares, masked, unmask, done or void."""
        return "void" if self._void else self._phase.word if self._phase else "done"

    @property
    def expected(self) -> tuple[int, ...]:
        """The clients whose message of this phase is still missing; in the first phase none is known."""
        return tuple(client for client in self._taking_part() if client not in self._heard)

    @property
    def total(self) -> NDArray[Any]:
        """The sum of the survivors' vectors modulo 2^bits, after the last phase."""
        if self._total is None:
            raise SumRefused(code="sum-void" if self._void else "sum-late", phase=self.phase)
        return self._total

    def receive(self, sender: int, message: bytes) -> bool:
        """Take one message; `sender` is who the transport says it is from. Never raises for what a message
        holds.

        A message of another phase, or a second one, changes nothing. A bad one leaves its sender out of the
        round from here on.
        """
        if self._void or self._phase is None or sender in self.excluded or sender in self._heard:
            return False
        if self._phase is not Phase.KEYS and sender not in self._taking_part():
            return False
        if _is_of_another_phase(self.about, self._phase, message):
            return False  # late or early, and so no fault of this phase
        body = wire.body_of(self.about, self._phase, sender, message) if 0 <= sender < 1 << 64 else None
        take = {
            Phase.KEYS: self._keys,
            Phase.SHARES: self._share_lists,
            Phase.MASKED: self._vector,
            Phase.UNMASK: self._answer,
        }
        if body is None or not take[self._phase](sender, body):
            self.excluded[sender] = self._phase.word
            return False
        self._heard.add(sender)
        return True

    def close(self) -> dict[int, bytes]:
        """End the phase: what to send to each client next. Refused (code "sum-void") where the round cannot
        go on."""
        phase = self._phase
        if self._void:
            raise SumRefused(code="sum-void", phase="void")
        if phase is None:
            raise SumRefused(code="sum-late", phase="done")
        for client in self._taking_part():
            if client not in self._heard:
                self.excluded.setdefault(client, phase.word)
        heard, self._heard = tuple(sorted(self._heard)), set()
        if phase is Phase.KEYS:
            found = self._list_keys(heard)
        elif phase is Phase.SHARES:
            found = self._pass_shares(heard)
        elif phase is Phase.MASKED:
            found = self._list_survivors(heard)
        else:
            found = self._open(heard)
        self._phase = Phase(phase + 1) if phase < Phase.UNMASK else None
        return found

    def _taking_part(self) -> tuple[int, ...]:
        """Who may still send in this phase."""
        if self._phase is Phase.KEYS:
            return ()
        known = (
            self._roster
            if self._phase is Phase.SHARES
            else self._sealed
            if self._phase is Phase.MASKED
            else self.survivors
        )
        return tuple(client for client in known if client not in self.excluded)

    def _end(self, phase: Phase) -> SumRefused:
        """Void: what was collected is deleted, so that nothing can be unmasked later."""
        self._void = True
        self._roster, self._sealed, self._promised, self._shares = {}, {}, {}, {}
        self._sum = np.zeros(0, dtype=self._sum.dtype)
        return SumRefused(code="sum-void", phase=phase.word)

    # --- keys

    def _keys(self, sender: int, body: bytes) -> bool:
        if len(body) != self.about.keys_size or len(self._roster) >= self.about.clients:
            return False
        row = (body[:PUBLIC], body[PUBLIC : 2 * PUBLIC], *((body[-SIGNATURE:],) if self.about.signed else ()))
        if self._register and not self._register.verifies(
            sender, wire.signed_part(self.about, sender, body[: 2 * PUBLIC]), row[2]
        ):
            return False
        if row[0] in self._taken or row[1] in self._taken or row[0] == row[1]:
            return False
        self._taken |= {row[0], row[1]}
        self._roster[sender] = row
        return True

    def _list_keys(self, heard: tuple[int, ...]) -> dict[int, bytes]:
        if len(heard) < max(self.about.fewest, self.about.threshold + 1):
            raise self._end(Phase.KEYS)
        self._roster = {client: self._roster[client] for client in heard}
        body = wire.listed(self._roster)
        self._near = neighbours(heard, self.about.degree, hashlib.sha256(self.about.session + body).digest())
        return {client: wire.header(self.about, Phase.SHARES, client) + body for client in heard}

    # --- shares

    def _share_lists(self, sender: int, body: bytes) -> bool:
        near, size = self._near[sender], 2 * COMMITMENT + wire.SEALED_SHARES
        if len(body) != COMMITMENT + size * len(near):
            return False
        self._commitments[sender] = body[:COMMITMENT]
        self._sealed[sender] = {}
        for place, other in enumerate(near):
            part = body[COMMITMENT + place * size : COMMITMENT + (place + 1) * size]
            self._promised[sender, other] = part[:COMMITMENT], part[COMMITMENT : 2 * COMMITMENT]
            self._sealed[sender][other] = part[2 * COMMITMENT :]
        return True

    def _pass_shares(self, heard: tuple[int, ...]) -> dict[int, bytes]:
        if len(heard) < self.about.fewest:
            raise self._end(Phase.SHARES)
        self._sealed = {client: self._sealed[client] for client in heard}
        found = {}
        for client in heard:
            senders = [other for other in self._near[client] if other in self._sealed]
            rows: dict[int, tuple[bytes, ...]] = {other: (self._sealed[other][client],) for other in senders}
            found[client] = wire.header(self.about, Phase.MASKED, client) + wire.listed(rows)
        self._sum = np.zeros(self.about.length, dtype=masks.word(self.about.bits))
        return found

    # --- vectors

    def _vector(self, sender: int, body: bytes) -> bool:
        vector = masks.unpacked(body, self.about.length, self.about.bits)
        if vector is None:
            return False
        self._sum += vector
        return True

    def _list_survivors(self, heard: tuple[int, ...]) -> dict[int, bytes]:
        if len(heard) < self.about.fewest:
            raise self._end(Phase.MASKED)
        self.survivors = heard
        body = wire.listed({client: () for client in heard})
        return {client: wire.header(self.about, Phase.UNMASK, client) + body for client in heard}

    # --- answers

    def _answer(self, sender: int, body: bytes) -> bool:
        if len(body) < COUNT:
            return False
        size = COUNT + int.from_bytes(body[:COUNT], "big") * (CLIENT + 1 + shamir.SHARE)
        rows = wire.numbered(body[:size], 1, shamir.SHARE) if size <= len(body) else None
        if rows is None or len(body) - size not in (0, HEADER + 2 * PUBLIC, HEADER + 2 * PUBLIC + SIGNATURE):
            return False
        alive = set(self.survivors)
        for owner, (kind, _) in rows.items():
            wanted = SELF_SEED if owner in alive else MASK_KEY
            promised = self._promised.get((owner, sender))
            if promised is None or owner not in self._sealed or kind != bytes([wanted]):
                return False
        for owner, (_, share) in rows.items():
            wanted = SELF_SEED if owner in alive else MASK_KEY
            # a share that its owner did not commit to is not used; whether the owner or the holder lied
            # cannot be told
            if (
                wire.commitment(self.about, owner, sender, wanted, share)
                == self._promised[owner, sender][wanted]
            ):
                self._shares.setdefault(owner, {})[self._near[owner].index(sender) + 1] = share
        if len(body) > size:
            self.following[sender] = body[size:]
        return True

    def _open(self, heard: tuple[int, ...]) -> dict[int, bytes]:
        """Take every mask away: self masks of the living, and the pair masks that the gone left in their
        living neighbours' vectors."""
        about, total = self.about, self._sum
        secrets = {owner: self._secret(owner) for owner in self._sealed}
        if any(secret is None for secret in secrets.values()):
            raise self._end(Phase.UNMASK)
        alive = set(self.survivors)
        for owner, secret in secrets.items():
            assert secret is not None
            if owner in alive:
                masks.apply(total, derived(secret, wire.self_purpose(about, self._model, owner)), -1)
                continue
            keys = KeyPair.of(secret)
            for near in self._near[owner]:
                agreed = keys.agree(self._roster[near][0]) if near in alive else None
                if agreed is not None:
                    purpose = wire.pair_purpose(about, self._model, owner, near)
                    masks.apply(total, derived(agreed, purpose), -1 if near < owner else 1)
        self._sealed, self._promised, self._shares = {}, {}, {}
        self._sum = np.zeros(0, dtype=total.dtype)
        self._total = masks.reduce(total, about.bits)
        return {}

    def _secret(self, owner: int) -> bytes | None:
        """A client's secret from its neighbours' shares; None where they are too few, or are not of what it
        had announced."""
        shares = self._shares.get(owner, {})
        if owner not in self.survivors and not any(near in self.survivors for near in self._near[owner]):
            return b""  # it masked with no client that is in the sum, so there is nothing to take away
        if len(shares) < self.about.threshold:
            return None
        chosen = sorted(shares)[: self.about.threshold]
        secret = shamir.join({point: shares[point] for point in chosen})
        if secret is None:
            return None
        if owner in self.survivors:
            right = wire.commitment(self.about, owner, owner, SELF_SEED, secret) == self._commitments[owner]
        else:
            right = KeyPair.of(secret).public == self._roster[owner][0]
        return secret if right else None


def _is_of_another_phase(about: SumRound, phase: Phase, message: bytes) -> bool:
    """A message of this session, well begun, of another phase than the open one."""
    if not isinstance(message, bytes) or len(message) < HEADER or message[: wire.SESSION] != about.session:
        return False
    return message[wire.SESSION] != phase and message[wire.SESSION] in tuple(Phase)
