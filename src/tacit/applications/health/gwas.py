"""Genome-wide association: which variants differ between cases and controls, and their statistics, for one price.

Scores are distances: how many people would have to change for a variant to pass a threshold, which one person moves
by at most one, while the statistic itself moves by eight. The k best are drawn by exponential selection. The
threshold is public by default, genome-wide significance; one chosen from the data is paid for. Statistics of the
chosen variants are computed from noisy allele counts.

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> shares = np.where(np.arange(200) < 2, 0.75, 0.3)
>>> counts = np.vstack([rng.binomial(2, shares, (400, 200)), rng.binomial(2, 0.3, (500, 200))])
>>> study = Genotypes.of_array(counts, status=[2] * 400 + [1] * 500)
>>> found = top_snps(study, k=2, cases=400, controls=500, epsilon=4)
>>> sorted(found.names), found.event.count
(['snp1', 'snp2'], 2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Composed, Event
from tacit.applications.health.genotypes import CASE, CONTROL, Genotypes, status_of
from tacit.calculus import Integers, LInfinity, Measurement, Space, Vectors, restate
from tacit.errors import ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import paying
from tacit.mechanisms import NoisySums, top_k
from tacit.parameters import count, positive

if TYPE_CHECKING:
    from tacit.ledger import Account

Ints = NDArray[np.int64]
Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
#: The chi-square of p = 5e-8, genome-wide significance.
GENOME_WIDE = Fraction(297168, 10_000)
#: A private threshold is rounded to multiples of this.
GRANULE = Fraction(1, 1024)
#: Variants whose distances are worked out at a time: few enough for a processor's own memory.
CHUNK = 128
#: What a private threshold gets of the price unless something else is said.
TENTH = Fraction(1, 10)


def allelic(x: ArrayLike, y: ArrayLike, cases: int, controls: int) -> Floats:
    """The allelic statistic: Pearson's chi-square of alleles by group, 0 where a variant has one allele only.

    >>> float(allelic(120, 80, 100, 100)), round(float(allelic(1200, 1500, 893, 1244)), 4)
    (16.0, 21.2754)
    """
    first, second = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    people = cases + controls
    alleles = first + second
    below = cases * controls * alleles * (2 * people - alleles)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 2 * people * (first * controls - second * cases) ** 2 / below
    return np.asarray(np.where(below > 0, found, 0.0))


def allelic_sensitivity(cases: int, controls: int) -> Fraction:
    """How far the statistic can move when one person's genotype changes, the groups' sizes fixed.

    >>> [round(float(allelic_sensitivity(*sizes)), 4) for sizes in ((10, 10), (10, 20), (893, 1244))]
    [7.2727, 8.5714, 8.2152]
    """
    square = 2 * (cases + controls) ** 2
    return max(Fraction(square, cases * (controls + 1)), Fraction(square, controls * (cases + 1)))


# --- distances ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Threshold:
    """The tables of allele counts whose statistic is below gamma: for every count of cases a range of counts of controls.

    For a fixed count of cases the statistic is convex in that of controls, so those below gamma are neighbours. The
    ranges are worked out in whole numbers, once; they do not depend on data.
    """

    gamma: Fraction
    cases: int
    controls: int

    def __post_init__(self) -> None:
        if not 0 < self.gamma < 2 * (self.cases + self.controls):
            top = 2 * (self.cases + self.controls)
            raise ParameterError(f"gamma must be above 0 and below {top}, the largest statistic of these groups")

    def below(self, x: int, y: int) -> bool:
        """Whether the statistic of this table is below gamma, in whole numbers."""
        people, alleles = self.cases + self.controls, x + y
        right = self.cases * self.controls * alleles * (2 * people - alleles)
        if right == 0:
            return True  # a statistic of 0
        left = 2 * people * (x * self.controls - y * self.cases) ** 2
        return left * self.gamma.denominator < right * self.gamma.numerator

    @cached_property
    def ranges(self) -> tuple[Rows, Rows]:
        """For every count of cases the least and the greatest count of controls below gamma; none where least > greatest."""
        least, greatest = [], []
        for x in range(2 * self.cases + 1):
            middle = x * self.controls // self.cases
            low = self._edge(x, middle, 0)
            high = self._edge(x, min(middle + 1, 2 * self.controls), 2 * self.controls)
            least.append(low if low is not None else middle + 1)
            greatest.append(high if high is not None else middle if low is not None else least[-1] - 1)
        return np.array(least, dtype=np.int32), np.array(greatest, dtype=np.int32)

    def _edge(self, x: int, start: int, end: int) -> int | None:
        """The farthest count from start towards end that is below gamma; the statistic rises on the way."""
        if not self.below(x, start):
            return None
        inside, outside = start, end
        if self.below(x, end):
            return end
        while abs(outside - inside) > 1:
            between = (inside + outside) // 2
            inside, outside = (between, outside) if self.below(x, between) else (inside, between)
        return inside

    def scores(self, x: Ints, y: Ints) -> Ints:
        """How many people must change for the statistic to fall below gamma; 1 minus how many for it to reach gamma.

        One person moves an allele count by at most 2, so a table is ceil(|dx|/2) + ceil(|dy|/2) people away.
        """
        least, greatest = self.ranges
        found = np.empty(len(x), dtype=np.int64)
        for start in range(0, len(x), CHUNK):
            piece = slice(start, start + CHUNK)
            found[piece] = self._scores(x[piece].astype(np.int32), y[piece].astype(np.int32), least, greatest)
        return found

    def _scores(self, x: Rows, y: Rows, least: Rows, greatest: Rows) -> Rows:
        far = np.int32(np.iinfo(np.int32).max // 4)
        every = np.arange(2 * self.cases + 1, dtype=np.int32)
        across = (np.abs(x[:, None] - every[None, :]) + 1) // 2
        some = least <= greatest
        gap = np.maximum(np.maximum(least[None, :] - y[:, None], y[:, None] - greatest[None, :]), 0)
        inward = np.where(some[None, :], across + (gap + 1) // 2, far).min(axis=1)
        down = np.where(least[None, :] > 0, np.maximum(y[:, None] - (least[None, :] - 1), 0), far)
        up = np.where(greatest[None, :] < 2 * self.controls, np.maximum(greatest[None, :] + 1 - y[:, None], 0), far)
        out = np.where(some[None, :], np.minimum(down, up), 0)
        outward = (across + (out + 1) // 2).min(axis=1)
        inside = (least[x] <= y) & (y <= greatest[x])
        return np.asarray(np.where(inside, 1 - outward, inward))


# --- the release -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GwasPlan:
    """Which variants are chosen and what is told of them, at which price. No data was touched.

    Guarantee
        Statement: `draw` costs `event`: k exponential selections of epsilon / k each, and before them Laplace noise
        on the threshold if it is private, and after them Laplace noise on 2k allele counts if statistics are told.
        Conditions: replace-one: a person's genotypes are replaced, whatever they were, while cases and controls keep
        their public numbers. One person moves each count of alleles by at most 2, on one side only.
        Proved in: the scores are distances to a fixed set of tables, so one person moves each by at most 1; McSherry
        and Talwar 2007 for the selection, k times (Johnson and Shmatikov 2013; Simmons and Berger 2016). Order
        statistics of the scores move by at most `allelic_sensitivity`, which was compared with all tables of small
        groups. The chosen counts move by 2k together.
        Correction: the source prints noise of scale 2 / epsilon for the statistics, which is right for one variant;
        k of them need 2k / epsilon. The closed form for the sensitivity in the literature is too small at tables
        with an empty margin. A threshold from the data is itself a release and is paid for.
    """

    cases: int
    controls: int
    variants: int
    k: int
    select_epsilon: Fraction
    gamma: Fraction | None = GENOME_WIDE
    threshold_epsilon: Fraction = Fraction(0)
    statistics_epsilon: Fraction = Fraction(0)

    @property
    def selection(self) -> Measurement:
        """The k choices by whole scores that one person moves by at most 1."""
        return top_k(self.k, self.select_epsilon / self.k).bind(Space(Vectors(Integers(), self.variants), LInfinity()))

    @property
    def threshold_noise(self) -> NoisySums | None:
        """Noise for a threshold from the data, on a lattice; rounding to it moves a score by one granule more."""
        if not self.threshold_epsilon:
            return None
        moved = math.ceil(allelic_sensitivity(self.cases, self.controls) / GRANULE) + 1
        return NoisySums.of_multiplier(
            "laplace", 1 / self.threshold_epsilon, moved, granularity=GRANULE, adjacency=Adjacency.REPLACE_ONE
        )

    @property
    def statistics_noise(self) -> NoisySums | None:
        """Noise for the allele counts of all chosen variants together: one person moves k of them by 2."""
        if not self.statistics_epsilon:
            return None
        return NoisySums.of_multiplier("laplace", 1 / self.statistics_epsilon, 2 * self.k, adjacency=Adjacency.REPLACE_ONE)

    @property
    def event(self) -> Event:
        """What is done to the data."""
        chosen = restate(self.selection.event(1), Adjacency.REPLACE_ONE)
        events = [noise.event for noise in (self.threshold_noise,) if noise] + [chosen]
        events += [noise.event for noise in (self.statistics_noise,) if noise]
        return events[0] if len(events) == 1 else Composed(*events)

    def draw(self, x: Ints, y: Ints) -> dict[str, Any]:
        """The chosen variants, and their noisy counts: what may be published. The caller has paid."""
        gamma, hidden = self.gamma, self.threshold_noise
        if hidden is not None:
            gamma = self._private_gamma(x, y, hidden)
        assert gamma is not None
        scores = Threshold(gamma, self.cases, self.controls).scores(x, y)
        chosen = [int(place) for place in self.selection.function(scores)]
        told: dict[str, Any] = {"chosen": chosen, "gamma": str(gamma)}
        noise = self.statistics_noise
        if noise is not None:
            told |= {"x": noise.add(x[chosen]).tolist(), "y": noise.add(y[chosen]).tolist()}
        return told

    def _private_gamma(self, x: Ints, y: Ints, noise: NoisySums) -> Fraction:
        ordered = np.sort(allelic(x, y, self.cases, self.controls))[::-1]
        between = (ordered[self.k - 1] + ordered[min(self.k, len(ordered) - 1)]) / 2
        noisy = int(noise.add(round(float(between / float(GRANULE))))) * GRANULE
        # Far above all scores a threshold tells them apart worst, and so much noise often lands there.
        top = min(GENOME_WIDE, Fraction(2 * (self.cases + self.controls)) - GRANULE)
        return min(max(noisy, GRANULE), top)

    def read(self, drawn: dict[str, Any], names: Sequence[str], private: bool = True, entry: int | None = None) -> GwasAnswer:
        """What was drawn, with statistics from the noisy counts moved into their range."""
        chosen = drawn["chosen"]
        statistics = None
        if "x" in drawn:
            x = np.clip(np.array(drawn["x"], dtype=float), 0, 2 * self.cases)
            y = np.clip(np.array(drawn["y"], dtype=float), 0, 2 * self.controls)
            statistics = allelic(x, y, self.cases, self.controls)
        gamma = float(Fraction(drawn["gamma"]))
        return GwasAnswer(self, tuple(names[i] for i in chosen), tuple(chosen), gamma, statistics, private, entry)


@dataclass(frozen=True, eq=False)
class GwasAnswer:
    """The chosen variants, most likely first, and their statistics where these were paid for."""

    plan: GwasPlan
    names: tuple[str, ...]
    places: tuple[int, ...]
    gamma: float
    statistics: Floats | None = None
    private: bool = True
    entry: int | None = None

    @property
    def event(self) -> Event:
        """What was done to the data."""
        return self.plan.event

    def __repr__(self) -> str:
        told = [""] * len(self.names)
        if self.statistics is not None:
            told = [f" (chi-square {one:.1f})" for one in self.statistics]
        mark = "" if self.private else " NOT PRIVATE"
        return ", ".join(f"{name}{more}" for name, more in zip(self.names, told, strict=True)) + mark


def plan_gwas(
    *, cases: int, controls: int, variants: int, k: int, epsilon: Typed, gamma: Typed | None = GENOME_WIDE,
    threshold: Typed = TENTH, statistics: Typed = 0,
) -> GwasPlan:
    """Plan the k best variants for epsilon in all.

    `gamma` is the public threshold; None has it chosen from the data for the share `threshold` of epsilon. The share
    `statistics` is kept for the statistics of the chosen variants.
    """
    price = exact("epsilon", epsilon)
    positive("epsilon", price)
    sizes = {"cases": count("cases", cases), "controls": count("controls", controls)}
    number, best = count("variants", variants), count("k", k)
    if best > number:
        raise ParameterError(f"k must be at most the number of variants, and {best} > {number}")
    part = Fraction(0) if gamma is not None else exact("threshold", threshold)
    kept = exact("statistics", statistics)
    if not (0 <= part < 1 and 0 <= kept < 1 and part + kept < 1) or (gamma is None and not part > 0):
        raise ParameterError("threshold and statistics are shares of epsilon, which leave something for the selection")
    public = None if gamma is None else exact("gamma", gamma)
    if public is not None:
        Threshold(public, **sizes)
    return GwasPlan(
        **sizes, variants=number, k=best, select_epsilon=price * (1 - part - kept), gamma=public,
        threshold_epsilon=price * part, statistics_epsilon=price * kept,
    )


def allele_counts(study: Genotypes, status: NDArray[np.int64]) -> tuple[Ints, Ints]:
    """For every variant the copies among cases and among controls, a block of variants at a time."""
    x, y = [], []
    cases, controls = status == CASE, status == CONTROL
    for block in study.blocks():
        x.append(block[cases].sum(axis=0, dtype=np.int64))
        y.append(block[controls].sum(axis=0, dtype=np.int64))
    return np.concatenate(x), np.concatenate(y)


def groups_of(study: Genotypes, status: ArrayLike | None, cases: int, controls: int) -> NDArray[np.int64]:
    """Who is a case and who a control, which is public here; refused where their numbers are not the declared ones."""
    found = study.status if status is None else status_of(status, study.people)
    if found is None:
        raise ParameterError("status is missing: 2 for each case and 1 for each control, in the order of the file")
    if int((found == CASE).sum()) != cases or int((found == CONTROL).sum()) != controls:
        raise ParameterError("cases and controls are public numbers, and the file has others; declare those of the file")
    return np.asarray(found)


def top_snps(
    study: Genotypes, *, k: int, cases: int, controls: int, epsilon: Typed, status: ArrayLike | None = None,
    gamma: Typed | None = GENOME_WIDE, threshold: Typed = TENTH, statistics: Typed = 0, account: Account | None = None,
    purpose: str = "",
) -> GwasAnswer:
    """The k variants that differ most between cases and controls, paid for from `account`; see `plan_gwas`."""
    plan = plan_gwas(
        cases=cases, controls=controls, variants=study.variants, k=k, epsilon=epsilon, gamma=gamma, threshold=threshold,
        statistics=statistics,
    )
    groups = groups_of(study, status, plan.cases, plan.controls)
    with paying(account, plan.event, purpose=purpose or "association study") as payment:
        drawn = plan.draw(*allele_counts(study, groups))
    return plan.read(drawn, study.names, payment.private, payment.entry)
