"""Not collected: a test with a stub where the theory map names a function, which tracing must catch."""

from __future__ import annotations

import pytest

from tacit.accounting.theorems import composition


def test_with_the_stub_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "leaky_randomised_response", lambda epsilon, delta: (1.0, 1.0))
    assert composition.leaky_randomised_response(1.0, 0.0)
