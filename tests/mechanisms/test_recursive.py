"""The recursive mechanism: every graph on up to six people, an oracle for the least degrees, and the law of the bound in fractions."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from tacit.accounting import Composed, Laplace, NoOp, ParameterError
from tacit.calculus import AddRemove, DomainError, Edges, Graph, Graphs, Integers, MetricError, Nodes, Rows, Space
from tacit.mechanisms import (
    FoundCount,
    edge_flow,
    exp_bracket,
    laplace,
    lipschitz_edge_count,
    recursive,
    recursive_clique_count,
    recursive_star_count,
)
from tacit.mechanisms.lipschitz_graph import STEP, Copies, cliques, stars
from tacit.mechanisms.recursive import RecursiveCount, least_removal, place_on, proposed, removable, rungs
from tacit.mechanisms.verify import Interval, max_divergence, pure

NODES, EDGES = Space(Graphs(), Nodes()), Space(Graphs(), Edges())
PATTERNS = {"edges": recursive_clique_count(2, epsilon=1), "triangles": recursive_clique_count(3, epsilon=1),
            "stars": recursive_star_count(2, epsilon=1)}  # fmt: skip
#: One that hardly rises, so that places are as far apart as they can be; one as it is used; one with whole and half numbers, for ties.
LADDERS = {"flat": (Fraction(1, 2),) * 9, "usual": rungs(1, 0.1)[:9], "ties": tuple(Fraction(j + 1, 2) for j in range(9))}


def pairs_of(n: int) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(n), 2))


@functools.cache
def kinds(n: int) -> np.ndarray:
    """For each set of pairs, as bits, the least set of the same graph with other names."""
    pairs = pairs_of(n)
    masks = np.arange(1 << len(pairs))
    least = masks.copy()
    for order in itertools.permutations(range(n)):
        moved = np.zeros_like(masks)
        for bit, (a, b) in enumerate(pairs):
            moved |= ((masks >> bit) & 1) << pairs.index(tuple(sorted((order[a], order[b]))))
        np.minimum(least, moved, out=least)
    return least


def drawn(n: int, mask: int) -> Graph:
    return Graph.of([pair for bit, pair in enumerate(pairs_of(n)) if mask >> bit & 1], range(n))


def bits(graph: Graph) -> tuple[int, int]:
    """The kind of a graph whose people are renamed 0, 1, ..."""
    name = {v: i for i, v in enumerate(sorted(graph.vertices))}
    place = {pair: bit for bit, pair in enumerate(pairs_of(len(name)))}
    mask = sum(1 << place[tuple(sorted(name[v] for v in edge))] for edge in graph.edges)
    return len(name), int(kinds(len(name))[mask])


def every_graph(most: int) -> Iterator[Graph]:
    for n in range(1, most + 1):
        for mask in np.unique(kinds(n)).tolist():
            yield drawn(n, mask)


@functools.cache
def place(ladder: str, pattern: str, n: int, kind: int) -> int:
    return place_on(LADDERS[ladder], PATTERNS[pattern].copies(drawn(n, kind)))


@pytest.mark.parametrize("ladder", LADDERS)
@pytest.mark.parametrize(("pattern", "most"), [("edges", 6), ("triangles", 6), ("stars", 5)])
def test_one_person_or_one_edge_moves_the_place_by_at_most_one(ladder: str, pattern: str, most: int) -> None:
    """All graphs on up to five or six people, each against all that lack one person, and all that differ in one pair."""
    seen = set()
    for graph in every_graph(most):
        whole = place(ladder, pattern, *bits(graph))
        for v in graph.vertices:
            moved = whole - place(ladder, pattern, *bits(graph.without(v)))
            assert moved in (0, 1)
            seen.add(moved)
        for edge in graph.edges:
            assert abs(whole - place(ladder, pattern, *bits(Graph(graph.vertices, graph.edges - {edge})))) <= 1
    assert seen == {0, 1}


def test_the_place_by_the_largest_degrees_alone_moves_further() -> None:
    """The mutant: people are removed whole, in the order of their degrees, and what that takes from the others is forgotten."""

    def careless(graph: Graph) -> int:
        degrees = sorted((graph.degree(v) for v in graph.vertices), reverse=True)
        return next(j for j, rung in enumerate(rungs(2, 0.05)) if j >= len(degrees) or degrees[j] <= rung)

    wheel = Graph.of([("hub", i) for i in range(8)] + [(i, (i + 1) % 8) for i in range(8)])
    assert careless(wheel) - careless(wheel.without("hub")) > 1
    assert place_on(rungs(2, 0.05), cliques(wheel, 2)) - place_on(rungs(2, 0.05), cliques(wheel.without("hub"), 2)) == 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_person_moves_the_count_by_at_most_the_bound(pattern: str) -> None:
    """Bounds that are no number of copies of any degree, too: those come out of the ladder."""
    rule = PATTERNS[pattern]
    for graph, bound in itertools.product(every_graph(4), (1, 2, 3, 5)):
        whole = rule.value(graph, rule.copies(graph), bound)
        for v in graph.vertices:
            less = graph.without(v)
            assert 0 <= whole - rule.value(less, rule.copies(less), bound) <= bound / rule.granularity
        if all(load <= bound for load in Counter(v for c in rule.copies(graph) for v in c).values()):
            assert whole * rule.granularity == len(rule.copies(graph))


def least_degree(copies: Copies, people: float) -> float:
    """The oracle: the least largest load after people of this weight are gone, as one programme over weights, copies and the load."""
    names = sorted({v for c in copies for v in c})
    n, m = len(names), len(copies)
    rows, limits = [], []
    for j, c in enumerate(copies):
        rows.append([-float(v in c) for v in names] + [-float(i == j) for i in range(m)] + [0.0])
        limits.append(-1.0)
    for v in names:
        rows.append([0.0] * n + [float(v in c) for c in copies] + [-1.0])
        limits.append(0.0)
    rows.append([1.0] * n + [0.0] * (m + 1))
    limits.append(people)
    found = linprog([0.0] * (n + m) + [1.0], A_ub=rows, b_ub=limits, bounds=[(0, 1)] * (n + m) + [(0, None)], method="highs-ipm")
    assert found.status == 0
    return float(found.fun)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_least_degree_is_that_of_another_programme(pattern: str) -> None:
    chance = random.Random(7)
    for _ in range(12):
        n = chance.randint(4, 8)
        graph = Graph.of([pair for pair in pairs_of(n) if chance.random() < 0.6], range(n))
        copies = PATTERNS[pattern].copies(graph)
        for people in range(4 if copies else 0):
            least = least_degree(copies, people)
            assert removable(copies, people, Fraction(least) + Fraction(1, 10**5))
            if least > 1e-4:
                assert not removable(copies, people, Fraction(least) - Fraction(1, 10**5))


def complete(n: int) -> Copies:
    return cliques(Graph.of(pairs_of(n)), 2)


def test_ties_are_settled_exactly() -> None:
    """K_n: weights may be averaged over the people, so with j gone the least degree is (n - 1)(1 - 2j / n), where 2j <= n."""
    tiny = Fraction(1, 10**15)
    for n, j in ((3, 1), (5, 1), (6, 1), (6, 2), (7, 2)):
        least = (n - 1) * (1 - Fraction(2 * j, n))
        assert removable(complete(n), j, least)
        assert not removable(complete(n), j, least - tiny)
    # stars: the hub's part goes; m (1 - w) = limit
    star = [frozenset(("hub", leaf)) for leaf in range(7)]
    assert least_removal(star, {"hub"}, Fraction(3)) == Fraction(4, 7)
    assert removable(star, 1, tiny) and not removable(star, 0, Fraction(7) - tiny)


def test_people_in_few_copies_may_go_too() -> None:
    """One person in 3 copies, with two others in each, who have 3 more copies of their own: the one is cheaper than a share of all six."""
    pairs = [(f"{i}a", f"{i}b") for i in range(3)]
    copies = [frozenset(("one", *pair)) for pair in pairs]
    copies += [frozenset((h, f"{h}{k}", f"{h}{k}'")) for pair in pairs for h in pair for k in range(3)]
    heavy = {h for pair in pairs for h in pair}
    assert removable(copies, 1, Fraction(3)) and least_degree(copies, 1) <= 3 + 1e-9
    assert least_removal(copies, heavy, Fraction(3)) <= 1
    # without that person's weight: each of a pair goes with w, and 3 (1 - w) + 1 - 2 w = 3
    assert least_removal([c - {"one"} for c in copies], heavy, Fraction(3)) == Fraction(6, 5)


@pytest.mark.parametrize("fault", ["fails", "zero", "large", "noisy", "not a number", "infinite"])
def test_a_solver_that_errs_changes_no_answer(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver only proposes: whatever it says, the answer is that of the graph."""
    import scipy.optimize

    cases = [(complete(5), j, Fraction(c, 7)) for j in (1, 2) for c in (4, 9, 14, 17, 20)]
    honest, true = [removable(*case) for case in cases], scipy.optimize.linprog
    assert set(honest) == {True, False}
    chance = np.random.default_rng(3)

    def wrong(*arguments: object, **options: object) -> object:
        found = true(*arguments, **options)
        if fault == "fails":
            found.status = 4
        bend = {
            "fails": lambda x: x, "zero": np.zeros_like, "large": lambda x: x * 1e6 + 1e6,
            "noisy": lambda x: x * chance.random(x.shape), "not a number": lambda x: np.full_like(x, np.nan),
            "infinite": lambda x: np.where(x > 0, np.inf, -np.inf),
        }[fault]  # fmt: skip
        found.x, found.ineqlin.marginals = bend(found.x), bend(found.ineqlin.marginals)
        return found

    monkeypatch.setattr(scipy.optimize, "linprog", wrong)
    assert [removable(*case) for case in cases] == honest


