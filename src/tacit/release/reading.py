"""Job files as plain trees: YAML that can neither run code, nor grow beyond its size, nor hide a field behind another one of its name.

>>> tree_of("title: Visits")
{'title': 'Visits'}
>>> tree_of("title: Visits\\ntitle: Others")
Traceback (most recent call last):
tacit.release.errors.JobError: line 2: this is not YAML that a job may use: a field is given twice
"""

from __future__ import annotations

from typing import Any

import yaml

from tacit.release.errors import JobError

#: A job is written by hand; a larger file is a mistake or an attack. Key lists of a hundred thousand values fit.
LARGEST = 8_000_000
#: YAML nested deeper than this is no job.
DEEPEST = 40


#: What mostly lies behind what the YAML reader says.
_HINTS = {
    "mapping values": "; a text that has ': ' in it stands in quotes, or on lines of its own after |",
    "expected ':'": "; a text that has a comma or ': ' in it stands in quotes, or on lines of its own after |",
    "block end": "; fields of one block start in one column",
    "\\t": "; indent with spaces, not with tabs",
}


def tree_of(text: str) -> dict[str, Any]:
    """The fields of a job file; whatever is wrong with the text is a `JobError` with its line."""
    if len(text) > LARGEST:
        raise JobError(f"a job of more than {LARGEST} characters is not read; put long key lists into categories once")
    fault, place = "", ""
    tree: Any = None
    try:
        tree = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or "it cannot be read")
        fault = f"this is not YAML that a job may use: {problem}{next((hint for words, hint in _HINTS.items() if words in problem), '')}"
        place = f"line {mark.line + 1}" if mark else ""
    except (ValueError, TypeError, RecursionError, OverflowError, AttributeError, LookupError):
        fault = "this is not YAML that can be read: a value or its nesting is malformed"
    if fault:
        raise JobError(fault, place=place)
    if not isinstance(tree, dict):
        raise JobError("a job is a mapping of fields: version, title, purpose, sources, unit, budget, columns, outputs, publication")
    if not all(isinstance(key, str) for key in tree):
        raise JobError("the names of fields are texts")
    return tree


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases (a small file could grow without end) and without a field given twice (the first would be lost)."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not used in jobs", self._mark())
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, "nested too deeply", self._mark())
        found = super().compose_node(parent, index)
        self.depth -= 1
        return found

    def _mark(self) -> Any:
        return self.peek_event().start_mark  # type: ignore[no-untyped-call]

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen if isinstance(key.value, str) else False:
                raise yaml.constructor.ConstructorError(None, None, "a field is given twice", key.start_mark)
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep)
