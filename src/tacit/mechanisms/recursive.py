"""The recursive mechanism: copies of a pattern in a graph under node privacy, where no bound on a person's copies is known.

`lipschitz_graph` counts with a bound D that is told from outside. Here D comes from the data, privately: it is the step of a public ladder
that stands at the least number of people without whom nobody is in more copies than that step allows. The more people must go, the higher
the step, so one person moves the place on the ladder by at most 1, and noise on the place pays for it. Then the count with that D is
released. Where a bound is known, `lipschitz_edge_count` and `triangle_count` err less: they pay for no choice.

>>> from tacit.calculus import Graph, Graphs, Nodes
>>> plan = Space(Graphs(), Nodes()) >> recursive_clique_count(3, epsilon=2)
>>> plan.event(1)  # half for the bound, half for the count
Composed(Laplace(noise_multiplier=1), Laplace(noise_multiplier=1))
>>> wheel = Graph.of([("hub", i) for i in range(9)] + [(i, (i + 1) % 9) for i in range(9)])
>>> found = plan.release(wheel).value
>>> found.bound >= 1, found.value * 64 % 1
(True, 0.0)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from tacit.accounting import Composed, Event, NoOp, ParameterError
from tacit.calculus import DomainError, Graph, Measurement, Space
from tacit.mechanisms.accuracy import failure, laplace_error, least_that_keeps, rounded_up
from tacit.mechanisms.lipschitz_graph import STEP, Copies, cliques, edge_flow, exact_maximum, per_change, settled, stars
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.noisy_sums import NoisySums
from tacit.noise import from_lattice
from tacit.parameters import Number, count, positive

#: The end of every ladder: nobody is in more copies than that, since copies are listed.
LARGEST = 2**40
_FIXED = 2**40
_POINT = 2**32


@dataclass(frozen=True)
class FoundCount:
    """The noisy count, and the bound on a person's copies that was found for it, which is private and paid for as well."""

    value: float
    bound: int


