"""Floors on risk and on epsilon: attained where they should be, never above the truth, inverse to each other."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from tacit.accounting import ParameterError
from tacit.audit.leakage.bounds import (
    Leakage,
    central_epsilon_floor,
    central_leakage_ceiling,
    central_risk_floor,
    cover_hart_floor,
    frequentist_rate,
    graph_distances,
    graph_epsilon_floor,
    graph_risk_floor,
    local_epsilon_floor,
    local_leakage_ceiling,
    local_risk_floor,
    pair_risk_floor,
    posterior_range,
    transitive_risk_floor,
)
from tacit.audit.leakage.builders import product, randomised_response
from tacit.audit.leakage.channel import Channel

epsilons = st.floats(0.01, 8)
GRAPHS = {
    "path": (5, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "cycle": (6, [(i, (i + 1) % 6) for i in range(6)]),
    "star": (5, [(0, i) for i in range(1, 5)]),
    "two parts": (4, [(0, 1), (2, 3)]),
    "clique": (4, list(itertools.combinations(range(4), 2))),
}


def least_risk(size: int, pairs: list[tuple[int, int]], epsilon: float, prior: np.ndarray, delta: float = 0.0) -> float:
    """The least Bayes risk of any channel private along the pairs: a linear programme with one output a secret, which is the guess.

    One such output is enough, since merging outputs with the same guess keeps the risk and the privacy. With delta (a clique only) each
    single output is held to it, as the merged decision regions must be.
    """
    cells = size * size
    rows, limits = [], []
    for s, t in pairs:
        for a, b in ((s, t), (t, s)):
            for o in range(size):
                row = np.zeros(cells)
                row[a * size + o], row[b * size + o] = 1, -math.exp(epsilon)
                rows.append(row)
                limits.append(delta)
    sums = np.kron(np.eye(size), np.ones(size))
    gain = np.zeros(cells)
    gain[[s * size + s for s in range(size)]] = prior
    found = linprog(-gain, A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(size), bounds=(0, 1))
    return float(1 + found.fun)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("name", GRAPHS)
def test_no_channel_on_a_graph_beats_the_floor(name: str, epsilon: float) -> None:
    size, pairs = GRAPHS[name]
    distances = graph_distances(size, pairs)
    best = least_risk(size, pairs, epsilon, np.full(size, 1 / size))
    floor = graph_risk_floor(epsilon, distances)
    assert floor <= best + 1e-9
    if name in ("cycle", "clique", "two parts"):  # every secret sees the same graph: the floor is attained
        assert floor == pytest.approx(best, abs=1e-9)
    skewed = np.arange(1.0, size + 1) / (size * (size + 1) / 2)
    assert graph_risk_floor(epsilon, distances, guess_risk=1 - skewed.max()) <= least_risk(size, pairs, epsilon, skewed) + 1e-9


def test_the_average_vertex_would_be_wrong() -> None:
    """The theorem asks for a vertex-transitive graph for a reason: on a star the hub's counts are not a bound, the worst vertex's are."""
    size, pairs = GRAPHS["star"]
    best = least_risk(size, pairs, 1.0, np.full(size, 1 / size))
    hub = transitive_risk_floor(1.0, [1, 4])
    assert hub > best + 0.05
    assert graph_risk_floor(1.0, graph_distances(size, pairs)) <= best


@pytest.mark.parametrize(("secrets", "epsilon", "delta"), [(2, 1.0, 0.1), (3, 0.5, 0.05), (4, 2.0, 0.01), (3, 1.0, 1.0)])
def test_delta_in_the_local_floor_is_tight(secrets: int, epsilon: float, delta: float) -> None:
    pairs = list(itertools.combinations(range(secrets), 2))
    best = least_risk(secrets, pairs, epsilon, np.full(secrets, 1 / secrets), delta)
    assert local_risk_floor(epsilon, secrets, delta=delta) == pytest.approx(max(0.0, best), abs=1e-9)
    assert local_risk_floor(epsilon, secrets) > local_risk_floor(epsilon, secrets, delta=delta)


@given(epsilons, st.integers(2, 50))
def test_randomised_response_attains_the_local_floor(epsilon: float, secrets: int) -> None:
    channel = randomised_response(secrets, epsilon)
    floor = local_risk_floor(epsilon, secrets)
    assert channel.bayes_risk() == pytest.approx(floor, rel=1e-12)
    assert channel.min_entropy_leakage() == pytest.approx(local_leakage_ceiling(epsilon, secrets), rel=1e-9, abs=1e-12)
    assert local_epsilon_floor(floor, secrets) == pytest.approx(epsilon, rel=1e-9)
    clique = graph_distances(secrets, itertools.combinations(range(secrets), 2))
    assert graph_risk_floor(epsilon, clique) == pytest.approx(floor, rel=1e-12)
    assert transitive_risk_floor(epsilon, [1, secrets - 1]) == pytest.approx(floor, rel=1e-12)


@given(epsilons, st.integers(1, 5))
def test_independent_responses_attain_the_central_floor(epsilon: float, records: int) -> None:
    channel = randomised_response(2, epsilon)
    whole = channel
    for _ in range(records - 1):
        whole = product(whole, channel)
    floor = central_risk_floor(epsilon, records)
    assert whole.bayes_risk() == pytest.approx(floor, rel=1e-11)
    assert whole.min_entropy_leakage() == pytest.approx(central_leakage_ceiling(epsilon, records), rel=1e-9, abs=1e-12)
    assert central_epsilon_floor(floor, records) == pytest.approx(epsilon, rel=1e-8)
    cube = [(a, a ^ (1 << bit)) for a in range(2**records) for bit in range(records)]
    assert graph_risk_floor(epsilon, graph_distances(2**records, cube)) == pytest.approx(floor, rel=1e-11)
    assert transitive_risk_floor(epsilon, [math.comb(records, d) for d in range(records + 1)]) == pytest.approx(floor, rel=1e-11)


@given(epsilons, st.integers(2, 12), st.floats(0, 1), st.floats(0, 0.3))
def test_the_local_floors_are_inverse_for_every_prior(epsilon: float, secrets: int, share: float, delta: float) -> None:
    guess = (1 - 1 / secrets) * share
    floor = local_risk_floor(epsilon, secrets, guess_risk=guess, delta=delta)
    if floor > 1e-9:
        assert local_epsilon_floor(floor, secrets, guess_risk=guess, delta=delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)
    central = central_risk_floor(epsilon, 3, guess_risk=guess * 7 / 8 / (1 - 1 / secrets))
    if central > 1e-9:
        assert central_epsilon_floor(central, 3, guess_risk=guess * 7 / 8 / (1 - 1 / secrets)) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)


@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_no_channel_is_less_private_than_its_risk_says(secrets: int, outputs: int, key: int) -> None:
    """Random channels and priors: the epsilon implied by the exact Bayes risk is never above the channel's own."""
    draws = np.random.default_rng(key)
    matrix = draws.dirichlet(np.full(outputs, 0.7), size=secrets) if outputs > 1 else np.ones((secrets, 1))
    matrix = (matrix + 1e-6) / (matrix + 1e-6).sum(axis=1, keepdims=True)
    channel = Channel(matrix, draws.dirichlet(np.ones(secrets)))
    true = channel.epsilon()
    assert channel.leakage().local_epsilon() <= true + 1e-9
    assert channel.with_prior(np.full(secrets, 1 / secrets)).leakage().local_epsilon() <= true + 1e-9
    pairs = [(s, s + 1) for s in range(secrets - 1)]
    path = graph_distances(secrets, pairs)
    assert graph_epsilon_floor(channel.bayes_risk(), path, guess_risk=channel.guess_risk()) <= channel.epsilon(pairs) + 1e-9


