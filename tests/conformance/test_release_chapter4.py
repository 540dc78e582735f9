"""Chapter 4 of the textbook (release and synthetic data) and section 4 of its companion: every figure of strategies, recomputed.

The figures were derived apart from this code: from least squares written out, from eigenvalues, from printed tables. Errors are those
of Laplace noise at epsilon 1 and Gaussian noise at sigma 1. Chapter 4.8 is in `test_release_chapter4_nonlinear.py`.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.workloads import AllRanges, Cells, Marginals, Prefix, Product
from tacit.workloads.marginals import residual_scales, table_weights
from tacit.workloads.optimal import p_identity, search, singular_value_bound, weighted_tree
from tacit.workloads.privtree import GRANULES, Tree
from tacit.workloads.strategy import Dense, Need, Strategy, haar, identity, levels, rms, squared_error

LAWS: Any = ("laplace", "gaussian")


# --- 4.2.1: linear queries ---


@pytest.mark.parametrize("size", [1, 4, 7])
def test_all_ranges_in_closed_form(size: int) -> None:
    """n (n + 1) / 2 rows; a column's norm is i (n + 1 - i); the Gram matrix min(i, j) (n + 1 - max(i, j))."""
    rows = np.array([[float(a <= i <= b) for i in range(size)] for a in range(size) for b in range(a, size)])
    factor = AllRanges(size)
    assert factor.questions == size * (size + 1) // 2 == len(rows)
    np.testing.assert_array_equal(np.sort(factor.matrix(), axis=0), np.sort(rows, axis=0))
    i, j = np.meshgrid(np.arange(1, size + 1), np.arange(1, size + 1))
    np.testing.assert_allclose(Need.of(factor).gram(), np.minimum(i, j) * (size + 1 - np.maximum(i, j)))
    asked = Product(x=AllRanges).on(Cells.of({"x": size}))
    most = max(k * (size + 1 - k) for k in range(1, size + 1))
    assert (asked.norm(1), asked.norm(2)) == pytest.approx((most, math.sqrt(most)))


@pytest.mark.parametrize(("columns", "ways"), [(4, 1), (4, 2), (6, 3)])
def test_all_marginals_of_so_many_columns(columns: int, ways: int) -> None:
    """C(m, k) tables, and a row is once in each."""
    names = [f"c{i}" for i in range(columns)]
    asked = Marginals(*names, ways=ways).on(Cells.of(dict.fromkeys(names, 2)))
    assert len(asked.terms) == math.comb(columns, ways) == asked.norm(1)


# --- 4.4.3: trees ---


@pytest.mark.parametrize(
    ("size", "branching", "expected"),
    [
        (4, 2, 125.142857), (8, 2, 938.666667), (16, 2, 6576.0983), (32, 2, 42995.2590), (64, 2, 264672.1515),
        (256, 2, 8710212.94), (256, 4, 5060277.60), (256, 16, 4453994.90),
        (1024, 2, 250092684.30), (1024, 4, 144643636.06), (1024, 32, 146520530.95), (4096, 2, 6.5316e9), (4096, 8, 3.1985e9),
    ],
)  # fmt: skip
def test_trees_by_least_squares(size: int, branching: int, expected: float) -> None:
    need = Need.of(AllRanges(size))
    assert squared_error(levels(size, branching), need, "laplace") == pytest.approx(expected, rel=2e-5 if expected > 1e9 else 1e-7)
    cells = size * (size + 1) * (size + 2) / 3
    assert squared_error(identity(size), need, "laplace") == pytest.approx(cells)
    if branching == 2:
        assert (squared_error(levels(size, 2), need, "laplace") < cells) == (size >= 1024)  # they cross between 256 and 1024


