"""The commands for release jobs: init, validate, check-data, plan, run, report, series, explain, rehearse.

    tacit init visits.parquet --out job.yaml
    tacit plan job.yaml
    tacit run job.yaml --yes

Status 0: done. Status 1: it went wrong after the data was touched, or a release is not as it was published. Status 2: the request or the
job cannot be understood; one line says where and how to put it right. Planning, explaining and validating touch no data.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli.blank_job import BLANK
from tacit.cli.options import OptionError, in_options, shown, shown_examples

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.release import Job, JobAudit, JobError, JobPlan, Standing
    from tacit.tables import EngineError

JobFile = Annotated[str, typer.Argument(help="The job, a YAML file.", metavar="JOB")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.", show_default=False)]
Book = Annotated[
    str | None,
    typer.Option("--ledger", help="The book that pays: a file, or a database URL.", metavar="BOOK", envvar="TACIT_LEDGER"),
]
Period = Annotated[
    str | None, typer.Option("--period", help="The period of a series, such as 2026-02; fills in {period} in the job.", metavar="PERIOD")
]
PANEL = "Release jobs"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for name, command, examples in (
        ("init", init, ("init visits.parquet --out job.yaml", "init postgresql+psycopg://host/clinic --table visits")),
        ("validate", validate, ("validate job.yaml", "validate job.yaml --strict --json")),
        ("check-data", check_data, ("check-data job.yaml", "check-data job.yaml --period 2026-02 --out notes/feb.not-private.txt")),
        ("plan", plan, ("plan job.yaml", "plan job.yaml --quick --json")),
        ("run", run, ("run job.yaml --ledger tacit.db", "run job.yaml --yes --json", "run job.yaml --period 2026-02")),
        ("report", report, ("report release", "report release --out page.html")),
        ("series", series, ("series 2026-* --output by_region --figure visits --lag 12", ("series 2026-* --output all --figure n "
                                                                                         "--most-step 50"))),
        ("explain", explain, ("explain job.yaml by_region",)),
        ("rehearse", rehearse, ("rehearse job.yaml --runs 50 --by region", "rehearse job.yaml --public visits=last-year.parquet")),
    ):
        app.command(name, epilog=shown_examples(*examples), rich_help_panel=PANEL)(command)


@contextmanager
def answered(as_json: bool, job: str | None = None) -> Iterator[None]:
    """What is wrong with a job or its budget, in one line that starts with the file; what fails after the data was touched ends with
    status 1."""
    from tacit.errors import AccountingError
    from tacit.ledger import LedgerError
    from tacit.release import CheckFailed, JobError, OutputLost, faults
    from tacit.tables import EngineError, TableError

    try:
        yield
    except (CheckFailed, OutputLost, EngineError) as error:
        from tacit.cli.app import complain

        complain(_one_line(error), as_json=as_json)
        raise typer.Exit(1) from None
    except JobError as error:
        raise OptionError(_one_line(error if error.file or job is None else _found(error, job))) from None
    except (LedgerError, TableError) as error:
        raise OptionError(in_options(error, error.said(faults.WORDS))) from None
    except AccountingError:
        raise
    except (ArithmeticError, ValueError, MemoryError) as error:
        # The words of a fault of ours may quote what it was about, and here that may be data.
        if os.environ.get("TACIT_TRACEBACK"):
            raise
        raise OptionError(f"this is a fault of Tacit's own ({type(error).__name__}); set TACIT_TRACEBACK=1 and report it") from None


def _one_line(error: JobError | EngineError) -> str:
    """Where in the job and what, in the words of the command."""
    where = (getattr(error, "file", ""), getattr(error, "place", ""))
    return " ".join(": ".join(part for part in (*where, in_options(error)) if part).split())


def _found(error: JobError, path: str) -> JobError:
    """The fault with its file, and the name of the output beside its number."""
    from tacit.release import load

    place = re.match(r"outputs\[(\d+)\]", error.place)
    if place is None:
        return error.within(path)
    name = load(path).outputs[int(place[1])].name
    return error.within(path, f"{place[0]}{error.place[place.end() :]} ({name})")


def loaded(path: str, period: str | None = None) -> Job:
    """A job without blanks, checked."""
    from tacit.release import load

    refuse_blanks(path)
    return load(path, period=period)


def blanks(path: str) -> list[int]:
    """The lines of a job that still have a blank."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []  # the reader of jobs says what is wrong
    return [number for number, line in enumerate(lines, 1) if BLANK in line.partition("#")[0]]


