"""Averaging: the same question asked again and again, until the noise is gone.

Noise that is drawn anew for every answer has mean zero, so the mean of k answers is off by the noise's deviation over
the root of k. More noise does not stop it; a ledger does, which charges every answer, or gives the same answer again
for nothing.

>>> found = average([101, 97, 103, 99, 100])
>>> found.value, round(found.error, 2), found.answers
(100.0, 1.0, 5)
>>> repeats_needed(deviation=14.1, error=0.5, failure=0.01)
5277
"""

from __future__ import annotations

import math
import pathlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, draws, noisy_counts
from tacit.audit.experiment import generator
from tacit.parameters import count, positive, probability
from tacit.pictures import BLUE, GREY, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Average:
    """The mean of several answers to one question, and its standard error as the answers themselves show it."""

    value: float
    error: float
    answers: int


def average(answers: ArrayLike) -> Average:
    """What repeated answers say together.

    >>> average([5.0])
    Average(value=5.0, error=inf, answers=1)
    """
    values = np.asarray(answers, dtype=np.float64).ravel()
    if not values.size:
        raise ParameterError("answers must hold at least one answer")
    spread = float(values.std(ddof=1)) if values.size > 1 else math.inf
    return Average(float(values.mean()), spread / math.sqrt(values.size), int(values.size))


def repeats_needed(deviation: float, error: float, failure: float) -> int:
    """How many answers put their mean within `error` of the truth except with probability `failure`, by the normal approximation.

    >>> repeats_needed(1, 1, 0.05)
    4
    """
    ratio = float(positive("deviation", deviation)) / float(positive("error", error))
    return max(1, math.ceil((ratio * float(ndtri(1 - float(probability("failure", failure)) / 2))) ** 2))