@pytest.mark.parametrize(("size", "most", "nodes", "naive"), [(4, 2, 13, 234), (8, 4, 65, 2080)])
def test_nodes_of_a_range(size: int, most: int, nodes: int, naive: int) -> None:
    """Without least squares a range is the sum of the fewest nodes that tile it, each off by 2 (log2 k + 1)^2."""

    def needed(low: int, high: int, first: int = 0, width: int = size) -> int:
        if low <= first and first + width <= high:
            return 1
        if high <= first or first + width <= low:
            return 0
        return needed(low, high, first, width // 2) + needed(low, high, first + width // 2, width // 2)

    counts = [needed(low, high) for low in range(size) for high in range(low + 1, size + 1)]
    height = int(math.log2(size)) + 1
    tree = levels(size, 2)
    assert float(tree.norm("laplace")) == height
    assert sum(block.size for block in tree.measure(np.zeros(size, dtype=np.int64), 0)) == 2 * size - 1
    assert (max(counts), sum(counts), 2 * height**2 * sum(counts)) == (most, nodes, naive)
    assert squared_error(tree, Need.of(AllRanges(size)), "laplace") < naive


# --- 4.4.4: the matrix mechanism ---


def test_the_worked_example() -> None:
    """All ranges of four cells: 288 as printed; least squares over H2 has |W A+|^2 = 146 / 21 (201 is printed, and is not reproduced)."""
    need = Need.of(AllRanges(4))
    ranges = Dense(AllRanges(4).matrix().astype(np.int64))
    assert squared_error(ranges, need, "laplace") == pytest.approx(288)
    assert 2 * AllRanges(4).questions * Product(x=AllRanges).on(Cells.of({"x": 4})).norm(1) ** 2 == 720  # each range by itself
    assert squared_error(levels(4, 2), need, "laplace") / (2 * 3**2) == pytest.approx(146 / 21)
    assert squared_error(p_identity(need, 1), need, "laplace") == pytest.approx(40, rel=1e-4)
    for size, alone, whole in ((8, 28800, 6400), (16, 2 * 136 * 72**2, 165888)):
        asked = Product(x=AllRanges).on(Cells.of({"x": size}))
        assert 2 * asked.questions * asked.norm(1) ** 2 == alone
        strategy = Dense(AllRanges(size).matrix().astype(np.int64))
        assert squared_error(strategy, Need.of(AllRanges(size)), "laplace") == pytest.approx(whole)


#: Root mean squares: name of the row, and for each workload Laplace and Gaussian.
ALL_1024, PREFIX_1024, ALL_256 = AllRanges(1024), Prefix(1024), AllRanges(256)
TABLE: list[tuple[Any, str, Any, float, float]] = [
    (ALL_1024, "identity", identity(1024), 26.153, 18.493), (PREFIX_1024, "identity", identity(1024), 32.016, 22.639),
    (ALL_256, "identity", identity(256), 13.115, 9.274),
    (ALL_1024, "H2", levels(1024, 2), 21.830, 4.654), (PREFIX_1024, "H2", levels(1024, 2), 17.290, 3.686),
    (ALL_256, "H2", levels(256, 2), 16.272, 3.835),
    (ALL_1024, "H4", levels(1024, 4), 16.602, 4.793), (PREFIX_1024, "H4", levels(1024, 4), 13.186, 3.807),
    (ALL_256, "H4", levels(256, 4), 12.403, 3.922),
    (ALL_1024, "H32", levels(1024, 32), 16.709, 6.822), (PREFIX_1024, "H32", levels(1024, 32), 13.853, 5.656),
    (ALL_256, "H16", levels(256, 16), 11.636, 4.750),
    (ALL_1024, "Haar", haar(1024), 20.256, 4.319), (PREFIX_1024, "Haar", haar(1024), 17.202, 3.667),
    (ALL_256, "Haar", haar(256), 14.871, 3.505),
]  # fmt: skip


@pytest.mark.parametrize(("factor", "name", "strategy", "laplace", "gaussian"), TABLE)
def test_the_table_of_strategies(factor: Any, name: str, strategy: Strategy, laplace: float, gaussian: float) -> None:
    need = Need.of(factor)
    assert (rms(strategy, need, "laplace"), rms(strategy, need, "gaussian")) == pytest.approx((laplace, gaussian), abs=6e-4)


@pytest.mark.parametrize(
    ("factor", "laplace", "gaussian"), [(ALL_1024, 12.430, 4.248), (PREFIX_1024, 10.907, 3.553), (ALL_256, 8.885, 3.436)]
)
def test_binary_trees_with_the_best_weights(factor: Any, laplace: float, gaussian: float) -> None:
    need = Need.of(factor)
    found = [rms(weighted_tree(need, law, 2), need, law) for law in LAWS]
    assert found == pytest.approx([laplace, gaussian], abs=6e-4)


@pytest.mark.parametrize(
    ("factor", "laplace", "gaussian"), [(ALL_1024, 4.939, 3.492), (PREFIX_1024, 4.115, 2.910), (ALL_256, 4.068, 2.876)]
)
def test_singular_values_below_every_strategy(factor: Any, laplace: float, gaussian: float) -> None:
    for law, least in zip(LAWS, (laplace, gaussian), strict=True):
        assert math.sqrt(singular_value_bound(Need.of(factor), law) / factor.questions) == pytest.approx(least, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "strategy", "laplace", "gaussian"),
    [
        ("identity", identity(64), 31.113, 22.000), ("H2", levels(64, 2), 89.977, 9.089), ("H8", levels(64, 8), 45.132, 10.638),
        ("Haar", haar(64), 72.300, 7.303),
    ],
)  # fmt: skip
def test_boxes_of_two_columns_multiply(name: str, strategy: Strategy, laplace: float, gaussian: float) -> None:
    """Variances are those of the columns multiplied, with one factor of the noise: 2 under Laplace noise, 1 under Gaussian."""
    need = Need.of(AllRanges(64))
    found = [rms(strategy, need, law) ** 2 / unit for law, unit in zip(LAWS, (2 ** 0.5, 1.0), strict=True)]
    assert found == pytest.approx([laplace, gaussian], abs=6e-4)


