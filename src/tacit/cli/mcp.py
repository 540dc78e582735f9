"""`tacit mcp`: a service for assistants, over the Model Context Protocol. Schema, made-up rows, prices, history; asking only with a cap.

    TACIT_TOKEN=tacit_... tacit mcp https://tacit.example.org --dataset visits --purpose bed-planning
    TACIT_TOKEN=tacit_... tacit mcp https://tacit.example.org --dataset visits --purpose bed-planning --cap 0.2

Without `--cap` there is no tool that asks, so an assistant cannot spend. With it, what it asks in one run adds up to no more
than the cap; the token's own limits hold besides.
"""

from __future__ import annotations

import os
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.options import OptionError, shown_examples

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from tacit.tables import RemoteSession


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    examples = ("mcp https://tacit.example.org --dataset visits", "mcp https://tacit.example.org --dataset visits --cap 0.2")
    app.command("mcp", epilog=shown_examples(*examples))(mcp)


def mcp(
    url: Annotated[str, typer.Argument(help="The service.", metavar="URL")],
    dataset: Annotated[str | None, typer.Option("--dataset", help="The data set.", metavar="NAME")] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", help="The purpose.", metavar="NAME")] = None,
    cap: Annotated[str | None, typer.Option("--cap", help="What may be spent in this run; without it, nothing.", metavar="EPSILON")] = None,
) -> None:
    """Offer a service to an assistant on standard input and output. The token is read from TACIT_TOKEN."""
    from tacit.exact import exact
    from tacit.tables import connect

    token = os.environ.get("TACIT_TOKEN")
    if not token:
        raise OptionError("mcp: set TACIT_TOKEN to a token of the service; it is no option, because options are seen by others")
    limit = None if cap is None else exact("--cap", cap)
    if limit is not None and limit <= 0:
        raise OptionError("--cap: must be greater than 0, such as 0.2; leave it out to let an assistant look and not ask")
    tools(connect(url, token=token, dataset=dataset, purpose=purpose), limit).run("stdio")


def tools(session: RemoteSession, cap: Fraction | None) -> MCPServer[Any]:
    """The tools that an assistant gets."""
    try:
        from mcp.server import MCPServer
    except ImportError:
        raise OptionError("mcp: the package is not installed; run: pip install 'tacit[mcp]'") from None

    from tacit.exact import exact

    told = "Private statistics about one data set. Every answer has noise, with its interval, and costs budget that never comes back."
    server: MCPServer[Any] = MCPServer("tacit", instructions=told)
    spent, lock = [Fraction(0)], threading.Lock()

    @server.tool()
    def schema() -> dict[str, Any]:
        """The tables and columns that may be asked about, whom the guarantee protects, and the purpose."""
        return {"dataset": session.name, "purpose": session.purpose, "tables": session.tables, "unit": session.unit}

    @server.tool()
    def dummy_rows(rows: int = 20) -> dict[str, list[Any]]:
        """Made-up rows of the first table, to see its shape. They are about no real person, and cost nothing."""
        found = session.dummy(max(1, min(rows, 200)))
        return {name: [str(value) for value in found[name].to_pylist()] for name in found.column_names}

    @server.tool()
    def price(sql: str, epsilon: float) -> str:
        """What a question would cost, and how exact it would be. Nothing is spent."""
        return str(session.price(sql, epsilon=epsilon))

    @server.tool()
    def left() -> dict[str, float]:
        """What is left of the budget."""
        return {name: float(value) for name, value in session.left().items()}

    @server.tool()
    def history() -> list[dict[str, Any]]:
        """The questions that were asked before: read an earlier answer rather than paying again."""
        return [{"id": one["id"], "sql": one["request"]["sql"], "state": one["state"], "asked": one["asked"]} for one in session.history()]

    @server.tool()
    def read_answer(question: str) -> str:
        """The answer to an earlier question, by its id. It costs nothing."""
        return repr(session.answer(question))

    if cap is not None:

        @server.tool()
        def ask(sql: str, epsilon: float) -> str:
            """Ask a question, and pay for it. What is asked in this run adds up to no more than the stated cap."""
            amount = exact("epsilon", epsilon)
            with lock:
                if amount <= 0 or spent[0] + amount > cap:
                    return f"refused: {float(cap - spent[0]):g} of the cap is left; nothing was spent"
                spent[0] += amount  # before it is sent: what fails on the way may have been paid
            return repr(session.sql(sql, epsilon=epsilon))

    return server
