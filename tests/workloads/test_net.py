"""The net mechanism on a toy: every probability by enumeration, the printed score as a mutant."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.mechanisms import exponential
from tacit.noise import test_mode as seeded
from tacit.workloads import AllRanges, Cells, Predicates, Product
from tacit.workloads.net import NetMechanism


def net(cells: int = 2, rows: int = 4, epsilon: float = 1) -> NetMechanism:
    return NetMechanism(Product(a=AllRanges).on(Cells.of({"a": cells})), rows, epsilon)


def chances(found: NetMechanism, counts: tuple[int, ...]) -> list[float]:
    weights = exponential(found.epsilon).probabilities([int(score) for score in found.scores(counts)])
    return [float(low + high) / 2 for low, high in weights]


@pytest.mark.parametrize(("cells", "rows"), [(2, 4), (3, 4)])
def test_no_probability_changes_by_more_than_the_price(cells: int, rows: int) -> None:
    found, worst = net(cells, rows), 0.0
    for one in found.candidates:
        for other in found.candidates:
            if sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 2:  # one row replaced
                for p, q in zip(chances(found, one), chances(found, other), strict=True):
                    worst = max(worst, abs(math.log(p / q)))
    assert 0.5 < worst <= 1 + 1e-12


def test_the_printed_inverse_has_no_sensitivity() -> None:
    """E19: one over the error goes from infinity to 1 as one row is replaced."""
    found = net()
    errors = [-found.scores(counts)[found.candidates.index((4, 0))] for counts in ((4, 0), (3, 1))]
    assert errors == [0, 1]


def test_the_draw_prefers_the_data_set_itself() -> None:
    found = net(epsilon=20)
    with seeded(1):
        assert [found.draw((1, 3)) for _ in range(20)].count((1, 3)) >= 18
    assert len(net(3, 4).candidates) == 15


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="lists all"):
        net(30, 30)
    with pytest.raises(ParameterError, match="count rows"):
        NetMechanism(Product(a=Predicates.of(np.array([[0.5, 1.0]]))).on(Cells.of({"a": 2})), 3, 1)
