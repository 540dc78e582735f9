"""Compositions by enumeration, dense and sparse; post-processing never leaks more, and two looks never more than the sum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tacit.accounting import ParameterError
from tacit.audit.leakage.builders import cascade, parallel, product
from tacit.audit.leakage.channel import Channel


def random_matrix(key: int, secrets: int, outputs: int) -> np.ndarray:
    draws = np.random.default_rng(key)
    matrix = draws.dirichlet(np.ones(outputs), size=secrets)
    matrix[matrix < 0.1] = 0.0
    matrix[:, 0] += 1e-3
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


sizes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31))


@settings(max_examples=25)
@given(sizes)
def test_entries_by_enumeration(size: tuple[int, int, int, int]) -> None:
    secrets, outputs, others, key = size
    left, right = random_matrix(key, secrets, outputs), random_matrix(key + 1, secrets, others)
    after = random_matrix(key + 2, outputs, others)
    for wrap, twist in itertools.product((np.asarray, csr_array), repeat=2):
        first, second, then = Channel(wrap(left)), Channel(twist(right)), Channel(twist(after))
        chained, both, apart = (_dense(c) for c in (cascade(first, then), parallel(first, second), product(first, second)))
        for s, o, p in itertools.product(range(secrets), range(outputs), range(others)):
            assert chained[s, p] == pytest.approx(sum(left[s, i] * after[i, p] for i in range(outputs)), abs=1e-14)
            assert both[s, o * others + p] == pytest.approx(left[s, o] * right[s, p], abs=1e-15)
            for t in range(secrets):
                assert apart[s * secrets + t, o * others + p] == pytest.approx(left[s, o] * right[t, p], abs=1e-15)
        assert parallel(first, second).observations.tolist() == [[o, p] for o in range(outputs) for p in range(others)]


def _dense(channel: Channel) -> np.ndarray:
    return np.asarray(channel.matrix.toarray() if channel.sparse else channel.matrix)


@given(sizes)
def test_leakage_under_composition(size: tuple[int, int, int, int]) -> None:
    secrets, outputs, others, key = size
    prior = np.random.default_rng(key).dirichlet(np.ones(secrets))
    first, second = Channel(random_matrix(key, secrets, outputs), prior), Channel(random_matrix(key + 1, secrets, others), prior)
    after = cascade(first, Channel(random_matrix(key + 2, outputs, others)))
    assert after.bayes_risk() >= first.bayes_risk() - 1e-12
    assert after.mutual_information() <= first.mutual_information() + 1e-12
    assert after.epsilon() <= first.epsilon() + 1e-9
    both = parallel(first, second)
    assert both.bayes_risk() <= min(first.bayes_risk(), second.bayes_risk()) + 1e-12
    assert both.epsilon() <= first.epsilon() + second.epsilon() + 1e-9
    assert both.mutual_information() <= first.mutual_information() + second.mutual_information() + 1e-12
    apart = product(first, second)
    assert apart.min_entropy_leakage() == pytest.approx(first.min_entropy_leakage() + second.min_entropy_leakage(), abs=1e-12)
    assert apart.mutual_information() == pytest.approx(first.mutual_information() + second.mutual_information(), abs=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ParameterError, match="then"):
        cascade(Channel(np.eye(2)), Channel(np.eye(3)))
    with pytest.raises(ParameterError, match="prior"):
        parallel(Channel(np.eye(2)), Channel(np.eye(2), [0.9, 0.1]))
