"""The `tacit` command: what a computation on private data costs.

    tacit epsilon --sampling 256/60000 --noise 1.1 --epochs 60 --delta 1e-5

Everything heavy is imported by the command that needs it, so that `tacit --help` answers at once. Whatever is wrong with a request is
said in one line that names the option and the fix, with status 2; `--json` says it as an object with the field `error`.

>>> main(["--version"])
tacit 0...
0
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tacit import __version__
from tacit.cli.numbers import OptionError

# The options behind the parameters that the accountant's messages open with.
_OPTIONS = {"delta": "--delta", "noise_multiplier": "--noise", "sigma": "--noise", "scale": "--noise", "rate": "--sampling"}


class Commands(TyperGroup):
    """The group of commands, with one way of reporting what is wrong with a request."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; ends the process in standalone mode, else returns the status."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            result = super().main(words, prog_name or "tacit", complete_var, False, windows_expand_args, **extra)
            status = result if isinstance(result, int) else 0
        except Exception as error:
            message = explained(error)
            if message is None:
                raise
            complain(message, as_json="--json" in words)
            status = 2
        if standalone_mode:
            sys.exit(status)
        return status


def explained(error: Exception) -> str | None:
    """The line to print for an error in the request; None for a fault of ours, which keeps its traceback."""
    accounting = sys.modules.get("tacit.accounting.errors")
    if isinstance(error, OptionError):
        message = str(error)
    elif accounting is not None and isinstance(error, accounting.AccountingError):
        message = in_options(str(error))
    elif hasattr(error, "format_message"):  # how the parser of options reports unknown ones, whatever its version
        command = getattr(getattr(error, "ctx", None), "command_path", None) or "tacit"
        message = f"{error.format_message().rstrip('.')}; see '{command} --help'"
    elif type(error).__name__ == "Abort":
        message = "interrupted"
    elif isinstance(error, ImportError) and "pip install" in str(error):
        message = str(error)
    else:
        return None
    return " ".join(message.split())


def in_options(message: str) -> str:
    """The accountant's words with the names of options in place of those of Python.

    >>> in_options("delta must be positive; or ask for adjacency=Adjacency.REPLACE_ONE")
    '--delta must be positive; or ask for --adjacency replace-one'
    """
    for name in ("add-remove", "replace-one", "zero-out"):
        message = message.replace(f"adjacency=Adjacency.{name.upper().replace('-', '_')}", f"--adjacency {name}")
    message = message.replace("null_record=True", "--null-record")
    first, space, rest = message.partition(" ")
    return f"{_OPTIONS.get(first, first)}{space}{rest}"


