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
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tacit import __version__
from tacit.cli import demo, jobs
from tacit.cli.audit import audit_app, selftest
from tacit.cli.ledger import ledger_app
from tacit.cli.options import DESCRIBED, PROTECTED, SHOWN, Certify, Delta, Deltas, Epsilon, Epsilons, Method, OptionError, takes
from tacit.cli.refusals import in_options


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
        words = meant(list(sys.argv[1:] if args is None else args) or ["--help"])
        try:
            with warnings.catch_warnings():
                # an engine that meets the edge of floating point falls back by itself; the warning would only worry people
                warnings.simplefilter("ignore", RuntimeWarning)
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


def meant(words: list[str]) -> list[str]:
    """`compare` with a job is about the job: what `rehearse` does. Without one it is about theorems.

    >>> meant(["compare", "job.yaml", "--runs", "5"]), meant(["compare", "--noise", "1"])
    (['rehearse', 'job.yaml', '--runs', '5'], ['compare', '--noise', '1'])
    """
    about_a_job = words[:1] == ["compare"] and len(words) > 1 and words[1].lower().endswith((".yaml", ".yml"))
    return ["rehearse", *words[1:]] if about_a_job else words


def explained(error: Exception) -> str | None:
    """The line to print for an error in the request; None for a fault of ours, which keeps its traceback.

    Numbers at the edge of floating point may defeat an engine; that is a refusal, not a crash. Its own words are not shown, because
    nobody knows what they quote.
    """
    errors = sys.modules.get("tacit.errors")
    if isinstance(error, OptionError):
        message = str(error)
    elif errors is not None and isinstance(error, errors.Refusal):
        message = in_options(error)
    elif hasattr(error, "format_message"):  # how the parser of options reports unknown ones, whatever its version
        command = getattr(getattr(error, "ctx", None), "command_path", None) or "tacit"
        message = f"{error.format_message().rstrip('.')}; see '{command} --help'"
    elif type(error).__name__ == "Abort":
        message = "interrupted"
    elif isinstance(error, (ArithmeticError, ValueError, MemoryError)) and not os.environ.get("TACIT_TRACEBACK"):
        message = (
            f"these numbers are beyond the accountant's range ({type(error).__name__}); use less extreme ones, or set TACIT_TRACEBACK=1 "
            "and report it"
        )
    else:
        return None
    return " ".join(message.split())


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
    help="Publish from sensitive data under one budget: release jobs, the ledger, and what any computation costs.",
    epilog="Numbers may be written as 0.01, 1e-5 or 256/60000. [bold]tacit COMMAND --help[/bold] shows examples.",
)


app.add_typer(audit_app, name="audit")
app.add_typer(ledger_app, name="ledger")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def tacit(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    """Publish from sensitive data under one budget: release jobs, the ledger, and what any computation costs."""


def _examples(*lines: str) -> str:
    """Paragraphs, so that the help keeps each example on a line of its own."""
    return "\n\n".join(["Examples:", *(f"[bold]tacit {line}[/bold]" for line in lines)])


_TARGET = {"epsilon": Epsilon, "delta": Delta}


def _without(*names: str) -> dict[str, Any]:
    """The description of a computation, less what is asked for or does not go with it."""
    return {name: option for name, option in DESCRIBED.items() if name not in names}


# --- commands ---------------------------------------------------------------------------------------------------------------------


@app.command(
    epilog=_examples(
        "epsilon --noise 1.1 --sampling 256/60000 --epochs 60 --delta 1e-5",
        "epsilon --noise 4 --size 60000 --batch 256 --scheme without-replacement --epochs 5 --delta 1e-5 --plot cost.png",
        "epsilon --mechanism laplace --noise 10 --steps 100 --delta 0,1e-6 --json",
    )
)
@takes(**DESCRIBED, delta=Deltas, **PROTECTED, method=Method, certify=Certify, **SHOWN)
def epsilon(context: typer.Context, **_: Any) -> None:
    """The epsilon that a computation spends at a delta."""
    from tacit.cli import questions

    questions.epsilon(context.params)


@app.command(
    epilog=_examples(
        "delta --epsilon 1,2,3 --noise 1.1 --sampling 256/60000 --epochs 60",
        "delta --epsilon 1/2 --mechanism laplace --noise 1",
    )
)
@takes(**DESCRIBED, epsilon=Epsilons, **PROTECTED, certify=Certify, **SHOWN)
def delta(context: typer.Context, **_: Any) -> None:
    """The delta that a computation spends at an epsilon."""
    from tacit.cli import questions

    questions.delta(context.params)


@app.command(
    epilog=_examples(
        "noise --epsilon 1 --delta 1e-6 --sampling 0.01 --steps 10000",
        "noise --epsilon 1 --mechanism laplace --steps 10",
    )
)
@takes(**_without("noise", "step_epsilon", "step_delta", "categories", "event"), **_TARGET, **PROTECTED, method=Method, **SHOWN)
def noise(context: typer.Context, **_: Any) -> None:
    """The least noise that keeps a computation within a target; the answer never exceeds it."""
    from tacit.cli import questions

    questions.noise(context.params)


@app.command(
    epilog=_examples(
        "steps --epsilon 1 --delta 1e-6 --noise 1 --sampling 0.01",
        "steps --epsilon 1 --delta 1e-6 --event query.json",
    )
)
@takes(**_without("steps", "epochs"), **_TARGET, **PROTECTED, method=Method, **SHOWN)
def steps(context: typer.Context, **_: Any) -> None:
    """The most steps that a target allows."""
    from tacit.cli import questions

    questions.steps(context.params)


@app.command(
    epilog=_examples(
        "curve --noise 1.1 --sampling 256/60000 --epochs 60 --plot curve.png",
        "curve --mechanism randomized-response --step-epsilon 1/2 --categories 10 --epsilon 0.1,0.2 --json",
    )
)
@takes(**DESCRIBED, epsilon=Epsilons, **PROTECTED, **SHOWN)
def curve(context: typer.Context, **_: Any) -> None:
    """The whole curve: delta at every epsilon, and the best attack at every false-positive rate."""
    from tacit.cli import questions

    questions.curve(context.params)


@app.command(
    epilog=_examples(
        "compare --mechanism laplace --noise 10 --steps 100 --delta 1e-6,1e-9 --plot compare.png",
        "compare --noise 1 --sampling 0.01 --steps 1000 --delta 1e-5",
        "compare job.yaml --by region",
    )
)
@takes(**DESCRIBED, delta=Deltas, **PROTECTED, **SHOWN)
def compare(context: typer.Context, **_: Any) -> None:
    """What every composition theorem says, side by side; with a job file, the job beside simpler ways, as `tacit rehearse` shows it."""
    from tacit.cli import questions

    questions.compare(context.params)


app.command(epilog=_examples("selftest --quick", "selftest --only sparse --json"))(selftest)
jobs.register(app)
demo.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process; the exit status."""
    status = typer.main.get_command(app).main(arguments, prog_name="tacit", standalone_mode=False)
    return int(status)
