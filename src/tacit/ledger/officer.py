"""The officer's desk: a book as a page to read and print, as answers to a reviewer's questions, and as records.

`report_of` gathers what a privacy officer asks of a book: totals and history by account, analyst, project, period and
purpose; how fast budgets are used up; what the spent epsilon means for one person and for a family, for several
priors; what officers decided; and, where the results of `tacit selftest --json` are given, what attacks found for
each mechanism that was used, beside what the accountant proves and the ledger charged. All of it is read from the
book. It is evidence for a decision, not a certificate of compliance.

>>> import pathlib, tempfile
>>> from tacit.accounting import Laplace
>>> from tacit.ledger import Budget, Ledger
>>> ledger = Ledger.open(pathlib.Path(tempfile.mkdtemp()) / "tacit.db")
>>> visits = ledger.account("visits", Budget(epsilon=1), unit="patient")
>>> _ = visits.spend(Laplace(4), purpose="weekly table for the board", analyst="ann")
>>> found = report_of(ledger)
>>> found.accounts[0].spent, found.by["analyst"][0].name, found.meanings[0].unit
('epsilon 0.25', 'ann', 'patient')
>>> "<h1>" in found.to_html() and found.nist()["answers"][0]["question"][:4]
'Whom'
"""

from __future__ import annotations

import csv
import datetime
import html
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting import (
    GDP,
    ZCDP,
    AccountingError,
    Adjacency,
    ApproxDP,
    Event,
    Group,
    PureDP,
    account,
    from_json,
    rounded_up,
)
from tacit.exact import from_text
from tacit.ledger import report as tables
from tacit.ledger.book import Ledger
from tacit.ledger.budget import in_words, standing
from tacit.ledger.governance import KINDS
from tacit.ledger.report import Spend, spoken
from tacit.ledger.spec import Spec, vague

if TYPE_CHECKING:
    from jinja2 import Template

#: The beliefs before a release, and the sizes of groups, for which the page says what an epsilon means.
PRIORS = (0.01, 0.1, 0.5)
GROUPS = (1, 2, 4)
#: A bound on a belief holds except with this probability, where noise has no finite epsilon at delta = 0.
TAIL = 1e-6
#: A bound that fails more often than this is none.
RARE = 0.01
#: Spends that the page lists; the rest is in the CSV file.
SHOWN = 12
CAVEAT = "This page is evidence for a decision, not a certificate of compliance."


@dataclass(frozen=True)
class Subtotal:
    """Totals of the spends that share something: an account's, and within it an analyst's, a month's or a purpose's."""

    name: str
    account: str
    spends: int
    spent: str
    share: float
    last: str
    note: str = ""


@dataclass(frozen=True)
class Standing:
    """An account as the page shows it."""

    name: str
    depth: int
    unit: str
    called: str
    relation: str
    budget: str
    spent: str
    left: str
    share: float
    spends: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Meaning:
    """What an account's spent budget allows to be concluded about one unit, and about several together."""

    account: str
    unit: str
    spent: str
    except_for: str
    rows: tuple[tuple[str, tuple[str, ...]], ...]  # the prior, and the belief afterwards for each size of group


@dataclass(frozen=True)
class Mechanism:
    """One mechanism beside what is proved, what was charged and what attacks found."""

    name: str
    spends: int
    proved: str
    charged: str
    audited: str
    broken: bool = False


