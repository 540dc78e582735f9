"""The best strategies: certified for Gaussian noise, at most the specified errors under Laplace noise."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.workloads import AllRanges, Cells, Identity, Predicates, Prefix, Product, best
from tacit.workloads.joint_strategy import unit_error
from tacit.workloads.optimal import gaussian_optimum, p_identity, search, singular_value_bound, weighted_tree
from tacit.workloads.strategy import Dense, Need, identity, rms, squared_error


@pytest.mark.parametrize(
    ("factor", "least"),
    [
        (AllRanges(4), 16.440887336), (AllRanges(8), 80.464265161), (AllRanges(16), 413.140216837),
        (Prefix(4), 6.874144097), (Prefix(16), 45.665356812),
    ],
)  # fmt: skip
def test_the_gaussian_optimum_and_its_certificate(factor, least: float) -> None:  # type: ignore[no-untyped-def]
    found = gaussian_optimum(Need.of(factor))
    assert found.error == pytest.approx(least, rel=2e-9) and 0 <= found.gap < 1e-8
    # the certificate is honest: the matrix attains the error, and its columns are no longer than 1
    assert np.sqrt((found.matrix**2).sum(axis=0).max()) <= 1 + 1e-9
    inverse = np.linalg.inv(found.matrix.T @ found.matrix)
    assert (Need.of(factor).gram() * inverse).sum() == pytest.approx(found.error, rel=1e-6)
    assert singular_value_bound(Need.of(factor), "gaussian") <= found.least * (1 + 1e-9)


def test_products_of_optima_are_optima() -> None:
    both = gaussian_optimum(Need.of(AllRanges(6))).error * gaussian_optimum(Need.of(Prefix(5))).error
    assert both == pytest.approx(386.372431859, rel=1e-8)


def test_longer_columns() -> None:
    need = Need.of(AllRanges(256))
    found = gaussian_optimum(need)
    assert found.gap < 1e-3
    assert rms(Dense.rounded(found.matrix), need, "gaussian") == pytest.approx(2.901435, rel=1e-4)
    assert rms(weighted_tree(need, "gaussian", 2), need, "gaussian") == pytest.approx(3.436, abs=1e-3)
    assert rms(weighted_tree(need, "laplace", 2), need, "laplace") <= 8.886
    assert rms(p_identity(need, 16), need, "laplace") <= 8.06  # HDMM's own figure is 8.1125


def test_boxes_under_laplace_noise() -> None:
    """Spec 09: at most 21.8 for the 2-D ranges of 64 x 64, a product of two columns' p-Identity."""
    boxes = Product(x=AllRanges, y=AllRanges).on(Cells.of({"x": 64, "y": 64}))
    assert (unit_error(best(boxes, "laplace"), boxes, "laplace") / boxes.questions) ** 0.5 <= 21.8


@pytest.mark.slow
def test_the_longest_columns() -> None:
    for factor, laplace, gaussian in ((AllRanges(1024), 11.1, 3.5155), (Prefix(1024), 9.6, 2.9565)):
        need = Need.of(factor)
        assert rms(search(need, "laplace"), need, "laplace") <= laplace
        assert rms(search(need, "gaussian"), need, "gaussian") <= gaussian


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_search_is_never_worse_than_single_cells(law) -> None:  # type: ignore[no-untyped-def]
    for factor in (Identity(5), Prefix(4), AllRanges(4), AllRanges(32)):
        need = Need.of(factor)
        assert squared_error(search(need, law), need, law) <= squared_error(identity(factor.size), need, law) * (1 + 1e-4)
    assert squared_error(search(Need.of(AllRanges(32)), "laplace"), Need.of(AllRanges(32)), "laplace") <= 10726.5


def test_cells_that_no_question_counts_leave_a_strategy() -> None:
    """One predicate over three of five cells: it is measured by itself, whatever the other cells are."""
    found = gaussian_optimum(Need.of(Predicates.of([[1, 0, 1, 1, 0]])))
    assert np.isfinite(found.matrix).all() and found.error == pytest.approx(1, rel=5e-3)
