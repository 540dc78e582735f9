"""Numbers from users."""

from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.parameters import count, nonnegative, number, positive, probability


def test_numpy_scalars_become_python_numbers() -> None:
    assert type(number("x", np.float64(1.5))) is float
    assert type(number("x", np.int32(3))) is int
    assert type(number("x", Fraction(1, 3))) is Fraction


@pytest.mark.parametrize("bad", [float("nan"), "1", None, True, [1], 1j])
@pytest.mark.parametrize("check", [number, positive, nonnegative, probability, count])
def test_what_is_not_a_number_is_refused_by_name(check, bad) -> None:
    with pytest.raises(ParameterError, match="budget"):
        check("budget", bad)


def test_ranges() -> None:
    assert probability("p", 1) == 1 and nonnegative("x", 0) == 0 and count("n", 3.0) == 3
    for check, bad in [
        (positive, 0),
        (positive, Fraction(1, 10**400)),
        (nonnegative, -1),
        (probability, 1.0000001),
        (count, 0),
        (count, 1.5),
    ]:
        with pytest.raises(ParameterError):
            check("x", bad)
