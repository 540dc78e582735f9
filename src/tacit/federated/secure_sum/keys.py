"""Keys of a secure sum: agreement on pair secrets, encryption of shares, and identities that sign keys.

X25519 agrees, HKDF with SHA-256 derives, ChaCha20-Poly1305 encrypts, Ed25519 signs; all from `cryptography`.
Each derived key is bound to what it is for, the session, and both clients' numbers.

>>> ours, theirs = KeyPair.create(), KeyPair.create()
>>> derived(ours.agree(theirs.public), b"for a test") == derived(theirs.agree(ours.public), b"for a test")
True
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from tacit.errors import PackageMissing, ParameterError
from tacit.federated.secure_sum.shamir import entropy

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
except ModuleNotFoundError:
    raise PackageMissing(
        code="package-missing", package="cryptography", install="'tacit[federated]'"
    ) from None

PUBLIC = 32  # bytes of a public key
SIGNATURE = 64
SEALED = 16  # bytes that encryption adds
_NONCE = bytes(12)  # each key encrypts one message


def derived(secret: bytes, purpose: bytes) -> bytes:
    """32 bytes from a shared or random secret, for one stated purpose (HKDF with SHA-256, one block).

    >>> derived(b"secret", b"a") == derived(b"secret", b"b")
    False
    """
    inner = hmac.digest(bytes(32), secret, sha256)
    return hmac.digest(inner, purpose + b"\x01", sha256)


class KeyPair:
    """An X25519 key pair, new or made from a secret of which shares exist."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()

    @classmethod
    def create(cls) -> KeyPair:
        """A pair from the operating system's entropy."""
        return cls.of(entropy(32))

    @classmethod
    def of(cls, secret: bytes) -> KeyPair:
        """The pair that belongs to a secret."""
        return cls(X25519PrivateKey.from_private_bytes(derived(secret, b"tacit secure sum key")))

    def agree(self, other: bytes) -> bytes | None:
        """What both sides share; None where the other's bytes are a key with which nothing secret can be
        shared."""
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:  # a point of small order
            return None


def seal(key: bytes, plain: bytes, about: bytes) -> bytes:
    """One message under a key that is used once."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, plain, about)


def opened(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """The message, or None where it was changed or is another's.

    >>> sealed = seal(bytes(32), b"share", b"1")
    >>> opened(bytes(32), sealed, b"1"), opened(bytes(32), sealed, b"2")
    (b'share', None)
    """
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, about)
    except InvalidTag:
        return None


class ClientIdentity:
    """A client's long-lived Ed25519 key, which signs the keys of each round.

    >>> me = ClientIdentity.create()
    >>> Register({7: me.public}).verifies(7, b"keys", me.sign(b"keys"))
    True
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def create(cls) -> ClientIdentity:
        """A new identity from the operating system's entropy."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, secret: bytes) -> ClientIdentity:
        """The identity whose 32 secret bytes were stored."""
        if len(secret) != 32:
            raise ParameterError("secret must be the 32 bytes of an identity")
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    @property
    def secret(self) -> bytes:
        """The 32 bytes to store on the client's own device."""
        return self._private.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """The 32 bytes that go into the register."""
        return self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """A signature of 64 bytes."""
        return self._private.sign(message)


class Register:
    """The public keys of the identities that may take part: client number -> 32 bytes.

    It must reach clients by a way that the server does not control; only then are sums safe from a server
    that invents clients.

    >>> Register({1: ClientIdentity.create().public}).verifies(2, b"keys", bytes(64))
    False
    """

    def __init__(self, known: Mapping[int, bytes]) -> None:
        if any(len(key) != PUBLIC or not 0 <= client < 1 << 64 for client, key in known.items()):
            raise ParameterError("a register maps client numbers to public keys of 32 bytes")
        if len(set(known.values())) != len(known):
            raise ParameterError("two clients of a register have the same key; whoever holds it would count twice")
        self._known = dict(known)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the list: what plans and policies name it by."""
        rows = sorted(self._known.items())
        return sha256(b"tacit register 1\n" + b"".join(client.to_bytes(8, "big") + key for client, key in rows)).hexdigest()

    def to_record(self) -> dict[str, str]:
        """A JSON-able form, for a file."""
        return {str(client): key.hex() for client, key in sorted(self._known.items())}

    @staticmethod
    def load(path: str | Path) -> Register:
        """The register in a YAML or JSON file, `number of a client: public key in hex`. A policy says which one is right.

        >>> import json, pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "register.json"
        >>> known = Register({7: ClientIdentity.create().public})
        >>> _ = file.write_text(json.dumps(known.to_record()))
        >>> Register.load(file).fingerprint == known.fingerprint
        True
        """
        import yaml

        read = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        try:
            return Register({int(client): bytes.fromhex(key) for client, key in read.items()})
        except (AttributeError, TypeError, ValueError):
            raise ParameterError("a register file has lines such as 7: <public key of 32 bytes in hex>") from None

    def __len__(self) -> int:
        return len(self._known)

    def verifies(self, client: int, message: bytes, signature: bytes) -> bool:
        """Whether this client is registered and signed this message."""
        if client not in self._known:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self._known[client]).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True
