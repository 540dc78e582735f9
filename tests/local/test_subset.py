"""Subset selection: sets of the right size, and its variance the least of all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.local.oracles import outcomes
from tests.noise.reference import LEVEL, chi_square

from tacit.errors import ParameterError
from tacit.local import Subset, Unary
from tacit.mechanisms.verify import enclosed


@pytest.mark.parametrize(("size", "chosen"), [(5, 1), (5, 4), (13, 3), (100, 27)])
def test_every_report_has_the_chosen_number_of_values(size: int, chosen: int) -> None:
    reports = Subset(size, 1, chosen).privatise(np.arange(500) % size)
    assert (np.bitwise_count(reports).sum(axis=1) == chosen).all()
    rows = np.concatenate([reports[:1], np.zeros_like(reports[:1])])
    assert Subset(size, 1, chosen).from_bytes(rows)[1].tolist() == [True, False]


@pytest.mark.parametrize("chosen", [1, 2, 3, 5])
def test_small_and_large_subsets_follow_the_law(chosen: int) -> None:
    """Six values: sets of one and two are drawn place by place, larger ones by coins. Chi-square at 1e-6 over all sets, for two values; the
    law of another value is refused."""
    oracle, draws = Subset(6, 1, chosen), 60_000
    for value in (0, 4):
        seen = outcomes(oracle, oracle.privatise(np.full(draws, value)))
        for told, right in ((value, True), (1, False)):
            law = {o: float(sum(m)) / 2 for o, m in enclosed(oracle.distribution(told)).items()}
            assert (chi_square([seen[o] for o in law], list(law.values()), draws) > LEVEL) is right


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4])
def test_the_variance_in_closed_form(epsilon: float) -> None:
    """Ye and Barg 2018: with d values and sets of w, (d - 1) d / ... by p = E w / (E w + d - w) and the pairs of a set."""
    d, odds = 60, math.exp(epsilon)
    for w in (1, 5, 30):
        z = math.comb(d - 1, w - 1) * odds + math.comb(d - 1, w)
        p = math.comb(d - 1, w - 1) * odds / z
        q = (math.comb(d - 2, w - 2) * odds + math.comb(d - 2, w - 1)) / z if w > 1 else math.comb(d - 2, w - 1) / z
        assert Subset(d, epsilon, w).variance(1) == pytest.approx(q * (1 - q) / (p - q) ** 2, rel=1e-9)
    assert Subset(d, epsilon).variance(1) <= Unary(d, epsilon).variance(1)


def test_bad_sizes_are_refused() -> None:
    for bad in (5, 6, -1, 2.5):
        with pytest.raises(ParameterError, match="chosen"):
            Subset(5, 1, bad)  # type: ignore[arg-type]
