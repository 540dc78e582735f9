"""Errors of the accountant: each names the parameter and the fix."""

from __future__ import annotations


class AccountingError(ValueError):
    """Something about the event or the question cannot be accounted."""


class ParameterError(AccountingError):
    """A parameter is outside its range; the message names it, its range and the fix."""


class AdjacencyError(AccountingError):
    """Relations are mixed, or a guarantee is asked for under a relation it does not cover."""


class UnsupportedError(AccountingError):
    """No proof is known for this combination, so no figure is given."""
