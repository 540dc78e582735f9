"""How answers, plans, runs and releases are printed: in words for people, as one JSON object for programs.

A printed bound stays a bound: prices and upper ends are rounded up, lower ends down.

>>> percent(0.04020470)
'4.03 %'
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.accounting import Adjacency, Bound, Cost, Estimate, Event, attack_at_most, rounded_up, to_json
from tacit.cli.options import proved_digits

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tacit.release import JobPlan, JobRun, OutputPlan, Rehearsal, Standing
    from tacit.tables import Output

RELATIONS = {
    Adjacency.ADD_REMOVE: "add-remove: one record is present or absent",
    Adjacency.REPLACE_ONE: "replace-one: one record is exchanged for any other; the number of records is public",
    Adjacency.ZERO_OUT: "zero-out: one record is blanked; the number of records is public",
}


def console(*, stderr: bool = False) -> Console:
    """Where answers go; colours only on a terminal that has them, lines never broken."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False, stderr=stderr)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on the error stream while something takes long, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def bar(what: str, total: int | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on the error stream, if that is a terminal; yields a function of (name, number done, total)."""
    if not sys.stderr.isatty():
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    parts = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*parts, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda name, done, total: shown.update(task, completed=done, total=total, description=name)


def rounded_down(value: float, digits: int) -> str:
    """A number to so many significant digits, never above it.

    >>> rounded_down(1.99999999, 4)
    '1.999'
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    short = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(Decimal(repr(float(value)))).normalize()
    return f"{short:f}" if -5 < short.adjusted() < 15 else f"{short:e}"


def percent(value: float) -> str:
    """A share as a percentage, three digits, rounded up and at most 100 %."""
    return f"{rounded_up(min(100.0, 100 * value), 3)} %"


def print_json(value: Mapping[str, Any]) -> None:
    """One object on one line; an infinity is written as "inf"."""
    print(json.dumps(_plain(value), allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return value


def figure(found: Bound | Estimate) -> dict[str, Any]:
    """The JSON form of one figure; an estimate has no ends."""
    if isinstance(found, Estimate):
        return {"lower": None, "upper": None, "estimate": found.value, "method": found.method}
    return {"lower": found.lower, "upper": found.upper, "method": found.method}


def context(cost: Cost) -> dict[str, Any]:
    """What every JSON answer says about the question."""
    return {"adjacency": cost.adjacency.value, "event": event_object(cost.event)}


def event_object(event: Event) -> Any:
    """The event as an object inside a JSON answer."""
    return json.loads(to_json(event))


def print_figure(out: Console, headline: str, found: Bound | Estimate) -> None:
    """A figure with its bracket and method."""
    if isinstance(found, Estimate):
        out.print(f"{headline.format(f'about {found.value:.6g}')}", style="bold")
        out.print("  an estimate that may lie below the truth: no guarantee, do not publish it", style="red")
    else:
        out.print(headline.format(rounded_up(found.upper, 7)), style="bold")
        digits = proved_digits(found.lower, found.upper)
        out.print(f"  between    {rounded_down(found.lower, digits)} and {rounded_up(found.upper, digits)}")
    out.print(f"  method     {found.method}")


def print_context(out: Console, cost: Cost) -> None:
    """What the figure is about."""
    out.print(f"  event      {cost.event!r}")
    out.print(f"  relation   {RELATIONS[cost.adjacency]}")


def plain_words(cost: Cost, known: Sequence[tuple[float, float]] = ()) -> list[str]:
    """What the event lets an attacker find out about one person's membership, in sentences; `known` are (epsilon, delta) it satisfies."""
    began = time.perf_counter()
    advantage = cost.advantage().upper
    # every (epsilon, delta) bounds the attack, so where one more takes long those at hand must do
    rate = min(1.0, *(math.exp(min(e, 700.0)) * 0.01 + d for e, d in [(0.0, advantage), *known]))
    if time.perf_counter() - began < 2:
        rate = min(rate, attack_at_most(cost.delta, 0.01))
    if rate >= 1:
        return ["An attacker can be certain who is in the data: this is no protection at all."]
    return [
        f"Letting 1 % of outsiders pass for members, the best membership attack finds at most {percent(rate)} of the members.",
        "An attacker who starts from 50:50 is right about a person's membership "
        f"at most {percent(cost.accuracy(0.5).upper)} of the time.",
        f"No attack finds a share of the members that exceeds its share of false alarms by more than {percent(advantage)[:-2]} points.",
    ]


