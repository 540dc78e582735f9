"""Draws of `tacit.noise` and `tacit.mechanisms`, and what the accountant says about events: on small data, from seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from tests.before.frozen import Cases

from tacit import accounting as at
from tacit import calculus, mechanisms, noise

THIRD = Fraction(1, 3)
ADDED = at.Adjacency.ADD_REMOVE
REPLACED = at.Adjacency.REPLACE_ONE


# --- noise -------------------------------------------------------------------------------------------------------------------------------


def samplers() -> Cases:
    """Every sampler, one number and several, and parameters of every size."""

    def several(draw: Callable[..., Any], *parameters: Any) -> Any:
        return lambda: [[draw(parameter) for parameter in parameters], [draw(parameter, size=(2, 5)) for parameter in parameters]]

    logs, weights = [0.0, -1.5, 2.25, -40.0], [3, 1, 4, 0]
    found = {
        "bernoulli": several(noise.bernoulli, THIRD, 0.9, 0, 1),
        "bernoulli_exp": several(noise.bernoulli_exp, THIRD, 2.5, 0),
        "uniform_integers": several(noise.uniform_integers, 2, 7, 10**6, 2**40 + 3),
        "permutation": lambda: [noise.permutation(n) for n in (0, 1, 2, 9)],
        "geometric": several(noise.geometric, THIRD, 5, 1e6),
        "discrete_laplace": several(noise.discrete_laplace, THIRD, 5, 12345.678, 2**45),
        "discrete_gaussian": several(noise.discrete_gaussian, THIRD, 5, 12345.678, 2**45),
        "rounded_laplace": several(noise.rounded_laplace, 100, Fraction(2**30, 3), 2.0**50),
        "rounded_gaussian": several(noise.rounded_gaussian, 100, Fraction(2**30, 3), 2.0**50),
        "choose": lambda: [noise.choose(logs), noise.choose(logs, size=12), noise.choose([3, 1, 2], size=9, multiplier=THIRD)],
        "choose_weighted": lambda: [noise.choose_weighted(weights), noise.choose_weighted(weights, size=12)],
        "the lattice": lambda: [
            noise.granularity_for(1000),
            noise.steps_apart(3.5, Fraction(1, 8)),
            noise.round_to_lattice(np.array([0.3, -7.9, np.inf, np.nan]), Fraction(1, 8), bounds=(-4, 4)),
            noise.from_lattice(np.array([3, -5]), Fraction(1, 8)),
        ],
        "one after the other": lambda: [
            noise.rounded_laplace(50, size=3),
            noise.rounded_gaussian(50, size=3),
            noise.bernoulli(THIRD, size=3),
            noise.uniform_integers(100, size=3),
            noise.discrete_laplace(50, size=3),
        ],
    }
    return {f"noise: {name}": case for name, case in found.items()}


# --- mechanisms --------------------------------------------------------------------------------------------------------------------------


def released(plan: Any, data: Any, distance: Any = 1) -> Any:
    """A measurement's price, and two draws of it."""
    return lambda: [plan.event(distance), plan.release(data).value, plan.release(data).value]


def mechanisms_() -> Cases:
    """Every mechanism once or twice."""
    found = {**_added(), **_chosen(), **_rows(), **_fitted(), **_streams(), **_graphs(), "verify": _verified}
    return {f"mechanisms: {name}": case for name, case in found.items()}


def _added() -> Cases:
    m, c = mechanisms, calculus
    three = np.array([5, -2, 40])

    def vector(metric: Any, step: Any, data: Any = three, element: Any = None) -> Any:
        return released(c.Space(c.Vectors(element or c.Integers(), len(data)), metric) >> step, data)

    count = c.Space(c.Integers(), c.Absolute())
    people = c.Space(c.Vectors(c.Integers(0, 1), 6), c.Hamming())
    many = c.Space(c.Vectors(c.Integers(0, 4), 6), c.Hamming())
    return {
        "laplace": vector(c.L1(), m.laplace(Fraction(7, 2))),
        "laplace on a lattice": vector(c.L1(), m.laplace(3), element=c.Lattice(Fraction(1, 4))),
        "laplace, one number": released(count >> m.laplace(200), 41),
        "geometric": vector(c.L1(), m.geometric(3)),
        "geometric, truncated": vector(c.L1(), m.geometric(3, lower=0, upper=10), np.array([5, 0, 10])),
        "gaussian": vector(c.L2(), m.gaussian(4)),
        "discrete gaussian": vector(c.L2(), m.discrete_gaussian(4)),
        "staircase": released(count >> m.staircase(1, 3), 12, 3),
        "planar laplace": vector(c.L2(), m.planar_laplace(Fraction(1, 2)), np.array([3, 4])),
        "randomised response": released(people >> m.randomised_response(1, 2), np.array([0, 1, 1, 0, 1, 0])),
        "randomised response, five": released(many >> m.randomised_response(2, 5), np.array([0, 1, 4, 3, 2, 2])),
        "randomised response, coins": lambda: [m.from_coins().event, m.from_coins().privatise(np.array([0, 1] * 4))],
    }


