"""The report of a release: one HTML file, for the officer who asks what was promised and the statistician who asks how.

It is self-contained (no script, no font, no request), prints, and follows the reader's light or dark setting. Everything in it is made from
released figures and public parameters, so that the report itself leaks nothing; every text is escaped. What it says stands in it once more
as JSON, from which `read` makes the same page again.

>>> import pathlib, tempfile
>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> page = render(describe(plan(parse(EXAMPLE)), {}, Facts(made="2026-01-01")))
>>> "Visits by region" in page and "ε ≤ 1<" in page
True
>>> place = pathlib.Path(tempfile.mkdtemp()) / "report.html"
>>> _ = place.write_text(page, encoding="utf-8")
>>> render(read(place)) == page
True
>>> short(Unit("patient_id", max_rows=12)), cap(Unit("patient_id", max_rows=12))
('each person (patient_id)', 'at most 12 rows of one person, chosen at random, count')
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import __version__
from tacit.accounting import Adjacency, Bound, Composed, Cost, Event, Gaussian, account, attack_rate, rounded_up, to_json
from tacit.exact import at_most
from tacit.release import kinds
from tacit.release import page as pictures
from tacit.release.errors import JobError
from tacit.release.kinds import OutputPlan
from tacit.release.page import bracket, listed, template
from tacit.release.planning import JobPlan
from tacit.release.policy import described_policy
from tacit.release.preparation import described_preparation
from tacit.tables import Unit

if TYPE_CHECKING:
    from tacit.release.audited import JobAudit
    from tacit.release.running import JobRun

Record = dict[str, Any]
NAME = "report.html"
#: Which record this is, so that a later version knows what it reads.
FORMAT = 1


@dataclass(frozen=True)
class Facts:
    """What only the run knows: when it was, whether the noise was private, where it stands in the book, which files it wrote.

    `event` is everything that was paid for; the plan's where nothing had to be corrected.
    """

    made: str
    private: bool = True
    record: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    event: Event | None = None
    accepted: tuple[str, ...] = ()
    corrects: str = ""


def write(run: JobRun, folder: Path) -> Path:
    """Write the report of a run into its folder; the path of the page."""
    return save(describe(run.plan, run.answers, _facts(run, folder)), folder)


def save(record: Record, folder: Path) -> Path:
    """Write the page of a record into a folder."""
    place = folder / NAME
    place.write_bytes(render(record).encode("utf-8", "replace"))
    return place


# --- what there is to say ---------------------------------------------------------------------------------------------------------------


def describe(plan: JobPlan, answers: Mapping[str, Any], facts: Facts) -> Record:
    """Everything the page says, as plain JSON: figures as they were published, words about them, nothing that was not released."""
    job, unit = plan.job, plan.job.unit.typed()
    event = facts.event or plan.event
    cost = account(event, unit.adjacency)
    delta = at_most(plan.delta)
    total = plan.cost if event == plan.event else cost.epsilon(delta)
    other = kinds.deployment(plan.outputs)
    part = plan.protects
    told = promise(cost, total, delta, unit, part)
    words = {"one": one(unit, part), "short": short(unit, part), "cap": cap(unit), "relation": relation(unit, part)}
    return {
        "format": FORMAT,
        **({} if noun_of(plan) == "table" else {"noun": noun_of(plan)}),
        "title": job.title,
        "purpose": job.purpose,
        "curator": job.registry.curator,
        **({} if job.policy is None else {"policy": described_policy(job.policy)}),
        **({} if job.preparation is None else {"preparation": described_preparation(plan)}),
        "made": facts.made,
        "private": facts.private,
        "confidence": percent(job.publication.confidence),
        **({"accepted": list(facts.accepted)} if facts.accepted else {}),
        **({"corrects": facts.corrects} if facts.corrects else {}),
        "promise": told if other is None else {**told, "words": [*other.promise, told["words"][1]]},
        "unit": words if other is None else dict(other.unit),
        **({} if other is None else {"deployment": {"model": other.model, "actors": other.actors, "about": other.about}}),
        "limits": limits(plan, unit) if other is None else list(other.limits),
        "outputs": [_output(output, answers.get(output.spec.name)) for output in plan.outputs],
        "budget": {
            "words": budget(plan) if other is None else other.booked,
            "parts": {output.spec.name: _part(plan, output) for output in plan.outputs},
        },
        "total": bracket(total, delta),
        "review": review(plan, unit, total.upper, facts.private),
        "event": json.dumps(json.loads(to_json(event)), indent=1),
        "record": {"job (SHA-256)": plan.digest, **facts.record},
        "files": dict(facts.files),
        "versions": {"tacit": __version__, "python": platform.python_version(), **facts.versions},
    }


def _output(output: OutputPlan, answer: Any | None) -> Record:
    """What its kind says of an output. A table is what is meant where no kind is named, as in reports from before there were kinds."""
    kind = output.spec.kind
    return {**({} if kind == "table" else {"kind": kind}), **kinds.find(kind).described(output, answer)}


def _part(plan: JobPlan, output: OutputPlan) -> float:
    whole = sum(float(other.portion.part) for other in plan.outputs)
    return float(output.portion.part) / whole if whole > 0 else 0.0


# --- the page ---------------------------------------------------------------------------------------------------------------------------


#: What each kind of reader is shown: everyone the promise and the tables, whoever must check them the rest as well.
AUDIENCES: Mapping[str, tuple[str, ...]] = {
    "all": ("promise", "tables", "budget", "witnesses", "policy", "preparation", "review", "record"),
    "public": ("promise", "tables", "outcomes"),
    "statistician": ("tables", "budget", "record"),
    "officer": ("promise", "budget", "witnesses", "policy", "preparation", "review", "record"),
}
#: Tables of so many groups have pictures of hypothetical outcomes.
FEWEST, MOST = 2, 24


def with_audit(record: Record, found: JobAudit) -> Record:
    """The record with what an attack on the job found (`tacit.release.audited`)."""
    return {**record, "audit": found.record()}


def witnesses(record: Record) -> list[list[str]]:
    """Accountant, ledger and audit side by side: who says it, what is said, and how it is known."""
    at, about = (f" at δ = {record['promise']['delta']}" if record["promise"]["delta"] else ""), record["record"]
    entries = about.get("ledger entries", "")
    rows = [
        ["the accountant, from above", f"ε ≤ {record['promise']['epsilon']}{at}", f"proved: {record['total']['method']}"],
        [
            "the ledger",
            f"entries {entries} of account {about['ledger account']}" if entries else "not booked",
            record["budget"]["words"],
        ],
    ]
    found = record.get("audit")
    if found is None:
        told = ["no attack was run for this job", "run one on made-up rows: tacit report FOLDER --audit JOB --out FILE"]
    elif not found["attacked"]:
        told = ["nothing that this attack can see", f"left out: {listed(found['left'])}; tacit selftest attacks the mechanisms themselves"]
    else:
        verdict = "MORE THAN WAS PROMISED" if found["lower"] > found["upper"] else "below the accountant's, as it must be"
        left = f" {listed(found['left'])}: not attacked." if found["left"] else ""
        told = [
            f"ε ≥ {found['lower']:.3g}{at}: {verdict}",
            f"an attack on this job's own statements and noise, on made-up rows with and without "
            f"{record['unit'].get('one', 'one person')}, {found['trials']:,} draws of "
            f"{listed(found['attacked'])}; it holds with {percent(found['confidence'])} confidence. An attack that finds little proves "
            f"nothing.{left}",
        ]
    return [*rows, ["the audit, from below", *told]]


def _outcomes(record: Record) -> dict[str, tuple[str, str]]:
    """For tables of few groups, what else could have been released, of the first figure."""
    found = {}
    for output in record["outputs"]:
        if output.get("kind", "table") != "table" or not output.get("figures"):
            continue
        name, figure = next(iter(output["figures"].items()))
        known = all(None not in figure[end] for end in ("value", "low", "high"))
        if known and FEWEST <= len(figure["value"]) <= MOST:
            sure = float(str(record["confidence"]).rstrip(" %")) / 100
            title = f"{name}: what could as well have been released"
            drawn = pictures.outcomes(figure["value"], figure["low"], figure["high"], sure, title=title)
            found[output["name"]] = (name, drawn)
    return found


def for_audience(record: Record, audience: str) -> str:
    """The page for one kind of reader: the public, a statistician or an officer. Every figure is that of the whole page.

    >>> "what an attack" in AUDIENCES
    False
    """
    if audience not in AUDIENCES:
        raise JobError(f"audience must be one of {', '.join(AUDIENCES)}, not {audience!r}")
    return render(record, audience)


def render(record: Record, audience: str = "all") -> str:
    """The page of a record. Markup comes from templates and from pictures, which escape by themselves; all else is escaped."""
    drawn: Record = {
        "attack": pictures.attack([(x, y) for x, y in record["promise"]["attack"]], title="the best attack"),
        "shares": pictures.shares(record["budget"]["parts"], title="the budget's parts"),
    }
    sections = [kinds.find(output.get("kind", "table")).section(output, record["confidence"]) for output in record["outputs"]]
    # Inside a script element only "<" could end it or begin a comment.
    embedded = json.dumps(record, allow_nan=False).replace("<", "\\u003c")
    return template(NAME).render(
        r=record, picture=drawn, sections=sections, witnesses=witnesses(record),
        outcomes=_outcomes(record) if audience == "public" else {}, noun=record.get("noun", "table"), embedded=embedded,
        shown=AUDIENCES[audience], audience=audience,
    )  # fmt: skip


def read(path: Path) -> Record:
    """The record inside a report, or an error that says that it holds none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise JobError(f"the report cannot be read: {reason}; name the folder of a release", file=str(path)) from None
    found = re.search(r'<script type="application/json" id="tacit-report">(.*?)</script>', text, re.DOTALL)
    try:
        record = json.loads(found[1]) if found else None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise JobError("this page holds no record that this version of Tacit can read; name a folder that tacit run wrote", file=str(path))
    return record


