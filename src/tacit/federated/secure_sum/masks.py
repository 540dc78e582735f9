"""Masks: streams of whole numbers modulo 2^bits from a key, added to a vector or taken from it in place.

Each mask is the key stream of AES-256 in counter mode under a key that makes no other stream; with the
instructions that processors have for it, it is twice as fast as ChaCha20. Numbers are read as little-endian
words of 16, 32 or 64 bits and reduced once at the end, so every residue is equally likely.

>>> vector = np.zeros(3, dtype=word(16))
>>> apply(vector, bytes(32), 1)
>>> apply(vector, bytes(32), -1)
>>> vector.tolist()
[0, 0, 0]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PackageMissing

try:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR
except ModuleNotFoundError:
    raise PackageMissing(
        code="package-missing", package="cryptography", install="'tacit[federated]'"
    ) from None

Vector = NDArray[Any]  # unsigned whole numbers of one of three widths
_BLOCK = 1 << 17  # bytes of stream at a time: stream and sum stay in the processor's cache
_ZEROS = bytes(_BLOCK)


def word(bits: int) -> np.dtype[Any]:
    """The type of a vector modulo 2^bits: the narrowest of 16, 32 and 64 bits that holds it.

    >>> word(16), word(17), word(33)
    (dtype('uint16'), dtype('uint32'), dtype('uint64'))
    """
    return np.dtype(f"<u{2 if bits <= 16 else 4 if bits <= 32 else 8}")


def apply(vector: Vector, key: bytes, sign: int) -> None:
    """Add (or, for a negative sign, take away) the mask of a key, in place and modulo the words of the
    vector."""
    stream = Cipher(AES256(key), CTR(bytes(16))).encryptor()
    step = _BLOCK // vector.itemsize
    buffer = bytearray(_BLOCK)
    words = np.frombuffer(buffer, dtype=vector.dtype)
    for start in range(0, len(vector), step):
        part = vector[start : start + step]
        size = part.nbytes
        stream.update_into(_ZEROS if size == _BLOCK else _ZEROS[:size], buffer)
        if sign > 0:
            part += words[: len(part)]
        else:
            part -= words[: len(part)]


def reduce(vector: Vector, bits: int) -> Vector:
    """The vector modulo 2^bits, in place."""
    if bits < 8 * vector.itemsize:
        vector &= vector.dtype.type((1 << bits) - 1)
    return vector


def packed(vector: Vector, bits: int) -> bytes:
    """The numbers in as many whole bytes each as `bits` need, little-endian.

    >>> packed(np.array([1, 2], dtype="<u4"), 20).hex()
    '010000020000'
    """
    numbers = np.asarray(vector, dtype=word(bits))
    form = _record(bits)
    if form is None:
        return numbers.tobytes()
    found = np.empty(len(numbers), dtype=form)
    shift = 0
    for name in form.names or ():
        found[name] = numbers >> shift if shift else numbers  # the assignment keeps the low bytes
        shift += 8 * form[name].itemsize
    return found.tobytes()


def unpacked(raw: bytes, length: int, bits: int) -> Vector | None:
    """The numbers again; None where the length is wrong or a number is not below 2^bits.

    >>> unpacked(bytes.fromhex("010000020000"), 2, 20).tolist()
    [1, 2]
    >>> unpacked(bytes.fromhex("010000020010"), 2, 20), unpacked(b"", 2, 20)
    (None, None)
    """
    kind, form = word(bits), _record(bits)
    if len(raw) != length * (form or kind).itemsize:
        return None
    if form is None:
        vector = np.frombuffer(raw, dtype=kind)
    else:
        parts = np.frombuffer(raw, dtype=form)
        vector = np.zeros(length, dtype=kind)
        shift = 0
        for name in form.names or ():
            part = parts[name].astype(kind)
            vector |= part << shift if shift else part
            shift += 8 * form[name].itemsize
    if bits < 8 * kind.itemsize and length and int(vector.max()) >> bits:
        return None
    return vector


def _record(bits: int) -> np.dtype[Any] | None:
    """A number's bytes as fields of 4, 2 and 1 bytes, where its machine word has more; None where it has
    not."""
    width = -(-bits // 8)
    if width == word(bits).itemsize:
        return None
    return np.dtype([(f"bytes{size}", f"<u{size}") for size in (4, 2, 1) if width & size])