@dataclass(frozen=True)
class Report:
    """A book as an officer reads it."""

    title: str
    made: str
    head: str
    entries: int
    verdict: str
    ok: bool
    open: int
    failed: int
    unsafe: int
    accounts: tuple[Standing, ...]
    by: Mapping[str, tuple[Subtotal, ...]]
    meanings: tuple[Meaning, ...]
    mechanisms: tuple[Mechanism, ...]
    decisions: tuple[tuple[str, str, str], ...]
    assumptions: tuple[str, ...]
    spends: tuple[Spend, ...]
    burn: Mapping[str, Sequence[tuple[datetime.datetime, float]]] = field(default_factory=dict)
    policy: Mapping[str, Any] | None = None

    def to_html(self) -> str:
        """The page: one file without scripts, for a screen, a telephone and two printed pages."""
        pictures = {name: burn_down(rows, name) for name, rows in self.burn.items() if rows}
        return _template().render(r=self, pictures=pictures, groups=GROUPS, shown=self.spends[-SHOWN:][::-1], caveat=CAVEAT)

    def to_csv(self) -> str:
        """Every spend, one to a line; a text that looks like a formula is quoted."""
        stream = io.StringIO()
        names = ("entry", "time", "account", "period", "analyst", "purpose", "event", "price", "status", "mark")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        for spend in self.spends:
            writer.writerow([_cell(getattr(spend, name)) for name in names])
        return stream.getvalue()

    def nist(self) -> dict[str, Any]:
        """Answers to what NIST SP 800-226 asks of a claim, layer by layer, from the book; what the book cannot know says so."""
        units = sorted({row.called for row in self.accounts})
        relations = sorted({row.relation for row in self.accounts})
        open_ended = "The book cannot answer this; the curator must."
        pairs = [
            ("Whom does the guarantee protect (the unit of privacy)?",
             f"One {' or one '.join(units)}; neighbours by {', '.join(relations)}."),
            ("How much may be learned (epsilon, delta or another parameter)?", "; ".join(f"{a.name}: {a.budget}" for a in self.accounts)),
            ("How much was spent so far?", "; ".join(f"{a.name}: {a.spent} ({a.share:.0%})" for a in self.accounts)),
            ("Is everything that was computed accounted for?", f"{self.entries} entries, chained by hash; {self.verdict}."),
            ("Which mechanisms were used?", ", ".join(m.name for m in self.mechanisms) or "none so far"),
            ("Are the mechanisms implemented correctly?", "; ".join(f"{m.name}: {m.audited}" for m in self.mechanisms) or "none used"),
            ("Is randomness secure?", _randomness(self.unsafe)),
            ("Is the trust model stated (central, local, shuffled)?", "Central: whoever keeps the book holds the rows."),
            ("Are there side channels (time, errors, floating point)?", "Errors are withheld after data is touched, sums are integers; "
             "response times are not defended. See the security model."),
            ("Who may ask, and for what?", _who(self.by)),
            ("How is the collection of data secured?", open_ended),
            ("Is the utility sufficient, and who bears the noise?", open_ended),
        ]
        answers = [{"question": question, "answer": answer} for question, answer in pairs]
        return {"guide": "NIST SP 800-226", "book": self.head, "made": self.made, "caveat": CAVEAT, "answers": answers}

    def registry(self) -> list[dict[str, Any]]:
        """A record for each account with spends, in the parts of the public registry of deployments; what a book cannot know is empty."""
        found = []
        meanings = {meaning.account: meaning for meaning in self.meanings}
        for row in self.accounts:
            if row.name not in meanings:
                continue
            meaning = meanings[row.name]
            found.append(
                {
                    "name": row.name, "status": "Draft", "privacy_unit": row.unit, "neighbours": row.relation,
                    "budget": row.budget, "privacy_parameters": meaning.spent, "releases": row.spends,
                    "mechanisms": [m.name for m in self.mechanisms], "intended_use": "not stated", "data_curators": ["not stated"],
                    "source": f"ledger {self.head}",
                }
            )  # fmt: skip
        return found


def report_of(
    ledger: Ledger, *, account: str | None = None, audit: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None, title: str = "Privacy ledger",
) -> Report:
    """What an officer asks of a book; `audit` is what `tacit selftest --json` wrote, `policy` a job's block of that name."""
    found, spends = tables.standings(ledger, account=account), tables.spends(ledger, account=account)
    specs = {handle.spec.name: handle.spec for handle in ledger.accounts()}
    verified = ledger.verify()
    chosen = {row.account for row in found}
    roots = _roots(specs)
    paid = [row for row in found if row.share > 0]
    return Report(
        title=title,
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        head=verified.head,
        entries=verified.entries,
        verdict="in order" if verified.ok else f"BROKEN: {verified.problems[0]}",
        ok=verified.ok,
        open=sum(spend.status == "open" for spend in spends),
        failed=sum(spend.status == "failed" for spend in spends),
        unsafe=sum(bool(spend.mark) for spend in spends),
        accounts=tuple(_standing(row, ledger) for row in found),
        by={
            "analyst": _lines(spends, specs, lambda spend: spend.analyst or "not named"),
            "project": _projects(found, spends, roots),
            "period": _lines(spends, specs, lambda spend: spend.period or spend.time[:7]),
            "purpose": _lines(spends, specs, lambda spend: spend.purpose.partition(":")[0] or "not stated", noted=True),
        },
        meanings=tuple(meaning_of(ledger, row.account) for row in paid),
        mechanisms=_mechanisms(ledger, spends, specs, audit),
        decisions=_decisions(ledger),
        assumptions=tuple(sorted({line for one in ledger.accounts() if one.name in chosen for line in one.assumptions()})),
        spends=tuple(spends),
        burn={name: rows for name, rows in tables.timeline(ledger).items() if name in chosen},
        policy=policy,
    )


