"""The `%%tacit` cell of a notebook: SQL in the cell, the session and the price in its first line.

    %load_ext tacit

    %%tacit session epsilon=0.1, purpose="weekly table", into=regions
    SELECT region, COUNT(*) AS n FROM visits GROUP BY region

The line begins with the name of a session. Behind it stand the options of `Session.sql`, as Python writes
keyword arguments; `into` names a variable for the answer, and `price=True` and `explain=True` ask for that
instead, which costs nothing.

>>> parsed("session epsilon=0.1, keys={'region': REGIONS}")
('session', {'epsilon': '0.1', 'keys': "{'region': REGIONS}"})
"""

from __future__ import annotations

import ast
from typing import Any, Protocol

from tacit.tables.errors import TableError
from tacit.tables.session import Session

NAME = "tacit"


class Shell(Protocol):
    """What is needed of IPython's shell."""

    user_ns: dict[str, Any]

    def ev(self, expression: str) -> Any:
        """The value of an expression in the notebook."""

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        """Add a magic."""


def parsed(line: str) -> tuple[str, dict[str, str]]:
    """The session's name, and the text of each option; nothing is evaluated."""
    name, _, rest = line.strip().partition(" ")
    try:
        call = ast.parse(f"f({rest})", mode="eval").body
    except SyntaxError:
        call = None
    usable = isinstance(call, ast.Call) and not call.args and all(word.arg for word in call.keywords)
    if not name.isidentifier() or not usable:
        raise TableError("%%tacit takes a session and its options: %%tacit session epsilon=0.1, purpose='weekly table'")
    assert isinstance(call, ast.Call)
    return name, {str(word.arg): ast.unparse(word.value) for word in call.keywords}


def register_magic(shell: Shell) -> None:
    """Add `%%tacit` to a shell."""

    def tacit(line: str, cell: str) -> Any:
        """Answer the SQL of the cell: %%tacit session epsilon=0.1"""
        name, words = parsed(line)
        session = shell.user_ns.get(name)
        if not isinstance(session, Session):
            raise TableError(f"there is no session called {name}; make one: {name} = tacit.Session(...)")
        into = words.pop("into", None)
        options = {word: shell.ev(text) for word, text in words.items()}
        priced, explained = bool(options.pop("price", False)), bool(options.pop("explain", False))
        if priced or explained:
            options.pop("purpose", None)
        found = (session.price if priced else session.explain if explained else session.sql)(cell.strip(), **options)
        if into is not None:
            if not into.isidentifier():
                raise TableError(f"into must name a variable, not {into!r}")
            shell.user_ns[into] = found
        return found

    shell.register_magic_function(tacit, "cell", NAME)
