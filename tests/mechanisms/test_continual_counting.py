"""Continual counting: the measured combinations against explicit matrices, the price against their norms, the error against draws."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Gaussian, Laplace, NoOp, ParameterError, Repeated, account
from tacit.calculus import L1, L2, AddRemove, DomainError, Hamming, Integers, Lattice, MetricError, Rows, Space, Vectors, restate
from tacit.mechanisms import BinaryTree, binary_tree, continual_counting, square_root
from tacit.mechanisms.continual_counting import PRECISION, SquareRoot, _inverse, coefficients
from tacit.noise import test_mode as seeded

QUIET = Fraction(1, 10**4)  # rounded noise of this scale is 0 but for a probability below e^-5000


def stream(horizon: int, low: int = 0, high: int = 1) -> Space:
    return Space(Vectors(Integers(low, high), horizon), Hamming())


def tree_matrix(horizon: int) -> np.ndarray:
    """Row t: the items in the block that ends at t, the largest that divides t."""
    found = np.zeros((horizon, horizon), dtype=int)
    for t in range(1, horizon + 1):
        size = max(2**i for i in range(20) if t % 2**i == 0)
        found[t - 1, t - size : t] = 1
    return found


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 13, 64, 100])
def test_an_item_is_in_as_many_blocks_as_levels(horizon: int) -> None:
    mechanism = binary_tree(horizon, scale=1)
    matrix = tree_matrix(horizon)
    assert matrix.sum(axis=0).max() == mechanism.levels == math.floor(math.log2(horizon)) + 1
    decoded = np.linalg.inv(matrix.astype(float))
    running = np.tril(np.ones((horizon, horizon)))
    used = np.abs(np.rint(running @ decoded)).sum(axis=1)
    assert used.max() == mechanism.terms


@given(st.lists(st.integers(-3, 4), min_size=1, max_size=40))
@settings(max_examples=60)
def test_without_noise_both_count_exactly(items: list[int]) -> None:
    space = stream(len(items), -3, 4)
    wanted = np.cumsum(items)
    assert (space >> binary_tree(len(items), scale=QUIET)).function(items).tolist() == wanted.tolist()
    quiet = square_root(len(items), sigma=Fraction(1, 10**12))
    assert (space >> quiet).function(items) == pytest.approx(wanted, abs=1e-4)
    counter = binary_tree(len(items), scale=QUIET).open(space)
    assert [counter.push(item) for item in items] == wanted.tolist() and counter.time == len(items)
    second = quiet.open(space)
    assert [second.push(item) for item in items] == pytest.approx(wanted.tolist(), abs=1e-4)


@pytest.mark.parametrize("horizon", [1, 2, 5, 50, 300])
def test_the_coefficients_are_the_square_root(horizon: int) -> None:
    used = [Fraction(c, PRECISION) for c in coefficients(horizon)]
    exact = [Fraction(math.comb(2 * k, k), 4**k) for k in range(horizon)]
    assert max(abs(a - b) for a, b in zip(used, exact, strict=True)) <= Fraction(51, 100 * PRECISION)
    squared = np.convolve([float(e) for e in exact], [float(e) for e in exact])[:horizon]
    assert squared == pytest.approx(np.ones(horizon))  # (1 - z)^(-1/2) squared is 1 / (1 - z)


def filter_matrix(horizon: int) -> np.ndarray:
    used = coefficients(horizon)
    return np.array([[used[i - j] if i >= j else 0 for j in range(horizon)] for i in range(horizon)], dtype=float)


@pytest.mark.parametrize("horizon", [1, 2, 9, 120])
def test_the_norm_and_the_inverse_are_those_of_the_matrix(horizon: int) -> None:
    matrix = filter_matrix(horizon)
    columns = np.linalg.norm(matrix, axis=0) / PRECISION
    norm = square_root(horizon, sigma=1).norm
    assert float(norm) == pytest.approx(columns.max(), rel=1e-12) and norm**2 >= Fraction(
        sum(c * c for c in coefficients(horizon)), PRECISION**2
    )
    left = np.tril(np.ones((horizon, horizon))) @ np.linalg.inv(matrix)
    assert left[:, 0] == pytest.approx(_inverse(horizon), rel=1e-6, abs=1e-12)


def test_the_norm_grows_like_the_logarithm() -> None:
    """The sum of binom(2k, k)^2 / 16^k over k < T is (ln T + gamma + 4 ln 2) / pi + O(1/T)."""
    for horizon in (200, 2000):
        limit = (math.log(horizon) + 0.5772156649015329 + 4 * math.log(2)) / math.pi
        assert float(square_root(horizon, sigma=1).norm) ** 2 == pytest.approx(limit, abs=0.3 / horizon + 1e-3)


def test_prices() -> None:
    tree = stream(1000, 0, 3) >> binary_tree(1000, scale=30)
    assert tree.privacy(0) == NoOp() and tree.privacy(1) == Repeated(Laplace(10), 10) and tree.privacy(2) == Repeated(Laplace(5), 10)
    assert account(tree.event(1), Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(1)
    gaussian = stream(1000) >> BinaryTree.for_rho(Fraction(1, 10), horizon=1000)
    assert (
        account(gaussian.event(1), Adjacency.REPLACE_ONE).rho().upper
        <= 0.1
        <= account(gaussian.event(1), Adjacency.REPLACE_ONE).rho().upper * 1.0001
    )
    mechanism = SquareRoot.for_rho(Fraction(1, 10), horizon=500, width=4)
    root = stream(500, -2, 2) >> mechanism
    price = account(root.event(1), Adjacency.REPLACE_ONE).rho().upper
    assert price <= 0.1 * (1 + 1e-12) and price == pytest.approx(0.1)
    # from the matrix: the squared distance of two measurements over twice the variance
    worst = (np.linalg.norm(filter_matrix(500), axis=0).max() * 4) ** 2 / (2 * (float(mechanism.sigma) * PRECISION) ** 2)
    assert price == pytest.approx(worst, rel=1e-9)
    assert isinstance(root.privacy(1), Gaussian) and root.privacy(0) == NoOp()
    # the mutant forgets that an item is in every level
    assert account(Laplace(10), Adjacency.ADD_REMOVE).epsilon(0).upper < 0.11


@pytest.mark.parametrize(
    "make",
    [lambda: binary_tree(31, scale=4), lambda: binary_tree(31, scale=4, kind="gaussian"), lambda: square_root(31, sigma=4)],
    ids=["laplace", "gaussian", "root"],
)
def test_errors_are_kept(make) -> None:
    mechanism = make()
    plan = stream(31) >> mechanism
    with seeded(8):
        errors = np.array([np.abs(plan.function([1] * 31) - np.arange(1, 32)) for _ in range(250)])
    last = np.mean(errors[:, -1] > mechanism.error(0.1))
    assert last <= 0.17  # 250 draws at 0.1: mean 25, and 42 would be 3.6 standard deviations
    if not isinstance(mechanism, SquareRoot):
        assert last >= 0.03  # the bound is not far: time 31 has the most blocks
    assert np.mean((errors > mechanism.error(0.1, simultaneous=True)).any(axis=1)) <= 0.17
    assert np.mean(errors[:, -1] > mechanism.error(0.1) / 4) > 0.3  # the mutant, a quarter of the error, fails


def test_the_noise_is_as_wide_as_its_price_says() -> None:
    """The first total is the first measurement: its noise is sigma on the root, the scale's own law on the tree."""
    with seeded(12):
        root = [float((stream(2) >> square_root(2, sigma=4)).function([1, 0])[0]) for _ in range(800)]
        tree = [float((stream(2) >> binary_tree(2, scale=4, kind="gaussian")).function([1, 0])[0]) for _ in range(800)]
    # a sample deviation of 800 draws has a relative error of 1/40; rounding adds a twelfth to a variance of 16
    assert np.std(root) == pytest.approx(4, rel=0.1) and np.std(tree) == pytest.approx(4, rel=0.1)