def _facts(run: JobRun, folder: Path) -> Facts:
    """What the report needs of a run beside its plan and answers. Files are those that the folder holds so far."""
    about, code = run.record["ledger"], run.record["code"]
    record = {
        "ledger account": str(about["account"]),
        "ledger entries": ", ".join(map(str, about["entries"])),
        "head of the book": str(about["head"]),
        "run": str(about["run"]),
        "code (SHA-256)": str(code["hash"]),
    }
    written = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name != NAME]
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in written}
    again = run.record.get("corrects", {})
    corrects = f"{again['folder']}: {again['reason']}" if again.get("folder") else ""
    return Facts(str(run.record["time"]), run.private, record, files, code["versions"], run.event, run.accepted, corrects)


# --- the words ------------------------------------------------------------------------------------------------------------------------
# What was promised, to whom, what was not, and what a reviewer asks. Whatever is rounded is rounded against us: an epsilon up, the reach of
# an attack up.

RELATIONS = {
    Adjacency.ADD_REMOVE: "add or remove: {unit} is in the data or is not; the number of rows is protected too",
    Adjacency.REPLACE_ONE: "replace one: the data of {unit} are exchanged for any other; how many there are is taken to be public",
    Adjacency.ZERO_OUT: "zero out: the data of {unit} are blanked; how many there are is taken to be public",
}


