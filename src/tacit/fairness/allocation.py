"""What noisy counts do to those who are paid, counted or protected by them: funds, thresholds, seats, regressions.

Noise that is unbiased stops being so once negative counts become 0, once shares are renormalised, and once a
threshold decides. Small districts gain, large ones lose a little, and places near a threshold are misjudged. These
functions say by how much, from public numbers: published or made-up counts and the scale of the noise. They read no
private row.

>>> round(clipping_bias(5, 10), 4), round(clipping_bias(5, 10, law="discrete"), 4)
(3.0327, 3.0276)
>>> threshold_error(120, threshold=100, scale=20)  # a place above a threshold that is refused
0.18393972058572117
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, positive, probability
from tacit.pictures import BLUE, GREY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
#: Continuous Laplace noise, the same on whole numbers (two-sided geometric), or Gaussian noise of deviation `scale`.
Shape = Literal["laplace", "discrete", "gaussian"]
SHAPES = ("laplace", "discrete", "gaussian")


def _shape(law: str) -> str:
    if law not in SHAPES:
        raise ParameterError(f"law must be one of {', '.join(SHAPES)}, not {law!r}")
    return law


def clipping_bias(size: float, scale: float, law: Shape = "laplace") -> float:
    """By how much a count of this size is too large on average once negative counts are published as 0.

    E max(0, c + noise) - c: (b/2) e^(-c/b) for Laplace noise of scale b, a^(c+1) / (1 - a^2) with a = e^(-1/b) for its form
    on whole numbers, s phi(c/s) - c Phi(-c/s) for Gaussian noise of deviation s.

    >>> [round(clipping_bias(c, 10), 4) for c in (0, 1, 5)]
    [5.0, 4.5242, 3.0327]
    """
    c, b = float(nonnegative("size", size)), float(positive("scale", scale))
    kind = _shape(law)
    if kind == "laplace":
        return b / 2 * math.exp(-c / b)
    if kind == "discrete":
        if c != int(c):
            raise ParameterError("noise on whole numbers is added to whole counts; give a whole size")
        return math.exp(-(c + 1) / b) / -math.expm1(-2 / b)
    normal = NormalDist()
    return b * normal.pdf(c / b) - c * normal.cdf(-c / b)


def upper_tail(at: float, scale: float, law: Shape = "laplace") -> float:
    """The probability that noise of this scale is larger than `at` (at least, for noise on whole numbers).

    >>> upper_tail(0, 5), round(upper_tail(0, 5, "discrete"), 6)
    (0.5, 0.549834)
    """
    b = float(positive("scale", scale))
    kind = _shape(law)
    if kind == "gaussian":
        return NormalDist().cdf(-at / b)
    if kind == "discrete":
        k, a = math.ceil(at), math.exp(-1 / b)
        above = a ** abs(k) / (1 + a)
        return above if k > 0 else 1 - a ** (1 - k) / (1 + a)
    return 0.5 * math.exp(-at / b) if at >= 0 else 1 - 0.5 * math.exp(at / b)


def threshold_error(size: float, *, threshold: float, scale: float, shift: float = 0.0, law: Shape = "laplace") -> float:
    """How often a place of this true size is judged wrongly by its noisy count against `threshold - shift`.

    For one threshold and symmetric noise this is at most 1/2. A positive shift makes fewer false refusals and more
    false grants.
    """
    granted = upper_tail(threshold - shift - size, scale, law)
    return 1 - granted if size >= threshold else granted


def all_thresholds(
    sizes: Sequence[float], *, thresholds: Sequence[float], scale: float, shift: float = 0.0, law: Shape = "laplace"
) -> float:
    """How often a place is judged rightly where several counts must all reach their thresholds.

    At the boundary of two of them this is 1/4: conditions joined by AND are where noise errs more than half the time.

    >>> all_thresholds([100, 5], thresholds=[100, 5], scale=3)
    0.25
    """
    if len(sizes) != len(thresholds) or not sizes:
        raise ParameterError("give as many thresholds as sizes, at least one")
    tails = [upper_tail(t - shift - c, scale, law) for c, t in zip(sizes, thresholds, strict=True)]
    granted = math.prod(tails)
    return granted if all(c >= t for c, t in zip(sizes, thresholds, strict=True)) else 1 - granted


def choose_shift(*, scale: float, refused: float, law: Shape = "laplace", size: float = 0.0) -> float:
    """The least shift of a threshold under which a place that reaches it by `size` is refused at most with probability `refused`.

    >>> shift = choose_shift(scale=10, refused=0.05)
    >>> round(shift, 4), round(threshold_error(100, threshold=100, scale=10, shift=shift), 6)
    (23.0259, 0.05)
    """
    target = float(probability("refused", refused))
    if not 0 < target < 1:
        raise ParameterError("refused must be between 0 and 1, both excluded")
    if _shape(law) == "discrete":
        shift = 0
        while 1 - upper_tail(-shift - size, scale, law) > target:
            shift += 1
        while shift > -1e9 and 1 - upper_tail(1 - shift - size, scale, law) <= target:
            shift -= 1
        return float(shift)
    b = float(positive("scale", scale))
    if law == "gaussian":
        return -b * NormalDist().inv_cdf(target) - size
    cut = -b * math.log(2 * target) if target <= 0.5 else b * math.log(2 * (1 - target))
    return cut - size


@dataclass(frozen=True)
class FundShares:
    """What noise does to shares of a fund, by district: the mean of what is received over what is due."""

    sizes: Array
    ratios: Array
    total: float
    scale: float
    law: str
    repeats: int

    def by_size(self) -> dict[float, float]:
        """The mean ratio of the districts of each size."""
        return {float(size): float(self.ratios[self.sizes == size].mean()) for size in np.unique(self.sizes)}

    @property
    def moved(self) -> float:
        """The mean sum that goes to another district than the one it is due to."""
        due = self.sizes / self.sizes.sum() * self.total
        return float(np.abs(self.ratios * due - due).sum() / 2)

    def __str__(self) -> str:
        told = ", ".join(f"{size:g} people {ratio:.3f}" for size, ratio in self.by_size().items())
        return f"received over due, on average: {told}; {self.moved:,.0f} of {self.total:,.0f} is moved"

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """What each district receives of its due, by its size."""
        figure, axes = canvas(ax, path)
        axes.axhline(1.0, color=GREY, linewidth=1, linestyle="--")
        axes.plot(self.sizes, self.ratios, "o", color=BLUE, markersize=4, alpha=0.6)
        axes.set_xscale("log")
        dress(axes, f"Who pays for noise of scale {self.scale:g}", "people in the district", "received / due")
        return finish(figure, path)


def noise_of(law: Shape, scale: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Simulated noise for studies of public numbers; nothing that is released is drawn here."""
    if _shape(law) == "laplace":
        return generator.laplace(0.0, scale, shape)
    if law == "gaussian":
        return generator.normal(0.0, scale, shape)
    p = -math.expm1(-1 / scale)
    return (generator.geometric(p, shape) - generator.geometric(p, shape)).astype(np.float64)