def test_scale_for_accuracy_is_the_largest() -> None:
    for made in (BinaryTree.for_accuracy(50, 0.05, horizon=100), SquareRoot.for_accuracy(50, 0.05, horizon=100)):
        assert made.accuracy(0.05) <= 50
    tree = BinaryTree.for_accuracy(50, 0.05, horizon=100)
    assert binary_tree(100, scale=float(tree.scale) * 1.001).accuracy(0.05) > 50


def test_the_chooser_takes_the_smaller_error() -> None:
    chosen = continual_counting(2000, rho=0.5)
    tree = BinaryTree.for_rho(0.5, horizon=2000)
    assert isinstance(chosen, SquareRoot) and chosen.error(0.05) < 0.6 * tree.error(0.05)
    assert continual_counting(7, epsilon=1, width=2).scale == 6
    with pytest.raises(ParameterError, match="either"):
        continual_counting(7)


def test_lattices_nan_and_the_end_of_the_horizon() -> None:
    space = Space(Vectors(Lattice(Fraction(1, 4), 0, 2), 3), Hamming())
    counter = binary_tree(3, scale=QUIET).open(space)
    assert [counter.push(x) for x in (8, float("nan"), 10**30)] == [2.0, 2.0, 4.0]
    assert counter.event == (space >> binary_tree(3, scale=QUIET)).event(1)
    with pytest.raises(ParameterError, match="horizon"):
        counter.push(1)


def test_refusals() -> None:
    with pytest.raises(MetricError):
        Space(Rows(Integers(0, 1)), AddRemove()) >> binary_tree(5, scale=1)
    with pytest.raises(DomainError, match="horizon"):
        stream(4) >> square_root(5, sigma=1)
    with pytest.raises(DomainError, match="equal"):
        stream(4, 1, 1) >> square_root(4, sigma=1)
    with pytest.raises(ParameterError, match="kind"):
        binary_tree(4, scale=1, kind="cauchy")


@pytest.mark.parametrize("mechanism", [binary_tree(13, scale=4), binary_tree(13, scale=4, kind="gaussian"), square_root(13, sigma=4)])
def test_counts_without_bounds_are_priced_by_their_sum_of_changes(mechanism: BinaryTree | SquareRoot) -> None:
    """Under L1 a distance of d costs what d changed items of width 1 cost, and nothing is clamped."""
    counts, items = Space(Vectors(Integers(), 13), L1()), stream(13)
    for distance in (0, 1, 5):
        assert restate((mechanism.bind(counts)).event(distance), Adjacency.REPLACE_ONE) == mechanism.bind(items).event(distance)
    quiet = type(mechanism)(13, QUIET, *([mechanism.kind] if isinstance(mechanism, BinaryTree) else []))
    counter = quiet.open(counts)
    assert [round(counter.push(1000)) for _ in range(3)] == [1000, 2000, 3000]
    with pytest.raises(MetricError):
        mechanism.bind(Space(Vectors(Integers(), 13), L2()))
