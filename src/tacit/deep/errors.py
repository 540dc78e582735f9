"""What a training loop can do wrong.

The packages that deep learning needs and the core does not: a missing one is named with the command that installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.accounting import PackageMissing, Refusal


class TrainingError(Refusal, RuntimeError):
    """The loop did something that the price does not cover. Nothing was released by it."""


class ClippingError(Refusal, RuntimeError):
    """The model was used in a way in which the gradient of one example is not defined; the message says which and what to do instead."""


@contextmanager
def needs(extra: str, package: str) -> Iterator[None]:
    """Turn a failed import of `package` into an error that names the extra.

    >>> with needs("torch", "nowhere"):
    ...     import nowhere
    Traceback (most recent call last):
    tacit.errors.PackageMissing: nowhere is not installed; run: pip install 'tacit[torch]'
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != package:
            raise
        raise PackageMissing(code="package-missing", package=package, install=f"'tacit[{extra}]'") from None
