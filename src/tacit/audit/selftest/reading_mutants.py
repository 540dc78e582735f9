"""Faults in how values, people, keys and parts are read: one person's value that moves other people's.

Each is a count with Laplace noise whose scale is right if one person moves it by what is declared. In the broken
version the reading is as numpy, Python's `repr` or a clamp would have it, and the person moves it by much more.

>>> [mutant.name for mutant in mutants()][:2]
['parallel: keys that the domain merges', 'blocks: hashed by what Python prints']
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import PureDP
from tacit.audit.claim import Claim
from tacit.audit.selftest.case import Mutant
from tacit.calculus import AddRemove, DomainError, Identifiers, Integers, Rows, Space, cap_rows, map_rows, partition_by, table
from tacit.ledger import paying
from tacit.mechanisms import sample_aggregate
from tacit.noise import bernoulli, discrete_laplace

Draws = NDArray[np.int64]
#: What the noise is added to, for some data.
Answer = Callable[[Any], int]
KEY = b"a key of the self-test"
BLOCKS = 50
MOST = 3  # rows of a person
SPLIT = 3  # epsilon of each half of a split


def noisy(answer: Answer, moved: int = 1) -> Callable[[Any, int], Draws]:
    """n answers with noise for one person who moves the number by `moved`, at epsilon 1."""

    def draw(data: Any, n: int) -> Draws:
        found: Draws = answer(data) + np.asarray(discrete_laplace(moved, size=n), dtype=np.int64)
        return found

    return draw


def mutants() -> list[Mutant]:
    """Faults of plans: keys, blocks, people, splits."""

    def mutant(name: str, fault: str, broken: Answer, right: Answer, pair: tuple[Any, Any], moved: int = 1) -> Mutant:
        return Mutant(name, noisy(broken, moved), noisy(right, moved), pair, fault=fault, bulk=True)

    rows = list(range(1, 200))
    visits = {"id": [9] * 4, "x": [0, 1, 2, 3]}
    more = {"id": [9] * 4 + [99] * 200, "x": list(range(204))}
    split = Mutant(
        "split: drawn again for each part", both_parts, one_part, (0, 1), Claim.of(epsilon=SPLIT), 20_000,
        "A row that draws lots for its part draws again for the other, and is in both one time in four.", bulk=True,
    )  # fmt: skip
    return [
        mutant(
            "parallel: keys that the domain merges", "Ten keys beyond the bound are one value, and each has its rows.",
            merged_keys, one_key, ([], [250]),
        ),
        mutant(
            "blocks: hashed by what Python prints", "One row of 2^62 changes the type of the column, and every row's block.",
            lambda data: blocks_with_even_numbers(data, printed=True), lambda data: blocks_with_even_numbers(data, printed=False),
            (rows, [*rows, 2**62]),
        ),
        mutant(
            "people: merged by a clamp", "A person beyond the bounds becomes one with another, and pushes out all her rows.",
            lambda data: rows_of_nine(data, clamped=True), lambda data: rows_of_nine(data, clamped=False), (visits, more),
        ),
        split,
        Mutant("rows: a function that raises", unguarded, mapped, ([1, 2], [1, 0]), bulk=True),
        Mutant("errors: a record's value in the words", told, withheld_error, (["1", "Ada"], ["1", "Bob"]), bulk=True),
    ]  # fmt: skip


def merged_keys(data: list[int]) -> int:
    """The counts of ten parts, as if the keys stayed different."""
    domain = Rows(Integers(0, 100))
    return 10 * len(partition_by([100]).split(domain.enforce(data), domain)[100])


def one_key(data: list[int]) -> int:
    """The counts of the parts that are accepted."""
    domain = Rows(Integers(0, 100))
    try:
        found = partition_by(range(100, 110)).split(domain.enforce(data), domain)
    except DomainError:
        found = partition_by([100]).split(domain.enforce(data), domain)
    return sum(len(part) for part in found.values())


def blocks_with_even_numbers(data: list[int], *, printed: bool) -> int:
    """How many blocks hold an even number of rows: what one changed block changes by one."""

    def even(block: Any) -> int:
        return int(len(block) % 2 == 0)

    plan: Any = Space(Rows(Integers()), AddRemove()) >> sample_aggregate(even, blocks=BLOCKS, bounds=(0, 1), granularity=1, key=KEY)
    if not printed:
        return int(plan(data).sum())
    column = Rows(Integers()).enforce(data)
    texts = [repr((value,)).encode() for value in column]
    places = [int.from_bytes(hashlib.blake2b(text, key=KEY, digest_size=16).digest(), "big") % BLOCKS for text in texts]
    return sum(places.count(block) % 2 == 0 for block in range(BLOCKS))


def rows_of_nine(data: dict[str, list[int]], *, clamped: bool) -> int:
    """How many of the capped rows were person 9's own: another person must not move it."""
    space = Space(table(id=Integers(0, 9), x=Integers(0, 999)), Identifiers("id"))
    given = {"id": [min(one, 9) for one in data["id"]], "x": data["x"]} if clamped else data
    plan: Any = space >> cap_rows("id", MOST)
    return sum(x < 4 for x in plan(given)["x"].tolist())


