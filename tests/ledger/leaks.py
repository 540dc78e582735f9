"""What a stranger can find in an error: every text it prints, and every object that its traceback leads to."""

from __future__ import annotations

import gc
import sys
import traceback
import types
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
#: Put together where it is raised, so that the text is in no constant that a frame could show by accident.
PARTS = ("Ada-", 4711)


def secret() -> str:
    return f"{PARTS[0]}{PARTS[1]}"


class Leak(Exception):
    """Carries a row's value, as an exception of a library does."""


class LeakAtTheEnd(BaseException):
    """The same, past every `except Exception`."""


def leak(*_: Any, **__: Any) -> Any:
    """Stands in for whatever computes on the data: it fails, and shows a row in every way it can."""
    row = secret()
    error = Leak(f"cannot use the row of {row}", row)
    error.add_note(f"the row was {row}")
    try:
        raise KeyError(row)
    except KeyError as cause:
        raise error from cause


def chain(error: BaseException) -> list[BaseException]:
    """The error with every cause, context and member of a group, each once."""
    found: list[BaseException] = []
    ahead: list[BaseException | None] = [error]
    while ahead:
        one = ahead.pop()
        if one is None or any(one is known for known in found):
            continue
        found.append(one)
        ahead += [
            one.__cause__,
            one.__context__,
            *(one.exceptions if isinstance(one, BaseExceptionGroup) else ()),
        ]
    return found


def texts(error: BaseException) -> str:
    """Everything a handler, a log or a terminal would print of an error."""
    parts = ["".join(traceback.format_exception(error))]
    for one in chain(error):
        parts += [
            str(one),
            repr(one),
            repr(one.args),
            repr(one.__dict__),
            repr(getattr(one, "__notes__", ())),
        ]
    return "\n".join(parts)


def frames(error: BaseException) -> list[types.FrameType]:
    """The frames of all tracebacks, but for those of the tests themselves."""
    found = []
    for one in chain(error):
        place = one.__traceback__
        while place is not None:
            if not Path(place.tb_frame.f_code.co_filename).is_relative_to(TESTS):
                found.append(place.tb_frame)
            place = place.tb_next
    return found


def reachable(error: BaseException, most: int = 200_000) -> list[Any]:
    """Objects that the error leads to, through attributes, containers and the local variables of its frames."""
    outside = (
        type,
        types.ModuleType,
        types.FunctionType,
        types.BuiltinFunctionType,
        types.CodeType,
        types.FrameType,
    )
    ahead: list[Any] = [error.args, error.__dict__]
    for frame in frames(error):
        ahead += list(frame.f_locals.values())
    seen: set[int] = {id(sys.modules)}
    found = []
    while ahead and len(found) < most:
        one = ahead.pop()
        if id(one) in seen or isinstance(one, outside):
            continue
        seen.add(id(one))
        found.append(one)
        ahead += gc.get_referents(one)
    return found


def shown(error: BaseException) -> list[str]:
    """Where the secret, or the error that carried it, can be found; empty if nowhere."""
    word = secret()
    places = []
    if word in texts(error):
        places.append("printed")
    if len(chain(error)) > 1:
        places.append("a chained error")
    for one in reachable(error):
        if isinstance(one, str) and word in one:
            places.append("a text that a frame leads to")
        if isinstance(one, Leak | LeakAtTheEnd) or one is Leak:
            places.append("the error itself, from a frame")
    return places
