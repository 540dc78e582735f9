"""Finite fields of a prime or prime-power number of elements, by tables: what projective-geometry response computes in.

An element is a whole number below `order`, whose digits to the base of the prime are the coefficients of a polynomial.

>>> four = field(4)
>>> int(four.times[2, 3]), int(four.inverse[2])
(1, 3)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError

LARGEST = 256  # elements of a field with tables; larger prime fields count modulo the prime


@dataclass(frozen=True, eq=False)
class Field:
    """A field: tables of sums, products and inverses, and for each element the digits of its additive character."""

    order: int
    prime: int
    degree: int
    plus: NDArray[np.int64]
    times: NDArray[np.int64]
    minus: NDArray[np.int64]  # the negative of each element
    inverse: NDArray[np.int64]  # 0 for 0
    dual: NDArray[np.int64]  # row a: the traces of a times each basis element, which name the character y -> trace(a y)


def prime_power(order: int) -> tuple[int, int] | None:
    """The prime and the exponent, or None where the number is no power of a prime.

    >>> prime_power(8), prime_power(6)
    ((2, 3), None)
    """
    for prime in range(2, order + 1):
        if order % prime == 0:
            degree = 0
            while order % prime == 0:
                order, degree = order // prime, degree + 1
            return (prime, degree) if order == 1 else None
    return None


@lru_cache(maxsize=16)
def field(order: int) -> Field:
    """The field of so many elements."""
    known = prime_power(order)
    if known is None or order > LARGEST:
        raise ParameterError(f"order must be a power of a prime, at most {LARGEST}, not {order}")
    prime, degree = known
    digits = np.array(list(itertools.product(range(prime), repeat=degree)), dtype=np.int64)[:, ::-1]  # lowest digit first
    worth = prime ** np.arange(degree)
    plus = ((digits[:, None, :] + digits[None, :, :]) % prime) @ worth
    for modulus in itertools.product(range(prime), repeat=degree):
        times = _products(digits, np.array(modulus), prime, worth)
        # a field, where every element but 0 has an inverse
        if (np.sort(times[1:, 1:], axis=1) == np.arange(1, order)).all():
            break
    inverse = np.zeros(order, dtype=np.int64)
    rows, columns = np.nonzero(times == 1)
    inverse[rows] = columns
    minus = ((-digits) % prime) @ worth
    trace = np.zeros(order, dtype=np.int64)
    for element in range(order):
        power, total = element, 0
        for _ in range(degree):
            total = int(plus[total, power])
            power = _power(times, power, prime)
        trace[element] = total  # lies in the prime field, so it is its own lowest digit
    dual = np.stack([trace[times[:, int(w)]] for w in worth], axis=1)
    return Field(order, prime, degree, plus, times, minus, inverse, dual)


def _power(times: NDArray[np.int64], element: int, exponent: int) -> int:
    found = 1
    for _ in range(exponent):
        found = int(times[found, element])
    return found


def _products(digits: NDArray[np.int64], modulus: NDArray[np.int64], prime: int, worth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Products of polynomials modulo x^degree - (the polynomial with these coefficients)."""
    degree = digits.shape[1]
    wide = np.zeros((len(digits), len(digits), 2 * degree - 1), dtype=np.int64)
    for i, j in itertools.product(range(degree), repeat=2):
        wide[:, :, i + j] += np.multiply.outer(digits[:, i], digits[:, j])
    for top in range(2 * degree - 2, degree - 1, -1):
        for i in range(degree):
            wide[:, :, top - degree + i] += wide[:, :, top] * modulus[i]
    return (wide[:, :, :degree] % prime) @ worth