def _chosen() -> Cases:
    m, c = mechanisms, calculus
    scores = [3, 0, 5, 4, 1]

    def of_scores(step: Any) -> Any:
        return released(c.Space(c.Vectors(c.Integers(), len(scores)), c.LInfinity()) >> step, scores)

    rows = c.Space(c.Rows(c.Integers(0, 100)), c.AddRemove())
    tries = m.candidate_selection([rows >> m.median(epsilon=Fraction(1, 2))], score=lambda value: -abs(value - 40), mean=4)
    people = c.Space(c.Rows(c.Anything()), c.AddRemove())
    keys = [["flu", "gout"]] * 9 + [["flu"]] * 30 + [["rare"]] * 2
    return {
        "above threshold": of_scores(m.above_threshold(epsilon=4, threshold=3)),
        "above threshold, two aboves": of_scores(m.above_threshold(epsilon=8, threshold=3, aboves=2)),
        "exponential": of_scores(m.exponential(1)),
        "permute and flip": of_scores(m.permute_and_flip(1)),
        "noisy max, exponential": of_scores(m.noisy_max(Fraction(2, 3), "exponential")),
        "noisy max, Gumbel": of_scores(m.noisy_max(Fraction(2, 3), "gumbel")),
        "top k": of_scores(m.top_k(2, 3)),
        "candidate selection": released(rows >> tries, [30, 40, 41, 77]),
        "optimal selection": released(people >> m.optimal_selection(epsilon=1, delta=1e-3, keys=2), keys),
        "best selection": released(people >> m.best_selection(1, 1e-3, keys=40), keys),
    }


def _rows() -> Cases:
    m, c = mechanisms, calculus
    ages = [3, 9, 9, 4, 10, 0, 6, 6]
    rows = c.Space(c.Rows(c.Integers(0, 10)), c.AddRemove())
    known = c.Space(c.Rows(c.Integers(0, 10), size=8), c.ReplaceOne())
    listed = c.Space(c.Rows(c.Categories(("a", "b", "c"))), c.AddRemove())
    free = c.Space(c.Rows(c.Integers()), c.AddRemove())
    quarters = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
    return {
        "histogram": lambda: [(found := (listed >> m.noisy_histogram(m.laplace(2))).release(list("abbcb"))).event, found.value.raw],
        "bounded mean": released(rows >> m.bounded_mean(m.laplace(5), m.laplace(1)), ages),
        "bounded mean, n public": released(known >> m.bounded_mean(m.laplace(5)), ages),
        "bounded variance": released(rows >> m.bounded_variance(m.geometric(5), m.geometric(25), m.geometric(1)), ages),
        "automatic bounds": released(free >> m.automatic_bounds(m.laplace(1), beta=1e-3), [5, 6, 7, 40] * 30),
        "quantile": released(rows >> m.quantile(Fraction(9, 10), epsilon=1), ages),
        "median": released(rows >> m.median(epsilon=1), ages),
        "minimum": released(rows >> m.minimum(epsilon=1), ages),
        "maximum": released(rows >> m.maximum(epsilon=1), ages),
        "quantiles": released(rows >> m.quantiles(quarters, 3), ages),
    }