def test_the_graph_floors_are_inverse() -> None:
    for size, pairs in GRAPHS.values():
        distances = graph_distances(size, pairs)
        for epsilon in (0.2, 1.0, 3.0):
            assert graph_epsilon_floor(graph_risk_floor(epsilon, distances), distances) == pytest.approx(epsilon, rel=1e-9)
        assert graph_epsilon_floor(0.0, distances) == math.inf
        assert graph_epsilon_floor(1.0, distances) == 0


@given(st.floats(0.001, 0.999), epsilons)
def test_posteriors_by_bayes_on_the_worst_pair(prior: float, epsilon: float) -> None:
    posterior = randomised_response(2, epsilon, prior=[prior, 1 - prior]).posterior()[0]
    assert posterior_range(prior, epsilon) == pytest.approx((posterior[1], posterior[0]), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta", "prior"), list(itertools.product([0.0, 0.7, 2.0], [0.0, 0.1, 1.0], [0.0, 0.3, 0.5, 0.9])))
def test_two_hypotheses_by_linear_programming(epsilon: float, delta: float, prior: float) -> None:
    """Errors a, b with a + e^eps b >= 1 - delta and the reverse."""
    grown = math.exp(epsilon)
    best = linprog([prior, 1 - prior], A_ub=[[-1, -grown], [-grown, -1]], b_ub=[delta - 1] * 2, bounds=(0, 1)).fun
    assert pair_risk_floor(epsilon, delta, prior=prior) == pytest.approx(best, abs=1e-9)


def test_cover_and_hart_on_two_sides() -> None:
    """For two secrets the limit error of the nearest neighbour is the mean of 2 p (1 - p): the floor is p if p is constant."""
    for p in (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)):
        assert cover_hart_floor(float(2 * p * (1 - p)), 2) == pytest.approx(float(p), rel=1e-12)
    assert cover_hart_floor(1.0, 5) == pytest.approx(0.8)