def _roots(specs: Mapping[str, Spec]) -> dict[str, str]:
    """The project that an account belongs to: the account at the top of its tree."""
    by_id = {spec.id: spec for spec in specs.values()}

    def top(spec: Spec) -> str:
        return spec.name if spec.parent is None else top(by_id[spec.parent])

    return {name: top(spec) for name, spec in specs.items()}


def _projects(found: Sequence[tables.Standing], spends: Sequence[Spend], roots: Mapping[str, str]) -> tuple[Subtotal, ...]:
    """The accounts at the top, with all that was spent on them and below."""
    rows = []
    for row in found:
        members = [spend for spend in spends if roots[spend.account] == row.account]
        if row.depth == 0 and members:
            rows.append(Subtotal(row.account, row.account, len(members), row.spent, row.share, members[-1].time[:10]))
    return tuple(rows)


def _standing(row: tables.Standing, ledger: Ledger) -> Standing:
    rules = ledger.governance.rules()
    notes = [f"also {', '.join(row.names)}"] if row.names else []
    if row.id in rules.closed:
        notes.append(f"closed: {rules.closed[row.id]}")
    if row.id in rules.budgets:
        notes.append("budget amended by officers")
    if row.id in rules.purposes:
        notes.append(f"purposes: {', '.join(rules.purposes[row.id])}")
    if row.mark:
        notes.append(row.mark)
    return Standing(
        row.account, row.depth, row.unit, row.called, row.adjacency, row.budget, row.spent, row.left, row.share, row.entries, tuple(notes)
    )


def _lines(
    spends: Sequence[Spend], specs: Mapping[str, Spec], named: Callable[[Spend], str], *, noted: bool = False
) -> tuple[Subtotal, ...]:
    """Totals by a name, within each account: amounts of different accounts protect different people and are never added."""
    groups: dict[tuple[str, str], list[Spend]] = {}
    for spend in spends:
        groups.setdefault((named(spend), spend.account), []).append(spend)
    found = []
    for (name, owner), members in sorted(groups.items()):
        budget = specs[owner].budget
        sums: dict[str, Fraction] = {}
        for component in budget.limits:
            sums[component] = sum((from_text(spend.charge[component]) or Fraction(0) for spend in members), Fraction(0))
        shares = [float(sums[c] / limit) for c, limit in budget.limits.items() if limit]
        note = "says nothing" if noted and vague(members[-1].purpose) else ""
        found.append(Subtotal(name, owner, len(members), in_words(budget, sums), max(shares, default=0.0), members[-1].time[:10], note))
    return tuple(found)


# --- what an epsilon means ------------------------------------------------------------------------------------------


def meaning_of(ledger: Ledger, name: str) -> Meaning:
    """What an account's spent budget allows to be believed, for several priors and sizes of group."""
    handle = ledger.account(name)
    spec = handle.spec
    spent = handle.total() if spec.window is not None else handle.spent()
    amounts = standing(spec.budget, spent.totals)
    event = event_of(amounts)
    tails = [_tail(event, size) for size in GROUPS]
    rows = []
    for prior in PRIORS:
        cells = tuple(_belief(event, spec.adjacency, size, prior, tail) for size, tail in zip(GROUPS, tails, strict=True))
        rows.append((f"{prior:.0%}", cells))
    words = in_words(spec.budget, {c: v if v is not None else Fraction(0) for c, v in amounts.items()})
    said = [f"{tails[0]:.2g}" if tails[0] else ""]
    said += [f"{tail:.2g} for {size} together" for size, tail in zip(GROUPS, tails, strict=True) if tails[0] < tail < RARE]
    return Meaning(name, spec.called or spoken(spec.unit), words, ", ".join(said), tuple(rows))