def test_proposals_settle_what_is_met_in_use() -> None:
    """A heavy-tailed graph of 400 people: no comparison with a rung of the ladder is left to the simplex in fractions."""
    copies, ladder = cliques(heavy_tailed(400, 3, 1), 2), rungs(1, 0.1)
    for j in range(1, 40, 4):
        heavy = {v for v, d in Counter(v for c in copies for v in c).items() if d > ladder[j]}
        if j < len(heavy):
            touching = [c for c in copies if not heavy.isdisjoint(c)]
            assert proposed(touching, heavy, j, ladder[j]) is not None


def heavy_tailed(people: int, edges: int, seed: int) -> Graph:
    """Each person chooses `edges` earlier ones in proportion to their degrees."""
    chance, ends, found = random.Random(seed), list(range(edges)), set()
    for v in range(edges, people):
        for other in {chance.choice(ends) for _ in range(edges)}:
            found.add((other, v))
            ends += [other, v]
    return Graph.of(found, range(people))


def place_law(place: int, share: Fraction, places: range) -> dict[int, Interval]:
    """Where place plus round(Laplace of scale 1/share) falls, cut to `places`, enclosed."""

    def above(k: int) -> Interval:
        """P(round(Z) >= k) = exp(-share (k - 1/2)) / 2 for k >= 1."""
        if k < 1:
            low, high = above(1 - k)
            return 1 - high, 1 - low
        low, high = exp_bracket(-share * (k - Fraction(1, 2)))
        return low / 2, high / 2

    found = {}
    for k in places:
        ends = (Fraction(1),) * 2 if k == places[0] else above(k - place)
        after = (Fraction(0),) * 2 if k == places[-1] else above(k + 1 - place)
        found[k] = (ends[0] - after[1], ends[1] - after[0])
    return found