def complain(message: str, *, as_json: bool) -> None:
    """One line on the error stream, or one JSON object on the output."""
    if as_json:
        print(json.dumps({"error": message}))
    else:
        print(f"error: {message}", file=sys.stderr)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="What a computation on private data costs: certified from both sides, in milliseconds.",
    epilog="Numbers may be written as 0.01, 1e-5 or 256/60000. [bold]tacit COMMAND --help[/bold] shows examples.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def tacit(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    """What a computation on private data costs: certified from both sides, in milliseconds."""


# --- options that several commands share --------------------------------------------------------------------------------------------

WHAT, ASK, SHOW = "What is done to the data", "The question", "The answer"


def _option(panel: str, text: str, *names: str, metavar: str = "NUMBER") -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)


Mechanism = Annotated[
    str | None,
    _option(
        WHAT,
        "gaussian (default), laplace, discrete-gaussian or discrete-laplace, described by --noise; or pure, approximate, "
        "randomized-response, exponential or staircase, described by --step-epsilon.",
        "--mechanism",
        metavar="NAME",
    ),
]
Noise = Annotated[
    str | None, _option(WHAT, "Noise relative to what one record can contribute: the noise multiplier sigma / C, or scale / C.", "--noise")
]
StepEpsilon = Annotated[str | None, _option(WHAT, "The epsilon of one step, for mechanisms that come with one.", "--step-epsilon")]
StepDelta = Annotated[str | None, _option(WHAT, "The delta of one step, for --mechanism approximate.", "--step-delta")]
Categories = Annotated[str | None, _option(WHAT, "How many answers randomised response chooses from (default 2).", "--categories")]
Sampling = Annotated[str | None, _option(WHAT, "The share of the records in one step, such as 0.01 or 256/60000.", "--sampling")]
Scheme = Annotated[
    str | None,
    _option(
        WHAT,
        "How the records of a step are chosen: poisson (default), without-replacement, with-replacement, or random-allocation "
        "(each record in one step of every epoch).",
        "--scheme",
        metavar="NAME",
    ),
]
Size = Annotated[str | None, _option(WHAT, "The number of records; with --batch in place of --sampling.", "--size")]
Batch = Annotated[str | None, _option(WHAT, "The number of records in one step.", "--batch")]
Steps = Annotated[str | None, _option(WHAT, "The number of steps (default 1).", "--steps")]
Epochs = Annotated[
    str | None, _option(WHAT, "Passes over the data in place of --steps: epochs * size / batch steps, rounded down.", "--epochs")
]
EventFile = Annotated[
    str | None, _option(WHAT, "A JSON file with any event, in place of the options above (--steps repeats it).", "--event", metavar="FILE")
]
Relation = Annotated[
    str | None,
    _option(
        ASK,
        "add-remove, replace-one or zero-out. By default what the sampler is proved for. Under replace-one a record goes and another "
        "comes, so noise counts half; a --step-epsilon is taken to hold for the relation asked for.",
        "--adjacency",
        metavar="NAME",
    ),
]
NullRecord = Annotated[
    bool,
    typer.Option(
        "--null-record", help="An absent record is treated exactly as a fixed public one.", rich_help_panel=ASK, show_default=False
    ),
]
GroupSize = Annotated[str | None, _option(ASK, "The unit is a group of so many records: a person with several rows.", "--group")]
Deltas = Annotated[list[str] | None, _option(ASK, "One or more, with commas or repeated.", "--delta")]
Delta = Annotated[str | None, _option(ASK, "The delta of the target (0 where nothing else is said).", "--delta")]
Epsilons = Annotated[list[str] | None, _option(ASK, "One or more, with commas or repeated.", "--epsilon")]
Epsilon = Annotated[str | None, _option(ASK, "The epsilon of the target.", "--epsilon")]
Method = Annotated[
    str | None, _option(ASK, "One theorem only, by its name in tacit compare; by default the tightest.", "--method", metavar="NAME")
]
Certify = Annotated[
    bool, typer.Option("--certify", help="Prove the bracket in ball arithmetic (extra: proof).", rich_help_panel=ASK, show_default=False)
]
Plot = Annotated[str | None, _option(SHOW, "Draw the picture into this .png, .pdf or .svg.", "--plot", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=SHOW, show_default=False)]


def _examples(*lines: str) -> str:
    """Paragraphs, so that the help keeps each example on a line of its own."""
    return "\n\n".join(["Examples:", *(f"[bold]tacit {line}[/bold]" for line in lines)])


# --- commands ---------------------------------------------------------------------------------------------------------------------


@app.command(
    epilog=_examples(
        "epsilon --noise 1.1 --sampling 256/60000 --epochs 60 --delta 1e-5",
        "epsilon --noise 4 --size 60000 --batch 256 --scheme without-replacement --epochs 5 --delta 1e-5 --plot cost.png",
        "epsilon --mechanism laplace --noise 10 --steps 100 --delta 0,1e-6 --json",
    )
)
def epsilon(
    context: typer.Context,
    mechanism: Mechanism = None,
    noise: Noise = None,
    step_epsilon: StepEpsilon = None,
    step_delta: StepDelta = None,
    categories: Categories = None,
    sampling: Sampling = None,
    scheme: Scheme = None,
    size: Size = None,
    batch: Batch = None,
    steps: Steps = None,
    epochs: Epochs = None,
    event: EventFile = None,
    delta: Deltas = None,
    adjacency: Relation = None,
    null_record: NullRecord = False,
    group: GroupSize = None,
    method: Method = None,
    certify: Certify = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """The epsilon that a computation spends at a delta."""
    from tacit.cli import questions

    questions.epsilon(context.params)


@app.command(
    epilog=_examples(
        "delta --epsilon 1,2,3 --noise 1.1 --sampling 256/60000 --epochs 60",
        "delta --epsilon 1/2 --mechanism laplace --noise 1",
    )
)
def delta(
    context: typer.Context,
    mechanism: Mechanism = None,
    noise: Noise = None,
    step_epsilon: StepEpsilon = None,
    step_delta: StepDelta = None,
    categories: Categories = None,
    sampling: Sampling = None,
    scheme: Scheme = None,
    size: Size = None,
    batch: Batch = None,
    steps: Steps = None,
    epochs: Epochs = None,
    event: EventFile = None,
    epsilon: Epsilons = None,
    adjacency: Relation = None,
    null_record: NullRecord = False,
    group: GroupSize = None,
    certify: Certify = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """The delta that a computation spends at an epsilon."""
    from tacit.cli import questions

    questions.delta(context.params)


@app.command(
    epilog=_examples(
        "noise --epsilon 1 --delta 1e-6 --sampling 0.01 --steps 10000",
        "noise --epsilon 1 --mechanism laplace --steps 10",
    )
)
def noise(
    context: typer.Context,
    mechanism: Mechanism = None,
    sampling: Sampling = None,
    scheme: Scheme = None,
    size: Size = None,
    batch: Batch = None,
    steps: Steps = None,
    epochs: Epochs = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    adjacency: Relation = None,
    null_record: NullRecord = False,
    group: GroupSize = None,
    method: Method = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """The least noise that keeps a computation within a target; the answer never exceeds it."""
    from tacit.cli import questions

    questions.noise(context.params)


@app.command(
    epilog=_examples(
        "steps --epsilon 1 --delta 1e-6 --noise 1 --sampling 0.01",
        "steps --epsilon 1 --delta 1e-6 --event query.json",
    )
)
def steps(
    context: typer.Context,
    mechanism: Mechanism = None,
    noise: Noise = None,
    step_epsilon: StepEpsilon = None,
    step_delta: StepDelta = None,
    categories: Categories = None,
    sampling: Sampling = None,
    scheme: Scheme = None,
    size: Size = None,
    batch: Batch = None,
    event: EventFile = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    adjacency: Relation = None,
    null_record: NullRecord = False,
    group: GroupSize = None,
    method: Method = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """The most steps that a target allows."""
    from tacit.cli import questions

    questions.steps(context.params)


@app.command(
    epilog=_examples(
        "curve --noise 1.1 --sampling 256/60000 --epochs 60 --plot curve.png",
        "curve --mechanism randomized-response --step-epsilon 1/2 --categories 10 --epsilon 0.1,0.2 --json",
    )
)
def curve(
    context: typer.Context,
    mechanism: Mechanism = None,
    noise: Noise = None,
    step_epsilon: StepEpsilon = None,
    step_delta: StepDelta = None,
    categories: Categories = None,
    sampling: Sampling = None,
    scheme: Scheme = None,
    size: Size = None,
    batch: Batch = None,
    steps: Steps = None,
    epochs: Epochs = None,
    event: EventFile = None,
    epsilon: Epsilons = None,
    adjacency: Relation = None,
    null_record: NullRecord = False,
    group: GroupSize = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """The whole curve: delta at every epsilon, and the best attack at every false-positive rate."""
    from tacit.cli import questions

    questions.curve(context.params)


@app.command(
    epilog=_examples(
        "compare --mechanism laplace --noise 10 --steps 100 --delta 1e-6,1e-9 --plot compare.png",
        "compare --noise 1 --sampling 0.01 --steps 1000 --delta 1e-5",
    )
)
def compare(
    context: typer.Context,
    mechanism: Mechanism = None,
    noise: Noise = None,
    step_epsilon: StepEpsilon = None,
    step_delta: StepDelta = None,
    categories: Categories = None,
    sampling: Sampling = None,
    scheme: Scheme = None,
    size: Size = None,
    batch: Batch = None,
    steps: Steps = None,
    epochs: Epochs = None,
    event: EventFile = None,
    delta: Deltas = None,
    adjacency: Relation = None,
    null_record: NullRecord = False,
    group: GroupSize = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """What every composition theorem says, side by side."""
    from tacit.cli import questions

    questions.compare(context.params)


@app.command(epilog=_examples("demo --out pictures"))
def demo(
    out: Annotated[str, typer.Option("--out", help="The folder for the pictures.", metavar="FOLDER")] = "tacit-demo",
) -> None:
    """The accountant's showcase: two tables and four pictures in a few seconds."""
    from tacit.cli import demo as showcase

    showcase.run(out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process; the exit status."""
    status = typer.main.get_command(app).main(arguments, prog_name="tacit", standalone_mode=False)
    return int(status)