def allocate(
    sizes: ArrayLike, *, scale: float, total: float, law: Shape = "laplace", repeats: int = 2000, study: int = 0
) -> FundShares:
    """Funds in proportion to noisy counts, negative ones as 0: what each district receives of its due, over many draws.

    `sizes` are public counts (published, or made up); `study` numbers the simulation, so that it can be repeated.

    >>> found = allocate([10, 1000], scale=20, total=1e6)
    >>> bool(found.ratios[0] > 1 > found.ratios[1])
    True
    """
    counts = np.asarray(sizes, dtype=np.float64)
    if counts.ndim != 1 or not len(counts) or not (counts >= 0).all() or not np.isfinite(counts).all() or not counts.sum():
        raise ParameterError("sizes must be counts of 0 or more, at least one of them above 0")
    amount, spread = float(positive("total", total)), float(positive("scale", scale))
    generator = np.random.default_rng(count("study", study, least=0))
    received = np.zeros(len(counts))
    for _ in range(count("repeats", repeats)):
        noisy = np.maximum(counts + noise_of(law, spread, counts.shape, generator), 0.0)
        whole = noisy.sum()
        received += noisy / whole if whole > 0 else 1 / len(counts)
    due = counts / counts.sum()
    ratios = np.divide(received / repeats, due, out=np.full(len(counts), math.inf), where=due > 0)
    return FundShares(counts, ratios, amount, spread, law, repeats)


