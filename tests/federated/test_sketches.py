"""Sketches of sparse vectors: what they estimate, how far off, and what a client can put into one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit import federated
from tacit.errors import ParameterError
from tacit.federated import FederatedError, InProcessGrid, client_app
from tacit.federated.sketches import cells_of, sketched

TERMS: dict[str, Any] = {"rows": 5, "width": 64, "contributions": 3, "family": "s"}


def test_counts_come_back_within_noise_and_collisions() -> None:
    """Against the exact counts: one row is off by noise z sqrt(k r) and collisions sqrt(F2 / width); the median by less."""
    pages = federated.sketch(512, 5, max_contributions=1, clients=3000, noise_multiplier=4.0, delta=1e-6)
    held = ["popular"] * 1500 + ["second"] * 700 + [f"rare {i}" for i in range(800)]
    answer = pages.simulate([[key] for key in held])
    keys = ["popular", "second", "never", *(f"rare {i}" for i in range(200))]
    exact = np.array([held.count(key) for key in keys])
    row = np.hypot(answer.deviation, np.sqrt((1500**2 + 700**2 + 800) / 512))
    assert answer.deviation == pytest.approx(4.0 * np.sqrt(5), rel=1e-6)
    off = pages.counts(answer, keys) - exact
    assert np.abs(off[:3]).max() < 5 * row and np.sqrt(np.mean(off**2)) < row  # a median of five is closer than one row
    assert [key for key, _ in pages.top(answer, keys, 2)] == ["popular", "second"]


def test_hashes_are_even_and_signs_are_fair() -> None:
    """Chi-squared over 64 cells of 20,000 keys: 63 degrees, above 130 with chance 2e-6; signs by four deviations."""
    drawn = [cells_of(f"key {i}", 5, 64, "seed") for i in range(20_000)]
    for row in range(5):
        counts = np.bincount([int(cells[row]) - 64 * row for cells, _ in drawn], minlength=64)
        assert len(counts) == 64 and ((counts - 312.5) ** 2 / 312.5).sum() < 130
        assert abs(sum(float(signs[row]) for _, signs in drawn)) < 4 * np.sqrt(20_000)


ODD: list[Any] = [None, 7, 1e308, float("nan"), b"bytes", ["a"] * 1000, [f"k{i}" for i in range(1000)], ["\ud800", ""], {"a": 1},
                  [["a"]], "x" * 10**5]  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_no_client_moves_a_sketch_by_more_than_its_clip(value: Any) -> None:
    assert np.linalg.norm(sketched(TERMS, value, 320)) <= np.sqrt(15) * (1 + 1e-12)


def test_collisions_are_clipped_and_a_mutant_without_would_not_be() -> None:
    """In a table of one column, all keys collide: the norm without a clip can be three times sqrt(5)."""
    narrow = {**TERMS, "width": 1}
    norms = [np.linalg.norm(sketched(narrow, [f"{i} {j}" for j in range(3)], 5)) for i in range(50)]
    raw = []
    for i in range(50):
        table = np.zeros(5)
        for j in range(3):
            cells, signs = cells_of(f"{i} {j}", 5, 1, "s")
            table[cells] += signs
        raw.append(np.linalg.norm(table))
    assert max(norms) <= np.sqrt(15) * (1 + 1e-12) < max(raw)


@pytest.mark.parametrize("trust", ["central", "distributed"])
def test_sketches_are_asked_over_a_grid(trust: str) -> None:
    from tests.federated.apps import policy

    asked = federated.sketch(32, 3, max_contributions=1, clients=20, noise_multiplier=0.01, delta=1e-6, trust=trust)
    client = client_app(policy=policy(clip=3.0, noise=1e-4, budget="eps=1e9, delta=1e-5"), book=None,
                        answer=lambda question, context: ["a"] if context.node_config["partition-id"] < 13 else ["b"])  # fmt: skip
    answer = asked.ask(InProcessGrid(client, nodes=20), window="w")
    assert np.abs(asked.counts(answer, ["a", "b"]) - [13, 7]).max() < 1.0


def test_sketches_need_bounds() -> None:
    with pytest.raises(FederatedError) as refused:
        federated.sketch(32, max_contributions=None, clients=10, epsilon=1, delta=1e-6)
    assert refused.value.code == "federated-contributions"
    for rows in (0, 2, 9):
        with pytest.raises(ParameterError):
            federated.sketch(32, rows, max_contributions=1, clients=10, epsilon=1, delta=1e-6)
