"""Cases for the mechanisms that add noise or randomise: each on the two neighbours that its proof calls worst.

Outputs are drawn in bulk wherever one call can hold many independent ones: the coordinates of a long vector, the cells of a long
histogram. The claim is never typed in: it is the event that the very plan charges for that distance.

>>> [case.name for case in cases()][:3]
['laplace', 'laplace on a lattice', 'laplace, two coordinates']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.accounting import Adjacency, Event
from tacit.audit.mechanisms.outputs import outcomes
from tacit.audit.selftest.case import Case, between, promise
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Categories,
    Graph,
    Graphs,
    Hamming,
    Integers,
    Lattice,
    Nodes,
    ReplaceOne,
    Rows,
    Space,
    Vectors,
)
from tacit.mechanisms import (
    NoisySums,
    automatic_bounds,
    binary_tree,
    bounded_mean,
    bounded_variance,
    clique_count,
    discrete_gaussian,
    from_coins,
    gaussian,
    geometric,
    laplace,
    lipschitz_degree_histogram,
    lipschitz_edge_count,
    noisy_histogram,
    planar_laplace,
    randomised_response,
    square_root,
    staircase,
    star_count,
    triangle_count,
)

REPLACE = Adjacency.REPLACE_ONE
DELTA = 0.01
SLOW = 5000  # samples of mechanisms that answer once a call


def long(step: Any, value: int, metric: Any, element: Any = None, width: int = 1) -> Callable[[int], Any]:
    """n answers on `width` equal coordinates, from one vector of n * width."""

    def sample(n: int) -> Any:
        plan: Any = Space(Vectors(Integers() if element is None else element, n * width), metric) >> step
        found = np.asarray(plan.function(np.full(n * width, value)))
        return found if width == 1 else found.reshape(n, width)

    return sample


def tiled(step: Any, metric: Any, value: Sequence[int]) -> Callable[[int], Any]:
    """n answers on one vector, from a vector that repeats it n times."""

    def sample(n: int) -> Any:
        plan: Any = Space(Vectors(Integers(), n * len(value)), metric) >> step
        return np.asarray(plan.function(np.tile(value, n))).reshape(n, len(value))

    return sample


def price(step: Any, distance: Any, metric: Any, element: Any = None, width: int = 1) -> Event:
    """What the plan charges for the distance."""
    plan: Any = Space(Vectors(Integers() if element is None else element, width), metric) >> step
    found: Event = plan.event(distance)
    return found


def added(
    name: str, step: Any, move: int, metric: Any, floor: float, *, element: Any = None, width: int = 1, length: Any = None, **more: Any
) -> Case:
    """A mechanism for vectors on 0 and on `move` in every coordinate; `length` is how long that move is in the metric."""
    claim = promise(price(step, move * width if length is None else length, metric, element, width))
    return Case(name, claim, long(step, 0, metric, element, width), long(step, move, metric, element, width), floor, **more)


def cases() -> list[Case]:
    """One or more for every mechanism that adds noise or randomises."""
    return [*_additive(), *_responses(), *_rows(), *_streams(), *_graphs()]


def _additive() -> list[Case]:
    return [
        added("laplace", laplace(1), 1, L1(), 0.85),
        added("laplace on a lattice", laplace(1), 4, L1(), 0.85, element=Lattice(Fraction(1, 4))),
        added("laplace, two coordinates", laplace(2), 1, L1(), 0.8, width=2),
        added("geometric", geometric(1), 1, L1(), 0.9),
        added("geometric, truncated", geometric(1, lower=0, upper=3), 1, L1(), 0.9),
        added("gaussian", gaussian(1), 1, L2(), 0.9),
        # The length of (3, 4) is 5: told apart by the coordinates together only.
        Case(
            "gaussian, two coordinates",
            promise(price(gaussian(5), 5, L2(), width=2)),
            tiled(gaussian(5), L2(), [0, 0]),
            tiled(gaussian(5), L2(), [3, 4]),
            0.85,
        ),
        added("discrete gaussian", discrete_gaussian(2), 1, L2(), 0.7, delta=DELTA),
        _noisy_sums(),
        _staircase(),
        _planar(),
    ]


def _noisy_sums() -> Case:
    """Two blocks with scales of their own: moves of 3/5 and 4/5 of a scale are one scale together."""
    sums = NoisySums("gaussian", (Fraction(5000), Fraction(10_000)), 1)

    def drawn(first: int, second: int) -> Callable[[int], Any]:
        return lambda n: np.stack([sums.add(np.full(n, first)), sums.add(np.full(n, second), 1)], axis=1) / 5000

    return Case("noisy sums, two blocks", promise(sums.event), drawn(0, 0), drawn(3000, 8000), 0.8)


def _staircase() -> Case:
    step = staircase(1, 3)
    plan: Any = Space(Integers(), Absolute()) >> step
    wide, share = step.steps()
    from tacit.mechanisms import staircase_draw

    return Case(
        "staircase",
        promise(plan.event(3)),
        lambda n: staircase_draw(Fraction(1), wide, share, n),
        lambda n: 3 + staircase_draw(Fraction(1), wide, share, n),
        0.9,
    )


def _planar() -> Case:
    plan: Any = Space(Vectors(Integers(), 2), L2()) >> planar_laplace(Fraction(1, 2))
    return Case(
        "planar laplace",
        promise(plan.event(5)),
        outcomes(plan.function, np.array([0, 0])),
        outcomes(plan.function, np.array([3, 4])),
        0.5,
        trials=SLOW,
        why="only reports beyond either place, on the line through both, lose all of epsilon",
    )


def _responses() -> list[Case]:
    few, many, coins = randomised_response(1, 2), randomised_response(2, 5), from_coins()

    def people(response: Any) -> Any:
        plan: Any = Space(Vectors(Integers(0, response.categories - 1), 1), Hamming()) >> response
        return plan.event(1)

    def reports(response: Any, value: int) -> Callable[[int], Any]:
        return lambda n: response.privatise(np.full(n, value))

    return [
        between(
            "randomised response, 2",
            promise(people(few), REPLACE),
            [reports(few, v) for v in (0, 1)],
            0.9,
        ),
        between(
            "randomised response, 5",
            promise(people(many), REPLACE),
            [reports(many, v) for v in (0, 4)],
            0.9,
        ),
        between(
            "randomised response, coins",
            promise(coins.event, REPLACE),
            [reports(coins, v) for v in (1, 0)],
            0.9,
        ),
    ]


def _rows() -> list[Case]:
    def cells(metric: Any, scale: int, place: int) -> Callable[[int], Any]:
        def sample(n: int) -> Any:
            # Each pair of cells is one data set of one row; the pairs are independent.
            plan: Any = Space(Rows(Categories(tuple(range(2 * n)))), metric) >> noisy_histogram(laplace(scale))
            raw = plan.function([2 * i + place for i in range(n)]).raw
            return np.array(list(raw.values())).reshape(n, 2)

        return sample

    exchange: Any = Space(Rows(Categories((0, 1))), ReplaceOne()) >> noisy_histogram(laplace(2))
    mean: Any = Space(Rows(Integers(0, 10)), AddRemove()) >> bounded_mean(laplace(5), laplace(1))
    known: Any = Space(Rows(Integers(0, 10), size=4), ReplaceOne()) >> bounded_mean(laplace(5))
    variance: Any = Space(Rows(Integers(0, 10)), AddRemove()) >> bounded_variance(geometric(5), geometric(25), geometric(1))
    bounds: Any = Space(Rows(Integers()), AddRemove()) >> automatic_bounds(laplace(Fraction(1, 2)), bits=2, beta=0.9)
    return [
        Case(
            "histogram, a row exchanged",
            promise(exchange.event(1), REPLACE),
            cells(ReplaceOne(), 2, 0),
            cells(ReplaceOne(), 2, 1),
            0.6,
            trials=80_000,
        ),
        Case(
            "bounded mean",
            promise(mean.event(1)),
            outcomes(lambda rows: _pieces(mean.function(rows)), [10] * 4),
            outcomes(lambda rows: _pieces(mean.function(rows)), [10] * 5),
            0.4,
            trials=2 * SLOW,
            why="sum and count must move together for the whole price",
            elsewhere=("bounded mean, n public", "bounded variance"),
        ),
        Case(
            "bounded mean, n public",
            promise(known.event(1), REPLACE),
            outcomes(lambda rows: known.function(rows).value, [0, 0, 0, 0]),
            outcomes(lambda rows: known.function(rows).value, [0, 0, 0, 10]),
            0.5,
            trials=SLOW,
        ),
        Case(
            "bounded variance",
            promise(variance.event(1)),
            outcomes(lambda rows: _pieces(variance.function(rows)), [10] * 4),
            outcomes(lambda rows: _pieces(variance.function(rows)), [10] * 5),
            0.25,
            trials=3 * SLOW // 2,
            why="all three pieces must move together for the whole price",
        ),
        Case(
            "automatic bounds",
            promise(bounds.event(1)),
            outcomes(lambda rows: _ends(bounds.function(rows)), np.array([1, 1])),
            outcomes(lambda rows: _ends(bounds.function(rows)), np.array([1, 1, 3])),
            0.45,
            trials=SLOW,
            why="only which cells pass the threshold is published, not the noisy counts that are paid for",
        ),
    ]


def _pieces(answer: Any) -> tuple[float, ...]:
    return tuple(float(getattr(answer, name)) for name in ("total", "squares", "count") if hasattr(answer, name))


def _ends(answer: Any) -> tuple[Any, ...]:
    return answer.lower, answer.upper, answer.found


def _streams() -> list[Case]:
    stream = Space(Vectors(Integers(0, 1), 4), Hamming())
    tree: Any = stream >> binary_tree(4, scale=1)
    root: Any = stream >> square_root(4, sigma=1)
    data = [[0, 0, 0, 0], [1, 0, 0, 0]]
    return [
        between(
            "continual counting, tree",
            promise(tree.event(1), REPLACE),
            [outcomes(tree.function, items) for items in data],
            0.35,
            trials=SLOW,
            why="the item's three blocks must all come out on the same side",
        ),
        between(
            "continual counting, square root",
            promise(root.event(1), REPLACE),
            [outcomes(root.function, items) for items in data],
            0.6,
            trials=3 * SLOW // 2,
        ),
    ]


def _graphs() -> list[Case]:
    star = Graph.of([("hub", leaf) for leaf in range(6)])
    wheel = Graph.of([("hub", i) for i in range(5)] + [(i, (i + 1) % 5) for i in range(5)])
    space = Space(Graphs(), Nodes())
    found = []
    for name, step, graph in (
        ("graph: edges", lipschitz_edge_count(max_degree=3), star),
        ("graph: triangles", triangle_count(max_degree=3), wheel),
        ("graph: cliques", clique_count(3, max_degree=3), wheel),
        ("graph: stars", star_count(2, max_degree=3), star),
    ):
        plan: Any = space >> step
        distance = plan.map(1)
        values = [int(plan(g)) for g in (graph.without("hub"), graph)]
        # The statistic is computed once a graph; the noise, which is all that is random, is drawn in bulk.
        mechanism = laplace(Fraction(distance))
        found.append(
            between(
                name,
                promise(price(mechanism, distance, L1())),
                [long(mechanism, value, L1()) for value in values],
                0.8,
            )
        )
    degrees: Any = space >> lipschitz_degree_histogram(max_degree=3)
    length, laws = degrees.map(1), [np.asarray(degrees(g)).tolist() for g in (star.without("hub"), star)]
    mechanism = laplace(Fraction(length))

    found.append(
        between(
            "graph: degrees",
            promise(price(mechanism, length, L1(), width=len(laws[0]))),
            [tiled(mechanism, L1(), value) for value in laws],
            0.4,
            why="the loss is spread over the degrees, and these two graphs are not the worst pair",
        )
    )
    return found