#: The divisor that decides who gets the next seat after s seats, by its name.
DIVISORS = {
    "webster": lambda s: s + 0.5,
    "jefferson": lambda s: s + 1.0,
    "huntington-hill": lambda s: np.sqrt(s * (s + 1.0)),
}


def apportion(sizes: ArrayLike, seats: int, method: str = "huntington-hill") -> NDArray[np.int64]:
    """Seats by population under a divisor method; Huntington-Hill gives every place one seat first.

    >>> apportion([6300, 2200, 1500], 10, "webster").tolist()
    [6, 2, 2]
    """
    if method not in DIVISORS:
        raise ParameterError(f"method must be one of {', '.join(DIVISORS)}, not {method!r}")
    people = np.maximum(np.asarray(sizes, dtype=np.float64), 0.0)
    given = np.zeros(len(people), dtype=np.int64)
    places = count("seats", seats)
    if method == "huntington-hill":
        if places < len(people):
            raise ParameterError(f"Huntington-Hill gives each of {len(people)} places a seat; seats must be at least as many")
        given += 1
        places -= len(people)
    for _ in range(places):
        given[int(np.argmax(people / DIVISORS[method](given.astype(np.float64))))] += 1
    return given


@dataclass(frozen=True)
class SeatsUnderNoise:
    """Seats by true counts, the mean over noisy counts, and how often any seat moves."""

    seats: NDArray[np.int64]
    mean: Array
    moved: float


def seats_under_noise(
    sizes: ArrayLike, seats: int, *, scale: float, law: Shape = "laplace", method: str = "huntington-hill",
    repeats: int = 500, study: int = 0,
) -> SeatsUnderNoise:  # fmt: skip
    """What noise does to an apportionment. The mean may be fairer than the rounded truth; a single draw need not be.

    >>> seats_under_noise([6300, 2200, 1500], 10, scale=1, method="webster", repeats=20).moved < 0.8
    True
    """
    counts = np.asarray(sizes, dtype=np.float64)
    true = apportion(counts, seats, method)
    generator = np.random.default_rng(count("study", study, least=0))
    total, changed = np.zeros(len(counts)), 0
    for _ in range(count("repeats", repeats)):
        found = apportion(counts + noise_of(law, float(positive("scale", scale)), counts.shape, generator), seats, method)
        total += found
        changed += bool((found != true).any())
    return SeatsUnderNoise(true, total / repeats, changed / repeats)


def weighted_regression(x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> tuple[float, float]:
    """Slope and intercept of y on x, each area weighted (by its population, say); areas without a number are left out.

    Shares of small areas are ratios of two noisy counts, and an unweighted regression takes them as seriously as large ones:
    its slope is pulled towards 0.

    >>> weighted_regression([0, 1, 2], [1, 3, 5])
    (2.0, 1.0)
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    mass = np.ones(len(first)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(first) == len(second) == len(mass):
        raise ParameterError("x, y and weights must be equally many")
    known = np.isfinite(first) & np.isfinite(second) & (mass > 0)
    first, second, mass = first[known], second[known], mass[known] / max(float(mass[known].sum()), 1e-300)
    centre, middle = float(mass @ first), float(mass @ second)
    spread = float(mass @ (first - centre) ** 2)
    if not spread > 0:
        raise ParameterError("x takes one value only, so there is no slope")
    slope = float(mass @ ((first - centre) * (second - middle))) / spread
    return slope, middle - slope * centre
