"""`tacit ledger`: who spent what on which data for which purpose, what remains, and whether the book is in order.

    tacit ledger show tacit.db --plot spending.png
    tacit ledger verify tacit.db --head 1042:9f0c...
    tacit ledger export tacit.db --format csv --out spends.csv

The book is only read. `verify` ends with status 1 if anything is wrong with it; a request that cannot be understood ends with 2.

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
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli.options import OptionError
from tacit.cli.refusals import in_options

if TYPE_CHECKING:
    from tacit.ledger import Ledger

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
            from tacit.ledger.report import plot_spending

            names = {s.account for s in standings}
            plot_spending({name: rows for name, rows in report.timeline(ledger).items() if name in names}, path=plot)
        if as_json:
            found: dict[str, Any] = {
                "head": ledger.head(),
                "accounts": [row.to_record() for row in standings],
                "spends": [row.to_record() for row in spends],
                "assumptions": assumptions,
            }
            print(json.dumps(found))
            return
        _print(standings, spends, assumptions)
        if plot is not None:
            print(f"picture: {plot}")


def _print(standings: list[Any], spends: list[Any], assumptions: list[str]) -> None:
    """The tables for people. Text of the book is shown as it is: square brackets in it are no markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(title="Accounts", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("account", "protects", "budget", "spent", "left", "used", "spends"):
        table.add_column(heading, justify="right" if heading in ("used", "spends") else "left")
    for row in standings:
        name = Text("  " * row.depth + row.account)
        if row.names:
            name.append(f" (also {', '.join(row.names)})", style="dim")
        if row.mark:
            name.append(f" {row.mark}", style="bold red")
        style = "red" if row.share >= 0.9 else "yellow" if row.share >= 0.7 else "green"
        relation = f"{row.unit}, {row.adjacency}"
        used = Text(f"{100 * row.share:.1f} %", style=style)
        table.add_row(name, relation, row.budget, row.spent, row.left, used, str(row.entries))
    console.print(table)
    if spends:
        table = Table(title="Latest spends", title_justify="left", box=box.SIMPLE_HEAD)
        for heading in ("entry", "time (UTC)", "account", "analyst", "purpose", "event", "price", "status"):
            table.add_column(heading, justify="right" if heading == "entry" else "left")
        for spend in spends:
            status = Text(spend.status, style={"done": "", "failed": "red"}.get(spend.status, "yellow"))
            for note in (spend.period, "correction" if spend.correction else ""):
                status.append(f", {note}" if note else "")
            if spend.mark:
                status.append(f" {spend.mark}", style="bold red")
            event = spend.event if len(spend.event) <= 44 else spend.event[:43] + "…"
            cells = [str(spend.entry), spend.time[:19].replace("T", " "), spend.account, spend.analyst, spend.purpose, event, spend.price]
            table.add_row(*(Text(cell) for cell in cells), status)
        console.print(table)
    for line in assumptions:
        console.print(f"Assumption: {line}.")


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
            text = "".join(f"{json.dumps(fields)}\n" for fields in ledger.entries())
        else:
            text = _lines([row.to_record() for row in report.spends(ledger, account=account)], form)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        with open(out, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
    except OSError as error:
        raise OptionError(f"--out: cannot write {out}: {error.strerror}") from error


_COLUMNS = (
    *("entry", "time", "account", "period", "analyst", "purpose", "question", "event", "price", "charge", "correction", "status"),
    "mark",
)


def _lines(rows: list[dict[str, Any]], form: str) -> str:
    if form == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _harmless(value if isinstance(value, (str, int)) else _cell(value)) for name, value in row.items()})
    return stream.getvalue()


def _cell(value: object) -> str:
    return "" if value is None else json.dumps(value)


def _harmless(value: object) -> object:
    """A cell that a spreadsheet would take for a formula is quoted: purposes and questions are written by analysts.

    >>> _harmless("=1+1"), _harmless("table 1"), _harmless(7)
    ("'=1+1", 'table 1', 7)
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
