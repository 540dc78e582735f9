"""The `tacit` command: its subcommands, and how it reports what is wrong with a request.

    tacit epsilon --sampling 256/60000 --noise 1.1 --epochs 60 --delta 1e-5

Everything heavy is imported by the command that needs it, so that `tacit --help` answers at once. What is
wrong with a request is said in one line that names the option and the fix, with status 2; with `--json`, in
the field `error` of an object.

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
from tacit.cli import demo, jobs, mcp, serve
from tacit.cli.audit import audit_app, selftest
from tacit.cli.energy import energy_app
from tacit.cli.fairness import fairness_app
from tacit.cli.health import health_app
from tacit.cli.ledger import ledger_app
from tacit.cli.local import local_app
from tacit.cli.options import (
    CERTIFY,
    DELTAS,
    DESCRIBED,
    EPSILONS,
    METHOD,
    PROTECTED,
    SHOWN,
    TARGET,
    OptionError,
    in_options,
    shown_examples,
    takes,
)
from tacit.cli.vision import vision_app


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
    """`compare` with a job file means `rehearse`; without one it compares theorems.

    >>> meant(["compare", "job.yaml", "--runs", "5"]), meant(["compare", "--noise", "1"])
    (['rehearse', 'job.yaml', '--runs', '5'], ['compare', '--noise', '1'])
    """
    about_a_job = words[:1] == ["compare"] and len(words) > 1 and words[1].lower().endswith((".yaml", ".yml"))
    return ["rehearse", *words[1:]] if about_a_job else words


def explained(error: Exception) -> str | None:
    """The line to print for an error in the request; None for a fault of ours, which keeps its traceback.

    Numbers at the edge of floating point may defeat an engine; that is a refusal, not a crash. Its own words
    are not shown, because they may quote anything.
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
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Publish from sensitive data under one budget: release jobs, the ledger, and what any computation costs.",
    epilog="Numbers may be written as 0.01, 1e-5 or 256/60000. [bold]tacit COMMAND --help[/bold] shows examples.",
)


app.add_typer(audit_app, name="audit")
app.add_typer(ledger_app, name="ledger")
app.add_typer(local_app, name="local")
# Fields: each has a file here, whose commands import its package when they run.
app.add_typer(energy_app, name="energy")
app.add_typer(fairness_app, name="fairness")
app.add_typer(health_app, name="health")
app.add_typer(vision_app, name="vision")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def tacit(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    """Publish from sensitive data under one budget: release jobs, the ledger, and what any computation costs."""


def _without(*names: str) -> dict[str, Any]:
    """The description of a computation, less what is asked for or does not go with it."""
    return {name: option for name, option in DESCRIBED.items() if name not in names}


def _question(name: str, text: str, options: dict[str, Any], *examples: str) -> None:
    """Add a command that asks the accountant, which is loaded when the command runs."""

    @takes(**options, **SHOWN)
    def command(context: typer.Context, **_: Any) -> None:
        from tacit.cli import questions

        questions.ask(name, context.params)

    app.command(name, help=text, epilog=shown_examples(*(f"{name} {words}" for words in examples)))(command)


# --- commands ---------------------------------------------------------------------------------------------

_question(
    "epsilon",
    "The epsilon that a computation spends at a delta.",
    {**DESCRIBED, **DELTAS, **PROTECTED, **METHOD, **CERTIFY},
    "--noise 1.1 --sampling 256/60000 --epochs 60 --delta 1e-5",
    "--noise 4 --size 60000 --batch 256 --scheme without-replacement --epochs 5 --delta 1e-5 --plot cost.png",
    "--mechanism laplace --noise 10 --steps 100 --delta 0,1e-6 --json",
)
_question(
    "delta",
    "The delta that a computation spends at an epsilon.",
    {**DESCRIBED, **EPSILONS, **PROTECTED, **CERTIFY},
    "--epsilon 1,2,3 --noise 1.1 --sampling 256/60000 --epochs 60",
    "--epsilon 1/2 --mechanism laplace --noise 1",
)
_question(
    "noise",
    "The least noise that keeps a computation within a target; the answer never exceeds it.",
    _without("noise", "step_epsilon", "step_delta", "categories", "event") | TARGET | {**PROTECTED, **METHOD},
    "--epsilon 1 --delta 1e-6 --sampling 0.01 --steps 10000",
    "--epsilon 1 --mechanism laplace --steps 10",
)
_question(
    "steps",
    "The most steps that a target allows.",
    {**_without("steps", "epochs"), **TARGET, **PROTECTED, **METHOD},
    "--epsilon 1 --delta 1e-6 --noise 1 --sampling 0.01",
    "--epsilon 1 --delta 1e-6 --event query.json",
)
_question(
    "curve",
    "The whole curve: delta at every epsilon, and the best attack at every false-positive rate.",
    {**DESCRIBED, **EPSILONS, **PROTECTED},
    "--noise 1.1 --sampling 256/60000 --epochs 60 --plot curve.png",
    "--mechanism randomized-response --step-epsilon 1/2 --categories 10 --epsilon 0.1,0.2 --json",
)
_question(
    "compare",
    "What every composition theorem says, side by side; with a job file, the job beside simpler ways, "
    "as `tacit rehearse` shows it.",
    {**DESCRIBED, **DELTAS, **PROTECTED},
    "--mechanism laplace --noise 10 --steps 100 --delta 1e-6,1e-9 --plot compare.png",
    "--noise 1 --sampling 0.01 --steps 1000 --delta 1e-5",
    "job.yaml --by region",
)
app.command(epilog=shown_examples("selftest --quick", "selftest --only sparse --json"))(selftest)
jobs.register(app)
demo.register(app)
serve.register(app)
mcp.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process; the exit status."""
    status = typer.main.get_command(app).main(arguments, prog_name="tacit", standalone_mode=False)
    return int(status)
