"""Sampling schemes check what they are given."""

from fractions import Fraction

import pytest

from tacit.accounting import ParameterError, Poisson, RandomAllocation, TruncatedPoisson, WithoutReplacement, WithReplacement


@pytest.mark.parametrize(
    "make",
    [
        lambda: Poisson(2),
        lambda: WithoutReplacement(10, 11),
        lambda: WithoutReplacement(0, 0),
        lambda: WithReplacement(10, 0),
        lambda: RandomAllocation(10, 11),
        lambda: RandomAllocation(0),
        lambda: TruncatedPoisson(0.1, 100, 0),
        lambda: TruncatedPoisson("0.1", 100, 10),
    ],
)
def test_bad_schemes(make) -> None:
    with pytest.raises(ParameterError):
        make()


def test_rate_of_a_fixed_size_sample_is_exact() -> None:
    assert WithoutReplacement(60000, 256).rate == Fraction(256, 60000)
    assert WithReplacement(10, 20).sample == 20


def test_schemes_are_equal_where_their_kind_and_every_field_are() -> None:
    assert WithoutReplacement(10, 2) == WithoutReplacement(10, 2) and hash(Poisson(0.5)) == hash(Poisson(Fraction(1, 2)))
    assert WithoutReplacement(10, 2) != WithReplacement(10, 2) and vars(WithoutReplacement(10, 2)) == vars(WithReplacement(10, 2))
    assert RandomAllocation(10) != RandomAllocation(10, 2)
    assert Poisson(0.5) != 0.5
