"""`tacit fairness`: rates and gaps of a file of decisions for a price, and who pays for noise in counts that share out money.

    tacit fairness audit decisions.parquet --label y --prediction p --group sex,race --epsilon 0.5 --values sex=F,M --values race=a,b,c
    tacit fairness allocation counts.csv --noise laplace --scale 10 --total 1e6

`audit` reads people's rows, pays (from a ledger if one is named), and prints noisy figures with intervals. `allocation` reads public
counts and simulates.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from tacit.cli.options import OptionError, number
from tacit.pictures import check_path

if TYPE_CHECKING:
    from tacit.fairness import FundShares, PrivateRates

fairness_app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Fairness: rates and gaps between groups for a price, and what noise does to shares.",
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]
Plot = Annotated[str | None, typer.Option("--plot", help="Draw a picture into this file.", metavar="FILE")]


def _columns(path: str, wanted: list[str] | None = None) -> dict[str, Any]:
    """Columns of a Parquet or CSV file, the last one if none are named. Cells of a CSV stay texts.

    A reader that guesses the type of a column would let one person's cell change how every other one is read.
    """
    import csv

    import pyarrow as pa
    from pyarrow import parquet

    parquet_file = path.endswith(".parquet")
    csv.field_size_limit(2**31 - 1)  # one person's long cell must not stop the reading before anything is paid
    try:
        if parquet_file:
            names = parquet.read_schema(path).names
        else:
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                names = next(csv.reader(file), [])
    except (OSError, pa.ArrowInvalid):
        raise OptionError(f"{path} cannot be read as {'Parquet' if parquet_file else 'CSV'}") from None
    wanted = names[-1:] if wanted is None else wanted
    absent = [name for name in wanted if name not in names]
    if absent or not wanted:
        raise OptionError(f"{path} has no column {absent[0]!r}; it has {', '.join(names)}" if absent else f"{path} has no columns")
    if parquet_file:
        table = parquet.read_table(path, columns=wanted)
        return {name: table.column(name) for name in wanted}
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        places = [names.index(name) for name in wanted]
        cells = [[row[place] if place < len(row) else "" for place in places] for row in rows if row]
    return {name: [row[i] for row in cells] for i, name in enumerate(wanted)}


def _value(text: str) -> object:
    """A number where the text spells one, so that 1, 1.0 and "1" are one label."""
    try:
        found = float(text)
    except ValueError:
        return text
    return int(found) if found.is_integer() else found


def _declared(names: list[str], values: list[str]) -> dict[str, list[str]]:
    """--values sex=F,M for every group attribute."""
    found: dict[str, list[str]] = {}
    for given in values:
        name, equals, listed = given.partition("=")
        if not equals or name.strip() not in names:
            raise OptionError(f"--values {given} must be NAME=VALUE,VALUE for a name of --group ({', '.join(names)})")
        found[name.strip()] = [value.strip() for value in listed.split(",")]
    missing = [name for name in names if name not in found]
    if missing:
        raise OptionError(f"declare the public values of {missing[0]}: --values {missing[0]}=A,B; they are never read from the data")
    return {name: found[name] for name in names}


@fairness_app.command(
    epilog="[bold]tacit fairness audit decisions.parquet --label y --prediction p --group sex --values sex=F,M --epsilon 0.5[/bold]"
)
def audit(
    path: Annotated[str, typer.Argument(help="People's decisions: a Parquet or CSV file, one row a person.", metavar="FILE")],
    label: Annotated[str, typer.Option("--label", help="The column that says what was true.")],
    prediction: Annotated[str, typer.Option("--prediction", help="The column that says what was decided.")],
    group: Annotated[str, typer.Option("--group", help="The columns of the groups, with commas between them.")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="What the figures may cost.")],
    values: Annotated[list[str] | None, typer.Option("--values", help="The public values of a group column: sex=F,M. For each.")] = None,
    delta: Annotated[str, typer.Option("--delta", help="With it Gaussian noise is allowed too.")] = "0",
    positive: Annotated[str, typer.Option("--positive", help="The label, and the decision, that is selected.")] = "1",
    notion: Annotated[str, typer.Option("--notion", help="What to compare, with commas between them.")] = "equalized_odds",
    undeclared: Annotated[bool, typer.Option("--undeclared", help="Also the share of people whose group is not declared.")] = False,
    ledger: Annotated[str | None, typer.Option("--ledger", help="Pay from an account of this book.", metavar="BOOK")] = None,
    account: Annotated[str | None, typer.Option("--account", help="Which account of the book.")] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Rates by group and their gaps, with intervals, from one noisy histogram of a file of decisions."""
    from tacit.cli.output import console
    from tacit.fairness import FairnessError, incompatible, private_rates
    from tacit.ledger import Ledger

    names = [name.strip() for name in group.split(",")]
    groups = _declared(names, values or [])
    if plot is not None:  # before anything is paid
        check_path(plot)
    if (ledger is None) != (account is None):
        raise OptionError("give --ledger and --account together, or neither")
    notions = [name.strip() for name in notion.split(",")]
    try:
        warned = incompatible(*notions)
    except FairnessError as error:
        raise OptionError(str(error)) from None
    columns = _columns(path, list(dict.fromkeys([label, prediction, *names])))
    payer = None if ledger is None else Ledger.at(ledger, create=False).account(str(account))
    found = private_rates(
        columns[label], columns[prediction], groups=groups, sensitive_features=columns, positive=_value(positive),
        epsilon=number("--epsilon", epsilon), delta=number("--delta", delta) or None, account=payer, undeclared=undeclared,
    )  # fmt: skip
    # What was paid for is printed first: a picture that cannot be written must not take it along.
    if as_json:
        print(json.dumps(_record(found, notions, warned)))
    else:
        _print(console(), found, notions, warned)
    if plot is not None:
        try:
            found.plot(notion=notions[0], path=plot)
        except OSError:
            raise OptionError(f"the picture cannot be written to {plot}; the figures above are paid for") from None


