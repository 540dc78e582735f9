"""What a training loop can do wrong."""

from __future__ import annotations

from tacit.accounting import Refusal


class TrainingError(Refusal, RuntimeError):
    """The loop did something that the price does not cover. Nothing was released by it."""
