"""The messages of a secure sum: a fixed binary form, every length checked before anything is read.

`SumRound` states what a round is about. Its `session` is a hash of all of it and opens every message, so a
message of another round, plan, length, modulus or graph is refused. Numbers are big-endian; a vector's are
little-endian, as machines have them.

| message | after the header (session 16, phase 1, client 8) |
| --- | --- |
| keys, to the server | mask key 32, channel key 32, signature 64 where the round is signed |
| list of keys, to clients | count 4; for each, by client: client 8, mask key 32, channel key 32, signature |
| shares, to the server | commitment to the self seed 32; for each neighbour: two commitments 32, sealed 80 |
| shares, to a client | count 4; for each neighbour that sent any, by client: client 8, sealed shares 80 |
| vector, to the server | the numbers, whole bytes each |
| survivors, to clients | count 4, then client 8 for each, in increasing order |
| answer, to the server | count 4; for each: client 8, kind 1, share 32; then the next keys message, or nothing |

>>> about = SumRound(1, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=4, bits=16)
>>> message = header(about, Phase.KEYS, 7) + b"body"
>>> body_of(about, Phase.KEYS, 7, message), body_of(about, Phase.SHARES, 7, message)
(b'body', None)
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from tacit.errors import ParameterError
from tacit.federated.secure_sum.keys import PUBLIC, SEALED, SIGNATURE
from tacit.federated.secure_sum.shamir import SHARE
from tacit.parameters import count

VERSION = b"tacit secure sum 1"
SESSION = 16
CLIENT = 8
HEADER = SESSION + 1 + CLIENT
COUNT = 4
COMMITMENT = 32
SEALED_SHARES = 2 * SHARE + SEALED
SELF_SEED, MASK_KEY = 0, 1  # the two kinds of shares


class Phase(IntEnum):
    """The phases in which clients send."""

    KEYS = 1
    SHARES = 2
    MASKED = 3
    UNMASK = 4

    @property
    def word(self) -> str:
        """Its name in reports and refusals."""
        return self.name.lower()


@dataclass(frozen=True)
class SumRound:
    """What both sides know about one round before it starts.

    `plan` is a hash of 32 bytes of everything that was agreed. (The model's hash is given when vectors are
    masked: clients may send keys before they have the model.) At most `clients` take part; `fewest` of them
    must survive or the round is void; `degree` and `threshold` come from `graph_for`; vectors are `length`
    numbers modulo 2^bits. `signed` rounds demand keys that registered identities signed.

    >>> about = SumRound(1, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=4, bits=16)
    >>> other = SumRound(2, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=4, bits=16)
    >>> about.session == other.session
    False
    """

    number: int
    plan: bytes
    clients: int
    fewest: int
    degree: int
    threshold: int
    length: int
    bits: int
    signed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.plan, bytes) or len(self.plan) != 32:
            raise ParameterError("plan must be a hash of 32 bytes")
        count("number", self.number, least=0)
        count("clients", self.clients, least=2)
        count("length", self.length)
        count("bits", self.bits)
        count("threshold", self.threshold)
        if (
            not 1 <= self.bits <= 64
            or self.number >= 1 << 63
            or self.length >= 1 << 40
            or self.clients >= 1 << 31
        ):
            raise ParameterError("bits must be at most 64, clients below 2^31, length below 2^40")
        if not 2 <= count("fewest", self.fewest) <= self.clients:
            raise ParameterError(f"fewest must be between 2 and clients = {self.clients}, not {self.fewest}")
        if count("degree", self.degree) % 2 and self.degree != self.clients - 1:
            raise ParameterError(f"degree must be even, or clients - 1 = {self.clients - 1}, not {self.degree}")
        if not self.threshold <= self.degree < self.clients:
            raise ParameterError(
                f"degree must be at least threshold = {self.threshold} and below clients = {self.clients}"
            )

    @cached_property
    def session(self) -> bytes:
        """16 bytes that name this round and everything stated for it."""
        numbers = (
            self.number,
            self.clients,
            self.fewest,
            self.degree,
            self.threshold,
            self.length,
            self.bits,
            int(self.signed),
        )
        return hashlib.sha256(VERSION + struct.pack(">8Q", *numbers) + self.plan).digest()[:SESSION]

    @property
    def keys_size(self) -> int:
        """Bytes of the body of a message of keys."""
        return 2 * PUBLIC + (SIGNATURE if self.signed else 0)


def header(about: SumRound, phase: Phase, client: int) -> bytes:
    """How every message of a client, or to it, begins."""
    return about.session + bytes([phase]) + client.to_bytes(CLIENT, "big")


def body_of(about: SumRound, phase: Phase, client: int, message: bytes) -> bytes | None:
    """What follows the header; None where the header is another one's."""
    if not isinstance(message, bytes) or message[:HEADER] != header(about, phase, client):
        return None
    return message[HEADER:]


