"""`tacit energy`: how far one load of a network moves its dispatch, before anything is published.

    tacit energy sensitivity case9.m --change 5 --epsilon 1

It reads the public tables of a case alone: the answer is the same whatever the loads are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.options import OptionError, number

if TYPE_CHECKING:
    from tacit.applications.energy import Congestion

#: Refusals, worded for this command.
WORDS = {
    "congestion-sets-needed": (
        "{sets} congestion sets would have to be checked, and {limit} are the most; declare which limits may bind "
        "together with --congested, or publish the loads (tacit.applications.energy.release_case)"
    ),
}

energy_app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Energy: what one load does to a network's dispatch.",
)


@energy_app.callback()
def _group() -> None:
    """Keeps the command's name when there is only one."""


@energy_app.command(
    "sensitivity",
    epilog="[bold]tacit energy sensitivity case9.m --change 5 --epsilon 1 --plot ratio.png[/bold]",
)
def sensitivity(
    case: Annotated[str, typer.Argument(help="A MATPOWER case (.m) or a pandapower network (.json).", metavar="FILE")],
    change: Annotated[str, typer.Option("--change", help="How far one load may differ, in MW.")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="What a release may cost.")],
    congested: Annotated[
        list[str] | None,
        typer.Option(
            "--congested",
            help="Limits that may bind together: buses of generators, then lines, as 1,3 or 1;8-9. Repeat it for every set.",
        ),
    ] = None,
    plot: Annotated[str | None, typer.Option("--plot", help="Draw the worst case into this file.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of words.")] = False,
) -> None:
    """The monotonicity ratio of a network, the noise of each way to release it, and what that means."""
    from tacit.applications import energy
    from tacit.cli import output
    from tacit.errors import PackageMissing, ParameterError
    from tacit.pictures import check_path

    moved, price = float(number("--change", change)), float(number("--epsilon", epsilon))
    if moved <= 0 or price <= 0:
        raise OptionError("--change and --epsilon must be positive")
    sets = None if not congested else [_set(text) for text in congested]
    try:
        if plot is not None:
            check_path(plot)
        network = energy.Network.read(case)
        found = energy.monotonicity(network, sets)
    except energy.EnergyError as error:
        raise OptionError(error.said(WORDS)) from None
    except (PackageMissing, ParameterError) as error:
        raise OptionError(str(error)) from None
    if plot is not None:
        energy.draw_congestion(network, plot, found=found)
    rows = {"loads": moved / price, "regional sums": found.scale(moved, price)}
    if as_json:
        said = {
            "network": network.name, "buses": len(network.bus), "ratio": found.ratio, "sets": found.sets, "declared": found.declared,
            "bus": found.bus, "generators": list(found.generators), "lines": [list(line) for line in found.lines],
            "response": list(found.response), "change": moved, "epsilon": price, "scales": rows, "unit": energy.protected_unit(moved),
        }  # fmt: skip
        print(json.dumps(said))
        return
    console = output.console()
    table = output.titled(f"{network.name}: {energy.protected_unit(moved)}, epsilon {price:g}", ("what is released", "noise (MW)"))
    table.add_row("each load (release_case, the default)", f"{rows['loads']:.6g}")
    table.add_row("sums of regions of the true dispatch", f"{rows['regional sums']:.6g}")
    console.print(table)
    console.print(f"ratio {found.ratio:.6f}: {found.words()}.")
    if rows["regional sums"] > network.capacity / 10:
        console.print(f"All generators together deliver {network.capacity:,.6g} MW: publish the loads instead.")
    if plot is not None:
        console.print(f"written: {plot}")


def _set(text: str) -> Congestion:
    """A congestion set from the command line: 1,3 or 1;8-9 or ;8-9,4-5."""
    from tacit.applications.energy import Congestion

    generators, _, lines = text.partition(";")
    try:
        buses = tuple(int(part) for part in generators.split(",") if part.strip())
        pairs = [tuple(int(end) for end in part.split("-")) for part in lines.split(",") if part.strip()]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError
    except ValueError:
        raise OptionError("--congested must be buses of generators, then lines after a semicolon: 1,3 or 1;8-9") from None
    return Congestion(buses, tuple((pair[0], pair[1]) for pair in pairs))
