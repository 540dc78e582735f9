"""The book for people: who spent what on which data and why, what is left, and how it came about.

`spends` and `standings` are the rows of two tables, `timeline` is the history of every account, and
`plot_spending` draws it. All of them only read the book.

>>> import pathlib, tempfile
>>> from tacit.accounting import Gaussian
>>> from tacit.ledger import Budget, Ledger
>>> ledger = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> _ = ledger.account("visits", Budget(rho=0.1)).spend(Gaussian(10), purpose="weekly table", analyst="ann")
>>> [(row.account, row.analyst, row.purpose, row.event, row.price, row.status) for row in spends(ledger)]
[('visits', 'ann', 'weekly table', 'Gaussian(noise_multiplier=10)', 'rho 0.005', 'done')]

>>> import datetime
>>> day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
>>> figure = plot_spending({"visits": [(day, 0.25), (day + datetime.timedelta(days=7), 0.5)]})
>>> figure.axes[0].get_ylabel()
'share of the budget used'
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tacit.accounting import AccountingError, from_json
from tacit.exact import from_text
from tacit.ledger import journal
from tacit.ledger.account import NOT_PRIVATE, Account
from tacit.ledger.book import Ledger
from tacit.ledger.booking import Totals
from tacit.ledger.budget import BEST, in_words, standing
from tacit.ledger.journal import parse_head
from tacit.ledger.paying import DONE, OPEN
from tacit.ledger.spec import Spec
from tacit.ledger.store import Connection, run
from tacit.ledger.verify import Rebuild
from tacit.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, check_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
_DASHES: tuple[object, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
_MOST = 12  # lines that can still be told apart


def plot_spending(
    timeline: Mapping[str, Sequence[tuple[datetime.datetime, float]]], *, path: str | PathLike[str] | None = None
) -> Figure:
    """The share of each budget that was used, over time; `timeline` is what `timeline` returns."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    if path is not None:
        check_path(path)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    end = max((rows[-1][0] for rows in timeline.values() if rows), default=None)
    fullest = sorted(timeline.items(), key=lambda item: -item[1][-1][1] if item[1] else 0.0)
    for place, (name, rows) in enumerate(fullest[:_MOST]):
        if rows:
            times: list[Any] = [rows[0][0], *(when for when, _ in rows), end]
            shares = [0.0, *(used for _, used in rows), rows[-1][1]]
            label = f"{name} ({100 * rows[-1][1]:.0f} %)"
            style = _DASHES[place // len(_COLOURS) % len(_DASHES)]
            ax.step(times, shares, where="post", color=_COLOURS[place % len(_COLOURS)], ls=style, lw=2, label=label)
    ax.axhline(1, color=GREY, lw=1.2, ls=(0, (4, 2)))
    ax.annotate("the budget", (0, 1), xycoords=("axes fraction", "data"), xytext=(6, 4), textcoords="offset points", color=GREY)
    ax.set_ylim(0, 1.12)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set_ylabel("share of the budget used")
    ax.set_title("Spent over time", loc="left")
    if end is not None:
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        hidden = f"; {len(timeline) - _MOST} more accounts are not drawn" if len(timeline) > _MOST else ""
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, title=f"account{hidden}", alignment="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", alpha=0.25)
    if path is not None:
        figure.savefig(fspath(path), dpi=150)
    return figure


@dataclass(frozen=True)
class Spend:
    """One spend. Its `status` is done, failed, or open (reserved and not concluded, which is spent too)."""

    entry: int
    time: str
    account: str
    period: str
    analyst: str
    purpose: str
    question: Any
    event: str
    price: str
    charge: dict[str, str]
    correction: bool
    status: str
    mark: str


@dataclass(frozen=True)
class Standing:
    """Where an account stands: amounts in words, and the `share` of the budget used (fullest period)."""

    id: int
    account: str
    depth: int
    names: tuple[str, ...]
    unit: str
    called: str
    adjacency: str
    rule: str
    window: str
    budget: str
    spent: str
    left: str
    share: float
    entries: int
    mark: str


