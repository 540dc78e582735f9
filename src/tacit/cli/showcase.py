"""`tacit demo --accountant`: what the accountant does, in two tables and four pictures.

It composes k uses of a mechanism by every theorem of the textbook and exactly, and prices a DP-SGD run from both sides.
"""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

from tacit.accounting import Gaussian, Poisson, Repeated, Sampled, account
from tacit.accounting import compare as compare_theorems
from tacit.accounting.compare import laplace_and_gaussian, rounded_up
from tacit.accounting.plots import plot_cost, plot_training
from tacit.cli import output
from tacit.cli.numbers import OptionError, shown
from tacit.cli.questions import save

COUNTS = (1, 10, 15, 20, 25, 30, 50, 100, 200, 500, 1000)
STEPS = (1, 100, 250, 500, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 11000, 12000, 13000, 14062)


def run(folder: str) -> None:
    """Print the tables, write the pictures into the folder, and say what to open."""
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