def _tail(event: Event | None, size: int) -> float:
    """The probability with which a belief about a group may be beyond its bound: none for pure epsilon; else a little, and more than the
    delta of the group, which grows with its size as the sum of exp(i epsilon), i < size (Vadhan 2017, lemma 2.2)."""
    if event is None or isinstance(event, PureDP):
        return 0.0
    if not isinstance(event, ApproxDP) or not event.delta:
        return TAIL
    epsilon = min(float(event.epsilon), 700.0 / size)
    return max(TAIL, 10 * float(event.delta) * math.fsum(math.exp(i * epsilon) for i in range(size)))


def event_of(amounts: Mapping[str, Fraction | None]) -> Event | None:
    """A guarantee as an event, from the totals of an account; None where no bound is known.

    >>> event_of({"pure": Fraction(1)})
    PureDP(epsilon=Fraction(1, 1))
    """
    values = {name: value for name, value in amounts.items() if value is not None}
    if len(values) < len(amounts):
        return None
    if "pure" in values:
        return PureDP(values["pure"])
    if "epsilon" in values:
        return ApproxDP(values["epsilon"], values["delta"])
    if "rho" in values:
        return ZCDP(values["rho"])
    if "mu2" in values:  # mu squared is what adds up
        return GDP(math.sqrt(float(values["mu2"])) * (1 + 1e-12))
    return None


def _belief(event: Event | None, adjacency: Adjacency, size: int, prior: float, tail: float) -> str:
    """The belief that is possible at most, in per cent, rounded up; for a group, about all of it together."""
    if event is None or tail >= RARE:
        return "no bound"
    try:
        group = event if size == 1 else Group(event, size)
        upper = account(group, adjacency).posterior(prior, delta=tail).upper
    except AccountingError:
        return "no bound"
    return f"{math.ceil(upper * 1000 - 1e-9) / 10:.1f} %"


# --- accountant, ledger and audit side by side ------------------------------------------------------------------------


def _mechanisms(
    ledger: Ledger, spends: Sequence[Spend], specs: Mapping[str, Spec], audit: Mapping[str, Any] | None
) -> tuple[Mechanism, ...]:
    """For each mechanism in the events that were paid: the largest loss that is proved of one spend, what was charged, what was found."""
    found: dict[str, list[tuple[Event, Spend]]] = {}
    wanted = {spend.entry: spend for spend in spends}
    for fields in ledger.entries():
        if fields.get("seq") in wanted and fields["kind"] in ("spend", "reserve"):
            try:
                event = from_json(json.dumps(fields["event"]))
            except AccountingError:
                continue
            for name in _names(fields["event"]):
                found.setdefault(name, []).append((event, wanted[fields["seq"]]))
    rows = []
    for name, members in sorted(found.items()):
        costs = [_proved(event, specs[spend.account].adjacency) for event, spend in members[-20:]]
        proved = max(costs, default=0.0)
        text, broken = _audited(name, audit)
        charged = members[-1][1].price
        rows.append(Mechanism(name, len(members), f"epsilon ≤ {rounded_up(proved, 4)} at delta {TAIL:g}", charged, text, broken))
    return tuple(rows)


#: Parts of an event that are no mechanism: they say how others are put together.
_WHOLES = frozenset(("Composed", "Repeated", "Sampled", "Group", "NoOp"))


def _names(record: object) -> set[str]:
    """The names of the mechanisms in an event's record."""
    if isinstance(record, Mapping):
        own = {str(record["type"])} - _WHOLES if "type" in record else set()
        return own.union(*(_names(value) for value in record.values()))
    if isinstance(record, list):
        return set().union(*(_names(value) for value in record))
    return set()


def _proved(event: Event, adjacency: Adjacency) -> float:
    try:
        return account(event, adjacency).epsilon(TAIL).upper
    except AccountingError:
        return math.inf


def _audited(name: str, audit: Mapping[str, Any] | None) -> tuple[str, bool]:
    """What the self-test found for a mechanism, by the names of its cases."""
    if audit is None:
        return "not run; see tacit selftest", False
    words = name.casefold().replace("dp", "")
    cases = [case for case in audit.get("cases", []) if words in str(case.get("case", "")).casefold()]
    if not cases:
        return "no case of this name in the self-test", False
    broken = [str(case["case"]) for case in cases if case.get("broken")]
    most = max(float(case.get("share", 0.0)) for case in cases)
    if broken:
        return f"BROKEN: {', '.join(broken)}", True
    return f"{len(cases)} attacks found at most {most:.0%} of what is claimed", False


