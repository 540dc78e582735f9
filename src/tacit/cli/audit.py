"""`tacit audit` and `tacit selftest`: attack a function, a training run or Tacit to test a claim.

    tacit audit counts.py:release --claim eps=1,delta=1e-6 --neighbours add-remove --html audit.html
    tacit audit local protocol.json client.py:reports --days 365
    tacit audit model train.py:train --data records.npz --claim eps=2,delta=1e-5
    tacit selftest

Status 0: no attack beat the claim, which is no proof that none can. Status 1: one did. Status 2: the request
could not be understood.

>>> split("counts.py:release")
('counts.py', 'release')
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from tacit.cli.options import OptionError
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.audit import MechanismReport, ModelReport


class DefaultToMechanism(TyperGroup):
    """`tacit audit path:function` means `tacit audit mechanism path:function`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named, or the one for mechanisms."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["mechanism", *args]
        return super().resolve_command(ctx, args)


#: Modules of rooms below `audit` whose function `part` gives cases and mutants for the self-test; imported when it runs.
SELFTESTS = (
    "tacit.applications.energy.selftest",
    "tacit.fairness.selftest",
    "tacit.applications.health.selftest",
    "tacit.applications.vision.selftest",
)  # fmt: skip


audit_app = typer.Typer(
    cls=DefaultToMechanism,
    add_completion=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Attack a function or a training run, and hold what is found against what is claimed.",
)

Target = Annotated[str, typer.Argument(help="What to attack: file.py:function or package.module:function.", metavar="PATH:FUNCTION")]
Claimed = Annotated[str, typer.Option("--claim", help="What is promised: eps=1,delta=1e-6, or eps=1, or mu=1, or rho=0.1.")]
Confidence = Annotated[float, typer.Option("--confidence", help="How sure the lower bounds are, all together.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Make the experiment repeatable; noise drawn by Tacit repeats too.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of words.")]
Html = Annotated[str | None, typer.Option("--html", help="Write a page with pictures into this file.", metavar="FILE")]


@audit_app.command(epilog="[bold]tacit audit counts.py:release --claim eps=1,delta=1e-6 --neighbours add-remove[/bold]")
def mechanism(
    target: Target,
    claim: Claimed,
    neighbours: Annotated[str, typer.Option("--neighbours", help="add-remove, replace-one or zero-out.")] = "add-remove",
    data: Annotated[
        str | None,
        typer.Option("--data", help="Try neighbours of this data set (CSV, Parquet, or path:name of a Python value).", metavar="FILE"),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--form", help="What the function receives: list (of rows), pandas or arrow.", metavar="FORM")
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=40, help="How often to run it on each of two neighbours.")] = 10_000,
    confidence: Confidence = 0.95,
    timing: Annotated[int, typer.Option("--timing", min=0, help="How many pairs of calls to time; 0 leaves the clock out.")] = 0,
    seed: Seed = None,
    html: Html = None,
    as_json: Json = False,
) -> int:
    """Attack a function that takes a data set and returns anything: replay, search, low bits, the clock."""
    from tacit.accounting import Adjacency
    from tacit.cli import output

    function = loaded(target)
    relation = Adjacency.parse(neighbours, name="--neighbours")
    from tacit.audit import audit_mechanism, page_of

    with output.working("attacking"):
        report = audit_mechanism(
            function,
            claim,
            neighbours=relation,
            data=None if data is None else data_from(data),
            trials=trials,
            confidence=confidence,
            seed=seed,
            timing=timing,
            form=cast("Any", form),
        )
    if html is not None:
        Path(html).write_text(page_of(report, target).to_html(), encoding="utf-8")
    return told(report, target, html, as_json=as_json)