def promise(cost: Cost, found: Bound, delta: float, unit: Unit, part: str = "") -> Record:
    """The guarantee as an attacker meets it. All figures are rounded against us."""
    points = _attack(cost, found.upper, delta)
    right = cost.accuracy(0.5).upper
    rate = min(_reach(points, 0.01), 1.0)
    who = one(unit, part)
    words = [
        f"Whoever sees these tables learns almost the same about {who} as if those data had never been collected. "
        "This holds against anyone, with any other knowledge and any computer, now and later.",
        f"ε says how much “almost” is: it bounds by what factor (e^ε, here at most {rounded_up(math.exp(min(found.upper, 700)), 3)}) any "
        "conclusion can become more or less likely because of one participation"
        + (f", except with a probability of about δ = {delta:g}." if delta else "."),
    ]
    return {
        "epsilon": rounded_up(found.upper, 4),
        "delta": f"{delta:g}" if delta else "",
        "accuracy": upper_percent(right),
        "rate": upper_percent(rate),
        "gdp": _gdp(cost.event, cost),
        "words": words,
        "attack": [[x, y] for x, y in points],
    }


def _attack(cost: Cost, epsilon: float, delta: float) -> list[tuple[float, float]]:
    """An upper bound on the share of members found for each share of outsiders accused.

    What a few (epsilon, delta) allow is a bound that holds, whichever were chosen.
    """
    top = min(epsilon, 30.0) if math.isfinite(epsilon) else 30.0
    known = [(epsilon, delta)] if math.isfinite(epsilon) else []
    known += [(top * k / 10, cost.delta(top * k / 10).upper) for k in range(10)]
    places = [0.0, 0.001, 0.003, 0.01, 0.02, 0.04, *(k / 20 for k in range(1, 21))]
    allowed = attack_rate(np.array(places), *np.array(known).T)
    return [(x, max(x, y)) for x, y in zip(places, allowed.tolist(), strict=True)]