def _fitted() -> Cases:
    m, c = mechanisms, calculus
    data = np.array([30] * 9 + [40] * 10 + [90] * 3)
    wide = c.Space(c.Rows(c.Integers(0, 100)), c.ReplaceOne())
    added = c.Space(c.Rows(c.Integers(0, 100)), c.AddRemove())
    blocks = m.sample_aggregate(lambda block: sorted(block)[len(block) // 2] if len(block) else 0, blocks=5, bounds=(0, 100))
    middle = m.smooth_quantile(Fraction(1, 4), epsilon=3)
    return {
        "smooth median": released(wide >> m.smooth_median(epsilon=3), data),
        "smooth median, delta": released(wide >> m.smooth_median(epsilon=3, delta=0.01), data),
        "smooth quantile": released(wide >> middle, data),
        "smooth quartiles": released(wide >> m.smooth_interquartile_range(epsilon=3), data),
        "propose median": released(wide >> m.propose_median(bound=10, epsilon=3, delta=0.05), data),
        "propose quartiles": released(wide >> m.propose_interquartile_range(bound=60, epsilon=3, delta=0.05), data),
        "propose, test, release": released(
            wide >> m.propose_test_release(middle.statistic, bound=10, epsilon=3, delta=0.05), data
        ),
        "sample and aggregate, mean": released(added >> blocks >> m.block_mean(epsilon=2), data),
        "sample and aggregate, median": released(added >> blocks >> m.block_median(epsilon=3), data),
    }


def _streams() -> Cases:
    m, c = mechanisms, calculus
    items = [1, 0, 1, 1, 0, 1, 1, 1]
    stream = c.Space(c.Vectors(c.Integers(0, 1), 8), c.Hamming())

    def pushed(step: Any) -> Any:
        def case() -> Any:
            counter = step.open(stream)
            return [counter.push(item) for item in items]

        return case

    return {
        "binary tree": released(stream >> m.binary_tree(8, scale=2), items),
        "binary tree, Gaussian": released(stream >> m.binary_tree(8, scale=2, kind="gaussian"), items),
        "square root": released(stream >> m.square_root(8, sigma=2), items),
        "binary tree, item by item": pushed(m.binary_tree(8, scale=2)),
        "square root, item by item": pushed(m.square_root(8, sigma=2)),
        "continual counting, epsilon": released(stream >> m.continual_counting(8, epsilon=1), items),
        "continual counting, rho": released(stream >> m.continual_counting(8, rho=0.1), items),
    }


def _graphs() -> Cases:
    m, c = mechanisms, calculus
    wheel = c.Graph.of([("hub", i) for i in range(5)] + [(i, (i + 1) % 5) for i in range(5)])
    space = c.Space(c.Graphs(), c.Nodes())
    found: Cases = {}
    for name, step in (
        ("edges", m.lipschitz_edge_count(max_degree=3)),
        ("triangles", m.triangle_count(max_degree=3)),
        ("cliques", m.clique_count(3, max_degree=3)),
        ("stars", m.star_count(2, max_degree=3)),
        ("degrees", m.lipschitz_degree_histogram(max_degree=3)),
    ):
        plan: Any = space >> step >> m.laplace(50)
        found[f"graph: {name}"] = released(plan, wheel)
    return found


def _verified() -> Any:
    exact = mechanisms.verify(mechanisms.geometric(2, lower=0, upper=5), [(value, value + 1) for value in range(5)], epsilon=1 / 2)
    return [exact.epsilon, exact.delta]


# --- accounting --------------------------------------------------------------------------------------------------------------------------


def strategies() -> dict[str, Any]:
    """Strategies of correlated noise. The one place here that knows where they live."""
    from tacit.deep.correlated import Buffered, SquareRoot, Toeplitz, Tree

    return {
        "tree": Tree(8),
        "square root": SquareRoot(8),
        "toeplitz": Toeplitz((1.0, 0.5, 0.25), 8),
        "buffered": Buffered((0.5, 0.25), (0.9, 0.3), 8),
    }


def events() -> dict[str, at.Event]:
    """One event of every class and of every scheme, and some that are nested."""
    g = at.Gaussian(1.1)
    found: dict[str, at.Event] = {
        "Gaussian": g,
        "Gaussian, exact": at.Gaussian(Fraction(22, 7), adjacency=REPLACED),
        "DiscreteGaussian": at.DiscreteGaussian(3, 2),
        "Laplace": at.Laplace(Fraction(3, 2)),
        "DiscreteLaplace": at.DiscreteLaplace(4, 2),
        "Staircase": at.Staircase(1),
        "Staircase, gamma": at.Staircase(1, Fraction(1, 3)),
        "RandomizedResponse": at.RandomizedResponse(1, 4),
        "Exponential": at.Exponential(Fraction(1, 2)),
        "Exponential, monotone": at.Exponential(Fraction(1, 2), True),
        "PureDP": at.PureDP(Fraction(1, 3)),
        "ApproxDP": at.ApproxDP(0.5, 1e-6),
        "LeakyRandomizedResponse": at.LeakyRandomizedResponse(1, 1e-3),
        "ZCDP": at.ZCDP(Fraction(1, 10)),
        "TruncatedCDP": at.TruncatedCDP(0.1, 20),
        "RenyiDP": at.RenyiDP(((2.0, 0.1), (8.0, 0.5), (32.0, 2.5))),
        "GDP": at.GDP(0.7),
        "PrivacyProfile": at.PrivacyProfile(((0.0, 0.1), (1.0, 0.01), (2.0, 1e-6))),
        "MixtureOfGaussians": at.MixtureOfGaussians(1.5, (0, 1, 2), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))),
        "Composed": at.Composed(g, at.Laplace(2), at.PureDP(0.1)),
        "Worst": at.Worst(g, at.Gaussian(2)),
        "Repeated": at.Repeated(g, 12),
        "Group": at.Group(at.Laplace(10), 3),
        "Selection": at.Selection(at.Gaussian(5), 10),
        "Selection, Poisson": at.Selection(at.Gaussian(5), 10, float("inf")),
        "NonPrivate": at.NonPrivate(),
        "NoOp": at.NoOp(),
        "Poisson": at.Repeated(at.Sampled(at.Poisson(Fraction(256, 60000)), g), 14062),
        "Poisson, Laplace": at.Sampled(at.Poisson(0.05), at.Laplace(2)),
        "TruncatedPoisson": at.Sampled(at.TruncatedPoisson(0.01, 1000, 20), g),
        "WithoutReplacement": at.Sampled(at.WithoutReplacement(1000, 10), at.Gaussian(2, adjacency=REPLACED)),
        "WithReplacement": at.Sampled(at.WithReplacement(1000, 10), at.Gaussian(2, adjacency=REPLACED)),
        "RandomAllocation": at.Sampled(at.RandomAllocation(10, 1), at.Gaussian(2)),
    }
    for name, strategy in strategies().items():
        found[f"MatrixMechanism, {name}"] = at.MatrixMechanism(2.0, strategy, participations=2, separation=4)
    return found


