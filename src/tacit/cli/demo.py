"""`tacit demo`: a whole release on made-up hospital visits, from the data to the report, in well under a minute.

The visits come from a seeded public generator, so nobody is in them; the noise is real, so the figures differ with every run. A folder that
holds a release already is left as it is: its budget is spent, and the next run gets visits of its own in a folder beside it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

FOLDER = "tacit-demo"
ROWS = 100_000
JOB = "hospital.yaml"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    epilog = "\n\n".join(["Examples:", "[bold]tacit demo[/bold]", "[bold]tacit demo --accountant --out pictures[/bold]"])
    app.command("demo", epilog=epilog)(demo)


def demo(
    out: Annotated[str, typer.Option("--out", help="The folder to write into.", metavar="FOLDER")] = FOLDER,
    rows: Annotated[int, typer.Option("--rows", min=1000, max=100_000_000, help="How many visits to make up.")] = ROWS,
    accountant: Annotated[bool, typer.Option("--accountant", help="Show what the accountant does instead.")] = False,
) -> None:
    """A whole release on made-up hospital visits: data, plan, run, report."""
    if accountant:
        from tacit.cli import showcase

        showcase.run(out)
    else:
        run(out, rows=rows)


def run(folder: str, *, rows: int = ROWS) -> None:
    """Make the data and the job, plan, run, and say what to open."""
    from tacit.cli import job_output, output
    from tacit.cli.jobs import answered
    from tacit.cli.showcase import made

    first = made(folder)
    place, number = fresh(first)
    out = output.console()
    if number > 1:
        out.print(f"{first} holds a release already. Its budget is spent: the ledger would refuse the same data once more, and a release")
        out.print(f"is never overwritten. So this run makes up other visits, with a book of their own, in {place}.\n")
    with answered(False):
        from tacit.ledger import Ledger
        from tacit.release import load, plan
        from tacit.release import run as finished
        from tacit.release.dummy import write_visits

        began = time.perf_counter()
        out.print(f"1  The data: {rows:,} made-up hospital visits; some patients come often, costs are skewed, some missing", style="bold")
        data = write_visits(place / "visits.parquet", rows, edition=6 + number)
        job_file = place / JOB
        job_file.write_text(text(rows), encoding="utf-8")
        out.print(f"   {data} and the job {job_file}: what to publish, whom to protect, what it may cost\n")

        out.print("2  The plan: price and error of every figure, before any data is touched (tacit plan)", style="bold")
        with output.working("planning"):
            job = load(job_file)
            planned = plan(job)
        job_output.print_plan(planned, [])

        out.print("3  The run: paid from the ledger first, then drawn once, checked, and published as a whole (tacit run)", style="bold")
        with job_output.progress(len(job.outputs)) as step, Ledger.open(f"sqlite:///{place / 'tacit.db'}") as ledger:
            done = finished(job, base=place, ledger=ledger, progress=step)
        job_output.print_run(done)
        took = time.perf_counter() - began

    out.print(f"\nAll of it took {took:.0f} s. Open:", style="bold")
    for path, what in (
        (done.folder / "report.html", "the report, for an officer and a statistician"),
        (done.folder, "the tables (CSV, Parquet), release.json and the registry's record"),
        (job_file, "the job; change it, then: tacit plan"),
        (place / "tacit.db", "the ledger: tacit ledger show"),
    ):
        out.print(f"   {path}  {what}")


def fresh(folder: Path) -> tuple[Path, int]:
    """A folder without a ledger: this one, or a new one inside it; and which run this is."""
    place, number = folder, 1
    while (place / "tacit.db").exists():
        number += 1
        place = folder / f"run-{number}"
    place.mkdir(exist_ok=True)
    return place, number


def text(rows: int) -> str:
    """The job, with its declared sizes fitting the data."""
    from tacit import release

    found = (Path(release.__file__).resolve().parent / "templates" / JOB).read_text(encoding="utf-8")
    return found.replace("people: 25000, rows: 100000", f"people: {max(1, rows // 4)}, rows: {rows}")