def _reach(points: Sequence[tuple[float, float]], fpr: float) -> float:
    return next(y for x, y in points if x >= fpr)


def _gdp(event: Event, cost: Cost) -> str:
    """mu where every part is Gaussian, so that it is known exactly; other jobs are better told by their curve."""
    parts = event.events if isinstance(event, Composed) else (event,)
    if not all(isinstance(part, Gaussian) for part in parts):
        return ""
    return rounded_up(cost.gdp().mu.upper, 4)


def limits(plan: JobPlan, unit: Unit) -> list[str]:
    """What the guarantee leaves out, in words."""
    bounds = [name for name, column in plan.job.columns.items() if column.bounds is not None]
    lists = [name for name, column in plan.job.columns.items() if column.categories is not None]
    found = [
        "What is true of whole groups. If a table shows that a treatment often fails, that can be concluded about a patient who had it, "
        "whether or not that patient is in the data.",
        "What was declared public: the questions, the names and types of columns"
        + (f", the bounds of {listed(bounds)}" if bounds else "")
        + (f", the possible values of {listed(lists)}" if lists else "")
        + ".",
    ]
    if unit.ends is not None and unit.person is not None:
        found.append("Who takes part at all: each relation between two is protected, and someone with many relations is protected less.")
    elif unit.ends is not None:
        found.append("Groups such as a family: the loss grows with each member.")
    elif unit.person is None:
        found.append("People with more than one row. Each row is protected by itself; a person with several is protected less.")
    else:
        who = f"{unit.nouns.capitalize()} that go by several values of {unit.person}, or groups of them"
        if not unit.called:
            who = f"People who go by several values of {unit.person}, or groups such as a family"
        found.append(f"{who}: the loss grows with each member.")
    if plan.protects:
        found.append(f"Everything else about {one(unit)}: protected are {plan.protects}, and no more.")
    if unit.capped and (unit.person is not None or unit.ends is not None):
        found.append("Anyone who has more rows than the declared cap: that the data obey it was declared, not enforced.")
    if unit.window is not None:
        found.append(f"A {unit.noun} over time: each {unit.window} is protected by itself, and losses of several add up.")
    if plan.job.series is not None:
        per = f"in every {plan.job.series.every}" if plan.job.series.per == "period" else "in all of them together"
        found.append(
            f"This release is one of a series about the same {unit.nouns}. What one of them may lose {per} is limited by the account "
            f"{plan.job.series.name!r}" + ("; the losses of several periods add up." if plan.job.series.per == "period" else ".")
        )
    if unit.adjacency is Adjacency.REPLACE_ONE:
        found.append(f"How many {unit.nouns} there are: it is taken to be known.")
    found.append("Other releases from the same data add to the loss. The book knows those that were paid from this account, and no others.")
    found.append("The rows themselves: who may read the database, and how long a question takes, are matters of access, not of noise.")
    return found


def budget(plan: JobPlan) -> str:
    limits, charged = (
        ", ".join(f"{'epsilon' if name == 'pure' else name} {_fraction(amount)}" for name, amount in amounts.items())
        for amounts in (plan.job.budget.typed().limits, plan.charge)
    )
    return (
        f"The job may spend {limits}; {charged} was booked before any data was touched. It stays booked whatever happens afterwards: "
        "nothing is refunded and no draw is repeated."
    )


#: What a reviewer asks, in this order; the hazards of NIST SP 800-226. Where the answer is a kind's own, it is None here.
ASKED = (
    "Whom does it protect?",
    "Is ε meaningful?",
    "Is δ small enough?",
    "Are contributions bounded?",
    "Do bounds or groups come from the data?",
    "Is everything accounted for?",
    "Can the rounding of numbers leak?",
    "Who bears the noise?",
    "Were there warnings?",
)


