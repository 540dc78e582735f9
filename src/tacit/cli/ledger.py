"""`tacit ledger`: who spent what on which data and why, what is left, and whether the book is in order.

    tacit ledger show tacit.db --plot spending.png
    tacit ledger verify tacit.db --head 1042:9f0c...
    tacit ledger export tacit.db --format csv --out spends.csv

The book is only read. `verify` ends with status 1 if anything is wrong with it; a request that cannot be
understood ends with 2.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
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


@contextmanager
def opened(book: str) -> Iterator[Ledger]:
    """The book, for reading; what is wrong with the request is said in one line."""
    from tacit.ledger import Ledger, LedgerError

    try:
        with Ledger.at(book, create=False) as ledger:
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
        protects = f"{row.called}, {row.adjacency}"
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


Output = Literal["html", "csv", "nist", "registry", "json"]
OUT = "The file to write; without it, the output."


@ledger_app.command(epilog="[bold]tacit ledger report tacit.db --html officer.html --audit selftest.json[/bold]")
def report(
    book: Book = "tacit.db",
    account: OneAccount = None,
    html: Annotated[str | None, typer.Option("--html", help="Write the officer's page into this file.", metavar="FILE")] = None,
    form: Annotated[Output, typer.Option("--format", help="The page, spends as CSV, answers to NIST SP 800-226, records.")] = "html",
    out: Annotated[str | None, typer.Option("--out", help=OUT, metavar="FILE")] = None,
    audit: Annotated[
        str | None, typer.Option("--audit", help="What tacit selftest --json printed, to stand beside the proofs.", metavar="FILE")
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="A job whose policy the page prints.", metavar="JOB")] = None,
    title: Annotated[str, typer.Option("--title", help="What stands at the top.")] = "Privacy ledger",
) -> None:
    """The officer's report: totals and history by account, analyst, project, period and purpose, and what they mean."""
    audited = None if audit is None else _read_json(audit)
    ruled = None if policy is None else _read_policy(policy)
    with opened(book) as ledger:
        from tacit.ledger import officer

        found = officer.report_of(ledger, account=account, audit=audited, policy=ruled, title=title)
    texts: dict[str, Callable[[], str]] = {
        "html": found.to_html, "csv": found.to_csv, "nist": lambda: _pretty(found.nist()),
        "registry": lambda: _pretty(found.registry()), "json": lambda: _pretty(officer.to_json(found)),
    }  # fmt: skip
    if html is not None:
        _written(html, found.to_html(), "--html")
        print(f"written: {html}")
        if out is None and form == "html":
            return
    text = texts[form]()
    if out is None:
        sys.stdout.write(text)
    else:
        _written(out, text, "--out")
        print(f"written: {out}")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"


