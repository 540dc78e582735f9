"""`tacit local`: design a protocol, randomise a file as its people's devices would, collect reports, and estimate.

    tacit local design --values yes,no,maybe --epsilon 1 --people 100000 --out protocol.json
    tacit local randomise protocol.json answers.txt --out reports.arrow
    tacit local collect protocol.json counts.db reports.arrow
    tacit local estimate protocol.json counts.db --top 10 --plot shares.png

`randomise` is for trials and for files of one organisation: on a device, `tacit.local.Client` keeps the person's book.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.options import OptionError, number

if TYPE_CHECKING:
    from tacit.local import Estimates, Protocol

local_app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Reports that are randomised on people's devices: design, randomise, collect, estimate.",
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]
ProtocolFile = Annotated[str, typer.Argument(help="The protocol, as `tacit local design --out` wrote it.", metavar="PROTOCOL")]


def protocol_at(path: str) -> Protocol:
    """The protocol in a file."""
    from tacit.errors import ParameterError
    from tacit.local import Protocol

    try:
        return Protocol.read(path)
    except OSError:
        raise OptionError(f"{path} cannot be read; write a protocol with tacit local design --out {path}") from None
    except (ParameterError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: {error}") from None


@local_app.command(epilog="[bold]tacit local design --values yes,no,maybe --epsilon 1 --people 100000 --out protocol.json[/bold]")
def design(
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="What one report may tell.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="The wanted deviation of a share; decides epsilon or the people.")] = None,
    values: Annotated[str | None, typer.Option("--values", help="The public values, with commas between them.")] = None,
    size: Annotated[int | None, typer.Option("--size", min=2, help="How many values, where they are 0, 1, 2, ...")] = None,
    people: Annotated[int, typer.Option("--people", min=2, help="How many people will report.")] = 100_000,
    delta: Annotated[str, typer.Option("--delta", help="The delta of the shuffled price.")] = "1e-6",
    kind: Annotated[str, typer.Option("--kind", help="A randomiser by name; auto takes the least predicted error.")] = "auto",
    out: Annotated[str | None, typer.Option("--out", help="Write the protocol into this file.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Choose a randomiser by predicted error, and say what it costs and tells before anything is sent."""
    from tacit.cli.output import console
    from tacit.local import explain, frequencies, plan

    if (values is None) == (size is None):
        raise OptionError("give --values yes,no,... or --size, and not both")
    listed: Any = size if values is None else [value.strip() for value in values.split(",")]
    if epsilon is None and error is None:
        raise OptionError("give --epsilon, what one report may tell, or --error, the wanted deviation of a share")
    wanted = None if error is None else number("--error", error)
    spent = None if epsilon is None else number("--epsilon", epsilon)
    many = listed if isinstance(listed, int) else len(listed)
    found = plan(n=people, size=many, epsilon=spent, error=wanted, delta=number("--delta", delta))
    protocol = frequencies(listed, epsilon=found.randomiser.epsilon if spent is None else spent, kind=kind)
    if out is not None:
        protocol.write(out)
    if as_json:
        options = [vars(one) for one in found.options]
        print(json.dumps({"protocol": json.loads(protocol.to_json()), "options": options, "warnings": list(found.warnings)}))
        return
    console().print(f"{explain(protocol.size, protocol.randomiser.epsilon, n=people)}\n\n{found}")


@local_app.command(epilog="[bold]tacit local randomise protocol.json answers.txt --out reports.arrow[/bold]")
def randomise(
    protocol: ProtocolFile,
    answers: Annotated[str, typer.Argument(help="A text file, one person's value a line.", metavar="ANSWERS")],
    out: Annotated[str, typer.Option("--out", help="Write the reports into this Arrow file.", metavar="FILE")],
) -> None:
    """Randomise one value for each line, as the people's devices would. What the protocol does not list counts as its default."""
    import pyarrow as pa

    from tacit.local import schema, to_batch

    own = protocol_at(protocol)
    try:
        lines = Path(answers).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise OptionError("the file of answers cannot be read as UTF-8 text, one value a line") from None
    if isinstance(own.values, int):
        given: list[Any] = [int(line) if line.strip().isdecimal() and len(line) < 12 else None for line in lines]
    else:
        given = [line.strip() for line in lines]
    with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, schema(own)) as writer:
        writer.write_batch(to_batch(own, given))
    print(f"{len(given):,} reports in {out}, each at epsilon {float(own.randomiser.epsilon):g}")


