"""How plans, runs and releases are printed: tables for people, objects for programs. Prices are rounded up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting.compare import rounded_up
from tacit.cli import output

if TYPE_CHECKING:
    from tacit.release import JobPlan, JobRun


def charge(found: JobPlan) -> str:
    """What the ledger will book, in words, rounded up."""
    return ", ".join(f"{name} {rounded_up(float(amount), 7)}" for name, amount in found.charge.items())


def plan_record(found: JobPlan) -> dict[str, Any]:
    """The plan as one JSON object."""
    return {
        "title": found.job.title,
        "cost": {"delta": float(found.delta), **output.figure(found.cost)},
        "charge": {name: float(amount) for name, amount in found.charge.items()},
        "noise": found.noise,
        "outputs": [
            {
                "name": o.name,
                "part": float(o.part),
                "groups": None if o.private_keys else o.groups,
                "rows_per_group": o.rows,
                "assumed": o.assumed,
                "noise": o.plan.split.law,
                "errors": dict(o.errors),
            }
            for o in found.outputs
        ],
        "warnings": [str(notice) for notice in found.warnings],
        "event": output.event_object(found.event),
        "job": found.digest,
    }


def print_plan(found: JobPlan, better: list[str]) -> None:
    """The plan for people: a line for each figure."""
    out = output.console()
    out.print(found.job.title, style="bold")
    at = f" at delta {float(found.delta):g}" if found.delta else ""
    out.print(f"  costs epsilon {rounded_up(found.cost.upper, 6)}{at} for all outputs together, with {found.noise} noise")
    out.print(f"  the ledger will book {charge(found)}\n")
    confidence = f"{found.job.publication.confidence:.4g}"
    rows = []
    for o in found.outputs:
        for i, (figure, error) in enumerate(o.errors.items()):
            size = f"{o.rows:,}{' (assumed)' if o.assumed else ''}"
            first = [o.name, f"{float(o.part):.1%}", "private" if o.private_keys else f"{o.groups:,}", size]
            rows.append([*(first if i == 0 else [""] * 4), figure, short(error)])
    output.print_table(out, ["output", "share", "groups", "rows a group", "figure", f"within ({confidence})"], rows)
    for notice in found.warnings:
        out.print(f"\n  warning: {notice}", style="yellow")
    if better:
        out.print("\nWhat would make it better", style="bold")
        for line in better:
            out.print(f"  {line}")
    out.print("")


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
    }


def print_run(done: JobRun) -> None:
    """The tables, and what to open."""
    out = output.console()
    for name, answer in done.answers.items():
        out.print(done.plan[name].spec.title or name, style="bold")
        out.print("\n".join(f"  {line}" for line in repr(answer).splitlines()) + "\n")
    if done.left_out:
        out.print(f"left out: {', '.join(done.left_out)}", style="yellow")
    out.print(f"published to {done.folder}; entry {done.entry} of the ledger", style="bold")
    out.print(f"open {done.folder / 'report.html'}")


def print_report(record: dict[str, Any], wrong: dict[str, str], page: Path) -> None:
    out = output.console()
    out.print(record["title"], style="bold")
    if not record["private"]:
        out.print("  NOT PRIVATE: drawn in test mode", style="bold red")
    at = f" at delta {record['total']['delta']}" if record["total"]["delta"] else ""
    out.print(f"  promised   epsilon at most {record['total']['upper']}{at}")
    out.print(f"  protects   {record['unit']['short']}, {record['unit']['cap']}")
    out.print(f"  a 50:50 guess about a person becomes right at most {record['promise']['posterior']} of the time")
    for table in record["outputs"]:
        out.print(f"  table      {table['name']}, {table['rows']} rows" + ("" if table["answered"] else ", left out"))
    for name, value in record["record"].items():
        out.print(f"  {name}: {value}")
    for name, what in wrong.items():
        out.print(f"  {name} is {what}: this is not the release as it was published", style="red")
    if not wrong:
        out.print(f"  all {len(record['files'])} files are as they were published", style="green")
    out.print(f"open {page}")


@contextmanager
def progress(outputs: int) -> Iterator[Any]:
    """A bar on the error stream while a job runs, if that is a terminal; yields what to tell each step."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    parts = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("planning", total=outputs)

        def told(step: Any) -> None:
            bar.update(task, completed=step.done, description=f"{step.name} {step.output or ''}".strip())

        yield told


def short(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