def test_the_law_of_the_bound_keeps_its_half_and_a_mutant_does_not() -> None:
    share, places = Fraction(1, 2), range(12)
    for j in range(11):
        one, other = (place_law(place, share, places) for place in (j, j + 1))
        assert pure(one, other, share + Fraction(1, 10**30)), "the ratio is e^share itself, which a bracket of 128 bits cannot tell"
        assert not pure(one, place_law(j + 2, share, places), share), "a place that moves by 2 costs twice"
        assert not pure(*(place_law(place, 2 * share, places) for place in (j, j + 1)), share), "half the noise does not do"


def joint_law(rule: RecursiveCount, graph: Graph, last: int) -> dict[tuple[int, int], Interval]:
    """Bound and noisy count together, enclosed: the count in granules, cut to blocks of the granules around the two values."""
    copies, found = rule.copies(graph), {}
    for place, (low, high) in place_law(place_on(rule.ladder, copies) + rule.lift, rule.share, range(last + 1)).items():
        bound = rule.bound_at(place)
        rate = rule.share / (bound / rule.granularity)
        for steps, (under, over) in place_law(rule.value(graph, copies, bound), rate, range(-20, 41)).items():
            found[place, steps] = (low * under, high * over)
    return found


def test_the_whole_law_keeps_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star with and without its hub: the place moves by 1, and the count by as much as the bound allows; nearly all is spent."""
    rule = recursive_clique_count(2, epsilon=1, growth=Fraction(1, 2), too_low=Fraction(1, 3))
    star = Graph.of([("hub", leaf) for leaf in range(12)])
    monkeypatch.setattr(RecursiveCount, "ladder", rungs(1, Fraction(1, 2))[:8])
    laws = [joint_law(rule, graph, 7) for graph in (star, star.without("hub"))]
    found = max_divergence(*laws)
    assert found.lower > 0.9 and found.upper <= 1 + 1e-12
    assert place_on(rule.ladder, rule.copies(star)) == 1


def test_what_is_drawn_has_that_law() -> None:
    """2,000 bounds against the law of the place: every frequency within the binomial's ends of 1e-7, so 1e-5 for all together."""
    rule = recursive_clique_count(2, epsilon=2, least=2)
    plan = NODES >> rule
    graph = Graph.of([("hub", leaf) for leaf in range(4)])
    at, draws = place_on(rule.ladder, rule.copies(graph)) + rule.lift, 2000
    law, expected = place_law(at, rule.share, range(len(rule.ladder))), Counter[int]()
    for k, (low, _) in law.items():
        expected[rule.bound_at(k)] += low
    seen = Counter(plan.function(graph).bound for _ in range(draws))
    for bound, chance in expected.items():
        assert binom.ppf(1e-7, draws, float(chance)) <= seen[bound] <= binom.isf(1e-7, draws, float(chance))
    wrong = place_law(at + 1, rule.share, range(len(rule.ladder)))
    assert any(seen[rule.bound_at(k)] > binom.isf(1e-7, draws, float(high)) for k, (_, high) in wrong.items()), "one place off is seen"