@audit_app.command(epilog="[bold]tacit audit local protocol.json client.py:reports --days 365 --html audit.html[/bold]")
def local(
    protocol: Annotated[str, typer.Argument(help="The protocol, as `tacit local design --out` wrote it.", metavar="PROTOCOL")],
    device: Annotated[
        str | None,
        typer.Argument(help="A client: a function of one new device's values, day by day, to its reports.", metavar="PATH:FUNCTION"),
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, help="How many reports of each device are looked at together.")] = 1,
    crowd: Annotated[int | None, typer.Option("--crowd", min=1, help="Attack shuffled batches of so many reports instead.")] = None,
    trials: Annotated[int, typer.Option("--trials", min=40, help="How many devices or batches to look at, for either value.")] = 20_000,
    confidence: Confidence = 0.95,
    seed: Seed = None,
    html: Html = None,
    as_json: Json = False,
) -> int:
    """Attack reports of a local protocol: Tacit's own, those of a client written elsewhere, of many days, or a shuffled batch."""
    from tacit.audit import audit_reports, page_of
    from tacit.cli import output
    from tacit.cli.local import protocol_at

    own = protocol_at(protocol)
    with output.working("attacking"):
        function = None if device is None else loaded(device)
        with never_ran(device or protocol, "a list of one device's values, day by day, and returns its reports as bytes"):
            report = audit_reports(own, function, days=days, crowd=crowd, trials=trials, confidence=confidence, seed=seed)
    if html is not None:
        Path(html).write_text(page_of(report, device or protocol).to_html(), encoding="utf-8")
    return told(report, device or protocol, html, as_json=as_json)


def told(report: MechanismReport | ModelReport, target: str, html: str | None, *, as_json: bool) -> int:
    """Print a report, and return the exit status."""
    from tacit.cli import output

    if as_json:
        print(json.dumps(report.to_json() | {"target": target}))
    else:
        out = output.console()
        out.print(str(report))
        if html is not None:
            out.print(f"written: {html}")
    return 1 if report.broken else 0


