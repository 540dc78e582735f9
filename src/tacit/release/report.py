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
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import __version__
from tacit.accounting import Bound, Event, account, rounded_up, to_json
from tacit.exact import at_most
from tacit.release import pictures, wording
from tacit.release.errors import JobError
from tacit.release.planning import JobPlan, OutputPlan
from tacit.tables.answer import Answer, Figures

if TYPE_CHECKING:
    from jinja2 import Template

    from tacit.release.running import JobRun

Record = dict[str, Any]
NAME = "report.html"
#: Rows of a table that the page shows; all of them are in the files.
SHOWN = 200
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


def write(run: JobRun, folder: Path) -> Path:
    """Write the report of a run into its folder; the path of the page."""
    return save(describe(run.plan, run.answers, _facts(run, folder)), folder)


def save(record: Record, folder: Path) -> Path:
    """Write the page of a record into a folder."""
    place = folder / NAME
    place.write_bytes(render(record).encode("utf-8", "replace"))
    return place


# --- what there is to say ---------------------------------------------------------------------------------------------------------------


def describe(plan: JobPlan, answers: Mapping[str, Answer], facts: Facts) -> Record:
    """Everything the page says, as plain JSON: figures as they were published, words about them, nothing that was not released."""
    job, unit = plan.job, plan.job.unit.typed()
    event = facts.event or plan.event
    cost = account(event, unit.adjacency)
    delta = at_most(plan.delta)
    total = plan.cost if event == plan.event else cost.epsilon(delta)
    return {
        "format": FORMAT,
        "title": job.title,
        "purpose": job.purpose,
        "curator": job.registry.curator,
        "made": facts.made,
        "private": facts.private,
        "confidence": wording.percent(job.publication.confidence),
        "promise": wording.promise(cost, total, delta, unit),
        "unit": {"one": wording.one(unit), "short": wording.short(unit), "cap": wording.cap(unit), "relation": wording.relation(unit)},
        "limits": wording.limits(plan, unit),
        "outputs": [_output(output, answers.get(output.name)) for output in plan.outputs],
        "budget": {"words": wording.budget(plan), "parts": {output.name: _part(plan, output) for output in plan.outputs}},
        "total": _bracket(total, delta),
        "review": wording.review(plan, unit, total.upper, facts.private),
        "event": json.dumps(json.loads(to_json(event)), indent=1),
        "record": {"job (SHA-256)": plan.digest, **facts.record},
        "files": dict(facts.files),
        "versions": {"tacit": __version__, "python": platform.python_version(), **facts.versions},
    }


def _output(output: OutputPlan, answer: Answer | None) -> Record:
    """One table: the figures as published, how they were made, what to know about them."""
    found: Record = {
        "name": output.name,
        "title": output.spec.title,
        "sql": output.spec.sql.strip(),
        "answered": answer is not None,
        "expected": {name: _plain(error) for name, error in output.errors.items()},
        "expected_rows": f"{output.rows:,}" + (" (assumed)" if output.assumed else ""),
        "noise": [{"measure": s.measure.name, "law": s.law.capitalize(), "deviation": _plain(s.deviation)} for s in output.plan.shares],
        "event": repr(output.plan.event),
        "cost": {"lower": "", "upper": "", "delta": "", "method": "not run"},
        "notes": [*(() if answer is None else answer.notes), *_words(output)],
        **{"groups": {}, "figures": {}, "released": {}, "rows": 0},
    }
    if answer is None:
        return found
    released = answer.raw_figures or {}
    return {
        **found,
        "cost": _bracket(answer.cost, answer.delta),
        "groups": {name: ["(missing)" if value is None else str(value) for value in values] for name, values in answer.keys.items()},
        "figures": {name: _figures(figure) for name, figure in answer.figures.items()},
        "released": {name: _figures(f) for name, f in released.items() if not _same(f, answer.figures[name])},
        "rows": answer.rows,
    }


def _words(output: OutputPlan) -> list[str]:
    return [*wording.clamps(output), *wording.finishing(output), *wording.selection(output)]


def _part(plan: JobPlan, output: OutputPlan) -> float:
    whole = sum(float(other.part) for other in plan.outputs)
    return float(output.part) / whole if whole > 0 else 0.0


def _bracket(found: Bound, delta: float) -> Record:
    return {
        "lower": _rounded_down(found.lower),
        "upper": rounded_up(found.upper, 7),
        "delta": f"{delta:g}" if delta else "",
        "method": found.method,
    }


def _rounded_down(value: float) -> str:
    """Seven digits, never above the value: a lower end is a claim too."""
    if not math.isfinite(value):
        return "∞"
    return f"{Context(prec=7, rounding=ROUND_FLOOR).create_decimal(Decimal(value)).normalize():f}"


def _figures(found: Figures) -> Record:
    return {name: [_plain(float(x)) for x in getattr(found, name)] for name in ("value", "low", "high")}


def _plain(value: float) -> float | None:
    """JSON has no NaN and no infinity; neither says more than a dash would."""
    return float(value) if math.isfinite(value) else None


def _same(first: Figures, second: Figures) -> bool:
    return bool((first.value == second.value).all())


# --- the page ---------------------------------------------------------------------------------------------------------------------------


def render(record: Record) -> str:
    """The page of a record. Markup comes from the template and from the pictures, which escape by themselves; all else is escaped."""
    drawn: Record = {
        "attack": pictures.attack([(x, y) for x, y in record["promise"]["attack"]], title="the best attack"),
        "shares": pictures.shares(record["budget"]["parts"], title="the budget's parts"),
        "tables": {output["name"]: _drawn(output) for output in record["outputs"]},
    }
    outputs = [{**output, "shown": min(output["rows"], SHOWN)} for output in record["outputs"]]
    # Inside a script element only "<" could end it or begin a comment.
    embedded = json.dumps(record, allow_nan=False).replace("<", "\\u003c")
    return _template().render(r={**record, "outputs": outputs}, picture=drawn, embedded=embedded)


def _drawn(output: Record) -> dict[str, Any]:
    def numbers(values: Sequence[float | None]) -> list[float]:
        return [math.nan if value is None else value for value in values]

    return {
        name: pictures.table(output["groups"], name, *(numbers(f[end]) for end in ("value", "low", "high")))
        for name, f in output["figures"].items()
    }


def _number(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A figure to read, with the digits that its interval tells apart."""
    wide = math.inf if low is None or high is None else high - low
    return pictures.number(math.nan if value is None else value, wide)


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).resolve().parent / "templates"
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, auto_reload=False)
    environment.filters["number"] = _number
    return environment.get_template(NAME)


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
    return Facts(str(run.record["time"]), run.private, record, files, code["versions"], run.event)