def test_the_price() -> None:
    for space in (NODES, EDGES):
        plan = space >> recursive_clique_count(2, epsilon=Fraction(1, 2))
        assert plan.event(1) == Composed(Laplace(4), Laplace(4))
        assert plan.event(3) == Composed(Laplace(Fraction(4, 3)), Laplace(Fraction(4, 3)))
        assert plan.event(0) == NoOp()
        assert plan.proof is not None and "Chen" in plan.proof


def test_the_noise_on_the_count_is_as_wide_as_its_bound() -> None:
    """Each bound has the multiplier that the event says."""
    for rule, bound in itertools.product(PATTERNS.values(), (1, 7, 10**6)):
        noise = rule.noise(bound)
        assert noise.multiplier == 1 / rule.share
        assert noise.scales == (bound / rule.granularity / rule.share,)


def test_refusals() -> None:
    with pytest.raises(DomainError):
        Space(Rows(Integers()), AddRemove()) >> recursive_clique_count(2, epsilon=1)
    with pytest.raises(MetricError):
        Space(Graphs(), AddRemove()) >> recursive_clique_count(2, epsilon=1)
    with pytest.raises(DomainError):
        RecursiveCount("path", 3, 1)  # type: ignore[arg-type]
    for wrong in ({"epsilon": 0}, {"least": 0}, {"least": 2**41}, {"growth": 2}, {"growth": 1e-9}, {"too_low": 0}, {"too_low": 1}):
        with pytest.raises(ParameterError):
            recursive_clique_count(2, **{"epsilon": 1, **wrong})
    for beta, most in ((0.005, 10), (0.1, 2**41), (0.1, 0), (0, 1)):
        with pytest.raises(ParameterError):
            recursive_clique_count(2, epsilon=1).accuracy(beta, most=most)


