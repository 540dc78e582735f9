"""A client's side of one secure sum: four messages, each answer given once, everything forgotten afterwards.

The client trusts no message. It checks the list of keys (its own unchanged, all distinct, signed where the
round is), works out its neighbours for itself, hands out one kind of share for each of them and one answer in
all, and only for a list of survivors that is long enough for the noise. A refusal ends its part in the round.

>>> from tacit.federated.secure_sum.server import SumServer
>>> about = SumRound(1, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=2, bits=16)
>>> model = bytes(32)
>>> server, clients = SumServer(about, model), {i: SumClient(i, about) for i in (1, 2, 3)}
>>> _ = [server.receive(i, client.keys()) for i, client in clients.items()]
>>> _ = [server.receive(i, clients[i].shares(message)) for i, message in server.close().items()]
>>> vector = np.array([1, 65535], dtype=np.uint16)
>>> inbox = server.close()
>>> _ = [server.receive(i, clients[i].masked(message, vector, model)) for i, message in inbox.items()]
>>> _ = [server.receive(i, clients[i].unmask(message)) for i, message in server.close().items()]
>>> server.close(), server.total.tolist()
({}, [3, 65533])
"""

from __future__ import annotations

import hashlib
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated.errors import SumRefused
from tacit.federated.secure_sum import masks, shamir, wire
from tacit.federated.secure_sum.graph import neighbours
from tacit.federated.secure_sum.keys import (
    PUBLIC,
    SIGNATURE,
    ClientIdentity,
    KeyPair,
    Register,
    derived,
    opened,
    seal,
)
from tacit.federated.secure_sum.wire import Phase, SumRound


