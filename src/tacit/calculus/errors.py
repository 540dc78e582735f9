"""Errors of the calculus. They are raised while a plan is put together, before it meets any data."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.accounting import Refusal

#: The calculus' refusals, worded for Python.
WORDS: Mapping[str, str] = {
    "keys-merged": (
        "the keys {keys} are one value in {domain}, which clamps and rounds: each would be given the same rows; "
        "list keys that stay different, or widen the domain"
    ),
}


class CalculusError(Refusal, ValueError):
    """A plan does not hold together; the message says where and what to do."""

    words = WORDS


class DomainError(CalculusError):
    """A step is given values it is not defined for."""


class MetricError(CalculusError):
    """Distances are measured one way where the proof needs another."""


class UnprovedError(CalculusError):
    """A figure was asked of something that has no proof."""