def _record(found: PrivateRates, notions: list[str], warned: list[str]) -> dict[str, Any]:
    from tacit.fairness import group_words

    def one(figure: Any) -> dict[str, Any]:
        return {"value": figure.value if figure.known else None, "low": figure.low, "high": figure.high}

    return {
        "event": repr(found.event),
        "epsilon": found.privacy.upper,
        "private": found.private,
        "rates": {rate: {group_words(key): one(x) for key, x in of.items()} for rate, of in found.by_group.items()},
        "differences": {name: one(found.difference(name)) for name in notions},
        "ratios": {name: one(found.ratio(name)) for name in notions},
        "undeclared": None if found.undeclared is None else one(found.undeclared),
        "notes": [*warned, *found.notes],
    }


def _print(console: Any, found: PrivateRates, notions: list[str], warned: list[str]) -> None:
    from rich.table import Table

    from tacit.fairness import group_words, rates_of

    shown = dict.fromkeys(rate for notion in notions for rate in rates_of(notion))
    table = Table("group", *(rate.replace("_", " ") for rate in shown), title="rates with 95% intervals", title_justify="left")
    for key in found.groups.keys:
        table.add_row(group_words(key), *(str(found.by_group[rate][key]) for rate in shown))
    console.print(table)
    for notion in notions:
        console.print(f"{notion.replace('_', ' ')}: gap {found.difference(notion)}, ratio {found.ratio(notion)}")
    console.print(f"cost: {found.event!r}, epsilon {found.privacy.upper:.6g}")
    for note in (*warned, *found.notes):
        console.print(f"note: {note}")


@fairness_app.command(epilog="[bold]tacit fairness allocation counts.csv --noise laplace --scale 10 --total 1e6[/bold]")
def allocation(
    path: Annotated[str, typer.Argument(help="Public counts: a CSV file whose last column is a count.", metavar="COUNTS")],
    scale: Annotated[str, typer.Option("--scale", help="The scale of the noise (Gaussian: its deviation).")],
    total: Annotated[str, typer.Option("--total", help="The sum that is shared out.")],
    noise: Annotated[str, typer.Option("--noise", help="laplace, discrete or gaussian.")] = "laplace",
    threshold: Annotated[str | None, typer.Option("--threshold", help="Also: how often places near it are misjudged.")] = None,
    refused: Annotated[str, typer.Option("--refused", help="False refusals to allow at the threshold, for the shift.")] = "0.05",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """What noise in counts does to shares of a fund, by size of district; from public counts, nothing is spent."""
    from tacit.cli.output import console
    from tacit.errors import ParameterError
    from tacit.fairness import allocate, choose_shift, clipping_bias, threshold_error

    (listed,) = _columns(path).values()
    try:
        sizes = [float(str(value)) for value in listed]
        spread = float(number("--scale", scale))
        law = cast(Literal["laplace", "discrete", "gaussian"], noise)  # what is none of them is refused by what takes it
        found = allocate(sizes, scale=spread, total=float(number("--total", total)), law=law)
        told: dict[str, Any] = {"by_size": found.by_size(), "moved": found.moved}
        told["bias"] = {size: clipping_bias(size, spread, law) for size in found.by_size() if size == int(size)}
        if threshold is not None:
            limit = float(number("--threshold", threshold))
            shift = choose_shift(scale=spread, refused=float(number("--refused", refused)), law=law)
            near = [round(limit * part, 9) for part in (0.8, 0.9, 1.0, 1.1, 1.2)]
            told["misjudged"] = {size: threshold_error(size, threshold=limit, scale=spread, law=law) for size in near}
            told["shift"] = shift
    except (ParameterError, TypeError, ValueError) as error:
        raise OptionError(str(error) if isinstance(error, ParameterError) else f"the last column of {path} must be counts") from None
    if plot is not None:
        try:
            found.plot(path=plot)
        except OSError:
            raise OptionError(f"the picture cannot be written to {plot}") from None
    if as_json:
        print(json.dumps({key: {str(k): v for k, v in of.items()} if isinstance(of, dict) else of for key, of in told.items()}))
        return
    _print_allocation(console(), found, told)


def _print_allocation(console: Any, found: FundShares, told: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("people", "received / due", "bias of a count that is never negative", title="who pays for the noise")
    for size, ratio in list(found.by_size().items())[:40]:
        bias = told["bias"].get(size)
        table.add_row(f"{size:g}", f"{ratio:.3f}", "" if bias is None else f"{bias:+.3g}" if bias >= 1e-6 else "0")
    console.print(table)
    console.print(f"{found.moved:,.0f} of {found.total:,.0f} goes elsewhere on average")
    if "shift" in told:
        chances = ", ".join(f"{size:g}: {chance:.0%}" for size, chance in told["misjudged"].items())
        console.print(f"misjudged at the threshold, by true size: {chances}; lower it by {told['shift']:.3g} to refuse few who reach it")