def records(body: bytes, *sizes: int) -> list[tuple[bytes, ...]] | None:
    """The fields of each record of a counted list that fills the whole body; None where it does not.

    >>> records((1).to_bytes(4, "big") + b"abc", 1, 2)
    [(b'a', b'bc')]
    """
    size = sum(sizes)
    if len(body) < COUNT or len(body) != COUNT + int.from_bytes(body[:COUNT], "big") * size:
        return None
    found: list[tuple[bytes, ...]] = []
    for start in range(COUNT, len(body), size):
        fields, at = [], start
        for width in sizes:
            fields.append(body[at : at + width])
            at += width
        found.append(tuple(fields))
    return found


def numbered(body: bytes, *sizes: int) -> dict[int, tuple[bytes, ...]] | None:
    """Records that begin with a client, by client; None unless the clients increase."""
    found: dict[int, tuple[bytes, ...]] = {}
    last = -1
    rows = records(body, CLIENT, *sizes)
    if rows is None:
        return None
    for client, *fields in rows:
        number = int.from_bytes(client, "big")
        if number <= last:
            return None
        last = number
        found[number] = tuple(fields)
    return found


def listed(rows: dict[int, tuple[bytes, ...]]) -> bytes:
    """The body of such a list.

    >>> numbered(listed({5: (b"x",), 2: (b"y",)}), 1)
    {2: (b'y',), 5: (b'x',)}
    """
    parts = [len(rows).to_bytes(COUNT, "big")]
    for client in sorted(rows):
        parts += [client.to_bytes(CLIENT, "big"), *rows[client]]
    return b"".join(parts)


def signed_part(about: SumRound, client: int, keys: bytes) -> bytes:
    """What an identity signs: the two public keys of this client in this round."""
    return VERSION + b" keys" + header(about, Phase.KEYS, client) + keys


def commitment(about: SumRound, owner: int, holder: int, kind: int, value: bytes) -> bytes:
    """A hash that binds a client to a share, or to its self seed, without telling it."""
    place = owner.to_bytes(CLIENT, "big") + holder.to_bytes(CLIENT, "big") + bytes([kind])
    return hashlib.sha256(VERSION + b" commitment" + about.session + place + value).digest()


def channel_purpose(about: SumRound, sender: int, receiver: int) -> bytes:
    """What the key is for under which one client's shares travel to another."""
    return (
        VERSION
        + b" shares"
        + about.session
        + sender.to_bytes(CLIENT, "big")
        + receiver.to_bytes(CLIENT, "big")
    )


def pair_purpose(about: SumRound, model: bytes, one: int, other: int) -> bytes:
    """What a pair's mask is for: this session, this model, these two clients."""
    low, high = sorted((one, other))
    return (
        VERSION
        + b" pair"
        + about.session
        + model
        + low.to_bytes(CLIENT, "big")
        + high.to_bytes(CLIENT, "big")
    )


def self_purpose(about: SumRound, model: bytes, client: int) -> bytes:
    """What a client's own mask is for."""
    return VERSION + b" self" + about.session + model + client.to_bytes(CLIENT, "big")
