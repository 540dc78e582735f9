"""What a channel's matrix says, against enumeration in fractions; dense and sparse, small slices and large, tell the same."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.leakage import channel as module
from tacit.audit.leakage.builders import randomised_response, truncated_geometric
from tacit.audit.leakage.channel import Channel, secret_pairs

Exact = list[list[Fraction]]


@st.composite
def systems(draw: st.DrawFn) -> tuple[Exact, list[Fraction]]:
    """A matrix and a prior of fractions, with zeros."""
    secrets, outputs = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rows = []
    for _ in range(secrets):
        weights = draw(st.lists(st.integers(0, 9), min_size=outputs, max_size=outputs).filter(any))
        rows.append([Fraction(w, sum(weights)) for w in weights])
    prior = draw(st.lists(st.integers(0, 9), min_size=secrets, max_size=secrets).filter(any))
    return rows, [Fraction(w, sum(prior)) for w in prior]


def floats(rows: Exact) -> np.ndarray:
    return np.array([[float(p) for p in row] for row in rows])


def brute_risk(rows: Exact, prior: list[Fraction]) -> Fraction:
    """The least error over every way to guess, one for each observation."""
    outputs, secrets = range(len(rows[0])), range(len(rows))
    best = [max(rows[s][o] * prior[s] for s in secrets) for o in outputs]
    return 1 - sum(best, Fraction(0))


@given(systems())
def test_risks_by_fractions(system: tuple[Exact, list[Fraction]]) -> None:
    rows, prior = system
    matrix, belief = floats(rows), [float(p) for p in prior]
    risk = brute_risk(rows, prior)
    for channel in (Channel(matrix, belief), Channel(csr_array(matrix), belief)):
        assert channel.bayes_risk() == pytest.approx(float(risk), abs=1e-14)
        assert channel.vulnerability() == pytest.approx(float(1 - risk), abs=1e-14)
        assert channel.guess_risk() == pytest.approx(float(1 - max(prior)), abs=1e-14)
        assert channel.risk_of(channel.bayes_classifier()) == channel.bayes_risk(), "exactly: it is the same guess"
        assert channel.multiplicative_leakage() == pytest.approx(float((1 - risk) / max(prior)), rel=1e-12)
        assert channel.additive_leakage() == pytest.approx(float(1 - max(prior) - risk), abs=1e-14)
        assert channel.min_entropy_leakage() == pytest.approx(math.log((1 - risk) / max(prior)), abs=1e-12)
        assert channel.leakage().multiplicative == pytest.approx(channel.multiplicative_leakage(), rel=1e-12)
        tops = sum((max(row[o] for row in rows) for o in range(len(rows[0]))), Fraction(0))
        assert channel.min_capacity() == pytest.approx(math.log(tops), abs=1e-12)


@given(systems())
def test_every_attacker_errs_at_least_as_much(system: tuple[Exact, list[Fraction]]) -> None:
    rows, prior = system
    channel = Channel(floats(rows), [float(p) for p in prior])
    secrets, outputs = len(rows), len(rows[0])
    for guess in itertools.islice(itertools.product(range(secrets), repeat=outputs), 40):
        exact = 1 - sum((rows[s][o] * prior[s] for o, s in enumerate(guess)), Fraction(0))
        assert channel.risk_of(list(guess)) == pytest.approx(float(exact), abs=1e-14)
        assert channel.risk_of(list(guess)) >= channel.bayes_risk()


@settings(max_examples=50)
@given(systems())
def test_laws_and_entropies_by_fractions(system: tuple[Exact, list[Fraction]]) -> None:
    rows, prior = system
    matrix = floats(rows)
    law = [sum((rows[s][o] * prior[s] for s in range(len(rows))), Fraction(0)) for o in range(len(rows[0]))]
    information = sum(
        float(rows[s][o] * prior[s]) * math.log(rows[s][o] / law[o])
        for s, o in itertools.product(range(len(rows)), range(len(law)))
        if rows[s][o] * prior[s]
    )
    entropy = -sum(float(p) * math.log(p) for p in prior if p)
    for channel in (Channel(matrix, [float(p) for p in prior]), Channel(csr_array(matrix), [float(p) for p in prior])):
        assert channel.marginal() == pytest.approx([float(p) for p in law], abs=1e-15)
        posterior = channel.posterior()
        dense = posterior.toarray() if channel.sparse else posterior
        for s, o in itertools.product(range(len(rows)), range(len(law))):
            assert dense[s, o] == pytest.approx(float(rows[s][o] * prior[s] / law[o]) if law[o] else 0.0, abs=1e-14)
        assert channel.mutual_information() == pytest.approx(information, abs=1e-12)
        assert channel.entropy() == pytest.approx(entropy, abs=1e-12)
        assert channel.conditional_entropy(base=2) == pytest.approx(max(0.0, entropy - information) / math.log(2), abs=1e-12)
        assert channel.min_entropy(base=2) == pytest.approx(-math.log2(max(prior)), abs=1e-12)


@settings(max_examples=50)
@given(systems())
def test_epsilon_by_fractions(system: tuple[Exact, list[Fraction]]) -> None:
    rows, prior = system
    pairs = list(itertools.combinations(range(len(rows)), 2))
    worst = 0.0
    successive = 0.0
    for (s, t), o in itertools.product(pairs, range(len(rows[0]))):
        a, b = sorted([rows[s][o], rows[t][o]])
        gap = 0.0 if b == 0 else math.inf if a == 0 else math.log(b / a)
        worst = max(worst, gap)
        successive = max(successive, gap) if t == s + 1 else successive
    for matrix in (floats(rows), csr_array(floats(rows)), coo_array(floats(rows))):
        channel = Channel(matrix, [float(p) for p in prior])
        assert channel.epsilon() == pytest.approx(worst, abs=1e-12)
        assert channel.epsilon(pairs) == pytest.approx(worst, abs=1e-12)
        assert channel.epsilon([(s, s + 1) for s in range(len(rows) - 1)]) == pytest.approx(successive, abs=1e-12)


def test_adjacency_in_each_form_and_distances() -> None:
    channel = truncated_geometric(4, 8, 0.5)
    pairs = [(0, 1), (1, 2), (2, 3)]
    ring = np.zeros((4, 4), dtype=np.bool_)
    for s, t in pairs:
        ring[s, t] = True
    assert channel.epsilon(pairs) == pytest.approx(1.0)
    assert channel.epsilon(ring) == channel.epsilon(csr_array(ring)) == channel.epsilon(np.array(pairs)) == channel.epsilon(pairs)
    assert channel.epsilon([(0, 3), (0, 1)], distances=[3, 1]) == pytest.approx(1.0), "per step"
    assert channel.epsilon([(0, 3)], distances=[1]) == pytest.approx(3.0)
    assert secret_pairs([], 4).shape == (0, 2) and channel.epsilon([]) == 0


@given(st.integers(2, 5), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_what_is_learnt_is_bounded_by_epsilon_and_reaches_it(secrets: int, outputs: int, key: int) -> None:
    """Theorem 15.3, both directions; over all priors the gain reaches epsilon itself, not half of it."""
    draws = np.random.default_rng(key)
    matrix = draws.dirichlet(np.ones(outputs), size=secrets) + 1e-4
    channel = Channel(matrix / matrix.sum(axis=1, keepdims=True), draws.dirichlet(np.ones(secrets)))
    gain, epsilon = channel.knowledge_gain(), channel.epsilon()
    assert gain <= epsilon + 1e-12
    assert epsilon <= 2 * gain + 1e-12
    near = [channel.with_prior(np.where(np.arange(secrets) == t, 1 - 1e-9 * (secrets - 1), 1e-9)).knowledge_gain() for t in range(secrets)]
    assert max(near) == pytest.approx(epsilon, rel=1e-3)


def test_a_tiny_risk_keeps_its_digits() -> None:
    channel = truncated_geometric(100, 10_000, 1.0)
    assert channel.bayes_risk() == pytest.approx(0.99 * math.exp(-50), rel=1e-9, abs=0)
    assert 1 - channel.vulnerability() != pytest.approx(0.99 * math.exp(-50), rel=0.5, abs=0), "a difference would have lost them"


def test_gains_and_losses_by_enumeration() -> None:
    rows = [[Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], [Fraction(1, 6), Fraction(1, 6), Fraction(2, 3)]]
    prior = [Fraction(3, 4), Fraction(1, 4)]
    table = [[0, 5], [1, 0], [Fraction(1, 2), Fraction(1, 2)]]
    expected = [[sum((rows[s][o] * prior[s] * table[w][s] for s in range(2)), Fraction(0)) for w in range(3)] for o in range(3)]
    for matrix in (floats(rows), csr_array(floats(rows))):
        channel = Channel(matrix, [0.75, 0.25])
        assert channel.bayes_risk(loss=np.array(table, dtype=float)) == pytest.approx(float(sum(min(row) for row in expected)))
        assert channel.vulnerability(gain=np.array(table, dtype=float)) == pytest.approx(float(sum(max(row) for row in expected)))
        assert channel.vulnerability(gain=np.eye(2)) == pytest.approx(channel.vulnerability())
        assert channel.bayes_risk(loss=1 - np.eye(2)) == pytest.approx(channel.bayes_risk())


def test_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = generator(5).dirichlet(np.full(7, 0.3), size=23)
    prior = generator(6).dirichlet(np.ones(23))
    whole = Channel(matrix, prior)
    before = (whole.bayes_risk(), whole.mutual_information(), whole.knowledge_gain(), whole.bayes_classifier().tolist())
    pairs = list(itertools.combinations(range(23), 2))
    exact = whole.epsilon(pairs)
    monkeypatch.setattr(module, "_SLICE", 20)
    again = Channel(matrix, prior)
    after = (again.bayes_risk(), again.mutual_information(), again.knowledge_gain(), again.bayes_classifier().tolist())
    assert after[:3] == pytest.approx(before[:3], rel=1e-12) and after[3] == before[3]
    assert again.epsilon(pairs) == exact


def test_capacity_of_known_channels() -> None:
    flip = 0.11
    symmetric = Channel(np.array([[1 - flip, flip], [flip, 1 - flip]]), prior=[0.9, 0.1])
    entropy = -(flip * math.log(flip) + (1 - flip) * math.log(1 - flip))
    assert math.log(2) - entropy in symmetric.capacity()
    erasure = Channel(np.array([[0.7, 0.3, 0.0], [0.0, 0.3, 0.7]]))
    assert 0.7 * math.log(2) in erasure.capacity() and erasure.capacity().width < 1e-8
    z = Channel(np.array([[1.0, 0.0], [0.5, 0.5]]))
    assert math.log(5 / 4) in z.capacity(), "the Z channel at one half: log2(5/4) bits"


def test_samples_follow_the_matrix() -> None:
    """Dense and sparse draws alike, within seven deviations of the exact probability; a wrong matrix is caught by the same check."""
    channel = randomised_response(3, 1.0, prior=[0.5, 0.3, 0.2])
    sparse = Channel(csr_array(channel.matrix), channel.prior)
    size = 40_000
    for which in (channel, sparse):
        secrets, seen = which.sample(size, generator(3))
        found = np.zeros((3, 3))
        np.add.at(found, (secrets, seen), 1 / size)
        assert _distance(found, channel.joint(), size) < 7
        assert _distance(found, randomised_response(3, 0.8, prior=[0.5, 0.3, 0.2]).joint(), size) > 7, "the mutant"
    assert sparse.sample(100, generator(4))[1].tolist() == channel.sample(100, generator(4))[1].tolist()


def _distance(found: np.ndarray, joint: np.ndarray, size: int) -> float:
    return float((np.abs(found - joint) / np.sqrt(joint * (1 - joint) / size)).max())


def test_zero_entries_are_never_drawn_and_given_secrets_are_kept() -> None:
    channel = Channel(np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]))
    secrets, seen = channel.sample(1000, generator(1), secrets=[0, 1] * 500)
    assert secrets.tolist() == [0, 1] * 500
    assert set(seen[::2]) == {1} and set(seen[1::2]) == {0, 2}


def test_a_channel_is_read_only() -> None:
    channel = randomised_response(3, 1.0)
    for array in (channel.matrix, channel.prior, channel.observations):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        channel.prior = channel.prior  # type: ignore[misc]
    assert repr(channel) == "Channel(3 secrets, 3 observations, dense)"
    assert "sparse, 9 entries" in repr(Channel(csr_array(channel.matrix)))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Channel(np.array([[0.5, 0.4]])), "sum to one"),
        (lambda: Channel(np.array([[1.5, -0.5]])), "probabilities"),
        (lambda: Channel(np.array([[math.nan, 1.0]])), "probabilities"),
        (lambda: Channel(csr_array(np.array([[1.5, -0.5]]))), "probabilities"),
        (lambda: Channel(np.ones(3)), "matrix"),
        (lambda: Channel(np.ones((0, 3))), "matrix"),
        (lambda: Channel(np.eye(2), [0.5, 0.6]), "prior"),
        (lambda: Channel(np.eye(2), [1.0]), "prior"),
        (lambda: Channel(np.eye(2), None, [1.0]), "observations"),
        (lambda: Channel(np.eye(2), None, [1.0, math.inf]), "observations"),
        (lambda: Channel(np.eye(2)).risk_of([0]), "classifier"),
        (lambda: Channel(np.eye(2)).risk_of([0, 2]), "classifier"),
        (lambda: Channel(np.eye(2)).bayes_risk(loss=[[1.0]]), "loss"),
        (lambda: Channel(np.eye(2)).epsilon([(0, 5)]), "adjacency"),
        (lambda: Channel(np.eye(2)).epsilon(csr_array(np.eye(3))), "adjacency"),
        (lambda: Channel(np.eye(2)).epsilon(distances=[1.0]), "adjacency"),
        (lambda: Channel(np.eye(2)).epsilon([(0, 1)], distances=[0.0]), "distances"),
        (lambda: Channel(np.eye(2)).sample(3, generator(1), secrets=[0, 1, 2]), "secrets"),
    ],
    ids=[
        *("row sum", "negative", "nan", "sparse negative", "vector", "empty", "prior sum", "prior length", "observations", "infinite"),
        *("classifier length", "classifier range", "loss", "pair", "graph", "lonely distances", "zero distance", "secrets"),
    ],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