def _decisions(ledger: Ledger) -> tuple[tuple[str, str, str], ...]:
    """What officers decided: when, what, and who signed."""
    names: dict[str, str] = {}
    accounts = {handle.spec.id: handle.name for handle in ledger.accounts()}
    found = []
    for fields in ledger.entries():
        if fields["kind"] not in KINDS:
            continue
        if fields["kind"] == "officer":
            names[fields["key"]] = fields["name"]
        what = {
            "officer": lambda f: f"{f['name']} became an officer",
            "close": lambda f: f"closed {accounts[f['account']]}: {f['reason']}",
            "analyst": lambda f: f"{f['analyst']} is {f['state']}: {f['reason']}",
            "amend": lambda f: f"amended {', '.join(f['terms'])} of {accounts[f['account']]}: {f['reason']}",
        }[fields["kind"]](fields)
        signers = ", ".join(names.get(key, "unknown") for key, _ in fields["signatures"])
        found.append((str(fields["time"])[:10], what, signers))
    return tuple(found)


def _who(by: Mapping[str, tuple[Subtotal, ...]]) -> str:
    analysts = ", ".join(dict.fromkeys(line.name for line in by["analyst"])) or "no analyst so far"
    purposes = ", ".join(dict.fromkeys(line.name for line in by["purpose"])) or "none"
    return f"Analysts so far: {analysts}. Purposes: {purposes}."


def _randomness(unsafe: int) -> str:
    if unsafe:
        return f"{unsafe} spends were drawn from a seed and are NOT PRIVATE."
    return "All draws came from the operating system; none from a seed."


# --- the page ---------------------------------------------------------------------------------------------------------


def burn_down(rows: Sequence[tuple[datetime.datetime, float]], name: str, *, width: int = 320, height: int = 96) -> str:
    """What is left of a budget over time, as a small drawing that follows the page's colours.

    >>> day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    >>> burn_down([(day, 0.25), (day + datetime.timedelta(days=30), 1.0)], "visits <b>").count("&lt;b&gt;")
    2
    """
    first, last = rows[0][0], rows[-1][0]
    span = max((last - first).total_seconds(), 1.0)
    left, right, top, bottom = 34.0, width - 6.0, 8.0, height - 20.0

    def x(when: datetime.datetime) -> float:
        return left + (right - left) * (when - first).total_seconds() / span

    def y(share: float) -> float:
        return top + (bottom - top) * (1 - max(0.0, min(1.0, share)))

    points = [(left, y(1.0))]
    for when, used in rows:
        points += [(x(when), points[-1][1]), (x(when), y(1 - used))]
    points.append((right, points[-1][1]))
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    area = f"{left},{bottom} {line} {right},{bottom}"
    label = html.escape(f"{name}: {100 * max(0.0, 1 - rows[-1][1]):.0f} % of the budget is left")
    marks = "".join(
        f'<line class="grid" x1="{left}" x2="{right}" y1="{y(s):.1f}" y2="{y(s):.1f}"/>'
        f'<text class="axis" x="{left - 4}" y="{y(s) + 4:.1f}" text-anchor="end">{s:.0%}</text>'
        for s in (0.0, 0.5, 1.0)
    )
    dates = (
        f'<text class="axis" x="{left}" y="{height - 5}">{first:%Y-%m-%d}</text>'
        f'<text class="axis" x="{right}" y="{height - 5}" text-anchor="end">{last:%Y-%m-%d}</text>'
    )
    return (
        f'<svg class="burn" viewBox="0 0 {width} {height}" role="img" aria-label="{label}"><title>{label}</title>{marks}'
        f'<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/>{dates}</svg>'
    )


@cache
def _template() -> Template:
    from jinja2 import Environment

    text = (Path(__file__).parent / "templates" / "officer.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text)


def _cell(value: object) -> object:
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def to_json(report: Report) -> dict[str, Any]:
    """The report for machines."""
    found = {name: value for name, value in asdict(report).items() if name != "burn"}
    found["burn"] = {name: [[when.isoformat(), used] for when, used in rows] for name, rows in report.burn.items()}
    return found
