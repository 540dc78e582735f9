"""Builders: laws by enumeration in fractions, closed forms of the Bayes risk, sparse and dense alike."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.leakage.builders import (
    Grid,
    from_laws,
    planar_geometric,
    random_channel,
    randomised_response,
    spiky,
    truncated_geometric,
    truncated_geometric_epsilon,
)
from tacit.mechanisms import geometric


@given(st.integers(2, 20), st.floats(0, 30))
def test_randomised_response(secrets: int, epsilon: float) -> None:
    channel = randomised_response(secrets, epsilon)
    assert channel.epsilon() == pytest.approx(epsilon, abs=1e-12)
    assert channel.matrix[0, 0] == pytest.approx(float(mpmath.exp(epsilon) / (mpmath.exp(epsilon) + secrets - 1)), rel=1e-13)


@given(st.integers(2, 12), st.integers(2, 40), st.floats(0.01, 5))
def test_truncated_geometric_is_noise_with_the_tails_on_the_edges(secrets: int, outputs: int, nu: float) -> None:
    channel = truncated_geometric(secrets, outputs, nu)
    with mpmath.workdps(30):
        ratio = mpmath.exp(-mpmath.mpf(nu))
        scale = (1 - ratio) / (1 + ratio)
        for s in {0, secrets // 2, secrets - 1}:
            centre = s * outputs // secrets
            for o in range(outputs):
                # the sum of the untruncated law over all whole numbers that are clamped to o
                below = ratio ** (centre - o) / (1 - ratio) if o == 0 else ratio ** abs(o - centre)
                if o == 0:
                    below = ratio**centre / (1 - ratio)
                elif o == outputs - 1:
                    below = ratio ** (o - centre) / (1 - ratio)
                assert channel.matrix[s, o] == pytest.approx(float(scale * below), rel=1e-11)
    sparse = truncated_geometric(secrets, outputs, nu, sparse=True)
    assert sparse.sparse and np.abs(sparse.matrix.toarray() - channel.matrix).max() < 1e-15
    assert channel.epsilon() == pytest.approx(truncated_geometric_epsilon(secrets, outputs, nu), rel=1e-9, abs=1e-9)
    pairs = [(s, s + 1) for s in range(secrets - 1)]
    assert channel.epsilon(pairs) == pytest.approx(truncated_geometric_epsilon(secrets, outputs, nu, neighbours=True), rel=1e-9, abs=1e-9)


def test_epsilon_where_the_matrix_has_underflowed() -> None:
    assert truncated_geometric(100, 10_000, 1.0).epsilon() == math.inf, "the matrix as it stands"
    assert truncated_geometric_epsilon(100, 10_000, 1.0) == 9_900, "the mechanism"


def test_random_and_spiky() -> None:
    channel = random_channel(20, 30, generator(1))
    assert channel.matrix.shape == (20, 30) and channel.matrix.min() > 0
    again = random_channel(20, 30, generator(1))
    assert (channel.matrix == again.matrix).all()
    odd = spiky(12)
    assert odd.bayes_risk() == 0 and odd.epsilon() == math.inf and odd.guess_risk() == 0.5
    assert odd.bayes_classifier().tolist() == [0, 1] * 6


def test_laws_of_a_mechanism() -> None:
    noise = geometric(3, lower=0, upper=7)
    channel = from_laws([noise.distribution(value) for value in range(8)])
    assert channel.observations.tolist() == list(range(8))
    same = truncated_geometric(8, 8, 1 / 3)
    assert np.abs(channel.matrix - same.matrix).max() < 1e-15
    words = from_laws([{"yes": Fraction(3, 4), "no": Fraction(1, 4)}, {"no": Fraction(1)}])
    assert words.matrix.tolist() == [[0.75, 0.25], [0.0, 1.0]] and words.observations.tolist() == [0, 1]
    with pytest.raises(ParameterError, match="laws"):
        from_laws([{"yes": 0.5}])
    with pytest.raises(ParameterError, match="laws"):
        from_laws([])


def test_planar_geometric_by_enumeration() -> None:
    map_ = Grid(3, 2, 150, left=10)
    outer = map_.around(1, 2)
    channel = planar_geometric(map_, outer, 4, prior=np.arange(1, 7) / 21)
    weights = np.array([[4 ** (-math.dist(s, o) / 100) for o in outer.centres()] for s in map_.centres()])
    expected = weights / weights.sum(axis=1, keepdims=True)
    assert channel.matrix == pytest.approx(expected, rel=1e-12)
    assert channel.observations == pytest.approx(outer.centres())


def test_rescaled_rows_do_not_keep_the_promise_per_metre() -> None:
    """On a bounded square the factor of (15.61) depends on the secret, so the rate between secrets exceeds ln(nu) / 100."""
    map_ = Grid(3, 3, 150)
    channel = planar_geometric(map_, map_.around(0, 3), 2)
    pairs = list(itertools.combinations(range(9), 2))
    metres = [math.dist(map_.centres()[s], map_.centres()[t]) for s, t in pairs]
    assert channel.epsilon(pairs, distances=metres) > 1.05 * math.log(2) / 100


def test_grids() -> None:
    grid = Grid(2, 3, 10, left=5, bottom=-10)
    assert grid.centres().tolist() == [[10, -5], [20, -5], [10, 5], [20, 5], [10, 15], [20, 15]]
    assert [edge.tolist() for edge in grid.edges()] == [[5, 15, 25], [-10, 0, 10, 20]]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: randomised_response(1, 1.0), "secrets"),
        (lambda: truncated_geometric(2, 1, 1.0), "outputs"),
        (lambda: truncated_geometric(2, 4, 0.0), "nu"),
        (lambda: spiky(3), "outputs"),
        (lambda: planar_geometric(Grid(1, 2, 1), Grid(1, 2, 1), 1.0), "nu"),
        (lambda: Grid(0, 1, 1), "columns"),
        (lambda: Grid(1, 1, 0), "cell"),
    ],
    ids=["one secret", "one output", "no rate", "odd", "nu one", "columns", "cell"],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