def prices() -> Cases:
    """The JSON of each event, and every figure that the accountant gives for it; where it gives none, the kind of error."""

    def case(name: str, event: at.Event) -> Any:
        return lambda: [event, at.from_json(at.to_json(event)) == event, _priced(event, SLOW.get(name, tuple(FIGURES)))]

    found = {name: case(name, event) for name, event in events().items()}
    found["calibrate"] = lambda: [
        at.calibrate(lambda z: at.Repeated(at.Sampled(at.Poisson(0.01), at.Gaussian(z)), 500), epsilon=2, delta=1e-5, adjacency=ADDED),
        at.calibrate(lambda z: at.Gaussian(z), epsilon=1, delta=1e-6, adjacency=REPLACED),
    ]
    return {f"accounting: {name}": case for name, case in found.items()}


#: What the accountant is asked. Some events take it minutes to answer everything about; of these fewer figures are kept.
FIGURES: dict[str, Callable[[at.Cost], Any]] = {
    "epsilon": lambda priced: priced.epsilon(1e-5),
    "delta": lambda priced: priced.delta(1.0),
    "rho": lambda priced: priced.rho(),
    "rdp": lambda priced: priced.rdp(4.0),
    "tpr": lambda priced: priced.tpr(0.05),
}
FEW = ("epsilon",)
SLOW = {
    **dict.fromkeys(("Composed", "RenyiDP", "Selection", "Selection, Poisson", "Poisson", "Poisson, Laplace"), FEW),
    **dict.fromkeys(("TruncatedPoisson", "WithReplacement", "RandomAllocation", "MixtureOfGaussians"), FEW),
}


def _priced(event: at.Event, names: Sequence[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for relation in (ADDED, REPLACED):
        for name in names:
            try:
                found = FIGURES[name](at.account(event, relation))
            except (at.AccountingError, ValueError) as error:
                found = type(error).__name__
            figures[f"{name}, {relation.value}"] = found
    return figures
