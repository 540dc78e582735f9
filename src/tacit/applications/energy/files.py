"""The texts of users' files, and their refusal: with the file, the line and the fix, and nothing of what stands there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tacit.applications.energy.errors import EnergyError


def unreadable(name: str, line: int, reason: str, fix: str) -> EnergyError:
    """The refusal of a file that does not parse."""
    return EnergyError(code="case-unreadable", name=name, line=line, reason=reason, fix=fix)


def text_of(source: str | Path, is_text: Callable[[str], bool], fix: str) -> tuple[str, str]:
    """What a file is called and its text, from its path or from the text itself, which `is_text` tells from a path.

    >>> text_of("{}", lambda given: given.startswith("{"), "")
    ('the text', '{}')
    """
    if isinstance(source, str) and is_text(source):
        return "the text", source
    path = Path(source)
    try:
        return path.name, path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError) as error:
        reason, fix = f"it cannot be read ({type(error).__name__})", "check the path"
    raise unreadable(path.name, 1, reason, fix)