def test_the_rate_is_the_chance_of_an_unseen_output() -> None:
    assert frequentist_rate(0.2, 0.8, 10, 7) == pytest.approx(0.2 + 0.6 * 0.9**7, rel=1e-12)


def test_units_agree() -> None:
    leak = Leakage(0.3, 0.9, 10)
    assert leak.min_entropy() == pytest.approx(math.log(leak.multiplicative))
    assert leak.min_entropy(base=2) == pytest.approx(math.log2(7))
    assert leak.additive == pytest.approx(0.6) and leak.bayes_security == pytest.approx(1 / 3)
    assert Leakage(1.0, 0.9, 10).min_entropy() == -math.inf
    assert Leakage(0.0, 0.0, 1).bayes_security == 1
    assert leak.local_epsilon() == pytest.approx(math.log(9 * 0.7 / 0.3))
    assert Leakage(0.25, 0.5, 2).central_epsilon(1) == pytest.approx(math.log(3))


def test_extremes_give_no_nonsense() -> None:
    assert local_epsilon_floor(1.0, 5) == 0 and local_epsilon_floor(0.0, 5) == math.inf
    assert local_epsilon_floor(0.0, 5, delta=1.0) == 0, "delta one promises nothing, so nothing refutes it"
    assert central_epsilon_floor(0.0, 4) == math.inf and central_epsilon_floor(1.0, 4) == 0
    assert local_risk_floor(700.0, 10**9) > 0, "small, not zero: exponents are kept"
    assert central_risk_floor(30.0, 1) == pytest.approx(math.exp(-30) / (1 + math.exp(-30)), rel=1e-12)
    assert central_risk_floor(1.0, 5000) == 1.0
    assert posterior_range(0, 3) == (0, 0) and posterior_range(1, 3) == (1, 1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: local_risk_floor(-1, 2), "epsilon"),
        (lambda: local_risk_floor(1, 1), "secrets"),
        (lambda: local_risk_floor(1, 4, guess_risk=0.9), "guess_risk"),
        (lambda: local_epsilon_floor(1.5, 2), "risk"),
        (lambda: graph_distances(2, [(0, 2)]), "pairs"),
        (lambda: graph_risk_floor(1, [[0, 1], [2, 0]]), "distances"),
        (lambda: graph_risk_floor(1, [0, 1]), "distances"),
        (lambda: transitive_risk_floor(1, [2, 3]), "counts"),
        (lambda: central_risk_floor(1, 0), "records"),
        (lambda: Leakage(-0.1, 0.5, 2), "bayes_risk"),
    ],
    ids=["epsilon", "secrets", "guess", "risk", "pairs", "asymmetric", "no matrix", "counts", "records", "leakage"],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