def spoken(unit: str) -> str:
    """What a unit is called in a sentence: an account knows it by the column that tells one from another.

    >>> spoken("household_id"), spoken("patient"), spoken("id"), spoken("row")
    ('household', 'patient', 'id', 'row')
    """
    for ending in ("_id", "_no", "_nr", "_key"):
        if unit.lower().endswith(ending) and len(unit) > len(ending):
            return unit[: -len(ending)]
    return unit


def spends(ledger: Ledger, *, account: str | None = None, last: int | None = None) -> list[Spend]:
    """The spends of an account and of all below it, or of all accounts; of the whole book, or the `last` ones."""
    specs = {found.spec.id: found.spec for found in ledger.accounts()}
    wanted = None if account is None else _family(specs, ledger.account(account).spec.id)
    end, _ = parse_head(ledger.head())
    reach = end if last is None else 6 * last + 100
    while True:
        start = max(1, end - reach)
        found = _spends(ledger.entries(since=start), specs, wanted)
        if start == 1 or (last is not None and len(found) >= last):
            return found if last is None else found[-last:] if last else []
        reach *= 4


def _family(specs: dict[int, Spec], root: int) -> set[int]:
    found = {root}
    for number, spec in sorted(specs.items()):
        if spec.parent in found:
            found.add(number)
    return found


def _spends(entries: Iterable[dict[str, Any]], specs: dict[int, Spec], wanted: set[int] | None) -> list[Spend]:
    found: dict[int, Spend] = {}
    for fields in entries:
        if fields["kind"] == "commit" and fields["reservation"] in found:
            row = found[fields["reservation"]]
            found[row.entry] = replace(row, status=fields["status"], mark=row.mark if fields["private"] else NOT_PRIVATE)
        if fields["kind"] in ("spend", "reserve") and (wanted is None or fields["account"] in wanted):
            found[fields["seq"]] = _spend(fields, specs[fields["account"]])
    return list(found.values())


def _spend(fields: dict[str, Any], spec: Spec) -> Spend:
    price = {name: from_text(fields["charge"][name]) or Fraction(0) for name in spec.budget.limits}
    words = in_words(spec.budget, price)
    if spec.budget.filter == BEST and from_text(fields["charge"]["epsilon"]) is None:
        words = "by its Rényi divergences"  # without a share of delta it has no epsilon
    try:
        event = repr(from_json(json.dumps(fields["event"])))
    except AccountingError:
        event = str(fields["event"].get("type", "?"))
    return Spend(
        entry=fields["seq"],
        time=fields["time"],
        account=spec.name,
        period=fields.get("period", ""),
        analyst=fields.get("analyst", ""),
        purpose=fields.get("purpose", ""),
        question=fields.get("question"),
        event=event,
        price=words,
        charge=fields["charge"],
        correction=fields.get("correction", False),
        status=DONE if fields["kind"] == "spend" else OPEN,
        mark="" if fields["private"] else NOT_PRIVATE,
    )


