"""MWEM with a graphical model: rounds that fit the budget, and better than none."""

from __future__ import annotations

from typing import Any

from tacit.synthesis.mwem_pgm import MwemPgm


def test_rounds_spend_the_budget_and_find_the_chain(run: Any) -> None:
    ran = run(MwemPgm(rounds=6, steps=50), epsilon=10)
    assert len(ran.measuring.events) == 12
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-6
    found = {one.columns for one in ran.measuring.measured}
    assert len(found & {(0, 1), (1, 2), (2, 3), (3, 4)}) >= 3
    assert max(ran.total_variation(pair) for pair in found) < 0.03


def test_the_cap_holds_and_an_empty_table_raises_nothing(run: Any) -> None:
    assert run(MwemPgm(steps=5, last_steps=5, cap=60), epsilon=10).model.tree.cells <= 60
    assert run(MwemPgm(steps=5, last_steps=5), rows=0).spent_within_budget()
