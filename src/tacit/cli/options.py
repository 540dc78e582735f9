"""The options that several commands share. All values arrive as text: `numbers` and `plan` read them, so that every error is ours.

>>> Noise.__metadata__[0].help[:5]
'Noise'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args

import typer

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

#: Options of the same command group under the names that `questions` reads.
DESCRIBED: Mapping[str, Any] = {
    "mechanism": Mechanism,
    "noise": Noise,
    "step_epsilon": StepEpsilon,
    "step_delta": StepDelta,
    "categories": Categories,
    "sampling": Sampling,
    "scheme": Scheme,
    "size": Size,
    "batch": Batch,
    "steps": Steps,
    "epochs": Epochs,
    "event": EventFile,
}
PROTECTED: Mapping[str, Any] = {"adjacency": Relation, "null_record": NullRecord, "group": GroupSize}
SHOWN: Mapping[str, Any] = {"plot": Plot, "as_json": Json}


def takes(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options, all of them optional; it reads them from its context.

    >>> @takes(steps=Steps, as_json=Json)
    ... def command(context: typer.Context, **options: Any) -> None: ...
    >>> list(inspect.signature(command).parameters)
    ['context', 'steps', 'as_json']
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    given = [inspect.Parameter("context", keyword, annotation=typer.Context)]
    for name, option in options.items():
        given.append(inspect.Parameter(name, keyword, annotation=option, default=False if get_args(option)[0] is bool else None))

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        command.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in given}
        return command

    return with_options
