"""Graphs that no one may see whole: each person knows their own neighbours, and reports a noisy degree, noisy bits or noisy counts.

Edge privacy hides one entry of a person's own list of neighbours. An undirected edge stands in two lists, so where both ends report, it
costs twice the price of a report: `edge_event` says so. Three ways to report: a degree with discrete Laplace noise; every
bit of the list by randomised response; and LDPGen (Qin et al. 2017), which asks how many neighbours a person has in each of a few
groups, forms better groups of alike people from the answers, asks again, and draws a made-up graph with the same counts.

>>> import numpy as np
>>> lists = [[1], [0, 2], [1]]
>>> noisy_degrees(lists, epsilon=2).shape
(3,)
>>> edge_event(degree_event(1))
Repeated(event=DiscreteLaplace(scale=Fraction(1, 1), sensitivity=1, adjacency=Adjacency.REPLACE_ONE), count=2)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Adjacency, DiscreteLaplace, Event, RandomizedResponse, Repeated
from tacit.errors import ParameterError
from tacit.parameters import Number, count, positive

Array = NDArray[np.float64]
Lists = Sequence[Iterable[int]]
FIRST = 32  # random groups of the first round


def edge_event(event: Event) -> Repeated:
    """The price of an undirected edge, which stands in both ends' lists, where both report at this price."""
    return Repeated(event, 2)


def _neighbours(own: Iterable[object], people: int, person: int) -> NDArray[np.int64]:
    """A person's neighbours, each once; what is no other person's number is left out without a word."""
    known = {int(each) for each in own if isinstance(each, (int, np.integer)) and not isinstance(each, bool)}
    return np.array(sorted(each for each in known if 0 <= each < people and each != person), dtype=np.int64)


# --- degrees ---


def degree_event(epsilon: Number) -> DiscreteLaplace:
    """The price of a noisy degree for one entry of the person's own list."""
    return DiscreteLaplace(1 / Fraction(positive("epsilon", epsilon)), adjacency=Adjacency.REPLACE_ONE)


def noisy_degrees(lists: Lists, *, epsilon: Number) -> NDArray[np.int64]:
    """Everyone's number of neighbours with discrete Laplace noise of scale 1/epsilon.

    Guarantee
        Statement: one entry of a person's list costs `degree_event(epsilon)`; an edge of which both ends report, twice that.
        Conditions: one report a person; who the people are is public.
        Proved in: one entry moves the degree by 1; discrete Laplace noise of scale 1/epsilon (`tacit.noise`).
    """
    exact = np.array([len(_neighbours(own, len(lists), i)) for i, own in enumerate(lists)], dtype=np.int64)
    return np.asarray(exact + noise.discrete_laplace(degree_event(epsilon).scale, len(lists)), dtype=np.int64)


# --- every bit ---


@dataclass(frozen=True)
class NoisyAdjacency:
    """The randomised bits of all lists: row i is what person i said of every other person."""

    bits: NDArray[np.bool_]
    epsilon: float

    @property
    def event(self) -> RandomizedResponse:
        """The price of one entry of a list."""
        return RandomizedResponse(self.epsilon)

    @property
    def degrees(self) -> Array:
        """Unbiased degrees."""
        lie = 1 / (math.exp(self.epsilon) + 1)
        others = len(self.bits) - 1
        return np.asarray((self.bits.sum(axis=1) - lie * others) / (1 - 2 * lie))

    @property
    def edges(self) -> float:
        """The unbiased number of undirected edges, from what both ends said."""
        return float(self.degrees.sum() / 2)

    @property
    def edges_deviation(self) -> float:
        """The deviation of `edges`."""
        odds, people = math.exp(self.epsilon), len(self.bits)
        return math.sqrt(people * (people - 1) * odds) / (odds - 1) / 2


def noisy_adjacency(lists: Lists, *, epsilon: Number) -> NoisyAdjacency:
    """Every bit of every list by randomised response.

    Guarantee
        Statement: one entry of a person's list costs `NoisyAdjacency.event`; an edge of which both ends report, twice that.
        Conditions: one report a person; who the people are is public.
        Proved in: each bit is a randomised response of its own, and one entry changes one bit.

    >>> np.diag(noisy_adjacency([[1], [0]], epsilon=1).bits).tolist()
    [False, False]
    """
    people, size = len(lists), positive("epsilon", epsilon)
    bits = np.zeros((people, people), dtype=np.bool_)
    for i, own in enumerate(lists):
        row = np.zeros(people, dtype=np.bool_)
        row[_neighbours(own, people, i)] = True
        true = noise.odds_bits(size, people)
        bits[i] = row == true
    np.fill_diagonal(bits, False)
    return NoisyAdjacency(bits, float(size))


# --- LDPGen ---