def review(plan: JobPlan, unit: Unit, epsilon: float, private: bool) -> list[list[str]]:
    """What this job can answer for, from what was planned; each kind of output answers for itself where the job cannot."""
    people = plan.job.expected.people
    delta = float(plan.delta)
    if not delta:
        small = "δ is 0."
    elif people is None:
        small = f"δ = {delta:g}. It should be well below one over the number of {unit.nouns}, which the job does not declare."
    else:
        small = f"δ = {delta:g}; times the {people:,} {unit.nouns} declared that makes {delta * people:.2g}, which should be well below 1."
    large = ": too large to promise much." if epsilon > 10 else "."
    nouns = f"all {noun_of(plan)}s together"
    answers = {
        "Whom does it protect?": f"{_upper(short(unit, plan.protects))}; {relation(unit, plan.protects)}.",
        "Is ε meaningful?": f"ε ≤ {rounded_up(epsilon, 4)} for {nouns}{large}",
        "Is δ small enough?": small,
        "Are contributions bounded?": f"{cap(unit).capitalize()}.",
        "Is everything accounted for?": f"All {noun_of(plan)}s of the job are one event, paid before the data were touched. Looking at the "
        "data to choose bounds or questions would not be accounted for; rehearse on made-up rows instead.",
        "Were there warnings?": " ".join(f"{str(notice).rstrip('.')}." for notice in plan.warnings) or "The plan raised none.",
    }
    other = kinds.deployment(plan.outputs)
    if other is not None:
        answers |= {
            "Whom does it protect?": f"{other.unit['short'][0].upper()}{other.unit['short'][1:]}; {other.unit['relation']}.",
            "Are contributions bounded?": f"{other.unit['cap'][0].upper()}{other.unit['cap'][1:]}.",
            "Is everything accounted for?": other.booked,
        }
    for name in dict.fromkeys(output.spec.kind for output in plan.outputs):
        own = [output for output in plan.outputs if output.spec.kind == name]
        for question, answer in kinds.find(name).review(own, private).items():
            answers[question] = f"{answers[question]} {answer}" if question in answers else answer
    return [[question, answers[question]] for question in ASKED if question in answers]


def noun_of(plan: JobPlan) -> str:
    """What the outputs are called."""
    return "table" if all(output.spec.kind == "table" for output in plan.outputs) else "output"


# --- small words -----------------------------------------------------------------------------------------------------------------------


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def relation(unit: Unit, part: str = "") -> str:
    """Which two data sets the guarantee compares."""
    return RELATIONS[unit.adjacency].format(unit=one(unit, part))


def one(unit: Unit, part: str = "") -> str:
    """One unit, or the part of its data that is protected."""
    return (f"{part} of " if part else "") + f"one {unit.noun}" + (f" within one {unit.window}" if unit.window else "")


def short(unit: Unit, part: str = "") -> str:
    """Whom the guarantee protects, or what of them."""
    if part:
        return f"{part} of {short(unit)}"
    if unit.noun == "row":
        return "each single row"
    return f"each {unit.noun} ({told_by(unit)})" + (f" within one {unit.window}" if unit.window else "")


def told_by(unit: Unit) -> str:
    """Which columns tell one unit from another.

    >>> told_by(Unit.edge("caller", "called", max_rows=2)), told_by(Unit.node(ends=("a", "b"), max_rows=2, capped=True))
    ('caller – called', 'a or b')
    """
    if unit.ends is not None:
        return (" or " if unit.person is None else " → " if unit.directed else " – ").join(unit.ends)
    return unit.person or ""


def cap(unit: Unit) -> str:
    if unit.noun == "row":
        return "one row is one unit"
    caps = [_at_most(unit.max_rows, "row")] if unit.max_rows is not None else []
    if unit.max_groups is not None:
        caps.append(_at_most(unit.max_groups, "group"))
    if unit.rows_per_group is not None:
        caps.append(f"{_at_most(unit.rows_per_group, 'row')} a group")
    alone = len(caps) == 1 and unit.max_rows == 1
    kept = "as declared" if unit.capped else f"chosen at random, {'counts' if alone else 'count'}"
    return f"{' and '.join(caps)} of one {unit.noun}, {kept}"


def _at_most(number: object, noun: str) -> str:
    return f"at most {number} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def upper_percent(share: float) -> str:
    return f"{rounded_up(min(100.0, 100 * share), 3)} %"


def _fraction(amount: Any) -> str:
    return rounded_up(float(amount), 7)