def refuse_blanks(path: str) -> None:
    """Refuse a job that still has a blank, with its line."""
    for number in blanks(path)[:1]:
        raise OptionError(f"{path}: line {number} still has a blank ({BLANK}); it is a decision that only you can take: fill it in")


# --- before anything is paid ----------------------------------------------------------------------------------------------------------


def init(
    source: Annotated[str, typer.Argument(help="A .parquet, .arrow or .csv file, or a database URL.", metavar="SCHEMA_SOURCE")],
    table: Annotated[str | None, typer.Option("--table", help="The table, for a database.", metavar="NAME")] = None,
    out: Annotated[str | None, typer.Option("--out", help="Write the job into this new file.", metavar="FILE")] = None,
) -> None:
    """Write a commented job from a table's schema; it reads names and types, and no row."""
    from tacit.cli import blank_job

    found = blank_job.columns(source, table)
    # A job finds its files from its own folder, wherever it is run from.
    near = source if out is None or "://" in source or Path(source).is_absolute() else os.path.relpath(source, Path(out).parent)
    text = blank_job.text(near, found, table=table, delimiter=blank_job.delimiter_of(source))
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
    period: Period = None,
    as_json: Json = False,
) -> None:
    """Check a job without touching data: fields, questions, budget, and what is likely to disappoint. All errors are told at once."""
    from tacit.cli import output

    faults = _faults(job, period)
    if len(faults) > 1:
        if as_json:
            output.print_json({"valid": False, "errors": faults})
        else:
            err = output.console(stderr=True)
            err.print(f"{job}: {len(faults)} errors", style="bold red")
            for fault in faults:
                err.print(f"  {fault}", highlight=False)
        raise typer.Exit(2)
    with answered(as_json, job):
        from tacit.release import plan as planned

        with output.working("checking"):
            warnings = [str(notice) for notice in planned(loaded(job, period), base=Path(job).parent).warnings]
    if as_json:
        output.print_json({"valid": True, "warnings": warnings})
    else:
        out = output.console()
        out.print(f"{job}: valid, {len(warnings)} warning{'' if len(warnings) == 1 else 's'}", style="bold")
        for warning in warnings:
            out.print(f"  warning: {warning}", style="yellow")
    if strict and warnings:
        raise typer.Exit(1)


def _blank_places(text: str) -> set[str]:
    """The places of blanks, such as 'budget.epsilon': what else is wrong with one is not worth a line of its own."""
    import yaml

    found: set[str] = set()
    try:
        left = [("", yaml.safe_load(text))]
    except yaml.YAMLError:
        return found
    while left:
        place, value = left.pop()
        if value == BLANK:
            found.add(place)
        elif isinstance(value, dict):
            left += [(f"{place}.{name}" if place else str(name), inner) for name, inner in value.items()]
        elif isinstance(value, list):
            left += [(f"{place}[{number}]", inner) for number, inner in enumerate(value)]
    return found


def _faults(path: str, period: str | None) -> list[str]:
    """Everything that is wrong with a job, as far as it can be told at once: blanks, then fields, then what each output cannot have."""
    from tacit.release import JobError, all_faults, faults_of_outputs, parse, text_of

    found = [f"line {number}: still has a blank; it is a decision that only you can take" for number in blanks(path)]
    try:
        text = text_of(path)
    except JobError:
        return found  # said by the reader of jobs
    open_places = _blank_places(text) if found else set()
    faults = [fault for fault in all_faults(text, period=period) if fault.place not in open_places]
    if not found and not faults:
        faults = faults_of_outputs(parse(text, period=period), base=Path(path).parent)
    return found + [": ".join(part for part in (fault.place, in_options(fault)) if part) for fault in faults]


