"""`tacit mcp`: an assistant sees schema, made-up rows, prices and history; it asks only with a cap, and within it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import hospital, house_in
from tests.server.house import SQL, House

import tacit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tacit.cli.mcp import tools

__all__ = ["hospital", "house_in"]  # fixtures


@pytest.fixture(scope="module")
def house(house_in: Callable[..., House], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    found = house_in(tmp_path_factory.mktemp("mcp"))
    yield found
    found.service.close()


def called(house: House, cap: Fraction | None, name: str, **given: Any) -> str:
    session = tacit.connect("http://testserver", token=house.token("ann"), client=house.client, purpose="bed-planning")
    return str(asyncio.run(tools(session, cap).call_tool(name, given)))


def names(house: House, cap: Fraction | None) -> set[str]:
    session = tacit.connect("http://testserver", token=house.token("ann"), client=house.client, purpose="bed-planning")
    return {tool.name for tool in asyncio.run(tools(session, cap).list_tools())}


def test_without_a_cap_there_is_no_tool_that_asks(house: House) -> None:
    looking = {"schema", "dummy_rows", "price", "left", "history", "read_answer"}
    assert names(house, None) == looking and names(house, Fraction(1, 5)) == {*looking, "ask"}


def test_looking_costs_nothing(house: House) -> None:
    before = house.service.ledger.head()
    assert "region" in called(house, None, "schema") and "region" in called(house, None, "dummy_rows", rows=5)
    assert "costs epsilon" in called(house, None, "price", sql=SQL, epsilon=0.1)
    # the analyst's accounts are opened by looking; nothing is spent
    assert not [entry for entry in house.service.ledger.entries(since=int(before.partition(":")[0])) if entry["kind"] == "reserve"]


def test_asking_keeps_to_the_cap(house: House) -> None:
    session = tacit.connect("http://testserver", token=house.token("ann"), client=house.client, purpose="bed-planning")
    server = tools(session, Fraction(3, 20))

    def ask(epsilon: float) -> str:
        return str(asyncio.run(server.call_tool("ask", {"sql": SQL, "epsilon": epsilon})))

    assert "Capital" in ask(0.1) and "refused" in ask(0.1) and "refused" in ask(-1.0)
    assert "Capital" in ask(0.05)
    assert "Capital" in called(house, None, "read_answer", question=session.history()[0]["id"])


def test_the_token_is_no_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tacit.cli import main
    monkeypatch.delenv("TACIT_TOKEN", raising=False)
    assert main(["mcp", "https://tacit.example.org"]) == 2 and "TACIT_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("TACIT_TOKEN", "tacit_x")
    assert main(["mcp", "https://tacit.example.org", "--cap", "0"]) == 2
    assert main(["mcp", "http://tacit.example.org"]) == 2 and "https" in capsys.readouterr().err
    assert main(["serve"]) == 2 and main(["serve", str(tmp_path / "no.yaml")]) == 2