def recovered(scale: float, repeats: int) -> float:
    """The exact probability that the mean of so many answers with discrete Laplace noise rounds to the true count.

    The sum of k noises S has a law that is got by multiplying transforms; the mean rounds to the truth where |S| < k / 2. A tie counts
    as a miss.

    >>> [round(recovered(10, k), 3) for k in (1, 100, 10_000)]
    [0.05, 0.275, 1.0]
    """
    k, b = count("repeats", repeats), float(positive("scale", scale))
    # The transform of one noise is known in closed form, and twenty deviations of the sum keep what wraps around far below rounding.
    deviation = math.sqrt(2 * k) * (b + 1)
    size = 2 ** math.ceil(math.log2(2 * max(20 * deviation, 40 * b, k) + 2))
    q = math.exp(-1 / b)
    turn = 2 * math.pi * np.arange(size // 2 + 1) / size
    one = (1 - q) ** 2 / (1 - 2 * q * np.cos(turn) + q * q)
    mass = np.fft.irfft(one**k, size)
    half = (k - 1) // 2  # the largest whole |S| below k / 2
    return float(min(1.0, mass[0] + 2 * mass[1 : half + 1].sum()))


def most_exact(epsilon: float, values: int) -> float:
    """The best probability, by any attack, of naming a count exactly that is uniform over so many adjacent values beforehand.

    An answer that is likeliest at t is at least e^(-epsilon |s - t|) as likely at s, so its likelihoods add up to at least the largest
    times 1 + q + ... + q^(values - 1), q = e^-epsilon: the success is at most (1 - q) / (1 - q^values).

    >>> round(most_exact(1, 800), 4), round(most_exact(0.1, 800), 4), round(most_exact(1, 2), 6)  # two values: e / (1 + e)
    (0.6321, 0.0952, 0.731059)
    """
    rate, many = float(positive("epsilon", epsilon)), count("values", values)
    return math.expm1(-rate) / math.expm1(-rate * many)


def ask(question: Callable[[], float], most: int) -> tuple[list[float], str]:
    """Call `question()` up to `most` times, until it is refused: the answers, and why it ended ('' if it never did).

    >>> ask(iter([3.0, 4.0]).__next__, 5)
    ([3.0, 4.0], 'StopIteration')
    """
    answers: list[float] = []
    for _ in range(count("most", most)):
        try:
            answers.append(float(question()))
        except Exception as refusal:
            return answers, type(refusal).__name__
    return answers, ""


def demonstrate(*, quick: bool = False, seed: int | None = 1, price: Fraction = Fraction(1, 10), asks: int = 10_000) -> Demonstration:
    """A count at epsilon 0.1 an answer, asked ten thousand times: without a ledger, and with one that holds epsilon 1.

    >>> demonstrate(quick=True).levels[0].rate
    1.0
    """
    from tacit.ledger import BudgetExceeded

    trials = 3 if quick else 12
    truths = generator(seed).integers(100, 900, size=trials).tolist()
    without = with_ledger = cached = 0
    fewest, refusals = asks, set()
    with draws(seed), tempfile.TemporaryDirectory() as place:
        shown = noisy_counts(np.full(asks, truths[0]), price)  # each answer at the price, and nothing adds them up
        for number, truth in enumerate(truths):
            without += round(average(noisy_counts(np.full(asks, truth), price)).value) == truth
            for cache in (False, True):
                answers, why = ask(_question(truth, price, pathlib.Path(place) / f"{number}{cache}.db", cache), 12)
                right = round(average(answers).value) == truth
                if cache:
                    cached += right
                else:
                    with_ledger += right
                    fewest = min(fewest, len(answers))
                    refusals.add(why)
    known = refusals == {BudgetExceeded.__name__}
    scale, few = 1 / float(price), fewest
    levels = (
        Level(f"{asks:,} answers, no ledger", None, without, trials, 1 / 800),
        Level("a ledger of epsilon 1", 1.0, with_ledger, trials, 1 / 800, most_exact(1.0, 800)),
        Level("the same answer again", float(price), cached, trials, 1 / 800, most_exact(float(price), 800)),
    )
    end = f"the ledger refused the next one ({BudgetExceeded.__name__})" if known else "the ledger did not refuse"
    return Demonstration(
        "averaging",
        f"A count at epsilon {float(price):g} an answer, asked {asks:,} times, is known exactly; a ledger of epsilon 1 stops it at {few}.",
        levels,
        draw=lambda axis: _curve(axis, np.asarray(shown, dtype=np.float64), truths[0], scale, few),
        notes=(f"after {few} answers {end}", f"exactly right with probability {recovered(scale, few):.3f} after {few} answers"),
    )


def _question(truth: int, price: Fraction, book: pathlib.Path, cache: bool) -> Callable[[], float]:
    import pyarrow as pa

    from tacit.ledger import Budget, Ledger
    from tacit.tables import Session, Unit

    session = Session(
        pa.table({"ill": np.ones(truth, dtype=np.int64)}), unit=Unit.row(), budget=Budget(epsilon=1), name="people",
        ledger=Ledger.open(f"sqlite:///{book}"), cache=cache, loss=False,
    )
    return lambda: float(session.sql("SELECT COUNT(*) AS n FROM people WHERE ill = 1", epsilon=price)["n"][0])


def _curve(axis: Axes, answers: NDArray[np.float64], truth: int, scale: float, few: int) -> None:
    asked = np.arange(1, len(answers) + 1)
    means = np.abs(np.cumsum(answers) / asked - truth)
    axis.plot(asked, np.maximum(means, 1e-3), color=RED, lw=1, label="error of the mean, no ledger")
    axis.plot(asked, scale * math.sqrt(2) / np.sqrt(asked), color=GREY, lw=1, ls="--", label="deviation / √answers")
    axis.axvline(few, color=BLUE, lw=1.8, label=f"a ledger of ε = 1 refuses after {few}")
    axis.axhline(0.5, color="black", lw=0.8, ls=":")
    axis.annotate("exact below this line", (13, 0.53), fontsize=7)
    axis.set(xscale="log", yscale="log", ylim=(1e-2, None), xlabel="answers", ylabel="error of the count")
    axis.legend(fontsize=7, frameon=False, loc="upper right")
