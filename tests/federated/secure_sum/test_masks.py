"""Masks cancel, are uniform, and are bound to what they are for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from scipy.stats import chi2
from tests.federated.rounds import MODEL, Play, stated, vectors_for

from tacit.federated.secure_sum import masks, wire
from tacit.federated.secure_sum.keys import KeyPair, derived


@pytest.mark.parametrize("length", [1, 31, 1 << 15, (1 << 16) + 3, 200_001])
@pytest.mark.parametrize("bits", [16, 20, 40])
def test_a_mask_is_the_key_stream(length: int, bits: int) -> None:
    key = bytes(range(32))
    vector = np.zeros(length, dtype=masks.word(bits))
    masks.apply(vector, key, 1)
    stream = Cipher(AES256(key), CTR(bytes(16))).encryptor().update(bytes(vector.nbytes))
    assert vector.tobytes() == stream
    masks.apply(vector, key, -1)
    assert not vector.any()


@pytest.mark.parametrize("bits", [5, 8, 9, 16, 17, 20, 24, 25, 32, 33, 40, 48, 56, 63, 64])
def test_packing_is_exact(bits: int) -> None:
    top = (1 << bits) - 1
    vector = np.array([0, 1, top, top // 3, top - 1], dtype=masks.word(bits))
    raw = masks.packed(vector, bits)
    assert raw == b"".join(int(x).to_bytes(-(-bits // 8), "little") for x in vector)
    found = masks.unpacked(raw, 5, bits)
    assert found is not None and found.tolist() == vector.tolist()
    assert masks.unpacked(raw + b"\0", 5, bits) is None and masks.unpacked(raw, 4, bits) is None
    if bits % 8:
        assert masks.unpacked(b"\xff" * len(raw), 5, bits) is None


def chi_square(numbers: np.ndarray) -> float:
    """The chance of bytes less even than these, were they uniform."""
    counts = np.bincount(numbers.view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 255))


def seen_by_server(bits: int, break_it: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """One client's masked vector of 100,000 numbers as it leaves, and what is in it; broken, its self mask
    is left out."""
    about = stated(3, bits=bits, length=100_000)
    vectors = vectors_for(about, 3)
    vectors[8] = (np.arange(100_000) % 7).astype(vectors[8].dtype)  # far from uniform
    play = Play(about, vectors, {"unmask": [5, 8, 11]})
    play.run()
    vector = masks.unpacked(play.masked[8][wire.HEADER :], about.length, about.bits)
    assert vector is not None
    if break_it:
        # the mutant: a mask of the low 15 bits only
        vector = vectors[8] + ((vector - vectors[8]) & 0x7FFF)
    return vector, vectors[8]


def test_a_masked_vector_alone_is_uniform_and_uncorrelated() -> None:
    """Chi-square on 200,000 bytes and a correlation over 100,000 numbers: error rate 1e-4 each."""
    vector, inside = seen_by_server(16)
    assert chi_square(vector) > 1e-4
    correlation = np.corrcoef(vector.astype(float), inside.astype(float))[0, 1]
    assert abs(correlation) < 3.9 / math.sqrt(len(vector))
    assert (
        chi_square(seen_by_server(16, break_it=True)[0]) < 1e-10
    )  # the test would see a mask that is not uniform


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_many_masked_vectors_are_uniform(bits: int) -> None:
    chances = sorted(chi_square(seen_by_server(bits)[0].astype(f"<u{bits // 8}")) for _ in range(40))
    assert chances[0] > 1e-6 and 0.2 < chances[20] < 0.8


def test_flower_s_masks_fail_where_ours_pass() -> None:
    """A known fault of the peer: values 0 .. M - 2 only, so the top residue never occurs. Modulo 4 this is
    plain to see."""
    pytest.importorskip("flwr")
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    theirs = pseudo_rand_gen(bytes(range(32)), 4, [(4000,)])[0]
    ours = np.zeros(4000, dtype=masks.word(16))
    masks.apply(ours, bytes(range(32)), 1)
    assert set(masks.reduce(ours, 2).tolist()) == {0, 1, 2, 3} and set(np.asarray(theirs).tolist()) == {
        0,
        1,
        2,
    }


def test_pair_masks_agree_only_for_one_round_plan_model_and_pair() -> None:
    one, other = KeyPair.create(), KeyPair.create()
    agreed, same = one.agree(other.public), other.agree(one.public)
    assert agreed is not None and agreed == same
    about = stated(3)
    base = derived(agreed, wire.pair_purpose(about, MODEL, 5, 8))
    assert base == derived(agreed, wire.pair_purpose(about, MODEL, 8, 5))
    others = [
        wire.pair_purpose(stated(3, number=2), MODEL, 5, 8),
        wire.pair_purpose(stated(3, plan=bytes(32)), MODEL, 5, 8),
        wire.pair_purpose(about, bytes(32), 5, 8),
        wire.pair_purpose(about, MODEL, 5, 11),
        wire.self_purpose(about, MODEL, 5),
        wire.channel_purpose(about, 5, 8),
    ]
    assert len({base, *(derived(agreed, purpose) for purpose in others)}) == 7


def test_derivation_is_hkdf_as_the_standard_has_it() -> None:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    assert derived(b"secret", b"purpose") == HKDF(SHA256(), 32, salt=None, info=b"purpose").derive(b"secret")