@pytest.mark.parametrize("graph", [Graph.of([]), Graph.of([], range(3)), Graph.of([(0, 1)])])
def test_graphs_with_nothing_in_them_are_answered(graph: Graph) -> None:
    for rule in PATTERNS.values():
        found = (NODES >> rule).release(graph).value
        assert isinstance(found, FoundCount) and found.bound >= 1 and isinstance(found.value, float)


def test_the_ladder_rises_and_ends() -> None:
    for least, growth in ((1, 0.001), (1, 1), (7, 0.1), (2**40, 0.5)):
        ladder = rungs(least, growth)
        assert ladder[0] == least and ladder[-1] >= recursive.LARGEST > ladder[-2 if len(ladder) > 1 else 0] - 1
        assert all(a < b for a, b in itertools.pairwise(ladder))
        assert math.isclose(float(ladder[-1]), least * math.exp(growth * (len(ladder) - 1)), rel_tol=1e-4)


def errors(rule: RecursiveCount, graph: Graph, draws: int) -> tuple[float, list[int]]:
    plan, truth = NODES >> rule, len(rule.copies(graph))
    found = [plan.function(graph) for _ in range(draws)]
    return float(np.median([abs(answer.value - truth) for answer in found])), [answer.bound for answer in found]


@pytest.mark.parametrize(("graph", "gain"), [
    (Graph.of([(i, (i + k) % 300) for i in range(300) for k in (1, 2, 3)]), 5), (heavy_tailed(600, 3, 5), 2),
], ids=["no hubs", "heavy tail"])  # fmt: skip
def test_useful_where_only_the_number_of_people_is_known(graph: Graph, gain: float) -> None:
    """Against the Lipschitz count with n - 1 as its bound, at the same epsilon: the median error of 9 draws, and that of Laplace noise.

    The defaults were chosen on other graphs (decision 0161), and these by their seeds.
    """
    off, bounds = errors(recursive_clique_count(2, epsilon=2), graph, 9)
    most = len(graph.vertices) - 1
    assert edge_flow(graph, most) == 2 * len(graph.edges)
    assert off * gain < lipschitz_edge_count(max_degree=most).accuracy(0.5, noise=laplace(Fraction(most, 2)))
    assert max(bounds) < most


def test_the_error_is_kept_as_often_as_it_says() -> None:
    """300 draws at beta = 1/5 of graphs with degrees at most `most`: misses as often only with probability 1e-6."""
    star = Graph.of([("hub", leaf) for leaf in range(6)] + [(i, i + 1) for i in range(10, 30)])
    for rule in (recursive_clique_count(2, epsilon=2, least=6), recursive_clique_count(2, epsilon=4, least=2)):
        says, plan = rule.accuracy(0.2, most=6), NODES >> rule
        off = [abs(plan.function(star).value - len(star.edges)) for _ in range(300)]
        assert sum(x > says for x in off) <= binom.isf(1e-6, 300, 0.2)
    noise = recursive_clique_count(3, epsilon=2)
    assert noise.error(0.05, bound=4) >= 4 * math.log(20) - float(STEP) and noise.error(0.05, bound=8) > noise.error(0.05, bound=4)


def test_for_accuracy_keeps_it_at_the_least_price() -> None:
    for alpha, most in ((30, 2), (400, 20)):
        rule = RecursiveCount.for_accuracy(alpha, 0.1, most=most)
        assert rule.accuracy(0.1, most=most) <= alpha
        assert RecursiveCount("clique", 2, rule.epsilon * 0.9, most).accuracy(0.1, most=most) > alpha


def test_stars_are_counted_with_their_centres() -> None:
    graph = Graph.of([(0, 1), (0, 2), (0, 3)])
    assert len(recursive_star_count(2, epsilon=1).copies(graph)) == len(stars(graph, 2)) == 3