def check_data(
    job: JobFile,
    period: Period = None,
    out: Annotated[
        str | None,
        typer.Option("--out", help="Write it into a new file that ends with .not-private.txt or .not-private.json.", metavar="FILE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """The job's data beside what it declares: types, categories, bounds, missing values, caps. NOT PRIVATE: for the curator alone."""
    from tacit.cli import output

    with answered(as_json, job):
        from tacit.release import check_data as checked
        from tacit.release import check_in_words, save_check

        asked, base = loaded(job, period), Path(job).resolve().parent
        with output.working("reading the data"):
            found = checked(asked, base=base)
        if out is not None:
            save_check(found, Path(out), base / asked.publication.folder)
    if as_json:
        output.print_json(found.to_record())
        return
    shown = output.console()
    first, *rest = check_in_words(found).splitlines()
    shown.print(first, style="bold red")
    for line in rest:
        shown.print(line, style="yellow" if line.startswith("! ") else None, highlight=False, markup=False, soft_wrap=True)


def plan(
    job: JobFile,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what would make it better.")] = False,
    ledger: Book = None,
    period: Period = None,
    as_json: Json = False,
) -> None:
    """What a job would cost, how exact it would be, and whether the ledger would pay; no data is touched and nothing is spent."""
    from tacit.cli import output

    with answered(as_json, job):
        from tacit.release import plan as planned
        from tacit.release import suggestions

        with output.working("planning"):
            asked = loaded(job, period)
            found = planned(asked, base=Path(job).parent)
            better = [] if quick else suggestions(asked, found, base=Path(job).parent)
            stands = _standing(found, ledger, Path(job).parent)
    if as_json:
        told = None if stands is None else output.standing_record(stands)
        output.print_json({**output.plan_record(found), "suggestions": [str(line) for line in better], "ledger": told})
        return
    output.print_plan(found, [str(line) for line in better])
    if stands is not None:
        out = output.console()
        out.print("In the ledger", style="bold")
        for line in stands.lines():
            out.print(f"  {line}", style="yellow" if "REFUSED" in line or "same unit" in line else None, highlight=False)
        out.print("")


def _standing(found: JobPlan, ledger: str | None, base: Path) -> Standing | None:
    """Where the job stands in the book that would pay; None where there is no book yet. Nothing is made by looking."""
    from tacit.ledger import Ledger, LedgerError
    from tacit.release import standing_of

    place = ledger
    if place is None:
        place = str(base / "tacit.db") if (base / "tacit.db").is_file() else None
    if place is None:
        return None
    try:
        with Ledger.at(place, create=False) as book:
            return standing_of(found, book)
    except LedgerError as error:
        if error.code == "ledger-missing":
            return None
        raise


def explain(
    job: JobFile,
    output_name: Annotated[str, typer.Argument(help="The name of the output.", metavar="OUTPUT")],
    as_json: Json = False,
) -> None:
    """One output step by step: the statement, how far one person reaches, the noise, the errors. No data is touched."""
    from tacit.cli import output

    with answered(as_json, job):
        from tacit.release import kinds
        from tacit.release import plan as planned

        asked = loaded(job)
        names = [spec.name for spec in asked.outputs]
        if output_name not in names:
            raise OptionError(f"{output_name!r} is no output of {job}; there are {', '.join(names)}")
        with output.working("planning"):
            found = planned(asked, base=Path(job).parent)[output_name]
            text, statement = kinds.of(found).explain(found)
    if as_json:
        output.print_json({"output": output_name, "statement": statement, "text": text})
    else:
        print(text)


def rehearse(
    job: JobFile,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, max=10_000_000, help="Rows of made-up data; by default as many as the job expects.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, max=10_000, help="How often the job is repeated.")] = 20,
    public: Annotated[
        list[str] | None, typer.Option("--public", help="Public data in place of made-up rows.", metavar="SOURCE=FILE")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Also for each value of this key: who pays.", metavar="KEY")] = None,
    html: Annotated[str | None, typer.Option("--html", help="With --by: write who pays as a page.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Repeat a job on made-up or public data: its errors, beside a 40 % sample and suppression of small groups. NOT PRIVATE."""
    from tacit.cli import output

    with answered(as_json, job):
        from tacit.release import rehearse as rehearsed

        asked = loaded(job)
        tables = _stand_ins(asked, Path(job).parent, public or [], rows or min(asked.expected.rows or 20_000, 200_000))
        with output.working(f"repeating the job {runs} times"):
            found = rehearsed(asked, tables, data="public" if public else "dummy", runs=runs)
        outputs = [] if by is None else [name for name, keys in found.keys.items() if by in keys]
        if by is not None and not outputs:
            known = sorted({key for keys in found.keys.values() for key in keys})
            raise OptionError(f"--by: no output of {job} is grouped by {by!r}; the keys are {', '.join(known) or 'none'}")
        groups = {name: found.by(name, by) for name in outputs if by is not None}
        if html is not None:
            if by is None:
                raise OptionError("--html: the page is about the groups of a key; say which, --by KEY")
            Path(html).write_text(found.page(by), encoding="utf-8")
    if as_json:
        output.print_json(output.rehearsal_record(found, by, groups))
        return
    output.print_rehearsal(found, "public" if public else "made-up", by, groups)


# --- paying, and afterwards -------------------------------------------------------------------------------------------------------------


def run(
    job: JobFile,
    ledger: Book = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before paying.")] = False,
    lost: Annotated[
        Literal["refuse", "correct", "leave-out"],
        typer.Option("--lost", help="What to do about outputs that an interrupted run began and lost."),
    ] = "refuse",
    analyst: Annotated[
        str | None, typer.Option("--analyst", help="Who asks, for the book; else the user of the system.", metavar="NAME")
    ] = None,
    new_dataset: Annotated[
        bool, typer.Option("--new-dataset", help="These are other people's rows, though the book knows rows like them.")
    ] = False,
    period: Period = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Publish although totals do not add up; the report says why it was held back.")
    ] = False,
    correction: Annotated[
        str | None, typer.Option("--correction", help="Publish once more what is published, for this reason.", metavar="REASON")
    ] = None,
    as_json: Json = False,
) -> None:
    """Pay for a job, run it, check it and publish all of it or nothing. An interrupted run goes on where it was."""
    from tacit.cli import output

    with answered(as_json, job):
        from tacit.ledger import Ledger
        from tacit.release import plan as planned
        from tacit.release import run as finished

        asked = loaded(job, period)
        if not yes:
            with output.working("planning"):
                found = planned(asked, base=Path(job).parent)
            if not as_json:
                output.print_plan(found, [])
            if as_json or not sys.stdin.isatty():
                why = "a run spends budget that is never refunded, and there is no terminal to ask on"
                raise OptionError(f"--yes is missing; {why}")
            folder = asked.publication.folder
            typer.confirm(f"Pay {output.charge(found)} and publish to {folder}?", abort=True)
        book = None if ledger is None else Ledger.at(ledger)
        with output.progress(len(asked.outputs)) as step, _interruptible(as_json):
            place, missing = Path(job).resolve().parent, lost.replace("-", " ")
            done = finished(
                asked, base=place, ledger=book, progress=step, lost=missing, analyst=analyst, new_dataset=new_dataset, accept=accept,
                correction=correction,
            )
    if as_json:
        output.print_json(output.run_record(done))
        return
    output.print_run(done)


@contextmanager
def _interruptible(as_json: bool) -> Iterator[None]:
    """Say what a run that was stopped leaves behind, and how to go on."""
    from tacit.cli.app import complain

    go_on = "What was paid stays paid: run the same job again, and it goes on"
    status = 130
    try:
        yield
        return
    except KeyboardInterrupt:
        words = f"interrupted. {go_on}"
    except OSError as error:
        status, words = 1, f"the disk or the system refused ({error.strerror or type(error).__name__}); put that right. {go_on}"
    complain(words, as_json=as_json)
    raise typer.Exit(status)


def report(
    folder: Annotated[str, typer.Argument(help="The folder of a release.", metavar="FOLDER")],
    out: Annotated[str | None, typer.Option("--out", help="Write the page once more, into this file.", metavar="FILE")] = None,
    audience: Annotated[
        str, typer.Option("--audience", help="Whom the page is for: all, public, statistician or officer.", metavar="WHO")
    ] = "all",
    audit: Annotated[
        str | None, typer.Option("--audit", help="Attack this job on made-up rows, and put what is found into the page.", metavar="JOB")
    ] = None,
    period: Annotated[str | None, typer.Option("--period", help="The period of a series, for --audit.", metavar="PERIOD")] = None,
    as_json: Json = False,
) -> None:
    """What a release promised, and whether its files are as they were published. The release itself is never written to."""
    import hashlib

    from tacit.cli import output

    with answered(as_json):
        from tacit.release.report import NAME, for_audience, read, with_audit

        if out is None and (audience != "all" or audit is not None):
            raise OptionError("--audience and --audit make another page; say where it goes: --out FILE")
        place = Path(folder)
        record = read(place / NAME)
        if audit is not None:
            record = with_audit(record, _attacked(audit, period, record))
        try:
            wrong = {
                name: "missing" if not (place / name).is_file() else "changed"
                for name, digest in record["files"].items()
                if not (place / name).is_file() or hashlib.sha256((place / name).read_bytes()).hexdigest() != digest
            }
            if out is not None:
                Path(out).write_text(for_audience(record, audience), encoding="utf-8")
        except OSError as error:
            raise OptionError(f"{error.filename}: {error.strerror}; check the path") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OptionError(f"{folder}: the record in {NAME} is damaged; take the release from where it was published") from None
    if as_json:
        told: dict[str, object] = {name: record[name] for name in ("title", "private", "total", "record", "audit") if name in record}
        output.print_json({**told, "files": wrong})
    else:
        output.print_report(record, wrong, place / NAME if out is None else Path(out))
    found = record.get("audit")
    if wrong or (found is not None and found["lower"] > found["upper"]):
        raise typer.Exit(1)


def _attacked(path: str, period: str | None, record: dict[str, Any]) -> JobAudit:
    """The audit of the job that a release was made by, and of no other."""
    from tacit.release import audit_job

    job = loaded(path, period)
    if job.digest() != record["record"].get("job (SHA-256)"):
        raise OptionError(f"{path} is not the job that this release was made by; name that one, as it was then")
    return audit_job(job)


def series(
    folders: Annotated[list[str], typer.Argument(help="The folders of the releases of a series.", metavar="FOLDER...")],
    output_name: Annotated[str, typer.Option("--output", help="The output.", metavar="NAME")],
    figure: Annotated[str, typer.Option("--figure", help="Its figure.", metavar="NAME")],
    lag: Annotated[
        int | None, typer.Option("--lag", min=1, help="Differences against so many periods before: 12 for a year of months.")
    ] = None,
    width: Annotated[int | None, typer.Option("--width", min=0, help="Means over so many neighbours on either side.")] = None,
    most_step: Annotated[
        float | None, typer.Option("--most-step", min=0, help="Smooth; the truth moves by at most this from one period to the next.")
    ] = None,
    as_json: Json = False,
) -> None:
    """A figure over the periods of a series: changes, or smoothed, with honest intervals. Made of releases alone; costs nothing."""
    from tacit.cli import output

    if sum(option is not None for option in (lag, width, most_step)) != 1:
        raise OptionError("give one of --lag (changes), --width (means) and --most-step (smoothed)")
    with answered(as_json):
        from tacit.release import differences, read_series, smoothed

        found = read_series(folders, output_name, figure)
        made = differences(found, lag) if lag is not None else smoothed(found, most_step=most_step, width=width)
    if as_json:
        about = {"what": made.what, "confidence": made.confidence, "notes": list(made.notes)}
        output.print_json({"output": output_name, "figure": figure, **about, "rows": made.rows()})
        return
    out = output.console()
    out.print(f"{output_name}.{figure}: {made.what}", style="bold")
    rows = [[row["period"], row["group"], *(output.short(row[end]) for end in ("value", "low", "high"))] for row in made.rows()]
    output.print_table(out, ["period", "group", figure, "low", "high"], rows)
    out.print(f"\n  {made.confidence:.4g} intervals for the noise", highlight=False)
    for note in made.notes:
        out.print(f"  {note}", style="yellow", highlight=False)


# --- public and made-up data ------------------------------------------------------------------------------


def _stand_ins(job: Job, base: Path, given: list[str], rows: int) -> dict[str, pa.Table]:
    """A table for every source: public files where they are given, made-up rows otherwise, and the job's own public tables as they are."""
    from tacit.release import table_of, tables_for

    files = {name: base / source.path for name, source in job.sources.items() if source.public and source.path is not None}
    found = {name: table_of(job, name, file) for name, file in files.items() if file.is_file()}
    for pair in given:
        name, equals, place = pair.partition("=")
        if not equals or name not in job.sources:
            raise OptionError(f"--public must be SOURCE=FILE with a source of the job ({', '.join(job.sources)})")
        if not Path(place).is_file():
            raise OptionError(f"--public: {shown(place)}: there is no such file; give a CSV or Parquet file")
        found[name] = table_of(job, name, place)
    missing = [name for name in job.sources if name not in found]
    if given and missing:
        raise OptionError(f"--public {missing[0]}=FILE is missing; made-up rows do not fit public ones, so give a file for every source")
    return {**tables_for(job, rows), **found} if missing else found
