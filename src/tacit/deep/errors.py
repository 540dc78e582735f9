"""What a training loop can do wrong.

The packages that deep learning needs and the core does not: a missing one is named with the command that installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.accounting import PackageMissing, Refusal

#: The first and the last version of torch that the tests of this room were run with.
TESTED = ("2.8", "2.15")


class TorchUntested(UserWarning):
    """This version of torch is none that the tests were run with."""


def untested(version: str) -> str | None:
    """What to say about a version of torch outside the tested range; None for one within.

    >>> untested("2.13.0+cpu") is None, untested("2.99.0").partition(":")[0]
    (True, 'tacit.deep was tested with torch 2.8 to 2.15, and this is 2.99.0')
    """

    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("+")[0].split(".")[:2] if part.isdigit())

    first, last = TESTED
    if numbers(first) <= numbers(version) <= numbers(last):
        return None
    return (
        f"tacit.deep was tested with torch {first} to {last}, and this is {version}: it reads torch's layers and backward passes, which "
        f"another version may have changed. Run its tests first, or: pip install 'torch>={first},<2.{int(last.split('.')[1]) + 1}'"
    )


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