class SumClient:
    """One client in one round. Each method takes the server's message and returns the client's; any refusal
    ends its part in the round.

    `unmask(message, following=...)` sends the keys of the next round along; its client is then
    `client.following`, whose `keys()` have been sent, so that a round has three messages.

    Guarantee
        Statement: the server, with fewer than `threshold` of this client's neighbours colluding, learns
            nothing about this client's vector beyond the sum over the survivors, of whom there are `fewest`
            or more.
        Conditions: a server that follows the protocol; a server that does not only in signed rounds whose
            register it does not control and whose threshold was chosen as `malicious` (`graph_for`). X25519,
            HKDF and ChaCha20 are as strong as thought.
        Proved in: Bell, Bonawitz, Gascon, Lepoint, Raykova 2020, Sections 3 and 4. Masks are bound to the
            model because of the attack of Pasquini, Francati, Ateniese 2022.
    """

    def __init__(
        self,
        me: int,
        about: SumRound,
        *,
        identity: ClientIdentity | None = None,
        register: Register | None = None,
    ) -> None:
        if isinstance(me, bool) or not isinstance(me, int) or not 0 <= me < 1 << 64:
            raise ParameterError("me must be a whole number of at most 64 bits")
        if about.signed != (identity is not None) or about.signed != (register is not None):
            raise ParameterError(
                "a signed round needs the client's identity and the register; an unsigned one takes neither"
            )
        self.me, self.about = me, about
        self.following: SumClient | None = None
        self._identity, self._register = identity, register
        self._next: Phase | None = Phase.KEYS
        self._mask_secret: bytes | None = shamir.new_secret()
        self._self_seed: bytes | None = shamir.new_secret()
        self._mask_keys: KeyPair | None = KeyPair.of(self._mask_secret)
        self._channel_keys: KeyPair | None = KeyPair.create()
        self._roster: dict[int, tuple[bytes, ...]] = {}
        self._neighbours: tuple[int, ...] = ()
        self._held: dict[int, tuple[bytes, bytes]] = {}
        self._channels: dict[int, bytes] = {}
        self._paired: frozenset[int] = frozenset()

    def keys(self) -> bytes:
        """The first message: this client's public keys, signed where the round asks for it."""
        self._step(Phase.KEYS)
        public = self._public()
        signature = (
            self._identity.sign(wire.signed_part(self.about, self.me, public)) if self._identity else b""
        )
        return wire.header(self.about, Phase.KEYS, self.me) + public + signature

    def shares(self, roster: bytes) -> bytes:
        """From the list of everyone's keys: encrypted shares of this client's two secrets for its
        neighbours."""
        self._step(Phase.SHARES)
        self._read_roster(self._body(Phase.SHARES, roster))
        assert (
            self._self_seed is not None and self._mask_secret is not None and self._channel_keys is not None
        )
        about, me = self.about, self.me
        points = {near: place + 1 for place, near in enumerate(self._neighbours)}
        seeds = shamir.split(self._self_seed, about.threshold, points.values())
        keys = shamir.split(self._mask_secret, about.threshold, points.values())
        parts = [
            wire.header(about, Phase.SHARES, me),
            wire.commitment(about, me, me, wire.SELF_SEED, self._self_seed),
        ]
        for near, point in points.items():
            agreed = self._channel_keys.agree(self._roster[near][1])
            if agreed is None:
                self._refuse(SumRefused(code="sum-keys-repeated", phase="shares"))
            self._channels[near] = agreed
            purpose = wire.channel_purpose(about, me, near)
            parts += [
                wire.commitment(about, me, near, wire.SELF_SEED, seeds[point]),
                wire.commitment(about, me, near, wire.MASK_KEY, keys[point]),
                seal(derived(agreed, purpose), seeds[point] + keys[point], purpose),
            ]
        self._channel_keys = None
        return b"".join(parts)

    def masked(self, inbox: bytes, vector: NDArray[Any], model: bytes) -> bytes:
        """From the neighbours' shares: the vector under masks, bound to `model`, the hash of the model that
        this client received."""
        self._step(Phase.MASKED)
        about = self.about
        if not isinstance(model, bytes) or len(model) != 32:
            self._refuse(ParameterError("model must be a hash of 32 bytes"))
        found = wire.numbered(self._body(Phase.MASKED, inbox), wire.SEALED_SHARES)
        if found is None or not set(found) <= set(self._neighbours):
            self._refuse(SumRefused(code="sum-malformed", phase="masked"))
        if len(found) < about.threshold:
            self._refuse(SumRefused(code="sum-few-neighbours", phase="masked"))
        if not self._fits(vector):
            self._refuse(SumRefused(code="sum-wrong-vector", phase="masked"))
        assert self._self_seed is not None and self._mask_keys is not None
        self._keep(found)
        self._paired = frozenset(found)
        total = np.array(vector, dtype=masks.word(about.bits))
        masks.apply(total, derived(self._self_seed, wire.self_purpose(about, model, self.me)), 1)
        for near in found:
            agreed = self._mask_keys.agree(self._roster[near][0])
            if agreed is None:
                self._refuse(SumRefused(code="sum-keys-repeated", phase="masked"))
            masks.apply(
                total,
                derived(agreed, wire.pair_purpose(about, model, self.me, near)),
                1 if self.me < near else -1,
            )
        self._self_seed = self._mask_secret = self._mask_keys = None  # not needed to answer
        return wire.header(about, Phase.MASKED, self.me) + masks.packed(
            masks.reduce(total, about.bits), about.bits
        )

    def unmask(self, survivors: bytes, *, following: SumRound | None = None) -> bytes:
        """From the list of survivors: one share for each neighbour, of the self seed of the living or the
        mask key of the gone."""
        self._step(Phase.UNMASK)
        alive = wire.numbered(self._body(Phase.UNMASK, survivors))
        if alive is None:
            self._refuse(SumRefused(code="sum-malformed", phase="unmask"))
        if not set(alive) <= set(self._roster) or any(
            near in alive and near not in self._paired for near in self._neighbours
        ):
            self._refuse(SumRefused(code="sum-unknown-survivor", phase="unmask"))
        if self.me not in alive:
            self._refuse(SumRefused(code="sum-not-surviving", phase="unmask"))
        if len(alive) < self.about.fewest:
            self._refuse(SumRefused(code="sum-few-clients", phase="unmask"))
        if sum(near in alive for near in self._neighbours) < self.about.threshold:
            self._refuse(SumRefused(code="sum-few-neighbours", phase="unmask"))
        answer: dict[int, tuple[bytes, ...]] = {}
        for near, (seed, key) in self._held.items():
            answer[near] = (bytes([wire.SELF_SEED]), seed) if near in alive else (bytes([wire.MASK_KEY]), key)
        self.forget()
        more = b""
        if following is not None:
            self.following = SumClient(self.me, following, identity=self._identity, register=self._register)
            more = self.following.keys()
        return wire.header(self.about, Phase.UNMASK, self.me) + wire.listed(answer) + more

    def forget(self) -> None:
        """Delete every secret; nothing is answered after this. To be called when a round takes too long."""
        self._self_seed = self._mask_secret = self._mask_keys = self._channel_keys = None
        self._held, self._channels = {}, {}
        self._next = None

    # --- what is checked

    def _public(self) -> bytes:
        assert self._mask_keys is not None and self._channel_keys is not None
        return self._mask_keys.public + self._channel_keys.public

    def _step(self, phase: Phase) -> None:
        """Each step once and in order, so that no second answer exists."""
        if self._next is not phase:
            self._refuse(SumRefused(code="sum-late", phase=phase.word))
        self._next = Phase(phase + 1) if phase < Phase.UNMASK else None

    def _body(self, phase: Phase, message: bytes) -> bytes:
        body = wire.body_of(self.about, phase, self.me, message)
        if body is None:
            self._refuse(SumRefused(code="sum-other-round", phase=phase.word))
        return body

    def _refuse(self, error: Exception) -> NoReturn:
        self.forget()
        raise error

    def _read_roster(self, body: bytes) -> None:
        about = self.about
        found = wire.numbered(body, PUBLIC, PUBLIC, *((SIGNATURE,) if about.signed else ()))
        if found is None:
            self._refuse(SumRefused(code="sum-malformed", phase="shares"))
        if self.me not in found or b"".join(found[self.me][:2]) != self._public():
            self._refuse(SumRefused(code="sum-own-key", phase="shares"))
        if not about.fewest <= len(found) <= about.clients or len(found) <= about.threshold:
            self._refuse(SumRefused(code="sum-few-clients", phase="shares"))
        if len({key for row in found.values() for key in row[:2]}) != 2 * len(found):
            self._refuse(SumRefused(code="sum-keys-repeated", phase="shares"))
        if self._register is not None and not all(
            self._register.verifies(client, wire.signed_part(about, client, row[0] + row[1]), row[2])
            for client, row in found.items()
        ):
            self._refuse(SumRefused(code="sum-not-registered", phase="shares"))
        self._roster = found
        seed = hashlib.sha256(about.session + body).digest()
        self._neighbours = neighbours(tuple(found), about.degree, seed, of=self.me)[self.me]

    def _fits(self, vector: object) -> bool:
        """Whether the vector is of the round, by type and length alone; its numbers are taken modulo
        2^bits."""
        kind = masks.word(self.about.bits)
        return (
            isinstance(vector, np.ndarray) and vector.dtype == kind and vector.shape == (self.about.length,)
        )

    def _keep(self, found: dict[int, tuple[bytes, ...]]) -> None:
        """The shares that neighbours sent; one that does not open is not kept, and its owner must get on
        without this client's answer."""
        for near, (sealed,) in found.items():
            purpose = wire.channel_purpose(self.about, near, self.me)
            plain = opened(derived(self._channels[near], purpose), sealed, purpose)
            if plain is not None and len(plain) == 2 * shamir.SHARE:
                self._held[near] = plain[: shamir.SHARE], plain[shamir.SHARE :]
        self._channels = {}
