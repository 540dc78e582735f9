"""Cases for the samplers of `tacit.noise` and for the mechanisms that add noise or randomise.

Each case runs on the two neighbours that its proof calls worst. Outputs are drawn in bulk wherever one call can hold
many independent ones: the coordinates of a long vector, the cells of a long histogram. A claim is never typed in: it
is the event that the plan itself charges for that distance.

>>> [case.name for case in cases()][:3]
['laplace', 'laplace on a lattice', 'laplace, two coordinates']
>>> [case.name for case in noise_cases()][:2]
['noise: discrete Laplace', 'noise: rounded Laplace']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Adjacency, DiscreteGaussian, DiscreteLaplace, Event, Gaussian, Laplace, PureDP
from tacit.audit.mechanisms.outputs import Outputs, Sampler
from tacit.audit.selftest.case import Case, between, called, measured, promise
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Categories,
    Domain,
    Graph,
    Graphs,
    Hamming,
    Integers,
    Lattice,
    Metric,
    Nodes,
    ReplaceOne,
    Rows,
    Space,
    Step,
    Transformation,
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
    recursive_clique_count,
    square_root,
    staircase,
    star_count,
    triangle_count,
)
from tacit.parameters import Number

REPLACE = Adjacency.REPLACE_ONE
DELTA = 0.01
SLOW = 5000  # samples of mechanisms that answer once a call


def long(
    step: Step, value: int | Sequence[int], metric: Metric, element: Domain | None = None, width: int = 1
) -> Sampler:
    """n answers on one vector, from a vector that repeats it n times; a number stands for `width` equal coordinates."""
    row = [value] * width if isinstance(value, int) else list(value)

    def sample(n: int) -> NDArray[np.generic]:
        plan = measured(Space(Vectors(Integers() if element is None else element, n * len(row)), metric) >> step)
        found = np.asarray(plan.function(np.tile(row, n)))
        return found if len(row) == 1 else found.reshape(n, len(row))

    return sample


def price(step: Step, distance: Number, metric: Metric, element: Domain | None = None, width: int = 1) -> Event:
    """What the plan charges for the distance."""
    return measured(Space(Vectors(Integers() if element is None else element, width), metric) >> step).event(distance)


def added(
    name: str, step: Step, move: int, metric: Metric, floor: float, *,
    element: Domain | None = None, width: int = 1, delta: float = 0.0,
) -> Case:
    """A mechanism for vectors on 0 and on `move` in every coordinate, under the L1 metric or in one coordinate."""
    claim = promise(price(step, move * width, metric, element, width))
    samplers = (long(step, value, metric, element, width) for value in (0, move))
    return between(name, claim, samplers, floor, delta=delta)


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
        between(
            "gaussian, two coordinates", promise(price(gaussian(5), 5, L2(), width=2)),
            [long(gaussian(5), point, L2()) for point in ((0, 0), (3, 4))], 0.85,
        ),
        added("discrete gaussian", discrete_gaussian(2), 1, L2(), 0.7, delta=DELTA),
        _noisy_sums(),
        _staircase(),
        _planar(),
    ]


def _noisy_sums() -> Case:
    """Two blocks with scales of their own: moves of 3/5 and 4/5 of a scale are one scale together."""
    sums = NoisySums("gaussian", (Fraction(5000), Fraction(10_000)), 1)

    def drawn(first: int, second: int) -> Sampler:
        return lambda n: np.stack([sums.add(np.full(n, first)), sums.add(np.full(n, second), 1)], axis=1) / 5000

    return Case("noisy sums, two blocks", promise(sums.event), drawn(0, 0), drawn(3000, 8000), 0.8)


def _staircase() -> Case:
    from tacit.mechanisms import staircase_draw

    step = staircase(1, 3)
    wide, share = step.steps()
    event = measured(Space(Integers(), Absolute()) >> step).event(3)
    return additive("staircase", event, lambda n: staircase_draw(Fraction(1), wide, share, n), 3, 0.9)


def _planar() -> Case:
    plan = measured(Space(Vectors(Integers(), 2), L2()) >> planar_laplace(Fraction(1, 2)))
    line = "only reports beyond either place, on the line through both, lose all of epsilon"
    return called("planar laplace", plan, [np.array([0, 0]), np.array([3, 4])], 0.5, distance=5, trials=SLOW, why=line)


def _responses() -> list[Case]:
    few, many, coins = randomised_response(1, 2), randomised_response(2, 5), from_coins()

    def case(name: str, event: Event, privatise: Callable[[NDArray[np.int64]], Outputs], *values: int) -> Case:
        def reports(value: int) -> Sampler:
            return lambda n: privatise(np.full(n, value))

        return between(f"randomised response, {name}", promise(event, REPLACE), map(reports, values), 0.9)

    def people(response: Step, categories: int) -> Event:
        return measured(Space(Vectors(Integers(0, categories - 1), 1), Hamming()) >> response).event(1)

    return [
        case("2", people(few, 2), few.privatise, 0, 1),
        case("5", people(many, 5), many.privatise, 0, 4),
        case("coins", coins.event, coins.privatise, 1, 0),
    ]


def _rows() -> list[Case]:
    def cells(place: int) -> Sampler:
        def sample(n: int) -> NDArray[np.generic]:
            # Each pair of cells is one data set of one row; the pairs are independent.
            plan = measured(Space(Rows(Categories(tuple(range(2 * n)))), ReplaceOne()) >> noisy_histogram(laplace(2)))
            raw = plan.function([2 * i + place for i in range(n)]).raw
            return np.array(list(raw.values())).reshape(n, 2)

        return sample

    exchange = measured(Space(Rows(Categories((0, 1))), ReplaceOne()) >> noisy_histogram(laplace(2)))
    rows, whole = Space(Rows(Integers(0, 10)), AddRemove()), Space(Rows(Integers()), AddRemove())
    mean = measured(rows >> bounded_mean(laplace(5), laplace(1)))
    known = measured(Space(Rows(Integers(0, 10), size=4), ReplaceOne()) >> bounded_mean(laplace(5)))
    variance = measured(rows >> bounded_variance(geometric(5), geometric(25), geometric(1)))
    bounds = measured(whole >> automatic_bounds(laplace(Fraction(1, 2)), bits=2, beta=0.9))
    return [
        between("histogram, a row exchanged", promise(exchange.event(1), REPLACE), map(cells, (0, 1)), 0.6, trials=80_000),
        called(
            "bounded mean", mean, [[10] * 4, [10] * 5], 0.4, read=_pieces, trials=2 * SLOW,
            why="sum and count must move together for the whole price",
            elsewhere=("bounded mean, n public", "bounded variance"),
        ),
        called(
            "bounded mean, n public", known, [[0, 0, 0, 0], [0, 0, 0, 10]], 0.5,
            relation=REPLACE, read=lambda answer: answer.value, trials=SLOW,
        ),
        called(
            "bounded variance", variance, [[10] * 4, [10] * 5], 0.25, read=_pieces, trials=3 * SLOW // 2,
            why="all three pieces must move together for the whole price",
        ),
        called(
            "automatic bounds", bounds, [np.array([1, 1]), np.array([1, 1, 3])], 0.45,
            read=lambda answer: (answer.lower, answer.upper, answer.found), trials=SLOW,
            why="only which cells pass the threshold is published, not the noisy counts that are paid for",
        ),
    ]


def _pieces(answer: object) -> tuple[float, ...]:
    return tuple(float(getattr(answer, name)) for name in ("total", "squares", "count") if hasattr(answer, name))


def _streams() -> list[Case]:
    stream, data = Space(Vectors(Integers(0, 1), 4), Hamming()), [[0, 0, 0, 0], [1, 0, 0, 0]]
    tree, root = measured(stream >> binary_tree(4, scale=1)), measured(stream >> square_root(4, sigma=1))
    blocks = "the item's three blocks must all come out on the same side"
    return [
        called("continual counting, tree", tree, data, 0.35, relation=REPLACE, trials=SLOW, why=blocks),
        called("continual counting, square root", root, data, 0.6, relation=REPLACE, trials=3 * SLOW // 2),
    ]


def _graphs() -> list[Case]:
    star = Graph.of([("hub", leaf) for leaf in range(6)])
    wheel = Graph.of([("hub", i) for i in range(5)] + [(i, (i + 1) % 5) for i in range(5)])
    loss = "the loss is spread over the degrees, and these two graphs are not the worst pair"

    def case(name: str, step: Step, graph: Graph, floor: float = 0.8, why: str = "") -> Case:
        plan = Space(Graphs(), Nodes()) >> step
        assert isinstance(plan, Transformation)
        distance, values = plan.map(1), [[int(v) for v in np.ravel(plan(g))] for g in (graph.without("hub"), graph)]
        # The statistic is computed once a graph; the noise, which is all that is random, is drawn in bulk.
        mechanism = laplace(Fraction(distance))
        claim = promise(price(mechanism, distance, L1(), width=len(values[0])))
        return between(f"graph: {name}", claim, [long(mechanism, value, L1()) for value in values], floor, why=why)

    return [
        case("edges", lipschitz_edge_count(max_degree=3), star),
        case("triangles", triangle_count(max_degree=3), wheel),
        case("cliques", clique_count(3, max_degree=3), wheel),
        case("stars", star_count(2, max_degree=3), star),
        case("degrees", lipschitz_degree_histogram(max_degree=3), star, 0.4, loss),
        called(
            "graph: recursive count", measured(Space(Graphs(), Nodes()) >> recursive_clique_count(2, epsilon=2, growth=0.5)),
            [star.without("hub"), star], 0.3, read=lambda answer: (answer.bound, answer.value), trials=SLOW,
            why="bound and count must both come out on one side for the whole price",
        ),
    ]


def additive(
    name: str, event: Event, draw: Callable[[int], NDArray[np.generic]], by: int, floor: float, *, delta: float = 0.0
) -> Case:
    """A law added to 0 and to `by`."""
    return Case(name, promise(event), lambda n: 0 + draw(n), lambda n: by + draw(n), floor, delta=delta)


def noise_cases() -> list[Case]:
    """One for each law of `tacit.noise`, shifted by one sensitivity, against the price that its proof gives it."""
    # e / (1 + e), rounded down: heads on one input as often as tails on the other.
    heads, nothing = Fraction(731_058, 10**6), promise(PureDP(Fraction(1, 1000)))
    return [
        additive("noise: discrete Laplace", DiscreteLaplace(1, 1), lambda n: noise.discrete_laplace(1, size=n), 1, 0.9),
        additive("noise: rounded Laplace", Laplace(Fraction(1, 2)), lambda n: noise.rounded_laplace(8, size=n), 16, 0.9),
        additive(
            "noise: discrete Gaussian", DiscreteGaussian(2, 1), lambda n: noise.discrete_gaussian(2, size=n), 1, 0.7,
            delta=DELTA,
        ),
        additive("noise: rounded Gaussian", Gaussian(1), lambda n: noise.rounded_gaussian(1000, size=n), 1000, 0.9),
        Case(
            "noise: Bernoulli coin", promise(PureDP(1)),
            lambda n: noise.bernoulli(heads, size=n), lambda n: noise.bernoulli(1 - heads, size=n), 0.9,
        ),
        Case(
            "noise: weighted choice", promise(PureDP(1)),
            lambda n: noise.choose_weighted([271_828, 100_000, 100_000], size=n),
            lambda n: noise.choose_weighted([100_000, 271_828, 100_000], size=n), 0.9,
        ),
        # Nothing may be found here, so nothing must be: a uniform number plus a shift, modulo its range, says nothing.
        Case(
            "noise: uniform integers", nothing,
            lambda n: noise.uniform_integers(16, size=n), lambda n: (noise.uniform_integers(16, size=n) + 5) % 16, 0.0,
            why="a one-time pad leaks nothing; this case finds sources that do not cover their range evenly",
        ),
        Case(
            "noise: permutation", nothing,
            lambda n: np.array([noise.permutation(3) for _ in range(n)]),
            lambda n: np.array([noise.permutation(3)[::-1] for _ in range(n)]), 0.0,
            trials=4000, why="a uniform order leaks nothing about the order it was given",
        ),
    ]
