from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.audit.toy_models import Linear, constant

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.disclosure import attribute_risk, infer_attribute


def records(n: int, seed: int) -> Any:
    """The last column is a secret bit that has nothing to do with the others; labels are coins."""
    draw = generator(seed)
    x = draw.normal(size=(n, 40))
    x[:, -1] = draw.integers(2, size=n)
    return x, draw.integers(2, size=n)


class Memory:
    """Sure of the label of exactly the records it was trained on."""

    def __init__(self, data: Any) -> None:
        self.known = {tuple(row): int(y) for row, y in zip(data[0].tolist(), data[1], strict=True)}

    def predict_proba(self, x: Any) -> Any:
        rows = [self.known.get(tuple(row)) for row in np.asarray(x).tolist()]
        return np.array([[0.5, 0.5] if y is None else [1 - y, y] for y in rows], dtype=float)


def test_a_model_that_memorises_gives_the_secret_of_members_away() -> None:
    members, others = records(100, 1), records(100, 2)
    found = attribute_risk(Memory(members), members, others, column=-1 % 40, values=[0.0, 1.0])
    assert found.members == 1.0 and found.others < 0.75
    assert found.advantage_interval[0] > 0.2
    assert "advantage" in str(found)


def test_what_a_statistician_could_guess_is_no_advantage() -> None:
    """The secret is nearly fixed by its prior: members and others are guessed alike."""
    members, others = records(200, 3), records(200, 4)
    for part in (members, others):
        part[0][:, -1] = generator(5).random(200) < 0.95
    found = attribute_risk(constant(members), members, others, column=39, values=[0.0, 1.0], prior=[0.05, 0.95])
    assert found.members > 0.85 and found.baseline > 0.9
    assert found.advantage_interval[0] <= 0 <= found.advantage_interval[1]


def test_the_guess_is_the_likeliest_value() -> None:
    model = Linear(np.array([0.0, 1.0]))
    inputs = np.zeros((1, 2)), np.array([1])
    assert infer_attribute(model, inputs, column=1, values=[-1.0, 0.5]).tolist() == [0.5]
    assert infer_attribute(model, inputs, column=1, values=[-1.0, 0.5], prior=[0.99, 0.01]).tolist() == [-1.0]
    assert infer_attribute(model, inputs, column=1, values=[-1.0, 0.5], prior=[1.0, 0.0]).tolist() == [-1.0]


def test_the_true_value_is_not_looked_at() -> None:
    model = Linear(np.array([0.3, 1.0]))
    a, b = (infer_attribute(model, (np.array([[1.0, v]]), np.array([0])), column=1, values=[0.0, 1.0]) for v in (0.0, 99.0))
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize(
    "how",
    [{"column": 40, "values": [0.0]}, {"column": 0, "values": []}, {"column": 0, "values": [1.0], "prior": [-1.0]}],
    ids=["column", "values", "prior"],
)
def test_refusals(how: Any) -> None:
    with pytest.raises(ParameterError):
        infer_attribute(constant(records(5, 1)), records(5, 1), **how)
