"""`tacit health`: plan a trial, and show what a beacon would answer.

    tacit health sample-size --rate 0.5 --effect 0.1 --epsilon 0.1
    tacit health beacon --people 500 --epsilon 0.2,1

Nothing here touches data; what does is a kind of output of a release job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from tacit.cli.options import OptionError, number

if TYPE_CHECKING:
    from collections.abc import Sequence

health_app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Health: sample sizes of trials, answers of beacons.",
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of words.")]
Plot = Annotated[str | None, typer.Option("--plot", help="Draw a picture into this file.", metavar="FILE")]


@health_app.command(
    "sample-size",
    epilog="[bold]tacit health sample-size --rate 0.5 --effect 0.1 --epsilon 0.1,1 --plot sizes.png[/bold]",
)
def sample_size(
    rate: Annotated[str, typer.Option("--rate", help="The share of successes under the null hypothesis.")],
    effect: Annotated[str, typer.Option("--effect", help="How much higher the share is that must be found.")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="What publishing the share may cost; several with commas.")],
    alpha: Annotated[str, typer.Option("--alpha", help="The two-sided level of the test.")] = "0.05",
    power: Annotated[str, typer.Option("--power", help="The chance to find the effect.")] = "0.8",
    method: Annotated[str, typer.Option("--method", help="exact, or approximate (a closed form).")] = "exact",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """How many patients a trial needs when its share of successes is published with noise."""
    from tacit.applications import health
    from tacit.cli import output
    from tacit.errors import ParameterError

    prices = [float(number("--epsilon", part)) for part in epsilon.split(",")]
    shares = float(number("--rate", rate)), float(number("--effect", effect))
    level, chance = float(number("--alpha", alpha)), float(number("--power", power))
    if method not in ("exact", "approximate"):
        raise OptionError(f"--method must be exact or approximate, not {method!r}")
    how = cast(Literal["exact", "approximate"], method)
    try:
        found = [health.sample_size(*shares, epsilon=e, alpha=level, power=chance, method=how) for e in prices]
    except ParameterError as error:
        raise OptionError(str(error)) from None
    if plot is not None:
        _sizes(plot, shares, level, chance, prices)
    if as_json:
        rows = [
            {"epsilon": e, "plain": one.plain, "private": one.private, "times": one.times, "people": one.people}
            for e, one in zip(prices, found, strict=True)
        ]
        print(json.dumps({"method": method, "sizes": rows}))
        return
    table = output.titled("Patients", ("epsilon", "without privacy", "with privacy", "times as many"))
    for e, one in zip(prices, found, strict=True):
        table.add_row(f"{e:g}", f"{one.plain:.2f}", f"{one.people} ({one.private:.2f})", f"{one.times:.3f}")
    output.console().print(table)
    if plot is not None:
        output.console().print(f"written: {plot}")


def _sizes(path: str, shares: tuple[float, float], alpha: float, power: float, marked: Sequence[float]) -> None:
    import numpy as np

    from tacit.applications import health
    from tacit.pictures import BLUE, GREY, RED, canvas, dress, finish

    figure, ax = canvas(None, path)
    grid = np.geomspace(min(0.01, *marked), max(2.0, *marked), 60)
    sizes = [health.sample_size(*shares, epsilon=float(e), alpha=alpha, power=power) for e in grid]
    ax.loglog(grid, [one.private for one in sizes], color=BLUE, label="with privacy")
    ax.axhline(sizes[0].plain, color=GREY, linestyle="--", label="without")
    own = [health.sample_size(*shares, epsilon=e, alpha=alpha, power=power).people for e in marked]
    ax.plot(marked, own, "o", color=RED)
    for e, size in zip(marked, own, strict=True):
        ax.annotate(f"{size}", (e, size), textcoords="offset points", xytext=(6, 6))
    ax.legend()
    dress(ax, f"Patients to find {shares[1]:g} more than {shares[0]:g}", "epsilon", "patients")
    finish(figure, path)


@health_app.command(epilog="[bold]tacit health beacon --people 500 --epsilon 0.2,1 --plot beacon.png[/bold]")
def beacon(
    people: Annotated[int, typer.Option("--people", min=1, max=20_000, help="A public bound on how many people there are.")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="What one answer costs; several with commas.")],
    absence: Annotated[str, typer.Option("--absence", help="How likely a variant is absent, before it is asked for.")] = "0.5",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """How often a beacon's answer is right, by how many people carry the variant. Look at this before opening one."""
    from tacit.applications import health
    from tacit.cli import output
    from tacit.errors import ParameterError

    prices = [float(number("--epsilon", part)) for part in epsilon.split(",")]
    prior = float(number("--absence", absence))
    shown = [c for c in (0, 1, 2, 5, 10, 20, 40, 80, 160, 320) if c <= people]
    try:
        curves = {e: health.operating_curve(people, e, absence=prior, counts=shown) for e in prices}
        if plot is not None:
            health.draw_curve(people, prices, prior, plot)
    except ParameterError as error:
        raise OptionError(str(error)) from None
    if as_json:
        rows = [{"epsilon": e, "carriers": c, "right": p} for e, curve in curves.items() for c, p in curve.items()]
        print(json.dumps({"people": people, "absence": prior, "answers": rows}))
        return
    heads = ("carriers", *(f"epsilon {e:g}" for e in prices))
    table = output.titled("Probability of the right answer", heads)
    for c in shown:
        table.add_row(str(c), *(f"{curves[e][c]:.3f}" for e in prices))
    output.console().print(table)
    if plot is not None:
        output.console().print(f"written: {plot}")