@dataclass(frozen=True)
class GraphModel:
    """What is known of a graph: everyone's group, and the noisy number of neighbours that each person has in each group."""

    groups: NDArray[np.int64]
    counts: Array
    event: Event

    @property
    def degrees(self) -> Array:
        """Estimated degrees; unbiased, so they may be negative."""
        return np.asarray(self.counts.sum(axis=1))

    def expected(self) -> Array:
        """The number of edges between any two groups, none below 0; within a group each edge counts once."""
        size = self.counts.shape[1]
        ends = np.zeros((size, size))
        np.add.at(ends, self.groups, self.counts)
        both = np.maximum((ends + ends.T) / 2, 0.0)
        np.fill_diagonal(both, np.maximum(np.diag(ends), 0.0) / 2)
        return both

    def sample(self) -> list[tuple[int, int]]:
        """A made-up graph: for any two groups as many edges as were estimated, between people by their own noisy counts.

        It is made of released figures alone.
        """
        random = np.random.default_rng(noise.words(4).tolist())
        found: set[tuple[int, int]] = set()
        wanted = self.expected()
        size = len(wanted)
        members = [np.flatnonzero(self.groups == g) for g in range(size)]
        for a in range(size):
            for b in range(a, size):
                first, second = members[a], members[b]
                edges = round(float(wanted[a, b]))
                if not edges or not len(first) or not len(second):
                    continue
                weights = [self._weights(first, b), self._weights(second, a)]
                for _ in range(8):  # loops and repetitions are drawn again, a few times
                    missing = edges - sum(1 for u, v in found if {self.groups[u], self.groups[v]} == {a, b})
                    if missing <= 0:
                        break
                    ends = [random.choice(who, missing, p=own) for who, own in zip((first, second), weights, strict=True)]
                    found |= {(min(u, v), max(u, v)) for u, v in zip(*(side.tolist() for side in ends), strict=True) if u != v}
        return sorted(found)

    def _weights(self, members: NDArray[np.int64], towards: int) -> Array:
        own = np.maximum(self.counts[members, towards], 0.0) + 1e-9
        return np.asarray(own / own.sum())


def generated(lists: Lists, *, groups: int, epsilon: Number, rounds: int = 2) -> GraphModel:
    """LDPGen: counts of neighbours by group, better groups from the counts, and counts again, with epsilon / rounds each time.

    With one group it is the model of noisy degrees.

    Guarantee
        Statement: one entry of a person's list costs `event`, all rounds together; an edge of which both ends report, twice that.
        Conditions: everyone answers in every round; groups of later rounds come from earlier answers only.
        Proved in: one entry moves one count by 1 in each round; noise of scale rounds/epsilon, and adaptive composition.

    >>> generated([[1], [0]], groups=1, epsilon=1, rounds=1).counts.shape
    (2, 1)
    """
    people, size, turns = len(lists), count("groups", groups), count("rounds", rounds)
    if size > people:
        raise ParameterError("groups must be at most the number of people")
    share = DiscreteLaplace(turns / Fraction(positive("epsilon", epsilon)), adjacency=Adjacency.REPLACE_ONE)
    known = [_neighbours(own, people, i) for i, own in enumerate(lists)]
    # of few random groups all people have nearly the same counts; more of them tell the alike from the others
    parts = size if turns == 1 or size == 1 else min(people, max(size, FIRST))
    own_groups = noise.permutation(people) % parts
    counts = np.zeros((people, parts))
    for turn in range(turns):
        exact = np.stack([np.bincount(own_groups[own], minlength=parts) for own in known])
        counts = (exact + noise.discrete_laplace(share.scale, people * parts).reshape(people, parts)).astype(np.float64)
        if turn < turns - 1 and size > 1:
            own_groups, parts = _alike(counts, size), size
    return GraphModel(own_groups, counts, share if turns == 1 else Repeated(share, turns))


def _alike(counts: Array, groups: int) -> NDArray[np.int64]:
    """k-means on what people said, from centres far apart; a group that empties takes the person farthest from the own centre."""
    centres = counts[[int(np.argmax(((counts - counts.mean(axis=0)) ** 2).sum(axis=1)))]]
    while len(centres) < groups:
        nearest = ((counts[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).min(axis=1)
        centres = np.vstack([centres, counts[int(nearest.argmax())]])
    found = np.full(len(counts), -1, dtype=np.int64)
    for _ in range(50):
        distance = ((counts[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        nearest = distance.argmin(axis=1)
        for g in range(groups):
            if not (nearest == g).any():
                nearest[int(distance[np.arange(len(counts)), nearest].argmax())] = g
        if (nearest == found).all():
            break
        found = nearest
        centres = np.stack([counts[found == g].mean(axis=0) for g in range(groups)])
    return np.asarray(found, dtype=np.int64)