def titled(title: str, heads: Sequence[str], *, right: Sequence[str] = (), fold: bool = False) -> Table:
    """An empty table for a terminal. Columns in `right` are aligned right; `fold` breaks long cells."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for head in heads:
        justify: Literal["left", "right"] = "right" if head in right else "left"
        table.add_column(head, justify=justify, overflow="fold" if fold else "ellipsis")
    return table


def print_table(out: Console, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Right-aligned columns."""
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[j]) for line in table) for j in range(len(table[0]))]
    for i, line in enumerate(table):
        out.print("  " + "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)), style="bold" if i == 0 else None)


# --- release jobs -----------------------------------------------------------------------------------------


def charge(found: JobPlan) -> str:
    """What the ledger will book, in words, rounded up."""
    return ", ".join(f"{'epsilon' if name == 'pure' else name} {rounded_up(float(amount), 7)}" for name, amount in found.charge.items())


def plan_record(found: JobPlan) -> dict[str, Any]:
    """The plan as one JSON object."""
    from tacit.release import described_preparation

    prepared = {} if found.job.preparation is None else {"preparation": described_preparation(found)}
    return {
        "title": found.job.title,
        **prepared,
        "cost": {"delta": float(found.delta), **figure(found.cost)},
        "charge": {name: float(amount) for name, amount in found.charge.items()},
        "noise": found.noise,
        "outputs": [_output_record(o) for o in found.outputs],
        "warnings": [str(notice) for notice in found.warnings],
        "event": event_object(found.event),
        "job": found.digest,
    }


def standing_record(found: Standing) -> dict[str, Any]:
    """Where a job stands in the ledger, as one JSON object."""
    return {
        "account": found.name,
        "known": found.known,
        "period": found.period,
        "left": {name: float(amount) for name, amount in found.left.items()},
        "refused": found.refused,
        "alike": list(found.alike),
    }


def _output_record(found: OutputPlan) -> dict[str, Any]:
    from tacit.release import TablePlan

    record: dict[str, Any] = {"name": found.spec.name, "part": float(found.portion.part)}
    if isinstance(found, TablePlan):
        record |= {
            "groups": None if found.private_keys else found.groups,
            "rows_per_group": found.rows,
            "assumed": found.assumed,
            "people_needed": found.people_needed,
        }
    else:
        record |= {"kind": found.spec.kind, "size": found.size}
    return {**record, "noise": found.noise, "errors": dict(found.errors)}


def print_plan(found: JobPlan, better: list[str]) -> None:
    """The plan for people: a line for each figure."""
    from tacit.release import TablePlan, kinds

    out = console()
    out.print(found.job.title, style="bold")
    at = f" at delta {float(found.delta):g}" if found.delta else ""
    out.print(f"  costs epsilon {rounded_up(found.cost.upper, 6)}{at} for all outputs together, with {found.noise} noise")
    other = kinds.deployment(found.outputs)
    if other is None:
        out.print(f"  the ledger will book {charge(found)}\n")
    else:
        out.print(f"  {other.model}: {other.unit['short']}, {other.unit['cap']}\n  {other.booked}\n")
    confidence = f"{found.job.publication.confidence:.4g}"
    rows = []
    # Parts are stretched until all outputs together just fit, so they may add up to more than one.
    whole = sum(o.portion.part for o in found.outputs)
    for o in found.outputs:
        shown = {figure: short(error) for figure, error in o.errors.items()}
        first = [o.spec.name, f"{float(o.portion.part / whole):.1%}", "", ""]
        if isinstance(o, TablePlan):
            size = f"{o.rows:,}{' (assumed)' if o.assumed else ''}"
            first = [*first[:2], "private" if o.private_keys else f"{o.groups:,}", size]
            shown |= {one.name: "of the above" for one in o.plan.question.outputs if _computed(o, one)}
        shown = shown or {o.spec.kind: "not known before"}
        rows += [[*(first if i == 0 else [""] * 4), figure, error] for i, (figure, error) in enumerate(shown.items())]
    print_table(out, ["output", "share", "groups", "rows a group", "figure", f"within ({confidence})"], rows)
    noun = found.job.unit.typed().noun
    for o in found.outputs:
        if isinstance(o, TablePlan) and o.people_needed is not None:
            who = "people" if noun == "person" else f"{noun}s"
            out.print(f"\n  {o.name}: a key appears where about {o.people_needed:,} {who} or more have it")
    if found.job.preparation is not None:
        from tacit.release import described_preparation

        out.print("\nSix questions before it", style="bold")
        for one in described_preparation(found):
            out.print(f"  {one['question']} {one['answer']}", highlight=False)
            for fact in one["follows"]:
                out.print(f"    {fact}", style="yellow" if "NOT met" in fact else None, highlight=False)
    for notice in found.warnings:
        out.print(f"\n  warning: {notice}", style="yellow")
    if better:
        out.print("\nWhat would make it better", style="bold")
        for line in better:
            out.print(f"  {line}")
    out.print("")


#: What the numbers of a rehearsal are called in print, and how they are told.
_HEADS = {
    "groups": "groups",
    "error": "error",
    "cut": "of it cut off",
    "coverage": "in interval",
    "sample error": "40 % sample",
    "suppression error": "suppression",
    "suppressed": "hidden",
}
_SHARES = ("coverage", "suppressed")


def rehearsal_record(
    found: Rehearsal, by: str | None, groups: Mapping[str, Mapping[Any, Mapping[str, Mapping[str, float]]]]
) -> dict[str, Any]:
    """A rehearsal as one JSON object."""
    record: dict[str, Any] = {
        "mark": found.mark,
        "runs": found.runs,
        "unit": found.unit,
        "errors": {f"{name}.{figure}": _finite(numbers) for (name, figure), numbers in found.overall().items()},
        "left_out": dict(found.left_out),
        "broken": list(found.broken),
    }
    if by is not None:
        record["by"] = {
            "key": by,
            "errors": [
                {"output": name, "value": value if isinstance(value, (int, float, str)) else _label(value), "figure": figure, **numbers}
                for name, values in groups.items()
                for value, figures in values.items()
                for figure, numbers in figures.items()
            ],
        }
    return record


def print_rehearsal(
    found: Rehearsal, data: str, by: str | None, groups: Mapping[str, Mapping[Any, Mapping[str, Mapping[str, float]]]]
) -> None:
    """Errors of the release beside those of both baselines, and what each column means."""
    from tacit.release import SUPPRESSED

    out = console()
    out.print(f"{found.mark}; {found.runs} runs on {data} data", style="bold red")
    lines = [[f"{name}.{figure}", *_told(numbers)] for (name, figure), numbers in found.overall().items()]
    if lines:
        print_table(out, ["figure", *_HEADS.values()], lines)
        out.print(
            f"\nTypical errors of a figure, over all its groups. cut off: by caps and bounds, and rows without an owner. "
            f"in interval: how often the interval held the truth; it does not promise to where something is cut off. 40 % sample: "
            f"publishing two {found.unit} in five. suppression: hiding groups of fewer than {SUPPRESSED} {found.unit}, all else exact. "
            "Neither is a protection."
        )
    for name, values in groups.items():
        out.print(f"\n{name} by {by}", style="bold")
        rows = [[_label(value), figure, *_told(numbers)] for value, figures in values.items() for figure, numbers in figures.items()]
        print_table(out, [str(by), "figure", *_HEADS.values()], rows)
    for line in found.broken:
        out.print(f"\n  warning: {line}", style="bold red")
    for name, why in found.left_out.items():
        out.print(f"\n  not compared: {name}: {why}", style="yellow")


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as JSON has them: none where a release tells no interval."""
    return {name: None if math.isnan(number) else number for name, number in numbers.items()}


def _told(numbers: Mapping[str, float]) -> list[str]:
    """Shares in percent; a cut of a millionth of the error is rounding."""
    kept = {**numbers, "cut": numbers["cut"] if numbers["cut"] > 1e-6 * numbers["error"] else 0.0}
    shares = {name: "–" if math.isnan(kept[name]) else f"{kept[name]:.0%}" for name in _SHARES}
    return [shares.get(name) or short(kept[name]) for name in _HEADS]


def _label(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _computed(found: OutputPlan, one: Output) -> bool:
    """Whether a column is computed of figures: neither a key nor a figure under another name."""
    from sqlglot import exp  # only here: the accountant's commands do without it

    names = {node.name for node in one.value.find_all(exp.Column)}
    return not isinstance(one.value, exp.Column) and bool(names & set(found.errors))


def run_record(done: JobRun) -> dict[str, Any]:
    """A finished run as one JSON object."""
    return {
        "folder": str(done.folder),
        "private": done.private,
        "entry": done.entry,
        "head": done.head,
        "total": done.record["total"],
        "outputs": sorted(done.answers),
        "left_out": list(done.left_out),
        "resumed": done.resumed,
        "files": done.record["files"],
        "warnings": list(done.notes),
        "accepted": list(done.accepted),
        "biased": {output["name"]: output["biased"] for output in done.record["outputs"] if output.get("biased")},
    }


def print_run(done: JobRun) -> None:
    """The tables, and what to open."""
    out = console()
    for name, answer in done.answers.items():
        out.print(done.plan[name].spec.title or name, style="bold")
        out.print("\n".join(f"  {line}" for line in str(answer).splitlines()) + "\n", highlight=False, markup=False)
    if done.left_out:
        out.print(f"left out: {', '.join(done.left_out)}", style="yellow")
    out.print(f"published to {done.folder}; entry {done.entry} of the ledger", style="bold")
    out.print(f"open {done.folder / 'report.html'}")


def print_report(record: dict[str, Any], wrong: dict[str, str], page: Path) -> None:
    out = console()
    out.print(record["title"], style="bold")
    if not record["private"]:
        out.print("  NOT PRIVATE: drawn in test mode", style="bold red")
    at = f" at delta {record['total']['delta']}" if record["total"]["delta"] else ""
    out.print(f"  promised   epsilon at most {record['total']['upper']}{at}")
    out.print(f"  protects   {record['unit']['short']}, {record['unit']['cap']}")
    who = record["unit"].get("one", "one person")
    promise = record["promise"]  # older records call it a posterior
    right = promise.get("accuracy", promise.get("posterior"))
    out.print(f"  a 50:50 guess about {who} becomes right at most {right} of the time")
    for table in record["outputs"]:
        rows = f", {table['rows']} row{'' if table['rows'] == 1 else 's'}" if "rows" in table else ""
        left_out = "" if table.get("answered", True) else ", left out"
        out.print(f"  {table.get('kind', 'table'):<10} {table['name']}{rows}{left_out}")
    for name, value in record["record"].items():
        out.print(f"  {name}: {value}")
    if (found := record.get("audit")) is not None:
        told = f"epsilon at least {found['lower']:.3g}, by an attack on {found['trials']:,} draws of made-up rows"
        out.print(f"  audit      {told}", style="bold red" if found["lower"] > found["upper"] else "")
    for name, what in wrong.items():
        out.print(f"  {name} is {what}: this is not the release as it was published", style="red")
    if not wrong:
        out.print(f"  all {len(record['files'])} files are as they were published", style="green")
    out.print(f"open {page}")


@contextmanager
def progress(outputs: int) -> Iterator[Any]:
    """A bar on the error stream while a job runs, if that is a terminal; yields what to tell each step."""
    with bar("planning", outputs) as update:
        yield lambda step: update(f"{step.name} {step.output or ''}".strip(), step.done, outputs)


def short(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
