"""The commands for release jobs: init, validate, plan, run, report, explain, rehearse.

    tacit init visits.parquet --out job.yaml
    tacit plan job.yaml
    tacit run job.yaml --yes

Status 0: done. Status 1: it went wrong after the data was touched, or a release is not as it was published. Status 2: the request or the
job cannot be understood; one line says where and how to put it right. Planning, explaining and validating touch no data.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tacit.cli.ledger import address
from tacit.cli.numbers import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.release import Job

JobFile = Annotated[str, typer.Argument(help="The job, a YAML file.", metavar="JOB")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.", show_default=False)]
Book = Annotated[
    str | None,
    typer.Option("--ledger", help="The book that pays: a file, or a database URL.", metavar="BOOK", envvar="TACIT_LEDGER"),
]
PANEL = "Release jobs"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for name, command, examples in (
        ("init", init, ("init visits.parquet --out job.yaml", "init postgresql+psycopg://host/clinic --table visits")),
        ("validate", validate, ("validate job.yaml", "validate job.yaml --strict --json")),
        ("plan", plan, ("plan job.yaml", "plan job.yaml --quick --json")),
        ("run", run, ("run job.yaml --ledger tacit.db", "run job.yaml --yes --json")),
        ("report", report, ("report release", "report release --out page.html")),
        ("explain", explain, ("explain job.yaml by_region",)),
        ("rehearse", rehearse, ("rehearse job.yaml --runs 50", "rehearse job.yaml --public visits=last-year.parquet")),
    ):
        epilog = "\n\n".join(["Examples:", *(f"[bold]tacit {line}[/bold]" for line in examples)])
        app.command(name, epilog=epilog, rich_help_panel=PANEL)(command)


@contextmanager
def answered(as_json: bool) -> Iterator[None]:
    """What is wrong with a job or its budget, in one line; what fails after the data was touched ends with status 1."""
    from tacit.ledger import LedgerError
    from tacit.release import CheckFailed, JobError, OutputLost
    from tacit.tables import EngineError, TableError

    try:
        yield
    except (CheckFailed, OutputLost, EngineError) as error:
        from tacit.cli.app import complain

        complain(" ".join(str(error).split()), as_json=as_json)
        raise typer.Exit(1) from None
    except (JobError, LedgerError, TableError) as error:
        raise OptionError(str(error)) from None


def loaded(path: str) -> Job:
    """A job without blanks, checked."""
    from tacit.cli.blank_job import refuse_blanks
    from tacit.release import load

    refuse_blanks(path)
    return load(path)


# --- before anything is paid ----------------------------------------------------------------------------------------------------------


def init(
    source: Annotated[str, typer.Argument(help="A .parquet, .arrow or .csv file, or a database URL.", metavar="SCHEMA_SOURCE")],
    table: Annotated[str | None, typer.Option("--table", help="The table, for a database.", metavar="NAME")] = None,
    out: Annotated[str | None, typer.Option("--out", help="Write the job into this new file.", metavar="FILE")] = None,
) -> None:
    """Write a commented job from a table's schema; it reads names and types, and no row."""
    from tacit.cli import blank_job

    text = blank_job.text(source, blank_job.columns(source, table), table=table)
    if out is None:
        print(text, end="")
        return
    try:
        with Path(out).open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise OptionError(f"--out: {out} cannot be written ({error.strerror}); name a file that does not exist yet") from None
    print(f"{out}: {text.count(blank_job.BLANK) - 1} blanks to fill in, marked {blank_job.BLANK}; then: tacit plan {out}")


def validate(
    job: JobFile,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if there is a warning.")] = False,
    as_json: Json = False,
) -> None:
    """Check a job without touching data: fields, questions, budget, and what is likely to disappoint."""
    from tacit.cli import output

    with answered(as_json):
        from tacit.release import plan as planned

        with output.working("checking"):
            warnings = [str(notice) for notice in planned(loaded(job), base=Path(job).parent).warnings]
    if as_json:
        output.print_json({"valid": True, "warnings": warnings})
    else:
        out = output.console()
        out.print(f"{job}: valid, {len(warnings)} warning{'' if len(warnings) == 1 else 's'}", style="bold")
        for warning in warnings:
            out.print(f"  warning: {warning}", style="yellow")
    if strict and warnings:
        raise typer.Exit(1)


def plan(
    job: JobFile,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what would make it better.")] = False,
    as_json: Json = False,
) -> None:
    """What a job would cost and how exact it would be; no data is touched and nothing is spent."""
    from tacit.cli import job_output, output

    with answered(as_json):
        from tacit.release import plan as planned
        from tacit.release.tuner import suggestions

        with output.working("planning"):
            asked = loaded(job)
            found = planned(asked, base=Path(job).parent)
            better = [] if quick else suggestions(asked, found, base=Path(job).parent)
    if as_json:
        output.print_json({**job_output.plan_record(found), "suggestions": [str(line) for line in better]})
        return
    job_output.print_plan(found, [str(line) for line in better])


def explain(
    job: JobFile,
    output_name: Annotated[str, typer.Argument(help="The name of the output.", metavar="OUTPUT")],
    as_json: Json = False,
) -> None:
    """One output step by step: the statement, how far one person reaches, the noise, the errors. No data is touched."""
    from tacit.cli import output

    with answered(as_json):
        from tacit.release import plan as planned
        from tacit.release.sources import blank
        from tacit.tables.explain import explained

        asked = loaded(job)
        names = [spec.name for spec in asked.outputs]
        if output_name not in names:
            raise OptionError(f"{output_name!r} is no output of {job}; there are {', '.join(names)}")
        with output.working("planning"):
            found = planned(asked, base=Path(job).parent)[output_name]
            engine = blank(asked, Path(job).parent)
            statement = found.plan.statement(engine, 0).sql(dialect=engine.dialect, pretty=True)
            text = explained(found.plan, statement, found.rows, asked.publication.confidence)
    if as_json:
        output.print_json({"output": output_name, "statement": statement, "text": text})
    else:
        print(text)