def _written(file: str, text: str, option: str) -> None:
    try:
        with open(file, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
    except OSError as error:
        raise OptionError(f"{option}: cannot write {file}: {error.strerror}") from error


def _read_json(file: str) -> dict[str, Any]:
    try:
        with open(file, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or "cases" not in found:
        raise OptionError(f"--audit: {file} is not what tacit selftest --json prints")
    return found


def _read_policy(file: str) -> dict[str, Any]:
    from tacit.release import JobError, load

    try:
        job = load(file)
    except JobError as error:
        raise OptionError(f"--policy: {error}") from error
    found = job.policy
    if found is None:
        raise OptionError(f"--policy: {file} has no policy block")
    from tacit.release import described_policy

    return described_policy(found)


# --- decisions --------------------------------------------------------------------------------------------------

KeyFile = Annotated[str, typer.Option("--key", help="The officer's private key (Ed25519, PEM).", metavar="FILE")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is written into the book.")]
Pending = Annotated[
    str | None, typer.Option("--pending", help="Where a decision waits for the second officer's signature.", metavar="FILE")
]


@ledger_app.command(epilog="[bold]tacit ledger enrol tacit.db Olga --key olga.pem --new-key[/bold]")
def enrol(
    book: Book, name: Annotated[str, typer.Argument(help="The officer's name.")], key: KeyFile,
    new_key: Annotated[bool, typer.Option("--new-key", help="Make the key file first; it must not exist.")] = False,
    by: Annotated[str | None, typer.Option("--by", help="The key of an officer who signs for the new one.", metavar="FILE")] = None,
) -> None:  # fmt: skip
    """Add an officer to the book: the first signs alone, later ones are signed for by an officer."""
    if new_key:
        _make_key(key)
    own = _key(key)
    _decide(book, lambda rule: rule.enrol(name, own.public), key if by is None else by, None)


@ledger_app.command(epilog="[bold]tacit ledger close tacit.db visits --reason 'the study is over' --key olga.pem[/bold]")
def close(book: Book, account: Annotated[str, typer.Argument()], reason: Reason, key: KeyFile) -> None:
    """Close an account and all below it: nothing more is spent there."""
    _decide(book, lambda rule: rule.close(account, reason), key, None)


@ledger_app.command(epilog="[bold]tacit ledger analyst tacit.db ann frozen --reason 'under review' --key olga.pem[/bold]")
def analyst(
    book: Book, name: Annotated[str, typer.Argument(help="The analyst.")],
    state: Annotated[Literal["frozen", "revoked", "active"], typer.Argument(help="What they are from now on.")],
    reason: Reason, key: KeyFile, pending: Pending = None,
) -> None:  # fmt: skip
    """Freeze, revoke or restore an analyst; restoring needs two officers."""
    chosen = {"frozen": "freeze", "revoked": "revoke", "active": "restore"}[state]
    _decide(book, lambda rule: getattr(rule, chosen)(name, reason), key, pending)


@ledger_app.command(epilog="[bold]tacit ledger amend tacit.db visits --budget eps=0.5 --reason '...' --key olga.pem[/bold]")
def amend(
    book: Book, account: Annotated[str, typer.Argument()], reason: Reason, key: KeyFile,
    budget: Annotated[str | None, typer.Option("--budget", help="The new budget, in the account's currency: eps=0.5.")] = None,
    purposes: Annotated[str | None, typer.Option("--purposes", help="The purposes it admits, separated by ;. * is any clear one.")] = None,
    analysts: Annotated[str | None, typer.Option("--analysts", help="Analysts who are admitted, separated by ;.")] = None,
    pending: Pending = None,
) -> None:  # fmt: skip
    """Amend an account's terms: one officer may tighten them, two may loosen them."""

    def parts(text: str | None) -> list[str] | None:
        return None if text is None else [part.strip() for part in text.split(";") if part.strip()]

    given = {"budget": budget, "purposes": parts(purposes), "analysts": parts(analysts)}
    _decide(book, lambda rule: rule.amend(account, reason, **given), key, pending)


@ledger_app.command(epilog="[bold]tacit ledger countersign tacit.db decision.json --key omar.pem[/bold]")
def countersign(book: Book, decision: Annotated[str, typer.Argument(help="The waiting decision.", metavar="FILE")], key: KeyFile) -> None:
    """Sign what another officer decided, and write it into the book."""
    from pathlib import Path

    from tacit.ledger import Decision, LedgerError

    try:
        waiting = Decision.from_text(Path(decision).read_text(encoding="utf-8"))
    except (OSError, LedgerError) as error:
        raise OptionError(f"{decision}: {error}") from error
    _decide(book, lambda rule: waiting, key, None)


def _decide(book: str, made: Any, key: str, pending: str | None) -> None:
    """Make a decision, sign it, and write it into the book, or into a file where a second officer must sign."""
    with opened(book) as ledger:
        rule, own = ledger.governance, _key(key)
        decision = made(rule)
        officers = rule.rules().officers
        waits = not decision.signatures and decision.fields["kind"] != "officer" and own.public in officers and rule.needed(decision) > 1
        if waits:
            if pending is None:
                raise OptionError("this loosens what holds, so two officers sign; name a file for the second one: --pending decision.json")
            _written(pending, decision.signed(own).to_text(), "--pending")
            print(f"waiting for a second officer: tacit ledger countersign {book} {pending} --key ...")
            return
        print(f"entry {rule.decide(decision, own)}")


def _key(file: str) -> Any:
    from pathlib import Path

    from tacit.ledger import LedgerError, OfficerKey

    try:
        return OfficerKey.read(Path(file).read_bytes())
    except (OSError, LedgerError) as error:
        raise OptionError(f"--key: {file}: {getattr(error, 'strerror', None) or error}") from error


def _make_key(file: str) -> None:
    """A new key, in a file that only its owner reads."""
    import os

    from tacit.ledger import OfficerKey

    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise OptionError(f"--key: cannot make {file}: {error.strerror}") from error
    with os.fdopen(handle, "wb") as stream:
        stream.write(OfficerKey.new().pem())


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