def selftest(
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of the samples, no estimators: about half a minute.")] = False,
    only: Annotated[str, typer.Option("--only", help="Only cases and mutants whose name contains this.", metavar="NAME")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Draw all noise afresh instead of from fixed seeds.")] = False,
    html: Html = None,
    as_json: Json = False,
) -> int:
    """Attack everything in Tacit, and put in known faults to see them caught. Status 0 only if no claim fell and no fault escaped."""
    from tacit.audit import selftest as suite
    from tacit.cli import output

    more = [importlib.import_module(name).part() for name in SELFTESTS]
    with output.bar("attacking") as progress:
        report = suite.run(quick=quick, fresh=fresh, only=only, progress=progress, more=more)
    if not report.outcomes and not report.catches:
        raise OptionError(f"--only: no case and no mutant has {only!r} in its name; run without it to see all names")
    if html is not None:
        Path(html).write_text(report.page().to_html(), encoding="utf-8")
    if as_json:
        print(json.dumps(report.to_json()))
        return 0 if report.passed else 1
    out = output.console()
    for title, head, rows in report.tables():
        if rows:
            table = output.titled(title, head, fold=True)
            for row in rows:
                table.add_row(*row)
            out.print(table)
    for text in report.skipped:
        out.print(f"not tried: {text}")
    out.print(report.headline, style="bold")
    out.print(f"{report.confidence}. An attack that fails is no proof.")
    if html is not None:
        out.print(f"written: {html}")
    return 0 if report.passed else 1


@audit_app.command(epilog="[bold]tacit audit model train.py:train --data records.npz --claim eps=2,delta=1e-5 --html audit.html[/bold]")
def model(
    target: Annotated[str, typer.Argument(help="A function train(data) -> model: file.py:function.", metavar="PATH:FUNCTION")],
    claim: Claimed,
    data: Annotated[
        str,
        typer.Option(
            "--data", help="The records: an .npz with x and y, a CSV or Parquet file, or path:name of a Python value.", metavar="FILE"
        ),
    ],
    game: Annotated[
        str, typer.Option("--game", help="What is fixed: fixed-model, average, fixed-record or worst-case.", metavar="GAME")
    ] = "fixed-model",
    runs: Annotated[int | None, typer.Option("--runs", min=2, help="Records asked about, or models trained in the other games.")] = None,
    references: Annotated[int, typer.Option("--references", min=0, help="Reference models that the attacker trains.")] = 8,
    record: Annotated[
        int | None, typer.Option("--record", min=0, help="The row that a game with a fixed record is about; else the most exposed.")
    ] = None,
    neighbours: Annotated[str, typer.Option("--neighbours", help="The claim's relation: add-remove or replace-one.")] = "add-remove",
    confidence: Confidence = 0.95,
    workers: Annotated[int, typer.Option("--workers", min=1, help="How many models to train at once.")] = 1,
    seed: Seed = None,
    html: Html = None,
    as_json: Json = False,
) -> int:
    """Attack a training run: who was in the data? Loss, population, reference, calibrated, likelihood-ratio and robust attacks."""
    train = loaded(target)
    records = data_from(data)
    from tacit.accounting import Adjacency
    from tacit.audit import Claim, Game, audit_model

    try:
        played = Game(game)
    except ValueError:
        names = ", ".join(one.value for one in Game)
        raise OptionError(f"--game must be one of {names}, not {game!r}") from None
    rows = arranged(records)
    promised = Claim.of(claim, adjacency=Adjacency.parse(neighbours, name="--neighbours"))
    with never_ran(target, f"{_received(rows)}, and returns a model with predict_proba or predict"):
        report = audit_model(
            train,
            rows,
            promised,
            game=played,
            runs=runs,
            references=references,
            record=record,
            confidence=confidence,
            seed=seed,
            workers=workers,
            progress=sys.stderr.isatty(),
            title=target,
        )
    if html is not None:
        Path(html).write_text(report.to_html(), encoding="utf-8")
    return told(report, target, html, as_json=as_json)


@contextmanager
def never_ran(target: str, receives: str) -> Iterator[None]:
    """Code under attack that raises ends the command with status 2, its type and its line: status 1 would say that a claim fell.

    The text of the exception is left out: it may hold a record.
    """
    try:
        yield
    except TacitError:
        raise
    except (Exception, SystemExit) as error:
        place, line, trace = split(target)[0] if ":" in target else target, "", error.__traceback__
        while trace is not None:
            if Path(trace.tb_frame.f_code.co_filename).name == Path(place).name:
                line = f" in line {trace.tb_lineno} of {place}"
            trace = trace.tb_next
        raise OptionError(f"{target} raised {type(error).__name__}{line}, so it was never attacked; it receives {receives}") from error


def _received(records: Any) -> str:
    """What a training receives, in words.

    >>> _received(([[1.0, 2.0]], [0])), _received([1, 2])
    ('a pair (x, y) of arrays', 'a list of records')
    """
    return "a pair (x, y) of arrays" if isinstance(records, tuple) else f"a {type(records).__name__} of records"


def arranged(records: Any) -> Any:
    """Records as (x, y): from arrays, or from a table whose last column is the label; others as they are."""
    if isinstance(records, dict) and {"x", "y"} <= set(records):
        return records["x"], records["y"]
    if hasattr(records, "to_pydict"):  # a table of Arrow
        import numpy as np

        columns = [np.asarray(column) for column in records.to_pydict().values()]
        if len(columns) < 2:
            raise OptionError("--data needs at least one column of features and, last, the label")
        return np.column_stack(columns[:-1]), columns[-1]
    return records


def split(target: str) -> tuple[str, str]:
    """The file or module, and the name in it."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise OptionError(f"{target!r} does not name a function; write file.py:function or package.module:function")
    return place, name


def missing(place: str, otherwise: str) -> str:
    """What to say of a file that is not there."""
    return f"there is no file {place}; give its path from the folder in which the command is run, or a full path; {otherwise}"


def loaded(target: str) -> Callable[..., Any]:
    """The function that `path:name` names. Its module is run, as an import would."""
    found: object = value_of(target)
    if not callable(found):
        raise OptionError(f"{target} is not a function")
    return found


def value_of(target: str) -> Any:
    """Whatever `path:name` names."""
    place, name = split(target)
    try:
        if place.endswith(".py"):
            path = Path(place)
            if not path.is_file():
                raise OptionError(missing(place, "a function of an installed package is written package.module:function"))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module  # so that its functions can be sent to other processes
            sys.path.insert(0, str(path.resolve().parent))
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            module = importlib.import_module(place)
    except OptionError:
        raise
    except Exception as error:
        raise OptionError(f"{place} could not be imported: {type(error).__name__}: {error}") from error
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise OptionError(f"{place} has no {name}; define it there, or name another after the colon")
        value = getattr(value, part)
    return value


def data_from(place: str) -> Any:
    """A data set: a table from a file, or a value of a Python module."""
    if place.endswith((".csv", ".parquet", ".npz")) and not Path(place).is_file():
        raise OptionError(missing(place, "a value of a Python file is written file.py:name"))
    if place.endswith(".csv"):
        from pyarrow import csv

        return csv.read_csv(place)
    if place.endswith(".parquet"):
        from pyarrow import parquet

        return parquet.read_table(place)
    if place.endswith(".npz"):
        import numpy as np

        return dict(np.load(place))
    return value_of(place)
