"""Exact mixtures against enumeration of who is sampled, and against the pairs they round to."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from tacit.accounting.engines.ball_arithmetic import ExactMixture, exact_gaussian, exact_poisson_gaussian, exact_poisson_gaussian_replaced
from tacit.accounting.pairs.mixture import poisson_gaussian
from tacit.errors import ParameterError


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_group_is_the_law_of_how_many_are_sampled(size: int) -> None:
    rate, sigma = Fraction(2, 7), Fraction(3, 2)
    law: dict[Fraction, Fraction] = {}
    for chosen in itertools.product((False, True), repeat=size):
        weight = Fraction(1)
        for is_in in chosen:
            weight *= rate if is_in else 1 - rate
        law[sum(chosen) / sigma] = law.get(sum(chosen) / sigma, Fraction(0)) + weight
    mixture = exact_poisson_gaussian(rate, sigma, size)
    assert dict(mixture.up) == law and mixture.down == ((0, 1),)
    assert mixture.reverse().reverse() == mixture != mixture.reverse()
    assert mixture.ranges() == (size / sigma, 0) and mixture.total_shift() is None


def test_certain_sampling_is_the_plain_mechanism() -> None:
    assert exact_poisson_gaussian(1, 2, 3) == exact_gaussian(2, 3)
    assert exact_gaussian(2, 3).total_shift() == Fraction(3, 2)
    assert exact_poisson_gaussian(0, 2).total_shift() == 0
    assert exact_poisson_gaussian_replaced(1, 2).total_shift() == 1  # one record moves the sum both ways


def test_floats_are_the_binary_fractions_they_are() -> None:
    exact = ExactMixture.of(poisson_gaussian(0.1, 1.0))
    assert exact == exact_poisson_gaussian(0.1, 1) != exact_poisson_gaussian(Fraction(1, 10), 1)
    assert exact.up[1][1] == Fraction(0.1) and sum(w for _, w in exact.up) == 1
    large = ExactMixture.of(poisson_gaussian(0.9, 1.0))
    assert large.up[1][1] == Fraction(0.9)


def test_mixtures_are_canonical() -> None:
    half = Fraction(1, 2)
    assert ExactMixture(((half, half), (Fraction(0), half))) == ExactMixture(((Fraction(0), half), (half, half / 2), (half, half / 2)))
    with pytest.raises(ParameterError, match="sum to exactly 1"):
        ExactMixture(((Fraction(0), Fraction(0.9)), (Fraction(1), Fraction(0.1))))
    with pytest.raises(ParameterError, match="zero or more"):
        ExactMixture(((Fraction(-1), Fraction(1)),))
