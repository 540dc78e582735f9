"""Response among k categories: the coin form of Warner, and reports in the smallest type."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.noise.reference import LEVEL, chi_square

from tacit.local import Response


def test_two_fair_coins_are_epsilon_ln_3() -> None:
    assert Response(2, math.log(3)).held == pytest.approx(0.75)


@pytest.mark.parametrize(("size", "kind"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65_537, np.uint32)])
def test_reports_are_small(size: int, kind: type) -> None:
    assert Response(size, 1).privatise([0, 1]).dtype == kind
    assert Response(size, 1).width == (1 if size <= 256 else 2 if size <= 65_536 else 3)


def test_lies_are_uniform_among_the_others() -> None:
    n = 100_000
    drawn = Response(5, 0.1).privatise(np.full(n, 3))
    p, q = Response(5, 0.1).held, Response(5, 0.1).other
    assert chi_square(np.bincount(drawn, minlength=5), [q, q, q, p, q], n) > LEVEL
    assert chi_square(np.bincount(drawn, minlength=5), [q, q, p, q, q], n) < LEVEL
