"""Sizes of exact numbers against Python's own decimals, and statements of them that no row makes fail."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tacit.tables import TableError
from tacit.tables.dialects import spoken
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.expressions import total
from tacit.tables.values import BITS, beside_size, common_size, exact_literal, product_size, size_of, sum_size

TYPES = {
    "a": "DECIMAL(18,3)", "b": "DECIMAL(18,0)", "c": "DECIMAL(38,10)", "d": "DECIMAL(4,4)", "e": "DECIMAL(38,0)", "f": "BIGINT",
    "g": "INTEGER", "h": "SMALLINT", "u": "UBIGINT", "v": "DECIMAL(27,9)", "x": "DOUBLE",
}  # fmt: skip
FORMS = [
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "-{0}", "ABS({0})", "ROUND({0}, 2)", "FLOOR({0})", "CEIL({0})", "{0} + {1} * {2}",
    "COALESCE({0}, {1})", "GREATEST({0}, {1})", "CASE WHEN {0} > {1} THEN {2} ELSE 0.125 END", "{0} = {1}", "{0} * 1234567.891",
    "CAST({0} AS BIGINT)", "CAST({0} AS DECIMAL(20, 2))", "{0} IN (0.5, 1e30, -7, 123.456789012345678901)", "{0} * {1} * {2}", "{0} / {1}",
    "{0} <= 123456789012345678901234567890.123456789", "{0} BETWEEN {1} AND {2}", "-(-{0}) - {1}",
]  # fmt: skip


def ends(kind: str) -> list[str]:
    """The extreme values of a type."""
    size = size_of(kind)
    if kind == "DOUBLE" or size is None:
        return ["1e300", "-1e300", "0.1", "5e-324", "-2.5"]
    if kind in BITS:
        return [str(2 ** BITS[kind] - 1), str(-(2 ** BITS[kind])), "0", "7"]
    if kind == "UBIGINT":
        return [str(2**64 - 1), "0", str(2**63), str(2**53 + 1)]
    digits = "9" * size[0]
    most = digits[: size[0] - size[1]] + (f".{digits[size[0] - size[1] :]}" if size[1] else "")
    return [most, f"-{most}", "0", f"0.{'0' * (size[1] - 1)}1" if size[1] else "1"]


def test_no_row_of_extreme_numbers_makes_a_statement_fail() -> None:
    engine, draw = DuckDB(threads=1), random.Random(3)
    run = engine._connection.execute
    run(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
    for _ in range(40):
        run(f"INSERT INTO t VALUES ({', '.join(f'''CAST('{draw.choice(ends(kind))}' AS {kind})''' for kind in TYPES.values())})")
    asked = 0
    for form in FORMS:
        triples = list(itertools.product(TYPES, repeat=3))
        sums = []
        for names in draw.sample(triples, 20):
            try:
                tree = spoken(parse_one(f"SELECT {form.format(*names)}", read="duckdb"), "duckdb").expressions[0]
                sums.append(exp.Count(this=exp.Distinct(expressions=[total(tree, TYPES).sql])))
            except TableError:
                continue
        engine.run(exp.Select(expressions=sums).from_("t"))
        asked += len(sums)
    assert asked > 300


CONSTANTS = st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9)


@given(CONSTANTS, st.integers(0, 9), st.integers(0, 6))
def test_a_constant_beside_a_size_lies_to_its_numbers_as_the_given_one(constant: Decimal, digits: int, places: int) -> None:
    size = (digits + places + 1, places)
    found = beside_size(Fraction(constant), size)
    assert found is not None and common_size([found[1], size]) is not None
    step = Fraction(1, 10**places)
    most = (10 ** (size[0]) - 1) * step
    near = Fraction(constant) // step * step
    for number in {near, near + step, -most, most, Fraction(0)}:
        if abs(number) <= most:
            assert (number < constant, number == constant) == (number < found[0], number == found[0])


@given(st.integers(1, 20), st.integers(0, 10), st.integers(1, 20), st.integers(0, 10))
def test_sums_and_products_of_the_largest_fit(p: int, s: int, q: int, t: int) -> None:
    first, second = (p + s, s), (q + t, t)
    with localcontext() as context:
        context.prec = 100
        a, b = (Decimal(10 ** size[0] - 1).scaleb(-size[1]) for size in (first, second))
        for found, exact in ((sum_size(first, second), a + b), (product_size(first, second), a * b)):
            if found is not None:
                assert abs(exact) < Decimal(10) ** (found[0] - found[1]) and exact == round(exact, found[1])


@pytest.mark.parametrize("text", ["12.99", "-0.05", "0.1", "123456789012345678901234567890.12345678", "-7", "0"])
def test_a_literal_has_all_its_digits(text: str) -> None:
    size = size_of(Fraction(text))
    assert size is not None and Fraction(exact_literal(Fraction(text), size).sql()) == Fraction(text)