@local_app.command(epilog="[bold]tacit local collect protocol.json counts.db reports.arrow[/bold]")
def collect(
    protocol: ProtocolFile,
    counts: Annotated[str, typer.Argument(help="The file of counts; it is made if it is not there.", metavar="COUNTS")],
    reports: Annotated[list[str], typer.Argument(help="Arrow files or streams, or reports as devices send them.", metavar="REPORTS")],
    as_json: Json = False,
) -> None:
    """Count reports. A batch that was counted before, and what is no report, is dropped and said."""
    from tacit.local import HEAD, Collector, read_stream, sealed

    own = protocol_at(protocol)
    collector = Collector(own, counts)
    head, length = sealed(own, b"")[:9], HEAD + own.randomiser.width
    for name in reports:
        whole = _after(name, head)
        if whole is not None:
            collector.ingest([whole[start : start + length] for start in range(0, len(whole), length)])
            continue
        if next(read_stream(name), None) is None:
            raise OptionError(f"{name} is no Arrow file or stream that can be read; what was counted before it stays counted")
        collector.ingest_stream(name)
    if as_json:
        print(json.dumps({"n": collector.n, "dropped": collector.dropped}))
        return
    dropped = ", ".join(f"{number:,} {why}" for why, number in sorted(collector.dropped.items())) or "none"
    print(f"{collector.n:,} reports counted in {counts}; dropped: {dropped}")


def _after(name: str, head: bytes) -> bytes | None:
    """The bytes of a file that begins with the head of a report: reports as devices send them, one after another."""
    try:
        with open(name, "rb") as opened:
            return head + opened.read() if opened.read(len(head)) == head else None
    except OSError:
        return None


@local_app.command(epilog="[bold]tacit local estimate protocol.json counts.db --top 10 --plot shares.png[/bold]")
def estimate(
    protocol: ProtocolFile,
    counts: Annotated[str, typer.Argument(help="The file of counts.", metavar="COUNTS")],
    top: Annotated[int, typer.Option("--top", min=1, help="How many values to show.")] = 20,
    plot: Annotated[str | None, typer.Option("--plot", help="Draw the shares into this file.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Estimated shares with intervals that hold for all values at once, and what forged reports could have done."""
    from tacit.cli.output import console
    from tacit.local import Collector, forged_for

    own = protocol_at(protocol)
    if not Path(counts).exists():
        raise OptionError(f"{counts} is not there; count reports with tacit local collect")
    found = Collector(own, counts).estimate()
    rows = found.top(top)
    if plot is not None:
        _picture(found, top, plot)
    if as_json:
        keys = ("value", "share", "low", "high")
        print(json.dumps({"n": found.n, "shares": [dict(zip(keys, row, strict=True)) for row in rows], "dropped": found.dropped}))
        return
    from rich.table import Table

    table = Table("value", "share", "from", "to", box=None, pad_edge=False)
    for value, share, low, high in rows:
        table.add_row(str(value), f"{share:.4f}", f"{low:.4f}", f"{high:.4f}")
    screen = console()
    screen.print(table)
    epsilon = float(own.randomiser.epsilon)
    screen.print(f"{found.n:,} reports at epsilon {epsilon:g} each; the intervals hold for all {own.size:,} values at once, 19 times in 20")
    screen.print(f"a share moves by 0.01 when {forged_for(own, 0.01):.2%} of the reports are forged")


def _picture(found: Estimates, top: int, path: str) -> None:
    """The largest shares as points with their intervals."""
    from tacit.pictures import canvas, check_path, drawable, dress, finish

    check_path(path)
    rows = found.top(top)[::-1]
    picture, axes = canvas(None, path, height=1.4 + 0.28 * len(rows))
    for place, (_, share, low, high) in enumerate(rows):
        axes.plot([low, high], [place, place], color="C0", linewidth=2)
        axes.plot([share], [place], "o", color="C0", markersize=4)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [drawable(str(value))[:30] for value, *_ in rows])
    dress(axes, f"{found.n:,} local reports", "share of the people who reported; intervals hold for all values at once", "")
    finish(picture, path)