def both_parts(rows: int, n: int) -> NDArray[np.int64]:
    """The noisy counts of two parts, where each row draws lots for each of them."""
    half = Fraction(1, 2)
    first, second = (np.asarray(bernoulli(half, n), dtype=np.int64) for _ in range(2))
    return _two_counts(rows * first, rows * second, n)


def one_part(rows: int, n: int) -> NDArray[np.int64]:
    """The same, where each row draws once."""
    first = np.asarray(bernoulli(Fraction(1, 2), n), dtype=np.int64)
    return _two_counts(rows * first, rows * (1 - first), n)


def unguarded(rows: list[int], n: int) -> Draws:
    """A function fails on one person's row, and instead of an answer comes an error."""
    try:
        found = sum(1 // row >= 0 for row in rows)
    except ZeroDivisionError:
        return np.full(n, -1)
    return noisy(lambda data: found)(rows, n)


def mapped(rows: list[int], n: int) -> Draws:
    """The row on which it fails becomes a default."""
    plan: Any = Space(Rows(Integers()), AddRemove()) >> map_rows(lambda row: 1 // int(row), Integers(0, 1))
    return noisy(lambda data: len(plan(data)))(rows, n)


def told(values: list[str], n: int) -> Draws:
    """Reading fails on a record, and the error quotes it."""
    try:
        np.array(values, dtype=float)
    except ValueError as error:
        return np.full(n, zlib.crc32(str(error).encode()))
    return np.zeros(n, dtype=np.int64)


def withheld_error(values: list[str], n: int) -> Draws:
    """Whatever fails once the data is touched becomes one constant error."""
    try:
        with paying(None, PureDP(1)) as payment, payment.touching():
            np.array(values, dtype=float)
    except Exception as error:
        return np.full(n, zlib.crc32(f"{error!r}{error.__cause__!r}".encode()))
    return np.zeros(n, dtype=np.int64)


def _two_counts(first: Draws, second: Draws, n: int) -> NDArray[np.int64]:
    noise = np.asarray(discrete_laplace(Fraction(1, SPLIT), size=(n, 2)), dtype=np.int64)
    return np.stack([first, second], axis=1) + noise


def learning_mutants() -> list[Mutant]:
    """Faults of estimators: labels read by numpy, steps of a pipeline that see all rows. Needs scikit-learn."""
    from tacit.learning import RowByRow, codes_of

    labels: list[Any] = [0, 1] * 100

    def together(y: list[Any]) -> int:
        return sum(label in (0, 1) for label in np.array(y).tolist())

    def alone(y: list[Any]) -> int:
        return int((codes_of(y, np.array([0, 1])) >= 0).sum())

    def centred(X: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = X - X.mean(axis=0)
        return found

    def above(X: NDArray[np.float64]) -> int:
        return int((X[:, 0] >= 0).sum())

    def stepped(X: NDArray[np.float64]) -> int:
        from sklearn.preprocessing import FunctionTransformer

        return above(RowByRow(FunctionTransformer(centred)).fit(X).transform(X))

    rows = np.arange(100.0)[:, None]
    fault = "One text among whole numbers makes texts of all labels, and no label is known."
    carried = "A free step takes the mean of all rows from each: one row moves every other."
    return [
        Mutant("learning: labels read by numpy", noisy(together), noisy(alone), (labels, [*labels, "x"]), fault=fault, bulk=True),
        Mutant(
            "learning: a free step that sees all rows", noisy(lambda X: above(centred(X))), noisy(stepped),
            (rows, np.concatenate([rows, [[1e6]]])), fault=carried, bulk=True,
        ),
    ]  # fmt: skip
