"""What people type: the options that commands share, the numbers in them, and the words of a refusal.

All values arrive as text and are read here, exactly, so that every error names the option and the fix. A
refusal that comes from another room is found by its code (see `tacit.errors`) and worded from its facts, with
options in place of parameters and commands in place of functions.

>>> exact("--sampling", "256/60000"), exact("--delta", "1e-5"), number("--noise", "1.1")
(Fraction(8, 1875), Fraction(1, 100000), 1.1)
>>> from tacit.accounting import ParameterError
>>> in_options(ParameterError(code="parameter-range", parameter="delta", range="between 0 and 1", given=2))
'--delta must be between 0 and 1, not 2'
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from tacit.errors import TacitError

if TYPE_CHECKING:  # the command must answer --help without the accountant
    from tacit.accounting import Refusal

# --- numbers ----------------------------------------------------------------------------------------------

T = TypeVar("T")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_LONGEST = 80  # characters; a longer number is a mistake, and its powers of ten could fill the memory


class OptionError(TacitError):
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


# --- options ----------------------------------------------------------------------------------------------

WHAT, ASK, SHOW = "What is done to the data", "The question", "The answer"


#: What stands for the value of an option in the help; a number, unless it is here.
_VALUES = {"event": "FILE", "plot": "FILE"}
_VALUES |= dict.fromkeys(("adjacency", "mechanism", "method", "scheme"), "NAME")


def option_name(parameter: str) -> str:
    """--step-epsilon for step_epsilon."""
    return "--" + parameter.replace("_", "-")


def _texts(panel: str, *, kind: Any = str, **helps: str) -> dict[str, Any]:
    """Options that take a text (with `kind=list[str]`, several), each named after its parameter."""
    found = {}
    for name, text in helps.items():
        flag, value = option_name(name), _VALUES.get(name, "NUMBER")
        option = typer.Option(flag, help=text, metavar=value, rich_help_panel=panel, show_default=False)
        found[name] = Annotated[kind | None, option]
    return found


def _flag(panel: str, name: str, text: str) -> Any:
    return Annotated[bool, typer.Option(name, help=text, rich_help_panel=panel, show_default=False)]


#: What is done to the data, under the names that `questions` reads.
DESCRIBED = _texts(
    WHAT,
    mechanism="gaussian (default), laplace, discrete-gaussian or discrete-laplace, described by --noise; "
    "or pure, approximate, randomized-response, exponential or staircase, described by --step-epsilon.",
    noise="Noise relative to what one record can contribute: the noise multiplier sigma / C, or scale / C.",
    step_epsilon="The epsilon of one step, for mechanisms that come with one.",
    step_delta="The delta of one step, for --mechanism approximate.",
    categories="How many answers randomised response chooses from (default 2).",
    sampling="The share of the records in one step, such as 0.01 or 256/60000.",
    scheme="How the records of a step are chosen: poisson (default), without-replacement, with-replacement, "
    "or random-allocation (each record in one step of every epoch).",
    size="The number of records; with --batch in place of --sampling.",
    batch="The number of records in one step.",
    steps="The number of steps (default 1).",
    epochs="Passes over the data in place of --steps: epochs * size / batch steps, rounded down.",
    event="A JSON file with any event, in place of the options above (--steps repeats it).",
)
#: Whom the guarantee protects.
PROTECTED = {
    **_texts(
        ASK,
        adjacency="add-remove, replace-one or zero-out. By default what the sampler is proved for. Under "
        "replace-one a record goes and another comes, so noise counts half; a --step-epsilon is taken to "
        "hold for the relation asked for.",
    ),
    "null_record": _flag(ASK, "--null-record", "An absent record is treated exactly as a fixed public one."),
    **_texts(ASK, group="The unit is a group of so many records: a person with several rows."),
}
#: How the answer is shown.
SHOWN = {
    **_texts(SHOW, plot="Draw the picture into this .png, .pdf or .svg."),
    "as_json": _flag(SHOW, "--json", "Print one JSON object."),
}
DELTAS = _texts(ASK, kind=list[str], delta="One or more, with commas or repeated.")
EPSILONS = _texts(ASK, kind=list[str], epsilon="One or more, with commas or repeated.")
#: The target of a search.
TARGET = _texts(
    ASK, epsilon="The epsilon of the target.", delta="The delta of the target (0 where nothing else is said)."
)
METHOD = _texts(ASK, method="One theorem only, by its name in tacit compare; by default the tightest.")
CERTIFY = {"certify": _flag(ASK, "--certify", "Prove the bracket in ball arithmetic (extra: proof).")}


def shown_examples(*lines: str) -> str:
    """Commands to try, for the end of a help page; paragraphs, so that each stays on its own line."""
    return "\n\n".join(["Examples:", *(f"[bold]tacit {line}[/bold]" for line in lines)])


def takes(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options, all of them optional; it reads them from its context.

    >>> @takes(**SHOWN)
    ... def command(context: typer.Context, **options: Any) -> None: ...
    >>> list(inspect.signature(command).parameters)
    ['context', 'plot', 'as_json']
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    given = [inspect.Parameter("context", keyword, annotation=typer.Context)]
    for name, option in options.items():
        given.append(inspect.Parameter(name, keyword, annotation=option, default=False if get_args(option)[0] is bool else None))

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        vars(command)["__signature__"] = inspect.Signature(given)
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in given}
        return command

    return with_options


# --- refusals ---------------------------------------------------------------------------------------------

#: The options behind the parameters that the accountant names.
OPTIONS = {
    **{"delta": "--delta", "epsilon": "--epsilon", "categories": "--categories", "rate": "--sampling"},
    **dict.fromkeys(("noise_multiplier", "sigma", "scale"), "--noise"),
}

#: The refusals that name a parameter, a function or a keyword of Python, in the words of the command.
WORDS: Mapping[str, str] = {
    "analyst-needed": "several analysts use this book ({analysts}), and the user of the system is none of them; say who asks",
    "function-raises": (
        "the function raised {type} in {share} of {inputs} runs, so it was never attacked; it receives {receives}. Give data of its "
        "own with --data, or the form it takes with --form pandas, list or arrow"
    ),
    "allocation-not-replaced": (
        "random allocation is proved for add/remove and zero-out; ask for --adjacency add-remove"
    ),
    "correction-refused": (
        "{names} cannot be paid for once more: no delta is left for corrections. Run again with --lost "
        "leave-out to publish the others, and in the next job keep a share for corrections with "
        "budget.reserve, such as 0.05"
    ),
    "delta-needed": (
        "{parameter} must be positive: this event has no finite epsilon at delta = 0 (Gaussian noise and "
        "approximate guarantees never do); ask for a delta well below one over the number of people, such as "
        "1e-6"
    ),
    "fixed-size-is-public": (
        "sampling without replacement keeps the size of the data public, so it has no guarantee for "
        "add/remove; ask for --adjacency replace-one, or --scheme poisson"
    ),
    "held-back": (
        "the release is held back, because its totals do not add up: {reasons}. Nothing is published, and what was drawn is kept. Look at "
        "the data with tacit check-data; run again with --accept to publish it as it is, or mend the data and run it as a correction or "
        "another period, which pays anew"
    ),
    "ledger-missing": "there is no ledger here; check the path (tacit run makes a new one)",
    "output-failed": (
        "an output failed, or was stopped, after the data was touched: what was paid stays paid, and it is "
        "not drawn again. Run again with --lost correct to pay for it once more, or with --lost leave-out to "
        "publish the others"
    ),
    "output-lost": (
        "an earlier run began {names} and was stopped before the answer was stored. A draw is never repeated "
        "under the same reservation: run again with --lost correct to pay for it once more (a correction), "
        "or with --lost leave-out to publish the others"
    ),
    "parameter-range": "{parameter} must be {range}, not {given}",
    "poisson-needs-add-remove": (
        "Poisson sampling amplifies guarantees for add/remove, because its sample size is random; the inner "
        "event is stated for replace-one. State it for add-remove, or use --scheme without-replacement"
    ),
    "relation-not-covered": (
        "a guarantee stated for {stated.value} says nothing about {asked.value}: the number of records is "
        "public in the first and private in the second. Add --null-record if the computation treats an "
        "absent record exactly as a public null record, or ask for --adjacency {stated.value}"
    ),
    "statement-failed": "{engine} could not run the statement; tacit explain shows it",
}


def in_options(error: Refusal, otherwise: str | None = None) -> str:
    """What is refused, in the words of the command; where it has none, `otherwise` or the error's own."""
    parameter = error.facts.get("parameter")
    return error.said(WORDS, otherwise, parameter=OPTIONS.get(str(parameter), parameter))
