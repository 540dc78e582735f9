"""What `tacit selftest` attacks in health: each release on two neighbours, and the faults that its source prints.

>>> [case.name for case in cases()][:1], part().extra
(['health: cohort count'], 'health')
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Guarantee
from tacit.applications.health.beacon import Beacon, Variant
from tacit.applications.health.contingency import ContingencyPlan, plan_contingency
from tacit.applications.health.gwas import GwasPlan, Threshold, plan_gwas
from tacit.applications.health.survival import SurvivalPlan, histogram, plan_survival
from tacit.audit import Claim
from tacit.audit.selftest import Case, Mutant, Part, promise
from tacit.calculus import L1, Absolute, Integers, Space, Vectors
from tacit.mechanisms import NoisySums, geometric

Ints = NDArray[Any]


def part() -> Part:
    """The cases and mutants of health."""
    return Part("health", ("duckdb", "pyarrow"), "health", cases, mutants)


def cases() -> list[Case]:
    """Right releases: each loses nearly what it claims."""
    return [_cohort(), _survival(), _table(), _association(), _whole_association(), _beacon()]


def mutants() -> list[Mutant]:
    """Faults, most of them printed in the source, which must be caught."""
    return [*_cohort_mutants(), *_survival_mutants(), *_table_mutants(), *_association_mutants()]


# --- cohorts -----------------------------------------------------------------------------------------------


def _clamped(noisy: Ints) -> Ints:
    return np.clip(noisy, 0, 40)


def _cohort() -> Case:
    def drawn(true: int, n: int) -> Ints:
        return _clamped(true + _noise(1, n))

    event = geometric(1, lower=0, upper=40).bind(Space(Integers(), Absolute())).event(1)
    return Case("health: cohort count", promise(event), lambda n: drawn(20, n), lambda n: drawn(21, n), 0.8, 20_000)


def _noise(scale: float, n: int) -> Ints:
    plan = geometric(scale).bind(Space(Vectors(Integers(), n), L1()))
    return np.asarray(plan.function([0] * n))


def _cohort_mutants() -> list[Mutant]:
    def right(true: int, n: int) -> Ints:
        return _clamped(true + _noise(1, n))

    def one_sided(true: int, n: int) -> Ints:
        """The noise is clamped before it is added, so no answer is below the count."""
        return true + np.clip(_noise(1, n), 0, 40)

    def two_for_one(true: int, n: int) -> Ints:
        """A patient with several matching rows counts several times for the price of one."""
        return _clamped(2 * true + _noise(1, n))

    return [
        Mutant("health: one-sided clamp", one_sided, right, (20, 21), bulk=True),
        Mutant("health: rows counted as patients", two_for_one, right, (10, 11), bulk=True),
    ]


# --- survival ----------------------------------------------------------------------------------------------

EDGES = (0.0, 1.0, 2.0, 3.0)
TIMES, SEEN = [0.5, 1.5, 2.5, 9.0], [1, 0, 1, 0]


@cache
def _curves() -> SurvivalPlan:
    return plan_survival(EDGES, Guarantee(epsilon=1))


def _sums(one_more: bool) -> list[Ints]:
    times, seen = ([*TIMES, 1.2], [*SEEN, 1]) if one_more else (TIMES, SEEN)
    return _curves().measured.sums(_curves().tables_of(histogram(times, seen, EDGES)))


def _drawn(one_more: bool, n: int, noise: NoisySums) -> Ints:
    """Noisy sums on the line from one data set to its neighbour, each in the scale of its noise."""
    found = np.zeros(n)
    for i, (sums, less, more) in enumerate(zip(_sums(one_more), _sums(False), _sums(True), strict=True)):
        noisy = noise.add(np.broadcast_to(sums, (n, *sums.shape)).copy(), i).astype(float)
        line = np.sign(more - less.astype(float)) / float(noise.scales[i])
        found += (noisy * line).reshape(n, -1).sum(axis=1)
    return found


def _survival() -> Case:
    noise = _curves().measured.noise
    return Case(
        "health: survival curves", promise(noise.event), lambda n: _drawn(False, n, noise), lambda n: _drawn(True, n, noise),
        0.5, 20_000, why="the attack sees one line through many sums",
    )  # fmt: skip


def _survival_mutants() -> list[Mutant]:
    def right(one_more: bool, n: int) -> Ints:
        return _drawn(one_more, n, _curves().measured.noise)

    def one_price(one_more: bool, n: int) -> Ints:
        """Every sum over bins gets the noise of one sum, although a patient is in several."""
        blocks = len(_curves().measured.noise.scales)
        return _drawn(one_more, n, NoisySums("laplace", _thin(blocks), 1))

    def known_size(one_more: bool, n: int) -> Ints:
        """Numbers at risk start from the true number of patients, which adding one changes."""
        return np.full(n, len(TIMES) + one_more)

    return [
        Mutant("health: one price for all levels", one_price, right, (False, True), trials=20_000, bulk=True),
        Mutant("health: the number of patients unpaid", known_size, right, (False, True), trials=2_000, bulk=True),
    ]


def _thin(blocks: int) -> tuple[Any, ...]:
    scales = _curves().measured.noise.scales
    return tuple(scale / 3 for scale in scales[:blocks])


# --- association and beacons -------------------------------------------------------------------------------

X, Y = np.array([12, 12, 10]), np.array([4, 4, 9])


def _study(**more: Any) -> GwasPlan:
    return plan_gwas(**{"cases": 10, "controls": 10, "variants": 3, "k": 1, "epsilon": 1, "gamma": 3, **more})


def _chosen(moved: int, n: int) -> Ints:
    plan = _study()
    scores = Threshold(Fraction(3), plan.cases, plan.controls).scores(X - [moved, -moved, 0], Y)
    choose = plan.selection.function
    return np.array([choose(scores)[0] for _ in range(n)])


def _association() -> Case:
    return Case(
        "health: association", promise(_study().event, Adjacency.REPLACE_ONE), lambda n: _chosen(0, n), lambda n: _chosen(2, n),
        0.2, 16_000, why="three candidates, of which one person moves two apart",
    )  # fmt: skip


def _whole_association() -> Case:
    """Threshold, choice and statistics together, through `draw`: the sum of the told counts is looked at."""
    plan = _study(gamma=None, variants=1, statistics="4/5")

    def drawn(moved: int, n: int) -> Ints:
        return np.array([plan.draw(X[:1] - moved, Y[:1])["x"][0] for _ in range(n)])

    return Case(
        "health: association with a threshold and statistics", promise(plan.event, Adjacency.REPLACE_ONE),
        lambda n: drawn(0, n), lambda n: drawn(2, n), 0.35, 2_000, why="the threshold's tenth and the choice's are not looked at",
    )  # fmt: skip


def _association_mutants() -> list[Mutant]:
    claim = Claim.of(epsilon=1, adjacency=Adjacency.REPLACE_ONE)

    def told(moved: int, n: int, scale: int) -> Ints:
        noise = NoisySums.of_scale("laplace", scale, adjacency=Adjacency.REPLACE_ONE)
        return np.asarray(noise.add(np.tile(X - moved, (n, 1))).sum(axis=1))

    def right(moved: int, n: int) -> Ints:
        return told(moved, n, 6)

    def one_price(moved: int, n: int) -> Ints:
        """Counts of three variants get the noise of one, 2 / epsilon in place of 6 / epsilon."""
        return told(moved, n, 1)

    hidden = _study(gamma=None, epsilon=10)

    def paid(moved: int, n: int) -> Ints:
        noise = hidden.threshold_noise
        assert noise is not None
        return np.asarray(noise.add(np.full(n, 1000 * (4 - moved))))

    def unpaid(moved: int, n: int) -> Ints:
        """The threshold is the mean of the k-th and the next statistic as it is, and is told."""
        return np.full(n, 1000 * (4 - moved))

    return [
        Mutant("health: one price for k variants", one_price, right, (0, 2), claim, 20_000, bulk=True),
        Mutant("health: a threshold unpaid", unpaid, paid, (0, 1), claim, bulk=True),
    ]


# --- contingency tables -------------------------------------------------------------------------------------


@cache
def _tables() -> ContingencyPlan:
    return plan_contingency(["drug", "placebo"], ["yes", "no"], Guarantee(epsilon=1), adjacency=Adjacency.REPLACE_ONE)


def _two_cells(other: bool, n: int, noise: NoisySums) -> Ints:
    """Whether the first cell of the table and the last have five and a half patients or more, of whom one is in either."""
    cells = np.array([[5, 5], [5, 6]] if other else [[6, 5], [5, 5]])
    parts = int(1 / noise.granularities[0])
    twice = 2 * noise.add(np.broadcast_to(parts * cells, (n, 2, 2)).copy(), 0)
    return np.asarray((twice[:, 0, 0] >= 11 * parts) + 2 * (twice[:, 1, 1] >= 11 * parts))


def _table() -> Case:
    noise = _tables().measured.noise
    return Case(
        "health: contingency table", promise(_tables().event, Adjacency.REPLACE_ONE), lambda n: _two_cells(False, n, noise),
        lambda n: _two_cells(True, n, noise), 0.75, 80_000,
    )  # fmt: skip


def _table_mutants() -> list[Mutant]:
    def right(other: bool, n: int) -> Ints:
        return _two_cells(other, n, _tables().measured.noise)

    def one_cell(other: bool, n: int) -> Ints:
        """A patient who is replaced moves two cells, and the noise is that for one."""
        return _two_cells(other, n, NoisySums("laplace", (Fraction(1),), 1))

    claim = promise(_tables().event, Adjacency.REPLACE_ONE)
    return [Mutant("health: two cells for the price of one", one_cell, right, (False, True), claim, 40_000, bulk=True)]


def _beacon() -> Case:
    asked = Variant("1", 99, "A", "T")

    def said(carriers: int, n: int) -> Ints:
        beacon = Beacon(lambda variant: carriers, at_most=6, epsilon=1, absence=0.3)
        return np.array([int(beacon.query(asked, None)[0]) for _ in range(n)])

    claim = promise(Beacon(lambda variant: 0, at_most=6, epsilon=1).event)
    return Case("health: beacon", claim, lambda n: said(0, n), lambda n: said(1, n), 0.3, 3_000, why="one bit of the count")
