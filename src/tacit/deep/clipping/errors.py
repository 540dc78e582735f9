"""Errors of clipping: each names the layer and the fix, and none holds a value of the data."""

from __future__ import annotations

from tacit.accounting import Refusal


class ClippingError(Refusal, RuntimeError):
    """The model was used in a way in which the gradient of one example is not defined; the message says which and what to do instead."""