def rungs(least: int, growth: Number) -> tuple[Fraction, ...]:
    """The public ladder: `least` times powers of e^growth, rounded down to fixed point once and for all, up to `LARGEST`.

    Powers of e lie far from fractions with small denominators, as the least degrees that are compared with them are; so these
    comparisons are rarely close.

    >>> [float(round(rung, 3)) for rung in rungs(5, 0.5)[:4]]
    [5.0, 8.244, 13.591, 22.408]
    """
    factor = round(math.exp(float(growth)) * _POINT)
    found = [least * _POINT]
    while found[-1] < LARGEST * _POINT:
        found.append(found[-1] * factor // _POINT)
    return tuple(Fraction(rung, _POINT) for rung in found)


def removable(copies: Copies, people: int, limit: Fraction) -> bool:
    """Whether people of total weight `people` can go so that everyone left is in copies of total weight at most `limit`; exact.

    A person v goes with weight w_v between 0 and 1, and a copy c then has the weight max(0, 1 - sum of w_v over c). Only people in more
    than `limit` copies (heavy ones) and copies with one of them matter: all other copies may keep their weight.

    >>> star = [frozenset(("hub", leaf)) for leaf in range(10)]
    >>> removable(star, 0, Fraction(9)), removable(star, 1, Fraction(1)), removable(star, 0, Fraction(10))
    (False, True, True)
    """
    degrees = Counter(v for c in copies for v in c)
    heavy = {v for v, degree in degrees.items() if degree > limit}
    if people >= len(heavy) or not people:
        return people >= len(heavy)
    touching = [c for c in copies if not heavy.isdisjoint(c)]
    proved = proposed(touching, heavy, people, limit)
    return least_removal(touching, heavy, limit) <= people if proved is None else proved


def proposed(copies: Copies, heavy: set[Hashable], people: int, limit: Fraction) -> bool | None:
    """The same where a solver's proposal proves it in whole numbers, one way or the other; None where it proves neither.

    Yes: weights w in [0, 1] of sum at most `people`, under which no heavy person is in more than `limit`. No: prices L_v of heavy people
    and M_c between 0 and the sum of L_v over c. For any weights, limit times the sum of L is at least the sum of M_c (1 - sum of w_v
    over c), and so at least the sum of M less the `people` largest of the people's sums of M; where it is not, there are no such weights.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    place = {v: i for i, v in enumerate(dict.fromkeys(v for c in copies for v in c))}
    members = [[place[v] for v in c] for c in copies]
    row_of = {place[v]: len(copies) + i for i, v in enumerate(heavy)}
    n, m = len(place), len(copies)
    # a column for each person's weight, then for each copy's; the copy keeps what its people leave of 1, and the heavy have their limit
    entries = [(j, i, -1.0) for j, c in enumerate(members) for i in c] + [(j, n + j, -1.0) for j in range(m)]
    entries += [(row_of[i], n + j, 1.0) for j, c in enumerate(members) for i in c if i in row_of]
    rows, columns, values = zip(*entries, strict=True)
    matrix = csr_array((values, (rows, columns)), shape=(m + len(heavy), n + m))
    limits = np.concatenate([np.full(m, -1.0), np.full(len(heavy), float(limit))])
    solved = linprog([1.0] * n + [0.0] * m, A_ub=matrix, b_ub=limits, bounds=(0, None), method="highs")
    if solved.status != 0:
        return None

    weights = [int(w * _FIXED) for w in np.clip(np.nan_to_num(solved.x[:n]), 0, 1).tolist()]
    used, allowed = sum(weights), people * _FIXED
    if used > allowed:
        weights = [w * allowed // used for w in weights]
    else:  # what is left over makes room for the solver's error
        weights = [w + (_FIXED - w) * (allowed - used) // max(1, n * _FIXED - used) for w in weights]
    loads = [0] * n
    for c in members:
        share = max(0, _FIXED - sum(weights[i] for i in c))
        for i in c:
            loads[i] += share
    if all(loads[i] <= limit * _FIXED for i in row_of):
        return True

    prices = [int(y * _FIXED) for y in np.clip(np.nan_to_num(-solved.ineqlin.marginals), 0, _FIXED).tolist()]
    paid = [min(prices[j], sum(prices[row_of[i]] for i in c if i in row_of)) for j, c in enumerate(members)]
    sums = [0] * n
    for price, c in zip(paid, members, strict=True):
        for i in c:
            sums[i] += price
    if sum(paid) - sum(sorted(sums, reverse=True)[:people]) > limit * sum(prices[m:]):
        return False
    return None


def least_removal(copies: Copies, heavy: set[Hashable], limit: Fraction) -> Fraction:
    """The least total weight of people who must go, in fractions, by the dual programme. Slow: for what a proposal leaves open.

    >>> least_removal([frozenset(("hub", leaf)) for leaf in range(10)], {"hub"}, Fraction(4))
    Fraction(3, 5)
    """
    one, zero = Fraction(1), Fraction(0)
    loaded = list(heavy)
    gains = [one] * len(copies) + [-limit] * len(loaded)
    rows = [[*(Fraction(i == j) for j in range(len(copies))), *(-Fraction(v in c) for v in loaded)] for i, c in enumerate(copies)]
    people = list(dict.fromkeys(v for c in copies for v in c))
    rows += [[*(Fraction(v in c) for c in copies), *([zero] * len(loaded))] for v in people]
    return exact_maximum(gains, rows, [zero] * len(copies) + [one] * len(people))


def place_on(ladder: Sequence[Fraction], copies: Copies) -> int:
    """The first j at which j people can go so that nobody is in more than ladder[j] copies; the last place where there is none.

    >>> star = [frozenset(("hub", leaf)) for leaf in range(10)]
    >>> place_on(rungs(1, 0.1), star), place_on(rungs(12, 0.1), star)
    (1, 0)
    """
    low, high = 0, len(ladder) - 1
    # what holds at j holds at j + 1: more people may go, and the limit is no lower
    while low < high:
        middle = (low + high) // 2
        if removable(copies, middle, ladder[middle]):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True)
class RecursiveCount(Mechanism):
    """The number of copies of a pattern, with a bound on one person's copies that is found privately, and noise in its proportion.

    Half of epsilon pays for the bound, half for the count. `least` is the lowest bound, and `growth` the logarithm of a step of the
    ladder: a tenth of epsilon where it is left out, between 1/1024 and 1. `too_low` is the chance that noise sets the bound below
    the one that the data asks for: the bound is raised by as much as that takes.

    Guarantee
        Statement: epsilon-DP for one vertex with its edges, or for one edge: two Laplace mechanisms of epsilon/2, the second with a
        sensitivity that the first released. d changes cost d times as much.
        Conditions: vertex or edge distance; any graph. Time depends on the graph and is not hidden.
        Proved in: Chen and Zhou 2013, in an equivalent form, re-derived. Let G(j) be the least bound on everyone's copies that weights w of
        sum at most j can reach (`removable`), and c_0 <= c_1 <= ... the ladder. G falls in j, so G(j) <= c_j holds from a first j* on.
        Without a vertex u, w keeps its feasibility on the others: G without u is at most G, so j* without u is at most j*. With u again,
        w_u = 1 takes all copies of u away: G(j + 1) <= G without u (j) <= c_j <= c_(j+1) at j = j* without u. So j* moves by 0 or 1. It is
        a whole number, settled exactly, and cutting it at the ladder's end moves it no further. The count with bound D is the
        programme of `lipschitz_graph`: zeros extend a solution without u, and one with u loses at most D when its copies of u go. Graphs
        that differ in an edge have all but one endpoint in common, and both stand 0 or 1 places, and 0 to D copies, above that graph.
        Correction: the value of H at n - |y| people plus |y| D, least over real |y|, is by duality the programme for D: no sequence of n
        programmes is solved. Noise is on the whole number j*, not on a logarithm.
    """

    pattern: Literal["clique", "star"]
    size: int
    epsilon: Number
    least: int = 1
    growth: Number | None = None
    too_low: Number = Fraction(1, 256)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", count("size", self.size, least=2))
        object.__setattr__(self, "least", count("least", self.least))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.pattern not in ("clique", "star"):
            raise DomainError(f"pattern must be 'clique' or 'star', not {self.pattern!r}")
        if self.least > LARGEST:
            raise ParameterError(f"least must be at most 2^40, not {self.least}")
        failure(self.too_low)
        if self.growth is not None and not Fraction(1, 1024) <= positive("growth", self.growth) <= 1:
            raise ParameterError(f"growth must be between 1/1024 and 1, not {self.growth}")

    @property
    def share(self) -> Fraction:
        """What the bound costs, and the count costs as much."""
        return Fraction(self.epsilon) / 2

    @cached_property
    def ladder(self) -> tuple[Fraction, ...]:
        """The public steps that the bound is chosen from."""
        if self.growth is not None:
            return rungs(self.least, self.growth)
        # the noise on the place has a scale of 2/epsilon steps, which so change the bound by a factor of e^(1/5)
        return rungs(self.least, min(max(Fraction(self.epsilon) / 10, Fraction(1, 1024)), Fraction(1)))

    @property
    def lift(self) -> int:
        """How many places the bound is raised, so that noise makes it too low with probability at most `too_low`."""
        return self._slips(float(self.too_low))

    def _slips(self, chance: float) -> int:
        """The least t with P(round(Z) < -t) <= chance, Z Laplace of scale 1/share: exp(-share (t + 1/2)) / 2."""
        return max(0, math.ceil(rounded_up(-math.log(2 * chance) / float(self.share)) - 0.5)) if chance < 0.5 else 0

    @property
    def granularity(self) -> Fraction:
        """What counts are multiples of: halves for edges, 64ths for other patterns."""
        return Fraction(1, 2) if self._edges else STEP

    @property
    def _edges(self) -> bool:
        return self.size == 2 and self.pattern == "clique"

    def copies(self, graph: Graph) -> Copies:
        """The copies that exist."""
        return cliques(graph, self.size) if self.pattern == "clique" else stars(graph, self.size)

    def bound_at(self, place: int) -> int:
        """The bound at a place of the ladder; places beyond an end count as that end.

        >>> rule = recursive_clique_count(2, epsilon=1, least=4)
        >>> rule.bound_at(-3), rule.bound_at(1), rule.bound_at(10**9) >= LARGEST
        (4, 5, True)
        """
        return math.ceil(self.ladder[min(max(place, 0), len(self.ladder) - 1)])

    def value(self, graph: Graph, copies: Copies, bound: int) -> int:
        """The Lipschitz count for a bound, in granules; one vertex moves it by at most the bound."""
        return edge_flow(graph, bound) if self._edges else settled(copies, bound)

    def bind(self, space: Space) -> Measurement:
        name = f"recursive_{self.pattern}_count({self.size})"
        changes = per_change(space, name, node=1, edge=1)
        chosen = NoisySums.of_scale("laplace", 1 / self.share)

        def answer(graph: Any) -> FoundCount:
            copies = self.copies(graph)
            bound = self.bound_at(chosen.add(place_on(self.ladder, copies)) + self.lift)
            counted = self.noise(bound).add(self.value(graph, copies, bound))
            return FoundCount(from_lattice(counted, self.granularity), bound)

        def privacy(distance: Number) -> Event:
            moved = changes(distance)
            # the second noise is as wide as its bound, whatever that came out as, so its price is known beforehand
            return Composed(chosen.moving(moved).event, self.noise(1, moved).event) if moved else NoOp()

        return Measurement(space, answer, privacy, name, "Chen and Zhou 2013; see Guarantee")

    def noise(self, bound: int, changes: Number = 1) -> NoisySums:
        """The noise on the count once the bound is known, for so many changes."""
        moved = bound / self.granularity
        return NoisySums.of_scale("laplace", moved / self.share, moved * Fraction(changes), granularity=self.granularity)

    def error(self, beta: Number, *, bound: int) -> float:
        """The error of the noise for the bound that was found and released, without what the bound itself takes from the count.

        >>> recursive_clique_count(2, epsilon=2).error(0.05, bound=10)
        30.0
        """
        found = laplace_error(bound / self.share, failure(beta), 1, self.granularity)
        return found if self._edges else rounded_up(found + float(STEP))

    def accuracy(self, beta: Number, *, most: int) -> float:
        """The error on any graph where nobody is in more than `most` copies, exceeded with probability at most beta.

        Where `most` is at most `least`, it is all noise. Else, a third of beta is for each of a bound that is too low, a bound that is
        too high, and the noise. A bound not below that of j* loses at most w . degrees <= j* most, and nothing once it reaches `most`.

        >>> rule = recursive_clique_count(2, epsilon=2, least=20)
        >>> rule.accuracy(0.05, most=20) < rule.accuracy(0.05, most=40)
        True
        """
        whole, fail = count("most", most), failure(beta)
        if whole > LARGEST:
            raise ParameterError(f"most must be at most 2^40, not {most}")
        far = next(j for j, rung in enumerate(self.ladder) if rung >= whole)
        part = fail / 3 if far else fail / 2
        high = self.bound_at(far + self.lift + self._slips(part))
        if not far:
            return self.error(part, bound=high)
        if part < self.too_low:
            raise ParameterError("beta must be at least three times too_low where most is above least; lower too_low, or raise least")
        return rounded_up(self.error(part, bound=high) + (far - 1) * whole)

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, *, most: int, pattern: Literal["clique", "star"] = "clique", size: int = 2
    ) -> Self:
        """The least epsilon, to a thousandth, that keeps the error within alpha where nobody is in more than `most` copies, which is then
        the lowest bound too.

        >>> rule = RecursiveCount.for_accuracy(100, 0.05, most=10)
        >>> rule.accuracy(0.05, most=10) <= 100, 3 < rule.epsilon < 4
        (True, True)
        """
        goal = float(positive("alpha", alpha))
        return cls(pattern, size, least_that_keeps(lambda e: cls(pattern, size, e, most).accuracy(beta, most=most) <= goal, 1e-3), most)


def recursive_clique_count(
    size: int, *, epsilon: Number, least: int = 1, growth: Number | None = None, too_low: Number = Fraction(1, 256)
) -> RecursiveCount:
    """The number of complete subgraphs with `size` vertices, 2 for edges and 3 for triangles, where no bound on degrees is known."""
    return RecursiveCount("clique", size, epsilon, least, growth, too_low)


def recursive_star_count(
    leaves: int, *, epsilon: Number, least: int = 1, growth: Number | None = None, too_low: Number = Fraction(1, 256)
) -> RecursiveCount:
    """The number of stars with so many leaves, where no bound on degrees is known."""
    return RecursiveCount("star", leaves, epsilon, least, growth, too_low)
