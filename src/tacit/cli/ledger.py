"""`tacit ledger`: who spent what on which data and why, what is left, and whether the book is in order.

    tacit ledger show tacit.db --plot spending.png
    tacit ledger verify tacit.db --head 1042:9f0c...
    tacit ledger export tacit.db --format csv --out spends.csv

The book is only read. `verify` ends with status 1 if anything is wrong with it; a request that cannot be
understood ends with 2.

>>> address("tacit.db"), address("postgresql+psycopg://host/books")
('sqlite:///tacit.db', 'postgresql+psycopg://host/books')
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli.options import OptionError, in_options

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.ledger import Ledger
    from tacit.ledger.report import Spend, Standing

ledger_app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="The book: who spent what on which data for which purpose, what remains, and whether it is in order.",
)

Book = Annotated[
    str, typer.Argument(help="A file such as tacit.db, or a URL such as postgresql+psycopg://host/name.", envvar="TACIT_LEDGER")
]
Form = Literal["jsonl", "csv", "entries"]
OneAccount = Annotated[str | None, typer.Option("--account", help="Only this account and those below it.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


def address(book: str) -> str:
    """A URL; a bare file name is a SQLite file."""
    return book if "://" in book else f"sqlite:///{book}"


@contextmanager
def opened(book: str) -> Iterator[Ledger]:
    """The book, for reading; what is wrong with the request is said in one line."""
    from tacit.ledger import Ledger, LedgerError

    try:
        with Ledger.open(address(book), create=False) as ledger:
            yield ledger
    except LedgerError as error:
        raise OptionError(f"{book}: {in_options(error)}") from error


@ledger_app.command(epilog="[bold]tacit ledger show tacit.db --last 50 --plot spending.png[/bold]")
def show(
    book: Book = "tacit.db",
    account: OneAccount = None,
    last: Annotated[int, typer.Option("--last", min=0, help="How many of the latest spends to list.")] = 20,
    plot: Annotated[str | None, typer.Option("--plot", help="Draw the spending over time into this file.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """What every account has spent and has left, and the latest spends."""
    with opened(book) as ledger:
        from tacit.ledger import report

        if plot is not None:
            from tacit.pictures import check_path

            check_path(plot)
        standings = report.standings(ledger, account=account)
        spends = report.spends(ledger, account=account, last=last)
        chosen = [found for found in ledger.accounts() if account is None or found.spec.id in {s.id for s in standings}]
        assumptions = sorted({line for found in chosen for line in found.assumptions()})
        if plot is not None:
            names = {s.account for s in standings}
            timeline = {name: rows for name, rows in report.timeline(ledger).items() if name in names}
            report.plot_spending(timeline, path=plot)
        if as_json:
            found: dict[str, Any] = {
                "head": ledger.head(),
                "accounts": [asdict(row) for row in standings],
                "spends": [asdict(row) for row in spends],
                "assumptions": assumptions,
            }
            print(json.dumps(found))
            return
        _print(standings, spends, assumptions)
        if plot is not None:
            print(f"picture: {plot}")


def _print(standings: list[Standing], spends: list[Spend], assumptions: list[str]) -> None:
    """The tables for people. Text of the book is shown as it is: square brackets in it are no markup."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_accounts(standings))
    if spends:
        console.print(_spends(spends))
    for line in assumptions:
        console.print(f"Assumption: {line}.")


def _accounts(standings: list[Standing]) -> Table:
    from rich.text import Text

    from tacit.cli import output

    heads = ("account", "protects", "budget", "spent", "left", "used", "spends")
    table = output.titled("Accounts", heads, right=("used", "spends"))
    for row in standings:
        name = Text("  " * row.depth + row.account)
        if row.names:
            name.append(f" (also {', '.join(row.names)})", style="dim")
        if row.mark:
            name.append(f" {row.mark}", style="bold red")
        style = "red" if row.share >= 0.9 else "yellow" if row.share >= 0.7 else "green"
        used = Text(f"{100 * row.share:.1f} %", style=style)
        protects = f"{row.unit}, {row.adjacency}"
        table.add_row(name, protects, row.budget, row.spent, row.left, used, str(row.entries))
    return table


def _spends(spends: list[Spend]) -> Table:
    from rich.text import Text

    from tacit.cli import output

    heads = ("entry", "time (UTC)", "account", "analyst", "purpose", "event", "price", "status")
    table = output.titled("Latest spends", heads, right=("entry",))
    for row in spends:
        status = Text(row.status, style={"done": "", "failed": "red"}.get(row.status, "yellow"))
        for note in (row.period, "correction" if row.correction else ""):
            status.append(f", {note}" if note else "")
        if row.mark:
            status.append(f" {row.mark}", style="bold red")
        event = row.event if len(row.event) <= 44 else row.event[:43] + "…"
        when = row.time[:19].replace("T", " ")
        cells = [str(row.entry), when, row.account, row.analyst, row.purpose, event, row.price]
        table.add_row(*(Text(cell) for cell in cells), status)
    return table


@ledger_app.command(epilog="[bold]tacit ledger verify tacit.db --head 1042:9f0c...[/bold]")
def verify(
    book: Book = "tacit.db",
    head: Annotated[str | None, typer.Option("--head", help="A head remembered from an earlier run.", metavar="NUMBER:HASH")] = None,
    as_json: Json = False,
) -> None:
    """Read the whole book; status 0 if it is in order, 1 if anything was edited, removed, reordered or overspent."""
    with opened(book) as ledger:
        found = ledger.verify(head=head)
    if as_json:
        answer = {"ok": found.ok, "entries": found.entries, "head": found.head, "problems": found.problems, "open": found.open}
        print(json.dumps(answer))
    else:
        print(found)
        if found.open:
            print(f"{len(found.open)} reservations are open (spent, never concluded): entries {', '.join(map(str, found.open[:20]))}")
    if not found.ok:
        raise typer.Exit(1)


@ledger_app.command(epilog="[bold]tacit ledger export tacit.db --format csv --out spends.csv[/bold]")
def export(
    book: Book = "tacit.db",
    account: OneAccount = None,
    form: Annotated[Form, typer.Option("--format", help="Spends as JSON lines or CSV, or the raw entries.")] = "jsonl",
    out: Annotated[str | None, typer.Option("--out", help="The file to write; without it, the output.", metavar="FILE")] = None,
) -> None:
    """Every spend as JSON lines or CSV, or the entries with their hashes for an auditor."""
    with opened(book) as ledger:
        from tacit.ledger import report

        if form == "entries":
            if account is not None:
                raise OptionError("--account does not go with --format entries: a chain with gaps proves nothing")
            text = "".join(f"{json.dumps(entry)}\n" for entry in ledger.entries())
        else:
            rows = [asdict(row) for row in report.spends(ledger, account=account)]
            text = _lines(rows, form, [field.name for field in fields(report.Spend)])
    if out is None:
        sys.stdout.write(text)
        return
    try:
        with open(out, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
    except OSError as error:
        raise OptionError(f"--out: cannot write {out}: {error.strerror}") from error


def _lines(rows: list[dict[str, Any]], form: str, columns: list[str]) -> str:
    if form == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return stream.getvalue()


def _cell(value: object) -> object:
    """A value in CSV. Analysts write purposes and questions, so what looks like a formula is quoted.

    >>> _cell("=1+1"), _cell("table 1"), _cell(7), _cell(["a"]), _cell(None)
    ("'=1+1", 'table 1', 7, '["a"]', '')
    """
    if isinstance(value, int):
        return value
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
