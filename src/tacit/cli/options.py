"""The options that several commands share. All values arrive as text: `numbers` and `plan` read them, so that every error is ours.

>>> Noise.__metadata__[0].help[:5]
'Noise'

Numbers as people type them: decimals, powers of ten and fractions, read exactly, with an error that names the option.

>>> exact("--sampling", "256/60000")
Fraction(8, 1875)
>>> exact("--delta", "1e-5")
Fraction(1, 100000)
>>> number("--noise", "1.1")
1.1
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Any, TypeVar, get_args

import typer

T = TypeVar("T")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_LONGEST = 80  # characters; a longer number is a mistake, and its powers of ten could fill the memory


class OptionError(Exception):
    """A request that cannot be understood; the message is one line that names the option and the fix."""


def shown(text: object) -> str:
    """What was typed, for an error message: one line, not too long."""
    quoted = repr(text)
    return quoted if len(quoted) <= 48 else f"{quoted[:45]}..."


def exact(option: str, text: str) -> Fraction:
    """The exact value of a number or of a fraction of two numbers, within the range of floating point."""
    parts = text.strip().split("/")
    if len(text) > _LONGEST or len(parts) > 2 or not all(_DECIMAL.fullmatch(part.strip()) for part in parts):
        raise OptionError(f"{option} must be a number such as 0.01, 1e-5 or 256/60000, not {shown(text)}")
    values = [Fraction(part.strip()) for part in parts]
    if len(values) == 2 and values[1] == 0:
        raise OptionError(f"{option} divides by zero: {shown(text)}")
    value = values[0] / values[1] if len(values) == 2 else values[0]
    if abs(value) > Fraction(10) ** 300 or 0 < abs(value) < Fraction(1, 10**300):
        raise OptionError(f"{option} must lie between 1e-300 and 1e300 in size, not {shown(text)}")
    return value


def number(option: str, text: str) -> float | Fraction:
    """A fraction where a fraction was typed, else a float."""
    value = exact(option, text)
    return value if "/" in text else float(value)


def positive(option: str, text: str) -> float | Fraction:
    """A number above zero.

    >>> positive("--noise", "-1")
    Traceback (most recent call last):
    tacit.cli.options.OptionError: --noise must be above 0, not '-1'
    """
    value = number(option, text)
    if value <= 0:
        raise OptionError(f"{option} must be above 0, not {shown(text)}")
    return value


def share(option: str, text: str) -> Fraction:
    """A rate in (0, 1], exactly."""
    value = exact(option, text)
    if not 0 < value <= 1:
        raise OptionError(f"{option} must be above 0 and at most 1, not {shown(text)}; it is the share of the records in one step")
    return value


def probability(option: str, text: str) -> float:
    """A number in [0, 1]."""
    value = float(exact(option, text))
    if not 0 <= value <= 1:
        raise OptionError(f"{option} must be between 0 and 1, not {shown(text)}")
    return value


def whole(option: str, text: str) -> int:
    """A whole number, at least 1; 1e6 is one.

    >>> whole("--steps", "1e4")
    10000
    """
    value = exact(option, text)
    if value.denominator != 1 or value < 1:
        raise OptionError(f"{option} must be a whole number of at least 1, not {shown(text)}")
    if value > 10**15:
        raise OptionError(f"{option} must be at most 1e15, not {shown(text)}")
    return int(value)


def several(option: str, texts: Iterable[str] | None, read: Callable[[str, str], T], example: str) -> list[T]:
    """The values of an option that may be repeated or hold a list with commas; at least one.

    >>> several("--delta", ["1e-5,1e-6", "1e-7"], probability, "1e-5")
    [1e-05, 1e-06, 1e-07]
    """
    found = [read(option, part) for text in texts or () for part in text.split(",")]
    if not found:
        raise OptionError(f"{option} is missing; give for example {option} {example}")
    return found


def proved_digits(lower: float, upper: float, *, least: int = 7, most: int = 17) -> int:
    """How many significant digits a bracket settles, and two more: what is printed beyond them would be noise.

    >>> proved_digits(1.0, 1.5), proved_digits(1.0, 1 + 1e-12), proved_digits(2.0, 2.0)
    (7, 14, 17)
    """
    if not 0 < lower <= upper < math.inf or lower == upper:
        return most if lower == upper else least
    return min(max(math.ceil(-math.log10((upper - lower) / upper)) + 2, least), most)


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
