"""`tacit demo`: a whole release on made-up hospital visits, from the data to the report, in well under a minute.

The visits come from a seeded public generator, so no person is in them; the noise is real, so the figures
differ with every run. A folder that already holds a release is left as it is, because its budget is spent:
the next run makes up other visits in a folder inside it.

`tacit demo --accountant` shows the accountant instead, in two tables and four pictures: k uses of a mechanism
by every theorem of the textbook and exactly, and a DP-SGD run priced from both sides.
"""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.options import OptionError, shown, shown_examples

COUNTS = (1, 10, 15, 20, 25, 30, 50, 100, 200, 500, 1000)
STEPS = (1, 100, 250, 500, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 11000, 12000, 13000, 14062)


def showcase(folder: str) -> None:
    """Print the tables, write the pictures into the folder, and say what to open."""
    from tacit.accounting import Gaussian, Poisson, Repeated, Sampled, account, laplace_and_gaussian, plot_cost, plot_training, rounded_up
    from tacit.accounting import compare as compare_theorems
    from tacit.cli import output
    from tacit.cli.questions import save

    place = made(folder)
    out = output.console()

    out.print("1  Composition theorems: k uses of a 0.1-DP Laplace mechanism, epsilon at delta = 1e-6", style="bold")
    with output.working("composing by seven theorems"):
        figure = laplace_and_gaussian(COUNTS)
    rows = [line for line in figure.to_text().splitlines() if line.split()[0] in ("k", "1", "10", "50", "100", "500", "1000")]
    out.print("\n".join(f"   {line}" for line in rows))
    out.print("   Exact composition is what the theorems bound; Gaussian noise of the same variance composes better still.\n")
    save(figure.plot(), str(place / "composition.png"))

    out.print("2  DP-SGD: 60,000 records, batches of 256, noise multiplier 1.1, 60 epochs", style="bold")
    step = Sampled(Poisson(Fraction(256, 60000)), Gaussian(1.1))
    cost = account(Repeated(step, 14062))
    began = time.perf_counter()
    found = cost.epsilon(1e-5)
    took = time.perf_counter() - began
    out.print(f"   epsilon at delta = 1e-5 lies between {output.rounded_down(found.lower, 11)} and {rounded_up(found.upper, 11)},")
    out.print(f"   found in {1000 * took:.0f} ms by {found.method}\n")
    with output.working("comparing theorems"):
        table = compare_theorems(cost.event, [1e-5])
    out.print("\n".join(f"   {line}" for line in table.to_text().splitlines()[: 1 + len(table.rows)]))
    out.print("\n   In plain words", style="bold")
    for line in output.plain_words(cost, [(found.upper, 1e-5)]):
        out.print(f"   {line}")
    with output.working("drawing"):
        save(table.plot(), str(place / "theorems.png"))
        save(plot_cost(cost, mark=(found.upper, 1e-5)), str(place / "dp-sgd.png"))
        save(plot_training(lambda t: Repeated(step, t), STEPS, [1e-5, 1e-8]), str(place / "training.png"))

    out.print(f"\nOpen the pictures in {place}:", style="bold")
    for name, what in (
        ("composition.png", "epsilon against the number of compositions, by every theorem"),
        ("dp-sgd.png", "the whole cost of the training run: its privacy profile, and the best membership attack"),
        ("theorems.png", "the training run by every theorem that applies"),
        ("training.png", "epsilon as the training goes on"),
    ):
        out.print(f"   {place / name}  {what}")


def made(folder: str) -> Path:
    """The folder, made where it is not there yet."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a folder name"
        raise OptionError(f"--out: cannot make the folder {shown(folder)}: {reason}") from None
    return place


FOLDER = "tacit-demo"
ROWS = 100_000
JOB = "hospital.yaml"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("demo", epilog=shown_examples("demo", "demo --accountant --out pictures"))(demo)


def demo(
    out: Annotated[str, typer.Option("--out", help="The folder to write into.", metavar="FOLDER")] = FOLDER,
    rows: Annotated[int, typer.Option("--rows", min=1000, max=100_000_000, help="How many visits to make up.")] = ROWS,
    accountant: Annotated[bool, typer.Option("--accountant", help="Show what the accountant does instead.")] = False,
) -> None:
    """A whole release on made-up hospital visits: data, plan, run, report."""
    if accountant:
        showcase(out)
    else:
        run(out, rows=rows)


def run(folder: str, *, rows: int = ROWS) -> None:
    """Make the data and the job, plan, run, and say what to open."""
    from tacit.cli import output
    from tacit.cli.jobs import answered

    first = made(folder)
    place, number = fresh(first)
    out = output.console()
    if number > 1:
        out.print(f"{first} holds a release already. Its budget is spent: the ledger would refuse the same data once more, and a release")
        out.print(f"is never overwritten. So this run makes up other visits, with a book of their own, in {place}.\n")
    with answered(False):
        from tacit.ledger import Ledger
        from tacit.release import load, plan, write_visits
        from tacit.release import run as finished

        began = time.perf_counter()
        out.print(f"1  The data: {rows:,} made-up hospital visits; some patients come often, costs are skewed, some missing", style="bold")
        data = write_visits(place / "visits.parquet", rows, edition=6 + number)
        job_file = place / JOB
        job_file.write_text(text(rows), encoding="utf-8")
        out.print(f"   {data} and the job {job_file}: what to publish, whom to protect, what it may cost\n")

        out.print("2  The plan: price and error of every figure, before any data is touched (tacit plan)", style="bold")
        with output.working("planning"):
            job = load(job_file)
            planned = plan(job)
        output.print_plan(planned, [])

        out.print("3  The run: paid from the ledger first, then drawn once, checked, and published as a whole (tacit run)", style="bold")
        book = f"sqlite:///{place / 'tacit.db'}"
        with output.progress(len(job.outputs)) as step, Ledger.open(book) as ledger:
            done = finished(job, base=place, ledger=ledger, progress=step)
        output.print_run(done)
        took = time.perf_counter() - began

    out.print(f"\nAll of it took {took:.0f} s. Open:", style="bold")
    for path, what in (
        (done.folder / "report.html", "the report, for an officer and a statistician"),
        (done.folder, "the tables (CSV, Parquet), release.json and the registry's record"),
        (job_file, "the job; change it, then: tacit plan"),
        (place / "tacit.db", "the ledger: tacit ledger show"),
    ):
        out.print(f"   {path}  {what}")


def fresh(folder: Path) -> tuple[Path, int]:
    """A folder without a ledger: this one, or a new one inside it; and which run this is."""
    place, number = folder, 1
    while (place / "tacit.db").exists():
        number += 1
        place = folder / f"run-{number}"
    place.mkdir(exist_ok=True)
    return place, number


def text(rows: int) -> str:
    """The job, with its declared sizes fitting the data."""
    from tacit import release

    found = (Path(release.__file__).resolve().parent / "templates" / JOB).read_text(encoding="utf-8")
    return found.replace("people: 25000, rows: 100000", f"people: {max(1, rows // 4)}, rows: {rows}")
