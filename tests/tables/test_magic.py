"""The `%%tacit` cell, without a notebook: a shell that evaluates expressions in a namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tacit
from tacit.tables import Answer, Price, TableError


class Shell:
    """As much of IPython's shell as the magic needs."""

    def __init__(self, **names: Any) -> None:
        self.user_ns: dict[str, Any] = names
        self.magics: dict[str, Callable[..., Any]] = {}

    def ev(self, expression: str) -> Any:
        return eval(expression, {}, self.user_ns)

    def register_magic_function(self, function: Callable[..., Any], magic_kind: str, magic_name: str) -> None:
        assert magic_kind == "cell"
        self.magics[magic_name] = function


def test_a_cell_is_answered_and_kept() -> None:
    shell = Shell(session=tacit.Session.sandbox(rows=300), keys={"region": ["North", "South"]})
    tacit.load_ipython_extension(shell)
    run = shell.magics["tacit"]
    text = "\nSELECT region, COUNT(*) AS n FROM visits GROUP BY region\n"
    price = run("session epsilon=1, price=True, keys=keys", text)
    assert isinstance(price, Price)
    answer = run("session epsilon=1, keys=keys, purpose='a, b', into=found", text)
    assert isinstance(answer, Answer) and shell.user_ns["found"] is answer
    assert list(answer.keys["region"]) == ["North", "South"]
    assert "statement:" in run("session epsilon=1, explain=True", text)


@pytest.mark.parametrize("line", ["", "session 0.1", "session epsilon=", "nobody epsilon=1", "session **x", "1x epsilon=1"])
def test_a_line_that_cannot_be_read_is_refused(line: str) -> None:
    shell = Shell(session=tacit.Session.sandbox(rows=30))
    tacit.load_ipython_extension(shell)
    with pytest.raises(TableError):
        shell.magics["tacit"](line, "SELECT COUNT(*) FROM visits")
    assert shell.user_ns["session"].left()["epsilon"] == 10
