"""Keys agree, seal and sign; small points, other identities and changed messages are seen."""

from __future__ import annotations

import pytest

from tacit.errors import ParameterError
from tacit.federated import ClientIdentity, Register
from tacit.federated.secure_sum.keys import KeyPair, derived, opened, seal


def test_two_pairs_agree_and_a_third_does_not() -> None:
    one, two, three = KeyPair.create(), KeyPair.create(), KeyPair.create()
    assert one.agree(two.public) == two.agree(one.public) != one.agree(three.public)
    assert KeyPair.of(b"secret").public == KeyPair.of(b"secret").public != KeyPair.of(b"other").public


def test_agreement_is_that_of_the_standard() -> None:
    """RFC 7748, section 6.1: the public key of Bob's private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    alice, bob = (
        KeyPair(X25519PrivateKey.from_private_bytes(bytes.fromhex(private)))
        for private in (
            "77076d0a7318a57d3c16c17251b26645df4c72f092ebc0fcdba4a3f3a1a3d02a",
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        )
    )
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    assert alice.agree(bob.public) == bob.agree(alice.public)


@pytest.mark.parametrize("point", [bytes(32), (1).to_bytes(32, "little"), b"short", b""])
def test_points_with_which_nothing_is_secret(point: bytes) -> None:
    assert KeyPair.create().agree(point) is None


def test_sealed_messages_open_only_as_they_were() -> None:
    key = derived(b"agreed", b"purpose")
    sealed = seal(key, b"two shares", b"from 1 to 2")
    assert opened(key, sealed, b"from 1 to 2") == b"two shares"
    assert opened(key, sealed, b"from 2 to 1") is None
    assert opened(derived(b"agreed", b"other"), sealed, b"from 1 to 2") is None
    for at in range(len(sealed)):
        assert opened(key, sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], b"from 1 to 2") is None
    assert opened(key, b"", b"from 1 to 2") is None


def test_a_register_knows_who_signed() -> None:
    one, two = ClientIdentity.create(), ClientIdentity.create()
    register = Register({1: one.public, 2: two.public})
    signed = one.sign(b"keys")
    assert register.verifies(1, b"keys", signed)
    assert not register.verifies(2, b"keys", signed) and not register.verifies(3, b"keys", signed)
    assert not register.verifies(1, b"other keys", signed) and not register.verifies(1, b"keys", signed[:-1])
    assert ClientIdentity.load(one.secret).public == one.public
    for wrong in (b"", b"x" * 31):
        with pytest.raises(ParameterError):
            ClientIdentity.load(wrong)
        with pytest.raises(ParameterError):
            Register({1: wrong})