def test_p_identity_of_sixty_four_cells() -> None:
    """The specified total; the search has several starts, of which the best counts."""
    need = Need.of(AllRanges(64))
    assert squared_error(search(need, "laplace"), need, "laplace") <= 64125.34 * (1 + 1e-4)


# --- marginal tables ---

SIX, TEN = (2, 3, 5, 8, 10, 20), (10,) * 6


@pytest.mark.parametrize("ways", [(1,), (2,), (3,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("sizes", [SIX, TEN])
def test_residual_bases_in_closed_form(sizes: tuple[int, ...], ways: tuple[int, ...]) -> None:
    """The total variance at unit cost is S^2, S the sum over subsets A of wanted tables of sqrt(p_A v_A); to 1e-9."""
    named = {f"c{i}": size for i, size in enumerate(sizes)}
    wanted = [set(t) for k in ways for t in itertools.combinations(named, k)]
    root = 0.0
    for k in range(max(ways) + 1):
        for chosen in map(set, itertools.combinations(named, k)):
            over = [table for table in wanted if chosen <= table]
            cost = math.prod((named[c] - 1) / named[c] for c in chosen)
            spread = sum(math.prod(named[c] - 1 for c in chosen) / math.prod(named[c] for c in table - chosen) for table in over)
            root += math.sqrt(cost * spread)
    found = residual_scales(named, {tuple(c for c in named if c in table): 1.0 for table in wanted})
    assert found.total == pytest.approx(root**2, rel=1e-9)


@pytest.mark.parametrize(("ways", "most"), [((2,), 19.519), ((3,), 23.311), ((1, 2, 3), 26.349)])
def test_weighted_tables_under_laplace_noise(ways: tuple[int, ...], most: float) -> None:
    named = {f"c{i}": size for i, size in enumerate(TEN)}
    wanted = {t: 1.0 for k in ways for t in itertools.combinations(named, k)}
    cells = sum(math.prod(named[c] for c in t) for t in wanted)
    assert math.sqrt(table_weights(named, wanted).total / cells) <= most + 5e-4  # printed in three digits


# --- 4.5.2: PrivTree ---


@pytest.mark.parametrize(("columns", "scale", "step"), [(1, 3.0, 2.079442), (2, 2.333333, 3.234687), (3, 2.142857, 4.455946)])
def test_the_noise_of_privtree(columns: int, scale: float, step: float) -> None:
    """Boxes fall into 2, 4 and 8: (2 b - 1) / (b - 1), and its product with ln b, rounded up to a granule."""
    tree = Tree((8,) * columns, Fraction(1))
    assert float(tree.scale) == pytest.approx(scale, abs=5e-7)
    assert -1e-6 <= float(tree.step) - step <= 1 / GRANULES