def rehearse(
    job: JobFile,
    rows: Annotated[int, typer.Option("--rows", min=1, max=10_000_000, help="Rows of made-up data.")] = 20_000,
    runs: Annotated[int, typer.Option("--runs", min=1, max=10_000, help="How often the job is repeated.")] = 20,
    public: Annotated[
        list[str] | None, typer.Option("--public", help="Public data in place of made-up rows.", metavar="SOURCE=FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Repeat a job on made-up or public data: its errors, beside a 40 % sample and suppression of small groups. NOT PRIVATE."""
    from tacit.cli import job_output, output

    with answered(as_json):
        from tacit.release.compare import rehearse as rehearsed

        asked = loaded(job)
        tables = _public(asked, public) if public else _dummies(asked, rows)
        with output.working(f"repeating the job {runs} times"):
            found = rehearsed(asked, tables, data="public" if public else "dummy", runs=runs)
        summary = {f"{name}.{figure}": numbers for (name, figure), numbers in found.overall().items()}
    if as_json:
        output.print_json({"mark": found.mark, "runs": runs, "errors": summary})
        return
    out = output.console()
    out.print(f"{found.mark}; {runs} runs on {'public' if public else 'made-up'} data", style="bold red")
    heads = list(next(iter(summary.values()))) if summary else []
    lines = [[name, *(job_output.short(numbers[head]) for head in heads)] for name, numbers in summary.items()]
    output.print_table(out, ["figure", *heads], lines)


# --- paying, and afterwards -------------------------------------------------------------------------------------------------------------


def run(
    job: JobFile,
    ledger: Book = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before paying.")] = False,
    lost: Annotated[
        Literal["refuse", "correct", "leave-out"],
        typer.Option("--lost", help="What to do about outputs that an interrupted run began and lost."),
    ] = "refuse",
    analyst: Annotated[str, typer.Option("--analyst", help="Who asks, for the book.", metavar="NAME")] = "",
    as_json: Json = False,
) -> None:
    """Pay for a job, run it, check it and publish all of it or nothing. An interrupted run goes on where it was."""
    from tacit.cli import job_output, output

    with answered(as_json):
        from tacit.ledger import Ledger
        from tacit.release import plan as planned
        from tacit.release import run as finished

        asked = loaded(job)
        if not yes:
            with output.working("planning"):
                found = planned(asked, base=Path(job).parent)
            if not as_json:
                job_output.print_plan(found, [])
            if as_json or not sys.stdin.isatty():
                raise OptionError("--yes is missing; a run spends budget that is never refunded, and nobody is here to be asked")
            typer.confirm(f"Pay {job_output.charge(found)} and publish to {asked.publication.folder}?", abort=True)
        book = None if ledger is None else Ledger.open(address(ledger))
        with job_output.progress(len(asked.outputs)) as step:
            place, missing = Path(job).resolve().parent, lost.replace("-", " ")
            done = finished(asked, base=place, ledger=book, progress=step, lost=missing, analyst=analyst)
    if as_json:
        output.print_json(job_output.run_record(done))
        return
    job_output.print_run(done)


def report(
    folder: Annotated[str, typer.Argument(help="The folder of a release.", metavar="FOLDER")],
    out: Annotated[str | None, typer.Option("--out", help="Write the page once more, into this file.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """What a release promised, and whether its files are as they were published."""
    import hashlib

    from tacit.cli import job_output, output

    with answered(as_json):
        from tacit.release.report import NAME, read, render

        place = Path(folder)
        record = read(place / NAME)
        try:
            wrong = {
                name: "missing" if not (place / name).is_file() else "changed"
                for name, digest in record["files"].items()
                if not (place / name).is_file() or hashlib.sha256((place / name).read_bytes()).hexdigest() != digest
            }
            if out is not None:
                Path(out).write_text(render(record), encoding="utf-8")
        except OSError as error:
            raise OptionError(f"{error.filename}: {error.strerror}; check the path") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OptionError(f"{folder}: the record in {NAME} is damaged; take the release from where it was published") from None
    if as_json:
        output.print_json({**{name: record[name] for name in ("title", "private", "total", "record")}, "files": wrong})
    else:
        job_output.print_report(record, wrong, place / NAME if out is None else Path(out))
    if wrong:
        raise typer.Exit(1)


# --- data that is nobody's ------------------------------------------------------------------------------------------------------------


def _dummies(job: Job, rows: int) -> dict[str, pa.Table]:
    from tacit.release.dummy import dummy
    from tacit.release.sources import TYPES
    from tacit.tables import Column, Schema

    found = {}
    for name in job.sources:
        declared = job.columns_of(name)
        schema = Schema({n: Column(TYPES[c.type], c.bounds, c.categories, c.nullable) for n, c in declared.items()})
        found[name] = dummy(schema, rows, person=job.unit.person if job.unit.person in declared else None)
    return found


def _public(job: Job, given: list[str]) -> dict[str, pa.Table]:
    import pyarrow.parquet as pq
    from pyarrow import csv

    found = {}
    for pair in given:
        name, equals, file = pair.partition("=")
        if not equals or name not in job.sources:
            raise OptionError(f"--public must be SOURCE=FILE with a source of the job ({', '.join(job.sources)})")
        try:
            found[name] = pq.read_table(file) if file.endswith(".parquet") else csv.read_csv(file)
        except Exception:
            raise OptionError(f"--public: {file} cannot be read as Parquet or CSV; check the path") from None
    return found
