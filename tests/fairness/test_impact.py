"""What privacy costs each group: ordering on a mixture with a harder minority, telemetry, and what is not private."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tacit.accounting import Laplace
from tacit.errors import ParameterError
from tacit.fairness import disparate_impact, gradient_telemetry
from tacit.learning import LogisticRegression
from tacit.noise import test_mode as seeded

GROUPS = {"g": ["majority", "minority"]}


def mixture(n: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A minority whose label follows another feature, less clearly."""
    made = np.random.default_rng(seed)
    minority = made.random(n) < share
    X = made.uniform(-1, 1, (n, 6))
    X[:, 5] = np.where(minority, 1.0, -1.0)
    score = np.where(minority, 2.5 * X[:, 1] * 1.0 + 1.2 * X[:, 2], 4.0 * X[:, 0])
    X = np.column_stack([X, X[:, 1:3] * (X[:, [5]] > 0)])  # features that only the minority needs
    y = (made.random(n) < 1 / (1 + np.exp(-4 * score))).astype(int)
    return X, y, np.where(minority, "minority", "majority")


def impacts(share: float, epsilon: float, runs: int = 6) -> tuple[float, float]:
    gaps = []
    test = mixture(20_000, share, 99)
    for seed in range(runs):
        X, y, _ = mixture(3000, share, seed)
        with seeded(seed):
            private, twin = (
                LogisticRegression(epsilon=e, delta=1e-6, bounds=(-1, 1), classes=[0, 1], n_public=3000).fit(X, y)
                for e in (epsilon, 1e5)
            )
        found = disparate_impact(
            private.predict(test[0]), twin.predict(test[0]), y=test[1], groups=GROUPS, sensitive_features=test[2], data="made-up rows"
        )
        gaps.append((found.gap, found.gap_of_twin))
    return tuple(np.mean(gaps, axis=0))  # type: ignore[return-value]


def test_privacy_widens_the_gap_and_a_larger_minority_narrows_it() -> None:
    small = impacts(0.05, 1)
    large = impacts(0.4, 1)
    assert small[0] > small[1]
    assert large[0] < small[0]


@pytest.mark.slow
def test_the_gap_at_eps_5_too() -> None:
    small = impacts(0.05, 5, runs=12)
    assert small[0] > small[1]


def test_the_minority_is_cut_more() -> None:
    X, y, g = mixture(600, 0.1, 3)
    torch.manual_seed(0)
    model = torch.nn.Linear(X.shape[1], 1)
    rows, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(rows)[:, 0], labels).backward()
        optimizer.step()
    found = gradient_telemetry(
        model, lambda out, label: torch.nn.functional.binary_cross_entropy_with_logits(out[:, 0], label), rows, labels,
        clip=0.5, groups=GROUPS, sensitive_features=g, data="made-up rows",
    )  # fmt: skip
    assert found.cut["minority"] > found.cut["majority"] and "made-up rows" in str(found)


def test_figures_of_private_rows_are_paid_for() -> None:
    y = [1, 0] * 500
    terms = {"y": y, "groups": GROUPS, "sensitive_features": ["majority", "minority"] * 500}
    with seeded(1):
        found = disparate_impact(y, [1] * 1000, **terms, epsilon=1)  # type: ignore[arg-type]
    # one histogram in which a person has one cell, not one for each model
    assert found.event == Laplace(1) and found.gap < 0.1 < found.gap_of_twin
    assert found.intervals is not None
    for of, exact in zip(found.intervals, ({"majority": 1.0, "minority": 1.0}, {"majority": 1.0, "minority": 0.0}), strict=True):
        for key, one in of.items():
            assert one.low - 0.01 <= exact[str(key)] <= one.high + 0.01 and one.high - one.low < 0.05
    assert "minority" in str(found) and "[" in str(found)
    with pytest.raises(ParameterError):
        disparate_impact(y, y, **terms)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        disparate_impact(y, y, **terms, epsilon=1, data="public")  # type: ignore[arg-type]
    public = disparate_impact(y, y, **terms, data="public")  # type: ignore[arg-type]
    assert "not private" in public.data and math.isclose(public.excess, 0) and "accuracy lost" in str(public)


def test_pictures(tmp_path: object) -> None:
    found = disparate_impact([1, 0], [1, 0], y=[1, 0], groups=GROUPS, sensitive_features=["majority", "minority"], data="made-up")
    found.plot(path=f"{tmp_path}/impact.png")
    with seeded(2):
        paid = disparate_impact([1, 0], [1, 0], y=[1, 0], groups=GROUPS, sensitive_features=["majority", "minority"], epsilon=1)
    paid.plot(path=f"{tmp_path}/paid.png")
