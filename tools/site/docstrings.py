"""Docstrings as Markdown, for the API reference: examples become code, blocks become lists.

mkdocstrings loads this file as an extension of griffe. The docstrings themselves stay as a reader of the code
wants them.

>>> as_markdown("Guarantee\\n    Statement: it is\\n    right.").splitlines()
['**Guarantee**', '', '- *Statement*: it is right.']
"""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"(Guarantee|Parameters|Fitted|Attributes)(?: \((.*)\))?:?$")
TERM = re.compile(r"([A-Z][a-z]+(?: [a-z]+)?|[a-z_]\w*(?:, [a-z_]\w*)*): (.*)$")


def as_markdown(text: str) -> str:
    """The same text with its examples fenced and its blocks written as lists."""
    lines = text.splitlines()
    written: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith(">>>"):
            end = next((n for n in range(at, len(lines)) if not lines[n].strip()), len(lines))
            written += ["", "```pycon", *(part.strip("\n") for part in dedented(lines[at:end])), "```", ""]
            at = end
        elif HEADING.match(line) and at + 1 < len(lines) and lines[at + 1].startswith("    "):
            end = next((n for n in range(at + 1, len(lines)) if not lines[n].startswith("    ")), len(lines))
            written += ["", f"**{line.rstrip(':')}**", "", *items(lines[at + 1 : end]), ""]
            at = end
        else:
            written.append(line)
            at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(written)).strip("\n")


def dedented(lines: list[str]) -> list[str]:
    """The lines without the indentation of the first."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    return [line[indent:] for line in lines]


def items(lines: list[str]) -> list[str]:
    """A list with one entry for each `Term: text`, whose text may run over several lines."""
    found: list[str] = []
    for line in (line.strip() for line in lines):
        if term := TERM.match(line):
            found.append(f"- *{term[1]}*: {term[2]}")
        elif found:
            found[-1] += f" {line}"
        else:
            found.append(f"- {line}")
    return found


class Docstrings(griffe.Extension):
    """Rewrites the docstring of every object as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
