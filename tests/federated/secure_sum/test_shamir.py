"""Any threshold of shares gives the secret back; fewer agree with every secret."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tacit.federated.secure_sum import shamir
from tacit.federated.secure_sum.shamir import PRIME, SECRET, join, new_secret, split, weights
from tacit.noise import test_mode as seeded


@given(st.binary(min_size=SECRET, max_size=SECRET), st.integers(1, 6), st.integers(0, 4))
def test_any_threshold_of_shares_gives_the_secret(secret: bytes, threshold: int, more: int) -> None:
    points = range(1, threshold + more + 1)
    shares = split(secret, threshold, points)
    for chosen in itertools.combinations(points, threshold):
        assert join({point: shares[point] for point in chosen}) == secret
    assert join(shares) == secret  # more than needed lie on the same polynomial


def test_weights_are_those_of_lagrange() -> None:
    """The oracle inverts every denominator by itself."""
    for points in ((1,), (2, 5, 9), tuple(range(1, 30))):
        for i, weight in enumerate(weights(points)):
            top = under = 1
            for other in points:
                if other != points[i]:
                    top, under = top * other % PRIME, under * (other - points[i]) % PRIME
            assert weight == top * pow(under, PRIME - 2, PRIME) % PRIME


def test_fewer_shares_agree_with_every_secret() -> None:
    """For two of three shares and any secret there is exactly one polynomial: the third share can be worked
    out."""
    shares = split(new_secret(), 3, (1, 2, 3))
    for other in (bytes(SECRET), b"\xff" * SECRET):
        # value at 3 of the parabola through (0, other), (1, s1), (2, s2)
        y0, y1, y2 = (int.from_bytes(v, "big") for v in (other, shares[1], shares[2]))
        third = (y0 - 3 * y1 + 3 * y2) % PRIME
        assert join({1: shares[1], 2: shares[2], 3: third.to_bytes(32, "big")}) == other


def test_shares_of_nothing_give_nothing() -> None:
    """Values on no polynomial of a secret: as good as always the result is longer than a secret."""
    found = [join({1: new_secret() + b"\x01", 2: new_secret() + b"\x02"}) for _ in range(40)]
    assert sum(secret is None for secret in found) > 30


def test_a_share_is_not_the_secret_and_is_new_each_time() -> None:
    secret = new_secret()
    first, second = split(secret, 2, (1, 2)), split(secret, 2, (1, 2))
    assert first != second and secret not in first[1]
    assert split(secret, 1, (7,))[7][1:] == secret  # a threshold of one hides nothing


def test_keys_never_repeat_in_test_mode() -> None:
    """Draws repeat there; two clients that start from one seed must still have different keys."""
    with seeded(1):
        first = shamir.entropy(31)
    with seeded(1):
        assert shamir.entropy(31) != first