def standings(ledger: Ledger, *, account: str | None = None) -> list[Standing]:
    """Every account, parents before their children, with what it has spent and has left."""
    handles, rules = {found.spec.id: found for found in ledger.accounts()}, ledger.governance.rules()
    specs = {number: rules.amended(found.spec) for number, found in handles.items()}
    wanted = set(specs) if account is None else _family(specs, ledger.account(account).spec.id)
    names, entries, unsafe = ledger.store.read(_counted)
    found: list[Standing] = []

    def visit(parent: int | None, depth: int) -> None:
        for number, spec in specs.items():
            if spec.parent == parent:
                if number in wanted:
                    found.append(one(handles[number], spec, depth))
                visit(number, depth + 1)

    def one(handle: Account, spec: Spec, depth: int) -> Standing:
        period, spent, share = ledger.store.read(lambda connection: _fullest(connection, spec))
        left = handle.left(period or None) if spec.window is None or period else spec.budget.usable(correction=False)
        when = f" in {period}" if period else ""
        kept = f" ({float(100 * spec.budget.reserve):.4g} % of it for corrections only)" if spec.budget.reserve else ""
        return Standing(
            id=spec.id,
            account=spec.name,
            depth=depth,
            names=tuple(name for name in names.get(spec.id, []) if name != spec.name),
            unit=spec.unit,
            called=spec.called or spoken(spec.unit),
            adjacency=spec.adjacency.value,
            rule=spec.rule if spec.collusion else "no collusion",
            window=spec.window or "",
            budget=in_words(spec.budget, spec.budget.limits) + (f" a {spec.window}" if spec.window else "") + kept,
            spent=in_words(spec.budget, spent) + when,
            left=in_words(spec.budget, {name: left[name] for name in spec.budget.limits}, up=False) + when,
            share=share,
            entries=entries.get(spec.id, 0),
            mark=NOT_PRIVATE if spec.id in unsafe else "",
        )

    visit(None, 0)
    return found


def _counted(connection: Connection) -> tuple[dict[int, list[str]], dict[int, int], set[int]]:
    """The names of each account, how many spends it has, and which have one that was drawn in test mode."""
    names: dict[int, list[str]] = {}
    for name, number in run(connection, "SELECT name, account FROM tacit_names ORDER BY name").fetchall():
        names.setdefault(number, []).append(name)
    query = "SELECT account, COUNT(*) FROM tacit_entries WHERE kind IN ('spend', 'reserve') GROUP BY account"
    entries = {int(number): int(count) for number, count in run(connection, query).fetchall()}
    suspects = run(connection, "SELECT account, body FROM tacit_entries WHERE body LIKE ?", ('%"private":false%',)).fetchall()
    return names, entries, {int(number) for number, body in suspects if json.loads(body).get("private") is False}


def _fullest(connection: Connection, spec: Spec) -> tuple[str, dict[str, Fraction], float]:
    """The period with the largest share of the budget used (the only one, "", without a window), its totals and that share."""
    best: tuple[str, dict[str, Fraction], float] = ("", {name: Fraction(0) for name in spec.budget.limits}, 0.0)
    for period, totals in sorted(journal.all_periods(connection, spec.id).items()):
        if bool(period) == (spec.window is not None):
            used = share(spec, totals)
            if used >= best[2]:
                amounts = standing(spec.budget, totals.total)
                best = (period, {name: amounts[name] or Fraction(0) for name in spec.budget.limits}, used)
    return best


def share(spec: Spec, totals: Totals) -> float:
    """The used share of a budget: of its scarcest component."""
    parts = []
    amounts = standing(spec.budget, totals.total)
    for name, limit in spec.budget.limits.items():
        if spec.budget.filter == BEST and name == "delta":
            continue  # shared out among the filters from the beginning
        value = amounts[name]
        parts.append(math.inf if value is None else float(value / limit) if limit else (math.inf if value else 0.0))
    return max(parts)


def timeline(ledger: Ledger) -> dict[str, list[tuple[datetime.datetime, float]]]:
    """For each account the share of its budget used after each spend on it or below it, over time (the fullest period, with a window)."""
    rebuild = Rebuild()
    found: dict[str, list[tuple[datetime.datetime, float]]] = {}
    for fields in ledger.entries():
        for _ in rebuild.take(fields["seq"], fields):
            pass  # `verify` reports faults; the picture shows what is there
        if fields["kind"] in ("spend", "reserve"):
            when = datetime.datetime.fromisoformat(fields["time"])
            for spec in rebuild.path(fields["account"]):
                used = share(rebuild.rules.amended(spec), rebuild.totals[spec.id, fields.get("period", "") if spec.window else ""])
                rows = found.setdefault(spec.name, [])
                rows.append((when, max(used, rows[-1][1]) if rows else used))
    return found
